"""The distribution of the text: whole runs of ``Engine.decode`` over tiny pairs, enumerated.

What is not under test is small: two random tables in place of the target's weights, and a softmax,
a top-k and a top-p written again in the simplest way. Target, cache, drafters, loop, controller,
verification and the engine are the real ones, so the tests see which p and which q the loop hands
to the verifier, what it rolls back and where it ends."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from branches import Branches, OneStream, cell, outcomes, spread, total_variation
from fakes import WIDTH, FakeClock, Ledger, state
from tiny_pairs import END, MASK, Oracle, Text, block, engine_of, masked_diffusion, networks, tiny
from torch import Tensor, nn

from benchmarks.dflash import forward
from benchmarks.equality import as_stock
from specdiff_core.decoding import loop
from specdiff_core.drafters.base import Context, Draft, Drafter, DraftSession
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.eagle import EagleDrafter
from specdiff_core.drafters.masked_diffusion import MaskedDiffusionDrafter
from specdiff_core.engine import Engine
from specdiff_core.maths.randomness import SharedGumbel
from specdiff_core.schema.events import Committed, DraftReady, Event, Finished
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Selection

PROMPTS = {3: "2022", 4: "2322"}  # by the number of ids; a digit is a token
LENGTH = 3
TOLERANCE = 1e-9
EXACT = [rule for rule in Rule if rule.lossless]

Distribution = dict[Text, float]


# ---- The distribution, twice: by the definition, and by enumeration of whole runs ----


def softmax(logits: Sequence[float], temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    """Word -> probability, by definition: the k most probable words, of them the fewest with p."""
    words = sorted((i for i in range(len(logits)) if i != MASK), key=lambda i: (-logits[i], i))
    if temperature == 0:
        return {words[0]: 1.0}
    weights = {i: math.exp((logits[i] - logits[words[0]]) / temperature) for i in words[: top_k or None]}
    kept: dict[int, float] = {}
    for word, weight in weights.items():
        if sum(kept.values()) < top_p * sum(weights.values()):
            kept[word] = weight
    return {word: weight / sum(kept.values()) for word, weight in kept.items()}


def ids_of(prompt: str) -> Text:
    return tuple(int(digit) for digit in prompt)


def joint(following: Callable[[Text], dict[int, float]], length: int, ends: Sequence[int] = ()) -> Distribution:
    """The distribution of ``length`` tokens, each ``following`` those before; or fewer up to an end."""
    distribution: Distribution = {(): 1.0}
    for _ in range(length):
        longer: Distribution = {}
        for text, weight in distribution.items():
            if text and text[-1] in ends:
                longer[text] = weight
                continue
            longer |= {(*text, word): weight * p for word, p in following(text).items()}
        distribution = longer
    return distribution


def expected(logits: Callable[[Text], Tensor], config: DecodeConfig, prompt: str) -> Distribution:
    """The distribution of the first tokens of vanilla's text, which may end before."""

    def following(text: Text) -> dict[int, float]:
        row = logits((*ids_of(prompt), *text)).tolist()
        return softmax(row, config.temperature, config.top_k, config.top_p)

    return joint(following, LENGTH, () if config.ignore_eos else (END,))


@pytest.fixture(autouse=True)
def quick_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a header says about waiting threads takes longer than a tiny run."""
    monkeypatch.setattr("specdiff_core.decoding.clock._waited", lambda: None)


@pytest.fixture
def enumerate_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[Any, float]]:
    """The exact distribution of ``outcome`` of a run's events, over everything that streams may draw."""

    def run(engine: Engine, config: DecodeConfig, prompt: str, outcome: Callable[..., Any]) -> dict[Any, float]:
        def play(sampler: Branches) -> Any:
            monkeypatch.setattr(loop, "Streams", OneStream(sampler))
            return outcome(engine.decode(prompt, config, detail=False, clock=FakeClock()), sampler)

        return outcomes(play)

    return run


def beginning(events: Iterator[Event], sampler: Branches) -> Text:
    """The first tokens of a run, which ended where it should."""
    text: Text = ()
    for event in events:
        if isinstance(event, Committed):
            text += event.ids
            assert len(text) == event.total
        if isinstance(event, Finished):
            assert event.ids == text
            assert event.reason == ("end_of_text" if text[-1] == END else "length")
    return text[:LENGTH]


def setting(size: int = 4, **values: Any) -> tuple[int, dict[str, Any]]:
    """The ids of a pair, its mask included, and settings."""
    return size, {"pair": "tiny", "gamma": 2, "max_new_tokens": LENGTH, **values}


