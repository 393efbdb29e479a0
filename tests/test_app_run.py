"""Races as the page sees them: frames, heartbeats, stops, cards, lanes that fail."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from app_fakes import SCRIPT, START, FakeDecoder, frames, raced, raw, trace_of

from app.content.error_cards import card
from app.run import job
from app.run import race as running
from app.run import turns as app_turns
from app.run.job import Jobs
from app.run.record import Ask, decoding
from app.tabs import live, race
from specdiff_core.schema.errors import ConfigError, ContextOverflow, OutOfMemory, SpecDiffError, WeightsError
from specdiff_core.schema.events import Committed, DraftReady, Failed, Finished, RunStarted
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import staged
from specdiff_core.schema.trace import dump_trace

SETTINGS: dict[str, Any] = DecodeConfig(gamma=4, steps=2, max_new_tokens=24).to_dict()
METHODS: dict[str, Any] = {"methods": ["autoregressive", "specdiff", "dflash"], "max_new_tokens": 16}
MISSING = WeightsError("assets/embedded/masked/model.safetensors is missing.", hint="Restore the folder.")
MEMORY = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")


def one(decoder: Any, prompt: Any = "Once", values: Any = None, **options: Any) -> Iterator[str]:
    """A race of the Live tab."""
    return raced(lambda *_: decoder, prompt, SETTINGS | (values or {}), live.plan, **options)


def lanes_of(frame: dict[str, Any]) -> dict[str, Any]:
    return dict(trace_of(frame).lanes)


def test_a_visitors_slip_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    for error, traced in ((ConfigError("Too long."), False), (WeightsError("Cut off."), True)):
        caplog.clear()
        error.__cause__ = ValueError("from a library")
        card(error, "r1")
        assert ("from a library" in caplog.text) == traced


def test_the_trace_is_whole_and_in_the_file_format() -> None:
    """Every event of both lanes, in the order of their clock; one id and rising numbers."""
    decoder = FakeDecoder()
    *updates, last = frames(one(decoder))
    assert last["finished"] and last["source"] == "run" and not any("size" in update for update in updates)
    assert {update["phase"] for update in updates} <= {"queued", "loading", "racing"}
    assert {update["trace"] for update in updates if update["phase"] != "queued"} <= {last["trace"], None}
    trace, ((_, vanilla), (_, drafted)) = trace_of(last), decoder.calls
    assert (vanilla.drafter, drafted.drafter) == ("none", "block")
    assert list(trace.lanes["vanilla"]) == list(FakeDecoder().decode("Once", vanilla))
    assert list(trace.lanes["drafted"]) == list(FakeDecoder().decode("Once", drafted))
    assert len(raw(last)) == last["size"] and trace.title == "Live run"
    head, *lines = raw(last).splitlines()
    first, *others = dump_trace(trace.lanes, title=trace.title).splitlines()
    assert head == first and sorted(lines) == sorted(others)
    order = [json.loads(line)["lane"] for line in lines]
    assert sum(one != next for one, next in pairwise(order)) > 10, "the lanes take turns"
    assert [frame["seq"] for frame in updates] == sorted({frame["seq"] for frame in updates})
    assert len({frame["run"] for frame in (*updates, last)}) == 1


def test_the_staged_round_of_a_kept_run_is_drafted_again_in_every_size() -> None:
    decoder = FakeDecoder()
    run = frames(one(decoder))[-1]
    decode = decoding(lambda *_: decoder)

    def again(name: str) -> dict[str, Any]:
        made = job.stream(lambda own: running.Race(decode, Ask.again(name, own, 0)), Jobs())
        return [json.loads(words) for words in made][-1]

    block = lanes_of(again(run["trace"].removeprefix("runs/")))
    drafted = lanes_of(run)["drafted"]
    shown = staged(drafted)
    assert shown is not None
    written = sum(len(event.ids) for event in drafted if isinstance(event, Committed) and event.round < shown[0].round)
    assert {"1/1", "4/2", "8/8", "16/8"} <= set(block) and "2/4" not in block
    for size, events in block.items():
        gamma, steps = map(int, size.split("/"))
        assert [type(event) for event in events].count(Committed) == 1 and isinstance(events[-1], Committed)
        (draft,) = (event for event in events if isinstance(event, DraftReady))
        assert len(draft.ids) == gamma and draft.nfe == steps
        assert events[-1].ids[0] == SCRIPT[written % len(SCRIPT)], "it goes on where the round began"
    for unknown in ("x" * 22 + ".jsonl", "../secret.jsonl"):
        assert again(unknown)["card"]["hint"] == "Run it again."


def test_every_drafter_is_ready_before_the_race() -> None:
    decoder, asked = FakeDecoder(), []

    def make(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        asked.append((drafter, len(decoder.calls)))
        return decoder

    frames(raced(make, "Once", METHODS, race.plan))
    drafters = ["none", "autoregressive", "masked", "block"]
    assert asked == [(name, 0) for name in drafters] and decoder.warm_ups == drafters


def test_a_run_on_one_thread_says_so_in_its_trace() -> None:
    decoder = FakeDecoder()
    lanes = lanes_of(frames(one(decoder, threads=1))[-1])
    assert decoder.asked_threads == [1, 1]
    assert {event.threads for run in lanes.values() for event in run if isinstance(event, RunStarted)} == {1}
    frames(one(decoder))
    assert decoder.asked_threads[2:] == [0, 0], "those that were quickest at loading"


def test_heartbeats_come_while_nothing_happens() -> None:
    """A generator that never yields is never closed with its tab."""
    began, gaps = time.monotonic(), []
    for _ in one(FakeDecoder(pace=0.15), values={"max_new_tokens": 8}):
        gaps.append(time.monotonic() - began)
        began = time.monotonic()
    assert len(gaps) > 3
    assert max(gaps) < job.BEAT + 0.6  # slack for a busy machine


@pytest.mark.parametrize("end", ["close", "stop"])
def test_stop_and_a_closed_tab_end_the_decode_within_a_second(end: str) -> None:
    """close() is what Gradio does to the generator of a closed tab; stop() is the Stop button."""
    decoder, jobs = FakeDecoder(pace=0.05), Jobs()
    run = one(decoder, values={"max_new_tokens": 400}, jobs=jobs, name="me")
    while (frame := json.loads(next(run)))["phase"] != "racing" or b"Committed" not in raw(frame):
        pass
    began = time.monotonic()
    if end == "close":
        run.close()
    else:
        threading.Thread(target=jobs.stop, args=("me", 6.0)).start()
        last = frames(run)[-1]
        assert last["phase"] == "stopped" and last["source"] == "run"
        trace = trace_of(last)
        assert {events[-1].reason for events in trace.lanes.values()} == {"stopped"}
    assert decoder.stopped.wait(1.0)
    assert time.monotonic() - began < 1.5


def test_a_program_whose_run_never_began_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends while it waits."""
    monkeypatch.setattr(job.Job, "turns", app_turns.Turns())
    job.Job.turns.close()
    ask = Ask(prompt="Once", plan=live.plan(SETTINGS))
    with pytest.raises(SpecDiffError, match="before it began"):
        list(running.results(running.Race(decoding(lambda *_: FakeDecoder()), ask)))


