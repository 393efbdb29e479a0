"""Every patch of Gradio's insides (6.31), with what it works around. Each has a test
(tests/test_gradio_patches.py) that fails when Gradio no longer needs it or has changed under it.

The page's scripts depend on what Gradio draws, without changing it; the browser tests fail where
that changes: ``static/page.js`` finds tabs by their labels, scripts press buttons that only they
see (class ``sd-unseen``), and ``static/style.css`` names Gradio's own classes.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Sequence
from typing import Any

QUEUE_SLEEP = 0.05
"""Seconds between Gradio's looks for a new event: the longest wait of a run before it starts."""
PROGRESS_SLEEP = 1.0
"""Seconds between its looks for the state of a ``gr.Progress``; the page has none."""


def skip_stubs() -> None:
    """Let Gradio be imported in half the time: at every import it parses the source of all its
    components and renders their type stubs for editors, which takes one of the 2.3 seconds of
    processor time that the import takes. Gradio writes no stub for a component if it cannot find
    its file. Call this before Gradio is imported; later calls change nothing."""
    getfile = inspect.getfile
    if hasattr(getfile, "__wrapped__"):
        return

    @functools.wraps(getfile)
    def file_of(thing: Any) -> str:
        if isinstance(thing, type) and hasattr(thing, "EVENTS"):
            raise OSError("a component gets no stub")
        return getfile(thing)

    inspect.getfile = file_of  # type: ignore[assignment]  # a patch


def calm_queue(page: Any) -> None:
    """Let the queue poll less often. By default it looks for new events a thousand times a second
    and for progress a hundred times, which takes 6 % of a core (measured) from the decode."""
    queue = page._queue
    queue.sleep_when_free = max(QUEUE_SLEEP, queue.sleep_when_free)
    queue.progress_update_sleep_when_free = max(PROGRESS_SLEEP, queue.progress_update_sleep_when_free)


def count_values(page: Any) -> None:
    """Report a call with too few values to its caller. Gradio would log its values (the prompt too) and a traceback."""
    import gradio as gr

    def check(function: Any, values: Sequence[Any]) -> None:
        if len(values) < len(function.inputs):
            words = f"{function.name} takes {len(function.inputs)} values; this call has {len(values)}."
            raise gr.Error(words, print_exception=False)

    page.validate_inputs = check


def unjudged(*kinds: Any) -> None:
    """Let widgets of these classes pass on what they were given: ``DecodeConfig`` judges it, and a person gets a card.

    Set on the classes: when an event updates a widget, Gradio makes another instance for that visitor.
    """
    for kind in kinds:
        if not hasattr(kind.preprocess, "__wrapped__"):
            kind.preprocess = functools.wraps(kind.preprocess)(lambda self, payload: payload)


def input_schemas(added: Any, answer: type) -> list[dict[str, Any]]:
    """The JSON schemas of the parameters of an endpoint that ``gr.api`` added; a parameter that may be null has that
    of its values. Type hints can't express the range of a number, nor the ``answer`` of a generator, which is set."""
    from gradio.context import Context
    from gradio_client.utils import python_type_to_json_schema  # type: ignore[import-untyped]  # no stubs

    function: Any = Context.root_block.fns[added["id"]]  # type: ignore[union-attr]  # inside the page
    function.outputs[0]._api_info |= python_type_to_json_schema(answer)
    schemas = [component._api_info for component in function.inputs]
    return [schema["oneOf"][1] if "oneOf" in schema else schema for schema in schemas]


def answer_json() -> None:
    """Write the answers of MCP tools as JSON instead of a Python repr."""
    from gradio.mcp import GradioMCPServer

    write = GradioMCPServer.postprocess_output_data
    if hasattr(write, "__wrapped__"):
        return

    @functools.wraps(write)
    def write_json(self: Any, data: Sequence[Any], root_url: str) -> Any:
        return write(
            self, [json.dumps(item, ensure_ascii=False) if "finished" in item else item for item in data], root_url
        )

    GradioMCPServer.postprocess_output_data = write_json  # type: ignore[method-assign]  # a patch
