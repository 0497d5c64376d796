"""Grid dimensions whose programs may run at the same time, with outputs that are whole arrays."""

import numpy as np
import pytest

import weft
from weft import pallas as pl
from weft.core.jaxpr import walk_eqns
from weft.pallas.order import parallel_dims

X = np.arange(16, dtype=np.float32)
i = lambda: pl.program_id(0)


def own_place(x, out):
    out[i()] = x[i()] * 2


def own_window(x, out):
    out[pl.ds(i() * 4, 4)] = x[pl.ds(i() * 4, 4)] * 2


def overlapping_windows(x, out):
    out[pl.ds(i() * 2, 4)] = x[pl.ds(i() * 4, 4)] * 2


def sum_of_all(x, out):
    out[...] += x[i()]


def read_elsewhere(x, out):
    out[i()] = x[i()]
    out[0] = out[i()] + 1


def in_a_branch(x, out):
    @pl.when(i() == 2)
    def _():
        out[i()] = x[i()]


def dims_of(kernel, out, grid, **options):
    call = pl.pallas_call(kernel, weft.ShapeDtypeStruct(out, "float32"), grid=grid, **options)
    found = walk_eqns(weft.make_jaxpr(call)(X))
    return parallel_dims(next(e for e in found if e.primitive.name == "pallas_call").params["call"])


@pytest.mark.parametrize(
    ("kernel", "out", "grid", "expected"),
    [
        (own_place, (16,), 16, [0]),
        (own_window, (16,), 4, [0]),
        (overlapping_windows, (16,), 4, []),
        (sum_of_all, (), 16, []),
        (read_elsewhere, (16,), 16, []),
        (in_a_branch, (16,), 16, []),
    ],
)
def test_programs_are_independent_if_their_places_lie_apart(kernel, out, grid, expected):
    assert dims_of(kernel, out, grid) == expected


def test_integer_atomics_leave_programs_independent_and_floats_keep_their_order():
    def count(x, out):
        pl.atomic_add(out, (0,), x[i()].astype(out.dtype))

    for dtype, expected in (("int32", [0]), ("float32", [])):
        call = pl.pallas_call(count, weft.ShapeDtypeStruct((1,), dtype), grid=16)
        (eqn,) = weft.make_jaxpr(call)(X).eqns
        assert parallel_dims(eqn.params["call"]) == expected


def test_calls_that_vmap_joined_are_independent():
    def running(x, out, total):
        @pl.when(i() == 0)
        def _():
            total[0] = 0.0

        total[0] += x[0]
        out[0] = total[0]

    spec = pl.BlockSpec((1,), lambda i: (i,))
    call = pl.pallas_call(
        running,
        weft.ShapeDtypeStruct((16,), "float32"),
        grid=16,
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pl.LOCAL((1,), "float32")],
    )
    x = np.stack([X, X * 2, -X])
    found = walk_eqns(weft.make_jaxpr(weft.vmap(call))(x))
    built = next(e for e in found if e.primitive.name == "pallas_call").params["call"]
    assert parallel_dims(built) == [0]
    np.testing.assert_allclose(weft.vmap(call)(x), np.cumsum(x, 1))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_programs_that_count_into_few_places_count_everything(rng, dtype):
    with weft.enable_x64(dtype == "int64"):
        x = rng.integers(0, 7, 4000).astype("int32")
        by = rng.integers(0, 3, 4000).astype(dtype)

        def count(x, by, start, out):
            pl.atomic_add(out, (1, x[...]), by[...], mask=x[...] != 3)

        part = pl.BlockSpec((500,), lambda i: (i,))
        got = pl.pallas_call(
            count,
            weft.ShapeDtypeStruct((2, 7), dtype),
            grid=8,
            in_specs=[part, part, pl.BlockSpec()],
            input_output_aliases={2: 0},
            compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        )(x, by, np.ones((2, 7), dtype))
    want = np.ones((2, 7), dtype)
    np.add.at(want[1], x[x != 3], by[x != 3])
    np.testing.assert_array_equal(got, want)
