"""``python -m app.recordings``: records the races that ship with the page anew, on this machine, which must be quiet.

Live: the opening settings on every example, and every preset and method on the first. Race: what its tab opens with, on
every example. Beside them an index says what the controls hold for each, so that they and the stage agree.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from app.content.examples import EXAMPLES, PRESETS, Example
from app.controls import shown
from app.run.engines import load_engine
from app.tabs import live, race
from specdiff_core.schema import decoder
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

Lanes = dict[str, Sequence[Event]]
TRACES = ASSETS / "traces"
INDEX = "index.json"
"""Beside recordings: file name -> {"title", "asked"}, the latter what the controls hold, in the order of a link."""


class Recording(NamedTuple):
    """A race to record: where, how it is called, and what the controls hold."""

    file: Path
    title: str
    asked: dict[str, Any]

    def plan(self) -> Mapping[str, DecodeConfig]:
        """Its lanes, as the tab would run them."""
        values = {name: value for name, value in self.asked.items() if name != "prompt"}
        return race.plan(values) if "methods" in values else live.plan(values)


def recordings(folder: Path) -> Iterator[Recording]:
    """All of them, the opening one of each tab first."""
    for example in EXAMPLES:
        yield _live(folder, example, PRESETS[0].label, PRESETS[0].config)
    seen = [PRESETS[0].config]
    methods = ((method.label, method.config(DecodeConfig())) for method in METHODS if method.name != BASELINE)
    for label, config in (*((preset.label, preset.config) for preset in PRESETS), *methods):
        if config not in seen:
            seen.append(config)
            yield _live(folder, EXAMPLES[0], label, config)
    for example in EXAMPLES:
        config = DecodeConfig()
        asked = {name: shown(config.to_dict()[name]) for name in race.SETTINGS}
        file = folder / "race" / f"{example.flavour.lower()}.jsonl.gz"
        title = f"{example.flavour}: {len(race.DEFAULT) + 1} methods"
        yield Recording(file, title, {"prompt": example.prompt, "methods": list(race.DEFAULT), **asked})


def _live(folder: Path, example: Example, label: str, config: DecodeConfig) -> Recording:
    words = re.findall(r"\w+", f"{example.flavour} {label}".lower(), re.ASCII)
    asked = {"prompt": example.prompt, **{name: shown(value) for name, value in config.to_dict().items()}}
    return Recording(folder / f"{'-'.join(words)}.jsonl.gz", f"{example.flavour}: {label}", asked)


def record(folder: Path, measure: Callable[[Recording], Lanes]) -> None:
    """Measure all recordings and write them; the indices come last, so that none names a file that is not there."""
    indices: dict[Path, dict[str, Any]] = {}
    for recording in tqdm(list(recordings(folder)), unit="race", file=sys.stderr, disable=None):
        write_trace(recording.file, measure(recording), title=recording.title)
        asked = {name: ",".join(value) if isinstance(value, list) else value for name, value in recording.asked.items()}
        index = indices.setdefault(recording.file.parent, {})
        index[recording.file.name] = {"title": recording.title, "asked": asked}
    for parent, index in indices.items():
        (parent / INDEX).write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def middle_run(engine: decoder.Decoder, recording: Recording, repeats: int) -> Lanes:
    """Of several runs of all lanes the one in the middle, by the time that they took together.

    Raises:
        SpecDiffError: threads had to wait for a processor, so its clock says nothing.
    """
    runs = decoder.race(engine, recording.asked["prompt"], recording.plan(), repeats=repeats, detail=True)
    totals = [sum(fold(run).seconds for run in repeat) for repeat in zip(*runs.values(), strict=True)]
    kept = {lane: own[totals.index(median_low(totals))] for lane, own in runs.items()}
    if any(fold(run).crowded for run in kept.values()):
        raise SpecDiffError(
            f"{recording.title}: threads waited for a processor, so its clock says nothing.",
            hint="Stop other programs and record again; what was recorded before is whole.",
        )
    return kept


def main() -> int:
    """Record all races of the embedded pair."""
    parser = argparse.ArgumentParser(prog="python -m app.recordings", description="Record the races that ship.")
    parser.add_argument("--out", type=Path, default=TRACES, help="folder [default: assets/traces]")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each, one is kept [default 3]")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        engine = load_engine("embedded", print)
        record(args.out, lambda recording: middle_run(engine, recording, args.repeats))
    except SpecDiffError as error:
        parser.exit(2, f"{error.message}\n{error.hint}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
