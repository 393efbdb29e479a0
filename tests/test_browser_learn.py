"""The Learn tab in a real browser: lessons through the other tabs, progress, a worksheet."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from browsing import CARD, MARKS, POINTED, app, open_tab, overflows, ready, serious, visit

from app.content import evidence, scenes
from app.content.symbols import glossary
from app.content.workshop import CLOSING, WORKSHOP
from specdiff_core.explorations import EXPLORATIONS

pytestmark = MARKS
THERE = (
    "document.querySelector('.sd-workshop')?.offsetParent"
    " && document.querySelector('.sd-workshop-progress').textContent"
)
NOTED = f"{CARD} .sd-guide-verdict:not(:empty)"
SLIDE = f"document.querySelector('{CARD}')"


def raised(words: str) -> str:
    """Words as the page's text has them: ``^(…)`` is a superscript."""
    return re.sub(r"\^\(([^()]*)\)", r"\1", words)


RECORDED_LAST = sorted(WORKSHOP, key=lambda lesson: bool(lesson.watch.trace))
"""All lessons; after a run of the visitor's own, a check would no longer quote the recording."""
ONE_OF_EACH_KIND = [one for one in RECORDED_LAST if one.name in {"one-pass", "guesses", "round"}]


@pytest.mark.parametrize(
    "lessons",
    [pytest.param(ONE_OF_EACH_KIND, id="kinds"), pytest.param(RECORDED_LAST, id="all", marks=pytest.mark.slow)],
)
def test_a_lesson_asks_shows_explains_and_checks(browser: Any, address: str, lessons: list[Any]) -> None:
    with visit(browser, f"{address}?lesson={lessons[0].name}", until=THERE) as page:
        wrong = {lesson.name: lesson.guesses[(lesson.right + 1) % len(lesson.guesses)] for lesson in lessons}
        for lesson in lessons:
            take(page, lesson, wrong[lesson.name])
        page.reload()
        page.wait_for_function(THERE)
        assert f"{len(lessons)} of 8 lessons done" in page.inner_text(".sd-workshop-progress")
        for lesson in lessons:
            assert "✓" in page.inner_text(f".sd-workshop-contents li:has([href$={lesson.name}])")
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert f"You said “{wrong[lesson.name]}”" in words and lesson.explain[0] in words
        page.locator(f"#lesson-{lesson.name} > ol button").nth(lesson.right).click()  # a tap on the page counts
        assert page.inner_text(f"{CARD} [aria-pressed=true]") == lesson.guesses[lesson.right]


