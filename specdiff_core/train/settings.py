"""The settings of every training, which are also its flags. Needs no torch, so that the command line's help starts at
once."""

from __future__ import annotations

import dataclasses
import math
import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import ASSETS

if TYPE_CHECKING:
    from specdiff_core.train.jobs import Job

SHIPPED = ASSETS / "embedded"
"""Where the parts of the embedded pair are, and where new ones go unless ``--out`` says otherwise."""

TEMPERATURES = (0.0, 0.0, 0.7, 1.0)
"""The texts that the target writes take these in turn: greedy twice as often as each of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What the command line says about a setting, and which values it may have."""

    about: str  # empty: the flag is taken, and left out of the help
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    flag: str = ""  # where it is not the setting's name


def option(default: Any, about: str, **others: Any) -> Any:
    """A setting that is also a flag; ``others`` are fields of :class:`Option`."""
    return field(default=default, metadata={"option": Option(about=about, **others)})


def fraction(default: float | None, about: str) -> Any:
    """The same for a number from 0 to 1."""
    return option(default, about, low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every job. A subclass changes a default by assignment. ConfigError: a number is out of range."""

    part: ClassVar[str]  # of a pair
    job: ClassVar[str]  # what makes it, as ``file:class`` of this folder
    about: ClassVar[str]

    corpus: Path = option(Path("corpus"), "folder of NAME.train.txt[.xz] and NAME.valid.txt[.xz]")

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The fields that are flags."""
        found: dict[str, Option] = {}
        for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
            found |= {each.name: each.metadata["option"] for each in dataclasses.fields(base) if each.metadata}
        return found

    def __post_init__(self) -> None:
        for name, limits in self.options().items():
            value, low, high = getattr(self, name), limits.low, limits.high
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float) and not (low <= number <= high and math.isfinite(number)):
                    allowed = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
                    flag = limits.flag or f"--{name.replace('_', '-')}"
                    hint = limits.about[0].upper() + limits.about[1:] + "."
                    raise ConfigError(f"{flag} must be {allowed}, not {number}.", field=name, hint=hint)


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(Settings):
    part, job = "tokenizer", "tokenizer:TokenizerJob"
    about = "Train the byte-level BPE that the target and its drafters share."

    vocabulary: int = option(4096, "entries of the tokenizer; tokens are stored in 16 bits", low=258, high=2**16)
    out: Path = option(SHIPPED / "tokenizer", "where the result goes")


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """Beside those of every job, for one that runs a model."""

    tokenizer: Path = option(SHIPPED / "tokenizer", "folder of the tokenizer")
    cache: Path = option(Path("runs/cache"), "folder for encoded text")
    seed: int = option(0, "seed of everything that is drawn", low=0)
    device: str = option("auto", "auto, cpu or cuda")
    threads: int | None = option(None, "CPU threads [default: torch's own choice]", low=1)


@dataclass(frozen=True, kw_only=True)
class TextSettings(RunSettings):
    """Beside those, where a trained target is, and the text that it writes."""

    target: Path = option(SHIPPED / "target", "folder of the target")
    written: Path = option(Path("runs/written"), "folder of target-written text")


@dataclass(frozen=True, kw_only=True)
class WrittenSettings(TextSettings):
    part, job = "written", "causal_target:WrittenJob"
    about = "Let the target write text for its drafters to learn from."

    parts: int = option(100, "parts of target-written text", low=1)
    texts: int = option(64, "texts in each new part", low=1)
    temperatures: tuple[float, ...] = option(
        TEMPERATURES, "temperatures that the texts of a part take in turn; 0 is greedy", low=0, high=2
    )


@dataclass(frozen=True, kw_only=True)
class ModelSettings(RunSettings):
    """Beside those of a run, for a job that trains a model."""

    steps: int = option(4000, "optimiser steps", low=1)
    warmup: int = option(50, "steps of rising learning rate", low=1)
    decay_from: float = fraction(0.5, "fraction of the steps after which the learning rate falls")
    rate: float = option(1.0, "multiple of the usual learning rates: less is gentler on good weights", low=1e-6)
    batch_tokens: int = option(4096, "tokens per step", low=1)
    start: Path | None = option(None, "begin with the weights of this exported model, not with new ones")
    average: float = fraction(0.0, "share of --start's weights in the result: often better (arXiv 2109.01903)")
    resume: bool = option(False, "continue from the checkpoint in --run")
    run_folder: Path | None = option(None, "checkpoints, metrics.jsonl, curve.svg [default runs/PART]", flag="--run")
    out: Path | None = option(None, "where the result goes [default assets/embedded/PART]")
    compile: bool = option(True, "whether to use torch.compile")

    clip: float = 1.0  # largest norm of a step's gradient
    eval_every: int = 200  # steps
    save_every: int = 100  # steps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average and self.start is None:
            raise ConfigError("--average needs --start.", field="average", hint="There is nothing to average with.")