def test_a_disk_that_fills_up_keeps_what_was_measured() -> None:
    """A limit of file sizes stands for it."""
    resource = pytest.importorskip("resource")
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    race = one(FakeDecoder(), values={"max_new_tokens": 400})
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, most))
        last = frames(race)[-1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert "full" in last["card"]["message"]
    assert any(isinstance(event, Committed) for events in trace_of(last).lanes.values() for event in events)


@pytest.mark.parametrize(
    ("names", "stopped"), [(("", ""), False), (("anna", "ben"), False), (("me/live", "me/live"), True)], ids=str
)
def test_visitors_stop_and_see_only_their_own_races(names: tuple[str, str], stopped: bool) -> None:
    """Of two at once. Those without a name are not the same visitor."""
    jobs = Jobs()
    both = [one(FakeDecoder(pace=0.02), f"race {i}", jobs=jobs, name=name) for i, name in enumerate(names)]
    next(both[0])
    second = frames(both[1])[-1]
    for name in (names[1], "carla"):
        jobs.stop(name, 0.0)
    first = frames(both[0])[-1]
    assert second["phase"] == "finished" and (first["phase"] == "stopped") == stopped
    for own, (frame, other) in enumerate(((first, 1), (second, 0))):
        text = dump_trace(lanes_of(frame)).decode() if frame["trace"] else f"race {own}"
        assert f"race {own}" in text and f"race {other}" not in text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MEMORY, "memory"),
        (MemoryError(), "memory"),
        (MISSING, "weights"),
        (ContextOverflow("Too long.", hint="Shorten it."), "context"),
        (RuntimeError("secret internals at /home/me"), "unexpected"),
    ],
)
def test_failures_become_cards_without_tracebacks(error: Exception, code: str, caplog: Any) -> None:
    """The visitor gets words; what nobody foresaw is in the log under the run id of the card."""
    with caplog.at_level(logging.INFO, logger="specdiff.page"):
        last = frames(one(FakeDecoder(fail=error)))[-1]
    shown = last["card"]
    assert (shown["code"], last["phase"]) == (code, "failed") and (shown["field"] == "prompt") == (code == "context")
    assert shown["title"] and shown["message"] and shown["hint"]
    assert "Traceback" not in json.dumps(last) and "internals" not in json.dumps(last)
    assert f"run {shown['run']}" in caplog.text
    if code == "unexpected":
        assert "secret internals" in caplog.text and shown["run"] in shown["hint"]


