"""reshard, out_sharding=, auto and explicit regions, and explicit types under transformations."""

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.errors import ShardingTypeError
from weft.sharding import AbstractMesh, AxisType, NamedSharding, auto_axes, explicit_axes

MESH = weft.make_mesh((4, 2), ("x", "y"))
LINE = weft.make_mesh((8,), ("z",))
AUTO = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
MIXED = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
RNG = np.random.default_rng(1)
A = RNG.standard_normal((8, 8)).astype(np.float32)
ROWS = np.arange(8)[:, None]
B = RNG.standard_normal((8, 4)).astype(np.float32)


def put(value, *spec, mesh=MESH):
    return weft.device_put(value, NamedSharding(mesh, P(*spec)))


def type_of(x):
    return str(weft.typeof(x))


def check(out, spec, wanted, mesh=MESH):
    """Type, placement and values of a result."""
    assert out.sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), out.ndim)
    assert weft.typeof(out).sharding.spec == P(*spec).padded(out.ndim)
    np.testing.assert_allclose(np.asarray(out), wanted, rtol=2e-4, atol=1e-5)


# reshard ----------------------------------------------------------------------------------------


def test_reshard_moves_an_array():
    check(weft.reshard(put(A, "x"), NamedSharding(MESH, P("y", "x"))), ("y", "x"), A)


def test_reshard_of_a_traced_value_changes_its_type():
    f = weft.jit(lambda x: weft.reshard(x * 2, P(None, "x")) + 1)
    x = put(A, "x")
    check(f(x), (None, "x"), A * 2 + 1)
    assert "f32[8,8@x] = reshard" in str(weft.make_jaxpr(f)(x))
    assert 'sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]>' in f.lower(x).as_text()


def test_reshard_to_the_type_a_value_has_is_nothing():
    x = put(A, "x")
    assert "reshard" not in str(weft.make_jaxpr(lambda x: weft.reshard(x, P("x", None)))(x))


def test_reshard_takes_pytrees_and_the_mesh_in_context():
    with weft.set_mesh(MESH):
        out = weft.reshard({"a": A, "b": [B]}, {"a": P("x"), "b": P(None, "y")})
    check(out["a"], ("x",), A)
    check(out["b"][0], (None, "y"), B)


def test_reshard_gives_a_type_to_values_made_inside():
    f = weft.jit(lambda x: weft.reshard(wnp.zeros((8, 8)), P("x")) + x)
    with weft.set_mesh(MESH):
        check(f(put(A, "x")), ("x",), A)


@pytest.mark.parametrize(
    "place",
    [
        lambda x: weft.reshard(x, NamedSharding(AUTO, P("y"))),
        weft.jit(lambda x: weft.reshard(x, NamedSharding(AUTO, P("y")))),
        lambda x: wnp.dot(x, x, out_sharding=NamedSharding(AUTO, P("y"))),
    ],
)
def test_auto_axes_are_left_to_constraints(place):
    with pytest.raises(ValueError, match=r"'y'.*Auto.*with_sharding_constraint\(x, P\('y',\)\)"):
        place(put(A, "x", mesh=AUTO))


def test_a_spec_is_over_the_mesh_in_context_and_an_arrays_own_methods_over_its_own():
    rows = put(A, "x")
    with weft.set_mesh(LINE):
        assert weft.reshard(rows, P("z")).sharding.mesh == LINE
        np.testing.assert_array_equal([np.asarray(r) for r in rows], A)
    assert weft.reshard(rows, P("y")).sharding.mesh == MESH


def test_specs_of_what_is_placed_over_explicit_axes_have_an_entry_for_each_dimension():
    with weft.set_mesh(MESH):
        x = put(A, "x")
        for out in (
            weft.reshard(x, P("y")),
            weft.jit(lambda v: weft.reshard(v, P("y")))(x),
            wnp.zeros((8, 4), out_sharding=P("y")),
            wnp.einsum("ij,kj->ik", x, x, out_sharding=P("y")),
        ):
            assert out.sharding.spec == weft.typeof(out).sharding.spec == P("y", None)


