"""debug_nans and debug_infs name the operation, its line, the iteration and the device."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax

AUTO = weft.sharding.AxisType.Auto
X = np.arange(8, dtype=np.float32)
X[5] = -1


def bad_log(x):
    return wnp.log(x + 0.5)  # the line that errors name


LINE = bad_log.__code__.co_firstlineno + 1


def split(x, *types):
    mesh = weft.make_mesh((8,), ("x",), axis_types=types or None)
    return weft.device_put(x, weft.NamedSharding(mesh, P("x")))


ROWS = P("x")


def in_shard_map(f, out=ROWS, mesh=(8,), names=("x",), **options):
    mesh = weft.make_mesh(mesh, names, axis_types=(AUTO,) * len(names))
    return weft.shard_map(f, mesh=mesh, in_specs=P(names), out_specs=out, **options)


def summed(x):
    return lax.psum(bad_log(x) * 2, "x")


DEVICE = r", on \S*5\S*"
CASES = {
    "plain": (lambda: weft.jit(bad_log)(X), ""),
    "called": (lambda: weft.jit(lambda x: weft.jit(bad_log)(x) * 2)(X), ", reached from"),
    "checkpoint": (lambda: weft.jit(weft.checkpoint(bad_log))(X), ", reached from"),
    "branch": (
        lambda: weft.jit(lambda x: lax.cond(x[0] < 1, bad_log, wnp.sin, x))(X),
        ", in branch 1 of cond",
    ),
    "scan": (
        lambda: weft.jit(lambda x: lax.scan(lambda c, v: (c + bad_log(v), v), 0.0, x))(X),
        ", in iteration 5 of scan",
    ),
    "scan backwards": (
        lambda: lax.scan(lambda c, v: (c, bad_log(v)), 0.0, X, reverse=True),
        ", in iteration 5 of scan",
    ),
    "while": (
        lambda: weft.jit(
            lambda x, n: lax.fori_loop(0, n, lambda i, c: c + bad_log(x[i]), np.float32(0))
        )(X, 8),
        ", in iteration 5 of while",
    ),
    "scan in a jit in a branch": (
        lambda: lax.cond(
            True,
            weft.jit(lambda x: lax.scan(lambda c, v: (c + bad_log(v), v), 0.0, x)[0]),
            lambda x: 0.0,
            X,
        ),
        ", in iteration 5 of scan.* in branch 1 of cond",
    ),
    "a partitioned program": (lambda: weft.jit(lambda x: bad_log(x).sum())(split(X, AUTO)), DEVICE),
    "every device of a partitioned program": (
        lambda: weft.jit(lambda x: bad_log(x - 100) * 2)(split(X, AUTO)),
        ", on all 8 devices",
    ),
    "explicit axes": (lambda: weft.jit(lambda x: bad_log(x) * 2)(split(X)), DEVICE),
    "shard_map": (lambda: in_shard_map(bad_log)(X), DEVICE + ", in shard_map"),
    "a sum in shard_map": (
        lambda: weft.jit(in_shard_map(summed, P()))(X),
        DEVICE + ", in shard_map",
    ),
    "a jit in shard_map": (
        lambda: in_shard_map(weft.jit(summed), P())(X),
        DEVICE + ", in shard_map",
    ),
    "unchecked shard_map": (
        lambda: in_shard_map(summed, P(), check_vma=False)(X),
        DEVICE + ", in shard_map",
    ),
    "two axes": (
        lambda: in_shard_map(bad_log, P(("x", "y")), (4, 2), ("x", "y"))(X),
        DEVICE + ", in shard_map",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operation_is_named_with_its_place(name):
    run, place = CASES[name]
    with weft.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        weft.block_until_ready(run())
    file = re.escape(__file__.rsplit("/", 1)[-1])
    assert re.search(rf"^NaN in the result of log \(.*{file}:{LINE}.*\){place}", str(caught.value))


def test_infinities_are_told_from_nans():
    zero = np.zeros(8, np.float32)
    with weft.debug_infs(True):
        with pytest.raises(FloatingPointError, match=r"^inf in the result of log .* in shard_map"):
            in_shard_map(wnp.log)(zero)
        assert np.isnan(weft.jit(bad_log)(X)).any()
    with weft.debug_nans(True):
        assert np.isinf(weft.jit(wnp.log)(zero)).all()


def test_values_that_are_finite_pass():
    with weft.debug_nans(True), weft.debug_infs(True):
        out = weft.jit(in_shard_map(lambda x: lax.psum(wnp.sin(x), "x"), P()))(X)
        np.testing.assert_allclose(out, [np.sin(X).sum()], rtol=1e-5)


def _log_below_zero(c):
    return wnp.where(c < 0, wnp.log(c), c) - 1


def _nested(x):
    def step(c, i):
        after = lax.fori_loop(0, 2, lambda k, c: wnp.sqrt(c - k), c)
        return after - 2 + i, i

    return lax.scan(step, x + 4, wnp.arange(3.0))[0]


@pytest.mark.parametrize(
    "body, words",
    [
        (
            lambda x: lax.scan(lambda c, i: (wnp.log(c - i), None), x, wnp.arange(3.0))[0],
            "result of log .*in iteration 1 of scan .*on cpu:0, cpu:1, in shard_map",
        ),
        (
            lambda x: lax.cond(x[0] > 3, lambda x: wnp.log(x - 7), lambda x: x, x),
            "result of log .*in branch 1 of cond .*on cpu:2, cpu:3, in shard_map",
        ),
        (
            lambda x: lax.while_loop(lambda c: c[0] > -3, _log_below_zero, x),
            "result of log .*in iteration 1 of while .*on cpu:0",
        ),
        (
            _nested,
            "result of sqrt .*in iteration 0 of scan .*in iteration 1 of scan .*in shard_map",
        ),
    ],
    ids=["scan", "cond", "while", "nested"],
)
def test_loops_and_branches_in_shard_map_are_entered(body, words):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(AUTO,))
    f = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match=words):
        weft.jit(f)(np.arange(8, dtype=np.float32))
