# Tests: tests/pallas/test_op_table.py
"""Reductions and running totals: the op that combines elements.

The neutral elements of these ops are in weft.ops.combiner.IDENTITIES.
"""

REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
CUMULATIVE = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
