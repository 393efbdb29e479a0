"""A tiny pair in the released formats (GPT-2, MDLM): loading, drafting, and every refusal."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from checkpoints import CPU, change, same_text, save_drafter, save_target, save_tokenizer
from tables import first_draft
from transformers import AutoTokenizer

from specdiff_core import loading
from specdiff_core.checkpoints import availability as here
from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.availability import availability
from specdiff_core.checkpoints.folders import damage_errors
from specdiff_core.checkpoints.memory import Machine
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.schema.errors import ConfigError, OutOfMemory, TokenizerMismatch, WeightsError
from specdiff_core.schema.pairs import NONE, PAIRS, PairSpec
from specdiff_core.schema.published import FILES
from specdiff_core.schema.settings import DecodeConfig

GPT2_MDLM = PAIRS["gpt2-mdlm"]


@pytest.fixture
def pair(tmp_path: Path) -> PairSpec:
    size = save_tokenizer(tmp_path / "gpt2")
    save_target(tmp_path / "gpt2", size)
    save_drafter(tmp_path / "masked", size + 1)
    drafter = dataclasses.replace(GPT2_MDLM.drafter("masked"), source=str(tmp_path / "masked"), revision="", context=32)
    return dataclasses.replace(
        GPT2_MDLM,
        target=str(tmp_path / "gpt2"),
        tokenizer=str(tmp_path / "gpt2"),
        revision="",
        context=64,
        drafters=(drafter, NONE),
    )


def test_the_pair_loads_and_decodes(pair: PairSpec) -> None:
    lines: list[str] = []
    loaded = load_pair(pair, CPU, progress=lines.append)
    assert set(loaded.drafters) == {"masked", "none"} and loaded.missing == {}
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert lines and loaded.source_name("target").endswith("/gpt2") and loaded.source_name("none") == "none"
    assert set(load_pair(pair, CPU, drafters=["none"]).drafters) == {"none"}
    with pytest.raises(ConfigError):
        load_pair(pair, CPU, drafters=["eagle"])
    done = same_text(Engine(loaded), "masked", steps=2)
    assert len(done.ids) == 12 and done.peak_bytes is None, "of the process"


def test_the_view_is_cropped_on_the_left(pair: PairSpec) -> None:
    """Tokens beyond the view change nothing, those inside do; a wide window leaves 16 of them."""
    drafter = load_pair(pair, CPU).drafters["masked"]
    recent = [3 + i % 40 for i in range(28)]

    def q(ids: list[int], gamma: int = 4) -> torch.Tensor:
        return first_draft(drafter, ids, gamma).probs

    assert torch.equal(q([1, 2, 3, *recent]), q([9, 8, *recent]))
    assert not torch.equal(q([1, *recent[1:]]), q([2, *recent[1:]]))
    wide = q(recent, gamma=32)
    assert wide.shape[0] == 32
    assert torch.equal(q([*recent[:11], 1, *recent[12:]], gamma=32), wide)
    assert not torch.equal(q([*recent[:12], 1, *recent[13:]], gamma=32), wide)
    most = drafter.model.config.model_length
    assert all(0 < drafter.known(gamma) <= most - gamma for gamma in range(1, drafter.room + 1))


def test_a_denoiser_reads_what_earlier_steps_revealed(pair: PairSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter, seen = load_pair(pair, CPU).drafters["masked"], list[list[int]]()
    logits, mask = drafter.logits, drafter.mask_id
    monkeypatch.setattr(drafter, "logits", lambda ids, gamma: seen.append(ids[-gamma:].tolist()) or logits(ids, gamma))
    ids = first_draft(drafter, [1, 2, 3], 4, steps=2).ids
    assert seen == [[mask] * 4, [*ids[:2], mask, mask]]


@pytest.mark.parametrize(("field", "value"), [
    ("mask_token_id", "a"), ("mask_token_id", -1), ("hidden_dim", 10**12),
    ("model_length", 10**12), ("n_heads", True), ("n_blocks", None),
])  # fmt: skip
def test_a_damaged_drafter_config_costs_its_drafter_only(pair: PairSpec, field: str, value: Any) -> None:
    change(pair.drafter("masked").source, **{field: value})
    loaded = load_pair(pair, CPU)
    assert set(loaded.drafters) == {"none"}
    assert "config.json" in loaded.missing["masked"] and field in loaded.missing["masked"]


def test_what_nobody_foresaw_in_a_drafter_costs_it_only_and_is_logged(
    pair: PairSpec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("specdiff_core.drafters.masked_diffusion.build", lambda *_, **__: 1 // 0)
    assert load_pair(pair, CPU).missing["masked"].startswith("test_what_nobody_foresaw_in_a_0/masked: no model")
    assert "ZeroDivisionError" in load_pair(pair, CPU).missing["masked"]
    assert "masked" in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize("values", [
    {"n_head": 0}, {"n_head": -1}, {"vocab_size": 0}, {"n_layer": "a"}, {"n_layer": 2**20},
    {"n_embd": 7}, {"layer_norm_epsilon": float("inf")}, {"max_position_embeddings": 0}, {"n_positions": -5},
    {"hidden_size": 0}, {"head_dim": -5},
])  # fmt: skip
def test_a_damaged_target_config_is_named(pair: PairSpec, values: dict[str, Any]) -> None:
    change(pair.target, **values)
    with pytest.raises(WeightsError, match=r"config\.json"):
        load_pair(pair, CPU)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000]
    + [f'{{"weight_map": {names}}}' for names in ('{"a": [1]}', '{"a": 1, "b": "x"}', '{"a": "../gpt2/x"}')]
    + ['{"weight_map": {"a": "%s"}}' % ("x" * 5000)],
)
def test_a_damaged_index_is_named(pair: PairSpec, text: str) -> None:
    (Path(pair.target) / "model.safetensors").unlink()  # which would be read
    (Path(pair.target) / "model.safetensors.index.json").write_text(text)
    with pytest.raises(WeightsError, match=r"index\.json"):
        load_pair(pair, CPU)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError(13, "no access", "/home/me/models/m/x.json"), "m/x.json"),
        (OSError(13, "no access", "/home/of me/my models/m/x.json"), "m/x.json"),
        (
            ImportError("/home/me/venv/lib/x.so needs optimum; see https://example.org/a/b/c"),
            "https://example.org/a/b/c",
        ),
    ],
)
def test_an_error_of_another_package_shows_nobodys_folders(error: Exception, shown: str) -> None:
    with pytest.raises(WeightsError) as caught, damage_errors("It is damaged"):
        raise error
    assert shown in caught.value.message and "/home" not in str(caught.value)
    assert ("Install" in caught.value.hint) == isinstance(error, ImportError)


def test_damaged_target_files_are_named(pair: PairSpec) -> None:
    weights = Path(pair.target) / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        load_pair(pair, CPU)
    for header in (b"[]", b"[" * 100_000 + b"]" * 100_000):
        weights.write_bytes(struct.pack("<Q", len(header)) + header)
        assert availability(pair) == (True, ""), "it loads nothing, and raises nothing"
        with pytest.raises(WeightsError, match=r"model\.safetensors"):
            load_pair(pair, CPU)
    weights.unlink()
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        load_pair(pair, CPU)
    (Path(pair.tokenizer) / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsError, match="tokenizer"):
        load_pair(pair, CPU)


def test_a_drafter_with_other_ids_is_left_out_alone(pair: PairSpec, tmp_path: Path) -> None:
    save_drafter(tmp_path / "other", 100)
    other = dataclasses.replace(pair.drafter("masked"), source=str(tmp_path / "other"))
    loaded = load_pair(dataclasses.replace(pair, drafters=(other, NONE)), CPU)
    assert set(loaded.drafters) == {"none"} and "tokenizer" in loaded.missing["masked"]
    with pytest.raises(ConfigError, match="share one tokenizer"):
        next(Engine(loaded).decode("the", DecodeConfig(drafter="masked")))


def test_tokenizer_and_target_must_agree(pair: PairSpec, tmp_path: Path) -> None:
    for size in (50, 400):  # too small, too large
        folder = tmp_path / f"target-{size}"
        save_target(folder, size)
        with pytest.raises(TokenizerMismatch, match="tokenizer"):
            load_pair(dataclasses.replace(pair, target=str(folder)), CPU)


CHATS = "<|turn|>{{ messages[0].content }}%s<|turn|>"


@pytest.mark.parametrize(
    ("model", "generation", "tokens", "template", "ends"),
    [
        ([], None, "<|endoftext|>", "", ["<|endoftext|>"]),
        (7, None, "<|endoftext|>", "", ["<|endoftext|>", 7]),
        (-1, [7, 999999, 8, "x"], None, "", [7, 8]),
        (None, None, None, "", []),
        (0, None, "<|endoftext|>", "<|im_end|>", ["<|endoftext|>", "<|im_end|>"]),
        (0, None, "<|im_end|>", "<|eot_id|>", ["<|im_end|>", "<|endoftext|>", "<|eot_id|>"]),
        (0, None, None, "<|end|><|return|>", ["<|endoftext|>", "<|return|>"]),
    ],
)
def test_a_text_ends_at_whatever_the_files_or_the_chat_template_end_it_with(
    tmp_path: Path, model: Any, generation: Any, tokens: str | None, template: str, ends: list[Any]
) -> None:
    """An id that the target lacks ends nothing, and doesn't keep it from loading."""
    save_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens(["<|turn|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|return|>"], special_tokens=True)
    tokenizer.eos_token, tokenizer.chat_template = tokens, template and CHATS % template
    tokenizer.save_pretrained(tmp_path)
    save_target(tmp_path, len(tokenizer))
    change(tmp_path, eos_token_id=model)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    loaded = load_pair(PairSpec(name="own", label="", target=str(tmp_path), context=64, drafters=(NONE,)), CPU)
    assert loaded.ends == tuple(tokenizer.convert_tokens_to_ids(e) if isinstance(e, str) else e for e in ends)


