"""Every numeric primitive compiles for GPUs, and jaxlib's kernels get the attributes they take."""

import re

import numpy as np
import pytest

import weft
from tests.gpu_machine import compiled, mesh_of, placed
from tests.ops.test_table import TABLES
from weft.lax import linalg

pytestmark = pytest.mark.accelerators

CPU_ONLY = {"schur", "hessenberg"}


def halved(x):
    """The argument of 32 bits a number, which take ptxas half the time."""
    x = np.asarray(x)
    return x.astype({"float64": np.float32, "complex128": np.complex64}.get(x.dtype.name, x.dtype))


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__.rpartition("_")[2])
def test_the_ops_of_a_table_compile_in_one_program(table):
    cases = [c for c in table.CASES if c.op not in CPU_ONLY]

    def everything(args):
        return [case.fun(*xs) for case, xs in zip(cases, args, strict=True)]

    args = [tuple(placed(halved(x), mesh_of("h100:1")) for x in c.args) for c in cases]
    quickly = {"xla_gpu_disable_gpuasm_optimizations": True}
    text = weft.jit(everything).lower(args).compile(quickly).as_text()
    assert text.count("parameter(") >= sum(len(c.args) for c in cases)


def called(function, *shapes, dtype=np.float32):
    """The native target of a program for GPUs, and its attributes."""
    args = [placed((s, dtype), mesh_of("h100:1")) for s in shapes]
    text = weft.jit(function).lower(*args).as_text()
    return re.search(r"custom_call @(\w+)\(.*backend_config = \{(.*?)\}", text).groups()


@pytest.mark.parametrize(
    "function, shapes, dtype, expected",
    [
        (linalg.cholesky, [(3, 3)], "f4", ("cusolver_potrf_ffi", "lower = true")),
        (linalg.lu, [(5, 3)], "f4", ("cusolver_getrf_ffi", "")),
        (linalg.geqrf, [(5, 3)], "f4", ("cusolver_geqrf_ffi", "")),
        (linalg.householder_product, [(5, 3), (3,)], "c8", ("cusolver_orgqr_ffi", "")),
        (
            linalg.ormqr,
            [(5, 3), (3,), (5, 2)],
            "f8",
            ("cusolver_ormqr_ffi", "left = true, transpose = false"),
        ),
        (linalg.eigh, [(3, 3)], "c8", ("cusolver_syevd_ffi", "algorithm = 0 : ui8, lower = true")),
        (
            lambda x: linalg.tridiagonal(x, lower=False),
            [(3, 3)],
            "f4",
            ("cusolver_sytrd_ffi", "lower = false"),
        ),
        (
            linalg.eig,
            [(3, 3)],
            "f4",
            ("cuhybrid_eig_real", 'left = true, magma = "auto", right = true'),
        ),
        (
            lambda x: linalg.eig(x, compute_left_eigenvectors=False),
            [(3, 3)],
            "c8",
            ("cuhybrid_eig_comp", 'left = false, magma = "auto", right = true'),
        ),
        (
            lambda x: linalg.qr(x, pivoting=True),
            [(5, 3)],
            "f4",
            ("cuhybrid_geqp3", 'magma = "auto"'),
        ),
        (linalg.tridiagonal_solve, [(5,)] * 3 + [(5, 2)], "f4", ("cusparse_gtsv2_ffi", "")),
        (
            lambda *xs: linalg.tridiagonal_solve(*xs, perturb_singular=True),
            [(5,)] * 3 + [(5, 2)],
            "f4",
            ("cu_tridiagonal_solve_perturbed", ""),
        ),
        (
            lambda x: linalg.lu_pivots_to_permutation(x, 5),
            [(3,)],
            "i4",
            ("cu_lu_pivots_to_permutation", ""),
        ),
    ],
)
def test_kernels_get_the_attributes_they_take(function, shapes, dtype, expected):
    assert called(function, *shapes, dtype=np.dtype(dtype)) == expected


@pytest.mark.parametrize(
    "shape, options, target, attributes, results",
    [
        ((5, 3), {}, "gesvdj", "compute_uv = true, full_matrices = true", "5x5 3x3"),
        (
            (5, 3),
            {"full_matrices": False},
            "gesvdj",
            "compute_uv = true, full_matrices = true",
            "5x5 3x3",
        ),
        (
            (50, 40),
            {"full_matrices": False},
            "gesvdj",
            "compute_uv = true, full_matrices = false",
            "50x40 40x40",
        ),
        (
            (40, 2000),
            {"full_matrices": False},
            "gesvd",
            "compute_uv = true, full_matrices = false, transposed = false",
            "2000x40 40x40",
        ),
        (
            (50, 40),
            {"full_matrices": False, "algorithm": linalg.SvdAlgorithm.POLAR},
            "gesvdp",
            "compute_uv = true, full_matrices = false",
            "50x40 40x40",
        ),
    ],
)
def test_singular_values_are_found_by_the_routine_for_the_size(
    shape, options, target, attributes, results
):
    struct = placed((shape, np.float32), mesh_of("h100:1"))
    lowered = weft.jit(lambda x: linalg.svd(x, **options)).lower(struct)
    text = lowered.as_text()
    assert f"@cusolver_{target}_ffi" in text and f"backend_config = {{{attributes}}}" in text
    call = next(line for line in text.splitlines() if "custom_call @cusolver" in line)
    u, v = results.split()
    assert re.search(rf"tensor<{u}xf32>, tensor<{v}xf32>, tensor<i32>\)$", call.strip())
    m, n = shape
    k = min(shape) if options else None
    outs = [a.shape for a in lowered.out_info]
    assert outs == [(m, k or m), (min(shape),), (k or n, n)]
    lowered.compile()


def test_decompositions_without_a_kernel_say_where_to_compute_them():
    for function in (linalg.schur, linalg.hessenberg):
        with pytest.raises(TypeError, match="no counterpart on cuda; compute it on the CPU"):
            compiled(function, np.eye(3, dtype=np.float32))
