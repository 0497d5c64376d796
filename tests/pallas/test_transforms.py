"""Kernels under jit, vmap, jvp, custom_vjp, scan and shard_map; on shards by their rule."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import P, lax

F32 = "float32"

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


def rowwise(x, y, out):
    out[...] = jnp.sin(x[...]) * y[...]


def blocked(rows, columns, **options):
    spec = pl.BlockSpec((2, columns), lambda i: (i, 0))
    return pl.pallas_call(
        rowwise,
        struct(rows, columns),
        grid=rows // 2,
        in_specs=[spec, spec],
        out_specs=spec,
        interpret=INTERPRET,
        **options,
    )


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 1), (2, 0)])
def test_vmap_adds_a_grid_dimension(axes, rng):
    f = blocked(4, 3)
    args = []
    for d in axes:
        shape = [4, 3]
        if d is not None:
            shape.insert(d, 5)
        args.append(rng.normal(size=shape).astype(F32))
    x, y = (a if d is None else np.moveaxis(a, d, 0) for a, d in zip(args, axes, strict=True))
    expected = np.sin(x) * y
    assert_allclose(weft.vmap(f, in_axes=axes)(*args), expected, rtol=1e-6)
    jaxpr = str(weft.make_jaxpr(weft.vmap(f, in_axes=axes))(*args))
    assert "grid=(5, 2)" in jaxpr and "scan" not in jaxpr


def test_vmap_twice_and_program_ids_stay_those_of_the_kernel():
    def kernel(x, out):
        out[...] = x[...] + pl.program_id(0).astype(F32) * 100

    spec = pl.BlockSpec((1,), lambda i: (i,))
    f = pl.pallas_call(
        kernel, struct(3), grid=3, in_specs=[spec], out_specs=spec, interpret=INTERPRET
    )
    x = arange(2, 4, 3)
    assert_array_equal(weft.vmap(weft.vmap(f))(x), x + np.arange(3) * 100)


def test_vmap_of_whole_arrays_scratch_and_aliases():
    def kernel(x, start, out, tmp):
        del start
        tmp[...] = x[...] * 2
        out[...] += tmp[...]

    f = pl.pallas_call(
        kernel,
        struct(3),
        scratch_shapes=[pl.LOCAL((3,), F32)],
        input_output_aliases={1: 0},
        interpret=INTERPRET,
    )
    x, y = arange(4, 3), np.ones(3, F32)
    assert_array_equal(weft.vmap(f, in_axes=(0, None))(x, y), x * 2 + 1)


def test_jvp_pushes_tangents_through_the_kernel(rng):
    x, y, tx, ty = (rng.normal(size=(4, 3)).astype(F32) for _ in range(4))
    f = blocked(4, 3)
    value, tangent = weft.jvp(f, (x, y), (tx, ty))
    assert_allclose(value, np.sin(x) * y, rtol=1e-6)
    assert_allclose(tangent, np.cos(x) * tx * y + np.sin(x) * ty, rtol=1e-5)
    _, only_y = weft.jvp(lambda y: f(x, y), (y,), (ty,))
    assert_allclose(only_y, np.sin(x) * ty, rtol=1e-5)
    value, linear = weft.linearize(f, x, y)
    assert_allclose(linear(tx, ty), np.cos(x) * tx * y + np.sin(x) * ty, rtol=1e-5)


def test_jvp_follows_scratch_loops_and_branches(rng):
    def kernel(x, out, acc):
        acc[...] = jnp.zeros(())

        def body(i, carry):
            acc[...] += x[i] * x[i]
            return carry * x[i]

        product = lax.fori_loop(0, 4, body, jnp.float32(1))

        @pl.when(x[0] > 0)
        def _():
            acc[...] *= 3.0

        out[...] = acc[...] + product

    f = pl.pallas_call(kernel, struct(), scratch_shapes=[pl.LOCAL((), F32)], interpret=INTERPRET)
    for x in (arange(4) + 1, arange(4) - 2.5):
        t = rng.normal(size=4).astype(F32)
        scale = 3 if x[0] > 0 else 1
        gradient = 2 * scale * x + np.prod(x) / x
        value, tangent = weft.jvp(f, (x,), (t,))
        assert_allclose(value, scale * (x**2).sum() + np.prod(x), rtol=1e-5)
        assert_allclose(tangent, gradient @ t, rtol=1e-4)


def test_reverse_derivatives_come_from_custom_vjp(rng):
    x, y = (rng.normal(size=(4, 3)).astype(F32) for _ in range(2))

    def backward_kernel(x, y, g, dx, dy):
        dx[...] = jnp.cos(x[...]) * y[...] * g[...]
        dy[...] = jnp.sin(x[...]) * g[...]

    backward = pl.pallas_call(backward_kernel, [struct(4, 3)] * 2, interpret=INTERPRET)
    f = weft.custom_vjp(blocked(4, 3))
    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda saved, g: tuple(backward(*saved, g)))
    dx, dy = weft.jit(weft.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)))(x, y)
    assert_allclose(dx, np.cos(x) * y, rtol=1e-5)
    assert_allclose(dy, np.sin(x), rtol=1e-5)
    with pytest.raises(TypeError, match=r"kernel rowwise.*custom_vjp"):
        weft.grad(lambda x: blocked(4, 3)(x, y).sum())(x)


def test_kernels_run_in_scans(rng):
    xs = rng.normal(size=(3, 4, 3)).astype(F32)

    def body(carry, x):
        out = blocked(4, 3)(x, carry)
        return out, out.sum()

    last, sums = weft.jit(lambda xs: lax.scan(body, jnp.ones((4, 3)), xs))(xs)
    carry, expected = np.ones((4, 3)), []
    for x in xs:
        carry = np.sin(x) * carry
        expected.append(carry.sum())
    assert_allclose(last, carry, rtol=1e-5)
    assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def mesh():
    return weft.make_mesh((4, 2), ("x", "y"))


def test_kernels_run_on_each_shard_in_shard_map(mesh, rng):
    x, y = (rng.normal(size=(8, 6)).astype(F32) for _ in range(2))
    f = weft.shard_map(
        lambda x, y: blocked(2, 3)(x, y),
        mesh=mesh,
        in_specs=P("x", "y"),
        out_specs=P("x", "y"),
    )
    args = sharded(mesh, x, "x", "y"), sharded(mesh, y, "x", "y")
    assert_allclose(weft.jit(f)(*args), np.sin(x) * y, rtol=1e-6)


def sharded(mesh, x, *axes):
    return weft.device_put(x, weft.NamedSharding(mesh, P(*axes)))


def collectives(jitted, *args):
    return [op for op in str(jitted.lower(*args).stages.local).split() if "stablehlo.all_" in op]


@pytest.mark.parametrize("rule", [{"sharding_rule": "b d, b d -> b d"}, {"num_batch_dims": 1}])
def test_a_kernel_stays_sharded_along_its_rule(mesh, rule, rng):
    x, y = (rng.normal(size=(16, 3)).astype(F32) for _ in range(2))
    f = weft.jit(blocked(16, 3, **rule), partitioner="weft")
    args = sharded(mesh, x, "x"), sharded(mesh, y, "x")
    out = f(*args)
    assert out.addressable_shards[0].data.shape == (4, 3)
    assert_allclose(out, np.sin(x) * y, rtol=1e-6)
    assert not collectives(f, *args)


def test_without_a_rule_a_kernel_gets_whole_arrays(rng):
    mesh = weft.make_mesh((4, 2), ("x", "y"), (weft.sharding.AxisType.Auto,) * 2)
    x, y = (rng.normal(size=(16, 3)).astype(F32) for _ in range(2))
    f = weft.jit(blocked(16, 3), partitioner="weft")
    args = sharded(mesh, x, "x"), sharded(mesh, y, "x")
    assert_allclose(f(*args), np.sin(x) * y, rtol=1e-6)
    assert collectives(f, *args)


def test_dimensions_that_blocks_do_not_divide_are_gathered(mesh, rng):
    """A shard of 3 rows is no number of blocks of 2; the columns are one block."""
    x, y = (rng.normal(size=(12, 4)).astype(F32) for _ in range(2))
    f = weft.jit(blocked(12, 4, sharding_rule="b d, b d -> b d"), partitioner="weft")
    args = sharded(mesh, x, "x", "y"), sharded(mesh, y, "x", "y")
    assert_allclose(f(*args), np.sin(x) * y, rtol=1e-6)


def test_a_kernel_that_asks_for_its_place_is_not_split(mesh):
    def kernel(x, out):
        out[...] = x[...] + pl.program_id(0).astype(F32)

    spec = pl.BlockSpec((2,), lambda i: (i,))
    f = pl.pallas_call(
        kernel,
        struct(16),
        grid=8,
        in_specs=[spec],
        out_specs=spec,
        interpret=INTERPRET,
        sharding_rule="b -> b",
    )
    x = arange(16)
    out = weft.jit(f, partitioner="weft")(sharded(mesh, x, "x"))
    assert_array_equal(out, x + np.arange(16) // 2)


def test_factors_summed_over_add_up_between_shards(mesh, rng):
    def kernel(x, out):
        @pl.when(pl.program_id(0) == 0)
        def _():
            out[...] = jnp.zeros(out.shape)

        out[...] += x[...].sum(axis=0)

    x = rng.normal(size=(16, 3)).astype(F32)
    f = pl.pallas_call(
        kernel,
        struct(3),
        grid=8,
        in_specs=[pl.BlockSpec((2, 3), lambda i: (i, 0))],
        interpret=INTERPRET,
        sharding_rule=weft.ffi.ShardingRule("b d -> d", reduction="b"),
    )
    assert_allclose(
        weft.jit(f, partitioner="weft")(sharded(mesh, x, "x")), x.sum(0), rtol=1e-4, atol=1e-5
    )


def test_xlas_partitioner_gathers_what_kernels_need(mesh, rng):
    x, y = (rng.normal(size=(16, 3)).astype(F32) for _ in range(2))
    f = weft.jit(blocked(16, 3, num_batch_dims=1), partitioner="xla")
    assert_allclose(f(sharded(mesh, x, "x"), sharded(mesh, y, "x")), np.sin(x) * y, rtol=1e-6)


def test_explicit_types_follow_the_rule(rng):
    from weft.sharding import AxisType

    mesh = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    x, y = (rng.normal(size=(16, 4)).astype(F32) for _ in range(2))
    ruled, plain = blocked(16, 4, sharding_rule="b d, b d -> b d"), blocked(16, 4)
    whole = weft.P(None, None)
    with weft.set_mesh(mesh):
        args = sharded(mesh, x, "x", "y"), sharded(mesh, y, "x", "y")
        types = []

        @weft.jit
        def f(x, y):
            outs = ruled(x, y), plain(weft.reshard(x, whole), weft.reshard(y, whole))
            types.extend(weft.typeof(o).str_short() for o in outs)
            return outs

        for out in (*f(*args), ruled(*args)):
            assert_allclose(out, np.sin(x) * y, rtol=1e-6)
        for run in (plain, weft.jit(plain)):
            with pytest.raises(weft.errors.ShardingTypeError, match="pallas_call.*'i j -> i j'"):
                run(*args)
    assert types == ["f32[16@x,4@y]", "f32[16,4]"]


def test_a_rule_covers_what_the_kernel_closes_over_and_its_derivative(mesh, rng):
    x, t = (rng.normal(size=(16, 3)).astype(F32) for _ in range(2))
    scale = jnp.asarray(rng.normal(size=3).astype(F32))

    def kernel(x, out):
        out[...] = jnp.sin(x[...]) * scale

    spec = pl.BlockSpec((2, 3), lambda i: (i, 0))
    f = pl.pallas_call(
        kernel,
        struct(16, 3),
        grid=8,
        in_specs=[spec],
        out_specs=spec,
        interpret=INTERPRET,
        sharding_rule="b d -> b d",
    )
    pushed = weft.jit(lambda x, t: weft.jvp(f, (x,), (t,)), partitioner="weft")
    args = sharded(mesh, x, "x"), sharded(mesh, t, "x")
    value, tangent = pushed(*args)
    assert_allclose(value, np.sin(x) * np.asarray(scale), rtol=1e-5)
    assert_allclose(tangent, np.cos(x) * t * np.asarray(scale), rtol=1e-5)
    assert not collectives(pushed, *args)


def test_kernels_close_over_values_that_vary_along_the_mesh(mesh):
    x = arange(8)

    def outer(x):
        place = lax.axis_index("x").astype(F32)

        def kernel(x, out):
            def body(k, carry):
                out[k] = x[k] * place + carry
                return carry + place

            lax.fori_loop(0, 2, body, place)

        return pl.pallas_call(kernel, struct(2), interpret=INTERPRET)(x)

    f = weft.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    place = np.repeat(np.arange(4), 2)
    assert_array_equal(weft.jit(f)(sharded(mesh, x, "x")), x * place + place * np.tile([1, 2], 4))


def test_jvp_of_atomics_swaps_views_and_masks():
    def kernel(x, zero, out):
        pl.atomic_add(out, jnp.array([0, 1, 1]), x[...] * x[...])
        out[3] = pl.swap(out, 2, x[0] * 3.0)
        v = pl.load(x, pl.ds(0, 3), mask=jnp.arange(3) < 2, other=1.0)
        pl.store(out.at[4:], pl.ds(0, 3), jnp.sin(v), mask=jnp.arange(3) > 0)

    f = pl.pallas_call(kernel, struct(7), input_output_aliases={1: 0}, interpret=INTERPRET)
    x, t = np.array([1.0, 2.0, 3.0], F32), np.array([0.5, 1.0, 2.0], F32)
    value, tangent = weft.jvp(lambda x: f(x, np.zeros(7, F32)), (x,), (t,))
    assert_allclose(value, [1, 13, 3, 0, 0, np.sin(2), np.sin(1)], rtol=1e-5)
    assert_allclose(tangent, [1, 16, 1.5, 0, 0, np.cos(2), 0], rtol=1e-5)


def test_kernels_that_close_over_varying_values_have_derivatives_and_are_batched(rng):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))

    def outer(x):
        turned = jnp.sin(x)  # varies along the mesh

        def kernel(x, out):
            tripled = lax.fori_loop(0, 2, lambda k, total: total + turned[1], turned[0] * 0)
            where = lax.cond(tripled > 0, lambda: turned[0], lambda: turned[1])
            out[...] = x[...] * turned + tripled * where

        return pl.pallas_call(kernel, struct(2), interpret=INTERPRET)(x)

    f = weft.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    x, t = (rng.normal(size=8).astype(F32) for _ in range(2))

    def expected(x):
        sin = np.sin(x.reshape(4, 2))
        double = 2 * sin[:, 1:]
        return (
            x.reshape(4, 2) * sin + double * np.where(double > 0, sin[:, :1], sin[:, 1:])
        ).ravel()

    value, tangent = weft.jit(lambda x, t: weft.jvp(f, (x,), (t,)))(x, t)
    assert_allclose(value, expected(x), rtol=1e-5)
    slope = expected(x.astype(np.float64) + 1e-6 * t) - expected(x.astype(np.float64) - 1e-6 * t)
    assert_allclose(tangent, slope / 2e-6, rtol=1e-4, atol=1e-5)
    assert_allclose(weft.jit(weft.vmap(f))(np.stack([x, t])), [expected(x), expected(t)], rtol=1e-5)
