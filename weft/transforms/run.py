"""Running jaxprs and single ops: each by the program compiled for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import make_room
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.trace import (
    EvalTrace,
    _check_hashable,
    check_not_leaked,
    trace_to_jaxpr,
    typeof,
)
from weft.runtime.device_put import default_sharding
from weft.runtime.dispatch import cached_call, fastpath
from weft.runtime.executable import Executable, effects_barrier
from weft.sharding.named import without_trailing_nones
from weft.transforms.devices import committed_sharding
from weft.transforms.guarded import guarded

KEPT = 2048
"""How many params of one op, and types of operands of each, have programs outside of jit."""


def executable_for(
    closed: ClosedJaxpr,
    name: str,
    args: Sequence[Any],
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    donated: Sequence[bool],
    arg_names: Callable[[], Sequence[str]] = list,
    **options: Any,
) -> tuple[Executable, list]:
    """The executable for arguments placed as these are, and the constants to pass in front.

    arg_names: asked for where a program is made, for messages.
    """
    placed = tuple(without_trailing_nones(committed_sharding(x)) for x in args)
    key = executable_key(name, placed, in_shardings, out_shardings, donated, **options)

    def make() -> tuple:
        from weft.transforms.compiled import lower_program

        program = lower_program(
            closed,
            name,
            placed,
            in_shardings,
            out_shardings,
            donated,
            arg_names=arg_names(),
            **options,
        )
        return _compiled(program, (*placed, *in_shardings, *out_shardings)), program.consts

    return closed.memo(key, make)


def executable_key(
    name: str,
    placed: Sequence[Any],
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    donated: Sequence[bool],
    **options: Any,
) -> tuple:
    """What the executable of a jaxpr depends on; it is kept with the jaxpr under this key."""
    return (
        "executable",
        name,
        tuple(placed),
        tuple(in_shardings),
        tuple(out_shardings),
        tuple(donated),
        tuple(sorted((k, _freeze(v)) for k, v in options.items())),
        config.trace_key(),
        default_sharding() if not any(placed) else None,
    )


def executable_of(program: Any, closed: ClosedJaxpr, key: tuple, shardings: Sequence[Any]) -> Any:
    """The executable of a program lowered for a key: that of earlier calls, if there were some.

    shardings: of committed arguments, and those that the user gave.
    """
    executable, program.consts = closed.memo(
        key, lambda: (_compiled(program, shardings), program.consts)
    )
    program.executable = executable
    return executable


def _compiled(program: Any, shardings: Sequence[Any]) -> Executable:
    from weft.transforms.compiled import compile_program

    executable = compile_program(program)
    executable.committed = executable.committed or any(s is not None for s in shardings)
    return executable


def _freeze(v: Any) -> Any:
    if isinstance(v, dict):
        return tuple(sorted(v.items()))
    return tuple(v) if isinstance(v, list) else v


def execute(
    executable: Executable, consts: Sequence[Any], args: Sequence[Any], closed: Any
) -> list:
    """Runs an executable on any array-like arguments; results of extended dtypes are wrapped."""
    flat = [getattr(a, "_base", a) for a in (*consts, *args)]
    ordered = any(e.ordered for e in closed.effects)
    if ordered:
        effects_barrier()
    outs = executable.call(flat)
    if ordered:
        effects_barrier()
    outs = [
        a.dtype.wrap(o) if isinstance(a, ShapedArray) and dtypes.is_extended(a.dtype) else o
        for o, a in zip(outs, closed.out_avals, strict=True)
    ]
    if is_debugging():
        from weft.transforms.debug_nans import check_results

        check_results(outs, closed, args)
    return outs


def is_debugging() -> bool:
    return bool(config.debug_nans or config.debug_infs)


def run_jaxpr(closed: ClosedJaxpr, args: Sequence[Any], params: dict[str, Any]) -> list:
    """Runs the jit op eagerly, through a compiled dispatch function kept with the jaxpr."""
    if config.disable_jit:
        from weft.core.jaxpr import eval_closed

        return eval_closed(closed, *args)
    key = ("dispatch", *params.items())
    return closed.memo(key, lambda: _jaxpr_function(closed, params))(*args)


def _jaxpr_function(closed: ClosedJaxpr, params: dict[str, Any]) -> Any:
    name = params["name"]

    def fun(*args: Any) -> list:
        from weft.core.jaxpr import eval_closed

        return eval_closed(closed, *args)

    def miss(*args: Any) -> tuple:
        check_not_leaked(args)
        executable, consts = executable_for(
            closed,
            name,
            args,
            params["in_shardings"],
            params["out_shardings"],
            params["donated"],
            keep_unused=params["keep_unused"],
            options=dict(params["options"]) or None,
            partitioner=params["partitioner"],
        )
        result = execute(executable, consts, args, closed)
        fast = None if is_debugging() else fastpath(executable, result, args, consts)
        return result, fast, False

    function = cached_call(fun, miss, cache_key=object(), name=name)
    donated = [i for i, d in enumerate(params["donated"]) if d]
    return guarded(function, name, donated, ()) if donated else function


# Eager ops --------------------------------------------------------------------------------------


def dispatch_op(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Runs one op eagerly: a compiled program for each (op, params, operand types)."""
    return eager_call(prim, params)(*args)


def eager_call(prim: Primitive, params: dict[str, Any]) -> Any:
    """The compiled call that runs an op with these params."""
    key = tuple(params.items())
    try:
        function = prim.eager_cache.get(key)
    except TypeError:
        _check_hashable(prim, params)
        raise
    if function is None:
        make_room(prim.eager_cache, KEPT)
        function = prim.eager_cache[key] = op_function(prim, params)
    return function


def op_function(prim: Primitive, params: dict[str, Any]) -> Any:
    programs: dict[Any, ClosedJaxpr] = {}

    def fun(*args: Any) -> Any:  # what the dispatch path calls under disable_jit
        return miss(*args)[0]

    def miss(*args: Any) -> tuple:
        check_not_leaked(args)
        args = tuple(a.__weft_array__() if hasattr(a, "__weft_array__") else a for a in args)
        avals = tuple(typeof(a) for a in args)
        key = (avals, config.trace_key())
        closed = programs.get(key)
        if closed is None:
            jaxpr, consts = trace_to_jaxpr(
                (lambda *xs: list(prim.bind(*xs, **params)))
                if prim.multiple_results
                else lambda *xs: [prim.bind(*xs, **params)],
                avals,
                prim.name,
            )
            make_room(programs, KEPT)
            closed = programs[key] = ClosedJaxpr(jaxpr, consts)
        n_out = len(closed.out_avals)
        executable, consts = executable_for(
            closed, prim.name, args, (None,) * len(args), (None,) * n_out, (False,) * len(args)
        )
        outs = execute(executable, consts, args, closed)
        result = outs if prim.multiple_results else outs[0]
        fast = None if is_debugging() else fastpath(executable, result, args, consts)
        return result, fast, False

    return cached_call(fun, miss, cache_key=(prim.name, object()), name=prim.name)


EvalTrace.dispatch = staticmethod(dispatch_op)  # type: ignore[assignment]
