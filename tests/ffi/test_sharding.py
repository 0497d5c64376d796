"""Sharded calls: no collective where a rule or a batch dimension lets them stay on their shards."""

import ctypes
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.ffi import ShardingRule, differentiable, ffi_call

P = weft.P
ROWS = np.arange(64, dtype=np.float32).reshape(8, 8)
W = np.ones(8, np.float32)
COLLECTIVE = re.compile(
    r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter|collective-broadcast"
)
WHOLE = ShardingRule("i -> i", need_replication="i")

both = pytest.mark.parametrize("partitioner", ["weft", "xla"])


@pytest.fixture(scope="module", autouse=True)
def partitionable():
    weft.ffi.register_ffi_target_as_batch_partitionable("Probe")


def mesh(kind="Auto"):
    return weft.make_mesh((8,), ("x",), axis_types=(getattr(weft.AxisType, kind),))


def placed(spec, kind="Auto", value=ROWS):
    return weft.device_put(value, weft.NamedSharding(mesh(kind), spec))


def probe(x, w, **options):
    """The number of elements of x plus 1000 times those of w that one call of the handler sees."""
    return ffi_call("Probe", weft.ShapeDtypeStruct(x.shape, "float32"), **options)(x, w)


def cumsum(x, reverse=False, **options):
    result = weft.ShapeDtypeStruct(x.shape, "float32")
    return ffi_call("CumSum", result, **options)(x, reverse=reverse)


row_cumsum = differentiable(
    lambda x: (cumsum(x, vmap_method="broadcast_all", sharding_rule=WHOLE), None),
    lambda _, ct: (cumsum(ct, True, vmap_method="broadcast_all", sharding_rule=WHOLE),),
)


def run(function, *args, partitioner="weft"):
    """The result, and the collectives of the optimized program."""
    jitted = weft.jit(function, partitioner=partitioner)
    text = jitted.lower(*args).compile().as_text()
    assert "custom-call" in text
    return np.asarray(jitted(*args)), set(COLLECTIVE.findall(text))


@both
def test_a_batch_partitionable_call_stays_on_its_shards_under_vmap(partitioner):
    def function(x):
        return weft.vmap(lambda row: probe(row, W, vmap_method="broadcast_all"))(x)

    got, collectives = run(function, placed(P("x")), partitioner=partitioner)
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))  # one row and one copy of w


@both
def test_declared_batch_dimensions_stay_on_their_shards(partitioner):
    got, collectives = run(
        lambda x: probe(x, x, num_batch_dims=1), placed(P("x")), partitioner=partitioner
    )
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))


@pytest.mark.parametrize("method, seen", [("expand_dims", 8008), ("legacy_vectorized", 8008)])
def test_unbatched_operands_are_whole_on_every_shard(method, seen):
    def function(x):
        return weft.vmap(lambda row: probe(row, W, vmap_method=method))(x)

    got, collectives = run(function, placed(P("x")))
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full((8, 8), seen))


@both
def test_two_batch_dimensions_over_two_mesh_axes(partitioner):
    grid = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)
    value = np.ones((4, 2, 3), np.float32)
    x = weft.device_put(value, weft.NamedSharding(grid, P("x", "y")))

    def function(x):
        call = lambda v: probe(v, v, vmap_method="broadcast_all")
        return weft.vmap(weft.vmap(call))(x)

    got, collectives = run(function, x, partitioner=partitioner)
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full(value.shape, 3003))


@both
def test_other_dimensions_are_gathered_first(partitioner):
    got, collectives = run(
        lambda x: probe(x, x, num_batch_dims=1), placed(P(None, "x")), partitioner=partitioner
    )
    assert collectives & {"all-gather", "all-to-all"}
    assert set(got.ravel()) <= {8008, 64064}  # whole rows: of one shard, or all of them


