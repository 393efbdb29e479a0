"""Turns any failure into a card with what happened and what to do next, never a traceback.

Expected errors have their own messages; unexpected ones are logged under a run id that the card shows.
"""

from __future__ import annotations

import logging
from typing import TypedDict

from specdiff_core.schema.errors import ConfigError, OutOfMemory, SpecDiffError, is_memory

logger = logging.getLogger("specdiff.page")


class Unexpected(SpecDiffError, code="unexpected", title="Something unexpected happened"):
    """An error that the lab does not expect."""


class ErrorCard(TypedDict):
    """An error for the page, as plain text."""

    code: str
    title: str
    message: str
    hint: str
    field: str
    run: str


def card(error: BaseException, run: str) -> ErrorCard:
    """Describe ``error`` for a visitor; log it under ``run``, if unexpected with its traceback."""
    expected = error if isinstance(error, SpecDiffError) else OutOfMemory() if is_memory(error) else None
    if expected is None:
        logger.error("run %s failed", run, exc_info=error, extra={"run": run})
        hint = f"Try again; if it happens again, the log has the details under run {run}."
        expected = Unexpected("The run ended early. Your prompt and your settings are still here.", hint=hint)
    else:
        logger.info("run %s refused: %s", run, expected, extra={"run": run})
        if expected.__cause__ is not None and not isinstance(expected, ConfigError):  # a wrong setting needs none
            logger.warning("run %s: cause", run, exc_info=expected.__cause__, extra={"run": run})
    return ErrorCard(
        code=expected.code,
        title="This prompt can’t be used" if expected.field == "prompt" else expected.title,
        message=expected.message,
        hint=expected.hint,
        field=expected.field,
        run=run,
    )
