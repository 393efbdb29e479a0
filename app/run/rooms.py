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

    def open(self, code: str, question: str, key: str, revealed: bool = False) -> bool:
        """Open a room, unless it is open, and show a question there, perhaps with its answer; whether ``key`` is the
        room's. Ignores malformed names, and further rooms where all are in use."""
        if not (CODE.fullmatch(code) and QUESTION.fullmatch(question) and KEY.fullmatch(key)):
            return code not in self._rooms
        with self._lock:
            if code not in self._rooms and len(self._rooms) >= ROOMS:
                now = self._clock()
                in_use = {  # -> when it was last shown
                    name: (max(room.seen.values(), default=-PRESENT) > now - PRESENT and now - room.at < IDLE, room.at)
                    for name, room in self._rooms.items()
                }
                least = min(in_use, key=in_use.__getitem__)
                if in_use[least][0]:
                    return True
                del self._rooms[least]
            room = self._rooms.setdefault(code, _Room(key))
            if room.key != key:
                return False
            room.shown, room.at, room.closed = (question, revealed), self._clock(), False
            if question not in room.votes and len(room.votes) >= QUESTIONS:  # voters may have named any
                del room.votes[min(room.votes, key=lambda name: len(room.votes[name]))]
            room.votes.setdefault(question, {})
            return True

    def shown(self, code: str) -> tuple[str, bool]:
        """The question that a room's projector shows, and whether its answer is revealed; "" if there is no such
        room."""
        room = self._rooms.get(code)
        return room.shown if room else ("", False)

    def join(self, code: str, voter: str) -> None:
        """Note that a page is present in an open room; ignores malformed names and pages beyond the limit."""
        with self._lock:
            room = self._open(code)
            if room and VOTER.fullmatch(voter) and (voter in room.seen or len(room.seen) < VOTERS):
                room.seen[voter] = self._clock()

    def present(self, code: str, question: str) -> int:
        """How many pages are present in a room or have answered the question."""
        with self._lock:
            room, since = self._rooms.get(code), self._clock() - PRESENT
            if room is None:
                return 0
            return len({voter for voter, at in room.seen.items() if at >= since} | room.votes.get(question, {}).keys())

    def close(self, code: str, key: str) -> bool:
        """Close a room whose presentation has ended, if ``key`` is the room's; its counts stay for :meth:`open`."""
        with self._lock:
            room = self._rooms.get(code)
            if room and room.key == key:
                room.closed = True
            return room is None or room.key == key

    def guess(self, code: str, question: str, voter: str, option: int) -> bool:
        """Count a choice; whether it could be counted: names have a form, and a room is open and has limits."""
        if not (QUESTION.fullmatch(question) and VOTER.fullmatch(voter) and 0 <= option < OPTIONS):
            return False
        with self._lock:
            room = self._open(code)
            if room is None or (question not in room.votes and len(room.votes) >= QUESTIONS):
                return False
            voters = room.votes.setdefault(question, {})
            if voter not in voters and len(voters) >= VOTERS:
                return False
            voters.setdefault(voter, option)
        return True

    def counts(self, code: str, question: str) -> list[int] | None:
        """How many chose each option, up to the last chosen one; None if the room isn't open."""
        with self._lock:
            room = self._open(code)
            if room is None:
                return None
            chosen = [*room.votes.get(question, {}).values()]
        return [chosen.count(option) for option in range(1 + max(chosen, default=-1))]

    def _open(self, code: str) -> _Room | None:
        room = self._rooms.get(code)
        return None if room is None or room.closed else room
