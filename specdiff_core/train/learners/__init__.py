"""What each drafter of ``train drafter`` learns from the target's answers, and how it is stored: a file per learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdiff_core.checkpoints.folders import read_config, short_path
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.learners.autoregressive import AutoregressiveLearner
from specdiff_core.train.learners.base import Learner
from specdiff_core.train.learners.block import BlockLearner
from specdiff_core.train.learners.eagle import EagleLearner
from specdiff_core.train.learners.masked import MaskedLearner

LEARNERS: dict[str, type[Learner]] = {
    "block": BlockLearner,
    "eagle": EagleLearner,
    "masked": MaskedLearner,
    "autoregressive": AutoregressiveLearner,
}


def exported(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The network of a drafter to train on, and the settings that its shape determines.

    Raises:
        ConfigError: it is another kind of drafter, or has parts that aren't trained here.
        WeightsError: a file is missing, damaged or misfit.
    """
    values = read_config(folder)
    for kind, learner in LEARNERS.items():
        if (loaded := learner.load(folder, values)) is not None:
            model, shape = loaded
            words = int(model.config.vocab_size) if model.draft_ids is None else len(model.draft_ids)
            return model.requires_grad_(True), {"kind": kind, **shape, "layers": model.shape.layers, "words": words}
    what = f"The drafter in {short_path(folder)} can't be trained here."
    raise ConfigError(what, field="start", hint="Begin with a block or masked drafter that this command made.")
