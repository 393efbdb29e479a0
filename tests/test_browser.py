"""The page in a real browser: a person's clicks and keys, two themes, two sizes, hostile input. Loopback only.

Skipped where Playwright's Python package or a Chromium is missing. Times are generous: the machine may be busy.
"""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
from fakes import FakeTarget, good_drafter

from specdiff_core.decoding.clock import FakeClock
from specdiff_core.decoding.loop import speculate
from specdiff_core.schema.events import PiecesSeen, RunStarted
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace
from tests.app_fakes import FakeDecoder

playwright_api = pytest.importorskip("playwright.sync_api", reason="Playwright for Python is not installed")
CLOCK_RUNS = "window.specdiff.live && window.specdiff.live.told && !window.specdiff.live.warming"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found on the PATH"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.browser,
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000  # milliseconds
READY = "window.specdiff && window.specdiff.trace !== null"
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@contextmanager
def serving(
    folder: Path, script: str, *words: str, port: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of this folder's ``script`` that answers: its address, and its process."""
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    command = [sys.executable, str(HERE / script), str(port), str(folder), *words]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "server.log").read_text(encoding="utf-8")
                time.sleep(0.25)
        yield url, server
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(folder, "browser_server.py") as (url, _):
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def visit(
    browser: Any,
    url: str,
    *,
    width: int = 1440,
    height: int = 900,
    dark: bool = False,
    motion: bool = False,
    before: str = "",
) -> Any:
    """A fresh visitor on the Live tab, the recording shown; ``before`` runs ahead of the page's own scripts.

    Fails on console errors and on any outside request.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="no-preference" if motion else "reduce",
        accept_downloads=True,
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(before)
    troubles: list[str] = []
    page.on("console", lambda m: troubles.append(f"console {m.type}: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(f"page error: {error}"))
    own = urlparse(url).netloc

    def asked(request: Any) -> None:
        if urlparse(request.url).netloc not in {own, ""}:
            troubles.append(f"outside request: {request.url}")

    page.on("request", asked)
    page.goto(url)
    page.wait_for_function(READY)
    try:
        yield page
        assert not troubles, troubles
    finally:
        context.close()


def stand(page: Any, kind: str, which: int = 0) -> None:
    """Put the playhead on the n-th stop of a kind of event of the drafted lane."""
    page.evaluate(
        "([kind, which]) => { const app = window.specdiff; const stops = app.player.stops;"
        " const found = stops.map((s, i) => [s, i]).filter(([s]) => s.lane === 'drafted'"
        " && app.lanes.drafted.events[s.n - 1].kind === kind);"
        " app.act(() => app.player.stand(found[which][1])); }",
        [kind, which],
    )
    page.wait_for_function("!window.specdiff.dirty")


def player(page: Any) -> dict[str, Any]:
    return page.evaluate(
        "(({t, stop, playing, slow, duration}) => ({t, stop, playing, slow, duration}))(window.specdiff.player)"
    )


def test_the_chosen_theme_is_kept(browser: Any, address: str) -> None:
    """The Theme button's choice outlives a reload, against the system's own."""
    dark = "document.body.classList.contains('dark')"
    with visit(browser, address, dark=True) as page:
        page.wait_for_function(dark)
        page.click("#sd-theme")
        page.wait_for_function(f"!{dark}")
        page.reload()
        page.wait_for_function(READY)
        page.wait_for_function(f"!{dark}")
        page.click("#sd-theme")
        page.wait_for_function(dark)


def test_first_paint(browser: Any, address: str) -> None:
    """It opens on a recording that says so, with clocks, numbers, window and three charts."""
    with visit(browser, address) as page:
        assert "Recording" in page.text_content(".sd-chip")
        assert "2 January 2026" in page.text_content(".sd-source-words")
        assert page.text_content(".sd-drafted .sd-clock") < page.text_content(".sd-vanilla .sd-clock")
        assert "×" in page.text_content(".sd-speed")
        assert "measured" in page.text_content(".sd-speed-words")
        assert "Predicted, not measured" in page.text_content(".sd-predicted")
        page.wait_for_selector(".sd-rail .main-svg")
        page.locator(".sd-charts").scroll_into_view_if_needed()
        page.wait_for_function("document.querySelectorAll('.sd-plot .main-svg').length >= 6")
        page.click(".sd-link")
        words = page.text_content("dialog[open]")
        for fact in ("one after the other", "no device (test double)", "every denoising step", "fake 1", "prefill"):
            assert fact in words
        page.keyboard.press("Escape")


def test_playback(browser: Any, address: str) -> None:
    """Autoplay, pause, step, jump, scrub and speed move both lanes on one axis; nothing is asked of the server."""
    with visit(browser, address, motion=True) as page:
        page.wait_for_function("window.specdiff.player.t > 0")
        page.locator("body").press(" ")
        assert not player(page)["playing"]
        calls: list[str] = []
        page.on("request", lambda request: calls.append(request.url))
        page.evaluate("window.specdiff.act(() => window.specdiff.player.stand(2))")
        page.locator("body").press("ArrowRight")
        assert player(page)["stop"] == 3
        page.locator("body").press("Shift+ArrowRight")
        assert player(page)["stop"] == 13
        page.locator("body").press("ArrowLeft")
        assert player(page)["stop"] == 12
        page.locator(".sd-rd").nth(3).click()
        page.wait_for_function("document.querySelector('.sd-window .sd-sub').textContent.startsWith('round 4')")
        assert page.locator(".sd-rd").nth(3).get_attribute("aria-current") == "true"
        assert page.text_content(".sd-voice").startswith("Round 4: ")
        page.locator(".sd-scrub").fill("300")
        state = player(page)
        assert abs(state["t"] / state["duration"] - 0.3) < 0.01
        page.wait_for_function("!window.specdiff.dirty")
        assert page.text_content(".sd-drafted .sd-clock") == page.text_content(".sd-vanilla .sd-clock")
        page.select_option(".sd-bar .sd-pick", "100")
        assert player(page)["slow"] == 100
        page.click(".sd-play")
        page.wait_for_function("window.specdiff.player.playing")
        page.click(".sd-prev")
        stood = player(page)["stop"]
        page.keyboard.press(" ")  # not the button again that was clicked
        page.wait_for_function("window.specdiff.player.playing")
        page.keyboard.press(" ")
        page.locator(".sd-next").focus()
        page.keyboard.press("Enter")  # who came with the keyboard stays where they are
        assert player(page)["stop"] > stood and page.evaluate("document.activeElement.matches('.sd-next')")
        tall, empty = page.evaluate("""() => {
            const { window: view, lanes } = window.specdiff;
            const grid = document.querySelector('.sd-grid');
            const tall = grid.offsetHeight;
            view.draw({ ...lanes.drafted.rounds[0], round: 99, size: 0, steps: [] }, lanes.drafted, '', false);
            return [tall, grid.offsetHeight];
        }""")
        assert empty >= tall > 50, "what stands below the window does not jump at a round without a draft"
        asked = [url for url in calls if "gradio_api/" in url and "file=" not in url]
        assert not asked, "the player works alone"


def test_the_window_shows_every_number(browser: Any, address: str) -> None:
    """Masks, reveals, tests with p, q and u: as text or title of the cell that they belong to."""
    with visit(browser, address) as page:
        stand(page, "RoundStarted", 2)
        assert page.locator(".sd-steps .sd-mask").count() == page.locator(".sd-steps .sd-c").count() == 18
        stand(page, "DenoiseStep", 6)
        assert page.locator(".sd-fresh:visible").count() >= 2
        assert "confidence " in page.locator(".sd-steps .sd-fresh").first.get_attribute("title")
        stand(page, "Committed", 2)
        first = page.locator(".sd-tests .sd-v").first
        for word in ("p = ", "q = ", "min(1, p/q) = ", "u = "):
            assert word in first.get_attribute("title")
        assert first.locator(".sd-glyph").text_content() in {"✓", "✕"}
        assert page.text_content(".sd-say").startswith("Round 3: ")


def test_settings(browser: Any, address: str) -> None:
    """Sliders, the bond T ≤ γ, presets and examples change the widgets without a run."""
    with visit(browser, address) as page:
        gamma = page.locator("#set-gamma input[type=number]")
        steps = page.locator("#set-steps input[type=number]")
        steps.fill("12")
        steps.press("Tab")
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '12'")
        gamma.fill("5")
        gamma.press("Tab")
        page.wait_for_function("document.querySelector('#set-steps input[type=number]').value === '5'")
        page.locator("#set-gamma input[type=range]").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '6'")
        page.click("#sd-examples button:has-text('Code')")
        page.wait_for_function("document.querySelector('#set-prompt textarea').value.startsWith('def ')")
        page.click("#sd-preset input")
        page.click("[role=option]:has-text('One pass, wide window')")
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '16'")


def test_nobody_loses_settings_by_passing_the_presets_or_by_typing(browser: Any, address: str) -> None:
    """Gradio's list tells of input when it loses the focus, its number box at every key."""
    with visit(browser, address) as page:
        gamma = page.locator("#set-gamma input[type=number]")
        steps = page.locator("#set-steps input[type=number]")
        steps.fill("4")
        steps.press("Tab")
        gamma.fill("")
        gamma.press_sequentially("16", delay=60)
        gamma.press("Tab")
        page.wait_for_function("document.querySelector('#sd-preset input').value === 'Your own settings'")
        page.locator("#sd-preset input").focus()
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        page.wait_for_timeout(400)
        assert (gamma.input_value(), steps.input_value()) == ("16", "4")
        page.click("#sd-preset input")
        page.click("[role=option]:has-text('Balanced')")
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '8'")
        page.wait_for_function("document.querySelector('#set-steps input[type=number]').value === '1'")


