"""Draft trees: what grows, how the target reads one, and what its events contain."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from fakes import END, FakeTarget, decoded
from tables import MASK, Pairs, Tables, denoised, texts

from specdiff_core.decoding.verify import expected_runs, verify
from specdiff_core.drafters.base import Draft
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.maths.randomness import Independent
from specdiff_core.maths.trees import ROOT, best_first, children, independent, merge, visible
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import ConfigError, DraftContractError
from specdiff_core.schema.events import Committed, DraftReady, TargetScored, Verified, depths
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Selection


@pytest.mark.parametrize("budget", [1, 2, 5, 12, 84, 200])
def test_the_tree_holds_the_most_probable_prefixes(budget: int) -> None:
    """Against all 4 + 16 + 64 prefixes of a window of three over four words, in order."""
    generator = torch.Generator().manual_seed(budget)
    log_q = torch.randn(3, 4, generator=generator, dtype=torch.float64).log_softmax(-1)
    ids, parents, totals = best_first(independent(log_q.exp(), budget), len(log_q), budget)
    every = {
        text: sum(float(log_q[i, token]) for i, token in enumerate(text))
        for size in (1, 2, 3)
        for text in itertools.product(range(4), repeat=size)
    }
    found = texts(ids, parents)
    assert len(found) == len(set(found)) == min(budget, len(every))
    assert [every[text] for text in found] == pytest.approx(sorted(every.values(), reverse=True)[:budget])
    assert all(parent < node for node, parent in enumerate(parents))
    assert totals == pytest.approx([every[text] for text in found])


def test_who_reads_whom() -> None:
    parents = [ROOT, ROOT, 0, 2, 1]
    assert depths(parents) == [0, 0, 1, 2, 1]
    assert children(parents, ROOT) == [0, 1] and children(parents, 3) == []
    assert visible(parents).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]


def test_nodes_that_are_not_worth_their_row_stay_out() -> None:
    """Of the texts 0 (.6), 00 (.54), 1 (.3), 10 (.27), … those above the bound, at least one."""
    log_q = torch.tensor([[0.6, 0.3, 0.1], [0.9, 0.05, 0.05]]).log()
    for bound, expected in ((0.0, 9), (0.25, 4), (0.28, 3), (0.99, 1)):
        ids, parents, _ = best_first(independent(log_q.exp(), 9), len(log_q), 9, bound)
        assert texts(ids, parents) == [(0,), (0, 0), (1,), (1, 0)][:expected] if bound else len(ids) == expected
    log_q = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log()  # nor what is impossible
    ids, parents, _ = best_first(independent(log_q.exp(), 10), len(log_q), 10)
    assert sorted(texts(ids, parents)) == [(0,), (0, 0), (1,), (1, 0)]


WAYS = {
    "window": {},
    "steps": {"steps": 2},
    "by value": {"steps": 2, "order": RevealOrder.VALUE_CONFIDENCE},
    "tree": {"tree_nodes": 40},
    "several": {"num_drafts": 2},
}


@pytest.mark.parametrize("kind", [Tables, Pairs])
@pytest.mark.parametrize("way", WAYS)
def test_no_draft_holds_the_mask_or_a_forbidden_id(kind: type[Tables], way: str) -> None:
    """However it is drawn: neither has a probability, and no draw of 40 finds one."""
    tables = kind(seed=0)
    for seed in range(40):
        draft = denoised(tables, (), Independent("draft", seed, 0), forbidden=(1,), **WAYS[way])
        assert not {1, MASK} & set(draft.ids)
        assert draft.probs is None or not draft.probs[:, [1, MASK]].any()
    assert way != "tree" or len(draft.ids) == 2 + 4


def test_the_selected_draft_is_the_one_with_the_longest_expected_run() -> None:
    """By hand: two drafts over (p, q) of a fair first coin and a loaded second one."""
    ids, parents, branches = merge([[0, 1], [1, 1], [0, 0]])
    assert (ids, parents) == ([0, 1, 1, 1, 0], [ROOT, 0, ROOT, 2, 0]) and branches == [(0, 1), (2, 3), (0, 4)]
    draft = tree(tuple(parents), tuple(ids))
    draft = dataclasses.replace(draft, branches=tuple(branches), probs=torch.full((5, 2), 0.5, dtype=torch.float64))
    p = torch.tensor([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    assert expected_runs(draft, p) == pytest.approx((0.5 + 0.45, 0.5 + 0.4, 0.5 + 0.05))
    for selection in Selection:
        verdict, _ = verify(draft, p, Rule.DELTA, Independent("x"), range(6), selection)
        assert verdict.scores == pytest.approx((0.95, 0.9, 0.55))
        assert verdict.chosen == (0 if selection is Selection.SELF else None)


TREE_IDS, TREE_PARENTS = [7, 9, 11, 13, 15], [ROOT, ROOT, 0, 2, 1]


def test_a_target_of_window_layers_refuses_a_tree() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, sliding_window=8, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    run = Target(Gemma2ForCausalLM(config).eval(), context=64).start()
    with pytest.raises(ConfigError, match="cannot verify a tree"):
        run.score([5, *TREE_IDS], TREE_PARENTS)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_events_of_a_tree_tell_p_and_q_at_every_node_where_detail_is_asked_for(temperature: float) -> None:
    config = DecodeConfig(gamma=5, tree_nodes=12, temperature=temperature, max_new_tokens=24)

    def pairs_of(detail: bool) -> list[tuple[DraftReady, TargetScored]]:
        found = [one for one in decoded(config, detail=detail) if isinstance(one, DraftReady | TargetScored)]
        return list(zip(found[::2], found[1::2], strict=True))

    for draft, scored in pairs_of(detail=True):
        nodes = range(len(draft.ids))
        assert len(scored.candidates) == 1 + len(nodes) and len(draft.node_q) == len(nodes)
        if temperature:  # p of a node is in its parent's row, if likely
            rows = [{one.id: one.prob for one in row} for row in scored.candidates]
            both = [(scored.p[node], rows[draft.parents[node] + 1].get(draft.ids[node])) for node in nodes]
            assert [p for p, row in both if row is not None] == [row for _, row in both if row is not None]
        totals: list[float] = []
        for node in nodes:
            parent = draft.parents[node]
            totals.append(draft.node_q[node] * (totals[parent] if parent != ROOT else 1.0))
        assert totals == pytest.approx(sorted(totals, reverse=True))  # the likeliest prefix first
        for parent in (ROOT, *nodes):
            assert 0 <= sum(draft.node_q[node] for node in children(draft.parents, parent)) <= 1 + 1e-6
    for draft, scored in pairs_of(detail=False):
        assert not draft.node_q and not scored.candidates and draft.parents is not None


def test_a_large_tree_needs_fewer_rounds_than_a_small_one() -> None:
    """Greedy, one seed; the events hold the tree."""
    rounds = {}
    for nodes in (0, 1, 40):
        events = decoded(DecodeConfig(max_new_tokens=60, gamma=5, tree_nodes=nodes))
        rounds[nodes] = fold(events).rounds
        drafts = [event for event in events if isinstance(event, DraftReady)]
        assert all(len(event.parents) == (len(event.ids) if nodes else 0) for event in drafts)
        assert all(len(event.ids) <= (nodes or 5) and event.nfe == 1 for event in drafts if event.ids)
        assert max(len(event.ids) for event in drafts) == (nodes or 5)  # ranked by a softmax
        for event, committed in zip(
            (e for e in events if isinstance(e, Verified)), (e for e in events if isinstance(e, Committed)), strict=True
        ):
            assert event.accepted == len(committed.ids) - 1
            assert len(event.path) == (event.accepted if nodes else 0)
            assert event.lossless
    assert rounds[40] < rounds[1]


@pytest.mark.parametrize("selection", list(Selection))
def test_several_drafts_at_temperature_0_differ(selection: Selection) -> None:
    """They are drawn at drafter temperature 1: K greedy drafts would be one."""
    config = DecodeConfig(max_new_tokens=50, gamma=4, num_drafts=6, selection=selection, rule=Rule.MATCH)
    events = decoded(config)
    drafts = [event for event in events if isinstance(event, DraftReady) and event.ids]
    assert all(len(event.branches) == 6 and event.nfe == 1 for event in drafts)
    assert max(len(event.ids) for event in drafts) > 4
    verified = [event for event in events if isinstance(event, Verified) and event.tests]
    assert all(len(event.scores) == 6 for event in verified)
    assert all((event.chosen is not None) == (selection is Selection.SELF) for event in verified)


@pytest.mark.parametrize("drafts", [{"tree_nodes": 40}, {"num_drafts": 6}])
def test_a_small_room_makes_a_small_tree(drafts: dict[str, int]) -> None:
    """Neither the context nor the limit of new tokens is passed, and the text is vanilla's."""
    for context, limit in ((20, 40), (64, 3)):
        config = DecodeConfig(rule=Rule.MATCH, max_new_tokens=limit, gamma=5, **drafts)
        found = decoded(config, target=FakeTarget(context=context))[-1]
        plain = decoded(config, drafter=VanillaDrafter(), target=FakeTarget(context=context))[-1]
        assert found.ids == plain.ids and found.reason == plain.reason


def tree(parents: tuple[int, ...], ids: tuple[int, ...]) -> Draft:
    return Draft.point_mass(ids, nfe=1, parents=parents)


def test_nothing_stands_behind_an_end_of_text() -> None:
    cut = tree((ROOT, 0, ROOT, 1, 2), (5, END, 6, 7, 8)).truncated([END])
    assert cut.ids == (5, END, 6, 8) and cut.parents == (ROOT, 0, ROOT, 2)


@pytest.mark.parametrize(
    ("parents", "words"),
    [((ROOT, 1), "not a tree"), ((ROOT,), "not a tree"), ((ROOT, -2), "not a tree"), ((ROOT, 0), "deeper than")],
)
def test_a_draft_that_is_no_tree_is_refused(parents: tuple[int, ...], words: str) -> None:
    with pytest.raises(DraftContractError, match=words):
        tree(parents, (5, 6)).check(1, 12, 4)
    with pytest.raises(DraftContractError, match="2 tokens for"):
        tree((ROOT, ROOT), (5, 6)).check(1, 12, 1)
