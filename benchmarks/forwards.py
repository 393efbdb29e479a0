"""How close the loop comes to its own limit: bare passes of every setting, beside the speed-up that a sweep measured.

The limit of a setting is τ·t₁ / (t_draft + t_verify): every second spent in a pass, none around it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from unittest.mock import patch

import msgspec
from torch import Tensor

from benchmarks.tables import Tabled, finish
from specdiff_core.cli.bench import add_measuring, begin
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.engine import Engine
from specdiff_core.explorations.figures import percent
from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.passes import PassCosts, PassTimes
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.runner import header
from specdiff_core.measure.store import read_result
from specdiff_core.measure.sweep import SettingResult, Sweep, table
from specdiff_core.models.kernels import Product
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

REPEATS = 40
SAME = ("device", "dtype", "threads", "target", "weights", "versions")
"""What a sweep and the bare passes must share to be compared."""


class Passes(BenchSetting, frozen=True, kw_only=True):
    """Median seconds of bare passes behind ``context`` tokens."""

    context: int
    target_one: float
    products: float  # part of target_one spent in matrix products; 0 if they are not frozen
    target_verify: float
    draft: float  # all passes of a draft, with the tokens that they reveal
    efficiency: dict[str, float] | None = None


class Forwards(Tabled, kw_only=True, tag="forwards"):
    """Bare passes of several settings."""

    entries: list[Passes]

    def tables(self) -> list[str]:
        rows = []
        for entry in self.entries:
            shares, limit = ["–"] * 3, entry.efficiency
            if limit:
                shares = [f"{limit['limit_speedup']:.2f}×", percent(limit["of_speedup"]), percent(limit["of_tokens"])]
            times = (entry.products, entry.target_one, entry.target_verify, entry.draft)
            rows.append([entry.name, *(f"{1000 * seconds:.2f}" for seconds in times), *shares])
        return [
            "### How close the loop is to its own limit",
            f"Medians behind a context of {self.entries[0].context} tokens, in milliseconds: one "
            "target pass of width 1 (t₁), its matrix products alone, a pass of width γ+1 "
            "(t_verify), and a draft with the reveal of its tokens (t_draft). The limit is "
            "τ·t₁/(t_draft + t_verify). Reached: measured speed-up over that limit, and measured "
            "tokens/s of rounds over τ/(t_draft + t_verify). More than 100 %: the machine was "
            "slower while bare passes were timed.",
            table(["setting", "products", "t₁", "t_verify", "t_draft", "limit", "of speed-up", "of tokens/s"], rows),
        ]


def efficiency(passes: Passes, entry: SettingResult, baseline: SettingResult) -> dict[str, float]:
    """The share of its own limit that a setting reached in a sweep.

    ``limit_speedup`` is τ·t₁ / (t_draft + t_verify); ``of_tokens`` compares tokens per second of
    rounds (without the prefill) with τ / (t_draft + t_verify), the stricter of the two. τ and the
    speed-up are those of all tokens together, not means of the flavours.
    """
    limit_tokens = entry.tau / (passes.draft + passes.target_verify)
    limit_speedup = limit_tokens * passes.target_one
    of_tokens = entry.new_tokens / (entry.seconds - entry.seconds_by["prefill"]) / limit_tokens
    of_speedup = entry.tokens_per_second / baseline.tokens_per_second / limit_speedup
    return {"limit_speedup": limit_speedup, "of_speedup": of_speedup, "of_tokens": of_tokens}


def product_seconds(engine: Engine, prompt: str, base: DecodeConfig) -> float:
    """Median seconds that a target pass of one row after ``prompt`` spends in its matrix products;
    0 if they are not frozen."""
    target, clock, spent = engine.target.start(), DeviceClock(engine.pair.placement.device), [0.0]
    plain = Product.__call__

    def timed(product: Product, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        clock.start()
        result = plain(product, rows, residual)
        spent[-1] += clock.finish()
        return result

    ids = engine.encode(prompt, base)
    target.read(ids[:-1])
    with patch.object(Product, "__call__", timed):
        for _ in range(REPEATS):
            spent.append(0.0)
            target.score([ids[-1]])
            target.rollback(1, ())
    return median(spent[2:])  # the first warms up


def pass_costs(
    engine: Engine, prompt: str, drafter_name: str, gammas: Sequence[int], *, tokens: int = 48, repeats: int = 9
) -> PassCosts:
    """The costs of an uninterrupted :class:`PassTimes`."""
    times = PassTimes(engine, drafter_name, gammas, tokens=tokens)
    for _ in times.rounds(prompt, repeats):
        pass
    return times.costs


def forwards(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    sweep: Sweep | None,
    provenance: Provenance,
) -> Forwards:
    """The bare passes of every setting, in the middle of a run after the first prompt.

    Args:
        settings: without the baseline.
        sweep: its speed-ups are compared with the limits.

    Raises:
        ConfigError: a setting cannot be timed so, or the sweep is of another machine, other models or settings.
    """
    specs = [find_pair(base.pair).drafter(setting.drafter) for setting in settings]
    plain = [setting.shape == "window" and not setting.auto for setting in settings]
    if not settings or not all(plain) or any(spec.drafting != "denoise" or spec.chained for spec in specs):
        message = "benchmarks forwards times windows of a fixed size that a denoiser fills from its marginals."
        hint = "Name at least one; leave out trees, K drafts, auto, the Markov head and other drafters."
        raise ConfigError(message, field="drafters", hint=hint)
    head = header("forwards", engine, prompts, settings, base)
    if sweep and (differing := [name for name in SAME if getattr(sweep, name) != head[name]]):
        hint = "Measure both on one machine, with the same models and settings."
        raise ConfigError(f"The sweep was measured with another {', '.join(differing)}.", field="sweep", hint=hint)
    windows: dict[str, list[int]] = {}
    for setting in settings:
        windows.setdefault(setting.drafter, []).append(setting.gamma)
    half = max(1, base.max_new_tokens // 2)
    costs = {
        drafter: pass_costs(engine, prompts[0].prompt, drafter, sorted({*gammas}), tokens=half, repeats=REPEATS)
        for drafter, gammas in windows.items()
    }
    products = product_seconds(engine, prompts[0].prompt, base)
    swept, entries = {entry.key: entry for entry in sweep.entries} if sweep else {}, []
    for setting in settings:
        cost = costs[setting.drafter]
        passes = Passes(
            **msgspec.structs.asdict(setting),
            context=cost.context,
            target_one=cost.target[1],
            products=products,
            target_verify=cost.target[setting.gamma + 1],
            draft=cost.drafting(setting.gamma, setting.steps),
        )
        if measured := swept.get(setting.key):
            passes = msgspec.structs.replace(passes, efficiency=efficiency(passes, measured, swept[VANILLA.key]))
        entries.append(passes)
    return msgspec.convert({**head, "provenance": provenance, "entries": entries}, Forwards)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measuring(parser)
    about = "a sweep whose speed-ups are compared with the limit"
    parser.add_argument("--sweep", type=Path, metavar="FILE", help=about)


def run(args: argparse.Namespace) -> None:
    stored = None if args.sweep is None else read_result(args.sweep, Sweep)
    (engine, prompts, (_, *settings), base), facts, _ = begin(args)
    finish(args, forwards(engine, prompts, settings, base, stored, facts))
