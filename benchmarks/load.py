"""A load test: ``python -m benchmarks.load --visitors 50``.

Starts a server on the embedded pair, lets that many clients start races at once, repeatedly, and
reports errors, mixed-up answers, seconds to the server's first message and to the last, and the
server's memory (best with ``--visitors 4 --rounds 100``). ``--phones N`` lets N phones open one
lesson at once first: nothing is decoded, and the report has the seconds of each request and of a
whole page. ``--fuzz N`` adds malformed calls, which must not cause a traceback or stop the server.
The exit code is 1 after any error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from specdiff_core.schema.errors import PairUnavailable
from specdiff_core.schema.settings import DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("google-chrome", "chromium-browser", "chromium", "chromium-headless-shell")
ANIMALS = ("cat", "dog", "fox", "owl", "hen", "cow", "bee", "ant", "pig", "rat")
TIMEOUT = 900.0
"""Seconds after which an answer counts as missing."""
GROWTH = 1.15
"""Largest ratio of memory after all runs to memory after the first ones."""


@dataclass
class Met:
    firsts: list[float] = field(default_factory=list)  # seconds to the first message
    wholes: list[float] = field(default_factory=list)  # to the last one
    errors: list[str] = field(default_factory=list)
    mixed_up: list[str] = field(default_factory=list)  # answers to other requests
    texts: dict[str, str] = field(default_factory=dict)  # prompt -> text, the same for all visitors
    memory: list[int] = field(default_factory=list)  # bytes of server and decoder, after each round
    heads: list[float] = field(default_factory=list)  # seconds until a phone has the page
    requests: list[float] = field(default_factory=list)  # of each file behind it
    lessons: list[float] = field(default_factory=list)  # until it has everything

    def table(self) -> str:
        lines = [f"answers          {len(self.wholes)}", f"errors           {len(self.errors)}"]
        lines.append(f"wrong answers    {len(self.mixed_up)}")
        times = {"first message": self.firsts, "whole race": self.wholes}
        times |= {"page": self.heads, "file": self.requests, "everything": self.lessons}
        for name, seconds in times.items():
            if seconds:
                middle, late = statistics.median(seconds), sorted(seconds)[int(0.95 * (len(seconds) - 1))]
                lines.append(f"{name:16} median {middle:.2f} s, 95 % {late:.2f} s")
        if self.memory:
            readings = [f"{value / 2**20:.0f}" for value in self.memory]
            readings = readings if len(readings) < 8 else [*readings[:3], "…", *readings[-3:]]
            lines.append(f"memory           {', '.join(readings)} MiB after each round")
        return "\n".join([*lines, *self.errors[:5], *self.mixed_up[:5]])

    @property
    def failed(self) -> bool:
        grown = len(self.memory) > 2 and self.memory[-1] > GROWTH * self.memory[1]
        return bool(self.errors or self.mixed_up or grown)


@contextmanager
def server(out: Any = subprocess.DEVNULL) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server of this checkout on a free port, which writes to ``out``; yields its address
    and its process. It isn't ready yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "app.py", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process: subprocess.Popen[bytes], pause: float = 0.5) -> None:
    """Wait until ``url`` answers, asking every ``pause`` seconds."""
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5, follow_redirects=True).status_code == 200:
                return
        time.sleep(pause)
    raise SystemExit("The server ended, or was not ready in two minutes; see its log.")


@contextmanager
def browser_page(width: int = 1440, height: int = 900, idle: bool = False) -> Iterator[Any]:
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
        yield chromium.new_page(viewport={"width": width, "height": height})
        chromium.close()


def memory(process: psutil.Process) -> int:
    """Bytes that the server and its decoder hold."""
    resident = 0
    for proc in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            resident += proc.memory_info().rss
    return resident


async def ask(client: httpx.AsyncClient, endpoint: str, data: list[Any]) -> AsyncGenerator[tuple[str, Any]]:
    """The events of one call: (name, value)."""
    begun = await client.post(f"/gradio_api/call/{endpoint}", json={"data": data}, timeout=TIMEOUT)
    begun.raise_for_status()
    async with client.stream(
        "GET", f"/gradio_api/call/{endpoint}/{begun.json()['event_id']}", timeout=TIMEOUT
    ) as answer:
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:") and name != "heartbeat":
                yield name, json.loads(line[5:] or "null")


async def visit(url: str, number: int, round: int, tokens: int, met: Met) -> None:
    """One visitor's race of a round, of a prompt that says whose it is."""
    async with httpx.AsyncClient(base_url=url) as client:
        prompt = f"Once upon a time, a {ANIMALS[number % len(ANIMALS)]} had {number} friends and {round % 3} hats."
        began, first, last = time.monotonic(), 0.0, None
        try:
            async for name, value in ask(client, "race", [prompt, *settings(tokens)]):
                first = first or time.monotonic()
                if name == "error":
                    raise RuntimeError(f"the server said {value!r}")
                last = value[0] if value else last
        except (httpx.HTTPError, RuntimeError, ValueError) as error:
            met.errors.append(f"visitor {number}: {type(error).__name__}: {error}")
            return
        text = json.dumps(last, sort_keys=True)
        if not isinstance(last, dict) or not last.get("text"):
            met.errors.append(f"visitor {number}: no text in {text[:200]}")
        elif met.texts.setdefault(prompt, last["text"]) != last["text"]:
            met.mixed_up.append(f"visitor {number} asked {prompt!r} and got {last['text'][:80]!r}")
        met.firsts.append(first - began)
        met.wholes.append(time.monotonic() - began)


