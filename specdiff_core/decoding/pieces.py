"""Adds the text of token ids to a run's events: each id once, before its first use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from specdiff_core.schema.events import (
    CONTROL,
    END,
    DenoiseStep,
    DraftReady,
    Event,
    PiecesSeen,
    RunStarted,
    TargetScored,
    Verified,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@lru_cache
def _byte_alphabet() -> dict[str, int]:
    """The byte behind each character of a byte-level vocabulary (GPT-2's printable alphabet)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in printable}
    unprintable = (byte for byte in range(256) if byte not in printable)
    return table | {chr(256 + i): byte for i, byte in enumerate(unprintable)}


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Ids that are not text, also those that a tokenizer has no name for (``<file_sep>``)."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {token for token, entry in added.items() if entry.special}


def spells_spaces(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether its entries are text with ▁ for a space (SentencePiece's way), not bytes."""
    id_of = getattr(tokenizer, "convert_tokens_to_ids", lambda token: None)  # of the whole vocabulary: 50 ms

    def has(token: str) -> bool:
        found: Any = id_of(token)
        return found is not None and tokenizer.convert_ids_to_tokens(found) == token

    return has("▁") and not has("Ġ")


def piece(
    tokenizer: PreTrainedTokenizerBase, token: int, spaces: bool, special: Collection[int], ends: Collection[int] = ()
) -> str:
    """The text of one id. Bytes that are not UTF-8 by themselves are written as ``\\xNN``.

    Args:
        spaces: the vocabulary's :func:`spells_spaces`.
        special: its :func:`special_ids`.
        ends: ids that end a text.
    """
    name: Any = tokenizer.convert_ids_to_tokens(token)
    if name is None:
        return f"<{token}>"
    if token in ends:
        return END
    if token in special:
        return CONTROL
    if spaces:
        byte = _BYTE.fullmatch(name)
        return bytes([int(byte[1], 16)]).decode("utf-8", errors="backslashreplace") if byte else name.replace("▁", " ")
    table = _byte_alphabet()
    if any(char not in table for char in name):
        return str(name)
    return bytes(table[char] for char in name).decode("utf-8", errors="backslashreplace")


def ids_in(event: Event) -> set[int]:
    """Every token id that an event mentions for the first time in a round."""
    match event:
        case RunStarted():
            return set(event.prompt_ids)
        case DenoiseStep():
            candidates = {c.id for row in event.candidates for c in row}
            return candidates | {i for i in event.ids if i is not None}
        case DraftReady():
            return set(event.ids)
        case TargetScored():
            return {c.id for row in event.candidates for c in row}
        case Verified():
            wanted = {t.wanted for t in event.tests if t.wanted is not None}
            return wanted | {event.extra} | {c.id for c in event.extra_candidates}
    return set()


def with_pieces(events: Iterable[Event], tokenizer: PreTrainedTokenizerBase, ends: Collection[int]) -> Iterator[Event]:
    """Pass events through; before an event with new ids, yield their text. ``ends``: ids that end one."""
    seen: set[int] = set()
    spaces, special = spells_spaces(tokenizer), special_ids(tokenizer)
    for event in events:
        if fresh := ids_in(event) - seen:
            seen |= fresh
            yield PiecesSeen(pieces={token: piece(tokenizer, token, spaces, special, ends) for token in sorted(fresh)})
        yield event
