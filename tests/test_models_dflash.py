"""The DFlash network's files and its session. Its numbers are those of plain arithmetic in
test_released_heads.py; what a session keeps is compared with a fresh one in test_distribution.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import save
from dflash_files import IDS, LAYERS, WIDTH, Tensors, block_tensors, fields
from safetensors.torch import load_file
from tables import context_of, drafted
from torch import nn

from benchmarks.dflash import forward
from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.models.dflash import from_folder
from specdiff_core.models.network import Vocabulary
from specdiff_core.schema.errors import DraftContractError

SPECIAL = {"mask_token_id": 1, "target_layer_ids": LAYERS}
CONFIG: dict[str, Any] = fields(
    2, architectures=["DFlashDraftModel"], auto_map={"AutoModel": "dflash.DFlashDraftModel"}, block_size=6,
    dflash_config=SPECIAL, layer_types=["sliding_attention", "full_attention"], num_target_layers=9, rope_scaling=None,
    sliding_window=7, use_sliding_window=False,
)  # fmt: skip
TABLE = torch.randn(IDS, WIDTH, generator=torch.Generator().manual_seed(2))
FEATURES = torch.randn(6, len(LAYERS) * WIDTH, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def tensors() -> Tensors:
    return {name: tensor.bfloat16() for name, tensor in block_tensors(2).items()}


@pytest.fixture
def released(tmp_path: Path, tensors: Tensors) -> Path:
    save(tmp_path / "released", tensors, CONFIG)
    return tmp_path / "released"


@pytest.fixture
def drafter(released: Path) -> BlockDrafter:
    """With a head that is tied to the embedding."""
    embed = nn.Embedding.from_pretrained(TABLE)
    words = Vocabulary(embed, embed, lambda hidden: hidden @ TABLE.T)
    return BlockDrafter("block", from_folder(released), words, context=320, forbidden=(7,))


def test_names_and_config_survive_a_round_trip(released: Path, tensors: Tensors, tmp_path: Path) -> None:
    model = from_folder(released)
    again = write_folder(tmp_path / "again", model.released, model.state_dict())
    stored = load_file(again / "model.safetensors")
    assert stored.keys() == tensors.keys()
    assert all(torch.equal(stored[name], tensors[name]) for name in tensors)
    assert json.loads((again / "config.json").read_text()) == CONFIG


def test_a_step_sees_what_earlier_steps_revealed(drafter: BlockDrafter) -> None:
    """The q of the last of three steps is the network's own answer to the half-filled window."""
    session = drafter.start()
    session.observe(list(range(2, 8)), FEATURES)
    *_, last = session.draft(context_of(list(range(2, 9)), 3, steps=3))
    block = TABLE[torch.tensor([8, *last.ids[:2], 1])]
    logits = forward(drafter.network, block[None], FEATURES[None]).last_hidden_state[0, 3].double() @ TABLE.double().T
    logits[[1, 7]] = -torch.inf  # never a mask nor what is forbidden
    torch.testing.assert_close(last.confidence()[2], logits.softmax(-1), atol=1e-6, rtol=1e-4)


def test_no_window_is_longer_than_trained(drafter: BlockDrafter) -> None:
    """A block of 6 holds the anchor and five masks. An anchor alone is enough."""
    session = drafter.start()
    session.observe([2, 3], FEATURES[:2])
    assert session.room == 5
    draft = drafted(session, [2, 3, 4], 5, steps=5)
    assert len(draft.ids) == 5 and draft.nfe == 5 and not draft.probs[:, [1, 7]].any()
    alone = drafter.start()
    alone.observe([], None)
    assert len(drafted(alone, [5], 4).ids) == 4


def test_tokens_that_were_not_observed_break_the_contract(drafter: BlockDrafter) -> None:
    session = drafter.start()
    with pytest.raises(DraftContractError, match="anchor"):
        drafted(session, [2, 3, 4], 2)
