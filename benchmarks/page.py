"""How soon the page is usable, and how much a watching browser slows a decode.

A real server, a real browser (Playwright's Python package and a Chromium on the PATH), and the race
that the page opens with. Decodes with no page open alternate with the second run of a freshly
opened page, so that drift of the machine affects both. Every start has a new server and a new
process for the decodes without a page, created as the server creates its own: two processes with
the same weights differ by some percent.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import psutil

from app.run.process import Remote
from app.run.record import Ask, Update
from benchmarks.load import server, wait_for
from benchmarks.tables import Tabled, bounds, finish
from specdiff_core.cli import options
from specdiff_core.measure.sweep import table
from specdiff_core.provenance import provenance
from specdiff_core.schema.errors import ConfigError, PairUnavailable
from specdiff_core.schema.events import Event, RunStarted
from specdiff_core.schema.methods import DRAFTED, two_lanes
from specdiff_core.schema.summary import final
from specdiff_core.schema.trace import header_line, read_trace

BROWSERS = ("google-chrome", "chromium-browser", "chromium", "chromium-headless-shell")
LANES = ("vanilla", "drafted")
RATIO = "speed-up"
SETTLE = 500  # milliseconds in which the browser closes the page it left
TIMEOUT = 120_000  # milliseconds
LIVE = "window.specdiff.tabs.live"
THERE = "window.specdiff?.tabs.live?.shown.trace"
PLAYING = f"{THERE} && {LIVE}.shown.playhead.t > 0"
FIRSTS = {
    "event": "true",
    "token": "Object.values(states).some((state) => state?.tokens.length)",
    "window": "states.drafted?.window?.draft || states.drafted?.tokens.length",
}
"""The first of each on the screen: its condition, with the states of all lanes."""
_FIRSTS = FIRSTS.items()
WATCH = f"""() => {{
    const began = performance.now();
    window.firsts = {{}};
    const look = () => {{
        const {{ growing, stage: {{ states }} }} = {LIVE}.shown;
        if (growing) {{
            {"".join(f"if ({held}) window.firsts.{name} ??= performance.now() - began;" for name, held in _FIRSTS)}
        }}
        if (Object.keys(window.firsts).length < {len(FIRSTS)}) setTimeout(look, 10);
    }};
    document.getElementById('live-run').click();
    look();
}}"""
HEADER = f"{LIVE}.shown.trace.lanes.drafted.find((event) => event.kind === 'RunStarted')"
RESULT = """Object.fromEntries(Object.entries(window.specdiff.tabs.live.shown.trace.lanes).map(([name, events]) => {
    const last = events.find((event) => event.kind === 'Finished');
    return [name, {seconds: last.seconds, ids: last.ids, waited: last.waited_seconds}];
}))"""


@contextmanager
def browser_page(idle: bool = False) -> Iterator[Any]:
    """A fresh tab; ``idle``: of a browser that takes only time that no other program wants, as if on another machine.

    Raises:
        PairUnavailable: there is no browser to drive.
    """
    from playwright.sync_api import sync_playwright  # of requirements-dev.txt

    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise PairUnavailable("No Chromium was found on the PATH.", hint="Install Chromium with your system's tools.")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=executable, args=flags)
        for process in psutil.Process().children(recursive=True) if idle else ():
            for thread in process.threads():  # a new one inherits it
                os.sched_setscheduler(thread.id, os.SCHED_IDLE, os.sched_param(0))
        yield chromium.new_page(viewport={"width": 1440, "height": 900})
        chromium.close()


def open_page(page: Any, url: str) -> None:
    """Open the page and wait until its recording plays."""
    page.goto(url)
    page.wait_for_function(PLAYING, timeout=TIMEOUT)


def first_visit(browser: Any, url: str) -> dict[str, float]:
    """Open the page with an empty cache: seconds until it is painted and until its recording is there, and the
    kilobytes that have arrived by then and two seconds later, when it has drawn its charts."""
    context = browser.new_context()
    page, sizes = context.new_page(), []
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"] / 1000))
    began = time.monotonic()
    page.goto(url)
    page.wait_for_function(THERE, timeout=TIMEOUT)
    visit = {"there": time.monotonic() - began, "size": sum(sizes)}
    visit["painted"] = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
    page.wait_for_timeout(2000)
    visit["whole"] = sum(sizes)
    context.close()
    return visit


def run_on_page(page: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Press Run: seconds until the page shows the first event, token and draft window (:data:`FIRSTS`), and each
    lane's result from its trace."""
    page.evaluate(WATCH)
    over = f"window.firsts.event && !{LIVE}.shown.growing"
    page.wait_for_function(over, timeout=TIMEOUT, polling=500)  # not in every frame
    page.evaluate(f"{LIVE}.shown.playhead.pause()")  # the replay must not compete with the next measurement
    firsts = {name: milliseconds / 1000 for name, milliseconds in page.evaluate("window.firsts").items()}
    return firsts, page.evaluate(RESULT)


