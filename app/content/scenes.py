"""Rounds of SmolLM2's recordings of one prompt, token by token, each with its result. Rounds are looked up by what they
show, and all numbers in the captions are computed from the recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from specdiff_core.schema.events import DraftReady, Finished, RoundStarted, RunStarted, Verified, pieces_of

from . import evidence
from .html import element

SMALL, WINDOW, TREE, FOUR, SAMPLED = (
    f"smollm2-chat-{name}.jsonl.gz"
    for name in (
        "one-step-4-tokens-dflash",
        "one-denoising-step-dflash",
        "draft-tree-of-8-nodes-ddtree",
        "four-denoising-steps",
        "sampling-at-0-7-exact-ratio-test",
    )
)
"""Recordings of the prompt; the last samples, the others don't."""

Token = tuple[str, str]  # text; accepted, rejected, untested, target, before or shared


class Round(NamedTuple):
    """A round of a recording."""

    before: str  # the words before it
    draft: tuple[str, ...]
    parents: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...]
    verified: Verified
    extra: str  # the target's token
    passes: int  # of the drafter

    @property
    def kept(self) -> Sequence[int]:
        """The accepted positions of the draft."""
        return self.verified.path or range(self.verified.accepted)

    def window(self) -> list[Token]:
        """The tokens of a window, accepted up to the first rejection."""
        return self.path(range(len(self.draft)), self.kept)

    def path(self, nodes: Sequence[int], kept: Sequence[int], shared: int = 0) -> list[Token]:
        """The tokens of a path through the draft; an earlier path has shown ``shared`` of them."""
        became = [
            "accepted" if node in kept else "rejected" if i == 0 or nodes[i - 1] in kept else "untested"
            for i, node in enumerate(nodes)
        ]
        tokens = [(self.draft[node], "shared" if i < shared else became[i]) for i, node in enumerate(nodes)]
        return [*tokens, (self.extra, "target")] if set(nodes) >= set(kept) else tokens

    def tree(self) -> Iterator[list[Token]]:
        """The paths from the root to each leaf."""
        inner, drawn, ended = set(self.parents), set[int](), False
        for leaf in (node for node in range(len(self.draft)) if node not in inner):
            way = [leaf]
            while self.parents[way[0]] >= 0:
                way.insert(0, self.parents[way[0]])
            tokens = self.path(way, self.kept, len(drawn & set(way)))
            yield tokens[:-1] if ended and tokens[-1][1] == "target" else tokens
            ended |= tokens[-1][1] == "target"
            drawn.update(way)


@cache
def rounds(name: str) -> dict[int, Round]:
    """The rounds of a recording, by the number of answer tokens at their beginning."""
    by_start: dict[int, Round] = {}
    events = evidence.recording(name).lanes["drafted"]
    pieces = pieces_of(events)
    (prompt,) = (len(event.prompt_ids) for event in events if isinstance(event, RunStarted))
    (ids,) = (event.ids for event in events if isinstance(event, Finished))
    start, draft = 0, None
    for event in events:
        if isinstance(event, RoundStarted):
            start = event.length - prompt
        elif isinstance(event, DraftReady):
            draft = event
        elif isinstance(event, Verified) and draft:
            before = "".join(pieces[token] for token in ids[max(0, start - 3) : start]) or "Assistant:"
            words = tuple(pieces[token] for token in draft.ids)
            extra = pieces[event.extra]
            by_start[start] = Round(before, words, draft.parents, draft.branches, event, extra, draft.nfe)
    return by_start


def first(name: str, fits: Callable[[Round], bool]) -> Round:
    """The first round of a recording that fits.

    Raises:
        StopIteration: none does.
    """
    return next(one for one in rounds(name).values() if fits(one))


def mixed(one: Round) -> bool:
    """Whether some guesses are accepted and one is rejected."""
    return 0 < one.verified.accepted < len(one.draft)


def beside(plain: str, other: str) -> tuple[Round, Round]:
    """The first rounds of two recordings at one place in the text where the second accepts more, neither all."""
    both = ((one, rounds(other)[start]) for start, one in rounds(plain).items() if start in rounds(other))
    return next(
        (one, more)
        for one, more in both
        if mixed(one) and mixed(more) and more.verified.accepted > one.verified.accepted
    )


def opening(trace: str) -> int:
    """The number, from 1, of the round that a lesson opens a recording at; 1 without one."""
    if not trace:
        return 1
    return evidence.read(lambda: 1 + [*rounds(trace).values()].index(first(trace, mixed))) or 1


def _visible(text: str) -> str:
    return text.replace("\n", "↵").strip() or "␣"


def _row(label: str, tokens: Sequence[Token], before: str = "") -> str:
    """A line of a scene."""
    lead = [("…" + before, "before")] if before else []
    spans = (element("span", text=_visible(text), data_is=became) for text, became in [*lead, *tokens])
    return element("p", element("b", text=label), *spans)


def _figure(caption: str, *rows: str) -> str:
    said = element("figcaption", text=caption)
    return element("figure", element("div", *rows, tabindex="0", role="group"), said, class_="sd-scene")


