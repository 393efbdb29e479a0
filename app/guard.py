"""Refuses requests in front of Gradio: of pages of other origins to a private server, and with bodies that are too
large, too deeply nested or malformed."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .host import is_loopback
from .temporary import BLOCK

LOG = logging.getLogger("specdiff.server")

BODY = 2**20
"""Most bytes of a body, except an upload's. The longest prompts and texts have a tenth."""
VALUES, DEPTH = 10_000, 32
"""Most lists, objects and commas of a body as JSON, and their nesting; checked because parsing them takes seconds."""
API_PREFIX = "/gradio_api/"
UPLOAD = f"{API_PREFIX}upload"
UPLOADED = 2**25 + 2**16
"""Most bytes of an upload: a file of 32 MB and its form."""
UPLOADS, AGE = 2**28, 600.0
"""Most bytes of all uploads; those older than so many seconds are removed."""
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # one that never ends is searched once
_OTHERS = bytes(byte for byte in range(256) if byte not in b"[]{},")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}


def is_own(headers: Headers) -> bool:
    """Whether a request comes from one of this server's pages, or from a program on this machine. A private server
    answers only at loopback names: another name was pointed here by a foreign page (DNS rebinding). A page can't set
    ``X-Forwarded-Host`` elsewhere without being allowed to (see :func:`app.gradio_patches.judge_origins`)."""
    host, origin = headers.get("host", ""), headers.get("origin")
    try:
        local = is_loopback(urlsplit(f"//{host}").hostname)
        page = host if origin is None else urlsplit(origin).netloc
    except ValueError:
        return False
    return local and bool(page) and page in {host, headers.get("x-forwarded-host")}


def check_json(body: bytes | bytearray) -> None:
    """Raise HTTPException if a body would take long to parse: it has too many values, or is nested too deeply."""
    marks = _STRING.sub(b"", body).translate(None, _OTHERS)
    values = len(marks) - marks.count(b"]") - marks.count(b"}")
    deepest = max(accumulate(_STEPS[mark] for mark in marks), default=0) if values <= VALUES else DEPTH + 1
    if deepest > DEPTH or b"\0" in body:  # UTF-16 would hide its marks
        raise HTTPException(400, f"Send JSON in UTF-8 with at most {VALUES:,} values, nested up to {DEPTH} times.")


class Guard:
    """The middleware.

    Args:
        private: whether only this machine may reach the server.
        uploads: the folder in which Gradio stores uploads, if only this server uses it.
    """

    def __init__(self, app: ASGIApp, private: Callable[[], bool], uploads: Path | None = None) -> None:
        self.app, self._private, self._uploads = app, private, uploads
        self._arriving = 0  # bytes of current uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arriving = 0
        if scope["type"] == "http":
            try:
                receive, arriving = await self._checked(scope, receive)
            except HTTPException as refused:
                await PlainTextResponse(refused.detail, refused.status_code)(scope, receive, send)
                return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        self._arriving += arriving
        try:
            await self.app(scope, receive, answer)
        except Exception as error:
            path = scope.get("path", "")
            if started or not (path == "/" or API_PREFIX in path):
                raise
            # Functions fail in the queue: what Gradio's routes raise is of malformed calls. They may hold a prompt.
            LOG.info("a call of %s was malformed (%s)", path[:80], type(error).__name__)
            await PlainTextResponse("The server can't read this call.", 400)(scope, receive, send)
        finally:
            self._arriving -= arriving

    async def _checked(self, scope: Scope, receive: Receive) -> tuple[Receive, int]:
        """What receives the body of a request, and its bytes if it is an upload. Raises HTTPException to refuse it."""
        headers = Headers(scope=scope)
        if self._private() and not is_own(headers):
            what = "This lab is private: open it at http://127.0.0.1. To serve it behind a proxy, give --root-path."
            raise HTTPException(403, what)
        if scope["path"].endswith(UPLOAD):
            return receive, self._admit(headers)
        if "content-length" in headers or "transfer-encoding" in headers:
            receive = await self._read(headers, receive)
        return receive, 0

    async def _read(self, headers: Headers, receive: Receive) -> Receive:
        """Read a whole body and check it; returns what receives it again."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(400, "The connection was closed.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > BODY:
                raise HTTPException(413, f"Send at most {BODY:,} bytes.")
        if not headers.get("content-type", "").startswith("multipart/"):
            check_json(body)
        read: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return read.pop() if read else await receive()

        return again

    def _admit(self, headers: Headers) -> int:
        """Remove old uploads, and return the bytes of this one if there is room for it."""
        length = int(headers.get("content-length") or UPLOADED + 1)
        if length > UPLOADED:
            raise HTTPException(413, f"Send at most {UPLOADED:,} bytes, with their number in Content-Length.")
        room = UPLOADS - self._arriving - length
        for path in self._uploads.rglob("*") if self._uploads else ():
            if path.is_file() and time.time() - path.stat().st_mtime > AGE:
                path.unlink()
            elif path.is_file():
                room -= max(BLOCK, path.stat().st_size)
        if room < 0:
            raise HTTPException(507, "Too many files were uploaded. Try again in ten minutes.")
        return length
