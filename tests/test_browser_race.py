"""The Race tab in a real browser: a race of four, a lane that fails, recordings from elsewhere, many branches."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import FakeTarget, good_drafter

from specdiff_core.decoding.clock import FakeClock
from specdiff_core.decoding.loop import speculate
from specdiff_core.schema.events import PiecesSeen, RunStarted
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace
from tests.app_fakes import FakeDecoder
from tests.test_browser import address, browser, folder, pytestmark, visit  # noqa: F401 - fixtures, and when to skip

RACED = "window.specdiffRace.trace && !window.specdiffRace.live && !window.specdiffRace.dirty"
ORDER = ["Vanilla", "Small autoregressive drafter", "SpecDiff", "Block diffusion (DFlash)"]


def open_race(page: Any) -> None:
    page.click("#tab-race-button")
    page.wait_for_function("window.specdiffRace")


def run_race(page: Any, prompt: str) -> None:
    page.fill("#race-prompt textarea", prompt)
    page.click("#race-run")
    page.wait_for_function(
        "(prompt) => window.specdiffRace.trace && !window.specdiffRace.live"
        " && window.specdiffRace.lanes.vanilla.header.prompt === prompt",
        arg=prompt,
    )
    page.wait_for_function(RACED)


def rows(page: Any, part: str) -> list[str]:
    return page.locator(f"#race-player .race-row .race-{part}").all_text_contents()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_a_race_of_four(browser: Any, address: str, size: tuple[int, int], dark: bool, tmp_path: Path) -> None:  # noqa: F811
    """Places, numbers, a window for whichever lane is selected; accessible, and never wider than the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing").Axe()
    with visit(browser, address, width=size[0], height=size[1], dark=dark) as page:

        def serious() -> list[tuple[str, list[str]]]:
            return [
                (item["id"], [node["html"][:160] for node in item["nodes"]])
                for item in axe.run(page).response["violations"]
                if item["impact"] in {"serious", "critical"}
            ]

        open_race(page)
        page.wait_for_selector(".race-empty:visible")
        assert not serious(), "before a race"
        run_race(page, "A race of four")
        names = [words.lstrip("┆●■▲") for words in rows(page, "label")]
        assert names == ORDER
        assert sorted(rows(page, "place")) == ["1", "2", "3", "4"] and rows(page, "place")[0] == "4"
        assert all("96 tokens" in words for words in rows(page, "tokens"))
        speed = rows(page, "speed")
        assert speed[0] == "1.00×" and all(float(words[:-1]) > 1 for words in speed[1:])
        assert "Your run" in page.text_content("#race-player .sd-chip")
        assert not serious(), "after a race"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.locator("#race-player .race-row").nth(1).click()
        assert page.locator("#race-player [role=tab][aria-selected=true]").count() == 1
        page.wait_for_function("document.querySelector('.race-chosen').textContent === 'Small autoregressive drafter'")
        page.locator("#race-player .sd-rd").nth(2).click()
        page.wait_for_function(RACED)
        page.wait_for_selector("#race-player .sd-window .sd-sub:has-text('round 3 of')")
        assert page.locator("#race-player .sd-tests .sd-v").count() == 5, "γ 4, and the target's own token"
        page.locator("#race-player .race-row[aria-selected=true]").focus()
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
        page.wait_for_selector("#race-player .sd-say:has-text('drafts nothing')")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("window.specdiffRace.player.stop") >= 0, "arrows step, also from a row"
        page.click("#race-player .race-words .sd-link")
        assert page.locator("#race-player .race-card:visible").count() == 4
        assert not serious(), "all texts"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
        own = [name for name in ids if name.startswith(("sd-", "set-", "race-", "tab-"))]
        assert len(own) == len(set(own)), "no id twice, Live's included"
        page.screenshot(path=tmp_path / "race.png")


def test_the_chart_and_the_download(browser: Any, address: str, tmp_path: Path) -> None:  # noqa: F811
    """A line and a label for every lane; the file that is offered has them all."""
    with visit(browser, address) as page:
        open_race(page)
        run_race(page, "A race to keep")
        page.wait_for_selector("#race-player .sd-rail .main-svg")
        page.wait_for_function("document.querySelectorAll('#race-player .sd-rail .annotation-text').length === 4")
        with page.expect_download() as offered:
            page.click("#race-player .sd-save")
        offered.value.save_as(tmp_path / "race.jsonl.gz")
        names = ["vanilla", "autoregressive", "specdiff", "dflash"]
        assert list(read_trace(tmp_path / "race.jsonl.gz").lanes) == names
        page.click("#race-player .sd-source .sd-link")
        words = page.text_content("#race-player dialog[open]")
        assert "specdiff: " in words and "mdlm" in words and "one after the other" in words
        page.keyboard.press("Escape")
        page.click("#sd-tabs [role=tab]:has-text('Live')")
        page.set_input_files("input[type=file]", str(tmp_path / "race.jsonl.gz"))
        page.wait_for_selector("#race-player .sd-chip:has-text('Opened file')")
        assert page.locator("#race-player").is_visible(), "the tab of its player is opened"
        assert "Recording" in page.text_content("#sd-player .sd-chip"), "Live keeps its own"


