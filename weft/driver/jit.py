"""jit: traces a function once for each signature and runs it compiled.

A call goes through jaxlib's compiled dispatch; only a new signature, or a call among tracers,
reaches the Python below.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft._xla.dispatch import PjitFunction as PjitFunctionType
from weft.core.boundary import api_boundary
from weft.core.caches import clearable, make_room
from weft.core.cell import Cell
from weft.core.config import config
from weft.core.errors import kind_of
from weft.core.events import DURATIONS, SPANS, TRACED, UNMEASURED, measured
from weft.core.jaxpr import ClosedJaxpr, eval_closed
from weft.core.provided import bucketed, use_arguments, used_variables
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
    position_names,
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
from weft.driver.logged_jit import GuardedJit, LoggedJit
from weft.driver.staging import array_remedy, aval_of_spec, check_callable, split_static
from weft.driver.static_arguments import hashable_instead, named_arguments
from weft.runtime.array import ArrayImpl
from weft.runtime.backend import devices, distributed_state
from weft.runtime.device_put import default_sharding, device_put
from weft.runtime.dispatch import cached_call, fastpath
from weft.sharding.named import Sharding
from weft.sharding.physical import SingleDeviceSharding, as_sharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.runtime.backend import Device
    from weft.runtime.executable import Executable


class _Unspecified:
    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()
_traces: weakref.WeakKeyDictionary = clearable(weakref.WeakKeyDictionary())
"""Function -> its traces by signature. None may refer to the function or to its arguments."""

KEPT = 4096
"""How many signatures of one function are kept."""


class Entry:
    """A traced signature."""

    __slots__ = (
        "closed",
        "consts",
        "donated",
        "in_shardings",
        "in_tree",
        "keys",
        "latest",
        "layouts",
        "out_shardings",
        "out_tree",
        "statics",
    )

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
    latest: Latest | None  # the last program, if it is one that C++ does not start


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
    """A jitted function's options, and its traces."""

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
        """The function of dynamic arguments, those, and the static values."""
        static_kwargs = {k: v for k, v in kwargs.items() if k in self.static_argnames}
        n = len(args)
        numbers = {i % n if -n <= i < n else i for i in self.static_argnums}
        values = tuple((i, args[i]) for i in sorted(numbers) if i < n)
        for where, value in (*values, *static_kwargs.items()):
            if problem := self.unhashable(where, value):
                raise ValueError(problem)
        dynamic_kwargs = {k: v for k, v in kwargs.items() if k not in static_kwargs}
        fun, dynamic = split_static(self.fun, args, sorted(i for i in numbers if i < n))
        if static_kwargs:
            fun = functools.partial(fun, **static_kwargs)
        return fun, dynamic, dynamic_kwargs, (values, tuple(sorted(static_kwargs.items())))

    def unhashable(self, where: int | str, value: Any) -> str:
        """Why a static argument's value will not do, "" if it will."""
        try:
            hash(value)
        except TypeError:
            named = where if isinstance(where, str) else position_names(self.fun, where + 1)[where]
            return (
                f"jit of {self.name}: static argument {named!r} must be hashable, got "
                f"{kind_of(value)}, {value!r:.60}; {hashable_instead(value)}, or make the "
                "argument dynamic by leaving it out of static_argnums and static_argnames"
            )
        return ""

    def explain_unhashable(self, args: tuple, kwargs: dict) -> str:
        """The message for a call with a static argument that does not hash."""
        for i in self.static_argnums:
            if -len(args) <= i < len(args) and (text := self.unhashable(i % len(args), args[i])):
                return text
        texts = (self.unhashable(n, kwargs[n]) for n in self.static_argnames if n in kwargs)
        return next(filter(None, texts), "a static argument must be hashable")

    def traced(self, args: tuple, kwargs: dict, specs: bool = False) -> tuple[Entry, list]:
        """The entry for the arguments' signature, and the flat arguments."""
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
        try:
            avals = tuple([type_of(x) for x in leaves])
        except TypeError:
            self.check_leaves(leaves, in_tree, statics, type_of)
            raise
        key = (self.key, in_tree, avals, static, config.trace_key(), axes_key())
        entries = self.entries
        entry = entries.get(key)
        if entry is None:
            if config.explain_cache_misses:
                from weft.driver.explain_miss import log_miss

                log_miss(self.name, arg_names(self.fun, in_tree, statics), key, [*entries])
            start = time.perf_counter()
            entry = self.trace(fun, in_tree, avals)
            if config.explain_cache_misses:
                from weft.driver.explain_miss import log_time

                log_time(self.name, time.perf_counter() - start)
            entry.statics = statics
            if len(entries) >= KEPT:
                make_room(entries, KEPT)
            entries[key] = entry
        return entry, leaves

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

    def trace(self, fun: Callable, in_tree: PyTreeDef, avals: tuple) -> Entry:
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
        entry = Entry()
        entry.latest = None
        tracers = [isinstance(c, Tracer | Cell) for c in consts]
        entry.consts = [c for c, t in zip(consts, tracers, strict=True) if t]
        if entry.consts:
            # Closed-over values of an outer trace become arguments: the compiled program has none.
            hoisted = [v for v, t in zip(jaxpr.constvars, tracers, strict=True) if t]
            kept = [v for v, t in zip(jaxpr.constvars, tracers, strict=True) if not t]
            jaxpr = jaxpr.replace(constvars=kept, invars=[*hoisted, *jaxpr.invars])
            consts = [c for c, t in zip(consts, tracers, strict=True) if not t]
        entry.closed = ClosedJaxpr(jaxpr, consts)
        entry.keys = used_variables(jaxpr.invars) if config.debug_key_reuse else ()
        entry.in_tree, entry.out_tree = in_tree, out.tree
        n, n_const = len(avals), len(entry.consts)
        entry.in_shardings = (None,) * n_const + in_shardings
        entry.out_shardings, out_layouts = self.flat_shardings(
            self.out_shardings, out.tree, entry.closed.out_avals, "out_shardings"
        )
        asked = any(in_layouts) or any(out_layouts)
        entry.layouts = ((None,) * n_const + in_layouts, out_layouts) if asked else None
        entry.donated = (False,) * n_const + self.flat_donated(in_tree, n)
        return entry

    def placed_arguments(self, in_tree: PyTreeDef) -> Any:
        """The arguments that in_shardings speak of: those by position; of one device, all."""
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
        self, prefix: object, tree: PyTreeDef, avals: Sequence[Any], what: str
    ) -> tuple[tuple, tuple]:
        """The shardings that are given for these values, and the layouts."""
        from weft.driver.program import physical

        free = (None,) * len(avals)
        if prefix is None:
            return free, free
        from weft.sharding.memory_layout import Format, Layout

        def leaf(x: object) -> bool:
            return isinstance(x, Sharding | PartitionSpec | Format | _Unspecified)

        flat = broadcast_prefix(prefix, tree, f"jit of {self.name}: {what}", leaf)
        flat += [None] * (len(avals) - len(flat))
        layouts = tuple([s.layout if type(s) is Format else None for s in flat])
        for i, (x, aval) in enumerate(zip(layouts, avals, strict=True)):
            if isinstance(x, Layout):
                x.check_compatible_aval(physical(aval).shape, f"{what} of {self.name}, value {i}")
        flat = [s.sharding if type(s) is Format else s for s in flat]
        result = [
            None if s is None or s is UNSPECIFIED else as_sharding(s, f"{what} of {self.name}")
            for s in flat
        ]
        for s in result:
            if s is not None and PartitionSpec.UNCONSTRAINED in getattr(s, "spec", ()):
                raise ValueError(
                    f"{what} of {self.name}: {s.spec!r} leaves a dimension UNCONSTRAINED; use None "
                    "or axis names, or no sharding to leave all dimensions to the partitioner"
                )
        return tuple(result), layouts

    def flat_donated(self, in_tree: PyTreeDef, n: int) -> tuple:
        # Where debug_nans finds a NaN, the program runs again, op by op, on the same arguments.
        if is_debugging() or not (self.donate_argnums or self.donate_argnames):
            return (False,) * n
        args_tree, kwargs_tree = in_tree.children()
        flags: list[bool] = []
        skipped = 0
        children = args_tree.children()
        total = len(children) + len(self.static_argnums)
        statics = {i % total for i in self.static_argnums if total}
        # A number past the end belongs to an argument that is given by its name.
        donated = {i % total for i in self.donate_argnums if -total <= i < total}
        position = 0
        for child in children:
            while position in statics:
                position += 1
                skipped += 1
            flags += [position in donated] * child.num_leaves
            position += 1
        if kwargs_tree.num_leaves:
            names = kwargs_tree.node_data()[1]
            for name, child in zip(names, kwargs_tree.children(), strict=True):
                flags += [name in self.donate_argnames] * child.num_leaves
        return tuple(flags)

    def check_leaves(
        self, leaves: list, in_tree: PyTreeDef, statics: tuple[int, ...], type_of: Callable
    ) -> None:
        """Raises a TypeError that names the first argument without a type."""
        names = arg_names(self.fun, in_tree, statics)
        for x, name in zip(leaves, names, strict=True):
            try:
                type_of(x)
            except TypeError as e:
                if is_array_like(x):
                    raise TypeError(f"jit of {self.name}: argument {name}: {e}") from None
                raise TypeError(
                    f"jit of {self.name}: argument {name} of type {type(x).__name__} is not an "
                    f"array, a number or a pytree of them: {x!r:.100}. {array_remedy(x)}"
                ) from None

    def leaf_names(self, entry: Entry) -> list[str]:
        """Names of the flat dynamic arguments."""
        return arg_names(self.fun, entry.in_tree, entry.statics)

    def names(self, entry: Entry) -> tuple[Callable[[], list[str]], Callable[[], list[str]]]:
        """Return the functions that name a program's arguments and results."""
        return lambda: self.leaf_names(entry), lambda: names_in(entry.out_tree)

    def jitted_in_group(self) -> LoggedJit:
        """Jit the function again, now that the process is one of several."""
        return jit(
            self.fun,
            in_shardings=self.in_shardings,
            out_shardings=self.out_shardings,
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
        """The layouts of the program that these arguments need."""
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

    def call(self, args: tuple, kwargs: dict) -> tuple:
        """Answer a cache miss of the compiled dispatch: (result, fast-path data, False)."""
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
        executable, consts = compiled_for(entry.closed, request, *self.names(entry))
        noted = logged = False
        if self.logged is not None:
            noted, logged = self.logged.settle(executable.log, executable.label)
        elif executable.log is not None:
            self.early = self.jitted_in_group()
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
    """Arrays that are committed to other devices, on the device that jit is asked to run on."""

    def move(x: Any) -> Any:
        value = x.concrete() if isinstance(x, Tracer) else x  # known where it is differentiated
        bound = type(value) is ArrayImpl and value._committed
        if bound and value._sharding.device_set != sharding.device_set:
            return device_put(x, sharding)
        return x

    return tree_map(move, tree)


def _on_device(device: Device, backend: str | None, in_shardings: _Unspecified) -> Any:
    """Turn jit's arguments `device` and `backend` into in_shardings."""
    if in_shardings is not UNSPECIFIED:
        raise ValueError("jit: give either device/backend or in_shardings, not both")
    return SingleDeviceSharding(device if device is not None else devices(backend)[0])


def jit(
    fun: Callable | None = None,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: object = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: object = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    partitioner: str | None = None,
    bucket: dict[str, Any] | None = None,
    bucket_shapes: object = None,
) -> Any:
    """Compiles a function with XLA, once for each signature of its arguments.

    in_shardings, out_shardings: pytree prefixes of the positional arguments and of the result,
    with Shardings, `weft.layout.Format`s, or `P`s of the mesh in context, or None where placement
    is free.
    static_argnums, static_argnames: arguments that are hashable Python values; a new value
    traces anew. donate_argnums, donate_argnames: arguments whose buffers the results may take.
    device, backend: where it runs; arguments committed to other devices are moved there.
    keep_unused: pass arguments the function does not read. inline: inside another jit, no
    function boundary. compiler_options: XLA flags by name, of the outermost jit. partitioner:
    'auto', 'weft' or 'xla' instead of `weft.config.partitioner`.
    bucket: {'n': weft.powers_of_two}, or {'n': (128, 512)}: arguments are padded to these sizes,
    masked where it matters, and results are cut, so that one program serves many sizes.
    bucket_shapes: which dimensions 'n' are, a pytree prefix of the positional arguments or a dict
    by argument name with strings like 'n, _' or 'n, ...'; without it, the parameters' annotations
    `Annotated[Array, 'n, _']`, or jaxtyping's. Raises BucketError where padding cannot be exact.

    The jitted function has `.trace(*args)`, `.lower(*args)` and `.eval_shape(*args)`.

    >>> import weft
    >>> weft.jit(lambda x: x + 1)(2)
    Array(3, dtype=int32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            compiler_options=compiler_options,
            partitioner=partitioner,
            bucket=bucket,
            bucket_shapes=bucket_shapes,
        )
    check_callable(fun, "jit")
    if partitioner not in (None, "auto", "weft", "xla"):
        raise ValueError(f"jit: partitioner must be 'auto', 'weft' or 'xla', got {partitioner!r}")
    if device is not None or backend is not None:
        in_shardings = _on_device(device, backend, in_shardings)
    numbers, names = named_arguments(fun, static_argnums, static_argnames, "static")
    donate_numbers, donate_names = named_arguments(fun, donate_argnums, donate_argnames, "donate")
    # A static argument has no buffer to give up.
    both = set(numbers) & set(donate_numbers)
    if both:
        raise ValueError(f"jit: arguments {sorted(both)} are both static and donated")
    if bucket_shapes is not None and bucket is None:
        raise ValueError("jit: bucket_shapes names dimensions of bucket, which is not given")
    if bucket is not None and (device is not None or backend is not None):
        raise ValueError("jit: bucket cannot be combined with device or backend")
    info = JitInfo(
        fun=fun,
        in_shardings=None if in_shardings is UNSPECIFIED else in_shardings,
        out_shardings=None if out_shardings is UNSPECIFIED else out_shardings,
        static_argnums=numbers,
        static_argnames=names,
        donate_argnums=donate_numbers,
        donate_argnames=donate_names,
        keep_unused=keep_unused,
        inline=inline,
        options=compiler_options,
        partitioner=partitioner,
    )

    # `device` and `backend` move arguments to the device, other shardings have to be there already.
    one_device = in_shardings if device is not None or backend is not None else None

    def miss(*args: object, **kwargs: object) -> tuple:
        if info.early is not None and state.trace is EVAL:
            return info.early.relay(args, kwargs), None, False
        if one_device is None:
            return info.call(args, kwargs)
        leaves = flatten(([x for i, x in enumerate(args) if i not in numbers], kwargs))[0]
        args = tuple(x if i in numbers else _moved(x, one_device) for i, x in enumerate(args))
        kwargs = {k: x if k in names else _moved(x, one_device) for k, x in kwargs.items()}
        result, fast, *rest = info.call(args, kwargs)
        # Dispatch moves an array from one device to another, but none from several.
        joined = any(type(x) is ArrayImpl and x._sharding.num_devices > 1 for x in leaves)
        return result, None if joined else fast, *rest

    compiled = cached_call(
        fun,
        miss,
        static_argnums=numbers,
        static_argnames=names,
        cache_key=info.dispatch_key,
        name=info.name,
    )
    compiled._jit_info = info
    # Without static or donated arguments, or other processes, C++ answers known calls by itself.
    in_group = distributed_state["client"] is not None
    function: Any = compiled
    if numbers or names or donate_numbers or donate_names or in_group:
        explain = info.explain_unhashable if numbers or names else None
        guard = LoggedJit if in_group else GuardedJit
        function = guard(compiled, info.name, donate_numbers, donate_names, explain)
        info.logged = function if in_group else None
        functools.update_wrapper(function, fun)
        function._jit_info = info
    return function if bucket is None else bucketed(function, info, bucket, bucket_shapes)


def unguarded(function: Any) -> Any:
    """Return the compiled dispatch of a jitted function that donates nothing.

    Its callers tell by themselves of static arguments that are not hashable.
    """
    return function._call if type(function) is GuardedJit else function


def _trace(function: Any, *args: object, **kwargs: object) -> Any:
    """The function traced for these arguments (arrays or `ShapeDtypeStruct`s), to be lowered."""
    from weft.driver.ahead_of_time import Traced

    info: JitInfo = function._jit_info
    entry, leaves = info.traced(args, kwargs, specs=True)
    return Traced(info, entry, leaves)


def _lower(function: Callable | GuardedJit, *args: object, **kwargs: object) -> Any:
    """The function lowered to StableHLO for these arguments."""
    return _trace(function, *args, **kwargs).lower()


def _eval_shape(function: Callable | GuardedJit, *args: object, **kwargs: object) -> Any:
    """The result's tree of `ShapeDtypeStruct`s."""
    return _trace(function, *args, **kwargs).out_info


def _clear_cache(function: Any) -> None:
    """Forgets the function's traces and programs: its next call traces and compiles anew."""
    function._jit_info.entries.clear()
    function._clear_cache()


for _name, _method in (("trace", _trace), ("lower", _lower), ("eval_shape", _eval_shape)):
    _method.__qualname__ = f"<jit>.{_name}"  # no public function: errors are those of the call
    for _class in (PjitFunctionType, GuardedJit):  # LoggedJit has them of the latter
        setattr(_class, _name, api_boundary(_method))
for _class in (PjitFunctionType, GuardedJit):
    setattr(_class, "clear_cache", _clear_cache)  # noqa: B010 - neither is known to have it
