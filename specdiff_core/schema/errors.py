"""All errors shown to people: each has a message, and a hint that says what to do next."""

from __future__ import annotations

import difflib
import pickle
import re
from collections.abc import Iterable
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in typeshed
from typing import Any

_PATH = re.compile(r"(?<=')/[^'\n]*/([^/'\n]+/[^/'\n]+)(?=')|(?<![\w.:/])(?:/[^\s/'\"]+)+/([^\s/'\"]+/[^\s/'\"]+)")
"""An absolute path, whose last two parts are shown: exceptions of other packages contain a user's folders."""


class SpecDiffError(Exception):
    """Base of all errors that people may see.

    Args:
        message: what happened, one sentence.
        hint: what to do next, one sentence.
    """

    code = "error"  # the kind, for programs
    title = "That did not work"  # of its kind, on the page
    hint = ""  # of its kind, unless it has its own
    field = ""  # the setting that is wrong, so that a page can mark its control

    def __init_subclass__(cls, code: str = "", title: str = "", hint: str = "") -> None:
        cls.code, cls.title, cls.hint = code or cls.code, title or cls.title, hint or cls.hint

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = _PATH.sub(r"\1\2", message)
        self.hint = hint or self.hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ConfigError(SpecDiffError, code="config", title="This setting doesn’t work"):
    """A setting is out of range; ``field`` names it."""

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


def no_such(what: str, name: object, names: Iterable[str], field: str) -> ConfigError:
    """The error for an unknown name of ``what``, with the known ``names``."""
    known = list(names)
    hint = f"{did_you_mean(str(name), known)}Choose one of: {', '.join(known)}."
    return ConfigError(f"There is no {what} called {str(name)[:40]!r}.", field=field, hint=hint)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``Did you mean x? `` for the most similar name; empty if none is."""
    return next((f"Did you mean {name}? " for name in difflib.get_close_matches(word[:40], list(known), 1)), "")


class PairUnavailable(SpecDiffError, code="pair", title="This model pair isn't available here"):
    """A model pair cannot be used here; the message holds the reason."""


_FILES = "Download the files again, or copy them from a clean checkout."
_TRACE = "Choose a .jsonl or .jsonl.gz file, downloaded from this page or written with --trace."


class WeightsError(PairUnavailable, code="weights", title="A model file is missing or damaged", hint=_FILES):
    """A weight file is missing, truncated, or does not fit the network."""


_IDS = "Drafter and target must share one tokenizer; choose another drafter for this pair."


class TokenizerMismatch(SpecDiffError, code="tokenizer", title="Drafter and target don’t match", hint=_IDS):
    """Drafter and target have different ids."""


class Stopped(SpecDiffError, code="stopped", title="Stopped", hint="Run again: complete files are kept."):
    """Loading was cancelled."""

    def __init__(self, message: str = "Loading was stopped.") -> None:
        super().__init__(message)


_OTHER = "Choose another drafter; its author finds what a draft must be in drafters/base.py."


class DraftContractError(SpecDiffError, code="draft", title="The drafter returned an invalid draft", hint=_OTHER):
    """A drafter broke its contract: wrong shapes, ids out of range, or an impossible q."""


class ContextOverflow(SpecDiffError, code="context", title="The prompt is too long"):
    """The prompt fills the target's context window."""

    field = "prompt"


_LESS = "Use a smaller γ, a shorter prompt, or a smaller model pair."


class OutOfMemory(SpecDiffError, code="memory", title="Out of memory", hint=_LESS):
    """The device ran out of memory."""

    def __init__(self, message: str = "The device ran out of memory.", *, hint: str = "") -> None:
        super().__init__(message, hint=hint)


def is_memory(error: BaseException) -> bool:
    """Whether ``error`` is one of Python's or torch's errors for exhausted memory.

    torch's class is recognised by name; on a CPU torch raises RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("not enough memory", "can't allocate memory", "out of memory", "bad_alloc", "create a memory object")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Text in which control characters (not line breaks and tabs) are escapes ``\u001b``, as in JSON: they could steer
    a terminal, or reverse what it shows."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """External text in one line, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


class TraceError(SpecDiffError, code="trace", title="This file is not a readable trace", hint=_TRACE):
    """A file is not a trace, or was cut off."""


class TraceSchemaError(TraceError, code="trace-schema", title="This trace was written by another version"):
    """A trace has an unknown schema number."""


class ServerError(SpecDiffError, code="server", title="The attached server failed", hint="Its log may say why."):
    """An attached server does not answer, is unsupported, or broke off."""


class CorpusError(SpecDiffError, code="corpus", title="The corpus cannot be read"):
    """A training corpus is missing, empty, or not in the expected format."""


def picklable(error: Exception) -> Any:
    """An exception that is being handled, as a pipe carries it to another process: with its
    traceback as the cause unless it was expected, and as a RuntimeError if it can't be pickled."""
    expected = isinstance(error, SpecDiffError) and error.__cause__ is None
    carried = error if expected else ExceptionWithTraceback(error, error.__traceback__)
    try:
        pickle.loads(pickle.dumps(carried))
    except Exception as reason:  # pickling may raise anything
        replacement = RuntimeError(f"{error!r} (not passed on: {reason})")
        carried = ExceptionWithTraceback(replacement, error.__traceback__)
    return carried
