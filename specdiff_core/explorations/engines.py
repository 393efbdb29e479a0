"""Which engine is broken? Of seven engines, hidden behind letters, six have one bug each (``study/broken.py``). Each is
run many thousand times (``joint.py``), and the player guesses from what it writes.

:class:`~specdiff_core.explorations.losslessness.Losslessness` has its form: it is played there, with ``models`` set to
``engines``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Report, Step
from specdiff_core.explorations.figures import Figure, axes
from specdiff_core.explorations.joint import PVALUE, Case, Joint, distances
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.decoding.clock import DeviceClock
    from specdiff_core.explorations.study.tables import CachedTarget, TableDrafter, TokenIds

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


class Game(NamedTuple):
    """The settings of a game, all of whose engines draft γ tokens in one step and test them with p/q."""

    gamma: int
    temperature: float
    draft_temperature: float
    seed: int

    def config(self, seed: int) -> DecodeConfig:
        """The settings of one run."""
        values = {"gamma": self.gamma, "steps": 1, "order": "left_to_right", "top_k": KEPT, "drafter": "masked"}
        values |= {"temperature": self.temperature, "draft_temperature": self.draft_temperature, "rule": "ratio"}
        length = 2 * (self.gamma + 1)  # no window is cut short
        return DecodeConfig.parse({**values, "seed": seed, "ignore_eos": True, "max_new_tokens": length})

    def play(self, runs: int, clock: DeviceClock, stop: Stop) -> Iterator[Step]:
        """Run every engine ``runs`` times.

        Raises:
            ConfigError: γ is larger than 2.
        """
        from specdiff_core.explorations.study.broken import ENGINES, Misreporting

        if self.gamma > 2:
            words = f"With γ = {self.gamma}, there are too many outcomes to count."
            raise ConfigError(words, field="gamma", hint="Set γ to 2.")
        target, drafter, prompt = models(self.seed)
        letters = hidden(self.seed)

        def case(name: str) -> Case:
            bug = ENGINES[name]
            changes = lambda seed: {"streams": bug.streams(seed, shared=False), "verifier": bug.verify}
            return Case(self.config, Misreporting(drafter, bug), changes)

        cases = {letter: case(name) for letter, name in letters.items()}
        joint = Joint(target, prompt, self.gamma + 1, cases, self.seed)  # a whole round

        def answer() -> Answer:
            rows = joint.curve()
            facts = joint.facts() | clues(self.config(0), joint, drafter)
            return Answer(rows=rows, facts=facts | {"hidden": letters, "mistakes": MISTAKES, "found": found(rows)})

        for done in joint.sample(runs, clock, stop):
            yield Step(done, runs, f"{done:,} runs of each engine", answer)


def clues(config: DecodeConfig, joint: Joint, drafter: TableDrafter) -> dict[str, Any]:
    """What distinguishes the bugs: the share of every symbol at every position, the drafter's q at the first,
    and how often its first token is accepted."""
    from specdiff_core.maths.distributions import to_probs

    p = to_probs(joint.target.logits(joint.prompt), config.sampling, joint.target.suppress)
    q = to_probs(drafter.logits(joint.prompt, config.gamma)[0], config.draft_sampling, joint.target.suppress)

    def share(dist: Mapping[TokenIds, float], place: int, symbol: int) -> float:
        return sum(weight for text, weight in dist.items() if text[place] == symbol)

    places = [
        {"place": place + 1, "symbol": symbol, "exact": share(joint.exact, place, symbol)}
        | {"drafter": float(q[symbol]) if not place else None}
        | {name: share(hits, place, symbol) / joint.runs for name, hits in joint.counts.items()}
        for place in range(config.gamma + 1)
        for symbol in range(SYMBOLS)
    ]
    accepted = {name: joint.accepted[name] / joint.runs for name in joint.counts}
    return {"places": places, "alpha": float(p.minimum(q).sum()), "accepted": accepted}


def found(rows: list[dict[str, Any]]) -> dict[str, int | None]:
    """Letter -> the fewest runs, of the points of its curve, from which on its p-value stays below :data:`PVALUE`; None
    if it does not."""
    after: dict[str, int | None] = {}
    for row in rows:
        if row["p_value"] >= PVALUE:
            after[row["rule"]] = None
        elif after.get(row["rule"]) is None:
            after[row["rule"]] = row["runs"]
    return after


def report(rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
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
        figures=[_places(facts["places"]), distances(rows)],
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
