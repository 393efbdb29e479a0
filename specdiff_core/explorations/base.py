"""The declaration of an exploration. One is one file: a record of settings that measures an answer.

The fields of a record define the form on the page, the flags of the command line and the arguments
in Python. ``explore`` measures; ``report`` turns the numbers into one sentence, notes and figures,
for the page and the command line. :mod:`~specdiff_core.explorations.run` runs it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

import msgspec

from specdiff_core.explorations.fields import PAIR, SEED, TEMPERATURE, window_drafter
from specdiff_core.explorations.figures import Figure
from specdiff_core.measure.prompts import OWN_TEXTS, Problem, Prompt, own_prompts
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.fields import ask, fields_of
from specdiff_core.schema.methods import resolve_methods
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

P = TypeVar("P", Prompt, Problem)


class Answer(msgspec.Struct, kw_only=True):
    """Results so far, as plain numbers."""

    rows: list[dict[str, Any]]  # the table that a CSV file holds
    facts: dict[str, Any] = {}  # what charts need besides the rows
    runs: list[dict[str, Any]] = []  # the counts of each setting on each prompt: a second table
    races: dict[str, bytes] = {}  # a row's ``race`` -> its trace file, for the player


class Board(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A table of methods with a bar for each speed-up. A row: ``mark`` (glyph, colour, hatch),
    ``label``, ``words``, ``value``, ``low``, ``high``, ``race``, ``busy``, and ``cells`` of [words,
    meaning] below ``columns``."""

    title: str
    columns: list[tuple[str, str, str]]  # head, meaning, and the head where room is short
    rows: list[dict[str, Any]]
    when: dict[str, str] = {}


class Switch(msgspec.Struct, kw_only=True):
    """A control that selects what is shown, without measuring. ``options``: value, label, meaning."""

    name: str
    title: str
    options: list[tuple[str, str, str]]


