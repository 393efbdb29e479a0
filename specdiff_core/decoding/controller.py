"""Chooses γ and T round by round, from measurements of earlier rounds, for the most tokens per second, E / C.

docs/theory.md defines the letters (Cost) and shows why the text's distribution stays exact (Adaptive lengths). Above
temperature 0 another text may be drawn under every rule but ``match``, because times differ from run to run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Protocol

from msgspec.structs import replace

from specdiff_core.schema.events import Choice
from specdiff_core.schema.settings import DecodeConfig, cut_steps

MEMORY = 0.97
"""Weight of a round one round later: it halves in 23 rounds."""
PRIOR_ALPHA, PRIOR_WEIGHT = 0.8, 6.0
"""Prior acceptance rate, and its weight in tests; a position's prior is the mean of all."""
PRIOR_ROW, PRIOR_ROW_WEIGHT = 0.05, 50.0
"""Prior for v₁: seconds of one more row of the target's pass, in passes of one row; and its weight, that of two passes
which are five rows off the mean."""
STEPS = (1, 2, 4, 8, 16, 32)
"""Candidates for T, besides that of the settings."""
OUTLIER = 1.25
"""A time is capped at this multiple of its expectation: other programs' interference."""
EXPONENTS = (4.0, 2.5, 1.5, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
"""Candidates for κ: a token of confidence b, the largest probability of its position, is taken to be accepted with
probability b^κ, because drafters are over- or underconfident."""


class Controller(Protocol):
    """Chooses γ and T of each round, and may end a draft early."""

    @property
    def adaptive(self) -> bool:
        """Whether its choices are reported."""

    @property
    def stop_criterion(self) -> Callable[[Sequence[float]], int] | None:
        """Largest confidences of a draft's positions, from the left -> how many of them to verify. A
        drafter that needs a pass for each token calls it before every token; a result larger than its
        argument's length means that the next position pays for its pass. None: verify all."""

    @property
    def min_node_prob(self) -> float:
        """The acceptance probability from which a node of a draft tree pays for its row."""

    def choose(self, limit: int) -> Choice:
        """γ, at most ``limit``, and T of the next round. ``limit`` is what the settings and this round allow."""

    def learn(
        self, tested: Sequence[bool], draft_seconds: float, passes: int, verify_seconds: float, rows: int
    ) -> None:
        """Learn from a round: whether each tested position was accepted, from the left; seconds and
        passes of drafting; seconds of the target's pass, verification included, and its rows."""


class Fixed:
    """The controller that drafts with γ and T of the settings."""

    adaptive, stop_criterion, min_node_prob = False, None, 0.0

    def __init__(self, config: DecodeConfig) -> None:
        self._steps = config.steps

    def choose(self, limit: int) -> Choice:
        return Choice(gamma=limit, steps=self._steps)

    def learn(self, *_: object) -> None:
        """Nothing."""


@dataclass(slots=True)
class _Acceptance:
    """Fading counts of tests and acceptances by position, for one T."""

    tested: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)

    def add(self, tests: Sequence[bool]) -> None:
        for counts in (self.tested, self.accepted):
            counts[:] = [MEMORY * count for count in counts] + [0.0] * (len(tests) - len(counts))
        for position, passed in enumerate(tests):
            self.tested[position] += 1
            self.accepted[position] += passed

    def alphas(self, gamma: int) -> tuple[float, ...]:
        """α_j of the first γ positions, shrunk towards the mean of all if tests are few."""
        mean = (sum(self.accepted) + PRIOR_WEIGHT * PRIOR_ALPHA) / (sum(self.tested) + PRIOR_WEIGHT)
        counts = zip(self.accepted, self.tested, strict=True)
        shrunk = [(hits + PRIOR_WEIGHT * mean) / (tests + PRIOR_WEIGHT) for hits, tests in counts][:gamma]
        return tuple(shrunk + [mean] * (gamma - len(shrunk)))


class _Line:
    """Seconds of a pass, v₀ + v₁ · rows: least squares, fading, v₁ shrunk towards its prior."""

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, rows: int, seconds: float) -> float:
        """Add a pass; returns its seconds, capped if it is an outlier."""
        fixed, row = self.fit()
        seconds = _capped(seconds, fixed + row * rows)
        self._n, self._x, self._y = MEMORY * self._n + 1, MEMORY * self._x + rows, MEMORY * self._y + seconds
        self._xx, self._xy = MEMORY * self._xx + rows * rows, MEMORY * self._xy + rows * seconds
        return seconds

    def fit(self) -> tuple[float, float]:
        """v₀ and v₁, both at least 0; (0, 0) before anything was measured."""
        if not self._n:
            return 0.0, 0.0
        rows, seconds = self._x / self._n, self._y / self._n
        prior = PRIOR_ROW * seconds / (1 + PRIOR_ROW * max(0.0, rows - 1))
        spread, product = self._xx - self._n * rows * rows, self._xy - self._n * rows * seconds
        slope = max(0.0, (product + PRIOR_ROW_WEIGHT * prior) / (spread + PRIOR_ROW_WEIGHT))
        return max(0.0, seconds - slope * rows), slope


def _capped(seconds: float, expected: float) -> float:
    """A measured time, at most :data:`OUTLIER` times the expected one if there is one."""
    return min(seconds, OUTLIER * expected) if expected else seconds


