"""Our lanes against transformers' own loops: same weights, prompts, dtype, threads; one interleaved run, greedy.

All ignore the end of the text and write the same number of tokens. Our seconds are the decode clock, prefill included,
and beside it the wall clock from call to return, which is how ``generate`` is timed. Every text, ours and theirs, is
held against our vanilla's.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.equality import TIE, difference
from specdiff_core.bench.markdown import cell_name
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.report import LEVEL, interval
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.bench.stock import Stock, asked, generate, refusal, ways
from specdiff_core.bench.sweep import describe_run, header, run
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.schema.pairs import PairSpec

USUAL = (("autoregressive", 4), ("prompt_lookup", 9), ("block", 9))
"""Our lanes besides vanilla and their γ, where nothing is said; those that the pair has."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One of ours, or one of theirs beside the lane of ours that it is held against."""

    ours: Cell
    theirs: Stock | None = None

    @property
    def key(self) -> str:
        """As it stands in rows and tables."""
        return self.theirs.label if self.theirs else cell_name(dataclasses.asdict(self.ours))


def own_cells(pair: PairSpec, asked_for: Sequence[tuple[str, int]] = ()) -> tuple[Cell, ...]:
    """Vanilla and the drafters asked for with their γ, cut to their windows; by default :data:`USUAL`.

    Raises:
        ConfigError: ``pair`` has no such drafter.
    """
    has = {spec.name for spec in pair.drafters}
    chosen = asked_for or [item for item in USUAL if item[0] in has]
    cells = [BASELINE]
    for name, gamma in chosen:
        spec = pair.drafter(name)
        if name != BASELINE.drafter:
            cells.append(Cell(name, spec.fit(gamma), spec.passes(spec.fit(gamma), 1)))
    return tuple(dict.fromkeys(cells))


def lanes_of(pair: PairSpec, cells: Sequence[Cell]) -> tuple[tuple[Lane, ...], tuple[str, ...]]:
    """Every cell with what transformers has for it, side by side; and why some of that is left out."""
    lanes: dict[str, Lane] = {}
    left_out: dict[str, None] = {}
    for cell in cells:
        drafter = pair.drafter(cell.drafter)
        found = (Stock(kind="plain"),) if cell == BASELINE else ways(drafter.module, cell.drafter, cell.gamma)
        if drafter.chained:  # transformers would run its network without the head: another drafter
            found = ()
        able = [stock for stock in found if not refusal(stock)]
        left_out |= dict.fromkeys(refusal(stock) for stock in found if refusal(stock))
        for lane in (Lane(cell), *(Lane(cell, stock) for stock in able)):
            lanes.setdefault(lane.key, lane)  # the defaults of one drafter are measured once, whatever our γ
    return tuple(lanes.values()), tuple(left_out)


