"""The measurements behind BENCHMARKS.md, as scripts over ``specdiff_core.measure``: ``python -m benchmarks --help``."""
