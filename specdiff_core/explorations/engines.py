"""Which engine is broken? Of seven engines, hidden behind letters, six have one bug each (``broken.py``).
:class:`~specdiff_core.explorations.losslessness.Losslessness` runs them if its ``models`` are ``engines``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Report
from specdiff_core.explorations.figures import Figure, axes

if TYPE_CHECKING:
    from specdiff_core.explorations.study.tables import CachedTarget, TableDrafter, TokenIds
    from specdiff_core.schema.settings import DecodeConfig

MISTAKES = {
    "right": ("Nothing is wrong.", "Every other engine has a bug."),
    "uniform": (
        "The same random number draws a draft token and tests it.",
        "It writes the first symbols of the list too often, whatever the drafter prefers: a small u draws them, and "
        "a small u passes the test. One released engine did this for weeks.",
    ),
    "greedy": (
        "Drafts are greedy, but tested with p/q.",
        "It writes the drafter’s favourite symbol too often, because it drafts no other. A greedy token has q = 1, so "
        "accept it with p.",
    ),
    "residual": (
        "After a rejection it draws from p.",
        "It leans towards the drafter at the right acceptance rate: what the drafter offers too rarely is not made up "
        "for. Draw from the residual, norm(max(0, p − q)).",
    ),
    "top_k": (
        "Top-k applies to p only.",
        "It leans towards the drafter’s more probable symbols and accepts too much: they are drawn after top-k, and "
        "tested with their smaller q before it.",
    ),
    "temperature": (
        "Its q has another temperature than its draws.",
        "It leans towards the drafter’s improbable symbols: drafts are drawn at temperature 2, q is that of 1.",
    ),
    "bonus": (
        "The bonus token comes from the wrong row.",
        "The drafted positions are right, the one after them is not: it has the distribution of the row before, and "
        "may be a symbol that the target never writes.",
    ),
}
"""Engine of ``study/broken.py`` -> its bug, and how it shows."""
LETTERS = "ABCDEFG"
SYMBOLS, SIGNS, KEPT, SPREAD = 5, "abcde", 3, 1.5
"""Symbols, whose mask comes after them; top-k; and Dirichlet's α of their distributions."""


def hidden(seed: int) -> dict[str, str]:
    """Letter -> its engine in ``study/broken.py``, in an order that depends on the seed."""
    import numpy as np

    return dict(zip(LETTERS, np.random.default_rng(seed).permutation([*MISTAKES]).tolist(), strict=True))


def models(seed: int) -> tuple[CachedTarget, TableDrafter, TokenIds]:
    """A target, a drafter and a prompt with which each bug shows."""
    from specdiff_core.explorations.study.tables import CachedTarget, TableDrafter, dirichlet, logs, random_drafter

    tables = lambda text: logs(dirichlet(seed, 3, *text, symbols=SYMBOLS, spread=SPREAD))
    guessed = lambda text, window: random_drafter(seed, text, window, SYMBOLS, SPREAD)
    return CachedTarget(tables, SYMBOLS + 1, (SYMBOLS,)), TableDrafter(guessed, SYMBOLS), (0,)


def clues(
    config: DecodeConfig,
    exact: Mapping[TokenIds, float],
    counts: Mapping[str, Counter[TokenIds]],
    accepted: Mapping[str, int],
    drafter: TableDrafter,
    target: CachedTarget,
    prompt: TokenIds,
) -> dict[str, Any]:
    """What distinguishes the bugs: the share of every symbol at every position, the drafter's q at the first,
    and how often its first token is accepted."""
    from specdiff_core.maths.distributions import to_probs

    done = next(iter(counts.values())).total()
    p = to_probs(target.logits(prompt), config.sampling, target.suppress)
    q = to_probs(drafter.logits(prompt, config.gamma)[0], config.draft_sampling, target.suppress)

    def share(dist: Mapping[TokenIds, float], place: int, symbol: int) -> float:
        return sum(weight for text, weight in dist.items() if text[place] == symbol)

    places = [
        {"place": place + 1, "symbol": symbol, "exact": share(exact, place, symbol)}
        | {"drafter": float(q[symbol]) if not place else None}
        | {name: share(hits, place, symbol) / done for name, hits in counts.items()}
        for place in range(config.gamma + 1)
        for symbol in range(SYMBOLS)
    ]
    alpha = float(p.minimum(q).sum())
    return {"places": places, "alpha": alpha, "accepted": {name: accepted[name] / done for name in counts}}


def report(rows: list[dict[str, Any]], facts: dict[str, Any], distances: Figure) -> Report:
    """The game's figures, in which no engine is named."""
    if not rows:
        return Report()
    caught = sum(runs is not None for runs in facts["found"].values())
    words = f"After {facts['runs']:,} runs of each engine, the χ² test has found {caught} of the 6 broken ones"
    return Report(
        answer=f"{words} (p < 10⁻⁶). Which one is right, and what is wrong with the others?",
        notes=[
            f"{facts['outcomes']} outcomes are possible. Position 1 and 2 are drafted; all accepted, position 3 is the "
            "bonus token. The bugs of these engines were put there on purpose, in the real loop.",
        ],
        figures=[_places(facts["places"]), distances],
    )


def _places(places: list[dict[str, Any]]) -> Figure:
    """Exact and observed shares of the symbols at each position, an engine per colour."""
    x = [[f"position {row['place']}" for row in places], [SIGNS[row["symbol"]] for row in places]]
    names = [name for name in places[0] if name in LETTERS]
    data = [draw.bars(x, [row["exact"] for row in places], "exact", "@target")]
    data.append(draw.bars(x, [row["drafter"] for row in places], "drafter’s q", "@draft", "."))
    for i, (name, look) in enumerate(draw.styles(names).items()):
        data.append(draw.bars(x, [row[name] for row in places], name, look.colour, draw.HATCHES[i % 5]))
    return Figure(
        key="places",
        title="What each engine writes",
        hint="share of the runs with a symbol at a position; the drafter’s q of the first",
        wide=True,
        data=data,
        layout=axes("symbols", "share of runs", yaxis=draw.FROM_ZERO, barmode="group", bargap=0.2, showlegend=True),
    )
