"""Runs the node tests of the player's pure modules, on a trace whose sums Python counted."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from app_fakes import FakeDecoder

from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import dump_trace

HERE = Path(__file__).resolve().parent
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed; it is needed only to test the player's JavaScript")
@pytest.mark.parametrize("name", ["calm", "compare", "fold", "player", "race", "words"])
def test_javascript(name: str, tmp_path: Path) -> None:
    """Every test of one file passes."""
    config = DecodeConfig(gamma=6, steps=3, temperature=1.0, max_new_tokens=40)
    lanes = {
        "vanilla": list(FakeDecoder().decode("Once", dataclasses.replace(config, drafter="none"))),
        "drafted": list(FakeDecoder().decode("Once", config)),
    }
    fixture = tmp_path / "fixture.json"
    metrics = {lane: dataclasses.asdict(fold(events)) for lane, events in lanes.items()}
    fixture.write_text(
        json.dumps({"trace": dump_trace(lanes, title="t").decode(), "metrics": metrics}), encoding="utf-8"
    )
    # The module files are named .js; a package file beside a copy tells node that they are modules.
    modules = tmp_path / "app" / "static"
    shutil.copytree(HERE.parent / "app" / "static", modules)
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    tests = tmp_path / "tests" / "js"
    shutil.copytree(HERE / "js", tests)
    done = subprocess.run(
        [str(NODE), "--test", str(tests / f"{name}.test.mjs")],
        env={**os.environ, "SPECDIFF_FIXTURE": str(fixture)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_class_has_a_method_twice() -> None:
    """The later one would win without a word."""
    for path in sorted((Path(__file__).resolve().parent.parent / "app" / "static").glob("*.js")):
        for body in re.split(r"^export class |^class ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
            names = re.findall(r"^  ((?:async |get |set )?\w+)\([^\n]*\) \{$", body.split("\n}\n")[0], flags=re.M)
            assert names and len(names) == len(set(names)), (path.name, sorted(names))
