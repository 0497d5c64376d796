"""weft.lax: the ops themselves, with strict types: operands of equal dtypes and shapes.

Python scalars adapt to the arrays beside them; nothing else is promoted or broadcast, save rank-0
operands of elementwise ops. weft.numpy promotes. A name's module loads when it is first used.
"""

from __future__ import annotations

import importlib as _importlib
from functools import lru_cache as _lru_cache
from typing import Any as _Any

from weft.core.namespace import missing as _missing
from weft.core.namespace import public as _public
from weft.lax.examples import EXAMPLES as _EXAMPLES

_HOMES = {
    "weft.ops.elementwise_api": """
        abs acos acosh add asin asinh atan atan2 atanh bitcast_convert_type bitwise_and
        bitwise_not bitwise_or bitwise_xor cbrt ceil clamp clz complex conj convert_element_type
        cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow
        is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter polygamma
        population_count pow real reciprocal reduce_precision rem round rsqrt select select_n
        shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan
        tanh RoundingMethod
    """,
    "weft.ops.special_functions": """
        betainc igamma igamma_grad_a igammac random_gamma_grad zeta
    """,
    "weft.ops.bessel": "bessel_i0e bessel_i1e",
    "weft.ops.composite": "log2 one_minus_square",
    "weft.autodiff.shape": """
        broadcast broadcast_in_dim broadcast_shapes broadcast_to_rank broadcasted_iota expand_dims
        iota reshape squeeze transpose
    """,
    "weft.ops.joining": "concatenate pad rev",
    "weft.ops.compound": """
        after_all broadcast_like collapse composite dce_sink dtype empty full full_like mulhi
        shape_as_value split stack stage tile unstack
    """,
    "weft.autodiff.zeros": "create_token optimization_barrier stop_gradient",
    "weft.ops.reduce": """
        reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
    """,
    "weft.ops.argreduce": "argmax argmin reduce",
    "weft.ops.cumulative": "cumlogsumexp cummax cummin cumprod cumsum",
    "weft.ops.dot": "DotDimensionNumbers batch_matmul dot dot_general",
    "weft.ops.ragged_dot": "RaggedDotDimensionNumbers ragged_dot ragged_dot_general scaled_dot",
    "weft.ops.precision": """
        AccuracyMode DotAlgorithm DotAlgorithmPreset Precision PrecisionLike Tolerance
    """,
    "weft.ops.conv": """
        conv conv_general_dilated conv_general_dilated_local conv_general_dilated_patches
        conv_transpose conv_with_general_padding
    """,
    "weft.ops.conv_shapes": """
        ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers conv_dimension_numbers
        conv_general_permutations conv_general_shape_tuple conv_shape_tuple
        conv_transpose_shape_tuple padtype_to_pads
    """,
    "weft.ops.window": "reduce_window reduce_window_shape_tuple",
    "weft.ops.sort": "approx_max_k approx_min_k sort sort_key_val top_k",
    "weft.ops.fft": "FftType fft",
    "weft.ops.slicing": "index_in_dim slice slice_in_dim",
    "weft.ops.dynamic_slicing": """
        dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_index_in_dim
        dynamic_update_slice dynamic_update_slice_in_dim index_take
    """,
    "weft.ops.gather": "GatherDimensionNumbers GatherScatterMode gather",
    "weft.ops.scatter_apply": "scatter_apply",
    "weft.ops.scatter": """
        ScatterDimensionNumbers scatter scatter_add scatter_max scatter_min scatter_mul
        scatter_sub
    """,
    "weft.ops.rng": "RandomAlgorithm rng_bit_generator rng_uniform",
    "weft.ops.control.cond": "cond platform_dependent switch",
    "weft.ops.control.loops": "fori_loop while_loop",
    "weft.ops.control.scan": "scan",
    "weft.api.mapping": "associative_scan map",
    "weft.api.linear_solves": "custom_linear_solve custom_root",
    "weft.collectives": """
        all_gather all_gather_start all_to_all all_to_all_start axis_index axis_size pargmax
        pargmin pbroadcast pbroadcast_start pcast pmax pmean pmin ppermute ppermute_start precv
        psend pshuffle psum psum_scatter psum_scatter_start psum_start pswapaxes pvary
        ragged_all_to_all
    """,
    "weft.sharding.explicit": "with_sharding_constraint",
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names.split()}
# A primitive `x_p` stands beside the function `x`; these functions have another one's.
_PRIMITIVES = {
    "weft.ops.elementwise_api": "and_p eq_to_p le_to_p lt_to_p not_p or_p xor_p",
    "weft.ops.window": "reduce_window_max_p reduce_window_min_p reduce_window_sum_p",
    "weft.ops.pooling": "select_and_gather_add_p select_and_scatter_add_p",
    "weft.ops.special_functions": "regularized_incomplete_beta_p",
    "weft.ops.control.cond_op": "cond_p",
    "weft.ops.control.while_op": "while_p",
    "weft.ops.control.scan": "scan_p",
    "weft.autodiff.zeros": "copy_p",
    "weft.collectives.axis": "axis_index_p",
    "weft.collectives.reduce": "psum_p",
    "weft.collectives.extrema": "pmax_p pmin_p",
    "weft.collectives.gather": "all_gather_p",
    "weft.collectives.permute": "ppermute_p",
    "weft.collectives.exchange": "all_to_all_p",
    "weft.collectives.ragged": "ragged_all_to_all_p",
}
_NAMES.update({name: home for home, names in _PRIMITIVES.items() for name in names.split()})

__all__ = sorted(name for name in _NAMES if not name.endswith("_p")) + ["linalg"]  # noqa: PLE0605


_PROGRAMS = "approx_min_k bessel_i0e bessel_i1e dynamic_index_in_dim stack tile unstack zeta"


@_lru_cache(maxsize=1)
def _programs() -> _Any:
    from weft.numpy.eager import eager_programs

    return eager_programs(_PROGRAMS, joining="stack")


def __getattr__(name: str) -> _Any:
    if name == "linalg":
        return _importlib.import_module("weft.lax.linalg")
    home = _NAMES.get(name) or (_NAMES.get(name[:-2]) if name.endswith("_p") else None)
    if home is None:
        raise _missing(__name__, name)
    try:
        value = getattr(_importlib.import_module(home), name)
    except AttributeError:
        raise _missing(__name__, name) from None
    listed = getattr(value, "__name__", name) in _NAMES
    globals()[name] = value = _public(
        value,
        "weft.lax",
        None if listed else name,
        example=_EXAMPLES.get(name),
        programs=_programs() if name in _PROGRAMS.split() else None,
    )
    return value


def __dir__() -> list[str]:
    return __all__