def test_reshard_takes_entries_of_none_past_the_last_dimension():
    x = put(A, "x")
    assert weft.typeof(weft.reshard(x, P(None, "y", None, None))).sharding.spec == P(None, "y")
    product = weft.jit(lambda v: wnp.dot(v, v.T, out_sharding=P("x", None, None)))(x)
    assert product.sharding.spec == P("x", None)


def test_an_array_is_not_placed_by_more_entries_than_dimensions():
    replicated = weft.reshard(put(A, "x"), P())
    with pytest.raises(ValueError, match="3 entries.*2 dimensions"):
        weft.device_put(replicated, NamedSharding(MESH, P(None, None, "x")))


def test_results_of_jit_are_split_by_axes_or_left_to_the_partitioner():
    open_dim = NamedSharding(AUTO, P(P.UNCONSTRAINED))
    for which in ("in_shardings", "out_shardings"):
        with pytest.raises(ValueError, match=f"{which} of .*UNCONSTRAINED.*use None or axis"):
            weft.jit(lambda v: v, **{which: open_dim})(A)


def test_reshard_to_no_axis_of_an_auto_mesh_replicates():
    out = weft.reshard(put(A, "x", mesh=AUTO), NamedSharding(AUTO, P()))
    assert out.sharding.is_fully_replicated


CUBE = AbstractMesh((2, 2, 2), ("a", "b", "c"), (AxisType.Explicit,) * 3)


def test_reshard_moves_to_a_mesh_of_another_shape():
    x = put(A, "x", "y")
    for move in (lambda x: weft.reshard(x, NamedSharding(LINE, P(None, "z"))),):
        for f in (move, weft.jit(move)):
            out = f(x)
            check(out, (None, "z"), A, LINE)
            assert out.sharding.mesh == LINE


def test_a_result_asked_over_another_mesh_names_that_mesh():
    out = weft.jit(lambda x: x + 1, out_shardings=NamedSharding(LINE, P("z")))(put(A, "x"))
    assert out.sharding == NamedSharding(LINE, P("z"))


def test_a_step_of_its_own_results_is_compiled_once(monkeypatch):
    from weft.driver import program

    compiled = []
    original = program.compile_module
    monkeypatch.setattr(
        program, "compile_module", lambda *a, **k: compiled.append(a) or original(*a, **k)
    )
    step = weft.jit(lambda x: x * 2 + 1)
    x = put(A, "x")
    for _ in range(3):
        x = step(x)
    assert len(compiled) == 1


def test_a_program_computes_over_one_mesh_and_then_another():
    def f(x):
        with weft.sharding.use_abstract_mesh(CUBE):
            y = weft.reshard(x, P(("b", "c"), "a")) * 2
            assert type_of(y) == "f32[8@b+c,8@a]"
            y = y.sum(1)
        return weft.reshard(y, P("y"))

    with weft.set_mesh(MESH):
        check(weft.jit(f)(put(A, "x")), ("y",), 2 * A.sum(1))
        text = weft.jit(f).lower(put(A, "x")).as_text()
        gradient = weft.jit(weft.grad(lambda x: (f(x) ** 2).sum()))(put(A, "x"))
    assert 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>' in text
    check(gradient, ("x",), np.broadcast_to(8 * A.sum(1, keepdims=True), A.shape))


def test_meshes_whose_axes_overlap_in_part_are_refused_in_one_program():
    odd = weft.make_mesh((2, 3), ("p", "q"), devices=weft.devices()[:6])
    even = weft.make_mesh((3, 2), ("r", "s"), devices=weft.devices()[:6])
    x = weft.device_put(np.ones((6, 6)), NamedSharding(odd, P("p")))
    with pytest.raises(ValueError, match="no products of the other's"):
        weft.jit(lambda x: weft.reshard(x, NamedSharding(even, P("r"))))(x)


