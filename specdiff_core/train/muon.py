"""Muon: momentum whose matrices are made nearly orthogonal before each step (K. Jordan, 2024), in
bf16 where the device computes it. ``torch.optim.Muon`` always does, which a processor without bf16
emulates: 40 s a step for a drafter of a few million parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from specdiff_core.models.kernels import multiplies_bf16

STEPS = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
"""Coefficients of five Newton-Schulz steps, optimised together (Cesista, You and Jordan, 2025)."""


def orthogonal(matrix: Tensor) -> Tensor:
    """``matrix [n, m]`` with its singular values moved close to 1 (0.85 to 1.15, unless tiny)."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    if x.dtype == torch.float32 and multiplies_bf16(x.device):
        x = x.to(torch.bfloat16)
    for a, b, c in STEPS:
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return (x.T if tall else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """For matrices; Nesterov momentum and decoupled weight decay. Names are those of torch's own.

    Args:
        lr: of a square matrix; a tall one takes longer steps, by the root of rows over columns.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, *, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure, so no loss
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                buffer = self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
                buffer.lerp_(weight.grad, 1 - momentum)
                update = orthogonal(weight.grad.lerp(buffer, momentum))
                longer = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.mul_(1 - rate * group["weight_decay"]).add_(update, alpha=-rate * longer)
