"""The target of a pair: a stock ``LlamaForCausalLM`` that learns to continue a corpus."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from corpus import Corpus, draw_rows, encode
from torch import Tensor
from tqdm.auto import tqdm
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specdiff_core.checkpoints.writing import empty_folder
from specdiff_core.measure.statistics import Interval, ratios
from specdiff_core.models.causal import load_stock
from specdiff_core.models.device import choose_placement, set_threads
from specdiff_core.provenance import command, provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import option
from specdiff_core.train.cards import OTHER_CREDITS, ModelCard, training_record, write_card
from specdiff_core.train.learners.base import autocast
from specdiff_core.train.trainer import Trainer, log, read_checkpoint

WARMUP, FINISH = 50, 0.5
"""Steps of rising learning rate, and the share of the steps with a falling one."""
EVERY = 200
"""Steps between two checkpoints, and two measurements."""
CONTEXT = 512

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


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The target's size, and how it is trained. The names are flags."""

    depth: Annotated[int, option("layers of the target", 1)] = 16
    width: Annotated[int, option("width of the target, a multiple of 64", 64)] = 256
    steps: Annotated[int, option("optimiser steps of the target", 1)] = 4000
    batch_tokens: Annotated[int, option("tokens in a step of the target", 1)] = 4096
    length: Annotated[int, option("tokens in a row of such a step", 32, CONTEXT)] = 256
    seed: Annotated[int, option("seed of everything that is drawn", 0, 2**31 - 1)] = 0
    device: Annotated[str, option("auto, cpu or cuda")] = "auto"
    threads: Annotated[Annotated[int, option(low=1)] | None, option("CPU threads [default: torch's choice]")] = None

    def rate_at(self, step: int) -> float:
        """Learning-rate factor in [0, 1]: linear warm-up, constant, linear decay at the end."""
        return max(0.0, min(1.0, (step + 1) / WARMUP, (self.steps - step) / max(1.0, self.steps * FINISH)))


def new_llama(vocabulary: int, *, layers: int, width: int) -> LlamaForCausalLM:
    """An untrained ``LlamaForCausalLM``: deep and narrow, since decoding cost follows depth.

    Raises:
        ConfigError: ``width`` does not split into heads of 64.
    """
    if width % 64:
        raise ConfigError(f"--width {width} does not split into heads.", field="width", hint="Give a multiple of 64.")
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=64 * round(width * 8 / 3 / 64),
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


@torch.no_grad()
def held_out_loss(
    model: Any, texts: Mapping[str, np.ndarray], length: int = CONTEXT, rows: int | None = None
) -> dict[str, Interval]:
    """Next-token loss in nats per token, by flavour and the mean of the flavours, over whole windows
    of ``length`` tokens of each (at most ``rows``)."""
    sums, groups = dict[str, tuple[float, float]](), dict[str, list[str]]()
    for flavour, tokens in texts.items():
        size = min(length, len(tokens) - 1)  # a held-out split shorter than one window is one window
        windows = [tokens[i : i + size + 1] for i in range(0, len(tokens) - size, size)][:rows]
        groups[flavour] = [f"{flavour}-{number}" for number in range(len(windows))]
        for first in range(0, len(windows), 8):
            batch = torch.from_numpy(np.stack(windows[first : first + 8]).astype(np.int64)).to(model.device)
            logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
            nats = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none").view(len(batch), -1)
            sums |= zip(groups[flavour][first : first + 8], ((1.0, one) for one in nats.mean(-1).tolist()), strict=True)
    return ratios(sums, groups)


@torch.no_grad()
def continued(model: Any, tokenizer: PreTrainedTokenizerFast, tokens: np.ndarray) -> str:
    """A greedy continuation of the first 24 tokens of a text."""
    ids = torch.from_numpy(tokens[None, :24].astype(np.int64)).to(model.device)
    options: Any = {"attention_mask": torch.ones_like(ids), "suppress_tokens": [tokenizer.mask_token_id]}
    out = model.generate(ids, max_new_tokens=72, do_sample=False, **options)[0].tolist()
    begin, rest = (tokenizer.decode(part, skip_special_tokens=True) for part in (out[:24], out[24:]))
    return f"{begin}⟶{rest}"


