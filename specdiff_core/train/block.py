"""``train block``: the block drafter that reads its target's hidden states (DFlash), with or without a Markov head.

All blocks of a batch are denoised in one pass and scored against the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PretrainedConfig

from specdiff_core.maths.chains import RANKED
from specdiff_core.models.dflash import DFlashDraftModel, from_folder, save_to_folder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train import losses
from specdiff_core.train.jobs import DrafterJob
from specdiff_core.train.rows import AnchorRows, Rows, cut_blocks, draw_blocks
from specdiff_core.train.settings import BlockSettings
from specdiff_core.train.target_text import TargetText, fast_copy, write_text
from specdiff_core.train.task import Task


class BlockJob(DrafterJob):
    """The target-conditioned block drafter."""

    settings: BlockSettings
    model: DFlashDraftModel
    score, measured = "tau8/", "γ = 8, T = 1"

    def begin(self) -> DFlashDraftModel:
        settings, depth = self.settings, self.target.config.num_hidden_layers
        sizes: dict[str, Any] = {"features": settings.features, "intermediate": settings.intermediate}
        if settings.start:
            model = from_folder(settings.start)
        else:
            values = drafter_config(self.target.config, layers=settings.layers, mask_id=self.data.mask, **sizes)
            model = new_drafter(self.target, values, settings.seed)
        if settings.markov or (settings.start and any(sizes.values())):
            model = grown(model, target_layers=depth, **sizes, markov=settings.markov, seed=settings.seed)
        return model.requires_grad_(True)

    @property
    def kind(self) -> str:
        return "block" if self.model.markov is None else "block_markov"

    def events(self) -> Iterator[Any]:
        """Write target text where it is missing, then train on it and on the corpus."""
        writer, folder, seed = fast_copy(self.target), self.settings.written, self.settings.seed
        yield from write_text(writer, self.data, "train", folder, parts=self.settings.parts, seed=seed)
        sizes: Any = {"rows": 10 * len(self.corpus.flavours), "prompt_tokens": (32, 32), "new_tokens": 96}
        yield from write_text(writer, self.data, "valid", folder, parts=1, seed=seed, temperatures=(0.0,), **sizes)
        del writer
        yield from super().events()

    def task(self) -> Task:
        settings = self.settings
        self.target.set_attn_implementation("sdpa")
        rows = AnchorRows(self.data.split("train"), TargetText.load(settings.written / "train"), settings)
        held_out = TargetText.load(settings.written / "valid")
        return BlockTask(self.model, self.target, rows, settings, end=self.data.end, held_out=held_out)

    def export(self) -> None:
        save_to_folder(self.model, self.out)


class BlockTask(Task):
    """The distance to the target's distribution at masked slots, weighted by position (DFlash, arXiv 2602.06036).

    Args:
        target: frozen; gives embeddings, head, features and distributions.
        end: the end-of-text id.
        held_out: rows that the target wrote greedily, for :meth:`score` to replay.
    """

    model: DFlashDraftModel
    settings: BlockSettings

    def __init__(
        self,
        model: DFlashDraftModel,
        target: LlamaForCausalLM,
        rows: AnchorRows,
        settings: BlockSettings,
        *,
        end: int,
        held_out: TargetText | None = None,
    ) -> None:
        chosen = {}  # rows of each flavour
        if held_out is not None:
            for name in sorted(set(held_out.flavours.tolist())):
                chosen[name] = np.flatnonzero((held_out.flavours == name) & (held_out.temperatures == 0))
        super().__init__(model, settings, rows, chosen)
        self._objective = self.objective  # only its network is compiled
        self._hidden = torch.compile(block_hidden, dynamic=False) if settings.compile else block_hidden
        self._target, self._text, self._end = target.train(False).requires_grad_(False), held_out, end
        self._table = target.lm_head.weight.detach().to(torch.bfloat16)

    def inputs(self, rows: Rows, rng: int) -> tuple[Any, ...]:
        return rows.to(self.device), torch.Generator(self.device).manual_seed(rng)

    def objective(self, *inputs: Any) -> Tensor:
        """The loss of one batch, nats per masked slot (weighted)."""
        rows, generator = inputs
        config, settings = self.model.config, self.settings
        size = int(config.block_size)  # slots of this step's blocks, the anchor included
        if settings.short and torch.rand((), generator=generator, device=generator.device) < settings.short:
            size = size // 2 + 1
        features, states = read_target(self._target, rows.tokens, config.target_layer_ids)
        blocks = draw_blocks(
            rows, settings.anchors, size, config.mask_token_id, self._end, generator, whole=settings.whole
        )
        embeddings = self._target.get_input_embeddings()(blocks.ids.flatten(1)).detach()
        with torch.autocast(rows.tokens.device.type, torch.bfloat16):
            hidden = self._hidden(self.model, features, embeddings, blocks.anchors, size)
        hidden = hidden.view(*blocks.ids.shape, -1)[:, :, 1:].float()
        known, masked = blocks.known[:, :, 1:], blocks.masked[:, :, 1:]  # [B, A, b-1]
        counted = masked & known
        where = counted.nonzero(as_tuple=True)
        marginal = hidden[where]
        # Slot j of a block at anchor a predicts token a + j; the target predicts it from its state at a + j − 1.
        seen = where[0], blocks.anchors[where[:2]] + where[2]
        chained = self._chained(marginal, blocks.truth[:, :, :-1][where])
        if settings.loss == "lk":
            teacher = states[seen]
        else:
            teacher = losses.expected_embedding(states.flatten(0, 1), self._table).view_as(states)[seen]
        nats, normalizer = self._distance(chained, teacher)
        if self.model.markov is not None:  # the marginals must stay good: decoding chooses its candidates from them
            alone = torch.rand(len(nats), generator=generator, device=nats.device) < settings.alone
            nats = nats.index_put((alone.nonzero()[:, 0],), self._distance(marginal[alone], teacher[alone])[0])
        # Slots that were given have probability 1.
        said = self._table[blocks.truth[:, :, 1:][where]].float()
        log_q = torch.zeros(counted.shape, device=hidden.device).index_put(where, (chained * said).sum(-1) - normalizer)
        if settings.weights == "dpace":
            weights = losses.dpace_weights(log_q.exp(), known)[where]
        else:
            weights = losses.position_weights((masked.long().cumsum(-1) - 1)[where], settings.decay)
        loss = losses.weighted_mean(nats, weights)
        full = masked.all(-1)
        if not settings.streak or not bool(full.any()):
            return loss
        return loss + settings.streak * losses.cross_entropy_streak(log_q[full], counted[full])

    def _distance(self, hidden: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """How far the distributions of ``hidden [n, W]`` are from the target's, in nats, and their log normalisers.

        Args:
            teacher: ``[n, W]`` what the loss needs of the target: its last states for ``lk``, else the embedding that
                it expects.
        """
        normalizer = losses.log_normalizer(hidden, self._table)
        if self.settings.loss == "lk":
            return losses.lk_loss(hidden, teacher, self._table), normalizer
        return normalizer - (hidden * teacher).sum(-1), normalizer

    def _chained(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` of slots, given the tokens ``before [...]`` them; unchanged without a Markov head."""
        markov = self.model.markov
        if markov is None:
            return states
        chained: Tensor = markov(states, self._target.get_input_embeddings()(before).detach())
        return chained

    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """τ of greedy decoding at T = 1, replayed over rows ``held_out [n]`` of text that the target wrote greedily.

        For every position of that text the drafter's argmax block is compared with the text (bf16 autocast); then the
        rounds that decoding would have made are walked. So it is the τ of a decode, up to rounding.
        """
        most = self.model.config.block_size - 1
        return {f"tau{gamma}": self._replay(held_out, gamma) for gamma in sorted({min(8, most), most})}

    def _replay(self, chosen: np.ndarray, gamma: int) -> float:
        """Committed tokens per round over the rows ``chosen``."""
        assert self._text is not None, "rows of it were chosen"
        text, committed, rounds = self._text, 0, 0
        for row in chosen:
            length, prompt = int(text.lengths[row]), int(text.prompts[row])
            hits = self.accepted(torch.from_numpy(text.tokens[row, :length].astype(np.int64)), prompt - 1, gamma)
            place = prompt - 1
            while place < length - 1:
                place += int(hits[place - prompt + 1]) + 1
                rounds += 1
            committed += length - prompt
        return committed / max(1, rounds)

    def accepted(self, text: Tensor, first: int, gamma: int) -> Tensor:
        """How many slots of a fully masked block agree with ``text [n]``, for each anchor ``first .. n−2``.

        ``[n−1−first]`` int64; counts stop where the text does.
        """
        config, device = self.model.config, self.device
        tokens = text[None].to(device)
        length = tokens.shape[1]
        anchors = torch.arange(first, length - 1, device=device)[None]
        truth, known = cut_blocks(tokens, torch.tensor([length], device=device), anchors, gamma + 1, self._end)
        ids = torch.full_like(truth, config.mask_token_id)
        ids[..., 0] = truth[..., 0]
        features, _ = read_target(self._target, tokens, config.target_layer_ids)
        embeddings = self._target.get_input_embeddings()(ids.flatten(1))
        with torch.autocast(device.type, torch.bfloat16):
            hidden = block_hidden(self.model, features, embeddings, anchors, gamma + 1)
            marginal = hidden.view(*ids.shape, -1)[:, :, 1:]
            logits = marginal.to(self._table.dtype) @ self._table.T
            logits[..., config.mask_token_id] = -torch.inf
            if self.model.markov is not None:
                # As long as all slots agree, the token before one is the text's. As decoding does, only the most
                # probable candidates of the marginals follow it.
                candidates = logits.topk(min(RANKED, logits.shape[-1]), -1).indices
                followed = self._chained(marginal, truth[:, :, :-1]).to(self._table.dtype) @ self._table.T
                logits = torch.full_like(followed, -torch.inf).scatter(-1, candidates, followed.gather(-1, candidates))
        agree = (logits.argmax(-1) == truth[:, :, 1:]) & known[:, :, 1:]
        hits: Tensor = agree.long().cumprod(-1).sum(-1)[0].cpu()
        return hits


