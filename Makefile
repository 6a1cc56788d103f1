# Every target sets up what it needs, from a fresh clone on; nothing has to be installed by hand.
#
#   make demo     run the example tasks, look at the result, delete it and rebuild it from the log
#   make test     every test with its engines, the coverage gates and the checkers
#   make lint     only the checkers
#   make bench    the benchmarks
#   make clean    remove what these targets made, but for jobs/
#
# PYTHON=/path/to/python3 chooses the Python that .venv is made with, 3.11.4 or newer.
# ARGS goes to pytest (`make test ARGS="tests/events -x"`) or to the demo (`make demo ARGS=--help`).

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean always

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
ARGS ?=

help:
	@sed -n '3,10s/^# \{0,1\}//p' Makefile

demo: $(DEMO_STAMP)
	@$(RUN) tools/demo.py $(ARGS)

test: $(STAMP)
	@$(RUN) tools/check.py test $(ARGS)

lint: $(STAMP)
	@$(RUN) tools/check.py lint

bench: $(BENCH_STAMP)
	@$(RUN) tools/bench.py $(ARGS)

clean:
	@bash tools/clean.sh

$(STAMP): pyproject.toml constraints.txt tools/venv.sh
	@PYTHON='$(PYTHON)' bash tools/venv.sh $(VENV) dev
	@touch $@

# What the demo runs on is what a user installs: no checkers, no peers.
$(DEMO_STAMP): pyproject.toml constraints.txt tools/venv.sh
	@PYTHON='$(PYTHON)' bash tools/venv.sh $(VENV) acp,models
	@touch $@

ifneq ($(PYTHON),)
$(STAMP) $(DEMO_STAMP): always
endif

$(BENCH_STAMP): $(STAMP)
	@PYTHON='$(PYTHON)' bash tools/venv.sh $(VENV) dev,bench
	@touch $@
