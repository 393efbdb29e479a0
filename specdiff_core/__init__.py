"""SpecDiff Lab: speculative decoding with masked-diffusion drafters, as events.

>>> import specdiff_core as lab
>>> engine = lab.load()  # the pair that ships with the project; lab.PAIRS names the others
>>> run = list(lab.decode("Once upon a time", engine=engine, gamma=8, steps=4, max_new_tokens=24))
>>> rounds = [event for event in run if isinstance(event, lab.Verified)]
>>> len(rounds) < 24, all(event.lossless for event in rounds), run[-1].reason
(True, True, 'length')
>>> result = lab.race("Once upon a time", ["dflash", "ddtree"], engine=engine, max_new_tokens=24)
>>> [lane["same_text_as_vanilla"] for lane in result["lanes"].values()]
[True, True, True]

Names are imported on first use, so that importing one module doesn't import the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.explorations.base import Step
    from specdiff_core.explorations.run import ExplorationResult
    from specdiff_core.schema.events import Event
    from specdiff_core.schema.settings import DecodeConfig, Settings

_HOMES = {
    "engine": "Engine",
    "explorations": "EXPLORATIONS",
    "schema.settings": "DecodeConfig SETTINGS",
    "schema.methods": "METHODS Method",
    "schema.pairs": "PAIRS DrafterSpec register_drafter",
    "schema.metrics": "Metrics fold",
    "schema.trace": "read_trace write_trace",
    "schema.events": "Event RunStarted PiecesSeen Prefilled RoundStarted Decided DenoiseStep DraftReady "
    "TargetScored Verified Committed Finished Failed Candidate Test Span",
    "schema.errors": "SpecDiffError ConfigError PairUnavailable WeightsError TokenizerMismatch OutOfMemory "
    "DraftContractError ContextOverflow TraceError TraceSchemaError CorpusError ServerError",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = ["__version__", "decode", "explore", "load", "race", *_HOME_OF]
__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"specdiff_core.{_HOME_OF[name]}"), name)


def load(pair: str = "embedded", *, target: Any = None, drafter: Any = (), **options: Any) -> Engine:
    """Load a pair, or a target and drafters of your own.

    Args:
        pair: one of :data:`~specdiff_core.schema.pairs.PAIRS`.
        target: instead of ``pair``: a folder, a GGUF file, a hub repository, or a loaded model of transformers; then
            ``tokenizer`` must be given too.
        drafter: with ``target``, one or several: folders, GGUF files, repositories, names of registered drafters,
            ``DrafterSpec`` records, or loaded causal models with the target's tokenizer.
        options: as of :meth:`Engine.load <specdiff_core.engine.Engine.load>` (device, dtype, context, threads, …);
            with ``target`` also what a drafter's files don't say: kind, shift, mask_id.

    Raises:
        SpecDiffError: the pair, a file, the device or memory is missing; the message says which.
    """
    from specdiff_core.engine import Engine

    if target is None:
        return Engine.load(pair, **options)
    several = drafter if isinstance(drafter, (list, tuple)) else [drafter]
    return Engine.own(target, several, **options)


def decode(prompt: str, *, engine: Engine, detail: bool = True, **settings: Unpack[Settings]) -> Iterator[Event]:
    """The events of one run, as they happen.

    Args:
        detail: emit every denoising step and all candidates, not only what metrics need.
        settings: fields of :class:`~specdiff_core.schema.settings.DecodeConfig`: gamma, rule, ….

    Raises:
        SpecDiffError: a setting is out of range, the prompt is too long, or memory ran out.
    """
    return engine.decode(prompt, _config(engine, settings), detail=detail)


def race(
    prompt: str,
    methods: Sequence[str] | None = None,
    *,
    engine: Engine,
    repeats: int = 1,
    attach: Sequence[str] = (),
    **settings: Unpack[Settings],
) -> Mapping[str, Any]:
    """Vanilla and several methods on one prompt, on one clock: the speed-up and numbers of each.

    Args:
        methods: names of :data:`~specdiff_core.schema.methods.METHODS`, or of drafters, which then draft a window
            of 8; by default the method of the pair's first drafter. Vanilla always runs.
        repeats: races.
        attach: addresses of running servers (vLLM, SGLang, llama.cpp), each a further lane. The
            summary has what was measured here, and under ``quoted`` what the server reports.
        settings: fields of ``DecodeConfig`` that all lanes share: temperature, rule, seed, ….

    Raises:
        SpecDiffError: as :func:`decode`, or the pair has no drafter for a method.
    """
    from specdiff_core.measure.race import race_repeatedly
    from specdiff_core.schema.errors import ConfigError
    from specdiff_core.schema.methods import PLAIN, method_for, race_lanes
    from specdiff_core.schema.pairs import NONE, OWN_PAIRS
    from specdiff_core.schema.summary import race_summary

    if own := {"drafter", *PLAIN} & settings.keys():
        raise ConfigError(f"A method has its own {min(own)}.", field=min(own), hint="lab.decode takes every setting.")
    if isinstance(methods, str) or (methods is not None and not methods):
        raise ConfigError("Name the methods in a list.", field="methods", hint='Such as ["dflash", "ddtree"].')
    config = _config(engine, {**settings, "drafter": NONE.name})
    several = [drafter.name for drafter in engine.pair.spec.drafters] if engine.pair.spec.name in OWN_PAIRS else []
    names = methods or [method_for(engine.pair.spec, engine.first)]
    lanes, servers = race_lanes(config, names, several), {}
    if attach:
        from specdiff_core.attached import server

        servers = server.attach(*((attach,) if isinstance(attach, str) else attach))
    lanes |= dict.fromkeys(servers, config)
    rendered = engine.rendered(prompt, config) if servers else ""
    return race_summary(race_repeatedly(engine, prompt, lanes, repeats=repeats, others=servers, rendered=rendered))


def explore(
    name: str, *, engine: Engine, progress: Callable[[Step], None] | None = None, **settings: Any
) -> ExplorationResult:
    """Run an exploration: ``rows`` of its result are the table, ``facts`` further numbers.

    Args:
        name: one of :data:`~specdiff_core.explorations.EXPLORATIONS`.
        progress: called with every step.
        settings: fields of that exploration; ``pair`` is the engine's.

    Raises:
        SpecDiffError: a field is out of range, or nothing could be measured.
    """
    from specdiff_core.explorations import find_exploration
    from specdiff_core.explorations.run import ExplorationRun
    from specdiff_core.schema.fields import parse

    exploration = parse(find_exploration(name), {"pair": engine.pair.spec.name, **settings})
    _check_pair(engine, exploration.pair)
    last = ExplorationRun(exploration, engine).advance(progress=progress)
    assert last.result is not None, "an exploration measures something or raises"
    return last.result


def _config(engine: Engine, settings: Mapping[str, Any]) -> DecodeConfig:
    from specdiff_core.schema.settings import DecodeConfig

    config = DecodeConfig.parse({"pair": engine.pair.spec.name, "drafter": engine.first, **settings})
    _check_pair(engine, config.pair)
    return config


def _check_pair(engine: Engine, pair: str) -> None:
    from specdiff_core.schema.errors import ConfigError

    loaded = engine.pair.spec.name
    if pair != loaded:
        raise ConfigError(f"This engine has the pair {loaded!r}, not {pair!r}.", field="pair", hint="Load that pair.")
