"""Every patch of Gradio's insides (6.31), with what it works around. Each has a test
(tests/test_gradio_patches.py) that fails when Gradio no longer needs it or has changed under it.

The page's scripts depend on what Gradio draws, without changing it; the browser tests fail where
that changes: ``static/job.js`` reads the queue position that Gradio writes into a component's
status (``state/format.js: queueWords``), ``static/page.js`` finds tabs by their labels, scripts
press buttons that only they see (class ``sd-unseen``), and ``static/style.css`` names Gradio's own
classes.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

STUB_MODULE, STUB_FUNCTION = "gradio.component_meta", "create_or_modify_pyi"
QUEUE_SLEEP = 0.05
"""Seconds between looks of Gradio's queue for a new event: what a run may wait at most before it starts."""
PROGRESS_SLEEP = 1.0
"""Seconds between its looks for the state of a ``gr.Progress``; the page has none."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class _Loader(SourceFileLoader):
    """Loads the module and takes the writing of stubs out of it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if hasattr(module, STUB_FUNCTION):
            setattr(module, STUB_FUNCTION, lambda component, name, events: None)


class _Finder(MetaPathFinder):
    """Finds that one module, and leaves all others to the finders after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != STUB_MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def skip_stubs() -> None:
    """Let Gradio be imported in half the time: at every import it parses the source of all its
    components and renders their type stubs for editors, which takes one of the 2.3 seconds of
    processor time that the import takes. Call it before Gradio is imported; later calls, and a
    Gradio without that function, change nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def calm_queue(page: Any) -> None:
    """Let the queue look less often for new events and for progress: by default a thousand and a hundred times a
    second, at 6 % of a core (measured) that the decode may be using."""
    queue = page._queue
    queue.sleep_when_free = max(QUEUE_SLEEP, queue.sleep_when_free)
    queue.progress_update_sleep_when_free = max(PROGRESS_SLEEP, queue.progress_update_sleep_when_free)


def count_values(page: Any) -> None:
    """Report a call with too few values to its caller; Gradio logs all of them, the prompt too, with a traceback."""
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


def answer_json() -> None:
    """Write the answers of MCP tools as JSON instead of a Python repr. Without the package ``mcp`` there are none."""
    try:
        from gradio.mcp import GradioMCPServer
    except ImportError:
        return
    write = GradioMCPServer.postprocess_output_data
    if hasattr(write, "__wrapped__"):
        return

    @functools.wraps(write)
    def write_json(self: Any, data: Sequence[Any], root_url: str) -> Any:
        return write(
            self, [json.dumps(one, ensure_ascii=False) if "finished" in one else one for one in data], root_url
        )

    GradioMCPServer.postprocess_output_data = write_json  # type: ignore[method-assign]


class EarlyScript:
    """ASGI middleware that puts one script in front of all others: it becomes the first element of
    a page's head. ``launch(head=)`` comes too late for ``static/frame_throttle.js``: Gradio's own
    scripts have taken their copies of the browser's functions by then.

    Args:
        app: what answers.
        script: JavaScript without ``</``.
    """

    def __init__(self, app: App, script: str) -> None:
        self._app = app
        self._element = f"<script>{script}</script>".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: Message | None = None  # the headers of a page, until its first bytes say how long it becomes

        async def pass_on(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_page(message):
                held = message
                return
            if held is not None:
                start, held = held, None
                body = message.get("body", b"").replace(b"<head>", b"<head>" + self._element, 1)
                message, added = {**message, "body": body}, len(body) - len(message.get("body", b""))
                headers = [
                    (name, str(int(value) + added).encode() if name.lower() == b"content-length" else value)
                    for name, value in start["headers"]
                ]
                await send({**start, "headers": headers})
            await send(message)

        await self._app(scope, receive, pass_on)


def _is_page(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    whole = start["status"] == 200 and b"content-encoding" not in headers
    return whole and b"text/html" in headers.get(b"content-type", b"")
