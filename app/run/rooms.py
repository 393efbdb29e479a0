"""Votes of classrooms: how many pages chose each answer to a question, of how many. No names, nothing on disk."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

ROOMS = 64
"""Rooms that are kept, those used last."""
QUESTIONS, VOTERS, OPTIONS = 32, 400, 10
PRESENT = 90.0
"""Seconds after its last request in which a page counts as present. Browsers slow the timers of hidden pages."""
CODE, QUESTION, VOTER = re.compile(r"[0-9a-f]{12}"), re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{12}")


class Rooms:
    """Counts by room and question, of rooms that a projector opened, the question that it shows, and whether it has
    revealed the answer. A voter is a page, whose first choice counts."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._rooms: OrderedDict[str, dict[str, dict[str, int]]] = OrderedDict()
        self._shown: dict[str, tuple[str, bool]] = {}
        self._seen: dict[str, dict[str, float]] = {}  # room -> voter -> its last request
        self._closed: set[str] = set()

    def open(self, room: str, question: str, revealed: bool = False) -> None:
        """Open a room, unless it is open, and show a question there, perhaps with its answer; ignores malformed
        names."""
        if CODE.fullmatch(room) and QUESTION.fullmatch(question):
            with self._lock:
                self._rooms.setdefault(room, {})
                self._shown[room] = question, revealed
                self._seen.setdefault(room, {})
                self._rooms.move_to_end(room)
                if len(self._rooms) > ROOMS:
                    last, _ = self._rooms.popitem(last=False)
                    del self._shown[last], self._seen[last]
                self._closed &= self._rooms.keys() - {room}

    def shown(self, room: str) -> tuple[str, bool]:
        """The question that a room's projector shows, and whether its answer is revealed; "" if there is no such
        room."""
        return self._shown.get(room, ("", False))

    def join(self, room: str, voter: str) -> None:
        """Note that a page is present in an open room; ignores malformed names and pages beyond the limit."""
        with self._lock:
            seen = None if room in self._closed else self._seen.get(room)
            if seen is not None and VOTER.fullmatch(voter) and (voter in seen or len(seen) < VOTERS):
                seen[voter] = self._clock()

    def present(self, room: str, question: str) -> int:
        """How many pages are present in a room or have answered the question."""
        with self._lock:
            since = self._clock() - PRESENT
            seen = {voter for voter, at in self._seen.get(room, {}).items() if at >= since}
            return len(seen | self._rooms.get(room, {}).get(question, {}).keys())

    def close(self, room: str) -> None:
        """Close a room whose presentation has ended; its counts stay for :meth:`open`."""
        with self._lock:
            self._closed |= self._rooms.keys() & {room}

    def guess(self, room: str, question: str, voter: str, option: int) -> bool:
        """Count a choice; whether it could be counted: names have a form, and a room is open and has limits."""
        if not (QUESTION.fullmatch(question) and VOTER.fullmatch(voter) and 0 <= option < OPTIONS):
            return False
        with self._lock:
            questions = None if room in self._closed else self._rooms.get(room)
            if questions is None or (question not in questions and len(questions) >= QUESTIONS):
                return False
            voters = questions.setdefault(question, {})
            if voter not in voters and len(voters) >= VOTERS:
                return False
            voters.setdefault(voter, option)
        return True

    def counts(self, room: str, question: str) -> list[int] | None:
        """How many chose each option, up to the last chosen one; None if the room isn't open."""
        with self._lock:
            if room not in self._rooms or room in self._closed:
                return None
            chosen = [*self._rooms[room].get(question, {}).values()]
        return [chosen.count(option) for option in range(1 + max(chosen, default=-1))]
