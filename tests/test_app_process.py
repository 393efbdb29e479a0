"""The process that decodes: what crosses the pipe, how it stops, and how it dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_fakes import FakeDecoder, frames, raced, trace_of
from remote_fakes import CONFIG, LONG, Decode, load

from app.content.error_cards import card
from app.run import process
from app.run.engines import Engines
from app.run.job import Tick
from app.run.process import Remote, engines_elsewhere
from app.tabs import live
from specdiff_core.schema.errors import ConfigError, SpecDiffError, Stopped
from specdiff_core.schema.events import Committed, Failed
from specdiff_core.schema.settings import DecodeConfig

WHOLE = list(FakeDecoder().decode("Once", CONFIG))
"""What every decode must have."""


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    made = Remote(load)
    yield made
    made.close()


def loaded(remote: Remote, pair: str) -> Any:
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
        assert Decode(far, config=config).events() == list(FakeDecoder().decode("Once", config))


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
    far, messages = loaded(remote, "hub"), []
    far.prepare(DecodeConfig(drafter="masked"), messages.append, 0)
    assert [*filter(None, messages)] == ["Loading masked", "Warming up"]
    with pytest.raises(SpecDiffError, match="No such drafter"):
        far.prepare(DecodeConfig(drafter="absent"), messages.append, 0)
    assert Decode(far).events() == WHOLE


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_close_end_a_decode_and_the_next_is_whole(remote: Remote, end: str) -> None:
    """The visitor's event lives here, the decode there."""
    far, stop = loaded(remote, "slow"), threading.Event()
    decode = Decode(far, config=LONG, stop=stop)
    next(decode.updates)
    began = time.monotonic()
    if end == "stop":
        stop.set()
        assert decode.events()[-1].reason == "stopped"
    else:
        decode.updates.close()
    assert time.monotonic() - began < 1.0
    assert Decode(far).events() == WHOLE


def test_stop_ends_a_call_that_waits_for_another(remote: Remote) -> None:
    """The running call is not disturbed: it reaches its own end."""
    far, stop = loaded(remote, "slow"), threading.Event()
    running = Decode(far, config=LONG)
    next(running.updates)
    stop.set()
    with pytest.raises(Stopped):
        Decode(far, stop=stop).events()
    assert running.events()[-1].reason == "length"


