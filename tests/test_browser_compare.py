"""The Compare tab in a real browser: bars that open races, charts, a measurement with progress and Stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specdiff_core.schema.trace import read_trace
from tests import test_browser as common
from tests.test_browser import browser, visit  # noqa: F401 - a fixture and a visitor

pytestmark = common.pytestmark
HEARING = (
    "window.heard = []; window.addEventListener('specdiff:open-race', (event) => window.heard.push(event.detail));"
)
REFUSING = """() => {
    const ask = window.fetch;
    const full = () => new Response(JSON.stringify({ detail: 'The queue is full.' }), { status: 503 });
    window.fetch = async (url, ...rest) => (String(url).includes('queue/join') ? full() : ask(url, ...rest));
}"""
STATUS = ".sd-cmp .sd-status"
TEXT = f"document.querySelector('{STATUS}').textContent"
SOURCE = "document.querySelector('.sd-cmp .sd-source').textContent"


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    with common.serving(folder, "compare_server.py", *words) as (url, _):
        yield url


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def address(place: Path) -> Iterator[str]:
    with serving(place) as url:
        yield url


def open_tab(page: Any) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.wait_for_selector(".sd-cmp-bar, .sd-cmp-empty:not([hidden])")


def labels(page: Any) -> list[str]:
    return page.eval_on_selector_all(".sd-cmp-table tbody th b", "(all) => all.map((one) => one.textContent)")


def test_the_recorded_leaderboard_and_its_races(browser: Any, address: str, place: Path) -> None:  # noqa: F811
    told = json.loads((place / "compare" / "results.json").read_text(encoding="utf-8"))
    cold, warm = told["tables"]
    with visit(browser, address, before=HEARING) as page:
        open_tab(page)
        assert "not on this machine" in page.inner_text(".sd-cmp .sd-source")
        ranked = sorted(cold["cells"], key=lambda cell: -cell["speedup"]["value"])
        assert labels(page) == [cell["label"] for cell in ranked]
        first = page.locator(".sd-cmp-bar").first
        assert f"{ranked[0]['speedup']['value']:.2f}×" in first.inner_text()
        first.focus()
        page.keyboard.press("Enter")
        (heard,) = page.evaluate("window.heard")
        assert heard["lanes"] == ["vanilla", ranked[0]["key"]]
        assert heard["labels"][ranked[0]["key"]] == ranked[0]["label"]
        raced(page, heard)
        page.get_by_role("button", name="stories", exact=True).click()
        page.locator(".sd-cmp-choice").get_by_role("button", name="1", exact=True).click()
        ranked = sorted(warm["cells"], key=lambda cell: -cell["by_flavour"]["stories"]["value"])
        assert labels(page) == [cell["label"] for cell in ranked]
        page.locator(".sd-cmp-bar").nth(1).click()
        heard = page.evaluate("window.heard[1]")
        assert heard["url"].endswith(warm["races"]["stories"]["file"])
        body = fetched(page, heard["url"])
        assert set(heard["lanes"]) <= set(read_trace(body).lanes)
        open_tab(page)
        assert "python -m specdiff_core bench" in page.inner_text(".sd-cmp-origin")


def test_charts_follow_the_legend_and_bars_open_races(browser: Any, address: str) -> None:  # noqa: F811
    with visit(browser, address, before=HEARING, height=2200) as page:
        open_tab(page)
        page.wait_for_function("document.querySelectorAll('.sd-cmp .main-svg').length >= 3")
        count = "document.querySelector('[data-figure=bars]').data.length"
        before = page.evaluate(count)
        page.locator(".sd-cmp-legend button[aria-pressed=true]").first.click()
        page.wait_for_function(f"{count} === {before - 1}")
        page.evaluate("document.querySelector('[data-figure=bars]').emit('plotly_click', {points: [{customdata: "
                      "document.querySelector('[data-figure=bars]').data[0].customdata[0]}]})")  # fmt: skip
        heard = page.evaluate("window.heard[0]")
        assert heard["lanes"][0] == "vanilla" and len(heard["lanes"]) == 2


def fetched(page: Any, url: str) -> bytes:
    """What the page gets from an address; of a blob too."""
    code = "(url) => fetch(url).then((answer) => answer.arrayBuffer()).then((body) => [...new Uint8Array(body)])"
    return bytes(page.evaluate(code, url))


def raced(page: Any, heard: dict[str, Any]) -> None:
    """The Race tab plays what was asked for; back to the comparison."""
    page.wait_for_function(
        "(lanes) => JSON.stringify((window.specdiffRace || {}).names) === JSON.stringify(lanes)", arg=heard["lanes"]
    )
    assert page.locator("#race-player .sd").is_visible()
    open_tab(page)


def measure(page: Any) -> None:
    page.locator("#sd-cmp-measure .label-wrap").click()
    page.wait_for_selector("#sd-cmp-run")


def test_measuring_here_with_progress(browser: Any, address: str, tmp_path: Path) -> None:  # noqa: F811
    with visit(browser, address, before=HEARING) as page:
        open_tab(page)
        measure(page)
        for name in ("Small autoregressive drafter", "Prompt lookup", "SpecDiff"):
            page.locator("#sd-cmp-methods").get_by_label(name, exact=True).uncheck()
        page.click("#sd-cmp-run")
        page.wait_for_function(f"/Measuring run \\d+ of 12.*Estimate: /.test({TEXT})")
        assert page.evaluate("window.specdiffCompare.live && !window.specdiffCompare.live.warming")
        page.wait_for_function("document.querySelector('.sd-cmp .sd-chip').textContent.includes('Measured here')")
        assert page.locator(STATUS).is_hidden()
        assert page.evaluate("window.specdiffCompare.live") is None
        assert set(labels(page)) == {"Vanilla", "Block diffusion (DFlash)", "Block diffusion, draft tree (DDTree)"}
        assert "no device (test double)" in page.inner_text(".sd-cmp .sd-source")
        page.locator(".sd-cmp-bar").first.click()
        heard = page.evaluate("window.heard[0]")
        assert heard["url"].startswith("blob:")
        raced(page, heard)
        chip = "document.querySelector('#race-player .sd-source').textContent"
        assert "● Measured here" in page.evaluate(chip) and "Recording" not in page.evaluate(chip)
        body = fetched(page, heard["url"])
        assert set(heard["lanes"]) <= set(read_trace(body).lanes)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download these results").click()
        download.value.save_as(tmp_path / "results.json")
        kept = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
        assert kept["kind"] == "comparison"
        assert all("data" not in race for race in kept["tables"][0]["races"].values())
        page.get_by_role("button", name="Recorded", exact=True).click()
        assert "not on this machine" in page.inner_text(".sd-cmp .sd-source")


def test_stop_keeps_what_was_measured(browser: Any, address: str) -> None:  # noqa: F811
    with visit(browser, address) as page:
        open_tab(page)
        measure(page)
        page.click("#sd-cmp-run")
        page.wait_for_function(f"Number((/Measuring run (\\d+) of 24/.exec({TEXT}) || [])[1]) >= 8")
        page.click("#sd-cmp-stop")
        page.wait_for_function(f"/Stopped early: \\d+ of 24 runs/.test({SOURCE})")
        assert page.locator(STATUS).is_hidden()
        assert len(labels(page)) == 6


def choose(page: Any, *wanted: str) -> None:
    """Tick these methods and no others."""
    boxes = page.locator("#sd-cmp-methods label")
    for i in range(boxes.count()):
        boxes.nth(i).locator("input").set_checked(boxes.nth(i).inner_text().strip() in wanted)


def test_a_method_that_cannot_be_used_is_left_out(browser: Any, address: str) -> None:  # noqa: F811
    """And named with its reason; where nothing else was chosen, its reason is a card."""
    with visit(browser, address) as page:
        open_tab(page)
        measure(page)
        choose(page, "SpecDiff-2")
        page.click("#sd-cmp-run")
        page.wait_for_selector(".sd-cmp .sd-card:not([hidden])")
        assert "Draw fewer drafts." in page.inner_text(".sd-cmp .sd-card")
        assert len(labels(page)) > 3  # the recording is still there
        choose(page, "SpecDiff-2", "Prompt lookup")
        page.click("#sd-cmp-run")
        page.wait_for_function(f"/Left out: SpecDiff-2: The device ran out of memory[.]/.test({SOURCE})")
        assert set(labels(page)) == {"Vanilla", "Prompt lookup"}


def test_an_event_that_ends_without_a_frame(browser: Any, address: str) -> None:  # noqa: F811
    """The server refuses it: the tab says so and is free again; a race that is asked for meanwhile is not drawn."""
    with visit(browser, address, before=HEARING) as page:
        open_tab(page)
        measure(page)
        page.evaluate(REFUSING)
        page.click("#sd-cmp-run")
        page.wait_for_selector(".sd-cmp.sd-busy")
        assert page.evaluate("document.querySelector('#sd-open').inert")
        page.wait_for_selector(".sd-cmp .sd-card:not([hidden])")
        assert "ended without a result" in page.inner_text(".sd-cmp .sd-card")
        assert page.locator(STATUS).is_hidden() and page.locator(".sd-cmp.sd-busy").count() == 0
        assert page.evaluate("window.specdiffCompare.live") is None
        assert not page.evaluate("document.querySelector('#sd-open').inert")
        page.evaluate("window.specdiffCompare.busy(true)")
        page.locator(".sd-cmp-bar").first.click()
        page.wait_for_selector("#race-player .sd-card:not([hidden])")
        assert "being measured" in page.inner_text("#race-player .sd-card")
        assert page.evaluate("window.specdiffRace.trace") is None
        page.evaluate("window.specdiffCompare.over()")


def test_a_busy_machine_strikes_the_speed_ups(browser: Any, address: str) -> None:  # noqa: F811
    """At the top, and in the rows that it is about."""
    with visit(browser, address) as page:
        open_tab(page)
        assert page.locator(".sd-cmp .sd-busy-machine").is_hidden()
        page.evaluate(
            "const one = window.specdiffCompare;"
            " one.table.cells.find((cell) => cell.drafter !== 'none').waiting = 0.2; one.draw()"
        )
        assert "0.20" in page.inner_text(".sd-cmp .sd-busy-machine")
        struck = page.locator(".sd-cmp-table tr[data-busy=true]")
        assert struck.count() == 1
        look = struck.locator(".sd-cmp-value b").evaluate("(one) => getComputedStyle(one).textDecorationLine")
        assert look == "line-through"


def test_without_a_recording(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    with serving(tmp_path, "bare") as url, visit(browser, url) as page:
        open_tab(page)
        assert "Nothing is recorded yet" in page.inner_text(".sd-cmp-empty")
        assert page.locator(".sd-cmp-full").is_hidden()


@pytest.mark.parametrize("size, dark", [((1440, 900), False), ((1440, 900), True), ((390, 844), False)])
def test_accessible_and_fitting(browser: Any, address: str, size: tuple[int, int], dark: bool) -> None:  # noqa: F811
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    ).Axe()
    with visit(browser, address, width=size[0], height=size[1], dark=dark) as page:
        open_tab(page)
        measure(page)
        page.wait_for_timeout(600)
        found = axe.run(page).response["violations"]
        serious = [
            f"{item['id']}: {item['nodes'][0]['html'][:200]}"
            for item in found
            if item["impact"] in ("serious", "critical")
        ]
        assert not serious, serious
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
