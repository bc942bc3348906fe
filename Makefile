# Everything works from a fresh clone: each target makes what it needs first.
PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin
PYTEST := $(BIN)/pytest -q --dist worksteal
JOBS ?= 2
KILLS ?= 1000
MINUTES ?= 60
SLOW := laws fuzz sdk cli test_corpus.py test_docs.py test_typing.py testing connect sessions agent chat durable plugins mcp_tools \
	tools/exec tools/fs tools/web tools/test_path_access.py tools/test_policy_time.py test_conversion.py test_hard_cases.py \
	test_untyped.py test_large_sessions.py canvas gateway
# Programs that some tests use beside Python, and Debian's packages for them.
PROGRAMS := rg:ripgrep fdfind:fd-find bwrap:bubblewrap tmux:tmux chromium:chromium redis-server:redis-server

# Every worker of pytest reads the modules that one has compiled, which is half of its start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup programs demo test check corpus attack fuzz crash bench interop web docs site dist lock format clean

help: ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: .venv/ready ## Make .venv with the package, all extras and the test dependencies, from the lock file

.venv/ready: requirements.lock .venv/core
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock
	@touch $@

# The package and what it needs to run, nothing more; editable, as hatchling builds it.
.venv/core: requirements-core.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Interlingua needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements-core.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

programs: ## Install the programs that some tests use (as root); what is missing is said, and its tests are skipped
	@for pair in $(PROGRAMS); do command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; done; \
	test -z "$$missing" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& { apt-get update -qq; apt-get install -y -qq --no-install-recommends $$missing; } >/dev/null 2>&1; } \
		|| echo "!!!! NOT INSTALLED:$$missing: the tests that use them are skipped"

demo: .venv/core ## An agent at work, offline, with real tools; its session, and that session in every format
	@$(BIN)/interlingua demo

check: setup ## Lint, types and unit tests: the fast part
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python -m compileall -q -j $(JOBS) src tests # commands start twice as fast where no bytecode is written
	$(PYTEST) -n $(JOBS) $(addprefix --ignore=tests/,$(SLOW))

# The page's packages, when npm is there and the lock file is newer than what is installed.
web/node_modules/.package-lock.json: web/package-lock.json
	@if ! command -v npm >/dev/null; then echo "!!!! npm is NOT INSTALLED: the page of the canvas is not compared with its source"; \
	elif ! npm ci --prefix web --ignore-scripts --no-audit --no-fund --loglevel=error; then rm -f $@; \
		echo "!!!! npm ci FAILED (is the registry reachable?): the page of the canvas is not compared with its source"; fi

# The slow tests wait for processes, servers and browsers: twice the workers keep the processors busy.
test: programs check web/node_modules/.package-lock.json ## All tests: the fast part, the laws, the fuzzers, attacks, crashes, servers, recorded traffic
	$(PYTEST) -n $$((2 * $(JOBS))) $(addprefix tests/,$(SLOW))

corpus: setup ## Recorded provider traffic through every dialect: pass counts, and what fails
	$(BIN)/python -m tests.corpus

attack: setup programs ## Every class of attack that docs/security.md lists: how many inputs were tried, how many were withstood
	$(BIN)/python tests/attack_table.py

fuzz: setup ## Random and grown inputs into all that reads what strangers wrote, for MINUTES=60
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzzing.py --minutes $(MINUTES)

crash: setup ## Over a thousand kill -9 at random moments of sessions, stores, agent runs, durable runs and the gateway: a table
	$(BIN)/python tests/crash_table.py --kills $(KILLS) --jobs $(JOBS)

bench: setup ## Speed beside the limits and the peers, each peer in an environment of its own
	$(BIN)/python bench/run.py
	$(BIN)/python bench/transcripts.py
	$(BIN)/python bench/connectors.py
	$(BIN)/python bench/gateway.py
	$(BIN)/python bench/soak.py
	$(BIN)/python bench/agent.py
	$(BIN)/python bench/search.py
	$(BIN)/python bench/sessions.py
	@$(MAKE) --no-print-directory interop/.envs/llm_canvas/ready
	$(BIN)/python bench/canvas.py
	@$(MAKE) --no-print-directory web/node_modules/.package-lock.json bench/.envs/inspect/ready
	$(BIN)/python bench/browser.py

