"""The methods, one record each: settings of the loop, papers, and style in charts. API documents, presets, charts
and the command line's choices are made from these records, and a test compares the README's table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdiff_core.schema.errors import ConfigError, no_such
from specdiff_core.schema.pairs import NONE, PairSpec, find_pair, known_pair
from specdiff_core.schema.settings import SETTINGS, DecodeConfig


@dataclass(frozen=True, slots=True)
class Paper:
    """A source, with its arXiv number if it has one."""

    title: str
    arxiv: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method. ``settings`` are the fields of :class:`DecodeConfig` that it sets."""

    name: str
    label: str
    short: str  # where a chart has little room
    settings: Mapping[str, Any]
    papers: tuple[Paper, ...]
    colour: str  # a role of the palette
    mark: str  # a symbol of Plotly's

    @property
    def drafter(self) -> str:
        """The name of its drafter."""
        return str(self.settings["drafter"])

    def config(self, base: DecodeConfig, drafter: str = "") -> DecodeConfig:
        """``base`` with this method's settings and a drafter, by default the pair's first for it; other
        method settings are :data:`PLAIN`."""
        pair = known_pair(base.pair)
        fitting = pair.drafter_for(self.drafter) if pair else None
        choice = {"drafter": drafter or fitting.name} if fitting else {}
        return DecodeConfig.parse({**base.to_dict(), **PLAIN, **self.settings, **choice})


PLAIN: dict[str, Any] = {
    "gamma": 1,
    "steps": 1,
    "order": "left_to_right",
    "tree_nodes": 0,
    "num_drafts": 1,
    "selection": "self",
    "auto": False,
}
"""Defaults of the settings that a method may set."""

BASELINE = "vanilla"  # the first method of every race: the baseline of every speed-up

DRAFTED = "drafted"  # the other lane of a race of two

_LEVIATHAN, _DFLASH = Paper("Leviathan et al.", "2211.17192"), Paper("DFlash", "2602.06036")

# fmt: off
METHODS: tuple[Method, ...] = (  # the baseline first, as in a race
    Method(
        name=BASELINE, label="Vanilla", short="Vanilla",
        settings={"drafter": "none"},
        papers=(Paper("Standard sampling"),),
        colour="target", mark="line-ns",
    ),
    Method(
        name="autoregressive", label="Small autoregressive drafter", short="Small AR drafter",
        settings={"drafter": "autoregressive", "gamma": 4, "steps": 4},
        papers=(_LEVIATHAN, Paper("Chen et al.", "2302.01318")),
        colour="lane-1", mark="circle",
    ),
    Method(
        name="prompt_lookup", label="Prompt lookup", short="Prompt lookup",
        settings={"drafter": "prompt_lookup", "gamma": 9},
        papers=(Paper("Saxena 2023, prompt lookup decoding"),),
        colour="lane-2", mark="square",
    ),
    Method(
        name="eagle", label="EAGLE", short="EAGLE",
        settings={"drafter": "eagle", "gamma": 4, "steps": 4},
        papers=(Paper("Li et al., EAGLE", "2401.15077"),),
        colour="lane-3", mark="triangle-up",
    ),
    Method(
        name="eagle2", label="EAGLE-2 (dynamic draft tree)", short="EAGLE-2",
        settings={"drafter": "eagle", "gamma": 6, "steps": 6, "tree_nodes": 9},
        papers=(Paper("Li et al., EAGLE-2", "2406.16858"),),
        colour="lane-4", mark="diamond",
    ),
    Method(
        name="specdiff", label="SpecDiff", short="SpecDiff",
        settings={"drafter": "masked", "gamma": 4},
        papers=(Paper("Christopher et al.", "2408.05636"), Paper("the denoiser: Sahoo et al.", "2406.07524")),
        colour="lane-5", mark="triangle-down",
    ),
    Method(
        name="specdiff2", label="SpecDiff-2", short="SpecDiff-2",
        settings={"drafter": "masked_streak", "gamma": 9, "num_drafts": 4, "selection": "self"},
        papers=(Paper("Sandler et al.", "2511.00606"),),
        colour="lane-6", mark="star",
    ),
    Method(
        name="dflash", label="Block diffusion (DFlash)", short="DFlash",
        settings={"drafter": "block", "gamma": 9},
        papers=(_DFLASH,),
        colour="lane-7", mark="cross",
    ),
    Method(
        name="ddtree", label="Block diffusion, draft tree (DDTree)", short="DDTree",
        settings={"drafter": "block", "gamma": 9, "tree_nodes": 9},
        papers=(Paper("DDTree", "2604.12989"), Paper("on the drafter of DFlash", "2602.06036")),
        colour="lane-8", mark="hexagon2",
    ),
    Method(
        name="markov", label="Block diffusion, Markov head (DSpark)", short="DSpark",
        settings={"drafter": "block_markov", "gamma": 9},
        papers=(Paper("DSpark, here with its tables computed from the target’s", "2607.05147"),
            Paper("on the drafter of DFlash", "2602.06036")),
        colour="lane-9", mark="pentagon",
    ),
    Method(
        name="markov_tree",
        label="Markov head, draft tree (DSpark + DDTree)", short="DSpark + DDTree",
        settings={"drafter": "block_markov", "gamma": 16, "tree_nodes": 16},
        papers=(Paper("the head of DSpark", "2607.05147"), Paper("the tree of DDTree", "2604.12989")),
        colour="lane-10", mark="star-diamond",
    ),
    Method(
        name="auto", label="Block diffusion, adaptive length (Auto)", short="Auto",
        settings={"drafter": "block", "gamma": 16, "auto": True},
        papers=(Paper("This project’s rule, on the costs of Christopher et al.", "2408.05636"),),
        colour="lane-11", mark="triangle-right",
    ),
)
# fmt: on


