"""What first passes cost, paid before a pair's first timed run: kernels for each width, buffers, and the
choice of the number of CPU threads. A run that follows is as fast as the tenth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.base import Context, Drafter, run_to_end
from specdiff_core.maths.randomness import Streams
from specdiff_core.models.device import cpu_threads
from specdiff_core.models.target import Target
from specdiff_core.schema.pairs import DrafterSpec
from specdiff_core.schema.settings import DecodeConfig

MOST_ROWS = 33
"""Rows of the widest pass: the longest window, and its anchor."""
LONGEST = 6.0
"""Seconds after which no further width is tried: of a large model, first passes differ little from others."""
PROBES = 4  # how often each number of threads is tried
PROBE_SECONDS = 0.1
"""No further try begins after so many seconds, so large models are tried less often."""


def warm_target(target: Target, threads: int) -> Iterator[None]:
    """Passes of all widths, and the test of exactness, with so many CPU threads; yields before each."""
    run, began = target.start(), time.monotonic()
    for rows in range(1, min(MOST_ROWS, run.room) + 1):
        if time.monotonic() - began > LONGEST:
            break
        yield
        with cpu_threads(threads):
            run.score([0] * rows)
            run.rollback(rows, ())
    yield
    with cpu_threads(threads):
        target.exactness()


def warm_drafter(target: Target, drafter: Drafter, spec: DrafterSpec, ids: Sequence[int]) -> Iterator[None]:
    """Drafts of all sizes that differ in their passes' width, after ``ids``; yields before each."""
    sizes = {"denoise": spec.clamp_gamma(MOST_ROWS - 1), "sequential": 1}
    if spec.drafting not in sizes:
        return
    features = target.start(drafter.layers).read(ids[:-1])
    for gamma in range(1, sizes[spec.drafting] + 1):
        session, config = drafter.start(), DecodeConfig()
        session.observe(ids[:-1], features)
        if gamma > session.room:
            return
        yield
        sampler = Streams(0, shared=False).draft(0)
        fields: dict[str, Any] = {"order": config.order, "sampling": config.draft_sampling, "sampler": sampler}
        run_to_end(session.draft(Context.within(session.room, ids=ids, gamma=gamma, **fields)))


def quickest_threads(target: Target, device: torch.device, choices: Sequence[int]) -> int:
    """The number of CPU threads, of these ``choices``, that is fastest now, over a few passes of one
    row and of nine. A pass waits for its slowest thread, so fewer threads can be much faster while
    another program runs. The results don't depend on it."""
    run, clock = target.start(), DeviceClock(device)
    seconds, most_rows = dict.fromkeys(choices, 0.0), min(9, run.room)
    for turn in range(PROBES + 1):
        if sum(seconds.values()) > PROBE_SECONDS:
            break
        for count in seconds:
            with cpu_threads(count):
                clock.start()
                for rows in (most_rows, 1) if turn else (most_rows,):  # the first turn warms up
                    run.score([0] * rows)
                    run.rollback(rows, ())
                seconds[count] += clock.finish() if turn else 0.0
    return min(seconds, key=seconds.__getitem__)