def test_arrays_over_a_mesh_of_one_device_stay_over_it():
    one = weft.make_mesh((1, 1), ("x", "y"))
    auto = weft.make_mesh((1,), ("x",), (AxisType.Auto,))
    x = put(A, "x", "y", mesh=one)
    assert type_of(x + x) == type_of(weft.jit(wnp.sin)(x)) == "f32[8@x,8@y]"
    assert type_of(x.sum(1)) == "f32[8@x]"
    y = put(A, "x", mesh=auto)
    for out in (y + y, wnp.sin(y), weft.jit(lambda y: y * 2)(y), y[2], y.at[0].set(1.0)):
        assert out.sharding.mesh == auto
    with weft.set_mesh(auto):
        assert weft.jit(lambda: wnp.ones(3))().sharding.mesh == auto
    asked = weft.jit(lambda y: y, out_shardings=NamedSharding(auto, P(None, "x")))(y.copy())
    assert asked.sharding.spec == P(None, "x")
    donated = put(A, "x", mesh=auto)
    assert weft.jit(lambda y: y + 1, donate_argnums=0)(donated).sharding.mesh == auto
    assert donated.is_deleted()


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        (P("z"), ValueError, "uses axis 'z', which the mesh does not have"),
        (P(None, None, "x"), ValueError, "3 entries.*2 dimensions"),
        (P("x", P.UNCONSTRAINED), ValueError, "UNCONSTRAINED"),
        (3, TypeError, "sharding or a PartitionSpec"),
        (None, TypeError, "sharding or a PartitionSpec"),
    ],
)
def test_reshard_says_what_is_wrong_with_its_target(target, error, text):
    with pytest.raises(error, match=f"(?s){text}"):
        weft.reshard(put(A, "x"), target)


def test_reshard_of_sizes_that_do_not_divide():
    with pytest.raises(ValueError, match="6 is not divisible by 4"):
        weft.jit(lambda x: weft.reshard(x, NamedSharding(MESH, P("x"))))(A[:6])


def test_reshard_without_a_mesh():
    with pytest.raises(ValueError, match="no mesh is in context; call weft.set_mesh"):
        weft.reshard(A, P("x"))
    other = AbstractMesh((7,), ("q",), (AxisType.Explicit,))
    with pytest.raises(ValueError, match="has no devices.*weft.set_mesh"):
        weft.reshard(A, NamedSharding(other, P()))


# out_sharding= ----------------------------------------------------------------------------------

OUT = [
    ("dot", lambda x, y: wnp.dot(x, y, out_sharding=P("x")), np.dot),
    ("matmul", lambda x, y: wnp.matmul(x, y, out_sharding=P("x")), np.matmul),
    ("einsum", lambda x, y: wnp.einsum("ij,jk->ik", x, y, out_sharding=P("x")), np.dot),
]


@pytest.mark.parametrize("case", OUT, ids=[row[0] for row in OUT])
def test_out_sharding_settles_an_ambiguous_product(case):
    _, op, reference = case
    x, y = put(A, None, "y"), put(B, "y")
    with pytest.raises(ShardingTypeError, match="out_sharding"):
        x @ y
    check(weft.jit(op)(x, y), ("x",), reference(A, B))


def test_out_sharding_of_a_reshape():
    x = put(A, None, "y")
    with pytest.raises(ShardingTypeError, match="out_sharding"):
        lax.reshape(x, (64,))
    check(lax.reshape(x, (64,), out_sharding=P("y")), ("y",), A.reshape(64))
    check(wnp.reshape(x, (4, 16), out_sharding=P(None, "x")), (None, "x"), A.reshape(4, 16))


def test_out_sharding_of_indexing():
    x = put(A, "x")
    index = np.array([3, 1, 2, 0])
    with pytest.raises(ShardingTypeError, match="out_sharding"):
        x[index]
    check(x.at[index].get(out_sharding=P(None, "y")), (None, "y"), A[index])
    wanted = A.copy()
    wanted[0] = 1
    check(x.at[0].set(1.0, out_sharding=P("x")), ("x",), wanted)


