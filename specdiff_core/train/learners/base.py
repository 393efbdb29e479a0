"""What the drafters that are trained here have in common: their words, and what a trainer asks of them."""

from __future__ import annotations

import collections
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.sources import is_local, resolve
from specdiff_core.models.causal import read_layers
from specdiff_core.models.kernels import multiplies_bf16
from specdiff_core.models.network import Vocabulary
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import PairSpec
from specdiff_core.train import losses
from specdiff_core.train.answers import Batch
from specdiff_core.train.settings import DrafterSettings

FREQUENT = 6144
"""Words in the loss before the finish, the most frequent: their head is most of a step's work."""
IN_PROMPT = 0.15
"""How much a word of a prompt counts beside one of an answer."""
TV = 0.9
"""Weight of total variation at the end."""
ENDS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Fields of a target's config that a Llama needs, or it would have those of Llama 1."""


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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a network to train is made from."""

    spec: PairSpec  # of the target
    target: Any  # the target's config
    settings: DrafterSettings
    mask: int  # an id that no text holds
    words: int  # how many it has
    start: Any  # a network to begin with, or None
    released: dict[str, Any]  # the ``config.json`` of a checkpoint's network; empty: none

    @property
    def name(self) -> str:
        """What the target is called: a repository, or a folder."""
        return short_path(self.spec.target) if is_local(self.spec.target) else self.spec.target

    def read_cut(self) -> dict[str, Tensor]:
        """The target's layers that a new network begins with, if any."""
        if not self.settings.cut or self.released:
            return {}
        return read_layers(resolve(self.spec.target, self.spec.revision), self.settings.cut)


class Learner(ABC):
    """A drafter in training, and what it needs of the frozen target.

    Args:
        model: trained in place.
        table: the target's embedding and head.
        layers: of the target, whose states a batch holds.
    """

    title: ClassVar[str]
    chains: ClassVar[bool] = False  # can have a Markov head
    model: Any

    @classmethod
    def check(cls, settings: DrafterSettings, depth: int) -> None:
        """Raise ConfigError if ``settings`` don't fit it, or a target of ``depth`` layers."""
        if settings.only == "head" and not (cls.chains and settings.markov):
            what = "--only head trains a block drafter's Markov head, and there is none."
            raise ConfigError(what, field="only", hint="Give --markov a rank, or leave --only out.")
        if max(settings.cut, default=0) >= depth:
            what = f"--cut {' '.join(map(str, settings.cut))} must be layers of the target, 0 to {depth - 1}."
            raise ConfigError(what, field="cut", hint="Choose among those, or leave it out for new ones.")

    @classmethod
    def reads(cls, settings: DrafterSettings, depth: int) -> tuple[int, ...]:
        """The layers that it reads of a target of ``depth`` layers; none by default.

        Raises:
            ConfigError: the target doesn't have those of ``settings``.
        """
        return ()

    @classmethod
    def candidates(cls, size: int, mask: int, start: Any, most: int) -> tuple[Sequence[int], int]:
        """The ids that it may draft, of the target's ``size``, and how many of them it gets."""
        if start is None:
            return [token for token in range(size) if token != mask], most
        return range(size) if start.draft_ids is None else start.draft_ids.tolist(), most

    @classmethod
    @abstractmethod
    def new(cls, plan: Plan) -> nn.Module:
        """The network to train."""

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        """The network in ``folder``, whose config has ``values``, and the settings that its shape determines; None if
        it is none of these or can't be trained.

        Raises:
            WeightsError: a file is missing, damaged or misfit.
        """
        return None

    def __init__(
        self, model: nn.Module, table: Vocabulary, words: DraftVocab, layers: Sequence[int], settings: DrafterSettings
    ) -> None:
        self.model, self.words, self.layers, self.settings = model, words, tuple(layers), settings
        self.embedding = table.read_embedding()  # in memory, wherever the target reads it
        self.device = self.embedding.device
        self._frequent = words.first(FREQUENT)

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """The mean loss of a batch; ``finishing``: by total variation over all words, the share of drafted tokens that
        the ratio test rejects (LK losses, arXiv 2602.23881); otherwise by cross-entropy over the :data:`FREQUENT`
        ones, in nats."""

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


def begun_with(settings: DrafterSettings) -> str:
    """What a drafter's layers were at first, for its card, if they are not new."""
    cut = ", ".join(map(str, settings.cut))
    return f", begun with layers {cut} of the target (0 is the first)" if cut else ""


def autocast(device: torch.device) -> torch.autocast:
    """bf16 where the device computes it; elsewhere it would be emulated, and slower than fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=multiplies_bf16(device))


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
