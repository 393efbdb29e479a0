"""Pairs of an engine with a drafter of every kind, tiny enough to enumerate all texts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fakes import WIDTH, Ledger, noise
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.equality import STOCK
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.base import Drafter
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.eagle import EagleDrafter
from specdiff_core.drafters.masked_diffusion import MaskedDiffusionDrafter
from specdiff_core.drafters.prompt_lookup import PromptLookupDrafter
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.engine import Engine
from specdiff_core.loading import LoadedPair
from specdiff_core.models.causal import load_causal
from specdiff_core.models.device import Placement
from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.models.mdlm import Mdlm, MdlmConfig
from specdiff_core.models.network import CausalLM, Vocabulary, vocabulary
from specdiff_core.models.target import Target
from specdiff_core.schema.pairs import NONE, PROMPT_LOOKUP, DrafterSpec, PairSpec
from specdiff_core.train.learners.block import block_config
from specdiff_core.train.learners.eagle import new_eagle
from specdiff_core.train.settings import DrafterSettings

END, MASK = 0, 1  # the words are 2 and higher
Text = tuple[int, ...]


class Oracle:
    """In place of an ``Mdlm``: ``rows(ids, position)``: logits ``[V]`` of the token at a position."""

    def __init__(self, size: int, rows: Callable[[Text, int], Tensor]) -> None:
        self.config = SimpleNamespace(vocab_size=size, model_length=64, mask_id=MASK)
        self.device = torch.device("cpu")
        self._rows = rows

    def __call__(self, ids: Tensor, *, first: int = 0, padding: Tensor | None = None) -> Tensor:
        text = tuple(ids[0].tolist())
        return torch.stack([self._rows(text, position) for position in range(first, len(text))])[None]


def opinionated(module: nn.Module, seed: int, scale: float = 0.7, **others: float) -> Any:
    """``module`` with larger random weights, so its distributions are far from flat and depend on
    what it reads; ``others``: scales of those whose names hold a word. Norms stay as they are."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 2 or "bias" in name:
                own = next((value for word, value in others.items() if word in name), scale)
                parameter.copy_(own * torch.randn(parameter.shape, generator=generator))
    return module.eval().requires_grad_(False)


class Digits:
    """A tokenizer whose text is its ids; all other characters are token 2."""

    eos_token_id = END
    all_special_ids = (END, MASK)

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [int(digit) if digit.isdecimal() else 2 for digit in text]}

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        return "".join(map(str, ids))

    def convert_ids_to_tokens(self, ids: int) -> str:
        return str(ids)


SPECS = (
    DrafterSpec(name="masked", label="", module="masked_diffusion"),
    DrafterSpec(name="block", label="", module="block_diffusion", window=4),
    DrafterSpec(name="block_markov", label="", module="block_diffusion", window=4, chained=True),
    DrafterSpec(name="autoregressive", label="", module="autoregressive", drafting="sequential"),
    DrafterSpec(name="eagle", label="", module="eagle", drafting="sequential", trees=True),
    PROMPT_LOOKUP,
    NONE,
)


def engine_of(model: Any, drafters: dict[str, Drafter], *, context: int = 60) -> Engine:
    """An engine over a pair made by hand."""
    return Engine(
        LoadedPair(
            spec=PairSpec(name="tiny", label="", target="", suppress=(MASK,), context=context, drafters=SPECS),
            placement=Placement(torch.device("cpu"), torch.float32, "a test"),
            model=model,
            tokenizer=Digits(),
            drafters={**drafters, "prompt_lookup": PromptLookupDrafter("prompt_lookup"), "none": VanillaDrafter()},
        )
    )


def masked_diffusion(size: int, network: Any) -> MaskedDiffusionDrafter:
    """A drafter that sees the whole text."""
    return MaskedDiffusionDrafter("masked", network, vocab_size=size, view=64, forbidden=(MASK,))


