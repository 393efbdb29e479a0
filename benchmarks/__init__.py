"""The measurements behind BENCHMARKS.md: ``python -m benchmarks --help``."""
