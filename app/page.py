"""The whole page: places the tabs and wires what they share. Imports no torch before a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from specdiff_core.explorations import figures
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.events import EXACTNESS
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import ASSETS, PAIRS
from specdiff_core.schema.settings import DecodeConfig

from . import controls, endpoints, host, scripts
from .content import lessons, workshop
from .content.html import json_for_script
from .content.predictions import predictions, typical
from .content.symbols import glossary
from .controls import NO_STEPS, QUIET, UNLIMITED
from .first_load import PLOTLY, STATIC
from .looks import served
from .run import job
from .run.engines import Engines, Factory, Fetch, Progress
from .run.exploration import exploring
from .run.kept import KEEP_SECONDS, open_trace
from .run.race import LAST_FRAME, Race
from .run.record import Ask, Decode, decoding
from .tabs import explore, live, race

LOG = logging.getLogger(__name__)
RECORDINGS = ASSETS / "traces"
INDEX = "index.json"
"""Beside recordings: file name -> {"title", "settings"}: the controls' values, as in a link."""
BLOCKS = "blocks"
"""The folder of recorded blocks, by the names of their recordings."""
TEMPLATE = '<div class="sd" role="region" aria-label="NAME"></div>'
STAGE = "live-stage"
"""The element above Live's controls that its player draws the stage into."""
EMPTY = {
    "live": "No race yet. Press Run: vanilla and the drafted lane answer the same prompt with the same target model.",
    "race": "No race yet. Choose one to five methods and press Run race. They answer the same "
    "prompt with the same target model, all at once and on one clock.",
}
MISSING = "This part of the page wasn’t loaded. Reload the page."
MODEL = """watch('value', () => dispatchEvent(new CustomEvent('specdiff:model', {
  detail: { tab: TAB, ...JSON.parse(props.value) },
})));"""
"""JavaScript of a form's element: passes on messages about its model."""
TABS = {live.TAB: live, race.TAB: race}


def known_methods() -> dict[str, dict[str, str]]:
    """Method name -> how it is called and marked, for the players: traces name lanes only."""
    return {
        method.name: {
            "label": method.label,
            "about": "; ".join(f"{paper.title} {paper.arxiv}".strip() for paper in method.papers),
            "colour": method.colour,
            "mark": method.mark,
        }
        for method in METHODS
    }


def recordings(folder: Path, address: Callable[[Path], str] = served) -> list[dict[str, Any]]:
    """The recordings in a folder's index: title, address, settings, block; none if it cannot be read."""
    index = folder / INDEX
    try:
        entries = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else {}
    except (OSError, ValueError) as error:  # the page also works without recordings
        LOG.warning("%s is left out: %s", index, error)
        entries = {}
    return [_recording(folder, name, entries[name], address) for name in entries if (folder / name).is_file()]


def _recording(folder: Path, name: str, entry: dict[str, Any], address: Callable[[Path], str]) -> dict[str, Any]:
    """A recording, with the address of its block in every window and number of steps, if it has one."""
    block = folder / BLOCKS / name
    return {**entry, "url": address(folder / name), **({"block": address(block)} if block.is_file() else {})}


def mount(script: str, options: dict[str, Any]) -> str:
    """JavaScript that a component runs when it appears: import a module and mount it once. The module starts
    events of the component with ``trigger``, by Gradio's names for them: submit (run), stop, apply (get a model), clear
    (stop that), retry, end."""
    values = json_for_script({"plotly": PLOTLY.name, "symbols": glossary(), **options})
    gradio = "{ props, watch, trigger, server }"
    mounted = f"import('sd/{script}').then((module) => module.mount(element, {gradio}, {values}))"
    return f"{mounted}.catch((error) => {{ element.append({json.dumps(MISSING)}); throw error; }});"


