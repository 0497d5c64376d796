"""Explicit types of partial sums: reduced values have unreduced cotangents, added up when told."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.errors import ShardingTypeError

MESH = weft.make_mesh((4, 2), ("x", "y"))
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
W = np.linspace(0, 2, 16, dtype=np.float32).reshape(4, 4)
both = pytest.mark.parametrize("partitioner", ["weft", "xla"])


@pytest.fixture(autouse=True)
def _mesh():
    with weft.set_mesh(MESH):
        yield


def split(x):
    return weft.device_put(x, P("x"))


def reduced(w):
    return weft.reshard(wnp.asarray(w), P(reduced={"x"}))


def in_parts(x):
    return wnp.einsum("ij,ik->jk", x, x, out_sharding=P(unreduced={"x"}))


def value(x):
    return np.asarray(weft.reshard(x, P()))


def all_reduces(f, *args):
    return f.lower(*args).compile().as_text().count("all-reduce(")


LINEAR = {
    "add": lambda u: u + u,
    "neg": lambda u: -u,
    "scaled": lambda u: u * 3.0 / 2.0,
    "transpose": lambda u: u.T,
    "reshape": lambda u: u.reshape(2, 8),
    "sum": lambda u: u.sum(0),
    "slice": lambda u: u[:2],
    "reverse": lambda u: u[::-1],
    "concatenate": lambda u: wnp.concatenate([u, 2 * u]),
    "broadcast": lambda u: wnp.broadcast_to(u, (3, 4, 4)),
}


@both
@pytest.mark.parametrize("name", LINEAR)
def test_linear_ops_of_partial_sums_are_partial_sums_without_communication(name, partitioner):
    f = weft.jit(lambda x: LINEAR[name](in_parts(x)), partitioner=partitioner)
    out = f(split(X))
    assert "{U:x}" in str(weft.typeof(out))
    assert all_reduces(f, split(X)) == 0
    np.testing.assert_allclose(value(out), LINEAR[name](wnp.asarray(X.T @ X)), rtol=1e-5, atol=1e-5)


MASK = np.arange(16).reshape(4, 4) % 3 == 0
CORRECT = {
    "masked": lambda u: wnp.where(MASK, u, 0.0),
    "ones elsewhere": lambda u: wnp.where(MASK, u, 1.0),
    "one of two": lambda u: wnp.where(MASK, u, 3 * u),
    "padded": lambda u: wnp.pad(u, ((0, 0), (1, 1)), constant_values=7.0),
    "updated": lambda u: lax.dynamic_update_slice_in_dim(u, u[:, :1] * 2, 1, 1),
    "taken": lambda u: wnp.take(u, wnp.array([2, 0]), axis=1),
    "running": lambda u: wnp.cumsum(u, 1),
    "complex": lambda u: wnp.conj(u.astype(wnp.complex64) * 2j),
    "constant": lax.stop_gradient,
}


@both
@pytest.mark.parametrize("name", CORRECT)
def test_other_linear_ops_of_partial_sums_keep_their_value(name, partitioner):
    f = weft.jit(lambda x: CORRECT[name](in_parts(x)), partitioner=partitioner)
    if (name, partitioner) == ("complex", "xla"):
        with pytest.raises(ValueError, match="complex numbers.*partitioner='weft'"):
            f(split(X))
        return
    out = f(split(X))
    assert "{U:x}" in str(weft.typeof(out))
    want = CORRECT[name](wnp.asarray(X.T @ X))
    np.testing.assert_allclose(value(out), want, rtol=1e-5, atol=1e-5)


def test_partial_sums_in_a_loop_that_the_partitioner_refuses_are_left_to_xla():
    def f(x):
        u = in_parts(x)
        return lax.scan(lambda c, v: (c + v, v), u, wnp.stack([u, u]))[0]

    with pytest.warns(UserWarning, match="partitioned by XLA"):
        out = weft.jit(f, partitioner="auto")(split(X))
    np.testing.assert_allclose(value(out), 3 * X.T @ X, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda u: u.astype(wnp.int32),
        lambda u: u.astype(bool),
        lambda u: wnp.sort(u),
        lambda u: u * u,
        lambda u: u + 1.0,
        lambda u: lax.dynamic_update_slice_in_dim(u, wnp.ones((4, 1)), 1, 1),
    ],
)
def test_ops_that_are_not_additive_in_partial_sums_are_refused(f):
    with pytest.raises(ShardingTypeError, match="partial sum.*not additive.*weft.reshard"):
        f(in_parts(split(X)))


@both
@pytest.mark.parametrize("whole", [wnp.asarray(X), np.float32(2), "split", "zeros"])
def test_whole_values_become_partial_sums(whole, partitioner):
    x = split(X) if isinstance(whole, str) else whole
    want = np.zeros((8, 4)) if isinstance(whole, str) and whole == "zeros" else np.asarray(x) * 2
    f = weft.jit(
        lambda x: weft.reshard(
            wnp.zeros((8, 4)) if isinstance(whole, str) and whole == "zeros" else x * 2,
            P(unreduced={"x"}),
        ),
        partitioner=partitioner,
    )
    np.testing.assert_allclose(value(f(x)), want)


@both
def test_a_reduced_weights_gradient_is_unreduced_and_sent_nowhere(partitioner):
    f = weft.jit(
        weft.grad(lambda w, x: wnp.sum(wnp.sin(x @ w)) + wnp.sum((2.0 * x) @ w)),
        partitioner=partitioner,
    )
    g = f(reduced(W), split(X))
    assert str(weft.typeof(g)) == "f32[4,4]{U:x}"
    assert all_reduces(f, reduced(W), split(X)) == 0
    want = X.T @ np.cos(X @ W) + 2 * X.T @ np.ones((8, 4), np.float32)
    np.testing.assert_allclose(value(g), want, rtol=1e-4, atol=1e-5)


def test_a_cast_to_reduced_places_the_sum_of_the_backward_pass():
    def loss(w, x1, x2):
        w = weft.reshard(w, P(reduced={"x"}))
        return wnp.sum(x1 @ w) + wnp.sum(x2 @ w)

    f = weft.jit(weft.grad(loss))
    args = wnp.asarray(W), split(X), split(2 * X)
    assert str(weft.typeof(f(*args))) == "f32[4,4]"
    assert all_reduces(f, *args) == 1
    np.testing.assert_allclose(
        f(*args), 3 * X.T @ np.ones((8, 4), np.float32), rtol=1e-4, atol=1e-5
    )
    text = str(weft.make_jaxpr(weft.grad(loss))(*args))
    assert re.search(r"f32\[4,4\]\{U:x\} = add_any", text)


VARIANTS = {
    "bias": (lambda w, x: wnp.sum((x + w[0]) ** 2), lambda: _rows(2 * (X + W[0]).sum(0))),
    "scaled": (lambda w, x: wnp.sum(x @ (w * 2.0 / 4.0)), lambda: 0.5 * X.T @ np.ones((8, 4))),
    "slice": (lambda w, x: wnp.sum(x @ w[:, :1]), lambda: X.sum(0)[:, None] * np.eye(4)[:1]),
    "taken": (
        lambda w, x: wnp.sum(x[:, :2] @ w[wnp.array([1, 1])]),
        lambda: X[:, :2].sum() * np.eye(4)[1][:, None] * np.ones(4),
    ),
    "masked": (
        lambda w, x: wnp.sum(x @ wnp.where(w > 1, w, 0.0)),
        lambda: X.T @ np.ones((8, 4)) * (W > 1),
    ),
    "alone": (lambda w, x: wnp.sum(wnp.sin(w)), lambda: np.cos(W)),
    "branch": (
        lambda w, x: lax.cond(x.sum() > 9, wnp.sum, lambda w: wnp.sum(x @ w), w),
        lambda: X.T @ np.ones((8, 4)),
    ),
    "batched": (
        lambda w, x: wnp.sum(weft.vmap(lambda v: v @ w)(x)),
        lambda: X.T @ np.ones((8, 4)),
    ),
}


def _rows(row):
    out = np.zeros((4, 4))
    out[0] = row
    return out


@both
@pytest.mark.parametrize("name", VARIANTS)
def test_unreduced_gradients_pass_through_what_the_weight_passed(name, partitioner):
    loss, want = VARIANTS[name]
    g = weft.jit(weft.grad(loss), partitioner=partitioner)(reduced(W), split(X))
    assert str(weft.typeof(g)) == "f32[4,4]{U:x}"
    np.testing.assert_allclose(value(g), want(), rtol=1e-4, atol=1e-4)


@both
def test_gradients_of_microbatches_add_up_unreduced(partitioner):
    def loss(w, x):
        h, _ = lax.scan(lambda h, w: (wnp.tanh(h @ w), None), x, w)
        return wnp.sum(h**2)

    @weft.jit(partitioner=partitioner)
    def total(w, batches):
        def step(acc, x):
            g = weft.grad(loss)(w, x)
            assert weft.typeof(g).sharding.spec.unreduced == {"x"}
            return acc + g, None

        acc = weft.reshard(wnp.zeros_like(w), P(unreduced={"x"}))
        return weft.reshard(lax.scan(step, acc, batches)[0], P())

    layers = wnp.stack([wnp.eye(4) / 2] * 3)
    batches = np.stack([X, 2 * X, 3 * X])
    got = total(
        weft.reshard(layers, P(reduced={"x"})), weft.device_put(batches, P(None, "x", None))
    )
    want = sum(np.asarray(weft.grad(loss)(layers, wnp.asarray(b))) for b in batches)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_partial_sums_that_no_split_dimension_gives_are_refused():
    with pytest.raises(ShardingTypeError, match="no axis splits.*contracting.*weft.reshard"):
        wnp.dot(split(X), wnp.asarray(W), out_sharding=P(unreduced={"x"}))
    with pytest.raises(ShardingTypeError, match="partial sum.*not additive"):
        wnp.cos(in_parts(split(X)))


def test_partial_sums_beside_axes_of_type_auto_cross_the_ends_of_programs():
    types = (weft.sharding.AxisType.Explicit, weft.sharding.AxisType.Auto)
    x = X[:, :1] * W[:1]
    with weft.set_mesh(weft.make_mesh((4, 2), ("x", "y"), types)):
        part = weft.jit(lambda v: weft.reshard(v, P(unreduced={"x"})), partitioner="weft")(x)
        assert part.sharding.spec.unreduced == {"x"}
        np.testing.assert_array_equal(value(part), x)
        np.testing.assert_array_equal(weft.jit(lambda v: weft.reshard(v * 2, P("x")))(part), x * 2)
        with pytest.raises(ValueError, match="XLA's partitioner.*beside mesh axes of type Auto"):
            weft.jit(lambda v: v * 2, partitioner="xla")(part)


def test_an_unreduced_array_is_printed_by_its_placement():
    text = repr(in_parts(split(X)))
    assert text.startswith("Array(float32[4,4]") and "unreduced={'x'}" in text


GRID = [P(d, None) for d in (None, "x", "y", ("x", "y"))]
PLACES = GRID + [
    P(d, None, unreduced=sums)
    for d in (None, "x", "y")
    for sums in ({"x"}, {"y"}, {"x", "y"})
    if d not in sums
]


def value_of(a):
    """The array its shards stand for: sums over unreduced axes, equal copies along free ones."""
    mesh, sums = a.sharding.mesh, a.sharding.spec.unreduced
    at = {device: c for c, device in np.ndenumerate(mesh.devices)}
    totals = {}
    for shard in a.addressable_shards:
        rest = tuple(
            i for i, n in zip(at[shard.device], mesh.axis_names, strict=True) if n not in sums
        )
        _, total = totals.get(rest, (None, 0))
        totals[rest] = (shard.index, total + np.asarray(shard.data))
    out = np.full(a.shape, np.nan)
    for index, total in totals.values():
        known = out[index]
        assert np.isnan(known).all() or np.array_equal(known, total), "copies differ"
        out[index] = total
    return out


@pytest.mark.parametrize("start", GRID, ids=str)
def test_every_placement_with_and_without_sums_keeps_the_value(start):
    mesh = weft.make_mesh((2, 2), ("x", "y"))
    x = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2)

    def there_and_on(v):
        return [[weft.reshard(weft.reshard(v, through), to) for to in PLACES] for through in PLACES]

    asked = [[weft.NamedSharding(mesh, to) for to in PLACES] for _ in PLACES]
    with weft.set_mesh(mesh):
        v = weft.device_put(x, weft.NamedSharding(mesh, start))
        for through in PLACES:
            there = weft.reshard(v, through)
            assert there.sharding.spec.unreduced == through.unreduced
            np.testing.assert_array_equal(value_of(there), x, err_msg=f"{through}")
            asked_for = weft.NamedSharding(mesh, through)
            direct = weft.jit(lambda v: v, out_shardings=asked_for)(v)
            assert direct.sharding.spec.unreduced == through.unreduced
            np.testing.assert_array_equal(value_of(direct), x, err_msg=f"{through}")
        outs = weft.jit(there_and_on, out_shardings=asked)(v)
    for through, row in zip(PLACES, outs, strict=True):
        for to, out in zip(PLACES, row, strict=True):
            assert out.sharding.spec.unreduced == to.unreduced
            np.testing.assert_array_equal(value_of(out), x, err_msg=f"{through} then {to}")


@pytest.mark.parametrize(
    ("body", "axis"),
    [(lambda v: v * 0 + 1, None), (lambda v: np.float32(1), "x"), (lambda v: v[:1], "y")],
)
def test_a_result_that_is_no_sum_over_an_axis_cannot_be_called_one(body, axis):
    mesh = weft.make_mesh((2, 2), ("x", "y"))
    with weft.set_mesh(mesh):
        v = weft.reshard(np.ones((2, 2), np.float32), P("x"))
        sums = {"x", "y"} if axis == "y" else {"x"}
        f = weft.shard_map(body, in_specs=P("x"), out_specs=P(unreduced=sums))
        if axis is None:
            np.testing.assert_array_equal(weft.reshard(f(v), P()), np.full((1, 2), 2.0))
            return
        with pytest.raises(ValueError, match=rf"does not vary over mesh axis '{axis}'.*pcast"):
            f(v)


@pytest.mark.parametrize("op", [wnp.multiply, wnp.add, wnp.maximum, wnp.divide])
def test_a_reduced_operand_beside_a_replicated_one_is_refused(op):
    whole = weft.device_put(X, weft.NamedSharding(MESH, P()))
    reduced = weft.device_put(X, weft.NamedSharding(MESH, P(None, None, reduced={"x"})))
    with weft.set_mesh(MESH):
        with pytest.raises(ShardingTypeError, match="reduced over mesh axis 'x' and another"):
            op(reduced, whole)
        assert weft.typeof(op(reduced, reduced)).sharding.spec.reduced == {"x"}
        assert weft.typeof(reduced * 2.0).sharding.spec.reduced == {"x"}
