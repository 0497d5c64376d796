# Tests: tests/lowering/test_module.py
"""The context of lowering rules: operand types, and short ways to emit StableHLO.

A rule is `lower(ctx, *operands, **params)` and returns a value, or a list of values for ops with
multiple results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.aval import NO_MAT, AbstractToken, ShapedArray
from weft.core.caches import clearable, make_room
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.core.trace import trace_to_jaxpr
from weft.lowering.limits import SMALLEST

if TYPE_CHECKING:
    from weft.core.jaxpr import Eqn
    from weft.lowering.module import FunctionContext
    from weft.sharding.named import NamedSharding

_create = ir.Operation.create
ATTRIBUTES = 16384
"""How many attributes and types of a kind are kept: making one again takes a microsecond."""

MARK = "weft.native"
"""The attribute of operations that weft/native may replace: a rule's name, and a number for it."""
UNFUSED = frozenset(
    f"stablehlo.{name}"
    for name in ("convolution", "custom_call", "dot_general", "fft", "scatter", "sort", "while")
)
"""Operations that XLA:CPU fuses with none that reads them."""


def in_memory(x: ir.Value) -> bool:
    """Tell whether a value is in memory whoever reads it: an argument, a result of UNFUSED."""
    owner = x.owner
    while not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.reshape":
        owner = owner.operation.operands[0].owner
    if not isinstance(owner, ir.Block):
        return owner.operation.name in UNFUSED
    around = owner.owner.operation
    return around.name != "func.func" or around.attributes["sym_name"].value == "main"


_DIRECTIONS = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}


@lru_cache(maxsize=ATTRIBUTES)
def parse_attr(text: str) -> ir.Attribute:
    """Return an attribute from its textual form, parsed once."""
    return ir.Attribute.parse(text, mlir.context())


@lru_cache(maxsize=ATTRIBUTES)
def parse_type(text: str) -> ir.Type:
    return ir.Type.parse(text, mlir.context())


@lru_cache(maxsize=ATTRIBUTES)
def i64_array(values: tuple[int, ...]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get([int(v) for v in values], mlir.context())


@lru_cache(maxsize=ATTRIBUTES)
def int_attr(value: int, width: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(width, mlir.context()), value)


@lru_cache(maxsize=ATTRIBUTES)
def string_attr(text: str) -> ir.Attribute:
    return ir.StringAttr.get(text, mlir.context())


@cache
def bool_attr(value: bool) -> ir.Attribute:
    return ir.BoolAttr.get(value, mlir.context())


def int_matrix(rows: Sequence[Sequence[int]]) -> ir.Attribute:
    """Return a dense i64 matrix attribute: replica groups, source-target pairs, paddings."""
    array = np.asarray(rows, np.int64)
    if array.size == 0:
        array = array.reshape(0, 0 if array.ndim < 2 else array.shape[1])
    return ir.DenseElementsAttr.get(array, context=mlir.context())


@cache
def comparison_kind(dtype: np.dtype) -> str:
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        return "FLOAT"
    return "SIGNED" if dtypes.is_signed(dtype) else "UNSIGNED"


@clearable
@lru_cache(maxsize=ATTRIBUTES)
def ir_type(aval: ShapedArray) -> ir.Type:
    """Return the MLIR type of an aval; arrays of keys become arrays of their words."""
    if isinstance(aval, AbstractToken):
        return parse_type("!stablehlo.token")
    if isinstance(aval, ShapedArray):
        dtype = aval.dtype
        if dtypes.is_extended(dtype):
            return mlir.tensor_type(aval.shape + dtype.physical_shape, dtype.physical_dtype)
        if dtype == dtypes.float0:
            dtype = dtypes.bool_
        return mlir.tensor_type(aval.shape, dtype)
    return aval.ir_type()


_SUB_BYTE = {"int2", "int4", "uint2", "uint4", "float4_e2m1fn"}


def dense_attr(value: np.ndarray) -> ir.Attribute:
    """Return a dense elements attribute holding an array of any dtype."""
    kind = mlir.element_type(value.dtype)
    type_ = mlir.tensor_type(value.shape, value.dtype)
    if value.dtype.name in _SUB_BYTE:
        if not value.size:
            return parse_attr(f"dense<> : {type_}")
        numbers = value.astype(np.float32 if "float" in value.dtype.name else np.int32).tolist()
        return parse_attr(f"dense<{numbers}> : {type_}")
    if value.dtype.kind == "V" or value.dtype in (dtypes.bfloat16, *_small()):
        return ir.DenseElementsAttr.get(
            np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}"),
            type=kind,
            shape=value.shape,
        )
    return ir.DenseElementsAttr.get(np.ascontiguousarray(value), type=kind, shape=value.shape)


