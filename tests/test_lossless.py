"""Exactness by enumeration: three tokens over chained rounds have the target's distribution, to 1e-12.

Every rule that claims ``lossless`` must pass in every way to draft; the same comparison must catch
biased schemes. ``test_distribution.py`` enumerates whole runs of the engine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from branches import Branches, cell, in_turn, outcomes
from tables import (
    EXACT_RULES,
    LENGTH,
    MASK,
    ORDERS,
    TOLERANCE,
    WARM,
    Drafting,
    Emit,
    Pairs,
    Tables,
    Text,
    denoised,
    distance,
    sequential,
    texts,
    verified,
)

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Draft
from specdiff_core.maths import chains
from specdiff_core.maths.distributions import residual, to_probs
from specdiff_core.maths.trees import children
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Sampling, Selection


def sure_enough(confidences: Sequence[float]) -> int:
    """Positions up to the first of low confidence, at least one: it sees distributions only."""
    return max(1, next((i for i, confidence in enumerate(confidences) if confidence < 0.6), len(confidences)))


def unsure(confidences: Sequence[float]) -> int:
    """End a draft before a position of low confidence, or behind one of middling confidence."""
    if confidences[-1] < 0.45 and len(confidences) > 1:
        return len(confidences) - 1
    return len(confidences) + (confidences[-1] > 0.7)


def growing(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """γ and the bound of a tree's nodes follow the past."""
    if len(prefix) % 2:
        return denoised(tables, prefix, sampler, tree_nodes=7, min_node_prob=0.3 / (1 + len(prefix)))
    return denoised(tables, prefix, sampler, gamma=1 + len(prefix), stop_criterion=sure_enough)


def way(tables: Tables, **values: Any) -> tuple[Tables, Drafting, Selection]:
    """Production drafts of a denoiser on these tables."""
    selection = values.pop("selection", Selection.TRIE)
    return tables, partial(denoised, tables, **values), selection


