"""Holds the methods against each other and against what the papers report. Knows goals and arithmetic, no measuring.

Every number is of one sweep, so baseline and rivals ran turn about; what no sweep holds is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import mul
from statistics import mean

from specdiff_core.bench.goals import Outcome, greedy_sweeps, is_plain
from specdiff_core.bench.markdown import Result, cell_name, number, table

BEST_MEAN, BEST_DIALOGUE = 3.2, 4.5
OF_AUTOREGRESSIVE, OF_EAGLE2 = 1.5, 1.0
STREAK, SELECTED = 1.15, 1.08
DIFFUSION = ("block", "block_markov", "mdlm", "mdlm_streak")


def _speed(cell: Result, flavour: str = "") -> float:
    value = cell["speedup_by_flavour"].get(flavour, {}).get("value") if flavour else cell["speedup"]["mean"]
    return float(value or 0.0)


def _best(cells: Sequence[Result], chosen: Callable[[Result], bool], flavour: str = "") -> Result | None:
    return max(filter(chosen, cells), key=lambda cell: _speed(cell, flavour), default=None)


def _over(
    what: str, cells: Sequence[Result], ours: Callable[[Result], bool], theirs: Callable[[Result], bool], goal: float
) -> Iterator[Outcome]:
    """The best of our cells over the best of theirs; how many were tried is said, because the best of many is lucky."""
    one, other = _best(cells, ours), _best(cells, theirs)
    if one is not None and other is not None:
        value = _speed(one) / _speed(other)
        counts = f"best of {sum(map(ours, cells))} over best of {sum(map(theirs, cells))}"
        figure = f"{what}: {cell_name(one)} over {cell_name(other)}, mean, {counts}"
        why = "" if value >= goal else f"{_speed(one):.2f}× against {_speed(other):.2f}× vanilla in the same run."
        yield Outcome(figure, f"≥ {goal:g}×", f"{value:.3f}×", value >= goal, why)


def of_methods(sweep: Result) -> Iterator[Outcome]:
    """The fastest of all methods, and the fastest diffusion drafter against its autoregressive rivals."""
    cells = sweep["cells"]
    rivals: dict[str, Callable[[Result], bool]] = {
        "diffusion": lambda cell: cell["drafter"] in DIFFUSION,
        "autoregressive": lambda cell: cell["drafter"] == "autoregressive",
        "eagle": lambda cell: cell["drafter"] == "eagle",
        "eagle2": lambda cell: cell["drafter"] == "eagle" and bool(cell.get("nodes")),
    }
    if not any(map(rivals["autoregressive"], cells)):
        return
    for flavour, goal in (("", BEST_MEAN), ("dialogue", BEST_DIALOGUE)):
        best = _best(cells, lambda cell: cell["drafter"] != "none", flavour)
        if best is not None and (value := _speed(best, flavour)):
            tau = best["tau_by_flavour"][flavour] if flavour else mean(best["tau_by_flavour"].values())
            why = (
                f"a round of {cell_name(best)} costs {tau / value:.2f} vanilla tokens with the prefill's share, so "
                f"{goal:g}× needs τ = {goal * tau / value:.2f}; measured τ = {tau:.2f}."
            )
            figure = f"best method over vanilla, {flavour or 'mean'}: {cell_name(best)}"
            yield Outcome(figure, f"≥ {goal:g}×", f"{value:.2f}×", value >= goal, "" if value >= goal else why)
    for what, rival, goal in (
        ("best diffusion drafter over the AR lane", "autoregressive", OF_AUTOREGRESSIVE),
        ("best diffusion drafter over EAGLE-2", "eagle2", OF_EAGLE2),
        ("best diffusion drafter over EAGLE, chain or tree", "eagle", OF_EAGLE2),
    ):
        yield from _over(what, cells, rivals["diffusion"], rivals[rival], goal)


def of_streak(sweep: Result) -> Iterator[Outcome]:
    """τ of the aligned drafter over that of the same one before, at the longest window that both were measured with."""
    found = {
        drafter: {cell["gamma"]: cell for cell in sweep["cells"] if cell["drafter"] == drafter and _single(cell)}
        for drafter in ("mdlm", "mdlm_streak")
    }
    if common := set(found["mdlm"]) & set(found["mdlm_streak"]):
        before, after = (found[drafter][max(common)] for drafter in ("mdlm", "mdlm_streak"))
        value = after["tau"] / before["tau"]
        figure = f"streak-distillation: τ of {cell_name(after)} over τ of {cell_name(before)}"
        why = "" if value >= STREAK else f"τ {before['tau']:.2f} to {after['tau']:.2f}."
        yield Outcome(figure, f"≥ {STREAK:g}×", f"{value:.3f}×", value >= STREAK, why)


def of_selection(sweep: Result) -> Iterator[Outcome]:
    """τ of self-selection among eight drafts over τ of one."""
    for cell in sweep["cells"]:
        if cell.get("drafts") == 8 and cell.get("selection") == "self":
            same = [c for c in sweep["cells"] if _single(c) and all(c[k] == cell[k] for k in ("drafter", "gamma"))]
            for one in same[:1]:
                value = cell["tau"] / one["tau"]
                figure = f"self-selection: τ of {cell_name(cell)} over τ of K=1, {_warmth(sweep)}"
                why = "" if value >= SELECTED else f"τ {one['tau']:.2f} to {cell['tau']:.2f}; {_unlike(sweep)}."
                yield Outcome(figure, f"≥ {SELECTED:g}×", f"{value:.3f}×", value >= SELECTED, why)


def _unlike(sweep: Result) -> str:
    """What else differs between one draft and several, besides K."""
    settings = sweep["settings"]
    if settings["temperature"] == 0 and settings.get("draft_temperature") is None:
        return "one draft takes its most probable tokens, several are drawn"
    if settings["temperature"] > 0 and settings["rule"] == "ratio":
        return "one draft is tested with p/q, a selected one as a point mass, which accepts less"
    return "both are drawn and tested alike"


def _single(cell: Result) -> bool:
    return is_plain(cell) and cell["steps"] == 1


def _warmth(sweep: Result) -> str:
    own = sweep["settings"].get("draft_temperature")
    return f"temperature {sweep['settings']['temperature']:g}" + (f", drafter's {own:g}" if own is not None else "")


def rivals_section(results: Sequence[Result]) -> str:
    """The methods' goals as Markdown; empty where no sweep speaks about one."""
    sweeps = [result for result in results if result.get("kind") == "sweep"]
    found = [o for sweep in greedy_sweeps(results) for kind in (of_methods, of_streak) for o in kind(sweep)]
    found += [outcome for sweep in sweeps for outcome in of_selection(sweep)]
    if not found:
        return ""
    missed = [f"- {outcome.figure}: {outcome.why}" for outcome in found if outcome.why]
    parts = [
        "## The methods against each other",
        "Every row is of one sweep; goals that are missed say what was measured.",
        table(["figure", "goal", "measured", "met"], [outcome.row() for outcome in found]),
        "\n".join(missed),
    ]
    return "\n\n".join(part for part in parts if part)


