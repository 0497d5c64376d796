# Tests: tests/driver/test_jit.py
"""Running jaxprs and single ops: each by the program compiled for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.caches import make_room
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.primitive import Primitive
from weft.core.state import LAYOUTS
from weft.core.trace import (
    Tracer,
    check_hashable,
    check_not_leaked,
    trace_to_jaxpr,
    typeof,
    with_arrays,
)
from weft.driver.devices import committed_sharding
from weft.driver.donation_guard import Guarded
from weft.driver.jit_op import jit_p
from weft.runtime.array import ArrayImpl
from weft.runtime.dispatch import cached_call, fastpath
from weft.runtime.executable import Executable, effects_barrier
from weft.runtime.transfers import default_sharding
from weft.sharding.named import NamedSharding
from weft.sharding.physical import without_trailing_nones
from weft.sharding.spec import UNCONSTRAINED

if TYPE_CHECKING:
    from weft.driver.program import Program
    from weft.typing import ArrayLike

KEPT = 2048
"""How many params of one op, and types of operands of each, have programs outside of jit."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A compilation request; its tuples have an item for each flat argument or result.

    placed: shardings of the committed arguments, None for others. in_shardings, out_shardings: as
    the user gave them to jit, None where propagation decides. options: XLA's, by name. layouts: of
    arguments and of results, each None for the platform's own; None if all are.
    """

    name: str
    placed: tuple
    in_shardings: tuple
    out_shardings: tuple
    donated: tuple
    keep_unused: bool = False
    options: Mapping[str, Any] | None = None
    partitioner: str | None = None
    layouts: tuple | None = None

    def key(self, named: bool) -> tuple:
        """Return the key under which a jaxpr keeps its program for this request.

        named: the program knows the names of its arguments and results, and keeps its module.
        """
        return (
            "program",
            named,
            self.name,
            self.placed,
            self.in_shardings,
            self.out_shardings,
            self.donated,
            self.keep_unused,
            tuple(sorted((k, _frozen(v)) for k, v in (self.options or {}).items())),
            self.partitioner,
            self.layouts,
            config.trace_key(),
            default_sharding() if not any(self.placed) else None,
        )


def _frozen(value: bool | int) -> Any:
    return tuple(value) if isinstance(value, list) else value


def program_for(
    closed: ClosedJaxpr,
    request: Request,
    arg_names: Callable[[], Sequence[str]] = list,
    result_names: Callable[[], Sequence[str]] | None = None,
) -> Program:
    """Return the lowered program of a jaxpr for the platform that calls run on.

    arg_names, result_names: asked for where a program is made, for messages. A program whose
    results have names keeps its module, for `.lower` to show.
    """

    def make() -> Program:
        from weft.driver.program import Program  # not before the first call

        names = () if result_names is None else result_names()
        return Program.place(closed, request, arg_names(), names)

    program: Program = closed.memo(request.key(result_names is not None), make)
    program.lower()
    return program


def compiled_for(
    closed: ClosedJaxpr,
    request: Request,
    args: Sequence[Any],
    arg_names: Callable[[], Sequence[str]] = list,
    result_names: Callable[[], Sequence[str]] | None = None,
) -> tuple[Executable, list]:
    """Return the executable of a jaxpr, and the constants to pass in front of its arguments."""
    program = program_for(closed, request, arg_names, result_names)
    executable = program.compile()
    if result_names is None:
        program.forget_modules()
    if NamedSharding in map(type, request.placed):
        placed = [(x._sharding, x.ndim) for x in args if type(x) is ArrayImpl and x._committed]
        executable = spelled_as(executable, placed, request.out_shardings)
    return executable, program.consts


def spelled_as(
    executable: Executable, placed: Iterable[tuple[Any, int]], asked: Sequence[Any]
) -> Executable:
    """Return the executable whose results' specs end in `None`s as those of its arguments do.

    Specs that differ in them alone share a program. A result's is that of the first argument of its
    rank which lies alike, unless the user or its type says its sharding. placed: the arguments'
    shardings and ranks.
    """
    spelled: dict[tuple, NamedSharding] = {}
    for sharding, ndim in placed:
        if type(sharding) is NamedSharding:
            spelled.setdefault((without_trailing_nones(sharding), ndim), sharding)
    results = zip(executable.out_shardings, executable.out_avals, asked, strict=True)
    return executable.with_results_at(
        [
            spelled.get((s, a.ndim), s) if wanted is None and a.sharding is None else s
            for s, a, wanted in results
        ]
    )


def placements(args: Sequence[Any]) -> tuple:
    """Return the shardings of committed arguments, None for the others."""
    return tuple(
        [
            None
            if type(x) is ArrayImpl and not x._committed
            else without_trailing_nones(committed_sharding(x))
            for x in args
        ]
    )


def layouts_for(
    api: str,
    args: Sequence[Any],
    asked: tuple | None = None,
    n_out: int = 0,
    names: Callable[[], Sequence[str]] = list,
) -> tuple | None:
    """Return the layouts for these arguments: those asked of jit, else the arguments' own."""
    if not LAYOUTS.in_use:
        return None
    from weft.runtime.memory_layouts import held, resolved

    return resolved(api, names, asked, [held(x) for x in args], n_out)


