"""Pairs of your own: names, what is read from a drafter's config, and what must be declared."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from checkpoints import IDS, change, dream, finished, gpt2, llama, same_text, save_drafter, save_target, save_tokenizer
from transformers import AutoTokenizer, GPT2LMHeadModel

import specdiff_core as lab
from app import controls, host, own_pairs
from app.tabs import live
from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.own_pairs import KEPT, OWN, drafter_kind, find, parse, register_pair
from specdiff_core.checkpoints.sources import is_local
from specdiff_core.cli import main
from specdiff_core.engine import Engine
from specdiff_core.schema.errors import ConfigError, ContextOverflow, PairUnavailable, SpecDiffError, WeightsError
from specdiff_core.schema.pairs import EMBEDDED, OWN_PAIRS, PAIRS, SHARED, DrafterSpec, find_pair
from specdiff_core.schema.settings import DecodeConfig


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    OWN_PAIRS.clear()


@pytest.fixture
def target(tmp_path: Path) -> str:
    save_tokenizer(tmp_path / "target")
    save_target(tmp_path / "target", IDS)
    return str(tmp_path / "target")


def own_pair(target: str, drafter: Path | str = "", **more: Any) -> Any:
    return register_pair(parse({"target": target, "drafter": str(drafter), **more}).name)


def test_a_name_says_everything(target: str) -> None:
    own = parse({"target": "owner/name", "drafter": "./a folder/§", "shift": "1", "mask_id": "7", "kind": ""})
    assert own.name.startswith(OWN) and " " not in own.name and own.name.isascii()
    assert parse({"mask_id": 7, "shift": 1, "drafter": "./a folder/§", "target": "owner/name"}).name == own.name
    spec = own_pair(target, context=32)
    assert find_pair(spec.name) is spec and spec.context == 32
    assert [drafter.name for drafter in spec.drafters] == ["prompt_lookup", "none"]
    assert spec.name not in PAIRS
    OWN_PAIRS.clear()
    again = register_pair(spec.name)  # as another process does
    assert again == spec
    for context in range(8, 8 + KEPT):
        own_pair(target, context=context % 57 + 8, mask_id=context)
    assert len(OWN_PAIRS) <= KEPT


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "added_tokens.json"])
def test_a_file_that_never_ends_is_refused(target: str, name: str) -> None:
    path = Path(target) / name

    def fill() -> None:
        path.touch()
        os.truncate(path, 30 * 10**9)

    for make in (lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero"), fill):
        path.unlink(missing_ok=True)
        make()
        with pytest.raises(WeightsError, match=f"{name} is not a file of at most"):
            Engine.load(own_pair(target).name)


EVIL: list[dict[str, Any]] = [
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
    {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "aa"}},
    {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10**8}},
]


@pytest.mark.parametrize("part", EVIL, ids=lambda part: next(iter(part)))
def test_a_tokenizer_of_ones_own_is_tried_in_another_process(target: str, part: dict[str, Any]) -> None:
    path = Path(target) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | part))
    with pytest.raises(WeightsError, match="tokenizer"):
        Engine.load(own_pair(target).name)


def test_a_prompt_of_ids_that_the_target_lacks_is_refused(target: str) -> None:
    engine = Engine.load(own_pair(target).name)
    engine.pair.tokenizer.add_tokens([f"{more:02}zebra" for more in range(IDS - 269)])
    with pytest.raises(ConfigError):
        engine.encode("a 10zebra")


@pytest.mark.parametrize(
    ("typed", "source", "revision"),
    [
        ("owner/name ", "owner/name", ""),
        ('"a folder/x"', "a folder/x", ""),
        ("~/models/x.gguf", "/home/me/models/x.gguf", ""),
        ("file:///a%20b/x.gguf", "/a b/x.gguf", ""),
        ("owner/name-GGUF:Q4_K_M", "owner/name-GGUF:Q4_K_M", ""),
        ("hf.co/owner/name:Q8_0", "owner/name:Q8_0", ""),
        ("https://huggingface.co/owner/name", "owner/name", ""),
        ("https://huggingface.co/owner/name/tree/main/?x=1", "owner/name", ""),
        ("https://huggingface.co/owner/name/tree/abc", "owner/name", "abc"),
        ("https://huggingface.co/owner/name/blob/main/sub/x-Q4_0.gguf", "owner/name:sub/x-Q4_0.gguf", ""),
    ],
)
def test_a_source_is_read_as_people_paste_it(
    monkeypatch: pytest.MonkeyPatch, typed: str, source: str, revision: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert parse({"target": typed}) == parse({"target": source, "target_revision": revision})
    assert parse({"target": "x", "drafter": typed}).drafter == (source,)


@pytest.mark.parametrize("source", ["~/model", "owner/na me", "own:er/x", "owner/name:", "owner/..", "-/-"])
def test_a_source_that_cannot_be_is_a_sentence(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(PairUnavailable) as error:
        own_pair(source)
    assert error.value.hint


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "target"),
        ({"target": "x" * 301}, "target"),
        ({"target": "a/b", "shift": "2"}, "shift"),
        ({"target": "a/b", "mask_id": "-1"}, "mask_id"),
        ({"target": "a/b", "context": "7"}, "context"),
        ({"target": "a/b", "kind": "magic"}, "kind"),
        *(
            ({"target": "a/b", f"{role}_revision": revision}, f"{role}_revision")
            for role in ("target", "drafter")
            for revision in ("/etc", "../x", "a/../../x", "a//b", "refs/pr/1", "main\n", "a\\b", ".", "~", "ma\u2024in")
        ),
        ({"target": "a/b", "remote_code": "1"}, "remote_code"),
    ],
)
def test_what_is_no_pair_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(values)
    assert caught.value.field == field and caught.value.hint


def test_a_revision_is_a_commit_or_a_branch() -> None:
    for revision in ("main", "v1.0", "feature/x_1", "0" * 40):
        assert parse({"target": "a/b", "target_revision": revision}).target_revision == revision


def test_the_drafters_config_says_what_it_is(target: str, tmp_path: Path) -> None:
    dream(tmp_path / "dream")
    spec = own_pair(target, tmp_path / "dream").drafters[0]
    assert (spec.name, spec.module, spec.logit_shift) == ("masked", "masked_diffusion", 1)
    save_drafter(tmp_path / "masked", IDS + 1)
    spec = own_pair(target, tmp_path / "masked").drafters[0]
    assert (spec.name, spec.logit_shift, spec.context) == ("masked", 0, 48)
    spec = own_pair(target, target).drafters[0]
    assert (spec.name, spec.module, spec.drafting) == ("autoregressive", "autoregressive", "sequential")
    block = EMBEDDED.drafter("block")
    spec = own_pair(EMBEDDED.target, block.source).drafters[0]
    assert (spec.name, spec.module, spec.window) == ("block", "block_diffusion", block.window)
    chained = EMBEDDED.drafter("block_markov")
    spec = own_pair(EMBEDDED.target, chained.source).drafters[0]
    assert (spec.name, spec.chained, spec.window) == ("block_markov", True, chained.window)
    for anchor, window in ((True, 7), (False, 6)):  # whether the anchor's slot is one of the draft's
        fields = {"block_size": 7, "target_layer_ids": [0], "sample_from_anchor": anchor}
        (tmp_path / "config.json").write_text(json.dumps({"architectures": ["DFlashDraftModel"], **fields}))
        OWN_PAIRS.clear()
        assert own_pair(EMBEDDED.target, tmp_path).drafters[0].window == window
    assert drafter_kind({"speculators_model_type": "dspark"}) == "block"
    assert drafter_kind({"speculators_model_type": "eagle3"}) == "eagle"
    assert drafter_kind({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}) == "eagle"
    assert drafter_kind({"model_type": "bert"}) == ""


def test_what_the_config_leaves_open_must_be_declared(target: str, tmp_path: Path) -> None:
    _, mask_id = llama(tmp_path / "adapted")
    folder = tmp_path / "adapted"
    with pytest.raises(ConfigError, match="may draft one token after the other, or denoise") as error:
        own_pair(target, folder, mask_id=mask_id)
    assert error.value.field == "kind"
    with pytest.raises(ConfigError, match="whether slot i or slot i − 1") as error:
        own_pair(target, folder, mask_id=mask_id, kind="masked")
    assert error.value.field == "shift"
    with pytest.raises(ConfigError, match="names no mask_token_id") as error:
        own_pair(target, folder, shift=1, kind="masked")
    assert error.value.field == "mask_id"
    spec = own_pair(target, folder, shift=1, kind="masked", mask_id=mask_id).drafters[0]
    assert (spec.name, spec.logit_shift, spec.mask_id) == ("masked", 1, mask_id)
    dream(tmp_path / "dream")
    with pytest.raises(ConfigError, match=r"says masked, and block is declared"):
        own_pair(target, tmp_path / "dream", kind="block")
    change(folder, model_type="bert")
    with pytest.raises(ConfigError, match=r"\(bert\) does not say what it is"):
        own_pair(target, folder)
    with pytest.raises(ConfigError, match=r"64 positions.* 65"):
        own_pair(target, context=65)
    with pytest.raises(ConfigError, match=r"64 positions.* 7"):
        find(own_pair(target).name, 7)
    for name in ("nowhere", "n" * 256, f"{'n' * 256}.gguf"):  # the last ones are longer than a name may be
        with pytest.raises(WeightsError, match="does not exist") as missing:
            own_pair(f"./{name}")
        assert "path" in missing.value.hint and "Download" not in missing.value.hint


def test_context_sets_the_tokens_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Of any pair, up to the positions of its target."""
    engine = Engine.load("embedded", context=40, drafters=("block", "none"))
    assert engine.target.context == 40
    full = finished(engine, "the cat", drafter="block", max_new_tokens=5000)
    assert full.reason == "context_full" and len(full.ids) + len(engine.encode("the cat")) == 41
    with pytest.raises(ContextOverflow):
        list(engine.decode("the cat " * 30, DecodeConfig(drafter="none")))
    assert main(["decode", "--prompt", "the cat", "--drafter", "none", "--context", "513"]) != 0
    assert "512 positions" in capsys.readouterr().err


