"""Training text: what a corpus folder may hold, endless batches, windows, blocks, and the text that a target writes."""

from __future__ import annotations

import lzma
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from train_fakes import END, MASK, CountingCorpus, Pair, counting_documents, write_corpus
from train_fakes import pair as pair  # a fixture

from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.causal_target import new_target
from specdiff_core.train.corpus import Corpus, batches
from specdiff_core.train.rows import (
    SLOTS,
    AnchorRows,
    PackedRows,
    Rows,
    cut_blocks,
    draw_blocks,
    draw_windows,
    first_rows,
)
from specdiff_core.train.settings import BlockSettings
from specdiff_core.train.target_text import PartWritten, TargetText, continue_prompts, greedy_text, write_text
from specdiff_core.train.task import greedy_tokens_per_round, prompts_from

# A corpus folder.


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


def broken(folder: Path, kind: str) -> str:
    """Spoil a good folder; returns what the error must name."""
    path = folder / "tales.train.txt"
    if kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "half an archive":
        path.rename(folder / "plain")
        path = folder / "tales.train.txt.xz"
        path.write_bytes(lzma.compress((folder / "plain").read_bytes())[:-40])
    elif kind == "no validation text":
        (folder / "tales.valid.txt").unlink()
        return "tales.valid.txt is missing"
    else:
        path.write_bytes({"binary": b"\x89PNG\xff\x00", "empty": b"", "separators": b" \n<|endoftext|>\n\n"}[kind])
    return path.name


KINDS = ("folder", "half an archive", "no validation text", "binary", "empty", "separators")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, kind: str) -> None:
    named = broken(write_corpus(tmp_path), kind)
    with pytest.raises(CorpusError, match=named.replace(".", r"\.")) as caught:
        list(Corpus.open(tmp_path).documents("tales", "train"))
    assert caught.value.hint and "\n" not in str(caught.value)


def test_text_is_encoded_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, starts = pair.data.split("valid")["tales"]
    assert tokens.dtype == np.uint16 and (tokens[starts] == pair.data.end).all() and len(starts) == 60
    second = pair.data.tokenizer.decode(tokens[starts[1] + 1 : starts[2]])
    assert second.strip() == list(pair.data.corpus.documents("tales", "valid"))[1]
    monkeypatch.setattr(Corpus, "documents", lambda *_: pytest.fail("it was read again"))
    assert np.array_equal(pair.data.split("valid")["tales"][0], tokens)


# Batches.


def test_batches_are_packed_documents_in_an_order_of_their_own() -> None:
    """An epoch holds each document once; a seed always gives the same batches; small flavours are seen more often."""
    tokens = np.arange(12, dtype=np.uint16)
    documents = {"a": (tokens, np.array([0, 3, 6, 9]))}
    stream = batches(documents, 0, rows=2, length=3)
    epochs = [np.concatenate([next(stream), next(stream)]) for _ in range(4)]
    assert all(sorted(epoch.flatten().tolist()) == tokens.tolist() for epoch in epochs)
    assert len({epoch.tobytes() for epoch in epochs}) > 1
    again = batches(documents, 0, rows=2, length=3)
    assert np.array_equal(np.concatenate([next(again), next(again)]), epochs[0])
    both = {"small": (np.full(100, 1, np.uint16), np.array([0])), "large": (np.full(900, 2, np.uint16), np.array([0]))}
    seen = np.concatenate([next(stream) for stream in [batches(both, 1, rows=50, length=4)] for _ in range(40)])
    assert 0.2 < (seen[:, 0] == 1).mean() < 0.3, "a quarter, as the roots of their sizes say: 2,000 draws"


def test_rows_that_cross_an_epoch_lose_no_token() -> None:
    stream = batches({"a": (np.arange(5, dtype=np.uint16), np.array([0]))}, 0, rows=1, length=3)
    text = np.concatenate([next(stream)[0] for _ in range(5)])
    assert text.tolist() == [*range(5)] * 3


def test_packed_rows_mix_the_corpus_with_what_the_target_wrote() -> None:
    written = np.full(400, 77, dtype=np.uint16)
    for share, own in ((0.0, 0), (0.5, 2), (1.0, 4)):
        rows = PackedRows(CountingCorpus(), 0, rows=4, length=96, written=written, share=share)
        batch, _ = rows.draw()
        assert batch.shape == (4, 96) and (batch == 77).all(1).tolist() == [False] * (4 - own) + [True] * own
    with pytest.raises(CorpusError, match="wrote 50 tokens; a row takes 96"):
        PackedRows(CountingCorpus(), 0, rows=4, length=96, written=written[:50], share=0.5)


def test_a_short_text_is_one_row() -> None:
    assert first_rows(np.arange(25), 10, 8).tolist() == [[*range(10)], [*range(10, 20)]]
    assert first_rows(np.arange(5), 10, 8).tolist() == [[*range(5)]]


def text_of(temperatures: list[float], tokens: np.ndarray) -> TargetText:
    count, length = tokens.shape
    return TargetText(
        tokens, np.full(count, 4), np.full(count, length), np.array(["a"] * count), np.array(temperatures)
    )


