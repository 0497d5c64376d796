"""shard_map: specs, whole and partly manual meshes, nesting, transforms, results, errors."""

import functools
import gc
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.core.config import options
from weft.sharding import AxisType

AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
X = np.arange(1.0, 33.0, dtype=np.float32).reshape(8, 4)
V = np.arange(1.0, 9.0, dtype=np.float32)
RING = [(i, (i + 1) % 8) for i in range(8)]


def mesh_of(type_=AUTO, **sizes):
    return weft.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(type_,) * len(sizes))


LINE, GRID, CUBE = mesh_of(x=8), mesh_of(x=2, y=4), mesh_of(a=2, b=2, c=2)
SPLIT = P("x")


def on_line(body, in_specs=SPLIT, out_specs=SPLIT, **options):
    return weft.shard_map(body, mesh=LINE, in_specs=in_specs, out_specs=out_specs, **options)


tracked = pytest.mark.parametrize("check_vma", [True, False], ids=["typed", "untyped"])


# Specs and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("run", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("spec", "local"),
    [
        (P(), (8, 4)),
        (P("x"), (4, 4)),
        (P(None, "y"), (8, 1)),
        (P("y", "x"), (2, 2)),
        (P(("x", "y")), (1, 4)),
        (P(("y", "x")), (1, 4)),
    ],
)
def test_a_spec_says_which_part_a_device_is_given(run, spec, local):
    def body(v):
        assert v.shape == local
        return 2 * v

    f = weft.shard_map(body, mesh=GRID, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(run(f)(X), 2 * X)


def test_parts_are_joined_in_the_order_of_the_axes():
    def index():
        return lax.axis_index(("x", "y"))[None]

    for axes, want in ((("x", "y"), np.arange(8)), (("y", "x"), [0, 4, 1, 5, 2, 6, 3, 7])):
        f = weft.shard_map(index, mesh=GRID, in_specs=(), out_specs=P(axes))
        np.testing.assert_array_equal(f(), want)


def test_specs_are_prefixes_of_pytrees():
    def body(pair, scale):
        return {"sum": pair["a"] + pair["b"][0], "scaled": [scale * pair["a"]]}

    f = weft.shard_map(
        body,
        mesh=GRID,
        in_specs=({"a": P("x"), "b": P("x")}, P()),
        out_specs={"sum": P("x"), "scaled": P("x")},
    )
    out = f({"a": X, "b": (X,)}, 3.0)
    np.testing.assert_array_equal(out["sum"], 2 * X)
    np.testing.assert_array_equal(out["scaled"][0], 3 * X)


def test_an_argument_without_a_spec_reaches_the_function_as_it_is():
    def body(mode, v):
        return 2 * v if mode == "double" else v

    f = on_line(body, in_specs=(None, SPLIT))
    np.testing.assert_array_equal(f("double", V), 2 * V)
    np.testing.assert_array_equal(f("same", V), V)
    np.testing.assert_array_equal(weft.jit(lambda v: f("double", v))(V), 2 * V)


def test_an_argument_without_a_spec_need_not_hash():
    class Unhashable:
        __hash__ = None
        scale = 2

    f = on_line(lambda options, v: v * options.scale, in_specs=(None, SPLIT))
    np.testing.assert_array_equal(f(Unhashable(), V), 2 * V)


def test_it_is_a_decorator():
    @weft.shard_map(mesh=LINE, in_specs=P("x"), out_specs=P())
    def total(v):
        return lax.psum(v.sum(), "x")

    assert total(V) == V.sum()
    assert total.__name__ == "total"


def test_the_mesh_may_come_from_the_context():
    f = weft.shard_map(lambda v: lax.psum(v, "x"), in_specs=SPLIT, out_specs=P())
    with weft.set_mesh(LINE):
        np.testing.assert_array_equal(f(V), [V.sum()])
        np.testing.assert_array_equal(weft.jit(f)(V), [V.sum()])


def test_without_in_specs_explicit_types_give_them():
    mesh = mesh_of(EXPLICIT, x=2, y=4)
    x = weft.device_put(X, weft.NamedSharding(mesh, P("x", "y")))

    def body(v):
        assert v.shape == (4, 1)
        return lax.psum(v, "x")

    f = weft.shard_map(body, mesh=mesh, out_specs=P(None, "y"))
    for run in (f, weft.jit(f), weft.jit(lambda x: f(1 * x))):
        np.testing.assert_array_equal(run(x), X[:4] + X[4:])


def test_arrays_of_the_surroundings_are_given_whole():
    f = on_line(lambda v: v + X.sum() + jnp.asarray(V).sum())
    np.testing.assert_array_equal(f(V), V + X.sum() + V.sum())


def test_a_function_without_arguments_or_results():
    assert on_line(lambda v: None, out_specs=None)(V) is None
    np.testing.assert_array_equal(on_line(lambda: np.ones(2), in_specs=())(), np.ones(16))
    assert on_line(lambda v: 3.0, out_specs=P())(V) == 3.0


def test_meshes_of_one_device_and_of_some():
    for n in (1, 4):
        f = weft.shard_map(
            lambda v: v + lax.psum(v, "x").sum() * lax.axis_index("x"),
            mesh=mesh_of(x=n),
            in_specs=SPLIT,
            out_specs=SPLIT,
        )
        want = V + V.sum() * np.repeat(np.arange(n), 8 // n)
        np.testing.assert_array_equal(f(V), want)


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("order", [[7, 6, 5, 4, 3, 2, 1, 0], [3, 1, 4, 0, 5, 7, 2, 6]])
def test_devices_stand_in_the_order_of_the_mesh(order, partitioner):
    devices = np.array(weft.devices()[:8])[order].reshape(2, 4)
    mesh = weft.sharding.Mesh(devices, ("x", "y"), axis_types=(AUTO, AUTO))

    def body(v):
        moved = lax.ppermute(v, ("x", "y"), RING)
        return v + 10 * lax.axis_index(("x", "y")), moved, lax.all_gather(v, ("y", "x"), tiled=True)

    split = P(("x", "y"))
    f = weft.shard_map(body, mesh=mesh, in_specs=split, out_specs=split)
    index, moved, gathered = weft.jit(f, partitioner=partitioner)(V)
    np.testing.assert_array_equal(index, V + 10 * np.arange(8))
    np.testing.assert_array_equal(moved, np.roll(V, 1))
    np.testing.assert_array_equal(gathered, np.tile(V.reshape(2, 4).T.ravel(), 8))


def test_keys_are_split_over_devices():
    keys = weft.random.split(weft.random.key(0), 8)
    out = on_line(lambda k: weft.random.uniform(k[0], (2,)))(keys)
    want = weft.vmap(lambda k: weft.random.uniform(k, (2,)))(keys).reshape(-1)
    np.testing.assert_array_equal(out, want)


def test_every_device_runs_the_function_for_itself(capfd):
    out = on_line(lambda v: (weft.debug.print("part {}", v[0]), v)[1])(V)
    out.block_until_ready()
    weft.effects_barrier()
    said = sorted(capfd.readouterr().out.split("\n"))
    assert [s for s in said if s] == [f"part {v}" for v in V]


def test_disable_jit_leaves_the_devices_their_program():
    with weft.disable_jit():
        f = on_line(lambda v: lax.psum(lax.fori_loop(0, 2, lambda _, c: 2 * c, v), "x"), SPLIT, P())
        assert f(V) == 4 * V.sum()


def test_its_programs_die_with_the_function():
    def make():
        fun = lambda v: 2 * v
        on_line(fun)(V)
        return weakref.ref(fun)

    ref = make()
    gc.collect()
    assert ref() is None


def test_a_wrapped_function_is_another_function():
    def double(v):
        return 2 * v

    @functools.wraps(double)
    def triple(v):
        return 3 * v

    np.testing.assert_array_equal(on_line(double)(V), 2 * V)
    np.testing.assert_array_equal(on_line(triple)(V), 3 * V)


# Lowering -------------------------------------------------------------------------------------


def test_it_is_a_manual_computation_with_its_specs():
    text = weft.jit(on_line(lambda v: lax.psum(v, "x"), out_specs=P())).lower(V).as_text()
    assert 'sdy.mesh @mesh = <["x"=8]>' in text
    assert 'in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>]' in text
    assert 'manual_axes={"x"}' in text


def test_a_partly_manual_one_leaves_dimensions_open_for_the_rest():
    f = weft.shard_map(
        lambda v: lax.psum(v, "x"), mesh=GRID, in_specs=SPLIT, out_specs=P(), axis_names={"x"}
    )
    text = weft.jit(f).lower(X).as_text()
    assert 'in_shardings=[<@mesh, [{"x", ?}, {?}]>]' in text
    assert 'manual_axes={"x"}' in text


def partly(body):
    return weft.shard_map(
        body, mesh=GRID, in_specs=SPLIT, out_specs=P(), axis_names={"x"}, check_vma=False
    )


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize("shardy", [True, False], ids=["Shardy", "GSPMD"])
def test_every_partitioner_runs_it(partitioner, shardy):
    f = partly(lambda v: lax.psum(v @ v.T, "x"))
    with options["use_shardy"](shardy):
        got = weft.jit(f, partitioner=partitioner)(X)
    np.testing.assert_array_equal(got, X[:4] @ X[:4].T + X[4:] @ X[4:].T)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("all_gather", lambda v: lax.all_gather(v, "x")),
        ("all_to_all", lambda v: lax.all_to_all(v, "x", 0, 1, tiled=True)),
        ("axis_index", lambda v: v + lax.axis_index("x")),
    ],
)
def test_what_ends_the_process_without_shardy_is_refused(name, body):
    with (
        options["use_shardy"](False),
        pytest.raises(ValueError, match=f"{name} .* leaves mesh axes 'y' .* needs Shardy"),
    ):
        weft.jit(partly(body)).lower(X)
    weft.jit(partly(body), partitioner="xla")(X)


