"""The trainings as jobs: their settings, what each begins from, and what it leaves behind.

Torch and the models are imported inside calls only, so that the command line's help starts at once.
"""

from __future__ import annotations

import dataclasses
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import ConfigError, WeightsError
from specdiff_core.schema.history import HISTORY, Training, read_history, write_history
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.train.cards import FAMILY, Card, Words, write_card
from specdiff_core.train.curve import curve_of, last_scores, redraw, totals

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from specdiff_core.train.trainer import Task

JOBS = {
    "tokenizer": "tokenizer:TokenizerJob",
    "target": "causal_target:TargetJob",
    "written": "causal_target:WrittenJob",
    "mdlm": "mdlm:MdlmJob",
    "block": "block:BlockJob",
    "autoregressive": "autoregressive:AutoregressiveJob",
    "eagle": "eagle:EagleJob",
}
"""Every training as ``file:class``, in the order in which the parts of a pair are made."""

SHIPPED = ASSETS / "embedded"
"""Where the parts of the embedded pair are, and where new ones go unless ``--out`` says otherwise."""


def find_job(name: str) -> type[Job[Any]]:
    """The job that makes one part of a pair."""
    job: type[Job[Any]] = pkgutil.resolve_name(f"specdiff_core.train.{JOBS[name]}")
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What the command line says about a setting, and which values it may have."""

    about: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    flag: str = ""  # where it is not the setting's name
    hidden: bool = False


def option(default: Any, about: str, **others: Any) -> Any:
    """A setting that is also a flag; ``others`` are fields of :class:`Option`."""
    return field(default=default, metadata={"option": Option(about=about, **others)})


def fraction(default: float | None, about: str) -> Any:
    """The same for a number from 0 to 1."""
    return option(default, about, low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every job. A subclass changes a default by assignment. ConfigError: a number is out of range."""

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
                    allowed = f"must be at least {low:g}" if high == math.inf else f"must be from {low:g} to {high:g}"
                    allowed = "is a fraction from 0 to 1" if (low, high) == (0, 1) else allowed
                    flag = limits.flag or f"--{name.replace('_', '-')}"
                    hint = limits.about[0].upper() + limits.about[1:] + "."
                    raise ConfigError(f"{flag} {allowed}, not {number}.", field=name, hint=hint)


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """Beside those, for a job that runs a model."""

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
class ModelSettings(RunSettings):
    """Beside those, for a job that trains a model."""

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
    compile: bool = option(True, "do not use torch.compile", flag="--no-compile")

    clip: float = 1.0  # largest norm of a step's gradient
    eval_every: int = 200  # steps
    save_every: int = 100  # steps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average and self.start is None:
            raise ConfigError("--average needs --start.", field="average", hint="There is nothing to average with.")


