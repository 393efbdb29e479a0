"""Makes the widgets from the field metadata of ``DecodeConfig``, and reads share links. Knows no run and no model.

Widgets pass values on unchecked: ``DecodeConfig`` is the only judge, so that every refusal becomes the same card.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import PAIRS, PairSpec
from specdiff_core.schema.settings import ORDER_WORDS, RULE_WORDS, SELECTION_WORDS, DecodeConfig
from specdiff_core.schema.settings import check_prompt as check_text

FIELDS: dict[str, dataclasses.Field[Any]] = {item.name: item for item in dataclasses.fields(DecodeConfig)}
LONGEST_PROMPT = 20_000
"""Characters; far beyond every context here, and short enough to answer at once."""

MAIN = ("gamma", "steps")
DRAWER = tuple(name for name in FIELDS if name not in MAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt to start from, in the register of one training flavour."""

    flavour: str
    prompt: str


EXAMPLES = (
    Example(
        flavour="Dialogue",
        prompt="User: Hi, I would like to book a table for four people tonight.\nAssistant:",
    ),
    Example(
        flavour="Story",
        prompt="Once upon a time, a kind old baker lived in a small village by the sea. One day,",
    ),
    Example(
        flavour="Math",
        prompt="Question: Lena has 3 boxes with 12 pencils each. She gives 9 pencils to her brother. "
        "How many pencils does she have left?\nAnswer:",
    ),
    Example(
        flavour="Code",
        prompt='def count_vowels(text: str) -> int:\n    """\n    Return the number of vowels in text.\n',
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named choice of settings; what it does not name goes back to its default."""

    label: str
    values: dict[str, Any]


PRESETS = (
    Preset(label="Balanced", values={}),
    Preset(label="One pass, wide window", values={"gamma": 16, "steps": 1}),
    Preset(label="Four denoising steps", values={"gamma": 8, "steps": 4}),
    Preset(label="Independent drafter", values={"drafter": "mdlm", "gamma": 6, "steps": 2}),
    Preset(label="Sampling, exact ratio test", values={"temperature": 1.0, "gamma": 8, "steps": 4}),
    Preset(label="γ chosen as it goes", values={"gamma": 16, "auto": True}),
    Preset(label="Draft tree", values={"gamma": 9, "tree_nodes": 12}),
    Preset(
        label="Markov head, draft tree",
        values={"drafter": "block_markov", "gamma": 16, "tree_nodes": 16},
    ),
    Preset(label="EAGLE-2", values={"drafter": "eagle", "gamma": 6, "tree_nodes": 12}),
    Preset(
        label="Self-selection of four drafts",
        values={"temperature": 1.0, "gamma": 8, "num_drafts": 4},
    ),
    Preset(label="Same noise as vanilla", values={"rule": "match", "temperature": 1.0, "gamma": 8, "steps": 4}),
    Preset(
        label="Naive p/q (not lossless)",
        values={"rule": "naive", "temperature": 1.0, "gamma": 8, "steps": 4, "order": "random"},
    ),
)


def preset_values(preset: Preset) -> dict[str, Any]:
    """All settings of a preset but the pair, the seed and the length, which stay as they are."""
    values = DecodeConfig(**preset.values).to_dict()
    kept = {"pair", "seed", "max_new_tokens"}
    return {name: shown(value) for name, value in values.items() if name not in kept}


NO_STEPS = tuple(
    dict.fromkeys(one.name for spec in PAIRS.values() for one in spec.drafters if one.drafting != "denoise")
)
"""Drafters that denoise nothing: T means nothing to them."""


def in_short(config: Mapping[str, Any]) -> str:
    """The settings of a recorded run in a few words: ``block γ 8 T 1 ratio``. A trace may be older than a setting."""
    auto, nodes, drafts = (config.get(name) for name in ("auto", "tree_nodes", "num_drafts"))
    words = [config["drafter"], f"γ {'≤ ' if auto else ''}{config['gamma']}"]
    if nodes:
        words.append(f"B {'≤ ' if auto else ''}{nodes}")
    elif drafts and drafts > 1:
        words.append(f"K {drafts} {config['selection'].replace('_', '-')}")
    elif config["drafter"] not in NO_STEPS and not (auto and config["steps"] == 1):
        words.append(f"T {'≤ ' if auto else ''}{config['steps']}")
    return " ".join([*words, *(["auto"] if auto else []), config["rule"]])


def shown(value: Any) -> Any:
    """A setting as its widget shows it: None is an empty box."""
    return "" if value is None else value


def unjudged(component: gr.components.Component) -> gr.components.Component:
    """Let a widget pass on what it was given: ``DecodeConfig`` judges it, and a person gets a card.

    Set on the instance, because Gradio writes a stub file beside every subclass of a component.
    """
    setattr(component, "preprocess", lambda payload: payload)  # noqa: B010 - not a typed attribute
    return component


def label(name: str) -> str:
    """``γ  Draft window``: the symbol first, as everywhere on the page."""
    meta = FIELDS[name].metadata
    return f"{meta['symbol']}  {meta['label']}" if meta["symbol"] else str(meta["label"])


def drafter_choices(pair: str) -> list[tuple[str, str]]:
    """(label, name) of the drafters of a pair; of the default pair if there is none of that name."""
    spec = PAIRS.get(pair, PAIRS["embedded"])
    return [(drafter.label, drafter.name) for drafter in spec.drafters]


def pair_choices(unavailable: Mapping[str, str]) -> list[tuple[str, str]]:
    """(label, name) of the pairs that can be chosen."""
    return [(spec.label, name) for name, spec in PAIRS.items() if name not in unavailable]


def widget(name: str, prefix: str = "set") -> gr.components.Component:
    """The widget of one setting, from its metadata. ``prefix`` begins its element id, which a page has once only.

    Raises:
        KeyError: there is no such setting.
    """
    item = FIELDS[name]
    meta, kind = item.metadata, str(item.type)
    common = {
        "label": label(name),
        "elem_id": f"{prefix}-{name}",
        "elem_classes": ["sd-setting"],
        "info": None if name in MAIN else meta["help"],
        "min_width": 150,
    }
    if kind == "bool":
        return gr.Checkbox(value=item.default, **common)
    if "None" in kind:  # a number box cannot be empty
        return gr.Textbox("", placeholder="as the target", max_lines=1, **common)
    if name in {"seed", "top_k"}:
        return unjudged(gr.Number(value=item.default, **common))
    if meta["low"] is not None:
        low, high, step = meta["low"], meta["high"], meta["step"]
        return unjudged(gr.Slider(minimum=low, maximum=high, step=step, value=item.default, buttons=[], **common))
    choices = {
        "pair": pair_choices({}),
        "drafter": drafter_choices(str(FIELDS["pair"].default)),
        "order": [(words, order.value) for order, words in ORDER_WORDS.items()],
        "rule": [(words, rule.value) for rule, words in RULE_WORDS.items()],
        "selection": [(words, selection.value) for selection, words in SELECTION_WORDS.items()],
    }[name]
    default = getattr(item.default, "value", item.default)
    return unjudged(gr.Dropdown(choices=choices, value=default, filterable=False, **common))


def check_prompt(prompt: object) -> str:
    """The prompt, if it can be run at all.

    Raises:
        ConfigError: it is empty, too long or no text.
    """
    text = check_text(prompt)
    if len(text) > LONGEST_PROMPT:
        raise ConfigError(
            f"The prompt has {len(text):,} characters; the page takes at most {LONGEST_PROMPT:,}.",
            field="prompt",
            hint="Shorten it; the text is still in the box.",
        )
    return text


def check_settings(values: Mapping[str, Any]) -> DecodeConfig:
    """Untrusted values as a config whose pair and drafter exist.

    Raises:
        ConfigError: a value is out of range, or a name is unknown.
    """
    config = DecodeConfig.parse(dict(values))
    if config.pair not in PAIRS:
        raise ConfigError(
            f"There is no model pair called {config.pair[:40]!r}.",
            field="pair",
            hint=f"Choose one of: {', '.join(PAIRS)}.",
        )
    spec: PairSpec = PAIRS[config.pair]
    spec.drafter(config.drafter)
    return config


def from_query(query: Mapping[str, str]) -> tuple[str | None, DecodeConfig | None]:
    """What a share link holds: a prompt and settings, each None if the link has none.

    Raises:
        ConfigError: the link holds a setting that does not work.
    """
    known = {name: query[name] for name in FIELDS if name in query}
    prompt = query.get("prompt")
    return prompt, check_settings(known) if known else None
