# Tests: tests/pallas/test_cpu_dtypes.py
"""Complex numbers as pairs of floats, for backends that have none: a part of `legalize`.

A complex value is two values. A ref of complex numbers is one of floats with a last dimension of
two, which is how they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from weft.core.ref import AbstractRef, At, Indexer, Window
from weft.core.trace import trace_to_jaxpr
from weft.pallas.formulas.complex import part_dtype

if TYPE_CHECKING:
    from weft.pallas.ir import BlockMapping


class Pair(NamedTuple):
    """The real and the imaginary part of a complex value."""

    re: Any
    im: Any


Value = Atom | Pair


def is_complex(aval: ShapedArray | AbstractRef) -> bool:
    return not dtypes.is_extended(aval.dtype) and dtypes.is_complex(aval.dtype)


def concerns(eqn: Eqn) -> bool:
    """Return whether an equation takes or gives complex numbers."""
    return any(is_complex(v.aval) for v in (*eqn.invars, *eqn.outvars))


def parts_of(aval: ShapedArray | AbstractRef) -> tuple[Any, ...]:
    """Return the types that stand for a type."""
    if not is_complex(aval):
        return (aval,)
    part = part_dtype(aval.dtype)
    if isinstance(aval, AbstractRef):
        return (aval.update(shape=(*aval.shape, 2), dtype=part),)
    return (ShapedArray(aval.shape, part),) * 2


def flat(values: Iterable[Value]) -> list[Atom]:
    return [a for v in values for a in (v if isinstance(v, Pair) else (v,))]


def packed(avals: Iterable[Any], atoms: Iterable[Any]) -> list[Any]:
    """Return the values of these types from the atoms that stand for them."""
    rest = iter(atoms)
    return [
        Pair(next(rest), next(rest)) if len(parts_of(aval)) == 2 else next(rest) for aval in avals
    ]


# Calls --------------------------------------------------------------------------------------------


def block_of_pairs(block: BlockMapping) -> BlockMapping:
    """Return the block of an array of floats with a last dimension of two."""
    array = block.array
    if not is_complex(array):
        return block
    index_map, zero = block.index_map.jaxpr, Literal(np.int32(0), ShapedArray((), dtypes.int32))
    return replace(
        block,
        array=with_pairs(array),
        block_shape=(*block.block_shape, 2),
        squeezed=(*block.squeezed, False),
        by_element=(*block.by_element, False),
        index_map=ClosedJaxpr(
            index_map.replace(outvars=[*index_map.outvars, zero]), block.index_map.consts
        ),
        padding=(*block.padding, (0, 0)) if block.padding else (),
    )


def with_pairs(array: ShapedArray) -> ShapedArray:
    """Return the array in memory as floats."""
    if not is_complex(array):
        return array
    return array.update(shape=(*array.shape, 2), dtype=part_dtype(array.dtype), sharding=None)


def counts_of_atoms(eqn: Eqn) -> dict[str, int]:
    """Return the parameters of an equation that count operands, once its values are pairs."""
    sizes = [len(parts_of(v.aval)) for v in eqn.invars]
    counts: dict[str, int] = {}
    start = 0
    for name in ("num_consts", "num_carry", "cond_nconsts", "body_nconsts"):
        if name in eqn.rule_params:
            end = start + eqn.rule_params[name]
            counts[name] = sum(sizes[start:end])
            start = end
    return counts


# Equations ----------------------------------------------------------------------------------------


def of_pairs(eqn: Eqn, function: Callable) -> ClosedJaxpr:
    """Trace a function of numbers and pairs, on the atoms of an equation's operands."""
    avals = [v.aval for v in eqn.invars]

    def on_atoms(*atoms: object) -> list[Any]:
        out = function(eqn, *packed(avals, atoms))
        return list(out) if isinstance(out, tuple) else [out]

    parts = [part for aval in avals for part in parts_of(aval)]
    return ClosedJaxpr(*trace_to_jaxpr(on_atoms, parts, eqn.primitive.name))


def equations_of_parts(eqn: Eqn) -> list[Eqn]:
    """Return the equation for the real parts, and for the imaginary ones."""

    def part(atom: Atom, k: int) -> Atom:
        return Var(parts_of(atom.aval)[k]) if is_complex(atom.aval) else atom

    return [
        eqn.replace(
            invars=[part(v, k) for v in eqn.invars], outvars=[part(v, k) for v in eqn.outvars]
        )
        for k in range(2)
    ]


def accesses(eqn: Eqn, invars: Sequence[Value]) -> list[Eqn]:
    """Return a get, set or addupdate of a complex ref as those of its parts."""
    indexer = eqn.rule_params["indexer"]
    return [
        eqn.replace(
            invars=[v[k] if isinstance(v, Pair) else v for v in invars],
            outvars=[Var(parts_of(v.aval)[k]) for v in eqn.outvars],
            params={
                **eqn.rule_params,
                "indexer": Indexer((*indexer.dims, At(k)), indexer.block, indexer.block_position),
            },
        )
        for k in range(2)
    ]


def copy_of_pairs(eqn: Eqn) -> dict[str, Any]:
    """Return the parameters of a copy between refs, both of floats with a last dimension of two."""
    params = dict(eqn.rule_params)
    for name in ("src_indexer", "dst_indexer"):
        indexer = params[name]
        params[name] = Indexer((*indexer.dims, Window(0, 2)), indexer.block, indexer.block_position)
    return params
