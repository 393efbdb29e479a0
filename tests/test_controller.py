"""Adaptive γ and T: estimates, choice, the cut by distributions only, the distribution that stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from fakes import decoded, good_drafter, small_model
from tables import context_of, first_draft

from specdiff_core.decoding.controller import PRIOR_ALPHA, Auto, Choice, Fixed
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.base import run_to_end
from specdiff_core.drafters.denoise import denoise
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.models.target import Target
from specdiff_core.schema.events import Decided, DraftReady
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.settings import DecodeConfig, Rule

Passes = Callable[[int, int], int]


def denoiser(gamma: int, steps: int) -> int:
    return min(steps, gamma)


def sequential(gamma: int, steps: int) -> int:
    return gamma


def length(controller: Auto, choice: Choice, alpha: float, passes: Passes) -> tuple[int, int]:
    """Positions of a draft and passes made for it, where every confidence is ``alpha``."""
    assert controller.stop_criterion is not None
    if passes is denoiser:
        return controller.stop_criterion([alpha] * choice.gamma), 1
    made = 0
    while made < choice.gamma:
        made += 1
        kept = controller.stop_criterion([alpha] * made)
        if kept <= made:
            return kept, made
    return made, made


def world(
    controller: Auto,
    alpha: float,
    *,
    passes: Passes = denoiser,
    draft: float = 2.0,
    fixed: float = 8.0,
    row: float = 0.4,
) -> list[tuple[Choice, int]]:
    """400 rounds in which positions are accepted at a rate of ``alpha``, as the drafter believes,
    and everything takes its milliseconds: what was chosen, and how long the draft was."""
    rng = torch.Generator().manual_seed(1)
    found = []
    for _ in range(400):
        choice = controller.choose(16)
        size, made = length(controller, choice, alpha, passes)
        tests: list[bool] = []
        while len(tests) < size and all(tests):
            tests.append(bool(torch.rand((), generator=rng) < alpha))
        controller.learn(tests, draft * made / 1e3, made, (fixed + row * (size + 1)) / 1e3, size + 1)
        found.append((choice, size))
    return found


def test_fixed_is_what_is_set_and_auto_begins_with_the_prior() -> None:
    fixed = Fixed(DecodeConfig(gamma=8, steps=4))
    assert fixed.choose(3) == Choice(gamma=3, steps=4)
    assert [context_of([1], gamma=gamma, steps=4).steps for gamma in (20, 3, 0)] == [4, 3, 1], "T is at most γ"
    assert fixed.stop_criterion is None and not fixed.adaptive
    choice = Auto(DecodeConfig(gamma=5), denoiser).choose(3)
    assert (choice.gamma, choice.steps) == (3, 1) and choice.alphas == pytest.approx((PRIOR_ALPHA,) * 3)
    assert Auto(DecodeConfig(gamma=5), denoiser).choose(0).gamma == 0


def test_it_learns_what_things_cost_and_how_often_positions_pass() -> None:
    choice, _ = world(Auto(DecodeConfig(gamma=16), denoiser), 0.8)[-1]
    assert choice.pass_seconds == pytest.approx(2e-3, rel=1e-6)
    assert choice.row_seconds == pytest.approx(0.4e-3, rel=0.15)
    assert choice.seconds == pytest.approx((2 + 8 + 0.4 * (choice.best_gamma + 1)) / 1e3, rel=0.02)
    assert choice.alphas[0] == pytest.approx(0.8, abs=0.1)
    expected = [1 + sum(torch.tensor(choice.alphas[:gamma]).cumprod(0).tolist()) for gamma in range(17)]
    assert choice.tokens == pytest.approx(expected[choice.best_gamma], rel=1e-5)
    costs = [choice.seconds + choice.row_seconds * (gamma - choice.best_gamma) for gamma in range(17)]
    assert max(range(1, 17), key=lambda gamma: expected[gamma] / costs[gamma]) == choice.best_gamma
    assert choice.gamma == 16, "where a draft can be cut, the cut decides"
    assert choice.rate > 0


@pytest.mark.parametrize("passes", [denoiser, sequential])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_it_finds_the_best_window(alpha: float, passes: Passes) -> None:
    """Within 3 % of the best tokens per second that any fixed γ has in that world."""

    def rate(gamma: int) -> float:
        tokens = 1 + sum(alpha**m for m in range(1, gamma + 1))
        return tokens / (2.0 * passes(gamma, 1) + 8 + 0.4 * (gamma + 1))

    rounds = world(Auto(DecodeConfig(gamma=16), passes), alpha, passes=passes)
    found = sum(rate(size) for _, size in rounds[200:]) / 200
    assert found >= 0.97 * max(map(rate, range(1, 17)))


def test_it_tries_every_t_and_keeps_the_better() -> None:
    """Four steps accept nearly everything, one accepts half: chosen while a pass is cheap."""

    def settle(draft: float) -> int:
        controller, rng = Auto(DecodeConfig(gamma=8, steps=4), denoiser), torch.Generator().manual_seed(3)
        seen = []
        for _ in range(200):
            choice = controller.choose(8)
            alpha = {1: 0.6, 2: 0.7, 4: 0.9}[choice.steps]
            tests: list[bool] = []
            while len(tests) < choice.gamma and all(tests):
                tests.append(bool(torch.rand((), generator=rng) < alpha))
            controller.learn(tests, draft * choice.steps, choice.steps, 10.0 + 0.1 * choice.gamma, choice.gamma + 1)
            seen.append(choice.steps)
        assert {1, 2, 4} == set(seen)
        return max(set(seen[-60:]), key=seen[-60:].count)

    assert settle(0.5) == 4 and settle(30.0) == 1


def test_a_moment_of_another_program_does_not_turn_it() -> None:
    controller = Auto(DecodeConfig(gamma=16), denoiser)
    before, size = world(controller, 0.8)[-1]
    controller.learn([True], 2.0, 1, 9.0, 2)
    after = controller.choose(16)
    assert after.seconds < 1.1 * before.seconds
    assert abs(length(controller, after, 0.8, denoiser)[0] - size) <= 2


def test_it_is_shown_the_largest_probability_of_each_slot() -> None:
    seen: list[list[float]] = []
    context = context_of([0], stop_criterion=lambda confidences: seen.append([*confidences]) or 1)
    probs = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.8, 0.1, 0.0]])
    draft = run_to_end(denoise(lambda window: probs.log(), context, mask_id=3))
    assert seen == [pytest.approx([0.5, 0.8])] and len(draft.ids) == 1


def test_beliefs_are_corrected_by_what_came_of_them() -> None:
    """A drafter that says 0.3 and is nearly always right drafts longer than a calibrated one."""

    def kept(right: float) -> int:
        controller, rng = Auto(DecodeConfig(gamma=8), denoiser), torch.Generator().manual_seed(5)
        for _ in range(100):
            controller.choose(8)
            assert controller.stop_criterion is not None
            controller.stop_criterion([0.3] * 8)
            controller.learn([bool(torch.rand((), generator=rng) < right)], 0.002, 1, 0.012, 9)
        return controller.stop_criterion([0.3] * 8) if controller.stop_criterion else 0

    assert kept(0.95) > kept(0.3)


def test_a_sequential_drafter_ends_where_it_grows_unsure() -> None:
    """A position that was read is a pass; if its row costs more than it gains, nothing is drawn."""
    drafter = AutoregressiveDrafter("small", Target(small_model(), context=64))
    whole = first_draft(drafter, [3, 7, 9], 5)
    # The third was read, but its row costs too much; then the second is the last that pays for a pass.
    for stop_criterion, passes in (
        (lambda confidences: 2 if len(confidences) > 2 else 9, 3),
        (lambda confidences: 2 + (len(confidences) < 2), 2),
    ):
        cut = first_draft(drafter, [3, 7, 9], 5, stop_criterion=stop_criterion)
        assert cut.ids == whole.ids[:2] and cut.nfe == passes and whole.nfe == 5
        assert cut.probs is not None and len(cut.probs) == len(cut.exact_q) == 2


@pytest.mark.parametrize("nodes", [0, 12])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_match_returns_vanillas_text_and_decisions_are_events(temperature: float, nodes: int) -> None:
    """For a window and a tree; a node must gain more than its row costs, so trees shrink."""
    config = DecodeConfig(
        gamma=5, tree_nodes=nodes, rule=Rule.MATCH, temperature=temperature, max_new_tokens=40, auto=True
    )
    auto = Auto(config, denoiser)
    assert auto.min_node_prob == 0.0 and Fixed(config).min_node_prob == 0.0  # at first
    events = decoded(config, drafter=good_drafter(0.3), controller=auto)
    found = events[-1]
    assert found.ids == decoded(config, drafter=VanillaDrafter())[-1].ids
    decided = [event for event in events if isinstance(event, Decided)]
    sizes = [len(event.ids) for event in events if isinstance(event, DraftReady)]
    assert len(decided) == len(sizes) == found.rounds
    for before, size in zip(decided, sizes, strict=True):
        assert size <= (nodes or before.gamma) and before.gamma <= 5 and len(before.alphas) == before.gamma
    if nodes:
        assert sizes[0] == max(sizes) == nodes and not any(event.tokens or event.best_gamma for event in decided)


def test_the_loop_hands_the_bound_to_the_drafter() -> None:
    """Nodes that cost more than they gain never reach the target."""
    config = DecodeConfig(gamma=5, tree_nodes=12, max_new_tokens=20, auto=True)

    class Dear(Fixed):
        min_node_prob = 0.5

    def sizes(controller: Fixed) -> list[int]:
        events = decoded(config, drafter=good_drafter(0.3), controller=controller)
        return [len(event.ids) for event in events if isinstance(event, DraftReady)]

    assert max(sizes(Dear(config))) < min(sizes(Fixed(config))[:-1])


def test_dear_rows_make_small_trees() -> None:
    config = DecodeConfig(gamma=5, tree_nodes=12, auto=True)
    bounds = []
    for row in (0.1, 0.8):
        auto = Auto(config, denoiser)
        for rows in [13, 5] * 40:
            auto.choose(5)
            auto.learn([True, True, False], 2.0, 1, 8.0 + row * rows, rows)
        auto.choose(5)
        bounds.append(auto.min_node_prob)
        # R: three tokens a round (two accepted, one of the target), over what a round takes.
        assert auto.min_node_prob == pytest.approx(row * 3 / (2.0 + 8.0 + 9 * row), rel=0.25)
    assert bounds[0] < bounds[1]


def test_what_can_be_chosen_as_it_goes() -> None:
    """Several drafts, trees with a pass for each depth and copies are sized as set."""
    block = EMBEDDED.drafter("block")
    auto = DecodeConfig(auto=True)
    assert block.clamp(auto).auto
    assert block.clamp(dataclasses.replace(auto, tree_nodes=8)).auto
    assert not EMBEDDED.drafter("eagle").clamp(dataclasses.replace(auto, tree_nodes=8)).auto
    assert not block.clamp(dataclasses.replace(auto, num_drafts=2)).auto
    assert not EMBEDDED.drafter("prompt_lookup").clamp(auto).auto
    assert not EMBEDDED.drafter("none").clamp(auto).auto
