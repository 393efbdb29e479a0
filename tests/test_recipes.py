"""The recipe of a pair: every part of it, what the target learns from, and what is refused."""

from __future__ import annotations

import lzma
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pair
import pytest
import torch
from checkpoints import same_text
from corpus import Corpus, draw_rows, encode
from target import TargetSettings, held_out_loss, new_llama
from transformers import PreTrainedTokenizerFast

from specdiff_core.checkpoints.own_pairs import parse, register_pair
from specdiff_core.cli import call
from specdiff_core.engine import Engine
from specdiff_core.schema.errors import CorpusError
from specdiff_core.schema.history import HISTORY, read_history
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.train import drafter as drafter_module

CARDS = sorted((ASSETS / "embedded").glob("*/README.md"))
END = 0
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "a", "red", "house"]


def write_corpus(folder: Path) -> Path:
    """120 training and 60 validation documents of 60 random words."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", 120), ("valid", 60)):
        documents = [" ".join(rng.choice(WORDS, 60)) for _ in range(count)]
        (folder / f"tales.{split}.txt").write_text("\n<|endoftext|>\n".join(documents))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with every part of a small pair, made in moments."""
    folder = tmp_path_factory.mktemp("home")
    write_corpus(folder / "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafter_module, "HELD_OUT", 2)
        patch.setattr(drafter_module, "MEASURED", 12)
        assert make(folder) == 0
        yield folder


def make(home: Path, *words: str) -> int:
    small: dict[str, Any] = {
        "corpus": home / "corpus",
        "out": home / "pair",
        "vocabulary": 300,
        "depth": 2,
        "width": 64,
    }
    small |= {"steps": 4, "batch_tokens": 64, "length": 32, "prompts": 20, "hours": 2e-4, "threads": 1}
    flags = [word for key, value in small.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    light = ["--new-tokens", "16", "--longest", "200", "--rows", "2", "--anchors", "4", "--block", "4", "--slots", "8"]
    return call(pair.make_parser(), [*flags, *words, "--", *light], "recipes/pair.py")


@pytest.mark.parametrize("name", pair.DRAFTERS)
def test_every_drafter_decodes(home: Path, name: str) -> None:
    """With vanilla's text. Prompts begin as documents do."""
    folders = {"target": str(home / "pair" / "target"), "drafter": str(home / "pair" / name)}
    spec = register_pair(parse(folders).name)
    engine = Engine.load(spec.name, device="cpu")
    assert engine.encode("the cat")[0] == END
    same_text(engine, spec.drafters[0].name)
    card = (home / "pair" / name / "README.md").read_text("utf-8")
    assert re.search(r"\| mean \| \d+\.\d+ \| \d+\.\d+ to \d+\.\d+ \|", card) and str(home) not in card
    assert len(read_history(home / "pair" / name / HISTORY)) == (2 if name == "masked_streak" else 1)


def test_the_same_command_goes_on(home: Path) -> None:
    before = (home / "pair" / "target" / "model.safetensors").read_bytes()
    assert make(home, "--steps", "6", "--hours", "3e-4") == 0
    (run,) = read_history(home / "pair" / "target" / HISTORY)
    assert run.steps == 6 and run.tokens == 6 * 64 and run.command.count("python recipes/pair.py") == 2
    assert (home / "pair" / "target" / "model.safetensors").read_bytes() != before
    card = (home / "pair" / "target" / "README.md").read_text("utf-8")
    assert "# Own-target" in card and "⟶" in card and "Built with Llama" not in card


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "0"], "--steps cannot be '0'"),
        (["--vocabulary", "70000"], "--vocabulary cannot be '70000'"),
        (["--width", "100"], "--width 100 does not split into heads"),
        (["--corpus", "nowhere"], "No training text found"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert make(home, "--out", str(tmp_path), *words) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error:", "hint:", "Traceback"))]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"] and said in lines[0]


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.name)
def test_shipped_cards_name_each_command_and_its_commit(card: Path) -> None:
    """An earlier recipe made the shipped weights: its commands are those of these commits."""
    found = re.findall(r"commit `([0-9a-f]{12}[^`]*)`:\n  `(python [^`]*)`", card.read_text("utf-8"))
    assert found and [(run.commit, run.command) for run in read_history(card.parent / HISTORY)] == found


