"""The documents: every link leads somewhere, every command is one; the examples of the front door and the README run,
and so do the notebook of the workshop and the drafter of the guide."""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import SMALL, save_counter, save_tokenizer
from plotly.graph_objects import Figure

import specdiff_core
from app.content.workshop import WORKSHOP
from benchmarks import __main__ as benchmarks
from specdiff_core.cli import build_parser
from specdiff_core.schema.pairs import PAIRS

pytestmark = pytest.mark.early
ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "BENCHMARKS.md",
    ROOT / "app/content/api.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)


def python(*arguments: str, path: Path, home: Path) -> str:
    """What an interpreter of its own prints."""
    paths = os.pathsep.join(map(str, (path, ROOT)))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_of_the_front_door_and_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The README's six lines end by printing speed-ups."""
    done = doctest.testmod(specdiff_core)
    assert done.attempted > 4 and not done.failed
    (example,) = blocks("README.md", "python")
    assert len([line for line in example.splitlines() if line]) <= 6
    exec(compile(example, "README.md", "exec"), {})
    assert re.search(r"^vanilla 1\.0 True$.*^dflash \d+\.\d+ True$", capsys.readouterr().out, re.MULTILINE | re.DOTALL)


def test_the_ten_lines_for_a_researcher_run(tmp_path: Path) -> None:
    """On a small pair, with less training."""
    save_counter(tmp_path / "target", save_tokenizer(tmp_path / "target"))
    (tmp_path / "prompts.jsonl").write_text("\n".join(json.dumps({"prompt": f"word {n}"}) for n in range(24)))
    small = f"{' '.join(SMALL)} --hours 0.0008 --minutes 0.03 --answering 0.3"
    script = "".join(blocks("docs/research.md", "python")).replace("--hours 8", small)
    training = re.search(r"^main\(.*$", script, re.MULTILINE)
    assert training is not None and len(script.splitlines()) < 50
    first = f"from specdiff_core.cli import main\nimport shutil\n{training[0]}\nshutil.copytree('mine', 'drafter')\n"
    (tmp_path / "lines.py").write_text(first + script.replace(training[0], ""))
    printed = python("lines.py", path=ROOT, home=tmp_path)
    for part in ("same_text_as_vanilla", "conditional", "speedup", "To confirm|declared|too few"):
        assert re.search(part, printed), printed
    assert (tmp_path / "mine" / "config.json").is_file() and (tmp_path / "for-vllm" / "config.json").is_file()


def notebook(kind: str) -> list[str]:
    """The cells of the workshop's notebook of one kind."""
    cells = json.loads((ROOT / "notebooks" / "workshop.ipynb").read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), "strip its outputs"
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def test_the_notebook_asks_and_answers_in_the_words_of_the_page() -> None:
    lessons = re.split(r"^## \d+\. ", "\n\n".join(notebook("markdown")), flags=re.MULTILINE)[1:]
    for lesson, cells in zip(WORKSHOP, lessons, strict=True):
        right = next(one for one in lesson.answers if one.right)
        assert cells.startswith(f"{lesson.title}\n\n**Predict.** {lesson.predict}\n\n**Run.** "), lesson.name
        assert f"**Check.** {lesson.check}\n" in cells, lesson.name
        assert f"</summary>\n\n{right.words}. {right.why}\n" in cells, lesson.name


@pytest.mark.slow
@pytest.mark.usefixtures("few_passes")
def test_the_notebook_of_the_workshop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell decodes, here with one prompt and few runs, and ends in a chart, as it would in Jupyter."""
    monkeypatch.chdir(ROOT / "notebooks")
    explore = specdiff_core.explore
    few = {"losslessness": {"runs": 200}, "what-it-takes": {"tokens": 8, "flavours": ["stories"]}}
    monkeypatch.setattr(specdiff_core, "explore", lambda name, **values: explore(name, **{**values, **few[name]}))
    names, charts = {"__name__": "__main__"}, []
    for number, cell in enumerate(notebook("code")):
        *body, last = ast.parse(cell).body
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            charts.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
        else:
            exec(compile(ast.Module([last], []), f"cell {number}", "exec"), names)
        names["PROMPTS"] = names.get("PROMPTS", ())[:1]
    charts = [chart for chart in charts if isinstance(chart, Figure)]
    assert len(charts) == len(WORKSHOP)
    assert all(len(line.y) for chart in charts for line in chart.data)


def test_a_question_is_one_file(tmp_path: Path) -> None:
    """Beside the others, and named nowhere else."""
    (tmp_path / "sky.py").write_text(
        "from specdiff_core.explorations.base import Exploration\n\n\n"
        "class Sky(Exploration, frozen=True, kw_only=True):\n"
        "    name, title, question = 'sky', 'Sky', 'Why is the sky blue?'\n"
    )
    script = f"""
import importlib.util, sys

spec = importlib.util.find_spec("specdiff_core.explorations")
package = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
package.__path__.append({str(tmp_path)!r})
spec.loader.exec_module(package)

from app.run.exploration import forms
from specdiff_core.cli import main

