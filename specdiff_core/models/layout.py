"""How weights lie in memory. Names, shapes and values stay as they are; knows no model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rows_from(capability: str) -> int:
    """Rows from which x·W beats x·Wᵀ, by torch's name for the CPU's vector instructions: a fixed rule, because another
    order of sums rounds otherwise, and a text must not depend on a stopwatch.

    Measured with the embedded target, fp32, two cores. Intel Xeon, AVX-512: 9 rows 8 % slower, 11 to 17 rows 4 to 8 %
    quicker (a window of 10 makes passes of 11). AMD EPYC, AVX2: one row 4 % quicker, 2 to 17 rows 6 to 17 %, 60 rows
    3 %, so that vanilla decoding gains too.
    """
    return 1 if capability == "AVX2" else 11


WIDE = rows_from(torch.backends.cpu.get_cpu_capability())
LARGEST = 256 * 2**20
"""Bytes that second copies of one model may take in all; beyond it the projections stay as they are."""


def input_major(weight: Tensor) -> Tensor:
    """``weight [out, in]`` with each *input's* numbers side by side: the same shape and values, other strides."""
    return weight.t().contiguous().t()


class TwoLayouts(nn.Linear):
    """A projection that keeps its weights in both orders and takes the quicker one for the rows it is given.

    A pass over a draft multiplies few rows by a large matrix. Stored the usual way that product is x·Wᵀ; stored by
    inputs it is x·W, which is quicker from :data:`WIDE` rows on.
    """

    wide: Tensor

    def __init__(self, like: nn.Linear) -> None:
        super().__init__(like.in_features, like.out_features, like.bias is not None, device="meta")
        self.weight, self.bias = like.weight, like.bias  # the same parameters: what is tied stays tied
        self.register_buffer("wide", input_major(like.weight.detach()), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        many = rows.numel() >= WIDE * self.in_features
        return F.linear(rows, self.wide if many else self.weight, self.bias)


def lay_out(model: nn.Module) -> None:
    """Give every projection of a loaded model :class:`TwoLayouts`, where that is a gain: on a CPU, in fp32, while the
    copies are small beside the memory."""
    found = {name: module for name, module in model.named_modules() if _gains(module)}
    if sum(module.weight.nbytes for module in found.values()) <= LARGEST:
        for name, module in found.items():
            model.set_submodule(name, TwoLayouts(module))


def laid_out(linear: nn.Linear) -> nn.Linear:
    """A projection by itself, treated the same."""
    return TwoLayouts(linear) if _gains(linear) else linear


def _gains(module: nn.Module) -> bool:
    weight = module.weight if type(module) is nn.Linear else None
    return weight is not None and weight.device.type == "cpu" and weight.dtype == torch.float32
