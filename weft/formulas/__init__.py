"""Formulas: functions of one element, written once in scalar ops.

By them the backends of kernels, and the CPU in ordinary programs (weft/native/formulas.py), compute
what they have no instruction for.

elements        the table of ops that have one, and the jaxpr of each
language        fma, bits, polynomials, …: what formulas use beside the operators
elementary      exponentials, logarithms, sin, cos, tan
inverse         inverse and hyperbolic functions, powers, roots
special         the error function and its inverse, the gamma function
floats          floats of 8 bits
"""
