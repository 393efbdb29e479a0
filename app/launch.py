"""Starts the server: flags, theme, limits."""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import os
import re
import signal
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import segno
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from specdiff_core import proxies
from specdiff_core.schema.errors import ConfigError, SpecDiffError, printable

from . import first_load
from .gradio_patches import answer_json, count_values, judge_origins, keep_queue, poll_less, skip_stubs
from .guard import Guard, is_own
from .host import is_loopback, is_public, served_to
from .run.engines import Engines
from .run.gpu import is_zero_gpu
from .run.kept import KEPT_RUNS
from .run.process import engines_elsewhere
from .run.rooms import Rooms
from .run.turns import TURNS
from .temporary import own_folder

LOG = logging.getLogger("specdiff.server")
DESCRIPTION = "SpecDiff Lab: watch speculative diffusion decoding race vanilla decoding. Works offline."
LONGEST_LINK = 1200
"""Characters that still make a QR code which a camera reads from a projector."""
SESSIONS = 100
"""How many of the last pages the server keeps in memory: 0.2 MB each (measured), plus the last
frame. Gradio's default is ten thousand."""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the flags; their defaults are Gradio's environment variables."""
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    parser.add_argument("--host", help="address to listen on (GRADIO_SERVER_NAME; default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (GRADIO_SERVER_PORT; default: first free one from 7860)")
    parser.add_argument("--share", action="store_true", default=None, help="make a public link (GRADIO_SHARE)")
    parser.add_argument("--root-path", help="path below which a proxy serves the page (GRADIO_ROOT_PATH)")
    about = "add a running vLLM, SGLang or llama.cpp server to every race, on a page that only this machine reaches"
    parser.add_argument("--attach", action="append", default=[], metavar="URL", help=about)
    options = parser.parse_args(argv)
    if options.port is not None and not is_free(options.host, options.port):  # before any model is loaded
        parser.error(f"port {options.port} is in use or cannot be used here; choose another, or leave --port out")
    return options


def attached(addresses: Sequence[str]) -> dict[str, Any]:
    """The servers at ``addresses``, by lane; a process with wrong ones ends, and says why."""
    if not addresses:
        return {}
    try:
        if is_public():
            hint = "Leave out --attach, or whatever lets others in (--host, --share, --root-path)."
            raise ConfigError("A page that others reach calls no server.", field="attach", hint=hint)
        from specdiff_core.attached import attach

        return dict(attach(*addresses))
    except SpecDiffError as error:
        raise SystemExit(f"error: {error.message}\nhint: {error.hint}") from error


def is_free(host: str | None, port: int) -> bool:
    """Whether a server can listen there now."""
    family = socket.AF_INET6 if ":" in (host or "") else socket.AF_INET
    try:
        socket.create_server((host or "127.0.0.1", port), family=family).close()
    except (OSError, OverflowError):
        return False
    return True


