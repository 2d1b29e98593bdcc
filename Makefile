# Everything happens in .venv; a target installs what it needs once, and again when the pinned versions change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
URL := http://127.0.0.1:8000

.PHONY: serve model head test test-slow soak lint format check-deploy check-terraform image

serve: model
	@echo
	@echo "Starting on $(URL) (a minute at most). When it says that the application is ready, ask it something:"
	@echo
	@echo "  curl $(URL)/v1/chat/completions -H 'Content-Type: application/json' \\"
	@echo "    -d '{\"model\": \"smollm2-135m-instruct\", \"max_tokens\": 64, \"temperature\": 0,"
	@echo "         \"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]}'"
	@echo
	@RAY_USAGE_STATS_ENABLED=0 RAY_SERVE_PROXY_USE_GRPC=1 MALLOC_ARENA_MAX=2 exec $(BIN)/serve run serving.app:graph

model: $(VENV)/.installed
	@$(BIN)/python -m serving.models

# The default model's draft head, from nothing (see training/README.md): hours on two cores. Can be interrupted.
HEAD := .head
head: $(VENV)/.installed-dev
	$(BIN)/python -m training generate --varied --count 2100 --seed 11 --concurrency 48 --out $(HEAD)/text.jsonl
	$(BIN)/python -m training capture --data training/data/self_written.jsonl.gz $(HEAD)/text.jsonl \
		--out $(HEAD)/features
	$(BIN)/python -m training train --features $(HEAD)/features --out $(HEAD)/run \
		--batch-tokens 3072 --ttt-steps 5 --deep-share 0.5 --step-decay 0.9 --epochs 4 \
		$(if $(wildcard $(HEAD)/run/checkpoint.pt),--resume)
	$(BIN)/python -m training evaluate --features $(HEAD)/features --head $(HEAD)/run/head --out $(HEAD)/evaluation
	$(BIN)/python -m training export --run $(HEAD)/run --out serving/models/heads/default

# What is rolled out has its own target: its tests need more tools, and nothing of the service needs them.
ROLLOUT_TESTS := tests/deploy tests/deploy_cli tests/lambda_handler tests/terraform

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not ray and not slow" $(addprefix --ignore=,$(ROLLOUT_TESTS))
	$(PYTEST) -m "ray and not slow" $(addprefix --ignore=,$(ROLLOUT_TESTS))

test-slow: $(VENV)/.installed-dev
	PYTHON=$(PYTHON) deploy/check-tools.sh
	$(PYTEST) -m slow

# Memory, open files and objects of the service under steady load; fails if something grows. `make soak MINUTES=5` to try.
MINUTES := 30
soak: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks soak --minutes $(MINUTES) --json soak.json --figure soak.png

# All that is rolled out: image, charts with every example, alarms, dashboard, Serve configs, Terraform. Brings its tools
# (see deploy/check-tools.sh) but for Terraform's.
check-deploy: $(VENV)/.installed-dev check-terraform
	PYTHON=$(PYTHON) deploy/check-tools.sh
	deploy/check.sh
	$(PYTEST) -m "not slow" $(ROLLOUT_TESTS)

# Without a Docker daemon: builds the CPU image and waits until it answers. Needs root and buildah; ten minutes.
image:
	deploy/image.sh

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-terraform: .venv-terraform/.installed
	terraform/check.sh .venv-terraform/bin/python

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

.venv-terraform/.installed: terraform/requirements.txt
	$(PYTHON) -m venv .venv-terraform
	.venv-terraform/bin/python -m pip --disable-pip-version-check install --quiet --requirement $<
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip  # Python's own may be years old, and fetching the default model leans on pip
