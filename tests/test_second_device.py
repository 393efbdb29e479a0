"""Every method decodes with all weights on a second device: nothing is mixed, every event is the
CPU's, number for number, and how often the host waits or sends in a round is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from operator import setitem
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from branches import spread
from fakes import FakeClock, small_model
from second_device import DEVICE, Crossing, Far, SecondDevice
from torch import Tensor

from specdiff_core.decoding import loop
from specdiff_core.decoding.controller import Auto, Fixed
from specdiff_core.engine import Engine
from specdiff_core.loading import load_pair
from specdiff_core.maths.distributions import to_probs
from specdiff_core.models import cache, kernels
from specdiff_core.models.cache import KeyValues
from specdiff_core.models.device import Placement, choose_placement
from specdiff_core.models.target import Target
from specdiff_core.schema.events import Committed, Event, Prefilled, Verified
from specdiff_core.schema.pairs import EMBEDDED
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Selection

TEXT = "Tim had a red ball. Tim had a red ball. Tim"
TREE = {"tree_nodes": 10}


class Method(NamedTuple):
    """A drafter and its settings."""

    waits: int  # in a round, at most
    copies: int
    drafter: str
    settings: Mapping[str, Any] = MappingProxyType({})

    @property
    def walks(self) -> bool:
        """Whether each test needs the outcome of the one before: a wait and a copy for each."""
        return "tree_nodes" in self.settings or self.settings.get("num_drafts", 1) > 1


METHODS = {
    "vanilla": Method(3, 3, "none"),
    "prompt_lookup": Method(5, 7, "prompt_lookup"),
    "autoregressive": Method(18, 19, "autoregressive"),
    "autoregressive-auto": Method(22, 19, "autoregressive", {"auto": True}),
    "eagle": Method(18, 20, "eagle"),
    "eagle-tree": Method(12, 23, "eagle", TREE),
    "block": Method(9, 11, "block"),
    "block-auto": Method(10, 11, "block", {"auto": True}),
    "block-tree": Method(6, 11, "block", TREE),
    "block_markov": Method(8, 13, "block_markov"),
    "block_markov-steps": Method(12, 24, "block_markov", {"steps": 2}),
    "block_markov-tree": Method(6, 11, "block_markov", {**TREE, "auto": True}),
    "block_markov-drafts": Method(10, 23, "block_markov", {"num_drafts": 3, "selection": Selection.MULTI_ROUND}),
    "masked": Method(9, 11, "masked", {"top_k": 50, "top_p": 0.9}),
    **{
        f"masked-{order.value}": Method(waits, copies, "masked", {"steps": 2, "order": order})
        for order, waits, copies in zip(RevealOrder, (12, 12, 13, 13, 13, 14), (18, 20, 21, 21, 21, 24), strict=True)
    },
    **{
        f"masked-{way.value}": Method(waits, copies, "masked_streak", {"num_drafts": 3, "selection": way})
        for way, waits, copies in zip(Selection, (11, 13, 13), (18, 19, 18), strict=True)
    },
}


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Engine, Engine]]:
    """The shipped pair on the CPU and on the second device, with the same products."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "kernel", lambda device, dtype: kernels.PLAIN)
        patch.setattr(torch.cuda, "mem_get_info", lambda device: (2**40, 2**40))
        patch.setattr(cache, "split_rows", lambda held, new: [(0, new, held + new)])  # as on a GPU
        near = load_pair(EMBEDDED, choose_placement("cpu", "fp32"))
        with SecondDevice():
            far = load_pair(EMBEDDED, Placement(DEVICE, torch.float32, "a stand-in"))
        yield Engine(near), Engine(far)


def decoded(engine: Engine, method: Method, **settings: Any) -> Iterator[Event]:
    """Events of a short run. Its clock waits for no device."""
    spec = EMBEDDED.drafter(method.drafter)
    config = DecodeConfig(drafter=spec.name, gamma=4, max_new_tokens=6, **method.settings, **settings)
    config = spec.clamp(config)
    controller = Auto(config, spec.passes) if config.auto else Fixed(config)
    prompt = engine.encode(TEXT)[:10]
    return loop.speculate(prompt, config, engine.target, engine.drafter(spec.name), FakeClock(), controller=controller)


def on_device(engine: Engine, method: Method, **settings: Any) -> tuple[list[Event], list[tuple[list[Crossing], int]]]:
    """The events; and of each round what crossed while the clock ran, and its tests."""
    events, rounds, tests = [], [], 0
    with SecondDevice() as device:
        for event in decoded(engine, method, **settings):
            events.append(event)
            tests = len(event.tests) if isinstance(event, Verified) else tests
            if isinstance(event, (Prefilled, Committed)):
                crossings = [c for c in device.crossings if not any("reporting.py" in line for line in c.lines)]
                rounds.append((crossings, tests))
                device.crossings.clear()
    return events, rounds[1:]


def most(kind: str, rounds: list[tuple[list[Crossing], int]], for_each_test: int) -> int:
    """Crossings of one kind in one round, besides so many for each test."""
    return max(sum(one.kind == kind for one in crossings) - for_each_test * tests for crossings, tests in rounds)


