"""shard_map in StableHLO: manual computations, whole, partial and nested, and GSPMD's way."""

import re

import numpy as np
import pytest

import weft
from weft import P, lax
from weft.core.config import options
from weft.sharding import AxisType

MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
X = np.arange(64, dtype=np.float32).reshape(8, 8)


def lowered(f, *args, **kwargs):
    return weft.jit(weft.shard_map(f, mesh=MESH, **kwargs)).lower(*args).as_text()


def regions(module):
    """(in_shardings, out_shardings, manual_axes) of every manual computation."""
    return re.findall(
        r"sdy.manual_computation\([^)]*\) in_shardings=\[(.*?)\] out_shardings=\[(.*?)\] "
        r"manual_axes=\{(.*?)\} ",
        module,
    )


def test_a_whole_manual_region_has_closed_dimensions():
    module = lowered(lambda a: a * 2, X, in_specs=P("x", "y"), out_specs=P("x", "y"))
    split = '<@mesh, [{"x"}, {"y"}]>'
    assert regions(module) == [(split, split, '"x", "y"')]
    assert "(%arg1: tensor<2x4xf32>)" in module and "sdy.return %" in module


def test_a_partly_manual_region_leaves_dimensions_open_for_the_other_axes():
    options = {"in_specs": P("x"), "out_specs": P("x"), "axis_names": {"x"}}
    module = lowered(lambda a: a * 2, X, **options)
    open_ = '<@mesh, [{"x", ?}, {?}]>'
    assert regions(module) == [(open_, open_, '"x"')]


def test_manual_axes_a_value_is_whole_over_are_replicated_by_name():
    def body(a):
        return lax.psum(a, "x")

    options = {"in_specs": P("x"), "out_specs": P(), "axis_names": {"x"}}
    ((_, out, _),) = regions(lowered(body, X, **options))
    assert out == '<@mesh, [{?}, {?}], replicated={"x"}>'


def test_psum_is_an_all_reduce_over_the_groups_of_its_axis():
    module = lowered(lambda a: lax.psum(a, "y"), X, in_specs=P("x", "y"), out_specs=P("x"))
    assert "dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>" in module
    assert "channel_handle<handle = 1, type = 1>" in module and "use_global_device_ids" in module
    module = lowered(lambda a: lax.psum(a, "x"), X, in_specs=P("x", "y"), out_specs=P(None, "y"))
    assert "dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>" in module


def test_every_collective_has_its_own_channel():
    def body(a):
        return lax.psum(lax.all_gather(a, "y", tiled=True), "x")

    module = lowered(body, X, in_specs=P("x", "y"), out_specs=P(None, "y"), check_vma=False)
    assert re.findall(r"handle = (\d+)", module) == ["1", "2"]


def test_nested_regions_list_only_their_own_axes():
    def outer(a):
        return weft.shard_map(lambda b: b * 2, in_specs=P(None, "y"), out_specs=P(None, "y"))(a)

    options = {"in_specs": P("x"), "out_specs": P("x"), "axis_names": {"x"}}
    module = lowered(outer, X, **options)
    assert [axes for _, _, axes in regions(module)] == ['"x"', '"y"']
    np.testing.assert_array_equal(weft.shard_map(outer, mesh=MESH, **options)(X), 2 * X)


@pytest.mark.parametrize(("names", "spec"), [(None, P("x", "y")), ({"x"}, P("x"))])
def test_without_shardy_values_change_between_full_and_shard_shapes(names, spec):
    extra = {} if names is None else {"axis_names": names}
    with options["use_shardy"](False):
        f = weft.shard_map(lambda a: a * 2, mesh=MESH, in_specs=spec, out_specs=spec, **extra)
        module = weft.jit(f).lower(X).as_text()
        np.testing.assert_array_equal(weft.jit(f)(X), 2 * X)
    assert "sdy" not in module
    calls = re.findall(r"custom_call @(\w+)\(", module)
    assert calls == ["Sharding", "SPMDFullToShardShape", "Sharding", "SPMDShardToFullShape"]
    assert ("manual, replicated" in module) == (names is not None)


def running(x):
    return lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1]


def running_in_numpy(x):
    before = x[0] + np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, 0)[:-1]])
    return before * x


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("called", [False, True], ids=["inline", "called"])
def test_without_shardy_loops_run_where_axes_are_left_to_the_partitioner(check_vma, called):
    # XLA ended the process where a loop's counter was not marked as manual.
    body = (lambda x: weft.jit(running)(x) + weft.jit(running)(x)) if called else running
    f = weft.shard_map(
        body,
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=check_vma,
    )
    rows = len(X) // MESH.shape["x"]
    want = np.concatenate([running_in_numpy(p) for p in np.split(X, len(X) // rows)])
    with options["use_shardy"](False):
        np.testing.assert_allclose(weft.jit(f)(X), (1 + called) * want, rtol=1e-6)


def test_without_shardy_a_nested_region_has_a_gradient():
    inner = weft.shard_map(
        lambda v: v * lax.psum(v, "y"),
        in_specs=P(None, "y"),
        out_specs=P(None, "y"),
        axis_names={"y"},
        check_vma=False,
    )
    f = weft.shard_map(
        inner, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    parts = np.stack(np.split(X, MESH.shape["y"], axis=1)).sum(0)
    want = 2 * np.concatenate([parts] * MESH.shape["y"], axis=1)
    with options["use_shardy"](False):
        np.testing.assert_allclose(weft.jit(weft.grad(lambda x: f(x).sum()))(X), want, rtol=1e-6)


def test_without_shardy_transforms_run_where_axes_are_left_to_the_partitioner(rng):
    x = rng.normal(size=(8, 16)).astype(np.float32)
    fft = weft.numpy.fft.fft
    f = weft.shard_map(fft, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    with options["use_shardy"](False):
        got = weft.jit(f)(x)
    np.testing.assert_allclose(got, np.fft.fft(x), rtol=1e-4, atol=1e-4)


def test_without_shardy_effects_need_all_axes_to_be_manual():
    def body(x):
        weft.debug.callback(lambda v: None, x)
        return x

    f = weft.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    with options["use_shardy"](False), pytest.raises(ValueError, match="'y' .* needs Shardy"):
        weft.jit(f).lower(X)


def test_the_region_carries_the_users_line():
    def body(a):
        return a * 2

    f = weft.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    module = weft.jit(f).lower(X).as_text(debug_info=True)
    line = body.__code__.co_firstlineno + 1
    assert f'test_manual.py":{line}:' in module
