"""Aligns runs of two traces along their common text, without a model, a tokenizer or torch.

The page does the same for files that a visitor opens (``app/static/state/alignment.js``); a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from specdiff_core.explorations.base import Answer
from specdiff_core.explorations.side_by_side import Given, before_round, first_difference, pieces_of, rounds_of
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Committed, Event, RunStarted, Verified, spell
from specdiff_core.schema.summary import header_of
from specdiff_core.schema.trace import read_trace

By = Literal["tokens", "texts", "beginnings", "nothing"]


class Run(NamedTuple):
    """A lane of a file."""

    file: str
    lane: str
    events: tuple[Event, ...]

    @property
    def header(self) -> RunStarted | None:
        """Its header, if the trace has one."""
        return header_of(self.events)

    @property
    def ids(self) -> list[int]:
        """Its new tokens."""
        return [token for event in self.events if isinstance(event, Committed) for token in event.ids]


class Common(NamedTuple):
    """How two runs are aligned, and how far they agree.

    ``by`` is ``tokens`` after one prompt with one target; ``texts``, prompts included, if the
    targets differ or one prompt continues into the other's text; ``beginnings``, from the first new
    token, if the prompts differ; ``nothing`` if a trace lacks the text.
    """

    by: By
    agree: int  # how many characters match; tokens if ``by`` is tokens
    parted: int | None  # the first difference, from 1; None: they match to the end
    starts: dict[str, int]  # characters before the first new token of each, from the earlier one
    target: bool  # whether both have the same target
    prompt: int | None  # the first difference of the prompts, from 1; None: they are equal


def read_run(path: Path | str, lane: str | None = None) -> Run:
    """A lane of a trace file, by default the last one with tokens.

    Raises:
        TraceError: the file is not a trace, or has no such lane.
    """
    lanes = {name: events for name, events in read_trace(path).lanes.items() if any_token(events)}
    if (lane is not None and lane not in lanes) or not lanes:
        hint = f"Choose one of: {', '.join(lanes)}." if lanes else "Choose one in which something was decoded."
        raise TraceError(f"{Path(path).name} has no lane{f' {lane!r}' if lane else ''} with tokens.", hint=hint)
    name = lane if lane is not None else list(lanes)[-1]
    return Run(Path(path).name, name, lanes[name])


def any_token(events: Sequence[Event]) -> bool:
    """Whether anything was committed."""
    return any(isinstance(event, Committed) and event.ids for event in events)


def compare_traces(first: Path | str, second: Path | str, *, lanes: Sequence[str | None] = (None, None)) -> Answer:
    """Compare runs of two trace files: ``rows`` has each round of ``a`` and ``b``, with the
    character at which it begins in the common text; ``facts`` has the alignment (``common``) and
    its description (``words``).

    Args:
        lanes: of each file, by default the last.

    Raises:
        TraceError: a file is not a trace, is damaged, or has no such lane.
    """
    a, b = (read_run(path, lane) for path, lane in zip((first, second), lanes, strict=True))
    runs, pieces = {"a": a, "b": b}, _words(a, b)
    common = common_of(a, b)
    rows = []
    for name, run in runs.items():
        own = list(rounds_of(name, run.events, 1, pieces[name]))
        begins = accumulate((len(row["text"]) for row in own), initial=common.starts[name])
        rows += [row | {"character": at} for row, at in zip(own, begins, strict=False)]
    headers = [run.header for run in runs.values()]
    facts: dict[str, Any] = {
        "labels": {name: f"{run.lane} of {run.file}" for name, run in runs.items()},
        "common": common._asdict(),
        "lossless": all(header is None or header.lossless for header in headers),
        "words": words_of(common, headers),
    }
    return Answer(rows=rows, facts=facts)


def common_of(a: Run, b: Run) -> Common:
    """Align two runs."""
    one, other = a.header, b.header
    target = (
        one is not None
        and other is not None
        and not (one.server or other.server)  # a server's pieces may end anywhere
        and (one.models.get("target"), one.config.get("pair")) == (other.models.get("target"), other.config.get("pair"))
    )
    prompts = ["" if header is None else header.prompt for header in (one, other)]
    known = one is not None and other is not None
    same = known and prompts[0] == prompts[1]
    starts = {"a": 0, "b": 0}
    prompt = first_difference(*prompts) if known else 1
    if same and target:
        return Common("tokens", *_agreement(a.ids, b.ids), starts, target, prompt)
    pieces = _words(a, b)
    texts = []
    for name, run in (("a", a), ("b", b)):
        if all(pieces[name][token] == f"<{token}>" for token in run.ids):
            return Common("nothing", 0, None, starts, target, prompt)
        texts.append("".join(spell([pieces[name][token] for token in run.ids])))
    whole = [before + text for before, text in zip(prompts, texts, strict=True)]
    agree, parted = _agreement(*whole)
    lengths = [len(before) for before in prompts]
    if known and agree >= max(lengths):
        before = min(lengths)
        starts = {"a": lengths[0] - before, "b": lengths[1] - before}
        return Common("texts", agree - before, parted and parted - before, starts, target, prompt)
    return Common("beginnings", *_agreement(*texts), starts, target, prompt)


def words_of(common: Common, headers: Sequence[RunStarted | None]) -> list[str]:
    """Describe how two runs are aligned, where they differ, and what cannot be compared."""
    unit = "token" if common.by == "tokens" else "character"
    words = {
        "tokens": "Aligned token by token, after one prompt.",
        "texts": "Aligned by their whole texts, prompts included.",
        "beginnings": "The prompts differ: aligned from the first new token of each, which doesn't compare methods.",
        "nothing": "Not aligned: the prompts or the targets differ, and a trace lacks the text.",
    }
    said = [words[common.by]]
    if common.prompt is not None and None not in headers:
        said.append(f"The prompts differ from character {common.prompt} on.")
    if common.by != "nothing":
        end = "They agree to the end" if common.parted is None else f"They differ from {unit} {common.parted} on"
        said.append(f"{end}: the first {common.agree} are the same.")
    if not common.target:
        said.append("The targets differ, or a trace does not name its target.")
    machines = {header and (header.device, header.dtype, header.threads) for header in headers}
    if len(machines) > 1:
        said.append("They were timed on different machines: compare rounds, not milliseconds.")
    return said


def given_of(run: Run, round: int) -> Given:
    """A run up to the target's token of a round, to decode a branch from.

    Raises:
        ConfigError: the trace has no header or no such round.
    """
    header = run.header
    if header is None:
        raise ConfigError("The trace has no settings of its run.", field="branch", hint="Choose another trace.")
    return Given(
        config=dict(header.config),
        prompt=header.prompt,
        prompt_ids=header.prompt_ids,
        target=header.models.get("target", ""),
        after=tuple(before_round(run.events, round)),
    )


def _agreement(one: Sequence[object], other: Sequence[object]) -> tuple[int, int | None]:
    """The length of the common beginning of two sequences, and the first difference, from 1."""
    parted = first_difference(one, other)
    return parted - 1 if parted else len(one), parted


def _unknown(run: Run) -> dict[int, str]:
    """A placeholder for the text of every id in a run's rows."""
    verdicts = [event for event in run.events if isinstance(event, Verified)]
    ids = {*run.ids, *(test.id for one in verdicts for test in one.tests), *(one.extra for one in verdicts)}
    return {token: f"<{token}>" for token in ids}


def _words(a: Run, b: Run) -> dict[str, dict[int, str]]:
    """The text of each run's ids; runs of the same target share theirs."""
    own = {"a": pieces_of(a.events), "b": pieces_of(b.events)}
    one, other = ((run.header and run.header.models.get("target")) or "" for run in (a, b))
    if one and one == other:
        own = dict.fromkeys(own, own["a"] | own["b"])
    found = {}
    for name, run in (("a", a), ("b", b)):
        unknown = _unknown(run)
        found[name] = unknown | {token: own[name][token] for token in unknown if token in own[name]}
    return found
