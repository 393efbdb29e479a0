"""Matrices as integers with scales, in compressed-tensors' formats: int8 with a scale per row, or 4 bits, eight to an
int32, with a scale for every :data:`GROUP` columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from specdiff_core.schema.errors import WeightsError

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
EMBEDDING = "embed_tokens.weight"
SCALE, PACKED, SHAPE, GROUP = "_scale", "_packed", "_shape", 32
NIBBLES = torch.arange(0, 32, 4, dtype=torch.int32)
CLIPPED = torch.linspace(0.7, 1.0, 13).tolist()  # shares of the widest value that are tried as the widest integer
OTHER = "Choose weights in fp32, fp16 or bf16."


def quantization_config(bits: int) -> dict[str, Any]:
    """The entry of a transformers model's ``config.json`` for linear layers that :func:`quantise` stored."""
    weights: dict[str, Any] = {"num_bits": bits, "type": "int", "symmetric": True, "dynamic": False}
    weights |= {"strategy": "channel"} if bits == 8 else {"strategy": "group", "group_size": GROUP}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized" if bits == 8 else "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


def quantise(tensors: Mapping[str, Tensor], bits: int) -> dict[str, Tensor]:
    """Tensors as they are stored with matrices symmetrically quantised: to int8 with one scale per row, or to 4 bits
    with one for every :data:`GROUP` columns, the scale of the least squared error. Embeddings, norms and tables aren't.

    Raises:
        WeightsError: the columns of a matrix are no whole groups.
    """
    stored: dict[str, Tensor] = {}
    most = 2 ** (bits - 1) - 1
    kind, shares = (torch.float32, [1.0]) if bits == 8 else (torch.bfloat16, CLIPPED)

    def rounded(groups: Tensor, scale: Tensor) -> Tensor:
        return (groups / scale).round().clamp(-most - 1, most)

    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.dtype not in FLOATS or name.endswith(EMBEDDING):
            stored[name] = tensor
            continue
        if bits == 4 and tensor.shape[1] % GROUP:
            what = f"{name} has {tensor.shape[1]} columns; 4 bits need a multiple of {GROUP}."
            raise WeightsError(what, hint="Use 8 bits.")
        groups = tensor.float().view(len(tensor), -1, GROUP if bits == 4 else tensor.shape[1])
        widest = groups.abs().amax(2, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / most
        tries = torch.stack([(widest * share).to(kind).float() for share in shares])
        errors = torch.stack([(rounded(groups, one) * one - groups).square().sum(2, keepdim=True) for one in tries])
        scale = tries.gather(0, errors.argmin(0, keepdim=True))[0]
        stored |= pack(name, rounded(groups, scale).to(torch.int8).flatten(1), scale[..., 0].to(kind))
    return stored


def pack(name: str, integers: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """How integers ``[rows, columns]`` with the scales ``[rows, groups]`` are stored."""
    if scale.shape[1] == 1:
        return {name: integers, name + SCALE: scale}
    packed = ((integers.int() + 8).view(len(integers), -1, 8) << NIBBLES).sum(-1, dtype=torch.int32)
    return {name + PACKED: packed, name + SHAPE: torch.tensor(integers.shape), name + SCALE: scale}


def unpack(tensors: dict[str, Tensor]) -> None:
    """Replace every 4-bit matrix in ``tensors`` by its integers, as int8. Raises WeightsError if one isn't as
    :func:`pack` stores it."""
    for name in [name for name in tensors if name.endswith(PACKED)]:
        plain, packed = name.removesuffix(PACKED), tensors.pop(name)
        shape, expected = tensors.pop(plain + SHAPE, torch.empty(0)).tolist(), [len(packed), 8 * packed.shape[-1]]
        if packed.dtype != torch.int32 or shape != expected:
            what = f"{name} is not stored as 4-bit integers, eight to an int32, with their shape."
            raise WeightsError(what, hint=OTHER)
        tensors[plain] = ((packed[..., None] >> NIBBLES & 15) - 8).flatten(1).to(torch.int8)


def unpacked_names(names: Collection[str]) -> set[str]:
    """The names that :func:`unpack` leaves of the ``names`` in a file."""
    packed = {name.removesuffix(PACKED) for name in names if name.endswith(PACKED)}
    return {name.removesuffix(PACKED) for name in names} - {name + SHAPE for name in packed}


def pop_scales(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the scales of integer matrices from ``tensors``; returns them, ``[rows, groups]``, by matrix name. Raises
    WeightsError if a matrix with a scale is not int8, or its scale has another shape."""
    scales = {name: tensors.pop(name + SCALE) for name in [*tensors] if name + SCALE in tensors}
    for name, scale in scales.items():
        matrix = tensors[name]
        fits = matrix.ndim == scale.ndim == 2 and len(scale) == len(matrix) and matrix.shape[1] % scale.shape[1] == 0
        if matrix.dtype != torch.int8 or not fits or scale.dtype not in FLOATS:
            what = f"{name} is not stored as integers with a scale per row or group, contrary to {name}{SCALE}."
            raise WeightsError(what, hint=OTHER)
    return scales


def scaled(integers: Tensor, scale: Tensor) -> Tensor:
    """Integers ``[rows, columns]`` times the scales ``[rows, groups]`` of their groups."""
    return (integers.view(*scale.shape, -1) * scale[..., None]).flatten(1)