def take(page: Any, lesson: Any, wrong: str) -> None:
    """Go through a lesson with this guess, and run what it shows if that is a recording."""
    page.click(f"#lesson-{lesson.name} .sd-lesson-start")
    assert lesson.predict in page.inner_text(CARD)
    assert page.is_disabled(f"{CARD} .sd-guide-next"), "it waits for a guess"
    assert page.is_hidden(f"#lesson-{lesson.name} .sd-lesson-explained")
    page.locator(f"{CARD} .sd-guide-option").nth(lesson.guesses.index(wrong)).click()
    assert page.locator(f"{CARD} .sd-guide-option[aria-pressed=true]").count() == 1
    assert page.locator(f"{CARD} [data-right]").count() == 0, "a guess is not judged"
    page.locator(f"{CARD} .sd-guide-next").press("Enter")
    page.wait_for_function(POINTED)
    shown = page.inner_text(CARD)
    assert lesson.watch.words in shown
    assert f"You said “{wrong}”" in shown and evidence.truth(lesson.name) in shown
    assert f"“{lesson.guesses[lesson.right]}”" in shown, "the right answer"
    tab = EXPLORATIONS[lesson.watch.explore].tab if lesson.watch.explore else "live"
    if lesson.watch.explore:
        page.wait_for_function(f"window.specdiff.tabs.{tab}?.question.answer")
    if lesson.watch.trace:
        page.locator(f"{CARD} .sd-guide-numbers button").click()
        page.wait_for_function(f"window.specdiff.runs.length && !{app('live')}.job.busy")
        tau = page.evaluate("window.specdiff.runs[0].tau.toFixed(2)")
        page.wait_for_selector(f"{CARD} .sd-guide-numbers p:has-text('{tau}')")
        assert page.is_visible(f"{CARD} .sd-guide-numbers button"), "it can run again"
    page.locator(f"{CARD} .sd-guide-next").press("Enter")
    assert lesson.explain[0] in page.inner_text(CARD)
    assert page.locator(f"{CARD} math").count() == 1
    page.wait_for_function("name => location.search.includes(`lesson=${name}&step=3`)", arg=lesson.name)
    assert page.locator(f"{CARD} .sd-scene").count() == (lesson.name in scenes.SCENES)
    page.locator(f"{CARD} .sd-guide-next").press("Enter")
    assert page.is_disabled(f"{CARD} .sd-guide-next"), "it waits for an answer"
    for number, option in enumerate(lesson.answers):
        page.locator(f"{CARD} .sd-guide-option").nth(number).click()
        assert option.why in page.inner_text(f"{CARD} .sd-guide-verdict")
    if lesson.watch.trace:
        page.wait_for_function("document.querySelector('.sd-guide-proof').innerText.includes('Your run')")
    selected = page.locator("#sd-tabs [role=tab][aria-selected=true]").first.inner_text()
    assert selected.strip().lower() == tab, "the page behind the card is still the lesson's"
    following = (*WORKSHOP, CLOSING)[WORKSHOP.index(lesson) + 1]
    page.locator(f"{CARD} .sd-guide-next").press("Enter")
    page.wait_for_function(THERE)
    assert (following.predict or following.explain[0]) in page.inner_text(CARD), "the next lesson begins"
    page.keyboard.press("Escape")
    assert page.locator(CARD).count() == 0 and "lesson=" not in page.url


def test_back_walks_through_the_steps_of_a_lesson(browser: Any, address: str) -> None:
    name = WORKSHOP[0].name
    tab = "document.querySelector('#sd-tabs [role=tab][aria-selected=true]').textContent.trim()"

    def shows(page: Any, step: int, opened: str) -> None:
        page.wait_for_function(
            f"{SLIDE}?.querySelector('header .sd-sub').textContent === '{step} of 4'"
            f" && location.search.includes('lesson={name}&step={step}') && {tab} === '{opened}'"
        )

    with visit(browser, f"{address}?tab=learn", until=THERE) as page:
        page.click(f"#lesson-{name} .sd-lesson-start")
        shows(page, 1, "Learn")
        page.locator(f"{CARD} .sd-guide-option").first.click()
        for step in (2, 3):
            page.locator(f"{CARD} .sd-guide-next").press("Enter")
            shows(page, step, "Live")
        page.go_back()
        shows(page, 2, "Live")
        page.wait_for_function(POINTED)
        page.go_back()
        shows(page, 1, "Learn")
        page.go_back()
        page.wait_for_function(f"!{SLIDE} && {tab} === 'Learn'")
        page.go_forward()
        shows(page, 1, "Learn")
    for query, step, opened in (("", 1, "Learn"), ("&step=2", 2, "Live")):
        with visit(browser, f"{address}?lesson={name}{query}", until=SLIDE) as page:
            shows(page, step, opened)


@pytest.mark.parametrize("size", ["1280x720", "phone"])
def test_a_card_leaves_what_it_is_about_in_view(browser: Any, address: str, size: str) -> None:
    clear = f"""(() => {{
        const [card, tiles] = [{SLIDE}, document.querySelector('.sd-tile')?.closest('ol')]
            .map((one) => one?.getBoundingClientRect());
        return tiles?.height && tiles.top >= 0 && tiles.bottom <= card.top && card.height <= 0.46 * innerHeight;
    }})()"""
    with visit(browser, f"{address}?lesson={WORKSHOP[0].name}&step=2", size=size, until=SLIDE) as page:
        page.wait_for_function(clear)
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function("location.search.includes('step=3')")
        page.wait_for_function(clear)
        assert page.locator(f"{CARD} .sd-guide-next").evaluate(
            f"(one) => one.getBoundingClientRect().bottom <= {SLIDE}.getBoundingClientRect().bottom"
        ), "what is longer scrolls in it"


