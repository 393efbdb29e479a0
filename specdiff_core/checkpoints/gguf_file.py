"""The parts of a GGUF file: every field of its header, and its tensors, dequantised on access. Without torch."""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import gguf
import numpy as np
import numpy.typing as npt

from specdiff_core.checkpoints.folders import Stored, short_path
from specdiff_core.schema.errors import WeightsError

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number types of a header -> struct codes."""
TEXT, LIST = 8, 9
MOST = 2**22  # most entries of a list in the header, ten times any vocabulary
OTHER = "Choose a GGUF file of Llama, Mistral, Qwen2 or Qwen3, or the model's own safetensors."


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a file before its weights."""

    file: Path
    fields: dict[str, Any]
    tensors: dict[str, Stored]  # by the file's names

    def refuse(self, what: str) -> NoReturn:
        raise WeightsError(f"{short_path(self.file)} cannot be used here: {what}.", hint=OTHER)

    def token(self, name: str) -> int | None:
        """The id of a special token, such as ``eos``; None if the vocabulary has none."""
        value = self.fields.get(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) and value < len(self.fields["tokenizer.ggml.tokens"]) else None


class _Bytes:
    """Reads a header sequentially, never beyond the end of its file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self.at = data, 0

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        form = struct.Struct(f"<{count}{code}")
        values = form.unpack_from(self._data, self.at)
        self.at += form.size
        return values

    def count(self) -> int:
        """Read a count, with a limit."""
        count = int(self.number("Q"))
        if count > MOST:
            raise ValueError(f"a list of {count:,} entries")
        return count

    def text(self) -> str:
        length = self.count()
        data = self._data[self.at : self.at + length]
        if len(data) < length:
            raise ValueError("it ends in the middle of a word")
        self.at += length
        return data.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            number = self.number(NUMBERS[kind])
            return float(str(np.float32(number))) if NUMBERS[kind] == "f" else number  # 1e-5, not 9.99999975e-06
        kind, count = self.number("I"), self.count()
        return [self.text() for _ in range(count)] if kind == TEXT else list(self.numbers(NUMBERS[kind], count))


def read_header(file: Path) -> Header:
    """Every field and the position of every tensor, checked to be inside the file."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise WeightsError(
                f"{short_path(file)} is not a GGUF file.", hint="Choose a file whose name ends in .gguf."
            )
        source = _Bytes(data)
        source.at = 4
        if (version := source.number("I")) not in (2, 3):
            raise WeightsError(f"{short_path(file)} is of version {version} of GGUF.", hint="Convert the model again.")
        tensors, count = source.count(), source.count()
        fields = {}
        for _ in range(count):
            name = source.text()
            fields[name] = source.value(source.number("I"))
        header = Header(file, fields, {})
        entries = [
            (source.text(), source.numbers("Q", source.number("I")), *source.numbers("IQ", 1)) for _ in range(tensors)
        ]
        step = fields.get("general.alignment", 32)
        first = -(-source.at // step) * step
        for name, sides, kind, offset in entries:
            if name in header.tensors:
                raise ValueError(f"two tensors are called {name}")
            dtype = gguf.GGMLQuantizationType(kind) if kind in iter(gguf.GGMLQuantizationType) else None
            if dtype is None or not _dequantises(dtype):
                header.refuse(f"{name} is stored as {dtype.name if dtype else f'type {kind}'}, which is not read here")
            stored = Stored(kind=dtype.name, shape=[int(side) for side in reversed(sides)], start=first + offset)
            if stored.start + math.prod(_form(stored)) > len(data):
                raise ValueError(f"{name} lies behind its end")
            header.tensors[name] = stored
    return header


def _dequantises(kind: gguf.GGMLQuantizationType) -> bool:
    """Whether the package ``gguf`` can dequantise this type."""
    try:
        gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _form(stored: Stored) -> tuple[int, int]:
    """Rows of a tensor, and bytes of each."""
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[stored.kind]]
    *sides, row = stored.shape
    if row % block:
        raise ValueError(f"rows of {row} numbers in blocks of {block}")
    return math.prod(sides), row // block * size


class Rows:
    """The rows of a tensor in a GGUF file, dequantised on access; the file is memory-mapped."""

    def __init__(self, file: Path, stored: Stored) -> None:
        self._kind = gguf.GGMLQuantizationType[stored.kind]
        self._data = np.memmap(file, np.uint8, "r", offset=stored.start, shape=_form(stored))

    def __getitem__(self, index: Any) -> npt.NDArray[np.float32]:
        """Rows by numpy indexing: ``[..., numbers of a row]``."""
        with np.errstate(all="ignore"):  # checked where a whole tensor is read
            return gguf.dequantize(np.asarray(self._data[index]), self._kind)


def dequantised(file: Path, stored: Stored) -> npt.NDArray[np.float32]:
    """A copy of a tensor with transformers' shape and order of rows."""
    values = Rows(file, stored)[:].reshape(stored.shape)
    if stored.heads:
        pairs = values.reshape(stored.heads, -1, 2, *stored.shape[1:])
        values = pairs.swapaxes(1, 2).reshape(stored.shape)
    return values if values.flags.writeable else values.copy()
