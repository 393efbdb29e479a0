"""A server that dies under its visitors: every tab says so, keeps what it heard, and is free again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.test_browser import PATIENCE, READY, browser, pytestmark, serving  # noqa: F401 - a fixture, and when to skip

CARD = " .sd-card:not([hidden])"
TABS = {"live": "#sd-run", "race": "#race-run", "compare": "#sd-cmp-run"}
STAGES = {"live": ".sd:not(.sd-cmp)", "race": "#race-player", "compare": ".sd-cmp"}


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with serving(tmp_path, "browser_server.py") as served:
        yield served


def visitor(browser: Any, url: str, tab: str) -> Any:  # noqa: F811
    """Somebody who has pressed Run on a tab, on a page of their own: a lost server leaves errors in its console."""
    page = browser.new_context(reduced_motion="reduce").new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function(READY)
    if tab != "live":
        page.click(f"[role=tab]:has-text('{tab.capitalize()}')")
    if tab == "compare":
        page.click("#sd-cmp-measure .label-wrap")
    if tab == "live":
        page.fill("#set-prompt textarea", "slow and lost")
    page.click(TABS[tab])
    return page


def test_a_server_that_dies(browser: Any, server: Any) -> None:  # noqa: F811
    """Under a race that is measured, and under two visitors who wait for their turn."""
    url, process = server
    live = visitor(browser, url, "live")
    live.wait_for_function("window.specdiff.live && window.specdiff.live.told")
    others = {tab: visitor(browser, url, tab) for tab in ("race", "compare")}
    live.evaluate("window.specdiff.silence.ask()")  # a server that answers is waited for
    assert live.evaluate("window.specdiff.root.classList.contains('sd-busy')")
    process.kill()
    for tab, page in {"live": live, **others}.items():
        page.wait_for_selector(STAGES[tab] + CARD)
        words = page.inner_text(STAGES[tab] + CARD)
        assert "does not answer any more" in words
        assert page.locator(".sd-busy").count() == 0
        assert not page.evaluate("document.querySelector('#sd-open').inert")
    assert "What the page had heard is shown" in live.inner_text(STAGES["live"] + CARD)
    assert live.evaluate("window.specdiff.trace.title") == "Stopped run"
    assert live.input_value("#set-prompt textarea") == "slow and lost"
