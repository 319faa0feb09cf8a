# Every target does its own set-up, in .venv. Needed beforehand: Python >= 3.11; a C++ compiler for
# the native engine (without one the package installs with the reference engine alone).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCKS := requirements/ci.txt requirements/torch.txt
NATIVE := $(wildcard $(foreach suffix,cpp hpp,native/*/*.$(suffix) native/*/*/*.$(suffix)))
# Kept, so that a change of one file compiles one file.
BUILD := build/$(notdir $(VENV))
BUILT := $(VENV)/.built

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo quick test test-all docs docs-serve lint format wheel native sanitize sanitize-threads fuzz soak lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(BUILT) ## create .venv with the package (editable) and all that its tests need

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "wolfmeans needs Python 3.11 or later as $(PYTHON); found: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Choose another one with: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) could not create a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; }

# New and changed Python files are seen at once. The native module is built without isolation: an
# isolated build finds nanobind at another place each time and compiles all that includes it.
# LOCKED=1 takes the very files that requirements/*.txt name, PyTorch and Triton among them (Linux on
# x86-64 with Python 3.11, as in .ci/run); else the newest versions that pyproject.toml allows.
$(INSTALLED): pyproject.toml CMakeLists.txt $(if $(LOCKED),$(LOCKS)) | $(BIN)/python
	@echo "Setting up $(VENV): this takes some minutes, once."
ifdef LOCKED
	$(PIP) install --quiet --no-compile --no-deps --require-hashes $(LOCKS:%=--requirement %)
	$(PIP) install --quiet --no-build-isolation --no-deps --config-settings build-dir=$(BUILD) --editable .
	$(PIP) check
else
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' | \
	    xargs $(PIP) install --quiet cmake ninja
	$(PIP) install --quiet --no-build-isolation --config-settings build-dir=$(BUILD) --editable '.[test]'
endif
	@touch $@

# Only what has changed is compiled. Nothing to do where there was no compiler. The stamp bears the
# time at which the build began: what is changed meanwhile is built next time.
$(BUILT): $(INSTALLED) $(NATIVE)
	@touch $@.begun
	@test ! -f $(BUILD)/build.ninja || { PATH="$(CURDIR)/$(BIN):$$PATH" && cmake --build $(BUILD) && \
	    cmake --install $(BUILD) --prefix "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"; }
	@mv $@.begun $@

demo: venv ## cluster the bundled image-segmentation data; certificate, figures and a page
	$(BIN)/wolfmeans demo

# One process more than there are cores, for tests that wait; four are enough. A process that is done
# takes tests over from the others. BLAS libraries would start as many threads in each.
PROCESSES = $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

QUICK = tests/exact tests/core tests/engines tests/estimators/test_trimmed.py tests/digests \
    tests/project/test_layers.py
quick: lint ## lint, and the tests of exact arithmetic, core and engines; a minute
	$(PYTEST) -q -m "not long" $(QUICK)

test: lint ## ruff, mypy, then pytest with doctests; minutes
	$(PYTEST) -m "not long"

# Tests of the GPU's kernels need PyTorch and Triton (docs/gpu.md), those of pages Chromium; they are
# skipped with a reason where these are missing.
test-all: lint ## make test, and what takes long: GPU kernels, browser, faults, mutants, fuzzing, soak
	$(PYTEST)
	$(BIN)/python tests/mutants
	$(BIN)/python tests/fuzz --seconds 30
	$(BIN)/python tests/soak --seconds 30

# The package is installed already; this adds what its extra `docs` names.
docs: venv ## build the documentation site into site/ (open it with make docs-serve)
	$(PIP) install --quiet 'wolfmeans[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python docs/tools/check_site.py site

docs-serve: docs ## the same, and show it at http://127.0.0.1:8000
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory site

lint: venv ## ruff (rules and format), mypy, layers of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/project/layers.py

format: venv ## format the sources
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .
	$(PIP) install --quiet 'clang-format>=18'
	$(BIN)/clang-format -i $(NATIVE)

wheel: $(BIN)/python ## build a wheel into dist/
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

native: $(BUILT) ## compile what has changed of the native module, and put it into .venv; seconds

SANITIZED := build-sanitized
THREADS_SANITIZED := build-sanitized-threads
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# $(call build_with,FOLDER,FLAGS): the package with an instrumented native module.
define build_with
	$(PIP) install --quiet 'nanobind>=2.5' cmake
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(1) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DCMAKE_CXX_FLAGS="$(2)" -DWOLFMEANS_OPTIMIZATION=-O1 -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(1) --parallel
	cp -R src/wolfmeans $(1)/
endef

sanitize: venv ## the native module's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call build_with,$(SANITIZED),$(SANITIZERS))
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 $(BIN)/python tests/support/run_sanitized.py $(SANITIZED)

sanitize-threads: venv ## the native module under ThreadSanitizer, for make fuzz
	$(call build_with,$(THREADS_SANITIZED),-fsanitize=thread -fno-omit-frame-pointer)

# Builds with sanitizers take long; those that were made take part.
fuzz: venv ## readers, command line and native calls with bad input, for SECONDS=60
	$(BIN)/python tests/fuzz --seconds $(or $(SECONDS),60) --sanitized \
	    $(if $(wildcard $(SANITIZED)/wolfmeans/exact/_native*),address=$(SANITIZED)) \
	    $(if $(wildcard $(THREADS_SANITIZED)/wolfmeans/exact/_native*),thread=$(THREADS_SANITIZED))

soak: venv ## random problems on all engines, all invariants, for SECONDS=3600
	$(BIN)/python tests/soak --seconds $(or $(SECONDS),3600) --write docs/reliability.md

lock: $(BIN)/python ## renew the pinned versions of continuous integration, requirements/*.txt
	$(PIP) install --quiet uv
	$(BIN)/python requirements/lock.py

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) .venv-locked build $(SANITIZED) $(THREADS_SANITIZED) build-mutants soak-failures dist site demo-output .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
