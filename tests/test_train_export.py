"""``train export``: files against the names, shapes and keys that the engines' readers take, written down here from
their sources; and llama.cpp itself, where the package xllamacpp is installed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf_files import WORDS, convert, write
from safetensors.torch import load_file

from benchmarks import llama
from specdiff_core import cli
from specdiff_core.attached.server import ask
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.checkpoints.writing import shrink, write_folder
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.causal import read_tables
from specdiff_core.models.device import choose_placement
from specdiff_core.models.dflash import DFlashDraftModel, from_folder, speculators_config
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import ASSETS, NONE
from specdiff_core.schema.pairs import EMBEDDED as EMBEDDED_PAIR
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

EMBEDDED = ASSETS / "embedded"
VOCAB, WIDTH, INNER, HEADS, GROUPS, SIZE, BLOCK = len(WORDS), 64, 96, 4, 2, 16, 5
IDS = torch.arange(3, VOCAB, 2)
NETWORK: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS, "head_dim": SIZE, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "max_position_embeddings": 256,
    "vocab_size": VOCAB, "attention_bias": False, "tie_word_embeddings": False, "initializer_range": 0.02,
}  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file with a tied table."""
    path = tmp_path_factory.mktemp("target") / "tiny.Q8_0.gguf"
    write(path)
    return path


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a drafter in int8 as `train shrink` leaves it, without the target's tables."""

    def drafter(*, rank: int = 0, whole: bool = False, own: bool = False, **changes: Any) -> Path:
        facts: Any = {"verifier": "runs/tiny.Q8_0.gguf", "architectures": ["LlamaForCausalLM"], "taps": (0, 1)}
        facts |= {"block": BLOCK, "words": VOCAB if whole else len(IDS), "mask": 1, "rank": 0 if own else rank}
        changes |= {"markov_width": rank} if own else {}
        config = speculators_config(NETWORK, **facts) | {"trained_for": "tiny.Q8_0.gguf"} | changes
        model = DFlashDraftModel(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, 0.2)
        tensors, known = dict(model.state_dict()), torch.zeros(VOCAB, dtype=torch.bool).index_fill(0, IDS, True)
        name = "markov_head.markov_w2.weight"
        if name in tensors and not whole:
            tensors[name] = tensors[name][IDS]
        maps = {} if whole else {"d2t": IDS - torch.arange(len(IDS)), "t2d": known}
        shrink(write_folder(tmp_path / "drafter", config, tensors, tables=maps))
        return tmp_path / "drafter"

    return drafter


def export(*words: Any) -> int:
    return cli.main(["train", "export", *map(str, words)])


