"""Live and Race in a real browser: clicks and keys, two themes, two sizes, hostile input.

Skipped where a Chromium is missing. Times are generous: the machine may be busy.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

import msgspec
import pytest
from fakes import FakeClock, FakeTarget, good_drafter

from app.page import TRACES
from specdiff_core.decoding.loop import speculate
from specdiff_core.schema.events import PiecesSeen, RunStarted
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace
from tests.app_fakes import FakeDecoder
from tests.browsing import (
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

pytestmark = MARKS
LIVE, RACE = app("live"), app("race")
DARK = "document.body.classList.contains('dark')"
SCREENS = pytest.mark.parametrize(
    ("size", "dark"),
    [
        ("desktop", False),
        ("phone", True),
        pytest.param("desktop", True, marks=pytest.mark.slow),
        pytest.param("phone", False, marks=pytest.mark.slow),
    ],
)


def value_of(page: Any, selector: str, wanted: str) -> None:
    """Wait for the value of an input."""
    page.wait_for_function("([s, v]) => document.querySelector(s)?.value === v", arg=[selector, wanted])


def titled(page: Any, title: str) -> None:
    """Wait until Live shows the recording of this title."""
    page.wait_for_function(f"(title) => {ready('live')} && {LIVE}.trace.title === title", arg=title)


# ---- the first thirty seconds ----


def test_first_paint(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        player = page.locator("#live-player")
        lead = player.locator(".sd-lead-words").text_content()
        assert "96 tokens" in lead and "×" in lead
        assert player.locator(".sd-chip").get_attribute("data-kind") == "recording"
        assert player.locator(".sd-stale").is_hidden(), "controls and stage agree"
        slow, fast = (float(words.rstrip(" s")) for words in lanes(page, "live", "clock"))
        assert fast < slow
        assert player.locator(".sd-predicted").is_visible()
        stand(page, "Committed", 0)
        assert player.locator(".sd-steps .sd-row").count() == 4, "it shows denoising"
        player.locator("[data-area=tokens]").scroll_into_view_if_needed()
        page.wait_for_selector("#live-player [data-figure=tokens] .main-svg")
        assert player.locator(".sd-further .main-svg").count() == 0, "what is folded is not drawn"
        player.locator(".sd-further summary").press("Enter")
        for figure in ("acceptance", "confidence"):
            player.locator(f"[data-figure={figure}]").scroll_into_view_if_needed()
            page.wait_for_selector(f"#live-player [data-figure={figure}] .main-svg")
        page.click("#live-player .sd-source button.sd-link")
        words = page.text_content("dialog[open]")
        for fact in ("one after the other", "no device (test double)", "every denoising step", "fake 1", "prefill"):
            assert fact in words
        page.keyboard.press("Escape")


def test_on_a_phone_the_controls_follow_the_number(browser: Any, address: str) -> None:
    with visit(browser, address, size="phone") as page:
        number, *stage = (f"#live-player [data-area={area}]" for area in ("hero", "lanes", "window"))
        tops = [page.locator(part).bounding_box()["y"] for part in (number, "#live-controls", *stage)]
        assert tops == sorted(tops)
        for which in range(3):
            stand(page, "Committed", which)
            cell = page.locator("#live-player .sd-tests .sd-outcome").bounding_box()
            assert cell["x"] >= 0 and cell["x"] + cell["width"] <= 390
        assert not overflows(page)


def test_the_window_is_never_blank_and_shows_every_step(browser: Any, address: str) -> None:
    """From the first round on there is always one: between two rounds, in a round without a draft,
    and at the end. What stands below it never moves."""
    with visit(browser, address) as page:
        stops = page.evaluate(f"{LIVE}.player.stops.filter((stop) => stop.lane === 'drafted').length")
        seen = page.evaluate(f"""() => {{
            const app = {LIVE}, empty = [], below = new Set();
            const first = app.player.stops.findIndex((stop) => stop.lane === 'drafted');
            for (let i = first; i < app.player.stops.length; i += 1) {{
                app.player.stand(i); app.draw();
                if (!document.querySelector('#live-player .sd-steps .sd-row')) empty.push(i);
                below.add(document.querySelector('#live-player [data-area=tokens]').getBoundingClientRect().top);
            }}
            return [empty, below.size];
        }}""")
        assert stops > 50 and seen == [[], 1]
        stand(page, "RoundStarted", 2)
        assert page.locator("#live-player .sd-steps .sd-mask").count() == 32, "γ 8, T 4"
        stand(page, "DenoiseStep", 6)
        assert page.locator("#live-player .sd-fresh:visible").count() >= 2
        assert "confidence " in page.locator("#live-player .sd-steps .sd-fresh").first.get_attribute("title")
        stand(page, "Committed", 2)
        assert page.text_content("#live-player .sd-say").startswith("Round 3: ")
        assert page.locator("#live-player .sd-phase.sd-on").text_content().startswith("4 Commit")


def test_playback(browser: Any, address: str) -> None:
    """Of a round all new tokens are highlighted and no other, and they stay where they stand."""
    placed = "all => all.map((one) => JSON.stringify(one.getBoundingClientRect()))"
    with visit(browser, address, motion=True) as page:
        page.wait_for_function(f"{LIVE}.player.t > 0")
        page.locator("body").press(" ")
        assert not playhead(page)["playing"]
        calls: list[str] = []
        page.on("request", lambda request: calls.append(request.url))
        page.evaluate(f"{LIVE}.act(() => {LIVE}.player.stand(2))")
        for key, stop in (("ArrowRight", 3), ("Shift+ArrowRight", 13), ("ArrowLeft", 12)):
            page.locator("body").press(key)
            assert playhead(page)["stop"] == stop
        assert page.locator("#live-player .sd-rd").count() == page.evaluate(f"{LIVE}.lanes.drafted.rounds.length")
        page.locator("#live-player .sd-rd").nth(3).click()
        page.wait_for_selector("#live-player .sd-window .sd-sub:has-text('round 4')")
        assert page.locator("#live-player .sd-rd").nth(3).get_attribute("aria-current") == "true"
        assert page.text_content("#live-player .sd-voice").startswith("Round 4: ")
        page.locator("#live-player .sd-scrub").fill("300")
        state = playhead(page)
        assert abs(state["t"] / state["duration"] - 0.3) < 0.01
        page.wait_for_function(ready("live"))
        slow, fast = lanes(page, "live", "clock")
        assert slow == fast
        so_far, lead = page.text_content("#live-player .sd-speed"), page.locator("#live-player .sd-lead-words")
        assert "×" not in lead.inner_text(), "no result before the replay has reached it"
        page.locator("#live-player .sd-scrub").fill("1000")
        page.wait_for_function(ready("live"))
        assert page.text_content("#live-player .sd-speed") != so_far and "×" in lead.inner_text()
        page.select_option("#live-player .sd-bar .sd-pick", "100")
        assert playhead(page)["slow"] == 100
        page.click("#live-player .sd-play")
        page.wait_for_function(f"{LIVE}.player.playing")
        page.click("#live-player .sd-prev")
        stood = playhead(page)["stop"]
        page.keyboard.press(" ")  # not the button again that was clicked
        page.wait_for_function(f"{LIVE}.player.playing")
        page.keyboard.press(" ")
        page.locator("#live-player .sd-next").focus()
        page.keyboard.press("Enter")  # who came with the keyboard stays where they are
        assert playhead(page)["stop"] > stood and page.evaluate("document.activeElement.matches('.sd-next')")
        asked = [url for url in calls if "gradio_api/" in url and "file=" not in url]
        assert not asked, "the player works alone"
        stand(page, "Verified", 1)
        stand(page, "Committed", 1)
        fresh = "#live-player .sd-lane-text.sd-selected .sd-now"
        found = page.eval_on_selector_all(fresh, placed)
        events = page.evaluate(f"{LIVE}.trace.lanes.drafted")
        assert len(found) == len([one for one in events if one["kind"] == "Committed"][1]["ids"])
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.eval_on_selector_all(fresh, placed) == found


def test_the_chosen_theme_is_kept(browser: Any, address: str) -> None:
    with visit(browser, address, dark=True) as page:
        page.wait_for_function(DARK)
        page.click("#sd-theme")
        page.wait_for_function(f"!{DARK}")
        page.reload()
        page.wait_for_function(ready("live"))
        page.wait_for_function(f"!{DARK}")
        page.click("#sd-theme")
        page.wait_for_function(DARK)


# ---- controls, and what agrees with them ----


def test_settings(browser: Any, address: str) -> None:
    """Passing the presets or typing loses nothing. T ≤ γ, the drafter's longest window, presets and
    examples change the widgets."""
    with visit(browser, address) as page:
        open_drawer(page, "live")
        gamma, steps = page.locator("#live-gamma input[type=number]"), page.locator("#live-steps input[type=number]")
        number(page, "live", "steps", 3)
        gamma.fill("")
        gamma.press_sequentially("16", delay=60)
        gamma.press("Tab")
        value_of(page, "#live-preset input", "Your own settings")
        page.locator("#live-preset input").focus()
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        number(page, "live", "seed", 7)  # events are handled in their order
        value_of(page, "#live-seed input", "7")
        assert (gamma.input_value(), steps.input_value()) == ("16", "3")
        gamma, steps = "#live-gamma input[type=number]", "#live-steps input[type=number]"
        number(page, "live", "gamma", 12)
        number(page, "live", "steps", 12)
        number(page, "live", "gamma", 5)
        value_of(page, steps, "5")
        number(page, "live", "steps", 9)
        value_of(page, steps, "5")
        page.locator("#live-gamma input[type=range]").focus()
        page.keyboard.press("ArrowRight")
        value_of(page, gamma, "6")
        value_of(page, "#live-preset input", "Your own settings")
        assert page.get_attribute("#live-gamma input[type=range]", "max") == "16"
        page.click("#live-drafter input")
        page.click("[role=option]:has-text('Masked diffusion (SpecDiff)')")
        page.wait_for_function("document.querySelector('#live-gamma input[type=range]').max === '32'")
        number(page, "live", "gamma", 30)
        page.click("#live-drafter input")
        page.click("[role=option]:has-text('DFlash')")
        value_of(page, gamma, "16")
        page.click("#live-controls .sd-chip-button:has-text('Code')")
        page.wait_for_function("document.querySelector('#live-prompt textarea').value.startsWith('def ')")
        page.click("#live-preset input")
        page.click("[role=option]:has-text('EAGLE-2')")
        value_of(page, gamma, "6")
        assert page.input_value("#live-tree_nodes input[type=number]") == "9"


def test_controls_and_stage_agree(browser: Any, address: str) -> None:
    stale = "#live-player .sd-stale"
    with visit(browser, address) as page:
        page.click("#live-preset input")
        page.click("[role=option]:has-text('Draft tree (DDTree)')")
        titled(page, "Dialogue: Draft tree (DDTree)")
        assert page.locator(stale).is_hidden()
        page.click("#live-preset input")
        page.click("[role=option]:has-text('Four denoising steps')")
        titled(page, "Dialogue: Four denoising steps")
        open_drawer(page, "live")
        page.click("#live-controls .sd-chip-button:has-text('Math')")
        titled(page, "Math: Four denoising steps")
        number(page, "live", "seed", 5)
        page.wait_for_selector(f"{stale}:has-text('tokens per round')")
        number(page, "live", "tree_nodes", 9)  # predicted by similar trees
        page.wait_for_selector(f"{stale}:has-text('Predicted: '):has-text('B 9')")
        number(page, "live", "tree_nodes", 0)
        page.wait_for_selector(f"{stale}:has-text('tokens per round')")
        page.click("#live-run")
        page.wait_for_selector("#live-player .sd-chip[data-kind=run]")
        assert page.locator(stale).is_hidden()
        number(page, "live", "seed", 6)
        page.wait_for_selector(f"{stale}:visible")
        number(page, "live", "seed", 5)
        page.wait_for_selector(stale, state="hidden")
        open_tab(page, "race")
        page.wait_for_function(ready("race"))
        assert page.locator("#race-player .sd-stale").is_hidden()
        open_drawer(page, "race")
        page.uncheck("#race-methods label:has-text('DFlash') input")
        page.wait_for_selector("#race-player .sd-stale:visible")


def test_a_method_card_brings_its_settings_and_its_recording(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_tab(page, "learn")
        math = page.locator("#method-specdiff2 math").first
        assert math.evaluate("e => e.namespaceURI") == "http://www.w3.org/1998/Math/MathML"
        assert math.bounding_box()["height"] > 20, "drawn as a formula, not as a line of letters"
        page.click("#method-specdiff2 .sd-use")
        titled(page, "Dialogue: SpecDiff-2")
        value_of(page, "#live-preset input", "Your own settings")
        open_drawer(page, "live")
        assert page.input_value("#live-gamma input[type=number]") == "9"
        assert page.input_value("#live-num_drafts input[type=number]") == "4"
        assert "streak" in page.input_value("#live-drafter input")


def test_a_share_link_opens_its_tab(browser: Any, address: str) -> None:
    selected = "document.querySelector('#sd-tabs [role=tab][aria-selected=true]')?.textContent.trim().toLowerCase()"
    links = {}
    with visit(browser, address) as page:
        for tab in ("compare", "learn"):  # Race and Explore: see below, and test_browser_explore.py
            open_tab(page, tab)
            page.click("#sd-share")
            page.wait_for_function(f"location.search.includes('tab={tab}')")
            links[tab] = page.url
    for tab, link in links.items():
        with visit(browser, link, until=f"{selected} === '{tab}'") as page:
            assert page.evaluate(selected) == tab


def test_a_share_link_restores_every_setting(browser: Any, address: str) -> None:
    chosen = {
        "pair": "embedded", "drafter": "mdlm", "gamma": "11", "steps": "3", "auto": "true", "order": "entropy",
        "rule": "match", "tree_nodes": "0", "num_drafts": "3", "selection": "trie",
        "temperature": "0.7", "draft_temperature": "0.9", "top_k": "50", "top_p": "0.95", "seed": "17",
        "max_new_tokens": "33", "ignore_eos": "true", "template": "plain", "stop": "User:",
    }  # fmt: skip
    with visit(browser, f"{address}?{urlencode({'prompt': 'Shared & <kept> 🦊', **chosen})}") as page:
        open_drawer(page, "live")
        value_of(page, "#live-gamma input[type=number]", "11")
        page.click("#sd-share")
        page.wait_for_function("document.querySelector('#sd-share').textContent !== 'Share link'")
        link = page.url
        assert page.input_value("#live-prompt textarea") == "Shared & <kept> 🦊"
        assert page.input_value("#live-seed input") == "17" and page.input_value("#live-top_k input") == "50"
        assert page.is_checked("#live-ignore_eos input")
        assert page.input_value("#live-preset input") == "Your own settings"
        assert page.locator("#live-player .sd-stale").is_visible(), "these settings have not run"
    shared = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    assert shared == {"prompt": "Shared & <kept> 🦊", **chosen}


def test_a_link_to_a_race_opens_it(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_tab(page, "race")
        open_drawer(page, "race")
        page.fill("#race-prompt textarea", "A race to share, π & <b>")
        for name in ("Small autoregressive drafter", "EAGLE", "DDTree"):
            page.locator("#race-methods label").filter(has_text=name).first.locator("input").uncheck()
        page.check("#race-methods label:has-text('Prompt lookup') input")
        number(page, "race", "max_new_tokens", 32)
        page.wait_for_function("window.specdiffAsked.race.includes('max_new_tokens=32')")
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('methods=')")
        link = page.url
    with visit(browser, link, until="window.specdiff?.players.race && !window.specdiff.players.race.asleep") as page:
        value_of(page, "#race-prompt textarea", "A race to share, π & <b>")
        open_drawer(page, "race")
        ticked = page.locator("#race-methods label:has(input:checked)").all_inner_texts()
        assert len(ticked) == 3 and any("Prompt lookup" in words for words in ticked)
        assert page.input_value("#race-max_new_tokens input[type=number]") == "32"
        page.click("#race-run")
        page.wait_for_selector("#race-player .sd-chip[data-kind=run]")
        assert page.evaluate(f"Object.keys({RACE}.lanes)") == ["vanilla", "prompt_lookup", "specdiff", "dflash"]


def test_focus_is_visible_on_every_control(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_drawer(page, "live")
        page.locator("#sd-theme").focus()
        bare = []
        for _ in range(60):
            page.keyboard.press("Tab")
            found = page.evaluate("""() => {
                const one = document.activeElement;
                const seen = (element) => { const style = getComputedStyle(element);
                    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1.5; };
                const inside = Boolean(one.closest('#live-controls'));
                const shown = seen(one) || Boolean(one.parentElement && seen(one.parentElement));
                return [inside, shown, one.outerHTML.slice(0, 120)];
            }""")
            if found[0] and not found[1]:
                bare.append(found[2])
        page.wait_for_function("document.querySelectorAll('[role=listbox]').length < 2")
        assert not bare


# ---- runs ----


FRAME = """new Promise((done) => requestAnimationFrame(() => {
    const began = performance.now();
    requestAnimationFrame(() => done(performance.now() - began));
}))"""
"""Milliseconds from one frame to the next."""


def test_runs(browser: Any, address: str, tmp_path: Path, folder: Path) -> None:
    """One is downloaded. A measured lane is not disturbed, and Stop keeps it. A closed tab ends the decode."""
    with visit(browser, address) as page:
        run(page, "live", "My own <script>window.hacked = 1</script> prompt 🦊 שלום \u202egnihton")
        assert page.get_attribute("#live-player .sd-chip", "data-kind") == "run"
        assert "<script>window.hacked" in page.locator("#live-player .sd-prompt").last.text_content()
        assert page.evaluate("window.hacked") is None
        isolated = page.locator("#live-player .sd-prompt").last.evaluate("(e) => getComputedStyle(e).unicodeBidi")
        assert isolated == "isolate", "a direction mark in a prompt stays inside it"
        with page.expect_download() as offered:
            page.click("#live-player .sd-save")
        path = tmp_path / offered.value.suggested_filename
        offered.value.save_as(path)
        assert path.name.endswith(".jsonl.gz")
        assert list(read_trace(path).lanes) == ["vanilla", "drafted"]

        player = page.locator("#live-player")
        start(page, "live", "A slow run that is stopped")
        page.wait_for_function(clock_runs("live"))
        assert player.locator(".sd-main").get_attribute("aria-busy") == "true"
        assert player.locator(".sd-speed").text_content() == "–", "no number of the race before"
        assert "×" not in player.locator(".sd-lead-words").text_content()
        assert player.locator(".sd-rd").count() == 0 and player.locator(".sd-steps").count() == 0
        assert player.locator(".sd-time").text_content() == "measuring"
        assert page.evaluate(FRAME) > 700
        page.wait_for_function(f"{LIVE}.stage.lanes.vanilla?.shown.length > 0")  # what it wrote
        page.click("#live-stop")
        page.wait_for_selector("#live-player .sd-chip[data-kind=stopped]")
        assert "that is stopped" in (folder / "stopped").read_text(encoding="utf-8")
        page.wait_for_function(f"{FRAME}.then((milliseconds) => milliseconds < 300)")

        start(page, "live", "A slow run, tab closed")
        page.wait_for_function(clock_runs("live"))
    closed, log = time.monotonic(), folder / "stopped"
    while "tab closed" not in (log.read_text(encoding="utf-8") if log.exists() else ""):
        assert time.monotonic() - closed < 4, "a second on a quiet machine"
        time.sleep(0.05)


def test_where_threads_waited_passes_count_and_one_thread_is_offered(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        player = page.locator("#live-player")
        assert not player.locator(".sd-busy-machine").is_visible()
        run(page, "live", "A crowded run")
        assert "0.90" in player.locator(".sd-busy-machine").inner_text()
        passes, base = (int(words) for words in player.locator(".sd-speed").inner_text().split(":"))
        assert base == 96 and 1 < passes < 96
        assert "×" not in player.locator(".sd-lead-words").inner_text()
        page.click("#live-player .sd-source button.sd-link")
        assert "vanilla 0.90" in page.inner_text("dialog[open]")
        page.keyboard.press("Escape")
        page.click("#live-player .sd-hero .sd-link")
        page.wait_for_function(f"{ready('live')} && {LIVE}.lanes.drafted.header.threads === 1")
        assert not player.locator(".sd-busy-machine").is_visible()
        assert "×" in player.locator(".sd-speed").inner_text()
        run(page, "live", "A crowded run again")
        assert page.evaluate(f"{LIVE}.lanes.drafted.header.threads") == 2, "for that one run only"


def test_cards(browser: Any, address: str) -> None:
    cases = [
        ("", "recording"),
        ("x" * 100_000, "recording"),
        ("out of memory", "failed"),
        ("something unexpected", "failed"),
    ]
    hints = set()
    with visit(browser, address) as page:
        for prompt, stage in cases:
            start(page, "live", prompt)
            page.wait_for_selector("#live-player .sd-card:not([hidden])")
            words = page.text_content("#live-player .sd-card")
            assert "Traceback" not in words and "secret" not in words
            hints.add(page.text_content("#live-player .sd-card .sd-hint"))
            assert page.locator("#live-prompt.sd-invalid").count() == (stage == "recording")
            assert page.evaluate("document.querySelector('#live-prompt textarea').value.length") == len(prompt)
            assert page.get_attribute("#live-player .sd-chip", "data-kind") == stage
            page.click("#live-player .sd-card button")
            assert page.locator("#live-player .sd-card").is_hidden()
    assert len(hints) == len(cases), "each says what helps here"


@pytest.mark.parametrize("tab", ["live", pytest.param("race", marks=pytest.mark.slow)])
def test_who_waits_can_leave_the_queue_or_gets_a_turn(browser: Any, address: str, tab: str) -> None:
    with visit(browser, address) as one, visit(browser, address) as two:
        start(one, "live", "A slow secret of Anna")
        one.wait_for_function(clock_runs("live"))
        if tab != "live":
            open_tab(two, tab)
        two.fill(f"#{tab}-prompt textarea", f"Ben waits on {tab}")
        two.evaluate(f"for (const id of ['run', 'stop']) document.getElementById(`{tab}-${{id}}`).click()")
        free = f"!{app(tab)}.waiting && !{app(tab)}.busy"
        two.wait_for_function(free)
        two.click(f"#{tab}-run")
        status = f"#{tab}-player .sd-status"
        two.wait_for_selector(f"{status} span:text-matches('1[^0-9]+1')")
        two.click(f"#{tab}-stop")
        two.wait_for_function(free)
        assert two.locator(f"#{tab}-player .sd-busy").count() == 0
        one.click("#live-stop")
        one.wait_for_selector("#live-player .sd-chip[data-kind=stopped]")
        run(one, "live", "Anna again")  # what is still queued would have begun before
        assert two.evaluate(f"{app(tab)}.live") is None
        if tab == "live":
            assert two.get_attribute("#live-player .sd-chip", "data-kind") == "recording"
        start(one, "live", "A slow secret of Anna")
        one.wait_for_function(clock_runs("live"))
        start(two, tab, "Ben is quick")
        two.wait_for_selector(f"{status} span:text-matches('1[^0-9]+1')")
        one.click("#live-stop")
        two.wait_for_selector(f"#{tab}-player .sd-chip[data-kind=run]")
        assert "Anna" not in two.content() and "Ben" not in one.content()


# ---- files and recordings ----


def test_files(browser: Any, address: str, tmp_path: Path, folder: Path) -> None:
    broken, other, good = (tmp_path / f"{name}.jsonl.gz" for name in ("cut", "shorter", "good"))
    whole = (folder / "traces" / "dialogue-draft-tree-ddtree.jsonl.gz").read_bytes()
    broken.write_bytes(whole[:500])
    other.write_bytes(whole[:400])
    good.write_bytes(whole)
    card = "#live-player .sd-card"
    with visit(browser, address) as page:
        page.set_input_files("input[type=file]", str(broken))
        page.wait_for_selector(f"{card}:visible")
        assert page.get_attribute("#live-player .sd-chip", "data-kind") == "recording"
        open_tab(page, "learn")
        page.set_input_files("input[type=file]", str(other))
        page.wait_for_selector(f"{card}:visible")
        open_tab(page, "learn")
        page.set_input_files("input[type=file]", str(good))
        page.wait_for_selector("#live-player .sd-chip[data-kind=file]:visible")
        assert page.locator(card).is_hidden()


def test_of_many_branches_eight_are_drawn_first(browser: Any, address: str, tmp_path: Path) -> None:
    """A tree of 40 nodes and 16 drafts: eight lines, then all of them, in a field that scrolls."""
    base = DecodeConfig(gamma=6, max_new_tokens=24, seed=3)
    header = next(event for event in FakeDecoder().decode("Once", base) if isinstance(event, RunStarted))
    pieces = PiecesSeen(pieces={token: f" w{token}" for token in range(12)})
    found = {}
    for name, shape in {"tree": {"tree_nodes": 40}, "drafts": {"num_drafts": 16, "temperature": 1.0}}.items():
        config = dataclasses.replace(base, **shape)
        own = msgspec.structs.replace(header, config=config.to_dict())
        found[name] = [pieces, own, *speculate([3, 4, 5], config, FakeTarget(), good_drafter(), FakeClock())]
    for name, events in found.items():  # one lane each: two stand side by side, and neither can be selected
        write_trace(tmp_path / f"{name}.jsonl", {name: events})
    with visit(browser, address, size="phone") as page:
        lines = page.locator("#race-player .sd-steps .sd-row")
        for name in found:
            page.set_input_files("input[type=file]", str(tmp_path / f"{name}.jsonl"))
            page.wait_for_function(f"{ready('race')} && {RACE}.names[0] === '{name}'")
            page.evaluate(f"{RACE}.jump(0)")
            page.wait_for_function(ready("race"))
            button = page.locator("#race-player .sd-lines")
            assert lines.count() == 8 and button.get_attribute("aria-expanded") == "false"
            count = page.evaluate(f"(name) => {RACE}.lanes[name].rounds[0].tree.count", name)
            assert count > 8 and f"all {count} branches" in button.text_content()
            walked = page.locator("#race-player .sd-steps .sd-fresh").count()
            assert page.locator("#race-player .sd-steps .sd-fresh:has-text('✓')").count() >= 1
            assert page.locator(f"#race-player .sd-steps .sd-label:text-is('{name}')").count() == 1
            button.click()
            assert lines.count() == count and button.get_attribute("aria-expanded") == "true"
            assert page.locator("#race-player .sd-steps .sd-fresh").count() == walked, "the walk was drawn before"
            assert not overflows(page)
            button.click()
            assert lines.count() == 8


def test_a_recording_offers_its_settings(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        options = page.locator("#live-player .sd-more option").all_text_contents()
        assert options[:3] == ["Another recording…", "Dialogue: Four denoising steps", "Story: Four denoising steps"]
        page.select_option("#live-player .sd-more", label="Story: Four denoising steps")
        titled(page, "Story: Four denoising steps")
        assert page.get_attribute("#live-player .sd-chip", "data-kind") == "recording"
        assert page.locator("#live-player .sd-prompt").first.text_content().startswith("Once upon a time")
        assert page.locator("#live-player .sd-stale").is_visible(), "for another prompt"
        page.click("#live-player >> text=Use its settings")
        page.wait_for_function("new URLSearchParams(location.search).get('gamma') === '8'")
        titled(page, "Story: Four denoising steps")
        assert page.locator("#live-player .sd-stale").is_hidden()


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
        assert page.get_attribute("#race-player .sd-chip", "data-kind") == "run"
        assert not overflows(page)
        page.locator("#race-player .sd-lane").nth(1).click()
        assert page.locator("#race-player .sd-lane[aria-selected=true]").count() == 1
        page.wait_for_selector("#race-player .sd-hero-name:text-is('Small autoregressive drafter')")
        page.locator("#race-player .sd-rd").nth(2).dispatch_event("click")  # the mouse misses what a chart moves
        page.wait_for_selector("#race-player .sd-window .sd-sub:has-text('round 3 of')")
        assert page.locator("#race-player .sd-tests .sd-v").count() == 5, "γ 4, and the target's"
        page.locator("#race-player .sd-lane[aria-selected=true]").focus()
        page.keyboard.press("ArrowUp")
        page.wait_for_function("document.activeElement.getAttribute('aria-selected') === 'true'")
        page.wait_for_selector("#race-player .sd-say:has-text('drafts nothing')")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(f"{RACE}.player.stop") >= 0, "arrows step, also from a row"
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
            page.click("#race-player .sd-save")
        offered.value.save_as(tmp_path / "race.jsonl.gz")
        assert list(read_trace(tmp_path / "race.jsonl.gz").lanes)[:2] == ["vanilla", "autoregressive"]
        open_tab(page, "live")
        page.set_input_files("input[type=file]", str(tmp_path / "race.jsonl.gz"))
        page.wait_for_selector("#race-player .sd-chip[data-kind=file]:visible")
        assert page.get_attribute("#live-player .sd-chip", "data-kind") == "recording", "Live keeps its own"


def test_a_broken_lane_says_why(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_tab(page, "race")
        run(page, "race", "A race with a broken lane")
        failed = page.locator("#race-player .sd-lane[data-state=failed]")
        assert failed.count() == 1 and "model.safetensors is missing. Restore the folder." in failed.text_content()
        assert sorted(lanes(page, "race", "place")) == list("11335✕")
        failed.click()
        page.wait_for_function("document.querySelector('#race-player .sd-say').textContent.includes('is missing')")
        open_drawer(page, "race")
        while page.locator("#race-methods input:checked").count():
            page.locator("#race-methods input:checked").first.uncheck()
        page.click("#race-run")
        page.wait_for_selector("#race-player .sd-card:visible")
        assert "sd-invalid" in page.locator("#race-methods").get_attribute("class")
        assert page.locator("#race-player .sd-lane").count() == 6, "the race before stays"


def test_stop_in_the_middle_of_a_race(browser: Any, address: str) -> None:
    """The lanes that are done stay, and those that never began say so; while it runs the waiting ones are named."""
    with visit(browser, address) as page:
        open_tab(page, "race")
        open_drawer(page, "race")
        number(page, "race", "max_new_tokens", 24)
        start(page, "race", "A slow race that is stopped")
        measured = f"{RACE}.live.lane === 'autoregressive' && {RACE}.live.phase !== 'loading'"  # vanilla is done
        page.wait_for_function(f"{RACE}.live && {measured}")
        page.wait_for_selector("#race-player .sd-lane[data-state=waits]")
        assert page.locator("#race-player .sd-main").get_attribute("aria-busy") == "true"
        page.click("#race-stop")
        page.wait_for_selector("#race-player .sd-chip[data-kind=stopped]")
        page.wait_for_function(ready("race"))
        tokens = lanes(page, "race", "tokens")
        assert tokens[0].startswith("24 ") and tokens[3] and not re.search(r"\d", tokens[3])
        places = lanes(page, "race", "place")
        assert places[0].isdigit() and "1" in places[:3] and not places[3].isdigit()


def test_one_player_at_a_time(browser: Any, address: str) -> None:
    with visit(browser, address, motion=True) as page:
        page.wait_for_function(f"{LIVE}.player.playing && {LIVE}.player.t > 0")
        open_tab(page, "race")
        page.wait_for_function(f"{LIVE}.asleep && !{RACE}.asleep")
        stood = page.evaluate(f"{LIVE}.player.t")
        page.wait_for_function(f"{RACE}.trace")
        page.evaluate(f"document.activeElement.blur(); {RACE}.act(() => {RACE}.player.stand(1))")
        page.locator("body").press("ArrowRight")
        assert page.evaluate(f"{RACE}.player.stop") == 2
        assert page.evaluate(f"[{LIVE}.player.t, {LIVE}.player.stop]") == [stood, -1]
        open_tab(page, "live")
        page.wait_for_function(f"{RACE}.asleep && !{LIVE}.asleep")
        page.wait_for_function(f"(stood) => {LIVE}.player.t > stood", arg=stood)
        assert page.evaluate(f"{RACE}.player.stop") == 2


def test_a_recorded_race_opens_from_elsewhere(browser: Any, address: str, folder: Path) -> None:
    """Only the lanes that were asked for, in their order, with their labels; the last one is
    selected. Nothing was recorded of its passes, and its words come from the lane beside it. On a
    busy machine the controls' first values arrive while it is fetched, or when it is shown, and
    replace nothing. Behind a race that ends before anything is known of it, it comes back whole."""
    url = f"gradio_api/file={folder.as_posix()}/traces/bench/race.jsonl.gz"
    own = {"title": "Dialogue, greedy", "labels": {"block/9/1": {"label": "block γ 9"}}}
    detail = {"url": url, "lanes": ["vanilla", "block/9/1"], **own}
    tell = "(detail) => window.specdiff.openRace(detail)"
    with visit(browser, address) as page:
        page.evaluate(tell, detail)
        page.wait_for_function(f"{ready('race')} && {RACE}.names.join() === 'vanilla,block/9/1'")
        assert [words[1:] for words in lanes(page, "race", "name")] == ["Vanilla", "block γ 9"]
        assert page.get_attribute("#race-player .sd-chip", "data-kind") == "recording"
        assert "Dialogue, greedy" in page.text_content("#race-player .sd-source-words")
        page.evaluate(f"{RACE}.jump(1)")
        page.wait_for_function(ready("race"))
        assert page.locator("#race-player .sd-steps .sd-label:text-is('draft')").count() == 1
        words = page.locator("#race-player .sd-lane-text .sd-text").last.text_content()
        assert "Once upon a time" in words and "<" not in words
        page.evaluate(tell, {**detail, "lanes": ["block/9/1"]})
        page.wait_for_function(f"{RACE}.names.length === 1 && {ready('race')}")
        words = page.text_content("#race-player .sd-lane-text .sd-text")
        assert "Once upon a time" in words, "at the end the text as a whole"
        page.evaluate(f"{RACE}.jump(1)")
        page.wait_for_function(ready("race"))
        assert page.locator("#race-player .sd-t-id").count() > 2, "before it, ids"
        page.evaluate(tell, {**detail, "lanes": ["gone"]})
        page.wait_for_selector("#race-player .sd-card:visible")
        assert page.locator("#race-player .sd-lane").count() == 1, "what was shown stays"

        first = f"{RACE}.wanted = ''; {RACE}.controls({RACE}.recordings[0].asked)"
        page.evaluate(
            f"(url) => {{ Object.assign({RACE}, {{ asked: '', chosen: false }});"
            f" window.specdiff.openRace({{ url }}); {first}; }}",
            url,
        )
        page.wait_for_function(f"{ready('race')} && {RACE}.names.length === 3")
        calls = page.evaluate(f"() => {{ const {{ calls }} = {RACE}; {first}; return {RACE}.calls - calls; }}")
        assert not calls, "nothing else is fetched"
        page.evaluate(  # of several recordings the last is shown, also if the first one arrives later
            "(url) => { const { fetch } = window; let asked = 0; window.fetch = async (...words) => {"
            " const late = !asked++ && new Promise((done) => { window.arrive = done; });"
            " const answer = await fetch(...words); await late; return answer; };"
            " for (const lane of ['block/9/1', 'mdlm/4/1'])"
            " window.specdiff.openRace({ url, lanes: ['vanilla', lane] }); }",
            url,
        )
        shown = f"{RACE}.names.join() === 'vanilla,mdlm/4/1'"
        page.wait_for_function(f"{ready('race')} && {shown}")
        page.evaluate("window.arrive()")
        page.evaluate("(url) => fetch(url).then((answer) => answer.arrayBuffer())", url)  # the late one was read
        assert page.evaluate(shown)

        page.evaluate(tell, {**detail, "lanes": ["vanilla", "mdlm/4/1", "block/9/1"]})
        page.wait_for_function(f"{ready('race')} && {RACE}.names.length === 3")
        before = page.text_content("#race-player .sd-hero-name")
        page.evaluate(
            f"async () => {{ const race = {RACE};"
            " await race.receive({ run: 'x', phase: 'loading', message: 'Preparing', trace: '/runs/x', size: 0,"
            " finished: false, lanes: ['vanilla', 'dflash'] });"
            " window.between = race.selected;"
            " await race.receive({ run: 'x', phase: 'failed', finished: true, trace: null, size: 0,"
            " card: { title: 'No', message: 'It failed.', hint: '', field: '' } }); }"
        )
        page.wait_for_function(ready("race"))
        assert page.evaluate("window.between") == "dflash"
        assert lanes(page, "race", "name")[2].endswith("block γ 9")
        assert page.text_content("#race-player .sd-hero-name") == before
        assert page.locator("#race-player .sd-lane[aria-selected=true]").count() == 1
        assert page.evaluate(f"{RACE}.live") is None


# ---- everybody ----


@SCREENS
def test_accessible_and_fitting(browser: Any, address: str, size: str, dark: bool) -> None:
    with visit(browser, address, size=size, dark=dark) as page:
        stand(page, "Committed", 2)
        assert page.evaluate(DARK) == dark
        assert not serious(page)
        assert not overflows(page)
        open_tab(page, "api")  # Learn: test_browser_learn.py, test_browser_export.py
        assert not overflows(page)
        assert not serious(page), "API"
        open_tab(page, "live")
        start(page, "live", "")
        page.wait_for_selector("#live-player .sd-card:visible")
        open_drawer(page, "live")
        assert not serious(page), "a card and the open drawer"
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
        own = [name for name in ids if name.startswith(("sd-", "live-", "race-", "compare-", "lane-", "tab-"))]
        assert len(own) == len(set(own)), "no id twice"
        assert not overflows(page)
        page.click("#live-player .sd-source button.sd-link")
        page.wait_for_selector("dialog[open]")
        assert not serious(page), "the dialog"


def test_no_tab_overflows_between_phone_and_desktop(browser: Any, address: str) -> None:
    with visit(browser, address, size="1280x768") as page:
        for tab in ("live", "race", "compare", "learn", "api"):
            if tab != "live":
                open_tab(page, tab)
            for width in (1280, 1024, 800, 700):
                page.set_viewport_size({"width": width, "height": 768})
                assert not overflows(page), (tab, width)
                cut = page.evaluate("""() => [...document.querySelectorAll('.sd-panel, .sd-controls, .sd-cmp-table')]
                    .filter((one) => one.offsetParent && one.getBoundingClientRect().right > window.innerWidth + 1
                        && !one.closest('.sd-cmp-wrap')).length""")
                assert not cut, (tab, width)


# ---- a server that dies under its visitors ----


def test_a_server_that_dies(browser: Any, serve: Any, served: Any) -> None:
    """A race that is measured stays as far as it came, and a waiting visitor is free again. When
    the server is back, the page reloads itself with prompt and settings, and runs."""
    url, process = served
    lost = {"reloads": True, "logged": "console error"}
    with visit(browser, url, **lost) as live, visit(browser, url, **lost) as race:
        visitors = {"live": live, "race": race}
        open_tab(race, "race")
        for (tab, page), prompt in zip(visitors.items(), ("slow and lost", "lost in the queue"), strict=True):
            open_drawer(page, tab)
            page.fill(f"#{tab}-prompt textarea", prompt)
        number(live, "live", "gamma", 5)
        for tab, page in visitors.items():
            page.click(f"#{tab}-run")
        live.wait_for_function(f"Object.values({LIVE}.live?.events ?? {{}}).flat().some((e) => e.kind === 'Committed')")
        live.evaluate(f"{LIVE}.watchdog.ask()")  # a server that answers is waited for
        assert live.evaluate(f"{LIVE}.root.classList.contains('sd-busy')")
        for page in visitors.values():
            page.evaluate("window.old = true")
        process.kill()
        for tab, page in visitors.items():
            page.wait_for_selector(f"#{tab}-player .sd-card:not([hidden])")
            assert page.locator(".sd-busy").count() == 0
            assert not page.evaluate("document.querySelector('#sd-open').inert")
        assert live.evaluate(f"{LIVE}.source") == "stopped"
        assert live.evaluate(f"{LIVE}.lanes.vanilla.rounds.length") > 0, "with what had arrived"
        assert parse_qs(urlparse(race.url).query)["methods"] == ["autoregressive,eagle,specdiff,dflash,ddtree"]
        serve(urlparse(url).port)
        for tab, page in visitors.items():
            page.wait_for_function(f"!window.old && window.specdiff?.players.{tab}")
        value_of(live, "#live-prompt textarea", "slow and lost")
        value_of(race, "#race-prompt textarea", "lost in the queue")
        open_drawer(live, "live")
        value_of(live, "#live-gamma input[type=number]", "5")
        run(live, "live", "found again")


# ---- programs ----


def test_the_python_client(address: str) -> None:
    """``/race`` and ``/race_methods`` by name; a bad number is an error in words."""
    from gradio_client import Client

    client = Client(address, verbose=False)
    answer = client.predict(prompt="Once", gamma=4, max_new_tokens=12, api_name="/race")
    assert answer["speedup"] > 1 and answer["drafted"]["new_tokens"] == 12 and answer["events"] is None
    with pytest.raises(Exception, match="1 to 32") as caught:
        client.predict(prompt="Once", api_name="/race", gamma=99)
    assert "Traceback" not in str(caught.value)
    chosen = ["autoregressive", "markov_tree"]
    answer = client.predict(prompt="Once", methods=chosen, max_new_tokens=12, api_name="/race_methods")
    assert list(answer["lanes"]) == ["vanilla", *chosen] and answer["lossless"] is True


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
    assert len(tools) == 2, "only the races are public"
    for name, setting in SETTINGS.items():
        assert setting.help in tool.inputSchema["properties"][name]["description"]
    answer = json.loads(result.content[0].text)
    assert answer["speedup"] > 1 and answer["drafted"]["new_tokens"] == 8


def test_a_link_to_a_moment_brings_it_back(browser: Any, address: str) -> None:
    round = "document.querySelector('#live-player .sd-window header .sd-sub').textContent"
    with visit(browser, address) as page:
        stand(page, "TargetScored", 2)
        before = page.evaluate(round), page.inner_text("#live-player .sd-say")
        page.click("#live-player .sd-source button:has-text('Link to this moment')")
        page.wait_for_function("location.search.includes('at=score')")
        link = page.url
        files = page.evaluate(f"{app('live')}.recordings.map(({{url}}) => url.split('/').pop())")
    late = (  # the controls speak while the recording is on its way; asked for twice, it arrives later still
        "const get = window.fetch; const pause = (ms) => new Promise((next) => setTimeout(next, ms)); let asked = 0;"
        "window.fetch = async (...words) => { const url = String(words[0]);"
        " if (url.endsWith('.jsonl.gz')) { const wait = 300 * asked++;"
        " while (!window.specdiff?.players?.live?.wanted) await pause(20); await pause(wait); }"
        " else if (url.includes('/run/predict')) while (!asked) await pause(20);"
        " return get(...words); };"
    )
    with visit(browser, link, motion=True, before=late) as page:
        page.wait_for_function(f"{app('live')}.player.stop >= 0 && {ready('live')}")
        assert not playhead(page)["playing"]
        assert (page.evaluate(round), page.inner_text("#live-player .sd-say")) == before
        assert page.get_attribute("#live-player .sd-chip", "data-kind") == "recording"
    another = f"?tab=live&trace={files[1]}&lane=drafted&round=2&at=score"
    with visit(browser, address + another, motion=True, before=late) as page:
        page.wait_for_function(
            f"{app('live')}.player.stop >= 0 && {app('live')}.file === {files[1]!r} && {ready('live')}"
        )
        page.wait_for_function(f"{app('live')}.wanted && {ready('live')}")  # as it opened
        assert page.evaluate(f"{app('live')}.file") == files[1] and playhead(page)["stop"] >= 0
    for link in ("?trace=nothing.jsonl.gz&round=3", "?trace=%00&round=x&lane=__proto__&at=%3Cb%3E&tab=no+such"):
        with visit(browser, address + link) as page:
            assert playhead(page)["duration"] > 0


def test_a_run_has_a_link_that_opens_it_again(browser: Any, address: str) -> None:
    """With its controls, also by Share; Back walks through tabs and runs. Without its file, the settings stay."""
    prompt = "Object.values(window.specdiff.players.live.lanes)[0]?.header.prompt"
    with visit(browser, address) as page:
        number(page, "live", "gamma", 5)
        run(page, "live", "A run to keep")
        page.wait_for_function("location.search.includes('run=')")
        link, seconds = page.url, page.evaluate(f"{LIVE}.lanes.drafted.duration")
        run(page, "live", "Another run")
        page.wait_for_function("document.querySelectorAll('[aria-label=\"My runs\"] option').length === 3")
        open_tab(page, "explore")
        page.get_by_role("button", name="Two runs side by side").click()
        for place in (1, 2):  # any two of them stand side by side
            page.get_by_label("Open one of my runs").select_option(index=place)
            page.wait_for_function(f"{app('explore')}.opened.lanes.length === {2 * place}")
        runs = f"Object.values({app('explore')}.opened.runs).map(({{ lane }}) => lane.header.prompt)"
        assert set(page.evaluate(runs)) == {"A run to keep", "Another run"}
        open_tab(page, "live")
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('run=')")
        tab = "document.querySelector('#sd-tabs [role=tab][aria-selected=true]')?.textContent.trim()"
        for opened in ("Explore", "Explore", "Live"):  # a question has an entry, too
            page.go_back()
            page.wait_for_function(f"{tab} === '{opened}'")
        page.go_back()
        page.wait_for_function(f"{ready('live')} && {prompt} === 'A run to keep'")
        page.get_by_label("Another recording").first.select_option(index=1)
        page.wait_for_function(f"{ready('live')} && {prompt} !== 'A run to keep' && location.search.includes('trace=')")
        page.go_back()
        page.wait_for_function(f"{ready('live')} && {prompt} === 'A run to keep'")
    with visit(browser, link, reloads=True) as page:
        value_of(page, "#live-prompt textarea", "A run to keep")
        value_of(page, "#live-gamma input[type=number]", "5")
        assert page.evaluate(f"{LIVE}.lanes.drafted.duration") == seconds
        page.wait_for_selector("#live-player .sd-stale", state="hidden")
        open_tab(page, "learn")
        page.reload()
        there = f"window.specdiff?.players.live?.trace && {tab} === 'Learn'"
        page.wait_for_function(f"{there} && {prompt} === 'A run to keep'")
    query = parse_qs(urlparse(link).query) | {"run": ["x" * 22 + ".jsonl"]}
    with visit(browser, f"{address}?{urlencode(query, doseq=True)}", logged="404") as page:
        page.wait_for_selector("#live-player .sd-card:visible")
        value_of(page, "#live-prompt textarea", "A run to keep")
        value_of(page, "#live-gamma input[type=number]", "5")


def test_what_stays_after_a_bad_link_and_after_a_run_without_tokens(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?gamma=99") as page:
        page.wait_for_selector("#live-player .sd-card:has-text('99'):visible")
        begun = "{ run: 'r', phase: 'loading', lane: 'vanilla', trace: 'runs/r', size: 0 }"
        ended = "{ run: 'r', phase: 'stopped', trace: null, finished: true }"
        page.evaluate(f"{LIVE}.receive({begun}).then(() => {LIVE}.receive({ended}))")
        assert page.evaluate(f"{LIVE}.selected") == "drafted" and page.evaluate(f"{LIVE}.source") == "recording"


def test_a_position_is_pinned_by_click_and_by_key(browser: Any, address: str) -> None:
    inspector = "#live-player .sd-inspector"
    with visit(browser, address, size="1440x1600") as page:
        stand(page, "Verified", 1)
        page.locator("#live-player .sd-steps .sd-c").first.click()
        assert "position 1" in page.inner_text(f"{inspector} h3")
        assert page.locator(f"{inspector} .sd-pq-row").count() > 2
        assert page.locator("#live-player .sd-v.sd-pinned").count() == 1
        assert not serious(page)
        cell = page.locator("#live-player .sd-tests .sd-v").nth(1)
        cell.focus()
        page.keyboard.press("Enter")
        assert "position 2" in page.inner_text(f"{inspector} h3")
        stand(page, "Committed", 3)
        assert "position 2" in page.inner_text(f"{inspector} h3"), "it stays as it was pinned"
        page.locator(inspector).get_by_role("button", name="Close").click()
        assert page.locator(inspector).is_hidden()
        assert page.locator("#live-player .sd-v.sd-pinned").count() == 0
        texts = page.locator("#live-player .sd-lane-text")
        own = texts.nth(1).locator(".sd-t")
        own.nth(1).click()
        assert page.locator("#live-player .sd-t.sd-pinned").count() == 1
        first = page.inner_text(f"{inspector} h3")
        assert first.startswith("Round ")
        page.locator(inspector).get_by_role("button", name="The position after").click()
        assert page.inner_text(f"{inspector} h3") != first
        token = texts.nth(0).locator(".sd-t").first  # vanilla's: by key, and back
        token.evaluate("(token) => { token.tabIndex = 0; token.focus(); }")
        page.keyboard.press("Enter")
        assert "pass 1 of the target" in page.inner_text(f"{inspector} h3")
        assert page.evaluate("document.activeElement.classList.contains('sd-inspector')")
        page.keyboard.press("Escape")
        assert page.locator(inspector).is_hidden()
        assert token.evaluate("(token) => token === document.activeElement")


def opened(page: Any, name: str) -> None:
    """Open one of the recordings that ship, as a visitor's file, and pause."""
    page.set_input_files("input[type=file]", str(TRACES / f"{name}.jsonl.gz"))
    page.wait_for_selector("#live-player .sd-chip[data-kind=file]")
    page.wait_for_function(ready("live"))