def test_out_sharding_of_creation():
    with weft.set_mesh(MESH):
        check(wnp.zeros((8, 4), out_sharding=P("x")), ("x",), np.zeros((8, 4)))
        made = weft.jit(lambda: lax.broadcasted_iota(np.float32, (8, 4), 0, out_sharding=P("y")))()
    check(made, ("y",), np.broadcast_to(np.arange(8.0)[:, None], (8, 4)))


def test_out_sharding_under_grad():
    def loss(x, y):
        return (wnp.dot(x, y, out_sharding=P("x")) ** 2).sum()

    x, y = put(A, None, "y"), put(B, "y")
    gx, gy = weft.jit(weft.grad(loss, (0, 1)))(x, y)
    check(gx, (None, "y"), 2 * A @ B @ B.T)
    check(gy, ("y",), 2 * A.T @ A @ B)


# Regions ----------------------------------------------------------------------------------------


def test_auto_axes_leaves_placement_to_the_partitioner():
    seen = []

    def product(a):
        seen.append(type_of(a))
        return a @ a.T

    x = put(A, "x", "y")
    f = auto_axes(product, out_sharding=P("x"))
    check(weft.jit(f)(x), ("x",), A @ A.T)
    check(f(x), ("x",), A @ A.T)
    check(auto_axes(product)(x, out_sharding=NamedSharding(MESH, P("y"))), ("y",), A @ A.T)
    assert set(seen) == {"f32[8,8]"}


def test_auto_axes_of_some_axes_keeps_the_others_in_types():
    def body(a):
        assert type_of(a) == "f32[8@x,8]"
        return a * 2

    f = auto_axes(body, axes="y", out_sharding=P("x", "y"))
    check(weft.jit(f)(put(A, "x", "y")), ("x", "y"), A * 2)
    check(f(put(A, "x", "y")), ("x", "y"), A * 2)


def test_auto_axes_is_differentiable_and_batches():
    f = auto_axes(lambda a: wnp.sin(a), out_sharding=P("x"))
    g = weft.jit(weft.grad(lambda x: (f(x) ** 2).sum()))
    check(g(put(A, "x", "y")), ("x", "y"), 2 * np.sin(A) * np.cos(A))
    h = weft.vmap(auto_axes(lambda a: wnp.cumsum(a), out_sharding=P("y")))
    check(weft.jit(h)(put(A, "x")), ("x", "y"), np.cumsum(A, 1))


def test_explicit_axes_shows_shardings_inside():
    def body(a):
        assert type_of(a) == "f32[8@x,8]"
        return a.T * 2

    f = explicit_axes(body, in_sharding=P("x"))
    with weft.set_mesh(AUTO):
        out = weft.jit(f)(put(A, mesh=AUTO))
        np.testing.assert_allclose(np.asarray(f(put(A, mesh=AUTO))), A.T * 2)
    assert out.sharding.is_equivalent_to(NamedSharding(AUTO, P(None, "x")), 2)
    np.testing.assert_allclose(np.asarray(out), A.T * 2)


def test_regions_say_what_is_missing():
    x = put(A, "x")
    with pytest.raises(TypeError, match="out_sharding is missing"):
        auto_axes(lambda a: a)(x)
    with pytest.raises(TypeError, match="in_sharding is missing"):
        explicit_axes(lambda a: a)(x)
    with pytest.raises(ValueError, match="no mesh is in context"):
        explicit_axes(lambda a: a, in_sharding=P("x"))(A)
    with pytest.raises(ValueError, match="'q' is not an axis of the mesh"):
        auto_axes(lambda a: a, axes="q", out_sharding=P("x"))(x)
    other = weft.make_mesh((8,), ("x",))
    with weft.set_mesh(other), pytest.raises(ValueError, match="use one mesh"):
        auto_axes(lambda a: a, out_sharding=NamedSharding(MESH, P("x")))(x)


