"""A tiny corpus, tokenizer and target for the recipes' tests, made once, and what drafting sessions are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from specdiff_core.drafters.base import Context
from specdiff_core.maths.randomness import Independent
from specdiff_core.schema.settings import RevealOrder, Sampling

END, MASK = 0, 1
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "a", "red", "house"]


def write_corpus(folder: Path, flavour: str = "tales") -> Path:
    """120 training and 60 validation documents of 60 random words."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", 120), ("valid", 60)):
        documents = [" ".join(rng.choice(WORDS, 60)) for _ in range(count)]
        (folder / f"{flavour}.{split}.txt").write_text("\n<|endoftext|>\n".join(documents))
    return folder


def greedy_context(ids: list[int], gamma: int, sampling: Sampling) -> Context:
    """What a drafting session is asked for a window in one pass."""
    return Context(
        ids=ids,
        gamma=gamma,
        steps=1,
        order=RevealOrder.LEFT_TO_RIGHT,
        sampling=sampling,
        sampler=Independent("draft", 0, len(ids)),
    )
