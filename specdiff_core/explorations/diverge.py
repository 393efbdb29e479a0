"""Divergence microscope: two runs whose texts should match but don't. The first differing token is
scored again in passes of every width. A lead that rounding explains is a tie, a larger one is a
bug; runs with their own draws may differ.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations.base import Answer, Report, Step, StopFlag, Stopped
from specdiff_core.explorations.doctor import no_room
from specdiff_core.explorations.fields import ask, enum
from specdiff_core.explorations.side_by_side import METHODS, TwoRuns, first_difference
from specdiff_core.measure.prompts import OWN_TEXTS
from specdiff_core.schema.errors import ConfigError, SpecDiffError, TraceError
from specdiff_core.schema.events import Event, Finished, RunStarted
from specdiff_core.schema.methods import find_method, resolve_methods
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.summary import final, header_of
from specdiff_core.schema.trace import dump_trace, read_trace

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from specdiff_core.engine import Engine
    from specdiff_core.models.target import Target

WIDEST = 17
"""Rows of the widest pass."""
KINDS = ("alone", "last", "first", "all along", "in trees")
"""Position of the token among the rows of a pass. In the last two, the tokens before it were also read in such passes,
each with a token at its end that was rolled back, so their keys and values may differ too."""
ALONG = 128
"""Most tokens that are read that way."""
TIMES = 4
"""A lead of at most this many times the measured rounding, which is a sample and not a bound, is a tie."""
LEAST, MOST = 2, 64
"""Units in the last place of a logit: a lead below LEAST is always rounding, one above MOST never."""
LONGEST = 500_000
"""Maximum characters of a recorded run."""
RUN = "A method, or a recorded run: a trace file, FILE or FILE#LANE."


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One of the two runs."""

    label: str
    config: DecodeConfig
    prompt: tuple[int, ...]
    ids: tuple[int, ...]  # new tokens
    recorded: str = ""  # device of a recorded run
    dtype: str = ""  # of a recorded run
    logits: Sequence[Tensor] = ()  # [V] after each token, if it ran here

    @property
    def tree(self) -> bool:
        """Whether the target read its tokens beside rejected branches."""
        return self.config.tree_nodes > 0 or self.config.num_drafts > 1

    @property
    def drawn(self) -> tuple[Any, ...]:
        """What determines a token besides the target's logits: nothing if it is greedy."""
        config = self.config
        sampling = (config.temperature, config.top_k, config.top_p)
        return (*sampling, config.seed, config.rule.same_text) if config.temperature else ()


