"""What every visitor loads first, made once for all of them: thirty phones that open one lesson share two processors.

The modules that the first tab needs are one script: a browser needs one request for all of them.
They are included without comments, and with other names in their imports; each becomes a ``data:``
address in an import map. The other tabs' modules are fetched when one of them opens; an export has
them all in its map, because a page from disk can fetch nothing.
"""

from __future__ import annotations

import gzip
import re
from asyncio import Lock
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from urllib.parse import quote

import brotli  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of some versions no types
import plotly  # type: ignore[import-untyped]  # it has no types
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .content.html import json_for_script

STATIC = Path(__file__).resolve().parent / "static"
MODULES = "modules.js"
FIRST = "sd/player_tab.js"
"""The module of the first tab."""
PLOTLY = Path(plotly.__file__).resolve().parent / "package_data" / "plotly.min.js"
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "br": partial(brotli.compress, quality=9),
    "gzip": partial(gzip.compress, compresslevel=6, mtime=0),
}
"""Content encoding -> how it is made, the smallest first. Browsers accept ``br`` over HTTPS and
from their own machine."""
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_BASE = re.compile(rb"<base [^>]*>")  # Gradio's page has it before its first script
_IMPORT = re.compile(r"""^((?:import|export|\}) ?.*from ')([^']+)(';)$""", re.MULTILINE)


def pick_encoding(headers: Headers) -> str:
    """The encoding in which a browser gets an answer; empty: as it is."""
    return next((name for name in PACKERS if name in headers.get("accept-encoding", "")), "")


def modules() -> dict[str, str]:
    """Every module of the page by its name in the import map, with its imports renamed."""

    def renamed(path: Path) -> str:
        folder = path.relative_to(STATIC).parent.as_posix()
        source = path.read_text(encoding="utf-8")
        if path.parent.name != "vendor":  # its comment names its licence
            source = _COMMENT.sub("", source)
        return _IMPORT.sub(lambda match: f"{match[1]}sd/{normpath(f'{folder}/{match[2]}')}{match[3]}", source)

    return {f"sd/{path.relative_to(STATIC).as_posix()}": renamed(path) for path in sorted(STATIC.rglob("*.js"))}


def _module(name: str) -> str:
    return modules()[name]


def first() -> set[str]:
    """The names of the modules that the first tab needs."""
    sources, needed, left = modules(), set[str](), {FIRST}
    while left:
        needed |= left
        left = {name for module in left for _, name, _ in _IMPORT.findall(sources[module])} - needed
    return needed


def import_map(sent: Iterable[str] | None = None) -> str:
    """The import map of all modules, as JSON; those in ``sent``, by default all, are inlined."""
    # A browser's tools show a module by its source URL.
    addresses = {
        name: f"data:text/javascript,{quote(f'{code}//# sourceURL={name}', safe=_PLAIN)}"
        if sent is None or name in sent
        else f"./{name}"
        for name, code in modules().items()
    }
    return json_for_script({"imports": addresses})


_PLAIN = " '()*!/;:@&=+$,?<>[]{}|^`~"
"""What a ``data:`` address holds unescaped, so that it stays short."""


def script() -> str:
    """A script that puts the import map into the page, behind itself."""
    return (
        "document.currentScript.after(Object.assign(document.createElement('script'), "
        f"{{type: 'importmap', text: {json_for_script(import_map(first()))}}}));"
    )


def routes() -> list[Route]:
    """The page's scripts, each compressed once: compressing Plotly takes 0.6 s."""
    later = modules().keys() - first()
    return [
        Route(f"/{MODULES}", _sends(script, *STATIC.rglob("*.js"))),
        *(Route(f"/{name}", _sends(partial(_module, name), STATIC / name.removeprefix("sd/"))) for name in later),
        Route(f"/{PLOTLY.name}", _sends(partial(PLOTLY.read_text, encoding="utf-8"), PLOTLY)),
    ]