class Alone:
    """The decode of the page's last run, in a process like the server's, without a page.

    Attributes:
        load_seconds: to start the process, import and load everything.
        memory: resident memory of that process after its first race, in MiB.
        header: of its first run.
    """

    def __init__(self, page: Any) -> None:
        from app import controls  # imports Gradio

        header = page.evaluate(HEADER)
        self.prompt, self.config = header["prompt"], controls.check_settings(header["config"])
        remote = Remote()
        began = time.monotonic()
        self.runner = remote.load(self.config.pair, lambda message: None)
        self.load_seconds = time.monotonic() - began
        self.close = remote.close
        self.header = next(event for event in self.race(0)[DRAFTED] if isinstance(event, RunStarted))
        (process,) = (child for child in multiprocessing.active_children() if child.name == "decode" and child.pid)
        self.memory = psutil.Process(process.pid).memory_info().rss / 2**20

    def race(self, threads: int) -> Mapping[str, Sequence[Event]]:
        """The race of the page's last run."""
        ask = Ask(prompt=self.prompt, plan=two_lanes(self.config), threads=threads)
        now = Update(size=ask.trace.write_bytes(header_line(ask.plan)))
        for _ in self.runner.race(ask, now, threading.Event()):
            pass
        return read_trace(ask.trace).lanes

    def decode(self, threads: int) -> dict[str, Any]:
        """The results of that race, by lane."""
        results = {}
        for lane, events in self.race(threads).items():
            last = final(events)
            assert last is not None, "a decode ends with Finished or raises"
            results[lane] = {"seconds": last.seconds, "ids": list(last.ids), "waited": last.waited_seconds}
        return results


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values)}


def median_interval(values: np.ndarray, resamples: int = 2000) -> list[float]:
    """A percentile bootstrap interval (95 %) of the median: ``values [starts, turns]``; starts are
    drawn, then turns within them, because the turns of one start share its processes."""
    rng = np.random.default_rng(0)
    starts, turns = values.shape
    chosen = rng.integers(0, starts, size=(resamples, starts, 1))
    drawn = values[chosen, rng.integers(0, turns, size=(resamples, starts, turns))]
    return [float(bound) for bound in np.percentile(np.median(drawn, axis=(1, 2)), (2.5, 97.5))]


def waiting(runs: Sequence[dict[str, Any]]) -> float | None:
    """Threads that waited for a processor in the median run, on average; None if not counted."""
    waited = [run["waited"] / run["seconds"] for run in runs if run["waited"] is not None]
    return median(waited) if len(waited) == len(runs) else None


class Page(Tabled, kw_only=True, tag="page"):
    """How soon the page is usable and how much it slows a decode."""

    schema: Literal[6] = 6  # type: ignore[assignment]  # this format has its own version number
    starts: int
    turns: int
    usable_seconds: dict[str, float]  # median, low, high
    load_seconds: dict[str, float]
    memory_mib: dict[str, float]
    first_seconds: dict[str, dict[str, dict[str, float]]]  # first and later run -> what -> median, low, high
    attached: dict[str, dict[str, Any]]  # lane -> its clock with the page over that without
    waiting: dict[str, dict[str, float | None]]  # lane -> attached and alone
    idle: bool = False  # whether the browser took only time that no other program wanted
    visits: dict[str, dict[str, float]] | None = None  # of a browser with an empty cache (:func:`first_visit`)

    def tables(self) -> list[str]:
        first, settings = self.first_seconds, self.settings
        waits = [
            [wait, str(count), f"{value['median']:.2f} s", f"{bounds(value['low'], value['high'])} s"]
            for wait, count, value in (
                ("from the command to a page that plays its recording", self.starts, self.usable_seconds),
                ("from Run to the first event on the page, pressed at once", self.starts, first["first"]["event"]),
                *(
                    (f"from Run to the first {what}, models loaded", self.turns, first["later"][what])
                    for what in FIRSTS
                ),
                ("to start the decoding process and load the models", self.starts, self.load_seconds),
                *(
                    (f"a first visit, until {words}", self.starts, self.visits[name])
                    for name, words in {"painted": "something is painted", "there": "the recording is there"}.items()
                    if self.visits
                ),
            )
        ]
        memory = self.memory_mib
        costs = []
        for lane, value in self.attached.items():
            low, high = value["interval"]
            costs.append(f"{lane} {value['median']:.3f}× ({bounds(low, high, '.3f')})")
        return [
            table(["wait", "times", "median", "lowest–highest"], waits),
            "A real server and a real browser on the same machine, with the files in its disk cache."
            + " The browser ran at idle priority, as if on another machine." * self.idle
            + f" The decoding process holds {memory['median']:.0f} MiB after a race "
            f"({bounds(memory['low'], memory['high'], '.0f')})."
            + "".join(
                f" A first visit transfers {value['size']['median']:.0f} kB until the recording is "
                f"there, and {value['whole']['median']:.0f} kB with the charts."
                for value in [self.visits]
                if value
            )
            + " Decode clock with the page attached (every event sent, the browser drawing) over the "
            f"clock of the same decode with no page open, medians of {self.turns} turns with a bootstrap "
            f"over starts and their turns: {', '.join(costs)}. The page's second run every time; "
            f"{settings['max_new_tokens']} tokens, {settings['drafter']} γ {settings['gamma']}, T {settings['steps']}.",
        ]


