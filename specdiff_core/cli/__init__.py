"""The command line, one file per command: ``python -m specdiff_core COMMAND``, installed as ``specdiff``.

Heavy imports wait until a command needs them, so that ``--help`` and ``replay`` start at once and without torch.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import NoReturn

import specdiff_core
from specdiff_core import proxies
from specdiff_core.checkpoints.hub import PROGRAM
from specdiff_core.cli import bench, decode, explore, pairs, race, replay, train
from specdiff_core.cli.options import say
from specdiff_core.cli.output import printing
from specdiff_core.schema.errors import SpecDiffError, did_you_mean

COMMANDS = (decode, race, explore, bench, replay, pairs, train)
ADDED = "specdiff.commands"
"""Entry point group for added commands, such as the page's: name, function of the arguments."""


class Parser(argparse.ArgumentParser):
    """A parser, also of subcommands, that suggests what a mistyped command or flag may mean."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        near = did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else ""
        super().error(f"{message}. {near}".strip() if near else message)


def build_parser() -> argparse.ArgumentParser:
    added = ", ".join(sorted(entry_points(group=ADDED).names))
    parser = Parser(
        prog=PROGRAM,
        description="Speculative decoding with masked-diffusion drafters.",
        epilog=f"Further commands of installed packages: {added}." if added else None,
    )
    parser.add_argument("--version", action="version", version=f"specdiff-lab {specdiff_core.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of this package, or one that an installed package adds; returns the exit
    status of :func:`call`."""
    words = list(sys.argv[1:] if argv is None else argv)
    for removed in proxies.drop_unusable():
        say(removed)
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
    args, unknown = parser.parse_known_args(words)
    if unknown:
        command = vars(args).get("parser", parser)
        flags = [flag for action in command._actions for flag in action.option_strings]
        near = [did_you_mean(word.partition("=")[0], flags) for word in unknown]
        command.error(f"unrecognized arguments: {' '.join(unknown)}. {''.join(dict.fromkeys(near))}".strip())
    args.argv, args.module = words, module
    try:
        with printing():
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
