"""Which texts are equal: those of rule ``match`` and vanilla at the same seed, bit for bit the
logits behind their tokens, and vanilla's text and that of transformers' ``generate``.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from benchmarks.tables import Tabled, differing, finish
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.cli.bench import add_measuring, begin, track
from specdiff_core.engine import Engine
from specdiff_core.explorations.wording import listed
from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.prompts import Prompt, ranks
from specdiff_core.measure.runner import header
from specdiff_core.measure.store import Measured, RowLog
from specdiff_core.measure.ties import difference, first_difference
from specdiff_core.models.causal import load_stock
from specdiff_core.models.network import CausalLM
from specdiff_core.models.reader import ReaderSession, Scores
from specdiff_core.models.target import Target
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Rule
from specdiff_core.schema.summary import final

GENERATE = "generate"
"""Stands for transformers where others name a setting."""


@contextmanager
def recorded(target: Target) -> Iterator[list[Tensor]]:
    """Collect the logits of ``target`` behind each token that runs commit, ``[V]`` on the CPU."""
    logits: list[Tensor] = []
    start = target.start

    def recording(layers: Sequence[int] = ()) -> ReaderSession:
        run = start(layers)
        scored: list[Scores] = []
        score, rollback = run.score, run.rollback

        def scoring(*args: Any, **options: Any) -> Scores:
            scored[:] = [score(*args, **options)]
            return scored[0]

        def keep(count: int, rows: Sequence[int]) -> None:
            logits.extend(scored[0].logits[list(rows)].cpu())
            rollback(count, rows)

        vars(run).update(score=scoring, rollback=keep)
        return run

    with patch.object(target, "start", recording):
        yield logits


class EqualityRow(Measured, kw_only=True):
    """One prompt at one temperature, by every setting."""

    KEY = ("prompt", "temperature")
    temperature: float
    compared: list[str]  # keys of settings, and GENERATE
    tokens: int
    differences: list[dict[str, Any]]  # setting, prompt, temperature, and what difference() says
    bits: dict[
        str, tuple[int, int]
    ]  # key -> committed tokens whose logits differ from vanilla's in any bit, and of all


@contextmanager
def changed(model: Any, attribute: str = "generation_config", **values: Any) -> Iterator[None]:
    """Use a copy of a model's settings with other values inside the body."""
    original = getattr(model, attribute)
    altered = copy.deepcopy(original)
    for name, value in values.items():
        setattr(altered, name, value)
    setattr(model, attribute, altered)
    try:
        yield
    finally:
        setattr(model, attribute, original)


STOCK: WeakKeyDictionary[Engine, dict[str, Any]] = WeakKeyDictionary()
"""Engine -> the modules that :func:`as_stock` returned, by role."""


def as_stock(engine: Engine, role: str = "target") -> Any:
    """The weights of ``"target"``, or of an autoregressive drafter, in transformers' own module, as
    a reference. Loaded again, and kept, if this lab's network runs them."""
    models, pair = STOCK.setdefault(engine, {}), engine.pair
    if role not in models:
        drafter: Any = pair.drafters.get(role)
        models[role] = pair.model if role == "target" else drafter.reader.model
        if isinstance(models[role], CausalLM):
            spec = pair.spec
            source = (spec.target, spec.revision)
            if role != "target":
                source = (spec.drafter(role).source, spec.drafter(role).revision)
            models[role] = load_stock(resolve(*source), pair.placement.dtype, device=pair.placement.device, role=role)
    return models[role]


def generate(engine: Engine, prompt: str, config: DecodeConfig, **options: Any) -> tuple[int, ...]:
    """Greedy new ids by transformers' own loop, as many as the context allows; as in our loop, the
    last one needs no slot."""
    ids = engine.encode(prompt, config)
    model = as_stock(engine)
    inputs = torch.tensor([ids], device=model.device)
    count = min(config.max_new_tokens, engine.target.context - len(ids) + 1)
    endless: dict[str, Any] = {"eos_token_id": None, "pad_token_id": 0} if config.ignore_eos else {}
    with changed(model, **endless):
        out: torch.Tensor = model.generate(
            inputs, attention_mask=torch.ones_like(inputs), do_sample=False, max_new_tokens=count, **options
        )
    return tuple(out[0, len(ids) :].tolist())


def different_bits(
    text: Sequence[int], logits: Sequence[Tensor], vanilla: Sequence[int], expected: Sequence[Tensor]
) -> tuple[int, int]:
    """Of the tokens up to the first difference of two texts: how many have logits ``[V]`` that
    differ in any bit, and how many there are."""
    length = min(len(text), len(vanilla))
    same = first_difference(text[:length], vanilla[:length]) or length
    return sum(not torch.equal(a, b) for a, b in zip(logits[:same], expected[:same], strict=True)), same


