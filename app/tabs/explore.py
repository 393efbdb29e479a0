"""The Explore and Compare tabs. One script draws both and exchanges requests and answers with the
server through Gradio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import msgspec

from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.fields import labels
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import ASSETS, EMBEDDED, PAIRS

from ..content.recordings import answers
from ..controls import QUIET, described, offered, part, start_job
from ..links import COMPARE, EXPLORE
from ..run import exploration
from ..scripts import when

RECORDED = {tab: ASSETS / tab for tab in (EXPLORE, COMPARE)}
NAMES = {EXPLORE: "Questions", COMPARE: "Comparison of methods"}
LAST_FRAME = 30.0
"""Seconds to wait for the last frame of a stopped measurement."""


DISTINGUISHING = ("pair", "drafter", "models", "temperature", "controller")
"""Settings by which an exploration's recordings may differ; labels name those, else the pair."""


def labelled(folder: Path, name: str) -> dict[str, str]:
    """The recorded answers of an exploration: the file's name without ``.json`` -> its label. Those on the real model
    come first, then those with the form's drafter, then those nearest to its other defaults."""
    base = msgspec.json.decode(msgspec.json.encode(EXPLORATIONS[name]()))  # lists, as a file holds them
    recorded = {stem: {**base, **answer.settings} for stem, answer in answers(folder, name)}

    def order(stem: str) -> tuple[bool, bool, int]:
        differ = {field for field in base if recorded[stem][field] != base[field]}
        return recorded[stem].get("pair", EMBEDDED.name) == EMBEDDED.name, "drafter" in differ, len(differ)

    differing = [field for field in DISTINGUISHING if len({str(one.get(field)) for one in recorded.values()}) > 1]

    def label(stem: str) -> str:
        settings = recorded[stem]
        pair, drafter = labels(settings.get("pair", EMBEDDED.name), settings.get("drafter", "none"))
        words = {"pair": pair, "drafter": drafter, "models": settings.get("models")}
        words |= {"temperature": f"temperature {settings.get('temperature', 0):g}"}
        words |= {"controller": "controller" if settings.get("controller") else ""}
        return " · ".join(filter(None, (words[field] for field in differing or ["pair"])))

    return {stem: label(stem) for stem in sorted(recorded, key=order)}


def explore_options(tab: str, folder: Path, served: Callable[[Path], str]) -> dict[str, Any]:
    """The options of a tab's script."""
    forms = exploration.forms(tab)
    return {
        "tabName": tab,
        "forms": forms,
        "pairs": {name: described(name) for name in PAIRS},
        "folder": f"{served(folder)}/",
        "recorded": {name: labelled(folder, name) for name in forms},
        "crowded": CROWDED,
        "patience": LAST_FRAME,
    }


def explore_tab(tab: str, measure: exploration.Explore, script: str) -> None:
    """Fill a tab. Call inside ``gr.Tab``.

    Args:
        tab: its name (:attr:`~specdiff_core.explorations.base.Exploration.tab`).
        measure: runs its explorations.
        script: mounts its part of the page (:func:`app.scripts.mount`).
    """

    def explore(asked: gr.EventData) -> Iterator[str]:
        yield from exploration.stream(measure, getattr(asked, "request", ""))

    def stop(asked: gr.EventData) -> None:
        exploration.JOBS.stop(exploration.read_request(getattr(asked, "request", "")).get("token", ""), LAST_FRAME)

    options = {"js_on_load": script, "server_functions": [offered]}
    board = part(NAMES[tab], f"{tab}-player", "sd sd-explored", **options)
    start_job(explore, board, tab)
    when(board, "stop")(stop, None, None, **QUIET)
