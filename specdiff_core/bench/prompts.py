"""Prompts of a benchmark: JSON lines ``{"id", "flavour", "prompt"}``. Knows files and text, no model.

They are written by hand, or cut from the validation documents of a corpus.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdiff_core.schema.errors import ConfigError

if TYPE_CHECKING:
    from specdiff_core.train.corpus import Corpus

FORM = 'Every line must be a JSON object {"id": "…", "flavour": "…", "prompt": "…"}.'


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One text to continue. ``id`` is unique in its file; ``flavour`` groups the report."""

    id: str
    flavour: str
    prompt: str


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Read a file.

    Raises:
        ConfigError: it is missing, empty, or a line is wrong; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON strings may hold other line separators
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The prompts {path.name} cannot be read: {error}.", field="prompts", hint="Give --prompts a text file."
        ) from error
    prompts: list[Prompt] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            prompts.append(_parse(line, f"{path.name}, line {number}"))
    if not prompts:
        raise ConfigError(f"{path.name} holds no prompt.", field="prompts", hint=FORM)
    ids = [prompt.id for prompt in prompts]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ConfigError(f"{path.name} has the id {twice[0]!r} twice.", field="prompts", hint="Give each its own id.")
    return tuple(prompts)


def _parse(line: str, where: str) -> Prompt:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is not JSON ({error}).", field="prompts", hint=FORM) from error
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: this is not a JSON object.", field="prompts", hint=FORM)
    for name in ("id", "flavour", "prompt"):
        if not isinstance(values.get(name), str) or not values[name].strip():
            raise ConfigError(f"{where}: {name!r} must be a text that is not empty.", field="prompts", hint=FORM)
        if any("\ud800" <= char <= "\udfff" for char in values[name]):  # half a UTF-16 pair: no file can hold it
            raise ConfigError(f"{where}: {name!r} holds characters that are no text.", field="prompts", hint=FORM)
    return Prompt(id=values["id"], flavour=values["flavour"], prompt=values["prompt"])


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write a file that :func:`read_prompts` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(dataclasses.asdict(prompt), ensure_ascii=False) for prompt in prompts]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_prompts(corpus: Corpus, *, per_flavour: int = 10, characters: int = 200) -> tuple[Prompt, ...]:
    """The beginnings of evenly spaced validation documents, cut after a word: the same for the same corpus.

    Only documents that are at least twice as long are taken where there are enough of them, so that every prompt is
    the beginning of something.
    """
    prompts = []
    for flavour in corpus.flavours:
        documents = list(corpus.documents(flavour, "valid"))
        long = [text for text in documents if len(text) >= 2 * characters]
        pool = long if len(long) >= per_flavour else documents
        count = min(per_flavour, len(pool))
        for number in range(count):
            text = cut(pool[number * len(pool) // count], characters)
            prompts.append(Prompt(id=f"{flavour}-{number + 1:03d}", flavour=flavour, prompt=text))
    return tuple(prompts)


def cut(text: str, characters: int) -> str:
    """At most ``characters`` of ``text``, up to the end of a word (or of the limit, if there is only one)."""
    if len(text) <= characters:
        return text
    head = text[:characters]
    if text[characters].isspace():
        return head.rstrip()
    words = head.rsplit(maxsplit=1)
    return head[: -len(words[1])].rstrip() if len(words) == 2 else head


def digest(prompts: Sequence[Prompt]) -> str:
    """A short hash: two results with the same digest were measured on the same prompts."""
    facts = json.dumps([dataclasses.astuple(prompt) for prompt in prompts])
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