def test_errors_keep_words_and_traceback(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(remote, "absent")
    assert refused.value.field == "pair" and refused.value.hint == "Choose another."
    assert refused.value.__cause__ is None, "an ordinary refusal writes no traceback to the log"
    for pair, kind, words in (("broken", RuntimeError, "a bug"), ("io", OSError, "disk"), ("odd", RuntimeError, "odd")):
        with pytest.raises(kind, match=words) as raised:
            loaded(remote, pair)
        assert "remote_fakes.py" in str(raised.value.__cause__)
        caplog.clear()
        assert card(raised.value, "r123")["code"] == "unexpected"
        assert "remote_fakes.py" in caplog.text and "r123" in caplog.text
    assert Decode(loaded(remote, "plain")).events() == WHOLE


def test_a_dead_process_is_reported_and_replaced() -> None:
    engines = engines_elsewhere(load)
    messages: list[str] = []
    first_time = ["Loading embedded", "Loading block", "Warming up"]
    for _ in range(2):
        far = engines.runner("embedded", "block", messages.append)
        assert [message for message in messages if message] == first_time
        assert Decode(far).events() == WHOLE
        with pytest.raises(SpecDiffError, match="ended unexpectedly") as died:
            Decode(far, "die 1").events()
        assert "Run again" in died.value.hint
        messages.clear()


@pytest.mark.parametrize("rounds", [0, 12])
def test_a_race_in_a_process_that_dies_keeps_what_was_written(rounds: int) -> None:
    """At its first event, and in the middle, when one lane has ended; the page reads on to the last line."""
    values = {"gamma": 4, "max_new_tokens": 24}
    last = frames(raced(engines_elsewhere(load).runner, f"die {rounds}", values, live.plan))[-1]
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
    old = engines.runner("embedded", "block", messages.append)
    os.kill(pid(remote), signal.SIGKILL)
    while remote.alive():
        time.sleep(0.01)
    messages.clear()
    again = engines.runner("embedded", "block", messages.append)
    assert next(filter(None, messages)) == "Loading embedded"
    assert Decode(again).events() == WHOLE
    with pytest.raises(SpecDiffError, match="ended unexpectedly"):
        Decode(old).events()
    assert Decode(again).events() == WHOLE, "the orphan's failure leaves the new process alone"
    remote.close()
    assert not remote.alive()


def test_a_server_that_ends_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    remote = Remote(load)
    decode = Decode(loaded(remote, "slow"), config=LONG)
    next(decode.updates)
    os.kill(pid(remote), signal.SIGSTOP)  # in the middle of a long pass
    began = time.monotonic()
    remote.end()
    assert time.monotonic() - began < 1.5, "a container is killed soon"
    with pytest.raises(SpecDiffError, match="shutting down") as ended:
        decode.events()
    assert ended.value.hint
    ended_pid = pid(remote)
    with pytest.raises(SpecDiffError, match="shutting down"):
        loaded(remote, "plain")
    assert pid(remote) == ended_pid, "no other is started"
    assert "Traceback" not in caplog.text


def test_leaving_a_call_to_a_dead_process_does_not_end_its_successor() -> None:
    remote = Remote(load)
    old = Decode(loaded(remote, "slow"), config=LONG).updates
    next(old)
    os.kill(pid(remote), signal.SIGKILL)
    while remote.alive():
        time.sleep(0.01)
    with ThreadPoolExecutor() as other:
        loading = other.submit(loaded, remote, "plain")
        while not remote.alive():
            time.sleep(0.01)
        old.close()
        assert Decode(loading.result(60)).events() == WHOLE
    remote.close()


def test_what_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOPS_WITHIN", 0.5)
    far, stop = Remote(load), threading.Event()
    engines = Engines(far.load, alive=far.alive)
    decode = Decode(engines.runner("embedded", "block", lambda message: None), config=LONG, stop=stop)
    os.kill(pid(far), signal.SIGSTOP)
    stop.set()
    with pytest.raises(SpecDiffError, match="stopped responding"):
        decode.events()
    assert not far.alive()
    again = engines.runner("embedded", "block", lambda message: None)
    assert Decode(again).events() == WHOLE
    far.close()


@pytest.mark.parametrize("waits", ["load", "race"])
def test_a_process_that_was_stopped_is_noticed_by_whoever_waits(monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    """A caller that has gone leaves its silent load, and a race reaches its limit."""
    monkeypatch.setattr(process, "STOPS_WITHIN", 0.5)
    monkeypatch.setattr(process, "BEAT", 0.1)
    far = Remote(load)
    slow = loaded(far, "slow")
    os.kill(pid(far), signal.SIGSTOP)

    def gone(message: str) -> None:
        raise Stopped

    if waits == "load":
        with pytest.raises(Stopped):
            far.load("plain", gone)
    else:
        assert next(Decode(slow).updates) is Tick.DURING_PART, "so that limits are checked"
    assert not far.alive()


@pytest.mark.parametrize("suspended", ["idle", "half"])
def test_a_suspended_process_is_ended_and_replaced(monkeypatch: pytest.MonkeyPatch, suspended: str) -> None:
    """Between two runs, and in the middle of an answer."""
    far = Remote(load)
    loaded(far, "plain")
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
                loaded(far, "half")
    assert Decode(loaded(far, "plain")).events() == WHOLE and pid(far) != old
    far.close()


def test_what_is_slow_to_end_is_ended_itself_and_not_its_successor() -> None:
    far = Remote(load)
    loaded(far, "plain")
    old = pid(far)
    os.kill(old, signal.SIGSTOP)
    with ThreadPoolExecutor() as other:
        ending = other.submit(far.close)
        while far.alive():
            time.sleep(0.01)
        new = loaded(far, "plain")
        ending.result(10)
    assert Decode(new).events() == WHOLE
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
        assert Decode(loaded(far, "plain")).events() == WHOLE
    far.close()
    assert not Path(folder).exists()
