"""Localization: from explicit collectives on global shapes to the program of one device.

The module is rewritten in place, operation by operation, in program order. For every value of the
global program the pass keeps a `LocalValue`: the local SSA value, its layout, and whether it is
still a partial result. The rule of an operation (`localize_rules/`, a table of small functions)
reads its operands' local values and returns those of its results. Most rules only change result
types in place.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import weft.partition.reshard as reshard
from weft._xla import passes, sdy
from weft._xla.mlir import ir
from weft.partition.axis_layout import Atoms, AxisLayout, DeviceMesh, Unsupported
from weft.partition.emit import Emitter
from weft.partition.explain import nearest_location, op_text
from weft.partition.local_value import LocalValue
from weft.partition.ops import facts, linear_operands
from weft.partition.passes.carry_linearity import KEPT
from weft.partition.validate import only_mesh
from weft.partition.walk import (
    SHARDINGS,
    WHY,
    boundary,
    forget,
    make_local,
    ops_in,
    run_as_replicas,
)

Rule = Callable[["Localizer", ir.Operation], "Sequence[LocalValue] | None"]
RULES: dict[str, Rule] = {}
# Places in RULES for operations without a function: with factors by Shardy's registry, and without.
FACTORED, WHOLE = "factored", "whole"
_R = TypeVar("_R", bound=Rule)


def rule(*names: str) -> Callable[[_R], _R]:
    """Register the localization rule of the named operations."""

    def register(function: _R) -> _R:
        for name in names:
            RULES[name] = function
        return function

    return register


@dataclass(slots=True)
class Localized:
    """The result of `localize`: the mesh, and the layouts of the main function's boundary.

    diverges: whether devices may take some branches or loops differently.
    """

    mesh: DeviceMesh
    arguments: list[AxisLayout]
    results: list[AxisLayout]
    diverges: bool


def localize(module: ir.Module, *, explain: bool = False, whole: bool = False) -> Localized:
    """Rewrite a module with explicit sdy collectives into per-device StableHLO, in place.

    Args:
      module: the output of `propagate.make_explicit`: every value has its sharding, and
        disagreements between producer and consumer are sdy collectives.
      explain: note on every collective of the result why it exists.
      whole: gather the arguments, and let every device run all operations as they are.

    The result has local shapes, stablehlo collectives, and nothing of sdy.

    Returns:
      The mesh and the layouts of the main function's arguments and results.

    Raises:
      Unsupported: an operation or a sharding outside what the rules cover.

    >>> import weft
    >>> from weft.partition.propagate import make_explicit, propagate
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> rows = weft.NamedSharding(mesh, weft.P("x"))
    >>> x = weft.ShapeDtypeStruct((8, 4), "float32", sharding=rows)
    >>> module = weft.jit(lambda x: x.sum(0)).lower(x).compiler_ir()
    >>> localize(make_explicit(propagate(module))).arguments
    [AxisLayout(8{'x'}, 4)]
    >>> "tensor<2x4xf32>" in str(module)
    True
    """
    import weft.partition.localize_rules.table  # noqa: F401  fills RULES

    with module.context, ir.Location.unknown(module.context):
        mesh = read_mesh(module)
        if not whole:
            passes.run(module, "func.func(sdy-populate-op-sharding-rules)")
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        boundary: tuple[list[AxisLayout], list[AxisLayout]] = ([], [])
        diverges = False
        for function in functions:
            localizer = Localizer(mesh, function.operation)
            localizer.explain, localizer.whole = explain, whole
            arguments, results = localizer.run()
            diverges |= localizer.diverges
            if ir.StringAttr(function.attributes["sym_name"]).value == "main":
                boundary = arguments, results
        passes.run(module, "func.func(sdy-drop-sharding-rules)")  # of combiners
        run_as_replicas(module, mesh.size)
    return Localized(mesh, *boundary, diverges)


def read_mesh(module: ir.Module) -> DeviceMesh:
    """Return the module's mesh, cut where its shardings cut it."""
    axes, ids = only_mesh(module)
    cuts = _axis_cuts(module, axes)
    return _mesh(tuple(axes.items()), tuple(ids), tuple((a, frozenset(c)) for a, c in cuts.items()))


@functools.lru_cache(maxsize=16)
def _mesh(axes: tuple, ids: tuple[int, ...], cuts: tuple) -> DeviceMesh:
    """Return one object for equal meshes, so that programs share the routes that were found."""
    return DeviceMesh(dict(axes), ids, dict(cuts))