def test_a_pair_of_ones_own_decodes(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, mask_id = gpt2(tmp_path / "drafter")
    drafter = str(tmp_path / "drafter")
    spec = own_pair(target, drafter, kind="masked", shift=1, mask_id=mask_id)
    text = same_text(Engine.load(spec.name), "masked", "prompt_lookup").text
    flags = ["--kind", "masked", "--shift", "1", "--mask-id", str(mask_id), "--max-new-tokens", "12", "--ignore-eos"]
    assert main(["decode", "--prompt", "the cat", "--target", target, "--drafter", drafter, *flags]) == 0
    assert text.strip() in capsys.readouterr().out


def test_a_public_host_takes_nothing_but_what_its_environment_names(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor may a pattern for repositories open the server's folders."""
    monkeypatch.setattr(host, "_served", {"public": False})
    monkeypatch.delenv(own_pairs.ALLOWED, raising=False)
    name = parse({"target": target}).name

    def refused() -> str:
        with pytest.raises(ConfigError) as error:
            controls.check_settings({"pair": name, "drafter": "none"})
        return error.value.message

    assert controls.check_settings({"pair": name, "drafter": "none"}).pair == name
    for address, shared in (("0.0.0.0", False), ("lab.example", False), ("127.0.0.1", True)):
        host.served_to(address, shared=shared)
        assert own_pairs.patterns() == () and "may not be loaded" in refused()
    for allowed in ("", "*", "owner/*, *", f"{target}-other"):
        monkeypatch.setenv(own_pairs.ALLOWED, allowed)
        assert "may not be loaded" in refused()
    monkeypatch.setenv(own_pairs.ALLOWED, f"owner/*, {Path(target).parent}/*")
    assert controls.check_settings({"pair": name, "drafter": "none"}).pair == name
    name = parse({"target": f"{target}/../target"}).name
    assert "may not be loaded" in refused()
    host.served_to("localhost", shared=False)
    monkeypatch.delenv(own_pairs.ALLOWED)
    assert own_pairs.patterns() == ("*",)


def test_settings_are_checked_without_a_network(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_served", {"public": False})
    monkeypatch.setattr(hub, "fetch", lambda *_, **__: pytest.fail("the hub was asked"))
    for source in ("owner/c", "owner/c:Q4_K_M"):
        values = {"pair": parse({"target": source}).name, "drafter": "none"}
        with pytest.raises(ConfigError, match="downloaded"):
            live.plan(values)
    values["pair"] = parse({"target": "owner/c"}).name
    monkeypatch.setattr(hub, "cached_folder", lambda *_: Path(target))
    assert controls.check_settings(values).pair == values["pair"]


def test_a_slow_hub_takes_one_thread_of_a_public_host(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_served", {"public": True})
    monkeypatch.setenv(own_pairs.ALLOWED, "owner/*")
    asked, answer = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> Path:
        asked.set()
        assert answer.wait(30)
        return Path(target)

    monkeypatch.setattr(hub, "fetch", slow)
    first, second = (parse({"target": f"owner/{name}"}).name for name in "ab")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own_pairs.check, first, downloads=True)
        assert asked.wait(30)
        with pytest.raises(ConfigError, match="looking up another pair"):
            own_pairs.check(second, downloads=True)
        answer.set()
        waiting.result(30)
    assert controls.check_settings({"pair": first, "drafter": "none"}).pair == first


def test_the_form_chooses_the_pair_or_says_why_not(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_served", {"public": False})
    given = {"target": target, "drafter": "", "shift": "", "mask_id": "", "kind": ""}
    assert given.keys() < {field["name"] for field in live.own_fields()}
    name = live.choose_own(given, print)
    assert name.startswith(OWN)
    described = controls.offered(name, dict)[name]
    assert described["label"] == find_pair(name).label
    assert [*described["drafters"]] == ["prompt_lookup", "none"]
    assert name not in controls.offered("embedded", dict), "it is its visitor's"
    for values, words in (({}, "Target"), ({"target": "./<b>nowhere"}, "<b>nowhere does not exist")):
        with pytest.raises(SpecDiffError, match=words):
            live.choose_own(values, print)


def test_drafters_of_ones_own_are_measured_together(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several at once, with methods or settings, by the commands that measure; and γ 4 of each in one race."""
    (tmp_path / "prompts.txt").write_text("the cat\nthe dog\n")
    short = ["--target", target, "--max-new-tokens", "8"]
    two = ["--drafter", target, "--drafter", target]
    raced = ["race", "--prompt", "the cat", *short, "--json"]
    both = ["vanilla", "autoregressive", "autoregressive autoregressive-2", "prompt_lookup"]
    lanes = {"autoregressive,prompt_lookup": both, "": ["vanilla", "autoregressive", "autoregressive-2"]}
    for methods, names in lanes.items():
        assert main([*raced, *two, *(["--methods", methods] if methods else ["--gamma", "4"])]) == 0
        found = json.loads(capsys.readouterr().out.splitlines()[-1])["lanes"]
        assert list(found) == names and all(lane["same_text_as_vanilla"] for lane in found.values())
        assert [lane["drafter"] for lane in found.values()][1:3] == ["autoregressive", "autoregressive-2"]
    assert main(raced) == 0, "without a drafter: the pair's own"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["lanes"]["drafted"]["drafter"] == "prompt_lookup"
    sweep = ["bench", "sweep", *short, *two, "--prompts", str(tmp_path / "prompts.txt"), "--repeats", "1"]
    assert main([*sweep, "--json", str(tmp_path / "sweep.json")]) == 0
    measured = json.loads((tmp_path / "sweep.json").read_text())["entries"]
    assert [entry["drafter"] for entry in measured] == ["none", "autoregressive", "autoregressive-2"]
    assert main(["decode", "--prompt", "the cat", *short, *two]) == 2


def test_python_loads_a_target_and_drafters_of_ones_own(target: str) -> None:
    """Folders, loaded models and registered drafters; the loaded model stays as it was."""
    model, tokenizer = GPT2LMHeadModel.from_pretrained(target), AutoTokenizer.from_pretrained(target)
    mine = DrafterSpec(name="mine", label="", module="specdiff_core.drafters.prompt_lookup:build", drafting="copy")
    with patch.dict(PAIRS), patch.dict(SHARED), patch.dict(OWN_PAIRS):
        engine = lab.load(target=model, tokenizer=tokenizer, drafter=[model, mine], threads=1)
        assert engine.pair.placement.dtype is model.dtype and model.training is False
        assert all(word in repr(engine) for word in ("GPT2LMHeadModel", "autoregressive, mine", "fp32", "64"))
        text = same_text(engine, "autoregressive", "mine").text
        raced = lab.race("the cat", ["autoregressive", "mine"], engine=engine, max_new_tokens=12, ignore_eos=True)
        assert list(raced["lanes"]) == ["vanilla", "autoregressive", "mine"]
        assert {lane["text"] for lane in raced["lanes"].values()} == {text}
        own = lab.load(target=Path(target), drafter="mine", threads=1)
        assert list(lab.race("the cat", engine=own, max_new_tokens=4)["lanes"]) == ["vanilla", "mine"]
        with pytest.raises(ConfigError, match="tokenizer"):
            lab.load(target=model)
    assert not Path(engine.pair.spec.target).is_relative_to(target)


def test_a_single_name_is_a_repository_unless_a_folder_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_local("gpt2")
    (tmp_path / "gpt2").mkdir()
    assert is_local("gpt2") and is_local("./other") and is_local("model.gguf")


def test_kinds_have_the_methods_names_too() -> None:
    names = {"dflash": "block", "ddtree": "block", "block_markov": "block", "specdiff": "masked", "eagle2": "eagle"}
    names |= {"masked_streak": "masked", "denoise": "masked", "mdlm": "masked"}
    names |= {"sequential": "autoregressive", "eagle": "eagle"}
    for name, kind in names.items():
        assert parse({"target": "a/b", "drafter": "c/d", "kind": name}).kind == kind
