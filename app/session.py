"""One run: a worker thread decodes, a synchronous generator tells the page. Knows frames, not widgets or drawing.

The quoted clock must not be disturbed, so the page hears at most one frame per second while a lane is measured; the
whole trace follows in the last frame, and the browser replays it. A closed tab or Stop ends the decode at its next
step, because every path out of the generator sets the stop event.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.controls import check_prompt, check_settings, in_short
from app.engines import Factory
from app.errors import card, new_run_id
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import TraceError
from specdiff_core.schema.events import Committed, Event, Failed, Finished, PiecesSeen, RunStarted
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import dump_trace, event_to_dict, read_trace

BEAT = 0.75
"""Seconds between heartbeats: a generator that never yields never hears that its tab was closed. Each takes some
milliseconds of a core from the decode."""
LANES = ("vanilla", "drafted")
PACE = 1.0
"""Seconds between frames that carry something, while a clock is running."""
SETTLE = 0.4
"""Seconds of the first lane's warm-up, in which a page redraws itself for the race (measured: 0.15 s of a core). Each
lane has its own warm-up, so that neither pays for the other."""
BETWEEN = 0.5
"""Seconds of the next lane's warm-up, in which a page draws the text of the one that is done."""
PATIENCE = 1.5
"""Seconds that a stopped run gets for its last frame, before Gradio cancels the rest."""
TOLD_LIVE = (RunStarted, PiecesSeen, Committed, Finished, Failed)
"""What the page hears while a lane is measured; everything else waits for the whole trace."""


class Plan(NamedTuple):
    """What a race decodes. ``lanes``: name -> settings, in the order of measurement, the baseline first. ``apart``: a
    lane that fails ends alone, and each asks for its own drafter; otherwise the first failure ends the race."""

    lanes: Mapping[str, DecodeConfig]
    apart: bool = False


Planner = Callable[[Mapping[str, Any]], Plan]
"""Untrusted values to a plan; raises ConfigError."""


def lanes_of(config: DecodeConfig) -> dict[str, DecodeConfig]:
    """The lanes of a race of two: the baseline, then what the settings ask for."""
    vanilla = {"vanilla": dataclasses.replace(config, drafter="none")}
    return vanilla if config.drafter == "none" else {**vanilla, "drafted": config}


def two_lanes(values: Mapping[str, Any]) -> Plan:
    """The race of the Live tab and of ``/race``: a :data:`Planner`."""
    return Plan(lanes_of(check_settings(values)))


def warm_up_of(lane: str) -> float:
    """Seconds of a lane's warm-up while a page watches."""
    return SETTLE if lane == LANES[0] else BETWEEN


