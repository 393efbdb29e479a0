"""Votes of classrooms: how many pages chose each answer to a question, of how many. No names, nothing on disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

ROOMS, IDLE = 64, 900.0
"""Rooms that are kept. Another one takes the place of one in which nobody is present, or whose projector hasn't shown a
question for so many seconds."""
QUESTIONS, VOTERS, OPTIONS = 32, 400, 10
PRESENT = 90.0
"""Seconds after its last request in which a page counts as present. Browsers slow the timers of hidden pages."""
CODE = VOTER = KEY = re.compile(r"[0-9a-f]{12}")
QUESTION = re.compile(r"[a-z-]{1,40}")


@dataclass
class _Room:
    key: str  # of the projector's page
    shown: tuple[str, bool] = "", False  # the question, and whether its answer is revealed
    at: float = 0.0  # when it was last shown
    closed: bool = False
    votes: dict[str, dict[str, int]] = field(default_factory=dict)  # question -> voter -> option
    seen: dict[str, float] = field(default_factory=dict)  # voter -> its last request


class Rooms:
    """Counts by room and question, of rooms that a projector opened, the question that it shows, and whether it has
    revealed the answer. Only the projector has the key with which it opened the room. A voter is a page, whose first
    choice counts."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._rooms: dict[str, _Room] = {}

    def open(self, room: str, question: str, key: str, revealed: bool = False) -> bool:
        """Open a room, unless it is open, and show a question there, perhaps with its answer; whether ``key`` is the
        room's. Ignores malformed names, and further rooms where all are in use."""
        if not (CODE.fullmatch(room) and QUESTION.fullmatch(question) and KEY.fullmatch(key)):
            return room not in self._rooms
        with self._lock:
            if room not in self._rooms and len(self._rooms) >= ROOMS:
                now = self._clock()
                in_use = {  # -> when it was last shown
                    name: (max(kept.seen.values(), default=-PRESENT) > now - PRESENT and now - kept.at < IDLE, kept.at)
                    for name, kept in self._rooms.items()
                }
                least = min(in_use, key=in_use.__getitem__)
                if in_use[least][0]:
                    return True
                del self._rooms[least]
            kept = self._rooms.setdefault(room, _Room(key))
            if kept.key != key:
                return False
            kept.shown, kept.at, kept.closed = (question, revealed), self._clock(), False
            if question not in kept.votes and len(kept.votes) >= QUESTIONS:  # voters may have named any
                del kept.votes[min(kept.votes, key=lambda name: len(kept.votes[name]))]
            kept.votes.setdefault(question, {})
            return True

    def shown(self, room: str) -> tuple[str, bool]:
        """The question that a room's projector shows, and whether its answer is revealed; "" if there is no such
        room."""
        kept = self._rooms.get(room)
        return kept.shown if kept else ("", False)

    def join(self, room: str, voter: str) -> None:
        """Note that a page is present in an open room; ignores malformed names and pages beyond the limit."""
        with self._lock:
            kept = self._open(room)
            if kept and VOTER.fullmatch(voter) and (voter in kept.seen or len(kept.seen) < VOTERS):
                kept.seen[voter] = self._clock()

    def present(self, room: str, question: str) -> int:
        """How many pages are present in a room or have answered the question."""
        with self._lock:
            kept, since = self._rooms.get(room), self._clock() - PRESENT
            if kept is None:
                return 0
            return len({voter for voter, at in kept.seen.items() if at >= since} | kept.votes.get(question, {}).keys())

    def close(self, room: str, key: str) -> bool:
        """Close a room whose presentation has ended, if ``key`` is the room's; its counts stay for :meth:`open`."""
        with self._lock:
            kept = self._rooms.get(room)
            if kept and kept.key == key:
                kept.closed = True
            return kept is None or kept.key == key

    def guess(self, room: str, question: str, voter: str, option: int) -> bool:
        """Count a choice; whether it could be counted: names have a form, and a room is open and has limits."""
        if not (QUESTION.fullmatch(question) and VOTER.fullmatch(voter) and 0 <= option < OPTIONS):
            return False
        with self._lock:
            kept = self._open(room)
            if kept is None or (question not in kept.votes and len(kept.votes) >= QUESTIONS):
                return False
            voters = kept.votes.setdefault(question, {})
            if voter not in voters and len(voters) >= VOTERS:
                return False
            voters.setdefault(voter, option)
        return True

    def counts(self, room: str, question: str) -> list[int] | None:
        """How many chose each option, up to the last chosen one; None if the room isn't open."""
        with self._lock:
            kept = self._open(room)
            if kept is None:
                return None
            chosen = [*kept.votes.get(question, {}).values()]
        return [chosen.count(option) for option in range(1 + max(chosen, default=-1))]

    def _open(self, room: str) -> _Room | None:
        kept = self._rooms.get(room)
        return None if kept is None or kept.closed else kept
