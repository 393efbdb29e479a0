"""The target's answers to prompts, as training data for a drafter: tokens, hidden states of some
layers, and the most probable next tokens; stored in shards, which ``writing.py`` fills."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.writing import replacing
from specdiff_core.measure import prompts as texts
from specdiff_core.models.network import CausalLM, causal
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import CorpusError, SpecDiffError
from specdiff_core.schema.summary import loops

TOP = 32
"""Stored most probable next tokens of each distribution."""
CHECKED = 64
"""Tokens of each answer that are checked against the target."""
ALIKE = 0.25
"""Log-probabilities within this distance, in nats, count as those of the same weights in another precision."""
HEADER = "specdiff"


class EncodedPrompt(NamedTuple):
    """A prompt as the target reads it."""

    id: str
    flavour: str
    tokens: tuple[int, ...]


def encode_prompts(
    lines: Iterable[texts.Prompt], encode: Callable[[str], Sequence[int]], *, longest: int
) -> list[EncodedPrompt]:
    """Encode the prompts, without those of more than ``longest`` tokens or that ``encode`` rejects,
    for example for a control token of the chat template.

    Raises:
        CorpusError: none is left; the message says why the last one was rejected.
    """
    encoded, why = [], f"All have more than {longest} tokens, the chat template included."
    for line in lines:
        try:
            tokens = tuple(encode(line.prompt))
        except SpecDiffError as error:
            why = error.message
            continue
        if 0 < len(tokens) <= longest:
            encoded.append(EncodedPrompt(line.id, line.flavour, tokens))
    if not encoded:
        raise CorpusError(f"None of these prompts can be used. {why}", hint="Give shorter ones, or a larger --longest.")
    return encoded


class TrainingExample(NamedTuple):
    """A prompt and its answer, with the target's results at each of their n tokens."""

    prompt: EncodedPrompt
    temperature: float
    tokens: Tensor  # [n] int32
    features: Tensor  # [n, F, W] bf16: outputs of F layers; F = 0: computed again when read
    top_ids: Tensor  # [n, TOP] int32, of the distribution after each token; unknown in the prompt
    top_logs: Tensor  # [n, TOP] fp16, their log-probabilities at temperature 1; −inf where unknown


def save_shard(answers: Sequence[TrainingExample], path: Path, layers: Sequence[int]) -> None:
    rows = [
        {
            "id": answer.prompt.id,
            "flavour": answer.prompt.flavour,
            "temperature": answer.temperature,
            "looped": loops(answer.tokens[len(answer.prompt.tokens) :].tolist()),
            "prompt": len(answer.prompt.tokens),
            "length": len(answer.tokens),
        }
        for answer in answers
    ]
    tensors = {name: torch.cat([getattr(answer, name) for answer in answers]) for name in TENSORS}
    with replacing(path) as fresh:
        header = {"layers": list(layers), "rows": rows}
        save_file(tensors, fresh, metadata={HEADER: json.dumps(header)})


@torch.no_grad()
def read_states(model: CausalLM, tokens: Tensor, layers: Sequence[int]) -> Tensor:
    """The outputs of ``layers`` at ``tokens [B, L]``, ``[B, L, F, W]`` bf16, computed again."""
    _, states = model.decode(tokens, slice(0, tokens.shape[1]), causal, layers=layers, last=0)
    return torch.stack(states, 2).to(torch.bfloat16)


class ShardRow(NamedTuple):
    """The position of an answer in its shard."""

    shard: str
    first: int
    end: int
    prompt: int  # tokens of its prompt
    prompt_id: str
    flavour: str
    temperature: float
    looped: bool


class _Header(msgspec.Struct):
    """A shard's own account: the stored layers, and of each answer what :func:`save_shard` writes."""

    layers: list[int]
    rows: list[dict[str, Any]]


TENSORS = ("tokens", "features", "top_ids", "top_logs")


class Batch(NamedTuple):
    """Answers of at most L tokens, prompts included."""

    tokens: Tensor  # [B, L] int64
    features: Tensor  # [B, L, F, W] bf16
    top_ids: Tensor  # [B, L, TOP] int64
    top_logs: Tensor  # [B, L, TOP] fp16; −inf where nothing is known
    lengths: Tensor  # [B]
    prompts: Tensor  # [B] tokens of each prompt

    def to(self, device: torch.device) -> Batch:
        return Batch(*(tensor.to(device) for tensor in self))


