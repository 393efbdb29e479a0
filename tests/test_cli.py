"""The command line, with a decoder without a model: flags from metadata, JSON as promised, errors as one line."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from app_fakes import FakeDecoder
from msgspec import structs

import specdiff_core
from specdiff_core import __main__, cli
from specdiff_core.checkpoints.memory import Machine
from specdiff_core.cli import options
from specdiff_core.cli.output import LEGEND, marked_text, printing, table
from specdiff_core.schema.errors import ContextOverflow, SpecDiffError
from specdiff_core.schema.events import Committed, Failed, PiecesSeen
from specdiff_core.schema.pairs import PAIRS, PairSpec
from specdiff_core.schema.settings import DecodeConfig, Rule
from specdiff_core.schema.summary import race_summary
from specdiff_core.schema.trace import read_trace, write_trace

ROOT = Path(__file__).resolve().parent.parent
PROMISED = {
    "text", "token_ids", "new_tokens", "rounds", "tau", "alpha", "seconds", "tokens_per_second", "draft_nfe",
    "target_calls", "lossless", "drafter", "rule", "device", "dtype", "versions",
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_decode_json_is_the_last_line_and_has_what_was_promised(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("decode", "--prompt", "Once", "--gamma", "4", "--steps", "2", "--max-new-tokens", "20", "--json")
    status, out, _ = run(capsys, *words)
    found = json.loads(out.splitlines()[-1])
    assert status == 0 and set(found) >= PROMISED
    assert (found["drafter"], found["rule"], found["lossless"]) == ("block", "block", True)
    assert found["new_tokens"] == len(found["token_ids"]) and found["target_calls"] == found["rounds"]
    assert found["tau"] == pytest.approx(found["new_tokens"] / found["rounds"])
    assert found["tokens_per_second"] == pytest.approx(found["new_tokens"] / found["seconds"])
    assert found["text"] in out


def test_every_setting_has_a_flag_that_arrives(decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]) -> None:
    values = {
        "pair": "embedded", "drafter": "masked", "gamma": 5, "steps": 3, "auto": True, "order": "entropy",
        "rule": "match", "tree_nodes": 0, "num_drafts": 3, "selection": "trie",
        "temperature": 0.7, "draft_temperature": 1.5, "top_k": 40, "top_p": 0.9, "seed": 11, "max_new_tokens": 12,
        "ignore_eos": True, "template": "plain", "system": "Be brief.", "stop": "User:",
    }  # fmt: skip
    assert set(values) == {item.name for item in dataclasses.fields(DecodeConfig)}
    words = ["decode", "--prompt", "x"]
    for name, value in values.items():
        words += [options.flag(name)] if value is True else [options.flag(name), str(value)]
    assert run(capsys, *words)[0] == 0
    assert decoder.calls[-1] == ("x", DecodeConfig.parse(values))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gamma", "99"], r"Draft window (γ) cannot be '99'"),
        (["--gamma", "soon"], "Give a whole number from 1 to 32"),
        (["--gamma", "2", "--steps", "3"], "cannot reveal"),
        (["--rule", "magic"], "Choose one of: ratio"),
        (["--pair", "nothing"], "no model pair"),
        (["--drafter", "nobody"], "no drafter"),
        (["--device", "abacus"], "no device called 'abacus'"),
        (["--threads", "0"], "threads"),
    ],
)
def test_a_wrong_setting_is_one_line_with_a_hint(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "decode", "--prompt", "x", *words)
    assert (status, out) == (2, "") and message in err and "hint: " in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ContextOverflow("Too long.", hint="Shorten it."), 2, "error: Too long.\nhint: Shorten it."),
        (SpecDiffError("It broke."), 2, "error: It broke."),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\nhint: "),
    ],
)
def test_failures_have_their_status(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, message: str
) -> None:
    decoder.fail, decoder.fail_after = error, 0
    found, _, err = run(capsys, "decode", "--prompt", "x")
    assert found == status and message in err


def test_a_race_of_several_methods(decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Vanilla first, each method with its own settings, all ready before their clock; a line for each."""
    trace = tmp_path / "race.jsonl.gz"
    words = ["race", "--prompt", "Once", "--methods", "markov_tree, specdiff", "--max-new-tokens", "30"]
    words += ["--repeats", "2"]
    status, out, _ = run(capsys, *words, "--json", "--trace", str(trace))
    assert status == 0
    order = [(config.drafter, config.tree_nodes, config.max_new_tokens) for _, config in decoder.calls]
    lanes = [("none", 0), ("masked", 0), ("block_markov", 16)]
    measured = [(*lane, 30) for lane in lanes]
    assert order == measured * 2 and decoder.warm_ups[:3] == [name for name, _ in lanes]
    found = json.loads(out)
    lanes = found["lanes"]
    assert list(lanes) == list(read_trace(trace).lanes) == ["vanilla", "specdiff", "markov_tree"]
    assert lanes["vanilla"]["speedup"] == 1 and lanes["vanilla"]["drafter"] == "none"
    rates = [lanes[lane]["tokens_per_second"] for lane in ("specdiff", "vanilla")]
    assert lanes["specdiff"]["speedup"] == pytest.approx(rates[0] / rates[1])  # the fake clock is the same every time
    least, most = lanes["specdiff"]["speedup_least"], lanes["specdiff"]["speedup_largest"]
    assert least <= lanes["specdiff"]["speedup_median"] <= most and lanes["specdiff"]["same_text_as_vanilla"] is True
    assert len(lanes["specdiff"]["speedups"]) == found["repeats"] == 2 and found["lossless"] is True
    status, out, err = run(capsys, *words, "--trace", str(trace))
    rows = [line.split() for line in out.splitlines()[:4]]
    assert [row[0] for row in rows] == ["method", *lanes]
    assert rows[2][1] == f"{lanes['specdiff']['speedup']:.2f}×" and "as vanilla" in out
    assert "race.jsonl.gz holds repeat 1, in which vanilla took its median time" in err
    again = run(capsys, "replay", str(trace))[1]
    head, _, specdiff, _ = again.splitlines()[-4:]
    assert head.split()[:2] == ["method", "speed-up"] and specdiff.startswith("specdiff")