# Partly manual and nested ---------------------------------------------------------------------


@tracked
def test_axes_that_are_not_manual_stay_with_the_partitioner(check_vma):
    def body(v, w):
        assert v.shape == (4, 4)
        return lax.psum(v @ w, "x")

    f = weft.shard_map(
        body,
        mesh=GRID,
        in_specs=(P("x"), P()),
        out_specs=P(),
        axis_names={"x"},
        check_vma=check_vma,
    )
    placed = weft.device_put(X, weft.NamedSharding(GRID, P("x", "y")))
    for run in (f, weft.jit(f)):
        np.testing.assert_allclose(run(placed, X.T), X[:4] @ X.T + X[4:] @ X.T)
    gradient = weft.grad(lambda x: f(x, X.T).sum())(X)
    np.testing.assert_allclose(gradient, np.tile(X.sum(0), (8, 1)))


@pytest.mark.parametrize("outer_typed", [True, False])
@pytest.mark.parametrize("inner_typed", [True, False])
def test_one_inside_another_takes_more_axes(outer_typed, inner_typed):
    def inner(v):
        return lax.psum(v * v, ("b", "a"))

    def outer(v):
        f = weft.shard_map(
            inner, in_specs=P("b"), out_specs=P(), axis_names={"b"}, check_vma=inner_typed
        )
        return f(2 * v)

    f = weft.shard_map(
        outer, mesh=CUBE, in_specs=P("a"), out_specs=P(), axis_names={"a"}, check_vma=outer_typed
    )
    want = (4 * V.reshape(2, 2, 2) ** 2).sum((0, 1))
    for run in (f, weft.jit(f)):
        np.testing.assert_array_equal(run(V), want)
    np.testing.assert_array_equal(weft.grad(lambda v: f(v).sum())(V), 8 * V)
    np.testing.assert_array_equal(weft.vmap(f)(np.stack([V, 2 * V])), [want, 4 * want])


