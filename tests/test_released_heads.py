"""Drafters that read their target, in the exact layouts of their releases: tiny checkpoints on the
public path, each held against plain float64 arithmetic, written down here from the public
descriptions, on features of transformers' target."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import CPU, change, finished, pair_of, randomly, same_text, save, save_tokenizer
from dflash_files import (
    DEPTH,
    EPSILON,
    GROUPS,
    HEADS,
    IDS,
    LAYERS,
    SHAPE,
    SIZE,
    THETA,
    WIDTH,
    Shapes,
    Tensors,
    block_tensors,
    fields,
    layer,
    matrices,
)
from safetensors.torch import load_file, save_file
from tables import drafted
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.dflash import CONFIDENCE, COPIES
from specdiff_core.models.target import Target
from specdiff_core.schema.pairs import EMBEDDED, NONE, PairSpec

ZLAB: dict[str, Any] = {"mask_token_id": 275, "target_layer_ids": LAYERS}
PROMPT = [7, 3, 200, 41, 5, 9, 17, 101, 33, 250, 8, 19, 64, 2, 77, 90, 11, 130, 45, 6]


def llama() -> PreTrainedModel:
    """Of the shape of Llama 3.1, with its scaled rotary positions."""
    rope = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**SHAPE, num_hidden_layers=DEPTH, rope_parameters=rope))


def qwen() -> PreTrainedModel:
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_hidden_layers=DEPTH))


# What the drafters compute, in float64, without caches.


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions of ``x [n, heads, D]``."""
    half = SIZE // 2
    angles = (positions[:, None] * THETA ** (-torch.arange(half, dtype=torch.float64) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def attention(w: Tensors, asks: Tensor, read: Tensor, at: Tensor, of: Tensor, seen: Tensor) -> Tensor:
    """``asks [n, ·]`` at ``at [n]`` read ``read [m, ·]`` at ``of [m]`` where ``seen [n, m]``."""

    def heads(kind: str, states: Tensor, positions: Tensor) -> Tensor:
        found = states @ w[f"self_attn.{kind}_proj.weight"].T + w.get(f"self_attn.{kind}_proj.bias", torch.zeros(1))
        found = found.view(len(states), -1, SIZE)
        if (norm := w.get(f"self_attn.{kind}_norm.weight")) is not None:
            found = rms(found, norm)
        return found if kind == "v" else turned(found, positions)

    q, k, v = heads("q", asks, at), heads("k", read, of), heads("v", read, of)
    k, v = (part.repeat_interleave(HEADS // GROUPS, 1) for part in (k, v))
    scores = torch.einsum("nhd,mhd->hnm", q, k) / SIZE**0.5
    mixed = torch.einsum("hnm,mhd->nhd", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)
    return mixed.flatten(1) @ w["self_attn.o_proj.weight"].T + w.get("self_attn.o_proj.bias", torch.zeros(1))


def swiglu(w: Tensors, x: Tensor) -> Tensor:
    gate = x @ w["mlp.gate_proj.weight"].T
    return (gate * gate.sigmoid() * (x @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T


def convolved(states: Tensor, w: Tensors, name: str, by: Tensor, side: int) -> Tensor:
    """DFlash 2's two-tap convolution of ``states``, whose kernel depends on the states ``by``."""
    if name + ".base_kernel" not in w:
        return states
    base, projection = w[name + ".base_kernel"], w[name + ".kernel_projection.weight"]
    taps, groups = base.shape[1], len(projection) // 2 // base.shape[1]
    own = (by @ projection.T).view(len(by), 2, taps, groups)
    out = torch.zeros_like(states)
    for slot in range(len(states)):
        for tap in range(min(taps, slot + 1)):
            kernel = base[side, tap] + own[slot, side, tap].repeat_interleave(WIDTH // groups)
            out[slot] += kernel * states[slot - tap]
    return out


def part(w: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in w.items() if name.startswith(prefix)}


def block_states(w: Tensors, features: Tensor, block: Tensor, reach: Callable[[int, int, int], bool]) -> Tensor:
    """A block ``[b, W]`` behind ``features [n, F]``; ``reach(layer, query, key)``: what is read."""
    context = rms(features @ w["fc.weight"].T, w["hidden_norm.weight"])
    known, size = len(context), len(block)
    positions, hidden = torch.arange(known + size), block
    for i in range(len({name.split(".")[1] for name in w if name.startswith("layers.")})):
        p = part(w, f"layers.{i}.")
        seen = torch.tensor([[reach(i, q, k) for k in range(known + size)] for q in range(known, known + size)])
        normed = rms(hidden, p["input_layernorm.weight"])
        states = convolved(normed, p, "attention_conv", normed, 0)
        found = attention(p, states, torch.cat([context, states]), positions[known:], positions, seen)
        hidden = hidden + convolved(found, p, "attention_conv", normed, 1)
        normed = rms(hidden, p["post_attention_layernorm.weight"])
        found = swiglu(p, convolved(normed, p, "mlp_conv", normed, 0))
        hidden = hidden + convolved(found, p, "mlp_conv", normed, 1)
    return rms(hidden, w["norm.weight"])


@dataclasses.dataclass(kw_only=True)
class Release:
    """A checkpoint on disk, and what it must say."""

    spec: dict[str, Any]
    layers: list[int]
    logits: Callable[[Tensors, list[int], list[int]], Tensor]  # (features, text, drafted) -> [γ, V]
    can_say: int = IDS  # words of which any may be drafted
    marginals: bool = True  # whether q has all of them; else the best of a slot


def doubled(tensors: Tensors) -> Tensors:
    return {name: tensor.double() for name, tensor in tensors.items()}


def tables(target: PreTrainedModel) -> tuple[Tensor, Tensor]:
    return target.get_input_embeddings().weight.detach().double(), target.lm_head.weight.detach().double()


def block_release(
    target: PreTrainedModel,
    tensors: Tensors,
    *,
    mask: int,
    lead: int,
    reach: Callable[[int, int, int], bool] = lambda *_: True,
    chain: Callable[[Tensors, Tensor, Tensor, int], Tensor] | None = None,
    speak: Callable[[Tensor], Tensor] = lambda logits: logits,
    **more: Any,
) -> Release:
    """A block drafter; ``chain(w, state, marginal, before)`` -> logits behind ``before``."""
    w, (embedding, head) = doubled(tensors), tables(target)

    def logits(features: dict[int, Tensor], text: list[int], drafted: list[int]) -> Tensor:
        known = torch.cat([features[i] for i in LAYERS], -1)[: len(text) - 1]
        block = [text[-1], *[mask] * (len(drafted) - 1 + lead)]
        states = block_states(w, known, embedding[block], reach)[lead:]
        said = speak(states @ head.T)
        if chain is None:
            return said
        before = [text[-1], *drafted]
        return torch.stack([chain(w, states[i], said[i], before[i]) for i in range(len(drafted))])

    chained = any("markov" in name for name in tensors)
    return Release(spec={"module": "block_diffusion", "chained": chained}, layers=LAYERS, logits=logits, **more)


def zlab(folder: Path, target: PreTrainedModel) -> Release:
    """z-lab's DFlash for Qwen3, four of five layers sliding and therefore causal."""
    tensors, kinds = block_tensors(5), [*["sliding_attention"] * 4, "full_attention"]
    values = fields(
        5, architectures=["DFlashDraftModel"], layer_types=kinds, sliding_window=6,
        use_sliding_window=True, num_target_layers=DEPTH, block_size=16,
        auto_map={"AutoModel": "dflash.DFlashDraftModel"}, dflash_config=ZLAB,
    )  # fmt: skip
    save(folder, tensors, values, shards=2)
    return block_release(target, tensors, mask=275, lead=1, reach=lambda i, q, k: i == 4 or q - 6 < k <= q)


def zlab_llama(folder: Path, target: PreTrainedModel, **own: Any) -> Release:
    """… and for Llama 3.1, in blocks of ten; here with biases, which its config allows."""
    sizes = {"q": HEADS * SIZE, "k": GROUPS * SIZE, "v": GROUPS * SIZE, "o": WIDTH}
    biases = {f"layers.{i}.self_attn.{kind}_proj.bias": (size,) for i in range(2) for kind, size in sizes.items()}
    tensors = block_tensors(2, **biases)
    special = {"mask_token_id": 276, "target_layer_ids": LAYERS, **own}
    values = fields(2, attention_bias=True, num_target_layers=DEPTH, block_size=10, dflash_config=special)
    save(folder, tensors, values)
    return block_release(target, tensors, mask=276, lead=0 if own else 1)


def markov_head(rank: int, words: int = IDS) -> Shapes:
    """Names and shapes of DSpark's head."""
    return {"markov_head.markov_w1.weight": (IDS, rank), "markov_head.markov_w2.weight": (words, rank)}


def copies_of(target: PreTrainedModel) -> Tensors:
    """The target's tables, as some files repeat them."""
    tables = (target.get_input_embeddings().weight.detach(), target.lm_head.weight.detach())
    return dict(zip(COPIES, tables, strict=True))


def deepspec(folder: Path, target: PreTrainedModel, *, rank: int = 0, lead: int = 0, **own: Any) -> Release:
    """DeepSpec's DFlash (no rank) and DSpark: every slot predicts; with the target's tables. ``own``: other fields."""
    more = {"confidence_head.proj.weight": (1, WIDTH + rank), "confidence_head.proj.bias": (1,)}
    tensors = block_tensors(2, **({**markov_head(rank), **more} if rank else {}))
    values = fields(
        2, architectures=["Qwen3DSparkModel"], num_target_layers=DEPTH, mask_token_id=275,
        target_layer_ids=LAYERS, layer_types=["full_attention"] * 2, num_anchors=512,
        enable_confidence_head=bool(rank), block_size=7, confidence_head_with_markov=True,
        markov_rank=rank, markov_head_type="vanilla",
    ) | own  # fmt: skip
    save(folder, tensors | copies_of(target), values)
    chain = pair_bias if rank else None
    return block_release(target, tensors, mask=275, lead=lead, chain=chain, marginals=not rank)


def pair_bias(w: Tensors, state: Tensor, marginal: Tensor, before: int) -> Tensor:
    said = w["markov_head.markov_w1.weight"][before]
    if (gate := w.get("markov_head.gate_proj.weight")) is not None:
        said = said * (gate @ torch.cat([state, said]) + w["markov_head.gate_proj.bias"]).sigmoid()
    return marginal + w["markov_head.markov_w2.weight"] @ said


def specforge(folder: Path, target: PreTrainedModel) -> Release:
    """DSpark in SpecForge's layout, which is z-lab's, with a gate."""
    rank = 6
    gate = {"markov_head.gate_proj.weight": (rank, WIDTH + rank), "markov_head.gate_proj.bias": (rank,)}
    tensors = block_tensors(2, **markov_head(rank), **gate)
    special = {"attention_mode": "gqa", "mask_token_id": 275, "target_layer_ids": LAYERS, "projector_type": "dspark",
               "markov_rank": rank, "markov_head_type": "gated", "enable_confidence_head": False}  # fmt: skip
    save(folder, tensors, fields(2, num_target_layers=DEPTH, block_size=7, rope_scaling=None, dflash_config=special))
    return block_release(target, tensors, mask=275, lead=0, chain=pair_bias, marginals=False)


def speculators(folder: Path, target: PreTrainedModel) -> Release:
    """DSpark in the layout of speculators, for a part of the target's words."""
    said, rank = torch.arange(0, 240, 3), 6
    tensors = block_tensors(2, **markov_head(rank, len(said)))
    maps = {"d2t": said - torch.arange(len(said)), "t2d": torch.zeros(IDS, dtype=torch.bool).index_fill(0, said, True)}
    copies = copies_of(target)
    copies["lm_head.weight"] = copies["lm_head.weight"][said]
    values = speculators_config("dspark", sample_from_anchor=True, markov_rank=rank, draft_vocab_size=len(said))
    save(folder, tensors | copies | maps, values)
    whole = torch.zeros(IDS, rank, dtype=torch.float64)
    whole[said] = tensors["markov_head.markov_w2.weight"].double()
    tensors = tensors | {"markov_head.markov_w2.weight": whole}
    unsaid = torch.ones(IDS, dtype=torch.bool).index_fill(0, said, False)
    return block_release(
        target, tensors, mask=275, lead=0, chain=pair_bias, marginals=False, can_say=len(said),
        speak=lambda logits: logits.masked_fill(unsaid, -torch.inf),
    )  # fmt: skip


def speculators_config(kind: str, layers: int = 2, **own: Any) -> dict[str, Any]:
    return {"speculators_model_type": kind, "transformer_layer_config": fields(layers), "block_size": 7,
            "mask_token_id": 275, "aux_hidden_state_layer_ids": [i + 1 for i in LAYERS], "draft_vocab_size": IDS,
            "speculators_config": {"algorithm": kind, "verifier": {"name_or_path": "tiny"}}, **own}  # fmt: skip


def selected(best: int) -> Callable[[Tensors, Tensor, Tensor, int], Tensor]:
    def chain(w: Tensors, state: Tensor, marginal: Tensor, before: int) -> Tensor:
        name = "candidate_selector."
        said = w[name + "predecessor_codebook"][before] * (w[name + "hidden_projection.weight"] @ state)
        kept = torch.full_like(marginal, -torch.inf)
        ids = marginal.topk(best).indices
        kept[ids] = marginal[ids] + w[name + "successor_codebook"][ids] @ said
        return kept

    return chain


def dflash2_tensors(count: int, rank: int = 8) -> Tensors:
    more: dict[str, tuple[int, ...]] = {
        "candidate_selector.predecessor_codebook": (IDS, rank),
        "candidate_selector.successor_codebook": (IDS, rank),
        "candidate_selector.hidden_projection.weight": (rank, WIDTH),
    }
    for i in range(count):
        for name in ("attention_conv", "mlp_conv"):
            more[f"layers.{i}.{name}.base_kernel"] = (2, 2, WIDTH)
            more[f"layers.{i}.{name}.kernel_projection.weight"] = (2 * 2 * (WIDTH // 16), WIDTH)
    tensors = block_tensors(count, **more)
    for name in tensors:
        if name.endswith("base_kernel"):
            tensors[name][:, 0] += 1.0  # mostly the slot itself
    return tensors


def dflash2(folder: Path, target: PreTrainedModel) -> Release:
    """z-lab's DFlash 2: sliding layers that read both ways, logits scaled and capped."""
    tensors = dflash2_tensors(2)
    special = {"block_size": 8, "conv_group_size": 16, "conv_kernel_size": 2, "final_logit_softcapping": 5.0,
               "mask_token_id": 275, "output_multiplier": 0.4, "selector_rank": 8, "selector_top_k": 16,
               "target_layer_ids": LAYERS}  # fmt: skip
    values = fields(
        2, architectures=["DFlash2DraftModel"], is_causal=False, num_target_layers=DEPTH, dflash_config=special
    )
    kinds = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 9, "use_sliding_window": True}
    save(folder, tensors, values | kinds)
    return block_release(
        target, tensors, mask=275, lead=1, chain=selected(16), can_say=16, marginals=False,
        reach=lambda _, q, k: abs(q - k) < 9, speak=lambda logits: 5 * (logits * 0.4 / 5).tanh(),
    )  # fmt: skip


def dflash2_speculators(folder: Path, target: PreTrainedModel) -> Release:
    tensors = dflash2_tensors(1)
    own = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 8, "selector_top_k": 12}
    save(folder, tensors, speculators_config("dflash2", layers=1, sample_from_anchor=False, **own))
    return block_release(target, tensors, mask=275, lead=1, chain=selected(12), can_say=12, marginals=False)


def continued(
    step: Callable[[Tensor, Tensor], Tensor],
    speak: Callable[[Tensor], Tensor],
    first: Callable[..., Tensor],
    embedding: Tensor,
) -> Callable[[dict[int, Tensor], list[int], list[int]], Tensor]:
    """Whole passes over (embedding of the next token, feature); the output is the next feature."""

    def logits(features: dict[int, Tensor], text: list[int], drafted: list[int]) -> Tensor:
        states, rows = first(features)[: len(text) - 1], []
        for i in range(len(drafted)):
            found = step(embedding[[*text[1:], *drafted[:i]]], states)
            rows.append(speak(found[-1]))
            states = torch.cat([states, found[-1:]])
        return torch.stack(rows)

    return logits


def causally(w: Tensors, read: Tensor, residual: Tensor) -> Tensor:
    positions = torch.arange(len(read))
    hidden = residual + attention(w, read, read, positions, positions, positions[:, None] >= positions[None, :])
    return hidden + swiglu(w, rms(hidden, w["post_attention_layernorm.weight"]))


EAGLE = {"module": "eagle", "drafting": "sequential", "trees": True}


def eagle(folder: Path, target: PreTrainedModel) -> Release:
    """EAGLE as its authors release it (for Qwen2 with biases in the attention)."""
    shapes = layer("layers.0.", without="input_layernorm.weight")
    shapes |= {"fc.weight": (WIDTH, 2 * WIDTH), "fc.bias": (WIDTH,), "layers.0.self_attn.q_proj.bias": (HEADS * SIZE,)}
    shapes |= {f"layers.0.self_attn.{kind}_proj.bias": (GROUPS * SIZE,) for kind in "kv"}
    tensors = matrices(**shapes)
    values = fields(1, "llama", architectures=["LlamaForCausalLM"], qkv_bias=True)
    del values["attention_bias"]
    save(folder, tensors | {COPIES[0]: copies_of(target)[COPIES[0]]}, values)
    w, (embedding, head) = doubled(tensors), tables(target)

    def step(said: Tensor, states: Tensor) -> Tensor:
        joined = torch.cat([said, states], -1) @ w["fc.weight"].T + w["fc.bias"]
        return causally(part(w, "layers.0."), joined, joined)

    logits = continued(step, lambda state: head @ state, lambda features: features[DEPTH - 1], embedding)
    return Release(spec=EAGLE, layers=[DEPTH - 1], logits=logits)


def eagle3(
    folder: Path,
    target: PreTrainedModel,
    *,
    layers: list[int],
    prefix: str,
    values: dict[str, Any],
    said: Tensor | None,
    head_norms: bool = False,
    own_words: bool = False,
    normed_residual: bool = False,
) -> Release:
    words = IDS if said is None else len(said)
    shapes = layer(prefix, inputs=2 * WIDTH, head_norms=head_norms) | {prefix + "hidden_norm.weight": (WIDTH,)}
    shapes |= {"fc.weight": (WIDTH, len(layers) * WIDTH), "norm.weight": (WIDTH,), "lm_head.weight": (words, WIDTH)}
    if own_words:
        shapes["embed_tokens.weight"] = (IDS, WIDTH)
    tensors, maps = matrices(**shapes), {}
    if said is not None:
        known = torch.zeros(IDS, dtype=torch.bool).index_fill(0, said, True)
        maps = {"d2t": said - torch.arange(words), "t2d": known}
    save(folder, tensors | maps, values)
    w, (embedding, _) = doubled(tensors), tables(target)
    mid = part(w, prefix)

    def step(text: Tensor, states: Tensor) -> Tensor:
        normed = rms(states, mid["hidden_norm.weight"])
        read = torch.cat([rms(text, mid["input_layernorm.weight"]), normed], -1)
        return causally(mid, read, normed if normed_residual else states)

    def speak(state: Tensor) -> Tensor:
        found = w["lm_head.weight"] @ rms(state, w["norm.weight"])
        return found if said is None else torch.full((IDS,), -torch.inf, dtype=found.dtype).index_copy(0, said, found)

    def first(features: dict[int, Tensor]) -> Tensor:
        return torch.cat([features[i] for i in layers], -1) @ w["fc.weight"].T

    logits = continued(step, speak, first, w.get("embed_tokens.weight", embedding))
    return Release(spec=EAGLE, layers=layers, logits=logits, can_say=words)


EAGLE3: dict[str, tuple[Callable[[], PreTrainedModel], dict[str, Any]]] = {
    # As its authors release it: 32,000 of the words (here 100), layers that nobody names.
    "EAGLE-3": (llama, {
        "layers": [1, 3, 5], "prefix": "midlayer.", "said": torch.arange(5, 205, 2),
        "values": fields(1, "llama", architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=100),
    }),
    "EAGLE-3, ModelOpt": (llama, {
        "layers": [0, 4, 7], "prefix": "midlayer.", "said": None,
        "values": fields(1, "llama", draft_vocab_size=IDS, eagle_config={
            "eagle_aux_hidden_state_layer_ids": [0, 4, 7], "use_aux_hidden_state": True,
        }),
    }),
    "EAGLE-3, speculators": (llama, {
        "layers": [2, 4, 7], "prefix": "layers.0.", "said": torch.arange(0, 270, 3), "own_words": True,
        "normed_residual": True, "values": {
            "speculators_model_type": "eagle3", "transformer_layer_config": fields(1, "llama"),
            "draft_vocab_size": 90, "norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [3, 5, 8],
        },
    }),
    # Five layers, a layer of Qwen3's kind, all words.
    "EAGLE-3, DeepSpec": (qwen, {
        "layers": LAYERS, "prefix": "layers.0.", "said": None, "head_norms": True, "own_words": True, "values": fields(
            1, architectures=["Qwen3Eagle3Model"], target_layer_ids=LAYERS, ttt_length=7, step_loss_decay=0.8,
        ),
    }),
}  # fmt: skip
RELEASES: dict[str, tuple[Callable[[], PreTrainedModel], Callable[[Path, PreTrainedModel], Release]]] = {
    "DFlash, z-lab, Qwen3": (qwen, zlab),
    "DFlash, z-lab, Llama 3.1": (llama, zlab_llama),
    "DFlash, DeepSpec": (qwen, deepspec),
    # What is read is the fields: a name, as others give it to these files, and a slot that fills itself in.
    "DFlash, DeepSpec, renamed": (qwen, partial(deepspec, architectures=["DFlashDraftModel"])),
    "DSpark, DeepSpec, filled in": (qwen, partial(deepspec, rank=6, lead=1, sample_from_anchor=False)),
    "DFlash, z-lab, from the anchor": (qwen, partial(zlab_llama, query_zero_predicts_next=True)),
    "DSpark, DeepSpec": (qwen, lambda folder, target: deepspec(folder, target, rank=6)),
    "DSpark, SpecForge": (qwen, specforge),
    "DSpark, speculators": (qwen, speculators),
    "DFlash 2, z-lab": (qwen, dflash2),
    "DFlash 2, speculators": (qwen, dflash2_speculators),
    "EAGLE": (llama, eagle),
    **{name: (make, partial(eagle3, **values)) for name, (make, values) in EAGLE3.items()},
}


def saved(make: Callable[[], PreTrainedModel], folder: Path) -> PreTrainedModel:
    """A target, also saved in ``folder / 'target'``."""
    torch.manual_seed(1)
    target = randomly(make())
    target.save_pretrained(folder / "target")
    save_tokenizer(folder / "target")
    return target


def released(name: str, folder: Path) -> tuple[PairSpec, PreTrainedModel, Release]:
    make, write = RELEASES[name]
    target = saved(make, folder)
    release = write(folder / "drafter", target)
    return pair_of(folder, "released", context=128, **release.spec), target, release


def features_of(target: PreTrainedModel, ids: list[int]) -> dict[int, Tensor]:
    """What transformers' own module, in float64, says behind each layer."""
    with torch.no_grad():
        states = target.double()(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return {i: states[i + 1][0] for i in range(DEPTH)}


@pytest.mark.parametrize("name", RELEASES)
def test_q_is_what_plain_arithmetic_says_and_the_text_is_the_targets(name: str, tmp_path: Path) -> None:
    """q in a second round, after keys and values of a first; texts as a window and as a tree."""
    pair, target, release = released(name, tmp_path)
    loaded = load_pair(pair, CPU)
    assert not loaded.missing, loaded.missing
    drafter = loaded.drafters["released"]
    assert list(drafter.layers) == release.layers
    reads = Target(loaded.model, context=128).start(drafter.layers)
    session, seen = drafter.start(), 0
    for length in (12, len(PROMPT)):
        session.observe(PROMPT[seen : length - 1], reads.read(PROMPT[seen : length - 1]))
        seen = length - 1
        draft = drafted(session, PROMPT[:length], 5)
    draft.check(5, IDS)
    assert draft.probs is not None and len(draft.ids) == 5 and all(draft.exact_q)
    features = features_of(target, PROMPT[:-1])
    expected = release.logits(features, PROMPT, list(draft.ids))
    kept = draft.probs > 0
    most = release.can_say if release.marginals else min(64, release.can_say)
    assert all(most - 1 <= count <= most for count in kept.sum(-1).tolist()), "all but the mask"
    assert not bool(torch.isinf(expected[kept]).any())
    expected = expected.masked_fill(~kept, -torch.inf).log_softmax(-1)
    assert float((draft.probs.log() - expected)[kept].abs().max()) <= 3e-4  # logarithms, in fp32
    engine = Engine(loaded)
    plain = same_text(engine, "released", max_new_tokens=6)
    assert finished(engine, drafter="released", tree_nodes=8, max_new_tokens=6).ids == plain.ids


def test_a_confidence_head_says_how_far_a_draft_goes(tmp_path: Path) -> None:
    """DSpark's: it is asked before each token, about the slot's state and the token before it."""
    pair, target, _ = released("DSpark, DeepSpec", tmp_path)
    loaded = load_pair(pair, CPU)
    drafter = loaded.drafters["released"]
    session, asked = drafter.start(), []
    session.observe(PROMPT[:-1], Target(loaded.model, context=128).start(drafter.layers).read(PROMPT[:-1]))

    def note(confidences: Any) -> int:
        asked.append(tuple(confidences))
        return len(confidences) if len(confidences) < 4 else 3

    draft = drafted(session, PROMPT, 5, stop_criterion=note)
    assert len(draft.ids) == 3 and [len(row) for row in asked] == [1, 2, 3, 4]
    w, (embedding, _) = doubled(load_file(tmp_path / "drafter" / "model.safetensors")), tables(target)
    features = features_of(target, PROMPT[:-1])
    known = torch.cat([features[i] for i in LAYERS], -1)
    states = block_states(w, known, embedding[[PROMPT[-1], *[275] * 4]], lambda *_: True)
    before = w["markov_head.markov_w1.weight"][[PROMPT[-1], *draft.ids]]
    beside = torch.cat([states[:4], before], -1)
    expected = (beside @ w["confidence_head.proj.weight"][0] + w["confidence_head.proj.bias"]).sigmoid()
    torch.testing.assert_close(torch.tensor(asked[-1]).double(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("window", [None, 6])
def test_the_network_is_that_of_transformers(window: int | None, tmp_path: Path) -> None:
    """Its own DFlash network, under z-lab's names, in its own DFlash loop. Of a sliding window it
    counts the edge in, which FlashAttention, vLLM and z-lab's code do not: it is one less."""
    assistant = pytest.importorskip("transformers.models.muse_glimmer_assistant", reason="this transformers lacks it")
    kinds = ["sliding_attention" if window else "full_attention", "full_attention"]
    sizes = {name: SHAPE[name] for name in SHAPE if name.startswith(("hidden", "inter", "num", "head", "rms"))}
    config = assistant.MuseGlimmerAssistantConfig(
        **sizes,
        num_hidden_layers=2,
        block_size=10,
        mask_token_id=275,
        target_layer_ids=LAYERS,
        layer_types=kinds,
        sliding_window=(window or 65) - 1,
        rope_parameters={"rope_theta": THETA, "rope_type": "default"},
    )
    network = randomly(assistant.MuseGlimmerAssistantModel(config))
    target = saved(llama, tmp_path)
    renamed = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
    values = fields(
        2, layer_types=kinds, block_size=10, sliding_window=window, use_sliding_window=bool(window),
        is_causal=False, num_target_layers=DEPTH, dflash_config=ZLAB,
    )  # fmt: skip
    tensors = {renamed.get(name, name): tensor for name, tensor in network.state_dict().items()}
    save(tmp_path / "drafter", tensors, values, shards=3)
    loaded = load_pair(pair_of(tmp_path, "released", context=128, module="block_diffusion"), CPU)
    drafter = loaded.drafters["released"]
    asked: list[tuple[list[int], Tensor]] = []  # by their loop: the text so far, logits

    def note(module: Any, args: Any, given: dict[str, Any], out: Any) -> None:
        asked.append((given["position_ids"][0].tolist(), target.lm_head(out.last_hidden_state[0, 1:])))

    network.register_forward_hook(note, with_kwargs=True)
    plainly = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    prompt = torch.tensor([PROMPT])
    ids = target.generate(prompt, assistant_model=network, speculation_type="dflash", **plainly)[0].tolist()
    assert ids == target.generate(prompt, **plainly)[0].tolist()
    found: list[Tensor] = []
    plain = drafter.denoise
    drafter.denoise = lambda *args: (found.append(plain(*args)[1]), plain(*args))[1]
    reads, session, seen = Target(loaded.model, context=128).start(drafter.layers), drafter.start(), 0
    for positions, expected in asked:
        anchor = positions[-10]
        session.observe(ids[seen:anchor], reads.read(ids[seen:anchor]))
        seen = anchor
        drafted(session, ids[: anchor + 1], 9)
        assert float((found[-1] - expected).abs().max()) <= 1e-4
    assert len(asked) > 5 and len(asked) == len(found)


def why_missing(pair: PairSpec) -> str:
    return load_pair(pair, CPU).missing.get("released", "")


CHANGES: list[tuple[str, dict[str, Any], str]] = [  # release, change of config.json, reason
    ("DSpark, DeepSpec", {"target_layer_ids": [1, 2, 4, 5, 9]}, "it reads layer 9 of 9 layers, the target has 9"),
    ("DSpark, DeepSpec", {"num_target_layers": 12}, "layer 6 of 12 layers, the target has 9"),
    ("DSpark, DeepSpec", {"mask_token_id": 400}, "its mask id is 400, the target's table has 280 rows"),
    ("DSpark, DeepSpec", {"markov_head_type": "rnn"}, "its Markov head is of the kind 'rnn'"),
    ("DSpark, DeepSpec", {"hidden_size": 2**20, "intermediate_size": 2**20}, "shape"),
    ("DSpark, DeepSpec", {"hidden_act": "gelu"}, "its activation is gelu"),
    ("DSpark, DeepSpec", {"layer_types": ["chunked_attention"] * 2}, "of the kind 'chunked_attention'"),
    ("DSpark, DeepSpec", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "of the kind 'dynamic'"),
    ("DSpark, DeepSpec", {"rope_scaling": {"rope_type": "linear", "factor": 0.0}}, "are not finite"),
    ("DSpark, speculators", {"speculators_model_type": "peagle"}, "speculators_model_type is 'peagle'"),
    ("DSpark, speculators", {"sample_from_anchor": None}, "it lacks sample_from_anchor"),
    ("DSpark, speculators", {"aux_hidden_state_layer_ids": [0, 3]}, "reads the target's embedding"),
    ("DSpark, speculators", {"transformer_layer_config": fields(2, rope_theta=-1.0)}, "rope_theta"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "markov_rank": 6}}, "it lacks sample_from_anchor"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "projector_type": "domino"}}, "'domino'"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "attention_sink_bias": True}}, "has sinks"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "mask_token_id": -1}}, "mask_token_id"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "target_layer_ids": [-1, 2]}}, "target_layer_ids"),
    ("DFlash, z-lab, Qwen3", {"dflash_config": {**ZLAB, "target_layer_ids": 3}}, "target_layer_ids"),
    ("DFlash, z-lab, Qwen3", {"block_size": 1}, "block_size"),
    ("DFlash, z-lab, Qwen3", {"block_size": "many"}, "block_size"),
    ("DFlash, z-lab, Qwen3", {"block_size": 10**9}, "block_size"),
    ("DFlash, z-lab, Qwen3", {"num_attention_heads": 0}, "num_attention_heads"),
    ("DFlash, z-lab, Qwen3", {"sliding_window": None}, "but no sliding_window"),
    ("EAGLE", {"vocab_size": IDS + 1}, f"{IDS + 1} tokens, the target's {IDS}"),
    ("EAGLE", {"hidden_size": "wide"}, "hidden_size"),
    ("EAGLE-3", {"vocab_size": IDS + 1}, "t2d"),
    ("EAGLE-3", {"eagle_aux_hidden_state_layer_ids": [2, 5, 10]}, "reads the layers [1, 4, 9], the target has 9"),
    ("EAGLE-3", {"fc_norm": True}, "norms of EAGLE 3.1"),
    ("EAGLE-3", {"num_hidden_layers": 2}, "it has 2 layers"),
    ("EAGLE-3", {"model_type": "llama4_text"}, "of the family 'llama4_text'"),
    ("EAGLE-3", {"hidden_act": "gelu"}, "its activation is gelu"),
    ("EAGLE-3", {"layer_types": ["sliding_attention"], "sliding_window": 6}, "reads a sliding window"),
]


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _, _ in CHANGES))
def test_a_config_that_is_not_built_here_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    pair, _, _ = released(name, tmp_path)
    path = tmp_path / "drafter" / "config.json"
    whole = path.read_text()
    for _, values, why in (one for one in CHANGES if one[0] == name):
        change(tmp_path / "drafter", **values)
        assert why in why_missing(pair)
        path.write_text(whole)
    assert why_missing(pair) == ""


