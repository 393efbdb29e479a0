"""Races for programs: the API's endpoints, which are also MCP tools. Their parameters, ranges and
choices come from the settings and the methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gradio as gr
import msgspec

from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.summary import pair_summary, race_summary
from specdiff_core.schema.wording import values_words

from .content.error_cards import card, new_run_id
from .controls import LONGEST_PROMPT, check_prompt
from .run import race as running
from .tabs import live, race

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD

RACE = """Race speculative diffusion decoding against vanilla decoding of the same target model, and measure both.

Both lanes run at once, on one clock. Returns the text, the measured speed-up, whether the rule is lossless, and for
each lane: tokens, seconds of decode time, tokens per second, rounds, block efficiency tau, acceptance rate alpha,
target passes, drafter passes, and how many threads had to wait for a processor. ``quiet`` false means that other
programs kept the machine so busy that the speed-up cannot be trusted."""
RACE_METHODS = """Race methods of speculative decoding against vanilla decoding on one target model, and measure all.

The lanes run at once, on one clock. Returns for each lane its text, whether it is lossless, whether its text matches
vanilla's, the measured speed-up over vanilla, and the numbers of its run. If a lane cannot run, ``failed`` gives the
reason, it has no speed-up, and the other lanes still run. ``quiet`` false means that other programs kept the machine so
busy that the speed-ups cannot be trusted."""


def endpoints(decode: running.Decode) -> list[Callable[..., Iterator[dict[str, Any]]]]:
    """``race`` and ``race_methods``."""
    methods = inspect.Parameter("methods", POSITIONAL, annotation=list[str])
    names = ", ".join(method.name for method in METHODS if method.name != BASELINE)
    about = f"{race.FEWEST} to {race.MOST} of {names}; vanilla always runs, first."
    shared = [name for name in SETTINGS if name in race.SETTINGS]
    return [
        _endpoint(decode, "race", RACE, live, [*SETTINGS], _pair),
        _endpoint(decode, "race_methods", RACE_METHODS, race, shared, dict, extra={"methods": (methods, about)}),
    ]


def _endpoint(
    decode: running.Decode,
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
        plain: Any = setting.kind if setting.kind in (bool, int, float) else str
        annotation = plain | None if setting.optional else plain
        parameters.append(inspect.Parameter(setting.name, POSITIONAL, default=default, annotation=annotation))
        words[setting.name] = f"{setting.help} {_values(setting.name, tab)}."
    parameters.append(inspect.Parameter("include_events", POSITIONAL, default=False, annotation=bool))
    words["include_events"] = "Send the events of all lanes as they happen, and all of them in the result (large)."
    asking = inspect.Parameter("request", POSITIONAL, default=None, annotation=gr.Request | None)  # filled by Gradio
    parameters.append(asking)
    signature = inspect.Signature(parameters, return_annotation=Iterator[dict[str, Any]])

    def endpoint(*args: Any, **named: Any) -> Iterator[dict[str, Any]]:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        values = bound.arguments
        prompt, with_events, request = map(values.pop, ("prompt", "include_events", "request"))
        try:
            ask = running.Ask(prompt=check_prompt(prompt), plan=tab.plan(values))
            job = running.Race(decode, ask, (request and request.session_hash) or "")
            for result in running.results(job, with_events=with_events):
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
    endpoint.__annotations__ = {item.name: item.annotation for item in parameters} | {
        "return": Iterator[dict[str, Any]]
    }
    vars(endpoint)["__signature__"] = signature
    return endpoint


def _values(name: str, tab: Any) -> str:
    if tab is race and name == "rule":
        return ", ".join(race.RULES)
    words = values_words(SETTINGS[name])
    return f"{words}, or null for the target's" if SETTINGS[name].optional else words


def _pair(race: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``/race``, which compares two lanes.

    Raises:
        SpecDiffError: a lane failed.
    """
    for lane in race["lanes"].values():
        if lane["failed"]:
            raise SpecDiffError(lane["failed"])
    return pair_summary(race)
