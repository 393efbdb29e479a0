"""The target's answers: prompts, writing many at once, what is stored, and reading it back."""

from __future__ import annotations

import errno
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import randomly
from families import FAMILIES
from transformers import AutoModelForCausalLM

from specdiff_core.checkpoints.writing import replacing
from specdiff_core.measure.prompts import read_prompts
from specdiff_core.models.causal import load_network, load_stock
from specdiff_core.models.target import Target
from specdiff_core.schema import summary
from specdiff_core.schema.errors import ConfigError, CorpusError, SpecDiffError
from specdiff_core.schema.summary import LOOP_TOKENS, loops
from specdiff_core.train import answers, writing
from specdiff_core.train.answers import TOP, Answers, EncodedPrompt, encode_prompts
from specdiff_core.train.writing import Writing, write_answers

LAYERS = (0, 2)
WRITING = Writing(layers=LAYERS, ends=(3,), new_tokens=14, temperatures=(0.0,), slots=3)
PROMPTS = [EncodedPrompt(f"p{n}", "ab"[n % 2], (5, 6, *range(9, 10 + n % 4), 20 + n)) for n in range(8)]


def saved(folder: Path, family: str, seed: int = 5) -> Path:
    randomly(AutoModelForCausalLM.from_config(FAMILIES[family], dtype=torch.float32), seed).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["llama, grouped queries", "gpt2", "transformers' module"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Target:
    name = request.param
    stock = name not in FAMILIES
    folder = saved(tmp_path_factory.mktemp("target"), "qwen2" if stock else name)
    if stock:
        return Target(load_stock(folder, torch.float32), context=64)
    return Target(load_network(folder, FAMILIES[name], torch.float32, context=64), context=64)


def plain(target: Target, prompt: Sequence[int], ends: Sequence[int], new: int) -> list[int]:
    """The prompt and its greedy answer, a pass for each token."""
    run, ids = target.start(), list(prompt)
    run.read(ids[:-1])
    while len(ids) < len(prompt) + new and (len(ids) == len(prompt) or ids[-1] not in ends):
        ids.append(int(run.score(ids[-1:]).logits[0].argmax()))
    return ids


def test_answers_are_what_plain_decoding_says(target: Target, tmp_path: Path) -> None:
    """Eight prompts of four lengths in three slots, so that slots of different lengths stand side
    by side and are used again. What is stored is what a session says of the whole text."""
    said = plain(target, PROMPTS[0].tokens, (), 14)[len(PROMPTS[0].tokens) :]
    writing = Writing(layers=LAYERS, ends=said[5:6], new_tokens=14, temperatures=(0.0,), slots=3)
    events = list(write_answers(target, PROMPTS, tmp_path, writing))
    found = Answers(tmp_path, LAYERS)
    assert [event["answers"] for event in events] == [8] and events[0]["tokens"] == found.tokens
    assert {row.prompt_id: row.flavour for row in found.rows} == {one.id: one.flavour for one in PROMPTS}
    for row in found.rows:
        prompt = next(one.tokens for one in PROMPTS if one.id == row.prompt_id)
        batch = found.batch([row])
        ids = batch.tokens[0].tolist()
        assert ids == plain(target, prompt, writing.ends, 14) and row.prompt == len(prompt) and not row.looped
        assert found.text(row) == ids[len(prompt) :]
        scores = target.start(LAYERS).score(ids)
        assert scores.features is not None
        features = scores.features.to(torch.bfloat16).float()
        torch.testing.assert_close(batch.features[0].flatten(1).float(), features, atol=0.02, rtol=0.02)
        best = scores.logits.log_softmax(-1).topk(TOP)
        known = slice(len(prompt) - 1, None)
        assert torch.equal(batch.top_ids[0, known], best.indices[known])
        torch.testing.assert_close(batch.top_logs[0, known].float(), best.values[known], atol=0.02, rtol=0.002)
        assert bool(batch.top_logs[0, : len(prompt) - 1].isinf().all())
    assert len(found.text(next(row for row in found.rows if row.prompt_id == "p0"))) <= 6
    found.check(target)


def test_a_stopped_writing_keeps_what_it_has_and_goes_on(target: Target, tmp_path: Path) -> None:
    passes = iter(range(10**6))
    (event,) = write_answers(target, PROMPTS, tmp_path, WRITING, going=lambda: next(passes) < 24)
    begun = Answers(tmp_path, LAYERS)
    cut = {row.prompt_id: begun.text(row) for row in begun.rows}
    assert 0 < len(cut) < len(PROMPTS) and event["answers"] == len(cut)
    list(write_answers(target, PROMPTS, tmp_path, WRITING))
    begun.refresh()
    assert sorted(row.prompt_id for row in begun.rows) == [one.id for one in PROMPTS], "each once"
    for row in begun.rows:
        wanted = plain(target, PROMPTS[int(row.prompt_id[1:])].tokens, WRITING.ends, 14)[row.prompt :]
        text = begun.text(row)
        assert text == (wanted[: len(text)] if row.prompt_id in cut else wanted) and len(text) >= writing.LEAST
    assert list(write_answers(target, PROMPTS, tmp_path, WRITING)) == [], "nothing is left to do"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_answer_that_loops_ends_early_and_says_so(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "LOOP_TOKENS", 10)
    monkeypatch.setattr(summary, "LOOP_TRIGRAMS", 4)
    monkeypatch.setattr(writing, "_draw", lambda logits, temperatures, generator: torch.full((len(logits),), 7))
    long = Writing(layers=LAYERS, ends=(), new_tokens=40, temperatures=(0.0,), slots=2)
    list(write_answers(target, PROMPTS[:3], tmp_path, long))
    found = Answers(tmp_path, LAYERS)
    assert [row.looped for row in found.rows] == [True] * 3
    assert all(found.text(row) == [7] * 16 for row in found.rows), "looked at every eighth token"


def test_what_a_loop_is() -> None:
    varied = list(range(LOOP_TOKENS))
    assert not loops(varied) and not loops([1] * (LOOP_TOKENS - 1)) and loops([1] * LOOP_TOKENS)
    assert loops([*varied, *[1, 2, 3, 4] * 12]) and not loops([*[1] * 90, *varied])


def test_each_row_is_drawn_at_its_own_temperature() -> None:
    generator, share = torch.Generator().manual_seed(0), torch.tensor([0.1, 0.6, 0.3])
    for heat, wanted in ((1.0, share), (0.5, share.square() / share.square().sum())):
        rows = share.log().repeat(6001, 1)
        temperatures = torch.full((6001,), heat)
        temperatures[-1] = 0
        drawn = writing._draw(rows, temperatures, generator)
        assert int(drawn[-1]) == 1
        torch.testing.assert_close(torch.bincount(drawn[:-1], minlength=3) / 6000, wanted, atol=0.025, rtol=0)


def test_ids_that_the_target_never_says_are_not_written(target: Target, tmp_path: Path) -> None:
    banned = plain(target, PROMPTS[0].tokens, (), 1)[-1]
    silent = Target(target.model, context=64, suppress=(banned,))
    list(write_answers(silent, PROMPTS[:1], tmp_path, WRITING))
    found = Answers(tmp_path, LAYERS)
    batch = found.batch(found.rows)
    assert banned not in found.text(found.rows[0])
    finite = batch.top_logs > -torch.inf
    assert not bool((batch.top_ids[finite] == banned).any())


def test_a_full_context_ends_an_answer(target: Target, tmp_path: Path) -> None:
    short = Target(target.model, context=20)
    writing = Writing(layers=LAYERS, ends=(), new_tokens=50, temperatures=(0.0,), slots=4)
    list(write_answers(short, PROMPTS, tmp_path, writing))
    assert {row.end - row.first for row in Answers(tmp_path, LAYERS).rows} == {20}


# Reading.


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Target, Path]:
    config = FAMILIES["llama"]
    target = Target(
        load_network(saved(tmp_path_factory.mktemp("t"), "llama"), config, torch.float32, context=64), context=64
    )
    folder = tmp_path_factory.mktemp("answers")
    list(write_answers(target, PROMPTS, folder, WRITING))
    return target, folder


