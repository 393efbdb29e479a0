"""Races, explorations and the list of pairs for programs: the API's endpoints, which are also MCP tools. Their
parameters, ranges and choices come from the settings, the methods and the explorations."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, TypedDict

import gradio as gr
import msgspec

from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.fields import fields_of
from specdiff_core.schema.methods import BASELINE, METHODS, methods_of
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.summary import race_summary
from specdiff_core.schema.wording import values_words

from .content.error_cards import card
from .controls import LONGEST_PROMPT, check_prompt
from .gradio_patches import input_schemas
from .logs import new_run_id
from .run.availability import unavailable
from .run.exploration import JOBS, Explore, ExploreJob, chosen
from .run.job import stream as job_stream
from .run.race import Race, results
from .run.record import Ask, Decode
from .tabs import live, race

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD

RACE = """Race speculative diffusion decoding against vanilla decoding of the same target model, and measure both.

Both lanes, vanilla and drafted, run at once, on one clock. Returns for each lane its text, whether it is lossless,
the measured speed-up over vanilla, tokens, seconds of decode time, tokens per second, rounds, block efficiency tau,
acceptance rate alpha, target passes, drafter passes, and how many threads had to wait for a processor. ``quiet`` false
means that other programs kept the machine so busy that the speed-up cannot be trusted."""
RACE_METHODS = """Race methods of speculative decoding against vanilla decoding on one target model, and measure all.

The lanes run at once, on one clock. Returns for each lane its text, whether it is lossless, whether its text matches
vanilla's, the measured speed-up over vanilla, and the numbers of its run. If a lane cannot run, ``failed`` gives the
reason, it has no speed-up, and the other lanes still run. ``quiet`` false means that other programs kept the machine so
busy that the speed-ups cannot be trusted."""


class RaceAnswer(TypedDict, total=False):
    """The last message of a race; earlier ones have ``finished`` false."""

    finished: bool
    repeats: int
    quiet: bool | None
    lossless: bool | None
    lanes: dict[str, dict[str, Any]]
    events: dict[str, list[dict[str, Any]]] | None


class ExploreAnswer(TypedDict):
    """A message of an exploration, with the answer so far."""

    finished: bool
    message: str | None
    done: int | None
    total: int | None
    result: dict[str, Any] | None
    files: dict[str, str] | None


class PairsAnswer(TypedDict):
    """The list of pairs."""

    finished: bool
    pairs: list[dict[str, Any]]


def endpoints(decode: Decode) -> list[Callable[..., Iterator[dict[str, Any]]]]:
    """``race`` and ``race_methods``."""
    drafted = tuple(method.name for method in METHODS if method.name != BASELINE)
    methods = inspect.Parameter("methods", POSITIONAL, annotation=list[Literal[drafted]])  # type: ignore[valid-type]
    names = ", ".join(drafted)
    about = f"{race.FEWEST} to {race.MOST} of {names}; vanilla is always the first lane."
    shared = [name for name in SETTINGS if name in race.SETTINGS]
    return [
        _endpoint(decode, "race", RACE, live, [*SETTINGS], _whole),
        _endpoint(decode, "race_methods", RACE_METHODS, race, shared, dict, extra={"methods": (methods, about)}),
    ]


def _endpoint(
    decode: Decode,
    name: str,
    about: str,
    tab: Any,
    settings: Sequence[str],
    summary: Callable[[dict[str, Any]], dict[str, Any]],
    extra: Mapping[str, tuple[inspect.Parameter, str]] | None = None,
) -> Callable[..., Iterator[dict[str, Any]]]:
    """A generator function with the typed, documented signature that Gradio reads.

    Args:
        tab: the module that plans the race.
        summary: ``race_summary`` -> the answer.
        extra: name -> a parameter that is not a setting, and its description.
    """
    parameters = [inspect.Parameter("prompt", POSITIONAL, annotation=str)]
    words = {"prompt": f"The text to continue, 1 to {LONGEST_PROMPT:,} characters."}
    for parameter, what in (extra or {}).values():
        parameters.append(parameter)
        words[parameter.name] = what
    for setting in map(SETTINGS.__getitem__, settings):
        default = setting.default
        plain: Any = setting.kind if setting.kind in (bool, int, float) or issubclass(setting.kind, Enum) else str
        plain = Literal[race.RULES] if tab is race and setting.name == "rule" else plain
        annotation = plain | None if setting.optional else plain
        parameters.append(inspect.Parameter(setting.name, POSITIONAL, default=default, annotation=annotation))
        words[setting.name] = f"{setting.help} {_values(setting.name, tab)}."
    parameters.append(inspect.Parameter("include_events", POSITIONAL, default=False, annotation=bool))
    words["include_events"] = "Send the events of all lanes as they happen, and all of them in the result (large)."
    asking = inspect.Parameter("request", POSITIONAL, default=None, annotation=gr.Request | None)  # filled by Gradio
    parameters.append(asking)
    signature = inspect.Signature(parameters, return_annotation=Iterator[RaceAnswer])

    def endpoint(*args: Any, **named: Any) -> Iterator[dict[str, Any]]:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        values = bound.arguments
        prompt, with_events, request = map(values.pop, ("prompt", "include_events", "request"))
        try:
            ask = Ask(prompt=check_prompt(prompt), plan=tab.plan(values))
            job = Race(decode, ask, (request and request.session_hash) or "")
            for result in results(job, with_events=with_events):
                if result["finished"]:
                    lanes = result["lanes"]
                    numbers = summary(race_summary({lane: [run] for lane, run in lanes.items()}))
                    events = msgspec.json.decode(msgspec.json.encode(lanes)) if with_events else None
                    cut = {name: result[name] for name in ("stopped_because",) if name in result}
                    result = {"finished": True, **cut, **numbers, "events": events}
                yield result
        except Exception as error:
            failure = card(error, new_run_id())  # the log gets the traceback
            message = f"{failure['message']} {failure['hint']}".strip()
            raise gr.Error(message, print_exception=False, title=failure["title"]) from None

    arguments = "\n".join(f"    {name}: {what}" for name, what in words.items())  # one line each: Gradio reads no more
    endpoint.__name__ = endpoint.__qualname__ = name
    endpoint.__doc__ = f"{about}\n\nArgs:\n{arguments}\n"
    endpoint.__annotations__ = {item.name: item.annotation for item in parameters} | {"return": Iterator[RaceAnswer]}
    vars(endpoint)["__signature__"] = signature
    return endpoint


def _values(name: str, tab: Any) -> str:
    if tab is race and name == "rule":
        return ", ".join(race.RULES)
    words = values_words(SETTINGS[name])
    return f"{words}, or null for the target's" if SETTINGS[name].optional else words


def _whole(race: Mapping[str, Any]) -> dict[str, Any]:
    """A race of two lanes; raises SpecDiffError if one failed."""
    for lane in race["lanes"].values():
        if lane["failed"]:
            raise SpecDiffError(lane["failed"])
    return dict(race)


def explorer(explore: Explore) -> Callable[..., Iterator[dict[str, Any]]]:
    """The endpoint ``explore``, with the explorations of the page's tabs."""

    def endpoint(name: str, settings: dict[str, Any] | None = None, request: Any = None) -> Iterator[dict[str, Any]]:
        asked = {"explore": name, "settings": settings or {}}
        session = (request and request.session_hash) or ""
        for text in job_stream(lambda run: ExploreJob(explore, chosen(asked), run, session), JOBS, session):
            update = json.loads(text)
            if failure := update.get("card"):
                raise gr.Error(f"{failure['message']} {failure['hint']}".strip(), print_exception=False)
            yield {key: update.get(key) for key in ExploreAnswer.__annotations__} | {
                "finished": bool(update.get("finished"))
            }

    about = "\n".join(
        f"{name}: {kind.question} Settings: {', '.join(fields_of(kind))}." for name, kind in EXPLORATIONS.items()
    )
    endpoint.__name__ = endpoint.__qualname__ = "explore"
    endpoint.__doc__ = f"""Answer a question about speculative decoding by measuring, which may take minutes.

Returns progress, then under ``result`` the answer in words, its rows and its figures.
{about}

Args:
    name: Which exploration: {", ".join(EXPLORATIONS)}.
    settings: Its settings by name; the others have their defaults.
"""
    choice: Any = Literal[tuple(EXPLORATIONS)]
    endpoint.__annotations__ |= {"name": choice, "settings": dict[str, Any], "request": gr.Request | None}
    return endpoint


