"""Operands that are equal along the axis: promoted as in JAX, or refused on demand."""

import traceback

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS, mesh_of
from tests.spmd_reference import Machine
from weft import P, lax

N = 4
MACHINE = Machine(i=N)
RING = [(d, (d + 1) % N) for d in range(N)]
X = np.array([3.0, 1.0, 4.0, 1.0], np.float32)
GROUPS = [[0, 2], [3, 1]]
ONES = np.ones(N, np.int32)


def ragged(v):
    at = jnp.arange(N, dtype=np.int32)
    return lax.ragged_all_to_all(v, lax.pvary(v * 0, "i"), at, ONES, at, ONES, axis_name="i")


def message(v):
    return lax.precv(lax.psend(v, "i", RING), v, "i", RING)


# name: (call, what each of the devices gets of X)
CALLS = {
    "psum": (lambda v: lax.psum(v, "i"), [N * X] * N),
    "psum in groups": (lambda v: lax.psum(v, "i", axis_index_groups=GROUPS), [2 * X] * N),
    "psum_start": (lambda v: lax.psum_start(v, "i").done(), [N * X] * N),
    "pmean": (lambda v: lax.pmean(v, "i"), [X] * N),
    "pmax": (lambda v: lax.pmax(v, "i"), [X] * N),
    "pmin": (lambda v: lax.pmin(v, ("i",)), [X] * N),
    "pargmax": (lambda v: lax.pargmax(v, "i") + 0.0, [0 * X] * N),
    "pargmin": (lambda v: lax.pargmin(v, "i") + 0.0, [0 * X] * N),
    "ppermute": (lambda v: lax.ppermute(v, "i", RING), [X] * N),
    "ppermute_start": (lambda v: lax.ppermute_start(v, "i", RING).done(), [X] * N),
    "pshuffle": (lambda v: lax.pshuffle(v, "i", [1, 0, 3, 2]), [X] * N),
    "psend": (message, [X] * N),
    "pbroadcast": (lambda v: lax.pbroadcast(v, "i", 2), [X] * N),
    "all_gather": (lambda v: lax.all_gather(v, "i", tiled=True), [np.tile(X, N)] * N),
    "psum_scatter": (lambda v: lax.psum_scatter(v, "i", tiled=True), N * X[:, None]),
    "all_to_all": (lambda v: lax.all_to_all(v, "i", 0, 0), X[:, None] * np.ones(N)),
    "pswapaxes": (lambda v: lax.pswapaxes(v, "i", 0), X[:, None] * np.ones(N)),
    "ragged_all_to_all": (ragged, None),
}
CONTEXTS = {
    "no transform": lambda call: call,
    "jit": lambda call: weft.jit(call),
    "vmap": lambda call: lambda v: weft.vmap(call)(v[None])[0],
    "scan": lambda call: lambda v: lax.scan(lambda c, _: (c, call(v)), 0, None, length=1)[1][0],
    "cond": lambda call: lambda v: lax.cond(v.sum() > 0, call, call, v),
    "remat": weft.checkpoint,
    "jvp": lambda call: lambda v: weft.jvp(call, (v,), (v,))[0],
    "vjp": lambda call: lambda v: weft.vjp(call, v)[0],
    "linearize": lambda call: lambda v: weft.linearize(call, v)[0],
}
SIGNS = {"psum in groups": "psum"}


def on_devices(call):
    mapped = weft.shard_map(
        lambda v: call(v)[None],
        mesh=mesh_of(MACHINE, ("i",)),
        in_specs=P(),
        out_specs=P("i"),
    )
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


@pytest.mark.parametrize("name", [n for n, (_, want) in CALLS.items() if want is not None])
def test_equal_operands_are_promoted(name):
    call, want = CALLS[name]
    np.testing.assert_allclose(on_devices(call)(X), want)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", CALLS)
def test_equal_operands_are_refused_where_promotion_is_an_error(name, context):
    call, _ = CALLS[name]
    with weft.varying_promotion("error"), pytest.raises(ValueError) as caught:
        on_devices(CONTEXTS[context](call))(X)
    text = str(caught.value)
    who = SIGNS.get(name, name)
    assert f"{who} over 'i': the operand of type f32[{N}], " in text
    assert "does not vary along 'i': all 4 devices hold the same value" in text
    assert "weft.lax.pcast(x, 'i', to='varying')" in text
    assert ("weft.lax.axis_size('i')" in text) == (name in ("psum", "psum_start", "psum_scatter"))