@dataclass(frozen=True, kw_only=True)
class DrafterSettings(ModelSettings, TextSettings):
    """Beside both, for a job that trains a drafter."""

    share: float = fraction(0.7, "fraction of the rows that the target wrote")
    length: int = option(256, "tokens per row", low=4)

    @property
    def rows(self) -> int:
        """Rows per step."""
        return max(1, self.batch_tokens // self.length)


S = TypeVar("S", bound=Settings)
R = TypeVar("R", bound=RunSettings)
M = TypeVar("M", bound=ModelSettings)
D = TypeVar("D", bound=DrafterSettings)


class Job(ABC, Generic[S]):
    """Makes one part of a pair: consume :meth:`events` until they end, then call :meth:`finish`.

    Raises:
        CorpusError: there is no text in the corpus folder.
        WeightsError: an earlier part is missing or damaged.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    settings_type: ClassVar[type[Settings]]

    def __init__(self, settings: S, argv: Sequence[str] = ()) -> None:  # argv: the words of the command, for the card
        from specdiff_core.train.corpus import Corpus

        self.settings, self.argv = settings, argv
        self.corpus = Corpus.open(settings.corpus)

    @property
    @abstractmethod
    def total(self) -> int:
        """Steps of the progress bar."""

    @abstractmethod
    def events(self) -> Iterator[Any]:
        """Do the work, and yield what happens."""

    @abstractmethod
    def finish(self) -> Path:
        """Write the result; returns the path to show."""


class RunJob(Job[R]):
    """A job that runs models: the device, the tokenizer, the encoded corpus."""

    def __init__(self, settings: R, argv: Sequence[str] = ()) -> None:
        from specdiff_core.models.device import choose_placement, set_threads
        from specdiff_core.train.corpus import EncodedCorpus

        super().__init__(settings, argv)
        set_threads(settings.threads)
        self.device = choose_placement(settings.device).device
        self.data = EncodedCorpus(self.corpus, load_tokenizer(settings.tokenizer), settings.cache)


class ModelJob(RunJob[M]):
    """Trains one model: new or trained weights, a task for the loop, a card with the history of the weights."""

    def __init__(self, settings: M, argv: Sequence[str] = ()) -> None:
        import torch

        super().__init__(settings, argv)
        self.run_folder = settings.run_folder or Path("runs") / self.name
        self._facts = provenance()  # of the code that trains, not of what the repository holds hours later
        self._earlier = self._earlier_runs()
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)  # transformers initialises from the global stream
            self.model: nn.Module = self.begin().to(self.device)

    @abstractmethod
    def begin(self) -> nn.Module:
        """The model to train, with its first weights: new ones, or those of ``--start``."""

    @abstractmethod
    def task(self) -> Task:
        """What the loop trains; called once."""

    @abstractmethod
    def export(self) -> None:
        """Write the weights to :attr:`out`."""

    @abstractmethod
    def card(self) -> Card:
        """The facts for the card; called after :meth:`export`."""

    @property
    def total(self) -> int:
        return self.settings.steps

    @property
    def phases(self) -> tuple[Path, ...]:
        """The folder of each phase of the run, in order."""
        return (self.run_folder,)

    @property
    def out(self) -> Path:
        """Where the result goes."""
        return self.settings.out or SHIPPED / self.name

    @property
    def millions(self) -> float:
        """Parameters of the model, in millions."""
        return sum(parameter.numel() for parameter in self.model.parameters()) / 1e6

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.trainer import train

        yield from train(self.task(), self.settings, self.run_folder)

    def finish(self) -> Path:
        self.export()
        return write_card(self.card(), self.out)

    def redraw(self) -> Path | None:
        """Draw ``curve.svg`` again; None before the first evaluation. ImportError: matplotlib is not installed."""
        return redraw(self.run_folder, self.phases, self.name)

    def _earlier_runs(self) -> tuple[Training, ...]:
        """The history of ``--start``, kept in the run's folder: a finished run may have replaced it where it was."""
        kept, start = self.run_folder / "before.json", self.settings.start
        if start is None:
            return ()
        if not (self.settings.resume and kept.is_file()):
            write_history(kept, read_history(start / HISTORY))
        return read_history(kept)

    def history(self) -> tuple[Training, ...]:
        """All runs behind the weights, this one last."""
        facts = self._facts
        steps, tokens, seconds = totals(self.phases)
        this = Training(
            steps=steps,
            tokens=tokens,
            seconds=seconds,
            hardware=facts["gpu"] if self.device.type == "cuda" else f"{facts['threads']} threads of {facts['cpu']}",
            commit=facts["commit"] + (" with local changes" if facts["dirty"] else ""),
            corpus=self.corpus.fingerprint(),
            seed=self.settings.seed,
            command=command(self.argv),
            curve=curve_of(self.phases),
        )
        return (*self._earlier, this)


class DrafterJob(ModelJob[D]):
    """Trains a drafter for a frozen target."""

    @property
    @abstractmethod
    def words(self) -> Words:
        """What the card says about this drafter."""

    @cached_property
    def target(self) -> LlamaForCausalLM:
        """The frozen target."""
        return load_llama(self.settings.target, self.device)

    @cached_property
    def written(self) -> np.ndarray | None:
        """What the target wrote, packed; None if it wrote nothing yet."""
        from specdiff_core.train.target_text import packed_text

        return packed_text(self.settings.written, self.target)

    def card(self) -> Card:
        kind, summary, prefix, setting = self.words
        return Card(
            name=f"{FAMILY}-{kind}-{self.millions:.1f}M",
            summary=summary,
            shape=f"{self.millions:.1f} M parameters, stored in bf16; see config.json.",
            history=self.history(),
            scores=last_scores(self.phases, prefix),
            score_name=f"Simulated greedy tokens per round, {setting}, on text the target wrote after held-out prompts",
        )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that all models of a pair share.

    Raises:
        WeightsError: it has not been trained, or is damaged.
    """
    from transformers import PreTrainedTokenizerFast

    from specdiff_core.models.folders import AGAIN, shown

    _expect("tokenizer", folder, "tokenizer.json")
    try:
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    except Exception as error:  # a damaged tokenizer.json makes the tokenizers library raise a bare Exception
        raise WeightsError(f"The tokenizer in {shown(folder)} is damaged ({error}).", hint=AGAIN) from error
    return tokenizer


def load_llama(folder: Path, device: torch.device, part: str = "target") -> LlamaForCausalLM:
    """A trained Llama in fp32, frozen: the target that drafters learn from, or another ``part``.

    Raises:
        WeightsError: it has not been trained, is damaged, or is another kind of model.
    """
    import torch
    from transformers import LlamaForCausalLM

    from specdiff_core.models.causal import load_causal
    from specdiff_core.models.folders import shown
    from specdiff_core.train.trainer import frozen

    _expect(part, folder, "config.json")
    stored = load_causal(folder, torch.float32, role=part)
    if not isinstance(stored, LlamaForCausalLM):
        raise WeightsError(f"The {part} in {shown(folder)} is no Llama.", hint="Only a Llama can be trained here.")
    model = LlamaForCausalLM(stored.config)  # without the second copies of weights that decoding reads
    model.load_state_dict(stored.state_dict())
    model.to(device)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    return frozen(model)


def _expect(part: str, folder: Path, file: str) -> None:
    from specdiff_core.models.folders import shown

    if not (folder / file).is_file():
        hint = f"Run: python -m specdiff_core train {part}"
        raise WeightsError(f"There is no {part} in {shown(folder)}.", hint=hint)
