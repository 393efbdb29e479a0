"""Masked diffusion models adapted from causal ones: the same network with bidirectional attention.

Dream (arXiv 2508.15487) and DiffuCoder (2506.20639). Like a language model's, their slot i − 1 predicts
token i; the pair declares this shift."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import RELEASED, read_config, short_path
from specdiff_core.checkpoints.own_pairs import SHIFTS
from specdiff_core.models.causal import load_network, pretrained_config
from specdiff_core.models.network import CausalLM, attend
from specdiff_core.schema.errors import WeightsError

FAMILIES = ("gpt2", "llama", "qwen2", "dream")
"""Supported values of ``model_type``; Dream's network is Qwen2's."""


class DenoiserConfig(NamedTuple):
    """The configuration of a denoising network that a drafter uses."""

    vocab_size: int
    mask_id: int
    model_length: int  # most positions


class Bidirectional(nn.Module):
    """A frozen :class:`~specdiff_core.models.network.CausalLM` with bidirectional attention.

    Args:
        mask_id: the mask token.
    """

    def __init__(self, network: CausalLM, mask_id: int) -> None:
        super().__init__()
        self.network, self.device = network, network.device
        self.config = DenoiserConfig(int(network.config.vocab_size), mask_id, network.context)

    def forward(self, ids: Tensor, *, first: int = 0) -> Tensor:
        """Raw logits ``[B, L − first, V]`` of each slot: with the usual shift, of token i + 1.

        Args:
            ids: ``[B, L]`` int64, L at most ``model_length``.
            first: logits are returned for positions ``first`` and later.
        """
        length = ids.shape[1]

        def both_ways(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend(q, k, v)

        logits, _ = self.network.decode(ids, slice(0, length), both_ways, last=length - first)
        return logits


def load_bidirectional(
    folder: Path,
    dtype: torch.dtype,
    *,
    context: int,
    mask_id: int | None = None,
    device: torch.device | None = None,
) -> Bidirectional:
    """The model in ``folder``, frozen, in the format of its release.

    Args:
        context: most positions.
        mask_id: declared by the pair; None: from ``config.json``. If both declare one, they agree.

    Raises:
        WeightsError: a file is missing, truncated or of the wrong shape, the network is
            unsupported, or there is no mask id; the message names it.
    """
    values = read_config(folder)
    config, stated = pretrained_config(folder, "denoiser"), values.get("mask_token_id")
    vocab_size = int(config.vocab_size)
    mask = stated if mask_id is None else mask_id
    wrong = ""
    if mask is None:
        wrong = "it has no mask_token_id, and the pair declares none"
    elif stated is not None and stated != mask:
        wrong = f"its mask_token_id is {stated}, the pair declares {mask}"
    elif not isinstance(mask, int) or not 0 <= mask < vocab_size:
        wrong = f"the mask id {mask} is outside its vocabulary of {vocab_size}"
    if wrong:
        raise WeightsError(f"{short_path(folder)}/config.json: {wrong}.", hint=RELEASED)
    assert isinstance(mask, int)
    network = load_network(folder, config, dtype, context=context, device=device, role="denoiser")
    return Bidirectional(network, mask)


def released_shift(folder: Path) -> int | None:
    """The shift of the weights in ``folder``: 1 for Dream and DiffuCoder, 0 for MDLM; None if only the pair knows."""
    return SHIFTS.get(str(read_config(folder).get("model_type", "")).lower())


def is_bidirectional(folder: Path) -> bool:
    """Whether :func:`load_bidirectional` supports the model, by its ``config.json``.

    Raises:
        WeightsError: there is no readable ``config.json``.
    """
    return str(read_config(folder).get("model_type", "")).lower() in FAMILIES