SHAPES = [(3, 2, 1), (3, 2, 2), (2, 3, 2), (2, 3, 3)]  # words, γ and T
UNSURE = Tables(seed=33)
GROWING = Tables(seed=6)
WAYS: dict[str, tuple[Tables, Drafting, Selection]] = {
    **{
        f"{order.value}, γ = {gamma}, T = {steps}": way(Tables(7 + steps, size), order=order, gamma=gamma, steps=steps)
        for order in ORDERS
        for size, gamma, steps in SHAPES
    },
    **{f"a tree of {nodes}": way(Tables(nodes), tree_nodes=nodes) for nodes in (1, 4, 7)},
    **{f"two drafts, {one.value}": way(Tables(52), num_drafts=2, selection=one) for one in Selection},
    **{f"long drafts, {one.value}": way(Tables(53, 2), gamma=3, num_drafts=2, selection=one) for one in Selection},
    **{f"chained, {order.value}": way(Pairs(32), order=order, steps=2) for order in ORDERS},
    **{f"chained, a tree of {nodes}": way(Pairs(nodes), tree_nodes=nodes) for nodes in (1, 5)},
    **{f"chained drafts, {one.value}": way(Pairs(9, 2), num_drafts=2, selection=one) for one in Selection},
    "chained, as long as it is sure": way(Pairs(41), gamma=3, stop_criterion=sure_enough),
    "one pass by value, cut": way(Tables(22), order=RevealOrder.VALUE_CONFIDENCE, stop_criterion=sure_enough),
    "sizes that follow the past": (GROWING, partial(growing, GROWING), Selection.TRIE),
    "token by token, as long as it is sure": (UNSURE, sequential(UNSURE, 2, stop_criterion=unsure), Selection.TRIE),
}
OTHERS = [rule for rule in EXACT_RULES if rule is not Rule.RATIO]
CELLS = [
    cell(name, rule, quick=rule is (OTHERS[(i // 2 + 1) % len(OTHERS)] if i % 2 else Rule.RATIO))
    for i, name in enumerate(WAYS)
    for rule in EXACT_RULES
]
"""By default every second way meets p/q, and the others meet the other rules, in turn."""


@pytest.mark.parametrize(("name", "rule"), CELLS)
def test_exact_rules_have_the_joint_distribution(name: str, rule: Rule) -> None:
    tables, drafting, selection = WAYS[name]
    assert distance(tables, drafting, verified(rule, selection)) < TOLERANCE


def test_fewer_candidates_than_ids_keep_the_joint_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """q is zero outside the candidates, and the tested q is the same."""
    monkeypatch.setattr(chains, "SAMPLED", 2)
    tables = Pairs(seed=5)
    draft = denoised(tables, (), Branches([]))
    assert draft.probs is not None and (draft.probs > 0).sum(-1).tolist() == [2, 2]
    assert distance(tables, partial(denoised, tables), verified(Rule.RATIO)) < TOLERANCE


def test_a_greedy_target_accepts_the_same_under_block_and_ratio() -> None:
    """Which is why the loop tests with ratio there (``DecodeConfig.rule_used``), whatever q is."""
    assert (DecodeConfig().rule_used, DecodeConfig(temperature=0.1).rule_used) == (Rule.RATIO, Rule.BLOCK)
    tables = Tables(seed=3)

    def verdict(rule: Rule, draft: Draft, sampler: Branches) -> tuple[int, int]:
        p = tables.scores((), draft)
        greedy = torch.nn.functional.one_hot(p.argmax(-1), p.shape[-1]).double()
        found, _ = verify(draft, greedy, rule, sampler, range(4))
        return found.accepted, found.extra

    found = [
        in_turn(lambda sampler: denoised(tables, (), sampler, gamma=3), partial(verdict, rule))
        for rule in (Rule.RATIO, Rule.BLOCK)
    ]
    assert found[0] == pytest.approx(found[1]) and len(found[0]) > 2


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_block_verification_accepts_no_fewer_tokens_than_ratio(steps: int) -> None:
    """γ = 3, in every order: docs/theory.md, Block."""
    tables = Tables(seed=5 + steps, size=2)

    def accepted(rule: Rule, order: RevealOrder) -> float:
        def count(draft: Draft, sampler: Branches) -> int:
            return verify(draft, tables.scores((), draft), rule, sampler, range(4))[0].accepted

        found = in_turn(lambda sampler: denoised(tables, (), sampler, order=order, gamma=3, steps=steps), count)
        return sum(number * weight for number, weight in found.items())

    for order in ORDERS:
        gained = accepted(Rule.BLOCK, order) - accepted(Rule.RATIO, order)
        assert gained >= (1e-3 if steps == 1 else -TOLERANCE)


def test_the_hand_checkable_counterexample() -> None:
    """Fair coins, x₂ revealed first, x₁ := x₂: naive gives P(y₁ = y₂) = 0.75, ratio 0.5.

    docs/theory.md, Several denoising steps."""
    coin = torch.tensor([0.5, 0.5], dtype=torch.float64)

    def agree(rule: Rule) -> float:
        def play(sampler: Branches) -> bool:
            second = int(sampler.sample(coin[None], [1])[0])
            first_q = torch.nn.functional.one_hot(torch.tensor(second), 2).double()
            ids, probs = (second, second), torch.stack([first_q, coin])
            draft = Draft(ids=ids, probs=probs, reveal_steps=(1, 0), exact_q=(True, False), nfe=2)
            verdict, _ = verify(draft, coin.expand(3, 2), rule, sampler, range(3))
            text = [*ids[: verdict.accepted], verdict.extra]
            if len(text) == 1:
                text.append(int(sampler.sample(coin[None], [1])[0]))
            return text[0] == text[1]

        return outcomes(play)[True]

    assert agree(Rule.NAIVE) == pytest.approx(0.75, abs=1e-12)
    assert agree(Rule.RATIO) == pytest.approx(0.5, abs=1e-12)


# ---- Biased schemes: each must fail the comparison above. Others are in tests/bugs.diff. ----


def sharpened(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """Drawn at temperature 0.4, reported at 1."""
    draft = denoised(tables, prefix, sampler, sampling=Sampling(temperature=0.4))
    return dataclasses.replace(draft, probs=to_probs(tables.logits(prefix, torch.full((2,), MASK)), WARM, (MASK,)))


def leave_one_out(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """q of each token recomputed after the draft, given all others."""
    draft, rows = denoised(tables, prefix, sampler), []
    for i in range(2):
        window = torch.tensor(draft.ids)
        window[i] = MASK
        rows.append(to_probs(tables.logits(prefix, window), WARM, (MASK,))[i])
    return dataclasses.replace(draft, probs=torch.stack(rows))


def marginals(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """A chain's draft that reports the marginals."""
    rows = tables.logits((), torch.full((2,), tables.size))[:, : tables.size].softmax(-1)
    return dataclasses.replace(
        denoised(tables, prefix, sampler), probs=torch.cat([rows, torch.zeros(2, 1).double()], -1)
    )


@pytest.mark.parametrize("biased", [sharpened, leave_one_out, marginals])
def test_wrong_drafts_are_caught(biased: Any) -> None:
    kind = Pairs if biased is marginals else Tables
    assert any(
        distance(tables, partial(biased, tables), verified(Rule.RATIO), 2) > 1e-3 for tables in map(kind, range(3))
    )


def longer_of_two(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Two drafts, each verified with draws of its own; the longer result stays."""
    other = denoised(tables, prefix, sampler)
    return max((verified(Rule.DELTA)(tables, prefix, one, sampler) for one in (draft, other)), key=len)


def bonus_from_q(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """The token after a draft that was accepted whole, drawn from the drafter."""
    text = verified(Rule.RATIO)(tables, prefix, draft, sampler)
    return text if len(text) < 3 else (*text[:2], int(sampler.sample(draft.probs[1:], [0])[0]))


def longest_branch(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Each branch has its own draws; the longest stays (docs/theory.md, Several drafts)."""
    best: Text = ()
    probs, every = tables.scores(prefix, draft), texts(draft.ids, draft.parents)
    for leaf in (node for node in range(len(every)) if not children(draft.parents, node)):
        drawn: Text = ()
        for token in every[leaf]:
            row = every.index(drawn) + 1 if drawn else 0
            drawn = (*drawn, int(sampler.sample(probs[row][None], [0])[0]))
            if drawn[-1] != token:
                break
        best = max(best, drawn, key=len)
    return best


def untested_siblings(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """The first child is tested with p(x); after a rejection a token is drawn from p itself."""
    probs = tables.scores(prefix, draft)
    accepted, _ = sampler.accept(float(probs[0, draft.ids[0]]))
    return draft.ids[:1] if accepted else (int(sampler.sample(probs[:1], [0])[0]),)


def selected_by_drafter_then_soft(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """p/q and its residual along the drafter's own favourite, which is not a draw from q."""
    probs, text, row = tables.scores(prefix, draft), (), 0
    for node in max(draft.branches, key=lambda branch: math.prod(draft.q[node] for node in branch)):
        token, q = draft.ids[node], draft.probs[node]
        if not sampler.accept(min(1.0, float(probs[row, token] / q[token])))[0]:
            return (*text, int(sampler.sample(residual(probs[row], q)[None], [0])[0]))
        text, row = (*text, token), node + 1
    return (*text, int(sampler.sample(probs[row][None], [0])[0]))


def sorted_rounds(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Multi-round needs the order of drawing; here the target's favourite comes first."""
    p = tables.scores(prefix, draft)[0]
    ranked = tuple(sorted(draft.branches, key=lambda branch: -float(p[draft.ids[branch[0]]])))
    play = verified(Rule.RATIO, Selection.MULTI_ROUND)
    return play(tables, prefix, dataclasses.replace(draft, branches=ranked), sampler)


SCHEMES: list[tuple[Emit, dict[str, int], int]] = [
    (longer_of_two, {}, 1),
    (bonus_from_q, {}, LENGTH),
    *((biased, {"tree_nodes": 4}, 2) for biased in (longest_branch, untested_siblings)),
    *((biased, {"num_drafts": 2}, 2) for biased in (selected_by_drafter_then_soft, sorted_rounds)),
]


@pytest.mark.parametrize(("biased", "values", "length"), SCHEMES)
def test_wrong_verifications_are_caught(biased: Emit, values: dict[str, int], length: int) -> None:
    assert any(
        distance(tables, partial(denoised, tables, **values), biased, length) > 1e-3
        for tables in (Tables(seed, size=2) for seed in range(4))
    )
