"""A loaded drafter with one of its declarations changed: the same weights, read in another way. Only the doctor uses
them (``explorations/doctor.py``).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specdiff_core.drafters.autoregressive import AutoregressiveDrafter
from specdiff_core.drafters.base import Context, DenoiseState, Draft, Drafter, DraftSession
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.eagle import EagleDrafter
from specdiff_core.drafters.masked_diffusion import MaskedDiffusionDrafter
from specdiff_core.models.bidirectional import Bidirectional
from specdiff_core.models.cache import Pool
from specdiff_core.models.network import Attend

SHIFT, LAYERS, MASK, ANCHOR = "shift", "feature layers", "mask id", "embedding of the anchor slot"
POSITIONS, MAP, DTYPE, TEMPLATE = "positions", "tokenizer map", "dtype", "template"
DECLARATIONS = (SHIFT, LAYERS, MASK, ANCHOR, POSITIONS, MAP, DTYPE, TEMPLATE)
MASKS = 8
"""Ids that are tried in the place of the mask's, at most."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One change."""

    declaration: str  # one of :data:`DECLARATIONS`; empty: nothing is changed
    declared: str  # in words
    change: str  # to what
    drafter: Drafter
    skip: int = 0  # so many first tokens of each draft are left out


class Words(NamedTuple):
    """What is known about ids."""

    suppress: Sequence[int]  # ids that the target suppresses
    special: Sequence[int]  # special ids of its tokenizer, those first that are called a mask
    name: Callable[[int], str]


@singledispatch
def variants(drafter: Any, layers: int, words: Words) -> tuple[list[Variant], dict[str, str]]:
    """Every change of one declaration that means something to a drafter of this kind, but for dtype and template, and
    for each other declaration why it has none. A kind of drafter registers its own (``@variants.register``, here or in
    its own file); all others have none.

    Args:
        layers: of the target.
    """
    return [], dict.fromkeys((SHIFT, LAYERS, MASK, ANCHOR, POSITIONS, MAP), "it has no such declaration")


@variants.register
def _of_denoiser(drafter: MaskedDiffusionDrafter, layers: int, words: Words) -> tuple[list[Variant], dict[str, str]]:
    why = {LAYERS: "it reads no hidden states", ANCHOR: "the anchor is a token like all others to it"}
    if not _learned(drafter.model):
        why[POSITIONS] = "its positions are relative: all of them moved by one change nothing"
    return [*_denoiser(drafter, words)], why


@variants.register
def _of_block(drafter: BlockDrafter, layers: int, words: Words) -> tuple[list[Variant], dict[str, str]]:
    return [*_block(drafter, words), *_layers(drafter, layers)], {MAP: "its ids follow from its files"}


@variants.register
def _of_eagle(drafter: EagleDrafter, layers: int, words: Words) -> tuple[list[Variant], dict[str, str]]:
    why = dict.fromkeys((MASK, ANCHOR), "it has no masks")
    why |= {MAP: "its ids follow from its files", POSITIONS: "its positions are relative"}
    return [*_beside(drafter), *_layers(drafter, layers)], why


WEIGHTS: dict[type, tuple[str, ...]] = {
    MaskedDiffusionDrafter: ("model",),
    BlockDrafter: ("network", "words", "head", "rope", "pool", "successors"),
    EagleDrafter: ("reader",),
    AutoregressiveDrafter: ("reader",),
}
"""The fields of each kind of drafter that hold weights."""


def with_weights(drafter: Drafter, other: Drafter) -> Any:
    """A drafter with the declarations of ``drafter`` and the weights of ``other``, the same in another dtype; None
    for a kind that is not in :data:`WEIGHTS`."""
    kind = next((kind for kind in WEIGHTS if isinstance(drafter, kind) and isinstance(other, kind)), None)
    return None if kind is None else _with(drafter, **{name: getattr(other, name) for name in WEIGHTS[kind]})


def _with(known: Any, **values: Any) -> Any:
    """A copy of a drafter or a network that shares all but ``values``, and whose passes are not recorded."""
    changed = copy.copy(known)
    recorded = {name: None for name in ("graphs", "_passes") if hasattr(known, name)}
    for name, value in {**recorded, **values}.items():
        setattr(changed, name, value)
    return changed


def _masks(declared: int, size: int, words: Words) -> list[int]:
    """Ids that may have been meant: special ones, the neighbours, and the last row of the drafter's table."""
    tried = dict.fromkeys([*words.special, *words.suppress, declared - 1, declared + 1, size - 1])
    return [token for token in tried if token != declared and 0 <= token < size][:MASKS]


def _layers(drafter: Any, count: int) -> Iterator[Variant]:
    """Features of the layers before and behind; the first and the last stay where there is none."""
    own = tuple(drafter.layers)
    for by in (-1, 1):
        moved = tuple(min(max(layer + by, 0), count - 1) for layer in own)
        if moved != own:
            was, becomes = (", ".join(map(str, layers)) for layers in (own, moved))
            yield Variant(LAYERS, was, becomes, _with(drafter, layers=moved))


