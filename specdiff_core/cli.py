"""The command line: parses, runs, prints, and turns every known error into one line with a hint. Knows no algorithm.

Heavy imports wait until a command needs them, so that ``--help`` and ``replay`` start at once and without torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core import flags
from specdiff_core.bench.command import add_bench
from specdiff_core.config import DecodeConfig, check_prompt
from specdiff_core.errors import ConfigError, SpecDiffError
from specdiff_core.events import Committed, Event, PiecesSeen
from specdiff_core.methods import BASELINE, METHODS, PLAIN, race_lanes
from specdiff_core.metrics import fold
from specdiff_core.registry import PAIRS, DrafterSpec
from specdiff_core.summary import header_of, methods_summary, race_summary, run_summary
from specdiff_core.trace import read_trace, write_trace
from specdiff_core.train.command import add_train

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

SOURCE_MARKS = {"draft": ("", ""), "bonus": ("{", "}"), "residual": ("[", "]"), "target": ("[", "]")}
BUSY = "busy machine: threads had to wait for a processor, so a speed-up may be many times too large or too small"
LEGEND = "plain: accepted from the draft · [corrected by the target] · {the target's bonus after a full window}"


def build_parser() -> argparse.ArgumentParser:
    """Every command and flag."""
    parser = argparse.ArgumentParser(
        prog="python -m specdiff_core", description="Speculative decoding with masked-diffusion drafters."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        sub.set_defaults(run=run)
        return sub

    decode = command("decode", run_decode, "Decode one prompt.")
    race = command(
        "race",
        run_race,
        "Decode one prompt vanilla and drafted, or by several methods, one after the other, and compare.",
    )
    for sub in (decode, race):
        sub.add_argument("--prompt", required=True, metavar="TEXT", help="the text to continue")
        flags.add_settings(sub)
        flags.add_placement(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        sub.add_argument("--trace", metavar="FILE", type=Path, help="record every event (.jsonl or .jsonl.gz)")
    race.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="measure every lane N times, interleaved [default 1]"
    )
    race.add_argument(
        "--methods",
        metavar="LIST",
        help="race several methods, each with its own drafter and window, against vanilla: "
        + ",".join(method.name for method in METHODS if method.name != BASELINE),
    )
    add_bench(commands)
    replay = command("replay", run_replay, "Print a recorded trace; needs no model, no tokenizer and no torch.")
    replay.add_argument("file", metavar="FILE", type=Path, help="a .jsonl or .jsonl.gz trace")
    replay.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    pairs = command("pairs", run_pairs, "List the model pairs, and why one cannot be used here.")
    pairs.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_train(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit status: 0, 2 for an error that a person can act on, 130 after an interrupt, 141 where nobody reads.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without γ and τ still gets every result
    args = build_parser().parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    try:
        args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SpecDiffError as error:
        flags.say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        return 2
    except KeyboardInterrupt:
        flags.say("interrupted")
        return 130
    except BrokenPipeError:
        # The reader is gone (``| head``): give the interpreter somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        flags.say(f"error: {where}{error.strerror or error}\nhint: Choose another file, or make room for it.")
        return 2
    return 0


def run_decode(args: argparse.Namespace) -> None:
    """``decode``: one lane."""
    config = flags.read_settings(args)
    check_prompt(args.prompt)
    flags.check_target(args.trace, "trace")
    engine = flags.open_engine(args, config.pair, [config.drafter])
    run = list(engine.decode(args.prompt, config, narrate=args.trace is not None))
    summary = run_summary(run)
    print(args.prompt + plain(summary["text"]))
    print("\n" + "\n".join(describe(summary)))
    if args.trace is not None:
        write_trace(args.trace, {"vanilla" if config.drafter == "none" else "drafted": run}, title=args.prompt[:80])
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))


def run_race(args: argparse.Namespace) -> None:
    """``race``: all lanes, one after the other, so that none disturbs another; repeats change the order."""
    if args.methods is not None and (own := ({"drafter", *PLAIN} & vars(args).keys())):
        raise ConfigError(
            f"--methods and {flags.flag(min(own))} exclude each other.",
            field="methods",
            hint="A method has its own drafter and window; without --methods every setting is yours.",
        )
    config = flags.read_settings(args)
    check_prompt(args.prompt)
    if args.repeats < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")
    flags.check_target(args.trace, "trace")
    lanes = {BASELINE: dataclasses.replace(config, drafter="none"), "drafted": config}
    if args.methods is not None:
        lanes = race_lanes(config, [name.strip() for name in args.methods.split(",") if name.strip()])
        if len(lanes) < 2:
            raise ConfigError("A race needs a method beside vanilla.", field="methods", hint="Try --methods dflash.")
    engine = flags.open_engine(args, config.pair, [settings.drafter for settings in lanes.values()])
    runs = measure_lanes(engine, args.prompt, lanes, args.repeats, narrate=args.trace is not None)
    summary: dict[str, Any]
    if args.methods is not None:
        summary = methods_summary(runs, BASELINE)
        print("\n".join(table(summary)))
        order = [fold(run).seconds for run in runs[BASELINE]]
    else:
        summary = race_summary(runs[BASELINE], runs["drafted"])
        print(args.prompt + plain(summary["text"]))
        for lane in lanes:
            print(f"\n{lane}\n" + "\n".join(describe(summary[lane])))
        print("\n" + speed_line(summary, config.rule.value))
        order = summary["speedups"]
    if args.trace is not None:
        kept = middle(order) if len(order) == args.repeats else -1
        write_trace(args.trace, {lane: runs[lane][kept] for lane in lanes}, title=args.prompt[:80])
        if kept >= 0 and args.repeats > 1:
            what = "the speed-ups" if args.methods is None else "vanilla's times"
            print(f"{args.trace.name} holds repeat {kept + 1}, the one in the middle of {what}")
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))


def measure_lanes(
    engine: Engine, prompt: str, lanes: Mapping[str, DecodeConfig], repeats: int, *, narrate: bool
) -> dict[str, list[list[Event]]]:
    """Each lane's runs, interleaved: in their order, then in the opposite one."""
    for settings in lanes.values():  # first passes allocate and compile; they are not measured
        warm = dataclasses.replace(settings, max_new_tokens=min(16, settings.max_new_tokens))
        list(engine.decode(prompt, warm, narrate=False))
    runs: dict[str, list[list[Event]]] = {lane: [] for lane in lanes}
    for repeat in range(repeats):
        for lane in list(lanes)[:: 1 if repeat % 2 == 0 else -1]:
            flags.say(f"measuring {lane}, {repeat + 1} of {repeats}")
            runs[lane].append(list(engine.decode(prompt, lanes[lane], narrate=narrate)))
    return runs


