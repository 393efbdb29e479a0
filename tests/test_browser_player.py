"""The player and the controls in a real browser, on one page that stays open from test to test.

Skipped where a Chromium is missing. Times are generous: the machine may be busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import (
    MARKS,
    app,
    lanes,
    number,
    open_drawer,
    open_tab,
    overflows,
    playhead,
    ready,
    resize,
    run,
    serious,
    stand,
    start,
    visit,
)

from app.content.recordings import RECORDINGS

pytestmark = MARKS
LIVE, RACE = app("live"), app("race")


@pytest.fixture(scope="module")
def loaded(browser: Any, address: str) -> Iterator[Any]:
    """A page for all tests that need nothing but a recording and the controls of a run."""
    with visit(browser, address) as page:
        yield page


OPEN = f"document.activeElement.blur(); {LIVE}.showRecording({LIVE}.options.recordings[0])"


@pytest.fixture
def page(loaded: Any) -> Any:
    """That page with its opening recording. The controls are as the test before left them."""
    resize(loaded, "desktop")
    loaded.emulate_media(reduced_motion="reduce")
    open_tab(loaded, "live")
    loaded.evaluate(OPEN)
    loaded.wait_for_function(ready("live"))
    return loaded


def opened(page: Any, name: str) -> None:
    """Open one of the recordings that ship, as a visitor's file, and pause."""
    page.set_input_files("input[type=file]", str(RECORDINGS / f"{name}.jsonl.gz"))
    page.wait_for_selector("#live-stage .sd-source-chip[data-kind=file]")
    page.wait_for_function(ready("live"))


def test_on_a_phone_the_controls_follow_the_number(page: Any) -> None:
    resize(page, "phone")
    parts = (
        "#live-stage .sd-stage-tiles",
        "#live-stage [data-area=hero]",
        "#live-controls .sd-controls-line",
        "#live-player [data-area=lanes]",
    )
    tops = [page.locator(part).bounding_box()["y"] for part in (*parts, "#live-player [data-area=window]")]
    assert tops == sorted(tops)
    for which in range(3):
        stand(page, "Committed", which)
        cell = page.locator("#live-player .sd-grid-tests .sd-grid-outcome").bounding_box()
        assert cell["x"] >= 0 and cell["x"] + cell["width"] <= 390
    assert not overflows(page)


def test_on_a_phone_a_race_says_where_it_comes_from_before_its_lanes(page: Any) -> None:
    resize(page, "phone")
    open_tab(page, "race")
    page.wait_for_function(ready("race"))
    tops = [page.locator(f"#race-player {part}").bounding_box()["y"] for part in (".sd-source", ".sd-lanes")]
    assert tops == sorted(tops)


@pytest.mark.parametrize(("tab", "part"), [("live", "#live-stage .sd-stage"), ("race", "#race-player .sd-lanes")])
def test_on_a_phone_a_run_scrolls_to_what_it_fills(page: Any, tab: str, part: str) -> None:
    resize(page, "phone")
    open_tab(page, tab)
    run(page, tab, "Seen on a phone")
    assert abs(page.locator(part).bounding_box()["y"]) < 100


def test_the_window_is_never_blank_and_shows_every_step(page: Any) -> None:
    """From the first round on there is always one: between two rounds, in a round without a draft,
    and at the end. What stands below it never moves."""
    stops = page.evaluate(f"{LIVE}.shown.playhead.stops.filter((stop) => stop.lane === 'drafted').length")
    seen = page.evaluate(f"""() => {{
        const app = {LIVE}, empty = [], below = new Set();
        const first = app.shown.playhead.stops.findIndex((stop) => stop.lane === 'drafted');
        for (let i = first; i < app.shown.playhead.stops.length; i += 1) {{
            app.shown.playhead.goToStop(i); app.draw();
            if (!document.querySelector('#live-player .sd-steps .sd-grid-row')) empty.push(i);
            below.add(document.querySelector('#live-player [data-area=tokens]').getBoundingClientRect().top);
        }}
        return [empty, below.size];
    }}""")
    assert stops > 50 and seen == [[], 1]
    stand(page, "RoundStarted", 2)
    assert page.locator("#live-player .sd-steps .sd-cell-mask").count() == 32, "γ 8, T 4"
    stand(page, "DenoiseStep", 6)
    assert page.locator("#live-player .sd-cell-fresh:visible").count() >= 2
    assert "confidence " in page.locator("#live-player .sd-steps .sd-cell-fresh").first.get_attribute("title")
    stand(page, "Committed", 2)
    assert page.text_content("#live-player .sd-window-sentence").startswith("Round 3: ")
    assert page.locator("#live-player .sd-window-phase.sd-window-on").text_content().startswith("4 Commit")


