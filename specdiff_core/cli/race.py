"""``race``: decode one prompt in several lanes, on one clock."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from statistics import median_low
from typing import Any

from specdiff_core.cli import options
from specdiff_core.cli.output import describe, served, table
from specdiff_core.measure.race import check_repeats, race_repeatedly
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import flag
from specdiff_core.schema.methods import BASELINE, DRAFTED, METHODS, PLAIN, race_lanes, two_lanes
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import NONE
from specdiff_core.schema.settings import DecodeConfig, check_prompt
from specdiff_core.schema.summary import race_summary
from specdiff_core.schema.trace import write_trace


def add_command(commands: Any) -> None:
    about = "Decode one prompt with vanilla and with a drafter, or with several methods, on one clock; compare them."
    parser = options.add_parser(commands, "race", run, about)
    options.add_run(parser)
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="race N times [default 1]")
    parser.add_argument(
        "--methods",
        metavar="LIST",
        help="race several methods against vanilla, each with its own window, and with every --drafter that fits: "
        + ",".join(method.name for method in METHODS if method.name != BASELINE),
    )
    parser.add_argument(
        "--attach",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="add a running vLLM, SGLang, llama.cpp or OpenAI-compatible server as a lane, such as "
        "http://127.0.0.1:8000, with #MODEL if it serves several; repeat for more servers",
    )


def run(args: argparse.Namespace) -> None:
    """Decode all lanes on one clock."""
    config, lanes = _lanes(args)
    check_prompt(args.prompt)
    check_repeats(args.repeats)
    options.check_target(args.trace, "trace")
    servers: Mapping[str, Decoder] = {}
    if args.attach:
        from specdiff_core.attached.server import attach

        servers = attach(*args.attach)
    for lane in lanes.values():
        options.note_cut(lane)
    engine = options.open_engine(args, config.pair, [settings.drafter for settings in lanes.values()])
    with options.stopping() as stop:
        runs = race_repeatedly(
            engine,
            args.prompt,
            lanes | dict.fromkeys(servers, config),
            repeats=args.repeats,
            detail=args.trace is not None,
            stop=stop,
            progress=options.changes(),
            others=servers,
            rendered=engine.rendered(args.prompt, config) if servers else "",
        )
    if not runs:
        raise KeyboardInterrupt
    race = race_summary(runs)
    if args.json:
        print(json.dumps(race, ensure_ascii=False))
    else:
        show(args.prompt, race, [lane for lane in servers if lane in runs])
    if args.trace is not None:
        order = [fold(run).seconds for run in runs[BASELINE]]
        repeat = order.index(median_low(order))
        write_trace(args.trace, {lane: repeats[repeat] for lane, repeats in runs.items()}, title=args.prompt[:80])
        if len(order) > 1:
            options.say(f"{args.trace.name} holds repeat {repeat + 1}, in which vanilla took its median time")
    if stop.is_set():
        raise KeyboardInterrupt


def show(prompt: str, race: Mapping[str, Any], servers: Collection[str]) -> None:
    """Print a race: of two lanes the text and all numbers, of more a line each."""
    lanes = race["lanes"]
    if DRAFTED in lanes and not servers:
        print(prompt + lanes[DRAFTED]["text"])
        for lane, numbers in lanes.items():
            print(f"\n{lane}\n" + "\n".join(describe(numbers)))
        print()
    print("\n".join(table(dict(race))))
    for lane in servers:
        print(f"\n{lane}\n" + "\n".join(served(lanes[lane])))


def _lanes(args: argparse.Namespace) -> tuple[DecodeConfig, dict[str, DecodeConfig]]:
    if args.methods is not None and (conflicts := (PLAIN.keys() & vars(args).keys())):
        raise ConfigError(
            f"--methods and {flag(min(conflicts))} can't be combined.",
            field="methods",
            hint="A method sets its own window; to set it yourself, leave out --methods.",
        )
    _, drafters = options.chosen(args)
    config = options.read_settings(args)
    if args.methods is None and len(drafters) == 1:
        return config, {**two_lanes(config), DRAFTED: config}  # --drafter none: vanilla twice, which shows the noise
    if args.methods is None:
        vanilla = {BASELINE: replace(config, drafter=NONE.name)}
        return config, vanilla | {name: replace(config, drafter=name) for name in drafters}
    named = drafters if "drafter" in args else ()
    lanes = race_lanes(config, [name.strip() for name in args.methods.split(",") if name.strip()], named)
    if len(lanes) < 2:
        raise ConfigError("A race needs a method besides vanilla.", field="methods", hint="Try --methods dflash.")
    return config, lanes