def test_run_and_download(browser: Any, address: str, tmp_path: Path) -> None:
    """A run replaces the recording; the file that is offered is a trace of it."""
    with visit(browser, address) as page:
        page.fill("#set-prompt textarea", "My own <script>window.hacked = 1</script> prompt 🦊 שלום")
        page.click("#sd-run")
        page.wait_for_function("window.specdiff.trace.title === 'Live run'")
        assert "Your run" in page.text_content(".sd-chip")
        assert "<script>window.hacked" in page.text_content(".sd-drafted .sd-prompt")
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.querySelector('#set-prompt textarea').value").startswith("My own <script>")
        with page.expect_download() as offered:
            page.click(".sd-save")
        path = tmp_path / offered.value.suggested_filename
        offered.value.save_as(path)
        trace = read_trace(path)
        assert path.name.endswith(".jsonl.gz")
        assert list(trace.lanes) == ["vanilla", "drafted"]


def test_stop_keeps_what_was_measured(browser: Any, address: str, folder: Path) -> None:
    """Stop ends the decode, shows the part that ran, and the page can run again."""
    with visit(browser, address) as page:
        page.fill("#set-prompt textarea", "A slow run that is stopped")
        page.click("#sd-run")
        page.wait_for_function(CLOCK_RUNS)
        assert page.locator(".sd-main").get_attribute("aria-busy") == "true"
        assert "Measuring" in page.text_content(".sd-chip")
        assert page.text_content(".sd-speed") == "–", "no number of the race before"
        page.click("#sd-stop")
        page.wait_for_selector(".sd-chip:has-text('Stopped run')")
        assert "that is stopped" in (folder / "stopped").read_text(encoding="utf-8")
        page.fill("#set-prompt textarea", "A quick one")
        page.click("#sd-run")
        page.wait_for_selector(".sd-chip:has-text('Your run')")