class Auto:
    """The adaptive controller. From estimates of α_j and of costs, uses the T with the most expected tokens per second,
    and its γ unless a draft can be cut: then positions with Π b^κ below v₁ · R are dropped.

    Args:
        config: its γ and T are the largest to choose; T is also tried at all smaller :data:`STEPS`.
        passes: (γ, T) -> drafter passes.
    """

    adaptive = True

    def __init__(self, config: DecodeConfig, passes: Callable[[int, int], int]) -> None:
        self._passes = passes
        self._sequential = passes(2, 1) > 1  # a position takes a drafter pass, T is ignored
        fewer = [steps for steps in STEPS if steps < config.steps]
        self._tries = [1] if self._sequential else [*fewer, config.steps]
        self._acceptance = {steps: _Acceptance() for steps in self._tries}
        self._verify = _Line()
        self._pass_seconds = self._pass_weight = 0.0
        self._tokens = self._seconds = 0.0
        self._log_likelihoods = [0.0] * len(EXPONENTS)  # of each κ
        self._confidences: Sequence[float] = ()
        self._begun = False
        self._tried: set[int] = set()
        self._choice = Choice(gamma=config.gamma, steps=self._tries[0])

    def choose(self, limit: int) -> Choice:
        """The T with the best E / C; untried ones come first. If drafts can be cut, that is with
        one pass or with a pass per token, γ is as large as possible, and :attr:`stop_criterion`
        ends the draft."""
        self._confidences = ()
        fitting = [steps for steps in self._tries if cut_steps(steps, limit) == steps]
        untried = [steps for steps in fitting if steps not in self._tried]
        if limit < 1:
            self._choice = Choice(gamma=limit, steps=1, rate=self._rate)
        else:
            options = [self._best(limit, steps) for steps in untried[:1] or fitting]
            best = max(options, key=lambda choice: choice.tokens / choice.seconds if choice.seconds else 0.0)
            full_window = best.steps == 1 or bool(untried)
            self._choice = replace(best, gamma=limit) if full_window else best
            self._tried.add(best.steps)
        return self._choice

    def _best(self, limit: int, steps: int) -> Choice:
        """The γ with the largest E / C for one T, without cutting drafts."""
        alphas = self._acceptance[steps].alphas(limit)
        fixed, row = self._verify.fit()
        pass_seconds = self._seconds_per_pass
        tokens = list(accumulate(accumulate(alphas, mul), initial=1.0))  # E of γ = 0, 1, 2, …

        def seconds(gamma: int) -> float:
            return self._passes(gamma, steps) * pass_seconds + fixed + row * (gamma + 1)

        gamma = max(
            range(steps, limit + 1), key=lambda gamma: tokens[gamma] / seconds(gamma) if seconds(gamma) else 0.0
        )
        return Choice(
            gamma=gamma,
            steps=steps,
            best_gamma=gamma,
            tokens=tokens[gamma],
            seconds=seconds(gamma),
            rate=self._rate,
            alphas=alphas,
            pass_seconds=pass_seconds,
            row_seconds=row,
        )

    @property
    def _seconds_per_pass(self) -> float:
        """d, seconds of a drafter pass."""
        return self._pass_seconds / self._pass_weight if self._pass_weight else 0.0

    @property
    def _rate(self) -> float:
        """R, tokens per second of the rounds so far."""
        return self._tokens / self._seconds if self._seconds else 0.0

    @property
    def min_node_prob(self) -> float:
        """v₁ · R: the tokens that could be decoded in the time of one row. For trees κ is 1: a node's probability is
        taken to be the product of its path's confidences."""
        return self._choice.row_seconds * self._rate

    def stop_criterion(self, confidences: Sequence[float]) -> int:
        """How many positions' expected tokens Π b^κ pay for a row; at least 1, to keep learning."""
        self._confidences = tuple(confidences)
        exponent = EXPONENTS[max(range(len(EXPONENTS)), key=self._log_likelihoods.__getitem__)]
        row = self.min_node_prob
        gains = list(accumulate((confidence**exponent for confidence in confidences), mul))
        count = max(1, sum(1 for gain in gains if gain >= row))  # gains fall from left to right
        if self._sequential and count == len(gains):
            alphas = self._choice.alphas or (0.0,)
            another = alphas[min(len(gains), len(alphas) - 1)]  # of the position to fill
            count += gains[-1] * another >= row + self._choice.pass_seconds * self._rate
        return count

    def learn(
        self, tested: Sequence[bool], draft_seconds: float, passes: int, verify_seconds: float, rows: int
    ) -> None:
        verify_seconds = self._verify.add(rows, verify_seconds)
        draft_seconds = _capped(draft_seconds, self._seconds_per_pass * passes)
        if self._begun:  # the first draft also reads the prompt
            self._tokens = MEMORY * self._tokens + sum(tested) + 1
            self._seconds = MEMORY * self._seconds + draft_seconds + verify_seconds
            self._pass_seconds = MEMORY * self._pass_seconds + draft_seconds
            self._pass_weight = MEMORY * self._pass_weight + passes
        self._begun = True
        for steps, acceptance in self._acceptance.items():  # all fade: old estimates lose weight
            acceptance.add(tested if steps == self._choice.steps else ())
        outcomes = list(zip(self._confidences, tested, strict=False))
        for i, exponent in enumerate(EXPONENTS):
            chances = [min(max(confidence, 1e-6), 1 - 1e-6) ** exponent for confidence, _ in outcomes]
            terms = (math.log(p if passed else 1 - p) for p, (_, passed) in zip(chances, outcomes, strict=True))
            self._log_likelihoods[i] = MEMORY * self._log_likelihoods[i] + sum(terms)
