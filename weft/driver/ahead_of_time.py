# Tests: tests/test_stages.py
"""Ahead-of-time compilation: traced, lowered and compiled forms of a jitted function."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft._xla import mlir
from weft.core import provided
from weft.core.boundary import show_user_frames
from weft.core.cell import Cell, put_back
from weft.core.errors import leaked
from weft.core.jaxpr import ClosedJaxpr
from weft.core.masks import unpick
from weft.core.ref import AbstractRef
from weft.core.state import LAYOUTS
from weft.core.trace import Tracer, array_method, typeof
from weft.core.tree import PyTreeDef, flatten
from weft.driver.devices import committed_sharding
from weft.driver.donation_guard import Guarded
from weft.driver.execute import Request, execute, is_debugging, program_for, spelled_as
from weft.driver.program import Program, misplaced, misplaced_error
from weft.driver.program_stages import ProgramStages
from weft.driver.staging import ShapeDtypeStruct, struct_of
from weft.runtime.compile import check_options, estimate_costs
from weft.runtime.dispatch import cached_call, fastpath
from weft.runtime.memory_layouts import fits, held, of_program
from weft.sharding.memory_layout import Format
from weft.sharding.physical import without_trailing_nones

if TYPE_CHECKING:
    from weft.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class ArgInfo:
    """The type of one argument of a stage, and whether its buffer is donated."""

    aval: Any
    donated: bool

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)


class _Arguments:
    """The arguments of the function, as all stages describe them."""

    _entry: Any

    @property
    def in_tree(self) -> PyTreeDef:
        """The tree of (args, kwargs), static arguments left out."""
        return self._entry.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        return self._entry.out_tree

    def _arg_infos(self) -> list[ArgInfo]:
        entry = self._entry
        user_part = slice(len(entry.consts), None)  # behind what the function closes over
        pairs = zip(entry.closed.in_avals[user_part], entry.donated[user_part], strict=True)
        return [ArgInfo(aval, bool(donated)) for aval, donated in pairs]

    @property
    def args_info(self) -> Any:
        """(args, kwargs) with an `ArgInfo` for each array."""
        return self.in_tree.unflatten(self._arg_infos())

    @property
    def in_avals(self) -> Any:
        """(args, kwargs) with the type of each array."""
        return self.in_tree.unflatten([info.aval for info in self._arg_infos()])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The flat positions of the arguments whose buffers are given away."""
        return tuple(i for i, info in enumerate(self._arg_infos()) if info.donated)

    @property
    def out_info(self) -> Any:
        """The result's tree with `ShapeDtypeStruct` leaves, with their shardings where known."""
        results = zip(self._entry.closed.out_avals, self._placed_results(), strict=True)
        structs = [struct_of(aval, placed) for aval, placed in results]
        return self.out_tree.unflatten(structs[: self.out_tree.num_leaves])

    def _placed_results(self) -> Sequence[Any]:
        """Return the flat results' shardings or formats as they are asked for, None for others."""
        asked = self._entry.out_shardings
        if self._entry.layouts is None:
            return asked
        layouts = self._entry.layouts[1]
        return [s if o is None else Format(o, s) for s, o in zip(asked, layouts, strict=True)]


def value_of(x: object) -> Any:
    """Return the array that a ref holds; other values as they are."""
    return x.get() if x.__class__ is Cell else x


