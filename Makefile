# What people type. `make` and `git` are the only things presumed on the machine.

VENV        := .venv
ENGINE_VENV := .venv-engine
PY          := $(VENV)/bin/python
BIN         := $(VENV)/bin
STAMP       := $(VENV)/.set-up
ENGINE_STAMP := $(ENGINE_VENV)/.set-up
SCENARIOS   := 60
SYSTEMD_ROOT := build/systemd
SYSTEMD_STAMP := $(SYSTEMD_ROOT)/.set-up

.DEFAULT_GOAL := help
.PHONY: chaos help setup demo test lint format test-fast test-journald test-engine test-systemd test-walk-through test-long engine bench bench-diagnosis bench-convergence bench-held-back docs clean

help:
	@echo 'make setup         system packages and .venv (asked for by all others)'
	@echo 'make demo          the incident, live, on a simulated host; about a minute'
	@echo 'make test          lint, types, imports and the fast tests; a few minutes'
	@echo 'make test-engine   the main job on real vLLM for the CPU; installs 2.5 GB once'
	@echo 'make test-systemd  the service under the real systemd, in a container; needs root'
	@echo 'make test-walk-through  docs/how-to with real vLLM under the real systemd; needs root'
	@echo 'make test-long     the same with new random examples, and test-engine'
	@echo 'make format        rewrite the sources in house style'
	@echo 'make bench         the table of budgets'
	@echo 'make bench-diagnosis   how often the diagnosis is right, on logs of others'
	@echo 'make chaos        random faults on real daemons (SECONDS=120, or FAULTS=200; SEED=1)'
	@echo 'make bench-convergence how soon, and how well, a failing engine is cured; minutes'
	@echo 'make bench-held-back   the real daemon on hosts that obey other laws; minutes'
	@echo 'make docs          rewrite the generated references'
	@echo 'make clean         remove everything that was built'

setup: $(STAMP)

# pyproject.toml holds the dependencies, so a change there sets up again.
$(STAMP): pyproject.toml tools/system-packages tools/python-environment
	@tools/system-packages
	@tools/python-environment $(VENV)
	@touch $@

demo: $(STAMP)
	$(BIN)/vllm-warden demo

test: lint test-fast test-journald

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Three at a time on two cores: the tests with real daemons mostly wait.
test-fast: $(STAMP)
	$(BIN)/pytest -m 'not engine and not journald and not systemd' --no-skips -n 3

# The rig starts a journald of its own in a private mount namespace, which needs root.
test-journald: $(STAMP)
	tools/with-journald $(BIN)/pytest -m journald --no-skips

# Two at a time: starting vLLM is mostly imports, one after another, on one core.
test-engine: $(STAMP) $(ENGINE_STAMP)
	tools/with-journald $(BIN)/pytest -m 'engine and not systemd' --no-skips -n 2 --maxschedchunk=1

# A container with the real systemd (Debian 12), which needs root.
test-systemd: $(STAMP) $(SYSTEMD_STAMP)
	$(BIN)/pytest -m 'systemd and not engine' --no-skips

# The walk-through of docs/how-to with real vLLM.
test-walk-through: $(STAMP) $(SYSTEMD_STAMP) $(ENGINE_STAMP)
	$(BIN)/pytest -m 'systemd and engine' --no-skips

$(SYSTEMD_STAMP): tools/systemd-root pyproject.toml tests/rigs/container.sh
	@tools/systemd-root $(SYSTEMD_ROOT) $(PY)
	@touch $@

# What does not fit into CI: new random examples in every run, and the whole main job after it.
test-long: $(STAMP) test-engine
	$(BIN)/pytest -m 'not engine and not journald and not systemd' --hypothesis-profile=new --no-skips -n 2

SECONDS ?= 120
SEED ?= 1
chaos: $(STAMP)
	$(BIN)/python -m tests.chaos --seed $(SEED) $(if $(FAULTS),--faults $(FAULTS),--seconds $(SECONDS))

engine: $(ENGINE_STAMP)

$(ENGINE_STAMP): tools/engine-environment $(STAMP)
	@tools/engine-environment $(ENGINE_VENV) $(PY)
	@touch $@

bench: $(STAMP)
	$(PY) -m benchmarks

bench-diagnosis: $(STAMP)
	$(PY) -m benchmarks.diagnosis
	$(PY) -m benchmarks.diagnosis_speed

bench-convergence: $(STAMP)
	$(PY) -m benchmarks.convergence

bench-held-back: $(STAMP)
	$(PY) -m benchmarks.held_back --scenarios $(SCENARIOS)

docs: $(STAMP)
	$(PY) -m vllm_warden.config.reference docs/reference/configuration.md
	$(PY) -m vllm_warden.api.reference docs/reference/api.md
	$(PY) -m vllm_warden.cli.reference docs/reference/cli.md
	$(PY) docs/generate.py
	$(PY) docs/worked_examples.py

clean:
	rm -rf $(VENV) $(ENGINE_VENV) benchmarks/.venv-peers build dist .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