def backbone() -> dict[str, tuple[int, ...]]:
    """vLLM's ``DFlashQwen3Model`` and SGLang's ``DFlashDraftModel``, in their checkpoints' names."""
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (WIDTH, 2 * WIDTH), "hidden_norm.weight": (WIDTH,)}
    shapes["norm.weight"] = (WIDTH,)
    for index in range(2):
        layer = {
            "self_attn.q_proj": (HEADS * SIZE, WIDTH), "self_attn.k_proj": (GROUPS * SIZE, WIDTH),
            "self_attn.v_proj": (GROUPS * SIZE, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * SIZE),
            "self_attn.q_norm": (SIZE,), "self_attn.k_norm": (SIZE,), "mlp.gate_proj": (INNER, WIDTH),
            "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER), "input_layernorm": (WIDTH,),
            "post_attention_layernorm": (WIDTH,),
        }  # fmt: skip
        shapes |= {f"layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


def reduced(rank: int) -> dict[str, tuple[int, ...]]:
    """What a vocabulary of its own adds for vLLM, and DSpark's head."""
    words = {"embed_tokens.weight": (VOCAB, WIDTH), "lm_head.weight": (len(IDS), WIDTH)}
    maps: dict[str, tuple[int, ...]] = {"d2t": (len(IDS),), "t2d": (VOCAB,)}
    return words | maps | (markov(rank, len(IDS)) if rank else {})


def markov(rank: int, words: int, vocab: int = VOCAB) -> dict[str, tuple[int, ...]]:
    return {"markov_head.markov_w1.weight": (vocab, rank), "markov_head.markov_w2.weight": (words, rank)}


SPECULATORS = {
    "architectures", "speculators_model_type", "speculators_config", "transformer_layer_config",
    "aux_hidden_state_layer_ids", "block_size", "draft_vocab_size", "mask_token_id", "sample_from_anchor",
}  # fmt: skip
DSPARK = {"markov_rank", "markov_head_type", "enable_confidence_head", "confidence_head_with_markov"}
ZLAB = {"num_target_layers", "block_size", "dflash_config", "layer_types", "rope_theta", "vocab_size", "head_dim"}


@pytest.mark.parametrize("rank", [0, 6])
@pytest.mark.parametrize("whole", [False, True])
def test_vllm_takes_every_key_and_every_tensor(
    make: Make, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: int, whole: bool
) -> None:
    drafter, out = make(rank=rank, whole=whole), tmp_path / "out"
    (drafter / "README.md").write_text("# Mine\n")
    assert export(drafter, "--to", "speculators", "--out", out, "--target", target, "--verifier", "me/tiny") == 0
    stored, config = load_file(out / "model.safetensors"), json.loads((out / "config.json").read_text())
    expected = backbone() | ((markov(rank, VOCAB) if rank else {}) if whole else reduced(rank))
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == expected, "no tensor too many"
    assert all(t.dtype == torch.bfloat16 for n, t in stored.items() if n not in ("d2t", "t2d"))
    assert config.keys() >= SPECULATORS | (DSPARK if rank else set())
    assert config["speculators_model_type"] == ("dspark" if rank else "dflash")
    method, spec = config["speculators_config"]["proposal_methods"][0], config["speculators_config"]
    assert (method["speculative_tokens"], spec["verifier"]["name_or_path"]) == (BLOCK, "me/tiny")
    assert config["block_size"] == BLOCK + 1 and config["aux_hidden_state_layer_ids"] == [1, 2]
    assert config["sample_from_anchor"] is False and config["draft_vocab_size"] == (VOCAB if whole else len(IDS))
    same_network(drafter, out)
    said, card = capsys.readouterr().out, (out / "README.md").read_text()
    assert "vLLM (not run)" in said and "me/tiny" in said and "tiny.Q8_0.gguf" in said
    assert card.startswith("# Mine") and all(line in card for line in said.splitlines())


def same_network(drafter: Path, out: Path) -> None:
    """Read again, both are one network, but for rounding."""
    first, again = (from_folder(folder) for folder in (drafter, out))
    state = again.state_dict()
    assert state.keys() == {name for name in first.state_dict() if name in state}
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, first.state_dict()[name], atol=5e-3, rtol=8e-3)
    assert again.lead == first.lead and again.config.target_layer_ids == first.config.target_layer_ids


