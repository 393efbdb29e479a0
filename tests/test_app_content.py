"""Words and pictures of the page: escaping, colours, formulas, lessons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.content import evidence, formulas, scenes, symbols, workshop
from app.content.examples import OPENING
from app.content.html import element, escape, json_for_script
from app.content.measured import measured
from app.content.workshop import CLOSING, WORKSHOP
from app.first_load import STATIC
from specdiff_core.drafters import base
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.prediction import expected_tau
from specdiff_core.maths import randomness
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema import events, metrics, palette, settings
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.trace import read_trace

ROOT = Path(__file__).resolve().parent.parent


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@given(st.text())
def test_text_never_becomes_markup(text: str) -> None:
    """Every angle bracket and quote is escaped, in content or in an attribute."""
    safe = escape(text)
    assert not set("<>\"'") & set(safe)
    assert element("p", text=text, class_=text, data_is=text) == f'<p class="{safe}" data-is="{safe}">{safe}</p>'


@given(st.text())
def test_json_cannot_leave_its_script(text: str) -> None:
    code = json_for_script({"text": text})
    assert json.loads(code) == {"text": text}
    assert not re.search(r"[<>&\u2028\u2029]", code)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("role", "grounds", "least"),
    [
        ("ink", "page card raised map-good map-bad alarm-tint", 4.5),
        ("muted", "page card raised draft-tint residual-tint", 4.5),
        ("draft", "card draft-tint", 4.5),
        ("residual", "card page residual-tint", 4.5),
        ("bonus", "card bonus-tint", 4.5),
        ("target", "card target-tint", 4.5),
        ("alarm", "alarm-tint", 4.5),
        ("accent", "page", 4.5),
        ("on-accent", "accent deep", 4.5),
        *((role, "card raised", 4.5) for role in palette.ROLES if role.startswith("lane-")),
        ("accent", "card line edge", 3),  # the thumb of a slider, on the card and on its track
    ],
)
def test_contrast(role: str, grounds: str, least: float, mode: int) -> None:
    """WCAG AA asks 4.5:1 of text on its ground, and 3:1 of a control."""
    for ground in grounds.split():
        assert contrast(palette.ROLES[role][mode], palette.ROLES[ground][mode]) >= least, ground


def test_no_other_file_holds_a_colour_and_every_role_exists() -> None:
    assert {method.colour for method in METHODS} <= set(palette.ROLES)
    for theme in (0, 1):
        assert len({palette.ROLES[method.colour][theme] for method in METHODS}) == len(METHODS)
    assert len({method.mark for method in METHODS}) == len(METHODS)
    for path in (path for path in STATIC.rglob("*") if path.suffix in {".js", ".css"}):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"#(?:[0-9a-f]{6}|[0-9a-f]{3})\b", source, re.IGNORECASE), path.name
        for role in re.findall(r"var\(--sd-([a-z0-9-]+)\)", source):
            assert role in palette.ROLES, f"{path.name}: --sd-{role}"


def test_the_player_never_writes_markup() -> None:
    for path in (path for path in STATIC.rglob("*.js") if path.parent.name != "vendor"):
        source = path.read_text(encoding="utf-8")
        for way in ("innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in source, f"{path.name}: {way}"


@pytest.mark.parametrize("lesson", [*WORKSHOP, CLOSING], ids=lambda lesson: lesson.name)
def test_the_formula_of_a_lesson_is_typeset_with_words(lesson: Any) -> None:
    tree = ET.fromstring(formulas.formula(lesson.formula))
    assert tree.get("aria-label") == tree.get("alttext") == lesson.formula.words
    assert all(node.text for node in tree.iter() if node.tag in {"mi", "mn"}), "no letter is missing"
    assert "\\" not in "".join(tree.itertext()), "a command that the converter does not know"


def test_powers_and_absolute_values_are_typeset() -> None:
    assert formulas.letters("α^(γ+1) < α_j") == "α<sup>γ+1</sup> &lt; α<sub>j</sub>"
    markup = formulas.formula(formulas.Formula(latex=r"\sum |p - q|, q(x | y)", words=""))
    assert re.findall(r'(?:form="(\w+)")?>&#x0007C;', markup) == ["prefix", "postfix", ""]


# Symbols: one list for docs/theory.md, the settings, the numbers and the page.


def test_the_table_of_the_theory_is_the_list_of_symbols() -> None:
    """After a change of the list: put what ``symbols.table()`` returns into docs/theory.md."""
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert theory.count(symbols.table()) == 1


def test_settings_with_a_symbol_are_what_the_list_says() -> None:
    """Letter, unit and name. Top-k has a letter that is no symbol of the theory."""
    known = {one.code.strip("`"): one for one in symbols.SYMBOLS}
    for name, setting in SETTINGS.items():
        if setting.symbol and name != "top_k":
            one = known[f"DecodeConfig.{name}"]
            assert (setting.symbol, setting.unit) == (one.shown, one.unit), name
            assert setting.label.lower() in one.meaning


def test_the_code_has_what_the_symbols_name() -> None:
    modules = (base, events, metrics, randomness, settings)
    known = {name: one for module in modules for name, one in vars(module).items()}
    named = [name for one in symbols.SYMBOLS for name in re.findall(r"`([A-Z]\w+)\.(\w+)`", one.code)]
    assert len(named) > 15
    for owner, field in named:
        assert field in {*dir(known[owner]), *known[owner].__annotations__}, f"{owner}.{field}"


def test_the_page_explains_each_symbol_that_it_shows_in_plain_words() -> None:
    entries = symbols.glossary()
    assert {"γ", "T", "τ", "α", "α_j", "c", "v", "K", "B", "p", "q", "u", "S", "NFE", "N"} <= entries.keys()
    for symbol, one in entries.items():
        assert one["meaning"] and not re.search(r"[\\${}]", one["meaning"] + one["unit"]), symbol
    formula = r"given $s$ and $x_1 \dots x_{j-1}$, the drafter's"
    assert symbols.plain(formula) == "given s and x_1 … x_(j−1), the drafter’s"


def test_every_lesson_has_one_right_answer_and_points_at_something_that_is_there() -> None:
    assert [lesson.core for lesson in WORKSHOP] == [True] * 5 + [False] * 3, "the core path comes first"
    for lesson in WORKSHOP:
        assert [one.right for one in lesson.answers].count(True) == 1, lesson.name
        assert 0 <= lesson.right < len(lesson.guesses) and re.search(r"\d", evidence.truth(lesson.name)), lesson.name
        watch = lesson.watch
        assert bool(watch.explore) + bool(watch.trace) == 1, lesson.name
        if watch.explore:
            assert watch.explore in EXPLORATIONS
            path = ROOT / "assets" / EXPLORATIONS[watch.explore].tab / f"{watch.answer or watch.explore}.json"
            answers = [json.loads(one.read_text("utf-8")) for one in path.parent.glob(f"{path.stem}*.json")]
            figures = [figure for one in answers if "report" in one for figure in one["report"]["figures"]]
            assert {watch.panel} - {"widget", "board", ""} <= {figure["key"] for figure in figures}
            drawn = {
                line.get("name")
                for figure in figures
                if figure["key"] == watch.panel
                for line in figure.get("data", ())
            }
            boards = [board for one in answers if "report" in one for board in one["report"].get("boards", ())]
            drawn |= {row["label"] for board in boards for row in board["rows"]} if watch.panel == "board" else set()
            assert set(watch.lines) <= drawn, "a lesson draws what is there"
        else:
            assert (ROOT / "assets" / "traces" / watch.trace).is_file()
            opened = [*scenes.rounds(watch.trace).values()][scenes.opening(watch.trace) - 1]
            assert scenes.mixed(opened), "it shows both verdicts"
    assert WORKSHOP[0].watch.trace == evidence.ROUNDS


def test_the_right_guess_of_each_lesson_is_what_was_recorded() -> None:
    """Each key is the place of its guess among the three, and follows from the recorded numbers."""
    rounds = list(scenes.rounds(evidence.ROUNDS).values())
    lane = evidence.recording(evidence.ROUNDS).lanes["drafted"]
    added = [len(one.ids) for one in lane if isinstance(one, events.Committed)]
    *whole, last = [(one.verified.accepted, count) for one, count in zip(rounds, added, strict=True)]
    assert all(count == accepted + 1 for accepted, count in whole), "one token more than was accepted"
    assert last[1] in (last[0], last[0] + 1), "none after the end of the text"
    curve = dict(evidence.answer(evidence.COSTS).facts["curve"])
    by_gamma = {row["gamma"]: row for row in evidence.answer(evidence.MAP).rows if row["steps"] == 1 and row["speedup"]}
    assert by_gamma[1]["behind_low"] > 1, "the fastest is certainly faster than γ 1"
    grown, further = (by_gamma[more]["speedup"] / by_gamma[less]["speedup"] for more, less in ((4, 1), (8, 4)))
    kept = sum(min(evidence.P[token], evidence.Q[token]) for token in evidence.P)
    coins = evidence.answer(evidence.COINS).rows
    exact, wrong = ([one["distance"] for one in coins if one["rule"] == rule] for rule in ("ratio", "naive"))
    best = evidence.matched(evidence.DEGREE)
    served = evidence.served(evidence.SERVED, evidence.DRAFTED)
    found = {
        "round": ("2", "3", "4").index(str(2 + 1)),
        "one-pass": 2 if curve[17] < 2 * curve[1] else 1 if curve[17] < 8 * curve[1] else 0,
        "gamma": 1 if 0.85 < further < 1.1 < grown else 2,
        "accept": (0.3, 0.6, 0.7).index(round(kept, 9)),
        "lossless": 1 if exact[-1] < exact[0] / 9 and wrong[-1] > 0.8 * wrong[0] else 0,
        "temperature": (0, 1, 2)[round(min(2, best / evidence.DEGREE))],
        "guesses": 1 if min(evidence.leads(0.0, evidence.COMPARISONS[0])) > 1 else 2,
        "load": 2 if served < 1 else 1 if served < 0.9 * evidence.served(1, evidence.DRAFTED) else 0,
    }
    assert found == {lesson.name: lesson.right for lesson in WORKSHOP}


def test_the_right_answer_of_each_check_that_a_chart_decides_is_what_was_recorded() -> None:
    curve = dict(evidence.answer(evidence.COSTS).facts["curve"])
    assert curve[17] > curve[1], "one-pass: a round of 17 rows that gives one token is slower than vanilla"
    one, four = (evidence.row(evidence.MAP, gamma=8, steps=steps) for steps in (1, 4))
    assert four["tau"] > one["tau"] and four["speedup"] < one["speedup"], "gamma: better drafts, but slower"
    cold, warm = (evidence.row(evidence.TEMPERATURES, temperature=1.0, draft_temperature=own) for own in (0.0, 1.0))
    assert cold["alpha"] < warm["alpha"], "temperature: measured"
    assert evidence.overlap(1.0, 0.0) < evidence.overlap(1.0, 1.0), "and computed"
    best = [evidence.best_window(texts) for texts in evidence.CROWDS]
    assert best == sorted(set(best), reverse=True), "load: busier means a smaller γ"
    assert evidence.served(64, 1) < 1, "and none in the end"
    assert max(evidence.leads(1.0, evidence.COMPARISONS[1])) < 1, "guesses: a window overtakes a tree"


def test_the_formula_of_a_window_errs_as_the_theory_says() -> None:
    """It gives more than τ in every cell of the map, but τ itself over whole drafts; one α for all
    positions gives less than it in as many cells as the theory counts."""
    cells = evidence.answer("explore/window-map.block").rows
    wide = [cell for cell in cells if cell["gamma"] > 1]
    low = sum(cell["geometric_tau"] < cell["predicted_tau"] for cell in wide)
    assert all(cell["predicted_tau"] > cell["tau"] for cell in cells)
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").partition("Positions differ too.")[2]
    easiest = sum(cell["alpha_at"][0] == max(cell["alpha_at"]) for cell in wide)
    counted = re.findall(r"(\d+) of (?:the )?(\d+)", theory.partition("\n\n")[0])
    assert counted == [(str(count), str(len(wide))) for count in (easiest, low)]
    files = evidence.answer("explore/window-map.block").files
    played = [cell for cell in cells if cell["steps"] == 1 and cell["race"] in files]
    assert len(played) > 2
    for cell in played:
        path = ASSETS / "explore" / files[cell["race"]]
        lane = read_trace(path).lanes["drafted"]
        whole = [one.round for one in lane if isinstance(one, events.DraftReady) and len(one.ids) == cell["gamma"]]
        assert whole == [*range(len(whole))], "only the last drafts are shorter"
        own = fold(one for one in lane if getattr(one, "round", None) in whole)
        assert expected_tau(own.alpha_at) == pytest.approx(own.committed / len(whole)), path.name


def test_the_scenes_of_the_lessons_are_rounds_of_recordings() -> None:
    for lesson in WORKSHOP[:-1]:
        shown = scenes.scene(lesson.name)
        assert re.search(r"<figcaption>[^<]*\d", shown), lesson.name
        assert shown in workshop.section()
    for name in (scenes.SMALL, scenes.WINDOW, scenes.TREE, scenes.FOUR, scenes.SAMPLED):
        for own in (one for one in scenes.rounds(name).values() if one.draft):
            ways = [*own.tree()] if own.parents else [own.window()]
            marked = [became for way in ways for _, became in way]
            assert marked.count("accepted") == own.verified.accepted and marked.count("target") == 1
            assert len(marked) - marked.count("shared") == len(own.draft) + 1
    for better in (scenes.FOUR, scenes.TREE):
        one, other = scenes.beside(scenes.WINDOW, better)
        assert one.before == other.before and one.verified.accepted < other.verified.accepted
    assert scenes.first(scenes.FOUR, scenes.mixed).passes == 4


def test_the_areas_of_acceptance_add_up_to_p() -> None:
    rows = re.findall(r"<p><b>(\w+), p = ([\d.]+)</b>(.*?)</p>", scenes.scene("accept"))
    assert {token: float(p) for token, p, _ in rows} == evidence.P
    for token, p, bars in rows:
        shares = [float(share) for share in re.findall(r"--p: ([\d.]+)", bars)]
        assert sum(shares) == pytest.approx(float(p)) and shares[0] == min(evidence.P[token], evidence.Q[token])


def test_the_teachers_guide_has_every_lesson_and_the_key(tmp_path: Path) -> None:
    text = workshop.GUIDE.read_text(encoding="utf-8")
    titles = re.findall(r"^## \d+\. (.+)$", text, re.MULTILINE)
    assert titles == [lesson.title for lesson in WORKSHOP]
    minutes = {"core": 0, "all": 0}
    for part, lesson in zip(re.split(r"^## \d", text, flags=re.MULTILINE)[1:], WORKSHOP, strict=True):
        found = re.search(r"^\*(\d+) minutes(?:, core: (\d+))?\. Key: guess (.), check (.)\.\*$", part, re.MULTILINE)
        assert found and bool(found[2]) == lesson.core, lesson.name
        minutes["all"] += int(found[1])
        minutes["core"] += int(found[2] or 0)
        assert "abc".index(found[3]) == lesson.right and lesson.answers["abc".index(found[4])].right, lesson.name
        assert all(f"“{words}”" in part for words in lesson.guesses if words != lesson.guesses[lesson.right])
    for name, total in workshop.MINUTES.items():
        (found,) = re.findall(rf"^- \*\*{name.capitalize()}, {total} minutes:\*\* (.+)$", text, re.MULTILINE)
        join, lessons, close = map(int, re.findall(r"\d+", found))
        assert lessons == minutes[name] and join + lessons + close == total
        assert f"{name.capitalize()}: {5 if name == 'core' else 8} lessons, {total} minutes" in workshop.section()
    shown = re.sub("<[^>]+>", "", workshop.guide())
    for words in re.findall(r"[\w’]+", re.sub(r"[*`#]", "", text).partition("\n")[2]):
        assert words in shown
    assert workshop.guide() in workshop.section() and workshop.guide(tmp_path / "missing.md") == ""


# ---- recorded speed-ups ----


def test_recorded_speedups_are_one_statistic_and_were_measured(tmp_path: Path) -> None:
    """A mean over prompts with its interval, of the opening preset's races as of the rows of the comparison; without
    results there is none."""
    known = measured(ASSETS / "traces", ASSETS / "explore", ASSETS / "compare")
    opening = BenchSetting.of_config(OPENING)
    races = []
    for path in (ASSETS / "traces").glob("*.jsonl.gz"):
        lanes = read_trace(path).lanes
        header = next(event for event in lanes["drafted"] if isinstance(event, events.RunStarted))
        if DecodeConfig.parse(header.config) == OPENING:
            races += [fold(lanes["vanilla"]), fold(lanes["drafted"])]
    slow, fast = (sum(races[lane::2], metrics.Metrics()) for lane in (0, 1))
    cells = [cell for one in known if one["pair"] == OPENING.pair for cell in one["cells"].get(opening.group, ())]
    (mean, low, high, prompts), *_ = (cell[4:] for cell in cells if cell[:4] == [opening.gamma, opening.steps, 0, 1])
    assert prompts == len(races) / 2 and low < mean < high
    assert mean == pytest.approx(metrics.speed_up(slow, fast), abs=0.01)
    rows = [
        (pair, row)
        for pair, stem in zip(("smollm2", "embedded"), evidence.COMPARISONS, strict=True)
        for row in evidence.answer(stem).rows
        if row["flavour"] == "mean" and row["method"] != "vanilla"
    ]
    shipped = {
        (pair, row["temperature"], *(round(row[x], 3) for x in ("speedup", "low", "high"))) for pair, row in rows
    }
    compared = [one for one in known if "comparison" in one["about"]]
    found = {
        (one["pair"], one["temperature"], *cell[4:7])
        for one in compared
        for cells in one["cells"].values()
        for cell in cells
    }
    assert found == shipped
    (tmp_path / "compare.json").write_text("{", encoding="utf-8")
    (tmp_path / "cut.jsonl.gz").write_bytes(b"\x1f\x8b")
    assert measured(tmp_path, tmp_path, tmp_path) == []
