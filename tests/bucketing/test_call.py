"""Functions jitted with bucket=: exact on every size, one program for many sizes."""

import warnings
from typing import Annotated

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax, nn

N = {"n": weft.powers_of_two}


def rows(rng, n, d=4):
    return rng.normal(size=(n, d)).astype(np.float32)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def scan_decay(x):
    total = np.zeros(x.shape[1], np.float32)
    for row in x:
        total = total * 0.5 + row
    return total


def decay(x, **options):
    return lax.scan(lambda c, y: (c * 0.5 + y, None), wnp.zeros(x.shape[1]), x, **options)[0]


def linear_loss(x):
    return wnp.mean((x @ wnp.arange(4.0) - 1) ** 2)


EXACT = {
    "sum": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "mean": (wnp.mean, np.mean),
    "variance": (lambda x: wnp.var(x, 0), lambda x: x.var(0)),
    "deviation": (lambda x: wnp.std(x, 0, ddof=1), lambda x: x.std(0, ddof=1)),
    "maximum": (lambda x: x.max(0), lambda x: x.max(0)),
    "minimum of negatives": (lambda x: (-wnp.abs(x)).max(0), lambda x: (-np.abs(x)).max(0)),
    "product": (lambda x: (1 + x / 9).prod(0), lambda x: (1 + x / 9).prod(0)),
    "all": (lambda x: wnp.all(x > -9), lambda x: np.all(x > -9)),
    "any": (lambda x: wnp.any(x > 9, 0), lambda x: np.any(x > 9, 0)),
    "count": (lambda x: wnp.count_nonzero(x > 0), lambda x: np.count_nonzero(x > 0)),
    "log of zero beside it": (lambda x: wnp.log(x**2).sum(0), lambda x: np.log(x**2).sum(0)),
    "inverse": (lambda x: (1 / x).sum(0), lambda x: (1 / x).sum(0)),
    "softmax": (lambda x: nn.softmax(x, 0), lambda x: softmax(x, 0)),
    "softmax beside": (lambda x: nn.softmax(x, 1), lambda x: softmax(x, 1)),
    "logsumexp": (lambda x: nn.logsumexp(x, 0), lambda x: np.log(np.exp(x).sum(0))),
    "Gram matrix": (lambda x: x.T @ x, lambda x: x.T @ x),
    "outer": (lambda x: x @ x.T, lambda x: x @ x.T),
    "of infinities": (lambda x: (1 / x).T @ x, lambda x: (1 / x).T @ x),
    "attention": (
        lambda x: nn.softmax(x @ x.T, -1) @ x,
        lambda x: softmax(x @ x.T, -1) @ x,
    ),
    "sort": (lambda x: wnp.sort(x, 0), lambda x: np.sort(x, 0)),
    "argsort": (lambda x: wnp.argsort(x, 0), lambda x: np.argsort(x, 0)),
    "argmax": (lambda x: wnp.argmax(x, 0), lambda x: np.argmax(x, 0)),
    "argmin": (lambda x: wnp.argmin(x, 0), lambda x: np.argmin(x, 0)),
    "top_k": (lambda x: lax.top_k(x.T, 2)[0], lambda x: -np.sort(-x.T, -1)[:, :2]),
    "median of all": (wnp.median, np.median),
    "cumsum": (lambda x: wnp.cumsum(x, 0), lambda x: np.cumsum(x, 0)),
    "cumsum from the end": (
        lambda x: lax.cumsum(x, 0, reverse=True),
        lambda x: np.cumsum(x[::-1], 0)[::-1],
    ),
    "reversed": (lambda x: x[::-1], lambda x: x[::-1]),
    "last row": (lambda x: x[-1], lambda x: x[-1]),
    "without the first": (lambda x: x[1:], lambda x: x[1:]),
    "differences": (lambda x: wnp.diff(x, axis=0), lambda x: np.diff(x, axis=0)),
    "every other": (lambda x: x[::2], lambda x: x[::2]),
    "last rows": (lambda x: x[-2:], lambda x: x[-2:]),
    "roll": (lambda x: wnp.roll(x, 1, 0), lambda x: np.roll(x, 1, 0)),
    "concatenate": (
        lambda x: wnp.concatenate([x, 2 * x, x[:1]]),
        lambda x: np.concatenate([x, 2 * x, x[:1]]),
    ),
    "pad": (lambda x: wnp.pad(x, 1), lambda x: np.pad(x, 1)),
    "ravel": (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    "ravel of columns": (lambda x: x.T.reshape(-1), lambda x: x.T.reshape(-1)),
    "tile": (lambda x: wnp.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "repeat": (lambda x: wnp.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0)),
    "split": (lambda x: wnp.split(x, [2])[1], lambda x: np.split(x, [2])[1]),
    "convolve": (
        lambda x: wnp.convolve(x[:, 0], wnp.arange(3.0)),
        lambda x: np.convolve(x[:, 0], np.arange(3.0)),
    ),
    "convolve, same": (
        lambda x: wnp.convolve(x[:, 0], wnp.arange(3.0), mode="same"),
        lambda x: np.convolve(x[:, 0], np.arange(3.0), mode="same"),
    ),
    "windows": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 1), (1, 1), "VALID"),
        lambda x: np.maximum(x[1:], x[:-1]),
    ),
    "take": (lambda x: x[wnp.array([0, -1, 2])], lambda x: x[[0, -1, 2]]),
    "take past the end": (
        lambda x: wnp.take(x, wnp.array([0, 99]), 0, mode="clip"),
        lambda x: x[[0, -1]],
    ),
    "fill past the end": (
        lambda x: wnp.asarray(x).at[wnp.array([0, 5])].get(mode="fill", fill_value=7),
        lambda x: np.stack([x[0], x[5] if len(x) > 5 else np.full(4, 7, np.float32)]),
    ),
    "add at": (
        lambda x: wnp.zeros(6).at[wnp.arange(x.shape[0]) % 6].add(x[:, 0]),
        lambda x: np.bincount(np.arange(len(x)) % 6, x[:, 0], 6),
    ),
    "histogram": (lambda x: wnp.histogram(x, 5)[0], lambda x: np.histogram(x, 5)[0]),
    "triangle": (lambda x: wnp.tril(x @ x.T), lambda x: np.tril(x @ x.T)),
    "identity": (
        lambda x: wnp.eye(x.shape[0]) + x @ x.T,
        lambda x: np.eye(len(x)) + x @ x.T,
    ),
    "diagonal": (lambda x: wnp.diag(x[:, 0]), lambda x: np.diag(x[:, 0])),
    "linspace": (
        lambda x: wnp.linspace(0, 1, x.shape[0]) * x[:, 0],
        lambda x: np.linspace(0, 1, len(x)) * x[:, 0],
    ),
    "constants of the size": (
        lambda x: x * np.hanning(x.shape[0]).astype("f")[:, None],
        lambda x: x * np.hanning(len(x)).astype("f")[:, None],
    ),
    "scan": (decay, scan_decay),
    "scan from the end": (lambda x: decay(x, reverse=True), lambda x: scan_decay(x[::-1])),
    "counted loop": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + i * x[i], wnp.zeros(4)),
        lambda x: (np.arange(len(x))[:, None] * x).sum(0),
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c.sum() < 30, lambda c: c + 1, x),
        lambda x: x + max(0, int(np.ceil((30 - x.sum()) / x.size))),
    ),
    "cond": (
        lambda x: lax.cond(x.sum() > 0, lambda: x.sum(0), lambda: x.max(0)),
        lambda x: x.sum(0) if x.sum() > 0 else x.max(0),
    ),
    "gradient": (
        weft.grad(linear_loss),
        lambda x: np.outer(2 * (x @ np.arange(4.0) - 1) / len(x), np.arange(4.0)),
    ),
    "vmap": (lambda x: weft.vmap(lambda r: r @ r)(x), lambda x: (x * x).sum(1)),
    "batched solve": (
        lambda x: weft.vmap(lambda r: wnp.linalg.inv(wnp.diag(r**2 + 1)))(x).sum(0),
        lambda x: np.stack([np.diag(1 / (r**2 + 1)) for r in x]).sum(0),
    ),
    "transform beside": (lambda x: wnp.abs(wnp.fft.fft(x)), lambda x: np.abs(np.fft.fft(x))),
    "inner jit": (lambda x: weft.jit(lambda y: y.mean(0))(x), lambda x: x.mean(0)),
    "checkpoint": (
        weft.grad(lambda x: weft.checkpoint(lambda y: wnp.sum(y**3) / y.shape[0])(x)),
        lambda x: 3 * x**2 / len(x),
    ),
    "nothing padded": (lambda x: wnp.ones(3), lambda x: np.ones(3)),
}


