"""The training objectives against direct float64 evaluations, values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specdiff_core.train import losses
from specdiff_core.train.muon import Muon


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
    found = []
    for each, inputs in ((function, student.float()), (direct, student)):
        leaf = inputs.clone().requires_grad_()
        values = each(leaf).double()
        weights = torch.linspace(0.1, 1.0, len(values), dtype=torch.float64)
        (slope,) = torch.autograd.grad((values * weights).sum(), leaf)
        found.append((values.detach(), slope.double()))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("tv", [0.0, 0.9])
def test_top_loss_is_half_the_text_and_half_the_target(states: tuple[Tensor, Tensor, Tensor], tv: float) -> None:
    """Rows 0 to 6: everything known, the text's word unknown, the target's words unknown, both, a
    part of the target's words, a text's word that is none of them, and a target without mass."""
    student, teacher, table = states
    p, ids = (teacher @ table.T).softmax(-1).topk(6, -1)
    labels = torch.tensor([3, -1, 5, -1, 0, 19, 2])
    ids[2], ids[3], ids[4, ::2], p[6] = -1, -1, -1, 0

    def direct(hidden: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        q, rows = (hidden @ table.T + bias).softmax(-1), []
        for i, label in enumerate(labels.tolist()):
            inside = [(int(word), float(prob)) for word, prob in zip(ids[i], p[i], strict=True) if word >= 0 and prob]
            mass = sum(prob for _, prob in inside)
            text = [] if label < 0 else [-q[i, label].log()]
            target = [-sum(prob / mass * q[i, word].log() for word, prob in inside)] if mass else []
            entropy = sum(text + target) / max(1, len(text + target))
            shared = sum(torch.minimum(q[i, word], torch.tensor(prob, dtype=q.dtype)) for word, prob in inside)
            rows.append((1 - tv) * entropy + tv * (1 - shared) + 0 * q[i].sum())
        return torch.stack(rows)

    agree(lambda h: losses.top_loss(h, table.float(), labels, ids, p, tv=tv, rows=3)[0], direct, student, 1e-5)
    before, after = (torch.randn(n, 3, generator=torch.Generator().manual_seed(n)).double() for n in (7, len(table)))
    agree(
        lambda b: losses.top_loss(
            student.float(), table.float(), labels, ids, p, tv=tv, pairs=(b, after.float()), rows=3
        )[0],
        lambda b: direct(student, b @ after.T),
        before,
        1e-5,
    )
    agree(
        lambda a: losses.top_loss(
            student.float(), table.float(), labels, ids, p, tv=tv, pairs=(before.float(), a), rows=3
        )[0],
        lambda a: direct(student, before @ a.T),
        after,
        1e-5,
    )
    _, logs = losses.top_loss(student.float().requires_grad_(), table.float(), labels, ids, p)
    wanted = (student @ table.T).log_softmax(-1)[torch.arange(7), labels].masked_fill(labels < 0, -torch.inf).float()
    torch.testing.assert_close(logs, wanted)
    assert not logs.requires_grad


def test_dpace_weights_are_the_slopes_of_the_expected_accepted_length() -> None:
    """d Σ_m Π_{i≤m} q̃_i / d log q̃_j by autograd; slots outside the text weigh nothing."""
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


def test_muon_takes_orthogonal_steps_in_the_precision_of_the_weights() -> None:
    """A first step: nearly the gradient's polar factor U·Vᵀ; longer if tall; the weights decay."""
    generator = torch.Generator().manual_seed(2)
    for shape in ((6, 10), (40, 10)):
        weight, slope = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        leaf = torch.nn.Parameter(weight.clone())
        leaf.grad = slope.clone()
        optimizer = Muon([leaf], lr=0.1, weight_decay=0.5)
        optimizer.step()
        u, _, v = torch.linalg.svd(slope, full_matrices=False)
        wanted = weight * (1 - 0.1 * 0.5) - 0.1 * max(1, shape[0] / shape[1]) ** 0.5 * (u @ v)
        assert float((leaf.detach() - wanted).norm() / (wanted - weight).norm()) < 0.2
        assert optimizer.state[leaf]["momentum_buffer"].dtype == torch.float64
        torch.testing.assert_close(optimizer.state[leaf]["momentum_buffer"], 0.05 * slope)
