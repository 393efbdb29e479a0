"""Explorations on the page: a thread follows one part by part, a generator tells the page, a reload finds it again.

An exploration belongs to the browser that began it, by a token that only this browser knows. When its page goes away
it goes on for a moment, so that the page may come back. Races and comparisons of others go first, between two parts.
On a lent GPU only its parts are measured there: the thread that follows them stays in the server.
"""

from __future__ import annotations

import base64
import contextvars
import io
import json
import math
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import gradio as gr
import msgspec

from app import own_pairs
from app.content.error_cards import card, new_run_id
from app.run.engines import Factory, Progress
from app.run.gpu import LONGEST, is_lent, on_gpu, stop_event
from app.run.session import BEAT, PACE, frame, refusal
from app.run.turns import EXPLORING, TURNS, LimitReached, Turns, duration, limit
from specdiff_core.explorations import EXPLORATIONS, find_exploration
from specdiff_core.explorations.base import Exploration, Exploring, Told, parse
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import ConfigError, SpecDiffError, Stopped
from specdiff_core.schema.pairs import NONE

GRACE = 20.0
"""Seconds that an exploration without its page goes on: a reload takes some."""
KEPT = 4
"""Explorations whose files can still be fetched: the last ones that made any."""


def forms() -> dict[str, dict[str, Any]]:
    """What the page needs to ask: name -> title, question, and the fields that people fill in."""
    return {
        name: {
            "title": kind.title,
            "question": kind.question,
            "fields": [field for field in kind.form() if not field["hidden"]],
        }
        for name, kind in EXPLORATIONS.items()
    }


class ExploreJob:
    """One exploration in a thread of its own. Other threads may read its attributes."""

    def __init__(self, factory: Factory, what: Exploration, *, run: str = "", turns: Turns = TURNS) -> None:
        self.what, self.run = what, run
        self.stop, self.done, self.reported = stop_event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.message, self.phase = "Preparing the exploration", "loading"  # then waiting, exploring
        self.told: Told | None = None
        self.began = 0.0  # of the second step, for the time that is left
        self.left_at: float | None = None  # when the last page went away
        self._factory, self._turns = factory, turns
        self._until, self._cut = math.inf, False  # when it has held its place for too long, and whether that ended it

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        whose = contextvars.copy_context()  # a lent GPU counts on the quota of the visitor who asks
        threading.Thread(target=whose.run, args=(self._run,), name="explore", daemon=True).start()

    def _run(self) -> None:
        try:
            engine, most = _engine(self._factory, self.what, self._hear), limit(EXPLORING)
            self._until = time.monotonic() + most
            self._rest()
            if not self.stop.is_set():
                self._explore(engine)
            if self._cut:
                found = "What was measured until then is shown." if self.told else "Races of others took all of it."
                raise LimitReached(
                    f"This server gives an exploration {duration(most)}. {found}",
                    hint="Ask for less, or run the lab yourself, where nothing ends it.",
                )
        except Stopped:
            pass
        except Exception as error:  # every failure becomes a card (content/error_cards.py), in the thread that shows it
            self.error = error
        finally:
            self.done.set()

    def _explore(self, engine: Decoder) -> None:
        self.phase, self.message = "exploring", "Measuring the first step"
        for told in _parts(engine, self.what, self.stop):
            self.began = self.began or time.monotonic()
            self.told = told
            self._rest()

    def _hear(self, message: str) -> None:
        if self.stop.is_set():
            raise Stopped
        self.message = message

    def _rest(self) -> None:
        """Let races and comparisons go first, and end where nobody listens any more."""
        phase = self.phase
        while True:
            if self.left_at is not None and time.monotonic() - self.left_at > GRACE:
                self.stop.set()
            if time.monotonic() > self._until and not self.stop.is_set():
                self._cut = True
                self.stop.set()
            if self.stop.is_set() or self._turns.wait(0 if self.phase == "waiting" else BEAT):
                break
            self.phase = "waiting"
            self.stop.wait(BEAT)
        self.phase = phase

    @property
    def left(self) -> float | None:
        """Seconds that are left, an estimate."""
        told = self.told
        if told is None or not self.began or told.done < 2:
            return None
        return (time.monotonic() - self.began) / (told.done - 1) * (told.total - told.done)


def _engine(factory: Factory, what: Exploration, hear: Progress) -> Decoder:
    """What an exploration decodes with; whoever waits hears of each drafter that it brings."""
    first, *others = what.drafters or (NONE.name,)
    engine = factory(what.pair, first, hear)
    for drafter in others:
        engine = factory(what.pair, drafter, hear)
    return engine


def _parts(engine: Decoder, what: Exploration, stop: Stop) -> Iterator[Told]:
    """An exploration part by part, in the other process where there is one."""
    if (elsewhere := getattr(engine, "explore", None)) is not None:
        yield from elsewhere(what, stop)
        return
    exploring, over = Exploring(what, cast(Any, engine), stop.is_set), False
    while not over:
        try:
            told = exploring.advance(PACE)
        except Exception:
            if (told := exploring.told()).done:
                yield told
            raise
        over = told.over
        yield told


class Lent:
    """Explores on a lent GPU: an engine in its worker, which loads nothing here.

    Args:
        explore: its parts, measured there.
        hear: is told that a GPU is waited for.
    """

    def __init__(self, explore: Callable[[Exploration, Stop], Iterator[Told]], hear: Progress) -> None:
        self._explore, self._hear = explore, hear

    def explore(self, what: Exploration, stop: Stop) -> Iterator[Told]:
        """See :meth:`app.run.process.RemoteDecoder.explore`.

        Raises:
            SpecDiffError: there is no GPU to be had, or the loan is over.
        """
        self._hear("Waiting for a GPU: this host lends them run by run")
        try:
            yield from self._explore(what, stop)
        except gr.Error as error:  # the host's own words
            hint = f"A GPU is lent for at most {LONGEST} seconds; ask for less, or run the lab yourself."
            raise SpecDiffError(f"{error.message}.".replace("..", "."), hint=hint) from None


