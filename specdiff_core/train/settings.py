"""The settings of ``train drafter``, which are also its flags. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import flag, option, parse


class DrafterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``train drafter`` makes, from which answers, and for how long. The names are flags, and are stored in
    ``run/settings.json``."""

    kind: Annotated[
        Literal["block", "eagle", "masked", "autoregressive"],
        option("block diffusion (DFlash), an EAGLE layer, masked diffusion (SpecDiff), or a small causal Llama"),
    ] = "block"
    start: Annotated[
        str, option("folder of a block or masked drafter to begin with, which sets --kind, --block, --layers and such")
    ] = ""
    hours: Annotated[
        float, option("time for answers and training, in hours of a GPU or of each thread", above=0, high=10_000)
    ] = 8.0
    tokens: Annotated[
        int, option("train on this many tokens of answers, however long it takes; 0: as long as --hours", 0, 2**50)
    ] = 0
    answering: Annotated[float, option("share of --hours in which the target writes answers", 0, 0.99)] = 0.35
    finish: Annotated[
        float, option("last share of the training, with a falling learning rate and total variation in the loss", 0, 1)
    ] = 0.33
    rate: Annotated[float, option("multiple of the usual learning rates", above=0, high=100)] = 1.0
    minutes: Annotated[float, option("minutes of training between measurements of τ", above=0, high=600_000)] = 20.0
    block: Annotated[int, option("γ: tokens of a draft", 1, 32)] = 8
    layers: Annotated[int, option("new layers of a drafter", 1, 64)] = 1
    taps: Annotated[
        tuple[Annotated[int, option(low=0)], ...],
        option("layers of the target that a block drafter reads, from 0 [default: at 28, 62 and 93 % of its depth]"),
    ] = ()
    cut: Annotated[
        tuple[Annotated[int, option(low=0)], ...],
        option("layers of the target, from 0, that a masked or autoregressive drafter copies, in place of --layers"),
    ] = ()
    align: Annotated[
        Literal["none", "streak"],
        option("how positions of a window weigh: as in D-PACE, or as in streak-distillation (SpecDiff-2)"),
    ] = "none"
    words: Annotated[
        int, option("tokens in the vocabulary of a block or masked drafter, the target's commonest", 64, 2**24)
    ] = 16_384
    markov: Annotated[int, option("rank of a block drafter's Markov head (DSpark's); 0 for none", 0, 4096)] = 128
    only: Annotated[Literal["all", "head"], option("the weights that learn: all, or only a Markov head's")] = "all"
    new_tokens: Annotated[int, option("tokens of an answer, at most", 8, 2**20)] = 200
    longest: Annotated[int, option("tokens of a prompt, at most; longer ones are left out", 1, 2**20)] = 192
    temperatures: Annotated[
        tuple[Annotated[float, option(low=0, high=2)], ...],
        option("a prompt is answered at each of these temperatures; 0 is greedy", least=1),
    ] = (0.0, 0.7)
    slots: Annotated[int, option("answers that the target writes in parallel", 1, 65_536)] = 96
    rows: Annotated[int, option("answers in a training step", 1, 65_536)] = 24
    anchors: Annotated[int, option("windows in each answer of a step", 1, 4096)] = 24
    whole: Annotated[float, option("share of these windows that are all masks, as with T = 1", 0, 1)] = 0.75
    tables: Annotated[bool, option("store the target's embedding and head too, as serving engines need")] = True
    seed: Annotated[int, option("seed of everything that is drawn", 0, 2**31 - 1)] = 0


SHAPE = ("kind", "start", "block", "layers", "taps", "cut", "words", "markov", "only")
"""Settings that a drafter keeps once it has weights."""


def open_run(out: Path, given: Mapping[str, Any], *, resume: bool) -> DrafterSettings:
    """The settings of the run in ``out/run``: those ``given``, a resumed run's or the defaults.

    Raises:
        ConfigError: a setting is impossible, or a run is there or has another shape.
    """
    path, before = out / "run" / "settings.json", None
    if path.exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already.", field="out", hint="Give --resume, or another --out.")
        try:
            before = msgspec.json.decode(path.read_bytes(), type=DrafterSettings)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path} is damaged ({error}).", field="out", hint="Give another --out.") from error
    settings = parse(DrafterSettings, given, before)
    if before is not None and (out / "run" / "checkpoint.pt").exists():
        for name in SHAPE:
            old, new = getattr(before, name), getattr(settings, name)
            if old != new:
                what = f"The drafter in {out} was begun with {flag(name)} {old}; it can't become {new}."
                raise ConfigError(what, field=name, hint="Leave that flag out, or give another --out.")
    return settings
