"""A running vLLM, SGLang, llama.cpp or OpenAI-compatible server as a decoder that yields events.

This lab measures when each piece of text arrives, on this machine's clock, network included. A
server's report of its own speculation is stored separately, as
:class:`~specdiff_core.schema.events.Quoted`: what it says about the request, and the difference
between its ``/metrics`` before and after it. If it reports every verification step, the text is
committed round by round. The server's distribution is not checked.

Sources of the wire formats: vLLM's docs/features/speculative_decoding/acceptance_metrics.md (pull
request 48915), SGLang's pull requests 33518 and 34814, and tools/server/README.md of llama.cpp
(its ``/metrics``: pull request 26389)."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import platform
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from specdiff_core.models.folders import shown
from specdiff_core.schema.decoder import WARM_PROMPT, WARM_TOKENS, Stop
from specdiff_core.schema.errors import ConfigError, ServerError, one_line
from specdiff_core.schema.events import SERVER, Committed, Event, Failed, Finished, PiecesSeen, Quoted, RunStarted
from specdiff_core.schema.reported import Counts
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, check_prompt

KEY = "SPECDIFF_ATTACH_KEY"  # environment variable: the server's API key, if it needs one


class Server(NamedTuple):
    """The protocol of a kind of server."""

    name: str
    sampler: Mapping[str, Any] = {}  # turns its additional samplers off
    supports: Collection[str] = ()  # of top_k and ignore_eos
    all_tokens: int = 0  # its top-k that keeps all tokens
    path: str = "/v1/completions"
    limit: str = "max_tokens"
    counts: bool = False  # whether its /metrics count drafts


_BOTH = ("top_k", "ignore_eos")
_COUNTED = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "return_token_ids": True}
_VLLM = {"min_p": 0.0, "repetition_penalty": 1.0, **_COUNTED}
_SGLANG = {**_VLLM, "return_spec_tokens_details": True}
_LLAMA = {"min_p": 0.0, "repeat_penalty": 1.0}
_OPENAI = Server("server")
KINDS = {
    "vllm": Server("vLLM", _VLLM, _BOTH, -1, counts=True),
    "sglang": Server("SGLang", _SGLANG, _BOTH, -1),
    "llamacpp": Server(
        "llama.cpp", {**_LLAMA, "cache_prompt": False}, _BOTH, 0, "/completion", "n_predict", counts=True
    ),
    "me": Server("llama-cpp-python", _LLAMA, ("top_k",)),
}
"""By ``owned_by`` of a server's models. Other servers get plain OpenAI requests."""

SENT = ("temperature", "top_k", "top_p", "seed", "max_new_tokens", "ignore_eos", "stop")
"""Settings that are sent to a server. The others belong to this lab's own loop."""

ASK_SECONDS = 30.0
RUN_SECONDS = 1800.0
FIRST_SECONDS, NEXT_SECONDS, LAST_SECONDS = 300.0, 60.0, 5.0  # to the first and to each next text; after the end
RUN_BYTES = 32_000_000
LINE_BYTES = 1_000_000  # of a line, or of an answer without a stream
METRICS_BYTES, METRICS_SECONDS = 8_000_000, 5.0

_TIMEOUT = httpx.Timeout(10.0, read=300.0)
_HTTP = "an address such as http://127.0.0.1:8000"
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Speculation(msgspec.Struct):
    """Counts of vLLM, and of SGLang with each of its two options."""

    num_spec_steps: Count | None = None
    num_verification_steps: Count | None = None
    spec_verify_ct: Count | None = None
    num_draft_tokens: Count | None = None
    num_verified_draft_tokens: Count | None = None
    spec_num_proposed_drafts: Count | None = None
    num_accepted_draft_tokens: Count | None = None
    spec_num_correct_drafts: Count | None = None
    per_step_accepted: list[Count] = []  # vLLM with --per-request-spec-decode-metrics detailed

    def quoted(self, rate: float | None) -> Quoted:
        return Quoted(
            steps=_first(self.num_spec_steps, self.num_verification_steps, self.spec_verify_ct),
            drafted=_first(self.num_draft_tokens, self.num_verified_draft_tokens, self.spec_num_proposed_drafts),
            accepted=_first(self.num_accepted_draft_tokens, self.spec_num_correct_drafts),
            tokens_per_second=rate,
        )


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