assert forms("explore")["sky"]["question"] == "Why is the sky blue?"
main(["explore", "--help"])
"""
    assert "Why is the sky blue?" in python("-c", script, path=ROOT, home=tmp_path)


def test_an_installed_drafter_is_there_from_python(tmp_path: Path) -> None:
    """Whatever is imported first: its module imports the contract, which imports the pairs."""
    (tmp_path / "plugin.py").write_text(
        "from specdiff_core.drafters.base import DraftSession\nfrom specdiff_core.schema.pairs import DrafterSpec\n\n"
        "SPEC = DrafterSpec(name='installed', label='', module='plugin:build')\n"
    )
    facts = tmp_path / "plugin-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[specdiff.drafters]\ninstalled = plugin:SPEC\n")
    load = "import specdiff_core as lab; print(lab.load(drafters=['none']).pair.spec.drafter('installed').module)"
    assert python("-c", load, path=tmp_path, home=tmp_path) == "plugin:build\n"


@pytest.mark.slow
def test_the_drafter_of_the_guide_works_from_an_installed_package(tmp_path: Path) -> None:
    """The guide's two blocks are the whole package: it is decoded, raced, traced, replayed, benched and offered."""
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (source,), (project,) = blocks("docs/extending.md", "python"), blocks("docs/extending.md", "toml")
    (package / "specdiff_bigram.py").write_text(source, "utf-8")
    (package / "pyproject.toml").write_text(project, "utf-8")
    install = ["pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--quiet"]
    python("-m", *install, "--target", str(site), str(package), path=ROOT, home=tmp_path)
    race, replay, bench = (shlex.split(line)[3:] for line in blocks("docs/extending.md", "sh")[0].splitlines())
    race += ["--temperature", "0.6", "--max-new-tokens", "32", "--json"]
    commands = [
        [*race, "--rule", "match"],
        race,
        [*replay, "--json"],
        [*bench, "--repeats", "1", "--max-new-tokens", "8"],
    ]
    script = f"""
from specdiff_core.cli import main

assert not any(main(command) for command in {commands})

import app.controls, app.tabs.live

assert "bigram" in app.controls.described("embedded")["drafters"]
assert app.tabs.live.plan({{"drafter": "bigram", "gamma": 4, "steps": 1}})["drafted"].drafter == "bigram"
"""
    printed = python("-c", script, path=site, home=tmp_path)
    matched, raced, replayed = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    assert matched["lanes"]["drafted"]["same_text_as_vanilla"]
    assert 0 < raced["lanes"]["drafted"]["alpha"] < 1, "p/q must have accepted some tokens, and rejected some"
    assert replayed["lanes"]["drafted"]["token_ids"] == raced["lanes"]["drafted"]["token_ids"]
    assert (tmp_path / "bigram.rows.jsonl").read_text("utf-8").count("bigram") >= 4, "a row for each flavour"


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)


def anchors(document: Path) -> set[str]:
    """What a link can name after ``#``, as GitHub makes it of headings."""
    titles = re.findall(r"^#+ +(.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@documents
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@documents
def test_every_file_and_symbol_that_it_names_exists(document: Path) -> None:
    """Written as `file` or `file: symbol`, below the repository or a folder of the map."""
    folders = [ROOT / folder for folder in ("", "specdiff_core", "app", "app/static")]
    named = re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|js|css|diff|json|md))(?:: ([\w.]+))?`", prose(document))
    for name, symbol in named:
        files = [folder / name for folder in folders if (folder / name).is_file()]
        assert files or "NAME" in name, name
        for part in filter(None, symbol.split(".")):
            defined = rf"^ *(export |async )*(def |class |function |const )?{part}\b(?: extends \w+)? *[(:={{]"
            assert re.search(defined, files[0].read_text("utf-8"), re.MULTILINE), f"{name}: {symbol}"


@documents
def test_every_command_is_one(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a block it is whole; within a line it may lack what it needs, but its help has its flags."""
    parsers = {"specdiff_core": build_parser(), "benchmarks": benchmarks.build_parser()}
    block = "\n".join(re.findall(r"```sh\n(.*?)```", document.read_text("utf-8"), re.DOTALL)).replace("\\\n", " ")
    for words in (shlex.split(line, comments=True) for line in block.splitlines()):
        module = next((word for word in words if word in parsers), "")
        if module and "--help" not in words:
            parsers[module].parse_args(words[words.index(module) + 1 :])
    for module, rest in re.findall(rf"`python -m ({'|'.join(parsers)})\b(?!\.)([^`]*)`", prose(document)):
        names = [word for word in rest.partition(" --")[0].split() if word.islower()]
        with pytest.raises(SystemExit) as ended:
            parsers[module].parse_args([*names, "--help"])
        assert ended.value.code == 0, rest
        assert set(re.findall(r"--[\w-]+", rest)) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out)), rest


def test_the_theory_weighs_smollm2_as_its_file_does() -> None:
    """Megabytes of its weights in the file, in fp32 and in bf16."""
    published = PAIRS["smollm2"].published
    assert published and published.file
    held, wide, half = (size / 1e6 for size in (published.file.size, *(published.parameters * one for one in (4, 2))))
    text = (
        (ROOT / "docs" / "theory.md").read_text("utf-8").partition("**Where drafting pays.**")[2].partition("\n\n")[0]
    )
    said = [float(number) for number in re.findall(r"(\d+)\sMB", text)]
    assert said == [round(one) for one in (held, wide, half)]