def test_a_batch_is_padded_and_holds_the_wanted_layers(written: tuple[Target, Path]) -> None:
    _, folder = written
    every, last = Answers(folder, LAYERS), Answers(folder, (2,))
    rows = sorted(every.rows, key=lambda row: row.end - row.first)
    batch = every.batch([rows[0], rows[-1]])
    short, long = batch.lengths.tolist()
    assert batch.tokens.shape == (2, long) and batch.features.shape == (2, long, 2, 32) and short < long
    assert not bool(batch.tokens[0, short:].any()) and bool(batch.top_logs[0, short:].isinf().all())
    assert torch.equal(last.batch([rows[-1]]).features, batch.features[1:, :, 1:])
    assert batch.to(torch.device("cpu")).prompts.tolist() == [rows[0].prompt, rows[-1].prompt]


def test_what_is_damaged_or_of_something_else_is_refused(written: tuple[Target, Path], tmp_path: Path) -> None:
    target, folder = written
    with pytest.raises(CorpusError, match=r"layers \[0, 2\], but layer 1 is needed"):
        Answers(folder, (0, 1))
    other = load_network(saved(tmp_path / "other", "llama", seed=2), FAMILIES["llama"], torch.float32, context=64)
    with pytest.raises(CorpusError, match="another target"):
        Answers(folder, LAYERS).check(Target(other, context=64))
    narrow = Target(target.model, context=64)
    narrow.vocab_size = 5
    with pytest.raises(CorpusError, match="another target"):
        Answers(folder, LAYERS).check(narrow)
    with pytest.raises(CorpusError, match="no answers"):
        Answers(tmp_path, LAYERS).check(target)
    for content in (b"", (folder / "00000.safetensors").read_bytes()[:-3], b"\x02\0\0\0\0\0\0\0{}"):
        (tmp_path / "00000.safetensors").write_bytes(content)
        with pytest.raises(CorpusError, match=r"00000\.safetensors are damaged"):
            Answers(tmp_path, LAYERS)


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(
    written: tuple[Target, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: Any, path: Path, **options: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(answers, "save_file", full)
    with pytest.raises(SpecDiffError, match=r"00000\.safetensors can't be written .*No space left") as caught:
        list(write_answers(written[0], PROMPTS, tmp_path, WRITING))
    assert not list(tmp_path.iterdir()) and "room" in caught.value.hint


def test_a_file_that_replaces_another_meets_no_file_of_a_like_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.gguf") as weights, replacing(tmp_path / "a.json") as facts:
        weights.write_text("weights")
        facts.write_text("facts")
    assert (tmp_path / "a.gguf").read_text() == "weights" and (tmp_path / "a.json").read_text() == "facts"
    with pytest.raises(SpecDiffError) as caught, replacing(tmp_path / "a.json"):
        raise OSError(errno.EACCES, "Permission denied")
    assert "room" not in caught.value.hint and len(list(tmp_path.iterdir())) == 2


# Prompts.


def test_prompts_are_read_from_lines_and_objects(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone\n\n  {two} \n")
    plain = read_prompts(tmp_path / "a.txt")
    assert [(one.prompt, one.flavour) for one in plain] == [("one", "all"), ("{two}", "all")]
    assert plain[0].id == read_prompts(tmp_path / "a.txt")[0].id != plain[1].id
    lines = [{"prompt": "a\nb", "flavour": "code", "id": "x", "source": "y"}, {"prompt": "c"}]
    (tmp_path / "b.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, lines)).encode()))
    first, second = read_prompts(tmp_path / "b.jsonl.xz")
    assert (first.prompt, first.flavour, first.id) == ("a\nb", "code", "x") and second.flavour == "all"

    def encode(text: str) -> list[int]:
        if text == "c":
            raise ConfigError("It has a meaning.")
        return list(range(len(text)))

    assert encode_prompts([first, second], encode, longest=3) == [EncodedPrompt("x", "code", (0, 1, 2))]
    with pytest.raises(CorpusError, match=r"None .* It has a meaning"):
        encode_prompts([second], encode, longest=3)
    with pytest.raises(CorpusError, match="more than 2 tokens"):
        encode_prompts([first], encode, longest=2)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.txt", None, "missing.txt can't be read (No such file"),
        ("a.txt", b"\xff\xfe", "can't be read ('utf-8' codec"),
        ("a.jsonl.xz", b"no xz" * 9, "can't be read (Input format"),
        ("a.jsonl", b'{"prompt": "a"}\n{"prompt": ""}', "line 2: Expected `str` matching regex"),
        ("a.jsonl", b'{"prompt": "a"}\nhello', "line 2: JSON is malformed"),
        ("a.jsonl", b'{"id": "a", "flavour": "x"}', "line 1: Object missing required field `prompt`"),
        ("a.jsonl", b"[1]", "line 1: Expected `object`"),
        ("a.jsonl", b'{"id": " ", "prompt": "y"}', "$.id"),
        ("a.jsonl", b'{"id": "a", "prompt": "y"}\n' * 2, "line 2: the id 'a' appears twice"),
        ("a.jsonl", b"[" * 200_000, "line 1: "),
        ("a.jsonl", b'{"flavour": "x\\ud800", "prompt": "y"}', "line 1: "),
        ("a.json", b'[\n{"prompt": "a"}\n]', "line 1:"),
        ("a.txt", b'plain\n {"prompt": "a"}\n', "line 2: this is JSON, whose file must be named .jsonl"),
        ("a.txt", b"\n \n", "holds no prompt"),
    ],
)
def test_files_without_prompts_are_refused(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        read_prompts(tmp_path / name)
    assert words in refused.value.message and refused.value.hint and str(tmp_path.parent) not in refused.value.message
