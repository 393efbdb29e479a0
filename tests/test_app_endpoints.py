"""The endpoints for programs: their types, answers and documentation."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import gradio as gr
import pytest
from app_fakes import FakeDecoder
from gradio.helpers import special_args
from gradio.utils import get_function_description

from app import page
from app.endpoints import add, endpoints, explorer, pairs
from app.run import race as running
from app.run.engines import Engines
from app.run.exploration import exploring
from app.run.record import decoding
from app.tabs import race
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Rule

pytestmark = [pytest.mark.usefixtures("event_loops"), pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture(scope="module")
def built() -> gr.Blocks:
    return page.build(Engines(lambda pair, progress: FakeDecoder()))


def test_endpoints_are_typed_and_documented_from_the_settings() -> None:
    """Programs see every setting with type, default and sentence, and every choice by name."""
    one, several = endpoints(decoding(lambda *_: FakeDecoder()))
    assert set(inspect.signature(one).parameters) == {"prompt", *SETTINGS, "include_events", "request"}
    parameters = set(inspect.signature(several).parameters)
    assert parameters == {"prompt", "methods", *race.SETTINGS, "include_events", "request"}
    defaults = DecodeConfig().to_dict()
    for endpoint in (one, several):
        about, words, _ = get_function_description(endpoint)
        assert "measured speed-up" in about
        for name, parameter in inspect.signature(endpoint).parameters.items():
            assert parameter.annotation is not inspect.Parameter.empty
            if name == "request":  # Gradio fills it in, and names it to nobody
                continue
            assert words[name].endswith((".", ")."))
            assert name not in defaults or parameter.default == defaults[name]
            assert name not in SETTINGS or SETTINGS[name].help in words[name]
    words = get_function_description(one)[1]
    assert all(drafter.name in words["drafter"] for spec in PAIRS.values() for drafter in spec.drafters)
    words = get_function_description(several)[1]
    assert all(method.name in words["methods"] for method in METHODS)


def test_the_endpoint_of_two_lanes() -> None:
    """A number out of range is named with its range, and a lane that fails is an error."""
    endpoint, _ = endpoints(decoding(lambda *_: FakeDecoder(pace=0.1)))
    *progress, answer = endpoint("Once", max_new_tokens=24, gamma=4, include_events=True)
    assert progress and not any(one["finished"] for one in progress)
    sent = [event for one in progress for event in one["events"]]
    for lane, events in answer["events"].items():
        own = [event | {"lane": lane} for event in events]
        early = [event for event in sent if event["lane"] == lane]
        assert early and early == own[: len(early)], "as they happened"
    assert (
        answer["finished"] and answer["lossless"] is True and answer["lanes"]["drafted"]["same_text_as_vanilla"] is True
    )
    vanilla, drafted = (answer["lanes"][lane] for lane in ("vanilla", "drafted"))
    assert drafted["speedup"] == pytest.approx(vanilla["seconds"] / drafted["seconds"])
    assert vanilla["alpha"] is None and len(answer["events"]["drafted"]) > 10
    json.dumps(answer)
    alone = list(endpoint("Once", drafter="none", max_new_tokens=9))[-1]
    assert list(alone["lanes"]) == ["vanilla"] and alone["lanes"]["vanilla"]["new_tokens"] == 9
    for arguments, words in (
        ({"prompt": "a", "gamma": 99}, "1 to 32"),
        ({"prompt": "a", "steps": "x"}, "whole number"),
        ({"prompt": ""}, "empty"),
        ({"prompt": "a", "pair": "b"}, "no model pair"),
    ):
        with pytest.raises(gr.Error, match=words):
            list(endpoint(**arguments))
    broken, _ = endpoints(decoding(lambda *_: FakeDecoder(fail=WeightsError("A file is cut off.", hint="Get it."))))
    with pytest.raises(gr.Error, match=r"A file is cut off\. Get it\."):
        list(broken("Once"))


def test_a_program_is_the_visitor_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio hands the request over, and no program is asked for it."""
    visitors: list[str] = []

    def results(race: running.Race, **_: Any) -> Any:
        visitors.append(race.visitor)
        yield {"finished": False}

    monkeypatch.setattr("app.endpoints.results", results)
    both = endpoints(decoding(lambda *_: FakeDecoder()))
    for endpoint, given in zip(both, (["Once"], ["Once", ["dflash"]]), strict=True):
        arguments, *_ = special_args(endpoint, inputs=[*given], request=gr.Request(session_hash="a-program"))
        list(endpoint(*arguments))
        list(endpoint(*given))
    assert visitors == ["a-program", ""] * 2
    with gr.Blocks() as blocks:
        for endpoint in both:
            gr.api(endpoint, api_name=endpoint.__name__)
    for described in blocks.get_api_info()["named_endpoints"].values():
        assert "request" not in {parameter["parameter_name"] for parameter in described["parameters"]}


