"""``train block``: the block drafter that reads its target's hidden states (DFlash), with or without a Markov head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.cards import Words
from specdiff_core.train.jobs import SHIPPED, DrafterJob, DrafterSettings, fraction, option

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.models.dflash import DFlashDraftModel
    from specdiff_core.train.trainer import Task


@dataclass(frozen=True, kw_only=True)
class BlockSettings(DrafterSettings):
    warmup: int = 100
    batch_tokens: int = 2560
    parts: int = option(100, "parts of target-written text; missing ones are written first", low=1)
    anchors: int = option(48, "blocks per row", low=1)
    loss: str = option("ce", "cross-entropy, or with total variation (arXiv 2602.23881)", choices=("ce", "lk"))
    weights: str = option(
        "exp", "of slots, by position: fixed, or following the drafter (arXiv 2605.18810)", choices=("exp", "dpace")
    )
    streak: float = option(0.0, "weight of streak distillation, on whole blocks (arXiv 2511.00606)", low=0)
    greedy: float | None = fraction(None, "fraction of the target-written rows at temperature 0 [default as written]")
    whole: float = fraction(0.5, "fraction of the blocks that are fully masked, as with T = 1")
    short: float = fraction(0.0, "fraction of the steps with blocks of half the slots: late slots are rarely reached")
    layers: int = option(3, "layers of a new drafter", low=1)
    features: int | None = option(None, "layers of the target that it reads [default 3, or --start's]", low=1)
    intermediate: int | None = option(None, "width of its MLPs [default 8/3 of the target's, or --start's]", low=1)
    markov: int = option(0, "width of a head that chains the tokens of a block; 0: --start's, or none", low=0)

    decay: float = 4.0  # of the exp weights, in slots
    alone: float = 0.25  # with a Markov head, fraction of the slots that are scored without the token before them


class BlockJob(DrafterJob[BlockSettings]):
    """The target-conditioned block drafter."""

    name, settings_type = "block", BlockSettings
    about = "Train the block drafter that reads the target's hidden states (DFlash)."
    plain_words = Words(
        kind="block",
        summary="A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036): it reads its target's hidden "
        "states and uses its embedding and head. Trained on random anchors and mask ratios with the target's own "
        "distribution as labels, mostly on text the target wrote. Format of the released DFlash checkpoints.",
        scores="tau8/",
        setting="γ = 8, T = 1",
    )
    markov_words = plain_words._replace(
        kind="block_markov",
        summary="A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036) with a Markov head: a token "
        "of its block depends on the one before it (as in DSpark, arXiv 2607.05147; here the head moves the hidden "
        "state and the target's own head reads it). Begun from the drafter without it, trained in the same way. Format "
        "of the released DFlash checkpoints, with three matrices more and `markov_width` in `dflash_config`.",
    )
    model: DFlashDraftModel

    def begin(self) -> DFlashDraftModel:
        from specdiff_core.models.dflash import from_folder

        settings = self.settings
        sizes: dict[str, Any] = {"features": settings.features, "intermediate": settings.intermediate}
        if settings.start:
            model = from_folder(settings.start)
        else:
            values = drafter_config(self.target, layers=settings.layers, mask_id=self.data.mask, **sizes)
            model = new_drafter(self.target, values, settings.seed)
        if settings.markov or (settings.start and any(sizes.values())):
            depth = self.target.config.num_hidden_layers
            model = grown(model, target_layers=depth, **sizes, markov=settings.markov, seed=settings.seed)
        return model.requires_grad_(True)

    @property
    def out(self) -> Path:
        """By default never the place of the drafter without a Markov head."""
        return self.settings.out or SHIPPED / self.words.kind

    @property
    def words(self) -> Words:
        return self.plain_words if self.model.markov is None else self.markov_words

    def events(self) -> Iterator[Any]:
        """Write target text where it is missing, then train on it and on the corpus."""
        from specdiff_core.train.target_text import fast_copy, write_text

        writer, folder, seed = fast_copy(self.target), self.settings.written, self.settings.seed
        yield from write_text(writer, self.data, "train", folder, parts=self.settings.parts, seed=seed)
        sizes: Any = {"rows": 10 * len(self.corpus.flavours), "prompt_tokens": (32, 32), "new_tokens": 96}
        yield from write_text(writer, self.data, "valid", folder, parts=1, seed=seed, temperatures=(0.0,), **sizes)
        del writer
        yield from super().events()

    def task(self) -> Task:
        from specdiff_core.train.block_task import BlockTask
        from specdiff_core.train.rows import AnchorRows
        from specdiff_core.train.target_text import TargetText

        settings = self.settings
        self.target.set_attn_implementation("sdpa")
        rows = AnchorRows(self.data.split("train"), TargetText.load(settings.written / "train"), settings)
        held_out = TargetText.load(settings.written / "valid")
        return BlockTask(self.model, self.target, rows, settings, end=self.data.end, held_out=held_out)

    def export(self) -> None:
        from specdiff_core.models.dflash import save_to_folder

        save_to_folder(self.model, self.out)


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
    target: LlamaForCausalLM,
    *,
    layers: int = 3,
    features: int | None = None,
    intermediate: int | None = None,
    block_size: int = 17,
    mask_id: int = 1,
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter for ``target``: its width, heads, context and rotary base.

    Args:
        features: how many layers of the target it reads; by default 3, or as many as there are.
        intermediate: width of its MLPs; by default 8/3 of the target's width.
    """
    from specdiff_core.models.dflash import make_config

    config = target.config
    width, depth = config.hidden_size, config.num_hidden_layers
    rope = getattr(config, "rope_parameters", None) or {}
    return make_config(
        width=width,
        layers=layers,
        heads=config.num_attention_heads,
        intermediate=intermediate or 64 * max(1, round(width * 8 / 3 / 64)),
        vocab_size=config.vocab_size,
        context=config.max_position_embeddings,
        block_size=block_size,
        mask_token_id=mask_id,
        target_layer_ids=feature_layers(features or min(3, max(1, depth - 1)), depth),
        num_target_layers=depth,
        rope_theta=float(rope.get("rope_theta", getattr(config, "rope_theta", 10_000.0))),
    )


def new_drafter(target: LlamaForCausalLM, values: dict[str, Any], seed: int = 0) -> DFlashDraftModel:
    """An untrained drafter; its last norm begins as the target's, since both feed the same head."""
    import torch

    from specdiff_core.models.dflash import DFlashDraftModel

    model = DFlashDraftModel(values)
    model.initialize(torch.Generator().manual_seed(seed))
    model.norm.weight.data.copy_(target.model.norm.weight)
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
    import torch

    from specdiff_core.models.dflash import DFlashDraftModel, resized

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
    larger = DFlashDraftModel(resized(model.released, layers, intermediate, markov or config.markov_width))
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
