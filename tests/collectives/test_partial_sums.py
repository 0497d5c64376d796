"""Reduced values and partial sums through linear ops: derivatives, zeros, what is refused."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 8
X = np.arange(1.0, N + 1, dtype=np.float32)
GROUPS = [[0, 2, 4], [1], [3, 5, 6, 7]]
AT = np.array([2, 0, 0])
MASK = np.arange(24).reshape(8, 3) % 3 > 0


SPLIT = P("x")


def on_devices(body, out_specs=SPLIT):
    mesh = mesh_of(Machine(x=N), ("x",))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=SPLIT, out_specs=out_specs)
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


def unreduced(v):
    return lax.pcast(v, "x", to="unreduced")


def replaced(w):
    out = w.copy()
    out[1:3] = 2 * w[:2]
    return out


def added(w):
    out = w.copy()
    np.add.at(out, AT, w[:3])
    return out


def windows(w):
    return w[:-1] + w[1:]


def group_sums(w):
    out = np.empty_like(w)
    for group in GROUPS:
        out[group] = w[group].sum(0)
    return out


# name: (the op in weft, the same in NumPy); all are linear in f32[8, 3]
LINEAR = {
    "a row": (lambda w: w[1], lambda w: w[1]),
    "a strided slice": (lambda w: w[1:6:2], lambda w: w[1:6:2]),
    "rows by constant indices": (lambda w: w[AT], lambda w: w[AT]),
    "rows by computed indices": (lambda w: w[jnp.argsort(AT)], lambda w: w[np.argsort(AT)]),
    "a row by a computed index": (
        lambda w: lax.dynamic_index_in_dim(w, jnp.argmax(AT)),
        lambda w: w[:1],
    ),
    "rows replaced": (lambda w: lax.dynamic_update_slice(w, 2 * w[:2], (1, 0)), replaced),
    "rows added": (lambda w: w.at[AT].add(w[:3]), added),
    "a row set to zero": (lambda w: w.at[2].set(0), lambda w: w * (np.arange(8) != 2)[:, None]),
    "padding": (lambda w: jnp.pad(w, ((1, 1), (0, 2))), lambda w: np.pad(w, ((1, 1), (0, 2)))),
    "a choice of constants": (
        lambda w: jnp.where(MASK, w, -2 * w),
        lambda w: np.where(MASK, w, -2 * w),
    ),
    "parts": (lambda w: jnp.split(w, 2)[1], lambda w: w[4:]),
    "a roll": (lambda w: jnp.roll(w, 3, 0), lambda w: np.roll(w, 3, 0)),
    "a running sum": (lambda w: jnp.cumsum(w, 0), lambda w: np.cumsum(w, 0)),
    "sums of windows": (
        lambda w: lax.reduce_window(w, np.float32(0), lax.add, (2, 1), (1, 1), "VALID"),
        windows,
    ),
    "a convolution": (
        lambda w: jnp.convolve(w[:, 0], jnp.array([1.0, 2.0, 3.0])),
        lambda w: np.convolve(w[:, 0], [1, 2, 3]),
    ),
    "the imaginary part": (lambda w: jnp.imag(w * (1 + 2j)), lambda w: 2 * w),
    "a transform": (
        lambda w: jnp.real(jnp.fft.fft(w, axis=0)),
        lambda w: np.real(np.fft.fft(w, axis=0)),
    ),
    "a diagonal": (lambda w: jnp.diag(w[:3]), lambda w: np.diag(w[:3])),
    "a solution": (
        lambda w: jnp.linalg.solve(jnp.eye(3) * 2 + 1, w[:3]),
        lambda w: np.linalg.solve(np.eye(3) * 2 + 1, w[:3]),
    ),
    "a permutation of examples": (
        lambda w: weft.vmap(lambda r: lax.ppermute(r, "i", [(0, 1), (3, 2)]), axis_name="i")(w),
        lambda w: np.stack([0 * w[0], w[0], w[3], *(0 * w[:5])]),
    ),
    "sums of groups of examples": (
        lambda w: weft.vmap(lambda r: lax.psum(r, "i", axis_index_groups=GROUPS), axis_name="i")(w),
        group_sums,
    ),
    "a loop": (
        lambda w: lax.scan(lambda c, r: (c + r, c), 0 * w[0], w)[1],
        lambda w: np.cumsum(w, 0) - w,
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_gathered_weight_has_a_derivative_through(name, rng):
    """The cotangent is a partial sum along the way and is added up where the weight is split."""
    op, meaning = LINEAR[name]
    w, t = rng.integers(-4, 5, (2, 8, 3)).astype(np.float32)
    c = rng.integers(-3, 4, meaning(w).shape).astype(np.float32)

    def body(w):
        def loss(w):
            whole = lax.all_gather(w, "x", tiled=True, to="reduced")
            own = lax.pcast((op(whole) * c).sum(), "x", to="varying")
            return lax.psum(own * (1 + lax.axis_index("x")), "x")

        return weft.grad(loss)(w)

    gradient = np.asarray(on_devices(body)(w))
    np.testing.assert_allclose(np.sum(gradient * t), 36 * np.sum(c * meaning(t)), rtol=1e-4)


@pytest.mark.parametrize(
    "join",
    [
        lambda u: jnp.pad(u, (0, 1)),
        lambda u: jnp.where(np.array([True]), u, 0.0),
        lambda u: jnp.concatenate([u, jnp.zeros(2)]),
        lambda u: u + jnp.zeros(1),
        lambda u: jnp.real(lax.complex(u, jnp.zeros(1))),
    ],
    ids=["pad", "where", "concatenate", "add", "complex"],
)
def test_a_partial_sum_may_be_joined_with_zeros(join):
    out = on_devices(lambda v: lax.psum(join(unreduced(v)).sum(), "x"), P())(X)
    assert out == X.sum()


@pytest.mark.parametrize(
    "join",
    [
        lambda u: jnp.pad(u, (0, 1), constant_values=1.0),
        lambda u: jnp.where(np.array([False]), u, 5.0),
        lambda u: jnp.concatenate([u, jnp.ones(2)]),
        lambda u: u + 1.0,
        lambda u: lax.complex(u, jnp.ones(1)),
        lambda u: u.astype(int),
        lambda u: u.astype(bool),
    ],
    ids=["pad", "where", "concatenate", "add", "complex", "rounding", "comparing"],
)
def test_other_values_would_be_counted_on_every_device_and_are_refused(join):
    with pytest.raises(TypeError, match=r"(?s)unreduced.*weft\.lax\.psum\(x, 'x'\)"):
        on_devices(lambda v: lax.psum(join(unreduced(v)), "x"), P())(X)
