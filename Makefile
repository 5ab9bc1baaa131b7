# Everything a newcomer needs: `make demo` and `make test` set up what they use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread per process: the tests run in two processes, and numeric libraries would fight over the cores.
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1

.PHONY: help demo serve test test-slow audit mutants fuzz docs lint format clean
help:
	@echo "make demo  install into $(VENV) and make a synthetic table from the example that ships here"
	@echo "make serve install into $(VENV) and open the local page on the example"
	@echo "make test  install into $(VENV) and run linters, type checks, import contracts and all tests"
	@echo "make test-slow  the audits that take minutes"
	@echo "make audit  claimed and shown epsilons of every mechanism and method; says first how long it takes"
	@echo "make mutants  plant bugs in a copy of the package; which tests notice"
	@echo "make fuzz  a hundred thousand spoiled files, questions and names; a quarter of an hour or more"
	@echo "make docs  build the pages of docs/ and the reference into build/site"

$(VENV)/run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/run
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,oracles]'
	@touch $@

demo: $(VENV)/run
	@mkdir -p demo-output
	$(BIN)/lookalike synth examples/admissions.csv --schema examples/admissions.yaml --epsilon 1 \
	    --ledger demo-output/ledger.jsonl --model demo-output/admissions.lookalike -o demo-output/admissions.csv
	@echo
	@echo "First rows of the synthetic table (nobody is in the example either: it is simulated):"
	@head -n 6 demo-output/admissions.csv
	@echo
	$(BIN)/lookalike ledger examples/admissions.csv --ledger demo-output/ledger.jsonl

$(VENV)/web: $(VENV)/run
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[web]'
	@touch $@

serve: $(VENV)/web
	LOOKALIKE_LEDGERS=demo-output/ledgers $(BIN)/lookalike serve examples

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-slow: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

audit: $(VENV)/dev
	$(BIN)/python -m benchmarks.trust audits run
	$(BIN)/python -m benchmarks.trust audits document

# 15,000 each of spoiled tables, tables with spoiled rows, JSON lines, models, schemas, domains, ledgers, questions and names.
fuzz: $(VENV)/dev
	HYPOTHESIS_PROFILE=search LOOKALIKE_FUZZ=15000 $(BIN)/python -m pytest -n 2 -m "slow or not slow" tests/fuzz \
	    tests/privacy/test_ledger.py::test_thousands_of_mutated_ledgers

mutants: $(VENV)/dev
	$(BIN)/python -m tests.mutants --soundness

docs: $(VENV)/dev
	$(BIN)/python -m mkdocs build --quiet
	@echo "Open build/site/index.html"

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build demo-output .pytest_cache .ruff_cache .hypothesis
