"""The command line, one file per command: ``python -m specdiff_core COMMAND``, installed as ``specdiff``.

Heavy imports wait until a command needs them, so that ``--help`` and ``replay`` start at once and without torch.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from specdiff_core.cli import bench, decode, explore, pairs, race, replay, train
from specdiff_core.cli.options import say
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.wording import PROGRAM

COMMANDS = (decode, race, explore, bench, replay, pairs, train)
ADDED = "specdiff.commands"
"""Entry point group for added commands, such as the page's: name, function of the arguments."""


def build_parser() -> argparse.ArgumentParser:
    added = ", ".join(sorted(entry_points(group=ADDED).names))
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Speculative decoding with masked-diffusion drafters.",
        epilog=f"Further commands of installed packages: {added}." if added else None,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of this package, or one that an installed package adds; returns the exit
    status of :func:`call`."""
    words = list(sys.argv[1:] if argv is None else argv)
    ours = {module.__name__.rpartition(".")[2] for module in COMMANDS}
    for added in entry_points(group=ADDED, name=words[0]) if words and words[0] not in ours else ():
        status: int = added.load()(words[1:])
        return status
    return call(build_parser(), words)


def call(parser: argparse.ArgumentParser, words: Sequence[str], module: str = "specdiff_core") -> int:
    """Parse and run a command of ``python -m module``.

    Returns:
        the exit status: 0, 2 for an error that a person can act on, 130 after an interrupt, 141 for a closed pipe.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that cannot show γ and τ
    args = parser.parse_args(words)
    args.argv, args.module = words, module
    try:
        args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SpecDiffError as error:
        say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except BrokenPipeError:
        # The reader closed the pipe (``| head``): give the interpreter somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"error: {where}{error.strerror or error}\nhint: Choose another file, or make room for it.")
        return 2
    return 0
