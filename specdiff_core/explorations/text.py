"""Which text is easy? (the third and fourth open questions of SpecDiff, arXiv 2408.05636): which
tokens a drafter predicts, by kind of token, kind of text and entropy of the target, and how this
changes as the text grows.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step
from specdiff_core.explorations.fields import METHOD
from specdiff_core.explorations.figures import FROM_ZERO, Figure, axes
from specdiff_core.explorations.measured import Runs
from specdiff_core.explorations.wording import listed, percent, ratio, shortlist, speedup
from specdiff_core.measure.statistics import wilson
from specdiff_core.measure.store import Rows
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.events import Committed, Event, Finished, RoundStarted, TargetScored, Verified
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method
from specdiff_core.schema.metrics import Metrics, measure, passed_positions, speed_up

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

ENTROPIES = (0.01, 0.1, 0.3, 0.6, 1.0, 1.5, 2.2, 3.0)
"""Boundaries between classes of the target's entropy, nats."""
FEWEST = 10
"""Tested tokens from which a class is drawn and compared."""
GROUPS = {
    "token": ("By kind of token", "of the tokens that the target tested", ""),
    "entropy": ("By the target’s entropy", "of its distribution at temperature 1", "nats"),
    "text": ("By kind of text", "whiskers: 95 % Wilson interval", ""),
}
LENGTHS = {
    "speed": ("speedup", "Speed-up by length", "over vanilla at texts of the same length", "speed-up over vanilla, ×"),
    "tau": ("tau", "τ by length", "tokens per round", "τ, tokens per round"),
    "passes": ("pass_ms", "The target’s pass by length", "a drafted one reads γ + 1 rows", "milliseconds of a pass"),
}
"""Key of a figure -> field of a row, title, hint and unit."""


