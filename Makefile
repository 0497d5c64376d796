# Every target sets up what it needs in .venv; a fresh clone needs only Python >= 3.11, make and pip.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CUDA   := .cuda/.ready
JOBS   ?= 2

.PHONY: demo test bench lint types format clean env cuda
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weft needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# XLA's CUDA plugin and ptxas, with which tests compile for GPUs. They stand outside of .venv, where
# JAX, the other side of comparisons, would look for GPUs.
$(CUDA): $(READY)
	@rm -rf .cuda
	@version=$$($(BIN)/python -c 'import jaxlib; print(jaxlib.__version__)') && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .cuda \
	    jax-cuda12-pjrt==$$version jax-cuda12-plugin==$$version nvidia-cuda-nvcc-cu12==12.9.86 || \
	{ echo "XLA's CUDA plugin could not be installed in .cuda: tests that compile for GPUs need it" >&2; exit 1; }
	@touch $@

env: $(READY)

cuda: $(CUDA)

demo: $(READY)
	$(BIN)/python -m examples.train

test: $(READY) $(CUDA)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks --write docs/performance.md $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.partition_corpus --write docs/partitioning.md)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cuda build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
