"""Benchmarks without a model: settings, prompts, sweeps on counted clocks, numbers by hand, files and commands."""

from __future__ import annotations

import dataclasses
import gzip
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specdiff_core import cli
from specdiff_core.bench import suite
from specdiff_core.bench import sweep as sweep_module
from specdiff_core.bench.grid import BASELINE, BenchSetting, grid, listed
from specdiff_core.bench.markdown import benchmarks, paper_curves, section, table
from specdiff_core.bench.prompts import Prompt, cut, make_prompts, own_prompts, read_prompts, write_prompts
from specdiff_core.bench.report import aggregate, interval, reaggregate, sweep_result, whole_turns
from specdiff_core.bench.store import Result, Row, RowLog, Sweep, Traces, read_result, slug, write_result
from specdiff_core.bench.sweep import plan, sweep, weights_digest
from specdiff_core.cli import bench as command
from specdiff_core.cli import build_parser, options
from specdiff_core.provenance import command as command_text
from specdiff_core.provenance import git_state, provenance
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Finished, PiecesSeen
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.pairs import EMBEDDED, PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace, write_trace
from specdiff_core.train.corpus import Corpus
from tests.app_fakes import FakeDecoder
from tests.compare_fakes import ORIGIN

ROOT = Path(__file__).resolve().parent.parent
PROMPTS = tuple(Prompt(id=f"{f}-{i}", flavour=f, prompt=f"{f} {i}") for f in ("math", "code") for i in range(2))
BASE = DecodeConfig(max_new_tokens=12)
SETTINGS = (BASELINE, BenchSetting("block", 4, 2), BenchSetting("block", 4, 1, 0, 2, "trie"))
BLOCK = SETTINGS[1].key


