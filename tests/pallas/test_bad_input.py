"""Errors of kernels: what is wrong, where, and what to write instead."""

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import P, lax

F32 = "float32"
X = np.arange(8, dtype=np.float32)
RING = pl.Mesh({"i": 4}, name="ring")
SOLO = pl.Mesh({"c": 1}, name="solo")


def struct(*shape, dtype=F32):
    return weft.ShapeDtypeStruct(shape, dtype)


def copy(x, out):
    out[...] = x[...]


def nothing(*refs, **named):
    pass


def call(kernel, *args, out=None, **options):
    return pl.pallas_call(kernel, struct(8) if out is None else out, interpret=True, **options)(
        *args
    )


def returning(x, out):
    return x[...]


def writing_input(x, out):
    x[0] = 1.0
    out[...] = x[...]


def writing_input_in_a_loop(x, out):
    def body(i, carry):
        x[i] = 1.0
        return carry

    lax.fori_loop(0, 3, body, None)


def returning_when(x, out):
    @pl.when(pl.program_id(0) == 0)
    def _():
        return x[...]


def under_two_names(run):
    """run(kernel, ref) with a kernel that closes over the ref."""
    ref = weft.new_ref(X)

    def kernel(x, out):
        ref[0] = 1.0
        out[...] = x[...]

    return run(kernel, ref)


def spec(*args, **options):
    return pl.BlockSpec(*args, **options)


TRACED_GRID = r"grid\[0\] is a traced value.*integer scalar"

