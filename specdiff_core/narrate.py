"""Turns what happened into events: tensors in, plain values out. Decides nothing; never runs on the decode clock."""

from __future__ import annotations

from torch import Tensor

from specdiff_core.config import Rule
from specdiff_core.controller import Choice
from specdiff_core.drafters.base import DenoiseState, Draft, picked
from specdiff_core.events import Candidate, Decided, DenoiseStep, DraftReady, Span, TargetScored, Test, Verified
from specdiff_core.verify import Verdict, node_probs

TOP = 5


def _round(value: float) -> float:
    """Seven significant digits: what fp32 holds, and no more bytes in a trace."""
    return float(f"{value:.7g}")


def top_candidates(probs: Tensor, count: int = TOP) -> tuple[tuple[Candidate, ...], ...]:
    """The most probable tokens of each row of ``probs [n, V]``, without the impossible ones."""
    best = probs.topk(min(count, probs.shape[-1]), -1)
    return tuple(
        tuple(Candidate(id=i, prob=_round(p)) for i, p in zip(ids, values, strict=True) if p > 0)
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )


def tell_choice(round: int, choice: Choice) -> Decided:
    return Decided(
        round=round,
        gamma=choice.gamma,
        steps=choice.steps,
        best_gamma=choice.best_gamma,
        tokens=_round(choice.tokens),
        seconds=_round(choice.seconds),
        rate=_round(choice.rate),
        alphas=tuple(map(_round, choice.alphas)),
        pass_seconds=_round(choice.pass_seconds),
        row_seconds=_round(choice.row_seconds),
    )


def tell_step(round: int, step: int, state: DenoiseState, span: Span) -> DenoiseStep:
    masked = state.masked.tolist()
    known = [not m and i not in state.revealed for i, m in enumerate(masked)]
    belief = state.belief()
    best = belief.amax(-1).tolist()
    return DenoiseStep(
        round=round,
        step=step,
        ids=tuple(None if m else i for i, m in zip(state.ids.tolist(), masked, strict=True)),
        revealed=state.revealed,
        confidence=tuple(1.0 if k else _round(c) for c, k in zip(best, known, strict=True)),
        candidates=tuple(() if k else c for c, k in zip(top_candidates(belief, 3), known, strict=True)),
        span=span,
    )


def tell_draft(round: int, draft: Draft, span: Span) -> DraftReady:
    ids = draft.ids.tolist()
    q = [1.0] * len(ids) if draft.probs is None else picked(draft.probs, draft.ids)
    return DraftReady(
        round=round,
        ids=tuple(ids),
        q=tuple(map(_round, q)),
        reveal_steps=draft.reveal_steps,
        soft=draft.soft,
        proposal="point_mass" if draft.probs is None else "conditionals",
        nfe=draft.nfe,
        parents=draft.parents or (),
        branches=draft.branches,
        span=span,
    )


def tell_scored(round: int, draft: Draft, target_probs: Tensor, span: Span, detail: bool) -> TargetScored:
    return TargetScored(
        round=round,
        p=tuple(map(_round, node_probs(draft, target_probs))),
        candidates=top_candidates(target_probs) if detail and draft.parents is None else (),
        span=span,
    )


def tell_verified(round: int, draft: Draft, verdict: Verdict, rule: Rule, span: Span, detail: bool) -> Verified:
    tests = tuple(
        Test(
            position=i if trial.depth is None else trial.depth,
            id=trial.token,
            p=_round(trial.p),
            q=_round(trial.q),
            threshold=_round(trial.threshold),
            draw=trial.draw,
            wanted=trial.wanted,
            accepted=trial.accepted,
            kind=trial.kind,
        )
        for i, trial in enumerate(verdict.trials)
    )
    return Verified(
        round=round,
        tests=tests,
        accepted=verdict.accepted,
        path=() if draft.parents is None else verdict.path,
        scores=tuple(map(_round, verdict.scores)),
        chosen=verdict.chosen,
        extra=verdict.extra,
        source=verdict.source,
        residual=top_candidates(verdict.law[None])[0] if detail else (),
        rule=rule.value,
        fallback=verdict.fallback,
        lossless=verdict.lossless,
        span=span,
    )
