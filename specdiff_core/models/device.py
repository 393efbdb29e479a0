"""Chooses where and in which precision models run, and says why. Nothing is decided at import."""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.models.graphs import Graphs
from specdiff_core.schema.errors import ConfigError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, a dtype, and the reason shown to people; on CUDA, what records passes."""

    device: torch.device
    dtype: torch.dtype
    reason: str
    graphs: Graphs | None = None

    @property
    def dtype_name(self) -> str:
        return next(name for name, dtype in DTYPES.items() if dtype is self.dtype)


def choose_placement(device: str = "auto", dtype: str = "auto", *, record: bool = True) -> Placement:
    """Pick a placement: CUDA if there is one, bf16 on compute capability 8.0 or newer, else fp32.

    Args:
        record: on CUDA, record passes; not where a process lives for one short run, to which the recording counts.

    Raises:
        ConfigError: the device does not exist here, or the names are unknown.
    """
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"Unknown device {device[:40]!r}.", field="device", hint="Use auto, cpu or cuda.")
    if dtype not in {"auto", *DTYPES}:
        raise ConfigError(f"Unknown dtype {dtype[:40]!r}.", field="dtype", hint="Use auto, fp32 or bf16.")
    cuda = torch.cuda.is_available() and device != "cpu"
    if device == "cuda" and not cuda:
        raise ConfigError("No CUDA device is available here.", field="device", hint="Use --device cpu or auto.")
    where = torch.device("cuda" if cuda else "cpu")
    why = "CUDA" if cuda else "CPU was asked for" if device == "cpu" else "no CUDA device is available"
    graphs = Graphs(where) if cuda and record else None
    if dtype != "auto":
        return Placement(where, DTYPES[dtype], f"{why}; {dtype} was asked for", graphs)
    if not cuda:
        return Placement(where, torch.float32, f"{why}; fp32 is exact and fast on every processor")
    major = torch.cuda.get_device_capability()[0]
    if major >= 8:
        return Placement(where, torch.bfloat16, f"CUDA capability {major}.x computes bf16 natively", graphs)
    return Placement(where, torch.float32, f"CUDA capability {major}.x has no fast bf16", graphs)


def on_device(values: Any, device: torch.device) -> Tensor:
    """Values of the host as a tensor on ``device``; nobody waits for it to be there."""
    return torch.as_tensor(values).to(device, non_blocking=True)


def set_threads(threads: int | None) -> None:
    """Tell torch how many CPU threads to use.

    Raises:
        ConfigError: not a positive number.
    """
    if threads is None:
        return
    if not 1 <= threads <= 1024:
        raise ConfigError(f"{threads} threads are not possible.", field="threads", hint="Use 1 to 1024.")
    torch.set_num_threads(threads)


_OPEN: list[list[int]] = []
"""Of every :func:`cpu_threads` that is open, the number of threads that comes back with its end."""


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many CPU threads for a while; None leaves them as they are. Several may overlap and end in any
    order: what one would bring back while a later one is open, that one brings back."""
    if threads is None:
        yield
        return
    before = [torch.get_num_threads()]
    set_threads(threads)
    _OPEN.append(before)
    try:
        yield
    finally:
        place = next(i for i, entry in enumerate(_OPEN) if entry is before)
        if later := _OPEN[place + 1 :]:
            later[0][:] = before
        else:
            torch.set_num_threads(before[0])
        del _OPEN[place]


def device_name(device: torch.device) -> str:
    """What people call the hardware: ``cuda: NVIDIA …`` or ``cpu: AMD …``."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return f"cpu: {processor()}"


@functools.cache
def processor() -> str:
    """The processor's name as the system tells it."""
    info = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows a name, or nothing
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown"
