"""Settings in words, for the page, its API, reports and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdiff_core.schema.fields import Field
from specdiff_core.schema.pairs import PAIRS, drafter_names


def values_words(field: Field) -> str:
    """The values of a field: ``1 to 32``, or the names to choose from."""
    names = {} if field.choices or field.longest else {"pair": list(PAIRS), "drafter": drafter_names()}
    return ", ".join(names.get(field.name, [])) or field.range


def denoises(drafter: str) -> bool:
    """Whether the drafter of this name uses T; True for unknown drafters."""
    kinds = {spec.drafting for pair in PAIRS.values() for spec in pair.drafters if spec.name == drafter}
    return "denoise" in kinds or not kinds


def settings_words(config: Mapping[str, Any]) -> str:
    """``γ 9, T 1``; for a tree ``γ 9, B 16``, for several drafts ``γ 9, K 4 self``. ``≤`` marks a
    controller's limit, T appears only if the drafter denoises, and vanilla gives an empty string.

    Args:
        config: fields of :class:`~specdiff_core.schema.settings.DecodeConfig`; an older trace may lack some.
    """
    if config.get("drafter", "none") == "none" or "gamma" not in config:
        return ""

    def number(name: str) -> int:  # a foreign trace may contain anything
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
