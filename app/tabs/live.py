"""The Live tab: one setting of one drafter against vanilla."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from app import controls, own_pairs, scripts
from app.content.error_cards import card, new_run_id
from app.content.examples import PRESETS
from app.content.html import element
from app.controls import QUIET, Controls
from specdiff_core.models.own_pairs import KINDS, parse
from specdiff_core.schema.methods import two_lanes
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

TAB = "live"


def plan(values: Mapping[str, Any]) -> dict[str, DecodeConfig]:
    """The race of the Live tab and of ``/race``: a :data:`~app.run.worker.Planner`."""
    return two_lanes(controls.check_settings(values))


def place() -> Controls:
    """Place the controls, and wire what stays between them."""
    own = controls.place(TAB, tuple(SETTINGS), run="Run", drawer="All settings", line=controls.presets, last=own_pair)
    widgets, preset = own.settings, own.beside
    options = [controls.preset_values(item) for item in PRESETS]
    drafters = {pair: [drafter.name for drafter in spec.drafters] for pair, spec in PAIRS.items()}
    chosen = [widgets[name] for name in options[0]]
    preset.input(None, [preset, widgets["pair"], *chosen], chosen, js=scripts.choose(options, drafters))
    touched = [  # a list tells of input also when somebody only passes by
        widget.select if isinstance(widget, gr.Dropdown) else widget.input for widget in (*chosen, widgets["pair"])
    ]
    gr.on(touched, None, None, preset, js=scripts.constant(controls.CUSTOM))
    gamma, steps = widgets["gamma"], widgets["steps"]
    gr.on([gamma.input, gamma.release], None, [gamma, steps], steps, js=scripts.KEEP_STEPS_BELOW_GAMMA)
    gr.on([steps.input, steps.release], None, [gamma, steps], gamma, js=scripts.KEEP_GAMMA_ABOVE_STEPS)
    both = [widgets["pair"], widgets["drafter"]]
    widgets["pair"].change(drafters_of, both, widgets["drafter"], **QUIET)
    widgets["drafter"].change(window_of, both, gamma, **QUIET).then(
        None, [*both, gamma], gamma, js=scripts.fit(LONGEST), show_progress="hidden", api_visibility="private"
    )
    return own


def own_pair(settings: Mapping[str, Any]) -> None:
    """The form for a pair of one's own, where anything may be brought; its button chooses the pair."""
    if not own_pairs.patterns():
        return
    with gr.Accordion("Bring your own pair", open=False, elem_id="live-own", elem_classes=["sd-own"]):
        with gr.Row():
            fields: dict[str, Any] = {
                name: gr.Textbox(label=label, placeholder=about, max_lines=1, elem_id=f"own-{name}", min_width=190)
                for name, (label, about) in OWN_FIELDS.items()
            }
            kinds = [("as its config says", ""), *((name, name) for name in KINDS)]
            fields["kind"] = gr.Dropdown(
                kinds, value="", label="Kind of drafter", filterable=False, elem_id="own-kind", min_width=190
            )
        use = gr.Button("Use this pair", size="sm", elem_id="own-use", scale=0)
        told = gr.HTML("", elem_id="own-told", apply_default_css=False)

    def choose(*values: Any) -> tuple[Any, str]:
        return brought(dict(zip(fields, values, strict=True)))

    use.click(choose, [*fields.values()], [settings["pair"], told], **QUIET)


OWN_FIELDS = {
    "target": ("Target", "owner/name, or a folder"),
    "drafter": ("Drafter", "empty: prompt lookup only"),
    "shift": ("Shift", "0 or 1, where its files do not say"),
    "mask_id": ("Mask id", "where its config names none"),
    "context": ("Context", "tokens; the target's, at most 4096"),
}
"""Field of :class:`~specdiff_core.models.own_pairs.OwnPair` -> label, and what an empty box says."""


def brought(values: Mapping[str, Any]) -> tuple[Any, str]:
    """The update of the list of pairs, and what to say below the form."""
    try:
        name = parse(dict(values)).name
        own_pairs.check(name)
    except Exception as error:  # shown where the visitor looks; logged by content/error_cards.py
        shown = card(error, new_run_id())
        return gr.skip(), element("p", text=f"{shown['message']} {shown['hint']}", class_="sd-own-refused")
    words = "Chosen. Its weights are loaded at the first run."
    return gr.update(choices=controls.pair_choices({}, name), value=name), element("p", text=words)


def drafters_of(pair: str, drafter: str) -> Any:
    """A pair brings its drafters."""
    choices = controls.drafter_choices(pair)
    names = [name for _, name in choices]
    return gr.update(choices=choices, value=drafter if drafter in names else names[0])


def window_of(pair: str, drafter: str) -> Any:
    """A drafter brings the longest window that it was trained for."""
    return gr.update(maximum=controls.longest_window(pair, drafter))


LONGEST = {
    pair: {drafter.name: controls.longest_window(pair, drafter.name) for drafter in spec.drafters}
    for pair, spec in PAIRS.items()
}
"""Pair -> drafter -> the largest γ that it takes."""


def from_query(query: Mapping[str, str]) -> list[Any] | None:
    """What a link puts into the prompt and the settings; None for a link without any.

    Raises:
        ConfigError: the link holds a setting that does not work.
    """
    known = {name: query[name] for name in SETTINGS if name in query}
    if not known and "prompt" not in query:
        return None
    values: list[Any] = [gr.skip()] * len(SETTINGS)
    if known:
        config = controls.check_settings(known).to_dict()
        values = [controls.shown(config[name]) for name in SETTINGS]
    return [query.get("prompt", gr.skip()), *values]
