"""Benchmarks on tiny models: transformers' loops on our weights, equal texts, passes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ORIGIN
from target import new_llama
from tiny_pairs import engine_of

from benchmarks import counts, equality
from benchmarks import peers as hf
from benchmarks import report as report_module
from benchmarks.__main__ import main
from benchmarks.equality import check_equality, generate, recorded
from benchmarks.peers import CALLS, Lane, Peers, Turn, lanes_of, measure_peers, one_turn, prepared
from benchmarks.prompts import write_prompts
from benchmarks.tables import section
from specdiff_core import cli
from specdiff_core.cli import options
from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.engine import Engine
from specdiff_core.measure.grid import VANILLA, BenchSetting, listed
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.statistics import student
from specdiff_core.measure.store import RowLog
from specdiff_core.measure.ties import TIES, difference, ranking
from specdiff_core.models.network import vocabulary
from specdiff_core.models.target import Target
from specdiff_core.schema.pairs import EMBEDDED, PAIRS
from specdiff_core.schema.reported import Counts
from specdiff_core.schema.settings import DecodeConfig, Rule
from specdiff_core.schema.summary import final
from specdiff_core.train.learners.block import block_config, new_block
from specdiff_core.train.settings import DrafterSettings

PROMPTS = tuple(Prompt(id=f"{f}-{i}", flavour=f, prompt=f"234567892345{i}") for f in ("math", "code") for i in range(2))
BASE = DecodeConfig(max_new_tokens=12)
SETTINGS = (
    VANILLA,
    BenchSetting("autoregressive", 3, 3),
    BenchSetting("prompt_lookup", 4, 1),
    BenchSetting("block", 4, 1),
)
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


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An untrained target, an untrained small model of its kind, and an untrained block drafter."""
    with torch.random.fork_rng():
        torch.manual_seed(4)  # says no suppressed id, which generate() may
        target = new_llama(VOCAB, layers=4, width=64).eval().requires_grad_(False)
        small = new_llama(VOCAB, layers=1, width=64).eval().requires_grad_(False)
        settings = DrafterSettings(block=6, layers=2, markov=0)
        config = block_config(target.config, "", settings, taps=(1, 2), mask=1, words=VOCAB)
        network = new_block(config, seed=0).eval().requires_grad_(False)
    drafters = {
        "autoregressive": AutoregressiveDrafter("autoregressive", Target(small, context=96, suppress=(1,))),
        "block": BlockDrafter("block", network, vocabulary(target), context=96, forbidden=(1,)),
    }
    return engine_of(target, drafters, context=96)


@pytest.fixture(autouse=True)
def _quick(no_weights: None) -> None:
    """Without the weights of a whole pair."""


# Our lanes and transformers' own.


@pytest.fixture(scope="module")
def turns(engine: Engine) -> RowLog[Turn]:
    """All lanes on two prompts."""
    *_, (done, total, log) = measure_peers(engine, PROMPTS[:2], SETTINGS, BASE, repeats=1)
    assert done == total == 2
    return log


