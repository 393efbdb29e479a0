"""A GPU that the host attaches for one run (Spaces ZeroGPU): on a stand-in for ``spaces``, and on that package itself
where it is installed, with this process in place of the hub and no GPU behind it."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import gradio as gr
import pytest
from app_fakes import FakeDecoder, frames, trace_of
from test_app_explore import TOKEN, ask, counting  # noqa: F401  (a fixture)

from app import page
from app.run import exploration, gpu, job
from app.run import race as running
from app.run.job import Jobs
from app.tabs import live
from specdiff_core.schema.errors import ConfigError, RemoteTraceback, SpecDiffError
from specdiff_core.schema.settings import DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
SLOW: dict[str, Any] = DecodeConfig(gamma=2, steps=2, max_new_tokens=400).to_dict()
ZEROGPU = os.environ.get("SPACES_ZERO_GPU") == "1"  # set by test_all_this_with_the_package_itself
pytestmark = [
    pytest.mark.usefixtures("event_loops"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


class Loans:
    """A stand-in for ``spaces`` 0.51: a worker for each task, forked at its first call and kept, which gets pickled
    arguments and runs ahead of whoever listens; a closed generator ends it after its next value, and what it raises
    arrives as a name. Granted for the duration that is asked for, and not beyond its quota."""

    def __init__(self, quota: float) -> None:
        self.quota, self.asked, self.workers = quota, list[int](), list[Any]()

    def GPU(self, duration: Callable[..., int]) -> Callable[[Any], Any]:
        context = multiprocessing.get_context("fork")
        idle: list[tuple[Any, Any, Any]] = []

        def decorate(task: Any) -> Any:
            def work(calls: Any, left: Any) -> None:
                while True:
                    args = calls.recv()
                    left.clear()
                    values = task(*args)
                    try:
                        for value in values:
                            if left.is_set():
                                values.close()
                                break
                            calls.send(("value", value))
                    except Exception as error:
                        calls.send(("error", type(error).__name__))
                    calls.send(("end", None))

            def handler(*args: Any) -> Any:
                seconds = duration(*args)
                self.asked.append(seconds)
                if seconds > self.quota:
                    raise gr.Error("You have exceeded your ZeroGPU quota")
                self.quota -= seconds
                if not idle:
                    ours, theirs = context.Pipe()
                    left = context.Event()
                    worker = context.Process(target=work, args=(theirs, left), daemon=True)
                    worker.start()
                    self.workers.append(worker)
                    idle.append((worker, ours, left))
                worker, ours, left = idle.pop()
                ours.send_bytes(pickle.dumps(args))
                until = time.monotonic() + seconds
                while ours.poll(max(0.0, until - time.monotonic())):
                    kind, value = ours.recv()
                    if kind == "value":
                        try:
                            yield value
                        except GeneratorExit:
                            left.set()
                            while kind != "end":
                                kind, _ = ours.recv()
                            idle.append((worker, ours, left))
                            raise
                    elif kind == "error":
                        raise gr.Error(value)
                    else:
                        idle.append((worker, ours, left))
                        return
                worker.kill()
                raise gr.Error("GPU task aborted")

            return handler

        return decorate

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.kill()


@pytest.fixture
def loans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loans | None]:
    """A host with ZeroGPU; an installed package alone changes nothing. None where the real package is active."""
    if ZEROGPU:
        yield None
        return
    loans = Loans(quota=1000)
    spaces = ModuleType("spaces")
    spaces.__spec__ = ModuleSpec("spaces", None)
    spaces.GPU = loans.GPU
    monkeypatch.setitem(sys.modules, "spaces", spaces)
    assert not gpu.is_zero_gpu()
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert gpu.is_zero_gpu()
    yield loans
    loans.close()


def factory(decoder: Any) -> Any:
    return lambda pair, drafter, progress: decoder


@pytest.mark.skipif(ZEROGPU, reason="this host has the real ZeroGPU")
def test_elsewhere_the_decorator_returns_the_function_itself() -> None:
    def generate() -> None:
        """Nothing."""

    assert gpu.on_gpu(lambda: 1)(generate) is generate
    assert type(gpu.stop_event()) is threading.Event


def test_a_lent_gpu_is_borrowed_for_as_long_as_a_run_needs_it(loans: Loans | None) -> None:
    """Plain values go to the worker and come back; the last frame holds the whole race. The second run is decoded by
    the same worker, and a refusal arrives in its own words."""
    results = page._results(running.decoding(lambda *_: FakeDecoder()))
    for tokens in (40, 24):
        values = {"max_new_tokens": tokens}
        *_, last = results("Once upon", values, "live", "")
        assert last["finished"] and set(last["lanes"]) == {"vanilla", "drafted"}
        assert loans is None or loans.asked.pop() == gpu.seconds_of(live.plan(values))
    with pytest.raises(ConfigError, match="99") as raised:
        list(results("Once upon", {"gamma": 99}, "live", ""))
    assert raised.value.field == "gamma" and raised.value.__cause__ is None
    if loans is not None:
        assert len(loans.workers) == 1
        loans.quota = 5
        with pytest.raises(SpecDiffError, match="quota"):
            list(results("Once upon", {}, "live", ""))


def test_an_error_in_a_worker_is_raised_with_its_traceback(loans: Loans | None) -> None:
    @gpu.on_gpu(lambda: 10)
    def fails() -> Any:
        yield 1
        raise LookupError("nobody foresaw this")

    values = fails()
    assert next(values) == 1
    with pytest.raises(LookupError, match="nobody foresaw this") as raised:
        next(values)
    assert isinstance(raised.value.__cause__, RemoteTraceback) and "in fails" in str(raised.value.__cause__)


def test_a_run_that_holds_a_lent_gpu_too_long_is_ended(loans: Loans | None) -> None:
    if loans is None:
        pytest.skip("the hub ends it, not the package")

    @gpu.on_gpu(lambda seconds: seconds)
    def endless(seconds: int) -> Any:
        while True:
            yield "beat"
            time.sleep(0.05)

    with pytest.raises(SpecDiffError, match="aborted"):
        list(endless(1))


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_a_closed_tab_reach_the_worker(loans: Loans | None, end: str) -> None:
    """Twice, because the second run's stop event is younger than the worker that sees it."""
    decode, jobs, races = running.decoding(factory(FakeDecoder(pace=0.05))), Jobs(), list[running.Race]()

    def make(run: str) -> running.Race:
        races.append(running.Race(decode, "Once", live.plan(SLOW), run=run, watched=True))
        return races[-1]

    for _ in range(2):
        updates = job.stream(make, jobs, "me")
        while json.loads(next(updates))["phase"] != "measuring":
            pass
        began = time.monotonic()
        if end == "close":
            updates.close()
        else:
            threading.Thread(target=jobs.stop, args=("me", 5.0)).start()
            last = frames(updates)[-1]
            assert last["phase"] == "stopped" and trace_of(last).lanes["vanilla"][-1].reason == "stopped"
        assert races[-1].done.wait(4) and time.monotonic() - began < 4, "all of it would take minutes"
    assert loans is None or len(loans.workers) == 1


