"""Settings in words: the same on the page, in its API, in reports and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdiff_core.schema.pairs import PAIRS, drafter_names
from specdiff_core.schema.settings import SETTINGS


def values_words(name: str) -> str:
    """What a setting can be: ``1 to 32``, or its names; for the pair and the drafter those that exist now.

    Raises:
        KeyError: there is no such setting.
    """
    names = {"pair": list(PAIRS), "drafter": drafter_names()}
    return ", ".join(names.get(name, [])) or SETTINGS[name].range


def denoises(drafter: str) -> bool:
    """Whether T means anything to the drafter of this name. A drafter that no pair has here is taken to denoise."""
    kinds = {spec.drafting for pair in PAIRS.values() for spec in pair.drafters if spec.name == drafter}
    return "denoise" in kinds or not kinds


def settings_words(config: Mapping[str, Any]) -> str:
    """``γ 9, T 1``; of a tree ``γ 9, B 16``, of several drafts ``γ 9, K 4 self``. ``≤`` stands where a controller
    chooses, T only where the drafter denoises, and vanilla has no words.

    Args:
        config: fields of :class:`~specdiff_core.schema.settings.DecodeConfig`; an older trace may lack some.
    """
    if config.get("drafter", "none") == "none" or "gamma" not in config:
        return ""

    def number(name: str) -> int:  # a foreign trace may hold anything
        value = config.get(name)
        return value if isinstance(value, int) else 0

    most = "≤ " if config.get("auto") else ""
    words = [f"γ {most}{config['gamma']}"]
    if nodes := number("tree_nodes"):
        words.append(f"B {most}{nodes}")
    elif (drafts := number("num_drafts")) > 1:
        words.append(f"K {drafts} {config.get('selection', 'self')}".replace("_", "-"))
    elif denoises(config["drafter"]) and ((steps := number("steps") or 1) > 1 or not most):
        words.append(f"T {most}{steps}")
    return ", ".join(words)
