"""Every op of weft in every backend of kernels: its own rule, a formula of other ops, or refused.

`python -m tests.pallas.test_op_table` prints the table.
"""

import functools

import numpy as np
import pytest

import weft
from tests.ops.test_table import CASES
from weft import pallas as pl
from weft.core.jaxpr import walk_eqns
from weft.pallas.cpu import lower, scalar, translate  # noqa: F401  (lower loads all rules)
from weft.pallas.gpu import emitter, program  # noqa: F401
from weft.pallas.interpret import machine, numpy_ops, run  # noqa: F401
from weft.pallas.legalize import legalize_call

TARGETS = {
    "LLVM": translate.LLVM,
    "Triton": emitter.target_of("cuda"),
    "NumPy": machine.NUMPY,
}
RULES = {
    "LLVM": {*translate.RULES, *scalar.RULES},
    "Triton": {*emitter.RULES},
    "NumPy": {*machine.RULES, *numpy_ops.DIRECT, *numpy_ops.MAKERS},
}

LIBRARIES = {
    *("cholesky", "eig", "eigh", "fft", "geqrf", "hessenberg", "householder_product", "lu"),
    *("lu_pivots_to_permutation", "lu_solve", "ormqr", "qr", "schur", "svd"),
    *("triangular_solve", "tridiagonal", "tridiagonal_solve"),
}
REFUSED = {
    "LLVM": LIBRARIES,
    "Triton": LIBRARIES,
    "NumPy": set(),
}
"""Ops that a backend has for no operands."""


@functools.cache
def legal_equations():
    """(op, backend, the equations of a kernel of the op, or None if it is refused), by case."""
    rows = []
    for case in CASES:
        call = kernel_call(case)
        for backend, target in TARGETS.items():
            try:
                eqns = list(walk_eqns(legalize_call(call, target).jaxpr))
            except pl.UnsupportedKernelError:
                eqns = None
            rows.append((case.op, backend, eqns))
    return rows


@functools.cache
def table():
    """op → backend → what it is there, for the operands of each of its cases."""
    rows = {}
    for op, backend, eqns in legal_equations():
        names = {e.primitive.name for e in eqns or ()}
        status = "own" if op in names & RULES[backend] else "formula"
        row = rows.setdefault(op, {name: {} for name in TARGETS})
        row[backend].setdefault("refused" if eqns is None else status, set()).update(names)
    return rows


def kernel_call(case):
    args = [np.asarray(a) for a in case.args]
    args = [a.astype(np.float32) if a.dtype == np.float64 else a for a in args]
    outs = weft.tree.leaves(weft.eval_shape(case.fun, *args))

    def kernel(*refs):
        results = weft.tree.leaves(case.fun(*(r[...] for r in refs[: len(args)])))
        for out, value in zip(refs[len(args) :], results, strict=True):
            out[...] = value

    call = pl.pallas_call(kernel, [weft.ShapeDtypeStruct(o.shape, o.dtype) for o in outs])
    (eqn,) = weft.make_jaxpr(call)(*args).eqns
    return eqn.params["call"]


@pytest.mark.parametrize("backend", TARGETS)
def test_a_backend_refuses_the_ops_that_are_said_to_be_refused_and_no_others(backend):
    refused = {op for op, row in table().items() if set(row[backend]) == {"refused"}}
    assert refused == REFUSED[backend] & set(table())


@pytest.mark.parametrize("backend", ["LLVM", "Triton"])
def test_what_is_left_of_a_kernel_has_a_rule_or_a_formula_of_elements(backend):
    left = {n for row in table().values() for names in row[backend].values() for n in names}
    rest = left - RULES[backend]
    if backend == "LLVM":
        assert all(scalar.has_code(name) for name in rest - {"conj"})
    else:
        assert not rest


@pytest.mark.parametrize("backend", ["LLVM", "Triton"])
def test_complex_numbers_are_pairs_before_a_backend_sees_them(backend):
    given = {op for op, name, eqns in legal_equations() if name == backend and eqns}
    assert {"conj", "real", "complex"} <= given
    for op, name, eqns in legal_equations():
        for eqn in eqns if name == backend and eqns else ():
            assert all(v.aval.dtype.kind != "c" for v in (*eqn.invars, *eqn.outvars)), op


MOST = {"LLVM": 72, "Triton": 96, "NumPy": 63}
"""How many rules a backend has at most: what other ops can express is a formula, in `legalize`."""


@pytest.mark.parametrize("backend", TARGETS)
def test_a_backend_has_few_rules_of_its_own(backend):
    assert len(RULES[backend]) <= MOST[backend], sorted(RULES[backend])


def test_every_rule_is_of_an_op_that_some_kernel_has():
    """The three tables differ in what their processors lack, not in names nobody calls."""
    everywhere = set.intersection(*RULES.values())
    assert len(everywhere) >= 55, sorted(everywhere)


def main():
    print(f"{'':26}", *(f"{name:16}" for name in TARGETS))
    print(f"{'rules':26}", *(f"{len(RULES[name]):<16}" for name in TARGETS))
    for op, row in sorted(table().items()):
        print(f"{op:26}", *(f"{', '.join(sorted(cell)):16}" for cell in row.values()))


if __name__ == "__main__":
    main()
