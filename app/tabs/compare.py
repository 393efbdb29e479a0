"""The Compare tab: a recorded comparison, and the widgets of a measurement of one's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from app.controls import QUIET, place_in_queue
from app.run import measurement
from app.run.engines import Factory
from app.run.gpu import LONGEST, on_gpu
from app.run.session import Stops
from specdiff_core.schema.metrics import CROWDED

COMPARE = Path(__file__).resolve().parents[2] / "assets" / "compare"
RESULTS = "results.json"
TEMPLATE = '<div class="sd sd-cmp" role="region" aria-label="Comparison of methods"></div>'
PATIENCE = 30.0
"""Seconds that a stopped measurement gets for its last frame: the pass under way ends, then what was measured is folded
and its races are packed."""
ENDED = "() => window.specdiff?.players.compare?.ended()"
"""Tells the tab that the server's event is over, however it ended: refused, failed, or cut off with the connection."""


def compare_options(folder: Path, served: Callable[[Path], str], *, races: bool = True) -> dict[str, Any]:
    """What its script needs to know. ``races``: whether the races behind the bars are there."""
    recorded = f"{served(folder)}/" if (folder / RESULTS).is_file() else ""
    return {"recorded": recorded, "results": RESULTS, "races": races, "crowded": CROWDED, "patience": PATIENCE}


def compare_tab(factory: Factory, script: str) -> None:
    """Fill the tab. Call inside ``gr.Tab``.

    Args:
        factory: makes decoders; the same that the other tabs use, and never at the same time.
        script: mounts its part of the page (:func:`app.page.mount`).
    """
    stops = Stops()

    @on_gpu(lambda *_: LONGEST)
    def measure(values: dict[str, Any], visitor: str, stop: threading.Event) -> Iterator[str]:
        yield from measurement.stream(factory, values, visitor=visitor, stop=stop)

    def run(request: gr.Request, methods: Any, temperature: Any, prompts: Any, repeats: Any) -> Iterator[str]:
        values = {"methods": methods, "temperature": temperature, "prompts": prompts, "repeats": repeats}
        visitor = request.session_hash or ""
        with stops.of(visitor) as stopped:
            yield from measure(values, visitor, stopped)

    def stop(request: gr.Request) -> None:
        stops.stop(request.session_hash or "", PATIENCE)

    drawer = gr.Accordion("Measure here, on this machine", open=False, elem_id="compare-drawer")
    with drawer, gr.Row(elem_id="compare-settings"):
        widgets = _widgets()
        with gr.Column(scale=1, min_width=150, elem_id="compare-buttons"):
            run_button = gr.Button("Measure", variant="primary", elem_id="compare-run")
            stop_button = gr.Button("Stop", elem_id="compare-stop")
            cancel = gr.Button("Leave the queue", elem_id="compare-cancel", elem_classes=["sd-unseen"])
    queue = place_in_queue("compare")
    board = gr.HTML("", html_template=TEMPLATE, js_on_load=script, apply_default_css=False, elem_id="compare-player")
    running = run_button.click(
        run,
        widgets,
        board,
        show_progress="minimal",
        show_progress_on=queue,
        concurrency_id="decode",
        concurrency_limit=1,  # never beside a race: each would measure the other
        trigger_mode="once",
        api_visibility="private",
    )
    for over in (running.then, running.failure):  # together they hear of every end
        over(None, None, None, js=ENDED, show_progress="hidden", api_visibility="private")
    stop_button.click(stop, None, None, **QUIET)
    cancel.click(None, None, None, cancels=[running])  # the player presses it for a measurement that still waits


def _widgets() -> list[gr.components.Component]:
    """Methods, temperature, prompts of each flavour, repeats: in the order in which ``run`` takes them."""
    known = measurement.choices()
    names = [method.name for method in known]
    return [
        gr.CheckboxGroup(
            [(method.label, method.name) for method in known],
            value=[name for name in measurement.DEFAULT_METHODS if name in names],
            label="Methods, each against vanilla",
            info=f"One run at a time, in turns with vanilla, on prompts of this project: {measurement.TOKENS} new "
            "tokens each, end of text ignored. The numbers say what this machine does now.",
            elem_id="compare-methods",
            elem_classes=["sd-setting"],
            scale=4,
            min_width=280,
        ),
        gr.Radio(
            [(f"{value:g}", value) for value in measurement.TEMPERATURES],
            value=0.0,
            label="Temperature",
            elem_id="compare-temperature",
            elem_classes=["sd-setting"],
            scale=1,
            min_width=150,
        ),
        gr.Slider(
            1,
            measurement.MOST_PROMPTS,
            value=1,
            step=1,
            label="Prompts per flavour",
            buttons=[],
            elem_id="compare-prompts",
            elem_classes=["sd-setting"],
            scale=1,
            min_width=150,
        ),
        gr.Slider(
            1,
            measurement.MOST_REPEATS,
            value=1,
            step=1,
            label="Repeats",
            buttons=[],
            elem_id="compare-repeats",
            elem_classes=["sd-setting"],
            scale=1,
            min_width=150,
        ),
    ]