@pytest.fixture(autouse=True)
def _no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes most of the time of a scripted sweep."""
    monkeypatch.setattr(sweep_module, "weights_digest", lambda pair: "weights")


def measured(path: Path | None = None, traces: Traces | None = None, repeats: int = 2, **others: Any) -> RowLog[Row]:
    """A whole sweep of the scripted decoder."""
    given = {"engine": FakeDecoder(), "prompts": PROMPTS, "settings": SETTINGS, "base": BASE} | others
    *_, (done, total, log) = sweep(**given, repeats=repeats, path=path, traces=traces)
    assert done == total
    return log


def row(prompt: str, setting: str, seconds: float, tokens: int = 10, rounds: int = 5, **others: Any) -> Row:
    parts = {"draft": 0.2, "score": 0.5, "verify": 0.1, "prefill": 0.1}
    metrics = Metrics(
        rounds=rounds, committed=tokens, seconds=seconds, seconds_by={k: v * seconds for k, v in parts.items()},
        tested=8, accepted=6, tested_at=(5, 3), accepted_at=(3, 3), peak_bytes=7, waited_seconds=0.25 * seconds,
    )  # fmt: skip
    values = {"repeat": 0, "reason": "length", "text": "t", **others}
    return Row(prompt=prompt, flavour=prompt.split("-")[0], setting=setting, metrics=metrics, **values)


ROWS = [
    row("math-0", "none/1/1", 4.0), row("math-0", "block/8/1", 1.0),
    row("math-1", "none/1/1", 2.0), row("math-1", "block/8/1", 2.0, text="other"),
    row("code-0", "none/1/1", 9.0), row("code-0", "block/8/1", 3.0),
]  # fmt: skip


# What is measured.


def test_settings_one_by_one() -> None:
    keys = ["block/9/1", "block/9/1/12", "mdlm/8/1/0/4/trie", "block/16/1/auto", "block/9/1"]
    settings = listed(keys, BASE)
    assert [setting.key for setting in settings] == ["none/1/1", *keys[:-1]]
    assert all(BenchSetting.parse(setting.key) == setting for setting in settings)
    assert settings[-1].config(BASE).auto and not settings[1].config(BASE).auto
    alike = listed(["autoregressive/4/1", "autoregressive/4/4", "none/7/3", "block/9/4/12"], BASE)
    assert [setting.key for setting in alike] == ["none/1/1", "autoregressive/4/4", "block/9/1/12"]
    config = BenchSetting.parse("mdlm_streak/9/1/0/8/trie").config(BASE)
    assert (config.num_drafts, config.selection.value, config.tree_nodes) == (8, "trie", 0)
    assert BenchSetting.of_config(config).key == "mdlm_streak/9/1/0/8/trie"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("block/x/1", "no setting"),
        ("block", "no setting"),
        ("block/9/1/0/4/self/more", "no setting"),
        ("block/20/1", "cannot follow"),
        ("prompt_lookup/9/1/auto", "cannot follow"),
        ("autoregressive/4/4/12", "cannot follow"),
        ("block/9/1/0/4/self/auto", "cannot follow"),
        ("autoregressive/4/1/0/2/self", "cannot follow"),
        ("block/9/1/12/4/self", "exclude each other"),
        ("medusa/4/1", "no drafter"),
    ],
)
def test_a_setting_that_cannot_be_measured_is_refused(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        listed([key], BASE)


def test_a_grid_holds_what_its_drafters_can_follow() -> None:
    """T at most γ, γ at most the window, T of denoisers only, K of denoisers only and never with a tree."""
    found = grid(BASE, ["none", "block"], [2, 4], [1, 4])
    assert found == (BASELINE, BenchSetting("block", 2, 1), BenchSetting("block", 4, 1), BenchSetting("block", 4, 4))
    wide = grid(BASE, ["block", "mdlm"], [16, 17], [1])
    assert [setting.key for setting in wide[1:]] == ["block/16/1", "mdlm/16/1", "mdlm/17/1"]
    several = grid(BASE, ["block", "autoregressive"], [4], [1, 2], [0, 8], [1, 2], ["self", "trie"])
    assert sorted(setting.key for setting in several[1:]) == [
        "autoregressive/4/4", "block/4/1", "block/4/1/0/2/self", "block/4/1/0/2/trie", "block/4/1/8", "block/4/2",
    ]  # fmt: skip
    assert grid(BASE, ["none"], [4], [1]) == (BASELINE,)
    for nothing in (([2], [4]), ([17], [1])):
        with pytest.raises(ConfigError, match="nothing to measure"):
            grid(BASE, ["block"], *nothing)
    with pytest.raises(ConfigError, match="nothing to measure"):
        grid(BASE, ["autoregressive"], [4], [1], num_drafts=[2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no prompt"),
        ('{"id": "a", "flavour": "x"}\n', "line 1: .*`prompt`"),
        ('{"id": "a", "flavour": "x", "prompt": "y"}\nnot json\n', "line 2: JSON is malformed"),
        ("[1]\n", "line 1: Expected `object`"),
        ('{"id": "a", "flavour": "x", "prompt": 5}\n', "prompt"),
        ('{"id": " ", "flavour": "x", "prompt": "y"}\n', r"\$\.id"),
        ('{"id": "a", "flavour": "x", "prompt": "y"}\n' * 2, "line 2: the id 'a' stands there twice"),
        ("[" * 200_000, "line 1: "),
        ('{"id": "a", "flavour": "x\\ud800", "prompt": "y"}\n', "line 1: "),
    ],
)
def test_prompt_files_are_judged_line_by_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_prompts(tmp_path / "p.jsonl")
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
    assert cli.main(["bench", "prompts", "--corpus", str(tmp_path), "--out", str(tmp_path / "q.jsonl")]) == 0
    assert len(read_prompts(tmp_path / "q.jsonl")) == 10 + 8, "short documents where long ones run out"
    assert [cut("abcdef", 3), cut("ab cdef", 5), cut("ab cd", 99)] == ["abc", "ab", "ab cd"]


def test_own_prompts_take_turns() -> None:
    assert len({prompt.id for prompt in own_prompts()}) == 20
    assert [prompt.flavour for prompt in own_prompts(3)] == ["dialogue", "stories", "math", "code"] * 3
    assert [prompt.id.rsplit("-", 1)[1] for prompt in own_prompts(3)] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4


# The numbers.


def test_speed_up_by_hand() -> None:
    """math: (4+2)/(1+2) = 2, code: 9/3 = 3, mean of flavours 2.5 (not 15/6)."""
    rows = whole_turns([*ROWS, row("math-0", "block/8/1", 99.0, repeat=-1)])
    (vanilla, block), _ = aggregate(rows)
    assert vanilla.drafter == "none"
    assert vanilla.speedup.value == pytest.approx(1.0)
    assert block.speedup_by_flavour["math"].value == pytest.approx(2.0)
    assert msgspec.structs.astuple(block.speedup_by_flavour["code"]) == pytest.approx((3.0, 3.0, 3.0))
    assert block.speedup.value == pytest.approx(2.5)
    # Resampling two prompts: 4/1 = 4, 2/2 = 1 or 6/3 = 2; the mean with code's 3 lies between (1+3)/2 and (4+3)/2.
    assert (block.speedup_by_flavour["math"].low, block.speedup_by_flavour["math"].high) == pytest.approx((1.0, 4.0))
    assert (block.speedup.low, block.speedup.high) == pytest.approx((2.0, 3.5))
    assert block.tau == pytest.approx(30 / 15)
    assert block.alpha == pytest.approx(18 / 24)
    assert block.alpha_at == pytest.approx((9 / 15, 1.0))
    assert block.seconds_by == pytest.approx({"draft": 1.2, "verify": 3.6, "prefill": 0.6, "other": 0.6})
    assert block.tokens_per_second == pytest.approx(30 / 6)
    assert (block.same_text_as_vanilla, block.prompts, block.peak_bytes) == (2, 3, 7)
    assert block.waiting == pytest.approx(0.25)


def test_an_interval_counts_tokens_is_seeded_and_holds_the_value() -> None:
    assert interval({"a": (10.0, 100)}, {"a": (4.0, 80)}, {"x": ["a"]})["x"].value == pytest.approx(0.1 / 0.05)
    slow = {str(i): (4.0 + i % 3, 10) for i in range(20)}
    fast = {str(i): (2.0 + i % 2, 10) for i in range(20)}
    found = interval(slow, fast, {"all": list(slow)}, seed=1)
    assert found == interval(slow, fast, {"all": list(slow)}, seed=1)
    assert found["mean"].low < found["mean"].value < found["mean"].high
    assert found["mean"].value == pytest.approx(sum(s for s, _ in slow.values()) / sum(s for s, _ in fast.values()))


def test_only_whole_turns_count() -> None:
    """A row without its baseline would tilt the ratio."""
    more = [*ROWS, row("code-0", "none/1/1", 100.0, repeat=1)]
    assert aggregate(whole_turns(more))[0][1].speedup.value == pytest.approx(2.5)
    with pytest.raises(ConfigError, match="every setting"):
        aggregate([row("math-0", "block/8/1", 1.0)])


def numbers_of(settings: Mapping[str, tuple[float, float]]) -> list[Row]:
    """Rows of two flavours with two prompts each: speed-up and τ of every setting; odd prompts are twice as good."""
    prompts = [("dialogue-0", 1), ("dialogue-1", 2), ("math-0", 1), ("math-1", 2)]
    return [
        row(prompt, key, 1000 / (speed * good), 1000, round(1000 / (tau * good)))
        for prompt, better in prompts
        for key, (speed, tau) in {"none/1/1": (1.0, 1.0), **settings}.items()
        for good in [1 if key == "none/1/1" else better]
    ]


def test_settings_are_held_against_each_other_with_intervals() -> None:
    _, ratios = aggregate(
        numbers_of(
            {
                "block/9/1": (3.0, 4.0), "block/9/1/9": (3.3, 5.0), "autoregressive/4/4": (2.0, 3.0),
                "eagle/4/4": (3.4, 3.0), "eagle/4/1/6": (2.5, 3.0), "mdlm/4/1": (1.0, 2.0), "mdlm/9/1": (1.0, 2.4),
                "mdlm_streak/9/1": (1.2, 3.0), "mdlm_streak/16/1": (1.0, 9.0), "mdlm_streak/9/1/0/8/self": (0.6, 3.6),
            }
        )
    )  # fmt: skip
    found = {ratio.what: ratio for ratio in ratios}
    families = found["eagle (best of 2) over diffusion (best of 7)"]
    assert (families.ours, families.theirs) == ("eagle γ 4", "block γ 9, B 9")
    assert msgspec.structs.astuple(families.speed) == pytest.approx((3.4 / 3.3,) * 3), "the same on every prompt"
    assert found["diffusion (best of 7) over autoregressive (best of 1)"].speed.value == pytest.approx(3.3 / 2.0)
    streak = found["streak-distilled over not"]  # at the longest window that both have
    assert (streak.ours, streak.theirs) == ("mdlm_streak γ 9, T 1", "mdlm γ 9, T 1")
    assert streak.tau.value == pytest.approx(3.0 / 2.4, rel=5e-3)
    drafts = found["8 drafts over one"]
    assert (drafts.ours, drafts.theirs) == ("mdlm_streak γ 9, K 8 self", "mdlm_streak γ 9, T 1")
    assert drafts.speed.value == pytest.approx(0.5) and drafts.tau.value == pytest.approx(1.2, rel=5e-3)
    alone = numbers_of({"block/9/1": (3.0, 4.0), "mdlm/4/1": (1.0, 2.0), "mdlm_streak/9/1": (1.0, 2.0)})
    assert aggregate(alone)[1] == [], "one family, no common window: there is nothing to compare"


def test_a_ratio_resamples_prompts() -> None:
    """Twice as fast on one prompt, as fast on the other: between 1 and 2 pooled."""
    rows = [
        row("math-0", "none/1/1", 8.0), row("math-0", "block/4/1", 2.0), row("math-0", "eagle/4/4", 4.0),
        row("math-1", "none/1/1", 8.0), row("math-1", "block/4/1", 4.0), row("math-1", "eagle/4/4", 4.0),
    ]  # fmt: skip
    (ratio,) = aggregate(rows)[1]
    assert (ratio.speed.value, ratio.speed.low, ratio.speed.high) == pytest.approx((8 / 6, 1.0, 2.0))


def test_curves_stand_beside_those_of_the_papers() -> None:
    def curves(settings: Mapping[str, tuple[float, float]], **alphas: Any) -> dict[str, str]:
        entries = aggregate(numbers_of(settings))[0]
        entries = [msgspec.structs.replace(e, alpha_at=alphas.get(e.drafter, e.alpha_at)) for e in entries]
        return {name: ours for name, _, ours in paper_curves(entries)}

    found = curves(
        {"block/8/1": (3.0, 4.0), "block/8/2": (2.0, 5.0), "block/4/1": (2.5, 3.0), "block/9/1/9": (3.0, 4.0)}
    )
    assert found["τ by T (block, γ 8)"] == "1: 5.33, 2: 6.67"  # pooled: the better half takes fewer rounds
    assert found["tokens/s by T (block, γ 8)"] == "1: 4, 2: 3" and len(found) == 2
    found = curves({"block/16/1": (1.5, 4), "block/4/1": (1.0, 4), "block/8/1": (2.0, 4), "eagle/4/4": (2.0, 4)})
    assert found == {"speed-up by γ (block, T 1)": "4: 1.33, 8: 2.67, 16: 2.00"}
    streak = {"mdlm/4/1": (1, 2), "mdlm_streak/4/1": (1, 2)}
    found = curves(streak, mdlm=(0.5,) * 4, mdlm_streak=(0.5, 1.0, 1.0, 0.5))
    assert found == {
        "chance that the first j tokens are all accepted (γ 4, T 1)": "mdlm 1: 0.50, 2: 0.25, 4: 0.06; "
        "mdlm_streak 1: 0.50, 2: 0.50, 4: 0.25"
    }


# A sweep.


def test_a_plan_interleaves_and_turns_the_order() -> None:
    order = list(plan(PROMPTS[:2], SETTINGS, 2))
    turns = [order[i : i + 3] for i in range(0, len(order), 3)]
    for turn in turns:
        assert len({(number, prompt.id, repeat) for number, prompt, repeat, _ in turn}) == 1
        assert {setting for *_, setting in turn} == set(SETTINGS)
    assert [turn[0][3] for turn in turns] == [SETTINGS[0], SETTINGS[1], SETTINGS[2], SETTINGS[0]]
    assert [turn[0][0] for turn in turns] == [0, 1, 2, 3]


def test_each_turn_has_a_seed_of_its_own_and_its_settings_share_it() -> None:
    """With one seed for all, every text at temperature 1 would be decided by the same draws."""
    engine = FakeDecoder()
    measured(engine=engine, prompts=PROMPTS[:2], base=dataclasses.replace(BASE, seed=40))
    seeds = [config.seed for _, config in engine.calls[1 + len(SETTINGS) :]]  # after the header and the warm-up
    assert seeds == [40 + turn for turn in range(4) for _ in SETTINGS]


def test_a_text_is_vanillas_only_if_it_is_in_every_repeat() -> None:
    log = measured(prompts=PROMPTS[:2])
    before = sweep_result(log, ORIGIN).entries[1].same_text_as_vanilla
    next(r for r in log.rows if r.repeat == 0 and r.setting == BLOCK).text = "another"
    assert sweep_result(log, ORIGIN).entries[1].same_text_as_vanilla == before - 1


def test_a_sweep_measures_undisturbed_and_does_not_count_the_warm_up(tmp_path: Path) -> None:
    engine = FakeDecoder()
    log = measured(tmp_path / "rows.jsonl", engine=engine)
    total = len(PROMPTS) * len(SETTINGS) * 2
    assert [r.repeat < 0 for r in log.rows] == [True] * len(SETTINGS) + [False] * total
    assert engine.calls[0][1].drafter == "none"
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + len(log.rows)
    result = sweep_result(log, ORIGIN)
    assert [entry.drafter for entry in result.entries] == ["none", "block", "block"]
    assert all(entry.same_text_as_vanilla == len(PROMPTS) for entry in result.entries)
    assert (result.prompts, result.sessions) == ({"math": 2, "code": 2}, 1)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    steps = sweep(FakeDecoder(), PROMPTS, SETTINGS, BASE, repeats=2, path=path)
    for _ in range(6):
        next(steps)
    steps.close()
    with path.open("a") as file:
        file.write('{"prompt": "math-0", "cut o')  # the process died while writing
    engine = FakeDecoder()
    log = measured(path, engine=engine)
    keys = [(r.prompt, r.repeat, r.setting) for r in log.rows if r.repeat >= 0]
    assert len(keys) == len(set(keys)) == 24
    assert {r.session for r in log.rows} == {0, 1} and sweep_result(log, ORIGIN).sessions == 2
    assert len(engine.calls) == 1 + len(SETTINGS) + 24 - 5  # the header, the warm-up, and only what was missing
    finished = FakeDecoder()
    measured(path, engine=finished)
    assert len(finished.calls) == 1


def test_retrained_weights_are_another_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    spec = dataclasses.replace(EMBEDDED, target=str(folder), drafters=())
    monkeypatch.setitem(PAIRS, "own", spec)
    found = {weights_digest("own")}
    for raw in (b"one", b"another"):
        (folder / "model.safetensors").write_bytes(raw)
        found.add(weights_digest("own"))
    assert len(found) == 3 and weights_digest("nobody") == ""


def test_rows_of_another_benchmark_are_never_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    measured(path, prompts=PROMPTS[:1], repeats=1)
    with pytest.raises(ConfigError, match=r"another benchmark: settings"):
        measured(path, prompts=PROMPTS[:1], repeats=1, base=dataclasses.replace(BASE, seed=3))


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "[1]\n", "null\n", "{}\n{}\n", '{}\n{"session": "x"}\n', "[" * 200_000 + "\n"]
)
def test_damaged_rows_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.rows.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=r"r\.rows\.jsonl is damaged"):
        RowLog(tmp_path / "r.rows.jsonl", {}, Row)


# Traces.


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Traces, Sweep]:
    """A sweep with its traces."""
    traces = Traces(tmp_path / "t")
    return traces, sweep_result(measured(traces=traces), ORIGIN, traces="t")


def test_a_sweep_folds_again_to_the_very_same_numbers(kept: tuple[Traces, Sweep]) -> None:
    traces, result = kept
    again = reaggregate(result, traces)
    assert again.reaggregated == git_state()["commit"]
    assert msgspec.structs.replace(again, reaggregated="") == result
    assert [entry.selection for entry in again.entries if entry.num_drafts == 2] == ["trie"]


def test_a_changed_trace_changes_the_numbers(kept: tuple[Traces, Sweep]) -> None:
    traces, result = kept
    events = [
        msgspec.structs.replace(event, seconds=event.seconds + 1.0) if isinstance(event, Finished) else event
        for event in traces.events("math-1", 0, BLOCK)
    ]
    write_trace(traces.path("math-1", 0, BLOCK), {BLOCK: events}, title="math-1")
    vanilla, block, drafts = reaggregate(result, traces).entries
    assert block.seconds == pytest.approx(result.entries[1].seconds + 1.0)
    assert block.speedup.value < result.entries[1].speedup.value
    assert (vanilla.seconds, drafts.seconds) == tuple(result.entries[i].seconds for i in (0, 2))


def test_missing_damaged_and_foreign_traces_are_named(kept: tuple[Traces, Sweep]) -> None:
    traces, result = kept
    path = traces.path("code-0", 1, BLOCK)
    whole = path.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    for raw, message in (
        (whole[:-9], "cut off"),
        (b"nothing", ""),
        (gzip.compress(b"".join(lines[:-1])), "no end"),
        (traces.path("code-1", 1, BLOCK).read_bytes(), "another one"),
        (None, "cannot be read"),
    ):
        path.unlink() if raw is None else path.write_bytes(raw)
        with pytest.raises(TraceError, match=f"code-0, repeat 1, {BLOCK} .*{message}"):
            reaggregate(result, traces)
    with pytest.raises(ConfigError, match="another benchmark: settings differ"):
        reaggregate(msgspec.structs.replace(result, settings={**result.settings, "seed": 9}), traces)
    for text in ("{\n", "[]\n", '{"cells": [], "flavours": [], "repeats": 1}'):
        (traces.folder / "sweep.json").write_text(text)
        with pytest.raises(ConfigError, match=r"sweep\.json is damaged"):
            reaggregate(result, traces)


def test_runs_are_written_as_they_were(kept: tuple[Traces, Sweep]) -> None:
    traces, _ = kept
    assert read_trace(traces.path("math-0", 0, BASELINE.key)).lanes.keys() == {"vanilla"}
    said = tuple(FakeDecoder().decode("math 0", SETTINGS[1].config(dataclasses.replace(BASE, seed=0)), detail=False))
    found = traces.events("math-0", 0, BLOCK)
    assert [type(event) for event in found] == [type(event) for event in said]
    assert found[-1] == said[-1]
    files = list(traces.folder.rglob("*.jsonl.gz"))
    assert len(files) == 2 * len(PROMPTS) * len(SETTINGS), "the warm-up is not a measured run"


def test_a_tokenizer_adds_the_words_that_a_measured_run_leaves_out(tmp_path: Path) -> None:
    class Words:
        all_special_ids: tuple[int, ...] = ()

        def convert_ids_to_tokens(self, token: int) -> str:
            return f"w{token}"

    quiet = [event for event in FakeDecoder().decode("a b", BASE, detail=False) if not isinstance(event, PiecesSeen)]
    traces = Traces(tmp_path, Words())  # all that is asked of a tokenizer
    traces.write("p", 0, BASELINE.key, quiet)
    found = traces.events("p", 0, BASELINE.key)
    assert [event for event in found if not isinstance(event, PiecesSeen)] == quiet
    pieces = {token: word for event in found if isinstance(event, PiecesSeen) for token, word in event.pieces.items()}
    last = quiet[-1]
    assert isinstance(last, Finished) and set(last.ids) <= set(pieces) and pieces[last.ids[0]] == f"w{last.ids[0]}"


def test_nothing_is_written_while_a_run_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file appears between the last event of its run and the next run."""
    seen: list[int] = []

    def count() -> int:
        return len(list(tmp_path.rglob("*.jsonl.gz")))

    class Watched(FakeDecoder):
        def decode(self, *args: Any, **kwargs: Any) -> Any:
            before = count()
            yield from super().decode(*args, **kwargs)
            assert count() == before
            seen.append(before)

    total = len(PROMPTS) * len(SETTINGS)
    whole, runs = sweep_module.run, []
    monkeypatch.setattr(sweep_module, "run", lambda *args: runs.append(whole(*args)) or runs[-1])
    measured(traces=Traces(tmp_path), repeats=1, engine=Watched())
    assert seen[-total:] == list(range(total))
    assert len(runs) == total + len(SETTINGS), "every run is finished before its events are written"


