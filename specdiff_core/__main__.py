"""``python -m specdiff_core``: hands over to :mod:`specdiff_core.cli`, which knows everything else."""

from specdiff_core.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
