"""What may be imported where (with import-linter, which ./lab test runs), where randomness and time come from, and how
large shipped files may be.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdiff_core.schema.events import Committed, Finished, PiecesSeen, RunStarted
from specdiff_core.schema.trace import write_trace

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([ROOT / "app.py", *(ROOT / "app").rglob("*.py"), *(ROOT / "specdiff_core").rglob("*.py")])


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ}
    )


def shipped() -> list[Path]:
    """Files that a clone has: tracked, or not ignored."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):  # no repository: an unpacked archive
        return [path for path in ROOT.rglob("*") if path.is_file() and not {".git", ".venv"} & set(path.parts)]
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


GUARD = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "tokenizers", "numpy", "gradio"}:
            raise ImportError(f"{name} must not be imported here")
sys.meta_path.insert(0, Refuse())
from specdiff_core.cli import main
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", [[], ["decode"], ["race"], ["bench"], ["replay"], ["pairs"], ["train"]])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    done = run_python("-c", GUARD, *command, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_replay_needs_neither_torch_nor_a_tokenizer(tmp_path: Path) -> None:
    run = [
        PiecesSeen(pieces={7: "Once"}),
        RunStarted(
            config={"drafter": "block", "rule": "ratio"},
            prompt="Once",
            prompt_ids=(7,),
            models={},
            device="cpu",
            dtype="fp32",
            reason="",
            threads=1,
            versions={},
            grain="step",
            lossless=True,
        ),
        PiecesSeen(pieces={8: " upon", 9: " a"}),
        Committed(round=0, ids=(8, 9), sources=("draft", "residual"), total=2, at=0.5),
        Finished(reason="length", text=" upon a", ids=(8, 9), rounds=1, seconds=0.5),
    ]
    write_trace(tmp_path / "run.jsonl.gz", {"drafted": run})
    done = run_python("-c", GUARD, "replay", str(tmp_path / "run.jsonl.gz"))
    assert done.returncode == 0, done.stderr
    assert "Once upon[ a]" in done.stdout
    assert "2.00 tokens per round" in done.stdout


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Names of everything that a file calls or passes on, with line numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Name):
            yield node.id, node.lineno


def test_chance_and_time_have_one_home() -> None:
    """Only maths/randomness.py and training, with generators of its own, seed or draw; the product never sleeps."""
    draws = {
        "manual_seed",
        "seed_all",
        "rand",
        "rand_like",
        "randn",
        "randn_like",
        "randint",
        "multinomial",
        "bernoulli",
        "default_rng",
        "normal_",
        "exponential_",
        "uniform_",
    }
    elsewhere = {
        ("specdiff_core/measure/statistics.py", "default_rng"),  # the bootstrap resamples what was measured
        ("app/measure.py", "default_rng"),
        ("specdiff_core/explorations/losslessness.py", "default_rng"),  # a constructed case, and the floor of the noise
        ("specdiff_core/explorations/losslessness.py", "multinomial"),
        ("specdiff_core/explorations/learn.py", "manual_seed"),  # training text, as in specdiff_core/train
        ("specdiff_core/explorations/learn.py", "default_rng"),
        ("specdiff_core/models/mdlm.py", "normal_"),  # weights that training begins with
        ("specdiff_core/models/dflash.py", "normal_"),
        ("specdiff_core/models/markov.py", "normal_"),
    }
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        for word, line in calls(path):
            if (name, word) in elsewhere:
                continue
            if (
                word in draws
                and name != "specdiff_core/maths/randomness.py"
                and not name.startswith("specdiff_core/train/")
            ):
                pytest.fail(f"{name}:{line} draws or seeds ({word}); specdiff_core/maths/randomness.py is the place")
            assert word != "sleep", f"{name}:{line} sleeps"
            if name.startswith("specdiff_core/train/"):
                assert word not in {"rand_like", "randn_like"}, f"{name}:{line} draws without a generator"
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert "random" not in imported, f"{name} imports random"


def test_shipped_files_are_small() -> None:
    files = shipped()
    large = [f"{path.name}: {path.stat().st_size}" for path in files if path.stat().st_size > 9_500_000]
    assert not large, large
    assets = sum(path.stat().st_size for path in files if ROOT / "assets" in path.parents)
    assert assets < 80_000_000, f"assets hold {assets} bytes"


def test_the_launcher_holds_no_logic() -> None:
    body = ast.parse((ROOT / "app.py").read_text()).body
    assert [type(node).__name__ for node in body] == ["Expr", "ImportFrom", "If"]
