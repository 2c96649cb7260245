# The first `make run` or `make test` sets everything up; later ones start at once.

PYTHON ?= python3
PAIR   := qwen2.5-coder-1.5b
PROMPT := Write a Python function that merges two sorted lists, then explain it in one sentence.
ARGS   :=

BIN    := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Tests side by side, a file of them in one process; those on the real pair need all cores.
SPREAD := -m 'not model' -n logical --maxprocesses 4 --dist loadfile

# The prompt goes through the environment and is never expanded, so any character survives.
unexport PROMPT
export RUN_PROMPT := $(value PROMPT)

.PHONY: help setup run test check lint docs clean
.NOTPARALLEL:

help:
	@echo 'make run [PROMPT="..."] [ARGS="..."]   answer a prompt with the default pair of models'
	@echo 'make test                              run all tests; fetches the default pair (1.6 GB)'
	@echo 'make check                             lint, and run the tests that need no models'
	@echo 'make docs                              write the generated pages of docs/ anew'
	@echo 'make setup                             only make .venv; SPEC_CLI_BACKEND=cpu|cuda|metal'
	@echo 'make clean                             remove .venv and caches; built wheels are kept'

setup:
	@command -v "$(PYTHON)" > /dev/null || { \
		echo 'error: $(PYTHON) was not found: spec-cli needs Python 3.11 or newer' >&2; exit 1; }
	@"$(PYTHON)" scripts/bootstrap.py

run: setup
	@$(BIN)/spec-cli run $(ARGS) -- "$$RUN_PROMPT"

test: setup
	@$(BIN)/spec-cli pull $(PAIR)
	@$(PYTEST) $(SPREAD)
	@$(PYTEST) tests/models

lint: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy spec_cli scripts

check: lint
	@$(PYTEST) $(SPREAD)

docs: setup
	@$(BIN)/python scripts/settings_table.py
	@$(BIN)/python scripts/reference.py

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