def mdlm(size: int, seed: int) -> Mdlm:
    """A real network."""
    config = MdlmConfig(
        vocab_size=size, model_length=64, hidden_dim=8, cond_dim=4, n_blocks=1, n_heads=1, mask_token_id=MASK
    )
    network = opinionated(Mdlm(config), seed + 1, mlp=0.2, attn_out=1.5).prepare()
    windows = torch.randint(size, (64, 6), generator=torch.Generator().manual_seed(seed))
    network.backbone.output_layer.linear.weight *= 1.5 / network(windows).std()
    return network


def block(
    size: int, seed: int, *, embedding: Tensor, head: nn.Linear, markov: int = 0, layer: int = 0, blind: bool = False
) -> BlockDrafter:
    """``blind``: its hidden states are zero, whatever it reads."""
    theirs = LlamaConfig(
        hidden_size=WIDTH, intermediate_size=8, num_attention_heads=1, vocab_size=size, max_position_embeddings=64
    )
    settings = DrafterSettings(block=4, markov=0)
    values = block_config(theirs, "", settings, taps=(layer,), mask=MASK, words=size) | {"markov_width": markov}
    network = opinionated(DFlashDraftModel(values), seed, markov=0.5)
    if blind:
        network.norm.weight.zero_()
    network.prepare()
    words = Vocabulary(nn.Embedding.from_pretrained(embedding), head, head)
    return BlockDrafter("block", network, words, context=64, forbidden=(MASK,))


def read(model: Any) -> Target:
    """What an autoregressive drafter reads its model with."""
    return Target(model, context=60, suppress=(MASK,))


def every_kind(size: int, seed: int, network: Any, small: Any, eagle: Any, **words: Any) -> dict[str, Drafter]:
    """A drafter of every kind; ``words`` are options of :func:`block`."""
    return {
        "masked": masked_diffusion(size, network),
        "block": block(size, seed, **words),
        "block_markov": block(size, seed, markov=4, **words),
        "autoregressive": AutoregressiveDrafter("autoregressive", read(small)),
        "eagle": EagleDrafter("eagle", read(eagle), layers=(words.get("layer", 0),)),
    }


def tiny(size: int, seed: int = 0, scale: float = 1.5) -> Engine:
    """A target made of a table, and a drafter of every kind: tables, too, but for the blocks."""
    target = Ledger(lambda text: scale * noise("p", seed, text, size=size), size)
    small = Ledger(lambda text: scale * noise("q", seed, text, size=size), size)
    oracle = Oracle(size, lambda ids, position: scale * noise("q", seed, ids, position, size=size))
    head = opinionated(nn.Linear(WIDTH, size), seed)
    embedding = noise("embedding", seed, size=size * WIDTH).view(size, WIDTH).float()
    return engine_of(target, every_kind(size, seed, oracle, small, small, embedding=embedding, head=head))


def networks(size: int, seed: int = 0) -> Engine:
    """The same kinds of drafters behind a Llama with real keys and values."""

    def llama(layers: int) -> Any:
        config = LlamaConfig(
            vocab_size=size, hidden_size=WIDTH, intermediate_size=8, num_hidden_layers=layers, num_attention_heads=1,
            num_key_value_heads=1, max_position_embeddings=64, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        return opinionated(LlamaForCausalLM(config), seed + layers, 0.6)

    def ours(model: Any) -> CausalLM:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            return load_causal(Path(folder), torch.float32, context=60)[0]

    target, small = llama(2), ours(llama(1))
    embedding, head = target.get_input_embeddings().weight, target.get_output_embeddings()
    eagle = opinionated(new_eagle(target.config), seed, 0.3).freeze(vocabulary(target), context=64)
    words: dict[str, Any] = {"embedding": embedding, "head": head, "layer": 1}
    engine = engine_of(ours(target), every_kind(size, seed, mdlm(size, seed), small, eagle, **words))
    STOCK[engine] = {"target": target}
    return engine
