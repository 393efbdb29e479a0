"""Folds a stored sweep again from the traces it was measured with: an old run, today's metrics. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specdiff_core.bench.cells import Cell
from specdiff_core.bench.report import report
from specdiff_core.bench.rows import Row
from specdiff_core.bench.sweep import row_of
from specdiff_core.bench.traces import Traces
from specdiff_core.provenance import git_state
from specdiff_core.schema.errors import ConfigError

ELSEWHERE = {"cells", "prompts", "flavours"}
"""What a result says in another form than the header of its traces."""


def refold(result: dict[str, Any], traces: Traces) -> dict[str, Any]:
    """``result`` with ``cells`` as :func:`specdiff_core.bench.report.report` folds them from ``traces`` now, and
    ``refolded``: the commit that did.

    Raises:
        ConfigError: the traces are of another sweep.
        TraceError: one is missing or damaged; the message names it.
    """
    about = traces.about()
    if other := sorted(name for name in about if name not in ELSEWHERE and about[name] != result.get(name)):
        raise ConfigError(
            f"{traces.folder.name} holds traces of another sweep: {', '.join(other)} differ.",
            field="refold",
            hint="Name the folder that --traces wrote for this result.",
        )
    return {**result, "cells": report(list(rows(traces, about))), "refolded": git_state()["commit"]}


def rows(traces: Traces, about: dict[str, Any]) -> Iterator[Row]:
    """The rows that the sweep wrote, in its order."""
    for prompt, flavour in about["flavours"].items():
        for repeat in range(about["repeats"]):
            for key in about["cells"]:
                facts = {"prompt": prompt, "flavour": flavour, "repeat": repeat, "warmup": False}
                yield {**facts, **row_of(Cell.of(key), traces.events(prompt, repeat, key))}
