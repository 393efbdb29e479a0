"""An export in a real browser: it opens from disk, with no server and no network."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from browsing import CARD, MARKS, POINTED, app, overflows, playhead, ready, serious, stand, visit

from app import export
from app.content.recordings import RECORDINGS
from app.content.workshop import WORKSHOP
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.schema.trace import read_trace

pytestmark = MARKS
OWN = RECORDINGS / next(one.watch.trace for one in WORKSHOP if one.watch.trace)
VIEW = f"{app('live')}.shown.stage.scene({app('live')}.shown.playhead, {app('live')}.shown.selected).view"
DRAWN = "[...document.querySelectorAll('#live .sd-plot')].some((place) => place.querySelector('.main-svg'))"
NOTHING_PERMITTED = """
window.specdiffNew = true;
const denied = () => { throw new DOMException('denied', 'SecurityError'); };
for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get: denied });
Object.defineProperty(navigator, 'clipboard', { value: undefined });
history.replaceState = denied;
"""
"""As some browsers treat a page from disk."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of an export as a folder, and as one file."""
    folder = tmp_path_factory.mktemp("export")
    chosen = export.choose()
    names = {"folder": folder / "folder", "file": folder / "one.html"}
    return {name: export.write(out, chosen)[0].as_uri() for name, out in names.items()}


def choose_file(page: Any, name: str, content: bytes) -> None:
    """Press “Open trace” and choose a file."""
    with page.expect_file_chooser() as chooser:
        page.click("#sd-open")
    chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})


def test_a_recording_plays_and_its_charts_are_drawn(browser: Any, exported: dict[str, str]) -> None:
    with visit(browser, exported["file"], motion=True) as page:
        page.wait_for_function(f"{app('live')}.shown.playhead.t > 0")
        page.evaluate(f"{app('live')}.shown.playhead.slow = 1")
        page.wait_for_function(f"!{app('live')}.shown.playhead.playing")
        found = playhead(page)
        assert found["t"] == found["duration"] > 0
        page.locator("#live .sd-plot").first.scroll_into_view_if_needed()
        page.wait_for_function(DRAWN)
        assert page.locator("#live .sd-pick.sd-more option").count() > 15
        with page.expect_download() as download:
            page.click("#live .sd-bar-save")
        saved = Path(download.value.path()).read_bytes()
        assert saved.startswith(b"\x1f\x8b")
        choose_file(page, "mine.jsonl.gz", saved)
        page.wait_for_function(f"{app('live')}.shown.source === 'file' && {app('live')}.shown.playhead.t > 0")


def test_lessons_point_at_the_real_thing(browser: Any, exported: dict[str, str]) -> None:
    """In Explore, Live and Compare; tests/test_export.py has all that lessons show."""
    lessons = [one for one in WORKSHOP if one.name in {"round", "accept", "guesses"}]
    with visit(
        browser, exported["file"] + "?lesson=accept", until="document.querySelector('#learn .sd-lesson-start')"
    ) as page:
        for lesson in lessons:
            page.click(f"#lesson-{lesson.name} .sd-lesson-start")
            page.click(f"{CARD} .sd-guide-option")
            page.click(f"{CARD} .sd-guide-next")
            page.wait_for_function(POINTED)
            asked = EXPLORATIONS[lesson.watch.explore].tab if lesson.watch.explore else ""
            assert page.is_visible(f"#{asked or 'live'}")
            if asked:
                assert page.evaluate(f"{app(asked)}.question.answer.name") == lesson.watch.explore
            for _ in range(2):
                page.click(f"{CARD} .sd-guide-next")
            page.click(f"{CARD} .sd-guide-option")
            page.click(f"{CARD} .sd-guide-buttons :text-matches('^Done$')")
        assert "3 of 8" in page.inner_text(".sd-workshop-progress")
        page.click(".sd-workshop-present")
        page.keyboard.press("l")
        page.wait_for_selector("dialog[open]")
        assert not page.is_visible(".sd-presenter-code"), "a file has no address for phones"


def test_every_tab_can_be_read_and_none_offers_to_run(browser: Any, exported: dict[str, str]) -> None:
    """On a phone; the other tests have a desktop."""
    with visit(browser, exported["folder"], size="phone", dark=True) as page:
        assert page.evaluate("document.body.classList.contains('dark')")
        assert page.is_visible(".sd-export-note"), "it says how to start the lab"
        stand(page, "Verified")
        page.locator("#live .sd-plot").first.scroll_into_view_if_needed()
        page.wait_for_function(DRAWN)
        page.focus("#tab-live")
        for tab in export.EXPORTED:
            assert page.get_attribute(f"#tab-{tab}", "aria-selected") == "true"
            page.wait_for_selector(f"#{tab} :is(.sd-lane, .sd-explored-question, .sd-board-bar, .sd-workshop)")
            if tab == "race":
                page.wait_for_function(ready("race"))
                stand(page, "Verified", tab="race")
            for words in page.locator("button:visible, a:visible").all_inner_texts():
                assert words.split(" ")[0] not in {"Run", "Use", "Measure", "Stop"}
            assert not overflows(page)
            assert tab in {"race", "explore"} or not serious(page), "the lab's tests look at these two"
            page.keyboard.press("ArrowRight")
        page.click("#sd-theme")
        assert not page.evaluate("document.body.classList.contains('dark')")


