"""``python -m specdiff_core``, installed as ``specdiff`` (:mod:`specdiff_core.cli`)."""

import sys


def main() -> int:
    """Run a command; an interrupt ends it without a traceback also while modules are imported."""
    try:
        from specdiff_core.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
