"""Texts of a target, and how many tokens of the drafts along them are correct, with one declaration changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, run_to_end
from specdiff_core.engine import Engine
from specdiff_core.explorations.study.variants import Variant
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.randomness import Streams
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, Sampling, Template

PROBE = "Hello"  # templates that give the same ids for it count as one
EVERY = 3  # tokens between two drafts along a text
FIRST = 4  # tokens before the first draft, so that a shift stays inside the text


class Text(NamedTuple):
    """A text of the target."""

    ids: list[int]
    prompt: int  # of them
    features: dict[int, Tensor]  # layer -> [n, W], for all tokens but the last


@dataclasses.dataclass(slots=True)
class Trial:
    """A variant, and how many tokens of its drafts were correct."""

    change: Variant
    correct: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # text -> tokens of each draft
    failed: str = ""

    def run(self, prompt: str, text: Text, gamma: int) -> None:
        """Draft along a text."""
        try:
            if correct := list(correct_tokens(self.change, text, gamma)):
                self.correct[prompt] = correct
        except SpecDiffError as error:  # it cannot draft with this change
            self.failed = error.message


def agreement(other: Engine, texts: Iterable[Text]) -> float:
    """The share of the tokens of ``texts`` that this engine's target chooses, too."""
    agreed = total = 0
    for text in texts:
        run = other.target.start()
        run.read(text.ids[: text.prompt - 1])
        scores = run.score(text.ids[text.prompt - 1 : -1])
        chosen = to_probs(scores.logits, Sampling(), other.target.suppress).argmax(-1).tolist()
        agreed += sum(ours == theirs for ours, theirs in zip(chosen, text.ids[text.prompt :], strict=True))
        total += len(chosen)
    return agreed / max(total, 1)


def ways(engine: Engine, base: DecodeConfig) -> dict[str, Callable[[str], Sequence[int]]]:
    """The ways to encode a prompt, by name: "" is the way of a run with ``base``, the others are
    those that the tokenizer's template offers."""
    template = str(getattr(engine.pair.tokenizer, "chat_template", None) or "")
    names = {Template.PLAIN: "the bare prompt"}
    if template:
        names |= {Template.CHAT: "the chat template"}
    if "enable_thinking" in template:
        names |= {Template.CHAT: "the chat template, thinking off", Template.THINK: "the chat template, thinking on"}
    encodings = {engine.encode(PROBE, base)}
    ways: dict[str, Callable[[str], Sequence[int]]] = {"": partial(engine.encode, config=base)}
    for declared, name in names.items():
        config = dataclasses.replace(base, template=declared)
        if (ids := engine.encode(PROBE, config)) not in encodings:
            encodings.add(ids)
            ways[name] = partial(engine.encode, config=config)
    return ways


def write(engine: Engine, ids: Sequence[int], tokens: int, layers: Sequence[int], stop: Stop) -> Text:
    """The target's greedy text after ``ids``, up to where it is stopped, and the outputs of these layers."""
    run, text, features = engine.target.start(layers), list(ids), []
    features.append(run.read(text[:-1]))
    for _ in range(min(tokens, run.room)):
        if stop.is_set():
            break
        scores = run.score(text[-1:])
        features.append(scores.features)
        text.append(int(to_probs(scores.logits, Sampling(), engine.target.suppress).argmax()))
    joined = torch.cat([rows for rows in features if rows is not None]) if layers else None
    by_layer = () if joined is None else joined.chunk(len(layers), -1)
    return Text(text, len(ids), dict(zip(layers, by_layer, strict=True)))


def correct_tokens(change: Variant, text: Text, gamma: int) -> Iterator[int]:
    """Correct tokens of a draft at every third position of the target's text."""
    session, layers, observed = change.drafter.start(), change.drafter.layers, 0
    streams, order = Streams(0, shared=False), RevealOrder.LEFT_TO_RIGHT
    for position in range(max(FIRST, text.prompt), len(text.ids) - gamma + 1, EVERY):
        read = slice(observed, position - 1)  # everything before the anchor
        features = torch.cat([text.features[layer][read] for layer in layers], -1) if layers else None
        session.observe(text.ids[read], features)
        observed = position - 1
        inputs: dict[str, Any] = {"ids": text.ids[:position], "sampler": streams.draft(position)}
        context = Context.within(session.room, gamma=gamma + change.skip, sampling=Sampling(), order=order, **inputs)
        drafted = run_to_end(session.draft(context)).ids[change.skip :]
        pairs = zip(drafted, text.ids[position : position + gamma], strict=False)
        wrong = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        yield len(drafted) if wrong is None else wrong
