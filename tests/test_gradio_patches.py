"""What depends on Gradio's insides. A test fails when a patch is no longer needed."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.mcp import GradioMCPServer
from gradio.queueing import Queue
from gradio.route_utils import CustomCORSMiddleware
from gradio.server_messages import EstimationMessage
from gradio.state_holder import StateHolder
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient

from app import launch
from app.first_load import MODULES, CachedResponses
from app.gradio_patches import (
    PROGRESS_SLEEP,
    QUEUE_SLEEP,
    answer_json,
    count_values,
    judge_origins,
    poll_less,
)
from app.guard import is_own

pytestmark = [pytest.mark.usefixtures("event_loops"), pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


def test_the_launcher_applies_them_and_begins_the_page_with_our_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    write = inspect.unwrap(GradioMCPServer.postprocess_output_data)
    monkeypatch.setattr(GradioMCPServer, "postprocess_output_data", write)
    monkeypatch.setattr("gradio.networking.url_ok", lambda url: False)  # a busy machine takes longer than three seconds
    with gr.Blocks() as page:
        gr.HTML()
    app, *_ = launch.serve(page, prevent_thread_lock=True, quiet=True)
    try:
        assert page._queue.sleep_when_free == QUEUE_SLEEP and GradioMCPServer.postprocess_output_data is not write
        assert page.validate_inputs.__module__ == count_values.__module__
        kept, zipped = (one.cls for one in app.user_middleware if one.cls in (CachedResponses, GZipMiddleware))
        assert (kept, zipped) == (CachedResponses, GZipMiddleware), "what is kept is compressed once"
        for page.share in (False, True):
            ours = f'<script src="./{MODULES}">'
            for headers in ({}, {"range": "bytes=0-"}):  # kept, and not
                answer = TestClient(app, f"http://127.0.0.{1 + page.share}").get("/", headers=headers)
                before, found, _ = answer.text.partition(ours)
                assert found and "<base" in before and "<script" not in before
    finally:
        page.share = False
        page.close()


def test_gradios_queue_still_reads_the_pauses_that_are_set() -> None:
    """Never below Gradio's own; setting an attribute that nobody reads would say nothing."""
    assert "asyncio.sleep(self.sleep_when_free)" in inspect.getsource(Queue.start_processing)
    assert "asyncio.sleep(self.progress_update_sleep_when_free)" in inspect.getsource(Queue.start_progress_updates)
    with gr.Blocks() as page:
        pass
    queue = page._queue
    assert queue.sleep_when_free < QUEUE_SLEEP, "no longer needed"
    assert queue.progress_update_sleep_when_free < PROGRESS_SLEEP, "no longer needed"
    poll_less(page)
    assert (queue.sleep_when_free, queue.progress_update_sleep_when_free) == (QUEUE_SLEEP, PROGRESS_SLEEP)
    queue.sleep_when_free = 0.2
    poll_less(page)
    assert queue.sleep_when_free == 0.2


def test_gradios_queue_would_still_end_by_an_unknown_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ours goes on after calls without a session, after more sessions than are kept, and after any failure."""

    def echo(text: str) -> str:
        return text

    with gr.Blocks() as page:
        gr.api(echo, api_name="echo")
    event: Any = SimpleNamespace(session_hash="gone", alive=True, _id="1")
    with pytest.raises(KeyError):
        page._queue.send_message(event, EstimationMessage(queue_size=1))
    _, url, _ = launch.serve(page, prevent_thread_lock=True, quiet=True)
    queue = page._queue
    try:
        with httpx.Client(base_url=url, timeout=30) as client:

            def join(session: str) -> int:
                asked = {"fn_index": 0, "data": ["a"], "session_hash": session}
                return client.post("gradio_api/queue/join", json=asked).status_code

            assert [join(name) for name in ("", "", "", "", "long" * 99)] == [400] * 5
            for name, body in (
                ("queue/join", {"fn_index": -1, "data": ["secret"], "session_hash": "a"}),
                ("call/no", {}),
            ):
                assert client.post(f"gradio_api/{name}", json={"data": ["secret"], **body}).status_code == 400
            assert client.get("", params={"page": "no"}).status_code == 400
            assert "secret" not in caplog.text and "Traceback" not in caplog.text
            queue.pending_messages_per_session.max_size = 2
            assert [join(f"session {number}") for number in range(9)] == [200] * 9
            broken = [RuntimeError("nobody foresaw this")]
            next_events = queue.get_events
            monkeypatch.setattr(queue, "get_events", lambda: 1 / 0 if broken and broken.pop() else next_events())
            assert join("mine") == 200
            events = client.get("gradio_api/queue/data", params={"session_hash": "mine"}).text
            assert '"process_completed"' in events and not broken
            assert client.get("readyz").status_code == 200
            queue.stopped = True
            assert client.get("readyz").json()["status"] == "failing"
    finally:
        page.close()


def test_gradio_would_still_trust_other_pages_of_this_machine() -> None:
    cors = CustomCORSMiddleware(None)  # type: ignore[arg-type]  # it is not called
    headers = Headers({"host": "127.0.0.1:7860", "origin": "http://localhost:9"})
    assert inspect.unwrap(CustomCORSMiddleware.is_valid_origin)(cors, headers), "no longer needed"
    judge_origins(is_own)
    assert not cors.is_valid_origin(headers)
    assert cors.is_valid_origin(Headers({"host": "127.0.0.1:7860", "origin": "http://127.0.0.1:7860"}))


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


def test_gradio_would_still_write_its_stubs(tmp_path: Path) -> None:
    source = tmp_path / "own.py"
    source.write_text("import gradio\n\n\nclass Own(gradio.Textbox):\n    EVENTS = []\n", "utf-8")
    stub = source.with_suffix(".pyi")
    run_path(str(source))
    assert not stub.exists()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inspect, "getfile", lambda thing: str(source))
        run_path(str(source))
    assert stub.exists(), "no longer needed"


def test_gradios_own_scripts_still_run_before_what_launch_adds_to_the_head() -> None:
    """Its page has no place for ``launch(head=)``: scripts add that later."""
    template = Path(gr.__file__).parent / "templates" / "frontend" / "index.html"
    head, _, _ = template.read_text(encoding="utf-8").partition("</head>")
    assert '<script type="module"' in head, "what asks for animation frames is loaded elsewhere now"
    assert "config['head']" not in head, "no longer needed: the server places it"


def test_mcp_answers_would_still_be_python() -> None:
    answer_json()
    with gr.Blocks() as page:
        gr.HTML()
    server = GradioMCPServer(page)
    answer = {"finished": True, "text": "né “x”", "alpha": None}
    (content,) = inspect.unwrap(GradioMCPServer.postprocess_output_data)(server, [answer], "http://lab")
    assert content.text == str(answer), "no longer needed"
    (content,) = server.postprocess_output_data([answer], "http://lab")
    assert json.loads(content.text) == answer


def test_the_server_forgets_pages_that_are_gone() -> None:
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
