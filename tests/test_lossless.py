"""Exactness by enumeration: the joint distribution of three tokens over chained rounds equals the target's, to 1e-12.

Every rule that claims ``lossless`` must pass; biased schemes must be caught by the same test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from branches import Branches, chain, in_turn, outcomes, spread, total_variation
from tables import (
    EXACT_RULES,
    LENGTH,
    MASK,
    ORDERS,
    TOLERANCE,
    WARM,
    Tables,
    Text,
    denoised,
    distance,
    distance_of,
    verified,
)

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Draft
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.randomness import Streams
from specdiff_core.schema.settings import RevealOrder, Rule, Sampling


@pytest.mark.parametrize(
    ("rule", "order", "sizes"), spread(EXACT_RULES, ORDERS, [(3, 2, 1), (3, 2, 2), (2, 3, 1), (2, 3, 2), (2, 3, 3)])
)
def test_exact_rules_have_the_joint_distribution(rule: Rule, order: RevealOrder, sizes: tuple[int, int, int]) -> None:
    """``sizes``: number of words, γ and T."""
    size, gamma, steps = sizes
    assert distance_of(Tables(seed=7 + steps, size=size), rule, order=order, gamma=gamma, steps=steps) < TOLERANCE


@pytest.mark.parametrize(("rule", "order"), spread(EXACT_RULES, ORDERS, held=1))
def test_cutting_drafts_behind_the_end_of_the_text_changes_nothing(rule: Rule, order: RevealOrder) -> None:
    """The loop drops what was drafted behind an end-of-text token; whole texts keep the target's distribution."""
    tables, end = Tables(seed=21, size=2), 1

    def whole(text: Text) -> Text:
        return (*text[: text.index(end)], *[end] * (len(text) - text.index(end))) if end in text else text

    def round_of(prefix: Text) -> dict[Text, float]:
        if end in prefix:
            return {(end,): 1.0}
        drafting = partial(denoised, tables, prefix, order=order, gamma=3, steps=2)
        emit = verified(rule)
        return in_turn(lambda s: drafting(s).until([end]), lambda draft, s: whole(emit(tables, prefix, draft, s)))

    expected: dict[Text, float] = {}
    for text, weight in tables.joint(LENGTH).items():
        expected[whole(text)] = expected.get(whole(text), 0.0) + weight
    assert total_variation(chain(round_of, LENGTH), expected) < TOLERANCE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_block_verification_accepts_no_fewer_tokens_than_ratio(order: RevealOrder, steps: int) -> None:
    """γ = 3; at least i tokens are accepted with probability w_i (docs/theory.md, Block)."""
    tables = Tables(seed=5 + steps, size=2)

    def accepted(rule: Rule) -> float:
        def count(draft: Draft, sampler: Branches) -> int:
            return verify(draft, tables.scores((), draft), rule, sampler, range(4))[0].accepted

        found = in_turn(lambda sampler: denoised(tables, (), sampler, order=order, gamma=3, steps=steps), count)
        return sum(number * weight for number, weight in found.items())

    assert accepted(Rule.BLOCK) >= accepted(Rule.RATIO) + (1e-3 if steps == 1 else -TOLERANCE)


@pytest.mark.parametrize("order", ORDERS)
def test_the_published_rule_is_caught(order: RevealOrder) -> None:
    """``naive`` at T > 1 tests every token with its reveal-step q: biased in any order but left to right."""
    distances = (distance_of(Tables(seed), Rule.NAIVE, order=order, steps=2, length=2) for seed in range(4))
    if order is RevealOrder.LEFT_TO_RIGHT:
        assert next(distances) < TOLERANCE and not Rule.NAIVE.lossless  # exact there, but claims nothing
    else:
        assert any(found > 1e-3 for found in distances)


def test_the_hand_checkable_counterexample() -> None:
    """Fair coins, x₂ revealed first, x₁ := x₂: naive gives P(y₁ = y₂) = 0.75, ratio 0.5.

    docs/theory.md, Several denoising steps.
    """
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


# ---- Biased schemes: each must fail the test above. More of them spoil the code itself (tests/mutants.py). ----


def sharpened(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """Drawn at temperature 0.4, reported at 1."""
    draft = denoised(tables, prefix, sampler, sampling=Sampling(temperature=0.4))
    return replace(draft, probs=to_probs(tables.logits(prefix, torch.full((2,), MASK)), WARM, (MASK,)))


def leave_one_out(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """q of each token recomputed after the draft, given all others."""
    draft, rows = denoised(tables, prefix, sampler), []
    for i in range(2):
        window = torch.tensor(draft.ids)
        window[i] = MASK
        rows.append(to_probs(tables.logits(prefix, window), WARM, (MASK,))[i])
    return replace(draft, probs=torch.stack(rows))


def running_maximum(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """Positions chosen by their drawn values, tested with p/q as if they had not been."""
    draft = denoised(tables, prefix, sampler, order=RevealOrder.VALUE_CONFIDENCE, steps=2)
    return replace(draft, exact_q=(True, draft.reveal_steps[1] >= draft.reveal_steps[0]))


def without_improbable(tables: Tables, prefix: Text, sampler: Branches) -> Draft:
    """A drawn token goes because its q is low."""
    draft = denoised(tables, prefix, sampler)
    return draft.only(range(next((i for i, q in enumerate(draft.q) if q < 0.4), 2)))


@pytest.mark.parametrize("biased", [sharpened, leave_one_out, running_maximum, without_improbable])
def test_wrong_drafts_are_caught(biased: Callable) -> None:
    assert any(
        distance(tables, partial(biased, tables), verified(Rule.RATIO), 2) > 1e-3 for tables in map(Tables, range(3))
    )


def longer_of_two(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Two drafts, each verified with draws of its own; the longer result stays."""
    other = denoised(tables, prefix, sampler)
    return max((verified(Rule.DELTA)(tables, prefix, one, sampler) for one in (draft, other)), key=len)


def bonus_from_q(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """The token after a draft that was accepted whole, drawn from the drafter."""
    text = verified(Rule.RATIO)(tables, prefix, draft, sampler)
    return text if len(text) < 3 else (*text[:2], int(sampler.sample(draft.probs[1:], [0])[0]))


@pytest.mark.parametrize(("biased", "length"), [(longer_of_two, 1), (bonus_from_q, LENGTH)])
def test_wrong_verifications_are_caught(biased: Callable, length: int) -> None:
    assert any(distance(tables, partial(denoised, tables), biased, length) > 1e-3 for tables in map(Tables, range(3)))


def test_shared_noise_follows_p() -> None:
    """Frequencies of 20,000 keyed draws: chi-square with 3 degrees; false alarm below 1e-6 (threshold 30.7)."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    sampler = Streams(1, shared=True).verify(0)
    count = 20_000
    drawn = torch.cat([sampler.sample(p.expand(500, 4), range(i, i + 500)) for i in range(0, count, 500)])
    seen = torch.bincount(drawn, minlength=4).double()
    assert float(((seen - count * p) ** 2 / (count * p)).sum()) < 30.7
