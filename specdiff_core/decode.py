"""The one decoding loop: draft, score, verify, commit. Knows no model by name, no file and no page.

Vanilla autoregressive decoding is the same loop with a drafter that drafts nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence

from specdiff_core.clock import DeviceClock, merge
from specdiff_core.config import DecodeConfig, Rule
from specdiff_core.controller import Controller, Fixed
from specdiff_core.drafters.base import Context, Draft, Drafter, DraftSession
from specdiff_core.events import Committed, Event, Finished, Prefilled, RoundStarted, Span
from specdiff_core.narrate import tell_choice, tell_draft, tell_scored, tell_step, tell_verified
from specdiff_core.rng import Streams
from specdiff_core.sampling import process
from specdiff_core.target import Target
from specdiff_core.verify import verify


def speculate(
    prompt: Sequence[int],
    config: DecodeConfig,
    target: Target,
    drafter: Drafter,
    clock: DeviceClock,
    *,
    controller: Controller | None = None,
    ends: Sequence[int] = (),
    narrate: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Speculative diffusion decoding (SpecDiff, Algorithm 1), one event at a time.

    Args:
        prompt: token ids, at least one; the last is the first anchor.
        controller: chooses γ and T of each round; by default they are the settings'.
        ends: ids that end the text.
        narrate: emit every denoising step and the candidates behind each number; without, only what metrics need.
        stopped: asked before each drafter pass and each scoring pass.

    Yields:
        Prefilled; per round RoundStarted, Decided (of a controller that decides), DenoiseStep*, DraftReady,
        TargetScored, Verified, Committed; Finished (with an empty text: the loop knows no tokenizer). The clock stands
        still at every yield.
    """
    controller = controller or Fixed(config)
    streams = Streams(config.seed, shared=config.rule is Rule.MATCH)
    ids, seconds = list(prompt), {"prefill": 0.0, "draft": 0.0, "score": 0.0, "verify": 0.0}
    total, round, reason = 0, -1, ""
    clock.start()

    # The target reads the prompt, except the anchor.
    with clock.span("prefill") as reading:
        target_run, draft_run = target.start(drafter.layers), drafter.start()
        draft_run.observe(ids[:-1], target_run.read(ids[:-1]))
    seconds["prefill"] += reading.span.seconds
    with clock.off():
        yield Prefilled(tokens=len(ids) - 1, span=reading.span)

    while not reason:
        round += 1
        anchor = ids[-1]
        with clock.off():
            yield RoundStarted(round=round, length=len(ids), anchor=anchor)

        # Draft at most γ tokens: never more than may still be emitted or read.
        choice = controller.choose(min(config.max_new_tokens - total - 1, target_run.room - 1))
        gamma = choice.gamma
        if controller.adaptive:
            with clock.off():
                yield tell_choice(round, choice)
        nodes = min(config.tree_nodes, target_run.room - 1) if gamma > 0 else 0
        drafts = max(1, min(config.num_drafts, (target_run.room - 1) // max(gamma, 1)))
        context = Context(
            ids=ids,
            gamma=gamma,
            steps=choice.steps,
            order=config.order,
            sampling=config.draft_sampling,
            nodes=nodes,
            worth=controller.worth,
            drafts=drafts,
            keep=controller.keep,
            chance=streams.draft(round),
        )
        draft, drafting = yield from _draft(draft_run, context, target.vocab_size, ends, clock, round, narrate, stopped)
        seconds["draft"] += drafting.seconds
        if stopped():
            reason = "stopped"
            break

        # Score anchor and draft in one pass of the target: a distribution behind each token.
        with clock.span("score") as scoring:
            drafted = draft.ids.tolist()
            scores = target_run.score([anchor, *drafted], draft.parents)
            target_probs = process(scores.logits, config.sampling, target.suppress)
        seconds["score"] += scoring.span.seconds
        with clock.off():
            yield tell_scored(round, draft, target_probs, scoring.span, narrate)

        # Verify from left to right; the target adds one token of its own; forget the rest.
        with clock.span("verify") as testing:
            positions = range(len(ids), len(ids) + len(drafted) + 1)
            verdict = verify(draft, target_probs, config.rule, streams.verify(round), positions, config.selection)
            rows = [0, *(place + 1 for place in verdict.path)]  # of the pass, that stay
            accepted = [drafted[place] for place in verdict.path]
            target_run.keep(1 + len(drafted), rows)
            draft_run.observe([anchor, *accepted], None if scores.features is None else scores.features[rows])
            fresh = [*accepted, verdict.extra]
            sources = ["draft"] * verdict.accepted + [verdict.source]
            end = next((i + 1 for i, token in enumerate(fresh) if token in ends), None)
            fresh, sources = fresh[:end], sources[:end]
            ids += fresh
            total += len(fresh)
        seconds["verify"] += testing.span.seconds
        tests = [trial.accepted for trial in verdict.trials]
        controller.learn(
            tests, drafting.seconds, draft.nfe, scoring.span.seconds + testing.span.seconds, 1 + len(drafted)
        )
        assert end is not None or target_run.length == len(ids) - 1, "the cache holds all but the anchor"
        if end is not None:
            reason = "end_of_text"
        elif total >= config.max_new_tokens:
            reason = "length"
        elif target_run.room < 1:
            reason = "context_full"
        at = clock.now()
        with clock.off():
            yield tell_verified(round, draft, verdict, config.rule, testing.span, narrate)
            yield Committed(round=round, ids=tuple(fresh), sources=tuple(sources), total=total, at=at)

    whole = clock.finish()
    yield Finished(
        reason=reason,
        text="",
        ids=tuple(ids[len(prompt) :]),
        rounds=round + (reason != "stopped"),
        seconds=whole,
        seconds_by={**seconds, "other": whole - sum(seconds.values())},
    )


def _draft(
    session: DraftSession,
    context: Context,
    vocab_size: int,
    ends: Sequence[int],
    clock: DeviceClock,
    round: int,
    narrate: bool,
    stopped: Callable[[], bool],
) -> Generator[Event, None, tuple[Draft, Span]]:
    """Let the session fill its window, one timed step at a time."""
    drafting = session.draft(context) if context.gamma > 0 else None
    spans: list[Span] = []
    draft = Draft.empty()
    while drafting is not None and not stopped():
        with clock.span("draft") as timer:
            try:
                state = next(drafting)
            except StopIteration as done:
                draft, drafting = done.value, None
                draft.check(context.gamma, vocab_size, context.nodes)
                draft = draft.until(ends)
        spans.append(timer.span)
        if drafting is not None and narrate:
            with clock.off():
                yield tell_step(round, len(spans) - 1, state, timer.span)
    if drafting is not None:  # stopped: nothing was drafted, but its passes were made
        draft = dataclasses.replace(draft, nfe=len(spans))
    span = merge(spans, "draft") if spans else Span(name="draft", start=clock.now(), seconds=0.0)
    with clock.off():
        yield tell_draft(round, draft, span)
    return draft, span
