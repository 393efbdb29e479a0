"""Words and pictures of the page: escaping, colours, method cards, figures."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_history import RUN as EARLIER

from app.content import alignment, evidence, method_cards, scenes, workshop
from app.content.examples import OPENING
from app.content.html import element, escape, json_for_script
from app.content.lessons import learn
from app.content.predictions import typical
from app.content.workshop import WORKSHOP
from app.first_load import STATIC
from specdiff_core.drafters import base
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.window_map import expected_tau
from specdiff_core.maths import randomness
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema import events, metrics, palette, settings, symbols
from specdiff_core.schema.history import HISTORY
from specdiff_core.schema.methods import METHODS, Formula, Method
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import ASSETS, EMBEDDED, DrafterSpec
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


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_card_of_a_method_shows_its_whole_record(method: Method) -> None:
    """Label, description, exactness, papers, and each formula as MathML with words."""
    shown = method_cards.card(method, "embedded")
    for words in (method.label, method.about, method.exact, method.letters):
        assert escape(words) in shown
    assert all(f"arxiv.org/abs/{paper.arxiv}" in shown for paper in method.papers if paper.arxiv)
    formulas = re.findall(r"<math.*?</math>", shown)
    assert len(formulas) == len(method.formulas)
    for markup, formula in zip(formulas, method.formulas, strict=True):
        tree = ET.fromstring(markup)
        assert tree.get("aria-label") == tree.get("alttext") == formula.words
        assert all(node.text for node in tree.iter() if node.tag in {"mi", "mn"}), "no letter is missing"
        assert "\\" not in "".join(tree.itertext()), "a command that the converter does not know"


def test_powers_and_absolute_values_are_typeset() -> None:
    assert method_cards.letters("α^(γ+1) < α_j") == "α<sup>γ+1</sup> &lt; α<sub>j</sub>"
    markup = method_cards.formula(Formula(latex=r"\sum |p - q|, q(x | y)", words=""))
    assert re.findall(r'(?:form="(\w+)")?>&#x0007C;', markup) == ["prefix", "postfix", ""]


def test_the_learn_tab_shows_the_methods_of_the_pair_and_no_others() -> None:
    page = learn()
    assert re.findall(r'id="method-(\w+)"', page) == [method.name for method in METHODS]
    assert page.count('rel="noreferrer"') == page.count("https://")
    fewer = method_cards.section("gpt2-mdlm")
    assert re.findall(r'id="method-(\w+)"', fewer) == ["vanilla", "autoregressive", "prompt_lookup", "specdiff"]


HARDWARE = "1 threads of Intel(R) Example"
RUN = dataclasses.replace(EARLIER, steps=1000, tokens=2_000_000, seconds=600.0, hardware=HARDWARE)
MORE = dataclasses.replace(RUN, steps=5, tokens=500_000, seconds=9000.0, hardware="a GPU")


@pytest.mark.parametrize(
    ("history", "cost"),
    [
        ([RUN], "1,000 steps, 2.0 M tokens, 10 minutes in one run on 1 thread of Intel Example."),
        ([RUN, MORE], "1,005 steps, 2.5 M tokens, 2.7 hours in 2 runs on 1 thread of Intel Example and a GPU."),
        ([{"steps": "many"}], "Unknown: the training.json beside the weights cannot be read."),
        (None, "Unknown: there is no training.json beside the weights."),
    ],
)
def test_the_cost_is_what_the_file_says(history: Any, cost: str, tmp_path: Path) -> None:
    if history is not None:
        (tmp_path / HISTORY).write_text(json.dumps({"runs": history}, default=dataclasses.asdict), "utf-8")
    spec = DrafterSpec(name="mdlm", label="", module="masked_diffusion", source=str(tmp_path))
    assert method_cards.cost(spec) == cost
    for name in ("none", "prompt_lookup"):
        assert method_cards.cost(EMBEDDED.drafter(name)).startswith("None"), "it has no weights"


def test_figures_of_alignment_show_what_was_recorded() -> None:
    """Every point of a line is a recorded number, and the words hold the first and the last."""
    page = alignment.figures()
    twins, drafts = [json.loads(html.unescape(found)) for found in re.findall(r'data-figure="([^"]*)"', page)]
    plain, twin = evidence.twins(0.0)
    assert [line["y"] for line in twins["data"]] == [plain["alpha_at"], twin["alpha_at"]]
    assert all(f"{alpha:.2f}" in page for alpha in (*plain["alpha_at"], *twin["alpha_at"]))
    line, greedy = drafts["data"]
    temperature, points = evidence.selection()
    ks, taus, speeds = zip(*points, strict=True)
    assert (line["x"], line["y"]) == ([str(k) for k in ks], [*speeds])
    assert ks[0] == 1 and taus[-1] > taus[0] and speeds[-1] < speeds[0], "more tokens, but slower: as the words say"
    tau, speed = evidence.GREEDY
    assert {*greedy["y"]} == {speed} and speed > max(speeds), "one greedy window is faster, as the words say"
    for number in (f"{temperature:g}", f"{taus[0]:.2f}", f"{taus[-1]:.2f}", f"{tau:.2f}", str(evidence.SWEPT)):
        assert number in page.rpartition("<figcaption>")[2]


def test_the_greedy_window_beside_the_drafts_is_the_benchmark_s() -> None:
    """The row of the same drafter and γ in the report, of as many prompts, at temperature 0."""
    chosen = next(one for one in evidence.answer("compare/selection").entries if one.drafter != "none")
    name = f"{chosen.drafter} γ {chosen.gamma}, T {chosen.steps}"
    rows = re.findall(rf"^\| {name} +\|(.+)\|$", (ROOT / "BENCHMARKS.md").read_text("utf-8"), re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    same = {(float(row[6]), float(row[0][:-1])) for row in cells if row[-1] == f"{evidence.SWEPT}/{evidence.SWEPT}"}
    assert evidence.GREEDY in same


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
    assert len(WORKSHOP) == 8
    assert sum(lesson.core for lesson in WORKSHOP) == 5
    for lesson in WORKSHOP:
        assert [one.right for one in lesson.answers].count(True) == 1, lesson.name
        assert 0 <= lesson.right < len(lesson.guesses) and re.search(r"\d", evidence.truth(lesson.name)), lesson.name
        watch = lesson.watch
        assert bool(watch.explore) + bool(watch.trace) + (watch.area in workshop.FIGURES) == 1, lesson.name
        if watch.explore:
            assert watch.explore in EXPLORATIONS and (not lesson.proof or lesson.proof in EXPLORATIONS)
            folder = ROOT / "assets" / EXPLORATIONS[watch.explore].tab
            answers = [json.loads(path.read_text("utf-8")) for path in folder.glob(f"{watch.explore}*.json")]
            figures = [figure for one in answers if "report" in one for figure in one["report"]["figures"]]
            assert {watch.panel} - {"widget", "board", ""} <= {figure["key"] for figure in figures}
            drawn = {line.get("name") for figure in figures if figure["key"] == watch.panel for line in figure["data"]}
            boards = [board for one in answers if "report" in one for board in one["report"].get("boards", ())]
            drawn |= {row["label"] for board in boards for row in board["rows"]} if watch.panel == "board" else set()
            assert set(watch.lines) <= drawn, "a lesson draws what is there"
        elif watch.trace:
            assert (ROOT / "assets" / "traces" / watch.trace).is_file()
            rounds = [*scenes.rounds(watch.trace.removeprefix("dialogue-").removesuffix(".jsonl.gz"))]
            assert rounds[watch.round - 1] == scenes.PEOPLE, "the round of its scene"
        else:
            assert f'id="{watch.area[1:]}"' in learn()
        assert not lesson.recorded or (ROOT / "assets" / "traces" / lesson.recorded).is_file()


def test_the_right_guess_of_each_lesson_is_what_was_recorded() -> None:
    curve = dict(evidence.answer("explore/what-it-takes").facts["curve"])
    slow = [[evidence.row(stem, gamma=8, steps=steps) for steps in (1, 4)] for stem in evidence.MAPS]
    wide = [evidence.row("explore/window-map.block", gamma=gamma, steps=1)["speedup"] for gamma in (4, 16)]
    warm = [evidence.row("explore/temperature", temperature=own, draft_temperature=own)["alpha"] for own in (0.0, 1.0)]
    alphas = evidence.compared("specdiff", 0.0)["alpha_at"]
    gains = [evidence.gain(alphas, position) for position in range(len(alphas))]
    leads = {
        stem: [
            evidence.compared("ddtree", own, stem)["tau"] / evidence.compared("dflash", own, stem)["tau"]
            for own in (0.0, 1.0)
        ]
        for stem in evidence.COMPARISONS
    }
    seen = [one for one in evidence.answer("explore/losslessness.coins").rows if one["rule"] == "naive"]
    runs = next(one["runs"] for one in seen if one["distance"] > one["floor_high"])
    found = {  # the place of the guess among the three
        "one-pass": 2 if curve[17] < 2 * curve[1] else 0,
        "gamma": 1 if abs(wide[1] / wide[0] - 1) < 0.1 else 0,
        "accept": 2 if abs(sum(min(evidence.P[token], evidence.Q[token]) for token in evidence.P) - 0.7) < 1e-9 else 0,
        "denoise": 1 if all(few["tau"] < many["tau"] and few["speedup"] > many["speedup"] for few, many in slow) else 0,
        "temperature": 2 if warm[1] < warm[0] else 0,
        "alignment": 0 if max(gains) == gains[0] else 2,
        "trees": 2 if all(cold > max(1, warm) for cold, warm in leads.values()) else 0,
        "lossless": 1 if runs == 100 else 2,
    }
    assert min(warm for _, warm in leads.values()) < 1, "the window overtakes"
    floor = next(one["floor_high"] for one in seen if one["runs"] == 100)
    assert floor * 10**0.5 > seen[-1]["distance"], "after 10 runs, noise hides the bias"
    assert found == {lesson.name: lesson.right for lesson in WORKSHOP}


def test_the_formula_of_a_window_errs_as_its_lesson_says() -> None:
    """It gives more than τ in every cell of the map, but τ itself over whole drafts; one α for all
    positions gives less than it in as many cells as the lesson counts."""
    cells = evidence.answer("explore/window-map.block").rows
    wide = [cell for cell in cells if cell["gamma"] > 1]
    low = sum(cell["geometric_tau"] < cell["predicted_tau"] for cell in wide)
    assert all(cell["predicted_tau"] > cell["tau"] for cell in cells)
    (why,) = [one.why for one in next(one for one in WORKSHOP if one.name == "gamma").answers if one.right]
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").partition("Positions differ too.")[2]
    for text in (why, theory.partition("\n\n")[0]):
        assert re.findall(r"(\d+) of (\d+)", text) == [(str(low), str(len(wide)))]
    for cell in (cell for cell in cells if cell["steps"] == 1):
        path = ASSETS / "explore" / "races" / "window-map.block" / f"{cell['race'].replace('/', '-')}.jsonl.gz"
        lane = read_trace(path).lanes["drafted"]
        whole = [one.round for one in lane if isinstance(one, events.DraftReady) and len(one.ids) == cell["gamma"]]
        assert whole == [*range(len(whole))], "only the last drafts are shorter"
        own = fold(one for one in lane if getattr(one, "round", None) in whole)
        assert expected_tau(own.alpha_at) == pytest.approx(own.committed / len(whole)), path.name


def test_every_lesson_shows_the_same_sentence_as_it_was_recorded() -> None:
    for lesson in WORKSHOP:
        shown = scenes.scene(lesson.name)
        assert re.search(r"<figcaption>[^<]*\d", shown), lesson.name
        assert shown in learn()
    for name in (scenes.WINDOW, scenes.TREE, scenes.FOUR, scenes.SAMPLED):
        for own in (one for one in scenes.rounds(name).values() if one.draft):
            ways = [*own.tree()] if own.parents else [own.window()]
            marked = [became for way in ways for _, became in way]
            assert marked.count("accepted") == own.verified.accepted and marked.count("target") == 1
            assert len(marked) - marked.count("shared") == len(own.draft) + 1
    beside = {scenes.PEOPLE: scenes.FOUR, scenes.OKAY: scenes.TREE, scenes.LIKE_TO: scenes.DRAFTS}
    for index, name in beside.items():
        assert scenes.rounds(name)[index].before == scenes.rounds(scenes.WINDOW)[index].before
    assert scenes.rounds(scenes.FOUR)[scenes.PEOPLE].passes == 4
    assert 0 < scenes.rounds(scenes.WINDOW)[scenes.PEOPLE].verified.accepted < 8, "a round in which not all pass"


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
    minutes = []
    for part, lesson in zip(re.split(r"^## ", text, flags=re.MULTILINE)[1:], WORKSHOP, strict=True):
        found = re.search(r"^\*(Core, )?(\d+) minutes\. Key: guess (.), check (.)\.\*$", part, re.MULTILINE)
        assert found and bool(found[1]) == lesson.core, lesson.name
        minutes.append(int(found[2]))
        assert "abc".index(found[3]) == lesson.right and lesson.answers["abc".index(found[4])].right, lesson.name
        assert all(f"“{words}”" in part for words in lesson.guesses if words != lesson.guesses[lesson.right])
    assert f"in {sum(minutes)} minutes" in learn()
    shown = re.sub("<[^>]+>", "", workshop.guide())
    for words in re.findall(r"[\w’]+", re.sub(r"[*`#]", "", text).partition("\n")[2]):
        assert words in shown
    assert workshop.guide() in learn() and workshop.guide(tmp_path / "missing.md") == ""


# ---- what is typical ----


def test_what_is_typical_is_one_statistic_and_was_measured(tmp_path: Path) -> None:
    """A mean over prompts with its interval, of the opening preset's races as of the rows of the comparison; without
    results there is none."""
    known = typical(ASSETS / "traces", ASSETS / "explore", ASSETS / "compare")
    opening = BenchSetting.of_config(OPENING)
    races = []
    for path in (ASSETS / "traces").glob("*.jsonl.gz"):
        lanes = read_trace(path).lanes
        header = next(event for event in lanes["drafted"] if isinstance(event, events.RunStarted))
        if DecodeConfig.parse(header.config) == OPENING:
            races += [fold(lanes["vanilla"]), fold(lanes["drafted"])]
    slow, fast = (sum(races[lane::2], metrics.Metrics()) for lane in (0, 1))
    cells = [cell for one in known if one["pair"] == OPENING.pair for cell in one["cells"].get(opening.group, ())]
    (mean, low, high, prompts), *_ = (cell[4:] for cell in cells if cell[:4] == [opening.gamma, 1, 0, 1])
    assert prompts == len(races) / 2 and low < mean < high
    assert mean == pytest.approx(metrics.speed_up(slow, fast), abs=0.01)
    rows = [
        (pair, row)
        for pair, stem in zip(("smollm2", "embedded"), evidence.COMPARISONS, strict=True)
        for row in evidence.answer(stem).rows
        if row["flavour"] == "mean" and row["method"] != "vanilla"
    ]
    measured = {
        (pair, row["temperature"], *(round(row[x], 3) for x in ("speedup", "low", "high"))) for pair, row in rows
    }
    compared = [one for one in known if "comparison" in one["about"]]
    found = {
        (one["pair"], one["temperature"], *cell[4:7])
        for one in compared
        for cells in one["cells"].values()
        for cell in cells
    }
    assert found == measured
    (tmp_path / "compare.json").write_text("{", encoding="utf-8")
    (tmp_path / "cut.jsonl.gz").write_bytes(b"\x1f\x8b")
    assert typical(tmp_path, tmp_path, tmp_path) == []
