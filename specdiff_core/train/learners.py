"""What each drafter of ``train drafter`` learns from the target's answers, and how it is stored.

The block drafter follows DFlash (arXiv 2602.06036): a few layers read hidden states of the target
through one projection and denoise a block behind an anchor, between the target's frozen embedding
and output head. A slot weighs as much as it adds to the expected accepted length (D-PACE, arXiv
2605.18810). The masked drafter (SpecDiff) does the same without hidden states. EAGLE's head (arXiv
2401.15077) continues the target's last hidden states, and a small causal model the text. All learn
by cross-entropy first, and at the end by total variation, the share of drafted tokens that the
ratio test rejects (LK losses, arXiv 2602.23881)."""

from __future__ import annotations

import collections
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig

from specdiff_core.models.dflash import DFlashDraftModel, from_folder, speculators_config
from specdiff_core.models.eagle import EagleHead, save_eagle
from specdiff_core.models.files import write_folder
from specdiff_core.models.folders import read_config, shown
from specdiff_core.models.kernels import multiplies_bf16
from specdiff_core.models.masked import ARCHITECTURE, MaskedDraftModel, load_masked
from specdiff_core.models.network import Vocabulary, attend, causal
from specdiff_core.models.own_pairs import drafter_kind
from specdiff_core.models.sources import is_gguf
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train import losses
from specdiff_core.train.answers import Batch
from specdiff_core.train.settings import DrafterSettings

FREQUENT = 6144
"""Words in the loss before the finish, the most frequent: their head is most of a step's work."""
FIRST = 4
"""Slots of a short block. Late slots are seldom reached, so half of the steps leave them out."""
ALONE = 0.3
"""Share of the slots scored without the Markov head: decoding chooses candidates without it."""
IN_PROMPT = 0.15
"""How much a word of a prompt counts beside one of an answer."""
TV = 0.9
"""Weight of total variation at the end."""
PASSES = 3
"""Times that EAGLE's head reads a row: first the target's features, then, in part, its own
(EAGLE-3's training-time test, arXiv 2503.01840, with a random mixture in place of its mask)."""
OWN = 0.5
"""Share of a later pass's features that are the head's own."""
FEATURE = 0.5
"""Weight of the smooth L1 distance between features beside the cross-entropy (EAGLE: 1 to 0.1)."""
SPECULATORS = "c05b95b303f7"
"""The commit of vLLM's speculators whose classes compute the same hidden states."""
DEPTHS = (0.28, 0.62, 0.93)
"""Depths of the layers that a block drafter reads: layers 8, 18 and 27 of 30."""


def default_taps(depth: int) -> tuple[int, ...]:
    """The layers that a block drafter reads of a target of ``depth`` layers. The last one, whose
    output is normed, is read only where it is the only one."""
    return tuple(sorted({min(round(share * (depth - 1)), max(0, depth - 2)) for share in DEPTHS}))


class DraftVocab(NamedTuple):
    """The words that a drafter has, most frequent first."""

    ids: Tensor  # [d] of the target's vocabulary
    inverse: Tensor  # [V] where each of the target's ids is in ``ids``; −1: nowhere
    rows: Tensor  # [d, W] of the target's output head

    @classmethod
    def of(cls, ids: Sequence[int], target: Vocabulary) -> DraftVocab:
        """Those with the ids of ``target``."""
        rows = target.read_rows()
        index = torch.tensor(ids, device=rows.device)
        inverse = torch.full((len(rows),), -1, device=rows.device)
        inverse[index] = torch.arange(len(index), device=rows.device)
        return cls(index, inverse, rows[index])

    def first(self, count: int) -> DraftVocab:
        """The ``count`` most frequent ones."""
        inverse = torch.where(self.inverse < count, self.inverse, -1)
        return DraftVocab(self.ids[:count], inverse, self.rows[:count])


def frequent_words(
    answers: Iterable[Sequence[int]], prompts: Iterable[Sequence[int]], *, among: Iterable[int], count: int
) -> list[int]:
    """At most ``count`` of the candidate ids ``among``, the most frequent first. Prompts count
    a little: their words are likely to come up in answers."""
    answered = collections.Counter(itertools.chain.from_iterable(answers))
    prompted = collections.Counter(itertools.chain.from_iterable(prompts))
    scores = {t: answered[t] + IN_PROMPT * prompted[t] for t in among}
    return sorted(scores, key=lambda token: -scores[token])[:count]


