"""What browser tests share: a server of the scripted page, visitors, and what they do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from servers import unused

from benchmarks.page import BROWSERS

CHROMIUM = next(filter(None, map(shutil.which, reversed(BROWSERS))), None)  # the shell opens pages fastest
MARKS = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found on the PATH"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.browser,
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--min-semi-space-size=64 --max-semi-space-size=128",  # megabytes: less garbage collection
]
PERMISSIONS = ["clipboard-read", "clipboard-write"]
PATIENCE = 60_000  # milliseconds: the machine may be busy
SERVER = Path(__file__).resolve().parent / "browser_server.py"
TIMES = "window.specdiffTimes = { quiet: 700, patience: 2000, again: 500 };"
"""How long a player waits for a server that says nothing, in milliseconds; a visitor's waits seconds."""
CARD = ".sd-guide:not([hidden])"  # of a lesson
POINTED = "document.querySelector('.sd-guide-here')?.getBoundingClientRect().height > 60"
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


def leaves(asked: str, page: str) -> bool:
    """Whether a request goes where a page has nothing to ask: to another host; of a page from disk,
    to anything but itself and the chart library beside it."""
    to, own = urlparse(asked), urlparse(page)
    if to.scheme in {"data", "blob"}:
        return False
    if own.scheme == "file":
        return to.scheme != "file" or to.path not in {own.path, f"{own.path.rpartition('/')[0]}/plotly.min.js"}
    return to.netloc != own.netloc


def app(tab: str) -> str:
    """The player of a tab, in JavaScript."""
    return f"window.specdiff.tabs.{tab}"


def ready(tab: str) -> str:
    """Whether a player shows a trace and has drawn it."""
    return f"window.specdiff?.tabs.{tab}?.shown.trace && !{app(tab)}.job.live && !{app(tab)}.frames.dirty"


def clock_runs(tab: str) -> str:
    """Whether a race is on the stage while it goes on."""
    return f"{app(tab)}.shown.growing && {app(tab)}.shown.stage.duration > 0"