def test_playback(page: Any) -> None:
    """Of a round all new tokens are highlighted and no other, and they stay where they stand."""
    placed = "all => all.map((one) => JSON.stringify(one.getBoundingClientRect()))"
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate(OPEN)
    page.wait_for_function(f"{LIVE}.shown.playhead.t > 0")
    page.locator("body").press(" ")
    assert not playhead(page)["playing"]
    calls: list[str] = []

    def called(request: Any) -> None:
        calls.append(request.url)

    page.on("request", called)
    page.evaluate(f"{LIVE}.playback.act(() => {LIVE}.shown.playhead.goToStop(2))")
    for key, stop in (("ArrowRight", 3), ("Shift+ArrowRight", 13), ("ArrowLeft", 12)):
        page.locator("body").press(key)
        assert playhead(page)["stop"] == stop
    assert page.locator("#live-player .sd-rounds-bar").count() == page.evaluate(
        f"{LIVE}.shown.lanes.drafted.rounds.length"
    )
    page.locator("#live-player .sd-rounds-bar").nth(3).click()
    page.wait_for_selector("#live-player .sd-window .sd-sub:has-text('round 4')")
    assert page.locator("#live-player .sd-rounds-bar").nth(3).get_attribute("aria-current") == "true"
    assert page.text_content("#live-player .sd-voice").startswith("Round 4: ")
    page.locator("#live-stage .sd-bar-scrub").fill("300")
    state = playhead(page)
    assert abs(state["t"] / state["duration"] - 0.3) < 0.01
    page.wait_for_function(ready("live"))
    slow, fast = lanes(page, "live", "clock")
    assert slow == fast
    so_far = page.text_content("#live-stage .sd-hero-speed")
    page.locator("#live-stage .sd-bar-scrub").fill("1000")
    page.wait_for_function(ready("live"))
    assert page.text_content("#live-stage .sd-hero-speed") != so_far
    page.select_option("#live-stage .sd-bar .sd-pick", "100")
    assert playhead(page)["slow"] == 100
    page.click("#live-stage .sd-bar-play")
    page.wait_for_function(f"{LIVE}.shown.playhead.playing")
    page.click("#live-stage .sd-bar-prev")
    stood = playhead(page)["stop"]
    page.keyboard.press(" ")  # not the button again that was clicked
    page.wait_for_function(f"{LIVE}.shown.playhead.playing")
    page.keyboard.press(" ")
    page.locator("#live-stage .sd-bar-next").focus()
    page.keyboard.press("Enter")  # who came with the keyboard stays where they are
    assert playhead(page)["stop"] > stood and page.evaluate("document.activeElement.matches('.sd-bar-next')")
    page.remove_listener("request", called)
    asked = [url for url in calls if "gradio_api/" in url and "file=" not in url]
    assert not asked, "the player works alone"
    stand(page, "Verified", 1)
    stand(page, "Committed", 1)
    fresh = "#live-player .sd-lane-text.sd-lane-selected .sd-text-now"
    found = page.eval_on_selector_all(fresh, placed)
    events = page.evaluate(f"{LIVE}.shown.trace.lanes.drafted")
    assert len(found) == len([one for one in events if one["kind"] == "Committed"][1]["ids"])
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.eval_on_selector_all(fresh, placed) == found


def test_focus_is_visible_on_every_control(page: Any) -> None:
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


def test_where_threads_waited_passes_count_and_one_thread_is_offered(page: Any) -> None:
    player = page.locator("#live-stage, #live-player")
    assert not player.locator(".sd-busy-machine").is_visible()
    run(page, "live", "A crowded run")
    assert "0.90" in player.locator(".sd-busy-machine").inner_text()
    passes, base = (
        int(re.search(r"\d+", player.locator(f".sd-hero-{part}").inner_text())[0]) for part in ("speed", "words")
    )
    assert base == 96 and 1 < passes < 96
    page.click("#live-stage .sd-source button.sd-link")
    assert "vanilla 0.90" in page.inner_text("dialog[open]")
    page.keyboard.press("Escape")
    page.click("#live-stage .sd-hero .sd-link")
    page.wait_for_function(f"{ready('live')} && {LIVE}.shown.lanes.drafted.header.threads === 1")
    assert not player.locator(".sd-busy-machine").is_visible()
    assert "×" in player.locator(".sd-hero-speed").inner_text()
    run(page, "live", "A crowded run again")
    assert page.evaluate(f"{LIVE}.shown.lanes.drafted.header.threads") == 2, "for that one run only"


