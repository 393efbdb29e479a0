"""Our lanes against transformers' own loops (plain ``generate``, ``assistant_model``, prompt lookup
and DFlash), and where the target is a GGUF file, against llama.cpp: plain, drafting from n-grams, and with our
drafter.

Same weights, prompts and threads; greedy; one interleaved run. All ignore the end of the text and
write the same number of tokens. Our seconds are the decode clock, prefill included, and beside it
the wall clock from call to return, which times the others. Every text of the same arithmetic, ours
and transformers', is compared with that of our vanilla lane. llama.cpp multiplies the file's
four-bit numbers as they are, so its text may differ anywhere: where it drafts, it is compared with its own plain text.

``generate`` gets no logits processor, so nothing slows it: it may emit ids that our target
suppresses. The comparison of texts shows whether that ever matters.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch

from benchmarks import dflash, llama
from benchmarks.equality import as_stock, changed, generate
from benchmarks.tables import Tabled, bounds, differing, finish, flavour_counts
from specdiff_core.checkpoints import fetch
from specdiff_core.checkpoints.sources import is_gguf
from specdiff_core.cli.bench import add_measuring, begin, track
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.prompt_lookup import LONGEST_MATCH
from specdiff_core.engine import Engine
from specdiff_core.explorations.wording import plural
from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.runner import header, in_order
from specdiff_core.measure.statistics import Costs, costs, interval
from specdiff_core.measure.store import Measured, RowLog
from specdiff_core.measure.sweep import table
from specdiff_core.measure.ties import TIES, difference
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import DrafterSpec, PairSpec, find_pair
from specdiff_core.schema.published import FILES
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

USUAL = {"autoregressive": (4, 4), "prompt_lookup": (9, 1), "block": (9, 1)}
"""Drafter -> the γ and T of our lanes by default, if the pair has it."""


class Call(NamedTuple):
    """One way to call ``generate``."""

    kind: str  # plain, assisted, lookup or dflash; or llama.cpp
    name: str  # of its lane, but for drafter and γ
    confident: bool = False  # assisted: stop a draft below transformers' default confidence
    defaults: bool = False  # draft as many tokens as transformers or the drafter's config would
    drafts: str = ""  # llama.cpp: from n-grams, or with our drafter


CALLS = {
    "vanilla": (
        Call("plain", "generate"),
        Call("llama.cpp", "llama.cpp"),
        Call("llama.cpp", "llama.cpp, n-grams", drafts="ngrams"),
    ),
    # An assistant that drafts as we do; one that may end a draft early; and all its defaults.
    "autoregressive": (
        Call("assisted", "assistant_model={drafter} (γ={gamma})"),
        Call("assisted", "assistant_model={drafter} (γ={gamma}, default confidence)", confident=True),
        Call("assisted", "assistant_model={drafter} (defaults)", confident=True, defaults=True),
    ),
    "prompt_lookup": (Call("lookup", "prompt_lookup_num_tokens={gamma}"),),
    # A block of our γ, and the block that the drafter was released with.
    "block_diffusion": (
        Call("dflash", "dflash {drafter} (γ={gamma})"),
        Call("dflash", "dflash {drafter} (defaults)", defaults=True),
        Call("llama.cpp", "llama.cpp with {drafter} (γ={gamma})", drafts="ours"),
    ),
}
"""File of ``specdiff_core/drafters`` -> its counterparts, with options that could be their best."""
OTHERS = ("all", "transformers", "llama.cpp")
"""Whose lanes run beside ours."""


class Lane(NamedTuple):
    """One of our settings, or a call of theirs that gets the same drafter and γ."""

    ours: BenchSetting
    call: Call | None = None

    @property
    def name(self) -> str:
        """As rows and tables name it."""
        called = self.call.name if self.call else self.ours.name
        return called.format(drafter=self.ours.drafter, gamma=self.ours.gamma)

    @property
    def is_llama(self) -> bool:
        return self.call is not None and self.call.kind == "llama.cpp"

    @property
    def refusal(self) -> str:
        """Why the installed packages cannot run it; empty where they can.

        Its DFlash candidate generator asks an assistant for ``config.target_layer_ids``,
        ``block_size`` and ``mask_token_id``, and for a forward pass from ``noise_embeds`` and
        ``context_hidden_states``: the block drafter's network, with :mod:`benchmarks.dflash`, has
        them.
        """
        from transformers.generation import candidate_generator

        needed = "DFlashTokenCandidateGenerator"
        if self.is_llama and not llama.is_installed():
            return f"{self.name}: pip install {llama.PACKAGE}"
        if self.call is None or self.call.kind != "dflash" or hasattr(candidate_generator, needed):
            return ""
        module = candidate_generator.__name__
        return f"{self.name}: transformers {version('transformers')} has no {module}.{needed}, which came with 5.2x."


WARM_TOKENS = 16


Drafting = tuple[int, tuple[int, ...]]
"""Rounds that drafted, and accepted tokens by position."""


class Turn(Measured, kw_only=True):
    """Every lane once on one prompt."""

    KEY = ("prompt", "repeat")
    repeat: int
    lanes: dict[str, tuple[float, float, int]]  # seconds, seconds by wall clock, tokens
    differences: list[dict[str, Any]]  # lane, prompt, repeat, and where it differs from vanilla's
    drafting: dict[str, Drafting] = msgspec.field(default_factory=dict)


class Timed(NamedTuple):
    """One run of one lane."""

    costs: tuple[float, float, int]  # seconds, seconds by wall clock, tokens
    ids: tuple[int, ...]
    drafting: Drafting = (0, ())


@contextmanager
def prepared(engine: Engine, lane: Lane) -> Iterator[dict[str, Any]]:
    """The arguments of ``generate`` for a lane of theirs, valid within the body."""
    drafter: Any = engine.drafter(lane.ours.drafter)
    call, gamma = lane.call, lane.ours.gamma
    if call is None or call.kind == "plain":
        yield {}
    elif call.kind == "lookup":  # it looks for endings as long as ours does
        yield {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": LONGEST_MATCH}
    elif call.kind == "assisted":
        model = as_stock(engine, lane.ours.drafter)
        schedule, threshold = (None, None) if call.confident else ("constant", 0.0)  # None: left to transformers
        with changed(
            model,
            num_assistant_tokens=None if call.defaults else gamma,
            num_assistant_tokens_schedule=schedule,
            assistant_confidence_threshold=threshold,
        ):
            yield {"assistant_model": model}
    else:
        size = {} if call.defaults else {"block_size": gamma + 1}  # the anchor takes one slot
        drafter.network.forward = functools.partial(dflash.forward, drafter.network)
        with changed(drafter.network, "config", **size):
            yield {"assistant_model": drafter.network, "speculation_type": "dflash"}


def gguf_path(pair: PairSpec) -> Path | None:
    """The GGUF file of the target's weights; None: they have another format, or are not here."""
    if (file := FILES.get(pair.target)) is not None:
        return fetch.cached(file)
    return Path(pair.target) if is_gguf(pair.target) else None


