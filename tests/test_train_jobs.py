"""The trainings as commands: their flags, the whole way from text to a pair, what is refused, and the cards."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from train_fakes import write_corpus

from specdiff_core import cli
from specdiff_core.models.dflash import from_folder
from specdiff_core.models.eagle import load_eagle
from specdiff_core.models.mdlm import load_mdlm
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.history import HISTORY, Training, read_history
from specdiff_core.schema.pairs import ASSETS, EMBEDDED
from specdiff_core.train import target_text
from specdiff_core.train.cards import OWN_CORPUS, Card, render_card, write_card
from specdiff_core.train.curve import last_scores, totals
from specdiff_core.train.settings import PARTS, BlockSettings, DrafterSettings, Settings, WrittenSettings, find_job
from specdiff_core.train.target_text import continue_prompts

CARDS = sorted((ASSETS / "embedded").glob("*/README.md"))


def parse(words: list[str]) -> argparse.Namespace:
    return cli.build_parser().parse_args(words)


# Flags.


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.name)
def test_commands_on_cards_still_parse(card: Path) -> None:
    """Those that made the weights, and those in the remarks behind them."""
    text = card.read_text(encoding="utf-8")
    commands = re.findall(r"`python -m specdiff_core (train [^`]*)`", text)
    assert commands
    for command in (*commands, *re.findall(r"train written(?: --[a-z]+(?: [\d.]+)+)+", text)):
        words = shlex.split(command, comments=True)
        args, given = parse(words), dict(itertools.pairwise(words))
        assert args.part == words[1]
        for flag, name in (("--steps", "steps"), ("--seed", "seed"), ("--share", "share"), ("--texts", "texts")):
            if flag in given:
                assert getattr(args, name) == float(given[flag])


@pytest.mark.parametrize("name", PARTS)
def test_flags_hand_over_the_settings(name: str) -> None:
    """Without flags the settings' own defaults; every part shows only flags that mean something to it."""
    settings = PARTS[name]
    assert (
        settings.part == name
        and settings.about.endswith(".")
        and get_type_hints(find_job(name))["settings"] is settings
    )
    args, fields = parse(["train", name]), {field.name: field.default for field in dataclasses.fields(settings)}
    options = settings.options()
    assert {key: getattr(args, key) for key in options} == {key: fields[key] for key in options}
    settings()
    drafter = issubclass(settings, DrafterSettings)
    assert ("share" in options) == drafter and ("target" in options) == (drafter or name == "written")
    assert ("steps" in options) == (name not in {"tokenizer", "written"})
    assert [key for key, option in options.items() if not option.about] == (["parts"] if name == "mdlm" else [])


def test_flags_of_one_part_mean_nothing_to_another(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["tokenizer", "--steps", "3"], ["eagle", "--markov", "3"], ["target", "--share", "0.5"]):
        with pytest.raises(SystemExit):
            parse(["train", *words])
        assert "unrecognized arguments" in capsys.readouterr().err
    args = parse(["train", "written", "--temperatures", "0", "0", "0.7"])
    assert args.temperatures == [0.0, 0.0, 0.7] and "--parts" not in help_of("mdlm", capsys)


