"""Every primitive has its rules, and every one of these files' is in a table of numeric checks."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import weft
import weft.nn
import weft.ops
from tests.autodiff import test_shape
from tests.ops import (
    test_argreduce,
    test_composite,
    test_conv,
    test_cumulative,
    test_dot,
    test_elementwise_api,
    test_fft,
    test_index_table,
    test_linalg,
    test_sort,
    test_window,
)
from tests.ops.numerics import leaves, random_like
from weft.core.jaxpr import Literal
from weft.core.primitive import PRIMITIVES
from weft.core.trace import trace_to_jaxpr
from weft.core.tree import flatten
from weft.core.typing import linear_operands

for package in (weft.ops, weft.nn):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)

TABLES = (
    test_argreduce,
    test_composite,
    test_conv,
    test_cumulative,
    test_dot,
    test_elementwise_api,
    test_fft,
    test_index_table,
    test_linalg,
    test_shape,
    test_sort,
    test_window,
)
CASES = [case for table in TABLES for case in table.CASES]
COVERED = {case.op for case in CASES}

# Primitives without a derivative, and why.
NO_DERIVATIVE = {
    "geqrf": "qr has it",
    "geqp3": "qr has it",
    "householder_product": "qr has it",
    "ormqr": "qr has it",
    "schur": "not unique",
    "hessenberg": "not unique",
    "tridiagonal": "not unique",
    "lapack": "stands inside the lowering of others",
    "create_token": "no operands",
    "after_all": "tokens",
    "iota": "no operands",
    "rng_bit_generator": "bits",
    "rng_uniform": "random",
    "random_bits": "bits",
    "platform_index": "an integer",
}
MECHANISM = {
    # Not numeric ops: their own tests have them.
    *["add_any", "after_all", "composite", "copy", "create_token", "dce_sink", "geqp3", "iota"],
    *["lapack", "optimization_barrier", "stop_gradient"],
    # Of weft.nn, in tests/nn.
    *["gelu", "gelu_tanh", "log1mexp", "relu", "relu6", "softplus"],
}


def modules_of(prim):
    return prim.abstract.__module__ if prim.abstract is not None else ""


def is_numeric(prim):
    """Ops on refs become ops on values before they are lowered, and have tests of their own.

    So have the formulas of weft.scipy.special (tests/scipy), which another test may have loaded.
    """
    module = modules_of(prim)
    formula = inspect.getclosurevars(prim.lower).nonlocals.get("formula") if prim.lower else None
    if getattr(formula, "__module__", "").startswith("weft.scipy"):
        return False
    return module.startswith(("weft.ops", "weft.autodiff"))


OPS = sorted(filter(is_numeric, PRIMITIVES.values()), key=lambda p: p.name)


@pytest.mark.parametrize("prim", OPS, ids=lambda p: p.name)
def test_a_primitive_has_all_its_rules(prim):
    missing = [rule for rule in ("abstract", "batch", "lower") if getattr(prim, rule) is None]
    assert not missing, f"{prim.name} lacks {missing}"
    if prim.name not in NO_DERIVATIVE:
        assert prim.jvp is not None, f"{prim.name} has no jvp rule and no reason not to"


MINE = [
    "arithmetic",
    "transcendental",
    "shape",
    "reduce",
    "argreduce",
    "cumulative",
    "window",
    "dtype_casts",
    "conv_op",
    "dynamic_slicing",
    "joining",
    "pooling",
    "dot",
    "sort",
    "fft",
    "gather",
    "scatter",
    "slicing",
    "compound",
    "special_functions",
    "bessel",
    "linalg",
    "composite",
]


def test_every_numeric_primitive_stands_in_a_table():
    mine = {
        p.name
        for p in OPS
        if modules_of(p).split(".")[2] in MINE or modules_of(p) == "weft.autodiff.op_families"
    }
    used = set(COVERED) | MECHANISM
    for case in CASES:
        used.update(_primitives_of(case))
    missing = mine - used
    assert not missing, f"add a case for {sorted(missing)}"


def _primitives_of(case):
    """Names of the primitives that the case's function and its derivatives run."""
    chosen = list(case.diff or ())

    def part(*xs):
        args = list(case.args)
        for i, x in zip(chosen, xs, strict=True):
            args[i] = x
        return [o for o in flatten(case.fun(*args))[0] if weft.typeof(o).dtype.kind in "fc"]

    def derivatives(*xs):
        ys, pull = weft.vjp(part, *xs)
        return pull(ys)

    def run(*args):
        xs = [args[i] for i in chosen]
        first = weft.jvp(part, xs, xs)[1] + list(derivatives(*xs)) if xs else []
        return [*flatten(case.fun(*args))[0], *first]

    with weft.enable_x64(True):
        jaxpr, _ = trace_to_jaxpr(run, [weft.typeof(a) for a in case.args])
    return {eqn.primitive.name for eqn in jaxpr.eqns}


def declared_linear(case):
    """(equation, positions) of the case's own op, where it says what it is linear in."""
    with weft.enable_x64(True):
        avals = [weft.typeof(a) for a in case.args]
        jaxpr, _ = trace_to_jaxpr(lambda *xs: flatten(case.fun(*xs))[0], avals)
    for eqn in jaxpr.eqns:
        known = all(isinstance(v, Literal) or v in jaxpr.invars for v in eqn.invars)
        if eqn.primitive.name == case.op and known:
            prim, avals = eqn.primitive, [v.aval for v in eqn.invars]
            together = list(linear_operands(prim, avals, eqn.params))
            alone = [[i] for i in prim.bilinear if i < len(avals)]
            args = [
                v.val if isinstance(v, Literal) else case.args[jaxpr.invars.index(v)]
                for v in eqn.invars
            ]
            return eqn, args, [p for p in (together, *alone) if p]
    return None


LINEAR = [case for case in CASES if declared_linear(case) and declared_linear(case)[2]]


@pytest.mark.parametrize("case", LINEAR, ids=lambda case: case.id)
def test_an_op_is_linear_in_the_operands_that_its_definition_names(case):
    eqn, args, declared = declared_linear(case)
    rng = np.random.default_rng(0)

    def outs(operands):
        with weft.enable_x64(True):
            return leaves(eqn.primitive.bind(*operands, **eqn.params))

    for positions in declared:
        if any(np.asarray(args[i]).dtype.kind not in "fc" for i in positions):
            continue
        other = [random_like(a, rng) if i in positions else a for i, a in enumerate(args)]
        both = [
            2 * a + 3 * b if i in positions else a
            for i, (a, b) in enumerate(zip(args, other, strict=True))
        ]
        for one, two, sum_ in zip(outs(args), outs(other), outs(both), strict=True):
            rounded = 1e-2 if case.op == "reduce_precision" else 10 * np.finfo(sum_.dtype).eps
            scale = np.abs(sum_).max(initial=1.0)
            np.testing.assert_allclose(sum_, 2 * one + 3 * two, rtol=0, atol=10 * rounded * scale)


def test_the_linear_ops_of_the_table_are_all_that_are_declared():
    found = {case.op for case in LINEAR}
    declared = {p.name for p in OPS if p.linear or p.bilinear}
    computed = {"lu_solve", "select_and_gather_add", "select_and_scatter_add"}  # other operands
    computed |= {"dynamic_slice", "dynamic_update_slice"}
    assert declared - found <= MECHANISM | computed


def test_case_names_are_unique():
    names = [case.id for case in CASES]
    assert len(names) == len(set(names))
