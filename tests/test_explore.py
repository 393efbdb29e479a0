"""All explorations: forms, refusals, stops, failures and recordings."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from exploring import HEATED, MAP, TWO, StopWhen, changed, explore, slow

import specdiff_core as lab
from specdiff_core.cli import build_parser
from specdiff_core.engine import Engine
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.base import Exploration, Step
from specdiff_core.explorations.budget import Budget
from specdiff_core.explorations.doctor import Doctor
from specdiff_core.explorations.learn import Learn
from specdiff_core.explorations.losslessness import Losslessness
from specdiff_core.explorations.run import ExplorationResult, ExplorationRun, command_words
from specdiff_core.explorations.side_by_side import SideBySide
from specdiff_core.explorations.temperature import Temperature
from specdiff_core.explorations.text import WhichText
from specdiff_core.explorations.what_it_takes import WhatItTakes
from specdiff_core.explorations.window_map import WindowMap
from specdiff_core.measure.problems import PROBLEMS
from specdiff_core.models.network import CausalLM
from specdiff_core.schema.errors import ConfigError, OutOfMemory, SpecDiffError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.pairs import ASSETS

pytestmark = pytest.mark.usefixtures("few_passes")


@pytest.mark.parametrize("kind", EXPLORATIONS.values(), ids=list(EXPLORATIONS))
def test_every_field_is_explained_and_its_default_passes(kind: type[Exploration]) -> None:
    fields = kind.form()
    assert {field["name"] for field in fields} == set(kind.__struct_fields__)
    for field in fields:
        assert field["title"], field
        assert field["about"].endswith((".", "}.")), field
        assert not field["choices"] or set(np.atleast_1d(field["default"])) <= set(field["choices"]), field
    assert parse(kind, {field["name"]: field["default"] for field in fields}) == kind()
    assert json.dumps(fields)
    assert any(not field["more"] for field in fields) or kind is WhatItTakes


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (WindowMap, {**MAP, "temperature": 0.7, "texts": "One line\nAnother, with a comma", "seed": 5}),
        (Losslessness, {"rules": "naive,block", "order": "random", "prompt": "He said “yes”."}),
        (WhatItTakes, {}),
        (SideBySide, {"a": "eagle2", "rule": "match", "branch": "b", "round": 3, "take": 7, "branch_seed": 9}),
    ],
)
def test_the_command_says_the_same(kind: type[Exploration], values: dict[str, Any]) -> None:
    what = parse(kind, values)
    args = vars(build_parser().parse_args(command_words(what)))
    assert parse(kind, {name: args[name] for name in kind.__struct_fields__ if name in args}) == what


@pytest.mark.parametrize(
    ("kind", "values", "word"),
    [
        (WindowMap, {"gammas": "0,4"}, "gammas"),
        (WindowMap, {"gammas": ""}, "gammas"),
        (WindowMap, {"gammas": "two"}, "gammas"),
        (WindowMap, {"unknown": 1}, "unknown"),
        (WindowMap, {"texts": "x" * 30_000}, "texts"),
        (WindowMap, {**MAP, "drafter": "block_markov_tree"}, "drafter"),
        (WindowMap, {**MAP, "drafter": "no such"}, "drafter"),
        (WindowMap, {**MAP, "gammas": "2", "steps": "4"}, "measure"),
        (Budget, {"methods": "vanilla"}, "Vanilla"),
        (Learn, {"texts": "Only one prompt"}, "two prompts"),
        (Doctor, {"drafter": "none"}, "no drafter"),
        (SideBySide, {"branch": "c"}, "branch"),
        (SideBySide, {**TWO, "tokens": 8, "branch": "a", "round": 128}, "no round 128"),
        (SideBySide, {**TWO, "branch": "b", "take": 2**31 - 1}, "a token of this target"),
        (SideBySide, {**TWO, "a": "nothing"}, "no method"),
        (SideBySide, {**TWO, "a": "auto"}, "not reproducible"),
        (SideBySide, {**TWO, "prompt": " "}, "prompt"),
        (Losslessness, {"gamma": 2, "steps": 4}, "T = 4"),
        (Losslessness, {"rules": "wrong"}, "rule"),
        (Losslessness, {"models": "masked", "prompt": "word " * 79}, "too long"),
        (Losslessness, {"rules": "self", "steps": 1}, "K is 1"),
        (Losslessness, {"rules": "ratio,trie", "num_drafts": 3, "steps": 2}, "T is 2"),
        (Losslessness, {"rules": "ratio,naive", "num_drafts": 3}, "test one"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    engine: Engine, kind: type[Exploration], values: dict[str, Any], word: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        explore(kind, engine, **values)
    assert word in f"{caught.value.field}: {caught.value.message}" and caught.value.hint


def test_published_curves_lie_over_our_own_and_are_hidden_at_first() -> None:
    def published(name: str, key: str) -> list[dict[str, Any]]:
        answer = msgspec.json.decode((ASSETS / "explore" / f"{name}.json").read_bytes(), type=ExplorationResult)
        figure = next(figure for figure in answer.report.figures if figure.key == key)
        own, *curves = figure.data
        assert own.get("visible", True) is True and all(curve["visible"] == "legendonly" for curve in curves)
        return curves

    assert published("temperature", "fall")[0]["y"] == [4.91, 4.24], "DFlash, table of its paper"
    (steps,) = published("window-map.masked", "steps")
    assert steps["x"] == [3, 4, 6, 8, 10] and steps["y"][0] == pytest.approx(30.1 / 4.5)


@pytest.mark.parametrize("name", [name for name, kind in EXPLORATIONS.items() if kind.tab and name != "losslessness"])
@pytest.mark.parametrize("after", [20, slow(1), slow(60)])
def test_stop_ends_a_question_within_a_few_passes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    assert engine.threads  # its probe takes a tenth of a second, whatever number of passes
    passes, decode = list[int](), CausalLM.decode

    def counted(*args: Any, **more: Any) -> Any:
        passes.append(1)
        return decode(*args, **more)

    monkeypatch.setattr(CausalLM, "decode", counted)
    monkeypatch.setattr(engine.target, "_exactness", {})  # the self-test of its bits can be stopped, too
    with contextlib.suppress(SpecDiffError):  # nothing was measured
        ExplorationRun(parse(EXPLORATIONS[name], {}), engine, StopWhen(lambda: len(passes) >= after)).advance()
    assert after <= len(passes) <= after + 4


def test_an_answer_stopped_before_its_first_run_does_not_say_zero_threads(engine: Engine) -> None:
    steps: list[Step] = []
    what = parse(Temperature, {"texts": "Once upon a time", "tokens": 8})
    final = ExplorationRun(what, engine, StopWhen(lambda: bool(steps))).advance(progress=steps.append)
    assert final.done == 1 and final.result and final.result.machine["threads"] >= 1


def failing(engine: Engine, when: Callable[[Any], bool]) -> Any:
    """The engine, of which some decodes fail."""

    def decode(prompt: str, config: Any, **options: Any) -> Iterator[Any]:
        if when(config):
            raise OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")
        return engine.decode(prompt, config, **options)

    found = copy.copy(engine)
    found.decode = decode  # type: ignore[method-assign]  # a fake
    return found


def test_a_cell_that_fails_is_left_out_and_keeps_what_it_measured(engine: Engine) -> None:
    asked: list[tuple[int, int]] = []

    def fails(config: Any) -> bool:
        asked.append((config.gamma, config.steps))
        return asked[-1] == (4, 2) or asked.count((2, 1)) > 1

    final = explore(WindowMap, failing(engine, fails), **{**MAP, "steps": "1,2"})
    rows = {(row["gamma"], row["steps"]): row for row in final.result.rows}
    assert {key for key, row in rows.items() if row.get("failed") == "The device ran out of memory."} == {
        (4, 2),
        (2, 1),
    }
    assert "speedup" not in rows[4, 2] and rows[2, 1]["speedup"]
    assert [row["prompts"] for row in rows.values()] == [1, 2, 2, 0]
    assert final.done == final.total
    assert sorted(race.count("@") for race in final.races) == [0] * 3 + [1] * 2, "one for each kind of text"


@pytest.mark.parametrize(
    ("kind", "values"), [(WhichText, {"tokens": 32, "methods": "specdiff,dflash"}), (Temperature, HEATED)]
)
def test_what_fails_has_no_numbers_of_another_run(
    engine: Engine, kind: type[Exploration], values: dict[str, Any]
) -> None:
    final = explore(
        kind,
        failing(engine, lambda config: config.drafter == "block" or config.draft_temperature == 0.7),
        flavours="stories",
        per_flavour=1,
        **values,
    ).result
    if kind is WhichText:
        assert {row["method"] for row in final.rows} == {"vanilla", "specdiff"}
        assert final.facts["skipped"] == ["Block diffusion (DFlash): The device ran out of memory."]
    else:
        assert all("failed" in row for row in final.rows if row["draft_temperature"] == 0.7)
        assert all(point["draft_temperature"] != 0.7 for point in final.facts["reliability"])


def test_lines_that_are_no_prompts_are_named_and_passed_over(engine: Engine) -> None:
    texts = "\n".join(
        [
            "Once upon a time",
            "{broken",
            '{"id": "a", "flavour": "mine", "prompt": "There was"}',
            "",
            '{"id": "a", "flavour": "mine", "prompt": "twice"}',
            "word " * 600,
        ]
    )
    prompts, skipped = parse(WindowMap, {"texts": texts}).prompts(engine)
    assert [prompt.prompt for prompt in prompts] == ["Once upon a time", "There was"]
    assert [line.split(":")[0] for line in skipped] == ["line 2", "line 5", "line 6"]
    saved_elsewhere = '\ufeff{"id": "a", "flavour": "mine", "prompt": "one\u2028two"}\r\n{"id": "b"}\r\nThere was\v\r'
    prompts, skipped = parse(WindowMap, {"texts": saved_elsewhere}).prompts(engine)
    assert [prompt.prompt for prompt in prompts] == ["one\u2028two", "There was"]
    assert [line.split(":")[0] for line in skipped] == ["line 2"]
    with pytest.raises(ConfigError, match="line 1"):
        parse(WindowMap, {"texts": "{"}).prompts(engine)
    with pytest.raises(ConfigError, match="no prompt"):
        parse(WindowMap, {"flavours": ""}).prompts(engine)


RECORDED = sorted(path for tab in ("explore", "compare") for path in (ASSETS / tab).glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_answer_says_what_its_numbers_say(path: Path) -> None:
    """This version makes the same report of its rows, and the races that ship are there."""
    final = msgspec.json.decode(path.read_bytes(), type=ExplorationResult)
    report = parse(EXPLORATIONS[final.name], final.settings).report(final.rows, final.facts)
    assert not changed(final.report, report), "`explore show FILE --json FILE` draws it anew"
    assert report.answer and all(figure.data or figure.formula or figure.key == "three" for figure in report.figures)
    assert all((path.parent / file).is_file() for file in final.files.values())


def test_the_largest_seed_has_room_for_all_attempts() -> None:
    for kind in (Budget, WindowMap):
        (most,) = (field["high"] for field in kind.form() if field["name"] == "seed")
        lab.DecodeConfig(seed=most + 64 * 7 * len(PROBLEMS))
        parse(kind, {"seed": most})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (
            Losslessness,
            {"models": "masked", "rules": "ratio", "runs": 200, "length": 1, "top_k": 2, "gamma": 1, "steps": 1},
        ),
        (Doctor, {"drafter": "masked", "per_flavour": 1, "flavours": "stories", "tokens": 16}),
    ],
    ids=["losslessness", "doctor"],
)
def test_the_engine_of_other_runs_is_never_changed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: type[Exploration], values: dict[str, Any]
) -> None:
    """Nor its drafters: others decode with them at the same time. It may look for another number of threads."""
    shared = (engine, *(engine.drafter(name) for name in ("none", "masked")))

    def refuse(one: Any, name: str, value: Any) -> None:
        assert name == "_threads" or not any(one is other for other in shared), name
        object.__setattr__(one, name, value)

    for one in shared:
        monkeypatch.setattr(type(one), "__setattr__", refuse)
    explore(kind, engine, **values)