def test_stop_events_are_plain_values_and_each_is_fresh(loans: Loans | None) -> None:
    first = gpu.stop_event()
    first.set()
    sent = pickle.loads(pickle.dumps(first))
    assert sent.is_set()
    many = [gpu.stop_event() for _ in gpu.FLAGS]
    assert not any(one.is_set() for one in many)
    many[7].set()
    assert [i for i, one in enumerate(many) if pickle.loads(pickle.dumps(one)).is_set()] == [7]


def test_an_exploration_on_a_lent_gpu_is_followed_after_a_reload_and_stopped(loans: Loans | None) -> None:
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
    if loans is not None:
        assert loans.asked == [gpu.LONGEST] * 2 and len(loans.workers) == 1
        loans.quota = 5
        last = json.loads(list(explore(ask()))[-1])
        assert "exceeded your ZeroGPU quota" in last["card"]["message"] and last["card"]["hint"]


def test_a_loan_grows_with_what_is_asked_for() -> None:
    few, more = (live.plan({"max_new_tokens": tokens}) for tokens in (32, 320))
    assert gpu.BEGIN < gpu.seconds_of(few) < gpu.seconds_of(more) < gpu.LONGEST
    longest = DecodeConfig(max_new_tokens=480)
    assert gpu.seconds_of({str(lane): longest for lane in range(40)}) == gpu.LONGEST


