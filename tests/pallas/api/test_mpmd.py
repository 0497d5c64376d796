"""mpmd_map: meshes, semaphores, barriers, copies, shared and own scratch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import P, lax

F32 = "float32"
SEEDS = range(4)  # of the interpreter; natively, as many runs
LEFT = pl.Mesh({"c": 1}, name="left")
RIGHT = pl.Mesh({"c": 1}, name="right")
RING = pl.Mesh({"i": 4}, name="ring")

INTERPRET = True


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def executor(request):
    """Every test of this file runs with both executors."""
    global INTERPRET
    INTERPRET = request.param == "interpreted"


def struct(*shape, dtype=F32):
    return weft.ShapeDtypeStruct(shape, dtype)


def arange(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def seeded(seed):
    return INTERPRET and pl.InterpretParams(random_seed=seed)


def produce(x, out, box, full, free):
    def body(i, carry):
        slot = i % 2
        pl.semaphore_wait(free.at[slot])
        box[slot] = x[i] * 2
        pl.semaphore_signal(full.at[slot])
        return carry

    lax.fori_loop(0, x.shape[0], body, None)


def consume(x, out, box, full, free):
    n = x.shape[0]
    for slot in range(2):
        pl.semaphore_signal(free.at[slot])

    def body(i, carry):
        slot = i % 2
        pl.semaphore_wait(full.at[slot])
        out[i] = box[slot] + 1

        @pl.when(i < n - 2)
        def _():
            pl.semaphore_signal(free.at[slot])

        return carry

    lax.fori_loop(0, n, body, None)


def pipeline(rows=6, columns=4, **options):
    options.setdefault("interpret", INTERPRET)
    return pl.mpmd_map(
        [(LEFT, produce), (RIGHT, consume)],
        struct(rows, columns),
        [
            pl.SHARED((2, columns), F32),
            pl.SemaphoreType.REGULAR((2,)) @ RIGHT,
            pl.SemaphoreType.REGULAR((2,)) @ LEFT,
        ],
        **options,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_two_meshes_pass_data_through_a_double_buffer(seed):
    assert_array_equal(pipeline(interpret=seeded(seed))(arange(6, 4)), arange(6, 4) * 2 + 1)


def test_a_pipeline_runs_under_jit_vmap_and_shard_map():
    x = arange(6, 4)
    assert_array_equal(weft.jit(pipeline())(x), x * 2 + 1)
    many = np.stack([x, -x])
    assert_array_equal(weft.vmap(pipeline())(many), many * 2 + 1)
    assert_array_equal(
        weft.vmap(pipeline(), in_axes=1, out_axes=1)(arange(6, 3, 4)), arange(6, 3, 4) * 2 + 1
    )
    mesh = weft.make_mesh((4,), ("d",), axis_types=(weft.AxisType.Auto,))
    f = weft.shard_map(pipeline(2), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    assert_array_equal(weft.jit(f)(arange(8, 4)), arange(8, 4) * 2 + 1)


def test_cores_know_their_place_on_the_mesh():
    mesh = pl.Mesh({"a": 2, "b": 3})

    def kernel(out):
        a, b = lax.axis_index("a"), lax.axis_index("b")
        assert (lax.axis_size("a"), lax.axis_size("b")) == (2, 3)
        out[a, b] = lax.axis_index(("a", "b")) + 10 * b

    out = pl.kernel(kernel, struct(2, 3, dtype="int32"), mesh=mesh, interpret=INTERPRET)()
    assert_array_equal(out, np.arange(6).reshape(2, 3) + 10 * np.arange(3))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_orders_shared_memory(seed):
    def kernel(x, out, tmp, barrier):
        i = lax.axis_index("i")
        for step in range(3):
            tmp[i] = x[i] * (step + 1)
            pl.core_barrier(barrier)
            out[step, i] = tmp[(i + 1) % 4]
            pl.core_barrier(barrier)

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(3, 4),
        [pl.SHARED((4,), F32), pl.SemaphoreType.BARRIER],
        interpret=seeded(seed),
    )
    x = arange(4)
    assert_array_equal(f(x), np.stack([np.roll(x, -1) * s for s in (1, 2, 3)]))


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_exchange_halos_between_neighbours(seed):
    def kernel(x, out, mine, halo, sem):
        i = lax.axis_index("i")
        mine[...] = x[pl.ds(i * 3, 3)]
        copy = pl.async_copy(mine.at[2:], halo, sem, core_index=(i + 1) % 4).start()
        copy.wait()
        out[pl.ds(i * 3, 1)] = mine[:1] + halo[...]
        out[pl.ds(i * 3 + 1, 2)] = mine[1:] + mine[:2]

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(12),
        [pl.LOCAL((3,), F32), pl.LOCAL((1,), F32), pl.SemaphoreType.DMA],
        interpret=seeded(seed),
    )
    x = arange(12)
    assert_array_equal(f(x), x + np.roll(x, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_signals_reach_the_target_core(seed):
    """Each core passes a token on; core 0 begins and ends."""

    def kernel(out, box, sem):
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            box[...] = jnp.float32(1)
            pl.semaphore_signal(sem, core_index={"i": 1})

        pl.semaphore_wait(sem)

        @pl.when(i == 0)
        def _():
            out[...] = box[...]

        @pl.when(i != 0)
        def _():
            box[...] = box[...] * 2
            pl.semaphore_signal(sem, core_index=(i + 1) % 4)

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(),
        [pl.SHARED((), F32), pl.SemaphoreType.REGULAR],
        interpret=seeded(seed),
    )
    assert float(f()) == 8


@pytest.mark.parametrize("seed", SEEDS)
def test_atomics_need_no_order(seed):
    def kernel(x, zero, out):
        i = lax.axis_index("i")
        pl.atomic_add(out, x[pl.ds(i * 4, 4)], 1)
        pl.atomic_max(out, 4, i)

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(5, dtype="int32"),
        input_output_aliases={1: 0},
        interpret=seeded(seed),
    )
    x = np.random.default_rng(seed).integers(0, 4, 16).astype(np.int32)
    expected = np.append(np.bincount(x, minlength=4), 3)
    assert_array_equal(f(x, np.zeros(5, np.int32)), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_made_of_compare_and_swap_orders_what_it_guards(seed):
    def kernel(zero, out, lock, turn):
        @pl.when(lax.axis_index("i") == 0)
        def _():
            lock[...] = jnp.int32(0)

        pl.core_barrier(turn)
        lax.while_loop(lambda held: held != 0, lambda _: pl.atomic_cas(lock, 0, 1), jnp.int32(1))
        out[...] = out[...] + 1.0
        pl.atomic_xchg(lock, ..., 0)

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(),
        [pl.SHARED((), "int32"), pl.SemaphoreType.BARRIER],
        input_output_aliases={0: 0},
        interpret=seeded(seed),
    )
    assert float(f(np.float32(0))) == 4


def test_scratch_by_name_and_pytrees():
    def kernel(args, out, *, tmp, barrier):
        i = lax.axis_index("i")
        tmp[i] = args["x"][i] + args["y"][i]
        pl.core_barrier(barrier)
        out["z"][i] = tmp[3 - i]

    f = pl.mpmd_map(
        [(RING, kernel)],
        {"z": struct(4)},
        {"tmp": pl.SHARED((4,), F32), "barrier": pl.SemaphoreType.BARRIER},
        interpret=INTERPRET,
    )
    out = f({"x": arange(4), "y": np.ones(4, F32)})
    assert_array_equal(out["z"], (arange(4) + 1)[::-1])


def test_local_scratch_is_each_cores_own():
    def kernel(out, tmp):
        i = lax.axis_index("i")
        tmp[...] = i
        out[i] = tmp[...] * 2

    f = pl.mpmd_map(
        [(RING, kernel)],
        struct(4, dtype="int32"),
        [pl.LOCAL((), "int32")],
        interpret=INTERPRET,
    )
    assert_array_equal(f(), [0, 2, 4, 6])


def test_barriers_may_count_one_mesh_only():
    def one(out, barrier):
        pl.core_barrier(barrier, meshes=[RING])
        out[lax.axis_index("i")] = 1.0

    def other(out, barrier):
        out[4] = 2.0

    f = pl.mpmd_map(
        [(RING, one), (LEFT, other)], struct(5), [pl.SemaphoreType.BARRIER], interpret=INTERPRET
    )
    assert_array_equal(f(), [1, 1, 1, 1, 2])


def test_closed_over_arrays_and_refs():
    table = jnp.arange(4.0) * 10
    ref = weft.new_ref(np.zeros(4, F32))

    def first(out):
        i = lax.axis_index("i")
        out[i] = table[i] + 1

    def second(out):
        ref[...] = table[...] * 2

    f = weft.jit(pl.mpmd_map([(RING, first), (LEFT, second)], struct(4), interpret=INTERPRET))
    assert_array_equal(f(), np.arange(4) * 10 + 1)
    assert_array_equal(ref[...], np.arange(4) * 20)


def test_core_map_works_on_what_it_closes_over():
    ref = weft.new_ref(np.zeros(4, F32))

    @pl.core_map(RING, interpret=INTERPRET)
    def _():
        i = lax.axis_index("i")
        ref[i] = i.astype(F32) * 2

    assert_array_equal(ref[...], [0, 2, 4, 6])


def test_kernel_decorates():
    @pl.kernel(mesh=RING, out_type=struct(4, dtype="int32"), interpret=INTERPRET)
    def where(out):
        out[lax.axis_index("i")] = lax.axis_index("i")

    assert_array_equal(where(), np.arange(4))
    f = pl.kernel(
        [produce, consume],
        struct(6, 4),
        mesh=[LEFT, RIGHT],
        scratch_types=[
            pl.SHARED((2, 4), F32),
            pl.SemaphoreType.REGULAR((2,)) @ RIGHT,
            pl.SemaphoreType.REGULAR((2,)) @ LEFT,
        ],
        interpret=INTERPRET,
    )
    assert_array_equal(f(arange(6, 4)), arange(6, 4) * 2 + 1)


def test_custom_rules_differentiate_an_mpmd_kernel():
    f = weft.custom_vjp(pipeline())
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 2,))
    assert_allclose(
        weft.grad(lambda x: (f(x) ** 2).sum())(arange(6, 4)), 4 * (arange(6, 4) * 2 + 1)
    )


def test_meshes_say_what_they_are():
    mesh = pl.Mesh([("a", 2), ("b", 3)], name="m", dimension_semantics=("parallel", "arbitrary"))
    assert (mesh.axis_names, mesh.axis_sizes, mesh.size) == (("a", "b"), (2, 3), 6)
    assert pl.Mesh({"a": 2}) == pl.Mesh({"a": 2}) != pl.Mesh({"a": 3})
    mesh.check_is_compatible_with(pl.Mesh({"a": 2}, name="n"))
    assert "SemaphoreType" not in repr(pl.SemaphoreType.DMA @ mesh)


def test_functions_know_the_axis_sizes_of_every_mesh():
    left, right = pl.Mesh({"i": 2}, name="left"), pl.Mesh({"j": 3}, name="right")

    def first(x, out, other):
        out[lax.axis_index("i")] = x[0] * lax.axis_size("j") * lax.axis_size(("i", "j"))

    def second(x, out, other):
        other[lax.axis_index("j")] = x[0] * lax.axis_size("i")

    run = pl.mpmd_map([(left, first), (right, second)], (struct(2), struct(3)), interpret=INTERPRET)
    out, other = run(np.full(1, 5, F32))
    assert_array_equal(out, [90.0, 90.0])
    assert_array_equal(other, [10.0, 10.0, 10.0])


def test_the_index_along_an_axis_of_another_mesh_is_refused():
    left, right = pl.Mesh({"i": 2}, name="left"), pl.Mesh({"j": 3}, name="right")

    def kernel(out):
        out[lax.axis_index("i")] = 1.0

    run = pl.mpmd_map([(left, kernel), (right, kernel)], struct(2), interpret=INTERPRET)
    with pytest.raises(TypeError, match=r"axis 'i' .* axis of another mesh .*axis_size\('i'\)"):
        run()
