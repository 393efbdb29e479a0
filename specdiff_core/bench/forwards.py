"""Times bare forward passes, and from them the speed that a drafted loop could reach at best. Knows one context only.

The limit of a cell is τ·t₁/(t_draft + t_verify): every second spent in a network, none around it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.bench.sweep import Cell
from specdiff_core.config import DecodeConfig
from specdiff_core.denoise import denoise
from specdiff_core.drafters.base import Context, Draft
from specdiff_core.rng import Streams
from specdiff_core.summary import final

if TYPE_CHECKING:
    from collections.abc import Generator

    from specdiff_core.engine import Engine

REPEATS = 40
WARM = 6


def timed(work: Callable[[], Any], undo: Callable[[], Any] = lambda: None) -> float:
    """Median seconds of ``work``; ``undo`` runs after each, untimed."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    seconds = []
    for repeat in range(WARM + REPEATS):
        wait()
        began = time.perf_counter()
        work()
        wait()
        if repeat >= WARM:
            seconds.append(time.perf_counter() - began)
        undo()
    return median(seconds)


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
    last = final(engine.decode(prompt, config, narrate=False))
    return [*engine.encode(prompt), *(last.ids if last else ())]


def measure_cell(engine: Engine, ids: Sequence[int], cell: Cell, base: DecodeConfig) -> dict[str, Any]:
    """Seconds of t₁, t_verify and t_draft for one cell behind the context ``ids``.

    ``draft_network`` is what t_draft means in the limit: the drafter's whole draft, less the time that the same
    reveal takes when its network answers at once.
    """
    drafter = engine.drafter(cell.drafter)
    target = engine.target.start(drafter.layers)
    features = target.read(ids[:-1])

    def score(width: int) -> float:
        window = [ids[-1], *([ids[-1]] * (width - 1))]
        return timed(lambda: target.score(window), lambda: target.keep(width, 0))

    session = drafter.start()
    session.observe(ids[:-1], features)

    def context() -> Context:
        return Context(
            ids=ids,
            gamma=cell.gamma,
            steps=cell.steps,
            order=base.order,
            sampling=base.draft_sampling,
            chance=Streams(base.seed, shared=False).draft(0),
        )

    drafted = finish(session.draft(context()))
    size = drafted.ids.numel()
    device = engine.pair.placement.device
    logits = torch.zeros((size, engine.target.vocab_size), dtype=engine.pair.placement.dtype, device=device)
    logits[range(size), drafted.ids] = 20.0  # a confident answer, ready at once
    mask = next(iter(engine.target.suppress), 0)
    empty = torch.full((size,), mask, device=device)
    shorter = dataclasses.replace(context(), gamma=size, steps=min(cell.steps, size))
    reveal = timed(
        lambda: finish(
            denoise(lambda window: logits, shorter, mask_id=mask, forbidden=engine.target.suppress, window=empty)
        )
    )
    draft = timed(lambda: finish(session.draft(context())))
    return {
        **dataclasses.asdict(cell),
        "context": len(ids),
        "target_one": score(1),
        "target_verify": score(size + 1),
        "draft": draft,
        "draft_network": max(0.0, draft - reveal),
    }


def efficiency(forwards: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """How much of its own limit a cell reached in a sweep (``entry`` of :func:`specdiff_core.bench.report.report`).

    ``limit_speedup`` is τ·t₁/(t_draft + t_verify); ``of_tokens`` compares tokens per second of rounds (without the
    prefill) with τ/(t_draft + t_verify), the stricter of the two.
    """
    round_seconds = forwards["draft_network"] + forwards["target_verify"]
    limit_tokens = entry["tau"] / round_seconds
    limit_speedup = limit_tokens * forwards["target_one"]
    reached = entry["new_tokens"] / (entry["seconds"] - entry["seconds_by"]["prefill"])
    return {
        "limit_speedup": limit_speedup,
        "limit_tokens_per_second": limit_tokens,
        "tokens_per_second": reached,
        "of_speedup": entry["speedup"]["mean"] / limit_speedup,
        "of_tokens": reached / limit_tokens,
    }
