"""The Learn tab in a real browser: lessons through the other tabs, progress, a worksheet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from app.content import evidence
from app.content.workshop import WORKSHOP
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.schema.symbols import glossary
from tests.browsing import MARKS, app, open_tab, overflows, playhead, ready, serious, visit

pytestmark = MARKS
THERE = "document.querySelector('.sd-workshop')?.offsetParent && document.querySelector('.sd-progress').textContent"
CARD = ".sd-guide:not([hidden])"
NOTED = f"{CARD} .sd-guide-verdict:not(:empty)"
SLIDE = f"document.querySelector('{CARD}')"


def raised(words: str) -> str:
    """Words as the page's text has them: ``^(…)`` is a superscript."""
    return re.sub(r"\^\(([^()]*)\)", r"\1", words)


def lessons() -> Iterator[Any]:
    """Every lesson; by default the first that watches a run, an exploration, and neither."""
    kinds = set()
    for lesson in WORKSHOP:
        kind = (bool(lesson.watch.trace), bool(lesson.watch.explore))
        yield pytest.param(lesson, id=lesson.name, marks=pytest.mark.slow if kind in kinds else ())
        kinds.add(kind)


@pytest.mark.parametrize("lesson", list(lessons()))
def test_a_lesson_asks_shows_explains_and_checks(browser: Any, address: str, lesson: Any) -> None:
    with visit(browser, f"{address}?lesson={lesson.name}", until=THERE) as page:
        page.click(f"#lesson-{lesson.name} .sd-start")
        assert lesson.predict in page.inner_text(CARD)
        assert page.is_disabled(f"{CARD} .sd-guide-next"), "it waits for a guess"
        assert page.is_hidden(f"#lesson-{lesson.name} .sd-explained")
        wrong = (lesson.right + 1) % len(lesson.guesses)
        page.locator(f"{CARD} .sd-guide-option").nth(wrong).click()
        assert page.locator(f"{CARD} .sd-guide-option[aria-pressed=true]").count() == 1
        assert page.locator(f"{CARD} [data-right]").count() == 0, "a guess is not judged"
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function("document.querySelector('.sd-guide-here')?.getBoundingClientRect().height > 60")
        shown = page.inner_text(CARD)
        assert lesson.watch.words in shown
        assert f"You said “{lesson.guesses[wrong]}”" in shown and evidence.truth(lesson.name) in shown
        if lesson.watch.explore:
            tab = EXPLORATIONS[lesson.watch.explore].tab
            page.wait_for_function(f"window.specdiff.players.{tab}?.answer")
        else:
            assert not serious(page)
        if lesson.watch.trace:
            page.locator(f"{CARD} .sd-guide-numbers button").click()
            page.wait_for_function(f"window.specdiff.runs.length && !{app('live')}.busy")
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        assert lesson.explain[0] in page.inner_text(CARD)
        assert page.locator(f"{CARD} math").count() == 1
        page.wait_for_function("name => location.search.includes(`lesson=${name}&step=3`)", arg=lesson.name)
        assert page.locator(f"{CARD} .sd-scene").count() == (0 if lesson.watch.trace else 1), "shown in one step"
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        assert page.is_disabled(f"{CARD} .sd-guide-next"), "it waits for an answer"
        for number, option in enumerate(lesson.answers):
            page.locator(f"{CARD} .sd-guide-option").nth(number).click()
            assert option.why in page.inner_text(f"{CARD} .sd-guide-verdict")
        whose = "Your run" if lesson.watch.trace else "The recording"
        if not lesson.recorded:  # the scripted page has recordings of its own
            page.wait_for_function(
                "(whose) => document.querySelector('.sd-guide-proof').innerText.includes(whose)", arg=whose
            )
            tab = EXPLORATIONS[lesson.watch.explore].tab if lesson.watch.explore else "live"
            selected = page.locator("#sd-tabs [role=tab][aria-selected=true]").first.inner_text()
            assert selected.strip().lower() == tab, "the page behind the card is still the lesson's"
        following = WORKSHOP[WORKSHOP.index(lesson) + 1 :]
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function(THERE)
        if following:
            assert following[0].predict in page.inner_text(CARD), "the next lesson begins"
            page.keyboard.press("Escape")
        assert page.locator(CARD).count() == 0 and "lesson=" not in page.url
        page.reload()
        page.wait_for_function(THERE)
        assert "1 of 8 lessons done" in page.inner_text(".sd-progress")
        assert "✓" in page.inner_text(f".sd-contents li:has([href$={lesson.name}])")
        assert f"You said “{lesson.guesses[wrong]}”" in page.inner_text(f"#lesson-{lesson.name}")
        assert lesson.explain[0] in page.inner_text(f"#lesson-{lesson.name}")
        page.locator(f"#lesson-{lesson.name} > ol button").nth(lesson.right).click()  # a tap on the page counts
        assert page.inner_text(f"{CARD} [aria-pressed=true]") == lesson.guesses[lesson.right]


