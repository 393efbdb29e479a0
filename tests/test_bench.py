"""Benchmarks on counted clocks and on rows with hand-computed results; equality and forwards on a real, tiny pair."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from specdiff_core import cli
from specdiff_core.bench import tables
from specdiff_core.bench.cells import BASELINE, Cell, grid, listed
from specdiff_core.bench.equality import check_equality, difference, fold_equality, top_two
from specdiff_core.bench.forwards import efficiency, measure_cell
from specdiff_core.bench.goals import goals_section, outcomes
from specdiff_core.bench.markdown import cell_name
from specdiff_core.bench.prompts import Prompt, cut, make_prompts, read_prompts, write_prompts
from specdiff_core.bench.report import interval, ratio, report
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.bench.stock import endless
from specdiff_core.bench.sweep import plan, sweep
from specdiff_core.cli import bench as command
from specdiff_core.cli import options
from specdiff_core.drafters.scripted import ScriptedDrafter
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.engine import Engine
from specdiff_core.models.device import Placement
from specdiff_core.provenance import command as command_text
from specdiff_core.provenance import git_state, provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import PiecesSeen, RunStarted
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.pairs import NONE, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig, Rule
from specdiff_core.schema.summary import final
from specdiff_core.train.corpus import Corpus
from tests.app_fakes import FakeDecoder

PROMPTS = tuple(Prompt(id=f"{f}-{i}", flavour=f, prompt=f"{f} {i}") for f in ("math", "code") for i in range(2))
BASE = DecodeConfig(max_new_tokens=12)
CELLS = grid(["none", "block"], [4], [1, 2])


def row(
    prompt: str, cell: str, seconds: float, tokens: int = 10, *, repeat: int = 0, text: str = "t", **others: Any
) -> Row:
    metrics = Metrics(
        rounds=5, committed=tokens, seconds=seconds, seconds_by={"draft": 0.2 * seconds, "score": 0.5 * seconds,
        "verify": 0.1 * seconds, "prefill": 0.1 * seconds}, tested=8, accepted=6, tested_at=(5, 3), accepted_at=(3, 3),
        peak_bytes=7, waited_seconds=0.25 * seconds,
    )  # fmt: skip
    values = json.loads(json.dumps(dataclasses.asdict(metrics)))
    flavour = prompt.split("-")[0]
    return {"prompt": prompt, "flavour": flavour, "cell": cell, "repeat": repeat, "warmup": False, "metrics": values,
            "text": text, **others}  # fmt: skip


ROWS = [
    row("math-0", "none/1/1", 4.0), row("math-0", "block/8/1", 1.0),
    row("math-1", "none/1/1", 2.0), row("math-1", "block/8/1", 2.0, text="other"),
    row("code-0", "none/1/1", 9.0), row("code-0", "block/8/1", 3.0),
]  # fmt: skip


def test_speed_up_by_hand() -> None:
    """math: (4+2)/(1+2) = 2, code: 9/3 = 3, mean of flavours 2.5 (not 15/6)."""
    vanilla, block = report([*ROWS, {**row("math-0", "block/8/1", 99.0), "warmup": True}])
    assert vanilla["drafter"] == "none"
    assert vanilla["speedup"]["mean"] == pytest.approx(1.0)
    assert block["speedup_by_flavour"]["math"]["value"] == pytest.approx(2.0)
    assert block["speedup_by_flavour"]["code"] == {"value": pytest.approx(3.0), "low": 3.0, "high": 3.0}
    assert block["speedup"]["mean"] == pytest.approx(2.5)
    # Resampling two prompts: 4/1 = 4, 2/2 = 1 or 6/3 = 2; the mean with code's 3 lies between (1+3)/2 and (4+3)/2.
    assert block["speedup_by_flavour"]["math"]["low"] == pytest.approx(1.0)
    assert block["speedup_by_flavour"]["math"]["high"] == pytest.approx(4.0)
    assert (block["speedup"]["low"], block["speedup"]["high"]) == (pytest.approx(2.0), pytest.approx(3.5))
    assert block["tau"] == pytest.approx(30 / 15)
    assert block["alpha"] == pytest.approx(18 / 24)
    assert block["alpha_at"] == [pytest.approx(9 / 15), pytest.approx(1.0)]
    assert block["seconds_by"] == pytest.approx({"draft": 1.2, "verify": 3.6, "prefill": 0.6, "other": 0.6})
    assert block["tokens_per_second"] == pytest.approx(30 / 6)
    assert (block["same_text_as_vanilla"], block["prompts"], block["peak_bytes"]) == (2, 3, 7)
    assert block["waiting"] == pytest.approx(0.25)


def test_speed_up_counts_tokens_where_lengths_differ() -> None:
    assert ratio({"a": (10.0, 100)}, {"a": (4.0, 80)}, ["a"]) == pytest.approx(0.1 / 0.05)


def test_interval_is_seeded_and_holds_the_value() -> None:
    slow = {str(i): (4.0 + i % 3, 10) for i in range(20)}
    fast = {str(i): (2.0 + i % 2, 10) for i in range(20)}
    groups = {"all": list(slow)}
    found = interval(slow, fast, groups, seed=1)
    assert found == interval(slow, fast, groups, seed=1)
    value, low, high = found["mean"]
    assert low < value < high
    assert value == pytest.approx(sum(s for s, _ in slow.values()) / sum(s for s, _ in fast.values()))


def test_only_complete_turns_count() -> None:
    """A row without its baseline would tilt the ratio."""
    more = [*ROWS, row("code-0", "none/1/1", 100.0, repeat=1)]
    assert report(more)[1]["speedup"]["mean"] == pytest.approx(2.5)
    with pytest.raises(ConfigError, match="every cell"):
        report([row("math-0", "block/8/1", 1.0)])


def test_grid_leaves_out_more_steps_than_tokens() -> None:
    cells = grid(["none", "block"], [2, 4], [1, 4])
    assert cells == (BASELINE, Cell("block", 2, 1), Cell("block", 4, 1), Cell("block", 4, 4))
    wide = grid(["block", "mdlm"], [16, 17], [1])
    assert wide == (BASELINE, Cell("block", 16, 1), Cell("mdlm", 16, 1), Cell("mdlm", 17, 1))
    for nothing in (([2], [4]), ([17], [1])):
        with pytest.raises(ConfigError, match="nothing to measure"):
            grid(["block"], *nothing)


def test_plan_interleaves_and_turns_the_order() -> None:
    order = list(plan(PROMPTS[:2], CELLS, 2))
    size = len(CELLS)
    turns = [order[i : i + size] for i in range(0, len(order), size)]
    for turn in turns:
        assert len({(run.prompt.id, run.repeat, run.turn) for run in turn}) == 1
        assert {run.cell for run in turn} == set(CELLS)
    assert [turn[0].cell for turn in turns] == [CELLS[0], CELLS[1], CELLS[2], CELLS[0]]
    assert [turn[0].turn for turn in turns] == [0, 1, 2, 3]


def test_each_turn_of_a_sweep_has_a_seed_of_its_own_and_its_cells_share_it() -> None:
    """With one seed for all, every text at temperature 1 would be decided by the same draws."""
    engine = FakeDecoder()
    list(sweep(engine, PROMPTS[:2], CELLS, dataclasses.replace(BASE, seed=40), repeats=2))
    seeds = [config.seed for _, config in engine.calls[1 + len(CELLS) :]]  # after the header and the warm-up
    assert seeds == [40 + turn for turn in range(4) for _ in CELLS]


def test_a_text_is_the_same_as_vanillas_only_if_it_is_in_every_repeat() -> None:
    engine = FakeDecoder()
    *_, (_, _, log) = sweep(engine, PROMPTS[:2], CELLS, BASE, repeats=2)
    before = report(log.rows)[1]["same_text_as_vanilla"]
    odd = next(r for r in log.rows if r["repeat"] == 0 and r["cell"] == CELLS[1].key)
    odd["text"] = "another"
    assert report(log.rows)[1]["same_text_as_vanilla"] == before - 1


def test_sweep_measures_undisturbed_and_marks_the_warm_up(tmp_path: Path) -> None:
    engine = FakeDecoder()
    told = list(sweep(engine, PROMPTS, CELLS, BASE, repeats=2, path=tmp_path / "rows.jsonl"))
    done, total, log = told[-1]
    assert done == total == len(PROMPTS) * len(CELLS) * 2
    assert [r["warmup"] for r in log.rows] == [True] * len(CELLS) + [False] * total
    assert all(config.drafter == "none" for _, config in engine.calls[:1])
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 1 + len(log.rows)
    entries = report(log.rows)
    assert [e["drafter"] for e in entries] == ["none", "block", "block"]
    assert all(e["same_text_as_vanilla"] == len(PROMPTS) for e in entries)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    steps = sweep(FakeDecoder(), PROMPTS, CELLS, BASE, repeats=2, path=path)
    for _ in range(6):
        next(steps)
    steps.close()
    with path.open("a") as file:
        file.write('{"prompt": "math-0", "cut o')  # the process died while writing
    engine = FakeDecoder()
    *_, (done, total, log) = sweep(engine, PROMPTS, CELLS, BASE, repeats=2, path=path)
    assert done == total
    keys = [(r["prompt"], r["repeat"], r["cell"]) for r in log.rows if not r["warmup"]]
    assert len(keys) == len(set(keys)) == total
    assert {r["session"] for r in log.rows} == {0, 1}
    assert len(engine.calls) == 1 + len(CELLS) + total - 5  # the header, the warm-up, and only what was missing
    finished = FakeDecoder()
    list(sweep(finished, PROMPTS, CELLS, BASE, repeats=2, path=path))
    assert len(finished.calls) == 1


def test_rows_of_another_benchmark_are_never_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    list(sweep(FakeDecoder(), PROMPTS[:1], CELLS, BASE, repeats=1, path=path))
    with pytest.raises(ConfigError, match=r"another benchmark: settings"):
        list(sweep(FakeDecoder(), PROMPTS[:1], CELLS, dataclasses.replace(BASE, seed=3), repeats=1, path=path))
    path.write_text("garbage\n")
    with pytest.raises(ConfigError, match="damaged"):
        RowLog(path, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no prompt"),
        ('{"id": "a", "flavour": "x"}\n', "line 1: 'prompt' must be"),
        ('{"id": "a", "flavour": "x", "prompt": "y"}\nnot json\n', "line 2: this is not JSON"),
        ("[1]\n", "not a JSON object"),
        ('{"id": "a", "flavour": "x", "prompt": 5}\n', "'prompt'"),
        ('{"id": "a", "flavour": "x", "prompt": "y"}\n' * 2, "'a' twice"),
        ("[" * 200_000, "line 1: this is not JSON"),
        ('{"id": "a", "flavour": "x\\ud800", "prompt": "y"}\n', "'flavour' holds characters"),
    ],
)
def test_prompt_files_are_judged_line_by_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_prompts(tmp_path / "p.jsonl")


def test_a_missing_prompt_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        read_prompts(tmp_path / "none.jsonl")


def test_prompts_come_from_validation_documents(tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(200))
    for name, count in (("code", 7), ("math", 3)):
        (tmp_path / f"{name}.train.txt").write_text("never seen")
        documents = [f"{name} {i} {words}" for i in range(count)] + ["short"] * 5
        (tmp_path / f"{name}.valid.txt").write_text("\n\n<|endoftext|>\n\n".join(documents))
    found = make_prompts(Corpus.open(tmp_path), per_flavour=3, characters=50)
    assert [p.id for p in found] == ["code-001", "code-002", "code-003", "math-001", "math-002", "math-003"]
    assert [p.prompt.split()[1] for p in found[:3]] == ["0", "2", "4"]  # evenly spaced
    for prompt in found:
        assert len(prompt.prompt) <= 50
        assert prompt.prompt.split()[-1] in words.split()  # cut after a whole word
    write_prompts(tmp_path / "p.jsonl", found)
    assert read_prompts(tmp_path / "p.jsonl") == found
    assert cut("abcdef", 3) == "abc"
    assert cut("ab cdef", 5) == "ab"
    assert cut("ab cd", 99) == "ab cd"


def test_efficiency_by_hand() -> None:
    """τ = 3, t₁ = 10 ms, t_draft + t_verify = 2 + 13 ms: the limit is 2× and 200 tokens/s."""
    forwards = {"draft_network": 0.002, "target_verify": 0.013, "target_one": 0.010}
    entry = {
        "tau": 3.0, "new_tokens": 90, "seconds": 0.55, "seconds_by": {"prefill": 0.05}, "tokens_per_second": 162.0,
        "speedup": {"mean": 1.99},
    }  # fmt: skip
    found = efficiency(forwards, entry, {"tokens_per_second": 90.0})
    assert found["limit_speedup"] == pytest.approx(2.0)
    assert found["limit_tokens_per_second"] == pytest.approx(200)
    assert found["of_speedup"] == pytest.approx(0.9)
    assert found["of_tokens"] == pytest.approx(180 / 200)


def test_provenance_names_no_folder(tmp_path: Path) -> None:
    found = provenance(["bench", "--prompts", str(tmp_path / "p.jsonl"), "--gamma", "4,8"])
    assert found["command"] == "python -m specdiff_core bench --prompts p.jsonl --gamma 4,8"
    assert str(tmp_path) not in json.dumps(found)
    assert found["threads"] >= 1
    assert found["versions"]["torch"]
    assert git_state(tmp_path) == {"commit": "", "dirty": False}
    assert provenance([f"--prompts={tmp_path}/p.jsonl"])["command"].endswith("--prompts=p.jsonl")
    assert command_text(["x y"]) == "python -m specdiff_core 'x y'"


class Words:
    """A tokenizer of letters."""

    eos_token_id, all_special_ids = 0, [0]

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [2 + ord(char) % 10 for char in text]}

    def decode(self, ids: Any, **options: Any) -> str:
        return "".join(chr(97 + int(token)) for token in ids)

    def convert_ids_to_tokens(self, token: int) -> str:
        return chr(97 + token)


@pytest.fixture(scope="module")
def engine() -> Engine:
    """A tiny untrained target, and a drafter that always says 5."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=12, max_position_embeddings=128, bos_token_id=0, eos_token_id=0, pad_token_id=0, **shape
            )
        )
    spec = PairSpec(
        name="tiny", label="Tiny", target="tiny", suppress=(1,), context=128,
        drafters=(DrafterSpec(name="block", label="", module="scripted"), NONE),
    )  # fmt: skip

    def fives(known: tuple[int, ...], window: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.full(window.shape, 5), 12) * 5.0

    pair = types.SimpleNamespace(
        spec=spec,
        placement=Placement(torch.device("cpu"), torch.float32, "a test"),
        model=model.eval(),
        tokenizer=Words(),
        drafters={"none": VanillaDrafter(), "block": ScriptedDrafter(fives, mask_id=1)},
        missing={},
        name_of=lambda role: f"tiny/{role}",
    )
    return Engine(pair)  # type: ignore[arg-type]  # stands in for a LoadedPair


