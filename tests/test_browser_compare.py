"""The Compare tab in a real browser: the recorded answer and a measurement."""

from __future__ import annotations

from typing import Any

from browsing import MARKS, app, open_tab, ready, serious, visit

pytestmark = MARKS
COMPARE = app("compare")
IDLE = f"{COMPARE}.job.state === 'idle'"


def labels(page: Any) -> list[str]:
    return [one.split("\n")[0] for one in page.locator(".sd-board-table tbody .sd-board-name").all_inner_texts()]


def test_the_recorded_answer_its_switches_and_races_and_a_measurement(browser: Any, address: str) -> None:
    with visit(browser, address, size="1440x2600") as page:
        open_tab(page, "compare")
        rows = page.evaluate(f"{COMPARE}.question.answer.rows")
        assert page.inner_text("#compare-player .sd-answer-sentence") == page.evaluate(
            f"{COMPARE}.question.answer.report.answer"
        )

        def ranked(temperature: float, flavour: str) -> list[str]:
            own = [row for row in rows if (row["temperature"], row["flavour"]) == (temperature, flavour)]
            return [row["label"] for row in sorted(own, key=lambda row: -row["speedup"])]

        assert labels(page) == ranked(0, "mean")
        assert not serious(page)
        page.get_by_role("group", name="Temperature").get_by_role("button", name="1", exact=True).click()
        page.get_by_role("group", name="Text").get_by_role("button", name="code").click()
        assert labels(page) == ranked(1, "code") != ranked(0, "code")
        page.locator(".sd-board-bar:not([disabled])").first.click()
        page.wait_for_function(f"{ready('race')} && {app('race')}.shown.stage.names.length === 2")
        open_tab(page, "compare")
        assert labels(page) == ranked(1, "code"), "switches stay as they are"
        page.locator("#compare-player .sd-source select").select_option(index=1)
        page.wait_for_function(f"{COMPARE}.question.answer?.settings.pair === 'embedded'")
        page.click("#compare-player .sd-explored-fields > summary")
        page.fill("#compare-compare-tokens", "8")
        page.fill("#compare-compare-temperatures", "0")
        page.fill("#compare-compare-per_flavour", "1")  # the recorded answer has five
        page.click("#compare-player .sd-explored-run")
        page.wait_for_function(f"{COMPARE}.question.answers.live.compare?.done && {IDLE}")
        assert page.get_attribute("#compare-player .sd-source .sd-source-chip", "data-kind") == "measured"
        found = page.evaluate(f"{COMPARE}.question.answers.live.compare")
        assert found["done"] == found["total"]
        measured = [row["label"] for row in found["rows"] if row["flavour"] == "mean" and row.get("speedup")]
        assert sorted(labels(page)) == sorted(measured) and len(measured) > 2
