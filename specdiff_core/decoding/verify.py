"""The acceptance rules: which tokens of a draft the target accepts, and which one follows.

Pure: randomness comes in as an argument, so that tests can enumerate every outcome. In formulas p
is the target, q the drafter, x a drafted token and u ~ U(0, 1). What makes each rule exact is
proved in docs/theory.md (Exactness)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import mul
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from specdiff_core.drafters.base import Draft, gather_probs
from specdiff_core.maths.distributions import point_mass_residual, residual, to_host
from specdiff_core.maths.randomness import Sampler
from specdiff_core.maths.trees import ROOT, children
from specdiff_core.schema.errors import DraftContractError
from specdiff_core.schema.events import Test, Verdict, rounded
from specdiff_core.schema.settings import KindName, Rule, Selection

Decision = tuple[Verdict, Tensor]
"""A verdict, and the distribution ``[V]`` that its extra token was drawn from."""
SELECTED = "A selected draft no longer follows q: its tokens are tested as point masses."
WALKED = "At each node of a tree the target chooses its own token, and the branch with that token is followed."
NO_PROBS = "The drafter gives no probabilities: its tokens are tested as point masses."
IN_ROUNDS = "Multi-round selection tests the drafts one after the other with p/q, whatever the rule."
CHOSEN_BY_VALUE = "Positions were chosen by their drawn values: p/q would be biased, so every token is a point mass."


def verify(
    draft: Draft,
    target_probs: Tensor,
    rule: Rule,
    sampler: Sampler,
    positions: Sequence[int],
    selection: Selection = Selection.SELF,
) -> Decision:
    """Test a draft from left to right (SpecDiff, Algorithm 1, lines 6 to 12).

    Args:
        draft: g tokens, a window or a tree.
        target_probs: ``[g+1, V]`` float64, p after the anchor and after each drafted token.
        rule: ``ratio`` accepts with min(1, p/q) where that is exact and like ``delta`` elsewhere;
            ``block`` weighs the window as a whole; ``delta`` accepts with p(x); ``match`` lets the
            target's own draw decide; ``naive`` accepts with min(1, p/q) everywhere, which is biased
            where a position was revealed before one to its left, or chosen by its drawn value. A
            tree of alternatives is walked by the target's own draws under every rule.
        sampler: the verification stream of this round.
        positions: ``[g+1]`` absolute positions, for noise keyed by position.
        selection: of several drafts, test the best by S as a point mass, walk all as a tree of
            alternatives, or test one after the other with p/q.
    """
    if draft.branches:
        scores = expected_runs(draft, target_probs)
        if selection is Selection.SELF:
            verdict, dist = _select(draft, scores, target_probs, rule, sampler, positions)
        elif selection is Selection.MULTI_ROUND and rule is not Rule.MATCH:
            verdict, dist = _multi_round(draft, target_probs, rule, sampler, positions)
        else:
            verdict, dist = _walk(draft, target_probs, rule, sampler, positions)
        return replace(verdict, scores=tuple(map(rounded, scores))), dist
    if draft.parents is not None:
        return _walk(draft, target_probs, rule, sampler, positions)
    return WINDOW[rule](draft, target_probs, rule, sampler, positions)


def _accept(draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]) -> Decision:
    """Speculative sampling (Leviathan et al., Algorithm 1): accept x if u < min(1, p/q)."""
    tokens, size = draft.ids, len(draft.ids)
    p, q = drafted_probs(draft, target_probs)
    tests: list[Test] = []
    dist, source = target_probs[size], "bonus"
    for i in range(size):
        exact_q = draft.probs is not None and rule is not Rule.DELTA and (draft.exact_q[i] or rule is Rule.NAIVE)
        threshold = min(1.0, p[i] / q[i]) if exact_q else p[i]
        accepted, u = sampler.accept(threshold)
        tests.append(_test(i, tokens[i], p[i], q[i], threshold, accepted, "ratio" if exact_q else "delta", draw=u))
        if not accepted:
            # p without the accepted mass min(p, q), normalised.
            if exact_q and draft.probs is not None:
                dist = residual(target_probs[i], draft.probs[i].to(target_probs.device))
            else:
                dist = point_mass_residual(target_probs[i], tokens[i])
            source = "residual"
            break
    path = range(sum(test.accepted for test in tests))
    lossless = rule.lossless or draft.probs is None or all(draft.exact_q)
    return _decided(tests, path, dist, source, sampler, positions, fallback=_fallback(draft, rule), lossless=lossless)


def _accept_block(
    draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]
) -> Decision:
    """Block verification (Sun et al., arXiv 2403.10444, Algorithm 2): accept the longest prefix of
    the window that passes its own test. A position without an exact q counts as a point mass; if
    all do, ``delta`` accepts as many tokens, by simpler tests.

    With w₀ = 1, w_i = min(1, w_{i−1} · p/q) of the first i tokens, R_i = Σ_z (w_i · p(z) − q(z))₊
    of the next one, i < γ tokens pass with probability R_i / (R_i + 1 − w_i), all γ with w_γ."""
    if draft.probs is None or not any(draft.exact_q):
        return _accept(draft, target_probs, rule, sampler, positions)
    tokens, size, exact = draft.ids, len(draft.ids), draft.exact_q
    p, q = drafted_probs(draft, target_probs)
    proposed = draft.probs.to(target_probs)  # what each token was drawn from
    if not all(exact):
        points, is_exact = torch.tensor(tokens)[:, None], torch.tensor(exact, dtype=torch.bool)[:, None]
        points, is_exact = (part.to(target_probs.device, non_blocking=True) for part in (points, is_exact))
        proposed = torch.where(is_exact, proposed, torch.zeros_like(proposed).scatter_(1, points, 1.0))
    ratios = (p[i] / q[i] if exact[i] else p[i] for i in range(size))
    weights = list(itertools.accumulate(ratios, lambda weight, ratio: min(1.0, weight * ratio), initial=1.0))
    scale = torch.tensor(weights[:size], dtype=target_probs.dtype, device=target_probs.device)
    residuals = (scale[:, None] * target_probs[:size] - proposed).clamp_min(0.0)  # [g, V]
    masses = residuals.sum(-1).tolist()
    pairs = zip(masses[1:], weights[1:size], strict=True)
    chances = [mass / (mass + 1 - weight) if mass else float(weight == 1) for mass, weight in pairs]
    chances += weights[1:][-1:]  # of 1 … γ tokens; none at all always pass
    draws: dict[int, float] = {}
    count = size
    while count:
        passed, draws[count - 1] = sampler.accept(chances[count - 1])
        if passed:
            break
        count -= 1
    tests = [
        _test(i, tokens[i], p[i], q[i], chances[i], i < count, "block", draw=draws.get(i))
        for i in range(min(count + 1, size))
    ]
    dist, source = target_probs[count], "bonus" if count == size else "residual"
    if count < size and masses[count]:
        dist = residuals[count] / masses[count]
    return _decided(tests, range(count), dist, source, sampler, positions, fallback=_fallback(draft, rule))


def _match(draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]) -> Decision:
    """Emit y_i = argmax(log p_i + g_i), g_i: the noise there; accept the draft while it agrees."""
    tokens, size = draft.ids, len(draft.ids)
    p, q = drafted_probs(draft, target_probs)
    y = sampler.sample(target_probs, positions[: size + 1]).tolist()  # all at once, for a GPU
    count = next((i for i in range(size) if y[i] != tokens[i]), size)
    tests = tuple(
        _test(i, tokens[i], p[i], q[i], float(i < count), i < count, "match", wanted=y[i])
        for i in range(min(count + 1, size))
    )
    source = "bonus" if count == size else "target"
    verdict = Verdict(tests=tests, accepted=count, path=tuple(range(count)), extra=y[count], source=source)
    return verdict, target_probs[count]


def _select(
    draft: Draft, scores: Sequence[float], target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]
) -> Decision:
    """Self-selection (SpecDiff-2): the draft with the largest S, tested as a point mass.

    Exact although the target chose it: the choice does not see the draws of the test, and the
    residual is p without x. p/q would be biased, because a selected token no longer follows q."""
    chosen = max(range(len(scores)), key=lambda k: scores[k])  # the first of equals
    branch = draft.branches[chosen]
    window = Draft.point_mass([draft.ids[node] for node in branch], nfe=draft.nfe)
    test_rule = Rule.MATCH if rule is Rule.MATCH else Rule.DELTA
    verdict, dist = verify(window, target_probs[[0, *(node + 1 for node in branch)]], test_rule, sampler, positions)
    fallback = SELECTED if rule.uses_q else ""
    path = tuple(branch[i] for i in verdict.path)
    return replace(verdict, path=path, fallback=fallback, chosen=chosen), dist


def _multi_round(
    draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]
) -> Decision:
    """Multi-round rejection (SpecInfer; SpecDiff-2's released acceptor): at each depth, test the
    drafts that agree with the path so far in the order in which they were drawn; after each
    rejection p becomes norm((p − q)₊)."""
    if draft.probs is None:
        what = "Multi-round selection tests with p/q, and this drafter's drafts have no probabilities."
        raise DraftContractError(what, hint="Choose another selection.")
    tests: list[Test] = []
    path: list[int] = []
    alive = list(draft.branches)
    dist, source = target_probs[0], "bonus"
    while alive and len(alive[0]) > len(path):
        source, next_node = "residual", None
        for branch in alive:
            node = branch[len(path)]
            token, q = draft.ids[node], draft.probs[node].to(dist.device)
            p_x, q_x = float(dist[token]), float(q[token])
            threshold = min(1.0, p_x / q_x)
            accepted, u = sampler.accept(threshold)
            tests.append(_test(len(path), token, p_x, q_x, threshold, accepted, "ratio", draw=u))
            if accepted:
                next_node = node
                break
            dist = residual(dist, q)
        if next_node is None:
            break
        alive = [branch for branch in alive if branch[len(path)] == next_node]
        path.append(next_node)
        dist, source = target_probs[next_node + 1], "bonus"
    fallback = IN_ROUNDS if rule in (Rule.BLOCK, Rule.DELTA) else ""
    return _decided(tests, path, dist, source, sampler, positions, fallback=fallback)


def _walk(draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int]) -> Decision:
    """Draw y from the target at the anchor; while y is a child there, go to it and draw again.

    The tree is fixed before the first draw, and each visited node has one: with independent noise
    this is the point-mass rule, with shared noise (``match``) it gives vanilla's text."""
    assert draft.parents is not None, "a window is not walked"
    tokens, parents = draft.ids, draft.parents
    probs, _ = drafted_probs(draft, target_probs)
    tests: list[Test] = []
    path: list[int] = []
    node = ROOT
    while True:
        dist = target_probs[node + 1]
        y = _drawn(dist, sampler, positions[len(path)])
        options = {tokens[child]: child for child in children(parents, node)}
        if not options:
            break
        p = [probs[child] for child in options.values()]
        hit = y in options
        tested = y if hit else max(zip(p, options, strict=True))[1]
        tests.append(_test(len(path), tested, sum(p), 1.0, min(1.0, sum(p)), hit, "tree", wanted=y))
        if not hit:
            break
        node = options[y]
        path.append(node)
    verdict = Verdict(
        tests=tuple(tests),
        accepted=len(path),
        path=tuple(path),
        extra=y,
        source="target" if options else "bonus",
        fallback=WALKED if rule.uses_q else "",
    )
    return verdict, dist


def drafted_probs(draft: Draft, target_probs: Tensor) -> tuple[list[float], list[float]]:
    """p and q of each drafted token behind its parent: in a window, the token to its left."""
    before = range(len(draft.ids)) if draft.parents is None else [parent + 1 for parent in draft.parents]
    rows, columns = torch.tensor([before, draft.ids], dtype=torch.long).to(target_probs.device, non_blocking=True)
    p = target_probs[rows, columns]
    p, q = to_host(p, torch.ones_like(p) if draft.probs is None else gather_probs(draft.probs, draft.ids).to(p))
    return p.tolist(), q.tolist()


def expected_runs(draft: Draft, target_probs: Tensor) -> tuple[float, ...]:
    """S(x) = Σ_m Π_{j≤m} p_j(x_j) of each draft: the expected length of its accepted prefix
    (SpecDiff-2)."""
    p, _ = drafted_probs(draft, target_probs)
    return tuple(sum(itertools.accumulate((p[node] for node in branch), mul)) for branch in draft.branches)


def _drawn(dist: Tensor, sampler: Sampler, position: int) -> int:
    """One token from ``dist [V]``."""
    return int(sampler.sample(dist[None], [position])[0])


def _decided(
    tests: Sequence[Test],
    path: Sequence[int],
    dist: Tensor,
    source: str,
    sampler: Sampler,
    positions: Sequence[int],
    **fields: Any,
) -> Decision:
    """The verdict after the tests: the token behind the accepted ``path`` is from ``dist [V]``."""
    accepted, extra = len(path), _drawn(dist, sampler, positions[len(path)])
    verdict = Verdict(tests=tuple(tests), accepted=accepted, path=tuple(path), extra=extra, source=source, **fields)
    return verdict, dist


def _test(
    position: int, token: int, p: float, q: float, threshold: float, accepted: bool, kind: KindName, **fields: Any
) -> Test:
    p, q, threshold = map(rounded, (p, q, threshold))
    return Test(position=position, id=token, p=p, q=q, threshold=threshold, accepted=accepted, kind=kind, **fields)


def _fallback(draft: Draft, rule: Rule) -> str:
    """Why a rule that uses q tested some positions of a window as point masses."""
    if not rule.uses_q or all(draft.exact_q):
        return ""
    if draft.probs is None:
        return NO_PROBS
    if rule is Rule.NAIVE:  # which takes q as it is
        return ""
    if not any(draft.exact_q):
        return CHOSEN_BY_VALUE
    early = sum(not exact for exact in draft.exact_q)
    return f"{early} of {len(draft.exact_q)} positions were revealed early and are tested as point masses."


WINDOW = {
    Rule.RATIO: _accept,
    Rule.BLOCK: _accept_block,
    Rule.MATCH: _match,
    Rule.DELTA: _accept,
    Rule.NAIVE: _accept,
}
"""How each rule tests a window."""
