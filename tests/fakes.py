"""A target and drafters made of functions: the loop runs for real, without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
from torch import Tensor

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.target import Scores
from specdiff_core.provenance import Provenance

V, MASK, END = 12, 1, 0
ORIGIN: Provenance = {
    "date": "2026-01-02T03:04+00:00",
    "command": "python -m specdiff_core bench sweep --json sweep.json",
    "commit": "0123456789ab",
    "dirty": False,
    "cpu": "A test processor",
    "cores": 2,
    "threads": 1,
    "gpu": "",
    "system": "Linux x86_64",
    "versions": {"python": "3", "torch": "0"},
}


class FakeClock(DeviceClock):
    """Every look at the clock is one millisecond later: golden traces have the same bytes everywhere."""

    def __init__(self, grain: str = "step") -> None:
        self._ticks = 0
        super().__init__(torch.device("cpu"), grain, self._count)

    def _count(self) -> float:
        self._ticks += 1
        return self._ticks / 1000


Script = Callable[[tuple[int, ...], Tensor], Tensor]
"""(committed ids, window ids [g]) -> logits [g, V]."""


class ScriptedSession(DraftSession):
    """Records what it observed, so that tests can compare it with what was committed."""

    def __init__(self, script: Script, mask_id: int) -> None:
        self._script, self._mask_id = script, mask_id
        self.observed: list[int] = []

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Append to ``observed``."""
        self.observed.extend(ids)

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """Denoise by the script."""
        known = tuple(context.ids)
        return (yield from denoise(lambda window: self._script(known, window), context, mask_id=self._mask_id))


class ScriptedDrafter:
    """Weights: a function."""

    name = "scripted"
    layers: tuple[int, ...] = ()

    def __init__(self, script: Script, *, mask_id: int) -> None:
        self._script, self._mask_id = script, mask_id

    def start(self) -> DraftSession:
        """A fresh session of the same script."""
        return ScriptedSession(self._script, self._mask_id)


def keyed_logits(*key: object, scale: float = 2.0) -> Tensor:
    """``[V]`` logits that depend on the key only, on any machine and torch version."""
    digest = b"".join(hashlib.sha256(f"{key}{i}".encode()).digest() for i in range(V // 8 + 1))
    values = [int.from_bytes(digest[2 * i : 2 * i + 2], "little") / 65535 for i in range(V)]
    return torch.tensor([scale * (2 * v - 1) for v in values], dtype=torch.float64)


class FakeTarget:
    """Looks like ``Target``; p(·|all ids) comes from ``law`` (default: a hash)."""

    def __init__(
        self,
        law: Callable[[tuple[int, ...]], Tensor] | None = None,
        *,
        context: int = 200,
        suppress: Sequence[int] = (MASK,),
    ) -> None:
        self.law = law or (lambda ids: keyed_logits("p", ids[-3:]))
        self.context, self.suppress, self.vocab_size = context, tuple(suppress), V
        self.sessions: list[FakeRun] = []

    def start(self, layers: Sequence[int] = ()) -> FakeRun:
        self.sessions.append(FakeRun(self))
        return self.sessions[-1]


class FakeRun:
    def __init__(self, target: FakeTarget) -> None:
        self.target, self.ids = target, []

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def room(self) -> int:
        return self.target.context - len(self.ids)

    def read(self, ids: Sequence[int]) -> None:
        self.ids += ids

    def score(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        features: Tensor | None = None,
        last: int = 0,
    ) -> Scores:
        assert len(ids) <= self.room
        self.ids += ids
        chain = range(-1, len(ids) - 2) if parents is None else parents
        anchor = len(self.ids) - len(chain)  # tokens up to it; a part of a tree may have been there before
        texts = [tuple(self.ids[:anchor])]
        for token, parent in zip(self.ids[anchor:], chain, strict=True):
            texts.append((*texts[parent + 1], token))
        logits = torch.stack([self.target.law(text) for text in texts[-len(ids) :]])
        return Scores(logits[-last:], None if features is None else torch.zeros(len(ids), 1))

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        last = self.ids[len(self.ids) - scored :]
        self.ids[len(self.ids) - scored :] = [last[row] for row in rows]


def good_drafter(error: float = 0.6) -> ScriptedDrafter:
    """Near the fake target's law where the context is known, so that runs of accepted tokens happen."""

    def script(known: tuple[int, ...], window: Tensor) -> Tensor:
        rows, text = [], list(known)
        for i, token in enumerate(window.tolist()):
            rows.append(keyed_logits("p", tuple(text[-3:])) + error * keyed_logits("q", tuple(known), i, scale=1.0))
            text.append(token if token != MASK else int(rows[-1].argmax()))
        return torch.stack(rows)

    return ScriptedDrafter(script, mask_id=MASK)


def small_model(layers: int = 2, vocab: int = 40) -> Any:
    """A Llama of transformers with weights of an opinion."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(layers)
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.4, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def last(events: Any) -> Any:
    *_, end = events
    return end
