"""Layer 0: settings, methods, metrics and traces, by hand-computed values and hostile input."""

from __future__ import annotations

import gzip
import json
import math
import re
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_fakes import FakeDecoder
from fakes import decoded
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert, structs, to_builtins
from shipped import ROOT

import specdiff_core
from specdiff_core.schema import events, pairs
from specdiff_core.schema.errors import ConfigError, TraceError, TraceSchemaError
from specdiff_core.schema.events import Committed, DraftReady, Finished, PiecesSeen, Span, TargetScored, Verified
from specdiff_core.schema.methods import METHODS, methods_of
from specdiff_core.schema.metrics import Metrics, fold, passed_positions, predict, speed_up
from specdiff_core.schema.pairs import DrafterSpec
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, RevealOrder, Rule, Sampling, Settings
from specdiff_core.schema.summary import race_summary, run_summary
from specdiff_core.schema.trace import check_run, dump_trace, read_trace
from specdiff_core.schema.wording import settings_words

SPAN = Span(name="x", start=0.0, seconds=0.0)


@pytest.mark.parametrize(("values", "field"), [
    ({"gamma": 0}, "gamma"), ({"gamma": 33}, "gamma"), ({"gamma": "many"}, "gamma"),
    ({"gamma": "1_0"}, "gamma"), ({"gamma": 2.5}, "gamma"), ({"gamma": None}, "gamma"),
    ({"gamma": True}, "gamma"), ({"gamma": [3]}, "gamma"), ({"gamma": "nan"}, "gamma"),
    ({"gamma": 4, "steps": 5}, "steps"), ({"steps": 0}, "steps"),
    ({"num_drafts": 2, "tree_nodes": 4}, "num_drafts"), ({"temperature": -0.1}, "temperature"),
    ({"temperature": "1e400"}, "temperature"), ({"temperature": "nan"}, "temperature"),
    ({"top_p": 0.0}, "top_p"), ({"order": "sideways"}, "order"), ({"rule": "hope"}, "rule"),
    ({"rule": ""}, "rule"), ({"seed": -1}, "seed"),
    ({"max_new_tokens": 10**9}, "max_new_tokens"), ({"drafter": 3}, "drafter"),
    ({"ignore_eos": "maybe"}, "ignore_eos"), ({"colour": "red"}, "colour"),
    ({"draft_temperature": 3}, "draft_temperature"),
])  # fmt: skip  # several rows a line
def test_bad_settings_name_their_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeConfig.parse(values)
    assert caught.value.field == field and caught.value.hint


def test_settings_survive_text_and_know_their_words() -> None:
    config = DecodeConfig.parse({"gamma": "16", "steps": "4", "temperature": "0.7", "rule": "match", "order": "margin"})
    assert (config.gamma, config.steps, config.temperature) == (16, 4, 0.7)
    assert config.rule is Rule.MATCH and config.order is RevealOrder.MARGIN
    assert DecodeConfig.parse(config.to_dict()) == config
    assert json.loads(json.dumps(config.to_dict())) == config.to_dict()
    assert config.draft_sampling == Sampling(temperature=0.7)
    assert DecodeConfig(gamma=4, steps=4).steps == 4 and not Rule.NAIVE.lossless
    assert DecodeConfig(draft_temperature=0.0, temperature=1.0).draft_sampling.temperature == 0.0
    assert all(one.label and one.help for one in SETTINGS.values())
    assert list(Settings.__annotations__) == list(SETTINGS)
    assert {"load", "race", "METHODS", "__version__"} <= set(dir(specdiff_core))


def one_test(position: int, accepted: bool) -> events.Test:
    return events.Test(position=position, id=1, p=0.5, q=0.5, threshold=1.0, draw=0.1, accepted=accepted, kind="ratio")


