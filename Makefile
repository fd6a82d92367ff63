# Two commands do everything on a machine with Python 3.11+ and make: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PATH := $(CURDIR)/$(BIN):$(PATH)
export PATH
.DEFAULT_GOAL := help
.PHONY: help install demo test docs preview lab outputs readme bench newest soak clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 18

$(STAMP): settings.ini setup.py $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "make: no '$(PYTHON)' here; install Python 3.11 or newer, or name yours: make PYTHON=/path/to/python3"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3,11))' || { echo "make: $$($(PYTHON) --version) is too old; orthog_nb needs Python 3.11 or newer: make PYTHON=python3.11"; exit 2; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) and installing pinned packages (once; a few minutes) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "make: the venv module of $(PYTHON) does not work; on Debian and Ubuntu: apt install python3-venv"; exit 2; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c $(CONSTRAINTS) setuptools wheel 2>$(VENV)/pip.log \
		&& $(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -c $(CONSTRAINTS) -e '.[dev]' 2>>$(VENV)/pip.log \
		|| { grep -v WARNING $(VENV)/pip.log | tail -5; echo "make: packages could not be installed (see $(VENV)/pip.log); without a network or a package mirror this cannot work"; exit 2; }
	@touch $(STAMP); echo "Installed."

install: $(STAMP)  ## create .venv and install everything (the other targets do it by themselves)

demo: $(STAMP)  ## learn two small streams with three methods; prints a table, draws a figure (two minutes)
	@orthog_sweep --preset demo --root demo && orthog_report --preset demo --root demo --out demo/report

test: $(STAMP)  ## everything that CI checks
	@python tests/run.py

docs: $(STAMP)  ## build the documentation site into _docs/
	@python docs/build.py

preview: docs  ## build the site and serve it on this machine
	@python -m http.server --directory _docs --bind 127.0.0.1 8000

lab: $(STAMP)  ## open the notebooks in JupyterLab
	@jupyter lab nbs/index.ipynb

outputs: $(STAMP)  ## re-execute all notebooks, storing what they show; then README.md
	@nbdev_export && python docs/execute.py && python docs/readme.py

readme: $(STAMP)  ## README.md from nbs/index.ipynb
	@python docs/readme.py

bench: $(STAMP)  ## speed beside the peers, in an environment of its own (long)
	@bash bench/run.sh

newest:  ## test with the newest versions that the ranges allow, in an environment of its own
	@$(MAKE) VENV=.venv-newest CONSTRAINTS=/dev/null test

SOAK := kill faults data_faults training fuzz numerics determinism sweep soak

soak: $(STAMP)  ## the long fault tests: kills, damaged files, fuzzing, an hour of learning (SOAK_MINUTES); some of them: make soak SOAK=fuzz; writes results/bench/soak.json
	@OMP_NUM_THREADS=1 python -m pytest -q --soak $(SOAK:%=tests/test_%.py)

clean:  ## remove what was built; .venv, results and runs stay
	@rm -rf _proc _docs build dist *.egg-info .pytest_cache .hypothesis demo
