# Every target builds the environment it needs from Python >= 3.11 and a package index. `make help` lists them.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
# Errors only, and bytecode when a module is first imported rather than for a gigabyte of modules at once.
PIP_INSTALL := -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt

RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
FLOWER := $(VENV)/.installed-flower
DOCS := $(VENV)/.installed-docs
RAY := $(VENV)/.installed-ray
BENCH := $(BENCH_VENV)/.installed
PINS := pyproject.toml constraints.txt
QUIET_FLOWER := FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1

.DEFAULT_GOAL := help
.PHONY: help demo reproduce test coverage test-variants test-slow test-integration test-browser test-faults test-mutants test-flower-inprocess test-flower test-flower-faults lint format docs sections pictures bench bench-theory bench-report dist clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  options: PYTHON=python3.12 (which Python), ARGS='...' (more arguments for the command)"

demo: $(RUNTIME) ## train a few strategies on a small fleet and write a report under runs/
	$(BIN)/turnout run $(ARGS)

reproduce: $(RUNTIME) ## check every claim of the papers in its quick size (under half an hour on 2 cores)
	$(BIN)/turnout reproduce --all --quick $(ARGS)

test: $(DEV) ## run the tests, but for those that the next targets run
	$(BIN)/python -m pytest -q -n auto $(ARGS)

coverage: $(FLOWER) ## run the tests and those of the Flower adapter, and print which share of the lines of src they run
	rm -f .coverage
	$(BIN)/python -m pytest -q -n auto --cov=turnout --cov-report= $(ARGS)
	$(QUIET_FLOWER) $(BIN)/python -m pytest -q -n auto -m 'flower and not integration' --cov=turnout --cov-report= --cov-append tests/flower $(ARGS)
	@printf 'Lines of src that the tests run, in percent: ' && $(BIN)/coverage report --format=total

test-variants: $(DEV) ## run the contracts and the golden runs of strategies in further settings
	$(BIN)/python -m pytest -q -n auto -m variant $(ARGS)

test-slow: $(DEV) ## run the tests that take minutes
	$(BIN)/python -m pytest -q -m slow $(ARGS)

test-integration: $(DEV) ## run the tests that need processes or data beside the project
	$(BIN)/python -m pytest -q -m integration $(ARGS)

test-browser: $(DEV) $(DOCS) ## run the tests that need a headless Chromium
	$(BIN)/python -m pytest -q -m browser $(ARGS)

test-faults: $(DEV) ## run the whole campaign of faults: kills, full disks, flipped bits, fuzzed files (many minutes)
	$(BIN)/python -m pytest -q -s -m faults tests/faults $(ARGS)

test-mutants: $(DEV) ## change theory and strategies one operator at a time, and list what no test notices (hours)
	$(BIN)/python tests/mutation.py theory strategies $(ARGS)

test-flower-inprocess: $(FLOWER) ## run the tests of the Flower adapter that need neither nodes nor Ray
	$(QUIET_FLOWER) $(BIN)/python -m pytest -q -n auto -m 'flower and not integration' tests/flower $(ARGS)

test-flower: $(RAY) ## run all tests of the Flower adapter, on real processes and on Ray too (many minutes)
	$(QUIET_FLOWER) $(BIN)/python -m pytest -q -m 'not browser' tests/flower $(ARGS)

test-flower-faults: $(FLOWER) ## kill, stop and restart the processes of a Flower fleet at random (half an hour)
	$(QUIET_FLOWER) $(BIN)/python -m pytest -q -s -m integration tests/flower/test_campaign.py $(ARGS)

lint: $(FLOWER) ## check style, types and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/codespell

format: $(DEV) ## rewrite the code in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS) ## build the documentation as a site that needs no network, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q $(ARGS)
	@echo "Open site/index.html"

sections: $(RUNTIME) ## rewrite the parts of README and docs that come from stored results
	$(BIN)/python docs/sections.py

pictures: $(RUNTIME) ## draw the pictures of the documentation
	$(BIN)/python docs/pictures.py

bench: $(BENCH) ## measure the simulator's speed beside a loop in PyTorch
	$(BENCH_VENV)/bin/python benchmarks/simulator.py $(ARGS)

bench-theory: $(RUNTIME) ## measure the audit, the theory, the reading of logs and the recognition of worlds (many minutes)
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/theory.py
	$(BIN)/python benchmarks/diagnose.py
	$(BIN)/python benchmarks/recognition.py

bench-report: $(RUNTIME) ## measure how long a large report takes to write, and how smoothly it opens
	$(BIN)/python benchmarks/report.py $(ARGS)

dist: $(DEV) ## build an sdist and a wheel in dist/, and try the wheel in an environment of its own
	rm -rf dist $(VENV)-dist
	$(BIN)/python -m build --outdir dist .
	@test $$(cat dist/*.tar.gz | wc -c) -lt 2000000 || { echo "The sdist is 2 MB or more: see include in pyproject.toml" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python $(PIP_INSTALL) dist/*.whl
	cd dist && ../$(VENV)-dist/bin/turnout run --rounds 2 --seeds 1 --quiet

clean: ## remove environments, caches and builds; results under runs/ stay
	rm -rf $(VENV) $(VENV)-dist $(BENCH_VENV) .coverage .pytest_cache .ruff_cache .hypothesis build dist site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): $(PINS)
	$(call environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) -e .
	@touch $@

$(DEV): $(PINS)
	$(call environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	@touch $(RUNTIME) $@

$(FLOWER): $(PINS)
	$(call environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) -e '.[dev,flower]'
	@touch $(RUNTIME) $(DEV) $@

$(DOCS): $(PINS)
	$(call environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) -e '.[docs]'
	@touch $(RUNTIME) $@

$(RAY): $(PINS)
	$(call environment,$(VENV))
	$(BIN)/python $(PIP_INSTALL) -e '.[dev,flower-ray]'
	@touch $(RUNTIME) $(DEV) $(FLOWER) $@

$(BENCH): $(PINS)
	$(call environment,$(BENCH_VENV))
	$(BENCH_VENV)/bin/python $(PIP_INSTALL) -e . 'torch==2.13.0'
	@touch $@

define environment
@command -v $(PYTHON) > /dev/null || { echo "No $(PYTHON) found. Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "turnout needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.11" >&2; exit 1; }
@echo "Installing into $(1) (once; takes some minutes)"
@$(PYTHON) -m venv $(1)
endef