def test_a_slower_lane_says_why_and_shows_a_round(browser: Any, address: str) -> None:
    why, say = "#live-player .sd-why", "#live-player .sd-say"
    with visit(browser, address) as page:
        assert page.locator(why).count() == 0, "the opening race is won"
        opened(page, "smollm2-chat-four-denoising-steps")
        assert "slower" in page.inner_text("#live-player .sd-speed")
        assert re.search(r"\d+ of \d+ rounds", page.inner_text(why))
        page.click(f"{why} button")
        page.wait_for_function(ready("live"))
        assert page.locator(why).count() == 0, "the replay has not come so far"
        assert page.evaluate("document.activeElement.matches('.sd-window')")
        assert "p = " in page.inner_text(say), "the round says why it accepts nothing"
        page.locator("#live-player .sd-v-no").click()
        reason = page.inner_text(say).split(". ", 1)[1]
        assert reason in page.inner_text("#live-player .sd-inspector"), "and so does its position, in the same words"


@pytest.mark.parametrize("size", ["desktop", pytest.param("phone", marks=pytest.mark.slow)])
def test_a_visitor_is_the_verifier(browser: Any, address: str, size: str) -> None:
    """By key and by click: nothing is given away before an answer, then the numbers and the score
    are there and read out; Escape shows the round as it ended."""
    judge, voice = "#live-player .sd-judge", "#live-player .sd-voice"
    shown = "#live-player :is(.sd-v-ok, .sd-v-no, .sd-v-fix, .sd-v-bonus, .sd-v-cut)"
    texts = "#live-player .sd-lane-text"
    with visit(browser, address, size=size) as page:
        page.click("#live-player [name=verify]")
        page.wait_for_selector(judge)
        assert page.evaluate("document.activeElement.matches('.sd-judge')")
        assert page.locator(shown).count() == 0 and page.locator(f"{judge} .sd-pq").count() == 0
        vanilla, drafted = (page.locator(f"{texts} >> nth={n} >> .sd-t").count() for n in range(2))
        assert vanilla <= drafted, "vanilla's text gives nothing away"
        heights = "(bars) => bars.map((bar) => bar.style.height)"
        assert set(page.eval_on_selector_all("#live-player .sd-rd b", heights)) == {"0%"}
        page.keyboard.press("a")
        page.wait_for_selector(f"{judge} :text-matches('of 1[^0-9]')")
        assert page.locator(shown).count() == 1 and page.locator(f"{judge} .sd-pq-row").count() > 1
        assert re.search(r"\b1\b", page.inner_text(voice))
        assert not serious(page) and not overflows(page)
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Reject").click()
        page.wait_for_selector(f"{judge} :text-matches('of 2[^0-9]')")
        assert page.evaluate("document.activeElement.closest('.sd-judge') !== null"), "it stays"
        page.keyboard.press("Escape")
        assert page.locator(judge).is_hidden() and page.locator(shown).count() > 1
        assert page.evaluate("document.activeElement.name") == "verify"
        page.click("#live-player [name=verify]")
        page.wait_for_selector(judge)
        page.locator("#live-prompt textarea").press("a")
        page.wait_for_function(ready("live"))
        assert page.evaluate("document.activeElement.matches('textarea')"), "whoever types elsewhere is left alone"
        assert page.locator(f"{judge} :text-matches('of 1[^0-9]')").count() == 0
        page.locator("#live-player .sd-next").click()
        page.wait_for_selector(judge, state="hidden")  # moving the playhead ends it


