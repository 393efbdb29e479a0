"""A running vLLM, SGLang, llama.cpp or OpenAI-compatible server as a decoder: prompt out, streamed text in, as events.

Measured here is when each piece of text arrived, on this machine's clock and with the network in it. What a server says
of its own speculation is kept apart, as :class:`~specdiff_core.schema.events.Quoted`. Nothing about its distribution is
checked.

Sources of the wire formats: vLLM's docs/features/speculative_decoding/acceptance_metrics.md (pull request 48915),
SGLang's pull requests 33518 and 34814, and tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import os
import platform
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from specdiff_core.schema.decoder import WARM_UP, Stop
from specdiff_core.schema.errors import ConfigError, ServerError
from specdiff_core.schema.events import SERVER, Committed, Event, Failed, Finished, PiecesSeen, Quoted, RunStarted
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Template, check_prompt

KEY = "SPECDIFF_ATTACH_KEY"
"""Environment variable: the key that a server asks for, if it does."""

KINDS = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp", "me": "llama-cpp-python"}
"""``owned_by`` of a server's models -> what the server is. Anything else speaks OpenAI's protocol, and no more."""

SENT = ("temperature", "top_k", "top_p", "seed", "max_new_tokens", "ignore_eos", "stop")
"""Settings that a server is asked to follow. All others are of this lab's own loop."""

_TIMEOUT = httpx.Timeout(10.0, read=300.0)
_HTTP = "an address such as http://127.0.0.1:8000"
_LOG = "Its log may say why."
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]  # far more than a run of this lab has


class _Spec(msgspec.Struct):
    """What a server counted of its speculation, under each of the names in use."""

    num_spec_steps: Count | None = None  # vLLM
    num_draft_tokens: Count | None = None
    num_verification_steps: Count | None = None  # SGLang, --speculative-decoding-stats
    num_verified_draft_tokens: Count | None = None
    num_accepted_draft_tokens: Count | None = None  # both
    spec_verify_ct: Count | None = None  # SGLang, return_spec_tokens_details
    spec_num_proposed_drafts: Count | None = None
    spec_num_correct_drafts: Count | None = None

    def quoted(self, rate: float | None) -> Quoted:
        """The same under one name each."""
        return Quoted(
            steps=_first(self.num_spec_steps, self.num_verification_steps, self.spec_verify_ct),
            drafted=_first(self.num_draft_tokens, self.num_verified_draft_tokens, self.spec_num_proposed_drafts),
            accepted=_first(self.num_accepted_draft_tokens, self.spec_num_correct_drafts),
            tokens_per_second=rate,
        )


class _Timings(msgspec.Struct):
    predicted_per_second: float | None = None
    draft_n: Count | None = None
    draft_n_accepted: Count | None = None


class _Metrics(msgspec.Struct):
    speculative_decoding: _Spec | None = None
    tokens_per_second: float | None = None


class _Extension(msgspec.Struct):
    speculative_decoding_stats: _Spec | None = None
    spec_tokens_details: _Spec | None = None


class _Usage(msgspec.Struct):
    completion_tokens: Count | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None  # vLLM: the stop string or token
    matched_stop: int | str | None = None  # SGLang: the same


