"""GGUF files: weights, config and tokenizer against transformers, and what is refused or damaged.
The real SmolLM2 is tested where it is in the cache (`./lab test` fetches it)."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import CPU, change, close, same_text
from gguf import GGMLQuantizationType as Kind
from gguf_files import TEMPLATE, WORDS, config_of, convert, gguf_name_of, halves, regrouped, write
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdiff_core.checkpoints import fetch, own_pairs
from specdiff_core.checkpoints.availability import availability
from specdiff_core.checkpoints.folders import read_config
from specdiff_core.checkpoints.memory import find_machine, model_size, refusal
from specdiff_core.checkpoints.reading import StoredRows
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.cli import main
from specdiff_core.engine import Engine
from specdiff_core.loading import _load_tokenizer, load_pair
from specdiff_core.models.causal import load_causal, load_stock
from specdiff_core.models.device import choose_placement, loading_threads
from specdiff_core.models.network import vocabulary
from specdiff_core.models.target import Target
from specdiff_core.processor import computes_bf16
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError, WeightsError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.pairs import EMBEDDED, NONE, SMOLLM2
from specdiff_core.schema.published import SMOLLM2_Q4_1
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.stops import StopStrings

ROOT = Path(__file__).resolve().parent.parent
REAL = fetch.cached(SMOLLM2_Q4_1)
HOME = os.environ.get("SPECDIFF_CACHE")
real = pytest.mark.skipif(REAL is None, reason="SmolLM2 is not in the cache; `pairs --fetch smollm2` fetches it")
TEXTS = (
    "Why is the sky blue?",
    "In 1969, 2 men walked 1,234 metres: 12.5 % of π.",
    "def add(a, b):\n    return a + b  # 0x1F\n\n\n\tx = [1, 22, 333]",
    "Grüße, 日本語, 🎭🏽, ﬁne, e\u0301, a\u00a0b",
    "  two  spaces,\ttabs\r\nand   \n\n lines   ",
    "it's they'll I'd WE'RE don't",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("SPECDIFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def use_real_cache(patch: pytest.MonkeyPatch) -> None:
    """The user's own, in place of an empty one."""
    if HOME is None:
        patch.delenv("SPECDIFF_CACHE", raising=False)
    else:
        patch.setenv("SPECDIFF_CACHE", HOME)


@pytest.fixture
def real_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_cache(monkeypatch)


def stock(arch: str, tensors: dict[str, torch.Tensor], **changes: Any) -> Any:
    """transformers' own module with these weights."""
    model = AutoModelForCausalLM.from_config(config_of(arch, **changes))
    missing = model.load_state_dict(tensors, strict=False).missing_keys
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model.eval()


@torch.inference_mode()
@pytest.mark.parametrize("kind", [Kind.Q4_1, Kind.Q8_0, Kind.F16, Kind.F32], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("arch", "tied"), [("llama", True), ("llama", False), ("qwen2", True), ("qwen3", False)])
def test_logits_are_transformers_on_the_same_numbers(tmp_path: Path, arch: str, tied: bool, kind: Kind) -> None:
    tensors = write(tmp_path / "model.gguf", arch, kind, tie_word_embeddings=tied)
    folder = resolve(tmp_path / "model.gguf")
    model, why = load_causal(folder, torch.float32, context=64)
    assert why == "" and isinstance(model.embed_tokens, StoredRows)
    ids = [7, 1, 200, 33, 5, 90, 12]
    theirs = stock(arch, tensors, tie_word_embeddings=tied)(torch.tensor([ids])).logits[0]
    target = Target(model, context=64)
    close(target.start().score(ids).logits, theirs)
    assert target.exactness() == "bitwise"
    words = vocabulary(model)
    table = tensors["model.embed_tokens.weight"]
    assert torch.equal(words.read_embedding(), table)
    assert torch.equal(words.embed(torch.tensor([ids])), table[torch.tensor([ids])])
    assert torch.equal(words.read_rows(), table if tied else tensors["lm_head.weight"])
    close(load_stock(folder, torch.float32)(torch.tensor([ids])).logits[0], theirs, 1e-6)
    half, _ = load_causal(folder, torch.bfloat16, context=64)
    assert half.embed_tokens(torch.tensor(ids)).dtype == torch.bfloat16
    assert torch.equal(half.embed_tokens.weight, table.to(torch.bfloat16))


