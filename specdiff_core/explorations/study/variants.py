"""Drafters with one declaration changed, for the doctor (``explorations/doctor.py``)."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, Drafter, Drafting, DraftSession
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.eagle import EagleDrafter
from specdiff_core.drafters.masked_diffusion import CachedDenoiser, MaskedDiffusionDrafter
from specdiff_core.models.bidirectional import Bidirectional
from specdiff_core.models.eagle import EagleHead
from specdiff_core.models.network import Attend, Vocabulary, vocabulary
from specdiff_core.models.target import Target

SHIFT, LAYERS, MASK, ANCHOR = "shift", "feature layers", "mask id", "embedding of the anchor slot"
POSITIONS, MAP, TEMPLATE, TABLES = "positions", "tokenizer map", "template", "tables"
DECLARATIONS = (SHIFT, LAYERS, MASK, ANCHOR, POSITIONS, MAP, TEMPLATE, TABLES)
NO_TABLES = "it has no copies of the target’s tables"
MASKS = 8
"""Most ids to try in place of the mask id."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One change."""

    declaration: str  # one of :data:`DECLARATIONS`; empty: nothing is changed
    declared: str  # the declared value
    change: str  # the changed value
    drafter: Drafter
    skip: int = 0  # leading tokens of each draft to leave out


Variants = tuple[list[Variant], dict[str, str]]
"""Those of a drafter, and the reason for each declaration that has none."""


class SpecialIds(NamedTuple):
    """Facts about ids, and their tables."""

    suppress: Sequence[int]  # ids that the target suppresses
    special: Sequence[int]  # special ids of its tokenizer, masks first
    name: Callable[[int], str]
    words: Vocabulary  # the target's

    @classmethod
    def of(cls, target: Target, tokenizer: Any) -> SpecialIds:
        """A pair's ids, as its tokenizer names them."""
        ids: dict[str, int] = tokenizer.get_vocab()
        masks = {token for word, token in ids.items() if "mask" in word.lower() and word not in ("mask", "Ġmask")}
        special = [*sorted(masks & set(tokenizer.all_special_ids)), *tokenizer.all_special_ids]
        named = lambda token: f"{token} “{tokenizer.decode([token])}”"
        return cls(target.suppress, special, named, vocabulary(target.model))


@singledispatch
def variants(drafter: Any, layers: int, vocab: SpecialIds) -> Variants:
    """Every variant that changes one declaration of this kind of drafter, except the template.
    Kinds of drafters register their own (``@variants.register``).

    Args:
        layers: of the target.
    """
    return [], _without()


@variants.register
def _of_mdlm(drafter: MaskedDiffusionDrafter, layers: int, vocab: SpecialIds) -> Variants:
    why = {LAYERS: "it reads no hidden states", ANCHOR: "its anchor is an ordinary token", TABLES: NO_TABLES}
    if not _learned_positions(drafter.model):
        why[POSITIONS] = "its positions are relative: moving all of them changes nothing"
    return [*_denoiser(drafter, vocab)], why


@variants.register
def _of_cached(drafter: CachedDenoiser, layers: int, vocab: SpecialIds) -> Variants:
    return [*_masked(drafter, int(drafter.network.config.vocab_size), vocab)], _without(MASK)


@variants.register
def _of_block(drafter: BlockDrafter, layers: int, vocab: SpecialIds) -> Variants:
    tables = [*_tables(drafter.words, vocab, lambda words: dataclasses.replace(drafter, words=words))]
    why = {MAP: "its ids follow from its files"} | ({} if tables else {TABLES: NO_TABLES})
    return [*_block(drafter, vocab), *_layers(drafter, layers), *tables], why


@variants.register
def _of_eagle(drafter: EagleDrafter, layers: int, vocab: SpecialIds) -> Variants:
    why = dict.fromkeys((MASK, ANCHOR), "it has no masks")
    why |= {MAP: "its ids follow from its files", POSITIONS: "its positions are relative"}
    reader, head = drafter.reader, drafter.reader.model
    use = lambda words: _with(drafter, reader=_with(reader, model=_with(head, _words=words)))
    tables = [*_tables(head._words, vocab, use)] if isinstance(head, EagleHead) else []
    why |= {} if tables else {TABLES: NO_TABLES}
    return [*_shifted_features(drafter), *_layers(drafter, layers), *tables], why


