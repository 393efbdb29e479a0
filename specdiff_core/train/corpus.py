"""Reads training text from a folder, encodes it once, and serves it as endless token rows.

A corpus is a folder of ``NAME.train.txt[.xz]`` and ``NAME.valid.txt[.xz]`` pairs, one pair per flavour: UTF-8, with a
line ``<|endoftext|>`` between documents.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm.auto import tqdm

from specdiff_core.schema.errors import CorpusError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SEPARATOR = "<|endoftext|>"
NAMES = re.compile(r"(.+)\.(train|valid)\.txt(\.xz)?")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of one folder, read when asked for, by flavour and split (``train`` or ``valid``)."""

    root: Path
    files: dict[tuple[str, str], Path]

    @classmethod
    def open(cls, root: Path | str) -> Corpus:
        """Find the files in ``root``.

        Raises:
            CorpusError: there is no ``NAME.train.txt[.xz]``, or one without its ``NAME.valid.txt[.xz]``.
        """
        root = Path(root)
        names = [(path, NAMES.fullmatch(path.name)) for path in (sorted(root.iterdir()) if root.is_dir() else ())]
        files = {(name[1], name[2]): path for path, name in reversed(names) if name}  # .txt goes before .txt.xz
        if not any(split == "train" for _, split in files):
            raise CorpusError(
                f"No training text found in {root}.",
                hint="Give --corpus a folder that holds NAME.train.txt[.xz] and NAME.valid.txt[.xz] for each flavour.",
            )
        corpus = cls(root, files)
        for flavour in corpus.flavours:
            if (flavour, "valid") not in files:
                hint = "Every flavour needs both a train and a valid file; put about 1 % of its documents into valid."
                raise CorpusError(f"{flavour}.valid.txt is missing in {root}.", hint=hint)
        return corpus

    @property
    def flavours(self) -> tuple[str, ...]:
        """The kinds of text, by name."""
        return tuple(sorted(flavour for flavour, split in self.files if split == "train"))

    def documents(self, flavour: str, split: str) -> Iterator[str]:
        """Yield the documents of one flavour, without surrounding space; empty ones are left out.

        Raises:
            CorpusError: the file cannot be read, is not UTF-8 text, or holds no document.
        """
        path = self.files[flavour, split]
        hint = "Mend the file, or take its flavour out of the folder."
        try:
            raw = path.read_bytes()
            text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path.name} is not UTF-8 text: see byte {error.start}.", hint=hint) from error
        except (OSError, lzma.LZMAError) as error:
            raise CorpusError(f"{path.name} cannot be read: {error.args[-1]}.", hint=hint) from error
        found = [document.strip() for document in text.split(SEPARATOR)]
        if not any(found):
            raise CorpusError(f"{path.name} holds no document.", hint=hint)
        yield from filter(None, found)

    def fingerprint(self) -> str:
        """A short hash of the file names and sizes, recorded in every model card."""
        facts = [(p.name, p.stat().st_size) for p in sorted(self.root.glob("*.txt*"))]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


Documents = tuple[np.ndarray, np.ndarray]
"""Encoded documents of one flavour: tokens ``[N]`` uint16, and where each document starts, ``[documents]`` int64. Each
starts with the end-of-text id, so a document read from its start looks as a prompt does when decoding."""


@dataclass(frozen=True, slots=True)
class EncodedCorpus:
    """A corpus in the ids of one tokenizer; encoded once, then kept in the folder ``cache``."""

    corpus: Corpus
    tokenizer: PreTrainedTokenizerFast
    cache: Path

    @property
    def end(self) -> int:
        """The end-of-text id, which separates documents."""
        return int(self.tokenizer.eos_token_id)

    @property
    def mask(self) -> int:
        """The mask id, which no text holds."""
        return int(self.tokenizer.mask_token_id)

    def split(self, name: str) -> dict[str, Documents]:
        """``train`` or ``valid``, by flavour.

        Raises:
            CorpusError: a file cannot be read, or holds no document.
        """
        return {flavour: self._encode(flavour, name) for flavour in self.corpus.flavours}

    def held_out(self) -> dict[str, np.ndarray]:
        """The tokens ``[N]`` of the valid split, by flavour."""
        return {flavour: tokens for flavour, (tokens, _) in self.split("valid").items()}

    def _encode(self, flavour: str, split: str) -> Documents:
        coder = self.tokenizer.backend_tokenizer
        key = hashlib.sha256((coder.to_str() + self.corpus.fingerprint()).encode()).hexdigest()[:12]
        path = self.cache / f"{flavour}.{split}.{key}.npz"
        if path.exists():
            stored = np.load(path)
            return stored["tokens"], stored["starts"]
        texts = list(self.corpus.documents(flavour, split))
        pieces: list[np.ndarray] = []
        for first in tqdm(range(0, len(texts), 512), desc=f"encoding {flavour}.{split}", unit="×512 documents"):
            for encoded in coder.encode_batch(texts[first : first + 512], add_special_tokens=False):
                pieces.append(np.asarray([self.end, *encoded.ids], dtype=np.uint16))
        tokens = np.concatenate(pieces)
        starts = np.cumsum([0, *(len(p) for p in pieces[:-1])])
        save_arrays(path, tokens=tokens, starts=starts)
        return tokens, starts


def save_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write an ``.npz`` file under another name, then rename it: an interrupt never leaves half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.replace(path)


def batches(documents: dict[str, Documents], seed: int, *, rows: int, length: int) -> Iterator[np.ndarray]:
    """Endless batches ``[rows, length]`` int64; the n-th depends on the seed and n only.

    A flavour's documents are shuffled anew every epoch and packed end to end. Its weight is the root of its size: small
    flavours are seen more often than by size alone.
    """
    streams = {name: _packed(found, (seed, index), length) for index, (name, found) in enumerate(documents.items())}
    roots = np.array([len(documents[name][0]) ** 0.5 for name in sorted(documents)])
    rng = np.random.default_rng([seed, 0x5EED])
    while True:
        chosen = rng.choice(sorted(documents), size=rows, p=roots / roots.sum())
        yield np.stack([next(streams[name]) for name in chosen]).astype(np.int64)


def _packed(documents: Documents, seed: tuple[int, int], length: int) -> Iterator[np.ndarray]:
    tokens, starts = documents
    pieces, left = np.split(tokens, starts[1:]), tokens[:0]
    for epoch in itertools.count():
        order = np.random.default_rng([*seed, epoch]).permutation(len(pieces))
        packed = np.concatenate([left, *(pieces[i] for i in order)])
        end = len(packed) // length * length
        yield from packed[:end].reshape(-1, length)
        left = packed[end:]
