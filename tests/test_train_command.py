"""The whole way from text to a pair, by the command that people use, on a model of toy size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdiff_core import cli
from specdiff_core.models.dflash import from_folder
from specdiff_core.models.mdlm import load_mdlm


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split, count in (("train", 60), ("valid", 30)):
        lines = (f"{i} {' '.join(str(i + j) for j in range(40))}" for i in range(count))
        (folder / f"numbers.{split}.txt").write_text("\n<|endoftext|>\n".join(lines))
    return folder


def test_every_part_is_trained_in_its_order(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(part: str, *words: str, code: int = 0, named: bool = True) -> Path:
        out = tmp_path / part
        common = ["--corpus", corpus, "--cache", tmp_path / "cache", "--written", tmp_path / "written"]
        common += [
            "--tokenizer",
            tmp_path / "tokenizer",
            "--target",
            tmp_path / "target",
            "--run",
            tmp_path / f"r{part}",
        ]
        sizes = ["--width", "64", "--layers", "2", "--length", "32", "--batch-tokens", "64", "--steps", "8"]
        command = ["train", part, *common, *(["--out", out] if named else []), *sizes, "--parts", "1", "--no-compile"]
        assert cli.main([str(word) for word in (*command, *words)]) == code
        return out

    train("tokenizer", "--vocabulary", "300")
    target = train("target")
    train("written")
    for part in ("mdlm", "block"):
        train(part)
    runs = json.loads((target / "training.json").read_text())["runs"]
    assert [run["steps"] for run in runs] == [8] and runs[0]["tokens"] == 8 * 64
    assert str(tmp_path) not in (target / "README.md").read_text()

    # A longer training begins with the exported weights, and the card tells of both runs.
    before = from_folder(tmp_path / "block").fc.weight.clone()
    again = train("block", "--start", str(tmp_path / "block"), "--run", str(tmp_path / "r2"), "--steps", "1")
    after = from_folder(again).fc.weight
    assert 0 < float((after - before).norm()) < 0.2 * float(before.norm())
    assert [run["steps"] for run in json.loads((again / "training.json").read_text())["runs"]] == [8, 1]
    runs = json.loads((again / "training.json").read_text())["runs"]
    assert [[step for step, _ in run["curve"]] for run in runs] == [[8], [0, 1]], "it says how good it was at first"
    assert "τ, tokens per round" in (tmp_path / "r2" / "curve.svg").read_text(encoding="utf-8")
    assert "576 tokens of text seen" in (again / "README.md").read_text()
    train("mdlm", "--start", str(tmp_path / "mdlm"), "--run", str(tmp_path / "r3"), "--steps", "1")
    assert not list((tmp_path / "r3" / "subs").glob("checkpoint.pt")), "a trained drafter goes straight to drafting"
    assert load_mdlm(tmp_path / "mdlm").config.hidden_dim == 64

    # A Markov head is added to a trained drafter, and lies beside it unless --out says otherwise.
    monkeypatch.setattr("specdiff_core.train.parts.EMBEDDED", tmp_path / "shipped")
    start = ["--start", str(tmp_path / "block"), "--run", str(tmp_path / "r5"), "--rate", "0.5", "--steps", "2"]
    train("block", *start, "--markov", "16", named=False)
    chained = tmp_path / "shipped" / "block_markov"
    assert from_folder(chained).config.markov_width == 16 and from_folder(tmp_path / "block").markov is None
    assert "Markov head" in (chained / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    train("block", "--start", str(chained), "--markov", "8", code=2)
    assert "a Markov head of width 16" in capsys.readouterr().err

    train("target", "--start", str(target), "--run", str(tmp_path / "r4"), "--steps", "1")
    assert len(json.loads((target / "training.json").read_text())["runs"]) == 2


@pytest.mark.parametrize(("flag", "value"), [("--rate", "0"), ("--rate", "nan"), ("--markov", "-1")])
def test_numbers_that_mean_nothing_are_refused(
    corpus: Path, capsys: pytest.CaptureFixture[str], flag: str, value: str
) -> None:
    assert cli.main(["train", "block", "--corpus", str(corpus), flag, value]) == 2
    assert flag in capsys.readouterr().err
