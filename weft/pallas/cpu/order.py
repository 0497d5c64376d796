"""Which dimensions of a grid may run at the same time, and how much work there is."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import Literal, open_jaxpr, subjaxprs
from weft.pallas.cpu import scalar
from weft.pallas.cpu.values import size_of


def parallel_dims(call: Any) -> list[int]:
    """Grid dimensions whose programs are independent: each of the others runs in order.

    Those that `dimension_semantics` names "parallel"; otherwise those that every output's index
    map gives as it is, so that no block is visited along them twice. Scratch keeps its contents
    from program to program: a kernel that may read what an earlier program left runs in order.
    """
    semantics = _semantics(call)
    moving = [d for d, n in enumerate(call.grid) if n > 1]
    named = [d for d in moving if semantics.get(d) == "parallel"]
    free = [d for d in moving if d in named or (d not in semantics and _is_injective(call, d))]
    if set(free) != set(named) and call.scratch and not _scratch_is_fresh(call, set(free)):
        return named
    return free


def _semantics(call: Any) -> dict[int, str]:
    params = call.compiler_params
    given = (
        params.get("dimension_semantics")
        if isinstance(params, dict)
        else getattr(params, "dimension_semantics", None)
    )
    found = {call.num_batch + k: str(s).lower().split(".")[-1] for k, s in enumerate(given or ())}
    return {**dict.fromkeys(range(call.num_batch), "parallel"), **found} if given else found


def _is_injective(call: Any, d: int) -> bool:
    """Whether different indices along d write different blocks of every output."""
    if not all(d in _direct(block) for block in call.output_blocks):
        return False
    # A program may read the part of an aliased operand that another one overwrites.
    for operand, output in call.aliases:
        position = operand - call.num_scalars
        if position < 0:
            return False
        if d not in _direct(call.input_blocks[position]):
            return False
        mine, theirs = call.input_blocks[position], call.output_blocks[output]
        if _direct(mine).get(d) != _direct(theirs).get(d) or mine.block_shape != theirs.block_shape:
            return False
    return True


def _direct(block: Any) -> dict[int, int]:
    """Grid dimension → dimension of the array whose block number is that grid index."""
    if block.whole:
        return {}
    jaxpr = open_jaxpr(block.index_map)
    place = {v: d for d, v in enumerate(jaxpr.invars)}
    found = {}
    for k, v in enumerate(jaxpr.outvars):
        apart = not block.by_element[k] or block.block_shape[k] == 1
        if apart and v.__class__ is not Literal and v in place:
            found[place[v]] = k
    return found


def _scratch_is_fresh(call: Any, free: set[int]) -> bool:
    """Whether every program, or the first one along the dimensions in order, writes all scratch
    before it reads any."""
    jaxpr = open_jaxpr(call.jaxpr)
    scratch = jaxpr.invars[len(jaxpr.invars) - len(call.scratch) :]
    first = [d for d, n in enumerate(call.grid) if n > 1 and d not in free]
    return all(_written_first(call, jaxpr, v, first) for v in scratch)


def _written_first(call: Any, jaxpr: Any, ref: Any, ordered: list[int]) -> bool:
    if getattr(ref.aval.memory_space, "holds_semaphores", False):
        return True
    definitions = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    for eqn in jaxpr.eqns:
        if ref not in eqn.invars:
            continue
        name = eqn.primitive.name
        if name in ("set", "swap"):
            quiet = name == "set" or eqn.outvars[0] not in _used(jaxpr)
            whole = eqn.params["indexer"].is_whole(ref.aval.shape) and not eqn.params["masked"]
            return quiet and whole and eqn.invars[0] is ref and ref not in eqn.invars[1:]
        if name == "cond" and len(eqn.params["branches"]) == 2:
            if not _is_first(call, eqn.invars[0], definitions, ordered):
                return False
            branch = eqn.params["branches"][1].jaxpr
            inner = branch.invars[list(eqn.invars[1:]).index(ref)]
            return _written_first(call, branch, inner, [])
        return False
    return True


def _used(jaxpr: Any) -> set:
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if v.__class__ is not Literal}
    return used | {v for v in jaxpr.outvars if v.__class__ is not Literal}


def _is_first(call: Any, index: Any, definitions: dict, ordered: list[int]) -> bool:
    """Whether a branch index is `program_id(d) == 0` (as a number) for the only ordered d."""
    eqn = definitions.get(index)
    while eqn is not None and eqn.primitive.name == "convert_element_type":
        eqn = definitions.get(eqn.invars[0])
    if eqn is None or eqn.primitive.name != "eq" or len(ordered) != 1:
        return False
    a, b = eqn.invars
    if a.__class__ is Literal:
        a, b = b, a
    if b.__class__ is not Literal or int(b.val) != 0:
        return False
    source = definitions.get(a)
    return (
        source is not None
        and source.primitive.name == "program_id"
        and call.num_batch + source.params["axis"] == ordered[0]
    )


def work_of(jaxpr: Any) -> int:
    """About how many vector operations one run of a jaxpr takes."""
    total = 0
    for eqn in open_jaxpr(jaxpr).eqns:
        inner = [work_of(j) for _, j in subjaxprs(eqn.params)]
        if inner:
            repeats = eqn.params.get("length", 8 if eqn.primitive.name == "while" else 1)
            total += repeats * max(inner)
            continue
        sizes = [size_of(v.aval.shape) for v in (*eqn.invars, *eqn.outvars)]
        cost = scalar.COSTS.get(eqn.primitive.name, 1)
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            cost = size_of([eqn.invars[0].aval.shape[d] for d in contracted])
            sizes = [size_of(eqn.outvars[0].aval.shape)]
        total += cost * max(sizes, default=1) // 8 + 1
    return total