# Text.


def test_documents_are_read_plain_and_compressed(tmp_path: Path) -> None:
    (tmp_path / "my.tales.train.txt").write_text("one\n<|endoftext|>\n\n<|endoftext|>\n two \n")
    (tmp_path / "my.tales.valid.txt.xz").write_bytes(lzma.compress("drei γ".encode()))
    (tmp_path / "notes.md").write_text("not a text of the corpus")
    corpus = Corpus.open(tmp_path)
    assert corpus.flavours == ("my.tales",)
    assert list(corpus.documents("my.tales", "train")) == ["one", "two"]
    assert list(corpus.documents("my.tales", "valid")) == ["drei γ"]
    before = corpus.fingerprint()
    (tmp_path / "my.tales.train.txt").write_text("longer than before, so that its size is another one")
    assert corpus.fingerprint() != before


@pytest.mark.parametrize("spoilt", ["no validation text", "separators"])
def test_a_folder_without_text_is_named(tmp_path: Path, spoilt: str) -> None:
    folder = write_corpus(tmp_path)
    if spoilt == "separators":
        (folder / "tales.train.txt").write_bytes(b" \n<|endoftext|>\n\n")
    else:
        (folder / "tales.valid.txt").unlink()
    with pytest.raises(CorpusError, match=r"tales\.(train|valid)\.txt (is missing|holds no document)"):
        list(Corpus.open(tmp_path).documents("tales", "train"))


def test_every_document_begins_with_the_end_of_the_one_before(home: Path) -> None:
    corpus = Corpus.open(home / "corpus")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(home / "pair" / "target")
    tokens = encode(corpus, tokenizer, "valid")["tales"]
    starts = np.flatnonzero(tokens == END)
    assert tokens.dtype == np.uint16 and len(starts) == 60 and starts[0] == 0
    second = tokenizer.decode(tokens[starts[1] + 1 : starts[2]])
    assert second == list(corpus.documents("tales", "valid"))[1]
    with pytest.raises(CorpusError, match="65,537 entries"):
        encode(corpus, cast(PreTrainedTokenizerFast, range(2**16 + 1)), "valid")


def test_rows_are_drawn_by_the_roots_of_the_flavours() -> None:
    """A quarter, not a tenth, of a flavour nine times smaller. Rows are pieces of the text."""
    texts = {"small": np.arange(100, dtype=np.uint16), "large": np.arange(1000, 1900, dtype=np.uint16)}
    rows = draw_rows(texts, np.random.default_rng(1), 9000, 4)
    assert rows.shape == (9000, 4) and 0.2 < (rows[:, 0] < 100).mean() < 0.3
    assert (np.diff(rows) == 1).all() and {int(rows.min()), int(rows.max())} == {0, 1899}
    with pytest.raises(CorpusError, match="has 100 tokens; a row takes 101"):
        draw_rows(texts, np.random.default_rng(0), 1, 101)


# The target.


def test_the_targets_loss_is_the_mean_over_held_out_windows() -> None:
    """Consecutive windows, every token but the first predicted once; a short text is one window."""
    torch.manual_seed(0)
    model = new_llama(64, layers=1, width=64).eval()
    tokens = np.arange(150, dtype=np.uint16) % 60 + 2
    nats = []
    for a in (0, 40):
        ids = torch.from_numpy(tokens[a : a + 41].astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=ids[None, :-1]).logits[0]
        nats.append(-logits.log_softmax(-1)[torch.arange(40), ids[1:]])
    found = held_out_loss(model, {"a": tokens, "b": tokens[:20]}, 40, 2)
    assert found["a"].value == pytest.approx(float(torch.cat(nats).mean()), rel=1e-4)
    assert math.isfinite(found["b"].value) and found["a"].low < found["a"].value < found["a"].high
    assert found["mean"].value == pytest.approx((found["a"].value + found["b"].value) / 2)


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [TargetSettings(steps=1000).rate_at(step) for step in (0, 49, 400, 750, 999)]
    assert rates == pytest.approx([0.02, 1, 1, 0.5, 0.002])
