"""The queues, what a visitor of a public host may use, when one can go on, and what an exploration may take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import pytest
from app_fakes import FakeDecoder, frames, raced, trace_of

from app import host
from app.run import job, turns
from app.run import race as running
from app.run.record import Ask, decoding
from app.run.turns import EXPLORING, SECONDS, TOKENS, WINDOW, LimitReached, QueueFull, Shares, limit
from app.tabs import live
from specdiff_core.schema.errors import ConfigError, Stopped
from specdiff_core.schema.settings import DecodeConfig


class Clock:
    """A clock that advances only when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A public host with these limits; the others are off."""

    def serve(**limits: float) -> None:
        monkeypatch.setattr(host, "_served", {"public": True})
        for name in (TOKENS, SECONDS, EXPLORING):
            monkeypatch.setenv(name, str(limits.get(name, 0)))

    return serve


def use(shares: Shares, clock: Clock, visitor: str, *, tokens: int = 0, seconds: float = 0.0) -> None:
    with shares.of(visitor, lambda: tokens):
        clock.now += seconds


def until(holds: Callable[[], bool]) -> None:
    """Wait for another thread, at most ten seconds."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_limits_hold_on_public_hosts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, usual in turns.PUBLIC.items():
        monkeypatch.delenv(name, raising=False)
        for public, most in ((False, float("inf")), (True, usual)):
            monkeypatch.setattr(host, "_served", {"public": public})
            assert limit(name) == most
            monkeypatch.setenv(name, "7.5")
            assert limit(name) == 7.5
            monkeypatch.setenv(name, "0")
            assert limit(name) == float("inf")
            monkeypatch.setenv(name, "")
            assert limit(name) == most, "an empty variable is none"
        for wrong in ("-1", "nan", "many"):
            monkeypatch.setenv(name, wrong)
            with pytest.raises(ConfigError, match=name):
                limit(name)


def test_a_share_is_used_up_and_comes_back(clock: Clock, public: Callable[..., None]) -> None:
    """By session: others go on. It comes back run by run, as runs leave the window."""
    public(**{TOKENS: 100})
    shares = Shares(clock)
    use(shares, clock, "one", tokens=60, seconds=30)
    use(shares, clock, "one", tokens=60, seconds=30)
    use(shares, clock, "another", tokens=10)
    clock.now += 60
    with pytest.raises(LimitReached, match="100 new tokens per 10 minutes") as refused:
        use(shares, clock, "one")
    assert "in about 9 minutes" in refused.value.hint  # the first run ended 90 seconds ago
    use(shares, clock, "another")
    use(shares, clock, "", tokens=10_000)
    clock.now += 509
    with pytest.raises(LimitReached) as refused:
        use(shares, clock, "one")
    assert "in about 1 second." in refused.value.hint
    clock.now += 2
    use(shares, clock, "one", tokens=1)
    clock.now += WINDOW
    use(shares, clock, "another")
    assert set(shares._used) == {"another"}, "who has nothing in the window is forgotten"


def test_seconds_count_as_tokens_do(clock: Clock, public: Callable[..., None]) -> None:
    public(**{SECONDS: 50})
    shares = Shares(clock)
    use(shares, clock, "one", seconds=50)
    with pytest.raises(LimitReached, match="50 seconds per 10 minutes"):
        use(shares, clock, "one")