@pytest.mark.parametrize("name", EXACT)
def test_results_are_those_of_the_true_size(name, rng):
    f, expected = EXACT[name]
    g = weft.jit(f, bucket=N, bucket_shapes="n, _")
    for n in (5, 7, 8, 6, 11, 3):
        x = rows(rng, n)
        got, want = g(x), np.asarray(expected(x))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


REFUSED = {
    "cholesky": lambda x: wnp.linalg.cholesky(x @ x.T + 9 * wnp.eye(x.shape[0])),
    "fft": lambda x: wnp.fft.fft(x[:, 0]),
    "callback": lambda x: weft.pure_callback(lambda v: v, x, x),
    "add": lambda x: x if x.shape[0] > 7 else x + 1,
    "random_bits": lambda x: weft.random.normal(weft.random.key(0), x.T.shape) + x.T,
    "reduce": lambda x: lax.reduce(x, 3.0, lambda a, b: a * 2 + b, (0,)),
}


@pytest.mark.parametrize("operation", REFUSED)
def test_what_padding_would_change_is_refused_by_name_and_line(operation, rng):
    g = weft.jit(REFUSED[operation], bucket=N, bucket_shapes="n, _")
    with pytest.raises(weft.errors.BucketError, match=rf"{operation} \(test_call.py:\d+\)"):
        g(rows(rng, 5))


