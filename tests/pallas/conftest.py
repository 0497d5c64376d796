"""The executors that tests of kernels run on."""

import pytest


@pytest.fixture(params=["interpreted", "native", "triton"])
def call(request):
    """pallas_call of an executor."""
    import weft.pallas as pl
    from tests.pallas import triton_machine

    if request.param == "triton":
        return triton_machine.pallas_call
    interpret = request.param == "interpreted"
    return lambda *args, **options: pl.pallas_call(*args, interpret=interpret, **options)