def at_step(page: Any, number: int, step: int) -> None:
    """Wait for a step of a lesson before the room."""
    title = WORKSHOP[number].title
    page.wait_for_function(
        f"([title, step]) => document.querySelector('.sd-present-place').textContent.endsWith(title)"
        f" && {SLIDE}.querySelector('header .sd-sub').textContent === step",
        arg=[title, f"{step} of 4"],
    )


def test_the_room_is_led_through_every_lesson_by_keys_alone(browser: Any, address: str) -> None:
    fits = f"{SLIDE}.scrollHeight <= {SLIDE}.clientHeight"
    shows = (
        "document.documentElement.scrollHeight <= innerHeight && "
        "[...document.querySelectorAll('.sd-bar, .sd-exp-widget .sd-slider input, .sd-scene-areas i, "
        ".sd-guide-here :is(figcaption, .sd-plot)')].filter((one) => one.offsetParent)"
        f".every((one) => one.getBoundingClientRect().bottom <= {SLIDE}.offsetTop"
        " && (one.type !== 'range' || one.getBoundingClientRect().width > 100) && one.scrollWidth <= one.clientWidth)"
    )
    own = "localStorage.setItem('specdiff-lessons', '{\"one-pass\": {\"guess\": 0}}');"  # the teacher's
    with visit(browser, f"{address}?lesson=one-pass&present=1", size="1280x720", before=own, until=SLIDE) as page:
        for number, lesson in enumerate(WORKSHOP):
            at_step(page, number, 1)
            assert lesson.predict in page.inner_text(CARD)
            page.keyboard.press("ArrowRight")
            page.wait_for_function("document.querySelector('.sd-guide-here')?.getBoundingClientRect().height > 60")
            assert lesson.watch.words in page.inner_text(CARD)
            assert evidence.truth(lesson.name) not in page.inner_text(CARD)
            page.keyboard.press("r")
            assert evidence.truth(lesson.name) in page.inner_text(CARD) and page.evaluate(fits)
            assert "You said" not in page.inner_text(CARD), "that would be the teacher's guess"
            assert page.evaluate(shows), "nothing scrolls, and the card covers neither the play bar nor a word"
            assert page.locator(".sd-controls:visible, .sd-exp-ask:visible, .sd-exp-saves:visible").count() == 0
            if lesson.name == "accept":  # keys meant for a slider stay there
                slider = page.locator(".sd-guide-here input[type=range]").first
                before = slider.input_value()
                slider.press("ArrowLeft")
                assert slider.input_value() != before
                at_step(page, number, 2)
                slider.blur()
            page.keyboard.press("PageDown")
            at_step(page, number, 3)
            text = page.text_content("body .sd-guide:not([hidden])")
            assert not any(words in text for words in lesson.explain) and page.locator(f"{CARD} math").count() == 0
            page.keyboard.press("r")
            assert all(words in page.text_content(CARD) for words in lesson.explain)
            assert page.locator(f"{CARD} math").count() == 1 and page.evaluate(fits)
            page.keyboard.press("ArrowRight")
            at_step(page, number, 4)
            page.locator(f"{CARD} .sd-guide-option").first.click()
            assert not any(one.why in page.text_content(CARD) for one in lesson.answers)
            assert page.locator(f"{CARD} [data-right]").count() == 0
            page.keyboard.press("R")
            rights = page.eval_on_selector_all(f"{CARD} [data-right]", "all => all.map((one) => one.dataset.right)")
            assert rights == [str(one.right).lower() for one in lesson.answers]
            assert all(one.why in page.text_content(CARD) for one in lesson.answers)
            assert page.evaluate(fits)
            assert f"lesson={lesson.name}&step=4" in page.url and "present=1" in page.url
            page.keyboard.press("ArrowRight")
        at_step(page, 7, 4)
        page.keyboard.press("p")
        at_step(page, 6, 1)
        page.keyboard.press("ArrowLeft")
        at_step(page, 5, 4)
        page.keyboard.press("Escape")
        page.wait_for_function(THERE)
        assert page.locator(CARD).count() == 0 and not page.locator(".sd-present-bar").is_visible()
        assert "present" not in page.url and "0 of 8" in page.inner_text(".sd-progress")
        page.keyboard.press("ArrowRight")
        assert page.locator(CARD).count() == 0


