# ruff: noqa: E501 - lines of MLIR text read better whole
"""The local program of one device computes what the global program means, on 8 devices."""

import os

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.partition import harness, programs
from weft._xla import mlir
from weft.partition import Unsupported, partition
from weft.partition.check import check

# `python -m tests.partition.fuzz 100000` goes on for as long as it takes.
EXAMPLES = int(os.environ.get("WEFT_PARTITION_EXAMPLES", "2000"))
SHARES = 20  # so that several processes can share the work


@pytest.mark.parametrize("share", range(SHARES))
def test_random_chains_of_operations_equal_numpy_on_any_sharding(share):
    @settings(max_examples=-(-EXAMPLES // SHARES), phases=[Phase.generate])
    @given(st.integers(0, 2**32 - 1))
    def equal(seed):
        rng = np.random.default_rng((share, seed))
        text, args, want = programs.random_program(rng, steps=6)
        stages = partition(mlir.parse(text), keep_stages=False)
        check(stages)
        [got] = harness.execute(stages, *args)
        np.testing.assert_array_equal(got, want, err_msg=text)

    equal()


@pytest.mark.parametrize("step", sorted(set(programs.STEPS), key=lambda s: s.__name__))
def test_every_kind_of_operation_equals_numpy(step, rng):
    done = 0
    while done < 2:
        text, args, want = programs.random_program(rng, steps=2, table=(step, programs.unary))
        if step is not programs.unary and text.count("stablehlo.") < 2:
            continue
        [got] = harness.run(text, *args)
        np.testing.assert_array_equal(got, want, err_msg=text)
        done += 1


def module(body: str, mesh: str = '"x"=4, "y"=2') -> str:
    return f"module {{\n  sdy.mesh @mesh = <[{mesh}]>\n{body}\n}}"


def sharding(*dims: str, extra: str = "") -> str:
    return f"{{sdy.sharding = #sdy.sharding<@mesh, [{', '.join(dims)}]{extra}>}}"


def resharded(mesh: str, shape: str, before: str, op: str, after: str, result: str) -> str:
    """One operation on `%0`, between two constraints."""
    return module(
        f"""
  func.func public @main(%a: tensor<{shape}xf32>) -> tensor<{result}xf32> {{
    %0 = sdy.sharding_constraint %a <@mesh, [{before}]> : tensor<{shape}xf32>
    %1 = {op} : (tensor<{shape}xf32>) -> tensor<{result}xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{after}]> : tensor<{result}xf32>
    return %2 : tensor<{result}xf32>
  }}""",
        mesh,
    )


@pytest.mark.parametrize(
    "mesh, a, before, b, after",
    [
        ('"x"=2, "y"=3', (30, 6), '{"x"}, {"y"}', (3, 2, 5, 6), '{"y"}, {}, {}, {}'),
        ('"x"=2, "y"=3', (2, 3, 4, 2), '{}, {"y"}, {}, {"x"}', (24, 2), '{"y"}, {"x"}'),
        ('"x"=2, "y"=3', (18,), '{"x", "y"}', (3, 2, 1, 3), '{"y"}, {}, {"x"}, {}'),
    ],
)
def test_one_dimension_becomes_three_on_axes_of_different_primes(mesh, a, before, b, after, rng):
    shapes = ["x".join(map(str, s)) for s in (a, b)]
    text = resharded(mesh, shapes[0], before, "stablehlo.reshape %0", after, shapes[1])
    x = rng.normal(size=a).astype(np.float32)
    np.testing.assert_array_equal(harness.run(text, x)[0], x.reshape(b))


def test_a_transposed_operand_padded_for_all_to_all_compiles(rng):
    x = rng.normal(size=(2, 3, 5, 5)).astype(np.float32)
    t = "tensor<5x2x5x3xf32>"
    text = module(f"""
  func.func public @main(%a: tensor<2x3x5x5xf32>) -> tensor<2x3xf32> {{
    %0 = sdy.sharding_constraint %a <@mesh, [{{"y"}}, {{}}, {{}}, {{}}]> : tensor<2x3x5x5xf32>
    %1 = stablehlo.transpose %0, dims = [3, 0, 2, 1] : (tensor<2x3x5x5xf32>) -> {t}
    %2 = sdy.sharding_constraint %1 <@mesh, [{{}}, {{"y"}}, {{}}, {{}}]> : {t}
    %3 = sdy.sharding_constraint %2 <@mesh, [{{}}, {{}}, {{}}, {{"y"}}]> : {t}
    %4 = stablehlo.negate %3 : {t}
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %c) applies stablehlo.maximum across dimensions = [0, 2] : ({t}, tensor<f32>) -> tensor<2x3xf32>
    return %5 : tensor<2x3xf32>
  }}""")
    assert "all_to_all" in str(partition(mlir.parse(text)).local)
    want = np.maximum(-x.transpose(3, 0, 2, 1).min((0, 2)), 0)
    np.testing.assert_array_equal(harness.run(text, x)[0], want)


def test_results_keep_the_sharding_of_the_signature(rng):
    x = rng.normal(size=(8, 6)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', '{"y"}')})
      -> (tensor<6x8xf32> {sharding('{"x":(1)2, "y"}', '{"x":(2)2}')}) {{
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>
  }}""").replace('"x":(1)2, "y"', '"y"')
    stages = partition(mlir.parse(text))
    assert [r.local for r in stages.results] == [(3, 4)]
    np.testing.assert_array_equal(harness.execute(stages, x)[0], x.T)


def test_device_ids_of_the_mesh_decide_who_holds_what(rng):
    x = rng.normal(size=(8, 4)).astype(np.float32)
    text = f"""module {{
  sdy.mesh @mesh = <["x"=4, "y"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
  func.func public @main(%a: tensor<8x4xf32> {sharding('{"x"}', "{}")}) -> tensor<8x4xf32> {{
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>
    %i = stablehlo.iota dim = 0 : tensor<8x4xf32>
    %1 = stablehlo.add %0, %i : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }}
}}"""
    want = x[::-1] + np.arange(8, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(harness.run(text, x)[0], want)


def test_manual_computation_runs_its_own_collectives(rng):
    x = rng.integers(-4, 5, (8, 6)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', '{"y"}')}) -> tensor<2x6xf32> {{
    %0 = stablehlo.negate %a : tensor<8x6xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
        out_shardings=[<@mesh, [{{}}, {{"y"}}]>] manual_axes={{"x"}} (%b: tensor<2x6xf32>) {{
      %2 = "stablehlo.all_reduce"(%b) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}}> ({{
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %s = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : (tensor<2x6xf32>) -> tensor<2x6xf32>
      %3 = stablehlo.abs %2 : tensor<2x6xf32>
      sdy.return %3 : tensor<2x6xf32>
    }} : (tensor<8x6xf32>) -> tensor<2x6xf32>
    return %1 : tensor<2x6xf32>
  }}""")
    want = np.abs(-x.reshape(4, 2, 6).sum(0))
    np.testing.assert_array_equal(harness.run(text, x)[0], want)


def test_partition_id_in_a_manual_computation_is_the_device(rng):
    x = np.zeros((8, 2), np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<8x2xf32> {sharding('{"x", "y"}', "{}")}) -> tensor<8x2xf32> {{
    %1 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x", "y"}}, {{}}]>]
        out_shardings=[<@mesh, [{{"x", "y"}}, {{}}]>] manual_axes={{"x", "y"}} (%b: tensor<1x2xf32>) {{
      %p = stablehlo.partition_id : tensor<ui32>
      %f = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
      %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x2xf32>
      sdy.return %g : tensor<1x2xf32>
    }} : (tensor<8x2xf32>) -> tensor<8x2xf32>
    return %1 : tensor<8x2xf32>
  }}""")
    want = np.repeat(np.arange(8, dtype=np.float32)[:, None], 2, 1)
    np.testing.assert_array_equal(harness.run(text, x)[0], want)


def test_unreduced_arguments_are_summed_when_reduced(rng):
    x = rng.integers(-4, 5, (4, 6)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<4x6xf32> {sharding("{}", "{}")}) -> tensor<4x6xf32> {{
    %0 = sdy.sharding_constraint %a <@mesh, [{{}}, {{}}], unreduced={{"x"}}> : tensor<4x6xf32>
    %1 = stablehlo.add %0, %0 : tensor<4x6xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{{"y"}}, {{}}]> : tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }}""")
    np.testing.assert_array_equal(harness.run(text, x)[0], 2 * x)


def test_max_and_min_over_a_split_dimension_are_not_summed(rng):
    x = rng.normal(size=(8, 6)).astype(np.float32)
    reduce = "stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [0]"
    text = module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', "{}")}) -> tensor<6xf32> {{
    %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = {reduce} : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }}""")
    np.testing.assert_array_equal(harness.run(text, x)[0], x.max(0))


@pytest.mark.parametrize("combiner", ["multiply", "add"])
def test_split_updates_of_a_scatter_meet_the_operand_once(combiner, rng):
    x = rng.integers(1, 4, (6, 2)).astype(np.float32)
    u = rng.integers(1, 3, (8, 2)).astype(np.float32)
    i = rng.integers(0, 6, (8, 1)).astype(np.int32)
    text = module(f"""
  func.func public @main(%a: tensor<6x2xf32> {sharding('{"y"}', "{}")},
      %i: tensor<8x1xi32> {sharding('{"x"}', "{}")},
      %u: tensor<8x2xf32> {sharding('{"x"}', "{}")}) -> tensor<6x2xf32> {{
    %0 = "stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>}}> ({{
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.{combiner} %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<6x2xf32>, tensor<8x1xi32>, tensor<8x2xf32>) -> tensor<6x2xf32>
    return %0 : tensor<6x2xf32>
  }}""")
    want = x.copy()
    ufunc = {"add": np.add, "multiply": np.multiply}[combiner]
    ufunc.at(want, i[:, 0], u)
    np.testing.assert_array_equal(harness.run(text, x, i, u)[0], want)


@pytest.mark.parametrize("column", range(8))
def test_a_column_written_on_one_device_stays_on_others(column, rng):
    x = rng.integers(-4, 5, (5, 8)).astype(np.float32)
    u = rng.integers(5, 9, (1, 5)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<5x8xf32> {sharding("{}", "{}")}, %u: tensor<1x5xf32> {sharding("{}", "{}")}) -> tensor<5x8xf32> {{
    %0 = sdy.sharding_constraint %a <@mesh, [{{}}, {{"x"}}]> : tensor<5x8xf32>
    %i = stablehlo.constant dense<{column}> : tensor<1x1xi32>
    %1 = "stablehlo.scatter"(%0, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1],
      index_vector_dim = 1>}}> ({{
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      stablehlo.return %r : tensor<f32>
    }}) : (tensor<5x8xf32>, tensor<1x1xi32>, tensor<1x5xf32>) -> tensor<5x8xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{{}}, {{"x"}}]> : tensor<5x8xf32>
    return %2 : tensor<5x8xf32>
  }}""")
    want = x.copy()
    want[:, column] = u[0]
    np.testing.assert_array_equal(harness.run(text, x, u)[0], want)


