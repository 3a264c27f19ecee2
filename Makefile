# Every target sets itself up: nothing but Python 3.11 or newer is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PIP := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-fast attack lint hooks bench clean

demo: $(VENV)/.installed
	$(BIN)/vaescope fondue dsprites-small --runs demo
	$(BIN)/vaescope fit dsprites-small --latents 12 --beta 1,16 --steps 400 --learning-rate 1e-3 --runs demo
	$(BIN)/python examples/report_runs.py demo

test: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# All but the tests marked slow: for work in progress.
test-fast: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "not slow"

# Mutated files, kills and full disks: ATTACK="--cases 500 --kind npy" limits it, ATTACK="--case npy:17" repeats a case.
ATTACK ?= --cases 10000

attack: $(VENV)/.developed
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack $(ATTACK)

hooks: $(VENV)/.developed
	$(BIN)/pre-commit install

lint: $(VENV)/.developed
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m vaescope.cli.manifest --check

bench: $(VENV)/.developed $(PEERS)/.installed
	$(BIN)/python benchmarks/training.py --peer $(PEERS)/bin/python
	$(BIN)/python benchmarks/stacking.py
	$(BIN)/python benchmarks/variable_types.py --items 10000000 --latents 50
	$(BIN)/python benchmarks/dimension.py
	$(BIN)/python benchmarks/similarity.py
	$(BIN)/python benchmarks/metrics.py --no-dci
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/import_time.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable .
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

clean:
	rm -rf $(VENV) $(PEERS) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
