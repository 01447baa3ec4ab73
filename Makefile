# The two commands most people need: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help run test lint types imports pytest e2e bench format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpucost needs Python 3.11 or newer; name one with: make run PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "could not make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PIP) install --upgrade pip

$(VENV)/.run: $(BIN)/python pyproject.toml
	@echo "installing gpucost into $(VENV)" >&2
	@$(PIP) install --editable '.[local]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing what the tests need" >&2
	@$(PIP) install --editable '.[local]' --group dev --constraint constraints.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@$(PIP) install --group bench
	@touch $@

run: $(VENV)/.run ## poll every provider that needs no key, then print the cheapest way to train BERT-Large
	@$(BIN)/gpucost poll --deadline 25 || true
	@echo
	@$(BIN)/gpucost cheapest bert-large --gpu A100,H100,RTX4090

test: lint types imports pytest ## all checks and tests (under 6 minutes)

lint: $(VENV)/.dev ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy, strict
	@$(BIN)/mypy

imports: $(VENV)/.dev ## the layers of the tree
	@$(BIN)/lint-imports

pytest: $(VENV)/.dev
	@$(BIN)/pytest -n 2 -m 'not e2e'

e2e: $(VENV)/.dev ## crash, soak and load tests (longer)
	@$(BIN)/pytest -m e2e

bench: $(VENV)/.bench ## ratios against named yardsticks
	@$(BIN)/python -m benchmarks.ingest
	@$(BIN)/python -m benchmarks.cli

format: $(VENV)/.dev ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove the environment and caches (never a database)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
