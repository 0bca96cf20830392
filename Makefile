# Stratalog. `make` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Built outside of the clone, so that clones share it and `git clean` does not undo it.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/stratalog/target

# In CI nothing is built twice, so incremental state would only cost disk.
ifdef CI
export CARGO_INCREMENTAL ?= 0
endif

DEBUG := $(CARGO_TARGET_DIR)/debug
RELEASE := $(CARGO_TARGET_DIR)/release

.PHONY: help demo test run bench tsbs log lint format torture hunt suites docs sbom setup hooks

help: ## Lists these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Builds the server, loads 2 million rows, queries them, kills it, shows that nothing is lost
	@scripts/setup build
	@cargo build --locked --release -p stratalog --bin stratalog
	@$(RELEASE)/stratalog demo

test: ## Everything that must hold: tidy, lints, all tests, real clients, TSBS
	@scripts/setup test
	@scripts/test

run: ## Starts a server on ./stratalog-data, or on DATA=folder
	@scripts/setup build
	@cargo build --locked --release -p stratalog --bin stratalog
	@$(RELEASE)/stratalog serve --data-dir "$(or $(DATA),stratalog-data)"

bench: ## Measures throughput and latency, and compares with PostgreSQL (tsbs/results)
	@scripts/setup test
	@cargo build --locked --release -p stratalog --bin stratalog
	@STRATALOG_BIN=$(RELEASE)/stratalog tsbs/bench

# What `make tsbs` takes, as in `make tsbs SCALE=1000 PEERS=questdb,duckdb`; tsbs/README.md says what each means.
TSBS := SCALE HOURS INTERVAL QUERIES CHECKS PEERS USE_CASES TYPES SPAN SPAN_PEERS CLIENTS FRESH PAUSE SEED KEEP DIRECTORY

tsbs: ## Compares with QuestDB, DuckDB, chDB and others: SCALE=100 HOURS=24 PEERS=… (tsbs/README.md)
	@scripts/setup test
	@cargo build --locked --release -p stratalog --bin stratalog
	@STRATALOG_BIN=$(RELEASE)/stratalog tsbs/compare $(foreach name,$(TSBS),$(if $($(name)),'$(name)=$($(name))'))

log: ## Measures chronicles, beside Kafka and BookKeeper: LOG='--rounds 5' (tsbs/README.md)
	@scripts/setup test
	@cargo build --locked --release -p stratalog --bin stratalog
	@STRATALOG_BIN=$(RELEASE)/stratalog tsbs/log $(LOG)

lint: ## Format, tidy and clippy only
	@cargo fmt --all -- --check
	@cargo run --locked -q -p xtask -- tidy
	@cargo clippy --locked --workspace --all-targets -- -D warnings

format: ## Formats the code
	@cargo fmt --all

docs: ## Writes the documents that are made from the code
	@cargo run --locked -q -p xtask -- docs
	@[ -x $(DEBUG)/stratalog ] || cargo build --locked --workspace --bins
	@$(DEBUG)/stratalog docs settings > docs/settings.md

sbom: ## Writes the bill of materials of the binary, in CycloneDX: FILE=stratalog.cdx.json
	@cargo run --locked -q -p xtask -- sbom "$(or $(FILE),stratalog.cdx.json)"

torture: ## The crash tests for as long as MINUTES says (30)
	@scripts/setup test
	@STRATALOG_TORTURE_MINUTES=$(or $(MINUTES),30) scripts/torture

hunt: ## Random statements beside PostgreSQL and DuckDB for as long as MINUTES says (30)
	@scripts/setup test
	@scripts/hunt $(HUNT)

suites: ## The test suites of drivers and peers, from their packages, beside PostgreSQL: SUITES='--small asyncpg'
	@scripts/setup test
	@scripts/suites $(SUITES)

hooks: ## Checks the first line of each commit in this clone: area: what
	@git config core.hooksPath scripts/hooks

setup: ## Installs what the tests need and is missing (Debian)
	@scripts/setup test
