"""Our lanes against transformers' own loops: plain ``generate``, ``assistant_model``, prompt lookup and DFlash.

Same loaded weights, prompts, dtype and threads; greedy; one interleaved run. All ignore the end of the text and write
the same number of tokens. Our seconds are the decode clock, prefill included, and beside it the wall clock from call to
return, which is how ``generate`` is timed. Every text, ours and theirs, is compared with that of our vanilla lane.

``generate`` gets no logits processor, so nothing slows it: ids that our target never says are not suppressed there. The
texts show whether that ever matters.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specdiff_core.bench.equality import TIE, changed, difference, generate
from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.report import Costs, costs, interval
from specdiff_core.bench.store import Measured, RowLog
from specdiff_core.bench.sweep import WARM_UP, header, run
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.drafters.block_diffusion import BlockDrafter
from specdiff_core.drafters.prompt_lookup import LONGEST
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.schema.pairs import PairSpec

USUAL = ("autoregressive/4/4", "prompt_lookup/9/1", "block/9/1")
"""Our lanes besides vanilla where nothing is asked for; those that the pair has."""


class Call(NamedTuple):
    """One way to call ``generate``."""

    kind: str  # plain, assisted, lookup or dflash
    name: str  # of its lane, but for drafter and γ
    confident: bool = False  # assisted: stop a draft below transformers' default confidence
    defaults: bool = False  # draft as many tokens as transformers, or the drafter's own config, would


CALLS = {
    "vanilla": (Call("plain", "generate"),),
    # An assistant with our γ that drafts as we do, to the end; one that may end a draft early; and all its defaults.
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
    ),
}
"""What transformers has for a file of ``specdiff_core/drafters``, with the options that could be its best."""


class Lane(NamedTuple):
    """One of our settings, or a call of theirs that gets the same drafter and γ and is compared with it."""

    ours: BenchSetting
    call: Call | None = None

    @property
    def name(self) -> str:
        """As rows and tables name it."""
        called = self.call.name if self.call else self.ours.name
        return called.format(drafter=self.ours.drafter, gamma=self.ours.gamma)

    @property
    def refusal(self) -> str:
        """Why the installed transformers cannot run it; empty where it can.

        Its DFlash candidate generator asks an assistant for ``config.target_layer_ids``, ``block_size`` and
        ``mask_token_id``, and for a forward pass from ``noise_embeds`` and ``context_hidden_states``:
        :class:`specdiff_core.models.dflash.DFlashDraftModel` has them.
        """
        from transformers.generation import candidate_generator

        needed = "DFlashTokenCandidateGenerator"
        if self.call is None or self.call.kind != "dflash" or hasattr(candidate_generator, needed):
            return ""
        module = candidate_generator.__name__
        return f"{self.name}: transformers {version('transformers')} has no {module}.{needed}, which came with 5.2x."


class Turn(Measured, kw_only=True):
    """All lanes once on one prompt."""

    KEY = ("prompt", "repeat")
    repeat: int  # −1 of a warm-up
    lanes: dict[str, tuple[float, float, int]]  # seconds, seconds by wall clock, tokens
    differences: list[dict[str, Any]]  # lane, prompt, repeat, and where its text parts from vanilla's


@contextmanager
def prepared(engine: Engine, lane: Lane) -> Iterator[dict[str, Any]]:
    """The arguments of ``generate`` for a lane of theirs, valid within the body."""
    drafter: Any = engine.drafter(lane.ours.drafter)
    call, gamma = lane.call, lane.ours.gamma
    if call is None or call.kind == "plain":
        yield {}
    elif call.kind == "lookup":  # it looks for endings as long as ours does
        yield {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": LONGEST}
    elif call.kind == "assisted":
        model = engine.stock(lane.ours.drafter)
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
        with changed(drafter.network, "config", **size):
            yield {"assistant_model": drafter.network, "speculation_type": "dflash"}


def usual_settings(pair: PairSpec) -> list[str]:
    """Keys of the settings that have a counterpart in transformers."""
    return [key for key in USUAL if any(key.startswith(f"{spec.name}/") for spec in pair.drafters)]


def lanes_of(
    pair: PairSpec, settings: Sequence[BenchSetting], from_anchor: Collection[str] = ()
) -> tuple[tuple[Lane, ...], tuple[str, ...]]:
    """Every setting with what transformers has for it, side by side; and why some of that is left out.

    Args:
        from_anchor: block drafters whose anchor's slot predicts, too: transformers' loop reads drafts from the slot
            behind it on, which would be one token off.
    """
    lanes: dict[str, Lane] = {}
    left_out: dict[str, None] = {}
    for setting in settings:
        drafter = pair.drafter(setting.drafter)
        # transformers has no trees and no K drafts, and would run a chained drafter without its head
        alike = setting.shape == "window" and not setting.auto and not drafter.chained
        calls = CALLS.get(drafter.module, ()) if alike else ()
        for lane in (Lane(setting), *(Lane(setting, call) for call in calls)):
            refusal = lane.refusal
            if lane.call and setting.drafter in from_anchor:
                refusal = f"{lane.name}: transformers reads no draft from an anchor, and {setting.drafter} has one."
            if refusal:
                left_out[refusal] = None
            else:
                lanes.setdefault(lane.name, lane)  # the defaults of one drafter are measured once, whatever our γ
    return tuple(lanes.values()), tuple(left_out)


def timed(
    engine: Engine, prompt: str, base: DecodeConfig, lane: Lane
) -> tuple[tuple[float, float, int], tuple[int, ...]]:
    """One run of one lane: its seconds, wall-clock seconds and tokens, and its new ids."""
    clock = DeviceClock(engine.pair.placement.device)
    if lane.call is None:
        clock.start()
        last = final(run(engine, prompt, lane.ours, base))
        wall = clock.finish()
        assert last is not None, "a decode ends with Finished or raises"
        return (last.seconds, wall, len(last.ids)), last.ids
    with prepared(engine, lane) as options:
        clock.start()
        ids = generate(engine, prompt, base, **options)
        seconds = clock.finish()
    return (seconds, seconds, len(ids)), ids


def one_turn(
    engine: Engine, prompt: Prompt, repeat: int, base: DecodeConfig, lanes: Sequence[Lane], first: int = 0
) -> Turn:
    """Every lane once, beginning with number ``first``; their texts are compared when all have run."""
    runs = {lane.name: timed(engine, prompt.prompt, base, lane) for lane in (*lanes[first:], *lanes[:first])}
    _, vanilla = runs[BASELINE.name]
    differences = [
        {"lane": lane.name, "prompt": prompt.id, "repeat": repeat, **found}
        for lane in lanes
        if (found := difference(engine, prompt.prompt, runs[lane.name][1], vanilla, base))
    ]
    timings = {lane.name: runs[lane.name][0] for lane in lanes}
    return Turn(prompt=prompt.id, flavour=prompt.flavour, repeat=repeat, lanes=timings, differences=differences)


def hf_baseline(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog[Turn]]]:
    """Measure all lanes, turn about.

    Args:
        settings: the baseline first.

    Yields:
        (turns done, turns in all, the log).
    """
    base = dataclasses.replace(base, drafter=BASELINE.drafter, temperature=0.0, ignore_eos=True)
    drafters = {setting.drafter: engine.drafter(setting.drafter) for setting in settings}
    from_anchor = {name for name, one in drafters.items() if isinstance(one, BlockDrafter) and not one.network.lead}
    lanes, left_out = lanes_of(engine.pair.spec, settings, from_anchor)
    about = [{"lane": lane.name, "ours": lane.ours.name, "theirs": lane.call is not None} for lane in lanes]
    others = {"repeats": repeats, "lanes": about, "left_out": left_out}
    log = RowLog(path, header("hf_baseline", engine, prompts, settings, base, **others), Turn)
    todo = {
        (prompt.id, repeat): (engine, prompt, repeat, base, lanes, number % len(lanes))
        for number, (prompt, repeat) in enumerate(itertools.product(prompts, range(repeats)))
    }
    short = dataclasses.replace(base, max_new_tokens=min(WARM_UP, base.max_new_tokens))
    yield from log.fill(todo, one_turn, lambda: [one_turn(engine, prompts[0], -1, short, lanes)])


def aggregate(turns: Sequence[Turn], lanes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tokens per second of every lane, and of every lane of theirs the ratio of ours to it, all turns pooled, with a
    bootstrap interval over prompts.

    Args:
        lanes: as the header of the rows lists them.
    """
    counted = [turn for turn in turns if turn.repeat >= 0]
    prompts = list(dict.fromkeys(turn.prompt for turn in counted))
    parted = [item for turn in counted for item in turn.differences]

    def of_lane(lane: str, clock: int) -> Costs:
        return costs((turn.prompt, turn.lanes[lane][clock], turn.lanes[lane][2]) for turn in counted)

    entries = []
    for lane in lanes:
        name, ours = lane["lane"], lane["ours"]
        ties = [item["tie"] for item in parted if item["lane"] == name]
        seconds, tokens = map(sum, zip(*of_lane(name, 0).values(), strict=True))
        entry = {**lane, "tokens_per_second": tokens / seconds, "compared": len(counted), "ties": sum(ties)}
        entry["equal"] = len(counted) - len(ties)
        if lane["theirs"]:
            decode, wall = (interval(of_lane(name, i), of_lane(ours, i), {"all": prompts})["all"] for i in (0, 1))
            entry |= {"ratio": decode.value, "low": decode.low, "high": decode.high, "ratio_wall": wall.value}
        entries.append(entry)
    others = [entry for entry in entries if entry["lane"] != BASELINE.name]
    return {
        **{name: sum(entry[name] for entry in others) for name in ("compared", "equal", "ties")},
        "turns": len(counted),
        "prompts": len(prompts),
        "tie_below": TIE,
        "lanes": entries,
        "differences": parted,
    }