def theme() -> Any:
    """The palette's roles as a Gradio theme; the CSS properties switch with the dark class."""
    import gradio as gr

    fonts = ["Inter", "system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "SF Mono", "Menlo", "Cascadia Mono", "Consolas", "DejaVu Sans Mono", "monospace"]
    roles = {
        "page": "body_background_fill",
        "ink": "body_text_color button_secondary_text_color",
        "muted": "body_text_color_subdued block_label_text_color block_title_text_color input_placeholder_color",
        "card": "background_fill_primary block_background_fill button_secondary_background_fill",
        "raised": "background_fill_secondary input_background_fill button_secondary_background_fill_hover",
        "line": "border_color_primary",
        "edge": "button_secondary_border_color checkbox_border_color",
        "accent": "border_color_accent input_border_color_focus slider_color link_text_color "
        "button_primary_background_fill button_primary_border_color checkbox_background_color_selected",
        "on-accent": "button_primary_text_color",
        "deep": "button_primary_background_fill_hover link_text_color_hover",
        "draft-tint": "color_accent_soft",
    }
    colours = {
        f"{name}{mode}": f"var(--sd-{role})"
        for role, names in roles.items()
        for name in names.split()
        for mode in ("", "_dark")
    }
    base = gr.themes.Base(font=fonts, font_mono=mono, radius_size="md", spacing_size="sm", text_size="md")
    return base.set(block_shadow="none", block_border_width="1px", button_border_width="1px", **colours)


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
        content = {
            "counts": counts or [],
            "present": rooms.present(room, question),
            "shown": shown,
            "revealed": revealed,
        }
        return JSONResponse(content, status, {"Cache-Control": "no-store"})

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


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, run id."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if run := getattr(record, "run", ""):
            entry["run"] = run
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class Printing(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on
    """Logs to stderr, without control characters from outside."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr() -> None:
    """Log to stderr, as text, or as JSON with ``SPECDIFF_LOG=json``."""
    handler = Printing()
    people = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if os.environ.get("SPECDIFF_LOG") == "json" else people)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)


def serve(page: Any, *, loading: Callable[[], str] = str, uploads: Path | None = None, **overrides: Any) -> Any:
    """Launch a built page with this project's options; ``overrides`` go to ``Blocks.launch``.

    Args:
        loading: see :func:`probes`.
        uploads: see :class:`app.guard.Guard`.
    """
    from . import unfurl
    from .page import head

    page.queue(max_size=64, default_concurrency_limit=8)
    poll_less(page)
    keep_queue(page)
    count_values(page)
    answer_json()

    def private() -> bool:
        return not (is_public() or page.share)  # on Colab, Gradio shares without being asked

    judge_origins(lambda headers: not private() or is_own(headers))

    def failing() -> str:
        return "The queue has stopped." if page._queue.stopped else KEPT_RUNS.failing()

    host = overrides.get("server_name") or os.environ.get("GRADIO_SERVER_NAME")
    routes = [
        *first_load.routes(),
        Route("/qr", link_code(host in {"0.0.0.0", "::"})),
        Route("/runs/{name}", trace_file),
        Route("/cards/{name}.png", unfurl.card),
        Route("/rooms/{room}/{question}", counting(Rooms()), methods=["GET", "POST", "PUT", "DELETE"]),
        *probes(loading, failing),
    ]
    # Gradio compresses its scripts only. Event streams are not compressed.
    scripts = f'<script src="./{first_load.MODULES}"></script>'
    kept = Middleware(first_load.CachedResponses, scripts=scripts, named=unfurl.linked_race, worded=unfurl.with_tags)
    middleware = [
        Middleware(Guard, private=private, uploads=uploads),
        kept,
        Middleware(GZipMiddleware, compresslevel=6),
    ]
    options: dict[str, Any] = {
        "app_kwargs": {"middleware": middleware, "routes": routes},
        "theme": theme(),
        "head": head(),
        "footer_links": [],
        "ssr_mode": False,
        "pwa": False,
        "max_threads": 200,  # one for each job in the queues (run/turns.py), and some
        "max_file_size": "32mb",
        "state_session_capacity": SESSIONS,
        "mcp_server": True,
        "show_error": False,
        "run_history": False,
        "enable_monitoring": False,
        "_frontend": False,  # Gradio would end if its own page takes longer than three seconds, as on a busy machine
    }
    return page.launch(**(options | overrides))


def mend_environment() -> None:
    """Remove variables with which Gradio cannot be imported; each is logged."""
    for removed in proxies.mend():
        LOG.warning(removed)
    for name in ("GRADIO_SERVER_PORT", "GRADIO_NUM_PORTS"):  # Kubernetes sets tcp://… for a service of that name
        if not os.environ.get(name, "0").isdecimal():
            LOG.warning("%s is ignored: %r is not a number", name, os.environ.pop(name))


def _interrupt(signum: int, frame: Any) -> None:
    """Stop once: Ctrl-C arrives twice, from the terminal and from ``./lab``."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    TURNS.close()
    LOG.info("%s: no further run starts; the current one ends after its pass", signal.Signals(signum).name)
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Build the page and serve it until it is interrupted: ``python app.py``, or ``specdiff page`` once installed."""
    options = arguments(argv)
    for name in (signal.SIGINT, signal.SIGTERM):  # scripts' background processes ignore them
        signal.signal(name, _interrupt)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    log_to_stderr()
    mend_environment()
    uploads = None
    if "GRADIO_TEMP_DIR" not in os.environ:
        uploads = own_folder()
        os.environ["GRADIO_TEMP_DIR"] = str(uploads)

    public = (options.share, options.root_path, os.environ.get("GRADIO_SHARE"), os.environ.get("GRADIO_ROOT_PATH"))
    served_to(options.host, shared=any(public))
    servers = attached(options.attach)
    engines = Engines() if is_zero_gpu() else engines_elsewhere()
    engines.prepare()  # models load while the page is built
    skip_stubs()
    from .page import build  # takes seconds: it imports Gradio

    page = build(engines, servers=servers)
    serve(
        page,
        loading=engines.loading,
        uploads=uploads,
        server_name=options.host,
        server_port=options.port,
        share=options.share,
        root_path=options.root_path,
    )
    LOG.info("the server has stopped, and the decoding process with it")
    gc.freeze()  # otherwise the interpreter looks through all objects before it ends, for seconds
    return 0
