"""Drafters that are no denoisers, token by token and by copying; and the drafting contract."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from fakes import FakeClock, Ledger, small_model
from tables import drafted
from tiny_pairs import engine_of

from specdiff_core.decoding.loop import speculate
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.base import DenoiseState, Draft, DraftSession
from specdiff_core.drafters.prompt_lookup import PromptLookupDrafter, continuation
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.measure.race import race
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import DraftContractError
from specdiff_core.schema.events import DraftReady, Finished
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import EMBEDDED, NONE, DrafterSpec
from specdiff_core.schema.settings import DecodeConfig, RevealOrder


def test_a_full_context_shortens_the_draft() -> None:
    drafter, ids = AutoregressiveDrafter("autoregressive", Target(small_model(), context=64)), [3] * 62
    session = drafter.start()
    session.observe(ids[:-1], None)
    assert session.room == 3  # 61 read, then the anchor and two drafted tokens
    assert len(drafted(session, ids, 3).ids) == 3
    session = drafter.start()
    session.observe([3] * 66, None)
    assert session.room == 0


def test_copies_what_followed_the_longest_ending() -> None:
    assert continuation([1, 2, 3, 9, 1, 2, 3], 2) == [9, 1]
    assert continuation([5, 2, 3, 7, 1, 2, 3, 8, 4, 2, 3], 3) == [8, 4, 2]  # the latest of two
    assert continuation([2, 3, 9, 1, 3, 7, 2, 3], 1) == [9]  # a shorter ending has a later match
    assert continuation([1, 2, 3, 9, 8, 2, 3], 8) == [9, 8, 2, 3]  # the copy ends with the text
    assert continuation([1, 2, 3, 4, 9, 2, 3, 4, 8, 1, 2, 3, 4], 1) == [8]  # three tokens are compared
    assert continuation([4, 4], 3) == [4]
    assert continuation([1, 2, 3], 3) == []
    assert continuation([1], 3) == []


def test_an_empty_copy_is_a_plain_step() -> None:
    """The loop goes on like vanilla where nothing matches; a copy costs no drafter pass."""
    config, target = DecodeConfig(max_new_tokens=30), Target(small_model(3), context=64)
    events = list(speculate([3, 4, 5, 3, 4], config, target, PromptLookupDrafter("p"), FakeClock()))
    sizes = [len(event.ids) for event in events if isinstance(event, DraftReady)]
    assert 0 in sizes and max(sizes) > 0
    found = fold(events)
    assert found.nfe == 0 and found.committed == 30


def test_settings_that_a_drafter_cannot_follow_are_changed() -> None:
    """No tree and no K without denoising; one pass for a tree. T is the drafter's passes."""
    small = EMBEDDED.drafter("autoregressive")
    kinds = [dataclasses.replace(small, drafting=kind) for kind in ("denoise", "sequential", "copy")]
    assert [spec.passes(6, 3) for spec in kinds] == [3, 6, 1]
    asked = DecodeConfig(gamma=20, steps=4, order=RevealOrder.ENTROPY, num_drafts=3)
    own = small.clamp(asked)
    assert (own.gamma, own.steps, own.order, own.num_drafts) == (20, 20, RevealOrder.LEFT_TO_RIGHT, 1)
    block = dataclasses.replace(small, drafting="denoise", window=16)
    own = block.clamp(asked)
    assert (own.gamma, own.steps, own.order, own.num_drafts) == (16, 1, RevealOrder.ENTROPY, 3)
    assert block.clamp(dataclasses.replace(asked, num_drafts=1)).steps == 4


ONE = torch.ones(1, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"probs": ONE * 2 / 3}, "not a distribution"),
        ({"probs": ONE / 6}, "not a distribution"),
        ({"probs": torch.tensor([[1.5, -0.25, -0.25]], dtype=torch.float64)}, "not a distribution"),
        ({"probs": ONE * torch.inf}, "not finite"),
        ({"ids": torch.tensor([0])}, "whole numbers"),
        ({"ids": (3,)}, "vocabulary"),
        ({"nfe": -4}, "whole numbers"),
        ({"nfe": "1"}, "whole numbers"),
        ({"reveal_steps": (-1,)}, "whole numbers"),
        ({"branches": ((0, 9),), "parents": (-1,)}, "branches"),
        ({"branches": ((0,),)}, "branches"),
        ({"branches": ((0, 0),), "parents": (-1,)}, "path"),
        ({"branches": ((0,), ()), "parents": (-1,)}, "equally long"),
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
        engine = engine_of(Ledger(lambda text: torch.zeros(3), 3), {"masked": Broken()})
        spec = DrafterSpec(name="masked", label="", module=module)
        engine.pair = dataclasses.replace(
            engine.pair, spec=dataclasses.replace(engine.pair.spec, drafters=(spec, NONE))
        )
        with pytest.raises(expected, match="no such thing"):
            list(engine.decode("2022", DecodeConfig(drafter="masked", max_new_tokens=2)))
        if spec.is_foreign:
            lanes = {name: DecodeConfig(drafter=name, max_new_tokens=2) for name in ("masked", "none")}
            (failed, error), *steps = race(engine, "2022", lanes)
            assert (failed, type(error)) == ("masked", expected), "it fails when it warms up"
            assert {lane for lane, _ in steps} == {"none"} and isinstance(steps[-1][1], Finished)
    assert "the drafter masked failed" in caplog.text