def test_a_measured_lane_is_not_disturbed_by_animations(browser: Any, address: str) -> None:
    """While a lane is measured the whole page, Gradio included, is drawn once a second; afterwards as often as it asks.

    The race is shown at once when it is over.
    """
    count = """window.frames_drawn = 0;
        const ask = window.requestAnimationFrame.bind(window);
        let last = -1;  // callbacks of one frame hear the same time
        window.requestAnimationFrame = (callback) => ask((now) => {
            window.frames_drawn += Number(now !== last);
            last = now;
            callback(now);
        });"""
    drawn = """() => new Promise((done) => {
        const before = window.frames_drawn;
        let over = false;
        const tick = () => { if (!over) requestAnimationFrame(tick); };
        tick();
        setTimeout(() => { over = true; done(window.frames_drawn - before); }, 1000);
    })"""
    with visit(browser, address, before=count) as page:
        page.fill("#set-prompt textarea", "A slow run, calmly")
        page.click("#sd-run")
        page.wait_for_function(CLOCK_RUNS)
        measured = page.evaluate(drawn)
        assert page.evaluate("Boolean(window.specdiff.live)"), "the lane was measured all the while"
        page.click("#sd-stop")
        page.wait_for_selector(".sd-chip:has-text('Stopped run')")
        assert 1 <= measured <= 3 < page.evaluate(drawn)


