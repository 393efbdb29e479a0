"""Drafters that are no denoisers: token by token, and by copying. Their drafts, their rollback, their exactness."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from branches import Branches, spread
from fakes import FakeClock, FakeTarget, small_model
from tables import EXACT_RULES, TOLERANCE, Drafting, Tables, Text, context_of, distance, verified
from test_law import Ledger, engine_of

from specdiff_core.decoding.loop import speculate
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter, build
from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession, drained
from specdiff_core.drafters.prompt_lookup import PromptLookupDrafter, continuation
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.maths.distributions import to_probs
from specdiff_core.models.device import choose_placement
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import DraftContractError, TokenizerMismatch, WeightsError
from specdiff_core.schema.events import DenoiseStep, DraftReady, Event
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import NONE, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Sampling


def drafted(session: DraftSession, context: Context) -> Draft:
    return drained(session.draft(context))


@pytest.fixture(scope="module")
def drafter() -> AutoregressiveDrafter:
    return AutoregressiveDrafter("autoregressive", Target(small_model(), context=64, suppress=(1,)))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_token_is_drawn_from_its_true_conditional(drafter: AutoregressiveDrafter, temperature: float) -> None:
    """q_i is what the model says after the context and the drafted tokens to the left of i, in one plain forward."""
    ids, sampling = [3, 7, 9], Sampling(temperature=temperature)
    session = drafter.start()
    session.observe(ids[:-1], None)
    draft = drafted(session, context_of(ids, 5, sampling=sampling))
    whole = torch.tensor([[*ids, *draft.ids]])
    logits = drafter.reader.model(whole).logits[0, len(ids) - 1 : -1]
    assert draft.probs is not None
    torch.testing.assert_close(draft.probs, to_probs(logits, sampling, (1,)), atol=1e-5, rtol=1e-4)
    assert draft.exact_q == (True,) * 5 and draft.nfe == 5
    assert 1 not in draft.ids


@pytest.mark.parametrize("accepted", range(5))
def test_what_was_rejected_is_rolled_back(drafter: AutoregressiveDrafter, accepted: int) -> None:
    """After any outcome the next draft is that of a session which saw only what was committed."""
    ids = [3, 7, 9, 2]
    session = drafter.start()
    session.observe(ids[:-1], None)
    first = drafted(session, context_of(ids, 4)).ids
    committed = [*ids, *first[:accepted], 11]
    session.observe([ids[-1], *first[:accepted]], None)
    fresh = drafter.start()
    fresh.observe(committed[:-1], None)
    again, expected = drafted(session, context_of(committed, 4)), drafted(fresh, context_of(committed, 4))
    assert again.ids == expected.ids
    torch.testing.assert_close(again.probs, expected.probs, atol=1e-5, rtol=1e-4)


def test_a_draft_that_was_stopped_half_way_is_rolled_back(drafter: AutoregressiveDrafter) -> None:
    ids = [3, 7, 9, 2]
    session = drafter.start()
    session.observe(ids[:-1], None)
    half = session.draft(context_of(ids, 4))
    next(half)
    next(half)
    session.observe([ids[-1]], None)
    fresh = drafter.start()
    fresh.observe(ids, None)
    assert drafted(session, context_of([*ids, 5], 4)).ids == drafted(fresh, context_of([*ids, 5], 4)).ids


def test_two_sessions_do_not_interfere(drafter: AutoregressiveDrafter) -> None:
    one, other = drafter.start(), drafter.start()
    one.observe([3, 4], None)
    other.observe([8, 9, 10], None)
    alone = drafter.start()
    alone.observe([3, 4], None)
    drafted(other, context_of([8, 9, 10, 2], 4))
    assert drafted(one, context_of([3, 4, 5], 4)).ids == drafted(alone, context_of([3, 4, 5], 4)).ids


def test_a_full_context_shortens_the_draft(drafter: AutoregressiveDrafter) -> None:
    ids = [3] * 62
    session = drafter.start()
    session.observe(ids[:-1], None)
    assert session.room == 3  # 61 read, then the anchor and two drafted tokens
    assert len(drafted(session, context_of(ids, 3)).ids) == 3
    session = drafter.start()
    session.observe([3] * 66, None)
    assert session.room == 0


def conditionals(tables: Tables) -> FakeTarget:
    """Stands for a small causal model whose conditionals, behind a first id that starts a text, are the tables' q."""
    return FakeTarget(lambda ids: tables.logits(ids[1:], torch.zeros(1))[0], suppress=(tables.size,))


