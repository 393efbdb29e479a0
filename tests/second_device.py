"""A second device for machines without one: tensors on "``cuda:0``" that lie in host memory.

While a :class:`SecondDevice` is entered they follow a GPU's rules. An operator that meets tensors
of both devices raises. Whatever makes the host wait for what the device has computed is noted as a
*wait*, whatever carries host data over as a *copy* (a GPU's host waits for those too, unless they
are pinned and `non_blocking`), each with the lines that asked for it. Kernels are the host's own,
so numbers are those of the same operators on the CPU, bit by bit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import specdiff_core

aten = torch.ops.aten
DEVICE = torch.device("cuda", 0)
PACKAGE = os.path.dirname(specdiff_core.__file__) + os.sep
WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""How torch marks operators whose result, or its shape, the host has to read."""
UNMARKED = {aten.where.default, aten.nonzero_numpy.default, aten.repeat_interleave.self_Tensor}
"""The same without the mark: inference mode hands them over whole."""
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}


class Far(Tensor):
    """On the second device."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """A wait, where it goes back to the host."""
        return moved(self, *args, **kwargs)

    def cpu(self) -> Tensor:
        """A wait."""
        return moved(self, "cpu")

    def tolist(self) -> Any:
        """A wait."""
        return moved(self, "cpu").tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Refused, as for any tensor that is not on the host."""
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy


@dataclass(frozen=True)
class Crossing:
    """Something that host and device had to meet for."""

    kind: str  # wait or copy
    what: str  # the operator
    lines: tuple[str, ...]  # of the package that led to it, innermost first: "file:line function"


class SecondDevice:
    """While it is entered, ``cuda:0`` is there; what crosses is in ``crossings``."""

    entered: ClassVar[SecondDevice]

    def __init__(self) -> None:
        self.crossings: list[Crossing] = []
        self._stack = ExitStack()

    def __enter__(self) -> SecondDevice:
        SecondDevice.entered = self
        # A parameter that moves becomes another tensor: it cannot change its class.
        overwrite = torch.__future__.set_overwrite_module_params_on_conversion
        self._stack.callback(overwrite, torch.__future__.get_overwrite_module_params_on_conversion())
        overwrite(True)
        self._stack.enter_context(_Calls())
        self._stack.enter_context(_Operators())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def note(self, kind: str, what: str) -> None:
        """It crosses now."""
        self.crossings.append(Crossing(kind, what, tuple(_lines())))


class _Calls(TorchFunctionMode):
    """Things made on the device, or moved there, which torch without CUDA refuses itself."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.to:
            return moved(*args, **kwargs)
        if not _is_device(kwargs.get("device")):
            return func(*args, **kwargs)
        made = func(*args, **{**kwargs, "device": "cpu"})
        if func in (torch.tensor, torch.as_tensor) and made.numel():
            SecondDevice.entered.note("copy", func.__name__)
        with _disable_current_modes():
            return made.as_subclass(Far)


class _Operators(TorchDispatchMode):
    """What operators make of tensors on the device is there too; notices what crosses."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch imports its compiler, which takes seconds

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = _tensors([args, list(kwargs.values())])
        near = [tensor for tensor in tensors if type(tensor) is not Far]
        if len(near) == len(tensors):
            return func(*args, **kwargs)
        name, note = func.overloadpacket.__name__, SecondDevice.entered.note
        waits = any(tag in WAITING for tag in func.tags) or func in UNMARKED
        if name == "copy_":
            if near and tensors[0].numel():
                note("copy" if near[0] is tensors[1] else "wait", name)
            return func(*args, **kwargs)
        if name in INDEXING and type(args[0]) is Far:
            indices = _tensors(args[1])
            waits = any(index.dtype in (torch.bool, torch.uint8) for index in indices)  # it looks
            carried = [one for one in near if not one.ndim or any(one is index for index in indices)]
            for _ in filter(Tensor.numel, carried):  # torch does it by itself
                note("copy", name)
            near = [one for one in near if all(one is not other for other in carried)]
        if any(tensor.ndim for tensor in near):
            found = ", ".join(f"{list(tensor.shape)} on {tensor.device}" for tensor in tensors)
            raise RuntimeError(f"Expected all tensors to be on the same device: {func} of {found}.")
        out = func(*args, **kwargs)
        if waits or isinstance(out, (bool, int, float)):
            note("wait", name)
        return _far(out)


def _tensors(value: Any) -> list[Tensor]:
    """Those in lists and tuples."""
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in _tensors(one)]
    return [value] if isinstance(value, Tensor) else []


def _far(made: Any) -> Any:
    """An operator's result, its tensors on the device."""
    if isinstance(made, (list, tuple)):
        return type(made)(map(_far, made))
    return made.as_subclass(Far) if type(made) is Tensor else made


def moved(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``tensor.to(…)``: a device, a dtype, both, or another tensor that has them."""
    given = [*args, *kwargs.values()]
    where = next((value for value in given if isinstance(value, (str, torch.device, Tensor))), tensor)
    dtype = next((value for value in given if isinstance(value, torch.dtype)), None)
    if where is not tensor and isinstance(where, Tensor):
        where, dtype = where.device, where.dtype
    changed = tensor if dtype in (None, tensor.dtype) else Tensor.to(tensor, dtype)
    far = isinstance(tensor, Far) if where is tensor else _is_device(where)
    if far == isinstance(tensor, Far):
        return changed
    if tensor.numel():  # nothing is not sent
        SecondDevice.entered.note("copy" if far else "wait", "to")
    with _disable_current_modes():
        return changed.clone().as_subclass(Far if far else Tensor)


def _is_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) and torch.device(value).type == DEVICE.type


def _lines() -> Iterator[str]:
    """Where the package is, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            yield f"{code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {code.co_name}"
        frame = frame.f_back
