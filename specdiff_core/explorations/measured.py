"""Runs of several settings and of vanilla on the same prompts, as most explorations need them."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specdiff_core.decoding.pieces import with_pieces
from specdiff_core.explorations.wording import Row
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.race import race
from specdiff_core.measure.runner import Run, plan
from specdiff_core.measure.statistics import Interval
from specdiff_core.measure.store import Rows, short_times
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import BASELINE, DRAFTED, find_method
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import dump_trace

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
RUN_COLUMNS = {
    "race": "name of the trace that shows its runs",
    "prompts": "prompts measured so far",
    "speedup": "vanilla’s seconds per token over this row’s, prefill included",
    "low": "95 % interval over prompts, lower end",
    "high": "95 % interval over prompts, upper end",
    "interval": "bootstrap: its percentiles over prompts; student: Student’s t on the jackknife, for few prompts",
    "behind": "speed of the fastest setting over this row’s, on the same prompts (paired)",
    "behind_low": "its 95 % interval, lower end",
    "behind_high": "its 95 % interval, upper end",
    "tau": "τ, the target’s own token (bonus) included",
    "tau_low": "95 % interval of τ, lower end",
    "tau_high": "95 % interval of τ, upper end",
    "alpha": "α, accepted of tested positions",
    "alpha_low": "95 % interval of α, lower end",
    "alpha_high": "95 % interval of α, upper end",
    "alpha_at": "α_j, conditional: accepted of the rounds that reached position j",
    "tested_at": "rounds that reached position j",
    "tokens_per_second": "new tokens per second of decode clock",
    "seconds_per_round": "decode seconds per round",
    "draft_seconds": "drafting, seconds per round",
    "verify_seconds": "the target’s pass and the tests, seconds per round",
    "waiting": "threads that waited for a processor, on average",
    "failed": "why it was not measured",
}
"""Column of :meth:`Runs.row` -> its meaning."""
TOGETHER = 6
"""Settings that share one run of vanilla: it runs again after this many settings, so that drift affects both."""


def bounds(speed: Interval, counts: Sequence[int], *, name: str = "speedup", prefix: str = "") -> dict[str, Any]:
    """A number as fields of a row; its interval if every group of prompts has two and there are three in all."""
    enough = min(counts) > 1 and sum(counts) > 2
    ends = {f"{prefix}low": speed.low if enough else None, f"{prefix}high": speed.high if enough else None}
    return {name: speed.value, **ends, **({"interval": speed.by} if enough and not prefix else {})}


def fastest(rows: Iterable[Row]) -> Row | None:
    """The row with the largest speed-up."""
    return max((row for row in rows if row.get("speedup")), key=lambda row: row["speedup"], default=None)


def rivals(best: Row, rows: Iterable[Row]) -> list[Row]:
    """The other rows that may be as fast as ``best``, the fastest first: on the same prompts, the interval of its lead
    (``behind``) contains 1."""
    known = (row for row in rows if row is not best and row.get("behind_low") is not None)
    return sorted((row for row in known if row["behind_low"] <= 1), key=lambda row: -row["speedup"])


class Runs(Rows):
    """All runs so far, by the key of their settings.

    Args:
        settings: key -> settings to measure; vanilla's are ``base``. Each turn has a seed of its own.
        threads: CPU threads of all runs; 0: the engine's.
        trace_name: (key, prompt) -> name of the trace that shows the run beside vanilla's, by default one for each key;
            ``TRACE#LANE`` puts several into one.
    """

    def __init__(
        self,
        engine: Engine,
        base: DecodeConfig,
        settings: Mapping[str, DecodeConfig],
        prompts: Sequence[Prompt],
        stop: Stop,
        *,
        threads: int = 0,
        trace_name: Callable[[str, Prompt], str] = lambda key, prompt: key,
    ) -> None:
        super().__init__(BASELINE)
        self._engine = engine
        self._settings = {BASELINE: find_method(BASELINE).config(base), **settings}
        self._prompts, self._stop, self._trace_name = prompts, stop, trace_name
        self._vanilla: list[Event] = []  # its last run
        self.events: dict[str, list[Event]] = {}  # key -> its run since :meth:`fill` reported the one before
        self._lanes: dict[str, dict[str, Sequence[Event]]] = {}  # trace -> vanilla's run, and the first of each lane
        self.traces: dict[str, bytes] = {}  # the same as files, each a row's ``race``
        self.failed: dict[str, str] = {}  # key -> why it was not measured
        self.threads = threads or engine.threads  # for all of them, also if a run is disturbed

    def fill(self) -> Iterator[tuple[int, int, Run]]:
        """Decode every prompt with all settings; a setting that fails is left out from then on.

        Yields:
            (settings done, settings in all, run) after each. Ends early if stopped, without the current run.

        Raises:
            SpecDiffError: vanilla failed, or all other settings did.
        """
        keys, done = [key for key in self._settings if key != BASELINE], 0
        for run in plan(self._prompts, self._settings, share=TOGETHER):
            if run.lane not in self.failed and not self._run(run):
                return
            if run.lane != BASELINE:
                done += 1
                yield done, len(keys) * len(self._prompts), run
                self.events = {}
        if not any(map(self.of, keys)):
            raise SpecDiffError("Nothing could be measured. " + next(iter(self.failed.values())))

    def race(self) -> Iterator[tuple[int, int, int]]:
        """Decode every prompt with all settings on one clock, each run with a seed of its own, so that texts are
        independent samples; a setting that fails is left out from then on.

        Yields:
            (prompts done, prompts in all, number of the prompt) after each. Ends early if stopped, without the current
            prompt.

        Raises:
            SpecDiffError: vanilla failed, or all other settings did.
        """
        for turn, prompt in enumerate(self._prompts):
            lanes = {
                key: dataclasses.replace(config, seed=config.seed + turn * len(self._settings) + number)
                for number, (key, config) in enumerate(self._settings.items())
                if key not in self.failed
            }
            runs: dict[str, list[Event]] = {key: [] for key in lanes}
            stop = self._stop
            for key, event in race(self._engine, prompt.prompt, lanes, detail=False, stop=stop, threads=self.threads):
                if isinstance(event, SpecDiffError) and key != BASELINE:
                    self.failed[key] = event.message
                elif isinstance(event, Exception):
                    raise event
                else:
                    runs[key].append(event)
            if self._stop.is_set():
                return
            if len(self.failed) == len(self._settings) - 1:
                raise SpecDiffError("Nothing could be measured. " + next(iter(self.failed.values())))
            for key, events in runs.items():
                if key not in self.failed:
                    self._keep(Run(turn, prompt, 0, key, lanes[key]), events)
            yield turn + 1, len(self._prompts), turn
            self.events = {}

    def _run(self, run: Run) -> bool:
        key = run.lane
        try:
            self._engine.warm_up(run.config, threads=self.threads)
            events = run.decode(self._engine, stop=self._stop, threads=self.threads)
        except SpecDiffError as error:
            if key == BASELINE:
                raise
            self.failed[key] = error.message
            return True
        if self._stop.is_set():
            return False
        self._keep(run, events)
        return True

    def _keep(self, run: Run, events: list[Event]) -> None:
        key = run.lane
        self.events[key] = events
        self.add(run.row(events))
        if key == BASELINE:
            self._vanilla = self._stored(events)
        else:
            name, _, lane = self._trace_name(key, run.prompt).partition("#")
            lanes = self._lanes.setdefault(name, {BASELINE: self._vanilla})
            if (lane := lane or DRAFTED) not in lanes:
                lanes[lane] = self._stored(events)
                self.traces[name] = gzip.compress(dump_trace(lanes, title=run.prompt.id), 9, mtime=0)

    def _stored(self, events: Sequence[Event]) -> list[Event]:
        """A run as a trace file stores it: ids with their text, times rounded."""
        pieces = with_pieces(events, self._engine.pair.tokenizer, self._engine.ends)
        return [short_times(event) for event in pieces]

    def row(self, key: str) -> dict[str, Any]:
        """A table row of a key: speed-up with a 95 % interval over prompts, and numbers."""
        row: dict[str, Any] = {"race": key, "prompts": 0}
        if key in self.failed:
            row["failed"] = self.failed[key]
        if not (measured := sorted(prompt for ids in self.groups(key).values() for prompt in ids)):
            return row
        sums, every = self.total(key), {"all": measured}
        return row | {
            "prompts": len(measured),
            **bounds(self.speedups(key, every)["all"], [len(measured)]),
            **self.rate_fields(key, every)["all"],
            **sums.named("alpha_at", "tested_at", "tokens_per_second", "waiting"),
            "seconds_per_round": sums.seconds / sums.rounds,
            "draft_seconds": sums.seconds_by["draft"] / sums.rounds,
            "verify_seconds": (sums.seconds_by["score"] + sums.seconds_by["verify"]) / sums.rounds,
        }

    def rate_fields(self, key: str, groups: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """τ and α with their intervals as fields of rows, by group of prompts and for their ``mean``."""
        rates, counts = self.rates(key, groups), {kind: [len(prompts)] for kind, prompts in groups.items()}
        counts["mean"] = [len(prompts) for prompts in groups.values()]
        return {
            kind: {"alpha": None}
            | {
                field: value
                for name, by_group in rates.items()
                if kind in by_group
                for field, value in bounds(by_group[kind], size, name=name, prefix=f"{name}_").items()
            }
            for kind, size in counts.items()
        }

    def behind(self, key: str, best: str) -> dict[str, dict[str, Any]]:
        """Speed of setting ``best`` over that of ``key``, on the prompts that both decoded: fields of rows, by kind of
        text, for the ``mean`` of the kinds, and for ``all`` prompts together."""
        both = {prompt for prompts in self.groups(best).values() for prompt in prompts}
        shared = {kind: [prompt for prompt in prompts if prompt in both] for kind, prompts in self.groups(key).items()}
        groups = {kind: prompts for kind, prompts in shared.items() if prompts}
        if not groups:
            return {}
        every = [prompt for prompts in groups.values() for prompt in prompts]
        found = self.speedups(best, {"all": every}, key) | self.speedups(best, groups, key)  # of both, this mean
        counts = {kind: [len(prompts)] for kind, prompts in groups.items()} | {"all": [len(every)]}
        counts["mean"] = [len(prompts) for prompts in groups.values()]
        return {kind: bounds(found[kind], size, name="behind", prefix="behind_") for kind, size in counts.items()}

    def compared(self, rows: Sequence[dict[str, Any]], among: Sequence[Row] | None = None) -> list[dict[str, Any]]:
        """Rows of :meth:`row`, each with how far it is behind the fastest one (of ``among``)."""
        best = fastest(rows if among is None else among)
        return [row | (self.behind(row["race"], best["race"]).get("all", {}) if best else {}) for row in rows]

    def prompt_rows(self, names: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The counts of every run, by setting and prompt, so that an interval can be computed again."""
        return [row for key in self.by_setting for row in self.by_prompt(key, {"setting": key, **(names or {})})]

    def left_out(self) -> list[str]:
        """Which methods were not measured, and why."""
        return [f"{find_method(name).label}: {why}" for name, why in self.failed.items()]
