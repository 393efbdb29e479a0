"""The Markov chain over a window: its draws, trees, noise and confidences."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from branches import Branches
from tables import Pairs, context_of, denoised, texts

from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths.randomness import Candidates, Independent, SharedGumbel
from specdiff_core.models.markov import MarkovHead, Successors
from specdiff_core.schema.settings import Sampling

START = 0  # the first anchor
COLD = Sampling(temperature=0.0)


@pytest.mark.parametrize("gated", [False, True])
def test_the_tables_of_a_head_add_what_it_adds(gated: bool) -> None:
    torch.manual_seed(0)
    head = MarkovHead(6, 4, gated=gated).requires_grad_(False)
    embedding, rows, states = torch.randn(9, 6), torch.randn(9, 6), torch.randn(3, 6)
    before, candidates = torch.tensor([[1, 2], [0, 8], [5, 3]]), torch.tensor([[0, 4, 7]] * 3)
    changed = head(states[:, None].expand(-1, 2, -1), embedding[before]) - states[:, None]
    added = Successors(head, embedding, rows)(states, before, candidates)
    assert torch.allclose(added, (changed @ rows.T)[..., [0, 4, 7]], atol=1e-5)


def test_a_greedy_chain_takes_what_follows_what_it_took() -> None:
    tables = Pairs(seed=3)
    context = context_of((START,), 4, Branches([]), sampling=COLD)
    predict = partial(tables.logits, ())
    (state,) = denoise(predict, context, mask_id=tables.size, pair_scores=tables.pair_scores(()))
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


def test_of_several_drafts_the_first_is_shown_with_its_own_confidence() -> None:
    tables = Pairs(seed=5)
    for seed in range(10):
        context = context_of((START,), 4, Independent("draft", seed), num_drafts=3)
        (state,) = denoise(partial(tables.logits, ()), context, mask_id=tables.size, pair_scores=tables.pair_scores(()))
        ids = state.ids.tolist()
        for slot, before in enumerate([START, *ids[:-1]]):
            row = tables.behind(slot, before, [tables.size] * 4)
            assert state.confidence()[slot, : tables.size].tolist() == pytest.approx(row.tolist())


def test_a_tree_is_shown_along_one_path() -> None:
    """Each token of the window is the most probable one behind the one before."""
    for seed in range(5):
        tables, context = Pairs(seed=seed), context_of((START,), 3, Branches([]), tree_nodes=5)
        (state,) = denoise(partial(tables.logits, ()), context, mask_id=tables.size, pair_scores=tables.pair_scores(()))
        before = START
        for slot, token in enumerate(state.ids.tolist()):
            assert token == int(tables.behind(slot, before, [tables.size] * 3).argmax())
            before = token


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
    """T = 2 from left to right: the second step's first token follows the one that the first step
    drew, also where the second pass would put another one there."""
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


def test_shared_noise_belongs_to_an_id_not_to_a_candidate() -> None:
    """So a drafter among candidates and a target among all ids agree as often as they can."""
    sampler, ids = SharedGumbel(4, "draft", 0), torch.tensor([[6, 1, 4], [0, 2, 3]])
    probs = torch.rand(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    probs /= probs.sum(-1, keepdim=True)
    wide = torch.zeros(2, 7, dtype=torch.float64).scatter_(-1, ids, probs)
    for first in range(40):
        drawn = sampler.sample(probs, [first, first + 1], Candidates(ids, 7))
        assert ids.gather(-1, drawn[:, None])[:, 0].tolist() == sampler.sample(wide, [first, first + 1]).tolist()
