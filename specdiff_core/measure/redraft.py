"""The round that pages show large, drafted again with every window and number of steps: what γ and T change."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Committed, Event, RunStarted
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig, cut_steps
from specdiff_core.schema.summary import header_of, staged

LARGEST_GAMMA, STEPS = 16, (1, 2, 4, 8)


def window_settings(config: DecodeConfig) -> dict[str, DecodeConfig]:
    """``γ/T`` -> ``config`` with each window γ that fits and each T of :data:`STEPS` up to γ. γ is at most
    :data:`LARGEST_GAMMA`, the drafter's longest window, and all new tokens but the target's own."""
    limit = min(LARGEST_GAMMA, config.max_new_tokens - 1)
    longest = find_pair(config.pair).drafter(config.drafter).clamp_gamma(limit)
    return {
        f"{gamma}/{steps}": dataclasses.replace(config, gamma=gamma, steps=steps)
        for gamma, steps in itertools.product(range(1, longest + 1), STEPS)
        if cut_steps(steps, gamma) == steps
    }


def staged_round(run: Sequence[Event]) -> tuple[RunStarted, int]:
    """The header of a run and the number of the round to draft again, which
    :func:`~specdiff_core.schema.summary.staged` finds. Raises SpecDiffError if the run drafted no window."""
    header, shown = header_of(run), staged(run)
    if header is None or shown is None:
        raise SpecDiffError("This run drafted no window.", hint="Run it with a drafter that fills blanks.")
    return header, shown[0].round


def redraft(decoder: Decoder, run: Sequence[Event], **options: Any) -> Iterator[tuple[str, Event]]:
    """The :func:`staged_round` of a run, drafted and checked again with all :func:`window_settings`.

    Args:
        options: of each decode.

    Yields:
        ``γ/T`` and an event, from the header to the commit.

    Raises:
        SpecDiffError: as :meth:`~specdiff_core.schema.decoder.Decoder.decode`; or the run drafted no window.
    """
    header, number = staged_round(run)
    before = [token for event in run if isinstance(event, Committed) and event.round < number for token in event.ids]
    for size, config in window_settings(DecodeConfig.parse(header.config)).items():
        for event in decoder.decode(header.prompt, config, after=before, **options):
            yield size, event
            if isinstance(event, Committed):
                break