LONG = {"gamma": 3, "max_new_tokens": LENGTH + 1}  # drafts beyond the compared tokens

SHAPES = {
    "vanilla": setting(drafter="none"),
    "prompt lookup": setting(drafter="prompt_lookup"),
    "autoregressive": setting(drafter="autoregressive"),
    "autoregressive, long": setting(3, drafter="autoregressive", **LONG),
    "autoregressive, auto": setting(3, drafter="autoregressive", auto=True, **LONG),
    "EAGLE, chain": setting(drafter="eagle"),
    "EAGLE, auto": setting(3, drafter="eagle", auto=True, **LONG),
    "EAGLE, tree": setting(drafter="eagle", tree_nodes=4),
    "masked diffusion": setting(drafter="masked"),
    "masked diffusion, long": setting(3, drafter="masked", steps=2, order="max_prob", **LONG),
    "masked diffusion, auto": setting(3, drafter="masked", auto=True, **LONG),
    **{
        f"masked diffusion, T = 2, {order.value}": setting(drafter="masked", steps=2, order=order.value)
        for order in RevealOrder
    },
    "masked diffusion, tree": setting(drafter="masked", tree_nodes=4),
    **{
        f"masked diffusion, K = 2, {way.value}": setting(3, drafter="masked", num_drafts=2, selection=way.value)
        for way in Selection
    },
    "block": setting(drafter="block"),
    "block, T = 2": setting(drafter="block", steps=2, order="entropy"),
    "block, auto": setting(3, drafter="block", auto=True, **LONG),
    "block, tree": setting(drafter="block", tree_nodes=4),
    "block, K = 2": setting(3, drafter="block", num_drafts=2, selection="multi_round"),
    "Markov": setting(drafter="block_markov"),
    "Markov, T = 2": setting(drafter="block_markov", steps=2, order="left_to_right"),
    "Markov, auto": setting(3, drafter="block_markov", auto=True, **LONG),
    "Markov, tree": setting(drafter="block_markov", tree_nodes=4),
    "Markov, K = 2": setting(3, drafter="block_markov", num_drafts=2, selection="multi_round"),
}
"""Every kind of drafter, and every way to draft."""

SAMPLINGS = {
    "hot drafter": {"temperature": 0.7, "draft_temperature": 1.6},
    "top-k": {"temperature": 1.2, "top_k": 2},
    "top-p": {"temperature": 1.5, "top_p": 0.85, "draft_temperature": 1.2},
    "top-k and top-p": {"temperature": 1.8, "top_k": 2, "top_p": 0.85, "draft_temperature": 1.5},
    "greedy drafter": {"temperature": 1.0, "draft_temperature": 0.0},
    "greedy target": {"temperature": 0.0, "draft_temperature": 1.0},
}


def config_of(shape: str, sampling: str, **more: Any) -> DecodeConfig:
    return DecodeConfig.parse({**SHAPES[shape][1], **SAMPLINGS[sampling], **more})


def ids_for(shape: str, sampling: str, rule: Rule) -> int:
    """Three words and the mask; two where three have too many outcomes."""
    size, values = SHAPES[shape]
    if "num_drafts" in values and "top_k" in SAMPLINGS[sampling]:
        return 4
    return 3 if sampling == "hot drafter" and rule is not Rule.RATIO else size


SEEDS = {"masked diffusion, long": 3, "masked diffusion, T = 2, value_confidence": 1}
"""Of the pairs in which p/q at the wrong position shows; 0 elsewhere."""


def pair(shape: str, sampling: str, rule: Rule = Rule.RATIO) -> tuple[Engine, str]:
    """A tiny pair for a shape, and a prompt."""
    return words(ids_for(shape, sampling, rule), SEEDS.get(shape, 0))


@functools.cache
def words(size: int, seed: int = 0) -> tuple[Engine, str]:
    return tiny(size, seed), PROMPTS[size]