class _Timings(msgspec.Struct):
    predicted_per_second: float | None = None
    draft_n: Count | None = None
    draft_n_accepted: Count | None = None


class _Metrics(msgspec.Struct):
    speculative_decoding: _Speculation | None = None
    tokens_per_second: float | None = None


class _Extension(msgspec.Struct):
    speculative_decoding_stats: _Speculation | None = None
    spec_tokens_details: _Speculation | None = None


class _Usage(msgspec.Struct):
    completion_tokens: Count | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None  # vLLM: the stop string or token
    matched_stop: int | str | None = None  # SGLang: the stop string or token
    delta: Any = None  # of a chat


class _Chunk(msgspec.Struct):
    """One event of a stream, from any kind of server; a field it does not send is None."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    metrics: _Metrics | None = None
    sglext: _Extension | None = None
    timings: _Timings | None = None
    content: str | None = None  # this and the following: llama.cpp's /completion
    stop: bool = False
    stop_type: str | None = None
    tokens_predicted: Count | None = None
    error: Any = None

    def read(self, before: int) -> tuple[str, int, str]:
        """Text, its tokens, and why the run ends ("": it continues); ``before``: tokens so far.

        A chunk without a count is one token. A count without text is of tokens that have no text.
        """
        choice = self.choices[0] if self.choices else _Choice()
        text = choice.text or self.content or ""
        count = self.usage.completion_tokens if self.usage else self.tokens_predicted
        if choice.token_ids is not None:
            tokens = len(choice.token_ids)
        elif count is not None:
            tokens = max(0, count - before)
        else:
            tokens = int(bool(text))
        if self.stop:
            return text, tokens, {"limit": "length", "word": "stop_string"}.get(self.stop_type or "", "end_of_text")
        if choice.finish_reason == "stop":
            by_string = isinstance(choice.stop_reason, str) or isinstance(choice.matched_stop, str)
            return text, tokens, "stop_string" if by_string else "end_of_text"
        return text, tokens, one_line(choice.finish_reason or "")[:80]

    def quoted(self, tokens: int) -> Quoted | None:
        """The server's report of its speculation; ``tokens``: of the run so far."""
        if self.metrics and self.metrics.speculative_decoding:
            return self.metrics.speculative_decoding.quoted(self.metrics.tokens_per_second)
        if self.sglext and (counts := self.sglext.speculative_decoding_stats or self.sglext.spec_tokens_details):
            return counts.quoted(None)
        if self.timings:  # llama.cpp counts no passes: each adds a token, the first is prefill
            accepted = self.timings.draft_n_accepted
            steps = None if accepted is None or tokens - 1 <= accepted else tokens - 1 - accepted
            rate = self.timings.predicted_per_second
            return Quoted(steps=steps, drafted=self.timings.draft_n, accepted=accepted, tokens_per_second=rate)
        return None


class _Model(msgspec.Struct):
    id: str
    owned_by: str = ""


class _Models(msgspec.Struct):
    data: list[_Model]