@pytest.mark.parametrize(("method", "rule"), spread(list(METHODS), list(Rule)))
def test_a_run_on_the_device_is_the_run_on_the_cpu(engines: tuple[Engine, Engine], method: str, rule: Rule) -> None:
    """Each method and each rule meet both temperatures."""
    turn = list(METHODS).index(method) + list(Rule).index(rule)
    temperature = float((turn + turn // 6) % 2)
    settings = {"rule": rule, "temperature": temperature, "seed": 1}
    expected = list(decoded(engines[0], METHODS[method], **settings))
    events, rounds = on_device(engines[1], METHODS[method], **settings)
    assert events == expected
    one = METHODS[method]
    assert 0 < most("wait", rounds, 2 * one.walks) <= one.waits
    assert 0 < most("copy", rounds, 1 * one.walks) <= one.copies


def test_the_self_test_runs_on_the_device(engines: tuple[Engine, Engine]) -> None:
    near, far = engines
    with SecondDevice():
        assert far.target.exactness() == near.target.exactness()


def test_a_target_of_transformers_reads_and_forgets_on_the_device() -> None:
    """A window, a tree, and what stays of them."""
    model = small_model()

    def scored() -> list[Tensor]:
        session = Target(model, context=64).start((0,))
        session.read([3, 4])
        scores = [session.score([5, 6, 7])]
        session.rollback(3, [0])
        scores.append(session.score([8, 9, 10, 11], (-1, -1, 1)))
        session.rollback(4, [0, 2, 3])
        scores.append(session.score([12]))
        return [part for score in scores for part in (score.logits, score.features) if part is not None]

    expected = scored()
    with SecondDevice():
        model.to(DEVICE)
        found = scored()
        assert len(found) == 6 and all(isinstance(part, Far) for part in found)
        assert all(torch.equal(part.cpu(), other) for part, other in zip(found, expected, strict=True))


def test_a_cache_left_on_the_host_is_caught(engines: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyValues, "device", torch.device("cpu"))  # so masks are made there
    with pytest.raises(RuntimeError, match="on the same device"):
        on_device(engines[1], METHODS["vanilla"])


def test_one_more_look_at_a_number_is_counted(engines: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    def looking(logits: Tensor, *more: Any) -> Tensor:
        logits.amax().item()
        return to_probs(logits, *more)

    _, before = on_device(engines[1], METHODS["block"])
    monkeypatch.setattr(loop, "to_probs", looking)
    _, after = on_device(engines[1], METHODS["block"])
    assert most("wait", after, 0) == most("wait", before, 0) + 1


NEAR, TWO = torch.arange(6.0), torch.tensor([0, 2])
ACTS: dict[str, tuple[list[str], Callable[[Tensor], Any]]] = {
    "arithmetic": ([], lambda far: (2 * far + torch.tensor(1.0)).softmax(-1)),
    "made there": ([], lambda far: far + torch.zeros(6, device=far.device) + far.new_ones(6)),
    "indexed": ([], lambda far: far[far.argsort()]),
    "empty": ([], lambda far: (far[:0].tolist(), torch.tensor([], device=DEVICE), NEAR[:0].to(DEVICE))),
    "item": (["wait"], lambda far: far[1].item()),
    "bool": (["wait"], lambda far: bool((far > 1).any())),
    "tolist": (["wait"], lambda far: far.tolist()),
    "back": (["wait"], lambda far: far.to("cpu", torch.float64)),
    "copied back": (["wait"], lambda far: torch.zeros(6).copy_(far)),
    "nonzero": (["wait"], lambda far: far.nonzero()),
    "masked": (["wait"], lambda far: far[far > 1]),
    "tensor": (["copy"], lambda far: torch.tensor([1.0], device=DEVICE)),
    "there": (["copy"], lambda far: NEAR.to(DEVICE)),
    "copied there": (["copy"], lambda far: far.copy_(NEAR)),
    "near index": (["copy"], lambda far: far[TWO]),
    "set in a list": (["copy", "copy"], lambda far: setitem(far, [0, 2], 0.0)),
    "mixed sum": (["refused"], lambda far: far + NEAR),
    "mixed list": (["refused"], lambda far: torch.cat([far, NEAR])),
    "gathered nearby": (["refused"], lambda far: far.gather(0, TWO)),
    "near values": (["refused"], lambda far: setitem(far, TWO, NEAR[:2])),
    "numpy": (["refused"], lambda far: far.numpy()),
}


@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("act", ACTS)
def test_the_device_has_a_gpus_rules(act: str, mode: Callable[[], Any]) -> None:
    crossings, do = ACTS[act]
    with SecondDevice() as device, mode():
        far = torch.arange(6.0, device=DEVICE)
        if crossings == ["refused"]:
            with pytest.raises((RuntimeError, TypeError), match=r"same device|to numpy"):
                do(far)
        else:
            do(far)
            assert [crossing.kind for crossing in device.crossings] == crossings
