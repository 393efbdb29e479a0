"""What another engine reports of its speculation: the counters of its ``/metrics``, or records of its requests.

Names: vLLM's and llama.cpp's ``spec_decode_*`` counters; SGLang's gauge ``spec_accept_length``; AIPerf's
SpecDecodeAcceptanceRecord, vLLM's and SGLang's per-request fields, and llama.cpp's ``timings``.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Quoted

_SAMPLE = re.compile(
    r"^(?:vllm|llamacpp):(\w{1,80}?)(?:_total)?(?:\{(.*)\})?[ \t]+(\d{1,15}(?:\.\d+)?(?:e\+\d\d?)?)$", re.MULTILINE
)
_GAUGE = re.compile(r"^sglang:spec_accept_length(?:\{(.*)\})?[ \t]+(\d{1,4}(?:\.\d{1,20})?)$", re.MULTILINE)
_POSITION = re.compile(r'\bposition="(\d\d?)"')
_BY_POSITION = "spec_decode_num_accepted_tokens_per_pos"
_COUNTERS = {
    "spec_decode_num_drafts": "drafts",
    "spec_decode_num_draft_tokens": "drafted",
    "spec_decode_num_accepted_tokens": "accepted",
    "generation_tokens": "tokens",  # vLLM
    "tokens_predicted": "tokens",  # llama.cpp
}
"""Counters of ``/metrics``, without prefix and ``_total`` -> fields of :class:`Counts`."""


_STEPS = ("num_spec_steps", "num_verification_steps", "spec_verify_ct")
_DRAFTED = ("num_draft_tokens", "num_verified_draft_tokens", "spec_num_proposed_drafts", "draft_n")
_ACCEPTED = ("num_accepted_draft_tokens", "spec_num_correct_drafts", "draft_n_accepted")
_HISTOGRAM = ("acceptance_histogram", "spec_correct_drafts_histogram")
MOST, POSITIONS = 10**15, 1000
"""Most of anything, and most positions of a draft."""
_HINT = "Paste the text of its /metrics, or JSON with per_step_accepted or the counts of draft tokens."


class Counts(NamedTuple):
    """What a server counted, since it started or during a run."""

    drafts: int = 0  # rounds that drafted
    drafted: int = 0  # tokens
    accepted: int = 0
    tokens: int = 0  # written, of all requests
    positions: tuple[int, ...] = ()  # drafts of which the token at this position was accepted

    @property
    def tau(self) -> float:
        """Tokens per drafting round, with the target's own."""
        return 1 + self.accepted / self.drafts

    @property
    def alpha_at(self) -> list[float | None]:
        """By position: acceptance of the drafts that reach it."""
        return [now / before if before else None for before, now in itertools.pairwise([self.drafts, *self.positions])]

    @classmethod
    def read(cls, metrics: str) -> Counts | None:
        """Of the text of ``/metrics`` of vLLM or llama.cpp; None if they don't count drafts. Engines and models of one
        server are added up."""
        sums, positions = dict[str, int](), dict[int, int]()
        for name, labels, value in _SAMPLE.findall(metrics):
            if field := _COUNTERS.get(name):
                sums[field] = sums.get(field, 0) + int(float(value))
            elif name == _BY_POSITION and (found := _POSITION.search(labels)):
                place = int(found[1])
                positions[place] = positions.get(place, 0) + int(float(value))
        if not {"drafts", "drafted", "accepted"} <= sums.keys():
            return None
        return cls(**sums, positions=tuple(positions.get(place, 0) for place in range(max(positions, default=-1) + 1)))

    def since(self, before: Counts) -> Counts:
        """The difference."""
        first = (*before.positions, *[0] * (len(self.positions) - len(before.positions)))
        positions = tuple(now - then for now, then in zip(self.positions, first, strict=False))
        drafts, drafted, accepted, tokens = (now - then for now, then in zip(self[:4], before[:4], strict=True))
        return Counts(drafts, drafted, accepted, tokens, positions)

    def quoted(self, tokens: int, said: Quoted | None) -> Quoted | None:
        """``said`` by the server about a run of ``tokens``, completed by what it counted meanwhile. Unchanged if it
        drafted nothing, or if another request was served, too: its drafts are counted with those of the run."""
        ours = self.tokens == tokens >= self.drafts > 0 and 0 <= self.accepted <= self.drafted <= 10**6
        ours = ours and min(self.positions, default=0) >= 0 and sum(self.positions) in (0, self.accepted)
        if not ours or (said and said.accepted not in (None, self.accepted)):
            return said
        passes = tokens - 1 - self.accepted  # each adds a token; the first one is prefill's
        counted = {"drafts": self.drafts, "by_position": self.positions, "drafted": self.drafted}
        counted |= {"accepted": self.accepted, "steps": (said and said.steps) or (passes if passes > 0 else None)}
        return msgspec.structs.replace(said or Quoted(), **counted)


class Gauge(NamedTuple):
    """An engine's own average, over rounds that it does not report."""

    tau: float

    @classmethod
    def read(cls, metrics: str) -> Gauge | None:
        """Of the text of SGLang's ``/metrics``, the mean of its engines that have drafted; the last of two scrapes."""
        lengths = [length for text in dict(_GAUGE.findall(metrics)).values() if (length := float(text)) >= 1]
        return cls(sum(lengths) / len(lengths)) if lengths else None


def read(text: str) -> Counts | Gauge:
    """The counts in a text, or an engine's own average if that is all it has. A counter that appears twice is of two
    scrapes: its difference counts.

    Raises:
        ConfigError: there are none, or nothing was drafted between the scrapes.
    """
    try:
        found = _of_records(text) if text.lstrip().startswith(("{", "[")) else _of_metrics(text)
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = Counts()
    counts = (found.drafts, found.drafted, found.accepted, *found.positions)
    if not found.drafts > 0 or not all(0 <= count < MOST for count in counts) or len(found.positions) > POSITIONS:
        if (gauge := Gauge.read(text)) is not None:
            return gauge
        raise ConfigError("There are no counts of drafts in this text.", field="counts", hint=_HINT)
    return found


def _of_metrics(text: str) -> Counts:
    seen = set[tuple[str, str]]()
    for sample in _SAMPLE.finditer(text):
        if (series := (sample[1], sample[2])) in seen:  # here the second scrape begins
            before, now = Counts.read(text[: sample.start()]), Counts.read(text[sample.start() :])
            return now.since(before) if before and now else Counts()
        seen.add(series)
    return Counts.read(text) or Counts()


def _of_records(text: str) -> Counts:
    try:
        values = json.loads(text)
    except ValueError:
        values = [json.loads(line) for line in text.splitlines() if line.strip()]
    found = [_of_record(record) for record in _records(values)]
    drafts, drafted, accepted = (sum(counts) for counts in zip(*(one[:3] for one in found), strict=True))
    positions = tuple(map(sum, itertools.zip_longest(*(one.positions for one in found), fillvalue=0)))
    return Counts(drafts, drafted, accepted, positions=positions)


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
    accepted = int(first(_ACCEPTED) or sum(i * count for i, count in enumerate(histogram)))
    drafts = int(first(_STEPS) or sum(histogram) or record.get("predicted_n", accepted) - accepted)
    reached = [int(count) for count in itertools.accumulate(reversed(histogram))][::-1][1:]
    return Counts(drafts, int(first(_DRAFTED)), accepted, positions=tuple(reached))
