"""Times bare forward passes of a target and a drafter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.base import Context, run_to_end
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.randomness import Streams
from specdiff_core.measure.grid import VANILLA
from specdiff_core.models.device import cpu_threads
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


class PassCosts(NamedTuple):
    """Seconds of bare passes, medians."""

    target: dict[int, float]  # rows -> a target pass over them, up to its distributions
    draft: dict[int, float]  # γ -> the drafter's first pass of a later round, sampling included
    again: dict[int, float]  # γ -> each further pass
    context: int  # tokens before them

    def drafting(self, gamma: int, passes: int) -> float:
        return self.draft[gamma] + (passes - 1) * self.again[gamma]

    def plain(self) -> dict[str, Any]:
        """As JSON: lists of pairs, because its keys are strings."""
        return {name: sorted(cost.items()) if isinstance(cost, dict) else cost for name, cost in self._asdict().items()}


STEPS = 4
"""Denoising steps from which the cost of a further pass is derived."""


class PassTimes:
    """Bare passes of the target and a drafter, timed in rounds between other runs, so that a slow moment affects both.

    Args:
        gammas: windows to draft; unsupported ones are left out.
        tokens: passes are timed after this many vanilla tokens.
    """

    def __init__(self, engine: Engine, drafter_name: str, gammas: Sequence[int], *, tokens: int = 48) -> None:
        self._drafter, self._spec = engine.drafter(drafter_name), engine.pair.spec.drafter(drafter_name)
        self._engine, self._gammas = engine, [gamma for gamma in gammas if self._spec.clamp_gamma(gamma) == gamma]
        self._base = DecodeConfig(pair=engine.pair.spec.name, temperature=0.0, max_new_tokens=tokens)
        self._scores: dict[int, list[float]] = {}
        self._drafts: dict[tuple[int, int], list[float]] = {}
        self._context = 0

    def rounds(self, prompt: str, repeats: int, stop: Stop | None = None, threads: int | None = None) -> Iterator[None]:
        """Time passes after ``prompt`` and vanilla's continuation, in the order of a run, so that
        the processor's caches hold the same data: the target over 1 row, twice; and for each window
        a draft, then the target over γ + 1 rows.

        Args:
            threads: CPU threads of the passes; None: unchanged.

        Yields:
            after each of ``repeats`` rounds of all passes; two warm-up rounds come first. Other
            runs may use the engine between two rounds. Ends before the next window once ``stop`` is set.
        """
        engine, base = self._engine, self._base
        stopped, denoises = stop.is_set if stop else lambda: False, self._spec.drafting == "denoise"
        begun = engine.encode(prompt, base)
        room = engine.pair.spec.context - len(begun) - max(self._gammas, default=0) - 1
        tokens = max(1, min(base.max_new_tokens, room))  # leaves room for the widest pass
        base = dataclasses.replace(base, max_new_tokens=tokens)
        last = final(engine.decode(prompt, VANILLA.config(base), detail=False, stop=stop, threads=threads))
        if stopped():
            return
        ids = [*begun, *(last.ids if last else ())]
        target = engine.target.start(self._drafter.layers)
        features = target.read(ids[:-1])
        sampler, clock = Streams(0, shared=False).draft(0), DeviceClock(engine.pair.placement.device)

        def score(rows: int) -> float:
            clock.start()
            to_probs(target.score([ids[-1]] * rows).logits, base.sampling, engine.target.suppress)  # as the loop does
            seconds = clock.finish()
            target.rollback(rows, ())
            return seconds

        def draft(gamma: int, steps: int) -> tuple[tuple[int, int], float]:  # γ and T as drafted, seconds
            session = self._drafter.start()  # some sessions need the result of one draft before the next
            shared: Any = {"order": base.order, "sampling": base.draft_sampling, "sampler": sampler}
            session.observe(ids[:-2], None if features is None else features[:-1])
            context = Context.within(session.room, ids=ids[:-1], gamma=1, **shared)
            if context.gamma:  # untimed: it reads the whole text, as only a run's first draft does
                run_to_end(session.draft(context))
            session.observe(ids[-2:-1], None if features is None else features[-1:])
            context = Context.within(session.room, ids=ids, gamma=gamma, steps=steps, **shared)
            clock.start()
            run_to_end(session.draft(context))
            return (context.gamma, context.steps), clock.finish()

        for number in range(2 + repeats):
            scores, drafts = (self._scores, self._drafts) if number > 1 else ({}, {})  # the first two warm up
            with cpu_threads(threads):  # not across the yield: other runs decode then
                score(1)  # other runs may have used the caches
                for _ in range(2):
                    scores.setdefault(1, []).append(score(1))
                for gamma in self._gammas:
                    if stopped():
                        return
                    if gamma + 1 > target.room:
                        continue
                    for steps in sorted({1, min(STEPS, gamma)} if denoises else {1}):
                        drafted, seconds = draft(gamma, steps)
                        drafts.setdefault(drafted, []).append(seconds)
                        if stopped():
                            return
                        scores.setdefault(gamma + 1, []).append(score(gamma + 1))
            if number > 1:
                self._context = len(ids)
                yield

    @property
    def costs(self) -> PassCosts:
        drafts = {size: median(spent) for size, spent in self._drafts.items()}
        firsts = {gamma: drafts[gamma, 1] / self._spec.passes(gamma, 1) for gamma, steps in drafts if steps == 1}
        again = {gamma: (total - firsts[gamma]) / (steps - 1) for (gamma, steps), total in drafts.items() if steps > 1}
        return PassCosts(
            target={rows: median(spent) for rows, spent in self._scores.items()},
            draft=firsts,
            again={gamma: again.get(gamma, first) for gamma, first in firsts.items()},
            context=self._context,
        )
