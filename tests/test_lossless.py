"""Exactness by enumeration: the joint law of three tokens over chained rounds equals the target's, to 1e-12.

Every rule that claims ``lossless`` must pass; every biased scheme must be caught by the same test.
The production ``denoise`` and ``verify`` run; only sampler and the networks are replaced.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from branches import Branches, chain, in_turn, outcomes, spread, total_variation
from torch import Tensor

from specdiff_core.decoding.verify import verify
from specdiff_core.drafters.base import Context, Draft, drained
from specdiff_core.drafters.denoise import denoise
from specdiff_core.maths.distributions import residual, to_probs, without
from specdiff_core.maths.randomness import Streams
from specdiff_core.schema.settings import RevealOrder, Rule, Sampling

V, LENGTH, TOLERANCE = 3, 3, 1e-12
MASK = V  # the drafter's vocabulary has one id more than the target's law ever uses
WARM = Sampling(temperature=1.0)
ORDERS = list(RevealOrder)
EXACT_RULES = [Rule.RATIO, Rule.BLOCK, Rule.DELTA, Rule.MATCH]


class Tables:
    """Random laws: p(·|prefix) and q(·|prefix, window, slot), fixed by a seed."""

    def __init__(self, seed: int, size: int = V) -> None:
        self._seed, self.size = seed, size
        self._known: dict[object, Tensor] = {}

    def _dirichlet(self, *key: object) -> Tensor:
        if key not in self._known:
            generator = torch.Generator().manual_seed(zlib.crc32(repr((self._seed, key)).encode()))
            weights = torch._standard_gamma(torch.full((self.size,), 0.8, dtype=torch.float64), generator=generator)
            self._known[key] = weights.clamp_min(1e-3) / weights.clamp_min(1e-3).sum()
        return self._known[key]

    def p(self, prefix: tuple[int, ...]) -> Tensor:
        """``[size + 1]``: the mask has probability zero."""
        return torch.cat([self._dirichlet("p", prefix), torch.zeros(1, dtype=torch.float64)])

    def logits(self, prefix: tuple[int, ...], window: Tensor) -> Tensor:
        """``[g, size + 1]`` of the drafter; the mask's logit is high, to prove that it is never drawn."""
        key = (prefix, tuple(window.tolist()))
        if key not in self._known:
            rows = [self._dirichlet("q", *key, i).log() for i in range(len(window))]
            mask = torch.full((len(window), 1), 9.0, dtype=torch.float64)
            self._known[key] = torch.cat([torch.stack(rows), mask], -1)
        return self._known[key]

    def target_law(self, length: int) -> dict[tuple[int, ...], float]:
        law = {}
        for text in itertools.product(range(self.size), repeat=length):
            weight = 1.0
            for i, token in enumerate(text):
                weight *= float(self.p(text[:i])[token])
            law[text] = weight
        return law

    def scores(self, prefix: tuple[int, ...], draft: Draft) -> Tensor:
        tokens = tuple(draft.ids.tolist())
        return torch.stack([self.p(prefix + tokens[:i]) for i in range(len(tokens) + 1)])


def drafted(
    tables: Tables,
    prefix: tuple[int, ...],
    sampler: Branches,
    order: RevealOrder,
    gamma: int,
    steps: int,
    sampling: Sampling = WARM,
) -> Draft:
    """One production draft."""
    context = Context(ids=prefix, gamma=gamma, steps=steps, order=order, sampling=sampling, sampler=sampler)
    return drained(denoise(lambda window: tables.logits(prefix, window), context, mask_id=tables.size))


def positions(prefix: tuple[int, ...], gamma: int) -> range:
    return range(len(prefix), len(prefix) + gamma + 1)


