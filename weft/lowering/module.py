"""Lowering a jaxpr to a StableHLO module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.errors import MissingRuleError
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from weft.core.source import Source
from weft.core.trace import gc_paused, typeof
from weft.lowering.context import (
    MARK,
    RuleContext,
    bool_attr,
    dense_attr,
    int_attr,
    ir_type,
    parse_attr,
    string_attr,
)
from weft.lowering.limits import UNEVEN
from weft.lowering.manual import marked_sources
from weft.lowering.sharding import annotate, parts_of_sums, physical_rank, sharding_text
from weft.sharding.common_mesh import in_terms_of
from weft.sharding.text import mesh_sdy_text, mhlo_sharding_text, sdy_sharding_text

if TYPE_CHECKING:
    from weft.collectives.async_ import InFlight
    from weft.collectives.permute import Sent
    from weft.core.aval import ShapedArray
    from weft.core.jaxpr import Eqn
    from weft.core.primitive import Primitive
    from weft.runtime.backend import Device
    from weft.sharding.mesh import AbstractMesh, Mesh
    from weft.sharding.named import NamedSharding

_create = ir.Operation.create


class FunctionContext:
    """A function under construction.

    tokens: of the ordered effects, at the current point. splats: constants of the block that is
    being filled, to be used again in it. loc: of all its operations, where they make up one op of
    the user's; None says where each was called.
    """

    __slots__ = ("loc", "splats", "tokens")

    def __init__(self, loc: ir.Location | None = None) -> None:
        self.loc = loc
        self.tokens: dict[Any, ir.Value] = {}
        self.splats: dict[tuple, ir.Value] = {}


class ModuleContext:
    """A module under construction.

    platforms: what it is lowered for. mesh: the mesh shardings refer to, or None. device: one of
    those it is lowered for, where they are known.
    host_callbacks: the Python functions that callback custom calls refer to by number.
    keepalives: other Python objects the executable must keep alive.
    """

    def __init__(
        self,
        name: str,
        *,
        num_partitions: int = 1,
        platforms: Sequence[str] = ("cpu",),
        mesh: AbstractMesh | Mesh | None = None,
        device: Device | None = None,
        use_shardy: bool = True,
    ) -> None:
        self.module = ir.Module.create(loc=mlir.unknown_location())
        self.platforms = tuple(platforms)
        self.mesh = mesh
        self.device = device
        self.for_xla = False  # whether XLA's partitioner gets the module
        self.whole_sums = False  # whether partial sums are added up where they are made
        self.compiler_options: tuple = ()  # of the program, as pairs
        self.use_shardy = use_shardy
        self.num_partitions = num_partitions
        self.host_callbacks: list[Any] = []
        self.keepalives: list[Any] = []
        self.inspections: list[Any] = []  # (callback, source) of `inspect_array_sharding`
        self.partitioned_calls: list[Any] = []  # see weft/driver/partitioned_calls.py
        self.manual_axes: frozenset = frozenset()  # inside a shard_map body
        self.untracked_axes: frozenset = frozenset()  # those of check_vma=False
        self.diverging: frozenset = frozenset()  # those along which devices may not come here
        self.parts_diverge = False  # whether that happens where axes are left to a partitioner
        self._body = self.module.body
        self._symbols: dict[str, int] = {}
        self._functions: dict[Any, tuple] = {}
        self.reductions: dict[tuple, ir.Operation] = {}  # for `RuleContext.reduce`
        self._locations: dict[tuple, ir.Location] = {}
        self._inlined: dict[tuple, ClosedJaxpr] = {}  # for `lower_parts`
        self._channel = 0
        self.has_marks = False  # whether operations are marked for weft/native
        self.has_metadata = False  # whether names of operations hold metadata for XLA
        operation = self.module.operation
        operation.attributes["sym_name"] = string_attr(f"jit_{_symbol(name)}")
        operation.attributes["mhlo.num_partitions"] = int_attr(num_partitions, 32)
        operation.attributes["mhlo.num_replicas"] = int_attr(1, 32)
        if mesh is not None and use_shardy:
            self.declare_mesh(mesh)

    # Names ------------------------------------------------------------------------------------

    def declare_mesh(self, mesh: AbstractMesh | Mesh) -> None:
        attrs = {
            "sym_name": string_attr("mesh"),
            "mesh": parse_attr(f"#sdy.mesh{mesh_sdy_text(mesh)}"),
        }
        with ir.InsertionPoint.at_block_begin(self._body):
            _create("sdy.mesh", [], [], attrs, None, 0, mlir.unknown_location())

    def symbol(self, name: str) -> str:
        """Return a name no other function of the module has."""
        unique = name = _symbol(name)
        count = self._symbols.get(name, 0)
        while unique in self._symbols:  # where a function is itself called f_1, too
            unique = f"{name}_{count}"
            count += 1
        self._symbols[unique] = 1
        self._symbols[name] = max(count, 1)
        return unique

    def next_channel(self) -> int:
        """Return a channel id, distinct for every collective of the module."""
        self._channel += 1
        return self._channel

    def location(self, source: Source, name: str) -> ir.Location:
        key = (id(source.code), source.lasti, name, source.scopes)
        loc = self._locations.get(key)
        if loc is None:
            path = "/".join((*source.scopes, name))
            self.has_metadata = self.has_metadata or "xla_metadata" in path
            if source.code is None:
                loc = ir.Location.name(path, mlir.unknown_location(), mlir.context())
            else:
                line, column = source.position()
                loc = mlir.file_location(source.file, line, column, path)
            self._locations[key] = loc
        return loc

    def localize_sharding(self, sharding: NamedSharding) -> Any:
        """Return the sharding over the module's mesh, without axes that are manual here."""
        if self.mesh is not None and sharding.mesh is not self.mesh:
            sharding = in_terms_of(sharding, self.mesh)
        if self.manual_axes and hasattr(sharding.spec, "without"):
            sharding = sharding.with_spec(sharding.spec.without(self.manual_axes))
        if self.whole_sums and sharding.spec.unreduced:
            sharding = sharding.with_spec(sharding.spec.update(unreduced=()))
        return sharding

    # Bodies -----------------------------------------------------------------------------------

    def lower_body(
        self,
        function: FunctionContext,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        operands: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Emit the equations of a jaxpr at the insertion point."""
        env: dict[Any, ir.Value] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            env[var] = const if isinstance(const, ir.Value) else self.constant(const)
        typed = self.mesh is not None and self.num_partitions > 1
        # Constants belong to their block: an outer one's are not used here, nor these out there.
        outer, function.splats = function.splats, {}
        locations, of_all = self._locations, function.loc
        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            # A location is made once for each line and op, as making one costs as much as an op.
            if of_all is None:
                source = eqn.source
                loc = locations.get((id(source.code), source.lasti, prim.name, source.scopes))
                if loc is None:
                    loc = self.location(source, prim.name)
            else:
                loc = of_all
            # One StableHLO op of equal types needs no context for its rule.
            if prim.hlo is not None and not typed and _is_plain(eqn):
                operands = [env[v] for v in eqn.invars]
                var = eqn.outvars[0]
                created = _create(prim.hlo, [ir_type(var.aval)], operands, None, None, 0, loc)
                env[var] = created.result
                continue
            if prim.lower is None:
                raise MissingRuleError(
                    f"{prim.name} ({source}) has no lowering: it is meant for tracing only"
                )
            ctx = RuleContext(self, function, eqn, loc)
            ins = [self._literal(ctx, v) if v.__class__ is Literal else env[v] for v in eqn.invars]
            if typed and prim.mixes:
                ins = parts_of_sums(ctx, ins)
            out = prim.lower(ctx, *ins, **eqn.rule_params)
            if typed:
                out = self._annotate(ctx, prim, out)
            if prim.multiple_results:
                for v, o in zip(eqn.outvars, out, strict=True):
                    env[v] = o
            else:
                env[eqn.outvars[0]] = out
        function.splats = outer
        return [
            self.constant(_literal_value(v)) if v.__class__ is Literal else env[v]
            for v in jaxpr.outvars
        ]

    def _annotate(self, ctx: RuleContext, prim: Primitive, out: list | ir.Value) -> Any:
        """Return the results of an equation with the explicit shardings of their types."""

        def one(x: ir.Value, aval: InFlight | Sent | ShapedArray) -> Any:
            return x if getattr(aval, "sharding", None) is None else annotate(ctx, x, aval)

        if not prim.multiple_results:
            return one(out, ctx.avals_out[0])
        return [one(x, a) for x, a in zip(out, ctx.avals_out, strict=True)]

    def _literal(self, ctx: RuleContext, atom: Literal) -> Any:
        # Elementwise ops make whole constants of literals; a scalar here would be dead.
        # A reshape is as simple an op, but takes the scalar.
        hlo = ctx.eqn.primitive.hlo
        if hlo is not None and hlo != "stablehlo.reshape" and ctx.avals_out[0].shape:
            return None
        return ctx.splat(atom.val, (), atom.aval.dtype)

    def constant(self, value: Any) -> ir.Value:
        """Return a constant from any array value."""
        aval = typeof(value)
        if dtypes.is_extended(aval.dtype):
            value = value._base
            aval = typeof(value)
        host = np.asarray(value).astype(aval.dtype, copy=False)
        if aval.dtype == dtypes.float0:
            host = np.zeros(aval.shape, np.bool_)
        type_ = mlir.tensor_type(host.shape, host.dtype)
        return _create(
            "stablehlo.constant",
            [type_],
            [],
            {"value": dense_attr(host)},
            None,
            0,
            mlir.unknown_location(),
        ).results[0]

    # Functions --------------------------------------------------------------------------------

    def lower_call(
        self, ctx: RuleContext, jaxpr: ClosedJaxpr, operands: Sequence[ir.Value], name: str
    ) -> list[ir.Value]:
        effects = ordered_effects(jaxpr)
        loc = ctx.function.loc
        where = (self.manual_axes, self.untracked_axes, self.diverging)
        key = (id(jaxpr), where, tuple(effects), loc)
        entry = self._functions.get(key)
        if entry is None:
            symbol = self.symbol(name)
            self.emit_function(symbol, jaxpr, effects=effects, loc=loc)
            entry = self._functions[key] = (symbol, jaxpr)
        tokens = [ctx.function.tokens[e] for e in effects]
        types = [t.type for t in tokens] + [ir_type(a) for a in jaxpr.out_avals]
        attrs = {"callee": ir.FlatSymbolRefAttr.get(entry[0], mlir.context())}
        outs = list(ctx.op("func.call", [*tokens, *operands], types, attrs))
        for e in effects:
            ctx.function.tokens[e] = outs.pop(0)
        return outs

    def lower_parts(
        self, ctx: RuleContext, jaxpr: ClosedJaxpr, operands: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Emit the jaxpr that makes up one equation.

        From the second equation at the same place on, as in a loop over layers, calls one function
        of all, where that is shorter. Programs over several devices have each inline, to be placed
        on its own.
        """
        function = ctx.function
        outer, function.loc = function.loc, ctx.loc
        key = id(jaxpr), ctx.loc
        if self.mesh is None and len(jaxpr.eqns) > 2 and key in self._inlined:
            outs = self.lower_call(ctx, jaxpr, operands, ctx.eqn.primitive.name)
        else:
            self._inlined[key] = jaxpr
            outs = self.lower_body(function, jaxpr.jaxpr, jaxpr.consts, operands)
        function.loc = outer
        return outs

    def emit_function(
        self,
        symbol: str,
        jaxpr: ClosedJaxpr,
        *,
        public: bool = False,
        arg_attrs: Sequence[dict] | None = None,
        result_attrs: Sequence[dict] | None = None,
        effects: Sequence[Any] = (),
        arg_names: Sequence[str] = (),
        loc: ir.Location | None = None,
    ) -> None:
        """Add a function computing the jaxpr to the module, with tokens in front.

        arg_names: of the jaxpr's arguments, which their locations then show. loc: of everything in
        it (see `FunctionContext`).
        """
        # Parsing a dialect's type loads its Python wrappers (20 ms), so only where there is one.
        token = ir.Type.parse("!stablehlo.token", mlir.context()) if effects else None
        threaded = [] if public else list(effects)  # an entry point starts its own order
        in_types = [token] * len(threaded) + [ir_type(a) for a in jaxpr.in_avals]
        out_types = [token] * len(threaded) + [ir_type(a) for a in jaxpr.out_avals]
        of_all, loc = loc, loc or mlir.unknown_location()
        attrs: dict[str, ir.Attribute] = {
            "sym_name": string_attr(symbol),
            "function_type": ir.TypeAttr.get(
                ir.FunctionType.get(in_types, out_types, mlir.context())
            ),
            "sym_visibility": string_attr("public" if public else "private"),
        }
        if arg_attrs is not None:
            attrs["arg_attrs"] = _dict_array([{}] * len(threaded) + list(arg_attrs))
        if result_attrs is not None:
            attrs["res_attrs"] = _dict_array([{}] * len(threaded) + list(result_attrs))
        with ir.InsertionPoint(self._body):
            func = _create("func.func", [], [], attrs, None, 1, loc)
        locs = [loc] * len(in_types)
        if arg_names:
            locs = [ir.Location.name(n, loc, mlir.context()) for n in arg_names]
            locs = [loc] * len(threaded) + locs
        # Ordered effects take a token in and give one back, in front of all others.
        block = func.regions[0].blocks.append(*in_types, arg_locs=locs)
        function = FunctionContext(of_all)
        arguments = list(block.arguments)
        for e in threaded:
            function.tokens[e] = arguments.pop(0)
        with ir.InsertionPoint(block):
            for e in effects:
                if e not in function.tokens:
                    create = _create("stablehlo.create_token", [token], [], None, None, 0, loc)
                    function.tokens[e] = create.results[0]
            with self._marked():
                outs = self.lower_body(function, jaxpr.jaxpr, jaxpr.consts, arguments)
            outs = [function.tokens[e] for e in threaded] + list(outs)
            end = _create("func.return", [], outs, None, None, 0, loc)
        # Vectors whose length the threads do not divide: see native/uneven.
        if public and self.platforms == ("cpu",) and self.num_partitions == 1:
            for aval in jaxpr.out_avals:
                if getattr(aval, "ndim", 0) == 1 and aval.size >= UNEVEN and aval.size % 16:
                    end.attributes[MARK] = string_attr("uneven 0")
                    self.has_marks = True

    @contextmanager
    def decided_by(self, aval: ShapedArray) -> Iterator[None]:
        """Emit operations that devices may skip, as each device's value of this type decides."""
        before = self.diverging
        if self.mesh is not None and self.manual_axes:
            axes = self.untracked_axes | aval.mat.varying
            sizes = self.mesh.shape
            self.diverging = before | {n for n in axes if n in sizes and sizes[n] > 1}
            free = any(n > 1 and name not in self.manual_axes for name, n in sizes.items())
            self.parts_diverge |= free and bool(self.diverging)
        try:
            yield
        finally:
            self.diverging = before

    def _marked(self) -> AbstractContextManager:
        """Return the context of a function's body, marked if a GSPMD region calls it."""
        if self.use_shardy or not self.manual_axes:
            return nullcontext()
        return marked_sources(self)


def _is_plain(eqn: Eqn) -> bool:
    """Tell whether an equation of a primitive with `hlo` is that op on its operands as they are."""
    invars = eqn.invars
    if len(invars) == 1:
        if invars[0].__class__ is Literal or "accuracy" in eqn.rule_params:
            return False
        return eqn.outvars[0].aval.dtype.kind != "c"  # whose special values XLA has wrong
    aval = eqn.outvars[0].aval
    dtype = aval.dtype
    if dtype is dtypes.bool_:  # whose sums have their own lowering
        return False
    if eqn.primitive.name in ("div", "rem") and dtypes.is_integer(dtype):  # as have quotients
        return False
    shape = aval.shape
    for v in invars:  # noqa: SIM110  (`all` would take three times as long)
        if v.__class__ is Literal or v.aval.shape != shape:
            return False
    return True


def _literal_value(atom: Literal) -> np.ndarray:
    return np.asarray(atom.val).astype(atom.aval.dtype)


def _dict_array(dicts: Sequence[dict]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.DictAttr.get(d, mlir.context()) for d in dicts], mlir.context())


