"""Reads the tensors of a model folder: safetensors and GGUF files only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import Gguf, damage_errors, read_gguf, short_path, weight_files
from specdiff_core.checkpoints.gguf_file import Rows, dequantised
from specdiff_core.checkpoints.quantising import FLOATS, OTHER, pop_scales, scaled, unpack, unpacked_names
from specdiff_core.schema.errors import WeightsError

Read = Callable[[], Tensor]
"""Reads one tensor: mapped from safetensors, or dequantised to fp32 from int8 or GGUF.

Raises:
    WeightsError: it has values that are not finite.
"""


def read_tensors(folder: Path, expected: Mapping[str, Tensor], **options: Collection[str]) -> dict[str, Tensor]:
    """The tensors of a folder on the CPU, all at once; see :func:`find_tensors`."""
    return {name: read() for name, read in find_tensors(folder, expected, **options).items()}


def find_tensors(
    folder: Path,
    expected: Mapping[str, Tensor],
    *,
    optional: Collection[str] = (),
    ignored: Collection[str] = (),
    tables: Collection[str] = (),
) -> dict[str, Read]:
    """Readers for the tensors of a folder, by name, after checking names and shapes.

    Args:
        expected: the network's tensors, for their shapes.
        optional: names that may be missing.
        ignored: further names that files may contain.
        tables: names of integer or boolean tensors.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format, or a tensor is
            missing, unknown, or has another shape; the message names it and its file.
    """
    gguf = read_gguf(folder)
    tensors, files = stored_tensors(folder, gguf)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in ignored}
    scales = pop_scales(tensors)
    if missing := [name for name in expected if name not in tensors and name not in optional]:
        where = ", ".join(sorted(set(files.values()))) or short_path(folder)
        raise WeightsError(f"{len(missing)} tensors are missing in {where}, first {missing[0]}.")
    for name, tensor in tensors.items():
        file = files[name]
        if name not in expected:
            hint = "The files belong to another kind of model; check the pair's source."
            raise WeightsError(f"{file} has an unknown tensor {name}.", hint=hint)
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}, config.json says {tuple(expected[name].shape)}"
            hint = "config.json and the weights don't match: download both again."
            raise WeightsError(f"{name} in {file} has shape {shapes}.", hint=hint)
        if (tensor.dtype not in FLOATS and name not in scales) != (name in tables):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise WeightsError(f"{name} in {file} is stored as {kind}.", hint=OTHER)

    def read(name: str) -> Tensor:
        tensor = _from_gguf(gguf, name) if gguf is not None else tensors[name]
        tensor = scaled(tensor, scales[name]) if name in scales else tensor
        check_finite(files[name], name, tensor)
        return tensor

    return {name: partial(read, name) for name in tensors}


def stored_tensors(folder: Path, gguf: Gguf | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The stored tensors by name, of a GGUF file only their shapes; and each one's file."""
    if gguf is not None:
        shapes = {name: torch.empty(tensor.shape, device="meta") for name, tensor in gguf.tensors.items()}
        return shapes, dict.fromkeys(shapes, short_path(gguf.file))
    tensors, files = dict[str, Tensor](), dict[str, str]()
    for path in weight_files(folder):
        with damage_errors(f"The weight file {short_path(path)} is truncated or damaged"):
            tensors |= (part := load_file(path))
        files |= dict.fromkeys(unpacked_names(part), short_path(path))
    unpack(tensors)
    return tensors, files


def _from_gguf(gguf: Gguf, name: str) -> Tensor:
    """A tensor of a GGUF file in fp32."""
    return torch.from_numpy(dequantised(Path(gguf.file), gguf.tensors[name]))


def read_if_quantised(folder: Path) -> dict[str, Tensor] | None:
    """All tensors of a folder of GGUF or integers in fp32; None if nothing is quantised."""
    if (gguf := read_gguf(folder)) is not None:
        return {name: _from_gguf(gguf, name) for name in gguf.tensors}
    state, _ = stored_tensors(folder)
    scales = pop_scales(state)
    return state | {name: scaled(state[name], scale) for name, scale in scales.items()} if scales else None


class StoredRows(nn.Module):
    """An embedding whose rows stay in their GGUF file and are dequantised on access.

    Args:
        name: of the table.
        dtype: of the returned rows.
    """

    def __init__(self, gguf: Gguf, name: str, dtype: torch.dtype) -> None:
        super().__init__()
        self._rows, self._dtype = Rows(Path(gguf.file), gguf.tensors[name]), dtype
        self._read_table = partial(_from_gguf, gguf, name)
        self._check = partial(check_finite, gguf.file, name)

    @property
    def weight(self) -> Tensor:
        """The whole table ``[V, W]``, read from the file at every call."""
        table = self._read_table()
        self._check(table)
        return table.to(self._dtype)

    def forward(self, ids: Tensor) -> Tensor:
        """``ids [...]`` -> their rows ``[..., W]``."""
        return torch.from_numpy(self._rows[ids.numpy()]).to(self._dtype)


def read_drafter(
    folder: Path, expected: Mapping[str, Tensor], drafted: int, size: int, optional: Collection[str] = ()
) -> tuple[dict[str, Tensor], Tensor | None]:
    """The tensors of a drafter with its own vocabulary, and the target's id of each of its tokens.

    Args:
        drafted: size of the drafter's vocabulary.
        size: size of the target's.

    Returns:
        the tensors, and the ids ``[drafted]``, ascending; None if the vocabularies are the same.
        ``d2t`` in the files holds each id's offset from its own index.

    Raises:
        WeightsError: as :func:`find_tensors`; or ``d2t`` and ``t2d`` are missing or disagree.
    """
    maps = {"d2t": torch.empty(drafted, device="meta"), "t2d": torch.empty(size, device="meta")}
    stored = read_tensors(folder, {**expected, **maps}, optional=(*optional, *maps), tables=tuple(maps))
    d2t, t2d = stored.pop("d2t", None), stored.pop("t2d", None)
    if d2t is None and drafted != size:
        raise WeightsError(f"{short_path(folder)} drafts {drafted:,} of {size:,} tokens, but has no d2t.")
    if d2t is None:
        return stored, None
    ids, complete = torch.arange(drafted) + d2t.long(), drafted == size
    wrong = bool((ids.diff() <= 0).any()) or not 0 <= int(ids[0]) <= int(ids[-1]) < size
    if wrong or (t2d is not None and not complete and t2d.bool().nonzero()[:, 0].tolist() != ids.tolist()):
        raise WeightsError(
            f"d2t and t2d in {short_path(folder)} do not define a subset of the target's {size:,} tokens."
        )
    return stored, None if complete else ids


def check_finite(source: str | Path, name: str, tensor: Tensor) -> None:
    """Raise a WeightsError if a tensor of ``source`` has values that are not finite in its dtype."""
    if tensor.is_floating_point() and tensor.numel() and not bool(torch.stack(torch.aminmax(tensor)).isfinite().all()):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise WeightsError(f"{name} in {short_path(source)} has values that are not finite in {kind}.")


def tensor_names(folder: Path) -> set[str]:
    """The tensor names in a folder's weight files, from their headers.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format.
    """
    if (gguf := read_gguf(folder)) is not None:
        return set(gguf.tensors)
    names: set[str] = set()
    for path in weight_files(folder):
        with (
            damage_errors(f"The weight file {short_path(path)} is truncated or damaged"),
            safe_open(path, "pt") as file,
        ):
            names.update(file.keys())
    return unpacked_names(names)
