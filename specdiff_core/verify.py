"""The acceptance rules: given a draft and the target's distributions, how many tokens survive, and which one follows.

Pure: chance comes in as an argument, so that tests can enumerate every outcome. In formulas p is the target, q the
drafter, x a drafted token, u ~ U(0, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specdiff_core.config import Rule
from specdiff_core.drafters.base import Draft
from specdiff_core.rng import Chance
from specdiff_core.sampling import residual, without


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One test, as it happened."""

    p: float
    q: float
    threshold: float
    draw: float | None
    wanted: int | None
    accepted: bool
    kind: str  # ratio, delta or match


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``accepted`` drafted tokens survive, then ``extra`` follows, drawn from ``law``."""

    trials: tuple[Trial, ...]
    accepted: int
    extra: int
    source: str  # residual, bonus or target
    law: Tensor  # [V]
    fallback: str
    lossless: bool


def verify(draft: Draft, target_probs: Tensor, rule: Rule, chance: Chance, positions: Sequence[int]) -> Verdict:
    """Test a draft from left to right (SpecDiff Algorithm 1, lines 6-12; exactness: papers.md §7).

    Args:
        draft: g tokens.
        target_probs: ``[g+1, V]`` float64, processed p after the anchor and after each drafted token.
        rule: ``ratio`` min(1, p/q) where exact, else delta; ``delta`` accept with p(x); ``match`` the target's own
            draw decides; ``naive`` min(1, p/q) everywhere, biased where a position is revealed before one to its
            left, or chosen by its drawn value.
        chance: the verification stream of this round.
        positions: ``[g+1]`` absolute positions, for noise keyed by position.
    """
    size = draft.ids.numel()
    tokens = draft.ids.tolist()
    p = target_probs[range(size), tokens].tolist()
    q = [1.0] * size if draft.probs is None else draft.probs[range(size), tokens].tolist()
    if rule is Rule.MATCH:
        return _match(tokens, p, q, target_probs, chance, positions)
    soft = tuple(draft.probs is not None and (rule is Rule.NAIVE or ok) for ok in draft.soft)
    if rule is Rule.DELTA:
        soft = (False,) * len(soft)
    trials: list[Trial] = []
    law, source = target_probs[size], "bonus"
    for i in range(size):
        # u < min(1, p/q): the drafted token is kept. A point mass has q(x) = 1.
        threshold = min(1.0, p[i] / q[i]) if soft[i] else p[i]
        accepted, draw = chance.accept(threshold)
        kind = "ratio" if soft[i] else "delta"
        trials.append(Trial(p=p[i], q=q[i], threshold=threshold, draw=draw, wanted=None, accepted=accepted, kind=kind))
        if not accepted:
            # The residual: what p still lacks once min(p, q) has been given to x.
            if soft[i] and draft.probs is not None:
                law = residual(target_probs[i], draft.probs[i].to(target_probs.device))
            else:
                law = without(target_probs[i], tokens[i])
            source = "residual"
            break
    kept = sum(trial.accepted for trial in trials)
    return Verdict(
        trials=tuple(trials),
        accepted=kept,
        extra=int(chance.pick(law[None], [positions[kept]])[0]),
        source=source,
        law=law,
        fallback=_fallback(draft, rule),
        lossless=rule.lossless,
    )


def _match(
    tokens: Sequence[int],
    p: Sequence[float],
    q: Sequence[float],
    target_probs: Tensor,
    chance: Chance,
    positions: Sequence[int],
) -> Verdict:
    """Emit y_i = argmax(log p_i + g_i); keep the draft while it says the same (papers.md §7.3, rule 2)."""
    size = len(tokens)
    trials: list[Trial] = []
    for i in range(size + 1):
        wanted = int(chance.pick(target_probs[i : i + 1], positions[i : i + 1])[0])
        if i == size:
            break
        same = wanted == tokens[i]
        trials.append(
            Trial(p=p[i], q=q[i], threshold=float(same), draw=None, wanted=wanted, accepted=same, kind="match")
        )
        if not same:
            break
    kept = sum(trial.accepted for trial in trials)
    return Verdict(
        trials=tuple(trials),
        accepted=kept,
        extra=wanted,
        source="bonus" if kept == size else "target",
        law=target_probs[kept],
        fallback="",
        lossless=True,
    )


def _fallback(draft: Draft, rule: Rule) -> str:
    """Why the ratio rule tested some positions as point masses."""
    if rule is not Rule.RATIO or all(draft.soft):
        return ""
    if draft.probs is None:
        return "The drafter gives no probabilities: its tokens are tested as point masses."
    if not any(draft.soft):
        return "Positions were chosen by their drawn values: p/q would be biased, so every token is a point mass."
    hard = sum(not ok for ok in draft.soft)
    return f"{hard} of {len(draft.soft)} positions were revealed before a position to their left: point masses there."
