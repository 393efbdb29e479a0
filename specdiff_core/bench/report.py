"""The numbers of a sweep: its rows aggregated to speed-ups with intervals, and settings held against each other.

Speed-up of a setting: vanilla's seconds per token over its own, over all repeats of the same prompts of the same sweep,
on the decode clock, prefill included. At equal lengths that is the ratio of total decode seconds.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.store import LEVEL, Interval, Ratio, Row, RowLog, SettingResult, Sweep, Traces, check_same
from specdiff_core.provenance import Provenance, git_state
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.metrics import Metrics

RESAMPLES = 2000
BOUNDS = (50 * (1 - LEVEL), 50 * (1 + LEVEL))
"""Percentiles of the resampled."""
STREAK = ("mdlm", "mdlm_streak")
"""One drafter before and after streak-distillation (SpecDiff-2, arXiv 2511.00606)."""

Costs = Mapping[str, tuple[float, int]]  # prompt -> (seconds or rounds, tokens), repeats added up


def costs(runs: Iterable[tuple[str, float, int]]) -> Costs:
    """Of (prompt, seconds or rounds, tokens), run by run."""
    sums: dict[str, tuple[float, int]] = {}
    for prompt, spent, tokens in runs:
        before = sums.get(prompt, (0.0, 0))
        sums[prompt] = (before[0] + spent, before[1] + tokens)
    return sums


def interval(
    baseline: Costs, other: Costs, groups: Mapping[str, Sequence[str]], *, seed: int = 0
) -> dict[str, Interval]:
    """The baseline's cost per token over the other's, by group of prompts and as ``mean`` of the groups, each with a
    percentile bootstrap interval: prompts are resampled within their group, repeats of a prompt stay together."""
    import numpy as np

    rng = np.random.default_rng(seed)
    ratios: list[Any] = []  # of each group, [1 + RESAMPLES]: first of what was measured
    for prompts in groups.values():
        sums = np.array([[*baseline[prompt], *other[prompt]] for prompt in prompts], dtype=np.float64)  # [prompts, 4]
        cost, tokens, other_cost, other_tokens = sums[resamples(len(prompts), rng)].sum(1).T
        ratios.append((cost / tokens) / (other_cost / other_tokens))
    ratios.append(np.mean(ratios, axis=0))
    return {
        name: Interval(*map(float, (ratio[0], *np.percentile(ratio[1:], BOUNDS))))
        for name, ratio in zip([*groups, "mean"], ratios, strict=True)
    }


def resamples(count: int, rng: Any = None) -> Any:
    """Indices of ``count`` things, ``[1 + RESAMPLES, count]``: first each once, then drawn with replacement, by a
    numpy generator or one of a fixed seed."""
    import numpy as np

    drawn = (rng or np.random.default_rng(0)).integers(0, count, size=(RESAMPLES, count))
    return np.vstack([np.arange(count), drawn])


def mean_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """The mean over prompts with a percentile bootstrap interval."""
    import numpy as np

    drawn = resamples(len(values), np.random.default_rng(seed))[1:]
    low, high = np.percentile(np.array(values)[drawn].mean(1), BOUNDS)
    return Interval(float(np.mean(values)), float(low), float(high))


def whole_turns(rows: Sequence[Row]) -> list[Row]:
    """Rows of the (prompt, repeat) pairs that every setting finished, without warm-ups: a row without its baseline
    would tilt a ratio."""
    counted = [row for row in rows if row.repeat >= 0]
    settings = {row.setting for row in counted}
    seen: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in counted:
        seen[row.prompt, row.repeat].add(row.setting)
    return [row for row in counted if seen[row.prompt, row.repeat] == settings]


def sweep_result(log: RowLog[Row], provenance: Provenance, *, traces: str = "") -> Sweep:
    """A sweep as it is stored; one that still runs counts as far as all settings have finished a prompt.

    Raises:
        ConfigError: nothing was finished, or the baseline is missing.
    """
    rows = whole_turns(log.rows)
    entries, ratios = aggregate(rows)
    prompts = Counter({row.prompt: row.flavour for row in rows}.values())
    return log.result(Sweep, provenance=provenance, prompts=prompts, cells=entries, ratios=ratios, traces=traces)


def aggregate(rows: Sequence[Row]) -> tuple[list[SettingResult], list[Ratio]]:
    """One result for each setting, the baseline first, and settings held against each other."""
    by_setting: dict[str, list[Row]] = {BASELINE.key: []}
    flavours: dict[str, dict[str, None]] = defaultdict(dict)  # in their order
    for row in rows:
        by_setting.setdefault(row.setting, []).append(row)
        flavours[row.flavour][row.prompt] = None
    if not by_setting[BASELINE.key]:
        raise ConfigError("No prompt was measured in every setting yet.", field="json", hint="Let the sweep go on.")
    groups = {flavour: list(prompts) for flavour, prompts in flavours.items()}

    def against(baseline: str, other: str, cost: str = "seconds") -> dict[str, Interval]:
        slow, fast = (
            costs((row.prompt, getattr(row.metrics, cost), row.metrics.committed) for row in by_setting[key])
            for key in (baseline, other)
        )
        return interval(slow, fast, groups)

    vanilla = _texts(by_setting[BASELINE.key])
    entries = [
        _result(BenchSetting.parse(key), own, against(BASELINE.key, key), vanilla) for key, own in by_setting.items()
    ]
    ratios = []
    for what, ours, theirs in rivals(entries):
        speed, tau = (against(theirs.key, ours.key, cost)["mean"] for cost in ("seconds", "rounds"))
        ratios.append(Ratio(what, ours.name, theirs.name, speed, tau))
    return entries, ratios


def _texts(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Prompt -> its text in every repeat."""
    texts: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.repeat):
        texts[row.prompt].append(row.text)
    return texts


