"""Chooses device and precision, with the reason. Nothing is decided at import."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.processor import computes_bf16
from specdiff_core.schema.errors import ConfigError, no_such

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, a dtype, and the reason."""

    device: torch.device
    dtype: torch.dtype
    reason: str

    @property
    def dtype_name(self) -> str:
        return next(name for name, dtype in DTYPES.items() if dtype is self.dtype)


def choose_placement(device: str = "auto", dtype: str = "auto", *, bf16: bool = False) -> Placement:
    """Pick a placement: CUDA if there is one, bf16 on compute capability 8.0 or newer, else fp32.

    Args:
        bf16: on a CPU, choose bf16 if the processor computes it.

    Raises:
        ConfigError: the device does not exist, or a name is unknown.
    """
    if device not in DEVICES:
        raise no_such("device", device, DEVICES, "device")
    if dtype not in {"auto", *DTYPES}:
        raise no_such("dtype", dtype, ("auto", *DTYPES), "dtype")
    cuda = torch.cuda.is_available() and device != "cpu"
    if device == "cuda" and not cuda:
        raise ConfigError("No CUDA device is available here.", field="device", hint="Use --device cpu or auto.")
    where = torch.device("cuda" if cuda else "cpu")
    why = "CUDA" if cuda else "CPU was requested" if device == "cpu" else "no CUDA device is available"
    if dtype != "auto":
        return Placement(where, DTYPES[dtype], f"{why}; {dtype} was requested")
    if not cuda and bf16 and computes_bf16():
        return Placement(where, torch.bfloat16, f"{why}; this processor computes bf16")
    if not cuda:
        return Placement(where, torch.float32, f"{why}; fp32 is exact and fast on every processor")
    major = torch.cuda.get_device_capability()[0]
    if major >= 8:
        return Placement(where, torch.bfloat16, f"CUDA capability {major}.x computes bf16 natively")
    return Placement(where, torch.float32, f"CUDA capability {major}.x has no fast bf16")


def on_device(values: Any, device: torch.device) -> Tensor:
    """Host values as a tensor on ``device``, without waiting for the copy."""
    return torch.as_tensor(values).to(device, non_blocking=True)


def set_threads(threads: int | None) -> None:
    """Set torch's number of CPU threads; None leaves it.

    Raises:
        ConfigError: it is not a number from 1 to 1024.
    """
    if threads is None:
        return
    if not 1 <= threads <= 1024:
        raise ConfigError(f"{threads} is not a valid number of threads.", field="threads", hint="Use 1 to 1024.")
    torch.set_num_threads(threads)


_OPEN: list[list[int]] = []  # the number of threads to restore, for each open :func:`cpu_threads`


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[None]:
    """Set torch's number of CPU threads temporarily; None leaves it. Overlapping uses may end in
    any order: while a later one is open, it takes over the number to restore."""
    if threads is None:
        yield
        return
    restore = [torch.get_num_threads()]
    set_threads(threads)
    _OPEN.append(restore)
    try:
        yield
    finally:
        index = next(i for i, entry in enumerate(_OPEN) if entry is restore)
        if later := _OPEN[index + 1 :]:
            later[0][:] = restore
        else:
            torch.set_num_threads(restore[0])
        del _OPEN[index]


@contextmanager
def loading_threads(device: torch.device) -> Iterator[None]:
    """Load weights on one CPU thread, then return freed memory to the system. Several threads are
    not faster, and wait for each other beside a busy core: the embedded pair took 7.4 s on two
    threads, and 0.4 s on one."""
    if device.type != "cpu":
        yield
        return
    with cpu_threads(1):
        yield
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def device_name(device: torch.device) -> str:
    """The name of the hardware: ``cuda: NVIDIA …`` or ``cpu: AMD …``."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return f"cpu: {processor()}"


@functools.cache
def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux
    lines = cpuinfo.read_text(errors="replace").splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown"


@functools.cache
def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of ``packages``; reading them takes milliseconds."""
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