def _axis_cuts(module: ir.Module, axes: dict[str, int]) -> dict[str, set[int]]:
    """Return where the module's shardings cut axes: `"x":(2)4` cuts at 2 and 8."""
    text = module.operation.get_asm(large_elements_limit=1, use_local_scope=False)
    cuts: dict[str, set[int]] = {}
    for name, pre, size in set(re.findall(r'"([^"]+)":\((\d+)\)(\d+)', text)):
        if name in axes:
            cuts.setdefault(name, set()).update((int(pre), int(pre) * int(size)))
    return cuts


class Localizer:
    """Walks one function; holds the map from global values to local ones."""

    def __init__(self, mesh: DeviceMesh, function: ir.Operation):
        self.mesh = mesh
        self.function = function
        self.e = Emitter(mesh, function.regions[0].blocks[0])
        self.values: dict[ir.Value, LocalValue] = {}
        self.shared: set[ir.Value] = set()  # values with several uses in the global program
        self.trips: dict[ir.Operation, int] = {}  # of loops, as far as they were asked for
        self.dead: list[ir.Operation] = []
        self.explain = self.whole = False
        self.diverges = False
        self.returns: list[Sequence[AxisLayout]] = []
        self.manual: list[frozenset[int]] = [frozenset()]
        self._layouts: dict[tuple[ir.Attribute | None, tuple[int, ...]], AxisLayout] = {}
        self._resolved: dict[ir.Value, LocalValue] = {}

    # -- what rules use ------------------------------------------------------------------------

    def local(self, value: ir.Value) -> LocalValue:
        """Return the LocalValue of a global value, possibly partial."""
        return self.values[value]

    def complete(self, value: ir.Value) -> LocalValue:
        """Return the LocalValue of a global value, reduced if it was still partial."""
        x = self.values[value]
        if x.partial is None:
            return x
        done = self._resolved.get(value)
        if done is None:
            atoms, kind = x.partial
            reduced = self.e.all_reduce(x.value, atoms, kind)
            done = self._resolved[value] = LocalValue(reduced, x.layout)
        return done

    def operand(self, op: ir.Operation, index: int) -> LocalValue:
        return self.complete(op.operands[index])

    def operands(self, op: ir.Operation) -> list[LocalValue]:
        return [self.complete(v) for v in op.operands]

    def at(self, x: LocalValue, layout: AxisLayout) -> ir.Value:
        """Return the value moved to `layout`."""
        return self.move(x, layout).value

    def move(self, x: LocalValue, layout: AxisLayout) -> LocalValue:
        return reshard.relayout(self.e, x, layout)

    def layouts(self, op: ir.Operation) -> list[AxisLayout]:
        """Return the layouts that propagation gave the op's results."""
        types = [r.type for r in op.results]
        if "sdy.sharding" not in op.attributes:
            return [self.layout(None, _shape(t)) for t in types]
        shardings = sdy.per_value(op.attributes["sdy.sharding"])
        return [self.layout(s, _shape(t)) for s, t in zip(shardings, types, strict=True)]

    def layout(self, sharding: ir.Attribute | None, shape: Sequence[int]) -> AxisLayout:
        """Return the layout of a sharding for a global shape, without enclosing manual axes."""
        shape = tuple(shape)
        key = (sharding, shape)
        cached = self._layouts.get(key)
        if cached is None:
            dims = self.sharding_dims(sharding) if sharding is not None else ()
            dims = dims or ((),) * len(shape)
            cached = self._layouts[key] = AxisLayout(self.mesh, shape, dims)
        return cached.free_of(self.manual[-1]) if self.manual[-1] & cached.used else cached

    def sharding_dims(self, sharding: ir.Attribute) -> tuple[Atoms, ...]:
        """Per-dimension atoms of a TensorShardingAttr."""
        return tuple(self.atoms(axes) for axes in sdy.dims_of(sharding))

    def atoms(self, axes: Sequence[sdy.AxisRef]) -> Atoms:
        """Return the atoms of a list of axes."""
        return tuple(i for ref in axes for i in self.mesh.atoms_of(*ref))

    def unsupported(self, op: ir.Operation, reason: str) -> Unsupported:
        return Unsupported(op.name, str(op.location), reason)

    def keep(
        self, op: ir.Operation, operands: Sequence[ir.Value], layouts: Sequence[AxisLayout]
    ) -> list[LocalValue]:
        """Turn `op` itself into the local operation: new operands, local result types.

        From here on the rule emits behind it.
        """
        for i, value in enumerate(operands):
            op.operands[i] = value
        out = []
        for result, layout in zip(op.results, layouts, strict=True):
            if _ranked(result.type) and layout.local != layout.shape:
                element = result.type.element_type
                result.set_type(self.e.type(layout.local, element))
            out.append(LocalValue(result, layout))
        forget(op, *SHARDINGS, "sdy.sharding_rule")
        self.e.ip = ir.InsertionPoint.after(op)
        return out

    def keep_and_move(
        self,
        op: ir.Operation,
        operands: Sequence[ir.Value],
        layouts: Sequence[AxisLayout],
        targets: Sequence[AxisLayout],
    ) -> list[LocalValue]:
        """Return the local operation's results, moved from their layouts to others."""
        got = self.keep(op, operands, layouts)
        return [self.move(x, target) for x, target in zip(got, targets, strict=True)]

    def target(self, op: ir.Operation) -> AxisLayout:
        """Return the layout that one of Shardy's collectives asks for."""
        return self.layout(sdy.target_of(op), op.results[0].type.shape)

    def replace(self, op: ir.Operation, *results: LocalValue) -> list[LocalValue]:
        """Drop `op` in favour of other local values."""
        self.dead.append(op)
        return list(results)

    # -- the walk --------------------------------------------------------------------------------

    def run(self) -> tuple[list[AxisLayout], list[AxisLayout]]:
        """Localize the function; return the layouts of its arguments and results."""
        function = self.function
        block = function.regions[0].blocks[0]
        arguments = self._boundary("arg", len(block.arguments))
        layouts = []
        for argument, sharding in zip(block.arguments, arguments, strict=True):
            layout = self.layout(sharding, _shape(argument.type))
            self.bind_argument(argument, layout)
            layouts.append(layout)
            unreduced = self.unreduced(sharding)
            if unreduced:
                self.values[argument].partial = (unreduced, "add")
        types = _function_type(function).results
        results = self._boundary("res", len(types))
        outputs = [self.layout(s, _shape(t)) for s, t in zip(results, types, strict=True)]
        self.result_unreduced = [self.unreduced(s) for s in results]
        self.walk(block, outputs)
        # What was in a manual region may use its block arguments: regions go last, inner first.
        regions = [op for op in self.dead if op.name == "sdy.manual_computation"]
        others = [op for op in self.dead if op.name != "sdy.manual_computation"]
        for op in (*reversed(others), *regions):
            for result in op.results:
                self._settle_captures(result)
            op.erase()
        self.e.anchor.erase()
        local = [
            self.e.type(o.local, t.element_type) if _ranked(t) else t
            for o, t in zip(outputs, types, strict=True)
        ]
        make_local(function, [a.type for a in block.arguments], local)
        return layouts, outputs

    def _settle_captures(self, result: ir.Value) -> None:
        """Refuse uses left over: scalars captured by combiners, which HLO cannot express."""
        for use in list(result.uses):
            user, number = use.owner.operation, use.operand_number
            source = self.values[result].value
            maker = source.owner
            if not isinstance(maker, ir.Block) and maker.name == "stablehlo.constant":
                source = maker.clone(ip=ir.InsertionPoint.at_block_begin(user.block)).results[0]
            user.operands[number] = source

    def unreduced(self, sharding: ir.Attribute | None) -> Atoms:
        """Return the atoms along which a sharding says its value is a partial sum."""
        return () if sharding is None else self.atoms(sdy.unreduced_of(sharding))

    def bind_argument(self, argument: ir.Value, layout: AxisLayout) -> None:
        if _ranked(argument.type):
            argument.set_type(self.e.type(layout.local, argument.type.element_type))
        self.values[argument] = LocalValue(argument, layout)

    def walk(self, block: ir.Block, returns: Sequence[AxisLayout]) -> None:
        """Localize a block whose terminator must deliver `returns`."""
        self.returns.append(returns)
        self.e.scopes.append({})
        self._count_uses(block.arguments)
        e = self.e
        ops = ops_in(block)
        if self.whole:
            self._gather_arguments(ops[0])
            ops = ops[-1:]
            for value in ops[0].operands:
                whole = LocalValue(value, self.layout(None, _shape(value.type)))
                self.values.setdefault(value, whole)
        for op in ops:
            name = op.name
            apply = RULES.get(name)
            if apply is None:
                has_rule = "sdy.sharding_rule" in op.attributes
                if not has_rule and not facts(op).pure:
                    raise self.unsupported(op, "no localization rule")
                apply = RULES[FACTORED if has_rule else WHOLE]
            self._count_uses(op.results)
            e.ip, e.loc = ir.InsertionPoint(op), op.location
            if self.explain:
                if name.startswith("sdy.") and op.operands and op.results:
                    e.loc = nearest_location(op)
                e.why = self._why(op)
            try:
                got = self._pass_partial(op, apply)
            except Unsupported:
                raise
            except Exception as error:  # a rule that does not foresee this operation
                reason = f"its rule failed with {type(error).__name__}: {error}"
                raise self.unsupported(op, reason) from error
            if got is None:
                continue
            for result, x in zip(op.results, got, strict=True):
                self.values[result] = x
        self.e.scopes.pop()
        self.returns.pop()

    def _gather_arguments(self, first: ir.Operation) -> None:
        """Gather the arguments in front of the first operation; all others read them whole."""
        e = self.e
        e.ip = ir.InsertionPoint(first)
        e.why = "every device computes all of this small program" if self.explain else ""
        for argument in self.function.regions[0].blocks[0].arguments:
            x, uses = self.values[argument], list(argument.uses)
            if uses:
                e.loc = uses[0].owner.operation.location
                whole = self.move(x, x.layout.whole)
                self.values[whole.value] = whole
                for use in uses:
                    use.owner.operation.operands[use.operand_number] = whole.value

    def _count_uses(self, values: Iterable[ir.Value]) -> None:
        """Note shared values before their users are rewritten."""
        self.shared.update(v for v in values if len(list(itertools.islice(v.uses, 2))) > 1)

    def _pass_partial(self, op: ir.Operation, apply: Callable) -> list[LocalValue] | None:
        """Return the rule's results, as partial sums where linear in an operand that is one."""
        partial = self._passing(op)
        if partial is None:
            return apply(self, op)
        partial_operands = {v: self.values[v] for v in op.operands if self.values[v].partial}
        for v, x in partial_operands.items():
            self.values[v] = LocalValue(x.value, x.layout)
        try:
            [got] = apply(self, op)
        finally:
            self.values.update(partial_operands)
        more = got.partial[0] if got.partial else ()
        return [LocalValue(got.value, got.layout, (partial[0] + more, "add"))]

    def _passing(self, op: ir.Operation) -> tuple[Atoms, str] | None:
        linear = linear_operands(op)
        if not linear or "sdy.sharding" not in op.attributes:
            return None
        wanted = self.unreduced(sdy.per_value(op.attributes["sdy.sharding"])[0])
        if not wanted:
            return None
        partial = [i for i, v in enumerate(op.operands) if self.values[v].partial]
        sums = {x for v in op.operands if (x := self.values[v].partial)}
        if len(sums) != 1:
            return None
        atoms, kind = next(iter(sums))
        passes = len(partial) == 1 if facts(op).bilinear else tuple(partial) == linear
        fits = passes and kind == "add" and set(atoms) == set(wanted)
        return (atoms, kind) if fits else None

    def keep_on_first(self, x: LocalValue, layout: AxisLayout, atoms: Atoms) -> LocalValue:
        """Make a whole value a partial sum: each group's first device has it, others zero."""
        value = self.at(x, layout)
        e = self.e
        first = e.compare(e.coordinate(atoms), e.const(0), "EQ")
        zero = e.splat(0, layout.local, value.type.element_type)
        value = e.select(e.broadcast(first, layout.local), value, zero)
        value.owner.attributes[KEPT] = e.groups(atoms)
        return LocalValue(value, layout, (atoms, "add"))

    def as_sum(self, x: LocalValue, layout: AxisLayout, atoms: Atoms) -> LocalValue:
        """Turn a value into a partial sum over exactly these atoms."""
        due, kind = x.partial or ((), "add")
        ending = tuple(i for i in due if kind != "add" or i not in atoms)
        value = self.e.all_reduce(x.value, ending, kind) if ending else x.value
        kept = tuple(i for i in atoms if i not in due or i in ending)
        x = LocalValue(value, x.layout)
        x = self.keep_on_first(x, layout, kept) if kept else self.move(x, layout)
        return LocalValue(x.value, layout, (tuple(atoms), "add") if atoms else None)

    def _why(self, op: ir.Operation) -> str:
        """Return the reason `explain` wrote on the op, or what the op's own rule does."""
        if WHY in op.attributes:
            why = op.attributes[WHY].value
            del op.attributes[WHY]
            return why
        return f"{op_text(op)} needs elements that other devices hold"

    def _boundary(self, which: str, count: int) -> list[ir.Attribute | None]:
        """Return shardings on the function's arguments or results."""
        rows = boundary(self.function, which) or [{}] * count
        return [row.get("sdy.sharding") for row in rows]


def _shape(type: ir.Type) -> tuple[int, ...]:
    return tuple(type.shape) if _ranked(type) else ()


def _ranked(type: ir.Type) -> bool:
    return isinstance(type, ir.RankedTensorType)


def _function_type(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
