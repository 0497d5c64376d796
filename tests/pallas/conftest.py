"""Kernels compiled by tests are kept apart from the user's; the executors that tests run on."""

import os
import tempfile

import pytest

os.environ.setdefault(
    "WEFT_KERNEL_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"weft-kernels-{os.getuid()}")
)


@pytest.fixture(params=["interpreted", "native", "triton"])
def call(request):
    """pallas_call of an executor."""
    import weft.pallas as pl
    from tests.pallas import triton_machine

    if request.param == "triton":
        return triton_machine.pallas_call
    interpret = request.param == "interpreted"
    return lambda *args, **options: pl.pallas_call(*args, interpret=interpret, **options)
