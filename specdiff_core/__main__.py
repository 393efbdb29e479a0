"""``python -m specdiff_core``, installed as ``specdiff`` (:mod:`specdiff_core.cli`)."""

import os
import signal
import sys
from typing import Any


def leave(*_: Any) -> None:
    """Leave at once. While modules are imported and weights are loaded, libraries may catch a KeyboardInterrupt."""
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(130)


def main() -> int:
    """Run a command. Until its engine is loaded, an interrupt ends the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # scripts' background processes ignore it
        signal.signal(signal.SIGINT, leave)
    from specdiff_core.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