@pytest.mark.parametrize("start", [-3, 0, 4, 5, 11, 20])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("element", ["f32", "i1", "ui8"])
def test_rows_of_a_split_dimension_come_from_their_owners_alone(element, rows, start, rng):
    """13 rows over 4 devices: the last has one, and padding behind it; indices are clamped."""
    dtype = {"f32": np.float32, "i1": np.bool_, "ui8": np.uint8}[element]
    x = rng.integers(1, 2 if element == "i1" else 250, (16, 20000)).astype(dtype)
    x[:, ::3] = 0
    text = module(f"""
  func.func public @main(%a: tensor<16x20000x{element}> {sharding('{"x"}', "{}")}, %i: tensor<i32>)
      -> (tensor<{rows}x20000x{element}> {sharding("{}", "{}")}) {{
    %b = stablehlo.slice %a [0:13, 0:20000] : (tensor<16x20000x{element}>) -> tensor<13x20000x{element}>
    %c = sdy.sharding_constraint %b <@mesh, [{{"x"}}, {{}}]> : tensor<13x20000x{element}>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %c, %i, %zero, sizes = [{rows}, 20000]
        : (tensor<13x20000x{element}>, tensor<i32>, tensor<i32>) -> tensor<{rows}x20000x{element}>
    return %0 : tensor<{rows}x20000x{element}>
  }}""")
    stages = partition(mlir.parse(text))
    [got] = harness.execute(stages, x, np.int32(start))
    first = np.clip(start, 0, 13 - rows)
    np.testing.assert_array_equal(got, x[first : first + rows])
    local = str(stages.local)
    assert local.count('"stablehlo.all_reduce"') == 1  # of these rows; a gather would send them all
    assert "stablehlo.all_gather" not in local


