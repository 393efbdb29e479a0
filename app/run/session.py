"""Streams a race to the page as frames, and keeps the stop event of every visitor.

The quoted clock must not be disturbed, so the page hears at most one frame per second while a lane is measured; the
whole trace follows in the last frame, and the browser replays it. A closed tab or Stop ends the decode at its next
step, because every path out of the generator sets the stop event.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.content.error_cards import card, new_run_id
from app.controls import check_prompt
from app.run.engines import Factory
from app.run.gpu import stop_event
from app.run.worker import Planner, RaceJob, warm_up_of
from specdiff_core.schema.errors import TraceError
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.trace import Trace, dump_trace, event_to_dict, read_trace

LOG = logging.getLogger("specdiff.runs")

BEAT = 0.75
"""Seconds between heartbeats: a generator that never yields never hears that its tab was closed. Each takes some
milliseconds of a core from the decode."""
PACE = 1.0
"""Seconds between frames that carry something, while a clock is running."""
PATIENCE = 6.0
"""Seconds that a stopped race gets for its last frame: its pass ends first, then its trace is packed."""


class Stops:
    """The races and comparisons under way, by visitor and tab: one visitor can never stop another, and one tab not the
    other's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, tuple[threading.Event, threading.Event]] = {}  # to stop it, and whether it is over

    @contextmanager
    def of(self, name: str) -> Iterator[threading.Event]:
        """The stop event of a run that is streamed meanwhile. An older run of the same name is stopped; one without a
        name is not remembered."""
        stop, over = run = stop_event(), threading.Event()
        if name:
            with self._lock:
                older, self._runs[name] = self._runs.get(name), run
            if older is not None:
                older[0].set()
        try:
            yield stop
        finally:
            stop.set()
            over.set()
            with self._lock:
                if self._runs.get(name) is run:
                    del self._runs[name]

    def stop(self, name: str, patience: float = PATIENCE) -> None:
        """Ask a run to end, and wait for its last frame to leave."""
        with self._lock:
            run = self._runs.get(name)
        if run is not None:
            stop, over = run
            stop.set()
            over.wait(patience)


def pack(lanes: Mapping[str, Sequence[Event]], title: str) -> str:
    """A trace file (.jsonl.gz) as base64, exactly the bytes a visitor may download."""
    return base64.b64encode(gzip.compress(dump_trace(dict(lanes), title=title), 6, mtime=0)).decode("ascii")


def frame(run: str, seq: int, **content: Any) -> str:
    """One message for the player. ``seq`` makes equal contents different: an equal value would fire nothing."""
    return json.dumps({"run": run, "seq": seq, **content}, ensure_ascii=False, separators=(",", ":"))


def refusal(error: BaseException, run: str = "", **more: str) -> str:
    """A single frame with a card; what the player shows otherwise stays."""
    run = run or new_run_id()
    return frame(run, 0, phase="failed", card=card(error, run), **more)


