# Every target does the set-up that it needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One setting names the images everywhere: in the builds, on the node and in the manifests.
REGISTRY ?= localhost/isvc-operator
TAG      ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
export REGISTRY TAG

PYTHON   ?= python3
# Where `make run` and `make demo` answer; another one while a cluster's ingress holds 8080.
HTTP_PORT ?= 8080
# What isvc advises is a flag, which a user of make cannot give.
FAILED = { echo 'With make, write HTTP_PORT=PORT for --http-port PORT: make $@ HTTP_PORT=8090' >&2; exit 1; }
# Up to four workers, each with servers of its own: two more than there are processors, as the slowest tests compute about
# half of their time. The slowest ones come first. Those on the cluster are one fewer, as its pods compute as well.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL := --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
QUICK    := tests/unit tests/golden tests/contract tests/hostile/limits tests/conformance/test_recordings.py \
	tests/conformance/test_settings_table.py tests/conformance/test_table.py
CLUSTER  := $(CURDIR)/.cluster
BIN      := .venv/bin
# Tests import the same modules in hundreds of processes, which would compile them again each time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help setup run demo fmt lint quick quick-tests test recordings e2e bench images cluster-up cluster-down deploy verify release clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ On this machine

setup: .venv/.ready ## Create .venv with everything pinned in constraints.txt

.venv/.ready: constraints.txt uv.txt pyproject.toml tests/support/setup-venv
	@bash tests/support/setup-venv "$(PYTHON)"
	@touch $@

run: setup ## Serve the sample model from its InferenceService YAML; print its URL and a curl line; Ctrl-C stops it (HTTP_PORT=8090: on that port)
	@$(BIN)/python examples/bert/build.py build/bert
	@$(BIN)/isvc run examples/bert/inferenceservice.yaml --pvc leeway=build/bert --http-port $(HTTP_PORT) || { [ $$? -eq 130 ] || $(FAILED); }

demo: setup ## Play the first story: serve the sample model, send its request with curl, check the response, stop
	@$(BIN)/python examples/bert/build.py build/bert
	@$(BIN)/python -m tests.stories S1 --pvc leeway=build/bert --http-port $(HTTP_PORT) || $(FAILED)
	@echo 'curl has sent the sentence "Hello World!" of examples/bert/sample.json; the model says class 4, a greeting.'

##@ Checks

fmt: setup ## Format the code
	@$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format .

lint: setup ## Check formatting, lint, types and layers
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

quick: setup ## Run lint, and the tests that start no process: a minute
	@$(MAKE) --no-print-directory --jobs=2 lint quick-tests

# To import torch is a quarter of what a worker does before its first test, and none of these tests computes with it.
quick-tests: setup
	@PYTHONPATH=tests/support/torchless $(BIN)/pytest -m "not process" --numprocesses=$(PROCESSORS) --maxprocesses=4 $(QUICK) $(ARGS)

test: setup ## Run all tests that need no cluster and no program but an API server (etcd and kube-apiserver) and TorchServe
	@KUBEBUILDER_ASSETS="$$(bash tests/cluster/assets)" $(BIN)/pytest --numprocesses=$$(($(PROCESSORS) + 2)) $(PARALLEL) --durations=10 $(ARGS)

recordings: setup ## Record TorchServe's responses again; show and write the differences (ARGS=--check only shows them)
	@$(BIN)/python -m tests.conformance record $(ARGS)

# What these tests start is built before them: a test may not take so long.
e2e: setup cluster-up images deploy ## Run the tests that need a cluster, object stores, Prometheus, Helm, a browser, a package index or real models; builds what is missing
	@bash tests/cluster/stores > /dev/null
	@bash tests/cluster/azurite > /dev/null
	@for name in kube-controller-manager prometheus promtool helm kstatus nginx haproxy; do bash tests/cluster/program $$name > /dev/null; done
	@bash tests/e2e/browser/chromium > /dev/null
	@assets="$$(bash tests/cluster/assets)"; KUBECONFIG=$(CLUSTER)/kubeconfig KUBEBUILDER_ASSETS="$$assets" KUBECTL="$$assets/kubectl" \
		$(BIN)/pytest tests/e2e tests/models --numprocesses=$$(($(PROCESSORS) + 1)) $(PARALLEL) --durations=10 $(ARGS)

bench: setup ## Run the benchmarks (ARGS names suites); print the tables and write docs/benchmarks/*.json
	@assets="$$(bash tests/cluster/assets)"; KUBEBUILDER_ASSETS="$$assets" KUBECTL="$$assets/kubectl" $(BIN)/python -m tests.bench $(ARGS)

verify: lint ## Check that everything generated is up to date
	@$(BIN)/python -m tests.support.crds crds --check
	@$(BIN)/python -m hack.release.version
	@$(BIN)/python -m tests.support.code_map --check
	@$(BIN)/python -m tests.support.field_reference --check
	@$(BIN)/python -m tests.support.command_pages --check

##@ Cluster

cluster-up: ## Start a cluster: $KUBECONFIG if set, else kind where Docker runs, else a bare one on this host
	@bash tests/cluster/up

cluster-down: ## Stop what cluster-up started
	@bash tests/cluster/down

images: ## Build the images and load them into the cluster
	@bash tests/cluster/images

deploy: ## Install the CRDs, the operator and the runtimes
	@bash tests/cluster/deploy

##@ Housekeeping

release: setup ## Build wheels, sdists, manifests, checksums and a bill of materials from the commit into dist/ (ARGS=--images adds images)
	@$(BIN)/python -m hack.release $(ARGS)

clean: ## Remove what the other targets created (the cluster first)
	@if [ -d $(CLUSTER) ]; then bash tests/cluster/down; fi
	@rm -rf .venv build dist .cluster .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -r {} +
