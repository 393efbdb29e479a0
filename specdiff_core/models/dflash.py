"""The DFlash network (arXiv 2602.06036): Qwen3-style layers denoise a block, reading a target's
hidden states; with DSpark's Markov head (2607.05147) or DFlash 2's convolutions and selector.

Its files have the released names, in one of three layouts: z-lab's, whose ``config.json`` has
Qwen3's fields, ``block_size``, ``num_target_layers`` and ``dflash_config``; DeepSpec's, with all
of these at the top level; and that of vLLM's speculators. Embedding and head are the target's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Qwen3Config

from specdiff_core.checkpoints.folders import Id, Size, anchor_predicts, as_config, loading_errors, read_config
from specdiff_core.checkpoints.reading import read_drafter, tensor_names
from specdiff_core.models.kernels import Product, Separate
from specdiff_core.models.markov import Confidence, MarkovHead, PairBias, Selector
from specdiff_core.models.network import Attend, DraftModel, Heads, Layer, Reach, Rope, Shape, unsupported_layers
from specdiff_core.schema.errors import WeightsError

COPIES = ("embed_tokens.weight", "lm_head.weight")
"""The target's tables in the files of some drafters; only compared with the target's own."""
PAIR_ROWS = "markov_head.markov_w2.weight"
"""In files it has a row for each of the drafter's words, in the network one for each of the target's."""
CONFIDENCE = ("confidence_head.proj.weight", "confidence_head.proj.bias")
"""Missing in some releases although their config.json has them."""
FAR = 2**30


class _Special(msgspec.Struct):
    """z-lab's ``dflash_config``, two fields beside Qwen3's, and this project's ``markov_width``: that of a
    :class:`MarkovHead`."""

    mask_token_id: Id
    target_layer_ids: Annotated[list[Id], msgspec.Meta(min_length=1)]
    block_size: Annotated[int, msgspec.Meta(ge=2, le=2**16)] = 16
    causal: bool | None = None  # None: only layers with a sliding window are
    use_swa: bool = False
    swa_window_size: Size | None = None
    sliding_window: Size | None = None
    num_target_layers: Size | None = None
    markov_width: Annotated[int, msgspec.Meta(ge=0, le=2**20)] = 0
    markov_rank: Annotated[int, msgspec.Meta(ge=0, le=2**20)] = 0
    markov_head_type: str = "vanilla"
    enable_confidence_head: bool = False
    confidence_head_with_markov: bool = False
    conv_kernel_size: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    conv_group_size: Size = 16
    selector_rank: Annotated[int, msgspec.Meta(ge=0, le=2**20)] = 0
    selector_top_k: Size = 16
    input_embedding_scale: float = 1.0
    output_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    draft_vocab_size: Size | None = None  # if smaller than the target's vocabulary


def read_released(values: dict[str, Any]) -> Qwen3Config:
    """A released ``config.json`` -> Qwen3 config with ``reaches`` and :class:`_Special`'s fields.

    Raises:
        WeightsError: a field is missing, impossible or not supported.
    """
    base, extra = _layout(values)
    shared = {name: base[name] for name in ("num_target_layers", "sliding_window") if name in base}
    special = as_config(extra | shared, _Special, "config.json")
    config = Qwen3Config(**{name: value for name, value in base.items() if name != "model_type"})
    kinds = list(config.layer_types or ["full_attention"] * config.num_hidden_layers)
    if special.use_swa and "sliding_attention" not in kinds:
        kinds = ["sliding_attention"] * len(kinds)
    config.layer_types = kinds
    if why := unsupported_layers(config):
        raise _unknown(why)
    window = special.swa_window_size or special.sliding_window
    if "sliding_attention" in kinds and window is None:
        raise _unknown("it has sliding-window layers, but no sliding_window")
    if special.markov_head_type not in ("vanilla", "gated"):
        raise _unknown(f"its Markov head is of the kind {special.markov_head_type!r}, not 'vanilla' or 'gated'")
    if special.conv_kernel_size and config.hidden_size % special.conv_group_size:
        raise _unknown(f"groups of {special.conv_group_size} do not divide a width of {config.hidden_size}")
    if (anchor := anchor_predicts(values)) is None:
        raise _unknown("it lacks sample_from_anchor, and drafters of both kinds exist")
    for name, value in {**msgspec.structs.asdict(special), "anchor_predicts": anchor}.items():
        setattr(config, name, value)  # anchor_predicts: slot i predicts token i + 1, from the anchor on
    config.sliding_window = window  # Qwen3Config drops it unless use_sliding_window is set
    config.reaches = [_reach(kind == "sliding_attention", window or FAR, special.causal) for kind in kinds]
    return config


def _layout(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Qwen3's fields and those of :class:`_Special`, from a ``config.json`` in any layout."""
    if "speculators_model_type" in values:
        return _speculators(values)
    nested = values.get("dflash_config")
    if nested is None:  # DeepSpec
        return values, values
    fields = as_config(values, _Nested, "config.json").dflash_config
    if (fields.get("projector_type") or "dflash") not in ("dflash", "dspark"):
        raise _unknown(f"its head is of the kind {fields['projector_type']!r}")
    if fields.get("attention_sink_bias") or not values.get("is_neox_style", True):
        raise _unknown("its attention has sinks, or rotates neighbouring numbers")
    fields = fields | {"block_size": values.get("block_size", fields.get("block_size", 16))}
    if (causal := values.get("is_causal", fields.get("causal"))) is not None:
        fields["causal"] = causal
    return values, fields