class Work:
    """A race in a thread of its own. Other threads may read ``lanes`` and ``news`` while it runs.

    Args:
        run: the name under which errors are logged.
        watched: whether a page draws what it is told: it gets the time of a longer warm-up before each clock starts.
    """

    def __init__(self, factory: Factory, prompt: str, plan: Plan, *, run: str = "", watched: bool = False) -> None:
        self.plan = plan
        self.lanes: dict[str, list[Event]] = {}
        self.news: deque[tuple[str, str | Event]] = deque()  # ("", progress message) or (lane, event)
        self.stop, self.done = threading.Event(), threading.Event()
        self.told = threading.Event()  # the last frame has left
        self.error: Exception | None = None
        self._fresh = threading.Event()  # another lane has begun, or the race is over
        self.phase, self.lane = "loading", ""  # then each lane: "warming", "measuring"
        self._factory, self._prompt, self._run_name = factory, prompt, run
        self._watched = watched

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        threading.Thread(target=self._run, name="decode", daemon=True).start()

    def _run(self) -> None:
        try:
            lanes = self.plan.lanes
            engine = None if self.plan.apart else self._engine(list(lanes.values())[-1])  # before the first clock
            for lane, settings in lanes.items():  # one after the other: two lanes at once would disturb each other
                try:
                    self._decode(lane, settings, engine)
                except Exception as error:
                    if not self.plan.apart or not any(self.lanes.values()):  # the pair or the prompt is to blame
                        raise
                    self._fail(lane, error)
                if self.stop.is_set():
                    break
        except Exception as error:  # every failure becomes a card (app/errors.py), in the thread that shows it
            self.error = error
        finally:
            self.done.set()
            self._fresh.set()

    def _engine(self, settings: DecodeConfig) -> Decoder:
        return self._factory(settings.pair, settings.drafter, lambda message: self.news.append(("", message)))

    def _decode(self, lane: str, settings: DecodeConfig, engine: Decoder | None) -> None:
        """Decode one lane, with its own warm-up off the clock. No clock runs while an engine is made ready."""
        if engine is None:
            self.phase, self.lane = "loading", lane
            engine = self._engine(settings)
        self.phase, self.lane = "warming", lane
        warm_up = warm_up_of(lane) if self._watched else 0.0
        events = engine.decode(self._prompt, settings, grain="step", stop=self.stop, warm_up=warm_up)
        self._measure(lane, events)

    def _fail(self, lane: str, error: Exception) -> None:
        """A lane ends with the reason, as its own last event; what it decoded until then stays."""
        told = card(error, self._run_name)
        failed = Failed(code=told["code"], message=told["message"], hint=told["hint"], run=told["run"])
        self.lanes.setdefault(lane, []).append(failed)
        self.news.append((lane, failed))

    def wait(self, seconds: float) -> bool:
        """Sleep until another lane begins, the race ends or the time is over; whether the race goes on."""
        self._fresh.wait(seconds)
        self._fresh.clear()
        return not self.done.is_set()

    def _measure(self, lane: str, events: Iterator[Event]) -> None:
        told = self.lanes.setdefault(lane, [])
        for event in events:
            if told and isinstance(told[-1], RunStarted):
                self.phase = "measuring"
            told.append(event)
            if isinstance(event, TOLD_LIVE):
                self.news.append((lane, event))
            if isinstance(event, RunStarted):  # its warm-up begins: the page hears now, and not while it is measured
                self._fresh.set()

    def drain(self) -> list[tuple[str, str | Event]]:
        """What happened since the last call."""
        return [self.news.popleft() for _ in range(len(self.news))]


class Stops:
    """The stop events of running races, by browser session: one visitor can never stop another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[str, Work] = {}

    def add(self, session: str, work: Work) -> None:
        """Remember the run of a session; an older one of the same session is stopped. Without a name there is none."""
        if not session:
            return
        with self._lock:
            older, self._works[session] = self._works.get(session), work
        if older is not None:
            older.stop.set()

    def remove(self, session: str, work: Work) -> None:
        """Forget a run that ended."""
        with self._lock:
            if self._works.get(session) is work:
                del self._works[session]

    def stop(self, session: str, patience: float = PATIENCE) -> None:
        """Ask the session's run to end, and wait for its last frame to leave."""
        with self._lock:
            work = self._works.get(session)
        if work is not None:
            work.stop.set()
            work.told.wait(patience)


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
    *,
    stops: Stops | None = None,
    session: str = "",
    clock: Callable[[], float] = time.monotonic,
    planner: Planner = two_lanes,
) -> Iterator[str]:
    """Run one race and yield the player's frames: waiting words, slim news, and at last the whole trace or a card."""
    run, seq, last = new_run_id(), 0, ""
    try:
        text, plan = check_prompt(prompt), planner(values)
    except Exception as error:  # shown as a card, logged by app/errors.py
        yield refusal(error, run)
        return
    work = Work(factory, text, plan, run=run, watched=True)
    stage = {"lanes": list(plan.lanes)} if plan.apart else {}  # who is to come
    if stops is not None:
        stops.add(session, work)
    last = frame(run, seq, phase="loading", message="Preparing the run", **stage)
    try:
        yield last
        work.start()
        told = float("-inf")
        while work.wait(BEAT):
            phase = work.phase
            if work.news and (phase != "measuring" or clock() - told >= PACE):
                seq, told = seq + 1, clock() if work.lanes else told
                last = frame(run, seq, **stage, **_news(phase, work.lane, work.drain()))
            yield last  # an equal frame is a heartbeat: the browser does nothing with it
        yield _last_frame(run, seq + 1, work)
    finally:
        work.stop.set()
        work.told.set()
        if stops is not None:
            stops.remove(session, work)


