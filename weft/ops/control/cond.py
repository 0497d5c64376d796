"""cond and switch: one of several branches, by a predicate or an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.effects import WRITES
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, is_array_like, typeof
from weft.core.tree import flatten, tree_map
from weft.ops.control.common import (
    args_tree,
    avals_of,
    check_function,
    check_same_types,
    eager,
    function_text,
    join_axes,
    names_of,
    ordered_effects_of,
    pick,
    select_rows,
    trace_body,
    value_in_python,
)
from weft.ops.control.divergence import (
    check_derivative,
    check_reached_by_all,
    ending_varying,
    equal_over,
    seen_as_varying,
    spread_alike,
    vary,
)
from weft.transforms.dce import DCE_RULES, dce_jaxpr
from weft.transforms.dependence import program_depends
from weft.transforms.jvp import jvp_jaxpr, linearize_jaxpr
from weft.transforms.transpose import is_undefined, transpose_jaxpr
from weft.transforms.vmap import AxisData, batch_jaxpr, dims_in_front, move_dim, to_front

Branches = tuple[ClosedJaxpr, ...]


def _abstract(index: ShapedArray, *avals: Any, branches: Branches) -> list:
    outs = [_strip_unless_all(aval) for aval in zip(*(b.out_avals for b in branches), strict=True)]
    if index.mat.varying:
        # Devices may take different branches, so the results vary where the index does. A partial
        # sum stays one.
        axes = index.mat.varying
        outs = [
            o.update(
                mat=o.mat.replace(
                    varying=o.mat.varying | (axes - o.mat.unreduced), reduced=o.mat.reduced - axes
                )
            )
            for o in outs
        ]
    return outs


def _strip_unless_all(avals: Sequence[Any]) -> Any:
    return avals[0] if all(a.weak_type for a in avals) else avals[0].strip_weak_type()


def _effects(avals: Any, params: dict) -> frozenset:
    return frozenset().union(*(b.effects for b in params["branches"]))


def _any(masks: Sequence[Sequence[bool]]) -> list[bool]:
    return [any(column) for column in zip(*masks, strict=True)]


# Derivatives -----------------------------------------------------------------------------------


def _jvp(primals: Any, tangents: Any, *, branches: Branches) -> tuple:
    index, *operands = primals
    nonzero = [t is not None for t in tangents[1:]]
    out_nonzero = _any([jvp_jaxpr(b, nonzero)[1] for b in branches])
    pushed = tuple(jvp_jaxpr(b, nonzero, out_nonzero)[0] for b in branches)
    given = [t for t in tangents[1:] if t is not None]
    outs = cond_p.bind(index, *operands, *given, branches=pushed)
    n = len(out_nonzero)
    out_t = iter(outs[n:])
    return outs[:n], [next(out_t) if nz else None for nz in out_nonzero]


class _Split:
    """Branches split by linearization, with one list of residuals for all of them.

    A residual is an operand (`operands`) or one of the slots that the primal branches give after
    their results; a branch gives zeros in the slots it does not use.
    """

    __slots__ = ("operands", "out_nonzero", "primal", "tangent")

    operands: list[int]
    out_nonzero: list[bool]
    primal: Branches
    tangent: Branches


def _split_branches(branches: Branches, nonzero: tuple[bool, ...]) -> _Split:
    out_nonzero = _any([linearize_jaxpr(b, nonzero).nonzero_out for b in branches])
    lins = [linearize_jaxpr(b, nonzero, out_nonzero) for b in branches]
    n_out = len(out_nonzero)
    operands = sorted({p for lin in lins for p in lin.residual_inputs if p is not None})
    # Residuals of one type share a slot: only one branch runs.
    needs = [Counter(lin.primal.out_avals[n_out:]) for lin in lins]
    slots: list[Any] = []
    for aval in dict.fromkeys(a for need in needs for a in need):
        slots += [aval] * max(need[aval] for need in needs)
    primal, tangent = [], []
    for lin in lins:
        free: dict[Any, list[int]] = {}
        for i, aval in enumerate(slots):
            free.setdefault(aval, []).append(i)
        p, t = lin.primal.jaxpr, lin.tangent.jaxpr
        at = [free[v.aval].pop(0) for v in p.outvars[n_out:]]
        primal.append(_with_slots(lin.primal, n_out, slots, at))
        num_residuals = len(lin.residual_inputs)
        invars: list[Any] = [Var(branches[0].in_avals[i]) for i in operands]
        invars += [Var(a) for a in slots]
        extra = iter(at)
        for var, position in zip(t.invars[:num_residuals], lin.residual_inputs, strict=True):
            where = len(operands) + next(extra) if position is None else operands.index(position)
            invars[where] = var
        invars += t.invars[num_residuals:]
        tangent.append(ClosedJaxpr(t.replace(invars=invars), lin.tangent.consts))
    split = _Split()
    split.primal, split.tangent = tuple(primal), tuple(tangent)
    split.operands, split.out_nonzero = operands, out_nonzero
    return split


def _with_slots(closed: ClosedJaxpr, n_out: int, slots: list, at: list[int]) -> ClosedJaxpr:
    """The branch giving its residuals at slots `at`, zeros in the others."""
    from weft.core.trace import trace_to_jaxpr
    from weft.ops.special import instantiate_zero

    unused = [i for i in range(len(slots)) if i not in at]
    j = closed.jaxpr
    outs: list[Any] = [None] * len(slots)
    for i, v in zip(at, j.outvars[n_out:], strict=True):
        outs[i] = v
    eqns, constvars, consts = list(j.eqns), list(j.constvars), list(closed.consts)
    if unused:
        zeros, values = trace_to_jaxpr(lambda: [instantiate_zero(slots[i]) for i in unused], [])
        eqns += zeros.eqns
        constvars += zeros.constvars
        consts += values
        for i, v in zip(unused, zeros.outvars, strict=True):
            outs[i] = v
    new = j.replace(constvars=constvars, eqns=eqns, outvars=[*j.outvars[:n_out], *outs])
    return ClosedJaxpr(new, consts)


def _linearize(primals: Any, tangents: Any, *, branches: Branches) -> tuple:
    index, *operands = primals
    nonzero = tuple(t is not None for t in tangents[1:])
    split = branches[0].memo(
        ("cond split", branches, nonzero), lambda: _split_branches(branches, nonzero)
    )
    outs = cond_p.bind(index, *operands, branches=split.primal)
    n = len(split.out_nonzero)
    if not any(split.out_nonzero):
        return outs[:n], [None] * n
    given = [t for t in tangents[1:] if t is not None]
    residuals = [operands[i] for i in split.operands]
    out_t = iter(cond_p.bind(index, *residuals, *outs[n:], *given, branches=split.tangent))
    return outs[:n], [next(out_t) if nz else None for nz in split.out_nonzero]


def _transpose(cts: Any, index: Any, *operands: Any, branches: Branches) -> list:
    linear = [is_undefined(x) for x in operands]
    nonzero = [ct is not None for ct in cts]
    found = _any([transpose_jaxpr(b, linear, nonzero)[1] for b in branches])
    flags = iter(found)
    instantiate = [next(flags) if lin else False for lin in linear]
    back = tuple(transpose_jaxpr(b, linear, nonzero, instantiate)[0] for b in branches)
    check_derivative(index, branches, back)
    known = [x for x in operands if not is_undefined(x)]
    outs = iter(cond_p.bind(index, *known, *(c for c in cts if c is not None), branches=back))
    result = iter([next(outs) if nz else None for nz in found])
    return [None, *(next(result) if lin else None for lin in linear)]


# Batching --------------------------------------------------------------------------------------


def _batch(axis: AxisData, args: Any, dims: Any, *, branches: Branches) -> tuple:
    index, *operands = args
    operands, batched = to_front(operands, dims[1:])
    if dims[0] is None:
        masks = [batch_jaxpr(b, axis, batched)[1] for b in branches]
        out_batched = [max(column, key=_differing) for column in zip(*masks, strict=True)]
        inner = tuple(batch_jaxpr(b, axis, batched, out_batched)[0] for b in branches)
        return cond_p.bind(index, *operands, branches=inner), dims_in_front(out_batched)
    return _select(axis, index, dims[0], operands, batched, branches)


def _differing(batched: Any) -> int:
    """0 for a result that is not batched, 1 for one equal in all examples, 2 for others."""
    return 2 if batched is True else int(bool(batched))


def _select(
    axis: AxisData, index: Any, dim: int, operands: list, batched: list[bool], branches: Branches
) -> tuple:
    """With a batched index, all branches run and each example takes its own one's results."""
    from weft.core.jaxpr import eval_closed
    from weft.ops.elementwise import convert, eq

    if any(WRITES in b.effects for b in branches):
        raise TypeError(
            "cond: the predicate is batched by vmap, and what runs for some examples only "
            "writes to a Ref of a kernel; use a mask instead: pl.store(ref, i, x, mask=...)"
        )
    if ordered_effects_of(*branches):
        raise ValueError(
            "cond: the branches have ordered effects and the predicate is batched by vmap, so "
            "that both branches would run; make the predicate unbatched, or the effects unordered"
        )
    index = move_dim(index, dim, 0, axis)
    results = []
    for i, b in enumerate(branches):
        inner, _ = batch_jaxpr(b, axis, batched, True)
        taken = eq(index, typeof(index).dtype.type(i))
        own = [
            _differentiated_where(taken, x) if mapped else x
            for x, mapped in zip(operands, batched, strict=True)
        ]
        results.append(eval_closed(inner, *own))
    if len(branches) == 2:
        index = convert(index, dtypes.bool_)
    outs = []
    for cases in zip(*results, strict=True):
        outs.append(select_rows(index, *cases))
    return outs, [0] * len(outs)


