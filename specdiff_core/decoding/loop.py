"""The one decoding loop: draft, score, verify, commit. Vanilla autoregressive decoding is the same
loop with a drafter that drafts nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.controller import Controller, Fixed
from specdiff_core.decoding.reporting import choice_event, draft_event, scored_event, step_event, verified_event
from specdiff_core.decoding.verify import Decision, verify
from specdiff_core.drafters.base import Context, Draft, Drafter, DraftSession
from specdiff_core.maths.distributions import lazy_confidence, to_probs
from specdiff_core.maths.randomness import Streams
from specdiff_core.models.target import Target
from specdiff_core.schema.events import Committed, Event, Finished, Prefilled, RoundStarted, Span
from specdiff_core.schema.metrics import passed_positions
from specdiff_core.schema.settings import DecodeConfig

NARROW = 8
"""Tokens of an earlier run that a pass reads again."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends a run besides its limits."""

    ids: Sequence[int] = ()  # that end the text
    cut: Callable[[Sequence[int], Sequence[int]], int | None] | None = None
    """(new tokens so far, tokens of a round) -> how many of these complete a stop string, or None."""
    stopped: Callable[[], bool] = lambda: False  # called before each pass of drafter and target

    def of(self, text: Sequence[int], fresh: Sequence[int]) -> tuple[int, str]:
        """How many ``fresh`` tokens of a round belong to the text, and why it ends, or ""."""
        count = next((i + 1 for i, token in enumerate(fresh) if token in self.ids), None)
        short = None if self.cut is None else self.cut(text, fresh[:count])
        if short is not None:
            return short, "stop_string"
        return (len(fresh), "") if count is None else (count, "end_of_text")


