# `make demo` and `make test` need only Python 3.11+, pip, make and git; they set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
TIME ?= 10m
JOBS ?= $(shell nproc)
SETS ?= 200
DEMO := OLS,NNLS,Lasso,BoostedTrees/Residual,Mean/Transfer

# Bytecode is kept whatever the environment says: every worker and subprocess would compile the package and the tests anew.
export PYTHONDONTWRITEBYTECODE =

# Modules are compiled as they are imported: most never are, and to compile them all takes longer than to install them.
PIP = $(BIN)/python -m pip install --quiet --no-compile

# What fails runs once more with the values of its assertion: to rewrite all of them costs as much as to import them.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal --assert=plain
AGAIN = || { OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures=none; exit 1; }

.PHONY: audit demo release test tests coverage check brief test-lowest test-newest lint style types fuzz kill bench calibration scoreboard docs linkcheck test-browser setup clean

# New shapes on one GPU, products on another GPU, and whether linear scaling holds.
demo: .venv/.run
	$(BIN)/python train.py --target MI300X --quick --short --out runs/alone
	$(BIN)/python train.py --models $(DEMO) --short --out runs/demo
	$(BIN)/python validate.py --short --out runs/linear

# Lint, types, all tests. A worker a core, each with one thread, and the types, which take one, beside them.
test: style
	$(MAKE) --jobs=2 --no-print-directory tests types

# The same before a commit: of the tests only the brief ones, of what differs from the branch main.
check: style
	$(MAKE) --jobs=2 --no-print-directory brief types

tests: .venv/.dev
	$(PYTEST) $(AGAIN)

# Tracing takes Python 3.11 as long as the tests themselves; those marked `long` and those of measured data are not traced.
coverage: .venv/.dev
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=95 $(AGAIN)

brief: .venv/.dev
	$(PYTEST) -m "not long" $$($(BIN)/python tests/changed.py) $(AGAIN)

# Pages in a real browser; they are among `make test` too. Where there is no Chromium they skip, and say so.
test-browser: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/browser

# The tests that are not marked `long` with the lowest versions that pyproject.toml allows.
test-lowest: build/lowest/.test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 build/lowest/bin/python -m pytest -q -n auto --dist worksteal -m "not long"

# The same with the newest versions there are, and the Python that PYTHON names: `make test-newest PYTHON=python3.13`.
test-newest: build/newest/.test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 build/newest/bin/python -m pytest -q -n auto --dist worksteal -m "not long"

# Commands killed at random points, measure where PyTorch is installed: `make kill TIME=10m`.
kill: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m flopcast.tests.kills --time $(TIME)

lint: style types

style: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/pyrefly check --output-format min-text

# Damaged files of every kind: `make fuzz TIME=10m`. Counts go on where the last run ended (build/fuzz).
fuzz: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m flopcast.tests.fuzz --time $(TIME) --jobs $(JOBS)

bench: .venv/.bench
	$(BIN)/python -m flopcast.benchmarks

# What is stated against known truth: `make calibration`, or with SETS=20 in a tenth of the time.
calibration: .venv/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m flopcast.benchmarks.calibration --sets $(SETS)

# Published workloads, forecast without having seen them; needs the measured data (../shared/data).
scoreboard: .venv/.run
	$(BIN)/python -m flopcast.benchmarks.scoreboard

# Every page, the examples executed; a warning is an error. Needs no network; `make linkcheck` does.
docs: .venv/.docs
	$(BIN)/python -m sphinx -q -W --keep-going docs build/docs

linkcheck: .venv/.docs
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs build/linkcheck

# Known vulnerabilities of what is installed, where the package index answers.
audit: .venv/.dev
	$(PYTHON) .ci/audit.py $(BIN)/python

# Version, changelog, wheel, sdist, bill of materials, commit and tag; publishes nothing: `make release VERSION=0.2.0`.
release: test
	$(PYTHON) .ci/audit.py $(BIN)/python --strict
	$(PIP) --group release
	$(BIN)/python .ci/release.py $(VERSION)

setup: .venv/.dev

.venv/.run: pyproject.toml
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --editable .
	touch $@

.venv/.dev: .venv/.run
	$(PIP) --group dev
	touch $@

build/lowest/.test: pyproject.toml
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/python -m pip install --quiet uv
	build/lowest/bin/uv pip compile --quiet --resolution lowest-direct --python build/lowest/bin/python \
	  --output-file build/lowest/versions.txt pyproject.toml > /dev/null
	build/lowest/bin/uv pip install --quiet --python build/lowest/bin/python --constraint build/lowest/versions.txt \
	  --group test --editable .
	touch $@

# Anew each time: what is newest changes while pyproject.toml does not.
.PHONY: build/newest/.test
build/newest/.test:
	$(PYTHON) -m venv --clear build/newest
	build/newest/bin/python -m pip install --quiet uv
	build/newest/bin/uv pip install --quiet --upgrade --python build/newest/bin/python --group test --editable .

.venv/.docs: .venv/.run
	$(PIP) --group docs
	touch $@

.venv/.bench: .venv/.dev
	$(PIP) --group bench
	touch $@

clean:
	rm -rf .venv build dist runs/demo .pytest_cache .ruff_cache .hypothesis .coverage src/flopcast.egg-info docs/gallery docs/generated
