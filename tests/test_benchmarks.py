"""``python -m benchmarks``, without a large model: prompt files, the suite, and the documents' numbers."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean, median
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from app_fakes import FakeDecoder
from fakes import ORIGIN
from servers import Loopback, send

from benchmarks import load, report, suite
from benchmarks.__main__ import build_parser, main
from benchmarks.prompts import cut, make_prompts, write_prompts
from benchmarks.report import KINDS
from benchmarks.tables import section
from benchmarks.workloads import WORKLOADS, load_workload
from specdiff_core import cli
from specdiff_core.cli import options
from specdiff_core.measure.grid import VANILLA, BenchSetting, listed
from specdiff_core.measure.prompts import Prompt, digest, read_prompts
from specdiff_core.measure.runner import sweep
from specdiff_core.measure.store import read_result, write_result
from specdiff_core.measure.sweep import Sweep, median_words, speed_words, sweep_result
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("no_weights")


def swept() -> Sweep:
    """The result of a sweep of the scripted decoder."""
    prompts = [Prompt(id=f"{flavour}-0", flavour=flavour, prompt=flavour) for flavour in ("math", "code")]
    settings = (VANILLA, BenchSetting("block", 4, 2), BenchSetting("block", 4, 1, 0, 2, "trie"))
    base = DecodeConfig(max_new_tokens=12)
    *_, (_, _, log) = sweep(engine=FakeDecoder(), prompts=prompts, settings=settings, base=base, repeats=1, path=None)
    return sweep_result(log, ORIGIN)


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
    shown = section(read_result(path, *KINDS))
    rows = cells(shown)
    assert [row[1:] for row in rows[2:8]] == [[n, "2.00 s", "1.50–3.25 s"] for n in ("5", "5", "30", "30", "30", "5")]
    assert "drafted 2.000× (1.900–2.100)" in shown


PART = "# Title\n\nProse.\n\n<!-- {} -->\n<!-- end -->\n\nMore prose.\n"


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "poem", "schema": 1}',
        json.dumps({**PAGE, "schema": 4}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": 3}),
        json.dumps({**PAGE, "kind": "equality", "schema": 1, "result": {"entries": [{}]}}),
    ],
)
def test_a_foreign_result_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    (tmp_path / "B.md").write_text(PART.format("results: r.json"))
    with pytest.raises(ConfigError, match=r"r\.json is not a result|is not whole"):
        report.write(tmp_path, [tmp_path / "B.md"])
    assert (tmp_path / "B.md").read_text() == PART.format("results: r.json")


def test_a_number_that_is_not_its_files_is_named(tmp_path: Path) -> None:
    """A cell, a line, and a number without a file; what is written passes, and nothing around it changes."""
    for name in ("greedy", "sampled"):
        write_result(tmp_path / f"{name}.json", swept())
    texts = {"results": "results: greedy.json sampled.json", "summary": "summary: greedy.json sampled.json"}
    for name, part in texts.items():
        path = tmp_path / f"{name}.md"
        path.write_text(PART.format(part))
        with pytest.raises(ConfigError, match=f"{name}.md:6: 0 lines should be"):
            report.check(tmp_path, [path])
        report.write(tmp_path, [path])
        report.check(tmp_path, [path])
        text = path.read_text()
        assert text.startswith("# Title\n\nProse.\n") and text.endswith("\nMore prose.\n")
        row = next(row for row in cells(text) if "block γ 4, T 2" in row)
        entry = swept().entries[1]
        assert any(cell.startswith(f"{entry.tau:.2f}") for cell in row) and median_words(entry) in row
        path.write_text(text.replace(median_words(entry), "9.99× (9.00–9.99)", 1) + "It is 3.1× as fast.\n")
        with pytest.raises(ConfigError) as error:
            report.check(tmp_path, [path])
        cell, loose = error.value.message.splitlines()
        assert "block γ 4, T 2, median of prompts: '9.99×" in cell and median_words(entry) in cell
        assert loose.startswith(f"{name}.md: '1×'")
    (tmp_path / "greedy.json").unlink()
    with pytest.raises(ConfigError, match=r"greedy\.json is not a result"):
        report.check(tmp_path, [path])


def test_the_documents_say_what_the_results_say() -> None:
    report.check()
    files = sorted(report.RESULTS.glob("*.json"))
    assert sum(path.stat().st_size for path in files) <= 200_000
    parts = [found[3].split() for path in report.DOCUMENTS for found in report.PART.finditer(path.read_text("utf-8"))]
    assert {path.name for path in files} == {name for names in parts for name in names}


@pytest.mark.parametrize("path", sorted(report.RESULTS.glob("*-*.json")), ids=lambda path: path.stem)
def test_the_numbers_of_a_result_follow_from_its_runs(path: Path) -> None:
    """The mean of the kinds for τ and the speed-up, the median for prompts; and (?) where a speed-up exceeds τ."""
    result = read_result(path, Sweep)
    vanilla = result.runs[VANILLA.key]
    for entry in result.entries[1:]:
        runs = result.runs[entry.key]
        ratio = lambda prompts, runs=runs: (
            sum(run.seconds for one in prompts for run in vanilla[one])
            / sum(run.tokens for one in prompts for run in vanilla[one])
            * sum(run.tokens for one in prompts for run in runs[one])
            / sum(run.seconds for one in prompts for run in runs[one])
        )
        kinds = [[one for one in runs if one.split("-")[-2] == kind] for kind in result.prompts]
        taus = [
            sum(run.tokens for one in kind for run in runs[one]) / sum(run.rounds for one in kind for run in runs[one])
            for kind in kinds
        ]
        assert entry.speedup.value == pytest.approx(fmean(map(ratio, kinds)), rel=1e-3)
        assert entry.tau == pytest.approx(fmean(taus), rel=1e-3)
        by_prompt = [ratio([one]) for one in runs]
        assert entry.by_prompt == pytest.approx((median(by_prompt), min(by_prompt), max(by_prompt)), rel=1e-3)
        assert entry.same_text_as_vanilla == sum(all(run.same_text for run in one) for one in runs.values())
        marked = any(ratio(kind) > 1.05 * tau for kind, tau in zip(kinds, taus, strict=True))
        assert ("(?)" in speed_words(entry)) is marked


def test_the_prompts_of_the_readme_are_here_and_may_be_shared() -> None:
    path = ROOT / "benchmarks" / "prompts" / "valid40.jsonl"
    assert Counter(prompt.flavour for prompt in read_prompts(path)) == dict.fromkeys(
        ("code", "writing", "extract", "math", "chat"), 8
    )
    licences = {msgspec.json.decode(line)["licence"] for line in path.read_bytes().splitlines()}
    assert licences <= {"MIT", "Apache-2.0", "CC-BY-4.0"}


# The load test.


def load_test(
    url: str, process: Any, home: Path, monkeypatch: pytest.MonkeyPatch, words: str = "--visitors 3 --rounds 2"
) -> int:
    """The status of the load test of a running server; in a thread, as Playwright's loop may run in this one."""
    monkeypatch.setattr(load, "server", lambda out: nullcontext((url, process)))
    monkeypatch.setattr(load, "LOG", home / "load.log")
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(main, ["load", *words.split(), "--tokens", "4"]).result()


