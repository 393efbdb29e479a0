# One set of checks for people and CI; ./lab holds the commands, so that a machine without make can run them too.
.PHONY: check format bench

check:
	./lab test

format:
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

# Everything in BENCHMARKS.md and on the Compare tab, on a quiet machine: make bench CORPUS=folder. Prompts are cut from
# the corpus' validation text; run it again after an interruption.
CORPUS ?= corpus
bench:
	.venv/bin/python -m specdiff_core bench suite --corpus $(CORPUS)
