"""Flags made from the settings, and the engine, for all commands. Imports torch only in calls.

Flags are not validated here: ``DecodeConfig`` does that, as for the page.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.own_pairs import OwnPair, find, register
from specdiff_core.schema.errors import ConfigError, printable
from specdiff_core.schema.fields import Field, fields_of, flag
from specdiff_core.schema.pairs import EMBEDDED, NONE
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.wording import values_words

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


def explain(field: Field, note: str = "") -> str:
    """The help of a flag: what it is, its values and its default."""
    notes = [] if field.kind is bool else [f"{values_words(field)} {field.unit}".strip() + note]
    notes += ["separated by commas"] if field.several else []
    default = ",".join(map(str, field.default)) if field.several else field.default
    if isinstance(default, Path) and default.is_absolute():
        default = short_path(default)
    notes += [] if default in (None, "") else [f"default {default}"]
    label = f"{field.named}. {field.help}" if field.label else field.help
    return f"{label} [{'; '.join(notes)}]".replace("%", "%%")


def add_field(parser: Any, field: Field, *, note: str = "") -> None:
    """Add the flag of a field; if it is absent, so is its value. A switch also takes a value or a ``--no-``."""
    options: dict[str, Any] = {"help": argparse.SUPPRESS if field.hidden else explain(field, note)}
    options |= {"default": argparse.SUPPRESS, "metavar": field.symbol or field.name.upper()}
    name = flag(field.name)
    if field.kind is bool:
        parser.add_argument(name, dest=field.name, nargs="?", const=True, **options)
        off: dict[str, Any] = {"action": "store_const", "const": False, "help": argparse.SUPPRESS}
        parser.add_argument(f"--no{name[1:]}", dest=field.name, default=argparse.SUPPRESS, **off)
    else:
        several: dict[str, Any] = {"nargs": "+", "action": "extend"} if field.several else {}
        several |= {"action": "append"} if field.lines else {}
        parser.add_argument(name, dest=field.name, **several, **options)


def add_settings(parser: argparse.ArgumentParser, kind: type = DecodeConfig, *, leave: Collection[str] = ()) -> None:
    """Add the flags of all fields of ``kind``, except those in ``leave``."""
    group = parser.add_argument_group("settings")
    for name, field in fields_of(kind).items():
        if name not in leave:
            add_field(group, field)


def given(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The values of the flags of ``kind`` that were given."""
    return {name: value for name, value in vars(args).items() if name in fields_of(kind)}


def add_parser(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], about: str
) -> argparse.ArgumentParser:
    """Add a subcommand with its function and description."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``decode`` and ``race``: prompt, settings, device, outputs."""
    parser.add_argument(
        "--prompt", required=True, metavar="TEXT", type=_prompt, help="the text to continue; - reads it"
    )
    add_settings(parser, leave=("drafter",))
    add_own_pair(parser, drafter=True)
    add_placement(parser)
    add_json(parser)
    about = "record every event (.jsonl or .jsonl.gz)"
    parser.add_argument("--trace", metavar="FILE", type=Path, help=about)


def _prompt(text: str) -> str:
    """The prompt of a flag; ``-`` stands for standard input."""
    return sys.stdin.read() if text == "-" else text


def note_cut(config: DecodeConfig) -> None:
    """Say if a drafter's window is shorter than γ."""
    most = find(config.pair).drafter(config.drafter).clamp_gamma(config.gamma)
    if most < config.gamma:
        say(f"γ is {most}, not {config.gamma}: {config.drafter} was trained for windows of {most}.")


OWN_FLAGS = ("target", "kind", "shift", "mask_id")


def add_own_pair(parser: argparse.ArgumentParser, *, drafter: bool = False) -> None:
    """Add flags for a pair of your own, in place of ``--pair``; ``drafter``: add ``--drafter`` too."""
    group = parser.add_argument_group("a pair of your own, in place of --pair")
    for name, field in fields_of(OwnPair).items():
        if name in OWN_FLAGS or (drafter and name == "drafter"):
            add_field(group, field)


def chosen(args: argparse.Namespace) -> tuple[str, tuple[str, ...]]:
    """The pair that the flags name, registered if it is one's own, and its drafters; by default its first."""
    if vars(args).get("target") is not None:
        spec, drafters = register(given(args, OwnPair))
        return spec.name, drafters
    spec = find(vars(args).get("pair") or EMBEDDED.name)
    words = fields_of(OwnPair)["drafter"].read(vars(args).get("drafter") or ())
    return spec.name, tuple(spec.drafter(word).name for word in words) or (spec.drafters[0].name,)


