"""shard_map over some axes of an explicit mesh: the other axes stay in the types of the body."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.core.errors import ShardingTypeError
from weft.sharding import AxisType, NamedSharding

MESH = weft.make_mesh((4, 2), ("data", "model"))
X = np.arange(128, dtype=np.float32).reshape(16, 8) / 7
HALVES = X[:, :4], X[:, 4:]
COLUMNS = P(None, "model")


def placed(x, *spec):
    return weft.device_put(x, NamedSharding(MESH, P(*spec)))


x = placed(X, "data", "model")


def over_model(body, in_specs=COLUMNS, out_specs=COLUMNS, **options):
    return weft.shard_map(
        body, mesh=MESH, in_specs=in_specs, out_specs=out_specs, axis_names={"model"}, **options
    )


def inner_types(f, *args):
    """The types of what f, which is given a function to report values with, sees inside."""
    seen = []
    weft.eval_shape(lambda *xs: f(lambda v: seen.append(str(weft.typeof(v))) or v)(*xs), *args)
    return seen


def test_types_inside_keep_the_other_axes_and_ops_join_them():
    w = placed(np.ones((4, 8), np.float32), None, "data")

    def f(see):
        def body(v, w):
            see(v)
            see(jnp.sin(v).T)
            see(v.sum(0))
            see(v @ jnp.ones((4, 3)))
            see(weft.reshard(v, P(None, "data")))
            with pytest.raises(ShardingTypeError, match="mesh axis 'data'"):
                v @ w
            return v

        return over_model(body, in_specs=(COLUMNS, P()))

    assert inner_types(f, x, w) == [
        "f32[16@data,4]{V:model}",
        "f32[4,16@data]{V:model}",
        "f32[4]{V:model}",
        "f32[16@data,3]{V:model}",
        "f32[16,4@data]{V:model}",
    ]


def test_the_jaxpr_shows_the_types_of_the_body():
    placing = NamedSharding(MESH, P("data", "model"))
    x = weft.ShapeDtypeStruct((8, 4), np.float32, sharding=placing)
    text = str(weft.make_jaxpr(over_model(lambda v: lax.psum(v, "model"), out_specs=P()))(x))
    assert "c:f32[8@data,2]{V:model}" in text
    assert "f32[8@data,2] = psum[over=model]" in text


def test_results_are_split_by_out_specs_and_by_their_types():
    both = over_model(lambda v: v[:, :1] * 2, out_specs=P("model"))
    assert str(weft.typeof(weft.jit(both)(x))) == "f32[32@model+data,1]"
    np.testing.assert_array_equal(both(x), 2 * np.concatenate([h[:, :1] for h in HALVES]))


def test_types_without_in_specs_come_from_the_arguments():
    f = weft.shard_map(lambda v: v * 2, mesh=MESH, out_specs=COLUMNS, axis_names={"model"})
    assert str(weft.typeof(f(x))) == "f32[16@data,8@model]"
    np.testing.assert_array_equal(f(x), 2 * X)


def test_what_the_body_closes_over_has_its_type_without_manual_axes():
    w = placed(X, "data", "model")

    def f(see):
        return lambda x, t: over_model(lambda v: v + see(w)[:, :4] + see(t)[:, 4:])(x)

    assert inner_types(f, x, w) == ["f32[16@data,8@model]"] * 2  # as they are outside
    out = weft.jit(lambda x, t: over_model(lambda v: v + w[:, :4] + t[:, 4:])(x))(x, w)
    assert str(weft.typeof(out)) == "f32[16@data,8@model]"
    np.testing.assert_allclose(out, X + np.tile(HALVES[0] + HALVES[1], 2), rtol=1e-6)


COLLECTIVES = {
    "all_gather of the split dimension": (
        lambda v: lax.all_gather(v, "model", axis=0, tiled=True),
        COLUMNS,
        "f32[32@data,4]{V:model}",
        np.tile(np.concatenate(HALVES), 2),
    ),
    "all_gather of another": (
        lambda v: lax.all_gather(v, "model", axis=1, tiled=True),
        COLUMNS,
        "f32[16@data,8]{V:model}",
        np.tile(X, 2),
    ),
    "all_gather to a new dimension": (
        lambda v: lax.all_gather(v, "model", axis=0),
        P(None, None, "model"),
        "f32[2,16@data,4]{V:model}",
        np.tile(np.stack(HALVES), 2),
    ),
    "psum_scatter of the split dimension": (
        lambda v: lax.psum_scatter(v, "model", scatter_dimension=0, tiled=True),
        P("model"),
        "f32[8@data,4]{V:model}",
        HALVES[0] + HALVES[1],
    ),
    "psum_scatter that removes a dimension": (
        lambda v: lax.psum_scatter(v[:, :2], "model", scatter_dimension=1)[:, None],
        COLUMNS,
        "f32[16@data,1]{V:model}",
        (HALVES[0] + HALVES[1])[:, :2],
    ),
    "all_to_all of the split dimension": (
        lambda v: lax.all_to_all(v, "model", 0, 1, tiled=True),
        COLUMNS,
        "f32[8@data,8]{V:model}",
        np.concatenate([np.hstack([h[:8] for h in HALVES]), np.hstack([h[8:] for h in HALVES])], 1),
    ),
    "all_to_all with a new dimension": (
        lambda v: lax.all_to_all(v[:, :2], "model", 1, 0),
        P(None, "model"),
        "f32[2,16@data]{V:model}",
        np.hstack([np.stack([h[:, i] for h in HALVES]) for i in (0, 1)]),
    ),
    "pmax": (lambda v: lax.pmax(v, "model"), P(), "f32[16@data,4]", np.maximum(*HALVES)),
    "ppermute": (
        lambda v: lax.ppermute(v, "model", [(0, 1), (1, 0)]),
        COLUMNS,
        "f32[16@data,4]{V:model}",
        np.hstack(HALVES[::-1]),
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_keep_the_split_of_each_dimension(name):
    body, out_specs, type_, want = COLLECTIVES[name]
    f = over_model(body, out_specs=out_specs)
    assert inner_types(lambda see: over_model(lambda v: see(body(v)), out_specs=out_specs), x) == [
        type_
    ]
    np.testing.assert_allclose(f(x), want, rtol=1e-6)


# Transformations ------------------------------------------------------------------------------

W = np.sin(np.arange(32, dtype=np.float32)).reshape(8, 4)
PARTS = [np.tanh(h @ W[4 * i : 4 * i + 4]) for i, h in enumerate(HALVES)]


def loss(x, w, **options):
    f = over_model(
        lambda v, w: lax.psum(jnp.tanh(v @ w), "model"), (COLUMNS, P("model")), P(), **options
    )
    return (f(x, w) ** 2).sum()


def loss_gradients():
    total = sum(PARTS)
    back = [2 * total * (1 - t**2) for t in PARTS]
    return (
        np.hstack([b @ W[4 * i : 4 * i + 4].T for i, b in enumerate(back)]),
        np.vstack([h.T @ b for h, b in zip(HALVES, back, strict=True)]),
    )


@pytest.mark.parametrize("check_vma", [True, False], ids=["typed", "untyped"])
@pytest.mark.parametrize("around", [lambda f: f, weft.checkpoint], ids=["plain", "remat"])
def test_gradients_agree_and_are_placed_as_their_arguments(around, check_vma):
    w = placed(W, "model")
    f = around(lambda x, w: loss(x, w, check_vma=check_vma))
    got = weft.jit(weft.grad(f, argnums=(0, 1)))(x, w)
    for g, want, type_ in zip(
        got, loss_gradients(), ("f32[16@data,8@model]", "f32[8@model,4]"), strict=True
    ):
        np.testing.assert_allclose(g, want, rtol=1e-4, atol=1e-4)
        assert str(weft.typeof(g)) == type_


def test_scalars_kept_for_the_derivative_leave_the_body():
    f = over_model(lambda v: lax.psum(jnp.sin(jnp.sin(v.sum())), "model"), out_specs=P())
    want = np.hstack([np.full_like(h, np.cos(np.sin(h.sum())) * np.cos(h.sum())) for h in HALVES])
    np.testing.assert_allclose(weft.grad(f)(x), want, rtol=1e-3)


def scanned(x):
    def step(c, k):
        return jnp.sin(c) * k, lax.psum(c.sum(0), "model")

    return over_model(lambda v: lax.scan(step, v, np.arange(1.0, 4.0, dtype=np.float32))[0])(x)


def scan_reference(y):
    derivative = np.ones_like(y)
    for k in (1.0, 2.0, 3.0):
        derivative = derivative * np.cos(y) * k
        y = np.sin(y) * k
    return y, derivative


def test_a_scan_inside_has_values_and_derivatives():
    value, derivative = scan_reference(X)
    np.testing.assert_allclose(scanned(x), value, rtol=1e-4, atol=1e-5)
    gradient = weft.jit(weft.grad(lambda x: weft.checkpoint(scanned)(x).sum()))(x)
    np.testing.assert_allclose(gradient, derivative, rtol=1e-4, atol=1e-4)
    tangent = weft.jvp(scanned, (x,), (x,))[1]
    np.testing.assert_allclose(tangent, derivative * X, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", [("data", None, "model"), (None, "data", "model")])
def test_vmap_over_a_split_or_whole_dimension(spec):
    stack = np.stack([X, 2 * X, X - 1, X / 2])
    got = weft.vmap(scanned)(placed(stack, *spec))
    np.testing.assert_allclose(got, scan_reference(stack)[0], rtol=1e-4, atol=1e-4)
    kinds = ["".join(f"{n}@{a}," if a else f"{n}," for n, a in zip((4, 16, 8), spec, strict=True))]
    assert str(weft.typeof(got)) == f"f32[{kinds[0][:-1]}]"


def test_vmap_over_the_manual_axis():
    stack = np.stack([X, 2 * X])
    f = over_model(lambda v: v * 2, in_specs=P(), out_specs=P())
    got = weft.vmap(f)(placed(stack, "model", "data"))
    assert str(weft.typeof(got)) == "f32[2@model,16@data,8]"
    np.testing.assert_array_equal(got, 2 * stack)


def test_one_inside_another_takes_the_axis_that_is_left():
    def nested(x):
        def inner(v):
            assert str(weft.typeof(v)) == "f32[4,4]{V:data,model}"
            return lax.psum(jnp.sin(v), "data")

        def outer(v):
            assert str(weft.typeof(v)) == "f32[16@data,4]{V:model}"
            return weft.shard_map(inner, in_specs=P("data"), out_specs=P(), axis_names={"data"})(v)

        specs = {"in_specs": COLUMNS, "out_specs": COLUMNS}
        return weft.shard_map(outer, axis_names={"model"}, **specs)(x)

    with weft.set_mesh(MESH):
        result, gradient = nested(x), weft.grad(lambda x: nested(x).sum())(x)
    np.testing.assert_allclose(result, np.sin(X).reshape(4, 4, 8).sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, np.cos(X), rtol=1e-5)


def test_axes_of_three_types_stay_apart():
    mesh = weft.make_mesh(
        (2, 2, 2), ("e", "m", "a"), (AxisType.Explicit, AxisType.Explicit, AxisType.Auto)
    )
    given = weft.device_put(X, NamedSharding(mesh, P("e", ("m", "a"))))
    seen = []

    def body(v):
        seen.append(str(weft.typeof(v)))
        return jnp.sin(v)

    f = weft.shard_map(
        body, mesh=mesh, in_specs=P(None, "m"), out_specs=P(None, "m"), axis_names={"m"}
    )
    out = f(given)
    assert seen == ["f32[16@e,4]{V:m}"]
    assert str(weft.typeof(out)) == "f32[16@e,8@m]"
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)


# Errors ---------------------------------------------------------------------------------------


def test_shards_that_an_explicit_axis_cannot_split_are_an_error():
    f = over_model(lambda v: v, in_specs=P("model"), out_specs=P("model"))
    with pytest.raises(ValueError, match=r"argument v .*leaves 2 of dimension 0.*'data'.*reshard"):
        f(placed(np.ones((4, 8), np.float32), "data"))


def test_collectives_that_leave_less_than_an_axis_splits_are_an_error():
    f = over_model(
        lambda v: lax.psum_scatter(v, "model", scatter_dimension=0, tiled=True),
        out_specs=P("model"),
    )
    with pytest.raises(ShardingTypeError, match=r"psum_scatter.*size 2.*'data'.*4 parts.*reshard"):
        f(placed(np.ones((4, 8), np.float32), "data", "model"))


def test_manual_axes_are_no_target_of_reshard_inside():
    with pytest.raises(ValueError, match=r"'model', which is Manual"):
        over_model(lambda v: weft.reshard(v, COLUMNS))(x)


# Arguments of a program over all axes of an explicit mesh ---------------------------------------

ARGUMENTS = {
    "numpy": lambda: X,
    "unplaced": lambda: jnp.asarray(X),
    "whole": lambda: placed(X),
    "rows": lambda: placed(X, "data"),
    "both": lambda: x,
    "rows over both": lambda: placed(X, ("data", "model")),
}
HAVE = dict(
    zip(
        ARGUMENTS, (P(), P(), P(), P("data"), P("data", "model"), P(("data", "model"))), strict=True
    )
)


@pytest.mark.parametrize("around", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("spec", [P(), P("data"), P("data", None), P("data", "model")], ids=repr)
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments_must_be_split_as_the_specs_say(kind, spec, around):
    f = around(weft.shard_map(lambda v: v * 2, mesh=MESH, in_specs=spec, out_specs=spec))
    if HAVE[kind].padded(2) == spec.padded(2):
        np.testing.assert_array_equal(f(ARGUMENTS[kind]()), 2 * X)
        return
    with pytest.raises(ValueError, match=r"argument v of type .*P\(.*in_specs is P\(.*reshard"):
        f(ARGUMENTS[kind]())


def test_the_error_names_the_argument_its_sharding_and_the_fix_that_works():
    f = weft.shard_map(lambda p: p["w"] * 2, mesh=MESH, in_specs=P("data"), out_specs=P("data"))
    want = (
        r"shard_map of <lambda>: argument p\['w'\] of type f32\[16,8@model\] has the explicit "
        r"sharding P\(None, 'model'\), but its in_specs is P\('data',\).*weft.reshard\(x, "
    )
    with pytest.raises(
        ValueError, match=want + r"weft.sharding.NamedSharding\(mesh, P\('data',\)\)"
    ):
        f({"w": placed(X, None, "model")})
    with weft.set_mesh(MESH):
        with pytest.raises(ValueError, match=want + r"P\('data',\)\)"):
            f({"w": placed(X, None, "model")})
        np.testing.assert_array_equal(f({"w": weft.reshard(X, P("data"))}), 2 * X)


def test_arguments_split_along_axes_of_size_one_keep_them():
    mesh = weft.make_mesh((4, 1), ("data", "model"))
    f = weft.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    with pytest.raises(ValueError, match=r"f32\[16@data,8@model\].*in_specs is P\('data',\)"):
        f(weft.device_put(X, NamedSharding(mesh, P("data", "model"))))


MIXED = {
    "auto axes": (AxisType.Auto, AxisType.Auto),
    "an explicit and an auto axis": (AxisType.Explicit, AxisType.Auto),
}


@pytest.mark.parametrize("types", MIXED.values(), ids=MIXED)
def test_axes_shared_with_the_partitioner_place_arguments(types):
    mesh = weft.make_mesh((4, 2), ("data", "model"), axis_types=types)
    f = weft.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    for given in (X, weft.device_put(X, NamedSharding(mesh, P("model")))):
        np.testing.assert_array_equal(f(given), 2 * X)


def test_a_program_over_some_explicit_axes_places_its_arguments():
    np.testing.assert_array_equal(over_model(lambda v: v * 2)(placed(X, "data")), 2 * X)


def test_results_of_explicit_programs_fit_the_next():
    f = weft.shard_map(lambda v: v * 2, mesh=MESH, out_specs=P("data", "model"))
    gradient = weft.jit(weft.grad(lambda x: (f(f(x)) ** 2).sum()))(x)
    np.testing.assert_array_equal(gradient, 32 * X)
    assert str(weft.typeof(gradient)) == "f32[16@data,8@model]"


@pytest.mark.parametrize("kind", ["numpy", "unplaced", "whole"])
def test_arguments_without_a_split_are_given_whole_where_in_specs_are_left_out(kind):
    f = weft.shard_map(lambda v: lax.pcast(v, "data", to="varying"), mesh=MESH, out_specs=P("data"))
    np.testing.assert_array_equal(f(ARGUMENTS[kind]()), np.tile(X, (4, 1)))


@pytest.mark.parametrize("types", MIXED.values(), ids=MIXED)
def test_in_specs_cannot_be_left_out_over_auto_axes(types):
    mesh = weft.make_mesh((4, 2), ("data", "model"), axis_types=types)
    f = weft.shard_map(lambda v: v * 2, mesh=mesh, out_specs=P("data", "model"))
    with pytest.raises(
        TypeError, match=r"shard_map of <lambda>: in_specs .*'model'.* is Auto; give"
    ):
        f(weft.device_put(X, NamedSharding(mesh, P("data"))))
    if AxisType.Explicit in types:
        g = weft.shard_map(lambda v: v * 2, mesh=mesh, out_specs=P("data"), axis_names={"data"})
        np.testing.assert_array_equal(g(weft.device_put(X, NamedSharding(mesh, P("data")))), 2 * X)
