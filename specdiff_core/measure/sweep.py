"""Aggregates the rows of a sweep into speed-ups, τ and α with intervals, and formats the table.

The speed-up of a setting is vanilla's seconds per token over its own, over all repeats of the same
prompts in one sweep, on the decode clock, prefill included. At equal lengths that is the ratio of
total decode seconds. The mean of speed-ups, of τ and of α is the mean of the flavours. The median is that of
the speed-ups of single prompts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.statistics import Interval
from specdiff_core.measure.store import Bench, RowLog, Rows, RunRow
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.settings import SETTINGS

CONTROLS = {"masked_streak": "masked"}
"""An aligned drafter -> one that saw as many tokens from the same start, with the plain loss."""


class Run(NamedTuple):
    """The counts of one run."""

    seconds: float
    tokens: int
    rounds: int
    tested: int
    accepted: int
    same_text: bool  # as vanilla's


class SettingResult(BenchSetting, frozen=True, kw_only=True):
    """The numbers of one setting of a sweep."""

    speedup: Interval  # over vanilla, mean of the flavours
    speedup_by_flavour: dict[str, Interval]
    tokens_per_second: float
    tau: float  # mean of the flavours, as the speed-up
    tau_by_flavour: dict[str, float]
    alpha: float | None  # mean of the flavours
    rates: dict[str, Interval] = msgspec.field(default_factory=dict)  # with intervals; older results have none
    behind: Interval | None = None  # speed of the fastest setting over this one's, on the same prompts
    aligned: Interval | None = None  # τ of an aligned drafter over that of its control, on the same prompts
    by_prompt: tuple[float, float, float] | None = None  # median, lowest and highest speed-up of a prompt
    alpha_at: tuple[float | None, ...]
    seconds: float
    seconds_by: dict[str, float]  # draft, verify (the target's pass and the tests), prefill, other
    new_tokens: int
    waiting: float | None = None  # threads without a processor, on average
    prompts: int
    same_text_as_vanilla: int  # prompts
    looping: int = 0  # prompts on which vanilla's text loops; the next two leave them out
    speedup_varied: Interval | None = None
    tau_varied: float | None = None


class Sweep(Bench, kw_only=True, tag="sweep"):
    """Settings against vanilla, one table."""

    weights: str
    versions: dict[str, str]
    prompts: dict[str, int]  # flavour -> how many
    repeats: int
    entries: list[SettingResult]  # the baseline first
    commit: str = ""
    runs: dict[str, dict[str, list[Run]]] = msgspec.field(default_factory=dict)  # key of a setting -> prompt -> repeats

    @property
    def same_texts(self) -> bool:
        """Whether exact settings give vanilla's text; otherwise texts are samples of one distribution."""
        return bool(self.settings["temperature"] == 0 or SETTINGS["rule"].read(self.settings["rule"]).same_text)

    @property
    def waits(self) -> list[float]:
        """Threads without a processor, by setting, where measured."""
        return [entry.waiting for entry in self.entries if entry.waiting is not None]


def whole_turns(rows: Sequence[RunRow]) -> list[RunRow]:
    """Rows of the (prompt, repeat) pairs that every setting completed."""
    settings = {row.setting for row in rows}
    by_turn: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows:
        by_turn[row.prompt, row.repeat].add(row.setting)
    return [row for row in rows if by_turn[row.prompt, row.repeat] == settings]


def sweep_result(log: RowLog[RunRow], provenance: Provenance) -> Sweep:
    """The result of a sweep, also of a partial one.

    Raises:
        ConfigError: no prompt was measured with every setting.
    """
    rows = whole_turns(log.rows)
    prompts = Counter({row.prompt: row.flavour for row in rows}.values())
    runs = runs_by_prompt(rows)
    return log.result(Sweep, provenance=provenance, prompts=prompts, entries=aggregate(rows), runs=runs)


def runs_by_prompt(rows: Sequence[RunRow]) -> dict[str, dict[str, list[Run]]]:
    """Key of a setting -> prompt -> the counts of its repeats."""
    vanilla = {(row.prompt, row.repeat): row.text for row in rows if row.setting == VANILLA.key}
    runs: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        same, sums = row.text == vanilla[row.prompt, row.repeat], row.metrics
        run = Run(sums.seconds, sums.committed, sums.rounds, sums.tested, sums.accepted, same)
        runs[row.setting][row.prompt].append(run)
    return runs


def aggregate(rows: Iterable[RunRow]) -> list[SettingResult]:
    """One result for each setting, the baseline first."""
    runs = Rows(VANILLA.key, rows)
    vanilla, groups = runs.of(VANILLA.key), runs.groups(VANILLA.key)
    if not vanilla:
        raise ConfigError("No prompt was measured with every setting yet.", field="json", hint="Continue the sweep.")
    looping = {row.prompt for row in vanilla if row.loops}
    results = [_result(key, runs, groups, looping) for key in runs.by_setting]
    best = max(results[1:], key=lambda entry: entry.speedup.value, default=results[0])
    behind = {one.key: runs.speedups(best.key, groups, one.key)["mean"] for one in results if one.key != best.key}
    return [msgspec.structs.replace(one, behind=behind.get(one.key)) for one in results]


