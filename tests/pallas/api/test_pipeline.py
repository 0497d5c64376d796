"""emit_pipeline: loops over blocks inside kernels, against NumPy, on every executor."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl

WHOLE = pl.BlockSpec(memory_space=pl.ANY)


def struct(*shape, dtype="float32"):
    return weft.ShapeDtypeStruct(shape, dtype)


def on_whole_arrays(call, kernel, out, *args, **options):
    return call(kernel, out, in_specs=[WHOLE] * len(args), out_specs=WHOLE, **options)(*args)


def test_a_product_is_a_pipeline_over_three_axes(call, rng):
    x, y = rng.standard_normal((2, 64, 64)).astype("f4")

    def kernel(x, y, out):
        def step(x, y, out):
            @pl.when(pl.program_id(2) == 0)
            def _():
                out[...] = jnp.zeros(out.shape)

            out[...] += jnp.dot(x[...], y[...], precision="highest")

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def _():
                out[...] = jnp.maximum(out[...], 0)

        pl.emit_pipeline(
            step,
            grid=(2, 4, 2),
            in_specs=[
                pl.BlockSpec((32, 32), lambda i, j, k: (i, k)),
                pl.BlockSpec((32, 16), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((32, 16), lambda i, j, k: (i, j)),
        )(x, y, out)

    got = on_whole_arrays(call, kernel, struct(64, 64), x, y)
    np.testing.assert_allclose(got, np.maximum(x @ y, 0), rtol=1e-4, atol=1e-4)


def test_each_program_of_a_grid_pipelines_its_own_rows(call, rng):
    x = rng.standard_normal((8, 4, 16)).astype("f4")

    def kernel(x, out):
        outer = pl.program_id(0)

        def step(x, out):
            assert x.shape == (4, 16)
            out[...] = x[...] * 10 + pl.program_id(0) + 100 * outer

        row = pl.BlockSpec((None, 4, 16), lambda i: (i + 2 * outer, 0, 0))
        pl.emit_pipeline(step, grid=2, in_specs=row, out_specs=row)(x, out)

    got = on_whole_arrays(call, kernel, struct(8, 4, 16), x, grid=4)
    place = np.arange(8)[:, None, None]
    np.testing.assert_allclose(got, x * 10 + place % 2 + 100 * (place // 2), rtol=1e-5)


def test_the_extent_may_be_data_and_windows_may_overlap(call, rng):
    x = rng.standard_normal(34).astype("f4")

    def kernel(n, x, zeros, out):
        def step(x, out):
            out[...] = x[:8] + x[2:]

        pl.emit_pipeline(
            step,
            grid=(n[0],),
            in_specs=[pl.BlockSpec((pl.Element(10),), lambda i: (8 * i,))],
            out_specs=[pl.BlockSpec((8,), lambda i: (i,))],
        )(x, out)

    out = on_whole_arrays(
        call,
        kernel,
        struct(32),
        np.array([3], np.int32),
        x,
        np.zeros(32, np.float32),
        input_output_aliases={2: 0},
    )
    want = np.zeros(32, np.float32)
    want[:24] = x[:24] + x[2:26]
    np.testing.assert_allclose(out, want, rtol=1e-6)


def test_cores_of_a_mesh_pipeline_and_know_the_point(rng):
    x = rng.standard_normal((4, 8)).astype("f4")

    def kernel(x, out):
        core = weft.lax.axis_index("c")

        def step(x, out):
            out[...] = x[...] + pl.program_id(0)

        row = pl.BlockSpec((1, 8), lambda i: (core * 2 + i, 0))
        pl.emit_pipeline(step, grid=2, in_specs=row, out_specs=row)(x, out)
        with pytest.raises(ValueError, match="have no grid"):
            pl.program_id(0)

    for interpret in (True, False):
        f = pl.mpmd_map([(pl.Mesh({"c": 2}), kernel)], struct(4, 8), interpret=interpret)
        np.testing.assert_allclose(f(x), x + np.array([0, 1, 0, 1])[:, None], rtol=1e-6)


@pytest.mark.parametrize(
    ("refs", "spec", "error", "text"),
    [
        (1, pl.BlockSpec((4,), lambda i: (i,)), ValueError, "2 specs.*1 refs"),
        (2, pl.BlockSpec((3,), lambda i: (i,)), ValueError, "blocks of 3 do not divide"),
        (
            2,
            pl.BlockSpec((0,), lambda i: (i,)),
            ValueError,
            r"block_shape\[0\] must be a positive int",
        ),
        (2, pl.BlockSpec(("a",), lambda i: (i,)), ValueError, r"must be a positive int.*got 'a'"),
        (2, pl.BlockSpec((4, 4), lambda i: (i, 0)), ValueError, "another rank"),
        (2, pl.BlockSpec((4,), lambda i: (i, 0)), ValueError, "index_map gives 2 indices"),
        (2, (4,), TypeError, r"in_specs\[0\] must be a pl.BlockSpec, got int"),
        (2, pl.BlockSpec((pl.Element(4, (1, 0)),), lambda i: (i,)), ValueError, "padding"),
    ],
)
def test_what_does_not_fit_is_refused(refs, spec, error, text):
    def kernel(x, out):
        given = (x, out)[:refs]
        pl.emit_pipeline(lambda *_: None, grid=2, in_specs=spec, out_specs=spec)(*given)

    with pytest.raises(error, match=text):
        pl.pallas_call(kernel, struct(8))(np.zeros(8, np.float32))


def test_a_body_returns_nothing_and_takes_refs():
    whole = pl.BlockSpec()

    def returns(x, out):
        pl.emit_pipeline(lambda x, out: x[...], grid=2, in_specs=whole, out_specs=whole)(x, out)

    def values(x, out):
        pl.emit_pipeline(lambda *_: None, grid=2, in_specs=whole, out_specs=whole)(x[...], out)

    for kernel, text in ((returns, "must return None"), (values, "argument 0 must be a ref")):
        with pytest.raises(TypeError, match=text):
            pl.pallas_call(kernel, struct(8))(np.zeros(8, np.float32))
    with pytest.raises(RuntimeError, match="outside of a kernel"):
        pl.emit_pipeline(lambda: None, grid=2)()
