"""The events of a decode, as immutable values without tensors.

A live run and a replayed trace are the same sequence of events; metrics, page, benchmarks and tests
fold them. Times are seconds on the run's decode clock (``decoding/clock.py``), which excludes
emitting and streaming. Token ids are ints; a masked slot is ``None``; probabilities are floats in
[0, 1]."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from specdiff_core.schema.settings import KindName

SCHEMA = 2
END, CONTROL = "∎", "◇"
"""Pieces of ids without text: of those that end a text or a message, and of all others."""
_ESCAPED = re.compile(rb"\\x([89a-f][0-9a-f])", re.IGNORECASE)

Int = Annotated[int, Meta(ge=-(2**53), le=2**53)]  # exact in a browser
Plain = bool | Int | float | str | None


class Span(Struct, frozen=True, kw_only=True):
    """One timed piece of work: ``name`` is prefill, draft, score or verify."""

    name: str
    start: float
    seconds: float


class Candidate(Struct, frozen=True, kw_only=True):
    """One of the most probable tokens at a position."""

    id: Int
    prob: float


class Test(Struct, frozen=True, kw_only=True):
    """One acceptance test. For ``match`` the draw is the target's own token and ``threshold`` is 1
    or 0. For ``tree``, p is of all children of a node together; ``id`` is the child that was taken,
    or the most probable one."""

    position: Int  # in the window; in a tree, the depth
    id: Int
    p: float
    q: float
    threshold: float  # acceptance probability of this test
    draw: float | None = None  # u; accepted if and only if u < threshold. None for match and tree, and in a block for
    # a token that was accepted because a longer beginning of the block passed
    wanted: Int | None = None  # for match and tree: the target's own token
    accepted: bool
    kind: KindName  # whose record is ``TEST_KINDS[kind]``


class Choice(Struct, frozen=True, kw_only=True):
    """γ and T of one round, with the estimates behind them. Of all uncut windows, the one of
    ``best_gamma`` tokens has the largest ``tokens / seconds``. A draft that can be cut may be
    longer, up to ``gamma``, or shorter: it ends where, by the drafter's confidence, a row costs
    more than it gains. The nodes of a tree are weighed one by one, so in its event
    ``best_gamma``, ``tokens`` and ``seconds`` are 0."""

    gamma: Int  # most tokens of a draft
    steps: Int
    best_gamma: Int = 0
    tokens: float = 0.0  # E of the best window, expected
    seconds: float = 0.0  # C of the best window, expected
    rate: float = 0.0  # R, tokens per second of the rounds so far
    alphas: tuple[float, ...] = ()  # running estimates of α_j; if drafts are cut, for confident tokens only
    pass_seconds: float = 0.0  # d, of a drafter pass
    row_seconds: float = 0.0  # v₁, of one more row of the target's pass


class Verdict(Struct, frozen=True, kw_only=True):
    """The outcome of a draft: accepted tokens, then one of the target's own. Positions after the
    first rejection were not tested."""

    tests: tuple[Test, ...]
    accepted: Int
    path: tuple[Int, ...] = ()  # indices of the accepted tokens in the draft: 0, 1, 2, … of a window
    scores: tuple[float, ...] = ()  # of several drafts: S, the expected accepted tokens of each
    chosen: Int | None = None  # the draft that the target selected by S
    extra: Int  # the token that the target adds
    source: str  # residual, bonus, or target (after a mismatch, in match and trees)
    fallback: str = ""  # why another test than the rule's was used; empty if it was not
    lossless: bool = True  # whether the tests of this round are exact


EXACTNESS = {
    "": "✓ Lossless rule: the text has the target’s own distribution.",
    "bitwise": "✓ Lossless, bit for bit: every probability of the target is exactly the number that vanilla decoding "
    "computes.",
    "rounding": "✓ Lossless rule: the text has the target’s own distribution. Sums may round differently from "
    "vanilla’s, in the last digits.",
    "biased": "⚠ lossless: false. With several steps this rule can change the distribution of the text; it is "
    "included for study.",
    "unchecked": "○ Not checked: another server wrote this text by its own rules.",
}
"""How close a run's distribution is to vanilla's on the same machine, and what the page and the terminal say of it."""


SERVER = "server"  # the source of a token of an attached server, whose origin is unknown here


class Quoted(Struct, frozen=True, kw_only=True):
    """An attached server's own report of its speculation; None: not reported."""

    steps: Int | None = None  # verifying passes of the target
    drafted: Int | None = None  # tokens
    accepted: Int | None = None  # accepted drafted tokens
    tokens_per_second: float | None = None  # by its own clock
    drafts: Int | None = None  # rounds that drafted
    by_position: tuple[Int, ...] = ()  # accepted drafted tokens at each position of a draft

    @property
    def rates(self) -> tuple[float, ...]:
        """Joint acceptance by position: the share of drafts whose token there was accepted."""
        return tuple(count / self.drafts for count in self.by_position) if self.drafts else ()

    @property
    def tau(self) -> float | None:
        """Tokens per verifying pass, including the target's own."""
        return 1 + self.accepted / self.steps if self.steps and self.accepted is not None else None

    @property
    def draft_use(self) -> float | None:
        """Share of drafted tokens that were accepted."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None


class RunStarted(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The header of a run: everything needed to repeat it."""

    schema: Int = SCHEMA
    config: dict[str, Plain]  # DecodeConfig.to_dict()
    prompt: str
    prompt_ids: tuple[Int, ...]
    models: dict[str, str]  # role -> name and revision
    device: str
    dtype: str
    reason: str  # why this device and dtype
    threads: Int
    versions: dict[str, str]
    grain: str  # how finely the clock synchronised: step or total; chunk of a server's stream
    lossless: bool  # whether the tests of every round are exact
    exactness: str = ""  # a key of EXACTNESS; "" if unknown
    network: str = ""  # what ran the target: the network, and how it multiplies
    server: str = ""  # the attached server that ran it, if one did
    started_at: str = ""  # UTC, ISO 8601