def test_equality_grid_on_a_real_model(engine: Engine, tmp_path: Path) -> None:
    cells = [Cell("block", 4, 2)]
    base = dataclasses.replace(BASE, pair="tiny")
    steps = check_equality(
        engine, PROMPTS[:3], cells, base, temperatures=[0.0, 1.0], generate_prompts=2, path=tmp_path / "rows.jsonl"
    )
    *_, (done, total, log) = steps
    assert done == total == 6
    found = fold_equality(log.rows)
    assert (found["compared"], found["unexplained"]) == (3 + 3 + 2, 0)
    assert found["equal"] + found["ties"] == 8
    assert {entry["cell"] for entry in found["cells"]} == {"block/4/2", "generate"}


def test_a_real_difference_is_not_excused(engine: Engine) -> None:
    """A token that the target did not rank first is a bug, however close others are."""
    config = DecodeConfig(drafter="none", rule=Rule.MATCH, temperature=1.0, max_new_tokens=8, seed=2)
    *_, last = engine.decode("abc", config)
    wrong = list(last.ids)
    best, margin = top_two(engine, [*engine.encode("abc"), *wrong[:3]], config)
    assert best[0] == wrong[3]
    assert margin > 0
    wrong[3] = next(token for token in range(2, 12) if token not in best)
    found = difference(engine, "abc", wrong, last.ids, config)
    assert found is not None
    assert (found["token"], found["tie"]) == (3, False)
    assert difference(engine, "abc", last.ids, last.ids, config) is None