def test_an_inner_one_may_name_the_mesh_again():
    def outer(v):
        return weft.shard_map(
            lambda w: lax.psum(w, "b"),
            mesh=CUBE,
            in_specs=P("b"),
            out_specs=P(),
            axis_names={"b"},
        )(v)

    f = weft.shard_map(outer, mesh=CUBE, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    np.testing.assert_array_equal(f(V), [1 + 3, 2 + 4, 5 + 7, 6 + 8])


def test_smap_takes_one_axis_and_dimensions_as_vmap_does():
    with weft.set_mesh(GRID):
        centred = weft.smap(lambda v: v - lax.pmean(v, "x"), axis_name="x", in_axes=0, out_axes=0)
        mean = (X[:4] + X[4:]) / 2
        np.testing.assert_array_equal(centred(X), X - np.concatenate([mean, mean]))
        turned = weft.smap(lambda v: v.T, axis_name="y", in_axes=-1, out_axes=-2)
        np.testing.assert_array_equal(turned(X), X.T)
        added = weft.smap(lambda a, b: a + b, axis_name="x", in_axes=(0, None), out_axes=0)
        np.testing.assert_array_equal(added(X, 2.0), X + 2)


def test_one_smap_inside_another_takes_two_axes():
    @weft.smap(axis_name="x", in_axes=0, out_axes=None)
    def outer(v):
        inner = weft.smap(
            lambda w: lax.psum(w, ("x", "y")), axis_name="y", in_axes=1, out_axes=None
        )
        return inner(v)

    with weft.set_mesh(GRID):
        want = (X[:4] + X[4:]).sum(1, keepdims=True)
        np.testing.assert_array_equal(outer(X), want)
        gradient = weft.grad(lambda x: (outer(x) ** 2).sum())(X)
    np.testing.assert_array_equal(gradient, np.tile(2 * want, (2, 4)))


# Transformations ------------------------------------------------------------------------------


def cubes(v):
    return lax.psum(v**3, "x")


@tracked
def test_derivatives_of_first_and_second_order(check_vma):
    f = lambda v: on_line(cubes, out_specs=P(), check_vma=check_vma)(v).sum()
    for run in (lambda g: g, weft.jit):
        np.testing.assert_allclose(run(weft.grad(f))(V), 3 * V**2, rtol=1e-6)
        value, tangent = run(lambda v: weft.jvp(f, (v,), (V,)))(V)
        np.testing.assert_allclose([value, tangent], [(V**3).sum(), 3 * (V**3).sum()], rtol=1e-6)
    np.testing.assert_allclose(weft.hessian(f)(V), np.diag(6 * V), rtol=1e-6)
    linear = weft.linearize(f, V)[1]
    np.testing.assert_allclose(linear(V), 3 * (V**3).sum(), rtol=1e-6)


@tracked
def test_what_is_equal_on_all_devices_has_one_gradient(check_vma):
    """The cotangent of an argument given whole is the sum over devices, once."""

    def body(v, w):
        return lax.psum((v * w).sum(), "x")

    f = on_line(body, in_specs=(SPLIT, P()), out_specs=P(), check_vma=check_vma)
    by_v, by_w = weft.grad(f, (0, 1))(V, 2.0)
    np.testing.assert_array_equal(by_v, np.full(8, 2.0))
    assert by_w == V.sum()
    closed = lambda w: on_line(
        lambda v: lax.psum((v * w).sum(), "x"), out_specs=P(), check_vma=check_vma
    )(V)
    assert weft.grad(closed)(2.0) == V.sum()


def test_typed_differentiation_communicates_only_where_needed():
    """The backward pass of a psum is a cast, that of a varying value nothing at all."""
    f = lambda v: on_line(lambda v: lax.psum(jnp.sin(v), "x"), out_specs=P())(v).sum()
    text = str(weft.make_jaxpr(weft.grad(f))(V))
    assert text.count("psum[") == 1  # the value's own
    assert "pcast[axes=('x',) to=varying]" in text


def test_integers_and_unused_results_have_no_gradient():
    def body(v, n):
        return v * n.astype(v.dtype), n + 1, lax.psum(v, "x")

    f = on_line(body, in_specs=(SPLIT, SPLIT), out_specs=(SPLIT, SPLIT, P()))
    n = np.arange(8, dtype=np.int32)
    gradient = weft.grad(lambda v: f(v, n)[0].sum())(V)
    np.testing.assert_array_equal(gradient, n)


def test_custom_derivatives_inside():
    @weft.custom_vjp
    def square(v):
        return v * v

    square.defvjp(lambda v: (v * v, v), lambda v, ct: (20 * v * ct,))
    f = lambda v: on_line(lambda v: lax.psum(square(v), "x"), out_specs=P())(v).sum()
    np.testing.assert_array_equal(weft.grad(f)(V), 20 * V)


@tracked
@pytest.mark.parametrize("inside", [False, True], ids=["around", "inside"])
def test_checkpoint(check_vma, inside):
    body = lambda v: lax.psum(jnp.sin(v) * v, "x")
    if inside:
        mapped = on_line(weft.checkpoint(body), out_specs=P(), check_vma=check_vma)
    else:
        mapped = weft.checkpoint(on_line(body, out_specs=P(), check_vma=check_vma))
    gradient = weft.grad(lambda v: mapped(v).sum())(V)
    np.testing.assert_allclose(gradient, np.cos(V) * V + np.sin(V), rtol=1e-5)


@pytest.mark.parametrize("in_axis", [0, 1])
def test_vmap_maps_every_device(in_axis):
    x = np.moveaxis(np.stack([V, 2 * V, 3 * V]), 0, in_axis)
    body = lambda v: (v * v, lax.psum(v, "x"))
    f = weft.vmap(on_line(body, out_specs=(SPLIT, P())), in_axis, (in_axis, 0))
    squares, sums = f(x)
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_array_equal(sums[:, 0], [36, 72, 108])


def test_vmap_may_spread_its_axis_over_a_mesh_axis():
    def body(v):
        return lax.psum(v, "x")

    f = weft.shard_map(body, mesh=GRID, in_specs=P("x"), out_specs=P())
    batched = weft.vmap(f, spmd_axis_name="y")
    np.testing.assert_array_equal(batched(X), X[:, :2] + X[:, 2:])
    text = weft.jit(batched).lower(X).as_text()
    assert '[{"y"}, {"x"}]' in text
    gradient = weft.grad(lambda x: (batched(x) ** 2).sum())(X)
    np.testing.assert_array_equal(gradient, np.tile(2 * (X[:, :2] + X[:, 2:]), (1, 2)))


def test_collectives_over_an_axis_of_vmap_around():
    f = weft.vmap(on_line(lambda v: lax.psum(v, ("i", "x")), out_specs=P()), axis_name="i")
    np.testing.assert_array_equal(f(np.stack([V, 2 * V])), [[108], [108]])


@tracked
def test_scan_around_and_inside(check_vma):
    step = on_line(lambda v: lax.ppermute(v, "x", RING), check_vma=check_vma)
    out, first = lax.scan(lambda c, _: (step(c), c[0]), V, None, length=3)
    np.testing.assert_array_equal(out, np.roll(V, 3))
    np.testing.assert_array_equal(first, [1, 8, 7])

    def body(v):
        def rotate(c, _):
            return lax.ppermute(2 * c, "x", RING), None

        return lax.scan(rotate, v, None, length=3)[0]

    inside = on_line(body, check_vma=check_vma)
    np.testing.assert_array_equal(inside(V), np.roll(8 * V, 3))
    weights = np.arange(8.0, dtype=np.float32)
    gradient = weft.grad(lambda v: (inside(v) * weights).sum())(V)
    np.testing.assert_array_equal(gradient, 8 * np.roll(weights, -3))


@tracked
def test_branches_and_loops_inside(check_vma):
    def body(v):
        total = lax.psum(v, "x")
        chosen = lax.cond(total[0] > 3, lambda: lax.pmax(v, "x"), lambda: total)
        counted = lax.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, lax.psum(s[1], "x")), (0, chosen)
        )
        return counted[1]

    f = on_line(body, out_specs=P(), check_vma=check_vma)
    np.testing.assert_array_equal(f(V), [8 * 64])