def test_chlo_operations_stay_whole_in_the_local_program(rng):
    x = rng.normal(size=(8, 6)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', '{"y"}')})
      -> (tensor<8x6xf32>, tensor<8x2xf32>) {{
    %0 = chlo.erf %a : tensor<8x6xf32> -> tensor<8x6xf32>
    %v, %i = chlo.top_k(%a, k = 2) : tensor<8x6xf32> -> (tensor<8x2xf32>, tensor<8x2xi32>)
    return %0, %v : tensor<8x6xf32>, tensor<8x2xf32>
  }}""")
    stages = partition(mlir.parse(text))
    assert "chlo.erf %" in str(stages.local) and "custom_call" not in str(stages.local)
    erf, top = harness.execute(stages, x)
    from math import erf as reference

    np.testing.assert_allclose(erf, np.vectorize(reference)(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(top, -np.sort(-x, axis=1)[:, :2])


def custom_call(attributes: str) -> str:
    return module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', '{"y"}')}) -> tensor<8x6xf32> {{
    %0 = stablehlo.custom_call @f(%a) {{{attributes}}} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }}""")


@pytest.mark.parametrize(
    "attributes, local",
    [
        ('mhlo.frontend_attributes = {num_batch_dims = "1"}', "tensor<8x6xf32>"),
        (
            "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=6}, custom>",
            "tensor<2x3xf32>",
        ),
        (
            "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=6}"
            ' need_replication={j}, custom>, mhlo.frontend_attributes = {num_batch_dims = "1"}',
            "tensor<2x6xf32>",
        ),
        ("", "tensor<8x6xf32>"),
    ],
)
def test_custom_calls_are_split_as_far_as_they_allow(attributes, local):
    stages = partition(mlir.parse(custom_call(attributes)))
    [line] = [x for x in str(stages.local).splitlines() if "custom_call" in x]
    assert line.rstrip().endswith(f"({local}) -> {local}")