def at_step(page: Any, number: int, step: int) -> None:
    """Wait for a step of a lesson before the room."""
    title = (*WORKSHOP, CLOSING)[number].title
    page.wait_for_function(
        f"([title, step]) => document.querySelector('.sd-presenter-place')?.textContent.endsWith(title)"
        f" && {SLIDE}.querySelector('header .sd-sub').textContent === step",
        arg=[title, f"{step} of 4" if number < len(WORKSHOP) else ""],
    )


def test_the_core_path_has_its_own_next_worksheet_and_slides(browser: Any, address: str) -> None:
    core = [lesson for lesson in WORKSHOP if lesson.core]
    further = WORKSHOP[-1]
    with visit(browser, f"{address}?tab=learn", until=THERE) as page:
        cards, tops = page.locator(".sd-workshop-lesson"), "(all) => all.map((one) => one.offsetTop)"
        closed = cards.evaluate_all(tops)
        page.click(f"#lesson-{WORKSHOP[0].name} .sd-lesson-skip")
        opened = cards.evaluate_all(tops)
        assert opened[1] > closed[1] and opened[-1] == closed[-1], "what opens in a column leaves the other as it is"
        page.click("[data-path=core]")
        assert page.get_attribute("[data-path=core]", "aria-pressed") == "true"
        assert "0 of 5 lessons" in page.inner_text(".sd-workshop-progress")
        assert page.locator(".sd-workshop-lesson h3:visible").count() == len(core) + 1, "and the summary"
        page.emulate_media(media="print")
        seen = page.inner_text("body")
        assert core[-1].predict in seen and further.predict not in seen and CLOSING.title not in seen
        page.emulate_media(media="screen")
        page.click(f"#lesson-{core[-1].name} .sd-lesson-start")
        for _ in range(2):
            page.locator(f"{CARD} .sd-guide-option").first.click()
            for _ in range(3):
                if page.is_enabled(f"{CARD} .sd-guide-next") and not page.locator(f"{CARD} [data-right]").count():
                    page.locator(f"{CARD} .sd-guide-next").press("Enter")
                    page.wait_for_timeout(100)
        page.wait_for_function("location.search.includes('path=core')")
        assert page.inner_text(f"{CARD} .sd-guide-next") == "Summary"
        page.locator(f"{CARD} .sd-guide-next").press("Enter")
        page.wait_for_function(f"{SLIDE}?.innerText.includes({CLOSING.explain[0]!r})")
        page.keyboard.press("Escape")
        page.click(".sd-workshop-present")
        at_step(page, len(WORKSHOP), 1)
        page.keyboard.press("p")
        at_step(page, WORKSHOP.index(core[-1]), 1)
        assert f"Lesson {len(core)} of {len(core)}" in page.inner_text(".sd-presenter-place")
        page.reload()
        at_step(page, WORKSHOP.index(core[-1]), 1)
        page.keyboard.press("n")
        at_step(page, len(WORKSHOP), 1)
        assert "path=core" in page.url
        page.keyboard.press("Escape")
    with visit(browser, f"{address}?lesson={further.name}&path=core", until=THERE) as page:
        assert page.is_visible(f"#lesson-{further.name}"), "a link to another lesson leaves the path"