def find_method(name: str) -> Method:
    """Find a method by name.

    Raises:
        ConfigError: there is none of that name.
    """
    by_name = {method.name: method for method in METHODS}
    if name not in by_name:
        raise no_such("method", name, by_name, "methods")
    return by_name[name]


def methods_of(pair: str) -> tuple[Method, ...]:
    """The methods with an available drafter in ``pair``, in order.

    Raises:
        ConfigError: there is no such pair.
    """
    spec = find_pair(pair)
    offered = ((method, spec.drafter_for(method.drafter)) for method in METHODS)
    return tuple(method for method, drafter in offered if drafter is not None and drafter.has_files)


def resolve_methods(pair: str, names: Iterable[str]) -> tuple[Method, ...]:
    """The methods of these names, each once.

    Raises:
        ConfigError: a method is unknown, or ``pair`` has no drafter for it; the hint lists its methods.
    """
    chosen, available = tuple(map(find_method, dict.fromkeys(names))), methods_of(pair)
    if missing := [method.name for method in chosen if method not in available]:
        what = f"The pair {find_pair(pair).label} has no drafter for {', '.join(sorted(missing))}."
        hint = f"Choose among {', '.join(method.name for method in available)}."
        raise ConfigError(what, field="methods", hint=hint)
    return chosen


def two_lanes(config: DecodeConfig) -> dict[str, DecodeConfig]:
    """The baseline, and the lane of ``config`` if it differs."""
    vanilla = {BASELINE: dataclasses.replace(config, drafter=NONE.name)}
    return vanilla if config.drafter == NONE.name else {**vanilla, DRAFTED: config}


def race_lanes(base: DecodeConfig, names: Iterable[str], drafters: Sequence[str] = ()) -> dict[str, DecodeConfig]:
    """The lanes of a race: the baseline, then the named methods in the order of :data:`METHODS`, then
    drafters of the pair named in their place, each with a plain window.

    Args:
        base: settings that all lanes share; a method's own replace them.
        drafters: each method runs with all of these that fit it; by default with its first.

    Raises:
        ConfigError: a method is unknown, or the pair has no drafter for it.
    """
    pair = find_pair(base.pair)
    words, known, by_name = list(names), {method.name for method in METHODS}, {spec.name for spec in pair.drafters}
    plain = [word for word in words if word in by_name - known]
    chosen = resolve_methods(pair.name, (BASELINE, *(word for word in words if word not in plain)))
    lanes: dict[str, DecodeConfig] = {}
    for method in METHODS:
        if method not in chosen:
            continue
        fitting = [spec.name for spec in pair.drafters_for(method.drafter) if spec.name in drafters]
        for index, drafter in enumerate(fitting or [""]):
            lanes[f"{method.name} {drafter}" if index else method.name] = method.config(base, drafter)
    window = {**base.to_dict(), **PLAIN, "gamma": SETTINGS["gamma"].default}
    return lanes | {drafter: DecodeConfig.parse({**window, "drafter": drafter}) for drafter in plain}


def method_for(pair: PairSpec, drafter: str) -> str:
    """The first method that runs with a drafter of ``pair``; without one, the drafter's name."""
    methods = (
        method.name for method in METHODS if drafter in [spec.name for spec in pair.drafters_for(method.drafter)]
    )
    return next(methods, drafter)
