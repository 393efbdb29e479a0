"""Runs of several settings beside vanilla's, on the same prompts: what most explorations are made of."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specdiff_core.decoding.pieces import with_pieces
from specdiff_core.explorations.base import Asked, Stopped
from specdiff_core.measure.grid import BASELINE
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.runner import Run, plan
from specdiff_core.measure.statistics import costs, interval
from specdiff_core.measure.store import short_times
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Event, RunStarted
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import dump_trace

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.measure.passes import PassTimes

RUN_COLUMNS = {
    "race": "the race behind the row",
    "prompts": "prompts measured so far",
    "speedup": "vanilla’s seconds per token over this row’s, prefill included",
    "low": "95 % bootstrap interval over prompts, lower end",
    "high": "95 % bootstrap interval over prompts, upper end",
    "tau": "τ",
    "alpha": "α",
    "alpha_at": "α_j",
    "tokens_per_second": "new tokens per second of decode clock",
    "seconds_per_round": "decode seconds per round",
    "draft_seconds": "drafting, seconds per round",
    "verify_seconds": "the target’s pass and the tests, seconds per round",
    "waiting": "threads that waited for a processor, on average",
    "failed": "why it could not be measured",
}
"""What the columns of :meth:`Runs.row` mean."""
BASELINE_KEY = BASELINE.key
TOGETHER = 6
"""Settings that share one run of vanilla, which runs again before every so many, so that drift affects both."""


class Runs:
    """All runs so far, by the key of their settings. All of them use as many CPU threads as a probe finds quickest.

    Args:
        settings: key -> what is measured beside vanilla, whose settings ``base`` holds. Of turn n the seed is n larger,
            as in the bench.
        threads: of an earlier probe.
        race_of: the name of a race, of a key and a prompt; by default one race for each key.
    """

    def __init__(
        self,
        engine: Engine,
        base: DecodeConfig,
        settings: Mapping[str, DecodeConfig],
        prompts: Sequence[Prompt],
        stopped: Stopped,
        *,
        threads: int = 0,
        race_of: Callable[[str, Prompt], str] = lambda key, prompt: key,
    ) -> None:
        self._engine = engine
        self._settings = {BASELINE.key: BASELINE.config(base), **settings}
        self._prompts, self._stopped, self._race_of = prompts, stopped, race_of
        self._vanilla: list[Event] = []  # its last run
        self._unheard: list[Event] = []  # the same, until somebody asked for it
        self.events: list[Event] = []  # of the run of the key that :meth:`fill` reported last; none where it failed
        self.flavours = {prompt.id: prompt.flavour for prompt in prompts}
        self.metrics: dict[str, list[tuple[str, Metrics]]] = {}  # key -> (prompt id, its numbers)
        self.races: dict[str, bytes] = {}  # name of a race -> the first run of it beside vanilla's
        self.failed: dict[str, str] = {}  # key -> why it could not be measured
        self.threads = threads or self._probe(prompts[0].prompt)

    def _probe(self, prompt: str) -> int:
        short = dataclasses.replace(self._settings[BASELINE.key], max_new_tokens=1)
        started = next(iter(self._engine.decode(prompt, short, detail=False, threads=0)))
        assert isinstance(started, RunStarted), "a run begins with its header"
        return started.threads

    def fill(self) -> Iterator[tuple[int, int, str]]:
        """Decode every prompt with all settings; those that fail are left out from then on.

        Yields:
            (settings done, settings in all, the key) after each. Ends early where it is stopped; the run under way does
            not count then.

        Raises:
            SpecDiffError: vanilla fails, or everything else does, from the first prompt on.
        """
        keys, done = [key for key in self._settings if key != BASELINE.key], 0
        for run in plan(self._prompts, self._settings, share=TOGETHER):
            self.events = []
            if run.lane not in self.failed and not self._run(run):
                return
            if run.lane != BASELINE.key:
                done += 1
                yield done, len(keys) * len(self._prompts), run.lane
        if not any(key in self.metrics for key in keys):
            raise SpecDiffError("Nothing could be measured. " + next(iter(self.failed.values())))

    def bare_passes(self, times: PassTimes, prompt: Prompt, repeats: int) -> Iterator[None]:
        """Time passes, on as many threads as the runs use: see :meth:`~specdiff_core.measure.passes.PassTimes.rounds`.
        Ends early where it is stopped."""
        from specdiff_core.models.device import cpu_threads

        rounds = times.rounds(prompt.prompt, repeats)
        for _ in range(repeats):
            if self._stopped():
                return
            with cpu_threads(self.threads):  # not in between: others decode then
                next(rounds)
            yield

    def _run(self, run: Run) -> bool:
        key, stop, warm_up = run.lane, Asked(self._stopped), None if run.turn else 0.0
        try:
            events = run.decode(self._engine, stop=stop, warm_up=warm_up, threads=self.threads)
        except SpecDiffError as error:
            if key == BASELINE.key:
                raise
            self.failed[key] = error.message
            return True
        if self._stopped():
            return False
        self.events = events
        self.metrics.setdefault(key, []).append((run.prompt.id, fold(events)))
        if key == BASELINE.key:
            self._vanilla, self._unheard = self._shown(events), events
        elif (race := self._race_of(key, run.prompt)) not in self.races:
            lanes = {"vanilla": self._vanilla, "drafted": self._shown(events)}
            self.races[race] = gzip.compress(dump_trace(dict(lanes), title=f"{key}: {run.prompt.id}"), 9, mtime=0)
        return True

    def _shown(self, events: Sequence[Event]) -> list[Event]:
        """A run as a race shows it: its ids as text, its times short."""
        return [short_times(event) for event in with_pieces(events, self._engine.pair.tokenizer)]

    def fresh_vanilla(self) -> list[Event]:
        """The last run of vanilla, once."""
        fresh, self._unheard = self._unheard, []
        return fresh

    def sums(self, key: str) -> tuple[Metrics, Metrics]:
        """The numbers of all runs of a key, and of vanilla's on the same prompts."""
        runs = self.metrics[key]
        measured = {prompt for prompt, _ in runs}
        vanilla = [metrics for prompt, metrics in self.metrics[BASELINE.key] if prompt in measured]
        return sum((metrics for _, metrics in runs), Metrics()), sum(vanilla, Metrics())

    def speedup(self, key: str, flavour: str = "") -> float | None:
        """Vanilla's seconds per token over a key's, on the same prompts; of one kind of text where it is named."""
        own = {prompt: metrics for prompt, metrics in self.metrics.get(key, ()) if self._is(prompt, flavour)}
        total = sum(own.values(), Metrics())
        slow = sum((metrics for prompt, metrics in self.metrics.get(BASELINE.key, ()) if prompt in own), Metrics())
        return (slow.seconds / slow.committed) / (total.seconds / total.committed) if own else None

    def _is(self, prompt: str, flavour: str) -> bool:
        return not flavour or self.flavours[prompt] == flavour

    def row(self, key: str, flavour: str = "") -> dict[str, Any]:
        """What a table says of a key: its speed-up with a 95 % bootstrap interval over prompts, and its numbers; of one
        kind of text only where ``flavour`` names it."""
        row: dict[str, Any] = {"race": key, "prompts": 0}
        if key in self.failed:
            row["failed"] = self.failed[key]
        if not (runs := [run for run in self.metrics.get(key, ()) if self._is(run[0], flavour)]):
            return row
        measured = sorted({prompt for prompt, _ in runs})
        slow, fast = (
            costs((prompt, metrics.seconds, metrics.committed) for prompt, metrics in each)
            for each in (self.metrics[BASELINE.key], runs)
        )
        speed = interval(slow, fast, {"all": measured})["all"]
        many, own = len(measured) > 1, sum((metrics for _, metrics in runs), Metrics())
        return row | {
            "prompts": len(measured),
            "speedup": speed.value,
            "low": speed.low if many else None,
            "high": speed.high if many else None,
            "tau": own.tau,
            "alpha": own.alpha,
            "alpha_at": own.alpha_at,
            "tokens_per_second": own.tokens_per_second,
            "seconds_per_round": own.seconds / own.rounds,
            "draft_seconds": own.seconds_by["draft"] / own.rounds,
            "verify_seconds": (own.seconds_by["score"] + own.seconds_by["verify"]) / own.rounds,
            "waiting": own.waiting,
        }

    def facts(self) -> dict[str, Any]:
        """What every answer says beside its rows."""
        vanilla = sum((metrics for _, metrics in self.metrics.get(BASELINE.key, ())), Metrics())
        return {
            "threads": self.threads,
            "vanilla": {"tokens_per_second": vanilla.tokens_per_second, "waiting": vanilla.waiting},
            "prompts": self.flavours,
        }