def test_bare_passes_are_timed_and_leave_no_trace(engine: Engine) -> None:
    ids = list(engine.encode("abcdef"))
    found = measure_cell(engine, ids, Cell("block", 4, 2), BASE)
    assert all(found[name] > 0 for name in ("target_one", "target_verify", "draft"))
    assert 0 <= found["draft_network"] <= found["draft"]
    assert found["context"] == 6


def sweep_of(*cells: tuple[str, int, float, float], temperature: float = 0.0) -> dict[str, Any]:
    """A stored sweep: drafter, γ, speed-up on two flavours whose τ are 4 and 2."""
    entries = [
        {
            "drafter": drafter,
            "gamma": gamma,
            "steps": 1,
            "speedup": {"mean": (dialogue + code) / 2},
            "speedup_by_flavour": {"dialogue": {"value": dialogue}, "code": {"value": code}},
            "tau": 3.0,
            "tau_by_flavour": {"dialogue": 4.0, "code": 2.0},
            "seconds": 2.0,
            "seconds_by": {"draft": 0.5, "verify": 1.5},
        }
        for drafter, gamma, dialogue, code in cells
    ]
    return {"kind": "sweep", "settings": {"temperature": temperature}, "cells": entries}


def test_goals_are_held_against_the_best_cell() -> None:
    """One γ for all rows of a drafter, the one nearest to all its goals, though others are better at one of them."""
    cells = [("block", 2, 2.0, 3.1), ("block", 4, 2.5, 2.3), ("block", 8, 3.1, 0.4)]  # mean 2.55, 2.4, 1.75
    found = list(outcomes([sweep_of(("none", 1, 1.0, 1.0), *cells)]))
    assert [(outcome.figure, outcome.measured, outcome.met) for outcome in found] == [
        ("block γ=4 T=1 over vanilla, mean", "2.40×", True),
        ("block γ=4 T=1 over vanilla, dialogue", "2.50×", False),
    ]
    assert found[0].why == ""
    # A round costs 4 / 2.5 vanilla tokens, so three times as fast needs τ = 3 · 1.6.
    assert "draft 25 %, verify 75 %" in found[1].why and "needs τ = 4.80; measured τ = 4.00" in found[1].why
    tree = sweep_of(("block", 4, 2.5, 2.3), ("block", 6, 9.0, 9.0))
    tree["cells"][1]["nodes"] = 16
    assert list(outcomes([tree, sweep_of(("block", 8, 9.0, 9.0))])) == list(outcomes([tree]))
    assert "γ=4" in next(iter(outcomes([tree]))).figure, "a tree is another method"
    section = goals_section([sweep_of(("block", 4, 2.5, 2.3))])
    assert "| NO " in section and "- block γ=4 T=1 over vanilla, dialogue: " in section


