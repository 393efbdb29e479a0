"""The parts of a pair as training jobs: what each begins from, learns from, and leaves behind.

Knows how models, text and cards come together; no objective, no optimiser, no flag's spelling.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from specdiff_core.train.corpus import encode_split
from specdiff_core.train.defaults import EMBEDDED
from specdiff_core.train.job import Job
from specdiff_core.train.sources import load_target, load_tokenizer, written_stream

if TYPE_CHECKING:
    from specdiff_core.models.dflash import DFlashDraftModel
    from specdiff_core.models.mdlm import Mdlm


class TokenizerJob(Job):
    """The shared tokenizer; it has no steps."""

    def events(self) -> Iterator[Any]:
        return iter(())

    def finish(self) -> Path:
        from specdiff_core.train.tokenizer import train_tokenizer

        return train_tokenizer(self.corpus, self.out, vocab_size=self.args.vocabulary)


class TargetJob(Job):
    """The target, on the corpus."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        from specdiff_core.train.target import new_target

        self.tokenizer = load_tokenizer(args.tokenizer)
        if args.start:
            self.model = load_target(args.start, self.device).requires_grad_(True)
            return
        with torch.random.fork_rng():
            torch.manual_seed(args.seed)  # transformers initialises from the global stream
            model = new_target(len(self.tokenizer), layers=args.layers or self._defaults.layers, width=args.width)
        self.model = model.to(self.device)

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.target import train_target

        args = self.args
        yield from train_target(
            self.model,
            self.corpus,
            self.tokenizer,
            args.cache,
            self.plan,
            rows=self.rows,
            length=args.length,
            seed=args.seed,
            compile=args.compile,
        )

    def finish(self) -> Path:
        from specdiff_core.train.cards import card_of_target
        from specdiff_core.train.target import export_target

        export_target(self.model, self.tokenizer, self.out)
        return card_of_target(
            self.model, self.tokenizer, self.corpus, self.args.cache, history=self.history(), folder=self.out
        )


class DrafterJob(Job):
    """What all drafters share: the tokenizer, the frozen target, the card."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.tokenizer = load_tokenizer(args.tokenizer)
        self.target = load_target(args.target, self.device)

    def card(self, model: nn.Module, kind: str = "") -> Path:
        """``kind``: of drafter, where it is not the part's name."""
        from specdiff_core.train.cards import card_of_drafter

        kind = kind or self.args.part
        return card_of_drafter(kind, model, phases=self.phases, history=self.history(), folder=self.out)


class MdlmJob(DrafterJob):
    """The independent masked-diffusion drafter. Begun from a trained one, it goes straight to drafting."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.model = self._begin().to(self.device)

    def _begin(self) -> Mdlm:
        from specdiff_core.models.mdlm import load_mdlm
        from specdiff_core.train.mdlm import freeze_constants, new_mdlm

        args = self.args
        if args.start:
            return freeze_constants(load_mdlm(args.start).float())
        with torch.random.fork_rng():
            torch.manual_seed(args.seed)
            return new_mdlm(
                len(self.tokenizer),
                self.tokenizer.mask_token_id,
                blocks=args.layers or self._defaults.layers,
                width=args.width,
                target=self.target,
            )

    @property
    def phases(self) -> tuple[Path, ...]:
        both = (self.plan.run / "subs", self.plan.run / "draft")
        return both[1:] if self.args.start else both

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.mdlm import train_mdlm

        args = self.args
        yield from train_mdlm(
            self.model,
            self.target,
            self.corpus,
            self.tokenizer,
            args.cache,
            self.plan,
            **({"subs_fraction": 0.0} if args.start else {}),
            written=written_stream(args.written, self.target),
            tokens=self.tokens,
            share=args.share,
            whole=args.whole,
            streak=args.streak,
            seed=args.seed,
            compile=args.compile,
        )

    def finish(self) -> Path:
        from specdiff_core.train.mdlm import export

        export(self.model, self.out)
        return self.card(self.model, "mdlm_streak" if self.args.streak else "")


class BlockJob(DrafterJob):
    """The target-conditioned block drafter."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.model = self._begin().to(self.device)

    def _begin(self) -> DFlashDraftModel:
        from specdiff_core.models.dflash import from_folder
        from specdiff_core.train.new_block import drafter_config, grown, new_drafter

        args = self.args
        sizes = {"features": args.features, "intermediate": args.intermediate}
        if args.start:
            model = from_folder(args.start)
        else:
            layers = args.layers or self._defaults.layers
            config = drafter_config(self.target, layers=layers, mask_id=self.tokenizer.mask_token_id, **sizes)
            model = new_drafter(self.target, config, args.seed)
        if args.markov or (args.start and any(sizes.values())):
            depth = self.target.config.num_hidden_layers
            model = grown(model, target_layers=depth, **sizes, markov=args.markov, seed=args.seed)
        if model.markov is not None and args.out is None:  # never in the place of the drafter without it
            self.out = EMBEDDED / "block_markov"
        return model.requires_grad_(True)

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.block import train_block

        args = self.args
        yield from train_block(
            self.model,
            self.target,
            self.corpus,
            self.tokenizer,
            args.cache,
            self.plan,
            written=args.written,
            write_parts=args.parts,
            rows=self.rows,
            length=args.length,
            share=args.share,
            greedy=args.greedy,
            whole=args.whole,
            short=args.short,
            streak=args.streak,
            seed=args.seed,
            compile=args.compile,
        )

    def finish(self) -> Path:
        from specdiff_core.train.block import export

        export(self.model, self.out)
        return self.card(self.model, "block_markov" if self.model.markov is not None else "")