class Diverge(TwoRuns, frozen=True, kw_only=True):
    """The first token that differs, its lead in passes of every width, and the verdict."""

    name: ClassVar = "diverge"
    title: ClassVar = "Divergence microscope"
    question: ClassVar = "Two texts should match but don't: is it a tie, a bug, or other draws?"
    tab: ClassVar = ""
    files: ClassVar = ("a", "b")

    a: Annotated[str, ask("Run A", RUN, most=LONGEST, **enum(METHODS, "methods"))] = "vanilla"
    b: Annotated[str, ask("Run B", RUN, most=LONGEST, **enum(METHODS, "methods"))] = "eagle2"
    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 256)] = 128
    prompt: Annotated[str, ask("Prompt", "Both runs continue it.", least=1, most=2000)] = OWN_TEXTS["dialogue"][0]

    @property
    def drafters(self) -> tuple[str, ...]:
        given = {run: getattr(self, run) for run in ("a", "b")}
        resolve_methods(self.pair, [text for text in given.values() if not _is_recorded(text)])
        configs = [_recorded(text).config if _is_recorded(text) else self.config(run) for run, text in given.items()]
        return tuple(dict.fromkeys(config.drafter for config in configs))

    @classmethod
    def from_files(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """``values`` of the command line, with trace files replaced by the runs in them.

        Raises:
            TraceError: a file is not a trace.
            ConfigError: it lacks the named lane, or has several and none is named.
        """
        read = dict(values)
        for name in cls.files:
            path, _, lane = str(read.get(name, "")).partition("#")
            if path and Path(path).is_file():
                kept = _lane(path, lane)
                header = header_of(kept)
                read.setdefault("pair", header.config.get("pair", cls().pair) if header else cls().pair)
                read[name] = dump_trace({lane or "run": kept}).decode()
        return read

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        known = _Known(engine)
        runs = []
        for done, name in enumerate(("a", "b"), start=1):
            text = getattr(self, name)
            run = _recorded(text) if _is_recorded(text) else self._decode(engine, name, stopped)
            if stopped():
                return
            runs.append(run)
            yield Step(done, 3 + 2 * WIDEST, run.label, known.answer)
        known.compare(*runs)
        passes = known.passes()
        total = 3 + len(passes)
        for done, (width, kind) in enumerate(passes, start=3):
            if stopped():
                return
            known.score(width, kind)
            yield Step(done, total, f"a pass of {width} rows", known.answer)
        if not stopped():
            known.repeat()
            yield Step(total, total, "done", known.answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        notes = list(facts.get("findings", ()))
        answer, notes = " ".join(notes[:2]), notes[2:]
        if facts.get("exactness") == "bitwise":
            notes.append("Here passes of any width give windows the same bits; only trees are summed in another order.")
        return Report(answer=answer, notes=notes)

    def _decode(self, engine: Engine, name: str, stopped: Stopped) -> Run:
        from specdiff_core.measure.logits import RecordingEngine

        engine = RecordingEngine(engine)
        events = list(engine.decode(self.prompt, self.config(name), detail=False, stop=StopFlag(stopped)))
        label = find_method(getattr(self, name)).label
        return dataclasses.replace(_run(label, events, here=True), logits=engine.logits)


def _is_recorded(run: str) -> bool:
    return run.lstrip().startswith("{")


def _recorded(text: str) -> Run:
    lanes = read_trace(text.encode()).lanes
    if len(lanes) != 1:
        raise TraceError("A recorded run has one lane.", hint="Name a trace file and its lane: FILE#LANE.")
    ((lane, events),) = lanes.items()
    return _run(lane, events, here=False)


def _run(label: str, events: Sequence[Event], *, here: bool) -> Run:
    header, end = header_of(events), final(events)
    if header is None or end is None:
        raise TraceError(f"The run {label!r} is incomplete.", hint="Record it again, to its end.")
    known = {name: value for name, value in header.config.items() if name in SETTINGS}
    return Run(
        label=label,
        config=DecodeConfig.parse(known),
        prompt=header.prompt_ids,
        ids=end.ids,
        recorded="" if here else header.device,
        dtype="" if here else header.dtype,
    )


def _lane(path: str, name: str) -> tuple[Event, ...]:
    """Header and end of a lane of a trace file."""
    lanes = read_trace(Path(path)).lanes
    if name not in lanes and (name or len(lanes) != 1):
        hint = f"Write one of: {', '.join(f'{path}#{lane}' for lane in lanes)}."
        raise ConfigError(f"{path} has {'no lane ' + repr(name) if name else 'several lanes'}.", field="a", hint=hint)
    events = lanes[name] if name else next(iter(lanes.values()))
    return tuple(event for event in events if isinstance(event, RunStarted | Finished))


class _Known:
    """The comparison so far."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._unit = 0.0
        self._first: tuple[Tensor, list[Tensor]]  # of the pass of one row

    def answer(self) -> Answer:
        return Answer(rows=list(self._rows), facts=dict(self._facts))

    def compare(self, a: Run, b: Run) -> None:
        """Find the position to examine: the first difference, or the closest decision."""
        if a.prompt != b.prompt or a.config.pair != b.config.pair:
            hint = "Compare runs of one pair after one prompt."
            raise ConfigError("These runs have different pairs or prompts.", field="b", hint=hint)
        if a.config.pair != self._engine.pair.spec.name:
            words = f"These runs used the pair {a.config.pair!r}, but {self._engine.pair.spec.name!r} is loaded."
            raise ConfigError(words, field="pair", hint=f"Add --pair {a.config.pair}.")
        self._a, self._b = a, b
        for run in (a, b):
            if run.dtype not in ("", dtype := self._engine.pair.placement.dtype_name):
                words = f"The run {run.label!r} used {run.dtype}, but the pair is loaded in {dtype}."
                raise ConfigError(words, field="dtype", hint=f"Rounding differs: add --dtype {run.dtype}.")
        if not all(0 <= token < self._engine.target.vocab_size for token in (*a.prompt, *a.ids, *b.ids)):
            raise ConfigError("These runs hold ids that the target does not have.", field="a", hint="Load their pair.")
        size = min(len(a.ids), len(b.ids))
        if not size:
            raise ConfigError("One of these runs has no new tokens.", field="tokens", hint="Choose two runs with text.")
        parted = first_difference(a.ids[:size], b.ids[:size])
        place = parted - 1 if parted else self._closest(a)
        self._prefix = [*a.prompt, *a.ids[:place]]
        self._place, self._parted = place, parted is not None
        second = b.ids[place] if parted else next(token for token in self._two(a) if token != a.ids[place])
        self._tokens = (a.ids[place], second)
        decode = self._engine.pair.tokenizer.decode
        self._facts |= {
            "labels": {"a": a.label, "b": b.label},
            "parted": self._parted,
            "position": place + 1,
            "tokens": [{"id": token, "text": str(decode([token]))} for token in self._tokens],
            "same_tokens": size,
            "aligned": _aligned(a.ids, b.ids, decode),
            "exactness": self._engine.target.exactness,
        }

    def _closest(self, run: Run) -> int:
        """The position where the best token's lead was smallest."""
        session = self._engine.target.start()
        session.read(run.prompt[:-1])
        logits = session.score([run.prompt[-1], *run.ids[:-1]]).logits
        leads = []
        for place, row in enumerate(logits):
            best = self._ranked(row, run, len(run.prompt) + place).topk(2).values
            leads.append(float(best[0] - best[1]))
        return min(range(len(leads)), key=leads.__getitem__)

    def _two(self, run: Run) -> list[int]:
        """The two best tokens at that position."""
        logits, _ = _pass(self._engine.target, self._prefix, (), 1, "alone")
        two: list[int] = self._ranked(logits, run, len(self._prefix)).topk(2).indices.tolist()
        return two

    def _ranked(self, logits: Tensor, run: Run, position: int) -> Tensor:
        """What a token is chosen by, ``[V]`` float64: its logit, or log p plus the noise that runs
        of one seed share."""
        import torch

        from specdiff_core.maths.distributions import to_probs
        from specdiff_core.maths.randomness import SharedGumbel

        config, never = run.config, self._engine.target.suppress
        if config.temperature and config.rule.same_text:
            dist = to_probs(logits, config.sampling, never).cpu()
            return dist.log() + SharedGumbel(config.seed).noise(position, dist.numel())
        ranked = logits.double().cpu().clone()
        ranked[list(never)] = -torch.inf
        return ranked

    def passes(self) -> list[tuple[int, str]]:
        """(rows, position of the token among them) of every pass, the one of a single row first."""
        most = max(max(run.config.gamma, run.config.tree_nodes, 1) for run in (self._a, self._b)) + 1
        room = self._engine.target.context - len(self._prefix)
        trees = self._a.tree or self._b.tree
        before = len(self._prefix)
        limits = {"last": before, "first": room, "all along": before if room > 1 else 0}
        limits |= {"in trees": before if trees and room > 2 else 0}
        widths = range(2, min(most, WIDEST) + 1)
        return [(1, "alone"), *((width, kind) for kind, most in limits.items() for width in widths if width <= most)]

    def score(self, width: int, kind: str) -> None:
        """Score the token in a pass of ``width`` rows and compare with the pass of one row."""
        begun, following = len(self._a.prompt) - 1, self._a.ids[self._place :]
        logits, states = _pass(self._engine.target, self._prefix, following, width, kind, begun)
        ranked = self._ranked(logits, self._a, len(self._prefix))
        if width == 1:
            self._first = ranked, states
            self._unit = _unit(float(logits.double().abs().max()), logits.dtype) / (self._a.config.temperature or 1.0)
        ulps = [_ulps(state, first) for state, first in zip(states, self._first[1], strict=True)]
        self._rows.append({"rows": width, "place": kind, **self._leads(ranked), "ulps": max(ulps), "ulps_at": ulps})

    def as_run(self) -> None:
        """Add the rows of both runs themselves, if they ran here."""
        for name, run in (("A", self._a), ("B", self._b)):
            if run.logits:
                ranked = self._ranked(run.logits[self._place], run, len(self._prefix))
                self._rows.append({"rows": None, "place": f"in run {name}", **self._leads(ranked)})

    def _leads(self, ranked: Tensor) -> dict[str, Any]:
        """The lead of the best token, and of A's token over B's."""
        (a, b), first = self._tokens, self._first[0]
        best, lead = ranked.topk(2), float(ranked[a] - ranked[b])
        return {
            "best": str(self._engine.pair.tokenizer.decode([int(best.indices[0])])),
            "margin": _number(float(best.values[0] - best.values[1])),
            "lead": _number(lead),
            "behind": _number(float(best.values[0] - min(ranked[a], ranked[b]))),
            "moved": _number(abs(lead - float(first[a] - first[b]))),
        }

    def repeat(self) -> None:
        """Run both again in higher precision, then decide the verdict."""
        rounding = max((row["moved"] or 0.0 for row in self._rows), default=0.0)
        self.as_run()
        limit = min(max(TIMES * rounding, LEAST * self._unit), MOST * self._unit)
        self._facts |= {"rounding": rounding, "limit": limit, "unit": self._unit}
        sampled = _sampled(self._a, self._b)
        again = {} if sampled or not self._parted else self._again()
        self._facts |= {"again": again, **self._verdict(sampled, rounding, limit, again)}

    def _again(self) -> dict[str, Any]:
        """Both runs with the target in the next more precise dtype, up to the differing token."""
        import torch

        from specdiff_core.decoding.clock import DeviceClock
        from specdiff_core.decoding.loop import speculate
        from specdiff_core.models.causal import load_causal
        from specdiff_core.models.folders import resolve
        from specdiff_core.models.target import Target

        pair, spec = self._engine.pair, self._engine.pair.spec
        dtype = torch.float64 if pair.placement.dtype == torch.float32 else torch.float32
        if why := no_room(self._engine, dtype):
            return {"why_not": why}
        texts = []
        try:
            folder, device = resolve(spec.target, spec.revision), pair.placement.device
            model, _ = load_causal(folder, dtype, context=spec.context, device=device)
            target = Target(model, context=spec.context, suppress=spec.suppress)
            for run in (self._a, self._b):
                config = dataclasses.replace(run.config, max_new_tokens=self._place + 1, ignore_eos=True)
                drafter, clock = self._engine.drafter(config.drafter), DeviceClock(device, "total")
                end = final(speculate(run.prompt, config, target, drafter, clock, detail=False))
                texts.append(end.ids if end else ())
        except SpecDiffError as error:
            return {"why_not": error.message}
        logits, _ = _pass(target, self._prefix, (), 1, "alone")
        ranked = self._ranked(logits, self._a, len(self._prefix))
        lead = abs(float(ranked[self._tokens[0]] - ranked[self._tokens[1]]))
        unit = _unit(float(logits.double().abs().max()), dtype) / (self._a.config.temperature or 1.0)
        named = {torch.float32: "fp32", torch.float64: "fp64"}[dtype]
        return {
            "dtype": named,
            "position": first_difference(*texts),
            "lead": _number(lead),
            "above": lead > MOST * unit,
        }

    def _verdict(self, sampled: str, rounding: float, limit: float, again: Mapping[str, Any]) -> dict[str, Any]:
        """The verdict (same, sampling, tie or bug), and sentences that explain it."""
        alone, (first, second) = self._rows[0], (f"“{one['text']}”" for one in self._facts["tokens"])
        place, widest = self._place + 1, max(row["rows"] or 0 for row in self._rows)
        measured = (
            f"In passes of 1 to {widest} rows the lead of one over the other changes by {_shown(rounding)} at most"
        )
        notes = [
            f"Run {name} was recorded on {run.recorded}; all margins were measured here."
            for name, run in (("A", self._a), ("B", self._b))
            if run.recorded
        ]
        if not self._parted:
            finding = f"Both runs have the same {self._facts['same_tokens']} tokens."
            close = f"The closest decision was token {place}: {first} leads {second} by {_shown(alone['lead'])}."
            return {"verdict": "same", "findings": [finding, f"{close} {measured}.", *notes]}
        parted = f"The texts differ from token {place} on: run A has {first}, run B has {second}."
        if sampled:
            finding = f"Sampling: {sampled}. The texts may differ."
            return {"verdict": "sampling", "findings": [parted, finding, *notes]}
        behind = alone["behind"]
        if again.get("dtype"):
            same = again["position"] is None
            end = "the texts match up to there" if same else f"the texts differ from token {again['position']} on"
            notes.append(f"Run again in {again['dtype']}, {end}; A’s token and B’s differ by {_shown(again['lead'])}.")
        elif again:
            notes.append(f"Not run again in higher precision: {again['why_not']}.")
        most = MOST * self._unit
        at_once = max((row["moved"] or 0.0 for row in self._rows if row["place"] in ("last", "first")), default=0.0)
        still = bool(again.get("position")) and bool(again["above"])
        if rounding <= most and not still and behind is not None and behind <= limit:
            finding = (
                f"A tie within rounding: in a pass of one row the second token is {_shown(behind)} behind; a unit in "
                f"the last place of these logits is {_shown(self._unit)}."
            )
            return {"verdict": "tie", "findings": [parted, finding, f"{measured}.", *notes]}
        wrong = [name for name, token in zip("AB", self._tokens, strict=True) if token != int(self._first[0].argmax())]
        if at_once > most:
            why = f"one token's score differs by {_shown(at_once)} between passes of different widths: a pass is wrong"
        elif rounding > most:
            why = f"one token's score differs by {_shown(rounding)} after a rejected token: the cache is wrong"
        elif behind is None or behind > limit:
            runs = " and ".join(wrong)
            why = f"{runs} chose a token that is {_shown(behind)} behind; rounding explains {_shown(limit)}"
        else:
            why = f"run again in {again['dtype']} the texts differ too, although the two tokens are far apart"
        return {"verdict": "bug", "wrong": wrong, "findings": [parted, f"A bug: {why}.", f"{measured}.", *notes]}


def _sampled(a: Run, b: Run) -> str:
    """Why two texts need not match; empty if they must."""
    if a.config.temperature != b.config.temperature:
        return f"A has temperature {a.config.temperature:g}, B has {b.config.temperature:g}"
    if a.drawn == b.drawn and (not a.config.temperature or a.config.rule.same_text):
        return ""
    if (a.config.top_k, a.config.top_p) != (b.config.top_k, b.config.top_p):
        return "the runs have different top-k or top-p"
    if a.config.seed != b.config.seed:
        return f"A has seed {a.config.seed}, B has {b.config.seed}"
    return "each run has its own draws; only the rule match shares its noise"


def _pass(
    target: Target, prefix: Sequence[int], following: Sequence[int], width: int, kind: str, begun: int = 0
) -> tuple[Tensor, list[Tensor]]:
    """Logits ``[V]`` after ``prefix``, read in a pass of ``width`` rows, and all layers' outputs, ``[W]`` each.

    Args:
        following: tokens after it, for passes in which its end is the ``first`` row.
        kind: one of :data:`KINDS`.
        begun: tokens of the prefix that are read at once; the others are read ``width`` at a time.
    """
    layers = range(int(target.model.config.num_hidden_layers))
    run, row = target.start(layers), -1
    read: Sequence[int]
    ids: Sequence[int] = ()
    if kind == "first":
        behind = [*following, *[prefix[-1]] * width][: width - 1]
        read, ids, row = prefix[:-1], [prefix[-1], *behind], 0
    elif kind in ("all along", "in trees"):
        read = prefix[: max(begun, len(prefix) - ALONG)]
    else:
        read, ids = prefix[: len(prefix) - width], prefix[len(prefix) - width :]
    run.read(read)
    if kind not in ("all along", "in trees"):
        scores = run.score(ids)
    else:
        siblings = int(kind == "in trees")  # after the first row of each pass
        for first in range(len(read), len(prefix), width - 1):
            own = list(prefix[first : first + width - 1])
            last, row = len(own) + siblings, (len(own) - 1 + siblings if len(own) > 1 else 0)
            parents = [-1, -1, *range(1, len(own))] if siblings else None
            scores = run.score([own[0], *own[:siblings], *own[1:], own[0]], parents)
            run.rollback(last + 1, [0, *range(1 + siblings, last)])
    assert scores.features is not None, "layers were asked for"
    return scores.logits[row], list(scores.features[row].chunk(len(layers)))


def _unit(size: float, dtype: torch.dtype) -> float:
    """A unit in the last place of a number of this size."""
    import torch

    return float(2.0 ** math.floor(math.log2(max(size, 1e-30))) * torch.finfo(dtype).eps)


def _ulps(state: Tensor, first: Tensor) -> float:
    """The largest difference of two states ``[W]``, in units in the last place of the second one's root mean square."""
    size = float(first.double().square().mean().sqrt())
    return round(float((state.double() - first.double()).abs().max()) / _unit(size, first.dtype), 2)


def _number(value: float) -> float | None:
    """None for an infinite number, which JSON lacks: the token has no probability."""
    return value if math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "∞ (no probability)" if value is None else f"{value:.2g}"


def _aligned(a: Sequence[int], b: Sequence[int], decode: Any) -> list[dict[str, Any]]:
    """Both texts in parts that match or differ, in order."""
    parts = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [
        {"same": kind == "equal", "at": [i + 1, k + 1], "a": str(decode(list(a[i:j]))), "b": str(decode(list(b[k:m])))}
        for kind, i, j, k, m in parts
    ]
