"""The settings of ``train drafter``, which are also its flags. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.options import flag, read_options


def field(description: str, **limits: Any) -> Meta:
    """What a setting is, and which values it may have."""
    return Meta(description=description, **limits)


class DrafterSettings(msgspec.Struct, frozen=True, kw_only=True):
    kind: Annotated[Literal["block", "eagle"], field("block diffusion (DFlash), or an EAGLE layer")] = "block"
    hours: Annotated[float, field("hours for answers and training, of a GPU or each CPU thread", gt=0, le=10_000)] = 8.0
    answering: Annotated[float, field("share of them in which the target writes answers", ge=0, lt=1)] = 0.35
    finish: Annotated[float, field("share of the training with a falling learning rate", ge=0, le=1)] = 0.33
    rate: Annotated[float, field("multiple of the usual learning rates", gt=0, le=100)] = 1.0
    minutes: Annotated[float, field("minutes of training between two measurements of τ", gt=0, le=600_000)] = 20.0
    block: Annotated[int, field("tokens of a draft (γ)", ge=1, le=32)] = 8
    layers: Annotated[int, field("layers of a block drafter", ge=1, le=64)] = 1
    taps: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        field("layers of the target that a block drafter reads, from 0 [default: at 28, 62 and 93 % of its depth]"),
    ] = ()
    words: Annotated[int, field("words of a block drafter, the most frequent of the target", ge=64, le=2**24)] = 16_384
    markov: Annotated[int, field("width of a block drafter's Markov head; 0 for none", ge=0, le=4096)] = 128
    new_tokens: Annotated[int, field("tokens of an answer, at most", ge=8, le=2**20)] = 200
    longest: Annotated[int, field("tokens of a prompt; longer ones are left out", ge=1, le=2**20)] = 192
    temperatures: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=2)], ...],
        field("temperatures of the answers, each used as often; 0 is greedy", min_length=1),
    ] = (0.0, 0.7)
    slots: Annotated[int, field("answers that are written at once", ge=1, le=65_536)] = 96
    rows: Annotated[int, field("answers in a training step", ge=1, le=65_536)] = 24
    anchors: Annotated[int, field("blocks in each of these answers", ge=1, le=4096)] = 24
    whole: Annotated[float, field("share of the blocks that are all masks, as with T = 1", ge=0, le=1)] = 0.75
    tables: Annotated[bool, field("store the target's embedding and head too, as serving engines need")] = True
    seed: Annotated[int, field("seed of everything that is drawn", ge=0, lt=2**31)] = 0


SHAPE = ("kind", "block", "layers", "taps", "words", "markov")
"""Settings that a drafter keeps once it has weights."""


def open_run(out: Path, given: Mapping[str, Any], *, resume: bool) -> DrafterSettings:
    """The settings of the run in ``out/run``: those ``given`` over the defaults, or over those that a resumed run had.

    Raises:
        ConfigError: a setting is impossible, there is a run already, or its drafter has another shape.
    """
    path, before = out / "run" / "settings.json", None
    if path.exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already.", field="out", hint="Give --resume, or another --out.")
        try:
            before = msgspec.json.decode(path.read_bytes(), type=DrafterSettings)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path} is damaged ({error}).", field="out", hint="Give another --out.") from error
    settings = read_options(DrafterSettings, given, before)
    if before is not None and (out / "run" / "checkpoint.pt").exists():
        for name in SHAPE:
            old, new = getattr(before, name), getattr(settings, name)
            if old != new:
                what = f"The drafter in {out} was begun with {flag(name)} {old}; it can't become {new}."
                raise ConfigError(what, field=name, hint="Leave that flag out, or give another --out.")
    return settings
