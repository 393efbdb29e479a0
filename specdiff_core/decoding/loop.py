"""The one decoding loop: draft, score, verify, commit. Vanilla autoregressive decoding is the same loop with a drafter
that drafts nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence

from specdiff_core.decoding.clock import DeviceClock, merge
from specdiff_core.decoding.controller import Controller, Fixed
from specdiff_core.decoding.reporting import choice_event, draft_event, scored_event, step_event, verified_event
from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Context, Draft, Drafter, DraftSession
from specdiff_core.maths.distributions import lazy_confidence, to_probs
from specdiff_core.maths.randomness import Streams
from specdiff_core.models.target import Target
from specdiff_core.schema.events import Committed, Event, Finished, Prefilled, RoundStarted, Span
from specdiff_core.schema.settings import DecodeConfig


def speculate(
    prompt: Sequence[int],
    config: DecodeConfig,
    target: Target,
    drafter: Drafter,
    clock: DeviceClock,
    *,
    controller: Controller | None = None,
    ends: Sequence[int] = (),
    cut: Callable[[Sequence[int], Sequence[int]], int | None] | None = None,
    detail: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Speculative diffusion decoding (SpecDiff, Algorithm 1), one event at a time.

    Args:
        prompt: token ids, at least one; the last is the first anchor.
        controller: chooses γ and T of each round; by default they are the settings'.
        ends: ids that end the text.
        cut: of the new tokens so far and those of a round, how many of the round's are left where the text ends; None
            where it goes on.
        detail: emit every denoising step and the candidates behind each number; otherwise only what metrics need.
        stopped: asked before each drafter pass and each scoring pass.

    Yields:
        Prefilled; per round RoundStarted, Decided (from a controller that adapts), DenoiseStep*, DraftReady,
        TargetScored, Verified, Committed; Finished (with an empty text: the loop has no tokenizer). The clock stands
        still at every yield.
    """
    controller = controller or Fixed(config)
    streams = Streams(config.seed, shared=config.rule.same_text)
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
                yield choice_event(round, choice)
        context = Context(
            ids=ids,
            gamma=gamma,
            steps=choice.steps,
            order=config.order,
            sampling=config.draft_sampling,
            tree_nodes=min(config.tree_nodes, target_run.room - 1) if gamma > 0 else 0,
            min_node_prob=controller.min_node_prob,
            num_drafts=max(1, min(config.num_drafts, (target_run.room - 1) // max(gamma, 1))),
            stop_criterion=controller.stop_criterion,
            sampler=streams.draft(round),
        )
        draft, drafting = yield from _draft(draft_run, context, target.vocab_size, ends, clock, round, detail, stopped)
        seconds["draft"] += drafting.seconds
        if stopped():
            reason = "stopped"
            break

        # Score anchor and draft in one pass of the target: a distribution after each token.
        with clock.span("score") as scoring:
            drafted = draft.ids.tolist()
            scores = target_run.score([anchor, *drafted], draft.parents)
            target_probs = to_probs(scores.logits, config.sampling, target.suppress)
        seconds["score"] += scoring.span.seconds
        with clock.off():
            soft = lazy_confidence(scores.logits, target_probs, config.sampling, target.suppress)
            yield scored_event(round, draft, target_probs, soft, scoring.span, detail)

        # Verify from left to right; the target adds one token of its own; roll the rest back.
        with clock.span("verify") as testing:
            positions = range(len(ids), len(ids) + len(drafted) + 1)
            verdict, dist = verify(draft, target_probs, config.rule, streams.verify(round), positions, config.selection)
            rows = [0, *(place + 1 for place in verdict.path)]  # of the pass, that stay
            accepted = [drafted[place] for place in verdict.path]
            target_run.rollback(1 + len(drafted), rows)
            draft_run.observe([anchor, *accepted], None if scores.features is None else scores.features[rows])
            fresh = [*accepted, verdict.extra]
            sources = ["draft"] * verdict.accepted + [verdict.source]
            end = next((i + 1 for i, token in enumerate(fresh) if token in ends), None)
            short = None if cut is None else cut(ids[len(prompt) :], fresh[:end])
            fresh, sources = fresh[: short or end], sources[: short or end]
            ids += fresh
            total += len(fresh)
        seconds["verify"] += testing.span.seconds
        tests = [test.accepted for test in verdict.tests]
        controller.learn(
            tests, drafting.seconds, draft.nfe, scoring.span.seconds + testing.span.seconds, 1 + len(drafted)
        )
        over = end is not None or short is not None
        assert over or target_run.length == len(ids) - 1, "the cache holds all but the anchor"
        if short is not None:
            reason = "stop_string"
        elif end is not None:
            reason = "end_of_text"
        elif total >= config.max_new_tokens:
            reason = "length"
        elif target_run.room < 1:
            reason = "context_full"
        at = clock.now()
        with clock.off():
            yield verified_event(round, draft, verdict, dist, config.rule, testing.span, detail)
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
    detail: bool,
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
                draft.check(context.gamma, vocab_size, context.tree_nodes)
                draft = draft.until(ends)
        spans.append(timer.span)
        if drafting is not None and detail:
            with clock.off():
                state.check(context.gamma)
                yield step_event(round, len(spans) - 1, state, timer.span)
    if drafting is not None:  # stopped: nothing was drafted, but its passes were made
        draft = dataclasses.replace(draft, nfe=len(spans))
    span = merge(spans, "draft") if spans else Span(name="draft", start=clock.now(), seconds=0.0)
    with clock.off():
        yield draft_event(round, draft, span)
    return draft, span
