"""Holds stored results against what this project set out to reach. Knows the goals and arithmetic, no measuring.

A goal that is missed says what the measured profile would need to meet it; no goal is moved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from specdiff_core.bench.markdown import Result, cell_name, number, table

MEANS = {"block": 2.2, "mdlm": 1.2}
"""Drafter -> speed-up over vanilla, mean of the flavours, greedy, at its best single γ and T."""
DIALOGUE = ("block", "dialogue", 3.0)
"""Drafter, flavour and speed-up, at the same γ and T as its mean."""
OF_GENERATE, OF_LIMIT, ATTACHED = 1.0, 0.85, 1.05
POSSIBLE = 1.03
"""Of the limit: what rounding and noise may add to all of it. More was not measured at one speed of the machine."""
OF_STOCK = (("none", "vanilla lane", "generate", OF_GENERATE), ("autoregressive", "AR lane", "assisted generate", 1.1))
"""Drafter, our lane, transformers' and how much faster ours shall be: our fastest against their fastest."""
USABLE, FIRST_EVENT = 5.0, 3.0  # seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """One goal and what was measured for it."""

    figure: str
    goal: str
    measured: str
    met: bool
    why: str = ""  # what a missed goal would have needed, from the profile

    def row(self) -> list[str]:
        return [self.figure, self.goal, self.measured, "yes" if self.met else "NO"]


def best_cell(sweep: Result, drafter: str) -> Result | None:
    """The γ and T at which ``drafter`` comes furthest towards the goal it is furthest from; None if it was not swept.

    One γ and T serves for all goals of a drafter: two rows never speak of two settings. Trees and K drafts are other
    methods.
    """
    plain = [cell for cell in sweep["cells"] if is_plain(cell)]
    own = [cell for cell in plain if cell["drafter"] == drafter]
    return max(own, key=lambda cell: min(value / goal for _, value, _, goal in speed_goals(cell)), default=None)


def is_plain(cell: Result) -> bool:
    """One window of a fixed size: no tree, no K, no controller."""
    return not cell.get("nodes") and cell.get("drafts", 1) == 1 and not cell.get("auto")


def speed_goals(cell: Result) -> Iterator[tuple[str, float, float, float]]:
    """(what of, speed-up, τ, goal) of one cell."""
    taus = cell["tau_by_flavour"]
    yield "mean", cell["speedup"]["mean"], mean(taus.values()), MEANS[cell["drafter"]]
    name, flavour, goal = DIALOGUE
    if cell["drafter"] == name and flavour in taus:
        yield flavour, cell["speedup_by_flavour"][flavour]["value"], taus[flavour], goal


def speedup_outcome(cell: Result, of: str, speed: float, tau: float, goal: float) -> Outcome:
    """Speed-up is τ over the cost of a round, so at the same cost a missed goal needs a larger τ: how large?"""
    parts = cell["seconds_by"]
    shares = ", ".join(f"{name} {100 * parts[name] / cell['seconds']:.0f} %" for name in parts)
    why = (
        f"with the prefill's share a round costs {tau / speed:.2f} vanilla tokens ({shares} of the clock), so "
        f"{goal:g}× needs τ = {goal * tau / speed:.2f}; measured τ = {tau:.2f}."
    )
    figure = f"{cell_name(cell)} over vanilla, {of}"
    return Outcome(figure, f"≥ {goal:g}×", f"{speed:.2f}×", speed >= goal, "" if speed >= goal else why)


def outcomes(results: Sequence[Result]) -> Iterator[Outcome]:
    """Each goal that the results can speak about, in the order of the results."""
    for result in results:
        if kind := OUTCOMES.get(result.get("kind", "")):
            yield from kind(result, results)


def greedy_sweeps(results: Sequence[Result]) -> list[Result]:
    """The sweeps at temperature 0, in their order."""
    return [result for result in results if result.get("kind") == "sweep" and result["settings"]["temperature"] == 0]


