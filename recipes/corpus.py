"""Reads text from a folder, and encodes it.

A corpus is a folder of ``NAME.train.txt[.xz]`` and ``NAME.valid.txt[.xz]`` pairs, one pair per
flavour: UTF-8, with a line ``<|endoftext|>`` between documents.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from specdiff_core.schema.errors import CorpusError

SEPARATOR = "<|endoftext|>"
NAMES = re.compile(r"(.+)\.(train|valid)\.txt(\.xz)?")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of one folder, by flavour and split (``train`` or ``valid``)."""

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
        return tuple(sorted(flavour for flavour, split in self.files if split == "train"))

    def documents(self, flavour: str, split: str) -> Iterator[str]:
        """Yield the documents of one flavour, without surrounding space; empty ones are left out.

        Raises:
            CorpusError: the file holds no document.
        """
        path = self.files[flavour, split]
        raw = path.read_bytes()
        text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8")
        documents = [document.strip() for document in text.split(SEPARATOR)]
        if not any(documents):
            raise CorpusError(f"{path.name} holds no document.", hint="Take its flavour out of the folder.")
        yield from filter(None, documents)

    def fingerprint(self) -> str:
        """A short hash of the file names and sizes, recorded in every model card."""
        facts = [(p.name, p.stat().st_size) for p in sorted(self.root.glob("*.txt*"))]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def encode(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, split: str) -> dict[str, np.ndarray]:
    """Flavour -> its documents end to end, ``[N]`` uint16. Each begins with the end-of-text id, as a
    prompt does in decoding.

    Raises:
        CorpusError: a file holds no document, or the tokenizer has ids of more than 16 bits.
    """
    if len(tokenizer) > 2**16:
        what = f"The tokenizer has {len(tokenizer):,} entries; tokens are stored in 16 bits."
        raise CorpusError(what, hint=f"Give --vocabulary at most {2**16}.")
    encoded = {}
    for flavour in corpus.flavours:
        texts, pieces = list(corpus.documents(flavour, split)), list[np.ndarray]()
        for first in tqdm(range(0, len(texts), 512), desc=f"encoding {flavour}.{split}", unit="×512 documents"):
            batch = tokenizer.backend_tokenizer.encode_batch(texts[first : first + 512], add_special_tokens=False)
            pieces += [np.array([tokenizer.eos_token_id, *document.ids], dtype=np.uint16) for document in batch]
        encoded[flavour] = np.concatenate(pieces)
    return encoded


def draw_rows(encoded: Mapping[str, np.ndarray], rng: np.random.Generator, rows: int, length: int) -> np.ndarray:
    """Random pieces of the text, ``[rows, length]`` int64. The weight of a flavour is the root of its
    size: small flavours are seen more often than by size alone.

    Raises:
        CorpusError: a flavour is shorter than a row.
    """
    texts = list(encoded.values())
    if (shortest := min(map(len, texts))) < length:
        hint = "Add text, or lower --length."
        raise CorpusError(f"A text has {shortest} tokens; a row takes {length}.", hint=hint)
    roots = np.array([len(text) ** 0.5 for text in texts])
    chosen = [texts[index] for index in rng.choice(len(texts), size=rows, p=roots / roots.sum())]
    starts = [int(rng.integers(len(text) - length + 1)) for text in chosen]
    return np.stack([text[start : start + length] for text, start in zip(chosen, starts, strict=True)]).astype(np.int64)
