"""The events of every measured run of a sweep, one file per run. Knows files and names; no model and no numbers.

A folder holds one sweep: ``sweep.json`` says which, ``<prompt id>.<repeat>/<cell>.jsonl.gz`` are traces of one lane.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.bench.cells import BASELINE
from specdiff_core.decoding.pieces import with_pieces
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Event
from specdiff_core.schema.summary import final
from specdiff_core.schema.trace import Trace, read_trace, write_trace

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ABOUT = "sweep.json"


class Traces:
    """Recorded runs, found by prompt, repeat and cell.

    Args:
        folder: made when the first run is kept.
        tokenizer: tells the text of ids behind a run that was measured without words; a replay needs no tokenizer then.
    """

    def __init__(self, folder: Path, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
        self.folder, self._tokenizer = Path(folder), tokenizer

    def claim(self, header: Mapping[str, Any], flavours: Mapping[str, str]) -> None:
        """Say which sweep this folder is for.

        Args:
            header: everything that must be equal for runs to belong together, as ``sweep`` writes it in its rows.
            flavours: prompt id -> flavour, in the order of the sweep.

        Raises:
            ConfigError: it holds another one.
        """
        facts = json.loads(json.dumps({**header, "flavours": dict(flavours)}))
        if (self.folder / ABOUT).exists():
            held = self.about()
            if other := sorted(name for name in {*held, *facts} if held.get(name) != facts.get(name)):
                raise ConfigError(
                    f"{self.folder.name} holds traces of another benchmark: {', '.join(other)} differ.",
                    field="traces",
                    hint="Choose another folder, or delete it.",
                )
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ABOUT).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def about(self) -> dict[str, Any]:
        """The header of the sweep with ``flavours``: its ``cells`` by key, its prompts by id, its ``repeats``.

        Raises:
            TraceError: there is none, or it is damaged.
        """
        path = self.folder / ABOUT
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TraceError(
                f"{self.folder.name} holds no traces of a sweep: {ABOUT} cannot be read.", hint=_HINT
            ) from error
        kinds = {"cells": list, "flavours": dict, "repeats": int}
        if not isinstance(facts, dict) or not all(isinstance(facts.get(name), kind) for name, kind in kinds.items()):
            raise TraceError(f"{self.folder.name}/{ABOUT} describes no sweep.", hint=_HINT)
        return facts

    def path(self, prompt_id: str, repeat: int, cell_key: str) -> Path:
        """The file of a run: always below the folder, whatever the names hold; another one for every other run."""
        return self.folder / f"{slug(prompt_id)}.{int(repeat)}" / f"{slug(cell_key)}.jsonl.gz"

    def holds(self, prompt_id: str, repeat: int, cell_key: str) -> bool:
        """Whether there is a file of this run."""
        return self.path(prompt_id, repeat, cell_key).is_file()

    def write(self, prompt_id: str, repeat: int, cell_key: str, events: Sequence[Event]) -> None:
        """Write a finished run; an earlier file of the same run is replaced."""
        told = events if self._tokenizer is None else tuple(with_pieces(events, self._tokenizer))
        write_trace(self.path(prompt_id, repeat, cell_key), {lane_of(cell_key): told}, title=prompt_id)

    def events(self, prompt_id: str, repeat: int, cell_key: str) -> tuple[Event, ...]:
        """A run as it was measured.

        Raises:
            TraceError: it is missing, damaged, or another run's; the message names it.
        """
        name = f"{prompt_id}, repeat {repeat}, {cell_key}"
        try:
            trace = read_trace(self.path(prompt_id, repeat, cell_key))
        except TraceError as error:
            raise type(error)(f"The run {name} of {self.folder.name}: {error.message}", hint=_HINT) from error
        lane = lane_of(cell_key)
        if list(trace.lanes) != [lane] or trace.title != prompt_id:
            raise TraceError(f"The run {name} of {self.folder.name} is in truth another one.", hint=_HINT)
        if final(trace.lanes[lane]) is None:
            raise TraceError(f"The run {name} of {self.folder.name} has no end.", hint=_HINT)
        return trace.lanes[lane]

    def race(self, prompt_id: str, repeat: int, cell_keys: Sequence[str]) -> Trace:
        """Several runs of one prompt as lanes side by side, in this order; each lane has the name of its cell, the
        baseline's is ``vanilla``.

        Raises:
            TraceError: one of them cannot be read.
        """
        return Trace(lanes={lane_of(key): self.events(prompt_id, repeat, key) for key in cell_keys}, title=prompt_id)


def lane_of(cell_key: str) -> str:
    """What a cell's lane is called."""
    return "vanilla" if cell_key == BASELINE.key else cell_key


def slug(text: str) -> str:
    """A file name for any text. Plain words stay readable, with ``/`` as a dot; of all else a part stays and a hash is
    added behind a ``~``, which no plain name holds: no name leaves its folder, and no two texts share one."""
    if len(text) <= 80 and re.fullmatch(r"[a-z0-9_-]+(/[a-z0-9_-]+)*", text):
        return text.replace("/", ".")
    rest = re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:40].strip("-")
    return f"{rest}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


_HINT = "Measure the sweep again, or report it without --refold."