class _Chunk(msgspec.Struct):
    """One event of a stream, of any kind of server; what a kind does not send is None."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    metrics: _Metrics | None = None
    sglext: _Extension | None = None
    timings: _Timings | None = None
    content: str | None = None  # llama.cpp's /completion, as all below
    stop: bool = False
    stop_type: str | None = None
    tokens_predicted: Count | None = None
    error: Any = None

    def read(self, before: int) -> tuple[str, int, str]:
        """Text, how many tokens it is, and why the run ends, "" if it goes on; ``before``: tokens until now.

        A chunk without a count is one token. One with a count and no text tells of tokens that had none.
        """
        choice = self.choices[0] if self.choices else _Choice()
        text = choice.text or self.content or ""
        told = self.usage.completion_tokens if self.usage else self.tokens_predicted
        if choice.token_ids is not None:
            tokens = len(choice.token_ids)
        elif told is not None:
            tokens = max(0, told - before)
        else:
            tokens = int(bool(text))
        if self.stop:
            return text, tokens, {"limit": "length", "word": "stop_string"}.get(self.stop_type or "", "end_of_text")
        if choice.finish_reason == "stop":
            by_string = isinstance(choice.stop_reason, str) or isinstance(choice.matched_stop, str)
            return text, tokens, "stop_string" if by_string else "end_of_text"
        return text, tokens, _line(choice.finish_reason or "")

    def quoted(self, tokens: int) -> Quoted | None:
        """What the server says of its speculation; ``tokens``: of the run so far."""
        if self.metrics and self.metrics.speculative_decoding:
            return self.metrics.speculative_decoding.quoted(self.metrics.tokens_per_second)
        if self.sglext and (spec := self.sglext.speculative_decoding_stats or self.sglext.spec_tokens_details):
            return spec.quoted(None)
        if self.timings:  # llama.cpp tells no passes; each brings one token beside what it accepts, the first a prefill
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


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A server that answered; :func:`ask` finds out what it is. A :class:`~specdiff_core.schema.decoder.Decoder`.

    ``decode`` sends the prompt as it stands, and asks that no prefix of an earlier run be reused.
    """

    address: str
    kind: str
    model: str

    @property
    def name(self) -> str:
        """What its lane is called."""
        return f"{self.kind} at {urlsplit(self.address).netloc.rpartition('@')[2]}"

    @property
    def where(self) -> str:
        """Its address, without a name and a password that may stand in it."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        detail: bool = True,
        grain: str = "chunk",
        stop: Stop | None = None,
        warm_up: float | None = None,
        threads: int | None = None,
    ) -> Iterator[Event]:
        """Yield RunStarted, then each piece of the stream as Committed, then Finished. A stream that breaks off ends
        with Failed, after what came. ``detail``, ``grain`` and ``threads`` are the server's own affair.

        Raises:
            ConfigError: the prompt is no text, or a setting is one that this kind of server cannot follow.
            ServerError: nothing came.
        """
        check_prompt(prompt)
        path, request = self._request(prompt, config)
        yield self._header(prompt, config)
        if warm_up is not None:
            short = dataclasses.replace(config, max_new_tokens=min(WARM_UP, config.max_new_tokens))
            for _ in self._stream(*self._request(prompt, short)):
                pass
        pieces: dict[str, int] = {}
        ids: list[int] = []
        text = held = reason = ""
        quoted: Quoted | None = None
        at, rounds, began = 0.0, 0, time.perf_counter()
        try:
            with contextlib.closing(self._stream(path, request)) as stream:
                for chunk in stream:
                    new, tokens, ended = chunk.read(len(ids))
                    text, held, reason = text + new, held + new, ended or reason
                    if tokens:
                        at = time.perf_counter() - began
                        # Where in a chunk a token ends is not told: the first has all of the text.
                        words = [held, *[""] * (tokens - 1)]
                        if fresh := [word for word in dict.fromkeys(words) if word not in pieces]:
                            pieces |= {word: _own_id(word) for word in fresh}
                            yield PiecesSeen(pieces={pieces[word]: word for word in fresh})
                        own = tuple(pieces[word] for word in words)
                        ids += own
                        yield Committed(round=rounds, ids=own, sources=(SERVER,) * tokens, total=len(ids), at=at)
                        rounds, held = rounds + 1, ""
                    quoted = chunk.quoted(len(ids)) or quoted
                    if stop is not None and stop.is_set():
                        reason = "stopped"
                        break
            if not reason:
                raise ServerError(f"The stream of {self.name} ended before the text did.", hint=_LOG)
        except ServerError as error:
            if not ids:
                raise
            yield Failed(code=error.code, message=error.message, hint=error.hint)
            return
        seconds = at or time.perf_counter() - began
        yield Finished(
            reason=reason,
            text=text,
            ids=tuple(ids),
            rounds=rounds,
            seconds=seconds,
            seconds_by={"other": seconds},
            quoted=quoted,
        )

    def _header(self, prompt: str, config: DecodeConfig) -> RunStarted:
        settings = config.to_dict()
        return RunStarted(
            config={name: settings[name] for name in SENT},
            prompt=prompt,
            prompt_ids=(),
            models={
                "target": f"{_line(self.model)}, served at {self.where}",
                "drafter": "the server’s own, if it has one",
            },
            device=f"the machine behind {self.where}",
            dtype="a dtype it does not tell",
            reason="attached: a server that was running",
            threads=0,
            versions={"python": platform.python_version(), "httpx": httpx.__version__},
            grain="chunk",
            lossless=False,
            exactness="unchecked",
            network=self.kind,
            server=self.name,
            started_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        )

    def _request(self, prompt: str, config: DecodeConfig) -> tuple[str, dict[str, Any]]:
        """Path and body of a run. Servers have samplers of their own, switched off here, and keep the states of
        prompts that they know, which would make every run but the first begin without a prefill."""
        if config.system or config.template not in (Template.AUTO, Template.PLAIN):
            raise ConfigError(
                "An attached server gets the prompt as it stands, without a template or a system prompt.",
                field="template",
                hint="Leave out --template and --system.",
            )
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "seed": config.seed,
            "stream": True,
        }
        if config.stops:
            body["stop"] = list(config.stops)
        own = {"top_k": config.top_k, "min_p": 0.0, "repeat_penalty": 1.0}  # llama.cpp's names
        if self.kind == "llama.cpp":
            body |= own | {"n_predict": config.max_new_tokens, "ignore_eos": config.ignore_eos, "cache_prompt": False}
            return "/completion", body
        body |= {"max_tokens": config.max_new_tokens, "stream_options": {"include_usage": True}}
        if self.kind in ("vLLM", "SGLang"):
            body |= {"top_k": config.top_k or -1, "min_p": 0.0, "repetition_penalty": 1.0}
            body |= {"ignore_eos": config.ignore_eos, "return_token_ids": True, "cache_salt": uuid.uuid4().hex}
            body["stream_options"]["continuous_usage_stats"] = True
            if self.kind == "SGLang":
                body["return_spec_tokens_details"] = True
            return "/v1/completions", body
        if self.kind == "llama-cpp-python":
            body |= own
        elif config.top_k:
            raise self._lacks("top_k")
        if config.ignore_eos:
            raise self._lacks("ignore_eos")
        return "/v1/completions", body

    def _lacks(self, name: str) -> ConfigError:
        what = SETTINGS[name].label
        return ConfigError(f"{self.name} has no setting “{what}”.", field=name, hint="Leave it out for this race.")

    def _stream(self, path: str, body: dict[str, Any]) -> Generator[_Chunk, None, None]:
        """The events of a stream, until the server says that there are no more.

        Raises:
            ServerError: it refuses, breaks off, or sends what is no such event.
        """
        with _worded(self.name), _client(self.address) as client, client.stream("POST", path, json=body) as answer:
            if answer.status_code != 200:
                raise _refusal(self.name, answer.status_code, answer.read())
            for line in _lines(answer.iter_bytes()):
                field, _, data = line.partition(b":")
                if field not in (b"data", b"error") or data.strip() == b"[DONE]":
                    continue  # a comment that keeps the line open, or the end
                chunk = _chunk.decode(data)
                if field == b"error" or (chunk is not None and chunk.error is not None):
                    raise ServerError(f"{self.name} gave up: {_message(data)}", hint=_LOG)
                if chunk is not None:
                    yield chunk


def _own_id(piece: str) -> int:
    """The id of a piece of a stream, in every run the same. A server's own id may be another text at another place, and
    several ids may share a piece."""
    return int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=6).digest(), "big")


def attach(*addresses: str) -> dict[str, Attached]:
    """Lanes of a race, by name: the servers at ``addresses``, each asked as :func:`ask` does.

    Raises:
        ConfigError, ServerError: as :func:`ask`; and two of them are one.
    """
    found = [ask(address) for address in addresses]
    lanes = {one.name: one for one in found}
    if len(lanes) < len(found):
        raise ConfigError("One server is to be two lanes.", field="attach", hint="Name each address once.")
    return lanes


def ask(address: str) -> Attached:
    """Ask the server at ``address`` what it is and what it serves; ``address#model`` names one model of several.

    Raises:
        ConfigError: that is no address, or one of its models has to be named.
        ServerError: nothing answers there, or nothing that this lab can speak with.
    """
    base, _, model = address.partition("#")
    base, model = base.rstrip("/").removesuffix("/v1"), unquote(model)
    if not _is_http(base):
        raise ConfigError(f"{base[:80]!r} is no address of a server.", field="attach", hint=f"Give {_HTTP}.")
    here = Attached(address=base, kind="server", model=model)
    wrong = f"What answers at {here.where} is no vLLM, SGLang, llama.cpp or OpenAI-compatible server: "
    with _worded(here.name), _client(base) as client:
        answer = client.get("/v1/models")
    if answer.status_code == 404:
        raise ServerError(f"{wrong}it has no /v1/models.", hint=f"Give {_HTTP}.")
    if answer.status_code != 200:
        raise _refusal(here.name, answer.status_code, answer.content)
    try:
        served = {one.id: one.owned_by for one in msgspec.json.decode(answer.content, type=_Models).data}
    except msgspec.DecodeError as error:
        raise ServerError(f"{wrong}its /v1/models lists none.", hint=f"Give {_HTTP}.") from error
    if not model and len(served) == 1:
        model = next(iter(served))
    if model not in served:
        names, first = _line(", ".join(served)) or "none", _line(next(iter(served), "model"))
        raise ConfigError(
            f"{here.where} serves {f'no model {model!r}' if model else 'several models' if served else 'no model'}.",
            field="attach",
            hint=f"Name one after a #, as in {here.where}#{first[:80]}. It serves: {names[:300]}.",
        )
    return Attached(address=base, kind=KINDS.get(served[model], "server"), model=model)


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _client(address: str) -> httpx.Client:
    """Straight to a server on this machine; by the environment's proxy to others.

    Raises:
        ConfigError: the key cannot be sent; it is not repeated.
    """
    host = urlsplit(address).hostname
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        words = f"The key in {KEY} holds what cannot be sent."
        raise ConfigError(words, field="attach", hint="Copy it again: one line of letters, digits and signs.")
    return httpx.Client(
        base_url=address,
        timeout=_TIMEOUT,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        trust_env=host not in ("localhost", "127.0.0.1", "::1"),
    )


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Lines of a stream, which end at a line feed only: text may hold any other separator."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    yield rest


@contextlib.contextmanager
def _worded(name: str) -> Iterator[None]:
    """Failures of a connection, in words."""
    try:
        yield
    except httpx.ConnectError as error:
        raise ServerError(f"No {name} answers: {error}.", hint="Is it running, and is that its port?") from error
    except httpx.TimeoutException as error:
        raise ServerError(f"{name} has said nothing for too long.", hint=_LOG) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerError(f"The connection to {name} broke off: {error}.", hint=_LOG) from error
    except msgspec.DecodeError as error:
        raise ServerError(f"{name} sent what is no event of a stream: {error}.", hint=_LOG) from error
    except ValueError as error:  # names of hosts that nobody can have, and proxies of kinds that httpx does not know
        raise ServerError(f"{name} cannot be asked: {error}.", hint=f"Look at the proxy, and give {_HTTP}.") from error


def _refusal(name: str, status: int, body: bytes) -> ServerError:
    hint = f"Put its key into the environment as {KEY}." if status in (401, 403) else _LOG
    return ServerError(f"{name} refuses with status {status}: {_message(body)}", hint=hint)


def _message(body: bytes) -> str:
    """What a server says about an error, in one line: the message, wherever in its JSON it stands."""
    try:
        told = msgspec.json.decode(body)
    except msgspec.DecodeError:
        told = body.decode("utf-8", errors="replace")
    for name in ("error", "message", "detail"):
        told = told.get(name, told) if isinstance(told, dict) else told
    return _line(str(told))[:200].rstrip(".") + "."


def _line(text: str) -> str:
    """Foreign words in one line, without what could steer a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
