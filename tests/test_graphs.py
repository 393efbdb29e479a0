"""Recorded passes, without a GPU: what a CUDA graph would bake in must be the same at every replay.

A graph replays the kernels of its recording on the addresses, the shapes and the numbers of its recording. So a pass
may be recorded only if it does exactly the same whatever its inputs hold: that is checked here, operation by operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.device import Placement
from specdiff_core.models.graphs import Graphs, Passes, Work
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

ASKS_THE_HOST = {"_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "equal"}
PROMPT = "Once upon a time there was a little"


class Baked(TorchDispatchMode):
    """Writes down what a graph would bake in: operators, numbers, shapes, addresses of what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[Any, ...]] = []
        self._made: dict[int, int] = {}  # address of a memory -> the line that made it
        self._alive: list[Tensor] = []  # so that no address comes twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, _ = tree_flatten((args, kwargs or {}))
        name, masks = func.overloadpacket.__name__, [one for one in given[1:] if isinstance(one, Tensor)]
        by_mask = name in {"index", "index_put_"} and any(one.dtype == torch.bool for one in masks)
        assert name not in ASKS_THE_HOST and not by_mask, f"{func} makes the host wait"
        self.lines.append((str(func), *map(self._seen, given)))
        out = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(out)[0]:
            if isinstance(tensor, Tensor) and not tensor.is_mkldnn:
                self._alive.append(tensor)
                known = {self._memory(one) for one in given if isinstance(one, Tensor) and not one.is_mkldnn}
                if self._memory(tensor) not in known:
                    self._made.setdefault(self._memory(tensor), len(self.lines))
        return out

    def _seen(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return repr(value)
        if value.is_mkldnn:  # a packed matrix
            return "packed", id(value)
        memory = self._memory(value)
        origin = ("made", self._made[memory]) if memory in self._made else ("there", memory)
        return *origin, value.storage_offset(), tuple(value.shape), value.stride(), value.dtype

    @staticmethod
    def _memory(tensor: Tensor) -> int:
        return tensor.untyped_storage().data_ptr()


class Rerun(Graphs):
    """Replays by running the pass again, on the same inputs' memory, and compares."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.recorded = self.replayed = 0

    @torch.inference_mode()
    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], object], tuple[Tensor, ...]]:
        self.recorded += 1
        with Baked() as first:
            outputs = tuple(out.clone() for out in work(*inputs))

        @torch.inference_mode()
        def replay() -> None:
            self.replayed += 1
            with Baked() as again:
                fresh = tuple(out.clone() for out in work(*inputs))
            for before, now in zip(first.lines, again.lines, strict=True):
                assert before == now, "a replay would not do this"
            for old, new in zip(outputs, fresh, strict=True):
                old.copy_(new)

        return replay, outputs


@pytest.fixture(scope="module")
def engine() -> Engine:
    placement = Placement(torch.device("cpu"), torch.float32, "a test")
    return Engine(load_pair(EMBEDDED, placement))


def test_every_method_runs_on_recorded_passes(engine: Engine) -> None:
    """With the text of the passes that are not recorded, and with what a graph can replay."""
    graphs = Rerun()
    replaying = Engine(load_pair(EMBEDDED, dataclasses.replace(engine.pair.placement, graphs=graphs)))
    base = DecodeConfig(max_new_tokens=24, ignore_eos=True)
    kinds: list[dict[str, Any]] = [
        {"drafter": "none"},
        {"drafter": "prompt_lookup", "gamma": 4},
        {"drafter": "autoregressive", "gamma": 3},
        {"drafter": "eagle", "gamma": 4},
        {"drafter": "eagle", "gamma": 4, "tree_nodes": 8},
        {"drafter": "block", "gamma": 6, "steps": 1},
        {"drafter": "block", "gamma": 6, "steps": 3},
        {"drafter": "block_markov", "gamma": 6, "steps": 1, "tree_nodes": 8},
        {"drafter": "mdlm_streak", "gamma": 4, "steps": 2},
        {"drafter": "mdlm_streak", "gamma": 4, "steps": 1, "num_drafts": 3, "draft_temperature": 1.0},
    ]
    for kind in kinds:
        config = dataclasses.replace(base, **kind)
        before = graphs.replayed
        ours, plain = (final(one.decode(PROMPT, config, detail=False)) for one in (replaying, engine))
        assert ours is not None and plain is not None and ours.ids == plain.ids, kind
        assert graphs.replayed - before >= ours.rounds, kind
    assert graphs.recorded and not graphs.failed


def test_what_cannot_be_replayed_is_seen() -> None:
    """A pass that asks the host, one whose numbers change, and one that reads elsewhere."""
    graphs = Rerun()
    elsewhere = iter([torch.zeros(3), torch.ones(3)])
    numbers = iter([1.0, 2.0])
    passes = Passes(graphs)
    with graphs.recording():
        for work in (lambda x: (x * float(x.sum()),), lambda x: (x[x > 0],)):
            with pytest.raises(AssertionError, match="makes the host wait"):
                passes(work, work, torch.ones(3))
        with pytest.raises(AssertionError, match="would not do this"):
            passes("numbers", lambda x: (x + next(numbers),), torch.ones(3))
        with pytest.raises(AssertionError, match="would not do this"):
            passes("elsewhere", lambda x: (x + next(elsewhere),), torch.ones(3))


def test_inputs_are_copied_in_and_outputs_out() -> None:
    """Each replay sees its own inputs; an output that somebody keeps does not change under them."""
    graphs = Rerun()
    passes = Passes(graphs)
    assert passes("double", lambda x: (2 * x,), torch.ones(2))[0].tolist() == [2, 2] and graphs.recorded == 0
    with graphs.recording():
        kept, *_ = passes("double", lambda x: (2 * x,), torch.ones(2))
    later, *_ = passes("double", lambda x: (2 * x,), torch.full((2,), 5.0))
    assert (kept.tolist(), later.tolist()) == ([2, 2], [10, 10])
    assert (graphs.recorded, graphs.replayed) == (1, 2)


def test_a_recording_that_fails_leaves_the_pass_as_it_is() -> None:
    """With its reason, and without a second try."""

    class Broken(Rerun):
        def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Any:
            self.recorded += 1
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    graphs = Broken()
    passes = Passes(graphs)
    with graphs.recording():
        assert [passes(kind, lambda x: (x + 1,), torch.ones(1))[0].item() for kind in "abb"] == [2, 2, 2]
    assert graphs.recorded == 1 and not graphs.open
    assert str(graphs) == "no CUDA graphs (RuntimeError: CUDA error: operation not permitted when stream is capturing)"