# Mixed meshes -----------------------------------------------------------------------------------


def test_auto_axes_of_a_mixed_mesh_stay_open():
    x = put(A, "x", "y", mesh=MIXED)
    assert type_of(x) == "f32[8@x,8]"
    f = weft.jit(lambda x: wnp.sin(x) * 2)
    assert (
        'stablehlo.sine %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", ?}, {?}]>]>}'
        in (f.lower(x).as_text())
    )
    out = f(x)
    assert type_of(out) == "f32[8@x,8]"
    assert out.sharding.is_equivalent_to(NamedSharding(MIXED, P("x", "y")), 2)
    np.testing.assert_allclose(np.asarray(out), 2 * np.sin(A), rtol=1e-5)


def test_explicit_axes_of_a_mixed_mesh_are_fixed():
    f = weft.jit(lambda x: weft.reshard(x, P(None, "x")).sum(0))
    out = f(put(A, "x", "y", mesh=MIXED))
    assert type_of(out) == "f32[8@x]"
    np.testing.assert_allclose(np.asarray(out), A.sum(0), rtol=1e-4)


# Transformations --------------------------------------------------------------------------------


def test_cotangents_are_placed_as_their_primals():
    def loss(w, x, b):
        return (wnp.tanh(x @ w + b) ** 2).mean()

    w, x, b = put(B, None, "y"), put(A, "x"), put(B[0], "y")
    t = np.tanh(A @ B + B[0])
    d = 2 * t * (1 - t**2) / t.size
    for run in (lambda f: f, weft.jit):
        gw, gx, gb = run(weft.grad(loss, (0, 1, 2)))(w, x, b)
        check(gw, (None, "y"), A.T @ d)
        check(gx, ("x",), d @ B.T)
        check(gb, ("y",), d.sum(0))


def test_cotangents_of_ops_whose_transposes_are_ambiguous():
    x = put(A, "x", "y")
    cases = [
        (lambda x: (x.reshape(8, 2, 4) ** 2).sum(), 2 * A),
        (lambda x: (x[2:6] ** 2).sum(), np.where((ROWS > 1) & (ROWS < 6), 2 * A, 0)),
        (lambda x: (wnp.concatenate([x, x]) ** 2).sum(), 4 * A),
        (lambda x: wnp.max(x), np.where(A.max() == A, 1, 0)),
    ]
    for f, wanted in cases:
        check(weft.jit(weft.grad(f))(x), ("x", "y"), wanted)


def test_jvp_linearize_and_second_order():
    x = put(A, "x", "y")
    out, tangent = weft.jvp(wnp.sin, (x,), (x,))
    check(tangent, ("x", "y"), np.cos(A) * A)
    check(weft.linearize(wnp.sin, x)[1](x), ("x", "y"), np.cos(A) * A)
    v = put(A[0], "x")
    hessian = weft.jit(weft.hessian(lambda v: (v**3).sum()))(v)
    np.testing.assert_allclose(np.asarray(hessian), np.diag(6 * A[0]), rtol=1e-4, atol=1e-5)


def test_vmap_keeps_the_mapped_dimension_split():
    check(
        weft.vmap(lambda a: a * 2 + a.sum())(put(A, "x")), ("x",), A * 2 + A.sum(1, keepdims=True)
    )
    check(weft.vmap(lambda a: a.sum(), in_axes=1)(put(A, "x", "y")), ("y",), A.sum(0))
    f = weft.vmap(lambda a, w: weft.reshard(a @ w, P("y")), in_axes=(0, None))
    check(weft.jit(f)(put(A, "x"), put(B)), ("x", "y"), A @ B)


def test_vmap_of_scan_and_jit_over_a_split_dimension():
    def scanned(x):
        return lax.scan(lambda c, a: (c + a, c * a), x[0], x)

    x = RNG.standard_normal((8, 3, 4)).astype(np.float32)
    carry, ys = weft.jit(weft.vmap(weft.jit(scanned)))(put(x, "x", None, "y"))
    check(carry, ("x", "y"), x[:, 0] + x.sum(1))
    assert type_of(ys) == "f32[8@x,3,4@y]"


