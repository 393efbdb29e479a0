"""What the recipes share: their settings, the loop over steps, τ, and the card. Run them with ``--help`` for the flags.

A recipe makes a model, says what its loss is and how it is stored; everything else is here, in
``text.py``, and in the trainer of ``specdiff_core/train``, which ``train drafter`` uses, too.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the lab beside this folder

import numpy as np
import torch
from corpus import Corpus
from text import Text, Written, fingerprint, load_tokenizer, windows, write_text
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import LlamaConfig, LlamaForCausalLM

from specdiff_core.cli.options import add_field
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.causal import load_stock
from specdiff_core.models.device import choose_placement, set_threads
from specdiff_core.models.files import empty_folder
from specdiff_core.models.folders import shown
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import ConfigError, SpecDiffError, WeightsError
from specdiff_core.schema.fields import ask, fields_of, parse
from specdiff_core.schema.history import HISTORY, Training, read_history, write_history
from specdiff_core.schema.pairs import ASSETS, EMBEDDED
from specdiff_core.train.cards import OTHER_CREDITS, ModelCard, training_of, write_card
from specdiff_core.train.curve import METRICS, last_scores
from specdiff_core.train.drafter import SCORE, decode_greedily, tau_by_flavour
from specdiff_core.train.trainer import Trainer, log, read_checkpoint

SHIPPED = ASSETS / "embedded"
"""Where the parts of the embedded pair are, and where new ones go by default."""
SAVE = 100
"""Steps between two checkpoints."""
HELD_OUT, NEW = 8, 56
"""Prompts of each flavour on which τ is measured, and new tokens of each of them."""

FAMILY = "Llama-Tales"
OWN_CORPUS = "a48bc272a7d6"
"""Fingerprint of the text of this project's own models, to which the credits below belong."""
CREDITS = """\
- **stories** (MIT; samples of TinyStories under CDLA-Sharing-1.0; picture-book texts under CC-BY 4.0):
  klusai/tinyfabulist, erikhyrkas/snakes; TinyStories samples in mines-opt-ml/decoding-gpt, ToonTalk/jlens-tinystories,
  yuninxia/moe-routing-bench, s-ajaykumar/smallGPT, Niklas6/Mini_GPT; global-asp/pb-source, global-asp/asp-source,
  bookdash/bookdash-books
- **dialogue** (CC-BY-SA 4.0; a part CC-BY 4.0): google-research-datasets/dstc8-schema-guided-dialogue and
  google-research-datasets/Taskmaster (TM-4)
- **math** (MIT): openai/grade-school-math, training split and numeric variants of it
- **code** (MIT; a part CC-BY-SA 4.0): TheAlgorithms/Python, doocs/leetcode, walkccc/LeetCode, neetcode-gh/leetcode,
  keon/algorithms, exercism/python, trekhleb/learn-python, kamyu104/LeetCode-Solutions"""
NOTICE = """\
**Built with Llama.** A large part of the stories is output of Llama 3.1 that its authors published under MIT; hence the
leading `Llama-` in the name. Story, dialogue and code sources ask for attribution (CC-BY), and parts for sharing alike
(CC-BY-SA, CDLA-Sharing): keep this card with the weights. The text itself is not distributed. A toy of its size: it
invents facts, and must not be used for advice of any kind."""


# Settings. A recipe's own ones come in a subclass.


class CorpusSettings(msgspec.Struct, frozen=True, kw_only=True):
    corpus: Annotated[Path, ask("", "folder of NAME.train.txt[.xz] and NAME.valid.txt[.xz]")] = Path("corpus")
    out: Annotated[Path | None, ask("", "where the result goes [default: its place in assets/embedded]")] = None


