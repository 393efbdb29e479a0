"""Kept events of a sweep: found again by prompt, repeat and cell, joined into races, folded into the same numbers."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specdiff_core import cli
from specdiff_core.bench import sweep as sweep_module
from specdiff_core.bench.cells import BASELINE, Cell, grid
from specdiff_core.bench.prompts import Prompt, write_prompts
from specdiff_core.bench.refold import refold
from specdiff_core.bench.report import report
from specdiff_core.bench.rows import Row
from specdiff_core.bench.sweep import sweep
from specdiff_core.bench.traces import Traces, slug
from specdiff_core.cli import options
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Finished, PiecesSeen
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace
from tests.app_fakes import FakeDecoder

PROMPTS = tuple(Prompt(id=f"{f}-{i}", flavour=f, prompt=f"{f} {i}") for f in ("math", "code") for i in range(2))
BASE = DecodeConfig(max_new_tokens=12)
CELLS = (BASELINE, Cell("block", 4, 2), Cell("block", 4, 1, 0, 2, "trie"))
BLOCK = CELLS[1].key


def kept(folder: Path, decoder: Any = None, repeats: int = 2, **others: Any) -> tuple[Traces, list[Row], Row]:
    """A whole sweep with its traces, its rows and their header."""
    traces = Traces(folder)
    given = {"prompts": PROMPTS, "cells": CELLS, "base": BASE} | others
    steps = sweep(decoder or FakeDecoder(), *given.values(), repeats=repeats, traces=traces)
    *_, (_, _, log) = steps
    return traces, log.rows, log.header


def result_of(rows: list[Row], header: Row) -> dict[str, Any]:
    """As it is stored."""
    return json.loads(json.dumps({**header, "prompts": {"math": 2, "code": 2}, "cells": report(rows)}))


def test_a_sweep_folds_again_to_the_very_same_numbers(tmp_path: Path) -> None:
    traces, rows, header = kept(tmp_path / "t")
    result = result_of(rows, header)
    again = refold(result, traces)
    assert json.loads(json.dumps(again["cells"])) == result["cells"]
    assert {name: again[name] for name in result if name != "cells"} == {
        name: result[name] for name in result if name != "cells"
    }
    assert [cell["selection"] for cell in again["cells"] if cell["drafts"] == 2] == ["trie"]


def test_a_changed_trace_changes_the_numbers(tmp_path: Path) -> None:
    traces, rows, header = kept(tmp_path / "t")
    result = result_of(rows, header)
    path = traces.path("math-1", 0, BLOCK)
    events = [
        msgspec.structs.replace(event, seconds=event.seconds + 1.0) if isinstance(event, Finished) else event
        for event in traces.events("math-1", 0, BLOCK)
    ]
    write_trace(path, {BLOCK: events}, title="math-1")
    vanilla, block, drafts = refold(result, traces)["cells"]
    assert block["seconds"] == pytest.approx(result["cells"][1]["seconds"] + 1.0)
    assert block["speedup"]["mean"] < result["cells"][1]["speedup"]["mean"]
    assert (vanilla["seconds"], drafts["seconds"]) == tuple(result["cells"][i]["seconds"] for i in (0, 2))


def test_missing_damaged_and_foreign_traces_are_named(tmp_path: Path) -> None:
    traces, rows, header = kept(tmp_path / "t")
    result = result_of(rows, header)
    path = traces.path("code-0", 1, BLOCK)
    whole = path.read_bytes()
    name = f"code-0, repeat 1, {BLOCK}"
    path.write_bytes(whole[:-9])
    with pytest.raises(TraceError, match=f"{name} .*cut off"):
        refold(result, traces)
    path.write_bytes(b"nothing")
    with pytest.raises(TraceError, match=name):
        refold(result, traces)
    lines = gzip.decompress(whole).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(TraceError, match=f"{name} .*no end"):
        refold(result, traces)
    path.write_bytes(traces.path("code-1", 1, BLOCK).read_bytes())
    with pytest.raises(TraceError, match=f"{name} .*another one"):
        refold(result, traces)
    path.unlink()
    with pytest.raises(TraceError, match=f"{name} .*cannot be read"):
        refold(result, traces)
    with pytest.raises(ConfigError, match="another sweep: settings differ"):
        refold({**result, "settings": {**result["settings"], "seed": 9}}, traces)
    for text in ("{", "[]", '{"cells": [], "flavours": [], "repeats": 1}'):
        (tmp_path / "t" / "sweep.json").write_text(text)
        with pytest.raises(TraceError, match=r"sweep\.json"):
            refold(result, traces)


def test_runs_are_kept_as_they_were_and_race_side_by_side(tmp_path: Path) -> None:
    traces, rows, _ = kept(tmp_path / "t", repeats=1)
    assert read_trace(traces.path("math-0", 0, BASELINE.key)).lanes.keys() == {"vanilla"}
    race = traces.race("math-0", 0, [BLOCK, BASELINE.key])
    assert list(race.lanes) == [BLOCK, "vanilla"] and race.title == "math-0"
    decoder = FakeDecoder()
    told = tuple(decoder.decode("math 0", CELLS[1].config(dataclasses.replace(BASE, seed=0)), detail=False))
    assert [type(event) for event in race.lanes[BLOCK]] == [type(event) for event in told]
    assert race.lanes[BLOCK][-1].ids == told[-1].ids
    assert not any(row["warmup"] for row in rows if row["repeat"] >= 0)
    files = list((tmp_path / "t").rglob("*.jsonl.gz"))
    assert len(files) == len(PROMPTS) * len(CELLS), "the warm-up is no measured run"


def test_a_tokenizer_adds_the_words_that_a_measured_run_leaves_out(tmp_path: Path) -> None:
    class Words:
        all_special_ids: tuple[int, ...] = ()

        def convert_ids_to_tokens(self, token: int) -> str:
            return f"w{token}"

    quiet = [event for event in FakeDecoder().decode("a b", BASE, detail=False) if not isinstance(event, PiecesSeen)]
    traces = Traces(tmp_path, Words())  # type: ignore[arg-type]  # all that is asked of a tokenizer
    traces.write("p", 0, BASELINE.key, quiet)
    told = traces.events("p", 0, BASELINE.key)
    assert [event for event in told if not isinstance(event, PiecesSeen)] == quiet
    pieces = {token: word for event in told if isinstance(event, PiecesSeen) for token, word in event.pieces.items()}
    last = quiet[-1]
    assert isinstance(last, Finished) and set(last.ids) <= set(pieces) and pieces[last.ids[0]] == f"w{last.ids[0]}"


def test_nothing_is_written_while_a_run_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file appears between the last event of its run and the next run."""
    seen: list[int] = []

    def count() -> int:
        return len(list(tmp_path.rglob("*.jsonl.gz")))

    class Watched(FakeDecoder):
        def decode(self, *args: Any, **kwargs: Any) -> Any:
            before = count()
            yield from super().decode(*args, **kwargs)
            assert count() == before
            seen.append(before)

    kept(tmp_path, Watched(), repeats=1)
    measured = len(PROMPTS) * len(CELLS)
    assert seen[-measured:] == list(range(measured))
    whole, steps = sweep_module.run, []
    monkeypatch.setattr(sweep_module, "run", lambda *args: steps.append(whole(*args)) or steps[-1])
    kept(tmp_path / "more", repeats=1)
    assert len(steps) == measured + len(CELLS)