def test_a_busy_machine_is_told(browser: Any, address: str) -> None:
    """Where other programs held the processor, the page says not to trust the speed-up; elsewhere it is silent."""
    with visit(browser, address) as page:
        warning = page.locator(".sd-busy-machine")
        assert not warning.is_visible()
        page.fill("#set-prompt textarea", "A crowded run")
        page.click("#sd-run")
        page.wait_for_selector(".sd-chip:has-text('Your run')")
        assert "drafted 0.90, vanilla 0.90" in warning.inner_text()
        page.click(".sd-source .sd-link:has-text('How this was measured')")
        assert "vanilla 0.90" in page.inner_text(".sd-dialog")
        page.keyboard.press("Escape")
        page.fill("#set-prompt textarea", "A quiet run")
        page.click("#sd-run")
        page.wait_for_function("window.specdiff.lanes.drafted.header.prompt === 'A quiet run' && !window.specdiff.live")
        assert not warning.is_visible()


def test_a_closed_tab_ends_the_decode(browser: Any, address: str, folder: Path) -> None:
    """Nobody listens any more: the worker stops at its next step."""
    with visit(browser, address) as page:
        page.fill("#set-prompt textarea", "A slow run, tab closed")
        page.click("#sd-run")
        page.wait_for_function(CLOCK_RUNS)
    closed, log = time.monotonic(), folder / "stopped"
    while "tab closed" not in (log.read_text(encoding="utf-8") if log.exists() else ""):
        assert time.monotonic() - closed < 4, "a second on a quiet machine"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("prompt", "title", "hint", "stage"),
    [
        ("", "The prompt needs a change", "take an example", "Recording"),
        ("x" * 100_000, "The prompt needs a change", "Shorten it", "Recording"),
        ("out of memory", "Out of memory", "smaller γ", "Run that failed"),
        ("something unexpected", "Something unexpected happened", "run ", "Run that failed"),
    ],
    ids=["empty", "long", "memory", "unexpected"],
)
def test_cards(browser: Any, address: str, prompt: str, title: str, hint: str, stage: str) -> None:
    """A card with what to do next; the prompt stays, and the trace on screen or what the failed run measured."""
    with visit(browser, address) as page:
        page.fill("#set-prompt textarea", prompt)
        page.click("#sd-run")
        page.wait_for_selector(".sd-card:not([hidden])")
        words = page.text_content(".sd-card")
        assert title in words and hint in words
        assert "Traceback" not in words and "secret" not in words
        assert page.evaluate("document.querySelector('#set-prompt textarea').value.length") == len(prompt)
        assert stage in page.text_content(".sd-chip")
        page.click(".sd-card button")
        assert page.locator(".sd-card").is_hidden()


