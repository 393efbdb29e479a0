"""Loads a causal language model from transformers, strictly. Knows folders and files, no pair and no role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from specdiff_core.models.files import check_files
from specdiff_core.models.folders import AGAIN, read_config, shown
from specdiff_core.models.layout import lay_out
from specdiff_core.schema.errors import WeightsError, is_memory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_causal(
    folder: Path,
    dtype: torch.dtype,
    *,
    device_map: dict[str, torch.device] | str | None = None,
    role: str = "target",
) -> PreTrainedModel:
    """The model in ``folder``, frozen: safetensors only, never remote code; no tensor may be missing or resized.

    Args:
        device_map: accelerate's plan; None leaves it on the CPU.
        role: what errors call it.

    Raises:
        WeightsError: a file is missing, truncated or of the wrong shape; the message names it.
    """
    from transformers import AutoModelForCausalLM

    read_config(folder)
    check_files(folder)
    model: PreTrainedModel
    report: dict[str, Any]
    try:
        model, report = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]  # overloaded in transformers
            folder,
            dtype=dtype,
            device_map=device_map,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # a damaged config.json makes transformers raise nearly anything
        if is_memory(error):
            raise
        words = " ".join(str(error).split())[:160]
        raise WeightsError(
            f"The {role} cannot be loaded from {shown(folder)}/config.json and its weights "
            f"({type(error).__name__}: {words}).",
            hint=AGAIN,
        ) from error
    # transformers fills missing tensors with random numbers and goes on; a model must never be made up.
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(str(name) for name in report.get(kind) or ()):
            raise WeightsError(
                f"{len(names)} tensors of the {role} in {shown(folder)} are {kind.split('_')[0]}, first {names[0]}.",
                hint=AGAIN,
            )
    model.train(False).requires_grad_(False)
    lay_out(model)
    return model


def vocabulary(model: PreTrainedModel) -> tuple[Tensor, nn.Linear]:
    """The embedding ``[V, W]`` of a model, and its output head."""
    head: nn.Linear = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # untyped in transformers
    return model.get_input_embeddings().weight.detach(), head  # type: ignore[operator]  # typed as Tensor | Module