def _result(key: str, rows: Rows, groups: Mapping[str, Sequence[str]], looping: Collection[str]) -> SettingResult:
    speed, total, same = rows.speedups(key, groups), rows.total(key), rows.same_texts(key)
    by_rate = rows.rates(key, groups)
    rates = {name: found["mean"] for name, found in by_rate.items() if found}
    setting = BenchSetting.parse(key)
    control = msgspec.structs.replace(setting, drafter=CONTROLS.get(setting.drafter, "")).key
    varied = {kind: left for kind, names in groups.items() if (left := [name for name in names if name not in looping])}
    draft, score, verify, prefill = (total.seconds_by.get(of, 0.0) for of in ("draft", "score", "verify", "prefill"))
    parts = {"draft": draft, "verify": score + verify, "prefill": prefill}
    parts["other"] = total.seconds - sum(parts.values())
    return SettingResult(
        **msgspec.structs.asdict(setting),
        speedup=speed.pop("mean"),
        speedup_by_flavour=speed,
        aligned=rows.taus(key, groups, control)["mean"] if control in rows.by_setting else None,
        by_prompt=rows.spread(key),
        **total.named("tokens_per_second", "alpha_at", "seconds", "waiting"),
        tau=rates["tau"].value,
        alpha=rates["alpha"].value if "alpha" in rates else None,
        rates=rates,
        tau_by_flavour={flavour: by_rate["tau"][flavour].value for flavour in groups},
        seconds_by=parts,
        new_tokens=total.committed,
        prompts=len(same),
        same_text_as_vanilla=sum(same.values()),
        looping=len(looping),
        speedup_varied=rows.speedups(key, varied)["mean"] if looping and varied else None,
        tau_varied=rows.rates(key, varied)["tau"]["mean"].value if looping and varied else None,
    )


# The terminal's table, which BENCHMARKS.md shows too.


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, aligned for plain text."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[value.ljust(width) for value, width in zip(line, widths, strict=True)] for line in lines]
    drawn = ["| " + " | ".join(line) + " |" for line in padded]
    return "\n".join([drawn[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *drawn[1:]])


def number_words(value: float | None, form: str = ".2f") -> str:
    """A number, or a dash where it is not defined."""
    return "–" if value is None else format(value, form)


def too_fast(entry: SettingResult, flavour: str) -> bool:
    """Whether a setting is more than 5 % faster than its τ allows. A round costs at least a vanilla token, so the
    clock was disturbed."""
    return entry.speedup_by_flavour[flavour].value > 1.05 * entry.tau_by_flavour[flavour]


def _times(value: float, doubtful: bool) -> str:
    return f"{value:.2f}×{' (?)' if doubtful else ''}"


def with_ends(entry: SettingResult, name: str) -> str:
    """τ or α, with its interval if the setting drafts and the interval was computed."""
    return f"{number_words(getattr(entry, name))}{_ends(entry.rates.get(name))}"


def _ends(found: Interval | None) -> str:
    """The ends of an interval in brackets; empty without one."""
    return f" ({found.low:.2f}–{found.high:.2f})" if found and found.low < found.high else ""


def median_words(entry: SettingResult) -> str:
    """The median speed-up of single prompts, and their range."""
    return "–" if entry.by_prompt is None else "{:.2f}× ({:.2f}–{:.2f})".format(*entry.by_prompt)


def speed_words(entry: SettingResult) -> str:
    """The mean speed-up with its interval."""
    doubtful = any(too_fast(entry, flavour) for flavour in entry.speedup_by_flavour)
    return _times(entry.speedup.value, doubtful) + _ends(entry.speedup)


def speeds(result: Sweep) -> str:
    entries, flavours, rows = result.entries, list(result.prompts), []
    resampled = min(result.prompts.values()) > 1  # every flavour has several prompts
    paired = any(entry.behind for entry in entries[1:])
    for entry in entries:
        speed = entry.speedup
        bounds = f"{speed.low:.2f}–{speed.high:.2f}" if resampled else "–"
        beyond = {flavour: too_fast(entry, flavour) for flavour in flavours}
        row = [entry.name, _times(speed.value, any(beyond.values()))]
        row += ["baseline" if entry.drafter == VANILLA.drafter else bounds]
        row += [_times(entry.speedup_by_flavour[flavour].value, beyond[flavour]) for flavour in flavours]
        row += [*(with_ends(entry, name) for name in ("tau", "alpha")), number_words(entry.tokens_per_second, ".0f")]
        if paired:
            row.append(f"{found.value:.2f}{_ends(found)}" if (found := entry.behind) else "fastest")
        if entry.looping:
            row += [
                "–" if (varied := entry.speedup_varied) is None else f"{varied.value:.2f}×",
                number_words(entry.tau_varied),
            ]
        rows.append([*row, f"{entry.same_text_as_vanilla}/{entry.prompts}" if result.same_texts else "–"])
    head = ["setting", "speed-up", "95 % interval", *flavours, "τ", "α", "tokens/s", *(["fastest over it"] * paired)]
    head += ["without loops", "τ without"] if entries[0].looping else []
    return table([*head, "vanilla's text"], rows)


def waiting_words(waits: Sequence[float]) -> str:
    """How many threads waited for a processor; empty if that was not measured."""
    if not waits:
        return ""
    words = f" Threads waiting for a processor, on average: {min(waits):.3f}–{max(waits):.3f}, by setting."
    return words + (" **The machine was busy: do not trust these speed-ups.**" if max(waits) >= CROWDED else "")
