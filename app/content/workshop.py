"""The workshop of the Learn tab: the lessons of workshop.json. Each asks a question, points at a recorded result,
explains it with one formula, and ends with a check. A summary closes them. All of it can be read without running
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from . import evidence, scenes
from .formulas import Formula, letters, typeset
from .html import element, markup


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of workshop.json."""


class Watch(Record, frozen=True, kw_only=True):
    """Where a lesson points: a moment of a recording in Live, or a panel of an exploration. The rest of the page is
    dimmed."""

    words: str = ""
    explore: str = ""  # an exploration of Explore or Compare,
    answer: str = ""  # which of its recorded answers; empty: the default one
    panel: str = ""  # one of its figures, by its key, "widget" or "board"
    lines: tuple[str, ...] = ()  # lines of the figure, or methods of the board; empty: all
    query: dict[str, str] = {}  # of “Run it here”: less than was recorded
    trace: str = ""  # or a recording, at its first round with both verdicts; “Run it here” uses its settings
    area: str = ""  # a selector in the player


class CheckAnswer(Record, frozen=True, kw_only=True):
    """An answer to the check."""

    words: str
    why: str  # it is right or wrong
    right: bool = False


class Lesson(Record, frozen=True, kw_only=True):
    """One lesson of the workshop; without a question, the summary that closes it."""

    name: str
    title: str
    predict: str = ""  # a question
    guesses: tuple[str, ...] = ()
    right: int = -1  # the guess that the recording confirms (evidence.py)
    watch: Watch = Watch()
    explain: tuple[str, ...]
    formula: Formula
    letters: str
    check: str = ""
    answers: tuple[CheckAnswer, ...] = ()
    core: bool = False  # one of the five to teach if time is short


*_LESSONS, CLOSING = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=tuple[Lesson, ...])
WORKSHOP = tuple(_LESSONS)
MINUTES = {"core": 30, "all": 65}
"""The guide's plan, with time to join and to vote."""

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "teaching.md"
"""A wheel has no documents."""


def lessons(chosen: Sequence[Lesson] = WORKSHOP) -> list[dict[str, Any]]:
    """The lessons and the summary as JSON values for the page's script. ``truth`` answers the first question; ``round``
    is the one that a recording opens at."""
    return [
        msgspec.to_builtins(lesson)
        | {"truth": evidence.truth(lesson.name), "round": scenes.opening(lesson.watch.trace)}
        for lesson in (*chosen, CLOSING)
    ]


def article(number: int, lesson: Lesson) -> str:
    """A lesson to read and to print. An answer, or skipping it, shows the explanation."""

    def button(words: str, **attributes: object) -> str:
        return element("button", text=words, type="button", data_lesson=lesson.name, **attributes)

    def options(words: Iterable[str]) -> str:
        """Answers to choose from, which start the lesson at their question."""
        chosen = (button(text, class_="sd-link", data_option=i) for i, text in enumerate(words))
        return element("ol", *(element("li", item) for item in chosen), type="a")

    start = button("Start", class_="sd-lesson-start", aria_label=f"Start the lesson: {lesson.title}")

    solved = (element("li", text=f"{'✓' if one.right else '✕'} {one.words}. {one.why}") for one in lesson.answers)
    return element(
        "article",
        element("header", element("h3", text=f"{number}. {lesson.title}"), start),
        element("p", text=lesson.predict, class_="sd-lesson-predict"),
        options(lesson.guesses),
        element("p", class_="sd-lesson-guessed"),
        element(
            "button", text="Skip the question: show the explanation", type="button", class_="sd-link sd-lesson-skip"
        ),
        element(
            "div",
            element("p", text=evidence.truth(lesson.name), class_="sd-lesson-truth"),
            scenes.scene(lesson.name),
            *_explained(lesson),
            class_="sd-lesson-explained",
        ),
        element(
            "div",
            element("p", element("b", text="Check. "), element("span", letters(lesson.check))),
            options(one.words for one in lesson.answers),
            element("details", element("summary", text="Answers"), element("ul", *solved), class_="sd-lesson-answers"),
            class_="sd-lesson-check",
        ),
        class_="sd-lesson sd-workshop-lesson",
        id=f"lesson-{lesson.name}",
        data_core=str(lesson.core).lower(),
    )


def _explained(lesson: Lesson) -> tuple[str, ...]:
    return (*(element("p", text=words) for words in lesson.explain), typeset([lesson.formula], lesson.letters))


def closing() -> str:
    """The summary."""
    return element(
        "article",
        element("header", element("h3", text=CLOSING.title)),
        *_explained(CLOSING),
        class_="sd-lesson sd-workshop-lesson",
        id=f"lesson-{CLOSING.name}",
        data_core="true",
        data_open="",
    )


def contents(chosen: Sequence[Lesson]) -> str:
    """Links to the lessons; the page's script marks those that are done."""

    def entry(lesson: Lesson) -> str:
        core = element("span", text="core" if lesson.core else "", class_="sd-lesson-core")
        done = element("span", class_="sd-lesson-done", data_done=lesson.name)
        link = element("a", text=lesson.title, href=f"#lesson-{lesson.name}")
        return element("li", link, core, done, data_core=str(lesson.core).lower())

    return element("nav", element("ol", *map(entry, chosen)), class_="sd-workshop-contents", aria_label="Lessons")


def guide(path: Path = GUIDE) -> str:
    """The teacher's guide, folded, without its title; empty where it was not installed."""
    if not path.is_file():
        return ""
    summary = element("summary", text="For the teacher: minutes, wrong guesses to expect, and the key")
    text = path.read_text(encoding="utf-8").partition("\n\n")[2]
    return element("details", summary, markup(text), class_="sd-lesson sd-workshop-teacher", id="sd-teacher")


def section(chosen: Sequence[Lesson] = WORKSHOP) -> str:
    """The workshop."""
    core = sum(lesson.core for lesson in chosen)
    lead = (
        "Each lesson asks a question, shows a recorded run, explains it and ends with a check that uses numbers of "
        "your own runs. The model is SmolLM2, unless a lesson says otherwise. ✓ marks an accepted "
        "guess, ✕ a rejected one, dots an untested one, + the target’s own token. Your answers stay in this browser; "
        "a room counts them without names."
    )

    def path(name: str, count: int) -> str:
        words = f"{name.capitalize()}: {count} lessons, {MINUTES[name]} minutes"
        return element("button", text=words, type="button", class_="sd-link", data_path=name)

    buttons = element(
        "p",
        *([path("core", core), path("all", len(chosen))] if chosen == WORKSHOP else []),
        element("span", class_="sd-workshop-progress", aria_live="polite"),
        element("button", text="Print as a worksheet", type="button", class_="sd-link sd-workshop-print"),
        element("button", text="Present to a room", type="button", class_="sd-link sd-workshop-present"),
        class_="sd-workshop-bar",
    )
    articles = [*(article(number, lesson) for number, lesson in enumerate(chosen, 1)), closing()]
    half = (len(articles) + 1) // 2
    return element(
        "section",
        element("h2", text="Workshop", id="sd-workshop"),
        element("p", text=lead, class_="sd-workshop-lead"),
        element("div", class_="sd-workshop-room"),
        buttons,
        contents(chosen),
        guide() if chosen == WORKSHOP else "",
        element(
            "div", element("div", *articles[:half]), element("div", *articles[half:]), class_="sd-workshop"
        ),  # two columns: what opens in one leaves no hole in the other
        class_="sd-chapter",
        data_hide="presenting",
        aria_labelledby="sd-workshop",
    )
