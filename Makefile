# The same checks for people and CI. ./lab has the commands, so that make is optional.
.PHONY: check format bench

check:
	./lab test

format:
	./lab format

# Measure everything in README.md and BENCHMARKS.md, on a quiet machine. An interrupted run continues where it stopped.
bench:
	.venv/bin/python -m benchmarks suite
