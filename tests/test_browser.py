"""Live and Race in a real browser: first visits, controls, runs, links, two themes, two sizes, hostile input.

Skipped where a Chromium is missing. Times are generous: the machine may be busy.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
from browsing import (
    MARKS,
    app,
    clock_runs,
    lanes,
    number,
    open_drawer,
    open_tab,
    overflows,
    playhead,
    ready,
    run,
    serious,
    stand,
    start,
    visit,
)

from benchmarks.page import FIRSTS, run_on_page
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.trace import read_trace

pytestmark = MARKS
LIVE, RACE = app("live"), app("race")
GOING = f"{LIVE}.shown.growing"
DARK = "document.body.classList.contains('dark')"


def value_of(page: Any, selector: str, wanted: str) -> None:
    """Wait for the value of an input."""
    page.wait_for_function("([s, v]) => document.querySelector(s)?.value === v", arg=[selector, wanted])


def titled(page: Any, title: str) -> None:
    """Wait until Live shows the recording of this title."""
    page.wait_for_function(f"(title) => {ready('live')} && {LIVE}.shown.trace.title === title", arg=title)


# ---- the first thirty seconds ----


def test_first_paint(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        player = page.locator("#live-stage, #live-player")
        assert player.locator(".sd-tile").count() >= 8, "a window of masks is on the screen, filled"
        assert "one check: " in player.locator(".sd-stage-caption").inner_text()
        assert "×" in player.locator(".sd-hero .sd-hero-speed").inner_text()
        assert player.locator(".sd-source-chip").get_attribute("data-kind") == "recording"
        order = "(a, b) => Boolean(a.compareDocumentPosition(document.querySelector(b)) & 4)"
        tile = player.locator(".sd-tile").first
        assert tile.evaluate(f"(a) => ({order})(a, '#live-prompt')"), "Tab comes to the stage first"
        assert player.locator(".sd-player-stale").is_hidden(), "controls and stage agree"
        slow, fast = (float(words.rstrip(" s")) for words in lanes(page, "live", "clock"))
        assert fast < slow
        assert player.locator(".sd-numbers-predicted").is_visible()
        stand(page, "Committed", 0)
        assert player.locator(".sd-steps .sd-grid-row").count() == 4, "it shows denoising"
        assert not page.evaluate("Boolean(window.Plotly)"), "no chart is visible"
        player.locator("[data-area=tokens]").scroll_into_view_if_needed()
        page.wait_for_selector("#live-player [data-figure=tokens] .main-svg")
        assert player.locator(".sd-player-further .main-svg").count() == 0, "what is folded is not drawn"
        player.locator(".sd-player-further summary").press("Enter")
        for figure in ("acceptance", "confidence"):
            player.locator(f"[data-figure={figure}]").scroll_into_view_if_needed()
            page.wait_for_selector(f"#live-player [data-figure={figure}] .main-svg")
        page.click("#live-stage .sd-source button.sd-link")
        words = page.text_content("dialog[open]")
        for fact in ("ran together", "no device (test double)", "every denoising step", "fake 1", "prefill"):
            assert fact in words
        page.keyboard.press("Escape")


# ---- controls, and what agrees with them ----


def test_settings(browser: Any, address: str) -> None:
    """Passing the presets or typing loses nothing. The drafter's longest window and presets change the widgets;
    test_app_controls.py has all rules."""
    with visit(browser, address) as page:
        open_drawer(page, "live")
        gamma, steps = page.locator("#live-gamma"), page.locator("#live-steps")
        number(page, "live", "steps", 3)
        gamma.fill("")
        gamma.press_sequentially("16", delay=60)
        gamma.press("Tab")
        value_of(page, "#live-preset", "")  # your own settings
        page.locator("#live-preset").focus()
        page.keyboard.press("Tab")
        assert (gamma.input_value(), steps.input_value()) == ("16", "3")
        gamma = "#live-gamma"
        number(page, "live", "gamma", 5)
        slider = page.locator(".sd-field-knob:has(#live-gamma) input[type=range]")
        slider.focus()
        page.keyboard.press("ArrowRight")
        value_of(page, gamma, "6")
        value_of(page, "#live-preset", "")
        assert slider.get_attribute("max") == "16"
        number(page, "live", "gamma", 16)
        page.select_option("#live-drafter", label="Masked diffusion (SpecDiff)")
        value_of(page, gamma, "12")
        assert slider.get_attribute("max") == "12"
        page.select_option("#live-preset", label="EAGLE-2")
        value_of(page, gamma, "6")
        assert page.input_value("#live-tree_nodes") == "9"


def test_controls_and_stage_agree(browser: Any, address: str) -> None:
    stale = "#live-player .sd-player-stale"
    with visit(browser, address) as page:
        open_drawer(page, "live")
        page.select_option("#live-preset", label="Draft tree (DDTree)")
        titled(page, "Dialogue: Draft tree (DDTree)")
        assert page.locator(stale).is_hidden()
        page.select_option("#live-preset", label="Four denoising steps")
        titled(page, "Dialogue: Four denoising steps")
        page.select_option("#live-stage .sd-more", label="Math: Four denoising steps")
        titled(page, "Math: Four denoising steps")
        number(page, "live", "seed", 5)
        page.wait_for_selector(f"{stale}:has-text('95 % interval')")
        number(page, "live", "tree_nodes", 11)  # similar trees were recorded
        page.wait_for_selector(f"{stale}:has-text('not recorded')")
        number(page, "live", "tree_nodes", 0)
        page.wait_for_selector(f"{stale}:has-text('95 % interval')")
        page.click("#live-run")
        number(page, "live", "seed", 6)  # during the run, whose settings stay what they were
        page.wait_for_selector("#live-stage .sd-source-chip[data-kind=run]")
        page.wait_for_selector(f"{stale}:visible")
        number(page, "live", "seed", 5)
        page.wait_for_selector(stale, state="hidden")
        open_tab(page, "race")
        page.wait_for_function(ready("race"))
        assert page.locator("#race-player .sd-player-stale").is_hidden()
        open_drawer(page, "race")
        page.uncheck("#race-methods label:has-text('DFlash') input")
        page.wait_for_selector("#race-player .sd-player-stale:visible")


def test_the_block_of_a_run_can_have_other_windows_and_steps(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        run(page, "live", "A run of my own")
        page.evaluate(f"{LIVE}.playback.act((player) => player.seek(player.duration))")
        page.click("#live-stage .sd-stage button:has-text('Try other')")
        gamma = page.locator("#live-stage .sd-knobs input").first
        gamma.wait_for()
        tiles = page.locator("#live-stage .sd-tile")
        for size in (3, 8):
            gamma.fill(str(size))
            page.wait_for_function(f"document.querySelectorAll('#live-stage .sd-tile').length >= {size}")
            assert tiles.count() in (size, size + 1), "the guesses, and perhaps the target's own"
        run(page, "live", "Another")
        assert not page.locator("#live-stage .sd-knobs input").count(), "it was the other run's"


def test_a_share_link_restores_every_setting(browser: Any, address: str) -> None:
    chosen = {
        "pair": "embedded", "drafter": "masked", "gamma": "11", "steps": "3", "auto": "true", "order": "entropy",
        "rule": "match", "tree_nodes": "0", "num_drafts": "3", "selection": "trie",
        "temperature": "0.7", "draft_temperature": "0.9", "top_k": "50", "top_p": "0.95", "seed": "17",
        "max_new_tokens": "33", "ignore_eos": "true", "template": "plain", "stop": "User:",
    }  # fmt: skip
    with visit(browser, f"{address}?{urlencode({'prompt': 'Shared & <kept> 🦊', **chosen})}") as page:
        open_drawer(page, "live")
        value_of(page, "#live-gamma", "11")
        page.click("#sd-share")
        page.wait_for_function("document.querySelector('#sd-share').textContent !== 'Share link'")
        link = page.url
        assert page.input_value("#live-prompt") == "Shared & <kept> 🦊"
        assert page.input_value("#live-seed") == "17" and page.input_value("#live-top_k") == "50"
        assert page.is_checked("#live-ignore_eos")
        assert page.input_value("#live-preset") == ""
        assert page.locator("#live-player .sd-player-stale").is_visible(), "these settings have not run"
    shared = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    assert shared == {"prompt": "Shared & <kept> 🦊", **chosen}


def test_a_link_to_a_race_opens_it(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_tab(page, "race")
        open_drawer(page, "race")
        page.fill("#race-prompt", "A race to share, π & <b>")
        for name in ("Small autoregressive drafter", "EAGLE", "DDTree"):
            page.locator("#race-methods label").filter(has_text=name).first.locator("input").uncheck()
        page.check("#race-methods label:has-text('Prompt lookup') input")
        number(page, "race", "max_new_tokens", 32)
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('methods=')")
        link = page.url
    with visit(browser, link, until="window.specdiff?.tabs.race && window.specdiff.tabs.race.frames.awake") as page:
        value_of(page, "#race-prompt", "A race to share, π & <b>")
        open_drawer(page, "race")
        ticked = page.locator("#race-methods label:has(input:checked)").all_inner_texts()
        assert len(ticked) == 3 and any("Prompt lookup" in words for words in ticked)
        assert page.input_value("#race-max_new_tokens") == "32"
        page.click("#race-run")
        page.wait_for_selector("#race-player .sd-source-chip[data-kind=run]")
        assert page.evaluate(f"Object.keys({RACE}.shown.lanes)") == ["vanilla", "prompt_lookup", "specdiff", "dflash"]


# ---- runs ----


def test_runs(browser: Any, address: str, tmp_path: Path, folder: Path) -> None:
    """One is downloaded. While a race goes on, everything about it is on the screen; Stop keeps it as a comparison. A
    closed tab ends the decode."""
    with visit(browser, address) as page:
        box = page.locator("#live-prompt")
        box.fill("Two")
        box.press("End")
        box.press("Shift+Enter")
        assert box.input_value() == "Two\n" and page.evaluate(f"{LIVE}.job.state") == "idle", "a line break"
        box.press("Enter")
        page.wait_for_selector("#live-stage .sd-source-chip[data-kind=run]")
        run(page, "live", "My own <script>window.hacked = 1</script> prompt 🦊 שלום \u202egnihton")
        assert page.get_attribute("#live-stage .sd-source-chip", "data-kind") == "run"
        assert "<script>window.hacked" in page.locator("#live-player .sd-text-prompt").last.text_content()
        assert page.evaluate("window.hacked") is None
        isolated = page.locator("#live-player .sd-text-prompt").last.evaluate("(e) => getComputedStyle(e).unicodeBidi")
        assert isolated == "isolate", "a direction mark in a prompt stays inside it"
        with page.expect_download() as offered:
            page.click("#live-stage .sd-bar-save")
        path = tmp_path / offered.value.suggested_filename
        offered.value.save_as(path)
        assert path.name.endswith(".jsonl.gz")
        assert list(read_trace(path).lanes) == ["vanilla", "drafted"]

        player = page.locator("#live-stage, #live-player")
        start(page, "live", "A slow run that is stopped")
        page.wait_for_function(clock_runs("live"))
        assert player.locator(".sd-player-main").get_attribute("aria-busy") == "true"
        page.wait_for_function(f"{GOING} && {LIVE}.shown.stage.states.vanilla?.tokens.length > 12")
        assert player.locator(".sd-rounds-bar").count() > 1 and player.locator(".sd-steps .sd-grid-row").count() > 0
        assert "×" in player.locator(".sd-hero-speed").text_content(), "the speed-up so far"
        page.wait_for_function(f"{LIVE}.shown.playhead.atEdge")
        player.locator(".sd-lane-text").last.locator(".sd-token").nth(3).click()
        page.wait_for_selector("#live-player .sd-inspector:visible")
        player.locator(".sd-bar-prev").click()
        before = page.evaluate(f"{LIVE}.shown.playhead.t")
        page.wait_for_function(f"(t) => {GOING} && {LIVE}.shown.playhead.duration > t + 0.05", arg=before)
        assert page.evaluate(f"{LIVE}.shown.playhead.t") == before, "who looks back is left alone"
        player.locator("[name=sd-bar-live]").click()
        page.wait_for_function(f"{LIVE}.shown.playhead.atEdge")
        page.click("#live-controls .sd-stop")
        page.wait_for_selector("#live-stage .sd-source-chip[data-kind=stopped]")
        assert "that is stopped" in (folder / "stopped").read_text(encoding="utf-8")
        assert "×" in player.locator(".sd-hero-speed").text_content(), "all lanes ended at one moment"
        ends = page.evaluate(f"Object.values({LIVE}.shown.lanes).map((lane) => lane.finished.seconds)")
        assert max(ends) - min(ends) < 0.05

        start(page, "live", "A slow run, tab closed")
        page.wait_for_function(clock_runs("live"))
    closed, log = time.monotonic(), folder / "stopped"
    while "tab closed" not in (log.read_text(encoding="utf-8") if log.exists() else ""):
        assert time.monotonic() - closed < 4, "a second on a quiet machine"
        time.sleep(0.05)


def test_the_page_benchmark_reads_the_result_of_a_run(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        firsts, result = run_on_page(page)
    assert firsts.keys() == FIRSTS.keys() and all(seconds > 0 for seconds in firsts.values())
    assert [*result] == ["vanilla", "drafted"] and all(lane["ids"] for lane in result.values())


def test_a_reload_and_a_slow_connection_lose_nothing(browser: Any, address: str) -> None:
    with visit(browser, address, reloads=True) as page:
        start(page, "live", "A slow run that is reloaded")
        page.wait_for_function(f"{GOING} && {LIVE}.shown.stage.lanes.vanilla?.texts.length > 4")
        page.reload()
        page.wait_for_function(ready("live"))
        value_of(page, "#live-prompt", "A slow run that is reloaded")
        assert page.evaluate(f"{LIVE}.shown.lanes.vanilla.texts.length") > 4, "the link in the address leads to it"
        network = page.context.new_cdp_session(page)
        speed = {"latency": 100, "downloadThroughput": 150_000, "uploadThroughput": 150_000}
        network.send("Network.emulateNetworkConditions", {"offline": False, **speed})
        run(page, "live", "It arrives late")
        assert page.evaluate(f"{LIVE}.shown.lanes.vanilla.texts.length") == 96
        network.detach()


# ---- several methods ----

ORDER = ["Vanilla", "Small autoregressive drafter", "EAGLE", "SpecDiff", "Block diffusion (DFlash)"]


@pytest.mark.parametrize(("size", "dark"), [("desktop", False), pytest.param("phone", True, marks=pytest.mark.slow)])
def test_a_race_of_six(browser: Any, address: str, size: str, dark: bool, tmp_path: Path) -> None:
    """Places, numbers, a window for the selected lane, a chart and a file of all lanes; accessible."""
    with visit(browser, address, size=size, dark=dark) as page:
        open_tab(page, "race")
        run(page, "race", "A race of six")
        names = [words[1:] for words in lanes(page, "race", "name")]
        assert names[:5] == ORDER
        assert sorted(lanes(page, "race", "place")) == list("113446") and lanes(page, "race", "place")[0] == "6"
        assert all("96 tokens" in words for words in lanes(page, "race", "tokens"))
        speed = lanes(page, "race", "speed")
        assert speed[0] == "1.00×" and all(float(words[:-1]) > 1 for words in speed[1:])
        assert page.get_attribute("#race-player .sd-source-chip", "data-kind") == "run"
        assert not overflows(page)
        address_before = page.url
        page.locator("#race-player .sd-lane").nth(1).click()
        assert page.locator("#race-player .sd-lane[aria-selected=true]").count() == 1
        assert page.url == address_before, "a lane is no tab of the page"
        page.wait_for_selector("#race-player .sd-hero-name:text-is('Small autoregressive drafter')")
        page.locator("#race-player .sd-rounds-bar").nth(2).dispatch_event(
            "click"
        )  # the mouse misses what a chart moves
        page.wait_for_selector("#race-player .sd-window .sd-sub:has-text('round 3 of')")
        assert page.locator("#race-player .sd-grid-tests .sd-test").count() == 5, "γ 4, and the target's"
        page.locator("#race-player .sd-lane[aria-selected=true]").focus()
        page.keyboard.press("ArrowUp")
        page.wait_for_function("document.activeElement.getAttribute('aria-selected') === 'true'")
        page.wait_for_selector("#race-player .sd-window-sentence:has-text('drafts nothing')")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(f"{RACE}.shown.playhead.stop") >= 0, "arrows step, also from a row"
        page.click("#race-player .sd-lanes > header .sd-link")
        assert page.locator("#race-player .sd-lane-text:visible").count() == 6
        page.locator("#race-player [data-area=tokens]").scroll_into_view_if_needed()
        labels = "document.querySelectorAll('#race-player [data-area=tokens] .annotation-text')"
        page.wait_for_function(f"{labels}.length === 6")
        assert not serious(page), "all texts"
        assert not overflows(page)
        if size == "phone":
            return  # which offers no download
        with page.expect_download() as offered:
            page.click("#race-player .sd-bar-save")
        offered.value.save_as(tmp_path / "race.jsonl.gz")
        assert list(read_trace(tmp_path / "race.jsonl.gz").lanes)[:2] == ["vanilla", "autoregressive"]
        open_tab(page, "live")
        page.set_input_files("input[type=file]", str(tmp_path / "race.jsonl.gz"))
        page.wait_for_selector("#race-player .sd-source-chip[data-kind=file]:visible")
        assert page.get_attribute("#live-stage .sd-source-chip", "data-kind") == "recording", "Live keeps its own"


# ---- everybody ----


@pytest.mark.parametrize(("size", "dark"), [("desktop", False), ("phone", True)])
def test_accessible_and_fitting(browser: Any, address: str, size: str, dark: bool) -> None:
    """The chosen theme is kept."""
    with visit(browser, address, size=size, dark=dark) as page:
        assert page.evaluate(DARK) == dark
        assert not overflows(page)
        open_tab(page, "api")  # Learn: test_browser_learn.py, test_browser_export.py
        assert not overflows(page)
        assert not serious(page), "API"
        open_tab(page, "live")
        stand(page, "Committed", 2)
        start(page, "live", "")
        page.wait_for_selector("#live-player .sd-card:visible")
        stale = page.locator("#live-player .sd-player-stale")
        assert stale.inner_text() and stale.is_hidden(), "one thing is said at a time"
        open_drawer(page, "live")
        assert not serious(page), "a round, a card and the open drawer"
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
        own = [name for name in ids if name.startswith(("sd-", "live-", "race-", "compare-", "lane-", "tab-"))]
        assert len(own) == len(set(own)), "no id twice"
        assert not overflows(page)
        page.click("#live-stage .sd-source button.sd-link")
        page.wait_for_selector("dialog[open]")
        assert not serious(page), "the dialog"
        if dark and size == "phone":
            page.keyboard.press("Escape")
            page.click("#sd-theme")
            page.wait_for_function(f"!{DARK}")
            page.reload()
            page.wait_for_function(f"{ready('live')} && !{DARK}")
            page.click("#sd-theme")
            page.wait_for_function(DARK)


def test_a_waiting_visitor_gets_a_turn_and_a_server_dies_under_both(browser: Any, serve: Any, served: Any) -> None:
    """One runs and two waits: two can leave, or gets a turn. Of a server that dies, a race that is measured stays as
    far as it came, and a waiting visitor is free again. When it is back, the page reloads itself with prompt and
    settings, and runs."""
    url, process = served
    lost = {"reloads": True, "logged": "console error"}
    waits, free = "#live-player .sd-status span:text-matches('1[^0-9]+1')", f"{LIVE}.job.state === 'idle'"
    with visit(browser, url, **lost) as one, visit(browser, url, **lost) as two:
        start(one, "live", "A very slow secret of Anna")
        one.wait_for_function(clock_runs("live"))
        two.fill("#live-prompt", "Ben waits")
        two.evaluate("for (const id of ['run', 'stop']) document.querySelector(`#live-controls .sd-${id}`).click()")
        two.wait_for_function(free)
        two.click("#live-run")
        two.wait_for_selector(waits)
        two.click("#live-controls .sd-stop")
        two.wait_for_function(free)
        assert two.locator("#live-player [aria-busy=true]").count() == 0
        one.click("#live-controls .sd-stop")
        one.wait_for_selector("#live-stage .sd-source-chip[data-kind=stopped]")
        run(one, "live", "Anna again")  # what is still queued would have begun before
        assert two.evaluate(f"{LIVE}.job.live") is None
        assert two.get_attribute("#live-stage .sd-source-chip", "data-kind") == "recording"
        start(one, "live", "A very slow secret of Anna")
        one.wait_for_function(clock_runs("live"))
        start(two, "live", "Ben is quick")
        two.wait_for_selector(waits)
        one.click("#live-controls .sd-stop")
        two.wait_for_selector("#live-stage .sd-source-chip[data-kind=run]")
        assert "Anna" not in two.content() and "Ben" not in one.content()

        open_drawer(one, "live")
        number(one, "live", "gamma", 5)
        start(one, "live", "very slow and lost")
        start(two, "live", "lost in the queue")
        two.wait_for_selector(waits)
        one.wait_for_function(f"{GOING} && {LIVE}.shown.stage.lanes.vanilla?.texts.length > 0")
        one.evaluate(f"{LIVE}.job.watchdog.ask()")  # a server that answers is waited for
        assert one.evaluate(f"{LIVE}.job.state") == "running"
        for page in (one, two):
            page.evaluate("window.old = true")
        process.kill()
        for page in (one, two):
            page.wait_for_selector("#live-player .sd-card:not([hidden])")
            assert page.locator("[aria-busy=true]").count() == 0
        assert one.evaluate(f"{LIVE}.shown.source") == "stopped"
        assert one.evaluate(f"{LIVE}.shown.lanes.vanilla.rounds.length") > 0, "with what had arrived"
        serve(urlparse(url).port)
        for page in (one, two):
            page.wait_for_function("!window.old && window.specdiff?.tabs.live")
        value_of(one, "#live-prompt", "very slow and lost")
        value_of(two, "#live-prompt", "lost in the queue")
        open_drawer(one, "live")
        value_of(one, "#live-gamma", "5")
        run(one, "live", "found again")


# ---- programs, and links ----


def test_the_mcp_tool(address: str) -> None:
    """The same function is a tool whose every parameter is described in whole sentences."""
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
    assert len(tools) == 4, "races, explorations and the pairs"
    schema = tool.inputSchema["properties"]
    assert (schema["gamma"]["minimum"], schema["gamma"]["maximum"]) == (1, 32) and "match" in schema["rule"]["enum"]
    for name, setting in SETTINGS.items():
        assert setting.help in tool.inputSchema["properties"][name]["description"]
    drafted = json.loads(result.content[0].text)["lanes"]["drafted"]
    assert drafted["speedup"] > 1 and drafted["new_tokens"] == 8


def test_a_link_to_a_moment_brings_it_back(browser: Any, address: str) -> None:
    round = "document.querySelector('#live-player .sd-window header .sd-sub').textContent"
    with visit(browser, address) as page:
        stand(page, "TargetScored", 2)
        before = page.evaluate(round), page.inner_text("#live-player .sd-window-sentence")
        page.click("#live-stage .sd-source button:has-text('Link to this moment')")
        page.wait_for_function("location.search.includes('at=score')")
        link = page.url
        files = page.evaluate(f"{app('live')}.options.recordings.map(({{url}}) => url.split('/').pop())")
    late = (  # the controls speak while the recording is on its way; asked for twice, it arrives later still
        "const get = window.fetch; const pause = (ms) => new Promise((next) => setTimeout(next, ms)); let asked = 0;"
        "window.fetch = async (...words) => { const url = String(words[0]);"
        " if (url.endsWith('.jsonl.gz')) { const wait = 300 * asked++;"
        " while (!window.specdiff?.tabs?.live?.state.formSettings) await pause(20); await pause(wait); }"
        " return get(...words); };"
    )
    with visit(browser, link, motion=True, before=late) as page:
        page.wait_for_function(f"{app('live')}.shown.playhead.stop >= 0 && {ready('live')}")
        assert not playhead(page)["playing"]
        assert (page.evaluate(round), page.inner_text("#live-player .sd-window-sentence")) == before
        assert page.get_attribute("#live-stage .sd-source-chip", "data-kind") == "recording"
    another = f"?tab=live&trace={files[1]}&lane=drafted&round=2&at=score"
    with visit(browser, address + another, motion=True, before=late) as page:
        page.wait_for_function(
            f"{app('live')}.shown.playhead.stop >= 0 && {app('live')}.shown.file === {files[1]!r} && {ready('live')}"
        )
        page.wait_for_function(f"{app('live')}.state.formSettings && {ready('live')}")  # as it opened
        assert page.evaluate(f"{app('live')}.shown.file") == files[1] and playhead(page)["stop"] >= 0
    with visit(browser, address + "?trace=%00&round=x&lane=__proto__&at=%3Cb%3E&tab=no+such") as page:
        assert playhead(page)["duration"] > 0


def test_a_bad_link_shows_which_setting_is_wrong(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?gamma=99") as page:
        page.wait_for_selector("#live-player .sd-card:has-text('99'):visible")
        page.wait_for_selector("#live-gamma.sd-invalid:visible")  # its drawer is open
        assert page.input_value("#live-gamma") == "99"


def test_a_run_has_a_link_that_opens_it_again(browser: Any, address: str) -> None:
    """With its controls, also by Share; Back walks through tabs and runs. Without its file, the settings stay."""
    prompt = "Object.values(window.specdiff.tabs.live.shown.lanes)[0]?.header.prompt"
    with visit(browser, address) as page:
        open_drawer(page, "live")
        number(page, "live", "gamma", 5)
        run(page, "live", "A run to keep")
        page.wait_for_function("location.search.includes('run=')")
        link, seconds = page.url, page.evaluate(f"{LIVE}.shown.lanes.drafted.duration")
        run(page, "live", "Another run")
        page.wait_for_function("document.querySelectorAll('[aria-label=\"My runs\"] option').length === 3")
        open_tab(page, "explore")
        page.get_by_role("button", name="Two runs side by side").click()
        open_tab(page, "live")
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('run=')")
        tab = "document.querySelector('#sd-tabs [role=tab][aria-selected=true]')?.textContent.trim()"
        for opened in ("Explore", "Explore", "Live"):  # a question has an entry, too
            page.go_back()
            page.wait_for_function(f"{tab} === '{opened}'")
        page.go_back()
        page.wait_for_function(f"{ready('live')} && {prompt} === 'A run to keep'")
        page.get_by_label("Examples").first.select_option(index=1)
        page.wait_for_function(f"{ready('live')} && {prompt} !== 'A run to keep' && location.search.includes('trace=')")
        page.go_back()
        page.wait_for_function(f"{ready('live')} && {prompt} === 'A run to keep'")
        open_tab(page, "learn")
        page.wait_for_function("location.search.includes('open=learn')")
        opened = page.url  # what a reload asks for
    with visit(browser, opened, until=f"window.specdiff?.tabs.live?.shown.trace && {tab} === 'Learn'") as page:
        assert page.evaluate(prompt) == "A run to keep"
        open_tab(page, "live")
        value_of(page, "#live-prompt", "A run to keep")
        open_drawer(page, "live")
        value_of(page, "#live-gamma", "5")
        assert page.evaluate(f"{LIVE}.shown.lanes.drafted.duration") == seconds
        page.wait_for_selector("#live-player .sd-player-stale", state="hidden")
    query = parse_qs(urlparse(link).query) | {"run": ["x" * 22 + ".jsonl"]}
    with visit(browser, f"{address}?{urlencode(query, doseq=True)}", logged="404") as page:
        page.wait_for_selector("#live-player .sd-card:visible")
        value_of(page, "#live-prompt", "A run to keep")
        open_drawer(page, "live")
        value_of(page, "#live-gamma", "5")
