"""The settings of an MDLM network, as its released ``config.json`` spells them. Knows no tensor."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdiff_core.models.folders import shown
from specdiff_core.schema.errors import WeightsError

LARGEST = 2**20
"""No size of a network that fits into a machine is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MdlmConfig:
    """The fields of the released ``config.json``, by their own names.

    ``dropout`` is recorded only: this network never drops. ``mask_token_id`` is ours (the released model's mask is
    the last id, which is the default).
    """

    vocab_size: int = 50258
    model_length: int = 1024
    hidden_dim: int = 768
    cond_dim: int = 128
    n_blocks: int = 12
    n_heads: int = 12
    dropout: float = 0.1
    time_conditioning: bool = False
    mask_token_id: int | None = None

    @property
    def mask_id(self) -> int:
        return self.vocab_size - 1 if self.mask_token_id is None else self.mask_token_id

    @property
    def head_dim(self) -> int:
        return self.hidden_dim // self.n_heads

    @classmethod
    def from_json(cls, values: dict[str, Any], path: Path) -> MdlmConfig:
        """Read a ``config.json``; keys of other libraries are left alone.

        Raises:
            WeightsError: a field is missing, no possible size, or asks for what this network cannot do.
        """
        sizes = ("vocab_size", "model_length", "hidden_dim", "cond_dim", "n_blocks", "n_heads")
        for name in sizes:
            value = values.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
                raise WeightsError(
                    f"{shown(path)}: {name} must be a whole number from 1 to {LARGEST}, not {str(value)[:40]}.",
                    hint="Restore the released config.json of this model.",
                )
        mask = values.get("mask_token_id")
        if mask is not None and type(mask) is not int:
            raise WeightsError(
                f"{shown(path)}: mask_token_id must be a whole number, not {str(mask)[:40]}.",
                hint="Restore the config.json that was saved with this model.",
            )
        known = {field.name for field in dataclasses.fields(cls)}
        config = cls(**{name: value for name, value in values.items() if name in known})
        if config.time_conditioning:
            raise WeightsError(
                f"{shown(path)}: this checkpoint is conditioned on diffusion time, which drafting does not use.",
                hint="Choose a checkpoint with time_conditioning = false, as MDLM's own releases are.",
            )
        if config.hidden_dim % config.n_heads or config.head_dim % 2:
            raise WeightsError(
                f"{shown(path)}: {config.hidden_dim} channels do not split into {config.n_heads} heads of even size.",
                hint="Restore the released config.json of this model.",
            )
        if not 0 <= config.mask_id < config.vocab_size:
            raise WeightsError(
                f"{shown(path)}: mask_token_id {config.mask_id} is outside the vocabulary of {config.vocab_size}.",
                hint="Restore the config.json that was saved with this model.",
            )
        return config

    def to_json(self) -> dict[str, Any]:
        """The content of ``config.json``."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        return {"architectures": ["MDLM"], "model_type": "mdlm", **values, "torch_dtype": "bfloat16"}
