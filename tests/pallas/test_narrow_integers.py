"""Integers of 2 and 4 bits in kernels, native and interpreted, against NumPy's wider ones."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft import pallas as pl

NAMES = ["int4", "uint4", "int2", "uint2"]
INTERPRET = pytest.mark.parametrize("interpret", [False, True], ids=["native", "interpreted"])


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name))


def bounds(name):
    info = ml_dtypes.iinfo(dtype_of(name))
    return int(info.min), int(info.max)


def draw(rng, name, *shape):
    low, high = bounds(name)
    return rng.integers(low, high + 1, shape)


def wrapped(x, name):
    low, high = bounds(name)
    return (x - low) % (high - low + 1) + low


def run(kernel, out, *args, **options):
    return pl.pallas_call(kernel, weft.ShapeDtypeStruct(*out), **options)(*args)


OPS = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "sub": (lambda x, y: x - y, lambda x, y: x - y),
    "mul": (lambda x, y: x * y, lambda x, y: x * y),
    "neg": (lambda x, y: -x, lambda x, y: -x),
    "and": (lambda x, y: x & y, lambda x, y: x & y),
    "xor": (lambda x, y: x ^ y, lambda x, y: x ^ y),
    "max": (jnp.maximum, np.maximum),
    "min": (jnp.minimum, np.minimum),
    "where": (lambda x, y: jnp.where(x < y, x, y + y), lambda x, y: np.where(x < y, x, y + y)),
}


@INTERPRET
@pytest.mark.parametrize("name", ["int4", "uint2"])
@pytest.mark.parametrize("op", OPS)
def test_arithmetic_wraps_around(rng, op, name, interpret):
    ours, reference = OPS[op]
    x, y = draw(rng, name, 5, 37), draw(rng, name, 5, 37)

    def kernel(x, y, out):
        out[...] = ours(x[...], y[...])

    dtype = dtype_of(name)
    got = run(kernel, (x.shape, dtype), x.astype(dtype), y.astype(dtype), interpret=interpret)
    assert got.dtype == dtype
    np.testing.assert_array_equal(
        np.asarray(got).astype(int), wrapped(reference(x, y), name), err_msg=op
    )


@INTERPRET
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", ["float32", "bfloat16", "uint8", "uint4"])
def test_conversions_to_and_from_other_dtypes(rng, name, other, interpret):
    x = draw(rng, name, 3, 40)
    inside = x[(x >= 0) & (x < 2)]

    def kernel(x, y, out, back):
        out[...] = x[...].astype(other)
        back[...] = y[...].astype(name)

    shapes = [
        weft.ShapeDtypeStruct(x.shape, other),
        weft.ShapeDtypeStruct(inside.shape, name),
    ]
    out, back = pl.pallas_call(kernel, shapes, interpret=interpret)(
        x.astype(dtype_of(name)), jnp.asarray(inside, other)
    )
    want = wrapped(x, "uint4") if other == "uint4" else x.astype("u1") if other == "uint8" else x
    np.testing.assert_array_equal(np.asarray(out).astype(int), want)
    np.testing.assert_array_equal(np.asarray(back).astype(int), inside)


@INTERPRET
@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_quotients_shifts_bits_and_running_extrema(rng, name, interpret):
    low, high = bounds(name)
    x = np.arange(low, high + 1)
    ops = {
        "quotient": (lambda x: lax.div(x, x.dtype.type(3)) + lax.rem(x, x.dtype.type(3)),
                     lambda x: np.trunc(x / 3).astype(int) + np.fmod(x, 3)),
        "floor": (lambda x: x // x.dtype.type(3), lambda x: x // 3),
        "left": (lambda x: x << x.dtype.type(2), lambda x: x << 2),
        "right": (lambda x: x >> x.dtype.type(1), lambda x: x >> 1),
        "logical": (lambda x: lax.shift_right_logical(x, x.dtype.type(1)), lambda x: (x % 16) >> 1),
        "zeros": (lax.clz, lambda x: np.array([4 - (int(v) % 16).bit_length() for v in x])),
        "ones": (lax.population_count, lambda x: np.array([f"{v % 16:b}".count("1") for v in x])),
        "greatest": (lambda x: lax.cummax(x[::-1]), lambda x: np.maximum.accumulate(x[::-1])),
        "ordered": (jnp.argsort, np.argsort),
    }  # fmt: skip
    shapes = [weft.ShapeDtypeStruct((16,), "int32")] * len(ops)

    def kernel(x, *outs):
        for (ours, _), out in zip(ops.values(), outs, strict=True):
            out[...] = ours(x[...]).astype("int32")

    outs = pl.pallas_call(kernel, shapes, interpret=interpret)(x.astype(dtype_of(name)))
    for (what, (_, reference)), got in zip(ops.items(), outs, strict=True):
        want = reference(x)
        want = want if what == "ordered" else wrapped(want, name)
        np.testing.assert_array_equal(got, want, err_msg=what)


@INTERPRET
def test_blocks_masks_loops_and_scratch_of_int4(rng, interpret):
    x = draw(rng, "int4", 10, 33)

    def kernel(x, out, total, memory):
        memory[...] = x[...]

        def add(i, carry):
            return carry + memory[i]

        sums = lax.fori_loop(0, 4, add, jnp.zeros(33, "int4"))
        total[...] = sums[None]
        pl.store(out, ..., x[...] * jnp.int4(2), mask=x[...] > 0)

    spec = pl.BlockSpec((4, 33), lambda i: (i, 0))
    out, total = pl.pallas_call(
        kernel,
        [weft.ShapeDtypeStruct((10, 33), "int4"), weft.ShapeDtypeStruct((3, 33), "int4")],
        grid=3,
        in_specs=[spec],
        out_specs=[spec, pl.BlockSpec((1, 33), lambda i: (i, 0))],
        input_output_aliases={0: 0},
        scratch_shapes=[pl.LOCAL((4, 33), "int4")],
        interpret=interpret,
    )(jnp.asarray(x, "int4"))
    np.testing.assert_array_equal(
        np.asarray(out).astype(int), np.where(x > 0, wrapped(2 * x, "int4"), x)
    )
    sums = np.stack([x[:4].sum(0), x[4:8].sum(0)])
    np.testing.assert_array_equal(np.asarray(total)[:2].astype(int), wrapped(sums, "int4"))


@INTERPRET
def test_reductions_sorts_gathers_and_products_of_int4(rng, interpret):
    x, y = draw(rng, "int4", 6, 20), draw(rng, "int4", 20, 5)

    def kernel(x, y, top, total, ordered, place, product, picked):
        top[...] = x[...].max(axis=1)
        total[...] = x[...].astype("int32").sum(axis=0)
        ordered[...] = jnp.sort(x[...], axis=1)
        place[...] = jnp.argmax(x[...], axis=1).astype("int32")
        product[...] = lax.dot(x[...], y[...], preferred_element_type=jnp.int32)
        picked[...] = x[jnp.array([3, 0, 3])]

    shapes = [
        ((6,), "int4"), ((20,), "int32"), ((6, 20), "int4"), ((6,), "int32"), ((6, 5), "int32"),
        ((3, 20), "int4"),
    ]  # fmt: skip
    outs = pl.pallas_call(kernel, [weft.ShapeDtypeStruct(*s) for s in shapes], interpret=interpret)(
        jnp.asarray(x, "int4"), jnp.asarray(y, "int4")
    )
    want = [x.max(1), x.sum(0), np.sort(x, 1), x.argmax(1), x @ y, x[[3, 0, 3]]]
    for got, expected in zip(outs, want, strict=True):
        np.testing.assert_array_equal(np.asarray(got).astype(int), expected)


@INTERPRET
def test_bytes_hold_two_integers_of_4_bits(rng, interpret):
    packed = rng.integers(0, 256, (3, 16)).astype("u1")

    def kernel(packed, low, back):
        pairs = lax.bitcast_convert_type(packed[...], jnp.uint4)
        low[...] = pairs.reshape(3, 32).astype("int32")
        back[...] = lax.bitcast_convert_type(pairs, jnp.uint8)

    low, back = pl.pallas_call(
        kernel,
        [weft.ShapeDtypeStruct((3, 32), "int32"), weft.ShapeDtypeStruct((3, 16), "uint8")],
        interpret=interpret,
    )(packed)
    np.testing.assert_array_equal(low, np.stack([packed % 16, packed // 16], -1).reshape(3, 32))
    np.testing.assert_array_equal(back, packed)


@pytest.mark.parametrize(
    ("old", "new"),
    [("uint32", "uint8"), ("int8", "int32"), ("float32", "int16"), ("uint16", "float32")],
)
def test_native_bits_of_other_widths_follow_numpy(rng, old, new):
    x = rng.integers(0, 100, (4, 8, 4)).astype(old)
    had, wide = x.dtype.itemsize, np.dtype(new).itemsize
    if had < wide:
        x = x[..., : wide // had]
    want = np.ascontiguousarray(x).view(new)
    want = want[..., 0] if had < wide else want.reshape(*x.shape, had // wide)

    def kernel(x, out):
        out[...] = lax.bitcast_convert_type(x[...], np.dtype(new))

    got = run(kernel, (want.shape, new), x, interpret=False)
    np.testing.assert_array_equal(np.asarray(got).view("u1"), want.view("u1"))


def quantized_matmul(group=32, block=16, **options):
    """x @ (int4 weights * a scale for every `group` of rows)."""

    def kernel(x, w, scale, out):
        def step(g, total):
            rows = pl.ds(g * group, group)
            part = x[:, rows] @ w[rows, :].astype("float32")
            return total + part * scale[g].astype("float32")

        groups = x.shape[1] // group
        out[...] = lax.fori_loop(0, groups, step, jnp.zeros(out.shape, "float32"))

    def call(x, w, scale):
        (m, k), n = x.shape, w.shape[1]
        return pl.pallas_call(
            kernel,
            weft.ShapeDtypeStruct((m, n), "float32"),
            grid=(m // block, n // block),
            in_specs=[
                pl.BlockSpec((block, k), lambda i, j: (i, 0)),
                pl.BlockSpec((k, block), lambda i, j: (0, j)),
                pl.BlockSpec((k // group, block), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
            **options,
        )(x, w, scale)

    return call


@INTERPRET
@pytest.mark.parametrize("scales", ["float32", "bfloat16"])
def test_a_product_with_int4_weights_and_scales_of_groups(rng, scales, interpret):
    x = rng.normal(size=(32, 64)).astype("f4")
    w = draw(rng, "int4", 64, 48)
    scale = jnp.asarray(rng.uniform(0.1, 1, (2, 48)), scales)
    got = quantized_matmul(interpret=interpret)(x, jnp.asarray(w, "int4"), scale)
    want = x @ (w * np.repeat(np.asarray(scale).astype("f4"), 32, axis=0))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_kernels_of_int4_stay_sharded_along_their_rule(rng):
    mesh = weft.make_mesh((8,), ("x",))
    x = draw(rng, "int4", 32, 8)

    def kernel(x, out):
        out[...] = -x[...]

    spec = pl.BlockSpec((2, 8), lambda i: (i, 0))
    f = pl.pallas_call(
        kernel,
        weft.ShapeDtypeStruct(x.shape, "int4"),
        grid=16,
        in_specs=[spec],
        out_specs=spec,
        sharding_rule="r c -> r c",
    )
    placed = weft.device_put(jnp.asarray(x, "int4"), weft.NamedSharding(mesh, weft.P("x")))
    out = weft.jit(f, partitioner="weft")(placed)
    assert out.addressable_shards[0].data.shape == (4, 8)
    np.testing.assert_array_equal(np.asarray(out).astype(int), wrapped(-x, "int4"))


def test_atomics_of_int4_are_refused_by_name():
    def kernel(out):
        pl.atomic_add(out, 0, jnp.int4(1))

    with pytest.raises(pl.UnsupportedKernelError, match=r"atomic_rmw.*add of int4"):
        run(kernel, ((4,), "int4"))
