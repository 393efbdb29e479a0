"""Draft trees: what grows, how the target reads one, and that walking it keeps the target's distribution."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import partial

import pytest
import torch
from branches import Branches, spread
from fakes import END, FakeClock, FakeTarget, good_drafter, last, small_model
from tables import EXACT_RULES, MASK, TOLERANCE, Pairs, Tables, Text, denoised, distance, distance_of, texts, verified

from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.decoding.verify import expected_runs, verify
from specdiff_core.drafters.base import Draft
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.maths.distributions import residual
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


def test_impossible_prefixes_do_not_grow() -> None:
    log_q = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log()
    ids, parents, _ = best_first(independent(log_q.exp(), 10), len(log_q), 10)
    assert sorted(texts(ids, parents)) == [(0,), (0, 0), (1,), (1, 0)]


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
    """Of the texts 0 (.6), 00 (.54), 1 (.3), 10 (.27), … those above the bound, and the first in any case."""
    log_q = torch.tensor([[0.6, 0.3, 0.1], [0.9, 0.05, 0.05]]).log()
    for bound, expected in ((0.0, 9), (0.25, 4), (0.28, 3), (0.99, 1)):
        ids, parents, _ = best_first(independent(log_q.exp(), 9), len(log_q), 9, bound)
        assert texts(ids, parents) == [(0,), (0, 0), (1,), (1, 0)][:expected] if bound else len(ids) == expected


@pytest.mark.parametrize(("rule", "sizes", "nodes"), spread(EXACT_RULES, [(3, 2), (2, 3), (4, 1)], [1, 2, 4, 7]))
def test_walking_a_tree_keeps_the_joint_distribution(rule: Rule, sizes: tuple[int, int], nodes: int) -> None:
    """Rounds chained, three tokens, to 1e-12."""
    size, gamma = sizes
    assert distance_of(Tables(seed=nodes, size=size), rule, gamma=gamma, tree_nodes=nodes) < TOLERANCE


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_a_tree_without_improbable_nodes_keeps_the_joint_distribution(rule: Rule) -> None:
    """Its size follows from the drafter's distributions and the past; the target's draws come after."""
    tables = Tables(seed=6)

    def drafting(prefix: Text, sampler: Branches) -> Draft:
        bound = 0.3 / (1 + len(prefix))  # it may follow the past
        return denoised(tables, prefix, sampler, tree_nodes=7, min_node_prob=bound)

    assert len({len(drafting(prefix, Branches([])).ids) for prefix in ((), (0,), (1,), (2,))}) > 1
    assert distance(tables, drafting, verified(rule)) < TOLERANCE


def longest_branch(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Biased (docs/theory.md, Several drafts): each branch has draws of its own, and the longest result stays."""
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
    """Biased: the first child is tested with p(x); after a rejection the token is drawn from p itself again."""
    probs = tables.scores(prefix, draft)
    accepted, _ = sampler.accept(float(probs[0, draft.ids[0]]))
    return draft.ids[:1] if accepted else (int(sampler.sample(probs[:1], [0])[0]),)


def soft_test(tables: Tables, prefix: Text, draft: Draft, branch: tuple[int, ...], sampler: Branches) -> Text:
    """p/q and its residual along one branch."""
    probs, text, row = tables.scores(prefix, draft), (), 0
    for node in branch:
        token, q = draft.ids[node], draft.probs[node]
        if not sampler.accept(min(1.0, float(probs[row, token] / q[token])))[0]:
            return (*text, int(sampler.sample(residual(probs[row], q)[None], [0])[0]))
        text, row = (*text, token), node + 1
    return (*text, int(sampler.sample(probs[row][None], [0])[0]))