def test_an_interrupted_sweep_goes_on_with_its_traces(tmp_path: Path) -> None:
    path, traces = tmp_path / "r.rows.jsonl", Traces(tmp_path / "t")
    steps = sweep(FakeDecoder(), PROMPTS, SETTINGS, BASE, repeats=1, path=path, traces=traces)
    for _ in range(4):
        next(steps)
    steps.close()
    result = sweep_result(measured(path, traces, repeats=1), ORIGIN)
    assert reaggregate(result, traces).entries == result.entries
    with pytest.raises(ConfigError, match="12 runs were measured earlier"):
        measured(path, Traces(tmp_path / "new"), repeats=1)
    with pytest.raises(ConfigError, match="another benchmark: flavours, prompts differ"):
        measured(traces=traces, repeats=1, prompts=PROMPTS[:1])


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..", ".", "a/../b", "C:\\x", "x" * 300, "Ünï ✓", "a\x00b", "a~b", "A", "",
     "a//b"],
)  # fmt: skip
def test_no_name_leaves_the_folder(name: str, tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    path = traces.path(name, 0, name)
    assert path.parent.parent == tmp_path and path.resolve().is_relative_to(tmp_path.resolve())
    events = list(FakeDecoder().decode("a b", BASE, detail=False))
    traces.write(name, 0, "none/1/1", events)
    assert traces.events(name, 0, "none/1/1") == tuple(events)


def test_different_names_have_different_files() -> None:
    names = ["a", "A", "a/b", "a.b", "a-b", "a b", "a~b", "a_b", "a//b", "a.1", "a/1", slug("A"), slug("a b"), "é", "è"]
    assert len({slug(name) for name in names}) == len(names)
    assert slug("stories-1") == "stories-1" and slug("block/9/1/0/8/self") == "block.9.1.0.8.self"
    paths = {Traces(Path()).path(*run) for run in (("a", 1, "x"), ("a/1", 1, "x"), ("a", 11, "x"), ("a/1", 0, "x"))}
    assert len(paths) == 4


# Results and reports.


def test_provenance_names_no_folder(tmp_path: Path) -> None:
    found = provenance(["bench", "--prompts", str(tmp_path / "p.jsonl"), "--gamma", "4,8"])
    assert found["command"] == "python -m specdiff_core bench --prompts p.jsonl --gamma 4,8"
    assert str(tmp_path) not in json.dumps(found)
    assert found["threads"] >= 1 and found["instruction_set"]
    assert found["versions"]["torch"]
    assert git_state(tmp_path) == {"commit": "", "dirty": False}
    assert command_text([f"--prompts={tmp_path}/p.jsonl"]).endswith("--prompts=p.jsonl")
    assert command_text(["x y"]) == "python -m specdiff_core 'x y'"


SPREAD = {"median": 2.0, "low": 1.5, "high": 3.25}
PAGE: dict[str, Any] = {
    "kind": "page", "schema": 4, "starts": 5, "turns": 30, "device": "cpu", "dtype": "fp32", "threads": 2,
    "target": "T", "settings": DecodeConfig().to_dict(), "usable_seconds": SPREAD, "load_seconds": 1.0,
    "first_event_seconds": {"first": SPREAD, "later": SPREAD},
    "attached": {lane: {**SPREAD, "interval": [1.9, 2.1]} for lane in ("vanilla", "drafted")},
    "waiting": {lane: {"attached": 0.05, "alone": None} for lane in ("vanilla", "drafted")},
    "provenance": {**ORIGIN, "command": "python -m app.measure"},
}  # fmt: skip


def test_the_page_is_reported_with_its_spread(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps(PAGE))
    text = section(read_result(path, Result))
    lines = [[value.strip() for value in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]
    assert [line[1:] for line in lines[2:5]] == [[n, "2.00 s", "1.50–3.25 s"] for n in ("5", "5", "30")]
    assert lines[-1] == ["drafted", "2.000×", "1.900–2.100", "1.500–3.250", "0.050", "–"]


def test_results_of_older_versions_are_read(tmp_path: Path) -> None:
    """Sweeps before trees and K, the comparison with transformers when it was called a referee, and the sweep that
    ships, whose speed-ups are called means."""
    result = msgspec.to_builtins(sweep_result(measured(prompts=PROMPTS[:2], settings=SETTINGS[:2], repeats=1), ORIGIN))
    del result["ratios"], result["traces"]
    for cell in result["cells"]:
        del cell["nodes"], cell["drafts"], cell["selection"], cell["auto"], cell["waiting"], cell["tested_at"]
        cell["speedup"]["mean"] = cell["speedup"].pop("value")
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(result))
    old = read_result(path, Result)
    assert isinstance(old, Sweep) and [entry.key for entry in old.entries] == ["none/1/1", "block/4/2"]
    assert "| block γ 4, T 2 |" in section(old)
    lanes = [
        {"lane": "vanilla", "ours": "vanilla", "drafter": "none", "stock": False, "tokens_per_second": 3.0},
        {"lane": "generate", "ours": "vanilla", "drafter": "none", "stock": True, "tokens_per_second": 2.0},
    ]
    numbers = {
        "compared": 1, "equal": 1, "ties": 0, "turns": 7, "prompts": 2, "tie_below": 1e-3, "differences": [],
        "lanes": [{**lane, "compared": 1, "equal": 1, "ties": 0} for lane in lanes],
        "pairs": [{"ours": "vanilla", "theirs": "generate", "ratio": 1.5, "low": 1.4, "high": 1.6, "ratio_wall": 1.3}],
    }  # fmt: skip
    old_lanes = {**PAGE, "kind": "referee", "schema": 1, "prompts": {"math": 2}, "repeats": 1, "left_out": []}
    path.write_text(json.dumps({**old_lanes, "result": numbers}))
    assert "| vanilla | 3.0      | generate     | 2.0      | 1.50× | 1.40–1.60 " in section(read_result(path, Result))
    shipped = read_result(ROOT / "assets" / "compare" / "selection.json", Result)
    assert "| mdlm_streak γ 9, K 16 self |" in section(shipped)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"kind": [], "schema": 1}',
        '{"kind": "poem", "schema": 1}',
        '{"kind": "sweep", "schema": 1}',
        '{"kind": "hf_baseline", "schema": 1}',
        '{"kind": "referee", "schema": 1}',
        json.dumps({**PAGE, "schema": 3}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": 3}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": {"cells": [{}]}}),
    ],
)
def test_a_foreign_result_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(text)
    assert cli.main(["bench", "report", str(tmp_path / "r.json"), "--out", str(tmp_path / "B.md")]) == 2
    error = capsys.readouterr().err
    assert ("r.json is no result" in error or "is not whole" in error) and not (tmp_path / "B.md").exists()


