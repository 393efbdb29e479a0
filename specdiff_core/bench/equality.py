"""The grid of equal texts: ``match`` against vanilla at the same seed, vanilla against transformers' ``generate``.

A mismatch is listed with the distance between the two best tokens at its first position: below :data:`TIE` it is a
tie that the rounding of differently shaped passes may turn; above, it is a bug. Knows no reports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.bench.stock import generate
from specdiff_core.bench.sweep import describe_run, header
from specdiff_core.maths.distributions import to_probs
from specdiff_core.maths.randomness import SharedGumbel
from specdiff_core.schema.settings import DecodeConfig, Rule
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

TIE = 1e-3
"""In units of log p (plus noise). fp32 passes of different widths differ by about 1e-5; bf16 by far more."""


def new_ids(engine: Engine, prompt: str, config: DecodeConfig) -> tuple[int, ...]:
    """The token ids of one run."""
    last = final(engine.decode(prompt, config, detail=False, grain="total"))
    assert last is not None, "a decode ends with Finished or raises"
    return last.ids


@torch.inference_mode()
def top_two(engine: Engine, ids: Sequence[int], config: DecodeConfig) -> tuple[tuple[int, int], float]:
    """The two best tokens after ``ids`` as vanilla ranks them (log p, plus the noise of that position), and how far
    apart they are."""
    run = engine.target.start()
    run.read(ids[:-1])
    logits = run.score(ids[-1:]).logits[0]
    if config.temperature == 0:
        ranked = logits.float().log_softmax(-1).clone()
        ranked[list(engine.target.suppress)] = -torch.inf
    else:
        law = to_probs(logits, config.sampling, engine.target.suppress).cpu()
        ranked = law.log() + SharedGumbel(config.seed).noise(len(ids), law.numel())
    best = ranked.topk(2)
    first, second = best.indices.tolist()
    return (first, second), float(best.values[0] - best.values[1])


def difference(
    engine: Engine, prompt: str, ours: Sequence[int], theirs: Sequence[int], config: DecodeConfig
) -> Row | None:
    """Where two texts part, and whether a tie explains it; None where they are equal."""
    if tuple(ours) == tuple(theirs):
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    best, margin = top_two(engine, [*engine.encode(prompt), *theirs[:place]], config)
    said = [list(ids)[place : place + 1] for ids in (ours, theirs)]
    tie = margin < TIE and sorted(x for one in said for x in one) == sorted(best)
    return {"token": place, "ours": said[0], "theirs": said[1], "margin": margin, "tie": tie}


def check_equality(
    engine: Engine,
    prompts: Sequence[Prompt],
    cells: Sequence[Cell],
    base: DecodeConfig,
    *,
    temperatures: Sequence[float],
    generate_prompts: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog]]:
    """Compare every cell with vanilla on every prompt and temperature; the seed is the prompt's number.

    Args:
        cells: without the baseline.
        generate_prompts: so many prompts are compared with ``generate(do_sample=False)`` as well.

    Yields:
        (prompts × temperatures done, in all, the log); a row holds the cells compared and the differences.
    """
    base = dataclasses.replace(base, rule=Rule.MATCH)
    started = describe_run(engine, prompts[0].prompt, base)
    others = {"temperatures": list(temperatures), "generate_prompts": generate_prompts}
    log = RowLog(path, header("equality", prompts, base, started, cells, **others))
    done = {(row["prompt"], row["temperature"]) for row in log.rows}
    todo = [(n, p, t) for n, p in enumerate(prompts) for t in temperatures if (p.id, t) not in done]
    total = len(done) + len(todo)
    stock = min(generate_prompts, len(prompts))
    with_generate = {i * len(prompts) // stock for i in range(stock)}  # of every flavour: they follow one another
    yield len(done), total, log
    for count, (number, prompt, temperature) in enumerate(todo, start=len(done) + 1):
        settings = dataclasses.replace(base, temperature=temperature, seed=number)
        vanilla = new_ids(engine, prompt.prompt, BASELINE.config(settings))
        differences: list[Row] = []
        for cell in cells:
            config = cell.config(settings)
            if found := difference(engine, prompt.prompt, new_ids(engine, prompt.prompt, config), vanilla, config):
                differences.append({"cell": cell.key, **found})
        with_stock = temperature == 0 and number in with_generate
        if with_stock and (found := _against_generate(engine, prompt.prompt, vanilla, settings)):
            differences.append({"cell": "generate", **found})
        log.append(
            {
                "prompt": prompt.id,
                "flavour": prompt.flavour,
                "temperature": temperature,
                "compared": [*(cell.key for cell in cells), *(["generate"] if with_stock else [])],
                "tokens": len(vanilla),
                "differences": differences,
            }
        )
        yield count, total, log


def _against_generate(engine: Engine, prompt: str, vanilla: Sequence[int], settings: DecodeConfig) -> Row | None:
    ids = engine.encode(prompt)
    options: dict[str, Any] = {"suppress_tokens": list(engine.target.suppress)} if engine.target.suppress else {}
    theirs = generate(engine, ids, settings.max_new_tokens, ignore_eos=settings.ignore_eos, **options)
    return difference(engine, prompt, vanilla, theirs, settings)


def fold_equality(rows: Sequence[Row]) -> dict[str, Any]:
    """Comparisons, equal ones, ties and unexplained differences, by cell and temperature; every difference listed."""
    table: dict[tuple[str, float], dict[str, Any]] = {}
    listed: list[Row] = []
    for row in rows:
        found = {item["cell"]: item for item in row["differences"]}
        for cell in row["compared"]:
            key = (cell, row["temperature"])
            entry = table.setdefault(
                key,
                {
                    "cell": cell,
                    "temperature": row["temperature"],
                    "compared": 0,
                    "equal": 0,
                    "ties": 0,
                    "unexplained": 0,
                },
            )
            entry["compared"] += 1
            outcome = "equal" if cell not in found else "ties" if found[cell]["tie"] else "unexplained"
            entry[outcome] += 1
        listed += [{"prompt": row["prompt"], "temperature": row["temperature"], **item} for item in row["differences"]]
    cells = list(table.values())
    sums = {name: sum(entry[name] for entry in cells) for name in ("compared", "equal", "ties", "unexplained")}
    return {
        **sums,
        "tie_below": TIE,
        "tokens": sum(row["tokens"] for row in rows),
        "cells": cells,
        "differences": listed,
    }
