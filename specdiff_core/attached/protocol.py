"""The wire formats of vLLM, SGLang, llama.cpp and OpenAI-compatible servers: what each is asked, and what it answers.

Sources: vLLM's docs/features/speculative_decoding/acceptance_metrics.md (pull request 48915), SGLang's pull requests
33518 and 34814, and tools/server/README.md of llama.cpp (its ``/metrics``: pull request 26389)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from specdiff_core.schema.errors import ConfigError, one_line
from specdiff_core.schema.events import Quoted
from specdiff_core.schema.settings import SETTINGS, DecodeConfig


class ServerKind(NamedTuple):
    """The protocol of a kind of server."""

    name: str
    fields: Mapping[str, Any] = {}  # of each request: additional samplers off, counts on
    supports: Collection[str] = ()  # of :data:`_EXTRAS`
    all_tokens: int = 0  # its top-k that keeps all tokens
    cache_salt: bool = False  # whether a salt keeps it from reusing a prefix
    path: str = "/v1/completions"
    limit: str = "max_tokens"
    counts: bool = False  # whether its /metrics count drafts

    def request(self, model: str, prompt: str, config: DecodeConfig) -> dict[str, Any]:
        """The body of a request. It turns off the server's other samplers and its prefix cache,
        with which every run but the first would begin without a prefill.

        Raises:
            ConfigError: this kind of server lacks a setting.
        """
        unsent = {name for name in _EXTRAS if name not in self.supports}
        for name in unsent:
            if getattr(config, name):
                what = f"{self.name} has no setting “{SETTINGS[name].label}”."
                raise ConfigError(what, field=name, hint="Leave it out for this race.")
        body: dict[str, Any] = {
            "model": model,
            "prompt": prompt,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "seed": config.seed,
            "stream": True,
            "stop": list(config.stops) or None,
            "top_k": config.top_k or self.all_tokens,
            "ignore_eos": config.ignore_eos,
            "cache_salt": uuid.uuid4().hex if self.cache_salt else None,
            "stream_options": None if self.limit == "n_predict" else {"include_usage": True},
            self.limit: config.max_new_tokens,
            **self.fields,
        }
        return {key: value for key, value in body.items() if value is not None and key not in unsent}


_EXTRAS = ("top_k", "ignore_eos")
"""Settings that OpenAI's requests lack, and some servers take."""
_COUNTED = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "return_token_ids": True}
_VLLM = {"min_p": 0.0, "repetition_penalty": 1.0, **_COUNTED}
_SGLANG = {**_VLLM, "return_spec_tokens_details": True}
_LLAMA = {"min_p": 0.0, "repeat_penalty": 1.0}
OPENAI = ServerKind("server")
KINDS = {
    "vllm": ServerKind("vLLM", _VLLM, _EXTRAS, -1, cache_salt=True, counts=True),
    "sglang": ServerKind("SGLang", _SGLANG, _EXTRAS, -1, cache_salt=True),
    "llamacpp": ServerKind(
        "llama.cpp",
        {**_LLAMA, "cache_prompt": False},
        _EXTRAS,
        path="/completion",
        limit="n_predict",
        counts=True,
    ),
    "me": ServerKind("llama-cpp-python", _LLAMA, ("top_k",)),  # what it calls itself
}
"""By ``owned_by`` of a server's models. Other servers get plain OpenAI requests."""

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Speculation(msgspec.Struct):
    """Verifying passes, drafted and accepted tokens, by the names of vLLM (``num_spec_steps``), of SGLang's flag
    ``--speculative-decoding-stats`` (``num_verification_steps``), and of its ``return_spec_tokens_details``
    (``spec_…``)."""

    num_spec_steps: Count | None = None
    num_verification_steps: Count | None = None
    spec_verify_ct: Count | None = None
    num_draft_tokens: Count | None = None  # vLLM
    num_verified_draft_tokens: Count | None = None  # SGLang's flag
    spec_num_proposed_drafts: Count | None = None
    num_accepted_draft_tokens: Count | None = None  # vLLM, SGLang's flag
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


class Chunk(msgspec.Struct):
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


class Models(msgspec.Struct):
    data: list[_Model]


CHUNK = msgspec.json.Decoder(Chunk | None)
