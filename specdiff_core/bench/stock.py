"""transformers' own ``generate`` on our loaded weights: plain, assisted, prompt lookup, DFlash. It knows how each is
asked for and set up at its best; it refuses to know how it is timed and judged.

``generate`` gets no logits processor unless a caller asks for one, so nothing slows it: ids that our target never says
are then not suppressed there. Whether that matters is not assumed; whoever calls it compares the texts.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.drafters.prompt_lookup import LONGEST

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

UNSET: dict[str, Any] = {
    "num_assistant_tokens": None,
    "num_assistant_tokens_schedule": None,
    "assistant_confidence_threshold": None,
}
"""An assistant's settings, left to transformers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """One way to call ``generate``. ``drafter`` is ours, whose weights it is given."""

    kind: str  # plain, assisted, lookup, dflash
    drafter: str = "none"
    gamma: int | None = None  # tokens per draft; None: what transformers, or the drafter's own config, takes
    confident: bool = False  # assisted: stop a draft below transformers' default confidence

    @property
    def label(self) -> str:
        """As tables call it."""
        if self.kind == "plain":
            return "generate"
        if self.kind == "lookup":
            return f"prompt_lookup_num_tokens={self.gamma}"
        size = "defaults" if self.gamma is None else f"γ={self.gamma}"
        more = ", default confidence" if self.confident and self.gamma is not None else ""
        return f"{'assistant_model=' if self.kind == 'assisted' else 'dflash '}{self.drafter} ({size}{more})"


def ways(module: str, drafter: str, gamma: int) -> tuple[Stock, ...]:
    """What transformers has for one of our drafters, each with the settings that could be its best.

    ``autoregressive``: an assistant with our γ that drafts as we do, to the end; the same with transformers' default
    confidence threshold, which ends a draft early; and all its defaults. ``block_diffusion``: a block of our γ, and the
    block that the drafter was released with.

    Args:
        module: the file of ``specdiff_core/drafters``.
    """
    if module == "autoregressive":
        return (
            Stock(kind="assisted", drafter=drafter, gamma=gamma),
            Stock(kind="assisted", drafter=drafter, gamma=gamma, confident=True),
            Stock(kind="assisted", drafter=drafter, confident=True),
        )
    if module == "prompt_lookup":
        return (Stock(kind="lookup", drafter=drafter, gamma=gamma),)
    if module == "block_diffusion":
        return (Stock(kind="dflash", drafter=drafter, gamma=gamma), Stock(kind="dflash", drafter=drafter))
    return ()


def refusal(stock: Stock) -> str:
    """Why the installed transformers cannot run it; empty where it can.

    Its DFlash candidate generator asks of an assistant ``config.target_layer_ids``, ``block_size`` and
    ``mask_token_id``, and a forward pass from ``noise_embeds`` and ``context_hidden_states``:
    :class:`specdiff_core.models.dflash.DFlashDraftModel` has them.
    """
    from transformers.generation import candidate_generator

    if stock.kind == "dflash" and not hasattr(candidate_generator, "DFlashTokenCandidateGenerator"):
        return (
            f"{stock.label}: transformers {version('transformers')} has no "
            "transformers.generation.candidate_generator.DFlashTokenCandidateGenerator, which came with 5.2x."
        )
    return ""


@contextmanager
def changed(model: Any, **values: Any) -> Iterator[None]:
    """A model with other generation settings, for the length of the body; what a run writes there is forgotten too."""
    kept = model.generation_config
    model.generation_config = copy.deepcopy(kept)
    for name, value in values.items():
        setattr(model.generation_config, name, value)
    try:
        yield
    finally:
        model.generation_config = kept


def endless(model: Any) -> contextlib.AbstractContextManager[None]:
    """``generate`` without an end-of-text id, for the length of the body."""
    return changed(model, eos_token_id=None, pad_token_id=0)


@contextmanager
def asked(engine: Engine, stock: Stock) -> Iterator[dict[str, Any]]:
    """The arguments of ``generate`` for one way of calling it, valid within the body."""
    drafter: Any = engine.drafter(stock.drafter)
    if stock.kind == "assisted":
        model = drafter.reader.model
        values = {**UNSET, "num_assistant_tokens": stock.gamma}
        if not stock.confident:
            values |= {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0}
        with changed(model, **values):
            yield {"assistant_model": model}
    elif stock.kind == "lookup":  # it looks for endings as long as ours does
        yield {"prompt_lookup_num_tokens": stock.gamma, "max_matching_ngram_size": LONGEST}
    elif stock.kind == "dflash":
        network = drafter.network
        released = network.config.block_size
        network.config.block_size = released if stock.gamma is None else stock.gamma + 1  # the anchor takes one slot
        try:
            yield {"assistant_model": network, "speculation_type": "dflash"}
        finally:
            network.config.block_size = released
    else:
        yield {}


def generate(engine: Engine, ids: Sequence[int], tokens: int, *, ignore_eos: bool, **options: Any) -> tuple[int, ...]:
    """Greedy new tokens by transformers' own loop: ``tokens``, or as many as the context allows.

    The last one needs no place in it, as in our own loop.
    """
    model = engine.target.model
    count = min(tokens, engine.target.context - len(ids) + 1)
    given = torch.tensor([list(ids)], device=model.device)
    with endless(model) if ignore_eos else contextlib.nullcontext():
        out: torch.Tensor = model.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count, **options
        )
    return tuple(out[0, len(ids) :].tolist())