def on_machine(result: Sweep, cpu: str, date: str = "2026-01-02", **others: Any) -> Sweep:
    return msgspec.structs.replace(result, provenance={**ORIGIN, "cpu": cpu, "date": date}, **others)


def test_a_report_replaces_only_its_own_machine(kept: tuple[Traces, Sweep]) -> None:
    _, result = kept
    one, other = on_machine(result, "One processor"), on_machine(result, "Another processor", threads=7)
    both = benchmarks([other], benchmarks([one]))
    assert both == benchmarks([one, other])
    assert both.count("\n## ") == 2 and both.count("\n### ") == 2
    again = benchmarks([on_machine(result, "One processor", "2027-05-06", dtype="bf16")] * 2, both)
    assert again.count("\n### ") == 3
    before, after = (text.split("\n## Another processor, 2 cores\n")[1] for text in (both, again))
    assert before == after, "the other machine's section is as it was"
    lines = [line for line in again.splitlines() if line.startswith(("| One", "| Another"))]
    assert "bf16" in lines[0] and "2027-05-06" in lines[0] and "| 7 " in lines[1] and "2026-01-02" in lines[1]
    assert benchmarks([one, other], again) == both
    with pytest.raises(ConfigError, match="does not begin"):
        benchmarks([one], "# Shopping\n")
    shipped = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
    assert benchmarks([], shipped) == shipped, "what ships is what the report reads"