@both
def test_a_call_without_rule_sees_whole_arrays(partitioner):
    got, _ = run(lambda x: probe(x, x), placed(P("x")), partitioner=partitioner)
    np.testing.assert_array_equal(got, np.full((8, 8), 64064))
    got, _ = run(lambda x: cumsum(x), placed(P(None, "x")), partitioner=partitioner)
    np.testing.assert_array_equal(got, np.cumsum(ROWS, 1))


@both
def test_a_call_under_a_rule_stays_on_its_shards(partitioner):
    rule = ShardingRule("b i -> b i", need_replication="i")
    got, collectives = run(
        lambda x: cumsum(x, sharding_rule=rule), placed(P("x")), partitioner=partitioner
    )
    assert collectives == set()
    np.testing.assert_array_equal(got, np.cumsum(ROWS, 1))


@both
def test_a_dimension_that_needs_replication_is_gathered(partitioner):
    rule = ShardingRule("b i -> b i", need_replication="i")
    got, collectives = run(
        lambda x: cumsum(x, sharding_rule=rule), placed(P(None, "x")), partitioner=partitioner
    )
    assert collectives
    np.testing.assert_array_equal(got, np.cumsum(ROWS, 1))


def test_a_rule_may_leave_an_operand_whole():
    got, collectives = run(
        lambda x: ffi_call("Probe", x, sharding_rule="b i, k -> b i")(x, W), placed(P("x"))
    )
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))


@both
def test_results_of_a_reduction_are_added_up(partitioner):
    rule = ShardingRule("b i -> b", reduction="i")
    call = ffi_call("RowSum", weft.ShapeDtypeStruct((8,), "float32"), sharding_rule=rule)
    got, collectives = run(call, placed(P(None, "x")), partitioner=partitioner)
    if partitioner == "weft":
        assert collectives == {"all-reduce"}
    np.testing.assert_array_equal(got, ROWS.sum(1))


def test_a_permutation_factor_keeps_its_shards():
    rule = ShardingRule("b i -> b i", permutation="i")
    got, collectives = run(
        lambda x: ffi_call("CopyAny", x, sharding_rule=rule)(x), placed(P("x", None))
    )
    assert collectives == set()
    np.testing.assert_array_equal(got, ROWS)


@both
def test_forward_and_backward_calls_stay_on_their_shards(partitioner):
    def gradient(x):
        return weft.vmap(weft.grad(lambda r: (row_cumsum(r) ** 2).sum()))(x)

    got, collectives = run(gradient, placed(P("x")), partitioner=partitioner)
    assert collectives == set()
    expected = 2 * np.cumsum(np.cumsum(ROWS, 1)[:, ::-1], 1)[:, ::-1]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@both
def test_calls_in_a_scan_and_its_gradient_stay_on_their_shards(partitioner):
    def last(x):
        step = lambda c, _: (weft.vmap(row_cumsum)(c) * 0.5, None)
        return weft.lax.scan(step, x, None, length=3)[0]

    expected = ROWS
    for _ in range(3):
        expected = np.cumsum(expected, 1) * 0.5
    got, collectives = run(last, placed(P("x")), partitioner=partitioner)
    assert collectives == set()
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    got, collectives = run(
        weft.grad(lambda x: last(x).sum()), placed(P("x")), partitioner=partitioner
    )
    assert collectives == set()
    ct = np.ones((8, 8), np.float32)
    for _ in range(3):
        ct = np.cumsum(ct[:, ::-1] * 0.5, 1)[:, ::-1]
    np.testing.assert_allclose(got, ct, rtol=1e-6)


def test_a_call_in_shard_map_sees_its_shard():
    def function(x, w):
        return weft.shard_map(
            lambda x, w: probe(x, w), mesh=mesh(), in_specs=(P("x"), P()), out_specs=P("x")
        )(x, w)

    got, collectives = run(function, placed(P("x")), W)
    assert collectives == set()
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))


