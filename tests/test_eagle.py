"""EAGLE's head: files with the released names, features beside tokens, a tree that grows by depth, and the same law."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
import torch
from branches import Branches, chain, outcomes, total_variation
from fakes import FakeTarget, last
from safetensors.torch import load_file, save_file
from test_drafters import context, drafted, race, small_model
from test_lossless import LENGTH, TOLERANCE, Tables
from test_tree import scored, texts

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Context, Draft
from specdiff_core.drafters.eagle import EagleDrafter, EagleSession, build
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.trees import ROOT, Growth
from specdiff_core.models.causal import vocabulary
from specdiff_core.models.device import choose_placement
from specdiff_core.models.eagle import EagleHead, load_eagle, save_eagle
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import DraftContractError, PairUnavailable, WeightsError
from specdiff_core.schema.events import DenoiseStep, DraftReady, Finished
from specdiff_core.schema.pairs import NONE, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig, Rule, Sampling
from specdiff_core.train.eagle import new_eagle

LAYERS = 3


@pytest.fixture(scope="module")
def model():
    return small_model(LAYERS)


@pytest.fixture(scope="module")
def head(model) -> EagleHead:
    head = new_eagle(model, seed=3).eval().requires_grad_(False)
    with torch.no_grad():
        for parameter in head.parameters():  # an opinion of its own: as it begins it repeats what it is given
            if parameter.ndim == 2:
                parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter)))
    return head


@pytest.fixture(scope="module")
def drafter(model, head: EagleHead) -> EagleDrafter:
    reader = copy.deepcopy(head).freeze(vocabulary(model), context=64)
    return EagleDrafter("eagle", Target(reader, context=64, suppress=(1,)), layers=(LAYERS - 1,))


def features_of(model, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model.model(torch.tensor([ids])).last_hidden_state[0]


def plainly(model, head: EagleHead, ids: list[int], drafted: tuple[int, ...]) -> torch.Tensor:
    """Logits ``[V]`` behind ``ids`` and ``drafted``: whole passes over everything, no cache, no session."""
    with torch.inference_mode():
        features = features_of(model, ids[:-1])
        for count in range(len(drafted) + 1):
            tokens = torch.tensor([[*ids[1:], *drafted[:count]]])
            found = head(model.get_input_embeddings()(tokens), features[None])[0]
            features = torch.cat([features, found[-1:]])
        return model.lm_head(features[-1])


def begun(drafter: EagleDrafter, model, ids: list[int]) -> EagleSession:
    session = EagleSession(drafter)
    session.observe(ids[:-1], features_of(model, ids[:-1]))
    return session


def tree_of(ids: list[int], gamma: int, nodes: int) -> Context:
    return dataclasses.replace(context(ids, gamma), tree_nodes=nodes)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_token_is_drawn_from_its_true_conditional(model, head, drafter, temperature: float) -> None:
    ids, sampling = [3, 7, 9, 4], Sampling(temperature=temperature)
    draft = drafted(begun(drafter, model, ids), context(ids, 5, sampling=sampling))
    tokens = tuple(draft.ids.tolist())
    logits = torch.stack([plainly(model, head, ids, tokens[:i]) for i in range(5)])
    assert draft.probs is not None and draft.exact_q == (True,) * 5 and draft.nfe == 5
    torch.testing.assert_close(draft.probs, to_probs(logits, sampling, (1,)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("nodes", [0, 6])
@pytest.mark.parametrize("accepted", range(4))
def test_what_was_drafted_is_rolled_back(model, drafter, accepted: int, nodes: int) -> None:
    """After any outcome the next draft is that of a session which saw only what was committed."""
    ids = [3, 7, 9, 2]
    session = begun(drafter, model, ids)
    first = drafted(session, tree_of(ids, 4, nodes)).ids.tolist()
    committed = [*ids, *first[:accepted], 11]
    every = features_of(model, committed[:-1])
    session.observe(committed[len(ids) - 1 : -1], every[len(ids) - 1 :])
    again = drafted(session, tree_of(committed, 4, nodes))
    expected = drafted(begun(drafter, model, committed), tree_of(committed, 4, nodes))
    assert (again.ids.tolist(), again.parents) == (expected.ids.tolist(), expected.parents)


def test_a_draft_that_was_stopped_half_way_is_rolled_back(model, drafter) -> None:
    ids = [3, 7, 9, 2]
    session = begun(drafter, model, ids)
    half = session.draft(context(ids, 4))
    next(half)
    next(half)
    committed = [*ids, 5]
    session.observe([2], features_of(model, ids)[-1:])
    told = context(committed, 4)
    assert drafted(session, told).ids.tolist() == drafted(begun(drafter, model, committed), told).ids.tolist()


@pytest.mark.parametrize("nodes", [1, 5, 8])
def test_the_tree_holds_the_most_probable_texts(model, head, drafter, nodes: int) -> None:
    """Against whole passes over every text of up to three of the 39 words that may be said."""
    ids = [3, 7, 9, 4]
    draft = drafted(begun(drafter, model, ids), tree_of(ids, 3, nodes))
    assert draft.parents is not None and draft.probs is None
    every: dict[tuple[int, ...], float] = {(): 0.0}
    deepest: list[tuple[int, ...]] = [()]
    for _ in range(3):
        found = {}
        for text in deepest:
            row = to_probs(plainly(model, head, ids, text)[None], Sampling(temperature=1.0), (1,))[0].log()
            found |= {(*text, token): every[text] + float(row[token]) for token in range(40) if token != 1}
        every |= found
        deepest = sorted(found, key=lambda text: -found[text])[:8]
    del every[()]
    got = texts(draft.ids.tolist(), list(draft.parents))
    assert len(set(got)) == nodes
    assert sorted((every[text] for text in got), reverse=True) == pytest.approx(
        sorted(every.values(), reverse=True)[:nodes], abs=1e-4
    )


def test_a_tree_stops_where_no_deeper_node_could_be_in_it(model, drafter) -> None:
    """One node: its children cannot be more probable than it is, so the first pass is the last."""
    ids = [3, 7, 9, 4]
    assert drafted(begun(drafter, model, ids), tree_of(ids, 6, 1)).nfe == 1


def test_growth_keeps_parents_before_children() -> None:
    growth = Growth(3, 2)
    growth.extend([ROOT], torch.tensor([[0.6, 0.3, 0.1]]).log())
    assert (growth.ids, growth.open(), growth.best_path()) == ([0, 1], [0, 1], [0])
    growth.extend([0, 1], torch.tensor([[0.9, 0.05, 0.05], [0.5, 0.25, 0.25]]).log())
    assert growth.open() == [2] and growth.best_path() == [0, 0]  # 0.54 is among the three best, 0.15 is not
    assert growth.best() == ([0, 1, 0], [ROOT, ROOT, 0])
    sure = Growth(4, 2)
    sure.extend([ROOT], torch.tensor([[1.0, 0.0, 0.0]]).log())
    assert sure.ids == [0]  # an impossible token is no node


class Conditionals:
    """Stands for a head whose conditionals are the tables' q, whatever the features."""

    def __init__(self, tables: Tables) -> None:
        self.name = "head"
        self.reader = FakeTarget(lambda ids: tables.logits(ids[1:], torch.zeros(1))[0], suppress=(tables.size,))

    def read(self, features: torch.Tensor) -> torch.Tensor:
        return features