def test_the_room_is_led_through_every_lesson_by_keys_alone(browser: Any, address: str) -> None:
    fits = f"{SLIDE}.scrollHeight <= {SLIDE}.clientHeight"
    shows = (
        "document.documentElement.scrollHeight <= innerHeight && "
        "[...document.querySelectorAll('.sd-bar, .sd-widget .sd-slider input, .sd-scene-areas i, "
        ".sd-guide-here :is(figcaption, .sd-plot)')].filter((one) => one.offsetParent)"
        f".every((one) => one.getBoundingClientRect().bottom <= {SLIDE}.offsetTop"
        " && (one.type !== 'range' || one.getBoundingClientRect().width > 100) && one.scrollWidth <= one.clientWidth)"
    )
    own = "localStorage.setItem('specdiff-lessons', '{\"round\": {\"guess\": 0}}');"  # the teacher's
    with visit(browser, f"{address}?lesson=round&present=1", size="1280x720", before=own, until=SLIDE) as page:
        for number, lesson in enumerate(WORKSHOP):
            at_step(page, number, 1)
            assert lesson.predict in page.inner_text(CARD)
            assert page.inner_text(".sd-presenter-bar > .sd-sub"), "why there is nothing to reveal"
            page.keyboard.press("ArrowRight")
            page.wait_for_function(POINTED)
            assert lesson.watch.words in page.inner_text(CARD)
            assert evidence.truth(lesson.name) not in page.inner_text(CARD)
            page.keyboard.press("r")
            assert evidence.truth(lesson.name) in page.inner_text(CARD) and page.evaluate(fits)
            assert f"“{lesson.guesses[lesson.right]}”" in page.inner_text(CARD)
            assert "You said" not in page.inner_text(CARD), "that would be the teacher's guess"
            assert page.evaluate(shows), "nothing scrolls, and the card covers neither the play bar nor a word"
            assert page.locator(".sd-controls:visible, .sd-explored-ask:visible, .sd-answer-saves:visible").count() == 0
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
        at_step(page, 8, 1)
        assert CLOSING.explain[0] in page.inner_text(CARD)
        page.keyboard.press("r")
        assert page.locator(f"{CARD} math").count() == 1 and page.evaluate(fits)
        page.keyboard.press("ArrowRight")
        at_step(page, 8, 1)
        page.keyboard.press("p")
        at_step(page, 7, 1)
        page.keyboard.press("ArrowLeft")
        at_step(page, 6, 4)
        page.keyboard.press("Escape")
        page.wait_for_function(THERE)
        assert page.locator(CARD).count() == 0 and not page.locator(".sd-presenter-bar").is_visible()
        assert "present" not in page.url and "0 of 8" in page.inner_text(".sd-workshop-progress")
        page.keyboard.press("ArrowRight")
        assert page.locator(CARD).count() == 0


CODE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>'
"""What the server answers to a link; tests/test_app_routes.py has the real one."""
HOSTILE = (
    "&present=1&step=99&trace=../../x&round=-1&at=%3Cb%3E&gamma=%3Cscript%3E&seed=1e99&tab=race&no=such&lane=__proto__"
)


