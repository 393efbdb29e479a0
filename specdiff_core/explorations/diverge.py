"""Divergence microscope: two runs that should say the same and do not. Where they part, the token is scored again in
passes of every width: a lead that rounding explains is a tie, a larger one is a bug, and where each run draws for
itself a difference proves nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations.base import Answer, Asked, Report, Step, Stopped
from specdiff_core.explorations.doctor import no_room
from specdiff_core.explorations.fields import ask, enum
from specdiff_core.explorations.side_by_side import METHODS, TwoRuns, first_difference
from specdiff_core.measure.prompts import OWN_TEXTS
from specdiff_core.schema.errors import ConfigError, SpecDiffError, TraceError
from specdiff_core.schema.events import Event, Finished, RunStarted
from specdiff_core.schema.methods import find_method, played
from specdiff_core.schema.settings import SETTINGS, DecodeConfig
from specdiff_core.schema.summary import final, header_of
from specdiff_core.schema.trace import dump_trace, read_trace

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from specdiff_core.engine import Engine
    from specdiff_core.models.target import Target

WIDEST = 17
"""Rows of the widest pass that is tried."""
KINDS = ("alone", "last", "first", "all along", "in trees")
"""Where among the rows of a pass the token stands. In the last two, the tokens before it were read in such passes, too,
each with a token at its end that was rolled back: their keys and values may differ as well."""
ALONG = 128
"""Tokens that are read that way, at most."""
TIMES = 4
"""A tie: the lead is at most so many times what was measured as rounding, which is a sample and no bound."""
LEAST, MOST = 2, 64
"""Units in the last place of a logit: a lead of so few is rounding whatever was measured, and more than the most is
never."""
LONGEST = 500_000
"""Characters of a recorded run."""
RUN = "A method, or a recorded run: in a shell a trace file, FILE or FILE#LANE."


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One of the two."""

    label: str
    config: DecodeConfig
    prompt: tuple[int, ...]
    ids: tuple[int, ...]  # new tokens
    recorded: str = ""  # on what, of a recorded run
    dtype: str = ""  # the same
    logits: Sequence[Tensor] = ()  # [V] behind each token, as the run itself had them; where it ran here

    @property
    def tree(self) -> bool:
        """Whether the target read its tokens among others that are not in the text."""
        return self.config.tree_nodes > 0 or self.config.num_drafts > 1

    @property
    def drawn(self) -> tuple[Any, ...]:
        """What decides a token besides the target's logits: nothing where it is greedy."""
        config = self.config
        law = (config.temperature, config.top_k, config.top_p)
        return (*law, config.seed, config.rule.same_text) if config.temperature else ()