class Learner(ABC):
    """A drafter in training, and what it needs of the frozen target.

    Args:
        model: trained in place.
        table: the target's embedding and head.
        layers: of the target, whose states a batch holds.
    """

    title: ClassVar[str]
    model: Any

    def __init__(
        self, model: nn.Module, table: Vocabulary, words: DraftVocab, layers: Sequence[int], settings: DrafterSettings
    ) -> None:
        self.model, self.words, self.layers, self.settings = model, words, tuple(layers), settings
        self.embedding = table.read_embedding()  # in memory, wherever the target reads it
        self.device = self.embedding.device
        self._frequent = words.first(FREQUENT)

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """The mean loss of a batch; ``finishing``: by total variation over all words, otherwise by
        cross-entropy over the :data:`FREQUENT` ones, in nats."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write it in a released layout."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What its card says: how it works, and what was checked of its layout."""

    def _objective(self, finishing: bool) -> tuple[DraftVocab, float]:
        """The words that the loss compares, and the weight of total variation."""
        return (self.words, TV) if finishing else (self._frequent, 0.0)

    def _embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.embedding)

    def _distilled(self, states: Tensor, batch: Batch, where: tuple[Tensor, ...], *, finishing: bool) -> Tensor:
        """The mean loss of ``states [n, W]`` against the stored distributions at ``where``."""
        words, tv = self._objective(finishing)
        ids, probs = words.inverse[batch.top_ids[where]], batch.top_logs[where].float().exp()
        values, _ = losses.top_loss(states, words.rows, ids.new_full((len(ids),), -1), ids, probs, tv=tv)
        return values.mean()

    @property
    def _head(self) -> Tensor:
        """The rows of the output head for the drafter's words, by their ids."""
        return self.words.rows[self.words.ids.argsort()]

    @property
    def _checked(self) -> str:
        text = "It loads and drafts in SpecDiff Lab; it was not tried in a serving engine."
        if not self.settings.tables:
            text += " The target's embedding and head are left out of its files; engines need them."
        return text


