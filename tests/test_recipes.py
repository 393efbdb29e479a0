"""The recipes: every script, what is drawn and learnt, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import lzma
import math
import re
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import block
import common
import eagle
import mdlm
import msgspec
import numpy as np
import pytest
import target as target_recipe
import torch
from checkpoints import same_text
from corpus import Corpus
from mdlm import SLOTS, DraftTask, draw_windows
from objectives import probs_without
from tables import context_of
from text import Documents, Text, Written, load_tokenizer, windows
from torch import Tensor

from specdiff_core.cli.options import add_field
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.device import choose_placement
from specdiff_core.models.dflash import DFlashDraftModel, from_folder
from specdiff_core.models.eagle import load_eagle, save_eagle
from specdiff_core.models.files import write_folder
from specdiff_core.models.network import vocabulary
from specdiff_core.schema.errors import ConfigError, CorpusError
from specdiff_core.schema.fields import fields_of, parse
from specdiff_core.schema.history import HISTORY, read_history
from specdiff_core.schema.pairs import ASSETS, EMBEDDED, NONE
from specdiff_core.train import learners
from specdiff_core.train.curve import read_metrics
from specdiff_core.train.learners import PASSES, block_hidden, draw_blocks, eagle_readings, new_eagle

NAMES = ("tokenizer", "target", "mdlm", "mdlm_streak", "block", "block_markov", "autoregressive", "eagle")
DEFAULTS: dict[str, Callable[[], Any]] = {
    "target": target_recipe.Settings,
    "mdlm": mdlm.Settings,
    "mdlm_streak": lambda: mdlm.Settings(share=1.0, whole=1.0, streak=1.0),
    "block": block.Settings,
    "block_markov": lambda: block.Settings(markov=16),
    "eagle": common.DrafterModelSettings,
}
CARDS = sorted((ASSETS / "embedded").glob("*/README.md"))


END, MASK = 0, 1
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "a", "red", "house"]


def write_corpus(folder: Path) -> Path:
    """120 training and 60 validation documents of 60 random words."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", 120), ("valid", 60)):
        documents = [" ".join(rng.choice(WORDS, 60)) for _ in range(count)]
        (folder / f"tales.{split}.txt").write_text("\n<|endoftext|>\n".join(documents))
    return folder


# The whole way.


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with every part of a small pair, made by the scripts in a few steps each."""
    folder = tmp_path_factory.mktemp("pair")
    write_corpus(folder / "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "HELD_OUT", 2)
        patch.setattr(common, "NEW", 12)
        for name in NAMES:
            start = {"mdlm_streak": "mdlm", "block_markov": "block"}.get(name)
            assert train(folder, name, *(["--start", str(folder / start)] if start else [])) == 0
        yield folder


def train(home: Path, name: str, *words: str, out: str = "", run: str = "") -> int:
    """The script ``name``, in this process, with what makes it small."""
    module = importlib.import_module(name)
    defaults = DEFAULTS.get(name, lambda: module.Settings())()
    small: dict[str, Any] = {"steps": 4, "batch_tokens": 64, "length": 32, "layers": 2, "width": 64, "anchors": 8}
    small |= {"parts": 1, "texts": 4, "share": 0.5, "vocabulary": 300, "threads": 1, "warmup": 2}
    small |= {key: home / key for key in ("corpus", "cache", "written", "tokenizer", "target")}
    small |= {"out": home / (out or name), "run": home / (run or f"run-{name}")}
    given = {key: str(value) for key, value in small.items() if hasattr(defaults, key)}
    flags = [word for key, value in given.items() for word in (f"--{key.replace('_', '-')}", value)]
    return common.run(
        module.main, defaults, [*flags, *(["--no-compile"] if "compile" in dir(defaults) else []), *words]
    )


def measured(home: Path, run: str) -> list[dict[str, Any]]:
    return [event for event in read_metrics(home / run) if event["kind"] == "measured"]


@pytest.mark.parametrize("name", NAMES[2:])
def test_every_script_makes_a_drafter_that_decodes(home: Path, name: str) -> None:
    """With vanilla's text. What was measured last is a τ of real decoding, between 1 and γ + 1."""
    drafters = (dataclasses.replace(EMBEDDED.drafter(name), source=str(home / name)), NONE)
    folders = {"target": str(home / "target"), "tokenizer": str(home / "tokenizer")}
    pair = dataclasses.replace(EMBEDDED, **folders, drafters=drafters)
    same_text(Engine(load_pair(pair, choose_placement("cpu"), drafters=(name,))), name)
    scores = measured(home, f"run-{name}")[-1]["scores"]
    assert scores.keys() == {"tokens_per_round/tales", "tokens_per_round/mean"}
    assert 1 <= scores["tokens_per_round/mean"] <= 9
    card, runs = (home / name / "README.md").read_text("utf-8"), read_history(home / name / HISTORY)
    assert "| mean |" in card and str(home) not in card and "# Own-" in card and "Built with Llama" not in card
    assert [run.steps for run in runs] == [4] * (2 if name in ("mdlm_streak", "block_markov") else 1)
    assert runs[-1].tokens == 4 * 64 and runs[-1].command.startswith("python recipes/")