def timed(engine: Engine, prompt: str, base: DecodeConfig, lane: Lane) -> tuple[Row, tuple[int, ...]]:
    """One run of one lane: seconds, wall-clock seconds and tokens; and the ids of the new tokens."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    if lane.theirs is not None:
        ids = engine.encode(prompt)
        with asked(engine, lane.theirs) as options:
            wait()
            began = time.perf_counter()
            said = generate(engine, ids, base.max_new_tokens, ignore_eos=True, **options)
            wait()
            seconds = time.perf_counter() - began
        return {"seconds": seconds, "wall": seconds, "tokens": len(said)}, said
    wait()
    began = time.perf_counter()
    events = run(engine, prompt, lane.ours, base)
    wait()
    wall = time.perf_counter() - began
    last, total = final(events), fold(events)
    assert last is not None, "a decode ends with Finished or raises"
    return {"seconds": total.seconds, "wall": wall, "tokens": total.committed}, last.ids


def one_turn(engine: Engine, prompt: str, base: DecodeConfig, lanes: Sequence[Lane], first: int = 0) -> Row:
    """Every lane once, beginning with number ``first``; their texts are compared when all have run."""
    runs = {lane.key: timed(engine, prompt, base, lane) for lane in (*lanes[first:], *lanes[:first])}
    reference = runs[Lane(BASELINE).key][1]
    differences = []
    for lane in lanes:
        if found := difference(engine, prompt, runs[lane.key][1], reference, BASELINE.config(base)):
            differences.append({"lane": lane.key, **found})
    return {"lanes": {lane.key: runs[lane.key][0] for lane in lanes}, "differences": differences}


def referee(
    engine: Engine,
    prompts: Sequence[Prompt],
    cells: Sequence[Cell],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog]]:
    """Measure all lanes, turn about.

    Args:
        cells: of :func:`own_cells`: the baseline first.

    Yields:
        (turns done, turns in all, the log); a row is one turn of all lanes.
    """
    base = dataclasses.replace(base, drafter=BASELINE.drafter, temperature=0.0, ignore_eos=True)
    lanes, left_out = lanes_of(engine.pair.spec, cells)
    started = describe_run(engine, prompts[0].prompt, base)
    about = [
        {"lane": lane.key, "ours": Lane(lane.ours).key, "drafter": lane.ours.drafter, "stock": lane.theirs is not None}
        for lane in lanes
    ]
    log = RowLog(
        path, header("referee", prompts, base, started, cells, repeats=repeats, lanes=about, left_out=list(left_out))
    )
    done = {(row["prompt"], row["repeat"]) for row in log.rows if not row["warmup"]}
    turns = [(prompt, repeat) for prompt in prompts for repeat in range(repeats)]
    todo = [(number, *turn) for number, turn in enumerate(turns) if (turn[0].id, turn[1]) not in done]
    yield len(done), len(turns), log
    if todo:
        short = dataclasses.replace(base, max_new_tokens=min(24, base.max_new_tokens))
        facts = {"prompt": "", "flavour": "", "repeat": -1, "warmup": True}
        log.append({**facts, **one_turn(engine, prompts[0].prompt, short, lanes)})
    for count, (number, prompt, repeat) in enumerate(todo, start=len(done) + 1):
        facts = {"prompt": prompt.id, "flavour": prompt.flavour, "repeat": repeat, "warmup": False}
        log.append({**facts, **one_turn(engine, prompt.prompt, base, lanes, number % len(lanes))})
        yield count, len(turns), log


def fold_referee(rows: Sequence[Row], lanes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tokens per second of every lane, and of every lane of theirs the ratio of ours to it, all turns pooled, with a
    bootstrap interval over prompts.

    Args:
        lanes: as the header of the rows lists them.
    """
    counted = [row for row in rows if not row["warmup"]]
    costs = {
        lane["lane"]: {clock: _costs(counted, lane["lane"], clock) for clock in ("seconds", "wall")} for lane in lanes
    }
    prompts = list(dict.fromkeys(row["prompt"] for row in counted))
    parted = [
        {"prompt": row["prompt"], "repeat": row["repeat"], **item} for row in counted for item in row["differences"]
    ]
    entries = []
    for lane in lanes:
        own = [item for item in parted if item["lane"] == lane["lane"]]
        entries.append(
            {
                **lane,
                "tokens_per_second": _rate(costs[lane["lane"]]["seconds"]),
                "wall_tokens_per_second": _rate(costs[lane["lane"]]["wall"]),
                "compared": len(counted),
                "equal": len(counted) - len(own),
                "ties": sum(item["tie"] for item in own),
            }
        )
    pairs = []
    for lane in lanes:
        if lane["stock"]:
            ours, theirs = costs[lane["ours"]], costs[lane["lane"]]
            value, low, high = interval(theirs["seconds"], ours["seconds"], {"all": prompts})["all"]
            pairs.append(
                {
                    "ours": lane["ours"],
                    "theirs": lane["lane"],
                    "drafter": lane["drafter"],
                    "ratio": value,
                    "low": low,
                    "high": high,
                    "level": LEVEL,
                    "ratio_wall": _rate(ours["wall"]) / _rate(theirs["wall"]),
                    "ratio_median": median(_ratio(row, lane["ours"], lane["lane"]) for row in counted),
                }
            )
    compared = [entry for entry in entries if entry["lane"] != Lane(BASELINE).key]
    sums = {name: sum(entry[name] for entry in compared) for name in ("compared", "equal", "ties")}
    about = {"turns": len(counted), "prompts": len(prompts), "tie_below": TIE}
    return {**sums, **about, "lanes": entries, "pairs": pairs, "differences": parted}


def _costs(rows: Sequence[Row], lane: str, clock: str) -> dict[str, tuple[float, int]]:
    """Prompt -> (seconds on ``clock``, tokens), repeats added up."""
    sums: dict[str, tuple[float, int]] = {}
    for row in rows:
        seconds, tokens = sums.get(row["prompt"], (0.0, 0))
        sums[row["prompt"]] = (seconds + row["lanes"][lane][clock], tokens + row["lanes"][lane]["tokens"])
    return sums


def _rate(costs: dict[str, tuple[float, int]]) -> float:
    """Tokens per second."""
    return sum(tokens for _, tokens in costs.values()) / sum(seconds for seconds, _ in costs.values())


def _ratio(row: Row, ours: str, theirs: str) -> float:
    """Of one turn."""
    left, right = row["lanes"][ours], row["lanes"][theirs]
    ratio: float = left["tokens"] / left["seconds"] / (right["tokens"] / right["seconds"])
    return ratio
