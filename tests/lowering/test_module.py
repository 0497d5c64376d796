"""StableHLO text: module attributes, meshes, shardings, names and locations, in both notations."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.core.config import options
from weft.sharding import AxisType, NamedSharding

MESH = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = weft.make_mesh((4, 2), ("x", "y"))
MIXED = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
X = np.ones((8, 64), np.float32)


def over(mesh, *entries, **kwargs):
    return NamedSharding(mesh, P(*entries, **kwargs))


def text(f, *args, debug_info=False, **jit_options):
    return weft.jit(f, **jit_options).lower(*args).as_text(debug_info=debug_info)


def double(x):
    return x * 2


def test_the_module_of_a_sharded_function():
    s = over(MESH, "x", "y")
    assert text(double, X, in_shardings=s, out_shardings=s).split("\n") == [
        "module @jit_double attributes "
        "{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {",
        '  sdy.mesh @mesh = <["x"=4, "y"=2]>',
        "  func.func public @main(%arg0: tensor<8x64xf32> "
        '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> '
        '(tensor<8x64xf32> {jax.result_info = "result", '
        'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {',
        "    %cst = stablehlo.constant dense<2.000000e+00> : tensor<8x64xf32>",
        "    %0 = stablehlo.multiply %arg0, %cst : tensor<8x64xf32>",
        "    return %0 : tensor<8x64xf32>",
        "  }",
        "}",
        "",
    ]


def test_without_shardy_the_same_function_has_gspmd_attributes():
    with options["use_shardy"](False):
        s = over(MESH, "x", "y")
        module = text(double, X, in_shardings=s, out_shardings=s)
        np.testing.assert_array_equal(weft.jit(double, in_shardings=s)(X), 2 * X)
    assert "sdy" not in module
    assert 'tensor<8x64xf32> {mhlo.sharding = "{devices=[4,2]<=[8]}"}' in module
    assert 'result_info = "result", mhlo.sharding = "{devices=[4,2]<=[8]}"}' in module


def test_on_one_device_there_is_neither_mesh_nor_sharding():
    module = text(double, X)
    assert "num_partitions = 1" in module and "sdy" not in module and "sharding" not in module


@pytest.mark.parametrize(
    ("spec", "sdy"),
    [
        (P("x", "y"), '[{"x"}, {"y"}]'),
        (P("x"), '[{"x"}, {}]'),
        (P(), "[{}, {}]"),
        (P(None, ("x", "y")), '[{}, {"x", "y"}]'),
        (P(("y", "x")), '[{"y", "x"}, {}]'),
        (P("x", P.UNCONSTRAINED), '[{"x"}, {?}]'),
        (P(P.UNCONSTRAINED, P.UNCONSTRAINED), "[{?}, {?}]"),
    ],
)
def test_dimensions_of_a_constraint_are_closed_unless_unconstrained(spec, sdy):
    s = NamedSharding(MESH, spec)
    module = text(lambda x: lax.with_sharding_constraint(x + 1, s), X)
    assert f"sdy.sharding_constraint %0 <@mesh, {sdy}> : tensor<8x64xf32>" in module


def test_arguments_and_results_without_a_sharding_are_left_to_the_partitioner():
    module = text(lambda x, y: x + y, X, X, in_shardings=(over(MESH, "x"), None))
    (line,) = [line for line in module.split("\n") if "@main" in line]
    assert line.count("sdy.sharding =") == 1 and '[{"x"}, {}]' in line


def test_committed_arguments_bring_their_sharding():
    module = text(double, weft.device_put(X, over(MESH, None, "y")))
    assert '%arg0: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}' in module


def test_priorities_rank_the_dimensions_of_a_constraint():
    s = over(MESH, "x", "y")
    module = text(lambda x: lax.with_sharding_constraint(x, s, priorities={0: 1, 1: 0}), X)
    assert '<@mesh, [{"x"}p1, {"y"}p0]>' in module


def test_partial_sums_are_unreduced_until_they_are_added_up():
    def f(a, b):
        partial = wnp.matmul(a, b, out_sharding=P(None, None, unreduced={"x"}))
        return weft.reshard(partial, P())

    with weft.set_mesh(EXPLICIT):
        a = weft.device_put(X, P(None, "x"))
        b = weft.device_put(X.T, P("x", None))
        module = text(f, a, b)
        np.testing.assert_array_equal(weft.jit(f)(a, b), X @ X.T)
    # XLA's partitioner takes a partial sum from a constraint only; weft's own marks the product.
    assert 'sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}>' in module
    assert "sdy.sharding_constraint %1 <@mesh, [{}, {}]>" in module


def test_types_over_explicit_axes_annotate_every_op():
    x = weft.device_put(X, over(EXPLICIT, "x"))
    module = text(lambda x: wnp.sin(x).T, x)
    assert re.search(r'sine %arg0 \{sdy.sharding = .*<\[<@mesh, \[\{"x"\}, ', module)
    assert re.search(r'transpose.*sharding_per_value<\[<@mesh, \[\{\}, \{"x"\}\]>\]>', module)
    assert 'result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>' in module


def test_types_of_a_mixed_mesh_leave_dimensions_open_for_its_auto_axes():
    x = weft.device_put(X, over(MIXED, "x"))
    module = text(wnp.sin, x)
    assert 'sharding_per_value<[<@mesh, [{"x", ?}, {?}]>]>' in module


def test_unconstrained_dimensions_in_gspmd_notation():
    s = over(MESH, "x", P.UNCONSTRAINED)
    with options["use_shardy"](False):
        module = text(lambda x: lax.with_sharding_constraint(x, s), X)
    assert "custom_call @Sharding(%arg0)" in module
    assert 'backend_config = "unspecified_dims=[1]"' in module
    assert '"{devices=[4,1,2]<=[8] last_tile_dim_replicate}"' in module


def test_a_mesh_in_another_device_order_lowers_to_the_same_module():
    reverse = weft.make_mesh((4, 2), ("x", "y"), devices=weft.devices()[::-1])
    first, second = (
        text(double, X, in_shardings=over(m, "x"), out_shardings=over(m, "x"))
        for m in (EXPLICIT, reverse)
    )
    assert first == second, "device ids are no part of the program, but of its compilation"
    out = weft.jit(double, in_shardings=over(reverse, "x"))(X)
    assert out.addressable_shards[0].device == weft.devices()[-1]


def test_donated_arguments_alias_results_or_are_given_away():
    module = text(lambda x, y: x + y, X, X, donate_argnums=0)
    assert "tf.aliasing_output = 0 : i32" in module
    s = over(MESH, "x")
    module = text(lambda x: x.sum(0), X, donate_argnums=0, in_shardings=s)
    assert "jax.buffer_donor = true" in module and "aliasing_output" not in module


# Names and locations ------------------------------------------------------------------------------


def loss(params, x, *, scale):
    y = x @ params["w"]
    with weft.named_scope("head"):
        total = wnp.sum(wnp.sin(y))
    return {"loss": total * scale, "y": [y]}


def loss_text(debug_info):
    return weft.jit(loss).lower({"w": X.T}, X, scale=2.0).as_text(debug_info=debug_info)


def test_results_and_arguments_are_named_by_their_paths():
    module = loss_text(debug_info=True)
    results = re.findall(r'jax.result_info = "([^"]*)"', module)
    assert results == ["result['loss']", "result['y'][0]"]
    arguments = re.findall(r'%arg\d+: [^ ]+ loc\("([^"]*)"\)', module)
    assert arguments == ["params['w']", "x", "scale"]


def test_operations_carry_the_users_line_column_and_scopes():
    module = loss_text(debug_info=True)
    first = loss.__code__.co_firstlineno
    places = dict(re.findall(r"(#loc\d*) = loc\(\"[^\"]*test_module.py\":(\d+):\d+\)", module))
    named = re.findall(r'loc\("([^"]+)"\((#loc\d*)\)\)', module)
    lines = {name: int(places[loc]) - first for name, loc in named if loc in places}
    assert lines["dot_general"] == 1
    assert lines["head/sin"] == 3 and lines["head/reduce_sum"] == 3
    assert lines["mul"] == 4


def test_locations_are_left_out_unless_asked_for():
    assert "loc(" not in loss_text(debug_info=False)


def test_a_function_called_twice_is_lowered_once():
    inner = weft.jit(lambda x: wnp.sin(x) * 2)
    module = text(lambda x: inner(inner(x)), X)
    assert module.count("func.func private") == 1 and module.count("call @_lambda_") == 2


def test_hlo_text_is_the_other_dialect():
    lowered = weft.jit(double).lower(X)
    assert lowered.as_text("hlo").startswith("HloModule")
    assert "test_module.py" not in lowered.as_text("hlo")
    assert "test_module.py" in lowered.as_text("hlo", debug_info=True)
    assert lowered.compiler_ir().operation.name == "builtin.module"
    assert lowered.compiler_ir("hlo").as_hlo_text() == lowered.as_text("hlo")
    for form in (lowered.as_text, lowered.compiler_ir):
        with pytest.raises(ValueError, match="'stablehlo' or 'hlo', got 'mhlo'"):
            form("mhlo")


def test_the_parts_of_an_op_are_at_the_line_that_called_it():
    def program(x):
        with weft.named_scope("first"):
            y = weft.nn.softmax(x)
        return weft.nn.softmax(y * 2)

    line = program.__code__.co_firstlineno
    text = weft.jit(program).lower(np.ones((3, 4), np.float32)).as_text(debug_info=True)
    places = dict(re.findall(r'#(loc\d+) = loc\("[^"]*test_module\.py":(\d+):', text))
    names = re.findall(r'loc\("([\w/]*softmax)"\(#(loc\d+)\)\)', text)
    assert [(n, int(places[at]) - line) for n, at in names] == [
        ("first/softmax", 2),
        ("softmax", 3),
    ]
    assert "exp" not in re.findall(r'loc\("(\w+)"\(', text)


def test_an_op_that_a_loop_repeats_is_a_function_from_the_second_time_on():
    def layers(x):
        for _ in range(4):
            x = weft.nn.softmax(x * 2)
        return weft.nn.softmax(x)

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    text = weft.jit(layers).lower(x).as_text()
    assert text.count("func.func private @softmax") == 1
    assert text.count("call @softmax(") == 3
    assert text.count("stablehlo.exponential") == 3  # the first, the function, the last line's

    def softmax(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    expected = x
    for _ in range(4):
        expected = softmax(expected * 2)
    np.testing.assert_allclose(weft.jit(layers)(x), softmax(expected), rtol=1e-6)


def test_an_op_that_a_loop_repeats_is_inline_over_several_devices():
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    x = weft.device_put(np.ones((8, 4), np.float32), weft.NamedSharding(mesh, weft.P("d")))

    def layers(x):
        for _ in range(3):
            x = weft.nn.softmax(x)
        return x

    text = weft.jit(layers).lower(x).as_text()
    assert "call @" not in text and text.count("stablehlo.exponential") == 3


def test_communication_inside_an_op_is_told_by_the_line_that_called_it():
    mesh = weft.make_mesh((8,), ("d",), axis_types=(weft.AxisType.Auto,))
    x = weft.device_put(np.ones((4, 8), np.float32), weft.NamedSharding(mesh, weft.P(None, "d")))

    def program(x):
        y = x * 2
        return weft.nn.softmax(y)

    weft.jit(lambda x: weft.nn.softmax(x)).lower(x)  # traces the parts here first
    lines = {c.source.rpartition(":")[2] for c in weft.comm(program, x).collectives}
    assert lines == {str(program.__code__.co_firstlineno + 2)}