def player_options(tab: str, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """The options of a tab's player."""
    return {
        "kind": tab,
        "prefix": tab,
        "crowded": CROWDED,
        "exactness": EXACTNESS,
        "methods": known_methods(),
        "glyphs": figures.GLYPHS,
        "dashes": {use: dash for use, (dash, _) in figures.USES.items()},
        "noSteps": NO_STEPS,
        "drafters": {name: {one.name: one.label for one in spec.drafters} for name, spec in PAIRS.items()},
        "patience": LAST_FRAME,
        "kept": KEEP_SECONDS,
        "recordings": recorded,
        "predictions": predictions(explore.RECORDED[explore.TAB]) if tab == live.TAB else {},
        "typical": typical(RECORDINGS, *explore.RECORDED.values()) if tab == live.TAB else [],
        "empty": EMPTY[tab],
    }


def build(
    factory: Factory | None = None,
    traces: Path = RECORDINGS,
    recorded: Mapping[str, Path] = explore.RECORDED,
    servers: Mapping[str, Decoder] | None = None,
) -> gr.Blocks:
    """The whole page.

    Args:
        factory: creates decoders; by default for the project's pairs, loaded at the first run.
        traces: folder of recorded traces; Live opens with the first, Race with the first in its subfolder ``race``.
        recorded: folders of recorded answers, by tab.
        servers: running servers that race beside the methods of Race, by lane (``--attach``).
    """
    decoders = factory or Engines()
    decode = decoding(decoders)
    gr.set_static_paths([STATIC, traces, *recorded.values()])

    page: gr.Blocks
    with gr.Blocks(title="SpecDiff Lab", analytics_enabled=False, fill_width=True) as page:
        endpoints.add(decode, exploring(decoders))  # first: a later function of the same name gets a number
        with gr.Row(elem_id="sd-top"):
            gr.HTML(lessons.brand(), elem_id="sd-brand", apply_default_css=False)
            upload = gr.UploadButton("Open trace", size="sm", scale=0, min_width=96, elem_id="sd-open")
            share = gr.Button("Share link", size="sm", scale=0, min_width=96, elem_id="sd-share")
            theme = gr.Button("Theme", size="sm", scale=0, min_width=72, elem_id="sd-theme")
        players: dict[str, Any] = {}
        forms: dict[str, Any] = {}

        def part(name: str, place: str, **more: Any) -> gr.HTML:
            """An element that a script draws into."""
            template = TEMPLATE.replace("NAME", name)
            return gr.HTML("", html_template=template, apply_default_css=False, elem_id=place, **more)

        with gr.Tabs(elem_id="sd-tabs") as tabs:
            for tab, folder in ((live.TAB, traces), (race.TAB, traces / "race")):
                with gr.Tab(tab.capitalize(), id=tab, elem_classes=["sd-tab"]):
                    if tab == live.TAB:
                        part("Stage", STAGE)
                    script = MODEL.replace("TAB", json.dumps(tab))
                    forms[tab] = part(
                        "Prompt and settings", f"{tab}-controls", js_on_load=script, elem_classes=["sd-player"]
                    )
                    options = player_options(tab, recordings(folder)) | {"form": TABS[tab].form()}
                    players[tab] = part(
                        "Race player",
                        f"{tab}-player",
                        js_on_load=mount("app.js", options),
                        elem_classes=["sd-player"],
                        server_functions=[controls.checking(TABS[tab].plan), controls.offered],
                    )
            for tab, folder in recorded.items():
                with gr.Tab(tab.capitalize(), id=tab):
                    script = mount("explore.js", explore.explore_options(tab, folder, served))
                    explore.explore_tab(tab, decoders, script)
            with gr.Tab("Learn", id="learn"):
                options = {"lessons": workshop.lessons(), "defaults": DecodeConfig().to_dict()}
                script = mount("learn.js", options)
                gr.HTML(lessons.learn(), apply_default_css=False, js_on_load=script)
            with gr.Tab("API & MCP", id="api"):
                gr.HTML(lessons.api(race.SETTINGS), apply_default_css=False, js_on_load=scripts.OWN_ADDRESS)

        for tab, player in players.items():
            _run(decode, tab, player, page, (servers or {}) if tab == race.TAB else {})
            _fetch_model(decoders, tab, player, forms[tab])
        _redraft(decode, players[live.TAB])

        def doing() -> Iterator[list[str]]:
            """Messages about background loading, for the tabs with models."""
            for message in getattr(decoders, "doing", tuple)():
                yield [json.dumps({"message": f"In the background: {message}"})] * len(TABS)
            yield [json.dumps({"finished": True})] * len(TABS)

        page.load(doing, None, [*forms.values()], **UNLIMITED)
        upload.upload(
            show_file,
            upload,
            [*players.values(), tabs],
            show_progress="hidden",
            concurrency_limit=1,  # a large file takes seconds of a core
            api_visibility="private",
        )
        share.click(None, None, None, js=scripts.SHARE)
        theme.click(None, None, None, js=scripts.THEME)

        page.load(opened, None, tabs, **QUIET)
    return page


JOBS = job.Jobs()
"""The races of this server, and the models that it fetches."""


def _job_name(request: gr.Request, tab: str) -> str:
    """The name of a visitor's job. A visitor's tabs are independent."""
    return f"{request.session_hash}/{tab}" if request.session_hash else ""


def _fetch_model(decoders: Factory, tab: str, player: gr.HTML, form: gr.HTML) -> None:
    """Wire the events that fetch a model, a pair's or a visitor's own, and stop that. Their frames go to the form."""
    name = f"{tab}/model"
    get = getattr(decoders, "get", lambda pair, progress: decoders(pair, "none", progress))

    def fetch(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        pair, own = str(getattr(asked, "pair", "")), getattr(asked, "own", None)

        def load(progress: Progress) -> str:
            if isinstance(own, Mapping):
                return live.choose_own(own, progress)
            get(pair, progress)
            return pair

        yield from job.stream(lambda run: Fetch(load, run), JOBS, _job_name(request, name))

    def halt(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, name), 0)

    player.apply(fetch, None, form, trigger_mode="multiple", **UNLIMITED)
    player.clear(halt, None, None, **QUIET)


def _redraft(decode: Decode, player: Any) -> None:
    """Wire the event that drafts the block of the run on the stage again. Its frames have the source ``block``."""
    name = f"{live.TAB}-block"

    def again(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        def make(run: str) -> Race:
            ask = Ask.again(getattr(asked, "file", ""), run, host.threads())
            return Race(decode, ask, request.session_hash or "")

        for words in job.stream(make, JOBS, _job_name(request, name)):
            yield json.dumps(json.loads(words) | {"source": "block"})

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, name), LAST_FRAME)

    asked = player.retry(again, None, player, **UNLIMITED)
    asked.failure(None, None, None, js="() => window.specdiff?.players.live?.acts.redrafted()", **UNLIMITED)
    player.end(stop, None, None, **QUIET)


