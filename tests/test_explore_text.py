"""Lengths, kinds of text and kinds of tokens."""

from __future__ import annotations

from typing import Any

import pytest
from exploring import explore

from specdiff_core.engine import Engine
from specdiff_core.explorations.text import FEWEST, WhichText, token_kind
from specdiff_core.schema.fields import parse
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


def test_length_counts_every_token_but_the_first_rounds(engine: Engine) -> None:
    final = explore(WhichText, engine, methods="specdiff", flavours="stories", per_flavour=1, tokens=40, width=16)
    by_method: dict[str, list[Any]] = {}
    for row in final.result.rows:
        if row["group"] == "length":
            by_method.setdefault(row["method"], []).append(row)
    assert set(by_method) == {"vanilla", "specdiff"}
    assert sum(row["rounds"] for row in by_method["vanilla"]) == 39
    assert all(row["tau"] == 1 for row in by_method["vanilla"] if row["rounds"])
    assert [row["context"] for row in by_method["vanilla"]] == [16, 32, 48]
    drafted = sum(row["tau"] * row["rounds"] for row in by_method["specdiff"] if row["rounds"])
    assert 35 <= drafted <= 39


def test_every_tested_token_of_a_tree_is_of_one_kind(engine: Engine) -> None:
    method = "ddtree"
    final = explore(WhichText, engine, methods=method, tokens=32, per_flavour=1, flavours="stories")
    sums: dict[str, tuple[int, float]] = {}
    for row in final.result.rows:
        if row["group"] != "length":
            before = sums.get(row["group"], (0, 0.0))
            sums[row["group"]] = (before[0] + row["tested"], before[1] + row["tested"] * row["accepted"])
            assert -1e-9 <= row["low"] <= row["accepted"] <= row["high"] + 1e-9 <= 1 + 1e-8
    run = fold(read_trace(final.races[method]).lanes["drafted"])
    assert run.accepted < run.tested
    for tested, accepted in sums.values():
        assert run.tested - tested <= 1, "the last round may test past the end of the text"
        assert accepted == pytest.approx(run.accepted, abs=1)


@pytest.mark.parametrize(
    ("piece", "line", "kind"),
    [
        ("\n", "Hello", "line end"),
        ("    ", "", "indentation"),
        (" 12", "is", "number"),
        ("3.5", "x ", "number"),
        (",", "Hello", "symbol"),
        (' "', "said", "quotation mark"),
        ("ing", "sing", "end of a word"),
        (" Tom", "a boy called", "name"),
        (" Tom", "It rained.", "word"),
        (" dog", "the", "word"),
        (" dog", 'He said "the', "inside quotation marks"),
    ],
)
def test_kinds_of_tokens(piece: str, line: str, kind: str) -> None:
    assert token_kind(piece, line) == kind


def test_every_kind_that_is_drawn_is_compared() -> None:
    shares = (("symbol", 557, 0.74, 0.70, 0.78), ("quotation mark", 13, 0.69, 0.42, 0.87), ("word", 900, 0.4, 0.3, 0.5))
    few = ("name", FEWEST - 1, 0.9, 0.5, 1.0)
    fields = ("name", "tested", "accepted", "low", "high")
    rows: list[dict[str, Any]] = [
        {"method": "dflash", "group": group, **dict(zip(fields, values, strict=True))}
        for values in (*shares, few)
        for group in ("token", "text")
    ]
    lengths = [
        {"method": method, "group": "length", "context": 64 * at, "rounds": 99, "speedup": speed,
         "seconds_per_token": 0.01, "tau": 2.0, "pass_seconds": 0.01}
        for method, speeds in (("vanilla", (1.0, 1.0)), ("dflash", (1.8, 0.9))) for at, speed in enumerate(speeds)
    ]  # fmt: skip
    report = parse(WhichText, {}).report(rows + lengths, {"examples": {}})
    figure = next(figure for figure in report.figures if figure.key == "token")
    drawn = figure.data[0]["y"]
    assert drawn == [name for name, *_ in shares] and all(name in report.answer for name in drawn)
    assert "name" in figure.hint and "“name”" not in report.answer
    assert "no longer pays" in report.answer and "0.90×" in report.answer
