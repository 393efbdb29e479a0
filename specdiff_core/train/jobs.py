"""The trainings as jobs: what each begins from, and what it leaves behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specdiff_core.models.causal import load_stock
from specdiff_core.models.device import choose_placement, set_threads
from specdiff_core.models.folders import AGAIN, shown
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, Training, read_history, write_history
from specdiff_core.train.cards import FAMILY, SUMMARIES, Card, write_card
from specdiff_core.train.corpus import Corpus, EncodedCorpus
from specdiff_core.train.curve import curve_of, last_scores, redraw, totals
from specdiff_core.train.settings import SHIPPED, DrafterSettings, ModelSettings, RunSettings, Settings
from specdiff_core.train.target_text import packed_text
from specdiff_core.train.task import Task
from specdiff_core.train.trainer import train


class Job(ABC):
    """Makes one part of a pair: consume :meth:`events` until they end, then call :meth:`finish`.

    Args:
        argv: the words of the command, for the card.

    Raises:
        CorpusError: there is no text in the corpus folder.
        WeightsError: an earlier part is missing or damaged.
    """

    def __init__(self, settings: Any, argv: Sequence[str] = ()) -> None:
        self.settings: Settings = settings
        self.argv = argv
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


class RunJob(Job):
    """A job that runs models: the device, the tokenizer, the encoded corpus."""

    settings: RunSettings

    def __init__(self, settings: Any, argv: Sequence[str] = ()) -> None:
        super().__init__(settings, argv)
        set_threads(settings.threads)
        self.device = choose_placement(settings.device).device
        self.data = EncodedCorpus(self.corpus, load_tokenizer(settings.tokenizer), settings.cache)


class ModelJob(RunJob):
    """Trains one model: new or trained weights, a task for the loop, a card with the history of the weights."""

    settings: ModelSettings

    def __init__(self, settings: Any, argv: Sequence[str] = ()) -> None:
        super().__init__(settings, argv)
        self.run_folder = self.settings.run_folder or Path("runs") / settings.part
        self._facts = provenance()  # of the code that trains, not of what the repository holds hours later
        self._earlier = self._earlier_runs()
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)  # transformers initialises from the global stream
            self.model: Any = self.begin().to(self.device)

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
    def kind(self) -> str:
        """What the result is called: the part, or a variant of it."""
        return self.settings.part

    @property
    def phases(self) -> tuple[Path, ...]:
        """The folder of each phase of the run, in order."""
        return (self.run_folder,)

    @property
    def out(self) -> Path:
        """Where the result goes; a variant by default never to the plain part's place."""
        return self.settings.out or SHIPPED / self.kind

    @property
    def millions(self) -> float:
        """Parameters of the model, in millions."""
        return float(sum(parameter.numel() for parameter in self.model.parameters()) / 1e6)

    def events(self) -> Iterator[Any]:
        yield from train(self.task(), self.settings, self.run_folder)

    def finish(self) -> Path:
        self.export()
        return write_card(self.card(), self.out)

    def redraw(self) -> Path | None:
        """Draw ``curve.svg`` again; None before the first evaluation. ImportError: matplotlib is not installed."""
        return redraw(self.run_folder, self.phases, self.settings.part)

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


class DrafterJob(ModelJob):
    """Trains a drafter for a frozen target."""

    settings: DrafterSettings
    score: ClassVar[str] = "tokens_per_round/"  # in the run's log, the names of τ begin so
    measured: ClassVar[str] = "γ = 4"  # how

    @cached_property
    def target(self) -> LlamaForCausalLM:
        """The frozen target."""
        return load_llama(self.settings.target, self.device)

    @cached_property
    def written(self) -> np.ndarray | None:
        """What the target wrote, packed; None if it wrote nothing yet."""
        return packed_text(self.settings.written, self.target)

    def card(self) -> Card:
        return Card(
            name=f"{FAMILY}-{self.kind}-{self.millions:.1f}M",
            summary=SUMMARIES[self.kind],
            shape=f"{self.millions:.1f} M parameters, stored in bf16; see config.json.",
            history=self.history(),
            scores=last_scores(self.phases, self.score),
            score_name=f"Simulated greedy tokens per round, {self.measured}, on text the target wrote after held-out "
            "prompts",
        )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that all models of a pair share.

    Raises:
        WeightsError: it has not been trained, or is damaged.
    """
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
    _expect(part, folder, "config.json")
    model = load_stock(folder, torch.float32, device=device, role=part)
    if not isinstance(model, LlamaForCausalLM):
        raise WeightsError(f"The {part} in {shown(folder)} is no Llama.", hint="Only a Llama can be trained here.")
    return model


def _expect(part: str, folder: Path, file: str) -> None:
    if not (folder / file).is_file():
        hint = f"Run: python -m specdiff_core train {part}"
        raise WeightsError(f"There is no {part} in {shown(folder)}.", hint=hint)
