"""The methods of the literature as settings of the one loop: names, papers, defaults. Plain data; knows no model and no
drawing. A method is a drafter and how it is used; what a pair lacks is found by :func:`methods_of`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from specdiff_core.config import DecodeConfig
from specdiff_core.errors import ConfigError
from specdiff_core.registry import find_pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One entry of the race. ``settings`` are fields of :class:`DecodeConfig`; all others are the visitor's."""

    name: str
    label: str
    paper: str  # author or system, year, arXiv number
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def drafter(self) -> str:
        """The drafter that it needs."""
        return str(self.settings["drafter"])

    def config(self, base: DecodeConfig) -> DecodeConfig:
        """``base`` with this method's settings; what it leaves open is plain: one window, one draft."""
        return DecodeConfig.parse({**base.to_dict(), **PLAIN, **self.settings})


PLAIN: dict[str, Any] = {
    "gamma": 1,
    "steps": 1,
    "order": "left_to_right",
    "tree_nodes": 0,
    "num_drafts": 1,
    "selection": "self",
    "auto": False,
}
"""Settings that a method may have; a method that says nothing about one takes this."""

BASELINE = "vanilla"
"""The method that every race measures, and first: the baseline of every speed-up."""

METHODS: tuple[Method, ...] = (  # the baseline first: so a race runs
    Method(name=BASELINE, label="Vanilla", paper="one target pass per token", settings={"drafter": "none"}),
    Method(
        name="autoregressive",
        label="Small autoregressive drafter",
        paper="Leviathan et al. 2211.17192, Chen et al. 2302.01318",
        settings={"drafter": "autoregressive", "gamma": 4, "steps": 4},
    ),
    Method(
        name="prompt_lookup",
        label="Prompt lookup",
        paper="Saxena 2023, n-gram copying",
        settings={"drafter": "prompt_lookup", "gamma": 9},
    ),
    Method(
        name="eagle",
        label="EAGLE",
        paper="Li et al. 2401.15077",
        settings={"drafter": "eagle", "gamma": 4, "steps": 4},
    ),
    Method(
        name="eagle2",
        label="EAGLE-2 (dynamic draft tree)",
        paper="Li et al. 2406.16858",
        settings={"drafter": "eagle", "gamma": 6, "steps": 6, "tree_nodes": 9},
    ),
    Method(
        name="specdiff",
        label="SpecDiff",
        paper="Christopher et al. 2408.05636",
        settings={"drafter": "mdlm", "gamma": 4},
    ),
    Method(
        name="specdiff2",
        label="SpecDiff-2",
        paper="Sandler et al. 2511.00606",
        settings={"drafter": "mdlm_streak", "gamma": 9, "num_drafts": 4, "selection": "self"},
    ),
    Method(
        name="dflash",
        label="Block diffusion (DFlash)",
        paper="DFlash 2602.06036",
        settings={"drafter": "block", "gamma": 9},
    ),
    Method(
        name="ddtree",
        label="Block diffusion, draft tree (DDTree)",
        paper="DDTree 2604.12989",
        settings={"drafter": "block", "gamma": 9, "tree_nodes": 9},
    ),
    Method(
        name="markov",
        label="Block diffusion, Markov head (DSpark)",
        paper="DSpark 2607.05147, on DFlash 2602.06036",
        settings={"drafter": "block_markov", "gamma": 9},
    ),
    Method(
        name="markov_tree",
        label="Markov head, draft tree (DSpark + DDTree)",
        paper="DSpark 2607.05147, with the tree of DDTree 2604.12989",
        settings={"drafter": "block_markov", "gamma": 16, "tree_nodes": 16},
    ),
    Method(
        name="auto",
        label="Block diffusion, length as it goes (Auto)",
        paper="this project's controller; expected tokens and costs as in 2408.05636",
        settings={"drafter": "block", "gamma": 16, "auto": True},
    ),
)


def find_method(name: str) -> Method:
    """Find a method by name.

    Raises:
        ConfigError: there is none of that name.
    """
    for method in METHODS:
        if method.name == name:
            return method
    raise ConfigError(
        f"There is no method called {str(name)[:40]!r}.",
        field="methods",
        hint=f"Choose from: {', '.join(method.name for method in METHODS)}.",
    )


def methods_of(pair: str) -> tuple[Method, ...]:
    """The methods whose drafter ``pair`` has, in their order.

    Raises:
        ConfigError: there is no such pair.
    """
    names = {spec.name for spec in find_pair(pair).drafters}
    return tuple(method for method in METHODS if method.drafter in names)


def race_lanes(base: DecodeConfig, names: Iterable[str]) -> dict[str, DecodeConfig]:
    """What a race of ``names`` and the baseline decodes: the baseline, then the others in their order here.

    Args:
        base: what all lanes share; what a method is, replaces it.

    Raises:
        ConfigError: a name is no method, or the pair has no drafter for one.
    """
    chosen = {BASELINE, *(find_method(name).name for name in names)}
    here = methods_of(base.pair)
    if missing := chosen - {method.name for method in here}:
        raise ConfigError(
            f"The pair {base.pair!r} has no drafter for {', '.join(sorted(missing))}.",
            field="methods",
            hint=f"Choose among {', '.join(method.name for method in here)}.",
        )
    return {method.name: method.config(base) for method in here if method.name in chosen}
