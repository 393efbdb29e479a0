"""Places the controls and the player, and wires their events. Knows no decoding; loads no model and no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import plotly

from app import controls, pages, race, scripts, session
from app.compare import COMPARE, compare_script, compare_tab
from app.endpoint import Results, methods_endpoint, race_endpoint
from app.engines import Engines, Factory, unavailable
from app.errors import card, new_run_id
from app.gpu import on_gpu
from app.html import element, json_for_script
from app.palette import css
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import PAIRS

STATIC = Path(__file__).resolve().parent / "static"
TRACES = Path(__file__).resolve().parent.parent / "assets" / "traces"
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"
CUSTOM = "custom"
"""What the list of presets says once a setting differs from the chosen one."""
TEMPLATE = '<div class="sd" role="region" aria-label="Race player"></div>'
NAMES = tuple(controls.FIELDS)
LIVE, RACE = ("prompt", *NAMES), ("prompt", "methods", *race.SETTINGS)
"""What a link to a run of a tab names, in the order of its widgets."""
QUIET = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
"""Events that answer at once and are nobody's business: no spinner, no queue, not in the API."""


def served(path: Path) -> str:
    """The address of a static file, relative to the page, so that it works below any root path."""
    return f"gradio_api/file={path.as_posix()}"


def head() -> str:
    """Palette and style sheet, for ``launch(head=)``."""
    sheets = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("app.css", "race.css"))
    return f"<style>{css()}\n{sheets}</style>"


def player_script(traces: Path) -> str:
    """What the player component runs when it appears: import the modules, mount once."""
    help = {f"set-{name}": str(controls.FIELDS[name].metadata["help"]) for name in controls.MAIN}
    recordings = [{"title": session.caption(path), "url": served(path)} for path in sorted(traces.glob("*.jsonl.gz"))]
    return _mounting("main.js", {"help": help, "recordings": recordings, "patience": session.PATIENCE})


def race_script() -> str:
    """The same for the Race tab's player; it runs when the tab is first opened."""
    return _mounting("race.js", {"methods": race.known_methods(), "patience": race.PATIENCE})


def _mounting(module: str, options: dict[str, Any]) -> str:
    shared = {"plotly": served(PLOTLY), "crowded": CROWDED, "noSteps": controls.NO_STEPS}
    return (
        f"import(new URL({json_for_script(served(STATIC / module))}, document.baseURI))"
        f".then((player) => player.mount(element, props, watch, {json_for_script(shared | options)}));"
    )


def opening_trace(folder: Path) -> str:
    """The first recorded trace as a message for the player; empty if none ships."""
    files = sorted(folder.glob("*.jsonl.gz"))
    chosen = next((path for path in files if path.name.startswith("opening")), files[0] if files else None)
    return session.recording(str(chosen)) if chosen else ""


