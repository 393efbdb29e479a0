"""``python -m app.measure``: how soon the page is usable, and what it costs the clock.

A real server, a real browser (Playwright's Python package and a Chromium on the PATH), the embedded pair. Undisturbed
decodes with no page open, and the second run of a freshly opened page, take turns in changing order, so that drift of
the machine falls on both alike. Each start brings a new server and a new process for the undisturbed side, made as the
server makes its own: two processes with the same weights differ by some percent, wherever they lie in memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app import controls
from app.run.process import Remote
from app.run.race import warm_up_of
from specdiff_core.provenance import provenance
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.methods import two_lanes
from specdiff_core.schema.summary import final

LANES = ("vanilla", "drafted")
SETTLE = 500  # milliseconds: a page that was left is still being taken down
PATIENCE = 120_000  # milliseconds
LIVE = "window.specdiff.players.live"
PLAYING = f"window.specdiff?.players.live?.trace && {LIVE}.player.t > 0"
HEARD = f"{LIVE}.live && Object.values({LIVE}.live.events).some((events) => events.length)"
HEADER = f"{LIVE}.trace.lanes.drafted.find((event) => event.kind === 'RunStarted')"
STARTED = f"{HEADER}.started_at"
RESULT = """Object.fromEntries(Object.entries(window.specdiff.players.live.trace.lanes).map(([name, events]) => {
    const last = events.find((event) => event.kind === 'Finished');
    return [name, {seconds: last.seconds, ids: last.ids, waited: last.waited_seconds}];
}))"""


@contextmanager
def server() -> Iterator[tuple[str, float]]:
    """The page as people start it; yields its address and when it was asked to start (``time.monotonic``)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.monotonic()
    command = [sys.executable, "app.py", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}/", began
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def browser_page() -> Iterator[Any]:
    """A fresh tab.

    Raises:
        PairUnavailable: there is no browser to drive.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise PairUnavailable("Playwright is missing.", hint="pip install -r requirements-dev.txt") from error
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise PairUnavailable("No Chromium was found on the PATH.", hint="Install Chromium with your system's tools.")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=flags)
        yield chromium.new_page(viewport={"width": 1440, "height": 900})
        chromium.close()


def open_page(page: Any, url: str) -> None:
    """Go there as soon as the server answers, and wait until the recording plays."""
    until = time.monotonic() + PATIENCE / 1000
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            break
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > until:
                raise
            page.wait_for_timeout(20)
    page.goto(url)
    page.wait_for_function(PLAYING, timeout=PATIENCE)


def run_on_page(page: Any) -> tuple[float, dict[str, Any]]:
    """Press Run: seconds until an event of the run is on the page, and what its trace says at the end."""
    before = page.evaluate(STARTED)
    began = time.monotonic()
    page.click("#live-run")
    page.wait_for_function(HEARD, timeout=PATIENCE, polling=50)
    heard = time.monotonic() - began
    page.wait_for_function(
        f"!{LIVE}.live && {STARTED} !== {json.dumps(before)}",
        timeout=PATIENCE,
        polling=500,  # by default it asks in every animation frame, and would measure itself
    )
    page.evaluate(f"{LIVE}.player.pause()")  # the replay must not compete with the next measurement
    return heard, page.evaluate(RESULT)


class Alone:
    """The decode of the page's last run, in a process like the server's, with nobody watching.

    Attributes:
        load_seconds: for the process to start, import and load everything.
        header: what it runs on.
    """

    def __init__(self, page: Any) -> None:
        asked = page.evaluate(HEADER)
        self.prompt, self.config = asked["prompt"], controls.check_settings(asked["config"])
        remote = Remote()
        began = time.monotonic()
        self.engine = remote.load(self.config.pair, lambda message: None)
        self.load_seconds = time.monotonic() - began
        self.close = remote.close
        self.header = next(e for e in list(self.engine.decode(self.prompt, self.config)) if isinstance(e, RunStarted))
        self.decode()

    def decode(self) -> dict[str, Any]:
        """Both lanes without narration, without a page; each after the same warm-up as on the page."""
        found = {}
        for lane, settings in two_lanes(self.config).items():
            last = final(self.engine.decode(self.prompt, settings, detail=False, warm_up=warm_up_of(lane)))
            assert last is not None, "a decode ends with Finished or raises"
            found[lane] = {"seconds": last.seconds, "ids": list(last.ids), "waited": last.waited_seconds}
        return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """What a reader needs of repeated measurements."""
    return {"median": median(values), "low": min(values), "high": max(values)}


def certainty(values: np.ndarray, resamples: int = 2000) -> list[float]:
    """A percentile bootstrap interval (95 %) of the median: ``values [starts, turns]``; starts are drawn, then turns
    within them, because the turns of one start share its processes."""
    rng = np.random.default_rng(0)
    starts, turns = values.shape
    chosen = rng.integers(0, starts, size=(resamples, starts, 1))
    drawn = values[chosen, rng.integers(0, turns, size=(resamples, starts, turns))]
    return [float(bound) for bound in np.percentile(np.median(drawn, axis=(1, 2)), (2.5, 97.5))]


def waiting(runs: Sequence[dict[str, Any]]) -> float | None:
    """Threads that waited for a processor, on average: the median run; None where the system does not count them."""
    known = [run["waited"] / run["seconds"] for run in runs if run["waited"] is not None]
    return median(known) if len(known) == len(runs) else None


def measure(repeats: int, starts: int, argv: Sequence[str]) -> dict[str, Any]:
    """All figures of the page, as one result for ``python -m benchmarks report``.

    Each of ``starts`` servers serves ``repeats`` turns of both clocks, so that no single process decides the figure.
    """
    usable: list[float] = []  # seconds until the page plays
    first: list[float] = []  # from Run, pressed at once while the models still load, to the first event
    loads: list[float] = []
    later: list[float] = []
    runs: dict[str, list[dict[str, Any]]] = {"alone": [], "attached": []}  # start by start, turn by turn
    with browser_page() as page:
        for _ in range(starts):
            with server() as (url, began):
                open_page(page, url)
                usable.append(time.monotonic() - began)
                first.append(run_on_page(page)[0])
                alone = Alone(page)
                loads.append(alone.load_seconds)
                for turn in range(repeats):
                    for side in sorted(runs, reverse=turn % 2 == 0):  # neither is always first
                        if side == "alone":
                            page.goto("about:blank")  # a page that rests still takes some of the processor
                            page.wait_for_timeout(SETTLE)
                            runs[side].append(alone.decode())
                        else:
                            open_page(page, url)
                            run_on_page(page)  # the first run of a page also compiles its scripts
                            page.wait_for_timeout(SETTLE)
                            heard, run = run_on_page(page)
                            later.append(heard)
                            runs[side].append(run)
                alone.close()
    costs: dict[str, list[float]] = {lane: [] for lane in LANES}
    for told, attached in zip(runs["alone"], runs["attached"], strict=True):
        for lane in LANES:
            assert attached[lane]["ids"] == told[lane]["ids"], "both decode the same tokens"
            costs[lane].append(attached[lane]["seconds"] / told[lane]["seconds"])
    return {
        "kind": "page",
        "schema": 4,
        "provenance": provenance(argv, module="app.measure"),
        "device": alone.header.device,
        "dtype": alone.header.dtype,
        "threads": alone.header.threads,
        "target": alone.header.models.get("target", ""),
        "settings": alone.config.to_dict(),
        "starts": starts,
        "usable_seconds": spread(usable),
        "load_seconds": median(loads),
        "first_event_seconds": {"first": spread(first), "later": spread(later)},
        "attached": {
            lane: {**spread(values), "interval": certainty(np.reshape(values, (starts, repeats)))}
            for lane, values in costs.items()
        },
        "waiting": {lane: {side: waiting([run[lane] for run in runs[side]]) for side in runs} for lane in LANES},
        "turns": len(runs["alone"]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m app.measure", description="Measure the page in a real browser.")
    parser.add_argument("--repeats", type=int, default=6, metavar="N", help="turns of both at each start [default 6]")
    parser.add_argument("--starts", type=int, default=8, metavar="N", help="cold starts of the server [default 8]")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result there, for benchmarks report")
    args = parser.parse_args(argv)
    if min(args.repeats, args.starts) < 1:
        parser.error("--repeats and --starts must be at least 1")
    try:
        result = measure(args.repeats, args.starts, sys.argv[1:] if argv is None else argv)
    except SpecDiffError as error:
        parser.exit(2, f"{error.message}\n{error.hint}\n")
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if args.json is not None:
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