_chunk = msgspec.json.Decoder(_Chunk | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A running server as a :class:`~specdiff_core.schema.decoder.Decoder`, from :func:`ask`.

    ``decode`` sends the prompt as it is given (a race gives it the rendered chat) and requests that no prefix of an
    earlier run be reused.
    """

    address: str
    kind: Server
    model: str
    _warm: set[DecodeConfig] = field(default_factory=set, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of its lane."""
        return f"{self.kind.name} at {urlsplit(self.address).netloc.rpartition('@')[2]}"

    @property
    def where(self) -> str:
        """Its address, without user name and password."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def warm_up(
        self, config: DecodeConfig, progress: Callable[[str], None] = lambda message: None, threads: int = 0
    ) -> None:
        """Ask for a few tokens, so that a server that refuses says so before a race begins.

        Raises:
            ConfigError: this kind of server lacks a setting.
            ServerError: it does not answer.
        """
        brief = replace(config, max_new_tokens=min(WARM_TOKENS, config.max_new_tokens))
        if config not in self._warm:
            for _ in self.decode(WARM_PROMPT, brief):
                pass
            self._warm.add(config)

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        stop: Stop | None = None,
        **unused: Any,
    ) -> Iterator[Event]:
        """Yield RunStarted, the pieces as they arrive, and at the end the committed tokens: round
        by round if the server reports its rounds, otherwise chunk by chunk. Then Finished, or
        Failed if the stream broke off. Other options have no effect.

        Raises:
            ConfigError: the prompt is not text, or this kind of server lacks a setting.
            ServerError: nothing arrived.
        """
        check_prompt(prompt)
        request = self._request(prompt, config)
        yield self._header(prompt, config)
        pieces: dict[str, int] = {}
        ids: list[int] = []
        chunks: list[Committed] = []
        accepted: list[int] = []
        text = pending = reason = ""
        quoted: Quoted | None = None
        before = self.counts()
        at, began = 0.0, time.perf_counter()
        try:
            with contextlib.closing(self._stream(request, stop)) as stream:
                for chunk, new, tokens, ended in stream:
                    text += new
                    pending += new
                    reason = ended or reason
                    if tokens:
                        at = time.perf_counter() - began
                        # The boundaries of its tokens are unknown: the first gets all of the text.
                        words = [pending, *[""] * (tokens - 1)]
                        if fresh := [word for word in dict.fromkeys(words) if word not in pieces]:
                            pieces |= {word: _own_id(word) for word in fresh}
                            yield PiecesSeen(pieces={pieces[word]: word for word in fresh})
                        new_ids = tuple(pieces[word] for word in words)
                        ids += new_ids
                        pending, sources, count = "", (SERVER,) * tokens, len(chunks)
                        chunks.append(Committed(round=count, ids=new_ids, sources=sources, total=len(ids), at=at))
                    quoted = chunk.quoted(len(ids)) or quoted
                    if chunk.metrics and chunk.metrics.speculative_decoding:
                        accepted = chunk.metrics.speculative_decoding.per_step_accepted
                    if stop is not None and stop.is_set():
                        reason = "stopped"
                        break
            if not reason and stop is not None and stop.is_set():
                reason = "stopped"
            if not reason:
                raise ServerError(f"The stream of {self.name} ended before the text did.")
        except ServerError as error:
            if not ids:
                raise
            yield from chunks
            yield Failed(code=error.code, message=error.message, hint=error.hint)
            return
        chunks = _rounds(chunks, ids, accepted) or chunks
        yield from chunks
        seconds = at or time.perf_counter() - began
        if before is not None and (after := self.counts()) is not None:
            quoted = after.since(before).quoted(len(ids), quoted)
        yield Finished(
            reason=reason,
            text=text,
            ids=tuple(ids),
            rounds=len(chunks),
            seconds=seconds,
            seconds_by={"other": seconds},
            quoted=quoted,
        )

    def counts(self) -> Counts | None:
        """What the server has counted since it started; None if it doesn't count drafts, or does not say."""
        if not self.kind.counts:
            return None
        try:
            with _answer(self, "GET", "/metrics", _Deadline(METRICS_SECONDS)) as answer:
                text = b"".join(_parts(answer, self.name, METRICS_BYTES))
        except ServerError:  # they complete a report: without them the lane is as good
            return None
        return Counts.read(text.decode(errors="replace")) if answer.status_code == 200 else None

    def _header(self, prompt: str, config: DecodeConfig) -> RunStarted:
        settings = config.to_dict()
        called = shown(self.model) if self.model.startswith("/") else self.model  # llama.cpp's is its file
        return RunStarted(
            config={name: settings[name] for name in SENT},
            prompt=prompt,
            prompt_ids=(),
            models={
                "target": f"{one_line(called)[:100]}, served at {self.where}",
                "drafter": "the server’s own, if it has one",
            },
            device=f"the machine behind {self.where}",
            dtype="a dtype it does not report",
            reason="attached: a server that was running",
            threads=0,
            versions={"python": platform.python_version(), "httpx": httpx.__version__},
            grain="chunk",
            lossless=False,
            exactness="unchecked",
            network=self.kind.name,
            server=self.name,
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def _request(self, prompt: str, config: DecodeConfig) -> dict[str, Any]:
        """The body of a request. It turns off the server's other samplers and its prefix cache,
        with which every run but the first would begin without a prefill."""
        kind = self.kind
        for name in _BOTH:
            if getattr(config, name) and name not in kind.supports:
                what = f"{self.name} has no setting “{SETTINGS[name].label}”."
                raise ConfigError(what, field=name, hint="Leave it out for this race.")
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "seed": config.seed,
            "stream": True,
            "stop": list(config.stops) or None,
            "top_k": config.top_k or kind.all_tokens,
            "ignore_eos": config.ignore_eos,
            "cache_salt": uuid.uuid4().hex if kind.all_tokens else None,  # of vLLM and SGLang
            "stream_options": None if kind.limit == "n_predict" else {"include_usage": True},
            kind.limit: config.max_new_tokens,
            **kind.sampler,
        }
        unsent = {name for name in _BOTH if name not in kind.supports}
        return {key: value for key, value in body.items() if value is not None and key not in unsent}

    def _stream(self, body: dict[str, Any], stop: Stop | None) -> Generator[tuple[_Chunk, str, int, str], None, None]:
        """The events of a stream, each with its text, tokens and end (:meth:`_Chunk.read`). Raises
        ServerError if the server refuses, breaks off, sends invalid events, or exceeds a limit (of
        tokens, ``RUN_SECONDS``, ``RUN_BYTES`` or ``LINE_BYTES``, or of the time between two texts)."""
        received, limit, deadline = 0, body[self.kind.limit], _Deadline(RUN_SECONDS, stop)
        deadline.within(FIRST_SECONDS)
        with _answer(self, "POST", self.kind.path, deadline, json=body) as answer:
            if answer.status_code != 200:
                raise _refusal(self.name, answer.status_code, b"".join(_parts(answer, self.name, LINE_BYTES)))
            for line in _lines(_parts(answer, self.name, RUN_BYTES), self.name):
                field, _, data = line.partition(b":")
                if field not in (b"data", b"error") or data.strip() == b"[DONE]":
                    continue  # a keep-alive comment, or the end
                chunk = _chunk.decode(data)
                if field == b"error" or (chunk is not None and chunk.error is not None):
                    raise ServerError(f"{self.name} gave up: {_message(data)}")
                if chunk is None:
                    continue
                if chunk.choices and chunk.choices[0].delta is not None:
                    hint = "Give the address of a server whose /v1/completions continues a text."
                    raise ServerError(f"{self.name} answers as a chat, not as the text that it is sent.", hint=hint)
                text, tokens, ended = chunk.read(received)
                received += tokens
                if received > limit:
                    what = f"{self.name} ignores the limit of {limit} tokens."
                    raise ServerError(what, hint="Check that it supports max_tokens.")
                if ended and not deadline.complete:
                    deadline.complete = True
                    deadline.within(LAST_SECONDS)
                elif tokens and not deadline.complete:
                    deadline.within(NEXT_SECONDS)
                yield chunk, text, tokens, ended


def _rounds(chunks: Sequence[Committed], ids: Sequence[int], accepted: Sequence[int]) -> list[Committed]:
    """The tokens of ``chunks`` round by round: first the prefill's one, then the ``accepted`` ones
    of each verification step and the target's own. Empty if the report doesn't account for all
    tokens, or a chunk ends inside a round."""
    sizes = [1, *(count + 1 for count in accepted)]
    ends = list(accumulate(sizes))
    if len(ends) == 1 or not ends[-2] < len(ids) <= ends[-1]:
        return []
    ends[-1] = len(ids)  # a limit or an end of the text may cut the last round
    if any(chunk.total not in ends for chunk in chunks):
        return []
    rounds = []
    for number, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        round_ids = tuple(ids[0 if not number else ends[number - 1] : end])
        sources = ("draft",) * (size - 1) + ("target",)
        at = next(chunk.at for chunk in chunks if chunk.total >= end)
        rounds.append(Committed(round=number, ids=round_ids, sources=sources[: len(round_ids)], total=end, at=at))
    return rounds


def _own_id(piece: str) -> int:
    """An id for a piece of a stream, the same in every run. (A server's own id may have other text
    elsewhere, and several ids may share a piece.)"""
    return int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=6).digest(), "big")