class Diverge(TwoRuns, frozen=True, kw_only=True):
    """The first token that differs, by how much it leads in passes of every width, and what that says."""

    name: ClassVar = "diverge"
    title: ClassVar = "Divergence microscope"
    question: ClassVar = "Two runs should say the same and do not: a tie, a bug, or other draws?"
    tab: ClassVar = ""
    files: ClassVar = ("a", "b")

    a: Annotated[str, ask("Run A", RUN, most=LONGEST, **enum(METHODS, "methods"))] = "vanilla"
    b: Annotated[str, ask("Run B", RUN, most=LONGEST, **enum(METHODS, "methods"))] = "eagle2"
    tokens: Annotated[int, ask("New tokens", "Of each run; the end of a text is ignored.", 8, 256)] = 128
    prompt: Annotated[str, ask("Prompt", "Both runs write after it.", least=1, most=2000)] = OWN_TEXTS["dialogue"][0]

    @property
    def drafters(self) -> tuple[str, ...]:
        given = {run: getattr(self, run) for run in ("a", "b")}
        played(self.pair, [text for text in given.values() if not _is_recorded(text)])
        configs = [_recorded(text).config if _is_recorded(text) else self.config(run) for run, text in given.items()]
        return tuple(dict.fromkeys(config.drafter for config in configs))

    @classmethod
    def from_files(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """``values`` of a shell, with the runs of the trace files that they name in place of those.

        Raises:
            TraceError: a file is no trace.
            ConfigError: it has no such lane, or several and none is named.
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
            notes.append("Passes of any width score windows with the same bits here; only trees sum in another order.")
        return Report(answer=answer, notes=notes)

    def _decode(self, engine: Engine, name: str, stopped: Stopped) -> Run:
        from specdiff_core.measure.logits import RecordingEngine

        engine = RecordingEngine(engine)
        events = list(engine.decode(self.prompt, self.config(name), detail=False, stop=Asked(stopped)))
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
        raise TraceError(f"The run {label!r} has no beginning or no end.", hint="Record it again, to its end.")
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
    """What is known so far of two runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._unit = 0.0
        self._first: tuple[Tensor, list[Tensor]]  # of the pass of one row

    def answer(self) -> Answer:
        return Answer(rows=list(self._rows), facts=dict(self._facts))

    def compare(self, a: Run, b: Run) -> None:
        """Find the place to look at: where the texts part, or where they came closest to it."""
        if a.prompt != b.prompt or a.config.pair != b.config.pair:
            hint = "Compare runs of one pair after one prompt."
            raise ConfigError("These runs do not begin with the same ids.", field="b", hint=hint)
        if a.config.pair != self._engine.pair.spec.name:
            words = f"These runs are of the pair {a.config.pair!r}, and {self._engine.pair.spec.name!r} is loaded."
            raise ConfigError(words, field="pair", hint=f"Add --pair {a.config.pair}.")
        self._a, self._b = a, b
        for run in (a, b):
            if run.dtype not in ("", dtype := self._engine.pair.placement.dtype_name):
                words = f"The run {run.label!r} is in {run.dtype}, and the pair is loaded in {dtype}."
                raise ConfigError(words, field="dtype", hint=f"Rounding differs: add --dtype {run.dtype}.")
        if not all(0 <= token < self._engine.target.vocab_size for token in (*a.prompt, *a.ids, *b.ids)):
            raise ConfigError("These runs hold ids that the target does not have.", field="a", hint="Load their pair.")
        size = min(len(a.ids), len(b.ids))
        if not size:
            raise ConfigError("One of these runs says nothing.", field="tokens", hint="Let both say something.")
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
        """Where the best token of a text led by the least."""
        session = self._engine.target.start()
        session.read(run.prompt[:-1])
        logits = session.score([run.prompt[-1], *run.ids[:-1]]).logits
        leads = []
        for place, row in enumerate(logits):
            best = self._ranked(row, run, len(run.prompt) + place).topk(2).values
            leads.append(float(best[0] - best[1]))
        return min(range(len(leads)), key=leads.__getitem__)

    def _two(self, run: Run) -> list[int]:
        """The two best tokens there."""
        logits, _ = _pass(self._engine.target, self._prefix, (), 1, "alone")
        two: list[int] = self._ranked(logits, run, len(self._prefix)).topk(2).indices.tolist()
        return two

    def _ranked(self, logits: Tensor, run: Run, position: int) -> Tensor:
        """What chooses a token, ``[V]`` float64: its logit, or log p and the noise that runs of one seed share."""
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
        """(rows, where among them the token stands) of every pass to make, that of one row first."""
        most = max(max(run.config.gamma, run.config.tree_nodes, 1) for run in (self._a, self._b)) + 1
        room = self._engine.target.context - len(self._prefix)
        trees = self._a.tree or self._b.tree
        before = len(self._prefix)
        limits = {"last": before, "first": room, "all along": before if room > 1 else 0}
        limits |= {"in trees": before if trees and room > 2 else 0}
        widths = range(2, min(most, WIDEST) + 1)
        return [(1, "alone"), *((width, kind) for kind, most in limits.items() for width in widths if width <= most)]

    def score(self, width: int, kind: str) -> None:
        """Score the token in a pass of so many rows, and hold it against the pass of one row."""
        begun, following = len(self._a.prompt) - 1, self._a.ids[self._place :]
        logits, states = _pass(self._engine.target, self._prefix, following, width, kind, begun)
        ranked = self._ranked(logits, self._a, len(self._prefix))
        if width == 1:
            self._first = ranked, states
            self._unit = _unit(float(logits.double().abs().max()), logits.dtype) / (self._a.config.temperature or 1.0)
        ulps = [_ulps(state, first) for state, first in zip(states, self._first[1], strict=True)]
        self._rows.append({"rows": width, "place": kind, **self._leads(ranked), "ulps": max(ulps), "ulps_at": ulps})

    def as_run(self) -> None:
        """What both runs themselves made of it, where they ran here."""
        for name, run in (("A", self._a), ("B", self._b)):
            if run.logits:
                ranked = self._ranked(run.logits[self._place], run, len(self._prefix))
                self._rows.append({"rows": None, "place": f"in run {name}", **self._leads(ranked)})

    def _leads(self, ranked: Tensor) -> dict[str, Any]:
        """By how much the best token leads, and A's token B's."""
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
        """Run both again more precisely, and say what all this means."""
        rounding = max((row["moved"] or 0.0 for row in self._rows), default=0.0)
        self.as_run()
        limit = min(max(TIMES * rounding, LEAST * self._unit), MOST * self._unit)
        self._facts |= {"rounding": rounding, "limit": limit, "unit": self._unit}
        sampled = _sampled(self._a, self._b)
        again = {} if sampled or not self._parted else self._again()
        self._facts |= {"again": again, **self._verdict(sampled, rounding, limit, again)}

    def _again(self) -> dict[str, Any]:
        """Both runs with the target in the next more precise dtype, up to the token where they parted."""
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
        """same, sampling, tie or bug; and sentences that say why."""
        alone, (first, second) = self._rows[0], (f"“{one['text']}”" for one in self._facts["tokens"])
        place, widest = self._place + 1, max(row["rows"] or 0 for row in self._rows)
        measured = f"In passes of 1 to {widest} rows the distance between the two changes by {_shown(rounding)} at most"
        notes = [
            f"Run {name} was recorded on {run.recorded}; all margins were measured here."
            for name, run in (("A", self._a), ("B", self._b))
            if run.recorded
        ]
        if not self._parted:
            finding = f"Both runs say the same {self._facts['same_tokens']} tokens."
            close = f"They came closest to parting at token {place}: {first} leads {second} by {_shown(alone['lead'])}."
            return {"verdict": "same", "findings": [finding, f"{close} {measured}.", *notes]}
        parted = f"The texts part at token {place}: run A says {first}, run B says {second}."
        if sampled:
            finding = f"Sampling: {sampled}. A difference proves nothing."
            return {"verdict": "sampling", "findings": [parted, finding, *notes]}
        behind = alone["behind"]
        if again.get("dtype"):
            same = again["position"] is None
            end = "both say the same up to there" if same else f"they part at token {again['position']}"
            notes.append(f"Run again in {again['dtype']}, {end}; A’s token and B’s are {_shown(again['lead'])} apart.")
        elif again:
            notes.append(f"Not run again more precisely: {again['why_not']}.")
        most = MOST * self._unit
        at_once = max((row["moved"] or 0.0 for row in self._rows if row["place"] in ("last", "first")), default=0.0)
        still = bool(again.get("position")) and bool(again["above"])
        if rounding <= most and not still and behind is not None and behind <= limit:
            finding = (
                f"A tie within rounding: the token that a pass of one row puts behind lacks {_shown(behind)}; a unit "
                f"in the last place of these logits is {_shown(self._unit)}."
            )
            return {"verdict": "tie", "findings": [parted, finding, f"{measured}.", *notes]}
        wrong = [name for name, token in zip("AB", self._tokens, strict=True) if token != int(self._first[0].argmax())]
        if at_once > most:
            why = f"the same token in passes of different widths differs by {_shown(at_once)}: a pass is wrong"
        elif rounding > most:
            why = f"after passes with a refused token the same token differs by {_shown(rounding)}: the cache is wrong"
        elif behind is None or behind > limit:
            who = " and ".join(wrong)
            why = f"{who} said a token that lacks {_shown(behind)}; rounding explains {_shown(limit)}"
        else:
            why = f"run again in {again['dtype']} they part as well, where the two tokens are far apart"
        return {"verdict": "bug", "wrong": wrong, "findings": [parted, f"A bug: {why}.", f"{measured}.", *notes]}


def _sampled(a: Run, b: Run) -> str:
    """Why two runs need not say the same; empty where they must."""
    if a.config.temperature != b.config.temperature:
        return f"A draws at temperature {a.config.temperature:g}, B at {b.config.temperature:g}"
    if a.drawn == b.drawn and (not a.config.temperature or a.config.rule.same_text):
        return ""
    if (a.config.top_k, a.config.top_p) != (b.config.top_k, b.config.top_p):
        return "the runs cut the target’s distribution differently (top-k, top-p)"
    if a.config.seed != b.config.seed:
        return f"A draws with seed {a.config.seed}, B with {b.config.seed}"
    return "each run draws for itself; only the rule match shares its noise"


def _pass(
    target: Target, prefix: Sequence[int], following: Sequence[int], width: int, kind: str, begun: int = 0
) -> tuple[Tensor, list[Tensor]]:
    """Logits ``[V]`` behind ``prefix``, read in a pass of ``width`` rows, and all layers' outputs, ``[W]`` each.

    Args:
        following: what stands behind it, where its end shall be the pass's ``first`` row.
        kind: one of :data:`KINDS`.
        begun: tokens of the prefix that are read at once where all others are read ``width`` at a time.
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
        siblings = int(kind == "in trees")  # behind the first row of each pass
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
    """None for what JSON cannot hold: a token that was cut off."""
    return value if math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "no probability at all" if value is None else f"{value:.2g}"


def _aligned(a: Sequence[int], b: Sequence[int], decode: Any) -> list[dict[str, Any]]:
    """Both texts in parts that are the same or differ, in their order."""
    parts = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [
        {"same": kind == "equal", "at": [i + 1, k + 1], "a": str(decode(list(a[i:j]))), "b": str(decode(list(b[k:m])))}
        for kind, i, j, k, m in parts
    ]
