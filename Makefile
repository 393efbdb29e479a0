# One set of checks for people and CI; ./lab holds the commands, so that a machine without make can run them too.
.PHONY: check format

check:
	./lab test

format:
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

# Everything in BENCHMARKS.md, on a quiet machine: make bench CORPUS=folder (prompts come from its validation text);
# on a machine of another kind beside it: REPORT=BENCHMARKS-AMD.md
CORPUS ?= corpus
REPORT ?= BENCHMARKS.md
PY ?= .venv/bin/python
BENCH = $(PY) -m specdiff_core bench --prompts runs/bench/prompts.jsonl --max-new-tokens 96

# Every method, each with a few sizes; those that the page shows, on prompts of our own, because their races ship; K
# drafts where tokens are drawn; what must be equal to vanilla.
COMMA := ,
EMPTY :=
list = $(subst $(EMPTY) $(EMPTY),$(COMMA),$(strip $(1)))
CELLS = $(call list,block/4/1 block/9/1 block/16/1 block/16/1/auto block/9/1/9 block/9/1/16 block/16/1/24/auto \
	block_markov/4/1 block_markov/9/1 block_markov/16/1 block_markov/16/1/auto block_markov/9/1/9 \
	block_markov/12/1/12 block_markov/16/1/16 block_markov/16/1/20 block_markov/16/1/24/auto mdlm/4/1 mdlm/9/1 \
	mdlm/9/1/9 mdlm_streak/4/1 mdlm_streak/9/1 mdlm_streak/9/1/auto mdlm_streak/9/1/9 mdlm_streak/9/1/0/4/self \
	mdlm_streak/9/1/0/8/self mdlm_streak/9/1/0/8/trie autoregressive/2/2 autoregressive/3/3 autoregressive/4/4 \
	autoregressive/6/6 autoregressive/9/9/auto eagle/3/3 eagle/4/4 eagle/6/6 eagle/9/9/auto eagle/4/1/6 eagle/6/1/9 \
	eagle/6/1/16 prompt_lookup/9/1)
# Where tokens are drawn a run takes longer: fewer settings of each method.
WARM = $(call list,block/4/1 block/9/1 block/16/1/auto block/9/1/9 block_markov/4/1 block_markov/9/1 \
	block_markov/16/1/auto block_markov/9/1/9 block_markov/16/1/16 mdlm/4/1 mdlm/9/1/9 mdlm_streak/4/1 mdlm_streak/9/1 \
	mdlm_streak/9/1/auto mdlm_streak/9/1/0/8/self mdlm_streak/9/1/0/8/trie autoregressive/4/4 autoregressive/9/9/auto \
	eagle/4/4 eagle/9/9/auto eagle/4/1/6 prompt_lookup/9/1)
SHOWN = $(call list,block/9/1 block/16/1/auto block/9/1/9 block_markov/9/1 block_markov/16/1/16 mdlm/4/1 \
	mdlm_streak/4/1 mdlm_streak/9/1/0/4/self autoregressive/4/4 autoregressive/9/9/auto eagle/4/4 eagle/9/9/auto \
	eagle/4/1/6 prompt_lookup/9/1)
SEVERAL = $(call list,mdlm_streak/9/1/0/2/self mdlm_streak/9/1/0/16/self mdlm_streak/9/1/0/8/multi_round)
SELECTED = $(call list,mdlm_streak/9/1 mdlm_streak/9/1/0/2/self mdlm_streak/9/1/0/4/self mdlm_streak/9/1/0/8/self \
	mdlm_streak/9/1/0/16/self)
EQUAL = $(call list,block/4/1 block/16/4 block/9/1/12 block/8/1/0/4/self block/16/1/auto block_markov/9/1 \
	block_markov/16/4 block_markov/8/1/0/4/trie block_markov/16/1/24/auto mdlm/4/1 mdlm/16/4 \
	mdlm_streak/9/1 mdlm_streak/9/1/0/8/trie mdlm_streak/8/1/0/4/multi_round autoregressive/4/4 eagle/4/4 \
	eagle/6/1/12 prompt_lookup/9/1)

.PHONY: bench
bench:
	mkdir -p runs/bench
	$(PY) -m specdiff_core bench --make-prompts runs/bench/prompts.jsonl --corpus $(CORPUS) --per-flavour 10
	$(BENCH) --ignore-eos --repeats 2 --drafters none,mdlm,block --gamma 4,8,9,16 --steps 1,2 --json runs/bench/greedy.json
	$(BENCH) --ignore-eos --repeats 1 --cells $(CELLS) --traces runs/bench/traces-0 --json runs/bench/methods.json
	$(BENCH) --ignore-eos --repeats 1 --first 5 --temperature 0.7 --cells $(WARM) \
		--traces runs/bench/traces-0.7 --json runs/bench/temperature-0.7.json
	$(BENCH) --ignore-eos --repeats 1 --first 5 --temperature 1 --cells $(WARM),$(SEVERAL) \
		--traces runs/bench/traces-1 --json runs/bench/temperature-1.json
	$(BENCH) --ignore-eos --repeats 1 --first 5 --draft-temperature 1 --cells $(SELECTED) --json runs/bench/selection.json
	$(BENCH) --measure referee --repeats 1 --json runs/bench/referee.json
	$(BENCH) --measure forwards --gamma 4,8,9,16 --steps 1,2 --sweep runs/bench/greedy.json --json runs/bench/forwards.json
	$(PY) -m specdiff_core bench --make-prompts runs/bench/prompts-200.jsonl --corpus $(CORPUS) --per-flavour 50
	$(PY) -m specdiff_core bench --measure equality --prompts runs/bench/prompts-200.jsonl --cells $(EQUAL) \
		--dtype fp32 --max-new-tokens 24 --json runs/bench/equality.json
	$(PY) -m app.measure --starts 8 --repeats 6 --json runs/bench/page.json
	$(PY) -m specdiff_core bench --report $(REPORT) --from $(addprefix runs/bench/,$(addsuffix .json,\
		greedy methods temperature-0.7 temperature-1 selection referee forwards page equality))
	for t in 0 0.7 1; do $(PY) -m specdiff_core bench --max-new-tokens 96 --ignore-eos --repeats 1 --temperature $$t \
		--cells $(SHOWN) --traces runs/bench/shown-traces-$$t --json runs/bench/shown-$$t.json || exit 1; done
	$(PY) -m specdiff_core bench --showcase assets/compare --from $(foreach t,0 0.7 1,runs/bench/shown-$(t).json)
	cp runs/bench/selection.json assets/compare/selection.json
