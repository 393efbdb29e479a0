"""The process that decodes: what crosses the pipe, how it stops, and how it dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_fakes import FakeDecoder, frames, raced, trace_of
from remote_fakes import load

from app.content.error_cards import card
from app.run import process
from app.run.engines import Engines
from app.run.process import Remote, engines_elsewhere
from app.run.record import Ask, Update
from app.tabs import live
from specdiff_core.schema.decoder import LoadsDrafters
from specdiff_core.schema.errors import ConfigError, SpecDiffError, Stopped
from specdiff_core.schema.events import Committed, Event, Failed, Finished
from specdiff_core.schema.settings import DecodeConfig

CONFIG = DecodeConfig(gamma=4, steps=2, max_new_tokens=24)


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    made = Remote(load)
    yield made
    made.close()


def decoder(remote: Remote, pair: str) -> Any:
    return remote.load(pair, lambda message: None)


def pid(remote: Remote) -> int:
    """The process, which must run."""
    assert remote._child is not None and remote._child.process.pid is not None
    return remote._child.process.pid


def test_events_arrive_whole_and_in_order(remote: Remote) -> None:
    messages: list[str] = []
    far = remote.load("plain", messages.append)
    assert [*filter(None, messages)] == ["Loading plain"]
    for config in (CONFIG, DecodeConfig(drafter="none", max_new_tokens=9)):
        assert list(far.decode("Once", config)) == list(FakeDecoder().decode("Once", config))


def test_stop_ends_a_load_and_nobody_else_pays(remote: Remote) -> None:
    before: list[str] = []
    remote.load("who", before.append)
    messages: list[str] = []

    def progress(message: str) -> None:
        messages.append(message)
        if len(messages) == 3:
            raise Stopped

    began = time.monotonic()
    with pytest.raises(Stopped):
        remote.load("endless", progress)
    assert time.monotonic() - began < 1.0 and messages == ["Loading endless", "Downloading", "Downloading"]
    after: list[str] = []
    remote.load("who", after.append)
    assert [*filter(None, after)] == [*filter(None, before)], "the same process"


def test_a_drafter_is_loaded_when_it_is_asked_for(remote: Remote) -> None:
    far, messages = decoder(remote, "hub"), []
    assert isinstance(far, LoadsDrafters)
    far.load_drafter("masked", messages.append)
    assert [*filter(None, messages)] == ["Loading masked"]
    with pytest.raises(SpecDiffError, match="No such drafter"):
        far.load_drafter("absent", messages.append)
    assert list(far.decode("Once", CONFIG)) == list(FakeDecoder().decode("Once", CONFIG))


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_close_end_a_decode_and_the_next_is_whole(remote: Remote, end: str) -> None:
    """The visitor's event lives here, the decode there."""
    far, stop = decoder(remote, "slow"), threading.Event()
    events = far.decode("Once", DecodeConfig(gamma=4, max_new_tokens=400), stop=stop)
    next(events)
    began = time.monotonic()
    if end == "stop":
        stop.set()
        *_, last = events
        assert isinstance(last, Committed) or getattr(last, "reason", "") == "stopped"
    else:
        events.close()
    assert time.monotonic() - began < 1.0
    assert list(far.decode("Once", CONFIG)) == list(FakeDecoder().decode("Once", CONFIG))


def test_stop_ends_a_call_that_waits_for_another(remote: Remote) -> None:
    """The running call is not disturbed: it reaches its own end."""
    far, stop = decoder(remote, "slow"), threading.Event()
    running = far.decode("Once", CONFIG)
    next(running)
    stop.set()
    with pytest.raises(Stopped):
        list(far.decode("Once", CONFIG, stop=stop))
    assert isinstance(list(running)[-1], Finished)


def test_errors_keep_words_and_traceback(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError) as refused:
        decoder(remote, "absent")
    assert refused.value.field == "pair" and refused.value.hint == "Choose another."
    assert refused.value.__cause__ is None, "an ordinary refusal writes no traceback to the log"
    for pair, kind, words in (("broken", RuntimeError, "a bug"), ("io", OSError, "disk"), ("odd", RuntimeError, "odd")):
        seen: list[Event] = []
        with pytest.raises(kind, match=words) as raised:
            seen.extend(decoder(remote, pair).decode("Once", CONFIG))
        assert sum(isinstance(event, Committed) for event in seen) == 3, "what was measured before is here"
        assert "app_fakes.py" in str(raised.value.__cause__)
        caplog.clear()
        assert card(raised.value, "r123")["code"] == "unexpected"
        assert "app_fakes.py" in caplog.text and "r123" in caplog.text
    assert list(decoder(remote, "plain").decode("Once", CONFIG))[-1]