def sequential(tables: Tables, gamma: int, **values: Any) -> Drafting:
    """Drafts of the production session."""

    def drafting(prefix: Text, sampler: Branches) -> Draft:
        session = AutoregressiveDrafter("tables", conditionals(tables)).start()
        session.observe([0, *prefix][:-1], None)
        return drafted(session, context_of([0, *prefix], gamma, sampler, **values))

    return drafting


@pytest.mark.parametrize(("rule", "sizes"), spread(EXACT_RULES, [(3, 2), (2, 3)], held=1))
def test_sequential_drafts_keep_the_joint_distribution(rule: Rule, sizes: tuple[int, int]) -> None:
    """Three tokens over chained rounds, to 1e-12."""
    size, gamma = sizes
    tables = Tables(seed=31, size=size)
    assert distance(tables, sequential(tables, gamma), verified(rule)) < TOLERANCE


def race(target: Target, drafter, config: DecodeConfig) -> list[Event]:
    return list(speculate([3, 4, 5, 3, 4], config, target, drafter, FakeClock()))


def test_a_perfect_drafter_is_always_accepted() -> None:
    """Drafter and target are one model: every token is accepted, γ + 1 come from each round."""
    model = small_model(3)
    target, twin = Target(model, context=64), AutoregressiveDrafter("twin", Target(model, context=64))
    events = race(target, twin, DecodeConfig(max_new_tokens=25, gamma=4, steps=4, temperature=1.0))
    found = fold(events)
    assert found.alpha == 1.0 and found.tau == 5.0
    steps = [event for event in events if isinstance(event, DenoiseStep)]
    assert [event.revealed for event in steps[:4]] == [(0,), (1,), (2,), (3,)]
    assert [sum(token is not None for token in event.ids) for event in steps[:4]] == [1, 2, 3, 4]


def test_copies_what_followed_the_longest_ending() -> None:
    assert continuation([1, 2, 3, 9, 1, 2, 3], 2) == [9, 1]
    assert continuation([5, 2, 3, 7, 1, 2, 3, 8, 4, 2, 3], 3) == [8, 4, 2]  # the latest of two
    assert continuation([1, 2, 3, 9, 8, 2, 3], 8) == [9, 8, 2, 3]  # two tokens match; the copy ends with the text
    assert continuation([4, 4], 3) == [4]
    assert continuation([1, 2, 3], 3) == []
    assert continuation([1], 3) == []


def test_an_empty_copy_is_a_plain_step() -> None:
    """The loop goes on like vanilla where nothing matches; a copy costs no drafter pass."""
    events = race(Target(small_model(3), context=64), PromptLookupDrafter("p"), DecodeConfig(max_new_tokens=30))
    sizes = [len(event.ids) for event in events if isinstance(event, DraftReady)]
    assert 0 in sizes and max(sizes) > 0
    found = fold(events)
    assert found.nfe == 0 and found.committed == 30


@pytest.fixture
def pair(tmp_path: Path) -> PairSpec:
    small_model(3).save_pretrained(tmp_path / "target")
    small_model(1).save_pretrained(tmp_path / "small")
    source = str(tmp_path / "small")
    spec = DrafterSpec(name="autoregressive", label="AR", module="autoregressive", source=source, drafting="sequential")
    return PairSpec(name="tiny", label="Tiny", target=str(tmp_path / "target"), context=64, drafters=(spec, NONE))


