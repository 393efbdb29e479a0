"""Two runs side by side, and their branches."""

from __future__ import annotations

import math
from typing import Any

import pytest
from exploring import TWO, explore

import specdiff_core as lab
from specdiff_core.engine import Engine
from specdiff_core.explorations.side_by_side import BRANCH, SideBySide
from specdiff_core.measure.ties import first_difference
from specdiff_core.schema import events
from specdiff_core.schema.errors import ContextOverflow
from specdiff_core.schema.fields import parse
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


def new_ids(final: Any, name: str) -> list[int]:
    """The new tokens of a run in the trace that holds all of them."""
    return [i for one in lanes_of(final)[name] if isinstance(one, events.Committed) for i in one.ids]


def lanes_of(final: Any) -> dict[str, Any]:
    return read_trace(final.races["runs"]).lanes


@pytest.mark.parametrize(
    ("values", "must"),
    [
        ({"a": "ddtree"}, True),
        ({"a": "vanilla", "rule": "block"}, True),
        ({"rule": "match", "temperature": 0.9, "seed": 3}, True),
        ({"temperature": 0.9, "seed": 3}, False),
        ({"rule": "naive", "temperature": 0.9, "seed": 3}, False),
    ],
    ids=str,
)
def test_rounds_follow_the_text_and_runs_part_only_where_they_may(
    engine: Engine, values: dict[str, Any], must: bool
) -> None:
    final = explore(SideBySide, engine, **{**TWO, **values})
    texts, facts = {name: new_ids(final, name) for name in ("a", "b")}, final.result.facts
    for name, ids in texts.items():
        rows = [row for row in final.result.rows if row["run"] == name]
        verdicts, position = [one for one in lanes_of(final)[name] if isinstance(one, events.Verified)], 0
        assert len(rows) == len(verdicts) > 3
        for row, verdict in zip(rows, verdicts, strict=True):
            assert row["position"] == position + 1
            assert row["text"].endswith(row["added"])
            assert (row["rejected"] is not None) == (verdict.source != "bonus" and bool(verdict.tests))
            if row["rejected"] is not None:
                assert (row["p"], row["u"]) == (verdict.tests[-1].p, verdict.tests[-1].draw)
                assert not verdict.tests[-1].accepted
            position += row["accepted"] + 1
        assert position == len(ids) == TWO["tokens"]
        assert "".join(row["text"] for row in rows) == engine.pair.tokenizer.decode(ids)
    assert facts["lossless"], "also naive: its windows are filled from left to right"
    assert facts["must_be_equal"] is (texts["a"] == texts["b"]) is must
    assert facts["first_difference"] == first_difference(texts["a"], texts["b"])


def test_the_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 5, 3]) == 2
    assert first_difference([4], [1]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 3


def test_a_branch_goes_on_from_the_token_that_was_put_there(engine: Engine) -> None:
    """At temperature 0 every later token is the target's likeliest."""
    plain, run = explore(SideBySide, engine, **TWO), "b"
    row = next(row for row in plain.result.rows if row["run"] == run and row["round"] > 2 and row["rejected"])
    verdict = [one for one in lanes_of(plain)[run] if isinstance(one, events.Verified)][row["round"] - 1]
    take = verdict.tests[-1].id
    final = explore(SideBySide, engine, **TWO, branch=run, round=row["round"], take=take)
    assert [new_ids(final, name) for name in ("a", "b")] == [new_ids(plain, name) for name in ("a", "b")]
    before = new_ids(plain, run)[: row["position"] - 1 + row["accepted"]]
    prefix = [*engine.encode(parse(SideBySide, {}).prompt), *before, take]
    branch = new_ids(final, BRANCH)
    assert lanes_of(final)[BRANCH][1].prompt_ids == tuple(prefix)
    assert len(before) + 1 + len(branch) == TWO["tokens"]
    target = engine.target.start()
    target.read(prefix[:-1])
    logits = target.score([take, *branch[:-1]]).logits.clone()
    logits[:, list(engine.target.suppress)] = -math.inf
    assert logits.argmax(-1).tolist() == branch
    found = final.result.facts["branch"]
    assert (found["run"], found["position"], found["take"]) == (run, len(before) + 1, take)
    assert (found["token"], found["instead_of"]) == (row["rejected"], row["added"])
    old = new_ids(plain, run)[len(before) + 1 :]
    assert found["same"] == sum(one == other for one, other in zip(old, branch, strict=True)) < len(branch)
    rows = [one for one in final.result.rows if one["run"] == BRANCH]
    assert rows[0]["position"] == len(before) + 2
    assert all(one["milliseconds"] is None for one in rows)


def test_a_branch_may_be_drawn_anew(engine: Engine) -> None:
    choice = {**TWO, "tokens": 12, "temperature": 0.9, "branch": "a", "round": 3}
    seeds = {seed: explore(SideBySide, engine, **choice, branch_seed=seed) for seed in (1, 2)}
    texts = {seed: new_ids(final, BRANCH) for seed, final in seeds.items()}
    assert texts[1] != texts[2]
    for seed, final in seeds.items():
        position = final.result.facts["branch"]["position"] - 1
        assert position + len(texts[seed]) == choice["tokens"]
        assert next(row for row in final.result.rows if row["run"] == BRANCH)["position"] == position + 1


def test_a_run_cannot_go_on_from_more_than_fits(engine: Engine) -> None:
    config = lab.DecodeConfig(drafter="none", max_new_tokens=4)
    with pytest.raises(ContextOverflow):
        next(iter(engine.decode("Once", config, after=[5] * engine.pair.spec.context)))
