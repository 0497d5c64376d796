"""Switches that make native kernels check what they do; names of cores; waits that only look."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import pallas as pl


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


def test_debug_checks_are_heeded_by_native_kernels_inside_the_switch():
    def kernel(x, out):
        pl.debug_check(x[0] > 0, "x starts above 0")
        out[...] = x[...]

    run = weft.jit(pl.pallas_call(kernel, shape(4)))
    x = np.zeros(4, np.float32)
    np.testing.assert_array_equal(run(x), x)
    with pl.enable_debug_checks(), pytest.raises(Exception, match="x starts above 0"):
        run(x).block_until_ready()
    with pl.enable_debug_checks(False):
        np.testing.assert_array_equal(run(x), x)


def test_bounds_are_checked_inside_the_switch():
    def kernel(i, out):
        out[i[0]] = 1.0

    with pl.enable_debug_checks(), pytest.raises(Exception, match="out of bounds"):
        pl.pallas_call(kernel, shape(4))(np.array([9], np.int32)).block_until_ready()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
def test_poisoned_scratch_shows_what_was_never_written(dtype):
    def kernel(out, memory):
        memory[0] = wnp.ones((), dtype)
        pl.run_scoped(lambda inner: pl.store(out, (2,), inner[0]), pl.LOCAL((1,), dtype))
        out[0], out[1] = memory[0], memory[1]

    call = pl.pallas_call(kernel, shape(3, dtype=dtype), scratch_shapes=[pl.LOCAL((2,), dtype)])
    with pl.enable_poison_buffers():
        got = np.asarray(call())
    assert got[0] == 1
    for value in got[1:]:
        assert value == np.iinfo(dtype).max if dtype == np.int32 else np.isnan(value)


@pytest.mark.parametrize("interpret", [True, False])
def test_cores_are_named_by_number_and_waits_may_leave_the_count(interpret):
    mesh = pl.Mesh({"a": 2, "b": 3})

    def kernel(out, ready):
        a, b = weft.lax.axis_index("a"), weft.lax.axis_index("b")
        number = a * 3 + b

        def signal(to, amount):
            pl.semaphore_signal(ready, amount, device_id=to, device_id_type=pl.DeviceIdType.LOGICAL)

        signal((number + 1) % 6, number + 1)
        before = (number + 5) % 6
        pl.semaphore_wait(ready, before + 1, decrement=False)
        out[number] = pl.semaphore_read(ready)
        pl.semaphore_wait(ready, before + 1)

    got = pl.kernel(
        kernel,
        shape(6, dtype=np.int32),
        mesh=mesh,
        scratch_types=[pl.SemaphoreType.REGULAR],
        interpret=interpret,
    )()
    np.testing.assert_array_equal(got, [6, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("interpret", [True, False])
def test_many_cores_wait_for_one_signal_that_stays(interpret):
    """Whoever waits beside the others never sees less than what was signalled."""
    mesh, cores = pl.Mesh({"c": 4}), 4

    def kernel(x, out, box, go, done):
        me = weft.lax.axis_index("c")

        @pl.when(me == 0)
        def _():
            box[...] = x[...] * 2
            pl.semaphore_signal(go, 1)

        def look(_, least):
            pl.semaphore_wait(go, 1, decrement=False)
            return wnp.minimum(least, pl.semaphore_read(go))

        least = weft.lax.fori_loop(0, 20 if interpret else 2000, look, np.int32(9))
        out[me] = box[...] + least
        pl.semaphore_signal(done, 1)

        @pl.when(me == 0)
        def _():
            pl.semaphore_wait(done, cores)
            pl.semaphore_wait(go, 1)

    semaphore = pl.SemaphoreType.REGULAR @ pl.SHARED
    got = pl.kernel(
        kernel,
        shape(cores, dtype=np.int32),
        mesh=mesh,
        scratch_types=[pl.SHARED((), np.int32), semaphore, semaphore],
        interpret=interpret,
    )(np.int32(5))
    np.testing.assert_array_equal(got, [11] * cores)


def test_a_map_over_cores_takes_scratch():
    ref = weft.new_ref(wnp.zeros(2))

    @pl.core_map(pl.Mesh({"c": 2}), scratch_shapes=[pl.LOCAL((), "float32")], name="fill")
    def _(memory):
        i = weft.lax.axis_index("c")
        memory[...] = i + 1.0
        ref[i] = memory[...] * 10

    np.testing.assert_array_equal(ref[...], [10, 20])
