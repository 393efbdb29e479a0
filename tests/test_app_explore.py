"""Explorations on the page: frames, Stop, a reload, turns, and their process."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from app_fakes import TOKEN, FakeDecoder, ask
from remote_fakes import Counting, Decode, load
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import controls, host, own_pairs, routes
from app.content import html, recordings
from app.run import exploration, job, process
from app.run import race as running
from app.run.exploration import exploring
from app.run.job import Jobs
from app.run.kept import KEPT_RUNS, KeptRuns
from app.run.process import Remote
from app.run.record import Ask, decoding
from app.run.turns import EXPLORING, Turns
from app.tabs import explore, live
from specdiff_core.checkpoints import own_pairs as own_models
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.run import Snapshot
from specdiff_core.schema.errors import OutOfMemory, SpecDiffError
from specdiff_core.schema.events import Finished
from specdiff_core.schema.fields import parse
from specdiff_core.schema.pairs import OWN_PAIRS

pytestmark = [
    pytest.mark.usefixtures("counting", "event_loops"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """The turns that all jobs of a test share."""
    monkeypatch.setattr(job.Job, "turns", Turns())
    return job.Job.turns


@pytest.fixture(scope="module")
def remote() -> Iterator[Any]:
    """What another process decodes and explores with."""
    there = Remote(load)
    yield there.load("embedded", lambda message: None)
    there.close()


def factory(pair: str, drafter: str, progress: Any) -> Any:
    return FakeDecoder()


def frames(asked: object, jobs: Jobs | None = None, factory: Any = factory) -> list[dict[str, Any]]:
    """All frames that differ."""
    return [json.loads(text) for text in dict.fromkeys(exploration.stream(exploring(factory), asked, jobs or Jobs()))]


def test_frames_tell_the_progress_and_at_last_everything() -> None:
    final = frames(ask(pause=0.05))
    last = final[-1]
    assert (last["phase"], last["done"], last["total"], last["finished"]) == ("finished", 5, 5, True)
    assert last["result"]["rows"] == [{"number": number} for number in range(1, 6)]
    assert last["result"]["settings"] == {"pair": "embedded", "to": 5, "pause": 0.05, "fails_at": 0, "words": ""}
    assert KEPT_RUNS.read(last["files"]["1"].removeprefix("runs/")) == b"race"
    under_way = [frame for frame in final[:-1] if frame.get("result")]
    assert under_way
    assert all(frame["phase"] == "exploring" and "files" not in frame for frame in under_way)
    assert [frame["seq"] for frame in final] == sorted({frame["seq"] for frame in final})
    client = TestClient(Starlette(routes=[Route("/runs/{name}", routes.trace_file)]))
    assert not any(frame.get("made") for frame in final[:-1])
    with zipfile.ZipFile(io.BytesIO(client.get(last["made"]).content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"count.txt": b"5"}
    assert client.get(f"runs/{'a' * 22}.zip").status_code == 404
    assert frames(ask("made-too-little", to=4))[-1]["made"] == ""


def test_stop_keeps_what_was_found() -> None:
    jobs, final = Jobs(), []
    for text in exploration.stream(exploring(factory), ask(to=1000, pause=0.02), jobs=jobs):
        final.append(json.loads(text))
        if final[-1].get("done", 0) >= 2 and not final[-1].get("finished"):
            threading.Thread(target=jobs.stop, args=(TOKEN, 5.0)).start()
    assert final[-1]["phase"] == "stopped"
    assert 2 <= final[-1]["done"] < 1000
    assert len(final[-1]["result"]["rows"]) == final[-1]["done"]
    jobs.stop("another-visitor", 5.0)


def test_a_part_that_hangs_reaches_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an update; whatever it waits for, its process is killed."""
    monkeypatch.setenv(EXPLORING, "0.3")
    monkeypatch.setattr(process, "STOPS_WITHIN", 0.3)
    monkeypatch.setattr(process, "BEAT", 0.1)
    there = Remote(load)
    engine, began = there.load("embedded", lambda message: None), time.monotonic()
    last = frames(ask(pause=60), factory=lambda *_: engine)[-1]
    assert last["card"]["code"] == "limit" and time.monotonic() - began < 30 and not there.alive()


