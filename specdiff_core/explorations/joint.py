"""The joint distribution of a text's first tokens: the exact one, and that of many thousand texts that the real loop
writes. The distance of an exact rule falls as 1/√N along with the noise; that of a biased one doesn't.

The logits of each prefix are computed once and kept (``study/tables.py``), so a run takes a millisecond or two;
drafting, testing and committing are the loop's own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.figures import Figure, axes
from specdiff_core.explorations.wording import Row
from specdiff_core.measure.statistics import chi_squared
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.events import Committed, Verified
from specdiff_core.schema.settings import DecodeConfig, Sampling

if TYPE_CHECKING:
    from specdiff_core.decoding.clock import DeviceClock
    from specdiff_core.explorations.study.tables import CachedTarget, TokenIds

BATCH = 50
"""Runs of each case between two points at which other runs may decode."""
PVALUE = 1e-6
"""A case with a smaller p-value is reported as biased."""
LEVEL = 0.99
"""Level of the noise band: of several exact rules, one would leave a 95 % band too often."""
FIRST, POINTS = 10, 16
"""The first point of a curve, in runs, and the number of points."""
DRAWS = 400
"""Samples of the exact distribution for the noise floor."""
NOISE = "noise: 99 % of exact samples stay below"


class Case(NamedTuple):
    """What writes texts: a rule, or an engine."""

    config: Callable[[int], DecodeConfig]  # seed of a run -> its settings
    drafter: Any
    changes: Callable[[int], dict[str, Any]] = lambda seed: {}  # seed -> arguments of the loop


class Joint:
    """The joint distribution of the first ``size`` tokens, exact and sampled.

    Attributes:
        exact: text -> its probability.
        counts: name of a case -> the texts that it wrote.
        accepted: name of a case -> its runs that accepted the first drafted token.
    """

    def __init__(self, target: CachedTarget, prompt: TokenIds, size: int, cases: Mapping[str, Case], seed: int) -> None:
        self.target, self.prompt, self._size, self._cases, self._seed = target, prompt, size, cases, seed
        sampling = next(iter(cases.values())).config(0).sampling
        self.exact = exact_distribution(target, prompt, size, sampling)
        self.counts: dict[str, Counter[TokenIds]] = {name: Counter() for name in cases}
        self.accepted = Counter[str]()
        self._rows = list[dict[str, Any]]()

    @property
    def runs(self) -> int:
        """Runs of each case so far."""
        return next(iter(self.counts.values())).total()

    def sample(self, runs: int, clock: DeviceClock, stop: Stop) -> Iterator[int]:
        """Run all cases ``runs`` times, interleaved; now and then yields the runs of each so far."""
        from specdiff_core.models.device import cpu_threads

        done, due = 0, float(FIRST)
        while done < runs and not stop.is_set():
            until = min(math.ceil(due), done + BATCH, runs)
            with cpu_threads(1):  # more threads don't help; not across a yield: other runs decode then
                while done < until and not stop.is_set():
                    for number, name in enumerate(self._cases):  # own draws: one bad sample affects one case
                        seed = self._seed + done * len(self._cases) + number
                        self.counts[name][self._write(name, seed, clock)] += 1
                    done += 1
            if done >= min(due, runs):  # evenly spaced on a logarithmic axis
                due = done * (runs / FIRST) ** (1 / POINTS)
                self._rows += self._points()
            yield done

    def _write(self, name: str, seed: int, clock: DeviceClock) -> TokenIds:
        """The first tokens of a run."""
        from specdiff_core.decoding.loop import speculate

        written, (config, drafter, changes) = list[int](), self._cases[name]
        target: Any = self.target  # CachedTarget stands in for the target
        for event in speculate(self.prompt, config(seed), target, drafter, clock, detail=False, **changes(seed)):
            if isinstance(event, Verified) and event.round == 0:
                self.accepted[name] += event.accepted > 0
            if isinstance(event, Committed):
                written += event.ids
                if len(written) >= self._size:
                    break
        return tuple(written[: self._size])

    def curve(self) -> list[dict[str, Any]]:
        """Rows so far: those of :meth:`sample`, and one for now."""
        return [*self._rows, *(() if self._rows and self._rows[-1]["runs"] == self.runs else self._points())]

    def facts(self) -> dict[str, Any]:
        """The most probable outcomes, exact and sampled, and the number of all."""
        joint = [
            {"text": list(text), "exact": self.exact[text]}
            | {name: texts[text] / self.runs for name, texts in self.counts.items()}
            for text in sorted(self.exact, key=lambda text: -self.exact[text])[:16]
        ]
        return {"joint": joint, "outcomes": len(self.exact), "runs": self.runs, "threads": 1}

    def _points(self) -> Iterator[dict[str, Any]]:
        """A row for each case: the total variation between its texts and the exact distribution; the mean and 99 %
        quantile for as many exact samples; and bounds of the true distance, which differs by less than that quantile
        (triangle inequality)."""
        import numpy as np

        p, runs = np.array(list(self.exact.values())), self.runs
        drawn = np.random.default_rng([self._seed, runs]).multinomial(runs, p / p.sum(), size=DRAWS) / runs
        noise = np.abs(drawn - p).sum(-1) / 2
        high = float(np.quantile(noise, LEVEL))
        for name, texts in self.counts.items():
            observed, size = np.array([texts[text] for text in self.exact]), texts.total()
            stray = size - int(observed.sum())  # texts that the target cannot write
            distance = float(np.abs(observed / size - p).sum() + stray / size) / 2
            yield {
                "rule": name,
                "runs": runs,
                "distance": distance,
                "floor": float(noise.mean()),
                "floor_high": high,
                "bias_low": max(0.0, distance - high),
                "bias_high": distance + high,
                "p_value": 0.0 if stray else chi_squared(observed, p * size),
            }


def exact_distribution(target: CachedTarget, prompt: TokenIds, size: int, sampling: Sampling) -> dict[TokenIds, float]:
    """The joint distribution of the first ``size`` tokens, multiplied out from the target's distributions."""
    from specdiff_core.maths.distributions import to_probs

    exact: dict[TokenIds, float] = {(): 1.0}
    for _ in range(size):
        longer: dict[TokenIds, float] = {}
        for text, weight in exact.items():
            probs = to_probs(target.logits((*prompt, *text))[None], sampling, target.suppress)[0]
            for token in probs.nonzero()[:, 0].tolist():
                longer[text + (token,)] = weight * float(probs[token])
        exact = longer
    return exact