@pytest.mark.parametrize("name", CALLS)
def test_what_the_error_says_to_write_is_accepted(name):
    call, want = CALLS[name]
    with weft.varying_promotion("error"):
        out = on_devices(lambda v: call(lax.pcast(v, "i", to="varying")))(X)
    if want is not None:
        np.testing.assert_allclose(out, want)


def test_the_error_says_where_the_value_was_made_and_ends_at_the_users_line():
    def body(v):
        w = v * 2
        return lax.psum(w, "i")

    with weft.varying_promotion("error"), pytest.raises(ValueError) as caught:
        on_devices(body)(X)
    line = body.__code__.co_firstlineno + 1
    assert f"made at {__file__}:{line} (" in str(caught.value)
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.name, last.lineno) == ("body", line + 1)


def test_derivatives_and_batching_promote_what_they_need():
    """The cotangent of a sum is equal on all devices, and so are those of its pieces."""

    def body(v):
        def loss(v):
            parts = weft.vmap(lambda s: lax.psum(jnp.sin(s * v), "i"))(jnp.arange(2.0))
            gathered = lax.all_gather(v, "i", to="invarying", tiled=True)
            return parts.sum() + lax.psum_scatter(v * jnp.ones(N), "i").sum() + gathered.sum()

        return weft.grad(lambda v: lax.psum(loss(v), "i"))(v)

    mapped = weft.shard_map(body, mesh=mesh_of(MACHINE, ("i",)), in_specs=P("i"), out_specs=P("i"))
    want = N * np.cos(X) + N + N
    np.testing.assert_allclose(mapped(X), want, rtol=1e-6)
    with weft.varying_promotion("error"):
        np.testing.assert_allclose(weft.jit(mapped)(X), want, rtol=1e-6)


def test_numbers_of_python_are_summed_and_arrays_are_refused():
    with weft.varying_promotion("error"):
        out = on_devices(lambda v: v * lax.psum(1, "i") / lax.pmean(2.0, "i"))(X)
        np.testing.assert_array_equal(out, [X * 2] * N)
        with pytest.raises(ValueError, match=r"f32\[4\], a constant, does not vary"):
            on_devices(lambda v: v + lax.psum(X, "i"))(X)


def test_one_of_several_axes_is_enough_to_be_refused():
    def gather(v):
        return lax.all_gather(v, ("i", "j"), tiled=True)

    mapped = weft.shard_map(
        gather,
        mesh=mesh_of(Machine(i=2, j=2), ("i", "j")),
        in_specs=P("i"),
        out_specs=P(("i", "j")),
    )
    want = np.tile(X.reshape(2, 1, 2).repeat(2, 1).ravel(), 4)
    np.testing.assert_array_equal(mapped(X), want)
    with (
        weft.varying_promotion("error"),
        pytest.raises(ValueError, match="does not vary along 'j': all 2 devices"),
    ):
        mapped(X)


def test_where_no_states_are_known_nothing_is_refused():
    with weft.varying_promotion("error"):
        out = weft.vmap(lambda v: lax.psum(v, "i"), in_axes=None, axis_size=N, axis_name="i")(X)
        np.testing.assert_array_equal(out, [N * X] * N)
        mapped = weft.shard_map(
            lambda v: lax.psum(v, "i"),
            mesh=mesh_of(MACHINE, ("i",)),
            in_specs=P(),
            out_specs=P(),
            check_vma=False,
        )
        np.testing.assert_array_equal(mapped(X), N * X)


def test_a_function_that_was_traced_before_is_traced_again():
    f = on_devices(lambda v: lax.psum(v, "i"))
    np.testing.assert_array_equal(f(X), [N * X] * N)
    with weft.varying_promotion("error"), pytest.raises(ValueError, match="does not vary"):
        f(X)
    np.testing.assert_array_equal(f(X), [N * X] * N)