def collate(answers: Sequence[TrainingExample]) -> Batch:
    lengths = [len(answer.tokens) for answer in answers]

    def padded(name: str, fill: float) -> Tensor:
        tensors: list[Tensor] = [getattr(answer, name) for answer in answers]
        stacked = tensors[0].new_full((len(tensors), max(lengths), *tensors[0].shape[1:]), fill)
        for row, tensor in zip(stacked, tensors, strict=True):
            row[: len(tensor)] = tensor
        return stacked

    return Batch(
        padded("tokens", 0).long(),
        padded("features", 0.0),
        padded("top_ids", 0).long(),
        padded("top_logs", -torch.inf),
        torch.tensor(lengths),
        torch.tensor([len(answer.prompt.tokens) for answer in answers]),
    )


def allowed(logits: Tensor, target: Target) -> Tensor:
    """``logits [n, V]`` in fp32, without suppressed ids."""
    never = torch.tensor(target.suppress, dtype=torch.long, device=logits.device)
    return logits.float().index_fill(-1, never, -torch.inf)


class Answers:
    """The answers in a folder, which may grow (:meth:`refresh`); tensors are read on demand.

    Args:
        layers: layers to read; the shards may have more.

    Raises:
        CorpusError: a shard is damaged, or lacks a layer.
    """

    def __init__(self, folder: Path, layers: Sequence[int]) -> None:
        self.folder, self.layers, self.rows = folder, tuple(layers), list[ShardRow]()
        self._open: dict[str, tuple[dict[str, Any], list[int]]] = {}  # shard -> tensors, columns
        self.refresh()

    @property
    def tokens(self) -> int:
        """Tokens of all answers, prompts not counted."""
        return sum(row.end - row.first - row.prompt for row in self.rows)

    def refresh(self) -> None:
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name in self._open:
                continue
            try:
                file: Any = safe_open(path, "pt")
                header = msgspec.json.decode((file.metadata() or {})[HEADER], type=_Header)
                tensors = {name: file.get_slice(name) for name in TENSORS}
                ends = np.cumsum([row["length"] for row in header.rows]).tolist()
                rows = [
                    ShardRow(path.name, end - row.pop("length"), end, row.pop("prompt"), row.pop("id"), **row)
                    for row, end in zip(header.rows, ends, strict=True)
                ]
            except (SafetensorError, OSError, KeyError, TypeError, msgspec.MsgspecError) as error:
                what = f"The answers in {short_path(path)} are damaged ({type(error).__name__}: {error})."
                raise CorpusError(what, hint="Remove that file.") from error
            if missing := [layer for layer in self.layers if layer not in header.layers]:
                what = f"{short_path(path)} has the layers {header.layers}, but layer {missing[0]} is needed."
                raise CorpusError(what, hint="Choose --taps among them, or another --answers.")
            self._open[path.name] = tensors, [header.layers.index(layer) for layer in self.layers]
            self.rows += rows

    def check(self, target: Target) -> None:
        """Check the beginning of an answer against the target.

        Raises:
            CorpusError: there are no answers, or another target wrote them.
        """
        if not self.rows:
            what = f"There are no answers in {short_path(self.folder)}."
            raise CorpusError(what, hint="Set --answering above 0.")
        row = self.rows[0]
        tokens = self.whole(row)[: row.prompt + CHECKED]
        if same := max(tokens) < target.vocab_size:
            batch, span = self.batch([row]), slice(row.prompt - 1, len(tokens))
            logs = allowed(target.start().score(tokens).logits[span], target).log_softmax(-1).cpu()
            ids, gaps = batch.top_ids[0, span], logs.gather(-1, batch.top_ids[0, span]) - batch.top_logs[0, span]
            same = float(gaps.abs().median()) < ALIKE and float((logs.argmax(-1) == ids[:, 0]).float().mean()) > 0.7
        if not same:
            what = f"The answers in {short_path(self.folder)} were written by another target."
            raise CorpusError(what, hint="Give another folder for --answers.")

    def text(self, row: ShardRow) -> list[int]:
        """The tokens of an answer, without its prompt."""
        return self.whole(row)[row.prompt :]

    def whole(self, row: ShardRow) -> list[int]:
        """The tokens of an answer with its prompt."""
        tokens: list[int] = self._open[row.shard][0]["tokens"][row.first : row.end].tolist()
        return tokens

    def batch(self, rows: Sequence[ShardRow]) -> Batch:
        return collate([self._read(row) for row in rows])

    def _read(self, row: ShardRow) -> TrainingExample:
        tensors, columns = self._open[row.shard]
        fields = {name: tensors[name][row.first : row.end] for name in TENSORS}
        prompt = EncodedPrompt(row.prompt_id, row.flavour, tuple(fields["tokens"][: row.prompt].tolist()))
        return TrainingExample(prompt, row.temperature, **fields | {"features": fields["features"][:, columns]})
