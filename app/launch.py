"""Starts the server: reads the flags, builds the page, and launches it with its routes, middleware and limits."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from specdiff_core import proxies
from specdiff_core.schema.errors import ConfigError, SpecDiffError

from . import first_load, unfurl
from .gradio_patches import answer_json, count_values, judge_origins, keep_queue, poll_less, skip_stubs
from .guard import Guard, is_own
from .host import is_public, served_to
from .logs import log_to_stderr
from .looks import head, theme
from .routes import routes
from .run.engines import Engines
from .run.gpu import is_zero_gpu
from .run.kept import KEPT_RUNS
from .run.process import engines_elsewhere
from .run.runner import load_here
from .run.turns import TURNS
from .temporary import own_folder

LOG = logging.getLogger("specdiff.server")
DESCRIPTION = "SpecDiff Lab: watch speculative diffusion decoding race vanilla decoding. Works offline."
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
        from specdiff_core.attached.server import attach

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


def serve(page: Any, *, loading: Callable[[], str] = str, uploads: Path | None = None, **overrides: Any) -> Any:
    """Launch a built page with this project's options; ``overrides`` go to ``Blocks.launch``.

    Args:
        loading: see :func:`app.routes.probes`.
        uploads: see :class:`app.guard.Guard`.
    """
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
    # Gradio compresses its scripts only. Event streams are not compressed.
    scripts = f'<script src="./{first_load.MODULES}"></script>'
    kept = Middleware(first_load.CachedResponses, scripts=scripts, named=unfurl.linked_race, worded=unfurl.with_tags)
    middleware = [
        Middleware(Guard, private=private, uploads=uploads),
        kept,
        Middleware(GZipMiddleware, compresslevel=6),
    ]
    options: dict[str, Any] = {
        "app_kwargs": {"middleware": middleware, "routes": routes(loading, failing, host in {"0.0.0.0", "::"})},
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
    for removed in proxies.drop_unusable():
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
    engines = Engines(load_here) if is_zero_gpu() else engines_elsewhere()
    engines.start_in_background()  # models load while the page is built
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
