"""Prompts: this project's (``own.jsonl``) and those of a file."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from specdiff_core.schema.errors import ConfigError

Text = Annotated[str, msgspec.Meta(pattern=r"\S")]  # not empty


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text to continue. ``id`` is unique in its file; results are grouped by ``flavour``, the
    kind of text; a problem has its correct ``answer``."""

    id: Text = ""
    flavour: Text = "all"
    prompt: Text
    answer: str = ""


class Problem(msgspec.Struct, frozen=True):
    """A word problem with its solution, one step per line, and its ``result``, by default that of the last step."""

    prompt: Text  # Question: …\nAnswer:
    steps: tuple[Text, ...]
    result: str = ""

    @property
    def answer(self) -> str:
        return self.result or self.steps[-1].rpartition("= ")[2].split()[0]

    def begun(self, count: int) -> str:
        """The problem with the first ``count`` lines of its solution."""
        if count < 1:
            return self.prompt
        return "\n".join([f"{self.prompt} {self.steps[0]}", *self.steps[1:count], ""])


class _Turns(msgspec.Struct):
    """A line of Spec-Bench's or MT-Bench's ``question.jsonl``: its first turn is the prompt."""

    question_id: int | str
    category: Text
    turns: Annotated[list[Text], msgspec.Meta(min_length=1)]


def _read_prompt(line: str) -> Prompt:
    if '"turns"' not in line:
        return msgspec.json.decode(line, type=Prompt)
    question = msgspec.json.decode(line, type=_Turns)
    return Prompt(id=f"{question.category}-{question.question_id}", flavour=question.category, prompt=question.turns[0])


def _read_text(line: str) -> Prompt:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        raise ValueError("this is JSON, whose file must be named .jsonl")
    return Prompt(prompt=line.strip())


FORMS = 'a text file with a prompt per line, or .jsonl with {"prompt", "flavour", "id"}; or .xz'


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Read a text file with a prompt per line, or JSON lines ``{"prompt"}``, optionally with
    ``flavour`` and ``id``, or Spec-Bench's (``.jsonl``). A file ``.xz`` is unpacked. A prompt
    without an id gets a hash of its text; the same text again is left out.

    Raises:
        ConfigError: the file can't be read or is empty, or a line is wrong; the message names it.
    """
    hint = f"Give {FORMS}."
    prompts: dict[str, Prompt] = {}
    read = _read_prompt if {".jsonl", ".json"} & {*path.suffixes} else _read_text
    where = ""
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), start=1):
            where = f", line {number}"
            if line.strip():
                prompt = read(line)
                if prompt.id in prompts:
                    raise ValueError(f"the id {prompt.id!r} appears twice")
                name = prompt.id or hashlib.sha256(prompt.prompt.encode()).hexdigest()[:12]
                prompts.setdefault(name, msgspec.structs.replace(prompt, id=name))
    except (OSError, lzma.LZMAError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        what = f"{where}: {why}." if where else f" can't be read ({why})."
        raise ConfigError(path.name + what, field="prompts", hint=hint) from error
    if not prompts:
        raise ConfigError(f"{path.name} holds no prompt.", field="prompts", hint=hint)
    return tuple(prompts.values())


_HERE = Path(__file__).resolve().parent
_OWN = read_prompts(_HERE / "own.jsonl")  # the first of every flavour, then the second, …
OWN_TEXTS: dict[str, tuple[str, ...]] = {
    flavour: tuple(prompt.prompt for prompt in _OWN if prompt.flavour == flavour)
    for flavour in dict.fromkeys(prompt.flavour for prompt in _OWN)
}
"""Written for this project, five of each flavour of the embedded target's training text."""


def ranks(prompts: Sequence[Prompt]) -> list[int]:
    """How many prompts of the same flavour come before each."""
    flavours = [prompt.flavour for prompt in prompts]
    return [flavours[:number].count(flavour) for number, flavour in enumerate(flavours)]


def first_of_each(prompts: Sequence[Prompt], count: int) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of every flavour.

    Raises:
        ConfigError: none is left.
    """
    if count < 1:
        raise ConfigError("--first leaves no prompt.", field="first", hint="Give at least 1.")
    return tuple(prompt for prompt, rank in zip(prompts, ranks(prompts), strict=True) if rank < count)


def own_prompts(per_flavour: int = 5) -> tuple[Prompt, ...]:
    """The first ``per_flavour`` own prompts of each flavour; the first of all flavours come before
    the second of any, so that a measurement that ends early covers every flavour."""
    return first_of_each(_OWN, per_flavour)


def digest(prompts: Sequence[Prompt]) -> str:
    """A short hash of the prompts."""
    facts = json.dumps([(prompt.id, prompt.flavour, prompt.prompt) for prompt in prompts])
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