def whole_product() -> list[Any]:
    """Shapes × samplings × rules. By default every shape runs under p/q with what top-k and top-p
    leave of p and q, and under one other sampling and rule, in turn; the others are slow. Top-k
    alone is for p/q alone, and point masses need no second temperature."""
    found = []
    for (i, shape), (j, sampling), (k, rule) in itertools.product(*map(enumerate, (SHAPES, SAMPLINGS, EXACT))):
        if sampling == "top-k" and rule is not Rule.RATIO:
            continue
        if sampling in {"hot drafter", "top-p"} and rule in {Rule.DELTA, Rule.MATCH}:
            continue
        most_cut = "top-k and top-p" if ids_for(shape, "top-k and top-p", rule) == 4 else "top-p"
        first = sampling == most_cut and rule is Rule.RATIO
        other = j == i % len(SAMPLINGS) and k == (i // len(SAMPLINGS) + i + 1) % len(EXACT)
        found.append(cell(shape, sampling, rule, quick=first or other))
    return found


@pytest.mark.parametrize(("shape", "sampling", "rule"), whole_product())
def test_the_text_follows_the_targets_distribution(
    enumerate_runs: Callable[..., dict[Any, float]], shape: str, sampling: str, rule: Rule
) -> None:
    """The joint distribution of three tokens, with texts that end in a draft or at the limit, to 1e-9."""
    (engine, prompt), config = pair(shape, sampling, rule), config_of(shape, sampling, rule=rule)
    distribution = enumerate_runs(engine, config, prompt, beginning)
    assert sum(distribution.values()) == pytest.approx(1.0, abs=1e-9)
    assert total_variation(distribution, expected(engine.pair.model.logits, config, prompt)) < TOLERANCE


@pytest.mark.parametrize("order", list(RevealOrder))
def test_a_biased_rule_is_caught_by_the_same_test(
    enumerate_runs: Callable[..., dict[Any, float]], order: RevealOrder
) -> None:
    """``naive`` at T = 2 is biased in every order but from left to right."""
    shape = f"masked diffusion, T = 2, {order.value}"
    (engine, prompt), config = pair(shape, "top-k"), config_of(shape, "top-k", rule=Rule.NAIVE)
    distribution = enumerate_runs(engine, config, prompt, beginning)
    found = total_variation(distribution, expected(engine.pair.model.logits, config, prompt))
    assert found < TOLERANCE if order is RevealOrder.LEFT_TO_RIGHT else found > 1e-3


# ---- q: what is drawn, what is recorded, and what it should be ----

DRAWN = [
    name
    for name, (_, values) in SHAPES.items()
    if values["drafter"] not in {"none", "prompt_lookup"}
    and not values.get("tree_nodes")
    and values.get("order") != RevealOrder.VALUE_CONFIDENCE  # draws more than it keeps
]


def first_draft(events: Iterator[Event], sampler: Branches) -> tuple[DraftReady, float]:
    """The draft of the first round, and the probability of what was drawn for it."""
    return next((event, sampler.drawn) for event in events if isinstance(event, DraftReady))


@pytest.mark.parametrize(("shape", "sampling"), spread(DRAWN, list(SAMPLINGS)))
def test_the_q_that_is_tested_is_the_q_that_was_drawn_from(
    enumerate_runs: Callable[..., dict[Any, float]], shape: str, sampling: str
) -> None:
    """The recorded q (of 7 digits) multiply to the probability with which a draft was drawn."""
    (engine, prompt), config = pair(shape, sampling), config_of(shape, sampling, ignore_eos=True)
    for event, drawn in enumerate_runs(engine, config, prompt, first_draft):
        branches = event.branches or (range(len(event.ids)),)
        assert math.prod(event.q[node] for branch in branches for node in branch) == pytest.approx(drawn, rel=1e-5)


@torch.inference_mode()
def plain_logits(engine: Engine, name: str, text: Text, drafted: Text, gamma: int) -> Tensor:
    """``[V]``: what a drafter says about the next token behind ``drafted`` in its first pass,
    written plainly: no session, no cache."""
    drafter = engine.drafter(name)
    if isinstance(drafter, MaskedDiffusionDrafter):
        return drafter.model(torch.tensor([[*text, *[MASK] * gamma]]))[0, len(text) + len(drafted)]
    if isinstance(drafter, BlockDrafter):
        ids = torch.tensor([text[-1], *[MASK] * gamma])
        features = torch.stack([state(text[: i + 1]) for i in range(len(text) - 1)]).float()
        hidden = forward(drafter.network, drafter.words.read_embedding()[ids][None], features[None]).last_hidden_state[
            0, 1 + len(drafted)
        ]
        if drafter.network.markov is not None:
            hidden = drafter.network.markov(hidden, drafter.words.read_embedding()[(*text, *drafted)[-1]])
        return drafter.words.head(hidden)
    first = 1 if isinstance(drafter, EagleDrafter) else 0  # reads the feature before
    return drafter.reader.model.logits((*text, *drafted)[first:])


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("shape", ["masked diffusion", "block", "Markov", "autoregressive", "EAGLE, chain"])
def test_drafts_follow_the_distribution_of_their_drafter(
    enumerate_runs: Callable[..., dict[Any, float]], shape: str, sampling: str
) -> None:
    """A draft is drawn at the drafter's own temperature, from what top-k and top-p leave of its
    distribution, in tokens that the target may say: to 1e-6, since the networks compute in fp32."""
    engine, prompt = pair(shape, sampling)
    config = config_of(shape, sampling, gamma=2, max_new_tokens=3, ignore_eos=True)
    distribution: Distribution = {}
    for (event, _), weight in enumerate_runs(engine, config, prompt, first_draft).items():
        distribution[event.ids] = distribution.get(event.ids, 0.0) + weight
    own = config.temperature if config.draft_temperature is None else config.draft_temperature

    def following(drafted: Text) -> dict[int, float]:
        row = plain_logits(engine, config.drafter, ids_of(prompt), drafted, config.gamma).tolist()
        return softmax(row, own, config.top_k, config.top_p)

    assert total_variation(distribution, joint(following, config.gamma)) < 1e-6


# ---- Real networks: keys, values and hidden states that are computed ----


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        pytest.param(
            shape, rule, marks=() if rule is Rule.RATIO and not values.items() & LONG.items() else pytest.mark.slow
        )
        for shape, (_, values) in SHAPES.items()
        for rule in (Rule.RATIO, Rule.DELTA)
    ],
)
def test_real_keys_and_values_keep_the_distribution(
    enumerate_runs: Callable[..., dict[Any, float]], shape: str, rule: Rule
) -> None:
    """A Llama and a network of each kind: the distribution of three tokens against one plain pass
    over each text, to 1e-5, since they compute in fp32."""
    engine, prompt = with_networks(ids_for(shape, "top-k and top-p", rule))
    config = config_of(shape, "top-k and top-p", rule=rule)

    @torch.inference_mode()
    def logits(text: Text) -> Tensor:
        return as_stock(engine)(torch.tensor([text])).logits[0, -1].double()

    distribution = enumerate_runs(engine, config, prompt, beginning)
    assert total_variation(distribution, expected(logits, config, prompt)) < 1e-5


