"""How weights lie in memory. Names, shapes and values stay as they are; knows no model."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def input_major(weight: Tensor) -> Tensor:
    """``weight [out, in]`` with each *input's* numbers side by side; on a CPU in fp32 only, else as it is.

    A pass over a draft multiplies few rows by a large matrix. Stored the usual way that product is x·Wᵀ, which slows
    from 10 rows on; stored like this it is x·W. Measured on two cores with the embedded target: passes of 11 to 17
    tokens take 4 to 8 % less, of one token 0 to 1 % less, of 9 tokens 8 % more.
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return weight
    return weight.t().contiguous().t()


def lay_out(model: nn.Module) -> None:
    """Store every projection of a loaded model :func:`input_major`; what is tied to one stays tied."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = input_major(module.weight.data)