def test_a_split_sum_of_a_custom_call_is_reduced():
    rule = "([i, j])->([i]) {i=8, j=6} reduction={j}, custom"
    text = module(f"""
  func.func public @main(%a: tensor<8x6xf32> {sharding('{"x"}', '{"y"}')}) -> tensor<8xf32> {{
    %0 = stablehlo.custom_call @f(%a) {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}}
        : (tensor<8x6xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}""")
    local = str(partition(mlir.parse(text)).local)
    assert "(tensor<2x3xf32>) -> tensor<2xf32>" in local and local.count("all_reduce") == 1


def test_complex_constants_and_fft(rng):
    x = (rng.normal(size=(8, 8)) + 1j * rng.normal(size=(8, 8))).astype(np.complex64)
    t = "tensor<8x8xcomplex<f32>>"
    text = module(f"""
  func.func public @main(%a: {t} {sharding('{"x"}', '{"y"}')}) -> {t} {{
    %c = stablehlo.constant dense<(2.0, 1.0)> : {t}
    %0 = stablehlo.fft %a, type = FFT, length = [8] : ({t}) -> {t}
    %1 = stablehlo.multiply %0, %c : {t}
    return %1 : {t}
  }}""")
    np.testing.assert_allclose(
        harness.run(text, x)[0], np.fft.fft(x) * (2 + 1j), rtol=1e-4, atol=1e-4
    )