@both
def test_a_sum_to_a_scalar_is_added_up(partitioner):
    rule = ShardingRule("i j ->", reduction="i j")

    def total(x):
        return ffi_call("RowSum", weft.ShapeDtypeStruct((), "float32"), sharding_rule=rule)(x)

    got, _ = run(total, placed(P("x")), partitioner=partitioner)
    assert got == ROWS.sum()


@both
def test_an_aliased_call_works_in_place_under_any_partitioner(partitioner):
    def add_one(x):
        return ffi_call("InPlace", x, sharding_rule="i j -> i j", input_output_aliases={0: 0})(x)

    got, _ = run(add_one, placed(P("x")), partitioner=partitioner)
    np.testing.assert_array_equal(got, ROWS + 1)


def test_an_aliased_call_works_in_place_on_its_shards():
    call = ffi_call(
        "InPlace",
        weft.ShapeDtypeStruct((8, 8), "float32"),
        input_output_aliases={0: 0},
        sharding_rule="b i -> b i",
    )
    got, collectives = run(call, placed(P("x")))
    assert collectives == set()
    np.testing.assert_array_equal(got, ROWS + 1)


@pytest.mark.parametrize("sizes", [(10, 8), (1, 8), (16, 3)])
def test_a_batch_that_the_devices_do_not_divide_is_right_too(sizes):
    value = np.ones(sizes, np.float32)

    def function(x):
        x = weft.lax.with_sharding_constraint(x, weft.NamedSharding(mesh(), P("x")))
        return cumsum(x, sharding_rule=ShardingRule("b i -> b i", need_replication="i"))

    got, _ = run(function, value)
    np.testing.assert_array_equal(got, np.cumsum(value, 1))


SPECS = st.sampled_from([(), ("x",), ("y",), ("x", "y"), ("y", "x")])


@settings(max_examples=20)
@given(
    rows=SPECS,
    columns=SPECS,
    out=SPECS,
    whole=st.sets(st.sampled_from("bi")),
    sizes=st.sampled_from([(8, 8), (16, 24), (6, 8), (8, 5)]),
    partitioner=st.sampled_from(["weft", "xla"]),
)
def test_any_rule_on_any_sharding_gives_the_values(rows, columns, out, whole, sizes, partitioner):
    grid = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)

    def fits(axes, size):
        return axes and size % np.prod([grid.shape[a] for a in axes]) == 0

    rows, out = (a if fits(a, sizes[0]) else () for a in (rows, out))
    columns = columns if fits(columns, sizes[1]) and not set(columns) & set(rows) else ()
    value = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    x = weft.device_put(value, weft.NamedSharding(grid, P(rows or None, columns or None)))
    same = ShardingRule("b i -> b i", need_replication=whole)
    summed = ShardingRule("b i -> b", reduction="i", need_replication=whole & {"b"})

    def function(x):
        y = ffi_call("Scale", x, sharding_rule=same)(x, scale=np.float32(2))
        row_sums = weft.ShapeDtypeStruct(sizes[:1], "float32")
        sums = ffi_call("RowSum", row_sums, sharding_rule=summed)(y)
        placed = weft.lax.with_sharding_constraint(y, weft.NamedSharding(grid, P(out or None)))
        return placed, sums

    got, sums = weft.jit(function, partitioner=partitioner)(x)
    np.testing.assert_array_equal(got, 2 * value)
    np.testing.assert_allclose(sums, 2 * value.sum(1), rtol=1e-5, atol=1e-5)


# Explicit types ---------------------------------------------------------------------------------


def test_batch_dimensions_keep_their_explicit_sharding():
    x = placed(P("x"), "Explicit")
    got = weft.jit(lambda x: probe(x, x, num_batch_dims=1))(x)
    assert weft.typeof(got).sharding.spec == P("x", None)
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))


