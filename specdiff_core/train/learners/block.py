"""The block drafter follows DFlash (arXiv 2602.06036): a few layers read hidden states of the target through one
projection and denoise a block behind an anchor, between the target's frozen embedding and output head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.checkpoints.own_pairs import drafter_kind
from specdiff_core.checkpoints.sources import is_gguf
from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.models.dflash import DFlashDraftModel, from_folder, speculators_config
from specdiff_core.models.network import attend
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.answers import Batch
from specdiff_core.train.learners.base import DraftVocab, Plan, autocast, layer_config
from specdiff_core.train.learners.windows import Blocks, WindowLearner
from specdiff_core.train.settings import DrafterSettings

ALONE = 0.3
"""Share of the slots scored without the Markov head: decoding chooses candidates without it."""
SPECULATORS = "c05b95b303f7"
"""The commit of vLLM's speculators whose classes compute the same hidden states."""
DEPTHS = (0.28, 0.62, 0.93)
"""Depths of the layers that a block drafter reads: layers 8, 18 and 27 of 30."""
PLAIN: dict[str, Any] = {
    "anchor_predicts": False,
    "conv_kernel_size": 0,
    "final_logit_softcapping": None,
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "selector_rank": 0,
}
"""What the config of a block drafter that is trained here says of parts that some releases have."""


def default_taps(depth: int) -> tuple[int, ...]:
    """The layers that a block drafter reads of a target of ``depth`` layers. The last one, whose
    output is normed, is read only where it is the only one."""
    return tuple(sorted({min(round(share * (depth - 1)), max(0, depth - 2)) for share in DEPTHS}))