def test_a_hostile_link_opens_its_lesson_but_on_no_phone(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?lesson=round{HOSTILE}", until=SLIDE) as page:
        at_step(page, 0, 1)
        page.keyboard.press("ArrowRight")
        page.wait_for_function(POINTED)
        page.keyboard.press("l")
        page.wait_for_selector(".sd-presenter-code", state="hidden")
        assert page.is_visible("dialog[open]"), "it says that no phone can open this computer's own address"


def test_the_link_for_a_room_has_its_settings_and_a_code(browser: Any, address: str) -> None:
    query = "lesson=round&present=1&step=2&prompt=The+caf%C3%A9&seed=5"
    with visit(browser, f"{address}?{query}", until=f"{SLIDE} && {ready('live')}", logged="404") as room:
        room.route("**/qr?*", lambda code: code.fulfill(body=CODE, content_type="image/svg+xml"))
        room.wait_for_selector(".sd-guide-here")
        room.wait_for_function(f"{app('live')}.state.formSettings.includes('seed=5')")
        room.keyboard.press("l")
        link = room.inner_text(".sd-presenter-address")
        assert "present" not in link and "&trace=" in link and "&round=" in link
        asked = parse_qs(urlparse(link).query)
        assert (asked["prompt"], asked["seed"]) == (["The café"], ["5"]) and len(asked["room"][0]) == 12
        room.wait_for_function("document.querySelector('.sd-presenter-code').naturalWidth")
        asked = room.get_attribute(".sd-presenter-code", "src")
        assert parse_qs(urlparse(asked).query)["link"] == [link]
        assert not serious(room)
        room.keyboard.press("Escape")
        assert not room.locator(".sd-presenter-address").is_visible() and room.locator(CARD).count() == 1
        room.keyboard.press("?")
        assert room.locator("dialog[open] kbd").count() == 11
        room.keyboard.press("?")
        assert room.locator("dialog[open]").count() == 0
        room.keyboard.press("?")
        room.keyboard.press("l")
        room.wait_for_selector("dialog[open] .sd-presenter-address")
        assert room.locator("dialog[open]").count() == 1
        room.keyboard.press("Escape")
        room.keyboard.press(" ")
        room.wait_for_function(f"{app('live')}.shown.playhead.playing")
        room.keyboard.press(" ")
        room.wait_for_function(f"!{app('live')}.shown.playhead.playing")
        room.keyboard.press("Escape")
        room.unroute("**/qr?*")


def led_to(phone: Any, words: str) -> None:
    """Wait until a phone's card says this: it follows the projector."""
    phone.wait_for_function(f"words => {SLIDE}?.innerText.includes(words)", arg=words)


def unknown(phone: Any, lesson: Any) -> None:
    """Nothing on the page tells an explanation, a key or why an answer is right."""
    seen = phone.inner_text("body")
    told = (evidence.truth(lesson.name), *lesson.explain, *(one.why for one in lesson.answers))
    assert not [words for words in told if words in seen]
    assert (
        phone.locator(
            "[data-right], .sd-lesson-answers:visible, .sd-workshop-teacher:visible, .sd-lesson-explained:visible"
        ).count()
        == 0
    )


HURRY = "const later = window.setTimeout; window.setTimeout = (act, wait, ...more) => later(act, wait / 10, ...more);"
"""A room and its phones look at each other ten times as often."""


def test_phones_follow_the_projector_and_learn_no_key_before_it_is_revealed(browser: Any, address: str) -> None:
    own, other = WORKSHOP[1:3]
    there: dict[str, Any] = {"until": SLIDE, "before": HURRY, "logged": "404"}
    with visit(browser, f"{address}?lesson={own.name}&present=1", size="1280x720", **there) as room:
        room.keyboard.press("l")
        link = room.inner_text(".sd-presenter-address")
        room.keyboard.press("Escape")
        with (
            visit(browser, link, size="phone", **there) as phone,
            visit(browser, link, size="phone", **there) as second,
        ):
            led_to(phone, own.predict)
            unknown(phone, own)
            assert phone.locator(f"{CARD} .sd-guide-next").count() == 0, "the teacher decides"
            options = phone.locator(f"{CARD} .sd-guide-option")
            letter = "(one) => getComputedStyle(one, '::before').content + getComputedStyle(one).counterIncrement"
            assert options.last.evaluate(letter) == 'counter(letter, lower-alpha) ". "letter 1', "as the key"
            options.nth(1).click()
            assert options.first.get_attribute("aria-disabled") == "true", "an answer is final"
            room.wait_for_function(f"{SLIDE}.innerText.includes('1 of 2 answered')")
            assert room.locator(".sd-guide-votes").count() == 0, "bars would lead the others"
            unknown(phone, own)
            phone.reload()
            phone.wait_for_selector(NOTED)
            voter = "sessionStorage.getItem('specdiff-voter')"
            send = (
                f"fetch(`rooms/${{new URLSearchParams(location.search).get('room')}}/{own.name}-guess?option=2&voter=`"
            )
            assert phone.evaluate(f"{send} + {voter}, {{ method: 'POST' }}).then(({{ ok }}) => ok)")
            room.keyboard.press("r")
            bars = "[...document.querySelectorAll('.sd-guide-votes')].map((one) => one.textContent).join()"
            room.wait_for_function(f"{bars} === '0,1,0'")
            room.keyboard.press("ArrowRight")
            led_to(phone, own.watch.words)
            unknown(phone, own)
            assert phone.locator(f"{CARD} .sd-guide-numbers button").count() == 0, "phones do not decode"
            assert not overflows(phone)
            room.keyboard.press("r")
            led_to(phone, evidence.truth(own.name))
            room.keyboard.press("ArrowRight")
            led_to(phone, "What did you see?")
            unknown(phone, own)
            room.keyboard.press("r")
            led_to(phone, own.explain[0])
            room.keyboard.press("ArrowRight")
            led_to(phone, own.check)
            options.first.click()
            room.wait_for_function(f"{SLIDE}.innerText.includes('1 of 2 answered')")
            unknown(phone, own)
            room.keyboard.press("r")
            led_to(phone, own.answers[0].why)
            led_to(second, own.check)
            room.keyboard.press("n")
            led_to(phone, other.predict)
            phone.keyboard.press("Escape")
            phone.click(f".sd-workshop-room button:has-text('{other.title}')")
            led_to(phone, other.predict)
            phone.keyboard.press("Escape")
            nothing_runs(phone)
            room.reload()
            room.wait_for_function(f"{SLIDE}?.innerText.includes('0 of 2 answered')")
            room.keyboard.press("Escape")
            phone.wait_for_selector(".sd-explored-run")  # the room is closed: the controls are back
            open_tab(phone, "learn")
            phone.wait_for_selector(".sd-workshop-room [role=status]")  # why answers don't count
            phone.click(f"#lesson-{other.name} .sd-lesson-start")
            phone.locator(f"{CARD} .sd-guide-option").first.click()
            phone.wait_for_selector(f"{CARD} .sd-guide-option[aria-pressed=true]")
            phone.wait_for_selector(f"{CARD} .sd-guide-note:not(:empty)")
            assert phone.locator(NOTED).count() == 0 and phone.locator(f"{CARD} > [role=status]").count() == 0
            assert phone.is_visible(f"{CARD} .sd-guide-next"), "nobody leads any more"
            assert not overflows(phone)


def nothing_runs(phone: Any) -> None:
    """No tab of a room's page can start a run."""
    for tab in ("live", "race", "explore", "compare"):
        open_tab(phone, tab)
        assert phone.locator(f"#{tab}-run:visible, .sd-explored-run:visible").count() == 0
        assert phone.locator(".sd-seat:visible a").get_attribute("href") == "?", "why, and a way out"
        phone.evaluate(f"document.getElementById('{tab}-run')?.click()")
        phone.evaluate(f"{app(tab)}.job.press('run')")
        assert not phone.evaluate(f"{app(tab)}.job.state !== 'idle'"), "nothing runs"
    open_tab(phone, "explore")
    phone.locator(".sd-explored-questions button:visible").last.click()
    phone.wait_for_function("/explore=.*room=/.test(location.search)")


TIP = "#sd-tip:not([hidden])"


def test_the_lessons_can_be_read_and_printed(browser: Any, address: str) -> None:
    with visit(browser, f"{address}?lesson=%3Cscript%3E&step=1", size="phone", dark=True, until=THERE) as page:
        for lesson in WORKSHOP:
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert lesson.predict in words and lesson.explain[0] not in words
            page.click(f"#lesson-{lesson.name} .sd-lesson-skip")
            words = page.inner_text(f"#lesson-{lesson.name}")
            assert lesson.explain[0] in words and raised(lesson.check) in words and "You said" not in words
        assert "0 of 8" in page.inner_text(".sd-workshop-progress")
        assert not overflows(page)
        math = page.locator("#lesson-closing math").first
        assert math.bounding_box()["height"] > 20, "drawn as a formula, not as a line of letters"
        symbols(page)
        assert not serious(page, ".sd-workshop")
        page.click(".sd-workshop-present")
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
        for words in ("Start", "Key:", "Skip", "Reveal", "Present", "End here", "Open trace", "0 of 8"):
            assert words not in seen, words


def symbols(page: Any) -> None:
    """Point at symbols of an explanation with the mouse, the Tab key and a finger."""
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
    marked = "all => all.map((one) => [...one.querySelectorAll('abbr')].map((own) => own.textContent))"
    paragraphs = page.eval_on_selector_all(".sd-lesson p", marked)
    assert any(paragraphs) and all(len(set(one)) == len(one) for one in paragraphs), "a paragraph marks it once"
    assert page.locator("#lesson-gamma [data-symbol='γ'][tabindex]").count() == 1, "the Tab key stops once"
    assert page.locator("#lesson-round .sd-lesson-predict [data-symbol]").count() == 0, "no symbols"