def test_what_cannot_be_kept_leaves_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise SpecDiffError("The disk is full.")

    monkeypatch.setattr(KeptRuns, "keep", full)
    last = frames(ask())[-1]
    assert last["card"]["message"] == "The disk is full." and len(last["result"]["rows"]) == 5


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in the other process"])
def test_what_fails_in_the_middle_keeps_what_was_found(elsewhere: bool, remote: Any) -> None:
    engine = remote if elsewhere else FakeDecoder()
    last = frames(ask(pause=0.05, fails_at=4), factory=lambda *_: engine)[-1]
    assert last["phase"] == "failed"
    assert last["card"]["title"] == OutOfMemory.title
    assert len(last["result"]["rows"]) == 3
    assert KEPT_RUNS.read(last["files"]["1"].removeprefix("runs/")) == b"race"
    assert "result" not in frames(ask(fails_at=1), factory=lambda *_: engine)[-1]


def test_a_public_host_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch, turns: Turns) -> None:
    frames(ask())  # imports torch
    monkeypatch.setenv(EXPLORING, "0.3")
    last = frames(ask(to=1000, pause=0.02))[-1]
    assert last["card"]["code"] == "limit" and last["card"]["hint"]
    assert 1 <= last["done"] < 100 and last["files"]
    jobs = Jobs()
    with turns.races.turn():
        stream, job = begun(jobs, 0), jobs.find(TOKEN)
        assert job is not None and not job.done.wait(0.5), "the races of others are not its own time"
    assert json.loads([*stream][-1])["phase"] == "finished"


def test_what_the_browser_may_not_ask_is_a_card() -> None:
    tokens = [json.dumps({"token": token, "explore": "counting"}) for token in (12345678, ["a"] * 8, "short")]
    choices = [ask(to="far"), ask(unknown=1), ask(words="half of a pair: \ud800")]
    choices += [ask(explore="no such"), json.dumps({"token": TOKEN, "explore": "counting", "settings": []})]
    for asked in ("", "[]", "{}", None, "[" * 100_000, *tokens, *choices):
        (frame,) = frames(asked)
        assert frame["phase"] == "failed" and frame["card"]["hint"], asked


@pytest.mark.parametrize("name", ["doctor", "window-map", "side-by-side", "learn", "counting"])
def test_a_public_host_reads_no_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser sends what it likes. On one's own machine the pair is loaded."""
    looked: list[str] = []
    monkeypatch.setattr(own_models, "read_config", lambda folder: looked.append(str(folder)) or {})
    monkeypatch.setattr(own_pairs, "cached_folder", lambda source, *_: source)
    monkeypatch.setattr(host, "_served", {"public": True})
    monkeypatch.delenv(own_pairs.ALLOWED, raising=False)
    own = own_models.parse({"target": "/etc/passwd"}).name
    asked = ask(explore=name, pair=own)
    (frame,) = frames(asked, factory=lambda *_: pytest.fail("nothing is loaded"))
    refused = "Pair cannot be" if name == "learn" else "etc/passwd may not be loaded on this server"
    assert refused in frame["card"]["message"] and not looked
    if name == "doctor":
        (frame,) = frames(ask(explore=name, trained_for="/etc/passwd"), factory=lambda *_: pytest.fail("loaded"))
        assert refused in frame["card"]["message"] and not looked
    monkeypatch.setattr(host, "_served", {"public": False})
    if name == "counting":
        loaded: list[str] = []
        assert frames(asked, factory=lambda pair, *_: loaded.append(pair) or FakeDecoder())[-1]["phase"] == "finished"
        assert (loaded, looked) == ([own], ["/etc/passwd"])
        OWN_PAIRS.clear()


def test_the_forms_narrow_to_what_a_pair_has() -> None:
    names = controls.offered("embedded", lambda: {"gpt2-mdlm": "no network"})
    assert "gpt2-mdlm" not in names and "gpt2-mdlm:xl" in names
    final = {name: controls.described(name) for name in names}
    assert [*final["gpt2-mdlm:xl"]["methods"]] == ["vanilla", "autoregressive", "prompt_lookup", "specdiff"]
    known = {name for one in final.values() for name in (*one["drafters"], *one["methods"])}
    assert final["embedded"]["weight"] == 1 < final["gpt2-mdlm:xl"]["weight"]
    of: dict[str, dict[str, str]] = {}
    for name, form in exploration.forms("explore").items():
        assert form["takes"] > 0 and set(form["scales"]) <= {field["name"] for field in form["fields"]}, name
        for field in form["fields"]:
            assert field["of"] in ("", "drafters", "methods"), name
            assert not field["of"] or set(field["choices"]) <= known
        of[name] = {field["name"]: field["of"] for field in form["fields"]}
    assert (of["window-map"]["drafter"], of["text"]["methods"]) == ("drafters", "methods")
    assert all(("pair" in fields) == (name not in ("losslessness", "learn")) for name, fields in of.items())