# Types of results -----------------------------------------------------------------------------


def test_results_over_explicit_axes_carry_their_sharding():
    mesh = mesh_of(EXPLICIT, x=2, y=4)
    f = weft.shard_map(lambda v: v, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    seen = []
    x = weft.device_put(X, weft.NamedSharding(mesh, P("x", "y")))
    weft.jit(lambda x: (seen.append(str(weft.typeof(f(x)))), f(x))[1])(x)
    assert seen == ["f32[8@x,4@y]"]
    assert str(weft.typeof(f(x))) == "f32[8@x,4@y]"


def test_a_partial_sum_may_leave_one_and_enter_another():
    mesh = mesh_of(EXPLICIT, x=2, y=4)
    spec = P(None, "y", unreduced={"x"})
    make = weft.shard_map(
        lambda v: lax.pcast(v, "x", to="unreduced"), mesh=mesh, in_specs=P("x", "y"), out_specs=spec
    )
    take = weft.shard_map(
        lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=spec, out_specs=P(None, "y")
    )
    f = weft.jit(lambda x: take(make(x)))
    x = weft.device_put(X, weft.NamedSharding(mesh, P("x", "y")))
    np.testing.assert_array_equal(f(x), X[:4] + X[4:])
    gradient = weft.grad(lambda x: (f(x) ** 2).sum())(x)
    np.testing.assert_array_equal(gradient, np.tile(2 * (X[:4] + X[4:]), (2, 1)))
    assert str(weft.typeof(weft.jit(make)(x))) == "f32[4,4@y]{U:x}"


# Errors ---------------------------------------------------------------------------------------

NESTED = {"mesh": LINE, "in_specs": P("x"), "out_specs": P("x")}


def in_grid(f):
    with weft.sharding.use_abstract_mesh(GRID.abstract_mesh):
        return f(X)


# name: (program, exception, what the message must contain)
WRONG = {
    "a size that does not divide": (
        lambda: on_line(lambda v: v)(np.ones(9, np.float32)),
        ValueError,
        ["argument v of type f32[9]", "dimension 0 of size 9", "'x' (size 8)", "pad it to 16"],
    ),
    "too many entries for an argument": (
        lambda: on_line(lambda v: v, P(None, "x"))(V),
        ValueError,
        ["argument v of type f32[8] has rank 1", "P(None, 'x') has 2 entries"],
    ),
    "too many entries for a result": (
        lambda: on_line(lambda v: v.sum())(V),
        ValueError,
        ["result of type f32[]{V:x} has rank 0", "P('x',)", "x[None]"],
    ),
    "an unknown axis in a spec": (
        lambda: on_line(lambda v: v, P("q"))(V),
        ValueError,
        ["in_specs for v is P('q',)", "'q' is not an axis of the mesh", "'x': 8"],
    ),
    "an unknown manual axis": (
        lambda: on_line(lambda v: v, axis_names={"q"})(V),
        ValueError,
        ["axis_names contains 'q'", "'x': 8"],
    ),
    "an axis that is not manual in a spec": (
        lambda: weft.shard_map(
            lambda v: v, mesh=GRID, in_specs=P("y"), out_specs=P("y"), axis_names={"x"}
        )(X),
        ValueError,
        ["in_specs for v is P('y',)", "axis 'y' is not manual", "Add it to axis_names"],
    ),
    "a spec of another kind": (
        lambda: on_line(lambda v: v, "x")(V),
        TypeError,
        ["in_specs for v must be a PartitionSpec", "got str: 'x'"],
    ),
    "specs for more arguments than there are": (
        lambda: on_line(lambda v: v, (P("x"), P()))(V),
        ValueError,
        ["in_specs has 2 entries for 1 arguments"],
    ),
    "specs for more results than there are": (
        lambda: on_line(lambda v: v, out_specs=(P("x"), P()))(V),
        ValueError,
        ["out_specs must be a pytree prefix"],
    ),
    "a result that varies but is not split": (
        lambda: on_line(lambda v: {"a": [2 * v]}, out_specs=P())(V),
        ValueError,
        ["result['a'][0] of type f32[1]{V:x} varies over mesh axis 'x'", "P()", "psum", "pmean"],
    ),
    "a partial sum that leaves unseen": (
        lambda: on_line(lambda v: lax.pcast(v, "x", to="unreduced"), out_specs=P())(V),
        ValueError,
        ["f32[1]{U:x} is unreduced over mesh axis 'x'", "psum(x, 'x')", "unreduced={'x'}"],
    ),
    "keyword arguments": (
        lambda: on_line(lambda v: v)(v=V),
        TypeError,
        ["positional arguments only", "v was passed by keyword"],
    ),
    "no mesh": (
        lambda: weft.shard_map(lambda v: v, in_specs=P(), out_specs=P())(V),
        ValueError,
        ["there is no mesh", "set_mesh"],
    ),
    "a mesh of another kind": (
        lambda: weft.shard_map(lambda v: v, mesh={"x": 8}, in_specs=P(), out_specs=P()),
        TypeError,
        ["mesh must be a weft.sharding.Mesh", "dict"],
    ),
    "no axis left for an inner one": (
        lambda: on_line(
            lambda v: weft.shard_map(lambda w: w, in_specs=P("x"), out_specs=P("x"))(v)
        )(V),
        ValueError,
        ["all axes", "already manual"],
    ),
    "an axis that is manual already": (
        lambda: weft.shard_map(
            lambda v: weft.shard_map(
                lambda w: w, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
            )(v),
            mesh=GRID,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
        )(X),
        ValueError,
        ["axis 'x' is already manual", "['y']"],
    ),
    "an inner mesh that is another one": (
        lambda: weft.shard_map(
            lambda v: weft.shard_map(lambda w: w, **NESTED)(v),
            mesh=GRID,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
        )(X),
        ValueError,
        ["mesh must be that mesh", "leave mesh out"],
    ),
    "no explicit types to take specs from": (
        lambda: weft.shard_map(lambda v: v, mesh=LINE, out_specs=P("x"))(V),
        TypeError,
        ["in_specs can be left out over Explicit axes only", "axis 'x' is Auto", "give in_specs"],
    ),
    "an axis of smap out of bounds": (
        lambda: in_grid(weft.smap(lambda v: v, axis_name="x", in_axes=2, out_axes=0)),
        ValueError,
        ["in_axes for v is 2", "out of bounds for f32[8,4]"],
    ),
    "a scalar result of smap": (
        lambda: in_grid(weft.smap(lambda v: v.sum(), axis_name="x", in_axes=0, out_axes=0)),
        ValueError,
        ["out_axes for result is 0", "f32[]{V:x} is a scalar", "x[None]"],
    ),
    "several axes of smap": (
        lambda: weft.smap(lambda v: v, axis_name=("x", "y"), in_axes=0, out_axes=0),
        TypeError,
        ["one mesh axis", "use weft.shard_map"],
    ),
    "axes of smap that are no ints": (
        lambda: weft.smap(lambda v: v, axis_name="x", in_axes="x", out_axes=0),
        TypeError,
        ["in_axes takes ints and None, got 'x'"],
    ),
    "branches that vary differently": (
        lambda: on_line(
            lambda v: lax.cond(lax.psum(v, "x")[0] > 3, lambda: v, lambda: lax.psum(v, "x"))
        )(V),
        TypeError,
        ["f32[1]{V:x}", "pcast(x, 'x', to='varying')"],
    ),
    "a carry that begins to vary": (
        lambda: on_line(
            lambda v: lax.scan(lambda c, _: (c + v, None), np.zeros(1, np.float32), None, 2)[0]
        )(V),
        TypeError,
        ["expected f32[1]", "got      f32[1]{V:x}", "pcast(x, 'x', to='varying')"],
    ),
    "spmd_axis_name that a spec uses": (
        lambda: weft.vmap(on_line(lambda v: v), spmd_axis_name="x")(np.ones((8, 8), np.float32)),
        ValueError,
        ["spmd_axis_name", "already used by the spec P('x',)"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_names_the_place_and_the_fix(name):
    run, kind, parts = WRONG[name]
    for call in (run, lambda: weft.make_jaxpr(run)()):
        with pytest.raises(kind) as caught:
            call()
        for part in parts:
            assert part in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_refs_go_in_by_parts_and_come_back(wrap):
    mesh = weft.make_mesh((4,), ("x",), axis_types=(AUTO,))

    def double(ref, y):
        ref[...] = ref[...] * 2 + lax.axis_index("x")
        return ref[...].sum()[None] + y

    mapped = weft.shard_map(double, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    ref = weft.new_ref(np.arange(8, dtype=np.float32))
    want = 2 * np.arange(8) + np.arange(8) // 2
    np.testing.assert_array_equal(wrap(mapped)(ref, 1.0), want.reshape(4, 2).sum(1) + 1)
    np.testing.assert_array_equal(ref[...], want)

    def loss(x):
        held = weft.new_ref(x)
        return wrap(mapped)(held, 1.0).sum() + (held[...] ** 2).sum()

    np.testing.assert_array_equal(weft.grad(loss)(np.arange(8, dtype=np.float32)), 2 + 4 * want)


@pytest.mark.parametrize(
    "spec", [weft.P(None), weft.P("a", None), weft.P("a", "b"), weft.P(None, "b")]
)
def test_results_of_a_call_outside_of_jit_have_the_specs_as_written(spec):
    mesh = weft.make_mesh((2, 1), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    f = weft.shard_map(lambda v: v * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    y = f(np.ones((4, 4), np.float32))
    assert y.sharding.spec == spec and y.sharding.mesh == mesh
    np.testing.assert_array_equal(y, np.full((4, 4), 2))


@pytest.mark.parametrize(
    "make",
    [jnp.zeros_like, jnp.ones_like, lambda s: jnp.full_like(s, 2), lambda s: lax.full_like(s, 2)],
)
def test_arrays_like_a_type_vary_as_it_does(make):
    structs = []

    def body(x):
        struct = weft.eval_shape(lambda x: x.sum(), x)
        structs.append(struct)
        assert weft.typeof(make(struct)).mat.varying == {"x"}
        total, _ = lax.scan(lambda c, v: (c + v, None), make(struct), x)
        return total[None]

    first = float(make(np.float32(0)))
    np.testing.assert_array_equal(on_line(body)(V), V + first)
    assert not weft.typeof(make(structs[0])).mat.varying  # outside, there is no such axis
