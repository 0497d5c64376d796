"""Formulas: ops on elements, written once in scalar ops, for the backends that lack them.

elements        the table of those of one element, and their jaxprs
language        fma, bits, polynomials, …: what formulas use beside the operators
elementary      exponentials, logarithms, sin, cos, tan
inverse         inverse and hyperbolic functions, powers, roots
special         the error function and its inverse, the gamma function
complex         complex numbers as pairs
floats          floats of 8 bits
scalars         sums such as the zeta function's, and what is done to bits
windows         convolutions and reductions of windows
arrays          ops on arrays and refs
sorting         bitonic sorting, updates of a part
"""
