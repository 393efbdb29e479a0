"""The shipped pair, for real: the text is vanilla's, vanilla is transformers' own, and everything
loads offline.

A slice of the grid in BENCHMARKS.md, which has 200 prompts, judged as there: a mismatch is excused
only by a tie of the two best tokens at the first differing position, which is computed and logged.
By default every drafter and every temperature is met on one prompt; all pairs, on several, are slow.
That the distribution holds for every setting is proved in test_distribution.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from branches import spread

from benchmarks.equality import as_stock
from specdiff_core.cli import options
from specdiff_core.engine import Engine
from specdiff_core.explorations.base import Answer, Report, Step
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.explorations.window_map import WindowMap
from specdiff_core.loading import load_pair
from specdiff_core.measure.race import race, race_repeatedly
from specdiff_core.measure.redraft import redraft
from specdiff_core.measure.ties import difference
from specdiff_core.models.device import choose_placement
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import ConfigError, Stopped
from specdiff_core.schema.events import Committed, DraftReady, Finished, RunStarted, TargetScored, Verified
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule
from specdiff_core.warm_up import warm_target

PROMPTS = [json.loads(line) for line in (Path(__file__).parent / "prompts.jsonl").read_text().splitlines()]
DRAFTERS = [spec.name for spec in EMBEDDED.drafters if spec.name != "none"]
CPU = choose_placement("cpu", "fp32")
IDS = 4096  # of the shipped pair
WAYS = [
    *((name, {"steps": 2}) for name in ("block", "block_markov", "masked")),
    *((name, {"tree_nodes": 12}) for name in ("block", "block_markov", "masked", "eagle")),
    *((name, {"num_drafts": 2}) for name in ("block", "block_markov", "masked")),
    *((name, {}) for name in ("block", "block_markov", "masked", "autoregressive", "eagle")),
]


TEMPERATURES = [0.0, 0.7, 1.0]
EXTENTS = ["few", pytest.param("all", marks=pytest.mark.slow)]


def least_of(drafter: str) -> float:
    """A τ that no untrained drafter reaches; one without weights may draft little."""
    return 1.25 if EMBEDDED.drafter(drafter).source else 1.0


def chosen(extent: str, first: int, every: int) -> list[tuple[int, str]]:
    """Prompts by their numbers: the ``first``, or each ``every``-th from there."""
    numbers = [first] if extent == "few" else range(first, len(PROMPTS), every)
    return [(number, PROMPTS[number]["prompt"]) for number in numbers]


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The shipped pair, loaded once per process."""
    torch.set_num_threads(min(2, torch.get_num_threads() or 1))
    return Engine(load_pair(EMBEDDED, CPU))


def ids_of(engine: Engine, prompt: str, config: DecodeConfig) -> tuple[int, ...]:
    *_, done = engine.decode(prompt, config, detail=False)
    return done.ids


@pytest.fixture(scope="session")
def vanilla_ids(engine: Engine) -> Callable[..., tuple[int, ...]]:
    """What vanilla says to a prompt at some settings: decoded once, however many drafters are held against it."""
    known: dict[object, tuple[int, ...]] = {}

    def ids(prompt: str, **settings: Any) -> tuple[int, ...]:
        key = (prompt, *sorted(settings.items()))
        if key not in known:
            known[key] = ids_of(engine, prompt, DecodeConfig(drafter="none", **settings))
        return known[key]

    return ids


def assert_same(
    engine: Engine, prompt: str, left: tuple[int, ...], right: tuple[int, ...], config: DecodeConfig
) -> None:
    found = difference(engine, prompt, left, right, config)
    if found is not None:
        logging.getLogger(__name__).warning("a tie: %s", found)
        assert found.tie, f"{prompt[:30]!r}: {found}"


@pytest.fixture(scope="module")
def even() -> Engine:
    """The shipped pair, with every odd id suppressed."""
    return Engine(load_pair(dataclasses.replace(EMBEDDED, suppress=tuple(range(1, IDS, 2))), CPU))


@pytest.mark.parametrize(("drafter", "values"), WAYS)
def test_a_drafter_never_drafts_a_suppressed_id(even: Engine, drafter: str, values: dict[str, Any]) -> None:
    """In each way to draft. Without the ban about half of the 16 or more drafted ids would be odd."""
    config = DecodeConfig(drafter=drafter, gamma=8, temperature=1.0, max_new_tokens=12, ignore_eos=True, **values)
    events = list(even.decode("Once upon a time", config))
    drafted = [token for event in events if isinstance(event, DraftReady) for token in event.ids]
    assert len(drafted) >= 16 and not any(token % 2 for token in drafted)


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize(("drafter", "temperature"), spread(DRAFTERS, TEMPERATURES))
def test_match_is_vanilla_token_for_token(
    engine: Engine, vanilla_ids: Callable[..., tuple[int, ...]], drafter: str, temperature: float, extent: str
) -> None:
    index = DRAFTERS.index(drafter)
    for number, prompt in chosen(extent, TEMPERATURES.index(temperature), 4 * len(TEMPERATURES)):
        gamma, steps = [(4, 1), (4, 4), (16, 1), (16, 4)][(number + index) % 4]
        tokens = 16 if extent == "few" else 24
        settings = {"temperature": temperature, "seed": number, "max_new_tokens": tokens, "rule": Rule.MATCH}
        vanilla = vanilla_ids(prompt, **settings)
        config = DecodeConfig(drafter=drafter, gamma=gamma, steps=steps, order=RevealOrder.ENTROPY, **settings)
        assert_same(engine, prompt, ids_of(engine, prompt, config), vanilla, config)