def test_one_program_serves_all_sizes_of_a_bucket(rng):
    traced = []

    @weft.jit(bucket=N, bucket_shapes="n, _")
    def f(x):
        traced.append(x.shape)
        return x.mean(0)

    compiled = []

    def listen(name, seconds, **_):
        if "backend_compile" in name:
            compiled.append(name)

    for n in (9, 16):
        f(rows(rng, n))
    weft.monitoring.register_event_duration_secs_listener(listen)
    try:
        for n in (10, 11, 12, 13, 14, 15, 16, 9):
            x = rows(rng, n)
            np.testing.assert_allclose(f(x), x.mean(0), rtol=1e-5, atol=1e-6)
    finally:
        weft.monitoring.unregister_event_duration_listener(listen)
    assert not compiled
    count = len(traced)
    f(rows(rng, 12))
    assert len(traced) == count


def test_trees_and_several_dimensions(rng):
    @weft.jit(
        bucket={"n": weft.powers_of_two, "m": (4, 16)},
        bucket_shapes=({"a": "n, _", "b": "m"}, "n, m"),
    )
    def f(tree, w):
        return {"y": w @ tree["b"], "z": (tree["a"].T @ w, w.reshape(-1), w.mean())}

    for n, m in ((3, 3), (5, 3), (3, 5), (7, 7), (6, 4), (16, 16)):
        a, b, w = rows(rng, n, 2), rows(rng, m, 1)[:, 0], rows(rng, n, m)
        got = f({"a": a, "b": b}, w)
        np.testing.assert_allclose(got["y"], w @ b, rtol=1e-4, atol=1e-5)
        for x, y in zip(got["z"], (a.T @ w, w.reshape(-1), w.mean()), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_reshapes_that_exchange_dimensions_are_exact_or_refused(rng):
    f = weft.jit(
        lambda x: x.reshape(x.shape[1], x.shape[0]),
        bucket={"n": (16,), "m": (8,)},
        bucket_shapes="n, m",
    )
    for n, m in ((5, 3), (3, 5), (2, 7), (16, 8), (4, 8)):
        x = rows(rng, n, m)
        np.testing.assert_array_equal(f(x), x.reshape(m, n))
    with pytest.raises(weft.errors.BucketError, match="reshape"):
        f(rows(rng, 5, 5))  # no reshape at all at this size


def test_annotations_name_dimensions(rng):
    def f(x: Annotated[weft.Array, "n _"], scale: float = 2.0):
        return (x * scale).sum(0)

    x = rows(rng, 5)
    np.testing.assert_allclose(weft.jit(f, bucket=N)(x, scale=3.0), 3 * x.sum(0), rtol=1e-5)


def test_static_and_keyword_arguments(rng):
    @weft.jit(bucket=N, bucket_shapes={"x": "n, ..."}, static_argnames="axis")
    def f(x, axis, *, shift):
        return x.sum(axis) + shift

    x = rows(rng, 5)
    np.testing.assert_allclose(f(x, 0, shift=1.0), x.sum(0) + 1, rtol=1e-5)
    np.testing.assert_allclose(f(x, axis=1, shift=1.0), x.sum(1) + 1, rtol=1e-5)


def test_donated_arguments_are_gone(rng):
    f = weft.jit(
        lambda x, y: (x * 2, y + 1), bucket=N, bucket_shapes=("n", None), donate_argnums=(0, 1)
    )
    x, y = wnp.arange(5.0), wnp.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = f(x, y)
    np.testing.assert_array_equal(got[0], 2 * np.arange(5.0))
    np.testing.assert_array_equal(got[1], np.full(3, 2.0))
    assert x.is_deleted() and y.is_deleted()


def test_shardings_are_of_padded_sizes(rng):
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.AxisType.Auto,))
    split = weft.NamedSharding(mesh, P("x"))
    f = weft.jit(lambda x: (x * 2, x.sum(0)), bucket=N, bucket_shapes="n, _", in_shardings=split)
    for n in (13, 16, 11):  # as such they could not be split by eight
        x = rows(rng, n)
        doubled, total = f(x)
        np.testing.assert_allclose(doubled, 2 * x)
        np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-5)