def test_matrices_are_solved_on_split_batches(rng):
    a = np.tril(rng.normal(size=(8, 4, 4))).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    b = rng.normal(size=(8, 4, 2)).astype(np.float32)
    text = module(f"""
  func.func public @main(%a: tensor<8x4x4xf32> {sharding('{"x"}', '{"y"}', "{}")},
      %b: tensor<8x4x2xf32> {sharding('{"x"}', "{}", '{"y"}')}) -> tensor<8x4x2xf32> {{
    %0 = "stablehlo.triangular_solve"(%a, %b) <{{left_side = true, lower = true, unit_diagonal = false,
      transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}>
      : (tensor<8x4x4xf32>, tensor<8x4x2xf32>) -> tensor<8x4x2xf32>
    return %0 : tensor<8x4x2xf32>
  }}""")
    np.testing.assert_allclose(
        harness.run(text, a, b)[0], np.linalg.solve(a, b), rtol=1e-3, atol=1e-3
    )


def test_random_bits_do_not_depend_on_the_sharding():
    def bits(spec):
        text = module(f"""
  func.func public @main(%a: tensor<2x2xui32>) -> tensor<6x8xui32> {{
    %k = stablehlo.bitcast_convert %a : (tensor<2x2xui32>) -> tensor<2xui64>
    %s, %0 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<6x8xui32>)
    %1 = sdy.sharding_constraint %0 <@mesh, [{spec}]> : tensor<6x8xui32>
    return %1 : tensor<6x8xui32>
  }}""")
        return harness.run(text, np.array([[1, 2], [3, 4]], np.uint32))[0]

    whole = bits("{}, {}")
    assert len(np.unique(whole)) > 40
    np.testing.assert_array_equal(bits('{"y"}, {"x"}'), whole)


def test_an_operation_without_a_rule_is_named_with_its_line():
    text = module("""
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<8xf32>) loc("model.py":7:1)
    return %0 : tensor<8xf32>
  }""").replace(
        '%0 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<8xf32>)',
        "%t = stablehlo.create_token : !stablehlo.token\n"
        '    %0, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<8xf32>, !stablehlo.token)',
    )
    with pytest.raises(Unsupported) as caught:
        partition(mlir.parse(text))
    assert caught.value.op == "stablehlo.infeed" and "model.py" in caught.value.location


def test_the_module_given_is_not_changed():
    given = mlir.parse(custom_call(""))
    before = str(given)
    partition(given)
    assert str(given) == before


def test_a_module_without_a_mesh_is_its_own_local_program(rng):
    text = """module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.negate %a : tensor<4xf32>
      return %0 : tensor<4xf32> } }"""
    stages = partition(mlir.parse(text))
    assert stages.mesh.size == 1 and "stablehlo.negate" in str(stages.local)


def test_programs_over_equal_meshes_share_the_routes_between_layouts():
    text = """module {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    return %a : tensor<8x8xf32>
  }
}"""
    first, second = (partition(mlir.parse(text)) for _ in range(2))
    turned = partition(mlir.parse(text.replace('"x"=4, "y"=2', '"x"=2, "y"=4')))
    assert first.mesh is second.mesh and first.mesh.routes
    assert turned.mesh is not first.mesh
    assert str(first.local) == str(second.local) != str(turned.local)