def test_a_broken_lane_says_why(browser: Any, address: str) -> None:  # noqa: F811
    """The others race on; a choice that cannot race is a card beside its control."""
    with visit(browser, address) as page:
        open_race(page)
        run_race(page, "A race with a broken lane")
        failed = page.locator("#race-player .race-row[data-state=failed]")
        assert failed.count() == 1 and "model.safetensors is missing. Restore the folder." in failed.text_content()
        assert sorted(rows(page, "place")) == ["1", "2", "3", "✕"]
        failed.click()
        page.wait_for_function("document.querySelector('#race-player .sd-say').textContent.includes('is missing')")
        for words in ("Small autoregressive drafter", "SpecDiff", "Block diffusion (DFlash)"):
            page.locator("#race-methods label").get_by_text(words, exact=True).click()
        page.click("#race-run")
        page.wait_for_selector("#race-player .sd-card:not([hidden])")
        assert "2 to 6 methods" in page.text_content("#race-player .sd-card")
        assert "sd-invalid" in page.locator("#race-methods").get_attribute("class")
        assert page.locator("#race-player .race-row").count() == 4, "the race before stays"


def test_stop_in_the_middle(browser: Any, address: str) -> None:  # noqa: F811
    """The lanes that are done stay, and those that never began say so; while it runs the waiting ones are named."""
    with visit(browser, address) as page:
        open_race(page)
        page.fill("#race-prompt textarea", "A slow race that is stopped")
        page.locator("#race-max_new_tokens input[type=number]").fill("24")
        page.locator("#race-max_new_tokens input[type=number]").press("Tab")
        page.click("#race-run")
        page.wait_for_function("window.specdiffRace.live && window.specdiffRace.live.lane === 'autoregressive'")
        page.wait_for_selector("#race-player .race-row:has-text('waits for its turn')")
        assert page.locator("#race-player .sd-main").get_attribute("aria-busy") == "true"
        page.click("#race-stop")
        page.wait_for_selector("#race-player .sd-chip:has-text('Stopped run')")
        page.wait_for_function(RACED)
        told = rows(page, "tokens")
        assert told[0] == "24 tokens" and told[3] == "Stopped before its turn."
        assert rows(page, "place")[0] == "1"


def test_one_player_at_a_time(browser: Any, address: str) -> None:  # noqa: F811
    """The hidden one neither moves nor hears keys."""
    with visit(browser, address, motion=True) as page:
        page.wait_for_function("window.specdiff.player.playing && window.specdiff.player.t > 0")
        open_race(page)
        page.wait_for_function("window.specdiff.asleep && !window.specdiffRace.asleep")
        stood = page.evaluate("window.specdiff.player.t")
        run_race(page, "One at a time")
        page.evaluate("window.specdiffRace.act(() => window.specdiffRace.player.stand(1))")
        page.locator("body").press("ArrowRight")
        assert page.evaluate("window.specdiffRace.player.stop") == 2
        assert page.evaluate("[window.specdiff.player.t, window.specdiff.player.stop]") == [stood, -1]
        page.click("#sd-tabs [role=tab]:has-text('Live')")
        page.wait_for_function("window.specdiffRace.asleep && !window.specdiff.asleep")
        page.wait_for_function("(stood) => window.specdiff.player.t > stood", arg=stood)
        assert page.evaluate("window.specdiffRace.player.stop") == 2


@pytest.mark.parametrize("opened", [False, True], ids=["never opened", "opened before"])
def test_a_recorded_race_opens_from_elsewhere(browser: Any, address: str, folder: Path, opened: bool) -> None:  # noqa: F811
    """Only the lanes that were asked for, in their order, with their labels; the last one is selected. Nothing was
    recorded of its passes, and its words come from the lane beside it."""
    detail = {
        "url": f"gradio_api/file={folder.as_posix()}/bench/race.jsonl.gz",
        "lanes": ["vanilla", "block/9/1"],
        "title": "Dialogue, greedy",
        "labels": {"block/9/1": "block γ 9"},
    }
    tell = "(detail) => window.dispatchEvent(new CustomEvent('specdiff:open-race', { detail }))"
    with visit(browser, address) as page:
        if opened:
            open_race(page)
            page.click("#sd-tabs [role=tab]:has-text('Learn')")
        page.evaluate(tell, detail)
        page.wait_for_function("window.specdiffRace && window.specdiffRace.trace && !window.specdiffRace.dirty")
        assert [words.lstrip("┆●") for words in rows(page, "label")] == ["Vanilla", "block γ 9"]
        assert page.text_content("#race-player .race-chosen") == "block γ 9"
        assert "Recording" in page.text_content("#race-player .sd-chip")
        assert "Dialogue, greedy" in page.text_content("#race-player .sd-source-words")
        page.evaluate("window.specdiffRace.jump(1)")
        page.wait_for_function(RACED)
        assert page.locator("#race-player .sd-steps .sd-label:text-is('draft')").count() == 1
        words = page.text_content("#race-player .race-card:visible .sd-text")
        assert "Once upon a time" in words and "<" not in words
        page.evaluate(tell, {**detail, "lanes": ["block/9/1"]})
        page.wait_for_function("window.specdiffRace.names.length === 1 && !window.specdiffRace.dirty")
        words = page.text_content("#race-player .race-card:visible .sd-text")
        assert "Once upon a time" in words, "at the end the text as a whole"
        page.evaluate("window.specdiffRace.jump(1)")
        page.wait_for_function(RACED)
        assert page.locator("#race-player .sd-t-id").count() > 2, "before it, ids"
        page.evaluate(tell, {**detail, "lanes": ["gone"]})
        page.wait_for_selector("#race-player .sd-card:not([hidden])")
        assert page.locator("#race-player .race-row").count() == 1, "what was shown stays"


def test_many_branches_are_few_until_somebody_asks(browser: Any, address: str, tmp_path: Path) -> None:  # noqa: F811
    """A tree of 40 nodes and 16 drafts: eight lines, then all of them, in a field that scrolls."""
    base = DecodeConfig(gamma=6, max_new_tokens=24, seed=3)
    header = next(event for event in FakeDecoder().decode("Once", base) if isinstance(event, RunStarted))
    pieces = PiecesSeen(pieces={token: f" w{token}" for token in range(12)})
    lanes = {}
    for name, shape in {"tree": {"tree_nodes": 40}, "drafts": {"num_drafts": 16, "temperature": 1.0}}.items():
        config = dataclasses.replace(base, **shape)
        own = msgspec.structs.replace(header, config=config.to_dict())
        lanes[name] = [pieces, own, *speculate([3, 4, 5], config, FakeTarget(), good_drafter(), FakeClock())]
    write_trace(tmp_path / "many.jsonl", lanes)
    with visit(browser, address, width=390, height=844) as page:
        page.set_input_files("input[type=file]", str(tmp_path / "many.jsonl"))
        page.wait_for_selector("#race-player .sd-chip:has-text('Opened file')")
        page.wait_for_function(RACED)
        lines = page.locator("#race-player .sd-steps .sd-row")
        for name in ("tree", "drafts"):
            page.evaluate("(name) => window.specdiffRace.select(name)", name)
            page.evaluate("window.specdiffRace.jump(0)")
            page.wait_for_function(RACED)
            button = page.locator("#race-player .sd-lines")
            assert lines.count() == 8 and button.get_attribute("aria-expanded") == "false"
            count = page.evaluate("(name) => window.specdiffRace.lanes[name].rounds[0].tree.count", name)
            assert count > 8 and f"all {count} branches" in button.text_content()
            walked = page.locator("#race-player .sd-steps .sd-fresh").count()
            button.click()
            assert lines.count() == count and button.get_attribute("aria-expanded") == "true"
            assert page.locator("#race-player .sd-steps .sd-fresh").count() == walked, "the walk was drawn before"
            assert page.locator("#race-player .sd-gridwrap").bounding_box()["height"] <= 421
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            button.click()
            assert lines.count() == 8


TELL = "(detail) => window.dispatchEvent(new CustomEvent('specdiff:open-race', { detail }))"


def test_of_several_recordings_the_last_is_shown(browser: Any, address: str, folder: Path) -> None:  # noqa: F811
    """Whichever arrives first."""
    url = f"gradio_api/file={folder.as_posix()}/bench/race.jsonl.gz"
    with visit(browser, address) as page:
        open_race(page)
        page.evaluate(
            "(url) => { const { fetch } = window; let first = true; window.fetch = async (...words) => {"
            " const slow = first; first = false; const answer = await fetch(...words);"
            " if (slow) await new Promise((done) => setTimeout(() => { window.late = true; done(); }, 700));"
            " return answer; };"
            " for (const lane of ['block/9/1', 'mdlm/4/1']) window.dispatchEvent(new CustomEvent("
            "'specdiff:open-race', { detail: { url, lanes: ['vanilla', lane] } })); }",
            url,
        )
        page.wait_for_function("window.specdiffRace.trace && window.late")
        page.wait_for_timeout(300)
        assert page.evaluate("window.specdiffRace.names") == ["vanilla", "mdlm/4/1"]


