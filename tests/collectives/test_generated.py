"""Random machines, groups, shapes, dtypes and transform stacks, against the reference machine."""

import ml_dtypes
import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

import weft
from tests import spmd_reference as ref
from tests.collectives.harness import COMPILER_OPTIONS, Context, draw, program
from tests.spmd_reference import Machine
from weft import lax

DTYPES = [np.float32, np.int32, np.int8, np.uint8, np.bool_, ml_dtypes.bfloat16, np.complex64]
SIZES = [(2,), (3,), (8,), (2, 2), (2, 4), (4, 2), (1, 4), (2, 1, 3), (2, 2, 2)]
COLLECTIVES = (
    *("psum", "pmax", "pmin", "pargmax", "axis_index", "all_gather", "psum_scatter"),
    *("all_to_all", "ppermute", "pbroadcast"),
)


def _stacked(fun):
    """vmap of an axis that is not communicated over, of size 2."""

    def mapped(x):
        pair = lax.concatenate([lax.expand_dims(x, (1,))] * 2, 1)
        return lax.index_in_dim(weft.vmap(fun, 1, -1)(pair), 0, -1, keepdims=False)

    return mapped


def _scanned(fun):
    def scan(x):
        return lax.index_in_dim(
            lax.scan(lambda c, _: (c, fun(c)), x, None, length=2)[1], 1, 0, False
        )

    return scan


def _branched(fun):
    def cond(x):
        return lax.cond(lax.axis_size("a") > 0, fun, lambda x: fun(x), x)

    return cond


def _inner_jit(fun):
    return lambda x: weft.jit(fun)(x)


STACK = {"jit": _inner_jit, "vmap": _stacked, "scan": _scanned, "cond": _branched,
         "checkpoint": weft.checkpoint}  # fmt: skip


@st.composite
def groups_of(draw, size: int, equal: bool):
    """None, or a partition of range(size) in any order."""
    if draw(st.booleans()):
        return None
    order = draw(st.permutations(range(size)))
    if equal:
        n = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        return [order[i : i + n] for i in range(0, size, n)]
    cuts = sorted(draw(st.sets(st.integers(1, size - 1)))) if size > 1 else []
    return [order[a:b] for a, b in zip([0, *cuts], [*cuts, size], strict=True)]


