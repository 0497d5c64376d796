"""Formulas of ops on whole arrays, for the backends that lack them; weft/formulas has elements'.

complex         complex numbers as pairs
scalars         sums such as the zeta function's, and what is done to bits
windows         convolutions and reductions of windows
arrays          ops on arrays and refs
sorting         bitonic sorting, updates of a part
"""
