"""custom_partitioning: functions that say themselves how they run on shards."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.custom_partitioning import SdyShardingRule, custom_partitioning
from weft.sharding import AxisType, NamedSharding

GRID = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = weft.make_mesh((4, 2), ("x", "y"))


def put(x, *spec, mesh=GRID):
    return weft.device_put(x, NamedSharding(mesh, P(*spec)))


def matmul(rule="i k, k j -> i j", **options):
    """A matrix product that adds up partial products itself, and the shards it was called on."""
    seen = []

    @custom_partitioning
    def product(a, b):
        return a @ b

    def partition(mesh, args, result):
        a, b = (x.sharding.spec for x in args)
        inner = a[1] if a[1] != b[1] else None

        def local(a, b):
            seen.append((a.shape, b.shape))
            out = a @ b
            return lax.psum(out, inner) if inner else out

        shardings = [NamedSharding(mesh, P(*s)) for s in ((a[0], inner), (inner, b[1]))]
        out = NamedSharding(mesh, P(a[0] if a[0] != b[1] else None, b[1]))
        return mesh, local, out, tuple(shardings)

    if rule == "i k, k j -> i j":
        options = {"reduction_factors": ("k",)}
    product.def_partition(partition, sharding_rule=rule, **options)
    return product, seen


@pytest.mark.parametrize("partitioner", ["weft", "xla"])
@pytest.mark.parametrize(
    ("left", "right", "out", "shards"),
    [
        ((), (), P(), ((8, 16), (16, 4))),
        (("x",), (None, "y"), P("x", "y"), ((2, 16), (16, 2))),
        (("y", "x"), ("x",), P("y"), ((4, 4), (4, 4))),
        ((None, "x"), ("x", "y"), P(None, "y"), ((8, 4), (4, 2))),
    ],
)
def test_every_device_runs_the_function_on_its_shards(rng, left, right, out, shards, partitioner):
    product, seen = matmul()
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    run = weft.jit(lambda a, b: product(a, b) * 2, partitioner=partitioner)
    result = run(put(a, *left), put(b, *right))
    np.testing.assert_allclose(result, 2 * a @ b, rtol=1e-5, atol=1e-5)
    assert result.sharding.spec == out
    assert set(seen) == {shards}


def test_only_what_the_shards_ask_for_is_sent():
    product, _ = matmul()
    f = weft.jit(product)
    a, b = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
    assert "all_reduce  x" in str(weft.comm(f, put(a, None, "x"), put(b, "x")))
    assert weft.comm(f, put(a, "x"), put(b, None, "y")).collectives == []


def test_the_rule_may_be_an_object_or_a_function_of_the_types(rng):
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    rule = SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",))

    def by_types(mesh, operands, results):
        assert dict(mesh.shape) == {"x": 4, "y": 2}
        assert [tuple(t.shape) for t in (*operands, *results)] == [(8, 16), (16, 4), (8, 4)]
        return "i k, k j -> i j", {"reduction_factors": ("k",)}

    for each in (rule, by_types, lambda *_: rule):
        product, _ = matmul(each)
        out = weft.jit(product)(put(a, "x"), put(b, None, "y"))
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)
        assert out.sharding.spec == P("x", "y")


def fft(infer=True):
    @custom_partitioning
    def transformed(x):
        return jnp.fft.fft(x)

    def rows(x):
        return NamedSharding(x.sharding.mesh, P(x.sharding.spec[0]))

    def partition(mesh, args, result):
        return mesh, jnp.fft.fft, rows(args[0]), (rows(args[0]),)

    def from_operands(mesh, args, result):
        assert result.sharding is None and result.dtype == np.complex64
        return rows(args[0])

    transformed.def_partition(partition, infer_sharding_from_operands=infer and from_operands)
    return transformed


def test_shardings_of_results_are_inferred_through_a_chain_of_calls(rng):
    x = rng.standard_normal((8, 16)).astype(np.complex64)
    first, second = fft(), fft()
    f = weft.jit(lambda x: second(first(x) + 1))
    out = f(put(x, "x", "y"))
    np.testing.assert_allclose(out, np.fft.fft(np.fft.fft(x) + 1), rtol=1e-3, atol=1e-3)
    assert out.sharding.spec == P("x")
    assert str(weft.comm(f, put(x, "x", "y"))).count("all_gather") == 1  # of the first operand


def test_without_rule_or_inference_the_result_is_whole(rng):
    x = rng.standard_normal((8, 16)).astype(np.complex64)
    out = weft.jit(fft(infer=None))(put(x, "x", "y"))
    np.testing.assert_allclose(out, np.fft.fft(x), rtol=1e-4, atol=1e-4)


def softmax():
    @custom_partitioning
    def normalized(x):
        return weft.nn.softmax(x)

    def partition(mesh, args, result):
        lead = NamedSharding(mesh, P(*args[0].sharding.spec[:-1]))
        return mesh, weft.nn.softmax, lead, (lead,)

    normalized.def_partition(
        partition, sharding_rule="... i -> ... i", need_replication_factors=("i",)
    )
    return normalized


def expected(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_calls_in_loops_branches_and_inner_functions_are_split(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    normalized = softmax()
    inner = weft.jit(normalized)

    def program(x):
        y = lax.fori_loop(0, 2, lambda _, c: normalized(c), x)
        z = lax.cond(x[0, 0] > 100, lambda v: v, lambda v: inner(v), y)
        return inner(z)

    out = weft.jit(program)(put(x, "x"))
    np.testing.assert_allclose(out, expected(expected(expected(expected(x)))), rtol=1e-5)
    assert weft.comm(weft.jit(lambda x: inner(inner(x))), put(x, "x")).collectives == []


def test_explicit_axes_are_typed_by_the_rule(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    out = weft.jit(softmax())(put(x, "x", "y", mesh=EXPLICIT))
    assert weft.typeof(out).sharding.spec == P("x", None)
    np.testing.assert_allclose(out, expected(x), rtol=1e-5)


def test_in_a_shard_map_over_some_axes_it_is_split_along_the_others(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    seen = []

    @custom_partitioning
    def normalized(x):
        return weft.nn.softmax(x)

    def partition(mesh, args, result):
        seen.append((args[0].shape, args[0].sharding.spec))
        return mesh, weft.nn.softmax, args[0].sharding, (args[0].sharding,)

    normalized.def_partition(partition, sharding_rule="r i -> r i", need_replication_factors=("i",))
    for axes in ({"x"}, {"x", "y"}):
        mapped = weft.shard_map(
            normalized, mesh=GRID, in_specs=P("x"), out_specs=P("x"), axis_names=axes
        )
        np.testing.assert_allclose(weft.jit(mapped)(put(x, "x")), expected(x), rtol=1e-5)
    assert seen == [((2, 16), P(None, None))]


def test_eagerly_and_on_one_device_it_is_the_function_itself(rng):
    x = rng.standard_normal((8, 16)).astype(np.float32)
    normalized = softmax()
    for run in (normalized, weft.jit(normalized)):
        np.testing.assert_allclose(run(x), expected(x), rtol=1e-5)
    assert normalized.__name__ == "normalized"


def test_trees_static_arguments_and_keywords_reach_the_callbacks():
    def scaled(tree, factor, power=1):
        return {"sum": tree["a"] + tree["b"], "scaled": tree["a"] * factor**power}

    call = custom_partitioning(scaled, static_argnums=(1, 2))

    def partition(factor, power, mesh, args, result):
        assert (factor, power) == (3, 2)
        s = args[0]["a"].sharding
        return (
            mesh,
            lambda tree: scaled(tree, factor, power),
            {"sum": s, "scaled": s},
            ({"a": s, "b": s},),
        )

    call.def_partition(partition, sharding_rule="i, i -> i, i")
    a, b = np.arange(8.0, dtype=np.float32), np.ones(8, np.float32)
    out = weft.jit(lambda a, b: call({"a": a, "b": b}, 3, power=2))(put(a, "x"), put(b))
    np.testing.assert_array_equal(out["sum"], a + b)
    np.testing.assert_array_equal(out["scaled"], a * 9)
    assert out["scaled"].sharding.spec == P("x")


def test_with_a_derivative_of_its_own_it_is_trained(rng):
    product, _ = matmul()
    call = weft.custom_vjp(lambda a, b: product(a, b))
    call.defvjp(
        lambda a, b: (product(a, b), (a, b)),
        lambda saved, ct: (product(ct, saved[1].T), product(saved[0].T, ct)),
    )
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 16), (16, 4)))
    grads = weft.jit(weft.grad(lambda a, b: (call(a, b) ** 2).sum(), (0, 1)))(
        put(a, "x"), put(b, None, "y")
    )
    np.testing.assert_allclose(grads[0], 2 * (a @ b) @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(grads[1], 2 * a.T @ (a @ b), rtol=1e-4, atol=1e-4)


def answering(answer):
    call = custom_partitioning(lambda x: x * 2)
    call.def_partition(lambda mesh, args, result: answer(mesh), sharding_rule="i -> i")
    return lambda: weft.jit(call)(put(np.ones(8, np.float32), "x"))


ROWS = NamedSharding(GRID, P("x"))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: custom_partitioning(3), TypeError, "must be a function"),
        (lambda: custom_partitioning(lambda x: x)(1.0), AttributeError, "def_partition"),
        (
            lambda: weft.grad(lambda x: softmax()(x).sum())(np.ones(3)),
            NotImplementedError,
            "custom_vjp",
        ),
        (
            lambda: weft.linear_transpose(softmax(), np.ones(3))(np.ones(3)),
            NotImplementedError,
            "custom_vjp",
        ),
        (lambda: weft.vmap(softmax())(np.ones((3, 2))), NotImplementedError, "custom_vmap"),
        (
            lambda: weft.jit(matmul(lambda *_: 3)[0])(
                put(np.ones((8, 4)), "x"), put(np.ones((4, 2)))
            ),
            ValueError,
            "must return an SdyShardingRule",
        ),
        (answering(lambda mesh: None), TypeError, "must return"),
        (answering(lambda mesh: (mesh, lambda x: x, ROWS, ())), ValueError, "one sharding each"),
        (answering(lambda mesh: (mesh, lambda x: x, "x", (ROWS,))), ValueError, "NamedSharding"),
        (answering(lambda mesh: (mesh, lambda x: x[:1], ROWS, (ROWS,))), ValueError, r"f32\[1\]"),
        (answering(lambda mesh: (mesh, lambda x: (x, x), ROWS, (ROWS,))), TypeError, "returned"),
    ],
)
def test_what_does_not_fit_says_what_was_expected(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_rule_that_does_not_fit_the_arrays_is_refused():
    product, _ = matmul("i j -> i")
    with pytest.raises(ValueError, match="1 operands, there are 2"):
        weft.jit(product)(put(np.ones((8, 16)), "x"), put(np.ones((16, 4))))
