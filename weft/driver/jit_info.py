# Tests: tests/driver/test_jit.py
"""The record of a jitted function: its options, the trace of each signature, and the way of a call.

A call of a known signature runs in jaxlib's compiled dispatch; `JitInfo.answer` gets the others.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.core.caches import clearable, make_room
from weft.core.cell import Cell
from weft.core.config import config
from weft.core.events import DURATIONS, SPANS, TRACED, UNMEASURED, measured
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.provided import use_arguments, used_variables
from weft.core.source import function_name
from weft.core.state import LAYOUTS, axes_key, state
from weft.core.trace import (
    EVAL,
    Tracer,
    array_method,
    changeable,
    check_not_leaked,
    check_unchangeable,
    is_array_like,
    trace_to_jaxpr,
    typeof,
)
from weft.core.tree import (
    PyTreeDef,
    arg_names,
    broadcast_prefix,
    flatten,
    flatten_fun,
    names_in,
    tree_map,
)
from weft.driver.execute import (
    Request,
    compiled_for,
    execute,
    is_debugging,
    layouts_for,
    placements,
)
from weft.driver.jit_op import jit_p, typed_as
from weft.driver.logged_jit import LoggedJit
from weft.driver.staging import aval_of_spec, split_static
from weft.driver.static_arguments import unhashable
from weft.runtime.array import ArrayImpl
from weft.runtime.backend import distributed_state
from weft.runtime.device_put import device_put
from weft.runtime.dispatch import fastpath
from weft.runtime.transfers import default_sharding
from weft.sharding.named import Sharding
from weft.sharding.physical import SingleDeviceSharding, as_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from types import ModuleType

    from weft.runtime.executable import Executable


class _Unspecified:
    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()
_traces: weakref.WeakKeyDictionary = clearable(weakref.WeakKeyDictionary())
"""Function -> its traces by signature. None may refer to the function or to its arguments."""

KEPT = 4096
"""How many signatures of one function are kept."""


@dataclass(slots=True, eq=False)
class Entry:
    """A traced signature."""

    closed: ClosedJaxpr
    consts: list  # closed-over tracers and refs, passed in front of the arguments
    in_tree: PyTreeDef  # of the dynamic (args, kwargs)
    statics: tuple[int, ...]  # positions of the static arguments among all
    out_tree: PyTreeDef
    in_shardings: tuple
    out_shardings: tuple
    donated: tuple
    layouts: tuple | None  # those asked of the arguments and of the results
    keys: tuple[int, ...]  # random keys among the operands that are used up, if that is checked
    latest: Latest | None = None  # the last program, if it is one that C++ does not start


@dataclass(slots=True, eq=False)
class Latest:
    """A program that every call of an entry starts in Python, as it has effects or callbacks.

    options: stands for the options of the jitted function; it must not refer to the function.
    placed, default: shardings of the committed arguments, and where others go.
    """

    options: object
    placed: tuple
    default: SingleDeviceSharding
    executable: Executable
    consts: list

    def serves(self, options: object, placed: tuple) -> bool:
        """Return whether it is the program of a call with these options and placements."""
        return (
            self.options is options
            and self.placed == placed
            and not LAYOUTS.in_use
            and self.default is default_sharding()
        )


def _key_of_shardings(tree: PyTreeDef) -> Hashable:
    """Equal for equal trees of shardings."""
    if isinstance(tree, dict):
        return dict, tuple(tree), tuple(map(_key_of_shardings, tree.values()))
    if type(tree) in (tuple, list):
        return type(tree), tuple(map(_key_of_shardings, tree))
    return type(tree), tree


@dataclass(slots=True, weakref_slot=True, eq=False, kw_only=True)
class JitInfo:
    """A jitted function's options and traces, and what answers its calls."""

    fun: Callable
    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]
    in_shardings: Any
    out_shardings: Any
    keep_unused: bool
    inline: bool
    options: Any
    partitioner: str | None
    name: str = ""
    placement: Hashable = None  # tells traces with these shardings from others
    device_sharding: SingleDeviceSharding | None = None  # of `device`: arguments are moved there
    logged: LoggedJit | None = None  # notes calls, in a process that is one of several
    early: LoggedJit | None = None  # takes its calls, where it was jitted before there was a group
    identity: object = field(default_factory=object)  # of its options

    def __post_init__(self) -> None:
        self.name = function_name(self.fun)
        if self.in_shardings is not None or self.out_shardings is not None:
            self.placement = _key_of_shardings((self.in_shardings, self.out_shardings))
            try:
                hash(self.placement)
            except TypeError:
                self.placement = object()

    @property
    def dispatch_key(self) -> tuple:
        """Return the key that tells jitted versions of one function apart."""
        return (
            self.static_argnums,
            self.static_argnames,
            self.donate_argnums,
            self.donate_argnames,
            self.keep_unused,
            self.placement,
            self.partitioner,
            tuple(sorted((self.options or {}).items())),
            distributed_state["client"] is not None,
        )

    def split(self, args: tuple, kwargs: dict) -> tuple[Callable, list, dict, tuple]:
        """Return the function of dynamic arguments, those, and the static values."""
        static_kwargs = {k: v for k, v in kwargs.items() if k in self.static_argnames}
        n = len(args)
        numbers = {i % n if -n <= i < n else i for i in self.static_argnums}
        values = tuple((i, args[i]) for i in sorted(numbers) if i < n)
        for where, value in (*values, *static_kwargs.items()):
            if problem := unhashable(self.fun, where, value):
                raise ValueError(problem)
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in static_kwargs}
        fun, dynamic = split_static(self.fun, args, sorted(i for i in numbers if i < n))
        if static_kwargs:
            fun = functools.partial(fun, **static_kwargs)
        return fun, dynamic, dynamic_kwargs, (values, tuple(sorted(static_kwargs.items())))

    def explain_unhashable(self, args: tuple, kwargs: dict) -> str:
        """Return the message for a call with a static argument that does not hash."""
        n = len(args)
        values: list[tuple[int | str, Any]] = [
            (i % n, args[i]) for i in self.static_argnums if -n <= i < n
        ]
        values += [(name, kwargs[name]) for name in self.static_argnames if name in kwargs]
        texts = (unhashable(self.fun, where, value) for where, value in values)
        return next(filter(None, texts), "a static argument must be hashable")

    def traced(self, args: tuple, kwargs: dict, specs: bool = False) -> tuple[Entry, list]:
        """Return the entry for the arguments' signature, and the flat arguments."""
        dynamic: Sequence[Any]
        if self.static_argnums or self.static_argnames:
            fun, dynamic, kwargs, static = self.split(args, kwargs)
            statics = tuple([i for i, _ in static[0]])
        else:
            fun, dynamic, static, statics = self.fun, args, (), ()
        leaves, in_tree = flatten((tuple(dynamic), kwargs))
        type_of = aval_of_spec if specs else typeof
        if changeable:
            check_unchangeable(leaves)
        described: ModuleType | None = None
        try:
            avals = tuple([type_of(x) for x in leaves])
        except TypeError:
            from weft.driver import described_arguments

            described = described_arguments
            self.check_leaves(leaves, in_tree, statics, described.type_of)
            avals = tuple([described.type_of(x) for x in leaves])
        key = (self.key, in_tree, avals, static, config.trace_key(), axes_key())
        entries = self.entries
        entry = entries.get(key)
        if entry is None:
            if config.explain_cache_misses:
                from weft.driver.explain_miss import log_miss

                log_miss(self.name, arg_names(self.fun, in_tree, statics), key, [*entries])
            start = time.perf_counter()
            entry = self.trace(fun, in_tree, avals, statics)
            if config.explain_cache_misses:
                from weft.driver.explain_miss import log_time

                log_time(self.name, time.perf_counter() - start)
            if len(entries) >= KEPT:
                make_room(entries, KEPT)
            entries[key] = entry
        return entry, leaves if described is None else described.with_values(self, entry, leaves)

    @property
    def key(self) -> tuple:
        return self.donate_argnums, self.donate_argnames, self.placement

    @property
    def entries(self) -> dict:
        try:
            return _traces[self.fun]
        except KeyError:
            return _traces.setdefault(self.fun, {})
        except TypeError:  # a function without weak references or hash
            return _traces.setdefault(self, {})

    def trace(self, fun: Callable, in_tree: PyTreeDef, avals: tuple, statics: tuple = ()) -> Entry:
        """Trace the function of dynamic arguments for their types."""
        if config.no_tracing:
            types = ", ".join(a.str_short() for a in avals)
            raise RuntimeError(
                f"{self.name} would be traced for arguments of types ({types}), but "
                "config.no_tracing forbids it: no call before had these types, static arguments "
                "and options"
            )
        flat_fun, out = flatten_fun(fun, in_tree)
        in_shardings, in_layouts = self.flat_shardings(
            self.in_shardings, self.placed_arguments(in_tree), avals, "in_shardings"
        )
        if self.in_shardings is not None:
            avals = tuple(typed_as(a, s) for a, s in zip(avals, in_shardings, strict=True))
        with measured(TRACED, self.name) if DURATIONS or SPANS else UNMEASURED:
            jaxpr, consts = trace_to_jaxpr(flat_fun, avals, self.name)
        tracers = [isinstance(c, Tracer | Cell) for c in consts]
        closed_over = [c for c, t in zip(consts, tracers, strict=True) if t]
        if closed_over:
            # Closed-over values of an outer trace become arguments: the compiled program has none.
            hoisted = [v for v, t in zip(jaxpr.constvars, tracers, strict=True) if t]
            kept = [v for v, t in zip(jaxpr.constvars, tracers, strict=True) if not t]
            jaxpr = jaxpr.replace(constvars=kept, invars=[*hoisted, *jaxpr.invars])
            consts = [c for c, t in zip(consts, tracers, strict=True) if not t]
        closed = ClosedJaxpr(jaxpr, consts)
        out_shardings, out_layouts = self.flat_shardings(
            self.out_shardings, out.tree, closed.out_avals, "out_shardings"
        )
        # Hoisted values are arguments in front, placed and donated by nobody.
        free = (None,) * len(closed_over)
        asked = any(in_layouts) or any(out_layouts)
        return Entry(
            closed=closed,
            consts=closed_over,
            in_tree=in_tree,
            statics=statics,
            out_tree=out.tree,
            in_shardings=free + in_shardings,
            out_shardings=out_shardings,
            donated=(False,) * len(closed_over) + self.flat_donated(in_tree, len(avals)),
            layouts=(free + in_layouts, out_layouts) if asked else None,
            keys=used_variables(jaxpr.invars) if config.debug_key_reuse else (),
        )

    def placed_arguments(self, in_tree: PyTreeDef) -> Any:
        """Return the arguments that in_shardings name: those by position; of one device, all."""
        positional, by_keyword = in_tree.children()
        if self.in_shardings is None or not by_keyword.num_leaves:
            return positional
        if type(self.in_shardings) is SingleDeviceSharding:
            return in_tree
        raise ValueError(
            f"jit of {self.name}: in_shardings describe positional arguments, but the call gives "
            "some by keyword, whose placement they would leave open; pass those by position, or "
            "place them with weft.device_put and leave in_shardings out"
        )

    def flat_shardings(
        self, prefix: object, tree: PyTreeDef, avals: Sequence[Any], label: str
    ) -> tuple[tuple, tuple]:
        """Return the shardings that are given for these values, and the layouts."""
        from weft.driver.program import physical

        free = (None,) * len(avals)
        if prefix is None:
            return free, free
        from weft.sharding.memory_layout import Format, Layout

        def leaf(x: object) -> bool:
            return isinstance(x, Sharding | PartitionSpec | Format | _Unspecified)

        flat = broadcast_prefix(prefix, tree, f"jit of {self.name}: {label}", leaf)
        flat += [None] * (len(avals) - len(flat))
        layouts = tuple([s.layout if type(s) is Format else None for s in flat])
        for i, (x, aval) in enumerate(zip(layouts, avals, strict=True)):
            if isinstance(x, Layout):
                x.check_compatible_aval(physical(aval).shape, f"{label} of {self.name}, value {i}")
        flat = [s.sharding if type(s) is Format else s for s in flat]
        result = [
            None if s is None or s is UNSPECIFIED else as_sharding(s, f"{label} of {self.name}")
            for s in flat
        ]
        for s in result:
            if s is not None and PartitionSpec.UNCONSTRAINED in getattr(s, "spec", ()):
                raise ValueError(
                    f"{label} of {self.name}: {s.spec!r} leaves a dimension UNCONSTRAINED; use "
                    "None or axis names, or no sharding to leave all dimensions to the partitioner"
                )
        return tuple(result), layouts

    def flat_donated(self, in_tree: PyTreeDef, n: int) -> tuple:
        """Tell of each flat argument whether the results may take its buffer."""
        # Where debug_nans finds a NaN, the program runs again, op by op, on the same arguments.
        if is_debugging() or not (self.donate_argnums or self.donate_argnames):
            return (False,) * n
        args_tree, kwargs_tree = in_tree.children()
        children = args_tree.children()
        total = len(children) + len(self.static_argnums)
        statics = {i % total for i in self.static_argnums if total}
        # A number past the end belongs to an argument that is given by its name.
        donated = {i % total for i in self.donate_argnums if -total <= i < total}
        positions = (i for i in range(total) if i not in statics)
        flags: list[bool] = []
        for position, child in zip(positions, children, strict=False):
            flags += [position in donated] * child.num_leaves
        if kwargs_tree.num_leaves:
            names = kwargs_tree.node_data()[1]
            for name, child in zip(names, kwargs_tree.children(), strict=True):
                flags += [name in self.donate_argnames] * child.num_leaves
        return tuple(flags)

    def check_leaves(
        self, leaves: list, in_tree: PyTreeDef, statics: tuple[int, ...], type_of: Callable
    ) -> None:
        """Raise a TypeError that names the first argument without a type."""
        names = arg_names(self.fun, in_tree, statics)
        for x, name in zip(leaves, names, strict=True):
            try:
                type_of(x)
            except TypeError as e:
                if is_array_like(x):
                    raise TypeError(f"jit of {self.name}: argument {name}: {e}") from None
                from weft.driver.described_arguments import refusal

                raise refusal(self.name, name, x) from None

    def leaf_names(self, entry: Entry) -> list[str]:
        """Return the names of the flat dynamic arguments."""
        return arg_names(self.fun, entry.in_tree, entry.statics)

    def names(self, entry: Entry) -> tuple[Callable[[], list[str]], Callable[[], list[str]]]:
        """Return the functions that name a program's arguments and results."""
        return lambda: self.leaf_names(entry), lambda: names_in(entry.out_tree)

    def jitted_again(self, fun: Callable | None = None, out_shardings: object = None) -> Any:
        """Jit the function with its options again, or another one, whose results are others."""
        from weft.driver.jit import jit  # which makes this object

        return jit(
            fun or self.fun,
            in_shardings=self.in_shardings,
            out_shardings=self.out_shardings if fun is None else out_shardings,
            static_argnums=self.static_argnums,
            static_argnames=self.static_argnames,
            donate_argnums=self.donate_argnums,
            donate_argnames=self.donate_argnames,
            keep_unused=self.keep_unused,
            inline=self.inline,
            compiler_options=self.options,
            partitioner=self.partitioner,
        )

    def layouts(self, entry: Entry, args: Sequence[Any]) -> tuple | None:
        """Return the layouts of the program that these arguments need."""
        n_out = len(entry.out_shardings)
        return layouts_for(self.name, args, entry.layouts, n_out, lambda: self.leaf_names(entry))

    def request(self, entry: Entry, placed: tuple, layouts: tuple | None) -> Request:
        """Return the program key of a call with arguments of these placements and layouts."""
        return Request(
            self.name,
            placed,
            entry.in_shardings,
            entry.out_shardings,
            entry.donated,
            self.keep_unused,
            self.options,
            self.partitioner,
            layouts,
        )

    def params(self, entry: Entry) -> dict[str, Any]:
        return {
            "name": self.name,
            "jaxpr": entry.closed,
            "in_shardings": entry.in_shardings,
            "out_shardings": entry.out_shardings,
            "donated": entry.donated,
            "keep_unused": self.keep_unused,
            "options": tuple(sorted((self.options or {}).items())),
            "partitioner": self.partitioner,
        }

    def answer(self, *args: object, **kwargs: object) -> tuple:
        """Answer a cache miss of the compiled dispatch: (result, fast-path data, False)."""
        if self.early is not None and state.trace is EVAL:
            return self.early.relay(args, kwargs), None, False
        if self.device_sharding is not None:
            return self.call_on_device(args, kwargs)
        if changeable:
            from weft.driver import changeable as with_changeable

            if with_changeable.has_changeable(args, kwargs):
                return with_changeable.call(self, args, kwargs), None, False
        return self.call(args, kwargs)

    def call_on_device(self, args: tuple, kwargs: dict) -> tuple:
        """Move the dynamic arguments to the device of the function, and call it."""
        numbers, names, target = self.static_argnums, self.static_argnames, self.device_sharding
        leaves = flatten(([x for i, x in enumerate(args) if i not in numbers], kwargs))[0]
        args = tuple(x if i in numbers else _moved(x, target) for i, x in enumerate(args))
        kwargs = {k: x if k in names else _moved(x, target) for k, x in kwargs.items()}
        result, fast, *rest = self.call(args, kwargs)
        # Dispatch moves an array from one device to another, but none from several.
        joined = any(type(x) is ArrayImpl and x._sharding.num_devices > 1 for x in leaves)
        return result, None if joined else fast, *rest

    def call(self, args: tuple, kwargs: dict) -> tuple:
        entry, leaves = self.traced(args, kwargs)
        operands = [*entry.consts, *leaves]
        if entry.keys:
            use_arguments(self.name, [operands[i] for i in entry.keys])
        if state.trace is not EVAL or Cell in [x.__class__ for x in operands]:
            if self.inline:
                outs = eval_closed(entry.closed, *operands)
            else:
                outs = jit_p.bind(*operands, **self.params(entry))
            return entry.out_tree.unflatten(outs), None, False
        check_not_leaked(operands)
        placed = placements(operands)
        latest = entry.latest
        if latest is not None and latest.serves(self.identity, placed):
            outs = execute(latest.executable, latest.consts, operands, entry.closed)
            return entry.out_tree.unflatten(outs), None, False
        request = self.request(entry, placed, self.layouts(entry, operands))
        executable, consts = compiled_for(entry.closed, request, operands, *self.names(entry))
        noted = logged = False
        if self.logged is not None:
            noted, logged = self.logged.settle(executable.log, executable.label)
        elif executable.log is not None:
            self.early = self.jitted_again()  # now the process is one of several
        outs = execute(executable, consts, operands, entry.closed, noted)
        result = entry.out_tree.unflatten(outs)
        fast = None
        if not (is_debugging() or entry.keys or any(map(array_method, leaves))):
            fast = fastpath(executable, result, leaves, consts, logged=logged)
        starts_in_python = executable.has_callbacks or executable.has_side_effects
        if fast is None and starts_in_python and executable.log is None and not LAYOUTS.in_use:
            default = default_sharding()
            entry.latest = Latest(self.identity, placed, default, executable, consts)
        return result, fast, False


def _moved(tree: object, sharding: Any) -> Any:
    """Move arrays committed to other devices to the device that jit is asked to run on."""

    def move(x: Any) -> Any:
        value = x.concrete() if isinstance(x, Tracer) else x  # known where it is differentiated
        bound = type(value) is ArrayImpl and value._committed
        if bound and value._sharding.device_set != sharding.device_set:
            return device_put(x, sharding)
        return x

    return tree_map(move, tree)
