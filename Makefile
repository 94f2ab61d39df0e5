# Everything a newcomer or a build machine runs. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
ROOT_VENV := .venv-root
SIM_VENV := .venv-libcachesim
S3FS_VENV := .venv-s3fs
PORTABLE_VENV := .venv-portable
SITE_VENV := .venv-site
BINARY := target/release/forebay
TOOLS := target/tools
BENCH_TOOLS := target/debug
PLUGIN := target/plugin
SITE ?= target/site
# Test processes; most of their time goes into waiting for programs to start.
WORKERS ?= 3
FUZZ_SECONDS ?= 20
ROW ?= read-4k
PROFILES ?= bench/profiles
SEEDS ?= 100000
FROM ?= 0
LAB ?= all
BASE ?= HEAD
# Crates whose dependencies are Rust alone.
PURE_CRATES := types proto cache adopt structure monitoring records sizing

.PHONY: help setup build plugin deb release release-check demo demo-site picture test lint python-lint format tidy clippy quick pure unit doc costs blackbox lab lab-quick lab-test site fuzz-smoke sim soak-purge soak-neighbours bench simulate-year micro profile bench-tools clean libraries FORCE

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(VENV)/.tests $(VENV)/.lab $(ROOT_VENV)/.installed $(SIM_VENV)/.installed $(S3FS_VENV)/.installed $(SITE_VENV)/.installed $(TOOLS)/render-chart $(TOOLS)/shoveler $(TOOLS)/search/.installed $(TOOLS)/jsroot/.installed ## install what the tests need: XRootD's programs, Python packages
	tests/install-tools.sh

build: $(BINARY) ## build the release binary

plugin: $(if $(READY),,$(VENV)/.tests) ## build the client plug-in for XRootD 5 and 6, and run its unit tests
	tests/install-tools.sh --plugin-only
	plugin/fetch-xrootd-6.sh $(VENV)/bin/python $(PLUGIN)/xrootd-6
	cmake -S plugin -B $(PLUGIN)/5 -G Ninja -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(PLUGIN)
	cmake -S plugin -B $(PLUGIN)/6 -G Ninja -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(PLUGIN) -DBUILD_TESTING=OFF \
	  -DXROOTD_INCLUDE_DIR=$(CURDIR)/$(PLUGIN)/xrootd-6/include \
	  -DXROOTD_LIBRARY_DIR=$$($(VENV)/bin/python -c 'import os, pyxrootd; print(os.path.dirname(pyxrootd.__file__))')
	cmake --build $(PLUGIN)/5
	cmake --build $(PLUGIN)/6
	ctest --test-dir $(PLUGIN)/5 --output-on-failure --no-tests=error

deb: $(if $(READY),,setup $(BINARY)) ## build the Debian package into target/debian
	deploy/debian/build-package.sh $(BINARY) target/debian

release: ## a binary for EL8 and newer systems with OpenSSL in it, as RPM, Debian package and tarball with an installer, with the plug-in as RPM for EL9 and as source RPM, bill of materials and checksums, into target/packages
	tests/install-tools.sh --build-only
	tests/install-tools.sh --plugin-only
	deploy/package/tools.sh $(PORTABLE_VENV)
	PATH=$(CURDIR)/$(PORTABLE_VENV)/bin:$$PATH deploy/package/build-portable.sh target/portable/forebay
	deploy/package/build-plugin.sh target/portable/libXrdClForebay-5.so
	deploy/package/build-all.sh target/portable/forebay target/portable/libXrdClForebay-5.so target/packages

release-check: release ## build the last commit again in another folder, and compare its packages with those of `make release`
	PATH=$(CURDIR)/$(PORTABLE_VENV)/bin:$$PATH deploy/package/check-reproducible.sh target/packages

demo: $(BINARY) $(VENV)/.demo ## read a ROOT file cold and warm through a cache; ONCE=1 ends by itself
	$(VENV)/bin/python -m demo $(BINARY) demo-data $(if $(ONCE),--once)

demo-site: $(BINARY) $(VENV)/.demo $(TOOLS)/search/.installed ## a month of a site's accesses through a cache with status page, Prometheus and OpenSearch; ONCE=1 ends by itself, DAYS=2 is a shorter one
	$(VENV)/bin/python -m demo.site $(BINARY) demo-data/site $(if $(DAYS),--days $(DAYS)) $(if $(ONCE),--once)

picture: $(BINARY) $(VENV)/.demo $(VENV)/.tests $(VENV)/.lab $(TOOLS)/search/.installed ## take the picture of the status page in the README again, of a month as in demo-site
	$(VENV)/bin/python -m demo.site $(BINARY) demo-data/picture --once --picture docs/status-page.png