def usual_settings(pair: PairSpec) -> list[str]:
    """Keys of the settings with a counterpart in transformers, in the order of :data:`USUAL`."""
    drafters = {spec.name: spec for spec in pair.drafters}
    chosen = ((name, *sizes) for name, sizes in USUAL.items() if name in drafters)
    return [f"{name}/{drafters[name].clamp_gamma(gamma)}/{steps}" for name, gamma, steps in chosen]


def lanes_of(
    pair: PairSpec, settings: Sequence[BenchSetting], from_anchor: Collection[str] = (), others: str = "all"
) -> tuple[tuple[Lane, ...], tuple[str, ...]]:
    """Every setting beside its counterparts in transformers; and why some of those are left out.

    Args:
        from_anchor: block drafters whose anchor's slot predicts too: transformers' loop reads
            drafts from the next slot on, which would be one token off.
        others: whose lanes run beside ours, one of :data:`OTHERS`.
    """
    lanes: dict[str, Lane] = {}
    left_out: dict[str, None] = {}
    for setting in settings:
        drafter = pair.drafter(setting.drafter)
        comparable = setting.shape == "window" and not setting.auto  # they have no trees and no K drafts
        calls = [call for call in CALLS.get(drafter.module, ()) if comparable and _fits(call, pair, drafter, others)]
        for lane in (Lane(setting), *(Lane(setting, call) for call in calls)):
            refusal = lane.refusal
            if lane.call and not lane.is_llama and setting.drafter in from_anchor:
                refusal = f"{lane.name}: transformers reads no draft from an anchor, and {setting.drafter} has one."
            if refusal:
                left_out[refusal] = None
            else:
                lanes.setdefault(lane.name, lane)  # defaults once, whatever our γ
    return tuple(lanes.values()), tuple(left_out)


