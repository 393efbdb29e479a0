"""What a visitor of a public host may use, when one can go on, and what an exploration may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from app_fakes import FakeDecoder, frames, raced, trace_of

from app import own_pairs
from app.run import race as running
from app.run import turns
from app.run.turns import EXPLORING, SECONDS, TOKENS, WINDOW, LimitReached, Shares, limit
from app.tabs import live
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Failed
from specdiff_core.schema.settings import DecodeConfig


class Clock:
    """A clock that advances only when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A public host with these limits; the others are off."""

    def serve(**limits: float) -> None:
        monkeypatch.setattr(own_pairs, "_served", {"public": True})
        for name in (TOKENS, SECONDS, EXPLORING):
            monkeypatch.setenv(name, str(limits.get(name, 0)))

    return serve


def use(shares: Shares, clock: Clock, visitor: str, *, tokens: int = 0, seconds: float = 0.0) -> None:
    with shares.of(visitor, lambda: tokens):
        clock.now += seconds


def test_limits_hold_on_public_hosts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, usual in turns.PUBLIC.items():
        monkeypatch.delenv(name, raising=False)
        for public, most in ((False, float("inf")), (True, usual)):
            monkeypatch.setattr(own_pairs, "_served", {"public": public})
            assert limit(name) == most
            monkeypatch.setenv(name, "7.5")
            assert limit(name) == 7.5
            monkeypatch.setenv(name, "0")
            assert limit(name) == float("inf")
            monkeypatch.setenv(name, "")
            assert limit(name) == most, "an empty variable is none"
        for wrong in ("-1", "nan", "many"):
            monkeypatch.setenv(name, wrong)
            with pytest.raises(ConfigError, match=name):
                limit(name)


def test_a_share_is_used_up_and_comes_back(clock: Clock, public: Callable[..., None]) -> None:
    """By session: others go on. It comes back run by run, as runs leave the window."""
    public(**{TOKENS: 100})
    shares = Shares(clock)
    use(shares, clock, "one", tokens=60, seconds=30)
    use(shares, clock, "one", tokens=60, seconds=30)
    use(shares, clock, "another", tokens=10)
    clock.now += 60
    with pytest.raises(LimitReached, match="100 new tokens per 10 minutes") as refused:
        use(shares, clock, "one")
    assert "in about 9 minutes" in refused.value.hint  # the first run ended 90 seconds ago
    use(shares, clock, "another")
    use(shares, clock, "", tokens=10_000)
    clock.now += 509
    with pytest.raises(LimitReached) as refused:
        use(shares, clock, "one")
    assert "in about 1 second." in refused.value.hint
    clock.now += 2
    use(shares, clock, "one", tokens=1)
    clock.now += WINDOW
    use(shares, clock, "another")
    assert set(shares._used) == {"another"}, "who has nothing in the window is forgotten"


def test_seconds_count_as_tokens_do(clock: Clock, public: Callable[..., None]) -> None:
    public(**{SECONDS: 50})
    shares = Shares(clock)
    use(shares, clock, "one", seconds=50)
    with pytest.raises(LimitReached, match="50 seconds per 10 minutes"):
        use(shares, clock, "one")


def race(decoder: Any, name: str) -> list[dict[str, Any]]:
    values = DecodeConfig(gamma=4, steps=2, max_new_tokens=24).to_dict()
    return frames(raced(lambda *_: decoder, "Once", values, live.plan, visitor=name))


def test_beyond_the_share_a_race_is_a_card(monkeypatch: pytest.MonkeyPatch, public: Callable[..., None]) -> None:
    public(**{TOKENS: 30})
    monkeypatch.setattr(running, "SHARES", Shares())
    assert race(FakeDecoder(), "one")[-1]["source"] == "run"
    decoder = FakeDecoder()
    last = race(decoder, "one")[-1]
    assert last["card"]["code"] == "limit" and "minutes" in last["card"]["hint"]
    assert not decoder.calls, "nothing was decoded"
    assert race(FakeDecoder(), "another")[-1]["source"] == "run"


def test_a_race_that_uses_its_share_up_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, public: Callable[..., None]
) -> None:
    public(**{SECONDS: 1.0})
    monkeypatch.setattr(running, "SHARES", Shares())
    last = race(FakeDecoder(pace=0.1), "one")[-1]
    lanes = trace_of(last).lanes
    assert len(lanes["vanilla"]) > 3
    (failed,) = [event for events in lanes.values() for event in events if isinstance(event, Failed)]
    assert failed.code == "limit"