class BlockLearner(WindowLearner):
    """A block drafter: states ``[B, L, F, W]`` of the target and windows ``[B, A, γ + 1]`` in, losses as of
    :class:`WindowLearner` out."""

    title = "Block"
    chains = True
    model: DFlashDraftModel

    @classmethod
    def reads(cls, settings: DrafterSettings, depth: int) -> tuple[int, ...]:
        """Those of --taps, or :func:`default_taps`."""
        taps = settings.taps or default_taps(depth)
        if max(taps) >= depth or len(set(taps)) < len(taps):
            what = f"--taps {' '.join(map(str, taps))} must be different layers of the target, 0 to {depth - 1}."
            raise ConfigError(what, field="taps", hint="Leave it out to take three of them.")
        return taps

    @classmethod
    def new(cls, plan: Plan) -> DFlashDraftModel:
        """A block drafter, of which --only may leave nothing to learn but the Markov head."""
        settings, start = plan.settings, plan.start
        if "markov_rank" in plan.released:
            hint = "Begin a new run with --start, at the drafter that it exported."
            raise ConfigError("The run in --out has a Markov head of an older kind.", field="out", hint=hint)
        taps = cls.reads(settings, int(plan.target.num_hidden_layers))
        mask = plan.mask if start is None else int(start.config.mask_token_id)
        fresh = block_config(plan.target, plan.name, settings, taps=taps, mask=mask, words=plan.words)
        model = new_block(plan.released or fresh, seed=settings.seed)
        if start is not None:
            take_weights(model, start)
        if settings.only == "head":
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name.startswith("markov."))
        return model

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> tuple[DFlashDraftModel, dict[str, Any]] | None:
        """One without the parts that only releases have."""
        if drafter_kind(values) != "block":
            return None
        model = from_folder(folder)
        config = model.config
        if any(model.reaches) or any(getattr(config, name) != value for name, value in PLAIN.items()):
            return None
        markov = {"markov": config.markov_width} if config.markov_width else {}
        return model, {"block": config.block_size - 1, "taps": tuple(config.target_layer_ids), **markov}

    def _states(self, blocks: Blocks, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        ids = blocks.text.masked_fill(blocks.masked, int(self.model.config.mask_token_id))
        with autocast(ids.device):
            embedded = self._embed(ids.flatten(1))
            features = batch.features.flatten(2).to(embedded)
            hidden = block_hidden(self.model, features, embedded, blocks.anchors, ids.shape[-1])
        where = (blocks.masked & blocks.known)[..., 1:].nonzero(as_tuple=True)
        return where, hidden.view(*ids.shape, -1)[:, :, 1:][where].float()

    def _pairs(self, before: Tensor, words: DraftVocab, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        """For all but a share of the slots, :data:`ALONE`."""
        if (head := getattr(self.model, "markov", None)) is None:
            return None
        chained = torch.rand(len(before), 1, generator=generator).to(before.device) >= ALONE
        first, second = head.tables(self._embed(before).float(), words.rows.float())
        return first * chained, second

    @torch.no_grad()
    def draft(self, batch: Batch, anchors: Tensor) -> Tensor:
        """The likeliest tokens behind ``anchors [B, A]`` in one pass (T = 1): ``[B, A, γ]``."""
        model, size = self.model.eval(), self.settings.block + 1
        ids = anchors.new_full((*anchors.shape, size), int(model.config.mask_token_id))
        ids[..., 0] = batch.tokens.gather(1, anchors)
        embedded = self._embed(ids.flatten(1))
        hidden = block_hidden(model, batch.features.flatten(2).to(embedded), embedded, anchors, size)
        states = hidden.view(*ids.shape, -1)[:, :, 1:]
        return self.words.ids[(states.float() @ self.words.rows.float().T).argmax(-1)]

    def export(self, folder: Path) -> None:
        """In the layout of vLLM's speculators."""
        tensors = dict(self.model.state_dict())
        if self.settings.tables:
            tensors |= {"embed_tokens.weight": self.embedding, "lm_head.weight": self._head}
        write_folder(folder, self.model.released, tensors, tables=self._maps)

    @property
    def about(self) -> str:
        layers, count, total = ", ".join(map(str, self.layers)), len(self.words.ids), len(self.words.inverse)
        markov = ""
        if self.settings.markov:
            markov = (
                " With its Markov head, which `train export` writes as DSpark's, a token depends on the one before it."
            )
        return (
            f"A block-diffusion drafter (DFlash, arXiv 2602.06036) of {self.settings.block} tokens "
            f"at a time. It reads layers {layers} of the target (0 is the first) and uses the "
            f"target's embedding and output head, of which it has {count:,} of {total:,} "
            f"words.{markov}\n\nLayout: `DFlashSpeculator` of vLLM's speculators, whose DFlash "
            f"classes (commit {SPECULATORS}) have the same names and shapes and compute the same "
            f"hidden states. {self._checked} For other engines: `train export`."
        )


def block_hidden(model: DFlashDraftModel, features: Tensor, embeddings: Tensor, anchors: Tensor, size: int) -> Tensor:
    """All blocks of a batch in one pass, each reading the features before its anchor and itself.

    Args:
        features: ``[B, L, F·W]``.
        embeddings: ``[B, A·b, W]``, the target's, of anchors, clean and mask tokens.
        anchors: ``[B, A]``.
        size: b.

    Returns:
        ``[B, A·b, W]`` hidden states for the target's head.
    """
    positions = (anchors[..., None] + torch.arange(size, device=anchors.device)).flatten(1)  # [B, A·b]
    context_positions = torch.arange(features.shape[1], device=anchors.device)
    context = model.context_keys_values(model.read_features(features), model.rope(context_positions[None]))
    blocks = torch.arange(positions.shape[1], device=anchors.device) // size
    before = context_positions < anchors.repeat_interleave(size, 1)[..., None]  # [B, A·b, L]
    itself = (blocks[:, None] == blocks).expand(len(before), -1, -1)  # [B, A·b, A·b]
    mask = torch.cat([before, itself], -1)[:, None]

    def read(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = (torch.cat(halves, 2) for halves in zip(context[index], (k, v), strict=True))
        return attend(q, keys, values, mask)

    return model.denoise(embeddings, model.rope(positions), read)


def block_config(
    target: Any, name: str, settings: DrafterSettings, *, taps: Sequence[int], mask: int, words: int
) -> dict[str, Any]:
    """The ``config.json`` of a new block drafter in the layout of vLLM's speculators.

    Args:
        target: its config.
        name: what it is called: a repository, or a folder.
        words: how many the drafter has.
    """
    network = {"num_hidden_layers": settings.layers, **layer_config(target)}
    facts: Any = {"verifier": name, "architectures": getattr(target, "architectures", None) or ()}
    facts |= {"taps": taps, "block": settings.block, "words": words, "mask": mask}
    own = {"markov_width": settings.markov} if settings.markov else {}
    precision = {"trained_for": Path(name).name} if is_gguf(name) else {}
    return speculators_config(network, **facts) | own | precision


def new_block(released: dict[str, Any], *, seed: int) -> DFlashDraftModel:
    """An untrained block drafter. At first its residual stream holds the embedding of a mask, which
    predicts the mask, so its last norm begins small."""
    model = DFlashDraftModel(released)
    model.initialize(torch.Generator().manual_seed(seed))
    norm: Any = model.norm
    with torch.no_grad():
        norm.weight.fill_(0.2)
        for layer in model.layers:
            layer.self_attn.o_proj.weight.mul_(0.3)
            layer.mlp.down_proj.weight.mul_(0.3)
    return model


def take_weights(model: DFlashDraftModel, start: DFlashDraftModel) -> None:
    """Begin ``model`` with the weights of ``start``; what its Markov head has and that of ``start`` hasn't stays new.

    Raises:
        ConfigError: ``start`` was made for another target.
    """
    own, theirs = model.state_dict(), start.state_dict()
    fitting = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
    if missing := [name for name in own if name not in fitting and not name.startswith("markov.")]:
        what = f"The drafter in --start doesn't fit this target: {missing[0]} has another shape."
        raise ConfigError(what, field="start", hint="Name the target that it was trained for.")
    model.load_state_dict(fitting, strict=False)
