"""The DFlash network's files and products, and the session against recomputation. Its numbers are those of plain
arithmetic in test_released_heads.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from block import drafter_config, new_drafter
from common import new_llama as new_target
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmarks.dflash import forward
from specdiff_core.drafters.base import Context, Draft, DraftSession
from specdiff_core.drafters.block_diffusion import BlockDrafter, build
from specdiff_core.maths.randomness import Independent
from specdiff_core.models.causal import Vocabulary
from specdiff_core.models.device import Placement
from specdiff_core.models.dflash import DFlashDraftModel, from_folder, save_to_folder
from specdiff_core.models.markov import MarkovHead, Successors
from specdiff_core.schema.errors import DraftContractError, PairUnavailable, WeightsError
from specdiff_core.schema.pairs import DrafterSpec, PairSpec
from specdiff_core.schema.settings import RevealOrder, Sampling

WIDTH, HEADS, GROUPS, HEAD_DIM, FFN, LAYERS, VOCAB = 32, 4, 2, 16, 48, 2, 60
FEATURES = 3
RELEASED: dict[str, Any] = {  # the fields of a released config.json, at a toy size
    "architectures": ["DFlashDraftModel"], "attention_bias": False, "attention_dropout": 0.0,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "block_size": 6, "bos_token_id": 0,
    "dflash_config": {"mask_token_id": 1, "target_layer_ids": [0, 2, 3]}, "dtype": "bfloat16", "eos_token_id": 0,
    "head_dim": HEAD_DIM, "hidden_act": "silu", "hidden_size": WIDTH, "initializer_range": 0.02,
    "intermediate_size": FFN, "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 128,
    "max_window_layers": 2, "model_type": "qwen3", "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
    "num_key_value_heads": GROUPS, "num_target_layers": 5, "rms_norm_eps": 1e-6, "rope_scaling": None,
    "rope_theta": 500.0, "sliding_window": 7, "tie_word_embeddings": False, "use_cache": True,
    "use_sliding_window": False, "vocab_size": VOCAB,
}  # fmt: skip


def released_tensors(seed: int = 0) -> dict[str, Tensor]:
    """Every tensor of a released checkpoint by its published name (docs/theory.md, Block drafters)."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> Tensor:
        return (torch.randn(shape, generator=generator) * 0.3).to(torch.bfloat16)

    def gain(size: int) -> Tensor:
        return (1 + 0.3 * torch.randn(size, generator=generator)).to(torch.bfloat16)

    tensors = {
        "fc.weight": matrix(WIDTH, FEATURES * WIDTH),
        "hidden_norm.weight": gain(WIDTH),
        "norm.weight": gain(WIDTH),
    }
    for i in range(LAYERS):
        layer = f"layers.{i}."
        tensors |= {
            layer + "input_layernorm.weight": gain(WIDTH),
            layer + "post_attention_layernorm.weight": gain(WIDTH),
            layer + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, WIDTH),
            layer + "self_attn.k_proj.weight": matrix(GROUPS * HEAD_DIM, WIDTH),
            layer + "self_attn.v_proj.weight": matrix(GROUPS * HEAD_DIM, WIDTH),
            layer + "self_attn.o_proj.weight": matrix(WIDTH, HEADS * HEAD_DIM),
            layer + "self_attn.q_norm.weight": gain(HEAD_DIM),
            layer + "self_attn.k_norm.weight": gain(HEAD_DIM),
            layer + "mlp.gate_proj.weight": matrix(FFN, WIDTH),
            layer + "mlp.up_proj.weight": matrix(FFN, WIDTH),
            layer + "mlp.down_proj.weight": matrix(WIDTH, FFN),
        }
    return tensors