def _fits(call: Call, pair: PairSpec, drafter: DrafterSpec, others: str) -> bool:
    """Whether a call can run the same drafter. transformers has no Markov heads."""
    if call.kind != "llama.cpp":
        return not drafter.chained and others != "llama.cpp"
    if others == "transformers" or gguf_path(pair) is None:
        return False
    return call.drafts != "ours" or bool(llama.kind_for(drafter))


def timed(engine: Engine, prompt: str, base: DecodeConfig, lane: Lane) -> Timed:
    """One run of one lane."""
    clock = DeviceClock(engine.pair.placement.device)
    engine.encode(prompt, base)  # the first rendering of a chat starts a process, off all clocks
    if lane.is_llama:
        return llama_cpp(engine, prompt, base, lane, clock)
    if lane.call is None:
        clock.start()
        events = list(engine.decode(prompt, lane.ours.config(base), detail=False))
        wall, last, sums = clock.finish(), final(events), fold(events)
        assert last is not None, "a decode ends with Finished or raises"
        drafting = (sums.tested_at[0], sums.accepted_at) if sums.tested_at else (0, ())
        return Timed((last.seconds, wall, len(last.ids)), last.ids, drafting)
    with prepared(engine, lane) as options:
        clock.start()
        ids = generate(engine, prompt, base, **options)
        seconds = clock.finish()
    return Timed((seconds, seconds, len(ids)), ids)


def llama_cpp(
    engine: Engine, prompt: str, base: DecodeConfig, lane: Lane, clock: DeviceClock, file: Path | None = None
) -> Timed:
    """llama.cpp's greedy decoding of the same ids, by its own clock and by the wall clock; ``file``: other weights than
    the pair's own."""
    pair, target = engine.pair.spec, file or gguf_path(engine.pair.spec)
    assert lane.call is not None and target is not None, "lanes_of checks both"
    drafts = llama.NGRAMS if lane.call.drafts else llama.PLAIN
    if lane.call.drafts == "ours":
        spec = pair.drafter(lane.ours.drafter)
        drafts = llama.Drafts(
            llama.kind_for(spec), llama.gguf_drafter(spec.source, spec.revision, target)[0], lane.ours.gamma
        )
    server = llama.serve(target, torch.get_num_threads(), drafts)
    request = {"prompt": list(engine.encode(prompt, base)), "n_predict": base.max_new_tokens, "temperature": 0}
    request |= {"ignore_eos": True, "cache_prompt": False, "return_tokens": True}
    before = llama.counts(server)
    clock.start()
    answer = llama.complete(server, request)
    wall, timings, ids = clock.finish(), answer["timings"], tuple(answer["tokens"])
    counted = llama.counts(server).since(before)
    seconds = (timings["prompt_ms"] + timings["predicted_ms"]) / 1000
    return Timed((seconds, wall, len(ids)), ids, (counted.drafts, counted.positions))


def one_turn(
    engine: Engine, prompt: Prompt, repeat: int, base: DecodeConfig, lanes: Sequence[Lane], turn: int = 0
) -> Turn:
    """Every lane once, in the order of that turn; their texts are compared after all have run."""
    runs = {lane.name: timed(engine, prompt.prompt, base, lane) for lane in in_order(lanes, turn)}
    differences = [
        {"lane": lane.name, "prompt": prompt.id, "repeat": repeat, **diff._asdict()}
        for lane in lanes
        for plain in [runs["llama.cpp" if lane.is_llama else VANILLA.name].ids]
        if (diff := difference(engine, prompt.prompt, runs[lane.name].ids, plain, base))
    ]
    return Turn(
        prompt=prompt.id,
        flavour=prompt.flavour,
        repeat=repeat,
        lanes={lane.name: runs[lane.name].costs for lane in lanes},
        differences=differences,
        drafting={lane.name: run.drafting for lane in lanes if (run := runs[lane.name]).drafting[0]},
    )