class BlockLearner(Learner):
    """A block drafter.

    Attributes:
        weigh: how much each slot counts, from the drafter's probabilities ``[..., γ]`` of the
            text's own tokens and a mask of the slots inside the text.
    """

    title = "Block"
    model: DFlashDraftModel
    weigh: Callable[[Tensor, Tensor], Tensor] = staticmethod(losses.dpace_weights)

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the slots that are masked and lie inside the text."""
        settings, (words, tv) = self.settings, self._objective(finishing)
        short = bool(torch.rand((), generator=generator) < 0.5)
        size = min(FIRST, settings.block) if short else settings.block
        first = batch.prompts - 1  # the prompt's last token is the first anchor
        plan: Any = {"count": settings.anchors, "size": size, "whole": settings.whole, "generator": generator}
        blocks = draw_blocks(batch.tokens, batch.lengths, first, **plan)
        where, states = self._states(blocks, batch)
        # Slot j behind an anchor at a stands for token a + j, predicted from the state at a + j − 1.
        before = where[0], blocks.anchors[where[:2]] + where[2]
        values, logs = losses.top_loss(
            states,
            words.rows,
            words.inverse[blocks.text[..., 1:][where]],
            words.inverse[batch.top_ids[before]],
            batch.top_logs[before].float().exp(),
            tv=tv,
            pairs=self._pairs(blocks.text[..., :-1][where], words, generator),
        )
        known = blocks.known[..., 1:]
        probs = torch.ones(known.shape, device=self.device).index_put(where, logs.exp())
        weigh = losses.streak_weights if settings.align == "streak" else self.weigh
        return losses.weighted_mean(values, weigh(probs, known)[where])

    def _states(self, blocks: Blocks, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Row, block and slot of the masked slots inside the text, and the states there, ``[n, W]``."""
        ids = blocks.text.masked_fill(blocks.masked, int(self.model.config.mask_token_id))
        with autocast(ids.device):
            embedded = self._embed(ids.flatten(1))
            features = batch.features.flatten(2).to(embedded)
            hidden = block_hidden(self.model, features, embedded, blocks.anchors, ids.shape[-1])
        where = (blocks.masked & blocks.known)[..., 1:].nonzero(as_tuple=True)
        return where, hidden.view(*ids.shape, -1)[:, :, 1:][where].float()

    def _pairs(self, before: Tensor, words: DraftVocab, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        """The two factors of a Markov head's bias behind the tokens ``before [n]``, for ``words``; None without one.
        A share of the slots, :data:`ALONE`, has none."""
        if (head := getattr(self.model, "markov", None)) is None:
            return None
        chained = torch.rand(len(before), 1, generator=generator).to(before.device) >= ALONE
        first, second = head.tables(self._embed(before).float(), words.rows.float())
        return first * chained, second

    @torch.no_grad()
    def draft(self, batch: Batch, anchors: Tensor) -> Tensor:
        """The likeliest tokens behind ``anchors [B, A]`` in one pass (T = 1): ``[B, A, γ]``."""
        model, size = self.model.eval(), self.settings.block + 1
        ids = anchors.new_full((*anchors.shape, size), int(model.config.mask_token_id))
        ids[..., 0] = batch.tokens.gather(1, anchors)
        embedded = self._embed(ids.flatten(1))
        hidden = block_hidden(model, batch.features.flatten(2).to(embedded), embedded, anchors, size)
        states = hidden.view(*ids.shape, -1)[:, :, 1:]
        return self.words.ids[(states.float() @ self.words.rows.float().T).argmax(-1)]

    def export(self, folder: Path) -> None:
        """In the layout of vLLM's speculators."""
        tensors = dict(self.model.state_dict())
        if self.settings.tables:
            tensors |= {"embed_tokens.weight": self.embedding, "lm_head.weight": self._head}
        write_folder(folder, self.model.released, tensors, tables=self._maps)

    @property
    def _maps(self) -> dict[str, Tensor]:
        """``d2t`` and ``t2d`` in the files of a drafter that lacks some of the target's words."""
        known = (self.words.inverse >= 0).cpu()
        ids = known.nonzero()[:, 0]
        return {"d2t": ids - torch.arange(len(ids)), "t2d": known} if len(ids) < len(known) else {}

    @property
    def about(self) -> str:
        layers, count, total = ", ".join(map(str, self.layers)), len(self.words.ids), len(self.words.inverse)
        markov = ""
        if self.settings.markov:
            markov = (
                " With its Markov head, which `train export` writes as DSpark's, a token depends on the one before it."
            )
        return (
            f"A block-diffusion drafter (DFlash, arXiv 2602.06036) of {self.settings.block} tokens "
            f"at a time. It reads layers {layers} of the target (0 is the first) and uses the "
            f"target's embedding and output head, of which it has {count:,} of {total:,} "
            f"words.{markov}\n\nLayout: `DFlashSpeculator` of vLLM's speculators, whose DFlash "
            f"classes (commit {SPECULATORS}) have the same names and shapes and compute the same "
            f"hidden states. {self._checked} For other engines: `train export`."
        )


class MaskedLearner(BlockLearner):
    """A masked denoiser cut from the target: reads no hidden states of it."""

    title = "SpecDiff"
    model: MaskedDraftModel  # type: ignore[assignment]

    def _states(self, blocks: Blocks, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Row j of a window predicts slot j + 1."""
        ids = blocks.text.masked_fill(blocks.masked, int(self.model.config.mask_token_id))[..., :-1]
        with autocast(ids.device):
            hidden = masked_hidden(self.model, self._embed(batch.tokens), self._embed(ids), blocks.anchors)
        where = (blocks.masked & blocks.known)[..., 1:].nonzero(as_tuple=True)
        return where, hidden[where].float()

    def export(self, folder: Path) -> None:
        """In the layout of ``models/masked.py``."""
        write_folder(folder, self.model.released, self.model.state_dict(), tables=self._maps)

    @property
    def about(self) -> str:
        count, total = len(self.words.ids), len(self.words.inverse)
        return (
            f"An independent masked-diffusion drafter (SpecDiff, arXiv 2408.05636) of windows up to "
            f"{self.settings.block} tokens: {self.model.shape.layers} layers{begun_with(self.settings)}, "
            f"adapted as DiffuLLaMA and Dream are, between the target's embedding and output head, of which it has "
            f"{count:,} of {total:,} words. It reads no hidden states of the target. The text before a window is "
            f"read causally and cached; the window in both directions."
        )


def begun_with(settings: DrafterSettings) -> str:
    """What a drafter's layers were at first, for its card, if they are not new."""
    cut = ", ".join(map(str, settings.cut))
    return f", begun with layers {cut} of the target (0 is the first)" if cut else ""


class AutoregressiveLearner(Learner):
    """A small causal model: the layers of :class:`MaskedDraftModel`, which here read the text before
    them only. It learns the target's distributions (DistillSpec's forward KL, arXiv 2310.08461)."""

    title = "Autoregressive"
    model: MaskedDraftModel

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the tokens whose distribution is stored."""
        positions = torch.arange(batch.tokens.shape[1], device=self.device)
        with autocast(self.device):
            rope = self.model.rope(positions[None])
            hidden = self.model(self._embed(batch.tokens), rope, causal, last=len(positions))
        where = (batch.top_logs[..., 0] > -torch.inf).nonzero(as_tuple=True)
        return self._distilled(hidden[where].float(), batch, where, finishing=finishing)

    def export(self, folder: Path) -> None:
        """As a stock ``LlamaForCausalLM`` with the target's embedding and output head."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors["model.embed_tokens.weight"] = self.embedding
        if not self.model.config.tie_word_embeddings:
            tensors["lm_head.weight"] = self._head
        write_folder(folder, self.model.released, tensors)

    @property
    def about(self) -> str:
        return (
            "A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, 2302.01318): a "
            f"stock `LlamaForCausalLM` as wide as its target, of {self.model.shape.layers} "
            f"layers{begun_with(self.settings)}, with the target's embedding and output head. It learned the target's "
            "distributions (arXiv 2310.08461)."
        )


class EagleLearner(Learner):
    """EAGLE's head: smooth L1 to the target's features and cross-entropy to its most probable
    words, over :data:`PASSES` readings of each answer."""

    title = "EAGLE"
    model: EagleHead

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the tokens whose distribution is stored."""
        states = batch.features[:, :, 0]
        # Entry t reads the feature of token t beside token t + 1, and stands for that of t + 1.
        where = (batch.top_logs[:, 1:, 0] > -torch.inf).nonzero(as_tuple=True)
        behind = where[0], where[1] + 1
        feature = states[behind].float()
        shape = (PASSES - 1, len(states), states.shape[1] - 2, 1)
        use_own = (torch.rand(shape, generator=generator) < OWN).to(self.device)
        embedded = self._embed(batch.tokens[:, 1:])
        loss = torch.zeros((), device=self.device)
        with autocast(self.device):
            readings = list(eagle_readings(self.model, embedded, states.to(embedded), use_own))
        for reading in readings:
            rows = reading[where].float()
            loss = (
                loss
                + self._distilled(rows, batch, behind, finishing=finishing)
                + FEATURE * F.smooth_l1_loss(rows, feature)
            )
        return loss / PASSES

    def export(self, folder: Path) -> None:
        """In the layout of the released EAGLE heads."""
        save_eagle(self.model, folder, embedding=self.embedding if self.settings.tables else None)

    @property
    def about(self) -> str:
        return (
            "EAGLE's head (arXiv 2401.15077): one decoder layer that continues its target's last "
            "hidden states, between the target's own embedding and output head.\n\nLayout: that of "
            "the released EAGLE heads. " + self._checked
        )


# Networks in training.


def autocast(device: torch.device) -> torch.autocast:
    """bf16 where the device computes it; elsewhere it would be emulated, and slower than fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=multiplies_bf16(device))


class Blocks(NamedTuple):
    """What a block drafter sees and predicts: A blocks in each of B rows, an anchor and b slots."""

    text: Tensor  # [B, A, b + 1] int64, the row's own tokens
    known: Tensor  # [B, A, b + 1] bool: inside the text
    masked: Tensor  # [B, A, b + 1] bool, never the anchor
    anchors: Tensor  # [B, A] int64, positions in the row


def draw_blocks(
    tokens: Tensor,
    lengths: Tensor,
    first: Tensor,
    *,
    count: int,
    size: int,
    whole: float,
    generator: torch.Generator,
) -> Blocks:
    """``count`` random blocks of ``size`` slots in each row, a share ``whole`` of them all masks.

    Most others begin with given tokens, as T > 1 from left to right; in some, these are scattered.

    Args:
        tokens: ``[B, L]``; tokens of row i from ``lengths[i]`` on are padding.
        first: ``[B]`` the first position of an anchor; the last one is the last but one of the text.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(len(tokens), count, *shape, generator=generator).to(tokens.device)

    first = first[:, None]
    room = (lengths[:, None] - 1 - first).clamp_min(1)
    anchors = first + (uniform() * room).long().clamp_max(room - 1)
    positions = anchors[..., None] + torch.arange(size + 1, device=tokens.device)
    text = tokens.gather(1, positions.clamp_max(tokens.shape[1] - 1).flatten(1)).view_as(positions)
    known = positions < lengths[:, None, None]
    kind, scattered = uniform(1), uniform(size) < uniform(1)
    begun = torch.arange(size, device=tokens.device) >= (uniform(1) * size).long()
    partly = torch.where(kind < whole + 0.6 * (1 - whole), begun, scattered)
    masked = (kind < whole) | partly | ~known[..., 1:]  # what lies behind the end is never given
    return Blocks(text, known, F.pad(masked, (1, 0)), anchors)


def block_hidden(model: DFlashDraftModel, features: Tensor, embeddings: Tensor, anchors: Tensor, size: int) -> Tensor:
    """All blocks of a batch in one pass, each reading the features before its anchor and itself.

    Args:
        features: ``[B, L, F·W]``.
        embeddings: ``[B, A·b, W]``, the target's, of anchors, clean and mask tokens.
        anchors: ``[B, A]``.
        size: b.

    Returns:
        ``[B, A·b, W]`` hidden states for the target's head.
    """
    positions = (anchors[..., None] + torch.arange(size, device=anchors.device)).flatten(1)  # [B, A·b]
    context_positions = torch.arange(features.shape[1], device=anchors.device)
    context = model.context_keys_values(model.read_features(features), model.rope(context_positions[None]))
    blocks = torch.arange(positions.shape[1], device=anchors.device) // size
    before = context_positions < anchors.repeat_interleave(size, 1)[..., None]  # [B, A·b, L]
    itself = (blocks[:, None] == blocks).expand(len(before), -1, -1)  # [B, A·b, A·b]
    mask = torch.cat([before, itself], -1)[:, None]

    def read(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = (torch.cat(halves, 2) for halves in zip(context[index], (k, v), strict=True))
        return attend(q, keys, values, mask)

    return model.denoise(embeddings, model.rope(positions), read)


def masked_hidden(model: MaskedDraftModel, text: Tensor, windows: Tensor, anchors: Tensor) -> Tensor:
    """Texts and all windows of a batch in one pass. A text is read causally; a window reads the text
    before its anchor, and itself in both directions.

    Args:
        text: ``[B, L, W]`` embeddings.
        windows: ``[B, A, γ, W]`` embeddings of anchors, clean and mask tokens.
        anchors: ``[B, A]``.

    Returns:
        ``[B, A, γ, W]`` final states.
    """
    (batch, length), (count, size) = text.shape[:2], windows.shape[1:3]
    context = torch.arange(length, device=text.device)
    positions = anchors[..., None] + torch.arange(size, device=text.device)  # [B, A, γ]
    windowed = torch.arange(count * size, device=text.device) // size
    before = context < anchors.repeat_interleave(size, 1)[..., None]  # [B, A·γ, L]
    itself = (windowed[:, None] == windowed).expand(batch, -1, -1)
    earlier = (context <= context[:, None]).expand(batch, -1, -1)  # [B, L, L]
    seen = torch.cat([F.pad(earlier, (0, count * size)), torch.cat([before, itself], -1)], 1)[:, None]
    mask = torch.zeros_like(seen, dtype=text.dtype).masked_fill_(~seen, -torch.inf)  # added: fast on a CPU

    def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, mask)

    rope = model.rope(torch.cat([context.expand(batch, -1), positions.flatten(1)], 1))
    states: Tensor = model(torch.cat([text, windows.flatten(1, 2)], 1), rope, read, last=count * size)
    return states.view(batch, count, size, -1)


def eagle_readings(head: EagleHead, embeddings: Tensor, states: Tensor, use_own: Tensor) -> Iterator[Tensor]:
    """The features ``[B, L − 1, W]`` that the head predicts, reading by reading.

    Args:
        embeddings: ``[B, L − 1, W]`` of tokens 2 .. L.
        states: ``[B, L, W]`` the target's features.
        use_own: ``[P − 1, B, L − 2, 1]`` bool: where a later reading gets the head's own feature. A
            feature that the head predicted belongs one token later.
    """
    inputs = states[:, :-1]
    predicted = head(embeddings, inputs)
    yield predicted
    for mixed in use_own:
        inputs = torch.cat([states[:, :1], torch.where(mixed, predicted[:, :-1], states[:, 1:-1].to(predicted))], 1)
        predicted = head(embeddings, inputs)
        yield predicted


# New drafters.

ENDS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Fields of a target's config that a Llama needs, or it would have those of Llama 1."""


def layer_config(target: Any) -> dict[str, Any]:
    """The fields of a layer like those of a ``target`` with this config."""
    width, heads = int(target.hidden_size), int(target.num_attention_heads)
    rope = getattr(target, "rope_parameters", None) or {}
    return {
        "hidden_size": width,
        "intermediate_size": int(getattr(target, "intermediate_size", None) or 4 * width),
        "num_attention_heads": heads,
        "num_key_value_heads": int(getattr(target, "num_key_value_heads", None) or heads),
        "head_dim": int(getattr(target, "head_dim", None) or width // heads),
        "hidden_act": "silu",
        "rms_norm_eps": float(getattr(target, "rms_norm_eps", None) or 1e-6),
        "rope_parameters": {"rope_type": "default", "rope_theta": float(rope.get("rope_theta") or 10_000.0)},
        "max_position_embeddings": int(target.max_position_embeddings),
        "vocab_size": int(target.vocab_size),
        "attention_bias": False,
        "tie_word_embeddings": False,
        "initializer_range": 0.02,
    }


def block_config(
    target: Any, name: str, settings: DrafterSettings, *, taps: Sequence[int], mask: int, words: int
) -> dict[str, Any]:
    """The ``config.json`` of a new block drafter in the layout of vLLM's speculators.

    Args:
        target: its config.
        name: what it is called: a repository, or a folder.
        words: how many the drafter has.
    """
    network = {"num_hidden_layers": settings.layers, **layer_config(target)}
    facts: Any = {"verifier": name, "architectures": getattr(target, "architectures", None) or ()}
    facts |= {"taps": taps, "block": settings.block, "words": words, "mask": mask}
    own = {"markov_width": settings.markov} if settings.markov else {}
    precision = {"trained_for": Path(name).name} if is_gguf(name) else {}
    return speculators_config(network, **facts) | own | precision


def new_block(released: dict[str, Any], *, seed: int) -> DFlashDraftModel:
    """An untrained block drafter. At first its residual stream holds the embedding of a mask, which
    predicts the mask, so its last norm begins small."""
    model = DFlashDraftModel(released)
    model.initialize(torch.Generator().manual_seed(seed))
    norm: Any = model.norm
    with torch.no_grad():
        norm.weight.fill_(0.2)
        for layer in model.layers:
            layer.self_attn.o_proj.weight.mul_(0.3)
            layer.mlp.down_proj.weight.mul_(0.3)
    return model


def masked_config(target: Any, name: str, settings: DrafterSettings, *, mask: int, words: int) -> dict[str, Any]:
    """The ``config.json`` of a new denoiser cut from ``target`` (``models/masked.py``)."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "num_hidden_layers": len(settings.cut) or settings.layers,
        **layer_config(target),
        "block_size": settings.block,
        "draft_vocab_size": words,
        "mask_token_id": mask,
        "cut_from": {"name_or_path": name, "layers": list(settings.cut)},
        "dtype": "bfloat16",
    }


def causal_config(target: Any, settings: DrafterSettings) -> dict[str, Any]:
    """The ``config.json`` of a new autoregressive drafter for ``target``."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": len(settings.cut) or settings.layers,
        **layer_config(target),
        **{name: getattr(target, name, None) for name in ENDS},
        "tie_word_embeddings": bool(getattr(target, "tie_word_embeddings", False)),
        "dtype": "bfloat16",
    }


def new_masked(released: dict[str, Any], cut: Mapping[str, Tensor], *, seed: int) -> MaskedDraftModel:
    """An untrained denoiser, or causal model; ``cut``: weights to begin with (``models/causal.py: read_layers``). The
    last norm begins small, or the states of layers that did not follow each other would be taken for
    confidence: measured, a first loss of 8.9 instead of 17.8."""
    model, generator = MaskedDraftModel(released), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=model.config.initializer_range, generator=generator)
    if cut:
        if odd := sorted(cut.keys() ^ model.state_dict().keys()):
            what = f"No drafter can be cut from this target: its layers are not Llama's ({odd[0]})."
            raise ConfigError(what, field="cut", hint="Leave it out, for new layers.")
        model.load_state_dict(dict(cut))
    norm: Any = model.norm
    with torch.no_grad():
        norm.weight.mul_(0.1 if cut else 0.2)
    return model