class SequentialJob(DrafterJob):
    """What the drafters that say one token after the other share: where their rows come from."""

    @property
    def options(self) -> dict[str, Any]:
        """Of :class:`specdiff_core.train.sequential.SequentialTask`."""
        args = self.args
        return {
            "written": written_stream(args.written, self.target),
            "rows": self.rows,
            "length": args.length,
            "share": args.share,
            "seed": args.seed,
            "compile": args.compile,
        }


class AutoregressiveJob(SequentialJob):
    """The small autoregressive drafter."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        from specdiff_core.train.autoregressive import new_autoregressive

        if args.start:
            self.model = load_target(args.start, self.device).requires_grad_(True)
            return
        with torch.random.fork_rng():
            torch.manual_seed(args.seed)
            model = new_autoregressive(self.target, layers=args.layers or self._defaults.layers)
        self.model = model.to(self.device)

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.autoregressive import train_autoregressive

        yield from train_autoregressive(
            self.model, self.target, self.corpus, self.tokenizer, self.args.cache, self.plan, **self.options
        )

    def finish(self) -> Path:
        from specdiff_core.train.target import export_causal

        export_causal(self.model, self.out)
        return self.card(self.model)


class EagleJob(SequentialJob):
    """EAGLE's head: one layer over the target's features."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        from specdiff_core.models.eagle import load_eagle
        from specdiff_core.train.eagle import new_eagle

        head = load_eagle(args.start) if args.start else new_eagle(self.target, seed=args.seed)
        self.model = head.requires_grad_(True).to(self.device)

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.eagle import train_eagle

        yield from train_eagle(
            self.model, self.target, self.corpus, self.tokenizer, self.args.cache, self.plan, **self.options
        )

    def finish(self) -> Path:
        from specdiff_core.models.eagle import save_eagle

        save_eagle(self.model, self.out)
        return self.card(self.model)


class WrittenJob(DrafterJob):
    """Text that the target writes, for its drafters to learn from."""

    @property
    def total(self) -> int:
        return int(self.args.parts)

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.written import write, writer_of

        args, end = self.args, self.tokenizer.eos_token_id
        yield from write(
            writer_of(self.target),
            encode_split(self.corpus, "train", self.tokenizer.backend_tokenizer, end, args.cache),
            args.written / "train",
            parts=args.parts,
            rows=args.texts,
            temperatures=args.temperatures,
            end=end,
            forbidden=(self.tokenizer.mask_token_id,),
            seed=args.seed,
        )

    def finish(self) -> Path:
        return Path(self.args.written)


JOBS: dict[str, type[Job]] = {
    "tokenizer": TokenizerJob,
    "target": TargetJob,
    "written": WrittenJob,
    "mdlm": MdlmJob,
    "block": BlockJob,
    "autoregressive": AutoregressiveJob,
    "eagle": EagleJob,
}
"""Part -> its job, in the order in which a pair is made."""


def job_of(args: argparse.Namespace) -> Job:
    """The job of ``args.part``."""
    return JOBS[args.part](args)
