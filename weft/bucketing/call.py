"""Functions that are compiled for buckets of sizes: arguments are padded, results cut."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.bucketing.numbers import Numbered, differing, first_difference
from weft.bucketing.padded import Padded
from weft.bucketing.sizes import ShapeNames, check_rules, padded_size
from weft.core.caches import clearable, make_room
from weft.core.config import config
from weft.core.errors import ArgumentError, BucketError
from weft.core.state import axes_key, state
from weft.core.trace import EVAL, Tracer, typeof
from weft.core.tree import PyTreeDef, arg_names, flatten
from weft.driver.execute import is_debugging
from weft.driver.jit import jit
from weft.driver.jit_info import KEPT
from weft.runtime.array import ArrayImpl

if TYPE_CHECKING:
    from weft.driver.jit_info import Entry, JitInfo


@dataclass(slots=True, eq=False)
class BucketProgram:
    """One program for all sizes of a bucket whose traces differ in the varying slots only."""

    entry: Entry
    numbered: Numbered
    varying: frozenset[int]
    run: Any
    padded: Padded

    def serves(self, exact: Numbered) -> bool:
        """Return whether it computes the function at the sizes of another trace."""
        if first_difference(exact, self.numbered):
            return False
        if not differing(exact, self.numbered) <= self.varying:
            return False
        return self.padded.agrees_with(exact.numbers)


@dataclass(slots=True, eq=False)
class Plan:
    """How a call of one signature runs: its program, its numbers, and the shapes around it."""

    program: BucketProgram
    sizes: np.ndarray
    arrays: list
    shapes: list  # of padded arguments
    results: list  # true shapes of results
    out_tree: PyTreeDef


class Bucketed:
    """A function compiled for buckets of sizes, as `weft.jit(bucket=)` gives it.

    Called among tracers, by `weft.grad` or inside another jit, it is the plain function.
    """

    def __init__(self, plain: Any, info: JitInfo, bucket: Any, shapes: Any) -> None:
        self.info = info
        self._plain = plain
        self.rules = check_rules(bucket, info.name)
        self.names = ShapeNames(info.fun, info.name, shapes, self.rules)
        self._plans: dict[Any, Plan] = clearable({})
        self._programs: dict[Any, list[BucketProgram]] = clearable({})
        self._dims: dict[Any, list] = clearable({})
        functools.update_wrapper(self, info.fun)

    def __repr__(self) -> str:
        return f"<bucketed function {self.info.name} of {', '.join(self.rules)}>"

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        if state.trace is not EVAL or is_debugging():  # NaNs of the padding are nobody's fault
            return self._plain(*args, **kwargs)
        fun, dynamic, by_name, static = self.info.split(args, kwargs)
        leaves, in_tree = flatten((tuple(dynamic), by_name))
        statics = tuple([i for i, _ in static[0]])
        if any(isinstance(x, Tracer) for x in leaves):
            return self._plain(*args, **kwargs)
        try:
            avals = tuple(map(typeof, leaves))
        except TypeError:
            return self._plain(*args, **kwargs)  # its message names the argument
        key = (in_tree, avals, static, config.trace_key(), axes_key())
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(fun, in_tree, avals, static, statics)
            make_room(self._plans, KEPT)
            self._plans[key] = plan
        return self._run(plan, leaves)

    def lower(self, *args: object, **kwargs: object) -> Any:
        """Lower the program that a call with these arguments runs, at its padded sizes."""
        fun, dynamic, by_name, static = self.info.split(args, kwargs)
        leaves, in_tree = flatten((tuple(dynamic), by_name))
        statics = tuple([i for i, _ in static[0]])
        plan = self._plan(fun, in_tree, tuple(map(typeof, leaves)), static, statics)
        return plan.program.run.lower(plan.sizes, plan.arrays, *_specs(plan.program.entry))

    def eval_shape(self, *args: object, **kwargs: object) -> Any:
        """Return the result's tree of `ShapeDtypeStruct`s, at true sizes."""
        return self._plain.eval_shape(*args, **kwargs)

    def trace(self, *args: object, **kwargs: object) -> Any:
        """Trace the function at the true sizes of its arguments."""
        return self._plain.trace(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget all traces and programs."""
        self._plain.clear_cache()
        for cache in (self._plans, self._programs, self._dims):
            cache.clear()

    def _dims_of(self, in_tree: PyTreeDef, avals: Sequence[Any], statics: tuple) -> list:
        """Return the names of the dimensions of each leaf."""
        key = (in_tree, statics, tuple([len(a.shape) for a in avals]))
        cached = self._dims.get(key)
        if cached is None:
            positional, by_keyword = in_tree.children()
            children = positional.children()
            free = [i for i in range(len(children) + len(statics)) if i not in statics]
            arguments: list[tuple[int | str, PyTreeDef]] = list(zip(free, children, strict=True))
            if by_keyword.num_leaves:
                words = by_keyword.node_data()[1]
                arguments += list(zip(words, by_keyword.children(), strict=True))
            make_room(self._dims, KEPT)
            cached = self._dims[key] = self.names.of(arguments, [len(a.shape) for a in avals])
        return cached

    def _padded(self, dims: list, avals: Sequence[Any], names: Callable[[], Any]) -> tuple:
        """Return the size and the padded size of each named dimension."""
        sizes: dict[str, tuple[int, int]] = {}
        for i, (leaf, aval) in enumerate(zip(dims, avals, strict=True)):
            for name, size in zip(leaf, aval.shape, strict=True):
                if name is None:
                    continue
                first, at = sizes.setdefault(name, (size, i))
                if first != size:
                    labels = names()
                    raise ArgumentError(
                        f"jit of {self.info.name}: dimension {name!r} has size {first} in argument "
                        f"{labels[at]} and {size} in argument {labels[i]}; dimensions of one name "
                        "must have one size"
                    )
        true = {name: size for name, (size, _) in sizes.items()}
        label = f"jit of {self.info.name}: dimension"
        padded = {
            name: padded_size(self.rules[name], size, f"{label} {name!r}")
            for name, size in true.items()
        }
        return true, padded

    def _trace(self, fun: Callable, in_tree: PyTreeDef, avals: tuple) -> Entry:
        entry = self.info.trace(fun, in_tree, avals)
        if entry.consts:
            raise BucketError(
                f"jit of {self.info.name}: it closes over refs or traced arrays, whose sizes are "
                "not bucketed; pass them as arguments"
            )
        if entry.layouts is not None:
            raise BucketError(
                f"jit of {self.info.name}: layouts (weft.layout.Format) cannot be asked of padded "
                "arguments; give shardings without layouts"
            )
        return entry

    def _plan(
        self, fun: Callable, in_tree: PyTreeDef, avals: tuple, static: object, statics: tuple
    ) -> Plan:
        names = lambda: arg_names(self.info.fun, in_tree, statics)
        dims = self._dims_of(in_tree, avals, statics)
        true, padded = self._padded(dims, avals, names)

        def sized(sizes: dict[str, int]) -> tuple:
            return tuple(
                [
                    a.update(
                        shape=tuple(
                            [s if n is None else sizes[n] for n, s in zip(d, a.shape, strict=True)]
                        )
                    )
                    for a, d in zip(avals, dims, strict=True)
                ]
            )

        # One program serves all calls with these padded sizes whose numbers agree with its own.
        wide = sized(padded)
        exact = Numbered(self._trace(fun, in_tree, avals).closed)
        key = (in_tree, wide, static, config.trace_key(), axes_key())
        programs = self._programs.get(key)
        if programs is None:
            make_room(self._programs, KEPT)
            programs = self._programs[key] = []
        program = next((p for p in programs if p.serves(exact)), None)
        if program is None:
            entry = self._trace(fun, in_tree, wide)
            full = Numbered(entry.closed)
            other = exact
            if true == padded:  # where nothing is padded: what would be for a size less
                steps = _parts(dims, avals)
                less = {n: self._less(n, s, steps.get(n, 1)) for n, s in true.items()}
                if less != true:
                    other = Numbered(self._trace(fun, in_tree, sized(less)).closed)
            self._check(other, full)
            program = self._program(entry, full, other)
            programs.append(program)
        # Numbers that depend on the true sizes are arguments of the program.
        varying = sorted(program.varying)
        numbers = [exact.numbers[s] for s in varying]
        kinds = [isinstance(program.numbered.numbers[s], int) for s in varying]
        arrays = [
            _filled(np.asarray(n), np.shape(program.numbered.numbers[s]))
            for n, s, k in zip(numbers, varying, kinds, strict=True)
            if not k
        ]
        integers = [n for n, k in zip(numbers, kinds, strict=True) if k]
        return Plan(
            program,
            np.asarray(integers, np.int32),
            arrays,
            [a.shape for a in wide],
            [a.shape for a in exact.closed.out_avals],
            program.entry.out_tree,
        )

    def _less(self, name: str, size: int, step: int) -> int:
        """Return a smaller size in the same bucket, if there is one that `step` parts divide."""
        rule = self.rules[name]
        if size - step < 2 or padded_size(rule, size - step, name) != size:
            return size
        return size - step

    def _check(self, exact: Numbered, padded: Numbered) -> None:
        """Raise an error where the function does other things at other sizes."""
        difference = first_difference(exact, padded)
        if difference is None:
            return
        eqn = difference[0] or difference[1]
        label = "its results"
        if eqn is not None:
            at = f" ({eqn.source.short()})" if eqn.source is not None and eqn.source.file else ""
            label = f"{eqn.primitive.name}{at}"
        raise BucketError(
            f"jit of {self.info.name}: it is another program at another size, from {label} on. "
            "Python that branches or loops on a bucketed size cannot be padded; use weft.lax.cond, "
            "weft.lax.fori_loop or masks, or leave the dimension out of bucket"
        )

    def _program(self, entry: Entry, full: Numbered, exact: Numbered) -> BucketProgram:
        varying = differing(exact, full)
        order = sorted(varying)
        name = self.info.name
        last: list[Padded] = []

        def run(sizes: Any, arrays: list, *leaves: object) -> list:
            scalars, others = iter(range(len(order))), iter(arrays)
            numbers: dict[int, Any] = {}
            for slot in order:
                is_int = isinstance(full.numbers[slot], int)
                numbers[slot] = sizes[next(scalars)] if is_int else next(others)
            padded = Padded(name, varying, numbers, exact.numbers)
            outs = padded.jaxpr(entry.closed, full.slots, leaves)
            last[:] = [padded]
            return outs

        run.__name__ = run.__qualname__ = name
        free = lambda flat: any(s is not None for s in flat)
        placed: dict[str, Any] = {}
        if free(entry.in_shardings):
            placed["in_shardings"] = (None, None, *entry.in_shardings)
        if free(entry.out_shardings):
            placed["out_shardings"] = list(entry.out_shardings)
        donated = [i + 2 for i, d in enumerate(entry.donated) if d]
        jitted = jit(
            run,
            donate_argnums=donated or None,
            keep_unused=self.info.keep_unused,
            compiler_options=self.info.options,
            partitioner=self.info.partitioner,
            **placed,
        )
        integers = np.zeros(sum(isinstance(full.numbers[s], int) for s in order), np.int32)
        arrays = [np.asarray(n) for s in order if not isinstance(n := full.numbers[s], int)]
        jitted.trace(integers, arrays, *_specs(entry))
        return BucketProgram(entry, full, varying, jitted, last[0])

    def _run(self, plan: Plan, leaves: list) -> Any:
        padded = [
            x if np.shape(x) == shape else _filled(x, shape)
            for x, shape in zip(leaves, plan.shapes, strict=True)
        ]
        outs = plan.program.run(plan.sizes, plan.arrays, *padded)
        for x, y, gone in zip(leaves, padded, plan.program.entry.donated, strict=True):
            if gone and x is not y and isinstance(x, ArrayImpl):
                x.delete()
        return plan.out_tree.unflatten(
            [_cut(x, shape) for x, shape in zip(outs, plan.results, strict=True)]
        )


def _specs(entry: Entry) -> list:
    from weft.driver.staging import ShapeDtypeStruct

    return [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=_explicit(a))
        for a in entry.closed.in_avals
    ]


def _explicit(aval: object) -> Any:
    """Return the sharding in a type, where it splits dimensions."""
    sharding = getattr(aval, "sharding", None)
    return sharding if sharding is not None and any(sharding.spec) else None


def _on_host(x: object) -> bool:
    """Return whether an array's memory is the host's, so that NumPy copies it as fast as XLA."""
    if not _is_plain(x):
        return False
    if not isinstance(x, ArrayImpl):
        return True
    devices = x._sharding.device_set
    return len(devices) == 1 and all(d.platform == "cpu" for d in devices)


def _is_plain(x: object) -> bool:
    return isinstance(getattr(x, "dtype", np.dtype(float)), np.dtype)


def _filled(x: Any, shape: Sequence[int]) -> Any:
    """Return an array that begins with x, with zeros beyond."""
    if np.shape(x) == tuple(shape):
        return x
    if _on_host(x):
        value = np.asarray(x)
        out = np.zeros(shape, value.dtype)
        out[tuple(map(slice, value.shape))] = value
        return _like(out, x)
    from weft import lax, random

    if not _is_plain(x):
        data = random.key_data(x)
        wide = _filled(data, (*shape, *data.shape[x.ndim :]))
        return random.wrap_key_data(wide, impl=random.key_impl(x))
    config = [(0, n - m, 0) for n, m in zip(shape, x.shape, strict=True)]
    return lax.pad(x, np.zeros((), x.dtype), config)


def _like(value: np.ndarray, x: object) -> Any:
    """Return the value where x is, if x is bound to a place."""
    if not isinstance(x, ArrayImpl):
        return value
    from weft.runtime.device_put import device_put

    return device_put(value, x._sharding if x._committed else None)


def _parts(dims: list, avals: Sequence[Any]) -> dict[str, int]:
    """Into how many parts the types say that each named dimension is split."""
    parts: dict[str, int] = {}
    for leaf, aval in zip(dims, avals, strict=True):
        if aval.sharding is None:
            continue
        for name, entry in zip(leaf, aval.sharding.spec, strict=False):
            if name is not None and entry is not None:
                axes = entry if isinstance(entry, tuple) else (entry,)
                count = math.prod(aval.sharding.mesh.shape[a] for a in axes)
                parts[name] = math.lcm(parts.get(name, 1), count)
    return parts


def _cut(x: Any, shape: Sequence[int]) -> Any:
    """Return the start of a result."""
    if np.shape(x) == tuple(shape):
        return x
    part = tuple(map(slice, shape))
    return _like(np.ascontiguousarray(np.asarray(x)[part]), x) if _on_host(x) else x[part]


def bucketed(plain: object, info: JitInfo, bucket: object, shapes: object) -> Bucketed:
    """Make the bucketed form of a jitted function, which `jit` returns for bucket=."""
    return Bucketed(plain, info, bucket, shapes)
