"""What every training job shares: flags in, a plan, the history behind its weights. Knows no model and no objective."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from specdiff_core.models.device import choose_placement
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.history import HISTORY, Training, read_history, write_history
from specdiff_core.train.card import training_facts
from specdiff_core.train.corpus import Corpus
from specdiff_core.train.curve import curve_of
from specdiff_core.train.defaults import EMBEDDED, PARTS
from specdiff_core.train.loop import MATRIX_LR, OTHER_LR, Plan


class Job(ABC):
    """One part to train: :meth:`events` until they end, then :meth:`finish`.

    Args:
        args: the flags of ``train``; see :func:`specdiff_core.cli.train.add_train`.

    Raises:
        CorpusError: there is no text in ``--corpus``.
        WeightsError: an earlier part is missing.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self._defaults = args, PARTS[args.part]
        self.corpus = Corpus.open(args.corpus)
        self._facts = provenance()  # of the code that trains, not of what the repository holds hours later
        self._earlier = self._runs_before()
        self.out: Path = args.out or EMBEDDED / args.part

    @property
    def total(self) -> int:
        """Steps of the progress bar."""
        return int(self.args.steps or self._defaults.steps)

    @abstractmethod
    def events(self) -> Iterator[Any]:
        """Train, and say what happens."""

    @abstractmethod
    def finish(self) -> Path:
        """Leave the result in ``--out``; returns what to tell people."""

    def _runs_before(self) -> tuple[Training, ...]:
        """What is behind ``--start``; kept in the run's folder, since a finished run may have replaced it there."""
        kept = self.plan.run / "before.json"
        if not self.args.start:
            return ()
        if not (self.args.resume and kept.is_file()):
            write_history(kept, read_history(self.args.start / HISTORY))
        return read_history(kept)

    # What several parts begin from.

    @property
    def plan(self) -> Plan:
        """How long and how fast, from the flags."""
        args = self.args
        return Plan(
            steps=self.total,
            run=args.run_folder or Path("runs") / args.part,
            warmup=args.warmup or self._defaults.warmup,
            decay_from=args.decay_from,
            matrix_lr=MATRIX_LR * args.rate,
            other_lr=OTHER_LR * args.rate,
            resume=args.resume,
            average=args.average,
            score_first=args.start is not None,
        )

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return int(self.args.batch_tokens or self._defaults.batch_tokens)

    @property
    def rows(self) -> int:
        """Rows per step."""
        return max(1, self.tokens // self.args.length)

    @property
    def device(self) -> torch.device:
        return choose_placement(self.args.device).device

    @property
    def phases(self) -> tuple[Path, ...]:
        """Where each phase of the run keeps its ``metrics.jsonl``, in order."""
        return (self.plan.run,)

    def history(self) -> tuple[Training, ...]:
        """All runs behind the weights, this one last."""
        facts = self._facts
        steps, tokens, seconds = training_facts(*self.phases)
        this = Training(
            steps=steps,
            tokens=tokens,
            seconds=seconds,
            hardware=facts["gpu"] if self.device.type == "cuda" else f"{facts['threads']} threads of {facts['cpu']}",
            commit=facts["commit"] + (" with local changes" if facts["dirty"] else ""),
            corpus=self.corpus.fingerprint(),
            seed=self.args.seed,
            command=command(self.args.argv),
            curve=curve_of(*self.phases),
        )
        return (*self._earlier, this)