@torch.inference_mode()
def test_the_embedded_target_as_a_gguf_file_is_the_embedded_target(tmp_path: Path) -> None:
    folder = ROOT / "assets" / "embedded" / "target"
    convert(folder, tmp_path / "target.gguf")
    found = resolve(tmp_path / "target.gguf")
    ours, theirs = (load_causal(one, torch.float32, context=128)[0] for one in (found, folder))
    ids = list(range(5, 45))
    assert torch.equal(*(Target(model, context=128).start().score(ids).logits for model in (ours, theirs)))
    tokenizers = [AutoTokenizer.from_pretrained(one) for one in (found, folder)]
    for text in TEXTS:
        one, two = (tokenizer(text, add_special_tokens=False)["input_ids"] for tokenizer in tokenizers)
        assert one == two


SCALED = "llama.rope.scaling."
ROTARY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"rope_type": "default"}),
    ({"type": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
    (
        {"type": "yarn", "factor": 2.0, "original_context_length": 128},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 128},
    ),
]


@pytest.mark.parametrize(("header", "expected"), ROTARY)
def test_rotary_positions_are_read(tmp_path: Path, header: dict[str, Any], expected: dict[str, Any]) -> None:
    write(tmp_path / "model.gguf", header={SCALED + name: value for name, value in header.items()})
    assert read_config(resolve(tmp_path / "model.gguf"))["rope_parameters"] == {"rope_theta": 10000.0, **expected}


