"""What a link shows where it is shared: the numbers of its own run, in words and as a picture."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from io import BytesIO

import msgspec
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import unfurl
from app.content.recordings import RECORDINGS, recordings
from app.run.kept import KEPT_RUNS
from specdiff_core.schema.events import Finished, TargetScored
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.summary import staged
from specdiff_core.schema.trace import read_trace

OPENING = recordings(RECORDINGS)[0]["url"].rsplit("/", 1)[-1]
ADDRESS = "https://lab.example/"
PAGE = b'<!doctype html><html><head><meta charset="utf-8"><meta property="og:title" content="Gradio"></head></html>'


@pytest.fixture(scope="module")
def lanes() -> dict[str, list[object]]:
    return dict(read_trace(RECORDINGS / OPENING).lanes)


def test_the_sentence_counts_the_staged_round(lanes) -> None:  # type: ignore[no-untyped-def]
    summary = unfurl.fastest_summary(lanes)
    assert summary is not None
    shown = staged(lanes["drafted"])
    assert shown is not None
    verified = shown[1]
    assert 1 < verified.accepted < len(summary.guesses), "the opening's round is mixed"
    assert sum(mark == "✓" for _, mark in summary.guesses) == verified.accepted
    assert f" {verified.accepted} of {len(summary.guesses)} " in summary.sentence
    slow, fast = fold(lanes["vanilla"]), fold(lanes["drafted"])
    assert summary.speedup == pytest.approx(slow.seconds / slow.committed / (fast.seconds / fast.committed))


def test_of_several_lanes_the_fastest_speaks(lanes) -> None:  # type: ignore[no-untyped-def]
    race = read_trace(RECORDINGS / "race" / "smollm2-chat.jsonl.gz").lanes
    alone = [
        unfurl.fastest_summary({"vanilla": race["vanilla"], lane: race[lane]}) for lane in race if lane != "vanilla"
    ]
    fastest = max((one for one in alone if one), key=lambda one: one.speedup or 0)
    assert unfurl.fastest_summary(race) == fastest


def test_a_slow_check_and_a_disturbed_clock_claim_nothing(lanes) -> None:  # type: ignore[no-untyped-def]
    def changed(event: object) -> object:
        if isinstance(event, TargetScored):
            return msgspec.structs.replace(event, span=msgspec.structs.replace(event.span, seconds=9.0))
        if isinstance(event, Finished):
            return msgspec.structs.replace(event, waited_seconds=event.seconds)
        return event

    drafted = [changed(event) for event in lanes["drafted"]]
    summary = unfurl.fastest_summary({**lanes, "drafted": drafted})
    assert summary is not None and summary.passes is not None and summary.passes > 9
    assert summary.speedup is None and "time of one" not in summary.sentence
    assert unfurl.fastest_summary({"vanilla": lanes["vanilla"]}) is None


def test_a_page_names_the_run_of_its_link_and_nothing_of_gradio() -> None:
    own = unfurl.with_tags(PAGE, f"trace={OPENING}", ADDRESS).decode()
    plain = unfurl.with_tags(PAGE, "trace=../../secret&run=<script>", ADDRESS).decode()
    assert "Gradio" not in own + plain and "<script>" not in plain
    assert f"{ADDRESS}cards/{OPENING}.png" in own and unfurl.linked_race("trace=../../secret") == ""
    assert "×" in own and "×" not in plain, "without a race of its own it promises no number"


def test_a_card_is_a_picture() -> None:
    client = TestClient(Starlette(routes=[Route("/cards/{name}.png", unfurl.card)]))
    answer = client.get(f"/cards/{OPENING}.png")
    assert Image.open(BytesIO(answer.content)).size == unfurl.SIZE
    assert client.get("/cards/..%2Fsecret.png").status_code == 404
    assert client.get("/cards/none.jsonl.png").status_code == 404


@pytest.mark.parametrize("words", ["one\nline", "W" * 2_000_000])
def test_a_card_of_any_text_is_drawn_at_once(words: str) -> None:
    guesses = (unfurl.Guess(words, "✓"), unfurl.Guess("a", "✕"))
    summary = unfurl.Summary(words, 1.5, guesses, words, "words", 1.0, words, words)
    assert Image.open(BytesIO(unfurl.picture(summary))).size == unfurl.SIZE


def test_links_to_long_runs_hold_no_file_in_memory() -> None:
    run = gzip.decompress((RECORDINGS / OPENING).read_bytes())
    names = [KEPT_RUNS.keep(run + b" " * (2**20 + i) + b"\n").removeprefix("runs/") for i in range(4)]
    tracemalloc.start()
    try:
        assert all(unfurl.linked_race(f"run={name}") == name for name in names)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2**21
    finally:
        tracemalloc.stop()


def test_a_link_is_read_once_whatever_it_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(unfurl, "_read", read.append)
    assert unfurl.linked_race("&".join(f"run={i}.jsonl&trace={i}.jsonl" for i in range(100))) == ""
    assert len(read) <= 2