def production(tables: Tables, rule: Rule, order: RevealOrder, gamma: int, steps: int) -> Callable:
    """A round as decode.py plays it."""

    def round_law(prefix: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        def tested(draft: Draft, sampler: Branches) -> tuple[int, ...]:
            verdict, _ = verify(draft, tables.scores(prefix, draft), rule, sampler, positions(prefix, gamma))
            return (*draft.ids.tolist()[: verdict.accepted], verdict.extra)

        return in_turn(lambda sampler: drafted(tables, prefix, sampler, order, gamma, steps), tested)

    return round_law


def distance(tables: Tables, round_law: Callable, length: int = LENGTH) -> float:
    law = chain(round_law, length)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    return total_variation(law, tables.target_law(length))


@pytest.mark.parametrize(("rule", "order", "steps"), spread(EXACT_RULES, ORDERS, [1, 2]))
def test_exact_rules_keep_the_joint_law(rule: Rule, order: RevealOrder, steps: int) -> None:
    tables = Tables(seed=7 + steps)
    assert distance(tables, production(tables, rule, order, gamma=2, steps=steps)) < TOLERANCE


@pytest.mark.parametrize(("rule", "order", "steps"), spread(EXACT_RULES, ORDERS, [1, 2, 3]))
def test_exact_rules_keep_the_joint_law_of_three_drafted_tokens(rule: Rule, order: RevealOrder, steps: int) -> None:
    """γ = 3 over two words: every order and T, the joint law of three tokens."""
    tables = Tables(seed=72 + steps, size=2)
    assert distance(tables, production(tables, rule, order, gamma=3, steps=steps)) < TOLERANCE


@pytest.mark.parametrize(("rule", "order"), spread(EXACT_RULES, ORDERS, held=1))
def test_cutting_drafts_behind_the_end_of_the_text_keeps_the_joint_law(rule: Rule, order: RevealOrder) -> None:
    """decode.py drops what was drafted behind an end-of-text token; the law of whole texts stays the target's."""
    tables, end = Tables(seed=21), 1

    def whole(text: tuple[int, ...]) -> tuple[int, ...]:
        return (*text[: text.index(end)], *[end] * (len(text) - text.index(end))) if end in text else text

    def round_law(prefix: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        def tested(draft: Draft, sampler: Branches) -> tuple[int, ...]:
            verdict, _ = verify(
                draft, tables.scores(prefix, draft), rule, sampler, positions(prefix, draft.ids.numel())
            )
            return whole((*draft.ids.tolist()[: verdict.accepted], verdict.extra))

        if end in prefix:
            return {(end,): 1.0}
        return in_turn(lambda sampler: drafted(tables, prefix, sampler, order, 3, 2).until([end]), tested)

    expected: dict[tuple[int, ...], float] = {}
    for text, weight in tables.target_law(LENGTH).items():
        expected[whole(text)] = expected.get(whole(text), 0.0) + weight
    assert total_variation(chain(round_law, LENGTH), expected) < TOLERANCE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_block_keeps_the_law_and_never_fewer_tokens_than_ratio(order: RevealOrder, steps: int) -> None:
    """γ = 3; and at least i tokens stay with a probability of w_i (docs/theory.md, Block)."""
    tables = Tables(seed=5 + steps, size=2)
    assert distance(tables, production(tables, Rule.BLOCK, order, gamma=3, steps=steps)) < TOLERANCE

    def kept(rule: Rule) -> float:
        def tested(draft: Draft, sampler: Branches) -> int:
            return verify(draft, tables.scores((), draft), rule, sampler, positions((), 3))[0].accepted

        law = in_turn(lambda sampler: drafted(tables, (), sampler, order, 3, steps), tested)
        return sum(count * weight for count, weight in law.items())

    assert kept(Rule.BLOCK) >= kept(Rule.RATIO) - TOLERANCE
    if steps == 1:
        assert kept(Rule.BLOCK) > kept(Rule.RATIO) + 1e-3


@pytest.mark.parametrize("order", [o for o in ORDERS if o is not RevealOrder.LEFT_TO_RIGHT])
def test_the_published_rule_is_caught(order: RevealOrder) -> None:
    """``naive`` at T > 1 tests every token with its reveal-step q: biased in any order but left to right."""
    assert any(
        distance(tables, production(tables, Rule.NAIVE, order, gamma=2, steps=2)) > 1e-3
        for tables in map(Tables, range(4))
    )


def test_naive_is_exact_left_to_right_but_claims_nothing() -> None:
    tables = Tables(seed=3)
    assert distance(tables, production(tables, Rule.NAIVE, RevealOrder.LEFT_TO_RIGHT, 2, 2)) < TOLERANCE
    assert not Rule.NAIVE.lossless


def test_the_hand_checkable_counterexample() -> None:
    """Fair coins, x₂ revealed first, x₁ := x₂: naive gives P(y₁ = y₂) = 0.75, ratio 0.5.

    docs/theory.md, Several denoising steps.
    """
    coin = torch.tensor([0.5, 0.5], dtype=torch.float64)

    def agree(naive: bool) -> float:
        def play(sampler: Branches) -> bool:
            second = int(sampler.sample(coin[None], [1])[0])
            first_q = torch.nn.functional.one_hot(torch.tensor(second), 2).double()
            ids, probs = torch.tensor([second, second]), torch.stack([first_q, coin])
            draft = Draft(ids=ids, probs=probs, reveal_steps=(1, 0), exact_q=(True, False), nfe=2)
            scores = coin.expand(3, 2)
            verdict, _ = verify(draft, scores, Rule.NAIVE if naive else Rule.RATIO, sampler, range(3))
            text = [*ids.tolist()[: verdict.accepted], verdict.extra]
            if len(text) == 1:
                text.append(int(sampler.sample(coin[None], [1])[0]))
            return text[0] == text[1]

        return outcomes(play)[True]

    assert agree(naive=True) == pytest.approx(0.75, abs=1e-12)
    assert agree(naive=False) == pytest.approx(0.5, abs=1e-12)


# ---- Mutation tests: each biased scheme must fail the test above. ----


def _walk(draft: Draft, scores: Tensor, sampler: Branches, accept: Callable, extra: Callable) -> tuple[int, ...]:
    """A verifier with replaceable parts, for wrong rules."""
    tokens = draft.ids.tolist()
    for i, token in enumerate(tokens):
        yes, _ = sampler.accept(accept(i, token))
        if not yes:
            return (*tokens[:i], int(sampler.sample(extra(i, token)[None], [0])[0]))
    return (*tokens, int(sampler.sample(scores[len(tokens)][None], [0])[0]))


def _ratio(draft: Draft, scores: Tensor) -> Callable:
    return lambda i, x: min(1.0, float(scores[i, x]) / float(draft.probs[i, x]))


def _multi_round(tables: Tables, prefix: tuple[int, ...], drafts: list[Draft], sampler: Branches) -> tuple[int, ...]:
    """Recursive rejection (docs/theory.md, Several drafts): exact if the drafts come in the order they were drawn."""
    text: tuple[int, ...] = ()
    for i in range(2):
        left = tables.p(prefix + text)
        for draft in drafts:
            token, q = int(draft.ids[i]), draft.probs[i]
            yes, _ = sampler.accept(min(1.0, float(left[token]) / float(q[token])))
            if yes:
                break
            left = residual(left, q)
        else:
            return (*text, int(sampler.sample(left[None], [0])[0]))
        text = (*text, token)
        drafts = [draft for draft in drafts if int(draft.ids[i]) == token]
    return (*text, int(sampler.sample(tables.p(prefix + text)[None], [0])[0]))


def _mutant(name: str, tables: Tables) -> Callable:
    left = RevealOrder.LEFT_TO_RIGHT

    def play(prefix: tuple[int, ...], sampler: Branches) -> tuple[int, ...]:
        if name == "value-confidence order tested by the running maximum":
            draft = drafted(tables, prefix, sampler, RevealOrder.VALUE_CONFIDENCE, 2, 2)
            steps = draft.reveal_steps
            exact_q = tuple(steps[i] >= max(steps[:i], default=0) for i in range(2))
            verdict, _ = verify(
                replace(draft, exact_q=exact_q), tables.scores(prefix, draft), Rule.RATIO, sampler, range(3)
            )
            return (*draft.ids.tolist()[: verdict.accepted], verdict.extra)
        if name == "sharpened draft tested with raw q":
            draft = drafted(tables, prefix, sampler, left, 2, 1, Sampling(temperature=0.4))
            raw = to_probs(tables.logits(prefix, torch.full((2,), MASK)), WARM, (MASK,))
            draft = replace(draft, probs=raw)
            verdict, _ = verify(draft, tables.scores(prefix, draft), Rule.RATIO, sampler, range(3))
            return (*draft.ids.tolist()[: verdict.accepted], verdict.extra)
        if name.startswith("K = 2"):
            drafts = [drafted(tables, prefix, sampler, left, 2, 1) for _ in range(2)]

            def worth(draft: Draft) -> float:
                laws = tables.scores(prefix, draft) if "target" in name else draft.probs
                return float(laws[0, draft.ids[0]] * (1 + laws[1, draft.ids[1]]))

            if "multi-round" in name:
                drafts = drafts if "as drawn" in name else sorted(drafts, key=worth, reverse=True)
                return _multi_round(tables, prefix, drafts, sampler)
            draft = max(drafts, key=worth)
            rule = Rule.DELTA if "delta" in name else Rule.RATIO
            verdict, _ = verify(draft, tables.scores(prefix, draft), rule, sampler, range(3))
            return (*draft.ids.tolist()[: verdict.accepted], verdict.extra)
        draft = drafted(tables, prefix, sampler, left, 2, 1)
        scores = tables.scores(prefix, draft)
        if name == "p and q swapped":
            return _walk(
                draft,
                scores,
                sampler,
                lambda i, x: min(1.0, float(draft.probs[i, x]) / float(scores[i, x])),
                lambda i, x: residual(draft.probs[i], scores[i]),
            )
        if name == "resample from p after a rejection":
            return _walk(draft, scores, sampler, _ratio(draft, scores), lambda i, x: scores[i])
        if name == "accept with p, residual of p/q":
            return _walk(
                draft,
                scores,
                sampler,
                lambda i, x: float(scores[i, x]),
                lambda i, x: residual(scores[i], draft.probs[i]),
            )
        if name == "ratio with the point-mass residual":
            return _walk(draft, scores, sampler, _ratio(draft, scores), lambda i, x: without(scores[i], x))
        if name == "drop a sampled token with a low q":
            tokens = draft.ids.tolist()
            keep = next((i for i, x in enumerate(tokens) if float(draft.probs[i, x]) < 0.4), 2)
            draft = replace(
                draft, ids=draft.ids[:keep], probs=draft.probs[:keep], exact_q=(True,) * keep, reveal_steps=(0,) * keep
            )
            verdict, _ = verify(draft, scores[: keep + 1], Rule.RATIO, sampler, range(keep + 1))
            return (*tokens[: verdict.accepted], verdict.extra)
        if name == "q recomputed after the draft, leave one out":
            rows = []
            for i in range(2):
                window = draft.ids.clone()
                window[i] = MASK
                rows.append(to_probs(tables.logits(prefix, window), WARM, (MASK,))[i])
            draft = replace(draft, probs=torch.stack(rows))
            verdict, _ = verify(draft, scores, Rule.RATIO, sampler, range(3))
            return (*draft.ids.tolist()[: verdict.accepted], verdict.extra)
        if name == "two chains verified independently, longest kept":
            other = drafted(tables, prefix, sampler, left, 2, 1)
            runs = []
            for candidate in (draft, other):
                verdict, _ = verify(candidate, tables.scores(prefix, candidate), Rule.DELTA, sampler, range(3))
                runs.append((*candidate.ids.tolist()[: verdict.accepted], verdict.extra))
            return max(runs, key=len)
        if name == "bonus token drawn from the last q":
            text = _walk(
                draft, scores, sampler, _ratio(draft, scores), lambda i, x: residual(scores[i], draft.probs[i])
            )
            return text if len(text) < 3 else (*text[:2], int(sampler.sample(draft.probs[1][None], [0])[0]))
        raise AssertionError(name)

    return lambda prefix: outcomes(lambda sampler: play(prefix, sampler))


BIASED = [
    "value-confidence order tested by the running maximum",
    "sharpened draft tested with raw q",
    "K = 2, selected by target, soft",
    "K = 2, selected by drafter, soft",
    "K = 2, multi-round, sorted by target",
    "K = 2, multi-round, sorted by drafter",
    "p and q swapped",
    "resample from p after a rejection",
    "accept with p, residual of p/q",
    "ratio with the point-mass residual",
    "drop a sampled token with a low q",
    "q recomputed after the draft, leave one out",
    "two chains verified independently, longest kept",
    "bonus token drawn from the last q",
]


@pytest.mark.parametrize("name", BIASED)
def test_biased_schemes_are_caught(name: str) -> None:
    length = {"two": 1, "K": 2}.get(name.split(" ")[0], LENGTH)  # biased from the first token on, costly to enumerate
    assert any(distance(tables, _mutant(name, tables), length) > 1e-3 for tables in map(Tables, range(3)))


@pytest.mark.parametrize(
    "name",
    ["K = 2, selected by target, delta", "K = 2, selected by drafter, delta", "K = 2, multi-round, as drawn"],
)
def test_the_mutation_harness_passes_exact_schemes(name: str) -> None:
    """The same harness with the point-mass rule is exact: what it catches is the rule, not the harness."""
    tables = Tables(seed=5)
    assert distance(tables, _mutant(name, tables), 2) < TOLERANCE


def test_naive_right_to_left_is_caught_and_ratio_is_not_fooled() -> None:
    tables = Tables(seed=11)

    def law(rule: Rule, exact_q: tuple[bool, bool]) -> Callable:
        def play(prefix: tuple[int, ...], sampler: Branches) -> tuple[int, ...]:
            window = torch.tensor([MASK, MASK])
            q_right = to_probs(tables.logits(prefix, window), WARM, (MASK,))[1]
            window[1] = sampler.sample(q_right[None], [1])[0]
            q_left = to_probs(tables.logits(prefix, window), WARM, (MASK,))[0]
            window[0] = sampler.sample(q_left[None], [0])[0]
            draft = Draft(ids=window, probs=torch.stack([q_left, q_right]), reveal_steps=(1, 0), exact_q=exact_q, nfe=2)
            verdict, _ = verify(draft, tables.scores(prefix, draft), rule, sampler, range(3))
            return (*window.tolist()[: verdict.accepted], verdict.extra)

        return lambda prefix: outcomes(lambda sampler: play(prefix, sampler))

    assert distance(tables, law(Rule.NAIVE, (True, False))) > 1e-3
    assert distance(tables, law(Rule.RATIO, (True, False))) < TOLERANCE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("steps", [1, 3])
def test_match_returns_vanilla_for_any_draft(order: RevealOrder, steps: int) -> None:
    """Shared noise keyed by position: the text is a function of (seed, p), whatever was drafted."""
    for seed in range(12):
        tables, streams = Tables(seed), Streams(seed, shared=True)
        vanilla: tuple[int, ...] = ()
        while len(vanilla) < 6:
            vanilla += (int(streams.verify(0).sample(tables.p(vanilla)[None], [len(vanilla)])[0]),)
        text: tuple[int, ...] = ()
        round = 0
        while len(text) < 6:
            draft = drafted(tables, text, streams.draft(round), order, 3, steps)
            verdict, _ = verify(
                draft, tables.scores(text, draft), Rule.MATCH, streams.verify(round), positions(text, 3)
            )
            text += (*draft.ids.tolist()[: verdict.accepted], verdict.extra)
            round += 1
        assert text[:6] == vanilla


def test_shared_noise_follows_p() -> None:
    """Frequencies of 40,000 keyed draws: chi-square with 3 degrees; false alarm below 1e-6 (threshold 30.7)."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    sampler = Streams(1, shared=True).verify(0)
    count = 40_000
    drawn = torch.cat([sampler.sample(p.expand(500, 4), range(i, i + 500)) for i in range(0, count, 500)])
    seen = torch.bincount(drawn, minlength=4).double()
    assert float(((seen - count * p) ** 2 / (count * p)).sum()) < 30.7
