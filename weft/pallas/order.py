"""Which dimensions of a grid may run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autodiff.dce import dce_jaxpr
from weft.core import dtypes
from weft.core.jaxpr import Literal, open_jaxpr
from weft.core.ref import At
from weft.pallas.api.params import semantics as given
from weft.pallas.ir import ACCESSES, ref_operands

if TYPE_CHECKING:
    from weft.core.jaxpr import Atom, Eqn, Jaxpr, Var
    from weft.pallas.ir import BlockMapping, KernelCall


def parallel_dims(call: KernelCall) -> list[int]:
    """Grid dimensions whose programs are independent: each of the others runs in order.

    Those that `dimension_semantics` names "parallel" and those that vmap added; otherwise those
    along which no place of an output is visited twice: every output's index map gives the index
    as it is, or the kernel's accesses to the output lie apart by it. Scratch keeps its contents
    from program to program: a kernel that may read what an earlier program left runs in order.
    """
    semantics = {**dict.fromkeys(range(call.num_batch), "parallel"), **given(call)}
    moving = [d for d, n in enumerate(call.grid) if n > 1]
    named = [d for d in moving if semantics.get(d) == "parallel"]
    free = [d for d in moving if d in named or (d not in semantics and _is_injective(call, d))]
    if set(free) != set(named) and call.scratch and not _scratch_is_fresh(call, set(free)):
        return named
    return free


def _is_injective(call: KernelCall, d: int) -> bool:
    """Return whether different indices along d write different blocks of every output."""
    jaxpr = open_jaxpr(call.jaxpr)
    first = call.num_scalars + call.num_inputs
    refs = jaxpr.invars[first : first + len(call.outputs)]
    for block, ref in zip(call.output_blocks, refs, strict=True):
        if d not in _direct(block) and not (_is_still(block, d) and _is_apart(call, jaxpr, ref, d)):
            return False
    # A program may read the part of an aliased operand that another one overwrites.
    for operand, output in call.aliases:
        position = operand - call.num_scalars
        if position < 0:
            return False
        if jaxpr.invars[operand] not in used_vars(jaxpr):
            continue
        if d not in _direct(call.input_blocks[position]):
            return False
        source, target = call.input_blocks[position], call.output_blocks[output]
        if (
            _direct(source).get(d) != _direct(target).get(d)
            or source.block_shape != target.block_shape
        ):
            return False
    return True


def _direct(block: BlockMapping) -> dict[int, int]:
    """Grid dimension → dimension of the array whose block number is that grid index."""
    if block.whole:
        return {}
    jaxpr = open_jaxpr(block.index_map)
    position = {v: d for d, v in enumerate(jaxpr.invars)}
    direct = {}
    for k, v in enumerate(jaxpr.outvars):
        apart = not block.by_element[k] or block.block_shape[k] == 1
        if apart and v.__class__ is not Literal and v in position:
            direct[position[v]] = k
    return direct


def _is_still(block: BlockMapping, d: int) -> bool:
    """Return whether the block is the same one all along dimension d."""
    if block.whole:
        return True
    jaxpr = open_jaxpr(block.index_map)
    _, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return not used[d]


def _is_apart(call: KernelCall, jaxpr: Jaxpr, ref: Var, d: int) -> bool:
    """Tell whether programs with different indices along d access different places of a ref, or
    only add up integers in it."""
    definitions = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    places: set[tuple[int, int]] | None = None  # (dimension, elements from index to index)
    for eqn in jaxpr.eqns:
        if ref not in eqn.invars:
            continue
        name = eqn.primitive.name
        if (
            name == "atomic_rmw"
            and eqn.rule_params["op"] != "xchg"
            and dtypes.is_integer(ref.aval.dtype)
        ):
            continue
        others = name not in ACCESSES or name.startswith("atomic")
        if others or eqn.invars[0] is not ref or ref in eqn.invars[1:]:
            return False
        positions = ref_operands(eqn, eqn.invars).positions
        dims = set()
        for k, (dim, at) in enumerate(eqn.rule_params["indexer"].attach(positions)):
            if isinstance(at, int | np.ndarray) or at is None:
                continue
            axis, step = _multiple_of_program(at, definitions)
            size = (
                1
                if isinstance(dim, At)
                else (getattr(dim, "size", 0) - 1) * getattr(dim, "stride", 1) + 1
            )
            if axis is not None and call.num_batch + axis == d and step >= size > 0:
                dims.add((k, step))
        places = dims if places is None else places & dims
        if not places:
            return False
    return True


def _multiple_of_program(index: Var, definitions: dict) -> tuple[int | None, int]:
    """(axis, c) if an index is c times the program's index along the axis."""
    step = 1
    while index.__class__ is not Literal:
        eqn = definitions.get(index)
        if eqn is None:
            break
        name = eqn.primitive.name
        if name == "program_id":
            return eqn.rule_params["axis"], step
        if name == "mul":
            a, b = eqn.invars
            if a.__class__ is Literal:
                a, b = b, a
            if b.__class__ is not Literal:
                break
            step *= int(b.val)
            index = a
        elif name == "convert_element_type":
            index = eqn.invars[0]
        else:
            break
    return None, 0


def _scratch_is_fresh(call: KernelCall, free: set[int]) -> bool:
    """Tell whether every program, or the first one along the dimensions in order, writes all
    scratch before it reads any."""
    jaxpr = open_jaxpr(call.jaxpr)
    scratch = jaxpr.invars[len(jaxpr.invars) - len(call.scratch) :]
    first = [d for d, n in enumerate(call.grid) if n > 1 and d not in free]
    return all(_written_first(call, jaxpr, v, first) for v in scratch)


def _written_first(call: KernelCall, jaxpr: Jaxpr, ref: Var, ordered: list[int]) -> bool:
    if ref.aval.holds_semaphores:
        return True
    definitions = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    for eqn in jaxpr.eqns:
        if ref not in eqn.invars:
            continue
        name = eqn.primitive.name
        if name in ("set", "swap"):
            quiet = name == "set" or eqn.outvars[0] not in used_vars(jaxpr)
            whole = (
                eqn.rule_params["indexer"].is_whole(ref.aval.shape)
                and not eqn.rule_params["masked"]
            )
            return quiet and whole and eqn.invars[0] is ref and ref not in eqn.invars[1:]
        if name == "cond" and len(eqn.rule_params["branches"]) == 2:
            at = step_of(eqn.invars[0], definitions)
            if at is None or at[1] != 0 or [call.num_batch + at[0]] != ordered:
                return False
            branch = eqn.rule_params["branches"][1].jaxpr
            inner = branch.invars[list(eqn.invars[1:]).index(ref)]
            return _written_first(call, branch, inner, [])
        return False
    return True


def used_vars(jaxpr: Jaxpr) -> set:
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if v.__class__ is not Literal}
    return used | {v for v in jaxpr.outvars if v.__class__ is not Literal}


def step_of(index: Atom, definitions: dict[Any, Eqn]) -> tuple[int, int] | None:
    """(axis, k) if a branch's index is `program_id(axis) == k`, as a truth value or a number."""
    eqn = definitions.get(index)
    while eqn is not None and eqn.primitive.name == "convert_element_type":
        eqn = definitions.get(eqn.invars[0])
    if eqn is None or eqn.primitive.name != "eq":
        return None
    number, step = eqn.invars
    if number.__class__ is Literal:
        number, step = step, number
    source = definitions.get(number)
    if step.__class__ is not Literal or source is None or source.primitive.name != "program_id":
        return None
    return source.rule_params["axis"], int(np.asarray(step.val))
