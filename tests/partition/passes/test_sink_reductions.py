# ruff: noqa: E501 - lines of MLIR text read better whole
"""What a loop adds up is reduced once, behind the loop."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from tests.partition import harness
from tests.partition.passes.test_optimize import before_and_after
from tests.partition.test_localize import module, sharding
from weft._xla import mlir
from weft.partition import partition
from weft.partition.check import check
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

STEPS = 6
TERM = """
      %o = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 8, 4] : (tensor<6x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
      %r = stablehlo.reshape %o : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
      %d = stablehlo.reduce(%r init: %init) applies stablehlo.{combiner} across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %e = sdy.sharding_constraint %d <@mesh, [{{}}]> : tensor<4xf32>"""


def loop(body: str, combiner: str = "add", init: str = "0.0", carry: str = "tensor<4xf32>") -> str:
    """A loop over the 6 blocks of an argument, whose rows are split over `x`."""
    term = TERM.format(combiner=combiner)
    return module(f"""
  func.func public @main(%x: tensor<6x8x4xf32> {sharding("{}", '{"x"}', "{}")}, %s: {carry}) -> {carry} {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<{STEPS}> : tensor<i32>
    %init = stablehlo.constant dense<{init}> : tensor<f32>
    %two = stablehlo.constant dense<2.0> : {carry}
    %l:2 = stablehlo.while(%i = %zero, %z = %s) : tensor<i32>, {carry}
    cond {{
      %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>{term}
      {body}
      stablehlo.return %j, %y : tensor<i32>, {carry}
    }}
    return %l#1 : {carry}
  }}""")


def arguments(rng, shape=(4,)) -> tuple[np.ndarray, np.ndarray]:
    draw = lambda shape: rng.integers(-4, 5, shape).astype(np.float32)
    return draw((STEPS, 8, 4)), draw(shape)


def run(text: str, *args: np.ndarray) -> np.ndarray:
    stages = partition(mlir.parse(text))
    check(stages)
    return harness.execute(stages, *args)[0]


@pytest.mark.parametrize(
    "combiner, init, reduce",
    [
        ("add", "0.0", np.add),
        ("maximum", "0xFF800000", np.maximum),
        ("minimum", "0x7F800000", np.minimum),
    ],
)
def test_what_a_loop_combines_is_reduced_once(combiner, init, reduce, rng):
    text = loop(f"%y = stablehlo.{combiner} %e, %z : tensor<4xf32>", combiner, init)
    (calls, sent), (fewer, less) = before_and_after(text)
    assert fewer == 1 and calls == STEPS * fewer and sent == STEPS * less
    x, s = arguments(rng)
    np.testing.assert_array_equal(run(text, x, s), reduce(s, reduce.reduce(x, axis=(0, 1))))


def test_terms_may_be_moved_scaled_and_added_up_first(rng):
    text = loop(
        """%f = stablehlo.multiply %e, %two2 : tensor<4xf32>
      %g = stablehlo.negate %e : tensor<4xf32>
      %h = stablehlo.reduce(%r init: %init) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %k = sdy.sharding_constraint %h <@mesh, [{}]> : tensor<4xf32>
      %m = stablehlo.abs %r : tensor<8x4xf32>
      %p = stablehlo.reduce(%m init: %init) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %t = sdy.sharding_constraint %p <@mesh, [{}]> : tensor<4xf32>
      %u = stablehlo.multiply %k, %two2 : tensor<4xf32>
      %v = stablehlo.add %u, %t : tensor<4xf32>
      %w = stablehlo.reshape %v : (tensor<4xf32>) -> tensor<2x2xf32>
      %y = stablehlo.add %z, %w : tensor<2x2xf32>""",
        carry="tensor<2x2xf32>",
    ).replace("    %l:2 =", "    %two2 = stablehlo.constant dense<2.0> : tensor<4xf32>\n    %l:2 =")
    (calls, _), (fewer, _) = before_and_after(text)
    assert fewer == 1 and calls >= 2 * STEPS
    x, s = arguments(rng, (2, 2))
    want = s + (2 * x.sum((0, 1)) + np.abs(x).sum((0, 1))).reshape(2, 2)
    np.testing.assert_array_equal(run(text, x, s), want)


@pytest.mark.parametrize(
    "body",
    [
        # What was summed so far is read, or changed otherwise.
        "%u = stablehlo.multiply %e, %z : tensor<4xf32>\n      %y = stablehlo.add %z, %u : tensor<4xf32>",
        "%u = stablehlo.add %z, %e : tensor<4xf32>\n      %y = stablehlo.multiply %u, %two : tensor<4xf32>",
        "%u = stablehlo.abs %e : tensor<4xf32>\n      %y = stablehlo.add %z, %u : tensor<4xf32>",
        "%y = stablehlo.maximum %z, %e : tensor<4xf32>",
        "%y = stablehlo.subtract %z, %e : tensor<4xf32>",
    ],
)
def test_all_reduces_that_steps_need_stay_in_the_loop(body, rng):
    text = loop(body)
    _, (calls, _) = before_and_after(text)
    assert calls == STEPS
    x, s = arguments(rng)
    want = s
    for e in x.sum(1):
        if "multiply %e" in body:
            want = want + e * want
        elif "multiply %u" in body:
            want = (want + e) * 2
        elif "abs" in body:
            want = want + np.abs(e)
        else:
            want = np.maximum(want, e) if "maximum" in body else want - e
    np.testing.assert_allclose(run(text, x, s), want, rtol=1e-6)


def mesh() -> weft.Mesh:
    return weft.make_mesh((4, 2), ("data", "model"), axis_types=(weft.AxisType.Auto,) * 2)


def test_the_gradient_of_weights_that_all_steps_share_is_reduced_once(rng):
    weights = rng.normal(size=(8, 4)).astype(np.float32)
    rows = rng.normal(size=(3, STEPS, 16, 8)).astype(np.float32)

    def loss(weights, rows):
        def step(total, x):
            return total + weft.numpy.sum(weft.numpy.tanh(x @ weights) ** 2), None

        def steps(total, x):
            return weft.lax.scan(step, total, x)[0], None

        return weft.lax.scan(steps, np.float32(0), rows)[0]

    place = lambda *spec: NamedSharding(mesh(), P(*spec))
    gradient = weft.jit(
        weft.grad(loss),
        in_shardings=(place(), place(None, None, "data")),
        out_shardings=place(),
        partitioner="weft",
    )
    weft.testing.assert_comm(gradient, (weights, rows), all_reduce=1, max_bytes="192 B")
    t = np.tanh(rows @ weights)
    want = np.einsum("asbi,asbo->io", rows, 2 * t * (1 - t * t))
    np.testing.assert_allclose(np.asarray(gradient(weights, rows)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_devices_may_start_from_values_of_their_own(name, rng):
    combine, on_host = {
        "max": (wnp.maximum, np.maximum),
        "min": (wnp.minimum, np.minimum),
        "sum": (wnp.add, np.add),
    }[name]
    start = rng.integers(-40, 40, (4, 1), dtype=np.int32)
    steps = rng.integers(-20, 20, (5, 8, 1), dtype=np.int32)

    def run(start, steps):
        step = lambda c, y: (combine(c, getattr(wnp, name)(y)), None)
        return weft.lax.scan(step, start, steps)[0]

    rows = NamedSharding(mesh(), P("data"))
    run = weft.jit(
        run, in_shardings=(rows, NamedSharding(mesh(), P(None, "data"))), out_shardings=rows
    )
    weft.testing.assert_comm(run, (start, steps), all_reduce=1)
    want = start
    for step in steps:
        want = on_host(want, getattr(step, name)())
    np.testing.assert_array_equal(run(start, steps), want)


@pytest.mark.parametrize("axes", ["d", ("d", "e")], ids=["one axis of two", "all axes"])
def test_a_sum_stays_where_its_user_wrote_it(axes, rng):
    mesh = weft.make_mesh((4, 2), ("d", "e"), axis_types=(weft.AxisType.Auto,) * 2)
    steps = rng.integers(-20, 20, (5, 8), dtype=np.int32)

    @weft.jit
    @weft.shard_map(
        mesh=mesh,
        in_specs=P(None, axes),
        out_specs=P(),
        axis_names=set(mesh.axis_names if axes != "d" else "d"),
    )
    def run(steps):
        step = lambda c, y: (c + weft.lax.psum(y.sum(), axes), None)
        return weft.lax.scan(step, np.int32(0), steps)[0]

    report = weft.comm(run, steps)
    assert [(c.kind, c.trips) for c in report.collectives] == [("all_reduce", 5)]
    assert run(steps) == steps.sum()


# -- updates that are linear in the carry and in what is reduced -----------------------------------

W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
X = np.random.default_rng(5).normal(size=(STEPS, 16, 8)).astype(np.float32)
K = np.linspace(0.5, 2, STEPS, dtype=np.float32)


def grad(w, x):
    """The gradient of sum(tanh(x @ w)²), by NumPy or by weft."""
    if isinstance(x, np.ndarray):
        t = np.tanh(x @ w)
        return x.T @ (2 * t * (1 - t * t))
    return weft.grad(lambda w: (wnp.tanh(x @ w) ** 2).sum())(w)


# (step as (carry, weights, rows, factor, number of the step), start, all_reduces in all)
UPDATES = {
    "scaled by the step": (lambda c, w, x, k, i: c + grad(w, x) * k, 0 * W, 1),
    "weighted by what is reduced too": (
        lambda c, w, x, k, i: c + grad(w, x) * x.sum(),
        0 * W,
        1 + STEPS,
    ),
    "divided": (lambda c, w, x, k, i: c - grad(w, x) / (i + 1), W, 1),
    "running mean": (lambda c, w, x, k, i: c + (grad(w, x) - c) / (i + 1), 0 * W, 1),
    "decaying average": (lambda c, w, x, k, i: 0.9 * c + 0.1 * grad(w, x), 0 * W, 1),
    "decaying average from a start": (lambda c, w, x, k, i: 0.9 * c + 0.1 * grad(w, x), W, 1),
    "whole terms": (lambda c, w, x, k, i: c + grad(w, x) + k * w, 0 * W, 1),
    "whole terms and a start": (lambda c, w, x, k, i: c + (k * w + grad(w, x)), W, 1),
    "added in turn": (lambda c, w, x, k, i: c + grad(w, x) + grad(2 * w, x), W, 1),
    "a product of it": (lambda c, w, x, k, i: c + x.sum(0) @ w, 0 * W[0], 1),
    "columns added up": (lambda c, w, x, k, i: c + grad(w, x).sum(0), W[0], 1),
}


@pytest.mark.parametrize("name", UPDATES)
def test_linear_updates_are_reduced_once(name):
    update, start, calls = UPDATES[name]

    def run(w, start, x, k):
        step = lambda c, xs: (update(c, w, *xs), None)
        i = np.arange(STEPS, dtype=np.float32)
        return weft.lax.scan(step, start, (x, k, i))[0]

    place = lambda *spec: NamedSharding(mesh(), P(*spec))
    shardings = (place(), place(), place(None, "data"), place())
    if not start.any():  # a start of zeros is known when the program is written
        run = lambda w, x, k, run=run: run(w, wnp.zeros(start.shape, np.float32), x, k)
    known = start.any()
    args = (W, start, X, K) if known else (W, X, K)
    jitted = weft.jit(
        run,
        in_shardings=shardings if known else (shardings[0], *shardings[2:]),
        out_shardings=place(),
        partitioner="weft",
    )
    report = weft.comm(jitted, *args)
    assert sum(c.trips for c in report.collectives) == calls
    want = start
    for i in range(STEPS):
        want = update(want, W, X[i], K[i], i)
    np.testing.assert_allclose(np.asarray(jitted(*args)), want, rtol=2e-5, atol=2e-4)


def test_rows_that_a_loop_stacks_are_reduced_together(rng):
    def run(x):
        def step(total, rows):
            return total + rows.sum(0), (rows.sum(), (rows * rows).sum(0))

        return weft.lax.scan(step, wnp.zeros(8), x)

    jitted = weft.jit(run, in_shardings=NamedSharding(mesh(), P(None, "data")), out_shardings=None)
    weft.testing.assert_comm(jitted, (X,), all_reduce=1)
    total, (sums, squares) = jitted(X)
    np.testing.assert_allclose(np.asarray(total), X.sum((0, 1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.asarray(sums), X.sum((1, 2)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.asarray(squares), (X * X).sum(1), rtol=1e-4)


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_of_fewer_than_two_steps_are_left_alone(steps, rng):
    text = loop("%y = stablehlo.add %z, %e : tensor<4xf32>")
    text = text.replace(f"dense<{STEPS}> : tensor<i32>", f"dense<{steps}> : tensor<i32>")
    before, after = before_and_after(text)
    assert before == after
    x, s = arguments(rng)
    np.testing.assert_array_equal(run(text, x, s), s + x[:steps].sum((0, 1)))


def test_factors_that_differ_between_devices_keep_sums_in_the_loop(rng):
    """Each device's rows are scaled by the sum of all; that sum is needed in every step."""

    def run(w, x):
        step = lambda c, rows: (c + w * rows.sum(), None)
        return weft.lax.scan(step, wnp.zeros(w.shape), x)[0]

    place = lambda *spec: NamedSharding(mesh(), P(*spec))
    shardings = (place("data"), place(None, "data"))
    jitted = weft.jit(run, in_shardings=shardings, out_shardings=place("data"))
    weft.testing.assert_comm(jitted, (W, X), all_reduce=STEPS)
    np.testing.assert_allclose(np.asarray(jitted(W, X)), W * X.sum(), rtol=1e-3, atol=1e-4)


