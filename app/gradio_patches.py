"""Every patch of Gradio's Python (6.31), with what it works around. Each has a test
(tests/test_gradio_patches.py) that fails when Gradio no longer needs it or has changed under it.
``first_load.py`` and ``unfurl.py`` rewrite its page.

The page's scripts depend on what Gradio draws, without changing it; the browser tests fail where
that changes: ``static/page.js`` finds tabs by their ids, and ``static/styles/base.css`` names Gradio's own classes.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

LOG = logging.getLogger("specdiff.server")

QUEUE_SLEEP = 0.05
"""Seconds between Gradio's looks for a new event: the longest wait of a run before it starts."""
PROGRESS_SLEEP = 1.0
"""Seconds between its looks for the state of a ``gr.Progress``; the page has none."""
LONGEST = 128
"""Characters of a session's name; Gradio's pages and clients give it at most 36."""


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


def poll_less(page: Any) -> None:
    """Let the queue poll less often. By default it looks for new events a thousand times a second
    and for progress a hundred times, which takes 6 % of a core (measured) from the decode."""
    queue = page._queue
    queue.sleep_when_free = max(QUEUE_SLEEP, queue.sleep_when_free)
    queue.progress_update_sleep_when_free = max(PROGRESS_SLEEP, queue.progress_update_sleep_when_free)


def keep_queue(page: Any) -> None:
    """Keep the queue alive. In Gradio, an event whose session isn't known ends the task that starts all events: one
    without a name never is, others until 2,000 newer ones came, whether used or not. It keeps all these names, of any
    length."""
    from gradio.utils import LRUCache

    queue = page._queue
    push, send, process = queue.push, queue.send_message, queue.start_processing
    most = queue.pending_messages_per_session.max_size

    class Sessions(LRUCache):  # type: ignore[type-arg]  # of a name to anything
        """The sessions that were used last."""

        def __getitem__(self, name: str) -> Any:
            self.move_to_end(name)
            return super().__getitem__(name)

    async def push_named(body: Any, request: Any, username: str | None) -> Any:
        if body.session_hash is not None and not 0 < len(body.session_hash) <= LONGEST:
            return False, "The session has no name, or a long one.", "error"
        return await push(body, request, username)

    def send_known(event: Any, message: Any) -> None:
        try:
            queue.pending_event_ids_session[event.session_hash]  # both are used now
            send(event, message)
        except KeyError:
            event.alive = False

    async def keep_processing() -> None:
        while True:
            try:
                await process()
                return
            except Exception:  # whatever it was: the next event may be served
                LOG.exception("Gradio's queue failed; it starts again")
                queue.stopped = False
                await asyncio.sleep(PROGRESS_SLEEP)

    queue.pending_messages_per_session, queue.pending_event_ids_session = Sessions(most), Sessions(most)
    queue.push, queue.send_message, queue.start_processing = push_named, send_known, keep_processing


def judge_origins(is_own: Callable[[Any], bool]) -> None:
    """Let browsers pass on answers only to pages that ``is_own`` accepts by their request's headers. Gradio would trust
    pages of ``x.localhost``, ``0.0.0.0`` and every other port of this machine."""
    from gradio.route_utils import CustomCORSMiddleware

    valid = CustomCORSMiddleware.is_valid_origin
    if not hasattr(valid, "__wrapped__"):
        judged = functools.wraps(valid)(lambda self, headers: valid(self, headers) and is_own(headers))
        CustomCORSMiddleware.is_valid_origin = judged  # type: ignore[method-assign,assignment]  # a patch


def count_values(page: Any) -> None:
    """Report a call with too few values to its caller. Gradio would log its values (the prompt too) and a traceback."""
    import gradio as gr

    def check(function: Any, values: Sequence[Any]) -> None:
        if len(values) < len(function.inputs):
            words = f"{function.name} takes {len(function.inputs)} values; this call has {len(values)}."
            raise gr.Error(words, print_exception=False)

    page.validate_inputs = check


def input_schemas(added: Any, answer: type) -> list[dict[str, Any]]:
    """The JSON schemas of the parameters of an endpoint that ``gr.api`` added; a parameter that may be null has that
    of its values. Type hints can't express the range of a number, nor the ``answer`` of a generator, which is set."""
    from gradio.context import Context
    from gradio.events import python_type_to_json_schema  # type: ignore[attr-defined]  # not exported

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