OPEN_GUIDE = "document.querySelectorAll('.sd-guide:not([hidden])')"


def test_a_tour_is_offered_once_and_points_at_the_real_thing(browser: Any, address: str) -> None:
    new = "window.specdiffNew = true;"
    with visit(browser, f"{address}?lesson=gamma&step=1", before=new, until=f"{OPEN_GUIDE}.length === 1") as page:
        open_tab(page, "live")
        page.get_by_role("button", name="Take the tour").click()
        assert page.evaluate(f"{OPEN_GUIDE}.length") == 1, "the lesson ends"
        for title in ("Draft", "Score", "Verify", "Commit", "Clock", "The number"):
            assert page.locator(".sd-guide-here").bounding_box()["height"] > 8
            assert page.locator(".sd-guide header b").first.inner_text() == title
            assert title != "Draft" or not serious(page)
            page.keyboard.press("Enter")
        assert page.locator(".sd-guide-here").count() == 0 and page.locator(".sd-guide").first.is_hidden()
        page.goto(address)
        page.wait_for_function(ready("live"))
        assert page.locator(".sd-tour-offer").is_hidden()
    with visit(browser, address, before=new, size="phone", dark=True) as page:
        assert page.locator(".sd-tour-offer").is_visible()
        assert not overflows(page)
        page.get_by_role("button", name="No tour").click()
        assert page.locator(".sd-tour-offer").is_hidden()
        assert page.locator(".sd-guide").first.is_hidden()