def test_random_keys_are_padded_as_arrays_are():
    f = weft.jit(lambda keys: weft.vmap(weft.random.uniform)(keys), bucket=N, bucket_shapes="n")
    keys = weft.random.split(weft.random.key(0), 5)
    want = [float(weft.random.uniform(k)) for k in keys]
    np.testing.assert_allclose(f(keys), want)


def test_among_tracers_it_is_the_plain_function(rng):
    f = weft.jit(lambda x: (x**2).mean(), bucket=N, bucket_shapes="n, _")
    x = rows(rng, 5)
    np.testing.assert_allclose(weft.grad(f)(x), 2 * x / x.size, rtol=1e-5)
    np.testing.assert_allclose(weft.jit(f)(x), (x**2).mean(), rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1])
def test_sizes_zero_and_one_stay(n, rng):
    x = rows(rng, n)
    np.testing.assert_allclose(
        weft.jit(lambda x: x.sum(0), bucket=N, bucket_shapes="n, _")(x), x.sum(0), rtol=1e-5
    )


def test_debugging_of_nans_does_not_see_the_padding(rng):
    f = weft.jit(lambda x: (x / x).sum(0), bucket=N, bucket_shapes="n, _")
    with weft.debug_nans(True):
        np.testing.assert_allclose(f(rows(rng, 5)), np.full(4, 5.0))


BAD = [
    (lambda: weft.jit(lambda x: x, bucket=N), "bucket_shapes"),
    (lambda: weft.jit(lambda x: x, bucket={}), "powers_of_two"),
    (lambda: weft.jit(lambda x: x, bucket="n"), "powers_of_two"),
    (lambda: weft.jit(lambda x: x, bucket={"n": (0,)}), "positive"),
    (lambda: weft.jit(lambda x: x, bucket_shapes="n"), "bucket"),
    (lambda: weft.jit(lambda x: x, bucket=N, bucket_shapes="n, n")(np.ones(3)), "'n, n'"),
    (lambda: weft.jit(lambda x: x, bucket=N, bucket_shapes=(3,))(np.ones(3)), "argument x"),
    (lambda: weft.jit(lambda x: x, bucket={"n": (4, 8)}, bucket_shapes="n")(np.ones(9)), "9"),
    (
        lambda: weft.jit(lambda x: x, bucket={"n": lambda n: n - 1}, bucket_shapes="n")(np.ones(9)),
        "8",
    ),
    (
        lambda: weft.jit(lambda x, y: x, bucket=N, bucket_shapes="n")(np.ones(3), np.ones(4)),
        "argument y",
    ),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_buckets_are_named(case):
    call, words = BAD[case]
    with pytest.raises((TypeError, ValueError), match=words):
        call()
