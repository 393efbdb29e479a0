"""Seven engines for the question "Which engine is broken?": six have one bug each, **on purpose**; never decode with
them. Each is the loop of ``decoding/loop.py`` with one real mistake in its draws, its q or its verification."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import Tensor

from specdiff_core.decoding.verify import Decision, verify
from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.maths.randomness import Candidates, Sampler, Streams
from specdiff_core.schema.settings import Rule, Selection

DRAWN_AT = 2.0
"""The temperature at which one engine draws its drafts, while its q has another one."""


class Broken(NamedTuple):
    """One mistake."""

    streams: Callable[..., Streams] = Streams
    drawn: Callable[[Tensor, int], Tensor] = lambda q, top_k: q
    """(q ``[n, V]``, top-k) -> what drafts are really drawn from."""
    before_top_k: bool = False  # whether the q of the test is the one before top-k
    verify: Callable[..., Decision] = verify


class _OneStream(Streams):
    """The verification repeats the drafter's random numbers: the u that drew a token also tests it."""

    def verify(self, round: int) -> Sampler:
        return self.draft(round)


def _best(q: Tensor, top_k: int) -> Tensor:
    """The most probable token: a point mass, but q does not say so."""
    return torch.zeros_like(q).scatter_(-1, q.argmax(-1, keepdim=True), 1.0)


def _cut(q: Tensor, top_k: int) -> Tensor:
    """q after top-k, where the test uses q before it."""
    kept = torch.zeros_like(q).scatter_(-1, q.topk(top_k, -1).indices, 1.0) * q
    return kept / kept.sum(-1, keepdim=True)


def _heated(q: Tensor, top_k: int) -> Tensor:
    """q at another temperature."""
    powers = q ** (1 / DRAWN_AT)
    return powers / powers.sum(-1, keepdim=True)


def _from_p(
    draft: Draft, target_probs: Tensor, rule: Rule, sampler: Sampler, positions: Sequence[int], selection: Selection
) -> Decision:
    """After a rejection, draw from p instead of the residual."""
    verdict, dist = verify(draft, target_probs, rule, sampler, positions, selection)
    if verdict.source == "residual":
        dist = target_probs[verdict.accepted]
        extra = sampler.sample(dist[None], [positions[verdict.accepted]])
        verdict = replace(verdict, extra=int(extra[0]))
    return verdict, dist


def _row_before(draft: Draft, target_probs: Tensor, *others: Any) -> Decision:
    """Draw the bonus token from the row before its own: off by one."""
    return verify(draft, torch.cat([target_probs[:-1], target_probs[-2:-1]]), *others)


ENGINES: dict[str, Broken] = {
    "right": Broken(),
    "uniform": Broken(streams=_OneStream),
    "greedy": Broken(drawn=_best),
    "residual": Broken(verify=_from_p),
    "top_k": Broken(drawn=_cut, before_top_k=True),
    "temperature": Broken(drawn=_heated),
    "bonus": Broken(verify=_row_before),
}
"""Name -> its mistake; the first has none."""


class Misdrawn(Sampler):
    """Draws from ``drawn(q, top_k)`` where the drafter reports q."""

    def __init__(self, sampler: Sampler, drawn: Callable[[Tensor, int], Tensor], top_k: int) -> None:
        self._sampler, self._drawn, self._top_k = sampler, drawn, top_k

    def sample(self, probs: Tensor, positions: Sequence[int], among: Candidates | None = None) -> Tensor:
        return self._sampler.sample(self._drawn(probs, self._top_k), positions, among)

    def accept(self, threshold: float) -> tuple[bool, float]:
        return self._sampler.accept(threshold)

    def fork(self) -> Sampler:
        return self

    def choose(self, count: int) -> int:
        return self._sampler.choose(count)


class Misreporting:
    """A drafter whose tokens are not drawn from the q that it reports."""

    def __init__(self, drafter: Any, bug: Broken) -> None:
        self._drafter, self._bug = drafter, bug
        self.name, self.layers, self.room = drafter.name, drafter.layers, drafter.room

    def start(self) -> Misreporting:
        return Misreporting(self._drafter.start(), self._bug)

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        self._drafter.observe(ids, features)

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        sampler = Misdrawn(context.sampler, self._bug.drawn, context.sampling.top_k)
        sampling = dataclasses.replace(context.sampling, top_k=0) if self._bug.before_top_k else context.sampling
        context = dataclasses.replace(context, sampling=sampling, sampler=sampler)
        draft: Draft = yield from self._drafter.draft(context)
        return draft
