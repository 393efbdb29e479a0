"""What a training begins from: tokenizer, frozen target, the text it wrote. Knows folders, no objective."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from specdiff_core.models.folders import shown
from specdiff_core.schema.errors import WeightsError

if TYPE_CHECKING:
    import numpy as np
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

logger = logging.getLogger("specdiff.train")


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that all models share.

    Raises:
        WeightsError: it has not been trained.
    """
    from transformers import PreTrainedTokenizerFast

    if not (folder / "tokenizer.json").is_file():
        raise WeightsError(
            f"There is no tokenizer in {shown(folder)}.", hint="Run: python -m specdiff_core train tokenizer"
        )
    return PreTrainedTokenizerFast.from_pretrained(folder)


def load_target(folder: Path, device: torch.device) -> LlamaForCausalLM:
    """The frozen target that drafters learn from, fp32.

    Raises:
        WeightsError: it has not been trained.
    """
    from transformers import LlamaForCausalLM

    if not (folder / "config.json").is_file():
        raise WeightsError(f"There is no target in {shown(folder)}.", hint="Run: python -m specdiff_core train target")
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval().requires_grad_(False)


def written_stream(folder: Path, target: LlamaForCausalLM) -> list[np.ndarray]:
    """What ``target`` wrote, as one stream of tokens; none where nothing was written.

    Raises:
        CorpusError: the text in ``folder`` is of another target.
    """
    from specdiff_core.train.windows import stream_of
    from specdiff_core.train.written import Written, sign

    if not any((folder / "train").glob("part-*.npz")):
        logger.warning(f"no target-written text in {shown(folder)}: learning from the corpus only (see: train written)")
        return []
    sign(folder / "train", target)
    return [stream_of(Written.load(folder / "train"))]