def test_vmap_arguments_must_be_split_alike():
    with pytest.raises(ValueError, match="must agree.*weft.reshard"):
        weft.vmap(lambda a, b: a + b)(put(A, "x"), put(A, "y"))
    with pytest.raises(ValueError, match="must agree.*spmd_axis_name"):
        weft.vmap(lambda a: a, spmd_axis_name="y")(put(A, "x"))


def test_control_flow_carries_shardings():
    x = put(A, "x", "y")
    check(weft.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x))(x), ("x", "y"), A * 8)
    f = weft.jit(lambda p, x: lax.cond(p, lambda x: x * 2, lambda x: x + 1, x))
    check(f(False, x), ("x", "y"), A + 1)
    rows = put(A, None, "y")
    total, ys = weft.jit(lambda x: lax.scan(lambda c, a: (c + a.sum(), a * 2), 0.0, x))(rows)
    check(ys, (None, "y"), A * 2)
    np.testing.assert_allclose(total, A.sum(), rtol=1e-4)


def test_grad_of_scan():
    def loss(x):
        return lax.scan(lambda c, a: (c * a + 1, None), x[0], x)[0].sum()

    def reference(x):
        c = x[0]
        for a in x:
            c = c * a + 1
        return c.sum()

    got = weft.jit(weft.grad(loss))(put(A, None, "y"))
    x = A.astype(np.float64)
    step = 1e-5
    for i, j in [(0, 0), (3, 5), (7, 7)]:
        e = np.zeros_like(x)
        e[i, j] = step
        slope = (reference(x + e) - reference(x - e)) / (2 * step)
        np.testing.assert_allclose(np.asarray(got)[i, j], slope, rtol=1e-3, atol=1e-4)
    assert type_of(got) == "f32[8,8@y]"


def test_a_carry_of_another_sharding_is_refused_with_the_fix():
    x = put(A, None, "y")
    with pytest.raises(
        TypeError, match=r"(?s)expected f32\[8\].*f32\[8@y\].*weft.reshard\(x, weft.P"
    ):
        lax.scan(lambda c, a: (c + a, None), wnp.zeros(8), x)
    with pytest.raises(TypeError, match=r"(?s)branches must return the same types.*weft.reshard"):
        lax.cond(True, lambda x: x.sum(0), lambda x: wnp.zeros(8), x)


def test_nested_jit_places_arguments_and_results():
    inner = weft.jit(lambda x: x * 2, out_shardings=NamedSharding(MESH, P("y")))
    text = str(weft.make_jaxpr(lambda x: inner(x) + 1)(put(A, "x")))
    assert "f32[8@y,8] = jit" in text
    check(weft.jit(lambda x: inner(x) + 1)(put(A, "x")), ("y",), A * 2 + 1)
    outer = weft.jit(lambda x: x.T, in_shardings=NamedSharding(MESH, P("x")))
    check(outer(A), (None, "x"), A.T)


def test_checkpoint_and_custom_rules_keep_shardings():
    x = put(A, "x", "y")
    g = weft.jit(weft.grad(weft.checkpoint(lambda x: wnp.sin(x * 2).sum())))
    check(g(x), ("x", "y"), 2 * np.cos(2 * A))

    @weft.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 3,))
    check(weft.jit(weft.grad(lambda x: double(x).sum()))(x), ("x", "y"), np.full_like(A, 3))