def test_cards(page: Any) -> None:
    cases = [
        ("", "recording"),
        ("x" * 100_000, "recording"),
        ("out of memory", "failed"),
        ("something unexpected", "failed"),
    ]
    hints = set()
    for prompt, stage in cases:
        start(page, "live", prompt)
        page.wait_for_selector("#live-player .sd-card:not([hidden])")
        words = page.text_content("#live-player .sd-card")
        assert "Traceback" not in words and "secret" not in words
        hints.add(page.text_content("#live-player .sd-card .sd-card-hint"))
        assert page.locator("#live-prompt.sd-invalid").count() == (stage == "recording")
        assert page.evaluate("document.querySelector('#live-prompt').value.length") == len(prompt)
        assert page.get_attribute("#live-stage .sd-source-chip", "data-kind") == stage
        page.click("#live-player .sd-card button")
        assert page.locator("#live-player .sd-card").is_hidden()
    assert len(hints) == len(cases), "each says what helps here"


def test_files(page: Any, tmp_path: Path, folder: Path) -> None:
    broken, other, good = (tmp_path / f"{name}.jsonl.gz" for name in ("cut", "shorter", "good"))
    whole = (folder / "traces" / "dialogue-draft-tree-ddtree.jsonl.gz").read_bytes()
    broken.write_bytes(whole[:500])
    other.write_bytes(whole[:400])
    good.write_bytes(whole)
    card = "#live-player .sd-card"
    page.set_input_files("input[type=file]", str(broken))
    page.wait_for_selector(f"{card}:visible")
    assert page.get_attribute("#live-stage .sd-source-chip", "data-kind") == "recording"
    open_tab(page, "learn")
    page.set_input_files("input[type=file]", str(other))
    page.wait_for_selector(f"{card}:visible")
    open_tab(page, "learn")
    page.set_input_files("input[type=file]", str(good))
    page.wait_for_selector("#live-stage .sd-source-chip[data-kind=file]:visible")
    assert page.locator(card).is_hidden()


def test_of_many_branches_eight_are_drawn_first(page: Any) -> None:
    """Then all of them, in a field that scrolls."""
    resize(page, "phone")
    opened(page, "dialogue-markov-head-draft-tree")
    page.evaluate(
        f"{LIVE}.playback.goToRound({LIVE}.shown.lanes.drafted.rounds.findIndex(({{ tree }}) => tree.count > 8))"
    )
    page.wait_for_function(ready("live"))
    lines, button = page.locator("#live-player .sd-steps .sd-grid-row"), page.locator("#live-player .sd-window-more")
    assert lines.count() == 8 and button.get_attribute("aria-expanded") == "false"
    assert "all 9 branches" in button.text_content()
    walked = page.locator("#live-player .sd-steps .sd-cell-fresh").count()
    assert page.locator("#live-player .sd-steps .sd-cell-fresh:has-text('✓')").count() >= 1
    button.click()
    assert lines.count() == 9 and button.get_attribute("aria-expanded") == "true"
    assert page.locator("#live-player .sd-steps .sd-cell-fresh").count() == walked, "the walk was drawn before"
    assert not overflows(page)
    button.click()
    assert lines.count() == 8


def test_a_broken_lane_says_why(page: Any) -> None:
    open_tab(page, "race")
    open_drawer(page, "race")
    number(page, "race", "max_new_tokens", 96)
    run(page, "race", "A race with a broken lane")
    failed = page.locator("#race-player .sd-lane[data-state=failed]")
    assert failed.count() == 1 and "model.safetensors is missing. Restore the folder." in failed.text_content()
    assert sorted(lanes(page, "race", "place")) == list("11335✕")
    failed.click()
    page.wait_for_function(
        "document.querySelector('#race-player .sd-window-sentence').textContent.includes('is missing')"
    )
    chosen = page.locator("#race-methods label:has(input:checked)").all_inner_texts()
    for words in chosen:
        page.get_by_label(words, exact=True).uncheck()
    page.click("#race-run")
    page.wait_for_selector("#race-player .sd-card:visible")
    assert "sd-invalid" in page.locator("#race-methods").get_attribute("class")
    assert page.locator("#race-player .sd-lane").count() == 6, "the race before stays"
    for words in chosen:
        page.get_by_label(words, exact=True).check()


