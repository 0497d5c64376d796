"""What the interpreter finds: races, deadlocks, stray accesses, unbalanced semaphores."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax

F32 = "float32"
PAIR = pl.Mesh({"i": 2}, name="pair")
LEFT = pl.Mesh({"c": 1}, name="left")
RIGHT = pl.Mesh({"c": 1}, name="right")
SHARED_CELL = pl.SHARED((), F32)


def struct(*shape, dtype=F32):
    return weft.ShapeDtypeStruct(shape, dtype)


def arange(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def lines_of(fun, *marks):
    """The line numbers of a function's source lines with these comments."""
    import inspect

    text, first = inspect.getsourcelines(fun)
    return [next(first + k for k, line in enumerate(text) if m in line) for m in marks]


def run(kernel, scratch=(), *, mesh=PAIR, out=None, args=(), **params):
    return pl.mpmd_map(
        [(mesh, kernel)],
        struct(2) if out is None else out,
        scratch,
        interpret=pl.InterpretParams(**params),
    )(*args)


# Races -----------------------------------------------------------------------------------------


def unordered_writes(out, box):
    box[...] = jnp.float32(1)
    out[lax.axis_index("i")] = 0.0


def write_then_read(out, box):
    i = lax.axis_index("i")

    @pl.when(i == 0)
    def _():
        box[...] = jnp.float32(1)  # writes

    @pl.when(i == 1)
    def _():
        out[...] = jnp.zeros(2) + box[...]  # reads


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", [unordered_writes, write_then_read])
def test_accesses_that_nothing_orders_race(kernel, seed):
    with pytest.raises(pl.DataRaceError, match=r"data race on box: pair\(i=\d\)"):
        run(kernel, [SHARED_CELL], random_seed=seed, uninitialized_memory="nan")


def test_a_race_names_both_lines():
    writes, reads = lines_of(write_then_read, "# writes", "# reads")
    with pytest.raises(pl.DataRaceError) as e:
        run(write_then_read, [SHARED_CELL], uninitialized_memory="nan")
    assert f"test_interpret.py:{writes}" in str(e.value)
    assert f"test_interpret.py:{reads}" in str(e.value)


def test_races_can_be_left_undetected():
    out = run(unordered_writes, [SHARED_CELL], detect_races=False)
    assert_array_equal(out, [0, 0])


def test_a_signal_orders_only_what_came_before_it():
    def kernel(out, box, sem):
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            box[0] = 1.0
            pl.semaphore_signal(sem, core_index=1)
            box[1] = 2.0

        @pl.when(i == 1)
        def _():
            pl.semaphore_wait(sem)
            out[0] = box[0]
            out[1] = box[1]

    with pytest.raises(pl.DataRaceError, match="data race on box"):
        run(
            kernel,
            [pl.SHARED((2,), F32), pl.SemaphoreType.REGULAR],
            uninitialized_memory="nan",
        )


def test_disjoint_parts_do_not_race():
    def kernel(out, box):
        i = lax.axis_index("i")
        box[i] = i.astype(F32)
        out[i] = box[i]

    assert_array_equal(run(kernel, [pl.SHARED((2,), F32)]), [0, 1])


def test_a_destination_read_before_its_copy_is_done_races():
    def kernel(x, out, box, sem):
        copy = pl.async_copy(x, box, sem).start()
        out[...] = box[...]
        copy.wait()

    with pytest.raises(pl.DataRaceError, match="the copy that left"):
        run(
            kernel,
            [pl.LOCAL((2,), F32), pl.SemaphoreType.DMA],
            mesh=LEFT,
            args=(arange(2),),
            uninitialized_memory="nan",
        )


def test_a_source_changed_before_its_copy_is_done_races():
    def kernel(x, out, box, sem):
        box[...] = x[...]
        copy = pl.async_copy(box, out, sem).start()
        box[0] = 5.0
        copy.wait()

    with pytest.raises(pl.DataRaceError, match="data race on box"):
        pl.pallas_call(
            kernel,
            struct(2),
            scratch_shapes=[pl.LOCAL((2,), F32), pl.SemaphoreType.DMA],
            interpret=True,
        )(arange(2))


def test_an_atomic_races_with_a_plain_access():
    def kernel(zero, out):
        @pl.when(lax.axis_index("i") == 0)
        def _():
            pl.atomic_add(out, 0, 1.0)

        @pl.when(lax.axis_index("i") == 1)
        def _():
            out[0] = 3.0

    f = pl.mpmd_map([(PAIR, kernel)], struct(2), input_output_aliases={0: 0}, interpret=True)
    with pytest.raises(pl.DataRaceError, match="updates it|writes it"):
        f(arange(2))


def parallel_grid(kernel, out, **options):
    return pl.pallas_call(
        kernel,
        out,
        grid=4,
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        interpret=True,
        **options,
    )