def test_jobs_have_their_turns_in_the_order_of_their_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once, three who wait, of whom the second leaves, and nobody else finds room."""
    monkeypatch.setattr(turns, "GLANCE", 0.01)
    monkeypatch.setattr(turns, "MOST_WAITING", 3)
    queue, positions, began = turns.Queue(2), dict[str, turns.QueuePosition](), list[str]()
    ends = {name: Event() for name in "abcde"}
    leaves = Event()

    def come(name: str) -> Thread:
        def wait(position: turns.QueuePosition) -> None:
            positions[name] = position
            if name == "d" and leaves.is_set():
                raise Stopped

        def job() -> None:
            with suppress(Stopped), queue.turn(wait):
                began.append(name)
                ends[name].wait(10)

        thread = Thread(target=job)
        thread.start()
        until(lambda: name in began or name in positions)
        return thread

    threads = [come(name) for name in ends]
    until(lambda: positions == {name: (i + 1, 3, None) for i, name in enumerate("cde")})
    assert began == ["a", "b"]
    with pytest.raises(QueueFull), queue.turn():
        pass
    leaves.set()
    until(lambda: positions["e"] == (2, 2, None))
    assert not queue.wait_gap(0, 0)
    ends["b"].set()
    until(lambda: began == ["a", "b", "c"] and positions["e"][:2] == (1, 1))
    until(lambda: positions["e"].left is not None)
    for end in ends.values():
        end.set()
    for thread in threads:
        thread.join(10)
    assert began == ["a", "b", "c", "e"] and queue.wait_gap(9, 0)


def test_the_time_until_a_waiting_job_is_done_is_estimated_from_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(turns.time, "monotonic", clock)
    queue, lefts = turns.Queue(1), list[float | None]()
    for seconds in (20, 40):
        with queue.turn():
            clock.now += seconds

    def leave(position: turns.QueuePosition) -> None:
        lefts.append(position.left)
        raise Stopped

    with queue.turn():
        for waited in (0, 10, 50):
            clock.now += waited
            with pytest.raises(Stopped), queue.turn(leave):
                pass
    assert lefts == [60, 50, 30], "what is left of this one, and its own"
    with pytest.raises(Stopped), queue.turn():
        raise Stopped
    with queue.turn(), pytest.raises(Stopped), queue.turn(leave):
        pass
    assert lefts[-1] == 80, "of 20, 40 and 60 seconds; the one that was stopped takes no part"


def test_of_two_at_once_the_estimate_follows_whichever_ends_first(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(turns.time, "monotonic", clock)
    queue = turns.Queue(2)
    with queue.turn():
        clock.now += 100
    lefts = dict[int, float | None]()

    def leave(position: turns.QueuePosition) -> None:
        lefts[position.number] = position.left
        if position.number == 1:
            with suppress(Stopped), queue.turn(leave):
                pass
        raise Stopped

    with queue.turn():
        clock.now += 95
        with queue.turn(), suppress(Stopped), queue.turn(leave):
            pass
    assert lefts == {1: 105, 2: 200}


def test_nothing_begins_that_was_stopped_or_after_the_server_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.Job, "turns", turns.Turns())
    monkeypatch.setattr(turns, "GLANCE", 10)
    decoder, plan = FakeDecoder(), live.plan(DecodeConfig(max_new_tokens=8).to_dict())
    jobs = [running.Race(decoding(lambda *_: decoder), Ask(prompt="Once", plan=plan)) for _ in "ab"]
    with job.Job.turns.races.turn():
        for waiting in jobs:
            waiting.start()
            until(lambda waiting=waiting: waiting.position is not None)
        jobs[0].stop.set()
        job.Job.turns.close()
    assert all(waiting.done.wait(5) and waiting.error is None for waiting in jobs) and not decoder.calls


def test_a_waiting_job_reports_its_queue_position_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.Job, "turns", turns.Turns())
    monkeypatch.setattr(turns, "GLANCE", 0.01)
    jobs, decoder = job.Jobs(), FakeDecoder()
    values = DecodeConfig(max_new_tokens=8).to_dict()
    with job.Job.turns.races.turn():
        waiting = raced(lambda *_: decoder, "Once", values, live.plan, jobs=jobs, name="me")
        until(lambda: json.loads(next(waiting)).get("place") == {"number": 1, "waiting": 1, "left": None})
        jobs.stop("me", 0)
        last = frames(waiting)[-1]
    assert (last["phase"], last["finished"], last["trace"]) == ("stopped", True, None) and not decoder.calls
    asked = Ask(prompt="Once", plan=live.plan(values))
    with job.Job.turns.races.turn():
        answers = running.results(running.Race(decoding(lambda *_: decoder), asked))
        assert next(answers) == {"finished": False, "events_so_far": {}}
    assert [*answers][-1]["finished"]


def race(decoder: Any, name: str) -> list[dict[str, Any]]:
    values = DecodeConfig(gamma=4, steps=2, max_new_tokens=24).to_dict()
    return frames(raced(lambda *_: decoder, "Once", values, live.plan, visitor=name))


def test_beyond_the_share_a_race_is_a_card(monkeypatch: pytest.MonkeyPatch, public: Callable[..., None]) -> None:
    public(**{TOKENS: 30})
    monkeypatch.setattr(running, "SHARES", Shares())
    assert race(FakeDecoder(), "one")[-1]["source"] == "run"
    decoder = FakeDecoder()
    last = race(decoder, "one")[-1]
    assert last["card"]["code"] == "limit" and "minutes" in last["card"]["hint"]
    assert not decoder.calls, "nothing was decoded"
    assert race(FakeDecoder(), "another")[-1]["source"] == "run"


def test_a_race_that_uses_its_share_up_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, public: Callable[..., None]
) -> None:
    public(**{SECONDS: 1.0})
    monkeypatch.setattr(running, "SHARES", Shares())
    last = race(FakeDecoder(pace=0.1), "one")[-1]
    assert (last["phase"], last["source"], last["card"]["code"]) == ("stopped", "run", "limit")
    assert [events[-1].reason for events in trace_of(last).lanes.values()] == ["stopped"] * 2