def test_sglang_takes_the_whole_vocabulary(
    make: Make, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ignores tensors that it doesn't know, so there must be none; and reads as many layers of the target as the
    drafter has, unless it is given their number."""
    drafter, out = make(rank=6), tmp_path / "out"
    assert export(drafter, "--to", "z-lab", "--out", out, "--target", target) == 0
    stored, config = load_file(out / "model.safetensors"), json.loads((out / "config.json").read_text())
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == backbone()
    assert config.keys() >= ZLAB and config["architectures"] == ["DFlashDraftModel"]
    assert (config["num_target_layers"], config["block_size"]) == (2, BLOCK + 1)
    assert config["dflash_config"] == {"mask_token_id": 1, "target_layer_ids": [0, 1]}
    same_network(drafter, out)
    said = capsys.readouterr().out
    assert "SGLang (not run)" in said and f"--speculative-num-draft-tokens {BLOCK + 1}" in said
    assert "Left out: its Markov head" in said and f"all {VOCAB} words" in said


@pytest.mark.parametrize("rank", [0, 6])
@pytest.mark.parametrize("whole", [False, True])
def test_llama_cpp_takes_the_file(make: Make, target: Path, tmp_path: Path, rank: int, whole: bool) -> None:
    drafter, out = make(rank=rank, whole=whole), tmp_path / "out.gguf"
    assert export(drafter, "--to", "gguf", "--out", out, "--target", target) == 0
    reader, theirs = gguf.GGUFReader(out), gguf.GGUFReader(target)
    fields = {name.removeprefix("dflash."): field.contents() for name, field in reader.fields.items()}
    counts = {
        "block_count": 2, "embedding_length": WIDTH, "feed_forward_length": INNER, "attention.head_count": HEADS,
        "attention.head_count_kv": GROUPS, "attention.key_length": SIZE, "attention.value_length": SIZE,
        "rope.dimension_count": SIZE, "block_size": BLOCK + 1, "vocab_size": VOCAB, "context_length": 256,
        "sample_from_anchor": False, "attention.causal": False, "target_layers": [1, 2],
        "general.architecture": "dflash", "tokenizer.ggml.mask_token_id": 1,
    }  # fmt: skip
    assert fields.items() >= {**fields, **counts}.items()
    assert fields["rope.freq_base"] == 10000 and fields["attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)
    for name in ("model", "pre", "tokens", "merges", "token_type"):
        assert fields[f"tokenizer.ggml.{name}"] == theirs.fields[f"tokenizer.ggml.{name}"].contents()
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    model = from_folder(drafter).state_dict()
    renamed = {
        "fc": "fc", "enc.output_norm": "hidden_norm", "output_norm": "norm", "blk.1.ffn_down": "layers.1.mlp.down_proj",
        "blk.0.attn_norm": "layers.0.input_layernorm", "blk.1.attn_k_norm": "layers.1.self_attn.k_norm",
    }  # fmt: skip
    renamed |= {"markov_w1": "markov_head.markov_w1"} if rank else {}
    for name, ours in renamed.items():
        found = np.asarray(tensors[f"{name}.weight"].data, dtype=np.float32)
        np.testing.assert_allclose(found, model[f"{ours}.weight"].numpy(), rtol=1e-3, atol=1e-4)
    heads = {"markov_w1.weight", "markov_w2.weight"} if rank else set()
    own = set() if whole else {"output.weight", "d2t"}
    assert len(tensors) == 3 + 2 * 11 + len(heads) + len(own) and tensors.keys() >= heads | own
    if not whole:
        table = {tensor.name: tensor for tensor in theirs.tensors}["token_embd.weight"]
        output = tensors["output.weight"]
        assert output.tensor_type == table.tensor_type and np.array_equal(output.data, table.data[IDS.numpy()])
        assert (
            tensors["d2t"].tensor_type == gguf.GGMLQuantizationType.I64 and tensors["d2t"].data.tolist() == IDS.tolist()
        )


def test_a_head_that_no_engine_knows_is_left_out_and_named(
    make: Make, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = EMBEDDED / "block_markov"
    assert export(shipped, "--to", "speculators", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "--only head" in said and not [n for n in load_file(tmp_path / "out" / "model.safetensors") if "markov" in n]


@pytest.mark.parametrize("whole", [False, True])
def test_a_head_without_tables_is_written_with_dsparks(make: Make, target: Path, tmp_path: Path, whole: bool) -> None:
    """What a token adds to the next logits is the same from both, but for the bf16 of the file."""
    drafter, out = make(rank=6, whole=whole, own=True), tmp_path / "out"
    assert export(drafter, "--to", "speculators", "--out", out, "--target", target) == 0
    ours, theirs, (embedding, rows) = from_folder(drafter), from_folder(out), read_tables(resolve(str(target)))
    assert ours.markov is not None and theirs.markov_head is not None and theirs.markov is None
    state = torch.randn(WIDTH)
    wanted = rows.float() @ (ours.markov(state, embedding.float()) - state).T  # [next, token]
    head = theirs.markov_head
    added = (head.markov_w2.weight @ head.markov_w1.weight.T).float()
    known = slice(None) if whole else IDS
    assert torch.allclose(added[known], wanted[known], atol=0.02 * float(wanted.abs().max()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "onnx"], "as onnx"),
        (["--to", "eagle"], "as eagle"),
        (["--to", "gguf"], "The target is needed"),
        (["--to", "speculators"], "The target is needed: its files lack the target's tables"),
        (["--to", "z-lab"], "The target is needed"),
        (["--to", "gguf", "--target", "other"], "drafts for a GGUF file"),
        (["--to", "speculators", "--target", "other"], f"tables of {VOCAB} × {WIDTH}"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    given = [str(EMBEDDED / "target") if word == "other" else word for word in words]
    assert export(make(), *given, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert said in error and "hint: " in error and not (tmp_path / "out").exists()


def test_an_anchor_that_predicts_has_no_place_in_z_labs_layout(
    make: Make, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drafter = make(rank=6, sample_from_anchor=True)
    assert export(drafter, "--to", "z-lab", "--out", tmp_path / "out", "--target", target) == 2
    assert "its anchor's slot predicts" in capsys.readouterr().err
    assert export(drafter, "--to", "gguf", "--out", tmp_path / "out.gguf", "--target", target) == 0
    assert gguf.GGUFReader(tmp_path / "out.gguf").fields["dflash.sample_from_anchor"].contents() is True


def test_an_eagle_head_is_written_in_bf16_with_the_embedding(tmp_path: Path) -> None:
    drafter, out = tmp_path / "eagle", tmp_path / "out"
    shutil.copytree(EMBEDDED / "eagle", drafter)
    shrink(drafter)
    words = ["--to", "eagle", "--out", out, "--target", EMBEDDED / "target"]
    assert export(drafter, *words) == 0
    stored = load_file(out / "model.safetensors")
    assert "embed_tokens.weight" in stored and {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert not [name for name in stored if name.endswith("_scale")]


# llama.cpp itself.

PROMPTS = ("Once upon a time", "def add(a, b):", "Tom: Hi, how are you?")
NEW, GAMMA = 48, 8


@pytest.fixture(scope="module", params=["block", "block_markov"])
def lanes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """llama.cpp with the embedded target in fp32, plain and with the embedded block drafter, which has a random Markov
    head or none; and this lab with the same two."""
    pytest.importorskip(llama.PACKAGE, reason=f"pip install {llama.PACKAGE}")
    folder = tmp_path_factory.mktemp("llama")
    network = from_folder(EMBEDDED / "block")
    config, tensors = network.released, dict(network.state_dict())
    if chained := request.param == "block_markov":
        more = {"markov_width": 8, "sample_from_anchor": False}
        config = {**config, "dflash_config": {**config["dflash_config"], **more}}
        width, generator = network.shape.width, torch.Generator().manual_seed(0)
        shapes = {"before.weight": (8, width), "before.bias": (8,), "out.weight": (width, 8)}
        tensors |= {f"markov.{name}": 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    drafter = write_folder(folder / "drafter", config, tensors)
    convert(EMBEDDED / "target", target := folder / "target.gguf")
    assert export(drafter, "--to", "gguf", "--out", folder / "drafter.gguf", "--target", target) == 0
    spec = dataclasses.replace(EMBEDDED_PAIR.drafter(request.param), source=str(drafter))
    pair = load_pair(dataclasses.replace(EMBEDDED_PAIR, drafters=(spec, NONE)), choose_placement("cpu", "fp32"))
    drafts = llama.Drafts(llama.kind_for(spec), folder / "drafter.gguf", GAMMA)
    assert drafts.kind == ("DRAFT_DSPARK" if chained else "DRAFT_DFLASH")
    served = [llama.serve(target, 2), llama.serve(target, 2, drafts)]
    plain, drafted = (ask(server.address) for server in served)
    return {"plain": plain, "drafted": drafted, "ours": Engine(pair), "name": spec.name}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_llama_cpp_drafts_as_we_do(lanes: dict[str, Any], prompt: str) -> None:
    """The same weights in fp32, the drafter's in fp16: its text is its own plain text and ours, and at each position it
    accepts as much as we do, but for rounding; all of it read from a real server."""
    config = DecodeConfig(max_new_tokens=NEW, ignore_eos=True, gamma=GAMMA, drafter=lanes["name"])
    runs = {name: list(lanes[name].decode(prompt, config)) for name in ("plain", "drafted", "ours")}
    plain, drafted, ours = (final(run) for run in runs.values())
    assert plain and drafted and ours and drafted.text == plain.text == ours.text and len(drafted.ids) == NEW
    assert plain.quoted is not None and plain.quoted.drafts is None, "it drafts nothing"
    quoted, metrics = drafted.quoted, fold(runs["ours"])
    assert quoted is not None and quoted.drafts == pytest.approx(metrics.tested_at[0], abs=1)
    wanted = (*metrics.accepted_at, *[0] * GAMMA)[:GAMMA]
    assert quoted.by_position == pytest.approx(wanted, abs=1) and sum(quoted.by_position) == quoted.accepted
    assert fold(runs["drafted"]).rounds == 0, "it reports no round by itself, so none is drawn"