def measure(repeats: int, starts: int, argv: Sequence[str], *, idle: bool = False) -> Page:
    """Measure ``repeats`` turns of both clocks on each of ``starts`` servers, so that no single
    process decides the result."""
    usable: list[float] = []  # seconds until the page plays
    first: list[dict[str, float]] = []  # from Run, pressed while the models load
    loads: list[float] = []
    memory: list[float] = []
    later: list[dict[str, float]] = []
    visits: list[dict[str, float]] = []
    runs: dict[str, list[dict[str, Any]]] = {"alone": [], "attached": []}  # by start, then by turn
    with browser_page(idle=idle) as page:
        for _ in range(starts):
            began = time.monotonic()
            with server() as (url, process):
                wait_for(url, process, pause=0.02)
                open_page(page, url)
                usable.append(time.monotonic() - began)
                first.append(run_on_page(page)[0])
                alone, threads = Alone(page), page.evaluate(f"{HEADER}.threads")
                visits.append(first_visit(page.context.browser, url))
                loads.append(alone.load_seconds)
                memory.append(alone.memory)
                for turn in range(repeats):
                    for side in sorted(runs, reverse=turn % 2 == 0):  # neither is always first
                        if side == "alone":
                            page.goto("about:blank")  # an idle page still uses some time
                            page.wait_for_timeout(SETTLE)
                            runs[side].append(alone.decode(threads))
                        else:
                            open_page(page, url)
                            run_on_page(page)  # the first run of a page also compiles its scripts
                            page.wait_for_timeout(SETTLE)
                            seconds, run = run_on_page(page)
                            later.append(seconds)
                            runs[side].append(run)
                            before, threads = threads, page.evaluate(f"{HEADER}.threads")
                            if turn % 2 and before != threads:  # alone came first, with another number
                                page.goto("about:blank")
                                page.wait_for_timeout(SETTLE)
                                runs["alone"][-1] = alone.decode(threads)
                alone.close()
    costs: dict[str, list[float]] = {lane: [] for lane in LANES}
    for alone_run, attached in zip(runs["alone"], runs["attached"], strict=True):
        for lane in LANES:
            assert attached[lane]["ids"] == alone_run[lane]["ids"], "both decode the same tokens"
            costs[lane].append(attached[lane]["seconds"] / alone_run[lane]["seconds"])
        costs.setdefault(RATIO, []).append(costs["vanilla"][-1] / costs["drafted"][-1])
    shape = (starts, repeats)
    return Page(
        provenance=provenance(argv, module="benchmarks"),
        device=alone.header.device,
        dtype=alone.header.dtype,
        threads=alone.header.threads,
        target=alone.header.models.get("target", ""),
        settings=alone.config.to_dict(),
        starts=starts,
        usable_seconds=spread(usable),
        load_seconds=spread(loads),
        memory_mib=spread(memory),
        first_seconds={
            run: {what: spread([one[what] for one in waits]) for what in FIRSTS}
            for run, waits in {"first": first, "later": later}.items()
        },
        attached={
            lane: {**spread(values), "interval": median_interval(np.reshape(values, shape))}
            for lane, values in costs.items()
        },
        waiting={lane: {side: waiting([run[lane] for run in runs[side]]) for side in runs} for lane in LANES},
        turns=len(runs["alone"]),
        idle=idle,
        visits={name: spread([visit[name] for visit in visits]) for name in visits[0]},
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=6, metavar="N", help="turns of both at each start [default 6]")
    parser.add_argument("--starts", type=int, default=8, metavar="N", help="cold starts of the server [default 8]")
    parser.add_argument("--idle", action="store_true", help="a browser at idle priority, as if on another machine")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result there")


def run(args: argparse.Namespace) -> None:
    if min(args.repeats, args.starts) < 1:
        raise ConfigError("--repeats and --starts must be at least 1.", field="repeats")
    options.check_target(args.json, "json")
    finish(args, measure(args.repeats, args.starts, args.argv, idle=args.idle))
