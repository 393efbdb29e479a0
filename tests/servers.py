"""An HTTP server on loopback, for tests of downloads and of attached servers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Loopback:
    """Serves while entered; ``answer(request)`` answers GET, HEAD and POST."""

    def __init__(self, answer: Callable[[Any], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):  # the client may have read enough
                    answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # of a client that leaves
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> Any:
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def send(request: Any, content: bytes = b"", status: int = 200, **headers: str) -> None:
    """A whole answer; header names have ``_`` for ``-``. HEAD is answered without the content."""
    request.send_response(status)
    for name, value in {"Content_Length": str(len(content)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)


def send_slowly(request: Any, content: bytes, released: threading.Event) -> None:
    """The first half, and the other when ``released`` is set; the headers were sent."""
    half = len(content) // 2
    request.wfile.write(content[:half])
    request.wfile.flush()
    released.wait(20)
    request.wfile.write(content[half:])
