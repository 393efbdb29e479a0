"""Races as the page sees them: frames, heartbeats, stops, cards, lanes that fail."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from app_fakes import SCRIPT, START, FakeDecoder, frames, raced, trace_of
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import actions, routes
from app.content.error_cards import card
from app.run import job, kept
from app.run import race as running
from app.run import turns as app_turns
from app.run.engines import Engines
from app.run.job import Jobs
from app.run.kept import KEPT_RUNS, KeptRuns
from app.run.record import Ask, Update, append, decoding
from app.tabs import live, race
from app.temporary import own_folder
from specdiff_core.schema.errors import (
    ConfigError,
    ContextOverflow,
    OutOfMemory,
    SpecDiffError,
    Stopped,
    WeightsError,
)
from specdiff_core.schema.events import Committed, DraftReady, Failed, Finished, RunStarted, Verified
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import staged
from specdiff_core.schema.trace import dump_trace, write_trace

SETTINGS: dict[str, Any] = DecodeConfig(gamma=4, steps=2, max_new_tokens=24).to_dict()
METHODS: dict[str, Any] = {"methods": ["autoregressive", "specdiff", "dflash"], "max_new_tokens": 16}
NAMES = ["vanilla", "autoregressive", "specdiff", "dflash"]
MISSING = WeightsError("assets/embedded/masked/model.safetensors is missing.", hint="Restore the folder.")
MEMORY = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")


def one(decoder: Any, prompt: Any = "Once", values: Any = None, **options: Any) -> Iterator[str]:
    """A race of the Live tab."""
    return raced(lambda *_: decoder, prompt, SETTINGS | (values or {}), live.plan, **options)


def several(decoder: Any, prompt: Any = "Once", values: Any = METHODS, **options: Any) -> Iterator[str]:
    """A race of the Race tab."""
    return raced(lambda *_: decoder, prompt, values, race.plan, **options)


def lanes_of(frame: dict[str, Any]) -> dict[str, Any]:
    return dict(trace_of(frame).lanes)


def raw(frame: dict[str, Any]) -> bytes:
    """The trace file so far."""
    return KEPT_RUNS.read(frame["trace"].removeprefix("runs/")) or b""


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

    updates = frames(raced(make, "Once", METHODS, race.plan))
    drafters = ["none", "autoregressive", "masked", "block"]
    assert asked == [(name, 0) for name in drafters] and decoder.warm_ups == drafters
    trace = trace_of(updates[-1])
    assert list(trace.lanes) == NAMES
    assert all(isinstance(events[-1], Finished) for events in trace.lanes.values())


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


def test_trace_files_make_room_and_cannot_be_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", 120)
    monkeypatch.setattr(kept, "BLOCK", 1)
    traces, now = KeptRuns(), time.time()
    old, first, *later = (traces.new() for _ in range(4))
    for age, path in ((kept.KEEP_SECONDS + 60, old), (3, first), (2, later[0]), (1, later[1])):
        path.write_bytes(path.name.encode() * 2)
        os.utime(path, (now - age, now - age))
    assert traces.read(first.name, 0, 5) == first.name[:5].encode()
    traces.new()
    assert [traces.read(path.name) for path in (old, first)] == [None, None]
    for path in later:
        assert traces.read(path.name, 2, 5) == path.name[2:5].encode()
        assert traces.read(path.name) == path.name.encode() * 2
    for name, start, end in (("../secret", 0, 5), (later[0].name, -1, 5), (later[0].name, 5, 2), ("", 0, 5)):
        assert traces.read(name, start, end) is None


def test_the_run_store_outlives_its_folder_a_clock_and_what_visitors_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", 50)
    monkeypatch.setattr(kept, "BLOCK", 1)
    traces = KeptRuns()
    growing = traces.new()
    with traces.growing(growing):
        growing.write_bytes(b"x" * 60)
        os.utime(growing, (1, 1))  # the clock jumped
        run = traces.keep(b"a run", visitor="anna").removeprefix("runs/")
        opened = [traces.keep(b"opened", visitor="ben").removeprefix("runs/") for _ in range(12)]
        assert [traces.read(name) for name in (run, opened[-1])] == [b"a run", b"opened"]
        assert sum(traces.read(name) is not None for name in opened) < 9 and growing.exists()
    traces.new()
    assert not growing.exists() and not traces.failing()
    shutil.rmtree(growing.parent)
    assert traces.read(traces.keep(b"after").removeprefix("runs/")) == b"after" and not traces.failing()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Path("/absent/x").read_text())
    assert "No such file" in traces.failing()


def test_a_visitors_flood_removes_no_other_visitors_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(visitor: str) -> dict[str, Any]:
        values = {"max_new_tokens": 9}
        return frames(raced(lambda *_: FakeDecoder(), "Once", values, live.plan, visitor=visitor))[-1]

    monkeypatch.setattr(kept, "BLOCK", 1)
    first = run("anna")
    monkeypatch.setattr(kept, "ROOM", 4 * first["size"])
    flood = [run("ben") for _ in range(5)]
    (tmp_path / "opened.jsonl").write_bytes(raw(flood[-1]))
    for _ in range(4):
        actions.show_file(str(tmp_path / "opened.jsonl"), gr.Request(session_hash="ben"))
    assert raw(first) and not any(map(raw, flood[:3]))


def test_a_program_whose_run_never_began_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends while it waits."""
    monkeypatch.setattr(job.Job, "turns", app_turns.Turns())
    job.Job.turns.close()
    ask = Ask(prompt="Once", plan=live.plan(SETTINGS))
    with pytest.raises(SpecDiffError, match="before it began"):
        list(running.results(running.Race(decoding(lambda *_: FakeDecoder()), ask)))