def table(summary: dict[str, Any]) -> list[str]:
    """A race of several methods for people, one line each."""
    rows = [("method", "speed-up", "τ", "tokens/s", "text", "law")]
    for lane, told in summary["lanes"].items():
        speed, spread = "failed" if told["failed"] else "not defined" if told["config"] else "not run", ""
        if told["speedup"] is not None:
            speed = f"{told['speedup']:.2f}×"
            low, high = told["speedup_least"], told["speedup_largest"]
            spread = f" ({low:.2f}–{high:.2f})" if len(told["speedups"]) > 1 and lane != BASELINE else ""
        tau, rate = told["tau"], told["tokens_per_second"]
        rows.append(
            (
                lane,
                speed + spread,
                "not defined" if tau is None else f"{tau:.2f}",
                "not defined" if rate is None else f"{rate:.1f}",
                {True: "as vanilla", False: "another", None: ""}[told["same_text_as_vanilla"]],
                {True: "the target's", False: "NOT guaranteed", None: ""}[told["lossless"]],
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines + ([BUSY] if summary["quiet"] is False else [])


def middle(values: Sequence[float]) -> int:
    """Where the median stands (of two, the lower one)."""
    return sorted(range(len(values)), key=values.__getitem__)[(len(values) - 1) // 2]


def run_replay(args: argparse.Namespace) -> None:
    """``replay``: what a trace says, without any model."""
    trace = read_trace(args.file)
    summaries: dict[str, Any] = {}
    print(plain(trace.title or args.file.name))
    for lane, run in trace.lanes.items():
        summaries[lane] = run_summary(run)
        header = header_of(run)
        print(f"\n{plain(lane)}")
        if header is not None:
            print(plain(header.prompt), end="")
        print(plain(marked_text(run)) + "\n\n" + plain("\n".join(describe(summaries[lane]))))
    print(f"\n{LEGEND}")
    if {"vanilla", "drafted"} <= summaries.keys():
        race = race_summary([trace.lanes["vanilla"]], [trace.lanes["drafted"]])
        print(speed_line(race, race["drafted"]["rule"]))
    else:
        known = {method.name for method in METHODS}
        lanes = {lane: [run] for lane, run in trace.lanes.items() if run and lane in known}
        if BASELINE in lanes and len(lanes) > 1:
            print("\n" + "\n".join(table(methods_summary(lanes, BASELINE))))
    if args.json:
        print(json.dumps({"title": trace.title, "schema": trace.schema, "lanes": summaries}, ensure_ascii=False))


def run_pairs(args: argparse.Namespace) -> None:
    """``pairs``: the registry, and what can be used here."""
    from specdiff_core.availability import availability

    rows = []
    for pair in PAIRS.values():
        available, reason = availability(pair)
        here = {drafter.name: drafter_is_here(drafter) for drafter in pair.drafters}
        rows.append(
            {"name": pair.name, "label": pair.label, "available": available, "reason": reason, "drafters": here}
        )
        print(f"{pair.name}: {pair.label}")
        print(f"    {'available' if available else 'not available: ' + reason}")
        for drafter in pair.drafters:
            gone = "" if here[drafter.name] else " (its weights are not here)"
            print(f"    --drafter {drafter.name:6} {drafter.about}{gone}")
    if args.json:
        print(json.dumps({"pairs": rows}, ensure_ascii=False))


def drafter_is_here(drafter: DrafterSpec) -> bool:
    """Whether a drafter that ships with the project has its files; hub drafters are judged with their pair."""
    folder = Path(drafter.source)
    return not drafter.source or not folder.is_absolute() or (folder / "config.json").is_file()


def marked_text(run: Sequence[Event]) -> str:
    """The new text of a run, every token that the drafter did not supply in marks (see :data:`LEGEND`)."""
    pieces: dict[int, str] = {}
    told: list[str] = []
    drafting = any("draft" in event.sources for event in run if isinstance(event, Committed))
    for event in run:
        if isinstance(event, PiecesSeen):
            pieces |= event.pieces
        elif isinstance(event, Committed):
            for token, source in zip(event.ids, event.sources, strict=True):
                before, after = SOURCE_MARKS.get(source, ("?", "?")) if drafting else ("", "")
                told.append(f"{before}{pieces.get(token, f'<{token}>')}{after}")
    return "".join(told)


def describe(summary: dict[str, Any]) -> list[str]:
    """A run's numbers for people, one per line."""

    def number(value: float | None, form: str, unit: str) -> str:
        return "not defined" if value is None else f"{value:{form}} {unit}"

    parts = ", ".join(f"{name} {1000 * spent:.0f} ms" for name, spent in summary["seconds_by"].items())
    claim = "lossless" if summary["lossless"] else "NOT lossless"
    threads = f", {summary['threads']} threads" if summary["threads"] else ""
    waited = "" if summary["waiting"] is None else f"; threads waiting for a processor: {summary['waiting']:.2f}"
    ran = summary["config"]  # what ran: a window wider than the drafter's own is cut to it
    window = f", γ {ran.get('gamma')}, T {ran.get('steps')}" if summary["draft_nfe"] else ""
    return [
        f"  drafter        {summary['drafter']}{window}, rule {summary['rule']} ({claim})",
        f"  new tokens     {summary['new_tokens']} in {summary['rounds']} rounds, ended by {summary['finished']}",
        f"  decode clock   {summary['seconds']:.3f} s: {parts}",
        f"  speed          {number(summary['tokens_per_second'], '.1f', 'tokens/s')}",
        f"  τ              {number(summary['tau'], '.2f', 'tokens per round')}",
        f"  α              {number(summary['alpha'], '.3f', 'of tested tokens accepted')}",
        f"  passes         {summary['target_calls']} of the target, {summary['draft_nfe']} of the drafter",
        f"  measured on    {summary['device']}, {summary['dtype']}{threads}{waited}",
        *(f"  note           {fallback}" for fallback in summary["fallbacks"]),
    ]


def speed_line(summary: dict[str, Any], rule: str | None) -> str:
    """The result of a race in one sentence."""
    if summary["speedup"] is None:
        return "speed-up: not defined, a lane produced nothing"
    spread = "one measurement; --repeats N shows its spread"
    if summary["repeats"] > 1:
        low, high = summary["speedup_least"], summary["speedup_largest"]
        spread = f"{summary['repeats']} repeats: {low:.2f}× to {high:.2f}×, median {summary['speedup_median']:.2f}×"
    same = "the same text" if summary["same_text_as_vanilla"] else "another text"
    law = "the same law" if summary["lossless"] else "law NOT guaranteed"
    told = f"speed-up {summary['speedup']:.2f}× ({spread}); {same} as vanilla, {law} (rule {rule})"
    return told + (f"\n{BUSY}" if summary["quiet"] is False else "")


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are shown, line breaks and tabs kept."""
    return "".join(char if char in "\n\t" or char.isprintable() else repr(char)[1:-1] for char in text)