def measure_peers(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
    others: str = "all",
) -> Iterator[tuple[int, int, RowLog[Turn]]]:
    """Measure all lanes, turn about.

    Args:
        settings: the baseline first.
        others: as of :func:`lanes_of`.

    Yields:
        (turns done, turns in all, the log).
    """
    base = dataclasses.replace(base, drafter=VANILLA.drafter, temperature=0.0, ignore_eos=True)
    drafters = {setting.drafter: engine.drafter(setting.drafter) for setting in settings}
    from_anchor = {name for name, one in drafters.items() if isinstance(one, BlockDrafter) and not one.network.lead}
    lanes, left_out = lanes_of(engine.pair.spec, settings, from_anchor, others)
    about = [{"lane": lane.name, "ours": lane.ours.name, "theirs": lane.call is not None} for lane in lanes]
    extra = {"repeats": repeats, "lanes": about, "left_out": left_out}
    log = RowLog(path, header("peers", engine, prompts, settings, base, **extra), Turn)
    todo = {
        (prompt.id, repeat): (prompt, repeat, number)
        for number, (prompt, repeat) in enumerate(itertools.product(prompts, range(repeats)))
    }
    cold = True

    def measure(turn: tuple[Prompt, int, int]) -> Turn:
        nonlocal cold
        prompt, repeat, number = turn
        if cold:  # the others' first passes are slow, too
            one_turn(engine, prompt, repeat, dataclasses.replace(base, max_new_tokens=WARM_TOKENS), lanes)
            cold = False
        return one_turn(engine, prompt, repeat, base, lanes, number)

    yield from log.fill(todo, measure)


def drafted(runs: Iterable[Drafting]) -> dict[str, Any]:
    """The sums of some runs, and τ."""
    rounds, columns = zip(*runs, strict=True)
    positions = [sum(column) for column in itertools.zip_longest(*columns, fillvalue=0)]
    return {"drafts": sum(rounds), "positions": positions, "tau": 1 + sum(positions) / sum(rounds)}