def distances(rows: list[dict[str, Any]]) -> Figure:
    """Distance by number of runs, with the noise of exact samples. Rows without ``lossless`` are not called wrong."""
    names = list(dict.fromkeys(row["rule"] for row in rows))
    first = [row for row in rows if row["rule"] == names[0]] if names else []
    wrong = {row["rule"] for row in rows if not row.get("lossless", True)}
    style = {
        name: draw.Style("@alarm", "x", "solid", f"{name} (not exact)") if name in wrong else look
        for name, look in draw.styles(names).items()
    }
    noise = draw.trace(
        NOISE,
        [row["runs"] for row in first],
        [row["floor_high"] for row in first],
        "@target",
        dash="dot",
        width=1.4,
        hover=f"{NOISE}: %{{y:.4f}}",
        fill="tozeroy",
        fillcolor="@target-tint",
    )

    def words(row: Row) -> str:
        return f"{row['rule']}, {row['runs']:,} runs: distance {row['distance']:.4f}<br>p = {row['p_value']:.1g}"

    ticks = [digit * 10.0**power for power in range(-5, 6) for digit in (1, 2, 5)]
    log = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    return Figure(
        key="distances",
        title="Distance to the exact distribution",
        wide=True,
        data=[noise, *draw.lines(rows, "rule", "runs", "distance", words, style=style)] if rows else [],
        hint="total variation of the first tokens' joint distribution; for an exact rule it falls as 1/√N",
        layout=axes("runs of each rule", "total variation", xaxis=log, yaxis=log, showlegend=True),
        empty="A line for each rule appears after its first runs.",
    )