def _series(cells: Sequence[Result], by: str, value: Callable[[Result], float], form: str = ".2f") -> str:
    return ", ".join(f"{cell[by]}: {number(value(cell), form)}" for cell in sorted(cells, key=lambda cell: cell[by]))


def shapes(sweeps: Sequence[Result]) -> Iterator[list[str]]:
    """(claim, the paper's figures, ours, whether ours has that shape), for each claim that a greedy sweep can tell."""
    for sweep in sweeps:
        plain = [cell for cell in sweep["cells"] if is_plain(cell) and cell["drafter"] in DIFFUSION]
        for drafter in dict.fromkeys(cell["drafter"] for cell in plain):
            own = [cell for cell in plain if cell["drafter"] == drafter]
            widest = max(own, key=lambda cell: (cell["steps"], cell["gamma"] == 8))
            by_t = sorted((c for c in own if c["gamma"] == widest["gamma"]), key=lambda cell: cell["steps"])
            where = f"{drafter} γ={widest['gamma']}"
            if len(by_t) > 1:
                taus, rates = ([cell[name] for cell in by_t] for name in ("tau", "tokens_per_second"))
                yield [
                    f"τ rises with T ({where})",
                    "SpecDiff, tokens per draft at T = 3, 4, 6, 8, 10: 6.8, 7.0, 7.4, 7.45, 7.05 (read off a figure)",
                    f"T {_series(by_t, 'steps', lambda cell: cell['tau'])}",
                    "yes" if taus == sorted(taus) else "no",
                ]
                yield [
                    f"tokens/s are highest at small T ({where})",
                    "tokens/s at T = 3, 4, 6, 8, 10: 30.1, 29.5, 27.7, 25.7, 23.5 (read off a figure)",
                    f"T {_series(by_t, 'steps', lambda cell: cell['tokens_per_second'], '.0f')}",
                    "yes" if max(rates) == rates[0] else "no",
                ]
            by_g = sorted((c for c in own if c["steps"] == 1), key=lambda cell: cell["gamma"])
            if len(by_g) > 2:
                speeds = list(map(_speed, by_g))
                near = sum(speed >= 0.95 * max(speeds) for speed in speeds)
                yield [
                    f"γ has a flat optimum ({drafter} T=1)",
                    "best at γ 10–20, smaller slightly better in the figure",
                    f"speed-up by γ {_series(by_g, 'gamma', _speed)}",
                    f"{'yes' if near > 1 else 'no'}: {near} of {len(speeds)} within 5 % of the best",
                ]
        by_gamma = [
            {c["gamma"]: c for c in plain if c["drafter"] == name and c["steps"] == 1}
            for name in ("mdlm", "mdlm_streak")
        ]
        if common := set(by_gamma[0]) & set(by_gamma[1]):
            before, after = (cells[max(common)] for cells in by_gamma)
            reached = [list(accumulate((a or 0.0 for a in cell["alpha_at"]), mul)) for cell in (before, after)]
            places = [place for place in (1, 2, 4, 8) if place <= min(map(len, reached))]
            told = "; ".join(f"j={j}: {reached[0][j - 1]:.3f} → {reached[1][j - 1]:.3f}" for j in places)
            lift = [reached[1][j - 1] / reached[0][j - 1] if reached[0][j - 1] else 0.0 for j in places]
            yield [
                f"acceptance decays along the window, and streak lifts its tail (γ={after['gamma']}, T=1)",
                "SpecDiff-2, α_j at j = 1, 8, 16, 32: .55, .06, .03, .025; with streak .62, .26, .17, .155 (read off a "
                "figure)",
                f"chance that the first j tokens are all accepted, mdlm → mdlm_streak: {told}",
                "yes" if len(lift) > 1 and lift[-1] > max(1.0, lift[0]) else "no",
            ]


def shapes_section(results: Sequence[Result]) -> str:
    """The papers' shapes beside ours as Markdown; empty where no greedy sweep can tell."""
    rows = list(shapes(greedy_sweeps(results)))
    if not rows:
        return ""
    return "\n\n".join(
        [
            "## The papers' shapes, and ours",
            "Their models are a thousand times larger and their hardware another; what can be compared is the shape of "
            "a curve. Ours are greedy, folded from the sweeps below.",
            table(["claim", "paper", "ours", "same shape"], rows),
        ]
    )
