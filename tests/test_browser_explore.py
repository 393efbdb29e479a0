"""The Explore tab in a real browser: forms, measurements, a reload, downloads, recordings."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import MARKS, app, clock_runs, open_drawer, open_tab, overflows, ready, resize, serious, visit

from specdiff_core.checkpoints.folders import short_path as folder
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.schema.pairs import EMBEDDED, PAIRS

pytestmark = MARKS
EXPLORE = app("explore")
THERE = "window.specdiff?.tabs.explore && document.querySelector('.sd-explored')?.offsetParent"
IDLE = f"{EXPLORE}.job.state === 'idle'"
LIVE = f"{EXPLORE}.question.answers.live"
QUEUED = ".sd-explored .sd-status span:text-matches('1[^0-9]+1')"  # number 1 of 1
GOING = ".sd-tracks-another [aria-live]:not(:empty)"
DRAWN = (
    "[...document.querySelectorAll('.sd-explored .sd-plot')].filter((place) => place.checkVisibility())"
    ".every((place) => place.querySelector('.main-svg'))"
)
"""All charts that are not folded."""


def coins(address: str, **choice: Any) -> str:
    return f"{address}?explore=losslessness&" + "&".join(f"{name}={value}" for name, value in choice.items())


def measure(page: Any) -> None:
    page.click(".sd-explored-run")
    page.wait_for_function(f"{LIVE}.losslessness && {IDLE}")


def saved(page: Any, kind: str) -> bytes:
    with page.expect_download() as download:
        page.locator(".sd-answer-saves").get_by_role("button", name=kind, exact=True).click()
    return download.value.path().read_bytes()


Show = Callable[..., Any]


@pytest.fixture(scope="module")
def loaded(browser: Any, address: str) -> Iterator[Any]:
    """A page that stays open from test to test."""
    with visit(browser, f"{address}?tab=explore", until=THERE) as page:
        yield page


@pytest.fixture
def show(loaded: Any) -> Show:
    """Show a question's recorded answer there, by default the first, with all its charts."""

    def shown(name: str, stem: str = "") -> Any:
        resize(loaded, "1440x2600")
        open_tab(loaded, "explore")
        stem = stem or loaded.evaluate(f"{EXPLORE}.question.answers.fileOf('{name}')")
        loaded.evaluate(f"(place) => {EXPLORE}.restore(place)", {"name": name, "source": "recorded", "stem": stem})
        loaded.wait_for_function(
            f"(stem) => {{ const {{ answer, answers }} = {EXPLORE}.question;"
            " return answer && answer === answers.recorded[stem]; }",
            arg=stem,
        )
        loaded.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        loaded.wait_for_function(DRAWN)
        return loaded

    return shown


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Others have both turns of the explorations."""

    def wait(there: bool) -> None:
        while (folder / "occupied").exists() != there:
            time.sleep(0.02)

    (folder / "occupy").touch()
    try:
        wait(True)
        yield
    finally:
        (folder / "occupy").unlink()
        wait(False)


def test_a_link_fills_the_form_and_the_answer_can_be_taken_away(browser: Any, address: str, folder: Path) -> None:
    """And a measurement waits its turn, leaves the queue, or follows another."""
    url = coins(address, runs=200, rules="ratio,naive", gamma=1, steps=1, length=1)
    with visit(browser, url, size="1440x2200", until=THERE) as page:
        assert page.input_value("#explore-losslessness-runs") == "200"
        boxes = page.eval_on_selector_all(
            "#explore-losslessness-rules input", "(all) => all.filter((box) => box.checked).map((box) => box.value)"
        )
        assert sorted(boxes) == ["naive", "ratio"]
        assert "explore=losslessness" in page.evaluate(f"{EXPLORE}.query()")
        measure(page)
        page.wait_for_function(DRAWN)
        found = page.evaluate(f"{LIVE}.losslessness")
        assert found["settings"]["runs"] == 200
        assert {row["rule"] for row in found["rows"]} == {"ratio", "naive"}
        assert "200" in page.text_content(".sd-explored-answer")
        assert page.get_attribute(".sd-explored .sd-source .sd-source-chip", "data-kind") == "measured"
        assert saved(page, "CSV").count(b"\n") == 1 + len(found["rows"])
        assert json.loads(saved(page, "JSON")) == found
        assert saved(page, "PNG").startswith(b"\x89PNG")
        assert b"<svg" in saved(page, "SVG")
        page.click("#sd-share")
        page.wait_for_function("document.getElementById('sd-share').textContent !== 'Share link'")
        assert "explore=losslessness" in page.evaluate("location.search")
        assert "runs=200" in page.evaluate("location.search")
        assert "prompt=" not in page.evaluate("location.search")
        page.evaluate(f"{EXPLORE}.races.open('of a server that broke off')")
        assert "race" in page.inner_text(".sd-explored .sd-status")
        page.fill("#explore-losslessness-runs", "1")
        page.click(".sd-explored-run")
        page.wait_for_selector(".sd-explored .sd-card:not([hidden])")
        assert page.locator("#explore-losslessness-runs.sd-invalid").is_visible()
        assert page.evaluate(f"{LIVE}.losslessness") == found, "nothing is lost"
        page.fill("#explore-losslessness-runs", "201")
        with occupied(folder):
            page.evaluate(f"{EXPLORE}.job.press('run'); {EXPLORE}.job.press('stop')")  # before the server has queued it
            page.wait_for_function(IDLE)
            requests: list[Any] = []
            page.route("**/queue/join*", lambda route: requests.append(route))
            page.evaluate(f"{EXPLORE}.job.patience = 100; {EXPLORE}.job.press('run'); {EXPLORE}.job.press('stop')")
            page.wait_for_function(f"{IDLE} && !{EXPLORE}.question.voice")  # it was given up
            for request in requests:
                request.continue_()
            page.unroute("**/queue/join*")
            page.wait_for_function(f"{IDLE} && {EXPLORE}.question.voice")  # and ended when it came
            page.click(".sd-explored-run")
            page.wait_for_selector(QUEUED)
        page.wait_for_function(f"{LIVE}.losslessness.settings.runs === 201 && {IDLE}")
        assert page.locator(".sd-explored .sd-card").is_hidden()
        again = f"""() => {{
            const {{ job }} = {EXPLORE};
            const {{ end }} = job;
            job.end = (...ending) => {{
                delete job.end;
                end.apply(job, ending);
                queueMicrotask(() => {EXPLORE}.lesson.run({{ watch: {{ query: {{ runs: 202 }} }} }}));
            }};
            job.press('run');
        }}"""
        page.evaluate(again)  # the moment another ends
        page.wait_for_function(f"{LIVE}.losslessness.settings.runs === 202 && {IDLE}")


def test_a_reload_finds_what_runs_a_plain_run_goes_first_and_stop_keeps_it(browser: Any, address: str) -> None:
    """Two visitors never mix."""
    with (
        visit(browser, coins(address, runs=100000), until=THERE, reloads=True) as one,
        visit(browser, address) as other,
    ):
        one.wait_for_selector(".sd-explored .js-plotly-plot")
        one.evaluate("window.requestAnimationFrame = () => 1")  # as if decoding left no time to draw
        one.click(".sd-explored-run")
        one.wait_for_function(f"{LIVE}.losslessness?.done > 0")
        assert one.locator(".sd-explored .js-plotly-plot").count() == 0, "no recorded chart under “Measured here”"
        before = one.evaluate(f"{LIVE}.losslessness.done")
        one.reload()
        one.wait_for_function(f"window.specdiff?.tabs.explore?.question.answers.live.losslessness?.done > {before}")
        assert one.input_value("#explore-losslessness-runs") == "100000"
        assert one.locator(".sd-explored-run").is_disabled()
        other.fill("#live-prompt", "A slow prompt of another visitor")
        other.click("#live-run")
        one.wait_for_function(
            "document.querySelector('.sd-explored .sd-status').textContent.includes('Waiting for a race')"
        )
        other.wait_for_function(clock_runs("live"))
        other.click("#live-controls .sd-stop")
        other.wait_for_selector("#live-stage .sd-source-chip[data-kind=stopped]")
        done = one.evaluate(f"{LIVE}.losslessness.done")
        one.wait_for_function(f"{LIVE}.losslessness.done > {done}")
        assert not other.evaluate("Boolean(window.specdiff.tabs.explore)")
        one.click(".sd-explored-stop")
        one.wait_for_function(IDLE)
        found = one.evaluate(f"{LIVE}.losslessness")
        assert done < found["done"] < found["total"]
        assert one.text_content(".sd-explored > .sd-voice"), "read out"
        assert one.evaluate("sessionStorage.getItem('specdiff-exploring-explore')") is None


def test_sliders_answer_the_keyboard_and_back_and_forward_walk_through_answers(show: Show) -> None:
    page = show("losslessness")
    assert not serious(page)
    slider = page.get_by_role("slider", name="p(cat)")
    result = ".sd-widget .sd-widget-result"
    assert "0.70" in page.inner_text(result)
    slider.focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    assert "0.70" not in page.inner_text(result)
    page.get_by_role("button", name="Draw 5,000 tokens").press("Enter")
    page.wait_for_function(f"document.querySelector('{result}').textContent.includes('Of 5,000 drafts')")
    areas = page.eval_on_selector_all(
        ".sd-scene-areas p:has([data-area=kept])",
        "all => all.map((one) => [...one.querySelectorAll('i')].map((i) => +i.style.getPropertyValue('--p')))",
    )
    assert sum(areas[0]) == pytest.approx(float(slider.input_value()), abs=0.01), "overlap and residual make p"
    assert sum(map(sum, areas)) == pytest.approx(1, abs=0.01)
    assert page.locator(".sd-scene-areas [data-area=drawn]").count() == 3

    first, other, _ = page.evaluate(f"Object.keys({EXPLORE}.options.recorded.losslessness)")
    page.get_by_label("Answer", exact=True).evaluate(  # and at once, before it is loaded, another question
        "(select) => { select.selectedIndex = 1; select.dispatchEvent(new Event('change', { bubbles: true }));"
        " document.querySelector('.sd-explored-questions button').click(); }"
    )
    page.wait_for_function(f"(stem) => {EXPLORE}.question.answers.recorded[stem]", arg=other)
    for walk, stem in ((page.go_back, other), (page.go_back, first), (page.go_forward, other)):
        walk()
        page.wait_for_function(f"(stem) => {EXPLORE}.question.stem === stem && {EXPLORE}.question.answer", arg=stem)
    page.wait_for_function("(stem) => location.search.includes(`answer=${stem}`)", arg=other)


def test_an_engine_is_named_only_after_a_guess(show: Show) -> None:
    page = show("losslessness", "losslessness.engines")
    facts = page.evaluate(f"{EXPLORE}.question.answer.facts")
    panel = page.get_by_label("Which engine is broken?", exact=True)
    assert panel.locator("output").inner_text() == "10"
    shown = page.locator(".sd-explored-answer").inner_text()
    assert not any(shows in shown for _, shows in facts["mistakes"].values())
    runs = panel.get_by_role("slider", name="Runs of each engine")
    runs.focus()
    page.keyboard.press("End")
    caught = panel.locator("tbody tr:has(td:nth-child(3):has-text('broken'))")
    assert caught.count() == sum(after is not None for after in facts["found"].values())
    hidden = facts["hidden"]["B"]
    panel.get_by_label("Mistake of engine B").select_option(hidden)
    page.wait_for_function("document.querySelector('.sd-widget-result').textContent.startsWith('1 of 1')")
    assert panel.locator("tbody tr").nth(1).inner_text().count("✓") == 1
    assert facts["mistakes"][hidden][1] in panel.locator("li").inner_text()
    assert not serious(page) and not overflows(page)


def test_the_sandbox_has_a_slider_for_each_position_and_presets(show: Show) -> None:
    page = show("what-it-takes")
    rows = page.evaluate(f"{EXPLORE}.question.answer.rows")
    row = next(row for row in rows if row["method"] == "dflash")
    page.get_by_label("Drafter to begin with").select_option(
        f"Block diffusion (DFlash), measured {row['speedup']:.2f}×"
    )
    bars = page.locator(".sd-sandbox-bars input")
    later = [float(bar.input_value()) for bar in bars.all()][1:]
    assert later == pytest.approx(row["alpha_at"][1:], abs=0.00501)  # in steps of 0.01
    result = page.locator(".sd-widget .sd-widget-result")
    assert result.inner_text().startswith(f"{row['tau']:.2f} tokens")
    bars.first.focus()
    page.keyboard.press("Home")  # the first position is never accepted, so nothing is
    assert result.inner_text().startswith("1.00 tokens")
    assert bars.first.evaluate("(bar) => bar === document.activeElement")
    page.get_by_label("α of the positions").select_option("")
    assert page.locator(".sd-sandbox-bars").is_hidden()
    assert page.get_by_role("slider", name="α", exact=True).is_visible()
    page.get_by_label("Drafter to begin with").select_option("masked diffusion, 8 steps")
    assert page.get_by_role("slider", name="γ", exact=True).input_value() == "16"
    page.get_by_label("Drafter to begin with").select_option(
        f"Block diffusion (DFlash), measured {row['speedup']:.2f}×"
    )
    assert page.get_by_role("slider", name="γ", exact=True).input_value() == str(len(row["alpha_at"]))
    people = page.get_by_role("slider", name="people served at once")
    computed = page.locator("[aria-label^='Serving load'] .sd-figures-computed")
    before = computed.inner_text()
    people.focus()
    people.press("End")
    assert computed.inner_text() not in {"", before}
    assert re.search(r"\d", page.inner_text(".sd-explored-run")), "the button says about how long it takes"


def test_a_budget_is_measured_on_the_page(browser: Any, address: str) -> None:
    url = f"{address}?explore=budget&methods=dflash&attempts=2&tokens=12"
    own = b"What is 3 + 4? | 7\nno number\nWhat is 8 - 1? | 7\n"
    with visit(browser, url, size="1440x2200", until=THERE) as page:
        page.set_input_files(
            "input[type=file][aria-label^='Your own problems']",
            {"name": "own.txt", "mimeType": "text/plain", "buffer": own},
        )
        page.wait_for_function("document.querySelector('#explore-budget-texts').value.length")
        page.click(".sd-explored-run")
        page.wait_for_function(f"{LIVE}.budget && {IDLE}")
        page.wait_for_function(DRAWN)
        found = page.evaluate(f"{LIVE}.budget")
        assert (found["done"], found["total"]) == (4, 4)
        assert {row["method"] for row in found["rows"]} == {"vanilla", "dflash"}
        lines = "(place) => place.data.filter((line) => line.name).map(({ name, x, y }) => ({ name, x, y }))"
        own = [row for row in found["rows"] if row["method"] == "dflash"]
        page.wait_for_function(  # the recorded answer was drawn before
            "(x) => String(document.querySelector('[data-figure=seconds]').data"
            ".find(({ name }) => name === 'DFlash').x) === String(x)",
            arg=[row["seconds"] for row in own],
        )
        drawn = {line["name"]: line for line in page.locator("[data-figure=seconds]").evaluate(lines)}
        assert drawn["DFlash"]["y"] == [row["accuracy"] for row in own]
        notes = page.text_content(".sd-explored-answer")
        assert "vanilla" in notes and "line 2" in notes, "the line that was left out"
        open_tab(page, "live")  # where a visitor adds a pair
        open_drawer(page, "live")
        page.click("#live-drawer .sd-form-more > summary")
        page.fill("#own-target", EMBEDDED.target)
        page.click("#own-use")
        page.wait_for_selector("#own-message:has-text('Selected')")
        open_tab(page, "explore")
        page.click(".sd-explored .sd-form-more summary")
        page.wait_for_selector("#explore-budget-pair option[value^='own?']", state="attached")
        assert len(PAIRS) > page.locator("#explore-budget-pair option").count(), "most need files that are not here"
        page.select_option("#explore-budget-pair", label=f"{folder(EMBEDDED.target)} + prompt lookup (your own pair)")
        offered = page.eval_on_selector_all(
            "#explore-budget-methods label:not([hidden]) input", "(all) => all.map((box) => box.value)"
        )
        assert offered == ["prompt_lookup"]
        assert page.evaluate(f"{EXPLORE}.query()").count("own%3Ftarget") == 1


ASKED = [name for name, kind in EXPLORATIONS.items() if kind.tab == "explore"]


@pytest.mark.parametrize(
    "names", [pytest.param(["text"], id="one"), pytest.param(ASKED, id="all", marks=pytest.mark.slow)]
)
def test_recorded_answers_are_shown_whole(show: Show, names: list[str]) -> None:
    """In both themes, and on a phone."""
    for name in names:
        page = show(name)
        assert not serious(page)
        assert page.get_attribute(".sd-explored .sd-source .sd-source-chip", "data-kind") == "recording"
        rows = page.evaluate(f"{EXPLORE}.question.answer.rows.length")
        page.locator(".sd-answer-numbers").evaluate("(details) => (details.open = true)")
        page.wait_for_function(  # the table is drawn when the browser says that it was opened
            "(rows) => document.querySelectorAll('.sd-answer-numbers tbody tr').length === rows", arg=rows
        )
        titles = page.eval_on_selector_all(".sd-answer-numbers th", "(all) => all.map((one) => one.title)")
        assert all(titles), "every column is explained"
        page.locator(".sd-answer-numbers").evaluate("(details) => (details.open = false)")
        command = page.locator(".sd-answer-origin code")
        assert command.is_hidden(), "it is up to forty lines long on a phone"
        page.click(".sd-answer-origin summary")
        assert command.is_visible()
        page.click(".sd-answer-origin summary")  # the next answer keeps it as it is
        resize(page, "phone")
        page.click("#sd-theme")
        page.wait_for_function("document.body.classList.contains('dark')")
        page.wait_for_function("!document.getAnimations().some((one) => one instanceof CSSTransition)")
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")  # figures follow
        assert not serious(page)
        page.click("#sd-theme")


def test_the_recorded_map_has_sliders_and_a_cell_opens_its_race(show: Show) -> None:
    page = show("window-map")
    block = page.locator(".sd-figures-computed .sd-scene span")
    block.first.wait_for()
    slider = page.get_by_role("slider", name="γ", exact=True)
    slider.focus()
    slider.press("Home")
    assert "γ 1" in page.inner_text(".sd-figures-computed")
    assert block.and_(page.locator("[data-is=untested]")).count() == block.count() - 1
    page.click(".sd-figures-rest > summary")
    page.wait_for_function(DRAWN)
    assert not serious(page)
    titles = page.locator(".sd-plot .sd-axis-sym")
    stops = page.eval_on_selector_all(
        ".sd-figures-charts [data-symbol][tabindex]", "(all) => all.map((one) => one.dataset.symbol)"
    )
    assert titles.count() > 4 and {"T", "γ"} <= set(stops), "each symbol is a stop of the Tab key"
    assert len(stops) == len(set(stops)), "and not twice"
    page.locator(".sd-plot .sd-axis-sym[data-symbol=T]").last.hover()
    assert page.inner_text("#sd-tip").startswith("T: ")
    page.locator(".sd-figures-charts [data-symbol=T][tabindex]").focus()
    assert page.inner_text("#sd-tip").startswith("T: ")
    race = page.evaluate(f"{EXPLORE}.question.answer.rows.find((row) => row.speedup).race")
    page.evaluate(
        f"{EXPLORE}.question.answer.provenance.date = ''; {EXPLORE}.draw()"
    )  # as while its first cell is measured
    page.wait_for_selector("[data-figure=measured].js-plotly-plot")
    cell = f"""document.querySelector('[data-figure=measured]').emit(
        'plotly_click', {{ points: [{{ customdata: [{race!r}], data: {{ type: 'heatmap' }} }}] }})"""
    page.evaluate(cell)
    listed = page.locator(".sd-figures-races")
    listed.get_by_role("button", name="Back to the chart").click()
    assert listed.count() == 0 and page.locator("[data-figure=measured]").is_visible()
    page.evaluate(cell)
    listed.wait_for()
    assert page.locator("[data-figure=measured]").is_hidden()
    listed.locator("li button").first.click()
    page.wait_for_function(f"{ready('race')} && {app('race')}.shown.stage.names.join() === 'vanilla,drafted'")


def test_a_rejection_is_sent_another_way(show: Show) -> None:
    page = show("side-by-side", "side-by-side")
    page.wait_for_selector(".sd-track-column")
    assert page.get_attribute(".sd-explored .sd-source .sd-source-chip", "data-kind") == "recording"
    rows = page.evaluate(f"{EXPLORE}.question.answer.rows")
    rejected = [f"{row['run']}/{row['round'] - 1}" for row in rows if row["rejected"] is not None]
    there = page.eval_on_selector_all(".sd-track-column button", "(all) => all.map((one) => one.dataset.key)")
    assert sorted(there) == sorted(rejected)
    assert page.locator(".sd-track-column").count() == page.evaluate(f"{EXPLORE}.question.answer.settings.tokens")
    for key in ("b/2", "a/2"):
        page.click(f'.sd-track-column [data-key="{key}"]')
        page.wait_for_selector(f'[data-key="{key}"][aria-pressed=true]')
        assert page.locator(".sd-track-column [aria-pressed=true]").count() == 1
    assert re.match(r"A\b\D*3\b\D*\d+", page.inner_text(".sd-explored .sd-inspector h3")), "run, round and position"
    assert page.locator(".sd-explored .sd-inspector .sd-inspector-row").count() > 4
    assert not serious(page, ".sd-explored .sd-inspector")
    take = page.locator(".sd-take").nth(1)
    token = take.get_attribute("data-take")
    take.click()
    page.wait_for_function(f"{LIVE}['side-by-side'] && {IDLE}")
    found = page.evaluate(f"{LIVE}['side-by-side']")
    assert (found["settings"]["branch"], found["settings"]["round"]) == ("a", 3)
    assert found["settings"]["take"] == found["facts"]["branch"]["take"] == int(token)
    assert f"take={token}" in page.evaluate("location.search")
    page.wait_for_selector(".sd-track-forced")
    assert page.locator(".sd-widget [data-symbol=B], .sd-answer-notes [data-symbol=B]").count() == 0, "B is a run"
    assert "is not a sample from the target’s distribution" in page.text_content(".sd-explored-answer")
    assert page.locator('[data-key^="what if/"]').count() == sum(
        row["run"] == "what if" and row["rejected"] is not None for row in found["rows"]
    )
    page.get_by_role("button", name="Open both in the player").click()
    page.wait_for_function(f"{ready('race')} && {app('race')}.shown.stage.names.join() === 'a,b'")
    open_tab(page, "explore")
    page.set_viewport_size({"width": 390, "height": 844})
    assert not overflows(page)
    assert not serious(page)


SHOWN = f"""JSON.stringify((() => {{
  const {{ answers, form, source }} = {EXPLORE}.question;
  const all = (selector) => document.querySelectorAll(selector).length;
  const pinned = document.querySelector('.sd-track-column [aria-pressed=true]')?.dataset.key;
  const answer = answers.live['side-by-side'];
  const [columns, takes] = [all('.sd-track-column'), all('.sd-tracks-another:not([hidden]) .sd-take:enabled')];
  return {{ answer, form: form.values(), source, pinned, columns, takes, address: location.search }};
}})())"""
"""All that a visitor of two runs side by side could lose."""


def test_another_way_that_the_server_refuses_takes_nothing_away(browser: Any, address: str, folder: Path) -> None:
    asked = f"{address}?explore=side-by-side&answer=side-by-side"
    with visit(browser, asked, until=THERE, logged="status of 503") as page:
        page.click(".sd-track-column button >> nth=2")
        page.click(".sd-explored-fields > summary")
        page.wait_for_selector(".sd-take")
        page.fill("#explore-side-by-side-tokens", "50")  # not measured yet, and not to be lost either
        before = page.evaluate(SHOWN)

        def refused(act: Callable[[], object]) -> None:
            """An action is refused on a visible card, and takes nothing away."""
            act()
            page.wait_for_selector(".sd-explored .sd-card:visible")
            page.wait_for_function(f"(before) => {IDLE} && {SHOWN} === before", arg=before)
            box = page.locator(".sd-explored .sd-card").bounding_box()
            assert 0 <= box["y"] < box["y"] + box["height"] <= page.viewport_size["height"]

        def take() -> None:
            page.click(".sd-take >> nth=0")

        for wrong in ({"take": 1 << 20}, {"round": 99}, {"take": ""}):  # of the second, both runs were decoded again
            values = {"branch": "a", "round": 2, "take": 5, **wrong}
            refused(
                lambda values=values: page.evaluate(
                    f"(values) => {EXPLORE}.job.measureBranch({{ ...{EXPLORE}.question.answer.settings, ...values }})",
                    values,
                )
            )
        with occupied(folder):
            take()
            page.wait_for_selector(QUEUED)
            assert page.locator(GOING).is_visible()
            assert not page.locator(".sd-take:enabled").count()
            page.click(".sd-explored-stop")
            page.wait_for_function(IDLE)
            assert page.evaluate(SHOWN) == before, "who waits can leave"
            page.click(".sd-explored-run")
            page.wait_for_selector(QUEUED)
            take()
            assert page.locator(GOING).is_visible() and page.locator(".sd-take:enabled").count(), "another is measured"
        page.wait_for_function(
            f"{LIVE}['side-by-side'] && {IDLE}"
            f" && {EXPLORE}.widgets.of('side-by-side').drawnOf === {EXPLORE}.question.answer"
        )
        page.click(".sd-track-column button >> nth=2")
        before = page.evaluate(SHOWN)
        full = {"status": 503, "json": {"detail": "Queue is full."}}
        page.route("**/queue/join*", lambda route: route.fulfill(**full))
        refused(take)
        page.unroute("**/queue/join*")
        take()
        page.wait_for_function(f"{LIVE}['side-by-side'].settings.branch === 'a' && {IDLE}")
        page.wait_for_selector(".sd-track-forced")
