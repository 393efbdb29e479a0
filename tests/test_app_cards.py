"""Method cards and alignment figures: complete, exact in their claims, and never ahead of their files."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET

import pytest

from app import alignment, cards, pages
from app.controls import from_query
from app.formulas import FORMULAS
from app.methods import WORDS, Words
from specdiff_core.schema.history import HISTORY, Training
from specdiff_core.schema.methods import METHODS, Method
from specdiff_core.schema.pairs import EMBEDDED, DrafterSpec
from specdiff_core.schema.settings import DecodeConfig

NAMES = sorted({method.name for method in METHODS} | {"eagle", "eagle2"})
RUN = Training(
    steps=1000,
    tokens=2_000_000,
    seconds=600.0,
    hardware="1 threads of Intel(R) Example",
    commit="abc",
    corpus="123",
    seed=0,
    command="python -m specdiff_core train mdlm --streak 0.0",
)


def tell(folder: Path, *runs: Training) -> DrafterSpec:
    """A drafter with a history."""
    folder.mkdir(exist_ok=True)
    (folder / HISTORY).write_text(json.dumps({"runs": [dataclasses.asdict(run) for run in runs]}))
    return DrafterSpec(name="mdlm", label="", module="masked_diffusion", source=str(folder))


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_three_sentences_a_formula_and_a_paper(name: str) -> None:
    words, (formulas, letters) = WORDS[name], FORMULAS[name]
    text = " ".join(words.sentences)
    assert len(re.findall(r"[.?!](?= |$)", text)) == 3, text
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in words.sentences)
    assert words.costs.startswith("A round is") and " wins " in words.wins
    assert words.exact.endswith((".", ".)")) and letters.endswith(".")
    assert words.papers and all(re.fullmatch(r"(\d{4}\.\d{5})?", number) for _, number in words.papers)
    for markup in formulas:
        tree = ET.fromstring(markup)
        assert tree.tag == "math" and tree.get("aria-label") == tree.get("alttext") and tree.get("aria-label")
        assert {node.tag for node in tree.iter()} <= {
            "math", "mrow", "mi", "mo", "mn", "msub", "msup", "mfrac", "munder", "munderover", "mover", "mspace",
        }  # fmt: skip
        assert all(node.text for node in tree.iter() if node.tag in {"mi", "mo", "mn"}), "no letter is missing"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_papers_are_those_of_the_method_list(method: Method) -> None:
    told = {number for _, number in WORDS[method.name].papers if number}
    assert set(re.findall(r"\d{4}\.\d{5}", method.paper)) <= told


def test_the_learn_tab_shows_the_methods_of_the_pair_and_no_others() -> None:
    page = pages.learn()
    assert re.findall(r'id="method-(\w+)"', page) == [method.name for method in METHODS]
    assert "https://arxiv.org/abs/2511.00606" in page and page.count('rel="noreferrer"') == page.count("https://")
    assert re.findall(r'id="method-(\w+)"', cards.section("gpt2-mdlm")) == ["vanilla", "prompt_lookup", "specdiff"]


@pytest.mark.parametrize("method", [m for m in METHODS if m.drafter != "none"], ids=lambda method: method.name)
def test_use_in_live_is_a_share_link_with_the_settings_of_the_method(method: Method) -> None:
    prompt, config = from_query(dict(parse_qsl(cards.link(method).removeprefix("?"))))
    assert prompt is None and config == method.config(DecodeConfig())


def test_the_cost_is_what_the_file_says(tmp_path: Path) -> None:
    spec = tell(tmp_path / "a", RUN)
    assert cards.cost(spec) == "1,000 steps, 2.0 M tokens, 10 minutes in one run on 1 thread of Intel Example."
    tell(tmp_path / "a", RUN, dataclasses.replace(RUN, steps=5, tokens=500_000, seconds=9000.0, hardware="a GPU"))
    assert cards.cost(spec) == (
        "1,005 steps, 2.5 M tokens, 2.7 hours in 2 runs on 1 thread of Intel Example and a GPU."
    )


def test_a_cost_that_is_not_known_is_not_invented(tmp_path: Path) -> None:
    spec = tell(tmp_path / "a", RUN)
    (tmp_path / "a" / HISTORY).write_text('{"runs": [{"steps": "many"}]}')
    assert "cannot be read" in cards.cost(spec)
    (tmp_path / "a" / HISTORY).unlink()
    assert "there is no training.json" in cards.cost(spec)


def test_what_has_no_weights_was_not_trained() -> None:
    assert cards.cost(EMBEDDED.drafter("none")).startswith("No training")
    assert cards.cost(EMBEDDED.drafter("prompt_lookup")).startswith("No training")


def test_words_never_become_markup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = "<script>alert('x')</script>"
    hostile = Words(does=bad, costs=bad, wins=bad, exact=bad, papers=((bad, bad),))
    monkeypatch.setitem(WORDS, "specdiff", hostile)
    method = next(method for method in METHODS if method.name == "specdiff")
    monkeypatch.setitem(FORMULAS, "specdiff", ((), bad))
    told = cards.card(dataclasses.replace(method, label=bad), "embedded")
    assert "<script" not in told and told.count("&lt;script&gt;") >= 7
    tell(tmp_path / "a", dataclasses.replace(RUN, hardware=bad))
    monkeypatch.setattr(cards, "cost", lambda spec: bad)
    assert "<script" not in cards.card(method, "embedded")


def streak(steps: int, *points: tuple[int, float], weight: str = "1.0") -> Training:
    curve = tuple((step, {"tokens_per_round/mean": tau}) for step, tau in points)
    return dataclasses.replace(RUN, steps=steps, command=f"train mdlm --streak {weight} --seed 1", curve=curve)


def test_a_streak_curve_begins_where_its_weights_were() -> None:
    before = streak(500, (200, 2.0), (500, 2.5), weight="0")
    first, second = streak(100, (50, 2.25), (100, 2.75)), streak(200, (0, 2.75), (200, 3.0))
    assert alignment.streak_curve([before, first, second]) == [(0, 2.5), (50, 2.25), (100, 2.75), (300, 3.0)]
    told = streak(100, (0, 2.375), (100, 2.75))
    assert alignment.streak_curve([before, told]) == [(0, 2.375), (100, 2.75)], "a measured beginning goes first"
    assert alignment.streak_curve([first]) == [], "without a beginning there is nothing to divide by"
    assert alignment.streak_curve([before]) == []
    assert alignment.streak_curve([before, streak(100, (100, 2.75), weight="much")]) == [], "a word is no weight"


def cell(drafts: int, tau: float, **more: object) -> dict[str, object]:
    plain = {"drafter": "mdlm_streak", "gamma": 9, "steps": 1, "nodes": 0, "selection": "self"}
    return {**plain, "drafts": drafts, "tau": tau, **more}


def test_a_selection_curve_takes_the_cells_that_differ_in_k_only() -> None:
    cells = [cell(8, 2.5), cell(1, 2.0, selection="trie"), cell(2, 2.25)]
    others = [
        cell(4, 9.0, selection="trie"),
        cell(4, 9.0, tree_nodes=16),
        cell(4, 9.0, auto=True),
        cell(1, 9.0, auto=True),
        cell(4, 9.0, gamma=4),
        cell(4, 9.0, drafter="block"),
        {"drafter": "none", "gamma": 1, "steps": 1, "tau": 1.0},
    ]
    assert alignment.selection_curve([*others, *cells]) == [(1, 2.0), (2, 2.25), (8, 2.5)]
    assert alignment.selection_curve(cells[:2]) == [], "two points are no curve"
    assert alignment.selection_curve([cell(2, 2.0), cell(4, 2.0), cell(8, 2.0)]) == [], "K = 1 is the start"


def test_figures_show_ours_and_the_papers_with_a_table(tmp_path: Path) -> None:
    bench = tmp_path / "selection.json"
    cold = {"cells": [cell(1, 2.0), cell(2, 2.0), cell(8, 2.0)], "settings": {"temperature": 0.0}}
    warm = {"cells": [cell(1, 2.0), cell(2, 2.25), cell(8, 2.5)], "settings": {"temperature": 1.0}}
    bench.write_text(json.dumps({"tables": [warm, cold]}))
    before = streak(500, (500, 2.5), weight="0")
    tell(tmp_path / "drafter", before, streak(100, (50, 2.25), (100, 2.75)))
    page = alignment.section(tmp_path / "drafter", [bench])
    assert page.count("<svg") == 2 and page.count("<details>") == 2 and page.count("read off its figure, ±1–2 %") == 7
    assert "from 2.50 to 2.75 tokens per round (1.10×) in 100 steps" in page and "fell to 2.25 (step 50)" in page
    assert "here 1.25×" in page and "at temperature 1" in page
    assert page.count("The difference, honestly") == 2


def test_the_papers_figures_are_divided_by_their_own_start() -> None:
    assert [round(ratio, 2) for _, ratio in alignment.PAPER_STREAK[0].ratios] == [1.0, 1.23, 1.28, 1.31, 1.32]
    assert all(curve.ratios[0][1] == 1 for curve in (*alignment.PAPER_STREAK, *alignment.PAPER_SELECTION))


def test_nothing_measured_draws_nothing(tmp_path: Path) -> None:
    assert alignment.section(tmp_path, [tmp_path / "missing.json"]) == ""
    shutil.copy(Path(EMBEDDED.drafter("mdlm").source) / HISTORY, tmp_path / HISTORY)
    assert alignment.section(tmp_path, []) == "", "a drafter without the streak loss has no such curve"


@pytest.mark.parametrize("text", ["[]", '{"cells": 3}', '{"cells": [{}], "settings": {}}', "{"])
def test_a_damaged_bench_costs_its_figure_only(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(ValueError):
        alignment.selection_of(tmp_path / "bench.json")
    page = alignment.section(benches=[tmp_path / "bench.json"])
    assert page.count("<svg") == 1 and "bench.json" in caplog.text


def test_the_shipped_drafter_shows_its_curve() -> None:
    assert "Streak-distillation" in alignment.section()
