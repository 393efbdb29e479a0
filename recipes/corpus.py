"""Reads text from a folder.

A corpus is a folder of ``NAME.train.txt[.xz]`` and ``NAME.valid.txt[.xz]`` pairs, one pair per
flavour: UTF-8, with a line ``<|endoftext|>`` between documents.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
