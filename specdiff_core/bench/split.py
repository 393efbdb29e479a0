"""Where the time of a round goes: how long each part of it runs, less the parts that run inside it."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from specdiff_core.bench.grid import BenchSetting
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.store import RoundParts, Split
from specdiff_core.bench.sweep import WARM_UP, header, plan
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Finished, Prefilled
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

CORE = "specdiff_core"
PARTS = {
    "target": ("models.network:Decoder.decode", "models.stock:StockRun.forward"),
    "drafter": (
        "models.dflash:DFlashDraftModel.denoise",
        "models.dflash:DFlashDraftModel.read_features",
        "models.dflash:DFlashDraftModel.context_keys_values",
        "models.mdlm:Mdlm.forward",
        "models.eagle:EagleHead.decode",
    ),
    "head": ("models.network:Decoder.head",),
    "sampling": (
        "decoding.loop:to_probs",
        "drafters.denoise:to_probs",
        "drafters.denoise:confidence_probs",
        "drafters.denoise:Chain.__init__",
        "drafters.denoise:Chain.draw",
        "drafters.denoise:Chain.ranked",
        "drafters.denoise:best_first",
        "drafters.eagle:confidence_probs",
        "drafters.sequential:to_probs",
        "maths.randomness:Independent.sample",
        "maths.randomness:SharedGumbel.sample",
    ),
    "tests": ("decoding.loop:verify",),
    "cache": (
        "models.cache:CausalReading.__init__",
        "models.cache:KeyValues.reserve",
        "models.cache:KeyValues.keep",
    ),
}
"""Part of a round -> the functions whose time is its own."""
REST = "Python"
"""The part of everything else: the loop, the events' facts, what stands between the others."""


class Watch(NamedTuple):
    """What is seen while :func:`watched` is open."""

    spent: dict[str, float]  # part -> seconds
    drafting: set[int]  # ids of the networks of a target's kind that draft


@contextmanager
def watched() -> Iterator[Watch]:
    """Seconds of each part while this is open. Load the engine inside: what was loaded before may hold functions that
    are not watched. A watched call costs about a microsecond."""
    spent: dict[str, float] = defaultdict(float)
    drafting: set[int] = set()
    inner: list[float] = []  # of each call that is under way, what its parts took

    def watch(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **words: Any) -> Any:
            inner.append(0.0)
            begun = time.perf_counter()
            try:
                return function(*args, **words)
            finally:
                seconds = time.perf_counter() - begun
                drafts = part == "target" and id(getattr(args[0], "_model", args[0])) in drafting
                spent["drafter" if drafts else part] += seconds - inner.pop()
                if inner:
                    inner[-1] += seconds

        return timed

    replaced: list[tuple[Any, str, Any]] = []
    try:
        for part, paths in PARTS.items():
            for path in paths:
                module, _, names = path.partition(":")
                *owners, name = names.split(".")
                owner = functools.reduce(getattr, owners, importlib.import_module(f"{CORE}.{module}"))
                replaced.append((owner, name, getattr(owner, name)))
                setattr(owner, name, watch(getattr(owner, name), part))
        yield Watch(spent, drafting)
    finally:
        for owner, name, function in replaced:
            setattr(owner, name, function)


def split(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    watch: Watch,
    provenance: Provenance,
) -> Split:
    """Seconds of a round's parts, setting by setting, over all prompts; without the prefill. Settings take turns.

    Args:
        watch: of :func:`watched`; ``engine`` was loaded inside.

    Raises:
        ConfigError: the device is no CPU: its work would not be done when a call returns.
    """
    if engine.pair.placement.device.type != "cpu":
        message = "bench split times calls, which on a GPU return before their work is done."
        raise ConfigError(message, field="device", hint="Run it with --device cpu.")
    head = header("split", engine, prompts, settings, base)
    spent = watch.spent
    readers = (getattr(drafter, "reader", None) for drafter in engine.pair.drafters.values())
    watch.drafting.update(id(reader.model) for reader in readers if reader is not None)
    whole: dict[str, dict[str, float]] = {setting.key: dict.fromkeys((*PARTS, REST), 0.0) for setting in settings}
    rounds: Counter[str] = Counter()
    warm = dataclasses.replace(base, max_new_tokens=min(WARM_UP, base.max_new_tokens))
    for setting in settings:
        _decode(engine, prompts[0].prompt, setting.config(warm), spent)
    for _, prompt, _, setting in plan(prompts, settings, 1):
        finished, seconds = _decode(engine, prompt.prompt, setting.config(base), spent)
        rounds[setting.key] += finished.rounds
        for part, own in {**spent, REST: seconds - sum(spent.values())}.items():
            whole[setting.key][part] += own
    entries = [
        RoundParts(
            **msgspec.structs.asdict(setting),
            rounds=rounds[setting.key],
            seconds={part: own / rounds[setting.key] for part, own in whole[setting.key].items()},
        )
        for setting in settings
    ]
    return msgspec.convert({**head, "provenance": provenance, "cells": entries}, Split)


def _decode(engine: Engine, prompt: str, config: DecodeConfig, spent: dict[str, float]) -> tuple[Finished, float]:
    """The end of a run, and the seconds behind its prefill; ``spent`` holds theirs."""
    before = 0.0
    for event in engine.decode(prompt, config, detail=False):
        if isinstance(event, Prefilled):
            spent.clear()
            before = event.span.start + event.span.seconds
        if isinstance(event, Finished):
            return event, event.seconds - before
    raise AssertionError("a run ends with Finished")