def _tables(own: Vocabulary, vocab: SpecialIds, use: Callable[[Vocabulary], Drafter]) -> Iterator[Variant]:
    """The target's tables in place of copies that differ from them: its weights are quantised, or another model's."""
    theirs = vocab.words
    for name, part, read, parts in (
        ("embedding", "embed", Vocabulary.read_embedding, {"embed": theirs.embed}),
        ("output head", "output", Vocabulary.read_rows, {"output": theirs.output, "head": theirs.head}),
    ):
        if getattr(own, part) is getattr(theirs, part):
            continue
        ours, table = read(own).float(), read(theirs).float()
        if ours.shape == table.shape and (away := float((ours - table).norm() / table.norm())):
            declared = f"its own {name}, which differs from the target’s by {100 * away:.1f} % of its norm"
            yield Variant(TABLES, declared, f"the target’s {name}", use(own._replace(**parts)))


def _without(*changed: str) -> dict[str, str]:
    """Reasons for all declarations but the ``changed`` ones, and the template, which the doctor itself changes."""
    return {name: "it has no such declaration" for name in DECLARATIONS if name not in (*changed, TEMPLATE)}


def _with(original: Any, **values: Any) -> Any:
    changed = copy.copy(original)
    for name, value in values.items():
        setattr(changed, name, value)
    return changed


def _masks(declared: int, size: int, vocab: SpecialIds) -> list[int]:
    """Candidates for the mask id: special ids, neighbours, and the last row of the table."""
    ids = dict.fromkeys([*vocab.special, *vocab.suppress, declared - 1, declared + 1, size - 1])
    return [token for token in ids if token != declared and 0 <= token < size][:MASKS]


def _masked(drafter: Any, size: int, vocab: SpecialIds) -> Iterator[Variant]:
    """Other mask ids."""
    for mask in _masks(drafter.mask_id, size, vocab):
        yield Variant(MASK, vocab.name(drafter.mask_id), vocab.name(mask), _with(drafter, mask_id=mask))


def _layers(drafter: Any, count: int) -> Iterator[Variant]:
    """Features of the neighbouring layers, within the target's range."""
    declared = tuple(drafter.layers)
    for offset in (-1, 1):
        moved = tuple(min(max(layer + offset, 0), count - 1) for layer in declared)
        if moved != declared:
            was, becomes = (", ".join(map(str, layers)) for layers in (declared, moved))
            yield Variant(LAYERS, was, becomes, _with(drafter, layers=moved))


def _denoiser(drafter: MaskedDiffusionDrafter, vocab: SpecialIds) -> Iterator[Variant]:
    changed = partial(_with, drafter)
    shift, model, size = drafter.shift, drafter.model, int(drafter.model.config.vocab_size)
    yield Variant(SHIFT, _signed(shift), _signed(shift - 1), changed(), skip=1)
    yield Variant(SHIFT, _signed(shift), _signed(shift + 1), changed(shift=shift + 1))
    yield from _masked(drafter, size, vocab)
    forbidden = tuple(drafter.forbidden)
    for offset in (-1, 1):
        if _learned_positions(model):
            moved = _with(model.network, decode=partial(_decode_moved, model.network, offset))
            yield Variant(POSITIONS, "0", _signed(offset), changed(model=Bidirectional(moved, model.config.mask_id)))
        renamed = _with(model, forward=partial(_renamed, model, offset, drafter.mask_id))
        yield Variant(
            MAP, "the target’s ids", f"ids moved by {_signed(offset)}", changed(model=renamed, _never=forbidden)
        )
    if count := len(drafter.unshared):
        unsupported = frozenset(range(size, drafter.vocab_size))
        id_map = changed(unshared=(), _never=forbidden, _unsupported=unsupported)
        yield Variant(MAP, f"a map that leaves out {count} ids", "all of the target’s ids", id_map)


