"""The prompts of a benchmark: this project's own, those of a file, or beginnings of a corpus' validation documents."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from specdiff_core.schema.errors import ConfigError

if TYPE_CHECKING:
    from specdiff_core.train.corpus import Corpus

Text = Annotated[str, msgspec.Meta(pattern=r"\S")]  # not empty


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One text to continue. ``id`` is unique in its file; ``flavour`` is the kind of text, by which results are
    grouped; of a problem also the right ``answer``."""

    id: Text
    flavour: Text
    prompt: Text
    answer: str = ""


OWN_TEXTS: dict[str, tuple[str, ...]] = {
    "dialogue": (
        "User: Hello, I need a taxi from the station to the museum at half past nine.\nAssistant:",
        "User: Can you find me a cheap restaurant in the centre of town?\nAssistant: Sure. What kind of "
        "food do you like?\nUser:",
        "User: I want to watch a film tonight. Is there anything funny on?\nAssistant:",
        "User: Please book a room for two people, from Friday to Sunday.\nAssistant: Which city will you be staying in?"
        "\nUser:",
        "User: What will the weather be like in Lisbon tomorrow?\nAssistant:",
    ),
    "stories": (
        "Once upon a time, a small grey mouse lived under the floor of an old library. Every night,",
        "Mia and her little brother wanted to build the tallest tower in the garden. First they",
        "The lighthouse keeper had not seen a ship for many weeks. Then one cold morning,",
        "There was once a young fox who was afraid of the dark. His mother told him",
        "On the last day of summer, Ben found a strange silver key on the beach. He",
    ),
    "math": (
        "Question: A farmer has 24 hens. Each hen lays 2 eggs a day. How many eggs does he collect in 5 days?\nAnswer:",
        "Question: Tom saves 15 dollars every week. A bicycle costs 180 dollars. How many weeks must he save?\nAnswer:",
        "Question: A train travels 60 miles in one hour. How far does it travel in 3 hours and 30 minutes?\nAnswer:",
        "Question: Anna bakes 48 cookies and puts 6 into each bag. She sells each bag for 4 dollars. How much "
        "money does she make?\nAnswer:",
        "Question: There are 120 pages in a book. Leo reads 18 pages a day for 4 days. How many are left?\nAnswer:",
    ),
    "code": (
        'def is_prime(number: int) -> bool:\n    """\n    Return True if number is a prime.\n    """\n',
        "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
        'def reverse_words(sentence: str) -> str:\n    """\n    Reverse the order of the words.\n',
        "def binary_search(values, target):\n    low = 0\n    high = len(values) - 1\n    while",
        "import math\n\n\nclass Circle:\n    def __init__(self, radius):\n        self.radius = radius\n\n    def "
        "area(self):\n",
    ),
}
"""Written for this project, five of each flavour that the embedded target knows. They ship, so the page measures on
them, and so do the recorded races of its comparison."""


class Problem(msgspec.Struct, frozen=True):
    """A problem in words with its solution, one sum a line, and its ``result``: by default that of the last sum."""

    prompt: Text
    steps: tuple[Text, ...]
    result: str = ""

    @property
    def answer(self) -> str:
        """The right answer."""
        return self.result or self.steps[-1].rpartition("= ")[2].split()[0]

    def begun(self, count: int) -> str:
        """The problem with the first ``count`` lines of its solution."""
        if count < 1:
            return self.prompt
        return "\n".join([f"{self.prompt} {self.steps[0]}", *self.steps[1:count], ""])


def problem(question: str, *steps: str, result: str = "") -> Problem:
    """A question as the embedded target has learnt to read it."""
    return Problem(f"Question: {question}\nAnswer:", steps, result)


