# Tests: tests/test_docstrings.py
"""Examples of the functions that weft.scipy.special has from weft.lax."""

from weft.core.namespace import examples_of

EXAMPLES = examples_of(
    "from weft import numpy as wnp; from weft.scipy import special",
    r"""
digamma
>>> round(float(special.digamma(0.5)), 4)
-1.9635

erf
>>> round(float(special.erf(0.5)), 4)
0.5205

erfc
>>> round(float(special.erfc(0.5)), 4)
0.4795

erfinv
>>> round(float(special.erfinv(0.5)), 4)
0.4769

expit
>>> round(float(special.expit(0.5)), 4)
0.6225

gammaln
>>> round(float(special.gammaln(0.5)), 4)
0.5724

i0e
>>> round(float(special.i0e(0.5)), 4)
0.645

i1e
>>> round(float(special.i1e(0.5)), 4)
0.1564""",
)
__test__ = EXAMPLES
