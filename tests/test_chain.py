"""The Markov chain over a window: what it draws follows the q it reports, whatever rule, order, tree or selection.

Enumeration through the production ``denoise`` and ``verify``; only sampler and the networks are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from branches import Branches, chain, in_turn, outcomes, spread, total_variation
from test_lossless import EXACT_RULES, ORDERS, TOLERANCE, Tables
from test_tree import scored
from torch import Tensor

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths import chains as chain_module
from specdiff_core.maths.chains import Chain, Follow
from specdiff_core.maths.randomness import Candidates, SharedGumbel
from specdiff_core.schema.settings import RevealOrder, Rule, Sampling, Selection

START = 0  # the first anchor
WARM = Sampling(temperature=1.0)


class Pairs(Tables):
    """Tables whose drafter also says what each token adds to the candidates behind it."""

    def follow(self, prefix: tuple[int, ...]) -> Follow:
        def pairs(before: Tensor, candidates: Tensor) -> Tensor:
            rows = []
            for slot, (left, right) in enumerate(zip(before.tolist(), candidates.tolist(), strict=True)):
                known = [self._dirichlet("pair", prefix, slot, token).log() for token in left]
                rows.append(torch.stack([row[right] for row in known]))
            return torch.stack(rows)

        return pairs

    def behind(self, slot: int, before: int, window: Sequence[int]) -> Tensor:
        """The chain's law of a slot in the first round, behind ``before``, when the pass saw ``window``."""
        marginal = self.logits((), torch.tensor(window))[slot, : self.size].log_softmax(-1)
        return (marginal + self._dirichlet("pair", (), slot, before).log()).softmax(-1)


def drafted(
    tables: Pairs,
    prefix: tuple[int, ...],
    sampler: Branches,
    *,
    order: RevealOrder = RevealOrder.LEFT_TO_RIGHT,
    sampling: Sampling = WARM,
    **asked: Any,
) -> tuple[Draft, list[DenoiseState]]:
    context = Context(
        ids=(START, *prefix), order=order, sampling=sampling, sampler=sampler, **{"gamma": 2, "steps": 1, **asked}
    )
    states = []
    run = denoise(
        lambda window: tables.logits(prefix, window), context, mask_id=tables.size, follow=tables.follow(prefix)
    )
    while True:
        try:
            states.append(next(run))
        except StopIteration as done:
            return done.value, states


