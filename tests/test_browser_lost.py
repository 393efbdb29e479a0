"""A server that dies under its visitors: every tab says so, keeps what it heard, and is free again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from tests.test_browser import PATIENCE, READY, browser, pytestmark, serving  # noqa: F401 - a fixture, and when to skip

CARD = " .sd-card:not([hidden])"
RUN = {"live": "#sd-run", "race": "#race-run", "compare": "#sd-cmp-run"}
STAGES = {"live": ".sd:not(.sd-cmp)", "race": "#race-player", "compare": ".sd-cmp"}


def visitor(browser: Any, url: str, tab: str) -> Any:  # noqa: F811
    """Somebody who stands before a tab's Run, on a page of their own: a lost server leaves errors in its console."""
    page = browser.new_context(reduced_motion="reduce").new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function(READY)
    if tab != "live":
        page.click(f"[role=tab]:has-text('{tab.capitalize()}')")
    if tab == "compare":
        page.click("#sd-cmp-measure .label-wrap")
    page.wait_for_selector(RUN[tab])
    return page


def test_a_server_that_dies(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    """Under a race that is measured, and under two visitors who wait for their turn. When it is back, the page reloads
    itself with the prompt and the settings, and runs."""
    with serving(tmp_path, "browser_server.py") as (url, process):
        visitors = {tab: visitor(browser, url, tab) for tab in RUN}
        live, race = visitors["live"], visitors["race"]
        live.fill("#set-prompt textarea", "slow and lost")
        live.locator("#set-gamma input[type=number]").fill("5")
        live.locator("#set-gamma input[type=number]").press("Tab")
        race.fill("#race-prompt textarea", "lost in the queue")
        for tab, page in visitors.items():
            page.click(RUN[tab])
        live.wait_for_function("window.specdiff.live && window.specdiff.live.told")
        live.evaluate("window.specdiff.silence.ask()")  # a server that answers is waited for
        assert live.evaluate("window.specdiff.root.classList.contains('sd-busy')")
        for page in visitors.values():
            page.evaluate("window.old = true")
        process.kill()
        for tab, page in visitors.items():
            page.wait_for_selector(STAGES[tab] + CARD)
            assert "does not answer any more" in page.inner_text(STAGES[tab] + CARD)
            assert page.locator(".sd-busy").count() == 0
            assert not page.evaluate("document.querySelector('#sd-open').inert")
        assert "What the page had heard is shown" in live.inner_text(STAGES["live"] + CARD)
        assert live.evaluate("window.specdiff.trace.title") == "Stopped run"
        assert parse_qs(urlparse(race.url).query)["methods"] == ["autoregressive,specdiff,dflash"]
    with serving(tmp_path, "browser_server.py", port=urlparse(url).port):
        for page in visitors.values():
            page.wait_for_function(f"!window.old && {READY}")
        live.wait_for_function("document.querySelector('#set-prompt textarea').value === 'slow and lost'")
        live.wait_for_function("document.querySelector('#set-gamma input[type=number]').value === '5'")
        live.fill("#set-prompt textarea", "found again")
        live.click(RUN["live"])
        live.wait_for_function("window.specdiff.trace.title === 'Live run'")
        race.wait_for_function("document.querySelector('#race-prompt textarea')?.value === 'lost in the queue'")
        for page in visitors.values():
            page.context.close()