def aggregate(turns: Sequence[Turn], lanes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tokens per second of every lane over all turns, and the ratio of ours to each lane of theirs: the mean of the
    flavours, as in a sweep.

    Args:
        lanes: as the header of the rows lists them.
    """
    groups: dict[str, list[str]] = {}
    for flavour, prompt in dict.fromkeys((turn.flavour, turn.prompt) for turn in turns):
        groups.setdefault(flavour, []).append(prompt)
    differences = [item for turn in turns for item in turn.differences]

    def of_lane(lane: str, clock: int) -> Costs:
        return costs((turn.prompt, turn.lanes[lane][clock], turn.lanes[lane][2]) for turn in turns)

    entries = []
    for lane in lanes:
        name, ours = lane["lane"], lane["ours"]
        ties = [item["tie"] for item in differences if item["lane"] == name]
        seconds, tokens = map(sum, zip(*of_lane(name, 0).values(), strict=True))
        compared = 0 if name == "llama.cpp" else len(turns)  # it is what its own lanes are compared with
        entry = {**lane, "tokens_per_second": tokens / seconds, "compared": compared, "ties": sum(ties)}
        entry["equal"] = compared - len(ties)
        if found := [turn.drafting[name] for turn in turns if name in turn.drafting]:
            entry |= drafted(found)
        if lane["theirs"]:
            decode, wall = (interval(of_lane(name, i), of_lane(ours, i), groups)["mean"] for i in (0, 1))
            entry |= {"ratio": decode.value, "low": decode.low, "high": decode.high, "ratio_wall": wall.value}
        entries.append(entry)
    others = [entry for entry in entries if entry["lane"] != VANILLA.name]
    return {
        **{name: sum(entry[name] for entry in others) for name in ("compared", "equal", "ties")},
        "turns": len(turns),
        "prompts": sum(map(len, groups.values())),
        "lanes": entries,
        "differences": differences,
    }


TRANSFORMERS_NOTE = (
    "`assistant_model` is our small drafter: with our γ and no confidence threshold, with our γ and transformers' "
    "default threshold, and with all of its defaults; `dflash` is transformers' loop with our block drafter. "
)
LLAMA_CPP_NOTE = (
    " llama.cpp decodes the same file and multiplies its four-bit numbers as they are. At "
    "one row that takes a fraction of the time of our products; at the rows of a verifying pass it "
    "does not. Where llama.cpp drafts, its text is compared with its own plain one."
)


class Peers(Tabled, kw_only=True, tag="peers"):
    """Our lanes against transformers' own loops."""

    prompts: dict[str, int]
    repeats: int
    left_out: list[str]  # why, lane by lane
    result: dict[str, Any]  # of :func:`aggregate`
    runs: dict[str, list[dict[str, tuple[float, float, int]]]] = msgspec.field(
        default_factory=dict
    )  # prompt -> repeats

    def tables(self) -> list[str]:
        numbers = self.result
        lanes = {entry["lane"]: entry for entry in numbers["lanes"]}
        rows, paired = [], set()
        for theirs in (lane for lane in lanes.values() if lane["theirs"]):
            sides = [lanes[theirs["ours"]], theirs]
            paired |= {lane["lane"] for lane in sides}
            row = [text for lane in sides for text in (lane["lane"], f"{lane['tokens_per_second']:.1f}")]
            between = bounds(theirs["low"], theirs["high"]) if numbers["prompts"] > 1 else "–"
            same = ", ".join(f"{lane['equal']}/{lane['compared']}" if lane["compared"] else "–" for lane in sides)
            rows.append([*row, f"{theirs['ratio']:.2f}×", between, f"{theirs['ratio_wall']:.2f}×", same])
        alone = [f"{name} {lane['tokens_per_second']:.1f}" for name, lane in lanes.items() if name not in paired]
        return [
            f"Greedy, {self.settings['max_new_tokens']} tokens, end of text ignored; prompts: "
            f"{flavour_counts(self.prompts)}; {plural(numbers['turns'], 'turn')}, each with every "
            "lane once, on the same loaded weights. Ours is timed by its decode clock, prefill "
            "included, `generate` from call to return; by wall clock, both are. "
            + (TRANSFORMERS_NOTE if "generate" in lanes else "")
            + f"Same text as our vanilla lane (ours, theirs): **{numbers['equal']} of "
            f"{numbers['compared']}, {numbers['ties']} differ at a tie** (two best tokens at most "
            f"{TIES[self.dtype]:g} apart in log "
            "p)." + (LLAMA_CPP_NOTE if "llama.cpp" in lanes else ""),
            table(
                ["ours", "tokens/s", "theirs", "tokens/s", "ratio", "95 % interval", "by wall clock", "same text"], rows
            ),
            f"Lanes without a counterpart, tokens/s: {', '.join(alone)}." if alone else "",
            f"Left out: {'; '.join(self.left_out)}." if self.left_out else "",
            differing((item["lane"], item) for item in numbers["differences"]),
        ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measuring(parser, repeats=True, by_default="those that transformers has too")
    parser.add_argument("--others", choices=OTHERS, default="all", help="whose lanes run beside ours [default all]")


def run(args: argparse.Namespace) -> None:
    what = begin(args, lambda base, drafters: usual_settings(find_pair(base.pair)))
    engine, prompts, settings, base, facts, path = what
    log = track(measure_peers(engine, prompts, settings, base, repeats=args.repeats, path=path, others=args.others))
    counts, numbers = Counter(prompt.flavour for prompt in prompts), aggregate(log.rows, log.header["lanes"])
    runs: dict[str, list[dict[str, tuple[float, float, int]]]] = defaultdict(list)
    for turn in log.rows:
        runs[turn.prompt].append(turn.lanes)
    finish(args, log.result(Peers, provenance=facts, prompts=counts, result=numbers, runs=runs))
