"""What may be imported where (with import-linter, which ./lab test runs), where randomness and time
come from, and how large shipped files may be.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import picture
from app_fakes import FakeDecoder
from shipped import ROOT, shipped

from specdiff_core.schema.events import Committed, Finished, PiecesSeen, RunStarted
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

SOURCES = sorted([ROOT / "app.py", *(ROOT / "app").rglob("*.py"), *(ROOT / "specdiff_core").rglob("*.py")])


GUARD = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "tokenizers", "numpy", "gradio"}:
            raise ImportError(f"{name} must not be imported here")
sys.meta_path.insert(0, Refuse())
from specdiff_core.cli import main
for words in COMMANDS:
    try:
        ended = main(words)
    except SystemExit as end:
        ended = end.code
    assert not ended, words
"""
COMMANDS = [[], ["decode"], ["race"], ["bench"], ["replay"], ["pairs"], ["train"]]


def test_help_and_replay_need_neither_torch_nor_a_tokenizer(tmp_path: Path) -> None:
    run = [
        PiecesSeen(pieces={0: "Once"}),
        next(event for event in FakeDecoder().decode("Once", DecodeConfig()) if isinstance(event, RunStarted)),
        PiecesSeen(pieces={8: " upon", 9: " a"}),
        Committed(round=0, ids=(8, 9), sources=("draft", "residual"), total=2, at=0.5),
        Finished(reason="length", text=" upon a", ids=(8, 9), rounds=1, seconds=0.5),
    ]
    write_trace(tmp_path / "run.jsonl.gz", {"drafted": run})
    commands = [*([*words, "--help"] for words in COMMANDS), ["replay", str(tmp_path / "run.jsonl.gz")]]
    script = GUARD.replace("COMMANDS", repr(commands))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") == len(COMMANDS)
    assert "Once upon[ a]" in done.stdout
    assert "2.00 tokens per round" in done.stdout


DRAWS = re.compile(
    "manual_seed|seed_all|rand|rand_like|randn|randn_like|randint|multinomial|bernoulli|default_rng|(normal|exponential"
    "|uniform)_"
)
"""What seeds or draws."""
DRAWING = {
    "specdiff_core/maths/randomness.py": DRAWS,
    "specdiff_core/train/": re.compile(r"(?!rand_like|randn_like)\w+"),  # with generators of its own
    "specdiff_core/measure/statistics.py": re.compile("default_rng"),  # the bootstrap resamples what was measured
    "specdiff_core/explorations/joint.py": re.compile("default_rng|multinomial"),  # the floor of the noise
    "specdiff_core/explorations/engines.py": re.compile("default_rng"),  # which letter hides which
    "specdiff_core/explorations/study/tables.py": re.compile("default_rng"),  # made-up distributions
    "specdiff_core/explorations/study/twins.py": re.compile("manual_seed|default_rng"),  # training text
    "specdiff_core/models/mdlm.py": re.compile("normal_"),  # weights that training begins with
    "specdiff_core/models/dflash.py": re.compile("normal_"),
    "specdiff_core/models/markov.py": re.compile("normal_"),
}
"""Beginning of a path -> what may seed or draw there."""


def test_chance_and_time_have_one_home() -> None:
    """Nothing else seeds or draws, or imports ``random``; no thread of the product sleeps."""
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        allowed = next((words for begin, words in DRAWING.items() if name.startswith(begin)), re.compile("(?!)"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            assert word != "sleep" or ast.unparse(node) == "asyncio.sleep", f"{name} sleeps"
            assert not DRAWS.fullmatch(word) or allowed.fullmatch(word), f"{name} draws or seeds ({word})"
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert "random" not in imported, f"{name} imports random"


def test_the_picture_is_drawn_from_the_imports() -> None:
    assert picture.picture() in picture.FILE.read_text(encoding="utf-8"), "run python -m tests.picture"


def test_shipped_files_are_small() -> None:
    files = shipped()
    large = [f"{path.name}: {path.stat().st_size}" for path in files if path.stat().st_size > 9_500_000]
    assert not large, large
    assets = sum(path.stat().st_size for path in files if ROOT / "assets" in path.parents)
    assert assets < 80_000_000, f"assets hold {assets} bytes"
