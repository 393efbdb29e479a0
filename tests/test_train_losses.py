"""The training objectives against direct float64 evaluations, values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specdiff_core.train import losses


@pytest.fixture(scope="module")
def states() -> tuple[Tensor, Tensor, Tensor]:
    """Student states ``[7, 8]``, teacher states ``[7, 8]`` and a table ``[20, 8]``, float64."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((7, 8), (7, 8), (20, 8))
    student, teacher, table = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return student, teacher, table


def agree(
    function: Callable[[Tensor], Tensor], direct: Callable[[Tensor], Tensor], student: Tensor, tolerance: float
) -> None:
    """Values and gradients of a weighted sum."""
    weights = torch.linspace(0.1, 1.0, len(student), dtype=torch.float64)
    found = []
    for each, inputs in ((function, student.float()), (direct, student)):
        leaf = inputs.clone().requires_grad_()
        values = each(leaf).double()
        (slope,) = torch.autograd.grad((values * weights).sum(), leaf)
        found.append((values.detach(), slope.double()))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def test_shared_head_cross_entropy_is_soft_cross_entropy(states: tuple[Tensor, ...]) -> None:
    """log Z − h·Σ p e is the textbook −Σ p log q over dense logits, in chunks of any size."""
    student, teacher, table = states
    p = (teacher @ table.T).softmax(-1)

    def short(hidden: Tensor) -> Tensor:
        expected = losses.expected_embedding(teacher.float(), table.float(), rows=3)
        return losses.log_normalizer(hidden, table.float(), rows=2) - (hidden * expected).sum(-1)

    def dense(hidden: Tensor) -> Tensor:
        return -(p * (hidden @ table.T).log_softmax(-1)).sum(-1)

    agree(short, dense, student, 1e-5)
    torch.testing.assert_close(
        losses.soft_cross_entropy((student @ table.T).float(), p.float()), dense(student).float()
    )


@pytest.mark.parametrize("eta", [0.0, 3.0])
def test_lk_loss_is_the_mixture_of_cross_entropy_and_total_variation(states: tuple[Tensor, ...], eta: float) -> None:
    """At η = 0 it is the cross-entropy alone; λ is held constant, so autograd sees it detached."""
    student, teacher, table = states
    p = (teacher @ table.T).softmax(-1)

    def direct(hidden: Tensor) -> Tensor:
        q = (hidden @ table.T).softmax(-1)
        variation = 0.5 * (p - q).abs().sum(-1)
        share = torch.exp(-eta * (1 - variation)).detach()
        return share * -(p * q.log()).sum(-1) + (1 - share) * variation

    agree(lambda h: losses.lk_loss(h, teacher.float(), table.float(), eta=eta, rows=3), direct, student, 1e-5)
    same = losses.lk_loss(teacher.float(), teacher.float(), table.float(), eta=1e9)
    torch.testing.assert_close(same, torch.zeros(7), msg="with q = p and all weight on TV nothing is left")


def test_dpace_weights_are_the_slopes_of_the_expected_accepted_length() -> None:
    """d Σ_m Π_{i≤m} q̃_i / d log q̃_j by autograd in float64; slots outside the text weigh nothing."""
    generator = torch.Generator().manual_seed(1)
    q = torch.rand(5, 6, generator=generator, dtype=torch.float64)
    known = torch.ones(5, 6, dtype=torch.bool)
    known[3, 4:] = False
    known[4] = False
    log_smooth = (0.5 + 0.5 * q).log().requires_grad_()
    inside = known.long().cumprod(-1)
    length = (log_smooth.cumsum(-1).exp() * inside).sum()
    (slopes,) = torch.autograd.grad(length, log_smooth)
    leaf = q.clone().requires_grad_()
    weights = losses.dpace_weights(leaf, known)
    torch.testing.assert_close(weights, slopes)
    assert not weights.requires_grad and float(weights[4].sum()) == 0
    by_hand = losses.dpace_weights(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
    torch.testing.assert_close(by_hand, torch.tensor([[1.5, 0.5]]))


def test_position_weights_fall_exponentially() -> None:
    torch.testing.assert_close(losses.position_weights(torch.tensor([0, 4]), 4.0), torch.tensor([1.0, math.exp(-1.0)]))
    values, weights = torch.tensor([2.0, 4.0]), torch.tensor([3.0, 1.0])
    assert float(losses.weighted_mean(values, weights)) == 2.5
    assert float(losses.weighted_mean(values, torch.zeros(2))) == 0


def test_streak_weighs_a_slot_by_the_probability_of_those_before_it() -> None:
    """By hand: q = ½, ½ inside, then outside the text; a row of ones costs nothing. Weights 1, ½, and 0 outside."""
    log_q = torch.log(torch.tensor([[0.5, 0.5, 0.9], [1.0, 1.0, 1.0]])).requires_grad_()
    known = torch.tensor([[True, True, False], [True, True, True]])
    loss = losses.cross_entropy_streak(log_q, known)
    assert float(loss.detach()) == pytest.approx(1.5 * math.log(2) / 2)
    (slope,) = torch.autograd.grad(loss, log_q)
    torch.testing.assert_close(slope[0], torch.tensor([-0.5, -0.25, 0.0]))


def test_subs_loss_by_hand() -> None:
    """Two tokens, three ids, mask id 2: the mask's logit must not count, and only the masked token costs, over t."""
    logits = torch.tensor([[[0.0, math.log(3.0), 9.0], [5.0, 0.0, 0.0]]])
    ids, masked = torch.tensor([[1, 0]]), torch.tensor([[True, False]])
    loss = losses.subs_loss(logits, ids, masked, torch.tensor([0.25]), mask_id=2)
    assert float(loss) == pytest.approx(-math.log(0.75) / 0.25 / 2, rel=1e-5)


def test_a_target_never_says_the_mask() -> None:
    torch.testing.assert_close(losses.probs_without(torch.tensor([0.0, 9.0, 0.0]), 1), torch.tensor([0.5, 0.0, 0.5]))
