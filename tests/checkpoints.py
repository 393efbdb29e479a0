"""Tiny checkpoints in released formats, and the texts that engines over them decode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from specdiff_core.engine import Engine
from specdiff_core.models.device import choose_placement
from specdiff_core.models.mdlm import Mdlm, MdlmConfig
from specdiff_core.schema.events import Finished
from specdiff_core.schema.pairs import NONE, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig, Rule

CPU = choose_placement("cpu", "fp32")
TEXT = "the cat sat on the mat and the dog sat on the cat " * 4
SMALL = ["--new-tokens", "24", "--longest", "60", "--words", "270", "--rows", "8", "--anchors", "8", "--markov", "16"]
"""Options with which a drafter is trained in seconds."""
IDS = 280
LLAMA: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0,
    "tie_word_embeddings": False,
}  # fmt: skip


def save_tokenizer(folder: Path) -> int:
    """A byte-level tokenizer of 270 ids, of which 0 ends a text; returns their number."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    end = "<|endoftext|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, unk_token=end)
    fast.save_pretrained(folder)
    return len(fast)


def save_target(folder: Path, vocab_size: int, end: int = 0) -> None:
    """A GPT-2 with a context of 64."""
    torch.manual_seed(0)
    sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, **sizes, bos_token_id=0, eos_token_id=end)).save_pretrained(
        folder
    )


def save_drafter(folder: Path, vocab_size: int) -> None:
    """MDLM's released format: one more id, the mask; ``backbone.`` names, float32, one file."""
    torch.manual_seed(1)
    config = MdlmConfig(vocab_size=vocab_size, model_length=48, hidden_dim=16, cond_dim=4, n_blocks=2, n_heads=2)
    values = {k: v for k, v in msgspec.structs.asdict(config).items() if k != "mask_token_id"}
    values |= {
        "architectures": ["MDLM"],
        "model_type": "mdlm",
        "torch_dtype": "float32",
        "auto_map": {"AutoModelForMaskedLM": "modeling_mdlm.MDLM"},
    }
    model = Mdlm(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save(folder, model.state_dict(), values)


def pair_of(folder: Path, name: str, *, context: int = 64, **declared: Any) -> PairSpec:
    """A pair of ``folder / 'target'`` and the drafter ``name`` in ``folder / 'drafter'``."""
    spec = DrafterSpec(name=name, label="", source=str(folder / "drafter"), **declared)
    return PairSpec(name="tiny", label="Tiny", target=str(folder / "target"), context=context, drafters=(spec, NONE))


def close(ours: torch.Tensor, theirs: torch.Tensor, share: float = 1e-5) -> None:
    """No number differs by more than a share of the largest."""
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) <= share * float(theirs.abs().max())


def randomly(model: Any, seed: int = 3) -> Any:
    """``model`` with normal weights."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    return model.eval()


def save(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any], shards: int = 1) -> None:
    """``config.json`` and safetensors: one file, or shards with their index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    placed = {name: f"model-{1 + i % shards:05}-of-{shards:05}.safetensors" for i, name in enumerate(tensors)}
    for file in sorted(set(placed.values())):
        save_file({name: tensors[name] for name in tensors if placed[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))


def change(folder: Path | str, **values: Any) -> None:
    """Set fields of a ``config.json``."""
    path = Path(folder) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def finished(engine: Engine, prompt: str = "the cat", **settings: Any) -> Finished:
    """The end of a run; by default of 12 tokens, whatever their ids."""
    values = {"gamma": 4, "max_new_tokens": 12, "ignore_eos": True, **settings}
    *_, done = engine.decode(prompt, DecodeConfig.parse({"pair": engine.pair.spec.name, **values}), detail=False)
    assert isinstance(done, Finished)
    return done


def same_text(engine: Engine, *drafters: str, prompt: str = "the cat", **settings: Any) -> Finished:
    """The end of vanilla's greedy run; every drafter's text is the same under two rules."""
    vanilla = finished(engine, prompt, drafter="none", **settings)
    for name in drafters:
        for rule in (Rule.RATIO, Rule.MATCH):
            assert finished(engine, prompt, drafter=name, rule=rule, **settings).ids == vanilla.ids, (name, rule)
    return vanilla


def save_counter(folder: Path, vocabulary: int, seed: int = 0) -> None:
    """A Llama whose layers add nothing: behind token t it says t + 1, whatever came before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=vocabulary, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            bos_token_id=0, eos_token_id=0, tie_word_embeddings=False,
        )  # fmt: skip
        model = LlamaForCausalLM(config)
        rows = torch.nn.functional.normalize(torch.randn(vocabulary, 64), dim=-1)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(rows)
        model.lm_head.weight.copy_(rows.roll(1, 0))
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    model.save_pretrained(folder)


def gpt2(folder: Path) -> tuple[Any, int]:
    """A denoiser in the format of its causal family; a word serves as its mask."""
    config = GPT2Config(vocab_size=IDS, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    model = randomly(GPT2LMHeadModel(config))
    save(folder, dict(model.state_dict()), model.config.to_dict())
    return model, 105


def llama(folder: Path) -> tuple[Any, int]:
    model = randomly(LlamaForCausalLM(LlamaConfig(vocab_size=IDS, **LLAMA)))
    save(folder, dict(model.state_dict()), model.config.to_dict(), shards=2)
    return model, 81


def dream(folder: Path) -> tuple[Any, int]:
    """Dream and DiffuCoder: Qwen2 under a class of their own, which is remote code."""
    model = randomly(Qwen2ForCausalLM(Qwen2Config(vocab_size=IDS + 8, **LLAMA)))
    remote = {"AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"}
    values = {**model.config.to_dict(), "model_type": "Dream", "architectures": ["DreamModel"], "auto_map": remote}
    values |= {"mask_token_id": IDS + 2, "use_sliding_window": False, "max_window_layers": 28}
    save(folder, dict(model.state_dict()), values, shards=3)
    return model, IDS + 2