LOAD = -3


@pytest.mark.parametrize(
    ("lane", "failing", "after"),
    [("specdiff", "masked", LOAD), ("specdiff", "masked", START), ("specdiff", "masked", 1), ("vanilla", "none", 1)],
)
def test_a_lane_that_fails_says_why_and_the_others_run(lane: str, failing: str, after: int) -> None:
    decoder = FakeDecoder(fail=MISSING, fail_after=after, drafter=failing)

    def make(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        if (drafter, after) == (failing, LOAD):
            raise MISSING
        return decoder

    last = frames(raced(make, "Once", METHODS, race.plan))[-1]
    assert "card" not in last and last["source"] == "run"
    lanes = lanes_of(last)
    assert [name for name, events in lanes.items() if not isinstance(events[-1], Finished)] == [lane]
    reason = lanes[lane][-1]
    assert isinstance(reason, Failed) and (reason.code, reason.message) == ("weights", MISSING.message)
    assert reason.hint == MISSING.hint and reason.run == last["run"]
    kinds = {type(event) for event in lanes[lane]}
    assert (RunStarted in kinds, Committed in kinds) == (after == 1, after == 1)
    ends = [line for line in map(json.loads, raw(last).splitlines()) if line["kind"] in ("Failed", "Finished")]
    assert ends[0]["lane"] == lane, "at once"


def test_a_failed_drafted_lane_is_a_card_beside_vanilla() -> None:
    last = frames(one(FakeDecoder(fail=MEMORY, drafter="block")))[-1]
    assert last["card"]["code"] == "memory" and last["source"] == "failed"
    assert isinstance(lanes_of(last)["vanilla"][-1], Finished)


@pytest.mark.parametrize("broken", [{"none"}, {"autoregressive", "masked", "block"}], ids=["vanilla", "all drafters"])
def test_a_race_that_can_compare_nothing_is_a_card_at_once(broken: set[str]) -> None:
    """Without vanilla no drafter is loaded either: that may take minutes."""
    decoder, asked = FakeDecoder(), list[str]()

    def make(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        asked.append(drafter)
        if drafter in broken:
            raise MISSING
        return decoder

    last = frames(raced(make, "Once", METHODS, race.plan))[-1]
    assert last["card"]["message"] == MISSING.message and not last["trace"] and not decoder.calls
    assert (asked == ["none"]) == ("none" in broken)