@pytest.mark.parametrize(("greedy", "share"), [(None, 0.25), (1.0, 1.0), (0.0, 0.0), (0.6, 0.6)])
def test_greedy_is_the_fraction_of_rows_written_at_temperature_zero(greedy: float | None, share: float) -> None:
    """None takes the rows as they come: one in four here."""
    temperatures = [0.0, 1.0, 1.0, 1.0] * 10
    marked = np.where(np.array(temperatures) == 0, 7, 9)[:, None].repeat(12, 1).astype(np.uint16)
    settings = BlockSettings(batch_tokens=600, length=12, share=1.0, greedy=greedy)
    source = AnchorRows({"count": counting_documents()}, text_of(temperatures, marked), settings)
    seen = torch.cat([source.draw()[0].tokens[:, 0] for _ in range(20)])
    assert set(seen.tolist()) <= {7, 9}
    assert float((seen == 7).float().mean()) == pytest.approx(share, abs=0.05)


def test_anchors_follow_the_prompt_in_written_rows() -> None:
    settings = BlockSettings(batch_tokens=80, length=20, share=0.5)
    text = text_of([0.0], np.arange(2, 14, dtype=np.uint16)[None])
    rows, _ = AnchorRows({"count": counting_documents()}, text, settings).draw()
    assert rows.tokens.shape == (4, 20)
    assert rows.lengths.tolist() == [20, 20, 12, 12]
    assert rows.first.tolist() == [1, 1, 3, 3] and rows.last.tolist() == [18, 18, 10, 10]


# Windows and blocks.


def test_windows_are_clean_prefixes_with_masks() -> None:
    rows = np.arange(2, 2 + 3 * 100).reshape(3, 100)  # every token tells its place
    windows = draw_windows(rows, np.random.default_rng(0), count=200, length=64, mask_id=MASK)
    sizes = (windows.rank >= 0).sum(1)
    assert sizes.min() == 4 and sizes.max() == SLOTS
    assert windows.padding.min() >= 0 and (windows.padding + sizes < 64).all()  # a token of context at least
    assert (windows.ids[:, -SLOTS:] == MASK).tolist() == windows.masked.tolist()
    assert (windows.ids[:, :-SLOTS] != MASK).all()
    assert not (windows.masked & (windows.rank < 0)).any() and windows.masked.any(1).all()
    full = (windows.masked.sum(1) == sizes).mean()
    assert 0.4 < full < 0.75
    seen = windows.ids[:, -SLOTS:]
    truth = rows[windows.row[:, None], windows.position]
    assert (seen == truth)[~windows.masked].all()
    for ids, pad, row in zip(windows.ids, windows.padding, windows.row, strict=True):
        kept = ids[pad:-SLOTS]
        assert (np.diff(kept) == 1).all() and np.isin(kept, rows[row]).all()


def test_blocks_end_where_the_text_ends() -> None:
    tokens = torch.tensor([[5, 6, 7, END, 8, 9]])  # the 9 is padding
    truth, known = cut_blocks(tokens, torch.tensor([5]), torch.tensor([[1, 3]]), 4, END)
    assert truth[0].tolist() == [[6, 7, END, 8], [END, 8, 9, 9]]
    assert known[0].tolist() == [[True, True, True, False], [True, True, False, False]]


def test_drawn_blocks_hide_what_is_scored() -> None:
    tokens = torch.arange(2, 42).repeat(3, 1)
    rows = Rows(tokens, torch.full((3,), 40), torch.tensor([1, 10, 38]), torch.tensor([38, 12, 38]))
    blocks = draw_blocks(rows, 200, 5, MASK, END, torch.Generator().manual_seed(0))
    assert blocks.anchors.amin(1).tolist() == [1, 10, 38] and blocks.anchors.amax(1).tolist() == [38, 12, 38]
    assert not bool(blocks.masked[..., 0].any())
    assert bool((blocks.ids[blocks.masked] == MASK).all()) and bool((blocks.ids == blocks.truth)[~blocks.masked].all())
    assert bool(blocks.masked[..., 1:][~blocks.known[..., 1:]].all())  # nothing behind the end is ever shown
    fully = blocks.masked[1, :, 1:].all(-1).float().mean()
    assert 0.4 < float(fully) < 0.75  # half by design, some of the rest by chance; 200 draws


@pytest.mark.parametrize(("whole", "low", "high"), [(1.0, 1.0, 1.0), (0.0, 0.02, 0.3)])
def test_whole_is_the_fraction_of_fully_masked_blocks(whole: float, low: float, high: float) -> None:
    """With none by design a few are left by the sampler: a ratio near one, or a clean beginning of no token."""
    rows = Rows(torch.arange(2, 42).repeat(2, 1), torch.full((2,), 40), torch.tensor([1, 1]), torch.tensor([30, 30]))
    blocks = draw_blocks(rows, 300, 9, MASK, END, torch.Generator().manual_seed(0), whole=whole)
    assert low <= float(blocks.masked[..., 1:].all(-1).float().mean()) <= high


# What the target writes.

PLAN: dict[str, Any] = {"rows": 4, "prompt_tokens": (5, 8), "new_tokens": 12, "temperatures": (0.0, 1.0)}