def _denoiser(drafter: MaskedDiffusionDrafter, words: Words) -> Iterator[Variant]:
    plain = partial(_with, drafter)
    shift, model, size = drafter.shift, drafter.model, int(drafter.model.config.vocab_size)
    yield Variant(SHIFT, _signed(shift), _signed(shift - 1), plain(), skip=1)
    yield Variant(SHIFT, _signed(shift), _signed(shift + 1), plain(shift=shift + 1))
    for mask in _masks(drafter.mask_id, size, words):
        yield Variant(MASK, words.name(drafter.mask_id), words.name(mask), plain(mask_id=mask))
    never = tuple(drafter.forbidden)
    for by in (-1, 1):
        if _learned(model):
            stands = _with(model.network, decode=partial(_decode_moved, model.network, by))
            yield Variant(POSITIONS, "0", _signed(by), plain(model=Bidirectional(stands, model.config.mask_id)))
        renamed = _with(model, forward=partial(_renamed, model, by, drafter.mask_id))
        yield Variant(MAP, "the target’s ids", f"ids {_signed(by)}", plain(model=renamed, _never=never))
    if strange := len(drafter.strangers):
        beyond = frozenset(range(size, drafter.vocab_size))
        same = plain(strangers=(), _never=never, _unread=beyond)
        yield Variant(MAP, f"a map that leaves out {strange} ids", "all of the target’s ids", same)


def _block(drafter: BlockDrafter, words: Words) -> Iterator[Variant]:
    def plain(**values: Any) -> BlockDrafter:
        room = drafter.context + drafter.window + 1
        changed: BlockDrafter = _with(drafter, pool=Pool(drafter.network, room, None), **values)
        return changed

    yield Variant(SHIFT, "0", _signed(-1), plain(), skip=1)
    earlier = _with(drafter.network, denoise=partial(_earlier, drafter.network))
    yield Variant(SHIFT, "0", _signed(1), plain(network=earlier))
    for mask in _masks(drafter.mask_id, len(drafter.words.read_embedding()), words):
        yield Variant(MASK, words.name(drafter.mask_id), words.name(mask), plain(mask_id=mask))
    for by in (-1, 1):
        yield Variant(POSITIONS, "0", _signed(by), plain(denoise=partial(_moved, drafter, by)))
    usual = type(drafter).denoise is BlockDrafter.denoise  # then the anchor's own stands there already
    own = "the anchor’s own"
    for name, first in (("the mask’s", drafter.mask_id), *(() if usual else ((own, None),))):
        other = plain(denoise=partial(_behind, drafter, first))
        yield Variant(ANCHOR, own if usual else "what its code puts there", name, other)


def _beside(drafter: EagleDrafter) -> Iterator[Variant]:
    """Each token beside its own feature, or beside that of two tokens before, in place of that of the token before."""
    declared = "the token before"
    for by, change in ((1, "the token itself"), (-1, "two tokens before")):
        start = partial(_Beside, drafter.start, by)
        yield Variant(SHIFT, declared, change, _with(drafter, start=start), skip=max(by, 0))


def _signed(number: int) -> str:
    return f"{'−' if number < 0 else ''}{abs(number)}"


def _behind(
    drafter: BlockDrafter, first: int | None, ids: Tensor, places: slice | Tensor, attend: Attend
) -> tuple[Tensor, Tensor]:
    """:meth:`BlockDrafter.denoise`, whatever a class made of it, with another token in the anchor's slot."""
    if first is not None:
        ids = torch.cat([ids.new_tensor([first]), ids[1:]])
    return BlockDrafter.denoise(drafter, ids, places, attend)


def _moved(
    drafter: BlockDrafter, by: int, ids: Tensor, places: slice | Tensor, attend: Attend
) -> tuple[Tensor, Tensor]:
    """:meth:`BlockDrafter.denoise` of a block that stands elsewhere behind the features that it reads."""
    where = slice(places.start + by, places.stop + by) if isinstance(places, slice) else places + by
    return drafter.denoise(ids, where, attend)


def _learned(model: Any) -> bool:
    """Whether a denoiser has a table of positions."""
    return isinstance(model, Bidirectional) and model.network.places is not None


class _Beside(DraftSession):
    """A session that gets with each token the feature of the one ``by`` (1 or −1) tokens further on. Where that is not
    known yet the token waits: drafts then begin with the anchor."""

    def __init__(self, start: Callable[[], DraftSession], by: int) -> None:
        self._session, self._by = start(), by
        self._ids: list[int] = []  # that wait
        self._row: Tensor | None = None  # the last feature, [1, F]

    @property
    def room(self) -> int:
        return self._session.room

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        if features is None or not len(ids):
            self._session.observe(ids, features)
            return
        if self._by > 0:
            rows = features[1:] if self._row is None else features
            waiting = [*self._ids, *ids]
            ids, self._ids = waiting[: len(rows)], waiting[len(rows) :]
        else:
            rows = torch.cat([features[:1] if self._row is None else self._row, features[:-1]])
        self._row = features[-1:]
        self._session.observe(ids, rows)

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        known = context.ids[: len(context.ids) - len(self._ids)]
        return (yield from self._session.draft(dataclasses.replace(context, ids=known)))


def _earlier(network: Any, embeddings: Tensor, rope: Any, attend: Attend) -> Tensor:
    """A block denoiser's states; its slots predict what the slots before them would."""
    states: Tensor = network.denoise(embeddings, rope, attend)
    return states.roll(1, 1)


def _decode_moved(network: Any, by: int, ids: Tensor, places: slice | Tensor, attend: Attend, **options: Any) -> Any:
    """A network's pass, whose rows stand elsewhere; at the ends of its table they stay."""
    if isinstance(places, slice):
        places = torch.arange(places.start, places.stop, device=ids.device)
    return network.decode(ids, (places + by).clamp(0, network.context - 1), attend, **options)


def _renamed(model: Any, by: int, mask: int, ids: Tensor, **options: Any) -> Tensor:
    """A denoiser's logits, if the target's id i were its id ``i + by``; its mask keeps its own."""
    last = model.config.vocab_size - 1
    logits: Tensor = model(torch.where(ids == mask, ids, (ids + by).clamp(0, last)), **options)
    rolled = logits.roll(-by, -1)
    rolled[..., last if by > 0 else 0] = -torch.inf  # which came around
    return rolled
