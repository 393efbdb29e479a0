"""Which method is fastest? Methods against vanilla on prompts of several kinds, at several temperatures: the page's
Compare tab. The ranking can change with the temperature, so one number is never enough.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations.base import Answer, OnPrompts, Report, Step, Switch
from specdiff_core.explorations.fields import DEGREE, METHOD
from specdiff_core.explorations.leaderboard import MEAN, board, by_kind, lengths, looks, plane, positions
from specdiff_core.explorations.measured import RUN_COLUMNS, Runs, bounds, fastest, rivals
from specdiff_core.explorations.wording import Row, listed, ratio, shortlist, slower, speedup, speedup_words
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method, resolve_methods
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


class Compare(OnPrompts, frozen=True, kw_only=True):
    """Speed-up of methods by temperature and kind of text, with intervals, and which one is fastest."""

    name: ClassVar = "compare"
    title: ClassVar = "Which method is fastest?"
    question: ClassVar = "Which method is fastest, and does the ranking change when the target samples?"
    tab: ClassVar = "compare"
    takes: ClassVar = 20
    scales: ClassVar = ("methods", "temperatures", "flavours", "per_flavour", "tokens")
    columns: ClassVar = RUN_COLUMNS | {
        "temperature": "of the target",
        "flavour": "kind of text, or the mean of all kinds",
        "method": "name of the method",
        "label": "its label",
        "short": "its short label",
        "setting": "its settings, as `bench sweep --settings` reads them",
        "words": "its settings in words",
        "lossless": "whether the rule is lossless",
        "cost": "τ over the speed-up: what a round costs, in vanilla tokens",
        "drafter_passes": "drafter passes per round",
        "target_passes": "target passes per new token",
        "same_text": "prompts whose text matches vanilla’s, token for token",
        "texts": "prompts that were compared",
    }

    methods: Annotated[
        tuple[METHOD, ...], ask("Methods", "Each is compared with vanilla on the same prompts.", least=1, most=12)
    ] = ("prompt_lookup", "dflash", "ddtree")
    temperatures: Annotated[
        tuple[DEGREE, ...],
        ask("Temperatures", "The target’s: 0 is greedy, 1 is plain sampling.", least=1, most=4),
    ] = (0.0, 1.0)
    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 256)] = 96
    per_flavour: Annotated[int, ask("Prompts of each kind", "Three or more give intervals for each kind.", 1, 5)] = 1

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        prompts, skipped = self.prompts(engine)
        methods = {one.name: one for one in resolve_methods(self.pair, self.methods) if one.name != BASELINE}
        groups: dict[float, Runs] = {}
        degrees = sorted(set(self.temperatures))

        def trace_name(name: str, prompt: Prompt) -> str:  # one of all methods for each kind of text
            return f"{prompt.flavour}#{name}"

        def answer() -> Answer:
            rows = [
                row
                for degree, runs in groups.items()
                for name in (BASELINE, *methods)
                for row in _rows(self.base, degree, name, runs)
            ]
            rows = [row for degree, runs in groups.items() for row in compared(rows, degree, runs)]
            failed = dict.fromkeys(why for runs in groups.values() for why in runs.left_out())
            races = {
                f"{degree:g}/{name}": race for degree, runs in groups.items() for name, race in runs.traces.items()
            }
            each = [row for degree, runs in groups.items() for row in runs.prompt_rows({"temperature": degree})]
            facts = {"threads": threads, "skipped": [*skipped, *failed]}
            return Answer(rows=rows, facts=facts, runs=each, races=races)

        threads = engine.threads
        for turn, degree in enumerate(degrees):
            base = dataclasses.replace(self.base, temperature=degree)
            configs = {name: method.config(base) for name, method in methods.items()}
            runs = groups[degree] = Runs(engine, base, configs, prompts, stop, threads=threads, trace_name=trace_name)
            for done, total, run in runs.fill():
                doing = f"{methods[run.lane].label}, temperature {degree:g}"
                yield Step(turn * total + done, len(degrees) * total, doing, answer)
            if stop.is_set():
                return

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        timed = sorted((row for row in rows if row.get("speedup")), key=lambda row: -row["speedup"])

        def best(degree: float, flavour: str) -> list[dict[str, Any]]:
            return [row for row in timed if (row["temperature"], row["flavour"]) == (degree, flavour)]

        degrees = sorted({row["temperature"] for row in timed if row["method"] != BASELINE})
        if not degrees:
            return Report()
        ranked = {degree: [row for row in best(degree, MEAN) if row["method"] != BASELINE] for degree in degrees}
        flavours = list(dict.fromkeys(row["flavour"] for row in rows if row["flavour"] != MEAN))
        styles = looks(ranked)
        answer, notes = conclusion(ranked)
        kinds = [MEAN, *flavours] if len(flavours) > 1 else [MEAN]
        sampled = ("The target takes its most probable token", "The target samples")
        temperatures = [(f"{degree:g}", f"{degree:g}", sampled[degree > 0]) for degree in degrees]
        kind_options = [(MEAN, "Mean", "Mean of the kinds of text"), *((kind, kind, "") for kind in kinds[1:])]
        switches = [
            Switch(name="temperature", title="Temperature", options=temperatures),
            Switch(name="flavour", title="Text", options=kind_options),
        ]
        figures, boards = [], []
        for degree in degrees:
            at = {"temperature": f"{degree:g}"}
            for flavour in kinds:
                boards.append(board(best(degree, flavour), styles, at | {"flavour": flavour}))
                figures.append(plane(best(degree, flavour), styles, at | {"flavour": flavour}))
            figures += [positions(ranked[degree], styles, at), lengths(ranked[degree], styles, at)]
        figures.append(by_kind(rows, styles, kinds[1:] or kinds))
        return Report(
            answer=answer,
            notes=notes,
            figures=figures,
            boards=boards,
            switches=[switch for switch in switches if len(switch.options) > 1],
            titles={
                row["race"]: f"{row['label']}, {row['flavour']}, temperature {row['temperature']:g}"
                for row in rows
                if row.get("race")
            },
        )


def _rows(base: DecodeConfig, degree: float, name: str, runs: Runs) -> Iterator[dict[str, Any]]:
    """Rows of a method at one temperature: the mean over the kinds of text, of τ and α as of the speed-up, whose
    intervals resample prompts within each kind, then each kind."""
    method = find_method(name)
    setting = BenchSetting.of_config(method.config(base))
    fields = {
        "temperature": degree,
        "method": name,
        "label": method.label,
        "short": method.short,
        "setting": setting.key,
        "words": setting.words,
    }
    if not (groups := runs.groups(name)):
        yield fields | {"flavour": MEAN, "failed": runs.failed.get(name, "not measured yet")}
        return
    speeds, rates = runs.speedups(name, groups), runs.rate_fields(name, groups)
    same = [] if name == BASELINE else [*runs.same_texts(name).values()]
    for kind in (MEAN, *groups):
        total = runs.total(name, "" if kind == MEAN else kind)
        speed, counts = speeds[kind], [len(prompts) for name, prompts in groups.items() if kind in (MEAN, name)]
        race = None if name == BASELINE else f"{degree:g}/{next(iter(groups)) if kind == MEAN else kind}#{name}"
        row = fields | {
            "flavour": kind,
            **bounds(speed, counts if name != BASELINE else [1]),
            "prompts": sum(counts),
            **rates[kind],
            "waiting": total.waiting,
            "cost": rates[kind]["tau"] / speed.value,
            "drafter_passes": total.nfe / total.rounds,
            "target_passes": total.target_calls / total.committed,
            "race": race,
            "lossless": base.rule.lossless,
        }
        exact = {**total.named("alpha_at", "tested_at"), "texts": len(same), "same_text": sum(same)}
        yield row | (exact if kind == MEAN else {})


def compared(rows: Iterable[dict[str, Any]], degree: float, runs: Runs) -> Iterator[dict[str, Any]]:
    """The rows of one temperature, each with how far it is behind the fastest one of its kind of text."""
    at = [row for row in rows if row["temperature"] == degree]
    drafted = [row for row in at if row["method"] != BASELINE]
    best = {kind: fastest(row for row in drafted if row["flavour"] == kind) for kind in {r["flavour"] for r in at}}
    for row in at:
        first = best[row["flavour"]]
        yield row | (runs.behind(row["method"], first["method"]).get(row["flavour"], {}) if first else {})


def conclusion(ranked: Mapping[float, Sequence[Row]]) -> tuple[str, list[str]]:
    """Which method is fastest at each temperature, whether the ranking changes between the lowest and the highest, and
    which methods are slower than vanilla; from the rows of each temperature, fastest first."""
    degrees = sorted(degree for degree, rows in ranked.items() if rows)
    cold, warm = degrees[0], degrees[-1]

    def named(rows: Iterable[Row]) -> list[str]:  # no commas: they are listed
        return [re.sub(r", (.*)", r" (\1)", row["short"]) for row in rows]

    def best(degree: float) -> str:
        row, *others = ranked[degree]
        if row["speedup"] <= 1:
            reached = f"the best is {row['short']} with {speedup_words(row)}"
            return f"At temperature {degree:g} no method beats vanilla; {reached}."
        close = shortlist(named(rivals(row, others)))
        close = f"; {close} may be as fast" if close else ""
        return f"At temperature {degree:g} {row['short']} is fastest, {speedup(row['speedup'])}{close}."

    if warm == cold:
        return best(cold), ["Only one temperature was measured; the ranking may differ at another."]
    cool, hot = ({row["method"]: row for row in ranked[degree]} for degree in (cold, warm))
    (leader, first), order = next(iter(cool.items())), list(hot)
    notes = ["The same method measured highest at both temperatures."] if leader == order[0] else []
    if leader in order[1:] and hot[leader] not in rivals(hot[order[0]], hot.values()):
        rank = order.index(leader)
        notes = [
            f"The ranking changes with the temperature: {first['short']} falls from first to place {rank + 1} of "
            f"{len(order)}, {speedup_words(first)} to {speedup_words(hot[leader])}."
        ]
    for tree, window in (("ddtree", "dflash"), ("markov_tree", "markov"), ("eagle2", "eagle")):
        if not {tree, window} <= cool.keys() & hot.keys():
            continue
        (a, b), (c, d) = ([rows[name] for name in (tree, window)] for rows in (cool, hot))
        if a["tau"] > b["tau"] and c["tau"] < d["tau"]:
            notes.append(
                f"At temperature {cold:g} the tree of {a['short']} accepts more than the window of {b['short']} (τ "
                f"{ratio(a['tau'])} against {ratio(b['tau'])}); at {warm:g} it accepts less ({ratio(c['tau'])} against "
                f"{ratio(d['tau'])}): a tree must contain the token that the target draws, while a window is tested "
                "with p/q."
            )
    if losing := named(row for row in ranked[warm] if slower(row)):
        notes.append(f"Slower than vanilla at temperature {warm:g}: {listed(losing)}.")
    for degree in dict.fromkeys((cold, warm)):
        if even := named(row for row in ranked[degree] if (row.get("low") or 2) <= 1 <= (row.get("high") or 0)):
            notes.append(f"Neither clearly faster nor slower than vanilla at temperature {degree:g}: {listed(even)}.")
    return f"{best(cold)} {best(warm)}", notes
