"""The settings of ``train drafter``, which are also its flags. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask, flag, parse


class DrafterSettings(msgspec.Struct, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["block", "eagle", "masked", "autoregressive"],
        ask("", "block diffusion (DFlash), an EAGLE layer, masked diffusion (SpecDiff), or a small causal Llama"),
    ] = "block"
    start: Annotated[
        str, ask("", "folder of a block or masked drafter to begin with, which sets --kind, --block, --layers and such")
    ] = ""
    hours: Annotated[
        float, ask("", "time for answers and training, in hours of a GPU or of each thread", above=0, high=10_000)
    ] = 8.0
    tokens: Annotated[
        int, ask("", "train on this many tokens of answers, however long it takes; 0: as long as --hours", 0, 2**50)
    ] = 0
    answering: Annotated[float, ask("", "share of that time in which the target writes answers", 0, 0.99)] = 0.35
    finish: Annotated[float, ask("", "share of the training with a falling learning rate", 0, 1)] = 0.33
    rate: Annotated[float, ask("", "multiple of the usual learning rates", above=0, high=100)] = 1.0
    minutes: Annotated[float, ask("", "minutes of training between measurements of τ", above=0, high=600_000)] = 20.0
    block: Annotated[int, ask("", "tokens of a draft (γ)", 1, 32)] = 8
    layers: Annotated[int, ask("", "new layers of a drafter", 1, 64)] = 1
    taps: Annotated[
        tuple[Annotated[int, ask("", low=0)], ...],
        ask("", "layers of the target that a block drafter reads, from 0 [default: at 28, 62 and 93 % of its depth]"),
    ] = ()
    cut: Annotated[
        tuple[Annotated[int, ask("", low=0)], ...],
        ask("", "layers of the target that a masked or autoregressive drafter begins with, in place of --layers"),
    ] = ()
    align: Annotated[
        Literal["none", "streak"],
        ask("", "how slots weigh: as in D-PACE, or as in streak-distillation (SpecDiff-2)"),
    ] = "none"
    words: Annotated[int, ask("", "a block drafter's vocabulary, the target's commonest tokens", 64, 2**24)] = 16_384
    markov: Annotated[int, ask("", "rank of a block drafter's Markov head (DSpark's); 0 for none", 0, 4096)] = 128
    only: Annotated[Literal["all", "head"], ask("", "what learns: all weights, or only a Markov head's")] = "all"
    new_tokens: Annotated[int, ask("", "tokens of an answer, at most", 8, 2**20)] = 200
    longest: Annotated[int, ask("", "tokens of a prompt; longer ones are left out", 1, 2**20)] = 192
    temperatures: Annotated[
        tuple[Annotated[float, ask("", low=0, high=2)], ...],
        ask("", "a prompt is answered at each of these temperatures; 0 is greedy", least=1),
    ] = (0.0, 0.7)
    slots: Annotated[int, ask("", "answers that the target writes in parallel", 1, 65_536)] = 96
    rows: Annotated[int, ask("", "answers in a training step", 1, 65_536)] = 24
    anchors: Annotated[int, ask("", "blocks in each of these answers", 1, 4096)] = 24
    whole: Annotated[float, ask("", "share of the blocks that are all masks, as with T = 1", 0, 1)] = 0.75
    tables: Annotated[bool, ask("", "store the target's embedding and head too, as serving engines need")] = True
    seed: Annotated[int, ask("", "seed of everything that is drawn", 0, 2**31 - 1)] = 0


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
