"""What is refused in front of Gradio: foreign pages, large and deeply nested bodies, too many uploads."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app import guard

HERE = "http://127.0.0.1:7860"


def client(private: bool = True, **options: Any) -> TestClient:
    async def length(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    routes = [Route("/{path:path}", length, methods=["GET", "POST", "PUT"])]
    return TestClient(
        Starlette(routes=routes, middleware=[Middleware(guard.Guard, private=lambda: private, **options)]), HERE
    )


@pytest.mark.parametrize(
    ("host", "origin", "other", "status"),
    [
        ("127.0.0.1:7860", None, None, 200),
        ("127.0.0.1:7860", HERE, None, 200),
        ("localhost:7860", "http://localhost:7860", None, 200),
        ("[::1]:7860", "http://[::1]:7860", None, 200),
        (
            "localhost:7860",
            "https://name-7860.app.github.dev",
            "name-7860.app.github.dev",
            200,
        ),  # an editor forwards
        ("127.0.0.1:7860", "http://127.0.0.1:80", None, 403),
        ("127.0.0.1:7860", "http://x.localhost:7860", None, 403),
        ("127.0.0.1:7860", "http://localhost.:7860", None, 403),
        ("127.0.0.1:7860", "http://0.0.0.0:7860", None, 403),
        ("127.0.0.1:7860", "null", "", 403),
        ("127.0.0.1:7860", "http://[", None, 403),
        ("rebound.example:7860", "http://rebound.example:7860", "127.0.0.1", 403),
        ("rebound.example:7860", None, None, 403),
        ("[", None, None, 403),
        ("", None, None, 403),
    ],
)
def test_a_private_server_is_driven_by_its_own_pages_only(
    host: str, origin: str | None, other: str | None, status: int
) -> None:
    """With any method; a public one may be asked from anywhere."""
    given = {"host": host, "origin": origin, "x-forwarded-host": other}
    headers = {name: value for name, value in given.items() if value is not None}
    for method in ("GET", "POST", "PUT"):
        assert client().request(method, "/", headers=headers).status_code == status
    assert client(private=False).post("/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200),
        (b'{"data": ["' + b'[{,\\"' * 50_000 + b'"], "session_hash": "a"}', 200),  # a text is no structure
        (b"[" * 20 + b"]" * 20, 200),
        (b"[" * 40 + b"]" * 40, 400),
        (b"[" + b"[]," * 300_000 + b"[]]", 400),
        (b"[" + b"1," * 300_000 + b"1]", 400),
        ("[]".encode("utf-16"), 400),
        (b'{"data": ["' + b'\\"' * 20_000, 200),  # a text that never ends: whoever reads it refuses it
        (b" " * (guard.BODY + 1), 413),
    ],
    ids=lambda part: str(part)[:12],
)
def test_a_body_is_read_if_it_can_be_parsed_quickly(body: bytes, status: int) -> None:
    """In parts, too, of which nobody gave the length."""
    began = time.process_time()
    for content in (body, (body[at : at + 2**16] for at in range(0, len(body), 2**16))):
        answer = client().post("/gradio_api/queue/join", content=content)
        assert answer.status_code == status and (status != 200 or answer.text == str(len(body)))
    assert time.process_time() - began < 2


def test_uploads_have_room_and_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "UPLOADS", 3 * guard.BLOCK)
    monkeypatch.setattr(guard, "UPLOADED", 2 * guard.BLOCK)
    uploading = client(uploads=tmp_path)

    def upload(size: int) -> int:
        return uploading.post(guard.UPLOAD, content=b"x" * size).status_code

    old, new = tmp_path / "a" / "old", tmp_path / "new"
    old.parent.mkdir()
    old.write_bytes(b"x" * 9 * guard.BLOCK)
    assert upload(10) == 507
    os.utime(old, (1, 1))
    assert upload(2 * guard.BLOCK) == 200 and not old.exists()
    new.write_bytes(b"x")
    assert upload(2 * guard.BLOCK) == 200 and upload(2 * guard.BLOCK + 1) == 413
    (tmp_path / "another").write_bytes(b"x")
    assert upload(2 * guard.BLOCK) == 507 and upload(guard.BLOCK) == 200
    assert uploading.post(guard.UPLOAD, content=iter([b"x"])).status_code == 413, "of unknown length"