@cache
def _small() -> tuple:
    return tuple(np.dtype(getattr(ml_dtypes, name)) for name in dtypes.float8_names)


@lru_cache(maxsize=ATTRIBUTES)
def splat_attr(value: bytes, shape: tuple[int, ...], dtype: np.dtype) -> ir.Attribute:
    scalar = np.frombuffer(value, dtype)[0]
    type_ = mlir.tensor_type(shape, dtype)
    if dtype.kind in "iu" and dtype.name not in _SUB_BYTE:
        if dtype == np.uint64:  # the attribute takes the bits of a signed integer
            scalar = scalar.view(np.int64)
        element = ir.IntegerAttr.get(mlir.element_type(dtype), int(scalar))
    elif dtype == np.bool_:
        element = ir.BoolAttr.get(bool(scalar), mlir.context())
    elif dtype.kind == "c":
        element_type = mlir.element_type(dtype)
        return ir.DenseElementsAttr.get(np.asarray(scalar), type=element_type, shape=shape)
    elif dtype.name in _SUB_BYTE:
        text = str(float(scalar) if "float" in dtype.name else int(scalar))
        return parse_attr(f"dense<{text}> : {type_}")
    else:
        number = float(scalar)
        with mlir.unknown_location():
            element = ir.FloatAttr.get(mlir.element_type(dtype), number)
    return ir.DenseElementsAttr.get_splat(type_, element)


_NUMBERS = frozenset((int, float, bool))

_traced: dict[tuple, tuple] = clearable({})
"""Jaxprs that `RuleContext.lower_fun` traced, with the code objects whose ids are in the keys."""

_MOST_TRACED = 2048