def test_what_did_not_run_is_compared_with_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A trace with lanes that failed, that never began and that nobody knows; then one whose baseline was cut short."""
    trace = tmp_path / "race.jsonl"
    whole = {name: list(FakeDecoder().decode("Once", DecodeConfig(drafter=name))) for name in ("none", "block")}
    failed = Failed(code="weights", message="A file is missing.", hint="Restore it.")
    naive = list(FakeDecoder().decode("Once", DecodeConfig(drafter="masked", rule=Rule.NAIVE)))
    lanes = {"vanilla": whole["none"], "dflash": whole["block"], "specdiff": naive, "eagle": [failed], "x" * 99: naive}
    write_trace(trace, {**lanes, "markov": []})
    rows = {row.split()[0]: row for row in run(capsys, "replay", str(trace))[1].splitlines()[-7:] if row}
    assert list(rows) == ["plain:", "method", "vanilla", "dflash", "specdiff", "eagle"]
    assert "×" in rows["dflash"] and rows["dflash"].endswith("the target's")
    assert rows["specdiff"].endswith("NOT guaranteed")
    assert rows["eagle"].split()[1] == "failed" and not rows["eagle"].endswith(("the target's", "NOT guaranteed"))
    summary = race_summary({"vanilla": [whole["none"][:-1]], "dflash": [whole["block"]], "markov": [[]]})
    assert summary["lanes"]["dflash"]["speedup"] is None and summary["lanes"]["dflash"]["same_text_as_vanilla"] is None
    assert (summary["quiet"], summary["lossless"], summary["lanes"]["markov"]["lossless"]) == (None, True, None)
    assert race_summary({"vanilla": [[]]})["lossless"] is None
    assert [row.split()[1:3] for row in table(summary)[2:]] == [["not", "defined"], ["not", "run"]]


def test_a_stopped_lane_is_compared_if_its_text_is_long_enough() -> None:
    """As far as both texts reach. Without a token it claims nothing."""
    vanilla = list(FakeDecoder().decode("Once", DecodeConfig(drafter="none")))
    header, *events, end = FakeDecoder().decode("Once", DecodeConfig(drafter="block"))
    stopped = structs.replace(end, reason="stopped")
    for ids, lossless, same in (
        (end.ids[:20], True, True), ((*end.ids[:19], 0), True, False), (end.ids[:2], True, None), ((), None, None)
    ):  # fmt: skip  # a line
        run = [header, *(events if ids else ()), structs.replace(stopped, ids=ids)]
        for lanes in ({"vanilla": [vanilla], "drafted": [run]}, {"vanilla": [run], "drafted": [vanilla]}):
            lane = race_summary(lanes)["lanes"]["drafted"]
            assert lane["same_text_as_vanilla"] is same and (lane["speedup"] is None) == (same is None)
        assert race_summary({"vanilla": [run]})["lossless"] is lossless


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("decode", "The prompt is empty"),
        ("race", "The prompt is empty"),
        ("race --methods nonsense --prompt Once", "no method called 'nonsense'"),
        ("race --methods ,vanilla --prompt Once", "a method besides vanilla"),
        ("race --methods dflash --gamma 4 --prompt Once", "--methods and --gamma can't be combined"),
        ("race --methods dflash --pair gpt2-mdlm --prompt Once", "has no drafter for dflash"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_loaded(
    words: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "open_engine", lambda *_: pytest.fail("nothing may be loaded"))
    command, *others = words.split()
    status, _, err = run(capsys, command, "--prompt", "  ", *others)
    assert status == 2 and message in err and "hint: " in err


def test_an_unwritable_path_is_refused_before_the_work(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "x.jsonl", tmp_path / ("x" * 300)):
        for command in ("decode", "race"):
            status, _, err = run(capsys, command, "--prompt", "x", "--trace", str(path))
            assert status == 2 and "hint: " in err and not decoder.calls
    made = tmp_path / "made" / "here" / "x.jsonl"
    options.check_target(made, "trace")
    assert made.parent.is_dir() and not made.exists()
    (tmp_path / "file").write_text("kept")
    options.check_target(tmp_path / "file", "trace")
    assert (tmp_path / "file").read_text() == "kept"


REPLAY = [sys.executable, "-m", "specdiff_core", "replay", str(next((ROOT / "assets" / "traces").glob("story*")))]


def test_a_terminal_without_greek_gets_every_number() -> None:
    done = subprocess.run(REPLAY, cwd=ROOT, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert done.returncode == 0 and b"tokens per round" in done.stdout and b"\\u03c4" in done.stdout


def test_a_closed_pipe_is_quiet() -> None:
    """``… | head -1``: the reader leaves, nobody sees a traceback."""
    with subprocess.Popen(REPLAY, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(timeout=60) == 141


def test_race_says_that_the_machine_was_busy(decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]) -> None:
    for waiting, quiet in ((0.02, True), (0.9, False)):
        decoder.waiting = waiting
        words = ("race", "--prompt", "Once", "--max-new-tokens", "20")
        status, out, _ = run(capsys, *words, "--json")
        found = json.loads(out)
        assert (status, found["quiet"]) == (0, quiet)
        assert found["lanes"]["vanilla"]["waiting"] == pytest.approx(waiting)
        out = run(capsys, *words)[1]
        assert ("busy machine" in out) is not quiet
        assert f"threads waiting for a processor: {waiting:.2f}" in out


def test_replay_prints_what_decode_printed(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "run.jsonl"
    _, out, _ = run(capsys, "decode", "--prompt", "Once", "--max-new-tokens", "20", "--trace", str(trace), "--json")
    decoded = json.loads(out)
    out = run(capsys, "replay", str(trace), "--json")[1]
    assert json.loads(out)["lanes"]["drafted"] == decoded
    assert LEGEND in run(capsys, "replay", str(trace))[1]


def test_text_from_outside_cannot_steer_the_terminal(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A prompt, a title, lanes, results and errors; what follows --json stays JSON, and bars and colours work."""
    evil = "\x1b]0;a\x07\x9b2J\u202e\x7f\r\x85\u2028"
    trace = tmp_path / "evil.jsonl"
    write_trace(trace, {f"lane {evil}": list(FakeDecoder().decode(f"p {evil}", DecodeConfig()))}, title=evil)
    for words in (("replay", str(trace), "--json"), ("decode", "--prompt", f"p {evil}"), ("replay", f"{evil}.jsonl")):
        _, out, err = run(capsys, *words)
        assert not set("\x1b\x07\x9b\u202e\x7f\r\x85\u2028") & set(out + err)
        if "--json" in words:
            assert json.loads(out.split("\n")[-2])["title"] == evil
    with printing():
        sys.stderr.write("\x1b[2K\r\x1b[1m\x1b[K")
    assert capsys.readouterr().err == "\\u001b[2K\r\x1b[1m\x1b[K"