def selected_by_target_then_soft(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Biased: the selected draft no longer follows q (docs/theory.md, Several drafts)."""
    runs = expected_runs(draft, tables.scores(prefix, draft))
    return soft_test(tables, prefix, draft, draft.branches[runs.index(max(runs))], sampler)


def selected_by_drafter_then_soft(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Biased, too: the drafter's own favourite is not a draw from q."""
    best = max(draft.branches, key=lambda branch: math.prod(draft.q[node] for node in branch))
    return soft_test(tables, prefix, draft, best, sampler)


def sorted_rounds(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Biased: multi-round needs the order of drawing; here the target's favourite comes first."""
    p = tables.scores(prefix, draft)[0]
    ranked = tuple(sorted(draft.branches, key=lambda branch: -float(p[draft.ids[branch[0]]])))
    play = verified(Rule.RATIO, Selection.MULTI_ROUND)
    return play(tables, prefix, dataclasses.replace(draft, branches=ranked), sampler)


def rounds_from_p(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
    """Biased: after a rejection the next draft is tested with p again, not with its residual."""
    p = tables.scores(prefix, draft)[0]
    for branch in draft.branches:
        token, q = draft.ids[branch[0]], draft.probs[branch[0]]
        if sampler.accept(min(1.0, float(p[token] / q[token])))[0]:
            return (token,)
    return (int(sampler.sample(residual(p, q)[None], [0])[0]),)


SCHEMES = [
    *((biased, {"tree_nodes": 4}) for biased in (longest_branch, untested_siblings)),
    *(
        (biased, {"num_drafts": 2})
        for biased in (selected_by_target_then_soft, selected_by_drafter_then_soft, sorted_rounds, rounds_from_p)
    ),
]


@pytest.mark.parametrize(("biased", "values"), SCHEMES)
def test_wrong_walks_and_wrong_uses_of_several_drafts_are_caught(biased, values: dict[str, int]) -> None:
    assert any(
        distance(tables, partial(denoised, tables, **values), biased, 2) > 1e-2 for tables in map(Tables, range(4))
    )


@pytest.mark.parametrize(
    ("selection", "rule", "sizes"),
    spread(list(Selection), [Rule.RATIO, Rule.DELTA, Rule.MATCH], [(3, 2, 2), (2, 3, 2), (2, 2, 3), (3, 1, 3)]),
)
def test_several_drafts_keep_the_joint_distribution(
    selection: Selection, rule: Rule, sizes: tuple[int, int, int]
) -> None:
    """Self-selection with the point-mass rule, the walk over the trie, multi-round rejection: all to 1e-12."""
    size, gamma, drafts = sizes
    tables, length = Tables(seed=50 + drafts, size=size), 2 if drafts == 3 else 3
    assert distance_of(tables, rule, selection, gamma=gamma, num_drafts=drafts, length=length) < TOLERANCE


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


@pytest.fixture(scope="module")
def llama() -> Target:
    return Target(small_model(2), context=64)


TREE_IDS, TREE_PARENTS = [7, 9, 11, 13, 15], [ROOT, ROOT, 0, 2, 1]


def test_a_tree_is_read_as_if_each_branch_stood_alone(llama: Target) -> None:
    """One pass with the ancestors' mask and the depths as positions, against one plain pass for each text."""
    run = llama.start((0, 1))
    run.read([3, 4])
    scores = run.score([5, *TREE_IDS], TREE_PARENTS)
    for node, text in enumerate([(), *texts(TREE_IDS, TREE_PARENTS)]):
        alone = llama.start((0, 1))
        plain = alone.score([3, 4, 5, *text])
        torch.testing.assert_close(scores.logits[node], plain.logits[-1], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(scores.features[node], plain.features[-1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("path", [(), (0,), (1, 4), (0, 2), (0, 2, 3)])
def test_only_the_walked_branch_stays(llama: Target, path: tuple[int, ...]) -> None:
    """After the rollback the next pass is that of a run that read the surviving text only."""
    run = llama.start()
    run.read([3, 4])
    run.score([5, *TREE_IDS], TREE_PARENTS)
    run.rollback(6, [0, *(node + 1 for node in path)])
    assert run.length == 3 + len(path)
    fresh = llama.start()
    fresh.read([3, 4, 5, *(TREE_IDS[node] for node in path)])
    torch.testing.assert_close(run.score([20, 21]).logits, fresh.score([20, 21]).logits, atol=1e-5, rtol=1e-4)


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


def race(config: DecodeConfig, *, drafter=None, target=None, ends: tuple[int, ...] = ()):
    return list(
        speculate(
            [3, 4, 5], config, target or FakeTarget(), drafter or good_drafter(), FakeClock(), ending=Ending(ends)
        )
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_events_of_a_tree_tell_p_and_q_at_every_node_where_detail_is_asked_for(temperature: float) -> None:
    config = DecodeConfig(gamma=5, tree_nodes=12, temperature=temperature, max_new_tokens=24)

    def pairs_of(detail: bool) -> list[tuple[DraftReady, TargetScored]]:
        events = list(speculate([3, 4], config, FakeTarget(), good_drafter(), FakeClock(), detail=detail))
        found = [one for one in events if isinstance(one, DraftReady | TargetScored)]
        return list(zip(found[::2], found[1::2], strict=True))

    for draft, scored in pairs_of(detail=True):
        nodes = range(len(draft.ids))
        assert len(scored.candidates) == 1 + len(nodes) and len(draft.node_q) == len(nodes)
        if temperature:  # p of a node is what the row of its parent says, where it is among the likeliest
            rows = [{one.id: one.prob for one in row} for row in scored.candidates]
            both = [(scored.p[node], rows[draft.parents[node] + 1].get(draft.ids[node])) for node in nodes]
            assert [p for p, row in both if row is not None] == [row for _, row in both if row is not None]
        totals: list[float] = []
        for node in nodes:
            parent = draft.parents[node]
            totals.append(draft.node_q[node] * (totals[parent] if parent != ROOT else 1.0))
        assert totals == pytest.approx(sorted(totals, reverse=True))  # the most probable prefix comes first
        for parent in (ROOT, *nodes):
            assert 0 <= sum(draft.node_q[node] for node in children(draft.parents, parent)) <= 1 + 1e-6
    for draft, scored in pairs_of(detail=False):
        assert not draft.node_q and not scored.candidates and draft.parents is not None


def test_a_large_tree_needs_fewer_rounds_than_a_small_one() -> None:
    """Greedy, one seed; the events hold the tree."""
    rounds = {}
    for nodes in (0, 1, 40):
        events = race(DecodeConfig(max_new_tokens=60, gamma=5, tree_nodes=nodes))
        rounds[nodes] = fold(events).rounds
        drafts = [event for event in events if isinstance(event, DraftReady)]
        assert all(len(event.parents) == (len(event.ids) if nodes else 0) for event in drafts)
        assert all(len(event.ids) <= (nodes or 5) and event.nfe == 1 for event in drafts if event.ids)
        assert max(len(event.ids) for event in drafts) == (nodes or 5)  # branches are ranked by a softmax, not one-hot
        for event, committed in zip(
            (e for e in events if isinstance(e, Verified)), (e for e in events if isinstance(e, Committed)), strict=True
        ):
            assert event.accepted == len(committed.ids) - 1
            assert len(event.path) == (event.accepted if nodes else 0)
            assert event.lossless
    assert rounds[40] < rounds[1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("selection", list(Selection))
def test_several_drafts_under_match_return_vanillas_text(selection: Selection, temperature: float) -> None:
    """And at temperature 0 K drafts are drawn at drafter temperature 1: K greedy drafts would be one."""
    config = DecodeConfig(
        rule=Rule.MATCH, temperature=temperature, max_new_tokens=50, gamma=4, num_drafts=6, selection=selection
    )
    events = race(config, ends=(END,))
    assert last(events).ids == last(race(config, drafter=VanillaDrafter(), ends=(END,))).ids
    drafts = [event for event in events if isinstance(event, DraftReady) and event.ids]
    assert all(len(event.branches) == 6 and event.nfe == 1 for event in drafts)
    assert max(len(event.ids) for event in drafts) > 4  # they differ
    verified = [event for event in events if isinstance(event, Verified) and event.tests]
    assert all(len(event.scores) == 6 for event in verified)
    assert all((event.chosen is not None) == (selection is Selection.SELF) for event in verified)


def test_a_small_room_makes_a_small_tree() -> None:
    """Neither the context nor the limit of new tokens is passed, and the text is vanilla's."""
    for context, limit in ((20, 40), (64, 3)):
        config = DecodeConfig(rule=Rule.MATCH, max_new_tokens=limit, gamma=5, tree_nodes=40)
        found = last(race(config, target=FakeTarget(context=context)))
        plain = last(race(config, drafter=VanillaDrafter(), target=FakeTarget(context=context)))
        assert found.ids == plain.ids and found.reason == plain.reason


def tree(parents: tuple[int, ...], ids: tuple[int, ...]) -> Draft:
    return Draft.point_mass(ids, nfe=1, parents=parents)


def test_nothing_stands_behind_an_end_of_text() -> None:
    cut = tree((ROOT, 0, ROOT, 1, 2), (5, END, 6, 7, 8)).until([END])
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