@torch.no_grad()
def read_target(target: LlamaForCausalLM, tokens: Tensor, layers: list[int]) -> tuple[Tensor, Tensor]:
    """Run the frozen target over clean text ``tokens [B, L]``, bf16 autocast.

    Returns:
        the hidden states of ``layers`` (0 = after the first layer) side by side, ``[B, L, F·W]``, and the last ones,
        which its head reads, ``[B, L, W]``; both float32.
    """
    with torch.autocast(tokens.device.type, torch.bfloat16):
        out = target.model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    features = torch.cat([out.hidden_states[layer + 1] for layer in layers], dim=-1)
    return features.float(), out.last_hidden_state.float()


def block_hidden(model: DFlashDraftModel, features: Tensor, embeddings: Tensor, anchors: Tensor, size: int) -> Tensor:
    """All blocks of a batch in one pass, each reading the features before its anchor and itself.

    Plain matrix products: on a CPU their backward is faster than that of fused attention at these sizes.

    Args:
        features: ``[B, L, F·W]``.
        embeddings: ``[B, A·b, W]``, the target's, of anchors, clean and mask tokens.
        anchors: ``[B, A]``.
        size: b.

    Returns:
        ``[B, A·b, W]`` hidden states for the target's head.
    """
    batch, length = features.shape[:2]
    count = anchors.shape[1]
    places = (anchors[..., None] + torch.arange(size, device=anchors.device)).flatten(1)  # [B, A·b]
    positions = torch.arange(length, device=anchors.device)
    context_rope = model.rope(positions[None])
    context = model.context_keys_values(model.read_features(features), context_rope)
    hidden_from = positions >= anchors[..., None]  # [B, A, L]
    bias = torch.zeros_like(hidden_from, dtype=torch.float32).masked_fill_(hidden_from, -torch.inf)[:, None, :, None]

    def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = context[index]  # [B, Hkv, L, D]
        copies = q.shape[1] // k.shape[1]
        keys, values, k, v = (
            part.repeat_interleave(copies, 1) if copies > 1 else part for part in (keys, values, k, v)
        )
        heads, width = q.shape[1], q.shape[3]
        q = q * width**-0.5
        blocked = (batch, heads, count, size, width)
        q5, k5, v5 = q.view(blocked), k.reshape(blocked), v.reshape(blocked)
        outside = (q @ keys.transpose(2, 3)).view(batch, heads, count, size, length).float() + bias
        inside = (q5 @ k5.transpose(3, 4)).float()  # [B, H, A, b, b]
        weights = torch.softmax(torch.cat([outside, inside], -1), -1).to(v.dtype)
        mixed = (weights[..., :length].reshape(batch, heads, count * size, length) @ values).view(blocked)
        return (mixed + weights[..., length:] @ v5).view(batch, heads, count * size, width)

    return model.denoise(embeddings, model.rope(places), attend)