@pytest.fixture(scope="module")
def writer() -> Any:
    torch.manual_seed(0)
    model = new_target(64, layers=2, width=64, context=128).eval().requires_grad_(False)
    model.lm_head.weight.mul_(8.0)  # decided logits: greedy text does not hang on rounding
    return model


def written(writer: Any, folder: Path, parts: int = 2, seed: int = 0) -> list[PartWritten]:
    return list(write_text(writer, CountingCorpus(), "train", folder, parts=parts, seed=seed, **PLAN))


def test_written_text_is_the_targets_own(writer: Any, tmp_path: Path) -> None:
    """Greedy rows equal transformers' ``generate``; an interrupted run goes on; the mask is never written."""
    assert [event.part for event in written(writer, tmp_path)] == [0, 1]
    assert written(writer, tmp_path) == []
    before = TargetText.load(tmp_path / "train")
    (tmp_path / "train" / "part-00001.npz").unlink()
    assert [event.part for event in written(writer, tmp_path)] == [1]
    assert np.array_equal(TargetText.load(tmp_path / "train").tokens, before.tokens)
    for row in np.flatnonzero(before.temperatures == 0):
        prompt, length = int(before.prompts[row]), int(before.lengths[row])
        text = torch.from_numpy(before.tokens[row, :length].astype(np.int64))[None]
        again = writer.generate(
            text[:, :prompt], max_new_tokens=12, do_sample=False, suppress_tokens=[MASK], eos_token_id=END
        )
        assert again[0, :length].tolist() == text[0].tolist()
    assert not (before.packed() == MASK).any() and len(before.packed()) == before.lengths.sum()


def test_text_of_another_target_is_refused(writer: Any, tmp_path: Path) -> None:
    written(writer, tmp_path, parts=1)
    torch.manual_seed(5)
    with pytest.raises(CorpusError, match="of another target"):
        written(new_target(64, layers=2, width=64, context=128), tmp_path, parts=2)
    with pytest.raises(CorpusError, match="no target-written text"):
        TargetText.load(tmp_path / "missing")


def test_packed_text_has_no_padding() -> None:
    tokens = np.array([[0, 5, 6, 0], [0, 7, 0, 0]], dtype=np.uint16)
    text = TargetText(tokens, np.array([2, 2]), np.array([4, 3]), *([np.zeros(2)] * 2))
    assert text.packed().tolist() == [0, 5, 6, 0, 0, 7, 0]


def test_sampling_follows_the_temperature() -> None:
    """20,000 draws from a distribution over 3 tokens at temperature 2; false alarm below 1e-6 (5 sigma is 0.018)."""
    logits = torch.tensor([2.0, 0.0, -1.0, 9.0])

    def model(**_: Any) -> Any:
        return SimpleNamespace(logits=logits.expand(20_000, 1, 4))

    model.config = new_target(8, layers=1, width=64).config  # a function as a model
    prompts, temperatures = torch.ones(20_000, 1, dtype=torch.long), torch.full((20_000,), 2.0)
    generator = torch.Generator().manual_seed(0)
    text = continue_prompts(model, prompts, temperatures, 1, generator, end=9, mask=3)
    seen = torch.bincount(text[:, 1], minlength=4) / 20_000
    torch.testing.assert_close(seen[:3], (logits[:3] / 2).softmax(0), atol=0.018, rtol=0.0)
    assert float(seen[3]) == 0


def test_greedy_text_is_the_targets_own(pair: Pair) -> None:
    """It goes on behind an end of text."""
    prompts = torch.tensor([[0, 5, 9], [0, 8, 30]])
    text = greedy_text(pair.target, prompts, 6, mask=MASK)
    for position in range(3, 9):
        with torch.no_grad():
            logits = pair.target(input_ids=text[:, :position]).logits[:, -1]
        logits[:, MASK] = -torch.inf
        assert text[:, position].tolist() == logits.argmax(-1).tolist()


# Simulated rounds.


def test_greedy_rounds_are_counted_as_a_decode_would() -> None:
    """Always right: γ + 1 tokens a round. Always wrong: 1. Right at the first slot only: 2."""
    text = torch.arange(40)[None]

    def proposer(good: int):
        def propose(prefixes):
            drafts = torch.stack([torch.arange(len(p), len(p) + 4) for p in prefixes])
            drafts[:, good:] = -1
            return drafts

        return propose

    assert [greedy_tokens_per_round(proposer(n), text, 4, 4) for n in (4, 0, 1)] == [5.0, 1.0, 2.0]


def test_prompts_are_beginnings_of_held_out_documents() -> None:
    tokens = np.concatenate([np.r_[END, np.full(99, 2 + i)] for i in range(10)])
    prompts = prompts_from("count", tokens, END, count=3)
    assert prompts[:, 0].tolist() == [END] * 3 and prompts[:, 1].tolist() == [2, 6, 11]
    assert len(prompts_from("count", tokens, END, count=99)) == 10
    for short in (tokens[:30], tokens[1:99]):
        with pytest.raises(CorpusError, match=r"count\.valid has"):
            prompts_from("count", short, END, count=3)
