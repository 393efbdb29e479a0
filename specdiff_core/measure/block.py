"""One block, drafted with every window and number of denoising steps: what γ and T change."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from specdiff_core.engine import Engine
from specdiff_core.schema.events import Committed, Event
from specdiff_core.schema.settings import DecodeConfig

STEPS = (1, 2, 4, 8)


def redraft(engine: Engine, prompt: str, config: DecodeConfig, after: Sequence[int]) -> dict[str, list[Event]]:
    """The round behind ``prompt`` and the ids ``after`` it, once for each window γ up to the drafter's
    longest and each T of :data:`STEPS` up to γ: ``γ/T`` -> its events, from the run's header to the commit.

    Raises:
        SpecDiffError: as :meth:`~specdiff_core.engine.Engine.decode`.
    """
    longest = engine.pair.spec.drafter(config.drafter).clamp_gamma(config.max_new_tokens)
    rounds: dict[str, list[Event]] = {}
    for gamma, steps in itertools.product(range(1, longest + 1), STEPS):
        if steps <= gamma:
            one = dataclasses.replace(config, gamma=gamma, steps=steps)
            events = rounds[f"{gamma}/{steps}"] = []
            for event in engine.decode(prompt, one, after=after):
                events.append(event)
                if isinstance(event, Committed):
                    break
    return rounds