def test_one_player_at_a_time(page: Any) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate(OPEN)
    page.wait_for_function(f"{LIVE}.shown.playhead.playing && {LIVE}.shown.playhead.t > 0")
    open_tab(page, "race")
    page.wait_for_function(f"!{LIVE}.frames.awake && {RACE}.frames.awake")
    stood, stop = page.evaluate(f"[{LIVE}.shown.playhead.t, {LIVE}.shown.playhead.stop]")
    page.wait_for_function(f"{RACE}.shown.trace")
    page.evaluate(f"document.activeElement.blur(); {RACE}.playback.act(() => {RACE}.shown.playhead.goToStop(1))")
    page.locator("body").press("ArrowRight")
    assert page.evaluate(f"{RACE}.shown.playhead.stop") == 2
    assert page.evaluate(f"[{LIVE}.shown.playhead.t, {LIVE}.shown.playhead.stop]") == [stood, stop]
    open_tab(page, "live")
    page.wait_for_function(f"!{RACE}.frames.awake && {LIVE}.frames.awake")
    page.wait_for_function(f"(stood) => {LIVE}.shown.playhead.t > stood", arg=stood)
    assert page.evaluate(f"{RACE}.shown.playhead.stop") == 2


def test_a_recorded_race_opens_from_elsewhere(page: Any, folder: Path) -> None:
    """Only the lanes that were asked for, in their order, with their labels; the last one is
    selected. Nothing was recorded of its passes, and its words come from the lane beside it. On a
    busy machine the controls' first values arrive while it is fetched, or when it is shown, and
    replace nothing. Behind a race that ends before anything is known of it, it comes back whole."""
    url = f"gradio_api/file={folder.as_posix()}/traces/bench/race.jsonl.gz"
    own = {"title": "Dialogue, greedy", "labels": {"block/9/1": {"label": "block γ 9"}}}
    detail = {"url": url, "lanes": ["vanilla", "block/9/1"], **own}
    tell = "(detail) => window.specdiff.openRace(detail)"
    page.evaluate(tell, detail)
    page.wait_for_function(f"{ready('race')} && {RACE}.shown.stage.names.join() === 'vanilla,block/9/1'")
    assert [words[1:] for words in lanes(page, "race", "name")] == ["Vanilla", "block γ 9"]
    assert page.get_attribute("#race-player .sd-source-chip", "data-kind") == "recording"
    assert "Dialogue, greedy" in page.text_content("#race-player .sd-source-words")
    page.evaluate(f"{RACE}.playback.goToRound(1)")
    page.wait_for_function(ready("race"))
    assert page.locator("#race-player .sd-steps .sd-grid-label:text-is('draft')").count() == 1
    words = page.locator("#race-player .sd-lane-text .sd-text").last.text_content()
    assert "Once upon a time" in words and "<" not in words
    page.evaluate(tell, {**detail, "lanes": ["block/9/1"]})
    page.wait_for_function(f"{RACE}.shown.stage.names.length === 1 && {ready('race')}")
    words = page.text_content("#race-player .sd-lane-text .sd-text")
    assert "Once upon a time" in words, "at the end the text as a whole"
    page.evaluate(f"{RACE}.playback.goToRound(1)")
    page.wait_for_function(ready("race"))
    assert page.locator("#race-player .sd-token-id").count() > 2, "before it, ids"
    page.evaluate(tell, {**detail, "lanes": ["gone"]})
    page.wait_for_selector("#race-player .sd-card:visible")
    assert page.locator("#race-player .sd-lane").count() == 1, "what was shown stays"

    first = f"{RACE}.state.formSettings = ''; {RACE}.form.settings.take({RACE}.options.recordings[0].settings)"
    page.evaluate(
        f"(url) => {{ {RACE}.staging.chosen = false; window.specdiff.openRace({{ url }}); {first}; }}",
        url,
    )
    page.wait_for_function(f"{ready('race')} && {RACE}.shown.stage.names.length === 3")
    requests = page.evaluate(
        f"() => {{ const {{ requests }} = {RACE}.job; {first}; return {RACE}.job.requests - requests; }}"
    )
    assert not requests, "nothing else is fetched"
    page.evaluate(  # of several recordings the last is shown, also if the first one arrives later
        "(url) => { const { fetch } = window; let asked = 0; window.fetch = async (...words) => {"
        " const late = !asked++ && new Promise((done) => { window.arrive = done; });"
        " const answer = await fetch(...words); await late; return answer; };"
        " for (const lane of ['block/9/1', 'masked/4/1'])"
        " window.specdiff.openRace({ url, lanes: ['vanilla', lane] }); }",
        url,
    )
    shown = f"{RACE}.shown.stage.names.join() === 'vanilla,masked/4/1'"
    page.wait_for_function(f"{ready('race')} && {shown}")
    page.evaluate("window.arrive()")
    page.evaluate("(url) => fetch(url).then((answer) => answer.arrayBuffer())", url)  # the late one was read
    assert page.evaluate(shown)

    page.evaluate(tell, {**detail, "lanes": ["vanilla", "masked/4/1", "block/9/1"]})
    page.wait_for_function(f"{ready('race')} && {RACE}.shown.stage.names.length === 3")
    before = page.text_content("#race-player .sd-hero-name")
    page.evaluate(
        f"async () => {{ const race = {RACE}.job;"
        " await race.receive({ run: 'x', phase: 'loading', message: 'Preparing',"
        " finished: false, lanes: ['vanilla', 'dflash'] });"
        f" window.between = {RACE}.shown.source;"
        " await race.receive({ run: 'x', phase: 'failed', finished: true, trace: null, size: 0,"
        " card: { title: 'No', message: 'It failed.', hint: '', field: '' } }); }"
    )
    page.wait_for_function(ready("race"))
    assert page.evaluate("window.between") != "run", "nothing of it is on the stage"
    assert lanes(page, "race", "name")[2].endswith("block γ 9")
    assert page.text_content("#race-player .sd-hero-name") == before
    assert page.locator("#race-player .sd-lane[aria-selected=true]").count() == 1
    assert page.evaluate(f"{RACE}.job.live") is None