def test_tensors_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path) -> None:
    pair, _, _ = released("DSpark, DeepSpec", tmp_path / "block")
    declared = dataclasses.replace(pair, drafters=(dataclasses.replace(pair.drafters[0], mask_id=81), NONE))
    assert "its mask_token_id is 275, the pair declares 81" in why_missing(declared)
    wider = dataclasses.replace(pair, target=EMBEDDED.target, tokenizer=EMBEDDED.tokenizer)
    assert "it reads states of width 32, the target's have" in why_missing(wider)
    file = tmp_path / "block" / "drafter" / "model.safetensors"
    whole = load_file(file)
    save_file({name: tensor.half() if name in COPIES else tensor for name, tensor in whole.items()}, file)
    assert why_missing(pair) == "", "a copy may be less precise"
    half = whole["lm_head.weight"].half()
    for name in COPIES:
        save_file({**whole, name: whole[name] + 0.05 * whole[name].std() * (half - half.mean()).sign()}, file)
        assert why_missing(pair) == "", "its target may be quantised"
        drafter = load_pair(pair, CPU).drafters[pair.drafters[0].name]
        words = drafter.words
        own = {COPIES[0]: words.read_embedding(), COPIES[1]: words.read_rows()}[name]
        assert torch.equal(own, load_file(file)[name]) and "own tables" in drafter.note
    save_file({**whole, "lm_head.weight": whole["lm_head.weight"] + 1}, file)
    assert "the lm_head.weight stored with it is not the target's" in why_missing(pair)
    for gone in (*CONFIDENCE, "markov_head.markov_w1.weight"):
        save_file({name: tensor for name, tensor in whole.items() if name != gone}, file)
        assert f"first {gone}" in why_missing(pair)
    pair, _, _ = released("EAGLE-3", tmp_path / "eagle")
    file = tmp_path / "eagle" / "drafter" / "model.safetensors"
    whole, words = load_file(file), "do not define a subset of the target's 280 tokens"
    save_file({name: tensor for name, tensor in whole.items() if name != "d2t"}, file)
    assert "drafts 100 of 280 tokens, but has no d2t" in why_missing(pair)
    for changed, why in (
        ({"d2t": whole["d2t"] + 200}, words),
        ({"t2d": ~whole["t2d"]}, words),
        ({"d2t": whole["d2t"].float()}, "d2t"),
    ):
        save_file({**whole, **changed}, file)
        assert why in why_missing(pair)


def test_a_map_of_all_words_must_leave_them_where_they_are(tmp_path: Path) -> None:
    pair, _, _ = released("EAGLE-3, DeepSpec", tmp_path)
    file = tmp_path / "drafter" / "model.safetensors"
    whole, none = load_file(file), torch.zeros(IDS, dtype=torch.bool)
    save_file({**whole, "d2t": torch.zeros(IDS, dtype=torch.long), "t2d": none}, file)
    assert why_missing(pair) == ""
    save_file({**whole, "d2t": torch.ones(IDS, dtype=torch.long)}, file)
    assert "do not define a subset of the target's 280 tokens" in why_missing(pair)
