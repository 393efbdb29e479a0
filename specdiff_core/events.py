"""Every fact a decode emits, as immutable values. Knows no tensor, no model, no clock and no drawing.

A live run and a replayed trace are the same sequence of these events; metrics, page, bench and tests fold them.
Times are in seconds on the run's own decode clock (``specdiff_core/clock.py``): narration and streaming do not count.
Token ids are ints; a masked slot is ``None``; probabilities are floats in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed piece of work: ``name`` is prefill, draft, score or verify."""

    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the most probable tokens at a position."""

    id: int
    prob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The header of a run: everything needed to repeat it."""

    schema: int = SCHEMA
    config: dict[str, Any]  # DecodeConfig.to_dict()
    prompt: str
    prompt_ids: tuple[int, ...]
    models: dict[str, str]  # role -> name and revision
    device: str
    dtype: str
    reason: str  # why this device and dtype
    threads: int
    versions: dict[str, str]
    grain: str  # how finely the clock synchronised: step or total
    lossless: bool  # what the rule claims for this run
    started_at: str = ""  # UTC, ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    """The target has read the prompt, except its last token, the first anchor."""

    tokens: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted:
    """A new round: ``length`` committed tokens (prompt included), the last of which is the anchor."""

    round: int
    length: int
    anchor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """γ and T of a round, chosen from what earlier rounds showed (``specdiff_core/controller.py``): ``best_gamma`` has
    the largest ``tokens / seconds`` of all windows that are not cut. A draft that can be cut may be longer, up to
    ``gamma``, or shorter: it ends where the drafter's belief says that a row costs more than it brings. Of a tree, with
    nodes weighed one by one, there is no best window: ``best_gamma``, ``tokens`` and ``seconds`` are 0."""

    round: int
    gamma: int
    steps: int
    best_gamma: int = 0  # 0 where the writer did not tell
    tokens: float  # E of the best window, expected
    seconds: float  # C of the best window, expected
    rate: float  # tokens per second of the rounds so far
    alphas: tuple[float, ...]  # running estimates of α_j
    pass_seconds: float  # of a drafter pass
    row_seconds: float  # of one more row of the target's pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiseStep:
    """One drafter pass over the window and what it revealed."""

    round: int
    step: int  # 0 .. T-1
    ids: tuple[int | None, ...]  # the window after this step; None is still masked
    revealed: tuple[int, ...]  # window positions revealed by this step
    confidence: tuple[float, ...]  # largest belief at each position in this step (1 where known before)
    candidates: tuple[tuple[Candidate, ...], ...]  # the most probable tokens at each position
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftReady:
    """The finished draft. ``q`` is the probability each token had when it was drawn."""

    round: int
    ids: tuple[int, ...]
    q: tuple[float, ...]
    reveal_steps: tuple[int, ...]
    soft: tuple[bool, ...]  # may position i be tested with p/q? else it is a point mass
    proposal: str  # "conditionals" or "point_mass"
    nfe: int  # drafter passes of this round
    parents: tuple[int, ...] = ()  # of a tree: the node before each in its text, −1 for the anchor; empty: a window
    branches: tuple[tuple[int, ...], ...] = ()  # of several drafts: the nodes of each, in the order of drawing
    span: Span  # all of the drafting


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetScored:
    """One target pass over [anchor, draft]: γ+1 distributions."""

    round: int
    p: tuple[float, ...]  # of each drafted token
    candidates: tuple[tuple[Candidate, ...], ...]  # [γ+1] most probable tokens at each position; of a tree none
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One acceptance test. For ``match`` the draw is the target's own token and ``threshold`` is 1 or 0. For ``tree``,
    p is of all children of a node together; ``id`` is the child that was taken, or the most probable one."""

    position: int  # in the window; of a tree, the depth
    id: int
    p: float
    q: float
    threshold: float  # acceptance probability of this test
    draw: float | None  # u; accepted iff u < threshold. None for match
    wanted: int | None  # match, tree: the token the target would have said
    accepted: bool
    kind: str  # ratio, delta, match or tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How the draft fared. Positions after the first rejection were never tested."""

    round: int
    tests: tuple[Test, ...]
    accepted: int
    path: tuple[int, ...] = ()  # of a tree: the nodes that survived
    scores: tuple[float, ...] = ()  # of several drafts: S, how many tokens of each are expected to survive
    chosen: int | None = None  # the draft that the target selected by S, where it did
    extra: int  # the token the target adds
    source: str  # residual, bonus or target (match: the target's own token after a mismatch)
    residual: tuple[Candidate, ...]  # the law the extra token was drawn from, its most probable tokens
    rule: str
    fallback: str  # why a stricter test than the rule's own was used; empty if it was not
    lossless: bool
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Tokens that are now part of the text. ``sources``: draft, residual, bonus or target."""

    round: int
    ids: tuple[int, ...]
    sources: tuple[str, ...]
    total: int  # new tokens so far
    at: float  # decode clock when they were known


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesSeen:
    """The text of ids, told once before their first use: a replay needs no tokenizer.

    A piece may be part of a character: bytes that are no valid UTF-8 alone are written as ``\\xNN``.
    """

    pieces: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end. ``reason``: end_of_text, length, context_full or stopped."""

    reason: str
    text: str
    ids: tuple[int, ...]  # new tokens
    rounds: int
    seconds: float  # decode clock
    seconds_by: dict[str, float] = field(default_factory=dict)  # prefill, draft, score, verify, other
    peak_bytes: int | None = None  # device memory (CUDA) or resident set
    waited_seconds: float | None = None  # that threads of the process were ready and had no processor; CPU, Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The end, by an error that a person can act on."""

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
