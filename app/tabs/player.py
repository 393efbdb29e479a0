"""The players of Live and Race: what their script is given."""

from __future__ import annotations

from typing import Any

from specdiff_core.explorations import figures
from specdiff_core.schema.events import EXACTNESS
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.pairs import PAIRS

from ..content.measured import measured
from ..content.recordings import RECORDINGS
from ..controls import NO_STEPS
from ..links import LIVE, RACE
from ..run.kept import KEEP_SECONDS
from ..run.race import LAST_FRAME
from . import explore, live, race

EMPTY = {
    LIVE: "No race yet. Press Run: vanilla and the drafted lane answer the same prompt with the same target model.",
    RACE: f"No race yet. Choose {race.COUNT} and press Run race. They answer the same "
    "prompt with the same target model, all at once and on one clock.",
}
PLANNED = {LIVE: live, RACE: race}
"""Tab with a player -> the module that plans its races."""


def player_options(tab: str, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """The options of a tab's player. ``methods``: how each is called and marked, as traces name lanes only."""
    methods = {
        method.name: {
            "label": method.label,
            "short": method.short,
            "about": "; ".join(f"{paper.title} {paper.arxiv}".strip() for paper in method.papers),
            "colour": method.colour,
            "mark": method.mark,
        }
        for method in METHODS
    }
    return {
        "tabName": tab,
        "crowded": CROWDED,
        "exactness": EXACTNESS,
        "methods": methods,
        "glyphs": figures.GLYPHS,
        "dashes": {use: dash for use, (dash, _) in figures.USES.items()},
        "noSteps": NO_STEPS,
        "drafters": {name: {one.name: one.label for one in spec.drafters} for name, spec in PAIRS.items()},
        "patience": LAST_FRAME,
        "kept": KEEP_SECONDS,
        "recordings": recorded,
        "measured": measured(RECORDINGS, *explore.RECORDED.values()) if tab == LIVE else [],
        "empty": EMPTY[tab],
    }