def test_llama_3s_factors_are_recognised(tmp_path: Path) -> None:
    """Against transformers' own frequencies; factors of another origin are refused."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    scaled = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    size, base = 16, 500000.0

    def frequencies(**parameters: Any) -> torch.Tensor:
        config = LlamaConfig(head_dim=size, max_position_embeddings=256, rope_parameters=parameters)
        return LlamaRotaryEmbedding(config).inv_freq

    plain = frequencies(rope_type="default", rope_theta=base)
    factors = (plain / frequencies(rope_theta=base, **scaled)).numpy()
    assert 1.0 < np.sort(factors)[len(factors) // 2] < 8.0 or len(set(factors.round(3))) > 2, "some lie between"
    write(tmp_path / "model.gguf", header={"llama.rope.freq_base": base}, extra={"rope_freqs.weight": factors})
    assert read_config(resolve(tmp_path / "model.gguf"))["rope_parameters"] == {"rope_theta": base, **scaled}
    write(tmp_path / "odd.gguf", extra={"rope_freqs.weight": factors[::-1].copy()})
    with pytest.raises(WeightsError, match="rope_freqs"):
        resolve(tmp_path / "odd.gguf")


def tokenizer_files(path: Path, **changes: Any) -> Any:
    """The tokenizer of a file with these :func:`write` changes."""
    write(path, **changes)
    return AutoTokenizer.from_pretrained(resolve(path))


def test_tokens_are_what_the_file_says(tmp_path: Path) -> None:
    tokenizer = tokenizer_files(tmp_path / "model.gguf")
    assert tokenizer.get_vocab() == {word: i for i, word in enumerate(WORDS)} and tokenizer.eos_token_id == 0

    def pieces(text: str, **options: Any) -> list[str]:
        return tokenizer.convert_ids_to_tokens(tokenizer(text, **options)["input_ids"])

    assert pieces("the cat the") == ["the", "Ġcat", "Ġthe"]
    assert pieces("<|user|>the<think>") == ["<|user|>", "the", "<think>"]
    assert "<|user|>" not in pieces("<|user|>the", split_special_tokens=True), "typed by a visitor"
    for text in TEXTS:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.chat_template == TEMPLATE
    begins = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 1}
    tokenizer = tokenizer_files(tmp_path / "model.gguf", header=begins)
    assert tokenizer("the")["input_ids"][0] == 1 and tokenizer("the", add_special_tokens=False)["input_ids"][0] != 1


@pytest.mark.parametrize(
    ("pre", "pieces", "begins"),
    [
        ("smollm", ["1", "2", "3", "4", "5"], False),
        ("starcoder", ["1", "2", "3", "4", "5"], False),
        ("qwen2", ["1", "2", "3", "4", "5"], False),
        ("gpt-2", ["123", "4", "5"], False),
        ("llama-bpe", ["123", "4", "5"], True),
        ("deepseek-r1-qwen", ["1", "2", "3", "4", "5"], False),
        ("falcon3", ["123", "4", "5"], True),
        ("smaug-bpe", ["123", "4", "5"], False),
        ("deepseek-llm", ["123", "4", "5"], False),
        ("deepseek-coder", ["1", "2", "3", "4", "5"], False),
        ("tekken", ["1", "2", "3", "4", "5"], True),
        (None, ["123", "4", "5"], False),
        ("default", ["123", "4", "5"], False),
    ],
)
def test_every_way_to_split_a_text(tmp_path: Path, pre: str | None, pieces: list[str], begins: bool) -> None:
    tokenizer = tokenizer_files(tmp_path / "model.gguf", pre=pre)
    found = tokenizer.convert_ids_to_tokens(tokenizer("12345")["input_ids"])
    assert found == [*(["<|end|>"] if begins else []), *pieces]
    for text in TEXTS:
        kept = tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"])
        assert kept == text or "qwen" in (pre or ""), "which composes characters"


def test_a_sentencepiece_tokenizer(tmp_path: Path) -> None:
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["<unk>", "<s>", "</s>", *bytes_, "▁", "t", "h", "e", "th", "he", "▁the", "▁t"]
    scores = [0.0] * 259 + [-9.0, -10.0, -11.0, -12.0, -2.0, -1.0, -0.5, -3.0]
    header = {
        "model": "llama", "tokens": words, "scores": scores, "token_type": [2, 3, 3, *[6] * 256, *[1] * 8],
        "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "merges": None,
    }  # fmt: skip
    header = {f"tokenizer.ggml.{name}": value for name, value in header.items()}
    tokenizer = tokenizer_files(tmp_path / "model.gguf", header=header)
    assert tokenizer.convert_ids_to_tokens(tokenizer("the").input_ids) == ["<s>", "▁the"]
    assert tokenizer.convert_ids_to_tokens(tokenizer("é").input_ids) == ["<s>", "▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.convert_ids_to_tokens(tokenizer("the</s>th the").input_ids) == [
        "<s>", "▁the", "</s>", "▁", "th", "▁the",
    ]  # fmt: skip
    assert tokenizer(" the").input_ids != tokenizer("the").input_ids
    own = own_pairs.OwnPair(target=str(tmp_path / "model.gguf"))
    loaded = load_pair(own_pairs.register_pair(own.name), CPU).tokenizer
    assert loaded.decode(tokenizer("the").input_ids, skip_special_tokens=True) == " the", "an answer's first blank"
    assert StopStrings(loaded, (" the",))([], tokenizer("the", add_special_tokens=False).input_ids) == 1
    # A folder of the same tokenizer, whose class has rules of its own:
    folder = shutil.copytree(resolve(tmp_path / "model.gguf"), tmp_path / "folder")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "LlamaTokenizer"}))
    for text in ("<s>the", "the</s>th the", " the", "the"):
        assert _load_tokenizer(folder)(text).input_ids == tokenizer(text).input_ids
    for text in ("the theé 🎭", "the the</s>", " the"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"header": {"general.architecture": "gemma"}}, "gemma"),
        ({"header": {"tokenizer.ggml.pre": "chameleon"}}, "chameleon"),
        ({"header": {"tokenizer.ggml.merges": None}}, "tokenizer.ggml.merges"),
        ({"header": {"tokenizer.ggml.tokens": [*WORDS[:-2], *WORDS[-3:-1]]}}, "two of its tokens"),
        ({"header": {"tokenizer.ggml.model": "t5"}}, "t5"),
        ({"header": {"llama.expert_count": 8}}, "expert_count"),
        ({"arch": "qwen2", "header": {"qwen2.attention.sliding_window": 64}}, "sliding_window"),
        ({"header": {"llama.rope.scaling.type": "longrope"}}, "longrope"),
        ({"header": {"llama.rope.dimension_count": 8}}, "rotary"),
        ({"header": {"split.count": 3}}, "parts"),
        ({"extra": {"blk.0.attn_sinks.weight": np.zeros(4, np.float32)}}, "attn_sinks"),
        ({"extra": {"blk.0.attn_q.bias": np.zeros(64, np.float32)}}, "attn_q.bias"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    write(tmp_path / "model.gguf", **changes)
    with pytest.raises(WeightsError) as refused:
        resolve(tmp_path / "model.gguf")
    assert named in refused.value.message and "model.gguf" in refused.value.message and refused.value.hint
    assert not list((tmp_path / "cache").rglob("config.json"))


@pytest.mark.parametrize(
    ("header", "runs"),
    [
        ({"tokenizer.ggml.padding_token_id": 10**6, "tokenizer.ggml.eos_token_id": 10**6}, ""),
        ({"llama.attention.sliding_window": 256}, ""),
        ({"llama.attention.sliding_window": 64}, "sliding window of 64"),
        ({"tokenizer.ggml.tokens": [*WORDS[:-1], WORDS[0]], "tokenizer.ggml.token_type": [1] * 267 + [5]}, ""),
    ],
)
def test_an_intact_file_runs(tmp_path: Path, header: dict[str, Any], runs: str) -> None:
    """With ids that nothing uses, two names of which one is unused, or a window wider than the context."""
    write(tmp_path / "model.gguf", header=header)
    own = own_pairs.OwnPair(target=str(tmp_path / "model.gguf"))
    loaded = load_pair(own_pairs.register_pair(own.name), CPU)
    assert runs in loaded.stock_reason and bool(runs) == bool(loaded.stock_reason)
    same_text(Engine(loaded), "prompt_lookup")


def test_a_quantisation_that_is_not_read_is_refused_by_name(tmp_path: Path) -> None:
    """Q8_K is one that only llama.cpp uses, and type 250 one that nobody knows."""
    for number, named in ((int(Kind.Q8_K), "Q8_K"), (250, "250")):
        write(tmp_path / f"{number}.gguf")
        data = bytearray((tmp_path / f"{number}.gguf").read_bytes())
        offset = data.index(b"token_embd.weight") + len("token_embd.weight") + 4 + 2 * 8
        assert int.from_bytes(data[offset : offset + 4], "little") == Kind.Q8_0
        data[offset : offset + 4] = number.to_bytes(4, "little")
        (tmp_path / f"{number}.gguf").write_bytes(data)
        with pytest.raises(WeightsError, match=f"token_embd.*{named}"):
            resolve(tmp_path / f"{number}.gguf")


def test_truncated_and_damaged_files_are_named(tmp_path: Path, cache: Path) -> None:
    """However a file is cut or altered: one sentence, soon, and nothing left in the cache."""
    write(tmp_path / "model.gguf")
    whole = (tmp_path / "model.gguf").read_bytes()
    bad = tmp_path / "bad.gguf"
    chance = random.Random(0)
    for length in (0, 3, 4, 20, 100, 2000, len(whole) // 2, len(whole) - 100):
        bad.write_bytes(whole[:length])
        with pytest.raises(WeightsError, match=r"bad\.gguf"):
            resolve(bad)
    for offset, count in itertools.product((8, 16), (2**62, 2**40, 2**23)):  # tensors, fields
        bad.write_bytes(whole[:offset] + count.to_bytes(8, "little") + whole[offset + 8 :])
        with pytest.raises(WeightsError, match=r"bad\.gguf"):
            resolve(bad)
    for _ in range(120):
        data, offset = bytearray(whole), chance.randrange(4, 12_000)
        data[offset : offset + chance.choice((1, 8))] = chance.choice((b"\xff", b"\x00" * 8, b"\xff" * 8, b"\x01"))
        bad.write_bytes(data)
        with contextlib.suppress(SpecDiffError):  # nothing else may be raised
            load_causal(resolve(bad), torch.float32, context=16)
    assert not [one for one in cache.rglob("*") if one.name.startswith(".")], "no half of a folder"


@pytest.mark.parametrize("header", [
    {"llama.block_count": 2**31}, {"llama.attention.head_count": 0},
    {"llama.attention.head_count_kv": 3}, {"llama.embedding_length": 128},
    {"llama.attention.layer_norm_rms_epsilon": float("nan")}, {"llama.rope.freq_base": -1.0},
    {"llama.feed_forward_length": "many"}, {"llama.context_length": None},
    {"general.alignment": 0}, {"tokenizer.ggml.tokens": ["a"]},
    {"tokenizer.ggml.tokens": WORDS * 2}, {"tokenizer.ggml.merges": ["no such"]},
])  # fmt: skip
def test_absurd_values_are_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    write(tmp_path / "model.gguf", header=header)
    own = own_pairs.OwnPair(target=str(tmp_path / "model.gguf"))
    with pytest.raises(SpecDiffError) as refused:
        load_pair(own_pairs.register_pair(own.name), CPU)
    assert refused.value.hint


def test_weights_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", kind=Kind.F32)
    data = (tmp_path / "model.gguf").read_bytes()
    (tmp_path / "model.gguf").write_bytes(data[:-4] + np.float32(np.nan).tobytes())
    with pytest.raises(WeightsError, match="not finite"):
        load_causal(resolve(tmp_path / "model.gguf"), torch.float32, context=16)


def test_a_folder_is_made_once_for_a_file_and_never_for_another(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "model.gguf"
    write(file, seed=1)
    first = resolve(file)
    stamp = (first / "config.json").stat().st_mtime_ns
    assert resolve(file) == first and (first / "config.json").stat().st_mtime_ns == stamp
    assert first.is_relative_to(cache)
    tensors = write(file, seed=2)
    (left := first.parent / ".left").mkdir()
    os.utime(left, (1, 1))
    second = resolve(file)
    assert not left.exists(), "by a process that was killed"
    assert second != first and torch.equal(
        vocabulary(load_causal(second, torch.float32, context=16)[0]).read_embedding(),
        tensors["model.embed_tokens.weight"],
    )
    file.unlink()
    with pytest.raises(WeightsError, match=r"model\.gguf"):
        load_causal(second, torch.float32, context=16)
    with pytest.raises(WeightsError, match="does not exist"):
        resolve(file)


def test_an_index_that_a_repository_brings_is_not_read(tmp_path: Path) -> None:
    """It could name any file of the machine."""
    write(tmp_path / "model.gguf")
    shutil.copytree(resolve(tmp_path / "model.gguf"), tmp_path / "downloaded")
    with pytest.raises(WeightsError, match="safetensors"):
        load_causal(tmp_path / "downloaded", torch.float32, context=16)


def test_two_processes_make_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model.gguf")
    rename, made = os.rename, []

    def later(source: Path, target: Path) -> None:
        if not made:  # another process ends in between
            made.append(target)
            monkeypatch.setattr(os, "rename", rename)
            resolve(tmp_path / "model.gguf")
        rename(source, target)

    monkeypatch.setattr(os, "rename", later)
    folder = resolve(tmp_path / "model.gguf")
    assert folder == made[0] and [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_costs_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "model.gguf")
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECDIFF_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(PairUnavailable) as refused:
        resolve(tmp_path / "model.gguf")
    assert "SPECDIFF_CACHE" in refused.value.hint
    assert availability(SMOLLM2)[1] != "" or fetch.cached(SMOLLM2_Q4_1) is None
    assert availability(EMBEDDED) == (True, "")


def test_a_file_is_a_target_and_a_drafter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its relative path, too, which could be a repository's name."""
    write(tmp_path / "target.gguf", num_hidden_layers=3, seed=1)
    (tmp_path / "small").mkdir()
    write(tmp_path / "small" / "drafter.gguf", num_hidden_layers=1, seed=2)
    monkeypatch.chdir(tmp_path)
    own = own_pairs.OwnPair(target="target.gguf", drafter=("small/drafter.gguf",))
    spec = own_pairs.register_pair(own.name)
    engine = Engine.load(spec.name, device="cpu")
    same_text(engine, "autoregressive", "prompt_lookup")
    assert engine.pair.source_name("target").endswith("target.gguf")
    assert main(["decode", "--prompt", "the cat", "--target", "target.gguf", "--max-new-tokens", "4"]) == 0
    assert capsys.readouterr().out


