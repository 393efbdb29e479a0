"""Products of few rows with a large matrix. The kernel is chosen when weights are loaded, by
device, dtype and torch version, never by timing: another order of sums rounds differently, and
texts must not depend on the machine's load.

With a packed matrix, oneDNN computes a row with the same bits for any number of rows and threads.
Only a single row of more than :data:`LONG` numbers is summed differently, so it is computed as two.
AMX, which computes bf16, sums more than :data:`TILES` rows differently. The longest window has one
row more, so it is computed in two parts; prompts, which every method reads at once, are not. MKL,
which ``F.linear`` uses in fp32, has no such property. ``Target.exactness`` tests it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.processor import computes_bf16

OPERATORS = ("_reorder_linear_weight", "_linear_pointwise")
"""Operators of ``torch.ops.mkldnn`` that pack a matrix and multiply with it; not a stable API."""
LONG = 1024  # numbers in a row up to which oneDNN sums one row as it sums many
TILES = 32  # rows up to which AMX sums alike
PACKED, PLAIN = "oneDNN, packed weights", "torch F.linear"


def kernel(device: torch.device, dtype: torch.dtype) -> str:
    """The kernel on ``device``: :data:`PACKED` or :data:`PLAIN`. Packed bf16 needs a processor that
    computes it (avx512_bf16, AMX); others would emulate it."""
    packable = device.type == "cpu" and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)
    if packable and dtype == torch.bfloat16:
        packable = computes_bf16()
    return PACKED if packable and dtype in (torch.float32, torch.bfloat16) else PLAIN


def multiplies_bf16(device: torch.device) -> bool:
    """Whether ``device`` multiplies bf16 itself; others emulate it."""
    return device.type == "cuda" or computes_bf16()


class Product:
    """x·Wᵀ + b for a frozen W, possibly of several projections side by side.

    Args:
        weight: ``[out, in]``. A packed product keeps only its own copy.
        bias: ``[out]``.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.packed = kernel(weight.device, weight.dtype) is PACKED
        # Packing needs contiguous rows, and would otherwise keep the memory that it is given.
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.clone(), None) if self.packed else weight
        self._bias = bias
        self._long = weight.shape[1] > LONG
        self._tiled = self.packed and weight.dtype is torch.bfloat16 and torch.cpu._is_amx_tile_supported()

    @classmethod
    def of(cls, parts: Sequence[nn.Linear], *, keep: bool = False) -> Product:
        """Combine projections of the same rows into a frozen product. If it is packed, they drop
        their weights unless ``keep``; otherwise their weights become views of it."""
        weight = torch.cat([part.weight.detach() for part in parts])
        bias = None if parts[0].bias is None else torch.cat([part.bias.detach() for part in parts])
        product = cls(weight, bias)
        for part, rows in zip(parts, torch.split(weight, [part.out_features for part in parts]), strict=True):
            if not product.packed:
                part.weight = nn.Parameter(rows, requires_grad=False)
            elif not keep:
                part.to_empty(device="meta")
        return product

    def __call__(self, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        """``rows [..., in]`` -> ``[..., out]``, added to a ``residual [..., out]``, if any."""
        out: Tensor
        if not self.packed:
            out = F.linear(rows, self._weight, self._bias)
            return out if residual is None else residual + out
        if self._long and rows.numel() == rows.shape[-1]:  # a single row is summed differently
            twice = None if residual is None else torch.cat([residual, residual], -2)
            return self(torch.cat([rows, rows], -2), twice)[..., :1, :]
        if self._tiled and rows.shape[-2] == TILES + 1:
            residuals = (None, None) if residual is None else torch.split(residual, TILES, -2)
            return torch.cat([self(*part) for part in zip(torch.split(rows, TILES, -2), residuals, strict=True)], -2)
        if residual is None:
            out = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        else:
            out = torch.ops.mkldnn._linear_pointwise.binary(rows, residual, self._weight, self._bias, "add")
        return out


class Separate:
    """The same for projections in training: one by one, with concatenated results."""

    def __init__(self, parts: Sequence[nn.Linear]) -> None:
        self._parts = parts

    def __call__(self, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        outputs = [part(rows) for part in self._parts]
        out = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        return out if residual is None else residual + out
