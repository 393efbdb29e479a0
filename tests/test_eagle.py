"""EAGLE's head: released names, features beside tokens, a tree that grows by depth."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import small_model
from safetensors.torch import load_file, save_file
from tables import drafted, texts

from specdiff_core.drafters.eagle import EagleDrafter, EagleSession
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.trees import ROOT, Growth
from specdiff_core.models.eagle import EagleHead, load_eagle, save_eagle
from specdiff_core.models.network import vocabulary
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import DraftContractError
from specdiff_core.schema.settings import Sampling
from specdiff_core.train.learners.eagle import new_eagle

LAYERS = 3


@pytest.fixture(scope="module")
def model() -> Any:
    return small_model(LAYERS)


@pytest.fixture(scope="module")
def head(model: Any) -> EagleHead:
    head = new_eagle(model.config, seed=3).eval().requires_grad_(False)
    with torch.no_grad():
        for parameter in head.parameters():  # at first it repeats what it is given
            if parameter.ndim == 2:
                parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter)))
    return head


@pytest.fixture(scope="module")
def drafter(model: Any, head: EagleHead) -> EagleDrafter:
    reader = copy.deepcopy(head).freeze(vocabulary(model), context=64)
    return EagleDrafter("eagle", Target(reader, context=64, suppress=(1,)), layers=(LAYERS - 1,))


def features_of(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model.model(torch.tensor([ids])).last_hidden_state[0]


def plainly(model: Any, head: EagleHead, ids: list[int], drafted: tuple[int, ...]) -> torch.Tensor:
    """Logits ``[V]`` behind ``ids`` and ``drafted``, by whole passes: no cache, no session."""
    with torch.inference_mode():
        features = features_of(model, ids[:-1])
        for count in range(len(drafted) + 1):
            tokens = torch.tensor([[*ids[1:], *drafted[:count]]])
            found = head(model.get_input_embeddings()(tokens), features[None])[0]
            features = torch.cat([features, found[-1:]])
        return model.lm_head(features[-1])


def begun(drafter: EagleDrafter, model: Any, ids: list[int]) -> EagleSession:
    session = EagleSession(drafter)
    session.observe(ids[:-1], features_of(model, ids[:-1]))
    return session


@pytest.mark.parametrize("nodes", [1, 8])
def test_the_tree_holds_the_most_probable_texts(model: Any, head: EagleHead, drafter: EagleDrafter, nodes: int) -> None:
    """Against whole passes over every text of up to three of the 39 words that may be said."""
    ids = [3, 7, 9, 4]
    draft = drafted(begun(drafter, model, ids), ids, 3, tree_nodes=nodes)
    assert draft.parents is not None and draft.probs is None
    every: dict[tuple[int, ...], float] = {(): 0.0}
    deepest: list[tuple[int, ...]] = [()]
    for _ in range(3):
        found = {}
        for text in deepest:
            row = to_probs(plainly(model, head, ids, text)[None], Sampling(temperature=1.0), (1,))[0].log()
            found |= {(*text, token): every[text] + float(row[token]) for token in range(40) if token != 1}
        every |= found
        deepest = sorted(found, key=lambda text: -found[text])[:8]
    del every[()]
    got = texts(list(draft.ids), draft.parents)
    assert len(set(got)) == nodes and draft.nfe == (1 if nodes == 1 else 3)
    assert sorted((every[text] for text in got), reverse=True) == pytest.approx(
        sorted(every.values(), reverse=True)[:nodes], abs=1e-4
    )


def test_growth_keeps_parents_before_children() -> None:
    growth = Growth(3, 2)
    growth.extend([ROOT], torch.tensor([[0.6, 0.3, 0.1]]).log())
    assert (growth.ids, growth.open(), growth.best_path()) == ([0, 1], [0, 1], [0])
    growth.extend([0, 1], torch.tensor([[0.9, 0.05, 0.05], [0.5, 0.25, 0.25]]).log())
    assert growth.open() == [2] and growth.best_path() == [0, 0]  # 0.54, but not 0.15
    ids, parents, totals = growth.best()
    assert (ids, parents) == ([0, 1, 0], [ROOT, ROOT, 0])
    assert [math.exp(total) for total in totals] == pytest.approx([0.6, 0.3, 0.54])
    sure = Growth(4, 2)
    sure.extend([ROOT], torch.tensor([[1.0, 0.0, 0.0]]).log())
    assert sure.ids == [0]  # an impossible token is no node


def test_it_needs_a_feature_for_each_token_and_room_behind_them(model: Any, drafter: EagleDrafter) -> None:
    session = EagleSession(drafter)
    with pytest.raises(DraftContractError, match="features of 2 tokens and got 0"):
        session.observe([3, 4], None)
    assert session.room == 0  # a prompt of one token: nothing was read
    assert begun(drafter, model, [3] * 62).room == 4  # of 64: 61 entries, three behind them


def test_files_have_the_released_names(tmp_path: Path, head: EagleHead) -> None:
    """No first norm, no embedding, no head; releases add a bias and the target's table."""
    tensors = load_file(save_eagle(head, tmp_path) / "model.safetensors")
    parts = {name.removeprefix("layers.0.").removesuffix(".weight") for name in tensors}
    layer = {*(f"self_attn.{one}_proj" for one in "qkvo"), *(f"mlp.{one}_proj" for one in ("gate", "up", "down"))}
    assert parts == {"fc", "post_attention_layernorm", *layer}
    again = load_eagle(tmp_path)
    for name, tensor in head.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.bfloat16().float()), name
    more = {"embed_tokens.weight": torch.zeros(40, 32), "fc.bias": torch.ones(32)}
    save_file({**tensors, **more}, tmp_path / "model.safetensors")
    assert torch.equal(load_eagle(tmp_path).fc.bias, torch.ones(32))
