# The same checks for people and CI. ./lab has the commands, so that make is optional.
.PHONY: check format bench

check:
	./lab test

format:
	./lab format

# Measure everything in BENCHMARKS.md, on a quiet machine: make bench CORPUS=folder. Prompts come from the corpus' validation
# text. An interrupted run continues where it stopped.
CORPUS ?= corpus
bench:
	.venv/bin/python -m benchmarks suite --corpus $(CORPUS)
