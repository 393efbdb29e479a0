"""Tiny checkpoints in the formats of published ones, each against an independent reference."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import (
    CPU,
    IDS,
    LLAMA,
    change,
    dream,
    gpt2,
    llama,
    pair_of,
    randomly,
    same_text,
    save,
    save_target,
    save_tokenizer,
)
from tables import first_draft
from transformers import Qwen2Config, Qwen2ForCausalLM

from specdiff_core.checkpoints.vocabularies import token_names, unshared
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.bidirectional import load_bidirectional
from specdiff_core.schema.errors import TokenizerMismatch, WeightsError
from specdiff_core.schema.pairs import NONE, PairSpec

DENOISERS: dict[str, Callable[[Path], tuple[Any, int]]] = {"gpt2": gpt2, "llama": llama, "dream": dream}


def adapted_pair(folder: Path, mask_id: int) -> PairSpec:
    """A target of GPT-2's format with IDS ids, and the denoiser in ``folder / 'drafter'``."""
    save_tokenizer(folder / "target")
    save_target(folder / "target", IDS)
    return pair_of(folder, "adapted", module="masked_diffusion", logit_shift=1, mask_id=mask_id)


@pytest.mark.parametrize("release", DENOISERS)
def test_logits_are_those_of_transformers_without_a_causal_mask(release: str, tmp_path: Path) -> None:
    stock, mask_id = DENOISERS[release](tmp_path)
    model = load_bidirectional(tmp_path, torch.float32, context=64, mask_id=mask_id)
    ids = torch.tensor([[7, 3, 200, 41, 5, 9, *[mask_id] * 6]])
    everything = torch.zeros(1, 1, ids.shape[1], ids.shape[1])
    with torch.inference_mode():
        expected = stock(input_ids=ids, attention_mask=everything).logits
        causal = stock(input_ids=ids).logits
        assert (model(ids) - expected).abs().max() <= 1e-4
        assert (model(ids, first=5) - expected[:, 5:]).abs().max() <= 1e-4
    assert (causal - expected).abs().max() > 0.1, "this reference reads both ways"


@pytest.mark.parametrize("release", DENOISERS)
def test_a_release_drafts_for_its_target(release: str, tmp_path: Path) -> None:
    stock, mask_id = DENOISERS[release](tmp_path / "drafter")
    if release == "dream":  # its own tokenizer gives the target's spare ids other names
        save_tokenizer(tmp_path / "target")
        words = {name: i for i, name in token_names(tmp_path / "target").items()}
        words |= {f"<extra-{i}>": i for i in range(len(words), IDS + 3)}
        (tmp_path / "drafter" / "vocab.json").write_text(json.dumps(words))
    loaded = load_pair(adapted_pair(tmp_path, mask_id), CPU)
    assert not loaded.missing
    known = [5, 9, 7, 11]
    draft = first_draft(loaded.drafters["adapted"], known, 6, steps=2)
    draft.check(6, IDS)
    window = torch.tensor([[*known, *[mask_id] * 6]])
    with torch.no_grad():
        slots = stock(input_ids=window, attention_mask=torch.zeros(1, 1, 10, 10)).logits[0, 3:9, :IDS]
    unnamed = set(range(IDS)) - set(token_names(tmp_path / "target")) if release == "dream" else set()
    never = [i for i in {mask_id, *unnamed} if i < IDS]
    slots[:, never] = -torch.inf
    assert not float(draft.probs[:, never].sum())
    first = slots.double().softmax(-1)[:3]  # what the first of two steps revealed, from the left
    torch.testing.assert_close(draft.probs[:3], first, atol=1e-4, rtol=0)
    same_text(Engine(loaded), "adapted", steps=2)


def test_what_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "drafter"
    _, mask_id = dream(folder)
    pair = adapted_pair(tmp_path, mask_id)

    def reason(**declared: Any) -> str:
        drafter = dataclasses.replace(pair.drafters[0], **declared)
        loaded = dataclasses.replace(pair, drafters=(drafter, NONE))
        try:
            return load_pair(loaded, CPU).missing["adapted"]
        except WeightsError as error:
            return str(error)

    assert "released with a shift of 1; the pair declares 0" in reason(logit_shift=0)
    assert f"mask_token_id is {mask_id}, the pair declares 5" in reason(mask_id=5)
    assert "ids besides a mask token" in reason(), "without a tokenizer, sizes must agree"
    change(folder, vocab_size=IDS)
    assert "outside its vocabulary" in reason()
    change(folder, vocab_size=IDS + 8, mask_token_id=None)
    assert "has no mask_token_id" in reason(mask_id=None)


