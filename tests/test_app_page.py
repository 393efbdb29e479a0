"""The whole page: no torch, nothing from outside, recordings, fonts, links, the launcher, the log."""

from __future__ import annotations

import html
import json
import logging
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from app_fakes import FakeDecoder, raced
from playwright._impl._driver import compute_driver_executable

from app import launch, links, logs, looks, scripts
from app.content import recordings, workshop
from app.content.error_cards import card
from app.first_load import STATIC
from app.tabs import live
from benchmarks import recordings as recorded
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT / "assets" / "traces"

pytestmark = [pytest.mark.usefixtures("event_loops"), pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


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


def test_a_link_opens_its_tab() -> None:
    assert links.linked_tab({}) == links.linked_tab({"prompt": "Once", "tab": "no such"}) == "live"
    for tab in ("race", "compare", "explore", "learn", "api"):
        assert links.linked_tab({"tab": tab}) == links.linked_tab({"tab": "live", "open": tab}) == tab
    for more in ({}, {"gamma": "99"}, {"methods": "<script>"}, {"explore": "window-map", "gamma": "4,8"}):
        assert links.linked_tab({"lesson": "<script>", **more}) == "learn"
    assert links.linked_tab({"explore": "window-map"}) == "explore" and links.linked_tab({"methods": "x"}) == "race"


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
