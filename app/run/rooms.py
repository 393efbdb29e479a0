"""What rooms guess: how many chose each answer to a lesson's question. Holds no names, and writes nothing to disk."""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock

ROOMS = 64
"""Rooms that are kept, those used last."""
QUESTIONS, VOTERS, OPTIONS = 32, 400, 10
CODE, QUESTION, VOTER = re.compile(r"[0-9a-f]{12}"), re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{12}")


class Rooms:
    """Counts by room and question. A voter is a page, whose last choice counts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rooms: OrderedDict[str, dict[str, dict[str, int]]] = OrderedDict()

    def guess(self, room: str, question: str, voter: str, option: int) -> bool:
        """Count a choice; whether it could be counted: names have a form, and a room has limits."""
        if not (CODE.fullmatch(room) and QUESTION.fullmatch(question) and VOTER.fullmatch(voter)):
            return False
        with self._lock:
            questions = self._rooms.setdefault(room, {})
            self._rooms.move_to_end(room)
            if len(self._rooms) > ROOMS:
                self._rooms.popitem(last=False)
            if question not in questions and len(questions) >= QUESTIONS:
                return False
            voters = questions.setdefault(question, {})
            if not 0 <= option < OPTIONS or (voter not in voters and len(voters) >= VOTERS):
                return False
            voters[voter] = option
        return True

    def counts(self, room: str, question: str) -> list[int]:
        """How many chose each option, up to the last that was chosen."""
        with self._lock:
            chosen = [*self._rooms.get(room, {}).get(question, {}).values()]
        return [chosen.count(option) for option in range(1 + max(chosen, default=-1))]