def test_more_than_the_limit_is_no_success_but_a_machine_that_changed() -> None:
    sweep = sweep_of(("mdlm", 4, 1.3, 1.0))
    for share, met in ((0.85, True), (1.02, True), (1.08, False)):
        entry = {"drafter": "mdlm", "gamma": 4, "steps": 1, "efficiency": {"of_speedup": share}}
        found = list(outcomes([sweep, {"kind": "forwards", "cells": [entry]}]))[-1]
        assert found.met is met and ("no loop beats its limit" in found.why) is not met


def test_goals_of_every_kind_of_result() -> None:
    """Each result speaks about its own goals; at temperature 1, and of strangers, none is claimed."""
    sweep = sweep_of(("mdlm", 4, 1.3, 1.0))
    entry = {"drafter": "mdlm", "gamma": 4, "steps": 1, "efficiency": {"of_speedup": 0.84}}
    waits = ({"median": 5.1, "low": 3.0, "high": 7.0}, {"median": 2.9, "low": 2.0, "high": 9.0})
    page = {"kind": "page", "starts": 5, "usable_seconds": waits[0], "first_event_seconds": {"first": waits[1]}}
    page["load_seconds"] = 2.5
    cost = {"median": 1.06, "low": 0.9, "high": 1.2, "interval": [1.01, 1.09]}
    page["waiting"] = {"vanilla": {"attached": 0.03, "alone": 0.01}, "drafted": {"attached": None, "alone": 0.01}}
    results = [
        {"kind": "generate", "result": {"ratio": 1.02}},
        sweep,
        {"kind": "forwards", "cells": [entry, {**entry, "gamma": 8}]},
        {**page, "attached": {"vanilla": {"median": 1.04}, "drafted": cost}},
        {"kind": "equality", "result": {"compared": 9, "unexplained": 1}},
    ]
    assert [(outcome.measured, outcome.met) for outcome in outcomes(results)] == [
        ("1.02×", True),
        ("1.15×", False),
        ("84 %", False),
        ("5.10 s (3.00–7.00)", False),
        ("2.90 s (2.00–9.00)", True),
        ("1.040×", True),
        ("1.060×", False),
        ("1", False),
    ]
    assert "the median is known to 1.010–1.090" in goals_section(results)
    assert "threads waiting for a processor: – beside server and browser, 0.01 alone" in goals_section(results)
    assert goals_section([sweep_of(("block", 4, 9.0, 9.0), temperature=1.0), {"kind": "other"}]) == ""