def test_parallel_programs_that_write_one_place_race():
    def kernel(out):
        out[0] = 1.0

    with pytest.raises(pl.DataRaceError, match=r"program \(\d,\)"):
        parallel_grid(kernel, struct(2))()
    pl.pallas_call(kernel, struct(2), grid=4, interpret=True)()  # in order they do not


def test_parallel_programs_that_share_an_output_block_race():
    def kernel(out):
        out[...] = jnp.zeros(2)

    spec = pl.BlockSpec((2,), lambda i: (i // 2,))
    with pytest.raises(pl.DataRaceError, match="data race on out: program"):
        parallel_grid(kernel, struct(4), out_specs=spec)()


# Deadlocks and semaphores ----------------------------------------------------------------------


def test_a_deadlock_says_who_waits_for_what():
    def left(out, a, b):
        pl.semaphore_wait(a)
        pl.semaphore_signal(b)

    def right(out, a, b):
        pl.semaphore_wait(b)  # waits
        pl.semaphore_signal(a)

    f = pl.mpmd_map(
        [(LEFT, left), (RIGHT, right)],
        struct(2),
        [pl.SemaphoreType.REGULAR @ LEFT, pl.SemaphoreType.REGULAR @ RIGHT],
        interpret=True,
        name="crossed",
    )
    with pytest.raises(pl.DeadlockError) as e:
        f()
    text = str(e.value)
    assert "kernel crossed: deadlock" in text
    assert "left(c=0) waits at" in text and "semaphore a of left(c=0) to be at least 1" in text
    line = lines_of(test_a_deadlock_says_who_waits_for_what, "# waits")[0]
    assert f"right(c=0) waits at {__file__}:{line}" in text


@pytest.mark.parametrize("how", ["semaphore", "lock"])
def test_looking_forever_for_what_never_comes_is_a_deadlock(how):
    def kernel(zero, lock, sem):
        def free(_):
            if how == "lock":
                return pl.atomic_cas(lock, 5, 1) != 5
            return pl.semaphore_read(sem) < 1

        lax.while_loop(free, lambda c: c, jnp.int32(0))

    call = pl.mpmd_map(
        [(pl.Mesh({"i": 2}), kernel)],
        struct(dtype="int32"),
        [pl.SemaphoreType.REGULAR],
        input_output_aliases={0: 0},
        interpret=True,
    )
    with pytest.raises(pl.DeadlockError, match=r"looks again and again at .*test_interpret.py:\d+"):
        call(np.int32(0))


def test_a_barrier_that_not_all_reach_is_a_deadlock():
    def kernel(out, barrier):
        @pl.when(lax.axis_index("i") == 0)
        def _():
            pl.core_barrier(barrier)

    with pytest.raises(pl.DeadlockError, match=r"barrier barrier \(1 of 2 cores are there\)"):
        run(kernel, [pl.SemaphoreType.BARRIER])


def test_waiting_for_a_copy_nobody_started_is_a_deadlock():
    def kernel(x, out, sem):
        pl.async_copy(x, out, sem).wait()

    with pytest.raises(pl.DeadlockError, match="a copy to finish"):
        pl.pallas_call(kernel, struct(2), scratch_shapes=[pl.SemaphoreType.DMA], interpret=True)(
            arange(2)
        )


def unbalanced(out, sems):
    pl.semaphore_signal(sems.at[1], 2)
    out[...] = jnp.zeros(2)


def test_a_semaphore_left_above_zero_is_an_error():
    scratch = [pl.SemaphoreType.REGULAR((2,))]
    with pytest.raises(pl.SemaphoreError, match=r"sems\[1\] of left\(c=0\) is 2 at the end"):
        run(unbalanced, scratch, mesh=LEFT)
    run(unbalanced, scratch, mesh=LEFT, check_semaphores=False)


def test_a_copy_nobody_waited_for_leaves_its_semaphore():
    def kernel(x, out, sem):
        pl.async_copy(x, out, sem).start()

    with pytest.raises(pl.SemaphoreError, match="sem is 1 at the end"):
        pl.pallas_call(kernel, struct(2), scratch_shapes=[pl.SemaphoreType.DMA], interpret=True)(
            arange(2)
        )


def test_semaphores_are_read_and_do_not_go_negative():
    def kernel(out, sem):
        pl.semaphore_signal(sem, 3)
        out[0] = pl.semaphore_read(sem).astype(F32)
        pl.semaphore_wait(sem, 2)
        out[1] = pl.semaphore_read(sem).astype(F32)
        pl.semaphore_wait(sem)

    assert_array_equal(run(kernel, [pl.SemaphoreType.REGULAR], mesh=LEFT), [3, 1])

    def negative(out, sem):
        pl.semaphore_signal(sem, -1)

    with pytest.raises(pl.SemaphoreError, match="makes sem of left.* negative"):
        run(negative, [pl.SemaphoreType.REGULAR], mesh=LEFT)


# Memory ----------------------------------------------------------------------------------------


OUTSIDE = {
    "index": lambda x, i: x[i],
    "window": lambda x, i: x[pl.ds(i - 1, 3)].sum(),
    "index array": lambda x, i: x[jnp.array([0, 1]) * i].sum(),
    "masked window": lambda x, i: pl.load(x, pl.ds(i - 1, 3), mask=jnp.arange(3) > 0).sum(),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_accesses_outside_of_a_ref_raise(name):
    def kernel(x, i, out):
        out[...] = OUTSIDE[name](x, i[...])

    f = pl.pallas_call(kernel, struct(), interpret=True)
    f(arange(4), np.int32(2))
    with pytest.raises(pl.OutOfBoundsError, match="outside of dimension 0 of x, which has size 4"):
        f(arange(4), np.int32(5))
    with pytest.raises(IndexError):
        f(arange(4), np.int32(-5))


def test_a_mask_hides_what_lies_outside():
    def kernel(x, out):
        at = pl.ds(pl.program_id(0) * 4, 4)
        inside = pl.program_id(0) * 4 + jnp.arange(4) < 6
        pl.store(out, at, pl.load(x, at, mask=inside, other=0.0) + 1, mask=inside)

    any_space = pl.BlockSpec(memory_space=pl.ANY)
    f = pl.pallas_call(
        kernel, struct(6), grid=2, in_specs=[any_space], out_specs=any_space, interpret=True
    )
    assert_array_equal(f(arange(6)), arange(6) + 1)


def test_an_index_map_that_leaves_the_array_raises():
    def kernel(x, out):
        out[...] = x[...]

    f = pl.pallas_call(
        kernel,
        struct(4),
        grid=2,
        in_specs=[pl.BlockSpec((2,), lambda i: (i + 1,))],
        out_specs=pl.BlockSpec((2,), lambda i: (i,)),
        interpret=True,
    )
    with pytest.raises(pl.OutOfBoundsError, match="index map of x gives index 2"):
        f(arange(4))


def read_first(x, out, tmp):
    tmp[0] = x[0]
    out[...] = tmp[...]


def test_reading_what_nobody_wrote_raises_or_gives_poison():
    def call(how):
        return pl.pallas_call(
            read_first,
            struct(3),
            scratch_shapes=[pl.LOCAL((3,), F32)],
            interpret=pl.InterpretParams(uninitialized_memory=how),
        )(arange(3) + 5)

    with pytest.raises(pl.UninitializedReadError, match="of which 2 of the 3 elements read nobody"):
        call("raise")
    assert_array_equal(call("nan"), [5, np.nan, np.nan])
    assert_array_equal(call("zero"), [5, 0, 0])


def test_outputs_that_nobody_writes_are_poison():
    def kernel(floats, ints):
        floats[0] = 1.0
        ints[1] = 2

    floats, ints = pl.pallas_call(kernel, [struct(2), struct(2, dtype="int32")], interpret=True)()
    assert_array_equal(floats, [1, np.nan])
    assert_array_equal(ints, [np.iinfo(np.int32).max, 2])


def test_updating_an_uninitialized_output_raises():
    def kernel(x, out):
        pl.atomic_add(out, 0, x[0])

    with pytest.raises(pl.UninitializedReadError, match="reads out"):
        pl.pallas_call(kernel, struct(2), interpret=True)(arange(2))


def test_debug_checks_raise_with_their_message():
    def kernel(x, out):
        pl.debug_check((x[...] >= 0).all(), "x must not be negative")
        out[...] = x[...]

    f = pl.pallas_call(kernel, struct(2), interpret=True)
    f(arange(2))
    with pytest.raises(pl.KernelError, match="x must not be negative"):
        f(arange(2) - 1)


def test_errors_leave_jitted_programs_as_they_are():
    def kernel(x, out):
        out[...] = x[x[0].astype("int32")]

    f = weft.jit(lambda x: pl.pallas_call(kernel, struct(), interpret=True)(x) + 1)
    assert float(f(np.array([1, 3], F32))) == 4
    with pytest.raises(Exception, match=r"index 7 is outside of dimension 0 of x"):
        f(np.array([7, 3], F32)).block_until_ready()


def test_one_seed_gives_one_interleaving():
    def kernel(zero, out):
        i = lax.axis_index("i")
        out[pl.atomic_add(out, 0, 1)] = i + 10

    f = pl.Mesh({"i": 4})
    seen = set()
    for seed in (0, 0, 1, 2, 3, 4):
        order = pl.mpmd_map(
            [(f, kernel)],
            struct(5, dtype="int32"),
            input_output_aliases={0: 0},
            interpret=pl.InterpretParams(random_seed=seed, detect_races=True),
        )(np.array([1, 0, 0, 0, 0], np.int32))
        assert sorted(np.asarray(order)[1:]) == [10, 11, 12, 13]
        seen.add((min(seed, 1) * seed, tuple(np.asarray(order))))
    assert len({s for s, _ in seen}) == len(seen)  # one result for each seed
    assert len({o for _, o in seen}) > 1  # and not the same for all