@dataclass(frozen=True, kw_only=True)
class TargetSettings(ModelSettings):
    part, job = "target", "causal_target:TargetJob"
    about = "Train the target of a pair: a stock LlamaForCausalLM."

    length: int = option(256, "tokens per row", low=1)
    layers: int = option(16, "layers of a new target", low=1)
    width: int = option(256, "width of a new target", low=64)


@dataclass(frozen=True, kw_only=True)
class DrafterSettings(ModelSettings, TextSettings):
    """Beside both, for a job that trains a drafter."""

    share: float = fraction(0.7, "fraction of the rows that the target wrote")
    length: int = option(256, "tokens per row", low=4)

    @property
    def rows(self) -> int:
        """Rows per step."""
        return max(1, self.batch_tokens // self.length)


@dataclass(frozen=True, kw_only=True)
class MdlmSettings(DrafterSettings):
    part, job = "mdlm", "mdlm:MdlmJob"
    about = "Train the independent masked-diffusion drafter (SpecDiff; with --streak, SpecDiff-2)."

    whole: float = fraction(0.5, "fraction of the windows that are fully masked, as with T = 1")
    streak: float = option(0.0, "weight of streak distillation, on whole windows (arXiv 2511.00606)", low=0)
    layers: int = option(4, "layers of a new drafter", low=1)
    width: int = option(256, "width of a new drafter", low=1)
    length: int = option(256, "tokens per row that the target reads", low=32)
    parts: int = option(100, "")  # not used: commands on older cards name it

    subs_fraction: float = 0.12  # of the steps that go to denoising text, for a new drafter

    @property
    def rows(self) -> int:
        """That the target reads per step; many windows are cut from each."""
        return 8


@dataclass(frozen=True, kw_only=True)
class BlockSettings(DrafterSettings):
    part, job = "block", "block:BlockJob"
    about = "Train the block drafter that reads the target's hidden states (DFlash)."

    warmup: int = 100
    batch_tokens: int = 2560
    parts: int = option(100, "parts of target-written text; missing ones are written first", low=1)
    anchors: int = option(48, "blocks per row", low=1)
    loss: str = option("ce", "cross-entropy, or with total variation (arXiv 2602.23881)", choices=("ce", "lk"))
    weights: str = option(
        "exp", "of slots, by position: fixed, or following the drafter (arXiv 2605.18810)", choices=("exp", "dpace")
    )
    streak: float = option(0.0, "weight of streak distillation, on whole blocks (arXiv 2511.00606)", low=0)
    greedy: float | None = fraction(None, "fraction of the target-written rows at temperature 0 [default as written]")
    whole: float = fraction(0.5, "fraction of the blocks that are fully masked, as with T = 1")
    short: float = fraction(0.0, "fraction of the steps with blocks of half the slots: late slots are rarely reached")
    layers: int = option(3, "layers of a new drafter", low=1)
    features: int | None = option(None, "layers of the target that it reads [default 3, or --start's]", low=1)
    intermediate: int | None = option(None, "width of its MLPs [default 8/3 of the target's, or --start's]", low=1)
    markov: int = option(0, "width of a head that chains the tokens of a block; 0: --start's, or none", low=0)

    decay: float = 4.0  # of the exp weights, in slots
    alone: float = 0.25  # with a Markov head, fraction of the slots that are scored without the token before them


@dataclass(frozen=True, kw_only=True)
class AutoregressiveSettings(DrafterSettings):
    part, job = "autoregressive", "autoregressive:AutoregressiveJob"
    about = "Train a small drafter of the target's kind, token by token."

    layers: int = option(2, "layers of a new drafter", low=1)


@dataclass(frozen=True, kw_only=True)
class EagleSettings(DrafterSettings):
    part, job = "eagle", "eagle:EagleJob"
    about = "Train EAGLE's head, one layer over the target's features."

    batch_tokens: int = 3072


PARTS: dict[str, type[Settings]] = {
    settings.part: settings
    for settings in (
        TokenizerSettings,
        TargetSettings,
        WrittenSettings,
        MdlmSettings,
        BlockSettings,
        AutoregressiveSettings,
        EagleSettings,
    )
}
"""The settings of every training, in the order in which the parts of a pair are made."""


def find_job(part: str) -> type[Job]:
    """What makes one part of a pair."""
    job: type[Job] = pkgutil.resolve_name(f"specdiff_core.train.{PARTS[part].job}")
    return job