@pytest.fixture
def released(tmp_path: Path) -> Path:
    folder = tmp_path / "released"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(RELEASED))
    save_file(released_tensors(), folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("biased", [False, True])
def test_one_product_equals_three(released: Path, biased: bool) -> None:
    """What inference joins is what training keeps apart, biases included."""
    (released / "config.json").write_text(json.dumps(RELEASED | {"attention_bias": biased}))
    model = DFlashDraftModel(json.loads((released / "config.json").read_text()))
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    hidden = torch.randn(2, 3, WIDTH, generator=generator)
    rope = (torch.randn(1, 1, 3, HEAD_DIM, generator=generator), torch.randn(1, 1, 3, HEAD_DIM, generator=generator))
    seen: list[tuple[Tensor, ...]] = []

    def attend(layer: int, *heads: Tensor) -> Tensor:
        seen.append(heads)
        return heads[0]

    context = model.context_keys_values(hidden, rope)
    model.layers[0](hidden, rope, attend)
    model.prepare()
    model.layers[0](hidden, rope, attend)
    for one, three in zip(*seen, strict=True):
        torch.testing.assert_close(one, three)
    assert len(context) == LAYERS
    for joined, separate in zip(model.context_keys_values(hidden, rope), context, strict=True):
        torch.testing.assert_close(joined, separate)


def test_names_and_config_survive_a_round_trip(released: Path, tmp_path: Path) -> None:
    again = save_to_folder(from_folder(released), tmp_path / "again")
    stored = load_file(again / "model.safetensors")
    original = released_tensors()
    assert stored.keys() == original.keys()
    assert all(torch.equal(stored[name], original[name]) for name in original)
    assert json.loads((again / "config.json").read_text()) == RELEASED


@pytest.mark.parametrize(
    "odd",
    [
        {"hidden_size": "wide"},
        {"num_hidden_layers": -1},
        {"num_attention_heads": 0},
        {"layer_types": ["other", "full_attention"]},
        {"block_size": 1},
        {"block_size": "many"},
        {"block_size": 10**9},
        {"rope_theta": 0},
        {"rope_theta": -10_000.0},
        {"dflash_config": {"mask_token_id": -1, "target_layer_ids": [0]}},
        {"dflash_config": {"mask_token_id": 1, "target_layer_ids": [-1, 2]}},
        {"dflash_config": {"mask_token_id": None, "target_layer_ids": [0]}},
        {"dflash_config": {"mask_token_id": 1, "target_layer_ids": 3}},
        {"rope_scaling": {"rope_type": "unheard-of"}},
    ],
)
def test_odd_configs_are_refused_in_words(released: Path, odd: dict[str, Any]) -> None:
    (released / "config.json").write_text(json.dumps({**RELEASED, **odd}))
    with pytest.raises(WeightsError, match=r"config\.json"):
        from_folder(released)


def context_of(ids: list[int], gamma: int, steps: int = 1, temperature: float = 0.0) -> Context:
    return Context(
        ids=ids,
        gamma=gamma,
        steps=steps,
        order=RevealOrder.LEFT_TO_RIGHT,
        sampling=Sampling(temperature=temperature),
        sampler=Independent("draft", 0, len(ids)),
    )


def words_of(table: Tensor) -> Vocabulary:
    """A head tied to the embedding ``table [V, W]``."""
    embed = nn.Embedding.from_pretrained(table)
    return Vocabulary(embed, embed, lambda hidden: hidden @ table.T)


def finish(session: DraftSession, context: Context) -> tuple[Draft, list[Tensor]]:
    """Run a draft to its end; also how sure every step was: its q, at temperature 1."""
    drafting, seen = session.draft(context), []
    while True:
        try:
            seen.append(next(drafting).confidence())
        except StopIteration as done:
            return done.value, seen


@pytest.mark.parametrize("steps", [1, 3])
def test_cached_rounds_equal_a_fresh_start(released: Path, steps: int) -> None:
    """Features arrive round by round, blocks come and go: q must be what one session that sees all at once says."""
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(VOCAB, WIDTH, generator=generator)
    drafter = BlockDrafter("block", from_folder(released), words_of(table), context=320)
    ids = torch.randint(2, VOCAB, (300,), generator=generator).tolist()
    features = torch.randn(300, FEATURES * WIDTH, generator=generator)
    cached = drafter.start()
    seen = 0
    for length in (4, 5, 9, 250, 258, 290):  # crosses a growth of the buffers
        cached.observe(ids[seen : length - 1], features[seen : length - 1])
        seen = length - 1
        fresh = drafter.start()
        fresh.observe(ids[:seen], features[:seen])
        context = context_of(ids[:length], 5, steps, temperature=1.0)
        one, first = finish(cached, context)
        context = context_of(ids[:length], 5, steps, temperature=1.0)
        two, second = finish(fresh, context)
        assert one.nfe == steps and one.ids == two.ids
        for a, b in zip(first, second, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_a_step_sees_what_earlier_steps_revealed(released: Path) -> None:
    """The q of the last of three steps equals the network's own answer to the half-filled window."""
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(VOCAB, WIDTH, generator=generator)
    drafter = BlockDrafter("block", from_folder(released), words_of(table), context=320)
    features = torch.randn(6, FEATURES * WIDTH, generator=generator)
    session = drafter.start()
    session.observe(list(range(2, 8)), features)
    draft, seen = finish(session, context_of(list(range(2, 9)), 3, 3, temperature=1.0))
    block = table[torch.tensor([8, *draft.ids[:2], 1])]
    hidden = forward(drafter.network, block[None], features[None]).last_hidden_state[0, 3]
    logits = hidden.double() @ table.double().T
    logits[1] = -torch.inf  # never a mask
    torch.testing.assert_close(seen[2][2], logits.softmax(-1), atol=1e-6, rtol=1e-4)


def test_no_window_is_longer_than_trained(released: Path) -> None:
    table = torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(4))
    session = BlockDrafter("block", from_folder(released), words_of(table), context=320, forbidden=(7,)).start()
    session.observe([2, 3], torch.randn(2, FEATURES * WIDTH, generator=torch.Generator().manual_seed(5)))
    assert session.room == 5  # block_size 6 holds the anchor and five masks
    draft, seen = finish(session, context_of([2, 3, 4], gamma=5, steps=5, temperature=1.0))
    assert len(draft.ids) == 5 and draft.nfe == 5
    assert all(float(q[:, [1, 7]].sum()) == 0.0 for q in seen)
    draft.check(5, VOCAB)


def test_an_anchor_alone_can_be_drafted_from(released: Path) -> None:
    table = torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(4))
    session = BlockDrafter("block", from_folder(released), words_of(table), context=320).start()
    session.observe([], None)
    assert len(finish(session, context_of([5], 4))[0].ids) == 4


