"""Explicit shardings of results: every op's factors, against NumPy and the propagated placement."""

import importlib
import pkgutil

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import P, lax
from weft.core.primitive import PRIMITIVES
from weft.errors import ShardingTypeError
from weft.sharding import AxisType, NamedSharding
from weft.sharding.factors import RULES, parse_factors

MESH = weft.make_mesh((4, 2), ("x", "y"))
AUTO = weft.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
RNG = np.random.default_rng(0)


def array(*shape, dtype=np.float32):
    if dtype is np.int32:
        return RNG.integers(0, 4, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def put(value, spec, mesh=MESH):
    return weft.device_put(value, NamedSharding(mesh, spec))


def spec_of(x):
    return weft.typeof(x).sharding.spec.padded(x.ndim)


def gather_rows(x, i):
    return x[i]


A, B, M, V, I = array(8, 4), array(8, 4), array(4, 8), array(8), array(8, dtype=np.int32)
CUBE = array(4, 8, 2)
IMAGE, KERNEL = array(4, 2, 8, 8), array(4, 2, 3, 3)
SQUARES = array(4, 3, 3)
SQUARES = SQUARES @ SQUARES.transpose(0, 2, 1) + 3 * np.eye(3, dtype=np.float32)


def conv_reference(x, k):
    pads = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(pads, (3, 3), (2, 3))
    return np.einsum("bihwkl,oikl->bohw", windows, k)


TABLE = [
    # name, operands with their specs, the op, NumPy's, the result's spec
    ("unary", [(A, P("x", "y"))], lax.sin, np.sin, P("x", "y")),
    ("joint axes", [(array(8, 2), P(("x", "y")))], lax.exp, np.exp, P(("x", "y"), None)),
    ("binary", [(A, P("x", "y")), (B, P("x", "y"))], lax.mul, np.multiply, P("x", "y")),
    ("binary with replicated", [(A, P("x")), (B, P(None, "y"))], lax.add, np.add, P("x", "y")),
    ("binary with scalar", [(A, P("x"))], lambda x: x * 2.0 + 1, lambda x: x * 2 + 1, P("x", None)),
    (
        "select",
        [(A > 0, P("x")), (A, P("x")), (B, P())],
        lambda c, x, y: wnp.where(c, x, y),
        np.where,
        P("x", None),
    ),
    (
        "broadcast vector",
        [(A, P(None, "y")), (V[:4], P("y"))],
        lambda x, v: x + v,
        np.add,
        P(None, "y"),
    ),
    (
        "broadcast_in_dim",
        [(V, P("x"))],
        lambda v: lax.broadcast_in_dim(v, (2, 8, 3), (1,)),
        lambda v: np.broadcast_to(v[None, :, None], (2, 8, 3)),
        P(None, "x", None),
    ),
    ("transpose", [(CUBE, P("x", None, "y"))], lambda x: x.T, np.transpose, P("y", None, "x")),
    ("reduce_sum", [(CUBE, P("x", "y"))], lambda x: x.sum(0), lambda x: x.sum(0), P("y", None)),
    ("reduce_max", [(A, P("x", "y"))], lambda x: x.max(1), lambda x: x.max(1), P("x")),
    ("reduce all", [(A, P("x", "y"))], lambda x: x.sum(), np.sum, P()),
    ("argmax", [(A, P("x", "y"))], lambda x: x.argmax(1), lambda x: x.argmax(1), P("x")),
    ("cumsum", [(A, P("x"))], lambda x: lax.cumsum(x, 1), lambda x: x.cumsum(1), P("x", None)),
    (
        "concatenate",
        [(A, P("x")), (B, P("x"))],
        lambda x, y: lax.concatenate([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1),
        P("x", None),
    ),
    (
        "pad",
        [(A, P("x"))],
        lambda x: lax.pad(x, 0.0, [(0, 0, 0), (1, 2, 0)]),
        lambda x: np.pad(x, ((0, 0), (1, 2))),
        P("x", None),
    ),
    ("rev", [(A, P("x", "y"))], lambda x: lax.rev(x, (1,)), lambda x: x[:, ::-1], P("x", "y")),
    ("slice", [(A, P("x"))], lambda x: x[:, 1:3], lambda x: x[:, 1:3], P("x", None)),
    ("slice divisible", [(A, P("x"))], lambda x: x[2:6], lambda x: x[2:6], P("x", None)),
    (
        "dynamic_slice",
        [(A, P("x"))],
        lambda x: lax.dynamic_slice(x, (0, 1), (8, 2)),
        lambda x: x[:, 1:3],
        P("x", None),
    ),
    (
        "dynamic_update_slice",
        [(A, P("x")), (B[:, :2], P("x"))],
        lambda x, u: lax.dynamic_update_slice(x, u, (0, 1)),
        lambda x, u: np.concatenate([x[:, :1], u, x[:, 3:]], 1),
        P("x", None),
    ),
    ("matmul rows", [(A, P("x")), (M, P())], lax.dot, np.dot, P("x", None)),
    ("matmul both", [(A, P("x")), (M, P(None, "y"))], lax.dot, np.dot, P("x", "y")),
    ("matmul one summed", [(A, P("x", "y")), (M, P())], lax.dot, np.dot, P("x", None)),
    (
        "batched matmul",
        [(CUBE, P("x")), (CUBE, P("x", "y"))],
        lambda a, b: wnp.einsum("bij,bkj->bik", a, b),
        lambda a, b: np.einsum("bij,bkj->bik", a, b),
        P("x", None, "y"),
    ),
    ("reshape merge", [(CUBE, P("x"))], lambda x: x.reshape(32, 2), None, P("x", None)),
    (
        "reshape merge full",
        [(CUBE, P("x", "y"))],
        lambda x: x.reshape(32, 2),
        None,
        P(("x", "y"), None),
    ),
    ("reshape merge split", [(A, P("x", "y"))], lambda x: x.reshape(32), None, P(("x", "y"))),
    ("reshape split", [(A, P("x"))], lambda x: x.reshape(4, 2, 4), None, P("x", None, None)),
    (
        "reshape split axes",
        [(array(16, 3), P(("x", "y")))],
        lambda x: x.reshape(4, 4, 3),
        None,
        P("x", "y", None),
    ),
    (
        "reshape ones",
        [(A, P("x", "y"))],
        lambda x: x[:, None, :, None],
        None,
        P("x", None, "y", None),
    ),
    ("reshape regroup", [(A, P("x"))], lambda x: x.reshape(4, 8), None, P("x", None)),
    (
        "gather",
        [(A, P(None, "y")), (I, P("x"))],
        gather_rows,
        gather_rows,
        P("x", "y"),
    ),
    (
        "scatter window",
        [(A, P(None, "y")), (I[:2], P()), (B[:2], P(None, "y"))],
        lambda x, i, u: x.at[i].add(u),
        lambda x, i, u: (
            x + sum(np.eye(8, dtype=np.float32)[j][:, None] * v for j, v in zip(i, u, strict=True))
        ),
        P(None, "y"),
    ),
    (
        "sort",
        [(A, P("x"))],
        lambda x: lax.sort(x, dimension=1),
        lambda x: np.sort(x, 1),
        P("x", None),
    ),
    (
        "top_k",
        [(A, P("x"))],
        lambda x: lax.top_k(x, 2)[0],
        lambda x: -np.sort(-x, 1)[:, :2],
        P("x", None),
    ),
    (
        "conv batch",
        [(IMAGE, P("x")), (KERNEL, P())],
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        conv_reference,
        P("x", None, None, None),
    ),
    (
        "conv space and features",
        [(IMAGE, P(None, None, "x")), (KERNEL, P("y"))],
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        conv_reference,
        P(None, "y", "x", None),
    ),
    (
        "window",
        [(A, P("x"))],
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "VALID"),
        lambda x: x.reshape(8, 2, 2).sum(2),
        P("x", None),
    ),
    (
        "fft",
        [(A, P("x"))],
        lambda x: lax.fft(wnp.asarray(x, np.complex64), "FFT", (4,)),
        np.fft.fft,
        P("x", None),
    ),
    (
        "cholesky",
        [(SQUARES, P("x"))],
        lambda x: lax.linalg.cholesky(x),
        np.linalg.cholesky,
        P("x", None, None),
    ),
    (
        "bits",
        [(A, P("x"))],
        lambda x: lax.bitcast_convert_type(x, wnp.uint16)[..., 1],
        lambda x: x.view(np.uint16).reshape(8, 4, 2)[..., 1],
        P("x", None),
    ),
    (
        "iota beside",
        [(A, P("x"))],
        lambda x: x + lax.broadcasted_iota(np.float32, (8, 4), 1),
        lambda x: x + np.arange(4, dtype=np.float32),
        P("x", None),
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=[row[0] for row in TABLE])
def test_the_type_tells_the_placement_and_the_values_are_numpys(case):
    _, operands, op, reference, expected = case
    args = [put(v, s) for v, s in operands]
    out = weft.jit(op)(*args)
    assert spec_of(out) == expected.padded(out.ndim)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, expected), out.ndim)
    values = [v for v, _ in operands]
    wanted = reference(*values) if reference else np.reshape(values[0], out.shape)
    np.testing.assert_allclose(np.asarray(out), wanted, rtol=2e-4, atol=2e-4)


# Where propagation is free to choose otherwise: it may keep a summed dimension split, or scatter.
FREE = {"reduce all", "reshape merge split"}


@pytest.mark.parametrize("case", [r for r in TABLE if r[0] not in FREE][::2], ids=lambda r: r[0])
def test_propagation_over_auto_axes_finds_the_same_placement(case):
    _, operands, op, _, expected = case
    args = [put(v, s, AUTO) for v, s in operands]
    out = weft.jit(op)(*args)
    assert weft.typeof(out).sharding is None
    assert out.sharding.is_equivalent_to(NamedSharding(AUTO, expected), out.ndim)


def test_eager_results_carry_their_sharding():
    x = put(A, P("x", "y"))
    assert spec_of(x * 2) == P("x", "y")
    assert str(weft.typeof(x.T + 1)) == "f32[4@y,8@x]"


def test_types_in_jaxprs_show_shardings():
    text = str(weft.make_jaxpr(lambda x: lax.sin(x).sum(0))(put(A, P("x", "y"))))
    assert "b:f32[8@x,4@y] = sin a" in text
    assert "f32[4@y] = reduce_sum" in text


def test_ops_of_the_program_are_annotated():
    text = weft.jit(lambda x: lax.sin(x)).lower(put(A, P("x"))).as_text()
    assert (
        'stablehlo.sine %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}'
        in text
    )


ERRORS = [
    (
        "different splits",
        [(A, P("x")), (B, P("y"))],
        lax.add,
        "split dimensions that must match over different mesh axes, 'x' and 'y'.*weft.reshard",
    ),
    (
        "one axis twice",
        [(A, P("x")), (M.T.copy(), P(None, "x"))],
        lax.add,
        "dimensions 0 and 1 of the result would both be split over mesh axis 'x'.*weft.reshard",
    ),
    (
        "ambiguous sum",
        [(A, P(None, "y")), (M, P("y"))],
        lax.dot,
        "summed over, by mesh axis 'y'.*out_sharding",
    ),
    (
        "contracting conflict",
        [(A, P(None, "y")), (M, P("x"))],
        lax.dot,
        "must match over different mesh axes",
    ),
    (
        "sorted dimension",
        [(A, P("x"))],
        lambda x: lax.sort(x, dimension=0),
        "needs it whole.*reshard",
    ),
    ("not divisible", [(A, P("x"))], lambda x: x[1:4], "size 3, which is not divisible by the 4"),
    (
        "pad",
        [(A, P("x"))],
        lambda x: lax.pad(x, 0.0, [(1, 0, 0), (0, 0, 0)]),
        "size 9, which is not divisible",
    ),
    (
        "reshape of the inner dimension",
        [(CUBE, P(None, "x"))],
        lambda x: x.reshape(32, 2),
        "would be split inside only, over 'x'.*out_sharding",
    ),
    (
        "reshape across",
        [(array(6, 4), P(None, "x"))],
        lambda x: x.reshape(8, 3),
        "out_sharding",
    ),
    ("gather of split rows", [(A, P("x")), (I, P())], gather_rows, "needs it whole.*out_sharding"),
    (
        "scatter of split updates",
        [(A, P()), (I, P("x")), (B, P("x"))],
        lambda x, i, u: x.at[i].add(u),
        "can be placed in more than one way.*out_sharding",
    ),
    (
        "matrix dimension",
        [(SQUARES[:, :2, :2].copy(), P(None, "y"))],
        lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
        "needs it whole",
    ),
]


@pytest.mark.parametrize("case", ERRORS, ids=[row[0] for row in ERRORS])
def test_conflicts_and_ambiguities_name_the_fix(case):
    _, operands, op, text = case
    with pytest.raises(ShardingTypeError, match=f"(?s){text}"):
        op(*[put(v, s) for v, s in operands])


def test_operands_on_different_meshes_do_not_mix():
    other = weft.make_mesh((2, 4), ("x", "y"))
    with pytest.raises(ShardingTypeError, match="different meshes"):
        weft.make_jaxpr(lax.add)(put(A, P("x")), put(B, P("x"), other))


def test_unknown_ops_take_whole_operands_only():
    from weft.sharding.factors import result_shardings

    x = weft.typeof(put(A, P("x")))
    with pytest.raises(ShardingTypeError, match="thing of .* needs it whole"):
        result_shardings("thing", None, [x], [x], {})


def test_a_rule_is_read_as_factors():
    (operands, results), sizes = parse_factors("!a (b=2 c=4), -> c")
    assert operands == ((("!a",), ("b", "c")), ()) and results == ((("c",),),)
    assert sizes == {"b": 2, "c": 4}
    with pytest.raises(ValueError, match="->"):
        parse_factors("a b")


def test_every_op_has_a_sharding_rule():
    for room in ("ops", "collectives", "refs", "driver", "api", "random"):
        package = importlib.import_module(f"weft.{room}")
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    missing = [
        name
        for name, p in PRIMITIVES.items()
        if not p.own_types and not callable(p.sharding) and p.sharding not in RULES
        if not name.startswith("test_")  # other tests' own
    ]
    assert not missing, f"give these primitives sharding=, a name of RULES or a function: {missing}"


def test_programs_without_explicit_axes_do_not_load_the_rules():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, weft; weft.jit(lambda x: x + 1)(np.ones(3));"
        "assert 'weft.sharding.factors' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
