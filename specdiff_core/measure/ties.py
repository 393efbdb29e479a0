"""Finds where two texts of one target differ first, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from torch import Tensor

    from specdiff_core.engine import Engine

TIES = {"fp32": 1e-3, "bf16": 0.25, "fp16": 1 / 32}
"""By precision: two best tokens at most this far apart, in log p plus noise, may swap places
through rounding in passes of different shapes; anything else is a bug. fp32 passes of different
widths differ by about 1e-5; for bf16 and fp16 it is two roundings of a logit between 16 and 32."""


class Difference(NamedTuple):
    """The first difference of two texts."""

    token: int  # its position, from 0
    ours: list[int]  # the token there; empty where the text has ended
    theirs: list[int]
    margin: float  # between the two best tokens
    tie: bool


def ranking(engine: Engine, ids: Sequence[int], config: DecodeConfig) -> Tensor:
    """Vanilla's scores for the token after ``ids``, ``[V]``: log p, plus the noise of that position
    when it samples. Computed in a pass of one row."""
    import torch

    from specdiff_core.maths.distributions import to_probs
    from specdiff_core.maths.randomness import SharedGumbel

    with torch.inference_mode():
        run = engine.target.start()
        run.read(ids[:-1])
        logits = run.score(ids[-1:]).logits[0].clone()
    if config.temperature == 0:
        ranked = logits.float().log_softmax(-1)
        ranked[list(engine.target.suppress)] = -torch.inf
        return ranked
    dist = to_probs(logits, config.sampling, engine.target.suppress).cpu()
    return dist.log() + SharedGumbel(config.seed).noise(len(ids), dist.numel())


def first_difference(ours: Sequence[object], theirs: Sequence[object]) -> int | None:
    """The first position, from 1, at which two texts differ; None if they are equal."""
    pairs = enumerate(zip(ours, theirs, strict=False), start=1)
    shorter = None if len(ours) == len(theirs) else min(len(ours), len(theirs)) + 1
    return next((position for position, (left, right) in pairs if left != right), shorter)


def difference(
    engine: Engine, prompt: str | Sequence[int], ours: Sequence[int], theirs: Sequence[int], config: DecodeConfig
) -> Difference | None:
    """Where two texts after ``prompt`` differ first and whether a tie explains it; None if equal."""
    parted = first_difference(ours, theirs)
    if parted is None:
        return None
    position = parted - 1
    before = engine.encode(prompt, config) if isinstance(prompt, str) else prompt
    best = ranking(engine, [*before, *theirs[:position]], config).topk(2)
    margin = float(best.values[0] - best.values[1])
    left, right = (list(ids[position : position + 1]) for ids in (ours, theirs))
    same = sorted(left + right) == sorted(best.indices.tolist())
    return Difference(position, left, right, margin, same and margin <= TIES[engine.pair.placement.dtype_name])
