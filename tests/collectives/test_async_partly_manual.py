"""Started collectives where other axes of the mesh are left to the partitioner, or explicit."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.collectives.harness import COMPILER_OPTIONS
from weft import P, lax

AUTO, EXPLICIT = weft.AxisType.Auto, weft.AxisType.Explicit
X = np.linspace(-2, 3, 64, dtype=np.float32).reshape(8, 8)
SWAP = [(0, 1), (1, 0)]
TOP, BOTTOM = X[:4], X[4:]


def rows(*parts):
    return np.concatenate(parts)


# name: (start of f32[4,8], which of x's two devices has what of X, the adjoint on the same)
STARTS = {
    "psum": (lambda v: lax.psum_start(v, "x"), lambda a, b: (a + b, a + b)),
    "all_gather": (
        lambda v: lax.all_gather_start(v, "x", tiled=True),
        lambda a, b: (rows(a, b), rows(a, b)),
    ),
    "psum_scatter": (
        lambda v: lax.psum_scatter_start(v, "x", tiled=True),
        lambda a, b: ((a + b)[:2], (a + b)[2:]),
    ),
    "all_to_all": (
        lambda v: lax.all_to_all_start(v, "x", 0, 0, tiled=True),
        lambda a, b: (rows(a[:2], b[:2]), rows(a[2:], b[2:])),
    ),
    "pbroadcast": (lambda v: lax.pbroadcast_start(v, "x", 1), lambda a, b: (b, b)),
    "ppermute": (lambda v: lax.ppermute_start(v, "x", SWAP), lambda a, b: (b, a)),
}


def mesh_of(free):
    return weft.make_mesh((2, 4), ("x", "y"), axis_types=(AUTO if free is AUTO else EXPLICIT, free))


SPLIT = P("x")


def partly_manual(body, mesh, out_specs=SPLIT):
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=out_specs, axis_names={"x"})
    return weft.jit(mapped, compiler_options=COMPILER_OPTIONS)


def placed(mesh, x=X):
    return weft.device_put(x, weft.NamedSharding(mesh, P("x", "y")))


def overlapped(start):
    def body(v):
        future = start(v)
        other = jnp.sin(v).sum()
        return future.done() + lax.pvary(other, "x")

    return body


def expected(name):
    """What `overlapped` gives, stacked along x."""
    a, b = STARTS[name][1](TOP, BOTTOM)
    return rows(a + np.sin(TOP).sum(), b + np.sin(BOTTOM).sum())


def varying(name):
    """The start, with a value that varies whatever it gives."""
    start, _ = STARTS[name]
    return lambda v: lax.pvary(start(v).done(), "x")


@pytest.mark.parametrize("free", [AUTO, EXPLICIT], ids=["auto", "explicit"])
@pytest.mark.parametrize("name", STARTS)
def test_a_start_takes_the_part_that_a_device_has(name, free):
    """Nothing is gathered along the free axis, neither in front of the start nor behind it."""
    mesh = mesh_of(free)
    f = partly_manual(overlapped(STARTS[name][0]), mesh)
    x = placed(mesh)
    np.testing.assert_allclose(f(x), expected(name), rtol=1e-5)
    text = str(f.lower(x).stages.local)
    [shape] = re.findall(r"\(tensor<([\dx]+)x\w+>\) -> !stablehlo\.future", text)
    assert np.prod([int(n) for n in shape.split("x")]) == X.size // 8
    places = [text.index(op) for op in ("async_start", "stablehlo.sine", "async_done")]
    assert places == sorted(places)
    assert text.count("async_start") == text.count("async_done") == 1
    moved = [c for c in weft.comm(f, x).collectives if c.axes != ("x",)]
    assert all(c.shape == "f32" for c in moved)  # the scalar sum of the sines


@pytest.mark.parametrize("name", STARTS)
def test_xla_as_partitioner_computes_the_same(name):
    mesh = mesh_of(AUTO)
    with weft.core.config.options["partitioner"]("xla"):
        out = partly_manual(overlapped(STARTS[name][0]), mesh)(placed(mesh))
    np.testing.assert_allclose(out, expected(name), rtol=1e-5)


def adjoint(name, ct):
    """The pullback of a start, by its matrix."""
    shape = rows(*STARTS[name][1](TOP, BOTTOM)).shape
    assert ct.shape == shape
    columns = []
    for k in range(8):
        unit = np.zeros((8, 8), np.float32)
        unit[k] = 1
        columns.append(rows(*STARTS[name][1](unit[:4], unit[4:])))
    return np.stack([(c * ct).sum(0) for c in columns])


WRAPPED = {
    "vmap": lambda f: lambda v: weft.vmap(f, 0, 0)(jnp.stack([v, 2 * v]))[1] / 2,
    "scan": lambda f: (
        lambda v: lax.scan(lambda c, k: (c, f(k * v)), 0, jnp.array([3.0, 1.0]))[1][1]
    ),
    "remat": weft.checkpoint,
    "cond": lambda f: lambda v: lax.cond(lax.psum(v.sum(), "x") > 0, f, lambda v: f(-v), v),
    "jit": lambda f: weft.jit(f),
    "linearize": lambda f: lambda v: weft.linearize(f, v)[1](v),
}


@pytest.mark.parametrize("free", [AUTO, EXPLICIT], ids=["auto", "explicit"])
@pytest.mark.parametrize("wrapper", WRAPPED)
@pytest.mark.parametrize("name", STARTS)
def test_values_and_pullbacks_under_transformations(name, wrapper, free):
    mesh = mesh_of(free)
    body = WRAPPED[wrapper](varying(name))
    want = rows(*STARTS[name][1](TOP, BOTTOM))
    ct = np.cos(np.arange(want.size, dtype=np.float32)).reshape(want.shape)

    def both(x, ct):
        out, back = weft.vjp(partly_manual(body, mesh), x)
        return out, back(ct)[0]

    if free is EXPLICIT:
        ct_in = weft.device_put(ct, weft.NamedSharding(mesh, P("x", "y")))
    else:
        ct_in = ct
    out, gradient = weft.jit(both, compiler_options=COMPILER_OPTIONS)(placed(mesh), ct_in)
    np.testing.assert_allclose(out, want, rtol=1e-5)
    np.testing.assert_allclose(gradient, adjoint(name, ct), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("free", [AUTO, EXPLICIT], ids=["auto", "explicit"])
def test_a_future_is_carried_by_a_loop(free):
    mesh = mesh_of(free)

    def body(v):
        def step(future, _):
            return lax.ppermute_start(jnp.sin(v) + future.done(), "x", SWAP), None

        return lax.scan(step, lax.ppermute_start(v, "x", SWAP), None, length=2)[0].done()

    a, b = BOTTOM, TOP
    for _ in range(2):
        a, b = np.sin(BOTTOM) + b, np.sin(TOP) + a
    out = partly_manual(body, mesh)(placed(mesh))
    np.testing.assert_allclose(out, rows(a, b), rtol=1e-5)


def test_two_starts_of_one_value_overlap_each_other():
    mesh = mesh_of(AUTO)

    def body(v):
        first, second = lax.psum_start(v, "x"), lax.ppermute_start(v, "x", SWAP)
        return second.done() * first.done()

    f = partly_manual(body, mesh)
    x = placed(mesh)
    np.testing.assert_allclose(f(x), rows(BOTTOM, TOP) * np.tile(TOP + BOTTOM, (2, 1)), rtol=1e-5)
    text = str(f.lower(x).stages.local)
    assert re.findall(r"async_\w+|all_reduce|collective_permute|all_gather", text) == [
        *("async_start", "all_reduce", "async_start", "collective_permute"),
        *("async_done", "async_done"),
    ]


def test_what_must_be_whole_is_gathered_in_front_of_its_start():
    """The dimension that is scattered along x may not stay split along y, too."""
    mesh = mesh_of(AUTO)

    def body(v):
        return lax.psum_scatter_start(v, "x", scatter_dimension=1, tiled=True).done()

    f = partly_manual(body, mesh, P(None, "x"))
    x = placed(mesh)
    np.testing.assert_allclose(f(x), TOP + BOTTOM, rtol=1e-5)
    kinds = [c.kind for c in weft.comm(f, x).collectives]
    assert kinds.count("reduce_scatter") == 1


def test_a_manual_program_with_starts_is_the_program_of_one_device():
    mesh = weft.make_mesh((2,), ("x",), axis_types=(AUTO,))
    mapped = weft.shard_map(
        overlapped(STARTS["ppermute"][0]), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    f = weft.jit(mapped, compiler_options=COMPILER_OPTIONS)
    np.testing.assert_allclose(f(X), expected("ppermute"), rtol=1e-5)


def test_a_function_that_starts_and_ends_a_collective_is_called_twice():
    mesh = mesh_of(AUTO)
    swapped = weft.jit(lambda v: jnp.sin(lax.ppermute_start(v, "x", SWAP).done()))
    inner = partly_manual(lambda v: swapped(2 * swapped(v)), mesh)
    twice = weft.jit(inner, partitioner="weft", compiler_options=COMPILER_OPTIONS)
    np.testing.assert_allclose(twice(placed(mesh)), np.sin(2 * np.sin(X)), rtol=1e-5)
    text = str(twice.lower(placed(mesh)).stages.local)
    assert re.findall("async_[a-z]+", text) == ["async_start", "async_done"] * 2
