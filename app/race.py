"""The Race tab's controls, and what a race of several methods decodes. Knows methods and widgets, no run, no drawing.

Vanilla is the baseline of every race: it always runs, first, and cannot be taken off the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import controls, scripts
from app.html import element
from app.session import Plan
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import BASELINE, METHODS, methods_of, race_lanes
from specdiff_core.schema.pairs import PAIRS

FEWEST, MOST = 2, 6
"""Lanes of a race, vanilla among them."""
DEFAULT = ("autoregressive", "specdiff", "dflash")
RULES = ("ratio", "match")
"""Rules that keep the target's law for every method."""
PATIENCE = 6.0
"""Seconds that a stopped race gets for its last frame: the trace of all its lanes is packed first."""
SETTINGS = ("temperature", "rule", "max_new_tokens", "seed", "pair")
"""What a visitor chooses for all lanes alike, in the order of the widgets."""
PAIR = SETTINGS.index("pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The widgets of the tab."""

    prompt: gr.Textbox
    methods: gr.components.Component
    settings: tuple[gr.components.Component, ...]  # as SETTINGS
    run: gr.Button
    stop: gr.Button
    queue: gr.HTML


def plan(values: Mapping[str, Any]) -> Plan:
    """Untrusted values (``methods`` and :data:`SETTINGS`) as the lanes of a race, each named by its method.

    Raises:
        ConfigError: too few or too many methods, one that the pair has not, or a setting that does not work.
    """
    base = controls.check_settings({name: values[name] for name in SETTINGS if name in values} | {"drafter": "none"})
    if base.rule.value not in RULES:
        raise ConfigError(
            f"A race does not take the rule {base.rule.value!r}.", field="rule", hint=f"Choose {' or '.join(RULES)}."
        )
    asked = values.get("methods")
    if not isinstance(asked, (list, tuple)) or not all(isinstance(name, str) for name in asked):
        raise ConfigError(
            "The methods must be a list of names.",
            field="methods",
            hint=f"Name {FEWEST - 1} to {MOST - 1} besides vanilla.",
        )
    lanes = race_lanes(base, asked)
    if not FEWEST <= len(lanes) <= MOST:
        raise ConfigError(
            f"A race takes {FEWEST} to {MOST} methods, vanilla among them; {len(lanes)} "
            f"{'is' if len(lanes) == 1 else 'are'} chosen.",
            field="methods",
            hint="Choose another method." if len(lanes) < FEWEST else f"Leave out {len(lanes) - MOST}.",
        )
    return Plan(lanes, apart=True)


def from_query(query: Mapping[str, str]) -> list[Any] | None:
    """What a link to a race puts into the prompt, the methods and the :data:`SETTINGS`; None for any other link.

    Raises:
        ConfigError: the link asks for a race that does not work.
    """
    if "methods" not in query:
        return None
    values = {name: query[name] for name in SETTINGS if name in query}
    lanes = plan({**values, "methods": [name for name in query["methods"].split(",") if name]}).lanes
    told = lanes[BASELINE].to_dict()
    return [
        query.get("prompt", gr.skip()),
        gr.update(choices=choices(told["pair"]), value=[name for name in lanes if name != BASELINE]),
        *(controls.shown(told[name]) for name in SETTINGS),
    ]


def visitor(session: str | None) -> str:
    """The name under which a visitor's race can be stopped; the Live tab's run has another."""
    return f"{session}/race" if session else ""


def choices(pair: str) -> list[tuple[str, str]]:
    """(label, name) of what may race against vanilla."""
    return [(method.label, method.name) for method in methods_of(pair) if method.name != BASELINE]


def known_methods() -> dict[str, dict[str, str]]:
    """Method name -> its words, for the player: traces name lanes only."""
    return {method.name: {"label": method.label, "paper": method.paper} for method in METHODS}


def place() -> Controls:
    """Place the widgets, inside the tab."""
    with gr.Column(elem_id="race-controls", elem_classes=["race-controls"]):
        with gr.Row(elem_id="race-row"):
            with gr.Column(scale=5, min_width=280):
                prompt = gr.Textbox(
                    controls.EXAMPLES[0].prompt, label="Prompt", lines=2, max_lines=4, elem_id="race-prompt"
                )
                with gr.Row(elem_id="race-examples"):
                    for example in controls.EXAMPLES:
                        chip = gr.Button(
                            example.flavour, size="sm", scale=0, min_width=60, elem_classes=["sd-chip-button"]
                        )
                        chip.click(None, None, prompt, js=scripts.constant(example.prompt))
            with gr.Column(scale=6, min_width=280, elem_id="race-choice"):
                gr.HTML(_baseline(), elem_id="race-baseline", apply_default_css=False)
                methods = controls.unjudged(
                    gr.CheckboxGroup(
                        choices=choices("embedded"),
                        value=list(DEFAULT),
                        label=f"Methods that race against vanilla, {FEWEST - 1} to {MOST - 1}",
                        elem_id="race-methods",
                    )
                )
            with gr.Column(scale=1, min_width=128, elem_id="race-run-column"):
                run = gr.Button("Run race", variant="primary", elem_id="race-run")
                stop = gr.Button("Stop", elem_id="race-stop")
        with gr.Row(elem_id="race-settings"):
            settings = tuple(_widget(name) for name in SETTINGS)
        queue = gr.HTML("", elem_id="race-queue", apply_default_css=False)
    pair = settings[PAIR]
    pair.change(  # type: ignore[attr-defined]
        methods_here, [pair, methods], methods, show_progress="hidden", api_visibility="private", queue=False
    )
    return Controls(prompt=prompt, methods=methods, settings=settings, run=run, stop=stop, queue=queue)


def methods_here(pair: str, chosen: list[str]) -> Any:
    """The list of methods for another pair; what it has of the choice stays."""
    offered = choices(pair)
    kept = [name for _, name in offered if name in chosen]
    return gr.update(choices=offered, value=kept or [name for _, name in offered][: FEWEST - 1])


def pairs_here(missing: Mapping[str, str], chosen: str) -> Any:
    """The list of pairs, without those that are ``missing`` here; why, Live's drawer says at length. What is ``chosen``
    stays: a pair that is loaded leaves too little memory for itself."""
    missing = {name: reason for name, reason in missing.items() if name != chosen}
    words = f"Not available here: {', '.join(PAIRS[name].label for name in missing)}. Live's settings say why."
    usual = controls.FIELDS["pair"].metadata["help"]
    return gr.update(choices=controls.pair_choices(missing), info=words if missing else usual)


def _widget(name: str) -> gr.components.Component:
    widget = controls.widget(name, prefix="race")
    if name == "rule":
        widget.choices = [item for item in widget.choices if item[1] in RULES]  # type: ignore[attr-defined]
    return widget


def _baseline() -> str:
    """The baseline's own chip: ticked, and nothing to click."""
    return element(
        "p",
        element("b", element("span", text="✓", aria_hidden="true"), text="Vanilla "),
        element("span", text="always runs, and is measured first: it is the baseline of every speed-up."),
        class_="race-baseline",
    )