def test_a_busy_machine_and_single_prompts_are_said() -> None:
    rows = [*ROWS, row("code-1", "none/1/1", 9.0), row("code-1", "block/8/1", 3.0)]
    log = measured(repeats=1)
    log.rows = rows
    text = section(sweep_result(log, ORIGIN))
    assert "**The machine was busy" in text and "2.00–3.50" in text
    log.rows = ROWS[2:]  # one prompt of each flavour: nothing to resample
    assert "| block γ 8, T 1 | 2.00×    | –  " in section(sweep_result(log, ORIGIN))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "most probable tokens, several are drawn"),
        ({"draft_temperature": 1.0}, "drawn and tested alike"),
        ({"temperature": 1.0}, "a selected one as a point mass"),
    ],
)
def test_what_else_differs_between_one_draft_and_several_is_said(settings: dict[str, Any], words: str) -> None:
    own = [BASELINE, BenchSetting("block", 4, 1), BenchSetting("block", 4, 1, 0, 2)]
    log = measured(settings=own, repeats=1, base=dataclasses.replace(BASE, **settings))
    text = section(sweep_result(log, ORIGIN))
    assert words in text and "| 2 drafts over one | block γ 4, K 2 self | block γ 4, T 1 |" in text


def test_tables_read_as_text() -> None:
    assert table(["a", "b"], [["1", "long"]]) == "| a | b    |\n|---|------|\n| 1 | long |"


