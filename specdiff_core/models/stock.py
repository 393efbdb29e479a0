"""Runs any causal model with transformers' own module, without bitwise exactness."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from specdiff_core.maths.trees import places, visible
from specdiff_core.schema.errors import ConfigError, is_memory


def cache_argument(model: Any) -> str:
    """The cache argument of ``model.forward``: transformers 5.24 renamed ``past_key_values``."""
    return "cache" if "cache" in inspect.signature(getattr(model, "forward", model)).parameters else "past_key_values"


class StockRun:
    """The cache of a run, and passes over it, for a model with transformers' interface."""

    def __init__(self, model: Any, layers: Sequence[int] = ()) -> None:
        self._model, self._layers = model, tuple(layers)
        self._cache, self._argument = DynamicCache(config=model.config), cache_argument(model)
        for layer in self._cache.layers:  # a rollback may need tokens outside a sliding window
            getattr(layer, "activate_past_recording", lambda: None)()
        self.length = 0

    @torch.inference_mode()
    def forward(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        features: Tensor | None = None,
        last: int | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """As :meth:`specdiff_core.models.target.NetworkRun.forward`.

        Raises:
            ConfigError: a tree with layers whose masks only transformers can make.
        """
        model, new = self._model, len(ids)
        where = None if parents is None else torch.tensor([places(self.length, new, parents)]).to(model.device)
        out = model(
            input_ids=torch.tensor([list(ids)], device=model.device),
            attention_mask=None if parents is None else self._tree_mask(parents, new),
            position_ids=where,
            use_cache=True,
            output_hidden_states=[i + 1 for i in self._layers],  # None stands for all the others
            logits_to_keep=0 if last is None else max(1, last),
            **{self._argument: self._cache},
            **({} if features is None else {"features": features[None]}),
        )
        self.length += new
        # hidden_states[0] is the embedding: the output of layer i is at i + 1 (docs/theory.md).
        return out.logits[0], [out.hidden_states[i + 1][0] for i in self._layers]

    def _tree_mask(self, parents: Sequence[int], new: int) -> Tensor:
        """``[1, 1, new, length + new]``, 0 or −∞ to be added."""
        config = self._model.config
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"} or config._attn_implementation not in {"sdpa", "eager"}:
            words = "This target cannot verify a tree: it has sliding-window layers."
            raise ConfigError(words, field="tree_nodes", hint="Set the draft tree to 0.")
        seen = visible(parents)[-new:].to(self._model.device)
        mask = torch.zeros(1, 1, new, self.length + new, dtype=self._model.dtype, device=self._model.device)
        mask[..., -seen.shape[1] :].masked_fill_(~seen, -torch.inf)
        return mask

    @torch.inference_mode()
    def keep(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` tokens keep only ``rows`` (ascending)."""
        surplus = scored - len(rows)
        if list(rows) != list(range(len(rows))):
            index = torch.tensor(list(rows))
            for layer in self._cache.layers:
                # transformers types the layers, and what they hold, as optional.
                pair: list[Tensor] = [layer.keys, layer.values]  # type: ignore[union-attr,list-item]
                for held in pair:  # layers may be on several devices
                    end = held[:, :, held.shape[2] - scored :]
                    end[:, :, : len(rows)] = end.index_select(2, index.to(held.device))  # a copy
        if surplus:
            self._cache.crop(-surplus)  # negative: from the end
        self.length -= surplus


def unusable(model: Any, context: int) -> str:
    """Why a loaded model must not decode over ``context`` positions; empty if it may.

    Some families have no cache, or one without rollback, or are bidirectional, so their results
    depend on how the text is read. This is tested by reading a few tokens at once, and one by one
    with a rollback."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = {str(part.get("rope_type", "")) for part in (rope, *rope.values()) if isinstance(part, dict)}
    if found := kinds & {"dynamic", "longrope"}:
        return f"its rotary positions ({found.pop()}) depend on the length of a pass"
    learned = getattr(config, "n_positions", None)
    if learned is not None and learned < context:
        return f"it has {learned} positions, and the context is {context}"
    ids = [7919 * i % int(config.vocab_size) for i in range(min(10, context))]
    try:
        at_once, _ = StockRun(model).forward(ids)
        run = StockRun(model)
        steps = [run.forward(ids[:6])[0]]
        run.forward(ids[::-1])
        run.keep(len(ids), ())
        steps += [run.forward([token])[0] for token in ids[6:]]
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        if is_memory(error):
            raise
        return f"its cache does not work as a causal model's does ({type(error).__name__}: {str(error)[:80]})"
    parted = (torch.cat(steps) - at_once).abs().max() / at_once.abs().max()
    rounding = 1e-4 if model.dtype in (torch.float32, torch.float64) else 0.1
    return "" if bool(parted <= rounding) else "its logits depend on the tokens per pass"
