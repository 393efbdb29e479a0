"""The Compare tab in a real browser: bars that open races, charts, a measurement with progress and Stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdiff_core.schema.trace import read_trace
from tests.browsing import MARKS, app, lanes, open_drawer, open_tab, overflows, ready, serious, serving, visit

pytestmark = MARKS
COMPARE, RACE = app("compare"), app("race")
HEARING = """window.fetched = [];
    const load = window.fetch;
    window.fetch = (url, ...rest) => {
        if (/jsonl|^blob:/.test(String(url))) window.fetched.push(String(url));
        return load(url, ...rest);
    };"""
REFUSING = """() => {
    const ask = window.fetch;
    const full = () => new Response(JSON.stringify({ detail: 'The queue is full.' }), { status: 503 });
    window.fetch = async (url, ...rest) => (String(url).includes('queue/join') ? full() : ask(url, ...rest));
}"""
STATUS = ".sd-cmp .sd-status"
TEXT = f"document.querySelector('{STATUS}').textContent"
SOURCE = "document.querySelector('.sd-cmp .sd-source').textContent"


def labels(page: Any) -> list[str]:
    return page.eval_on_selector_all(".sd-cmp-table tbody th b", "(all) => all.map((one) => one.textContent)")


def test_the_recorded_leaderboard_and_its_races(browser: Any, address: str, folder: Path) -> None:
    told = json.loads((folder / "compare" / "results.json").read_text(encoding="utf-8"))
    cold, warm = told["tables"]
    with visit(browser, address, before=HEARING) as page:
        open_tab(page, "compare")
        assert "not on this machine" in page.inner_text(".sd-cmp .sd-source")
        ranked = sorted(cold["cells"], key=lambda cell: -cell["speedup"]["value"])
        assert labels(page) == [cell["label"] for cell in ranked]
        first = page.locator(".sd-cmp-bar").first
        assert f"{ranked[0]['speedup']['value']:.2f}×" in first.inner_text()
        first.focus()
        page.keyboard.press("Enter")
        raced(page, "vanilla", ranked[0]["key"])
        assert lanes(page, "race", "name")[1].endswith(ranked[0]["label"])
        open_tab(page, "compare")
        page.get_by_role("button", name="stories", exact=True).click()
        page.locator(".sd-cmp-choice").get_by_role("button", name="1", exact=True).click()
        ranked = sorted(warm["cells"], key=lambda cell: -cell["by_flavour"]["stories"]["value"])
        assert labels(page) == [cell["label"] for cell in ranked]
        page.locator(".sd-cmp-bar").nth(1).click()
        url = raced(page, "vanilla", ranked[1]["key"])
        assert url.endswith(warm["races"]["stories"]["file"])
        assert {"vanilla", ranked[1]["key"]} <= set(read_trace(fetched(page, url)).lanes)
        open_tab(page, "compare")
        assert "python -m specdiff_core bench" in page.inner_text(".sd-cmp-origin")


def test_charts_follow_the_legend_and_bars_open_races(browser: Any, address: str) -> None:
    with visit(browser, address, before=HEARING, size="1440x2200") as page:
        open_tab(page, "compare")
        page.wait_for_function(
            "[...document.querySelectorAll('.sd-cmp .sd-plot')].every((place) => place.querySelector('.main-svg'))"
        )
        count = "document.querySelector('[data-figure=bars]').data.length"
        before = page.evaluate(count)
        page.locator(".sd-cmp-legend button[aria-pressed=true]").first.click()
        page.wait_for_function(f"{count} === {before - 1}")
        page.evaluate("document.querySelector('[data-figure=bars]').emit('plotly_click', {points: [{customdata: "
                      "document.querySelector('[data-figure=bars]').data[0].customdata[0]}]})")  # fmt: skip
        page.wait_for_function(f"{ready('race')} && {RACE}.names.length === 2 && {RACE}.names[0] === 'vanilla'")


def fetched(page: Any, url: str) -> bytes:
    """What the page gets from an address; of a blob too."""
    code = "(url) => fetch(url).then((answer) => answer.arrayBuffer()).then((body) => [...new Uint8Array(body)])"
    return bytes(page.evaluate(code, url))


def raced(page: Any, *names: str) -> str:
    """The Race tab plays these lanes; where they came from."""
    page.wait_for_function(f"(names) => {ready('race')} && {RACE}.names.join() === names", arg=",".join(names))
    assert page.locator("#race-player .sd-lanes").is_visible()
    return str(page.evaluate("window.fetched.at(-1)"))


def test_measuring_here_with_progress(browser: Any, address: str, tmp_path: Path) -> None:
    with visit(browser, address, before=HEARING) as page:
        open_tab(page, "compare")
        open_drawer(page, "compare")
        for name in ("Small autoregressive drafter", "Prompt lookup", "SpecDiff"):
            page.locator("#compare-methods").get_by_label(name, exact=True).uncheck()
        page.click("#compare-run")
        page.wait_for_function(f"/Measuring run \\d+ of 12.*Estimate: /.test({TEXT})")
        assert page.evaluate("window.specdiff.players.compare.live && !window.specdiff.players.compare.live.warming")
        page.wait_for_function("document.querySelector('.sd-cmp .sd-chip').textContent.includes('Measured here')")
        assert page.locator(STATUS).is_hidden()
        assert page.evaluate("window.specdiff.players.compare.live") is None
        assert set(labels(page)) == {"Vanilla", "Block diffusion (DFlash)", "Block diffusion, draft tree (DDTree)"}
        assert "no device (test double)" in page.inner_text(".sd-cmp .sd-source")
        page.locator(".sd-cmp-bar").first.click()
        page.wait_for_function(f"{ready('race')} && {RACE}.source === 'measured'")
        names = page.evaluate(f"{RACE}.names")
        url = raced(page, *names)
        assert url.startswith("blob:") and set(names) <= set(read_trace(fetched(page, url)).lanes)
        chip = page.inner_text("#race-player .sd-chip")
        assert "Measured here" in chip and "Recording" not in chip
        open_tab(page, "compare")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download these results").click()
        download.value.save_as(tmp_path / "results.json")
        kept = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
        assert kept["kind"] == "comparison"
        assert all("data" not in race for race in kept["tables"][0]["races"].values())
        page.get_by_role("button", name="Recorded", exact=True).click()
        assert "not on this machine" in page.inner_text(".sd-cmp .sd-source")


def test_stop_keeps_what_was_measured(browser: Any, address: str) -> None:
    with visit(browser, address) as page:
        open_tab(page, "compare")
        open_drawer(page, "compare")
        page.click("#compare-run")
        page.wait_for_function(f"Number((/Measuring run (\\d+) of 24/.exec({TEXT}) || [])[1]) >= 8")
        page.click("#compare-stop")
        page.wait_for_function(f"/Stopped early: \\d+ of 24 runs/.test({SOURCE})")
        assert page.locator(STATUS).is_hidden()
        assert len(labels(page)) == 6


def choose(page: Any, *wanted: str) -> None:
    """Tick these methods and no others."""
    boxes = page.locator("#compare-methods label")
    for i in range(boxes.count()):
        boxes.nth(i).locator("input").set_checked(boxes.nth(i).inner_text().strip() in wanted)


def test_a_method_that_cannot_be_used_is_left_out(browser: Any, address: str) -> None:
    """And named with its reason; where nothing else was chosen, its reason is a card."""
    with visit(browser, address) as page:
        open_tab(page, "compare")
        open_drawer(page, "compare")
        choose(page, "SpecDiff-2")
        page.click("#compare-run")
        page.wait_for_selector(".sd-cmp .sd-card:not([hidden])")
        assert "Draw fewer drafts." in page.inner_text(".sd-cmp .sd-card")
        assert len(labels(page)) > 3  # the recording is still there
        choose(page, "SpecDiff-2", "Prompt lookup")
        page.click("#compare-run")
        page.wait_for_function(f"/Left out: SpecDiff-2: The device ran out of memory[.]/.test({SOURCE})")
        assert set(labels(page)) == {"Vanilla", "Prompt lookup"}


def test_an_event_that_ends_without_a_frame(browser: Any, address: str) -> None:
    """The server refuses it: the tab says so and is free again; a race that is asked for meanwhile is not drawn."""
    with visit(browser, address, before=HEARING) as page:
        open_tab(page, "compare")
        open_drawer(page, "compare")
        page.evaluate(REFUSING)
        page.click("#compare-run")
        page.wait_for_selector(".sd-cmp.sd-busy")
        assert page.evaluate("document.querySelector('#sd-open').inert")
        page.wait_for_selector(".sd-cmp .sd-card:not([hidden])")
        assert "ended without a result" in page.inner_text(".sd-cmp .sd-card")
        assert page.locator(STATUS).is_hidden() and page.locator(".sd-cmp.sd-busy").count() == 0
        assert page.evaluate("window.specdiff.players.compare.live") is None
        assert not page.evaluate("document.querySelector('#sd-open').inert")
        page.evaluate("window.specdiff.players.compare.live = {}")
        page.locator(".sd-cmp-bar").first.click()
        page.wait_for_selector("#race-player .sd-card:not([hidden])")
        assert "being measured" in page.inner_text("#race-player .sd-card")
        assert page.evaluate("window.specdiff.players.race.trace") is None
        page.evaluate("window.specdiff.players.compare.over()")


def test_a_busy_machine_strikes_the_speed_ups(browser: Any, address: str) -> None:
    """At the top, and in the rows that it is about."""
    with visit(browser, address) as page:
        open_tab(page, "compare")
        assert page.locator(".sd-cmp .sd-busy-machine").is_hidden()
        page.evaluate(
            "const one = window.specdiff.players.compare;"
            " one.table.cells.find((cell) => cell.drafter !== 'none').waiting = 0.2; one.draw()"
        )
        assert "0.20" in page.inner_text(".sd-cmp .sd-busy-machine")
        struck = page.locator(".sd-cmp-table tr[data-busy=true]")
        assert struck.count() == 1
        look = struck.locator(".sd-cmp-value b").evaluate("(one) => getComputedStyle(one).textDecorationLine")
        assert look == "line-through"


def test_without_a_recording(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "bare") as (url, _), visit(browser, url, until="window.specdiff?.players.live") as page:
        open_tab(page, "compare")
        assert "Nothing is recorded yet" in page.inner_text(".sd-cmp-empty")
        assert page.locator(".sd-cmp-full").is_hidden()


@pytest.mark.parametrize("size, dark", [("desktop", False), ("desktop", True), ("phone", False)])
def test_accessible_and_fitting(browser: Any, address: str, size: str, dark: bool) -> None:
    with visit(browser, address, size=size, dark=dark) as page:
        open_tab(page, "compare")
        open_drawer(page, "compare")
        page.wait_for_timeout(600)
        assert not serious(page)
        assert not overflows(page)
