"""The page's JavaScript: node's own tests of the modules, the types that the Python events prescribe, and the numbers
that Python and JavaScript both compute, compared after every round of every kind of run.

Node is the one that Playwright ships; the types are checked by deno. Neither needs a network or a browser.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import random
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import event_types
import msgspec
import pytest
import torch
from app_fakes import FakeDecoder
from deno import find_deno_bin
from exploring import differences
from fakes import END, FakeTarget, good_drafter
from playwright._impl._driver import compute_driver_executable

from app.content import evidence
from app.content.evidence import COSTS, TEMPERATURES
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.controller import Auto
from specdiff_core.decoding.loop import Ending, speculate
from specdiff_core.drafters.base import Drafter
from specdiff_core.drafters.prompt_lookup import PromptLookupDrafter
from specdiff_core.drafters.vanilla import VanillaDrafter
from specdiff_core.explorations import figures as draw
from specdiff_core.measure.grid import SWEPT, BenchSetting
from specdiff_core.schema.events import (
    EXACTNESS,
    Committed,
    DraftReady,
    Event,
    Failed,
    Finished,
    PiecesSeen,
    RunStarted,
    TargetScored,
    depths,
    spell,
)
from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.metrics import CROWDED, Metrics, fold, predict, speed_up
from specdiff_core.schema.pairs import ASSETS, PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import ENOUGH, final, header_of, race_summary, staged
from specdiff_core.schema.trace import dump_trace, read_trace, write_trace
from specdiff_core.schema.wording import denoises, settings_words

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "app" / "static"
NODE = compute_driver_executable()[0]


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it says on either channel is in ``stdout``."""
    return subprocess.run(
        list(map(str, words)),
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "NODE_NO_WARNINGS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


# The modules, tested by node itself.


@pytest.fixture(scope="session")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A race of two lanes as a trace, how lanes look, and what is claimed about texts."""
    config = DecodeConfig(gamma=6, steps=3, temperature=1.0, max_new_tokens=40)
    lanes = {
        "vanilla": list(FakeDecoder().decode("Once", dataclasses.replace(config, drafter="none"))),
        "drafted": list(FakeDecoder().decode("Once", config)),
    }
    methods = {
        one.name: {"label": one.label, "short": one.short, "about": "", "colour": one.colour, "mark": one.mark}
        for one in METHODS
    }
    looks = {"methods": methods, "glyphs": draw.GLYPHS, "dashes": {use: dash for use, (dash, _) in draw.USES.items()}}
    path = tmp_path_factory.mktemp("node") / "fixture.json"
    shown = {"trace": dump_trace(lanes, title="t").decode(), "looks": looks, "exactness": EXACTNESS}
    path.write_text(json.dumps(shown), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "js").glob("*.test.mjs")), ids=lambda path: path.name)
def test_modules(path: Path, fixture: Path) -> None:
    done = run(NODE, path, SPECDIFF_FIXTURE=str(fixture))
    assert done.returncode == 0, done.stdout


# Types: the events are declared once, in Python, and every script is checked against them.


def test_what_javascript_shares_with_python_is_up_to_date() -> None:
    assert event_types.SHARED.read_text(encoding="utf-8") == event_types.shared(), "run python -m tests.event_types"


def test_types_hold(tmp_path: Path) -> None:
    """Every script against declarations of the events, without a network."""
    static = shutil.copytree(STATIC, tmp_path / "static")
    (static / "state" / event_types.FILE.name).write_text(event_types.declarations(), encoding="utf-8")
    own = sorted(path for path in static.rglob("*.js") if path.parent.name != "vendor")
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    words = (find_deno_bin(), "check", "--no-remote", "--no-npm", "--config", ROOT / "tests" / "js" / "deno.json")
    done = run(*words, *own, DENO_DIR=str(tmp_path / "cache"), DENO_NO_UPDATE_CHECK="1", **nowhere)
    assert done.returncode == 0, done.stdout


# Numbers: what Python and JavaScript both compute, after every round of every kind of run.

PROMPT = (3, 4, 5, 3, 4)  # ends as it began, so that there is something to copy
WORDS = [
    " a", "\\xe2\\x9c", "\\x93", " caf\\xc3", "\\xa9s", "\\xff", " \\xf0\\x9f", "\\x98", "\\x80",
    "\\xef\\xbb\\xbf", "\\x41", "é",
]  # fmt: skip


def lane(
    config: DecodeConfig,
    *,
    drafter: Drafter | None = None,
    controller: Auto | None = None,
    waits: float | None = 0.02,
    **more: Any,
) -> list[Event]:
    """One run of the production loop on a scripted target, framed as an engine does: header, words,
    waiting threads. No two looks at its clock are equally far apart."""
    pace = random.Random(str(config))
    ticks = itertools.accumulate(pace.uniform(1e-5, 3e-3) for _ in itertools.count())
    drafts = drafter or (VanillaDrafter() if config.drafter == "none" else good_drafter())
    clock = DeviceClock(torch.device("cpu"), tick=lambda: next(ticks))
    events = [*speculate(PROMPT, config, FakeTarget(), drafts, clock, controller=controller, **more)]
    end = events[-1]
    assert isinstance(end, Finished)
    waited = None if waits is None else end.seconds * waits
    header = RunStarted(
        config=config.to_dict(),
        prompt="",
        prompt_ids=PROMPT,
        models={"target": "scripted"},
        device="cpu",
        dtype="fp64",
        reason="",
        threads=1,
        versions={},
        grain="step",
        lossless=config.rule.lossless,
    )
    words = PiecesSeen(pieces={i: piece for i, piece in enumerate(WORDS) if i != 2})  # the text of one id is not known
    return [header, words, *events[:-1], msgspec.structs.replace(end, waited_seconds=waited)]


def race(**settings: Any) -> dict[str, list[Event]]:
    """Vanilla, and a run with ``settings``; both sample in the same way."""
    more = {
        name: settings.pop(name) for name in ("drafter", "controller", "waits", "ending", "detail") if name in settings
    }
    config = DecodeConfig(**{"max_new_tokens": 40, **settings})
    name = "prompt_lookup" if isinstance(more.get("drafter"), PromptLookupDrafter) else "block"
    own = dataclasses.replace(config, drafter=name)
    sampling = {name: settings[name] for name in ("temperature", "seed", "max_new_tokens") if name in settings}
    base = DecodeConfig(**{"max_new_tokens": 40, "drafter": "none", **sampling})
    return {BASELINE: lane(base, ending=more.get("ending")), "drafted": lane(own, **more)}


def auto(**settings: Any) -> dict[str, list[Event]]:
    """A run whose controller chooses."""
    config = DecodeConfig(auto=True, max_new_tokens=60, **settings)
    return race(
        auto=True, max_new_tokens=60, controller=Auto(config, lambda gamma, steps: min(gamma, steps)), **settings
    )


def stopped() -> dict[str, list[Event]]:
    """A run that was stopped while it drafted: its last draft is empty, its passes are counted."""
    asked = itertools.count()
    whole = race(gamma=4, steps=4)
    return {**whole, "drafted": lane(DecodeConfig(gamma=4, steps=4), ending=Ending(stopped=lambda: next(asked) > 21))}


def failed(baseline: int | None = None) -> dict[str, list[Event]]:
    """Lanes that ended by an error, one between two passes of a round and one before it began; one that was cut off,
    and one that never ran. ``baseline``: vanilla fails too, after so many events."""
    whole = race(gamma=4, temperature=1.0)
    events = whole["drafted"]
    end = Failed(code="memory", message="The device ran out of memory.", hint="Use a smaller γ.")
    middle = 1 + [i for i, event in enumerate(events) if isinstance(event, TargetScored)][4]
    base = whole[BASELINE] if baseline is None else [*whole[BASELINE][:baseline], end]
    lost = {"failed": [*events[:middle], end], "unloaded": [end], "cut": events[:middle], "empty": []}
    return {BASELINE: base, "drafted": events, **lost}


KINDS: dict[str, Callable[[], dict[str, list[Event]]]] = {
    "vanilla only": lambda: {BASELINE: lane(DecodeConfig(drafter="none", max_new_tokens=20))},
    "no vanilla": lambda: {"drafted": lane(DecodeConfig(gamma=4, max_new_tokens=20))},
    "window, greedy": lambda: race(gamma=6, steps=3),
    "window, sampled": lambda: race(gamma=6, steps=2, temperature=1.0, order="entropy"),
    "window, end of text": lambda: race(gamma=8, temperature=1.0, seed=2, ending=Ending([END])),
    "window, without detail": lambda: race(gamma=6, steps=3, temperature=1.0, detail=False),
    "tree, greedy": lambda: race(gamma=5, tree_nodes=12),
    "tree, sampled": lambda: race(gamma=5, tree_nodes=12, temperature=1.0),
    "drafts, self": lambda: race(gamma=5, num_drafts=4, temperature=1.0, selection="self"),
    "drafts, end of text": lambda: race(
        gamma=5, num_drafts=4, temperature=1.0, selection="multi_round", ending=Ending([END])
    ),
    "drafts, trie": lambda: race(gamma=5, num_drafts=4, temperature=1.0, selection="trie"),
    "drafts, multi-round": lambda: race(gamma=5, num_drafts=4, temperature=1.0, selection="multi_round"),
    "drafts, greedy target": lambda: race(gamma=4, num_drafts=3, selection="multi_round"),
    "match, greedy": lambda: race(gamma=5, rule="match"),
    "match, sampled": lambda: race(gamma=5, steps=2, rule="match", temperature=1.0),
    "delta": lambda: race(gamma=5, rule="delta", temperature=0.7),
    "naive, random order": lambda: race(gamma=6, steps=3, rule="naive", order="random", temperature=1.0),
    "auto, window": lambda: auto(gamma=10, steps=2, temperature=1.0),
    "auto, tree": lambda: auto(gamma=6, tree_nodes=24),
    "prompt lookup": lambda: race(gamma=6, drafter=PromptLookupDrafter("prompt_lookup")),
    "busy machine": lambda: race(gamma=4, waits=0.7),
    "waiting unknown": lambda: race(gamma=4, waits=None),
    "stopped": stopped,
    "failed": failed,
    "vanilla failed": lambda: failed(60),
    "vanilla not loaded": lambda: failed(0),
}


SHIPPED = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "assets").rglob("*.jsonl.gz"))
QUICK = [name for name in SHIPPED if name.startswith("assets/traces/")]
SLOW = [name for name in SHIPPED if name not in QUICK]


def spellings() -> list[list[str]]:
    """Random pieces: characters, their bytes spread over pieces, and other bytes."""
    draw = random.Random(1)
    raw = [f"\\x{byte:02x}" for byte in "é✓😀\ufeff".encode()]
    parts = [*raw, *raw, *raw, "\\xff", "\\xc0", "\\xed\\xa0\\x80", "\\XE2", " a", "é", "\\x41", "\\", ""]
    return [["".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(draw.randint(1, 8))] for _ in range(400)]


@pytest.fixture(scope="session")
def folded(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What JavaScript makes of every trace: one node process reads all that the selected tests compare."""
    folder = tmp_path_factory.mktemp("traces")
    selected = {getattr(item, "callspec", None) and item.callspec.params.get("name") for item in request.session.items}
    traces = {path: str(ROOT / path) for path in SHIPPED if path in selected}
    for number, kind in enumerate(KINDS):
        traces[kind] = str(folder / f"{number}.jsonl.gz")
        write_trace(traces[kind], made(kind))
    no_steps = [one.name for pair in PAIRS.values() for one in pair.drafters if not denoises(one.name)]
    asked = {
        "traces": traces,
        "spellings": spellings(),
        "crowded": CROWDED,
        "noSteps": no_steps,
        "formulas": [asked for asked, _ in formulas()],
        "out": str(folder / "out"),
    }
    names = folder / "names.json"
    names.write_text(json.dumps(asked), encoding="utf-8")
    done = run(NODE, ROOT / "tests" / "js" / "numbers.mjs", names)
    assert done.returncode == 0, done.stdout
    return json.loads((folder / "out").read_text(encoding="utf-8"))


@functools.cache
def made(kind: str) -> dict[str, list[Event]]:
    return KINDS[kind]()


class Prefixes:
    """Python's numbers of a lane after each of its rounds, and at any moment of its clock."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.whole = fold(events)
        self.times = list(itertools.accumulate(map(_known_at, events), max))
        self.ends = [i + 1 for i, event in enumerate(events) if isinstance(event, Committed)]
        parts = [fold(events[start:end]) for start, end in itertools.pairwise([0, *self.ends])]
        self.rounds = list(itertools.accumulate(parts))  # the fold of each prefix: merging is addition
        rest = fold(events[self.ends[-1] :]) if self.ends else self.whole
        assert not self.rounds or dataclasses.asdict(self.rounds[-1] + rest) == dataclasses.asdict(self.whole)

    def after(self, round: int) -> Metrics:
        """The run as if it had ended with this round."""
        return dataclasses.replace(self.rounds[round], seconds=self.times[self.ends[round] - 1])

    def at(self, t: float) -> Metrics:
        """The run as if it had ended at time ``t`` of its clock, or at its own end."""
        rounds = bisect_right(self.ends, bisect_right(self.times, t + 1e-9))
        seconds = min(t, self.times[-1]) if self.times else 0.0
        return dataclasses.replace(self.rounds[rounds - 1] if rounds else Metrics(), seconds=seconds)

    def alone(self) -> dict[str, Any]:
        """As ``numbers.mjs`` prints it."""
        header = header_of(self.events)
        pieces = {i: text for event in self.events if isinstance(event, PiecesSeen) for i, text in event.pieces.items()}
        ids = [token for event in self.events if isinstance(event, Committed) for token in event.ids]
        end, shown = final(self.events), staged(self.events)
        trees = any(isinstance(event, DraftReady) and event.parents for event in self.events)
        return {
            "rounds": [_sums(self.after(k)) | {"t": self.after(k).seconds} for k in range(len(self.rounds))],
            "end": _sums(self.whole)
            | {
                "seconds": self.whole.seconds if end else max(self.times, default=0),
                "seconds_by": self.whole.seconds_by,
                "waiting": self.whole.waiting,
                "alpha_at": list(self.whole.alpha_at),
                "complete": end is not None and end.reason != "stopped",
            },
            "depths": [
                depths(event.parents) for event in self.events if isinstance(event, DraftReady) and event.parents
            ],
            "staged": None if trees else shown[0].round if shown else -1,
            "shown": spell([pieces.get(token, f"<{token}>") for token in ids]),
            "settings": header and _words(header.config),
            "use": header and _use(header.config),
        }

    def against(self, base: Prefixes, summary: dict[str, Any]) -> dict[str, Any]:
        """As ``numbers.mjs`` prints it; ``summary`` is this lane's :func:`race_summary`."""
        rounds = []
        for k in range(len(self.rounds)):
            own = self.after(k)
            other = base.after(min(k, len(base.rounds) - 1)) if base.rounds else Metrics()
            slow, then = base.at(own.seconds), self.at(own.seconds)
            rounds.append(
                {
                    "equal_rounds": speed_up(other, own),
                    "then": speed_up(slow, then) if min(slow.committed, then.committed) >= ENOUGH else None,
                    "tokens": then.committed,
                    "share": then.committed / max(self.whole.committed, base.whole.committed, 1),
                }
            )
        ended = final(self.events) is not None and final(base.events) is not None
        predicted = predict(base.whole, self.whole)
        return {
            "rounds": rounds,
            "final": summary["speedup"],
            "trusted": not (ended and (self.whole.crowded or base.whole.crowded)),
            "predicted": predicted
            and {
                "tau": self.whole.tau,
                "passes": self.whole.nfe / self.whole.rounds,
                "cost": predicted.cost,
                "verify": predicted.verify,
                "value": predicted.speed_up,
            },
            "same": summary["same_text_as_vanilla"],
        }


def _known_at(event: Event) -> float:
    """When an event was known, if it says so."""
    if isinstance(event, Committed):
        return event.at
    if isinstance(event, Finished):
        return event.seconds
    span = getattr(event, "span", None)
    return span.start + span.seconds if span else 0.0


def _sums(total: Metrics) -> dict[str, Any]:
    names = ("rounds", "committed", "drafted", "tested", "accepted", "nfe", "tau", "alpha")
    lists = {"testedAt": list(total.tested_at), "acceptedAt": list(total.accepted_at)}
    return {name: getattr(total, name) for name in names} | {"calls": total.target_calls} | lists


def _words(config: dict[str, Any]) -> str:
    """The settings as the page writes them, with drafter, controller and a rule that makes a difference."""
    if config["drafter"] == "none":
        return "one target pass per token"
    words = settings_words(config).split(", ")
    further = [
        *(["auto"] if config["auto"] else []),
        *([config["rule"]] if config["temperature"] and config["rule"] != DecodeConfig().rule else []),
    ]
    return " · ".join([config["drafter"], *words, *further])


def _use(config: dict[str, Any]) -> str:
    """How the drafter is used, as benchmarks group settings."""
    return BenchSetting(**{name: config[name] for name in SWEPT}).use


@pytest.mark.parametrize("name", [*KINDS, *QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_both_languages_fold_a_trace_alike(name: str, folded: dict[str, Any]) -> None:
    lanes_read = made(name) if name in KINDS else read_trace(ROOT / name).lanes
    lanes = {own: Prefixes(events) for own, events in lanes_read.items()}
    base = lanes.get(BASELINE)
    summary = race_summary({own: [events] for own, events in lanes_read.items()})["lanes"] if base else {}
    ours = {
        "baseline": BASELINE if base else None,
        "lanes": {own: prefixes.alone() for own, prefixes in lanes.items()},
        "against": {own: lanes[own].against(base, summary[own]) for own in summary if own != BASELINE} if base else {},
    }
    differ = [*itertools.islice(differences(ours, folded["traces"][name]), 10)]
    assert not differ, "\n".join(differ)


def formulas() -> list[tuple[dict[str, Any], float]]:
    """Points that the page draws by a formula, and what the lessons say in their place."""

    def asked(stem: str, formula: str, values: dict[str, float], line: str, x: float | None) -> dict[str, Any]:
        return {"path": str(ASSETS / f"{stem}.json"), "formula": formula, "values": values, "line": line, "x": x}

    served = [
        (asked(COSTS, "serving", {"people": 1}, f"γ {gamma}", count), evidence.served(count, gamma))
        for gamma in (1, 2, 4)
        for count in (1, 2, evidence.SERVED)
    ]
    matched = [
        example
        for target in (0.0, 0.7, 1.0)
        for values in [{"target": target, "drafter": 0.5}]
        for example in (
            (asked(TEMPERATURES, "matched", values, "these sliders", 0.5), evidence.overlap(target, 0.5)),
            (asked(TEMPERATURES, "matched", values, "matched", None), evidence.matched(target)),
        )
    ]
    return [*served, *matched]


def test_the_lessons_compute_what_the_figures_draw(folded: dict[str, Any]) -> None:
    differ = [*differences([number for _, number in formulas()], folded["formulas"])]
    assert not differ, "\n".join(differ)


def test_python_and_javascript_spell_the_same_words(folded: dict[str, Any]) -> None:
    differ = [*itertools.islice(differences([spell(one) for one in spellings()], folded["spellings"]), 5)]
    assert not differ, "\n".join(differ)
