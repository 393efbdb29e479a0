"""What the server answers beside Gradio's routes: QR codes, files of runs, cards for links, rooms, health checks."""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import segno
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from . import first_load, unfurl
from .host import is_loopback
from .run.kept import KEPT_RUNS
from .run.rooms import Rooms

LONGEST_LINK = 1200
"""Characters that still make a QR code which a camera reads from a projector."""


def routes(loading: Callable[[], str], failing: Callable[[], str], everywhere: bool) -> list[Route]:
    """All routes; for the arguments see :func:`probes` and :func:`link_code`."""
    return [
        *first_load.routes(),
        Route("/qr", link_code(everywhere)),
        Route("/runs/{name}", trace_file),
        Route("/cards/{name}.png", unfurl.card),
        Route("/rooms/{room}/{question}", counting(Rooms()), methods=["GET", "POST", "PUT", "DELETE"]),
        *probes(loading, failing),
    ]


def lan_address() -> str:
    """The address of this machine in its network, or ""; finding it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
    return "" if is_loopback(address) else address


def qr_code(link: str) -> bytes:
    """A QR code (SVG)."""
    picture = io.BytesIO()
    segno.make_qr(link, error="m").save(picture, kind="svg", scale=4, light="white", xmldecl=False)
    return picture.getvalue()


def link_code(everywhere: bool = False) -> Callable[[Request], Response]:
    """The handler of ``/qr?link=…``: a link to this page as a QR code (SVG). It rejects links to
    other sites and links too long for a camera. A link to 127.0.0.1, which no other device can
    open, gets this machine's network address if the server listens ``everywhere``, otherwise status
    204."""

    def answer(request: Request) -> Response:
        link = request.query_params.get("link", "")
        hosts = {request.headers.get(name) for name in ("host", "x-forwarded-host")} - {None}
        try:
            url = urlsplit(link)
        except ValueError:
            url = urlsplit("")
        leads_here = url.scheme in {"http", "https"} and url.netloc in hosts
        if not leads_here or not link.isascii() or len(link) > LONGEST_LINK:
            return PlainTextResponse(f"Give a link to this page of at most {LONGEST_LINK} characters.", 400)
        if is_loopback(url.hostname):
            address = lan_address() if everywhere else ""
            if not address:
                return Response(status_code=204)  # not an error: the page explains what to do
            link = url._replace(netloc=address + (f":{url.port}" if url.port else "")).geturl()
        return Response(qr_code(link), media_type="image/svg+xml", headers={"X-Content-Type-Options": "nosniff"})

    return answer


def trace_file(request: Request) -> Response:
    """The handler of ``/runs/NAME``: a run's file. With ``?from=BYTE`` what follows that byte, as the
    file grows, until its race is over."""
    name, start = request.path_params["name"], request.query_params.get("from")
    if KEPT_RUNS.read(name, 0, 0) is None or not re.fullmatch("[0-9]{1,12}", "0" if start is None else start):
        return PlainTextResponse("This file isn't kept any more.", 404)
    kind, headers = f"application/{name.rpartition('.')[2]}", {"Cache-Control": "no-store"}
    if start is not None:  # neither Starlette nor a proxy may collect it: an event is shown when it happens
        headers |= {"Content-Encoding": "identity", "X-Accel-Buffering": "no"}
    content = KEPT_RUNS.follow(name, int(start or 0), wait=start is not None)
    return StreamingResponse(content, media_type=kind, headers=headers)


def counting(rooms: Rooms) -> Callable[[Request], Response]:
    """The handler of ``/rooms/ROOM/QUESTION``: how many chose each option, of how many pages, and which question the
    projector shows. A GET with ``voter`` joins, a POST with ``voter`` and ``option`` adds a choice. With the ``key`` of
    the page that opened the room, a PUT shows the question (``revealed``: with its answer), a DELETE closes it. The
    status is 403 with another key, 404 if the room isn't open."""

    def answer(request: Request) -> Response:
        room, question = request.path_params["room"], request.path_params["question"]
        query = request.query_params
        option, voter, key = (query.get(name, "") for name in ("option", "voter", "key"))
        ours = True
        if request.method == "PUT":
            ours = rooms.open(room, question, key, "revealed" in query)
        elif request.method == "DELETE":
            ours = rooms.close(room, key)
        if not ours:
            return PlainTextResponse("Only the page that opened this room can do that.", 403)
        rooms.join(room, voter)
        counted = request.method != "POST" or (
            option.isdecimal() and len(option) < 3 and rooms.guess(room, question, voter, int(option))
        )
        counts = rooms.counts(room, question)
        status = 404 if counts is None else 200 if counted else 400
        shown, revealed = rooms.shown(room)
        about = {"present": rooms.present(room, question), "shown": shown, "revealed": revealed}
        return JSONResponse({"counts": counts or [], **about}, status, {"Cache-Control": "no-store"})

    return answer


def probes(loading: Callable[[], str], failing: Callable[[], str] = str) -> list[Route]:
    """Health checks: ``/healthz`` succeeds while the server runs, ``/readyz`` once the models are loaded and while runs
    can start.

    Args:
        loading: returns what is being loaded, or "".
        failing: returns why no run can start, or "".
    """

    def ready(request: Request) -> Response:
        for status, words in (("failing", failing()), ("loading", loading())):
            if words:
                return JSONResponse({"status": status, "doing": words}, 503)
        return JSONResponse({"status": "ok"})

    return [Route("/healthz", lambda request: JSONResponse({"status": "ok"})), Route("/readyz", ready)]