class Report(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An exploration's results in words and figures."""

    answer: str = ""  # one sentence
    notes: list[str] = []
    figures: list[Figure] = []
    titles: dict[str, str] = {}  # race -> its title in the player
    lanes: dict[str, str] = {}  # lane of a race -> its label, where they are not vanilla and drafted
    boards: list[Board] = []
    switches: list[Switch] = []


class Step(NamedTuple):
    """Progress of an exploration. Its answer is computed on demand."""

    done: int
    total: int
    doing: str
    answer: Callable[[], Answer]
    made: Callable[[], dict[str, bytes]] = dict  # files to download, by name; called at the end only


NAMED: dict[str, type[Exploration]] = {}
"""The explorations so far, by name."""


class Exploration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and the pair to measure; ``schema.fields.parse`` makes one from untrusted values."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    rank: ClassVar[float] = math.inf  # on the page: lower ones first
    columns: ClassVar[dict[str, str]] = {}  # column of the table -> its meaning
    tab: ClassVar[str] = "explore"  # tab of the page
    alone: ClassVar[bool] = False  # whether it is a command of its own, not one of ``explore``
    takes: ClassVar[float] = 60  # seconds, about what its default settings take with the embedded pair on two cores
    scales: ClassVar[tuple[str, ...]] = ()
    """Fields that multiply that time: by their number, or by the length of their list."""
    pairless: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # setting -> values with which no pair is measured
    windows: ClassVar[bool] = False  # its ``drafter`` must draw a window from its own distributions

    pair: PAIR = "embedded"

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            NAMED[cls.name] = cls

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters it needs: by default its ``drafter``, or those of its ``methods``.

        Raises:
            ConfigError: the pair lacks one of them, a method is unknown, or the drafter doesn't draw a window; the hint
                names those that fit.
        """
        if methods := getattr(self, "methods", ()):
            base = DecodeConfig(pair=self.pair)
            return tuple(dict.fromkeys(one.config(base).drafter for one in resolve_methods(self.pair, methods)))
        drafter = getattr(self, "drafter", "")
        return (window_drafter(self.pair, drafter) if self.windows else drafter,) if drafter else ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Further targets that it loads: folders, GGUF files or repositories."""
        return ()

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        """Measure, one step at a time. Between two steps other runs may use ``engine``.

        Args:
            stop: checked before each pass; completed runs stay in the answer.

        Raises:
            SpecDiffError: nothing can be measured; the message says why.
        """
        raise NotImplementedError

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        """Describe the numbers of an :class:`Answer`, complete or partial. Pure."""
        return Report()

    @classmethod
    def form(cls) -> list[dict[str, Any]]:
        """The fields as plain JSON values, its own first; shared ones are advanced ones."""
        fields, kinds = fields_of(cls), [kind for kind in reversed(cls.__mro__) if kind.__module__ != __name__]
        own = dict.fromkeys(name for kind in kinds for name in vars(kind).get("__annotations__", ()))  # not shared
        return [fields[name].form(more=name not in own) for name in own | fields if name in fields]


class OnPrompts(Exploration, frozen=True, kw_only=True):
    """An exploration that decodes prompts: this project's, or the visitor's."""

    scales: ClassVar[tuple[str, ...]] = ("flavours", "per_flavour", "tokens")

    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 256)] = 64
    flavours: Annotated[
        tuple[str, ...],
        ask("Kinds of text", "Which of this project's prompts to use.", enum=list(OWN_TEXTS)),
    ] = tuple(OWN_TEXTS)
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 2
    texts: Annotated[
        str,
        ask(
            "Your own prompts",
            'Replace ours: one per line, or JSON lines {"id", "flavour", "prompt"}.',
            most=20_000,
            replaces=("flavours", "per_flavour"),
        ),
    ] = ""
    seed: SEED = 0

    @property
    def base(self) -> DecodeConfig:
        """Settings that all runs share."""
        return DecodeConfig(pair=self.pair, max_new_tokens=self.tokens, seed=self.seed, ignore_eos=True)

    def prompts(self, engine: Engine) -> tuple[list[Prompt], list[str]]:
        """The prompts, and why the lines that were left out are not usable.

        Raises:
            ConfigError: no prompt is left.
        """
        if self.texts.strip():
            prompts, skipped = each_line(self.texts, _read_line, lambda prompt: engine.encode(prompt.prompt, self.base))
        else:
            prompts, skipped = [], []
            for prompt in own_prompts(self.per_flavour):
                try:
                    if prompt.flavour in self.flavours and engine.encode(prompt.prompt, self.base):
                        prompts.append(prompt)
                except SpecDiffError as error:  # the pair's context may be too short
                    skipped.append(f"{prompt.id}: {error.message}")
        if not prompts:
            raise ConfigError(
                "There is no prompt to measure. " + "; ".join(skipped[:3]),
                field="texts",
                hint="Choose a kind of text, or give prompts of your own.",
            )
        return prompts, skipped


class AtTemperature(OnPrompts, frozen=True, kw_only=True):
    """An exploration whose runs share a temperature."""

    temperature: TEMPERATURE = 0.0

    @property
    def base(self) -> DecodeConfig:
        return dataclasses.replace(super().base, temperature=self.temperature)


def each_line(text: str, read: Callable[[str, int], P], check: Callable[[P], object]) -> tuple[list[P], list[str]]:
    """The prompts or problems in the lines of a text, and why some lines were left out.

    Args:
        read: parses a line, given with its number from 1.
        check: raises SpecDiffError if the result cannot be used; ``read`` may too. Only their messages are shown.
    """
    by_name, skipped = dict[str, P](), []
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))  # JSON may hold other line separators
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                prompt = read(line, number)
                name = getattr(prompt, "id", prompt.prompt)
                if name in by_name:
                    raise ConfigError(f"{name[:40]!r} appears twice")
                check(prompt)
                by_name[name] = prompt
        except (SpecDiffError, msgspec.DecodeError, RecursionError) as error:
            skipped.append(f"line {number}: {getattr(error, 'message', error)}")
    return list(by_name.values()), skipped


def _read_line(line: str, number: int) -> Prompt:
    if line.lstrip().startswith("{"):
        return msgspec.json.decode(line, type=Prompt)
    return Prompt(id=f"line-{number}", flavour="yours", prompt=line.strip())