class Traced(_Arguments):
    """A function traced for given argument types. `.jaxpr`, `.out_info`, `.lower()`."""

    _written: Sequence[int] = ()  # the arguments that are refs with a final value as a result

    def __init__(self, info: Any, entry: Any, leaves: list) -> None:
        self._info = info
        self._entry = entry
        self._refs = [c for c in entry.consts if c.__class__ is Cell]  # that it closes over
        operands = [*entry.consts, *leaves]
        self._layouts = info.layouts(entry, list(map(value_of, operands)))
        self._placed = [
            x.sharding if isinstance(x, ShapeDtypeStruct) else committed_sharding(value_of(x))
            for x in (*self._refs, *leaves)
        ]

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return provided.shown(self._entry.closed)

    @property
    def fun_name(self) -> str:
        return self._info.name

    @property
    def out_avals(self) -> Any:
        """The result's tree of types."""
        return self.out_tree.unflatten(self._entry.closed.out_avals[: self.out_tree.num_leaves])

    def _arg_names(self) -> list[str]:
        """Return names of the flat dynamic arguments, behind those of refs that it closes over."""
        closed_over = [f"a closed-over {c.aval.str_short()}" for c in self._refs]
        return closed_over + self._info.leaf_names(self._entry)

    def _request(self) -> Request:
        """Return the placements it is lowered for; raises for values of other traces."""
        info, entry = self._info, self._entry
        if len(entry.consts) > len(self._refs):
            raise leaked(next(c for c in entry.consts if c.__class__ is not Cell))
        placed = tuple(map(without_trailing_nones, self._placed))
        return info.request(entry, placed, self._layouts)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Lower to StableHLO, for other platforms than the default one if asked."""
        if any(isinstance(a, AbstractRef) for a in self._entry.closed.in_avals):
            return self._on_values().lower(lowering_platforms=lowering_platforms)
        entry, request = self._entry, self._request()
        names = of_args, of_results = self._arg_names, self._info.names(entry)[1]
        if self._written:  # a ref's final value has the name of the argument

            def with_refs() -> list[str]:
                written_refs = [of_args()[i].partition("[<")[0] for i in self._written]
                return [*of_results(), *(f" in {ref}" for ref in written_refs)]

            names = of_args, with_refs
        if lowering_platforms is None:
            return Lowered(program_for(entry.closed, request, *names), self)
        program = Program.place(entry.closed, request, *(of() for of in names))
        if lowering_platforms:
            program.platforms = tuple(lowering_platforms)
        return Lowered(program.lower(), self)

    def _on_values(self) -> Traced:
        """Make a function of the refs' arrays that returns their final contents too."""
        from weft.refs.discharge import discharge_jaxpr

        entry = self._entry
        pure = discharge_jaxpr(
            entry.closed, [isinstance(a, AbstractRef) for a in entry.closed.in_avals]
        )
        traced = copy.copy(self)
        traced._entry = copy.copy(entry)
        traced._entry.closed = pure.jaxpr
        traced._entry.out_shardings = (*entry.out_shardings, *(None,) * len(pure.written))
        traced._written = pure.written
        return traced


