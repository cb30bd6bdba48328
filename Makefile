# The project's commands. Each works on a fresh clone, without root, and makes .venv on first use.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# Nothing is downloaded or reported while the demo or the tests run.
QUIET := RAY_USAGE_STATS_ENABLED=0 MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 \
  HF_DATASETS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1
# A user's wish for no bytecode would have hundreds of processes compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

# Three workers suit two cores, because tests wait for files and for the processes that they have started. The tests of
# a file share fixtures and run on one worker; files begin in the order that tests/conftest.py gives them.
PYTEST = $(QUIET) $(VENV)/bin/python -m pytest --dist loadfile --no-loadscope-reorder --durations=20
QUICK = $(PYTEST) -n 3 -m "not long and not hunt"

.DEFAULT_GOAL := help
.PHONY: help demo serve test touched test-all hunts browser bench record-grid replay chaos mutants validate-report check format install lock lock-check clean

help: ## Show these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

demo: $(READY) ## Run a real sweep over beta1 from submission to report, then stop everything
	@$(QUIET) $(VENV)/bin/python -m sweep_service.cli.demo

serve: $(READY) ## Start the API, a worker, MLflow and a local Ray, and leave them running until Ctrl-C
	@$(QUIET) $(VENV)/bin/sweeps serve

test: $(READY) ## Run all tests but the long ones, which make test-all and make hunts run; FILES=tests/unit/trainers: those
	@$(QUICK) $(FILES)

touched: $(READY) ## Run the quick tests beside what has changed since the last commit, or since BASE=main
	@files=$$(BASE=$(BASE) .ci/touched) || exit; test -n "$$files" || { echo "no change touches a test"; exit; }; \
	  $(QUICK) $$files

test-all: $(READY) ## Run the long tests: kills, several processes, whole installations
	@$(PYTEST) -n 3 -m "long and not hunt" $(FILES)

hunts: $(READY) ## Run the tests that plant mistakes or hunt by chance: faults, storms of signals, drawn and hostile specs
	@$(PYTEST) -n 2 -m hunt

browser: $(READY) ## Run the tests of the pages in an installed Chromium (or CHROMIUM=path)
	@$(QUIET) CHROMIUM="$(CHROMIUM)" $(VENV)/bin/python -m pytest tests/browser

bench: $(READY) ## Time an optimizer step beside TRL's, the math grader, reports, reads and whole sweeps; on a quiet machine
	@$(QUIET) $(VENV)/bin/python bench/step_time.py
	@$(QUIET) $(VENV)/bin/python bench/grading.py
	@$(QUIET) $(VENV)/bin/python bench/report_scale.py
	@$(QUIET) $(VENV)/bin/python bench/report_store.py
	@$(QUIET) $(VENV)/bin/python bench/reads.py
	@$(QUIET) $(VENV)/bin/python bench/service_cost.py

record-grid: $(READY) ## Train the grid of runs by which plans compare rules of early stopping; half an hour on two cores
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/record_grid.py

replay: $(READY) ## Replay rules of early stopping on simulated grids and the recorded one: the tables of docs/early_stopping.md
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/replay_stops.py

chaos: $(READY) ## Kill, stop and starve a real service at random for 20 minutes, and judge it; CHAOS="--seed 1 --minutes 2"
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python -m tests.chaos $(CHAOS)

mutants: $(READY) ## Plant 100 small mistakes, and count those that a quick test sees; hours; MUTANTS="--help" says how
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement bench/mutants.lock
	@$(QUIET) $(VENV)/bin/python bench/mutants.py $(MUTANTS)

validate-report: $(READY) ## Simulate some 240,000 sweeps with known truths through the report; an hour on 4 cores
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_report.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_report.py --problems
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_report.py --rates
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_report.py --rules
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_words.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_power.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_looks.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_looks.py --values
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_batches.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_purchases.py
	@OMP_NUM_THREADS=1 $(QUIET) $(VENV)/bin/python bench/validate_claims.py

check: $(READY) ## Check format, lint, types and import contracts
	@$(VENV)/bin/ruff format --check --quiet . || { echo "not formatted: run make format"; exit 1; }
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/basedpyright
	@$(VENV)/bin/lint-imports --no-logo

format: $(READY) ## Format the code and apply safe fixes
	@$(VENV)/bin/ruff check --fix --quiet . || true
	@$(VENV)/bin/ruff format .

install: $(READY) ## Make .venv with the pinned packages and the project

lock: $(READY) ## Write the locks from pyproject.toml and keep present pins (.ci/lock --upgrade moves them)
	@.ci/lock

lock-check: $(READY) ## Check that both locks resolve and match pyproject.toml
	@.ci/lock --check

clean: ## Remove .venv and caches; data under ~/.sweeps stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer." >&2; exit 1; }
	@$(PYTHON) .ci/preflight
	@echo "Installing requirements.lock into $(VENV): a few minutes the first time"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement requirements.lock
	@$(VENV)/bin/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true  # on all cores; pip uses one
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
