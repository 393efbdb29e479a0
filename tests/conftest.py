"""Shared test set-up: one torch thread (small tensors), no outside request."""

from __future__ import annotations

import collections
import gc
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from app.gradio_patches import skip_stubs

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process would compile all tests again

gc.disable()  # until all tests are collected: a quarter of the time of the imports
skip_stubs()  # a second or two in each process
signal.signal(signal.SIGINT, signal.default_int_handler)  # missing in a background process
hypothesis.settings.register_profile("lab", deadline=None)  # slow is for benchmarks
hypothesis.settings.load_profile("lab")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort files: with a browser, those that are marked early, and then by their number of tests."""
    tests = collections.Counter(item.path for item in items)

    def order(item: pytest.Item) -> tuple[bool, bool, int, Path]:
        browser, early = (item.get_closest_marker(name) is not None for name in ("browser", "early"))
        return not browser, not early, -tests[item.path], item.path

    items.sort(key=order)


def pytest_collection_finish() -> None:
    """What was imported stays: no later garbage collection walks through it."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def event_loops() -> Iterator[None]:
    """Gradio 6 leaves an event loop for every Blocks that never launches; collect them quietly."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exploration that counts, in jobs that look around often."""
    from remote_fakes import Counting

    from app.run import job, runner, turns
    from specdiff_core.explorations import EXPLORATIONS

    monkeypatch.setitem(EXPLORATIONS, "counting", Counting)
    for module, name in ((job, "BEAT"), (job, "GLANCE"), (turns, "GLANCE"), (runner, "SLICE")):
        monkeypatch.setattr(module, name, 0.02)


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A scripted decoder, which every command opens."""
    from app_fakes import FakeDecoder

    from specdiff_core.cli import options

    found = FakeDecoder()
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: found)
    return found


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them for their digest takes longer than a scripted sweep."""
    monkeypatch.setattr("specdiff_core.measure.runner.weights_digest", lambda pair: "weights")


@pytest.fixture(scope="module")
def engine() -> Any:
    """The embedded pair with the drafters of the explorations."""
    import specdiff_core as lab

    return lab.load(drafters=["masked", "masked_streak", "block", "none", "prompt_lookup"])


@pytest.fixture
def few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warm-ups, and no probe of the threads: they are tested with the engine."""
    from specdiff_core.engine import Engine
    from specdiff_core.explorations import what_it_takes, window_map
    from specdiff_core.measure.passes import PassTimes

    monkeypatch.setattr(Engine, "warm_up", lambda self, config, *_, **more: self.drafter(config.drafter))
    monkeypatch.setattr("specdiff_core.engine.quickest_threads", lambda *_: 1)
    for module in (what_it_takes, window_map):
        monkeypatch.setattr(module, "REPEATS", 1)
    monkeypatch.setitem(PassTimes.__init__.__kwdefaults__, "tokens", 4)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the scripted page writes."""
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="session")
def serve(folder: Path) -> Iterator[Any]:
    """Start a server of the scripted page, which lives as long as the tests of a process."""
    from browsing import serving

    with ExitStack() as stack:
        yield lambda port=None: stack.enter_context(serving(folder, port=port))


@pytest.fixture(scope="session")
def served(serve: Any) -> Any:
    """The first one: its address, and its process."""
    return serve()


@pytest.fixture(scope="session")
def address(served: Any) -> str:
    """Where the scripted page is, for all tests of a process."""
    return served[0]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium, one for all tests of a process."""
    from browsing import CHROMIUM, FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