def test_a_drafter_for_another_precision_says_so_in_the_header(tmp_path: Path) -> None:
    write(tmp_path / "model.Q8_0.gguf", seed=1)
    write(tmp_path / "drafter.gguf", num_hidden_layers=1, seed=2)
    folder = resolve(tmp_path / "drafter.gguf")
    spec = own_pairs.register_pair(
        own_pairs.OwnPair(target=str(tmp_path / "model.Q8_0.gguf"), drafter=(str(tmp_path / "drafter.gguf"),)).name
    )
    for named, noted in (("lab/model@1234/model.Q8_0.gguf", False), ("lab/model@1234", True)):
        change(folder, trained_for=named)
        run = Engine.load(spec.name, device="cpu").decode("the", DecodeConfig(drafter="autoregressive"))
        assert (named in next(event.network for event in run if isinstance(event, RunStarted))) == noted


def test_a_pair_may_prefer_bf16_on_a_processor_that_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is that of what it will be loaded in."""
    known = computes_bf16()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        assert computes_bf16() == known, "the page has no torch"
    for computes in (True, False):
        for user in ("models.device", "checkpoints.memory"):
            monkeypatch.setattr(f"specdiff_core.{user}.computes_bf16", lambda computes=computes: computes)
        machine = dataclasses.replace(find_machine("cpu"), free=800_000_000)
        assert bool(refusal(SMOLLM2, machine, ["none"])) != computes
        assert find_machine("cpu", "fp32").dtype_of(SMOLLM2) == machine.dtype_of(EMBEDDED) == "fp32"
        assert choose_placement("cpu", bf16=SMOLLM2.bf16).dtype_name == ("bf16" if computes else "fp32")
        assert choose_placement("cpu", bf16=EMBEDDED.bf16).dtype_name == "fp32"
        assert choose_placement("cpu", "fp32", bf16=True).dtype_name == "fp32"


def test_memory_is_counted_before_weights_are_read(tmp_path: Path) -> None:
    tensors = write(tmp_path / "model.gguf")
    known = model_size(str(tmp_path / "model.gguf"))
    assert known is not None and known.parameters == sum(tensor.numel() for tensor in tensors.values())
    assert known.tied == 0, "the embedding stays in the file"


# The real file


@pytest.fixture(scope="module")
def smollm2() -> Any:
    """SmolLM2, loaded once."""
    with pytest.MonkeyPatch.context() as patch:
        use_real_cache(patch)
        return load_pair(SMOLLM2, CPU, drafters=[NONE.name])


@pytest.fixture(scope="module")
def reference(smollm2: Any) -> Any:
    """transformers' module with weights by gguf's own reader, rows back in two halves of a head."""
    import gguf as package

    stored = {tensor.name: tensor for tensor in package.GGUFReader(REAL).tensors}
    model = AutoModelForCausalLM.from_config(smollm2.model.config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = stored.pop(gguf_name_of(name))
            values = np.array(package.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            values = regrouped(values, halves("llama", name, model.config), -1, 2)
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))
    assert not stored
    return model.eval()


@real
@pytest.mark.slow
@torch.inference_mode()
def test_smollm2s_logits_are_transformers(smollm2: Any, reference: Any, real_cache: None) -> None:
    """Over a prompt, token by token from the cache, and after a rollback. Bitwise in bf16, too."""
    ids = smollm2.tokenizer("Why is the sky blue? Sunlight has all colours, 1 to 7.")["input_ids"]
    theirs = reference(torch.tensor([ids])).logits[0]
    target = Target(smollm2.model, context=2048)
    close(target.start().score(ids).logits, theirs)
    assert target.exactness() == "bitwise"
    run = target.start()
    run.read(ids[:5])
    run.score(ids[5:] + ids[:3])
    run.rollback(len(ids) - 2, range(1))
    found = [run.score([token]).logits for token in ids[6:]]
    close(torch.cat(found), theirs[6:])
    half = Engine.load("smollm2", device="cpu", dtype="bf16", drafters=[])
    assert half.target.exactness() == "bitwise" or not computes_bf16()


@real
@pytest.mark.slow
def test_smollm2s_tokens_are_those_of_transformers(real_cache: None) -> None:
    """Its own conversion does not split digits, so texts without them are compared."""
    assert REAL is not None
    theirs = AutoTokenizer.from_pretrained(REAL.parent, gguf_file=REAL.name)
    ours = AutoTokenizer.from_pretrained(resolve(SMOLLM2.target, SMOLLM2.revision, weights=False))
    assert len(ours) == 49152
    for text in TEXTS:
        ids = ours(text)["input_ids"]
        assert ours.decode(ids) == text
        if not any(letter.isnumeric() for letter in text):
            assert ids == theirs(text)["input_ids"]
        for digit in filter(str.isdecimal, text):
            assert digit in {piece.lstrip("Ġ") for piece in ours.convert_ids_to_tokens(ids)}
    assert ours("<|im_end|>")["input_ids"] == [2]
    assert 2 not in ours("<|im_end|>", split_special_tokens=True)["input_ids"]
    assert ours.decode(ours("<|im_end|>", split_special_tokens=True)["input_ids"]) == "<|im_end|>"
    for messages in (
        [{"role": "user", "content": "Why?"}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?\n "}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    ):
        for asked in (True, False):
            options: dict[str, Any] = {"tokenize": False, "add_generation_prompt": asked}
            written = ours.apply_chat_template(messages, **options)
            assert written == theirs.apply_chat_template(messages, **options)
            assert ours(written)["input_ids"] == theirs(written)["input_ids"]


def held(name: str) -> int:
    """Megabytes of this process, now (VmRSS) or at most (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) // 1000


@real
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not count it")
def test_loading_smollm2_holds_one_copy_of_its_weights(real_cache: None) -> None:
    """In bf16, half of fp32: 270 MB beside the 98 of the file. A second copy would not fit."""
    with loading_threads(CPU.device):  # then what earlier tests left is given back to the system
        gc.collect()
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the most from now on
    engine = Engine.load("smollm2", device="cpu", dtype="bf16", drafters=[])
    assert engine.ends == engine.pair.ends == (2,)
    assert 100 < held("VmRSS") - before < 400 and held("VmHWM") - before < 500