def _round() -> str:
    drafted = first(evidence.ROUNDS, mixed)
    count, kept = len(drafted.draft), drafted.verified.accepted
    caption = (
        f"The drafter fills {count} blanks in {drafted.passes} passes. One pass of the target accepts {kept}, rejects "
        f"“{_visible(drafted.draft[kept])}” and adds “{_visible(drafted.extra)}”: {kept + 1} tokens."
    )
    blanks = _row("blanks", [("▢", "untested")] * count, drafted.before)
    return _figure(caption, blanks, _row("checked", drafted.window(), drafted.before))


def _one_pass() -> str:
    drafted = first(WINDOW, lambda one: mixed(one) and one.verified.accepted > 1)
    kept = drafted.verified.accepted
    written = [*drafted.draft[:kept], drafted.extra]
    caption = (
        f"Vanilla needs {len(written)} passes for these {len(written)} tokens. Here one pass of the target over "
        f"{1 + len(drafted.draft)} rows checked {len(drafted.draft)} guesses, and gave the same tokens."
    )
    vanilla = _row("vanilla", [(text, "target") for text in written], drafted.before)
    return _figure(caption, vanilla, _row("drafted", drafted.window(), drafted.before))


def _gamma() -> str:
    one, four = beside(WINDOW, FOUR)
    caption = (
        f"The same place in the text, γ {len(one.draft)}: {one.verified.accepted} guesses are accepted after one pass "
        f"of the drafter, {four.verified.accepted} after {four.passes}. What follows the first ✕ is discarded untested."
    )
    rows = (_row("one step", one.window(), one.before), _row("four steps", four.window(), four.before))
    return _figure(caption, *rows)


def _accept() -> str:
    sampled = first(SAMPLED, lambda one: bool(one.verified.tests) and not one.verified.tests[-1].accepted)
    test = sampled.verified.tests[-1]
    caption = (
        f"The drafter drew “{_visible(sampled.draft[sampled.verified.accepted])}” with q = {test.q:.2f}; the target "
        f"gives it p = {test.p:.2f}. So it is accepted with probability {test.threshold:.2f}. The random number was "
        f"{test.draw:.2f}: it is rejected, and “{_visible(sampled.extra)}” is drawn from the residual."
    )
    return _figure(caption, _row("temperature 0.7", sampled.window(), sampled.before), *map(_areas, evidence.P))


def _areas(token: str) -> str:
    """The bar of p for a token of the lesson's question: accepted, and from the residual."""
    p, kept = evidence.P[token], min(evidence.P[token], evidence.Q[token])
    parts = [("kept", kept, "min(p, q)")] + ([("added", p - kept, "residual")] if p > kept else [])
    bars = (
        element(
            "i",
            text=f"{share:.1f} {name}" if share > 0.2 else f"{share:.1f}",
            data_area=area,
            style=f"--p: {share:.2f}",
        )
        for area, share, name in parts
    )
    return element("p", element("b", text=f"{token}, p = {p:g}"), *bars)


def _temperature() -> str:
    cold, warm = ([*rounds(name).values()] for name in (SMALL, SAMPLED))

    def share(lane: Sequence[Round]) -> str:
        tests = [test for one in lane for test in one.verified.tests]
        return f"{sum(test.accepted for test in tests)} of {len(tests)}"

    caption = (
        f"The same prompt, drafter and γ; the first rounds. In all rounds, the target accepts {share(cold)} tested "
        f"guesses at temperature 0, and {share(warm)} at temperature 0.7."
    )
    by_label = {"temperature 0": cold[0], "temperature 0.7": warm[0]}
    return _figure(caption, *(_row(label, drafted.window(), drafted.before) for label, drafted in by_label.items()))


def _guesses() -> str:
    window, tree = beside(WINDOW, TREE)
    caption = (
        f"The same place: {len(window.draft)} guesses in a window, {len(tree.draft)} in a tree. The window ends at "
        f"“{_visible(window.draft[window.verified.accepted])}” and adds {window.verified.accepted + 1} tokens. The "
        f"tree also holds another guess and adds {tree.verified.accepted + 1}."
    )
    ways = (_row("" if i else "tree", way) for i, way in enumerate(tree.tree()))
    return _figure(caption, _row("window", window.window()), *ways)


def _lossless() -> str:
    names = (SMALL, WINDOW, TREE, FOUR)
    texts = [
        {
            lane: next(event.ids for event in events if isinstance(event, Finished))
            for lane, events in evidence.recording(name).lanes.items()
        }
        for name in names
    ]
    same = sum(text["drafted"] == texts[0]["vanilla"] for text in texts)
    caption = (
        f"Two windows, a tree, four steps: {same} of {len(names)} recordings at temperature 0 wrote the "
        f"{len(texts[0]['vanilla'])} tokens that vanilla wrote."
    )
    rows = (
        _row(label, drafted.path(drafted.kept, drafted.kept), drafted.before)
        for label, drafted in zip(("window", "tree"), beside(WINDOW, TREE), strict=True)
    )
    return _figure(caption, *rows)


SCENES = evidence.by_lesson(_round, _one_pass, _gamma, _accept, _lossless, _temperature, _guesses)


def scene(lesson: str) -> str:
    """The rounds shown in a lesson as HTML; empty if it shows none or a recording cannot be read."""
    return evidence.read(SCENES[lesson]) if lesson in SCENES else ""
