"""Puts one script in front of all others of the page. Knows HTTP messages, nothing of the page.

``launch(head=)`` comes too late for a script that must be first: Gradio's own adds it once its modules run, and they
have taken their copies of the browser's functions by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class EarlyScript:
    """ASGI middleware: ``script`` becomes the first element of a page's head, where its first bytes hold ``<head>``.

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
