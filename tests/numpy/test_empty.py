"""Arrays without elements, empty axes and degenerate arguments, against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

SHAPES = [(0,), (0, 3), (3, 0), (2, 0, 3), (2, 0, 0)]
NONE = np.zeros(0, int)


def same(got, want):
    """Equal shapes and values, and kinds of dtype."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


# Functions of one array, by name, and of what they take beside it.
REDUCTIONS = ["sum", "prod", "any", "all", "count_nonzero", "cumsum", "cumprod", "nansum"]
OTHERS = ["sort", "argsort", "flip", "diff", "round", "isnan", "ravel", "transpose"]
CALLS = {
    **{name: {"axis": (None, 0, -1)} for name in REDUCTIONS},
    "max": {"axis": (None, 0, -1), "initial": (1.0,)},
    "min": {"axis": (None, 0, -1), "initial": (1.0,)},
    **{name: {} for name in OTHERS},
    "roll": {"shift": (2, ()), "axis": (-1,)},
    "repeat": {"repeats": (0, 2), "axis": (0,)},
    "tile": {"reps": ((), 2, (2, 1), np.array(3))},
    "reshape": {"shape": ((0,), np.array(0), (0, 5))},
    "broadcast_to": {"shape": ((4, 2, 0, 3), (2, 0, 3, 3))},
    "take": {"indices": (NONE,), "axis": (0, -1)},
    "fft.fftshift": {"axes": (None, (0, 0), NONE, np.array([0]))},
    "linalg.norm": {"axis": (-1,)},
    "linalg.matrix_norm": {"ord": ("fro", 1, np.inf, 2, "nuc")},
    "linalg.matrix_rank": {},
    "linalg.det": {},
    "linalg.pinv": {},
    "unique": {"return_inverse": (True,), "return_counts": (True,)},
}


def combinations(options):
    calls = [{}]
    for name, values in options.items():
        calls = [{**c, name: v} for c in calls for v in values]
    return calls


def looked_up(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


# NumPy gives the largest of nothing no value for these orders before 2.3.
ZERO_NORM = (1, 2, np.inf)


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_empty_arrays_equal_numpys(name):
    ours, theirs, compared = looked_up(jnp, name), looked_up(np, name), 0
    for shape in SHAPES:
        x = np.zeros(shape, np.float32)
        for keywords in combinations(CALLS[name]):
            if keywords.get("ord") in ZERO_NORM and len(shape) > 1:
                want = np.zeros(shape[:-2], np.float32)
            else:
                try:
                    want = theirs(x, **keywords)
                except Exception:
                    continue
            same(ours(x, **keywords), want)
            compared += 1
    assert compared


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda xp, x, y: xp.cov(x, y), (np.ones((0, 3)), np.ones((3, 0)))),
        (lambda xp, x, y: xp.corrcoef(x, y), (np.ones((0, 3)), np.ones(3))),
        (lambda xp, x: xp.diff(x, 0), (np.float32(2),)),
        (lambda xp, i, c: xp.choose(i, c), (np.zeros((0, 3), int), np.arange(3))),
        (lambda xp, x, i: xp.take_along_axis(x, i, 0), (np.zeros((0, 3)), np.zeros((0, 3), int))),
        (lambda xp, x, q: xp.quantile(x, q), (np.float32(2), np.zeros(0))),
        (lambda xp, x, b: xp.histogram(x, b)[1], (np.ones(3), np.ones(1))),
        (lambda xp, c, x: xp.select(c, x, 7.0), (np.eye(3) > 0, np.ones((3, 3)))),
        (lambda xp, n: xp.unravel_index(n, np.array(4)), (np.array([1, 2]),)),
        (lambda xp, x: xp.einsum("ij->", x), (np.ones((0, 3)),)),
        (lambda xp, x: xp.linalg.lstsq(x, x[:, :1])[0], (np.ones((3, 2)),)),
    ],
)
def test_degenerate_arguments_equal_numpys(fun, args):
    args = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in args]
    same(fun(jnp, *args), fun(np, *args))


@pytest.mark.parametrize("inverse", [False, True])
def test_transforms_along_an_empty_axis_are_empty(inverse):
    x = np.zeros((3, 0), np.float32)
    names = ("ifft", "irfft", "hfft") if inverse else ("fft",)
    for name in names:
        out = getattr(jnp.fft, name)(x)
        assert out.shape == (3, 0)
        with pytest.raises(ValueError, match="positive"):
            getattr(jnp.fft, name)(np.ones((3, 2)), n=0)
    assert jnp.fft.irfft2(np.zeros((2, 0, 3))).shape == (2, 0, 4)
    assert jnp.fft.fftfreq(0).shape == (0,)