OWN_PROBLEMS: tuple[Problem, ...] = (
    *(
        Problem(prompt, steps)
        for prompt, steps in zip(
            OWN_TEXTS["math"],
            (
                ("The hens lay 24 * 2 = 48 eggs a day.", "In 5 days he collects 48 * 5 = 240 eggs."),
                ("Tom must save for 180 / 15 = 12 weeks.",),
                ("In 3 hours the train travels 3 * 60 = 180 miles.", "In all it travels 180 + 30 = 210 miles."),
                ("Anna fills 48 / 6 = 8 bags.", "She makes 8 * 4 = 32 dollars."),
                ("Leo reads 18 * 4 = 72 pages.", "There are 120 - 72 = 48 pages left."),
            ),
            strict=True,
        )
    ),
    problem("Tom has 3 apples. He buys 4 more. How many apples does he have?", "Tom has 3 + 4 = 7 apples."),
    problem("Mia has 12 pencils. She gives 5 to Ben. How many are left?", "There are 12 - 5 = 7 pencils left."),
    problem(
        "A box holds 6 eggs. A baker buys 4 boxes and breaks 3 eggs. How many eggs are whole?",
        "The baker buys 6 * 4 = 24 eggs.",
        "There are 24 - 3 = 21 whole eggs.",
    ),
    problem("A ticket costs 9 dollars. How much do 5 tickets cost?", "The tickets cost 9 * 5 = 45 dollars."),
    problem(
        "There are 30 children in a class. A third of them walk to school. How many do not?",
        "30 / 3 = 10 children walk to school.",
        "30 - 10 = 20 children do not.",
    ),
    problem(
        "Sam earns 11 dollars an hour. He works 6 hours a day. How much does he earn in 5 days?",
        "Sam earns 11 * 6 = 66 dollars a day.",
        "In 5 days he earns 66 * 5 = 330 dollars.",
    ),
    problem(
        "A rope is 50 metres long. Eva cuts off 14 metres, then 9 metres. How long is the rest?",
        "Eva cuts off 14 + 9 = 23 metres.",
        "The rest is 50 - 23 = 27 metres long.",
    ),
    problem(
        "A shop sells 25 cakes in the morning and twice as many in the afternoon. How many does it sell?",
        "In the afternoon it sells 25 * 2 = 50 cakes.",
        "In all it sells 25 + 50 = 75 cakes.",
    ),
    problem("Nine friends share 63 cherries. How many does each get?", "Each friend gets 63 / 9 = 7 cherries."),
    problem(
        "A car uses 8 litres for 100 kilometres. How many litres does it use for 400 kilometres?",
        "400 kilometres are 400 / 100 = 4 times as far.",
        "The car uses 8 * 4 = 32 litres.",
    ),
    problem(
        "Zoe is 13. Her father is three times as old. How old will he be in 6 years?",
        "Her father is 13 * 3 = 39 years old.",
        "In 6 years he will be 39 + 6 = 45 years old.",
    ),
)
"""Written for this project, with the solutions by hand: what a small target cannot work out, it may still finish."""


def own_problems() -> tuple[Prompt, ...]:
    """The worked problems as prompts: with all their sums, so that what is left is to say the answer."""
    return tuple(
        Prompt(id=f"own-problem-{number}", flavour="math", prompt=one.begun(len(one.steps)), answer=one.answer)
        for number, one in enumerate(OWN_PROBLEMS, start=1)
    )


def own_prompts(per_flavour: int = 5) -> tuple[Prompt, ...]:
    """The first ``per_flavour`` own prompts of each flavour. The first of all flavours come before the second of any,
    so that a measurement that ends early has met every flavour."""
    return tuple(
        Prompt(id=f"own-{flavour}-{number + 1}", flavour=flavour, prompt=texts[number])
        for number in range(per_flavour)
        for flavour, texts in OWN_TEXTS.items()
    )


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


class _Turns(msgspec.Struct):
    """A line of Spec-Bench's ``question.jsonl``, and of MT-Bench's: its first turn is the prompt."""

    question_id: int | str
    category: Text
    turns: Annotated[list[Text], msgspec.Meta(min_length=1)]


def _read_prompt(line: bytes) -> Prompt:
    if b'"turns"' not in line:
        return msgspec.json.decode(line, type=Prompt)
    told = msgspec.json.decode(line, type=_Turns)
    return Prompt(id=f"{told.category}-{told.question_id}", flavour=told.category, prompt=told.turns[0])


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Read JSON lines ``{"id", "flavour", "prompt"}``, or those of Spec-Bench.

    Raises:
        ConfigError: the file is missing or empty, or a line is wrong; the message names the line.
    """
    hint = 'Give a text file; every line is a JSON object {"id": "…", "flavour": "…", "prompt": "…"}.'
    prompts: dict[str, Prompt] = {}
    where = path.name
    try:
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            where = f"{path.name}, line {number}"
            if line.strip():
                prompt = _read_prompt(line)
                if prompt.id in prompts:
                    raise ValueError(f"the id {prompt.id!r} stands there twice")
                prompts[prompt.id] = prompt
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise ConfigError(f"{where}: {error}.", field="prompts", hint=hint) from error
    if not prompts:
        raise ConfigError(f"{path.name} holds no prompt.", field="prompts", hint=hint)
    return tuple(prompts.values())


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write a file that :func:`read_prompts` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(prompt) + b"\n" for prompt in prompts))


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
    words = re.match(rf"(?s).{{,{characters}}}(?<=\S)(?=\s)", text)
    return words[0] if words else text[:characters]


def digest(prompts: Sequence[Prompt]) -> str:
    """A short hash: two results with the same digest were measured on the same prompts."""
    facts = json.dumps([(prompt.id, prompt.flavour, prompt.prompt) for prompt in prompts])
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