def check_equality(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    temperatures: Sequence[float],
    *,
    generate_prompts: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog[EqualityRow]]]:
    """Compare every setting with vanilla on every prompt and temperature; the seed is the prompt's number.

    Args:
        settings: without the baseline.
        generate_prompts: so many prompts, of all flavours, are compared with ``generate(do_sample=False)`` as well.

    Yields:
        (prompts × temperatures done, in all, the log).
    """
    base = dataclasses.replace(base, rule=Rule.MATCH)
    with_generate = sorted(range(len(prompts)), key=ranks(prompts).__getitem__)[:generate_prompts]  # of every flavour

    def compare(number: int, prompt: Prompt, temperature: float) -> EqualityRow:
        shared = dataclasses.replace(base, temperature=temperature, seed=number)
        texts: dict[str, Sequence[int]] = {}
        logits: dict[str, list[Tensor]] = {}
        for setting in (VANILLA, *settings):
            with recorded(engine.target) as logits[setting.key]:
                last = final(engine.decode(prompt.prompt, setting.config(shared), detail=False, grain="total"))
            assert last is not None, "a decode ends with Finished or raises"
            texts[setting.key] = last.ids
        vanilla, expected = texts.pop(VANILLA.key), logits.pop(VANILLA.key)
        bits = {key: different_bits(texts[key], logits[key], vanilla, expected) for key in texts}
        if temperature == 0 and number in with_generate:
            suppress = list(engine.target.suppress) or None
            texts[GENERATE] = generate(engine, prompt.prompt, shared, suppress_tokens=suppress)
        differences = [
            {"setting": key, "prompt": prompt.id, "temperature": temperature, **diff._asdict()}
            for key, text in texts.items()
            if (diff := difference(engine, prompt.prompt, text, vanilla, shared))
        ]
        return EqualityRow(
            prompt=prompt.id,
            flavour=prompt.flavour,
            temperature=temperature,
            compared=list(texts),
            tokens=len(vanilla),
            differences=differences,
            bits=bits,
        )

    extra = {"temperatures": list(temperatures), "generate_prompts": generate_prompts}
    log = RowLog(path, header("equality", engine, prompts, settings, base, **extra), EqualityRow)
    todo = {(prompt.id, t): (number, prompt, t) for number, prompt in enumerate(prompts) for t in temperatures}
    yield from log.fill(todo, lambda run: compare(*run))


def aggregate(rows: Sequence[EqualityRow]) -> dict[str, Any]:
    """Comparisons, equal texts and different logits by setting and temperature; all differences."""
    counts = ("compared", "equal", "bits_compared", "bits_different")
    table: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        parted = {item["setting"] for item in row.differences}
        for key in row.compared:
            new = {"setting": key, "temperature": row.temperature, **dict.fromkeys(counts, 0)}
            entry = table.setdefault((key, row.temperature), new)
            different, compared = row.bits.get(key, (0, 0))
            increments = (1, int(key not in parted), compared, different)
            entry.update((name, entry[name] + value) for name, value in zip(counts, increments, strict=True))
    return {
        **{name: sum(entry[name] for entry in table.values()) for name in counts},
        "tokens": sum(row.tokens for row in rows),
        "entries": list(table.values()),
        "differences": [item for row in rows for item in row.differences],
    }


class Equality(Tabled, kw_only=True, tag="equality"):
    """Texts against vanilla's, token for token."""

    result: dict[str, Any]  # of :func:`aggregate`

    def tables(self) -> list[str]:
        numbers = self.result
        equal: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        bits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for entry in numbers["entries"]:
            name = "vanilla and generate()" if entry["setting"] == GENERATE else entry["setting"]
            for sums, counted in ((equal, ("equal", "compared")), (bits, ("bits_different", "bits_compared"))):
                sums[name] = [total + entry[field] for total, field in zip(sums[name], counted, strict=True)]
        temperatures = listed([f"{t:g}" for t in sorted({entry["temperature"] for entry in numbers["entries"]})])
        texts = ", ".join(f"{name} {same}/{compared}" for name, (same, compared) in equal.items())
        rounded = ", ".join(f"{name} {different} of {count}" for name, (different, count) in bits.items() if different)
        named = ((f"{item['setting']} at temperature {item['temperature']:g}", item) for item in numbers["differences"])
        return [
            f"Rule `match` against vanilla at the same seed ({self.dtype}; temperatures {temperatures}), and vanilla "
            f"against `generate(do_sample=False)`: {numbers['compared']} comparisons over {numbers['tokens']} vanilla "
            f"tokens, **{numbers['equal']} texts equal**. By drafter/γ/T/B/K/selection: {texts}. Committed tokens "
            "whose logits (the target's, over the whole vocabulary) differ from vanilla's in any bit: "
            f"{rounded or 'none'}{'; of the others none' if rounded else ''}.",
            differing(named),
        ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measuring(parser)
    parser.add_argument("--temperatures", default="0,0.7,1", metavar="LIST", help="[default 0,0.7,1]")
    about = "prompts that are compared with generate() too [default 100]"
    parser.add_argument("--generate-prompts", type=int, default=100, metavar="N", help=about)


def run(args: argparse.Namespace) -> None:
    temperatures = [SETTINGS["temperature"].read(value) for value in args.temperatures.split(",")]
    if (count := args.generate_prompts) < 0:
        raise ConfigError("--generate-prompts must not be negative.", field="generate_prompts", hint="0 leaves it out.")
    engine, prompts, (_, *settings), base, facts, path = begin(args)
    log = track(check_equality(engine, prompts, settings, base, temperatures, generate_prompts=count, path=path))
    finish(args, log.result(Equality, provenance=facts, result=aggregate(log.rows)))