@contextmanager
def serving(
    folder: Path, *words: str, port: int | None = None, script: Path = SERVER
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that answers: its address, and its process."""
    port = port or unused()
    command = [sys.executable, str(script), str(port), str(folder), *words]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        while True:
            assert server.poll() is None, (folder / "server.log").read_text(encoding="utf-8")
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url, server
    finally:
        server.terminate()
        server.wait(20)


@contextmanager
def visit(
    browser: Any,
    url: str,
    *,
    size: str = "desktop",
    dark: bool = False,
    motion: bool = False,
    before: str = "",
    until: str = "",
    reloads: bool = False,
    logged: str = "",
) -> Iterator[Any]:
    """A visitor with an empty storage, by default on the Live tab with the recording shown;
    ``before`` runs ahead of the page's own scripts, and ``until`` is what to wait for where a link
    opens another tab. Of a page that ``reloads`` while the server speaks, Gradio says that the
    connection was lost. ``logged`` is in an error that the test causes.

    Fails on console errors and on any outside request. A page from disk finds no network. A blank
    page that an earlier visitor left is used again, with a storage of its own: its process has the
    scripts compiled, which halves the work.
    """
    left = "about:blank#disk" if url.startswith("file:") else "about:blank"
    blank = (page for context in browser.contexts for page in context.pages if page.url == left)
    page = next(blank, None) or browser.new_context(offline=left != "about:blank", permissions=PERMISSIONS).new_page()
    page.set_default_timeout(PATIENCE)
    resize(page, size)
    page.emulate_media(
        media="null", color_scheme="dark" if dark else "light", reduced_motion="no-preference" if motion else "reduce"
    )
    troubles: list[str] = []

    def said(message: Any) -> None:
        if message.type == "error":
            troubles.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def broke(error: Any) -> None:
        troubles.append(f"page error: {error} {error.stack}")

    def asked(request: Any) -> None:
        if leaves(request.url, url):
            troubles.append(f"outside request: {request.url}")

    listeners = {"console": said, "pageerror": broke, "request": asked, "websocket": asked}
    for event, listener in listeners.items():
        page.on(event, listener)
    script = page.add_init_script(before + TIMES)
    try:
        page.goto(url)
        page.wait_for_function(until or ready("live"))
        yield page
        lost = (*(("AbortError", "Connection errored out") if reloads else ()), *((logged,) if logged else ()))
        troubles = [trouble for trouble in troubles if not any(words in trouble for words in lost)]
        assert not troubles, troubles
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        script.close()
        page.evaluate("try { localStorage.clear(); sessionStorage.clear(); } catch { /* a test denies them */ }")
        page.mouse.move(0, 0)
        page.goto(left)
    except BaseException:
        page.context.close()
        raise


def resize(page: Any, size: str) -> None:
    """Give the page the size of a screen: ``desktop``, ``phone``, or ``WIDTHxHEIGHT``."""
    width, height = SIZES.get(size) or map(int, size.split("x"))
    page.set_viewport_size({"width": width, "height": height})


def open_tab(page: Any, tab: str) -> None:
    """Open a tab, and wait for what it shows."""
    page.click(f"#sd-tabs [role=tab]:has-text('{tab.upper() if tab == 'api' else tab.capitalize()}')")
    seen = {"compare": ".sd-board-bar", "learn": ".sd-workshop", "api": ".sd-api-parameters"}
    if tab in seen:
        page.wait_for_selector(seen[tab])
    else:
        page.wait_for_function(f"window.specdiff.tabs.{tab} && {app(tab)}.frames?.awake !== false")


def open_drawer(page: Any, tab: str) -> None:
    """Open all settings of a tab, unless they are."""
    if not page.locator(f"#{tab}-seed").is_visible():
        page.click(f"#{tab}-drawer > summary")
    page.wait_for_selector(f"#{tab}-seed")


def number(page: Any, tab: str, name: str, value: object) -> None:
    """Type a number into a setting."""
    box = page.locator(f"#{tab}-{name}")
    box.fill(str(value))
    box.press("Tab")


def start(page: Any, tab: str, prompt: str) -> None:
    """Press Run on a prompt."""
    page.fill(f"#{tab}-prompt", prompt)
    page.click(f"#{tab}-run")


def run(page: Any, tab: str, prompt: str) -> None:
    """Run a prompt to its end."""
    start(page, tab, prompt)
    page.wait_for_function(
        f"(prompt) => {ready(tab)} && Object.values({app(tab)}.shown.lanes)[0].header.prompt === prompt", arg=prompt
    )


def stand(page: Any, kind: str, which: int = 0, tab: str = "live") -> None:
    """Put the playhead on the n-th stop of a kind of event of the selected lane."""
    page.evaluate(
        f"([kind, which]) => {{ const app = {app(tab)}; const stops = app.shown.playhead.stops;"
        " const found = stops.map((s, i) => [s, i]).filter(([s]) => s.lane === app.shown.selected"
        " && app.shown.lanes[s.lane].events[s.n - 1].kind === kind);"
        " app.playback.act(() => app.shown.playhead.goToStop(found[which][1])); }",
        [kind, which],
    )
    page.wait_for_function(ready(tab))


def playhead(page: Any, tab: str = "live") -> dict[str, Any]:
    return page.evaluate(
        f"(({{t, stop, playing, slow, duration}}) => ({{t, stop, playing, slow, duration}}))({app(tab)}.shown.playhead)"
    )


def lanes(page: Any, tab: str, part: str) -> list[str]:
    """A part of the head of each lane."""
    return page.locator(f"#{tab}-player .sd-lane .sd-lane-{part}").all_text_contents()


def serious(page: Any, within: str | None = None) -> list[tuple[str, list[str]]]:
    """What axe-core finds that is serious, on the whole page or within a selector."""
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    run = "([where, how]) => axe.run(where ?? document, how).then(({ violations }) => violations)"
    return [
        (item["id"], [node["html"][:160] for node in item["nodes"]])
        for item in page.evaluate(run, [within, {"resultTypes": ["violations"], "selectors": False}])
        if item["impact"] in {"serious", "critical"}
    ]


def overflows(page: Any) -> bool:
    """Whether the page scrolls sideways."""
    return page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