test: ## everything a change must pass; ends with a table of steps, tests and times
	@$(PYTHON) tests/run_steps.py $(STEPS)

quick: ## format, house rules, clippy and tests of the crates that differ from BASE
	@tests/quick.sh $(BASE)

pure: ## test the crates that need neither OpenSSL nor any other library: nothing but the compiler
	$(CARGO) test --locked $(foreach crate,$(PURE_CRATES),-p forebay-$(crate))

lint: python-lint format tidy clippy ## formatting, lints and house rules

format:
	$(CARGO) fmt --all --check

tidy:
	$(CARGO) xtask tidy

clippy: libraries
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

python-lint: $(VENV)/.tests $(VENV)/.lab
	$(VENV)/bin/ruff format --check --quiet --config tests/pyproject.toml tests demo deploy
	$(VENV)/bin/ruff check --quiet --config tests/pyproject.toml tests demo deploy
	cd tests && ../$(VENV)/bin/mypy .
	$(VENV)/bin/mypy --config-file tests/pyproject.toml demo
	$(VENV)/bin/mypy --config-file tests/pyproject.toml deploy/package
	cd python && ../$(VENV)/bin/ruff format --check --quiet . && ../$(VENV)/bin/ruff check --quiet . && ../$(VENV)/bin/mypy src tests

unit: libraries ## unit and crate tests
	$(CARGO) test --workspace --locked --lib --bins --tests

doc: libraries ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

costs: $(if $(READY),,setup $(BINARY) bench-tools) ## instructions and system calls of a read on a warm cache against bench/costs.toml; ACCEPT=1 keeps new ones, FUNCTIONS=20 adds functions
	$(BENCH_TOOLS)/forebay-bench costs --forebay $(BINARY) \
	  $(if $(ROWS),--rows $(ROWS)) $(if $(ACCEPT),--accept) $(if $(FUNCTIONS),--functions $(FUNCTIONS))

blackbox: $(if $(READY),,setup $(BINARY) bench-tools plugin deb) ## the release binary against real clients and servers
	cd tests && FOREBAY_BENCH=$(CURDIR)/$(BENCH_TOOLS)/forebay-bench \
	  ../$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

# The load generator and the emulated networks, as tests use them: without the optimization that measurements need.
bench-tools: libraries
	$(CARGO) build --quiet --locked -p forebay-bench --bins --tests

lab: setup $(BINARY) ## the published measurements, made again here: hours; NAME=... continues a run, MINUTES=55 ends after that time, LAB="loop --engines uproot" does a part
	$(CARGO) build --quiet --release --locked -p forebay-bench
	$(VENV)/bin/forebay-lab $(LAB) $(if $(NAME),--name $(NAME)) $(if $(MINUTES),--minutes $(MINUTES))

lab-quick: setup $(BINARY) ## every experiment of the lab once with little data: minutes
	$(CARGO) build --quiet --release --locked -p forebay-bench
	$(VENV)/bin/forebay-lab $(LAB) --quick $(if $(NAME),--name $(NAME))

lab-test: $(if $(READY),,setup $(BINARY) bench-tools)
	cd python && FOREBAY_BENCH=$(CURDIR)/$(BENCH_TOOLS)/forebay-bench \
	  ../$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(LABTESTS)

site: $(if $(READY),,$(SITE_VENV)/.installed) ## build the documentation as a searchable site into target/site/html; fails at a broken link
	$(PYTHON) deploy/site/pages.py $(SITE)/pages
	SITE_PAGES=$(abspath $(SITE)/pages) SITE_OUTPUT=$(abspath $(SITE)/html) NO_MKDOCS_2_WARNING=1 \
	  $(SITE_VENV)/bin/mkdocs build --strict --quiet --config-file deploy/site/mkdocs.yml

sim: ## the seeded simulation, SEEDS seeds from FROM on (some are part of `make unit`)
	$(CARGO) run --release --locked -p forebay-sim -- --seeds $(SEEDS) --from $(FROM)

soak-purge: setup $(BINARY) ## purge under load in earnest: 64 clients read 3 GiB through a budget of 2 GiB for five minutes
	cd tests && PURGE_BUDGET_MIB=2048 PURGE_WORKING_SET_MIB=3072 PURGE_CLIENTS=64 PURGE_SECONDS=300 \
	  ../$(VENV)/bin/python -m pytest -s crash/test_purge.py

soak-neighbours: setup $(BINARY) ## 1,000 clients for 20 minutes, of a healthy, a hanging and a faulty origin, while the disk fills up and is freed; RECORD=FILE keeps the figures
	cd tests && NEIGHBOURS_CLIENTS=1000 NEIGHBOURS_SECONDS=1200 NEIGHBOURS_DISK_MIB=1024 NEIGHBOURS_MEMORY_MIB=512 NEIGHBOURS_PACE=3 \
	  NEIGHBOURS_RECORD=$(abspath $(RECORD)) ../$(VENV)/bin/python -m pytest -s crash/test_neighbours.py

