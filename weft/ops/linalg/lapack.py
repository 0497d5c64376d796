# Tests: tests/ops/test_linalg.py, tests/ops/test_gpu.py
"""Calls of jaxlib's LAPACK kernels (CPU) and of their counterparts (CUDA), as one primitive.

The kernels take column-major matrices and any number of leading batch dimensions; the call says so
in layouts, in `num_batch_dims` and in a sharding rule that keeps batch dimensions sharded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import cuda, ffi
from weft.autodiff.op_families import batch_in_front, check_kind
from weft.autodiff.shape import broadcast_in_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import ShapeError
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.ops.elementwise_api import select_n_p
from weft.sharding.text import batch_rule_text

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

_PREFIX = {
    dtypes.float32: "s",
    dtypes.float64: "d",
    dtypes.complex64: "c",
    dtypes.complex128: "z",
}
Result = tuple[tuple[int, ...], Any]  # shape without batch dimensions, dtype


def check_matrix(name: str, x: ShapedArray, square: bool = False) -> None:
    """Raise unless x is a batch of (square) matrices of a dtype that LAPACK knows."""
    check_kind(name, x.dtype, "inexact")
    if x.dtype not in _PREFIX:
        raise TypeError(
            f"{name} takes float32, float64, complex64 or complex128, got {x.str_short()}; "
            "convert it first, for example with x.astype('float32')"
        )
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeError(
            f"{name} takes {kind}: an array of shape (..., {'n, n' if square else 'm, n'}), got "
            f"{x.str_short()}"
        )


def _layout(rank: int, core: int) -> list[int]:
    """Minor-to-major order: matrices column by column, batch dimensions slowest."""
    order = list(range(rank - 1, -1, -1))
    if core == 2:
        order[0], order[1] = order[1], order[0]
    return order


def _attribute_text(value: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"{ord(value)} : ui8" if len(value) == 1 else f'"{value}"'
    return f"{value} : i32"


def _abstract(
    *avals: ShapedArray, routine: str, num_batch: int, results: tuple[Result, ...], **_: object
) -> list[ShapedArray]:
    batch = avals[0].shape[:num_batch]
    return [ShapedArray((*batch, *shape), dtype) for shape, dtype in results]


def _unchanged(options: dict[str, Any]) -> dict[str, Any]:
    return options


def _triangle(options: dict[str, Any]) -> dict[str, Any]:
    return {"lower": options["uplo"] == "L"}


def _eigenvectors(options: dict[str, Any]) -> dict[str, Any]:
    left, right = (options[f"compute_{side}"] == "V" for side in ("left", "right"))
    return {"left": left, "right": right, "magma": "auto"}


_CUDA: dict[str, tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "potrf": ("_solver", "cusolver_potrf_ffi", _triangle),
    "getrf": ("_solver", "cusolver_getrf_ffi", _unchanged),
    "geqrf": ("_solver", "cusolver_geqrf_ffi", _unchanged),
    "geqp3": ("_hybrid", "cuhybrid_geqp3", lambda options: {"magma": "auto"}),
    "orgqr": ("_solver", "cusolver_orgqr_ffi", _unchanged),
    "ormqr": ("_solver", "cusolver_ormqr_ffi", _unchanged),
    "syevd": ("_solver", "cusolver_syevd_ffi", lambda o: {**_triangle(o), "algorithm": "\0"}),
    "sytrd": ("_solver", "cusolver_sytrd_ffi", _triangle),
    "gesvd": ("_solver", "cusolver_gesvd_ffi", _unchanged),
    "gesvdj": ("_solver", "cusolver_gesvdj_ffi", _unchanged),
    "gesvdp": ("_solver", "cusolver_gesvdp_ffi", _unchanged),
    "sgeev": ("_hybrid", "cuhybrid_eig_real", _eigenvectors),
    "cgeev": ("_hybrid", "cuhybrid_eig_comp", _eigenvectors),
    "gtsv2": ("_sparse", "cusparse_gtsv2_ffi", _unchanged),
    "lu_pivots_to_permutation": ("_linalg", "cu_lu_pivots_to_permutation", _unchanged),
    "tridiagonal_solve_perturbed": ("_linalg", "cu_tridiagonal_solve_perturbed", _unchanged),
}
"""For each routine the library of jaxlib's that has its counterpart, the target, its attributes."""

_OF_REALS = {"ungqr": "orgqr", "unmqr": "ormqr", "heevd": "syevd", "hetrd": "sytrd"}
"""Routines for complex numbers whose counterparts on GPUs take both kinds."""


PORTABLE = re.compile(
    r"lapack_[sdcz][a-z0-9]+_ffi|tridiagonal_solve_perturbed_ffi|"
    + "|".join(target for _, target, _ in _CUDA.values())
)
"""The targets, whose names and attributes jaxlib keeps from version to version."""