# The command line.


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> FakeDecoder:
    """What every command opens."""
    found = FakeDecoder()
    found.pair = type("Pair", (), {"tokenizer": None})()
    found.encode = lambda prompt: (1,)
    monkeypatch.setattr(options, "open_engine", lambda args, pair, drafters: found)
    return found


def test_traces_from_the_command_line(decoder: FakeDecoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The result says where they are, seen from itself: moved together, they are found again."""
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    here, report = tmp_path / "here", tmp_path / "B.md"
    words = f"bench sweep --prompts {tmp_path}/p.jsonl --settings block/4/1,block/4/1/0/2/self,block/4/1/0/2/trie"
    words += f" --repeats 1 --max-new-tokens 12 --json {here}/r.json --traces {here}/t"
    assert cli.main(words.split()) == 0, capsys.readouterr().err
    stored = json.loads((here / "r.json").read_text())
    assert (stored["kind"], stored["schema"], stored["traces"], stored["prompts"]) == (
        "sweep", 1, "t", {"math": 2, "code": 2},
    )  # fmt: skip
    assert [(cell["drafts"], cell["selection"]) for cell in stored["cells"]] == [
        (1, "self"), (1, "self"), (2, "self"), (2, "trie"),
    ]  # fmt: skip
    there = here.rename(tmp_path / "there")
    stored["cells"][1]["speedup"]["value"] = 77.0
    (there / "r.json").write_text(json.dumps(stored))
    (there / "plain.json").write_text(json.dumps({**stored, "traces": ""}))
    command = ["bench", "report", str(there / "r.json"), "--out", str(report)]
    assert cli.main(command) == 0
    assert "77.00×" in report.read_text()
    assert cli.main([*command, "--reaggregate"]) == 0
    text = report.read_text()
    assert "77.00×" not in text and "aggregated again from its traces by commit" in text
    assert "block γ 4, K 2 trie" in text and "block γ 4, T 1" in text and str(tmp_path) not in text
    assert cli.main(["bench", "report", str(there / "plain.json"), "--out", str(report), "--reaggregate"]) == 0
    assert "77.00×" in report.read_text() and "measured without --traces" in capsys.readouterr().err
    moved = (there / "t").rename(tmp_path / "elsewhere")
    assert cli.main([*command, "--reaggregate"]) == 2 and "sweep.json is damaged or missing" in capsys.readouterr().err
    assert cli.main([*command, "--reaggregate", "--traces", str(moved)]) == 0


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_measured(
    decoder: FakeDecoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def encode(prompt: str) -> tuple[int, ...]:
        if len(prompt) > 100:
            raise ConfigError("The prompt is too long.", hint="Shorten it.")
        return (1,)

    decoder.encode = encode
    write_prompts(tmp_path / "p.jsonl", [*PROMPTS, Prompt(id="long-one", flavour="math", prompt="word " * 200)])
    words = f"bench sweep --prompts {tmp_path}/p.jsonl --drafters none --json {tmp_path}/r.json"
    assert cli.main(words.split()) == 2
    assert "error: long-one: The prompt is too long" in capsys.readouterr().err
    assert not decoder.calls and not (tmp_path / "r.rows.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("sweep --gamma x", "not a list"),
        ("sweep --gamma 64", "Give a whole number"),
        ("sweep --repeats 0", "at least 1"),
        ("sweep --first 0", "leaves no prompt"),
        ("sweep --json /", "is no file"),
        ("sweep --num-drafts 99", "Give a whole number"),
        ("sweep --num-drafts two", "not a list"),
        ("sweep --num-drafts 2 --selection best", "Choose one of: self"),
        ("sweep --settings block/4/1/0/99/self", "Give a whole number"),
        ("sweep --settings block/4/1/0/2/best", "Choose one of: self"),
        ("equality --temperatures warm", "not a list"),
        ("equality --temperatures 9", "0 to 2"),
        ("equality --generate-prompts -1", "not be negative"),
        ("hf-baseline --settings block", "no setting"),
        ("hf-baseline --settings block/0/1", "Give a whole number"),
        ("hf-baseline --settings nobody/4/1", "no drafter called"),
        ("forwards --num-drafts 2", "of a fixed size that a denoiser fills"),
        ("forwards --sweep nothing.json", "nothing.json is no result"),
        ("report nothing.json", "nothing.json is no result"),
        ("prompts --corpus nothing --out p.jsonl", "No training text"),
    ],
)
def test_bench_says_what_is_wrong(
    words: str, message: str, decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_every_command_of_the_suite_can_run() -> None:
    """Flags and settings are right, and what is used by a command was written by an earlier one."""
    written: set[str] = set()
    for file, (module, *words) in suite.commands(Path("a corpus"), Path("out"), ["--threads", "2"]).items():
        written.add(str(file))
        if module != "specdiff_core":
            continue
        args = build_parser().parse_args(words)
        assert str(file) in words and ("a corpus" in words) == (args.run is command.run_prompts)
        used = [args.prompts, args.sweep] if args.run is command.run_forwards else [getattr(args, "prompts", None)]
        assert all(path is None or str(path) in written for path in used)
        if getattr(args, "settings", ""):
            assert len(listed(args.settings.split(","), BASE)) == len(args.settings.split(",")) + 1
        if args.run is not command.run_prompts:
            assert args.threads == 2 and args.json == file
            options.read_settings(args)


def test_the_suite_keeps_what_is_there_and_goes_on_without_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = tmp_path / "out", tmp_path / "B.md"
    result = sweep_result(measured(repeats=1), ORIGIN)
    ran: list[str] = []
    broken = ["page.json"]
    shown: list[list[Path]] = []

    def run(words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        assert words[:2] == [sys.executable, "-m"]
        file = next(file for file, own in suite.commands(Path("c"), out, machine).items() if own == words[2:])
        ran.append(file.name)
        if file.name in broken:
            return subprocess.CompletedProcess(words, 2)
        write_result(file, result)
        return subprocess.CompletedProcess(words, 0)

    machine = ["--device", "cpu", "--dtype", "auto"]
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(command, "run_showcase", lambda args: shown.append(list(args.results)))
    write_result(out / "greedy.json", result)
    words = f"bench suite --corpus c --out {out} --report {report} --showcase {tmp_path} --device cpu".split()
    assert cli.main(words) == 0
    error = capsys.readouterr().err
    assert "greedy.json" not in ran and "2 of 16, greedy.json: is there already" in error
    assert "page.json: left out" in error and ran[-1] == "shown-1.json"
    assert [[path.name for path in paths] for paths in shown] == [["shown-0.json", "shown-0.7.json", "shown-1.json"]]
    assert report.read_text().count("### ") == 10, "all but the page and what is shown there"
    assert (tmp_path / "selection.json").read_bytes() == (out / "selection.json").read_bytes()
    ran.clear()
    (out / "methods.json").unlink()
    broken.append("methods.json")
    assert cli.main(words) == 2 and ran == ["methods.json"]
    assert "ended with status 2" in capsys.readouterr().err
