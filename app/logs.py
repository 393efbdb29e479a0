"""The log of the server, on stderr: text for people, or one JSON object a line; and the ids of its runs."""

from __future__ import annotations

import json
import logging
import os
import uuid
from datetime import UTC, datetime

from specdiff_core.schema.errors import printable


def new_run_id() -> str:
    """A short id that links a visitor's card to a log line."""
    return uuid.uuid4().hex[:8]


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, run id."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if run := getattr(record, "run", ""):
            entry["run"] = run
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class Printing(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on
    """Logs to stderr, without control characters from outside."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr() -> None:
    """Log to stderr, as text, or as JSON with ``SPECDIFF_LOG=json``."""
    handler = Printing()
    people = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if os.environ.get("SPECDIFF_LOG") == "json" else people)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
