"""Text that the target itself writes: what a drafter must predict. Knows batched decoding and its files, no drafter.

Prompts are the beginnings of documents; the target continues them greedily and by sampling. Files are parts of one
batch each, named by number; part n depends on the seed and n only, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.defaults import TEMPERATURES

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote:
    """One finished part."""

    part: int
    parts: int
    tokens: int  # new tokens in this part
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Written:
    """Rows of target-written text. Row i is ``tokens[i, :lengths[i]]``; it begins with the end-of-text id, then the
    prompt, and ends with the end-of-text id where the target stopped by itself."""

    tokens: np.ndarray  # [N, L] uint16, padded with the end id
    prompts: np.ndarray  # [N] int64, prompt tokens, the leading end id included
    lengths: np.ndarray  # [N] int64
    flavours: np.ndarray  # [N] str
    temperatures: np.ndarray  # [N] float

    @classmethod
    def load(cls, folder: Path) -> Written:
        """Read all parts of ``folder``.

        Raises:
            CorpusError: there is none.
        """
        paths = sorted(folder.glob("part-*.npz"))
        if not paths:
            raise CorpusError(f"No target-written text in {folder}.", hint="Write some first (train.written.write).")
        parts = [np.load(path) for path in paths]
        longest = max(part["tokens"].shape[1] for part in parts)
        padded = [np.pad(part["tokens"], ((0, 0), (0, longest - part["tokens"].shape[1]))) for part in parts]
        return cls(
            np.concatenate(padded),
            *(np.concatenate([part[name] for part in parts]) for name in ("prompts", "lengths", "flavours")),
            np.concatenate([part["temperatures"] for part in parts]),
        )


def writer_of(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """A bf16 copy of the target that writes quickly; its rotary frequencies keep fp32, as when it decodes."""
    rotary = copy.deepcopy(target.model.rotary_emb)
    writer = copy.deepcopy(target).to(dtype=torch.bfloat16).eval()
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
    end: int = 0,
    forbidden: Sequence[int] = (),
) -> Tensor:
    """Continue a batch of equally long prompts.

    Args:
        prompts: ``[B, P]`` int64.
        temperatures: ``[B]`` float; 0 is greedy.
        new_tokens: at most so many; rows that said ``end`` are filled with it.
        forbidden: ids that are never said.

    Returns:
        ``[B, P + n]`` int64, n ≤ ``new_tokens``.
    """
    from specdiff_core.models.cache import new_cache

    cache = new_cache(model.config)
    greedy = temperatures <= 0
    scale = torch.where(greedy, torch.ones_like(temperatures), temperatures)[:, None]
    banned = torch.tensor(list(forbidden), dtype=torch.long, device=prompts.device)
    running = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
    text, fresh = prompts, prompts
    for _ in range(new_tokens):
        logits = model(input_ids=fresh, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        logits = logits.index_fill(1, banned, float("-inf"))
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()  # Gumbel-max: argmax(l/τ − log E)
        noise[greedy] = 0.0
        fresh = (logits / scale - noise).argmax(-1)
        fresh = torch.where(running, fresh, torch.full_like(fresh, end))[:, None]
        text = torch.cat([text, fresh], dim=1)
        running &= fresh[:, 0] != end
        if not bool(running.any()):
            break
    return text


def _batch(
    documents: dict[str, tuple[np.ndarray, np.ndarray]], rng: np.random.Generator, rows: int, lengths: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """``rows`` document beginnings of one random length: ``[rows, P]`` int64 and their flavours, equally mixed."""
    longest = max(int(np.diff(np.append(starts, len(tokens))).max()) for tokens, starts in documents.values())
    size = min(int(rng.integers(lengths[0], lengths[1] + 1)), longest - 1)
    if size < 1:
        raise CorpusError("No document is longer than one token.", hint="Add text to the corpus.")
    long_enough = {
        name: starts[np.diff(np.append(starts, len(tokens))) > size] for name, (tokens, starts) in documents.items()
    }
    names = sorted(name for name, starts in long_enough.items() if len(starts))
    chosen = [names[i % len(names)] for i in range(rows)]
    first = [int(rng.choice(long_enough[name])) for name in chosen]
    prompts = np.stack([documents[name][0][f : f + size] for name, f in zip(chosen, first, strict=True)])
    return prompts.astype(np.int64), np.array(chosen)


def digest_of(model: LlamaForCausalLM) -> str:
    """A short hash of a model's weights: text by another target is not what its drafters must predict."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
    return found.hexdigest()[:12]


def sign(folder: Path, model: LlamaForCausalLM) -> None:
    """Say that ``folder`` holds text of ``model``, or find out that it is somebody else's.

    Raises:
        CorpusError: it is.
    """
    path, digest = folder / "writer.txt", digest_of(model)
    if not path.is_file():
        path.write_text(digest + "\n", encoding="utf-8")
    elif (other := path.read_text(encoding="utf-8").strip()) != digest:
        raise CorpusError(
            f"The text in {folder.parent.name}/{folder.name} is of another target ({other}; this is {digest}).",
            hint="Remove that folder, or name another one with --written.",
        )


def write(
    model: LlamaForCausalLM,
    documents: dict[str, tuple[np.ndarray, np.ndarray]],
    folder: Path,
    *,
    parts: int,
    rows: int = 64,
    prompt_tokens: tuple[int, int] = (16, 64),
    new_tokens: int = 160,
    temperatures: Sequence[float] = TEMPERATURES,
    end: int = 0,
    forbidden: Sequence[int] = (1,),
    seed: int = 0,
) -> Iterator[Wrote]:
    """Write ``parts`` files of ``rows`` rows into ``folder``; parts that exist are kept.

    Args:
        documents: ``(tokens, starts)`` by flavour, as :func:`specdiff_core.train.corpus.encode_documents` returns.
        temperatures: rows take them in turn, flavour by flavour.

    Yields:
        a :class:`Wrote` for each new part.

    Raises:
        CorpusError: the parts in ``folder`` were written by another target.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sign(folder, model)
    for part in range(parts):
        path = folder / f"part-{part:05d}.npz"
        if path.exists():
            continue
        began = time.perf_counter()
        rng = np.random.default_rng([seed, part])
        generator = torch.Generator(model.device).manual_seed(int(rng.integers(2**62)))
        prompts, flavours = _batch(documents, rng, rows, prompt_tokens)
        heat = np.array([temperatures[(i // len(documents)) % len(temperatures)] for i in range(rows)])
        text = continue_prompts(
            model,
            torch.from_numpy(prompts).to(model.device),
            torch.from_numpy(heat).float().to(model.device),
            new_tokens,
            generator,
            end=end,
            forbidden=forbidden,
        )
        tokens = text.cpu().numpy().astype(np.uint16)
        size = prompts.shape[1]
        ended = tokens[:, size:] == end
        lengths = np.where(ended.any(1), size + ended.argmax(1) + 1, tokens.shape[1])
        partial = folder / f"part-{part:05d}.partial"
        with partial.open("wb") as file:
            np.savez(
                file,
                tokens=tokens,
                prompts=np.full(rows, size),
                lengths=lengths,
                flavours=flavours,
                temperatures=heat,
            )
        partial.replace(path)
        written = int((lengths - size).sum())
        yield Wrote(part=part, parts=parts, tokens=written, tokens_per_second=written / (time.perf_counter() - began))