def _run(decode: Decode, tab: str, player: gr.HTML, page: gr.Blocks, servers: Mapping[str, Decoder]) -> None:
    """Wire the events that start and stop a tab's race."""

    def run(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        def make(run: str) -> Race:
            values = controls.sent(getattr(asked, "request", None))
            prompt, threads = values.pop("prompt", None), values.pop("threads", None)
            plan = TABS[tab].plan(values)
            ask = Ask(
                prompt=controls.check_prompt(prompt),
                plan=plan | dict.fromkeys(servers, plan[BASELINE]),
                run=run,
                threads=1 if threads == 1 else host.threads(),
                servers=servers,
            )
            return Race(decode, ask, request.session_hash or "")

        yield from job.stream(make, JOBS, _job_name(request, tab))

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, tab), LAST_FRAME)

    controls.start_job(player.submit, run, player, tab)
    player.stop(stop, None, None, **QUIET)
    page.unload(stop)  # a run that waits yields seldom, and Gradio closes it only then


def show_file(path: str | None, request: gr.Request) -> list[Any]:
    """Frames of a visitor's file for the players of Live and Race, and the tab to open; an error card goes to both."""
    frame, tab = open_trace(path, request.session_hash or "")
    if not tab:
        return [frame, frame, gr.skip()]
    return [*(frame if name == tab else gr.skip() for name in TABS), gr.Tabs(selected=tab)]


def opened(request: gr.Request) -> Any:
    """The update that opens the tab of a link. The tab's script reads the rest."""
    tab = linked_tab(request.query_params)
    return gr.Tabs(selected=tab) if tab != live.TAB else gr.skip()


def linked_tab(query: Mapping[str, str]) -> str:
    """The tab that a link's query opens."""
    tab = query.get("open") or ("learn" if "lesson" in query else explore.TAB if "explore" in query else "")
    tab = tab or query.get("tab", "")
    known = {*TABS, *explore.RECORDED, "learn", "api"}
    return tab if tab in known else race.TAB if "methods" in query else live.TAB