def test_no_tab_overflows_between_phone_and_desktop(page: Any) -> None:
    for tab in ("live", "race", "compare", "learn", "api"):
        if tab != "live":
            open_tab(page, tab)
        if tab in ("compare", "learn"):  # of the others: a run's, a race's, and test_browser_explore.py
            page.click("#sd-share")
            page.wait_for_function(f"location.search.includes('tab={tab}')")
        for width in (1280, 1024, 800, 700):
            resize(page, f"{width}x768")
            page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")  # figures follow
            cut = page.evaluate("""() => [...document.querySelectorAll('.sd-panel, .sd-controls, .sd-board-table')]
                .filter((one) => one.offsetParent && one.getBoundingClientRect().right > window.innerWidth + 1
                    && !one.closest('.sd-scroll')).length""")
            assert not cut, (tab, width)


def test_a_position_is_pinned_by_click_and_by_key(page: Any) -> None:
    inspector = "#live-player .sd-inspector"
    resize(page, "1440x1600")
    stand(page, "Verified", 1)
    page.locator("#live-player .sd-steps .sd-cell").first.click()
    assert "position 1" in page.inner_text(f"{inspector} h3")
    assert page.locator(f"{inspector} .sd-inspector-row").count() > 2
    assert page.locator("#live-player .sd-test.sd-pinned").count() == 1
    assert not serious(page)
    cell = page.locator("#live-player .sd-grid-tests .sd-test").nth(1)
    cell.focus()
    page.keyboard.press("Enter")
    assert "position 2" in page.inner_text(f"{inspector} h3")
    stand(page, "Committed", 3)
    assert "position 2" in page.inner_text(f"{inspector} h3"), "it stays as it was pinned"
    page.locator(inspector).get_by_role("button", name="Close").click()
    assert page.locator(inspector).is_hidden()
    assert page.locator("#live-player .sd-test.sd-pinned").count() == 0
    texts = page.locator("#live-player .sd-lane-text")
    own = texts.nth(1).locator(".sd-token")
    own.nth(1).click()
    assert page.locator("#live-player .sd-token.sd-pinned").count() == 1
    first = page.inner_text(f"{inspector} h3")
    assert first.startswith("Round ")
    page.locator(inspector).get_by_role("button", name="The position after").click()
    assert page.inner_text(f"{inspector} h3") != first
    token = texts.nth(0).locator(".sd-token").first  # vanilla's: by key, and back
    token.evaluate("(token) => { token.tabIndex = 0; token.focus(); }")
    page.keyboard.press("Enter")
    assert "pass 1 of the target" in page.inner_text(f"{inspector} h3")
    assert page.evaluate("document.activeElement.classList.contains('sd-inspector')")
    page.keyboard.press("Escape")
    assert page.locator(inspector).is_hidden()
    assert token.evaluate("(token) => token === document.activeElement")