def build(factory: Factory | None = None, traces: Path = TRACES, compared: Path = COMPARE) -> gr.Blocks:
    """The whole page.

    Args:
        factory: makes decoders; by default the project's model pairs, loaded at the first run.
        traces: folder of recorded traces; the page opens on one of them, and the Race tab on one in ``race`` below it.
        compared: folder of the recorded comparison; without it the tab offers to measure.
    """
    decoders = factory or Engines()
    stops = session.Stops()
    gr.set_static_paths([STATIC, PLOTLY.parent, traces, compared])

    @on_gpu
    def decode(prompt: str, values: dict[str, Any], visitor: str) -> Iterator[str]:
        yield from session.stream(decoders, prompt, values, stops=stops, session=visitor)

    @on_gpu
    def decode_methods(prompt: str, values: dict[str, Any], visitor: str) -> Iterator[str]:
        yield from session.stream(decoders, prompt, values, stops=stops, session=visitor, planner=race.plan)

    def measured(planner: session.Planner) -> Results:
        @on_gpu
        def results(prompt: str, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield from session.results(decoders, prompt, values, planner)

        return results

    def run(request: gr.Request, prompt: str, *values: Any) -> Iterator[str]:
        yield from decode(prompt, dict(zip(NAMES, values, strict=True)), request.session_hash or "")

    def stop(request: gr.Request) -> None:
        stops.stop(request.session_hash or "")

    def run_race(request: gr.Request, prompt: str, methods: list[str], *values: Any) -> Iterator[str]:
        chosen = {"methods": methods, **dict(zip(race.SETTINGS, values, strict=True))}
        yield from decode_methods(prompt, chosen, race.visitor(request.session_hash))

    def stop_race(request: gr.Request) -> None:
        stops.stop(race.visitor(request.session_hash), race.PATIENCE)

    with gr.Blocks(title="SpecDiff Lab", analytics_enabled=False, fill_width=True) as page:
        with gr.Row(elem_id="sd-top"):
            gr.HTML(pages.brand(), elem_id="sd-brand", apply_default_css=False)
            upload = gr.UploadButton("Open trace", size="sm", scale=0, min_width=96, elem_id="sd-open")
            share = gr.Button("Share link", size="sm", scale=0, min_width=96, elem_id="sd-share")
            theme = gr.Button("Theme", size="sm", scale=0, min_width=72, elem_id="sd-theme")
        with gr.Tabs(elem_id="sd-tabs") as tabs:
            with gr.Tab("Live", id="live"):
                prompt, widgets, run_button, stop_button, drawer, preset = _controls()
                queue = gr.HTML("", elem_id="sd-queue", apply_default_css=False)
                player = gr.HTML(
                    "",
                    recording=opening_trace(traces),
                    html_template=TEMPLATE,
                    js_on_load=player_script(traces),
                    apply_default_css=False,
                    elem_id="sd-player",
                )
            with gr.Tab("Race", id="race", elem_id="tab-race") as race_tab:
                racing = race.place()
                race_player = gr.HTML(
                    "",
                    recording=opening_trace(traces / "race"),
                    html_template=TEMPLATE.replace("Race player", "Race of several methods"),
                    js_on_load=race_script(),
                    apply_default_css=False,
                    elem_id="race-player",
                )
            with gr.Tab("Compare", id="compare"):
                compare_tab(decoders, compare_script(compared, served, served(PLOTLY), STATIC / "compare.js"))
            with gr.Tab("Learn", id="learn"):
                gr.HTML(pages.learn(), apply_default_css=False)
            with gr.Tab("API & MCP", id="api"):
                gr.HTML(pages.api(), apply_default_css=False, js_on_load=scripts.OWN_ADDRESS)

        settings = [widgets[name] for name in NAMES]
        raced = [racing.prompt, racing.methods, *racing.settings]
        link = scripts.remember("set", LIVE)
        _wire_run([run_button, prompt], run, [prompt, *settings], player, queue, stop_button, stop, link)
        _wire_run(
            [racing.run, racing.prompt],
            run_race,
            raced,
            race_player,
            racing.queue,
            racing.stop,
            stop_race,
            scripts.remember("race", RACE),
        )
        upload.upload(
            show_file,
            upload,
            [player, race_player, tabs],
            show_progress="hidden",
            concurrency_limit=1,  # a large file takes seconds of a core
            api_visibility="private",
        )
        share.click(None, [prompt, *settings, *raced], None, js=scripts.share({"live": LIVE, "race": RACE}))
        theme.click(None, None, None, js=scripts.THEME)
        _wire_settings(widgets, preset)
        page.load(from_link, None, [prompt, *settings, preset, player, *raced, tabs], **QUIET)
        _wire_pairs(page, widgets, drawer)
        raced_pair = racing.settings[race.PAIR]
        race_tab.select(lambda pair: race.pairs_here(missing_pairs(), pair), raced_pair, raced_pair, **QUIET)
        for endpoint in (race_endpoint(measured(session.two_lanes)), methods_endpoint(measured(race.plan))):
            gr.api(endpoint, api_name=endpoint.__name__, concurrency_id="decode", concurrency_limit=1)
    return page


def show_file(path: str | None) -> list[Any]:
    """A visitor's file for the players of Live and Race, and the tab to open; a card goes to whichever is on screen."""
    told, name = session.open_trace(path)
    if not name:
        return [told, told, gr.skip()]
    shown = {"live": [told, gr.skip()], "race": [gr.skip(), told]}[name]
    return [*shown, gr.Tabs(selected=name)]


def _wire_run(
    begin: Sequence[Any],
    run: Callable[..., Iterator[str]],
    inputs: Sequence[Any],
    player: gr.HTML,
    queue: gr.HTML,
    stop_button: gr.Button,
    stop: Callable[..., None],
    remember: str,
) -> None:
    """A button and a prompt that start a run, which the page remembers, and a button that stops it."""
    gr.on([begin[0].click, begin[1].submit], None, list(inputs), None, js=remember)
    running = gr.on(
        [begin[0].click, begin[1].submit],
        run,
        list(inputs),
        player,
        show_progress="minimal",
        show_progress_on=queue,
        concurrency_id="decode",
        concurrency_limit=1,  # two decodes at once would measure each other
        trigger_mode="once",
        api_visibility="private",
    )
    stop_button.click(stop, None, None, queue=False, show_progress="hidden", api_visibility="private").then(
        None, None, None, cancels=[running]
    )


def _controls() -> tuple[gr.Textbox, dict[str, Any], gr.Button, gr.Button, gr.Accordion, gr.Dropdown]:
    """The control card: prompt, the two main knobs, Run and Stop, and the drawer with everything else."""
    widgets: dict[str, Any] = {}
    with gr.Column(elem_id="sd-controls"):
        with gr.Row(elem_id="sd-row"):
            with gr.Column(scale=5, min_width=280, elem_id="sd-prompt-column"):
                prompt = gr.Textbox(
                    controls.EXAMPLES[0].prompt,
                    label="Prompt",
                    lines=2,
                    max_lines=4,
                    elem_id="set-prompt",
                    container=True,
                )
                with gr.Row(elem_id="sd-examples"):
                    for example in controls.EXAMPLES:
                        chip = gr.Button(
                            example.flavour, size="sm", scale=0, min_width=60, elem_classes=["sd-chip-button"]
                        )
                        chip.click(None, None, prompt, js=scripts.constant(example.prompt))
            preset = gr.Dropdown(
                [*((item.label, str(i)) for i, item in enumerate(controls.PRESETS)), ("Your own settings", CUSTOM)],
                value="0",
                label="Preset",
                filterable=False,
                scale=2,
                min_width=190,
                elem_id="sd-preset",
            )
            for name in controls.MAIN:
                widgets[name] = controls.widget(name)
            with gr.Column(scale=1, min_width=128, elem_id="sd-run-column"):
                run_button = gr.Button("Run both lanes", variant="primary", elem_id="sd-run")
                stop_button = gr.Button("Stop", elem_id="sd-stop")
        with gr.Accordion("All settings", open=False, elem_id="sd-drawer") as drawer:
            with gr.Row(elem_id="sd-drawer-row"):
                for name in controls.DRAWER:
                    widgets[name] = controls.widget(name)
            gr.HTML("", elem_id="sd-pairs", apply_default_css=False)
    return prompt, widgets, run_button, stop_button, drawer, preset


def _wire_settings(widgets: dict[str, Any], preset: gr.Dropdown) -> None:
    """Presets and the bond T ≤ γ live in the browser."""
    options = [controls.preset_values(item) for item in controls.PRESETS]
    drafters = {pair: [drafter.name for drafter in spec.drafters] for pair, spec in PAIRS.items()}
    chosen = [widgets[name] for name in options[0]]
    preset.input(None, [preset, widgets["pair"], *chosen], chosen, js=scripts.choose(options, drafters))
    own = [  # a list tells of input also when somebody only passes by
        widget.select if isinstance(widget, gr.Dropdown) else widget.input for widget in (*chosen, widgets["pair"])
    ]
    gr.on(own, None, None, preset, js=scripts.constant(CUSTOM))
    gamma, steps = widgets["gamma"], widgets["steps"]
    gr.on([gamma.input, gamma.release], None, [gamma, steps], steps, js=scripts.KEEP_STEPS_BELOW_GAMMA)
    gr.on([steps.input, steps.release], None, [gamma, steps], gamma, js=scripts.KEEP_GAMMA_ABOVE_STEPS)


def from_link(request: gr.Request) -> Sequence[Any]:
    """What a share link puts on the page: Live's prompt, settings, preset and card; Race's prompt, methods, settings;
    and the tab to open. A link that does not work leaves everything as it is, but for its prompt and a card."""
    live: list[Any] = [gr.skip()] * (len(NAMES) + 3)
    raced: list[Any] = [gr.skip()] * (len(race.SETTINGS) + 3)
    query = dict(request.query_params)
    try:
        if (found := race.from_query(query)) is not None:
            raced = [*found, gr.Tabs(selected="race")]
        else:
            text, config = controls.from_query(query)
            live[0] = text if text is not None else gr.skip()
            if config:
                chosen = config.to_dict()
                live[1:-1] = [*(controls.shown(chosen[name]) for name in NAMES), CUSTOM]
    except Exception as error:  # shown as a card, logged by app/errors.py
        live[-1] = session.refusal(error)
        (raced if "methods" in query else live)[0] = query.get("prompt") or gr.skip()
    return [*live, *raced]


def _wire_pairs(page: gr.Blocks, widgets: dict[str, Any], drawer: gr.Accordion) -> None:
    """A pair brings its drafters; the open drawer asks which pairs can be used here."""
    reasons = next(block for block in page.blocks.values() if getattr(block, "elem_id", "") == "sd-pairs")

    def drafters_of(pair: str, drafter: str) -> Any:
        choices = controls.drafter_choices(pair)
        names = [name for _, name in choices]
        return gr.update(choices=choices, value=drafter if drafter in names else names[0])

    widgets["pair"].change(drafters_of, [widgets["pair"], widgets["drafter"]], widgets["drafter"], **QUIET)
    drawer.expand(look_for_pairs, None, [widgets["pair"], reasons], **QUIET)


def missing_pairs(look: Callable[[], dict[str, str]] = unavailable) -> dict[str, str]:
    """Pair name -> why it cannot be used here."""
    try:
        return look()
    except Exception as error:  # the page works without the answer; the log has the cause
        told = card(error, new_run_id())
        return {name: told["message"] for name in PAIRS if name != "embedded"}


def look_for_pairs(look: Callable[[], dict[str, str]] = unavailable) -> tuple[Any, str]:
    """Which pairs can be chosen here, and a disabled line with the reason for each that cannot."""
    missing = missing_pairs(look)
    lines = [
        element(
            "label",
            element("input", type="radio", disabled="disabled"),
            element(
                "span", element("b", text=PAIRS[name].label), element("small", text=f" Not available here: {reason}")
            ),
            class_="sd-pair-off",
            aria_disabled="true",
        )
        for name, reason in missing.items()
    ]
    return gr.update(choices=controls.pair_choices(missing)), "".join(lines)
