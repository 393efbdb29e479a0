"""Random distributions p and q, small enough to enumerate, and the one measure of exactness: how
far the joint distribution of three emitted tokens over chained rounds is from the target's.

The production drafters and ``verify`` run; only the sampler and the networks are replaced."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from branches import Branches, chain, in_turn, total_variation
from fakes import FakeTarget
from torch import Tensor

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.base import Context, Draft, DraftSession, run_to_end
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths.chains import PairScores
from specdiff_core.maths.randomness import Independent, Sampler
from specdiff_core.maths.trees import ROOT
from specdiff_core.schema.settings import RevealOrder, Rule, Sampling, Selection

V, LENGTH, TOLERANCE = 3, 3, 1e-12
MASK = V  # the drafter's vocabulary has one id more than the target ever says
WARM = Sampling(temperature=1.0)
ORDERS = list(RevealOrder)
EXACT_RULES = [rule for rule in Rule if rule.lossless]

Text = tuple[int, ...]
Drafting = Callable[[Text, Branches], Draft]
"""(committed tokens, randomness) -> the draft of a round."""


def texts(ids: Sequence[int], parents: Sequence[int] | None) -> list[Text]:
    """The text that ends at each node."""
    found: list[Text] = []
    for token, parent in zip(ids, range(ROOT, len(ids) - 1) if parents is None else parents, strict=True):
        found.append((*(found[parent] if parent != ROOT else ()), token))
    return found


class Tables:
    """p(·|prefix) and q(·|prefix, window, slot), fixed by a seed."""

    def __init__(self, seed: int, size: int = V) -> None:
        self._seed, self.size = seed, size
        self._known: dict[object, Tensor] = {}

    def dirichlet(self, *key: object) -> Tensor:
        """``[size]``, a function of the key."""
        if key not in self._known:
            generator = torch.Generator().manual_seed(zlib.crc32(repr((self._seed, key)).encode()))
            weights = torch._standard_gamma(torch.full((self.size,), 0.8, dtype=torch.float64), generator=generator)
            self._known[key] = weights.clamp_min(1e-3) / weights.clamp_min(1e-3).sum()
        return self._known[key]

    def p(self, prefix: Text) -> Tensor:
        """``[size + 1]``: the mask has probability zero."""
        return torch.cat([self.dirichlet("p", prefix), torch.zeros(1, dtype=torch.float64)])

    def logits(self, prefix: Text, window: Tensor) -> Tensor:
        """``[g, size + 1]`` of the drafter; the mask's logit is high, but it is never drawn."""
        key = (prefix, tuple(window.tolist()))
        if key not in self._known:
            rows = [self.dirichlet("q", *key, i).log() for i in range(len(window))]
            mask = torch.full((len(window), 1), 9.0, dtype=torch.float64)
            self._known[key] = torch.cat([torch.stack(rows), mask], -1)
        return self._known[key]

    def scores(self, prefix: Text, draft: Draft) -> Tensor:
        """``[g+1, size + 1]``: p after the anchor and each token of a window or a tree."""
        key = (prefix, draft.ids, draft.parents)
        if key not in self._known:
            rows = [self.p((*prefix, *text)) for text in [(), *texts(draft.ids, draft.parents)]]
            self._known[key] = torch.stack(rows)
        return self._known[key]

    def joint(self, length: int) -> dict[Text, float]:
        """The target's distribution of texts."""
        found: dict[Text, float] = {}
        for text in itertools.product(range(self.size), repeat=length):
            found[text] = 1.0
            for i, token in enumerate(text):
                found[text] *= float(self.p(text[:i])[token])
        return found