def test_a_slower_lane_says_why_and_shows_a_round(page: Any) -> None:
    why, say = "#live-stage .sd-hero-why", "#live-player .sd-window-sentence"
    assert page.locator(why).count() == 0, "the opening race is won"
    opened(page, "dialogue-sampling-exact-ratio-test")
    assert "slower" in page.inner_text("#live-stage .sd-hero-big").lower()
    named = re.search(r"See (round \d+)", page.inner_text(why))
    assert named, "a cost, and a round that shows it"
    page.click(f"{why} button")
    page.wait_for_function(ready("live"))
    assert page.locator(why).count() == 0, "the replay has not come so far"
    assert page.evaluate("document.activeElement.matches('.sd-window')")
    said = page.inner_text(say)
    drawn = re.search(r"u = ([\d.]+)", said)
    assert named[1] in said.lower() and drawn, "the round says why it accepts no more"
    page.locator("#live-player .sd-test-no").click()
    assert f"{drawn[1]}: rejected" in page.inner_text("#live-player .sd-inspector"), "and so does its position"


@pytest.mark.parametrize("size", ["desktop", pytest.param("phone", marks=pytest.mark.slow)])
def test_a_visitor_is_the_verifier(page: Any, size: str) -> None:
    """By key and by click: nothing is given away before an answer, then the numbers and the score
    are there and read out; Escape shows the round as it ended."""
    judge, voice = "#live-player .sd-verifier", "#live-player .sd-voice"
    shown = "#live-player :is(.sd-test-ok, .sd-test-no, .sd-test-fix, .sd-test-bonus, .sd-test-cut)"
    texts = "#live-player .sd-lane-text"
    resize(page, size)
    page.click("#live-stage [name=verify]")
    page.wait_for_selector(judge)
    assert page.evaluate("document.activeElement.matches('.sd-verifier')")
    assert "Verify" in page.inner_text("#live-player .sd-window-phase.sd-window-on"), "the visitor's own step"
    question, screen = page.locator(judge).bounding_box(), page.viewport_size["height"]
    assert question["y"] >= 0 and question["y"] + question["height"] <= screen, "it is in view"
    assert page.locator(shown).count() == 0 and page.locator(f"{judge} .sd-inspector-table").count() == 0
    vanilla, drafted = (page.locator(f"{texts} >> nth={n} >> .sd-token").count() for n in range(2))
    assert vanilla <= drafted, "vanilla's text gives nothing away"
    heights = "(bars) => bars.map((bar) => bar.style.height)"
    bars = page.eval_on_selector_all("#live-player .sd-rounds-bar b", heights)
    assert set(bars[page.evaluate(f"{LIVE}.playback.study.game.view.round") :]) == {"0%"}
    page.keyboard.press("a")
    page.wait_for_selector(f"{judge} :text-matches('of 1[^0-9]')")
    assert page.locator(shown).count() == 1 and page.locator(f"{judge} .sd-inspector-row").count() > 1
    assert re.search(r"\b1\b", page.inner_text(voice))
    assert not serious(page) and not overflows(page)
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Reject").click()
    page.wait_for_selector(f"{judge} :text-matches('of 2[^0-9]')")
    assert page.evaluate("document.activeElement.closest('.sd-verifier') !== null"), "it stays"
    page.keyboard.press("Escape")
    assert page.locator(judge).is_hidden() and page.locator(shown).count() > 1
    assert page.evaluate("document.activeElement.name") == "verify"
    page.click("#live-stage [name=verify]")
    page.wait_for_selector(judge)
    page.locator("#live-prompt").press("a")
    page.wait_for_function(ready("live"))
    assert page.evaluate("document.activeElement.matches('textarea')"), "whoever types elsewhere is left alone"
    assert page.locator(f"{judge} :text-matches('of 1[^0-9]')").count() == 0
    page.locator("#live-stage .sd-bar-next").click()
    page.wait_for_selector(judge, state="hidden")  # moving the playhead ends it
