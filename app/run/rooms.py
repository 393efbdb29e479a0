"""Vote counts of classrooms: how many chose each answer to a question. No names, nothing on disk."""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock

ROOMS = 64
"""Rooms that are kept, those used last."""
QUESTIONS, VOTERS, OPTIONS = 32, 400, 10
CODE, QUESTION, VOTER = re.compile(r"[0-9a-f]{12}"), re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{12}")


class Rooms:
    """Counts by room and question, of rooms that a projector opened, and the question that it
    shows. A voter is a page, whose first choice counts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rooms: OrderedDict[str, dict[str, dict[str, int]]] = OrderedDict()
        self._shown: dict[str, str] = {}
        self._closed: set[str] = set()

    def open(self, room: str, question: str) -> None:
        """Open a room, unless it is open, and show a question there; ignores malformed names."""
        if CODE.fullmatch(room) and QUESTION.fullmatch(question):
            with self._lock:
                self._rooms.setdefault(room, {})
                self._shown[room] = question
                self._rooms.move_to_end(room)
                if len(self._rooms) > ROOMS:
                    self._shown.pop(self._rooms.popitem(last=False)[0])
                self._closed &= self._rooms.keys() - {room}

    def shown(self, room: str) -> str:
        """The question that a room's projector shows; "" if there is no such room."""
        return self._shown.get(room, "")

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
