"""``python -m benchmarks``, without a large model: prompt files, the suite, and BENCHMARKS.md."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from test_measure import BASE, measured

from benchmarks import suite
from benchmarks.__main__ import build_parser, main
from benchmarks.prompts import cut, make_prompts, write_prompts
from benchmarks.report import KINDS, benchmarks
from benchmarks.tables import section
from benchmarks.workloads import WORKLOADS, load_workload
from specdiff_core import cli
from specdiff_core.cli import options
from specdiff_core.measure.grid import listed
from specdiff_core.measure.prompts import digest, read_prompts
from specdiff_core.measure.store import read_result, write_result
from specdiff_core.measure.sweep import Sweep, sweep_result
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import DecodeConfig
from tests.app_fakes import FakeDecoder
from tests.fakes import ORIGIN

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("no_weights")


def swept() -> Sweep:
    """The result of a sweep of the scripted decoder."""
    return sweep_result(measured(repeats=1), ORIGIN)


def cells(text: str) -> list[list[str]]:
    """The rows of all Markdown tables."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]


# Prompt files.


ROWS: dict[str, dict[str, Any]] = {  # one of each, in the fields of the release
    "cnn_dailymail": {"article": "A cat sat.", "highlights": "Cat.", "id": "1"},
    "openwebtext": {"text": "word " * 200},
    "mt_bench": {"category": "writing", "prompt": ["Write a post.", "Now shorter."], "prompt_id": 81},
    "math500": {"problem": "What is $1+1$?", "answer": "2", "subject": "Algebra", "level": 1},
    "gsm8k": {"question": "Two and two?", "answer": "It is 2 + 2 = <<2+2=4>>4.\n#### 4"},
    "humaneval": {"task_id": "HumanEval/0", "prompt": "def f():\n", "test": "assert"},
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A stand-in for the package, which remembers what it was asked for."""
    asked: list[tuple[Any, ...]] = []
    package = ModuleType("datasets")

    def load_dataset(source: str, config: str | None, **options: Any) -> Any:
        asked.append((source, config, options))
        (name,) = [one.name for one in WORKLOADS.values() if one.source == source]
        return (ROWS[name] for _ in range(1000))

    package.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", package)
    return asked


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_streamed_at_its_revision(name: str, hub: list[tuple[Any, ...]]) -> None:
    prompts = load_workload(name, 3)
    ((source, _, options),) = hub
    assert len(prompts) == 3 and len({prompt.id for prompt in prompts}) == 3
    assert source == WORKLOADS[name].source and options["streaming"] is True
    assert len(options["revision"]) == 40 and set(options["revision"]) <= set("0123456789abcdef")
    assert "trust_remote_code" not in options
    assert all(prompt.prompt.strip() and prompt.flavour for prompt in prompts)
    assert prompts[0].answer == {"gsm8k": "4", "math500": "2"}.get(name, "")
    if name == "openwebtext":
        assert len(prompts[0].prompt.split()) == 64


def test_without_the_package_a_file_is_named(hub: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ConfigError, match="no workload called 'gsm9k'"):
        load_workload("gsm9k", 3)
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", offline)
    with pytest.raises(ConfigError, match="could not be read: ConnectionError: no route") as error:
        load_workload("gsm8k", 3)
    assert '"answer"' in error.value.hint
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", lambda *_, **__: iter([{"question": "?"}]))
    with pytest.raises(ConfigError, match="could not be read: KeyError"):
        load_workload("gsm8k", 3)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match="needs a package") as error:
        load_workload("humaneval", 3)
    assert "pip install" in error.value.hint


def test_spec_bench_is_a_file(tmp_path: Path) -> None:
    lines = [
        {"question_id": 81, "category": "writing", "turns": ["Write a post.", "Shorter."]},
        {"id": "own", "flavour": "math", "prompt": "2 + 2?", "answer": "4"},
    ]
    path = tmp_path / "question.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    first, second = read_prompts(path)
    assert (first.id, first.flavour, first.prompt) == ("writing-81", "writing", "Write a post.")
    assert second.answer == "4"
    assert digest((second,)) == digest((type(second)(id="own", flavour="math", prompt="2 + 2?"),))


def test_prompts_come_from_validation_documents(tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(200))
    for name, count in (("code", 7), ("math", 3)):
        documents = [f"{name} {i} {words}" for i in range(count)] + ["short"] * 5
        (tmp_path / f"{name}.valid.txt").write_text("\n\n<|endoftext|>\n\n".join(documents))
    found = make_prompts(tmp_path, per_flavour=3, characters=50)
    assert [p.id for p in found] == ["code-001", "code-002", "code-003", "math-001", "math-002", "math-003"]
    assert [p.prompt.split()[1] for p in found[:3]] == ["0", "2", "4"]  # evenly spaced
    for prompt in found:
        assert len(prompt.prompt) <= 50
        assert prompt.prompt.split()[-1] in words.split()  # cut after a whole word
    write_prompts(tmp_path / "p.jsonl", found)
    assert read_prompts(tmp_path / "p.jsonl") == found
    assert main(["prompts", "--corpus", str(tmp_path), "--out", str(tmp_path / "q.jsonl")]) == 0
    assert len(read_prompts(tmp_path / "q.jsonl")) == 10 + 8, "short documents where long ones run out"
    assert [cut("abcdef", 3), cut("ab cdef", 5), cut("ab cd", 99)] == ["abc", "ab", "ab cd"]


def test_a_workload_becomes_a_prompt_file(hub: list[tuple[Any, ...]], tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    assert main(["prompts", "--workload", "gsm8k", "--count", "2", "--out", str(path)]) == 0
    assert [prompt.answer for prompt in read_prompts(path)] == ["4", "4"] and len(hub) == 1


# BENCHMARKS.md.


SPREAD = {"median": 2.0, "low": 1.5, "high": 3.25}

PAGE: dict[str, Any] = {
    "kind": "page", "schema": 6, "starts": 5, "turns": 30, "device": "cpu", "dtype": "fp32", "threads": 2,
    "target": "T", "settings": DecodeConfig().to_dict(), "usable_seconds": SPREAD, "load_seconds": SPREAD,
    "memory_mib": SPREAD,
    "first_seconds": dict.fromkeys(("first", "later"), dict.fromkeys(("event", "token", "window"), SPREAD)),
    "attached": {lane: {**SPREAD, "interval": [1.9, 2.1]} for lane in ("vanilla", "drafted")},
    "waiting": {lane: {"attached": 0.05, "alone": None} for lane in ("vanilla", "drafted")},
    "provenance": {**ORIGIN, "command": "python -m benchmarks page"},
}  # fmt: skip  # several fields a line


def test_the_page_is_reported_with_its_spread(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps(PAGE))
    rows = cells(section(read_result(path, *KINDS)))
    assert [row[1:] for row in rows[2:8]] == [[n, "2.00 s", "1.50–3.25 s"] for n in ("5", "5", "30", "30", "30", "5")]
    assert rows[-1] == ["drafted", "2.000×", "1.900–2.100", "1.500–3.250", "0.050", "–"]


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "poem", "schema": 1}',
        json.dumps({**PAGE, "schema": 4}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": 3}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": {"entries": [{}]}}),
    ],
)
def test_a_foreign_result_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(text)
    assert main(["report", str(tmp_path / "r.json"), "--out", str(tmp_path / "B.md")]) == 2
    error = capsys.readouterr().err
    assert ("r.json is not a result" in error or "is not whole" in error) and not (tmp_path / "B.md").exists()


def on_machine(result: Sweep, cpu: str, date: str = "2026-01-02", **others: Any) -> Sweep:
    return msgspec.structs.replace(result, provenance={**ORIGIN, "cpu": cpu, "date": date}, **others)


def test_a_report_replaces_only_its_own_machine() -> None:
    result = swept()
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


def test_each_mean_is_over_the_kinds_of_text_and_no_round_costs_less_than_a_vanilla_token() -> None:
    """Of every sweep: τ is the mean of the τ of its kinds, as the speed-up is, and no speed-up exceeds τ by more than
    5 % unless it is marked."""
    shipped = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
    tables = [cells(block) for block in shipped.split("\n\n") if block.startswith("| setting")]
    checked = 0
    for (head, _, *rows), ((_, *names), _, *details) in itertools.pairwise(tables):
        kinds = [name.removeprefix("τ ") for name in names if name.startswith("τ ")]
        if not kinds or "τ" not in head:
            continue
        by_kind = {row[0]: [float(value) for value in row[1 : 1 + len(kinds)]] for row in details}
        for row in (dict(zip(head, values, strict=True)) for values in rows if values[0] != "vanilla"):
            taus = by_kind[row["setting"]]
            assert float(row["τ"].split()[0]) == pytest.approx(sum(taus) / len(taus), abs=0.011), row["setting"]
            marks = ["(?)" in row[kind] for kind in kinds]
            assert marks == [float(row[kind].split("×")[0]) > 1.05 * tau for kind, tau in zip(kinds, taus, strict=True)]
            assert ("(?)" in row["speed-up"]) == any(marks)
            checked += 1
    assert checked > 50


def test_the_rates_beside_those_of_a_paper_are_those_of_the_sweep() -> None:
    """α_j of the two drafters in the table of curves, and in the sweep above it."""
    above, _, below = (
        (ROOT / "BENCHMARKS.md").read_text("utf-8").partition("\n| α_j, the acceptance rate at position j (γ 9")
    )
    own = below.partition("\n")[0].split("|")[-2]
    positions = [int(j) for j in re.findall(r"\d+", own.partition("j = ")[2].partition(":")[0])]
    for name, numbers in re.findall(r"(mdlm\w*) ([\d., ]+)", own):
        row = next(row for row in reversed(cells(above)) if row[0] == f"{name} γ 9, T 1")
        assert [row[5].split()[j - 1] for j in positions] == numbers.strip(", ").split(", "), name


# The commands.


def test_every_command_of_the_suite_can_run() -> None:
    written: set[str] = set()
    for file, (module, *words) in suite.commands(Path("a corpus"), Path("out"), ["--threads", "2"]).items():
        written.add(str(file))
        args = {"specdiff_core": cli.build_parser, "benchmarks": build_parser}[module]().parse_args(words)
        assert str(file) in words and ("a corpus" in words) == (words[0] == "prompts")
        used = [path for path in (getattr(args, "prompts", None), getattr(args, "sweep", None)) if path]
        assert all(str(path) in written for path in used)
        if getattr(args, "settings", ""):
            assert len(listed(args.settings.split(","), BASE)) == len(args.settings.split(",")) + 1
        if words[0] not in ("prompts", "page"):
            assert args.threads == 2 and args.json == file
            if words[0] != "explore":
                options.read_settings(args)


def test_the_suite_keeps_finished_files_and_goes_on_without_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = tmp_path / "out", tmp_path / "B.md"
    result = swept()
    ran: list[str] = []
    broken = ["page.json"]

    def run(words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        assert words[:2] == [sys.executable, "-m"]
        file = next(file for file, own in suite.commands(Path("c"), out, machine).items() if own == words[2:])
        ran.append(file.name)
        if file.name in broken:
            return subprocess.CompletedProcess(words, 2)
        write_result(file, result)
        race.parent.mkdir(parents=True, exist_ok=True)
        race.write_bytes(b"race")
        return subprocess.CompletedProcess(words, 0)

    race = out / "races" / "compare" / "0-code.jsonl.gz"
    shown = ("selection.json", "compare.json", "races/compare/0-code.jsonl.gz")
    machine = ["--device", "cpu", "--dtype", "auto"]
    monkeypatch.setattr(subprocess, "run", run)
    write_result(out / "greedy.json", result)
    words = f"suite --corpus c --out {out} --report {report} --shown {tmp_path} --device cpu".split()
    assert main(words) == 0
    error = capsys.readouterr().err
    assert "greedy.json" not in ran and "2 of 12, greedy.json" in error
    assert "page.json: left out" in error and ran[-1] == "compare.json"
    assert all((tmp_path / name).read_bytes() == (out / name).read_bytes() for name in shown)
    assert report.read_text().count("### ") == 8, "all but the page and the comparison"
    ran.clear()
    (out / "methods.json").unlink()
    broken.append("methods.json")
    assert main(words) == 2 and ran == ["methods.json"]
    assert "ended with status 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("equality --temperatures warm", "Temperature cannot be"),
        ("equality --temperatures 9", "0 to 2"),
        ("equality --generate-prompts -1", "not be negative"),
        ("peers --settings block", "is not a setting"),
        ("peers --settings nobody/4/1", "nobody"),
        ("forwards --settings mdlm/4/1/0/2/self", "of a fixed size that a denoiser fills"),
        ("forwards --sweep nothing.json", "nothing.json is not a result"),
        ("report nothing.json", "nothing.json is not a result"),
        ("prompts --corpus nothing --out p.jsonl", "No validation text"),
        ("prompts --workload gsm9k --out p.jsonl", "no workload"),
        ("prompts --per-flavour 0 --out p.jsonl", "no prompt"),
    ],
)
def test_a_wrong_flag_is_named(
    words: str, message: str, decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]
) -> None:
    decoder.encode = lambda prompt: (1,)
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