LEARNERS: dict[str, type[Learner]] = {
    "block": BlockLearner,
    "eagle": EagleLearner,
    "masked": MaskedLearner,
    "autoregressive": AutoregressiveLearner,
}


PLAIN: dict[str, Any] = {
    "anchor_predicts": False,
    "conv_kernel_size": 0,
    "final_logit_softcapping": None,
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "selector_rank": 0,
}
"""What the config of a block drafter that is trained here says of parts that some releases have."""


def exported(folder: Path) -> tuple[DFlashDraftModel | MaskedDraftModel, dict[str, Any]]:
    """A block drafter or a denoiser to train on, and the settings that its shape determines.

    Raises:
        ConfigError: it is another kind of drafter, or has parts that aren't trained here.
        WeightsError: a file is missing, damaged or misfit.
    """
    values, trained = read_config(folder), False
    model: DFlashDraftModel | MaskedDraftModel
    if ARCHITECTURE in (values.get("architectures") or ()):
        model, trained = load_masked(folder), True
        cut = (values.get("cut_from") or {}).get("layers") or ()
        shape = {"kind": "masked", "block": model.config.block_size, "cut": tuple(cut)}
    elif drafter_kind(values) == "block":
        model = block = from_folder(folder)
        config = block.config
        trained = not any(block.reaches) and all(getattr(config, name) == value for name, value in PLAIN.items())
        shape = {"kind": "block", "block": config.block_size - 1, "taps": tuple(config.target_layer_ids)}
        shape |= {"markov": config.markov_width} if config.markov_width else {}
    if not trained:
        what = f"The drafter in {shown(folder)} can't be trained here."
        raise ConfigError(what, field="start", hint="Begin with a block or masked drafter that this command made.")
    words = int(model.config.vocab_size) if model.draft_ids is None else len(model.draft_ids)
    return model.requires_grad_(True), {**shape, "layers": model.shape.layers, "words": words}


