# One set of checks for people and CI; ./lab holds the commands, so that a machine without make can run them too.
.PHONY: check format

check:
	./lab test

format:
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

# Everything in BENCHMARKS.md, on a quiet machine: make bench CORPUS=folder (prompts come from its validation text)
CORPUS ?= corpus
PY ?= .venv/bin/python
BENCH = $(PY) -m specdiff_core bench --prompts runs/bench/prompts.jsonl --max-new-tokens 96

.PHONY: bench
bench:
	mkdir -p runs/bench
	$(PY) -m specdiff_core bench --make-prompts runs/bench/prompts.jsonl --corpus $(CORPUS) --per-flavour 10
	$(BENCH) --ignore-eos --repeats 2 --drafters none,mdlm,block --gamma 4,8,9,16 --steps 1,2 --json runs/bench/greedy.json
	$(BENCH) --ignore-eos --repeats 1 --drafters none,block,mdlm,mdlm_streak,autoregressive,prompt_lookup --gamma 4,9 --steps 1 \
		--nodes 0,9,16 --json runs/bench/methods.json
	$(BENCH) --ignore-eos --repeats 1 --temperature 1 --gamma 4,9 --steps 1 --json runs/bench/temperature-1.json
	$(BENCH) --measure referee --repeats 2 --json runs/bench/referee.json
	$(BENCH) --measure forwards --gamma 4,8,9,16 --steps 1,2 --sweep runs/bench/greedy.json --json runs/bench/forwards.json
	$(PY) -m specdiff_core bench --make-prompts runs/bench/prompts-200.jsonl --corpus $(CORPUS) --per-flavour 50
	$(PY) -m specdiff_core bench --measure equality --prompts runs/bench/prompts-200.jsonl --gamma 4,16 --steps 1,4 \
		--dtype fp32 --max-new-tokens 24 --json runs/bench/equality.json
	$(PY) -m app.measure --starts 8 --repeats 6 --json runs/bench/page.json
	$(PY) -m specdiff_core bench --report BENCHMARKS.md --from runs/bench/greedy.json runs/bench/methods.json \
		runs/bench/temperature-1.json \
		runs/bench/referee.json runs/bench/forwards.json runs/bench/page.json runs/bench/equality.json
