"""Drafts token by token with a small causal model: standard speculative sampling (Leviathan et al.
2211.17192, Chen et al. 2302.01318). The model runs in the same kind of session as a target."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specdiff_core.checkpoints.sources import resolve
from specdiff_core.checkpoints.vocabularies import unshared_ids
from specdiff_core.drafters.base import Context, Drafting, DraftSession, fit_width
from specdiff_core.drafters.sequential import draft_in_order
from specdiff_core.models.causal import end_ids, load_causal
from specdiff_core.models.device import Placement
from specdiff_core.models.reader import Reader
from specdiff_core.schema.errors import TokenizerMismatch
from specdiff_core.schema.pairs import DrafterSpec, PairSpec


class AutoregressiveSession(DraftSession):
    """One run. Its cache has committed tokens and, until it is verified, the last draft."""

    def __init__(self, drafter: AutoregressiveDrafter) -> None:
        self._drafter, self._run = drafter, drafter.reader.start()
        self._unread: list[int] = []  # committed tokens that are not in the cache
        self._ahead: list[int] = []  # uncommitted tokens in the cache: the anchor, then the draft

    @property
    def room(self) -> int:
        return max(0, self._run.room - len(self._unread))

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Keep accepted tokens, roll the rest back, and queue tokens that are not read yet."""
        pairs = zip(self._ahead, ids, strict=False)
        count = next((i for i, (ahead, token) in enumerate(pairs) if ahead != token), min(len(self._ahead), len(ids)))
        self._run.rollback(len(self._ahead), range(count))
        self._ahead = []
        self._unread += ids[count:]

    def draft(self, context: Context) -> Drafting:
        """γ passes, each for the next token."""
        drafter = self._drafter

        def predict(token: int | None) -> Tensor:
            self._ahead.append(context.ids[-1] if token is None else token)
            unread, self._unread = [*self._unread, self._ahead[-1]], []
            readable = [drafter.substitute if token in drafter.unsupported else token for token in unread]
            return fit_width(self._run.score(readable, last=1).logits, drafter.words)

        return (yield from draft_in_order(predict, context, (*drafter.reader.suppress, *drafter.unsupported)))


@dataclass(eq=False)
class AutoregressiveDrafter:
    """Shared weights of a small causal model with the target's ids."""

    name: str
    reader: Reader  # runs the model; ids that it suppresses are never drafted
    words: int | None = None  # vocabulary size of the target, if the model's differs
    unsupported: Collection[int] = ()  # ids that it lacks or uses for something else; never drafted
    substitute: int = 0  # the id that it reads in their place
    layers: tuple[int, ...] = ()

    def start(self) -> DraftSession:
        return AutoregressiveSession(self)


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> AutoregressiveDrafter:
    """Load the small model of ``spec``.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: the repository cannot be reached.
        TokenizerMismatch: its ids differ from the target's. If both have a tokenizer, table sizes
            and a few ids may differ; those ids are never drafted.
    """
    vocab = int(target.config.vocab_size)
    unshared = unshared_ids(spec, pair, vocab)
    folder = resolve(spec.source, spec.revision)
    context = spec.context or pair.context
    role = f"drafter {spec.name!r}"
    model, _ = load_causal(folder, placement.dtype, context=context, device=placement.device, role=role)
    rows = int(model.config.vocab_size)
    if unshared is None and rows != vocab:
        what = f"The drafter {spec.name!r} has {rows} ids, the target {vocab}."
        raise TokenizerMismatch(what)
    reader = Reader(model, context=context, suppress=pair.suppress)
    end = next(iter(end_ids(model.config.eos_token_id, rows)), 0)
    unsupported = frozenset((*(unshared or ()), *range(rows, vocab)))
    return AutoregressiveDrafter(spec.name, reader, words=vocab, unsupported=unsupported, substitute=end)
