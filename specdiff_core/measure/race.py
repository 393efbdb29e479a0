"""Lanes on one clock. Always the lane whose decode clock is furthest behind goes on, until its next
event, so at every moment all lanes have decoded up to the same time, give or take an event. Whatever
slows the machine down for a while slows all of them down alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import ConfigError, Stopped
from specdiff_core.schema.events import Event, event_time
from specdiff_core.schema.settings import DecodeConfig

Step = tuple[str, "Event | Exception"]
"""A lane, and its next event or the error that ended it."""


def interleave(lanes: Mapping[str, Iterator[Event]]) -> Iterator[Step]:
    """The events of all lanes in the order of their common clock. A lane that ends or fails leaves
    the others racing; lanes at the same time go on in their order."""
    clocks = dict.fromkeys(lanes, 0.0)  # seconds that each lane has decoded
    while clocks:
        lane = min(clocks, key=clocks.__getitem__)
        try:
            event = next(lanes[lane])
        except Exception as error:
            del clocks[lane]
            if not isinstance(error, StopIteration):
                yield lane, error
            continue
        clocks[lane] = max(clocks[lane], event_time(event))
        yield lane, event


def race(
    decoder: Decoder,
    prompt: str,
    lanes: Mapping[str, DecodeConfig],
    *,
    detail: bool = True,
    stop: Stop | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] = lambda message: None,
    others: Mapping[str, Decoder] | None = None,
    rendered: str = "",
) -> Iterator[Step]:
    """Decode a prompt in several lanes at once.

    Args:
        lanes: name -> settings.
        stop: when set, all lanes end before their next pass, at one moment of the clock.
        threads: CPU threads of all lanes, as of a decode.
        progress: gets messages while something warms up; ``Stopped`` from it ends the race.
        others: lanes of other decoders. An attached server decodes by its own clock, so each of
            these runs alone, after the rest.
        rendered: the prompt as the target reads it, for ``others``; by default ``prompt``.
    """
    others, ready = others or {}, []

    def warming(message: str) -> None:
        if stop and stop.is_set():
            raise Stopped
        progress(message)

    for lane, config in lanes.items():
        try:
            others.get(lane, decoder).warm_up(config, warming, threads or 0)
            ready.append(lane)
        except Stopped:
            if stop and stop.is_set():
                return
            raise
        except Exception as error:
            yield lane, error

    def decode(lane: str, by: Decoder) -> Iterator[Event]:
        text = (rendered or prompt) if lane in others else prompt
        return by.decode(text, lanes[lane], detail=detail, stop=stop, threads=threads)

    yield from interleave({lane: decode(lane, decoder) for lane in ready if lane not in others})
    for lane in ready:
        if lane in others and not (stop and stop.is_set()):
            yield from interleave({lane: decode(lane, others[lane])})


def check_repeats(repeats: int) -> None:
    """Raise ConfigError unless ``repeats`` is a number of at least 1."""
    if not isinstance(repeats, int) or repeats < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")


def race_repeatedly(
    decoder: Decoder,
    prompt: str,
    lanes: Mapping[str, DecodeConfig],
    *,
    repeats: int = 1,
    detail: bool = False,
    stop: Stop | None = None,
    progress: Callable[[str], None] = lambda message: None,
    others: Mapping[str, Decoder] | None = None,
    rendered: str = "",
) -> dict[str, list[list[Event]]]:
    """The runs of every lane, of ``repeats`` races with the same seed; arguments as of :func:`race`. If they are
    stopped, the complete races, or what the first one has of the lanes that began.

    Raises:
        ConfigError: ``repeats`` is not a positive number.
        SpecDiffError: a lane cannot run.
    """
    check_repeats(repeats)
    runs: dict[str, list[list[Event]]] = {lane: [] for lane in lanes}
    for repeat in range(repeats):
        progress(f"racing, {repeat + 1} of {repeats}")
        for events in runs.values():
            events.append([])
        options: dict[str, Any] = {"detail": detail, "stop": stop, "progress": progress, "others": others}
        options["rendered"] = rendered
        for lane, event in race(decoder, prompt, lanes, **options):
            if isinstance(event, Exception):
                raise event
            runs[lane][-1].append(event)
        if stop is not None and stop.is_set():
            return {lane: events[:repeat] or events for lane, events in runs.items() if events[0]}
    return runs
