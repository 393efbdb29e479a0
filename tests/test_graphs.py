"""Recorded passes, without a GPU: what a CUDA graph would bake in must be the same at every replay.

A graph replays the kernels of its recording on the addresses, the shapes and the numbers of its recording. So a pass
may be recorded only if it does exactly the same whatever its inputs hold: that is checked here, operation by operation.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.models.cache import FixedReading, KeyValues
from specdiff_core.models.device import Placement
from specdiff_core.models.graphs import WIDTHS, Graphs, Passes, Recording, Work
from specdiff_core.models.network import Shape, attend
from specdiff_core.schema.events import Committed, DraftReady
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
    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Recording:
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


METHODS: dict[str, dict[str, Any]] = {
    "vanilla": {"drafter": "none"},
    "prompt lookup": {"drafter": "prompt_lookup", "gamma": 4},
    "autoregressive": {"drafter": "autoregressive", "gamma": 3},
    "EAGLE": {"drafter": "eagle", "gamma": 4},
    "EAGLE, tree": {"drafter": "eagle", "gamma": 4, "tree_nodes": 8},
    "block": {"drafter": "block", "gamma": 6, "steps": 1},
    "block, three steps": {"drafter": "block", "gamma": 6, "steps": 3},
    "Markov, tree": {"drafter": "block_markov", "gamma": 6, "steps": 1, "tree_nodes": 8},
    "masked diffusion": {"drafter": "mdlm_streak", "gamma": 4, "steps": 2},
    "K drafts": {"drafter": "mdlm_streak", "gamma": 4, "steps": 1, "num_drafts": 3, "draft_temperature": 1.0},
}


@pytest.fixture(scope="module")
def replaying(engine: Engine) -> Engine:
    """An engine of the same weights whose passes are recorded."""
    return Engine(load_pair(EMBEDDED, dataclasses.replace(engine.pair.placement, graphs=Rerun())))


QUICK = {"vanilla", "EAGLE, tree", "block, three steps", "K drafts"}


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in METHODS]
)
def test_every_method_runs_on_recorded_passes(
    engine: Engine, replaying: Engine, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the drafts and the text of passes that are not recorded. After a run of its kind nothing is recorded any
    more, and only a last window, which is cut, runs as it is."""
    graphs: Any = replaying.pair.placement.graphs
    config = DecodeConfig(max_new_tokens=16, ignore_eos=True, **METHODS[method])
    drafts, texts = [], []
    for one in (engine, replaying):
        events = list(one.decode(PROMPT, config, detail=False))
        drafts.append([event.ids for event in events if isinstance(event, DraftReady)])
        texts.append(final(events))
    assert drafts[0] == drafts[1] and texts[0] and texts[1] and texts[0].ids == texts[1].ids
    unrecorded: list[Any] = []
    asked = Passes.__call__

    def watched(self: Passes, kind: Any, work: Work, *inputs: Tensor) -> tuple[Tensor, ...]:
        found = asked(self, kind, work, *inputs)
        if kind not in self._known:
            unrecorded.append(kind)
        return found

    monkeypatch.setattr(Passes, "__call__", watched)
    before, again = graphs.recorded, graphs.replayed
    events, total, whole = [], 0, 0
    for event in replaying.decode(PROMPT, config, detail=False):
        events.append(event)
        if isinstance(event, Committed):
            if config.max_new_tokens - total - 1 >= config.gamma:  # the window of this round was not cut
                whole = len(unrecorded)
            total = event.total
    last = final(events)
    assert graphs.recorded == before and not graphs.failed
    spent = (
        sum(event.nfe for event in events if isinstance(event, DraftReady)) if config.drafter != "prompt_lookup" else 0
    )
    assert last is not None and graphs.replayed - again >= last.rounds + spent - len(unrecorded)
    assert whole == 0 and len(unrecorded) <= config.steps
    assert not any(isinstance(kind, tuple) and len(kind) == 4 for kind in unrecorded)


