"""Attached servers: stand-ins that speak the documented wire formats of vLLM, SGLang, llama.cpp and
plain OpenAI; and a real llama-cpp-python server where one is installed."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import httpx
import pytest
from app_fakes import FakeDecoder
from servers import Loopback, send, unused

import specdiff_core.attached.server as attached
from app import host, launch
from app.run.record import Ask, decoding
from specdiff_core import cli
from specdiff_core.attached.connection import KEY
from specdiff_core.attached.protocol import KINDS
from specdiff_core.attached.server import Attached, ask, attach
from specdiff_core.schema.errors import ConfigError, ServerError
from specdiff_core.schema.events import Committed, Event, Failed, Finished, PiecesSeen, Quoted, RunStarted
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.reported import Counts
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import run_summary
from specdiff_core.schema.trace import read_trace, write_trace

ROOT = Path(__file__).resolve().parent.parent
CONFIG = DecodeConfig(max_new_tokens=6)

DONE = b"data: [DONE]\n\n"
Body = dict[str, Any]
Answer = Callable[[Body], list[bytes]]


def sse(*chunks: Any) -> list[bytes]:
    """Each chunk as an event of a stream; text keeps its separators, as the servers send it."""
    return [b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks]


def choice(text: str, **more: Any) -> Body:
    return {"id": "cmpl-1", "object": "text_completion", "choices": [{"index": 0, "text": text, **more}]}


TEXT = ", a\u2028cat."
VLLM = [
    choice(",", token_ids=[11], prompt_token_ids=[1, 2], usage={"completion_tokens": 1}, finish_reason=None),
    choice(" a\u2028", token_ids=[12, 13, 14], usage={"completion_tokens": 4}, finish_reason=None),
    choice("cat.", token_ids=[11, 15], finish_reason="length", stop_reason=None, usage={"completion_tokens": 6}),
]
VLLM_COUNTS = {
    "mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5, "acceptance_histogram": [0, 1, 1],
    "num_spec_steps": 2, "num_accepted_draft_tokens": 3, "num_draft_tokens": 6,
    "num_spec_tokens": 3, "per_step_accepted": [2, 1], "per_step_drafted": [3, 3],
}  # fmt: skip
VLLM_END = {
    "choices": [],
    "usage": {"prompt_tokens": 2, "completion_tokens": 6},
    "metrics": {"tokens_per_second": 103.2, "speculative_decoding": VLLM_COUNTS},
}
SGLANG = [{**chunk, "sglext": None} for chunk in VLLM]
SGLANG_COUNTS = {
    "spec_accept_length": 2.5,
    "spec_num_correct_drafts": 3,
    "spec_num_proposed_drafts": 6,
    "spec_verify_ct": 2,
}
SGLANG_END = [
    {"choices": [], "sglext": {"spec_tokens_details": SGLANG_COUNTS}},
    {"choices": [], "usage": {"completion_tokens": 6}},
]
TIMINGS = {"predicted_n": 6, "predicted_per_second": 103.2, "draft_n": 6, "draft_n_accepted": 3}
LLAMA = [
    *(
        {"index": 0, "content": text, "tokens": [1], "stop": False, "id_slot": 0, "tokens_predicted": count}
        for text, count in ((",", 1), (" a\u2028", 4), ("cat.", 6))
    ),
    {"index": 0, "content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 6, "timings": TIMINGS},
]
PLAIN = [choice(","), choice(" a\u2028"), choice("cat."), choice("", finish_reason="length")]

FORMATS: dict[str, tuple[str, list[bytes], Quoted | None]] = {
    "vllm": ("vLLM", sse(*VLLM, VLLM_END) + [DONE], Quoted(steps=2, drafted=6, accepted=3, tokens_per_second=103.2)),
    "sglang": ("SGLang", sse(*SGLANG, *SGLANG_END) + [DONE], Quoted(steps=2, drafted=6, accepted=3)),
    "llamacpp": ("llama.cpp", sse(*LLAMA), Quoted(steps=2, drafted=6, accepted=3, tokens_per_second=103.2)),
    "someone": ("server", [b": keeps the line open\n\n", *sse(*PLAIN), DONE], None),
}


class StandIn(Loopback):
    """A server of one kind. ``asked`` holds what it was sent: path, body and key."""

    def __init__(
        self,
        owner: str,
        answer: Answer,
        *,
        models: Any = None,
        status: int = 200,
        cut: bool = False,
        encoding: str = "identity",
        metrics: Sequence[bytes] = (),
    ) -> None:
        super().__init__(self.respond)
        self.metrics = iter(metrics)
        self.asked: list[tuple[str, Body, str | None]] = []
        self.listed = {"data": [{"id": "tiny", "owned_by": owner}]} if models is None else models
        self.answer, self.status, self.cut, self.encoding = answer, status, cut, encoding

    def respond(self, request: Any) -> None:
        if request.path == "/metrics":
            content = next(self.metrics, None)
            return send(request, content or b"", 404 if content is None else 200)
        if request.command == "GET":
            known = request.path == "/v1/models" and self.listed is not False
            content = json.dumps(self.listed).encode() if known else b"<html>nothing here</html>"
            return send(request, content, 200 if known else 404)
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        self.asked.append((request.path, body, request.headers["Authorization"]))
        request.send_response(self.status)
        request.send_header("Transfer-Encoding", "chunked")
        request.send_header("Content-Encoding", self.encoding)
        request.end_headers()
        request.close_connection = True
        for part in self.answer(body):
            request.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            request.wfile.flush()
        if not self.cut:
            request.wfile.write(b"0\r\n\r\n")
        return None


def decoded(server: StandIn, config: DecodeConfig = CONFIG) -> list[Any]:
    return list(ask(server.url).decode("Once", config))


def of_kind(owner: str, **more: Any) -> StandIn:
    return StandIn(owner, lambda body: FORMATS[owner][1], **more)


@pytest.mark.parametrize("owner", FORMATS)
def test_every_format_becomes_the_same_lane(owner: str) -> None:
    kind, _, quoted = FORMATS[owner]
    with of_kind(owner) as server:
        found = ask(server.url + "/v1/")
        assert (found.kind.name, found.model) == (kind, "tiny")
        events = list(found.decode("Once", CONFIG))
    header, end = events[0], events[-1]
    assert isinstance(header, RunStarted) and isinstance(end, Finished)
    assert header.server == found.name and not header.lossless and header.exactness == "unchecked"
    assert (end.text, end.reason, end.quoted) == (TEXT, "length", quoted)
    chunks = [event for event in events if isinstance(event, Committed)]
    assert [len(chunk.ids) for chunk in chunks] == ([1, 1, 1] if owner == "someone" else [1, 3, 2])
    assert 0 < chunks[0].at <= chunks[-1].at == end.seconds and end.ids == sum((one.ids for one in chunks), ())
    pieces: dict[int, str] = {}
    for event in events:
        pieces |= getattr(event, "pieces", {})
    assert "".join(pieces[token] for token in end.ids) == TEXT
    values = run_summary(events)
    assert values["lossless"] is None and (values["rounds"], values["tau"]) == (
        (3, 2.0) if owner == "vllm" else (0, None)
    )
    assert (values["quoted"] or {}).get("tau") == (2.5 if quoted else None)


@pytest.mark.parametrize(
    "sizes, accepted, rounds",
    [
        ([1, 3, 2], [2, 1], ["T", "DDT", "DT"]),
        ([4, 2], [2, 1], ["T", "DDT", "DT"]),  # a chunk of two rounds
        ([1, 3, 2], [2, 4], ["T", "DDT", "DD"]),  # cut by the limit of tokens
        ([1, 3, 2], [2], ["?", "???", "??"]),  # a step that drafted nothing may stand anywhere
        ([2, 2, 2], [2, 1], ["??", "??", "??"]),  # no round ends there
        ([1, 3, 2], [9, 9], ["?", "???", "??"]),
        ([1, 1], [], ["?", "?"]),
    ],
)
def test_rounds_are_those_that_the_server_reports(sizes: list[int], accepted: list[int], rounds: list[str]) -> None:
    counts = list(itertools.accumulate(sizes))
    chunks = [choice("x", token_ids=[7] * size) for size in sizes]
    chunks += [
        choice("", finish_reason="length"),
        {"metrics": {"speculative_decoding": {"per_step_accepted": accepted}}},
    ]
    with StandIn("vllm", lambda body: sse(*chunks)) as server:
        events = decoded(server)
    found = [event for event in events if isinstance(event, Committed)]
    marks = {"draft": "D", "target": "T", "server": "?"}
    assert ["".join(marks[source] for source in one.sources) for one in found] == rounds
    arrived = {one.at for one in found}
    assert len(arrived) == len(sizes) and found[-1].total == counts[-1] == len(events[-1].ids)
    assert sum((one.ids for one in found), ()) == events[-1].ids and events[-1].rounds == len(rounds)


def scraped(owner: str, tokens: int, drafts: int, drafted: int, *positions: int) -> bytes:
    """``/metrics`` as vLLM and llama.cpp write them, with what else is there."""
    vllm = owner == "vllm"
    prefix, labels = ("vllm", 'engine="0",model_name="tiny"') if vllm else ("llamacpp", "")
    counters = {"spec_decode_num_drafts": drafts, "spec_decode_num_draft_tokens": drafted}
    counters["spec_decode_num_accepted_tokens"] = sum(positions)
    counters["generation_tokens" if vllm else "tokens_predicted"] = tokens
    lines = [f"# TYPE {prefix}:x counter", f"{prefix}:kv_cache_usage_perc 0.5", "python_info 1.0"]
    for name, value in counters.items():
        where = f"{{{labels}}}" if labels else ""
        lines += [f"{prefix}:{name}_total{where} {float(value) if vllm else value}"]
        lines += [f"{prefix}:{name}_created{where} 1.781341706e+09"]
    for place, value in enumerate(positions):
        where = ",".join(filter(None, (labels, f'position="{place}"')))
        lines.append(f"{prefix}:spec_decode_num_accepted_tokens_per_pos_total{{{where}}} {float(value)}")
    return "\n".join(lines).encode()


ALONE = {"drafts": 2, "by_position": (2, 1, 0)}
SILENT = sse(*VLLM) + [DONE]


@pytest.mark.parametrize(
    ("owner", "answer", "expected"),
    [
        ("vllm", SILENT, {"steps": 2, "drafted": 6, "accepted": 3, **ALONE}),
        ("vllm", FORMATS["vllm"][1], {"steps": 2, "drafted": 6, "accepted": 3, "tokens_per_second": 103.2, **ALONE}),
        ("llamacpp", sse(*LLAMA), {"steps": 2, "drafted": 6, "accepted": 3, "tokens_per_second": 103.2, **ALONE}),
    ],
)
def test_counters_before_and_after_a_run_give_tau_and_acceptance_by_position(
    owner: str, answer: list[bytes], expected: Body
) -> None:
    scrapes = [scraped(owner, 100, 40, 120, 30, 20, 9), scraped(owner, 106, 42, 126, 32, 21, 9)]
    with StandIn(owner, lambda body: answer, metrics=scrapes) as server:
        events = decoded(server)
    assert events[-1].quoted == Quoted(**expected) and events[-1].quoted.rates == (1.0, 0.5, 0.0)
    values = run_summary(events)
    assert values["quoted"]["tau"] == 2.5 and values["quoted"]["rates"] == (1.0, 0.5, 0.0)


FIRST = scraped("vllm", 100, 40, 120, 30, 20, 9)


@pytest.mark.parametrize(
    "scrapes",
    [
        [FIRST],  # the second is refused
        [FIRST, FIRST],  # nothing was drafted
        [FIRST, scraped("vllm", 130, 50, 150, 40, 26, 12)],  # another client was served meanwhile
        [FIRST, scraped("vllm", 6, 2, 6, 2, 1, 0)],  # it was started anew
        [FIRST, scraped("vllm", 106, 42, 10**9, 32, 21, 9)],
        [FIRST, scraped("vllm", 106, 42, 126, 32, 21, 9).replace(b'position="2"', b'position="99"')],
        [FIRST, scraped("vllm", 106, 42, 126, 32, 21, 9).replace(b'position="1"', b'position="' + b"9" * 5000 + b'"')],
        [FIRST, FIRST.replace(b"40.0", b"1e+99")],
        [b"vllm:" * 10**6 * 2, FIRST],
        [b"\xff" * 100, FIRST],
    ],
)
def test_counters_that_are_not_those_of_the_run_are_left_out(scrapes: list[bytes]) -> None:
    with StandIn("vllm", lambda body: SILENT, metrics=scrapes) as server:
        end = decoded(server)[-1]
    assert isinstance(end, Finished) and end.quoted is None and len(end.ids) == 6


def test_counters_of_several_engines_are_added() -> None:
    two = FIRST + b"\n" + FIRST.replace(b'engine="0"', b'engine="1"')
    assert Counts.read(two.decode()) == Counts(80, 240, 118, 200, (60, 40, 18))
    assert Counts.read("vllm:generation_tokens_total 3") is None, "it has no drafter"


def test_a_server_is_asked_for_what_its_lane_says() -> None:
    """Its own samplers off, no prefix kept from the run before, the settings of the race."""
    config = DecodeConfig(
        temperature=0.5, top_k=7, top_p=0.9, seed=3, max_new_tokens=6, stop="x\\n\ny", ignore_eos=True
    )
    shared = {"prompt": "Once", "temperature": 0.5, "top_k": 7, "top_p": 0.9, "seed": 3, "stop": ["x\n", "y"]}
    extra = {
        "vllm": {"max_tokens": 6, "ignore_eos": True, "repetition_penalty": 1.0, "min_p": 0.0},
        "sglang": {"max_tokens": 6, "return_spec_tokens_details": True},
        "llamacpp": {"n_predict": 6, "ignore_eos": True, "cache_prompt": False, "repeat_penalty": 1.0, "min_p": 0.0},
    }
    for owner, more in extra.items():
        with of_kind(owner) as server:
            run, _ = (decoded(server, config) for _ in range(2))
            (path, sent, _), (_, again, _) = server.asked
        assert path == ("/completion" if owner == "llamacpp" else "/v1/completions")
        assert sent.items() >= {**shared, **more, "model": "tiny", "stream": True}.items()
        assert owner == "llamacpp" or sent["cache_salt"] != again["cache_salt"]
        assert isinstance(run[0], RunStarted) and run[0].config["top_k"] == 7
    with of_kind("vllm") as server:
        decoded(server)
        assert server.asked[0][1]["top_k"] == -1, "0 is an error to SGLang"


@pytest.mark.parametrize(("field", "value"), [("top_k", 1), ("ignore_eos", True)])
def test_what_a_server_cannot_follow_is_not_claimed(field: str, value: Any) -> None:
    with of_kind("someone") as server, pytest.raises(ConfigError) as caught:
        decoded(server, DecodeConfig(**{field: value}))
    assert caught.value.field == field and not server.asked


@pytest.mark.parametrize(
    "chunk, reason",
    [
        (choice("x", finish_reason="stop", stop_reason=None), "end_of_text"),
        (choice("x", finish_reason="stop", stop_reason="\n"), "stop_string"),
        (choice("x", finish_reason="stop", matched_stop="\n"), "stop_string"),
        (choice("x", finish_reason="stop", matched_stop=2), "end_of_text"),
        (choice("x", finish_reason="\x1b[2Jabort"), "[2Jabort"),
        ({"content": "x", "stop": True, "stop_type": "eos"}, "end_of_text"),
        ({"content": "x", "stop": True, "stop_type": "word"}, "stop_string"),
    ],
)
def test_why_a_text_ends(chunk: Body, reason: str) -> None:
    with StandIn("vllm", lambda body: sse(chunk)) as server:
        end = decoded(server)[-1]
    assert isinstance(end, Finished) and end.reason == reason


def test_a_count_at_the_end_is_believed() -> None:
    """A server that reports its tokens only at the end may have put several into a chunk."""
    config = DecodeConfig(max_new_tokens=9)
    with StandIn("someone", lambda body: sse(*PLAIN, {"choices": [], "usage": {"completion_tokens": 9}})) as server:
        end = decoded(server, config)[-1]
    assert isinstance(end, Finished) and len(end.ids) == 9 and end.text == TEXT


BROKEN = {
    "cut": (sse(*VLLM[:2]), True, "broke off"),
    "short": (sse(*VLLM[:2]) + [DONE], False, "ended before the text did"),
    "error": (sse(*VLLM[:2], {"error": {"message": "CUDA out of memory", "code": 500}}), False, "CUDA out of memory"),
    "old error": ([*sse(*LLAMA[:2]), b'error: {"message": "slot lost"}\n\n'], False, "slot lost"),
    "no JSON": ([*sse(*VLLM[:2]), b"data: {\n\n"], False, "an invalid event"),
    "wrong JSON": ([*sse(*VLLM[:2]), b'data: {"choices": 3}\n\n'], False, "an invalid event"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_came_before_a_break_stays(how: str) -> None:
    parts, cut, words = BROKEN[how]
    with StandIn("vllm", lambda body: parts, cut=cut) as server:
        events = decoded(server)
    assert isinstance(events[-1], Failed) and words in events[-1].message
    assert fold(events).committed == 4
    with StandIn("vllm", lambda body: parts[2:], cut=cut) as server, pytest.raises(ServerError):
        decoded(server)


def drip(sent: bytes) -> Iterator[bytes]:
    """A byte every 50 ms, for 5 s."""
    for _ in range(100):
        time.sleep(0.05)
        yield sent


ATTACKS: dict[str, tuple[Callable[[], Any], str]] = {
    "endless line": (lambda: [b"data: ", *[b"x" * 100_000] * 20], "a line of more than 1 MB"),
    "endless body": (lambda: [b":" + b"x" * 98 + b"\n"] * 25_000, "more than 2 MB"),
    "gzip bomb": (lambda: [gzip.compress(bytes(50_000_000))], "compresses its answers"),
    "drip": (lambda: drip(b"x"), "longer than 0.2 s"),
    "drip of comments": (lambda: drip(b":\n"), "longer than 0.2 s"),
    "drip behind a text": (lambda: itertools.chain(sse(choice("x")), drip(b":\n")), "longer than 0.3 s"),
    "no end": (lambda: sse(*[choice("x")] * 20), "ignores the limit of 6 tokens"),
    "a million tokens": (lambda: sse(choice("x") | {"usage": {"completion_tokens": 10**6}}), "ignores the limit of 6"),
    "chat": (lambda: sse({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}), "answers as a chat"),
    "nested": (lambda: [b'data: {"error":' + b"[" * 10_000 + b"\n\n"], "an invalid event"),
}


@pytest.mark.parametrize("how", ATTACKS)
def test_a_hostile_stream_ends_in_one_sentence(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    parts, words = ATTACKS[how]
    monkeypatch.setattr(attached, "RUN_SECONDS", 0.2 if words.endswith("0.2 s") else 60.0)
    monkeypatch.setattr(attached, "NEXT_SECONDS", 0.3)
    monkeypatch.setattr(attached, "RUN_BYTES", 2_000_000)
    encoding = "gzip" if "gzip" in how else "identity"
    events: list[Any] = []
    with StandIn("vllm", lambda body: parts(), encoding=encoding) as server:
        try:
            events += ask(server.url).decode("Once", CONFIG)
        except ServerError as error:
            events.append(error)
    end = events[-1]
    assert isinstance(end, (Failed, ServerError)) and words in end.message and end.hint


def test_what_follows_the_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "LAST_SECONDS", 0.3)
    began = time.monotonic()
    with StandIn(
        "vllm", lambda body: itertools.chain(sse(choice("x", finish_reason="stop"))[:1], drip(b":\n"))
    ) as server:
        *_, end = decoded(server)
    assert isinstance(end, Finished) and end.reason == "end_of_text" and time.monotonic() - began < 3


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """Silent, or with a byte now and then in its headers or its body."""
    monkeypatch.setattr(attached, "ASK_SECONDS", 0.2)

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                for byte in itertools.chain([begun], drip(b"x" if begun else b"")):
                    self.wfile.write(byte)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        began = time.monotonic()
        with pytest.raises(ServerError, match="takes longer than"):
            ask(f"http://127.0.0.1:{server.server_address[1]}")
        assert time.monotonic() - began < 3
        server.shutdown()


def test_a_stop_is_heard_between_chunks() -> None:
    stop = threading.Event()
    with of_kind("vllm") as server:
        events: list[Event] = []
        for event in ask(server.url).decode("Once", CONFIG, stop=stop):
            events.append(event)
            if isinstance(event, PiecesSeen):
                stop.set()
    assert isinstance(events[-1], Finished) and events[-1].reason == "stopped" and len(events[-1].ids) == 1


def nobody() -> str:
    """An address that nothing listens at."""
    return f"http://127.0.0.1:{unused()}"


def test_failures_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match=r"Cannot connect to server at 127\.0\.0\.1:\d+") as caught:
        ask(nobody())
    assert "that it runs" in caught.value.hint
    for address in ("127.0.0.1:8000", "ftp://x", "http://", "http://x:port", "http://x:0"):
        with pytest.raises(ConfigError, match="is not the address of a server"):
            ask(address)
    for address in ("http://a..b", "http://xn--/", f"http://{'a' * 70}"):
        with pytest.raises(ServerError, match="cannot be reached"):
            ask(address)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")  # for which httpx may lack a package
    with pytest.raises(ServerError, match=r"SOCKS|Cannot connect"):
        ask("http://a.invalid")
    monkeypatch.delenv("ALL_PROXY")
    with of_kind("vllm", models={"data": []}) as server, pytest.raises(ConfigError, match="serves no model\\."):
        ask(server.url)
    for models in (False, {"data": 3}, []):
        with of_kind("vllm", models=models) as server, pytest.raises(ServerError, match="is not vLLM, SGLang, llama"):
            ask(server.url)
    long = {"data": [{"id": "x" * 2_000_000}]}
    with of_kind("vllm", models=long) as server, pytest.raises(ServerError, match="more than 1 MB"):
        ask(server.url)
    with of_kind("vllm") as server, pytest.raises(ConfigError, match="given twice"):
        attach(server.url, server.url)
    two = {"data": [{"id": "a/b", "owned_by": "vllm"}, {"id": "c"}]}
    with of_kind("vllm", models=two) as server:
        with pytest.raises(ConfigError, match="several models") as several:
            ask(server.url)
        assert "#a/b" in several.value.hint and "a/b, c" in several.value.hint
        with pytest.raises(ConfigError, match="no model 'd'"):
            ask(server.url + "#d")
        assert ask(server.url + "#a/b").model == "a/b"
    refused = StandIn("vllm", lambda body: [b'{"error": {"message": "Wrong\\n\\u001bkey"}}'], status=401)
    for key in ("secret\nline", "schlüssel"):
        monkeypatch.setenv(KEY, key)
        with pytest.raises(ConfigError, match=f"The key in {KEY}") as untold:
            ask(nobody())
        assert key not in str(untold.value) and "secret" not in str(untold.value)
    monkeypatch.setenv(KEY, "secret\r\n")
    with refused as server, pytest.raises(ServerError, match=r"status 401: Wrong key\.") as caught:
        decoded(server)
    assert KEY in caught.value.hint and server.asked[0][2] == "Bearer secret"


def test_an_address_does_not_tell_its_password() -> None:
    found = Attached(address="http://me:secret@host:1/path", kind=KINDS["vllm"], model="tiny")
    assert (found.name, found.where) == ("vLLM at host:1", "http://host:1/path")
    assert "secret" not in str(found._header("Once", CONFIG))


def test_a_server_that_names_its_model_by_a_path_shows_the_file(decoder: FakeDecoder) -> None:
    models = {"data": [{"id": "/home/ada/private/models/tiny.gguf", "owned_by": "llamacpp"}]}
    with of_kind("llamacpp", models=models) as server:
        target = decoded(server)[0].models["target"]
    assert target.startswith("models/tiny.gguf, served at") and "ada" not in target


def test_a_race_with_a_server(decoder: FakeDecoder, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One table; what is quoted stands in marks, what is not known is said, and the trace holds the lane."""
    trace = tmp_path / "race.jsonl.gz"
    with of_kind("llamacpp") as server:
        words = ("race", "--prompt", "Once", "--max-new-tokens", "6", "--repeats", "2", "--attach", server.url)
        assert cli.main([*words, "--json", "--trace", str(trace)]) == 0
        assert len(server.asked) == 3, "a warm-up and two runs"
        assert [asked["prompt"] for _, asked, _ in server.asked[1:]] == ["<user>Once"] * 2, "as the target reads it"
        summary = json.loads(capsys.readouterr().out)
        assert cli.main([*words]) == 0
    out = capsys.readouterr().out
    name = f"llama.cpp at {server.url.removeprefix('http://')}"
    row = next(line for line in out.splitlines() if line.startswith(name))
    assert "“2.50”" in row and row.endswith("different        not checked")
    assert "network included" in out and "τ 2.50, 50% of its drafted tokens accepted" in out
    assert summary["lanes"][name]["quoted"]["accepted"] == 3 and summary["lanes"][name]["speedup"]
    assert summary["lossless"] is True and summary["quiet"] is True, "of the lanes here"
    assert list(read_trace(trace).lanes) == ["vanilla", "drafted", name]
    assert cli.main(["replay", str(trace)]) == 0
    again = capsys.readouterr().out
    assert row.split()[:3] == again.splitlines()[-1].split()[:3] and "  not checked" in again