def test_metrics_by_hand() -> None:
    """Two rounds of γ = 3: one accepted of two tested, then all three; τ = 3, α = 4/5."""
    run = []
    for round, verdicts in enumerate([(True, False), (True, True, True)]):
        ids, tests = (1,) * (sum(verdicts) + 1), tuple(one_test(i, v) for i, v in enumerate(verdicts))
        draft: dict[str, Any] = {"ids": (1, 1, 1), "q": (1.0,) * 3, "reveal_steps": (0, 0, 1), "exact_q": (True,) * 3}
        outcome: dict[str, Any] = {"extra": 1, "source": "bonus", "extra_candidates": (), "rule": "ratio"}
        run += [
            DraftReady(round=round, **draft, proposal="conditionals", nfe=2, span=SPAN),
            TargetScored(round=round, p=(0.5,) * 3, candidates=(), span=SPAN),
            Verified(round=round, tests=tests, accepted=sum(verdicts), **outcome, span=SPAN),
            Committed(round=round, ids=ids, sources=("draft",) * len(ids), total=len(ids), at=0.0),
        ]
    run.append(Finished(reason="length", text="", ids=(1,) * 6, rounds=2, seconds=2.0, seconds_by={"draft": 0.5}))
    metrics = fold(run)
    assert metrics.tau == 3.0 and metrics.alpha == pytest.approx(4 / 5) and metrics.draft_use == pytest.approx(4 / 6)
    assert metrics.nfe == 4 and metrics.target_calls == 2 and metrics.tokens_per_second == 3.0
    assert metrics.alpha_at == (1.0, 0.5, 1.0)
    assert fold([*run, *run]) == metrics + metrics
    assert (metrics + metrics).tau == 3.0 and (metrics + metrics).seconds_by == {"draft": 1.0}
    assert Metrics().tau is None and Metrics().alpha is None


def test_speed_up_and_prediction_by_hand() -> None:
    """Vanilla: 10 tokens in 10 passes of 0.1 s and 2 s in all; drafted: 4 rounds of 2 drafter passes of 0.025 s and a
    verifying pass of 0.15 s, and 0.5 s in all. c = 1/4, v = 3/2, τ = 5/2."""
    vanilla = Metrics(rounds=10, committed=10, target_calls=10, seconds=2.0, seconds_by={"score": 1.0})
    spent = {"draft": 0.2, "score": 0.6}
    drafted = Metrics(rounds=4, committed=10, nfe=8, target_calls=4, seconds=0.5, seconds_by=spent)
    assert speed_up(vanilla, drafted) == pytest.approx(4.0) and speed_up(Metrics(), drafted) is None
    predicted = predict(vanilla, drafted)
    assert predicted is not None and (predicted.cost, predicted.verify) == pytest.approx((0.25, 1.5))
    assert predicted.speed_up == pytest.approx(2.5 / (1.5 + 2 * 0.25))
    assert predict(drafted, vanilla) is None, "vanilla drafts nothing"


def test_several_tests_of_one_position_are_one_position() -> None:
    """Multi-round: 2 rejected, 1 accepted at position 0; 1 rejected at 1; α = 1/2."""
    tests = [one_test(0, False), one_test(0, False), one_test(0, True), one_test(1, False)]
    assert passed_positions(tests) == [True, False]


def test_a_summary_compares_whole_texts() -> None:
    """A beginning of vanilla's text is another text; one biased round biases a run."""
    run = list(FakeDecoder().decode("Once", DecodeConfig(max_new_tokens=12)))
    done = run[-1]
    assert isinstance(done, Finished)
    cut = [*run[:-1], structs.replace(done, ids=done.ids[:-1])]
    lanes = race_summary({"vanilla": [run], "same": [run], "cut": [cut]})["lanes"]
    assert lanes["same"]["same_text_as_vanilla"] is True and lanes["cut"]["same_text_as_vanilla"] is False
    index = next(i for i, event in enumerate(run) if isinstance(event, Verified))
    biased = [*run[:index], structs.replace(run[index], lossless=False), *run[index + 1 :]]
    assert run_summary(run)["lossless"] is True and run_summary(biased)["lossless"] is False


def recorded(**settings: object) -> list[events.Event]:
    return decoded(DecodeConfig.parse({"gamma": 4, "steps": 2, "temperature": 1.0, "max_new_tokens": 9, **settings}))


@settings(max_examples=10)
@given(st.integers(0, 50), st.sampled_from([r.value for r in Rule]))
def test_an_acceptance_record_keeps_what_aiperf_checks(seed: int, rule: str) -> None:
    """Its histogram is the tally of its steps, and vLLM's τ and rate follow from its counts."""
    run = recorded(seed=seed, rule=rule)
    record, totals = run_summary(run)["acceptance_record"], fold(run)
    tally = {int(count): steps for count, steps in record["acceptance_histogram"].items()}
    steps, accepted = record["num_spec_steps"], record["num_accepted_draft_tokens"]
    assert sum(tally.values()) == steps == len(record["per_step_accepted"]) == len(record["per_step_drafted"])
    assert sum(count * times for count, times in tally.items()) == accepted == totals.accepted
    assert record["num_draft_tokens"] == totals.drafted and record["completion_tokens"] == totals.committed
    assert record["mean_acceptance_length"] == pytest.approx(1 + accepted / steps)
    assert record["draft_acceptance_rate"] == totals.draft_use and record["engine"] == "specdiff-lab"
    assert run_summary([event for event in run if not isinstance(event, Verified)])["acceptance_record"] is None


