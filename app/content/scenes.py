"""The dialogue that all lessons share: rounds from recordings of the same prompt, token by
token, each with its result. All numbers in the captions are computed from the recordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from app.content import evidence
from app.content.html import element
from specdiff_core.schema.events import DraftReady, Finished, RoundStarted, RunStarted, Verified, pieces_of
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.schema.trace import Trace, read_trace

WINDOW, TREE, FOUR = "one-pass-dflash", "draft-tree-ddtree", "four-denoising-steps"
SAMPLED, DRAFTS = "sampling-exact-ratio-test", "specdiff-2"
"""Recordings of the prompt: their file names after “dialogue-”."""
FIRST, LIKE_TO, PEOPLE, OKAY, WHAT_TIME = 0, 41, 49, 30, 5
"""Positions in the answer at which one of their rounds begins, in tokens."""

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
def _trace(name: str) -> Trace:
    return read_trace(ASSETS / "traces" / f"dialogue-{name}.jsonl.gz")


@cache
def rounds(name: str) -> dict[int, Round]:
    """The rounds of a recording, by the number of answer tokens at their beginning."""
    by_start: dict[int, Round] = {}
    events = _trace(name).lanes["drafted"]
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


def _one_pass() -> str:
    drafted = rounds(WINDOW)[FIRST]
    written = [*drafted.draft, drafted.extra]
    caption = (
        f"Vanilla needs {len(written)} passes for these {len(written)} tokens. Here the drafter "
        f"guessed {len(drafted.draft)} of them in {drafted.passes} pass, and one pass of the "
        f"target over {len(written)} rows checked them all."
    )
    vanilla = _row("vanilla", [(text, "target") for text in written], drafted.before)
    return _figure(caption, vanilla, _row("drafted", drafted.window(), drafted.before))


def _gamma() -> str:
    window = rounds(WINDOW)[LIKE_TO]
    kept = window.verified.accepted
    caption = (
        f"The first {kept} guesses are accepted, “{_visible(window.draft[kept])}” is rejected: the "
        f"target writes “{_visible(window.extra)}”. The rest of the draft is discarded untested. The "
        f"round commits {kept + 1} tokens."
    )
    return _figure(caption, _row(f"γ = {len(window.draft)}", window.window(), window.before))


def _accept() -> str:
    sampled = rounds(SAMPLED)[WHAT_TIME]
    test = sampled.verified.tests[-1]
    caption = (
        f"The drafter drew “{_visible(sampled.draft[sampled.verified.accepted])}” with q = {test.q:.2f}; the "
        f"target gives it p = {test.p:.2f}. So it is accepted with probability p/q, about "
        f"{test.threshold:.1f}. The random number was {test.draw:.2f}: it is rejected, and "
        f"“{_visible(sampled.extra)}” is drawn from the residual."
    )
    return _figure(caption, _row("temperature 1", sampled.window(), sampled.before), *map(_areas, evidence.P))


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


def _denoise() -> str:
    one, four = rounds(WINDOW)[PEOPLE], rounds(FOUR)[PEOPLE]
    caption = (
        f"The same place in the text: {one.verified.accepted} guesses are accepted after one pass "
        f"of the drafter, {four.verified.accepted} after {four.passes}."
    )
    rows = (_row("one pass", one.window(), one.before), _row("four passes", four.window(), four.before))
    return _figure(caption, *rows)


def _temperature() -> str:
    cold, warm = rounds(FOUR)[FIRST], rounds(SAMPLED)[FIRST]
    caption = (
        f"The same prompt, drafter and settings. The target accepts {cold.verified.accepted} of "
        f"{len(cold.draft)} guesses at temperature 0, and {warm.verified.accepted} of "
        f"{len(warm.draft)} at temperature 1."
    )
    by_label = {"temperature 0": cold, "temperature 1": warm}
    return _figure(caption, *(_row(label, drafted.window(), drafted.before) for label, drafted in by_label.items()))


def _alignment() -> str:
    drafts = rounds(DRAFTS)[LIKE_TO]
    scores, chosen = drafts.verified.scores, drafts.verified.chosen or 0
    rows = (
        _row(
            f"S = {score:.1f}",
            drafts.path(branch, drafts.verified.path)
            if i == chosen
            else [(drafts.draft[node], "untested") for node in branch],
        )
        for i, (branch, score) in enumerate(zip(drafts.branches, scores, strict=True))
    )
    caption = (
        f"{len(scores)} drafts from one pass. S is the expected number of accepted tokens. The "
        f"target tests the draft with S = {scores[chosen]:.1f} and accepts "
        f"{drafts.verified.accepted}; the first has S = {scores[0]:.1f}."
    )
    return _figure(caption, *rows)


def _trees() -> str:
    window, tree = rounds(WINDOW)[OKAY], rounds(TREE)[OKAY]
    caption = (
        f"The same place, and {len(window.draft)} guesses each. The window ends at "
        f"“{_visible(window.draft[window.verified.accepted])}” and commits {window.verified.accepted + 1} tokens. The "
        f"tree also holds another guess there and commits {tree.verified.accepted + 1}."
    )
    ways = (_row("" if i else "tree", way) for i, way in enumerate(tree.tree()))
    return _figure(caption, _row("window", window.window()), *ways)


def _lossless() -> str:
    names = (WINDOW, TREE, FOUR, DRAFTS)
    texts = [
        tuple(event.ids for event in events if isinstance(event, Finished))
        for name in names
        for events in _trace(name).lanes.values()
    ]
    same = sum(text == texts[0] for text in texts[1::2])
    caption = (
        f"A window, a tree, four passes, four drafts: {same} of {len(names)} recordings at "
        f"temperature 0 wrote the {len(texts[0][0])} tokens that vanilla wrote."
    )
    rows = (
        _row(label, drafted.path(drafted.kept, drafted.kept), drafted.before)
        for label, drafted in (("window", rounds(WINDOW)[OKAY]), ("tree", rounds(TREE)[OKAY]))
    )
    return _figure(caption, *rows)


SCENES = evidence.by_lesson(_one_pass, _gamma, _accept, _denoise, _temperature, _alignment, _trees, _lossless)


def scene(lesson: str) -> str:
    """The rounds shown in a lesson as HTML; empty if a recording cannot be read."""
    return evidence.read(SCENES[lesson])
