"""shard_map: a per-device program over the shards of global arrays."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.api.shard_map_bodies import manual_scope
from weft.api.shard_map_op import shard_map_p
from weft.api.shard_map_specs import (
    INFER,
    Along,
    Infer,
    arg_specs,
    check_placed,
    check_spec,
    is_spec,
    local_aval,
    resolve_mesh,
)
from weft.autodiff.manual_casts import as_state
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.caches import clearable
from weft.core.cell import Cell
from weft.core.config import disable_jit
from weft.core.errors import names_text
from weft.core.ref import AbstractRef
from weft.core.source import function_name, wraps
from weft.core.state import state
from weft.core.trace import EVAL, closed_call_jaxpr, typeof
from weft.core.tree import arg_names, broadcast_prefix, flatten, names_in
from weft.driver.jit import jit
from weft.driver.staging import check_callable
from weft.refs.api import Ref
from weft.sharding.mesh import AbstractMesh, Mesh
from weft.sharding.named import NamedSharding
from weft.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

P = PartitionSpec


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of a shard_map call, for one function."""

    fun: Callable
    name: str
    mesh: Mesh | AbstractMesh | None
    in_specs: Any
    out_specs: Any
    axis_names: frozenset
    check_vma: bool
    key: tuple  # all of these but the function
    has_static: bool  # some arguments have no spec: they reach the function as they are