class Lowered(_Arguments):
    """A lowered function. `.as_text()`, `.stages`, `.compile()`."""

    def __init__(self, program: Program, traced: Traced) -> None:
        self._program = program
        self._traced = traced
        self._entry = traced._entry

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the module's text, on request with sources: 'stablehlo' (default) or 'hlo'."""
        if _is_hlo("as_text", dialect):
            return mlir.to_hlo_text(self._program.module, metadata=debug_info)
        return mlir.text(self._program.module, locations=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the `ir.Module`, or jaxlib's `XlaComputation` for dialect 'hlo'."""
        module = self._program.module
        return mlir.to_hlo(module) if _is_hlo("compiler_ir", dialect) else module

    @property
    def stages(self) -> Any:
        """Every stage from jaxpr to optimized HLO, each printable; see docs/partitioning.md."""
        return ProgramStages(self._program, self._traced._entry.closed)

    def arg_names(self) -> list[str]:
        """Return names of the flat arguments that the program reads, hoisted constants first."""
        program = self._program
        names = [f"constant {i}" for i in range(len(program.consts))] + self._traced._arg_names()
        return [n for n, k in zip(names, program.kept, strict=True) if k]

    def cost_analysis(self) -> dict[str, float]:
        """Estimate flops and bytes accessed, by name, of the whole program before it is fused."""
        return estimate_costs(self._program.module)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile for the devices of the arguments' shardings; calls of the function share it.

        compiler_options: XLA's options by name, besides those of `jit` and for this time only.
        """
        program = self._program
        if compiler_options is not None:
            check_options(compiler_options)
            options = {**(program.options or {}), **compiler_options}
            program = replace(program, options=options, executable=None)
        traced, executable = self._traced, program.compile()
        ranks = [getattr(a, "ndim", 0) for a in traced._entry.closed.in_avals]
        placed = zip(traced._placed, ranks, strict=True)
        executable = spelled_as(executable, placed, traced._entry.out_shardings)
        return Compiled(executable, program, traced)


def _is_hlo(api: str, dialect: str | None) -> bool:
    if dialect not in (None, "stablehlo", "hlo"):
        raise ValueError(f"{api}: dialect must be 'stablehlo' or 'hlo', got {dialect!r}")
    return dialect == "hlo"


class Compiled(_Arguments):
    """A compiled function, to be called with arguments of exactly the traced types.

    Static arguments are part of the program: the call takes the others only, by position or by
    keyword as in the call that was lowered.
    """

    def __init__(self, executable: Any, program: Any, traced: Traced) -> None:
        self._executable = executable
        self._program = program
        self._traced = traced
        self._entry = traced._entry

    def as_text(self) -> str:
        """Return the optimized HLO."""
        return self._executable.compiled.as_text()

    def cost_analysis(self) -> Any:
        """Estimate flops and bytes accessed, by name, of what one device computes.

        The estimates are XLA's of the optimized program; where kernels of weft replace operations,
        those of the program before it is fused.
        """
        return self._program.cost_analysis() or self._executable.compiled.cost_analysis()

    def memory_analysis(self) -> Any:
        """Return bytes of arguments, outputs, temporaries and code on each device."""
        return self._executable.compiled.memory_analysis()

    def runtime_executable(self) -> Any:
        return self._executable.xla

    @property
    def input_shardings(self) -> Any:
        """The shardings of (args, kwargs); None for arguments the program does not read."""
        return self.in_tree.unflatten(self._flat_shardings[len(self._entry.consts) :])

    @functools.cached_property
    def _flat_shardings(self) -> list:
        flat = list(self._executable.in_shardings[len(self._program.consts) :])
        if self._executable.kept_args is not None:
            flat = unpick(flat, self._program.kept[len(self._program.consts) :])
        # Programs are shared by specs that differ in `None`s at their ends: these are the user's.
        places = zip(flat, self._traced._placed, self._entry.in_shardings, strict=True)
        return [
            actual if asked is None and without_trailing_nones(actual) == s else s
            for s, actual, asked in places
        ]

    def _placed_results(self) -> Sequence[Any]:
        shardings = self._executable.out_shardings
        return shardings if self._executable.committed else [None] * len(shardings)

    @property
    def output_shardings(self) -> Any:
        return self.out_tree.unflatten(self._executable.out_shardings[: self.out_tree.num_leaves])

    @property
    def input_formats(self) -> Any:
        """(args, kwargs) with a `weft.layout.Format` for each array that the program reads."""
        ins, _ = self._flat_layouts
        formats = list(map(Format, ins, self._flat_shardings))
        return self.in_tree.unflatten(formats[len(self._entry.consts) :])

    @property
    def output_formats(self) -> Any:
        """The result's tree with a `weft.layout.Format` for each array."""
        _, outs = self._flat_layouts
        formats = list(map(Format, outs, self._executable.out_shardings))
        return self.out_tree.unflatten(formats[: self.out_tree.num_leaves])

    @functools.cached_property
    def _flat_layouts(self) -> tuple[list, list]:
        ins, outs = of_program(self._executable.xla)
        ins = ins[len(self._program.consts) :]
        if self._executable.kept_args is not None:
            ins = unpick(ins, self._program.kept[len(self._program.consts) :])
        return ins, outs

    def __call__(self, *args: object, **kwargs: object) -> Any:
        try:
            return self._dispatch(*args, **kwargs)
        except Exception as e:
            show_user_frames(e)
            raise  # bare, so that this frame does not show either

    @functools.cached_property
    def _dispatch(self) -> Callable[..., Any]:
        info = self._traced._info

        def miss(*args: ArrayLike | dict, **kwargs: object) -> tuple:
            return self._run(args, kwargs)

        function = cached_call(
            lambda *args, **kwargs: self._run(args, kwargs)[0],
            miss,
            cache_key=object(),
            name=info.name,
        )
        if info.donate_argnums or info.donate_argnames:
            statics = self._entry.statics
            total = len(self.in_tree.children()[0].children()) + len(statics)
            places = [i % total for i in info.donate_argnums if -total <= i < total]
            donated = tuple(i - sum(s < i for s in statics) for i in places)
            return Guarded(function, info.name, donated, info.donate_argnames)
        return function

    def _run(self, args: tuple, kwargs: dict) -> tuple:
        """Return (result, fast-path data, False), as the compiled dispatch asks on a cache miss."""
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise TypeError(self._structure_error(args, kwargs, tree))
        refs = [*self._entry.consts, *leaves]
        leaves = [value_of(x) for x in refs]
        any_refs = any(x is not ref for x, ref in zip(leaves, refs, strict=True))
        self._check(leaves)
        if LAYOUTS.in_use:
            self._check_layouts(leaves)
        consts = self._program.consts
        outs = execute(self._executable, consts, leaves, self._traced._entry.closed)
        n = self.out_tree.num_leaves
        put_back(refs, self._traced._written, outs[n:])
        result = self.out_tree.unflatten(outs[:n])
        fast = None
        if not (is_debugging() or any_refs or any(map(array_method, leaves))):
            fast = fastpath(self._executable, result, leaves, consts)
        return result, fast, False

    def _structure_error(self, args: tuple, kwargs: dict, tree: PyTreeDef) -> str:
        """Describe how the arguments of a call differ from those that were lowered."""
        info = self._traced._info
        text = (
            f"{info.name} was compiled for arguments of structure {self.in_tree}, called with "
            f"{tree}"
        )
        takes, statics = len(self.in_tree.children()[0].children()), self._entry.statics
        remedy = "part of the compiled program: leave it out of the call"
        if named := [n for n in info.static_argnames if n in kwargs]:
            return f"{text}. The static argument {named[0]!r} is {remedy}"
        if statics and len(args) == takes + len(statics):
            return f"{text}. The static argument at position {statics[0]} is {remedy}"
        if len(args) != takes:
            text += f". It takes {takes} by position, as the call that was lowered"
        return text

    def _check(self, leaves: list) -> None:
        expected = self._entry.closed.in_avals
        name = self._traced.fun_name
        for i, (x, want, asked) in enumerate(
            zip(leaves, expected, self._flat_shardings, strict=True)
        ):
            if isinstance(x, Tracer):
                raise TypeError(
                    f"{name} is compiled and cannot be transformed: argument {self._arg_name(i)} "
                    "is a traced value. Call the jitted function under transformations"
                )
            got = typeof(x)
            if (got.shape, got.dtype) != (want.shape, want.dtype):
                raise TypeError(
                    f"{name} was compiled for argument {self._arg_name(i)} of type "
                    f"{want.str_short()}, called with {got.str_short()}"
                )
            have = committed_sharding(x)
            if misplaced(got, asked, have):
                api, text = f"argument {self._arg_name(i)}", f"it was compiled for {asked!r}"
                raise misplaced_error(name, api, got, text, have)

    def _check_layouts(self, leaves: list) -> None:
        for i, (x, want) in enumerate(zip(leaves, self._flat_layouts[0], strict=True)):
            have = held(x)
            if have is not None and want is not None and not fits(want, have):
                raise ValueError(
                    f"{self._traced.fun_name} was compiled for argument {self._arg_name(i)} with "
                    f"{want!r}, called with {have!r}; move it with weft.device_put(x, format), "
                    "where compiled.input_formats has the formats"
                )

    def _arg_name(self, i: int) -> str:
        return self._traced._arg_names()[i]