interop: setup ## With other people's programs: coding agents, client libraries, Ray, MCP servers and conformance, an ACP editor, LiteLLM, llama.cpp, moto, PostgreSQL, llm-canvas, Inspect, library tasks, Phoenix, Logfire, Langfuse
	@$(MAKE) --no-print-directory bench/.envs/inspect/ready
	PYTHONPATH=src bench/.envs/inspect/bin/python interop/inspect_samples.py
	@test -x interop/.envs/ray/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python interop/.envs/ray
	@$(BIN)/uv pip install --quiet --python interop/.envs/ray/bin/python --require-hashes -r interop/ray.lock
	PYTHONPATH=src interop/.envs/ray/bin/python interop/ray_data.py
	@test -x interop/.envs/mcp/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python interop/.envs/mcp
	@$(BIN)/uv pip install --quiet --python interop/.envs/mcp/bin/python --require-hashes -r interop/mcp.lock
	@if command -v npm >/dev/null; then mkdir -p interop/.envs/mcp-node && \
		cp interop/mcp_node/package*.json interop/.envs/mcp-node/ && \
		npm ci --prefix interop/.envs/mcp-node --ignore-scripts --silent --no-audit --no-fund && \
		npm rebuild --prefix interop/.envs/mcp-node --silent node; fi
	$(BIN)/python interop/mcp_servers.py
	$(BIN)/python interop/mcp_conformance.py
	@$(MAKE) --no-print-directory interop/.envs/llm_canvas/ready interop/.envs/llm/ready
	$(BIN)/python interop/acp_editor.py
	@$(MAKE) --no-print-directory interop/.envs/llm_canvas/ready
	$(BIN)/python interop/llm_canvas_client.py
	$(BIN)/python interop/llm_tasks.py
	$(BIN)/python interop/postgres_sessions.py
	$(BIN)/python interop/postgres_durable.py
	$(BIN)/python interop/postgres_gateway.py
	@$(MAKE) --no-print-directory interop/.envs/gateway-programs/ready
	$(BIN)/python interop/gateway_programs.py
	$(BIN)/python interop/resume_programs.py
	@test -x interop/.envs/gateway_clients/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python interop/.envs/gateway_clients
	@$(BIN)/uv pip install --quiet --python interop/.envs/gateway_clients/bin/python --require-hashes -r interop/gateway_clients.lock
	$(BIN)/python interop/gateway_clients.py
	@for name in litellm llama_cpp moto; do \
		test -x interop/.envs/$$name/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python interop/.envs/$$name; \
		CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_LLAMAFILE=OFF -DGGML_NATIVE=ON" $(BIN)/uv pip install --quiet \
			--python interop/.envs/$$name/bin/python --require-hashes -r interop/$$name.lock || exit 1; done
	@$(MAKE) --no-print-directory $(foreach name,pydantic_ai any_llm sdks phoenix logfire langfuse,interop/.envs/$(name)/ready)
	$(BIN)/python interop/library_tasks.py
	$(BIN)/python interop/otel_collectors.py
	$(BIN)/python interop/litellm_proxy.py
	$(BIN)/python interop/llama_cpp_server.py
	$(BIN)/python interop/bedrock_signing.py
	$(BIN)/python interop/ray_bucket.py

# Their install scripts put the binaries in place.
interop/.envs/gateway-programs/ready: interop/gateway_node/package-lock.json
	@command -v npm >/dev/null || { echo "the coding agents need npm; install Node"; exit 1; }
	@mkdir -p $(@D) && cp interop/gateway_node/package*.json $(@D)/
	@# Not `npm ci`: it refuses a lock without the packages of platforms that a registry lacks.
	@npm install --no-save --prefix $(@D) --silent --no-audit --no-fund
	@touch $@

bench/.envs/inspect/ready: bench/envs/inspect.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python bench/.envs/inspect
	@$(BIN)/uv pip install --quiet --python bench/.envs/inspect/bin/python --require-hashes -r $<
	@$(BIN)/uv pip install --quiet --python bench/.envs/inspect/bin/python .
	@touch $@

interop/.envs/%/ready: interop/%.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

interop/.envs/llm/ready: interop/llm.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python interop/.envs/llm
	@$(BIN)/uv pip install --quiet --compile-bytecode --python interop/.envs/llm/bin/python --require-hashes -r $<
	@touch $@

interop/.envs/llm_canvas/ready: interop/llm_canvas.lock
	@for python in $$HOME/.pyenv/versions/3.12*/bin/python 3.12 $(BIN)/python; do \
		$(BIN)/uv venv --quiet --clear --python $$python interop/.envs/llm_canvas 2>/dev/null && break; done
	@$(BIN)/uv pip install --quiet --python interop/.envs/llm_canvas/bin/python --require-hashes -r $<
	@touch $@

web: setup ## Build the page of the canvas into the package; needs Node
	@command -v npm >/dev/null || { echo "make web needs Node 20 or newer (npm is not on PATH); the built page is in src/interlingua/canvas/assets"; exit 1; }
	@$(MAKE) -s web/node_modules/.package-lock.json
	cd web && npx tsc --noEmit && npx vite build && npx vite build --config vite.export.config.ts

docs: setup ## Write the generated parts of the documentation
	$(BIN)/python docs/generate.py

lock: setup ## Resolve the lock file anew
	$(BIN)/uv pip compile --quiet --universal --all-extras --generate-hashes --no-annotate --no-header --upgrade \
		pyproject.toml -o requirements.lock
	printf 'hatchling\neditables\n' | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header \
		--constraint requirements.lock pyproject.toml - -o requirements-core.lock

site: setup interop/.envs/site/ready ## Build the documentation site into build/site; strict, and nothing is loaded from elsewhere
	NO_MKDOCS_2_WARNING=1 interop/.envs/site/bin/mkdocs build --strict --quiet --clean
	$(BIN)/python tests/check_site.py build/site

interop/.envs/site/ready: docs/site.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python interop/.envs/site
	@$(BIN)/uv pip install --quiet --python interop/.envs/site/bin/python --require-hashes -r $<
	@touch $@

dist: .venv/core ## Build wheel and sdist into dist/, look into them, and try the wheel in a fresh environment
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python tests/distribution.py dist

format: setup ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what the other targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/.envs interop/.envs dist
