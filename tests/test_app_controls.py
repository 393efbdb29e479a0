"""Settings in and out: widgets, presets, share links, and the judge behind them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import gradio as gr
import pytest

from app import controls, own_pairs
from app.content.examples import EXAMPLES, MOST, OPENING, PRESETS, Preset, examples_of, preset_indices
from app.tabs import live, race
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import METHODS, find_method
from specdiff_core.schema.pairs import EMBEDDED, PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
DEFAULTS = DecodeConfig().to_dict()


@pytest.mark.parametrize("name", list(SETTINGS))
def test_every_setting_has_a_widget_that_shows_the_opening_value(name: str) -> None:
    """Live opens on its first preset, Race on the defaults of the same pair."""
    for tab, opening in (("live", OPENING.to_dict()), ("race", {**DEFAULTS, "pair": OPENING.pair})):
        widget = controls.widget(name, tab)
        assert SETTINGS[name].read(widget.value) == SETTINGS[name].read(opening[name])
        assert SETTINGS[name].label in widget.label
        assert widget.elem_id == f"{tab}-{name}" + ("-setting" if name == "stop" else ""), "tab-stop is the button"


def test_a_pair_brings_its_drafters() -> None:
    assert "value" not in live.drafter_update("gpt2-mdlm", "mdlm")
    assert live.drafter_update("gpt2-mdlm", "eagle")["value"] == "mdlm"
    for name, spec in PAIRS.items():
        here = [drafter.name for drafter in spec.drafters if drafter.has_files]
        assert [drafter for _, drafter in controls.drafter_choices(name)] == here
    gone = dataclasses.replace(PAIRS["embedded"].drafters[0], source=str(ROOT / "not" / "here"))
    assert not gone.has_files and PAIRS["gpt2-mdlm"].drafter("mdlm").has_files, "that one is fetched"
    assert [name for _, name in controls.pair_choices(dict.fromkeys([*PAIRS][1:], "no files"))] == ["embedded"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.label)
def test_presets_are_valid_and_complete(preset: Preset) -> None:
    """A preset sets everything but pair, seed and length, and says if it is not lossless."""
    values = controls.preset_values(preset)
    assert set(values) == set(DEFAULTS) - {"pair", "seed", "max_new_tokens"}
    config = controls.check_settings(values)
    assert config.lossless != ("not lossless" in preset.label)


@pytest.mark.parametrize("pair", EXAMPLES)
def test_a_pair_has_examples_and_presets_of_its_own(pair: str) -> None:
    for example in EXAMPLES[pair]:
        assert 10 < len(controls.check_prompt(example.prompt)) < 300
    assert len({example.prompt for example in EXAMPLES[pair]}) == len(EXAMPLES[pair])
    for preset in map(PRESETS.__getitem__, preset_indices(pair)):
        assert preset.config.pair == pair
        assert preset.config.gamma <= controls.longest_window(pair, preset.config.drafter)
        if preset.config.tree_nodes:
            assert PAIRS[pair].drafter(preset.config.drafter).can_branch


@pytest.mark.parametrize("pair", [*PAIRS, "unknown"])
def test_every_pair_has_something_to_start_from(pair: str) -> None:
    chat = pair in PAIRS and PAIRS[pair].chat
    assert examples_of(pair) == EXAMPLES["smollm2" if chat else "embedded"]
    chips, *_ = updates = controls.of_model(pair)
    assert len(updates) == MOST + len(controls.model_updates(pair)) and chips["value"] == examples_of(pair)[0].flavour
    for preset in map(PRESETS.__getitem__, preset_indices(pair)):
        assert PAIRS.get(pair, EMBEDDED).drafter_for(preset.config.drafter)


def test_another_pair_replaces_an_example_and_nothing_that_somebody_wrote() -> None:
    first, second, *_ = (example.prompt for example in EXAMPLES["embedded"])
    message = EXAMPLES["smollm2"][2].prompt
    assert controls.first_example("embedded", message) == first
    for prompt in (second, "My own words", "", f"{message} "):
        assert controls.first_example("embedded", prompt) == gr.skip()
    here = [value for _, value in controls.preset_choices("embedded")]
    there = [value for _, value in controls.preset_choices("smollm2")]
    chosen, *settings = live.first_preset("embedded", there[0])
    assert chosen["value"] == here[0]
    assert settings == list(controls.preset_values(PRESETS[int(here[0])]).values())
    for kept in (here[1], controls.CUSTOM):
        assert all(update == gr.skip() for update in live.first_preset("embedded", kept))


def test_another_pair_keeps_what_it_has_of_the_choice() -> None:
    few = race.methods_here("gpt2-mdlm", ["dflash", "specdiff"])
    assert few["value"] == ["specdiff"] and {name for _, name in few["choices"]} < {
        name for _, name in race.choices("embedded")
    }
    assert len(race.methods_here("gpt2-mdlm", ["dflash"])["value"]) == race.FEWEST
    assert all(name != "vanilla" for _, name in few["choices"]), "it cannot be taken off"
    assert race.methods_here("smollm2", [*race.DEFAULT["embedded"]])["value"] == [*race.DEFAULT["smollm2"]]
    assert race.methods_here("smollm2", ["autoregressive", "ddtree"])["value"] == ["ddtree"]


def test_the_lanes_of_a_race_are_the_methods_in_their_order_and_vanilla_is_first() -> None:
    for asked in (["dflash", "autoregressive"], ["dflash", "vanilla", "autoregressive", "dflash"]):
        lanes = race.plan({"methods": asked, "temperature": 0.7, "seed": 5, "rule": "match", "max_new_tokens": 20})
        assert list(lanes) == ["vanilla", "autoregressive", "dflash"]
        assert [config.drafter for config in lanes.values()] == ["none", "autoregressive", "block"]
        for config in lanes.values():
            assert (config.temperature, config.seed, config.rule.value, config.max_new_tokens) == (0.7, 5, "match", 20)
    assert lanes["dflash"].gamma == find_method("dflash").settings["gamma"]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"methods": ["vanilla"]}, "methods", "1 to 5 methods besides vanilla; you chose 0"),
        ({"methods": [method.name for method in METHODS]}, "methods", f"you chose {len(METHODS) - 1}."),
        ({"methods": ["nonsense"]}, "methods", "no method called 'nonsense'"),
        ({"methods": "dflash"}, "methods", "list of names"),
        ({"methods": [7]}, "methods", "list of names"),
        ({}, "methods", "list of names"),
        ({"methods": ["dflash"], "pair": "gpt2-mdlm"}, "methods", "no drafter for dflash"),
        ({"methods": ["dflash"], "pair": "other"}, "pair", "no model pair"),
        ({"methods": ["dflash"], "rule": "naive"}, "rule", "does not support"),
        ({"methods": ["dflash"], "temperature": 9}, "temperature", "cannot be '9'"),
        ({"gamma": 99, "drafter": "block"}, "gamma", "cannot be '99'"),
        ({"drafter": "oracle"}, "drafter", "oracle"),
    ],
)
def test_what_cannot_run_names_its_control(values: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        (live if "drafter" in values else race).plan(values)
    assert caught.value.field == field and caught.value.hint


@pytest.mark.parametrize("prompt", ["", "   \n", "x" * 100_000, None, 7])
def test_prompts_that_cannot_run(prompt: object) -> None:
    with pytest.raises(ConfigError) as caught:
        controls.check_prompt(prompt)
    assert caught.value.field == "prompt"


def test_a_public_server_limits_the_tokens_of_a_run_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"drafter": "block", "max_new_tokens": 2000}
    monkeypatch.setattr(own_pairs, "_served", {"public": False})
    assert live.plan(many)["drafted"].max_new_tokens == 2000
    own_pairs.served_to("0.0.0.0", shared=False)
    with pytest.raises(ConfigError, match=r"480.*SPECDIFF_RUN_TOKENS") as caught:
        live.plan(many)
    assert caught.value.field == "max_new_tokens"
    monkeypatch.setenv("SPECDIFF_RUN_TOKENS", "2000")
    assert live.plan(many)["drafted"].max_new_tokens == 2000