def test_other_dimensions_of_explicit_type_are_resharded_to_whole():
    x = placed(P(None, "x"), "Explicit")
    got = weft.jit(lambda x: cumsum(x, num_batch_dims=1))(x)
    assert weft.typeof(got).sharding.spec == P(None, None)
    np.testing.assert_array_equal(got, np.cumsum(ROWS, 1))


def test_a_call_without_a_rule_does_not_gather_behind_the_programs_back():
    x = placed(P(None, "x"), "Explicit")
    call = ffi_call("RowSum", weft.ShapeDtypeStruct((8,), "float32"))
    for run in (call, weft.jit(call)):
        with pytest.raises(weft.errors.ShardingTypeError, match="operand 0.*sharding_rule='i j, …"):
            run(x)
    got = weft.jit(lambda x: call(weft.reshard(x, P(None, None))))(x)
    np.testing.assert_array_equal(got, ROWS.sum(1))


def test_a_rule_types_the_result():
    x = placed(P(None, "x"), "Explicit")
    rule = ShardingRule("b i -> b", reduction="i")
    call = ffi_call("RowSum", weft.ShapeDtypeStruct((8,), "float32"), sharding_rule=rule)
    got = weft.jit(call)(x)
    assert weft.typeof(got).sharding.spec == P(None)
    np.testing.assert_array_equal(got, ROWS.sum(1))


def test_a_batched_call_of_explicit_type_has_no_collective():
    x = placed(P("x"), "Explicit")

    def gradient(x):
        return weft.vmap(weft.grad(lambda r: row_cumsum(r).sum()))(x)

    got, collectives = run(gradient, x)
    assert collectives == set()
    np.testing.assert_array_equal(got, np.tile(np.arange(8, 0, -1), (8, 1)))


# Eager calls ------------------------------------------------------------------------------------


def test_an_eager_call_on_a_sharded_array_stays_sharded():
    got = probe(placed(P("x")), placed(P("x")), num_batch_dims=1)
    assert got.sharding.spec[0] == "x"
    np.testing.assert_array_equal(got, np.full((8, 8), 8008))


# Layouts are always there -----------------------------------------------------------------------


@both
def test_a_partitioned_call_always_has_layouts(partitioner):
    """Without them XLA's partitioner ends the process."""
    lowered = weft.jit(lambda x: probe(x, x, num_batch_dims=1), partitioner=partitioner).lower(
        placed(P("x"))
    )
    text = lowered.as_text()
    assert "operand_layouts" in text and "result_layouts" in text


def test_a_rule_that_does_not_fit_is_refused_before_lowering():
    with pytest.raises(ValueError, match="'CumSum'.*gives operand 0 the factors"):
        cumsum(ROWS, sharding_rule="b -> b")


@both
@pytest.mark.parametrize("rule", [None, "i j -> i j"])
def test_a_call_with_an_effect_is_made(partitioner, rule, handlers):
    def double(x, scale=2.0):
        call = ffi_call("Scale", x, has_side_effect=True, sharding_rule=rule)
        return call(x, scale=np.float32(scale))

    got, _ = run(double, placed(P("x")), partitioner=partitioner)
    np.testing.assert_array_equal(got, 2 * ROWS)
    # The unused one is kept.
    got, _ = run(lambda x: (double(x, 3), double(x))[1], placed(P("x")), partitioner=partitioner)
    np.testing.assert_array_equal(got, 2 * ROWS)


def test_a_call_without_operands_and_results(handlers):
    handlers.CountedCalls.restype = ctypes.c_int64
    before = handlers.CountedCalls()

    def f(x):
        ffi_call("Count", (), has_side_effect=True)()
        return x + 1

    got, _ = run(f, placed(P("x")))
    np.testing.assert_array_equal(got, ROWS + 1)
    assert handlers.CountedCalls() == before + 8  # each device makes it
    with pytest.raises(ValueError, match="neither operands nor results.*use weft's partitioner"):
        run(f, placed(P("x")), partitioner="xla")
