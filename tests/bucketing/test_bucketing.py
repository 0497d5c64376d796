"""jit(bucket=): on padded arguments, results are NumPy's on true ones, or it is refused."""

from typing import Annotated, Any

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.errors import BucketError

BUCKET = {"n": weft.powers_of_two, "m": weft.powers_of_two}
SIZES = [(3, 5), (4, 4), (5, 3), (6, 7), (1, 9), (9, 2)]


def floats(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def segment_sum(x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return np.array([x[ids == k].sum() for k in range(4)])


def scanned(x: np.ndarray) -> tuple:
    carry, rows = 0.0, []
    for row in x:
        rows.append(carry * row.max())
        carry = carry * 0.5 + row.sum()
    return np.float32(carry), np.array(rows)


def matrix(n: int, m: int) -> tuple:
    return (floats(n, m),)


def pair(n: int, m: int) -> tuple:
    return floats(n, 4), floats(m, 4)


# name → the function, NumPy's counterpart, arguments of the sizes n and m, their shapes
CASES: dict[str, tuple] = {
    "sum": (lambda x: x.sum(), np.sum, matrix, "n m"),
    "mean of columns": (lambda x: x.mean(0), lambda x: x.mean(0), matrix, "n m"),
    "mean of both": (wnp.mean, np.mean, matrix, "n m"),
    "variance": (lambda x: x.var(0), lambda x: x.var(0), matrix, "n m"),
    "extrema": (lambda x: (x.max(0), x.min(1)), lambda x: (x.max(0), x.min(1)), matrix, "n m"),
    "argmax": (lambda x: x.argmax(0), lambda x: x.argmax(0), matrix, "n m"),
    "product": (lambda x: x.prod(1), lambda x: x.prod(1), matrix, "n m"),
    "norm": (wnp.linalg.norm, np.linalg.norm, matrix, "n m"),
    "softmax": (weft.nn.softmax, softmax, matrix, "n m"),
    "exp of a sum": (lambda x: wnp.exp(x).sum(0), lambda x: np.exp(x).sum(0), matrix, "n m"),
    "not finite": (
        lambda x: (1 / (x - x)).sum(),
        lambda x: np.float32(np.inf * x.size),
        matrix,
        "n m",
    ),
    "nanmean": (
        lambda x: wnp.nanmean(wnp.where(x > 1, wnp.nan, x)),
        lambda x: np.nanmean(np.where(x > 1, np.nan, x)),
        matrix,
        "n m",
    ),
    "sort": (lambda x: wnp.sort(x, 0), lambda x: np.sort(x, 0), matrix, "n m"),
    "cumsum": (lambda x: x.cumsum(0), lambda x: x.cumsum(0), matrix, "n m"),
    "cumsum, reversed": (
        lambda x: lax.cumsum(x, 0, reverse=True),
        lambda x: x[::-1].cumsum(0)[::-1],
        matrix,
        "n m",
    ),
    "flip": (lambda x: x.T[::-1], lambda x: x.T[::-1], matrix, "n m"),
    "roll": (lambda x: wnp.roll(x, 1, 0), lambda x: np.roll(x, 1, 0), matrix, "n m"),
    "last row": (lambda x: x[-1], lambda x: x[-1], matrix, "n m"),
    "joined": (lambda x: wnp.concatenate([x, x]), lambda x: np.concatenate([x, x]), matrix, "n m"),
    "flattened": (
        lambda x: x.reshape(-1).cumsum(),
        lambda x: x.reshape(-1).cumsum(),
        matrix,
        "n m",
    ),
    "its own size": (
        lambda x: x.sum(0) / x.shape[0] + wnp.arange(x.shape[1]),
        lambda x: x.sum(0) / x.shape[0] + np.arange(x.shape[1]),
        matrix,
        "n m",
    ),
    "gram": (lambda x: x.T @ x, lambda x: x.T @ x, matrix, "n m"),
    "product of two": (
        lambda x, y: x @ y,
        lambda x, y: x @ y,
        lambda n, m: (floats(n, m), floats(m, n)),
        ("n m", "m n"),
    ),
    "attention": (
        lambda q, k: weft.nn.softmax(q @ k.T) @ k,
        lambda q, k: softmax(q @ k.T) @ k,
        pair,
        ("n _", "m _"),
    ),
    "gradient": (
        weft.grad(lambda x: (x**2).mean()),
        lambda x: 2 * x / x.size,
        matrix,
        "n m",
    ),
    "scan": (
        lambda x: lax.scan(lambda c, r: (c * 0.5 + r.sum(), c * r.max()), 0.0, x),
        scanned,
        matrix,
        "n m",
    ),
    "gather": (
        lambda x, i: x[i - 1],
        lambda x, i: x[i - 1],
        lambda n, m: (floats(n), np.arange(m) % n),
        ("n", "m"),
    ),
    "segments": (
        lambda x, i: weft.ops.segment_sum(x, i, 4),
        segment_sum,
        lambda n, m: (floats(n), np.arange(n) % 4),
        ("n", "n"),
    ),
    "convolution": (
        lambda x: wnp.convolve(x, np.ones(3, np.float32)),
        lambda x: np.convolve(x, np.ones(3, np.float32)),
        lambda n, m: (floats(n),),
        "n",
    ),
    "tree": (
        lambda d: d["a"].sum() + d["b"].max(),
        lambda d: d["a"].sum() + d["b"].max(),
        lambda n, m: ({"a": floats(n), "b": floats(m)},),
        ({"a": "n", "b": "m"},),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_true_sizes(name):
    function, expected, arguments, shapes = CASES[name]
    padded = weft.jit(
        function, bucket=BUCKET, bucket_shapes=(shapes,) if isinstance(shapes, str) else shapes
    )
    for n, m in SIZES:
        args = arguments(n, m)
        with np.errstate(all="ignore"):
            wanted = weft.tree.leaves(expected(*args))
        for got, want in zip(weft.tree.leaves(padded(*args)), wanted, strict=True):
            assert got.shape == np.shape(want), (n, m)
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5, err_msg=f"{n}, {m}")


REFUSED: dict[str, tuple[Any, tuple, Any, str]] = {
    "fft": (wnp.fft.fft, (floats(3),), "n", "fft"),
    "solve": (wnp.linalg.solve, (np.eye(3, dtype=np.float32), floats(3)), ("n n", "n"), "lu"),
    "cholesky": (wnp.linalg.cholesky, (np.eye(3, dtype=np.float32),), "n n", "cholesky"),
    "random numbers": (
        lambda k, x: x + weft.random.normal(k, x.shape),
        (weft.random.key(0), floats(3, 5)),
        (None, "n m"),
        "random_bits",
    ),
    "a loop of Python": (
        lambda x: sum(x[i] for i in range(len(x))),
        (floats(3),),
        "n",
        "another program",
    ),
    "a callback": (
        lambda x: weft.pure_callback(np.sin, weft.ShapeDtypeStruct(x.shape, x.dtype), x),
        (floats(3),),
        "n",
        "callback",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_padding_would_change_is_refused_by_name_and_line(name):
    function, args, shapes, text = REFUSED[name]
    with pytest.raises(BucketError, match=text):
        weft.jit(function, bucket=BUCKET, bucket_shapes=shapes)(*args)


def test_one_program_serves_the_sizes_of_a_bucket():
    traced = []

    def total(x):
        traced.append(x.shape[0])
        return x.sum()

    padded = weft.jit(total, bucket={"n": (16, 64)}, bucket_shapes="n")
    compiled = []

    def count(event: str, seconds: float, **tags: object) -> None:
        if event.endswith("backend_compile_duration") and "total" in str(tags):
            compiled.append(tags)

    weft.monitoring.register_event_duration_secs_listener(count)
    try:
        sums = [float(padded(np.ones(n, np.float32))) for n in range(2, 60)]
    finally:
        weft.monitoring.unregister_event_duration_listener(count)
    assert sums == [float(n) for n in range(2, 60)]
    assert 1 <= len(compiled) <= 2, compiled


def test_annotations_name_dimensions_and_static_arguments_stay():
    def scaled(x: Annotated[Any, "n _"], factor: int):
        return x.sum(0) * factor

    padded = weft.jit(scaled, bucket={"n": weft.powers_of_two}, static_argnums=1)
    for n in (3, 5):
        np.testing.assert_allclose(padded(floats(n, 2), 3), floats(n, 2).sum(0) * 3, rtol=1e-4)


@pytest.mark.parametrize(
    ("bucket", "shapes", "size", "text"),
    [
        ({}, "n", 3, "bucket must be a dict"),
        ({"n": "big"}, "n", 3, "a sequence of positive sizes"),
        ({"n": (4,)}, "n", 5, "exceeds the largest bucket"),
        ({"n": lambda n: n - 1}, "n", 5, "at least 5"),
        ({"n": (8,)}, "n m", 5, "2 dimensions"),
        ({"n": (8,)}, 3, 5, "bucket_shapes"),
        ({"n": (8,)}, None, 5, "nothing says which dimensions"),
        (None, "n", 5, "bucket"),
    ],
)
def test_buckets_that_do_not_fit_are_told_of(bucket, shapes, size, text):
    with pytest.raises((TypeError, ValueError), match=text):
        weft.jit(lambda x: x, bucket=bucket, bucket_shapes=shapes)(floats(size))


def test_dimensions_of_one_name_have_one_size():
    padded = weft.jit(lambda x, y: x.sum() + y.sum(), bucket=BUCKET, bucket_shapes=("n", "n"))
    with pytest.raises(ValueError, match=r"has size 3 in argument x and 4 in argument y"):
        padded(floats(3), floats(4))
