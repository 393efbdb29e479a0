"""What depends on Gradio's insides. Each test fails when Gradio no longer needs a patch, or has changed under it."""

from __future__ import annotations

import gzip
import importlib.util
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from gradio.queueing import Queue
from gradio.state_holder import StateHolder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from app import launch
from app.gradio_patches import (
    PROGRESS_SLEEP,
    QUEUE_SLEEP,
    STUB_FUNCTION,
    STUB_MODULE,
    EarlyScript,
    answer_json,
    calm_queue,
    count_values,
    unjudged,
)

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.usefixtures("event_loops"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

PAGE = "<!doctype html><html><head><script>theirs()</script></head><body>ä <head></body></html>"


def page(request: Request) -> Response:
    return HTMLResponse(PAGE)


def data(request: Request) -> Response:
    return JSONResponse({"html": PAGE})


def packed(request: Request) -> Response:
    return Response(gzip.compress(PAGE.encode()), media_type="text/html", headers={"content-encoding": "gzip"})


def error(request: Request) -> Response:
    return HTMLResponse(PAGE, status_code=500)


def stream(request: Request) -> Response:
    def parts() -> Iterator[str]:
        yield PAGE
        yield "<head>"

    return StreamingResponse(parts(), media_type="text/html")


async def socket(connection: WebSocket) -> None:
    await connection.accept()
    await connection.send_text("hello")
    await connection.close()


@pytest.fixture
def client() -> Iterator[Any]:
    answers = {"/": page, "/data": data, "/stream": stream, "/packed": packed, "/error": error}
    routes = [*(Route(path, answer) for path, answer in answers.items()), WebSocketRoute("/socket", socket)]
    with TestClient(Starlette(routes=routes, middleware=[Middleware(EarlyScript, script="ours()")])) as found:
        yield found


def test_it_is_the_first_element_of_the_head(client: Any) -> None:
    answer = client.get("/")
    assert answer.text == PAGE.replace("<head>", "<head><script>ours()</script>", 1)
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_head_request_has_the_headers_of_the_page(client: Any) -> None:
    answer = client.head("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == client.get("/").headers["content-type"]


def test_a_streamed_page_gets_it_once(client: Any) -> None:
    assert client.get("/stream").text == PAGE.replace("<head>", "<head><script>ours()</script>", 1) + "<head>"


def test_everything_else_passes_untouched(client: Any) -> None:
    assert client.get("/data").json() == {"html": PAGE}
    assert client.get("/packed").text == PAGE, "compressed already: what looks like <head> would be none"
    assert client.get("/error").text == PAGE
    with client.websocket_connect("/socket") as connection:
        assert connection.receive_text() == "hello"


def test_gradios_queue_still_reads_the_pauses_that_are_set() -> None:
    """Never below Gradio's own; setting an attribute that nobody reads would say nothing."""
    assert "asyncio.sleep(self.sleep_when_free)" in inspect.getsource(Queue.start_processing)
    assert "asyncio.sleep(self.progress_update_sleep_when_free)" in inspect.getsource(Queue.start_progress_updates)
    with gr.Blocks() as page:
        pass
    queue = page._queue
    assert queue.sleep_when_free < QUEUE_SLEEP, "no longer needed"
    assert queue.progress_update_sleep_when_free < PROGRESS_SLEEP, "no longer needed"
    calm_queue(page)
    assert (queue.sleep_when_free, queue.progress_update_sleep_when_free) == (QUEUE_SLEEP, PROGRESS_SLEEP)
    queue.sleep_when_free = 0.2
    calm_queue(page)
    assert queue.sleep_when_free == 0.2


def test_gradio_would_still_print_what_a_short_call_holds() -> None:
    def race(prompt: str, gamma: int = 4) -> str:
        return prompt

    with gr.Blocks() as page:
        gr.api(race, api_name="race")
    (function,) = page.fns.values()
    with pytest.raises(ValueError, match="a visitor's prompt"):
        page.validate_inputs(function, ["a visitor's prompt"])
    count_values(page)
    with pytest.raises(gr.Error, match=r"race takes 2 values; this call has 1\.") as refused:
        page.validate_inputs(function, ["a visitor's prompt"])
    assert not refused.value.print_exception
    page.validate_inputs(function, ["a", 4])
    assert "self.validate_inputs(" in inspect.getsource(gr.Blocks.preprocess_data)


def test_gradio_would_still_write_its_stubs() -> None:
    """The launcher leaves that chore out (``test_app_page``)."""
    source = Path(importlib.util.find_spec(STUB_MODULE).origin).read_text(encoding="utf-8")
    assert f"def {STUB_FUNCTION}(" in source and source.count(f"{STUB_FUNCTION}(") > 1, "no longer needed"


def test_gradios_own_scripts_still_run_before_what_launch_adds_to_the_head() -> None:
    """Its page loads them from the head, and has no place for ``launch(head=)``: they add that themselves, later."""
    template = Path(gr.__file__).parent / "templates" / "frontend" / "index.html"
    head, _, _ = template.read_text(encoding="utf-8").partition("</head>")
    assert '<script type="module"' in head, "what asks for animation frames is loaded elsewhere now"
    assert "config['head']" not in head, "no longer needed: the server places it"


def test_gradio_would_still_judge_values() -> None:
    """A choice that is not in the list, a number beyond the range: a toast instead of our card. Of any instance: an
    event that updates a widget makes another."""
    unjudged(gr.Dropdown, gr.Slider)
    for widget, value in ((gr.Dropdown(["a"]), "b"), (gr.Slider(1, 3), 9)):
        with pytest.raises(gr.Error):
            inspect.unwrap(type(widget).preprocess)(widget, value)
        assert widget.preprocess(value) == value


def test_mcp_answers_would_still_be_python() -> None:
    pytest.importorskip("mcp", reason="the mcp extra of Gradio is not installed")
    from gradio.mcp import GradioMCPServer

    answer_json()
    with gr.Blocks() as page:
        gr.HTML()
    server = GradioMCPServer(page)
    answer = {"finished": True, "text": "né “x”", "alpha": None}
    (content,) = inspect.unwrap(GradioMCPServer.postprocess_output_data)(server, [answer], "http://lab")
    assert content.text == str(answer), "no longer needed"
    (content,) = server.postprocess_output_data([answer], "http://lab")
    assert json.loads(content.text) == answer


def test_the_launcher_applies_them(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = pytest.importorskip("gradio.mcp", reason="the mcp extra of Gradio is not installed").GradioMCPServer
    monkeypatch.setattr(mcp, "postprocess_output_data", inspect.unwrap(mcp.postprocess_output_data))
    page = SimpleNamespace(
        _queue=SimpleNamespace(sleep_when_free=0.001, progress_update_sleep_when_free=0.01),
        queue=lambda **_: None,
        launch=dict,
    )
    options = launch.serve(page, quiet=True)
    assert page.validate_inputs.__module__ == count_values.__module__
    assert page._queue.sleep_when_free == QUEUE_SLEEP and options["quiet"] is True
    assert hasattr(mcp.postprocess_output_data, "__wrapped__")
    zipped, early = options["app_kwargs"]["middleware"]  # outermost first: what is compressed is complete
    assert zipped.cls is GZipMiddleware
    assert early.cls is EarlyScript and "requestAnimationFrame" in early.kwargs["script"]


def test_the_server_forgets_pages_that_are_gone() -> None:
    """Each is kept with its last frame; Gradio would keep ten thousand."""
    launched: dict[str, Any] = {}
    with gr.Blocks() as page:
        gr.HTML()
    page.launch = launched.update
    launch.serve(page)
    assert launched.keys() <= inspect.signature(gr.Blocks.launch).parameters.keys()
    page.state_session_capacity = launched["state_session_capacity"]
    holder = StateHolder()
    holder.set_blocks(page)
    for number in range(launch.SESSIONS + 20):
        assert holder[str(number)].config_values
        assert holder["0"].config_values  # used again: it stays
    assert len(holder.session_data) == launch.SESSIONS
    assert "0" in holder
