"""Settings in and out: forms, presets, share links, and the judge behind them."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright._impl._driver import compute_driver_executable

from app import controls, host
from app.content import recordings
from app.content.examples import EXAMPLES, OPENING, PRESETS, Preset, preset_indices
from app.tabs import live, player, race
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import METHODS, find_method
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import SETTINGS, DecodeConfig

ROOT = Path(__file__).resolve().parent.parent
DEFAULTS = DecodeConfig().to_dict()


FORMS = {
    tab: json.loads(
        json.dumps({**player.player_options(tab, recordings.recordings(folder)), "form": player.PLANNED[tab].form()})
    )
    for tab, folder in (("live", recordings.RECORDINGS), ("race", recordings.RECORDINGS / "race"))
}


def opened(tab: str, *cases: Any) -> list[dict[str, Any]]:
    """What a tab's form has after each case: a link's query, and values that are then chosen one after the other."""
    asked = [[urlencode(query), *chosen] for query, *chosen in cases]
    words = [compute_driver_executable()[0], ROOT / "tests" / "js" / "opened.mjs"]
    done = subprocess.run(words, input=json.dumps([FORMS[tab], asked]), capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("tab", FORMS)
def test_the_form_opens_with_the_settings_of_the_opening_recording(tab: str) -> None:
    """Live's first preset, Race's defaults; the server understands each value as what it stands for."""
    form, first = FORMS[tab]["form"], FORMS[tab]["recordings"][0]["settings"]
    (found,) = opened(tab, [{}])
    given = {name: value for name, value in first.items() if value != ""}
    plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    assert dict(parse_qsl(found["link"])) == {
        name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in plain.items()
    }
    assert [field["name"] for field in form["fields"]] == [*first]
    for name, setting in SETTINGS.items():
        if name in first:
            assert setting.read(found[name]) == setting.read(form["opening"][name]) == setting.read(first[name])
    assert found["checked"] is None, "nothing is asked for"


def test_a_pair_has_the_drafters_whose_files_are_here() -> None:
    for name, spec in PAIRS.items():
        here = [drafter.name for drafter in spec.drafters if drafter.has_files]
        assert [*controls.described(name)["drafters"]] == here
    gone = dataclasses.replace(PAIRS["embedded"].drafters[0], source=str(ROOT / "not" / "here"))
    assert not gone.has_files and PAIRS["gpt2-mdlm"].drafter("masked").has_files, "that one is fetched"
    here = controls.offered("embedded", lambda: dict.fromkeys(PAIRS, "no files"))
    assert [*here] == ["embedded"] and not here["embedded"]["get"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.label)
def test_presets_are_valid_and_complete(preset: Preset) -> None:
    """A preset sets everything but pair, seed and length, and says if it is not lossless."""
    values = controls.preset_values(preset)
    assert set(values) == set(DEFAULTS) - {"pair", "seed", "max_new_tokens"}
    config = live.plan(values)["drafted"]
    assert config.lossless != ("not lossless" in preset.label)


@pytest.mark.parametrize("pair", EXAMPLES)
def test_a_pair_has_examples_and_presets_of_its_own(pair: str) -> None:
    for example in EXAMPLES[pair]:
        assert 10 < len(controls.check_prompt(example.prompt)) < 300
    assert len({example.prompt for example in EXAMPLES[pair]}) == len(EXAMPLES[pair])
    for preset in map(PRESETS.__getitem__, preset_indices(pair)):
        assert preset.config.pair == pair
        assert preset.config.gamma <= controls.described(pair)["windows"].get(preset.config.drafter, 32)
        if preset.config.tree_nodes:
            assert PAIRS[pair].drafter(preset.config.drafter).can_branch


@pytest.mark.parametrize("pair", PAIRS)
def test_every_pair_has_something_to_start_from(pair: str) -> None:
    found = controls.described(pair)
    assert found["examples"] == ("smollm2" if PAIRS[pair].chat else "embedded")
    assert found["presets"] and set(found["presets"].values()) <= {*found["drafters"]}


def test_a_preset_is_named_when_the_form_has_its_settings() -> None:
    """With the pair's own drafter of its kind; a changed setting makes the settings the visitor's own."""
    links = [
        {name: value for name, value in preset.config.to_dict().items() if value is not None} for preset in PRESETS
    ]
    found = opened("live", *([link, *more] for link in links for more in ([], [{"top_k": "7"}])))
    assert [one["preset"] for one in found] == [name for index in range(len(PRESETS)) for name in (str(index), "")]
    pair = "qwen2.5-diffucoder"
    assert {*controls.described(pair)["presets"].values()} >= {PAIRS[pair].drafter_for("masked").name}


def test_another_pair_replaces_an_example_and_nothing_that_somebody_wrote() -> None:
    first, second, *_ = (example.prompt for example in EXAMPLES["embedded"])
    message = EXAMPLES["smollm2"][2].prompt
    prompts = (message, second, "My own words", "", f"{message} ")
    found = opened("live", *([{}, {"prompt": prompt}, {"pair": "embedded"}] for prompt in prompts))
    assert [one["prompt"] for one in found] == [first, *prompts[1:]]
    here, there = (preset_indices(pair)[0] for pair in ("embedded", "smollm2"))
    assert {one["preset"] for one in found} == {str(here)} and here != there
    custom, kept = opened(
        "live", [{}, {"top_k": 7}, {"pair": "embedded"}], [{"pair": "embedded"}, {"pair": "gpt2-mdlm"}]
    )
    assert (custom["preset"], custom["top_k"], custom["gamma"]) == ("", "7", str(OPENING.gamma))
    assert kept["drafter"] in controls.described("gpt2-mdlm")["drafters"]


def test_another_pair_keeps_the_methods_that_it_has() -> None:
    """But the usual ones become its own usual ones; without any, the first is chosen."""
    few, one, usual, own = opened(
        "race",
        [{"methods": "dflash,specdiff", "pair": "embedded"}, {"pair": "gpt2-mdlm"}],
        [{"methods": "dflash", "pair": "embedded"}, {"pair": "gpt2-mdlm"}],
        [{"methods": ",".join(race.DEFAULT["embedded"]), "pair": "embedded"}, {"pair": "smollm2"}],
        [{"methods": "autoregressive,ddtree", "pair": "embedded"}, {"pair": "smollm2"}],
    )
    assert few["methods"] == ["specdiff"] and len(one["methods"]) == race.FEWEST
    assert usual["methods"] == [*race.DEFAULT["smollm2"]] and own["methods"] == ["ddtree"]


def test_gamma_and_t_are_cut_to_the_window_of_the_drafter_and_t_to_gamma() -> None:
    embedded = {"pair": "embedded", "drafter": "block"}
    cases = [
        ({**embedded, "gamma": 30, "steps": 20}, "16", "16"),
        ({"gamma": 5, "steps": 9}, "5", "5"),
        ({"gamma": "", "steps": 9}, "", "9"),
        ({"pair": "new", "drafter": "x", "gamma": 40, "steps": 7}, "32", "7"),
    ]
    found = opened("live", *([embedded, values] for values, *_ in cases))
    assert [[one["gamma"], one["steps"]] for one in found] == [[gamma, steps] for _, gamma, steps in cases]


HOSTILE = ({"gamma": "99"}, {"temperature": "NaN"}, {"drafter": "<b>"}, {"no such": "field"}, {"methods": "<script>"})


def test_a_link_fills_its_tabs_form() -> None:
    """Settings that it lacks have their defaults; the server checks what it names. One that sets nothing but the pair
    gets that pair's first preset, and one with a prompt alone changes nothing else."""
    opening, once, set_, pair, race_, explore, moment, lesson = opened(
        "live",
        [{}],
        [{"prompt": "Once"}],
        [{"gamma": "5", "steps": "2"}],
        [{"pair": "embedded"}],
        [{"methods": "specdiff", "pair": "gpt2-mdlm", "prompt": "Once"}],
        [{"lesson": "gamma", "explore": "window-map", "gamma": "4,8", "drafter": "masked"}],
        [{"lesson": "round", "trace": Path(FORMS["live"]["recordings"][-1]["url"]).name, "round": "2"}],
        [
            {
                "lesson": "no such",
                "prompt": "Once",
                "seed": "3",
                "trace": Path(FORMS["live"]["recordings"][-1]["url"]).name,
            }
        ],
    )
    assert once == {**opening, "prompt": "Once", "link": once["link"]}
    assert (set_["gamma"], set_["steps"], set_["drafter"], set_["pair"]) == ("5", "2", "block", "embedded")
    assert set_["prompt"] == EXAMPLES["embedded"][0].prompt and set_["checked"] == {"gamma": "5", "steps": "2"}
    assert pair["preset"] == str(preset_indices("embedded")[0])
    assert race_ == explore == opening
    assert moment["prompt"] == FORMS["live"]["recordings"][-1]["settings"]["prompt"] and not moment["checked"]
    assert (lesson["prompt"], lesson["seed"]) == ("Once", "3")
    asked = [{"methods": "vanilla,specdiff,specdiff", "pair": "gpt2-mdlm", "prompt": "Once"}], [{"pair": "embedded"}]
    raced, other = opened("race", *asked)
    assert (raced["methods"], raced["pair"], raced["prompt"]) == (["specdiff"], "gpt2-mdlm", "Once")
    assert other["pair"] == OPENING.pair, "a link to Live"
    for tab in FORMS:
        for query, found in zip(
            HOSTILE, opened(tab, *([{**query, "prompt": "Once"}] for query in HOSTILE)), strict=True
        ):
            is_here = query.keys() <= found.keys() and ("methods" in query) == (tab == "race")
            assert found["prompt"] == ("Once" if ("methods" in query) == (tab == "race") else opening["prompt"])
            card = controls.checking(player.PLANNED[tab].plan)(found["checked"]) if is_here else None
            assert bool(card and card["hint"]) == is_here


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
    monkeypatch.setattr(host, "_served", {"public": False})
    assert live.plan(many)["drafted"].max_new_tokens == 2000
    host.served_to("0.0.0.0", shared=False)
    with pytest.raises(ConfigError, match=r"480.*SPECDIFF_RUN_TOKENS") as caught:
        live.plan(many)
    assert caught.value.field == "max_new_tokens"
    monkeypatch.setenv("SPECDIFF_RUN_TOKENS", "2000")
    assert live.plan(many)["drafted"].max_new_tokens == 2000