def test_a_number_out_of_range_marks_its_control(browser: Any, address: str) -> None:
    """Also when it reaches the server by a link."""
    with visit(browser, f"{address}?gamma=99&prompt=kept") as page:
        page.wait_for_selector(".sd-card:not([hidden])")
        assert "between 1 and 32" in page.text_content(".sd-card")
        assert "sd-invalid" in page.locator("#set-gamma").get_attribute("class")
        assert page.input_value("#set-prompt textarea") == "kept"


def test_files(browser: Any, address: str, tmp_path: Path, folder: Path) -> None:
    """A foreign file is a card and loses nothing; a trace opens."""
    broken, good = tmp_path / "cut.jsonl.gz", tmp_path / "good.jsonl.gz"
    whole = (folder / "opening.jsonl.gz").read_bytes()
    broken.write_bytes(whole[:500])
    good.write_bytes(whole)
    with visit(browser, address) as page:
        page.set_input_files("input[type=file]", str(broken))
        page.wait_for_selector(".sd-card:not([hidden])")
        assert "cut off" in page.text_content(".sd-card") or "not a trace" in page.text_content(".sd-card")
        assert "Recording" in page.text_content(".sd-chip")
        page.set_input_files("input[type=file]", str(good))
        page.wait_for_selector(".sd-chip:has-text('Opened file')")
        assert page.locator(".sd-card").is_hidden()


@pytest.mark.parametrize(
    ("shape", "label"), [({"tree_nodes": 9}, "tree"), ({"num_drafts": 3, "temperature": 1.0}, "drafts")]
)
def test_branches_are_drawn(browser: Any, address: str, tmp_path: Path, shape: dict[str, Any], label: str) -> None:
    """A real loop's trace with a tree, or with three drafts: lines, the walked branch, the scores in words."""
    config = DecodeConfig(gamma=5, max_new_tokens=24, seed=3, **shape)
    header = next(event for event in FakeDecoder().decode("Once", config) if isinstance(event, RunStarted))
    pieces = PiecesSeen(pieces={token: f" w{token}" for token in range(12)})
    loop = speculate([3, 4, 5], config, FakeTarget(), good_drafter(), FakeClock())
    write_trace(tmp_path / "branches.jsonl", {"drafted": [pieces, header, *loop]})
    with visit(browser, address) as page:
        page.set_input_files("input[type=file]", str(tmp_path / "branches.jsonl"))
        page.wait_for_selector(".sd-chip:has-text('Opened file')")
        page.evaluate(
            """() => { const { player, trace } = window.specdiff;
            const done = trace.lanes.drafted.filter((event) => event.kind === 'Committed' && event.ids.length > 1);
            player.pause(); player.seek(done[0].at + 1e-6); window.specdiff.redraw(); }"""
        )
        page.wait_for_selector(f".sd-steps .sd-label:text-is('{label}')")
        assert page.locator(".sd-steps .sd-row").count() > 1, "more than one branch"
        assert page.locator(".sd-steps .sd-fresh:has-text('✓')").count() >= 1
        assert page.locator(".sd-steps .sd-node").count() >= 1
        note = page.text_content(".sd-fallback")
        assert ("★" in note and "of the 3 drafts" in note) if label == "drafts" else "walk it" in note


def test_a_recording_offers_its_settings(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        page.click("text=Use its settings")
        page.wait_for_function("new URLSearchParams(location.search).get('gamma') === '6'")
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]')?.value === '6'")
        page.wait_for_function("document.querySelector('#set-steps input[type=number]').value === '3'")
        assert page.input_value("#set-prompt textarea") == "Once"