def test_random_keys_have_shardings():
    keys = weft.device_put(weft.random.split(weft.random.key(0), 8), NamedSharding(MESH, P("x")))
    f = weft.vmap(lambda k: weft.random.normal(k, (4,)))
    out = weft.jit(f)(keys)
    check(out, ("x",), np.asarray(f(weft.random.split(weft.random.key(0), 8))))
    assert type_of(weft.jit(lambda k: k[2:6])(keys)).endswith("[4@x]")


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
def test_both_partitioners_hold_the_types(partitioner):
    def step(w, x):
        h = wnp.maximum(x @ w, 0)
        return weft.reshard(h, P("x", None)).sum(0)

    f = weft.jit(step, partitioner=partitioner)
    check(f(put(B, None, "y"), put(A, "x")), (), np.maximum(A @ B, 0).sum(0))


# Partial sums -------------------------------------------------------------------------------------


def test_unreduced_results_are_partial_sums_until_they_are_added_up():
    x, y = put(A, "x", "y"), put(B, "y")
    f = weft.jit(lambda x, y: wnp.dot(x, y, out_sharding=P("x", None, unreduced={"y"})))
    partial = f(x, y)
    assert type_of(partial) == "f32[8@x,4]{U:y}"
    assert "all-reduce" not in f.lower(x, y).compile().as_text()
    check(weft.reshard(partial, P("x")), ("x",), A @ B)
    check(weft.reshard(partial + partial, P("x")), ("x",), 2 * A @ B)
    with pytest.raises(ShardingTypeError, match="partial sum.*not additive.*weft.reshard"):
        partial * partial
    with pytest.raises(ValueError, match="partial sum.*weft.reshard"):
        np.asarray(partial)


def test_partial_sums_inside_a_program():
    def loss(x, y):
        partial = wnp.dot(x, y, out_sharding=P("x", None, unreduced={"y"}))
        return weft.reshard(partial, P("x")).sum()

    g = weft.jit(weft.grad(loss))(put(A, "x", "y"), put(B, "y"))
    check(g, ("x", "y"), np.ones((8, 4)) @ B.T)
    eager = wnp.dot(put(A, "x", "y"), put(B, "y"), out_sharding=P("x", None, unreduced={"y"}))
    check(weft.reshard(eager, P("x")), ("x",), A @ B)


# Types that come from a description or an example ----------------------------------------------


def test_a_described_array_has_its_explicit_type_in_traces():
    split = NamedSharding(MESH, P("x", "y"))
    given = weft.ShapeDtypeStruct((8, 4), np.float32, sharding=split)
    assert str(weft.make_jaxpr(lambda v: v * 2)(given).out_avals[0]) == "f32[8@x,4@y]"
    assert weft.eval_shape(lambda v: v.T, given).sharding.spec == P("y", "x")
    assert weft.jit(lambda v: v.T).lower(given).out_info.sharding.spec == P("y", "x")


def test_a_described_arrays_spec_is_over_the_mesh_in_context():
    given = weft.ShapeDtypeStruct((8, 4), np.float32, sharding=P("x"))
    with weft.set_mesh(MESH):
        assert given.sharding == NamedSharding(MESH, P("x"))
        assert str(weft.make_jaxpr(wnp.sin)(given).out_avals[0]) == "f32[8@x,4]"
    with pytest.raises(ValueError, match=r"ShapeDtypeStruct: P\('x',\).*set_mesh"):
        given.sharding  # noqa: B018


LIKE = {
    "zeros_like": wnp.zeros_like,
    "ones_like": wnp.ones_like,
    "full_like": lambda v: wnp.full_like(v, 3),
    "lax.full_like": lambda v: weft.lax.full_like(v, 3),
}


@pytest.mark.parametrize("name", LIKE)
def test_filled_arrays_stand_where_their_example_does(name):
    auto = MESH.update(axis_types=(AxisType.Auto,) * 2)
    for mesh in (MESH, auto):
        x = weft.device_put(A, NamedSharding(mesh, P("x", "y")))
        assert LIKE[name](x).sharding == x.sharding
    alone = weft.device_put(A, weft.devices()[3])
    assert LIKE[name](alone).devices() == {weft.devices()[3]}
    assert not LIKE[name](wnp.asarray(A)).committed
    x = weft.device_put(A, NamedSharding(MESH, P("x", "y")))
    assert weft.typeof(weft.jit(LIKE[name])(x)) is weft.typeof(x)
    assert weft.typeof(weft.vmap(LIKE[name])(x)) is weft.typeof(x)


