"""Vanilla decoding against transformers' own ``generate``: same weights, prompts, dtype, threads; one interleaved run.

Both ignore the end of the text and write the same number of tokens. ``generate`` gets no logits processor at all, so
nothing slows it; our lane's seconds are its decode clock, prefill included.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.bench.sweep import BASELINE, describe_run, header, measure
from specdiff_core.config import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


@contextmanager
def endless(model: Any) -> Iterator[None]:
    """``generate`` without an end-of-text id, for the length of the body."""
    kept = model.generation_config
    model.generation_config = copy.deepcopy(kept)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    try:
        yield
    finally:
        model.generation_config = kept


def generate(engine: Engine, ids: Sequence[int], tokens: int, *, ignore_eos: bool, **options: Any) -> tuple[int, ...]:
    """Greedy new tokens by transformers' own loop: ``tokens``, or as many as the context allows.

    The last one needs no place in it, as in our own loop.
    """
    model = engine.target.model
    count = min(tokens, engine.target.context - len(ids) + 1)
    given = torch.tensor([list(ids)], device=model.device)

    def call() -> torch.Tensor:
        out: torch.Tensor = model.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count, **options
        )
        return out

    if not ignore_eos:
        return tuple(call()[0, len(ids) :].tolist())
    with endless(model):
        return tuple(call()[0, len(ids) :].tolist())


def compare(
    engine: Engine, prompts: Sequence[Prompt], base: DecodeConfig, *, repeats: int, path: Path | None = None
) -> Iterator[tuple[int, int, RowLog]]:
    """Measure both, turn about. Yields (rows done, rows in all, the log)."""
    base = dataclasses.replace(base, drafter="none", temperature=0.0, ignore_eos=True)
    started = describe_run(engine, prompts[0].prompt, base)
    log = RowLog(path, header("generate", prompts, base, started, [BASELINE], repeats=repeats))
    done = {(row["prompt"], row["repeat"]) for row in log.rows if not row["warmup"]}
    todo = [(p, r) for p in prompts for r in range(repeats) if (p.id, r) not in done]
    total = len(done) + len(todo)
    yield len(done), total, log
    if todo:
        log.append({"prompt": "", "repeat": -1, "warmup": True, **_both(engine, prompts[0].prompt, base, False)})
    for count, (prompt, repeat) in enumerate(todo, start=len(done) + 1):
        row = _both(engine, prompt.prompt, base, first=count % 2 == 0)
        log.append({"prompt": prompt.id, "repeat": repeat, "warmup": False, **row})
        yield count, total, log


def _both(engine: Engine, prompt: str, base: DecodeConfig, first: bool) -> Row:
    """One turn of both; ``first``: transformers goes first."""
    row: Row = {}
    for stock in (first, not first):
        if not stock:
            ours = measure(engine, prompt, BASELINE, base)["metrics"]
            row |= {"seconds": ours["seconds"], "tokens": ours["committed"]}
            continue
        ids = engine.encode(prompt)
        wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
        wait()
        began = time.perf_counter()
        said = generate(engine, ids, base.max_new_tokens, ignore_eos=True)
        wait()
        row |= {"stock_seconds": time.perf_counter() - began, "stock_tokens": len(said)}
    return row


def fold_stock(rows: Sequence[Row]) -> dict[str, Any]:
    """Tokens per second of both over the whole run, and the median of the ratio turn by turn."""
    counted = [row for row in rows if not row["warmup"]]
    ours = sum(row["tokens"] for row in counted) / sum(row["seconds"] for row in counted)
    stock = sum(row["stock_tokens"] for row in counted) / sum(row["stock_seconds"] for row in counted)
    turns = [(r["tokens"] / r["seconds"]) / (r["stock_tokens"] / r["stock_seconds"]) for r in counted]
    return {
        "tokens_per_second": ours,
        "generate_tokens_per_second": stock,
        "ratio": ours / stock,
        "ratio_median": median(turns),
        "turns": len(turns),
    }