def where_lent(factory: Factory) -> Factory:
    """``factory``; where the GPU is lent, its engines borrow it for the parts of an exploration."""

    @on_gpu(lambda *_: LONGEST)
    def explore(what: Exploration, stop: Stop) -> Iterator[Told]:
        def hear(message: str) -> None:
            if stop.is_set():
                raise Stopped

        yield from _parts(_engine(factory, what, hear), what, stop)

    return (lambda pair, drafter, progress: cast(Decoder, Lent(explore, progress))) if is_lent() else factory


class Jobs:
    """The explorations under way, by the token of the browser that began each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, ExploreJob] = {}
        self._made: dict[str, dict[str, bytes]] = {}

    def keep(self, token: str, made: dict[str, bytes]) -> None:
        """Hold the files of an exploration for its browser to fetch, in place of those of the oldest."""
        with self._lock:
            self._made.pop(token, None)
            self._made[token] = made
            while len(self._made) > KEPT:
                del self._made[next(iter(self._made))]

    def archive(self, token: str) -> bytes | None:
        """The files of an exploration as a ZIP archive, or None where none are held."""
        with self._lock:
            made = self._made.get(token)
        if made is None:
            return None
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:  # weights do not get smaller
            for name, content in made.items():
                archive.writestr(name, content)
        return packed.getvalue()

    def find(self, token: str) -> ExploreJob | None:
        """The one of a token, if it is still there; its page is back then."""
        with self._lock:
            job = self._jobs.get(token)
        if job is not None:
            job.left_at = None
        return job

    def add(self, token: str, job: ExploreJob) -> None:
        """Remember one; an earlier one of the same token is stopped, and so are those that nobody follows."""
        with self._lock:
            for held, other in list(self._jobs.items()):
                if held == token or other.left_at is not None:
                    other.stop.set()
                    if other.done.is_set():
                        del self._jobs[held]
            self._jobs[token] = job

    def leave(self, token: str, job: ExploreJob) -> None:
        """Its page went away, or heard its end."""
        with self._lock:
            if job.done.is_set() and self._jobs.get(token) is job:
                del self._jobs[token]
        job.left_at = time.monotonic()

    def stop(self, asked: object, patience: float) -> None:
        """Ask the one that the browser names to end, and wait for its last frame to leave."""
        if (job := self.find(_token(asked))) is not None:
            job.stop.set()
            job.reported.wait(patience)


JOBS = Jobs()
"""Those of this server."""


def _token(asked: object) -> str:
    """The token of what the browser sent, or nothing."""
    try:
        return str(json.loads(str(asked))["token"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def asked_for(asked: object) -> tuple[str, Exploration | None]:
    """The token and the exploration (None: the one under way) of what the browser sent.

    Raises:
        ConfigError: it is no such thing, a value is out of range, or the pair may not be brought here.
    """
    try:
        values: Mapping[str, Any] = json.loads(str(asked))
        token, name, choice = str(values["token"]), values.get("explore"), values.get("choice", {})
        if not 8 <= len(token) <= 64 or not isinstance(choice, dict):
            raise ValueError("no token")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConfigError("The page asked in a way this server does not know.", hint="Reload the page.") from error
    if name is None:
        return token, None
    what = parse(find_exploration(str(name)), choice)
    own_pairs.check(what.pair)
    return token, what


def stream(
    factory: Factory, asked: object, *, jobs: Jobs, turns: Turns = TURNS, clock: Callable[[], float] = time.monotonic
) -> Iterator[str]:
    """Explore, or follow what is under way, and yield frames: progress with the answer so far, at last all of it with
    its races, or a card. An equal frame is a heartbeat."""
    run, seq = new_run_id(), 0
    try:
        token, what = asked_for(asked)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    if what is None:
        job = jobs.find(token)
        if job is None:
            yield frame(run, 0, phase="gone", finished=True)
            return
    else:
        job = ExploreJob(factory, what, run=run, turns=turns)
        jobs.add(token, job)
        job.start()
    run, last, reported_at = job.run, "", float("-inf")
    try:
        while not job.done.wait(BEAT if last else 0):
            if clock() - reported_at >= PACE:
                seq, reported_at = seq + 1, clock()
                last = frame(run, seq, **_news(job))
            yield last
        ended: dict[str, Any] = {"phase": "stopped" if job.stop.is_set() else "finished"}
        if job.error is not None:
            ended = {"phase": "failed", "card": card(job.error, run)}
        races = job.told.races if job.told else {}
        packed = {name: base64.b64encode(trace).decode("ascii") for name, trace in races.items()}
        if made := job.told.made if job.told else {}:
            jobs.keep(token, made)
        yield frame(run, seq + 1, finished=True, **{**_news(job), **ended}, races=packed, made=bool(made))
    finally:
        job.reported.set()
        jobs.leave(token, job)


def _news(job: ExploreJob) -> dict[str, Any]:
    told = job.told
    news: dict[str, Any] = {"explore": job.what.name, "phase": job.phase, "message": job.message, "left": job.left}
    if told is not None:
        result = None if told.explored is None else msgspec.to_builtins(told.explored)
        news |= {"done": told.done, "total": told.total, "doing": told.doing, "result": result}
    return news