def help_of(part: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        parse(["train", part, "--help"])
    return capsys.readouterr().out


def test_help_needs_nothing_heavy() -> None:
    """In an interpreter of its own, where nothing else has imported torch."""
    code = "import sys; from specdiff_core.cli import build_parser\ntry: build_parser().parse_args(sys.argv[1:])\n"
    code += (
        "finally: print({'torch', 'transformers', 'tokenizers', 'numpy', 'gradio', 'matplotlib'} & set(sys.modules))"
    )
    words = [sys.executable, "-c", code, "train", "block", "--help"]
    done = subprocess.run(words, cwd=ASSETS.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "--anchors" in done.stdout and done.stdout.endswith("\nset()\n"), done.stderr


def test_help_names_every_flag_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(help_of("block", capsys).split())
    for flag in ("--loss {ce,lk}", "--weights {exp,dpace}", "--anchors N", "--no-compile", "--run DIR"):
        assert flag in text
    assert "tokens per step [default 2560]" in text and "[default the embedded pair's]" in text
    assert str(ASSETS.parent) not in text


@pytest.mark.parametrize(
    ("flag", "value", "part"),
    [
        ("--rate", "0", "block"),
        ("--rate", "nan", "target"),
        ("--markov", "-1", "block"),
        ("--streak", "inf", "mdlm"),
        ("--average", "0.5", "mdlm"),
        ("--share", "1.5", "eagle"),
        ("--decay-from", "-0.1", "target"),
        ("--seed", "-1", "written"),
        ("--steps", "0", "autoregressive"),
        ("--vocabulary", "70000", "tokenizer"),
        ("--temperatures", "3", "written"),
        ("--width", "100", "target"),
        ("--threads", "0", "eagle"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    corpus: Path, capsys: pytest.CaptureFixture[str], flag: str, value: str, part: str
) -> None:
    assert cli.main(["train", part, "--corpus", str(corpus), flag, value]) == 2
    error = capsys.readouterr().err
    assert flag in error and error.count("\n") == 2, "one line and a hint"


def test_settings_refuse_what_flags_do() -> None:
    with pytest.raises(ConfigError, match=r"--temperatures must be from 0 to 2, not 2\.5\."):
        WrittenSettings(temperatures=(0.0, 2.5))
    with pytest.raises(ConfigError, match="--average needs --start"):
        BlockSettings(average=0.1)
    assert Settings.options().keys() == {"corpus"}


# The whole way.


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with every part of a pair, made by the commands that people use: small, a few steps each, and a target
    that never writes more than 12 tokens."""
    folder = tmp_path_factory.mktemp("pair")

    def briefly(model: Any, prompts: Any, temperatures: Any, new_tokens: int, *rest: Any, **options: Any) -> Any:
        return continue_prompts(model, prompts, temperatures, min(12, new_tokens), *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target_text, "continue_prompts", briefly)
        for name in PARTS:
            assert train(folder, corpus, name) == 0
        yield folder


def train(folder: Path, corpus: Path, name: str, *words: str, out: str = "", run: str = "") -> int:
    options = PARTS[name].options()
    common: dict[str, object] = {
        "corpus": corpus,
        "steps": 4,
        "batch_tokens": 64,
        "length": 32,
        "layers": 2,
        "width": 64,
    }
    common |= {key: folder / key for key in ("cache", "written", "tokenizer", "target")}
    common |= {"run_folder": folder / (run or f"run-{name}"), "vocabulary": 300, "parts": 1, "texts": 4, "share": 0.5}
    common |= {} if out == "default" else {"out": folder / (out or name)}
    flags = {
        options[key].flag or f"--{key.replace('_', '-')}": value for key, value in common.items() if key in options
    }
    given = [word for flag, value in flags.items() for word in (flag, str(value))]
    return cli.main(["train", name, *given, *(["--no-compile"] if "compile" in options else []), *words])


def steps_in(folder: Path) -> list[int]:
    return [run.steps for run in read_history(folder / HISTORY)]


def test_every_part_is_made(made: Path, corpus: Path) -> None:
    for name in ("target", "mdlm", "block", "autoregressive", "eagle"):
        card = (made / name / "README.md").read_text(encoding="utf-8")
        (run,) = read_history(made / name / HISTORY)
        assert run.steps == 4 and run.tokens == 4 * 64 and str(made) not in card
        assert run.command.startswith(f"python -m specdiff_core train {name} --corpus {corpus.name} ")
        assert ("| mean |" in card and "## Samples" in card) or name != "target"
    assert (made / "written" / "train" / "part-00000.npz").is_file(), (
        "and nothing more was written for the block drafter"
    )
    assert load_mdlm(made / "mdlm").config.hidden_dim == 64
    curve = (made / "run-block" / "curve.svg").read_text(encoding="utf-8")
    assert "τ, tokens per round" in curve


def test_a_trained_drafter_is_trained_on(made: Path, corpus: Path) -> None:
    """It begins with the exported weights; the card and the curve tell of both runs."""
    before = from_folder(made / "block").fc.weight.clone()
    start = ["--start", str(made / "block"), "--steps", "1"]
    assert train(made, corpus, "block", *start, out="block2", run="r2") == 0
    after = from_folder(made / "block2").fc.weight
    assert 0 < float((after - before).norm()) < 0.2 * float(before.norm())
    runs = read_history(made / "block2" / HISTORY)
    assert [[step for step, _ in run.curve] for run in runs] == [[4], [0, 1]], "it says how good it was at first"
    assert f"{5 * 64} tokens of text seen" in (made / "block2" / "README.md").read_text()

    assert train(made, corpus, "mdlm", "--start", str(made / "mdlm"), "--steps", "5", out="mdlm2", run="r3") == 0
    assert not (made / "r3" / "subs").exists(), "a trained drafter goes straight to drafting"
    assert steps_in(made / "mdlm2") == [4, 5]

    head = load_eagle(made / "eagle").layers[0].self_attn.o_proj.weight
    words = ["--start", str(made / "eagle"), "--steps", "1", "--seed", "7", "--rate", "0.01"]
    assert train(made, corpus, "eagle", *words, out="eagle2", run="r7") == 0
    moved = (load_eagle(made / "eagle2").layers[0].self_attn.o_proj.weight - head).norm()
    assert 0 < float(moved) < 0.01 * float(head.norm())


def test_a_result_may_replace_what_it_began_with(made: Path, corpus: Path) -> None:
    shutil.copytree(made / "target", made / "again")
    for _ in range(2):  # the second time there is nothing left to do but to export
        words = ["--start", str(made / "again"), "--steps", "1", "--resume"]
        assert train(made, corpus, "target", *words, out="again", run="r4") == 0
        assert steps_in(made / "again") == [4, 1]


def test_a_markov_head_is_added_beside_the_drafter(
    made: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless --out says otherwise, never in its place; and it never shrinks."""
    monkeypatch.setattr("specdiff_core.train.jobs.SHIPPED", made / "shipped")
    start = ["--start", str(made / "block"), "--rate", "0.5", "--steps", "1"]
    assert train(made, corpus, "block", *start, "--markov", "16", out="default", run="r5") == 0
    chained = made / "shipped" / "block_markov"
    assert from_folder(chained).config.markov_width == 16 and from_folder(made / "block").markov is None
    assert "Markov head" in (chained / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert train(made, corpus, "block", "--start", str(chained), "--markov", "8") == 2
    assert "a Markov head of width 16" in capsys.readouterr().err


def test_without_matplotlib_training_goes_on_and_says_so_once(
    made: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["--start", str(made / "autoregressive"), "--steps", "1"]  # scored before the step and after it
    assert train(made, corpus, "autoregressive", *words, out="ar2", run="r6") == 0
    assert capsys.readouterr().out.count("matplotlib is not installed") == 1
    assert not (made / "r6" / "curve.svg").exists() and steps_in(made / "ar2") == [4, 1]


@pytest.mark.parametrize(
    ("part", "file", "content", "named"),
    [
        ("target", "tokenizer/tokenizer.json", "", "There is no tokenizer in"),
        ("block", "tokenizer/tokenizer.json", '{"model": 3}', "The tokenizer in"),
        ("eagle", "target/config.json", "", "There is no target in"),
        ("written", "target/config.json", '{"model": 3}', "The target cannot be loaded"),
        ("mdlm", "target/model.safetensors", "", "model.safetensors"),
        ("eagle", "target/model.safetensors", "block/model.safetensors", "tensors of the target"),
        ("block", "start/config.json", '{"block_size": 1}', "dflash_config"),
    ],
)
def test_a_missing_or_damaged_part_is_one_line(
    made: Path,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    part: str,
    file: str,
    content: str,
    named: str,
) -> None:
    """``content``: what the file holds instead; nothing removes it, and a name stands for another file's content."""
    for name, copied in (("tokenizer", "tokenizer"), ("target", "target"), ("block", "start")):
        shutil.copytree(made / name, tmp_path / copied)
    (tmp_path / file).unlink()
    if content.startswith("{"):
        (tmp_path / file).write_text(content)
    elif content:
        shutil.copy(made / content, tmp_path / file)
    words = ["--start", str(tmp_path / "start")] if "start" in file else []
    assert train(tmp_path, corpus, part, *words) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error:", "hint:", "Traceback"))]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"] and named in lines[0]


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_corpus(tmp_path)
    (folder / "tales.train.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("tokenizer", "missing"):
        words = ["--corpus", str(folder if name == "tokenizer" else folder / name), "--out", str(tmp_path / "out")]
        assert cli.main(["train", "tokenizer", *words]) == 2
    error = capsys.readouterr().err
    assert "tales.train.txt is not UTF-8 text" in error and "No training text found" in error


# Cards.


def log(folder: Path, steps: int, scores: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    lines = [{"kind": "TrainStep", "step": s, "tokens": 10 * s, "seconds": 2.0 * s} for s in range(1, steps + 1)]
    lines.append({"kind": "Saved", "step": steps, "path": "checkpoint.pt"})
    lines.append({"kind": "EvalStep", "step": steps, "scores": scores, "seconds": 2.0 * steps})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_phases_are_added_up_and_the_last_scores_win(tmp_path: Path) -> None:
    log(tmp_path / "a", 3, {"tau8/math": 1.0})
    log(tmp_path / "b", 5, {"tau8/math": 2.5, "soft/math": 9.0})
    assert totals([tmp_path / "a", tmp_path / "b"]) == (8, 80, 16.0)
    assert last_scores([tmp_path / "a", tmp_path / "b"], "tau8/") == {"math": 2.5}


def test_steps_that_were_lost_do_not_count(tmp_path: Path) -> None:
    """The run was cut off after a step, in the middle of a line."""
    log(tmp_path / "run", 4, {})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "TrainStep", "step": 5, "tokens": 50, "seconds": 9.0}) + '\n{"kind": "Tra')
    assert totals([tmp_path / "run"]) == (4, 40, 8.0)


def test_a_card_names_sources_licences_and_numbers(tmp_path: Path) -> None:
    run = Training(
        steps=4,
        tokens=40,
        seconds=60.0,
        hardware="two threads",
        commit="abc",
        corpus=OWN_CORPUS,
        seed=0,
        command="python -m specdiff_core train target",
    )
    card = Card(
        name="Llama-Tales-Test",
        summary="A test.",
        shape="Small.",
        history=[run, dataclasses.replace(run, steps=5, tokens=50)],
        scores={"math": 1.25, "mean": 1.25},
        score_name="Held-out loss",
        samples={"math": "2 + 2⟶ 4"},
    )
    text = write_card(card, tmp_path).read_text(encoding="utf-8")
    assert read_history(tmp_path / HISTORY) == tuple(card.history)
    parts = ("90 tokens of text seen", "Built with Llama", "CC-BY-SA 4.0", "| math | 1.250 |", "4 steps, 40 tokens")
    for part in (*parts, "2 + 2⟶ 4"):
        assert part in text
    other = render_card(dataclasses.replace(card, history=[dataclasses.replace(run, corpus="123")]))
    assert "Llama" not in other and "CC-BY" not in other and "name its sources" in other


@pytest.mark.parametrize("role", ["target", "block", "mdlm"])
def test_every_shipped_model_has_its_card(role: str) -> None:
    folder = Path(EMBEDDED.target) if role == "target" else Path(EMBEDDED.drafter(role).source)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Built with Llama" in text and "python -m specdiff_core train" in text and "| mean |" in text
    assert str(ASSETS.parent) not in text
