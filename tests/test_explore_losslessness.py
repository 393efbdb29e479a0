"""Losslessness catches a bias, also of each broken engine, and no exact rule."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import numpy as np
import pytest
import torch
from exploring import StopWhen, explore, slow

from specdiff_core.engine import Engine
from specdiff_core.explorations import engines, joint, losslessness
from specdiff_core.explorations.losslessness import Losslessness
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.maths.distributions import to_probs
from specdiff_core.measure.statistics import chi_squared
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.pairs import ASSETS

pytestmark = pytest.mark.usefixtures("few_passes")


def test_stop_keeps_what_was_done_also_within_a_batch(engine: Engine) -> None:
    asked = itertools.count()
    final = ExplorationRun(parse(Losslessness, {}), engine, StopWhen(lambda: next(asked) > 70)).advance()
    assert 50 < final.done == final.result.facts["runs"] < 100


def test_the_smallest_biased_case_is_caught_and_exact_rules_are_not(engine: Engine) -> None:
    final = explore(Losslessness, engine, rules="ratio,block,delta,match,naive", runs=200)
    last = {row["rule"]: row for row in final.result.rows if row["runs"] == 200}
    assert last["naive"]["p_value"] < 1e-6
    assert last["naive"]["bias_low"] < 0.25 < last["naive"]["bias_high"]  # P(y₁ = y₂) = ¾ (docs/theory.md)
    assert {rule: row["lossless"] for rule, row in last.items()} == {
        rule: rule != "naive" for rule in ("ratio", "block", "delta", "match", "naive")
    }
    for rule in ("ratio", "block", "delta", "match"):
        assert last[rule]["p_value"] > 1e-3, rule
        assert last[rule]["distance"] < 2 * last[rule]["floor_high"], rule
    assert [row["exact"] for row in final.result.facts["joint"]] == [0.25] * 4


def laws(p: np.ndarray, q: np.ndarray, raw: np.ndarray) -> dict[str, np.ndarray]:
    """The distribution of each engine's first token: ``p`` and ``q`` after top-k, ``raw`` q before it, ``[V]``."""

    def tested(drawn: np.ndarray, q: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            passed = np.where(q > 0, drawn * np.minimum(1, p / q), 0)
        rest = np.maximum(p - q, 0)
        return passed + (1 - passed.sum()) * rest / rest.sum()

    ends = np.cumsum(q)
    begins = ends - q
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(q > 0, np.minimum(1, p / q), 0)
    twice = np.clip(np.minimum(ends, limits) - begins, 0, None)
    rest = np.maximum(p - q, 0)
    kept, best = np.where(q > 0, raw, 0), np.eye(len(q))[q.argmax()]
    heated = np.sqrt(q)
    both = np.minimum(p, q)
    return {
        "right": p,
        "bonus": p,
        "uniform": twice + (1 - twice.sum()) * rest / rest.sum(),
        "greedy": tested(best, q),
        "residual": both + (1 - both.sum()) * p,
        "top_k": tested(kept / kept.sum(), raw),
        "temperature": tested(heated / heated.sum(), q),
    }


def test_every_broken_engine_has_its_bug_and_no_other(engine: Engine) -> None:
    target, drafter, prompt = engines.models(seed=1)
    config = engines.Game(gamma=2, temperature=1, draft_temperature=1, seed=1).config(0)
    p, q = (
        to_probs(logits, sampling, (engines.SYMBOLS,)).numpy()
        for logits, sampling in (
            (target.logits(prompt), config.sampling),
            (drafter.logits(prompt, 2)[0], config.draft_sampling),
        )
    )
    law = laws(p, q, drafter.logits(prompt, 2)[0].exp().numpy())
    final = explore(Losslessness, engine, models="engines", runs=600, seed=1).result
    facts, runs = final.facts, 600
    assert sorted(facts["hidden"].values()) == sorted(law)
    assert final.rows[0]["runs"] == joint.FIRST == 10
    for letter, name in facts["hidden"].items():
        seen = np.array([row[letter] for row in facts["places"] if row["place"] == 1]) * runs
        assert chi_squared(seen, law[name][:-1] * runs) > 1e-4, name
    places = [row for row in facts["places"] if row["place"] == 1]
    assert [row["exact"] for row in places] == pytest.approx(p[:-1].tolist())
    assert facts["alpha"] == pytest.approx(float(np.minimum(p, q).sum()))
    assert not any(what in str(final.report) for what, _ in engines.MISTAKES.values()), "nothing is given away"
    assert "lossless" not in final.rows[0]
    with pytest.raises(ConfigError, match="too many outcomes"):
        explore(Losslessness, engine, models="engines", gamma=3)


def test_the_recorded_engines_are_found_out_and_the_right_one_is_not() -> None:
    final = json.loads((ASSETS / "explore" / "losslessness.engines.json").read_text())
    facts, rows = final["facts"], final["rows"]
    assert facts["hidden"] == engines.hidden(final["settings"]["seed"])
    assert facts["found"] == engines.found(rows)
    for letter, name in facts["hidden"].items():
        own = [row for row in rows if row["rule"] == letter]
        assert (own[0]["runs"] == 10 and own[0]["p_value"] > joint.PVALUE) or name == "bonus"
        assert (facts["found"][letter] is None) == (name == "right"), name


def test_others_keep_their_threads_while_it_is_paused(engine: Engine) -> None:
    before, seen = torch.get_num_threads(), list[int]()
    torch.set_num_threads(2)
    try:
        steps = parse(Losslessness, {"runs": 200, "rules": "ratio"}).explore(engine, threading.Event())
        for _ in steps:
            seen.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {2}


DRAFTS: dict[str, Any] = {"rules": "self,trie,multi_round", "steps": 1, "runs": 200}


@pytest.mark.parametrize(
    "values",
    [
        {**DRAFTS, "models": "coins", "num_drafts": 3},
        slow({**DRAFTS, "models": "tables", "num_drafts": 4, "gamma": 3, "length": 3, "seed": 2}),
        slow({**DRAFTS, "models": "masked_streak", "num_drafts": 2, "runs": 200}),
        slow({"models": "tables", "order": "random", "gamma": 3, "steps": 3, "length": 3}),
        {"models": "tables", "order": "value_confidence", "steps": 1, "seed": 3},
        slow({"models": "tables", "temperature": 0, "draft_temperature": 1}),
        slow({"models": "masked_streak", "order": "entropy", "top_k": 3, "rules": "ratio,block"}),
    ],
    ids=str,
)
def test_exact_rules_keep_the_distribution_in_every_order(engine: Engine, values: dict[str, Any]) -> None:
    final = explore(Losslessness, engine, **{"rules": "ratio,block,delta,match", "runs": 200, **values}).result
    assert sum(row["exact"] for row in final.facts["joint"]) <= 1 + 1e-9
    for row in final.rows[-len(final.settings["rules"]) :]:
        assert row["lossless"]
        assert row["p_value"] > 1e-3, row
        assert row["distance"] <= 2 * row["floor_high"], row  # both 0 at temperature 0


def test_the_exact_distribution_is_the_networks_own(engine: Engine) -> None:
    what = parse(Losslessness, {"models": "masked", "length": 2, "top_k": 2})
    target, _, prompt = losslessness._models(what, engine)
    run = engine.target.start()
    run.read(prompt[:-1])
    first = to_probs(run.score(prompt[-1:]).logits, what.config("ratio", 0).sampling, engine.target.suppress)[0]
    distribution = joint.exact_distribution(target, prompt, 2, what.config("ratio", 0).sampling)
    assert len(distribution) == 4
    for token in first.nonzero()[:, 0].tolist():
        second = to_probs(run.score([token]).logits, what.config("ratio", 0).sampling, engine.target.suppress)[0]
        assert [distribution[token, next] for next in second.nonzero()[:, 0].tolist()] == pytest.approx(
            (first[token] * second[second > 0]).tolist(), abs=1e-6
        )
        run.rollback(1, ())