class WhichText(AtTemperature, frozen=True, kw_only=True):
    """Acceptance by kind of token, kind of text and the target's entropy; speed, τ and α by text length."""

    name: ClassVar = "text"
    rank: ClassVar = 5
    title: ClassVar = "Which text is easy?"
    question: ClassVar = "Which tokens does a drafter predict, and does drafting still pay in long texts?"
    takes: ClassVar = 25
    scales: ClassVar = ("methods", "flavours", "per_flavour", "tokens")
    columns: ClassVar = {
        "method": "name of the method",
        "group": "what tokens are grouped by; length groups rounds by the tokens before them",
        "name": "class",
        "tested": "drafted tokens that the target tested",
        "accepted": "share of them that it accepted (conditional: later tokens of the draft are not tested)",
        "drafted": "drafted tokens, tested or not; of kinds of text only",
        "joint": "accepted of drafted tokens",
        "low": "95 % Wilson interval, lower end",
        "high": "95 % Wilson interval, upper end",
        "context": "tokens before the round: the start of the part",
        "rounds": "rounds in that part",
        "seconds_per_token": "decode seconds per new token",
        "speedup": "vanilla’s seconds per token over this row’s, at the same length",
        "tau": "τ",
        "alpha": "α",
        "pass_seconds": "seconds of the target’s pass",
    }

    methods: Annotated[
        tuple[METHOD, ...], ask("Methods", "Each is compared with vanilla on the same prompts.", least=1, most=6)
    ] = ("dflash",)
    tokens: Annotated[int, ask("New tokens", "In each run; 400 or more show the effect of length.", 32, 2**16)] = 128
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 5
    width: Annotated[
        int, ask("Width of a part", "Tokens of context that are grouped together.", 16, 256, more=True)
    ] = 64

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        prompts, skipped = self.prompts(engine)
        labels = {name: find_method(name).label for name in self.methods}
        configs = {name: find_method(name).config(self.base) for name in labels}
        runs = Runs(engine, self.base, configs, prompts, stop)
        parts: dict[str, dict[int, Metrics]] = {}  # by method and length of the text, in widths
        counts: dict[str, dict[tuple[str, str], list[bool]]] = {}
        examples: dict[str, list[str]] = {}

        def answer() -> Answer:
            vanilla = parts.get(BASELINE, {})
            rows = [
                {"method": method, "group": group, "name": name, **_share(hits), **joint(runs, method, group, name)}
                for method, cells in counts.items()
                for (group, name), hits in sorted(cells.items(), key=_order)
            ]
            rows += [
                _row(name, index * self.width, metrics, vanilla.get(index))
                for name, by_length in parts.items()
                for index, metrics in sorted(by_length.items())
            ]
            facts = {"threads": runs.threads, "skipped": skipped + runs.left_out()}
            facts |= {"examples": examples, "width": self.width}
            return Answer(rows=rows, facts=facts, runs=runs.prompt_rows(), races=runs.traces)

        for done, total, run in runs.fill():
            name, prompt = run.lane, run.prompt
            for lane, events in runs.events.items():
                by_length = parts.setdefault(lane, {})
                for index, metrics in _parts(events, self.width):
                    by_length[index] = by_length.get(index, Metrics()) + metrics
            if name in runs.events:
                before, cells = engine.encode(prompt.prompt, self.base), counts.setdefault(name, {})
                for piece, kind, entropy, accepted in judged(engine, before, runs.events[name]):
                    for group, of in (("text", prompt.flavour), ("token", kind), ("entropy", _class(entropy))):
                        cells.setdefault((group, of), []).append(accepted)
                    word, words = piece.strip() or repr(piece)[1:-1], examples.setdefault(kind, [])
                    if len(words) < 8 and word not in words:
                        words.append(word)
            yield Step(done, total, f"{labels[name]}: {prompt.id}", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        grown, width = [row for row in rows if row["group"] == "length"], facts.get("width", self.width)
        method = next((row["method"] for row in rows if row["group"] == "text"), "")
        classes = {group: [row for row in rows if (row["group"], row["method"]) == (group, method)] for group in GROUPS}
        enough = {group: [row for row in own if row["tested"] >= FEWEST] for group, own in classes.items()}
        label = draw.styles([method])[method].label if len(self.methods) > 1 and method else ""
        answers = _guessed(enough["token"], facts, label), self._lengthened(grown, width)

        def hint(group: str, words: str) -> str:
            few = [row["name"] for row in classes[group] if row not in enough[group]]
            omitted = f"not drawn, with fewer than {FEWEST} tested tokens: {listed(few)}" if few else ""
            return "; ".join(filter(None, (f"{label}: {words}" if label else words, omitted)))

        figures = [
            Figure(
                key=group,
                title=title,
                hint=hint(group, words),
                data=[_shares(enough[group])],
                layout=axes(
                    "share of tested tokens accepted",
                    unit,
                    xaxis={"range": [0, 1.02]},
                    yaxis=draw.CATEGORY | {"autorange": "reversed"},
                ),
            )
            for group, (title, words, unit) in GROUPS.items()
            if enough[group]
        ]
        return Report(
            answer=" ".join(filter(None, answers)),
            figures=[*figures, *(_by_length(grown, width) if len({row["context"] for row in grown}) > 1 else ())],
            titles={name: find_method(name).label for name in self.methods},
        )

    def _lengthened(self, rows: Sequence[Mapping[str, Any]], width: int) -> str:
        """Whether drafting pays in the longest part of the texts, compared with the shortest."""
        timed = [row for row in rows if row["method"] != BASELINE and row["speedup"] and row["rounds"] > 8]
        vanilla = [row for row in rows if row["method"] == BASELINE and row["seconds_per_token"] and row["rounds"] > 8]
        if len(vanilla) < 2 or len(timed) < 2:
            return ""
        method = max(
            {row["method"] for row in timed}, key=lambda name: max(r["speedup"] for r in timed if r["method"] == name)
        )
        curve = [row for row in timed if row["method"] == method]
        first, last = curve[0], curve[-1]
        words = {(True, True): "still pays", (False, True): "pays", (True, False): "no longer pays"}
        pays = words.get((first["speedup"] >= 1, last["speedup"] >= 1), "doesn’t pay")
        begin = f"from token {first['context']} on" if first["context"] else f"in the first {width} tokens"
        return (
            f"From token {last['context']} on, drafting {pays}: {find_method(method).short} reaches "
            f"{speedup(last['speedup'])}, against {speedup(first['speedup'])} {begin} (measured without intervals); a "
            f"vanilla token takes {1000 * vanilla[-1]['seconds_per_token']:.1f} ms there, and "
            f"{1000 * vanilla[0]['seconds_per_token']:.1f} ms at the start."
        )


def _guessed(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], label: str) -> str:
    kinds = sorted(rows, key=lambda row: -row["accepted"])
    if len(kinds) < 2:
        return ""

    def like(row: Mapping[str, Any], others: Iterable[Mapping[str, Any]], how: str) -> str:
        words = ", ".join(f"“{word}”" for word in facts["examples"].get(row["name"], ())[:4])
        rivals = [other["name"] for other in others if other["high"] >= row["low"] and other["low"] <= row["high"]]
        close = f"; {shortlist(rivals)} may be as {how}" if rivals else ""
        return f"“{row['name']}” ({percent(row['accepted'])} of {row['tested']} accepted; {words}{close})"

    easiest, hardest = like(kinds[0], kinds[1:], "easy"), like(kinds[-1], kinds[-2::-1], "hard")
    return f"The easiest kind of token{f' for {label}' if label else ''} is {easiest}; the hardest is {hardest}."


