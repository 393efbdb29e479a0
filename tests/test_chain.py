"""The Markov chain over a window: what it draws follows the q it reports, whatever rule, order, tree or selection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from branches import Branches, outcomes, spread
from tables import (
    EXACT_RULES,
    ORDERS,
    TOLERANCE,
    WARM,
    Pairs,
    Text,
    context_of,
    denoised,
    distance,
    distance_of,
    texts,
    verified,
)

from specdiff_core.drafters.base import Draft
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths import chains as chain_module
from specdiff_core.maths.chains import Chain
from specdiff_core.maths.randomness import Candidates, SharedGumbel
from specdiff_core.schema.settings import RevealOrder, Rule, Sampling, Selection

START = 0  # the first anchor
COLD = Sampling(temperature=0.0)


@pytest.mark.parametrize(("rule", "order", "steps"), spread(EXACT_RULES, ORDERS, [1, 2]))
def test_drawing_in_order_keeps_the_joint_distribution(rule: Rule, order: RevealOrder, steps: int) -> None:
    assert distance_of(Pairs(seed=30 + steps), rule, order=order, steps=steps) < TOLERANCE


@pytest.mark.parametrize(("order", "steps"), spread(ORDERS, [1, 2, 3], held=1))
def test_three_tokens_in_order_keep_the_joint_distribution(order: RevealOrder, steps: int) -> None:
    assert distance_of(Pairs(seed=steps, size=2), Rule.RATIO, order=order, gamma=3, steps=steps) < TOLERANCE


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_fewer_candidates_than_ids_keep_the_joint_distribution(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """q is zero outside the candidates, and what is tested says so."""
    monkeypatch.setattr(chain_module, "SAMPLED", 2)
    tables = Pairs(seed=5)
    draft = denoised(tables, (), Branches([]))
    assert draft.probs is not None and (draft.probs > 0).sum(-1).tolist() == [2, 2]
    assert distance_of(tables, rule) < TOLERANCE


@pytest.mark.parametrize(("rule", "nodes"), spread(EXACT_RULES, [1, 3, 5], held=1))
def test_a_tree_of_the_chain_keeps_the_joint_distribution(rule: Rule, nodes: int) -> None:
    assert distance_of(Pairs(seed=nodes), rule, tree_nodes=nodes) < TOLERANCE


@pytest.mark.parametrize("selection", list(Selection))
@pytest.mark.parametrize("rule", [Rule.RATIO, Rule.DELTA])
def test_several_drafts_of_the_chain_keep_the_joint_distribution(rule: Rule, selection: Selection) -> None:
    assert distance_of(Pairs(seed=9, size=2), rule, selection, num_drafts=2) < TOLERANCE


def test_each_node_of_several_drafts_keeps_the_distribution_that_it_was_drawn_from() -> None:
    """Two drafts over three words: behind different first tokens the second ones have different distributions."""
    assert distance_of(Pairs(seed=10), Rule.RATIO, Selection.MULTI_ROUND, num_drafts=2, length=2) < TOLERANCE


def marginals(tables: Pairs, prefix: Text, sampler: Branches) -> Draft:
    """Biased: reports the marginals for what the chain drew."""
    rows = tables.logits((), torch.full((2,), tables.size))[:, : tables.size].softmax(-1)
    return replace(denoised(tables, prefix, sampler), probs=torch.cat([rows, torch.zeros(2, 1).double()], -1))


def cut_by_value(tables: Pairs, prefix: Text, sampler: Branches) -> Draft:
    """Biased (docs/theory.md, Adaptive lengths): the second token goes where q likes it less."""
    draft = denoised(tables, prefix, sampler)
    return draft.only(range(1 if draft.q[1] < 0.5 else 2))


@pytest.mark.parametrize(("biased", "seed"), [(marginals, 31), (cut_by_value, 41)])
def test_wrong_drafts_are_caught(biased, seed: int) -> None:
    tables = Pairs(seed)
    assert distance(tables, partial(biased, tables), verified(Rule.RATIO)) > 1e-3


def sure_enough(confidences: Sequence[float]) -> int:
    """Positions up to the first of low confidence, one at least: it sees distributions, no value."""
    return max(1, next((i for i, confidence in enumerate(confidences) if confidence < 0.6), len(confidences)))


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_ending_a_draft_by_the_distribution_of_the_next_token_keeps_the_joint_distribution(rule: Rule) -> None:
    """It follows the tokens drawn before it, which stand when it is tested; the token itself is not drawn yet."""
    tables, values = Pairs(seed=41), {"gamma": 3, "stop_criterion": sure_enough}
    sizes = outcomes(lambda sampler: len(denoised(tables, (), sampler, **values).ids))
    assert len(sizes) > 1  # drafts of one round differ in length
    assert distance_of(tables, rule, **values) < TOLERANCE


def test_a_greedy_chain_takes_what_follows_what_it_took() -> None:
    tables = Pairs(seed=3)
    context = context_of((START,), 4, Branches([]), sampling=COLD)
    predict = partial(tables.logits, ())
    (state,) = denoise(predict, context, mask_id=tables.size, follow=tables.follow(()))
    draft = denoised(tables, (), Branches([]), gamma=4, sampling=COLD)
    before, expected = START, []
    for slot in range(4):
        before = int(tables.behind(slot, before, [tables.size] * 4).argmax())
        expected.append(before)
    assert list(draft.ids) == expected and draft.nfe == 1
    assert draft.probs is not None and draft.probs.sum(-1).tolist() == [1.0] * 4  # one-hot
    sure = state.confidence()
    for slot, before in enumerate([START, *expected[:-1]]):
        row = tables.behind(slot, before, [tables.size] * 4)
        assert sure[slot, : tables.size].tolist() == pytest.approx(row.tolist())


def test_the_tree_holds_the_most_probable_texts_of_the_chain() -> None:
    tables, size, window = Pairs(seed=12), 3, [3, 3]
    draft = denoised(tables, (), Branches([]), tree_nodes=5)
    assert draft.parents is not None
    first = tables.behind(0, START, window)
    weights = {(a,): float(first[a]) for a in range(size)}
    for a in range(size):
        second = tables.behind(1, a, window)
        weights |= {(a, b): weights[a,] * float(second[b]) for b in range(size)}
    assert texts(draft.ids, draft.parents) == sorted(weights, key=lambda text: -weights[text])[:5]


def test_known_tokens_are_what_a_later_step_follows() -> None:
    """T = 2 from left to right: the second step's first token follows the one that the first step drew, also where the
    second pass would put another one there."""
    shown = 0
    for seed in range(20):
        tables = Pairs(seed=seed)
        draft = denoised(tables, (), Branches([]), steps=2, sampling=COLD)
        first, second = draft.ids
        window = [first, tables.size]
        assert draft.nfe == 2 and second == int(tables.behind(1, first, window).argmax())
        other = int(tables.logits((), torch.tensor(window))[0, : tables.size].argmax())
        shown += second != int(tables.behind(1, other, window).argmax())
    assert shown > 2  # in so many the mistake would show


def test_forbidden_ids_are_no_candidates() -> None:
    logits = torch.tensor([[5.0, 1.0, 2.0], [5.0, 1.0, 2.0]], dtype=torch.float64)
    follow = lambda before, candidates: torch.zeros(*before.shape, candidates.shape[1], dtype=torch.float64)  # noqa: E731
    chained = Chain(follow, logits, [None, None], anchor=0, sampling=WARM, banned=(0,))
    _, q, _ = chained.draw([0, 1], Branches([]), 1)
    likelier = 1 / (1 + math.exp(-1))
    assert q.tolist() == [pytest.approx([0.0, 1 - likelier, likelier])] * 2


def test_shared_noise_belongs_to_an_id_not_to_a_candidate() -> None:
    """So a drafter that draws among candidates and a target that draws among all ids agree as often as they can."""
    sampler, ids = SharedGumbel(4, "draft", 0), torch.tensor([[6, 1, 4], [0, 2, 3]])
    probs = torch.rand(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probs /= probs.sum(-1, keepdim=True)
    wide = torch.zeros(2, 7, dtype=torch.float64).scatter_(-1, ids, probs)
    for first in range(40):
        places = sampler.sample(probs, [first, first + 1], Candidates(ids, 7))
        assert ids.gather(-1, places[:, None])[:, 0].tolist() == sampler.sample(wide, [first, first + 1]).tolist()


@pytest.mark.parametrize("slots", [[1], [0, 1]])
def test_a_chain_draws_with_the_noise_of_the_ids_that_it_draws(slots: list[int]) -> None:
    """Also where the first slot is known: each slot's candidates are its own."""
    generator = torch.Generator().manual_seed(1)
    for first in range(30):
        chained = Chain(
            lambda before, candidates: torch.randn(*before.shape, candidates.shape[1], generator=generator).double(),
            torch.randn(2, 90, dtype=torch.float64, generator=generator),
            [5 if 0 not in slots else None, None],
            anchor=0,
            sampling=WARM,
        )
        sampler = SharedGumbel(7, "draft", first)
        ids, q, _ = chained.draw(slots, sampler, first)
        assert ids.tolist() == sampler.sample(q, [first + slot for slot in slots]).tolist()