def feature_layers(count: int, target_layers: int) -> list[int]:
    """``count`` layers spread evenly from 1 to L − 3, as in DFlash's released configs (arXiv 2602.06036): 5 of 36 are
    1, 9, 17, 25, 33. Where those are too few, from the first to the last but one. The last layer is read only where it
    is the only one: its output is normed. ConfigError: the target has not so many."""
    most = max(1, target_layers - 1)
    if count > most:
        message = f"--features {count}, but the target has {target_layers} layers, the last of which is not read."
        raise ConfigError(message, field="features", hint=f"Give a number up to {most}.")
    high = min(most - 1, max(1, target_layers - 3))
    low = min(1, high)
    if count > high - low + 1:
        low, high = 0, most - 1
    if count == 1:
        return [high]
    return [round(low + i * (high - low) / (count - 1)) for i in range(count)]


def drafter_config(
    config: PretrainedConfig,
    *,
    layers: int = 3,
    features: int | None = None,
    intermediate: int | None = None,
    block_size: int = 17,
    mask_id: int = 1,
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter, in the released format: with the width, heads, context and rotary base of a
    target that has ``config``.

    Args:
        features: how many layers of the target it reads; by default 3, or as many as there are.
        intermediate: width of its MLPs; by default 8/3 of the target's width.
    """
    width, depth = config.hidden_size, config.num_hidden_layers
    rope = getattr(config, "rope_parameters", None) or {}
    chosen = feature_layers(features or min(3, max(1, depth - 1)), depth)
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": block_size,
        "dflash_config": {"mask_token_id": mask_id, "target_layer_ids": chosen},
        "dtype": "bfloat16",
        "head_dim": width // config.num_attention_heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": intermediate or 64 * max(1, round(width * 8 / 3 / 64)),
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": config.max_position_embeddings,
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": config.num_attention_heads,
        "num_target_layers": depth,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": float(rope.get("rope_theta", getattr(config, "rope_theta", 10_000.0))),
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": config.vocab_size,
    }


def new_drafter(target: LlamaForCausalLM, values: dict[str, Any], seed: int = 0) -> DFlashDraftModel:
    """An untrained drafter; its last norm begins as the target's, since both feed the same head."""
    model = DFlashDraftModel(values)
    model.initialize(torch.Generator().manual_seed(seed))
    model.norm.load_state_dict(target.model.norm.state_dict())
    return model


def grown(
    model: DFlashDraftModel,
    *,
    target_layers: int,
    features: int | None = None,
    intermediate: int | None = None,
    markov: int = 0,
    seed: int = 0,
) -> DFlashDraftModel:
    """The drafter ``model`` with more weights, which change nothing yet: what they feed begins at zero.

    Args:
        target_layers: L of its target.
        features: how many layers of the target it reads; those of ``model`` must be among them.
        intermediate: width of its MLPs.
        markov: width of its Markov head.

    Raises:
        ConfigError: that would drop weights.
    """
    config = model.config
    layers = feature_layers(features, target_layers) if features else config.target_layer_ids
    if not set(config.target_layer_ids) <= set(layers):
        raise ConfigError(
            f"--features {features} stands for the target's layers {layers}; the drafter to begin with reads "
            f"{config.target_layer_ids}.",
            field="features",
            hint="Leave --features out, or choose a number whose layers include those.",
        )
    intermediate = intermediate or config.intermediate_size
    if intermediate < config.intermediate_size or (config.markov_width and markov not in (0, config.markov_width)):
        raise ConfigError(
            f"--intermediate {intermediate} --markov {markov}, but the drafter to begin with has MLPs of width "
            f"{config.intermediate_size} and a Markov head of width {config.markov_width}.",
            field="intermediate" if intermediate < config.intermediate_size else "markov",
            hint="Leave the option out, or begin with another drafter.",
        )
    special = {**model.released["dflash_config"], "target_layer_ids": list(layers)}
    if markov or config.markov_width:
        special["markov_width"] = markov or config.markov_width
    larger = DFlashDraftModel({**model.released, "intermediate_size": intermediate, "dflash_config": special})
    larger.initialize(torch.Generator().manual_seed(seed))
    tensors = larger.state_dict()
    for name, held in model.state_dict().items():
        if name == "fc.weight":  # one square for each of the target's layers
            squares = tensors[name].zero_().split(len(held), 1)
            for layer, square in zip(config.target_layer_ids, held.split(len(held), 1), strict=True):
                squares[layers.index(layer)].add_(square)
        else:  # what is new in an MLP: rows that lead into it as they were drawn, columns that lead out of it zero
            tensors[name][..., held.shape[-1] :] = 0
            tensors[name][tuple(map(slice, held.shape))] = held
    return larger
