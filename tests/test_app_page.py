"""The whole page: no torch, nothing from outside, links, recordings, endpoints, launcher."""

from __future__ import annotations

import html
import inspect
import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from app_fakes import FakeDecoder, raced
from gradio.helpers import special_args
from gradio.utils import get_function_description
from playwright._impl._driver import compute_driver_executable
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import launch, links, logs, looks, page, routes, scripts
from app.content import recordings, workshop
from app.content.error_cards import card
from app.endpoints import add, endpoints, explorer, pairs
from app.first_load import STATIC
from app.run import race as running
from app.run import rooms
from app.run.engines import Engines
from app.run.exploration import exploring
from app.run.record import decoding
from app.run.rooms import Rooms
from app.tabs import live, race
from benchmarks import recordings as recorded
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Rule
from specdiff_core.schema.trace import read_trace

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT / "assets" / "traces"

pytestmark = [pytest.mark.usefixtures("event_loops"), pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.fixture(scope="module")
def built() -> gr.Blocks:
    return page.build(Engines(lambda pair, progress: FakeDecoder()))


def test_no_torch_before_a_run_and_no_stubs() -> None:
    """Importing and building the whole page imports neither torch nor transformers. Gradio does not
    write its stubs; every component is there all the same."""
    code = (
        "from app.gradio_patches import skip_stubs; skip_stubs(); skip_stubs();import sys;from "
        "app.page import build; from app.looks import head, theme; from app.run.process import "
        "engines_elsewhere; build(engines_elsewhere()); head(); "
        "theme();import gradio;print(gradio.Textbox(label='a').label, hasattr(gradio.Textbox, "
        "'submit'));heavy = ('torch', 'transformers', 'specdiff_core.decoding.loop', "
        "'specdiff_core.loading');print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["a True", "[]"]


def test_a_port_in_use_is_one_line_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (taken.getsockname()[1], 99_999, -1):
            with pytest.raises(SystemExit):
                launch.arguments([f"--port={port}"])
            assert f"port {port} is in use or cannot be used" in capsys.readouterr().err.splitlines()[-1]
        free = launch.arguments(["--port", "0"])
    assert free.port == 0


@pytest.mark.parametrize("tab", ["live", "race"])
def test_every_recording_is_there_and_holds_what_its_controls_ask_for(tab: str) -> None:
    folder = TRACES if tab == "live" else TRACES / "race"
    index = json.loads((folder / recordings.INDEX).read_text(encoding="utf-8"))
    assert sorted(index) == sorted(path.name for path in folder.glob("*.jsonl.gz"))
    planned = [one for one in recorded.recordings(TRACES) if one.file.parent == folder]
    assert [one.file.name for one in planned] == list(index)
    for recording in planned:
        trace = read_trace(recording.file)
        assert trace.title == recording.title == index[recording.file.name]["title"]
        for (lane, config), (name, run) in zip(recording.plan().items(), trace.lanes.items(), strict=True):
            header = next(event for event in run if isinstance(event, RunStarted))
            asked = PAIRS[config.pair].drafter(config.drafter).clamp(config).to_dict()
            assert (lane, asked, recording.values["prompt"]) == (
                name,
                DecodeConfig.parse(header.config).to_dict(),
                header.prompt,
            )
            assert header.started_at and header.device and header.dtype and "torch" in header.versions


def test_the_typeface_ships_with_its_licence_and_the_letters_of_the_formulas() -> None:
    files = sorted((STATIC / "fonts").glob("*.woff2"))
    assert {path.name for path in files} == set(looks.FONTS)
    assert all(f"url('gradio_api/file={path.as_posix()}')" in looks.head() for path in files)
    assert "SIL Open Font License" in (STATIC / "fonts" / "LICENSE").read_text(encoding="utf-8")
    words = " ".join(ranges for name, ranges in looks.FONTS.items() if name.startswith("inter"))
    ranges = re.findall(r"U\+([0-9A-F]+)(?:-([0-9A-F]+))?", words)
    for letter in "γταΣ×−½“”’…a":
        assert any(int(low, 16) <= ord(letter) <= int(high or low, 16) for low, high in ranges), letter


def test_the_font_of_formulas_has_their_letters_and_the_table_that_sets_them() -> None:
    fonts = pytest.importorskip("fontTools.ttLib", reason="fontTools is not installed")
    font = fonts.TTFont(STATIC / "fonts" / "stix-two-math.woff2")
    formulas = re.findall(r"<math.*?</math>", workshop.section(), re.DOTALL)
    letters = set(html.unescape(re.sub("<[^>]+>", "", "".join(formulas))))
    italic = {0x1D44E + ord(letter) - ord("a") for letter in "acpqx"}
    assert formulas and {*map(ord, letters), *italic} <= font.getBestCmap().keys() and "MATH" in font


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


def test_a_link_opens_its_tab() -> None:
    assert links.linked_tab({}) == links.linked_tab({"prompt": "Once", "tab": "no such"}) == "live"
    for tab in ("race", "compare", "explore", "learn", "api"):
        assert links.linked_tab({"tab": tab}) == links.linked_tab({"tab": "live", "open": tab}) == tab
    for more in ({}, {"gamma": "99"}, {"methods": "<script>"}, {"explore": "window-map", "gamma": "4,8"}):
        assert links.linked_tab({"lesson": "<script>", **more}) == "learn"
    assert links.linked_tab({"explore": "window-map"}) == "explore" and links.linked_tab({"methods": "x"}) == "race"


def codes(address: str, *, everywhere: bool = False) -> TestClient:
    """A client of the server that makes QR codes, at this address."""
    return TestClient(Starlette(routes=[Route("/qr", routes.link_code(everywhere))]), base_url=address)


def test_the_code_of_a_link_leads_to_this_page_only() -> None:
    client = codes("http://lab.example:7860")
    link = "http://lab.example:7860/?lesson=gamma&step=2&prompt=caf%C3%A9"
    answer = client.get("/qr", params={"link": link})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.content == routes.qr_code(link) != routes.qr_code(link[:-1])
    behind = {"host": "inner", "x-forwarded-host": "lab.example:7860"}  # a proxy
    assert client.get("/qr", params={"link": link}, headers=behind).status_code == 200
    refused = ["", "javascript:alert(1)", "http://[", "//lab.example:7860/", "http://elsewhere.example/", link * 20]
    refused += ["http://lab.example:7860@elsewhere.example/", "http://lab.example/", "ftp://lab.example:7860/"]
    refused += ["http://lab.example:7860/" + "\N{GRINNING FACE}" * 1100]
    assert {client.get("/qr", params={"link": bad}).status_code for bad in refused} == {400}


KEY = "0" * 12
"""Of the projector of a room."""


def test_a_room_counts_each_page_once_for_a_question() -> None:
    count, methods = routes.counting(Rooms()), ["GET", "POST", "PUT", "DELETE"]
    client = TestClient(Starlette(routes=[Route("/rooms/{room}/{question}", count, methods=methods)]))
    room, (one, other), key = "/rooms/0123456789ab/gamma-guess", ("a" * 12, "b" * 12), f"?key={KEY}"
    assert client.get(room).status_code == client.post(f"{room}?voter={one}&option=0").status_code == 404, "not open"
    assert client.put(f"/rooms/zzzzzz/gamma-guess{key}").status_code == 404, "no code of a room"
    opened = {"counts": [], "present": 0, "shown": "gamma-guess", "revealed": False}
    assert client.put(room + key).json() == opened
    assert client.get(f"{room}?voter={'c' * 12}").json() == opened | {"present": 1}, "it looks, and hasn't voted"
    for voter, option in ((one, 0), (other, 2), (one, 2)):  # the first choice counts
        assert client.post(f"{room}?voter={voter}&option={option}").status_code == 200
    for method in ("PUT", "DELETE"):  # every page of the room knows its code
        assert {client.request(method, room + wrong).status_code for wrong in ("", f"?key={one}", "?key=x")} == {403}
    assert client.delete(room + key).status_code == 404
    assert client.post(f"{room}?voter={one}&option=0").status_code == 404, "it is closed"
    voted = opened | {"counts": [1, 0, 1], "present": 3}
    assert client.put(room + key).json() == client.get(room).json() == voted
    assert client.put(f"{room}{key}&revealed").json() == voted | {"revealed": True}
    client.put(f"/rooms/0123456789ab/gamma-watch{key}")
    shown = {"counts": [], "present": 3, "shown": "gamma-watch", "revealed": False}
    assert client.get("/rooms/0123456789ab/gamma-answer").json() == shown
    for wrong in (f"{room}?voter=Ada&option=1", f"{room}?voter={one}&option=99", f"{room}?voter={one}&option=x"):
        assert client.post(wrong).status_code == 400


def test_a_page_that_has_left_is_not_present_but_its_vote_counts() -> None:
    now = [0.0]
    kept, room, question = Rooms(clock=lambda: now[0]), "0" * 12, "gamma-guess"
    kept.join(room, "a" * 12)
    assert kept.present(room, question) == 0, "not open"
    kept.open(room, question, KEY)
    for voter in ("a" * 12, "b" * 12, "Ada"):
        kept.join(room, voter)
    assert kept.guess(room, question, "b" * 12, 0) and kept.present(room, question) == 2
    now[0] = rooms.PRESENT + 1
    assert kept.present(room, question) == 1 and kept.present(room, "gamma-answer") == 0
    for number in range(rooms.VOTERS + 1):
        kept.join(room, f"{number:012x}")
    assert kept.present(room, "gamma-answer") <= rooms.VOTERS


def test_rooms_are_bounded_and_those_in_use_stay() -> None:
    now, names = [0.0], [f"{number:012x}" for number in range(rooms.ROOMS + 1)]
    kept = Rooms(clock=lambda: now[0])
    for name in names:
        kept.open(name, "gamma-guess", KEY)
        kept.join(name, "a" * 12)
        assert kept.guess(name, "gamma-guess", "a" * 12, 1) == (name != names[-1])
    now[0] = rooms.PRESENT  # nobody is left but in all rooms after the first
    for name in names[1:-1]:
        kept.join(name, "a" * 12)
    for name in ("e" * 12, "f" * 12):  # the second takes the place of one that nobody has joined
        kept.open(name, "gamma-guess", KEY)
    assert kept.counts(names[0], "gamma-guess") is None and kept.shown(names[0]) == ("", False)
    assert kept.counts(names[1], "gamma-guess") == [0, 1]
    assert [kept.counts(name * 12, "gamma-guess") for name in "ef"] == [None, []]
    room = "f" * 12
    questions = [kept.guess(room, "q" * (1 + number), "a" * 12, 0) for number in range(rooms.QUESTIONS)]
    voters = [kept.guess(room, "q", f"{number:012x}", 0) for number in range(rooms.VOTERS)]
    assert questions == [True] * (rooms.QUESTIONS - 1) + [False] and voters == [True] * (rooms.VOTERS - 1) + [False]
    kept.open(room, "gamma-answer", KEY)  # what its projector shows can be answered
    assert kept.guess(room, "gamma-answer", "a" * 12, 0) and len(kept.counts(room, "q") or []) == 1


def test_phones_can_open_the_code_of_a_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    link = "http://127.0.0.1:7860/?lesson=gamma"
    for everywhere, address, status in ((False, "192.168.0.7", 204), (True, "", 204), (True, "192.168.0.7", 200)):
        monkeypatch.setattr(routes, "lan_address", lambda address=address: address)
        answer = codes("http://127.0.0.1:7860", everywhere=everywhere).get("/qr", params={"link": link})
        assert answer.status_code == status
    assert answer.content == routes.qr_code("http://192.168.0.7:7860/?lesson=gamma")


def test_the_addresses_for_programs_are_the_pages_own() -> None:
    """Also below a proxy's path, with or without a slash at its end."""
    bases = ["http://a/", "http://a/lab", "http://a/lab/", "http://a/lab?x=/y#z"]
    binary, _ = compute_driver_executable()
    program = f"""
        const shown = (baseURI) => {{
          const code = {{ textContent: 'http://127.0.0.1:7860/gradio_api/mcp/' }};
          const show = new Function('document', 'element', {json.dumps(scripts.OWN_ADDRESS)});
          show({{ baseURI }}, {{ querySelectorAll: () => [code] }});
          return code.textContent;
        }};
        console.log(JSON.stringify({json.dumps(bases)}.map(shown)));"""
    found = json.loads(subprocess.run([binary, "-e", program], capture_output=True, text=True, check=True).stdout)
    assert found == ["http://a/gradio_api/mcp/", *["http://a/lab/gradio_api/mcp/"] * 3]


def test_logs_for_programs_name_the_run(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caplog.handler, "formatter", logs.JsonLines())
    with caplog.at_level(logging.INFO):
        shown = card(ValueError("nobody foresaw this\nat all"), "abcd1234")
        (*_, last) = raced(lambda *_: FakeDecoder(), "Once", {"drafter": "none"}, live.plan)
    failed, begun, ended = map(json.loads, caplog.text.splitlines())
    assert (failed["run"], failed["level"]) == (shown["run"], "error") == ("abcd1234", "error")
    assert "nobody foresaw" in failed["error"] and "Once" not in caplog.text, "what visitors write is not logged"
    run = json.loads(last)["run"]
    assert begun["run"] == ended["run"] == run
    assert begun["message"] == f"run {run}: vanilla" and " ended after " in ended["message"]


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