@functools.cache
def with_networks(size: int) -> tuple[Engine, str]:
    return networks(size), PROMPTS[min(size, 4)]


def text_of(engine: Engine, prompt: str, config: DecodeConfig) -> tuple[Text, str]:
    done = next(event for event in engine.decode(prompt, config, detail=False) if isinstance(event, Finished))
    return done.ids, done.reason


WIDE = {"gamma": 4, "max_new_tokens": 15}

RACES = [
    ("top-p", Rule.MATCH),
    ("hot drafter", Rule.MATCH),
    ("top-k and top-p", Rule.MATCH),
    *(("greedy target", rule) for rule in Rule),
]


@pytest.mark.parametrize(
    ("shape", "sampling", "rule"),
    [
        cell(shape, *race, quick=i == number % len(RACES))
        for number, shape in enumerate(SHAPES)
        for i, race in enumerate(RACES)
        if shape != "vanilla"
    ],
)
def test_match_returns_vanillas_text_and_at_temperature_0_so_does_every_rule(
    shape: str, sampling: str, rule: Rule
) -> None:
    """With the streams of production and real networks, token for token; the same reason to end."""
    engine, prompt = with_networks(9)
    values = {**SHAPES[shape][1], **SAMPLINGS[sampling], **WIDE}
    values["steps"] = 2 * values.get("steps", 1)
    if values.get("tree_nodes"):
        values["tree_nodes"] = 7
    seed = list(SHAPES).index(shape)
    config = DecodeConfig.parse({**values, "rule": rule, "seed": seed, "ignore_eos": seed % 2 == 0})
    assert text_of(engine, prompt, config) == vanilla(sampling, seed, config.ignore_eos)


@functools.cache
def vanilla(sampling: str, seed: int, ignore_eos: bool) -> tuple[Text, str]:
    engine, prompt = with_networks(9)
    own = {"pair": "tiny", "drafter": "none", "rule": Rule.MATCH, "seed": seed, "ignore_eos": ignore_eos}
    return text_of(engine, prompt, DecodeConfig.parse({**WIDE, **SAMPLINGS[sampling], **own}))


# ---- Sessions ----