class ModelSettings(CorpusSettings, frozen=True, kw_only=True):
    tokenizer: Annotated[Path, ask("", "folder of the tokenizer")] = SHIPPED / "tokenizer"
    cache: Annotated[Path, ask("", "folder for encoded text")] = Path("runs/cache")
    seed: Annotated[int, ask("", "seed of everything that is drawn", 0, 2**31 - 1)] = 0
    device: Annotated[str, ask("", "auto, cpu or cuda")] = "auto"
    threads: Annotated[Annotated[int, ask("", low=1)] | None, ask("", "CPU threads [default: torch's choice]")] = None
    steps: Annotated[int, ask("", "optimiser steps", 1)] = 4000
    warmup: Annotated[int, ask("", "steps of rising learning rate", 1)] = 50
    decay_from: Annotated[float, ask("", "fraction of the steps after which the learning rate falls", 0, 1)] = 0.5
    rate: Annotated[
        float, ask("", "multiple of the usual learning rates: less for good weights", high=100, above=0)
    ] = 1.0
    batch_tokens: Annotated[int, ask("", "tokens per step", 1)] = 4096
    length: Annotated[int, ask("", "tokens per row", 32)] = 256
    start: Annotated[Path | None, ask("", "begin with the weights of this exported model, not with new ones")] = None
    average: Annotated[
        float, ask("", "share of --start's weights in the result: often better (arXiv 2109.01903)", 0, 1)
    ] = 0.0
    resume: Annotated[bool, ask("", "continue from the checkpoint in --run")] = False
    run: Annotated[Path | None, ask("", "folder of checkpoint and metrics.jsonl [default: in runs/]")] = None
    compile: Annotated[bool, ask("", "whether to use torch.compile")] = True
    eval_every: Annotated[int, ask("", "steps between two measurements", 1)] = 200

    @property
    def rows(self) -> int:
        return max(1, self.batch_tokens // self.length)

    def rate_at(self, step: int) -> float:
        """Learning-rate factor in [0, 1]: linear warm-up, constant, linear decay at the end."""
        decay = (self.steps - step) / max(1.0, self.steps * (1 - self.decay_from))
        return max(0.0, min(1.0, (step + 1) / self.warmup, decay))


class DrafterModelSettings(ModelSettings, frozen=True, kw_only=True):
    target: Annotated[Path, ask("", "folder of the target")] = SHIPPED / "target"
    written: Annotated[Path, ask("", "folder of text that targets wrote")] = Path("runs/written")
    share: Annotated[float, ask("", "fraction of the rows that the target wrote", 0, 1)] = 0.7
    parts: Annotated[int, ask("", "parts of target-written text; missing ones are written first", 1)] = 100
    texts: Annotated[int, ask("", "texts in each part", 1)] = 64
    temperatures: Annotated[
        tuple[Annotated[float, ask("", low=0, high=2)], ...],
        ask("", "of the texts, each used as often; 0 is greedy", least=1),
    ] = (0.0, 0.0, 0.7, 1.0)


S = TypeVar("S", bound=CorpusSettings)


def run(main: Callable[[S], Path], defaults: S, argv: list[str] | None = None) -> int:
    """Call ``main`` with the settings of a command; prints the path it returns, or an error."""
    parser = argparse.ArgumentParser(description=sys.modules[main.__module__].__doc__)
    for field in fields_of(type(defaults)).values():
        add_field(parser, dataclasses.replace(field, default=getattr(defaults, field.name)))
    try:
        print(main(parse(type(defaults), vars(parser.parse_args(argv)), defaults)))
    except SpecDiffError as error:
        print(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return 2
    return 0


# A training.


class Session:
    """A recipe's device, text and run, and for a drafter its target.

    Raises:
        ConfigError: there is nothing to average with.
        CorpusError: there is no text in the corpus folder.
        WeightsError: an earlier part of the pair is missing or damaged.
    """

    def __init__(self, settings: ModelSettings, kind: str) -> None:
        if settings.average and settings.start is None:
            raise ConfigError("--average needs --start.", field="average", hint="There is nothing to average with.")
        set_threads(settings.threads)
        self.settings, self.kind = settings, kind
        self.device = choose_placement(settings.device).device
        self.run, self.out = settings.run or Path("runs") / kind, settings.out or SHIPPED / kind
        self.text = Text(Corpus.open(settings.corpus), load_tokenizer(settings.tokenizer), settings.cache)
        self._facts = provenance()  # now, because the repository may change during the training
        self._earlier = self._read_earlier()

    def _read_earlier(self) -> tuple[Training, ...]:
        """The history of ``--start``, kept with the run: the result may replace the original."""
        path, start = self.run / "before.json", self.settings.start
        if start is None:
            return ()
        if not (self.settings.resume and path.is_file()):
            write_history(path, read_history(start / HISTORY))
        return read_history(path)

    def train(
        self, model: nn.Module, loss: Callable[[int], Tensor], measure: Callable[[], dict[str, float]], tokens: int
    ) -> None:
        """Train ``model`` on ``loss(step)`` of ``tokens`` a step; ``measure`` returns scores."""
        settings, trainer = self.settings, Trainer(model, self.run, rate=self.settings.rate)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        begun = [parameter.detach().clone() for parameter in parameters] if settings.average else []
        if settings.resume and (state := read_checkpoint(self.run)) is not None:
            trainer.restore(state)
        else:
            (self.run / METRICS).unlink(missing_ok=True)
        log(self.run, {"kind": "begun", "command": command(sys.argv[1:], f"recipes/{Path(sys.argv[0]).name}")})

        def report() -> None:
            model.eval()
            with torch.no_grad():
                scores = measure()
            trainer.log("measured", scores=scores)
            bar.write(f"step {trainer.step}: " + "  ".join(f"{name} {value:.3f}" for name, value in scores.items()))

        with tqdm(total=settings.steps, initial=trainer.step, unit="step", dynamic_ncols=True) as bar:
            if settings.start is not None and not trainer.step:
                report()
            while trainer.step < settings.steps:
                event = trainer.learn(lambda: (loss(trainer.step), tokens), settings.rate_at(trainer.step))
                bar.set_postfix(loss=f"{event['loss']:.3f}", tokens_per_second=f"{event['tokens_per_second']:.0f}")
                bar.update()
                last = trainer.step == settings.steps
                if trainer.step % SAVE == 0 or last:
                    trainer.save()
                if trainer.step % settings.eval_every == 0 or last:
                    report()
            if settings.average:  # after the last checkpoint, from which a longer run continues
                with torch.no_grad():
                    for parameter, first in zip(parameters, begun, strict=True):
                        parameter.lerp_(first, settings.average)
                report()

    def card(self, model: nn.Module, summary: str, **facts: Any) -> Path:
        """Write the card of the exported ``model``; this project's credits are for its text."""
        millions, corpus = sum(p.numel() for p in model.parameters()) / 1e6, self.text.corpus.fingerprint()
        record = training_of(self.run, self._facts, self.device, corpus=corpus, seed=self.settings.seed)
        history = (*self._earlier, record)
        ours = all(training.corpus == OWN_CORPUS for training in history)
        family, notice, credits = (FAMILY, NOTICE, CREDITS) if ours else ("Own", "", OTHER_CREDITS)
        name = f"{family}-{self.kind}-{millions:.1f}M"
        shape = f"{millions:.1f} M parameters; see config.json."
        card = {"name": name, "summary": summary, "shape": shape, "history": history, "notice": notice}
        return write_card(ModelCard(**{**card, "credits": credits, **facts}), self.out)


class DrafterSession(Session):
    """Trains a drafter for a frozen target.

    Args:
        kind: a drafter of the embedded pair, whose record says how the new one drafts.
        gamma: tokens of a draft where τ is measured.
    """

    settings: DrafterModelSettings

    def __init__(self, settings: DrafterModelSettings, kind: str, *, gamma: int) -> None:
        super().__init__(settings, kind)
        self._gamma = gamma
        if not (settings.target / "config.json").is_file():
            what = f"There is no target in {shown(settings.target)}."
            raise WeightsError(what, hint="Run: python recipes/target.py")
        self._drafter = dataclasses.replace(EMBEDDED.drafter(kind), source=str((self.run / "export").resolve()))
        folders: Any = {"target": str(settings.target.resolve()), "tokenizer": str(settings.tokenizer.resolve())}
        pair = dataclasses.replace(EMBEDDED, **folders, suppress=(self.text.mask,), drafters=(self._drafter,))
        self.engine = Engine(load_pair(pair, choose_placement(settings.device, "fp32"), drafters=()))
        device = self.engine.pair.placement.device
        target: Any = load_stock(settings.target, torch.float32, device=device)
        self.target: LlamaForCausalLM = target
        target.set_attn_implementation(attention_for(self.device, settings.length))

    def write_text(self) -> Written:
        """What the target wrote; missing parts are written first."""
        settings, folder = self.settings, self.settings.written / fingerprint(self.settings.target)
        plan: Any = {"parts": settings.parts, "texts": settings.texts, "temperatures": settings.temperatures}
        return write_text(self.engine, self.text, folder, **plan, seed=settings.seed)

    def draw_rows(self, written: np.ndarray, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, int]:
        """Packed rows ``[rows, length]`` int64, and how many of the last are of ``written [N]``."""
        by_target, length = round(rows * self.settings.share), self.settings.length
        parts = [self.text.draw_rows(rng, rows - by_target, length)] if by_target < rows else []
        return np.concatenate([*parts, *([windows(written, rng, by_target, length)] if by_target else [])]), by_target

    def fit(
        self, model: nn.Module, loss: Callable[[int], Tensor], export: Callable[[Path], Any], tokens: int, summary: str
    ) -> Path:
        """Train ``model``, measure τ by decoding with its export, and write it with its card."""
        prompts, pair, name = self.text.prompts(HELD_OUT), self.engine.pair, self._drafter.name

        def measure() -> dict[str, float]:
            export(self.run / "export")
            pair.drafters.pop(name, None)
            runs = decode_greedily(self.engine, self.engine.drafter(name), prompts, self._gamma, NEW)
            return tau_by_flavour((prompt, metrics) for prompt, metrics, _ in runs)

        self.train(model, loss, measure, tokens)
        export(self.out)
        title = f"Greedy tokens per round, γ = {self._gamma}, T = 1, decoded on held-out prompts"
        return self.card(model, summary, scores=last_scores(self.run, SCORE), score_name=title)


def generator(settings: ModelSettings, step: int) -> np.random.Generator:
    """What draws a step's data: it depends on the seed and the step only, so that a resumed run
    sees what a whole one would."""
    return np.random.default_rng([settings.seed, step])


# Llamas.


def attention_for(device: torch.device, length: int) -> str:
    """How a Llama attends fastest in training: on a CPU the backward of fused attention beats plain matrix products in
    long rows only (measured: 256 tokens ×1.15 to ×1.5 slower, 512 tokens ×1.8 faster)."""
    return "eager" if device.type == "cpu" and length < 512 else "sdpa"


def heads_of(width: int) -> int:
    """Attention heads of 64 channels each. ConfigError: ``width`` is not a multiple of 64."""
    if width % 64:
        raise ConfigError(f"--width {width} does not split into heads.", field="width", hint="Give a multiple of 64.")
    return width // 64


def new_llama(vocab_size: int, *, layers: int = 16, width: int = 256, context: int = 512) -> LlamaForCausalLM:
    """An untrained ``LlamaForCausalLM``: deep and narrow, since decoding cost follows depth."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=64 * round(width * 8 / 3 / 64),
        num_hidden_layers=layers,
        num_attention_heads=heads_of(width),
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def load_llama(folder: Path, device: torch.device, role: str) -> LlamaForCausalLM:
    """A trained Llama in fp32, to be trained on.

    Raises:
        WeightsError: it is missing, damaged, or another kind of model.
    """
    model = load_stock(folder, torch.float32, device=device, role=role)
    if not isinstance(model, LlamaForCausalLM):
        raise WeightsError(f"The {role} in {shown(folder)} is no Llama.", hint="Only a Llama can be trained here.")
    return model.requires_grad_(True)


def begin_llama(session: Session, fresh: Callable[[], LlamaForCausalLM]) -> LlamaForCausalLM:
    """The Llama that a recipe trains: that of ``--start``, otherwise a ``fresh`` one."""
    settings, device = session.settings, session.device
    torch.manual_seed(settings.seed)  # transformers initialises from the global stream
    model: LlamaForCausalLM = load_llama(settings.start, device, session.kind) if settings.start else fresh()
    model.to(device)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    model.set_attn_implementation(attention_for(device, settings.length))
    return model


def export_llama(model: LlamaForCausalLM, out: Path) -> Path:
    """Write a model as transformers loads it: bf16 safetensors in shards below 9 MB."""
    empty_folder(out)
    stored: Any = copy.deepcopy(model)
    stored.to(torch.bfloat16).save_pretrained(out, max_shard_size="8MB")
    return out
