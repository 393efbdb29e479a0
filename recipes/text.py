"""Text to learn from: the corpus in the ids of a tokenizer, and what the target wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from corpus import Corpus
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from specdiff_core.engine import Engine
from specdiff_core.models.folders import damage, shown
from specdiff_core.schema.errors import CorpusError, WeightsError
from specdiff_core.train.answers import Answers, EncodedPrompt, Writing, write_answers

NEW_TOKENS = 160
"""Of each text that the target writes, at most."""
PROMPT = 48
"""Tokens of a held-out prompt."""


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that all models of a pair share.

    Raises:
        WeightsError: it is missing, or damaged.
    """
    if not (folder / "tokenizer.json").is_file():
        raise WeightsError(f"There is no tokenizer in {shown(folder)}.", hint="Run: python recipes/tokenizer.py")
    with damage(f"The tokenizer in {shown(folder)} is damaged"):
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer


@dataclass(frozen=True)
class Documents:
    """The documents of one flavour, end to end. Each begins with the end-of-text id, so that a
    document read from its start looks as a prompt does when decoding."""

    tokens: np.ndarray  # [N] uint16
    starts: np.ndarray  # [documents] int64, positions in ``tokens``

    def bounds(self, index: int) -> tuple[int, int]:
        ends = [*self.starts[index + 1 : index + 2].tolist(), len(self.tokens)]
        return int(self.starts[index]), int(ends[0])

    def beginnings(self, length: int, count: int) -> np.ndarray:
        """``[n, length]`` int64: first tokens of evenly spaced documents; n ≤ ``count``."""
        starts = self.starts[self.starts <= len(self.tokens) - length]
        starts = starts[np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(int)]
        rows: np.ndarray = self.tokens[starts[:, None] + np.arange(length)].astype(np.int64)
        return rows


@dataclass(frozen=True)
class Text:
    """A corpus in the ids of one tokenizer; encoded once, then kept in the folder ``cache``.

    Raises:
        CorpusError: a file cannot be read, or holds no document.
    """

    corpus: Corpus
    tokenizer: PreTrainedTokenizerFast
    cache: Path
    _encoded: dict[str, dict[str, Documents]] = field(default_factory=dict)

    @property
    def mask(self) -> int:
        """The mask id, which no text holds."""
        return int(self.tokenizer.mask_token_id)

    @property
    def end(self) -> int:
        """The end-of-text id, which separates documents."""
        return int(self.tokenizer.eos_token_id)

    def split(self, name: str) -> dict[str, Documents]:
        """``train`` or ``valid``, by flavour."""
        if name not in self._encoded:
            self._encoded[name] = {flavour: self._encode(flavour, name) for flavour in self.corpus.flavours}
        return self._encoded[name]

    def _encode(self, flavour: str, split: str) -> Documents:
        coder = self.tokenizer.backend_tokenizer
        key = hashlib.sha256((coder.to_str() + self.corpus.fingerprint()).encode()).hexdigest()[:12]
        path = self.cache / f"{flavour}.{split}.{key}.npz"
        if not path.exists():
            texts, pieces = list(self.corpus.documents(flavour, split)), list[np.ndarray]()
            for first in tqdm(range(0, len(texts), 512), desc=f"encoding {flavour}.{split}", unit="×512 documents"):
                for encoded in coder.encode_batch(texts[first : first + 512], add_special_tokens=False):
                    pieces.append(np.asarray([self.end, *encoded.ids], dtype=np.uint16))
            starts = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial.npz")  # an interrupt never leaves half a file
            np.savez(partial, tokens=np.concatenate(pieces), starts=starts)
            partial.replace(path)
        stored = np.load(path)
        return Documents(stored["tokens"], stored["starts"])

    def draw_rows(self, rng: np.random.Generator, rows: int, length: int) -> np.ndarray:
        """Random rows ``[rows, length]`` int64 of the training split. The weight of a flavour is
        the root of its size: small flavours are seen more often than by size alone."""
        documents = list(self.split("train").values())
        roots = np.array([len(each.tokens) ** 0.5 for each in documents])
        chosen = rng.choice(len(documents), size=rows, p=roots / roots.sum())
        return np.concatenate([windows(documents[index].tokens, rng, 1, length) for index in chosen])

    def prompts(self, count: int) -> list[EncodedPrompt]:
        """The beginnings of held-out documents, ``count`` of each flavour."""
        return [
            EncodedPrompt(f"{name}-{number}", name, tuple(row))
            for name, documents in self.split("valid").items()
            for number, row in enumerate(documents.beginnings(min(PROMPT, len(documents.tokens)), count).tolist())
        ]


def windows(tokens: np.ndarray, rng: np.random.Generator, count: int, length: int) -> np.ndarray:
    """``[count, length]`` int64 of ``tokens [N]``, from random positions.

    Raises:
        CorpusError: the text is shorter than a row.
    """
    if len(tokens) < length:
        raise CorpusError(
            f"A text has {len(tokens)} tokens; a row takes {length}.", hint="Add text, or lower --length."
        )
    starts = rng.integers(0, len(tokens) - length + 1, count)
    rows: np.ndarray = tokens[starts[:, None] + np.arange(length)].astype(np.int64)
    return rows


@dataclass(frozen=True)
class Written:
    """Texts that the target wrote, each behind the beginning of a document."""

    texts: list[np.ndarray]  # [n] int64 each
    prompts: np.ndarray  # [texts] tokens of their prompts
    greedy: np.ndarray  # [texts] bool

    @property
    def packed(self) -> np.ndarray:
        return np.concatenate(self.texts)


def write_text(
    engine: Engine, text: Text, folder: Path, *, parts: int, texts: int, temperatures: Sequence[float], seed: int
) -> Written:
    """Let the target continue the beginnings of documents, 16 to 64 tokens each, ``parts`` times
    ``texts`` of them; texts that ``folder`` holds are kept. Part n depends on the seed and n only,
    so an interrupted run goes on.

    Raises:
        CorpusError: there is no text to continue.
    """
    documents, prompts = text.split("train"), list[EncodedPrompt]()
    names = sorted(documents)
    for part in range(parts):
        rng = np.random.default_rng([seed, part])
        for number in range(texts):
            name = names[number % len(names)]
            chosen, size = documents[name], int(rng.integers(16, 65))
            index = int(rng.integers(len(chosen.starts)))
            tokens = chosen.tokens[slice(*chosen.bounds(index))][:size].tolist()
            prompts.append(EncodedPrompt(f"{seed}-{part}-{number}", name, tuple(tokens)))
    writing = Writing(
        layers=(), ends=engine.ends, new_tokens=NEW_TOKENS, temperatures=temperatures, slots=64, seed=seed
    )
    with tqdm(total=len(prompts), desc="the target writes", unit="text", dynamic_ncols=True) as bar:
        for facts in write_answers(engine.target, prompts, folder, writing):
            bar.n = min(int(facts["answers"]), len(prompts))
            bar.set_postfix({"tokens_per_second": f"{facts['tokens_per_second']:.0f}"})
    answers = Answers(folder, ())
    if not answers.rows:
        raise CorpusError(f"The target wrote nothing into {shown(folder)}.", hint="Let --parts be above 0.")
    rows = answers.rows
    return Written(
        [np.array(answers.whole(row)) for row in rows],
        np.array([row.prompt for row in rows]),
        np.array([row.temperature == 0 for row in rows]),
    )


def fingerprint(folder: Path) -> str:
    """A short hash of a model's weights, so that text of another target is never read."""
    hasher = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]