def test_a_rooms_link_and_code_open_the_same_moment(browser: Any, address: str) -> None:
    import segno

    there = f"{SLIDE} && {ready('live')}"
    with visit(browser, f"{address}?lesson=denoise&present=1&step=2", until=there) as page:
        page.keyboard.press("l")
        page.wait_for_selector(".sd-present-code", state="hidden")
        assert page.is_visible("dialog[open]"), "it says that no phone can open this address"
    named = address.replace("127.0.0.1", "room.localhost")  # no server knows it as this computer
    query = "lesson=denoise&present=1&step=2&prompt=The+caf%C3%A9&seed=5"
    with visit(browser, f"{named}?{query}", until=there) as page:
        page.wait_for_selector(".sd-guide-here")
        page.wait_for_function(f"{app('live')}.wanted.includes('seed=5')")
        page.keyboard.press(".")
        page.keyboard.press(".")
        stop = playhead(page)["stop"]
        page.keyboard.press("l")
        link = page.inner_text(".sd-present-address")
        assert "present" not in link and "&trace=" in link and "&round=" in link
        asked = parse_qs(urlparse(link).query)
        assert (asked["prompt"], asked["seed"]) == (["The café"], ["5"]) and len(asked["room"][0]) == 12
        shown = page.wait_for_function("document.querySelector('.sd-present-code').naturalWidth").json_value()
        assert shown == 4 * (segno.make_qr(link, error="m").symbol_size()[0])
        asked = page.get_attribute(".sd-present-code", "src")
        assert parse_qs(urlparse(asked).query)["link"] == [link]
        assert not serious(page)
        page.keyboard.press("Escape")
        assert not page.locator(".sd-present-address").is_visible() and page.locator(CARD).count() == 1
        page.keyboard.press("?")
        assert page.locator("dialog[open] kbd").count() == 11
        page.keyboard.press("?")
        assert page.locator("dialog[open]").count() == 0
        page.keyboard.press("?")
        page.keyboard.press("l")
        page.wait_for_selector("dialog[open] .sd-present-address")
        assert page.locator("dialog[open]").count() == 1
        page.keyboard.press("Escape")
        page.keyboard.press(" ")
        page.wait_for_function(f"{app('live')}.player.playing")
        page.keyboard.press(" ")
        page.wait_for_function(f"!{app('live')}.player.playing")
    with visit(browser, link, size="phone", until=SLIDE) as page:
        assert WORKSHOP[3].predict in page.inner_text(CARD), "it asks for a guess first"
        assert WORKSHOP[3].watch.words not in page.inner_text(CARD)
        page.locator(f"{CARD} .sd-guide-option").first.click()
        page.click(f"{CARD} .sd-guide-next")
        page.wait_for_function(f"document.querySelector('.sd-guide-here') && {ready('live')}")
        assert WORKSHOP[3].watch.words in page.inner_text(CARD)
        assert playhead(page)["stop"] == stop
        assert page.locator(f"{CARD} .sd-guide-numbers button").count() == 0, "phones do not decode"
        assert not page.locator(".sd-present-bar").is_visible()
        assert not overflows(page)