def take_weights(model: DFlashDraftModel, start: DFlashDraftModel) -> None:
    """Begin ``model`` with the weights of ``start``; what its Markov head has and that of ``start`` hasn't stays new.

    Raises:
        ConfigError: ``start`` was made for another target.
    """
    own, theirs = model.state_dict(), start.state_dict()
    fitting = {name: theirs[name] for name in own if name in theirs and theirs[name].shape == own[name].shape}
    if missing := [name for name in own if name not in fitting and not name.startswith("markov.")]:
        what = f"The drafter in --start doesn't fit this target: {missing[0]} has another shape."
        raise ConfigError(what, field="start", hint="Name the target that it was trained for.")
    model.load_state_dict(fitting, strict=False)


def new_eagle(target: Any, *, seed: int = 0) -> EagleHead:
    """An untrained EAGLE head for a target with this config, which repeats its feature at first."""
    ends: Any = {name: getattr(target, name, None) for name in ENDS}
    config = LlamaConfig(**layer_config(target), **ends, num_hidden_layers=1, architectures=["LlamaForCausalLMEagle"])
    head, generator = EagleHead(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=config.initializer_range, generator=generator)
        width = config.hidden_size
        head.fc.weight[:, :width] *= 0.1
        head.fc.weight[:, width:] = torch.eye(width)
        for projection in (head.layers[0].self_attn.o_proj, head.layers[0].mlp.down_proj):
            projection.weight.mul_(0.1)
    return head
