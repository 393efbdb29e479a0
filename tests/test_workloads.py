"""Published workloads: what is asked of the hub's package, what is said where it cannot answer, and how answers are
scored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specdiff_core.bench.prompts import digest, read_prompts
from specdiff_core.bench.workloads import WORKLOADS, answered, canonical, load_workload
from specdiff_core.schema.errors import ConfigError

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


def test_where_it_cannot_be_had_a_file_is_named(hub: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ConfigError, match="no workload 'gsm9k'"):
        load_workload("gsm9k", 3)
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", offline)
    with pytest.raises(ConfigError, match="could not be read: ConnectionError: no route") as error:
        load_workload("gsm8k", 3)
    assert "--prompts FILE" in error.value.hint and '"answer"' in error.value.hint
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", lambda *_, **__: iter([{"question": "?"}]))
    with pytest.raises(ConfigError, match="could not be read: KeyError"):
        load_workload("gsm8k", 3)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match="not installed") as error:
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


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("so \\boxed{\\frac{1}{2}}", "\\dfrac12", True),
        ("so \\boxed{0.5}", "\\frac{1}{2}", True),
        ("first \\boxed{3}, no, \\boxed{4}.", "4", True),
        ("first \\boxed{3}, no, \\boxed{4}.", "3", False),
        ("\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}", "(3,\\frac{\\pi}{2})", True),
        ("\\boxed{90^\\circ}", "90", True),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}", True),
        ("\\boxed{1,200}", "1200", True),
        ("\\boxed{(1,200)}", "(1,200)", True),
        ("\\boxed{-\\frac{3}{4}}", "-0.75", True),
        ("\\boxed{x = 5}", "5", True),
        ("She pays 3 * 6 = 18 dollars.\n#### 18", "18", True),
        ("The answer is $18.00.", "18", True),
        ("The answer is 18. Then 20 came.", "18", True),
        ("In all she has 1,234 apples.", "1234", True),
        ("The answer is **18**.", "18", True),
        ("**Answer:** \\(18\\)", "18", True),
        ("The final answer is $18$. I hope it is correct.", "18", True),
        ("The answer is 18 dollars, because 3 * 6 = 18.", "18.0", True),
        ("The answer is 2 and 3.", "2", False),
        ("The answer is 2 pi.", "2", False),
        ("The answer is 7.\n\nQuestion: What is 1 + 1?\nAnswer: The answer is 2.", "7", True),
        ("The answer is (C).", "\\text{(C)}", True),
        ("The answer is Evelyn.", "\\text{Evelyn}", True),
        ("\\boxed{864}", "864 \\mbox{ inches}^2", True),
        ("\\boxed{11111111100}", "11,\\! 111,\\! 111,\\! 100", True),
        ("\\boxed{\\frac1{3}}", "1/3", True),
        ("\\boxed{\\sqrt2}", "\\sqrt{2}", True),
        ("\\boxed{[1,2]}", "x \\in [1,2]", True),
        ("\\boxed{1e999999999}", "5", False),
        ("it costs 12 dollars", "13", False),
        ("\\boxed{unfinished", "5", False),
        ("no number here", "5", False),
        ("", "", False),
    ],
)
def test_an_answer_is_right_however_it_is_set(text: str, answer: str, right: bool) -> None:
    said = canonical(answered(text))
    assert (bool(said) and said == canonical(answer)) is right


def test_the_answer_of_a_solution() -> None:
    assert answered("\\boxed{{1}, {2}}") == "{1}, {2}"
    assert answered("#### 7\nNext question") == "7"
    assert answered("3 * 4 = 12", ended=False) == "", "it was cut off before it said what it ends with"
    assert answered("The answer is 12", ended=False) == "12"


@pytest.mark.parametrize(
    ("answer", "same"),
    [
        ("1,200.50", "1200.5"), ("-3.50", "-3.5"), ("0.0", "0"), ("-0", "0"), ("\\dfrac{2}{4}", "0.5"), ("2/6", "1/3"),
        ("\\frac{3}{0}", "\\frac{3}{0}"), ("9" * 6000, "9" * 6000), ("", ""), ("$ $", ""), ("x^2 + 1", "x^2+1"),
    ],
)  # fmt: skip
def test_all_ways_to_write_an_answer_are_one(answer: str, same: str) -> None:
    assert canonical(answer) == same
    assert canonical(same) == same
