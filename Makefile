# One set of checks for people and CI; ./lab holds the commands, so that a machine without make can run them too.
.PHONY: check format

check:
	./lab test

format:
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .
