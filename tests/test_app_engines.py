"""Pairs are loaded and warmed up once, by whoever comes first; the others wait, and may leave."""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
from app_fakes import FakeDecoder, raced
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import routes
from app.run.engines import Engines
from app.run.job import Jobs
from app.tabs import live
from specdiff_core.schema.errors import SpecDiffError, Stopped
from specdiff_core.schema.settings import DecodeConfig


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
        loader.start_in_background("embedded")  # two visitors opened the page
    assert begun.wait(10)
    messages: list[str] = []
    runner = threading.Thread(target=loader.runner, args=("embedded", "block", messages.append))
    runner.start()
    while not messages:
        time.sleep(0.01)
    go.set()
    runner.join(10)
    assert messages[0] == "Loading the target"
    list(loader.doing())
    late: list[str] = []
    assert loader.runner("embedded", "block", late.append) is loader.runner("embedded", "block", late.append)
    assert loads == ["embedded"] and not late


def test_stop_while_a_pair_loads_ends_both() -> None:
    loads: list[str] = []

    def load(pair: str, progress: Any) -> FakeDecoder:
        loads.append(pair)
        while True:
            progress("Downloading owner/name: 3 of 9 GB")
            time.sleep(0.005)

    jobs = Jobs()
    streamed = raced(Engines(load).runner, "Once", {}, live.plan, jobs=jobs, name="visitor")
    updates = []
    for frame in streamed:
        updates.append(json.loads(frame))
        if "Downloading" in str(updates[-1].get("message")):
            jobs.stop("visitor", patience=0)
    assert updates[-1]["phase"] == "stopped" and updates[-1]["finished"] and "card" not in updates[-1]
    assert updates[-1]["trace"] is None, "nothing is shown"
    assert loads == ["embedded"]


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
            engines.runner("embedded", "block", report)
    assert len(warmed) == 2


def test_a_host_can_ask_whether_the_server_lives_and_is_ready() -> None:
    alive, go = [True], threading.Event()
    go.set()

    def load(pair: str, progress: Any) -> FakeDecoder:
        alive[0] = go.wait(20)
        return FakeDecoder()

    engines = Engines(load, alive=lambda: alive[0])
    client = TestClient(Starlette(routes=routes.probes(engines.loading)))
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "loading", "doing": "No model is loaded yet"})
    engines.runner("embedded", "block", lambda message: None)
    assert client.get("/readyz").status_code == 200
    go.clear()
    alive[0] = False
    assert client.get("/readyz").status_code == 503
    go.set()
    for _ in engines.doing():  # another process loads it, without a visitor
        pass
    assert client.get("/readyz").status_code == 200


def test_a_process_that_dies_in_its_first_load_is_started_again() -> None:
    alive, dies = [False], iter([True, False])

    def load(pair: str, progress: Any) -> FakeDecoder:
        if next(dies):
            raise SpecDiffError("The decoding process ended unexpectedly.")
        alive[0] = True
        return FakeDecoder()

    engines = Engines(load, alive=lambda: alive[0])
    engines.start_in_background("embedded")
    for _ in range(2):
        for _ in engines.doing():
            pass
        waits = engines.loading()
    assert not waits
