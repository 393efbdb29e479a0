"""Compares the vocabularies of two model folders by their tokenizer files; runs no code of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from specdiff_core.checkpoints.folders import damage_errors, short_path
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.schema.errors import TokenizerMismatch
from specdiff_core.schema.pairs import DrafterSpec, PairSpec

T = TypeVar("T")
LEAST_SHARED = 0.95  # share of the target's ids that a drafter must share


class _Added(msgspec.Struct):
    content: str
    id: int = -1


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[tuple[str, float]] = []  # with each word's id, or its score


class _Tokenizer(msgspec.Struct):
    """Fields of a ``tokenizer.json``."""

    model: _Model
    added_tokens: list[_Added] | None = None


class _Config(msgspec.Struct):
    """Fields of a ``tokenizer_config.json``."""

    added_tokens_decoder: dict[int, _Added | str] | None = None


def token_names(folder: Path) -> dict[int, str]:
    """Id -> token, from the tokenizer files of a folder; empty if none can be read without code.

    Raises:
        WeightsError: a file is damaged.
    """
    named: dict[int, str] = {}
    tokenizer_path, vocab_path = folder / "tokenizer.json", folder / "vocab.json"
    if tokenizer_path.is_file():
        tokenizer = _read(tokenizer_path, _Tokenizer)
        vocab = tokenizer.model.vocab
        pairs = vocab.items() if isinstance(vocab, dict) else ((word, i) for i, (word, _) in enumerate(vocab))
        named = {i: name for name, i in pairs} | {entry.id: entry.content for entry in tokenizer.added_tokens or ()}
    elif vocab_path.is_file():
        named = {i: name for name, i in _read(vocab_path, dict[str, int]).items()}
        if (added := folder / "added_tokens.json").is_file():
            named |= {i: name for name, i in _read(added, dict[str, int]).items()}
    if named and (config := folder / "tokenizer_config.json").is_file():
        extra = _read(config, _Config).added_tokens_decoder or {}
        named |= {i: entry if isinstance(entry, str) else entry.content for i, entry in extra.items()}
    return named


def unshared(target: Mapping[int, str], drafter: Mapping[int, str], size: int) -> tuple[int, ...]:
    """The ids below ``size`` that are missing in target or drafter, or are different tokens.

    Raises:
        TokenizerMismatch: there are too many; the message names the first.
    """
    ids = [i for i in range(size) if i not in target or target[i] != drafter.get(i)]
    different = [i for i in ids if i in target]  # the others pad the target's table
    if len(different) > (1 - LEAST_SHARED) * max(1, len(target)):
        first = different[0]
        raise TokenizerMismatch(
            f"{len(different):,} of the target's {len(target):,} ids mean different tokens in the "
            f"drafter, first {first}: {target[first]!r} against {drafter.get(first)!r}."
        )
    return tuple(ids)


def unshared_ids(spec: DrafterSpec, pair: PairSpec, size: int) -> tuple[int, ...] | None:
    """The ids below ``size`` that a pair's target does not share with a drafter; None if the
    drafter has no tokenizer files. Reads no weights.

    Raises:
        WeightsError: a file is damaged.
        PairUnavailable: the repository cannot be reached.
        TokenizerMismatch: there are too many.
    """
    drafter = token_names(resolve(spec.source, spec.revision, weights=False))
    if not drafter:
        return None
    target = token_names(resolve(pair.tokenizer or pair.target, pair.revision, weights=False))
    return unshared(target, drafter, size) if target else None


def _read(path: Path, kind: type[T]) -> T:
    with damage_errors(f"The tokenizer file {short_path(path)} is damaged"):
        return msgspec.json.decode(path.read_bytes(), type=kind)