def distance(
    tables: Pairs,
    rule: Rule,
    selection: Selection = Selection.TRIE,
    spoil: Callable = lambda draft: draft,
    **asked: Any,
) -> float:
    """Total variation between the joint law of three tokens over chained rounds and the target's."""

    def round_law(prefix: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        def tested(draft: Draft, sampler: Branches) -> tuple[int, ...]:
            probs = tables.scores(prefix, draft) if draft.parents is None else scored(tables, prefix, draft)
            places = range(len(prefix), len(prefix) + len(draft.ids) + 1)
            verdict, _ = verify(draft, probs, rule, sampler, places, selection)
            return (*(int(draft.ids[node]) for node in verdict.path), verdict.extra)

        return in_turn(lambda sampler: spoil(drafted(tables, prefix, sampler, **asked)[0]), tested)

    return total_variation(chain(round_law, 3), tables.target_law(3))


@pytest.mark.parametrize(("rule", "order", "steps"), spread(EXACT_RULES, ORDERS, [1, 2]))
def test_drawing_in_order_keeps_the_joint_law(rule: Rule, order: RevealOrder, steps: int) -> None:
    assert distance(Pairs(seed=30 + steps), rule, order=order, steps=steps) < TOLERANCE


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_three_tokens_in_order_keep_the_joint_law(order: RevealOrder, steps: int) -> None:
    assert distance(Pairs(seed=steps, size=2), Rule.RATIO, order=order, gamma=3, steps=steps) < TOLERANCE


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_fewer_candidates_than_ids_keep_the_joint_law(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """q is zero outside the candidates, and what is tested says so."""
    monkeypatch.setattr(chain_module, "SAMPLED", 2)
    tables = Pairs(seed=5)
    draft, _ = drafted(tables, (), Branches([]))
    assert draft.probs is not None and (draft.probs > 0).sum(-1).tolist() == [2, 2]
    assert distance(tables, rule) < TOLERANCE


@pytest.mark.parametrize("nodes", [1, 3, 5])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_a_tree_of_the_chain_keeps_the_joint_law(rule: Rule, nodes: int) -> None:
    assert distance(Pairs(seed=nodes), rule, tree_nodes=nodes) < TOLERANCE


@pytest.mark.parametrize("selection", list(Selection))
@pytest.mark.parametrize("rule", [Rule.RATIO, Rule.DELTA])
def test_several_drafts_of_the_chain_keep_the_joint_law(rule: Rule, selection: Selection) -> None:
    assert distance(Pairs(seed=9, size=2), rule, selection, num_drafts=2) < TOLERANCE


def test_each_node_of_several_drafts_keeps_the_law_that_it_was_drawn_from() -> None:
    """Two drafts over three words: behind different first tokens the second ones have different laws."""
    assert distance(Pairs(seed=10), Rule.RATIO, Selection.MULTI_ROUND, num_drafts=2) < TOLERANCE


def test_reporting_the_marginals_for_what_the_chain_drew_is_caught() -> None:
    """Biased: p/q with a q that the token was not drawn from."""
    tables = Pairs(seed=31)

    def spoil(draft: Draft) -> Draft:
        window = torch.full((2,), tables.size)
        marginals = tables.logits((), window)[:, : tables.size].softmax(-1)
        return replace(draft, probs=torch.cat([marginals, torch.zeros(2, 1, dtype=torch.float64)], -1))

    assert distance(tables, Rule.RATIO, spoil=spoil) > 1e-3


def sure_enough(beliefs: Sequence[float]) -> int:
    """Positions up to the first whose belief is low, one at least: it sees laws, no value."""
    return max(1, next((i for i, belief in enumerate(beliefs) if belief < 0.6), len(beliefs)))


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_ending_a_draft_by_the_law_of_the_next_token_keeps_the_joint_law(rule: Rule) -> None:
    """That law follows the tokens drawn before it, which stand when it is tested; the token itself is not drawn yet."""
    tables = Pairs(seed=41)
    sizes = outcomes(lambda sampler: len(drafted(tables, (), sampler, gamma=3, stop_criterion=sure_enough)[0].ids))
    assert len(sizes) > 1  # drafts of one round differ in length
    assert distance(tables, rule, gamma=3, stop_criterion=sure_enough) < TOLERANCE


def test_ending_a_draft_by_a_drawn_value_is_caught() -> None:
    """The forbidden cut (docs/theory.md, Lengths chosen as it goes): the second token goes where q likes it less."""

    def spoil(draft: Draft) -> Draft:
        assert draft.probs is not None
        size = 1 if draft.probs[1, draft.ids[1]] < 0.5 else 2
        return replace(
            draft,
            ids=draft.ids[:size],
            probs=draft.probs[:size],
            exact_q=draft.exact_q[:size],
            reveal_steps=draft.reveal_steps[:size],
        )

    assert distance(Pairs(seed=41), Rule.RATIO, spoil=spoil) > 1e-3


def test_a_greedy_chain_takes_what_follows_what_it_took() -> None:
    tables = Pairs(seed=3)
    draft, (state,) = drafted(tables, (), Branches([]), gamma=4, sampling=Sampling(temperature=0.0))
    before, expected = START, []
    for slot in range(4):
        before = int(tables.behind(slot, before, [tables.size] * 4).argmax())
        expected.append(before)
    assert draft.ids.tolist() == expected and draft.nfe == 1
    assert draft.probs is not None and draft.probs.sum(-1).tolist() == [1.0] * 4  # one-hot
    sure = state.confidence()
    for slot, before in enumerate([START, *expected[:-1]]):
        row = tables.behind(slot, before, [tables.size] * 4)
        assert sure[slot, : tables.size].tolist() == pytest.approx(row.tolist())


def test_the_tree_holds_the_most_probable_texts_of_the_chain() -> None:
    tables, size, window = Pairs(seed=12), 3, [3, 3]
    draft, _ = drafted(tables, (), Branches([]), tree_nodes=5)
    assert draft.parents is not None
    first = tables.behind(0, START, window)
    weights = {(a,): float(first[a]) for a in range(size)}
    for a in range(size):
        second = tables.behind(1, a, window)
        weights |= {(a, b): weights[a,] * float(second[b]) for b in range(size)}
    ids, texts = draft.ids.tolist(), []
    for node, parent in enumerate(draft.parents):
        texts.append((*(texts[parent] if parent >= 0 else ()), ids[node]))
    assert texts == sorted(weights, key=lambda text: -weights[text])[:5]


def test_known_tokens_are_what_a_later_step_follows() -> None:
    """T = 2 from left to right: the second step's first token follows the one that the first step drew, also where the
    second pass would put another one there."""
    told = 0
    for seed in range(20):
        tables = Pairs(seed=seed)
        draft, states = drafted(tables, (), Branches([]), gamma=2, steps=2, sampling=Sampling(temperature=0.0))
        first, second = draft.ids.tolist()
        window = [first, tables.size]
        assert len(states) == 2 and second == int(tables.behind(1, first, window).argmax())
        other = int(tables.logits((), torch.tensor(window))[0, : tables.size].argmax())
        told += second != int(tables.behind(1, other, window).argmax())
    assert told > 2  # in so many the mistake would show


def test_forbidden_ids_are_no_candidates() -> None:
    logits = torch.tensor([[5.0, 1.0, 2.0], [5.0, 1.0, 2.0]], dtype=torch.float64)
    chained = Chain(
        lambda before, candidates: torch.zeros(*before.shape, candidates.shape[1], dtype=torch.float64),
        logits,
        [None, None],
        anchor=0,
        sampling=WARM,
        banned=(0,),
    )
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
