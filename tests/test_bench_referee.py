"""The referee: transformers' own loops run on our weights, set up as they say, told apart where texts part; on a tiny
untrained pair, and on rows with hand-computed results."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specdiff_core import cli
from specdiff_core.bench import referee as referee_module
from specdiff_core.bench import tables
from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.goals import outcomes
from specdiff_core.bench.prompts import Prompt, write_prompts
from specdiff_core.bench.referee import Lane, fold_referee, lanes_of, one_turn, own_cells, referee
from specdiff_core.bench.stock import Stock, asked, endless, generate, refusal, ways
from specdiff_core.cli import bench as command
from specdiff_core.cli import options
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.prompt_lookup import PromptLookupDrafter
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.engine import Engine
from specdiff_core.models.device import Placement
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import EMBEDDED, GPT2_MDLM, NONE, PROMPT_LOOKUP, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.train.new_block import drafter_config, new_drafter
from specdiff_core.train.target import new_target

PROMPTS = tuple(Prompt(id=f"math-{i}", flavour="math", prompt=f"a few words {i}") for i in range(2))
BASE = DecodeConfig(max_new_tokens=20)
CELLS = (BASELINE, Cell("autoregressive", 3, 3), Cell("prompt_lookup", 4, 1), Cell("block", 4, 1))
THEIRS = [
    "generate",
    "assistant_model=autoregressive (γ=3)",
    "assistant_model=autoregressive (γ=3, default confidence)",
    "assistant_model=autoregressive (defaults)",
    "prompt_lookup_num_tokens=4",
    "dflash block (γ=4)",
    "dflash block (defaults)",
]
VOCAB = 40


class Words:
    """A tokenizer of letters."""

    eos_token_id, all_special_ids = 0, (0,)

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [2 + ord(char) % (VOCAB - 2) for char in text]}

    def decode(self, ids: Any, **options: Any) -> str:
        return " ".join(map(str, ids))


@pytest.fixture
def engine() -> Engine:
    """An untrained target, an untrained small model of its kind, and an untrained block drafter."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        target = new_target(VOCAB, layers=4, width=64, context=96).eval().requires_grad_(False)
        small = new_target(VOCAB, layers=1, width=64, context=96).eval().requires_grad_(False)
    network = (
        new_drafter(target, drafter_config(target, layers=2, features=2, block_size=7)).eval().requires_grad_(False)
    )
    embedding = target.get_input_embeddings().weight
    spec = PairSpec(
        name="tiny", label="Tiny", target="tiny", suppress=(1,), context=96,
        drafters=(
            DrafterSpec(name="block", label="", module="block_diffusion", window=6),
            DrafterSpec(name="autoregressive", label="", module="autoregressive", drafting="sequential"),
            PROMPT_LOOKUP,
            NONE,
        ),
    )  # fmt: skip
    pair = types.SimpleNamespace(
        spec=spec,
        placement=Placement(torch.device("cpu"), torch.float32, "a test"),
        model=target,
        tokenizer=Words(),
        drafters={
            "none": VanillaDrafter(),
            "prompt_lookup": PromptLookupDrafter("prompt_lookup"),
            "autoregressive": AutoregressiveDrafter("autoregressive", small, context=96, forbidden=(1,)),
            "block": BlockDrafter("block", network, embedding, target.get_output_embeddings(), forbidden=(1,)),
        },
        missing={},
        name_of=lambda role: f"tiny/{role}",
    )
    return Engine(pair)  # type: ignore[arg-type]  # stands in for a LoadedPair


def passes_of(model: torch.nn.Module, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """The keyword arguments of every pass of ``model`` while ``work`` runs."""
    seen: list[dict[str, Any]] = []
    hook = model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs), with_kwargs=True)
    work()
    hook.remove()
    return seen


def say(engine: Engine, stock: Stock, tokens: int = 20) -> tuple[int, ...]:
    with asked(engine, stock) as options:
        return generate(engine, engine.encode("some words"), tokens, ignore_eos=True, **options)