def stream(
    factory: Factory,
    prompt: object,
    values: Mapping[str, Any],
    planner: Planner,
    *,
    stop: threading.Event | None = None,
    visitor: str = "",
    threads: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Run one race and yield the player's frames: waiting words, slim news, and at last the whole trace or a card.

    Args:
        planner: from untrusted ``values`` to the lanes of the race.
        stop: ends it; see :meth:`Stops.of`.
        visitor: whose share of the server it takes.
    """
    run, seq = new_run_id(), 0
    try:
        text, plan = check_prompt(prompt), planner(values)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    job = RaceJob(factory, text, plan, run=run, watched=True, threads=threads, visitor=visitor, stop=stop)
    coming = list(plan)
    last = frame(run, seq, phase="loading", message="Preparing the run", lanes=coming)
    begun = clock()
    LOG.info("run %s: %s", run, ", ".join(coming), extra={"run": run})
    try:
        yield last
        job.start()
        reported_at = float("-inf")
        while job.wait(BEAT):
            phase = job.phase
            if job.news and (phase != "measuring" or clock() - reported_at >= PACE):
                seq, reported_at = seq + 1, clock() if job.lanes else reported_at
                last = frame(run, seq, lanes=coming, **_news(phase, job.lane, job.drain()))
            yield last  # an equal frame is a heartbeat: the browser does nothing with it
        yield _last_frame(run, seq + 1, job)
    finally:
        how = "was stopped" if job.stop.is_set() else "ended" if job.done.is_set() else "was left"
        LOG.info("run %s %s after %.1f s", run, "failed" if job.error else how, clock() - begun, extra={"run": run})
        job.stop.set()


def _news(phase: str, lane: str, news: Sequence[tuple[str, str | Event]]) -> dict[str, Any]:
    events = [{**event_to_dict(what), "lane": lane} for lane, what in news if not isinstance(what, str)]
    words = [what for _, what in news if isinstance(what, str)]
    content: dict[str, Any] = {"phase": phase, "lane": lane, "events": events}
    if phase == "warming":
        content["settle"] = warm_up_of(lane)
    return content | ({"message": words[-1]} if words else {})


def _last_frame(run: str, seq: int, job: RaceJob) -> str:
    """The whole trace; nothing that was measured is lost, whatever ended the race."""
    content: dict[str, Any] = {"phase": "finished", "finished": True}
    lanes = {lane: job.lanes.get(lane, []) for lane in job.plan}
    if job.error is not None:
        content |= {"phase": "failed", "card": card(job.error, run)}
    elif any(lanes.values()):
        title = "Stopped run" if job.stop.is_set() else "Live run"
        content |= {"source": "run", "trace": pack(lanes, title)}
        if job.failures and all(lane in job.failures for lane in lanes if lane != BASELINE):
            content |= {"phase": "failed", "source": "failed", "card": next(iter(job.failures.values()))}
    else:
        content["phase"] = "stopped"
    return frame(run, seq, **content)


def results(
    factory: Factory, prompt: object, values: Mapping[str, Any], planner: Planner, *, visitor: str = ""
) -> Iterator[dict[str, Any]]:
    """Run one race for a program: progress objects while it lasts, then the lanes under ``lanes``.

    Raises:
        Exception: whatever ended the run; the caller translates it.
    """
    job = RaceJob(factory, check_prompt(prompt), planner(values), run=new_run_id(), visitor=visitor)
    job.start()
    try:
        while not job.done.wait(BEAT):
            yield {"finished": False, "events_so_far": {lane: len(events) for lane, events in list(job.lanes.items())}}
    finally:
        job.stop.set()
    if job.error is not None:
        raise job.error
    yield {"finished": True, "lanes": dict(job.lanes)}


def read_race(path: Path | str) -> tuple[Trace, str]:
    """A trace file with something to play, and the tab that plays it: vanilla and one more lane are Live's.

    Raises:
        TraceError: it is none, or holds no events.
    """
    trace = read_trace(path)
    named = {lane for lane, events in trace.lanes.items() if events}
    if not named:
        raise TraceError("This trace holds no events of a race.", hint="Choose one in which something was decoded.")
    return trace, "live" if named <= {BASELINE, DRAFTED} else "race"


class Opened(NamedTuple):
    """A visitor's file as a frame, and the tab that it is for: "live", "race", or "" for a card."""

    frame: str
    tab: str


def open_trace(path: str | None) -> Opened:
    """A visitor's file: its trace, or a card that says why it is none."""
    run = new_run_id()
    try:
        if path is None:
            raise TraceError("No file arrived.", hint="Choose a .jsonl or .jsonl.gz file.")
        trace, tab = read_race(path)
        told = frame(run, 1, phase="finished", finished=True, source="file", trace=pack(trace.lanes, trace.title))
        return Opened(told, tab)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        return Opened(refusal(error, run, source="file"), "")
