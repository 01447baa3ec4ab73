# The two commands most people need: `make run` and `make test`.
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PINNED := --constraint constraints.txt
JOBS ?= 4
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# The first Python on the PATH that is new enough; PYTHON=... names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help run test checks lint types imports modules pytest e2e bench docs constraints format clean

# Tests start hundreds of processes: what they import is compiled once, not once in each.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without a network the answer is due within half a minute: two hosts in a row, three attempts each.
run: export GPUCOST_HTTP__CONNECT_SECONDS ?= 3
run: $(VENV)/.run ## poll every provider that needs no key, then print the cheapest way to train BERT-Large
	@$(BIN)/gpucost poll --deadline 40s || test $$? -eq 6 # 6: nobody answered, the price book does
	@echo
	@$(BIN)/gpucost cheapest bert-large --gpu A100,H100,RTX4090

test: $(VENV)/.dev ## all checks and tests (about five minutes on two cores)
	@$(MAKE) --no-print-directory --jobs 2 checks
	@$(MAKE) --no-print-directory pytest

checks: types modules lint imports

lint: $(VENV)/.dev ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy, strict
	@$(BIN)/mypy

imports: $(VENV)/.dev ## the layers of the tree
	@$(BIN)/lint-imports

modules: $(VENV)/.dev # the tests' modules are rewritten once, not by each worker; what is wrong, pytest says
	@$(BIN)/pytest --collect-only --quiet -n 0 >/dev/null 2>&1 || true

pytest: $(VENV)/.dev ## the tests, on a real PostgreSQL that they start themselves
	@$(BIN)/pytest -n $(JOBS) -m 'not e2e'

e2e: $(VENV)/.dev ## crash, soak and load tests (longer)
	@$(BIN)/pytest -n 2 -m e2e

bench: $(VENV)/.bench ## ratios against named yardsticks, and how right estimated hours are
	@$(BIN)/python -m benchmarks.ingest
	@$(BIN)/python -m benchmarks.poll_all
	@$(BIN)/python -m benchmarks.history --scale 0.3
	@$(BIN)/python -m benchmarks.importing --spans 300000
	@$(BIN)/python -m benchmarks.cli
	@$(BIN)/python -m benchmarks.web
	@$(BIN)/python -m benchmarks.estimate
	@$(BIN)/python -m benchmarks.accuracy

docs: $(VENV)/.dev ## rewrite what comes of the code and data: pages on providers, models, metrics and the API, gpus.json
	@$(BIN)/python -m tools.providers_page
	@$(BIN)/python -m tools.models_page
	@$(BIN)/python -m tools.metrics_page
	@$(BIN)/python -m tools.api_page
	@$(BIN)/python -m tools.compile_gpus

format: $(VENV)/.dev ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove the environment and caches (never a database)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# Environments. A half-made one (no pip in it) is made again from scratch.
$(VENV)/.made:
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' || \
	  { echo "gpucost needs Python 3.11 or newer; name one with: make run PYTHON=python3.12" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || \
	  { echo "could not make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing gpucost into $(VENV)" >&2
	@$(PIP) install $(PINNED) --editable '.[local]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing what the tests need" >&2
	@$(PIP) install --upgrade 'pip>=25.1' # the first that knows dependency groups
	@$(PIP) install $(PINNED) --editable '.[local]' --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@$(PIP) install --group bench
	@touch $@

constraints: ## pin the newest releases that work together (constraints.txt)
	@$(PYTHON) -m venv --clear build/newest
	@build/newest/bin/python -m pip install --quiet --upgrade pip
	@build/newest/bin/python -m pip install --quiet '.[local]' --group dev
	@{ echo "# Versions the tests were run with: make constraints"; \
	  build/newest/bin/python -m pip freeze --exclude gpucost; } > constraints.txt
	@rm -rf build/newest
