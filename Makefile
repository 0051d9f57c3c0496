# `make bench` and `make test` install what they need into .venv. They need python3 (3.11 or newer, with venv) and a network.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
LIGHT := $(VENV)/.light
INSTALLED := $(VENV)/.installed

INSTALL := $(RUN) pip install --quiet --quiet --no-compile
# pip would compile on one core, the libraries' own tests too. What is for other versions of Python does not compile.
COMPILE := $(RUN) compileall -q -q -j 0 -x '/tests?/' $(VENV)/lib || true

# Of asv: where landmark commits are measured, and with which benchmarks.
MACHINE := amd-epyc-2-cores
HISTORY := '^start' 'layer.*backward\(.(dynamic|em).,' 'fit.*\(.(dynamic|em).\)'

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup bench test versions check docs microbench history gpu wheelhouse house clean

help: ## Lists the commands.
	@echo "make COMMAND, with COMMAND one of"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(INSTALLED) ## Creates .venv with the developers' tools; again only when pyproject.toml or constraints.txt changed.

bench: $(LIGHT) ## Installs what users need, compares the routing methods on 5,000 MNIST images, writes the report.
	@$(RUN) routebench suite accuracy $(ARGS)

test: $(INSTALLED) ## Runs the tests, files side by side, the longest first. ARGS="-k NAME" goes on to pytest.
	@$(RUN) pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(ARGS)

versions: ## Installs the lowest and the newest versions that are allowed, and runs smoke and the fast tests with each.
	@for asked in "lowest 3.11" "newest 3.11" "newest 3.14"; do bash .ci/versions $$asked || exit; done

check: $(INSTALLED) ## Format, lint, imports and types.
	@echo "check: format" && $(RUN) ruff format --check --quiet || { echo "run: $(RUN) ruff format"; exit 1; }
	@echo "check: lint" && $(RUN) ruff check --quiet
	@echo "check: imports" && out=$$($(VENV)/bin/lint-imports --no-logo --no-cache) || { echo "$$out"; exit 1; }
	@echo "check: types" && $(RUN) mypy --num-workers auto

docs: $(INSTALLED) ## Draws the pictures of published results, and builds the documentation into build/site; a broken link is an error.
	@$(RUN) docs._site.chart
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet
	@echo "docs: build/site/index.html"

microbench: $(INSTALLED) ## Times single operations with pytest-benchmark.
	@$(RUN) pytest tests/benchmarks --benchmark-enable --benchmark-only --benchmark-group-by=func $(ARGS)

history: $(INSTALLED) ## Measures the commits of reports/history/steps.csv that have no result yet, and draws docs/history.svg.
	@$(RUN) asv machine --yes --machine $(MACHINE)
	@tail -n +2 reports/history/steps.csv | cut -d, -f1 | xargs git rev-parse | \
	  $(RUN) asv run --machine $(MACHINE) --skip-existing-commits $(HISTORY:%=--bench %) HASHFILE:-
	@$(RUN) docs._site.history $(MACHINE)

gpu: ## Measures all that is worth it on a GPU, in 25 minutes or ARGS="--budget TIME"; reports/gpu/README.md.
	@$(or $(wildcard $(VENV)/bin/python),$(PYTHON)) reports/gpu/environment.py $(ARGS)

wheelhouse: $(INSTALLED) ## Collects what `make gpu` needs on a machine without a network: build/gpu-kit.
	@$(RUN) reports.gpu.wheelhouse $(ARGS)

house: $(INSTALLED) ## Measures the structure of the source tree: sizes, public names, imports, circles.
	@$(RUN) tests.tools.house

clean: ## Removes .venv, caches and builds. Results stay.
	rm -rf $(VENV) .asv/env .mypy_cache .pytest_cache .ruff_cache .benchmarks build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LIGHT): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "expected Python 3.11 or newer, got %d.%d; call make with PYTHON=python3.X" % v[:2])'
	@$(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || { echo "expected a Python with venv, got one without; install it (Debian and Ubuntu: python3-venv)" >&2; exit 1; }
	@echo "setup: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup: installing routebench and its dependencies, which takes some minutes on a fresh machine"
	@$(INSTALL) --editable . --constraint constraints.txt
	@$(COMPILE)
	@touch $@

$(INSTALLED): $(LIGHT)
	@echo "setup: installing the developers' tools"
	@$(INSTALL) --editable '.[dev]' --constraint constraints.txt
	@$(COMPILE)
	@touch $@
	@echo "setup: done"
