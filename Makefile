# make results    environment, simulations, figures, tables, verdicts
# make test       the tests
# make coverage   the tests, and that they reach 90 % of the lines: about twice the time
# make test-cpu   the tests that compare floats, on the least capable kernels of this CPU's libraries
# make test-long  the tests that take minutes: kills at random moments, the documentation, a wheel in an empty environment
# make check      formatting, lint, types, architecture
# make docs       the documentation, into build/docs
# make paper      the paper, into build/paper: HTML, LaTeX by pandoc, PDF by TeX or Chromium, where these are installed
# make publish    the full scale, experiment by experiment, into docs/results: hours; goes on where it was stopped
# make live       the recorded live runs of experiments anew, in real time, about half an hour

PYTHON ?= python3
CORES ?= 8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEVELOP := $(VENV)/.develop
SNAKEMAKE_FLAGS ?=
PUBLISH_FLAGS ?=
ONLY ?=

# Runs and tests share the cores as processes of one thread each, unless the caller sets another number of threads.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: results publish live test coverage test-cpu test-long docs paper check format install clean

install: $(READY)

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt \
  --config-settings editable_mode=compat --editable

# Half of an installation's time would be spent on compiling modules that are never imported (sympy, most of torch):
# those that the program imports are compiled by importing them. An environment is called ready when that works.
$(READY): pyproject.toml setup.py $(wildcard asyncfl/learning/pooled_*.[ch]) constraints.txt
	@rm -f $(READY) $(DEVELOP)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import asyncfl.api, asyncfl.cli, matplotlib.pyplot, pandas, snakemake.cli, torch"
	@touch $(READY)

# What only developers need: tests, types, documentation, a browser, TensorBoard.
$(DEVELOP): $(READY)
	$(INSTALL) '.[dev]'
	@touch $(DEVELOP)

# Python keeps what it compiles, whatever the caller has set: each process would compile all modules anew.
results publish test coverage test-cpu test-long: export PYTHONDONTWRITEBYTECODE =

results: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python workflow/unlock.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES) --logger asyncfl $(SNAKEMAKE_FLAGS)

publish: $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python workflow/publish.py --cores $(CORES) $(PUBLISH_FLAGS) $(ONLY)

live: $(READY)
	$(BIN)/python workflow/record.py clock/truth --at-once 9
	$(BIN)/python workflow/record.py clock/calibrated --at-once 1 --whole

test: $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 --dist worksteal

coverage: $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90

# Tests that compare floats made by torch, BLAS or NumPy, without vector instructions beyond SSE 4.1 where a library can
# be told so, and without compiled kernels.
FLOATS := client data defences extras/audit learning privacy results simulation threats
test-cpu: $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem \
	  NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" ASYNCFL_KERNELS=torch \
	  $(BIN)/python -m pytest -n 2 --dist worksteal $$(cd tests && grep -rlE 'approx\(|allclose|isclose' $(FLOATS) --include='test_*.py' | sed 's,^,tests/,')

test-long: $(DEVELOP)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 -m long -o faulthandler_timeout=1800

docs: $(DEVELOP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "$(CURDIR)/build/docs/index.html"

paper: $(DEVELOP)
	$(BIN)/python docs/paper/build.py

check: $(DEVELOP)
	$(BIN)/ruff format --check asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/ruff check asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --lint

format: $(DEVELOP)
	$(BIN)/ruff format asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/ruff check --fix asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/snakefmt Snakefile workflow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
