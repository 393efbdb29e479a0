"""The script in front of all others: where it lands, and what passes untouched."""

from __future__ import annotations

import gzip
import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gradio.queueing import Queue
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from app import launch
from app.early import EarlyScript

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


def test_the_launcher_slows_the_queue_that_gradio_reads() -> None:
    """Never below Gradio's own pauses; and setting an attribute that nobody reads would say nothing."""
    assert "asyncio.sleep(self.sleep_when_free)" in inspect.getsource(Queue.start_processing)
    assert "asyncio.sleep(self.progress_update_sleep_when_free)" in inspect.getsource(Queue.start_progress_updates)
    for own, wanted in ((0.001, launch.QUEUE_SLEEP), (0.2, 0.2)):
        queue = SimpleNamespace(sleep_when_free=own, progress_update_sleep_when_free=0.01)
        page = SimpleNamespace(_queue=queue, queue=lambda **_: None, launch=dict)
        options = launch.serve(page, quiet=True)
        assert (queue.sleep_when_free, queue.progress_update_sleep_when_free) == (wanted, launch.PROGRESS_SLEEP)
        assert options["quiet"] is True
        (middleware,) = options["app_kwargs"]["middleware"]
        assert middleware.cls is EarlyScript and "requestAnimationFrame" in middleware.kwargs["script"]
