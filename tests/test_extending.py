"""The documents do what they say: the examples of the front door and the README, and the drafter of the guide."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "The cat sat on the mat. The cat sat on the"


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)


def python(*arguments: str, path: Path, home: Path) -> str:
    """What an interpreter of its own prints."""
    paths = os.pathsep.join(map(str, (path, ROOT)))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_of_the_front_door_and_the_readme_run(tmp_path: Path) -> None:
    """Both start in a fresh interpreter; the README's ends by printing speed-ups."""
    (example,) = blocks("README.md", "python")
    assert len(example.strip().splitlines()) <= 6
    script = f"import doctest, specdiff_core\nassert doctest.testmod(specdiff_core).attempted > 4\n{example}"
    printed = python("-W", "error::SyntaxWarning", "-c", script, path=ROOT, home=tmp_path)
    assert re.search(r"\d\.\d", printed), printed
    assert "Failed example" not in printed


def test_the_drafter_of_the_guide_works_from_an_installed_package(tmp_path: Path) -> None:
    """The guide's two blocks are the whole package: it is decoded, raced, traced, replayed, benched and offered."""
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (source,), (project,) = blocks("docs/extending.md", "python"), blocks("docs/extending.md", "toml")
    (package / "specdiff_bigram.py").write_text(source, "utf-8")
    (package / "pyproject.toml").write_text(project, "utf-8")
    install = ["pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--quiet"]
    python("-m", *install, "--target", str(site), str(package), path=ROOT, home=tmp_path)
    script = f"""
from specdiff_core.cli import main

setting = "--drafter bigram --gamma 4 --max-new-tokens 32 --temperature 0.6 --json --prompt".split() + [{PROMPT!r}]
assert not main(["race", *setting, "--rule", "match"])
assert not main(["race", *setting, "--trace", "own.jsonl.gz"])
assert not main(["replay", "own.jsonl.gz", "--json"])
assert not main(
    "bench sweep --drafters bigram --gamma 2 --steps 1 --first 1 --max-new-tokens 8 --json own.json --prompts".split()
    + [{str(ROOT / "tests" / "prompts.jsonl")!r}]
)

import app.controls, app.tabs.live

assert "bigram" in [name for _, name in app.controls.drafter_choices("embedded")]
assert app.tabs.live.plan({{"drafter": "bigram", "gamma": 4, "steps": 1}})["drafted"].drafter == "bigram"
"""
    printed = python("-c", script, path=site, home=tmp_path)
    matched, raced, replayed = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    assert matched["same_text_as_vanilla"]
    assert 0 < raced["drafted"]["alpha"] < 1, "p/q must have accepted some tokens, and refused some"
    assert replayed["lanes"]["drafted"]["token_ids"] == raced["drafted"]["token_ids"]
    assert (tmp_path / "own.rows.jsonl").read_text("utf-8").count("bigram") >= 3, "a row for each repeat"