@settings(max_examples=30)
@given(st.integers(0, 50), st.sampled_from([r.value for r in Rule]))
def test_a_trace_is_what_was_written(seed: int, rule: str) -> None:
    run = recorded(seed=seed, rule=rule)
    trace = read_trace(dump_trace({"drafted": run, "vanilla": run[:3]}, title="ti\u202etle <script>"))
    assert trace.lanes == {"drafted": tuple(run), "vanilla": tuple(run[:3])} and trace.title == "ti\u202etle <script>"


def test_unknown_fields_of_a_newer_writer_are_ignored() -> None:
    line = to_builtins(recorded()[0], str_keys=True) | {"mood": "good"}
    assert convert(line, events.Event, str_keys=True) == recorded()[0]


GOOD = dump_trace({"drafted": recorded()})
HEADED = dump_trace({"drafted": list(FakeDecoder().decode("Once", DecodeConfig()))})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello",
        b"\x89PNG\r\n",
        b"[1, 2]\n",
        b"{}\n",
        b'{"kind": "Trace"}\n',
        b'{"kind":"Trace","schema":2}\n',
        gzip.compress(GOOD)[:-20],
        gzip.compress(GOOD)[:-8],
        gzip.compress(GOOD)[:40] + b"xxxx" + gzip.compress(GOOD)[44:],
        GOOD[: len(GOOD) // 2],
        GOOD.replace(b'"nfe":2', b'"nfe":"two"'),
        GOOD.replace(b'"kind":"Verified"', b'"kind":"Virus"'),
        GOOD.replace(b'"kind":"block"', b'"kind":"lottery"'),
        GOOD.replace(b'"lane":"drafted"', b'"lane":"other"'),
        GOOD.replace(b'"accepted":', b'"acceptt":'),
        GOOD.replace(b'"sources":["', b'"sources":["draft","'),
        GOOD.replace(b'"exact_q":[', b'"exact_q":[true,'),
        GOOD.replace(b'"p":[', b'"p":[0.5,'),
        GOOD.replace(b'"confidence":[', b'"confidence":[1,'),
        b"[" * 100_000,
        b'{"kind":"Trace","schema":2,"lanes":["a"]}\n3\n',
        GOOD.replace(b'"accepted":', b'"accepted":9'),
        GOOD.replace(b'"round":0', b'"round":' + b"9" * 400),
        HEADED.replace(b'"config":{', b'"config":{"zz":NaN,'),
        HEADED.replace(b'"config":{', b'"config":{"zz":' + b"[" * 700 + b"]" * 700 + b","),
        GOOD + b"\n" * 100_001,
    ],
)
def test_foreign_and_damaged_traces_are_named(raw: bytes) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(raw)
    assert caught.value.hint


@pytest.mark.parametrize("draw", [None, math.nan, math.inf])
def test_a_draw_that_is_no_number_is_refused(draw: float | None) -> None:
    run = recorded()
    index = next(i for i, event in enumerate(run) if isinstance(event, Verified))
    tests = tuple(structs.replace(test, draw=draw) for test in run[index].tests)
    run[index] = structs.replace(run[index], tests=tests)
    with pytest.raises(TraceError, match="draw"):
        check_run(run)
    with pytest.raises(TraceError, match="draw"):
        read_trace(dump_trace({"drafted": run}))