def test_every_loop_of_transformers_runs_and_says_vanillas_text(engine: Engine) -> None:
    steps = referee(engine, PROMPTS, CELLS, BASE, repeats=2)
    *_, (done, total, log) = steps
    assert done == total == 4
    assert [lane["lane"] for lane in log.header["lanes"] if lane["stock"]] == THEIRS
    assert log.header["left_out"] == []
    found = fold_referee(log.rows, log.header["lanes"])
    assert found["compared"] == 4 * (len(THEIRS) + 3)
    assert found["equal"] + found["ties"] == found["compared"] and found["equal"] > 0
    assert [pair["theirs"] for pair in found["pairs"]] == THEIRS
    assert all(pair["low"] <= pair["ratio"] <= pair["high"] for pair in found["pairs"])
    for row in log.rows[1:]:
        assert {lane["tokens"] for lane in row["lanes"].values()} == {20}
        assert all(0 < lane["seconds"] <= lane["wall"] for lane in row["lanes"].values())


def test_transformers_dflash_generator_takes_our_block_drafter(engine: Engine) -> None:
    """If a new transformers refuses it, this test tells, and the report says so instead of leaving the lane out
    silently."""
    from transformers.generation import candidate_generator

    stock = Stock(kind="dflash", drafter="block", gamma=4)
    known = hasattr(candidate_generator, "DFlashTokenCandidateGenerator")
    assert (refusal(stock) == "") is known
    if not known:
        pytest.skip("this transformers has no DFlash candidate generator (it came with 5.2x)")
    network: Any = engine.drafter("block").network  # type: ignore[attr-defined]
    plain = say(engine, Stock(kind="plain"))
    for way, block in ((stock, 5), (Stock(kind="dflash", drafter="block"), 7)):
        calls = passes_of(network, lambda way=way: say(engine, way))  # type: ignore[misc]
        assert calls and {call["noise_embeds"].shape[1] for call in calls} == {block}
        assert say(engine, way) == plain
    assert network.config.block_size == 7


def test_a_transformers_without_dflash_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.generation import candidate_generator

    monkeypatch.delattr(candidate_generator, "DFlashTokenCandidateGenerator", raising=False)
    lanes, left_out = lanes_of(engine.pair.spec, CELLS)
    assert [lane.key for lane in lanes if lane.theirs] == THEIRS[:5]
    assert len(left_out) == 2 and all("has no transformers.generation" in reason for reason in left_out)
    *_, (_, _, log) = referee(engine, PROMPTS[:1], CELLS, BASE, repeats=1)
    assert "Left out: dflash block (γ=4): transformers" in told(log)


def test_the_assistant_drafts_as_many_tokens_as_it_is_told(engine: Engine) -> None:
    """With our γ to the end of every draft; with the default threshold an untrained model stops after one token."""
    small: Any = engine.drafter("autoregressive").reader.model  # type: ignore[attr-defined]
    before = small.generation_config.to_dict()
    same, confident, default = ways("autoregressive", "autoregressive", 3)
    counts = {}
    for way in (same, confident, default):
        rounds = len(passes_of(engine.target.model, lambda way=way: say(engine, way)))  # type: ignore[misc]
        counts[way] = len(passes_of(small, lambda way=way: say(engine, way))) / rounds  # type: ignore[misc]
    assert 2.5 < counts[same] <= 3  # the last draft is cut to what may still be said
    assert counts[confident] <= 1 and counts[default] <= 1
    assert small.generation_config.to_dict() == before


def test_settings_are_given_back_after_an_error(engine: Engine) -> None:
    small: Any = engine.drafter("autoregressive").reader.model  # type: ignore[attr-defined]
    network: Any = engine.drafter("block").network  # type: ignore[attr-defined]
    kept = small.generation_config
    for stock in (*ways("autoregressive", "autoregressive", 3), *ways("block_diffusion", "block", 2)):
        with pytest.raises(RuntimeError, match="broke"), asked(engine, stock):
            raise RuntimeError("it broke")
        assert small.generation_config is kept and network.config.block_size == 7
    with pytest.raises(RuntimeError, match="broke"), endless(small):
        raise RuntimeError("it broke")
    assert small.generation_config is kept