def test_a_character_of_several_tokens_is_marked_where_it_is_whole() -> None:
    """The bytes of an é may be two tokens: half of it is never printed."""
    events = [
        PiecesSeen(pieces={1: "caf", 2: "\\xc3", 3: "\\xa9", 4: "!"}),
        Committed(round=0, ids=(1, 2), sources=("draft", "residual"), total=2, at=0.1),
        Committed(round=1, ids=(3, 4), sources=("target", "draft"), total=4, at=0.2),
    ]
    assert marked_text(events) == "caf[é]!"


def test_pairs_are_listed_with_their_reasons(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdiff_core.checkpoints import availability as here

    def offline(spec: PairSpec, asked: Any = None) -> tuple[bool, str]:
        return spec.offline, "" if spec.offline else "no network here"

    machine = Machine(device="cpu", dtype="fp32", free=9 * 10**9)
    monkeypatch.setattr(here, "find_machine", lambda: machine)
    monkeypatch.setattr("specdiff_core.cli.pairs.availability", offline)
    status, out, _ = run(capsys, "pairs")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert status == 0 and set(PAIRS) <= set(lines) and out.count("no network here") == 1, "a reason is given once"
    assert "mit" in lines["gpt2-mdlm:xl"] and "too large" not in lines["gpt2-mdlm:xl"]
    assert "too large" in lines["qwen3-dflash:8b"] and "gated" in lines["llama3.1-dflash"]
    status, out, _ = run(capsys, "pairs", "qwen2.5-diffucoder:14b")
    assert status == 0 and "--drafter diffucoder" in out and "commit not pinned" in out
    assert "In bf16 it fits" in run(capsys, "pairs", "gpt2-mdlm:neo-2.7b")[1]
    assert run(capsys, "pairs", "nothing")[0] == 2


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("decode --prompt Once --gama 4", "--gamma"),
        ("explore window-mpa", "window-map"),
        ("decod --prompt Once", "decode"),
        ("race --prompt Once --methods dflahs", "dflash"),
        ("decode --prompt Once --drafter blok", "block"),
    ],
)
def test_a_typo_gets_a_suggestion(capsys: pytest.CaptureFixture[str], words: str, near: str) -> None:
    try:
        status = cli.main(words.split())
    except SystemExit as ended:  # argparse's way
        status = ended.code
    assert status == 2 and re.search(rf"Did you mean {near}\b", capsys.readouterr().err)


def test_small_conveniences(
    decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt from standard input, a cut γ that is said, the version; and an interrupt while modules are imported."""
    monkeypatch.setattr("sys.stdin", io.StringIO("Once upon"))
    status, out, err = run(capsys, "decode", "--prompt", "-", "--gamma", "32")
    assert status == 0 and out.startswith("Once upon") and decoder.calls[0][0] == "Once upon"
    assert re.search(r"γ is 16, not 32", err)
    with pytest.raises(SystemExit):
        run(capsys, "--version")
    assert capsys.readouterr().out.strip().endswith(specdiff_core.__version__)

    def left(status: int) -> NoReturn:
        raise SystemExit(status)

    monkeypatch.setattr("os._exit", left)
    monkeypatch.setattr(cli, "main", lambda: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(SystemExit, match="130"):
            __main__.main()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert capsys.readouterr().err == "interrupted\n"
