"""Times bare forward passes, and from them the speed that a drafted loop could reach at best.

The limit of a setting is τ·t₁ / (t_draft + t_verify): every second spent in a network, none around it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch

from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.store import Forwards, Passes, SettingResult, Sweep
from specdiff_core.bench.sweep import header
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.base import Context, Draft, drained
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths.randomness import Streams
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

REPEATS = 40
WARM = 6
SAME = ("device", "dtype", "threads", "target", "weights", "versions")
"""What a sweep and the bare passes must share before one is held against the other."""


def time_passes(engine: Engine, ids: Sequence[int], setting: BenchSetting, base: DecodeConfig) -> Passes:
    """Median seconds of t₁, t_verify and t_draft for one setting behind the context ``ids``. They take turns, so that
    drift of the machine falls on all alike.

    ``draft_network`` is what t_draft means in the limit: the drafter's draft, less the time that the same reveal takes
    when its network answers at once. What a drafter does once per committed token (``block`` projects its features) is
    left out, so the limit is rather too high than too low.
    """
    drafter, device = engine.drafter(setting.drafter), engine.pair.placement.device
    target = engine.target.start(drafter.layers)
    session = drafter.start()
    session.observe(ids[:-1], target.read(ids[:-1]))
    context = Context(
        ids=ids,
        gamma=setting.gamma,
        steps=setting.steps,
        order=base.order,
        sampling=base.draft_sampling,
        sampler=Streams(base.seed, shared=False).draft(0),
    )
    drafted = drained(session.draft(context))
    size = drafted.ids.numel()
    logits = torch.zeros((size, engine.target.vocab_size), dtype=engine.pair.placement.dtype, device=device)
    logits[range(size), drafted.ids] = 20.0  # a confident answer, ready at once
    forbidden = engine.target.suppress
    mask = next(iter(forbidden), 0)
    same_size = dataclasses.replace(context, gamma=size, steps=min(setting.steps, size))

    def reveal() -> Draft:
        return drained(denoise(lambda _: logits, same_size, mask_id=mask, forbidden=forbidden))

    works: dict[str, tuple[int, Callable[[], Any]]] = {  # places of the target's cache that each takes, and the work
        "reveal": (0, reveal),
        "draft": (0, lambda: drained(session.draft(context))),
        "target_verify": (size + 1, lambda: target.score([ids[-1]] * (size + 1))),
        "target_one": (1, lambda: target.score(ids[-1:])),
    }
    clock = DeviceClock(device)
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(WARM + REPEATS):
        for name, (width, work) in works.items():
            clock.start()
            work()
            spent[name].append(clock.finish())
            if width:
                target.rollback(width, ())
    seconds = {name: median(values[WARM:]) for name, values in spent.items()}
    return Passes(
        **msgspec.structs.asdict(setting),
        context=len(ids),
        target_one=seconds["target_one"],
        target_verify=seconds["target_verify"],
        draft=seconds["draft"],
        draft_network=max(0.0, seconds["draft"] - seconds["reveal"]),
    )


class PassCosts(NamedTuple):
    """Seconds of bare passes, medians."""

    target: dict[int, float]  # rows -> a pass of the target over so many
    draft: dict[int, float]  # γ -> the drafter's first pass of a round, with what it draws
    again: dict[int, float]  # γ -> each further one
    context: int  # tokens before them

    def drafting(self, gamma: int, passes: int) -> float:
        """Seconds of so many passes over a window of γ."""
        return self.draft[gamma] + (passes - 1) * self.again[gamma]

    def plain(self) -> dict[str, Any]:
        """As JSON holds them: lists of pairs, because its keys are strings."""
        return {
            "target": sorted(self.target.items()),
            "draft": sorted(self.draft.items()),
            "again": sorted(self.again.items()),
            "context": self.context,
        }


MORE = 4
"""Denoising steps from which the cost of a further pass is told."""


class PassTimes:
    """Bare passes of the target and a drafter, timed now and again: what a host does slowly at one time falls on them
    as it falls on runs in between.

    Args:
        gammas: windows to draft; those that the drafter does not take are left out.
        tokens: that vanilla writes behind a prompt before passes are timed there.
    """

    def __init__(self, engine: Engine, drafter_name: str, gammas: Sequence[int], *, tokens: int = 48) -> None:
        self._drafter, self._spec = engine.drafter(drafter_name), engine.pair.spec.drafter(drafter_name)
        self._engine, self._gammas = engine, [gamma for gamma in gammas if self._spec.fit(gamma) == gamma]
        self._base = DecodeConfig(pair=engine.pair.spec.name, temperature=0.0, max_new_tokens=tokens)
        self._scores: dict[int, list[float]] = {}
        self._drafts: dict[tuple[int, int], list[float]] = {}
        self._context = 0

    def rounds(self, prompt: str, repeats: int) -> Iterator[None]:
        """Time passes behind ``prompt`` and what vanilla writes after it, in the order of a run, so that each finds in
        the processor's caches what it would find there: the target over 1 row, again and again; and for each window a
        draft, then the target over γ + 1 rows.

        Yields:
            After each of ``repeats`` rounds of all passes, the first of which comes after two that warm up. Between two
            rounds others may use the engine.
        """
        engine, base = self._engine, self._base
        begun = engine.encode(prompt, base)
        room = engine.pair.spec.context - len(begun) - max(self._gammas, default=0) - 1
        tokens = max(1, min(base.max_new_tokens, room))  # so that the widest pass still fits
        base = dataclasses.replace(base, max_new_tokens=tokens)
        last = final(engine.decode(prompt, BASELINE.config(base), detail=False))
        ids = [*begun, *(last.ids if last else ())]
        target = engine.target.start(self._drafter.layers)
        features = target.read(ids[:-1])
        sampler, clock = Streams(0, shared=False).draft(0), DeviceClock(engine.pair.placement.device)

        def score(rows: int) -> float:
            clock.start()
            target.score([ids[-1]] * rows)
            seconds = clock.finish()
            target.rollback(rows, ())
            return seconds

        def draft(gamma: int, steps: int) -> float:
            session = self._drafter.start()  # some expect to hear what became of a draft before they draft again
            session.observe(ids[:-1], features)
            context = Context(
                ids=ids, gamma=gamma, steps=steps, order=base.order, sampling=base.draft_sampling, sampler=sampler
            )
            clock.start()
            drained(session.draft(context))
            return clock.finish()

        for number in range(2 + repeats):
            scores, drafts = (self._scores, self._drafts) if number > 1 else ({}, {})  # the first two warm up
            score(1)  # others may have decoded since
            for _ in range(2):
                scores.setdefault(1, []).append(score(1))
            for gamma in self._gammas:
                if gamma + 1 > target.room:
                    continue
                for steps in sorted({1, min(MORE, gamma)} if self._spec.drafting == "denoise" else {1}):
                    drafts.setdefault((gamma, steps), []).append(draft(gamma, steps))
                    scores.setdefault(gamma + 1, []).append(score(gamma + 1))
            if number > 1:
                self._context = len(ids)
                yield

    @property
    def costs(self) -> PassCosts:
        """Medians of all that was timed."""
        each = {size: median(spent) for size, spent in self._drafts.items()}
        firsts = {gamma: each[gamma, 1] / self._spec.passes(gamma, 1) for gamma, steps in each if steps == 1}
        more = {gamma: (seconds - firsts[gamma]) / (steps - 1) for (gamma, steps), seconds in each.items() if steps > 1}
        return PassCosts(
            target={rows: median(spent) for rows, spent in self._scores.items()},
            draft=firsts,
            again={gamma: more.get(gamma, first) for gamma, first in firsts.items()},
            context=self._context,
        )


def pass_costs(
    engine: Engine, prompt: str, drafter_name: str, gammas: Sequence[int], *, tokens: int = 48, repeats: int = 9
) -> PassCosts:
    """:class:`PassTimes` of one sitting."""
    times = PassTimes(engine, drafter_name, gammas, tokens=tokens)
    for _ in times.rounds(prompt, repeats):
        pass
    return times.costs


def efficiency(passes: Passes, entry: SettingResult, baseline: SettingResult) -> dict[str, float]:
    """How much of its own limit a setting reached in a sweep.

    ``limit_speedup`` is τ·t₁ / (t_draft + t_verify); ``of_tokens`` compares tokens per second of rounds (without the
    prefill) with τ / (t_draft + t_verify), the stricter of the two. τ is that of all rounds together, so the speed-up
    held against it is that of all tokens together too, not the mean over flavours, which is a little higher.
    """
    limit_tokens = entry.tau / (passes.draft_network + passes.target_verify)
    limit_speedup = limit_tokens * passes.target_one
    of_tokens = entry.new_tokens / (entry.seconds - entry.seconds_by["prefill"]) / limit_tokens
    of_speedup = entry.tokens_per_second / baseline.tokens_per_second / limit_speedup
    return {"limit_speedup": limit_speedup, "of_speedup": of_speedup, "of_tokens": of_tokens}


def forwards(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    sweep: Sweep | None,
    provenance: Provenance,
) -> Forwards:
    """The bare passes of every setting, in the middle of a run; with a ``sweep`` the share of the limit that the loop
    reached there.

    Args:
        settings: without the baseline.

    Raises:
        ConfigError: there is none, one cannot be timed so, or the sweep is not of this machine, these models and
            settings.
    """
    specs = [find_pair(base.pair).drafter(setting.drafter) for setting in settings]
    plain = [setting.shape == "window" and not setting.auto for setting in settings]
    if not settings or not all(plain) or any(spec.drafting != "denoise" or spec.chained for spec in specs):
        message = "bench forwards times windows of a fixed size that a denoiser fills from its marginals."
        hint = "Name at least one; leave out trees, K drafts, auto, the Markov head and other drafters."
        raise ConfigError(message, field="drafters", hint=hint)
    head = header("forwards", engine, prompts, settings, base)
    if sweep and (other := [name for name in SAME if getattr(sweep, name) != head[name]]):
        hint = "Measure both on one machine, with the same models and settings."
        raise ConfigError(f"The sweep was measured with another {', '.join(other)}.", field="sweep", hint=hint)
    half = dataclasses.replace(base, max_new_tokens=max(1, base.max_new_tokens // 2), temperature=0.0)
    last = final(engine.decode(prompts[0].prompt, BASELINE.config(half), detail=False))  # the middle of a run
    ids = [*engine.encode(prompts[0].prompt, half), *(last.ids if last else ())]
    swept = {entry.key: entry for entry in sweep.entries} if sweep else {}
    entries = []
    for setting in settings:
        passes = time_passes(engine, ids, setting, base)
        if found := swept.get(setting.key):
            passes = msgspec.structs.replace(passes, efficiency=efficiency(passes, found, swept[BASELINE.key]))
        entries.append(passes)
    return msgspec.convert({**head, "provenance": provenance, "cells": entries}, Forwards)
