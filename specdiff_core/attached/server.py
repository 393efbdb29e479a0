"""A running vLLM, SGLang, llama.cpp or OpenAI-compatible server as a decoder that yields events.

This lab measures when each piece of text arrives, on this machine's clock, network included. A
server's report of its own speculation is stored separately, as
:class:`~specdiff_core.schema.events.Quoted`: what it says about the request, and the difference
between its ``/metrics`` before and after it. If it reports every verification step, the text is
committed round by round. The server's distribution is not checked."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import platform
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.schema.decoder import WARM_PROMPT, WARM_TOKENS, Stop
from specdiff_core.schema.errors import ConfigError, ServerError, one_line
from specdiff_core.schema.events import SERVER, Committed, Event, Failed, Finished, PiecesSeen, Quoted, RunStarted
from specdiff_core.schema.reported import Counts
from specdiff_core.schema.settings import DecodeConfig, check_prompt

from .connection import HTTP, Deadline, lines, message, parts, refusal, requested, whole
from .protocol import CHUNK, KINDS, OPENAI, Chunk, Models, ServerKind

SENT = ("temperature", "top_k", "top_p", "seed", "max_new_tokens", "ignore_eos", "stop")
"""Settings that are sent to a server. The others belong to this lab's own loop."""

ASK_SECONDS = 30.0
RUN_SECONDS = 1800.0
FIRST_SECONDS, NEXT_SECONDS, LAST_SECONDS = 300.0, 60.0, 5.0  # to the first and to each next text; after the end
RUN_BYTES = 32_000_000
METRICS_BYTES, METRICS_SECONDS = 8_000_000, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A running server as a :class:`~specdiff_core.schema.decoder.Decoder`, from :func:`ask`.

    ``decode`` sends the prompt as it is given (a race gives it the rendered chat) and requests that no prefix of an
    earlier run be reused.
    """

    address: str
    kind: ServerKind
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
        request = self.kind.request(self.model, prompt, config)
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
            with requested(self.address, self.name, "GET", "/metrics", Deadline(METRICS_SECONDS)) as answer:
                text = whole(answer, self.name, METRICS_BYTES)
        except ServerError:  # they complete a report: without them the lane is as good
            return None
        return Counts.read(text.decode(errors="replace")) if answer.status_code == 200 else None

    def _header(self, prompt: str, config: DecodeConfig) -> RunStarted:
        settings = config.to_dict()
        called = short_path(self.model) if self.model.startswith("/") else self.model  # llama.cpp's is its file
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

    def _stream(self, body: dict[str, Any], stop: Stop | None) -> Generator[tuple[Chunk, str, int, str], None, None]:
        """The events of a stream, each with its text, tokens and end (:meth:`Chunk.read`). Raises
        ServerError if the server refuses, breaks off, sends invalid events, or exceeds a limit (of
        tokens, ``RUN_SECONDS``, ``RUN_BYTES`` or ``LINE_BYTES``, or of the time between two texts)."""
        received, limit, deadline = 0, body[self.kind.limit], Deadline(RUN_SECONDS, stop)
        deadline.within(FIRST_SECONDS)
        with requested(self.address, self.name, "POST", self.kind.path, deadline, json=body) as answer:
            if answer.status_code != 200:
                raise refusal(self.name, answer.status_code, whole(answer, self.name))
            for line in lines(parts(answer, self.name, RUN_BYTES), self.name):
                field, _, data = line.partition(b":")
                if field not in (b"data", b"error") or data.strip() == b"[DONE]":
                    continue  # a keep-alive comment, or the end
                chunk = CHUNK.decode(data)
                if field == b"error" or (chunk is not None and chunk.error is not None):
                    raise ServerError(f"{self.name} gave up: {message(data)}")
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
        raise ConfigError(f"{base[:80]!r} is not the address of a server.", field="attach", hint=f"Give {HTTP}.")
    server = Attached(address=base, kind=OPENAI, model=model)
    wrong = f"The server at {server.where} is not vLLM, SGLang, llama.cpp or OpenAI-compatible: "
    with requested(server.address, server.name, "GET", "/v1/models", Deadline(ASK_SECONDS)) as answer:
        content = whole(answer, server.name)
    if answer.status_code == 404:
        raise ServerError(f"{wrong}it has no /v1/models.", hint=f"Give {HTTP}.")
    if answer.status_code != 200:
        raise refusal(server.name, answer.status_code, content)
    try:
        served = {card.id: card.owned_by for card in msgspec.json.decode(content, type=Models).data}
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerError(f"{wrong}its /v1/models lists none.", hint=f"Give {HTTP}.") from error
    if not model and len(served) == 1:
        model = next(iter(served))
    if model not in served:
        names, first = one_line(", ".join(served)) or "none", one_line(next(iter(served), "model"))
        what = f"no model {model!r}" if model else "several models" if served else "no model"
        hint = f"Add # and a name, as in {server.where}#{first[:80]}. It serves: {names[:300]}."
        raise ConfigError(f"{server.where} serves {what}.", field="attach", hint=hint)
    return Attached(address=base, kind=KINDS.get(served[model], OPENAI), model=model)


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False
