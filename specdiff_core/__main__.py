"""``python -m specdiff_core`` (:mod:`specdiff_core.cli`)."""

from specdiff_core.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
