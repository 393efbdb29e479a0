"""Results as Markdown: what the terminal prints, and a section of BENCHMARKS.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, cast

from specdiff_core.explorations.figures import percent, plural
from specdiff_core.measure.store import Bench, write_result
from specdiff_core.measure.sweep import Sweep, number, speeds, table, waiting
from specdiff_core.schema.errors import ConfigError

PARTS = ("draft", "verify", "prefill", "other")


class Tabled(Bench, kw_only=True):
    """A result that knows its heading, paragraphs and tables."""

    def tables(self) -> list[str]:
        """Heading, paragraphs and tables; empty ones are left out."""
        raise NotImplementedError


def bounds(low: float, high: float, form: str = ".2f") -> str:
    return f"{low:{form}}–{high:{form}}"


def flavours_of(prompts: Mapping[str, int]) -> str:
    """``code 10, dialogue 10``."""
    return ", ".join(f"{flavour} {count}" for flavour, count in prompts.items())


def differing(texts: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The texts that differ from vanilla's: names, and what ``difference`` returned; or empty."""
    lines = [
        f"- {name}, {diff['prompt']}, token {diff['token']}: the two best tokens are {diff['margin']:.1e} apart, "
        + ("a tie" if diff["tie"] else "UNEXPLAINED")
        for name, diff in texts
    ]
    return "\n".join(["Texts that differ:\n", *lines]) if lines else ""


def sweep_tables(result: Sweep) -> list[str]:
    """A sweep: speeds, and details by flavour and position."""
    entries, settings, flavours = result.entries, result.settings, list(result.prompts)
    detail = []
    for entry in entries:
        row = [entry.name, *(number(entry.tau_by_flavour[flavour]) for flavour in flavours)]
        row += [" ".join(map(number, entry.alpha_at)) or "–"]
        detail.append([*row, *(percent(entry.seconds_by[part] / entry.seconds) for part in PARTS)])
    drafter = settings.get("draft_temperature")
    temperature = f"{settings['temperature']:g}" + ("" if drafter is None else f" (drafter {drafter:g})")
    names = ", ".join(dict.fromkeys(entry.drafter for entry in entries[1:]))
    ended = "ignored" if settings["ignore_eos"] else "ends a run"
    looping = entries[0].looping
    loops = f" {looping} of vanilla's {entries[0].prompts} texts end repeating a phrase." if looping else ""
    return [
        f"### Temperature {temperature}, rule {settings['rule']}, {settings['max_new_tokens']} tokens: {names}",
        f"Prompts: {flavours_of(result.prompts)}; {plural(result.repeats, 'repeat')} each, interleaved; reveal order "
        f"{settings['order']}; end of text {ended}.{loops}{waiting(result.waits)}",
        speeds(result),
        table(["setting", *(f"τ {name}" for name in flavours), "α by position", *PARTS], detail),
    ]


def section(result: Bench) -> str:
    """One result: its tables, and the facts and the command that make it repeatable.

    Raises:
        ConfigError: the result is not whole.
    """
    origin = result.provenance
    facts = [
        f"Measured on {machine(result)}, {plural(result.threads, 'thread')}, {result.dtype}, target {result.target}",
        origin["date"] + (f" in {result.sessions} sessions" if result.sessions > 1 else ""),
        f"commit {commit(result)}",
    ]
    try:
        parts = sweep_tables(result) if isinstance(result, Sweep) else cast(Tabled, result).tables()
        return "\n\n".join([*filter(None, parts), f"{'; '.join(facts)}.", f"```\n{origin['command']}\n```"])
    except (LookupError, TypeError, ValueError) as error:
        message = f"The result of {origin['command']!r} is not whole ({type(error).__name__}: {error})."
        raise ConfigError(message, field="results", hint="Measure it again.") from error


def machine(result: Bench) -> str:
    """The machine that computed a result: results of one machine share a section."""
    origin = result.provenance
    if result.device.startswith("cuda"):
        return origin["gpu"]
    isa = origin.get("instruction_set")  # processors of different generations may have one name
    return f"{origin['cpu']}, {origin['cores']} cores" + (f", {isa}" if isa else "")


def commit(result: Bench) -> str:
    """The code that computed a result."""
    origin = result.provenance
    return (origin["commit"] or "no repository") + (" with local changes" if origin["dirty"] else "")


def finish(args: argparse.Namespace, result: Bench) -> None:
    """Print the section; write the JSON."""
    print(section(result))
    if args.json is not None:
        write_result(args.json, result)
