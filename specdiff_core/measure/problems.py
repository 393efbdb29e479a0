"""Word problems with worked solutions: ours, forms filled with numbers, the same on every machine; and a visitor's."""

from __future__ import annotations

import re
from operator import add, floordiv, mul, sub
from typing import NamedTuple

import msgspec

from specdiff_core.measure.answers import canonical, final_answer
from specdiff_core.measure.prompts import Problem, Text
from specdiff_core.schema.errors import ConfigError

VARIANTS = 20
"""Problems of each form."""
LONGEST_ANSWER = 60
"""Maximum characters of a visitor's answer."""
NAMES = ["Tom", "Mia", "Ben", "Anna", "Leo", "Zoe", "Sam", "Eva", "Max", "Lily"]
THINGS = ["apples", "pencils", "books", "marbles", "cards", "shells", "stamps", "coins", "balls", "cakes"]
_SIGNS = {"+": add, "-": sub, "*": mul, "/": floordiv}


class Form(NamedTuple):
    """A question and its solution, one step per line; in a step ``?`` is its result, ``{r}`` that of the last step.

    ``a`` and ``b``: (least, number of values); where a is divided, it is b times a number of ``a``."""

    question: str
    steps: tuple[str, ...]
    a: tuple[int, int]
    b: tuple[int, int]


FORMS = (
    Form(
        "{name} has {a} {things} and buys {b} more. How many {things} does {name} have?",
        ("{name} has {a} + {b} = ? {things}.",),
        (2, 9),
        (2, 7),
    ),
    Form(
        "{name} has {a} {things} and gives {b} to {other}. How many {things} are left?",
        ("There are {a} - {b} = ? {things} left.",),
        (11, 9),
        (2, 7),
    ),
    Form(
        "A box holds {a} {things}. How many {things} do {b} boxes hold?",
        ("The boxes hold {b} * {a} = ? {things}.",),
        (3, 10),
        (2, 7),
    ),
    Form(
        "{b} friends share {a} {things}. How many {things} does each friend get?",
        ("Each friend gets {a} / {b} = ? {things}.",),
        (2, 9),
        (2, 7),
    ),
    Form(
        "A ticket costs {a} dollars. How many dollars do {b} tickets cost?",
        ("The tickets cost {b} * {a} = ? dollars.",),
        (3, 12),
        (2, 7),
    ),
    Form(
        "A book has {a} pages. {name} reads {b} pages a day. How many days does {name} need?",
        ("{name} needs {a} / {b} = ? days.",),
        (3, 9),
        (5, 8),
    ),
    Form(
        "A rope is {a} metres long. {name} cuts off {b} metres. How long is the rest?",
        ("The rest is {a} - {b} = ? metres long.",),
        (20, 21),
        (3, 13),
    ),
    Form(
        "{name} earns {a} dollars an hour and works {b} hours a day. How many dollars does {name} earn in 5 days?",
        ("{name} earns {b} * {a} = ? dollars a day.", "In 5 days {name} earns {r} * 5 = ? dollars."),
        (8, 11),
        (3, 6),
    ),
    Form(
        "{name} buys {b} bags of {a} {things} and loses 4. How many {things} are left?",
        ("{name} buys {b} * {a} = ? {things}.", "There are {r} - 4 = ? {things} left."),
        (3, 9),
        (2, 7),
    ),
    Form(
        "{name} puts {a} {things} into bags of {b} and sells each bag for 3 dollars. "
        "How many dollars does {name} make?",
        ("{name} fills {a} / {b} = ? bags.", "{name} makes {r} * 3 = ? dollars."),
        (2, 9),
        (2, 7),
    ),
)


def _problem(form: Form, number: int) -> Problem:
    """The problem of a form with its ``number``-th values."""
    (least_a, count_a), (least_b, count_b) = form.a, form.b
    a, b = least_a + 5 * number % count_a, least_b + (number + number // count_a) % count_b
    if " / " in form.steps[0]:
        a *= b
    words = {"name": NAMES[number % 10], "other": NAMES[(number + 3) % 10], "things": THINGS[(7 * number) % 10]}
    steps, result = list[str](), 0
    for step in form.steps:
        text = step.format(a=a, b=b, r=result, **words)
        left, sign, right = re.findall(r"(\d+) ([-+*/]) (\d+)", text)[0]
        result = _SIGNS[sign](int(left), int(right))
        steps.append(text.replace("?", str(result)))
    return Problem(f"Question: {form.question.format(a=a, b=b, **words)}\nAnswer:", tuple(steps))


PROBLEMS = tuple(_problem(form, number) for number in range(VARIANTS) for form in FORMS)
"""The first of every form, then the second, …"""
EXAMPLES = (
    "Question: Kim has 4 pens and buys 3 more. How many pens does Kim have?\n"
    "Answer: Kim has 4 + 3 = 7 pens. The answer is 7.\n\n"
    "Question: A bag holds 5 nuts. How many nuts do 2 bags hold?\n"
    "Answer: The bags hold 2 * 5 = 10 nuts. The answer is 10.\n\n"
)
"""Two solved problems, for a target that must see what an answer looks like."""


class _Line(msgspec.Struct):
    answer: Text | float
    question: str = ""
    problem: str = ""
    prompt: str = ""


def read_problem(line: str, number: int = 0) -> Problem:
    """Read a visitor's problem: ``question | answer``, or a JSON object with ``question`` (GSM8K)
    or ``problem`` (MATH-500) and ``answer``. An answer that ends in ``#### 12`` or contains
    ``\\boxed{\\frac{1}{2}}`` is a solution, one line per step.

    Raises:
        ConfigError: the question or the answer is missing.
        msgspec.DecodeError: it is not such an object.
    """
    if line.lstrip().startswith("{"):
        parsed = msgspec.json.decode(line, type=_Line)
        question, answer = parsed.question or parsed.problem or parsed.prompt, str(parsed.answer)
    else:
        question, _, answer = line.rpartition("|")
    if not question.strip():
        raise ConfigError('there is no question, nor "|" and an answer after one')
    worked, _, last = answer.rpartition("####")
    if "\\boxed{" in answer:
        worked, last = answer, final_answer(answer)
    if not (right := canonical(last)):
        raise ConfigError("there is no answer")
    if len(right) > LONGEST_ANSWER:
        raise ConfigError(f"the answer is longer than {LONGEST_ANSWER} characters")
    steps = [re.sub("<<.*?>>", "", step).strip() for step in worked.splitlines()]  # <<…>>: notes for a calculator
    return Problem(f"Question: {question.strip()}\nAnswer:", tuple(filter(None, steps)), right)
