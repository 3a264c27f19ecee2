# Every target sets itself up: nothing but Python 3.11 or newer is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
INTEGRATIONS := .venv-integrations
PIP := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start many interpreters: none compiles again what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs test test-fast test-integrations attack lint hooks bench clean

demo: $(VENV)/.installed
	$(BIN)/vaescope fondue dsprites-upright --init 10 --search interpolate --max-periods 2 --runs demo
	$(BIN)/vaescope fit dsprites-upright --latents 12 --beta 4 --steps 6000 --batch 16 --learning-rate 1e-3 --runs demo
	$(BIN)/python examples/report_runs.py demo

# The site with tutorials that are run, the API and a live report: open build/site/index.html. SITE=--browser checks its
# pages in chromium, after `make test` has installed what that needs.
docs: $(VENV)/.documented
	OMP_NUM_THREADS=2 $(BIN)/python tools/site --notebooks $(SITE)

# Three processes keep two cores busy while some of their tests wait for processes of their own.
test: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# All but the tests marked slow: for work in progress.
test-fast: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "not slow"

# Models of other packages, in an environment of their own.
test-integrations: $(INTEGRATIONS)/.installed
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest --numprocesses 2 --dist loadfile \
		tests/integrations_real

# Mutated files, kills and full disks: ATTACK="--cases 500 --kind npy" limits it, ATTACK="--case npy:17" repeats a case.
ATTACK ?= --cases 10000

attack: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack $(ATTACK)

hooks: $(VENV)/.developed
	$(BIN)/pre-commit install

lint: $(VENV)/.developed
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m vaescope.cli.manifest --check
	$(BIN)/python benchmarks/results.py --check

# Each stage takes less than ten minutes, with and without a GPU: `make bench STAGE=training`, `make bench STAGE="data runs"`.
# The raw output goes to BENCH_OUT: `make bench BENCH_OUT=benchmarks/results` keeps it and updates RESULTS.md.
STAGES := training nets first-step fondue search dimension metrics similarity memory data runs reports
STAGE ?= $(STAGES)
BENCH_OUT ?= bench-results
BENCH = mkdir -p $(BENCH_OUT) && $(BIN)/python benchmarks
GPU = $(shell command -v nvidia-smi)
DEVICE := $(if $(GPU),cuda,cpu)
KIND := $(if $(GPU),gpu,cpu)
FULL := $(if $(GPU),--data dsprites --precision bfloat16,--data dsprites-small --period 200 --seeds 2 --precision float32)

.PHONY: $(addprefix bench-,$(STAGES))

bench: $(addprefix bench-,$(STAGE))
	$(if $(filter benchmarks/results,$(BENCH_OUT)),$(BIN)/python benchmarks/results.py)

bench-training: $(VENV)/.developed $(PEERS)/.installed
	$(BENCH)/training.py --peer $(PEERS)/bin/python --json $(BENCH_OUT)/training-$(KIND).json
	$(BENCH)/stacking.py --json $(BENCH_OUT)/stacking.json
	$(BENCH)/monitor.py --json $(BENCH_OUT)/monitor.json

bench-nets: $(VENV)/.developed
	$(BENCH)/nets.py --device $(DEVICE) $(if $(GPU),--precision bfloat16 --steps 50,--steps 3 --rounds 5) --json $(BENCH_OUT)/nets-$(KIND).json

bench-first-step: $(VENV)/.developed
	$(BENCH)/first_step.py --device $(DEVICE) --json $(BENCH_OUT)/first-step-$(KIND).json

bench-fondue: $(VENV)/.developed
	$(BENCH)/fondue.py one $(FULL) --json $(BENCH_OUT)/fondue-$(KIND).json

bench-search: $(VENV)/.developed
	$(BENCH)/search.py --cases 'Gaussian of 4' 'Gaussian of 10' digits 'Gaussian of 10, beta 4' --json $(BENCH_OUT)/search.json
	$(BENCH)/factory_sizes.py --json $(BENCH_OUT)/factory-sizes.json

bench-dimension: $(VENV)/.developed
	$(BENCH)/dimension.py --json $(BENCH_OUT)/dimension.json

bench-metrics: $(VENV)/.developed
	$(BENCH)/metrics.py --no-dci --json $(BENCH_OUT)/metrics.json

bench-similarity: $(VENV)/.developed
	$(BENCH)/similarity.py --device $(DEVICE) --json $(BENCH_OUT)/similarity-$(KIND).json

bench-memory: $(VENV)/.developed
	$(BENCH)/memory.py --json $(BENCH_OUT)/memory.json
	$(BENCH)/variable_types.py --items 10000000 --latents 50 --json $(BENCH_OUT)/variable-types.json

bench-data: $(VENV)/.developed
	$(BENCH)/large_files.py --json $(BENCH_OUT)/large-files.json
	$(BENCH)/sparse_memory.py --json $(BENCH_OUT)/sparse-memory.json
	$(BENCH)/streaming.py --gigabytes 2 --json $(BENCH_OUT)/streaming.json

bench-runs: $(VENV)/.developed
	$(BENCH)/store.py --runs 3000 --repeats 3 --json $(BENCH_OUT)/store-3000.json
	$(BENCH)/import_time.py --json $(BENCH_OUT)/import-time.json

bench-reports: $(VENV)/.developed
	$(BENCH)/report.py --json $(BENCH_OUT)/report.json
	$(BENCH)/frames.py --json $(BENCH_OUT)/frames.json

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable .
	touch $@

$(VENV)/.documented: $(VENV)/.installed
	$(BIN)/python $(PIP) --editable '.[docs]'
	touch $@

$(VENV)/.developed: $(VENV)/.installed
	$(BIN)/python $(PIP) --editable '.[dev]'
	touch $@

# Peers live apart: they are measured, never depended on.
$(PEERS)/.installed: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint benchmarks/peers.txt pythae
	touch $@

# These packages need hundreds of others: the environment for development does without them.
$(INTEGRATIONS)/.installed: pyproject.toml constraints.txt tests/integrations_real/constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python $(PIP) torch==2.13.0
	$(INTEGRATIONS)/bin/python $(PIP) --constraint tests/integrations_real/constraints.txt --editable '.[lightning,onnx]' \
		pythae diffusers scvi-tools anndata mlflow tensorboard wandb \
		playwright pytest pytest-timeout pytest-xdist
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(INTEGRATIONS) demo build bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
