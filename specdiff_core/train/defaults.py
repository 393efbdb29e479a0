"""What ``train`` does where no flag says otherwise, by part, in the order in which a pair is made. Plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from specdiff_core.schema.pairs import ASSETS

EMBEDDED = ASSETS / "embedded"
"""Where the embedded pair lies, part by part."""

TEMPERATURES = (0.0, 0.0, 0.7, 1.0)
"""Which the texts that the target writes take in turn: greedily twice as often as each of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Of one part; 0 where a number means nothing to it."""

    steps: int = 0
    warmup: int = 0  # steps
    batch_tokens: int = 0  # per step
    layers: int = 0


PARTS = {
    "tokenizer": Defaults(),
    "target": Defaults(steps=4000, warmup=50, batch_tokens=4096, layers=16),
    "written": Defaults(),
    "mdlm": Defaults(steps=4000, warmup=50, batch_tokens=4096, layers=4),
    "block": Defaults(steps=4000, warmup=100, batch_tokens=2560, layers=3),
    "autoregressive": Defaults(steps=4000, warmup=50, batch_tokens=4096, layers=2),
    "eagle": Defaults(steps=4000, warmup=50, batch_tokens=3072),
}


def told(name: str) -> str:
    """For ``--help``: the default ``name`` of each part that has one, parts that agree together."""
    by: dict[int, list[str]] = {}
    for part, defaults in PARTS.items():
        if value := getattr(defaults, name):
            by.setdefault(value, []).append(part)
    if len(by) == 1:
        return f"[default {next(iter(by))}]"
    return "[default " + ", ".join(f"{value} for {' and '.join(parts)}" for value, parts in by.items()) + "]"
