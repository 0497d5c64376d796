"""Slices: values against NumPy, derivatives against the known linear maps, batching, errors."""

import functools

import numpy as np
import pytest

import weft
from weft.ops import dynamic_slicing, slicing

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def total(f):
    """A scalar function whose gradient tells apart all elements of f's result."""
    return lambda *args: (f(*args) * weights(f, *args)).sum()


def weights(f, *args):
    shape = weft.eval_shape(f, *args).shape
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def transposed(numpy_f, ct):
    """The transpose of a NumPy function that only selects elements of X."""
    positions = numpy_f(np.arange(X.size).reshape(X.shape))
    result = np.zeros(X.size, np.float32)
    np.add.at(result, np.asarray(positions).ravel(), np.asarray(ct).ravel())
    return result.reshape(X.shape)


SELECTIONS = {
    "slice": (lambda x: slicing.slice(x, (1, 2), (3, 6)), lambda x: x[1:3, 2:6]),
    "strided slice": (lambda x: slicing.slice(x, (0, 1), (4, 6), (3, 2)), lambda x: x[::3, 1::2]),
    "empty slice": (lambda x: slicing.slice(x, (1, 2), (1, 6)), lambda x: x[1:1, 2:6]),
    "slice_in_dim": (lambda x: slicing.slice_in_dim(x, -3, -1, axis=1), lambda x: x[:, -3:-1]),
    "index_in_dim": (
        lambda x: slicing.index_in_dim(x, -1, 1, keepdims=False),
        lambda x: x[:, -1],
    ),
    "dynamic_slice": (
        lambda x: dynamic_slicing.dynamic_slice(x, (1, 2), (2, 3)),
        lambda x: x[1:3, 2:5],
    ),
    "dynamic_slice negative": (
        lambda x: dynamic_slicing.dynamic_slice(x, (-2, 0), (1, 6)),
        lambda x: x[2:3],
    ),
    "dynamic_slice clamped": (
        lambda x: dynamic_slicing.dynamic_slice(x, (9, 5), (2, 3)),
        lambda x: x[2:4, 3:6],
    ),
    "dynamic_slice_in_dim": (
        lambda x: dynamic_slicing.dynamic_slice_in_dim(x, 1, 4, axis=1),
        lambda x: x[:, 1:5],
    ),
    "dynamic_index_in_dim": (
        lambda x: dynamic_slicing.dynamic_index_in_dim(x, 3, 0, keepdims=False),
        lambda x: x[3],
    ),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_equal_numpys_eagerly_and_compiled(name):
    f, reference = SELECTIONS[name]
    np.testing.assert_array_equal(f(weft.numpy.asarray(X)), reference(X))
    np.testing.assert_array_equal(weft.jit(f)(X), reference(X))


@pytest.mark.parametrize("name", SELECTIONS)
def test_derivatives_of_selections_select_and_put_back(name):
    f, reference = SELECTIONS[name]
    out, tangent = weft.jvp(f, (X,), (X + 100,))
    np.testing.assert_array_equal(out, reference(X))
    np.testing.assert_array_equal(tangent, reference(X + 100))
    gradient = weft.jit(weft.grad(total(f)))(X)
    np.testing.assert_array_equal(gradient, transposed(reference, weights(f, X)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_selections_batch_along_any_dimension(axis):
    batch = np.stack([X, X * 2, X - 5], axis)
    for f, reference in SELECTIONS.values():
        out = weft.vmap(f, in_axes=axis)(batch)
        np.testing.assert_array_equal(out, np.stack([reference(x) for x in (X, X * 2, X - 5)]))


def test_traced_starts_are_wrapped_and_clamped():
    f = weft.jit(lambda x, i: dynamic_slicing.dynamic_slice(x, (i, 0), (2, 6)))
    for i, start in [(0, 0), (1, 1), (3, 2), (99, 2), (-1, 2), (-4, 0), (-99, 0)]:
        np.testing.assert_array_equal(f(X, i), X[start : start + 2])


def test_negative_starts_clamp_to_zero_when_they_are_not_wrapped():
    f = weft.jit(
        lambda x, i: dynamic_slicing.dynamic_slice_in_dim(x, i, 2, allow_negative_indices=False)
    )
    np.testing.assert_array_equal(f(X, -1), X[:2])


def test_starts_may_be_an_array_of_any_integer_type():
    for dtype in ("int8", "uint8", "int32", "uint32"):
        starts = np.array([2, 1], dtype)
        np.testing.assert_array_equal(dynamic_slicing.dynamic_slice(X, starts, (2, 2)), X[2:4, 1:3])
    mixed = weft.jit(lambda i, j: dynamic_slicing.dynamic_slice(X, (i, j), (2, 2)))
    np.testing.assert_array_equal(mixed(np.uint8(2), np.int32(1)), X[2:4, 1:3])


def test_dynamic_slice_batches_over_starts_by_one_gather():
    starts = np.array([0, 3, -1, 7], np.int32)
    f = weft.vmap(lambda x, i: dynamic_slicing.dynamic_slice(x, (i,), (2,)))
    np.testing.assert_array_equal(f(X, starts), [X[0, :2], X[1, 3:5], X[2, 4:6], X[3, 4:6]])
    names = [e.primitive.name for e in weft.make_jaxpr(f)(X, starts).jaxpr.eqns]
    assert names.count("gather") == 1 and "while" not in names
    g = weft.vmap(lambda i: dynamic_slicing.dynamic_slice(X, (i, 1), (1, 2)))
    np.testing.assert_array_equal(g(np.array([2, 0])), [X[2:3, 1:3], X[0:1, 1:3]])


def test_nested_slices_clamp_their_starts_one_by_one():
    x = np.arange(12, dtype=np.float32)
    cut = dynamic_slicing.dynamic_slice
    within = weft.jit(lambda x, i: cut(x, (i,), (4,)))

    def twice(between, x, i, j):
        return cut(between(within(x, i)), (j,), (2,))

    for between in (lambda y: y, lambda y: y * 1, lambda y: y.reshape(2, 2).reshape(4)):
        f = weft.jit(functools.partial(twice, between))
        np.testing.assert_array_equal(f(x, 2, 7), [4, 5])
        np.testing.assert_array_equal(f(x, 11, 1), [9, 10])
        np.testing.assert_array_equal(f(x, np.uint8(200), np.int8(-100)), [8, 9])


def test_static_starts_become_static_slices_while_tracing():
    jaxpr = weft.make_jaxpr(lambda x: dynamic_slicing.dynamic_slice(x, (1, 2), (2, 2)))(X)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["slice"]


# Updates ------------------------------------------------------------------------------------------

U = np.full((2, 3), -1, np.float32)


def updated(x, u, i, j):
    x = np.array(x)
    x[i : i + u.shape[0], j : j + u.shape[1]] = u
    return x


def test_an_update_replaces_a_window_wherever_it_fits():
    f = weft.jit(lambda x, u, i, j: dynamic_slicing.dynamic_update_slice(x, u, (i, j)))
    for i, j, a, b in [(0, 0, 0, 0), (1, 2, 1, 2), (9, 9, 2, 3), (-2, -4, 2, 2)]:
        np.testing.assert_array_equal(f(X, U, i, j), updated(X, U, a, b))
        np.testing.assert_array_equal(
            dynamic_slicing.dynamic_update_slice(X, U, (i, j)), updated(X, U, a, b)
        )


def test_updates_along_one_dimension():
    row = np.full((1, 6), 7, np.float32)
    expected = updated(X, row, 2, 0)
    np.testing.assert_array_equal(
        dynamic_slicing.dynamic_update_slice_in_dim(X, row, 2, 0), expected
    )
    np.testing.assert_array_equal(
        dynamic_slicing.dynamic_update_index_in_dim(X, row[0], 2, 0), expected
    )


def test_derivatives_of_an_update_in_both_operands():
    f = weft.jit(lambda x, u, i: dynamic_slicing.dynamic_update_slice(x, u, (i, 1)))
    w = weights(f, X, U, 1)
    gx, gu = weft.grad(lambda x, u: (f(x, u, 1) * w).sum(), argnums=(0, 1))(X, U)
    np.testing.assert_array_equal(gx, updated(w, np.zeros_like(U), 1, 1))
    np.testing.assert_array_equal(gu, w[1:3, 1:4])
    _, t = weft.jvp(lambda u: f(X, u, 1), (U,), (U * 2,))
    np.testing.assert_array_equal(t, updated(np.zeros_like(X), U * 2, 1, 1))
    hessian = weft.jacfwd(weft.grad(lambda u: (f(X, u, 1) ** 3).sum()))(U)
    np.testing.assert_allclose(np.asarray(hessian).reshape(6, 6), np.diag(6 * U.ravel()))


@pytest.mark.parametrize("axes", [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None), (1, 2, 0)])
def test_updates_batch_over_each_operand(axes):
    def example(a, axis, k):
        return a if axis is None else np.take(a, k, axis)

    xs = X if axes[0] is None else np.stack([X, X + 1, X + 2], axes[0])
    us = U if axes[1] is None else np.stack([U, U - 1, U - 2], axes[1])
    starts = np.int32(1) if axes[2] is None else np.array([0, 2, -3], np.int32)
    f = weft.vmap(lambda x, u, i: dynamic_slicing.dynamic_update_slice(x, u, (i, 1)), in_axes=axes)
    out = f(xs, us, starts)
    for k in range(3):
        i = int(example(starts, axes[2], k))
        i = min(i + 4 if i < 0 else i, 2)
        expected = updated(example(xs, axes[0], k), example(us, axes[1], k), i, 1)
        np.testing.assert_array_equal(out[k], expected)


def test_index_take_takes_along_several_dimensions():
    i, j = np.array([0, 3, -1]), np.array([5, 1, 0])
    np.testing.assert_array_equal(dynamic_slicing.index_take(X, (i, j), (0, 1)), X[i, j])
    np.testing.assert_array_equal(dynamic_slicing.index_take(X, (j % 4,), (0,)), X[j % 4])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: slicing.slice(X, (0,), (1,)), TypeError, "one entry for each"),
        (lambda: slicing.slice(X, (0, 0), (5, 6)), TypeError, "0 <= start <= limit <= 4"),
        (lambda: slicing.slice(X, (0, 0.5), (4, 6)), TypeError, "static ints"),
        (lambda: dynamic_slicing.dynamic_slice(X, (0, 0), (5, 6)), TypeError, "does not fit"),
        (
            lambda: dynamic_slicing.dynamic_slice(X, (0,), (2, 2)),
            TypeError,
            "one for each dimension",
        ),
        (lambda: dynamic_slicing.dynamic_slice(X, (0.0, 1), (2, 2)), TypeError, "integer scalar"),
        (lambda: dynamic_slicing.dynamic_update_slice(X, U[0], (0, 0)), TypeError, "the rank"),
        (
            lambda: dynamic_slicing.dynamic_update_slice(X, U.astype(int), (0, 0)),
            TypeError,
            "the dtype",
        ),
        (lambda: slicing.index_in_dim(X, 4), ValueError, "out of bounds"),
    ],
)
def test_errors_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_windows_of_a_batch_without_examples_have_its_shape():
    xs, starts = np.zeros((0, 4, 6), np.float32), np.zeros(0, np.int32)
    window = lambda x, i: dynamic_slicing.dynamic_slice(x, (i, 0), (2, 3))
    written = lambda x, i: dynamic_slicing.dynamic_update_slice(x, x[:2], (i, 0))
    assert weft.vmap(window)(xs, starts).shape == (0, 2, 3)
    assert weft.vmap(written)(xs, starts).shape == (0, 4, 6)
    gradient = weft.vmap(weft.grad(lambda x, i: window(x, i).sum()))
    assert gradient(xs, starts).shape == (0, 4, 6)


