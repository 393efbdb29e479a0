"""A decoder without a model, for tests of the page only: scripted words, invented probabilities, a counted clock.

Its events have the real shapes, so the page treats them as those of a real run; its numbers mean nothing.
"""

from __future__ import annotations

import functools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from app.run import job, race
from app.run.kept import KEPT_RUNS
from app.run.record import Ask, decoding
from app.run.runner import LocalRunner
from specdiff_core.schema.events import (
    Candidate,
    Committed,
    DenoiseStep,
    DraftReady,
    Event,
    Finished,
    PiecesSeen,
    Prefilled,
    RoundStarted,
    RunStarted,
    Span,
    TargetScored,
    Test,
    Verified,
    rounded,
)
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import Trace, read_trace

TEXT = (
    "Once upon a time , a small lighthouse stood on a rocky island . Every evening , an old keeper "
    "named Tom climbed the narrow stairs and lit the big lamp . The ships saw the light and knew "
    "the way home . One night , a storm came from the sea . The wind was loud and the lamp went "
    "out . Tom was afraid , but he did not give up . He took a little lantern , opened the window "
    "and waved it until the first ship answered with its horn . In the morning the sailors came to "
    "thank him . They brought bread and a warm blanket , and they sang until the sun was high ."
)
WORDS = TEXT.split()
VOCABULARY = sorted(
    {f" {word}" if word not in ".," else word for word in WORDS} | {" hill", " boat", " slowly", "\n", " café"}
)
IDS = {piece: i for i, piece in enumerate(VOCABULARY)}
START = -1
SCRIPT = [IDS[f" {word}" if word not in ".," else word] for word in WORDS]


