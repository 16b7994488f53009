# make demo: set up, then count real text with a real tokenizer, offline.
# make test: set up, then run the tests.   make check: lint, format, types and tests, as CI does.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_ENV := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
TESTS ?= tests
# CUDA builds of torch bring Triton; with the CPU build it interprets and compiles kernels in tests.
DEV := hypothesis pytest transformers 'triton; sys_platform == "linux"'

.PHONY: demo test check lint wheel-test bench clean

$(VENV)/demo.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_ENV) $(BIN)/pip install -q -e '.[plots]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	$(PIP_ENV) $(BIN)/pip install -q -e '.[plots,runtime]' $(DEV) build mypy ruff
	touch $@

demo: $(VENV)/demo.stamp
	@VOCABFREQ=$(BIN)/vocabfreq PYTHON=$(BIN)/python sh data/demo.sh

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(TESTS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

# The tests again, against the built wheel instead of the working tree.
wheel-test: $(VENV)/dev.stamp
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build -q --wheel --outdir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	$(PIP_ENV) build/wheel/venv/bin/pip install -q "$$(ls build/wheel/*.whl)[plots,runtime]" $(DEV)
	cp -r tests data pyproject.toml build/wheel/
	cd build/wheel && venv/bin/python -m pytest $(TESTS)

clean:
	rm -rf $(VENV) build dist