SHAPES: list[dict[str, Any]] = [
    {"tree_nodes": 12},
    {"tree_nodes": 24, "auto": True},
    *({"num_drafts": 4, "selection": way} for way in ("self", "trie")),
]


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize(("drafter", "shape"), spread(["block", "block_markov", "masked"], SHAPES))
def test_match_is_vanilla_through_trees_and_several_drafts(
    engine: Engine, vanilla_ids: Callable[..., tuple[int, ...]], drafter: str, shape: dict[str, Any], extent: str
) -> None:
    """Branches are read under a mask of their own and compacted in the cache; not one token may move."""
    for index, (number, prompt) in enumerate(chosen(extent, 0, 11)):
        temperature, tokens = (0.0, 1.0)[index % 2], 16 if extent == "few" else 24
        settings = {"temperature": temperature, "seed": number, "max_new_tokens": tokens, "rule": Rule.MATCH}
        config = DecodeConfig.parse({"drafter": drafter, "gamma": 9, **settings, **shape})
        assert_same(engine, prompt, ids_of(engine, prompt, config), vanilla_ids(prompt, **settings), config)


@pytest.mark.parametrize("extent", EXTENTS)
def test_vanilla_is_transformers_generate(engine: Engine, extent: str) -> None:
    for _, text in chosen(extent, 0, 5):
        prompt = torch.tensor([engine.encode(text)])
        theirs = as_stock(engine).generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=24,
            do_sample=False,
            suppress_tokens=list(engine.target.suppress),
        )[0, prompt.shape[1] :]
        config = DecodeConfig(drafter="none", max_new_tokens=24)
        assert_same(engine, text, ids_of(engine, text, config), tuple(theirs.tolist()), config)


no_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, no_cuda])])
def test_bf16_decodes_on_every_device(device: str) -> None:
    """All drafters and vanilla in bf16: every round is well-formed, and texts part from fp32's at near ties only."""
    rounded = Engine(load_pair(EMBEDDED, choose_placement(device, "bf16")))
    prompt = PROMPTS[0]["prompt"]
    vanilla = ids_of(rounded, prompt, DecodeConfig(drafter="none", max_new_tokens=24))
    for drafter in DRAFTERS:
        events = list(rounded.decode(prompt, DecodeConfig(drafter=drafter, gamma=8, steps=2, max_new_tokens=24)))
        assert next(e for e in events if isinstance(e, RunStarted)).dtype == "bf16"
        assert all(e.lossless for e in events if isinstance(e, Verified))
        total = fold(events)
        assert total.tau is not None and total.tau > least_of(drafter)
        ours = events[-1].ids
        found = difference(rounded, prompt, ours, vanilla, DecodeConfig(drafter=drafter))
        assert found is None or found.margin < 0.1, found  # bf16 keeps 8 bits: logits near 10 are off by up to 0.06


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafts_are_worth_something(engine: Engine, drafter: str, extent: str) -> None:
    """Not a timing: the drafter agrees with the target far more often than an untrained one could."""
    total, tokens = fold([]), 40 if extent == "few" else 24
    for _, prompt in chosen(extent, 2, 6):
        total = total + fold(engine.decode(prompt, DecodeConfig(drafter=drafter, max_new_tokens=tokens), detail=False))
    assert total.tau is not None and total.tau > least_of(drafter)


# Races, and what comes before the first.

LANES = {
    "vanilla": DecodeConfig(drafter="none", max_new_tokens=12),
    "block": DecodeConfig(drafter="block", gamma=8, max_new_tokens=12),
    "markov_tree": DecodeConfig(drafter="block_markov", gamma=5, tree_nodes=12, max_new_tokens=12),
    "specdiff": DecodeConfig(drafter="masked", gamma=4, steps=2, temperature=0.8, seed=3, max_new_tokens=12),
}
TIMES = {"span", "at", "seconds", "seconds_by", "started_at", "waited_seconds", "peak_bytes"}


