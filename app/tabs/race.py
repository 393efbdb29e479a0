"""The Race tab: several methods on one prompt, and vanilla, their baseline, as the first lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from specdiff_core.explorations.fields import METHOD
from specdiff_core.schema import settings
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask, fields_of
from specdiff_core.schema.methods import METHODS, race_lanes
from specdiff_core.schema.settings import DecodeConfig, Rule

from .. import controls
from ..content.examples import OPENING

FEWEST, MOST = 1, 5
"""Methods of a race, besides vanilla."""
COUNT = f"{FEWEST} to {MOST} methods"
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
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError("The methods must be a list of names.", field="methods", hint=f"Name {COUNT}.")
    lanes = race_lanes(base, names)
    if not FEWEST < len(lanes) <= MOST + 1:
        raise ConfigError(
            f"A race takes {COUNT} besides vanilla; you chose {len(lanes) - 1}.",
            field="methods",
            hint="Choose a method." if len(lanes) < 2 else f"Leave out {len(lanes) - 1 - MOST}.",
        )
    return lanes


class _Raced(msgspec.Struct):
    methods: Annotated[
        tuple[METHOD, ...],
        ask(
            f"Methods, {FEWEST} to {MOST}",
            "Vanilla always runs: it is the baseline of every speed-up.",
        ),
    ] = ()


def form() -> dict[str, Any]:
    """The tab's form."""
    shared = [settings.SETTINGS[name] for name in SETTINGS]
    opening = DecodeConfig(pair=OPENING.pair).to_dict() | {"methods": DEFAULT[OPENING.pair]}
    made = controls.form(
        [fields_of(_Raced)["methods"], *shared],
        opening,
        run="Run race",
        drawer="Methods and settings",
        usual=DEFAULT,
    )
    by_name = {field["name"]: field for field in made["fields"]}
    by_name["methods"]["labels"] = {method.name: method.label for method in METHODS}
    by_name["rule"]["choices"] = RULES
    return made