def _shares(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Horizontal bars of the fields ``name`` and ``accepted`` with their intervals."""

    def words(row: Mapping[str, Any]) -> list[str | None]:
        counts = f"{round(row['accepted'] * row['tested'])} of {row['tested']} tested tokens accepted"
        if row.get("drafted"):
            counts += f"; of all {row['drafted']} drafted tokens {percent(row['joint'])}"
        return [None, f"{counts}<br>95 % interval {ratio(row['low'])} to {ratio(row['high'])}"]

    x, y = [row["accepted"] for row in rows], [row["name"] for row in rows]
    bars = draw.bars(x, y, "", "@draft", customdata=list(map(words, rows)))
    bars["marker"]["opacity"] = 0.5
    return bars | {"orientation": "h", "error_x": draw.whisker(rows, "accepted")}


def _by_length(rows: Sequence[Mapping[str, Any]], width: int) -> Iterator[Figure]:
    points = [
        {**row, "at": row["context"] + width / 2, "pass_ms": row["pass_seconds"] and 1000 * row["pass_seconds"]}
        for row in rows
        if row["rounds"] >= 2
    ]
    look = draw.styles(row["method"] for row in points)
    for key, (field, title, hint, unit) in LENGTHS.items():

        def words(row: Mapping[str, Any], field: str = field) -> str:
            return (
                f"{look[row['method']].label}, {row['context']} to {row['context'] + width - 1} tokens: "
                f"{ratio(row[field])}<br>{row['rounds']} rounds"
            )

        yield Figure(
            key=key,
            title=title,
            hint=hint,
            wide=key == "speed",
            data=draw.lines(points, "method", "at", field, words, style=look),
            layout=axes("tokens of text before the round", unit, yaxis=FROM_ZERO, showlegend=True),
            empty="Lines appear as the texts grow.",
        )


def _parts(events: Sequence[Event], width: int) -> Iterator[tuple[int, Metrics]]:
    """The numbers of a run's rounds, each with the length of the text before it in units of ``width`` tokens. The
    first round counts only its tests, because its time includes the prompt's."""
    before, scored, index = 0.0, 0.0, 0
    for event in events:
        if isinstance(event, RoundStarted):
            index = event.length // width
        elif isinstance(event, TargetScored):
            scored = event.span.seconds
        elif isinstance(event, Verified):
            yield index, measure(event)
        elif isinstance(event, Committed):
            if before:
                seconds_by, size = {"score": scored}, len(event.ids)
                yield index, Metrics(rounds=1, committed=size, seconds=event.at - before, seconds_by=seconds_by)
            before = event.at


def _row(name: str, context: int, metrics: Metrics, vanilla: Metrics | None) -> dict[str, Any]:
    return {
        "method": name,
        "group": "length",
        "context": context,
        "rounds": metrics.rounds,
        "seconds_per_token": metrics.seconds / metrics.committed if metrics.committed else None,
        "speedup": speed_up(vanilla or Metrics(), metrics),
        "tau": metrics.tau,
        "alpha": metrics.alpha,
        "pass_seconds": metrics.seconds_by["score"] / metrics.rounds if metrics.rounds else None,
    }


def judged(engine: Engine, before: Sequence[int], events: Sequence[Event]) -> Iterator[tuple[str, str, float, bool]]:
    """Yield for every tested position of a window or a tree: the committed token, its kind, the target's entropy in
    nats, and whether the token was drafted. One pass over the whole text gives the entropies."""
    import torch

    last = next(event for event in events if isinstance(event, Finished))
    ids = [*before, *last.ids]
    run = engine.target.start()
    run.read(ids[: len(before) - 1])
    logits = run.score(ids[len(before) - 1 : -1]).logits.double()
    logits[:, list(engine.target.suppress)] = -math.inf
    logs = torch.log_softmax(logits, -1)
    entropies = -(logs.exp() * logs.nan_to_num(neginf=0.0)).sum(-1)
    decode: Any = engine.pair.tokenizer.decode
    position = 0
    for event in events:
        if isinstance(event, Verified):
            tested = min(len(passed_positions(event.tests)), len(last.ids) - position)
            for i in range(tested):
                token = last.ids[position + i]
                line = decode(ids[: len(before) + position + i]).rsplit("\n", 1)[-1]
                piece = decode([token])
                yield piece, token_kind(piece, line), float(entropies[position + i]), i < event.accepted
            position += event.accepted + 1


def token_kind(piece: str, line: str) -> str:
    """The kind of a token: a number, a name, a line end, the end of a word, ….

    Args:
        line: the text before it on its line.
    """
    word = piece.strip(" ")
    if "\n" in piece:
        return "line end"
    if not word:
        return "indentation" if not line.strip() else "symbol"
    if re.fullmatch(r"[\d.,:$%]*\d[\d.,:$%]*", word):
        return "number"
    if not re.search(r"\w", word):
        return "quotation mark" if re.search(r"[\"“”']", word) else "symbol"
    if not piece.startswith(" ") and line and line[-1].isalnum():
        return "end of a word"
    sentence = line.rstrip()
    if word[0].isupper() and sentence and sentence[-1] not in '.?!:"“>':
        return "name"
    return "inside quotation marks" if line.count('"') % 2 else "word"


def _class(entropy: float) -> str:
    i = bisect_right(ENTROPIES, entropy)
    low = ENTROPIES[i - 1] if i else 0
    return f"{low:g} to {ENTROPIES[i]:g}" if i < len(ENTROPIES) else f"{low:g} and more"


def _order(item: tuple[tuple[str, str], list[bool]]) -> tuple[str, float, str]:
    (group, name), hits = item
    return group, float(name.split()[0]) if group == "entropy" else -sum(hits) / len(hits), name


def joint(rows: Rows, method: str, group: str, name: str) -> dict[str, Any]:
    """Drafted tokens of a kind of text and the share that was accepted; an untested token has no kind or entropy."""
    total = rows.total(method, name) if group == "text" else Metrics()
    return {"drafted": total.drafted, "joint": total.draft_use} if total.drafted else {}


def _share(hits: list[bool]) -> dict[str, Any]:
    share = wilson(sum(hits), len(hits))
    return {"tested": len(hits), "accepted": share.value, "low": share.low, "high": share.high}
