"""The shipped pair, for real: the text is vanilla's, vanilla is transformers' own, and everything loads offline.

A 20-prompt slice of the grid in BENCHMARKS.md. A mismatch is excused only by a tie: two laws that differ at the first
differing position by less than the rounding of fp32, which the test computes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specdiff_core.config import DecodeConfig, RevealOrder, Rule
from specdiff_core.device import choose_placement
from specdiff_core.engine import Engine
from specdiff_core.events import Verified
from specdiff_core.loading import load_pair
from specdiff_core.metrics import fold
from specdiff_core.registry import EMBEDDED
from specdiff_core.rng import SharedGumbel
from specdiff_core.sampling import process

PROMPTS = [json.loads(line) for line in (Path(__file__).parent / "prompts.jsonl").read_text().splitlines()]
DRAFTERS = [spec.name for spec in EMBEDDED.drafters if spec.name != "none"]
TIE = 1e-4  # in units of log p + g; fp32 logits of these models differ by about 1e-5 between pass widths


@pytest.fixture(scope="module")
def engine() -> Engine:
    torch.set_num_threads(min(2, torch.get_num_threads() or 1))
    return Engine(load_pair(EMBEDDED, choose_placement("cpu", "fp32")))


def ids_of(engine: Engine, prompt: str, config: DecodeConfig) -> tuple[int, ...]:
    *_, done = engine.decode(prompt, config, narrate=False)
    return done.ids


def margin(engine: Engine, prompt: str, common: tuple[int, ...], config: DecodeConfig) -> float:
    """Distance between the two best tokens at the position after ``common``, noise included."""
    ids = [*engine.encode(prompt), *common]
    with torch.inference_mode():
        logits = engine.target.model(torch.tensor([ids])).logits[0, -1]
    if config.temperature == 0:
        logits[list(engine.target.suppress)] = -torch.inf
        best = logits.topk(2).values
    else:
        law = process(logits, config.sampling, engine.target.suppress)
        noise = SharedGumbel(config.seed, "tie", 0).noise(len(ids), law.numel())
        best = (law.log() + noise).topk(2).values
    return float(best[0] - best[1])


def assert_same(
    engine: Engine, prompt: str, left: tuple[int, ...], right: tuple[int, ...], config: DecodeConfig
) -> None:
    if left == right:
        return
    same = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    distance = margin(engine, prompt, left[:same], config)
    assert distance < TIE, f"{prompt[:30]!r} differs at token {same} without a tie (margin {distance:.2e})"


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_match_is_vanilla_token_for_token(engine: Engine, drafter: str, temperature: float) -> None:
    for number, item in enumerate(PROMPTS):
        gamma, steps = [(4, 1), (4, 4), (16, 1), (16, 4)][number % 4]
        settings = {"temperature": temperature, "seed": number, "max_new_tokens": 40, "rule": Rule.MATCH}
        vanilla = ids_of(engine, item["prompt"], DecodeConfig(drafter="none", **settings))
        config = DecodeConfig(drafter=drafter, gamma=gamma, steps=steps, order=RevealOrder.ENTROPY, **settings)
        assert_same(engine, item["prompt"], ids_of(engine, item["prompt"], config), vanilla, config)


def test_vanilla_is_transformers_generate(engine: Engine) -> None:
    for item in PROMPTS:
        prompt = torch.tensor([engine.encode(item["prompt"])])
        theirs = engine.target.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=40,
            do_sample=False,
            suppress_tokens=list(engine.target.suppress),
        )[0, prompt.shape[1] :]
        config = DecodeConfig(drafter="none", max_new_tokens=40)
        assert_same(engine, item["prompt"], ids_of(engine, item["prompt"], config), tuple(theirs.tolist()), config)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafts_are_worth_something(engine: Engine, drafter: str) -> None:
    """Not a timing: the drafter agrees with the target far more often than an untrained one could."""
    total = fold([])
    for item in PROMPTS[::2]:
        total = total + fold(
            engine.decode(item["prompt"], DecodeConfig(drafter=drafter, max_new_tokens=40), narrate=False)
        )
    assert total.tau is not None and total.tau > 1.25


def test_two_runs_share_nothing(engine: Engine) -> None:
    """Interleaved runs return what each returns alone."""
    configs = [DecodeConfig(drafter=d, temperature=0.7, seed=s, max_new_tokens=24) for s, d in enumerate(DRAFTERS)]
    alone = [ids_of(engine, item["prompt"], config) for item, config in zip(PROMPTS, configs, strict=False)]
    runs = [engine.decode(item["prompt"], config) for item, config in zip(PROMPTS, configs, strict=False)]
    last: list[object] = [None] * len(runs)
    while any(run is not None for run in runs):
        for i, run in enumerate(runs):
            if run is not None and (event := next(run, None)) is None:
                runs[i] = None
            elif run is not None:
                last[i] = event
    assert [event.ids for event in last] == alone


def test_every_setting_decodes(engine: Engine) -> None:
    """Extremes of the page's sliders, with every rule and order, end normally and say whether they are lossless."""
    for number, (rule, order) in enumerate((r, o) for r in Rule for o in RevealOrder):
        config = DecodeConfig(
            drafter=DRAFTERS[number % len(DRAFTERS)],
            gamma=[1, 5, 32][number % 3],
            steps=[1, 5, 32][number % 3],
            rule=rule,
            order=order,
            temperature=[0.0, 1.0, 2.0][number % 3],
            draft_temperature=[None, 0.0, 2.0][number % 3],
            top_k=[0, 50][number % 2],
            top_p=[1.0, 0.9][number % 2],
            max_new_tokens=12,
        )
        events = list(engine.decode(PROMPTS[number % 20]["prompt"], config))
        assert events[-1].reason in {"length", "end_of_text"}
        assert all(e.lossless == rule.lossless for e in events if isinstance(e, Verified))


def test_a_typed_mask_is_text(engine: Engine) -> None:
    """A prompt may mention special tokens; it cannot smuggle their ids into the drafter's context."""
    ids = engine.encode("a <|mask|> and an <|endoftext|>")
    assert not set(ids[1:]) & set(engine.pair.tokenizer.all_special_ids)
    assert engine.pair.tokenizer.decode(ids[1:]) == "a <|mask|> and an <|endoftext|>"