@st.composite
def programs(draw, collectives=COLLECTIVES, dtypes=tuple(DTYPES)):
    """(machine, context, per-device function, its meaning, shape, dtype, names of transforms)."""
    sizes = draw(st.sampled_from(SIZES))
    machine = Machine(**dict(zip("abc", sizes, strict=False)))
    mesh_axes = machine.names[: draw(st.integers(0, len(sizes)))]
    context = Context(
        mesh_axes,
        check_vma=draw(st.booleans()),
        outside=bool(mesh_axes) and draw(st.booleans()),
        auto=bool(mesh_axes) and machine.size(mesh_axes) <= 4 and draw(st.booleans()),
    )
    axes = tuple(draw(st.permutations(machine.names)))[: draw(st.integers(1, len(sizes)))]
    size = machine.size(axes)
    kind = draw(st.sampled_from(collectives))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if dtype.kind == "c" and kind in ("pmax", "pmin", "pargmax"):
        dtype = np.dtype(np.float32)
    shape = draw(st.sampled_from([(), (3,), (2, 3), (1, 2, 2)]))

    def call(name, *args, groups=None, **kwargs):
        note(f"{name}{args} groups={groups} {kwargs} of {dtype}{shape} over {axes}")
        given = {"axis_index_groups": groups} if groups is not None else {}
        renamed = {"axis": "dim", "scatter_dimension": "dim"}
        ref_kwargs = {renamed.get(k, k): v for k, v in kwargs.items()}
        ref_given = {"groups": groups} if groups is not None else {}
        return (
            lambda x: getattr(lax, name)(x, axes, *args, **kwargs, **given),
            lambda v: getattr(ref, name)(machine, v, axes, *args, **ref_kwargs, **ref_given),
        )

    if kind in ("psum", "pmax", "pmin"):
        pair = call(kind, groups=draw(groups_of(size, equal=False)))
    elif kind == "pargmax":
        pair = call(kind)
    elif kind == "axis_index":
        pair = (
            lambda x: lax.axis_index(axes),
            lambda v: ref.axis_index(machine, v, axes),
        )
    elif kind == "ppermute":
        targets = draw(st.permutations(range(size)))
        kept = draw(st.sets(st.integers(0, size - 1)))
        pair = call(kind, [(i, targets[i]) for i in sorted(kept)])
    elif kind == "pbroadcast":
        pair = call(kind, draw(st.integers(0, size - 1)))
    else:
        groups = draw(groups_of(size, equal=True))
        n = size if groups is None else len(groups[0])
        tiled = draw(st.booleans())
        if kind == "all_gather":
            tiled &= bool(shape)
            dim = draw(st.integers(0, len(shape) - tiled))
            pair = call(kind, groups=groups, axis=dim, tiled=tiled)
        else:
            dim = draw(st.integers(0, len(shape)))
            shape = (*shape[:dim], n * (draw(st.integers(1, 2)) if tiled else 1), *shape[dim:])
            if kind == "psum_scatter":
                pair = call(kind, groups=groups, scatter_dimension=dim, tiled=tiled)
            else:
                to = draw(st.integers(0, len(shape) - 1))
                pair = call(kind, dim, to, groups=groups, tiled=tiled)
    stack = draw(st.lists(st.sampled_from(sorted(STACK)), max_size=3))
    if not shape:
        stack = [name for name in stack if name != "vmap"]
    return machine, context, *pair, shape, dtype, stack


def _through(stack):
    def inside(f):
        for name in stack:
            f = STACK[name](f)
        return f

    return inside


@given(programs(), st.integers(0, 2**32 - 1))
def test_a_random_program_means_what_the_reference_machine_computes(drawn, seed):
    machine, context, fun, meaning, shape, dtype, stack = drawn
    note(f"{machine.sizes} {context} inside {stack}")
    value = draw(np.random.default_rng(seed), machine, shape, dtype)

    whole = program(machine, fun, context, inside=_through(stack))
    compiled = weft.jit(whole, compiler_options=COMPILER_OPTIONS)
    got = np.asarray(compiled(machine.stack(value)))
    want = machine.stack(meaning(value))
    if want.dtype.kind in "iu" and got.dtype == np.int32:
        want = want.astype(np.int32)  # indices
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


LINEAR = ("psum", "all_gather", "psum_scatter", "all_to_all", "ppermute", "pbroadcast")


@given(programs(LINEAR, (np.float32,)), st.integers(0, 2**32 - 1))
def test_derivatives_of_a_random_linear_program_are_itself_and_its_adjoint(drawn, seed):
    machine, context, fun, meaning, shape, dtype, stack = drawn
    note(f"{machine.sizes} {context} inside {stack}")
    whole = program(machine, fun, context, inside=_through(stack))
    rng = np.random.default_rng(seed)
    x, t = draw(rng, machine, shape, dtype), draw(rng, machine, shape, dtype)
    want = machine.stack(meaning(t))
    ct = rng.integers(-4, 4, want.shape).astype(dtype)

    def everything(x, t, ct):
        return weft.jvp(whole, (x,), (t,))[1], weft.vjp(whole, x)[1](ct)[0]

    x, t = machine.stack(x), machine.stack(t)
    tangent, cotangent = weft.jit(everything, compiler_options=COMPILER_OPTIONS)(x, t, ct)
    np.testing.assert_array_equal(tangent, want)
    assert np.sum(np.asarray(cotangent) * t) == np.sum(ct * want)  # small integers: exact
