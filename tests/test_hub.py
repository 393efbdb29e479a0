"""What is fetched, reported, refused and pinned, against a hub on loopback."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from checkpoints import CPU, same_text, save_drafter, save_target, save_tokenizer
from gguf_files import write
from servers import Hub
from shipped import ROOT
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoConfig, LlamaConfig, Qwen2Config, Qwen3Config

from app import own_pairs as app_pairs
from app.run.progress import with_progress
from app.tabs import live
from specdiff_core import loading
from specdiff_core.checkpoints import hub, memory, own_pairs
from specdiff_core.checkpoints.memory import Machine, model_size, needed, refusal
from specdiff_core.checkpoints.sources import is_cached, resolve
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.schema import published
from specdiff_core.schema.errors import ConfigError, OutOfMemory, PairUnavailable, Stopped
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.methods import race_lanes
from specdiff_core.schema.pairs import NONE, OWN_PAIRS, PAIRS, DrafterSpec, PairSpec
from specdiff_core.schema.settings import DecodeConfig


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a pair in the released formats."""
    size = save_tokenizer(tmp_path / "hub" / "lab" / "gpt2")
    save_target(tmp_path / "hub" / "lab" / "gpt2", size)
    save_drafter(tmp_path / "hub" / "lab" / "masked", size + 1)
    with Hub(tmp_path / "hub").as_the_hub(monkeypatch, tmp_path / "cache") as hub:
        yield hub


def pair_of(*drafters: DrafterSpec, revision: str = "") -> PairSpec:
    masked = DrafterSpec(name="masked", label="", module="masked_diffusion", source="lab/masked", context=32)
    found = (*(drafters or (masked,)), NONE)
    return PairSpec(name="tiny", label="Tiny", target="lab/gpt2", revision=revision, context=64, drafters=found)