def test_the_target_is_measured_as_it_was_stored(home: Path) -> None:
    card = (home / "target" / "README.md").read_text("utf-8")
    assert "## Samples" in card and "⟶" in card and re.search(r"\| tales \| \d\.\d+ \|", card)
    assert measured(home, "run-target")[-1]["scores"].keys() == {"tales", "mean"}
    assert from_folder(home / "block_markov").config.markov_width == 16
    assert from_folder(home / "block").markov is None


@pytest.mark.slow
def test_a_script_runs_by_its_path(home: Path, tmp_path: Path) -> None:
    """From any folder, in a process of its own; help needs no corpus."""
    script = ASSETS.parent / "recipes" / "tokenizer.py"
    words = ["--corpus", str(home / "corpus"), "--vocabulary", "280", "--out", "made"]
    subprocess.run([sys.executable, str(script), *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    assert len(load_tokenizer(tmp_path / "made")) == 280


def test_a_cut_run_ends_where_the_whole_one_does(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps draw by their number. A second resume only exports; τ was measured at first."""
    monkeypatch.setattr(common, "SAVE", 3)
    start = ["--start", str(home / "eagle"), "--rate", "0.5"]
    assert train(home, "eagle", *start, "--steps", "6", "--decay-from", "1", out="whole", run="r1") == 0
    assert train(home, "eagle", *start, "--steps", "3", "--decay-from", "1", out="cut", run="r2") == 0
    for _ in range(2):
        assert train(home, "eagle", *start, "--steps", "6", "--decay-from", "1", "--resume", out="cut", run="r2") == 0
    one, other = (load_eagle(home / name).fc.weight for name in ("whole", "cut"))
    torch.testing.assert_close(one, other)
    assert [run.steps for run in read_history(home / "cut" / HISTORY)] == [4, 6]
    assert [event["step"] for event in measured(home, "r1")] == [0, 6]
    assert not torch.equal(one, load_eagle(home / "eagle").fc.weight)


def test_a_run_can_be_averaged_with_where_it_began(home: Path) -> None:
    """What a longer run goes on from is never the average."""
    start = ["--start", str(home / "eagle"), "--steps", "2"]
    assert train(home, "eagle", *start, out="plain", run="r3") == 0
    assert train(home, "eagle", *start, "--average", "0.25", out="mixed", run="r4") == 0
    begun, plain, mixed = (load_eagle(home / name).fc.weight for name in ("eagle", "plain", "mixed"))
    torch.testing.assert_close(mixed, 0.25 * begun + 0.75 * plain, atol=2e-3, rtol=1e-2)  # bf16
    saved = torch.load(home / "r4" / "checkpoint.pt", weights_only=True)["model"]["fc.weight"]
    assert torch.equal(saved.bfloat16().float(), plain)


def test_a_result_may_replace_what_it_began_with(home: Path) -> None:
    shutil.copytree(home / "target", home / "again")
    for _ in range(2):
        words = ["--start", str(home / "again"), "--steps", "1", "--resume"]
        assert train(home, "target", *words, out="again", run="r5") == 0
        assert [run.steps for run in read_history(home / "again" / HISTORY)] == [4, 1]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("block", ["--rate", "0"], "--rate cannot be '0'"),
        ("mdlm", ["--streak", "inf"], "--streak cannot be 'inf'"),
        ("mdlm", ["--average", "0.5"], "--average needs --start"),
        ("mdlm", ["--width", "100"], "--width 100"),
        ("eagle", ["--temperatures", "0", "3"], "--temperatures cannot be '0,3'"),
        ("tokenizer", ["--vocabulary", "70000"], "--vocabulary cannot be '70000'"),
        ("tokenizer", ["--corpus", "nowhere"], "No training text found"),
        ("mdlm", ["--tokenizer", "nowhere"], "There is no tokenizer in"),
        ("eagle", ["--target", "nowhere"], "There is no target in"),
        ("block_markov", ["--start", "block_markov", "--markov", "8"], "a Markov head of width 16"),
        ("eagle", ["--length", "99999"], "a row takes 99999"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, words: list[str], said: str
) -> None:
    given = [str(home / word) if (home / word).exists() else word for word in words]
    assert train(home, name, *given, out="nothing", run="nothing") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error:", "hint:", "Traceback"))]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"] and said in lines[0]


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.parent.name)
def test_commands_on_cards_still_parse(card: Path) -> None:
    """Those that made the weights, on the card and in its history."""
    found = re.findall(r"`python recipes/(\w+)\.py ([^`]*)`", card.read_text("utf-8"))
    assert [command for _, command in found] and [run.command for run in read_history(card.parent / HISTORY)] == [
        f"python recipes/{name}.py {command}" for name, command in found
    ]
    for name, command in found:
        words = shlex.split(command, comments=True)
        defaults = DEFAULTS.get(name, lambda name=name: importlib.import_module(name).Settings())()
        parser = ArgumentParser()
        for field in fields_of(type(defaults)).values():
            add_field(parser, field)
        read, given = parse(type(defaults), vars(parser.parse_args(words)), defaults), dict(itertools.pairwise(words))
        for flag, field in (("--steps", "steps"), ("--seed", "seed"), ("--share", "share"), ("--streak", "streak")):
            if flag in given:
                assert getattr(read, field) == float(given[flag])


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


def text_at(home: Path) -> Text:
    return Text(Corpus.open(home / "corpus"), load_tokenizer(home / "tokenizer"), home / "cache")


def test_text_is_encoded_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_at(home)
    documents = text.split("valid")["tales"]
    assert documents.tokens.dtype == np.uint16 and len(documents.starts) == 60
    assert (documents.tokens[documents.starts] == END).all() and (text.end, text.mask) == (END, MASK)
    second = text.tokenizer.decode(documents.tokens[slice(*documents.bounds(1))][1:])
    assert second.strip() == list(text.corpus.documents("tales", "valid"))[1]
    monkeypatch.setattr(Corpus, "documents", lambda *_: pytest.fail("it was read again"))
    assert np.array_equal(text_at(home).split("valid")["tales"].tokens, documents.tokens)
    assert {prompt.tokens[0] for prompt in text.prompts(5)} == {END} and len(text.prompts(5)) == 5


def test_rows_are_drawn_by_the_roots_of_the_flavours() -> None:
    """A quarter, not a tenth, of a flavour nine times smaller. Rows are pieces of the text."""
    small, large = (Documents(np.full(n, value, np.uint16), np.array([0])) for n, value in ((100, 1), (900, 2)))
    text: Any = SimpleNamespace(split=lambda name: {"small": small, "large": large})
    rows = Text.draw_rows(text, np.random.default_rng(1), 2000, 4)
    assert rows.shape == (2000, 4) and 0.2 < (rows[:, 0] == 1).mean() < 0.3
    cut = windows(np.arange(50, dtype=np.uint16), np.random.default_rng(0), 30, 7)
    assert (np.diff(cut) == 1).all() and cut.min() >= 0 and cut.max() <= 49
    with pytest.raises(CorpusError, match="has 5 tokens; a row takes 7"):
        windows(np.arange(5), np.random.default_rng(0), 1, 7)


@pytest.mark.parametrize(("greedy", "share"), [(None, 0.25), (1.0, 1.0), (0.0, 0.0), (0.6, 0.6)])
def test_greedy_is_the_fraction_of_greedy_rows(greedy: float | None, share: float) -> None:
    """None takes the rows as they come: one in four here. Anchors follow the prompt."""
    heat = np.array([True, False, False, False] * 10)
    written = Written([np.full(12 if hot else 9, 7 if hot else 5) for hot in heat], np.full(40, 4), heat)
    tokens, lengths, first = block.draw_texts(written, np.random.default_rng(0), 1000, 10, greedy)
    assert float((tokens[:, 0] == 7).mean()) == pytest.approx(share, abs=0.05)
    assert set(lengths.tolist()) <= {9, 10} and set(first.tolist()) == {3} and tokens.shape == (1000, 10)


# Windows and blocks.


def test_windows_are_clean_prefixes_with_masks() -> None:
    rows = np.arange(2, 2 + 3 * 100).reshape(3, 100)  # every token is its place
    cut = draw_windows(rows, np.random.default_rng(0), count=200, length=64, mask_id=MASK)
    sizes = (cut.rank >= 0).sum(1)
    assert sizes.min() == 4 and sizes.max() == SLOTS
    assert cut.padding.min() >= 0 and (cut.padding + sizes < 64).all()  # some context
    assert (cut.ids[:, -SLOTS:] == MASK).tolist() == cut.masked.tolist() and (cut.ids[:, :-SLOTS] != MASK).all()
    assert not (cut.masked & (cut.rank < 0)).any() and cut.masked.any(1).all()
    assert 0.4 < (cut.masked.sum(1) == sizes).mean() < 0.75
    truth = rows[cut.row[:, None], cut.position]
    assert (cut.ids[:, -SLOTS:] == truth)[~cut.masked].all()
    for ids, pad, row in zip(cut.ids, cut.padding, cut.row, strict=True):
        kept = ids[pad:-SLOTS]
        assert (np.diff(kept) == 1).all() and np.isin(kept, rows[row]).all()


def drawn(tokens: Tensor, lengths: Tensor, first: Tensor, count: int, size: int, whole: float = 0.5) -> Any:
    generator = torch.Generator().manual_seed(0)
    return draw_blocks(tokens, lengths, first, count=count, size=size, whole=whole, generator=generator, end=END)


def test_blocks_end_where_the_text_ends() -> None:
    """An anchor may be an end; behind an end inside the block, and in padding, nothing is known."""
    tokens = torch.tensor([[5, 6, 7, END, 8, 9]])  # the 9 is padding
    found = drawn(tokens, torch.tensor([5]), torch.tensor([1]), 50, 3)
    for text, known, masked, anchor in zip(*(part[0].tolist() for part in found), strict=True):
        wanted = {1: [True, True, True, False], 2: [True, True, False, False], 3: [True, True, False, False]}
        assert known == wanted[anchor] and text[0] == tokens[0, anchor] and not masked[0]
        assert all(hidden for hidden, inside in zip(masked, known, strict=True) if not inside)
    assert set(found.anchors[0].tolist()) == {1, 2, 3}


# Losses of the recipes.


@pytest.fixture(scope="module")
def llama() -> Any:
    torch.manual_seed(0)
    model = common.new_llama(64, layers=4, width=64, context=128).eval().requires_grad_(False)
    model.lm_head.weight.mul_(8.0)  # decided logits, so that there is something to learn
    return model


def drafter_for(target: Any, seed: int = 0) -> DFlashDraftModel:
    values = block.drafter_config(target.config, layers=1, block_size=5)
    return block.new_drafter(target, values, seed)


def counting(rows: int = 4, length: int = 32) -> tuple[Tensor, ...]:
    """Texts that count upwards, ids 2 to 61."""
    tokens = 2 + (torch.arange(rows)[:, None] * 7 + torch.arange(length)) % 60
    return tokens, torch.full((rows,), length), torch.ones(rows, dtype=torch.long)


def block_loss(target: Any, model: DFlashDraftModel, seed: int = 0, **options: Any) -> Tensor:
    settings = block.Settings(**{"anchors": 8, **options})
    generator = torch.Generator().manual_seed(seed)
    return block.block_loss(model, target, counting(), settings, generator, end=END)


def test_layers_are_spread_as_published() -> None:
    assert block.feature_layers(5, 36) == [1, 9, 17, 25, 33] and block.feature_layers(3, 16) == [1, 7, 13]
    assert [block.feature_layers(1, layers) for layers in (1, 2, 3, 4)] == [[0], [0], [1], [1]]
    assert [block.feature_layers(9, layers) for layers in (2, 3, 4)] == [[0], [0, 1], [0, 1, 2]]


def test_one_training_pass_is_what_decoding_computes(llama: Any) -> None:
    """Every block of the training layout equals a decoding session's q at that anchor (fp32)."""
    drafter, text = drafter_for(llama).eval(), counting(1, 24)[0][0]
    with torch.no_grad():
        states = llama.model(input_ids=text[None], output_hidden_states=True).hidden_states
    features = torch.cat([states[layer + 1][0] for layer in drafter.config.target_layer_ids], -1)
    anchors = torch.tensor([[1, 7, 19]])
    weights = llama.get_input_embeddings().weight
    for gamma in (4, 2):
        ids = torch.full((1, 3, gamma + 1), MASK)
        ids[..., 0] = text[anchors]
        with torch.no_grad():
            hidden = block_hidden(drafter, features[None], weights[ids.flatten(1)], anchors, gamma + 1)
        probs = (hidden.view(3, gamma + 1, -1)[:, 1:] @ weights.T).double()
        probs[..., MASK] = -torch.inf
        for row, anchor in enumerate(anchors[0].tolist()):
            session = BlockDrafter("block", drafter, vocabulary(llama), context=128).start()
            session.observe(text[:anchor].tolist(), features[:anchor])
            state = next(session.draft(context_of(text[: anchor + 1].tolist(), gamma)))
            torch.testing.assert_close(state.confidence(), probs[row].softmax(-1), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("chained", [False, True])
def test_the_block_loss_by_hand(llama: Any, chained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slot by slot: the target's cross-entropy at a + j − 1, weighted by exp(−rank/4); and the
    streak of whole blocks. bf16. A Markov head sees the token before each slot."""
    monkeypatch.setattr(block, "ALONE", 0.0)
    model, (tokens, lengths, first) = drafter_for(llama), counting()
    if chained:
        model = block.with_markov(model, 16)
        for part, std in ((model.markov.state, 0.1), (model.markov.before, 2.0), (model.markov.out, 0.5)):
            torch.nn.init.normal_(part.weight, std=std)
    generator = torch.Generator().manual_seed(3)
    plan: Any = {"count": 8, "size": 4, "whole": 0.5, "generator": generator, "end": END}
    text, known, masked, anchors = draw_blocks(tokens, lengths, first, **plan)
    features, states = block.read_target(llama, tokens, model.config.target_layer_ids)
    embedded = llama.get_input_embeddings()(text.masked_fill(masked, MASK).flatten(1))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        hidden = block_hidden(model, features, embedded, anchors, 5).view(*text.shape, -1).float()
        with torch.autocast("cpu", enabled=False):
            if chained:
                before = llama.get_input_embeddings()(text[..., :-1])
                hidden[:, :, 1:] = model.markov(hidden[:, :, 1:], before)
        table = llama.lm_head.weight
        q, p = (hidden @ table.T).float().log_softmax(-1), (states @ table.T).float().softmax(-1)
    total = weight = streak = 0.0
    whole = 0
    for row, a in itertools.product(range(4), range(8)):
        rank, before, chain = 0, 1.0, bool(masked[row, a, 1:].all())
        whole += chain
        for slot in range(1, 5):
            if not (masked[row, a, slot] and known[row, a, slot]):
                continue
            w = math.exp(-(int(masked[row, a, 1 : slot + 1].sum()) - 1) / 4)
            total -= w * float((p[row, anchors[row, a] + slot - 1] * q[row, a, slot]).sum())
            weight, rank = weight + w, rank + 1
            if chain:
                log_q = float(q[row, a, slot, text[row, a, slot]])
                streak -= before * log_q
                before *= math.exp(log_q)
    found = [float(block_loss(llama, model, 3, streak=s).detach()) for s in (0.0, 1.0)]
    assert found[0] == pytest.approx(total / weight, rel=0.02)
    assert found[1] - found[0] == pytest.approx(streak / whole, rel=0.03) and 0 < whole < 32
    assert math.isfinite(float(block_loss(llama, model, whole=0.0, short=1.0, streak=1.0).detach()))


def test_a_new_markov_head_changes_nothing_until_it_learns(llama: Any, tmp_path: Path) -> None:
    """It begins as the drafter it was added to; the loss reaches its matrices; it comes back."""
    plain = drafter_for(llama)
    chained = block.with_markov(plain, 16)
    markov = chained.markov
    assert markov is not None and sum(p.numel() for p in markov.parameters()) == 3 * 16 * 64
    states, before = torch.randn(2, 3, 64), torch.randn(2, 3, 64)
    assert torch.equal(markov(states, before), states) and torch.equal(chained.fc.weight, plain.fc.weight)
    torch.nn.init.normal_(markov.out.weight, std=0.1)
    block_loss(llama, chained, streak=1.0, whole=1.0).backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in markov.parameters())
    again = from_folder(write_folder(tmp_path, chained.released, chained.state_dict()))
    assert again.markov is not None and torch.equal(again.markov.out.weight, markov.out.weight.bfloat16().float())
    with pytest.raises(ConfigError, match="--markov 8"):
        block.with_markov(chained, 8)


def draft_task(llama: Any, model: Any, **options: Any) -> tuple[DraftTask, np.ndarray]:
    rows = counting(8, 96)[0].numpy()
    settings = mdlm.Settings(batch_tokens=512, compile=False, **options)
    return DraftTask(model, llama, MASK, settings), rows


def test_labels_are_the_targets_distribution_of_each_slot(llama: Any) -> None:
    """The label at t is the target's softmax at t − 1 on the clean row, without the mask id."""
    task, rows = draft_task(llama, mdlm.new_mdlm(64, MASK, layers=1, width=64, cond_dim=8, target=llama))
    cut = draw_windows(rows, np.random.default_rng(0), count=8, length=64, mask_id=MASK)
    labels = task.labels(rows, cut)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = llama(input_ids=torch.from_numpy(rows)).logits.float()
    logits[..., MASK] = -torch.inf
    n, slot = 3, SLOTS - 2
    expected = logits[cut.row[n], cut.position[n, slot] - 1].softmax(-1)
    torch.testing.assert_close(labels[n, slot], expected, atol=1e-2, rtol=0)
    assert float(labels[..., MASK].max()) == 0.0


def test_streaks_are_counted_on_whole_windows_of_target_written_text_only(llama: Any) -> None:
    """The streak term of the loss is the one by hand: Σ_j sg(Π_{i<j} q_i) log q_j."""
    torch.manual_seed(0)
    model = mdlm.new_mdlm(64, MASK, layers=2, width=64, cond_dim=8, target=llama)
    (plain, rows), (task, _) = draft_task(llama, model), draft_task(llama, model, streak=2.0)
    cut = draw_windows(rows, np.random.default_rng(0), count=16, length=64, mask_id=MASK)
    inputs = task.inputs(rows, cut, 4)
    ids, padding, chains = inputs[0], inputs[1], inputs[-1].numpy()
    sizes = (cut.rank >= 0).sum(1)
    whole = cut.masked.sum(1) == sizes
    assert (chains == (whole & (cut.row >= 4))).all() and 0 < chains.sum() < whole.sum()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model(ids, first=ids.shape[1] - SLOTS, padding=padding).float()
    logits[..., MASK] = -torch.inf
    log_q, total = logits.log_softmax(-1), 0.0
    for n in np.flatnonzero(chains):
        before = 1.0
        for slot in range(SLOTS - sizes[n], SLOTS):
            one = float(log_q[n, slot, int(rows[cut.row[n], cut.position[n, slot]])])
            total -= before * one
            before *= math.exp(one)
    found = float((task.objective(*inputs) - plain.objective(*inputs)).detach())
    assert found == pytest.approx(2.0 * total / chains.sum(), rel=1e-3)
    assert math.isfinite(float(task.loss(rows, 4, np.random.default_rng(0)).detach()))


def test_a_denoiser_learns_and_its_modulation_through_biases_only(llama: Any) -> None:
    torch.manual_seed(0)
    model = mdlm.new_mdlm(64, MASK, layers=1, width=64, cond_dim=8)
    rows = counting(16, 64)[0].numpy()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    seen = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = mdlm.denoising_loss(model, rows, np.random.default_rng(0))
        loss.backward()
        optimizer.step()
        seen.append(float(loss.detach()))
    assert seen[-1] < 0.95 * seen[0] and seen[0] == pytest.approx(math.log(63), rel=0.5)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen and all("sigma_map" in name or name.endswith("modulation.weight") for name in frozen)


def test_later_readings_are_given_the_heads_own_features(llama: Any) -> None:
    """With every feature its own, reading k is plain unrolling; with none, the first one again."""
    head = new_eagle(llama.config, seed=4).eval()
    ids = counting(2, 12)[0]
    with torch.no_grad():
        states = llama.model(input_ids=ids).last_hidden_state
        embeddings = llama.get_input_embeddings()(ids[:, 1:])
        own = torch.ones(PASSES - 1, 2, 10, 1, dtype=torch.bool)
        first, *later = eagle_readings(head, embeddings, states, own)
        assert len(later) == PASSES - 1
        for found in later:
            given = torch.cat([states[:, :1], first[:, :-1]], 1)
            first = head(embeddings, given)
            torch.testing.assert_close(found, first)
        for found in eagle_readings(head, embeddings, states, ~own):
            torch.testing.assert_close(found, head(embeddings, states[:, :-1]))


def test_a_trained_head_comes_back_and_learns_on(llama: Any, tmp_path: Path) -> None:
    """Decoding reads copies of the weights; training must not, or no gradient reaches them."""
    head = new_eagle(llama.config, seed=2)
    assert torch.equal(head.fc.weight[:, 64:], torch.eye(64)) and head.config.num_hidden_layers == 1
    again = load_eagle(save_eagle(head, tmp_path)).requires_grad_(True)
    assert torch.equal(again.fc.weight.detach(), head.fc.weight.detach().bfloat16().float())
    ids, own = counting(2, 32)[0], torch.rand(PASSES - 1, 2, 30, 1) < 0.5
    eagle.objective(again, llama, ids, own, MASK).backward()
    assert [name for name, p in again.named_parameters() if p.grad is None or not bool(p.grad.abs().sum() > 0)] == []


def test_a_copy_of_the_target_pays_its_entropy_only(llama: Any) -> None:
    """Soft cross-entropy of p with itself is its entropy, with the mask left out of the labels."""
    autoregressive = importlib.import_module("autoregressive")
    ids = counting()[0]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = llama(input_ids=ids).logits.float()
        labels = probs_without(logits, MASK)
        entropy = -(labels * logits.log_softmax(-1)).sum(-1).mean()
        assert float(autoregressive.soft_ce(llama, llama, ids, MASK)) == pytest.approx(float(entropy), rel=5e-3)
    small = autoregressive.new_drafter(llama, layers=1)
    assert torch.equal(small.get_input_embeddings().weight, llama.get_input_embeddings().weight)


@pytest.mark.parametrize("has", [True, False])
def test_losses_use_bf16_where_the_processor_has_it(llama: Any, has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated bf16 is far slower than fp32: a step of EAGLE's head by 3 to 24 times."""
    found, plain = list[torch.dtype](), torch.nn.functional.linear

    def linear(*args: Tensor) -> Tensor:
        product = plain(*args)
        found.append(product.dtype)
        return product

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    monkeypatch.setattr(learners, "multiplies_bf16", lambda device: has)
    ids, rng = counting()[0], np.random.default_rng(0)
    denoiser = mdlm.new_mdlm(64, MASK, layers=1, width=64)
    own = torch.ones(PASSES - 1, 4, 30, 1, dtype=torch.bool)
    task, rows = draft_task(llama, denoiser)
    for loss in (
        lambda: importlib.import_module("autoregressive").soft_ce(llama, llama, ids, MASK),
        lambda: block_loss(llama, drafter_for(llama)),
        lambda: eagle.objective(new_eagle(llama.config), llama, ids, own, MASK),
        lambda: mdlm.denoising_loss(denoiser, rows[:, :64], rng),
        lambda: task.loss(rows, 4, rng),
    ):
        found.clear()
        loss()
        assert found and (torch.bfloat16 in found) == has


def test_the_targets_loss_is_the_mean_over_held_out_windows(llama: Any) -> None:
    """Consecutive windows, every token but the first predicted once; a short text is one window."""
    tokens = counting(1, 150)[0][0].numpy().astype(np.uint16)
    nats = []
    for a in (0, 40):
        ids = torch.from_numpy(tokens[a : a + 41].astype(np.int64))
        with torch.no_grad():
            logits = llama(input_ids=ids[None, :-1]).logits[0]
        nats.append(-logits.log_softmax(-1)[torch.arange(40), ids[1:]])
    assert target_recipe.held_out_loss(llama, tokens, 40, 2) == pytest.approx(float(torch.cat(nats).mean()), rel=1e-4)
    assert math.isfinite(target_recipe.held_out_loss(llama, tokens[:20], 40))


def test_settings_are_read_from_strings() -> None:
    read = parse(block.Settings, {"greedy": "0.5", "start": "a/b", "temperatures": ["0", "1"]})
    assert (read.greedy, read.start, read.temperatures) == (0.5, Path("a/b"), (0.0, 1.0))
    assert parse(block.Settings, {"seed": "3"}, read) == msgspec.structs.replace(read, seed=3)
    rates = [common.ModelSettings(steps=100, warmup=10, decay_from=0.5).rate_at(step) for step in (0, 9, 40, 75, 99)]
    assert rates == pytest.approx([0.1, 1, 1, 0.5, 0.02])
