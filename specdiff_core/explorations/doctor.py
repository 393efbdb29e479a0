"""Why is my acceptance low? A change of declaration that gains tokens per round, by more than chance, points to the
cause; otherwise a kind of text, the temperature or the cost of a round may. What is judged here is measured in
:mod:`~specdiff_core.explorations.examination`, or is what another engine reports (``schema/reported.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step
from specdiff_core.explorations.examination import FEWEST, TARGET, TEXT, Examination
from specdiff_core.explorations.figures import CATEGORY, ONE, Figure, Style, axes
from specdiff_core.explorations.wording import escaped, percent
from specdiff_core.schema import reported
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.fields import ask
from specdiff_core.schema.pairs import NONE, drafter_names

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

DRAFTERS = [name for name in drafter_names() if name != NONE.name]
WEAK = 1.3  # below this τ drafting does not pay even with cheap passes
NOTHING = 0.15  # acceptance of first tokens below which a drafter is misread rather than weak
LOW = 2.0  # τ below this counts as low
TABLES, HEAT, COST = "tables", "temperature", "cost of a round"
CONFIRM = {
    "shift": "race it with that shift (--shift for a denoiser; for a block drafter, see whether its first slot is the "
    "anchor’s)",
    "mask id": "race it with that --mask-id, or set mask_token_id in its config",
    "feature layers": "set those target_layer_ids in its config and race it again",
    "embedding of the anchor slot": "look up what its training code puts into the first slot",
    "positions": "look up which positions its training code gives to the block",
    "tokenizer map": "compare the tokenizer files of target and drafter",
    "template": "race it with that template",
    TARGET: "race it on that target",
    TABLES: "race it on the target that it was trained for",
    TEXT: "compare these prompts with its training data, and see “Which text is easy?”",
    HEAT: "run the same prompts at 0",
    COST: "see “What would it take?”; a shorter window, fewer users at once or other threads may pay",
    "": "measure it on its own training texts: if τ is low there too, it needs more training",
}
"""Likely cause -> what would confirm it."""


class Doctor(AtTemperature, frozen=True, kw_only=True):
    """α by position, as declared and with one thing changed at a time, and the likely cause of a low acceptance."""

    name: ClassVar = "doctor"
    rank: ClassVar = 7
    title: ClassVar = "Why is my acceptance low?"
    question: ClassVar = (
        "Is the drafter weak, or its settings, target, text, temperature or the cost of a round to blame?"
    )
    takes: ClassVar = 60
    alone: ClassVar = True
    columns: ClassVar = {
        "declaration": "what was changed; empty: nothing",
        "declared": "its value as declared",
        "change": "its value here",
        "texts": "number of texts",
        "drafts": "drafts along them",
        "tau": "τ: correct tokens of a draft, and the target’s own",
        "alpha_at": "α by position",
        "ratio": "τ over τ as declared",
        "low": "and its interval",
        "high": "and its interval",
        "failed": "why it could not draft",
    }

    drafter: Annotated[str, ask("Drafter", "The drafter to check.", enum=DRAFTERS, of="drafters")] = "block"
    gamma: Annotated[int, ask("γ", "Tokens per draft, up to the drafter's own limit.", 1, 32)] = 8
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 4
    tokens: Annotated[int, ask("New tokens", "In each text that the target writes.", 16, 256)] = 64
    trained_for: Annotated[
        str,
        ask("Trained for", "The target it was trained for, if another: a folder, GGUF file or repository.", most=200),
    ] = ""
    counts: Annotated[
        str,
        ask(
            "Another engine’s counts",
            "Judge these instead: its /metrics after a run (put those from before it in front), or a record as JSON.",
            most=500_000,
        ),
    ] = ""

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.trained_for,) if self.trained_for else ()

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        if self.counts.strip():
            answered = _of_counts(reported.read(self.counts))
            yield Step(1, 1, "done", lambda: answered)
            return
        examination = Examination(self, engine, stop)
        yield from examination.steps()
        if not stop.is_set():
            rows, facts = examination.answer().rows, examination.facts
            facts |= _verdict(self.drafter, rows, facts, self.temperature)
            yield Step(examination.total, examination.total, "done", examination.answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        answer, *notes = facts.get("findings", [""])
        unchanged = [f"{name} ({why})" for name, why in facts.get("not_changed", {}).items()]
        notes = [*notes, *([f"Not changed: {'; '.join(unchanged)}."] if unchanged else [])]
        return Report(answer=answer, notes=notes, figures=[_changes(rows), _positions(rows)])


def _verdict(
    name: str, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], temperature: float
) -> dict[str, Any]:
    """The verdict on a drafter, the likely cause of a low acceptance (``suspect``), and sentences."""
    declared, *changed = rows
    tau = declared.get("tau")
    if tau is None or declared["texts"] < FEWEST:
        words = f"{declared['texts']} texts are too few: use at least {FEWEST}."
        return {"verdict": "unknown", "findings": [declared.get("failed", words)]}
    copies = [
        f"{row['declared'].capitalize()}: with {row['change']} instead, τ is {row['tau']:.2f}, not {tau:.2f} "
        f"({_gain(row)})."
        for row in changed
        if row["declaration"] == TABLES and row.get("low") is not None
    ]
    better = [row for row in changed if (row.get("low") or 0) > 1]
    if better:
        best = max(better, key=lambda row: row["tau"])
        cause, gain = best["declaration"], _gain(best)
        if cause == TARGET:
            finding = (
                f"This target costs it tokens: τ is {tau:.2f} here, {best['tau']:.2f} on {best['change']} ({gain}); "
                f"the two choose the same token at {percent(facts['agreement'])} of the positions."
            )
        else:
            finding = (
                f"The {cause} look{'' if cause.endswith('s') else 's'} wrongly declared: with {best['change']} instead "
                f"of {best['declared']}, τ is {best['tau']:.2f}, not {tau:.2f} ({gain})."
            )
        also = sorted({row["declaration"] for row in better} - {cause})
        also = [f"Changing any of these alone also gains tokens: {', '.join(also)}."] if also else []
        copies = [] if cause == TABLES else copies
        return _judged("wrong", cause, finding, *also, *copies, change=best["change"])
    verdict = "weak" if tau < WEAK else "right"
    words = f"{name} is weak" if tau < WEAK else f"The settings of {name} aren’t to blame"
    if tau >= LOW:
        words = f"The acceptance of {name} isn’t low"
    finding = f"{words}: τ is {tau:.2f} as declared, and none of {len(changed)} changed settings raises it."
    also = [finding, *copies]
    worst = next(iter(facts["kinds"]), None)
    if worst and worst["high"] < 1 and worst["tau"] < WEAK <= worst["others"]:
        text = (
            f"On {worst['kind']} its drafts are worse: τ is {worst['tau']:.2f} there, {worst['others']:.2f} elsewhere"
        )
        return _judged(verdict, TEXT, f"{text} ({_gain(worst)}). It may not have been trained on such text.", *also)
    runs = facts.get("runs")
    if runs and runs["high"] < 1:
        sampling = (
            f"At temperature {temperature:g} τ is {runs['tau']:.2f}, and {runs['others']:.2f} at 0 ({_gain(runs)})"
        )
        return _judged(verdict, HEAT, f"{sampling}: sampling costs it tokens.", *also)
    cost = sum(facts["cost"].values())
    if verdict == "right" and cost > tau:
        parts = ", ".join(f"{name} {passes:.2f}" for name, passes in facts["cost"].items())
        dear = f"Acceptance isn’t the problem: a round yields {tau:.2f} tokens, but costs {cost:.2f} vanilla passes"
        return _judged(verdict, COST, f"{dear} ({parts}).", *also)
    return _judged(verdict, "", *also) if verdict == "weak" else {"verdict": verdict, "findings": also}


def _gain(row: Mapping[str, Any]) -> str:
    return f"{row['ratio']:.2f}×, interval {row['low']:.2f} to {row['high']:.2f}"


def _judged(verdict: str, cause: str, *findings: str, **more: Any) -> dict[str, Any]:
    """A verdict, with what would confirm its cause."""
    confirm = f"To confirm it, {CONFIRM[cause]}."
    return {"verdict": verdict, **({"suspect": cause} if cause else {}), **more, "findings": [*findings, confirm]}


def _of_counts(counts: reported.Counts | reported.Gauge) -> Answer:
    """What the counts of another engine suggest. Only the shape of its acceptance distinguishes the causes."""
    row: dict[str, Any] = {"declaration": "", "declared": "", "change": "as reported", "texts": 0, "tau": counts.tau}
    if isinstance(counts, reported.Gauge):
        over, alpha_at = "by the engine’s own average", list[float | None]()
    else:
        over, alpha_at = f"over {counts.drafts:,.0f} drafts", counts.alpha_at
        row["drafts"] = int(counts.drafts)
    alphas = [alpha for alpha in alpha_at if alpha is not None]
    first = alphas[0] if alphas else None
    if first is not None and first < NOTHING:
        likely = (
            "hardly any first token is accepted. That is rarely a weak drafter: its shift, anchor, mask id, feature "
            "layers or positions differ from those it was trained with, or it was trained for another target"
        )
        confirm = "run the doctor on target and drafter here: it tries each of them"
    elif first is not None and min(alphas) < first / 3:
        likely = (
            f"the first token is accepted ({first:.2f}), later ones hardly ({min(alphas):.2f}): the positions of its "
            "block are wrong, or the engine drafts more tokens than it was trained for"
        )
        confirm = "halve the number of speculative tokens: τ should hardly change"
    elif counts.tau < LOW:
        likely = (
            f"acceptance is low{' at all positions' if alphas else ''}, but not nil: another or a quantised target, "
            "another chat template, text unlike its training data, or a high temperature"
        )
        confirm = "run the same prompts at temperature 0, then without the template, then on the original target"
    else:
        likely = (
            "acceptance isn’t low. If decoding is slower all the same, a verify pass is dear: batch, MoE or threads"
        )
        confirm = "time it with one request at once, with and without drafting"
    sentence = f"τ is {counts.tau:.2f} {over}, and {likely}."
    return Answer(
        rows=[row | {"alpha_at": alpha_at}],
        facts={"verdict": "reported", "findings": [sentence, f"To confirm it, {confirm}."]},
    )


def _changes(rows: Iterable[dict[str, Any]]) -> Figure:
    """τ with each change, over τ as declared."""
    shown = [row for row in rows if row.get("ratio")]
    names = [f"{row['declaration']}: {row['change']}" for row in shown]
    words = [[None, f"{name}: τ = {row['tau']:.2f}"] for name, row in zip(names, shown, strict=True)]
    look: dict[str, Any] = {"customdata": words, "error_x": draw.whisker(shown, "ratio"), "orientation": "h"}
    return Figure(
        key="changes",
        title="With one thing changed",
        hint="above 1: the change gains tokens",
        wide=True,
        data=[draw.bars([row["ratio"] for row in shown], [escaped(name) for name in names], "τ", "@draft", **look)],
        layout=axes(
            "τ over τ as declared, ×",
            "",
            xaxis=draw.FROM_ZERO,
            yaxis=CATEGORY | {"autorange": "reversed"},
            shapes=[ONE | {"xref": "x", "x0": 1, "yref": "paper", "y0": 0}],
        ),
        empty="Bars appear when the first change has been tried.",
    )


def _positions(rows: Sequence[dict[str, Any]]) -> Figure:
    """α by position, as declared and with the best change."""
    shown = [row for row in rows if row.get("alpha_at")]
    drawn = [*shown[:1], *sorted(shown[1:], key=lambda row: row["tau"])[-1:]]
    looks = ("@draft", "solid"), ("@ink", "dot")
    curves = [
        (Style(colour, "circle", dash, f"{row['declaration']}: {row['change']}".removeprefix(": ")), row["alpha_at"])
        for row, (colour, dash) in zip(drawn, looks, strict=False)
    ]
    return draw.by_position(curves, hint="of the drafts that reach it", empty="Lines appear with the first drafts.")
