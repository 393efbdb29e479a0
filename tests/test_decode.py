"""The loop: invariants, edges, and the same text as vanilla where a rule promises it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import torch
from fakes import END, MASK, FakeClock, FakeTarget, ScriptedDrafter, decoded, good_drafter

from specdiff_core.decoding import clock
from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.schema.errors import DraftContractError, SpecDiffError
from specdiff_core.schema.events import (
    Committed,
    DenoiseStep,
    DraftReady,
    Event,
    Finished,
    RoundStarted,
    TargetScored,
    Verified,
)
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Rule, Settings
from specdiff_core.schema.trace import dump_trace

PROMPT = [3, 4, 5]


def test_events_tell_one_consistent_story() -> None:
    settings: Settings = {"temperature": 1.0, "order": RevealOrder.ENTROPY, "rule": Rule.RATIO}
    config = DecodeConfig(gamma=4, steps=2, max_new_tokens=40, **settings)
    events = decoded(config)
    done = events[-1]
    assert isinstance(done, Finished) and done.reason == "length" and len(done.ids) == 40
    assert sum(done.seconds_by.values()) == pytest.approx(done.seconds) and done.seconds_by["other"] >= 0
    committed = [token for e in events if isinstance(e, Committed) for token in e.ids]
    assert tuple(committed) == done.ids
    length = len(PROMPT)
    for kind in (DraftReady, TargetScored, Verified, Committed):
        assert sum(isinstance(e, kind) for e in events) == done.rounds
    for event in events:
        if isinstance(event, RoundStarted):
            assert event.length == length
        if isinstance(event, Committed):
            length += len(event.ids)
        if isinstance(event, DenoiseStep):
            assert MASK not in event.ids
        if isinstance(event, DraftReady):
            assert (all(0 < q <= 1 for q in event.q) and event.nfe == min(2, len(event.ids) or 2)) or not event.ids
        if isinstance(event, Verified):
            assert [t.accepted for t in event.tests] == [True] * event.accepted + [False] * (
                len(event.tests) - event.accepted
            )
            for test in event.tests:
                assert test.draw is not None and test.accepted == (test.draw < test.threshold)
                expected = min(1.0, test.p / test.q) if test.kind == "ratio" else test.p
                assert test.threshold == pytest.approx(expected, rel=1e-5)


def test_end_of_text_inside_an_accepted_run_cuts_the_rest() -> None:
    def distribution(ids: tuple[int, ...]) -> torch.Tensor:
        wanted = END if len(ids) == len(PROMPT) + 3 else 5
        return 50.0 * torch.nn.functional.one_hot(torch.tensor(wanted), 12).double()

    def script(known: tuple[int, ...], window: torch.Tensor) -> torch.Tensor:
        return torch.stack([distribution((*known, *range(i))) for i in range(len(window))])

    events = decoded(
        DecodeConfig(gamma=8, max_new_tokens=50),
        target=FakeTarget(distribution),
        drafter=ScriptedDrafter(script, mask_id=MASK),
        ending=Ending([END]),
    )
    assert events[-1].reason == "end_of_text"
    assert events[-1].ids == (5, 5, 5, END)
    sums = fold(events)
    assert (sums.rounds, sums.drafted, sums.tested, sums.accepted, sums.committed) == (1, 4, 4, 4, 4)
    assert [event.sources for event in events if isinstance(event, Committed)] == [("draft",) * 4]


def test_a_stop_string_behind_the_end_of_the_text_does_not_count() -> None:
    ending = Ending([END], lambda text, fresh: list(fresh).index(7) + 1 if 7 in fresh else None)
    assert ending.of([], (5, END, 7)) == (2, "end_of_text") and ending.of([], (5, 7, END)) == (2, "stop_string")


@pytest.mark.parametrize("gamma", [1, 6])
def test_a_full_context_is_a_clear_stop(gamma: int) -> None:
    target = FakeTarget(context=20)
    done = decoded(DecodeConfig(gamma=gamma, max_new_tokens=400), target=target)[-1]
    assert done.reason == "context_full"
    assert len(PROMPT) + len(done.ids) == 21  # the last token needs no place in the cache


def test_value_confidence_falls_back_and_says_so() -> None:
    config = DecodeConfig(gamma=4, steps=2, order=RevealOrder.VALUE_CONFIDENCE, temperature=1.0, max_new_tokens=20)
    stories = [e for e in decoded(config) if isinstance(e, Verified) and e.tests]
    assert all(e.fallback and e.lossless for e in stories[:-1])
    assert {t.kind for e in stories[:-1] for t in e.tests} == {"delta"}


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_that_uses_q_says_that_it_is_missing(rule: Rule) -> None:
    class Copying(VanillaDrafter):
        def draft_at_once(self, context: Context) -> Draft:
            return Draft.point_mass([3], nfe=0)

    config = DecodeConfig(gamma=1, rule=rule, temperature=1.0, max_new_tokens=6)
    rounds = [event for event in decoded(config, drafter=Copying()) if isinstance(event, Verified) and event.tests]
    assert {bool(event.fallback) for event in rounds} == {rule.uses_q}


@pytest.mark.parametrize("rule", Rule)
def test_several_drafts_say_where_they_are_not_tested_by_the_rule(rule: Rule) -> None:
    config = DecodeConfig(gamma=4, num_drafts=3, selection="multi_round", rule=rule, temperature=1.0, max_new_tokens=40)
    rounds = [event for event in decoded(config) if isinstance(event, Verified) and event.scores]
    assert {test.kind for event in rounds for test in event.tests} == {"tree" if rule is Rule.MATCH else "ratio"}
    assert {bool(event.fallback) for event in rounds} == {rule in (Rule.BLOCK, Rule.DELTA)}


@pytest.mark.parametrize(
    ("values", "lossless"),
    [
        ({"tree_nodes": 12}, True),
        ({"num_drafts": 3, "selection": "multi_round"}, True),
        ({"order": RevealOrder.VALUE_CONFIDENCE}, True),
        ({"steps": 4}, True),
        ({"steps": 4, "order": RevealOrder.RANDOM}, False),
    ],
)
def test_naive_is_marked_where_it_may_be_biased(values: dict[str, Any], lossless: bool) -> None:
    config = DecodeConfig(**{"gamma": 4, "steps": 1, "rule": Rule.NAIVE, "temperature": 1.0, **values})
    rounds = [event for event in decoded(config, target=FakeTarget(context=40)) if isinstance(event, Verified)]
    assert all(event.lossless for event in rounds) == config.lossless == lossless


def test_stop_ends_the_run_before_the_next_pass() -> None:
    events: list[Event] = []

    def stopped() -> bool:
        return any(isinstance(event, Committed) and event.total > 10 for event in events)

    config = DecodeConfig(gamma=4, max_new_tokens=100)
    for event in speculate(PROMPT, config, FakeTarget(), good_drafter(), FakeClock(), ending=Ending(stopped=stopped)):
        events.append(event)
    assert events[-1].reason == "stopped" and 10 < len(events[-1].ids) <= 16
    assert fold(events).rounds == events[-1].rounds


def test_a_run_stopped_before_it_began_reads_nothing() -> None:
    prefilled, finished = decoded(DecodeConfig(gamma=4), ending=Ending(stopped=lambda: True))
    assert (prefilled.tokens, finished.reason, finished.ids, finished.rounds) == (0, "stopped", (), 0)


def test_passes_of_a_draft_that_was_stopped_are_counted() -> None:
    asked = 0

    def after_two_steps() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3  # the first time before the prompt is read

    events = decoded(DecodeConfig(gamma=4, steps=4, max_new_tokens=100), ending=Ending(stopped=after_two_steps))
    draft = next(event for event in events if isinstance(event, DraftReady))
    steps = [event for event in events if isinstance(event, DenoiseStep)]
    assert draft.ids == () and draft.nfe == len(steps) == 2
    assert events[-1].reason == "stopped"


def test_narration_changes_nothing_but_detail() -> None:
    config = DecodeConfig(gamma=4, steps=2, temperature=1.0, max_new_tokens=30)
    full, lean = decoded(config), decoded(config, detail=False)
    assert lean[-1].ids == full[-1].ids
    for name in ("rounds", "drafted", "tested", "accepted", "nfe", "target_calls", "accepted_at"):
        assert getattr(fold(lean), name) == getattr(fold(full), name)
    assert not any(isinstance(e, DenoiseStep) for e in lean)


def test_a_slow_listener_does_not_slow_the_clock() -> None:
    ticks = iter(range(10**6))
    ticking = clock.DeviceClock(torch.device("cpu"), tick=lambda: float(next(ticks)))
    events = speculate(PROMPT, DecodeConfig(max_new_tokens=4), FakeTarget(), VanillaDrafter(), ticking)
    for event in events:
        for _ in range(1000):
            next(ticks)  # a browser that takes its time
        done = event
    assert done.seconds < 200


def test_only_what_happens_during_its_own_events_counts_as_use(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = [5.0]
    monkeypatch.setattr(clock, "_waited", lambda: waited[0])

    def events(seconds: float) -> Iterator[Event]:
        for number in range(3):
            waited[0] += seconds  # a thread of this run
            yield RoundStarted(round=number, length=1, anchor=1)
        waited[0] += seconds  # after its last event

    one, other = (clock.Usage(torch.device("cpu")) for _ in "ab")
    for _ in zip(one.during(events(0.25)), other.during(events(2.0)), strict=True):
        waited[0] += 100  # somebody else's
    assert (one.waited_seconds, other.waited_seconds) == (1.0, 8.0) and one.peak_bytes is None
    monkeypatch.setattr(clock, "_waited", lambda: None)
    unknown = clock.Usage(torch.device("cpu"))
    assert len([*unknown.during(events(1.0))]) == 3 and unknown.waited_seconds is None


def test_a_suspended_pass_counts_as_waiting() -> None:
    """Its process was stopped and went on, as after Ctrl-Z and fg: the run's times mean nothing."""

    def events() -> Iterator[Event]:
        time.sleep(clock.SUSPENDED + 0.05)
        yield RoundStarted(round=0, length=1, anchor=1)

    use = clock.Usage(torch.device("cpu"))
    assert len([*use.during(events())]) == 1
    assert use.waited_seconds is None or use.waited_seconds > clock.SUSPENDED


@pytest.mark.parametrize("detail", [True, False])
def test_a_broken_drafter_and_broken_weights_are_named(detail: bool) -> None:
    class Wrong(VanillaDrafter):
        def draft_at_once(self, context: Context) -> Draft:
            return Draft.point_mass([100], nfe=0)

    class Wide(VanillaDrafter):
        def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
            ids = torch.zeros(context.gamma + 1, dtype=torch.long)
            yield DenoiseState.single(ids, 0, lambda: torch.ones(1, 12))
            return Draft.empty()

    for broken in (Wrong(), Wide()):
        with pytest.raises(DraftContractError) as caught:
            decoded(DecodeConfig(), drafter=broken, detail=detail)
        assert caught.value.hint
    with pytest.raises(SpecDiffError, match="not numbers"):
        decoded(DecodeConfig(), target=FakeTarget(lambda ids: torch.full((12,), torch.nan)))


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    def trace(seed: int) -> bytes:
        config = DecodeConfig(gamma=4, steps=3, order=RevealOrder.RANDOM, temperature=1.0, max_new_tokens=12, seed=seed)
        return dump_trace({"drafted": decoded(config)})

    assert trace(5) == trace(5) != trace(6)