def _result(
    setting: BenchSetting, rows: Sequence[Row], speed: Mapping[str, Interval], vanilla: Mapping[str, list[str]]
) -> SettingResult:
    by_flavour: dict[str, Metrics] = {}
    for row in rows:
        by_flavour[row.flavour] = by_flavour.get(row.flavour, Metrics()) + row.metrics
    total, texts = sum(by_flavour.values(), Metrics()), _texts(rows)
    draft, score, verify, prefill = (total.seconds_by.get(of, 0.0) for of in ("draft", "score", "verify", "prefill"))
    parts = {"draft": draft, "verify": score + verify, "prefill": prefill}
    parts["other"] = total.seconds - sum(parts.values())
    return SettingResult(
        **msgspec.structs.asdict(setting),
        speedup=speed["mean"],
        speedup_by_flavour={flavour: speed[flavour] for flavour in by_flavour},
        tokens_per_second=total.tokens_per_second or 0.0,
        tau=total.tau or 0.0,
        tau_by_flavour={flavour: part.tau or 0.0 for flavour, part in by_flavour.items()},
        alpha=total.alpha,
        alpha_by_flavour={flavour: part.alpha for flavour, part in by_flavour.items()},
        alpha_at=total.alpha_at,
        tested_at=total.tested_at,
        seconds=total.seconds,
        seconds_by=parts,
        rounds=total.rounds,
        new_tokens=total.committed,
        draft_nfe=total.nfe,
        target_calls=total.target_calls,
        peak_bytes=total.peak_bytes,
        waiting=total.waiting,
        prompts=len(texts),
        runs=len(rows),
        same_text_as_vanilla=sum(own == vanilla[prompt] for prompt, own in texts.items()),
    )


def streak_pair(entries: Sequence[SettingResult]) -> tuple[SettingResult, SettingResult] | None:
    """The longest window of one pass that the drafter has before and after streak-distillation (:data:`STREAK`)."""
    before, after = ({e.gamma: e for e in entries if e.key == f"{name}/{e.gamma}/1"} for name in STREAK)
    gamma = max(before.keys() & after.keys(), default=0)
    return (before[gamma], after[gamma]) if gamma else None


def rivals(entries: Sequence[SettingResult]) -> Iterator[tuple[str, SettingResult, SettingResult]]:
    """(what, ours, theirs) of all that is held against each other: the fastest settings of two families, the faster one
    over the other; the drafter after streak-distillation over the same one before; K drafts over one."""
    drafted = [entry for entry in entries if entry.drafter != BASELINE.drafter]
    swept = {entry.key: entry for entry in entries}
    families: dict[str, list[SettingResult]] = defaultdict(list)
    for entry in sorted(drafted, key=lambda entry: -entry.speedup.value):
        families[entry.family].append(entry)
    for (one, ours), (other, theirs) in itertools.combinations(families.items(), 2):
        yield f"{one} (best of {len(ours)}) over {other} (best of {len(theirs)})", ours[0], theirs[0]
    if pair := streak_pair(entries):
        yield "streak-distilled over not", pair[1], pair[0]
    for entry in drafted:
        if entry.num_drafts > 1 and (one_draft := swept.get(f"{entry.drafter}/{entry.gamma}/1")):
            yield f"{entry.num_drafts} drafts over one", entry, one_draft


def reaggregate(result: Sweep, traces: Traces) -> Sweep:
    """``result`` with its numbers aggregated again from ``traces``: an old run, today's metrics.

    Raises:
        ConfigError: the traces are of another sweep, or do not say of which.
        TraceError: one is missing or damaged; the message names it.
    """
    about, facts = traces.about(), msgspec.to_builtins(result)
    both = (about.keys() & facts.keys()) - {"cells", "prompts"}  # which a result says in another form
    held, asked = ({key: one[key] for key in both} for one in (about, facts))
    check_same(held, asked, traces.folder.name)
    rows = [
        Row.of_run(traces.events(prompt, repeat, key), prompt=prompt, flavour=flavour, repeat=repeat, setting=key)
        for prompt, flavour in about["flavours"].items()
        for repeat in range(result.repeats)
        for key in (entry.key for entry in result.entries)
    ]
    entries, ratios = aggregate(rows)
    return msgspec.structs.replace(result, entries=entries, ratios=ratios, reaggregated=git_state()["commit"])
