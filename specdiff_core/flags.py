"""Command-line flags made from the settings' own metadata, and the engine they ask for. Imports torch only in calls.

The flags pass values on unchecked: ``DecodeConfig`` is the only judge, here as on the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Collection, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.config import DecodeConfig, RevealOrder, Rule
from specdiff_core.errors import ConfigError
from specdiff_core.registry import find_pair

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

CHOICES: dict[str, type[Enum]] = {"RevealOrder": RevealOrder, "Rule": Rule}


def flag(name: str) -> str:
    """``max_new_tokens`` -> ``--max-new-tokens``."""
    return f"--{name.replace('_', '-')}"


def explain(item: dataclasses.Field[Any]) -> str:
    """A setting's help text: what it is, its symbol, its range and its default."""
    meta = item.metadata
    symbol = f" ({meta['symbol']})" if meta["symbol"] else ""
    default = item.default.value if isinstance(item.default, Enum) else item.default
    notes = []
    if meta["low"] is not None:
        unit = f" {meta['unit']}" if meta["unit"] else ""
        notes.append(f"{meta['low']:.10g} to {meta['high']:.10g}{unit}")
    notes.append(f"default {'the same as --temperature' if default is None else default}")
    return f"{meta['label']}{symbol}. {meta['help']} [{'; '.join(notes)}]".replace("%", "%%")


def add_settings(parser: argparse.ArgumentParser, *, leave: Collection[str] = ()) -> None:
    """One flag per field of ``DecodeConfig``, except those in ``leave``; absent flags keep the field's default."""
    group = parser.add_argument_group("settings")
    for item in dataclasses.fields(DecodeConfig):
        if item.name in leave:
            continue
        options: dict[str, Any] = {"dest": item.name, "default": argparse.SUPPRESS, "help": explain(item)}
        kind = str(item.type)
        if kind == "bool":
            group.add_argument(flag(item.name), action="store_true", **options)
        elif kind in CHOICES:
            names = ",".join(str(choice.value) for choice in CHOICES[kind])
            group.add_argument(flag(item.name), metavar=f"{{{names}}}", **options)
        else:
            group.add_argument(flag(item.name), metavar=item.metadata["symbol"] or item.name.upper(), **options)


def read_settings(args: argparse.Namespace, **others: Any) -> DecodeConfig:
    """The settings that were given; ``others`` fill in what the flags left out.

    Raises:
        ConfigError: one of them is out of range.
    """
    given = vars(args)
    names = [item.name for item in dataclasses.fields(DecodeConfig)]
    return DecodeConfig.parse({**{name: given[name] for name in names if name in given}, **others})


def add_placement(parser: argparse.ArgumentParser) -> None:
    """Where and how precisely to compute."""
    group = parser.add_argument_group("device")
    group.add_argument("--device", default="auto", help="auto, cpu or cuda [default auto]")
    group.add_argument("--dtype", default="auto", help="auto, fp32 or bf16 [default auto: fp32 on a CPU]")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads [default: torch's own choice]")


def set_threads(threads: int | None) -> None:
    """Tell torch how many CPU threads to use.

    Raises:
        ConfigError: not a positive number.
    """
    import torch

    if threads is None:
        return
    if not 1 <= threads <= 1024:
        raise ConfigError(f"{threads} threads are not possible.", field="threads", hint="Use at least 1.")
    torch.set_num_threads(threads)


def open_engine(args: argparse.Namespace, pair: str, drafters: Sequence[str]) -> Engine:
    """Load ``pair`` with ``drafters`` as ``add_placement``'s flags say, telling progress on stderr.

    Raises:
        SpecDiffError: the pair, a drafter or the device is not available; the message says why.
    """
    spec = find_pair(pair)
    for name in drafters:
        spec.drafter(name)  # a misspelt name is told before anything is loaded
    say("loading …")
    from specdiff_core.device import choose_placement
    from specdiff_core.engine import Engine
    from specdiff_core.loading import load_pair

    set_threads(args.threads)
    placement = choose_placement(args.device, args.dtype)
    engine = Engine(load_pair(spec, placement, drafters=tuple(dict.fromkeys((*drafters, "none"))), progress=say))
    for name in drafters:
        engine.drafter(name)  # missing weights are told now, not in the middle of a run
    return engine


def check_target(path: Path | None, name: str) -> None:
    """Tell before the work what would fail after it.

    Raises:
        ConfigError: no file can be written there.
    """
    if path is not None and (not path.name or path.is_dir()):
        raise ConfigError(f"--{name} {str(path)!r} is no file.", field=name, hint="Give a file name.")


def say(message: str) -> None:
    """One line for people, beside the results: on stderr."""
    if sys.stderr is not None:  # closed by whoever started us
        sys.stderr.write(message + "\n")