def test_filled_arrays_follow_their_example_among_meshes_that_differ_in_devices_only():
    devices = np.array(weft.devices()).reshape(4, 2)
    for order in (devices, devices[::-1]):
        mesh = weft.sharding.Mesh(order, ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
        x = weft.device_put(A, NamedSharding(mesh, P("x", "y")))
        for like in (wnp.ones_like, weft.vmap(wnp.ones_like), lambda v: lax.broadcast_like(1.0, v)):
            assert like(x).sharding.mesh is mesh


def test_an_example_of_another_shape_says_nothing_of_the_placement():
    x = weft.device_put(A, NamedSharding(MESH, P("x", "y")))
    assert wnp.zeros_like(x, shape=(5,)).sharding.num_devices == 1
    assert wnp.zeros_like(x, dtype=np.int32).sharding == x.sharding


# Values outside of programs ---------------------------------------------------------------------


def test_keys_split_under_a_mesh_in_context_are_taken_one_by_one():
    with weft.set_mesh(MESH):
        keys = weft.random.split(weft.random.key(3), 4)
        drawn = [np.asarray(weft.random.uniform(k, (2,))) for k in (keys[0], keys[3])]
    alone = weft.random.split(weft.random.key(3), 4)
    np.testing.assert_array_equal(drawn[0], weft.random.uniform(alone[0], (2,)))
    np.testing.assert_array_equal(drawn[1], weft.random.uniform(alone[3], (2,)))


def test_iterating_over_a_split_dimension_gives_rows_split_as_the_rest():
    rows = list(put(A, "x", "y"))
    assert len(rows) == 8
    check(rows[5], ("y",), A[5])


TRANSFORMED = {
    "the split dimension": (lambda x: wnp.fft.fft(x), np.fft.fft, (None, "x"), "c64[8,8@x]"),
    "another dimension": (
        lambda x: wnp.fft.fft(x, axis=0),
        lambda x: np.fft.fft(x, axis=0),
        (None, "x"),
        "c64[8,8@x]",
    ),
    "both": (lambda x: wnp.fft.ifft2(x), np.fft.ifft2, ("x", "y"), "c64[8@x,8@y]"),
    "half of a spectrum": (
        lambda x: wnp.fft.rfft(x, n=6),
        lambda x: np.fft.rfft(x, n=6),
        ("x",),
        "c64[8@x,4]",
    ),
    "back to reals": (
        lambda x: wnp.fft.irfft(x + 0j, n=6),
        lambda x: np.fft.irfft(x + 0j, n=6),
        (None, "y"),
        "f32[8,6@y]",
    ),
}


@pytest.mark.parametrize("kind", TRANSFORMED)
def test_fourier_transforms_split_their_result_as_their_operand(kind):
    f, reference, spec, wanted = TRANSFORMED[kind]
    x = put(A, *spec)
    out = weft.jit(f)(x)
    assert type_of(out) == wanted
    np.testing.assert_allclose(out, reference(A), rtol=1e-4, atol=1e-4)
    pullback = weft.vjp(f, x)[1]
    ct = weft.numpy.ones_like(out)
    assert type_of(pullback(ct)[0]) == type_of(x)
    t = weft.jvp(f, (x,), (x,))[1]
    np.testing.assert_allclose(
        np.real(np.sum(np.asarray(t))), np.sum(np.asarray(pullback(ct)[0]) * A), rtol=1e-3
    )


def test_a_spectrum_that_cannot_be_split_says_what_to_join():
    with pytest.raises(ShardingTypeError, match=r"fft of f32\[8,8@x\]: dimension 1.*weft.reshard"):
        weft.jit(wnp.fft.rfft)(put(A, None, "x"))
