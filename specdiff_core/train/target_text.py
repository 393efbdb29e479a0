"""Lets the target write text, and reads it back: what a drafter must predict is what its own target says.

Prompts are the beginnings of documents; the target continues them greedily and by sampling. Each file holds one batch;
file n depends on the seed and n only, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from specdiff_core.models.folders import shown
from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.corpus import Documents, EncodedCorpus, save_arrays
from specdiff_core.train.settings import TEMPERATURES

logger = logging.getLogger("specdiff.train")

FILES = "part-*.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWritten:
    """One finished file."""

    part: int
    parts: int
    tokens: int  # new tokens in this part
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class TargetText:
    """Rows of text that a target wrote. Row i is ``tokens[i, :lengths[i]]``; it begins with the end-of-text id, then
    the prompt, and ends with the end-of-text id if the target stopped by itself."""

    tokens: np.ndarray  # [N, L] uint16, padded
    prompts: np.ndarray  # [N] int64, prompt tokens, the leading end-of-text id included
    lengths: np.ndarray  # [N] int64
    flavours: np.ndarray  # [N] str
    temperatures: np.ndarray  # [N] float

    @classmethod
    def load(cls, folder: Path) -> TargetText:
        """Read all parts of ``folder``.

        Raises:
            CorpusError: there is none.
        """
        parts = [np.load(path) for path in sorted(folder.glob(FILES))]
        if not parts:
            hint = "Run: python -m specdiff_core train written"
            raise CorpusError(f"There is no target-written text in {shown(folder)}.", hint=hint)
        longest = max(part["tokens"].shape[1] for part in parts)
        padded = [np.pad(part["tokens"], ((0, 0), (0, longest - part["tokens"].shape[1]))) for part in parts]
        names = ("prompts", "lengths", "flavours", "temperatures")
        return cls(np.concatenate(padded), *(np.concatenate([part[name] for part in parts]) for name in names))

    def packed(self) -> np.ndarray:
        """All rows end to end, without their padding: ``[tokens]`` uint16."""
        return self.tokens[np.arange(self.tokens.shape[1]) < self.lengths[:, None]]


def packed_text(folder: Path, target: LlamaForCausalLM) -> np.ndarray | None:
    """The training text that ``target`` wrote into ``folder``, packed; None (and a warning) if it wrote none.

    Raises:
        CorpusError: the text there is another target's.
    """
    if not any((folder / "train").glob(FILES)):
        logger.warning(f"no target-written text in {shown(folder)}: learning from the corpus only (see: train written)")
        return None
    check_writer(folder / "train", target)
    return TargetText.load(folder / "train").packed()


def fast_copy(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """A bf16 copy of the target that writes quickly; its rotary frequencies keep fp32, as when it decodes."""
    rotary = copy.deepcopy(target.model.rotary_emb)
    writer = copy.deepcopy(target)
    writer.to(torch.bfloat16)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    writer.model.rotary_emb = rotary
    writer.set_attn_implementation("eager")  # on a CPU twice as fast as fused attention for one token per row
    return writer


@torch.no_grad()
def continue_prompts(
    model: LlamaForCausalLM,
    prompts: Tensor,
    temperatures: Tensor,
    new_tokens: int,
    generator: torch.Generator,
    *,
    end: int,
    mask: int,
) -> Tensor:
    """Continue a batch of equally long prompts.

    Args:
        prompts: ``[B, P]`` int64.
        temperatures: ``[B]`` float; 0 is greedy.
        new_tokens: at most; rows that have ended are filled with ``end``.
        mask: an id that is never written.

    Returns:
        ``[B, P + n]`` int64, n ≤ ``new_tokens``.
    """
    cache = DynamicCache(config=model.config)
    greedy = temperatures <= 0
    scale = torch.where(greedy, torch.ones_like(temperatures), temperatures)[:, None]
    banned = torch.tensor([mask], device=prompts.device)
    running = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
    text, fresh = prompts, prompts
    for _ in range(new_tokens):
        logits = model(input_ids=fresh, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        logits = logits.index_fill(1, banned, -torch.inf)
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()  # Gumbel-max: argmax(l/T − log E)
        noise[greedy] = 0.0
        fresh = (logits / scale - noise).argmax(-1)
        fresh = torch.where(running, fresh, torch.full_like(fresh, end))[:, None]
        text = torch.cat([text, fresh], dim=1)
        running &= fresh[:, 0] != end
        if not bool(running.any()):
            break
    return text


def greedy_text(model: LlamaForCausalLM, prompts: Tensor, new_tokens: int, *, mask: int, end: int = -1) -> Tensor:
    """The most probable continuation of ``prompts [B, P]``; by default rows do not end: ``[B, P + new_tokens]``."""
    temperatures, generator = torch.zeros(len(prompts), device=prompts.device), torch.Generator(prompts.device)
    return continue_prompts(model, prompts, temperatures, new_tokens, generator, end=end, mask=mask)


def _draw_prompts(
    documents: dict[str, Documents], rng: np.random.Generator, rows: int, lengths: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """``rows`` document beginnings of one random length: ``[rows, P]`` int64 and their flavours, equally mixed."""
    sizes = {name: np.diff(np.append(starts, len(tokens))) for name, (tokens, starts) in documents.items()}
    longest = max(int(each.max()) for each in sizes.values())
    size = min(int(rng.integers(lengths[0], lengths[1] + 1)), longest - 1)
    if size < 1:
        raise CorpusError("No document is longer than one token.", hint="Add text to the corpus.")
    long_enough = {name: documents[name][1][sizes[name] > size] for name in sorted(documents)}
    names = [name for name, starts in long_enough.items() if len(starts)]
    chosen = [names[i % len(names)] for i in range(rows)]
    first = [int(rng.choice(long_enough[name])) for name in chosen]
    prompts = np.stack([documents[name][0][f : f + size] for name, f in zip(chosen, first, strict=True)])
    return prompts.astype(np.int64), np.array(chosen)


def check_writer(folder: Path, model: LlamaForCausalLM) -> None:
    """Make sure that the text in ``folder`` is ``model``'s; an unsigned folder is signed with a hash of its weights.

    Raises:
        CorpusError: another target wrote it, so it is not what this one's drafters must predict.
    """
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
    path, digest = folder / "writer.txt", found.hexdigest()[:12]
    if not path.is_file():
        path.write_text(digest + "\n", encoding="utf-8")
    elif (other := path.read_text(encoding="utf-8").strip()) != digest:
        raise CorpusError(
            f"The text in {shown(folder)} is of another target ({other}; this is {digest}).",
            hint="Remove that folder, or name another one with --written.",
        )


def write_text(
    model: LlamaForCausalLM,
    data: EncodedCorpus,
    split: str,
    folder: Path,
    *,
    parts: int,
    seed: int,
    rows: int = 64,
    prompt_tokens: tuple[int, int] = (16, 64),
    new_tokens: int = 160,
    temperatures: Sequence[float] = TEMPERATURES,
) -> Iterator[PartWritten]:
    """Continue the documents of a split in ``parts`` files below ``folder``/``split``; files that exist are kept.

    Args:
        prompt_tokens: least and most; the same for all rows of a file.
        new_tokens: per row, at most.
        temperatures: rows take them in turn, flavour by flavour.

    Raises:
        CorpusError: the files there were written by another target.
    """
    folder, documents = folder / split, data.split(split)
    folder.mkdir(parents=True, exist_ok=True)
    check_writer(folder, model)
    for part in range(parts):
        path = folder / f"part-{part:05d}.npz"
        if path.exists():
            continue
        began = time.perf_counter()
        rng = np.random.default_rng([seed, part])
        generator = torch.Generator(model.device).manual_seed(int(rng.integers(2**62)))
        prompts, flavours = _draw_prompts(documents, rng, rows, prompt_tokens)
        chosen = np.array([temperatures[i // len(documents) % len(temperatures)] for i in range(rows)])
        inputs = (torch.from_numpy(prompts).to(model.device), torch.from_numpy(chosen).float().to(model.device))
        text = continue_prompts(model, *inputs, new_tokens, generator, end=data.end, mask=data.mask)
        tokens = text.cpu().numpy().astype(np.uint16)
        size = prompts.shape[1]
        ended = tokens[:, size:] == data.end
        lengths = np.where(ended.any(1), size + ended.argmax(1) + 1, tokens.shape[1])
        sizes = np.full(rows, size)
        save_arrays(path, tokens=tokens, prompts=sizes, lengths=lengths, flavours=flavours, temperatures=chosen)
        new = int((lengths - size).sum())
        yield PartWritten(part=part, parts=parts, tokens=new, tokens_per_second=new / (time.perf_counter() - began))
