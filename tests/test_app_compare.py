"""A measurement on the page: the bench's own sweep, rare frames, Stop, cards; the tab with and without a recording."""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_fakes import FakeDecoder

from app import page
from app.run import measurement
from app.tabs import compare
from specdiff_core.bench.comparison import build_showcase, open_stored, write_showcase
from specdiff_core.bench.grid import BenchSetting
from specdiff_core.schema.errors import ConfigError, OutOfMemory
from specdiff_core.schema.events import Event, Finished
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace
from tests.compare_fakes import store_sweep

ROOT = Path(__file__).resolve().parent.parent
CHOICE = {"methods": ["dflash", "prompt_lookup"], "prompts": 1, "repeats": 1, "temperature": 0.0}
pytestmark = [
    pytest.mark.usefixtures("event_loops"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def factory(decoder: Any) -> Any:
    return lambda pair, drafter, progress: decoder


def frames(decoder: Any, values: dict[str, Any] = CHOICE, **options: Any) -> list[dict[str, Any]]:
    """All frames that differ."""
    told = measurement.stream(factory(decoder), values, visitor="one", **options)
    return [json.loads(text) for text in dict.fromkeys(told)]


def test_the_result_is_that_of_the_bench() -> None:
    decoder = FakeDecoder()
    last = frames(decoder)[-1]
    assert (last["phase"], last["count"], last["total"]) == ("finished", 12, 12)
    (table,) = last["comparison"]["tables"]
    assert table["prompts"] == {"dialogue": 1, "stories": 1, "math": 1, "code": 1}
    assert [cell["group"] for cell in table["cells"]] == ["none/window", "block/window", "prompt_lookup/window"]
    assert table["origin"]["device"] == "no device (test double)"
    measured = [config for _, config in decoder.calls if config.max_new_tokens == measurement.TOKENS]
    assert len(measured) == 12
    assert all(config.ignore_eos for config in measured)
    for flavour, race in table["races"].items():
        lanes = read_trace(base64.b64decode(race["data"])).lanes
        assert list(lanes) == race["lanes"] == ["vanilla", "block/9/1", "prompt_lookup/9/1"], flavour
        speed = fold(lanes["block/9/1"]).tokens_per_second / fold(lanes["vanilla"]).tokens_per_second
        assert (
            speed == pytest.approx(race["speedup"]) == pytest.approx(table["cells"][1]["by_flavour"][flavour]["value"])
        )


def test_several_drafts_are_measured_as_several() -> None:
    decoder = FakeDecoder()
    last = frames(decoder, {**CHOICE, "methods": ["specdiff2"]})[-1]
    assert last["comparison"]["tables"][0]["cells"][1]["method"] == "specdiff2"
    assert {config.num_drafts for _, config in decoder.calls if config.drafter != "none"} == {4}


class Lacking(FakeDecoder):
    """Has no weights for some drafters, as :meth:`Engine.drafter` tells it."""

    def __init__(self, *missing: str) -> None:
        super().__init__()
        self.missing = missing

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        if config.drafter in self.missing:
            raise ConfigError(f"The drafter {config.drafter!r} is not available: no file.", field="drafter")
        yield from super().decode(prompt, config, **options)


def test_a_method_that_cannot_be_used_is_left_out_with_its_reason() -> None:
    """And costs nobody else's measurement; an error comes only where none is left."""
    decoder, asked = Lacking("block"), []

    def make(pair: str, drafter: str, progress: Any) -> Lacking:
        asked.append(drafter)
        return decoder

    told = measurement.stream(make, CHOICE, visitor="one")
    last = json.loads(list(told)[-1])
    assert (last["phase"], last["count"]) == ("finished", 8) and set(asked) == {"none"}
    (table,) = last["comparison"]["tables"]
    assert [cell["group"] for cell in table["cells"]] == ["none/window", "prompt_lookup/window"]
    assert table["left_out"] == ["Block diffusion (DFlash): The drafter 'block' is not available: no file."]
    tried = [config for _, config in decoder.calls if config.max_new_tokens == measurement.PROBE]
    assert [config.drafter for config in tried] == ["prompt_lookup"]
    alone = frames(Lacking("block", "prompt_lookup"))[-1]
    assert alone["card"]["code"] == "config" and "not available" in alone["card"]["message"]
    assert alone["comparison"] is None


def test_methods_are_told_apart_by_all_their_settings() -> None:
    base = DecodeConfig()
    changes = ({}, {"auto": True}, {"gamma": 4}, {"tree_nodes": 9}, {"num_drafts": 2})
    assert len({BenchSetting.of_config(dataclasses.replace(base, **change)) for change in changes}) == len(changes)


def test_nobody_is_told_what_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed tab: what was measured is neither folded nor packed."""
    work: list[measurement.Measurement] = []
    folded: list[bool] = []
    start = measurement.Measurement.start

    def kept(self: measurement.Measurement) -> None:
        work.append(self)
        start(self)

    monkeypatch.setattr(measurement.Measurement, "start", kept)
    monkeypatch.setattr(measurement.Measurement, "_fold", lambda *_: folded.append(True))
    told = measurement.stream(factory(FakeDecoder(pace=0.01)), CHOICE, visitor="me")
    for _ in told:
        if work and work[0].count > 2:
            break
    told.close()
    assert work[0].done.wait(5) and work[0].error is None and not folded


def test_an_early_end_has_met_all_flavours() -> None:
    """The first prompts of all flavours come before the second of any; no interval where one has a single prompt."""
    last = frames(UntilStopped(stop_at=19), {**CHOICE, "prompts": 2})[-1]
    (table,) = last["comparison"]["tables"]
    assert table["prompts"] == {"dialogue": 2, "stories": 2, "math": 1, "code": 1}
    assert table["asked"] == {"runs": 24, "finished": 18, "used": 18, "prompts": 8, "flavours": 4}
    cell = table["cells"][1]
    assert cell["speedup"]["low"] is None
    known = {flavour: part["low"] is not None for flavour, part in cell["by_flavour"].items()}
    assert known == {"dialogue": True, "stories": True, "math": False, "code": False}


def test_frames_are_rare_and_say_what_is_measured() -> None:
    told = frames(FakeDecoder(pace=0.004))
    progress = [frame for frame in told if frame["phase"] == "measuring"]
    assert len(told) < 20
    assert progress
    assert any(frame["doing"] == "Block diffusion (DFlash)" for frame in progress) or len(progress) < 4
    assert all(0 <= frame["count"] <= frame["total"] == 12 for frame in progress)
    ticks = iter(range(10_000))
    crowded = frames(FakeDecoder(pace=0.001), clock=lambda: next(ticks) * 0.01)
    assert len([frame for frame in crowded if frame["phase"] == "measuring"]) <= 1  # a second of its clock never passes


class UntilStopped(FakeDecoder):
    """Presses Stop in the middle of the n-th run that counts."""

    def __init__(self, stop_at: int) -> None:
        super().__init__()
        self.stop_at, self.counted, self.pressed = stop_at, 0, threading.Event()

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        if config.max_new_tokens == measurement.TOKENS:
            self.counted += 1
            if self.counted == self.stop_at:
                options["stop"].set()
                self.pressed.set()
        yield from super().decode(prompt, config, **options)


def test_stop_shows_what_was_finished_and_nothing_else() -> None:
    decoder = UntilStopped(stop_at=8)  # in the third prompt
    last = frames(decoder)[-1]
    assert decoder.pressed.is_set()
    assert (last["phase"], last["count"], last["total"]) == ("stopped", 7, 12)
    (table,) = last["comparison"]["tables"]
    assert table["asked"] == {"runs": 12, "finished": 7, "used": 6, "prompts": 4, "flavours": 4}
    assert table["prompts"] == {"dialogue": 1, "stories": 1}
    assert all(cell["runs"] == 2 for cell in table["cells"])
    for race in table["races"].values():
        for events in read_trace(base64.b64decode(race["data"])).lanes.values():
            assert isinstance(events[-1], Finished) and events[-1].reason == "length"


def test_stopped_too_early_there_is_nothing_to_show() -> None:
    last = frames(UntilStopped(stop_at=2))[-1]
    assert (last["phase"], last["comparison"]) == ("stopped", None)


def test_stop_and_a_closed_tab() -> None:
    for end in ("stop", "close"):
        decoder, stop = FakeDecoder(pace=0.02), threading.Event()
        told = measurement.stream(factory(decoder), CHOICE, stop=stop)
        for text in told:
            if json.loads(text)["phase"] in ("warming", "measuring"):
                break
        if end == "close":
            told.close()
        else:
            stop.set()
            assert json.loads(list(told)[-1])["phase"] == "stopped"
        assert decoder.stopped.wait(5)


@pytest.mark.parametrize(
    "change, code",
    [
        ({"methods": []}, "config"),
        ({"methods": None}, "config"),
        ({"methods": "dflash"}, "config"),
        ({"methods": ["vanilla"]}, "config"),
        ({"methods": ["nothing such"]}, "config"),
        ({"methods": [{"a": 1}]}, "config"),
        ({"prompts": 0}, "config"),
        ({"prompts": 6}, "config"),
        ({"prompts": 1.5}, "config"),
        ({"repeats": True}, "config"),
        ({"repeats": "many"}, "config"),
        ({"temperature": "warm"}, "config"),
        ({"temperature": 9}, "config"),
        ({"temperature": None}, "config"),
    ],
)
def test_bad_input_gets_a_card_and_no_run(change: dict[str, Any], code: str) -> None:
    decoder = FakeDecoder()
    (only,) = frames(decoder, {**CHOICE, **change})
    assert only["card"]["code"] == code
    assert only["card"]["hint"]
    assert not decoder.calls


def test_a_failure_becomes_a_card_and_keeps_what_was_measured() -> None:
    class Failing(UntilStopped):
        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
            if self.counted == 5:
                raise OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")
            yield from super().decode(prompt, config, **options)

    last = frames(Failing(stop_at=-1))[-1]
    assert (last["phase"], last["card"]["code"]) == ("failed", "memory")
    assert last["comparison"]["tables"][0]["prompts"] == {"dialogue": 1}
    early = frames(FakeDecoder(fail=RuntimeError("internal secret"), fail_after=0))[-1]
    assert early["card"]["code"] == "unexpected" and early["comparison"] is None
    assert "secret" not in json.dumps(early)


def test_the_server_measures_without_torch() -> None:
    """The sweep runs where the page is served; models live in another process."""
    code = (
        "import sys; sys.path[:0] = ['tests']; from app_fakes import FakeDecoder;"
        "from app.run import measurement as w;"
        f"told = list(w.stream(lambda *a: FakeDecoder(), {CHOICE!r}));"
        "assert 'comparison' in told[-1], told[-1][:500];"
        "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_page_opens_with_and_without_a_recording(tmp_path: Path) -> None:
    def script(folder: Path) -> str:
        built = page.build(factory(FakeDecoder()), compared=folder)
        found = [block for block in built.blocks.values() if getattr(block, "elem_id", "") == "compare-player"]
        assert len(found) == 1
        return str(found[0].js_on_load)

    missing = tmp_path / "nothing"
    assert '"recorded":""' in script(missing)
    folder = tmp_path / "compare"
    write_showcase(folder, build_showcase([open_stored(store_sweep(tmp_path, 0.0))]))
    assert f"{folder.as_posix()}/" in script(folder)


def test_the_measurement_queues_with_every_other_decode() -> None:
    built = page.build(factory(FakeDecoder()))
    functions = [fn for fn in built.fns.values() if fn.concurrency_id == "decode"]
    assert len(functions) >= 3
    assert {fn.concurrency_limit for fn in functions} == {1}
    assert compare.COMPARE.name == "compare"


def test_the_tab_hears_of_every_end() -> None:
    """A refusal or a lost connection brings no frame: Gradio's own events tell the tab."""
    built = page.build(factory(FakeDecoder()))
    told = [fn for fn in built.fns.values() if fn.js == compare.ENDED]
    assert sorted(fn.trigger_only_on_failure for fn in told) == [False, True]
    assert all(fn.trigger_after is not None for fn in told)