def test_a_token_that_only_the_tokenizer_has_is_refused_where_it_is_read(pair: PairSpec) -> None:
    tokenizer = AutoTokenizer.from_pretrained(pair.target)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(pair.target)
    change(pair.target, pad_token_id=270)
    engine = Engine(load_pair(pair, CPU))
    assert max(engine.encode("the [PAD]", DecodeConfig())) < 270
    engine.pair.tokenizer.chat_template = "[PAD]{{ messages[0].content }}"
    with pytest.raises(ConfigError, match=r"no token '\[PAD\]'"):
        engine.encode("the", DecodeConfig())


def test_a_tokenizer_that_names_an_id_too_many(pair: PairSpec) -> None:
    words = Path(pair.tokenizer) / "tokenizer.json"
    values = json.loads(words.read_text())
    values["model"]["vocab"]["t"] = 999
    words.write_text(json.dumps(values))
    with pytest.raises(TokenizerMismatch, match="has the id 999, its target only 270 ids"):
        load_pair(pair, CPU)


def test_a_mask_that_the_target_may_say_is_refused(pair: PairSpec) -> None:
    """A drafter's mask that is an ordinary id of the target must be in ``suppress``."""
    folder = Path(pair.drafter("masked").source)
    size = json.loads((Path(pair.target) / "config.json").read_text())["vocab_size"]
    save_drafter(folder, size)
    assert "mask id" in load_pair(pair, CPU).missing["masked"]
    loaded = load_pair(dataclasses.replace(pair, suppress=(size - 1,)), CPU)
    draft = first_draft(loaded.drafters["masked"], [5], 4)
    assert float(draft.probs[:, size - 1].max()) == 0.0


