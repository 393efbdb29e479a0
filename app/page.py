"""The whole page: places the tabs and wires what they share. Imports no torch before a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from specdiff_core.explorations import figures
from specdiff_core.schema.events import EXACTNESS
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import ASSETS, PAIRS
from specdiff_core.schema.palette import ROLES
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.wording import PROGRAM

from . import controls, endpoints, own_pairs, scripts
from .content import lessons, workshop
from .content.examples import PRESETS, preset_indices
from .content.html import element, json_for_script
from .content.predictions import predictions, typical
from .content.symbols import glossary
from .controls import NO_STEPS, QUIET, UNLIMITED, Controls
from .first_load import PLOTLY, STATIC
from .run import job
from .run import race as running
from .run.engines import Engines, Factory, Fetch, unavailable
from .run.exploration import exploring
from .tabs import explore, live, race

LOG = logging.getLogger(__name__)
TRACES = ASSETS / "traces"
INDEX = "index.json"
"""Beside recordings: file name -> {"title", "settings"}: the controls' values, as in a link."""
BLOCKS = "blocks"
"""The folder of recorded blocks, by the names of their recordings."""
FONTS = {
    "inter-latin.woff2": "U+0000-00FF, U+0131, U+0152-0153, U+02C6, U+02DA, U+02DC, U+2000-206F, "
    "U+20AC, U+2122, U+2191, U+2193, U+2212, U+2215, U+FEFF, U+FFFD",
    "inter-greek.woff2": "U+0391-03C9",
    "stix-two-math.woff2": "U+0020-FFFF, U+1D400-1D7FF",
}
"""Font files of the page -> the characters that each covers. STIX Two Math, cut to the letters of formulas, sets
MathML: without a mathematical font, fractions and sums depend on the visitor's system."""
TEMPLATE = '<div class="sd" role="region" aria-label="Race player"></div>'
STAGE = "live-stage"
"""The element above Live's controls that its player draws the stage into."""
EMPTY = {
    "live": "No race yet. Press Run: vanilla and the drafted lane answer the same prompt with the same target model.",
    "race": "No race yet. Choose one to five methods and press Run race. They answer the same "
    "prompt with the same target model, all at once and on one clock.",
}
MISSING = "This part of the page wasn’t loaded. Reload the page."
TABS = {live.TAB: live, race.TAB: race}


def served(path: Path) -> str:
    """The address of a static file, relative to the page, so that it works below any root path."""
    return f"gradio_api/file={path.as_posix()}"


def head(address: Callable[[Path], str] = served) -> str:
    """Typeface, palette and style sheet, for ``launch(head=)``; ``address`` locates the fonts."""
    faces = [
        f"@font-face {{ font-family: {'Inter' if name.startswith('inter') else 'STIX Two Math'}; "
        f"font-weight: 400 700; font-display: swap; unicode-range: {letters}; "
        f"src: url('{address(STATIC / 'fonts' / name)}') format('woff2'); }}"
        for name, letters in FONTS.items()
    ]
    light, dark = (";".join(f"--sd-{role}:{colours[mode]}" for role, colours in ROLES.items()) for mode in (0, 1))
    colours = f":root{{{light}}}@media screen{{.dark{{{dark}}}}}"  # paper is always light
    return "\n".join(["<style>", *faces, colours, (STATIC / "style.css").read_text(encoding="utf-8"), "</style>"])


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
    events of the component with ``trigger``, by Gradio's names for them: submit (run), stop, apply, retry, end."""
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
        "patience": running.LAST_FRAME,
        "kept": running.KEPT,
        "recordings": recorded,
        "predictions": predictions(explore.RECORDED[explore.TAB]) if tab == live.TAB else {},
        "typical": typical(TRACES, *explore.RECORDED.values()) if tab == live.TAB else [],
        "empty": EMPTY[tab],
    }


