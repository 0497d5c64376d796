# Every target sets up what it needs in .venv; a fresh clone needs only Python >= 3.11, make and pip.
# With another jaxlib it is .venv-<version>:  make test PYTHON=python3.12 JAXLIB=0.11.2
PYTHON ?= $(shell command -v python3.11 || command -v python3)
JAXLIB ?= 0.10.2
VENV   := .venv$(patsubst %,-%,$(filter-out 0.10.2,$(JAXLIB)))
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CUDA   := $(VENV)/cuda/.ready
TPU    := $(VENV)/tpu/.ready
TORCH  := $(VENV)/torch/.ready
MKDOCS := $(VENV)/mkdocs/.ready
TOOLS  := $(VENV)/tools/.ready
JOBS   ?= 2
QUICK  := tests/test_layering.py tests/test_house.py tests/test_mirror.py tests/core tests/lowering tests/autodiff tests/refs/test_api.py \
          tests/driver/test_jit.py tests/api/test_grad.py tests/api/test_shard_map.py tests/ops/test_argreduce.py \
          tests/numpy/test_indexing.py tests/collectives/test_gather.py tests/partition/test_localize.py

# Pages whose screenshots `make docs-look` takes, at two widths.
LOOK   := README tutorial partitioning reference/weft.numpy performance

.PHONY: demo docs docs-look matrix size test libraries array-api test-accelerators test-elsewhere quick house stubs bench lint types format clean env cuda tpu
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "weft needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]' \
	    jax==$(JAXLIB) jaxlib==$(JAXLIB)
	@$(BIN)/python -m tests.lighten
	@touch $@

# XLA's CUDA plugin and ptxas, with which tests compile for GPUs. They stand in a folder where JAX,
# the other side of comparisons, does not look for GPUs.
$(CUDA): $(READY)
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D) \
	    jax-cuda12-pjrt==$(JAXLIB) jax-cuda12-plugin==$(JAXLIB) nvidia-cuda-nvcc-cu12==12.9.86 || \
	{ echo "XLA's CUDA plugin could not be installed in $(@D): tests that compile for GPUs need it" >&2; exit 1; }
	@touch $@

# PyTorch's CPU build, which operations on the CPU are compared with.
$(TORCH): $(READY)
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check numpy torch==2.13.0
	@touch $@

# The generator of the documentation's site, in an environment of its own.
$(MKDOCS): $(READY)
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs==1.6.*' 'mkdocs-material==9.*'
	@touch $@

# Checkers of types, and what an editor completes, in an environment of their own.
$(TOOLS): $(READY)
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    'basedpyright==1.40.*' 'mypy>=1.15' 'jedi>=0.19'
	@touch $@

# XLA's compiler for TPUs, in the version that JAX names for itself.
$(TPU): $(READY)
	@rm -rf $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(@D) \
	    "$$($(BIN)/python -c 'import importlib.metadata as m; print(next(r.split(";")[0] for r in m.requires("jax") if r.startswith("libtpu")))')" || \
	{ echo "libtpu could not be installed in $(@D): tests that compile for TPUs need it" >&2; exit 1; }
	@touch $@

env: $(READY) size

# What the environment of `make test` takes, and its largest packages, in MB.
size: $(READY)
	@echo "$(VENV): $$(du -sm $(VENV)/ --exclude=cuda --exclude=tpu --exclude=torch --exclude=mkdocs --exclude=tools | cut -f1) MB, of which" \
	    $$(du -sm $(VENV)/lib/python*/site-packages/* | sort -rn | head -8 | sed 's|\t.*/|\t|' | awk '{printf "%s %s, ", $$2, $$1}') "…"

cuda: $(CUDA)

tpu: $(TPU)

demo: $(READY)
	$(BIN)/python -m examples.train

test: $(READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m "not accelerators" $(ARGS)

# What compiles for GPUs and TPUs that are described: XLA's plugins take 1.5 GB.
test-accelerators: $(READY) $(CUDA) $(TPU)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m accelerators $(ARGS)

# The edit loop: one file of each room, and what holds for all of them.
quick: $(READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -p no:cacheprovider $(QUICK) $(ARGS)

# What editors see of namespaces that load lazily.
stubs: $(READY)
	$(BIN)/python -m tests.stubs

# The documentation as a site in build/site, which needs no server; dead links are errors.
docs: $(MKDOCS)
	$(BIN)/python docs/gather.py build/docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs/bin/mkdocs build --quiet --strict
	@! grep -rlE '<h[1-6][^>]*>[^<]*(<(strong|em)>|[{] #)' build/site --include=*.html || { echo "these pages have headings that Markdown did not understand" >&2; exit 1; }
	@! grep -rlE '<(script|img|iframe)[^>]* src="https?:' build/site || { echo "these pages fetch files from the network" >&2; exit 1; }

# Screenshots of some pages at the widths of a phone and of a desk, in build/look.
docs-look: docs
	@command -v chromium >/dev/null || { echo "make docs-look takes screenshots with chromium, which is not installed" >&2; exit 1; }
	@mkdir -p build/look
	@for page in $(LOOK); do for width in 500 1280; do \
	    name=$$(echo $$page | sed s/README/index/); \
	    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=$$width,1400 \
	        --screenshot=build/look/$$(basename $$name)-$$width.png file://$(CURDIR)/build/site/$$name.html 2>/dev/null; \
	done; done; ls build/look

# The figures of the structure, against the budgets of tests/house_budget.toml.
house: $(READY)
	$(BIN)/python -m tests.house

# Other instruction sets, numbers of cores, hash seeds and orders: tests/elsewhere.py.
test-elsewhere: $(READY)
	$(BIN)/python -m tests.elsewhere $(ARGS)

# The wheel and the sdist in clean environments: tests/matrix.py.  make matrix ARGS="3.12 wheel"
matrix:
	$(PYTHON) -m tests.matrix $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks --write docs/performance.md $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.eager_functions --write docs/performance.md)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.partition_corpus --write docs/partitioning.md)
	$(if $(ARGS),,$(MAKE) operations)

# Operations on the CPU beside JAX, NumPy and PyTorch:  make operations ARGS="sort --sizes all"
operations: $(READY) $(TORCH)
	$(BIN)/python -m benchmarks.operations --torch $(VENV)/torch/bin/python \
	    --write docs/cpu-operations.md $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m benchmarks.whole_steps --torch $(VENV)/torch/bin/python \
	    --write docs/cpu-operations.md)

# Test suites of libraries written for JAX, on JAX and on weft: LIB=equinox for one.
libraries: $(READY)
	$(BIN)/python -m benchmarks.libraries --write docs/libraries.md $(LIB) $(ARGS)

# weft.numpy against the array API standard: SUITE=folder runs its own suite too, from a checkout.
array-api: $(READY)
	$(BIN)/python -m benchmarks.array_api --write docs/array-api.md $(if $(SUITE),--suite $(SUITE)) $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# weft's own code by mypy; the examples and what users see by mypy and pyright, both strictly.
# To mypy, the gradient of a lambda or of a partial function is an untyped function.
types: $(TOOLS)
	$(<D)/bin/mypy --python-executable $(BIN)/python
	$(<D)/bin/mypy --python-executable $(BIN)/python --config-file= --strict --no-warn-return-any \
	    --follow-imports=silent examples --disable-error-code overload-overlap \
	    --allow-untyped-calls --exclude examples/jax --exclude numba_handler --exclude llvm_handler
	$(BIN)/python -m tests.types.check $(<D)/bin
	$(<D)/bin/python -m tests.types.editor

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