def attach(*addresses: str) -> dict[str, Attached]:
    """Lanes of a race, by name: the servers at ``addresses``, each asked as :func:`ask` does.

    Raises:
        ConfigError, ServerError: as :func:`ask`; or an address is given twice.
    """
    servers = [ask(address) for address in addresses]
    lanes = {server.name: server for server in servers}
    if len(lanes) < len(servers):
        raise ConfigError("The same server was given twice.", field="attach", hint="Give each address once.")
    return lanes


def ask(address: str) -> Attached:
    """Query the kind and models of the server at ``address``; ``address#model`` selects one.

    Raises:
        ConfigError: the address is invalid, or a model must be selected.
        ServerError: there is no supported server, or no answer within ``ASK_SECONDS``.
    """
    base, _, model = address.partition("#")
    base, model = base.rstrip("/").removesuffix("/v1"), unquote(model)
    if not _is_http(base):
        raise ConfigError(f"{base[:80]!r} is not the address of a server.", field="attach", hint=f"Give {_HTTP}.")
    server = Attached(address=base, kind=_OPENAI, model=model)
    wrong = f"The server at {server.where} is not vLLM, SGLang, llama.cpp or OpenAI-compatible: "
    with _answer(server, "GET", "/v1/models", _Deadline(ASK_SECONDS)) as answer:
        content = b"".join(_parts(answer, server.name, LINE_BYTES))
    if answer.status_code == 404:
        raise ServerError(f"{wrong}it has no /v1/models.", hint=f"Give {_HTTP}.")
    if answer.status_code != 200:
        raise _refusal(server.name, answer.status_code, content)
    try:
        served = {card.id: card.owned_by for card in msgspec.json.decode(content, type=_Models).data}
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerError(f"{wrong}its /v1/models lists none.", hint=f"Give {_HTTP}.") from error
    if not model and len(served) == 1:
        model = next(iter(served))
    if model not in served:
        names, first = one_line(", ".join(served)) or "none", one_line(next(iter(served), "model"))
        what = f"no model {model!r}" if model else "several models" if served else "no model"
        hint = f"Add # and a name, as in {server.where}#{first[:80]}. It serves: {names[:300]}."
        raise ConfigError(f"{server.where} serves {what}.", field="attach", hint=hint)
    return Attached(address=base, kind=KINDS.get(served[model], _OPENAI), model=model)


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


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