def test_a_tree_a_window_and_a_stop_do_not_lose_what_was_recorded(replaying: Engine) -> None:
    """Buffers with recordings are handed out first."""
    graphs: Any = replaying.pair.placement.graphs
    base = DecodeConfig(max_new_tokens=12, ignore_eos=True, drafter="block", gamma=5, steps=1)
    kinds = [dataclasses.replace(base, tree_nodes=6), base]
    for config in kinds:
        final(replaying.decode(PROMPT, config, detail=False))
    stop = threading.Event()
    stop.set()
    final(replaying.decode(PROMPT, base, detail=False, stop=stop))
    first, second = replaying.target.start(), replaying.target.start()
    del first, second
    before = graphs.recorded
    for config in kinds:
        final(replaying.decode(PROMPT, config, detail=False))
    assert graphs.recorded == before


@pytest.mark.parametrize("held", [pytest.param(0, marks=pytest.mark.slow), 3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_pass_that_is_filled_up_is_the_pass(engine: Engine, replaying: Engine, held: int) -> None:
    """Of every width up to 21, of trees whose first nodes are in the cache already, and of the last tokens only."""
    plain, recorded = engine.target.start((3,)), replaying.target.start((3,))
    graphs: Any = replaying.pair.placement.graphs
    for session in (plain, recorded):
        session.read(list(range(5, 5 + held)))
    with graphs.recording():
        for rows in range(1, 22):
            for last in (None, 1):
                ids = list(range(100, 100 + rows))
                theirs, ours = (session.score(ids, last=last) for session in (plain, recorded))  # which makes constants
                assert ours.logits.shape == theirs.logits.shape and ours.features is not None
                assert torch.allclose(ours.logits, theirs.logits, atol=1e-4)
                assert torch.allclose(ours.features, theirs.features, atol=1e-4)
                for session in (plain, recorded):
                    session.rollback(rows, ())
        tree = [-1, -1, 0, 1, 2]
        for session in (plain, recorded):
            session.score([7, 8, 9], tree[:2])
        ours, theirs = (session.score([10, 11, 12], tree) for session in (recorded, plain))
        assert torch.allclose(ours.logits, theirs.logits, atol=1e-4)
    assert graphs.recorded <= 3 * len(WIDTHS) + 60


@pytest.mark.parametrize("reach", [None, (3, 3), (3, 0)])
def test_a_layer_that_sees_a_window_sees_it_in_a_recorded_pass(reach: tuple[int, int] | None) -> None:
    """Against plain attention over the positions that are near enough."""
    shape = Shape(width=8, inner=8, layers=1, heads=2, kv_heads=1, head_dim=4)
    cache = KeyValues(shape, 32, dtype=torch.float32, device=torch.device("cpu"), graphs=Rerun())
    q, k, v = (torch.randn(1, heads, 9, 4) for heads in (2, 1, 1))
    everything = torch.ones(6, 6, dtype=torch.bool)
    for slot, part in zip(cache.views(0, 3), (k, v), strict=True):
        slot.copy_(part[:, :, :3])
    reading = FixedReading(cache, torch.tensor(3), everything, [reach])
    found = reading(0, q[:, :, 3:], k[:, :, 3:], v[:, :, 3:])
    places = torch.arange(9)
    (back, ahead), away = reach or (99, 99), places - places[3:, None]
    mask = (-back <= away) & (away <= ahead)
    expected = attend(q[:, :, 3:], k, v, mask)
    assert torch.allclose(found, expected, atol=1e-6)


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
        assert [passes(kind, lambda x: (x + 1,), torch.ones(1))[0].item() for kind in "aaa"] == [2, 2, 2]
    assert graphs.recorded == 1 and "but for some (RuntimeError: CUDA error: operation not permitted" in str(graphs)


def test_only_a_thread_that_says_so_records() -> None:
    graphs = Rerun()
    with graphs.recording():
        thread = threading.Thread(target=lambda: Passes(graphs)("kind", lambda x: (x,), torch.ones(1)))
        thread.start()
        thread.join()
    assert graphs.recorded == 0
