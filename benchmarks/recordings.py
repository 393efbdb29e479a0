"""``python -m benchmarks.recordings``: records the races that ship, on a quiet machine.

For each pair with examples. Live: its first preset on every example, and every other preset and
method on the first. Race: what its tab opens with, on every example of the embedded pair and the
first two of others. An index beside the files holds the form's values for each recording, so
that form and recording agree.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from app.content.examples import EXAMPLES, PRESETS, Example, Preset, preset_indices
from app.content.recordings import BLOCKS, INDEX, RECORDINGS
from app.links import RACE
from app.run.runner import load_here
from app.tabs import live, race
from specdiff_core.measure.race import race_repeatedly
from specdiff_core.measure.redraft import redraft
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import DraftReady, Event, TargetScored, Verified
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import write_trace

LaneEvents = dict[str, Sequence[Event]]


class Recording(NamedTuple):
    """A race to record: its file, its title, and the form's values."""

    file: Path
    title: str
    values: dict[str, Any]

    def plan(self) -> Mapping[str, DecodeConfig]:
        values = {name: value for name, value in self.values.items() if name != "prompt"}
        return race.plan(values) if "methods" in values else live.plan(values)


def recordings(folder: Path) -> Iterator[Recording]:
    """All recordings, the opening one of each tab first."""
    for pair, examples in EXAMPLES.items():
        first, *presets = [PRESETS[index] for index in preset_indices(pair)]
        for example in examples:
            yield _live(folder, example, first)
        configs = [first.config]
        shown_in_learn = [method for method in METHODS if pair == "embedded" and method.name != BASELINE]
        methods = (Preset(method.label, method.config(DecodeConfig())) for method in shown_in_learn)
        for preset in (*presets, *methods):
            if preset.config not in configs:
                configs.append(preset.config)
                yield _live(folder, examples[0], preset)
        for example in examples if pair == "embedded" else examples[:2]:  # an export holds them all
            defaults = DecodeConfig(pair=pair).to_dict()
            values = {"prompt": example.prompt, "methods": list(race.DEFAULT[pair])}
            values |= {name: defaults[name] for name in race.SETTINGS}
            file = folder / RACE / _named(pair, example.flavour)
            yield Recording(file, f"{_title(pair, example)}: {len(race.DEFAULT[pair]) + 1} methods", values)


def _live(folder: Path, example: Example, preset: Preset) -> Recording:
    config = preset.config
    values = {"prompt": example.prompt, **config.to_dict()}
    file = folder / _named(config.pair, f"{example.flavour} {preset.slug or preset.label}")
    return Recording(file, f"{_title(config.pair, example)}: {preset.label}", values)


def _named(pair: str, words: str) -> str:
    """A file name, which lessons and links use; with the pair unless that is the embedded one."""
    words = words if pair == "embedded" else f"{pair} {words}"
    return f"{'-'.join(re.findall(r'[a-z0-9_]+', words.lower()))}.jsonl.gz"


def _title(pair: str, example: Example) -> str:
    return example.flavour if pair == "embedded" else f"{find_pair(pair).label.partition(' · ')[0]} · {example.flavour}"


def record(
    folder: Path,
    measure: Callable[[Recording], LaneEvents],
    engine: Callable[[Recording], Decoder] | None = None,
    only: str = "",
) -> None:
    """Measure all recordings and write them; the indices come last, so that they name no missing file.
    Those with the settings of the first also get their block.

    Args:
        measure: of a recording.
        engine: of a recording, for its block; without one there is no block.
        only: part of the file names to measure; all others stay as they are.
    """
    races = list(recordings(folder))
    opening = races[0].plan()["drafted"]
    for recording in tqdm([one for one in races if only in one.file.name], unit="race", file=sys.stderr, disable=None):
        lanes = measure(recording)
        write_trace(recording.file, lanes, title=recording.title)
        if engine is not None and recording.plan().get("drafted") == opening:
            block = folder / BLOCKS / recording.file.name
            write_trace(block, middle_block(engine(recording), lanes["drafted"]), title=recording.title)
    indices: dict[Path, dict[str, Any]] = {}
    for recording in races:
        values = {name: ",".join(item) if isinstance(item, list) else item for name, item in recording.values.items()}
        if recording.file.is_file():
            index = indices.setdefault(recording.file.parent, {})
            index[recording.file.name] = {"title": recording.title, "settings": values}
    for parent, index in indices.items():
        (parent / INDEX).write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def middle_block(engine: Decoder, run: Sequence[Event], repeats: int = 5) -> LaneEvents:
    """The staged round of a run in all sizes, each the repeat with the median time of draft and check."""
    found = defaultdict[str, list[list[Event]]](list)
    for _ in range(repeats):
        sizes = defaultdict[str, list[Event]](list)
        for size, event in redraft(engine, run):
            sizes[size].append(event)
        for size, events in sizes.items():
            found[size].append(events)

    def seconds(events: Sequence[Event]) -> float:
        return sum(event.span.seconds for event in events if isinstance(event, DraftReady | TargetScored | Verified))

    return {size: sorted(runs, key=seconds)[repeats // 2] for size, runs in found.items()}


def middle_run(engine: Decoder, recording: Recording, repeats: int) -> LaneEvents:
    """Run all lanes several times and return the run with the median speed-up, of all lanes together.

    Raises:
        SpecDiffError: threads had to wait for a processor, so its times are useless.
    """
    runs = race_repeatedly(engine, recording.values["prompt"], recording.plan(), repeats=repeats, detail=True)
    seconds = [[fold(run).seconds for run in repeat] for repeat in zip(*runs.values(), strict=True)]
    speedups = [vanilla / sum(others) for vanilla, *others in seconds]
    middle: LaneEvents = {lane: lane_runs[speedups.index(median_low(speedups))] for lane, lane_runs in runs.items()}
    if any(fold(run).crowded for run in middle.values()):
        raise SpecDiffError(
            f"{recording.title}: threads waited for a processor, so its times are useless.",
            hint="Stop other programs and record again; earlier recordings are complete.",
        )
    return middle


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description="Record the races that ship.")
    parser.add_argument("--out", type=Path, default=RECORDINGS, help="folder [default: assets/traces]")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each, one is kept [default 3]")
    parser.add_argument("--only", default="", metavar="WORD", help="those whose file names contain it [default: all]")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        loaded = lru_cache(lambda pair: load_here(pair, print).engine)

        def engine(one: Recording) -> Decoder:
            return loaded(one.values["pair"])

        record(args.out, lambda one: middle_run(engine(one), one, args.repeats), engine, args.only)
    except SpecDiffError as error:
        parser.exit(2, f"{error.message}\n{error.hint}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