def _block(drafter: BlockDrafter, vocab: SpecialIds) -> Iterator[Variant]:
    changed = partial(_with, drafter)
    yield Variant(SHIFT, "0", _signed(-1), changed(), skip=1)
    rolled = _with(drafter.network, denoise=partial(_earlier, drafter.network))
    yield Variant(SHIFT, "0", _signed(1), changed(network=rolled))
    yield from _masked(drafter, len(drafter.words.read_embedding()), vocab)
    for offset in (-1, 1):
        yield Variant(POSITIONS, "0", _signed(offset), changed(denoise=partial(_moved, drafter, offset)))
    inherited = type(drafter).denoise is BlockDrafter.denoise  # then it is the anchor's own
    anchor = "the anchor’s own"
    for name, token in (("the mask’s", drafter.mask_id), *(() if inherited else ((anchor, None),))):
        replaced = changed(denoise=partial(_denoise_behind, drafter, token))
        yield Variant(ANCHOR, anchor if inherited else "what its code puts there", name, replaced)


def _shifted_features(drafter: EagleDrafter) -> Iterator[Variant]:
    """Each token with its own feature, or that of two tokens before, not the previous token's."""
    declared = "the token before"
    for offset, change in ((1, "the token itself"), (-1, "two tokens before")):
        start = partial(_ShiftedFeatures, drafter.start, offset)
        yield Variant(SHIFT, declared, change, _with(drafter, start=start), skip=max(offset, 0))


def _signed(number: int) -> str:
    return f"{'−' if number < 0 else ''}{abs(number)}"


def _denoise_behind(
    drafter: BlockDrafter, token: int | None, ids: Tensor, positions: slice, attend: Attend
) -> tuple[Tensor, Tensor]:
    """:meth:`BlockDrafter.denoise`, not a subclass's, with another token in the anchor's slot."""
    if token is not None:
        ids = torch.cat([ids.new_tensor([token]), ids[1:]])
    return BlockDrafter.denoise(drafter, ids, positions, attend)


def _moved(drafter: BlockDrafter, offset: int, ids: Tensor, positions: slice, attend: Attend) -> tuple[Tensor, Tensor]:
    """:meth:`BlockDrafter.denoise` with all positions of the block moved."""
    return drafter.denoise(ids, slice(positions.start + offset, positions.stop + offset), attend)


def _learned_positions(model: Any) -> bool:
    return isinstance(model, Bidirectional) and model.network.positions is not None


class _ShiftedFeatures(DraftSession):
    """A session that gets, with each token, the feature ``offset`` (1 or −1) tokens later. A token
    waits until that feature is known; drafts then begin with the anchor."""

    def __init__(self, start: Callable[[], DraftSession], offset: int) -> None:
        self._session, self._offset = start(), offset
        self._ids: list[int] = []  # that wait
        self._row: Tensor | None = None  # the last feature, [1, F]

    @property
    def room(self) -> int:
        return self._session.room

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        if features is None or not len(ids):
            self._session.observe(ids, features)
            return
        if self._offset > 0:
            rows = features[1:] if self._row is None else features
            waiting = [*self._ids, *ids]
            ids, self._ids = waiting[: len(rows)], waiting[len(rows) :]
        else:
            rows = torch.cat([features[:1] if self._row is None else self._row, features[:-1]])
        self._row = features[-1:]
        self._session.observe(ids, rows)

    def draft(self, context: Context) -> Drafting:
        ids = context.ids[: len(context.ids) - len(self._ids)]
        return (yield from self._session.draft(dataclasses.replace(context, ids=ids)))


def _earlier(network: Any, embeddings: Tensor, rope: Any, attend: Attend) -> Tensor:
    """A block denoiser's states, moved by one slot."""
    states: Tensor = network.denoise(embeddings, rope, attend)
    return states.roll(1, 1)


def _decode_moved(network: Any, by: int, ids: Tensor, positions: slice, attend: Attend, **options: Any) -> Any:
    """A network's pass with all positions moved, within its table."""
    moved = torch.arange(positions.start + by, positions.stop + by, device=ids.device).clamp(0, network.context - 1)
    return network.decode(ids, moved, attend, **options)


def _renamed(model: Any, offset: int, mask: int, ids: Tensor, **options: Any) -> Tensor:
    """A denoiser's logits as if the target's id i were its id ``i + by``, except for the mask."""
    last = model.config.vocab_size - 1
    logits: Tensor = model(torch.where(ids == mask, ids, (ids + offset).clamp(0, last)), **options)
    rolled = logits.roll(-offset, -1)
    rolled[..., last if offset > 0 else 0] = -torch.inf  # wrapped around
    return rolled
