"""The Live tab: one setting of one drafter against vanilla."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from specdiff_core.models import hub
from specdiff_core.models.own_pairs import KINDS, parse
from specdiff_core.schema.methods import two_lanes
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

from .. import controls, own_pairs, scripts
from ..content.error_cards import card, new_run_id
from ..content.examples import DARES, PRESETS, preset_indices
from ..content.html import element
from ..controls import QUIET, UNLIMITED, Controls
from ..run.engines import Progress, with_progress

TAB = "live"
KNOBS = ("gamma", "steps", "temperature")
"""The main settings of the page."""


def plan(values: Mapping[str, Any]) -> dict[str, DecodeConfig]:
    """The lanes of the Live tab and of ``/race``, from untrusted values; raises ConfigError."""
    return two_lanes(controls.check_settings(values))


def build() -> Controls:
    """Place the controls, and wire those that depend on each other."""
    form = Controls(
        TAB,
        tuple(SETTINGS),
        run="Run",
        drawer="Settings",
        method=controls.presets,
        front=KNOBS,
        dares=DARES,
        last=own_pair,
    )
    widgets, preset = form.settings, form.method
    pair = widgets["pair"]
    chosen = [widgets[name] for name in controls.preset_values(PRESETS[0])]
    preset.input(preset_updates, [preset, pair], chosen, **QUIET)
    touched = [  # a dropdown also fires `input` when it only loses the focus
        widget.select if isinstance(widget, gr.Dropdown) else widget.input for widget in chosen
    ]
    gr.on(touched, None, None, preset, js=f"() => '{controls.CUSTOM}'")
    gamma, steps = widgets["gamma"], widgets["steps"]
    models, window = [pair, widgets["drafter"]], [gamma, steps]
    knobs = [gamma.input, gamma.release, steps.input, steps.release]
    gr.on(knobs, None, window, steps, js=scripts.STEPS)
    pair.select(first_preset, [pair, preset], [preset, *chosen], **QUIET)
    pair.change(presets_here, pair, preset, **QUIET)
    pair.change(drafter_update, models, widgets["drafter"], **QUIET)
    gr.on([pair.change, widgets["drafter"].change], window_updates, [*models, *window], window, **QUIET)
    return form


def presets_here(pair: str) -> Any:
    """The list of a pair's presets; the chosen one stays."""
    return gr.update(choices=controls.preset_choices(pair))


def preset_updates(preset: str, pair: str) -> list[Any]:
    """The settings of a preset, with the pair's own drafter of that kind; custom settings stay."""
    presets = {str(index): PRESETS[index] for index in preset_indices(pair)}
    if preset not in presets:
        return [gr.skip()] * len(controls.preset_values(PRESETS[0]))
    values = controls.preset_values(presets[preset])
    drafter = find_pair(pair).drafter_for(values["drafter"])
    return [*{**values, "drafter": drafter.name if drafter else gr.skip()}.values()]


def first_preset(pair: str, chosen: str) -> list[Any]:
    """The first preset of another pair, and its settings. The chosen preset stays if the pair has
    it, and so do custom settings."""
    choices = controls.preset_choices(pair)
    first = choices[0][1]
    if chosen in [name for _, name in choices]:
        return [gr.skip(), *preset_updates(controls.CUSTOM, pair)]
    return [gr.update(choices=choices, value=first), *preset_updates(first, pair)]


def own_pair(settings: Mapping[str, Any]) -> None:
    """The form for a visitor's own pair, if the server allows any; its button chooses it."""
    if not own_pairs.patterns():
        return
    with gr.Accordion("Use your own pair", open=False, elem_id="live-own", elem_classes=["sd-own"]):
        with gr.Row():
            fields: dict[str, Any] = {
                name: gr.Textbox(label=label, placeholder=about, max_lines=1, elem_id=f"own-{name}", min_width=190)
                for name, (label, about) in OWN_FIELDS.items()
            }
            kinds = [("read from its config", ""), *((name, name) for name in KINDS)]
            fields["kind"] = gr.Dropdown(
                kinds, value="", label="Kind of drafter", filterable=False, elem_id="own-kind", min_width=190
            )
        with gr.Row():
            use = gr.Button("Use this pair", size="sm", elem_id="own-use", scale=0)
            stop = gr.Button("Stop", size="sm", elem_id="own-stop", scale=0, visible=False)
        message = gr.HTML("", elem_id="own-message", apply_default_css=False)

    def choose(*values: Any) -> Iterator[tuple[Any, ...]]:
        for update, words in choose_own(dict(zip(fields, values, strict=True))):
            yield update, words, gr.update(visible="value" not in update and "sd-own-refused" not in words)

    chosen = use.click(choose, [*fields.values()], [settings["pair"], message, stop], **UNLIMITED)
    stopped = element("p", text="Stopped. The next download continues from here.")
    stop.click(lambda: (stopped, gr.update(visible=False)), None, [message, stop], cancels=[chosen], **QUIET)


OWN_FIELDS = {
    "target": ("Target", "owner/name, or a folder"),
    "drafter": ("Drafter", "empty: only prompt lookup"),
    "shift": ("Shift", "0 or 1, if its files don't say"),
    "mask_id": ("Mask id", "if its config has none"),
    "context": ("Context", "in tokens; default: the target's, up to 4096"),
}
"""Field of :class:`~specdiff_core.models.own_pairs.OwnPair` -> label and placeholder."""


def choose_own(values: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Updates of the list of pairs, each with a message below the form: about a download, then the result."""
    try:
        name = parse(dict(values)).name

        def look_up(progress: Progress) -> None:
            with hub.reporting(progress):
                own_pairs.check(name, downloads=True)

        for message in with_progress(look_up):
            yield gr.skip(), element("p", text=message)
    except Exception as error:  # shown below the form; logged by content/error_cards.py
        failure = card(error, new_run_id())
        yield gr.skip(), element("p", text=f"{failure['message']} {failure['hint']}", class_="sd-own-refused")
        return
    words = "Selected. Its weights load when you first run it."
    yield gr.update(choices=controls.pair_choices({}, name), value=name), element("p", text=words)


def drafter_update(pair: str, drafter: str) -> Any:
    """The drafters of a pair; the chosen one stays if the pair has it."""
    choices = controls.drafter_choices(pair)
    names = [name for _, name in choices]
    return gr.update(choices=choices) if drafter in names else gr.update(choices=choices, value=names[0])


def window_updates(pair: str, drafter: str, *values: int | None) -> list[Any]:
    """The maximum of γ and T, the drafter's longest window; larger values become it."""
    most = controls.longest_window(pair, drafter)
    kept, cut = gr.update(maximum=most), gr.update(maximum=most, value=most)
    return [cut if (value or 0) > most else kept for value in values]


def from_query(query: Mapping[str, str]) -> dict[str, Any]:
    """The prompt and all settings in a link, by name; of a link without settings only the prompt.

    Raises:
        ConfigError: the link holds a setting that does not work.
    """
    values = {name: query[name] for name in SETTINGS if name in query}
    if not values:
        return {name: query[name] for name in ("prompt",) if name in query}
    config = controls.check_settings(values)
    return {"prompt": controls.linked_prompt(query, config.pair), **controls.widget_values(config)}