class FakeDecoder(LocalRunner):
    """Plays ``Engine``, and is its own runner. ``pace`` seconds of real time pass per target pass; ``waiting`` threads
    had no processor, on average.

    Args:
        fail: is raised after so many rounds of a run, or at its :data:`START`.
        drafter: the runs that fail; by default all.
    """

    def __init__(
        self,
        *,
        pace: float = 0.0,
        fail: Exception | None = None,
        fail_after: int = 3,
        drafter: str = "",
        waiting: float = 0.02,
    ) -> None:
        super().__init__(self)
        self.pace, self.waiting = pace, waiting
        self.fail, self.fail_after, self.drafter = fail, fail_after, drafter
        self.stopped = threading.Event()  # set when a decode saw its stop event
        self.calls: list[tuple[str, DecodeConfig]] = []
        self.warm_ups: list[str] = []  # drafters
        self.asked_threads: list[int | None] = []  # of each call

    @functools.cached_property
    def pair(self) -> Any:
        """What an exploration asks of an engine, beside its decodes."""
        from specdiff_core.models.device import choose_placement
        from specdiff_core.schema.pairs import EMBEDDED

        words = SimpleNamespace(
            all_special_ids=[],
            convert_ids_to_tokens=lambda token: f"w{token}",
            decode=lambda ids: "".join(f"w{token}" for token in ids),
        )
        return SimpleNamespace(placement=choose_placement("cpu"), network="scripted", spec=EMBEDDED, tokenizer=words)

    target = SimpleNamespace(vocab_size=1 << 16, suppress=())
    threads = 2  # those that were quickest at loading
    ends: tuple[int, ...] = ()

    def encode(self, prompt: str, config: DecodeConfig | None = None) -> list[int]:
        """A token for each word."""
        return list(range(len(prompt.split())))

    def rendered(self, prompt: str, config: DecodeConfig) -> str:
        """As a chat message."""
        return f"<user>{prompt}"

    def load_drafter(self, drafter: str, progress: Callable[[str], None]) -> None:
        """It has all."""

    def warm_up(
        self, config: DecodeConfig, progress: Callable[[str], None] = lambda message: None, threads: int = 0
    ) -> None:
        """Note it, and say so."""
        self.warm_ups.append(config.drafter)
        progress("Warming up")

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        detail: bool = True,
        grain: str = "step",
        stop: threading.Event | None = None,
        threads: int | None = None,
        after: Sequence[int] = (),
    ) -> Iterator[Event]:
        """Yield a whole run of invented events; ``after`` so many tokens the script goes on."""
        self.calls.append((prompt, config))
        self.asked_threads.append(threads)

        def fail(round: int) -> None:
            if self.fail is not None and round == self.fail_after and self.drafter in ("", config.drafter):
                raise self.fail

        fail(START)
        rng, now = random.Random(config.seed), 0.0
        by = {"prefill": 0.0, "draft": 0.0, "score": 0.0, "verify": 0.0}

        def span(name: str, seconds: float) -> Span:
            """The next piece of work, on the clock."""
            nonlocal now
            began, now = now, now + seconds
            by[name] += seconds
            return Span(name=name, start=began, seconds=seconds)

        if detail:
            yield PiecesSeen(pieces=dict(enumerate(VOCABULARY)))
        yield RunStarted(
            config=config.to_dict(), prompt=prompt, prompt_ids=(0,), grain=grain, lossless=config.rule.lossless,
            models={"target": "a scripted text, no model", "drafter": config.drafter},
            device="no device (test double)", dtype="none", reason="invented numbers for a test",
            threads=threads if (threads or 0) > 0 else self.threads, versions={"fake": "1"},
            started_at="2026-01-02T03:04:05+00:00",
        )  # fmt: skip  # several fields a line
        yield Prefilled(tokens=1, span=span("prefill", 0.004))
        total, round, anchor, reason, out = 0, -1, SCRIPT[0], "", list[int]()
        while not reason:
            round += 1
            fail(round)
            if self.pace:
                time.sleep(self.pace)
            yield RoundStarted(round=round, length=1 + total, anchor=anchor)
            truth = [SCRIPT[(len(after) + total + i) % len(SCRIPT)] for i in range(config.gamma + 1)]
            size = 0 if config.drafter == "none" else min(config.gamma, config.max_new_tokens - total - 1)
            kept = next((i for i in range(size) if rng.random() > 0.86 - 0.02 * i), size)
            draft = truth[:size]
            if kept < size:
                draft[kept] = (truth[kept] + 1 + rng.randrange(9)) % len(VOCABULARY)
            began, reveal, passes = now, [0] * size, min(config.steps, size)
            for step in range(passes):
                fresh = tuple(range(step * size // passes, (step + 1) * size // passes))
                known = fresh[-1] + 1 if fresh else 0
                confidence = tuple(
                    1.0 if i < known and i not in fresh else rounded(rng.uniform(0.25, 0.99) * (1 - 0.03 * i))
                    for i in range(size)
                )
                for i in fresh:
                    reveal[i] = step
                yield DenoiseStep(
                    round=round,
                    step=step,
                    ids=(*draft[:known], *[None] * (size - known)),
                    revealed=fresh,
                    confidence=confidence,
                    span=span("draft", 0.0021),
                    candidates=tuple((Candidate(id=one, prob=p),) for one, p in zip(draft, confidence, strict=True)),
                )
            if stop is not None and stop.is_set():
                self.stopped.set()
                reason = "stopped"
                break
            q = tuple(rounded(rng.uniform(0.4, 0.99)) for _ in range(size))
            yield DraftReady(
                round=round, ids=tuple(draft), q=q, reveal_steps=tuple(reveal), exact_q=(True,) * size, nfe=passes,
                proposal="conditionals", span=Span(name="draft", start=began, seconds=now - began),
            )  # fmt: skip  # several fields a line
            p = tuple(
                rounded(min(1.0, v * rng.uniform(0.9, 1.2)) if i < kept else v * rng.uniform(0.05, 0.5))
                for i, v in enumerate(q)
            )
            yield TargetScored(round=round, p=p, candidates=(), span=span("score", 0.0092 + 0.0002 * size))
            tests = []
            for i in range(min(kept + 1, size)):
                bound = min(1.0, p[i] / q[i])
                draw = rng.uniform(0, bound * 0.98) if i < kept else rng.uniform(bound, 1)
                values = {"position": i, "id": draft[i], "p": p[i], "q": q[i], "threshold": rounded(bound)}
                tests.append(Test(**values, draw=draw, accepted=i < kept, kind="ratio"))
            source, anchor = "bonus" if kept == size else "residual", truth[kept]
            total += kept + 1
            out += truth[: kept + 1]
            yield Verified(
                round=round, tests=tuple(tests), accepted=kept, extra=anchor, source=source, rule=config.rule.value,
                lossless=config.rule.lossless, extra_candidates=(Candidate(id=anchor, prob=0.7),),
                span=span("verify", 0.0004),
            )  # fmt: skip  # several fields a line
            fresh, sources = tuple(truth[: kept + 1]), ("draft",) * kept + (source,)
            yield Committed(round=round, ids=fresh, sources=sources, total=total, at=now)
            now += 0.0003
            if total >= config.max_new_tokens:
                reason = "length"
        by["other"] = now - sum(by.values())
        yield Finished(
            reason=reason, text="".join(VOCABULARY[i] for i in out), ids=tuple(out), rounds=round + 1, seconds=now,
            seconds_by=by, peak_bytes=1, waited_seconds=now * self.waiting,
        )  # fmt: skip  # several fields a line


def frames(generator: Iterator[str]) -> list[dict[str, Any]]:
    """Distinct frames of a run, as the browser sees them: an equal value fires nothing."""
    seen: list[str] = []
    for value in generator:
        if not seen or value != seen[-1]:
            seen.append(value)
    return [json.loads(value) for value in seen]


def raced(
    factory: Any,
    prompt: object,
    values: Any,
    plan: Any,
    *,
    jobs: Any = None,
    name: str = "",
    visitor: str = "",
    threads: int = 0,
) -> Iterator[str]:
    """The frames of a race, as the page asks for one."""
    from app.controls import check_prompt  # here: a process that decodes imports no Gradio

    def make(run: str) -> race.Race:
        ask = Ask(prompt=check_prompt(prompt), plan=plan(values), run=run, threads=threads)
        return race.Race(decoding(factory), ask, visitor)

    return job.stream(make, jobs or job.Jobs(), name)


def raw(frame: dict[str, Any]) -> bytes:
    """The trace file so far; empty if it is gone."""
    return KEPT_RUNS.read(frame["trace"].removeprefix("runs/")) or b""


def trace_of(frame: dict[str, Any]) -> Trace:
    """The trace of a last frame."""
    return read_trace(raw(frame)[: frame["size"]])


TOKEN = "a-token-of-a-tab"


def ask(token: str = TOKEN, explore: str = "counting", **choice: Any) -> str:
    return json.dumps({"token": token, "explore": explore, "settings": choice})