CALLS = {
    "no function": (lambda: pl.pallas_call(3, struct(8)), TypeError, "kernel must be a function"),
    "returns a value": (
        lambda: call(returning, X),
        ValueError,
        r"kernel returning returns a value.*out_ref\[...\] = value",
    ),
    "too few arguments": (
        lambda: call(copy, X, X),
        TypeError,
        r"kernel copy\(x, out\) is called with 3 refs",
    ),
    "no array": (lambda: call(copy, "x"), TypeError, r"args\[0\] of type str is not an array"),
    "part of a ref": (
        lambda: call(copy, weft.new_ref(X).at[2:]),
        TypeError,
        r"args\[0\] is a part of a Ref",
    ),
    "out_shape": (lambda: call(copy, X, out=(8,)), TypeError, r"out_shape\[0\] must have a shape"),
    "block rank": (
        lambda: call(copy, X, grid=2, in_specs=[spec((4, 4), lambda i: (i, 0))]),
        ValueError,
        r"input args\[0\]: block_shape \(4, 4\) has 2 entries, but the array f32\[8\] has rank 1",
    ),
    "index map arity": (
        lambda: call(copy, X, grid=(2, 2), in_specs=[spec((4,), lambda i: (i,))]),
        TypeError,
        "called with 2 grid indices",
    ),
    "index map results": (
        lambda: call(copy, X, grid=2, in_specs=[spec((4,), lambda i: (i, 0))]),
        ValueError,
        "returns 2 indices for an array of rank 1",
    ),
    "index map floats": (
        lambda: call(copy, X, grid=2, in_specs=[spec((4,), lambda i: (i * 0.5,))]),
        TypeError,
        "must return integers",
    ),
    "index map closes over": (
        lambda: weft.jit(lambda k: call(copy, X, grid=2, in_specs=[spec((4,), lambda i: (k,))]))(1),
        ValueError,
        "closes over an array.*num_scalar_prefetch",
    ),
    "index map without blocks": (
        lambda: call(copy, X, grid=2, in_specs=[spec(index_map=lambda i: (i,))]),
        ValueError,
        "index_map but no block_shape",
    ),
    "a ref under two names": (
        lambda: under_two_names(lambda fun, ref: call(fun, ref)),
        ValueError,
        "closes over a Ref that is also an argument",
    ),
    "block_shape and index_map exchanged": (
        lambda: spec(lambda i: (i,), (4,)),
        TypeError,
        "block_shape must be a tuple",
    ),
    "block of size 0": (
        lambda: call(copy, X, in_specs=[spec((0,), lambda: (0,))]),
        ValueError,
        "positive int, None or pl.Element",
    ),
    "number of specs": (
        lambda: call(copy, X, in_specs=[spec(), spec()]),
        ValueError,
        "in_specs must have the structure of what it stands for",
    ),
    "kind of spec": (lambda: call(copy, X, in_specs=[(4,)]), TypeError, "must hold pl.BlockSpec"),
    "traced grid": (
        lambda: weft.jit(lambda n: call(copy, X, grid=(n,)))(2.0),
        TypeError,
        TRACED_GRID,
    ),
    "grid of floats": (lambda: call(copy, X, grid=2.5), TypeError, "must be an int"),
    "negative grid": (lambda: call(copy, X, grid=-1), ValueError, "must not be negative"),
    "grid twice": (
        lambda: call(copy, X, grid=2, grid_spec=pl.GridSpec(grid=2)),
        ValueError,
        "not both",
    ),
    "too many scalars": (
        lambda: call(copy, X, grid_spec=pl.GridSpec(num_scalar_prefetch=2)),
        ValueError,
        "num_scalar_prefetch is 2",
    ),
    "alias types": (
        lambda: call(copy, X[:4], input_output_aliases={0: 0}),
        ValueError,
        r"input 0 of type f32\[4\] cannot share memory with output 0 of type f32\[8\]",
    ),
    "alias input": (
        lambda: call(copy, X, input_output_aliases={3: 0}),
        ValueError,
        "names input 3; the call has 1",
    ),
    "alias output": (
        lambda: call(copy, X, input_output_aliases={0: 1}),
        ValueError,
        "names output 1",
    ),
    "writes to an input": (
        lambda: call(writing_input, X),
        TypeError,
        r"writes to its input args\[0\] at .*test_bad_input.py:\d+.*input_output_aliases",
    ),
    "writes to an input in a loop": (
        lambda: call(writing_input_in_a_loop, X),
        TypeError,
        "writes to its input",
    ),
    "program_id outside": (lambda: pl.program_id(0), RuntimeError, "outside of a kernel"),
    "program_id axis": (
        lambda: call(lambda o: o.set(pl.program_id(1) * 1.0), grid=2),
        ValueError,
        r"axis 1 is out of bounds for the grid \(2,\)",
    ),
    "program_id traced": (
        lambda: call(lambda x, o: pl.program_id(x[0].astype(int)), X, grid=2),
        TypeError,
        "axis must be a Python int",
    ),
    "when returns": (lambda: call(returning_when, X, grid=2), TypeError, "when: _ returns a value"),
    "interpret": (
        lambda: pl.pallas_call(copy, struct(8), interpret="yes"),
        TypeError,
        "interpret must be True, False or a pl.InterpretParams",
    ),
    "uninitialized": (
        lambda: pl.InterpretParams(uninitialized_memory="x"),
        ValueError,
        "'raise', 'nan', 'zero'",
    ),
    "scratch type": (
        lambda: call(nothing, X, scratch_shapes=[(8,)]),
        TypeError,
        "must be a scratch type",
    ),
    "scratch shape": (lambda: pl.LOCAL((2.5,), F32), TypeError, "LOCAL: shape.*integers"),
    "scratch size": (lambda: pl.SHARED((-2,), F32), ValueError, "SHARED: .*negative"),
    "scratch mesh": (lambda: pl.LOCAL((2,), F32) @ 3, TypeError, "type @ mesh"),
    "sharding rule": (
        lambda: call(copy, X, sharding_rule="a b -> a"),
        ValueError,
        "gives operand 0 the factors",
    ),
    "num_batch_dims": (
        lambda: call(copy, X, num_batch_dims=2),
        ValueError,
        "num_batch_dims=2 is larger than the rank",
    ),
    "collective": (
        lambda: weft.vmap(
            lambda x: call(lambda x, o: o.set(lax.psum(x[...], "v")), x), axis_name="v"
        )(X.reshape(1, 8)),
        TypeError,
        "collective psum|is not bound",
    ),
    "ref used as array": (lambda: call(lambda x, o: o.set(x), X), TypeError, "read its value"),
    "semaphore read": (
        lambda: call(lambda x, o, s: o.set(s[...]), X, scratch_shapes=[pl.SemaphoreType.REGULAR]),
        TypeError,
        "use pl.semaphore_signal",
    ),
    "copy of other types": (
        lambda: call(
            lambda x, o, s: pl.async_copy(x.at[2:], o, s),
            X,
            scratch_shapes=[pl.SemaphoreType.DMA],
        ),
        TypeError,
        r"one shape and dtype, got f32\[6\] and f32\[8\]",
    ),
    "copy of a value": (
        lambda: call(
            lambda x, o, s: pl.async_copy(x[...], o, s),
            X,
            scratch_shapes=[pl.SemaphoreType.DMA],
        ),
        TypeError,
        r"src must be a Ref.*ref.at\[index\]",
    ),
    "copy without semaphore": (
        lambda: call(lambda x, o: pl.async_copy(x, o, o), X),
        TypeError,
        "sem must be a semaphore",
    ),
    "one of many semaphores": (
        lambda: call(
            lambda x, o, s: pl.semaphore_wait(s), X, scratch_shapes=[pl.SemaphoreType.DMA((2,))]
        ),
        ValueError,
        r"sem.at\[i\]",
    ),
    "signal of a copy's semaphore": (
        lambda: call(
            lambda x, o, s: pl.semaphore_signal(s), X, scratch_shapes=[pl.SemaphoreType.DMA]
        ),
        TypeError,
        "takes a semaphore, got a dma_semaphore",
    ),
    "barrier in a grid": (
        lambda: call(
            lambda x, o, b: pl.core_barrier(b), X, scratch_shapes=[pl.SemaphoreType.BARRIER]
        ),
        ValueError,
        "use mpmd_map",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_pallas_call_says_what_is_wrong(name):
    use, error, words = CALLS[name]
    with pytest.raises(error, match=f"(?s){words}"):
        use()


def mpmd(pairs, *args, out=None, scratch=(), **options):
    out = struct(8) if out is None else out
    return pl.mpmd_map(pairs, out, scratch, interpret=True, **options)(*args)


def signal_unnamed(out, s):
    pl.semaphore_signal(s)


MAPS = {
    "a ref under two names": (
        lambda: under_two_names(lambda fun, ref: mpmd([(RING, fun)], ref)),
        ValueError,
        "closes over a Ref that is also an argument",
    ),
    "no programs": (lambda: mpmd([]), ValueError, "at least one"),
    "no pair": (lambda: mpmd([RING]), TypeError, "entry 0 must be a pair"),
    "no mesh": (lambda: mpmd([(4, nothing)]), TypeError, "must start with a pl.Mesh"),
    "no function": (lambda: mpmd([(RING, 1)]), TypeError, "must end with a function"),
    "sizes of one axis": (
        lambda: mpmd([(RING, nothing), (pl.Mesh({"i": 2}, name="other"), nothing)]),
        ValueError,
        "disagree on the size of axis 'i': 4 and 2",
    ),
    "one name": (
        lambda: mpmd([(RING, nothing), (pl.Mesh({"j": 2}, name="ring"), nothing)]),
        ValueError,
        "have one name",
    ),
    "default spaces": (
        lambda: mpmd(
            [
                (RING, nothing),
                (pl.Mesh({"j": 2}, name="j", default_memory_space=pl.SHARED), nothing),
            ]
        ),
        ValueError,
        "different default memory spaces",
    ),
    "whose scratch": (
        lambda: mpmd([(RING, nothing), (SOLO, nothing)], scratch=[pl.LOCAL((2,), F32)]),
        ValueError,
        r"scratch_shapes\[0\].*type @ mesh.*type @ pl.SHARED",
    ),
    "whose semaphore": (
        lambda: mpmd([(RING, nothing), (SOLO, nothing)], scratch=[pl.SemaphoreType.REGULAR]),
        ValueError,
        "must say whose it is",
    ),
    "scratch of a stranger": (
        lambda: mpmd([(RING, nothing)], scratch=[pl.LOCAL((2,), F32) @ SOLO]),
        ValueError,
        "not one of the kernel's meshes",
    ),
    "other core's memory": (
        lambda: mpmd(
            [(RING, lambda o, s: s.set(0.0)), (SOLO, nothing)],
            scratch=[pl.LOCAL((2,), F32) @ SOLO],
        ),
        TypeError,
        "belongs to the cores of.*async_copy",
    ),
    "which core": (
        lambda: mpmd(
            [(SOLO, signal_unnamed), (RING, nothing)],
            scratch=[pl.SemaphoreType.REGULAR @ RING],
        ),
        ValueError,
        "core_index={'i': …}",
    ),
    "core of a shared semaphore": (
        lambda: mpmd(
            [(SOLO, lambda o, s: pl.semaphore_signal(s, core_index=0))],
            scratch=[pl.SemaphoreType.REGULAR @ pl.SHARED],
        ),
        ValueError,
        "shared by all cores",
    ),
    "unknown axis": (
        lambda: mpmd(
            [(RING, lambda o, s: pl.semaphore_signal(s, core_index={"q": 0}))],
            scratch=[pl.SemaphoreType.REGULAR],
        ),
        ValueError,
        "names axis 'q'",
    ),
    "waiting for another's": (
        lambda: mpmd(
            [(RING, lambda o, s: pl.semaphore_wait(s)), (SOLO, nothing)],
            scratch=[pl.SemaphoreType.REGULAR @ SOLO],
        ),
        ValueError,
        "waits for and reads its own",
    ),
    "returns a value": (
        lambda: mpmd([(RING, lambda x, o: x[...])], X),
        ValueError,
        "returns a value",
    ),
    "program_id": (
        lambda: mpmd([(RING, lambda o: pl.program_id(0))]),
        ValueError,
        "have no grid; use weft.lax.axis_index",
    ),
    "unbound axis": (
        lambda: mpmd([(RING, lambda o: lax.axis_index("q"))]),
        NameError,
        "'q' is not bound",
    ),
    "alias types": (
        lambda: mpmd([(RING, nothing)], X[:2], input_output_aliases={0: 0}),
        ValueError,
        "cannot share memory",
    ),
    "mesh axis": (lambda: pl.Mesh({"i": 0}), ValueError, "size of at least 1"),
    "mesh axis name": (lambda: pl.Mesh({1: 2}), TypeError, "must be a string"),
    "mesh axes twice": (lambda: pl.Mesh([("a", 1), ("a", 2)]), ValueError, "must be distinct"),
    "semantics": (
        lambda: pl.Mesh({"a": 1}, dimension_semantics=("fast",)),
        ValueError,
        "dimension_semantics",
    ),
    "derivative": (
        lambda: weft.jvp(
            lambda x: pl.mpmd_map([(SOLO, copy)], struct(8), interpret=True)(x), (X,), (X,)
        ),
        TypeError,
        "has no derivative.*custom_vjp",
    ),
    "kernel with several meshes": (
        lambda: pl.kernel(nothing, mesh=[RING, SOLO]),
        ValueError,
        "one function takes one mesh",
    ),
    "scratch of several cores": (
        lambda: pl.run_scoped(nothing, pl.LOCAL((), "float32"), collective_axes="core"),
        ValueError,
        "collective_axes='core' is not supported.*pallas.SHARED",
    ),
    "dot with two precisions": (
        lambda: pl.dot(np.ones((2, 2)), np.ones((2, 2)), allow_tf32=True, precision="high"),
        ValueError,
        "allow_tf32 or precision, not both",
    ),
    "kernel with too few meshes": (
        lambda: pl.kernel([nothing, nothing], mesh=[RING]),
        ValueError,
        "as many meshes as functions",
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_mpmd_map_says_what_is_wrong(name):
    use, error, words = MAPS[name]
    with pytest.raises(error, match=f"(?s){words}"):
        use()


def test_a_kernel_does_not_know_the_axes_around_it():
    mesh = weft.make_mesh((2,), ("d",), axis_types=(weft.AxisType.Auto,))

    def kernel(x, out):
        out[...] = x[...] * lax.axis_index("d")

    f = weft.shard_map(
        lambda x: pl.pallas_call(kernel, struct(4), interpret=True)(x),
        mesh=mesh,
        in_specs=P("d"),
        out_specs=P("d"),
    )
    with pytest.raises(TypeError, match="take weft.lax.axis_index.* outside of the kernel"):
        f(jnp.asarray(X))


def test_atomics_have_no_derivative_but_sums():
    def kernel(x, zero, out):
        pl.atomic_max(out, 0, x[0])

    f = pl.pallas_call(kernel, struct(8), input_output_aliases={1: 0}, interpret=True)
    with pytest.raises(TypeError, match=r"atomic_rmw \(max\) has no derivative"):
        weft.jvp(lambda x: f(x, X), (X,), (X,))


OPTIONS = {
    "name": (3, "name must be a string"),
    "debug": ("yes", "debug must be True, False or None"),
    "metadata": (3, "metadata must be a dict"),
    "cost_estimate": (3, "cost_estimate must be a pl.CostEstimate"),
    "input_output_aliases": (7, "input_output_aliases must be a dict.*got 7"),
    "num_threads": ({"num_threads": 0}, "num_threads must be an int of at least 1, got 0"),
    "num_warps": (pl.CompilerParams(num_warps="4"), "num_warps must be an int"),
    "kinds": ({"dimension_semantics": ("fast",)}, "must give one of parallel, .* of the 1 axes"),
    "count": ({"dimension_semantics": ("parallel",) * 2}, "for each of the 1 axes of the grid"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_cannot_be_meant_are_named(name):
    value, message = OPTIONS[name]
    known = inspect.signature(pl.pallas_call).parameters
    given = {name if name in known else "compiler_params": value}
    with pytest.raises((TypeError, ValueError), match=f"pallas_call of .*{message}"):
        call(copy, X, grid=1, **given)
    if "axes" not in message:
        with pytest.raises((TypeError, ValueError), match=f"mpmd_map.*{message}"):
            pl.mpmd_map([(SOLO, copy)], struct(8), **given)(X)
