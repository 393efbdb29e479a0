"""The runs that the server keeps: their room, their readers, and files that visitors open."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from app_fakes import FakeDecoder, frames, raced, raw, trace_of
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import actions, routes
from app.run import kept
from app.run.kept import KEPT_RUNS, KeptRuns
from app.run.record import Update, append
from app.tabs import live
from app.temporary import own_folder
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace


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


def test_the_run_store_outlives_its_folder_and_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOM", 50)
    monkeypatch.setattr(kept, "BLOCK", 1)
    traces = KeptRuns()
    growing = traces.new()
    with traces.growing(growing):
        growing.write_bytes(b"x" * 60)
        os.utime(growing, (1, 1))  # the clock jumped
        run = traces.keep(b"a run").removeprefix("runs/")
        assert traces.read(run) == b"a run" and growing.exists()
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
    last = frames(raced(lambda *_: FakeDecoder(), "Once", {}, live.plan))[-1]
    assert "full" in last["card"]["message"] and not last["trace"]

    class Full(io.FileIO):
        def truncate(self, size: int | None = None) -> int:
            return 0

    file: Any = SimpleNamespace(open=lambda *_, **__: Full("/dev/full", "r+"))
    steps = [("vanilla", event) for event in FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=9))]
    for act in (lambda: list(append(file, Update(), "r1", steps)), lambda: KEPT_RUNS.keep(b"race")):
        with pytest.raises(SpecDiffError, match="disk is full") as full:
            act()
        assert "operator" in full.value.hint


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
        assert trace_of(frame).title == "kept" and list(trace_of(frame).lanes) == list(lanes)
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