def test_lanes_warm_up_once_off_the_record(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[int] = []
    one = hf.timed
    monkeypatch.setattr(hf, "timed", lambda *given: tokens.append(given[2].max_new_tokens) or one(*given))
    monkeypatch.setattr(hf, "WARM_TOKENS", 3)
    *_, (_, _, log) = measure_peers(engine, PROMPTS[:2], (VANILLA,), BASE, repeats=1)
    assert len(log.rows) == 2 and tokens == [3] * (len(tokens) // 3) + [BASE.max_new_tokens] * (2 * len(tokens) // 3)


def report(log: RowLog[Turn]) -> str:
    """The section of a report."""
    numbers = hf.aggregate(log.rows, log.header["lanes"])
    return section(log.result(Peers, provenance=ORIGIN, prompts={"math": 2}, result=numbers))


def test_every_loop_of_transformers_runs_and_says_vanillas_text(turns: RowLog[Turn]) -> None:
    assert [lane["lane"] for lane in turns.header["lanes"] if lane["theirs"]] == THEIRS
    assert turns.header["left_out"] == []
    found = hf.aggregate(turns.rows, turns.header["lanes"])
    assert found["compared"] == 2 * (len(THEIRS) + 3)
    assert found["equal"] + found["ties"] == found["compared"] and found["equal"] > 0
    assert all(lane["low"] <= lane["ratio"] <= lane["high"] for lane in found["lanes"] if lane["theirs"])
    assert [row.repeat for row in turns.rows] == [0, 0]
    for row in turns.rows:
        assert all(0 < seconds <= wall and tokens == 12 for seconds, wall, tokens in row.lanes.values())


def passes_of(model: torch.nn.Module, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """The keyword arguments of every pass of ``model`` while ``work`` runs."""
    seen: list[dict[str, Any]] = []
    hook = model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs), with_kwargs=True)
    work()
    hook.remove()
    return seen


def say(engine: Engine, lane: Lane, tokens: int = 20) -> tuple[int, ...]:
    with prepared(engine, lane) as options:
        return generate(engine, "3456789345", DecodeConfig(max_new_tokens=tokens, ignore_eos=True), **options)


PLAIN = Lane(VANILLA, CALLS["vanilla"][0])


def test_transformers_dflash_generator_takes_our_block_drafter(engine: Engine) -> None:
    """If a new transformers refuses it, this test says so, and the report does too, instead of
    leaving the lane out silently."""
    from transformers.generation import candidate_generator

    same, default = (Lane(BenchSetting("block", 4, 1), call) for call in CALLS["block_diffusion"][:2])
    known = hasattr(candidate_generator, "DFlashTokenCandidateGenerator")
    assert (same.refusal == "") is known
    if not known:
        pytest.skip("this transformers has no DFlash candidate generator (it came with 5.2x)")
    network: Any = engine.drafter("block").network
    plain = say(engine, PLAIN)
    for lane, block in ((same, 5), (default, 7)):
        calls = passes_of(network, lambda lane=lane: say(engine, lane))
        assert calls and {call["noise_embeds"].shape[1] for call in calls} == {block}
        assert say(engine, lane) == plain
    assert network.config.block_size == 7


def test_drafters_that_predict_from_the_anchor_are_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' loop would take its drafts from one slot further on."""
    network: Any = engine.drafter("block").network
    monkeypatch.setattr(type(network), "lead", property(lambda self: 0))
    *_, (_, _, log) = measure_peers(engine, PROMPTS[:1], SETTINGS, BASE, repeats=1)
    assert not [lane for lane in log.header["lanes"] if lane["theirs"] and lane["ours"].startswith("block/")]
    assert report(log).count("from an anchor, and block has one.") == 2


def test_the_assistant_drafts_as_many_tokens_as_it_is_given(engine: Engine) -> None:
    small: Any = engine.drafter("autoregressive").reader.model
    before = small.generation_config.to_dict()
    counts = []
    for call in CALLS["autoregressive"]:
        lane = Lane(BenchSetting("autoregressive", 3, 3), call)
        rounds = len(passes_of(engine.target.model, lambda lane=lane: say(engine, lane)))
        counts.append(len(passes_of(small, lambda lane=lane: say(engine, lane))) / rounds)
    assert 2.5 < counts[0] <= 3  # the last draft is cut to what may still be said
    assert counts[1] <= 1 and counts[2] <= 1
    assert small.generation_config.to_dict() == before


def test_a_text_that_differs_is_listed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hf.generate

    def other(*args: Any, **options: Any) -> tuple[int, ...]:
        said = whole(*args, **options)
        return (*said[:5], (said[5] + 1) % VOCAB, *said[6:]) if "prompt_lookup_num_tokens" in options else said

    monkeypatch.setattr(hf, "generate", other)
    *_, (_, _, log) = measure_peers(engine, PROMPTS[:2], (VANILLA, SETTINGS[2]), BASE, repeats=1)
    found = hf.aggregate(log.rows, log.header["lanes"])
    lane = next(entry for entry in found["lanes"] if entry["lane"] == THEIRS[4])
    assert (lane["equal"], lane["compared"], lane["ties"]) == (0, 2, 0)
    assert found["equal"] <= found["compared"] - 2
    (line,) = [line for line in report(log).splitlines() if line.startswith("UNEXPLAINED")]
    assert f"{THEIRS[4]}: math-0 from token 5 (" in line and line.count(" from token ") == 2


def test_a_suppressed_token_that_generate_would_say_is_no_secret(engine: Engine) -> None:
    """generate() has no processor: it may write a token that our lanes never do."""
    other = Engine(engine.pair)
    other.target = Target(engine.pair.model, context=96, suppress=say(engine, PLAIN, tokens=1))
    prompt = Prompt(id="p", flavour="x", prompt="3456789345")
    turn = one_turn(other, prompt, 0, DecodeConfig(max_new_tokens=4, drafter="none"), [Lane(VANILLA), PLAIN])
    assert [(item["lane"], item["token"], item["tie"]) for item in turn.differences] == [("generate", 0, False)]


LANES = [
    {"lane": "vanilla", "ours": "vanilla", "theirs": False},
    {"lane": "generate", "ours": "vanilla", "theirs": True},
    {"lane": "ar", "ours": "ar", "theirs": False},
    {"lane": "slow", "ours": "ar", "theirs": True},
    {"lane": "quick", "ours": "ar", "theirs": True},
]


def turn_of(prompt: str, *seconds: float, parted: tuple[str, ...] = ()) -> Turn:
    wall = {lane["lane"]: 0.0 if lane["theirs"] else 1.0 for lane in LANES}
    lanes = {name: (value, value + more, 10) for (name, more), value in zip(wall.items(), seconds, strict=True)}
    differences = [{"lane": name, "prompt": prompt, "repeat": 0, "tie": True} for name in parted]
    return Turn(prompt=prompt, flavour="x", repeat=0, lanes=lanes, differences=differences)


def test_ratios_by_hand() -> None:
    """Pooled: 20 tokens in 2 + 3 s against 20 in 4 + 3.5 s; by wall clock 2 s more for ours."""
    turns = [turn_of("a", 2.0, 4.0, 1.0, 3.0, 1.5), turn_of("b", 3.0, 3.5, 2.0, 3.0, 1.5, parted=("slow",))]
    found = hf.aggregate(turns, LANES)
    vanilla, slow, quick = (lane for lane in found["lanes"] if lane["theirs"])
    assert (vanilla["ratio"], vanilla["ratio_wall"]) == pytest.approx((7.5 / 5, 7.5 / 7))
    factor = (2.0 / (3.5 / 3)) ** (student(0.975, 1) / 2)  # each prompt alone
    assert (vanilla["low"], vanilla["high"]) == pytest.approx((1.5 / factor, 1.5 * factor))
    assert (slow["ratio"], quick["ratio"]) == pytest.approx((2.0, 1.0))
    assert [lane["tokens_per_second"] for lane in found["lanes"]] == pytest.approx(
        [4, 20 / 7.5, 20 / 3, 20 / 6, 20 / 3]
    )
    assert (found["compared"], found["equal"], found["ties"], found["turns"]) == (8, 7, 1, 2)


def test_lanes_are_those_that_the_pair_and_transformers_have() -> None:
    usual = hf.usual_settings(EMBEDDED)
    assert usual == ["autoregressive/4/4", "prompt_lookup/9/1", "block/9/1"]
    assert listed(usual, BASE)[0] == VANILLA
    assert hf.usual_settings(PAIRS["gpt2-mdlm"]) == ["autoregressive/4/4", "prompt_lookup/9/1"]
    assert "block/8/1" in hf.usual_settings(PAIRS["smollm2"]), "its drafter's longest window"
    lanes, _ = lanes_of(EMBEDDED, listed(["autoregressive/4/4", "autoregressive/6/6", "masked/4/1"], BASE))
    names = [lane.name for lane in lanes]
    assert len(set(names)) == len(names) == 2 + 4 + 3 + 1  # defaults once, none for masked
    for key in ("block_markov/9/1", "block/9/1/9", "block/9/1/0/4/self", "block/16/1/auto"):
        lanes, _ = lanes_of(EMBEDDED, listed([key], BASE))
        assert [lane.name for lane in lanes if lane.call] == ["generate"], "DFlash's own loop has nothing like it"


# Equal texts.


def test_equality_grid_on_a_real_model(engine: Engine, tmp_path: Path) -> None:
    *_, (done, total, log) = check_equality(
        engine, PROMPTS, SETTINGS[3:], BASE, [0.0, 1.0], generate_prompts=2, path=tmp_path / "rows.jsonl"
    )
    assert done == total == 8
    found = equality.aggregate(log.rows)
    assert (found["compared"], found["equal"]) == (4 + 4 + 2, 10)
    assert 0 < found["bits_different"] <= found["bits_compared"] <= 8 * 12, "transformers' module rounds by width"
    assert {entry["setting"] for entry in found["entries"]} == {"block/4/1", "generate"}
    with_generate = {(row.prompt, row.temperature) for row in log.rows if "generate" in row.compared}
    assert with_generate == {("math-0", 0.0), ("code-0", 0.0)}, "of every flavour"


def test_logits_are_recorded_beside_the_engine_and_not_in_it(engine: Engine) -> None:
    """The recorded run is the plain one, and nothing of the drafter's own model is recorded."""
    config = dataclasses.replace(BASE, drafter="autoregressive", gamma=4, steps=4)
    with recorded(engine.target) as logits:
        found = final(list(engine.decode("234", config)))
    plain = final(list(engine.decode("234", config)))
    assert found is not None and plain is not None and found.ids == plain.ids
    assert len(logits) == len(found.ids)
    likeliest = [int(row[2:].argmax()) + 2 for row in logits]
    assert all(token in (best, 0) for token, best in zip(found.ids, likeliest, strict=True))


def test_a_real_difference_is_not_excused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that the target did not rank first is a bug, however close others are."""
    config = DecodeConfig(drafter="none", rule=Rule.MATCH, temperature=1.0, max_new_tokens=8, seed=2)
    last = final(engine.decode("234", config))
    assert last is not None
    wrong = list(last.ids)
    best = ranking(engine, [*engine.encode("234"), *wrong[:3]], config).topk(2).indices.tolist()
    assert best[0] == wrong[3]
    wrong[3] = next(token for token in range(2, 12) if token not in best)
    monkeypatch.setitem(TIES, "fp32", math.inf)
    found = difference(engine, "234", wrong, last.ids, config)
    assert found is not None and found.margin > 0
    assert (found.token, found.tie) == (3, False)
    assert difference(engine, "234", last.ids, last.ids, config) is None


# The command line.


def test_every_measurement_from_the_command_line(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: engine)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    common = ["--prompts", f"{tmp_path}/p.jsonl", "--max-new-tokens", "8", "--ignore-eos", "--first", "1"]
    grid = ["--settings", "block/2/1,block/4/1,block/4/4"]
    own = {
        "sweep": [*grid, "--repeats", "1"],
        "peers": ["--settings", "autoregressive/4/4, block/4/1", "--repeats", "1"],
        "equality": grid,
    }
    results = []
    for kind, words in own.items():
        results.append(f"{tmp_path}/{kind}.json")
        given = [kind, *common, *words, "--json", results[-1]]
        status = cli.main(["bench", *given]) if kind == "sweep" else main(given)
        assert status == 0, capsys.readouterr().err
        assert json.loads(Path(results[-1]).read_text())["kind"] == kind
    stored = json.loads((tmp_path / "sweep.json").read_text())
    entries = [(entry["drafter"], entry["gamma"], entry["steps"]) for entry in stored["entries"]]
    assert entries == [("none", 1, 1), ("block", 2, 1), ("block", 4, 1), ("block", 4, 4)]
    assert stored["prompts"] == {"math": 1, "code": 1}
    assert {key: [*runs] for key, runs in stored["runs"].items()} == {
        key: ["math-0", "code-0"] for key in ("none/1/1", "block/2/1", "block/4/1", "block/4/4")
    }
    assert [*json.loads((tmp_path / "peers.json").read_text())["runs"]] == ["math-0", "code-0"]
    (tmp_path / "B.md").write_text("".join(f"<!-- results: {kind}.json -->\n<!-- end -->\n" for kind in own))
    report_module.write(tmp_path, [tmp_path / "B.md"])
    text = (tmp_path / "B.md").read_text()
    assert "texts equal**" in text and str(tmp_path) not in text
    rows = [line for line in text.splitlines() if line.startswith("| block γ 4, T 1 ")]
    assert len(rows) >= 3, "its speed, by kind of text, and its lane beside dflash"


def test_llama_cpp_is_a_lane_for_a_gguf_target(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = dataclasses.replace(engine.pair.spec, target="some/model.gguf")
    monkeypatch.setattr(hf.llama, "is_installed", lambda: False)
    lanes, left_out = lanes_of(gguf, (VANILLA,))
    assert [lane.name for lane in lanes] == ["vanilla", "generate"]
    assert left_out == tuple(f"{name}: pip install xllamacpp" for name in ("llama.cpp", "llama.cpp, n-grams"))
    assert lanes_of(engine.pair.spec, (VANILLA,))[1] == ()
    monkeypatch.setattr(hf.llama, "is_installed", lambda: True)
    monkeypatch.setattr(hf.llama, "kind_for", lambda drafter: "DRAFT_DFLASH")
    monkeypatch.setattr(hf.llama, "gguf_drafter", lambda source, revision, target: (Path("drafter.gguf"), None))
    monkeypatch.setattr(hf.llama, "serve", lambda target, threads, drafts: Served(drafts))
    monkeypatch.setattr(hf.llama, "complete", lambda server, request: server.complete(request))
    monkeypatch.setattr(hf.llama, "counts", lambda server: server.counted)
    pair = dataclasses.replace(engine.pair, spec=gguf)
    settings = (VANILLA, BenchSetting("block", 4, 1))
    *_, (_, _, log) = measure_peers(Engine(pair), PROMPTS[:1], settings, BASE, repeats=1, others="llama.cpp")
    found = hf.aggregate(log.rows, log.header["lanes"])
    lanes = {entry["lane"]: entry for entry in found["lanes"]}
    plain, ours = lanes["llama.cpp"], lanes["llama.cpp with block (γ=4)"]
    assert [*lanes] == ["vanilla", "llama.cpp", "llama.cpp, n-grams", "block γ 4, T 1", ours["lane"]]
    assert plain["tokens_per_second"] == pytest.approx(12 / 0.05) and plain["compared"] == 0 and "drafts" not in plain
    assert (ours["drafts"], ours["positions"], ours["tau"]) == (6, [4, 2, 0, 0], 2.0) and ours["equal"] == 1
    assert lanes["llama.cpp, n-grams"]["equal"] == 0, "its text is not llama.cpp's own"
    found, _ = lanes_of(gguf, settings[1:], others="llama.cpp")
    monkeypatch.setattr(counts, "in_f32", lambda file: (file, None))
    whole, common = counts.counted(Engine(pair), PROMPTS[0].prompt, BASE, {"ours": found[0], "llama.cpp": found[1]})
    assert whole["llama.cpp"] == whole["llama.cpp, F32"] == (6, (4, 2, 0, 0)) and whole["ours"][0] > 0
    assert common["llama.cpp"][0] < BASE.max_new_tokens, "one token, again and again"


class Served:
    """Answers as llama.cpp's server does; with n-grams, another text."""

    def __init__(self, drafts: Any) -> None:
        self.drafts, self.counted = drafts, Counts()

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["prompt"] and asked["temperature"] == 0 and asked["ignore_eos"]
        if self.drafts.file:
            before, more = self.counted, Counts(6, 24, 6, 12, (4, 2, 0, 0))
            sums = [a + b for a, b in zip(before[:4], more[:4], strict=True)]
            places = [a + b for a, b in zip(before.positions or (0,) * 4, more.positions, strict=True)]
            self.counted = Counts(*sums, tuple(places))
        ids = [5 + (self.drafts == hf.llama.NGRAMS)] * asked["n_predict"]
        return {"timings": {"prompt_ms": 10.0, "predicted_ms": 40.0}, "tokens": ids}
