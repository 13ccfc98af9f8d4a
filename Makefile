# The only entry: every verb sets up what it needs. `make help` lists them.
# PYTHON=... names another interpreter, which has an environment of its own: .venv-3.13.
ifeq ($(PYTHON),)
PYTHON := python3
VENV   := .venv
else
VENV   := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d%s" % (*sys.version_info[:2], sys.abiflags))')
endif
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SERVER := $(VENV)/.server
# uv downloads and installs side by side, pip one by one. uv is looked for when it is used: the
# environment may have one by then. Python writes bytecode at the first import, so pip need not.
WITH_PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV     = $(shell command -v uv || { test -x $(BIN)/uv && echo $(BIN)/uv; })
PIP    = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(WITH_PIP) --no-compile)
LOCK   := requirements-dev.txt
JOBS   ?= 2
EXTRAS ?= dev

.PHONY: help setup lock docs drawings serve demo lint format test test-lowest compiled test-compiled coverage fuzz sim crash failover soak turns languages interop story conformance conformance-mutants bench bench-pipeline lab-live wheel release clean
.DEFAULT_GOAL := help

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY)  ## make .venv with everything in it, by requirements-dev.txt; PYTHON=python3.13 makes .venv-3.13

# uv is not needed: it takes 24 s, and 11 with a full cache; pip takes longer. Only pip reads pip's settings.
$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || $(BIN)/python -m pip config list | grep -q index-url || \
	  $(WITH_PIP) --only-binary uv uv || echo "uv could not be installed: pip installs everything"

# Nothing has to find versions that fit: the lock file has them. PySpark comes as a source archive; its jars are
# compressed already, and to compress them again into a wheel takes 20 s.
$(READY): pyproject.toml $(LOCK) | $(BIN)/python
ifeq ($(EXTRAS),dev)
	@$(PIP) --no-deps --config-settings=--build-option=--compression=stored --requirement $(LOCK)
	@$(PIP) --no-deps --no-build-isolation --editable .
else
	@$(PIP) --editable '.[$(EXTRAS)]'
endif
	@touch $@ $(SERVER)

$(SERVER): pyproject.toml | $(BIN)/python
	@$(PIP) --editable .
	@touch $@

lock: | $(BIN)/python  ## write requirements-dev.txt again, with the newest versions that fit; needs uv
	@test "$(UV)" || { echo "make lock needs uv: pip install uv"; exit 1; }
	@$(UV) pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-annotate --no-header --upgrade --output-file $(LOCK) pyproject.toml

# The compiled form is used if `make compiled` made it from these sources; the first line names the form.
serve: $(SERVER)  ## start the server on 127.0.0.1:9092, data in ./coterie-data; compiled after `make compiled`
	@PYTHONPATH="$$($(BIN)/python -m compilation.freshness)" $(BIN)/coterie serve --host 127.0.0.1 --port 9092 --data-dir ./coterie-data

docs: setup  ## the documentation as a site in build/docs, and as the file that a wheel has and `coterie docs` shows
	@$(BIN)/python -m documentation

drawings: setup  ## draw the diagrams of the documentation again, after a change of one; needs npm and Chromium
	@mkdir -p build/mermaid && cp documentation/drawings/package*.json build/mermaid
	@cd build/mermaid && npm ci --silent --ignore-scripts --no-audit --no-fund
	@$(BIN)/python -m documentation.draw

demo: setup  ## one group, three client libraries, a live view and the console: join, leave, kill (30 s)
	@$(BIN)/python -m demo $(ARGS)

lint: setup  ## ruff, mypy --strict, layers, import circles, references to rules, our own tidy rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.import_circles
	@$(BIN)/python -m tests.spec_references
	@$(BIN)/python -m tests.tidy

format: setup  ## rewrite the code in the one style
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

test: setup  ## every test in random order, the live ones with real clients included; PYTHON=python3.13, ARGS=tests/unit
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

test-lowest: setup  ## the fast tests with the lowest versions of dependencies that pyproject.toml allows, in .venv-lowest
	@$(BIN)/python -m tests.lowest > $(VENV)/lowest.txt
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)/lowest.txt --editable '.[test]'
	@.venv-lowest/bin/python -m pytest -n $(JOBS) --dist loadgroup $(or $(ARGS),tests/unit tests/transcripts)