@pytest.mark.parametrize(("words", "status"), [(["--top-k", "1"], 200), ([], 400)])
def test_a_server_refuses_before_any_lane_is_measured(decoder: FakeDecoder, words: list[str], status: int) -> None:
    with of_kind("someone", status=status) as server:
        assert cli.main(["race", "--prompt", "Once", *words, "--attach", server.url]) > 0
        assert not decoder.calls and len(server.asked) == (status != 200)


def test_a_page_of_this_machine_races_a_server_and_no_other_calls_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_served", {"public": False})
    with of_kind("llamacpp") as server:
        servers = pickle.loads(pickle.dumps(launch.attached([server.url])))  # races run in another process
        (name,) = servers
        plan = {lane: DecodeConfig(max_new_tokens=6, drafter="none") for lane in ("vanilla", "dflash", name)}
        ask = Ask(prompt="Once", plan=plan, servers=servers)
        for _ in decoding(lambda *_: FakeDecoder())(ask, threading.Event()):
            pass
        assert [body["prompt"] for _, body, _ in server.asked[1:]] == ["<user>Once"], "as the target reads it"
        asked = len(server.asked)
        host.served_to("0.0.0.0", shared=False)
        with pytest.raises(SystemExit, match="calls no server"):
            launch.attached([server.url])
        assert len(server.asked) == asked
    lanes = read_trace(ask.trace).lanes
    assert [*lanes] == [*plan] and lanes[name][-1].quoted.accepted == 3
    monkeypatch.setattr(host, "_served", {"public": False})
    with pytest.raises(SystemExit, match=r"Cannot connect .*\nhint: "):
        launch.attached([nobody()])
    assert launch.attached([]) == {}