def test_reduced_shards_are_not_kept_whole():
    """A carry that is split over the summed axis stays so: its sums are scattered in each step."""

    def run(w, x):
        step = lambda c, rows: (c + grad(w, rows), None)
        return weft.lax.scan(step, wnp.zeros(W.shape), x)[0]

    place = lambda *spec: NamedSharding(mesh(), P(*spec))
    shardings = (place(), place(None, "data"))
    jitted = weft.jit(run, in_shardings=shardings, out_shardings=place("data"))
    weft.testing.assert_comm(jitted, (W, X), reduce_scatter=STEPS)
    want = sum(grad(W, rows) for rows in X)
    np.testing.assert_allclose(np.asarray(jitted(W, X)), want, rtol=1e-4, atol=1e-4)


def test_gradients_typed_as_partial_sums_are_reduced_once_behind_nested_loops():
    # Too large to move for its latency alone: the type says that the layers' loop leaves parts.
    mesh = weft.make_mesh((2,), ("x",), axis_types=(weft.AxisType.Explicit,))
    layers, size, batches = 3, 320, 4

    def loss(ws, x):
        return wnp.sum(weft.lax.scan(lambda x, w: (x @ w, None), x, ws)[0])

    def step(ws, xs):
        total = weft.reshard(wnp.zeros(ws.shape), P(unreduced={"x"}))
        add = lambda total, x: (total + weft.grad(loss)(ws, x), None)
        return weft.reshard(weft.lax.scan(add, total, xs)[0], P())

    w = np.stack([np.eye(size, dtype=np.float32)] * layers)
    x = np.arange(batches * 2, dtype=np.float32).reshape(batches, 2, 1) * np.ones(
        (1, 1, size), np.float32
    )
    with weft.set_mesh(mesh):
        args = weft.device_put(w, P(reduced={"x"})), weft.device_put(x, P(None, "x"))
        weft.testing.assert_comm(weft.jit(step), args, all_reduce=1)
        got = np.asarray(weft.jit(step)(*args))
    # With identities for layers, each row of the gradient holds its feature's sum over the batch.
    np.testing.assert_allclose(got, np.full(w.shape, x[..., 0].sum()))