def test_a_pair_is_fetched_once_and_stays_at_its_commit(served: Hub) -> None:
    lines: list[str] = []
    (served.root / "lab" / "gpt2" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (served.root / "lab" / "gpt2" / "consolidated.safetensors").write_text("the same weights, twice as many bytes")
    loaded = load_pair(pair_of(), CPU, progress=lines.append)
    assert set(loaded.drafters) == {"masked", "none"} and not loaded.missing
    assert loaded.tokenizer.chat_template == "{{ messages[0].content }}", "it is apart"
    first = served.commit("lab/gpt2")
    assert loaded.source_name("target") == f"lab/gpt2@{first} (not pinned by this project: as first fetched here)"
    assert hub.cached_commit("lab/masked", "") == served.commit("lab/masked")
    run = Engine(loaded).decode("the cat", DecodeConfig(pair="tiny", drafter="masked", max_new_tokens=2))
    header = next(event for event in run if isinstance(event, RunStarted))
    assert first in header.models["target"] and "not pinned" in header.models["drafter"]
    assert len(served.weights_asked()) == 2
    served.asked.clear()
    (served.root / "lab" / "gpt2" / "README.json").write_text("{}")  # main moves on
    assert served.commit("lab/gpt2") != first
    assert first in load_pair(pair_of(), CPU).source_name("target"), "as fetched first"
    assert not served.weights_asked()
    pinned = load_pair(pair_of(revision=first), CPU)
    assert pinned.source_name("target") == f"lab/gpt2@{first}"


def test_a_quantisation_of_a_repository_is_fetched(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That file alone, once, with its progress on the page; a wrong name is answered with the right ones."""
    monkeypatch.setenv("SPECDIFF_CACHE", str(tmp_path / "converted"))
    for name in ("app.run.progress.GLANCE", "specdiff_core.checkpoints.hub.PERIOD"):
        monkeypatch.setattr(name, 0.02)
    folder = served.root / "lab" / "tiny-GGUF"
    folder.mkdir()
    for seed, name in enumerate(("tiny.Q8_0.gguf", "tiny-Q4_0.gguf", "tiny-Q4_0-00001-of-00002.gguf")):
        write(folder / name, seed=seed)
    own = own_pairs.parse({"target": "lab/tiny-GGUF:q4_0", "drafter": "lab/tiny-GGUF:tiny.Q8_0.gguf"})
    with pytest.raises(ConfigError, match="downloaded"):
        app_pairs.check(own.name)  # a link's
    assert not [path for verb, path in served.asked if path.endswith(".gguf")]
    served.slow.set()
    for phase in with_progress(partial(live.choose_own, {"target": own.target}), threading.Event()):
        if "Downloading lab/tiny-GGUF" in phase.message:
            served.released.set()
    served.slow.clear()
    assert served.released.is_set() and is_cached("lab/tiny-GGUF:q4_0")
    same_text(Engine.load(own.name, device="cpu"), "autoregressive")
    OWN_PAIRS.clear()
    asked = len(served.asked)
    Engine.load(own.name, device="cpu")
    assert len(served.asked) == asked, "the cache has it"
    got = [path.rpartition("/")[2] for verb, path in served.asked if verb == "GET" and path.endswith(".gguf")]
    assert sorted(got) == ["tiny-Q4_0.gguf", "tiny.Q8_0.gguf"]
    with pytest.raises(PairUnavailable, match=r"tiny\.Q8_0\.gguf"):
        resolve("lab/tiny-GGUF:Q5_1")
    with pytest.raises(PairUnavailable, match="lab/tiny-GGUF:Q4_K_M"):
        resolve("lab/tiny-GGUF")
    assert is_cached("lab/tiny-GGUF:Q8_0") and not is_cached("lab/tiny-GGUF:Q5_1")


def test_a_download_reports_bytes_and_speed_and_can_be_stopped(
    served: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hub, "PERIOD", 0.02)
    served.slow.set()
    lines: list[str] = []
    weights = (served.root / "lab" / "gpt2" / "model.safetensors").stat().st_size

    def report(message: str) -> None:
        lines.append(message)
        found = re.search(r": (\d+) of (\d+) kB", message)
        if found and int(found[2]) * 1000 > 0.9 * weights and int(found[1]) > 0:  # half is to come
            raise Stopped

    with pytest.raises(Stopped):
        load_pair(pair_of(), CPU, progress=report)
    assert re.fullmatch(r"Downloading lab/gpt2: [1-9]\d* of [1-9]\d* kB, \d+\.\d MB/s", lines[-1])
    served.slow.clear()
    served.released.set()
    whole = [path.name for path in (tmp_path / "cache").rglob("snapshots/*/*")]
    assert "tokenizer.json" in whole and "model.safetensors" not in whole
    served.asked.clear()
    assert not load_pair(pair_of(), CPU).missing, "another run goes on"
    assert ("GET", f"/lab/gpt2/resolve/{served.commit('lab/gpt2')}/tokenizer.json") not in served.asked


@pytest.mark.parametrize(
    ("status", "code", "words", "hint"),
    [
        (403, "GatedRepo", "lab/gpt2 is gated", "/lab/gpt2, then run `hf auth login`, or set HF_TOKEN"),
        (404, "RepoNotFound", "has no repository lab/gpt2", "HF_TOKEN"),
        (503, "", "could not be downloaded|out of reach", "pairs --fetch"),
    ],
)
def test_a_repository_that_the_hub_does_not_give(
    served: Hub, status: int, code: str, words: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the client's tries
    served.refused["lab/gpt2"] = (status, code)
    with pytest.raises(PairUnavailable, match=words) as refused:
        load_pair(pair_of(), CPU)
    assert hint in refused.value.hint
    served.refused = {"lab/masked": served.refused["lab/gpt2"]}
    loaded = load_pair(pair_of(), CPU)
    assert set(loaded.drafters) == {"none"} and re.search(words.replace("gpt2", "masked"), loaded.missing["masked"])


def test_a_commit_that_is_gone_a_full_disk_and_no_network(
    served: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(PairUnavailable, match="no longer has the commit"):
        load_pair(pair_of(revision="0" * 40), CPU)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(PairUnavailable, match=r"too full for lab/gpt2: .* are needed, 0 kB are free") as refused:
        load_pair(pair_of(), CPU)
    assert "HF_HOME" in refused.value.hint
    monkeypatch.undo()
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "other"))
    with pytest.raises(PairUnavailable, match=r"the hub is switched off here \(HF_HUB_OFFLINE\)") as refused:
        load_pair(pair_of(), CPU)
    assert "pairs --fetch NAME" in refused.value.hint
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://a\x01b")
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://a\x01b/{repo_id}/resolve/{revision}/{filename}"
    )
    with pytest.raises(PairUnavailable, match="cannot be fetched: Invalid non-printable") as refused:
        load_pair(pair_of(), CPU)


def test_what_does_not_fit_is_refused_before_its_weights_are_fetched(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_of()
    machine = Machine(device="cpu", dtype="fp32", free=10**12)
    monkeypatch.setattr(loading, "find_machine", lambda device, dtype: machine)
    hub.fetch("lab/gpt2", weights=False)
    from specdiff_core.checkpoints.folders import read_config

    folder = hub.cached_folder("lab/gpt2", "")
    assert folder is not None
    config = read_config(folder)
    parameters = sum(p.numel() for p in AutoModelForCausalLM.from_config(GPT2Config(**config)).parameters())
    need = needed(pair, machine, ["none"])
    numbers = need.weights // 4 + 16 * 270 + 2 * 2 * 16 * 64  # packed head, keys and values
    rows = need.target - 4 * numbers
    assert 0.9 < need.weights / (4 * parameters) <= 1, "without norms and biases"
    assert 0 < rows <= 4 * 270 * 65, "and a few rows of logits"
    machine = Machine(device="cpu", dtype="fp32", free=need.total - 1)
    with pytest.raises(OutOfMemory, match=r"The pair 'tiny' was not loaded\. It needs about .* In bf16 it fits"):
        load_pair(pair, CPU, drafters=["none"])
    assert not served.weights_asked()
    hardly = Machine(device="cpu", dtype="fp32", free=memory.RUNTIME["cpu"] + 1)
    assert " fits" not in refusal(pair, hardly, ["masked", "none"]), "in nothing that was not counted"
    machine = Machine(device="cpu", dtype="fp32", free=need.total)
    loaded = load_pair(pair, CPU, drafters=["none"])
    assert len(served.weights_asked()) == 1
    machine = Machine(device="cpu", dtype="fp32", free=100)
    loaded.add(pair.drafter("masked"), lambda message: None)
    assert "drafter 'masked' needs about" in loaded.missing["masked"] and len(served.weights_asked()) == 1


def test_a_drafter_of_the_hub_is_fetched_when_a_run_asks_for_it(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAIRS, "tiny", pair_of())
    lines: list[str] = []
    engine = Engine.load("tiny", device="cpu", progress=lines.append)
    assert set(engine.pair.drafters) == {"none"} and len(served.weights_asked()) == 1
    same_text(engine, "masked")
    assert len(served.weights_asked()) == 2 and any(message.startswith("Loading the drafter") for message in lines)


def test_tokenizers_are_compared_before_weights_are_fetched(served: Hub) -> None:
    from specdiff_core.checkpoints.vocabularies import token_names

    names = token_names(served.root / "lab" / "gpt2")
    save_target(served.root / "lab" / "other", len(names))
    words = {name: (i + 1) % len(names) for i, name in names.items()}
    (served.root / "lab" / "other" / "vocab.json").write_text(json.dumps(words))
    other = DrafterSpec(name="other", label="", module="autoregressive", source="lab/other", drafting="sequential")
    assert "mean different tokens in the drafter" in load_pair(pair_of(other), CPU).missing["other"]
    assert not any("other" in path for path in served.weights_asked())


def test_the_command_fetches_a_pair(served: Hub, tmp_path: Path) -> None:
    """``pairs --fetch`` needs no torch, and ends with a sentence where it cannot."""
    code = (
        "import sys; from specdiff_core.schema import pairs; from specdiff_core import cli\n"
        "from specdiff_core.schema.pairs import DrafterSpec, PairSpec, NONE\n"
        "masked = DrafterSpec(name='masked', label='', module='masked_diffusion', source='lab/masked')\n"
        "pairs.PAIRS['tiny'] = PairSpec(name='tiny', label='', target='lab/gpt2', drafters=(masked, NONE))\n"
        "status = cli.main(sys.argv[1:]); assert 'torch' not in sys.modules; raise SystemExit(status)"
    )
    own = {"HF_ENDPOINT": served.url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, "pairs", "--fetch", *words]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True)

    done = run("tiny", "--drafters", "masked")
    assert done.returncode == 0, done.stderr
    assert f"lab/gpt2 at {served.commit('lab/gpt2')}: " in done.stdout and "lab/masked at" in done.stdout
    served.refused["lab/masked"] = (403, "GatedRepo")
    own["HF_HOME"] = str(tmp_path / "another")
    failed = run("tiny")
    assert failed.returncode and "lab/masked is gated" in failed.stderr and "hf auth login" in failed.stderr
    assert "Traceback" not in failed.stderr


def gpt2(width: int, layers: int, **others: Any) -> Any:
    return GPT2Config(n_embd=width, n_layer=layers, n_head=width // 64, **others)


SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
         "vocab_size")  # fmt: skip


def llama(kind: Any, *sizes: int, **others: Any) -> Any:
    """The fields of a config.json in which models of Llama's form differ."""
    return kind(**{"tie_word_embeddings": False, **dict(zip(SIZES, sizes, strict=True)), **others})


TIED = {"tie_word_embeddings": True}
SEVEN = llama(Qwen2Config, 3584, 18944, 28, 28, 4, 152064)
CONFIGS: dict[str, Any] = {
    "gpt2": gpt2(768, 12),
    "gpt2-medium": gpt2(1024, 24),
    "gpt2-large": gpt2(1280, 36),
    "gpt2-xl": gpt2(1600, 48),
    "gpt-neo-2.7B": GPTNeoConfig(
        hidden_size=2560, num_layers=32, num_heads=20, attention_types=[[["global", "local"], 16]]
    ),
    "distilgpt2": gpt2(768, 6),
    "Qwen2.5-7B-Instruct": SEVEN,
    "Qwen2.5-14B-Instruct": llama(Qwen2Config, 5120, 13824, 48, 40, 8, 152064),
    "Qwen2.5-32B-Instruct": llama(Qwen2Config, 5120, 27648, 64, 40, 8, 152064),
    "Qwen2.5-72B-Instruct": llama(Qwen2Config, 8192, 29568, 80, 64, 8, 152064),
    "Qwen2.5-0.5B-Instruct": llama(Qwen2Config, 896, 4864, 24, 14, 2, 151936, **TIED),
    "DiffuCoder-7B-cpGRPO": SEVEN,
    "Dream-v0-Instruct-7B": SEVEN,
    "Qwen3-4B": llama(Qwen3Config, 2560, 9728, 36, 32, 8, 151936, head_dim=128, **TIED),
    "Qwen3-8B": llama(Qwen3Config, 4096, 12288, 36, 32, 8, 151936, head_dim=128),
    "Qwen3-0.6B": llama(Qwen3Config, 1024, 3072, 28, 16, 8, 151936, head_dim=128, **TIED),
    "SmolLM2-135M-Instruct-GGUF": llama(LlamaConfig, 576, 1536, 30, 9, 3, 49152, **TIED),
    "Llama-3.1-8B-Instruct": llama(LlamaConfig, 4096, 14336, 32, 32, 8, 128256),
    "Llama-3.2-1B-Instruct": llama(LlamaConfig, 2048, 8192, 16, 32, 8, 128256, **TIED),
}
CONFIGS |= {f"Qwen2.5-Coder-{size}B-Instruct": CONFIGS[f"Qwen2.5-{size}B-Instruct"] for size in (7, 14, 32)}
DFLASH = {
    "Qwen3-4B-DFlash-b16": (2560, 9728),
    "Qwen3-8B-DFlash-b16": (4096, 12288),
    "LLaMA3.1-8B-Instruct-DFlash-UltraChat": (4096, 12288),
}
MODELS = {
    model.repo.partition("/")[2]: model
    for model in (published.SMOLLM2, *(one for family in published.FAMILIES.values() for one in family.models))
}


def parameters_of(config: Any, layers: int) -> int:
    """Of a network of so many layers; all have as many, and dozens take seconds to set up."""
    values = config.to_dict() | {config.attribute_map.get("num_hidden_layers", "num_hidden_layers"): layers}
    if "attention_types" in values:
        values["attention_types"] = [[["global"], layers]]
    for derived in ("layer_types", "attention_layers"):
        values.pop(derived, None)
    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(type(config).from_dict(values))
    return sum(p.numel() for p in network.parameters())


def test_declared_sizes_are_those_of_the_configs() -> None:
    """Of each model whose config.json is above; a row needs none."""
    for name, config in CONFIGS.items():
        depth = config.num_hidden_layers
        one, two = (parameters_of(config, layers) for layers in (1, 2))
        model = MODELS[name]
        assert model.parameters == one + (depth - 1) * (two - one), name
        values = config.to_dict()
        assert model.vocabulary == config.vocab_size, name
        assert model.cache in (0, memory.config_sizes(values)[1]), name  # a denoiser keeps none
        tied = config.tie_word_embeddings and config.model_type != "gpt_neo"  # not this lab's
        tied = tied and model.file is None  # whose embedding stays in the file
        assert model.tied == (config.hidden_size if tied else 0), name
    for name, (width, inner) in DFLASH.items():
        released = {
            "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": 5, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "block_size": 16, "rms_norm_eps": 1e-6,
            "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
        }  # fmt: skip
        with torch.device("meta"):
            network = DFlashDraftModel(released)
        assert MODELS[name].parameters == sum(p.numel() for p in network.parameters()), name
        assert MODELS[name].cache == memory.config_sizes(released)[1], name


def test_what_would_fit_is_said() -> None:
    pair = PAIRS["qwen2.5-diffucoder:72b"]
    large = Machine(device="cuda", dtype="bf16", free=139 * 2**30)
    assert refusal(PAIRS["qwen2.5-diffucoder"], large, ["diffucoder", "dream"]) == ""
    words = refusal(pair, large, ["diffucoder"])
    assert "needs about 164.0 GB" in words and "The size 32b fits (--pair qwen2.5-diffucoder:32b)" in words
    assert refusal(pair, dataclasses.replace(large, beside=10**11), ["diffucoder"]) == "", "spread"
    some = Machine(device="cuda", dtype="bf16", free=24 * 10**9)
    words = refusal(PAIRS["qwen2.5-diffucoder"], some, ["diffucoder", "dream", "autoregressive"])
    assert "With fewer drafters it fits: autoregressive." in words
    assert model_size("nobody/nothing") is None and needed(PAIRS["embedded"], large).total < 6e8 + 2e8


def test_a_published_pair_plays_the_methods_with_its_own_drafters() -> None:
    for pair, drafter in (("gpt2-mdlm:xl", "masked"), ("qwen2.5-diffucoder:14b", "diffucoder"), ("embedded", "masked")):
        lanes = race_lanes(DecodeConfig(pair=pair, drafter="none"), ["specdiff"])
        assert lanes["specdiff"].drafter == drafter and lanes["vanilla"].drafter == "none"
    with pytest.raises(ConfigError, match="no drafter for specdiff"):
        race_lanes(DecodeConfig(pair="qwen3-dflash", drafter="none"), ["specdiff"])