def test_a_dead_process_is_reported_and_replaced() -> None:
    engines = engines_elsewhere(load)
    messages: list[str] = []
    first_time = ["Loading embedded", "Warming up"]
    for _ in range(2):
        far = engines("embedded", "block", messages.append)
        assert [message for message in messages if message] == first_time
        assert list(far.decode("Once", CONFIG)) == list(FakeDecoder().decode("Once", CONFIG))
        with pytest.raises(SpecDiffError, match="ended unexpectedly") as died:
            list(far.decode("die 1", CONFIG))
        assert "Run again" in died.value.hint
        messages.clear()


@pytest.mark.parametrize("rounds", [0, 12])
def test_a_race_in_a_process_that_dies_keeps_what_was_written(rounds: int) -> None:
    """At its first event, and in the middle, when one lane has ended; the page reads on to the last line."""
    values = {"gamma": 4, "max_new_tokens": 24}
    last = frames(raced(engines_elsewhere(load), f"die {rounds}", values, live.plan))[-1]
    if not rounds:
        assert "ended unexpectedly" in last["card"]["message"] and last["trace"] is None
        return
    assert (last["phase"], last["source"]) == ("finished", "run")
    lanes = trace_of(last).lanes
    whole = FakeDecoder().decode(f"die {rounds}", live.plan(DecodeConfig().to_dict() | values)["drafted"])
    assert list(lanes["drafted"]) == list(whole)
    *events, failed = lanes["vanilla"]
    assert isinstance(failed, Failed) and "ended unexpectedly" in failed.message and failed.run == last["run"]
    assert sum(isinstance(event, Committed) for event in events) == rounds


def test_a_process_that_dies_between_runs_costs_nobody_a_run() -> None:
    remote = Remote(load)
    engines = Engines(remote.load, alive=remote.alive)
    messages: list[str] = []
    old = engines("embedded", "block", messages.append)
    remote.load("who", messages.append)
    os.kill(int(messages[-1]), signal.SIGKILL)
    while remote.alive():
        time.sleep(0.01)
    messages.clear()
    again = engines("embedded", "block", messages.append)
    assert next(filter(None, messages)) == "Loading embedded"
    assert list(again.decode("Once", CONFIG)) == list(FakeDecoder().decode("Once", CONFIG))
    with pytest.raises(SpecDiffError, match="ended unexpectedly"):
        list(old.decode("Once", CONFIG))
    assert list(again.decode("Once", CONFIG)), "the orphan's failure leaves the new process alone"
    remote.close()
    assert not remote.alive()


def test_a_server_that_ends_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    remote = Remote(load)
    events = decoder(remote, "slow").decode("Once", DecodeConfig(gamma=4, max_new_tokens=400))
    next(events)
    os.kill(pid(remote), signal.SIGSTOP)  # in the middle of a long pass
    began = time.monotonic()
    remote.end()
    assert time.monotonic() - began < 1.5, "a container is killed soon"
    with pytest.raises(SpecDiffError, match="shutting down") as ended:
        list(events)
    assert card(ended.value, "r1")["hint"] == "Reload the page once it is running again."
    ended_pid = pid(remote)
    with pytest.raises(SpecDiffError, match="shutting down"):
        decoder(remote, "plain")
    assert pid(remote) == ended_pid, "no other is started"
    assert "Traceback" not in caplog.text


def test_leaving_a_call_to_a_dead_process_does_not_end_its_successor() -> None:
    remote = Remote(load)
    old = decoder(remote, "slow").decode("Once", DecodeConfig(gamma=4, max_new_tokens=400))
    next(old)
    os.kill(pid(remote), signal.SIGKILL)
    while remote.alive():
        time.sleep(0.01)
    with ThreadPoolExecutor() as other:
        loading = other.submit(decoder, remote, "plain")
        while not remote.alive():
            time.sleep(0.01)
        old.close()
        assert list(loading.result(60).decode("Once", CONFIG))
    remote.close()


