"""What can be measured: a drafter with γ, T, a tree or K drafts; a grid of them. Plain data; imports no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

SWEPT = ("drafter", "gamma", "steps", "tree_nodes", "num_drafts", "selection", "auto")
"""The settings behind the fields of a cell, in their order: what one sweep may vary."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One thing to measure."""

    drafter: str
    gamma: int
    steps: int
    nodes: int = 0  # of a draft tree; 0: a window
    drafts: int = 1  # K
    selection: str = "self"  # of K drafts; without meaning for one
    auto: bool = False  # γ and T, or nodes, are chosen as it goes, at most these

    def config(self, base: DecodeConfig) -> DecodeConfig:
        """``base`` with this cell's drafter, γ, T, tree, K and controller."""
        return dataclasses.replace(base, **dict(zip(SWEPT, dataclasses.astuple(self), strict=True)))

    @property
    def key(self) -> str:
        """As it stands in rows; :meth:`of` reads it. What is at its default is left out from the end."""
        values = [str(value) for value in dataclasses.astuple(self)]
        size = 6 if self.drafts > 1 else 4 if self.nodes else 3
        return "/".join([*values[:size], *(["auto"] if self.auto else [])])

    @classmethod
    def of(cls, key: str) -> Cell:
        """The cell of a key: ``drafter/γ/T``, then ``/nodes``, then ``/K/selection``; at the end ``/auto``.

        Raises:
            ConfigError: it is none.
        """
        plain = key.removesuffix("/auto")
        drafter, *rest = plain.split("/")
        try:
            cell = cls(drafter, *map(int, rest[:4]), *rest[4:], auto=plain != key)
        except (TypeError, ValueError):
            raise ConfigError(
                f"{key[:60]!r} is no cell.", field="cells", hint="Write drafter/γ/T, as block/9/1 or block/9/1/12."
            ) from None
        return cell


BASELINE = Cell("none", 1, 1)


def listed(keys: Sequence[str], base: DecodeConfig) -> tuple[Cell, ...]:
    """The baseline, then the cells of ``keys`` in their order, each as it really runs; equal ones once.

    Raises:
        ConfigError: a key is none, the pair has no such drafter, or the drafter cannot follow it.
    """
    spec = find_pair(base.pair)
    cells = [BASELINE]
    for cell in map(Cell.of, keys):
        drafter = spec.drafter(cell.drafter)
        runs = drafter.follow(cell.config(base))
        steps = 1 if runs.tree_nodes or runs.num_drafts > 1 else runs.steps  # a tree or K drafts have no T
        real = Cell(cell.drafter, runs.gamma, steps, runs.tree_nodes, runs.num_drafts, cell.selection, runs.auto)
        if drafter.name == BASELINE.drafter:
            real = BASELINE
        elif dataclasses.replace(real, steps=cell.steps) != cell:
            raise ConfigError(
                f"{drafter.name} cannot follow {cell.key}: it would run as {real.key}.",
                field="cells",
                hint="A window no longer than it was trained for; trees, K and auto only where the drafter has them.",
            )
        cells.append(real)
    return tuple(dict.fromkeys(cells))


def grid(
    drafters: Sequence[str],
    gammas: Sequence[int],
    steps: Sequence[int],
    pair: str = "embedded",
    nodes: Sequence[int] = (0,),
    drafts: Sequence[int] = (1,),
    selections: Sequence[str] = ("self",),
) -> tuple[Cell, ...]:
    """The baseline, then every drafter × γ × T with T ≤ γ ≤ the drafter's window, every drafter × γ × tree, and every
    drafter × γ × K × selection.

    T is swept for denoisers only, a tree for what can branch, K for denoisers; both grow from one pass, so they have no
    T, and they exclude each other.

    Raises:
        ConfigError: no cell is left besides the baseline, or ``pair`` has no such drafter.
    """
    spec = find_pair(pair)
    cells = [
        Cell(found.name, gamma, 1 if size or count > 1 else found.passes(gamma, passes), size, count, choice)
        for found in map(spec.drafter, drafters)
        if found.name != "none"
        for gamma in gammas
        if gamma == found.fit(gamma)
        for size in nodes
        if not size or found.can_branch
        for count in drafts
        if count == 1 or (not size and found.drafting == "denoise")
        for choice in (selections if count > 1 else ("self",))
        for passes in steps
        if passes <= gamma
    ]
    if not cells and any(drafter != "none" for drafter in drafters):
        raise ConfigError(
            "Every T is larger than every γ, every γ than the drafters' windows, or no drafter can draft such trees or "
            "K: there is nothing to measure.",
            field="steps",
            hint="Choose T at most γ, γ at most 16 for block, and K or a tree, not both.",
        )
    return (BASELINE, *dict.fromkeys(cells))
