"""Formats results for the terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from specdiff_core.schema.errors import printable
from specdiff_core.schema.events import EXACTNESS, Committed, Event, pieces_of, spell
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.wording import settings_words

SOURCE_MARKS = {"draft": ("", ""), "bonus": ("{", "}"), "residual": ("[", "]"), "target": ("[", "]")}
BUSY = "busy machine: threads had to wait for a processor, so speed-ups may be far too large or too small"
LEGEND = "plain: accepted from the draft · [corrected by the target] · {the target's bonus after a full window}"


def marked_text(run: Sequence[Event]) -> str:
    """The new text of a run, with marks around tokens that were not drafted (:data:`LEGEND`)."""
    pieces, committed = pieces_of(run), [event for event in run if isinstance(event, Committed)]
    ids = [token for event in committed for token in event.ids]
    sources = [source for event in committed for source in event.sources]
    words = spell([pieces.get(token, f"<{token}>") for token in ids])
    marks = [SOURCE_MARKS.get(source, ("?", "?")) if "draft" in sources else ("", "") for source in sources]
    return "".join(f"{before}{word}{after}" for word, (before, after) in zip(words, marks, strict=True) if word)


def describe(summary: dict[str, Any]) -> list[str]:
    def number(value: float | None, form: str, unit: str) -> str:
        return "not defined" if value is None else f"{value:{form}} {unit}"

    if summary["server"]:
        speed = number(summary["tokens_per_second"], ".1f", "tokens/s")
        ran = f"  new tokens     {summary['new_tokens']} in {summary['seconds']:.3f} s, ended by {summary['finished']}"
        return [ran, f"  speed          {speed}", f"  exactness      {EXACTNESS['unchecked']}", *served(summary)]
    parts = ", ".join(f"{name} {1000 * spent:.0f} ms" for name, spent in summary["seconds_by"].items())
    claim = EXACTNESS.get(summary["exactness"] if summary["lossless"] else "biased", EXACTNESS[""])
    threads = f", {summary['threads']} threads" if summary["threads"] else ""
    waited = "" if summary["waiting"] is None else f"; threads waiting for a processor: {summary['waiting']:.2f}"
    words = settings_words(summary["config"])  # as run: γ is cut to the drafter's window
    ran = f", {words}" if words else ""
    return [
        f"  drafter        {summary['drafter']}{ran}, rule {summary['rule']}",
        f"  exactness      {claim}",
        f"  new tokens     {summary['new_tokens']} in {summary['rounds']} rounds, ended by {summary['finished']}",
        f"  decode clock   {summary['seconds']:.3f} s: {parts}",
        f"  speed          {number(summary['tokens_per_second'], '.1f', 'tokens/s')}",
        f"  τ              {number(summary['tau'], '.2f', 'tokens per round')}",
        f"  α              {number(summary['alpha'], '.3f', 'of tested tokens accepted')}",
        f"  passes         {summary['target_calls']} of the target, {summary['draft_nfe']} of the drafter",
        f"  measured on    {summary['device']}, {summary['dtype']}{threads}{waited}",
        f"  target run by  {summary['network'] or 'not recorded'}",
        *(f"  note           {fallback}" for fallback in summary["fallbacks"]),
    ]


def table(summary: dict[str, Any]) -> list[str]:
    """A race of several methods, one line each."""
    rows = [("method", "speed-up", "τ", "tokens/s", "text", "distribution")]
    for lane, numbers in summary["lanes"].items():
        speed, spread = "failed" if numbers["failed"] else "not defined" if numbers["config"] else "not run", ""
        if numbers["speedup"] is not None:
            speed = f"{numbers['speedup']:.2f}×"
            low, high = numbers["speedup_least"], numbers["speedup_largest"]
            spread = f" ({low:.2f}–{high:.2f})" if len(numbers["speedups"]) > 1 and lane != BASELINE else ""
        tau, rate = numbers["tau"], numbers["tokens_per_second"]
        quoted = (numbers["quoted"] or {}).get("tau")
        rows.append(
            (
                lane,
                speed + spread,
                f"{tau:.2f}" if tau is not None else "not defined" if quoted is None else f"“{quoted:.2f}”",
                "not defined" if rate is None else f"{rate:.1f}",
                {True: "same as vanilla", False: "different", None: ""}[numbers["same_text_as_vanilla"]],
                {True: "the target's", False: "NOT guaranteed", None: "not checked" if numbers["server"] else ""}[
                    numbers["lossless"]
                ],
            )
        )
    return columns(rows) + ([BUSY] if summary["quiet"] is False else [])


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def listing(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of an answer as a table, with numbers of four digits; a CSV file has all digits."""

    def cell(value: Any) -> str:
        if isinstance(value, list | tuple):
            return " ".join(map(cell, value))
        return f"{value:.4g}" if isinstance(value, float) else "" if value is None else " ".join(str(value).split())

    names = list(dict.fromkeys(name for row in rows for name in row))
    return columns([names, *([cell(row.get(name))[:60] for name in names] for row in rows)]) if rows else []


SILENT = (
    "no drafts; vLLM reports them while nothing else runs on it, or with --per-request-spec-decode-metrics detailed, "
    "SGLang if it supports return_spec_tokens_details, llama.cpp while drafting, by position with --metrics"
)


def served(numbers: dict[str, Any]) -> list[str]:
    """An attached server's lane: what was measured, what it reports, and what is unchecked."""
    forms = {
        "tau": "τ {:.2f}",
        "draft_use": "{:.0%} of its drafted tokens accepted",
        "drafted": "{} drafted",
        "steps": "{} verifying passes",
        "tokens_per_second": "{:.1f} tokens/s by its own clock",
    }
    quoted = {name: value for name, value in (numbers["quoted"] or {}).items() if value is not None}
    reported = [form.format(quoted[name]) for name, form in forms.items() if name in quoted]
    if rates := quoted.get("rates"):
        reported.append(
            f"accepted at positions 1–{len(rates)}: {' '.join(f'{rate:.0%}' for rate in rates)} of its drafts"
        )
    return [
        "  measured here  tokens, and when they arrived by this machine's clock, network included",
        f"  it reports     {', '.join(reported + ([] if 'drafted' in quoted else [SILENT]))}",
        *(["  its rounds     as it reports them, consistent with what arrived"] if numbers["rounds"] else []),
        "  not checked    its distribution, what else it is serving, and whether it has the model, tokenizer and",
        "                 machine of the other lanes",
        *([f"  failed         {numbers['failed']}"] if numbers.get("failed") else []),
    ]


BARS = re.compile(r"(\r|\x1b\[(?:[0-9;]*m|[AK]))")
"""What progress bars and colours write to a terminal."""


class Printable:
    """A stream that prints text from anywhere: control characters as escapes, except those of ``bars``."""

    def __init__(self, stream: TextIO, *, bars: bool = False) -> None:
        self._stream, self._bars = stream, bars

    def write(self, text: str) -> int:
        """Print ``text``."""
        parts = BARS.split(text) if self._bars else [text]  # every second part is a bar's
        return self._stream.write("".join(part if i % 2 else printable(part) for i, part in enumerate(parts)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Print what is written inside through :class:`Printable`."""
    out, err = sys.stdout and Printable(sys.stdout), sys.stderr and Printable(sys.stderr, bars=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
