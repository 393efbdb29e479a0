"""The Race tab: two to six methods on one prompt. Vanilla, the baseline, always runs, first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import BASELINE, methods_of, race_lanes
from specdiff_core.schema.settings import DecodeConfig, Rule

from .. import controls
from ..content.examples import OPENING
from ..content.html import element
from ..controls import QUIET, Controls

TAB = "race"
FEWEST, MOST = 1, 5
"""Methods of a race, besides vanilla."""
DEFAULT = {
    "smollm2": ("prompt_lookup", "specdiff", "dflash", "ddtree", "markov_tree"),
    "embedded": ("autoregressive", "eagle", "specdiff", "dflash", "ddtree"),
}
"""The methods in a pair's recorded races."""
RULES = tuple(rule.value for rule in Rule if rule.lossless)
"""Rules that are lossless with every method."""
SETTINGS = ("temperature", "rule", "max_new_tokens", "seed", "pair")
"""Settings shared by all lanes, in the order of the widgets."""


def plan(values: Mapping[str, Any]) -> dict[str, DecodeConfig]:
    """The lanes of a race of several methods, from untrusted values; each is named by its method.

    Raises:
        ConfigError: too few or too many methods, one that the pair lacks, or an invalid setting.
    """
    base = controls.check_settings({name: values[name] for name in SETTINGS if name in values} | {"drafter": "none"})
    if base.rule.value not in RULES:
        hint = f"Choose one of: {', '.join(RULES)}."
        raise ConfigError(f"A race does not support the rule {base.rule.value!r}.", field="rule", hint=hint)
    names = values.get("methods")
    count = f"{FEWEST} to {MOST} methods besides vanilla"
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError("The methods must be a list of names.", field="methods", hint=f"Name {count}.")
    lanes = race_lanes(base, names)
    if not FEWEST < len(lanes) <= MOST + 1:
        raise ConfigError(
            f"A race takes {count}; you chose {len(lanes) - 1}.",
            field="methods",
            hint="Choose a method." if len(lanes) < 2 else f"Leave out {len(lanes) - 1 - MOST}.",
        )
    return lanes


def build() -> Controls:
    """Place the controls, and connect the pair to the list of methods."""
    form = Controls(TAB, SETTINGS, run="Run race", drawer="Methods and settings", first={"methods": _methods})
    rule, pair, methods = form.settings["rule"], form.settings["pair"], form.settings["methods"]
    rule.choices = [item for item in rule.choices if item[1] in RULES]
    pair.change(methods_here, [pair, methods], methods, **QUIET)
    return form


def _methods() -> gr.components.Component:
    words = element("span", text="Vanilla always runs, and is measured first: it is the baseline of every speed-up.")
    gr.HTML(element("p", element("b", text="✓ Vanilla "), words, class_="race-baseline"), apply_default_css=False)
    return gr.CheckboxGroup(
        choices=choices(OPENING.pair),
        value=list(DEFAULT[OPENING.pair]),
        label=f"Methods that race against vanilla, {FEWEST} to {MOST}",
        elem_id="race-methods",
    )


def choices(pair: str) -> list[tuple[str, str]]:
    """(label, name) of the methods that can race against vanilla."""
    return [(method.label, method.name) for method in methods_of(pair) if method.name != BASELINE]


def methods_here(pair: str, chosen: list[str]) -> Any:
    """The list of methods for another pair, which keeps the chosen ones that it has, unless they are the defaults."""
    offered = choices(pair)
    is_default = any(sorted(chosen) == sorted(names) for names in DEFAULT.values())
    kept = DEFAULT[pair] if is_default and pair in DEFAULT else [name for _, name in offered if name in chosen]
    return gr.update(choices=offered, value=list(kept) or [name for _, name in offered][:FEWEST])


def from_query(query: Mapping[str, str]) -> dict[str, Any]:
    """The prompt, methods and settings in a link to a race, by name.

    Raises:
        ConfigError: the link's race is invalid.
    """
    values = {name: query[name] for name in SETTINGS if name in query}
    lanes = plan({**values, "methods": [name for name in query["methods"].split(",") if name]})
    config = lanes[BASELINE]
    methods = gr.update(choices=choices(config.pair), value=[name for name in lanes if name != BASELINE])
    prompt = controls.linked_prompt(query, config.pair)
    return {"prompt": prompt, "methods": methods, **controls.widget_values(config)}