@pytest.mark.parametrize("nodes", [0, 4])
@pytest.mark.parametrize("rule", [Rule.RATIO, Rule.DELTA, Rule.MATCH])
@pytest.mark.parametrize(("size", "gamma"), [(3, 2), (2, 3)])
def test_the_joint_law_is_the_targets(rule: Rule, size: int, gamma: int, nodes: int) -> None:
    """Enumeration through the production session and ``verify``: three tokens over chained rounds, to 1e-12."""
    tables = Tables(seed=47, size=size)

    def round_law(prefix: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        def play(sampler: Branches) -> tuple[int, ...]:
            session = EagleSession(Conditionals(tables))
            ids = [0, 0, *prefix]  # a token to have a feature of, and a start
            session.observe(ids[:-1], torch.zeros(len(ids) - 1, 1))
            told = dataclasses.replace(context(ids, gamma, sampler), tree_nodes=nodes)
            draft = drafted(session, told)
            scores = scored(tables, prefix, draft) if nodes else tables.scores(prefix, draft)
            positions = range(len(prefix), len(prefix) + draft.ids.numel() + 1)
            verdict, _ = verify(draft, scores, rule, sampler, positions)
            return (*(int(draft.ids[node]) for node in verdict.path), verdict.extra)

        return outcomes(play)

    assert total_variation(chain(round_law, LENGTH), tables.target_law(LENGTH)) < TOLERANCE


@pytest.mark.parametrize(("nodes", "temperature"), [(0, 0.0), (0, 1.0), (7, 0.0), (7, 1.0)])
def test_match_returns_vanillas_text(model, drafter, nodes: int, temperature: float) -> None:
    """In fp32, through the loop (docs/theory.md, Match)."""
    target = Target(model, context=64)
    config = DecodeConfig(
        rule=Rule.MATCH, temperature=temperature, max_new_tokens=40, gamma=4, steps=4, seed=5, tree_nodes=nodes
    )
    events = race(target, drafter, config)
    told = last(events)
    assert isinstance(told, Finished) and told.ids == last(race(target, VanillaDrafter(), config)).ids
    drafts = [event for event in events if isinstance(event, DraftReady) and event.ids]
    assert all(bool(event.parents) == bool(nodes) for event in drafts) and len(drafts) > 3
    steps = [event for event in events if isinstance(event, DenoiseStep)]
    assert steps[0].revealed == (0,)


def test_it_wants_a_feature_for_each_token(drafter) -> None:
    session = EagleSession(drafter)
    with pytest.raises(DraftContractError, match="features of 2 tokens and got 0"):
        session.observe([3, 4], None)
    assert drafted(session, context([3], 4)).ids.numel() == 0  # a prompt of one token: nothing was read


def test_a_full_context_shortens_the_draft(model, drafter) -> None:
    ids = [3] * 62
    assert drafted(begun(drafter, model, ids), context(ids, 8)).ids.numel() == 4  # 61 entries, three behind them


RELEASED = {
    "fc.weight",
    "layers.0.self_attn.q_proj.weight",
    "layers.0.self_attn.k_proj.weight",
    "layers.0.self_attn.v_proj.weight",
    "layers.0.self_attn.o_proj.weight",
    "layers.0.mlp.gate_proj.weight",
    "layers.0.mlp.up_proj.weight",
    "layers.0.mlp.down_proj.weight",
    "layers.0.post_attention_layernorm.weight",
}


@pytest.fixture
def pair(tmp_path: Path, model, head: EagleHead) -> PairSpec:
    save_eagle(head, tmp_path / "eagle")
    source = str(tmp_path / "eagle")
    spec = DrafterSpec(name="eagle", label="E", module="eagle", source=source, drafting="sequential", trees=True)
    return PairSpec(name="tiny", label="Tiny", target="", context=64, drafters=(spec, NONE))


def test_files_have_the_released_names(pair: PairSpec, tmp_path: Path, model, head: EagleHead) -> None:
    file = tmp_path / "eagle" / "model.safetensors"
    tensors = load_file(file)
    assert set(tensors) == RELEASED
    again = load_eagle(tmp_path / "eagle")
    for name, tensor in head.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.bfloat16().float()), name
    # As released: the target's own table beside the head, and a bias.
    save_file({**tensors, "embed_tokens.weight": torch.zeros(40, 32), "fc.bias": torch.ones(32)}, file)
    assert torch.equal(load_eagle(tmp_path / "eagle").fc.bias, torch.ones(32))