def test_missing_features_break_the_contract(released: Path) -> None:
    table = torch.zeros(VOCAB, WIDTH)
    session = BlockDrafter("block", from_folder(released), words_of(table), context=320).start()
    with pytest.raises(DraftContractError, match="features"):
        session.observe([2, 3], None)
    with pytest.raises(DraftContractError, match="anchor"):
        finish(session, context_of([2, 3, 4], 2))


def test_build_checks_that_the_target_fits(released: Path) -> None:
    target = new_target(VOCAB, layers=5, width=64, context=128)
    spec = DrafterSpec(name="block", label="Block", module="block_diffusion", source=str(released))
    placement = Placement(torch.device("cpu"), torch.float32, "test")
    pair = PairSpec(name="toy", label="Toy", target="", suppress=(1,))
    with pytest.raises(PairUnavailable, match="another target"):
        build(spec, placement, target=target, pair=pair)
    fitting = new_drafter(target, drafter_config(target.config, layers=1, features=2, block_size=5))
    save_to_folder(fitting, released)
    drafter = build(spec, placement, target=target, pair=pair)
    assert drafter.layers == (1, 2) and drafter.window == 4 and drafter.forbidden == (1,)


def test_the_tables_of_a_markov_head_say_what_the_head_computes() -> None:
    """Between an embedding and an output head that differ: the logit of each candidate behind each token, less the
    marginal one."""
    generator = torch.Generator().manual_seed(0)
    embedding, rows = torch.randn(2, 9, 8, generator=generator)
    markov = MarkovHead(8, 5).requires_grad_(False)
    for part in (markov.state, markov.before, markov.out):
        torch.nn.init.normal_(part.weight, generator=generator)
    states = torch.randn(3, 8, generator=generator)
    before, candidates = torch.tensor([[1, 8], [2, 0], [3, 3]]), torch.tensor([[0, 1, 2], [5, 4, 8], [7, 7, 6]])
    added = Successors(markov, embedding, rows)(states, before, candidates)
    chained = markov(states[:, None], embedding[before]) @ rows[candidates].transpose(1, 2)
    marginal = (states[:, None] * rows[candidates]).sum(-1)
    torch.testing.assert_close(marginal[:, None] + added, chained)