class Prefilled(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The target has read the prompt, except its last token, the first anchor."""

    tokens: Int
    span: Span


class RoundStarted(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """A new round behind ``length`` committed tokens, prompt included; the last is the anchor."""

    round: Int
    length: Int
    anchor: Int


class Decided(Choice, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """What a controller that adapts chose for a round (``decoding/controller.py``)."""

    round: Int


class DenoiseStep(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """One drafter pass over the window and what it revealed."""

    round: Int
    step: Int  # 0 .. T-1
    ids: tuple[Int | None, ...]  # the window after this step; None is still masked
    revealed: tuple[Int, ...]  # window positions revealed by this step
    confidence: tuple[float, ...]  # largest probabilities (1 where known before)
    candidates: tuple[tuple[Candidate, ...], ...]  # the most probable tokens at each position
    span: Span

    def __post_init__(self) -> None:
        _parallel(self.ids, self.confidence, self.candidates)


class DraftReady(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The finished draft. ``q`` is the probability each token had when it was drawn."""

    round: Int
    ids: tuple[Int, ...]
    q: tuple[float, ...]
    reveal_steps: tuple[Int, ...]
    exact_q: tuple[bool, ...]  # True: may be tested with p/q; False: only as a point mass
    proposal: str  # "conditionals" or "point_mass"
    nfe: Int  # drafter passes of this round
    parents: tuple[Int, ...] = ()  # the parent of each node of a tree (−1: the anchor); empty for a window
    branches: tuple[tuple[Int, ...], ...] = ()  # the nodes of each of several drafts
    node_q: tuple[float, ...] = ()  # in a tree that was not drawn, where q is 1: the drafter's probability of each
    # node after its parent, at temperature 0 by the softmax; empty where it was not recorded
    span: Span  # all of the drafting

    def __post_init__(self) -> None:
        _parallel(self.ids, self.q, self.reveal_steps, self.exact_q, self.parents or self.ids, self.node_q or self.ids)
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("the parents of a draft are not a tree")


class TargetScored(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """One target pass over [anchor, draft]: γ+1 distributions."""

    round: Int
    p: tuple[float, ...]  # of each drafted token
    candidates: tuple[tuple[Candidate, ...], ...]  # [γ+1] most probable tokens after the anchor and after each drafted
    # token, at temperature 0 those of the softmax; empty where they were not recorded, as of a tree in older traces
    span: Span


class Verified(Verdict, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """A round's verdict. ``path`` is empty for a window, whose accepted tokens are its first ``accepted`` ones."""

    round: Int
    extra_candidates: tuple[Candidate, ...]  # of the distribution that ``extra`` was drawn from
    rule: str
    span: Span

    def __post_init__(self) -> None:
        if not 0 <= self.accepted <= len(self.tests):
            raise ValueError("more tokens are accepted than were tested")


class Committed(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """Tokens added to the text. ``sources``: draft, residual, bonus, target or server."""

    round: Int
    ids: tuple[Int, ...]
    sources: tuple[str, ...]
    total: Int  # new tokens so far
    at: float  # on the decode clock

    def __post_init__(self) -> None:
        _parallel(self.ids, self.sources)


class PiecesSeen(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The text of ids, before their first use: a replay needs no tokenizer.

    A piece may be part of a character: bytes that are not valid UTF-8 alone are written as
    ``\\xNN`` (see :func:`spell`). An id without text is :data:`END` or :data:`CONTROL`."""

    pieces: dict[Int, str]


class Finished(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The end. ``reason``: end_of_text, stop_string, length, context_full or stopped."""

    reason: str
    text: str
    ids: tuple[Int, ...]  # new tokens
    rounds: Int
    seconds: float  # decode clock
    seconds_by: dict[str, float] = {}  # prefill, draft, score, verify, other
    peak_bytes: Int | None = None  # device memory of the run without the weights; None on a CPU
    waited_seconds: float | None = None  # of threads for a processor; known on Linux CPUs
    quoted: Quoted | None = None  # of an attached server that reports its speculation


class Failed(Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """The end by an error."""

    code: str
    message: str
    hint: str
    run: str = ""


Event = (
    RunStarted
    | Prefilled
    | RoundStarted
    | Decided
    | DenoiseStep
    | DraftReady
    | TargetScored
    | Verified
    | Committed
    | PiecesSeen
    | Finished
    | Failed
)


def event_time(event: Event) -> float:
    """When an event happened on the decode clock of its run; 0 where it has no time."""
    match event:
        case Finished():
            return event.seconds
        case Committed():
            return event.at
        case Prefilled() | DenoiseStep() | DraftReady() | TargetScored() | Verified():
            return event.span.start + event.span.seconds
        case _:
            return 0.0


def _parallel(*lists: Sequence[object]) -> None:
    """Raise ValueError unless all lists have the same length."""
    if len({len(entries) for entries in lists}) > 1:
        raise ValueError("lists with one entry for each token differ in length")


def depths(parents: Sequence[int]) -> list[int]:
    """The depth of each node of a tree."""
    levels: list[int] = []
    for parent in parents:
        levels.append(0 if parent < 0 else levels[parent] + 1)
    return levels


def pieces_of(events: Iterable[Event]) -> dict[int, str]:
    """The text of the ids in these events."""
    batches = [event.pieces for event in events if isinstance(event, PiecesSeen)]
    return {token: words for pieces in batches for token, words in pieces.items()}


def spell(pieces: Sequence[str]) -> list[str]:
    """Pieces as readable text. A character spread over several tokens appears at the last of them,
    and the pieces before it are empty; incomplete bytes remain as ``\\xNN``."""
    texts = list(pieces)
    first = 0
    while first < len(pieces):
        pending = b""
        for last in range(first, min(first + 4, len(pieces)) if _has_bytes(pieces[first]) else first):
            pending += _raw(pieces[last])
            try:
                texts[first : last + 1] = [""] * (last - first) + [pending.decode("utf-8")]
            except UnicodeDecodeError:
                continue
            first = last
            break
        first += 1
    return texts


def _has_bytes(piece: str) -> bool:
    return _raw(piece) != piece.encode("utf-8")


def _raw(piece: str) -> bytes:
    """The bytes of a piece; some may be written as ``\\xNN`` with NN from 80 on."""
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), piece.encode("utf-8"))


def rounded(value: float) -> float:
    """Seven significant digits: what fp32 holds, and no more bytes in a trace."""
    return float(f"{value:.7g}")