def _differentiated_where(taken: Any, x: Any) -> Any:
    """The operand of a branch, without a derivative in examples that do not take the branch.

    There the branch may have none, and its cotangent, 0, times infinity would be NaN.
    """
    from weft.ops.special import stop_gradient

    aval = typeof(x)
    if hasattr(aval, "arrive") or aval.dtype not in dtypes._FLOATS | dtypes._COMPLEX:
        return x
    return select_rows(taken, stop_gradient(x), x)


# Dead code -------------------------------------------------------------------------------------


def _dce(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    branches: Branches = eqn.params["branches"]
    cut = [dce_jaxpr(b.jaxpr, used) for b in branches]
    keep = _any([read for _, read in cut])
    if all(keep) and all(used):
        return eqn
    new = tuple(
        ClosedJaxpr(j.replace(invars=pick(j.invars, keep)), b.consts)
        for (j, _), b in zip(cut, branches, strict=True)
    )
    return eqn.replace(
        invars=[eqn.invars[0], *pick(eqn.invars[1:], keep)],
        outvars=pick(eqn.outvars, used),
        params={"branches": new},
    )


# Lowering --------------------------------------------------------------------------------------


def _lower(ctx: Any, index: Any, *operands: Any, branches: Branches) -> list:
    if len(branches) == 1:
        return ctx.inline(branches[0], *operands)
    chosen = _static_index(index)
    if chosen is not None:
        return ctx.inline(branches[min(max(chosen, 0), len(branches) - 1)], *operands)
    tokens = ctx.function.tokens
    effects = ordered_effects_of(*branches)
    before = {e: tokens[e] for e in effects}
    types = [*ctx.out_types(), *(t.type for t in before.values())]
    case = ctx.operation("stablehlo.case", [index], types, regions=len(branches))

    for i, b in enumerate(branches):

        def body(b: ClosedJaxpr = b) -> list:
            tokens.update(before)
            outs = ctx.inline(b, *operands)
            return [*outs, *(tokens[e] for e in effects)]

        with ctx.module.decided_by(ctx.avals_in[0]):
            ctx.region(case, i, [], body)
    n = len(ctx.avals_out)
    results = list(case.results)
    tokens.update(zip(effects, results[n:], strict=True))
    return results[:n]


def _static_index(index: Any) -> int | None:
    """The index where it is a constant of the program, such as the platform's."""
    import numpy as np

    owner = index.owner
    if getattr(owner, "name", None) != "stablehlo.constant":
        return None
    return int(np.asarray(owner.attributes["value"]).reshape(()))


def _depends(params: dict[str, Any], marked: Sequence[bool]) -> list[bool]:
    branches: Sequence[ClosedJaxpr] = params["branches"]
    if marked[0]:
        return [True] * len(branches[0].out_avals)
    columns = zip(*(program_depends(b, marked[1:]) for b in branches), strict=True)
    return [any(column) for column in columns]


cond_p = Primitive(
    "cond",
    abstract=_abstract,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    impl=eager(lambda params: params["branches"][0], lambda: cond_p),
    named_axes=lambda params: join_axes(*params["branches"]),
    depends=_depends,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)
DCE_RULES[cond_p] = _dce


# The functions ---------------------------------------------------------------------------------


def trace_branches(
    who: str,
    names: Sequence[str],
    functions: Sequence[Callable],
    operands: tuple,
    index: ShapedArray | None = None,
) -> tuple[Branches, list, list, Any]:
    """Traces all branches for the operands; they share one list of closed-over values.

    index: the type of what chooses among them.
    """
    texts = [f"{n} {function_text(f)}" for n, f in zip(names, functions, strict=True)]
    axes = index.mat.varying if index is not None else frozenset()
    if not axes:
        return _traced(who, texts, functions, operands)
    functions = [ending_varying(f, axes) for f in functions]
    varied = tree_map(lambda x: vary(x, axes) if equal_over(x, axes) else x, operands)
    try:
        return _traced(who, texts, functions, varied, axes)
    except (TypeError, ValueError):  # branches that count on a value being equal
        return _traced(who, texts, functions, operands)


def _traced(
    who: str,
    texts: Sequence[str],
    functions: Sequence[Callable],
    operands: tuple,
    axes: frozenset = frozenset(),
) -> tuple[Branches, list, list, Any]:
    """axes: those along which differentiable values from outside are cast to varying in front."""
    leaves, operands_tree = flatten(operands)
    tree = args_tree(*operands)
    avals = avals_of(who, leaves, names_of(operands_tree, "operands"))
    with seen_as_varying([], axes):
        bodies = [trace_body(f, tree, avals) for f in functions]
    equal = {id(c): c for body in bodies for c in body.consts if axes and _varies(c, axes)}
    if equal:
        with seen_as_varying(list(equal.values()), axes):
            bodies = [trace_body(f, tree, avals) for f in functions]
    first = bodies[0]
    joined = spread_alike(functions, bodies)
    if joined is not None:
        return _traced(who, texts, joined, operands, axes)
    for text, body in zip(texts[1:], bodies[1:], strict=True):
        if body.out_tree != first.out_tree:
            raise TypeError(
                f"{who}: the branches must return the same structure, but\n"
                f"  {texts[0]} returns {first.out_tree}\n  {text} returns {body.out_tree}"
            )
        check_same_types(
            f"{who}: the branches must return the same types, but {texts[0]} (expected) and "
            f"{text} (got) differ",
            first.jaxpr.out_avals,
            body.jaxpr.out_avals,
            names_of(first.out_tree, "result"),
            (
                f"the result of {texts[0].split(' ', 1)[0]}",
                f"the result of {text.split(' ', 1)[0]}",
            ),
        )
    consts: list = []
    where: dict[int, int] = {}
    for body in bodies:
        for c in body.consts:
            if id(c) not in where:
                where[id(c)] = len(consts)
                consts.append(c)
    consts = [vary(c, axes) if id(c) in equal else c for c in consts]
    branches = tuple(_with_consts(b, consts, where) for b in bodies)
    return branches, consts, leaves, first.out_tree


def _varies(x: Any, axes: frozenset) -> bool:
    return isinstance(x, Tracer) and equal_over(x, axes)


def _with_consts(body: Any, consts: list, where: dict[int, int]) -> ClosedJaxpr:
    mine = tuple(where[id(c)] for c in body.consts)
    if mine == tuple(range(len(consts))):
        return body.jaxpr
    key = ("cond consts", mine, tuple(typeof(c) for c in consts))

    def make() -> ClosedJaxpr:
        j: Jaxpr = body.jaxpr.jaxpr
        invars = [Var(typeof(c)) for c in consts]
        for at, v in zip(mine, j.invars, strict=False):
            invars[at] = v
        return ClosedJaxpr(j.replace(invars=[*invars, *j.invars[len(mine) :]]), body.jaxpr.consts)

    return body.jaxpr.memo(key, make)


def _scalar(who: str, what: str, x: Any) -> ShapedArray:
    if not is_array_like(x):
        raise TypeError(
            f"{who}: {what} must be a scalar, got {type(x).__name__} {x!r:.100}; the order of the "
            f"arguments is {who}({what}, functions, *operands)"
        )
    aval = typeof(x)
    if not isinstance(aval, ShapedArray) or aval.ndim:
        raise TypeError(
            f"{who}: {what} must be a scalar, got {aval.str_short()}; reduce it with "
            "weft.numpy.any or weft.numpy.all, or map with weft.vmap"
        )
    return aval


_MISSING = object()


@api_boundary
def cond(
    pred: Any,
    true_fun: Callable,
    false_fun: Callable,
    *operands: Any,
    operand: Any = _MISSING,
) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    pred: a boolean scalar (a number counts as true unless it is 0). Both functions are traced and
    must return the same structure and types; one of them runs. Under vmap with a batched
    predicate both run, and each example takes its own result.

    Raises TypeError if pred is not a scalar or the branches differ (both types are shown).

    >>> import weft
    >>> weft.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3)
    Array(4, dtype=int32, weak_type=True)
    """
    if operand is not _MISSING:
        if operands:
            raise TypeError("cond: give the operands by position or operand=, not both")
        operands = (operand,)
    check_function("cond", "true_fun", true_fun)
    check_function("cond", "false_fun", false_fun)
    aval = _scalar("cond", "pred", pred)
    if (
        dtypes.is_extended(aval.dtype)
        or aval.dtype.kind not in "bifu"
        and not dtypes.is_float(aval.dtype)
    ):
        raise TypeError(f"cond: pred must be a boolean or a number, got {aval.str_short()}")
    taken = value_in_python(pred)
    if taken is not None:
        return true_fun(*operands) if taken else false_fun(*operands)
    from weft.ops.elementwise import convert, ne_p

    branches, consts, leaves, tree = trace_branches(
        "cond", ("false_fun", "true_fun"), (false_fun, true_fun), operands, aval
    )
    check_reached_by_all("cond", "pred", aval, *branches)
    if not dtypes.is_bool(aval.dtype):
        pred = ne_p.bind(pred, aval.dtype.type(0))
    index = convert(pred, dtypes.int32)
    return tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=branches))


@api_boundary
def switch(
    index: Any, branches: Sequence[Callable], *operands: Any, operand: Any = _MISSING
) -> Any:
    """`branches[index](*operands)`, with index clamped to the range of the branches.

    index: an integer scalar. The branches must return the same structure and types.

    >>> import weft
    >>> weft.lax.switch(1, [lambda x: x, lambda x: -x], 3.0)
    Array(-3., dtype=float32, weak_type=True)
    """
    if operand is not _MISSING:
        if operands:
            raise TypeError("switch: give the operands by position or operand=, not both")
        operands = (operand,)
    if callable(branches):
        raise TypeError("switch: branches must be a sequence of functions, got one function")
    functions = list(branches)
    if not functions:
        raise ValueError("switch: branches is empty; give at least one function")
    for i, f in enumerate(functions):
        check_function("switch", f"branches[{i}]", f)
    aval = _scalar("switch", "index", index)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"switch: index must be an integer, got {aval.str_short()}")
    if len(functions) == 1:
        return functions[0](*operands)
    taken = value_in_python(index)
    if taken is not None:
        return functions[min(max(taken, 0), len(functions) - 1)](*operands)
    from weft.ops.elementwise import clamp, convert

    closed, consts, leaves, tree = trace_branches(
        "switch", [f"branches[{i}]" for i in range(len(functions))], functions, operands, aval
    )
    check_reached_by_all("switch", "index", aval, *closed)
    last = len(functions) - 1
    if aval.dtype != dtypes.int32:
        if aval.dtype.itemsize >= 4:
            index = clamp(aval.dtype.type(0), index, aval.dtype.type(last))
        index = convert(index, dtypes.int32)
    index = clamp(dtypes.int32.type(0), convert(index, dtypes.int32), dtypes.int32.type(last))
    return tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=closed))


# The platform as an index -----------------------------------------------------------------------


def _platform_lower(ctx: Any, *, platforms: tuple) -> Any:
    mine = ctx.module.platforms[0]
    aliases = {mine, "gpu"} if mine in ("cuda", "rocm") else {mine}
    for i, names in enumerate(platforms):
        if aliases & set(names) or not names:
            return ctx.splat(i, (), dtypes.int32)
    known = sorted(n for names in platforms for n in names)
    raise ValueError(
        f"platform_dependent: no function for platform {mine!r}, only for {', '.join(known)}; "
        "give default="
    )


platform_index_p = Primitive(
    "platform_index",
    abstract=lambda *, platforms: ShapedArray((), dtypes.int32),
    batch=lambda axis, args, dims, **params: (platform_index_p.bind(**params), None),
    lower=_platform_lower,
    own_types=True,
)


@api_boundary
def platform_dependent(
    *args: Any, default: Callable | None = None, **per_platform: Callable
) -> Any:
    """The function given for the platform the program is compiled for, applied to `args`.

    per_platform: functions by platform name (cpu, cuda, rocm, gpu, tpu); default: for all others.
    All functions are traced and must return the same types; only one is compiled.

    >>> import weft
    >>> weft.lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
    Array(3., dtype=float32, weak_type=True)
    """
    names: list[tuple[str, ...]] = [(name,) for name in per_platform]
    functions = list(per_platform.values())
    if default is not None:
        names.append(())
        functions.append(default)
    if not functions:
        raise ValueError("platform_dependent: give a function for a platform, or default=")
    for (name, *_), f in zip([n or ("default",) for n in names], functions, strict=True):
        check_function("platform_dependent", name, f)
    closed, consts, leaves, tree = trace_branches(
        "platform_dependent", [n[0] if n else "default" for n in names], functions, args
    )
    index = platform_index_p.bind(platforms=tuple(names))
    return tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=closed))


__all__ = ["cond", "cond_p", "platform_dependent", "platform_index_p", "switch"]