def test_the_endpoint_of_several_methods() -> None:
    def decoder(pair: str, drafter: str, progress: Callable[[str], None]) -> FakeDecoder:
        if drafter == "masked":
            raise WeightsError("model.safetensors is missing.", hint="Restore the folder.")
        return FakeDecoder(waiting=0.9)

    _, endpoint = endpoints(decoding(decoder))
    answer = list(endpoint("Once", ["specdiff", "dflash"], max_new_tokens=16, include_events=True))[-1]
    assert set(answer["lanes"]) == set(answer["events"]) == {"vanilla", "specdiff", "dflash"}
    fast, failed = answer["lanes"]["dflash"], answer["lanes"]["specdiff"]
    assert fast["speedup"] > 1 and fast["new_tokens"] == 16 and fast["failed"] is None
    assert failed["failed"] == "model.safetensors is missing. Restore the folder." and failed["speedup"] is None
    assert answer["lossless"] is True and answer["lanes"]["vanilla"]["speedup"] == 1
    assert answer["quiet"] is False, "a lane that failed hides no busy machine"
    assert failed["lossless"] is None and failed["same_text_as_vanilla"] is None, "no claim"
    json.dumps(answer)
    with pytest.raises(gr.Error, match="no method called"):
        list(endpoint("Once", ["nonsense"]))


def test_programs_call_endpoints_by_their_names(built: gr.Blocks) -> None:
    """As MCP does: no function of the page's own takes one."""
    assert [*built.get_api_info()["named_endpoints"]] == ["/race", "/race_methods", "/explore", "/pairs"]


def test_programs_explore_and_list_pairs_and_see_what_a_parameter_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemas with the names and ranges of the settings; an exploration's answer, and its errors."""
    monkeypatch.setattr("app.endpoints.unavailable", lambda: {"gpt2-mdlm": "no network"})
    found = {pair["name"]: pair for pair in pairs()["pairs"]}
    assert found.keys() == PAIRS.keys() and found["embedded"]["available"] and "ddtree" in found["embedded"]["methods"]
    assert (found["gpt2-mdlm"]["available"], found["gpt2-mdlm"]["reason"]) == (False, "no network")
    explore = explorer(exploring(lambda *_: FakeDecoder()))
    *_, last = explore("compare", {"methods": "dflash", "tokens": 32, "per_flavour": 1, "flavours": "stories"})
    assert last["finished"] and last["result"]["rows"] and last["result"]["report"]["answer"]
    for name, settings in (("nonsense", {}), ("compare", {"tokens": "x99"})):
        with pytest.raises(gr.Error, match=r"nonsense|99"):
            list(explore(name, settings))
    with gr.Blocks() as blocks:
        add(decoding(lambda *_: FakeDecoder()), exploring(lambda *_: FakeDecoder()))
    described = {
        name: {one["parameter_name"]: one["type"] for one in api["parameters"]}
        for name, api in blocks.get_api_info()["named_endpoints"].items()
    }
    assert set(described) == {"/race", "/race_methods", "/explore", "/pairs"}
    answers = [api["returns"][0]["type"]["properties"] for api in blocks.get_api_info()["named_endpoints"].values()]
    for answer, field in zip(answers, ("lanes", "lanes", "result", "pairs"), strict=True):
        assert {"finished", field} <= answer.keys()
    assert described["/race"]["gamma"].items() >= {"type": "integer", "minimum": 1, "maximum": 32}.items()
    assert described["/race"]["draft_temperature"]["oneOf"][1]["maximum"] == 2
    assert set(described["/race"]["rule"]["enum"]) == {rule.value for rule in Rule}
    assert described["/race_methods"]["rule"]["enum"] == [*race.RULES]
    assert "window-map" in described["/explore"]["name"]["enum"]
    assert "ddtree" in described["/race_methods"]["methods"]["items"]["enum"]
