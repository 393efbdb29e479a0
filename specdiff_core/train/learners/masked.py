"""The masked drafter (SpecDiff, arXiv 2408.05636): layers cut from the target, or new ones, that denoise a window
between the target's frozen embedding and output head, without its hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.models.masked import ARCHITECTURE, MaskedDraftModel, load_masked
from specdiff_core.models.network import attend
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.answers import Batch
from specdiff_core.train.learners.base import Plan, autocast, begun_with, layer_config
from specdiff_core.train.learners.windows import Blocks, WindowLearner
from specdiff_core.train.settings import DrafterSettings


class MaskedLearner(WindowLearner):
    """A masked denoiser: texts ``[B, L]`` and windows ``[B, A, γ]`` in, losses as of :class:`WindowLearner` out."""

    title = "SpecDiff"
    model: MaskedDraftModel

    @classmethod
    def new(cls, plan: Plan) -> MaskedDraftModel:
        """That to begin with, or one of new layers or the target's."""
        if plan.start is not None:
            return plan.start  # type: ignore[no-any-return]  # of this kind
        fresh = masked_config(plan.target, plan.name, plan.settings, mask=plan.mask, words=plan.words)
        return new_masked(plan.released or fresh, plan.read_cut(), seed=plan.settings.seed)

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> tuple[MaskedDraftModel, dict[str, Any]] | None:
        """One of ``models/masked.py``."""
        if ARCHITECTURE not in (values.get("architectures") or ()):
            return None
        model, cut = load_masked(folder), (values.get("cut_from") or {}).get("layers") or ()
        return model, {"block": model.config.block_size, "cut": tuple(cut)}

    def _states(self, blocks: Blocks, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Row j of a window predicts slot j + 1."""
        ids = blocks.text.masked_fill(blocks.masked, int(self.model.config.mask_token_id))[..., :-1]
        with autocast(ids.device):
            hidden = masked_hidden(self.model, self._embed(batch.tokens), self._embed(ids), blocks.anchors)
        where = (blocks.masked & blocks.known)[..., 1:].nonzero(as_tuple=True)
        return where, hidden[where].float()

    def export(self, folder: Path) -> None:
        """In the layout of ``models/masked.py``."""
        write_folder(folder, self.model.released, self.model.state_dict(), tables=self._maps)

    @property
    def about(self) -> str:
        count, total = len(self.words.ids), len(self.words.inverse)
        return (
            f"An independent masked-diffusion drafter (SpecDiff, arXiv 2408.05636) of windows up to "
            f"{self.settings.block} tokens: {self.model.shape.layers} layers{begun_with(self.settings)}, "
            f"adapted as DiffuLLaMA and Dream are, between the target's embedding and output head, of which it has "
            f"{count:,} of {total:,} words. It reads no hidden states of the target. The text before a window is "
            f"read causally and cached; the window in both directions."
        )


def masked_hidden(model: MaskedDraftModel, text: Tensor, windows: Tensor, anchors: Tensor) -> Tensor:
    """Texts and all windows of a batch in one pass. A text is read causally; a window reads the text
    before its anchor, and itself in both directions.

    Args:
        text: ``[B, L, W]`` embeddings.
        windows: ``[B, A, γ, W]`` embeddings of anchors, clean and mask tokens.
        anchors: ``[B, A]``.

    Returns:
        ``[B, A, γ, W]`` final states.
    """
    (batch, length), (count, size) = text.shape[:2], windows.shape[1:3]
    context = torch.arange(length, device=text.device)
    positions = anchors[..., None] + torch.arange(size, device=text.device)  # [B, A, γ]
    windowed = torch.arange(count * size, device=text.device) // size
    before = context < anchors.repeat_interleave(size, 1)[..., None]  # [B, A·γ, L]
    itself = (windowed[:, None] == windowed).expand(batch, -1, -1)
    earlier = (context <= context[:, None]).expand(batch, -1, -1)  # [B, L, L]
    seen = torch.cat([F.pad(earlier, (0, count * size)), torch.cat([before, itself], -1)], 1)[:, None]
    mask = torch.zeros_like(seen, dtype=text.dtype).masked_fill_(~seen, -torch.inf)  # added: fast on a CPU

    def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask)

    rope = model.rope(torch.cat([context.expand(batch, -1), positions.flatten(1)], 1))
    states: Tensor = model(torch.cat([text, windows.flatten(1, 2)], 1), rope, read, last=count * size)
    return states.view(batch, count, size, -1)


def masked_config(target: Any, name: str, settings: DrafterSettings, *, mask: int, words: int) -> dict[str, Any]:
    """The ``config.json`` of a new denoiser cut from ``target`` (``models/masked.py``)."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "num_hidden_layers": len(settings.cut) or settings.layers,
        **layer_config(target),
        "block_size": settings.block,
        "draft_vocab_size": words,
        "mask_token_id": mask,
        "cut_from": {"name_or_path": name, "layers": list(settings.cut)},
        "dtype": "bfloat16",
    }


def new_masked(released: dict[str, Any], cut: Mapping[str, Tensor], *, seed: int) -> MaskedDraftModel:
    """An untrained denoiser, or causal model; ``cut``: weights to begin with (``models/causal.py: read_layers``). The
    last norm begins small, or the states of layers that did not follow each other would be taken for
    confidence: measured, a first loss of 8.9 instead of 17.8."""
    model, generator = MaskedDraftModel(released), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=model.config.initializer_range, generator=generator)
    if cut:
        if odd := sorted(cut.keys() ^ model.state_dict().keys()):
            what = f"No drafter can be cut from this target: its layers are not Llama's ({odd[0]})."
            raise ConfigError(what, field="cut", hint="Leave it out, for new layers.")
        model.load_state_dict(dict(cut))
    norm: Any = model.norm
    with torch.no_grad():
        norm.weight.mul_(0.1 if cut else 0.2)
    return model
