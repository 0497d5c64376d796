"""with_sharding_constraint and device_put inside programs, in Shardy's and GSPMD's notation."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P
from weft.errors import ShardingTypeError
from weft.lax import with_sharding_constraint
from weft.sharding import AxisType, GSPMDSharding, NamedSharding, SingleDeviceSharding

AUTO = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
EXPLICIT = weft.make_mesh((4, 2), ("x", "y"))
MIXED = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
A = np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)


def put(*spec, mesh=AUTO):
    return weft.device_put(A, NamedSharding(mesh, P(*spec)))


def constrain(*spec, mesh=AUTO, **options):
    return lambda x: with_sharding_constraint(x * 2, NamedSharding(mesh, P(*spec)), **options)


def is_placed(x, *spec, mesh=AUTO):
    return x.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), x.ndim)


@pytest.mark.parametrize("spec", [("x",), (None, ("y", "x")), ("y", "x"), ()])
def test_a_value_is_placed_as_the_constraint_says(spec):
    out = weft.jit(constrain(*spec))(put("x", "y"))
    assert is_placed(out, *spec)
    np.testing.assert_array_equal(np.asarray(out), A * 2)


def test_the_constraint_stands_in_the_program():
    text = weft.jit(constrain("y", P.UNCONSTRAINED)).lower(put("x")).as_text()
    assert 'sdy.sharding_constraint %0 <@mesh, [{"y"}, {?}]>' in text


def test_priorities_rank_dimensions():
    text = weft.jit(constrain("y", "x", priorities={0: 1, 1: 0})).lower(put("x")).as_text()
    assert '<@mesh, [{"y"}p1, {"x"}p0]>' in text


def test_unconstrained_dimensions_follow_the_operands():
    out = weft.jit(constrain(P.UNCONSTRAINED, "y"))(put("x"))
    assert is_placed(out, "x", "y")


def test_the_mesh_in_context_serves_a_bare_spec():
    with weft.set_mesh(AUTO):
        out = weft.jit(lambda x: with_sharding_constraint({"a": x}, P("y")))(A)
    assert is_placed(out["a"], "y")


def test_eager_constraints_move_the_array():
    out = constrain("y")(put("x"))
    assert is_placed(out, "y")
    assert is_placed(constrain(P.UNCONSTRAINED, "y")(put("x")), "x", "y")


def test_a_sharding_of_another_kind_is_written_over_the_programs_mesh():
    named = NamedSharding(AUTO, P("y", "x"))
    other = GSPMDSharding(tuple(AUTO.devices.flat), named._to_xla_hlo_sharding(2))
    out = weft.jit(lambda x: with_sharding_constraint(x, other))(put("x"))
    assert is_placed(out, "y", "x")
    single = SingleDeviceSharding(weft.devices()[0])
    with pytest.raises(ValueError, match="cannot be written as a PartitionSpec"):
        weft.jit(lambda x: with_sharding_constraint(x, single))(put("x"))


@pytest.fixture
def gspmd():
    weft.config.update("use_shardy", False)
    yield
    weft.config.update("use_shardy", True)


def test_gspmd_notation(gspmd):
    lowered = weft.jit(lambda x: constrain("y", P.UNCONSTRAINED)(x)).lower(put("x"))
    assert "stablehlo.custom_call @Sharding" in lowered.as_text()
    assert 'backend_config = "unspecified_dims=[1]"' in lowered.as_text()
    out = weft.jit(lambda x: constrain("y")(x))(put("x"))
    assert is_placed(out, "y")
    np.testing.assert_array_equal(np.asarray(out), A * 2)


def test_batches_leave_their_dimension_open_or_to_the_given_axis():
    text = str(weft.make_jaxpr(weft.vmap(constrain("y")))(np.ones((4, 8, 8), np.float32)))
    assert "spec=P(UNCONSTRAINED, 'y')" in text
    named = weft.vmap(constrain("y"), spmd_axis_name="x")
    out = weft.jit(named)(np.stack([A] * 4))
    assert is_placed(out, "x", "y")
    with pytest.raises(ValueError, match="uses mesh axis 'y' twice"):
        weft.vmap(constrain("y"), spmd_axis_name="y")(np.stack([A] * 4))
    second = weft.vmap(constrain("y", None, priorities={1: 0}), in_axes=1, out_axes=1)
    text = str(weft.make_jaxpr(second)(np.ones((8, 4, 8), np.float32)))
    assert "priorities=((2, 0),)" in text and "spec=P('y', UNCONSTRAINED, None)" in text


def test_derivatives_are_constrained_alike():
    g = weft.jit(
        weft.grad(lambda x: (with_sharding_constraint(x, NamedSharding(AUTO, P("y"))) ** 2).sum())
    )
    out = g(put("x"))
    np.testing.assert_allclose(np.asarray(out), 2 * A, rtol=1e-6)
    text = str(weft.make_jaxpr(weft.jvp, static_argnums=0)(constrain("y"), (A,), (A,)))
    assert text.count("sharding_constraint[") == 2


def test_explicit_axes_are_checked_not_changed():
    x = put("x", mesh=EXPLICIT)
    f = weft.jit(lambda x: constrain("x", mesh=EXPLICIT)(x))
    assert "sharding_constraint" not in str(weft.make_jaxpr(f)(x))
    np.testing.assert_array_equal(np.asarray(f(x)), A * 2)
    with pytest.raises(ShardingTypeError, match="f32.8@x,8.*not placed by P..y...*weft.reshard"):
        constrain("y", mesh=EXPLICIT)(x)


def test_values_without_a_type_get_one():
    f = weft.jit(lambda x: constrain("x", mesh=EXPLICIT)(x))
    out = f(A)
    assert str(weft.typeof(out)) == "f32[8@x,8]"
    assert is_placed(out, "x", mesh=EXPLICIT)


def test_mixed_meshes_constrain_their_auto_axes():
    x = put("x", "y", mesh=MIXED)
    out = weft.jit(constrain("x", None, mesh=MIXED))(x)
    assert is_placed(out, "x", mesh=MIXED)
    assert is_placed(weft.jit(constrain("x", "y", mesh=MIXED))(x), "x", "y", mesh=MIXED)


@pytest.mark.parametrize("names", [{"x"}, {"x", "y"}])
def test_an_axis_that_is_manual_here_places_nothing(names):
    def body(x):
        return with_sharding_constraint(x, NamedSharding(AUTO, P("x")))

    f = weft.shard_map(body, mesh=AUTO, in_specs=P("x"), out_specs=P("x"), axis_names=names)
    with pytest.raises(ValueError, match="mesh axis 'x', which is Manual inside shard_map"):
        f(A)


def test_a_constraint_of_none_is_a_replicated_value():
    x = put("x", "y")
    with weft.set_mesh(AUTO):
        same, whole = weft.jit(lambda x: with_sharding_constraint((x, x), (P("x"), None)))(x)
    assert is_placed(same, "x") and is_placed(whole)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: with_sharding_constraint(x, "x"), TypeError, "a sharding or a PartitionSpec"),
        (lambda x: constrain(None, None, "x")(x), ValueError, "3 entries.*2 dimensions"),
        (lambda x: constrain("q")(x), ValueError, "the mesh does not have"),
    ],
)
def test_errors_say_what_to_give(call, error, text):
    with pytest.raises(error, match=text):
        weft.jit(call)(put("x"))


def test_a_bare_spec_needs_a_mesh():
    with pytest.raises(ValueError, match="no mesh is in context"):
        weft.jit(lambda x: with_sharding_constraint(x, P("x")))(A)


# device_put of traced values ---------------------------------------------------------------------


@pytest.mark.parametrize("mesh", [AUTO, EXPLICIT], ids=["auto", "explicit"])
def test_device_put_inside_a_program_places(mesh):
    f = weft.jit(lambda x: weft.device_put(x * 2, NamedSharding(mesh, P("y"))))
    out = f(put("x", mesh=mesh))
    assert is_placed(out, "y", mesh=mesh)
    np.testing.assert_array_equal(np.asarray(out), A * 2)
    g = weft.jit(weft.grad(lambda x: (weft.device_put(x, NamedSharding(mesh, P("y"))) ** 2).sum()))
    np.testing.assert_allclose(np.asarray(g(put("x", mesh=mesh))), 2 * A, rtol=1e-6)
    h = weft.jit(weft.vmap(lambda x: weft.device_put(x, NamedSharding(mesh, P("y")))))
    np.testing.assert_array_equal(np.asarray(h(np.stack([A, A]))), np.stack([A, A]))


def test_device_put_without_a_place_is_nothing():
    assert "device_put" not in str(weft.make_jaxpr(lambda x: weft.device_put(x) + 1)(A))


def square_elsewhere(place, **options):
    return lambda x: (weft.device_put(x, place, **options) ** 2).sum()


def test_gradients_go_back_to_where_the_value_was():
    x = weft.device_put(A, weft.devices()[2])
    for _ in range(2):
        g = weft.grad(square_elsewhere(weft.devices()[1]))(x)
        assert g.devices() == {weft.devices()[2]}
        np.testing.assert_allclose(x - g, -A, rtol=1e-6)
    g = weft.grad(square_elsewhere(NamedSharding(AUTO, P(None, "y"))))(put("x"))
    assert is_placed(g, "x")


def test_gradients_in_a_program_go_back_where_src_says():
    source = NamedSharding(AUTO, P("x"))
    f = square_elsewhere(NamedSharding(AUTO, P(None, "y")), src=source)
    g = weft.jit(weft.grad(f))(put("x"))
    assert is_placed(g, "x")
    np.testing.assert_allclose(g, 2 * A, rtol=1e-6)
    both = lambda d: sum(
        weft.device_put(d, put("y").sharding, src={"a": source, "b": None}).values()
    )
    out = weft.jit(weft.grad(lambda d: (both(d) ** 2).sum()))({"a": put("x"), "b": put("x")})
    np.testing.assert_allclose(out["a"], 4 * A, rtol=1e-6)
    assert is_placed(out["a"], "x")


def test_device_put_on_one_device_of_a_program_over_many():
    f = weft.jit(lambda x: weft.device_put(x, weft.devices()[0]) + 1)
    np.testing.assert_array_equal(np.asarray(f(A)), A + 1)
    with pytest.raises(ValueError, match="on all of them.*weft.reshard"):
        f(put("x"))


def test_device_put_checks_its_target():
    with pytest.raises(ValueError, match="UNCONSTRAINED"):
        weft.jit(lambda x: weft.device_put(x, NamedSharding(AUTO, P(P.UNCONSTRAINED))))(A)
    with pytest.raises(ValueError, match="not divisible"):
        weft.jit(lambda x: weft.device_put(x, NamedSharding(AUTO, P("x"))))(wnp.ones(6))


def _split_rows(x):
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.sharding.AxisType.Auto,) * 2)
    rows = weft.NamedSharding(mesh, weft.P("x", None))
    return weft.lax.with_sharding_constraint(x * 2, rows)


def test_constraints_that_do_not_divide_are_padded_and_named():
    x = np.arange(17 * 3, dtype=np.float32).reshape(17, 3)
    np.testing.assert_array_equal(weft.jit(_split_rows)(x), 2 * x)
    np.testing.assert_allclose(weft.jit(lambda x: _split_rows(x).sum(0))(x), 2 * x.sum(0))
    text = str(weft.comm(_split_rows, x))
    assert "padded: P('x', None) splits dimension 0 of f32[17,3]" in text and "4 parts of 5" in text
    assert "test_constraint.py" in text.split("padded")[1]
    assert "padded" not in str(weft.comm(_split_rows, x[:16]))


def test_constraints_that_do_not_divide_can_be_errors():
    x = np.ones((17, 3), np.float32)
    with weft.core.config.options["indivisible_constraints"]("error"):
        for run in (_split_rows, weft.jit(_split_rows)):
            with pytest.raises(weft.errors.IndivisibleError, match="size 17.*Pad the dimension to"):
                run(x)
        assert weft.jit(_split_rows)(x[:16]).shape == (16, 3)
