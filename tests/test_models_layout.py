"""Weights in two orders: the same numbers, the same names, the same ties, and the order that the rows ask for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from specdiff_core.device import choose_placement
from specdiff_core.loading import load_pair
from specdiff_core.models import layout
from specdiff_core.models.layout import TwoLayouts, input_major, laid_out, lay_out
from specdiff_core.registry import find_pair


def test_only_the_memory_changes() -> None:
    weight = torch.arange(6.0).view(3, 2)
    laid = input_major(weight)
    assert torch.equal(laid, weight)
    assert laid.stride() == (1, 3) and weight.stride() == (2, 1)


def test_the_processor_says_from_how_many_rows_on() -> None:
    assert [layout.rows_from(name) for name in ("AVX2", "AVX512", "DEFAULT")] == [1, 11, 11]


@pytest.mark.parametrize("wide", [1, 11])
@pytest.mark.parametrize("bias", [False, True])
def test_the_rows_choose(bias: bool, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked copies tell which one was read: one is zero."""
    monkeypatch.setattr(layout, "WIDE", wide)
    layer = laid_out(nn.Linear(4, 3, bias))
    assert isinstance(layer, TwoLayouts)
    layer.wide.zero_()
    rest = torch.zeros(3) if layer.bias is None else layer.bias
    many = torch.ones(1, wide, 4)
    assert torch.equal(layer(many), rest.expand(1, wide, 3))
    if wide > 1:
        few = many[:, 1:]
        assert torch.equal(layer(few), nn.functional.linear(few, layer.weight, layer.bias))
        assert not torch.equal(layer(few), rest.expand(1, wide - 1, 3))
    assert torch.equal(layer(many[0]), layer(many)[0]), "a batch axis or none"


def test_where_nothing_is_gained_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    half, away = nn.Linear(4, 3, dtype=torch.bfloat16), nn.Linear(4, 3, device="meta")
    assert laid_out(half) is half and laid_out(away) is away
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    monkeypatch.setattr(layout, "LARGEST", 4 * 18 - 1)
    lay_out(model)
    assert type(model[0]) is nn.Linear, "the second copies of a large model would need too much memory"
    monkeypatch.setattr(layout, "LARGEST", 4 * 18)
    lay_out(model)
    assert type(model[0]) is TwoLayouts and type(model[1]) is TwoLayouts


def test_a_tied_head_stays_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    names = list(model.state_dict())
    lay_out(model)
    assert model.head.weight is model.embed.weight
    assert list(model.state_dict()) == names


def test_the_loaded_target_has_both() -> None:
    """And says the same in both, up to the rounding of another order of sums."""
    model = load_pair(find_pair("embedded"), choose_placement("cpu", "fp32"), drafters=[]).model
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(layers) == 7 * 16 + 1 and all(type(layer) is TwoLayouts for layer in layers)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    layer = model.model.layers[0].mlp.up_proj
    for rows in (1, layout.WIDE):
        x = torch.randn(1, rows, layer.in_features, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight))