def speculate(
    prompt: Sequence[int],
    config: DecodeConfig,
    target: Target,
    drafter: Drafter,
    clock: DeviceClock,
    *,
    after: int = 0,
    controller: Controller | None = None,
    ending: Ending | None = None,
    detail: bool = True,
    streams: Streams | None = None,
    verifier: Callable[..., Decision] = verify,
) -> Iterator[Event]:
    """Speculative diffusion decoding (SpecDiff, Algorithm 1), one event at a time.

    Args:
        prompt: token ids, at least one; the last is the first anchor.
        after: how many of them an earlier run wrote: they are read in passes as narrow as a round's, because a wide one
            rounds differently.
        controller: chooses γ and T of each round; by default those of the settings.
        ending: end-of-text ids, stop strings and the Stop button; by default only limits.
        detail: emit every denoising step and all candidates, not only what metrics need.
        streams: all randomness; by default that of the settings' seed.
        verifier: takes the arguments of :func:`~specdiff_core.decoding.verify.verify`; others are for study only.

    Yields:
        Prefilled; per round RoundStarted, Decided (from a controller that adapts), DenoiseStep*,
        DraftReady, TargetScored, Verified, Committed; Finished (with an empty text: the loop has no
        tokenizer). The clock is off at every yield.
    """
    controller, ending = controller or Fixed(config), ending or Ending()
    streams = streams or Streams(config.seed, shared=config.rule.same_text)
    ids, round, reason = list(prompt), -1, ""
    clock.start()

    # The target reads the prompt, except the anchor.
    with clock.span("prefill") as prefill:
        target_session, draft_session = target.start(drafter.layers), drafter.start()
        for start, end in pairwise([0, *range(len(ids) - 1 - after, len(ids) - 1, NARROW), len(ids) - 1]):
            if ending.stopped():
                reason = "stopped"
                break
            draft_session.observe(ids[start:end], target_session.read(ids[start:end]))
    yield from clock.report(Prefilled, tokens=target_session.length, span=prefill.span)

    while not reason:
        round, anchor, total = round + 1, ids[-1], len(ids) - len(prompt)
        yield from clock.report(RoundStarted, round=round, length=len(ids), anchor=anchor)

        # Draft at most γ tokens, limited by what may still be emitted, drafted or read.
        room = target_session.room - 1
        most = min(config.gamma, config.max_new_tokens - total - 1, room, draft_session.room)
        choice = controller.choose(max(0, most))
        if controller.adaptive:
            yield from clock.report(choice_event, round, choice, config.tree_nodes > 0)
        context = Context(
            ids=ids,
            gamma=choice.gamma,
            steps=choice.steps,
            order=config.order,
            sampling=config.draft_sampling,
            tree_nodes=min(config.tree_nodes, room) if choice.gamma > 0 else 0,
            min_node_prob=controller.min_node_prob,
            num_drafts=max(1, min(config.num_drafts, room // max(choice.gamma, 1))),
            stop_criterion=controller.stop_criterion,
            sampler=streams.draft(round),
        )
        draft, draft_span = yield from _draft(draft_session, context, target.vocab_size, ending, clock, round, detail)
        if ending.stopped():
            reason = "stopped"
            break

        # Score the anchor and the draft in one pass of the target: a distribution after each token.
        with clock.span("score") as score:
            scores = target_session.score([anchor, *draft.ids], draft.parents)
            target_probs = to_probs(scores.logits, config.sampling, target.suppress)
        confidence = lazy_confidence(scores.logits, target_probs, config.sampling, target.suppress)
        yield from clock.report(scored_event, round, draft, target_probs, confidence, score.span, detail)

        # Verify from left to right; the target adds one token of its own; roll the rest back.
        with clock.span("verify") as verification:
            positions = range(len(ids), len(ids) + len(draft.ids) + 1)
            verdict, dist = verifier(
                draft, target_probs, config.rule_used, streams.verify(round), positions, config.selection
            )
            accepted = [draft.ids[node] for node in verdict.path]
            rows = [0, *(node + 1 for node in verdict.path)]  # of the pass: anchor, accepted tokens
            target_session.rollback(1 + len(draft.ids), rows)
            draft_session.observe([anchor, *accepted], None if scores.features is None else scores.features[rows])
            sources = (*["draft"] * verdict.accepted, verdict.source)
            count, reason = ending.of(ids[len(prompt) :], [*accepted, verdict.extra])
            committed = (*accepted, verdict.extra)[:count]
            ids += committed
        target_seconds = score.span.seconds + verification.span.seconds
        passed = passed_positions(verdict.tests)
        controller.learn(passed, draft_span.seconds, draft.nfe, target_seconds, 1 + len(draft.ids))
        assert reason or target_session.length == len(ids) - 1, "the cache holds all but the anchor"
        total += len(committed)
        if not reason and total >= config.max_new_tokens:
            reason = "length"
        elif not reason and target_session.room < 1:
            reason = "context_full"
        at = clock.now()
        with clock.off():
            yield verified_event(round, draft, verdict, dist, config.rule_used, verification.span, detail)
            yield Committed(round=round, ids=committed, sources=sources[:count], total=total, at=at)

    seconds = clock.finish()
    yield Finished(
        reason=reason,
        text="",
        ids=tuple(ids[len(prompt) :]),
        rounds=max(0, round + (reason != "stopped")),  # the last is whole unless the run was stopped
        seconds=seconds,
        seconds_by={**clock.spent, "other": seconds - sum(clock.spent.values())},
    )


def _draft(
    session: DraftSession,
    context: Context,
    vocab_size: int,
    ending: Ending,
    clock: DeviceClock,
    round: int,
    detail: bool,
) -> Generator[Event, None, tuple[Draft, Span]]:
    """Let the session fill its window, one timed step at a time."""
    drafting = session.draft(context) if context.gamma > 0 else None
    spans: list[Span] = []
    draft = Draft.empty()
    while drafting is not None and not ending.stopped():
        with clock.span("draft") as timer:
            try:
                state = next(drafting)
            except StopIteration as done:
                draft, drafting = done.value, None
                draft.check(context.gamma, vocab_size, context.tree_nodes)
                draft = draft.truncated(ending.ids)
        spans.append(timer.span)
        if drafting is not None:
            with clock.off():
                state.check(context.gamma)
                if detail:
                    yield step_event(round, len(spans) - 1, state, timer.span)
    if drafting is not None:  # stopped: nothing was drafted, but its passes were made
        draft = dataclasses.replace(draft, nfe=len(spans))
    started = spans[0].start if spans else clock.now()
    span = Span(name="draft", start=started, seconds=sum((part.seconds for part in spans), 0.0))
    yield from clock.report(draft_event, round, draft, span, detail)
    return draft, span
