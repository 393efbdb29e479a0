"""Pairs of your own. A pair's name contains every field, so links and traces can pass it on. The
drafter's config gives its kind; what it leaves open must be declared and is never guessed."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

from specdiff_core.checkpoints.folders import anchor_predicts, read_config, short_path
from specdiff_core.checkpoints.sources import is_local, resolve
from specdiff_core.schema.errors import ConfigError, no_such
from specdiff_core.schema.fields import ask, fields_of
from specdiff_core.schema.fields import parse as read
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.pairs import DRAFTER_KINDS, EMBEDDED, OWN_PAIRS, SHARED, DrafterSpec, PairSpec, find_pair

OWN = "own?"  # prefix of such a pair's name; a query string follows
CONTEXT = 4096  # default limit of tokens in a run, if the target allows more
SHORTEST = 8  # smallest allowed context
KEPT = 64  # how many of the last pairs are kept in memory
KINDS = {kind.declared: kind for kind in DRAFTER_KINDS.values() if kind.declared}
"""Kind of drafter, as declared -> what its drafters share."""
REVISION = re.compile(r"(?!refs/)\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
"""A commit or a branch, which the hub's client opens as a path."""
_BY_FILE = {kind.module: name for name, kind in KINDS.items()}
_CALLED = [(method.name, method.drafter) for method in METHODS] + [(spec.name, spec.name) for spec in EMBEDDED.drafters]
CALLED = {name: kind for name, part in _CALLED if (kind := _BY_FILE.get(EMBEDDED.drafter(part).module))}
CALLED |= {"denoise": "masked", "mdlm": "masked", "sequential": "autoregressive"}
"""Name of a method or of one of its drafters, or an earlier name -> kind of drafter."""
SHIFTS = {"dream": 1, "mdlm": 0}
"""Model type -> its shift, if all releases have one."""
_HUB = re.compile(r"hf://|(https?://)?(www\.)?(huggingface\.co|hf\.co)/", re.IGNORECASE)
_CAUSAL = ("gpt2", "gpt_neo", "gptj", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi", "opt")


class OwnPair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a pair's name (see :func:`parse`)."""

    target: Annotated[
        str,
        ask(
            "Target",
            "A folder, a GGUF file or a hub repository (owner/name:Q4_K_M for a GGUF file); so does --drafter.",
            least=1,
            most=300,
        ),
    ]
    drafter: Annotated[
        tuple[Annotated[str, ask("", most=300)], ...],
        ask("Drafters", "With --target: folders, GGUF files or hub repositories; otherwise names.", most=8),
    ] = ()
    target_revision: Annotated[str, ask("Revision of the target", most=100)] = ""
    drafter_revision: Annotated[str, ask("Revision of the drafter", most=100)] = ""
    kind: Annotated[str, ask("Kind", "Of drafter, if its config does not say.", enum=list(KINDS))] = ""
    shift: Annotated[int, ask("Shift", "For a denoiser: slot i − shift predicts token i.", 0, 1)] | None = None
    mask_id: Annotated[int, ask("Mask id", "For a denoiser whose config has none.", 0)] | None = None
    context: Annotated[int, ask("Context", "Tokens of a run.", SHORTEST, 2**20)] | None = None

    @property
    def name(self) -> str:
        """The pair's name; equal fields give equal names."""
        fields = {**msgspec.to_builtins(self), "drafter": ",".join(self.drafter)}
        return OWN + urlencode({name: fields[name] for name in sorted(fields) if fields[name] not in ("", None)})


def parse(values: dict[str, Any]) -> OwnPair:
    """From untrusted strings of a form, a flag or a link; empty ones are left out. A kind may be a method's name.

    Raises:
        ConfigError: a value is missing or invalid; the message says which.
    """
    given = {name: value for name, value in values.items() if value not in ("", None)}
    if "kind" in given:
        given["kind"] = CALLED.get(given["kind"], given["kind"])
    if isinstance(drafters := given.get("drafter"), str):
        given["drafter"] = drafters.split(",")
    for part in ("target", "drafter"):
        typed = given.get(part, ())
        sources = [parse_source(one) for one in ([typed] if isinstance(typed, str) else typed)]
        if sources:
            given[part] = sources[0][0] if part == "target" else [source for source, _ in sources]
            revision = given.get(f"{part}_revision") or sources[0][1]
            given |= {f"{part}_revision": revision} if revision else {}
    pair = read(OwnPair, given)
    if pair.kind and pair.kind not in KINDS:
        raise no_such("kind of drafter", pair.kind, KINDS, "kind")
    for field in ("target_revision", "drafter_revision"):
        if (revision := getattr(pair, field)) and not REVISION.fullmatch(revision):
            what = f"{revision!r} is not a revision."
            raise ConfigError(what, field=field, hint="Give a commit (40 hex digits) or the name of a branch.")
    return pair


def parse_source(typed: str) -> tuple[str, str]:
    """The source that somebody typed or pasted, and the revision in a hub address: without quotes and
    blanks, ``~`` as the home folder, and an address as ``owner/name`` or ``owner/name:file.gguf``."""
    text = typed.strip(" \t\r\n\"'`")
    if (hub := _HUB.match(text)) is None:
        return os.path.expanduser(unquote(text.removeprefix("file://")) if text.startswith("file://") else text), ""
    parts: list[str] = re.split(r"[?#]", text[hub.end() :])[0].strip("/").split("/")
    owner, name, _, revision, *path = [*parts, "", "", "", ""]
    file = "/".join(filter(None, path))
    source = f"{owner}/{name}".rstrip("/") + (f":{unquote(file)}" if file.lower().endswith(".gguf") else "")
    return source, "" if revision == "main" else revision


def parse_name(name: str) -> OwnPair:
    """The fields of a name that begins with :data:`OWN`.

    Raises:
        ConfigError: as :func:`parse`.
    """
    return parse(dict(parse_qsl(name.removeprefix(OWN), keep_blank_values=True)))


def find(name: str, context: int | None = None) -> PairSpec:
    """The pair of any name, also one of your own.

    Args:
        context: most tokens of a run; None: the pair's.

    Raises:
        SpecDiffError: as :func:`~specdiff_core.schema.pairs.find_pair` and :func:`register_pair`.
        ConfigError: the target has fewer positions.
    """
    spec = register_pair(name) if name.startswith(OWN) else find_pair(name)
    if context is None:
        return spec
    _positions(_fetched(spec.target, spec.revision), context)
    return dataclasses.replace(spec, context=context)


def _fetched(source: str, revision: str) -> Path:
    return resolve(source, revision, weights=False)


def register_pair(name: str, locate: Callable[[str, str], Path] = _fetched) -> PairSpec:
    """Register the pair of a name that begins with :data:`OWN`, so that
    :func:`~specdiff_core.schema.pairs.find_pair` finds it. Reads config files only.

    Args:
        locate: (source, revision) -> a folder with its config; by default it is downloaded if it is missing.

    Raises:
        ConfigError: the name is invalid, or the drafter's kind is unknown.
        WeightsError: a folder or its config is missing or damaged.
        PairUnavailable: a repository cannot be reached.
    """
    if name in OWN_PAIRS:
        return OWN_PAIRS[name]
    pair = parse_name(name)
    longest = _positions(locate(pair.target, pair.target_revision), pair.context)
    context = pair.context or min(longest or CONTEXT, CONTEXT)
    drafters = [_drafter(pair, source, locate(source, pair.drafter_revision), context) for source in pair.drafter]
    for i, one in enumerate(drafters):  # block, block-2, …
        if same := sum(one.name in (earlier.name, earlier.replaces) for earlier in drafters[:i]):
            drafters[i] = dataclasses.replace(one, name=f"{one.name}-{same + 1}", replaces=one.name)
    spec = PairSpec(
        name=name,
        label=f"{_called(pair.target)} + {', '.join(map(_called, pair.drafter)) or 'prompt lookup'} (your own pair)",
        target=pair.target,
        revision=pair.target_revision,
        context=context,
        drafters=(*drafters, *SHARED.values()),
    )
    OWN_PAIRS[spec.name] = spec
    while len(OWN_PAIRS) > KEPT:
        OWN_PAIRS.pop(next(iter(OWN_PAIRS)), None)
    return spec


def register(values: dict[str, Any]) -> tuple[PairSpec, tuple[str, ...]]:
    """Register the pair of ``values``, as of :func:`parse`; among its drafters may be names of drafters of every
    pair, such as ``prompt_lookup``.

    Returns:
        the pair, and the names of the chosen drafters, by default of its first.

    Raises:
        SpecDiffError: as :func:`register_pair`.
    """
    words = fields_of(OwnPair)["drafter"].read(values.get("drafter") or ())
    shared = [word for word in words if word in SHARED]
    spec = register_pair(parse({**values, "drafter": [word for word in words if word not in SHARED]}).name)
    own = [drafter.name for drafter in spec.drafters[: len(words) - len(shared)]]
    return spec, (*own, *shared) or (spec.drafters[0].name,)


def _positions(target: Path, context: int | None) -> int | None:
    """How many positions the target of a folder has, or None if its config does not say. Raises ConfigError if
    it has fewer than ``context``, or that is too short."""
    values = read_config(target)
    value = values.get("max_position_embeddings") or values.get("n_positions")
    longest = value if isinstance(value, int) else None
    if context is not None and not SHORTEST <= context <= (longest or context):
        has = f"The target has {longest:,} positions" if longest else "A run takes some room"
        what = f"{has}; a context of {context:,} doesn't fit."
        raise ConfigError(what, field="context", hint=f"Choose fewer, and at least {SHORTEST}.")
    return longest


def _called(source: str) -> str:
    return short_path(source) if is_local(source) else source


def _drafter(pair: OwnPair, source: str, folder: Path, context: int) -> DrafterSpec:
    """The record of a drafter whose config is in ``folder``: the name of its kind, so that every method knows it."""
    values = read_config(folder)
    detected, model = drafter_kind(values), str(values.get("model_type", ""))
    kind, shift = pair.kind or detected, pair.shift
    if shift is None:
        shift = SHIFTS.get(model.lower(), 0 if "cond_dim" in values else 1 if "specdiff" in names_in(values) else None)
    mask = values.get("mask_token_id") if pair.mask_id is None else pair.mask_id
    unstated = f"its config.json ({model or 'no model_type'}) does not say what it is"
    ambiguous = "it is a causal network with a mask token: it may draft one token after the other, or denoise"
    unshifted = "its files do not say whether slot i or slot i − 1 predicts token i"
    doubts = (
        (pair.kind and detected not in ("", pair.kind, "autoregressive"), "kind",
         f"its config.json says {detected}, and {pair.kind} is declared", "Leave the kind out."),
        (not pair.kind and detected == "autoregressive" and mask is not None, "kind", ambiguous,
         "Say which: autoregressive or masked."),
        (not kind, "kind", unstated, f"Say its kind: {', '.join(KINDS)}."),
        (kind == "masked" and shift is None, "shift", unshifted,
         "Say the shift: 0, or 1 as in Dream."),
        (kind == "masked" and mask is None and "n_blocks" not in values, "mask_id",
         "its config.json names no mask_token_id", "Say the id of its mask."),
    )  # fmt: skip
    for holds, field, why, hint in doubts:
        if holds:
            what = f"The kind of drafter {_called(source)} is unknown: {why}."
            raise ConfigError(what, field=field, hint=hint)
    fields, chained = dict[str, Any](), False
    if kind == "masked":
        length = values.get("model_length") or values.get("max_position_embeddings") or values.get("n_positions")
        fields = {"context": min(context, int(length or context)), "logit_shift": shift or 0, "mask_id": pair.mask_id}
        if isinstance(values.get("block_size"), int):
            fields["window"] = values["block_size"]
    elif kind == "block":
        nested = values.get("dflash_config")
        merged = {**values, **(nested if isinstance(nested, dict) else {})}
        heads = ("markov_width", "markov_rank", "selector_rank")
        chained = any(map(merged.get, heads)) or merged.get("projector_type") == "dspark"
        block = values.get("block_size", merged.get("block_size"))
        lead = 0 if anchor_predicts(values) else 1
        fields = {"window": block - lead if isinstance(block, int) and block > 1 else None}
    label = f"{_called(source)} (your own)"
    fields |= {"label": label, "source": source, "revision": pair.drafter_revision, "about": ""}
    return dataclasses.replace(DRAFTER_KINDS["block_markov"] if chained else KINDS[kind], **fields)


def drafter_kind(values: Mapping[str, Any]) -> str:
    """The kind of drafter that a ``config.json`` describes: one of :data:`KINDS`, or empty."""
    text, model = names_in(values), str(values.get("model_type", "")).lower()
    marked = (name for name, kind in KINDS.items() if any(mark in text for mark in kind.marks))
    return next(marked, "autoregressive" if model in _CAUSAL else "")


def names_in(values: Mapping[str, Any]) -> str:
    """The type, classes and keys in a ``config.json``, in lower case."""
    names = (values.get("model_type", ""), values.get("speculators_model_type"), *(values.get("architectures") or ()))
    return " ".join(map(str, (*names, *values))).lower()
