# Everything a newcomer needs: `make demo` and `make test`. Set-up happens by itself, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# What the package runs with, and then what its tests need besides.
READY := $(VENV)/.ready
TESTABLE := $(VENV)/.testable
# The matrices are small: one thread each is fastest, and gives the same bits on every machine.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# Two cores, and three at a time, as those with browsers, servers and networks wait much; a file stays with one of them
# unless another runs out, as its servers and browsers are shared.
TOGETHER := -n 3 --dist worksteal

.PHONY: demo swarm test quick check browser bench clean docs site

$(READY): pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit("sottovoce needs Python 3.11 or newer: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@echo "Set-up, 1 of 3: a virtual environment in $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Set-up, 2 of 3: what the package runs with, most of it numpy and scipy"
	$(PIP) --requirement requirements.txt
	@echo "Set-up, 3 of 3: the package itself"
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(TESTABLE): $(READY) requirements-test.txt
	$(PIP) --requirement requirements-test.txt
	touch $@

demo: $(READY)  ## what every family of Florence can learn about every other, as text and as a report
	$(BIN)/sottovoce account florentine --rounds 20 --noise-multiplier 4 --delta 1e-5 --report demo.html
	@echo
	@echo "demo.html is the same as a report: open it in a browser."

swarm: $(TESTABLE)  ## eight sites as processes of this machine, which learn together behind masked sums
	rm -rf .swarm
	$(BIN)/sottovoce peers example .swarm
	$(BIN)/sottovoce peers local .swarm/network.toml

test: check browser  ## lint, types, architecture, documentation and every test
	$(BIN)/python -m pytest $(TOGETHER)

quick: check  ## the same without what needs a browser, or many requests, clients or processes, or kills some
	$(BIN)/python -m pytest -n 2 --dist worksteal -p no:schemathesis -m "not browser and not load"

check: $(TESTABLE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

browser:  ## Chromium, for the tests of the page
	scripts/browser.sh

docs: $(READY)  ## write the command-line reference again
	$(BIN)/python -m sottovoce.cli.reference docs/cli.md

site: $(TESTABLE) browser  ## the documentation as pages that can be searched, in build/site
	$(BIN)/python -m scripts.site

bench: $(TESTABLE)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .swarm demo.html .mypy_cache .ruff_cache .pytest_cache .hypothesis