def test_the_page_is_told_with_its_spread_and_an_old_form_is_refused(tmp_path: Path) -> None:
    spread = {"median": 2.0, "low": 1.5, "high": 3.25}
    origin = {"commit": "c", "dirty": False, "versions": {}, "cpu": "CPU", "gpu": None, "cores": 2, "system": "S"}
    page = {
        "kind": "page", "schema": 4, "starts": 5, "turns": 30, "device": "cpu", "dtype": "fp32", "threads": 2,
        "target": "T", "settings": DecodeConfig().to_dict(), "usable_seconds": spread,
        "first_event_seconds": {"first": spread, "later": spread},
        "attached": {lane: {**spread, "interval": [1.9, 2.1]} for lane in ("vanilla", "drafted")},
        "waiting": {lane: {"attached": 0.05, "alone": 0.004} for lane in ("vanilla", "drafted")},
        "provenance": {**origin, "date": "today", "command": "python -m app.measure"},
    }  # fmt: skip
    path = tmp_path / "page.json"
    path.write_text(json.dumps(page))
    told = tables.section(command.read_result(path))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.splitlines() if line.startswith("|")]
    assert [row[1:] for row in rows[2:5]] == [[n, "2.00 s", "1.50–3.25 s"] for n in ("5", "5", "30")]
    assert rows[-1] == ["drafted", "2.000×", "1.900–2.100", "1.500–3.250", "0.050", "0.004"]
    path.write_text(json.dumps({**page, "schema": 3}))
    with pytest.raises(ConfigError, match="another version"):
        command.read_result(path)


