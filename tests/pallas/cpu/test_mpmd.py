"""Several programs at once on the CPU: threads, semaphores, barriers, copies, deadlocks."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft import pallas as pl

REGULAR = pl.SemaphoreType.REGULAR


def shape(*dims, dtype=np.float32):
    return weft.ShapeDtypeStruct(dims, dtype)


def pair():
    return pl.Mesh({"c": 1}, name="left"), pl.Mesh({"c": 1}, name="right")


def test_a_producer_hands_blocks_to_a_consumer_through_two_buffers(rng):
    x = rng.standard_normal((16, 64)).astype("f4")
    left, right = pair()

    def produce(x, out, boxes, full, empty):
        def step(i, c):
            slot = i % 2
            pl.semaphore_wait(empty.at[slot])
            boxes[slot] = x[i] * 2
            pl.semaphore_signal(full.at[slot])
            return c

        pl.semaphore_signal(empty.at[0])
        pl.semaphore_signal(empty.at[1])
        lax.fori_loop(0, 16, step, 0)
        pl.semaphore_wait(empty.at[0])
        pl.semaphore_wait(empty.at[1])

    def consume(x, out, boxes, full, empty):
        def step(i, c):
            slot = i % 2
            pl.semaphore_wait(full.at[slot])
            out[i] = boxes[slot] + c
            pl.semaphore_signal(empty.at[slot])
            return c + 1

        lax.fori_loop(0, 16, step, wnp.float32(0))

    call = pl.mpmd_map(
        [(left, produce), (right, consume)],
        shape(16, 64),
        [pl.SHARED((2, 64), "float32"), REGULAR((2,)) @ right, REGULAR((2,)) @ left],
    )
    want = x * 2 + np.arange(16, dtype="f4")[:, None]
    for _ in range(20):
        np.testing.assert_allclose(np.asarray(call(x)), want, rtol=1e-6)


@pytest.mark.parametrize("cores", [2, 5, 24])
def test_a_ring_of_any_number_of_cores_goes_round(cores):
    mesh = pl.Mesh({"i": cores})

    def ring(x, out, box, sem):
        i = lax.axis_index("i")
        box[0] = x[i]

        def step(_, c):
            pl.semaphore_signal(sem, 1, core_index=(i + 1) % cores)
            pl.semaphore_wait(sem)
            return c + 1

        turns = lax.fori_loop(0, 10, step, 0)
        out[i] = box[0] * 10 + turns

    call = pl.mpmd_map([(mesh, ring)], shape(cores), [pl.LOCAL((1,), "float32"), REGULAR])
    np.testing.assert_allclose(
        np.asarray(call(np.arange(cores, dtype="f4"))), np.arange(cores) * 10.0 + 10
    )


def test_barriers_can_be_passed_again_and_shared_scratch_is_seen_after_them(rng):
    mesh = pl.Mesh({"i": 4})
    x = rng.standard_normal((4, 8)).astype("f4")

    def kernel(x, out, shared, barrier):
        i = lax.axis_index("i")

        def step(k, c):
            shared[i, :] = x[i, :] * (k + 1).astype("float32")
            pl.core_barrier(barrier)
            out[i, :] = shared[...].sum(0) + out[i, :]
            pl.core_barrier(barrier)
            return c

        out[i, :] = wnp.zeros((8,), "float32")
        lax.fori_loop(0, 5, step, 0)

    call = pl.mpmd_map(
        [(mesh, kernel)],
        shape(4, 8),
        [pl.SHARED((4, 8), "float32"), pl.SemaphoreType.BARRIER @ pl.SHARED],
    )
    want = np.broadcast_to(x.sum(0) * 15, (4, 8))
    np.testing.assert_allclose(np.asarray(call(x)), want, rtol=1e-4, atol=1e-4)


def test_async_copies_reach_the_memory_of_another_core():
    mesh = pl.Mesh({"i": 3})

    def shift(x, out, inbox, sem):
        i = lax.axis_index("i")
        copy = pl.async_copy(x.at[pl.ds(i, 1)], inbox, sem, core_index=(i + 1) % 3)
        copy.start()
        copy.wait()
        out[pl.ds(i, 1)] = inbox[...]

    scratch = [pl.LOCAL((1,), "float32"), pl.SemaphoreType.DMA]
    call = pl.mpmd_map([(mesh, shift)], shape(3), scratch)
    np.testing.assert_array_equal(np.asarray(call(np.arange(3, dtype="f4"))), [2, 0, 1])


def test_atomic_adds_of_all_cores_take_effect(rng):
    mesh = pl.Mesh({"i": 6})
    x = rng.integers(0, 8, (6, 500)).astype("i4")

    def kernel(x, start, out):
        i = lax.axis_index("i")

        def step(k, c):
            pl.atomic_add(out, (x[i, k],), 1)
            return c

        lax.fori_loop(0, 500, step, 0)

    call = pl.mpmd_map([(mesh, kernel)], shape(8, dtype="i4"), input_output_aliases={1: 0})
    got = np.asarray(call(x, np.zeros(8, "i4")))
    np.testing.assert_array_equal(got, np.bincount(x.ravel(), minlength=8))


def test_meshes_with_a_common_axis_pair_their_cores():
    left = pl.Mesh({"i": 3}, name="left")
    right = pl.Mesh({"i": 3}, name="right")

    def produce(x, out, boxes, full):
        i = lax.axis_index("i")
        boxes[i] = x[i] * 2
        pl.semaphore_signal(full)

    def consume(x, out, boxes, full):
        i = lax.axis_index("i")
        pl.semaphore_wait(full)
        out[i] = boxes[i] + 1

    call = pl.mpmd_map(
        [(left, produce), (right, consume)],
        shape(3),
        [pl.SHARED((3,), "float32"), REGULAR @ right],
    )
    np.testing.assert_array_equal(np.asarray(call(np.arange(3, dtype="f4"))), [1, 3, 5])


def test_a_deadlock_is_an_error_that_names_the_wait():
    mesh = pl.Mesh({"i": 2})

    def kernel(x, out, sem):
        pl.semaphore_wait(sem)
        out[...] = x[...]

    call = pl.mpmd_map([(mesh, kernel)], shape(2), [REGULAR], name="stuck")
    with pytest.raises(Exception, match=r"kernel stuck: deadlock[^$]*test_mpmd"):
        np.asarray(call(np.zeros(2, "f4")))


def test_debug_mode_checks_the_core_a_signal_goes_to():
    mesh = pl.Mesh({"i": 2})

    def kernel(x, out, sem):
        pl.semaphore_signal(sem, 1, core_index=lax.axis_index("i") + 1)
        out[...] = x[...]

    call = pl.mpmd_map([(mesh, kernel)], shape(2), [REGULAR], debug=True)
    with pytest.raises(Exception, match=r"semaphore_signal .*core index along 'i' is out of"):
        np.asarray(call(np.zeros(2, "f4")))


def test_virtual_devices_run_their_cores_side_by_side(rng):
    x = rng.standard_normal((8, 32)).astype("f4")
    left, right = pair()

    def produce(x, out, box, full):
        box[...] = x[...] * 2
        pl.semaphore_signal(full)

    def consume(x, out, box, full):
        pl.semaphore_wait(full)
        out[...] = box[...] + 1

    call = pl.mpmd_map(
        [(left, produce), (right, consume)],
        shape(1, 32),
        [pl.SHARED((1, 32), "float32"), REGULAR @ right],
    )
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    f = weft.shard_map(
        call, mesh=mesh, in_specs=weft.P("d"), out_specs=weft.P("d"), check_vma=False
    )
    np.testing.assert_allclose(np.asarray(weft.jit(f)(x)), x * 2 + 1, rtol=1e-6)


def test_the_error_that_came_first_is_the_one_reported():
    """Core 1 signals a core that does not exist; core 0 would wait for that signal for ever."""
    mesh = pl.Mesh({"i": 2})

    def kernel(x, out, sem):
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            pl.semaphore_wait(sem)

        @pl.when(i == 1)
        def _():
            pl.semaphore_signal(sem, 1, core_index=i + 1)

        out[...] = x[...]

    call = pl.mpmd_map([(mesh, kernel)], shape(2), [REGULAR], debug=True)
    with pytest.raises(Exception, match=r"semaphore_signal .*core index along 'i' is out of"):
        np.asarray(call(np.zeros(2, "f4")))
