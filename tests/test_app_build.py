"""The page as a whole: no torch before a run, nothing from outside, typed endpoint, launcher by path."""

from __future__ import annotations

import gc
import inspect
import json
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from app_fakes import FakeDecoder

from app import build, launch, pages, race, scripts, session
from app.endpoint import methods_endpoint, race_endpoint
from specdiff_core.schema.errors import PairUnavailable, WeightsError
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

ROOT = Path(__file__).resolve().parent.parent

# Gradio 6 leaves an event loop behind for every Blocks that never launches.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _collect_event_loops() -> Iterator[None]:
    """Gradio 6 leaves an event loop behind for every Blocks that never launches; collect it without a warning."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_no_torch_before_a_run(tmp_path: Path) -> None:
    """Building the whole page, the opening trace included, imports neither torch nor transformers."""
    write_trace(tmp_path / "a.jsonl.gz", {"drafted": list(FakeDecoder().decode("Once", DecodeConfig()))})
    code = (
        "import sys; from pathlib import Path; from app.build import build, head; from app.launch import theme;"
        f"build(traces=Path({str(tmp_path)!r})); head(); theme();"
        "heavy = ('torch', 'transformers', 'specdiff_core.decoding.loop', 'specdiff_core.loading');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_gradio_is_imported_without_writing_its_stubs() -> None:
    """The launcher leaves that chore out; every component is there all the same."""
    code = (
        "from app.stubs import skip_stubs; skip_stubs(); skip_stubs();"
        "import sys; print(sum(type(f).__module__ == 'app.stubs' for f in sys.meta_path));"
        "import gradio; from gradio import component_meta;"
        "print(component_meta.create_or_modify_pyi.__module__);"
        "print(gradio.Textbox(label='a').label, hasattr(gradio.Textbox, 'submit'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["1", "app.stubs", "a True"]


def test_the_launcher_runs_by_path_and_explains_itself() -> None:
    """``import app`` is the package; the launcher is a script without logic."""
    done = subprocess.run(
        [sys.executable, "app.py", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    for flag in ("--host", "--port", "--share", "--root-path"):
        assert flag in done.stdout


def test_flags_default_to_gradios_environment() -> None:
    """None means: ask GRADIO_SERVER_PORT and its like."""
    options = launch.arguments([])
    assert (options.host, options.port, options.share, options.root_path) == (None, None, None, None)
    options = launch.arguments(["--host", "0.0.0.0", "--port", "0", "--share", "--root-path", "/lab"])
    assert (options.host, options.port, options.share, options.root_path) == ("0.0.0.0", 0, True, "/lab")


def test_a_port_that_cannot_be_used_is_one_line_before_anything_loads(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (taken.getsockname()[1], 99_999, -1):
            with pytest.raises(SystemExit):
                launch.arguments([f"--port={port}"])
            assert f"port {port} is in use or cannot be used" in capsys.readouterr().err.splitlines()[-1]
        free = launch.arguments(["--port", "0"])
    assert free.port == 0


def test_the_page_opens_on_a_recording(tmp_path: Path) -> None:
    """The first message to the player says that it is one; without any trace the page still builds."""
    assert build.opening_trace(tmp_path) == ""
    for name in ("zebra", "opening"):
        write_trace(
            tmp_path / f"{name}.jsonl.gz", {"drafted": list(FakeDecoder().decode(name, DecodeConfig()))}, title=name
        )
    told = json.loads(build.opening_trace(tmp_path))
    assert (told["source"], told["run"]) == ("recording", "recording")
    page = build.build(lambda *_: FakeDecoder(), tmp_path)
    player = next(block for block in page.blocks.values() if getattr(block, "elem_id", "") == "sd-player")
    assert json.loads(player.props["recording"])["trace"] == told["trace"]
    racing = next(block for block in page.blocks.values() if getattr(block, "elem_id", "") == "race-player")
    assert racing.props["recording"] == "", "no race was recorded"
    write_trace(tmp_path / "race" / "a.jsonl.gz", {"dflash": list(FakeDecoder().decode("Once", DecodeConfig()))})
    page = build.build(lambda *_: FakeDecoder(), tmp_path)
    racing = next(block for block in page.blocks.values() if getattr(block, "elem_id", "") == "race-player")
    assert json.loads(racing.props["recording"])["source"] == "recording"


@pytest.mark.parametrize("path", sorted((ROOT / "assets" / "traces").glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_shipped_recordings_are_honest(path: Path) -> None:
    """Each can be read, is small, and says when and on what it was measured."""
    assert path.stat().st_size <= 300_000
    told = json.loads(session.recording(str(path)))
    assert told["finished"]
    assert re.fullmatch(r"(block|mdlm) γ \d+ T \d+ \w+: .{10,40}", session.caption(path))
    from specdiff_core.schema.events import RunStarted
    from specdiff_core.schema.trace import read_trace

    for events in read_trace(path).lanes.values():
        header = next(event for event in events if isinstance(event, RunStarted))
        assert header.started_at and header.device and header.dtype and "torch" in header.versions


def test_nothing_on_the_page_points_outside() -> None:
    """Head, script and pages name no other host (fonts are the system's own), except that a paper's number may be a
    link: it fetches nothing until somebody follows it."""
    paper = r'<a href="https://arxiv\.org/abs/\d{4}\.\d{5}" rel="noreferrer" target="_blank">'
    from app.pages import api, brand, learn

    sources = [build.head(), build.player_script(build.TRACES), build.race_script(), api(), brand(), learn()]
    sources += [path.read_text(encoding="utf-8") for path in build.STATIC.glob("*.js")]
    for source in sources:
        cleaned = source.replace("http://127.0.0.1", "").replace("http://www.w3.org/2000/svg", "")
        cleaned = re.sub(paper, "<a>", cleaned)
        assert "http://" not in cleaned and "https://" not in cleaned


def test_the_endpoint_is_typed_and_documented() -> None:
    """Programs and agents see every setting, with a type, a default and a description."""
    race = race_endpoint(partial(session.results, lambda *_: FakeDecoder()))
    signature = inspect.signature(race)
    assert set(signature.parameters) == {"prompt", "include_events", *build.NAMES}
    defaults = DecodeConfig().to_dict()
    for name, parameter in signature.parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"            {name}: " in str(race.__doc__)
        if name in defaults:
            assert parameter.default == defaults[name]
    for spec in PAIRS.values():
        for drafter in spec.drafters:
            assert f'"{drafter.name}"' in str(race.__doc__)


def test_the_endpoint_of_several_methods() -> None:
    """Typed, documented, and with a refusal in words; of each lane its numbers, and why a lane failed."""
    import gradio as gr

    def decoder(pair: str, drafter: str, progress: Callable[[str], None]) -> FakeDecoder:
        if drafter == "mdlm":
            raise WeightsError("model.safetensors is missing.", hint="Restore the folder.")
        if drafter == "eagle":
            raise RuntimeError("never foreseen")
        return FakeDecoder(waiting=0.9)

    race_methods = methods_endpoint(partial(session.results, decoder, planner=race.plan))
    parameters = inspect.signature(race_methods).parameters
    assert set(parameters) == {"prompt", "methods", "include_events", *race.SETTINGS}
    assert race.SETTINGS == pages.RACE_SETTINGS
    defaults = DecodeConfig().to_dict()
    for name, parameter in parameters.items():
        assert f"            {name}: " in str(race_methods.__doc__)
        assert name not in defaults or parameter.default == defaults[name]
    assert all(f'"{name}"' in str(race_methods.__doc__) for _, name in race.choices("embedded"))
    told = list(race_methods("Once", ["specdiff", "dflash"], max_new_tokens=16, include_events=True))[-1]
    assert list(told["lanes"]) == list(told["events"]) == ["vanilla", "specdiff", "dflash"]
    fast, failed = told["lanes"]["dflash"], told["lanes"]["specdiff"]
    assert fast["speedup"] > 1 and fast["new_tokens"] == 16 and fast["failed"] is None
    assert failed["failed"] == "model.safetensors is missing. Restore the folder." and failed["speedup"] is None
    assert told["lossless"] is True and told["lanes"]["vanilla"]["speedup"] == 1
    assert told["quiet"] is False, "a lane that failed hides no busy machine"
    assert failed["lossless"] is None and failed["same_text_as_vanilla"] is None, "it claims nothing"
    json.dumps(told)
    lost = list(race_methods("Once", ["eagle"]))[-1]["lanes"]["eagle"]
    assert re.search(r"under run \w+", lost["failed"]), "whoever reads it finds the log"
    with pytest.raises(gr.Error, match="no method called"):
        list(race_methods("Once", ["nonsense"]))


def test_the_endpoint_refuses_in_words() -> None:
    """A number out of range is named with its range; no traceback."""
    import gradio as gr

    race = race_endpoint(partial(session.results, lambda *_: FakeDecoder()))
    for arguments, words in (
        ({"prompt": "a", "gamma": 99}, "between 1 and 32"),
        ({"prompt": "a", "steps": "x"}, "must be a number"),
        ({"prompt": ""}, "empty"),
        ({"prompt": "a", "pair": "b"}, "no model pair"),
    ):
        with pytest.raises(gr.Error, match=words):
            list(race(**arguments))
    assert list(race(prompt="Once"))[-1]["speedup"] > 1


def test_pairs_that_cannot_run_are_shown_disabled_with_the_reason() -> None:
    """And a broken check never breaks the page."""
    update, line = build.look_for_pairs(lambda: {"gpt2-mdlm": "<no> files here"})
    assert [name for _, name in update["choices"]] == ["embedded"]
    assert "disabled" in line and "&lt;no&gt; files here" in line

    def broken() -> dict[str, str]:
        raise PairUnavailable("The hub cannot be reached.", hint="Go on with the embedded pair.")

    assert "The hub cannot be reached." in build.look_for_pairs(broken)[1]


def test_presets_fill_their_widgets_in_order() -> None:
    """Object.values keeps the order of the keys, which is the order of the outputs."""
    options = [{"gamma": 8, "drafter": "block"}, {"gamma": 16, "drafter": "mdlm"}]
    chosen = scripts.choose(options, {"embedded": ["block", "mdlm"], "other": ["mdlm"]})
    asked = [[1, "embedded"], [0, "embedded"], [0, "other"], ["custom", "embedded"], [0, "nothing"]]
    program = f"const f = {chosen}; console.log(JSON.stringify({asked}.map(([i, p]) => f(i, p, 5, 'own'))))"
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the PATH")
    told = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [[16, "mdlm"], [8, "block"], [8, "own"], [5, "own"], [8, "own"]]


def test_the_knobs_keep_t_below_gamma_but_not_while_somebody_types() -> None:
    """Typing 16 passes through 1; an emptied box is no number."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the PATH")
    program = f"""
        let focus = 'range';
        globalThis.document = {{ get activeElement() {{ return {{ type: focus }}; }} }};
        const below = {scripts.KEEP_STEPS_BELOW_GAMMA}, above = {scripts.KEEP_GAMMA_ABOVE_STEPS};
        const told = [below(4, 9), above(4, 9), below(null, 9), above(4, 0)];
        focus = 'number';
        console.log(JSON.stringify([...told, below(1, 9), above(4, 9)]));"""
    told = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [4, 9, 9, 4, 9, 4]


def test_no_gpu_shim_without_spaces() -> None:
    """Elsewhere the decorator returns the function itself."""
    from app.gpu import on_gpu

    def generate() -> None:
        """Nothing."""

    assert on_gpu(generate) is generate


def test_a_lent_gpu_is_borrowed_for_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the host says so, the decorator is the host's; an installed package alone changes nothing."""
    from app import gpu

    borrowed: list[int] = []
    spaces = ModuleType("spaces")
    spaces.__spec__ = ModuleSpec("spaces", None)
    spaces.GPU = lambda duration: lambda function: borrowed.append(duration) or function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spaces", spaces)
    assert not gpu.is_lent()
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert gpu.is_lent()
    gpu.on_gpu(build.served)
    assert borrowed == [gpu.SECONDS]
