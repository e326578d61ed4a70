# SPDX-License-Identifier: Apache-2.0
# Every target creates what it needs: the environment in .venv, the packages, the extension. `make help` lists them.
#   PYTHON=python3.12   the interpreter that .venv is made from
#   TORCH=1             make test: with torch 2.13.0 and transformers, which its tests need
#   JAX=1               make test: with JAX for the CPU, which its tests need
#   FLOORS=1            the oldest supported versions of xdsl, llvmlite and apache-tvm-ffi (on first use)
#   WHEELS=folder       no network: what PYTHON's own packages lack comes from this folder's wheels
#   JOBS=1              make test, test-all: as many tests at a time; one per CPU without it
#   ARGS="-k name"      more arguments for pytest, demo or the benchmarks
PYTHON ?= python3
VENV ?= .venv
TORCH ?=
JAX ?=
FLOORS ?=
WHEELS ?=
ARGS ?=
JOBS ?= auto
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Tests start hundreds of interpreters, each of which would compile weft's sources again.
unexport PYTHONDONTWRITEBYTECODE

bin := $(VENV)/bin
stamps := $(VENV)/.stamps
# One at a time in one environment, also beside `make --jobs`.
pip := flock $(stamps)/pip $(bin)/python -m pip install --quiet --disable-pip-version-check $(if $(WHEELS),--no-index --find-links $(abspath $(WHEELS)))
# Tools that pip installs come first; cmake and ninja of PYTHON's own packages serve as well.
# Without make's flags: its jobs are not passed on, and ninja 1.13 fails where it is promised some.
tools := unset MAKEFLAGS; export PATH="$(abspath $(bin)):$$(dirname "$$(command -v $(PYTHON))"):$$PATH";
build := build/native-$(notdir $(abspath $(VENV)))
native_sources := CMakeLists.txt $(shell find native -name "*.h" -o -name "*.cpp")

native_all := $(shell find native tests/native -name "*.h" -o -name "*.cpp" -o -name "*.c")

.PHONY: help venv ready native demo test test-all sanitize check format docs site wheels bench performance gpu gpu-all clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- the environment: one stamp per group of requirements, renewed when pyproject.toml changes

$(stamps)/created:
	@command -v $(PYTHON) > /dev/null || { echo "no interpreter $(PYTHON); choose one with PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weft needs Python 3.11 or later; choose one with PYTHON=")'
	@test -x $(bin)/python || $(PYTHON) -m venv $(if $(WHEELS),--without-pip) $(VENV)
	@$(if $(WHEELS),$(bin)/python tools/share_packages.py $$($(PYTHON) -c 'import site; print(*site.getsitepackages())'))
	@mkdir -p $(stamps) && touch $@

$(stamps)/group-%: pyproject.toml tools/requirements.py | $(stamps)/created
	@echo "installing the requirements of '$*' into $(VENV)"
	@$(bin)/python tools/requirements.py $* $(if $(FLOORS),--floors) > $(stamps)/$*.txt
	@$(pip) --requirement $(stamps)/$*.txt $(if $(WHEELS),$(if $(filter cuda,$*),|| echo "no wheels for $*: the CUDA toolkit on the search path serves" >&2))
	@touch $@

# Once: registers src/ and the command `weft` with the environment. The extension itself is rebuilt by `make native`.
$(stamps)/package: pyproject.toml tools/register_source.py | $(stamps)/group-build $(stamps)/group-run $(stamps)/native
	@$(bin)/python tools/register_source.py
	@touch $@

native/runtime/dtypes.h: src/weft/types/dtype.py tools/write_native_types.py
	@$(PYTHON) tools/write_native_types.py

$(stamps)/native: $(native_sources) | $(stamps)/group-build $(stamps)/group-run
	@$(tools) cmake -S . -B $(build) -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_WERROR=ON \
	  -DCMAKE_MAKE_PROGRAM="$$(command -v ninja)" -DPython_EXECUTABLE=$(abspath $(bin))/python \
	  > $(stamps)/cmake.log || { cat $(stamps)/cmake.log; exit 1; }
	@$(tools) cmake --build $(build)
	@$(tools) cmake --install $(build) --prefix src > $(stamps)/install.log
	@touch $@

base := $(stamps)/package $(stamps)/group-cuda
with_tests := $(base) $(stamps)/group-test $(if $(TORCH),$(stamps)/group-torch $(stamps)/group-transformers) $(if $(JAX),$(stamps)/group-jax)
all_tests := $(with_tests) $(stamps)/group-cross $(stamps)/group-wheels

venv: $(all_tests) $(stamps)/group-dev  ## create .venv with everything (torch with TORCH=1, JAX with JAX=1)
	@echo "$(VENV) is ready"

ready: $(with_tests) $(stamps)/group-dev  ## create .venv with what check and test need
	@echo "$(VENV) is ready for make check and make test"

native: $(stamps)/package  ## build the extension again, in place

# ---- the work

demo: $(base) $(stamps)/group-examples  ## compile and run the examples on this machine's CPU
	@$(bin)/python -m examples.demo $(ARGS)

pytest := WEFT_TEST_TORCH=$(TORCH) WEFT_TEST_JAX=$(JAX) WEFT_TEST_FLOORS=$(FLOORS) $(bin)/python -m pytest