fuzz-smoke: ## every fuzz target for FUZZ_SECONDS; needs a nightly toolchain and cargo-fuzz
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do \
	  mkdir -p corpus/$$target; seeds=$$(ls -d seeds/$$target 2>/dev/null); \
	  $(CARGO) +nightly fuzz run $$target corpus/$$target $$seeds -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048; done

micro: ## time each hot function by itself; ONLY=TEXT those whose names hold it
	$(CARGO) bench --workspace --locked --bench '*' -- $(ONLY)

profile: export CARGO_PROFILE_RELEASE_DEBUG := line-tables-only
profile: $(BINARY) ## call tree and flame graph of a warm server at 64 connections, by perf; ROW=read-1m another row, PROFILES=DIR where to
	$(CARGO) build --quiet --release --locked -p forebay-bench
	$(PYTHON) bench/profile.py --row $(ROW) --forebay $(BINARY) --load target/release/forebay-bench --out $(PROFILES)

bench: $(BINARY) ## Forebay, XCache and a plain server side by side; XROOTD_PREFIX=DIR measures another XRootD, BENCH=--quick tries it out
	tests/install-tools.sh
	$(CARGO) run --release --locked -p forebay-bench -- compare $(if $(XROOTD_PREFIX),--xrootd-prefix $(XROOTD_PREFIX)) $(BENCH)

simulate-year: $(BINARY) ## simulate a generated year of a site, 10,000,000 accesses, with 12 sizes and 3 policies, within a minute; RECORD=FILE keeps the figures
	$(PYTHON) bench/simulate.py --forebay $(BINARY) $(if $(RECORD),--record $(abspath $(RECORD)))

clean: ## remove what was built, installed and generated here
	$(CARGO) clean
	rm -rf $(VENV) $(ROOT_VENV) $(SIM_VENV) $(S3FS_VENV) $(PORTABLE_VENV) $(SITE_VENV) demo-data

# OpenSSL's headers, for whatever cargo builds.
libraries:
	tests/install-tools.sh --build-only

$(BINARY): libraries FORCE
	$(CARGO) build --release --locked -p forebay

# With libraries from Debian's packages alone.
$(TOOLS)/search/.installed: tests/search_server/install.sh tests/search_server/OneNode.java
	tests/install-tools.sh
	tests/search_server/install.sh $(CURDIR)/$(TOOLS)/search

$(TOOLS)/jsroot/.installed: tests/jsroot/install.sh
	tests/install-tools.sh
	tests/jsroot/install.sh $(CURDIR)/$(TOOLS)/jsroot

$(TOOLS)/render-chart: tests/deploy/chart/render.go
	tests/install-tools.sh
	mkdir -p $(TOOLS)
	GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$(CURDIR)/$(TOOLS)/go-cache go build -o $@ $<

# Of the module proxy of Go: no distribution has it.
$(TOOLS)/shoveler: tests/shoveler/go.mod tests/shoveler/go.sum tests/shoveler/tools.go
	tests/install-tools.sh
	mkdir -p $(TOOLS)
	cd tests/shoveler && GOFLAGS=-modcacherw GOMODCACHE=$(CURDIR)/$(TOOLS)/go-modules GOCACHE=$(CURDIR)/$(TOOLS)/go-cache \
	  go build -mod=readonly -o $(CURDIR)/$@ github.com/opensciencegrid/xrootd-monitoring-shoveler/cmd/shoveler

$(VENV)/bin/python:
	tests/install-tools.sh --python-only
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: demo/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

$(VENV)/.tests: tests/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

$(VENV)/.lab: python/requirements.txt python/pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r python/requirements.txt
	$(VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check --no-deps --editable python
	touch $@

$(ROOT_VENV)/.installed: tests/requirements-root.txt
	tests/install-tools.sh --python-only
	$(PYTHON) -m venv $(ROOT_VENV)
	$(ROOT_VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

# It needs other versions of boto3's libraries than the other tests.
$(S3FS_VENV)/.installed: tests/requirements-s3fs.txt
	tests/install-tools.sh --python-only
	$(PYTHON) -m venv $(S3FS_VENV)
	$(S3FS_VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

$(SITE_VENV)/.installed: deploy/site/requirements.txt
	tests/install-tools.sh --python-only
	$(PYTHON) -m venv $(SITE_VENV)
	$(SITE_VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

$(SIM_VENV)/.installed: tests/requirements-libcachesim.txt
	tests/install-tools.sh --python-only
	$(PYTHON) -m venv $(SIM_VENV)
	$(SIM_VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@