def test_the_race_before_comes_back_whole(browser: Any, address: str, folder: Path) -> None:  # noqa: F811
    """A race that ends before anything is known of it: lanes, labels and the selection are those of the one shown."""
    url = f"gradio_api/file={folder.as_posix()}/bench/race.jsonl.gz"
    detail = {"url": url, "lanes": ["vanilla", "block/9/1"], "labels": {"block/9/1": "block γ 9"}}
    with visit(browser, address) as page:
        open_race(page)
        page.evaluate(TELL, detail)
        page.wait_for_function(RACED)
        page.evaluate(
            "async () => { const race = window.specdiffRace;"
            " await race.receive({ run: 'x', phase: 'loading', message: 'Preparing', lanes: ['vanilla', 'dflash'] });"
            " window.between = race.selected;"
            " await race.receive({ run: 'x', phase: 'failed',"
            " card: { title: 'No', message: 'It failed.', hint: '', field: '' } }); }"
        )
        page.wait_for_function(RACED)
        assert page.evaluate("window.between") == "dflash"
        assert [words.lstrip("┆●") for words in rows(page, "label")] == ["Vanilla", "block γ 9"]
        assert page.text_content("#race-player .race-chosen") == "block γ 9"
        assert page.locator("#race-panel").get_attribute("aria-label") == "block γ 9"
        assert page.locator("#race-player [role=tab][aria-selected=true]").count() == 1
        assert page.evaluate("window.specdiffRace.live") is None


def test_a_short_lane_wins_no_place(browser: Any, address: str, tmp_path: Path) -> None:  # noqa: F811
    """It says where its text ended; lanes may be called like what every object has."""
    lanes = {}
    for name, most in {"vanilla": 40, "constructor": 40, "__proto__": 12}.items():
        drafter = "none" if name == "vanilla" else "block"
        run = list(FakeDecoder().decode("Once", DecodeConfig(drafter=drafter, max_new_tokens=most)))
        lanes[name] = run if most == 40 else [*run[:-1], msgspec.structs.replace(run[-1], reason="end_of_text")]
    write_trace(tmp_path / "short.jsonl", lanes)
    with visit(browser, address) as page:
        page.set_input_files("input[type=file]", str(tmp_path / "short.jsonl"))
        page.wait_for_selector("#race-player .sd-chip:has-text('Opened file')")
        page.wait_for_function(RACED)
        assert rows(page, "place") == ["2", "1", "∎"]
        assert rows(page, "tokens")[2] == "end of text at 12"
        assert page.locator("#race-player .race-row").nth(2).get_attribute("data-state") == "short"


def test_a_broken_file_is_told_where_it_can_be_seen(browser: Any, address: str, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "broken.jsonl").write_text("no trace", encoding="utf-8")
    with visit(browser, address) as page:
        page.click("#sd-tabs [role=tab]:has-text('Learn')")
        page.wait_for_function("window.specdiff.asleep")
        page.set_input_files("input[type=file]", str(tmp_path / "broken.jsonl"))
        page.wait_for_selector("#sd-player .sd-card:visible")


def test_a_link_to_a_race_opens_it(browser: Any, address: str) -> None:  # noqa: F811
    """Share link on the Race tab: whoever opens it finds the same prompt, methods and settings, and races them."""
    with visit(browser, address) as page:
        open_race(page)
        page.fill("#race-prompt textarea", "A race to share, π & <b>")
        page.uncheck("#race-methods label:has-text('DFlash') input")
        page.check("#race-methods label:has-text('Prompt lookup') input")
        page.locator("#race-max_new_tokens input[type=number]").fill("32")
        page.locator("#race-max_new_tokens input[type=number]").press("Tab")
        page.click("#sd-share")
        page.wait_for_function("location.search.includes('methods=')")
        link = page.url
    with visit(browser, link) as page:
        page.wait_for_function("window.specdiffRace && !window.specdiffRace.asleep")
        page.wait_for_function("document.querySelector('#race-prompt textarea').value === 'A race to share, π & <b>'")
        ticked = page.locator("#race-methods label:has(input:checked)").all_inner_texts()
        assert len(ticked) == 3 and any("Prompt lookup" in words for words in ticked)
        assert page.input_value("#race-max_new_tokens input[type=number]") == "32"
        page.click("#race-run")
        page.wait_for_function("window.specdiffRace.trace && window.specdiffRace.trace.title === 'Live run'")
        lanes = page.evaluate("Object.keys(window.specdiffRace.lanes)")
        assert lanes[0] == "vanilla" and "prompt_lookup" in lanes and "dflash" not in lanes
    with visit(browser, f"{address}?methods=nothing&prompt=Kept") as page:
        page.wait_for_selector("#sd-player .sd-card:not([hidden])")
        open_race(page)
        assert page.input_value("#race-prompt textarea") == "Kept"
