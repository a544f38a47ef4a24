# make results     everything: environment, simulations, figures, tables, verdicts
# make test        the tests
# make test-long   the tests that take minutes: kills at random moments
# make live        the recorded live runs of experiments anew, in real time, about half an hour
# make docs       the documentation, into build/docs
# make measured   the verdicts that the documentation tells, from results/
# make check       formatting, lint, types, architecture

PYTHON ?= python3
CORES ?= 8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SNAKEMAKE_FLAGS ?=

.PHONY: results live test test-long docs measured check format install clean

install: $(READY)

# Python writes here without asking where else it may; a new environment is only called ready when it is whole.
$(READY): pyproject.toml constraints.txt
	@rm -f $(READY)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --config-settings editable_mode=compat --editable '.[dev]'
	@touch $(READY)

# Python keeps what it compiles, whatever the caller has set: each process would compile all modules anew.
results test: export PYTHONDONTWRITEBYTECODE =

results: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python workflow/unlock.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES) --logger asyncfl $(SNAKEMAKE_FLAGS)

live: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python workflow/record.py clock/truth --at-once 9
	OMP_NUM_THREADS=1 $(BIN)/python workflow/record.py clock/calibrated --at-once 1 --whole

test: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90

test-long: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n 2 -m long

docs: $(READY)
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "$(CURDIR)/build/docs/index.html"

measured: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m asyncfl.manual.record workflow/experiments results

check: $(READY)
	$(BIN)/ruff format --check asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/ruff check asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile workflow
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --lint

format: $(READY)
	$(BIN)/ruff format asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/ruff check --fix asyncfl snakemake_logger_plugin_asyncfl tests benchmarks workflow examples docs
	$(BIN)/snakefmt Snakefile workflow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