def build(
    factory: Factory | None = None, traces: Path = TRACES, recorded: Mapping[str, Path] = explore.RECORDED
) -> gr.Blocks:
    """The whole page.

    Args:
        factory: creates decoders; by default for the project's pairs, loaded at the first run.
        traces: folder of recorded traces; Live opens with the first, Race with the first in its subfolder ``race``.
        recorded: folders of recorded answers, by tab.
    """
    decoders = factory or Engines()
    decode = running.decoding(decoders)
    gr.set_static_paths([STATIC, traces, *recorded.values()])

    page: gr.Blocks
    with gr.Blocks(title="SpecDiff Lab", analytics_enabled=False, fill_width=True) as page:
        endpoints.add(decode, exploring(decoders))  # first: a later function of the same name gets a number
        with gr.Row(elem_id="sd-top"):
            gr.HTML(lessons.brand(), elem_id="sd-brand", apply_default_css=False)
            upload = gr.UploadButton("Open trace", size="sm", scale=0, min_width=96, elem_id="sd-open")
            share = gr.Button("Share link", size="sm", scale=0, min_width=96, elem_id="sd-share")
            theme = gr.Button("Theme", size="sm", scale=0, min_width=72, elem_id="sd-theme")
        by_tab: dict[str, Controls] = {}
        players: dict[str, Any] = {}
        with gr.Tabs(elem_id="sd-tabs") as tabs:
            for tab, folder in ((live.TAB, traces), (race.TAB, traces / "race")):
                with gr.Tab(tab.capitalize(), id=tab, elem_classes=["sd-tab"]) as panel:
                    if tab == live.TAB:
                        template = TEMPLATE.replace("Race player", "Stage")
                        gr.HTML("", html_template=template, apply_default_css=False, elem_id=STAGE)
                    by_tab[tab] = form = TABS[tab].build()
                    panel.select(
                        controls.model_updates, form.settings["pair"], form.model, **QUIET
                    )  # fetched elsewhere
                    players[tab] = gr.HTML(
                        "",
                        html_template=TEMPLATE,
                        js_on_load=mount("app.js", player_options(tab, recordings(folder))),
                        apply_default_css=False,
                        elem_id=f"{tab}-player",
                        elem_classes=["sd-player"],
                        server_functions=[controls.settings_of(TABS[tab].from_query)],
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

        for tab, form in by_tab.items():
            run, stop = _runs(decode, form)
            controls.wire(form, run, stop, players[tab])
            page.unload(stop)  # a run that waits yields seldom, and Gradio closes it only then
            pair = form.settings["pair"]
            form.drawer.expand(pairs_here, pair, [pair, form.missing], **QUIET)
            _fetch_model(decoders, form)
        _redraft(decode, players[live.TAB])
        pairs = [form.settings["pair"] for form in by_tab.values()]
        lists = [part for form in by_tab.values() for part in (form.settings["pair"], form.missing)]
        page.load(lambda *chosen: [part for name in chosen for part in pairs_here(name)], pairs, lists, **QUIET)

        def doing() -> Iterator[list[str]]:
            """Messages about background loading, for the tabs with models."""
            for message in getattr(decoders, "doing", tuple)():
                yield [element("p", text=f"In the background: {message}")] * len(TABS)
            yield [""] * len(TABS)

        loaded = page.load(doing, None, [form.model[1] for form in by_tab.values()], **UNLIMITED)
        for form in by_tab.values():
            loaded.then(controls.model_updates, form.settings["pair"], form.model, **QUIET)
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

        def opened(request: gr.Request) -> dict[Any, Any]:
            return from_link(by_tab, players, tabs, of_moment(dict(request.query_params), traces))

        filled = [component for form in by_tab.values() for component in form.inputs]
        link = page.load(opened, None, [*filled, by_tab["live"].method, *players.values(), tabs], **QUIET)
        for form in by_tab.values():
            link.then(None, form.inputs, None, js=scripts.controls(form.tab, [*form.fields]), **QUIET)
    return page


JOBS = job.Jobs()
"""The races of this server, and the models that it fetches."""


def _job_name(request: gr.Request, tab: str) -> str:
    """The name of a visitor's job. A visitor's tabs are independent."""
    return f"{request.session_hash}/{tab}" if request.session_hash else ""


def _fetch_model(decoders: Factory, form: Controls) -> None:
    """Wire the buttons beside a model, which fetch its file and stop that."""
    pair, (*_, get, stop), tab = form.settings["pair"], form.model, f"{form.tab}/model"
    load = getattr(decoders, "get", lambda pair, progress: decoders(pair, "none", progress))

    def fetch(pair: str, request: gr.Request) -> Iterator[list[Any]]:
        for words in job.stream(lambda run: Fetch(partial(load, pair), run), JOBS, _job_name(request, tab)):
            frame = json.loads(words)
            failed = frame.get("card")
            message = f"{failed['message']} {failed['hint']}" if failed else frame.get("message", "")
            yield controls.model_updates(pair, message, fetching="finished" not in frame)

    def halt(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, tab), 0)

    get.click(fetch, pair, form.model, trigger_mode="multiple", **UNLIMITED)
    stop.click(halt, None, None, **QUIET)


def _redraft(decode: running.Decode, player: Any) -> None:
    """Wire the event that drafts the block of the run on the stage again. Its frames have the source ``block``."""
    name = f"{live.TAB}-block"

    def again(asked: gr.EventData, request: gr.Request) -> Iterator[str]:
        def make(run: str) -> running.Race:
            ask = running.Ask.again(getattr(asked, "file", ""), run, own_pairs.threads())
            return running.Race(decode, ask, request.session_hash or "")

        for words in job.stream(make, JOBS, _job_name(request, name)):
            yield json.dumps(json.loads(words) | {"source": "block"})

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, name), running.LAST_FRAME)

    asked = player.retry(again, None, player, **UNLIMITED)
    asked.failure(None, None, None, js="() => window.specdiff?.players.live?.acts.redrafted()", **UNLIMITED)
    player.end(stop, None, None, **QUIET)