def test_another_recording_plays_without_a_run(browser: Any, address: str) -> None:
    """The list names what ships with the page; a choice is fetched from this server and says that it is a recording."""
    with visit(browser, address) as page:
        options = page.locator(".sd-more option")
        assert options.all_text_contents() == [
            "Another recording…",
            "block γ 6 T 3 ratio: A second recording",
            "block γ 6 T 3 ratio: A test recording",
        ]
        page.select_option(".sd-more", label="block γ 6 T 3 ratio: A second recording")
        page.wait_for_function("window.specdiff.trace.title === 'A second recording'")
        assert "Recording" in page.text_content(".sd-chip")
        assert page.text_content(".sd-drafted .sd-prompt").startswith("Twice")


def test_a_method_card_brings_its_settings_to_the_live_tab(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        page.click("button[role=tab]:has-text('Learn')")
        math = page.locator("#method-specdiff2 math").first
        assert math.evaluate("e => e.namespaceURI") == "http://www.w3.org/1998/Math/MathML"
        assert math.bounding_box()["height"] > 20, "drawn as a formula, not as a line of letters"
        page.click("#method-specdiff2 .sd-use")
        page.wait_for_function("document.querySelector('#sd-preset input')?.value === 'Your own settings'")
        assert page.input_value("#set-gamma input[type=number]") == "9"
        page.click("#sd-drawer button")
        page.wait_for_selector("#set-num_drafts input:visible")
        assert page.input_value("#set-num_drafts input[type=number]") == "4"
        assert "streak" in page.input_value("#set-drafter input")


def test_share_link_restores_every_setting(browser: Any, address: str) -> None:
    """Prompt and settings travel in the address: each that differs from its default comes back in its own widget."""
    chosen = {
        "pair": "embedded", "drafter": "mdlm", "gamma": "11", "steps": "3", "auto": "true", "order": "entropy",
        "rule": "match", "tree_nodes": "0", "num_drafts": "3", "selection": "trie",
        "temperature": "0.7", "draft_temperature": "0.9", "top_k": "50", "top_p": "0.95", "seed": "17",
        "max_new_tokens": "33", "ignore_eos": "true",
    }  # fmt: skip
    with visit(browser, f"{address}?{urlencode({'prompt': 'Shared & <kept> 🦊', **chosen})}") as page:
        page.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '11'")
        page.click("#sd-drawer button")
        page.wait_for_selector("#set-seed input")
        page.click("#sd-share")
        page.wait_for_function("document.querySelector('#sd-share').textContent !== 'Share link'")
        link = page.url
        assert page.input_value("#set-prompt textarea") == "Shared & <kept> 🦊"
        assert page.input_value("#set-seed input") == "17" and page.input_value("#set-top_k input") == "50"
        assert page.is_checked("#set-ignore_eos input")
        assert page.input_value("#sd-preset input") == "Your own settings"
    told = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    assert told == {"prompt": "Shared & <kept> 🦊", **chosen}


def test_two_visitors_and_the_queue(browser: Any, address: str) -> None:
    """One race at a time: the second visitor sees a place in the queue, and never the first one's text."""
    with visit(browser, address) as one, visit(browser, address) as two:
        one.fill("#set-prompt textarea", "A slow secret of Anna")
        one.click("#sd-run")
        one.wait_for_function(CLOCK_RUNS)
        two.fill("#set-prompt textarea", "Ben is quick")
        two.click("#sd-run")
        two.wait_for_selector(".sd-status:has-text('in the queue')")
        two.wait_for_selector(".sd-chip:has-text('Your run')")
        assert "Anna" not in two.content()
        one.wait_for_selector(".sd-chip:has-text('Your run')")
        assert "Ben" not in one.content()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_accessible_and_fitting(browser: Any, address: str, size: tuple[int, int], dark: bool, tmp_path: Path) -> None:
    """axe-core finds nothing serious; the player bar is reachable; the page never scrolls sideways."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    ).Axe()
    with visit(browser, address, width=size[0], height=size[1], dark=dark) as page:
        stand(page, "Committed", 2)
        assert ("dark" in page.evaluate("document.body.className")) == dark
        page.wait_for_selector(".sd-rail .main-svg" if size[0] > 400 else ".sd-bar")

        def serious() -> list[tuple[str, list[str]]]:
            return [
                (item["id"], [node["html"][:160] for node in item["nodes"]])
                for item in axe.run(page).response["violations"]
                if item["impact"] in {"serious", "critical"}
            ]

        assert not serious()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        box = page.locator(".sd-bar").bounding_box()
        assert box["y"] + box["height"] <= size[1] + 1 and box["x"] >= 0 and box["x"] + box["width"] <= size[0] + 1
        page.screenshot(path=tmp_path / "page.png")
        for tab in ("Learn", "API & MCP"):
            page.click(f"button[role=tab]:has-text('{tab}')")
            page.wait_for_selector(".sd-lesson:visible")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), tab
            assert not serious(), tab
        page.click("button[role=tab]:has-text('Live')")
        page.fill("#set-prompt textarea", "")
        page.click("#sd-run")
        page.wait_for_selector(".sd-card:not([hidden])")
        page.click("#sd-drawer button")
        page.wait_for_selector("#set-seed input:visible")
        assert not serious(), "a card and the open drawer"
        page.click(".sd-link")
        page.wait_for_selector("dialog[open]")
        assert not serious(), "the dialog"


def test_the_python_client(address: str) -> None:
    """``/race`` by name, with words for bad numbers."""
    from gradio_client import Client

    client = Client(address, verbose=False)
    told = client.predict(prompt="Once", gamma=4, max_new_tokens=12, api_name="/race")
    assert told["speedup"] > 1 and told["lossless"] is True and told["events"] is None
    assert told["drafted"]["new_tokens"] == 12
    whole = client.predict(prompt="Once", gamma=4, max_new_tokens=12, include_events=True, api_name="/race")
    assert {event["kind"] for event in whole["events"]["drafted"]} >= {"PiecesSeen", "Verified", "Finished"}
    for arguments, words in (({"gamma": 99}, "between 1 and 32"), ({"gamma": "many"}, "must be a number")):
        with pytest.raises(Exception, match=words) as caught:
            client.predict(prompt="Once", api_name="/race", **arguments)
        assert "Traceback" not in str(caught.value)


def test_the_python_client_races_several_methods(address: str) -> None:
    """``/race_methods``: the Race tab for programs."""
    from gradio_client import Client

    client = Client(address, verbose=False)
    chosen = ["autoregressive", "markov_tree"]
    told = client.predict(prompt="Once", methods=chosen, max_new_tokens=12, api_name="/race_methods")
    assert list(told["lanes"]) == ["vanilla", *chosen] and told["lossless"] is True
    assert all(lane["new_tokens"] == 12 and lane["speedup"] >= 1 for lane in told["lanes"].values())
    with pytest.raises(Exception, match="2 to 6 methods"):
        client.predict(prompt="Once", methods=[], api_name="/race_methods")


def test_the_mcp_tool(address: str) -> None:
    """The same function is a tool with described parameters."""
    mcp = pytest.importorskip("mcp", reason="the mcp extra of Gradio is not installed")
    from mcp.client.streamable_http import streamable_http_client

    async def call() -> tuple[Any, Any]:
        async with (
            streamable_http_client(f"{address}gradio_api/mcp/") as (read, write, _),
            mcp.ClientSession(read, write) as client,
        ):
            await client.initialize()
            tools = (await client.list_tools()).tools
            tool = next(item for item in tools if item.name.endswith("race"))
            return tools, (tool, await client.call_tool(tool.name, {"prompt": "Once", "max_new_tokens": 8}))

    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
        tools, (tool, result) = thread.submit(asyncio.run, call()).result(60)
    assert len(tools) == 2, "only the races are public"
    assert "Tokens drafted per round" in json.dumps(tool.inputSchema)
    told = ast.literal_eval(result.content[0].text)  # Gradio writes a dict as Python does
    assert told["speedup"] > 1 and told["drafted"]["new_tokens"] == 8
