"""How a loaded model's weights lie in memory on a CPU. Names, shapes and values stay as they are.

A pass over a draft multiplies few rows by a large matrix, and how fast that goes depends on the order in which the
matrix is stored. The processor decides, when a model is loaded: never a stopwatch, because another order of sums rounds
differently and a text must not depend on what else the machine was doing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.models.device import processor

LARGEST = 256 * 2**20
"""Bytes that second copies of one model may take in all; beyond it the projections stay as they are."""

PACKING = ("_reorder_linear_weight", "_linear_pointwise")
"""Operators of ``torch.ops.mkldnn`` that pack a matrix and multiply by a packed one; not part of torch's stable API."""


class Packed(nn.Linear):
    """A projection that multiplies by a copy of its weights in oneDNN's own blocked order."""

    packed: Tensor

    def __init__(self, like: nn.Linear) -> None:
        super().__init__(like.in_features, like.out_features, like.bias is not None, device="meta")
        self.weight, self.bias = like.weight, like.bias  # the same parameters: what is tied stays tied
        self.packed = torch.ops.mkldnn._reorder_linear_weight(like.weight.detach().clone(), None)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")
        return out


class TwoLayouts(nn.Linear):
    """A projection that keeps its weights in both orders: by outputs, so that a product is x·Wᵀ, and by inputs, so that
    it is x·W, which is faster from ``many`` rows on.

    Args:
        many: rows from which the second order is used.
    """

    wide: Tensor

    def __init__(self, like: nn.Linear, *, many: int) -> None:
        super().__init__(like.in_features, like.out_features, like.bias is not None, device="meta")
        self.weight, self.bias = like.weight, like.bias  # the same parameters: what is tied stays tied
        self.register_buffer("wide", like.weight.detach().t().contiguous().t(), persistent=False)
        self._threshold = many * like.in_features

    def forward(self, rows: Tensor) -> Tensor:
        many = rows.numel() >= self._threshold
        return F.linear(rows, self.wide if many else self.weight, self.bias)


def fastest_layout(processor: str, capability: str) -> Callable[[nn.Linear], nn.Linear]:
    """What to make of a projection on a processor, by its name and torch's name for its vector instructions.

    Measured with the embedded target, fp32, two cores, tokens/s of vanilla decoding and of the best tree against plain
    ``F.linear``. AMD EPYC, AVX-512: packed +30 % and +55 %. Intel Xeon, AVX-512: packed −35 % and −16 % (MKL is quick
    there, and each packed product costs 20 µs), two layouts from 11 rows on 0 % and +6 %. AMD EPYC, AVX2: two layouts
    from one row on +5 % and +6 to 17 %.
    """
    if "AMD" in processor and capability != "AVX2" and all(hasattr(torch.ops.mkldnn, name) for name in PACKING):
        return Packed
    return partial(TwoLayouts, many=1 if capability == "AVX2" else 11)


def lay_out(model: nn.Module) -> None:
    """Store every projection of a loaded model in the fastest order, where that is a gain: on a CPU, in fp32, while the
    copies are small beside the memory."""
    found = {name: module for name, module in model.named_modules() if _gains(module)}
    if sum(module.weight.nbytes for module in found.values()) <= LARGEST:
        for name, module in found.items():
            model.set_submodule(name, laid_out(module))


def laid_out(linear: nn.Linear) -> nn.Linear:
    """A projection by itself, treated the same."""
    return fastest_layout(processor(), torch.backends.cpu.get_cpu_capability())(linear) if _gains(linear) else linear


def _gains(module: nn.Module) -> bool:
    weight = module.weight if type(module) is nn.Linear else None
    return weight is not None and weight.device.type == "cpu" and weight.dtype == torch.float32
