"""Reads and writes the tensors of a model folder: safetensors and GGUF files only."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import INDEX, Gguf, damage_errors, read_gguf, short_path, weight_files
from specdiff_core.checkpoints.gguf_file import Rows, dequantised
from specdiff_core.schema.errors import SpecDiffError, WeightsError

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SHARD_BYTES = 8_900_000  # every shipped file stays below 9 MB
EMBEDDING = "embed_tokens.weight"
# Quantised matrices, in compressed-tensors' formats: int8 with a scale per row, or 4 bits with a scale for every GROUP
# columns, eight to an int32.
SCALE, PACKED, SHAPE, GROUP = "_scale", "_packed", "_shape", 32
NIBBLES = torch.arange(0, 32, 4, dtype=torch.int32)


def _quantisation(bits: int) -> dict[str, Any]:
    """``quantization_config`` of a transformers model whose linear layers :func:`shrink` stored."""
    weights: dict[str, Any] = {
        "num_bits": bits,
        "type": "int",
        "symmetric": True,
        "strategy": "channel",
        "dynamic": False,
    }
    if bits == 4:
        weights |= {"strategy": "group", "group_size": GROUP}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized" if bits == 8 else "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


QUANTISED = [_quantisation(bits) for bits in (8, 4)]
CLIPPED = torch.linspace(0.7, 1.0, 13).tolist()  # shares of the widest value that are tried as the widest integer

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
    index = read_gguf(folder)
    tensors, files = _stored(folder, index)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in ignored}
    scales = _scales(tensors)
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
            raise WeightsError(f"{name} in {file} is stored as {kind}.", hint="Choose weights in fp32, fp16 or bf16.")

    def read(name: str) -> Tensor:
        tensor = _dequantised(index, name) if index is not None else tensors[name]
        tensor = _scaled(tensor, scales[name]) if name in scales else tensor
        check_finite(files[name], name, tensor)
        return tensor

    return {name: partial(read, name) for name in tensors}


def _stored(folder: Path, index: Gguf | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The stored tensors by name, of a GGUF file only their shapes; and each one's file."""
    if index is not None:
        shapes = {name: torch.empty(tensor.shape, device="meta") for name, tensor in index.tensors.items()}
        return shapes, dict.fromkeys(shapes, short_path(index.file))
    tensors, files = dict[str, Tensor](), dict[str, str]()
    for path in weight_files(folder):
        with damage_errors(f"The weight file {short_path(path)} is truncated or damaged"):
            tensors |= (part := load_file(path))
        files |= dict.fromkeys(_unquantised(part), short_path(path))
    for name in [name for name in tensors if name.endswith(PACKED)]:
        plain, packed = name.removesuffix(PACKED), tensors.pop(name)
        if packed.dtype != torch.int32 or tensors.pop(plain + SHAPE, torch.empty(0)).tolist() != [
            len(packed),
            8 * packed.shape[-1],
        ]:
            raise WeightsError(f"{name} is not stored as 4-bit integers, eight to an int32, with their shape.")
        tensors[plain] = ((packed[..., None] >> NIBBLES & 15) - 8).flatten(1).to(torch.int8)
    return tensors, files


def _unquantised(names: Collection[str]) -> set[str]:
    """The names of tensors, without those that only say how a 4-bit matrix is stored."""
    packed = {name.removesuffix(PACKED) for name in names if name.endswith(PACKED)}
    return {name.removesuffix(PACKED) for name in names} - {name + SHAPE for name in packed}