def test_a_text_that_parts_is_counted_and_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = referee_module.generate

    def other(*args: Any, **options: Any) -> tuple[int, ...]:
        said = whole(*args, **options)
        return (*said[:5], (said[5] + 1) % VOCAB, *said[6:]) if "prompt_lookup_num_tokens" in options else said

    monkeypatch.setattr(referee_module, "generate", other)
    *_, (_, _, log) = referee(engine, PROMPTS, CELLS, BASE, repeats=1)
    found = fold_referee(log.rows, log.header["lanes"])
    lane = next(entry for entry in found["lanes"] if entry["lane"] == THEIRS[4])
    assert (lane["equal"], lane["compared"], lane["ties"]) == (0, 2, 0)
    assert found["equal"] <= found["compared"] - 2
    assert f"- {THEIRS[4]}, math-0, token 5: the two best tokens are" in told(log) and "UNEXPLAINED" in told(log)
    outcome = list(outcomes([{"kind": "referee", "result": found}]))[-1]
    assert not outcome.met and "vanilla's" in outcome.figure


def test_a_suppressed_token_that_generate_would_say_is_no_secret(engine: Engine) -> None:
    """generate() gets no processor: where the target's best token is one that our lanes never say, the texts part."""
    said = say(engine, Stock(kind="plain"), tokens=1)
    pair = engine.pair
    engine.target = Target(pair.model, context=96, suppress=said)
    turn = one_turn(
        engine,
        "some words",
        DecodeConfig(max_new_tokens=4, drafter="none"),
        [Lane(BASELINE), Lane(BASELINE, Stock(kind="plain"))],
    )
    assert [(item["lane"], item["token"], item["tie"]) for item in turn["differences"]] == [("generate", 0, False)]