class _Deadline:
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
def _within(deadline: _Deadline, name: str) -> Iterator[dict[str, Any]]:
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


def _parts(answer: httpx.Response, name: str, limit: int) -> Iterator[bytes]:
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


def _lines(parts: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Lines of a stream, split at line feeds only: text may contain other separators. Raises
    ServerError if one is longer than ``LINE_BYTES``."""
    line = bytearray()
    for part in parts:
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > LINE_BYTES:
            raise ServerError(f"{name} sends a line of more than {LINE_BYTES // 10**6} MB.")
    yield bytes(line)


@contextlib.contextmanager
def _answer(to: Attached, method: str, path: str, deadline: _Deadline, **body: Any) -> Iterator[httpx.Response]:
    """Send a request; failures of the connection, also while reading, are ServerErrors."""
    name = to.name
    try:
        with (
            _client(to.address) as client,
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
        raise ServerError(f"{name} cannot be reached: {error}.", hint=f"Check the proxy, and give {_HTTP}.") from error


def _refusal(name: str, status: int, body: bytes) -> ServerError:
    hint = f"Set {KEY} to its key." if status in (401, 403) else ""
    return ServerError(f"{name} refuses with status {status}: {_message(body)}", hint=hint)


def _message(body: bytes) -> str:
    """The message of a server's error, from its JSON, in one line."""
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        message = body.decode("utf-8", errors="replace")
    for name in ("error", "message", "detail"):
        message = message.get(name, message) if isinstance(message, dict) else message
    return one_line(str(message))[:200].rstrip(".") + "."
