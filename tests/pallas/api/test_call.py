"""pallas_call: blocks, grids, scratch, scalars, aliases, constants, pytrees."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax

F32 = "float32"

INTERPRET = True


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def executor(request):
    """Every test of this file runs with both executors."""
    global INTERPRET
    INTERPRET = request.param == "interpreted"


def struct(*shape, dtype=F32):
    return weft.ShapeDtypeStruct(shape, dtype)


def call(kernel, out, **options):
    return pl.pallas_call(kernel, out, **{"interpret": INTERPRET, **options})


def arange(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def matmul_kernel(a, b, out, acc):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc[...] = jnp.zeros(acc.shape)

    acc[...] += a[...] @ b[...]

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        out[...] = acc[...]


def test_matmul_accumulates_in_scratch_over_a_grid_axis(rng):
    a, b = rng.normal(size=(6, 8)).astype(F32), rng.normal(size=(8, 6)).astype(F32)
    product = call(
        matmul_kernel,
        struct(6, 6),
        grid=(3, 2, 2),
        in_specs=[
            pl.BlockSpec((2, 4), lambda i, j, k: (i, k)),
            pl.BlockSpec((4, 3), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((2, 3), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.LOCAL((2, 3), F32)],
    )
    assert_allclose(product(a, b), a @ b, rtol=1e-5)
    assert_allclose(weft.jit(product)(a, b), a @ b, rtol=1e-5)


def test_output_blocks_are_kept_between_programs_that_revisit_them():
    def kernel(x, out):
        @pl.when(pl.program_id(1) == 0)
        def _():
            out[...] = jnp.zeros(out.shape)

        out[...] += x[...].sum(axis=1)

    x = arange(4, 6)
    total = call(
        kernel,
        struct(4),
        grid=(2, 3),
        in_specs=[pl.BlockSpec((2, 2), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((2,), lambda i, j: (i,)),
    )
    assert_array_equal(total(x), x.sum(axis=1))


@pytest.mark.parametrize("n", [8, 10, 3])
def test_blocks_that_do_not_divide_the_array_are_masked(n):
    def kernel(x, out):
        out[...] = x[...] + 1

    spec = pl.BlockSpec((4,), lambda i: (i,))
    f = call(kernel, struct(n), grid=(pl.cdiv(n, 4),), in_specs=[spec], out_specs=spec)
    assert_array_equal(f(arange(n)), arange(n) + 1)


def test_reading_past_the_end_of_an_array_gives_nan():
    def kernel(x, out):
        out[...] = x[...]

    f = call(kernel, struct(4), in_specs=[pl.BlockSpec((4,), lambda: (0,))], interpret=True)
    assert_array_equal(f(arange(3)), [0, 1, 2, np.nan])


def test_none_drops_a_dimension_of_the_block():
    def kernel(x, out):
        assert x.shape == (3,)
        out[...] = x[...] * pl.program_id(0)

    spec = pl.BlockSpec((None, 3), lambda i: (i, 0))
    f = call(kernel, struct(4, 3), grid=4, in_specs=[spec], out_specs=spec)
    assert_array_equal(f(arange(4, 3)), arange(4, 3) * np.arange(4)[:, None])


def test_element_blocks_overlap_and_reach_into_padding():
    def kernel(x, out):
        out[0] = x[0] + x[1] + x[2]

    f = call(
        kernel,
        struct(6),
        grid=6,
        in_specs=[pl.BlockSpec((pl.Element(3),), lambda i: (i,))],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
    )
    x = arange(8)
    assert_array_equal(f(x), x[:-2] + x[1:-1] + x[2:])

    def middle(x, out):
        out[0] = x[1]

    f = call(
        middle,
        struct(8),
        grid=8,
        in_specs=[pl.BlockSpec((pl.Element(3, (1, 1)),), lambda i: (i,))],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
    )
    assert_array_equal(f(x), x)


def test_prefetched_scalars_choose_blocks():
    def kernel(order, x, out):
        out[...] = x[...] + order[pl.program_id(0)].astype(F32)

    spec = pl.GridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((2,), lambda i, order: (order[i],))],
        out_specs=pl.BlockSpec((2,), lambda i, order: (i,)),
    )
    f = call(kernel, struct(6), grid_spec=spec)
    order = np.array([2, 0, 1], np.int32)
    expected = arange(3, 2)[order] + order[:, None]
    assert_array_equal(f(order, arange(6)), expected.ravel())
    many = np.stack([order, order[::-1]])
    got = weft.vmap(f, in_axes=(0, None))(many, arange(6))
    assert_array_equal(got, np.stack([(arange(3, 2)[o] + o[:, None]).ravel() for o in many]))


def test_aliased_outputs_start_with_the_operands_contents():
    def kernel(x, y, out):
        del x
        out[0] += y[0]

    f = call(kernel, struct(3), input_output_aliases={0: 0})
    x = arange(3)
    assert_array_equal(f(x, np.array([10.0], F32)), [10, 1, 2])
    assert_array_equal(x, arange(3))


def test_closed_over_arrays_become_inputs():
    table = jnp.arange(3.0) * 10

    def kernel(x, out):
        out[...] = x[...] + table

    f = call(kernel, struct(3))
    assert_array_equal(f(arange(3)), arange(3) * 11)

    @weft.jit
    def outer(t, x):
        return call(lambda x, out: out.set(x[...] * t + t.sum()), struct(3))(x)

    assert_array_equal(outer(table, arange(3)), arange(3) ** 2 * 10 + 30)


def test_closed_over_and_passed_refs_are_written():
    ref = weft.new_ref(arange(4))

    def kernel(x, r, out):
        r[0] = x[0]
        out[...] = r[1:3]

    f = call(kernel, struct(2))
    assert_array_equal(f(np.array([9.0], F32), ref), [1, 2])
    assert_array_equal(ref[...], [9, 1, 2, 3])

    @weft.jit
    def closing(x):
        call(lambda x: ref.at[3].set(x[0] * 2), ())(x)

    closing(np.array([5.0], F32))
    assert_array_equal(ref[...], [9, 1, 2, 10])


def test_pytrees_of_arguments_results_and_scratch():
    def kernel(args, out, *, tmp):
        tmp[...] = args["x"][...] + args["y"][0][...]
        out["sum"][...] = tmp[...]
        out["first"][...] = args["x"][...]

    f = call(kernel, {"sum": struct(3), "first": struct(3)}, scratch_shapes={"tmp": struct(3)})
    out = f({"x": arange(3), "y": [np.ones(3, F32)]})
    assert_array_equal(out["sum"], arange(3) + 1)
    assert_array_equal(out["first"], arange(3))


def test_several_outputs_arrive_as_separate_refs():
    def kernel(x, double, half):
        double[...] = x[...] * 2
        half[...] = x[...] / 2

    out = call(kernel, (struct(3), struct(3)))(arange(3))
    assert isinstance(out, tuple)
    assert_array_equal(out[0], arange(3) * 2)
    assert_array_equal(out[1], arange(3) / 2)


def test_loops_branches_and_scoped_scratch_inside_kernels():
    def kernel(x, out):
        def scoped(tmp):
            tmp[...] = jnp.zeros(())

            @pl.loop(0, 6, step=2)
            def _(i):
                tmp[...] += x[i]

            total = lax.while_loop(lambda t: t < 100, lambda t: t * 2 + tmp[...], jnp.float32(1))
            out[0] = jnp.where(x[0] > 0, total, tmp[...])
            out[1] = lax.cond(x[1] > 0, lambda: total, lambda: x[5])

        pl.run_scoped(scoped, pl.LOCAL((), F32))

    x = arange(6)
    total, t = x[::2].sum(), 1.0
    while t < 100:
        t = t * 2 + total
    assert_array_equal(call(kernel, struct(2))(x), [total, t])


def test_many_ops_agree_with_numpy(rng):
    x = rng.uniform(0.1, 0.9, (4, 6)).astype(F32)

    def kernel(x, ints, *outs):
        v = x[...]
        values = [
            jnp.exp(v) + jnp.log(v) * jnp.tanh(v) - jnp.sqrt(v) / lax.rsqrt(v),
            v.sum(axis=1) + v.max(axis=1) * v.min(axis=1) + jnp.prod(v, axis=1),
            jnp.concatenate([v[:2], v[::-1][:2]], axis=0).T.reshape(8, 3),
            jnp.pad(v, ((1, 0), (0, 2)), constant_values=3.0),
            jnp.einsum("ij,kj->ik", v, v * 2),
            jnp.cumsum(v, axis=1) + jnp.clip(v, 0.2, 0.5),
            jnp.argmax(v, axis=1).astype(F32),
            jnp.where(v > 0.5, v, -v) ** 3,
            weft.nn.softmax(v, axis=1),
            (ints[...] // 3 + ints[...] % 3 - (ints[...] >> 1)).astype(F32),
            lax.dynamic_update_slice(v, v[:1, :2] * 5, (1, 2)),
        ]
        for out, value in zip(outs, values, strict=True):
            out[...] = value

    ints = np.arange(-5, 6, dtype=np.int32)
    softmax = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    updated = x.copy()
    updated[1:2, 2:4] = x[:1, :2] * 5
    expected = [
        np.exp(x) + np.log(x) * np.tanh(x) - np.sqrt(x) * np.sqrt(x),
        x.sum(1) + x.max(1) * x.min(1) + x.prod(1),
        np.concatenate([x[:2], x[::-1][:2]]).T.reshape(8, 3),
        np.pad(x, ((1, 0), (0, 2)), constant_values=3.0),
        x @ (x * 2).T,
        np.cumsum(x, 1) + np.clip(x, 0.2, 0.5),
        np.argmax(x, 1),
        np.where(x > 0.5, x, -x) ** 3,
        softmax,
        ints // 3 + ints % 3 - (ints >> 1),
        updated,
    ]
    outs = call(kernel, [struct(*e.shape) for e in expected])(x, ints)
    for out, e in zip(outs, expected, strict=True):
        assert_allclose(out, e, rtol=2e-6)


def test_ops_without_a_numpy_form_are_interpreted_by_weft():
    def kernel(x, out):
        out[...] = jnp.sort(weft.lax.erf(x[...]))

    x = np.array([0.5, -1.0, 0.0], F32)
    expected = np.sort([math.erf(v) for v in x])
    assert_allclose(call(kernel, struct(3), interpret=True)(x), expected, rtol=1e-6)


FORMULAS = {
    "silu": (weft.nn.silu, lambda x: x / (1 + np.exp(-x))),
    "softplus": (weft.nn.softplus, lambda x: np.log1p(np.exp(x))),
    "log_softmax": (weft.nn.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "logaddexp": (lambda x: jnp.logaddexp(x, 2 * x), lambda x: np.logaddexp(x, 2 * x)),
    "log2": (lambda x: jnp.log2(x + 3), lambda x: np.log2(x + 3)),
    "mod": (lambda x: jnp.mod(x, 0.7), lambda x: np.mod(x, np.float32(0.7))),
    "var": (lambda x: jnp.var(x, axis=0), lambda x: np.var(x, axis=0)),
    "tril": (jnp.tril, np.tril),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_functions_made_of_other_ops(name):
    function, reference = FORMULAS[name]
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    expected = reference(x)
    f = call(lambda x, out: out.set(function(x[...])), struct(*expected.shape))
    assert_allclose(f(x), expected, rtol=2e-5, atol=1e-6)


def test_half_precision_kernels_keep_their_dtype():
    def kernel(x, out):
        out[...] = jnp.dot(x[...], x[...]) + x[...] * 2

    x = np.eye(3, dtype=np.float32) * 2
    out = call(kernel, struct(3, 3, dtype="bfloat16"))(jnp.asarray(x, "bfloat16"))
    assert out.dtype == jnp.bfloat16
    assert_array_equal(np.asarray(out, F32), x @ x + x * 2)


def test_atomics_count_in_parallel_programs():
    def kernel(x, out):
        pl.atomic_add(out, x[pl.ds(pl.program_id(0) * 4, 4)], 1)

    x = np.array([0, 1, 1, 2, 2, 2, 1, 0], np.int32)
    f = call(
        lambda x, zero, out: kernel(x, out),
        struct(3, dtype="int32"),
        grid=2,
        compiler_params=pl.CompilerParams(dimension_semantics=("parallel",)),
        input_output_aliases={1: 0},
    )
    assert_array_equal(f(x, np.zeros(3, np.int32)), np.bincount(x))


def test_program_ids_and_grid_extents():
    def kernel(out):
        i, j = pl.program_id(0), pl.program_id(1)
        out[i, j] = i * 10 + j + 100 * pl.num_programs(1)

    out = call(kernel, struct(2, 3, dtype="int32"), grid=(2, 3))()
    assert_array_equal(out, np.arange(2)[:, None] * 10 + np.arange(3) + 300)


def test_calls_of_one_signature_trace_the_kernel_once():
    count = []

    def kernel(x, out):
        count.append(1)
        out[...] = x[...]

    f = call(kernel, struct(3))
    f(arange(3)), f(arange(3)), weft.jit(f)(arange(3))
    assert len(count) == 1


def test_an_empty_grid_runs_nothing():
    def kernel(x, out):
        out[...] = x[...]

    f = call(kernel, struct(3), grid=0, input_output_aliases={0: 0})
    assert_array_equal(f(arange(3)), arange(3))


def test_debug_print_prints_from_each_program(capsys):
    def kernel(x, out):
        pl.debug_print("at {} is {}", pl.program_id(0), x[0])
        out[...] = x[...]

    spec = pl.BlockSpec((1,), lambda i: (i,))
    f = call(kernel, struct(2), grid=2, in_specs=[spec], out_specs=spec, interpret=True)
    f(arange(2))
    assert capsys.readouterr().out == "at 0 is 0.0\nat 1 is 1.0\n"


def test_a_kernel_that_only_prints_runs(capsys):
    @weft.jit
    def f(x):
        call(lambda x: pl.debug_print("x is {}", x[0]), (), interpret=True)(x)
        return x + 1

    f(arange(1)).block_until_ready()
    weft.effects_barrier()
    assert capsys.readouterr().out == "x is 0.0\n"


@pytest.mark.parametrize(
    ("fun", "flops", "transcendentals"),
    [
        (lambda x: jnp.exp(x) * 2, 12, 12),
        # a maximum, a difference, exp, a sum, a quotient
        (lambda x: weft.nn.softmax(x, -1), 12 + 12 + 12 + 12, 12),
        (lambda x: lax.fori_loop(0, 5, lambda i, c: c + jnp.sin(c), x), 5 * (12 + 1), 5 * 12),
        (lambda x: lax.while_loop(lambda c: c[0, 0] < 1, lambda c: c * 2, x), 12 + 1, 0),
        (lambda x: lax.cond(x[0, 0] > 0, jnp.exp, lambda x: x @ x.T @ x, x), 1 + 2 * 2 * 36, 0),
    ],
)
def test_costs_count_loops_as_often_as_they_run_and_the_dearest_branch(fun, flops, transcendentals):
    cost = pl.estimate_cost(fun, np.ones((3, 4), F32))
    assert cost.transcendentals == transcendentals
    assert flops <= cost.flops <= flops + 8  # and some on indices
    assert cost.bytes_accessed == 2 * 4 * 12


def test_metadata_and_costs_are_kept():
    cost = pl.estimate_cost(lambda a, b: a @ b, np.ones((4, 5), F32), np.ones((5, 6), F32))
    assert (cost.flops, cost.bytes_accessed) == (2 * 4 * 5 * 6, 4 * (20 + 30 + 24))
    f = call(
        lambda o: o.set(0.0), struct(), name="nothing", cost_estimate=cost, metadata={"a": "b"}
    )
    text = str(weft.make_jaxpr(f)())
    assert "pallas_call" in text and "nothing" in text


@pytest.mark.parametrize(
    ("f", "args", "result"),
    [
        (pl.cdiv, (7, 2), 4),
        (pl.align_to, (7, 4), 8),
        (pl.next_power_of_2, (5,), 8),
        (pl.strides_from_shape, ((2, 3, 4),), (12, 4, 1)),
    ],
)
def test_helpers(f, args, result):
    assert f(*args) == result


def test_a_block_spec_takes_its_pipeline_third_and_its_memory_by_name():
    spec = pl.BlockSpec((2,), lambda i: (i,), pl.Buffered(2), memory_space=pl.ANY)
    assert (spec.pipeline_mode.buffer_count, spec.memory_space) == (2, pl.ANY)
    assert spec.replace(block_shape=(4,)).block_shape == (4,)
    with pytest.raises(TypeError):
        pl.BlockSpec((2,), None, None, pl.ANY)