def test_every_drafter_is_there_before_it_explores() -> None:
    asked: list[tuple[str, str]] = []

    def factory(pair: str, drafter: str, progress: Any) -> Any:
        asked.append((pair, drafter))
        if drafter == "eagle":
            raise OutOfMemory("full")
        return FakeDecoder()

    final = frames(ask(explore="text", methods="specdiff,eagle,dflash"), factory=factory)
    assert asked == [("embedded", "masked"), ("embedded", "eagle")]
    assert final[-1]["card"]["message"] == "full"
    asked.clear()
    final = frames(ask(explore="text", pair="gpt2-mdlm", methods="dflash,eagle,markov_tree"), factory=factory)
    assert not asked and "no drafter for dflash, eagle, markov_tree" in final[-1]["card"]["message"]
    assert "specdiff" in final[-1]["card"]["hint"]


def begun(jobs: Jobs, steps: int, **choice: Any) -> Iterator[str]:
    """The frames of an exploration that has made some steps."""
    stream = exploration.stream(exploring(factory), ask(**choice), jobs)
    while json.loads(next(stream)).get("done", 0) < steps:
        pass
    return stream


def test_a_reload_finds_it_again() -> None:
    jobs = Jobs()
    begun(jobs, 3, to=40, pause=0.02).close()  # the page goes away
    final = frames(json.dumps({"token": TOKEN}), jobs)
    assert final[0]["done"] >= 3
    assert (final[-1]["phase"], final[-1]["done"]) == ("finished", 40)
    assert frames(json.dumps({"token": TOKEN}), jobs)[-1]["phase"] == "gone"  # it was read
    assert frames(json.dumps({"token": "another-visitor"}), jobs)[-1]["phase"] == "gone"


def test_without_its_page_it_ends_but_not_within_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration.ExploreJob, "grace", 60)
    jobs = Jobs()
    stream = begun(jobs, 2, to=100_000, pause=0.01)
    job = jobs.find(TOKEN)
    assert job is not None
    stream.close()
    assert frames(ask("another-visitor"), jobs)[-1]["phase"] == "finished"
    assert not job.done.is_set() and not job.stop.is_set(), "another visitor's start is not its end"
    job.grace = 0.1
    assert job.done.wait(5)


