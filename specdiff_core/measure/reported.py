"""What another engine reports of its speculation: the counters of its ``/metrics``, or records of its requests.

Names: vLLM's and llama.cpp's ``spec_decode_*`` counters; AIPerf's SpecDecodeAcceptanceRecord, vLLM's and SGLang's
per-request fields, and llama.cpp's ``timings``.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from specdiff_core.schema.errors import ConfigError

_COUNTER = re.compile(
    r"^(?:vllm|llamacpp):spec_decode_num_(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?"
    r"(?:\{([^}\n]{0,2000})\})?[ \t]+([0-9.eE+]{1,40})",
    re.MULTILINE,
)
_POSITION = re.compile(r'position="(\d{1,3})"')
_STEPS = ("num_spec_steps", "num_verification_steps", "spec_verify_ct")
_DRAFTED = ("num_draft_tokens", "num_verified_draft_tokens", "spec_num_proposed_drafts", "draft_n")
_ACCEPTED = ("num_accepted_draft_tokens", "spec_num_correct_drafts", "draft_n_accepted")
_HISTOGRAM = ("acceptance_histogram", "spec_correct_drafts_histogram")
MOST, POSITIONS = 10**15, 1000
"""Most of anything, and most positions of a draft."""
_HINT = "Paste the text of its /metrics, or JSON with per_step_accepted or the counts of draft tokens."


class Counts(NamedTuple):
    """Counts of a run.

    Attributes:
        drafts: verification steps.
        drafted: drafted tokens; 0: not reported.
        accepted: accepted ones.
        reached: of each position, the drafts accepted up to it, as vLLM counts; empty: not reported.
    """

    drafts: float
    drafted: float
    accepted: float
    reached: list[float]

    @property
    def tau(self) -> float:
        """Tokens per round, with the target's own."""
        return 1 + self.accepted / self.drafts

    @property
    def alpha_at(self) -> list[float | None]:
        """By position: acceptance of the drafts that reach it."""
        return [now / before if before else None for before, now in itertools.pairwise([self.drafts, *self.reached])]


def read(text: str) -> Counts:
    """The counts in a text. A counter that appears twice is of two scrapes: its difference counts.

    Raises:
        ConfigError: there are none, or nothing was drafted between the scrapes.
    """
    try:
        found = _of_records(text) if text.lstrip().startswith(("{", "[")) else _of_metrics(text)
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = Counts(0, 0, 0, [])
    counts = (found.drafts, found.drafted, found.accepted, *found.reached)
    if not found.drafts > 0 or not all(0 <= count < MOST for count in counts) or len(found.reached) > POSITIONS:
        raise ConfigError("There are no counts of drafts in this text.", field="counts", hint=_HINT)
    return found


def _of_metrics(text: str) -> Counts:
    series: dict[tuple[str, str], list[float]] = {}
    for name, labels, value in _COUNTER.findall(text):
        series.setdefault((name, labels), []).append(float(value))
    totals, reached = dict[str, float](), dict[int, float]()
    for (name, labels), values in series.items():
        value = values[-1] - (values[0] if len(values) > 1 else 0)
        if name.endswith("per_pos") and (position := _POSITION.search(labels)):
            reached[int(position[1])] = reached.get(int(position[1]), 0) + value
        else:
            totals[name] = totals.get(name, 0) + value
    drafts, drafted, accepted = (totals.get(name, 0) for name in ("drafts", "draft_tokens", "accepted_tokens"))
    return Counts(drafts, drafted, accepted, [reached[position] for position in sorted(reached)])


def _of_records(text: str) -> Counts:
    try:
        values = json.loads(text)
    except ValueError:
        values = [json.loads(line) for line in text.splitlines() if line.strip()]
    found = [_of_record(record) for record in _records(values)]
    reached = [sum(column) for column in itertools.zip_longest(*(one.reached for one in found), fillvalue=0.0)]
    return Counts(
        sum(one.drafts for one in found), sum(one.drafted for one in found), sum(one.accepted for one in found), reached
    )


def _records(values: Any) -> Iterator[Mapping[str, Any]]:
    """Every object with counts, wherever it is nested."""
    if isinstance(values, list):
        for value in values:
            yield from _records(value)
    elif isinstance(values, dict):
        if values.keys() & {"per_step_accepted", *_ACCEPTED, *_HISTOGRAM}:
            yield values
        else:
            yield from _records(list(values.values()))


def _of_record(record: Mapping[str, Any]) -> Counts:
    def first(names: tuple[str, ...]) -> Any:
        return next((record[name] for name in names if record.get(name) is not None), 0)

    histogram = list(first(_HISTOGRAM) or [])
    if steps := record.get("per_step_accepted"):
        counted = Counter(steps)
        if not max(counted) <= POSITIONS:
            raise ValueError("too many accepted tokens")
        histogram = [counted[accepted] for accepted in range(max(counted) + 1)]
    accepted = float(first(_ACCEPTED) or sum(i * count for i, count in enumerate(histogram)))
    drafts = float(first(_STEPS) or sum(histogram) or record.get("predicted_n", accepted) - accepted)
    reached = [float(count) for count in itertools.accumulate(reversed(histogram))][::-1][1:]
    return Counts(drafts, float(first(_DRAFTED)), accepted, reached)
