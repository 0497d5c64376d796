"""weft has JAX's public names with JAX's parameters, or a reason not to."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

ORACLE = json.loads((Path(__file__).parent / "oracle" / "names.json").read_text())["modules"]

# Names that weft leaves out, and why.
ABSENT = {
    "numpy": {
        **dict.fromkeys(["int1", "uint1"], "XLA computes in them on no platform weft runs on"),
        **dict.fromkeys(["float6_e2m3fn", "float6_e3m2fn"], "XLA computes in them nowhere"),
    },
    "lax": {
        "approx_top_k_p": "approx_max_k is top_k, which is exact",
        "device_put_p": "device_put inside a program is a sharding constraint",
        "linear_solve_p": "custom_linear_solve is made of calls",
        "scatter_sub_p": "scatter_sub adds the negative",
        "select_and_scatter_p": "max pooling uses select_and_scatter_add alone",
        "sharding_constraint_p": "stands in weft.sharding",
        "square_p": "square is integer_pow",
        "squeeze_p": "squeeze is reshape",
        **dict.fromkeys(["stack_p", "unstack_p"], "made of reshape, concatenate and slice"),
        "stage_p": "stage is copy",
        "tile_p": "tile is made of broadcast and reshape",
    },
    "lax.linalg": {
        "cholesky_update_p": "made of a scan over columns",
        "symmetric_product_p": "made of dot_general",
    },
}
# Parameters that weft leaves out, and why.
OMITTED = {
    "out": "arrays are immutable: ufuncs write into none",
    "where": "ufuncs compute everywhere; select with numpy.where",
}
# Type aliases and constants have no signature of their own.
NO_SIGNATURE = {"PrecisionLike", "ConvGeneralDilatedDimensionNumbers"}


def module(name):
    return importlib.import_module(f"weft.{name}")


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_every_name_exists_or_has_a_reason(name):
    missing = {n for n in ORACLE[name] if not hasattr(module(name), n)}
    assert missing == set(ABSENT.get(name, {}))


FUNCTIONS = [
    (m, n)
    for m, names in sorted(ORACLE.items())
    for n, parameters in sorted(names.items())
    if parameters is not None and n not in ABSENT.get(m, {}) and n not in NO_SIGNATURE
]


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_functions_take_jaxs_parameters(name):
    wrong = []
    for m, n in FUNCTIONS:
        if m != name:
            continue
        given = inspect.signature(getattr(module(m), n)).parameters
        expected = ORACLE[m][n]
        named = [p for p, kind in expected if kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")]
        lacks = [p for p in named if p not in given and p not in OMITTED]
        if lacks:
            wrong.append(f"{n} lacks {', '.join(lacks)}")
        kinds = [p.kind for p in given.values()]
        positional = sum(k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD) for k in kinds)
        wanted = sum(kind.startswith("POSITIONAL") for _, kind in expected)
        if positional < wanted and inspect.Parameter.VAR_POSITIONAL not in kinds:
            wrong.append(f"{n} takes {positional} positional arguments, JAX's {wanted}")
    assert not wrong