class Watched(DraftSession):
    """A session that notes what passes through it; ``anew``: begun anew in every round."""

    def __init__(self, drafter: Drafter, anew: bool) -> None:
        self._start, self._session, self._anew = drafter.start, drafter.start(), anew
        self.ids, self.features, self.drafts = list[int](), list[Tensor](), list[tuple[int, Draft]]()

    @property
    def room(self) -> int:
        return self._session.room

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        self.ids += ids
        self.features += [] if features is None else [*features]
        if self._anew:
            self._session, ids = self._start(), self.ids
            features = torch.stack(self.features) if self.features else None
        self._session.observe(ids, features)

    def draft(self, context: Context) -> Any:
        draft = yield from self._session.draft(context)
        self.drafts.append((len(context.ids), draft))
        return draft


def watched(engine: Engine, prompt: str, config: DecodeConfig, *, anew: bool = False) -> tuple[Watched, list[Event]]:
    """The session of a run, and its events."""
    drafter = engine.drafter(config.drafter)
    session = Watched(drafter, anew)
    through: Any = SimpleNamespace(name=drafter.name, layers=drafter.layers, start=lambda: session)
    run = engine_of(engine.pair.model, {config.drafter: through}).decode(prompt, config, detail=False)
    return session, list(run)


def wide(shape: str, rule: Rule, seed: int) -> DecodeConfig:
    """A longer run at temperature 1, with drafts of the length that is set."""
    values = {**SHAPES[shape][1], **WIDE, "temperature": 1.0, "ignore_eos": True, "auto": False}
    return DecodeConfig.parse({**values, "rule": rule, "seed": seed})


@pytest.mark.parametrize("shape", ["block", "block, T = 2", "block, tree", "block, K = 2"])
def test_a_drafter_gets_the_features_of_the_text_and_nothing_else(shape: str) -> None:
    """Rejected tokens and other branches leave no row, whichever path through a tree survived."""
    engine, prompt = words(4)
    for seed in range(4):
        session, events = watched(engine, prompt, wide(shape, Rule.DELTA, seed))
        text = (*ids_of(prompt), *events[-1].ids)[:-1]
        assert tuple(session.ids) == text and len(session.features) == len(text)
        assert all(torch.equal(row, state(text[: i + 1])) for i, row in enumerate(session.features))


KEEPING = [name for name, (_, values) in SHAPES.items() if values["drafter"] not in {"none", "prompt_lookup"}]


@pytest.mark.parametrize("shape", KEEPING)
def test_what_a_session_keeps_changes_nothing(shape: str) -> None:
    """Keys, values and features of refused tokens are gone, and those of the text are there: every
    round of a run with real networks drafts what a session drafts that begins with the whole
    text. To 1e-4 in q."""
    (engine, prompt), seed = with_networks(9), KEEPING.index(shape)
    config = wide(shape, (Rule.DELTA, Rule.RATIO)[seed % 2], seed)
    (kept, _), (fresh, _) = (watched(engine, prompt, config, anew=anew) for anew in (False, True))
    for (_, one), (_, other) in zip(kept.drafts, fresh.drafts, strict=True):
        assert (one.ids, one.parents) == (other.ids, other.parents)
        torch.testing.assert_close(one.probs, other.probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", [name for name in KEEPING if not SHAPES[name][1].get("tree_nodes")])
def test_a_draft_is_drawn_with_the_noise_of_its_places(shape: str) -> None:
    """``match`` verifies with the same noise of a position and an id: a drafter with q = p is always
    right. Other noise would leave vanilla's text, but be slower. Of several drafts, the first."""
    engine, prompt = with_networks(9)
    session, _ = watched(engine, prompt, wide(shape, Rule.MATCH, 5))
    verifying = SharedGumbel(5, "verify", 0)
    for first, draft in session.drafts:
        nodes = list(draft.branches[0] if draft.branches else range(len(draft.ids)))
        drawn = verifying.sample(draft.probs[nodes], range(first, first + len(nodes))).tolist()
        assert drawn == [draft.ids[node] for node in nodes]


# ---- The streams of production ----


def surprise(counts: Counter[Any], distribution: dict[Any, float]) -> float:
    """The p-value of a chi-square test of ``counts``; cells below 5 expected are one."""
    total = sum(counts.values())
    assert set(counts) <= set(distribution)
    rare = [cell for cell, p in distribution.items() if p * total < 5]
    cells = [(counts[cell], distribution[cell] * total) for cell in distribution if cell not in rare]
    if rare:
        cells.append((sum(counts[cell] for cell in rare), sum(distribution[cell] for cell in rare) * total))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells if wanted)
    return float(
        torch.special.gammaincc(torch.tensor((len(cells) - 1) / 2).double(), torch.tensor(statistic / 2).double())
    )


FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("shape", "sampling", "rule"),
    [
        ("vanilla", "hot drafter", Rule.RATIO),
        ("masked diffusion", "hot drafter", Rule.RATIO),
        cell("autoregressive", "hot drafter", Rule.RATIO, quick=False),
        cell("masked diffusion, T = 2, random", "hot drafter", Rule.DELTA, quick=False),
        cell("masked diffusion, K = 2, multi_round", "hot drafter", Rule.RATIO, quick=False),
        cell("Markov", "top-p", Rule.RATIO, quick=False),
        cell("block", "hot drafter", Rule.MATCH, quick=False),
    ],
)
def test_independent_streams_give_the_distribution(shape: str, sampling: str, rule: Rule) -> None:
    """What enumeration takes for granted: draws for drafts, tests and rounds are independent.
    The texts of 400 seeds; chi-square, fixed seeds, false alarm 1e-6 for each setting."""
    engine, prompt = pair(shape, sampling)
    seen: Counter[Text] = Counter()
    for seed in range(400):
        config = config_of(shape, sampling, rule=rule, seed=seed)
        seen[text_of(engine, prompt, config)[0][:LENGTH]] += 1
    assert surprise(seen, expected(engine.pair.model.logits, config, prompt)) > FALSE_ALARM


def occupied(drafts: int, cells: int) -> dict[int, float]:
    """How many of so many equally likely windows K independent drafts take."""
    distribution = {0: 1.0}
    for _ in range(drafts):
        following: dict[int, float] = {}
        for taken, weight in distribution.items():
            for more, p in ((0, taken / cells), (1, 1 - taken / cells)):
                following[taken + more] = following.get(taken + more, 0.0) + weight * p
        distribution = following
    return {taken: weight for taken, weight in distribution.items() if weight}


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("masked", Rule.RATIO),
        ("masked", Rule.MATCH),
        ("block_markov", Rule.MATCH),
        cell("block_markov", Rule.RATIO, quick=False),
    ],
)
def test_several_drafts_of_a_round_really_differ(kind: str, rule: Rule) -> None:
    """Four drafts of two tokens from a flat q over three words: the number of different windows,
    the last draft of a round beside the first one, and beside the last one of the round before,
    have the distributions of independent draws. 200 rounds, chi-square, fixed seeds, alarms 1e-6 each."""
    size, words = 4, (END, 2, 3)
    flat = Ledger(lambda text: torch.zeros(size).double(), size)
    if kind == "masked":
        drafter: Drafter = masked_diffusion(size, Oracle(size, lambda text, position: torch.zeros(size)))
    else:
        silent = nn.Linear(WIDTH, size).requires_grad_(False)
        silent.weight.zero_(), silent.bias.zero_()
        drafter = block(size, 0, embedding=torch.zeros(size, WIDTH), head=silent, markov=4, blind=True)
    engine = engine_of(flat, {kind: drafter})
    distinct: Counter[int] = Counter()
    beside: Counter[tuple[int, ...]] = Counter()
    after: Counter[tuple[int, ...]] = Counter()
    for seed in range(40):
        drawn = {"gamma": 2, "num_drafts": 4, "selection": "trie", "temperature": 1.0, "rule": rule, "seed": seed}
        config = DecodeConfig.parse(
            {**drawn, "pair": "tiny", "drafter": kind, "max_new_tokens": 20, "ignore_eos": True}
        )
        windows = [
            [tuple(event.ids[node] for node in branch) for branch in event.branches]
            for event in engine.decode("2322", config, detail=False)
            if isinstance(event, DraftReady) and event.branches and len(event.branches[0]) == 2
        ]
        for drafts in windows:
            distinct[len(set(drafts))] += 1
            beside[drafts[0][0], drafts[-1][0]] += 1
        for before, drafts in itertools.pairwise(windows):
            after[before[-1][1], drafts[-1][1]] += 1
    pairs = dict.fromkeys(itertools.product(words, repeat=2), 1 / 9)
    assert distinct.total() >= 200
    assert surprise(distinct, occupied(4, 9)) > FALSE_ALARM
    assert surprise(beside, pairs) > FALSE_ALARM
    assert surprise(after, pairs) > FALSE_ALARM