@pytest.mark.parametrize(("seconds", "least"), [(None, 0), (0.0, 1), (0.6, 2)])
def test_a_warm_up_comes_behind_the_header_and_is_not_measured(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, seconds: float | None, least: int
) -> None:
    """Whoever listens hears the start first; the events are those of a run without it."""
    runs: list[Any] = []
    start = engine.target.start
    monkeypatch.setattr(engine.target, "start", lambda layers=(): runs.append(layers) or start(layers))
    config = dataclasses.replace(BASE, drafter="block", gamma=4, steps=2, max_new_tokens=12)
    events = engine.decode("abc", config, warm_up=seconds)
    while not isinstance(next(events), RunStarted):
        pass
    assert not runs, "nothing is decoded before the header is told"
    began = time.monotonic()
    told = [type(next(events))]
    assert len(runs) - 1 >= least and time.monotonic() - began >= (seconds or 0.0)
    assert seconds != 0.0 or len(runs) == 2
    *rest, last = events
    plain = [event for event in engine.decode("abc", config) if not isinstance(event, RunStarted | PiecesSeen)]
    assert [*told, *(type(event) for event in rest if not isinstance(event, PiecesSeen)), type(last)] == [
        type(event) for event in plain
    ]
    assert last.ids == plain[-1].ids and last.seconds <= time.monotonic() - began