def register_target(target: str) -> None:
    """Make a target known to XLA where a program calls it that was lowered elsewhere."""
    libraries = {name: library for library, name, _ in _CUDA.values()}
    if target not in libraries:
        ffi.register_lapack_targets()
    elif cuda.find_plugin() is not None:
        cuda.register_kernels(libraries[target])


def _target(
    ctx: RuleContext, routine: str, dtype: Any, options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the native target on the program's platform, and its attributes there."""
    platform = ctx.module.platforms[0]
    if platform == "cpu":
        ffi.register_lapack_targets()
        if routine == "tridiagonal_solve_perturbed":
            return f"{routine}_ffi", options
        return f"lapack_{_PREFIX[dtype]}{routine}_ffi", options
    name = _OF_REALS.get(routine, routine)
    if name == "geev":
        name = "cgeev" if dtypes.is_complex(dtype) else "sgeev"
    if platform != "cuda" or name not in _CUDA:
        raise TypeError(
            f"the LAPACK routine {routine} has no counterpart on {platform}; compute it on the "
            "CPU: weft.device_put(x, weft.devices('cpu')[0])"
        )
    library, target, attributes = _CUDA[name]
    if cuda.find_plugin() is not None:  # else it is lowered only, to be compiled elsewhere
        cuda.register_kernels(library)
    return target, attributes(options)


def _lower(
    ctx: RuleContext,
    *operands: ir.Value,
    routine: str,
    num_batch: int,
    results: tuple[Result, ...],
    attributes: tuple[tuple[str, Any], ...],
    aliases: tuple[tuple[int, int], ...],
) -> list:
    target, options = _target(ctx, routine, ctx.avals_in[0].dtype, dict(attributes))
    avals = [*ctx.avals_in, *ctx.avals_out]
    n = len(ctx.avals_in)
    layouts = [
        f"dense<{_layout(a.ndim, a.ndim - num_batch)}> : tensor<{a.ndim}xindex>"
        if a.ndim
        else "dense<> : tensor<0xindex>"
        for a in avals
    ]
    many = len(ctx.avals_out) > 1
    alias_text = ", ".join(
        "#stablehlo.output_operand_alias<output_tuple_indices = "
        f"[{out if many else ''}], operand_index = {operand}, operand_tuple_indices = []>"
        for out, operand in aliases
    )
    config = ", ".join(f"{k} = {_attribute_text(v)}" for k, v in sorted(options.items()))
    attrs = {
        "call_target_name": ctx.string(target),
        "api_version": ctx.i32(4),
        "has_side_effect": ctx.bool(False),
        "backend_config": ctx.attr(f"{{{config}}}"),
        "operand_layouts": ctx.attr(f"[{', '.join(layouts[:n])}]"),
        "result_layouts": ctx.attr(f"[{', '.join(layouts[n:])}]"),
        "output_operand_aliases": ctx.attr(f"[{alias_text}]"),
    }
    if num_batch:
        # Only XLA's partitioner reads these; without them the call is replicated.
        attrs["mhlo.frontend_attributes"] = ctx.attr(f'{{num_batch_dims = "{num_batch}"}}')
        batch = ctx.avals_in[0].shape[:num_batch]
        shapes = [a.shape for a in avals]
        attrs["sdy.sharding_rule"] = ctx.attr(batch_rule_text(shapes, n, batch))
    operation = ctx.operation("stablehlo.custom_call", list(operands), ctx.out_types(), attrs)
    if target.startswith("lapack_") and ctx.avals_in[0].ndim > 1:
        ctx.mark(operation, "lapack")
    return list(operation.results)


lapack_p = Primitive(
    "lapack",
    abstract=_abstract,
    batch=batch_in_front(lambda: lapack_p, lambda p: {**p, "num_batch": p["num_batch"] + 1}),
    lower=_lower,
    sharding="batched_custom_call",
    multiple_results=True,
)


def lapack(
    routine: str,
    operands: Sequence[Any],
    num_batch: int,
    results: Sequence[Result],
    aliases: Sequence[tuple[int, int]] = (),
    **attributes: object,
) -> list:
    """Call `routine` (without the letter of the dtype); results without batch dimensions.

    aliases: (result, operand) pairs that share memory. attributes: one letter, an int or a bool.
    """
    return lapack_p.bind(
        *operands,
        routine=routine,
        num_batch=num_batch,
        results=tuple(results),
        attributes=tuple(sorted(attributes.items())),
        aliases=tuple(aliases),
    )


INFO: Result = ((), dtypes.int32)
"""The result that tells success (0), a bad argument (< 0) or failure (> 0)."""


def or_nan(ok: Any, x: ArrayLike) -> Any:
    """Return x where the batch's `ok` holds, else NaN."""
    aval = typeof(x)
    nan = broadcast_in_dim(aval.dtype.type(np.nan), aval.shape, ())
    mask = broadcast_in_dim(ok, aval.shape, tuple(range(typeof(ok).ndim)))
    return select_n_p.bind(mask, nan, x)
