"""A denoiser cut from its target: what training computes, what a run drafts, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import CPU, close, finished, randomly, same_text, save, save_tokenizer
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM, Qwen3Config

from specdiff_core.checkpoints.own_pairs import parse, register_pair
from specdiff_core.drafters import masked_diffusion
from specdiff_core.drafters.base import Context, Draft, run_to_end
from specdiff_core.drafters.masked_diffusion import CachedDenoiser, CachedSession
from specdiff_core.engine import Engine
from specdiff_core.maths.randomness import Streams
from specdiff_core.models.causal import load_network, read_layers
from specdiff_core.models.masked import MaskedDraftModel, load_masked
from specdiff_core.models.network import CausalLM, vocabulary
from specdiff_core.schema.errors import ConfigError, PairUnavailable
from specdiff_core.schema.pairs import OWN_PAIRS
from specdiff_core.schema.settings import DecodeConfig, RevealOrder
from specdiff_core.train.learners.masked import masked_config, masked_hidden, new_masked
from specdiff_core.train.settings import DrafterSettings

BLOCK, MASK, CUT = 6, 269, (2, 0)
TEXT = torch.randint(1, MASK, (2, 20), generator=torch.Generator().manual_seed(5))
SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "eos_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip


def save_target(folder: Path, **sizes: Any) -> CausalLM:
    """A Llama with weights of an opinion."""
    config = LlamaConfig(**{"vocab_size": save_tokenizer(folder), **SIZES, **sizes})
    randomly(LlamaForCausalLM(config)).save_pretrained(folder)
    return load_network(folder, config, torch.float32, context=96)


def cut_from(folder: Path, config: Any, cut: Sequence[int] = CUT) -> MaskedDraftModel:
    settings = DrafterSettings(kind="masked", block=BLOCK, cut=tuple(cut))
    released = masked_config(config, "target", settings, mask=MASK, words=config.vocab_size)
    return new_masked(released, read_layers(folder, cut), seed=0)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CausalLM]:
    folder = tmp_path_factory.mktemp("masked") / "target"
    return folder, save_target(folder)


@pytest.fixture(scope="module")
def drafter(target: tuple[Path, CausalLM]) -> Path:
    """Layers of the target, changed as training would."""
    folder, network = target[0].parent / "drafter", cut_from(target[0], target[1].config)
    save(folder, randomly(network).state_dict(), network.released)
    return folder


@pytest.fixture
def denoiser(target: tuple[Path, CausalLM], drafter: Path) -> CachedDenoiser:
    return CachedDenoiser("masked", load_masked(drafter).freeze(), vocabulary(target[1]), context=64)


def test_it_begins_with_the_targets_layers(target: tuple[Path, CausalLM]) -> None:
    state, theirs = (
        cut_from(target[0], target[1].config).state_dict(),
        LlamaForCausalLM.from_pretrained(target[0]).state_dict(),
    )
    for place, layer in enumerate(CUT):
        for part in ("self_attn.k_proj", "mlp.down_proj", "input_layernorm"):
            own, whole = (f"layers.{at}.{part}.weight" for at in (place, layer))
            assert torch.equal(state[own], theirs[f"model.{whole}"])
    assert len(state) == 2 * 9 + 1
    fresh = new_masked(masked_config(target[1].config, "t", DrafterSettings(layers=3), mask=MASK, words=9), {}, seed=1)
    assert fresh.shape.layers == 3


@pytest.mark.parametrize("config", [GPT2Config(n_embd=32, n_layer=2, n_head=4), Qwen3Config(**SIZES, head_dim=8)])
def test_of_other_layers_none_is_cut(config: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="not Llama's"):
        cut_from(tmp_path, config, (0,))


def test_training_sees_what_a_run_drafts_from(denoiser: CachedDenoiser, drafter: Path) -> None:
    """Two texts, several anchors in each, windows of one and of two steps, tokens read in several parts."""
    words, network = denoiser.words, load_masked(drafter)
    anchors = torch.tensor([[1, 4, 4, 5, 13], [2, 2, 7, 8, 13]])
    windows = torch.full((2, 5, BLOCK), MASK)
    windows[..., 0] = TEXT.gather(1, anchors)
    windows[:, 2:, 1:3] = torch.randint(1, MASK, (2, 3, 2), generator=torch.Generator().manual_seed(6))
    windows[:, 4, 4] = 7  # from another order
    with torch.inference_mode():
        learnt = denoiser.head(masked_hidden(network, words.embed(TEXT), words.embed(windows), anchors))
    for row, text in enumerate(TEXT.tolist()):
        session, read = denoiser.start(), 0
        assert isinstance(session, CachedSession)
        for anchor, window, expected in zip(anchors[row].tolist(), windows[row].tolist(), learnt[row], strict=True):
            for ids in (text[read : anchor - 1], text[max(read, anchor - 1) : anchor]):
                session.observe(ids, None)
            read = anchor
            close(session._pass(window), expected)
    alone, (anchor, window) = denoiser.start(), (anchors[:1, 4:], windows[:1, 4:, :3])  # shorter than it learnt
    alone.observe(TEXT[0, : int(anchor)].tolist(), None)
    with torch.inference_mode():
        states = masked_hidden(network, words.embed(TEXT[:1]), words.embed(window), anchor)
    close(alone._pass(window.flatten().tolist()), denoiser.head(states)[0, 0])


def draft(session: Any, ids: Sequence[int], steps: int = 2) -> Draft:
    config = DecodeConfig(temperature=1.0, drafter="masked")
    fields: dict[str, Any] = {"order": RevealOrder.ENTROPY, "sampling": config.draft_sampling}
    sampler = Streams(3, shared=False).draft(len(ids))
    drafted: Draft = run_to_end(
        session.draft(Context.within(session.room, ids=ids, gamma=9, steps=steps, sampler=sampler, **fields))
    )
    assert len(drafted.ids) == BLOCK and drafted.nfe == steps and MASK not in drafted.ids
    return drafted


def test_after_each_rollback_it_drafts_as_one_that_reads_all(denoiser: CachedDenoiser) -> None:
    """Whatever was accepted of a draft, and also when a round drafts nothing."""
    ids = TEXT[0, :7].tolist()
    session = denoiser.start()
    session.observe(ids[:-1], None)
    for accepted in (0, 3, BLOCK, 1, 2):
        ours, fresh = draft(session, ids), denoiser.start()
        fresh.observe(ids[:-1], None)
        whole = draft(fresh, ids)
        assert ours.ids == whole.ids and ours.reveal_steps == whole.reveal_steps
        assert ours.probs is not None and whole.probs is not None
        close(ours.probs, whole.probs)
        for new in (ours.ids[:accepted], ()):  # then a plain step of the target
            session.observe([ids[-1], *new], None)
            ids += [*new, 1 + len(ids)]


def test_an_own_pair_finds_it_and_the_text_is_vanillas(target: tuple[Path, CausalLM], drafter: Path) -> None:
    OWN_PAIRS.clear()
    spec = register_pair(parse({"target": str(target[0]), "drafter": str(drafter), "context": 64}).name)
    (found, *_), engine = spec.drafters, Engine.load(spec.name, device="cpu", dtype="fp32")
    assert (found.drafting, found.window) == ("denoise", BLOCK)
    assert isinstance(engine.drafter(found.name), CachedDenoiser)
    for settings in ({"steps": 1}, {"steps": 3, "gamma": BLOCK, "order": "entropy"}, {"tree_nodes": 9}, {"auto": True}):
        same_text(engine, found.name, **settings)
    sampled = finished(engine, drafter=found.name, temperature=0.9, steps=2, gamma=32, num_drafts=2)
    assert len(sampled.ids) == 12


@pytest.mark.parametrize(
    ("change", "words"),
    [({"hidden_size": 48, "head_dim": 12}, "width is 32"), ({"vocab_size": 272}, "vocabulary is 270")],
)
def test_one_of_another_target_is_refused(drafter: Path, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    OWN_PAIRS.clear()
    model = save_target(tmp_path, **change)
    spec = register_pair(parse({"target": str(tmp_path), "drafter": str(drafter), "context": 64}).name)
    with pytest.raises(PairUnavailable, match=words):
        masked_diffusion.build(spec.drafters[0], CPU, target=model, pair=spec)