class RuleContext:
    """Given to a lowering rule: the equation's types, the module under construction, emitters."""

    __slots__ = ("eqn", "function", "loc", "module")

    def __init__(self, module: Any, function: FunctionContext, eqn: Eqn, loc: ir.Location) -> None:
        self.module = module
        self.function = function
        self.eqn = eqn
        self.loc = loc

    @property
    def avals_in(self) -> list[Any]:
        return [v.aval for v in self.eqn.invars]

    @property
    def avals_out(self) -> list[Any]:
        return [v.aval for v in self.eqn.outvars]

    # Emitting ---------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> Any:
        """Emit an operation at the insertion point; its results."""
        return _create(name, results, operands, attributes, None, regions, self.loc).results

    def operation(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """Act as `op`, for operations with regions: the operation itself."""
        return _create(name, results, operands, attributes, None, regions, self.loc)

    def region(
        self, operation: ir.Operation, index: int, types: Sequence[ir.Type], body: Callable
    ) -> None:
        """Fill a region: body(*block_arguments) gives the values to return from it."""
        block = operation.regions[index].blocks.append(*types, arg_locs=[self.loc] * len(types))
        self.fill(block, "stablehlo.return", body)

    def fill(self, block: ir.Block, terminator: str, body: Callable) -> None:
        """Fill an empty block: body(*block_arguments) gives the terminator's operands."""
        function = self.function
        outer, function.splats = function.splats, {}
        with ir.InsertionPoint(block):
            outs = body(*block.arguments)
            _create(terminator, [], list(outs), None, None, 0, self.loc)
        function.splats = outer

    def constant(self, value: np.ndarray) -> ir.Value:
        """Return a constant from a NumPy array or scalar."""
        value = np.asarray(value)
        attr = dense_attr(value)
        return self.op(
            "stablehlo.constant", [], [mlir.tensor_type(value.shape, value.dtype)], {"value": attr}
        )[0]

    def splat(self, value: object, shape: tuple[int, ...], dtype: np.dtype) -> ir.Value:
        """Return a constant array of one repeated scalar."""
        key = (value, value.__class__, shape, dtype) if value.__class__ in _NUMBERS else None
        splats = self.function.splats
        # Zeros may differ in sign, and NaN equals nothing: the bytes tell.
        if key is None or not value or value != value:
            key = (np.asarray(value).astype(dtype).tobytes(), bytes, shape, dtype)
        cached = splats.get(key)
        if cached is None:
            data = key[0] if key[1] is bytes else np.asarray(value).astype(dtype).tobytes()
            if dtype == dtypes.float0:  # lowered to truths, as its type is
                data, dtype = b"\0", dtypes.bool_
            attrs = {"value": splat_attr(data, shape, dtype)}
            types = [mlir.tensor_type(shape, dtype)]
            cached = splats[key] = self.op("stablehlo.constant", [], types, attrs)[0]
        return cached

    def splat_of(self, index: int, shape: tuple[int, ...]) -> ir.Value | None:
        """Operand `index` as an array of that shape, if it is a literal; else None."""
        atom = self.eqn.invars[index]
        if atom.__class__ is Literal and not isinstance(atom.aval.dtype, dtypes.ExtendedDType):
            return self.splat(atom.val, shape, atom.aval.dtype)
        return None

    def broadcast(
        self, x: ir.Value, shape: tuple[int, ...], dims: tuple[int, ...], dtype: object
    ) -> ir.Value:
        attrs, types = {"broadcast_dimensions": i64_array(dims)}, [mlir.tensor_type(shape, dtype)]
        return self.op("stablehlo.broadcast_in_dim", [x], types, attrs)[0]

    def spread(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Return operands of an elementwise op, rank-0 ones broadcast to the result's shape."""
        eqn = self.eqn
        shape = eqn.outvars[0].aval.shape
        if not shape:
            return list(operands)
        result = []
        for i, x in enumerate(operands):
            aval = eqn.invars[i].aval
            if aval.shape != shape:
                splat = self.splat_of(i, shape)
                x = self.broadcast(x, shape, (), aval.dtype) if splat is None else splat
            result.append(x)
        return result

    def compare(
        self, x: ir.Value, y: ir.Value, direction: str, dtype: np.dtype, kind: str | None = None
    ) -> ir.Value:
        kind = kind or comparison_kind(dtype)
        attrs = {
            "comparison_direction": parse_attr(f"#stablehlo<comparison_direction {direction}>"),
            "compare_type": parse_attr(f"#stablehlo<comparison_type {kind}>"),
        }
        types = [mlir.tensor_type(tuple(ir.RankedTensorType(x.type).shape), dtypes.bool_)]
        return self.op("stablehlo.compare", [x, y], types, attrs)[0]

    def reduce(
        self, hlo: str, x: ir.Value, identity: object, axes: Sequence[int], dtype: np.dtype
    ) -> Any:
        """stablehlo.reduce of one operand by a binary StableHLO op."""
        init = self.splat(identity, (), dtype)
        types, axes = self.out_types(), tuple(axes)
        key = None
        if self.module.mesh is None:  # elsewhere each may get a sharding of its own
            # A copy of an equal reduction is made in half the time: it needs no region.
            key = (hlo, self.avals_in[0], *types, axes, dtype, self.loc)
            cached = self.module.reductions.get(key)
            if cached is not None:
                operation = cached.clone()
                operation.operands[0], operation.operands[1] = x, init
                return operation.results[0]
        operation = self.operation(
            "stablehlo.reduce",
            [x, init],
            types,
            {"dimensions": i64_array(axes)},
            regions=1,
        )
        scalar = mlir.tensor_type((), dtype)
        self.region(operation, 0, [scalar, scalar], lambda a, b: [self.combine(hlo, a, b, dtype)])
        if key is not None:
            self.module.reductions[key] = operation
        return operation.results[0]

    def combine(self, hlo: str, x: ir.Value, y: ir.Value, dtype: np.dtype) -> ir.Value:
        """Return a binary StableHLO op; extrema of complex numbers by real, then imaginary part.

        As the StableHLO specification has it; XLA:CPU does not (quirks.COMPLEX_EXTREMA).
        """
        if hlo not in _DIRECTIONS or not dtypes.is_complex(dtype):
            return self.op(hlo, [x, y], [x.type])[0]
        wins = self.compare(x, x, "NE", dtype)  # NaN wins
        shape = tuple(ir.RankedTensorType(x.type).shape)
        part = dtypes.float64 if dtype == dtypes.complex128 else dtypes.float32
        (a, c), (b, d) = (
            [self.op(name, [v], [mlir.tensor_type(shape, part)])[0] for v in (x, y)]
            for name in ("stablehlo.real", "stablehlo.imag")
        )
        truth = [wins.type]
        by_imaginary = self.op(
            "stablehlo.and",
            [self.compare(a, c, "EQ", part), self.compare(b, d, _DIRECTIONS[hlo], part)],
            truth,
        )[0]
        for reason in (self.compare(a, c, _DIRECTIONS[hlo], part), by_imaginary):
            wins = self.op("stablehlo.or", [wins, reason], truth)[0]
        return self.op("stablehlo.select", [wins, x, y], [x.type])[0]

    def constrain(
        self,
        x: ir.Value,
        sharding: NamedSharding,
        aval: ShapedArray,
        priorities: dict | None = None,
        by_type: bool = False,
    ) -> ir.Value:
        """Constrain the value's sharding; leave it without a sharding or on one device."""
        from weft.lowering.sharding import constrain

        return constrain(self, x, sharding, aval, priorities, by_type)

    def in_memory(self, x: ir.Value, kind: str) -> ir.Value:
        """Return the value in a memory of its devices such as "pinned_host"."""
        from weft.lowering.sharding import in_memory

        return in_memory(self, x, kind)

    # Types and attributes ---------------------------------------------------------------------

    def out_types(self) -> list[ir.Type]:
        return [ir_type(v.aval) for v in self.eqn.outvars]

    def tensor(self, shape: tuple[int, ...], dtype: np.dtype) -> ir.Type:
        return mlir.tensor_type(tuple(shape), dtype)

    type_of = staticmethod(ir_type)
    attr = staticmethod(parse_attr)
    type = staticmethod(parse_type)

    def token_type(self) -> ir.Type:
        return parse_type("!stablehlo.token")

    def i64s(self, values: Sequence[int]) -> ir.Attribute:
        return i64_array(tuple(values))

    def i64(self, value: int) -> ir.Attribute:
        return int_attr(int(value), 64)

    def i32(self, value: int) -> ir.Attribute:
        return int_attr(int(value), 32)

    def keep_in_memory(self, value: ir.Value) -> ir.Value:
        """Keep XLA:CPU from computing a value anew in each loop that reads it."""
        if self.module.platforms != ("cpu",):
            return value
        return self.op("stablehlo.optimization_barrier", [value], [value.type])[0]

    def mark(
        self, operation: ir.Operation, rule: str, number: int = 0, least: int = SMALLEST
    ) -> None:
        """Mark an operation for a rule of weft/native, which the CPU runs instead of it."""
        size = max(aval.size for aval in self.avals_in)
        if self.module.platforms == ("cpu",) and size >= least:
            operation.attributes[MARK] = string_attr(f"{rule} {number}")
            self.module.has_marks = True

    def moves(self, name: str, operands: list, attributes: dict[str, Any]) -> ir.Value:
        """Emit an operation that only moves elements, which weft/native may copy as boxes."""
        operation = self.operation(name, operands, self.out_types(), attributes)
        self.mark(operation, "moves")
        return operation.results[0]

    def string(self, text: str) -> ir.Attribute:
        return string_attr(text)

    def bool(self, value: bool) -> ir.Attribute:
        return bool_attr(bool(value))

    def int_matrix(self, rows: Sequence[Sequence[int]]) -> ir.Attribute:
        return int_matrix(rows)

    # Inner jaxprs -----------------------------------------------------------------------------

    def inline(self, jaxpr: ClosedJaxpr, *operands: ir.Value) -> list[ir.Value]:
        """Emit a closed jaxpr's equations here; for the bodies of regions."""
        return self.module.lower_body(self.function, jaxpr.jaxpr, jaxpr.consts, operands)

    def call(self, jaxpr: ClosedJaxpr, operands: Sequence[ir.Value], name: str) -> list[ir.Value]:
        """Emit a call of a closed jaxpr as a function of its own, shared by equal calls."""
        return self.module.lower_call(self, jaxpr, operands, name)

    def lower_fun(
        self, fun: Callable, *operands: ir.Value, avals: Sequence[Any] | None = None
    ) -> list:
        """Emit what a Python function on flat arrays computes: rules written with ops.

        The function must follow from the equation alone (its types and params): what it traces to
        is kept for equal equations.
        """
        key = (self.eqn.primitive, *self.eqn.rule_params.items(), *(avals or self.avals_in))
        key = (*key, *self.avals_out, id(fun.__code__), self.module.platforms)
        cached = _traced.get(key)
        if cached is None:
            make_room(_traced, _MOST_TRACED)
            cached = _traced[key] = (self._trace(fun, avals or self.avals_in), fun.__code__)
        return self.module.lower_parts(self, cached[0], operands)

    def _trace(self, fun: Callable, avals: Sequence[Any]) -> Any:
        def flat(*xs: object) -> list:
            out = fun(*xs)
            return list(out) if isinstance(out, list | tuple) else [out]

        # How the parts of one op are placed follows from its operands and result.
        types = [
            a.update(sharding=None) if getattr(a, "sharding", None) is not None else a
            for a in avals
        ]
        if not self.eqn.primitive.own_types:  # what the states are, the op itself has shown
            types = [a.update(mat=NO_MAT) if a.mat is not NO_MAT else a for a in types]
        jaxpr, consts = trace_to_jaxpr(flat, types, self.eqn.primitive.name)
        return ClosedJaxpr(jaxpr, consts)
