"""Runs, explorations, Stop and errors on ZeroGPU: with the package ``spaces`` itself, without a GPU
behind it. ``test_app_gpu.py`` gives these tests a process of their own, and is its hub."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import time
from functools import partial
from typing import Any

import pytest
from app_fakes import TOKEN, FakeDecoder, ask, frames, trace_of

from app.run import exploration, gpu, job
from app.run import race as running
from app.run.job import Jobs
from app.run.kept import KEPT_RUNS
from app.run.record import Ask, decoding
from app.tabs import live
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.settings import DecodeConfig

SLOW: dict[str, Any] = DecodeConfig(gamma=2, steps=2, max_new_tokens=400).to_dict()
pytestmark = [
    pytest.mark.usefixtures("counting", "event_loops"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def factory(decoder: Any) -> Any:
    return lambda pair, drafter, progress: decoder


def test_a_run_decodes_on_an_attached_gpu() -> None:
    assert gpu.is_zero_gpu()
    decode = decoding(factory(FakeDecoder()))
    for tokens in (40, 24):
        ask = Ask(prompt="Once upon", plan=live.plan({"max_new_tokens": tokens}))
        *_, last = running.results(running.Race(decode, ask))
        assert last["finished"] and set(last["lanes"]) == {"vanilla", "drafted"}


def test_a_refusal_arrives_in_the_words_of_the_host() -> None:
    @gpu.on_gpu(lambda: 1)  # what the hub refuses
    def refused() -> Any:
        yield 1

    with pytest.raises(SpecDiffError, match="GPU limit") as raised:
        list(refused())
    assert raised.value.hint


def test_an_error_in_a_worker_is_raised_with_its_traceback() -> None:
    @gpu.on_gpu(lambda: 10)
    def fails() -> Any:
        yield 1
        raise LookupError("nobody foresaw this")

    values = fails()
    assert next(values) == 1
    with pytest.raises(LookupError, match="nobody foresaw this") as raised:
        next(values)
    assert "in fails" in str(raised.value.__cause__)


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_a_closed_tab_reach_the_worker(end: str) -> None:
    """Twice, because the second run's stop event is younger than the worker that sees it."""
    decode, jobs, races = decoding(factory(FakeDecoder(pace=0.05))), Jobs(), list[running.Race]()

    def make(run: str) -> running.Race:
        races.append(running.Race(decode, Ask(prompt="Once", plan=live.plan(SLOW), run=run)))
        return races[-1]

    for _ in range(2):
        updates = job.stream(make, jobs, "me")
        next(updates)
        while b"Committed" not in (KEPT_RUNS.read(races[-1].ask.trace.name) or b""):
            next(updates)
        began = time.monotonic()
        if end == "close":
            updates.close()
        else:
            threading.Thread(target=jobs.stop, args=("me", 5.0)).start()
            last = frames(updates)[-1]
            assert last["phase"] == "stopped" and trace_of(last).lanes["vanilla"][-1].reason == "stopped"
        assert races[-1].done.wait(4) and time.monotonic() - began < 4, "all of it would take minutes"


def test_stop_events_are_plain_values_and_each_is_fresh() -> None:
    first = gpu.stop_event()
    first.set()
    sent = pickle.loads(pickle.dumps(first))
    assert sent.is_set()
    many = [gpu.stop_event() for _ in gpu.FLAGS]
    assert not any(one.is_set() for one in many)
    many[7].set()
    assert [i for i, one in enumerate(many) if pickle.loads(pickle.dumps(one)).is_set()] == [7]


def test_an_exploration_on_an_attached_gpu_is_followed_after_a_reload_and_stopped() -> None:
    """The thread that follows it stays in the server: only its parts are measured in the worker."""
    jobs, measure = Jobs(), exploration.exploring(factory(FakeDecoder()))
    explore = partial(exploration.stream, measure, jobs=jobs)
    updates = explore(ask(to=100_000, pause=0.02))
    while json.loads(next(updates)).get("done", 0) < 3:
        pass
    updates.close()  # the page is reloaded
    again = explore(json.dumps({"token": TOKEN}))
    assert json.loads(next(again))["done"] >= 3
    threading.Thread(target=jobs.stop, args=(TOKEN, 5.0)).start()
    began = time.monotonic()
    last = json.loads(list(again)[-1])
    assert last["phase"] == "stopped" and last["files"] and time.monotonic() - began < 4
    assert len(last["result"]["rows"]) == last["done"] >= 3
    last = json.loads(list(explore(ask(fails_at=4)))[-1])
    assert last["card"]["message"] == "The device ran out of memory." and last["done"] == 3


def test_weights_are_loaded_where_the_package_pretends_a_gpu() -> None:
    import torch

    runner: Any = sys.modules["__main__"].engines._loaded["embedded"]
    assert {parameter.device for parameter in runner.engine.target.model.parameters()} == {torch.device("cuda:0")}