def test_weights_are_loaded_where_the_package_pretends_a_gpu(loans: Loans | None) -> None:
    if loans is not None:
        pytest.skip("the stand-in pretends none")
    import torch

    engine: Any = sys.modules["__main__"].engines._loaded["embedded"]
    assert {parameter.device for parameter in engine.target.model.parameters()} == {torch.device("cuda:0")}
    assert engine.pair.placement.graphs is None, "a loan is too short to record passes"


class Hub(BaseHTTPRequestHandler):
    """What the package asks of ZeroGPU: a GPU is always free."""

    asked: list[tuple[str, dict[str, str]]]

    def do_POST(self) -> None:
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        self.asked.append((path, {name: values[0] for name, values in parse_qs(query).items()}))
        loans = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": str(len(self.asked))}
        body = json.dumps(loans).encode() if path == "/schedule" else b""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Silent."""


PRETENDED = """
import sys, torch
torch.version.cuda = torch.version.cuda or "12.8"  # of a torch without CUDA, what the package patches
torch._C._cuda_init = getattr(torch._C, "_cuda_init", print)
torch.cuda._is_in_bad_fork = bool
from app.run.engines import Engines
engines = Engines()
engines.prepare()  # first of all, as app/launch.py does
import pytest, spaces.zero.torch as moved
moved.init, moved.size, moved.move = (lambda uuid: None), (lambda: 0), (lambda callback=None: None)  # no GPU to move to
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", "default", *sys.argv[1:]]))
"""


@pytest.mark.slow  # and so not a part of that run
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ZeroGPU is Linux")
@pytest.mark.skipif(importlib.util.find_spec("spaces") is None, reason="the package spaces is not installed")
def test_all_this_with_the_package_itself(tmp_path: Path) -> None:
    """The tests above, with the package's own workers: on a CPU, which cannot move weights to a GPU."""
    hub = type("StopFlag", (Hub,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "cgroup").write_text("0::/space\n", encoding="utf-8")
    zerogpu = {
        "SPACES_ZERO_GPU": "1",
        "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{server.server_port}",
        "ZEROGPU_PROC_SELF_CGROUP_PATH": str(tmp_path / "cgroup"),
        "ZEROGPU_OFFLOAD_DIR": str(tmp_path / "tensors"),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", PRETENDED, __file__],
            cwd=ROOT,
            env=os.environ | zerogpu,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "8 passed, 2 skipped" in done.stdout, done.stdout[-2000:]
    scheduled = [asked for path, asked in hub.asked if path == "/schedule"]
    paths = [path for path, _ in hub.asked]
    assert paths.count("/release") == len(scheduled) > paths.count("/allow"), "workers are used again"
    factor = json.loads((_spaces() / "zero" / "configs.json").read_text(encoding="utf-8"))[0]["duration_factor"]
    wanted = round(gpu.seconds_of(live.plan({"max_new_tokens": 40})) * factor)
    assert str(wanted) in {asked["durationSeconds"] for asked in scheduled}


def _spaces() -> Path:
    """Where the package lies; found without importing it."""
    found = importlib.util.find_spec("spaces")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent
