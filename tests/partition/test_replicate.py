"""Small programs run whole on every device where that sends less."""

import numpy as np
import pytest

import weft
from tests.partition import corpus
from tests.partition.corpus.reference import leaves
from weft import NamedSharding, P
from weft._xla import mlir
from weft._xla.mlir import ir
from weft.partition import replicate


@pytest.fixture(autouse=True)
def on_shards():
    """Programs may run whole here."""


def mesh():
    return weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Auto,) * 2)


def arguments(*shapes, spec):
    rows = NamedSharding(mesh(), P(*spec))
    return [weft.ShapeDtypeStruct(shape, "float32", sharding=rows) for shape in shapes]


def power_iterations(pin=lambda v: v, turns=20):
    def run(matrix, vector):
        def turn(_, vector):
            vector = pin(matrix @ (matrix.T @ vector))
            return vector / weft.numpy.sqrt((vector**2).sum())

        return weft.lax.fori_loop(0, turns, turn, vector)

    return run


def sent(function, args):
    report = weft.comm(weft.jit(function), *args)
    return report.counts(), report.total_bytes


def test_a_small_loop_that_sums_in_each_turn_gathers_its_arguments_once():
    counts, total = sent(power_iterations(), arguments((16, 8), (16,), spec=("x",)))
    assert counts == {"all_gather": 1}
    assert total == 3 * (4 * 8 + 4) * 4


def test_a_larger_one_stays_on_shards():
    counts, _ = sent(power_iterations(), arguments((512, 256), (512,), spec=("x",)))
    assert "all_gather" not in counts


@pytest.mark.parametrize("size, gathers", [(16, 1), (64, 20)])
def test_much_work_on_little_data_stays_on_shards(size, gathers):
    """A product of 64 × 64 takes longer than a collective's latency, one of 16 × 16 does not."""

    def run(a):
        return weft.lax.fori_loop(0, 20, lambda _, a: weft.numpy.tanh(a @ a), a)

    split = NamedSharding(mesh(), P(None, "x"))
    counts, _ = sent(run, [weft.ShapeDtypeStruct((size, size), "float32", sharding=split)])
    assert counts == {"all_gather": gathers}


def test_what_the_user_constrains_stays_split():
    rows = NamedSharding(mesh(), P("x"))
    pinned = power_iterations(lambda v: weft.lax.with_sharding_constraint(v, rows))
    counts, _ = sent(pinned, arguments((16, 8), (16,), spec=("x",)))
    assert "all_reduce" in counts


def test_what_types_over_explicit_axes_split_stays_split():
    explicit = weft.make_mesh((4, 2), ("x", "y"), axis_types=(weft.AxisType.Explicit,) * 2)

    def run(matrix, vector):
        def turn(_, vector):
            sums = weft.numpy.einsum("ij,i->j", matrix, vector, out_sharding=P(None))
            return weft.numpy.tanh(matrix @ sums)

        return weft.lax.fori_loop(0, 20, turn, vector)

    with weft.set_mesh(explicit):
        rows = NamedSharding(explicit, P("x"))
        args = [weft.device_put(np.ones(s, np.float32), rows) for s in ((16, 8), (16,))]
        counts, _ = sent(run, args)
    assert counts == {"all_reduce": 20}


def test_one_sum_stays_a_sum():
    def loss(w, x):
        return ((x @ w) ** 2).mean()

    x, w = arguments((8, 4), spec=("x",))[0], arguments((4, 4), spec=())[0]
    counts, _ = sent(weft.grad(loss), (w, x))
    assert counts == {"all_reduce": 1}


def test_results_keep_the_shardings_of_the_program_on_shards(monkeypatch):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s).astype(np.float32) for s in ((16, 8), (16,))]
    rows = NamedSharding(mesh(), P("x"))
    args = [weft.device_put(v, rows) for v in values]
    got = weft.jit(power_iterations())(*args)
    monkeypatch.setattr(replicate, "LARGEST", -1)
    split = weft.jit(power_iterations())(*args)
    assert got.sharding.is_equivalent_to(split.sharding, 1)
    vector = values[1]
    for _ in range(20):
        vector = values[0] @ (values[0].T @ vector)
        vector = vector / np.sqrt((vector**2).sum())
    np.testing.assert_allclose(np.asarray(got), vector, rtol=1e-4, atol=1e-5)


NAMES = ("gated_linear_attention-0", "cheap_attention-0", "forward_probabilities-1", "quantized-1")


@pytest.mark.parametrize("name", [*NAMES, "reweighted_squares-1", "complex_states_gradient-0"])
def test_programs_that_run_whole_equal_numpy(name):
    program, _, variant = name.rpartition("-")
    case = corpus.case(program, int(variant))
    function = case.function(weft, partitioner="weft")
    assert set(weft.comm(function, *case.args).counts()) == {"all_gather"}
    for a, b in zip(leaves(function(*case.args)), case.entry.expected(*case.args), strict=True):
        scale = case.entry.tolerance
        np.testing.assert_allclose(np.asarray(a), b, rtol=scale, atol=scale / 10)


def test_a_program_with_partial_sums_at_its_boundary_stays_split():
    """An argument that is typed as a sum over devices says where it is to be added up."""
    text = """module {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]SUMS>}) -> tensor<8xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
      : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}"""
    small = {}
    for sums in ("", ', unreduced={"y"}'):
        with mlir.context() as context:
            module = ir.Module.parse(text.replace("SUMS", sums), context)
            small[sums] = replicate.is_small(module)
    assert list(small.values()) == [True, False]
