"""The acceptance rules: given a draft and the target's distributions, how many tokens survive, and which one follows.

Pure: chance comes in as an argument, so that tests can enumerate every outcome. In formulas p is the target, q the
drafter, x a drafted token, u ~ U(0, 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul

from torch import Tensor

from specdiff_core.config import Rule, Selection
from specdiff_core.drafters.base import Draft, picked
from specdiff_core.rng import Chance
from specdiff_core.sampling import residual, without
from specdiff_core.tree import ROOT, children


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One test, as it happened. Of a tree: p and threshold are of all children of a node together."""

    token: int
    p: float
    q: float
    threshold: float
    draw: float | None
    wanted: int | None
    accepted: bool
    kind: str  # ratio, delta, match or tree
    depth: int | None = None  # of several drafts: the position that it is about; else its number is its position


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The drafted tokens of ``path`` survive, then ``extra`` follows, drawn from ``law``."""

    trials: tuple[Trial, ...]
    path: tuple[int, ...]  # places in the draft; 0, 1, 2, … of a window
    extra: int
    source: str  # residual, bonus or target
    law: Tensor  # [V]
    fallback: str
    lossless: bool
    scores: tuple[float, ...] = ()  # of several drafts: S, the expected run of each
    chosen: int | None = None  # the draft that was selected, where one was

    @property
    def accepted(self) -> int:
        """How many drafted tokens survive."""
        return len(self.path)


def verify(
    draft: Draft,
    target_probs: Tensor,
    rule: Rule,
    chance: Chance,
    positions: Sequence[int],
    selection: Selection = Selection.TRIE,
) -> Verdict:
    """Test a draft from left to right (SpecDiff Algorithm 1, lines 6-12; exactness: papers.md §7). A tree is walked by
    the target's own draws, whatever the rule: exact, because it was fixed before they were made.

    Args:
        draft: g tokens, a window or a tree.
        target_probs: ``[g+1, V]`` float64, processed p after the anchor and after each drafted token.
        rule: ``ratio`` min(1, p/q) where exact, else delta; ``delta`` accept with p(x); ``match`` the target's own
            draw decides; ``naive`` min(1, p/q) everywhere, biased where a position is revealed before one to its
            left, or chosen by its drawn value.
        chance: the verification stream of this round.
        positions: ``[g+1]`` absolute positions, for noise keyed by position.
        selection: what becomes of several drafts.
    """
    if draft.branches:
        scores = expected_runs(draft, target_probs)
        if selection is Selection.SELF:
            return _select(draft, scores, target_probs, rule, chance, positions)
        if selection is Selection.MULTI_ROUND and rule is not Rule.MATCH:
            return replace(_rounds(draft, target_probs, chance, positions), scores=scores)
        return replace(_walk(draft, target_probs, rule, chance, positions), scores=scores)
    if draft.parents is not None:
        return _walk(draft, target_probs, rule, chance, positions)
    size = draft.ids.numel()
    tokens = draft.ids.tolist()
    p = node_probs(draft, target_probs)
    q = [1.0] * size if draft.probs is None else picked(draft.probs, draft.ids)
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
        trials.append(
            Trial(
                token=tokens[i],
                p=p[i],
                q=q[i],
                threshold=threshold,
                draw=draw,
                wanted=None,
                accepted=accepted,
                kind=kind,
            )
        )
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
        path=tuple(range(kept)),
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
            Trial(
                token=tokens[i],
                p=p[i],
                q=q[i],
                threshold=float(same),
                draw=None,
                wanted=wanted,
                accepted=same,
                kind="match",
            )
        )
        if not same:
            break
    kept = sum(trial.accepted for trial in trials)
    return Verdict(
        trials=tuple(trials),
        path=tuple(range(kept)),
        extra=wanted,
        source="bonus" if kept == size else "target",
        law=target_probs[kept],
        fallback="",
        lossless=True,
    )


def node_probs(draft: Draft, target_probs: Tensor) -> list[float]:
    """p of each drafted token behind what comes before it: in a window the token to its left, in a tree its parent."""
    if draft.parents is None:
        return picked(target_probs[: draft.ids.numel()], draft.ids)
    return picked(target_probs[[parent + 1 for parent in draft.parents]], draft.ids)


def expected_runs(draft: Draft, target_probs: Tensor) -> tuple[float, ...]:
    """S(x) = Σ_m Π_{j≤m} p_j(x_j) of each draft: how many of its tokens the point-mass rule is expected to accept
    (papers.md §2.3)."""
    p = node_probs(draft, target_probs)
    return tuple(sum(itertools.accumulate((p[node] for node in branch), mul)) for branch in draft.branches)


def _select(
    draft: Draft, scores: Sequence[float], target_probs: Tensor, rule: Rule, chance: Chance, positions: Sequence[int]
) -> Verdict:
    """Self-selection (SpecDiff-2): the draft with the largest S, tested as a point mass.

    Exact although the target chose it: the choice does not see the draws of the test, and the residual is p without x.
    p/q would be biased, because a selected token no longer follows q (papers.md §7.5).
    """
    chosen = max(range(len(scores)), key=lambda k: scores[k])  # the first of equals
    branch = draft.branches[chosen]
    window = Draft(
        ids=draft.ids[list(branch)],
        probs=None,
        reveal_steps=(0,) * len(branch),
        soft=(False,) * len(branch),
        nfe=draft.nfe,
    )
    own = Rule.MATCH if rule is Rule.MATCH else Rule.DELTA
    verdict = verify(window, target_probs[[0, *(node + 1 for node in branch)]], own, chance, positions)
    return replace(
        verdict,
        path=tuple(branch[place] for place in verdict.path),
        fallback="" if rule is not Rule.RATIO else "A selected draft no longer follows q: its tokens are point masses.",
        scores=tuple(scores),
        chosen=chosen,
    )


def _rounds(draft: Draft, target_probs: Tensor, chance: Chance, positions: Sequence[int]) -> Verdict:
    """Multi-round rejection (SpecInfer; SpecDiff-2's released acceptor): at each depth the drafts that are still alive
    propose in the order in which they were drawn; after each refusal p becomes what it still lacks, norm((p − q)₊)."""
    assert draft.probs is not None, "several drafts are drawn from q"
    tokens = draft.ids.tolist()
    trials: list[Trial] = []
    path: list[int] = []
    alive = list(draft.branches)
    law, source = target_probs[0], "bonus"
    while alive and len(alive[0]) > len(path):
        source, taken = "residual", None
        for branch in alive:
            node = branch[len(path)]
            token, q = tokens[node], draft.probs[node].to(law.device)
            threshold = min(1.0, float(law[token] / q[token]))
            accepted, draw = chance.accept(threshold)
            trials.append(
                Trial(
                    token=token,
                    p=float(law[token]),
                    q=float(q[token]),
                    threshold=threshold,
                    draw=draw,
                    wanted=None,
                    accepted=accepted,
                    kind="ratio",
                    depth=len(path),
                )
            )
            if accepted:
                taken = node
                break
            law = residual(law, q)
        if taken is None:
            break
        alive = [branch for branch in alive if branch[len(path)] == taken]
        path.append(taken)
        law, source = target_probs[taken + 1], "bonus"
    return Verdict(
        trials=tuple(trials),
        path=tuple(path),
        extra=int(chance.pick(law[None], [positions[len(path)]])[0]),
        source=source,
        law=law,
        fallback="",
        lossless=True,
    )


def _walk(
    draft: Draft,
    target_probs: Tensor,
    rule: Rule,
    chance: Chance,
    positions: Sequence[int],
) -> Verdict:
    """Draw y from the target at the anchor; while it is a child of the node, step there and draw again (§7.3, rule 1).

    One y per visited node. Independent noise makes it the point-mass rule, shared noise (``match``) vanilla's text.
    """
    assert draft.parents is not None, "a window is not walked"
    tokens, parents = draft.ids.tolist(), draft.parents
    trials: list[Trial] = []
    path: list[int] = []
    node = ROOT
    while True:
        law = target_probs[node + 1]
        wanted = int(chance.pick(law[None], [positions[len(path)]])[0])
        options = {tokens[child]: child for child in children(parents, node)}
        if not options:
            break
        p = law[list(options)].tolist()
        hit = wanted in options
        trials.append(
            Trial(
                token=wanted if hit else max(zip(p, options, strict=True))[1],
                p=sum(p),
                q=1.0,
                threshold=min(1.0, sum(p)),
                draw=None,
                wanted=wanted,
                accepted=hit,
                kind="tree",
            )
        )
        if not hit:
            break
        node = options[wanted]
        path.append(node)
    return Verdict(
        trials=tuple(trials),
        path=tuple(path),
        extra=wanted,
        source="target" if options else "bonus",
        law=law,
        fallback="" if rule is Rule.MATCH else "A tree's nodes are alternatives: the target's own draws walk it.",
        lossless=True,
    )


def _fallback(draft: Draft, rule: Rule) -> str:
    """Why the ratio rule tested some positions of a window as point masses."""
    if rule is not Rule.RATIO or all(draft.soft):
        return ""
    if draft.probs is None:
        return "The drafter gives no probabilities: its tokens are tested as point masses."
    if not any(draft.soft):
        return "Positions were chosen by their drawn values: p/q would be biased, so every token is a point mass."
    hard = sum(not ok for ok in draft.soft)
    return f"{hard} of {len(draft.soft)} positions were revealed before a position to their left: point masses there."