def files_of_page(url: str, lesson: str) -> list[str]:
    """The files that a browser fetches when it first opens a lesson, the page first."""
    urls: list[str] = []
    with browser_page(width=390, height=844) as page:
        page.on("request", lambda request: urls.append(request.url) if request.method == "GET" else None)
        page.goto(f"{url}/?lesson={lesson}")
        requested = 0
        while requested != len(urls):  # until it has asked for nothing in two seconds
            requested = len(urls)
            page.wait_for_timeout(2000)
    return [address.removeprefix(url) for address in urls if "/queue/" not in address and address.startswith(url)]


async def phone(url: str, paths: Sequence[str], met: Met) -> None:
    """A phone that fetches the page, and then all other files over six connections, as a browser
    does. It is curl, which takes little of the two processors that server and phones share here."""
    began = time.monotonic()
    for files, times in ((paths[:1], met.heads), (paths[1:], met.requests)):
        command = ["curl", "--no-progress-meter", "--parallel", "--parallel-max", "6", "--write-out"]
        command += ["%{http_code} %{time_total} %{url}\n", "--header", "Accept-Encoding: gzip, br"]
        for file in files:
            command += ["--output", "/dev/null", url + file]
        curl = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        for line in (await curl.communicate())[0].decode(errors="replace").splitlines():
            status, seconds, address = line.split(" ", 2)
            times.append(float(seconds))
            if status != "200":
                met.errors.append(f"{address}: {status}")
    met.lessons.append(time.monotonic() - began)


def settings(tokens: int) -> list[Any]:
    """What the race endpoint takes behind the prompt, in its order; no events in the answer."""
    values = DecodeConfig(max_new_tokens=tokens, ignore_eos=True).to_dict()
    return [*values.values(), False]


ODD: tuple[Any, ...] = (
    None, "", "x", -1, 0, 1e308, -1e308, "NaN", True, [], {}, [[]], {"a": 1}, "\x00", "‮", "<script>", "🦊" * 50, 2**70,
    "../../etc/passwd", "own?target=/etc", "own?target=" + "x" * 400, "'; drop table", "%00", "\\u0000",
)  # fmt: skip  # several values a line


async def fuzz(url: str, calls: int, met: Met, seed: int = 0) -> None:
    """Broken calls: each must end in an answer or a plain error, none in a traceback."""
    draw = random.Random(seed)
    valid = ["Once upon", *settings(8)]

    async def broken(client: httpx.AsyncClient, count: int) -> None:
        for _ in range(count):
            data: list[Any] = list(valid)
            for _ in range(draw.randint(1, 4)):
                data[draw.randrange(len(data))] = draw.choice(ODD)
            body = draw.choice([data, data[: draw.randrange(len(data))], [*data, *ODD], ODD[draw.randrange(len(ODD))]])
            try:
                answer = await client.post("/gradio_api/call/race", json={"data": body}, timeout=TIMEOUT)
                if answer.status_code == 200:
                    event = answer.json()["event_id"]
                    answer = await client.get(f"/gradio_api/call/race/{event}", timeout=TIMEOUT)
                if re.search(r"Traceback|File \"|\.py\b", answer.text):
                    met.errors.append(f"a traceback for {body!r:.200}: {answer.text[:300]}")
            except (httpx.HTTPError, ValueError, KeyError) as error:
                met.errors.append(f"{type(error).__name__} for {body!r:.200}: {error}")

    async with httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=16)) as client:
        await asyncio.gather(*(broken(client, calls // 16 + (i < calls % 16)) for i in range(16)))
        async for name, _ in ask(client, "race", valid):
            if name == "error":
                met.errors.append("after all broken calls a plain run fails")


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__.split("\n\n")[1])
    parser.add_argument("--visitors", type=int, default=50, help="clients at the same time [default 50]")
    parser.add_argument("--rounds", type=int, default=3, help="times that all of them ask [default 3]")
    parser.add_argument("--tokens", type=int, default=16, help="new tokens of each race [default 16]")
    parser.add_argument("--phones", type=int, default=0, metavar="N", help="phones on one lesson first [default none]")
    parser.add_argument("--lesson", default="gamma", help="name of that lesson [default gamma]")
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="broken calls afterwards [default none]")
    default = Path(tempfile.gettempdir()) / "specdiff-load.log"
    parser.add_argument("--log", type=Path, default=default, help=f"the server's log [default {default}]")
    args = parser.parse_args(argv)
    args.log.write_bytes(b"")
    met = Met()

    def measure(url: str, process: psutil.Process) -> None:
        if args.phones:
            paths = files_of_page(url, args.lesson)

            async def class_room() -> None:
                await asyncio.gather(*(phone(url, paths, met) for _ in range(args.phones)))

            asyncio.run(class_room())
            requests = len(met.heads) + len(met.requests)
            print(f"{args.phones} phones: {requests} requests, {len(met.errors)} errors", flush=True)
        for round in range(args.rounds):

            async def together(round: int) -> None:
                numbers = range(args.visitors)
                await asyncio.gather(*(visit(url, n, round, args.tokens, met) for n in numbers))

            asyncio.run(together(round))
            met.memory.append(memory(process))
            summary = f"{len(met.wholes)} answers, {len(met.errors)} errors"
            print(f"round {round + 1} of {args.rounds}: {summary}", flush=True)
        if args.fuzz:
            asyncio.run(fuzz(url, args.fuzz, met))
            met.memory.append(memory(process))

    with args.log.open("ab") as log, server(log) as (url, process):
        wait_for(f"{url}/readyz", process)
        measure(url, psutil.Process(process.pid))
        if traced := args.log.read_text(errors="replace").count("Traceback (most recent"):
            met.errors.append(f"{traced} tracebacks in {args.log}")
    print(met.table())
    return int(met.failed)


if __name__ == "__main__":
    sys.exit(main())
