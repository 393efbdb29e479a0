"""What every visitor loads first: made once, and the right one for each."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from app.first_load import FIRST, MODULES, STATIC, CachedResponses, first, import_map, modules, routes


@pytest.fixture
def client() -> TestClient:
    """A server whose every answer is another, and whose page fails at first."""
    made = count()

    def answer(request: Request) -> Response:
        number = next(made)
        return PlainTextResponse(f"{request.url.path} {number}", 200 if number else 503)

    paths = [Route(path, answer, methods=["GET", "POST"]) for path in ("/", "/assets/a.js", "/runs/a", "/config")]
    return TestClient(Starlette(routes=paths, middleware=[Middleware(CachedResponses)]))


def test_a_page_and_its_scripts_are_made_once_but_no_failure_is_kept(client: TestClient) -> None:
    assert client.get("/").status_code == 503
    texts = [
        client.get(path).text for path in ("/", "/", "/?lesson=gamma", "/assets/a.js", "/assets/a.js", *["/config"] * 2)
    ]
    assert texts == ["/ 1", "/ 1", "/ 1", "/assets/a.js 2", "/assets/a.js 2", "/config 3", "/config 3"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"host": "other.example"}),
        ("/", {"x-forwarded-host": "lab.example"}),
        ("/", {"x-forwarded-proto": "https"}),
        ("/", {"accept-encoding": "gzip"}),
        ("/", {"if-none-match": '"a"'}),
        ("/?deep_link=a", {}),
        ("/config?deep_link=a", {}),
        ("/?page=a", {}),
        ("/runs/a", {}),
    ],
)
def test_what_may_differ_between_visitors_is_asked_for_again(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    client.get("/")
    client.get("/")
    first = client.get(path, headers=headers).text
    assert first not in {client.get("/").text, client.get("/runs/a").text}


@pytest.mark.parametrize("accepted", ["gzip", "br", "identity"])
def test_what_is_kept_can_be_read_by_whom_it_is_for(client: TestClient, accepted: str) -> None:
    client.get("/")
    texts = {client.get("/", headers={"accept-encoding": accepted}).text for _ in range(2)}
    assert len(texts) == 1 and texts.pop().startswith("/ ")


def test_every_module_and_import_has_a_name_in_the_map() -> None:
    known = modules()
    assert len(known) == len([*STATIC.rglob("*.js")])
    asked = {
        name for code in known.values() for name in re.findall(r"^(?:import|export|\}).* from '(.+)';$", code, re.M)
    }
    assert asked <= known.keys()
    assert "licence" in known["sd/vendor/preact.js"] and "\n// ----" not in known["sd/page.js"]


def test_the_first_tab_needs_one_script_and_another_tab_fetches_the_rest() -> None:
    client, known = TestClient(Starlette(routes=routes())), modules()
    addresses = json.loads(import_map(first()))["imports"]
    assert addresses.keys() == known.keys() and FIRST in first() < known.keys()
    for name, address in addresses.items():
        assert address.startswith("data:") == (name in first())
        if name not in first():
            assert client.get(address[1:]).text == known[name]


def test_a_browser_that_has_the_modules_gets_them_once() -> None:
    client = TestClient(Starlette(routes=routes()))
    plain, *packed = (
        client.get(f"/{MODULES}", headers={"accept-encoding": accepted})
        for accepted in ("identity", "gzip", "gzip, br")
    )
    assert [one.headers["content-encoding"] for one in packed] == ["gzip", "br"]
    assert {one.text for one in packed} == {plain.text} and "content-encoding" not in plain.headers
    again = client.get(f"/{MODULES}", headers={"if-none-match": plain.headers["etag"]})
    assert again.status_code == 304 and not again.content