def _scales(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove the scales of integer matrices from ``tensors``; returns them, ``[rows, groups]``, by matrix name. Raises
    WeightsError if a matrix with a scale is not int8, or its scale has another shape."""
    scales = {name: tensors.pop(name + SCALE) for name in [*tensors] if name + SCALE in tensors}
    for name, scale in scales.items():
        matrix = tensors[name]
        fits = matrix.ndim == scale.ndim == 2 and len(scale) == len(matrix) and matrix.shape[1] % scale.shape[1] == 0
        if matrix.dtype != torch.int8 or not fits or scale.dtype not in FLOATS:
            what = f"{name} is not stored as integers with a scale per row or group, contrary to {name}{SCALE}."
            raise WeightsError(what, hint="Choose weights in fp32, fp16 or bf16.")
    return scales


def _scaled(matrix: Tensor, scale: Tensor) -> Tensor:
    """Integers ``[rows, columns]`` times the scales ``[rows, groups]`` of their groups."""
    return (matrix.view(*scale.shape, -1) * scale[..., None]).flatten(1)


def _dequantised(index: Gguf, name: str) -> Tensor:
    return torch.from_numpy(dequantised(Path(index.file), index.tensors[name]))


def dequantised_state(folder: Path) -> dict[str, Tensor] | None:
    """All tensors of a GGUF or int8 folder in fp32; None if nothing is quantised."""
    if (index := read_gguf(folder)) is not None:
        return {name: _dequantised(index, name) for name in index.tensors}
    state, _ = _stored(folder)
    scales = _scales(state)
    return state | {name: _scaled(state[name], scale) for name, scale in scales.items()} if scales else None


class StoredRows(nn.Module):
    """An embedding whose rows stay in their GGUF file and are dequantised on access.

    Args:
        name: of the table.
        dtype: of the returned rows.
    """

    def __init__(self, index: Gguf, name: str, dtype: torch.dtype) -> None:
        super().__init__()
        self._rows, self._dtype = Rows(Path(index.file), index.tensors[name]), dtype
        self._read_table = partial(_dequantised, index, name)
        self._check = partial(check_finite, index.file, name)

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
    if (index := read_gguf(folder)) is not None:
        return set(index.tensors)
    names: set[str] = set()
    for path in weight_files(folder):
        with (
            damage_errors(f"The weight file {short_path(path)} is truncated or damaged"),
            safe_open(path, "pt") as file,
        ):
            names.update(file.keys())
    return _unquantised(names)


def empty_folder(folder: Path) -> None:
    """Create a folder, or remove the weights in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob("*.safetensors"), folder / INDEX):
        stale.unlink(missing_ok=True)


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    tables: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write ``config.json`` and the tensors as bf16 safetensors, in shards below 9 MB with their
    index; ``tables`` (integers or booleans) keep their dtype."""
    empty_folder(folder)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    stored = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    stored |= {name: table.cpu().contiguous() for name, table in (tables or {}).items()}
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)
    return folder


def shrink(folder: Path, bits: int = 8) -> None:
    """Quantise the matrices of a folder in place, symmetrically: to int8 with one scale per row, or to 4 bits with one
    for every :data:`GROUP` columns, the scale of the least squared error. Embeddings, norms and tables, and what is
    quantised already, are not changed.

    Raises:
        WeightsError: a file is missing or damaged, or the columns of a matrix are no whole groups.
    """
    stored: dict[str, Tensor] = {}
    tensors, most = _stored(folder)[0], 2 ** (bits - 1) - 1
    scales = _scales(tensors)
    kind, shares = (torch.float32, [1.0]) if bits == 8 else (torch.bfloat16, CLIPPED)

    def rounded(groups: Tensor, scale: Tensor) -> Tensor:
        return (groups / scale).round().clamp(-most - 1, most)

    for name, tensor in tensors.items():
        if name in scales:
            stored |= _quantised(name, tensor, scales[name])
            continue
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
        stored |= _quantised(name, rounded(groups, scale).to(torch.int8).flatten(1), scale[..., 0].to(kind))
    stored = {name: tensor.clone() for name, tensor in stored.items()}  # files are deleted
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if any(str(name).endswith("ForCausalLM") for name in config.get("architectures") or ()) and not scales:
        written = json.dumps(config | {"quantization_config": _quantisation(bits)}, indent=2)
        (folder / "config.json").write_text(written + "\n", encoding="utf-8")
    empty_folder(folder)
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)


def _quantised(name: str, integers: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """How a matrix of integers ``[rows, columns]`` is stored."""
    if scale.shape[1] == 1:
        return {name: integers, name + SCALE: scale}
    packed = ((integers.int() + 8).view(len(integers), -1, 8) << NIBBLES).sum(-1, dtype=torch.int32)
    return {name + PACKED: packed, name + SHAPE: torch.tensor(integers.shape), name + SCALE: scale}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path to write; on success it replaces the file ``path``.

    Raises:
        SpecDiffError: it can't be written (of torch's and safetensors' exceptions, too).
    """
    fresh = path.with_suffix(".partial")
    try:
        yield fresh
        fresh.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:
        fresh.unlink(missing_ok=True)
        raise SpecDiffError(
            f"{short_path(path)} can't be written ({error}).", hint="Make room on that disk."
        ) from error
