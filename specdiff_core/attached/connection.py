"""A connection to a server that is not trusted: limits of time and bytes on every answer, and errors that say what
to do."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError, ServerError, one_line

KEY = "SPECDIFF_ATTACH_KEY"  # environment variable: the server's API key, if it needs one
LINE_BYTES = 1_000_000  # of a line, or of an answer without a stream
_TIMEOUT = httpx.Timeout(10.0, read=300.0)
HTTP = "an address such as http://127.0.0.1:8000"


def _client(address: str) -> httpx.Client:
    """A client: direct for servers on this machine, through the environment's proxy for others.
    Raises ConfigError if the key has invalid characters; the message does not repeat it."""
    host = urlsplit(address).hostname
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        what = f"The key in {KEY} has characters that cannot be sent."
        raise ConfigError(what, field="attach", hint="Copy it again: one line of letters, digits and signs.")
    return httpx.Client(
        base_url=address,
        timeout=_TIMEOUT,
        headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        trust_env=host not in ("localhost", "127.0.0.1", "::1"),
    )


class Deadline:
    """When a connection is closed: after ``most`` seconds, or earlier, such as when it is stopped. That is no error
    once the answer is complete or stopped."""

    def __init__(self, most: float, stop: Stop | None = None) -> None:
        self._most = self.at, self.seconds = time.monotonic() + most, most
        self._stop, self.complete = stop, False

    @property
    def left(self) -> float:
        """Seconds."""
        if self._stop is not None and self._stop.is_set():
            self.complete = True
            return 0.0
        return self.at - time.monotonic()

    def within(self, seconds: float) -> None:
        """Close it so many seconds from now."""
        self.at, self.seconds = min(self._most, (time.monotonic() + seconds, seconds))


@contextlib.contextmanager
def _within(deadline: Deadline, name: str) -> Iterator[dict[str, Any]]:
    """Request extensions that close the connection at its deadline, which is a ServerError unless its answer
    is complete (httpx limits single reads only)."""
    sockets: list[socket.socket] = []
    late, over = threading.Event(), threading.Event()

    def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            sockets.append(info["return_value"].get_extra_info("socket"))
            if late.is_set():
                shut_down()

    def watch() -> None:
        while (left := deadline.left) > 0:
            if over.wait(min(left, 0.2)):  # it may come earlier meanwhile
                return
        late.set()
        shut_down()

    def shut_down() -> None:
        for connection in sockets:
            with contextlib.suppress(OSError):  # it is closed, or TLS has taken it over
                connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield {"trace": trace}
    except Exception:  # an answer that was cut off raises anything
        if not late.is_set():
            raise
    finally:
        over.set()
    if late.is_set() and not deadline.complete:
        raise ServerError(f"{name} takes longer than {deadline.seconds:g} s.")


def parts(answer: httpx.Response, name: str, limit: int) -> Iterator[bytes]:
    """The body of an answer, as it arrives. Raises ServerError if it is longer than ``limit``
    bytes, or compressed, which could hide a gigabyte."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise ServerError(f"{name} compresses its answers.", hint="Turn compression off, there or in its proxy.")
    size = 0
    for part in answer.iter_raw():
        size += len(part)
        if size > limit:
            raise ServerError(f"{name} sends more than {limit // 10**6} MB.")
        yield part


def whole(answer: httpx.Response, name: str, limit: int = LINE_BYTES) -> bytes:
    """The body of an answer without a stream (:func:`parts`)."""
    return b"".join(parts(answer, name, limit))


def lines(body: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Lines of a stream, split at line feeds only: text may contain other separators. Raises
    ServerError if one is longer than ``LINE_BYTES``."""
    line = bytearray()
    for part in body:
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > LINE_BYTES:
            raise ServerError(f"{name} sends a line of more than {LINE_BYTES // 10**6} MB.")
    yield bytes(line)


@contextlib.contextmanager
def requested(
    address: str, name: str, method: str, path: str, deadline: Deadline, **body: Any
) -> Iterator[httpx.Response]:
    """Send a request; failures of the connection, also while reading, are ServerErrors about ``name``."""
    try:
        with (
            _client(address) as client,
            _within(deadline, name) as extensions,
            client.stream(method, path, extensions=extensions, **body) as answer,
        ):
            yield answer
    except httpx.ConnectError as error:
        raise ServerError(f"Cannot connect to {name}: {error}.", hint="Check that it runs, and its port.") from error
    except httpx.TimeoutException as error:
        raise ServerError(f"{name} sent nothing for too long.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerError(f"The connection to {name} broke off: {one_line(str(error))[:200]}.") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerError(f"{name} sent an invalid event: {error}.") from error
    except (ValueError, ImportError) as error:  # impossible host names, kinds of proxies that httpx lacks
        raise ServerError(f"{name} cannot be reached: {error}.", hint=f"Check the proxy, and give {HTTP}.") from error


def refusal(name: str, status: int, body: bytes) -> ServerError:
    hint = f"Set {KEY} to its key." if status in (401, 403) else ""
    return ServerError(f"{name} refuses with status {status}: {message(body)}", hint=hint)


def message(body: bytes) -> str:
    """The message of a server's error, from its JSON, in one line."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        said = body.decode("utf-8", errors="replace")
    for name in ("error", "message", "detail"):
        said = said.get(name, said) if isinstance(said, dict) else said
    return one_line(str(said))[:200].rstrip(".") + "."