def only(drafters: Sequence[str]) -> str:
    """The one drafter of a command that takes one; raises ConfigError if there are several."""
    if len(drafters) > 1:
        what = f"One drafter drafts here, not {', '.join(drafters)}."
        raise ConfigError(what, field="drafter", hint="`race` and `bench sweep` take several.")
    return drafters[0]


def read_settings(args: argparse.Namespace) -> DecodeConfig:
    """The settings of the flags, with the first drafter."""
    pair, drafters = chosen(args)
    return DecodeConfig.parse({**given(args, DecodeConfig), "pair": pair, "drafter": drafters[0]})


def add_placement(parser: argparse.ArgumentParser) -> None:
    """Add flags for device, precision, context and threads."""
    group = parser.add_argument_group("device")
    group.add_argument("--device", default="auto", help="auto, cpu or cuda [default auto]")
    group.add_argument(
        "--dtype", default="auto", help="auto, fp32 or bf16 [default auto: fp32 on a CPU, or what the pair prefers]"
    )
    about = "context length of a run, up to the target's limit [default: see `pairs NAME`, or 4096]"
    group.add_argument("--context", type=int, metavar="TOKENS", help=about)
    about = "CPU threads [default: whichever number is fastest at loading; to train, torch's own choice]"
    group.add_argument("--threads", type=int, metavar="N", help=about)


def open_engine(args: argparse.Namespace, pair: str, drafters: Sequence[str]) -> Engine:
    """Load ``pair`` with ``drafters`` and the flags of ``add_placement``; progress goes to stderr."""
    spec = find(pair, args.context)
    for name in drafters:
        spec.drafter(name)  # reports a wrong name before anything is loaded
    say("loading …")
    from specdiff_core.engine import Engine
    from specdiff_core.models.device import set_threads

    set_threads(args.threads)
    names = tuple(dict.fromkeys((*drafters, NONE.name)))
    placement = {"device": args.device, "dtype": args.dtype, "context": args.context}
    engine = Engine.load(pair, drafters=names, progress=say, threads=args.threads, **placement)
    for name in drafters:
        engine.drafter(name)  # reports missing weights now, not during a run
    set_threads(engine.threads)  # of everything else in this process
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "leave":  # from now on there are results to keep
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return engine


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets; a second signal interrupts at once."""
    pressed = threading.Event()

    def stop(*_: Any) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("Stopping after this step, and keeping everything. Press Ctrl-C again to stop at once.")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_target(path: Path | None, name: str) -> None:
    """Create the folder of an output file, and fail early if it cannot be written."""
    if path is None:
        return
    if not path.name or path.is_dir():
        raise ConfigError(f"--{name} {str(path)!r} is not a file.", field=name, hint="Give a file name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    existed = path.exists()
    path.open("ab").close()
    if not existed:
        path.unlink()  # leave nothing behind if the work fails


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[..., None]]:
    """Yield a function of (steps done, steps in all, what runs) that moves a progress bar."""
    from tqdm.auto import tqdm

    with tqdm(unit=unit, dynamic_ncols=True) as bar:

        def show(done: int, total: int, doing: str = "") -> None:
            bar.n, bar.total = done, total
            bar.set_postfix_str(doing, refresh=False)
            bar.refresh()

        yield show


REPORT_EVERY = 10.0
"""Seconds between two lines about one download if they cannot overwrite each other."""
_download = {"reported": -REPORT_EVERY, "open": 0.0}


def say(message: str) -> None:
    """Print a line to stderr. On a terminal the lines of one download overwrite each other."""
    err, message, now = sys.stderr, printable(message), time.monotonic()
    passing = message.startswith("Downloading ")
    if err is None:  # closed by the parent process
        return
    if err.isatty():
        err.write(("\r\x1b[K" if _download["open"] else "") + message + ("" if passing else "\n"))
        err.flush()
        _download["open"] = float(passing)
    elif not passing or now - _download["reported"] >= REPORT_EVERY:
        err.write(message + "\n")
        _download["reported"] = now if passing else -REPORT_EVERY


def changes() -> Callable[[str], None]:
    """:func:`say`, for lines that differ from the one before."""
    last = ""

    def report(message: str) -> None:
        nonlocal last
        if message != last:
            say(message)
        last = message

    return report