def _news(phase: str, lane: str, news: Sequence[tuple[str, str | Event]]) -> dict[str, Any]:
    events = [{**event_to_dict(what), "lane": lane} for lane, what in news if not isinstance(what, str)]
    words = [what for _, what in news if isinstance(what, str)]
    content: dict[str, Any] = {"phase": phase, "lane": lane, "events": events}
    if phase == "warming":
        content["settle"] = warm_up_of(lane)
    return content | ({"message": words[-1]} if words else {})


def _last_frame(run: str, seq: int, work: Work) -> str:
    content: dict[str, Any] = {"phase": "finished", "finished": True}
    if work.error is not None:
        told = card(work.error, run)
        content |= {"phase": "failed", "card": told}
        if any(isinstance(event, Committed) for lane in work.lanes.values() for event in lane):  # nothing is lost
            failed = Failed(code=told["code"], message=told["message"], hint=told["hint"], run=run)
            if work.phase == "measuring":
                work.lanes[work.lane].append(failed)
            else:
                work.lanes.pop(work.lane, None)  # it failed before it was measured
            content |= {"source": "failed", "trace": pack(work.lanes, "Failed run")}
    elif any(work.lanes.values()):
        stopped = work.stop.is_set()
        lanes = {lane: work.lanes.get(lane, []) for lane in work.plan.lanes} if work.plan.apart else work.lanes
        content |= {"source": "run", "trace": pack(lanes, "Stopped run" if stopped else "Live run")}
    else:
        content["phase"] = "stopped"
    return frame(run, seq, **content)


def results(
    factory: Factory, prompt: object, values: Mapping[str, Any], planner: Planner = two_lanes
) -> Iterator[dict[str, Any]]:
    """Run one race for a program: progress objects while it lasts, then the lanes under ``lanes``.

    Raises:
        Exception: whatever ended the run; the caller translates it.
    """
    work = Work(factory, check_prompt(prompt), planner(values), run=new_run_id())
    work.start()
    try:
        while not work.done.wait(BEAT):
            yield {"finished": False, "events_so_far": {lane: len(events) for lane, events in list(work.lanes.items())}}
    finally:
        work.stop.set()
    if work.error is not None:
        raise work.error
    yield {"finished": True, "lanes": dict(work.lanes)}


class Opened(NamedTuple):
    """A visitor's file as a frame, and the player that it is for: "live", "race", or "" for a card."""

    frame: str
    player: str


def open_trace(path: str | None) -> Opened:
    """A visitor's file: its trace, or a card that says why it is none. Lanes of other names than Live's are a race."""
    run = new_run_id()
    try:
        if path is None:
            raise TraceError("No file arrived.", hint="Choose a .jsonl or .jsonl.gz file.")
        trace = read_trace(path)
        named = {lane for lane, events in trace.lanes.items() if events}
        if not named:
            raise TraceError("This trace holds no events of a race.", hint="Choose one in which something was decoded.")
        told = frame(run, 1, phase="finished", finished=True, source="file", trace=pack(trace.lanes, trace.title))
        return Opened(told, "live" if named <= set(LANES) else "race")
    except Exception as error:  # shown as a card, logged by app/errors.py
        return Opened(refusal(error, run, source="file"), "")


def caption(path: Path) -> str:
    """A recording that ships with the page in a line: the settings of its drafted lane, and how its prompt begins."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        title = " ".join(str(json.loads(next(lines))["title"]).split())
        title = title if len(title) <= 40 else f"{title[:39]}…"
        events = (json.loads(line) for line in lines if '"RunStarted"' in line)
        drafted = next((event["config"] for event in events if event["config"]["drafter"] != "none"), None)
    if drafted is None:
        return f"vanilla: {title}"
    return f"{in_short(drafted)}: {title}"


def recording(path: str) -> str:
    """A recorded trace that ships with the page, as the player's first message."""
    trace = read_trace(path)
    return frame(
        "recording", 1, phase="finished", finished=True, source="recording", trace=pack(trace.lanes, trace.title)
    )