def execute(
    executable: Executable,
    consts: Sequence[Any],
    args: Sequence[Any],
    closed: ClosedJaxpr,
    noted: bool = False,
) -> list:
    """Run an executable on any array-like arguments; results of extended dtypes are wrapped.

    noted: the caller has told of a call over several processes already.
    """
    flat = [getattr(a, "_base", a) for a in (*consts, *args)]
    ordered = any(e.ordered for e in closed.effects)
    if ordered:
        effects_barrier()
    outs = executable.call(flat, noted)
    if ordered:
        effects_barrier()
    outs = [
        a.dtype.wrap(o)
        if isinstance(a, ShapedArray) and isinstance(a.dtype, dtypes.ExtendedDType)
        else o
        for o, a in zip(outs, closed.out_avals, strict=True)
    ]
    if is_debugging():
        from weft.driver.debug_nans import check_results

        check_results(outs, closed, args)
    return outs


def is_debugging() -> bool:
    return bool(config.debug_nans or config.debug_infs)


def _fast_data(
    originals: Sequence[Any],
    args: Sequence[Any],
    executable: Executable,
    result: object,
    consts: list,
) -> Any:
    """Return the data by which C++ repeats a call, or None.

    originals: the operands before those that stand for arrays were converted. Of one that is a
    pytree too, C++ would take the leaves.
    """
    if is_debugging() or any(a is not b for a, b in zip(originals, args, strict=True)):
        return None
    return fastpath(executable, result, args, consts)


def run_jaxpr(closed: ClosedJaxpr, args: Sequence[Any], params: dict[str, Any]) -> list:
    """Run the jit op eagerly, through a compiled dispatch function kept with the jaxpr."""
    if config.disable_jit:
        return eval_closed(closed, *args)
    key = ("dispatch", *params.items())
    return closed.memo(key, lambda: _jaxpr_function(closed, params))(*args)


def _jaxpr_function(closed: ClosedJaxpr, params: dict[str, Any]) -> Any:
    name = params["name"]
    if any(_is_open(s) for s in (*params["in_shardings"], *params["out_shardings"])):
        closed, params = _within(closed, params)

    def fun(*args: object) -> list:
        return eval_closed(closed, *args)

    def miss(*args: ArrayLike) -> tuple:
        check_not_leaked(args)
        originals, args = args, tuple(with_arrays(args))
        request = Request(
            name,
            placements(args),
            params["in_shardings"],
            params["out_shardings"],
            params["donated"],
            params["keep_unused"],
            dict(params["options"]) or None,
            params["partitioner"],
            layouts_for(name, args, n_out=len(closed.out_avals)),
        )
        executable, consts = compiled_for(closed, request, args)
        result = execute(executable, consts, args, closed)
        return result, _fast_data(originals, args, executable, result, consts), False

    function = cached_call(fun, miss, cache_key=object(), name=name)
    donated = [i for i, d in enumerate(params["donated"]) if d]
    return Guarded(function, name, donated, ()) if donated else function


def _is_open(sharding: object) -> bool:
    """Return whether it leaves dimensions to propagation, as vmap's do, which no array can."""
    spec = getattr(sharding, "spec", None)
    return spec is not None and UNCONSTRAINED in spec.partitions


def _within(closed: ClosedJaxpr, params: dict[str, Any]) -> tuple[ClosedJaxpr, dict[str, Any]]:
    """Return a jaxpr that calls this one, with its shardings as constraints inside the program."""
    outer, consts = trace_to_jaxpr(
        lambda *xs: jit_p.bind(*xs, jaxpr=closed, **params), closed.in_avals, params["name"]
    )
    free = {
        "in_shardings": (None,) * len(closed.in_avals),
        "out_shardings": (None,) * len(closed.out_avals),
    }
    return ClosedJaxpr(outer, consts), {**params, **free}


# Eager ops --------------------------------------------------------------------------------------


def dispatch_op(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run one op eagerly: a compiled program for each (op, params, operand types)."""
    return eager_call(prim, params)(*args)


def eager_call(prim: Primitive, params: dict[str, Any]) -> Any:
    """Return the compiled call that runs an op with these params."""
    key = tuple(params.items())
    try:
        function = prim.eager_cache.get(key)
    except TypeError:
        check_hashable(prim, params)
        raise
    if function is None:
        make_room(prim.eager_cache, KEPT)
        function = prim.eager_cache[key] = op_function(prim, params)
    return function


def op_function(prim: Primitive, params: dict[str, Any]) -> Any:
    programs: dict[Any, ClosedJaxpr] = {}

    def fun(*args: ArrayLike) -> Any:  # what the dispatch path calls under disable_jit
        return miss(*args)[0]

    def miss(*args: ArrayLike) -> tuple:
        check_not_leaked(args)
        originals, args = args, tuple(with_arrays(args))
        if any(isinstance(a, Tracer) for a in args):
            raise TypeError(
                f"{prim.name}: an operand is an object that stands for a differentiated or mapped "
                "array; convert it first, weft.numpy.asarray(x)"
            )
        # The op's params are fixed by this function, so types alone choose the program.
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
        n, n_out = len(args), len(closed.out_avals)
        request = Request(
            prim.name,
            placements(args),
            (None,) * n,
            (None,) * n_out,
            (False,) * n,
            layouts=layouts_for(prim.name, args, n_out=n_out),
        )
        executable, consts = compiled_for(closed, request, args)
        outs = execute(executable, consts, args, closed)
        result = outs if prim.multiple_results else outs[0]
        return result, _fast_data(originals, args, executable, result, consts), False

    return cached_call(fun, miss, cache_key=(prim.name, object()), name=prim.name)