def shard_map(
    f: Callable | None = None,
    /,
    *,
    out_specs: object,
    in_specs: object = INFER,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Run a function on every device, on its shards of the arguments.

    in_specs, out_specs: pytree prefixes of the positional arguments and of the result, with a `P`
    for each: a mesh axis named at a dimension splits it; along axes not named, arguments are given
    whole to every device, and results must be equal on all devices; an argument with None instead
    of a `P` reaches `f` as it is, whatever it is. mesh: the devices; None takes the mesh in
    context; when all its axes are Explicit and manual, arguments must be split already as in_specs
    say, and in_specs may be left out. axis_names: the axes that are manual in `f`; the others stay
    with the partitioner; empty means all. check_vma: types track along which axes values vary,
    results are checked, and differentiation communicates only where needed; False trusts out_specs.

    Inside `f`, collectives communicate along the manual axes. shard_map may be nested.

    Raises:
      ValueError: a spec that does not fit its array or the mesh, or a result that varies over an
      axis its out_specs does not name; the message names argument or result, and the fix.

    Source: "sharded computation" per SPMD model; lowered to Shardy's `manual_computation`.

    >>> import weft
    >>> mesh = weft.make_mesh((4,), ("x",))
    >>> f = weft.shard_map(lambda v: weft.lax.psum(v, "x"), mesh=mesh,
    ...                    in_specs=weft.P("x"), out_specs=weft.P())
    >>> x = weft.device_put(weft.numpy.arange(8), weft.NamedSharding(mesh, weft.P("x")))
    >>> f(x)
    Array([12, 16], dtype=int32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable(f, "shard_map")
    if mesh is not None and not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(
            f"shard_map: mesh must be a weft.sharding.Mesh or AbstractMesh, got "
            f"{type(mesh).__name__}: {mesh!r:.100}"
        )
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    import weft.collectives.casts  # noqa: F401  (operands of unequal axes are cast by it)

    names = frozenset((axis_names,)) if isinstance(axis_names, str) else frozenset(axis_names)
    specs, tree = flatten((in_specs, out_specs), lambda v: v is None or is_spec(v))
    key = (mesh, tuple(specs), tree, names, check_vma)
    has_static = None in flatten(in_specs, lambda v: v is None or is_spec(v))[0]
    options = Options(
        f, function_name(f), mesh, in_specs, out_specs, names, check_vma, key, has_static
    )

    @wraps(f)
    @api_boundary
    def mapped(*args: ArrayLike | dict, **kwargs: object) -> Any:
        if kwargs:
            raise TypeError(
                f"shard_map of {options.name}: in_specs describe positional arguments only, but "
                f"{', '.join(kwargs)} was passed by keyword; pass it by position, or close over it"
            )
        if state.trace is EVAL:
            return _jitted(options, args)
        return _call(options, args)

    return mapped


def smap(
    f: Callable | None = None, /, *, axis_name: object, out_axes: Any, in_axes: Any = INFER
) -> Any:
    """shard_map over one axis of the mesh in context, told which dimension is split, as in vmap.

    axis_name: the mesh axis that becomes manual in `f`. in_axes, out_axes: pytree prefixes of the
    positional arguments and of the result, an int for each: the dimension split over the axis, or
    None: given whole, or equal on all devices. Calls may be nested to take several axes.

    Raises:
      TypeError: several axes, or entries that are no ints. ValueError: no mesh is in context, a
      dimension out of bounds, and what `shard_map` raises.

    >>> import weft
    >>> f = weft.smap(lambda v: v - weft.lax.pmean(v, "x"), axis_name="x", in_axes=0, out_axes=0)
    >>> with weft.set_mesh(weft.make_mesh((4,), ("x",))):
    ...     f(weft.reshard(weft.numpy.arange(4.0), weft.P("x")))
    Array([-1.5, -0.5,  0.5,  1.5], dtype=float32)
    """
    if f is None:
        return functools.partial(smap, axis_name=axis_name, out_axes=out_axes, in_axes=in_axes)
    if isinstance(axis_name, tuple | list):
        raise TypeError(
            f"smap: axis_name is one mesh axis, got {axis_name!r}; use weft.shard_map for several"
        )

    def specs(axes: int | str | tuple | None, label: str) -> Any:
        entries, tree = flatten(axes, lambda v: v is None)
        for entry in entries:
            if entry is not None and not isinstance(entry, int):
                raise TypeError(f"smap: {label} takes ints and None, got {entry!r}")
        return tree.unflatten([P() if e is None else Along(e, axis_name) for e in entries])

    return shard_map(
        f,
        in_specs=in_axes if isinstance(in_axes, Infer) else specs(in_axes, "in_axes"),
        out_specs=specs(out_axes, "out_axes"),
        axis_names={axis_name},
    )


_compiled: weakref.WeakKeyDictionary[Callable, dict] = clearable(weakref.WeakKeyDictionary())


def _jitted(options: Options, args: tuple) -> Any:
    """Eager calls run compiled, one program for each function, specs and argument types.

    `disable_jit` has no effect on the body: nothing else runs one program on every device.
    """
    leaves, tree = (list(args), None) if not options.has_static else flatten(args)
    static: tuple = ()
    if options.has_static:
        api = f"shard_map of {options.name}: in_specs"
        leaf_specs = broadcast_prefix(options.in_specs, tree, api, is_spec)
        static = tuple((i, leaves[i]) for i, s in enumerate(leaf_specs) if s is None)
    dynamic = [x for i, x in enumerate(leaves) if all(i != k for k, _ in static)]
    key: tuple = (options.key, tree, static)
    try:
        programs = _compiled.setdefault(options.fun, {})
        jitted = programs.get(key)
    except TypeError:  # a function without weak references, or a static argument without a hash
        programs, jitted, key = {}, None, ()
    if jitted is None:
        jitted = programs[key] = _program(options, tree, static)
    if not disable_jit:
        return jitted(*dynamic)
    with disable_jit(False):
        return jitted(*dynamic)


def _forgotten(*_: object) -> Any:
    raise AssertionError("a program refers to its function weakly")


def _program(options: Options, tree: PyTreeDef | None, static: tuple) -> Callable:
    """Return the jitted shard_map of a function, weakly referenced: `_compiled` keeps it."""
    fun = weakref.ref(options.fun) if options.fun in _compiled else lambda fun=options.fun: fun
    bare = replace(options, fun=_forgotten)

    def run(*args: Array | dict) -> Any:
        function = fun()
        assert function is not None, "only the function's own program is called"
        complete = replace(bare, fun=function)
        if tree is None:
            return _call(complete, args)
        leaves = list(args)
        for i, x in static:
            leaves.insert(i, x)
        return _call(complete, tree.unflatten(leaves))

    run.__name__ = options.name
    if tree is None:  # errors name arguments
        with suppress(TypeError, ValueError):
            run.__signature__ = inspect.signature(options.fun)  # type: ignore[attr-defined]
    return jit(run, out_shardings=_as_written(options))


def _as_written(options: Options) -> Any:
    """Return the results' shardings with the program's own specs; None where others choose, too.

    A partitioner's own shardings name no axes of size 1, nor dimensions at the end that are whole.
    """
    mesh, names = options.mesh, options.axis_names
    if not isinstance(mesh, Mesh) or (names and names != set(mesh.axis_names)):
        return None
    specs, tree = flatten(options.out_specs, is_spec)
    if not all(isinstance(s, PartitionSpec) for s in specs):
        return None
    return tree.unflatten([NamedSharding(mesh, s) for s in specs])


# The call -------------------------------------------------------------------------------------


def _call(options: Options, args: tuple) -> Any:
    """Trace the per-device program and bind it."""
    where = mesh, manual, _ = resolve_mesh(options)
    api = f"shard_map of {options.name}"
    leaves, tree = flatten(args)
    static_only = options.in_specs is None
    specs: list = [None] * len(leaves)
    if not static_only:
        specs = arg_specs(options, args, leaves, tree, where)
    traced = [i for i, s in enumerate(specs) if s is not None]
    # A ref goes in as the array that it holds; what the devices leave in it comes back.
    refs = {i: Ref(leaves[i]) for i in traced if isinstance(typeof(leaves[i]), AbstractRef)}
    operands = [refs[i][...] if i in refs else leaves[i] for i in traced]
    in_specs = [specs[i] for i in traced]
    local = []
    for i, x, spec in zip(traced, operands, in_specs, strict=True):
        aval = typeof(x)
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"{api}: argument leaf {i} is no array: {aval}")
        try:
            local.append(local_aval(aval, spec, "", mesh, manual, options.check_vma))
        except ValueError:
            name = arg_names(options.fun, flatten((args, {}))[1])[i]
            local_aval(aval, spec, f"{api}: argument {name}", mesh, manual, options.check_vma)
            raise
    # Explicit axes: the argument's own type must already say what the spec asks.
    check_placed(
        options,
        [typeof(x) for x in operands],
        in_specs,
        where,
        lambda: [arg_names(options.fun, flatten((args, {}))[1])[i] for i in traced],
    )
    out: list = []

    # Refs come in as values, and go out as further results, written back below.
    def flat_fun(*traced_leaves: Array) -> list:
        full = list(leaves)
        cells = []
        for i, x in zip(traced, traced_leaves, strict=True):
            if i in refs:
                x = Cell(x, AbstractRef(typeof(x)), state.trace, fixed=True)
                cells.append(x)
            full[i] = x
        result = options.fun(*tree.unflatten(full))
        outs, out_tree = flatten(result)
        flat = _result_specs(options, outs, out_tree, where)
        outs += [cell.value for cell in cells]
        flat += [specs[i] for i in refs]
        out[:] = [out_tree, flat]
        if options.check_vma:
            outs = [_exact(o, s, manual) for o, s in zip(outs, flat, strict=True)]
        return outs

    # The body is traced once, on the types of one shard.
    with manual_scope(mesh, manual, options.check_vma):
        closed, consts = closed_call_jaxpr(flat_fun, local, options.name)
    out_tree, out_specs = out
    outs = shard_map_p.bind(
        *consts,
        *operands,
        jaxpr=closed,
        mesh=mesh,
        manual=manual,
        in_specs=(P(),) * len(consts) + tuple(in_specs),
        out_specs=tuple(out_specs),
        check_vma=options.check_vma,
    )
    n = len(outs) - len(refs)
    for ref, value in zip(refs.values(), outs[n:], strict=True):
        ref[...] = value
    return out_tree.unflatten(outs[:n])


def _result_specs(options: Options, outs: list, tree: PyTreeDef, where: tuple) -> list:
    """Return one checked spec for each result."""
    mesh, manual, _ = where
    api = f"shard_map of {options.name}"
    flat = broadcast_prefix(options.out_specs, tree, f"{api}: out_specs", is_spec)
    names: list[str] = []

    def name(i: int) -> str:
        if not names:
            names.extend(names_in(tree, "result"))
        return names[i]

    def label(i: int, parameter: str = "out_specs") -> str:
        return f"{api}: {parameter} for {name(i)}"

    for i, (x, spec) in enumerate(zip(outs, flat, strict=True)):
        if isinstance(spec, Along):
            spec = flat[i] = spec.spec(typeof(x), partial(label, i, "out_axes"))
        check_spec(spec, partial(label, i), mesh, manual)
        try:
            aval = typeof(x)
        except TypeError as e:
            raise TypeError(f"{api}: {name(i)} is no array: {e}") from None
        if not isinstance(aval, ShapedArray):
            raise TypeError(
                f"{api}: {name(i)} has type {aval} and cannot leave the devices before it has "
                "arrived; call .done() on a future, weft.lax.precv on a token"
            )
        if len(spec) > aval.ndim:
            raise ValueError(
                f"{api}: {name(i)} of type {aval.str_short()} has rank {aval.ndim}, but its "
                f"out_specs {spec!r} has {len(spec)} entries"
                + (
                    "; a scalar has no dimension to concatenate: add one with x[None], or use P()"
                    if not aval.ndim
                    else "; give at most one for each dimension"
                )
            )
        if options.check_vma:
            _check_result_type(api, name(i), aval, spec, manual)
    return flat


def _check_result_type(
    api: str, name: str, aval: ShapedArray, spec: PartitionSpec, manual: tuple
) -> None:
    """Along axes that the spec does not name, the result must be known to be equal."""
    axes = [a for a in manual if a in aval.mat.varying and a not in spec.used_axes()]
    axes = [a for a in axes if a not in spec.unreduced]
    if axes:
        listing = ", ".join(map(repr, axes))
        one = names_text(axes)
        raise ValueError(
            f"{api}: {name} of type {aval.str_short()} varies over mesh axis {listing}, which its "
            f"out_specs {spec!r} does not name: the result would be a different array on each "
            f"device. Name the axis in out_specs to concatenate the parts, make the result equal "
            f"with weft.lax.psum / pmean / pmax(x, {one}), or use check_vma=False if you know that "
            "it is"
        )
    for kind in ("unreduced", "reduced"):
        have, want = getattr(aval.mat, kind), getattr(spec, kind)
        extra = [a for a in manual if a in have and a not in want]
        if extra:
            remedy = (
                f"add it up with weft.lax.psum(x, {extra[0]!r}), or name the axis in "
                f"out_specs: P(..., unreduced={{{extra[0]!r}}})"
                if kind == "unreduced"
                else f"name the axis in out_specs: P(..., reduced={{{extra[0]!r}}})"
            )
            raise ValueError(
                f"{api}: {name} of type {aval.str_short()} is {kind} over mesh axis {extra[0]!r}, "
                f"but its out_specs is {spec!r}; {remedy}"
            )
    mat = aval.mat
    equal = [
        a for a in manual if a in spec.unreduced and a not in mat.varying and a not in mat.unreduced
    ]
    if equal:
        raise ValueError(
            f"{api}: {name} of type {aval.str_short()} does not vary over mesh axis {equal[0]!r}, "
            f"but its out_specs {spec!r} says that it is a sum over it: every device's equal value "
            f"would be added up. Leave the axis out of unreduced; or, to count the value once for "
            f"each device, cast it first: weft.lax.pcast(x, {equal[0]!r}, to='varying')"
        )


def _exact(x: ArrayLike, spec: PartitionSpec, manual: tuple) -> Any:
    """Return the result with exactly the type its spec gives: promoted where the spec splits it."""
    for axes, to in (
        (spec.used_axes(), "varying"),
        (spec.unreduced, "unreduced"),
        (spec.reduced, "reduced"),
    ):
        if axes:
            x = as_state(x, tuple(a for a in manual if a in axes), to)
    return x