def test_a_reload_in_the_queue_keeps_the_place(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old page's stream is closed only when it would send its next frame, after the new page has come."""
    monkeypatch.setattr(exploration.ExploreJob, "grace", 0.05)
    jobs = Jobs()
    with turns.explorations.turn(), turns.explorations.turn():
        old = exploration.stream(exploring(factory), ask(), jobs)
        new = exploration.stream(exploring(factory), json.dumps({"token": TOKEN}), jobs)
        assert [json.loads(next(page))["phase"] for page in (old, new)] == ["queued", "queued"]
        old.close()
        time.sleep(0.2)
    assert json.loads(list(new)[-1])["phase"] == "finished"


def test_between_two_races_an_exploration_goes_on(turns: Turns) -> None:
    """Although the next race waits already: it goes on once, then waits for that one."""
    stream = begun(Jobs(), 2, to=100_000, pause=0.001)
    race = ExitStack()
    race.enter_context(turns.races.turn())
    for _ in range(3):
        while (frame := json.loads(next(stream)))["phase"] != "waiting":
            pass
        following = ExitStack()
        waits = threading.Thread(target=following.enter_context, args=(turns.races.turn(),))
        waits.start()
        while len(turns.races._jobs) < 2:
            time.sleep(0.001)
        race.close()
        waits.join(5)
        race = following
        while json.loads(next(stream))["done"] == frame["done"]:
            pass
    stream.close()
    race.close()


def test_races_go_first(turns: Turns) -> None:
    waiting, stream = [], begun(Jobs(), 3, to=30, pause=0.02)
    with turns.races.turn():
        while (frame := json.loads(next(stream)))["phase"] != "waiting":
            pass
        for _ in range(10):
            waiting.append(json.loads(next(stream))["done"])
    assert max(waiting) - frame["done"] <= 1
    assert json.loads(list(stream)[-1])["done"] == 30


def test_two_visitors_explore_and_one_races(turns: Turns) -> None:
    """The race starts while both measure and ends before them; then both go on to their end."""
    jobs, ended, free = Jobs(), list[str](), list[bool]()

    class Looking(FakeDecoder):
        def decode(self, *args: Any, **options: Any) -> Iterator[Any]:
            free.append(turns.races.wait_gap(10, 0))
            return super().decode(*args, **options)

    explored = {name: begun(jobs, 2, token=name, to=60, pause=0.02) for name in ("visitor-1", "visitor-2")}

    def follow(name: str, updates: Iterator[str]) -> None:
        last = json.loads([*updates][-1])
        assert last["phase"] == "finished" and last.get("done", 60) == 60
        ended.append(name)

    decode = decoding(lambda *_: Looking(pace=0.01))
    ask = Ask(prompt="Once", plan=live.plan({"drafter": "block", "max_new_tokens": 24}))
    raced = job.stream(lambda run: running.Race(decode, ask), jobs, "visitor-3")
    threads = [threading.Thread(target=follow, args=item) for item in {**explored, "race": raced}.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert ended[0] == "race" and sorted(ended) == ["race", "visitor-1", "visitor-2"]
    assert free == [False, False] and turns.races.wait_gap(10, 5)


def part(snapshots: Iterator[Any]) -> Any:
    """The next part of an exploration, past the ticks while it is measured, when it has its turn; None at its end."""
    return next((step for step in snapshots if isinstance(step, Snapshot)), None)


def test_two_explorations_and_a_decode_take_turns_and_one_can_be_given_up(remote: Any) -> None:
    stops = [threading.Event(), threading.Event()]
    given_up, other = (
        remote.explore(Counting(to=to, pause=0.02), stop) for to, stop in zip((1000, 60), stops, strict=True)
    )
    first, own, second = part(given_up), part(other), part(given_up)
    assert 0 < first.done < second.done and own.done < own.total == 60 and not first.over
    assert isinstance(Decode(remote).events()[-1], Finished)
    for _ in range(5):  # left without an end; they take nobody's place
        part(remote.explore(Counting(to=1000, pause=0.02), threading.Event()))
        second, own = part(given_up), part(other) or own
    stops[0].set()
    last = list(given_up)[-1]
    assert last.over and second.done <= last.done < last.total
    final = [own, *other][-1]
    assert final.over and final.done == final.total == 60
    assert isinstance(Decode(remote).events()[-1], Finished)


@pytest.mark.parametrize("tab", list(explore.RECORDED))
def test_a_tab_knows_its_questions_and_every_recording(tab: str) -> None:
    folder = explore.RECORDED[tab]
    final = explore.explore_options(tab, folder, html.served)
    assert list(final["forms"]) == [name for name, kind in EXPLORATIONS.items() if kind.tab == tab]
    for name, stems in final["recorded"].items():
        assert stems or name == "counting"
        for stem in stems:
            found = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
            assert (found["kind"], found["name"], found["done"]) == ("exploration", name, found["total"])
            unasked = {field["name"]: field["default"] for field in EXPLORATIONS[name].form() if field["hidden"]}
            choice = msgspec.json.decode(msgspec.json.encode(parse(EXPLORATIONS[name], found["settings"])))
            assert choice == {"pair": "embedded"} | unasked | found["settings"], (
                "also of one from before pairs were asked"
            )
            assert not unasked.keys() & {field["name"] for field in final["forms"][name]["fields"]}
            assert {column for row in found["rows"] for column in row} <= EXPLORATIONS[name].columns.keys()


def test_a_broken_recording_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = (explore.RECORDED["explore"] / "losslessness.coins.json").read_bytes()
    (tmp_path / "losslessness.coins.json").write_bytes(good)
    for word, broken in enumerate((good[:5000], b"[]", b"", b"\xff\x00", b"{}")):
        (tmp_path / f"losslessness.{word}.json").write_bytes(broken)
    (tmp_path / "losslessness.folder.json").mkdir()
    assert [*explore.labelled(tmp_path, "losslessness")] == ["losslessness.coins"]
    gone = json.loads(good) | {"settings": {"pair": "own?target=/gone", "drafter": "mine"}}
    (tmp_path / "window-map.gone.json").write_text(json.dumps(gone), encoding="utf-8")
    assert "own?target=/gone" in explore.labelled(tmp_path, "window-map")["window-map.gone"], "its name will do"
    assert caplog.text.count("is left out") == 6
    (tmp_path / "index.json").write_bytes(b"{")
    assert recordings.recordings(tmp_path) == []


def test_recordings_of_the_real_model_come_first_and_labels_differ() -> None:
    folder = explore.RECORDED["explore"]
    for name in EXPLORATIONS:
        labels = [*explore.labelled(folder, name).values()]
        assert all(labels) and len({*labels}) == len(labels), name
    maps = explore.labelled(folder, "window-map")
    real = ["smollm2" in stem for stem in maps]
    assert real == sorted(real, reverse=True) and len(maps) > 2
    assert next(stem for stem in maps if "smollm2" not in stem) == "window-map.masked"
    assert [*explore.labelled(folder, "losslessness")] == [
        "losslessness.coins",
        "losslessness.engines",
        "losslessness.masked",
    ]