def test_it_loads_strictly_and_for_its_own_target_only(pair: PairSpec, tmp_path: Path) -> None:
    placement, spec = choose_placement("cpu"), pair.drafters[0]
    loaded = build(spec, placement, target=small_model(3), pair=pair)
    assert loaded.reader.context == 64 and loaded.start() is not loaded.start()
    with pytest.raises(TokenizerMismatch, match="40 ids, the target 50"):
        build(spec, placement, target=small_model(3, vocab=50), pair=pair)
    (tmp_path / "small" / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        build(spec, placement, target=small_model(3), pair=pair)


def test_the_header_says_what_a_drafter_can_follow(pair: PairSpec) -> None:
    """No tree and no K for what denoises nothing; one pass behind a tree."""
    asked = DecodeConfig(gamma=20, steps=4, order=RevealOrder.ENTROPY, num_drafts=3)
    own = pair.drafters[0].follow(asked)
    assert (own.gamma, own.steps, own.order, own.num_drafts) == (20, 20, RevealOrder.LEFT_TO_RIGHT, 1)
    block = dataclasses.replace(pair.drafters[0], drafting="denoise", window=16)
    own = block.follow(asked)
    assert (own.gamma, own.steps, own.order, own.num_drafts) == (16, 1, RevealOrder.ENTROPY, 3)
    assert block.follow(dataclasses.replace(asked, num_drafts=1)).steps == 4


def test_what_t_means_to_each_kind_of_drafter(pair: PairSpec) -> None:
    spec = pair.drafters[0]
    assert [dataclasses.replace(spec, drafting=kind).passes(6, 3) for kind in ("denoise", "sequential", "copy")] == [
        3, 6, 1,
    ]  # fmt: skip


ONE = torch.ones(1, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"probs": ONE * 2 / 3}, "no distribution"),
        ({"probs": ONE / 6}, "no distribution"),
        ({"probs": torch.tensor([[1.5, -0.25, -0.25]], dtype=torch.float64)}, "no distribution"),
        ({"probs": ONE * torch.inf}, "not finite"),
        ({"ids": torch.tensor([0])}, "whole numbers"),
        ({"ids": (3,)}, "vocabulary"),
        ({"nfe": -4}, "whole numbers"),
        ({"nfe": "1"}, "whole numbers"),
        ({"reveal_steps": (-1,)}, "whole numbers"),
        ({"branches": ((0, 9),), "parents": (-1,)}, "branches"),
        ({"branches": ((0,),)}, "branches"),
    ],
)
def test_a_draft_that_cannot_be_verified_is_rejected(wrong: dict[str, Any], words: str) -> None:
    draft = Draft(ids=(0,), probs=ONE / 3, reveal_steps=(0,), exact_q=(True,), nfe=1)
    draft.check(4, 3)
    with pytest.raises(DraftContractError, match=words):
        dataclasses.replace(draft, **wrong).check(4, 3)


@pytest.mark.parametrize("size, revealed", [(0, ()), (5, (0,)), (4, (4,)), (4, (-1,))])
def test_a_state_that_is_no_window_is_rejected(size: int, revealed: tuple[int, ...]) -> None:
    state = DenoiseState(
        ids=torch.zeros(size, dtype=torch.long),
        masked=torch.zeros(size, dtype=torch.bool),
        revealed=revealed,
        confidence=lambda: ONE,
    )
    with pytest.raises(DraftContractError, match="window"):
        state.check(4)


def test_a_foreign_drafter_that_fails_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Its traceback is in the log; an error of our own code stays what it is."""

    class Broken(VanillaDrafter):
        name = "broken"

        def start(self) -> DraftSession:
            raise TypeError("no such thing")

    for module, expected in (("package:build", DraftContractError), ("vanilla", TypeError)):
        engine = engine_of(Ledger(lambda text: torch.zeros(3), 3), {"mdlm": Broken()})
        spec = DrafterSpec(name="mdlm", label="", module=module)
        engine.pair = dataclasses.replace(
            engine.pair, spec=dataclasses.replace(engine.pair.spec, drafters=(spec, NONE))
        )
        with pytest.raises(expected, match="no such thing"):
            list(engine.decode("2022", DecodeConfig(drafter="mdlm", max_new_tokens=2)))
    assert "the drafter mdlm failed" in caplog.text