def test_a_trace_is_played_and_another_file_refused(browser: Any, exported: dict[str, str]) -> None:
    shipped = (RECORDINGS / "race" / "math.jsonl.gz").read_bytes()
    address, there = exported["file"] + "?tab=compare", "document.querySelector('#compare .sd-board-bar')"
    with visit(browser, address, until=there, logged="not drawn") as page:
        choose_file(page, "race.jsonl", gzip.decompress(shipped))
        page.wait_for_function(f"{ready('race')} && {app('race')}.shown.source === 'file'")
        title = read_trace(shipped).title
        assert page.is_visible("#race .sd-lane") and title in page.inner_text("#race .sd-source")
        page.click("#sd-share")
        page.wait_for_function("document.getElementById('sd-share').textContent !== 'Share link'")
        assert "trace=" not in page.url, "nothing that a link could open"
        lines = gzip.decompress(shipped).splitlines()
        for content in (shipped[:5000], b"", b"hello", lines[0]):
            page.evaluate(f"{app('race')}.job.card.hide()")
            choose_file(page, "other.gz", content)
            page.wait_for_selector("#race .sd-card:visible :text('This file is not a readable trace')")
            assert page.evaluate(f"{app('race')}.shown.trace.title") == title, "what was there stays"
        for name in (b'"tests":', b'"span":'):
            page.evaluate(f"{app('race')}.job.card.hide()")
            choose_file(page, "other.jsonl", b"\n".join(one.replace(name, b'"other":') for one in lines))
            page.wait_for_selector("#race .sd-card:visible :text('This trace cannot be shown')")
        page.evaluate(f"{app('race')}.showRecording({app('race')}.options.recordings[0])")
        page.wait_for_function(f"{ready('race')} && {app('race')}.shown.source === 'recording'")
        assert page.locator("#race .sd-card").is_hidden() and page.is_visible("#race .sd-lane")


def test_explore_opens_the_races_that_are_here_and_a_link_its_answer(browser: Any, exported: dict[str, str]) -> None:
    until = f"{app('explore')}?.question.answer"
    with visit(browser, exported["file"] + "?explore=window-map", until=until) as page:
        races = "question.answer.rows.find((row) => row.race).race"
        page.evaluate(f"{app('explore')}.races.open({app('explore')}.{races})")
        page.wait_for_function(f"{ready('race')} && {app('race')}.shown.trace.lanes.drafted")
        assert page.is_visible("#race .sd-lane")
        page.click("#tab-explore")
        hint = page.locator("#explore .sd-chart header .sd-sub").first
        offers = hint.inner_text()
        stem = page.evaluate(f"Object.keys({app('explore')}.options.recorded['window-map'])[1]")
        page.evaluate(f"{app('explore')}.question.showAnswer('recorded', {stem!r})")
        page.wait_for_function(
            f"{app('explore')}.question.answer === {app('explore')}.question.answers.recorded[{stem!r}]"
        )
        assert hint.inner_text() != offers, "a cell without races offers none"
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('answer=')")
        link = page.url
        page.evaluate(f"{app('explore')}.races.open({app('explore')}.{races})")
        page.wait_for_selector("#explore :text('no recording of this race')")
    with visit(browser, link, until=until) as page:
        shown = page.evaluate(f"{app('explore')}.question.stem")
        assert shown == stem, "the link opens the answer that was shown"
        page.get_by_role("button", name="Two runs side by side").click()
        page.locator(".sd-track-column button").first.click()
        page.wait_for_selector("#explore .sd-inspector .sd-inspector-row")
        assert page.locator(".sd-take").count() and not page.locator(".sd-take:visible").count(), "no other token"
        assert not page.locator(".sd-tracks-another p:visible").count()
        assert page.evaluate(f"{app('explore')}.job.measureBranch({{}})") is False


def test_a_link_opens_its_moment_also_where_nothing_is_permitted(browser: Any, exported: dict[str, str]) -> None:
    address = exported["file"]
    with visit(browser, address, before=NOTHING_PERMITTED) as page:
        page.click("#sd-theme")
        page.evaluate(f"{app('live')}.playback.goToRound(5)")
        page.click("#sd-share")
        shown = page.input_value("dialog[open] .sd-link-address")
        assert page.url == address and shown.startswith(f"{address}?tab=live&trace=") and "round=6" in shown
        assert not serious(page)
    with visit(browser, shown) as page:
        page.wait_for_function(f"{VIEW}?.round === 5")
        page.evaluate(f"{app('live')}.playback.goToRound(3)")
        page.click("#live .sd-source button:has-text('Link to this moment')")
        page.wait_for_function("location.search.includes('round=4')")


def test_a_trace_of_any_name_and_a_lesson(browser: Any, tmp_path: Path) -> None:
    """Race says that it has no recording."""
    own = tmp_path / "run.json"
    own.write_bytes(OWN.read_bytes())
    page, _ = export.write(tmp_path / "out", export.choose([own], ["accept"]))
    with visit(browser, page.as_uri()) as shown:
        assert shown.evaluate(f"{app('live')}.shown.playhead.duration") > 0
        shown.click("#tab-race")
        assert export.EMPTY["race"] in shown.inner_text("#race")
        shown.click("#tab-learn")
        assert "0 of 1 lesson" in shown.inner_text(".sd-workshop-progress")