def test_lanes_turn_and_an_interrupted_run_goes_on(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[list[str]] = []
    whole = referee_module.one_turn

    def noted(engine: Any, prompt: str, base: Any, lanes: Any, first: int = 0) -> Any:
        order.append([lane.key for lane in (*lanes[first:], *lanes[:first])])
        return whole(engine, prompt, base, lanes, first)

    monkeypatch.setattr(referee_module, "one_turn", noted)
    path = tmp_path / "r.rows.jsonl"
    steps = referee(engine, PROMPTS, CELLS[:1], BASE, repeats=2, path=path)
    for _ in range(3):
        next(steps)
    steps.close()
    *_, (done, total, log) = referee(engine, PROMPTS, CELLS[:1], BASE, repeats=2, path=path)
    assert done == total == 4
    ours = ["vanilla", "generate"]
    assert order == [ours, ours, ours[::-1], ours, ours, ours[::-1]]  # each sitting begins with a warm-up
    keys = [(row["prompt"], row["repeat"]) for row in log.rows if not row["warmup"]]
    assert len(set(keys)) == len(keys) == 4


ABOUT = [
    {"lane": "vanilla", "ours": "vanilla", "drafter": "none", "stock": False},
    {"lane": "generate", "ours": "vanilla", "drafter": "none", "stock": True},
    {"lane": "ar", "ours": "ar", "drafter": "autoregressive", "stock": False},
    {"lane": "slow", "ours": "ar", "drafter": "autoregressive", "stock": True},
    {"lane": "quick", "ours": "ar", "drafter": "autoregressive", "stock": True},
]


def turn_of(prompt: str, *seconds: float, warmup: bool = False, parted: tuple[str, ...] = ()) -> dict[str, Any]:
    lanes = {
        about["lane"]: {"seconds": value, "wall": value + (0.0 if about["stock"] else 1.0), "tokens": 10}
        for about, value in zip(ABOUT, seconds, strict=True)
    }
    differences = [
        {"lane": name, "token": 3, "ours": [1], "theirs": [2], "margin": 1e-6, "tie": True} for name in parted
    ]
    return {"prompt": prompt, "flavour": "x", "repeat": 0, "warmup": warmup, "lanes": lanes, "differences": differences}


def test_ratios_by_hand() -> None:
    """Pooled: 20 tokens in 2 + 3 s against 20 in 4 + 3.5 s; by wall clock 2 s more for ours."""
    turns = [
        turn_of("a", 2.0, 4.0, 1.0, 3.0, 1.5),
        turn_of("b", 3.0, 3.5, 2.0, 3.0, 1.5, parted=("slow",)),
        turn_of("a", 1e9, 1.0, 1.0, 1.0, 1.0, warmup=True),
    ]
    found = fold_referee(turns, ABOUT)
    vanilla, slow, quick = found["pairs"]
    assert vanilla["ratio"] == pytest.approx(7.5 / 5)
    assert vanilla["ratio_median"] == pytest.approx((2.0 + 3.5 / 3) / 2)
    assert vanilla["ratio_wall"] == pytest.approx(7.5 / 7)
    assert (vanilla["low"], vanilla["high"]) == (pytest.approx(3.5 / 3), pytest.approx(2.0))  # each prompt alone
    assert (slow["ratio"], quick["ratio"]) == (pytest.approx(2.0), pytest.approx(1.0))
    assert (found["compared"], found["equal"], found["ties"], found["turns"]) == (8, 7, 1, 2)
    goals = [(item.measured, item.met) for item in outcomes([{"kind": "referee", "result": found}])]
    # Held against the quicker of the two, by our decode clock and by the wall clock.
    assert goals == [("1.50×, 1.07×", True), ("1.00×, 0.60×", False), ("7", False)]


def told(log: Any) -> str:
    """The section of the report."""
    result = {
        **json.loads(json.dumps(log.header)), "prompts": {"math": 2}, "repeats": 1,
        "result": fold_referee(log.rows, log.header["lanes"]),
    }  # fmt: skip
    return tables.referee_section(result)


def test_own_lanes_are_those_that_the_pair_has() -> None:
    names = [(cell.drafter, cell.gamma, cell.steps) for cell in own_cells(EMBEDDED)]
    assert names == [("none", 1, 1), ("autoregressive", 4, 4), ("prompt_lookup", 9, 1), ("block", 9, 1)]
    assert [cell.drafter for cell in own_cells(GPT2_MDLM)] == ["none", "prompt_lookup"]
    assert own_cells(EMBEDDED, [("none", 1), ("block", 32), ("block", 16)]) == (BASELINE, Cell("block", 16, 1))
    with pytest.raises(ConfigError, match="no drafter called"):
        own_cells(GPT2_MDLM, [("block", 9)])
    lanes, _ = lanes_of(EMBEDDED, own_cells(EMBEDDED, [("autoregressive", 4), ("autoregressive", 6), ("mdlm", 4)]))
    keys = [lane.key for lane in lanes]
    assert len(set(keys)) == len(keys) == 2 + 4 + 3 + 1  # transformers' defaults once, none for mdlm
    lanes, _ = lanes_of(EMBEDDED, own_cells(EMBEDDED, [("block_markov", 9)]))
    assert [lane.theirs.kind for lane in lanes if lane.theirs] == ["plain"]  # DFlash's own loop knows no Markov head


def test_the_referee_from_the_command_line(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: engine)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    words = ["bench", "--measure", "referee", "--prompts", str(tmp_path / "p.jsonl"), "--repeats", "1"]
    words += ["--max-new-tokens", "12", "--lanes", "autoregressive=4, prompt_lookup=4"]
    assert cli.main([*words, "--json", str(tmp_path / "r.json")]) == 0, capsys.readouterr().err
    assert cli.main(["bench", "--report", str(tmp_path / "B.md"), "--from", str(tmp_path / "r.json")]) == 0
    text = (tmp_path / "B.md").read_text()
    assert "## The referee: transformers itself" in text and "AR lane over transformers' assisted generate" in text
    assert "| autoregressive γ=4 T=4 |" in text and "dflash block" not in text


def test_a_result_from_before_the_referee_is_still_told(tmp_path: Path) -> None:
    origin = {"commit": "c", "dirty": False, "versions": {}, "cpu": "CPU", "gpu": None, "cores": 2, "system": "S"}
    fold = {"tokens_per_second": 3.0, "generate_tokens_per_second": 2.0, "ratio": 1.5, "ratio_median": 1.4, "turns": 7}
    old = {
        "kind": "generate", "schema": 1, "device": "cpu", "dtype": "fp32", "threads": 2, "target": "T",
        "settings": DecodeConfig().to_dict(), "result": fold,
        "provenance": {**origin, "date": "today", "command": "python -m specdiff_core bench --measure generate"},
    }  # fmt: skip
    path = tmp_path / "generate.json"
    path.write_text(json.dumps(old))
    stored = command.read_result(path)
    assert "**1.50×**" in tables.section(stored)
    assert [(item.measured, item.met) for item in outcomes([stored])] == [("1.50×", True)]
