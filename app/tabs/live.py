"""The Live tab: one setting of one drafter against vanilla."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from app import controls, scripts
from app.content.examples import PRESETS
from app.controls import QUIET, Controls
from specdiff_core.schema.methods import two_lanes
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

TAB = "live"


def plan(values: Mapping[str, Any]) -> dict[str, DecodeConfig]:
    """The race of the Live tab and of ``/race``: a :data:`~app.run.worker.Planner`."""
    return two_lanes(controls.check_settings(values))


def place() -> Controls:
    """Place the controls, and wire what stays between them."""
    card = controls.place(TAB, tuple(SETTINGS), run="Run", drawer="All settings", line=controls.presets)
    widgets, preset = card.settings, card.beside
    options = [controls.preset_values(item) for item in PRESETS]
    drafters = {pair: [drafter.name for drafter in spec.drafters] for pair, spec in PAIRS.items()}
    chosen = [widgets[name] for name in options[0]]
    preset.input(None, [preset, widgets["pair"], *chosen], chosen, js=scripts.choose(options, drafters))
    own = [  # a list tells of input also when somebody only passes by
        widget.select if isinstance(widget, gr.Dropdown) else widget.input for widget in (*chosen, widgets["pair"])
    ]
    gr.on(own, None, None, preset, js=scripts.constant(controls.CUSTOM))
    gamma, steps = widgets["gamma"], widgets["steps"]
    gr.on([gamma.input, gamma.release], None, [gamma, steps], steps, js=scripts.KEEP_STEPS_BELOW_GAMMA)
    gr.on([steps.input, steps.release], None, [gamma, steps], gamma, js=scripts.KEEP_GAMMA_ABOVE_STEPS)
    both = [widgets["pair"], widgets["drafter"]]
    widgets["pair"].change(drafters_of, both, widgets["drafter"], **QUIET)
    widgets["drafter"].change(window_of, both, gamma, **QUIET).then(
        None, [*both, gamma], gamma, js=scripts.fit(LONGEST), show_progress="hidden", api_visibility="private"
    )
    return card


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
