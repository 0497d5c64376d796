"""Examples of the functions of weft.scipy.stats, which their docstrings end with."""

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import numpy as wnp; from weft.scipy import stats",
    r"""
mode
>>> most, count = stats.mode(wnp.array([1, 2, 2, 3]))
>>> int(most), int(count)
(2, 2)

rankdata
>>> stats.rankdata(wnp.array([3.0, 1.0, 3.0]))
Array([2.5, 1. , 2.5], dtype=float32)

sem
>>> round(float(stats.sem(wnp.array([1.0, 2.0, 3.0]))), 3)
0.577
""",
)
__test__ = EXAMPLES