def test_the_projector_counts_what_phones_choose(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?lesson=gamma&present=1", until=SLIDE, logged="404") as room:
        room.keyboard.press("l")
        link = room.inner_text(".sd-present-address")
        room.keyboard.press("Escape")
        with visit(browser, link, size="phone", until=SLIDE) as phone:
            options = phone.locator(f"{CARD} .sd-guide-option")
            letter = "(one) => getComputedStyle(one, '::before').content + getComputedStyle(one).counterIncrement"
            assert options.last.evaluate(letter) == 'counter(letter, lower-alpha) ". "letter 1', "as the teacher's key"
            options.nth(1).click()
            assert options.first.get_attribute("aria-disabled") == "true", "an answer is final"
            options.first.click(force=True)
            room.wait_for_selector(f"{CARD} .sd-guide-verdict + p:text-matches('^1[^0-9]')")
            assert phone.is_hidden("#lesson-gamma .sd-explained") and not phone.inner_text("#lesson-gamma .sd-guessed")
            phone.reload()
            phone.wait_for_selector(NOTED)
            vote = "fetch(`rooms/${new URLSearchParams(location.search).get('room')}/gamma-guess?option=2&voter=`"
            own = "sessionStorage.getItem('specdiff-voter')"
            assert phone.evaluate(f"{vote} + {own}, {{ method: 'POST' }}).then(({{ ok }}) => ok)")
            titles = {lesson.name: lesson.title for lesson in WORKSHOP}
            other = list(titles)[1 + list(titles).index("gamma")]
            room.keyboard.press("n")
            phone.click(f"{CARD} button:has-text('{titles[other]}')")
            phone.wait_for_function(f"{SLIDE}.ariaLabel === '{titles[other]}'")
            assert phone.locator(f"{CARD} button:has-text('{titles[other]}')").count() == 0, "it is there"
            room.keyboard.press("p")
            phone.keyboard.press("Escape")
            phone.click(f".sd-room button:has-text('{titles['gamma']}')")
            phone.wait_for_selector(NOTED)
            phone.keyboard.press("Escape")
            assert phone.is_visible("#lesson-gamma .sd-explained")
            assert phone.locator(".sd-present:visible, .sd-teacher:visible").count() == 0
            for tab in ("live", "race", "explore", "compare"):
                open_tab(phone, tab)
                assert phone.locator(f"#{tab}-run:visible:not(.sd-unseen), .sd-exp-run:visible").count() == 0
                assert phone.locator(".sd-seat:visible a").get_attribute("href") == "?", "why, and a way out"
                phone.evaluate(f"document.getElementById('{tab}-run').click()")
                assert not phone.evaluate(f"{app(tab)}.waiting || {app(tab)}.busy"), "nothing runs"
            open_tab(phone, "explore")
            phone.locator(".sd-exp-questions button:visible").last.click()
            phone.wait_for_function("/explore=.*room=/.test(location.search)")
        room.reload()
        room.wait_for_function(f"{SLIDE}?.innerText.includes('1 answer from the room')")
        assert room.locator(".sd-guide-votes").count() == 0, "bars would lead the others"
        room.keyboard.press("r")
        bars = "[...document.querySelectorAll('.sd-guide-votes')].map((one) => one.textContent).join()"
        room.wait_for_function(f"{bars} === '0,1,0'")
        assert not serious(room)
        room.keyboard.press("Escape")
        room.wait_for_function(f"fetch('rooms/{link[-12:]}/x').then(({{ ok }}) => !ok)")


def test_the_tour_ends_an_open_lesson(browser: Any, address: str) -> None:
    link = f"{address}?lesson=gamma&step=1"
    with visit(browser, link, before="window.specdiffNew = true;", until=SLIDE) as page:
        open_tab(page, "live")
        page.click(".sd-tour-offer .sd-link")
        page.wait_for_selector(".sd-window .sd-gridwrap.sd-guide-here")
        assert page.get_attribute(CARD, "aria-label") == "Tour" and page.locator(CARD).count() == 1


def test_a_phone_says_that_its_room_is_not_open(browser: Any, address: str) -> None:
    link = f"{address}?lesson=gamma&step=1&room=0123456789ab"
    with visit(browser, link, size="phone", until=SLIDE, logged="404") as phone:
        phone.wait_for_selector(f"{CARD} > [role=status]")  # why answers don't count
        phone.locator(f"{CARD} .sd-guide-option").first.click()
        phone.wait_for_selector(f"{CARD} .sd-guide-option[aria-pressed=true]")
        phone.wait_for_selector(f"{CARD} .sd-guide-note:not(:empty)")
        assert phone.locator(NOTED).count() == 0 and phone.locator(f"{CARD} > [role=status]").count() == 0
        assert not overflows(phone)
        phone.keyboard.press("Escape")
        open_tab(phone, "live")
        phone.wait_for_selector("#live-run")  # the controls are back


HOSTILE = (
    "&present=1&step=99&trace=../../x&round=-1&at=%3Cb%3E&gamma=%3Cscript%3E&seed=1e99&tab=race&no=such&lane=__proto__"
)


@pytest.mark.parametrize("lesson", ["denoise", "%3Cscript%3E"])
def test_a_hostile_lesson_link_opens_the_lesson(browser: Any, address: str, lesson: str) -> None:
    with visit(browser, f"{address}?lesson={lesson}{HOSTILE}", until=SLIDE) as page:
        at_step(page, 3 if lesson == "denoise" else 0, 1)
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('.sd-guide-here')?.getBoundingClientRect().height > 60")


def test_every_lesson_can_be_read(browser: Any, address: str) -> None:
    with visit(browser, address, size="phone", dark=True) as page:
        open_tab(page, "learn")
        page.wait_for_function(THERE)  # its scripts
        for lesson in WORKSHOP:
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert lesson.predict in words and lesson.explain[0] not in words
            page.click(f"#lesson-{lesson.name} .sd-skip")
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert lesson.explain[0] in words and raised(lesson.check) in words and "You said" not in words
        assert "0 of 8" in page.inner_text(".sd-progress")
        assert not overflows(page)
        assert not serious(page)


TIP = "#sd-tip:not([hidden])"


@pytest.mark.parametrize("size", ["desktop", pytest.param("phone", marks=pytest.mark.slow)])
def test_a_symbol_says_what_it_means(browser: Any, address: str, size: str) -> None:
    with visit(browser, f"{address}?lesson=gamma", size=size, until=THERE) as page:
        page.click("#lesson-gamma .sd-skip")
        symbol = page.locator("#lesson-gamma p [data-symbol='τ']").first
        symbol.hover()
        assert page.inner_text(TIP) == f"τ: {glossary()['τ']['meaning']} (tokens)"
        assert symbol.get_attribute("aria-describedby") == "sd-tip"
        box = page.locator(TIP).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"] and box["y"] >= 0
        page.mouse.move(1, 1)
        assert page.locator(TIP).count() == 0 and symbol.get_attribute("aria-describedby") is None
        page.locator("#lesson-gamma [data-symbol='γ'][tabindex]").first.focus()
        assert page.inner_text(TIP).startswith("γ: draft window")
        page.keyboard.press("Escape")
        assert page.locator(TIP).count() == 0
        symbol.click()
        assert page.inner_text(TIP).startswith("τ: ")
        page.mouse.move(1, 1)
        symbol.dispatch_event("pointerdown", {"pointerType": "touch"})
        assert page.locator(TIP).count() == 0, "it may begin to scroll"
        symbol.dispatch_event("pointerup", {"pointerType": "touch"})
        assert page.inner_text(TIP).startswith("τ: "), "a finger moves no mouse"
        page.locator("#sd-workshop").dispatch_event("pointerdown")
        assert page.locator(TIP).count() == 0
        assert not serious(page)
        marked = "all => all.map((one) => [...one.querySelectorAll('abbr')].map((own) => own.textContent))"
        paragraphs = page.eval_on_selector_all(".sd-lesson p", marked)
        assert any(paragraphs) and all(len(set(one)) == len(one) for one in paragraphs), "a paragraph marks it once"
        assert page.locator("#lesson-gamma [data-symbol='γ'][tabindex]").count() == 1, "the Tab key stops once"
        assert page.locator("#lesson-gamma .sd-predict [data-symbol]").count() == 0, "no symbols"


def test_the_worksheet_holds_the_lessons_and_no_answer(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?lesson=gamma", dark=True, until=THERE) as page:
        page.click(".sd-present")
        page.keyboard.press("Escape")
        page.wait_for_function(THERE)
        page.emulate_media(media="print")
        ink = page.evaluate("getComputedStyle(document.querySelector('.sd-workshop-lesson h3')).color")
        assert all(int(part) < 64 for part in re.findall(r"\d+", ink)), ink
        seen = page.inner_text("body")
        for lesson in WORKSHOP:
            assert lesson.title in seen and lesson.predict in seen and raised(lesson.check) in seen
            assert all(one.words in seen for one in lesson.answers)
            assert not any(one.why in seen for one in lesson.answers)
        blank = "getComputedStyle(document.querySelector('.sd-workshop-lesson ol'), '::after').height"
        assert float(page.evaluate(blank).removesuffix("px")) > 80, "room to write"
        assert page.locator(".sd-methods").first.is_hidden()
        for words in ("Start", "Key:", "Skip", "Reveal", "Present", "End here", "Open trace", "0 of 8"):
            assert words not in seen, words