# A worker is handed a few tests at a time: thousands at once left one of two idle for the last minutes.
shared := --maxschedchunk=48

test: $(with_tests)  ## run the tests (TORCH=1, JAX=1: those with torch or JAX too) but the slow ones
	@$(pytest) -n $(JOBS) $(shared) -m "not slow" $(ARGS)

test-all: $(all_tests)  ## run every test, the slow ones too
	@$(pytest) -n $(JOBS) $(shared) $(ARGS)

sanitize: $(base) $(stamps)/group-test  ## run native tests on an extension built with ASan and UBSan
	@$(bin)/python tools/run_sanitized.py $(ARGS)

# The README and the examples leave untyped what a kernel may leave untyped, and use the short annotation of tensors,
# Tensor[f32, ("n",)], whose names mypy takes for types that are missing.
mypy_short := --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls \
  $(addprefix --disable-error-code ,type-arg syntax name-defined valid-type)
readme := from pathlib import Path; from tests.docs.code_blocks import program; print(program(Path("README.md")))

# Each by itself, side by side; the one that takes longest begins.
checks := $(addprefix check-,pyright mypy pyright-of-users pyright-of-a-project imports ruff format clang-format)
check: $(base) $(stamps)/group-test $(stamps)/group-dev  ## ruff, pyright, mypy, import-linter, clang-format
	@$(MAKE) --no-print-directory --jobs=$$(nproc) --keep-going --output-sync=target $(checks)

.PHONY: $(checks)

check-pyright:
	@echo "== pyright"; $(bin)/pyright --pythonpath $(bin)/python

check-pyright-of-users:
	@echo "== pyright, as users of weft see it"; $(bin)/pyright -p examples --pythonpath $(bin)/python

check-pyright-of-a-project:
	@echo "== pyright, strict, on a user's project"; $(bin)/pyright -p tests/user_project --pythonpath $(bin)/python

check-mypy:
	@echo "== mypy --strict, on a user's project, the examples and the README"; \
	mkdir -p build/readme; $(bin)/python -c '$(readme)' > build/readme/readme.py; \
	$(bin)/mypy --strict --cache-dir build/mypy tests/user_project/smoothing.py; \
	$(bin)/mypy --strict --cache-dir build/mypy $(mypy_short) examples build/readme/readme.py

check-imports:
	@echo "== import-linter"; $(bin)/lint-imports --no-logo --no-cache

check-ruff:
	@echo "== ruff check"; $(bin)/ruff check --quiet .

check-format:
	@echo "== ruff format"; $(bin)/ruff format --check --quiet .

check-clang-format:
	@echo "== clang-format"; $(bin)/clang-format --dry-run --Werror --ferror-limit=1 $(native_all)

format: $(stamps)/group-dev  ## write the formatting that `make check` asks for
	$(bin)/ruff format .
	$(bin)/ruff check --fix .
	$(bin)/clang-format -i $(native_all)

docs: $(base) $(stamps)/group-test  ## write the pages that are generated: configuration, reference, errors, walkthrough, gallery, performance, profiling
	@for page in configuration errors walkthrough gallery performance profiling reference; do $(bin)/python -m docs.generate_$$page; done

site: $(base) $(stamps)/group-docs  ## build the documentation as a site in build/site/html; checks its links
	@NO_MKDOCS_2_WARNING=1 $(bin)/python tools/build_site.py

wheels: $(stamps)/group-build $(stamps)/group-wheels  ## a wheel for each Python here, in dist/, tried in an empty environment (ARGS="python3.12")
	@$(tools) $(bin)/python tools/build_wheels.py $(ARGS)

# The peers have an environment of their own: they would change versions of what weft runs on.
$(stamps)/peers: pyproject.toml | $(stamps)/created
	@echo "installing the peers of the benchmarks into $(VENV)-peers"
	@test -x $(VENV)-peers/bin/python || $(PYTHON) -m venv $(VENV)-peers
	@$(bin)/python tools/requirements.py peers > $(stamps)/peers.txt
	@$(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check -r $(stamps)/peers.txt \
	  || echo "some peers cannot be installed here; their figures will be missing" >&2
	@touch $@

bench: $(base) $(stamps)/group-test $(stamps)/peers  ## run the benchmarks against their peers, one JSON line per figure
	@$(bin)/python -m benchmarks $(ARGS)

performance: $(base) $(stamps)/group-torch  ## measure weft.kernels on a GPU and write docs/performance.md (ARGS="rows products")
	@$(bin)/python -m benchmarks.performance $(ARGS) && $(bin)/python -m docs.generate_reference

# torch and the peers are large: they are installed where there is a driver to use them.
with_driver := $(if $(WHEELS),,$(if $(wildcard /dev/nvidiactl),$(stamps)/group-torch $(stamps)/peers))

gpu: $(base) $(stamps)/group-gpu $(with_driver)  ## what needs an NVIDIA GPU, in five minutes: some cases of every test, the fuzzer
	@$(bin)/python -m tests.gpu quick $(ARGS)

gpu-all: $(base) $(stamps)/group-gpu $(with_driver)  ## all that needs an NVIDIA GPU, and its benchmarks; both say why where there is none
	@$(bin)/python -m tests.gpu all $(ARGS)

clean:  ## remove what was built (not .venv)
	rm -rf build dist src/weft/_native*.so src/weft/lib $(stamps)/native $(stamps)/package
