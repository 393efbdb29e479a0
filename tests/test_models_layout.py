"""Weights in another order: the same numbers, the same names, the same ties."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from specdiff_core.loading import load_pair
from specdiff_core.models import layout
from specdiff_core.models.device import choose_placement
from specdiff_core.models.layout import Packed, TwoLayouts, fastest_layout, laid_out, lay_out
from specdiff_core.schema.pairs import find_pair


def test_the_processor_decides() -> None:
    assert fastest_layout("AMD EPYC 9B14", "AVX512") is Packed
    two = [fastest_layout("AMD EPYC 7B13", "AVX2"), fastest_layout("Intel(R) Xeon(R) Processor", "AVX512")]
    assert [one.func for one in two] == [TwoLayouts, TwoLayouts]
    assert [one.keywords["many"] for one in two] == [1, 11]


@pytest.mark.parametrize("many", [1, 11])
@pytest.mark.parametrize("bias", [False, True])
def test_the_rows_choose(bias: bool, many: int) -> None:
    """Marked copies tell which one was read: one is zero."""
    layer = TwoLayouts(nn.Linear(4, 3, bias), many=many)
    layer.wide.zero_()
    rest = torch.zeros(3) if layer.bias is None else layer.bias
    enough = torch.ones(1, many, 4)
    assert torch.equal(layer(enough), rest.expand(1, many, 3))
    if many > 1:
        few = enough[:, 1:]
        assert torch.equal(layer(few), nn.functional.linear(few, layer.weight, layer.bias))
        assert not torch.equal(layer(few), rest.expand(1, many - 1, 3))
    assert torch.equal(layer(enough[0]), layer(enough)[0]), "a batch axis or none"


@pytest.mark.parametrize("make", [Packed, partial(TwoLayouts, many=3)])
@pytest.mark.parametrize("bias", [False, True])
@torch.inference_mode()
def test_every_layout_gives_the_same_product(make: Callable[[nn.Linear], nn.Linear], bias: bool) -> None:
    plain = nn.Linear(24, 40, bias)
    layer = make(plain)
    assert layer.weight is plain.weight and layer.bias is plain.bias
    for rows in (1, 2, 9, 33):
        x = torch.randn(1, rows, 24, generator=torch.Generator().manual_seed(rows))
        torch.testing.assert_close(layer(x), plain(x))


def test_where_nothing_is_gained_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    half, away = nn.Linear(4, 3, dtype=torch.bfloat16), nn.Linear(4, 3, device="meta")
    assert laid_out(half) is half and laid_out(away) is away
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    monkeypatch.setattr(layout, "LARGEST", 4 * 18 - 1)
    lay_out(model)
    assert type(model[0]) is nn.Linear, "the second copies of a large model would need too much memory"
    monkeypatch.setattr(layout, "LARGEST", 4 * 18)
    lay_out(model)
    assert type(model[0]) is not nn.Linear and type(model[1]) is not nn.Linear


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


def test_every_projection_of_the_loaded_target_is_laid_out() -> None:
    model = load_pair(find_pair("embedded"), choose_placement("cpu", "fp32"), drafters=[]).model
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(layers) == 7 * 16 + 1 and all(type(layer) is not nn.Linear for layer in layers)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