def test_two_runs_of_a_server_share_an_id_where_they_share_its_piece(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    texts = iter(["cat.", "dog."])
    with StandIn("someone", lambda body: sse(*PLAIN[:2], choice(next(texts), finish_reason="stop"))) as server:
        for path in paths:
            write_trace(path, {"served": decoded(server)})
    events = [event for path in paths for event in read_trace(path).lanes["served"]]
    met = [event.pieces for event in events if isinstance(event, PiecesSeen)]
    assert len({token for pieces in met for token in pieces}) == 4


@pytest.mark.usefixtures("decoder")
def test_a_race_goes_on_without_a_server_that_broke(capsys: pytest.CaptureFixture[str]) -> None:
    with StandIn("vllm", lambda body: sse(*VLLM[:2]), cut=True) as server:
        assert cli.main(["race", "--prompt", "Once", "--attach", server.url]) == 0
    out = capsys.readouterr().out
    assert "broke off" in out and "failed" in out and "no drafts" in out


def test_ctrl_c_keeps_what_was_measured(decoder: FakeDecoder, tmp_path: Path) -> None:
    """Also while a server stalls."""
    asked, trace = itertools.count(), tmp_path / "race.jsonl"

    def answer(body: Body) -> Any:
        if not next(asked):  # the warm-up
            return sse(*VLLM)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return itertools.chain(sse(*VLLM[:2]), drip(b":\n"))

    with StandIn("vllm", answer) as server:
        words = ["race", "--prompt", "Once", "--max-new-tokens", "6", "--repeats", "2", "--attach", server.url]
        began = time.monotonic()
        assert cli.main([*words, "--trace", str(trace)]) == 130
    assert time.monotonic() - began < 10
    ends = [events[-1] for events in read_trace(trace).lanes.values()]
    assert len(ends) == 3 and all(isinstance(end, Finished) for end in ends) and ends[-1].reason == "stopped"


LLAMA_PYTHON = os.environ.get("SPECDIFF_LLAMA_PYTHON", sys.executable)
"""An interpreter that has ``llama-cpp-python[server]``."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server with the embedded target, which drafts by prompt lookup."""
    probe = subprocess.run([LLAMA_PYTHON, "-c", "import llama_cpp.server.app"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no llama-cpp-python[server] here; SPECDIFF_LLAMA_PYTHON names an interpreter that has it")
    from gguf_files import convert

    here = tmp_path_factory.mktemp("gguf")
    convert(ROOT / "assets" / "embedded" / "target", here / "target.gguf")
    url = nobody()
    serve = ["-m", "llama_cpp.server", "--model", str(here / "target.gguf"), "--port", url.rpartition(":")[2]]
    draft = ["--n_ctx", "512", "--draft_model", "prompt-lookup-decoding", "--draft_model_num_pred_tokens", "4"]
    with (here / "log").open("wb") as log:
        server = subprocess.Popen([LLAMA_PYTHON, *serve, *draft], stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while True:
                with contextlib.suppress(ServerError):
                    ask(url)
                    break
                assert time.monotonic() < until and server.poll() is None, (here / "log").read_text()
                time.sleep(0.2)
            yield url
        finally:
            server.terminate()
            server.wait(20)


def test_a_real_server_with_the_embedded_target_writes_vanillas_text(llama: str) -> None:
    """The same weights through llama.cpp: at temperature 0 the same text, but for near ties."""
    import specdiff_core as lab

    engine = lab.load(drafters=["none", "block"])
    found = lab.race("Once upon a time", engine=engine, attach=[llama], max_new_tokens=48)
    lane = next(one for name, one in found["lanes"].items() if name.startswith("llama-cpp-python at"))
    assert lane["same_text_as_vanilla"] is True and lane["new_tokens"] == 48 and lane["finished"] == "length"
    assert lane["tokens_per_second"] > 0 and lane["quoted"] is None and lane["lossless"] is None


@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({"ALL_PROXY": "socks://127.0.0.1:9"}, {}),
        ({"all_proxy": "socks5h://127.0.0.1:9", "HTTP_PROXY": "127.0.0.1:9"}, {"HTTP_PROXY": "127.0.0.1:9"}),
        ({"HTTPS_PROXY": "tcp://127.0.0.1:9"}, {}),
        ({"no_proxy": "[::1]:8080,*.local,10.0.0.0/8,a b:c"}, {"no_proxy": "::1,*.local,10.0.0.0/8"}),
        ({"NO_PROXY": "localhost, ::1"}, {"NO_PROXY": "localhost,::1"}),
        ({"GRADIO_SERVER_PORT": "tcp://10.0.0.1:80"}, {}),
        ({"GRADIO_SERVER_PORT": "8000"}, {"GRADIO_SERVER_PORT": "8000"}),
    ],
)
def test_an_odd_environment_does_not_keep_the_lab_from_starting(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kept: dict[str, str]
) -> None:
    """What cannot be used is left out, the rest stays."""
    monkeypatch.setattr("specdiff_core.proxies.find_spec", lambda name: None)  # no socksio
    environ = {name: value for name, value in os.environ.items() if not re.search("proxy|GRADIO", name, re.IGNORECASE)}
    monkeypatch.setattr(os, "environ", {**environ, **variables})
    launch.mend_environment()
    assert os.environ == {**environ, **kept}
    with httpx.Client():
        pass
