"""Results as Markdown: what the terminal prints, and parts of BENCHMARKS.md."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from specdiff_core.explorations.wording import plural
from specdiff_core.measure.store import Bench, write_result
from specdiff_core.schema.errors import ConfigError


class Tabled(Bench, kw_only=True):
    """A result that knows its paragraphs and tables."""

    def tables(self) -> list[str]:
        """Paragraphs and tables; empty ones are left out."""
        raise NotImplementedError


def bounds(low: float, high: float, form: str = ".2f") -> str:
    return f"{low:{form}}–{high:{form}}"


def flavour_counts(prompts: Mapping[str, int]) -> str:
    """``code 10, dialogue 10``."""
    return ", ".join(f"{flavour} {count}" for flavour, count in prompts.items())


def differing(texts: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The texts that differ from vanilla's although no tie explains it, by name, and what ``difference`` returned; or
    empty. The result has those at a tie, too."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, diff in texts:
        if not diff["tie"]:
            by_name[name].append(f"{diff['prompt']} from token {diff['token']} ({diff['margin']:.1e})")
    lines = [f"{name}: {', '.join(found)}" for name, found in by_name.items()]
    about = "UNEXPLAINED differences, and how far apart the two best tokens are there"
    return f"{about}: {'; '.join(lines)}." if lines else ""


def origin(result: Bench, command: bool = True) -> str:
    """Where, when and by which command a result was measured."""
    facts = result.provenance
    words = [
        f"{machine(result)}, {plural(result.threads, 'thread')}, {result.dtype}, torch {facts['versions']['torch']}"
    ]
    words += [facts["date"][:10] + (f" in {result.sessions} sessions" if result.sessions > 1 else "")]
    said = f"Measured on {'; '.join([*words, f'commit {commit(result)}'])}."
    return said + (f" `{facts['command']}`" if command else "")


def section(result: Bench) -> str:
    """One result: its tables, and the facts and the command that make it repeatable.

    Raises:
        ConfigError: the result is not whole.
    """
    with whole(result):
        *others, last = filter(None, cast(Tabled, result).tables())
        return "\n\n".join([*others, last + ("\n\n" if last.startswith("|") else " ") + origin(result)])


@contextmanager
def whole(*results: Bench) -> Iterator[None]:
    """Raise a ConfigError that names the results if one lacks what a table needs."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        names = ", ".join(repr(result.provenance.get("command")) for result in results)
        message = f"The result of {names} is not whole ({type(error).__name__}: {error})."
        raise ConfigError(message, field="results", hint="Measure it again.") from error


def machine(result: Bench) -> str:
    """The machine that computed a result."""
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