def pairs() -> dict[str, Any]:
    """List the model pairs: whether each runs here, its context in tokens, its drafters and its methods."""
    missing = unavailable()
    return {
        "finished": True,
        "pairs": [
            {
                "name": name,
                "label": spec.label,
                "available": name not in missing,
                "reason": missing.get(name, ""),
                "context": spec.context,
                "drafters": [drafter.name for drafter in spec.drafters],
                "methods": [method.name for method in methods_of(name)],
            }
            for name, spec in PAIRS.items()
        ],
    }


def add(decode: Decode, explore: Explore) -> None:
    """Add all endpoints to the page that is being built, with the ranges of their numbers."""
    everything: dict[Callable[..., Any], type] = dict.fromkeys(endpoints(decode), RaceAnswer)
    everything |= {explorer(explore): ExploreAnswer, pairs: PairsAnswer}
    for endpoint, answer in everything.items():
        names = [name for name in inspect.signature(endpoint).parameters if name != "request"]
        added = gr.api(endpoint, api_name=endpoint.__name__, concurrency_limit=None)  # type: ignore[attr-defined]  # what Gradio exports is not typed
        for name, schema in zip(names, input_schemas(added, answer), strict=True):
            if (setting := SETTINGS.get(name)) is not None:
                limits = {"minimum": setting.low, "maximum": setting.high}
                schema |= {key: limit for key, limit in limits.items() if limit is not None}
