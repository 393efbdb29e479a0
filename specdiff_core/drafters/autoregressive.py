"""Drafts token by token with a small causal model: standard speculative sampling (Leviathan et al. 2211.17192, Chen
et al. 2302.01318). It is read as a target is, by the same session.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession
from specdiff_core.drafters.sequential import draft_in_order
from specdiff_core.models.causal import load_causal
from specdiff_core.models.device import Placement
from specdiff_core.models.folders import resolve
from specdiff_core.models.target import Scores, Target, TargetSession
from specdiff_core.models.vocabularies import compare
from specdiff_core.schema.errors import TokenizerMismatch
from specdiff_core.schema.pairs import DrafterSpec, PairSpec


class Translated:
    """A small model of another vocabulary, read as one that has the target's: ids that mean something else to it, or
    nothing, it never drafts, and it reads its end of text for them.

    Args:
        reader: of that model.
        vocab_size: V of the target.
        strangers: ids that mean something else.
    """

    def __init__(self, reader: Target, vocab_size: int, strangers: Sequence[int]) -> None:
        self.reader, self.model, self.vocab_size = reader, reader.model, vocab_size
        missing = range(reader.vocab_size, vocab_size)
        self.suppress = tuple(sorted({*reader.suppress, *strangers, *missing}))
        end = self.model.config.eos_token_id
        self._end = int((end[0] if isinstance(end, list) else end) or 0)
        self._unread = frozenset((*strangers, *missing))

    def start(self) -> TranslatedRun:
        """A run with an empty cache."""
        return TranslatedRun(self, self.reader.start())

    def readable(self, ids: Sequence[int]) -> list[int]:
        """``ids`` of the target as the model can read them."""
        return [self._end if token in self._unread else token for token in ids]


class TranslatedRun:
    """What an autoregressive draft asks of a target's session."""

    def __init__(self, words: Translated, run: TargetSession) -> None:
        self._words, self._run, self.rollback = words, run, run.rollback

    @property
    def room(self) -> int:
        return self._run.room

    def score(self, ids: Sequence[int], *, last: int) -> Scores:
        """As :meth:`~specdiff_core.models.target.TargetSession.score`, with logits over the target's ids."""
        logits, _ = self._run.score(self._words.readable(ids), last=last)
        missing = self._words.vocab_size - logits.shape[-1]  # a negative number cuts
        return Scores(F.pad(logits, (0, missing), value=-torch.inf), None)


class AutoregressiveSession:
    """One run. Its cache holds committed tokens and, between a draft and what is observed of it, that draft."""

    def __init__(self, reader: Target | Translated) -> None:
        self._run, self._forbidden = reader.start(), reader.suppress
        self._unread: list[int] = []  # committed tokens that are not in the cache
        self._ahead: list[int] = []  # tokens in the cache that nobody has committed yet: the anchor, then drafted ones

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Keep what was drafted rightly, roll the rest back, and remember what is still to be read."""
        pairs = zip(self._ahead, ids, strict=False)
        kept = next((i for i, (ahead, token) in enumerate(pairs) if ahead != token), min(len(self._ahead), len(ids)))
        self._run.rollback(len(self._ahead), range(kept))
        self._ahead = []
        self._unread += ids[kept:]

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """γ passes, each of which reveals the next token. A context that is full cuts the draft."""
        gamma = min(context.gamma, self._run.room - len(self._unread))

        def predict(token: int | None) -> Tensor:
            self._ahead.append(context.ids[-1] if token is None else token)
            unread, self._unread = self._unread, []
            return self._run.score([*unread, self._ahead[-1]], last=1).logits

        return (yield from draft_in_order(predict, context, gamma, self._forbidden))


@dataclass(eq=False)
class AutoregressiveDrafter:
    """Shared weights of a small causal model with the target's ids."""

    name: str
    reader: Target | Translated  # reads it as a target is read; what it suppresses is never drafted
    layers: tuple[int, ...] = ()

    def start(self) -> DraftSession:
        """A session with an empty cache."""
        return AutoregressiveSession(self.reader)


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> AutoregressiveDrafter:
    """Load the small model of ``spec``.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: the repository cannot be reached.
        TokenizerMismatch: it has other ids than the target.
    """
    vocab_size = int(target.config.vocab_size)
    strange = compare(spec, pair, vocab_size)
    folder = resolve(spec.source, spec.revision)
    context = spec.context or pair.context
    role = f"drafter {spec.name!r}"
    model, _ = load_causal(folder, placement.dtype, context=context, device=placement.device, role=role)
    reader = Target(model, context=context, suppress=pair.suppress, graphs=placement.graphs)
    if strange is None and reader.vocab_size != vocab_size:
        raise TokenizerMismatch(
            f"The drafter {spec.name!r} has {reader.vocab_size} ids, the target {vocab_size}.",
            hint="Drafter and target must share one tokenizer; choose another drafter for this pair.",
        )
    same = not strange and reader.vocab_size == vocab_size
    return AutoregressiveDrafter(spec.name, reader if same else Translated(reader, vocab_size, strange or ()))