def test_it_loads_strictly_and_for_its_own_target_only(pair: PairSpec, tmp_path: Path, model) -> None:
    placement, spec = choose_placement("cpu"), pair.drafters[0]
    loaded = build(spec, placement, target=model, pair=pair)
    assert loaded.layers == (LAYERS - 1,) and loaded.reader.context == 64
    with pytest.raises(PairUnavailable, match="another target"):
        build(spec, placement, target=small_model(LAYERS, vocab=50), pair=pair)
    file = tmp_path / "eagle" / "model.safetensors"
    tensors = load_file(file)
    save_file({name: tensor for name, tensor in tensors.items() if name != "fc.weight"}, file)
    with pytest.raises(WeightsError, match=r"first fc\.weight"):
        build(spec, placement, target=model, pair=pair)
    (tmp_path / "eagle" / "config.json").write_text('{"hidden_size": "wide"}')
    with pytest.raises(WeightsError, match="EAGLE head cannot be loaded"):
        build(spec, placement, target=model, pair=pair)


def test_a_loaded_head_drafts_as_the_saved_one(pair: PairSpec, model, head: EagleHead) -> None:
    """What bf16 files leave of it, on a target that gives features of its last layer through the loop."""
    loaded = build(pair.drafters[0], choose_placement("cpu"), target=model, pair=pair)
    ids = [3, 7, 9, 4]
    draft: Draft = drafted(begun(loaded, model, ids), context(ids, 4, sampling=Sampling(temperature=0.0)))
    rounded = load_eagle(Path(pair.drafters[0].source))
    for i, token in enumerate(draft.ids.tolist()):
        logits = plainly(model, rounded, ids, tuple(draft.ids.tolist()[:i]))
        assert int(logits.argmax()) == token