def _of_sweep(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    if result is not next(iter(greedy_sweeps(results)), None):
        return  # the goals are held against one sweep; others may hold further methods
    for drafter in MEANS:
        if (cell := best_cell(result, drafter)) is not None:
            yield from (speedup_outcome(cell, *goal) for goal in speed_goals(cell))


def _of_generate(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    value = result["result"]["ratio"]
    yield Outcome(
        "vanilla lane over transformers' generate", f"≥ {OF_GENERATE:g}×", f"{value:.2f}×", value >= OF_GENERATE
    )


def _of_referee(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    fold = result["result"]
    for drafter, ours, theirs, goal in OF_STOCK:
        own = [lane for lane in fold["lanes"] if lane["drafter"] == drafter]
        clocks = ("tokens_per_second", "wall_tokens_per_second")
        speeds = [
            [max((lane[clock] for lane in own if lane["stock"] is stock), default=0.0) for stock in (False, True)]
            for clock in clocks
        ]
        if all(map(all, speeds)):
            decode, wall = (ours_ / theirs_ for ours_, theirs_ in speeds)
            met = min(decode, wall) >= goal
            why = f"{speeds[0][0]:.1f} tokens/s against {speeds[0][1]:.1f}, by wall clock {speeds[1][0]:.1f}."
            figure = f"{ours} over transformers' {theirs}, the fastest of each: by our decode clock, by wall clock"
            yield Outcome(figure, f"≥ {goal:g}×", f"{decode:.2f}×, {wall:.2f}×", met, "" if met else why)
    same, texts = fold["equal"], fold["compared"]
    why = f"{fold['ties']} of them parted at a tie, which the rounding of differently shaped passes may turn."
    figure = "greedy texts of all lanes, ours and transformers', that are vanilla's"
    yield Outcome(figure, f"{texts}", f"{same}", same == texts, "" if same == texts else why)


def _of_forwards(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    """At the best cell of each drafter with a goal: the figure is about the loop that is recommended."""
    sweeps = greedy_sweeps(results)[:1]
    best = [cell_name(cell) for sweep in sweeps for name in MEANS if (cell := best_cell(sweep, name)) is not None]
    for entry in result["cells"]:
        if cell_name(entry) in best and entry.get("efficiency"):
            value = entry["efficiency"]["of_speedup"]
            drift = "no loop beats its limit: sweep and bare passes met the machine at different speeds; measure again."
            yield Outcome(
                f"{cell_name(entry)}, speed-up over its limit τ·t₁/(t_draft + t_verify)",
                f"≥ {100 * OF_LIMIT:g} %",
                f"{100 * value:.0f} %",
                OF_LIMIT <= value <= POSSIBLE,
                drift if value > POSSIBLE else "",
            )


def _of_page(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    load = (
        f"importing and loading takes {result['load_seconds']:.2f} s with the machine to itself; here it shares the "
        "cores with the server's own start and the browser's."
    )
    for figure, goal, value in (
        ("page usable after the command", USABLE, result["usable_seconds"]),
        ("first event after Run, pressed while the models load", FIRST_EVENT, result["first_event_seconds"]["first"]),
    ):
        measured = f"{value['median']:.2f} s ({value['low']:.2f}–{value['high']:.2f})"
        met = value["median"] <= goal
        yield Outcome(f"{figure}, median of {result['starts']}", f"≤ {goal:g} s", measured, met, "" if met else load)
    for lane, value in result["attached"].items():
        waits = result["waiting"][lane]
        yield Outcome(
            f"clock with the page attached, {lane} lane",
            f"≤ {ATTACHED:g}×",
            f"{number(value['median'], '.3f')}×",
            value["median"] <= ATTACHED,
            ""
            if value["median"] <= ATTACHED
            else f"single turns lie between {value['low']:.2f} and {value['high']:.2f}, so the median is known to "
            f"{value['interval'][0]:.3f}–{value['interval'][1]:.3f} (95 %); threads waiting for a "
            f"processor: {number(waits['attached'])} beside server and browser, {number(waits['alone'])} alone.",
        )


def _of_equality(result: Result, results: Sequence[Result]) -> Iterator[Outcome]:
    fold = result["result"]
    yield Outcome(
        f"unexplained differences in {fold['compared']} comparisons of texts",
        "0",
        str(fold["unexplained"]),
        fold["unexplained"] == 0,
    )


OUTCOMES: dict[str, Callable[[Result, Sequence[Result]], Iterator[Outcome]]] = {
    "sweep": _of_sweep,
    "generate": _of_generate,
    "referee": _of_referee,
    "forwards": _of_forwards,
    "page": _of_page,
    "equality": _of_equality,
}


def goals_section(results: Sequence[Result]) -> str:
    """The goals as Markdown, each missed one explained; empty where no result speaks about one."""
    found = list(outcomes(results))
    if not found:
        return ""
    missed = [f"- {outcome.figure}: {outcome.why}" for outcome in found if outcome.why]
    parts = [
        "## Against the goals",
        "What this project set out to reach, held against the results below. All rows of a drafter are of one γ and "
        "T: where it comes furthest towards the goal it is furthest from.",
        table(["figure", "goal", "measured", "met"], [outcome.row() for outcome in found]),
        "\n".join(missed),
    ]
    return "\n\n".join(part for part in parts if part)