def test_updates_of_empty_arrays_change_nothing():
    x = jnp.zeros(0)
    for update in (x.at[jnp.array([1])].add(1.0), x.at[NONE].set(2.0)):
        assert update.shape == (0,)
    assert jnp.zeros((3, 0)).at[0].set(1.0).shape == (3, 0)
    with pytest.raises(IndexError, match="size 0"):
        jnp.take_along_axis(jnp.zeros((0, 3)), np.zeros((1, 3), int), 0)


# The shapes of lhs and rhs of convolutions in which some dimension has no elements.
CONVOLUTIONS = {
    "no examples": ((0, 3, 5, 5), (2, 3, 3, 3)),
    "no results": ((1, 3, 5, 5), (0, 3, 3, 3)),
    "no features": ((1, 0, 5, 5), (2, 0, 3, 3)),
    "no rows": ((1, 3, 0, 5), (2, 3, 3, 3)),
    "smaller than its window": ((1, 3, 2, 2), (2, 3, 3, 3)),
}


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_nothing_are_zero_and_have_gradients(name, padding):
    lhs, rhs = (np.ones(shape, np.float32) for shape in CONVOLUTIONS[name])
    if name == "smaller than its window" and padding == "SAME":
        padding = "VALID"
    conv = weft.jit(lambda x, y: lax.conv(x, y, (1, 1), padding))
    out = conv(lhs, rhs)
    assert not np.asarray(out).any()
    grads = weft.jit(weft.grad(lambda x, y: conv(x, y).sum(), (0, 1)))(lhs, rhs)
    for grad, x in zip(grads, (lhs, rhs), strict=True):
        np.testing.assert_array_equal(grad, np.zeros_like(x))


def test_vmap_over_nothing_gives_nothing():
    x = np.zeros((0, 3, 3), np.float32)
    for fun, shape in (
        (lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"), (0, 1, 1, 3, 3)),
        (lambda x: x[jnp.array([0, 2])], (0, 2, 3)),
        (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (0, 3, 3)),
        (jnp.linalg.inv, (0, 3, 3)),
        (
            weft.grad(lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME").sum()),
            x.shape,
        ),
    ):
        assert weft.vmap(fun)(x).shape == shape


# Known values decide on shapes and positions, and are differentiated all the same.
DIFFERENTIATED = {
    "nonzero": (lambda x: x[jnp.nonzero(x)], lambda x: x[np.nonzero(x)]),
    "unique": (jnp.unique, np.unique),
    "unique rows": (lambda x: jnp.unique(x.reshape(2, 2), axis=0), np.sort),
    "compress": (lambda x: jnp.compress(x > 0.4, x), lambda x: x[x > 0.4]),
    "trim_zeros": (jnp.trim_zeros, np.trim_zeros),
    "linspace": (lambda x: jnp.linspace(x, 2 * x, 5), lambda x: np.linspace(x, 2 * x, 5)),
    "logspace": (lambda x: jnp.logspace(x, 0.5, 3), lambda x: np.logspace(x, 0.5, 3)),
    "geomspace": (lambda x: jnp.geomspace(x, 8.0, 4), lambda x: np.geomspace(x, 8.0, 4)),
    "histogram edges": (
        lambda x: jnp.histogram_bin_edges(x, 3),
        lambda x: np.histogram_bin_edges(x, 3),
    ),
    "ramp": (
        lambda x: jnp.pad(x, 2, mode="linear_ramp", end_values=1),
        lambda x: np.pad(x, 2, mode="linear_ramp", end_values=1),
    ),
    "union1d": (lambda x: jnp.union1d(x, 5 * x), lambda x: np.union1d(x, 5 * x)),
    "setdiff1d": (lambda x: jnp.setdiff1d(x, x[:1]), lambda x: np.setdiff1d(x, x[:1])),
    "roots": (lambda x: jnp.roots(x).real, lambda x: np.roots(x).real),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_known_values_may_be_differentiated_where_shapes_depend_on_them(name):
    ours, theirs = DIFFERENTIATED[name]
    x = np.array([0.25, 0.5, 1.5, 0.75])
    weights = lambda out: np.cos(np.arange(out.size, dtype=float)).reshape(out.shape)
    with weft.enable_x64(True):
        got = weft.grad(lambda x: (lambda out: (out * weights(out)).sum())(ours(x)))(x)
    h = 1e-6

    def moved(i, s):
        step = np.where(np.arange(4) == i, s * h, 0)
        out = np.sort(x + step) if name == "unique rows" else theirs(x + step)
        return (out * weights(np.asarray(out))).sum()

    want = [(moved(i, 1) - moved(i, -1)) / (2 * h) for i in range(4)]
    if name == "unique rows":  # rows in the order of their first elements: here as they are
        want = weights(np.zeros((2, 2))).ravel()
    np.testing.assert_allclose(got, want, 1e-4, 1e-6)


def test_the_ends_of_a_range_may_not_be_differentiated():
    with pytest.raises(weft.errors.TracerArrayConversionError, match="derivative would be lost"):
        weft.grad(lambda x: jnp.arange(0.0, x, 0.5).sum())(2.0)