def test_the_page_serves_several_visitors_and_survives_malformed_calls(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, process = serve()  # its own: another test kills the shared one
    status = load_test(url.rstrip("/"), process, tmp_path, monkeypatch, "--visitors 3 --rounds 2 --fuzz 16")
    printed = capsys.readouterr()
    assert status == 0, printed
    assert re.search(r"answers +6\nerrors +0\nwrong answers +0\n", printed.out)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('data: [{{"lanes": {{"vanilla": {{"text": "{count}"}}}}}}]', r"answers +6\nerrors +0\nwrong answers +3"),
        ('data: [{{"lanes": {{}}}}]\n\nevent: error\ndata: "full"', r"answers +0\nerrors +6\n"),
        ('data: [{{"finished": true}}]', r"answers +0\nerrors +6\n"),
    ],
    ids=["another's answer", "an error", "no lanes"],
)
def test_the_load_test_fails_on_wrong_and_missing_answers(
    line: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = itertools.count()

    def answer(request: Any) -> None:
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        event = f"event: complete\n{line.format(count=next(calls))}\n\n"
        send(request, b'{"event_id": "1"}' if request.command == "POST" else event.encode())

    with Loopback(answer) as server:
        assert load_test(server.url, SimpleNamespace(pid=os.getpid(), poll=lambda: None), tmp_path, monkeypatch) == 2
    assert re.search(found, capsys.readouterr().out)


# The commands.


def test_every_command_of_the_suite_can_run() -> None:
    for file, (module, *words) in suite.commands(Path("a folder"), ["--threads", "2"]).items():
        args = {"specdiff_core": cli.build_parser, "benchmarks": build_parser}[module]().parse_args(words)
        assert args.json == Path("a folder") / file
        if getattr(args, "settings", ""):
            base = options.read_settings(args)
            assert len(listed(args.settings.split(","), base)) == len(args.settings.split(",")) + 1
            assert args.threads == 2
            assert args.prompts is None or read_prompts(ROOT / args.prompts)


def test_the_suite_keeps_finished_files_and_goes_on_without_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    ran: list[str] = []
    broken = ["page.json"]
    written: list[str] = []
    result = swept()

    def run(words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        assert words[:2] == [sys.executable, "-m"]
        name = next(name for name, own in suite.commands(out, machine).items() if own == words[2:])
        ran.append(name)
        if name not in broken:
            write_result(out / name, result)
        return subprocess.CompletedProcess(words, 2 * (name in broken))

    machine = ["--device", "cpu", "--threads", "2"]
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(report, "write", lambda: written.append("the documents"))
    write_result(out / "smollm2-greedy.json", result)
    words = f"suite --out {out} --results {results} --device cpu --threads 2".split()
    assert main(words) == 0
    error = capsys.readouterr().err
    assert f"1 of {len(suite.COMMANDS)}, smollm2-greedy.json: done already" in error and "page.json: left out" in error
    assert ran == [*suite.COMMANDS][1:] and not written, "another folder is not the documents'"
    assert {path.name for path in results.iterdir()} == {*suite.COMMANDS} - {"page.json"}
    monkeypatch.setattr(report, "RESULTS", results)
    assert main(words) == 0 and written
    ran.clear()
    (out / "peers.json").unlink()
    broken.append("peers.json")
    assert main([*words, "peers.json"]) == 2 and ran == ["peers.json"]
    assert "ended with status 2" in capsys.readouterr().err
    assert main([*words, "poems.json"]) == 2 and "poems.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("equality --temperatures warm", "Temperature cannot be"),
        ("equality --temperatures 9", "0 to 2"),
        ("equality --generate-prompts -1", "not be negative"),
        ("peers --settings block", "is not a setting"),
        ("peers --settings nobody/4/1", "nobody"),
        ("report --check --results nothing", "json is not a result"),
        ("prompts --corpus nothing --out p.jsonl", "No validation text"),
        ("prompts --workload gsm9k --out p.jsonl", "no workload"),
        ("load --rounds 0", "at least 1"),
        ("load --tokens 0", "1 to"),
        ("prompts --per-flavour 0 --out p.jsonl", "no prompt"),
    ],
)
def test_a_wrong_flag_is_named(
    words: str, message: str, decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]
) -> None:
    decoder.encode = lambda prompt: (1,)
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
