"""The Live tab: one setting of one drafter against vanilla."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.own_pairs import KINDS, OwnPair, parse
from specdiff_core.schema.fields import fields_of
from specdiff_core.schema.methods import two_lanes
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

from .. import controls, own_pairs
from ..content.examples import DARES, OPENING, PRESETS
from ..run.progress import Progress

KNOBS: dict[str, list[str]] = {"gamma": ["window"], "steps": ["window", "gamma"], "temperature": []}
"""The main settings of the page, which get a slider -> what limits each."""


def plan(values: Mapping[str, Any]) -> dict[str, DecodeConfig]:
    """The lanes of the Live tab and of ``/race``, from untrusted values; raises ConfigError."""
    return two_lanes(controls.check_settings(values))


def form() -> dict[str, Any]:
    """The tab's form."""
    dares = [
        (dare.label, {"prompt": dare.prompt} if dare.prompt else {"temperature": dare.temperature}) for dare in DARES
    ]
    made = controls.form(
        SETTINGS.values(),
        OPENING.to_dict(),
        run="Run",
        drawer="Settings",
        dares=dares,
        presets=[(preset.label, controls.preset_values(preset)) for preset in PRESETS],
        own=own_fields() if own_pairs.patterns() else [],
    )
    for field in made["fields"]:
        if field["name"] in KNOBS:
            field |= {"step": SETTINGS[field["name"]].step, "within": KNOBS[field["name"]]}
    return made


OWN_FIELDS = {
    "target": ("Target", "owner/name, or a folder"),
    "drafter": ("Drafter", "empty: only prompt lookup"),
    "shift": ("Shift", "0 or 1, if its files don’t say"),
    "mask_id": ("Mask id", "if its config has none"),
    "context": ("Context", "in tokens; default: the target’s, up to 4096"),
    "kind": ("Kind of drafter", ""),
}
"""Field of :class:`~specdiff_core.checkpoints.own_pairs.OwnPair` -> label and meaning on the page."""


def own_fields() -> list[dict[str, Any]]:
    """The form for a visitor's own pair."""
    declared = fields_of(OwnPair)
    fields = [
        declared[name].form() | {"title": title, "about": words, "long": False}
        for name, (title, words) in OWN_FIELDS.items()
    ]
    fields[-1] |= {"choices": ["", *KINDS], "labels": {"": "read from its config"}}
    return fields


def choose_own(values: Mapping[str, Any], progress: Progress) -> str:
    """Look up a visitor's own pair, reporting downloads; returns its name.

    Raises:
        SpecDiffError: as :func:`app.own_pairs.check`.
    """
    name = parse(dict(values)).name
    with hub.reporting(progress):
        own_pairs.check(name, downloads=True)
    return name