def test_small_files_cannot_fill_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run looks through it, and each file takes a block of the disk."""
    monkeypatch.setattr(kept, "ROOM", 10 * kept.BLOCK)
    traces = KeptRuns()
    names = [traces.keep(b"a run").removeprefix("runs/") for _ in range(30)]
    assert sum(traces.read(name) is not None for name in names) <= 11


def test_a_file_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads slowly holds no whole file in memory."""
    path, whole = KEPT_RUNS.new(), b"0123456789" * kept.CHUNK
    path.write_bytes(whole)
    read, sizes = KEPT_RUNS.read, list[int]()

    def part(*asked: Any) -> bytes | None:
        sizes.append(len(found := read(*asked) or b""))
        return found

    monkeypatch.setattr(KEPT_RUNS, "read", part)
    client = TestClient(Starlette(routes=[Route("/runs/{name}", routes.trace_file)]))
    with KEPT_RUNS.growing(path):  # a link asks for what is there
        assert client.get(f"/runs/{path.name}").content == whole
    assert max(sizes) == kept.CHUNK


def test_what_a_killed_server_left_is_removed() -> None:
    code = "from app.temporary import own_folder; print(own_folder(), flush=True); input()"
    kept, killed = (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    folders = [Path(server.stdout.readline().strip()) for server in (kept, killed) if server.stdout]
    assert all(folder.is_dir() for folder in folders)
    killed.kill()
    killed.communicate()
    own = own_folder()
    assert [folder.is_dir() for folder in (*folders, own, own_folder())] == [True, False, True, True]
    kept.communicate("end\n")
    assert not folders[0].exists()


def test_a_growing_trace_is_followed_until_its_race_is_over() -> None:
    """Through the handler too, from any byte on."""
    path, lines = KEPT_RUNS.new(), [b"one\n", b"two, and half", b" a line\n", b"the end\n"]
    path.write_bytes(b"head\n" + lines[0])

    async def follow() -> list[bytes]:
        met, race = list[bytes](), ExitStack()
        race.enter_context(KEPT_RUNS.growing(path))
        async for part in KEPT_RUNS.follow(path.name, 5):
            met.append(part)
            if lines[len(met) :]:
                path.write_bytes(path.read_bytes() + lines[len(met)])
            if len(met) == len(lines) - 1:
                race.close()  # its last line is read
        return met

    with ThreadPoolExecutor() as other:  # this thread's event loop is Gradio's
        assert other.submit(asyncio.run, follow()).result(10) == lines
    client = TestClient(Starlette(routes=[Route("/runs/{name}", routes.trace_file)]))
    for query, text in (("", path.read_bytes()), ("?from=5", b"".join(lines)), ("?from=9999", b"")):
        answer = client.get(f"/runs/{path.name}{query}")
        assert (answer.status_code, answer.content) == (200, text) and answer.headers["cache-control"] == "no-store"
    wrong = [f"{path.name}?from={start}" for start in ("", "-1", "x", "1.5", "9" * 40)]
    for asked in (*wrong, f"{'a' * 22}.jsonl", f"{'a' * 22}.jsonl?from=0", "short.jsonl?from=0"):
        assert client.get(f"/runs/{asked}").status_code == 404, asked


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the race, in its middle, and where a file would be kept."""
    monkeypatch.setattr(KeptRuns, "new", lambda *_: Path("/dev/full"))
    last = frames(one(FakeDecoder()))[-1]
    assert last["card"]["message"] == "The server's disk is full, so the run can't be kept." and not last["trace"]

    class Full(io.FileIO):
        def truncate(self, size: int | None = None) -> int:
            return 0

    file: Any = SimpleNamespace(open=lambda *_, **__: Full("/dev/full", "r+"))
    steps = [("vanilla", event) for event in FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=9))]
    for act in (lambda: list(append(file, Update(), "r1", steps)), lambda: KEPT_RUNS.keep(b"race")):
        with pytest.raises(SpecDiffError, match="disk is full") as full:
            act()
        assert "operator" in full.value.hint


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
    assert last["card"]["message"] == "The server's disk is full, so the run can't be kept."
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
    assert (shown["code"], last["phase"]) == (code, "failed")
    assert shown["title"] and shown["message"] and shown["hint"]
    assert "Traceback" not in json.dumps(last) and "internals" not in json.dumps(last)
    assert f"run {shown['run']}" in caplog.text
    if code == "unexpected":
        assert "secret internals" in caplog.text and shown["run"] in shown["hint"]


LOAD = -3


@pytest.mark.parametrize("after", [LOAD, START, 1])
def test_a_lane_that_fails_says_why_and_the_others_run(after: int) -> None:
    decoder = FakeDecoder(fail=MISSING, fail_after=after, drafter="masked")

    def make(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        if (drafter, after) == ("masked", LOAD):
            raise MISSING
        return decoder

    last = frames(raced(make, "Once", METHODS, race.plan))[-1]
    assert "card" not in last and last["source"] == "run"
    lanes = lanes_of(last)
    assert isinstance(lanes["dflash"][-1], Finished) and isinstance(lanes["vanilla"][-1], Finished)
    reason = lanes["specdiff"][-1]
    assert isinstance(reason, Failed) and (reason.code, reason.message) == ("weights", MISSING.message)
    assert reason.hint == MISSING.hint and reason.run == last["run"]
    kinds = {type(event) for event in lanes["specdiff"]}
    assert (RunStarted in kinds, Committed in kinds) == (after == 1, after == 1)
    ends = [line for line in map(json.loads, raw(last).splitlines()) if line["kind"] in ("Failed", "Finished")]
    assert ends[0]["lane"] == "specdiff", "at once"


@pytest.mark.parametrize("after", [1, START])
def test_a_failed_drafted_lane_is_a_card_beside_vanilla(after: int) -> None:
    last = frames(one(FakeDecoder(fail=MEMORY, fail_after=after, drafter="block")))[-1]
    assert last["card"]["code"] == "memory" and last["source"] == "failed"
    lanes = lanes_of(last)
    assert isinstance(lanes["vanilla"][-1], Finished)
    assert lanes["drafted"][-1] == Failed(code="memory", message=MEMORY.message, hint=MEMORY.hint, run=last["run"])
    assert any(isinstance(event, Verified) for event in lanes["drafted"]) == (after == 1)


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


def test_vanilla_that_cannot_begin_is_a_card_and_later_a_lane() -> None:
    decoder = FakeDecoder(fail=ContextOverflow("Too long.", hint="Shorten it."), fail_after=0)
    last = frames(several(decoder))[-1]
    assert last["card"]["field"] == "prompt" and last["card"]["message"] == "Too long."
    lanes = lanes_of(frames(several(FakeDecoder(fail=MEMORY, drafter="none")))[-1])
    assert isinstance(lanes["vanilla"][-1], Failed) and isinstance(lanes["dflash"][-1], Finished)


def test_a_pair_is_loaded_once_and_a_run_that_waits_shows_its_progress() -> None:
    begun, go, loads = threading.Event(), threading.Event(), []

    def load(pair: str, progress: Any) -> FakeDecoder:
        loads.append(pair)
        progress("Loading the target")
        begun.set()
        assert go.wait(10)
        progress("Loading the drafter")
        return FakeDecoder()

    loader = Engines(load)
    for _ in range(2):
        loader.prepare("embedded")  # two visitors opened the page
    assert begun.wait(10)
    messages: list[str] = []
    runner = threading.Thread(target=loader, args=("embedded", "block", messages.append))
    runner.start()
    while not messages:
        time.sleep(0.01)
    go.set()
    runner.join(10)
    assert messages[0] == "Loading the target"
    list(loader.doing())
    late: list[str] = []
    assert loader("embedded", "block", late.append) is loader("embedded", "block", late.append)
    assert loads == ["embedded"] and not late


def test_stop_while_a_pair_loads_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def load(pair: str, progress: Any) -> FakeDecoder:
        loads.append(pair)
        while True:
            progress("Downloading owner/name: 3 of 9 GB")
            time.sleep(0.005)

    jobs = Jobs()
    streamed = raced(Engines(load), "Once", SETTINGS, live.plan, jobs=jobs, name="visitor")
    updates = []
    for frame in streamed:
        updates.append(json.loads(frame))
        if "Downloading" in str(updates[-1].get("message")):
            jobs.stop("visitor", patience=0)
    assert updates[-1]["phase"] == "stopped" and updates[-1]["finished"] and "card" not in updates[-1]
    assert updates[-1]["trace"] is None, "nothing is shown"
    assert loads == ["embedded"]

    def listen(pair: str, progress: Any) -> FakeDecoder:
        waiting.wait(10)
        for _ in range(3):
            progress("Downloading")
        return FakeDecoder()

    def gone(message: str) -> None:
        raise Stopped

    monkeypatch.setattr(app_turns, "GLANCE", 0.01)
    waiting, engines, messages = threading.Event(), Engines(listen), []
    loading = threading.Thread(target=engines, args=("embedded", "block", messages.append))
    loading.start()
    with pytest.raises(Stopped):
        engines("embedded", "block", gone)
    waiting.set()
    loading.join(10)
    assert messages[:3] == ["Downloading"] * 3


def test_stop_ends_a_warm_up_and_the_next_run_warms_up_again() -> None:
    warmed, messages = list[bool](), list[str]()

    class Endless(FakeDecoder):
        def warm_up(self, config: DecodeConfig, progress: Any = None, threads: int = 0) -> None:
            warmed.append(True)
            while len(warmed) == 1:
                progress("Warming up")

    def gone(message: str) -> None:
        if warmed:
            raise Stopped

    engines = Engines(lambda pair, progress: Endless())
    for report in (gone, messages.append, messages.append):
        with pytest.raises(Stopped) if report is gone else nullcontext():
            engines("embedded", "block", report)
    assert len(warmed) == 2


def test_opening_files(tmp_path: Path) -> None:
    """A trace opens in the player of its lanes; everything else is a card for both."""
    good = tmp_path / "good.jsonl.gz"
    events = list(FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=9)))
    for lanes, tab in (
        ({"vanilla": events, "drafted": events}, "live"),
        ({"drafted": events}, "live"),
        ({"vanilla": events, "drafted": [], "dflash": events}, "race"),
        ({"block/9/1": events}, "race"),
    ):
        write_trace(good, lanes, title="kept")
        *shown, opened = actions.show_file(str(good), gr.Request())
        (frame,) = (json.loads(one) for one in shown if one != gr.skip())
        assert opened.selected == tab and frame["source"] == "file" and (shown[0] != gr.skip()) == (tab == "live")
        assert trace_of(frame).title == "kept" and list(lanes_of(frame)) == list(lanes)
    whole = good.read_bytes()
    bad = {
        "cut.gz": whole[: len(whole) // 2],
        "text.txt": b"hello",
        "picture.png": bytes(range(256)),
        "empty": b"",
        "half.jsonl": b'{"kind":"Trace","schema":2,"lanes":["drafted"],"title":"\\ud800"}\n',
        "other.jsonl": b'{"kind":"Trace","schema":99,"lanes":[]}\n',
        "none.jsonl": b'{"kind":"Trace","schema":2,"lanes":["drafted"]}\n',
        "wrong.jsonl": b'{"kind":"Trace","schema":2,"lanes":["a"]}\n{"kind":"Finished","lane":"a","reason":1}\n',
    }
    for name, content in bad.items():
        path = tmp_path / name
        path.write_bytes(content)
        first, second, opened = actions.show_file(str(path), gr.Request())
        frame = json.loads(first)
        assert frame["card"]["code"] in {"trace", "trace-schema"} and first == second and opened == gr.skip(), name
        assert frame["card"]["hint"] and frame["source"] == "file", name
    assert json.loads(actions.show_file(None, gr.Request())[0])["card"]["code"] == "trace"