def test_ids_without_a_counterpart(tmp_path: Path) -> None:
    target = {0: "a", 1: "b", 2: "c", **{i: f"w{i}" for i in range(3, 100)}}
    assert unshared(target, target, 100) == ()
    assert unshared(target, target, 104) == (100, 101, 102, 103), "rows that pad the table"
    assert unshared(target, {**target, 7: "other"}, 100) == (7,)
    assert unshared(target, {i: name for i, name in target.items() if i != 3}, 100) == (3,)
    with pytest.raises(TokenizerMismatch, match=r"100 of the target's 100 ids .* first 0: 'a' against 'b'"):
        unshared(target, {i: target[(i + 1) % 100] for i in range(100)}, 100)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [["<s>", 0.0], ["▁the", -1.5]]}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {"2": {"content": "<mask>"}}}))
    assert token_names(tmp_path) == {0: "<s>", 1: "▁the", 2: "<mask>"}
    whole, template = (tmp_path / "tokenizer.json").read_text(), '{"added_tokens_decoder": %s}'
    for damaged in (
        "[1]",
        "{}",
        *(f'{{"model": {model}}}' for model in ("[]", '{"vocab": [[]]}', '{"vocab": {"a": "x"}}')),
    ):
        (tmp_path / "tokenizer.json").write_text(damaged)
        with pytest.raises(WeightsError, match=r"tokenizer\.json is damaged"):
            token_names(tmp_path)
    (tmp_path / "tokenizer.json").write_text(whole)
    for damaged in (template % "[1]", template % '{"x": "a"}', template % '{"3": {}}'):
        (tmp_path / "tokenizer_config.json").write_text(damaged)
        with pytest.raises(WeightsError, match=r"tokenizer_config\.json is damaged"):
            token_names(tmp_path)


def small_pair(folder: Path, rows: int, words: dict[str, int] | None = None) -> tuple[PairSpec, Any]:
    """A target of GPT-2's format with IDS ids, of which its tokenizer names 270, and a small Qwen2
    with ``rows`` and a tokenizer of its own."""
    save_tokenizer(folder / "target")
    save_target(folder / "target", IDS)
    model = randomly(Qwen2ForCausalLM(Qwen2Config(vocab_size=rows, **LLAMA)))
    save(folder / "drafter", dict(model.state_dict()), model.config.to_dict())
    known = {name: i for i, name in token_names(folder / "target").items()}
    (folder / "drafter" / "vocab.json").write_text(json.dumps(known if words is None else {**known, **words}))
    return pair_of(folder, "small", module="autoregressive", drafting="sequential"), model


@pytest.mark.parametrize("rows", [272, IDS, 300])  # fewer than the target's, as many, more
def test_a_small_model_of_the_same_words_may_have_another_table(rows: int, tmp_path: Path) -> None:
    """Qwen2.5-0.5B drafts for 7B so: 151,936 rows and 152,064, of which 151,665 have names."""
    pair, stock = small_pair(tmp_path, rows)
    loaded = load_pair(pair, CPU)
    assert not loaded.missing
    known = [5, 9, 7, 11]
    draft = first_draft(loaded.drafters["small"], known, 4)
    draft.check(4, IDS)
    named = len(token_names(tmp_path / "target"))
    assert float(draft.probs[:, named:].sum()) == 0 and bool((draft.probs[:, :named] > 0).all())
    with torch.no_grad():
        text = torch.tensor([[*known, *draft.ids]])
        expected = stock(input_ids=text).logits[0, 3:7, :named].double().softmax(-1)
    torch.testing.assert_close(draft.probs[:, :named], expected, atol=1e-5, rtol=1e-4)
    same_text(Engine(loaded), "small")


@pytest.mark.parametrize("known", ["no word", "no row"])
def test_what_a_small_model_does_not_know_is_never_drafted_nor_shown(known: str, tmp_path: Path) -> None:
    """A word that its tokenizer or its table lacks; it reads the end of a text instead."""
    save_tokenizer(tmp_path / "target")
    if known == "no word":
        name, unknown, end = token_names(tmp_path / "target")[200], 200, 0
        pair, stock = small_pair(tmp_path, IDS, {name: 279, "another": 200})
    else:
        (pair, stock), unknown, end = small_pair(tmp_path, 262), 265, 4
        change(tmp_path / "drafter", eos_token_id=[262, 4])
    draft = first_draft(load_pair(pair, CPU).drafters["small"], [5, unknown, 7, 11], 1)
    assert draft.probs is not None and draft.probs.shape == (1, IDS) and float(draft.probs[:, unknown].sum()) == 0
    with torch.no_grad():
        logits = stock(input_ids=torch.tensor([[5, end, 7, 11]])).logits[0, -1].double()
    if known == "no word":
        logits[[200, *range(len(token_names(tmp_path / "target")), IDS)]] = -torch.inf
    torch.testing.assert_close(draft.probs[0, : len(logits)], logits.softmax(-1), atol=1e-5, rtol=1e-4)
    assert not draft.probs[0, len(logits) :].any()


def test_a_small_model_of_other_words_is_refused(tmp_path: Path) -> None:
    pair, _ = small_pair(tmp_path, 272)
    (tmp_path / "drafter" / "vocab.json").unlink()
    assert "has 272 ids, the target 280" in load_pair(pair, CPU).missing["small"]
    words = {name: 271 - i for i, name in token_names(tmp_path / "target").items()}
    (tmp_path / "drafter" / "vocab.json").write_text(json.dumps(words))
    assert "mean different tokens in the drafter" in load_pair(pair, CPU).missing["small"]