def test_a_stopped_warm_up_ends_the_run(engine: Engine) -> None:
    """Before its first round, at once."""
    stop = threading.Event()
    events = engine.decode("abc", dataclasses.replace(BASE, drafter="block", gamma=4, steps=2), warm_up=60, stop=stop)
    while not isinstance(next(events), RunStarted):
        pass
    stop.set()
    last = final(list(events))
    assert last is not None and (last.reason, last.rounds, last.ids) == ("stopped", 0, ())


def test_generate_is_given_back_its_end(engine: Engine) -> None:
    model = engine.target.model
    with endless(model):
        assert model.generation_config.eos_token_id is None
    assert model.generation_config.eos_token_id == 0


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_measured(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: engine)
    long = Prompt(id="long-one", flavour="math", prompt="word " * 20_000)
    write_prompts(tmp_path / "p.jsonl", [*PROMPTS, long])
    words = ["bench", "--prompts", str(tmp_path / "p.jsonl"), "--drafters", "none", "--json", str(tmp_path / "r.json")]
    assert cli.main(words) == 2
    assert "error: long-one: The prompt has 100,000 characters" in capsys.readouterr().err
    assert not (tmp_path / "r.rows.jsonl").exists()


def test_bench_from_the_command_line(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every measurement writes its JSON, and one report holds them all."""
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: engine)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    common = ["--prompts", str(tmp_path / "p.jsonl"), "--drafters", "none,block", "--gamma", "2,4", "--steps", "1,4"]
    common += ["--repeats", "1", "--max-new-tokens", "8", "--ignore-eos", "--first", "1"]
    results = []
    for kind in command.MEASURES:
        results.append(str(tmp_path / f"{kind}.json"))
        words = ["bench", "--measure", kind, *common, "--json", results[-1], "--sweep", str(tmp_path / "sweep.json")]
        words += ["--lanes", "block=4"] if kind == "referee" else []
        assert cli.main(words) == 0, capsys.readouterr().err
        assert json.loads(Path(results[-1]).read_text())["kind"] == kind
    stored = json.loads((tmp_path / "sweep.json").read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**stored, "threads": 77}))
    words = ["bench", "--measure", "forwards", *common, "--sweep", str(other)]
    assert cli.main(words) == 2 and "another threads" in capsys.readouterr().err
    assert [(e["drafter"], e["gamma"], e["steps"]) for e in stored["cells"]] == [
        ("none", 1, 1), ("block", 2, 1), ("block", 4, 1), ("block", 4, 4),
    ]  # fmt: skip
    assert stored["prompts"] == {"math": 1, "code": 1}
    assert cli.main(["bench", "--report", str(tmp_path / "BENCHMARKS.md"), "--from", *results]) == 0
    told = (tmp_path / "BENCHMARKS.md").read_text()
    for words in (
        "## Speed-up",
        "## The referee: transformers itself",
        "Lanes without a counterpart, tokens/s: block γ=4 T=1",
        "## How close",
        "## The same text",
        "0 unexplained",
        "Threads waiting for a processor, on average:",
    ):
        assert words in told
    assert str(tmp_path) not in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompts", "p", "--gamma", "x"], "not a list"),
        (["--prompts", "p", "--gamma", "64"], "Give a whole number"),
        (["--prompts", "p", "--repeats", "0"], "at least 1"),
        (["--report", "B.md"], "needs results"),
        (["--prompts", "p", "--json", "/"], "is no file"),
        (["--report", "."], "is no file"),
    ],
)
def test_bench_says_what_is_wrong(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"kind": [], "schema": 1}',
        '{"kind": "sweep", "schema": 1}',
        '{"kind": "page", "schema": 3}',
        '{"kind": "equality", "schema": 1, "result": 3}',
    ],
)
def test_a_foreign_result_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(text)
    assert cli.main(["bench", "--report", str(tmp_path / "B.md"), "--from", str(tmp_path / "r.json")]) == 2
    assert "r.json" in capsys.readouterr().err and not (tmp_path / "B.md").exists()


@pytest.mark.parametrize("text", ["[1]\n", "null\n", "{}\n{}\n", '{}\n{"session": "x"}\n', "[" * 200_000 + "\n"])
def test_damaged_rows_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.rows.jsonl").write_text(text)
    with pytest.raises(ConfigError, match="damaged"):
        RowLog(tmp_path / "r.rows.jsonl", {})


def test_tables_read_as_text() -> None:
    assert tables.table(["a", "b"], [["1", "long"]]) == "| a | b    |\n|---|------|\n| 1 | long |"
    with pytest.raises(ConfigError, match="Unknown kind"):
        tables.section({"kind": "poem"})


def test_cells_one_by_one() -> None:
    keys = ["block/9/1", "block/9/1/12", "mdlm/8/1/0/4/trie", "block/16/1/auto", "block/9/1"]
    cells = listed(keys, DecodeConfig())
    assert [cell.key for cell in cells] == ["none/1/1", *keys[:-1]]
    assert all(Cell.of(cell.key) == cell for cell in cells)
    assert cells[-1].config(DecodeConfig()).auto and not cells[1].config(DecodeConfig()).auto
    alike = listed(["autoregressive/4/1", "autoregressive/4/4", "none/7/3", "block/9/4/12"], DecodeConfig())
    assert [cell.key for cell in alike] == ["none/1/1", "autoregressive/4/4", "block/9/1/12"]
    for wrong, words in (
        ("block/x/1", "no cell"),
        ("block", "no cell"),
        ("block/20/1", "cannot follow"),
        ("prompt_lookup/9/1/auto", "cannot follow"),
        ("autoregressive/4/4/12", "cannot follow"),
        ("block/9/1/0/4/self/auto", "cannot follow"),
        ("medusa/4/1", "no drafter"),
    ):
        with pytest.raises(ConfigError, match=words):
            listed([wrong], DecodeConfig())
    entry = dataclasses.asdict(cells[-1])
    assert cell_name(entry) == "block γ≤16 auto"
