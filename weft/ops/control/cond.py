# Tests: tests/ops/test_control.py, tests/ops/test_control_table.py
"""cond and switch: one of several branches, by a predicate or an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.errors import ArgumentError
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from weft.core.primitive import Primitive
from weft.core.provided import key_uses, use_operands
from weft.core.trace import Tracer, is_array_like, typeof
from weft.core.tree import flatten, tree_map
from weft.ops.control.common import (
    args_tree,
    avals_of,
    check_function,
    check_same_types,
    function_text,
    names_of,
    trace_body,
    value_in_python,
)
from weft.ops.control.cond_op import Branches, cond_p
from weft.ops.control.divergence import (
    check_reached_by_all,
    ending_varying,
    equal_over,
    seen_as_varying,
    spread_alike,
    vary,
)
from weft.ops.elementwise_api import clamp, convert, ne_p

if TYPE_CHECKING:
    from weft.core.trace_body import Body
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike


def trace_branches(
    api: str,
    names: Sequence[str],
    functions: Sequence[Callable],
    operands: tuple,
    index: ShapedArray | None = None,
) -> tuple[Branches, list, list, Any]:
    """Trace all branches for the operands; they share one list of closed-over values.

    index: the type of what chooses among them.
    """
    texts = [f"{n} {function_text(f)}" for n, f in zip(names, functions, strict=True)]
    axes = index.mat.varying if index is not None else frozenset()
    if not axes:
        return _traced(api, texts, functions, operands)
    functions = [ending_varying(f, axes) for f in functions]
    varied = tree_map(lambda x: vary(x, axes) if equal_over(x, axes) else x, operands)
    try:
        return _traced(api, texts, functions, varied, axes)
    except (TypeError, ValueError):  # branches that count on a value being equal
        return _traced(api, texts, functions, operands)


def _traced(
    api: str,
    texts: Sequence[str],
    functions: Sequence[Callable],
    operands: tuple,
    axes: frozenset = frozenset(),
) -> tuple[Branches, list, list, Any]:
    """axes: those along which differentiable values from outside are cast to varying in front."""
    leaves, operands_tree = flatten(operands)
    tree = args_tree(*operands)
    avals = avals_of(api, leaves, names_of(operands_tree, "operands"))
    uses = key_uses() if config.debug_key_reuse else None

    def trace(f: Callable) -> Body:
        return trace_body(f, tree, avals)

    with seen_as_varying([], axes):
        bodies = uses.of_branches(trace, functions) if uses else [*map(trace, functions)]
    # Which values the branches close over is known only now: trace again with them varying.
    equal = {id(c): c for body in bodies for c in body.consts if axes and _varies(c, axes)}
    if equal:
        with seen_as_varying(list(equal.values()), axes):
            bodies = uses.of_branches(trace, functions) if uses else [*map(trace, functions)]
    first = bodies[0]
    joined = spread_alike(functions, bodies)
    if joined is not None:
        if uses is not None:
            uses.restore()
        return _traced(api, texts, joined, operands, axes)
    for text, body in zip(texts[1:], bodies[1:], strict=True):
        if body.out_tree != first.out_tree:
            raise TypeError(
                f"{api} branch outputs must have the same pytree structure, but\n"
                f"  {texts[0]} returns {first.out_tree}\n  {text} returns {body.out_tree}"
            )
        check_same_types(
            f"{api}: the branches must return the same types, but {texts[0]} (expected) and "
            f"{text} (got) differ",
            first.jaxpr.out_avals,
            body.jaxpr.out_avals,
            names_of(first.out_tree, "result"),
            (
                f"the result of {texts[0].split(' ', 1)[0]}",
                f"the result of {text.split(' ', 1)[0]}",
            ),
        )
    # Branches share one list of constants, each of them once.
    consts: list = []
    where: dict[int, int] = {}
    for body in bodies:
        for c in body.consts:
            if id(c) not in where:
                where[id(c)] = len(consts)
                consts.append(c)
    if uses is not None:
        use_operands(api, bodies, leaves)
    consts = [vary(c, axes) if id(c) in equal else c for c in consts]
    branches = tuple(_with_consts(b, consts, where) for b in bodies)
    return branches, consts, leaves, first.out_tree


def _varies(x: ArrayLike, axes: frozenset) -> bool:
    return isinstance(x, Tracer) and equal_over(x, axes)


def _with_consts(body: Body, consts: list, where: dict[int, int]) -> ClosedJaxpr:
    slots = tuple(where[id(c)] for c in body.consts)
    if slots == tuple(range(len(consts))):
        return body.jaxpr
    key = ("cond consts", slots, tuple(typeof(c) for c in consts))

    def make() -> ClosedJaxpr:
        j: Jaxpr = body.jaxpr.jaxpr
        invars = [Var(typeof(c)) for c in consts]
        for at, v in zip(slots, j.invars, strict=False):
            invars[at] = v
        return ClosedJaxpr(j.replace(invars=[*invars, *j.invars[len(slots) :]]), body.jaxpr.consts)

    return body.jaxpr.memo(key, make)


def _scalar(api: str, label: str, x: ArrayLike | str) -> ShapedArray:
    if not is_array_like(x):
        raise ArgumentError(
            f"{api}: {label} must be a scalar, got {type(x).__name__} {x!r:.100}; the order of the "
            f"arguments is {api}({label}, functions, *operands)"
        )
    aval = typeof(x)
    if not isinstance(aval, ShapedArray) or aval.ndim:
        raise TypeError(
            f"{api}: {label} must be a scalar, got {aval.str_short()}; reduce it with "
            "weft.numpy.any or weft.numpy.all, or map with weft.vmap"
        )
    return aval


_MISSING = object()


@api_boundary
def cond(
    pred: ArrayLike,
    true_fun: Callable,
    false_fun: Callable,
    *operands: object,
    operand: object = _MISSING,
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
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        # JAX's older order: pred, true_operand, true_fun, false_operand, false_fun.
        of_true, of_false, other = false_fun, operands[1], operands[0]
        return cond(pred, lambda x, _: of_true(x), lambda _, y: of_false(y), true_fun, other)
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
    index: ArrayLike, branches: Sequence[Callable], *operands: object, operand: object = _MISSING
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


def _platform_lower(ctx: RuleContext, *, platforms: tuple) -> Any:
    platform = ctx.module.platforms[0]
    aliases = {platform, "gpu"} if platform in ("cuda", "rocm") else {platform}
    for i, names in enumerate(platforms):
        if aliases & set(names) or not names:
            return ctx.splat(i, (), dtypes.int32)
    platform_names = sorted(n for names in platforms for n in names)
    raise ValueError(
        f"platform_dependent: no function for platform {platform!r}, only for "
        f"{', '.join(platform_names)}; "
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
    *args: object, default: Callable | None = None, **per_platform: Callable
) -> Any:
    """Return the function given for the platform the program is compiled for, applied to `args`.

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
    if not isinstance(index, Tracer):  # outside of jit: the others may not compile here
        closed, index = (closed[int(index)],), index * 0
    return tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=closed))


__all__ = ["cond", "platform_dependent", "platform_index_p", "switch"]