def test_a_run_that_goes_on_behind_anothers_ids_has_its_numbers() -> None:
    """Bit for bit, where passes of all widths have the same bits: also in bf16, whose wide passes round differently."""
    engine = Engine(load_pair(EMBEDDED, choose_placement("cpu", "bf16")))
    config = DecodeConfig(drafter="block", gamma=6, max_new_tokens=32)
    prompt = "User: Hi, I would like to book a table for four people tonight.\nAssistant:"
    run = list(engine.decode(prompt, config))
    scores, written = ([one for one in run if isinstance(one, kind)] for kind in (TargetScored, Committed))
    if next(one for one in run if isinstance(one, RunStarted)).exactness != "bitwise":
        pytest.skip("passes of different widths round differently here")
    for number in range(1, len(written) - 2):
        before = [token for event in written[:number] for token in event.ids]
        first = next(one for one in engine.decode(prompt, config, after=before) if isinstance(one, TargetScored))
        assert first.candidates == scores[number].candidates, number


def test_a_round_is_redrafted_only_with_windows_that_fit_its_tokens(engine: Engine) -> None:
    config = DecodeConfig(drafter="block", gamma=4, max_new_tokens=6)
    again = list(redraft(engine, list(engine.decode(PROMPTS[0]["prompt"], config))))
    drafted = {size: f"{len(event.ids)}/{event.nfe}" for size, event in again if isinstance(event, DraftReady)}
    assert "5/4" in drafted and drafted == {size: size for size in drafted}


def test_a_lane_decodes_as_it_would_alone(engine: Engine) -> None:
    """Bit for bit: every event but its times, whatever other lanes do between two of them."""

    def untimed(events: Iterable[Any]) -> list[dict[str, Any]]:
        found = [msgspec.to_builtins(event) for event in events]
        return [{name: value for name, value in event.items() if name not in TIMES} for event in found]

    prompt, met = PROMPTS[0]["prompt"], {lane: [] for lane in LANES}
    order = [met[lane].append(event) or lane for lane, event in race(engine, prompt, LANES, threads=1)]
    assert sum(one != two for one, two in itertools.pairwise(order)) > 3 * len(LANES), "they take turns"
    for lane, config in LANES.items():
        assert untimed(met[lane]) == untimed(engine.decode(prompt, config, threads=1))


def test_a_warm_up_is_paid_once_and_can_be_ended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    cold, passes, messages = Engine(engine.pair, threads=1), list[int](), list[str]()
    start, warm = cold.target.start, list[Target]()
    monkeypatch.setattr("specdiff_core.engine.warm_target", lambda *of: warm.append(of[0]) or warm_target(*of))
    monkeypatch.setattr(cold.target, "start", lambda *given: passes.append(1) or start(*given))

    def gone(message: str) -> None:
        messages.append(message)
        if len(messages) == 5:
            raise Stopped

    config, threads = LANES["block"], torch.get_num_threads()
    with pytest.raises(Stopped):
        cold.warm_up(config, gone)
    assert len(messages) == 5 and torch.get_num_threads() == threads
    cold.warm_up(config, messages.append)  # from the beginning
    paid, first = len(passes), len(messages) - 5
    cold.warm_up(dataclasses.replace(config, gamma=2, seed=9), messages.append)
    assert (len(passes), len(messages)) == (paid, first + 5) and len(set(messages)) == 1
    cold.warm_up(LANES["vanilla"], messages.append)
    assert len(warm) == 2 and len(passes) > paid, "the target's passes were paid"
    with pytest.raises(ConfigError, match="no drafter"):
        cold.warm_up(dataclasses.replace(config, drafter="nobody"))
    for lane in LANES.values():
        cold.warm_up(lane)
    paid = len(passes)
    runs = race_repeatedly(cold, "Once", LANES)
    assert all(isinstance(run[-1], Finished) for (run,) in runs.values()) and len(passes) == paid + len(LANES)


def test_a_controller_needs_the_seconds_of_each_pass(engine: Engine) -> None:
    for auto, grain in ((True, "step"), (False, "total")):
        config = DecodeConfig(drafter="masked", auto=auto, max_new_tokens=4)
        header = next(e for e in engine.decode("Once", config, grain="total") if isinstance(e, RunStarted))
        assert header.grain == grain


def test_every_command_and_exploration_runs_on_the_threads_chosen_at_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside another program one thread can be ten times as fast as two; a probe at loading finds that."""
    seen: list[int] = []

    def explore(*_: Any) -> Iterator[Step]:
        seen.append(torch.get_num_threads())
        yield Step(1, 1, "", lambda: Answer(rows=[]))

    before = torch.get_num_threads()
    monkeypatch.setattr("specdiff_core.engine.quickest_threads", lambda target, device, choices: min(choices))
    monkeypatch.setattr(WindowMap, "explore", explore)
    monkeypatch.setattr(WindowMap, "report", lambda *_: Report())
    try:
        torch.set_num_threads(2)
        args = argparse.Namespace(device="cpu", dtype="fp32", context=None, threads=None)
        engine = options.open_engine(args, "embedded", ["block"])
        assert torch.get_num_threads() == 1, "commands compute without an engine too"
        torch.set_num_threads(2)
        ExplorationRun(WindowMap(), engine).advance()
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
