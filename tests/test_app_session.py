"""Runs as the page sees them: frames, heartbeats, stops, cards. With a scripted decoder, so every test is quick."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_fakes import FakeDecoder

from app import engines, race, session
from app.errors import card
from app.summary import summarise
from specdiff_core.schema.errors import ContextOverflow, OutOfMemory, WeightsError
from specdiff_core.schema.events import Failed, Finished, Verified
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import dump_trace, read_trace, write_trace

SETTINGS = DecodeConfig(gamma=4, steps=2, max_new_tokens=24).to_dict()


def frames(generator: Iterator[str]) -> list[dict[str, Any]]:
    """Distinct frames, as the browser sees them: an equal value fires nothing."""
    seen: list[str] = []
    for value in generator:
        if not seen or value != seen[-1]:
            seen.append(value)
    return [json.loads(value) for value in seen]


def factory(decoder: FakeDecoder) -> Any:
    """A factory without loading."""

    def make(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        progress("Loading nothing")
        return decoder

    return make


def unpack(text: str) -> Any:
    return read_trace(base64.b64decode(text))


def test_the_last_frame_is_the_whole_trace_in_the_file_format() -> None:
    """Both lanes, every event, vanilla measured first; the bytes are those of trace.py."""
    decoder = FakeDecoder()
    told = frames(session.stream(factory(decoder), "Once", SETTINGS))
    last = told[-1]
    assert last["finished"] and last["source"] == "run"
    trace = unpack(last["trace"])
    assert list(trace.lanes) == ["vanilla", "drafted"]
    (_, vanilla), (_, drafted) = decoder.calls
    assert (vanilla.drafter, drafted.drafter) == ("none", "block")
    assert decoder.warm_ups == [session.SETTLE, session.BETWEEN]  # each lane has a warm-up of its own
    assert list(trace.lanes["vanilla"]) == list(FakeDecoder().decode("Once", vanilla))
    assert all(isinstance(events[-1], Finished) for events in trace.lanes.values())
    assert any(isinstance(event, Verified) for event in trace.lanes["drafted"])
    assert gzip.decompress(base64.b64decode(last["trace"])) == dump_trace(dict(trace.lanes), title=trace.title)
    assert [frame["seq"] for frame in told] == sorted({frame["seq"] for frame in told})
    assert len({frame["run"] for frame in told}) == 1


def test_no_clock_starts_before_the_page_has_settled() -> None:
    """It hears of a lane when its warm-up begins; a redraw would take its processor from what is measured."""
    heard: dict[str, float] = {}
    measured: dict[str, float] = {}

    class Watched(FakeDecoder):
        def warm(self, config: DecodeConfig, seconds: float, stop: threading.Event | None) -> None:
            super().warm(config, seconds, stop)
            measured["vanilla" if config.drafter == "none" else "drafted"] = time.monotonic()

    for value in session.stream(factory(Watched()), "Once", SETTINGS):
        for event in json.loads(value).get("events", ()):
            if event["kind"] == "RunStarted":
                heard[event["lane"]] = time.monotonic()
    assert measured["vanilla"] - heard["vanilla"] > 0.7 * session.SETTLE
    assert measured["drafted"] - heard["drafted"] > 0.7 * session.BETWEEN


def test_the_page_draws_the_first_lane_before_the_second_is_measured() -> None:
    """And hears nothing while a short one is measured."""
    told = frames(session.stream(factory(FakeDecoder(pace=0.01)), "Once", SETTINGS))
    assert all(frame["phase"] != "measuring" for frame in told), "lanes shorter than a second are left alone"
    between = [frame["events"] for frame in told if (frame["phase"], frame.get("lane")) == ("warming", "drafted")]
    assert any(event["kind"] == "Finished" and event["lane"] == "vanilla" for events in between for event in events)


def test_without_a_drafter_only_vanilla_runs() -> None:
    """Racing vanilla against itself would show nothing."""
    last = frames(session.stream(factory(FakeDecoder()), "Once", {**SETTINGS, "drafter": "none"}))[-1]
    assert list(unpack(last["trace"]).lanes) == ["vanilla"]


def test_heartbeats_come_while_nothing_happens() -> None:
    """A generator that never yields never hears that its tab was closed."""
    decoder = FakeDecoder(pace=0.15)
    began, gaps = time.monotonic(), []
    for _ in session.stream(factory(decoder), "Once", {**SETTINGS, "max_new_tokens": 8}):
        gaps.append(time.monotonic() - began)
        began = time.monotonic()
    assert len(gaps) > 3
    assert max(gaps) < session.BEAT + 0.6  # slack for a busy machine


def test_frames_are_rare_while_a_clock_runs() -> None:
    """At most one frame with content per second: the page must not disturb what it quotes."""
    now = [0.0]

    def clock() -> float:
        now[0] += 0.1  # each look is a tenth of a second
        return now[0]

    decoder = FakeDecoder(pace=0.05)
    told = frames(session.stream(factory(decoder), "Once", {**SETTINGS, "max_new_tokens": 30}, clock=clock))
    live = [frame for frame in told if frame["phase"] == "measuring"]
    assert len(live) <= now[0] / session.PACE + 2  # and one at the start of each lane
    kinds = {event["kind"] for frame in live for event in frame["events"]}
    assert kinds <= {"RunStarted", "PiecesSeen", "Committed", "Finished"}


@pytest.mark.parametrize("end", ["close", "stop"])
def test_stop_and_a_closed_tab_end_the_decode_within_a_second(end: str) -> None:
    """close() is what Gradio does to the generator of a closed tab; stop() is the Stop button."""
    decoder, stops = FakeDecoder(pace=0.05), session.Stops()
    run = session.stream(factory(decoder), "Once", {**SETTINGS, "max_new_tokens": 400}, stops=stops, session="me")
    next(run), next(run), next(run)
    began = time.monotonic()
    if end == "close":
        run.close()
    else:
        threading.Thread(target=stops.stop, args=("me",)).start()
        last = frames(run)[-1]
        trace = unpack(last["trace"])
        assert trace.title == "Stopped run"
        assert trace.lanes["vanilla"][-1].reason == "stopped"
    assert decoder.stopped.wait(1.0)
    assert time.monotonic() - began < 1.5


def test_one_visitor_cannot_stop_or_see_another() -> None:
    """Two sessions at once: own prompts, own traces, own stop events."""
    stops = session.Stops()
    one, two = FakeDecoder(pace=0.02), FakeDecoder(pace=0.02)
    told: dict[str, list[dict[str, Any]]] = {}

    def visit(name: str, decoder: FakeDecoder) -> None:
        told[name] = frames(session.stream(factory(decoder), f"secret of {name}", SETTINGS, stops=stops, session=name))

    threads = [threading.Thread(target=visit, args=item) for item in (("anna", one), ("ben", two))]
    for thread in threads:
        thread.start()
    stops.stop("carla")
    for thread in threads:
        thread.join(20)
    assert not one.stopped.is_set() and not two.stopped.is_set()
    for name, other in (("anna", "ben"), ("ben", "anna")):
        trace = unpack(told[name][-1]["trace"])
        text = dump_trace(dict(trace.lanes)).decode()
        assert f"secret of {name}" in text and f"secret of {other}" not in text


@pytest.mark.parametrize(
    ("prompt", "values", "field"),
    [
        ("", SETTINGS, "prompt"),
        ("x" * 100_000, SETTINGS, "prompt"),
        ("Once", {**SETTINGS, "gamma": 99}, "gamma"),
        ("Once", {**SETTINGS, "steps": "many"}, "steps"),
        ("Once", {**SETTINGS, "pair": "unknown"}, "pair"),
    ],
)
def test_bad_input_gets_a_card_and_no_run(prompt: str, values: dict[str, Any], field: str) -> None:
    """One frame, with the field to mark; the decoder is never asked."""
    decoder = FakeDecoder()
    told = frames(session.stream(factory(decoder), prompt, values))
    assert len(told) == 1 and not decoder.calls
    assert told[0]["card"]["field"] == field
    assert told[0]["card"]["hint"]
    assert "trace" not in told[0], "what the visitor saw before stays"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutOfMemory("No memory.", hint="Smaller γ."), "memory"),
        (MemoryError(), "memory"),
        (WeightsError("model.safetensors is cut off.", hint="Download it again."), "weights"),
        (ContextOverflow("Too long.", hint="Shorten it."), "context"),
        (RuntimeError("secret internals at /home/me"), "unexpected"),
    ],
)
def test_failures_become_cards_without_tracebacks(error: Exception, code: str, caplog: Any) -> None:
    """The visitor gets words; what nobody foresaw is in the log under the run id of the card."""
    with caplog.at_level(logging.INFO, logger="specdiff.page"):
        last = frames(session.stream(factory(FakeDecoder(fail=error)), "Once", SETTINGS))[-1]
    shown = last["card"]
    assert (shown["code"], last["phase"]) == (code, "failed")
    assert shown["title"] and shown["message"] and shown["hint"]
    assert "Traceback" not in json.dumps(last) and "internals" not in json.dumps(last)
    assert f"run {shown['run']}" in caplog.text
    if code == "unexpected":
        assert "secret internals" in caplog.text and shown["run"] in shown["hint"]


@pytest.mark.parametrize("early", [False, True], ids=["while measured", "in its warm-up"])
def test_what_was_measured_before_a_failure_is_not_lost(early: bool) -> None:
    """The vanilla lane is done when the drafted one runs out of memory: card and trace arrive together."""

    error = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")

    class HalfWay(FakeDecoder):
        def warm(self, config: DecodeConfig, seconds: float, stop: threading.Event | None) -> None:
            if config.drafter != "none" and early:
                raise error

        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Any]:
            for event in super().decode(prompt, config, **options):
                yield event
                if config.drafter != "none" and isinstance(event, Verified):
                    raise error

    last = frames(session.stream(factory(HalfWay()), "Once", SETTINGS))[-1]
    assert last["card"]["code"] == "memory" and last["source"] == "failed"
    lanes = read_trace(base64.b64decode(last["trace"])).lanes
    assert isinstance(lanes["vanilla"][-1], Finished)
    if early:
        assert "drafted" not in lanes, "no events, no lane"
        return
    assert lanes["drafted"][-1] == Failed(
        code="memory", message="The device ran out of memory.", hint="Use a smaller γ.", run=last["run"]
    )


def test_a_failing_load_is_a_card_too() -> None:
    """The factory runs in the worker: its errors take the same way."""

    def broken(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        raise WeightsError("assets/target/model.safetensors is missing.", hint="Get the files again.")

    assert frames(session.stream(broken, "Once", SETTINGS))[-1]["card"]["code"] == "weights"


def test_a_pair_is_loaded_once_and_everyone_who_waits_hears_of_it() -> None:
    begun, go, loads = threading.Event(), threading.Event(), []

    def load(pair: str, tell: Any) -> FakeDecoder:
        loads.append(pair)
        tell("Loading the target")
        begun.set()
        assert go.wait(10)
        tell("Loading the drafter")
        return FakeDecoder()

    loader = engines.Engines(load)
    for _ in range(2):
        loader.prepare()  # two visitors opened the page
    assert begun.wait(10)
    heard: list[str] = []
    runner = threading.Thread(target=loader, args=("embedded", "block", heard.append))
    runner.start()
    while not heard:
        time.sleep(0.01)
    go.set()
    runner.join(10)
    assert heard[0] == "Loading the target" and "Loading the drafter" in heard and "Warming up" in heard[-1]
    late: list[str] = []
    assert loader("embedded", "block", late.append) is loader("embedded", "block", late.append)
    assert loads == ["embedded"] and not late


def test_opening_files(tmp_path: Path) -> None:
    """A trace comes back as it was; everything else is a card."""
    good = tmp_path / "good.jsonl.gz"
    events = {"drafted": list(FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=9)))}
    write_trace(good, events, title="kept")
    told = json.loads(session.open_trace(str(good)).frame)
    assert told["source"] == "file" and unpack(told["trace"]).title == "kept"
    whole = good.read_bytes()
    bad = {
        "cut.gz": whole[: len(whole) // 2],
        "text.txt": b"hello",
        "picture.png": bytes(range(256)),
        "empty": b"",
        "half.jsonl": b'{"kind":"Trace","schema":1,"lanes":["drafted"],"title":"\\ud800"}\n',
        "other.jsonl": b'{"kind":"Trace","schema":99,"lanes":[]}\n',
        "none.jsonl": b'{"kind":"Trace","schema":1,"lanes":["drafted"]}\n',
        "wrong.jsonl": b'{"kind":"Trace","schema":1,"lanes":["a"]}\n{"kind":"Finished","lane":"a","reason":1}\n',
    }
    for name, content in bad.items():
        path = tmp_path / name
        path.write_bytes(content)
        told = json.loads(session.open_trace(str(path)).frame)
        assert told["card"]["code"] in {"trace", "trace-schema"}, name
        assert told["card"]["hint"], name
    assert json.loads(session.open_trace(None).frame)["card"]["code"] == "trace"


def test_results_for_programs() -> None:
    """The summary holds measured numbers that follow from the events."""
    *progress, last = session.results(factory(FakeDecoder(pace=0.01)), "Once", SETTINGS)
    assert all(not item["finished"] for item in progress)
    told = summarise(last["lanes"], with_events=True)
    vanilla, drafted = (fold(last["lanes"][lane]) for lane in ("vanilla", "drafted"))
    assert told["speedup"] == pytest.approx((24 / drafted.seconds) / (24 / vanilla.seconds))
    assert told["lossless"] is True and told["same_text_as_vanilla"] is True
    assert told["drafted"]["tau"] == drafted.tau and told["drafted"]["alpha"] == drafted.alpha
    assert told["vanilla"]["alpha"] is None
    assert len(told["events"]["drafted"]) == len(last["lanes"]["drafted"])
    json.dumps(told)


def test_results_raise_what_happened() -> None:
    """The endpoint translates it; nothing is swallowed."""
    with pytest.raises(OutOfMemory):
        list(session.results(factory(FakeDecoder(fail=OutOfMemory("No memory."))), "Once", SETTINGS))


def test_cards_are_plain_text() -> None:
    """Nothing is escaped twice: the browser sets these strings with textContent."""
    assert card(WeightsError("<b> is missing & gone"), "r")["message"] == "<b> is missing & gone"


def test_the_summary_of_vanilla_alone() -> None:
    """No drafted lane: no speed-up is invented."""
    told = summarise({"vanilla": list(FakeDecoder().decode("Once", DecodeConfig(drafter="none", max_new_tokens=5)))})
    assert told["speedup"] is None and told["drafted"] is None
    assert told["vanilla"]["new_tokens"] == 5


def test_without_a_session_nobody_can_be_stopped() -> None:
    """Two visitors without a name are not one: the second must not stop the first."""
    stops, works = session.Stops(), [session.Work(factory(FakeDecoder()), "", session.Plan({})) for _ in range(2)]
    for work in works:
        stops.add("", work)
    stops.stop("", 0.0)
    assert not any(work.stop.is_set() for work in works)
    stops.remove("", works[0])
    assert (race.visitor(None), race.visitor(""), race.visitor("a")) == ("", "", "a/race")
