"""The cache with room holds what transformers' own holds, through appends and roll-backs, and copies less."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig, MistralConfig
from transformers.cache_utils import DYNAMIC_LAYER_TYPE_MAPPING, DynamicCache, DynamicLayer

from specdiff_core.models.cache import ROOM, Rooms, RoomyLayer, new_cache

LLAMA = LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2)


def states(tokens: int) -> Tensor:
    return torch.randn(1, 2, tokens, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, ROOM + 40), st.floats(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_appends_and_roll_backs_leave_the_same_keys_and_values(rounds: list[tuple[int, float]]) -> None:
    ours, theirs = new_cache(LLAMA), DynamicCache(config=LLAMA)
    for appended, share in rounds:
        keys, values = states(appended), states(appended)
        for layer in range(2):
            got = ours.update(keys + layer, values - layer, layer)
            expected = theirs.update(keys + layer, values - layer, layer)
            assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
        if surplus := int(share * appended):
            ours.crop(-surplus)
            theirs.crop(-surplus)
        assert ours.get_seq_length() == theirs.get_seq_length()


def test_an_append_within_the_room_copies_nothing_that_is_held() -> None:
    cache = new_cache(LLAMA)
    first, _ = cache.update(states(100), states(100), 0)
    second, _ = cache.update(states(ROOM - 100), states(ROOM - 100), 0)
    assert second.data_ptr() == first.data_ptr()
    third, _ = cache.update(states(1), states(1), 0)
    assert third.data_ptr() != first.data_ptr()
    assert torch.equal(third[:, :, :ROOM], second)


def test_buffers_stay_on_the_device_and_in_the_precision_of_their_layer() -> None:
    """accelerate may spread the layers of a large target over devices."""
    rooms = Rooms(4)
    for empty in (states(0), states(0).to("meta"), states(0).bfloat16(), states(0)):
        longer = rooms.with_room(empty, 0, 5)
        assert (longer.device, longer.dtype, longer.shape) == (empty.device, empty.dtype, (1, 2, ROOM, 4))


def test_only_layers_of_plain_attention_get_room_and_transformers_keeps_its_own() -> None:
    sliding = MistralConfig(num_hidden_layers=2, sliding_window=8)
    assert {type(layer) for layer in new_cache(LLAMA).layers} == {RoomyLayer}
    assert [type(layer) for layer in new_cache(sliding).layers] == [
        type(layer) for layer in DynamicCache(config=sliding).layers
    ]
    assert DYNAMIC_LAYER_TYPE_MAPPING["full_attention"] is DynamicLayer