def test_no_memory_is_said_so(pair: PairSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> NoReturn:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(loading, "load_causal", full)
    with pytest.raises(OutOfMemory, match=pair.name):
        load_pair(pair, CPU)


def test_availability_of_local_files(pair: PairSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    assert availability(pair) == (True, "")
    (Path(pair.drafter("masked").source) / "model.safetensors").unlink()
    assert availability(pair)[0]  # vanilla still runs
    monkeypatch.setattr(here, "find_machine", lambda: Machine(device="cpu", dtype="fp32", free=10**6))
    usable, reason = availability(pair)
    assert not usable and "GB" in reason
    (Path(pair.target) / "model.safetensors").unlink()
    usable, reason = availability(pair)
    assert not usable and "model.safetensors" in reason


def test_availability_of_hub_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "find_machine", lambda: Machine(device="cpu", dtype="fp32", free=10**12))
    monkeypatch.setattr(here, "is_cached", lambda repo, revision: False)
    monkeypatch.setattr("huggingface_hub.is_offline_mode", lambda: True)
    usable, reason = availability(GPT2_MDLM)
    assert not usable and "not in the local cache" in reason and "offline" in reason
    monkeypatch.setattr("huggingface_hub.is_offline_mode", lambda: False)
    asked: list[int] = []
    monkeypatch.setattr(hub, "is_reachable", lambda: bool(asked.append(1)))
    once = here.Environment()
    for spec in PAIRS.values():
        elsewhere = spec.offline or spec.target in FILES  # which pip's index has, too
        assert elsewhere or "cannot be reached" in availability(spec, once)[1]
    assert len(asked) == 1, "it is asked once, however many pairs there are"
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    assert availability(GPT2_MDLM) == (True, "")
    monkeypatch.setattr(hub, "is_reachable", lambda: pytest.fail("a cached target needs no hub"))
    monkeypatch.setattr(here, "is_cached", lambda repo, revision: repo == GPT2_MDLM.target)
    assert availability(GPT2_MDLM) == (True, "")


def test_availability_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Machine:
        raise OSError("no such device")

    monkeypatch.setattr(here, "find_machine", broken)
    monkeypatch.setattr(here, "is_cached", lambda repo, revision: True)
    usable, reason = availability(GPT2_MDLM)
    assert not usable and "no such device" in reason


UNPINNED = {"apple/DiffuCoder-7B-cpGRPO"}
"""No public source names a commit of it: the first fetch decides (tests/test_hub.py)."""


def test_hub_pairs_are_pinned() -> None:
    """Every hub source is a commit, 40 hex digits, so that nobody's later upload changes what is
    loaded; but for one that is known not to be."""
    loose = set()
    for pair in PAIRS.values():
        for source, revision in pair.sources:
            if loading.is_local(source):
                continue
            if not revision:
                loose.add(source)
                continue
            assert len(revision) == 40 and set(revision) <= set("0123456789abcdef"), source
    assert loose == UNPINNED