def test_an_unknown_schema_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceSchemaError):
        read_trace(GOOD.replace(b'"schema":2', b'"schema":99', 1))
    with pytest.raises(TraceError):
        read_trace(tmp_path / "nowhere.jsonl")


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 100 MB, which takes no space; and a small one that would be large."""
    monkeypatch.setattr("specdiff_core.schema.trace.MAX_BYTES", 10_000)
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    tracemalloc.start()
    with pytest.raises(TraceError, match="too large"):
        read_trace(path)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    with pytest.raises(TraceError, match="too large"):
        read_trace(gzip.compress(b"0" * 1_000_000))


def test_many_small_values_are_refused() -> None:
    """They need eleven times as much memory as the text."""
    with pytest.raises(TraceError, match="too long"):
        read_trace(GOOD.replace(b'"ids":[', b'"ids":[' + b"999," * 3_000_000, 1))


def test_a_small_trace_of_much_text_is_refused() -> None:
    """A long piece, used again and again; more tokens than any run has; more lanes than anybody names."""

    def trace(count: int, piece: str, lanes: int = 1) -> bytes:
        events = [
            PiecesSeen(pieces={7: piece}),
            Committed(round=0, ids=(7,) * count, sources=("draft",) * count, total=count, at=0.1),
        ]
        return dump_trace({str(lane): events for lane in range(lanes)})

    assert read_trace(trace(1000, "piece" * 100)).lanes
    for raw in (trace(1000, "x" * 20_000), trace(300_000, "x"), trace(1, "x", lanes=300)):
        with pytest.raises(TraceError):
            read_trace(gzip.compress(raw))


def test_gzip_members_are_unpacked_in_linear_time() -> None:
    """100,000 empty ones are 2 MB; at quadratic cost they took seconds."""
    began = time.process_time()
    run = read_trace(gzip.compress(b"") * 100_000 + gzip.compress(GOOD))
    assert run == read_trace(GOOD) and time.process_time() - began < 2


def test_a_trace_of_several_gzip_members_is_read_whole(tmp_path: Path) -> None:
    """As ``cat`` makes them; what is no gzip behind the first is damage."""
    run = list(FakeDecoder().decode("Once", DecodeConfig()))
    lines = dump_trace({"vanilla": run}).splitlines(keepends=True)
    members = [gzip.compress(b"".join(part)) for part in (lines[:4], lines[4:])]
    assert read_trace(b"".join(members)).lanes["vanilla"] == tuple(run)
    with pytest.raises(TraceError, match="damaged"):
        read_trace(members[0] + b"something else")


@pytest.mark.parametrize("seconds", [-1.0, 1e300])
def test_a_clock_that_cannot_be_is_refused(seconds: float) -> None:
    *run, end = FakeDecoder().decode("Once", DecodeConfig())
    with pytest.raises(TraceError, match="time"):
        check_run([*run, structs.replace(end, seconds=seconds)])


@pytest.mark.parametrize("odd", [{"num_drafts": 4}, {"num_drafts": "x"}, {"selection": 3}, {"steps": None}])
def test_settings_of_a_foreign_trace_have_words(odd: dict[str, object]) -> None:
    assert settings_words({"drafter": "block", "gamma": 8, **odd}).startswith("γ 8, ")


RECORD = DrafterSpec(name="own", label="", module="package:build")


@pytest.mark.parametrize(
    "wrong",
    [{"name": "none"}, {"name": ""}, {"name": 5}, {"source": 5}, {"window": 0}, {"window": "x"}, {"drafting": "bogus"}],
)
def test_a_drafter_record_that_is_wrong_is_refused(wrong: dict[str, object]) -> None:
    before = dict(pairs.PAIRS)
    with pytest.raises(ConfigError):
        pairs.register_drafter(replace(RECORD, **wrong))
    with pytest.raises(ConfigError, match="nowhere"):
        pairs.register_drafter(RECORD, ("embedded", "nowhere"))
    assert before == pairs.PAIRS


@pytest.mark.parametrize(("methods", "settings"), [
    ("dflash", {}), ([], {}), (["medusa"], {}), (["dflash"], {"gamma": 2}),
    (["dflash"], {"drafter": "eagle"}), (["dflash"], {"repeats": 0}),
    (["dflash"], {"repeats": "2"}), (["dflash"], {"pair": "gpt2-mdlm"}),
])  # fmt: skip  # several rows a line
def test_the_front_door_refuses_as_the_command_line(methods: Any, settings: dict[str, Any]) -> None:
    engine = SimpleNamespace(first="block", pair=SimpleNamespace(spec=pairs.EMBEDDED))
    with pytest.raises(ConfigError):
        specdiff_core.race("Once", methods, engine=engine, **settings)


def test_every_method_is_a_setting_that_the_embedded_pair_can_follow() -> None:
    base = DecodeConfig(temperature=1.0, seed=5, max_new_tokens=7, tree_nodes=3)
    for method in METHODS:
        config = method.config(base)
        spec = pairs.EMBEDDED.drafter(config.drafter)
        assert spec.clamp_gamma(config.gamma) == config.gamma, method.name
        assert (config.temperature, config.seed, config.max_new_tokens) == (1.0, 5, 7)
        assert config.tree_nodes == method.settings.get("tree_nodes", 0), (
            "a method is not changed by what was set before"
        )
    assert methods_of("embedded") == METHODS
    assert len({method.name for method in METHODS}) == len(METHODS)


def test_the_readme_shows_every_method() -> None:
    rows = [line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    assert {method.name for method in METHODS} <= {name for row in rows for name in re.findall("`(.+?)`", row)}