class Pairs(Tables):
    """Tables whose drafter also says what each token adds to the candidates behind it."""

    def pair_scores(self, prefix: Text) -> PairScores:
        def pairs(before: Tensor, candidates: Tensor) -> Tensor:
            rows = []
            for slot, (left, right) in enumerate(zip(before.tolist(), candidates.tolist(), strict=True)):
                known = [self.dirichlet("pair", prefix, slot, token).log() for token in left]
                rows.append(torch.stack([row[right] for row in known]))
            return torch.stack(rows)

        return pairs

    def behind(self, slot: int, before: int, window: Sequence[int]) -> Tensor:
        """A slot's distribution in the first round behind ``before``; the pass saw ``window``."""
        marginal = self.logits((), torch.tensor(window))[slot, : self.size].log_softmax(-1)
        return (marginal + self.dirichlet("pair", (), slot, before).log()).softmax(-1)


def context_of(ids: Sequence[int], gamma: int = 2, sampler: Sampler | None = None, **values: Any) -> Context:
    """What a session may know; by default one step from left to right at temperature 1."""
    fixed = {"steps": 1, "order": RevealOrder.LEFT_TO_RIGHT, "sampling": WARM}
    return Context(ids=ids, gamma=gamma, sampler=sampler or Independent("draft", 0, len(ids)), **{**fixed, **values})


def drafted(session: DraftSession, *arguments: Any, **values: Any) -> Draft:
    """What a session drafts; arguments as of :func:`context_of`."""
    return run_to_end(session.draft(context_of(*arguments, **values)))


def first_draft(drafter: Any, ids: Sequence[int], *arguments: Any, **values: Any) -> Any:
    """The first draft of a drafter without features behind ``ids``; see :func:`context_of`."""
    session = drafter.start()
    session.observe(ids[:-1], None)
    return drafted(session, ids, *arguments, **values)


def denoised(tables: Tables, prefix: Text, sampler: Sampler, forbidden: Sequence[int] = (), **values: Any) -> Draft:
    """A production draft of a denoiser; of :class:`Pairs`, with a Markov head and an anchor 0."""
    chained = isinstance(tables, Pairs)
    context = context_of((0, *prefix) if chained else prefix, sampler=sampler, **values)
    pair_scores = tables.pair_scores(prefix) if chained else None
    predict = partial(tables.logits, prefix)
    drafting = denoise(predict, context, mask_id=tables.size, forbidden=forbidden, pair_scores=pair_scores)
    return run_to_end(drafting)


Emit = Callable[[Tables, Text, Draft, Branches], Text]
"""What a round emits of a draft."""


def verified(rule: Rule, selection: Selection = Selection.TRIE) -> Emit:
    """The production rules: the accepted tokens and the target's own."""

    def emit(tables: Tables, prefix: Text, draft: Draft, sampler: Branches) -> Text:
        positions = range(len(prefix), len(prefix) + len(draft.ids) + 1)
        verdict, _ = verify(draft, tables.scores(prefix, draft), rule, sampler, positions, selection)
        return (*(draft.ids[node] for node in verdict.path), verdict.extra)

    return emit


def distance(tables: Tables, drafting: Drafting, emit: Emit, length: int = LENGTH) -> float:
    """Total variation between texts of ``length`` from chained rounds and from the target."""

    def round_of(prefix: Text) -> dict[Text, float]:
        if len(prefix) > 1:  # a third token is the target's own: a round here has only other tables
            return {(token,): float(weight) for token, weight in enumerate(tables.p(prefix)[: tables.size])}
        return in_turn(partial(drafting, prefix), lambda draft, sampler: emit(tables, prefix, draft, sampler))

    found = chain(round_of, length)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    return total_variation(found, tables.joint(length))


def sequential(tables: Tables, gamma: int, **values: Any) -> Drafting:
    """Drafts of a small causal model's session; behind a first id it says the tables' q."""
    size = tables.size
    model = FakeTarget(lambda ids: tables.logits(ids[1:], torch.zeros(1))[0], size=size + 1, suppress=(size,))
    drafter = AutoregressiveDrafter("tables", model)
    return lambda prefix, sampler: first_draft(drafter, [0, *prefix], gamma, sampler, **values)
