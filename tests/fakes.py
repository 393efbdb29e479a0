"""A target and drafters made of functions: the loop and its cache are the real ones."""

from __future__ import annotations

import functools
import hashlib
import itertools
import zlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.loop import speculate
from specdiff_core.drafters.base import Context, DenoiseState, Draft, Drafter, Stateless
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.target import Target
from specdiff_core.provenance import Provenance
from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig

V, MASK, END = 12, 1, 0
WIDTH = 8  # of hidden states
Text = tuple[int, ...]
ORIGIN: Provenance = {
    "date": "2026-01-02T03:04+00:00", "command": "python -m specdiff_core bench sweep --json sweep.json",
    "commit": "0123456789ab", "dirty": False, "cpu": "A test processor", "cores": 2, "threads": 1, "gpu": "",
    "system": "Linux x86_64", "versions": {"python": "3", "torch": "0"},
}  # fmt: skip  # several fields a line


class FakeClock(DeviceClock):
    """Every look at the clock is a millisecond later: traces of one seed are equal."""

    def __init__(self) -> None:
        ticks = itertools.count(1)
        super().__init__(torch.device("cpu"), tick=lambda: next(ticks) / 1000)


Script = Callable[[tuple[int, ...], Tensor], Tensor]
"""(committed ids, window ids [g]) -> logits [g, V]."""


class ScriptedDrafter(Stateless):
    """Weights: a function."""

    name = "scripted"

    def __init__(self, script: Script, *, mask_id: int) -> None:
        self._script, self._mask_id = script, mask_id

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """Denoise by the script."""
        known = tuple(context.ids)
        return (yield from denoise(lambda window: self._script(known, window), context, mask_id=self._mask_id))


def keyed_logits(*key: object, scale: float = 2.0) -> Tensor:
    """``[V]`` logits that depend on the key only, on any machine and torch version."""
    digest = b"".join(hashlib.sha256(f"{key}{i}".encode()).digest() for i in range(V // 8 + 1))
    values = [int.from_bytes(digest[2 * i : 2 * i + 2], "little") / 65535 for i in range(V)]
    return torch.tensor([scale * (2 * v - 1) for v in values], dtype=torch.float64)


class Ledger:
    """A causal language model whose cache is a ledger: the tokens that it read, and their positions.

    The text of a row is what the mask lets it read, in the order of the positions; its logits are
    ``distribution(text)``. A token that was rolled back too late, a wrong ancestor or a wrong position makes
    another text, and so another distribution."""

    dtype, device = torch.float64, torch.device("cpu")

    def __init__(self, distribution: Callable[[Text], Tensor], size: int) -> None:
        self.config = LlamaConfig(
            vocab_size=size, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1
        )
        self.config._attn_implementation = "eager"
        self._distribution, self._known = distribution, {}

    def logits(self, text: Text) -> Tensor:
        """``[V]`` behind ``text``."""
        if text not in self._known:
            self._known[text] = self._distribution(text)
        return self._known[text]

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
        past_key_values: Any,
        logits_to_keep: int,
        output_hidden_states: Sequence[int],
        features: Tensor | None = None,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        held, new = past_key_values.get_seq_length(), input_ids.shape[1]
        positions = torch.arange(held, held + new)[None] if position_ids is None else position_ids
        ledger = torch.stack([positions, input_ids], -1)[:, None].double()
        entries = [tuple(entry) for entry in past_key_values.update(ledger, ledger, 0)[0][0, 0].long().tolist()]
        texts = []
        for row in range(new):
            seen = range(held + row + 1) if attention_mask is None else (attention_mask[0, 0, row] == 0).nonzero()
            read = sorted(entries[int(entry)] for entry in seen)
            in_order = [position for position, _ in read] == list(range(len(read)))
            texts.append(tuple(token for _, token in read) if in_order else tuple(read))
        return CausalLMOutputWithPast(
            logits=torch.stack([self.logits(text) for text in texts])[None, -logits_to_keep:],
            hidden_states=(None, torch.stack([state(text) for text in texts])[None]) if output_hidden_states else None,
        )


@functools.cache
def noise(*key: object, size: int) -> Tensor:
    """``[size]`` normal, a function of the key."""
    generator = torch.Generator().manual_seed(zlib.crc32(repr(key).encode()))
    return torch.randn(size, generator=generator, dtype=torch.float64)


def state(text: Text) -> Tensor:
    """``[W]``, the hidden state of the last token of a text."""
    return noise("state", text, size=WIDTH)


class FakeTarget(Target):
    """p(·|all ids) comes from ``distribution`` (default: a hash)."""

    def __init__(
        self,
        distribution: Callable[[Text], Tensor] = lambda ids: keyed_logits("p", ids[-3:]),
        *,
        size: int = V,
        context: int = 200,
        suppress: Sequence[int] = (MASK,),
    ) -> None:
        super().__init__(Ledger(distribution, size), context=context, suppress=suppress)


def good_drafter(error: float = 0.6) -> ScriptedDrafter:
    """Near the fake target's distribution where the context is known, so that tokens are accepted."""

    def script(known: tuple[int, ...], window: Tensor) -> Tensor:
        rows, text = [], list(known)
        for i, token in enumerate(window.tolist()):
            rows.append(keyed_logits("p", tuple(text[-3:])) + error * keyed_logits("q", tuple(known), i, scale=1.0))
            text.append(token if token != MASK else int(rows[-1].argmax()))
        return torch.stack(rows)

    return ScriptedDrafter(script, mask_id=MASK)


def decoded(
    config: DecodeConfig, *, target: Target | None = None, drafter: Drafter | None = None, **options: Any
) -> list[Event]:
    """The events of a run of the loop behind the ids 3, 4, 5; options as of ``speculate``."""
    clock = options.pop("clock", None) or FakeClock()
    return list(speculate([3, 4, 5], config, target or FakeTarget(), drafter or good_drafter(), clock, **options))


def small_model(layers: int = 2) -> Any:
    """A Llama of transformers with weights of an opinion."""
    torch.manual_seed(layers)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.4, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip  # several fields a line
    return LlamaForCausalLM(config).eval()
