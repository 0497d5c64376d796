"""`inspect_array_sharding` of traced values over Auto axes: told when the program is lowered."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P

MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)


def looking(seen, name):
    return lambda v: weft.debug.inspect_array_sharding(v, callback=lambda s: seen.append((name, s)))


def inputs():
    x = weft.device_put(np.ones((8, 4), np.float32), NamedSharding(MESH, P("x", "y")))
    w = weft.device_put(np.ones((4, 6), np.float32), NamedSharding(MESH, P("y", None)))
    return x, w


def product(seen):
    def f(x, w):
        looking(seen, "argument")(x)
        y = x @ w
        looking(seen, "result")(y)
        return y

    return f


@pytest.mark.parametrize("partitioner", ["auto", "weft", "xla"])
def test_it_is_told_what_propagation_chose(partitioner):
    seen = []
    out = weft.jit(product(seen), partitioner=partitioner)(*inputs())
    np.testing.assert_array_equal(out, np.full((8, 6), 4))
    assert seen == [
        ("argument", NamedSharding(MESH, P("x", "y"))),
        ("result", NamedSharding(MESH, P("x"))),
    ]


def test_it_is_told_once_a_lowering_and_nothing_is_left_to_run():
    seen = []
    f = weft.jit(product(seen))
    f(*inputs()), f(*inputs())
    lowered = f.lower(*inputs())
    assert len(seen) in (2, 4)  # a lowering may be that of the call
    for text in (lowered.as_text(), lowered.compile().as_text()):
        assert "weft_inspect_sharding" not in text
    assert f._cache_size() == 1


def test_under_transforms_and_in_loops_it_is_told_too():
    seen = []

    def f(x):
        def body(carry, row):
            looking(seen, "carry")(carry)
            return carry + row, None

        total, _ = weft.lax.scan(body, x[0], x)
        weft.vmap(looking(seen, "mapped"))(x)
        return total.sum()

    x = weft.device_put(np.ones((8, 4), np.float32), NamedSharding(MESH, P(None, "y")))
    gradient = weft.jit(weft.grad(f))(x)
    np.testing.assert_array_equal(gradient, np.ones((8, 4)) + (np.arange(8) == 0)[:, None])
    assert {name: s.spec for name, s in seen} == {"carry": P("y"), "mapped": P(None, "y")}


def test_on_one_device_it_is_that_device():
    seen = []
    weft.jit(looking(seen, "x"))(np.ones(3, np.float32))
    assert [s.device_set for _, s in seen] == [{weft.devices()[0]}]


def test_an_array_is_drawn_under_jit(capsys):
    def f(x):
        weft.debug.visualize_array_sharding(x.T, use_color=False)
        return x

    weft.jit(f)(weft.device_put(np.ones((4, 8)), NamedSharding(MESH, P("x"))))
    assert capsys.readouterr().out.count("CPU") == 4


def test_a_device_s_part_has_no_sharding_to_tell():
    def part(x):
        looking([], "x")(x)
        return x

    f = weft.shard_map(part, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(ValueError, match="one device's part; look at the argument outside"):
        weft.jit(f)(np.ones(8, np.float32))


def test_without_shardy_only_xla_knows():
    before = weft.config.use_shardy
    weft.config.update("use_shardy", False)
    try:
        with pytest.raises(ValueError, match="set weft.config.use_shardy"):
            weft.jit(product([]))(*inputs())
    finally:
        weft.config.update("use_shardy", before)


@pytest.mark.parametrize(
    ("value", "callback", "said"),
    [(3.0, print, "value must be an array"), (np.ones, None, "callback must be a function")],
)
def test_wrong_arguments_are_named(value, callback, said):
    with pytest.raises(TypeError, match=said):
        weft.debug.inspect_array_sharding(value, callback=callback)