def test_what_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOPS_WITHIN", 0.5)
    far, messages, stop = Remote(load), [], threading.Event()
    engines = Engines(far.load, alive=far.alive)
    decoder = engines("embedded", "block", lambda message: None)
    far.load("who", messages.append)
    events = decoder.decode("Once", DecodeConfig(gamma=4, max_new_tokens=400), stop=stop)
    os.kill(int(messages[-1]), signal.SIGSTOP)
    stop.set()
    with pytest.raises(SpecDiffError, match="stopped responding"):
        list(events)
    assert not far.alive()
    again = engines("embedded", "block", lambda message: None)
    assert list(again.decode("Once", CONFIG)) == list(FakeDecoder().decode("Once", CONFIG))
    far.close()


def test_a_process_that_was_stopped_is_noticed_by_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that has gone leaves its silent load, a race reaches its limit, and without anybody it is killed."""
    monkeypatch.setattr(process, "STOPS_WITHIN", 0.5)
    monkeypatch.setattr(process, "BEAT", 0.1)
    far, messages = Remote(load), list[str]()

    def stopped(act: Callable[[Any], Any]) -> None:
        decoder = far.load("slow", lambda message: None)
        far.load("who", messages.append)
        os.kill(int(messages[-1]), signal.SIGSTOP)
        act(decoder)
        assert not far.alive()

    def gone(message: str) -> None:
        raise Stopped

    def load_alone(decoder: Any) -> None:
        with pytest.raises(Stopped):
            far.load("plain", gone)

    def race(decoder: Any) -> None:
        ask = Ask(prompt="Once", plan={"vanilla": CONFIG})
        ask.trace.write_bytes(b"")
        assert next(decoder.race(ask, Update(), stop=threading.Event())) == "", "so that limits are checked"

    def nobody(decoder: Any) -> None:
        monkeypatch.setattr(process, "SILENT", 2)
        with pytest.raises(SpecDiffError, match="stopped responding"):
            far.load("plain", lambda message: None)

    for act in (load_alone, race, nobody):
        stopped(act)
    far.close()


@pytest.mark.parametrize("suspended", ["idle", "half"])
def test_a_suspended_process_is_ended_and_replaced(monkeypatch: pytest.MonkeyPatch, suspended: str) -> None:
    """Between two runs, and in the middle of an answer."""
    far = Remote(load)
    decoder(far, "plain")
    old, began = pid(far), time.monotonic()
    with monkeypatch.context() as soon:
        soon.setattr(process, "SILENT", 2)
        if suspended == "idle":
            os.kill(old, signal.SIGSTOP)
            while far.alive():
                assert time.monotonic() - began < 10
                time.sleep(0.05)
        else:
            with pytest.raises(SpecDiffError, match="stopped responding"):
                decoder(far, "half")
    assert list(decoder(far, "plain").decode("Once", CONFIG)) and pid(far) != old
    far.close()


def test_what_is_slow_to_end_is_ended_itself_and_not_its_successor() -> None:
    far = Remote(load)
    decoder(far, "plain")
    old = pid(far)
    os.kill(old, signal.SIGSTOP)
    with ThreadPoolExecutor() as other:
        ending = other.submit(far.close)
        while far.alive():
            time.sleep(0.01)
        new = decoder(far, "plain")
        ending.result(10)
    assert list(new.decode("Once", CONFIG))
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)
    far.close()


def test_a_suspended_machine_ends_no_process(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the clock, an hour went by without a pulse."""
    hours = [0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * hours[0])
    monkeypatch.setattr(process, "time", clock)
    remote.load("silent", lambda message: hours.insert(0, 1))


@pytest.mark.parametrize("end", ["close", "kill", "group"])
def test_a_process_leaves_no_temporary_file(end: str) -> None:
    """Signals to the whole group reach it too, but the server ends it: a run would call them an unexpected end."""
    far, messages = Remote(load), list[str]()
    far.load("who", messages.append)
    _, folder, number = filter(None, messages)
    assert Path(folder).is_dir()
    for signum in {"kill": [signal.SIGKILL], "group": [signal.SIGINT, signal.SIGTERM]}.get(end, []):
        os.kill(int(number), signum)
    if end == "group":
        assert list(decoder(far, "plain").decode("Once", CONFIG))
    far.close()
    assert not Path(folder).exists()
