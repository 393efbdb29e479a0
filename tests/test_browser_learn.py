"""The Learn tab in a real browser: lessons that lead through the other tabs, progress that stays, a worksheet."""

from __future__ import annotations

from typing import Any

import pytest

from app.content.workshop import WORKSHOP
from tests.browsing import MARKS, open_tab, overflows, serious, visit

pytestmark = MARKS
THERE = "document.querySelector('.sd-workshop')?.offsetParent && document.querySelector('.sd-progress').textContent"
CARD = ".sd-guide:not([hidden])"


@pytest.mark.parametrize("lesson", WORKSHOP, ids=lambda lesson: lesson.name)
def test_a_lesson_asks_shows_explains_and_checks(browser: Any, address: str, lesson: Any) -> None:
    with visit(browser, f"{address}?lesson={lesson.name}", until=THERE) as page:
        page.click(f"#lesson-{lesson.name} .sd-start")
        assert lesson.predict in page.inner_text(CARD)
        page.locator(f"{CARD} .sd-guide-option").first.click()
        assert "Remembered" in page.inner_text(CARD)
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function("document.querySelector('.sd-guide-here')?.getBoundingClientRect().height > 60")
        assert lesson.watch.words in page.inner_text(CARD)
        if lesson.watch.explore:
            page.wait_for_function("window.specdiff.players.explore?.answer")
        assert not serious(page)
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        assert lesson.explain[0] in page.inner_text(CARD)
        assert page.locator(f"{CARD} math").count() == 1
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        for number, answer in enumerate(lesson.answers):
            page.locator(f"{CARD} .sd-guide-option").nth(number).click()
            assert answer.why in page.inner_text(f"{CARD} .sd-guide-verdict")
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function(THERE)
        assert "1 of 8 lessons done" in page.inner_text(".sd-progress")
        assert page.locator(CARD).count() == 0
        page.reload()
        page.wait_for_function(THERE)
        assert "1 of 8 lessons done" in page.inner_text(".sd-progress")


def test_every_lesson_can_be_read_and_printed_without_running_anything(browser: Any, address: str) -> None:
    with visit(browser, address, size="phone", dark=True) as page:
        open_tab(page, "learn")
        for lesson in WORKSHOP:
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert lesson.predict in words
            assert lesson.check in words
        assert not overflows(page)
        assert not serious(page)
        page.emulate_media(media="print")
        assert page.locator(".sd-workshop-lesson").first.is_visible()
        assert page.locator(".sd-answers").first.is_hidden()
        assert page.locator(".sd-methods").first.is_hidden()


def test_a_lesson_can_be_left_at_any_time(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?lesson=nothing&explored=x", until=THERE) as page:
        page.click("#lesson-trees .sd-start")
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.keyboard.press("Escape")
        page.wait_for_function(THERE)
        assert page.locator(CARD).count() == 0
        assert "0 of 8" in page.inner_text(".sd-progress")
        assert not page.evaluate("document.body.classList.contains('sd-guided')")