def _symbol(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name) or "fn"


def ordered_effects(jaxpr: ClosedJaxpr) -> list:
    """Return the ordered effects of a jaxpr, in a fixed order."""
    return sorted((e for e in jaxpr.effects if e.ordered), key=lambda e: e.name)


def lower_module(
    jaxpr: ClosedJaxpr,
    name: str,
    *,
    num_partitions: int = 1,
    platforms: Sequence[str] = ("cpu",),
    mesh: AbstractMesh | Mesh | None = None,
    device: Device | None = None,
    in_shardings: Sequence[Any] | None = None,
    out_shardings: Sequence[Any] | None = None,
    donated: Sequence[bool] | None = None,
    aliases: dict[int, int] | None = None,
    arg_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    use_shardy: bool = True,
    for_xla: bool = False,
    whole_sums: bool = False,
    compiler_options: tuple = (),
) -> ModuleContext:
    """Return the module of a whole program, with `@main` its entry.

    in_shardings and out_shardings: per flat argument and result a NamedSharding, or None where
    propagation decides. aliases: argument -> result that reuses its donated buffer. arg_names,
    result_names: for locations and `jax.result_info`; a result's name is its path, `['loss']`.
    for_xla: XLA's partitioner gets the module: what it would have wrong is lowered otherwise.
    whole_sums: partial sums inside are added up where they are made, whatever their types say.
    compiler_options: as pairs, those that calls inside may ask for.
    """
    with gc_paused(), mlir.context(), mlir.unknown_location():
        ctx = ModuleContext(
            name,
            num_partitions=num_partitions,
            platforms=platforms,
            mesh=mesh,
            device=device,
            use_shardy=use_shardy,
        )
        ctx.symbol("main")

        def attrs_of(aval: ShapedArray, sharding: NamedSharding | None) -> dict:
            """Return a sharding that is asked for goes before that of the value's type."""
            attrs: dict[str, ir.Attribute] = {}
            memory = getattr(sharding, "other_memory", None)
            if memory is not None:
                attrs["mhlo.memory_kind"] = string_attr(memory)
            typed = getattr(aval, "sharding", None) if sharding is None and use_shardy else None
            if mesh is None:
                return attrs
            if typed is not None:
                attrs["sdy.sharding"] = parse_attr(sharding_text(ctx, typed, physical_rank(aval)))
            elif sharding is not None and hasattr(sharding, "spec") and use_shardy:
                attrs["sdy.sharding"] = parse_attr(sdy_sharding_text(sharding, physical_rank(aval)))
            elif sharding is not None and hasattr(sharding, "spec"):
                attrs["mhlo.sharding"] = string_attr(
                    mhlo_sharding_text(sharding, physical_rank(aval))
                )
            return attrs

        n_in, n_out = len(jaxpr.in_avals), len(jaxpr.out_avals)
        asked = (in_shardings or [None] * n_in, out_shardings or [None] * n_out)
        arg_attrs = [attrs_of(a, s) for a, s in zip(jaxpr.in_avals, asked[0], strict=True)]
        result_attrs = [attrs_of(a, s) for a, s in zip(jaxpr.out_avals, asked[1], strict=True)]
        # XLA reuses the memory of an aliased argument for that result, of a donor for any.
        for i, attrs in enumerate(arg_attrs):
            if aliases and i in aliases:
                attrs["tf.aliasing_output"] = int_attr(aliases[i], 32)
            elif donated and donated[i]:
                attrs["jax.buffer_donor"] = bool_attr(True)
        for i, attrs in enumerate(result_attrs):
            attrs["jax.result_info"] = string_attr(
                "result" + (result_names[i] if result_names else f"[{i}]" if n_out > 1 else "")
            )
        ctx.for_xla, ctx.whole_sums, ctx.compiler_options = for_xla, whole_sums, compiler_options
        ctx.emit_function(
            "main",
            jaxpr,
            public=True,
            arg_attrs=arg_attrs,
            result_attrs=result_attrs,
            effects=ordered_effects(jaxpr),
            arg_names=arg_names or (),
        )
        if ctx.has_metadata:
            from weft.lowering import metadata  # few programs have any

            metadata.attach(ctx.module)
    return ctx
