"""``replay``: print a recorded trace, without any model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from specdiff_core.cli import options
from specdiff_core.cli.output import LEGEND, describe, marked_text, table
from specdiff_core.schema.methods import BASELINE, DRAFTED, METHODS
from specdiff_core.schema.summary import header_of, race_summary, run_summary
from specdiff_core.schema.trace import read_trace


def add_command(commands: Any) -> None:
    about = "Print a recorded trace; needs no model, no tokenizer and no torch."
    parser = options.add_parser(commands, "replay", run, about)
    parser.add_argument("file", metavar="FILE", type=Path, help="a .jsonl or .jsonl.gz trace")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Print every lane's marked text and numbers, then how the lanes compare."""
    trace = read_trace(args.file)
    summaries: dict[str, Any] = {lane: run_summary(events) for lane, events in trace.lanes.items()}
    if args.json:
        print(json.dumps({"title": trace.title, "schema": trace.schema, "lanes": summaries}, ensure_ascii=False))
        return
    print(trace.title or args.file.name)
    for lane, events in trace.lanes.items():
        header = header_of(events)
        print(f"\n{lane}")
        if header is not None:
            print(header.prompt, end="")
        print(marked_text(events) + "\n\n" + "\n".join(describe(summaries[lane])))
    print(f"\n{LEGEND}")
    comparable = {DRAFTED, *(method.name for method in METHODS)}
    lanes = {
        lane: [events]
        for lane, events in trace.lanes.items()
        if events and (lane in comparable or summaries[lane]["server"])
    }
    if BASELINE in lanes and len(lanes) > 1:
        print("\n" + "\n".join(table(race_summary(lanes))))
