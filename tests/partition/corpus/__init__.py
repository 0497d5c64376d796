"""Programs as people write them, with many shardings each; NumPy gives the values they must have.

A program is a function of a NumPy-like namespace and of a library. The library is weft (or, for
comparison, JAX) or `reference.Host`, which runs scans, branches and the like in plain Python over
NumPy; gradients and scatters have references of their own. `lib.pin(x)` constrains a value to a
random sharding, often one that does not divide it.
"""

from tests.partition.corpus import (  # noqa: F401  they fill PROGRAMS
    accumulation,
    control,
    convolutions,
    grids,
    indexing,
    inference,
    later_layers,
    later_methods,
    linear,
    methods,
    models,
    networks,
    orders,
    papers,
    sciences,
    training,
    transformers,
    uneven,
)
from tests.partition.corpus.entry import MESHES, PROGRAMS, Case, Entry, Library, case, cases

__all__ = ["MESHES", "PROGRAMS", "Case", "Entry", "Library", "case", "cases"]
