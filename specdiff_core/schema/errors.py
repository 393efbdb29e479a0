"""Every failure that a person can meet: a message, and a hint that says what to do next."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import NoReturn


class SpecDiffError(Exception):
    """Base of all errors that people may see.

    Args:
        message: what happened, one sentence.
        hint: what to do next, one sentence.
    """

    code = "error"  # names the kind, for programs

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code or cls.code

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ConfigError(SpecDiffError, code="config"):
    """A setting is out of range. ``field`` names it, so that a page can mark its control."""

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class PairUnavailable(SpecDiffError, code="pair"):
    """A model pair cannot be used here; the message holds the reason."""


class WeightsError(PairUnavailable, code="weights"):
    """A weight file is missing, truncated, or does not fit the network."""


class TokenizerMismatch(SpecDiffError, code="tokenizer"):
    """Drafter and target disagree about what an id means."""


class Stopped(SpecDiffError, code="stopped"):
    """Whoever waited for a pair to be loaded has gone."""

    def __init__(self) -> None:
        super().__init__("Loading was stopped.", hint="Run again: files that have arrived whole stay here.")

    def __reduce__(self) -> tuple[type[Stopped], tuple[()]]:
        return Stopped, ()


class DraftContractError(SpecDiffError, code="draft"):
    """A drafter broke its contract: wrong shapes, ids out of range, or a q that cannot have drawn its tokens."""


class ContextOverflow(SpecDiffError, code="context"):
    """The prompt fills the target's context window."""


class OutOfMemory(SpecDiffError, code="memory"):
    """The device ran out of memory."""


def is_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory is exhausted, in any of the ways in which Python and torch say it.

    torch's class is known by its name, since this module must not import torch; on a CPU it raises RuntimeError.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("not enough memory", "can't allocate memory", "out of memory", "bad_alloc", "create a memory object")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def no_memory() -> OutOfMemory:
    """What to say when a decode ran out of memory."""
    return OutOfMemory(
        "The device ran out of memory.", hint="Use a smaller γ, a shorter prompt, or a smaller model pair."
    )


def one_line(text: str) -> str:
    """Text from outside in one line, without control characters, which a terminal would obey."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


class TraceError(SpecDiffError, code="trace"):
    """A file is not a trace, or was cut off."""


class TraceSchemaError(TraceError, code="trace-schema"):
    """A trace carries a schema number that this version does not know."""


class ServerError(SpecDiffError, code="server"):
    """An attached server does not answer, is of another kind, or broke off."""


class CorpusError(SpecDiffError, code="corpus"):
    """A training corpus is missing, empty, or not in the expected format."""


class RemoteTraceback(Exception):
    """Carries the traceback of another process into the log of this one."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class Failure:
    """How work in another process ended that did not end well; pipes carry it."""

    error: Exception
    details: str  # the other process's traceback; empty where the error's own words say all

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """The failure that is being handled."""
        foreseen = isinstance(error, SpecDiffError) and error.__cause__ is None
        return cls(_portable(error), "" if foreseen else traceback.format_exc())

    def throw(self) -> NoReturn:
        """Raise it here, with the traceback of the other process as the cause."""
        raise self.error from (RemoteTraceback(self.details) if self.details else None)


def _portable(error: Exception) -> Exception:
    """``error`` without what no pipe can carry."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception as reason:  # an exception may refuse in any way it likes
        return RuntimeError(f"{error!r} (not passed on: {reason})")
    return error
