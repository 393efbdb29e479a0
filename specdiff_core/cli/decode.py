"""``decode``: one prompt, one lane."""

from __future__ import annotations

import argparse
import json
from typing import Any

from specdiff_core.cli import options
from specdiff_core.cli.output import describe
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.pairs import NONE
from specdiff_core.schema.settings import check_prompt
from specdiff_core.schema.summary import run_summary
from specdiff_core.schema.trace import write_trace


def add_command(commands: Any) -> None:
    parser = options.add_parser(commands, "decode", run, "Decode one prompt.")
    options.add_run(parser)


def run(args: argparse.Namespace) -> None:
    options.only(options.chosen(args)[1])
    config = options.read_settings(args)
    check_prompt(args.prompt)
    options.check_target(args.trace, "trace")
    options.note_cut(config)
    engine = options.open_engine(args, config.pair, [config.drafter])
    run = list(engine.decode(args.prompt, config, detail=args.trace is not None))
    summary = run_summary(run)
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        print(args.prompt + summary["text"] + "\n")
        print("\n".join(describe(summary)))
    if args.trace is not None:
        write_trace(args.trace, {BASELINE if config.drafter == NONE.name else DRAFTED: run}, title=args.prompt[:80])
