"""Makes events from a round's tensors, off the decode clock."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import asdict
from torch import Tensor

from specdiff_core.decoding.verify import drafted_probs
from specdiff_core.drafters.base import DenoiseState, Draft
from specdiff_core.schema.events import (
    Candidate,
    Choice,
    Decided,
    DenoiseStep,
    DraftReady,
    Span,
    TargetScored,
    Verdict,
    Verified,
    rounded,
)
from specdiff_core.schema.settings import Rule

TOP = 5


def top_candidates(probs: Tensor, count: int = TOP) -> tuple[tuple[Candidate, ...], ...]:
    """The most probable tokens of each row of ``probs [n, V]``, without those of probability 0."""
    best = probs.topk(min(count, probs.shape[-1]), -1)
    return tuple(
        tuple(Candidate(id=i, prob=rounded(p)) for i, p in zip(ids, values, strict=True) if p > 0)
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )


def choice_event(round: int, choice: Choice, tree: bool) -> Decided:
    values = asdict(choice)
    if tree:  # its nodes are weighed one by one, not as a window
        values |= {"best_gamma": 0, "tokens": 0.0, "seconds": 0.0}
    short = {name: rounded(value) for name, value in values.items() if isinstance(value, float)}
    return Decided(round=round, **{**values, **short, "alphas": tuple(map(rounded, choice.alphas))})


def step_event(round: int, step: int, state: DenoiseState, span: Span) -> DenoiseStep:
    masked = state.masked.tolist()
    earlier = [not m and i not in state.revealed for i, m in enumerate(masked)]
    confidence = state.confidence()
    best = confidence.amax(-1).tolist()
    return DenoiseStep(
        round=round,
        step=step,
        ids=tuple(None if m else i for i, m in zip(state.ids.tolist(), masked, strict=True)),
        revealed=state.revealed,
        confidence=tuple(1.0 if k else rounded(c) for c, k in zip(best, earlier, strict=True)),
        candidates=tuple(() if k else c for c, k in zip(top_candidates(confidence, 3), earlier, strict=True)),
        span=span,
    )


def draft_event(round: int, draft: Draft, span: Span, detail: bool) -> DraftReady:
    nodes = zip(draft.totals, draft.parents or (), strict=True) if detail and draft.totals else ()
    return DraftReady(
        round=round,
        ids=draft.ids,
        q=tuple(map(rounded, draft.q)),
        reveal_steps=draft.reveal_steps,
        exact_q=draft.exact_q,
        proposal="point_mass" if draft.probs is None else "conditionals",
        nfe=draft.nfe,
        parents=draft.parents or (),
        branches=draft.branches,
        node_q=tuple(rounded(math.exp(total - (draft.totals[node] if node >= 0 else 0.0))) for total, node in nodes),
        span=span,
    )


def scored_event(
    round: int, draft: Draft, target_probs: Tensor, confidence: Callable[[], Tensor], span: Span, detail: bool
) -> TargetScored:
    """``confidence``: the target's distributions ``[g+1, V]``, at temperature 1 in a greedy run."""
    return TargetScored(
        round=round,
        p=tuple(map(rounded, drafted_probs(draft, target_probs)[0])),
        candidates=top_candidates(confidence()) if detail else (),
        span=span,
    )


def verified_event(
    round: int, draft: Draft, verdict: Verdict, dist: Tensor, rule: Rule, span: Span, detail: bool
) -> Verified:
    values = {**asdict(verdict), "path": () if draft.parents is None else verdict.path}
    candidates = top_candidates(dist[None])[0] if detail else ()
    return Verified(round=round, extra_candidates=candidates, rule=rule.value, span=span, **values)
