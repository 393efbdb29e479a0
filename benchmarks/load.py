"""How many visitors the page serves: a server of its own, and clients that all start a race at once, repeatedly.

Every visitor has a prompt of their own. An answer is wrong if it differs from that of an earlier
round. Malformed calls must end in an answer or a plain error, none in a traceback, and a race after
them must run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from specdiff_core.cli import options
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.settings import DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "runs" / "load.log"
"""The server's."""
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
    wrong: list[str] = field(default_factory=list)  # answers that differ from an earlier round's
    texts: dict[str, list[str]] = field(default_factory=dict)  # prompt -> of each lane, in the first round
    memory: list[int] = field(default_factory=list)  # bytes of server and decoder, after each round

    def table(self) -> str:
        lines = [f"answers          {len(self.wholes)}", f"errors           {len(self.errors)}"]
        lines.append(f"wrong answers    {len(self.wrong)}")
        for name, seconds in (("first message", self.firsts), ("whole race", self.wholes)):
            if seconds:
                middle, late = statistics.median(seconds), sorted(seconds)[int(0.95 * (len(seconds) - 1))]
                lines.append(f"{name:16} median {middle:.2f} s, 95 % {late:.2f} s")
        readings = [f"{value / 2**20:.0f}" for value in self.memory]
        readings = readings if len(readings) < 8 else [*readings[:3], "…", *readings[-3:]]
        lines.append(f"memory           {', '.join(readings)} MiB after each round")
        return "\n".join([*lines, *self.errors[:5], *self.wrong[:5]])


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
    """Wait until ``url`` answers, asking every ``pause`` seconds.

    Raises:
        SpecDiffError: the server ended, or gave no answer in two minutes.
    """
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5, follow_redirects=True).status_code == 200:
                return
        time.sleep(pause)
    raise SpecDiffError("The server ended, or was not ready in two minutes.", hint="Run python app.py, which says why.")


def memory(server: psutil.Process) -> int:
    """Bytes that the server and its decoder hold."""
    resident = 0
    for process in (server, *server.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            resident += process.memory_info().rss
    return resident


async def race(client: httpx.AsyncClient, data: Any) -> AsyncGenerator[dict[str, Any]]:
    """The messages of one call of the race endpoint, the result last.

    Raises:
        RuntimeError: the call ended in an error.
    """
    begun = await client.post("/gradio_api/call/race", json={"data": data})
    begun.raise_for_status()
    async with client.stream("GET", f"/gradio_api/call/race/{begun.json()['event_id']}") as answer:
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:") and name != "heartbeat":
                if name == "error":
                    raise RuntimeError(f"the server reports {line[5:]}")
                yield json.loads(line[5:])[0]


async def visit(client: httpx.AsyncClient, number: int, tokens: int, met: Met) -> None:
    """One visitor's race, of the visitor's own prompt."""
    prompt = f"Once upon a time, a {ANIMALS[number % len(ANIMALS)]} had {number} friends."
    began, first, last = time.monotonic(), 0.0, dict[str, Any]()
    try:
        async for message in race(client, [prompt, *settings(tokens)]):
            first, last = first or time.monotonic(), message
        texts = [lane["text"] for lane in last["lanes"].values()]
    except (httpx.HTTPError, RuntimeError, LookupError, TypeError, ValueError) as error:
        met.errors.append(f"visitor {number}: {type(error).__name__}: {error}")
        return
    if met.texts.setdefault(prompt, texts) != texts:
        met.wrong.append(f"visitor {number} asked {prompt!r} and got {texts}")
    met.firsts.append(first - began)
    met.wholes.append(time.monotonic() - began)


def settings(tokens: int) -> list[Any]:
    """The race endpoint's arguments after the prompt, in its order; no events in the answer."""
    return [*DecodeConfig(max_new_tokens=tokens, ignore_eos=True).to_dict().values(), False]


ODD: tuple[Any, ...] = (
    None, "", "x", -1, 0, 1e308, -1e308, "NaN", True, [], {}, [[]], {"a": 1}, "\x00", "‮", "<script>", "🦊" * 50, 2**70,
    "../../etc/passwd", "own?target=/etc", "own?target=" + "x" * 400, "'; drop table", "%00", "\\u0000",
)  # fmt: skip  # several values a line


async def fuzz(client: httpx.AsyncClient, calls: int, met: Met) -> None:
    """Malformed calls, 16 at a time."""
    draw, valid, slots = random.Random(0), ["Once upon", *settings(8)], asyncio.Semaphore(16)

    async def call(body: Any) -> None:
        async with slots:
            try:
                answer = await client.post("/gradio_api/call/race", json={"data": body})
                if answer.status_code == 200:
                    answer = await client.get(f"/gradio_api/call/race/{answer.json()['event_id']}")
            except (httpx.HTTPError, ValueError, KeyError) as error:
                met.errors.append(f"{type(error).__name__} for {body!r:.200}: {error}")
            else:
                if re.search(r"Traceback|File \"|\.py\b", answer.text):
                    met.errors.append(f"a traceback for {body!r:.200}: {answer.text[:300]}")

    def broken() -> Any:
        data = [draw.choice(ODD) if draw.random() < 0.1 else value for value in valid]
        return draw.choice([data, data[: draw.randrange(len(data))], [*data, *ODD], draw.choice(ODD)])

    await asyncio.gather(*(call(broken()) for _ in range(calls)))
    try:
        async for _ in race(client, valid):
            pass
    except (httpx.HTTPError, RuntimeError, ValueError) as error:
        met.errors.append(f"a race after the malformed calls failed: {error}")


async def measure(url: str, process: psutil.Process, args: argparse.Namespace) -> Met:
    """All rounds, then the malformed calls."""
    met = Met()
    unlimited = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=unlimited, timeout=TIMEOUT) as client:
        for number in range(1, args.rounds + 1):
            await asyncio.gather(*(visit(client, visitor, args.tokens, met) for visitor in range(args.visitors)))
            met.memory.append(memory(process))
            options.say(f"round {number} of {args.rounds}: {len(met.wholes)} answers, {len(met.errors)} errors")
        if args.fuzz:
            await fuzz(client, args.fuzz, met)
    if len(met.memory) > 2 and met.memory[-1] > GROWTH * met.memory[1]:
        met.errors.append("the memory grows from round to round")
    return met


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = partial(parser.add_argument, type=int, metavar="N")
    add("--visitors", default=50, help="clients at the same time [default 50]")
    add("--rounds", default=3, help="races of each of them, one after the other [default 3]")
    add("--tokens", default=16, help="new tokens in each lane [default 16]")
    add("--fuzz", default=0, help="malformed calls afterwards [default 0]")


def run(args: argparse.Namespace) -> None:
    """``benchmarks load``: print what the visitors met, and fail after any error."""
    if min(args.visitors, args.rounds) < 1 or args.fuzz < 0:
        raise ConfigError("--visitors and --rounds must be at least 1, --fuzz at least 0.", field="visitors")
    settings(args.tokens)  # before the server starts
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("wb") as log, server(log) as (url, process):
        wait_for(f"{url}/readyz", process)
        met = asyncio.run(measure(url, psutil.Process(process.pid), args))
    if traced := LOG.read_text(errors="replace").count("Traceback (most recent"):
        met.errors.append(f"tracebacks in the server's log: {traced}")
    print(met.table())
    if met.errors or met.wrong:
        raise SpecDiffError("Not everything was served.", hint=f"The server's log is {LOG}.")