def train_target(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, out: Path, settings: TargetSettings, argv: Sequence[str]
) -> Path:
    """Train the target in the folder ``out``, from the checkpoint in ``out/run`` if there is one;
    returns its card's path.

    Raises:
        ConfigError: a setting is impossible.
        CorpusError: there is too little text.
    """
    set_threads(settings.threads)
    facts = provenance()  # now, because the repository may change during the training
    device, run = choose_placement(settings.device).device, out / "run"
    torch.manual_seed(settings.seed)  # transformers initialises from the global stream
    model: Any = new_llama(len(tokenizer), layers=settings.depth, width=settings.width).to(device)  # type: ignore[arg-type]  # wrapped to untyped
    # On a CPU the backward of fused attention beats plain products in long rows only (256 tokens: 1.15 to 1.5× slower).
    model.set_attn_implementation("eager" if device.type == "cpu" and settings.length < 512 else "sdpa")
    trainer = Trainer(model, run)
    if (state := read_checkpoint(run)) is not None:
        trainer.restore(state)
    log(run, {"kind": "begun", "command": command(argv, "recipes/pair.py")})
    text, valid = (encode(corpus, tokenizer, split) for split in ("train", "valid"))
    rows = max(1, settings.batch_tokens // settings.length)

    def loss() -> tuple[Tensor, int]:
        rng = np.random.default_rng([settings.seed, trainer.step])  # a resumed run draws what a whole one would
        ids = torch.from_numpy(draw_rows(text, rng, rows, settings.length + 1)).to(device)
        with autocast(device):
            hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
            logits = F.linear(hidden, model.lm_head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten()), rows * settings.length

    with tqdm(total=settings.steps, initial=trainer.step, unit="step", dynamic_ncols=True) as bar:
        while trainer.step < settings.steps:
            event = trainer.learn(loss, settings.rate_at(trainer.step))
            bar.set_postfix(loss=f"{event['loss']:.3f}", tokens_per_second=f"{event['tokens_per_second']:.0f}")
            bar.update()
            if trainer.step % EVERY == 0 or trainer.step == settings.steps:
                trainer.save()
                found = held_out_loss(model.eval(), valid, settings.length, 16)
                scores = {name: one.value for name, one in found.items()}
                trainer.log("measured", scores=scores)
                bar.write(f"step {trainer.step}: " + "  ".join(f"{name} {value:.3f}" for name, value in scores.items()))
    empty_folder(out)
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(out, max_shard_size="8MB")
    tokenizer.save_pretrained(out)
    stored = load_stock(out, torch.float32, device=device)  # measured as it was stored
    found = held_out_loss(stored, valid)
    fingerprint, flavours = corpus.fingerprint(), ", ".join(corpus.flavours)
    ours, millions = fingerprint == OWN_CORPUS, sum(parameter.numel() for parameter in model.parameters()) / 1e6
    return write_card(
        ModelCard(
            name=f"{FAMILY if ours else 'Own'}-target-{millions:.1f}M",
            summary=f"A small, deep causal language model of {len(corpus.flavours)} flavours of text ({flavours}): "
            "the target of a pair for SpecDiff Lab.",
            shape=f"A stock `LlamaForCausalLM`: {settings.depth} layers × {settings.width}, vocabulary "
            f"{len(tokenizer)}, context {CONTEXT}, tied embedding.",
            history=[training_record(run, facts, device, corpus=fingerprint, seed=settings.seed)],
            scores={name: one.value for name, one in found.items()},
            bounds={name: (one.low, one.high) for name, one in found.items()},
            score_name=f"Held-out loss (nats per token, whole validation split, windows of {CONTEXT})",
            notice=NOTICE if ours else "",
            credits=CREDITS if ours else OTHER_CREDITS,
            samples={name: continued(stored, tokenizer, tokens) for name, tokens in valid.items()},
            tags=("llama",),
        ),
        out,
    )