FRACTIONS = [
    ("transpose", lambda x: weft.lax.transpose(x, (1.0, 0.0))),
    ("broadcast_in_dim", lambda x: weft.lax.broadcast_in_dim(x, (2, 3, 4), (0.5, 1))),
    ("pad", lambda x: weft.lax.pad(x, 0.0, [(1.5, 0, 0), (0, 0, 0)])),
    ("reduce_window", lambda x: weft.lax.reduce_window(x, 0.0, weft.lax.add, (1, 1.5))),
    ("reduce_window", lambda x: weft.lax.reduce_window(x, 0.0, weft.lax.add, (1, 1), (1, 1.5))),
    ("reduce_window", lambda x: weft.lax.reduce_window(x, 0.0, weft.lax.add, None)),
    ("integer_pow", lambda x: weft.lax.integer_pow(x, 1.5)),
    ("split", lambda x: weft.lax.split(x, [1.5, 0.5])),
    ("slice", lambda x: weft.lax.slice(x, (0.5, 0), (2, 3))),
    ("dynamic_slice", lambda x: weft.lax.dynamic_slice(x, (0, 0), (1.5, 1))),
    ("conv_general_dilated_patches", lambda x: weft.lax.conv_general_dilated_patches(
        x[None, None], (1.5, 1), (1, 1), "VALID")),
    ("resize", lambda x: weft.image.resize(x, (2.5, 2), "linear")),
]  # fmt: skip


@pytest.mark.parametrize("case", FRACTIONS, ids=[row[0] for row in FRACTIONS])
def test_sizes_and_positions_are_no_fractions(case):
    name, f = case
    with pytest.raises(TypeError, match=rf"{name}: .* must consist of static ints"):
        f(weft.numpy.ones((2, 3)))


def test_a_row_of_padding_has_three_numbers():
    with pytest.raises(ValueError, match="low, high, interior"):
        weft.lax.pad(weft.numpy.ones(2), 0.0, [(1, 0)])
