"""Weights that lie the other way round in memory: the same numbers, the same names, the same ties."""

from __future__ import annotations

import torch
from torch import nn

from specdiff_core.device import choose_placement
from specdiff_core.loading import load_pair
from specdiff_core.models.layout import input_major, lay_out
from specdiff_core.registry import find_pair


def test_only_the_memory_changes() -> None:
    weight = torch.arange(6.0).view(3, 2)
    laid = input_major(weight)
    assert torch.equal(laid, weight)
    assert laid.stride() == (1, 3) and weight.stride() == (2, 1)
    half = weight.to(torch.bfloat16)
    assert input_major(half) is half, "measured for fp32 alone"
    away = torch.empty(3, 2, device="meta")
    assert input_major(away) is away


def test_a_tied_head_stays_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    before = model.embed.weight.detach().clone()
    words = model.embed(torch.tensor([2, 5])).detach()
    lay_out(model)
    assert model.head.weight is model.embed.weight
    assert torch.equal(model.embed.weight, before)
    assert torch.equal(model.embed(torch.tensor([2, 5])), words)


def test_the_loaded_target_lies_that_way() -> None:
    """And says the same as the usual layout, up to the rounding of another order of sums."""
    model = load_pair(find_pair("embedded"), choose_placement("cpu", "fp32"), drafters=[]).model
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            assert module.weight.stride(0) == 1, name
    layer = model.model.layers[0].mlp.up_proj
    for rows in (1, 11):
        x = torch.randn(1, rows, layer.in_features, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight.contiguous()))
