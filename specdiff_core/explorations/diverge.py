"""Divergence microscope: two runs whose texts should match but don't. The first differing token is scored again in a
pass of one row. If rounding explains the gap, it's a tie, otherwise a bug; runs with different draws may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from specdiff_core.explorations.base import Answer, Report, ShouldStop, Step, StopFlag
from specdiff_core.explorations.figures import quoted
from specdiff_core.explorations.side_by_side import METHODS, TwoRuns
from specdiff_core.measure.prompts import OWN_TEXTS
from specdiff_core.measure.ties import TIES, difference, ranking
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Event, Finished, RunStarted
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import find_method, resolve_methods
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.summary import final, header_of
from specdiff_core.schema.trace import dump_trace, read_trace

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

LONGEST_RUN = 500_000
"""Maximum characters of a recorded run."""
RUN = ask(
    "Run", "A method, or a recorded run: FILE or FILE#LANE of a trace.", most=LONGEST_RUN, enum=METHODS, of="methods"
)


class ComparedRun(NamedTuple):
    """One of the two runs."""

    label: str
    header: RunStarted
    config: DecodeConfig
    ids: tuple[int, ...]  # new tokens


class Diverge(TwoRuns, frozen=True, kw_only=True):
    """The first token that differs, how close the decision was, and the verdict."""

    name: ClassVar = "diverge"
    title: ClassVar = "Divergence microscope"
    question: ClassVar = "Two texts should match but don't: is it a tie, a bug, or different random draws?"
    tab: ClassVar = ""
    files: ClassVar = ("a", "b")

    a: Annotated[str, RUN] = "vanilla"
    b: Annotated[str, RUN] = "eagle2"
    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 256)] = 128
    prompt: Annotated[str, ask("Prompt", "Both runs continue it.", least=1, most=2000)] = OWN_TEXTS["dialogue"][0]

    @property
    def drafters(self) -> tuple[str, ...]:
        runs = {run: getattr(self, run) for run in ("a", "b")}
        resolve_methods(self.pair, [text for text in runs.values() if not _is_recorded(text)])
        configs = [_recorded(text).config if _is_recorded(text) else self.config(run) for run, text in runs.items()]
        return tuple(dict.fromkeys(config.drafter for config in configs))

    @classmethod
    def from_files(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """``values`` of the command line, with trace files replaced by the runs in them.

        Raises:
            TraceError: a file is not a trace.
            ConfigError: it lacks the named lane, or has several and none is named.
        """
        replaced = dict(values)
        for name in cls.files:
            path, _, lane = str(replaced.get(name, "")).partition("#")
            if path and Path(path).is_file():
                events = _lane(path, lane)
                header = header_of(events)
                replaced.setdefault("pair", header.config.get("pair", cls().pair) if header else cls().pair)
                replaced[name] = dump_trace({lane or "run": events}).decode()
        return replaced

    def explore(self, engine: Engine, stopped: ShouldStop) -> Iterator[Step]:
        runs: list[ComparedRun] = []
        for done, name in enumerate(("a", "b"), start=1):
            text = getattr(self, name)
            if _is_recorded(text):
                run = _recorded(text)
            else:
                events = engine.decode(self.prompt, self.config(name), detail=False, stop=StopFlag(stopped))
                run = _run(find_method(text).label, list(events))
            if stopped():
                return
            runs.append(run)
            if done == 1:
                yield Step(done, 2, run.label, lambda: Answer(rows=[]))
        answer = _compared(engine, *runs)
        yield Step(2, 2, "done", lambda: answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        findings = facts.get("findings", ())
        return Report(answer=" ".join(findings[:2]), notes=list(findings[2:]))


def _is_recorded(run: str) -> bool:
    return run.lstrip().startswith("{")


def _recorded(text: str) -> ComparedRun:
    lanes = read_trace(text.encode()).lanes
    if len(lanes) != 1:
        raise TraceError("A recorded run has one lane.", hint="Name a trace file and its lane: FILE#LANE.")
    ((lane, events),) = lanes.items()
    return _run(lane, events)


def _run(label: str, events: Sequence[Event]) -> ComparedRun:
    header, end = header_of(events), final(events)
    if header is None or end is None:
        raise TraceError(f"The run {label!r} is incomplete.", hint="Record it again, to its end.")
    settings = {name: value for name, value in header.config.items() if name in SETTINGS}
    return ComparedRun(label, header, DecodeConfig.parse(settings), end.ids)


def _lane(path: str, name: str) -> tuple[Event, ...]:
    """Header and end of a lane of a trace file."""
    lanes = read_trace(Path(path)).lanes
    if name not in lanes and (name or len(lanes) != 1):
        hint = f"Write one of: {', '.join(f'{path}#{lane}' for lane in lanes)}."
        raise ConfigError(f"{path} has {'no lane ' + repr(name) if name else 'several lanes'}.", field="a", hint=hint)
    events = lanes[name] if name else next(iter(lanes.values()))
    return tuple(event for event in events if isinstance(event, RunStarted | Finished))


def _compared(engine: Engine, a: ComparedRun, b: ComparedRun) -> Answer:
    """The two tokens at the first difference, and the verdict."""
    _check(engine, a, b)
    size = min(len(a.ids), len(b.ids))
    diff = difference(engine, a.header.prompt_ids, a.ids[:size], b.ids[:size], a.config)
    labels = {"a": a.label, "b": b.label}
    if diff is None:
        findings = [f"Both runs have the same {size} tokens."]
        return Answer(rows=[], facts={"labels": labels, "verdict": "same", "findings": findings})
    ranked = ranking(engine, [*a.header.prompt_ids, *a.ids[: diff.token]], a.config)
    rows: list[dict[str, Any]] = [
        {
            "run": name,
            "token": token,
            "text": str(engine.pair.tokenizer.decode([token])),
            "behind": float(ranked.max() - ranked[token]),
        }
        for name, (token,) in (("A", diff.ours), ("B", diff.theirs))
    ]
    facts = {"labels": labels, "position": diff.token + 1, "margin": diff.margin}
    parted = f"The texts differ from token {diff.token + 1} on: run A has {quoted(rows[0]['text'])}, run B has "
    parted += f"{quoted(rows[1]['text'])}."
    limit = TIES[engine.pair.placement.dtype_name]
    if sampled := _sampled(a.config, b.config):
        verdict, finding = "sampling", f"Sampling: {sampled}. The texts may differ."
    elif diff.tie:
        verdict = "tie"
        finding = f"A tie: in a one-row pass the two are {diff.margin:.2g} apart; rounding explains up to {limit:g}."
    else:
        verdict = "bug"
        wrong = [row for row in rows if row["behind"] > 0]
        chose = " and ".join(f"{row['run']} chose a token that is {row['behind']:.2g} behind" for row in wrong)
        finding = f"A bug: {chose}; rounding explains at most {limit:g}."
        facts["wrong"] = [row["run"] for row in wrong]
    return Answer(rows=rows, facts=facts | {"verdict": verdict, "findings": [parted, finding]})


def _check(engine: Engine, a: ComparedRun, b: ComparedRun) -> None:
    if (a.header.prompt_ids, a.config.pair) != (b.header.prompt_ids, b.config.pair):
        hint = "Compare runs of one pair after one prompt."
        raise ConfigError("These runs have different pairs or prompts.", field="b", hint=hint)
    if a.config.pair != engine.pair.spec.name:
        words = f"These runs used the pair {a.config.pair!r}, but {engine.pair.spec.name!r} is loaded."
        raise ConfigError(words, field="pair", hint=f"Add --pair {a.config.pair}.")
    for run in (a, b):
        if run.header.dtype != (dtype := engine.pair.placement.dtype_name):
            words = f"The run {run.label!r} used {run.header.dtype}, but the pair is loaded in {dtype}."
            raise ConfigError(words, field="dtype", hint=f"Rounding differs: add --dtype {run.header.dtype}.")
    if not all(0 <= token < engine.target.vocab_size for token in (*a.header.prompt_ids, *a.ids, *b.ids)):
        raise ConfigError("These runs contain token ids that the target lacks.", field="a", hint="Load their pair.")
    if not (a.ids and b.ids):
        raise ConfigError("One of these runs has no new tokens.", field="tokens", hint="Choose two runs with text.")


def _sampled(a: DecodeConfig, b: DecodeConfig) -> str:
    """Why two texts need not match; empty if they must."""
    if a.temperature != b.temperature:
        return f"A has temperature {a.temperature:g}, B has {b.temperature:g}"
    if not a.temperature:
        return ""
    if (a.top_k, a.top_p) != (b.top_k, b.top_p):
        return "the runs have different top-k or top-p"
    if a.seed != b.seed:
        return f"A has seed {a.seed}, B has {b.seed}"
    if a.rule.same_text and b.rule.same_text:
        return ""
    return "each run has its own draws; only the rule match shares its noise"