compiled: setup  ## make the compiled form in build/compiled; what has not changed is not made again; FAST=1: only to be tested
	@$(BIN)/python -m compilation compile --jobs $(JOBS) $(if $(FAST),--fast)

test-compiled: setup  ## run the tests of codecs, coordinator and server with the compiled form, made if need be; FAST=1, ARGS=--slice runs some
	@$(BIN)/python -m compilation test --jobs $(JOBS) $(if $(FAST),--fast) $(ARGS)

coverage: setup  ## lines and branches that the tests of single parts reach, as a table
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup -p no:randomly --cov --cov-report=term:skip-covered \
	  tests/unit tests/transcripts tests/property tests/fuzz

fuzz: setup  ## minutes of mutated frames against the decoder and a live server; new examples for properties
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup --hypothesis-profile explore tests/property tests/unit/coordinator
	@$(BIN)/python -m tests.fuzz --seconds $${SECONDS_TO_RUN:-180}

sim: setup  ## coordinators and clusters under simulated clients, faults and time; planted bugs to be found
	@$(BIN)/python -m tests.simulation --seconds $${SECONDS_TO_RUN:-120}
	@$(BIN)/python -m tests.simulation.consumer_groups --seconds $${SECONDS_TO_RUN:-120}
	@$(BIN)/python -m tests.simulation.brokers --seconds $${SECONDS_TO_RUN:-120}
	@$(BIN)/python -m tests.simulation.share_groups --seconds $${SECONDS_TO_RUN:-120}

crash: setup  ## crashes, damage and failing calls by the hundred thousand, 400 real kills, planted bugs
	@$(BIN)/python -m tests.crash --seconds $${SECONDS_TO_RUN:-600}
	@$(BIN)/python -m tests.crash.share_kills

failover: setup  ## 1,000 moves of leaders and coordinators and 200 kills under real clients; ARGS="--seed 5"
	@$(BIN)/python -m tests.failover $(ARGS)

soak: setup  ## ten minutes of mixed load by real clients; memory, files and threads must stay level; then `turns`, smaller
	@$(BIN)/python -m tests.soak --seconds $${SECONDS_TO_RUN:-600}
	@$(BIN)/python -m tests.soak.turns --scale 0.1

turns: setup  ## each verb with its largest request, on a server at its limits; the longest turns as a table; ARGS=--compiled
	@$(BIN)/python -m tests.soak.turns $(ARGS)

languages: setup  ## install the packages of the Node and Go examples, and run their tests
	@cd examples/node && npm ci --silent --no-audit --no-fund
	@cd examples/go && go mod vendor
	@$(BIN)/python -m pytest -q -rs tests/live/testing/test_languages.py

interop: setup  ## Kafka Streams, Connect, Flink, Spark and others against our broker, or ARGS="--bootstrap-server host:port"
	@$(BIN)/python -m tests.interop $(ARGS)

story: setup  ## 18 groups of real clients with an independent log; ARGS="--kafka host:port" adds a real Kafka
	@$(BIN)/python -m tests.story $(ARGS)

conformance: setup  ## check our broker, and others: BROKERS="kafka kfake killed name=host:port"; pages in build/conformance
	@$(BIN)/python -m tests.conformance $(BROKERS)

conformance-mutants: setup  ## brokers with one planted bug each; a check must find every bug that a client can see
	@$(BIN)/python -m tests.conformance.mutants $(ARGS)

bench: setup  ## the figures, as a table; PEER="name=host:port ..." adds peers, ARGS=--quick is short
	@$(BIN)/python -m benchmarks $(foreach peer,$(PEER),--peer $(peer)) $(ARGS)

bench-pipeline: setup  ## decoding, scanning, tables and report of the pipeline, as a table
	@$(BIN)/python -m benchmarks_pipeline $(ARGS)

lab-live: setup  ## real clients through the scripts of the lab, measured beside simulated (about 30 min); ARGS="--client aiokafka"
	@$(PIP) --editable '.[lab-live]'
	@$(BIN)/python -m tests.lab.live $(ARGS)

wheel: docs  ## a pure wheel, and one that mypyc and the C compiler made for this platform, in dist/
	@$(BIN)/python -m compilation wheel --jobs $(JOBS)

release: docs  ## build, check, install and try all files of a release, in dist/release; ARGS=--snapshot
	@$(PIP) --editable '.[release]'
	@$(BIN)/python -m release $(ARGS)

clean:  ## remove what the verbs made
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
