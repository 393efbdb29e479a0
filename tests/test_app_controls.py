"""Settings in and out: widgets, presets, share links, and the judge behind them."""

from __future__ import annotations

import pytest

from app import controls
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import DecodeConfig

DEFAULTS = DecodeConfig().to_dict()


@pytest.mark.parametrize("name", list(controls.FIELDS))
def test_every_setting_has_a_widget_that_starts_at_its_default(name: str) -> None:
    """What the page shows at first is what DecodeConfig() would run."""
    widget = controls.widget(name)
    value = None if widget.value == "" else widget.value
    assert DecodeConfig.parse({**DEFAULTS, name: value}).to_dict() == DEFAULTS
    assert controls.FIELDS[name].metadata["label"] in widget.label


@pytest.mark.parametrize("name", ["gamma", "steps", "temperature", "top_p", "max_new_tokens"])
def test_sliders_have_the_range_of_the_field(name: str) -> None:
    """Range and step come from the metadata."""
    widget, meta = controls.widget(name), controls.FIELDS[name].metadata
    assert (widget.minimum, widget.maximum, widget.step) == (meta["low"], meta["high"], meta["step"])
    assert widget.preprocess(10_000) == 10_000, "DecodeConfig judges, so that a person gets a card"


@pytest.mark.parametrize("preset", controls.PRESETS, ids=lambda preset: preset.label)
def test_presets_are_valid_and_complete(preset: controls.Preset) -> None:
    """A preset sets everything but pair, seed and length, whatever was set before."""
    values = controls.preset_values(preset)
    assert set(values) == set(DEFAULTS) - {"pair", "seed", "max_new_tokens"}
    config = controls.check_settings(values)
    for name, value in preset.values.items():
        assert config.to_dict()[name] == value


def test_only_the_published_shortcut_is_not_lossless_and_says_so() -> None:
    """No other preset uses a biased rule."""
    for preset in controls.PRESETS:
        lossless = controls.check_settings(controls.preset_values(preset)).rule.lossless
        assert lossless != ("not lossless" in preset.label)


def test_examples_cover_the_four_flavours() -> None:
    """Each is short enough to run at once."""
    assert [example.flavour for example in controls.EXAMPLES] == ["Dialogue", "Story", "Math", "Code"]
    for example in controls.EXAMPLES:
        assert 20 < len(controls.check_prompt(example.prompt)) < 300


def test_a_share_link_restores_every_setting() -> None:
    """What the Share button writes, from_query reads; foreign keys are ignored."""
    values = {
        "pair": "embedded",
        "drafter": "mdlm",
        "gamma": 5,
        "steps": 3,
        "auto": True,
        "order": "entropy",
        "tree_nodes": 0,
        "num_drafts": 3,
        "selection": "trie",
        "rule": "match",
        "temperature": 0.7,
        "draft_temperature": 1.1,
        "top_k": 40,
        "top_p": 0.9,
        "seed": 7,
        "max_new_tokens": 33,
        "ignore_eos": True,
    }
    assert set(values) == set(DEFAULTS)
    query = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
    prompt, config = controls.from_query({**query, "prompt": "שלום <b>", "__theme": "dark"})
    assert prompt == "שלום <b>"
    assert config is not None and config.to_dict() == values


def test_an_empty_query_changes_nothing() -> None:
    """Opening the page without a link keeps the defaults."""
    assert controls.from_query({}) == (None, None)
    assert controls.from_query({"draft_temperature": ""})[1] == DecodeConfig()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"gamma": "99"}, "gamma"),
        ({"gamma": "abc"}, "gamma"),
        ({"gamma": None}, "gamma"),
        ({"gamma": "2.5"}, "gamma"),
        ({"gamma": "1_0"}, "gamma"),
        ({"gamma": "4", "steps": "5"}, "steps"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "-0.1"}, "temperature"),
        ({"pair": "nothing"}, "pair"),
        ({"drafter": "oracle"}, "drafter"),
        ({"order": "sideways"}, "order"),
        ({"rule": ""}, "rule"),
    ],
)
def test_bad_settings_name_their_field_and_a_way_out(values: dict[str, object], field: str) -> None:
    """The card can mark the control."""
    with pytest.raises(ConfigError) as caught:
        controls.check_settings(values)
    assert caught.value.field == field
    assert caught.value.hint


@pytest.mark.parametrize("prompt", ["", "   \n", "x" * 100_000, None, 7])
def test_prompts_that_cannot_run(prompt: object) -> None:
    """Empty, far too long, or no text."""
    with pytest.raises(ConfigError) as caught:
        controls.check_prompt(prompt)
    assert caught.value.field == "prompt"


@pytest.mark.parametrize("prompt", ["<script>alert(1)</script>", "🦊🦊", "مرحبا بالعالم", "{{value}} ${value}"])
def test_unusual_prompts_are_just_text(prompt: str) -> None:
    """Nothing is stripped or rewritten."""
    assert controls.check_prompt(prompt) == prompt


def test_drafters_follow_the_pair() -> None:
    """The list is the registry's."""
    for name, spec in PAIRS.items():
        assert [drafter for _, drafter in controls.drafter_choices(name)] == [d.name for d in spec.drafters]
    assert [name for _, name in controls.pair_choices({"gpt2-mdlm": "no files"})] == ["embedded"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "block γ 8 T 1 ratio"),
        ({"gamma": 16, "auto": True}, "block γ ≤ 16 auto ratio"),
        ({"gamma": 16, "steps": 4, "auto": True}, "block γ ≤ 16 T ≤ 4 auto ratio"),
        ({"tree_nodes": 9}, "block γ 8 B 9 ratio"),
        ({"num_drafts": 4, "selection": "multi_round"}, "block γ 8 K 4 multi-round ratio"),
        ({"drafter": "eagle", "rule": "match"}, "eagle γ 8 match"),
        ({"drafter": "prompt_lookup"}, "prompt_lookup γ 8 ratio"),
    ],
)
def test_settings_in_short(values: dict[str, object], words: str) -> None:
    assert controls.in_short(DecodeConfig.parse(values).to_dict()) == words


def test_a_trace_may_be_older_than_a_setting() -> None:
    assert controls.in_short({"drafter": "mdlm", "gamma": 8, "steps": 2, "rule": "naive"}) == "mdlm γ 8 T 2 naive"