def _sends(text: Callable[[], str], *files: Path) -> Callable[[Request], Awaitable[Response]]:
    """The handler that sends a script made of ``files``. A browser asks whether its copy is still
    good. In the event loop, so that thirty first visitors wait for one compression."""

    @lru_cache(maxsize=1 + len(PACKERS))
    def packed(changed: int, encoding: str) -> tuple[bytes, str]:
        raw = text().encode()
        return PACKERS.get(encoding, bytes)(raw), f'"{sha256(raw).hexdigest()[:16]}"'

    async def answer(request: Request) -> Response:
        encoding = pick_encoding(request.headers)
        body, tag = packed(max(path.stat().st_mtime_ns for path in files), encoding)
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if encoding:
            headers["Content-Encoding"] = encoding
        return Response(body, media_type="text/javascript", headers=headers)

    return answer


Worded = Callable[[bytes, str, str], bytes]
"""A page, a link's query and the server's address -> the page."""


class CachedResponses:
    """Middleware that keeps Gradio's page and scripts, compressed: making them takes 87 ms and 2 to
    6 ms (measured), sending less than one. The page depends on the address by which a visitor
    reaches the server, and on nothing else of a request.

    It puts ``scripts`` in front of all others in the page's head. ``launch(head=)`` comes too late
    for an import map, which must be there before the first module. ``named`` is the race in a
    link's query, and ``worded`` words the page for sites that show links (app/unfurl.py).
    """

    MOST = 400
    """Answers that are kept, the last ones; a page has 70 files."""
    ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")

    def __init__(
        self,
        app: ASGIApp,
        scripts: str = "",
        named: Callable[[str], str] = lambda query: "",
        worded: Worded | None = None,
    ) -> None:
        self.app, self.scripts, self.named, self.worded = app, scripts.encode(), named, worded
        self.kept: dict[tuple[str, ...] | None, list[Message]] = {}
        self.lock = Lock()

    def cache_key(self, scope: Scope) -> tuple[str, ...] | None:
        """The key under which an answer is kept; None: it isn't the same for everyone."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        headers = Headers(scope=scope)
        path, query = scope["path"], scope["query_string"]
        page = path == "/" and b"page=" not in query and b"deep_link=" not in query
        config = path == "/config" and not query  # for programs
        if not (page or config or path.startswith("/assets/")) or "range" in headers or "if-none-match" in headers:
            return None
        address = (headers.get(name, "") for name in self.ADDRESS)
        race = self.named(query.decode("latin-1")) if page else ""
        return (path, pick_encoding(headers), scope["scheme"], scope["root_path"], race, *address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        linked = scope.get("path") == "/" and scope.get("query_string")  # naming its race may read a trace
        key = await run_in_threadpool(self.cache_key, scope) if linked else self.cache_key(scope)
        if key is None and (scope["type"], scope.get("path")) != ("http", "/"):
            await self.app(scope, receive, send)
            return
        if key not in self.kept:
            async with self.lock:  # others wait for the same answer
                messages = self.kept.get(key) or await self.fetch(scope, receive)
                if key is not None and messages[0]["status"] == 200:
                    self.kept[key] = messages
                    if len(self.kept) > self.MOST:
                        del self.kept[next(iter(self.kept))]
        else:
            messages = self.kept[key]
        for message in messages:
            await send(message)

    async def fetch(self, scope: Scope, receive: Receive) -> list[Message]:
        """The whole answer; nothing is sent yet, so that a slow reader holds up nobody."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self.app({**scope, "headers": plain}, receive, keep)
        start, *rest = messages
        headers = MutableHeaders(raw=start["headers"])
        encoding = pick_encoding(Headers(scope=scope))
        body = b"".join(message.get("body", b"") for message in rest)
        if scope["path"] == "/":
            body = _BASE.sub(lambda match: match[0] + self.scripts, body, count=1)
            if self.worded:
                words = scope["query_string"].decode("latin-1"), str(Request(scope).base_url)
                body = await run_in_threadpool(self.worded, body, *words)  # it may read a trace
        if encoding and headers.get("content-type", "").startswith(("text/", "application/")):
            body, headers["content-encoding"] = PACKERS[encoding](body), encoding
            headers.add_vary_header("Accept-Encoding")
        headers["content-length"] = str(len(body))
        return [start, {"type": "http.response.body", "body": body}]
