"""Times bare forward passes, and from them the speed that a drafted loop could reach at best. Knows one context only.

The limit of a cell is τ·t₁/(t_draft + t_verify): every second spent in a network, none around it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.reading import read_result
from specdiff_core.bench.sweep import describe_run, header
from specdiff_core.drafters.base import Context, Draft
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths.randomness import Streams
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from collections.abc import Generator

    from specdiff_core.engine import Engine

REPEATS = 40
WARM = 6
SAME = ("device", "dtype", "threads", "target", "weights", "versions")
"""What a sweep and the bare passes must share before one is held against the other."""


def timed_in_turn(works: dict[str, tuple[Callable[[], Any], Callable[[], Any]]]) -> dict[str, float]:
    """Median seconds of each piece of work. They take turns, so that drift of the machine falls on all alike.

    Args:
        works: name -> the work, and what undoes it, untimed.
    """
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(WARM + REPEATS):
        for name, (work, undo) in works.items():
            wait()
            began = time.perf_counter()
            work()
            wait()
            if repeat >= WARM:
                seconds[name].append(time.perf_counter() - began)
            undo()
    return {name: median(values) for name, values in seconds.items()}


def finish(drafting: Generator[Any, None, Draft]) -> Draft:
    """Run a draft to its end."""
    while True:
        try:
            next(drafting)
        except StopIteration as done:
            draft: Draft = done.value
            return draft


def typical_context(engine: Engine, prompt: str, base: DecodeConfig) -> list[int]:
    """A prompt and half of the text that vanilla decoding gives it: the middle of a run."""
    config = dataclasses.replace(base, drafter="none", max_new_tokens=max(1, base.max_new_tokens // 2), temperature=0.0)
    last = final(engine.decode(prompt, config, detail=False))
    return [*engine.encode(prompt), *(last.ids if last else ())]


def measure_cell(engine: Engine, ids: Sequence[int], cell: Cell, base: DecodeConfig) -> dict[str, Any]:
    """Seconds of t₁, t_verify and t_draft for one cell behind the context ``ids``.

    ``draft_network`` is what t_draft means in the limit: the drafter's draft, less the time that the same reveal takes
    when its network answers at once. What a drafter does once per committed token (``block`` projects its features) is
    left out, so the limit is rather too high than too low.
    """
    drafter = engine.drafter(cell.drafter)
    target = engine.target.start(drafter.layers)
    features = target.read(ids[:-1])

    def score(width: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        return lambda: target.score([ids[-1]] * width), lambda: target.rollback(width, ())

    session = drafter.start()
    session.observe(ids[:-1], features)

    def context() -> Context:
        return Context(
            ids=ids,
            gamma=cell.gamma,
            steps=cell.steps,
            order=base.order,
            sampling=base.draft_sampling,
            sampler=Streams(base.seed, shared=False).draft(0),
        )

    drafted = finish(session.draft(context()))
    size = drafted.ids.numel()
    device = engine.pair.placement.device
    logits = torch.zeros((size, engine.target.vocab_size), dtype=engine.pair.placement.dtype, device=device)
    logits[range(size), drafted.ids] = 20.0  # a confident answer, ready at once
    mask = next(iter(engine.target.suppress), 0)
    empty = torch.full((size,), mask, device=device)
    shorter = dataclasses.replace(context(), gamma=size, steps=min(cell.steps, size))

    def reveal() -> Draft:
        return finish(
            denoise(lambda window: logits, shorter, mask_id=mask, forbidden=engine.target.suppress, window=empty)
        )

    seconds = timed_in_turn(
        {
            "reveal": (reveal, lambda: None),
            "draft": (lambda: finish(session.draft(context())), lambda: None),
            "target_verify": score(size + 1),
            "target_one": score(1),
        }
    )
    return {
        **dataclasses.asdict(cell),
        "context": len(ids),
        "target_one": seconds["target_one"],
        "target_verify": seconds["target_verify"],
        "draft": seconds["draft"],
        "draft_network": max(0.0, seconds["draft"] - seconds["reveal"]),
    }


def efficiency(forwards: dict[str, Any], entry: dict[str, Any], baseline: dict[str, Any]) -> dict[str, Any]:
    """How much of its own limit a cell reached in a sweep.

    ``limit_speedup`` is τ·t₁/(t_draft + t_verify); ``of_tokens`` compares tokens per second of rounds (without the
    prefill) with τ/(t_draft + t_verify), the stricter of the two. τ is that of all rounds together, so the speed-up
    held against it is that of all tokens together too, not the mean over flavours, which is a little higher.

    Args:
        forwards: of :func:`measure_cell`.
        entry, baseline: of :func:`specdiff_core.bench.report.report`.
    """
    round_seconds = forwards["draft_network"] + forwards["target_verify"]
    limit_tokens = entry["tau"] / round_seconds
    limit_speedup = limit_tokens * forwards["target_one"]
    reached = entry["new_tokens"] / (entry["seconds"] - entry["seconds_by"]["prefill"])
    return {
        "limit_speedup": limit_speedup,
        "limit_tokens_per_second": limit_tokens,
        "tokens_per_second": reached,
        "of_speedup": entry["tokens_per_second"] / baseline["tokens_per_second"] / limit_speedup,
        "of_tokens": reached / limit_tokens,
    }


def measure_forwards(
    engine: Engine, prompts: Sequence[Prompt], cells: Sequence[Cell], base: DecodeConfig, sweep: Path | None
) -> dict[str, Any]:
    """Bare passes for every cell; with the stored ``sweep`` the share of the limit that the loop reached there.

    Raises:
        ConfigError: no cell can be timed so, or the sweep is none of this machine, these models and settings.
    """
    swept = {}
    if sweep is not None:
        stored = read_result(sweep)
        if stored["kind"] != "sweep":
            raise ConfigError(f"{sweep} is no sweep.", field="sweep", hint="Name a file of --measure sweep.")
        try:
            swept = {
                Cell(entry["drafter"], entry["gamma"], entry["steps"], entry.get("nodes", 0)): entry
                for entry in stored["cells"]
                if entry.get("drafts", 1) == 1 and not entry.get("auto")
            }
        except (LookupError, TypeError) as error:
            raise ConfigError(f"{sweep} is no whole sweep.", field="sweep", hint="Measure it again.") from error
    if not cells:
        raise ConfigError("--measure forwards needs a drafter.", field="drafters", hint="Name one besides none.")
    spec = find_pair(base.pair)
    drafters = [spec.drafter(cell.drafter) for cell in cells]
    others = [drafter for drafter in drafters if drafter.drafting != "denoise" or drafter.chained]
    if others or any(cell.nodes or cell.drafts > 1 or cell.auto for cell in cells):
        raise ConfigError(
            "--measure forwards times windows of a fixed size that a denoiser fills from its marginals: no trees, no K "
            "drafts, no auto, no Markov head, no other drafters.",
            field="drafters",
            hint="Leave them out.",
        )
    head = header("forwards", prompts, base, describe_run(engine, prompts[0].prompt, base), cells)
    if swept and (other := [name for name in SAME if stored.get(name) != head[name]]):
        raise ConfigError(
            f"{sweep} was measured with another {', '.join(other)}.",
            field="sweep",
            hint="Measure both on one machine, with the same models and settings.",
        )
    ids = typical_context(engine, prompts[0].prompt, base)
    entries = []
    for cell in cells:
        entry = measure_cell(engine, ids, cell, base)
        if found := swept.get(cell):
            entry["efficiency"] = efficiency(entry, found, swept[BASELINE])
        entries.append(entry)
    return {**head, "cells": entries}
