"""A race of several methods: what it takes, what it measures, and how a lane that fails leaves the others alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_fakes import FakeDecoder
from test_app_session import frames, unpack

from app import build, race, session
from app.engines import Engines
from specdiff_core.schema.errors import ConfigError, ContextOverflow, OutOfMemory, WeightsError
from specdiff_core.schema.events import Committed, Event, Failed, Finished, RunStarted
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

VALUES: dict[str, Any] = {"methods": list(race.DEFAULT), "max_new_tokens": 16}
MISSING = WeightsError("assets/embedded/mdlm/model.safetensors is missing.", hint="Restore the folder.")


def run(decoder: FakeDecoder, prompt: str = "Once", values: Any = None, **options: Any) -> Iterator[str]:
    """A race on a scripted decoder."""
    return session.stream(
        lambda *_: decoder, prompt, VALUES if values is None else values, planner=race.plan, **options
    )


def test_the_lanes_are_the_methods_in_their_order_and_vanilla_is_first() -> None:
    """Also where nobody asked for it, or asked for it twice."""
    for asked in (["dflash", "autoregressive"], ["dflash", "vanilla", "autoregressive", "dflash"]):
        plan = race.plan({"methods": asked, "temperature": 0.7, "seed": 5, "rule": "match", "max_new_tokens": 20})
        assert list(plan.lanes) == ["vanilla", "autoregressive", "dflash"] and plan.apart
        assert [config.drafter for config in plan.lanes.values()] == ["none", "autoregressive", "block"]
        for config in plan.lanes.values():
            assert (config.temperature, config.seed, config.rule.value, config.max_new_tokens) == (0.7, 5, "match", 20)
    by_name = {method.name: method for method in METHODS}
    assert plan.lanes["dflash"].gamma == by_name["dflash"].settings["gamma"]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"methods": []}, "methods", "2 to 6"),
        ({"methods": ["vanilla"]}, "methods", "1 is chosen"),
        ({"methods": [method.name for method in METHODS]}, "methods", f"{len(METHODS)} are chosen"),
        ({"methods": ["nonsense"]}, "methods", "no method called 'nonsense'"),
        ({"methods": "dflash"}, "methods", "list of names"),
        ({"methods": None}, "methods", "list of names"),
        ({"methods": [7]}, "methods", "list of names"),
        ({}, "methods", "list of names"),
        ({"methods": ["dflash"], "pair": "gpt2-mdlm"}, "methods", "no drafter for dflash"),
        ({"methods": ["dflash"], "pair": "other"}, "pair", "no model pair"),
        ({"methods": ["dflash"], "rule": "naive"}, "rule", "does not take"),
        ({"methods": ["dflash"], "temperature": 9}, "temperature", "out of range"),
        ({"methods": ["dflash"], "max_new_tokens": "many"}, "max_new_tokens", "must be a number"),
    ],
)
def test_what_cannot_race_gets_a_card_and_no_run(values: dict[str, Any], field: str, words: str) -> None:
    """With the control to mark; the decoder is never asked."""
    with pytest.raises(ConfigError, match=words) as caught:
        race.plan(values)
    assert caught.value.field == field and caught.value.hint
    decoder = FakeDecoder()
    told = frames(run(decoder, values=values))
    assert len(told) == 1 and told[0]["card"]["field"] == field and not decoder.calls


def test_every_lane_is_measured_after_its_own_warm_up_and_the_trace_holds_them_all() -> None:
    """The page hears who is to come, and then one lane after the other."""
    decoder, asked = FakeDecoder(), []

    def factory(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        asked.append((drafter, len(decoder.calls)))
        return decoder

    told = frames(session.stream(factory, "Once", VALUES, planner=race.plan))
    names = ["vanilla", "autoregressive", "specdiff", "dflash"]
    assert all(frame["lanes"] == names for frame in told[:-1])
    assert asked == [("none", 0), ("autoregressive", 1), ("mdlm", 2), ("block", 3)], "each before its own turn"
    assert decoder.warm_ups == [session.SETTLE, *[session.BETWEEN] * 3]
    trace = unpack(told[-1]["trace"])
    assert list(trace.lanes) == names and trace.title == "Live run"
    assert all(isinstance(events[-1], Finished) for events in trace.lanes.values())
    warmed = [frame["lane"] for frame in told if frame["phase"] == "warming"]
    assert list(dict.fromkeys(warmed)) == names


@pytest.mark.parametrize("when", ["load", "start", "warm-up", "decode"])
def test_a_lane_that_fails_says_why_and_the_others_run(when: str) -> None:
    """Its reason is its own last event; what it decoded until then stays."""

    class Broken(FakeDecoder):
        def warm(self, config: DecodeConfig, seconds: float, stop: threading.Event | None) -> None:
            if (config.drafter, when) == ("mdlm", "warm-up"):
                raise MISSING
            super().warm(config, seconds, stop)

        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
            if (config.drafter, when) == ("mdlm", "start"):
                raise MISSING
            for event in super().decode(prompt, config, **options):
                yield event
                if (config.drafter, when) == ("mdlm", "decode") and isinstance(event, Committed):
                    raise MISSING

    decoder = Broken()

    def factory(pair: str, drafter: str, progress: Any) -> FakeDecoder:
        if (drafter, when) == ("mdlm", "load"):
            raise MISSING
        return decoder

    told = frames(session.stream(factory, "Once", VALUES, planner=race.plan))
    last = told[-1]
    assert "card" not in last and last["source"] == "run"
    lanes = unpack(last["trace"]).lanes
    assert isinstance(lanes["dflash"][-1], Finished) and isinstance(lanes["vanilla"][-1], Finished)
    reason = lanes["specdiff"][-1]
    assert isinstance(reason, Failed) and (reason.code, reason.message) == ("weights", MISSING.message)
    assert reason.hint == MISSING.hint and reason.run == last["run"]
    kinds = {type(event) for event in lanes["specdiff"]}
    assert (RunStarted in kinds) == (when in {"warm-up", "decode"})
    assert (Committed in kinds) == (when == "decode")
    heard = [event for frame in told[:-1] for event in frame.get("events", ()) if event["kind"] == "Failed"]
    assert [event["lane"] for event in heard] == ["specdiff"], "the page hears of it while the race goes on"


def test_an_unforeseen_failure_of_a_lane_shows_no_traceback(caplog: Any) -> None:
    """The lane says under which run the log has the details."""

    class Surprise(FakeDecoder):
        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
            if config.drafter == "mdlm":
                raise RuntimeError("secret internals")
            yield from super().decode(prompt, config, **options)

    last = frames(run(Surprise()))[-1]
    reason = unpack(last["trace"]).lanes["specdiff"][-1]
    assert reason.code == "unexpected" and reason.run == last["run"] and "secret" not in reason.message
    assert "secret internals" in caplog.text


def test_where_vanilla_cannot_even_begin_the_race_is_a_card() -> None:
    """The prompt or the pair is to blame: every lane would say the same."""
    for fault in (ContextOverflow("Too long.", hint="Shorten it."), MISSING):

        class Never(FakeDecoder):
            fault_: Exception = fault

            def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
                self.calls.append((prompt, config))
                raise self.fault_
                yield

        decoder = Never()
        last = frames(run(decoder))[-1]
        assert last["card"]["message"] == str(fault.message) and "trace" not in last
        assert len(decoder.calls) == 1


def test_vanilla_that_fails_later_is_a_lane_like_others() -> None:
    error = OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")

    class Tired(FakeDecoder):
        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
            for event in super().decode(prompt, config, **options):
                yield event
                if config.drafter == "none" and isinstance(event, Committed):
                    raise error

    lanes = unpack(frames(run(Tired()))[-1]["trace"]).lanes
    assert isinstance(lanes["vanilla"][-1], Failed) and isinstance(lanes["dflash"][-1], Finished)


def test_stop_keeps_the_lanes_that_are_done() -> None:
    """The third lane is under way when somebody presses Stop; the fourth never begins, and the trace names it."""
    decoder, stops = FakeDecoder(), session.Stops()
    reached = threading.Event()

    class Slow(FakeDecoder):
        def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
            for event in decoder.decode(prompt, config, **options):
                if config.drafter == "mdlm" and isinstance(event, Committed):
                    reached.set()
                    assert options["stop"].wait(10)
                yield event

    def press() -> None:
        assert reached.wait(20)
        stops.stop("me")

    presser = threading.Thread(target=press)
    presser.start()
    began = time.monotonic()
    last = frames(run(Slow(), stops=stops, session="me"))[-1]
    presser.join(10)
    assert time.monotonic() - began < 15
    trace = unpack(last["trace"])
    assert trace.title == "Stopped run"
    assert list(trace.lanes) == ["vanilla", "autoregressive", "specdiff", "dflash"]
    ends = [events[-1].reason if events else None for events in trace.lanes.values()]
    assert ends == ["length", "length", "stopped", None]


def test_a_dead_process_ends_one_lane_and_the_next_gets_another() -> None:
    """Each lane asks for its engine again: what was loaded may be gone."""
    loads: list[str] = []
    living: list[bool] = [True]

    class Mortal(FakeDecoder):
        def decode(self, prompt: str, config: DecodeConfig, *, detail: bool = True, **options: Any) -> Iterator[Event]:
            for event in super().decode(prompt, config, detail=detail, **options):
                yield event
                if detail and config.drafter == "mdlm" and isinstance(event, Committed):
                    living[0] = False
                    raise WeightsError("The process that decodes ended without a word.")

    def load(pair: str, tell: Any) -> FakeDecoder:
        loads.append(pair)
        living[0] = True
        return Mortal()

    engines = Engines(load, alive=lambda: living[0])
    lanes = unpack(frames(session.stream(engines, "Once", VALUES, planner=race.plan))[-1]["trace"]).lanes
    assert isinstance(lanes["specdiff"][-1], Failed) and isinstance(lanes["dflash"][-1], Finished)
    assert loads == ["embedded", "embedded"]


def test_a_file_goes_to_the_player_of_its_lanes(tmp_path: Path) -> None:
    """The two classic lanes to Live, any others to Race; a card to whichever is on screen."""
    events = list(FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=9)))
    for lanes, expected in (
        ({"vanilla": events, "drafted": events}, "live"),
        ({"drafted": events}, "live"),
        ({"vanilla": events, "drafted": [], "dflash": events}, "race"),
        ({"block/9/1": events}, "race"),
    ):
        write_trace(tmp_path / "a.jsonl.gz", lanes, title="kept")
        live, raced, tabs = build.show_file(str(tmp_path / "a.jsonl.gz"))
        told, other = (live, raced) if expected == "live" else (raced, live)
        assert list(unpack(json.loads(told)["trace"]).lanes) == list(lanes)
        assert isinstance(other, dict) and tabs.selected == expected
    live, raced, _ = build.show_file(None)
    assert live == raced and json.loads(live)["card"]["code"] == "trace" and json.loads(live)["source"] == "file"


def test_another_pair_keeps_what_it_has_of_the_choice() -> None:
    """And chooses something where that would be nothing."""
    few = race.methods_here("gpt2-mdlm", ["dflash", "specdiff"])
    assert few["value"] == ["specdiff"] and {name for _, name in few["choices"]} < {
        name for _, name in race.choices("embedded")
    }
    assert len(race.methods_here("gpt2-mdlm", ["dflash"])["value"]) == race.FEWEST - 1
    assert all(name != "vanilla" for _, name in few["choices"]), "it cannot be taken off"


def test_pairs_that_cannot_run_here_are_not_offered() -> None:
    update = race.pairs_here({"gpt2-mdlm": "no files"}, "embedded")
    assert "gpt2-mdlm" not in [name for _, name in update["choices"]] and "Live's settings" in update["info"]
    kept = race.pairs_here({"gpt2-mdlm": "it is loaded, and the memory full"}, "gpt2-mdlm")
    assert "gpt2-mdlm" in [name for _, name in kept["choices"]] and "Live's settings" not in kept["info"]


def test_a_link_to_a_race_restores_it() -> None:
    """Its prompt, its methods and its settings; what it does not name is as usual; a link to Live is none."""
    query = {"prompt": "Once", "methods": "specdiff,eagle", "temperature": "0.7", "max_new_tokens": "32", "gamma": "9"}
    prompt, methods, *settings = race.from_query(query)
    assert prompt == "Once" and sorted(methods["value"]) == ["eagle", "specdiff"]
    assert dict(zip(race.SETTINGS, settings, strict=True)) == {
        "temperature": 0.7,
        "rule": "ratio",
        "max_new_tokens": 32,
        "seed": 0,
        "pair": "embedded",
    }
    assert race.from_query({"prompt": "Once", "gamma": "9"}) is None


def test_a_link_to_a_race_of_another_pair() -> None:
    """Which may have no drafter of the usual name; a method that is named twice, and vanilla, stand there once."""
    query = {"methods": "vanilla,specdiff,specdiff", "pair": "gpt2-mdlm"}
    _, methods, *settings = race.from_query(query)
    assert methods["value"] == ["specdiff"] and settings[race.PAIR] == "gpt2-mdlm"
    assert [name for _, name in methods["choices"]] == [name for _, name in race.choices("gpt2-mdlm")]


@pytest.mark.parametrize(
    "query",
    [{"methods": "no such"}, {"methods": ""}, {"methods": "specdiff", "temperature": "hot"}, {"methods": "x,<b>"}],
)
def test_a_link_to_an_impossible_race_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        race.from_query(query)
