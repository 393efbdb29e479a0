"""A tiny corpus, tokenizer and target for the training tests, made once: import the fixture ``pair``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specdiff_core.drafters.base import Context
from specdiff_core.maths.randomness import Independent
from specdiff_core.schema.settings import RevealOrder, Sampling
from specdiff_core.train import task
from specdiff_core.train.causal_target import new_target
from specdiff_core.train.corpus import Corpus, EncodedCorpus
from specdiff_core.train.tokenizer import train_tokenizer

END, MASK = 0, 1
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "a", "red", "house"]


@dataclass(frozen=True)
class Pair:
    """What every training begins from."""

    data: EncodedCorpus
    target: LlamaForCausalLM


def write_corpus(folder: Path, flavour: str = "tales") -> Path:
    """120 training and 60 validation documents of 60 random words."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 120), ("valid", 60)):
        documents = [" ".join(rng.choice(WORDS, 60)) for _ in range(count)]
        (folder / f"{flavour}.{split}.txt").write_text("\n<|endoftext|>\n".join(documents))
    return folder


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """τ is simulated on texts of 16 new tokens."""
    root = write_corpus(tmp_path_factory.mktemp("tales"))
    corpus = Corpus.open(root)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(train_tokenizer(corpus, root / "tokenizer", vocab_size=300))
    torch.manual_seed(0)
    target = new_target(len(tokenizer), layers=1, width=64, context=128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "NEW", 16)
        yield Pair(EncodedCorpus(corpus, tokenizer, root / "cache"), target)


def counting_documents(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """40 documents of 30 tokens that count upwards from a random start, ids 2 to 61."""
    rng = np.random.default_rng(seed)
    rows = [np.r_[END, 2 + (rng.integers(60) + np.arange(29)) % 60] for _ in range(40)]
    return np.concatenate(rows).astype(np.uint16), np.arange(0, 1200, 30)


@dataclass(frozen=True)
class CountingCorpus:
    """Stands for an encoded corpus of one flavour."""

    end: int = END
    mask: int = MASK

    def split(self, name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {"count": counting_documents()}


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


def events_of(events: Iterable[Any], kind: type, stop_after: int | None = None) -> list[Any]:
    """The events of one kind; ``stop_after`` that many, the run is cut off."""
    found = []
    for event in events:
        if isinstance(event, kind):
            found.append(event)
            if len(found) == stop_after:
                break
    return found