def _speculators(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for the layout of speculators, which counts the embedding as layer 0."""
    kind, spec = values["speculators_model_type"], as_config(values, _Speculators, "config.json")
    if kind not in ("dflash", "dflash2", "dspark"):
        raise _unknown(f"its speculators_model_type is {kind!r}")
    if not all(spec.aux_hidden_state_layer_ids):
        raise _unknown("it reads the target's embedding (0 in aux_hidden_state_layer_ids)")
    fields = {**values, "target_layer_ids": [index - 1 for index in spec.aux_hidden_state_layer_ids]}
    both_ways = kind == "dflash2" if spec.sliding_window_non_causal is None else spec.sliding_window_non_causal
    if both_ways:
        fields["causal"] = False
    return spec.transformer_layer_config, fields


def speculators_config(
    network: Mapping[str, Any],
    *,
    verifier: str,
    architectures: Sequence[str],
    taps: Sequence[int],
    block: int,
    words: int,
    mask: int,
    rank: int = 0,
    anchor: bool = False,
) -> dict[str, Any]:
    """The ``config.json`` of a block drafter in the layout of vLLM's speculators: every field of its
    ``DFlashSpeculatorConfig``, or of its ``DSparkSpeculatorConfig`` where there is a Markov head.

    Args:
        network: Qwen3's fields.
        verifier: what the target is called, a repository or a folder; ``architectures``: its classes.
        taps: layers of the target that it reads; 0 is the first.
        block: tokens of a draft.
        words: how many of the target's it has.
        mask: the id of a mask.
        rank: of its Markov head, the vanilla one; 0: none.
        anchor: whether the anchor's slot predicts, too.
    """
    kind = "dspark" if rank else "dflash"
    return {
        "architectures": ["DSparkSpeculator" if rank else "DFlashSpeculator"],
        "speculators_model_type": kind,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": block}],
            "verifier": {"name_or_path": verifier, "architectures": [*architectures]},
        },
        "transformer_layer_config": {"model_type": "qwen3", **network},
        "aux_hidden_state_layer_ids": [layer + 1 for layer in taps],  # layer 0: the embedding
        "block_size": block if anchor else block + 1,
        "draft_vocab_size": words,
        "mask_token_id": mask,
        "sample_from_anchor": anchor,
        "dtype": "bfloat16",
        **({"markov_rank": rank, "markov_head_type": "vanilla"} if rank else {}),
        **({"enable_confidence_head": False, "confidence_head_with_markov": False} if rank else {}),
    }


class _Nested(msgspec.Struct):
    dflash_config: dict[str, Any]


class _Speculators(msgspec.Struct):
    transformer_layer_config: dict[str, Any]
    aux_hidden_state_layer_ids: Annotated[list[Id], msgspec.Meta(min_length=1)]
    sliding_window_non_causal: bool | None = None


def _unknown(why: str) -> WeightsError:
    return WeightsError(f"This block drafter's config.json is not supported: {why}.", hint="Choose another drafter.")


def _reach(sliding: bool, window: int, causal: bool | None) -> Reach | None:
    """The reach of a layer; None: unlimited."""
    ends = sliding if causal is None else causal
    if not sliding:
        return (FAR, 0) if ends else None
    return (window - 1, 0 if ends else window - 1)


class Convolution(nn.Module):
    """Mixes each slot with those just before it in its block (DFlash 2), before and after a
    sublayer, with a kernel per channel plus a state-dependent kernel per group of channels.

    Args:
        taps: mixed slots, including its own.
        group: channels in a group.
    """

    def __init__(self, width: int, taps: int, group: int) -> None:
        super().__init__()
        self.taps, self.group = taps, group
        self.base_kernel = nn.Parameter(torch.zeros(2, taps, width))
        self.kernel_projection = nn.Linear(width, 2 * taps * (width // group), bias=False)

    def kernels(self, states: Tensor) -> Sequence[Tensor]:
        """``states [B, n, W]`` -> two kernels, before and after, ``[B, n, taps, W]``."""
        shape = (*states.shape[:-1], 2, self.taps, -1)
        delta: Tensor = self.kernel_projection(states).view(shape).repeat_interleave(self.group, -1)
        return (self.base_kernel + delta).unbind(-3)


def convolve(states: Tensor, kernel: Tensor) -> Tensor:
    """Mix ``states [B, n, W]`` by ``kernel [B, n, taps, W]``; before the first slot are zeros."""
    rows = states.shape[1]
    shifted = [F.pad(states, (0, 0, tap, 0))[:, :rows] for tap in range(kernel.shape[-2])]
    return (torch.stack(shifted, -2) * kernel).sum(-2)


class ConvolvedLayer(Layer):
    """A layer of DFlash 2."""

    def __init__(self, shape: Shape, index: int, *, taps: int, group: int) -> None:
        super().__init__(shape, index)
        self.attention_conv = Convolution(shape.width, taps, group)
        self.mlp_conv = Convolution(shape.width, taps, group)

    def forward(self, hidden: Tensor, rope: Rope | None, attend: Attend, read: Tensor | None = None) -> Tensor:
        """``hidden [B, n, W]`` of a block -> ``[B, n, W]``."""
        first_norm, heads, out, second_norm, up, activation, down = self.parts()
        states = first_norm(hidden)
        before, behind = self.attention_conv.kernels(states)
        hidden = hidden + convolve(out(self.mix(heads, convolve(states, before), rope, attend)), behind)
        states = second_norm(hidden)
        before, behind = self.mlp_conv.kernels(states)
        return hidden + convolve(down(activation(up(convolve(states, before)))), behind)


class DFlashDraftModel(DraftModel):
    """A target-conditioned block denoiser that uses the target's embedding and head.

    Args:
        released: the contents of ``config.json``.
    """

    layers: Sequence[Layer]
    draft_ids: Tensor | None = None  # ids [n] that it can draft, ascending; None: all
    copies: dict[str, Tensor]  # copies of the target's tables in its files

    def __init__(self, released: dict[str, Any]) -> None:
        super().__init__()
        self.released = dict(released)
        self.config = config = read_released(released)
        self.shape = shape = Shape.of(config)
        self.fc = nn.Linear(len(config.target_layer_ids) * shape.width, shape.width, bias=False)
        self.hidden_norm = shape.norm()
        taps = config.conv_kernel_size
        make = partial(ConvolvedLayer, taps=taps, group=config.conv_group_size) if taps else Layer
        layers = (make(shape, index) for index in range(shape.layers))
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as what it holds
        self.norm = shape.norm()
        vocab, rank, most = int(config.vocab_size), config.markov_rank, config.selector_rank
        gated = config.markov_head_type == "gated"
        self.markov = MarkovHead(shape.width, config.markov_width, gated=gated) if config.markov_width else None
        self.markov_head = PairBias(vocab, rank, gate=shape.width if gated else 0) if rank else None
        paired = rank if config.confidence_head_with_markov else 0
        self.confidence_head = Confidence(shape.width, paired) if config.enable_confidence_head and rank else None
        self.candidate_selector = Selector(vocab, shape.width, most, config.selector_top_k) if most else None
        self.copies = {}
        self.reaches: list[Reach | None] = config.reaches
        self._read: Product | None = None  # fc
        self._context: Heads | None = None  # k and v of all layers

    def initialize(self, generator: torch.Generator) -> None:
        """Initialise the matrices: normal with ``config.initializer_range``; norms stay one."""
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=self.config.initializer_range, generator=generator)
        if self.markov is not None:  # at first it adds nothing
            nn.init.zeros_(self.markov.out.weight)
            if self.markov.before.bias is not None:
                nn.init.zeros_(self.markov.before.bias)

    @property
    def lead(self) -> int:
        """Leading slots of a block that predict nothing: the anchor's, or none."""
        return 0 if self.config.anchor_predicts else 1

    def read_features(self, features: Tensor) -> Tensor:
        """The target's ``features [B, n, F·W]`` -> the input of every layer, ``[B, n, W]``."""
        read: Tensor = self.hidden_norm((self._read or self.fc)(features))
        return read

    def prepare(self) -> DFlashDraftModel:
        """Freeze for inference. Call after moving the model to its device."""
        self.eval().requires_grad_(False)
        self._context = Heads([layer.self_attn for layer in self.layers], "k", partial(Product.of, keep=True))
        self._read = Product.of([self.fc])
        for layer in self.layers:
            layer.freeze()
        return self

    def context_keys_values(self, context: Tensor, rope: Rope) -> list[tuple[Tensor, Tensor]]:
        """Every layer's k and v ``[B, Hkv, n, D]``; ``context [B, n, W]``: as read."""
        if self._context is None:
            return [Heads([layer.self_attn], "k", Separate)(context, rope) for layer in self.layers]
        keys, values = (part.chunk(len(self.layers), 1) for part in self._context(context, rope))
        return list(zip(keys, values, strict=True))

    def denoise(self, embeddings: Tensor, rope: Rope, attend: Attend) -> Tensor:
        """One pass over a block: ``embeddings [B, n, W]`` -> final hidden states.

        ``attend`` determines what each layer's queries read besides the block; decoding, training
        and transformers' loop differ only in this."""
        hidden = embeddings
        for layer in self.layers:
            hidden = layer(hidden, rope, attend)
        out: Tensor = self.norm(hidden)
        return out


def from_folder(folder: Path, dtype: torch.dtype = torch.float32) -> DFlashDraftModel:
    """Load a released or embedded drafter, ``config.json`` and safetensors, frozen, on the CPU.

    Raises:
        WeightsError: a file is missing, damaged, misfit or unsupported; the message names it.
    """
    values = read_config(folder)
    with loading_errors(folder, "DFlash drafter"), torch.device("meta"):
        model = DFlashDraftModel(values)
    config, vocab_size = model.config, int(model.config.vocab_size)
    draft_vocab = config.draft_vocab_size or vocab_size
    table = torch.empty(vocab_size, config.hidden_size, device="meta")
    expected = model.state_dict() | dict(zip(COPIES, (table, table[:draft_vocab]), strict=True))
    if model.markov_head is not None:
        expected[PAIR_ROWS] = expected[PAIR_ROWS][:draft_vocab]
    if not tensor_names(folder) & {*CONFIDENCE}:
        model.confidence_head = None
    optional = (*COPIES, *(CONFIDENCE if model.confidence_head is None else ()))
    stored, model.draft_ids = read_drafter(folder, expected, draft_vocab, vocab_size, optional)
    model.copies = {name: stored.pop(name) for name in COPIES if name in stored}
    if model.draft_ids is not None and PAIR_ROWS in stored:
        full = stored[PAIR_ROWS].new_zeros(vocab_size, config.markov_rank)
        stored[PAIR_ROWS] = full.index_copy(0, model.draft_ids, stored[PAIR_ROWS])
    model.load_state_dict(stored, assign=True)
    return model.to(dtype).eval().requires_grad_(False)
