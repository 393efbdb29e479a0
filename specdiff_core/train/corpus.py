"""Knows how training text is stored on disk and turned into token streams; knows nothing about models.

A corpus is a folder of ``NAME.train.txt[.xz]`` and ``NAME.valid.txt[.xz]`` pairs (one pair per flavour), UTF-8,
documents separated by a line ``<|endoftext|>``. Encoded documents are cached as ``uint16`` arrays beside the run.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm.auto import tqdm

from specdiff_core.schema.errors import CorpusError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEPARATOR = "<|endoftext|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The documents of one folder, read lazily, by flavour and split."""

    root: Path
    flavours: tuple[str, ...]

    @classmethod
    def open(cls, root: Path | str) -> Corpus:
        """Find the flavours in ``root``.

        Raises:
            CorpusError: no ``NAME.train.txt[.xz]`` with its ``NAME.valid.txt[.xz]`` is there.
        """
        root = Path(root)
        names = sorted({p.name.split(".")[0] for p in root.glob("*.train.txt*")}) if root.is_dir() else []
        if not names:
            raise CorpusError(
                f"No training text found in {root}.",
                hint="Give --corpus a folder that holds NAME.train.txt[.xz] and NAME.valid.txt[.xz] for each flavour.",
            )
        corpus = cls(root=root, flavours=tuple(names))
        for name in names:
            corpus._file(name, "valid")
        return corpus

    def _file(self, flavour: str, split: str) -> Path:
        for suffix in (".txt", ".txt.xz"):
            path = self.root / f"{flavour}.{split}{suffix}"
            if path.exists():
                return path
        raise CorpusError(
            f"{flavour}.{split}.txt is missing in {self.root}.",
            hint="Every flavour needs both a train and a valid file; put about 1 % of its documents into valid.",
        )

    def documents(self, flavour: str, split: str) -> Iterator[str]:
        """Yield the stripped, non-empty documents of one flavour (``split``: ``train`` or ``valid``)."""
        path = self._file(flavour, split)
        raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for document in raw.decode("utf-8").split(SEPARATOR):
            if text := document.strip():
                yield text

    def fingerprint(self) -> str:
        """A short hash of the file names and sizes, recorded in every model card."""
        facts = [(p.name, p.stat().st_size) for p in sorted(self.root.glob("*.txt*"))]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def encode_documents(
    corpus: Corpus, flavour: str, split: str, tokenizer: Tokenizer, end: int, cache: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Encode one flavour once and cache it.

    Returns:
        ``(tokens [N] uint16, starts [documents] int64)``; every document begins at ``starts[i]`` with the separator
        id ``end``, so a document read from its start looks like a prompt does at inference.
    """
    key = hashlib.sha256((tokenizer.to_str() + corpus.fingerprint()).encode()).hexdigest()[:12]
    path = cache / f"{flavour}.{split}.{key}.npz"
    if path.exists():
        stored = np.load(path)
        return stored["tokens"], stored["starts"]
    pieces: list[np.ndarray] = []
    texts = list(corpus.documents(flavour, split))
    if not texts:
        raise CorpusError(f"{flavour}.{split} holds no document.", hint="Remove the flavour or add text to it.")
    for first in tqdm(range(0, len(texts), 512), desc=f"encoding {flavour}.{split}", unit="×512 documents"):
        for encoded in tokenizer.encode_batch(texts[first : first + 512], add_special_tokens=False):
            pieces.append(np.asarray([end, *encoded.ids], dtype=np.uint16))
    tokens = np.concatenate(pieces)
    starts = np.cumsum([0, *(len(p) for p in pieces[:-1])])
    cache.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")  # renamed when it is whole: an interrupt leaves no half file
    with partial.open("wb") as file:
        np.savez(file, tokens=tokens, starts=starts)
    partial.replace(path)
    return tokens, starts


def encode_split(
    corpus: Corpus, split: str, tokenizer: Tokenizer, end: int, cache: Path
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """:func:`encode_documents` for all flavours: name -> ``(tokens, starts)``."""
    return {name: encode_documents(corpus, name, split, tokenizer, end, cache) for name in corpus.flavours}


class Stream:
    """An endless, seeded stream of token rows from one flavour: documents reshuffled every epoch, packed end to end."""

    def __init__(self, tokens: np.ndarray, starts: np.ndarray, seed: Sequence[int]) -> None:
        self._documents = np.split(tokens, starts[1:])
        self._seed = tuple(seed)
        self._epoch = -1
        self._packed = np.empty(0, dtype=np.uint16)
        self._position = 0

    def _turn(self) -> None:
        self._epoch += 1
        order = np.random.default_rng([*self._seed, self._epoch]).permutation(len(self._documents))
        self._packed = np.concatenate([self._packed[self._position :], *(self._documents[i] for i in order)])
        self._position = 0

    def row(self, length: int) -> np.ndarray:
        """The next ``length`` tokens, ``[length]`` uint16."""
        while self._position + length > len(self._packed):
            self._turn()
        row = self._packed[self._position : self._position + length]
        self._position += length
        return row


class Mixture:
    """Batches whose rows are drawn from several flavours by fixed weights; the n-th batch depends on (seed, n) only."""

    def __init__(self, streams: dict[str, Stream], weights: dict[str, float], seed: int) -> None:
        self._names = sorted(streams)
        self._streams = streams
        total = sum(weights[n] for n in self._names)
        self._weights = [weights[n] / total for n in self._names]
        self._rng = np.random.default_rng([seed, 0x5EED])

    def batch(self, rows: int, length: int) -> np.ndarray:
        """``[rows, length]`` int64."""
        chosen = self._rng.choice(self._names, size=rows, p=self._weights)
        return np.stack([self._streams[name].row(length) for name in chosen]).astype(np.int64)


def balanced_weights(sizes: dict[str, int]) -> dict[str, float]:
    """Weight each flavour by the square root of its size: small flavours are seen more often than by size alone."""
    return {name: size**0.5 for name, size in sizes.items()}
