# A fresh machine needs python3 (3.11 or later) with its venv module, and make.  Everything else goes
# into .venv, once: a stamp file for each set of extras remembers what is installed there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := peffects tests examples benchmarks
# A process for each core; the tests of a file stay together, since they share what they compile.
WORKERS := --numprocesses auto --dist loadfile

# Some machines name a BLAS kernel in these two variables; numpy then is slower than it could be.
FAIR := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE

.PHONY: help demo test test-pythons check format lint types imports coverage fuzz mutations bench
.PHONY: accuracy clean
.NOTPARALLEL:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.installed-plot  ## fit a mixture of Gaussians to handwritten digits
	$(FAIR) $(BIN)/python examples/digits_mixture.py

test: $(VENV)/.installed-test  ## all tests, doctests, examples and README snippets
	$(BIN)/python -m pytest -q $(WORKERS)

test-pythons: $(VENV)/.installed-test  ## all tests under each Python from 3.11 on that there is
	$(BIN)/python tests/pythons.py $(VENV)/pythons $(WORKERS)

check: format lint types imports test  ## what CI runs

format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check $(CODE)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check $(CODE)

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports --no-logo

coverage: $(VENV)/.installed-dev  ## the tests again, measured; fails below the gate of setup.cfg
	$(BIN)/python -m pytest -q $(WORKERS) --cov --cov-report=term-missing:skip-covered

# MINUTES=30, START=number for the same programs from there on, SEED=kind:number for one of them.
MINUTES ?= 5
fuzz: $(VENV)/.installed-test  ## random programs on all ways, until MINUTES are over
	PYTHONPATH=.:tests $(BIN)/python -m fuzz.run --minutes $(MINUTES) \
	    $(if $(SEED),--seed $(SEED)) $(if $(START),--start $(START)) $(if $(KINDS),--kinds $(KINDS))

mutations: $(VENV)/.installed-test  ## changes of single lines, each of which a test must notice
	$(BIN)/python tests/mutations.py $(ONLY)

# With the peers of benchmarks/setup_peers.sh where somebody has made that environment.
bench: $(VENV)/.installed  ## benchmarks/bench_*.py, a table of ratios
	$(FAIR) $$(test -x .venv-peers/bin/python && echo .venv-peers || echo $(VENV))/bin/python benchmarks/run.py

accuracy: $(VENV)/.installed-test  ## how far sums are off, of up to 10^8 terms (LONGEST=1e8; 16 GB)
	LONGEST=$(or $(LONGEST),1e8) $(BIN)/python -m pytest -q tests/codegen/test_sums.py -k length

clean:  ## everything that make made
	rm -rf $(VENV) .venv-peers build dist *.egg-info .coverage .coverage.* out
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "peffects needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

$(VENV)/.installed: setup.cfg pyproject.toml | $(BIN)/python
	$(INSTALL) .
	touch $@

$(VENV)/.installed-plot: setup.cfg pyproject.toml | $(BIN)/python
	$(INSTALL) '.[plot]'
	touch $(VENV)/.installed $@

$(VENV)/.installed-test: setup.cfg pyproject.toml | $(BIN)/python
	$(INSTALL) '.[test]'
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: setup.cfg pyproject.toml | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $(VENV)/.installed $(VENV)/.installed-plot $(VENV)/.installed-test $@
