"""Prompts that ship with the project, written for it: five for each flavour the embedded target knows. Plain data.

Validation documents, the prompts of BENCHMARKS.md, do not ship; these do. The page measures on them, and its recorded
comparison was measured on them, because the races behind its bars ship as well.
"""

from __future__ import annotations

from specdiff_core.bench.prompts import Prompt

TEXTS: dict[str, tuple[str, ...]] = {
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

OWN_PROMPTS: tuple[Prompt, ...] = tuple(
    Prompt(id=f"own-{flavour}-{number}", flavour=flavour, prompt=text)
    for flavour, texts in TEXTS.items()
    for number, text in enumerate(texts, start=1)
)


def own_prompts(per_flavour: int) -> tuple[Prompt, ...]:
    """The first ``per_flavour`` prompts of each flavour: the first of all flavours, then the second of all, and so on,
    so that a measurement that ends early has met them alike."""

    def number(prompt: Prompt) -> int:
        return int(prompt.id.rsplit("-", 1)[1])

    return tuple(sorted((prompt for prompt in OWN_PROMPTS if number(prompt) <= per_flavour), key=number))
