"""The server's other answers: QR codes of links, and votes of rooms."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from app import routes
from app.run import rooms
from app.run.rooms import Rooms


def codes(address: str, *, everywhere: bool = False) -> TestClient:
    """A client of the server that makes QR codes, at this address."""
    return TestClient(Starlette(routes=[Route("/qr", routes.link_code(everywhere))]), base_url=address)


def test_the_code_of_a_link_leads_to_this_page_only() -> None:
    client = codes("http://lab.example:7860")
    link = "http://lab.example:7860/?lesson=gamma&step=2&prompt=caf%C3%A9"
    answer = client.get("/qr", params={"link": link})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.content == routes.qr_code(link) != routes.qr_code(link[:-1])
    behind = {"host": "inner", "x-forwarded-host": "lab.example:7860"}  # a proxy
    assert client.get("/qr", params={"link": link}, headers=behind).status_code == 200
    refused = ["", "javascript:alert(1)", "http://[", "//lab.example:7860/", "http://elsewhere.example/", link * 20]
    refused += ["http://lab.example:7860@elsewhere.example/", "http://lab.example/", "ftp://lab.example:7860/"]
    refused += ["http://lab.example:7860/" + "\N{GRINNING FACE}" * 1100]
    assert {client.get("/qr", params={"link": bad}).status_code for bad in refused} == {400}


KEY = "0" * 12
"""Of the projector of a room."""


def test_a_room_counts_each_page_once_for_a_question() -> None:
    count, methods = routes.counting(Rooms()), ["GET", "POST", "PUT", "DELETE"]
    client = TestClient(Starlette(routes=[Route("/rooms/{room}/{question}", count, methods=methods)]))
    room, (one, other), key = "/rooms/0123456789ab/gamma-guess", ("a" * 12, "b" * 12), f"?key={KEY}"
    assert client.get(room).status_code == client.post(f"{room}?voter={one}&option=0").status_code == 404, "not open"
    assert client.put(f"/rooms/zzzzzz/gamma-guess{key}").status_code == 404, "no code of a room"
    opened = {"counts": [], "present": 0, "shown": "gamma-guess", "revealed": False}
    assert client.put(room + key).json() == opened
    assert client.get(f"{room}?voter={'c' * 12}").json() == opened | {"present": 1}, "it looks, and hasn't voted"
    for voter, option in ((one, 0), (other, 2), (one, 2)):  # the first choice counts
        assert client.post(f"{room}?voter={voter}&option={option}").status_code == 200
    for method in ("PUT", "DELETE"):  # every page of the room knows its code
        assert {client.request(method, room + wrong).status_code for wrong in ("", f"?key={one}", "?key=x")} == {403}
    assert client.delete(room + key).status_code == 404
    assert client.post(f"{room}?voter={one}&option=0").status_code == 404, "it is closed"
    voted = opened | {"counts": [1, 0, 1], "present": 3}
    assert client.put(room + key).json() == client.get(room).json() == voted
    assert client.put(f"{room}{key}&revealed").json() == voted | {"revealed": True}
    client.put(f"/rooms/0123456789ab/gamma-watch{key}")
    shown = {"counts": [], "present": 3, "shown": "gamma-watch", "revealed": False}
    assert client.get("/rooms/0123456789ab/gamma-answer").json() == shown
    for wrong in (f"{room}?voter=Ada&option=1", f"{room}?voter={one}&option=99", f"{room}?voter={one}&option=x"):
        assert client.post(wrong).status_code == 400


def test_a_page_that_has_left_is_not_present_but_its_vote_counts() -> None:
    now = [0.0]
    kept, room, question = Rooms(clock=lambda: now[0]), "0" * 12, "gamma-guess"
    kept.join(room, "a" * 12)
    assert kept.present(room, question) == 0, "not open"
    kept.open(room, question, KEY)
    for voter in ("a" * 12, "b" * 12, "Ada"):
        kept.join(room, voter)
    assert kept.guess(room, question, "b" * 12, 0) and kept.present(room, question) == 2
    now[0] = rooms.PRESENT + 1
    assert kept.present(room, question) == 1 and kept.present(room, "gamma-answer") == 0
    for number in range(rooms.VOTERS + 1):
        kept.join(room, f"{number:012x}")
    assert kept.present(room, "gamma-answer") <= rooms.VOTERS


def test_rooms_are_bounded_and_those_in_use_stay() -> None:
    now, names = [0.0], [f"{number:012x}" for number in range(rooms.ROOMS + 1)]
    kept = Rooms(clock=lambda: now[0])
    for name in names:
        kept.open(name, "gamma-guess", KEY)
        kept.join(name, "a" * 12)
        assert kept.guess(name, "gamma-guess", "a" * 12, 1) == (name != names[-1])
    now[0] = rooms.PRESENT  # nobody is left but in all rooms after the first
    for name in names[1:-1]:
        kept.join(name, "a" * 12)
    for name in ("e" * 12, "f" * 12):  # the second takes the place of one that nobody has joined
        kept.open(name, "gamma-guess", KEY)
    assert kept.counts(names[0], "gamma-guess") is None and kept.shown(names[0]) == ("", False)
    assert kept.counts(names[1], "gamma-guess") == [0, 1]
    assert [kept.counts(name * 12, "gamma-guess") for name in "ef"] == [None, []]
    room = "f" * 12
    questions = [kept.guess(room, "q" * (1 + number), "a" * 12, 0) for number in range(rooms.QUESTIONS)]
    voters = [kept.guess(room, "q", f"{number:012x}", 0) for number in range(rooms.VOTERS)]
    assert questions == [True] * (rooms.QUESTIONS - 1) + [False] and voters == [True] * (rooms.VOTERS - 1) + [False]
    kept.open(room, "gamma-answer", KEY)  # what its projector shows can be answered
    assert kept.guess(room, "gamma-answer", "a" * 12, 0) and len(kept.counts(room, "q") or []) == 1


def test_phones_can_open_the_code_of_a_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    link = "http://127.0.0.1:7860/?lesson=gamma"
    for everywhere, address, status in ((False, "192.168.0.7", 204), (True, "", 204), (True, "192.168.0.7", 200)):
        monkeypatch.setattr(routes, "lan_address", lambda address=address: address)
        answer = codes("http://127.0.0.1:7860", everywhere=everywhere).get("/qr", params={"link": link})
        assert answer.status_code == status
    assert answer.content == routes.qr_code("http://192.168.0.7:7860/?lesson=gamma")