def _runs(decode: running.Decode, form: Controls) -> tuple[Callable[..., Iterator[str]], Callable[..., None]]:
    """The functions that start and stop a tab's race."""

    def run(request: gr.Request, prompt: str, *values: Any) -> Iterator[str]:
        *settings, threads = values
        named = dict(zip(form.settings, settings, strict=True))

        def make(run: str) -> running.Race:
            plan, servers = TABS[form.tab].plan(named), running.SERVERS if form.tab == race.TAB else {}
            ask = running.Ask(
                prompt=controls.check_prompt(prompt),
                plan=plan | dict.fromkeys(servers, plan[BASELINE]),
                run=run,
                threads=1 if threads == "1" else own_pairs.threads(),
                servers=servers,
            )
            return running.Race(decode, ask, request.session_hash or "")

        yield from job.stream(make, JOBS, _job_name(request, form.tab))

    def stop(request: gr.Request) -> None:
        JOBS.stop(_job_name(request, form.tab), running.LAST_FRAME)

    return run, stop


def show_file(path: str | None, request: gr.Request) -> list[Any]:
    """Frames of a visitor's file for the players of Live and Race, and the tab to open; an error card goes to both."""
    frame, tab = running.open_trace(path, request.session_hash or "")
    if not tab:
        return [frame, frame, gr.skip()]
    return [*(frame if name == tab else gr.skip() for name in TABS), gr.Tabs(selected=tab)]


def from_link(
    by_tab: Mapping[str, Controls], players: Mapping[str, gr.HTML], tabs: gr.Tabs, query: dict[str, str]
) -> dict[Any, Any]:
    """Updates from a link's query, by component: the controls of its tab, Live's preset, an error
    card, and the tab to open. A link to Live that sets nothing but the pair gets that pair's first
    preset. An invalid link only sets the prompt and shows a card."""
    tab = race.TAB if "methods" in query else live.TAB
    opened = query.get("open") or ("learn" if "lesson" in query else explore.TAB if "explore" in query else "")
    opened = opened or query.get("tab", "")
    if opened not in {*explore.RECORDED, *by_tab, "learn", "api"}:
        opened = tab
    updates: dict[Any, Any] = {tabs: gr.Tabs(selected=opened) if opened != live.TAB else gr.skip()}
    form = by_tab[tab]
    named = SETTINGS.keys() & query.keys()
    if tab == live.TAB and named == {"pair"} and query["pair"] in PAIRS:
        query = {**controls.preset_values(PRESETS[preset_indices(query["pair"])[0]]), **query}
    try:  # JavaScript reads a link to Explore
        values = {} if "explore" in query else TABS[tab].from_query(query)
        updates |= form.fill(values)
        if tab == live.TAB and values.keys() > {"prompt"}:
            updates[form.method] = _preset_update(values)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        updates[players[tab]] = job.refusal(error)
        updates[form.prompt] = query.get("prompt") or gr.skip()
    return updates


def of_moment(query: dict[str, str], folder: Path) -> dict[str, str]:
    """A link to a moment of a recording gets the recording's settings, so that controls and player
    agree. Settings in a lesson's link take precedence."""
    lesson = {"lesson": query["lesson"]} if "lesson" in query else {}
    if "trace" not in query or (lesson and query.keys() & {"prompt", *SETTINGS}):
        return query
    within = folder / race.TAB if query.get("tab") == race.TAB else folder
    matches = [recording for recording in recordings(within) if recording["url"].endswith("/" + query["trace"])]
    values = {name: str(value) for name, value in matches[0]["settings"].items() if value != ""} if matches else {}
    return {**values, **lesson}


def _preset_update(chosen: Mapping[str, Any]) -> Any:
    """The presets of a pair, with the one that matches the settings selected, if any."""
    pair = chosen["pair"]
    fitting = (
        index for index in preset_indices(pair) if controls.preset_values(PRESETS[index]).items() <= chosen.items()
    )
    value = str(next(fitting, controls.CUSTOM))
    return gr.update(choices=controls.preset_choices(pair), value=value)


def pairs_here(chosen: str, look: Callable[[], dict[str, str]] = unavailable) -> tuple[Any, str]:
    """The update of the pair list, and a line that says how many pairs are missing; ``pairs`` says why."""
    missing = {name: reason for name, reason in look().items() if name != chosen}
    command = element("code", text=f"{PROGRAM} pairs")
    words = f"{figures.plural(len(missing), 'more pair')} can’t run on this machine; this command says why: "
    update = gr.update(choices=controls.pair_choices(missing, chosen))
    return update, element("p", command, text=words, class_="sd-pairs") if missing else ""