def test_an_interrupted_sweep_goes_on_with_its_traces(tmp_path: Path) -> None:
    path, folder = tmp_path / "r.rows.jsonl", tmp_path / "t"
    arguments = (FakeDecoder(), PROMPTS, CELLS, BASE)
    steps = sweep(*arguments, repeats=1, path=path, traces=Traces(folder))
    for _ in range(4):
        next(steps)
    steps.close()
    *_, (_, _, log) = sweep(*arguments, repeats=1, path=path, traces=Traces(folder))
    result = result_of(log.rows, log.header)
    assert json.loads(json.dumps(refold(result, Traces(folder))["cells"])) == result["cells"]
    with pytest.raises(ConfigError, match="12 runs were measured earlier"):
        list(sweep(*arguments, repeats=1, path=path, traces=Traces(tmp_path / "new")))
    with pytest.raises(ConfigError, match="another benchmark: flavours, prompts differ"):
        kept(folder, repeats=1, prompts=PROMPTS[:1])


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "a/../b",
        "C:\\x",
        "x" * 300,
        "Ünï ✓",
        "a\x00b",
        "a~b",
        "A",
        "",
        "a//b",
    ],
)
def test_no_name_leaves_the_folder(name: str, tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    path = traces.path(name, 0, name)
    assert path.parent.parent == tmp_path and path.resolve().is_relative_to(tmp_path.resolve())
    events = list(FakeDecoder().decode("a b", BASE, detail=False))
    traces.write(name, 0, "none/1/1", events)
    assert traces.events(name, 0, "none/1/1") == tuple(events)


def test_different_names_have_different_files() -> None:
    names = ["a", "A", "a/b", "a.b", "a-b", "a b", "a~b", "a_b", "a//b", "a.1", "a/1", slug("A"), slug("a b"), "é", "è"]
    assert len({slug(name) for name in names}) == len(names)
    assert slug("stories-1") == "stories-1" and slug("block/9/1/0/8/self") == "block.9.1.0.8.self"
    paths = {Traces(Path()).path(*run) for run in (("a", 1, "x"), ("a/1", 1, "x"), ("a", 11, "x"), ("a/1", 0, "x"))}
    assert len(paths) == 4


def test_traces_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result says where they are, seen from itself: moved together, they are found again."""
    decoder = FakeDecoder()
    decoder.pair = type("Pair", (), {"tokenizer": None})()  # type: ignore[attr-defined]
    decoder.encode = lambda prompt: (1,)  # type: ignore[attr-defined]
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: decoder)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    here = tmp_path / "here"
    words = [
        "bench",
        "--prompts",
        str(tmp_path / "p.jsonl"),
        "--drafters",
        "none,block",
        "--gamma",
        "4",
        "--steps",
        "1",
    ]
    words += ["--drafts", "1,2", "--selection", "self,trie", "--repeats", "1", "--max-new-tokens", "12"]
    assert cli.main([*words, "--json", str(here / "r.json"), "--traces", str(here / "t")]) == 0, capsys.readouterr().err
    stored = json.loads((here / "r.json").read_text())
    assert stored["traces"] == "t"
    assert [(cell["drafts"], cell["selection"]) for cell in stored["cells"]] == [
        (1, "self"), (1, "self"), (2, "self"), (2, "trie"),
    ]  # fmt: skip
    there = here.rename(tmp_path / "there")
    plain = copy.deepcopy(stored)
    del plain["traces"]
    (there / "plain.json").write_text(json.dumps(plain))
    wrong = copy.deepcopy(stored)
    wrong["cells"][1]["speedup"]["mean"] = 77.0
    (there / "r.json").write_text(json.dumps(wrong))
    told = ["bench", "--report", str(tmp_path / "B.md"), "--from", str(there / "r.json"), str(there / "plain.json")]
    assert cli.main(told) == 0
    assert "77.00×" in (tmp_path / "B.md").read_text()
    assert cli.main([*told, "--refold"]) == 0
    text = (tmp_path / "B.md").read_text()
    assert "77.00×" not in text and "folded again from its traces by commit" in text
    assert "block γ=4 K=2 trie" in text and "block γ=4 T=1" in text
    assert "plain.json was measured without --traces" in capsys.readouterr().err
    moved = (there / "t").rename(tmp_path / "elsewhere")
    assert cli.main([*told, "--refold"]) == 2 and "holds no traces" in capsys.readouterr().err
    assert cli.main([*told, "--refold", str(moved)]) == 0
    assert str(tmp_path) not in text


def test_grid_of_several_drafts() -> None:
    """K for denoisers only, from one pass, and never with a tree."""
    found = grid(["block", "autoregressive"], [4], [1, 2], nodes=[0, 8], drafts=[1, 2], selections=["self", "trie"])
    assert found[1:] == (
        Cell("block", 4, 1), Cell("block", 4, 2), Cell("block", 4, 1, 0, 2, "self"), Cell("block", 4, 1, 0, 2, "trie"),
        Cell("block", 4, 1, 8), Cell("autoregressive", 4, 4),
    )  # fmt: skip
    for key in ("block/9/1", "block/9/1/16", "mdlm_streak/9/1/0/8/multi_round"):
        assert Cell.of(key).key == key
    assert Cell.of("block/9/1") == Cell("block", 9, 1)
    config = Cell.of("mdlm_streak/9/1/0/8/trie").config(BASE)
    assert (config.num_drafts, config.selection.value, config.tree_nodes) == (8, "trie", 0)
    with pytest.raises(ConfigError, match="nothing to measure"):
        grid(["autoregressive"], [4], [1], drafts=[2])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--drafts", "99"], "Give a whole number"),
        (["--drafts", "two"], "not a list"),
        (["--drafts", "2", "--selection", "best"], "Choose one of: self"),
        (["--measure", "equality", "--traces", "t"], "Only --measure sweep"),
        (["--measure", "referee", "--lanes", "block"], "not a list"),
        (["--measure", "referee", "--lanes", "block=0"], "Give a whole number"),
        (["--measure", "referee", "--lanes", "nobody=4"], "no drafter called"),
    ],
)
def test_bench_says_what_is_wrong_with_k_traces_and_lanes(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "--prompts", "p.jsonl", *words]) == 2
    assert message in capsys.readouterr().err


def test_bare_passes_are_of_windows_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decoder = FakeDecoder()
    decoder.encode = lambda prompt: (1,)  # type: ignore[attr-defined]
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: decoder)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    words = ["bench", "--measure", "forwards", "--prompts", str(tmp_path / "p.jsonl"), "--drafts", "2"]
    assert cli.main(words) == 2 and "of a fixed size that a denoiser fills" in capsys.readouterr().err
