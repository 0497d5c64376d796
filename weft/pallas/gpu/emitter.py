# Tests: tests/pallas/test_gpu.py
"""Emits Triton IR: arrays of a kernel as tensors whose sizes are powers of two.

Triton's tensors have sizes that are powers of two. An array of another shape lives in the next
larger tensor; what is past its end is unspecified, and masked wherever it could be seen: in loads
and stores, reductions and products.

Source: the Triton dialect, https://triton-lang.org/main/dialects/TritonDialect.html.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from weft._xla import mlir
from weft._xla.mlir import ir
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, open_jaxpr, subjaxprs
from weft.pallas.api.params import param
from weft.pallas.combiners import CUMULATIVE, REDUCTIONS
from weft.pallas.ir import KernelCall, unsupported
from weft.pallas.legalize import Target
from weft.pallas.narrow_integers import is_narrow

if TYPE_CHECKING:
    from weft.core.jaxpr import Atom

MAX_ELEMENTS = 1 << 20
"""The largest tensor of Triton."""

RULES: dict[str, Callable] = {}
"""Primitive name -> rule(emitter, eqn, *values) -> the result, or a list of results."""


LEAST: dict[str, int] = {
    **dict.fromkeys((*REDUCTIONS, *CUMULATIVE, "sort"), 2),
}
"""Primitive name -> the bytes of the narrowest floats that Triton has it for; 1 if not named."""


def rule(*names: str, least: int = 1) -> Callable:
    """Register a rule for these primitives.

    least: the bytes of the narrowest floats that it is for; narrower ones become float32.
    """

    def add(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
            if least > 1:
                LEAST[name] = least
        return function

    return add


SMALL = 4096
"""Products of so many numbers are computed one by one: matrix units would be padded."""


def _is_native(eqn: Eqn) -> bool:
    if eqn.primitive.name != "dot_general":
        return eqn.primitive.name in RULES
    a, b = (v.aval for v in eqn.invars)
    kinds = {dtypes.is_float(x.dtype) for x in (a, b)}
    numbers = len(kinds) == 1 and not any(dtypes.is_bool(x.dtype) for x in (a, b))
    return numbers and math.prod(padded((*a.shape, b.shape[-1]))) > SMALL


def padded(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the tensor sizes that hold an array of this shape."""
    return tuple(1 << (n - 1).bit_length() if n > 0 else 1 for n in shape)


@functools.cache
def element_type(dtype: np.dtype) -> ir.Type:
    """Triton's type of an element: integers have no sign, booleans are i1."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_ or dtype.kind in "iu":
        bits = 1 if dtype == np.bool_ else dtype.itemsize * 8
        return ir.IntegerType.get_signless(bits, mlir.context())
    return mlir.element_type(dtype)


def _instead(dtype: np.dtype) -> str:
    """Return a dtype to convert to, without a Triton type or as integers packed in memory."""
    if is_narrow(dtype):
        return "int8"
    known = dtype.itemsize > 1 or dtype.name in ("float8_e4m3fn", "float8_e5m2")
    return "" if known or not dtypes.is_float(dtype) else "float16"


def i32_attr(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32, mlir.context()), value)


def i64_attr(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, mlir.context()), value)


INT = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)

Number: TypeAlias = ir.Value | int
"""An operand: a value, or a Python int for a constant of its type."""
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}

_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_FLOAT_PREDICATES = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 13}


def warps_of(call: KernelCall) -> int:
    """`num_warps` as given; otherwise 8 where values are too large for the registers of 4."""
    return int(
        param(call.compiler_params, "num_warps") or (8 if _largest(call) >= LARGE_VALUE else 4)
    )


LARGE_VALUE = 1 << 14
"""Elements of which each of 128 threads would hold 128, half its registers."""
_SEEN_ONLY = ("get", "transpose", "convert_element_type", "broadcast_in_dim")


def _largest(call: KernelCall) -> int:
    """Count the elements of the largest value a kernel computes, apart from those it reads."""

    def within(jaxpr: Any) -> int:
        largest = 1
        for eqn in open_jaxpr(jaxpr).eqns:
            if eqn.primitive.name not in _SEEN_ONLY:
                sizes = (v.aval.shape for v in eqn.outvars if hasattr(v.aval, "shape"))
                largest = max(largest, *(math.prod(padded(s)) for s in sizes), 1)
            for _, inner in subjaxprs(eqn.rule_params):
                largest = max(largest, within(inner))
        return largest

    return max(within(p.jaxpr) for p in call.programs)


class Emitter:
    """A kernel under construction: emits at the current insertion point."""

    def __init__(self, call: KernelCall, platform: str, converts_float8: bool) -> None:
        self.call, self.platform = call, platform
        self.converts_float8 = converts_float8  # whether the GPU has instructions for them
        self.threads = warps_of(call) * (64 if platform == "rocm" else 32)
        self.eqn: Eqn | None = None
        self.loc = mlir.unknown_location()
        self.core_index: dict[str, ir.Value] = {}  # the mpmd mesh's axes -> index of this core
        self.program_ids: list[ir.Value] = []
        self.scoped: Callable[[Any], Any] | None = None  # storage of a run_scoped ref
        self.streamed: Callable = lambda jaxpr, refs: ({}, set())  # see products.py
        self.stream: Any = None  # set where a product is streamed
        self.written: set = set()  # storage that was written, and read, since the last barrier
        self.read: set = set()
        self.stores = 0  # how many operations that write memory were emitted
        self.cells: dict[Any, ir.Value] = {}  # what refs in registers hold

    # Operations ----------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type] = (),
        attributes: dict[str, Any] | None = None,
        regions: int = 0,
    ) -> Any:
        return ir.Operation.create(
            name, list(results), list(operands), attributes or {}, None, regions, self.loc
        )

    def value(
        self, name: str, operands: Sequence[ir.Value], type_: object, **attributes: object
    ) -> Any:
        """Return the one result of an operation."""
        return self.op(name, operands, [type_], attributes).results[0]

    def same(self, name: str, *operands: ir.Value, **attributes: object) -> ir.Value:
        """Return an elementwise operation whose result has its first operand's type."""
        return self.value(name, operands, operands[0].type, **attributes)

    def region(
        self, operation: ir.Operation, index: int, types: Sequence[Any], fill: Callable
    ) -> None:
        """Fill a region with one block: fill(*block_arguments) emits the terminator too."""
        block = operation.regions[index].blocks.append(*types, arg_locs=[self.loc] * len(types))
        with ir.InsertionPoint(block):
            fill(*block.arguments)

    def either(
        self, condition: ir.Value, then: Callable, otherwise: Callable, types: Sequence[Any] = ()
    ) -> list:
        """Return the results of then() where the condition holds, else those of otherwise()."""
        operation = self.op("scf.if", [condition], types, regions=2)
        for k, branch in enumerate((then, otherwise)):
            self.region(operation, k, [], lambda branch=branch: self.op("scf.yield", branch()))
        return list(operation.results)

    def fail(self, why: str = "") -> Any:
        """Return the error for the current equation."""
        assert self.eqn is not None, "what fails is an equation"
        return unsupported("GPU", self.call, self.eqn, why)

    # Types ---------------------------------------------------------------------------------

    def type(self, shape: Sequence[int], element: object) -> ir.Type:
        """Return a scalar type, or a tensor of these (padded) sizes."""
        if not isinstance(element, ir.Type):
            element = element_type(element)
        shape = padded(shape)
        if not shape:
            return element
        if int(np.prod(shape)) > MAX_ELEMENTS:
            raise self.fail(
                f"an array of shape {tuple(shape)} has more than {MAX_ELEMENTS} elements, Triton's "
                "largest tensor; use smaller blocks, or a loop over parts of the ref"
            )
        return ir.RankedTensorType.get(shape, element, loc=self.loc)

    def of(self, aval: ShapedArray) -> ir.Type:
        return self.type(aval.shape, aval.dtype)

    # Constants and shapes ------------------------------------------------------------------

    def constant(
        self, value: float | int, shape: Sequence[int] = (), dtype: np.dtype = INT
    ) -> ir.Value:
        """Return a scalar or a tensor of one repeated value."""
        element = element_type(dtype)
        if isinstance(element, ir.IntegerType):
            number = int(value)
            bits = element.width
            if number >= 1 << (bits - 1) and bits > 1:
                number -= 1 << bits  # signless attributes hold the signed reading
            attr = ir.IntegerAttr.get(element, number)
        else:
            attr = ir.FloatAttr.get(element, float(value), loc=self.loc)
        type_ = self.type(shape, element)
        if isinstance(type_, ir.RankedTensorType):
            attr = ir.DenseElementsAttr.get_splat(type_, attr)
        return self.value("arith.constant", [], type_, value=attr)

    def splat(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return a scalar repeated to a tensor."""
        return x if not shape else self.value("tt.splat", [x], self.type(shape, x.type))

    def sizes(self, x: ir.Value) -> tuple[int, ...]:
        return tuple(x.type.shape) if isinstance(x.type, ir.RankedTensorType) else ()

    def element(self, x: ir.Value) -> ir.Type:
        return x.type.element_type if isinstance(x.type, ir.RankedTensorType) else x.type

    def expand(self, x: ir.Value, axis: int) -> ir.Value:
        """Return a new dimension of size 1."""
        sizes = self.sizes(x)
        new = (*sizes[:axis], 1, *sizes[axis:])
        if not sizes:
            return self.splat(x, (1,))
        return self.value(
            "tt.expand_dims", [x], self.type(new, self.element(x)), axis=i32_attr(axis)
        )

    def broadcast(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Repeat a tensor's dimensions of size 1, of the same rank; scalars everywhere."""
        sizes = self.sizes(x)
        if not sizes:
            return self.splat(x, shape)
        if sizes == padded(shape):
            return x
        return self.value("tt.broadcast", [x], self.type(shape, self.element(x)))

    def along(self, x: ir.Value, axis: int, rank: int) -> ir.Value:
        """Return a vector as the given dimension of a tensor of that rank, sizes 1 elsewhere."""
        for i in range(rank):
            if i != axis:
                x = self.expand(x, i)
        return x

    def reshape(self, x: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Return a reshape of whole tensors, between (padded) shapes of as many elements."""
        shape = padded(shape)
        sizes = self.sizes(x)
        if sizes == shape:
            return x
        if not sizes:
            return self.splat(x, shape)
        if not shape:
            for _ in sizes:
                x = self.one_of(x, 0)
            return x
        return self.value("tt.reshape", [x], self.type(shape, self.element(x)))

    def iota(self, n: int) -> ir.Value:
        """0, 1, … as int32, of (padded) size n."""
        (size,) = padded((n,))
        return self.value(
            "tt.make_range", [], self.type((n,), INT), start=i32_attr(0), end=i32_attr(size)
        )

    def iota_along(self, shape: Sequence[int], axis: int) -> ir.Value:
        return self.broadcast(self.along(self.iota(shape[axis]), axis, len(shape)), shape)

    def unflatten(self, index: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
        """Return a row-major linear index, or a tensor of such, as one index for each size."""
        indices: list[ir.Value] = []
        shape = self.sizes(index)
        for n in reversed(sizes):
            if n == 1:
                indices.append(self.constant(0, shape))
                continue
            indices.append(self.binary("rem", index, n))
            index = self.binary("div", index, n)
        return indices[::-1]

    def inside(self, shape: Sequence[int], axes: Sequence[int]) -> ir.Value | None:
        """Return where the positions along these axes belong to the array; None: everywhere."""
        mask = None
        for axis in axes:
            if shape[axis] != padded(shape)[axis]:
                in_bounds = self.compare("lt", self.iota_along(shape, axis), shape[axis])
                mask = self.both(mask, in_bounds)
        return mask

    def both(self, x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
        if x is None or y is None:
            return x if y is None else y
        return self.same("arith.andi", x, y)

    # Arithmetic ----------------------------------------------------------------------------

    def alike(self, x: Number, y: Number, dtype: np.dtype) -> tuple[ir.Value, ir.Value]:
        """Both of one shape: Python's numbers as constants, scalars repeated."""
        if isinstance(x, int):
            x = self.constant(x, self.sizes(y), dtype)
        elif isinstance(y, int):
            y = self.constant(y, self.sizes(x), dtype)
        return (
            self.splat(x, self.sizes(y)) if not self.sizes(x) else x,
            self.splat(y, self.sizes(x)) if not self.sizes(y) else y,
        )

    def binary(self, name: str, x: Number, y: Number, dtype: np.dtype = INT) -> ir.Value:
        """add, sub, mul, div, rem, max, min of numbers of a dtype; and, or, xor of bits."""
        if isinstance(y, int) and y == _NEUTRAL.get(name):
            return x
        return self.same(_arith(name, dtype), *self.alike(x, y, dtype))

    def compare(self, how: str, x: Number, y: Number, dtype: np.dtype = INT) -> ir.Value:
        x, y = self.alike(x, y, dtype)
        type_ = self.type(self.sizes(x), BOOL)
        if dtypes.is_float(dtype):
            code = _FLOAT_PREDICATES[how]
            return self.value("arith.cmpf", [x, y], type_, predicate=i64_attr(code))
        code = _PREDICATES[how]
        if code > 1 and not dtypes.is_signed(dtype):
            code += 4  # the unsigned orders
        return self.value("arith.cmpi", [x, y], type_, predicate=i64_attr(code))

    def select(self, where: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        if self.sizes(x) and not self.sizes(where):
            where = self.splat(where, self.sizes(x))
        return self.value("arith.select", [where, x, y], x.type)

    def masked(
        self, x: ir.Value, shape: Sequence[int], axes: Sequence[int], other: Any, dtype: np.dtype
    ):
        """Return the tensor with `other` where it is past the array's end along these axes."""
        mask = self.inside(shape, axes)
        if mask is None:
            return x
        return self.select(mask, x, self.constant(other, shape, dtype))

    # Reductions ----------------------------------------------------------------------------

    def reduce_with(self, xs: Sequence[ir.Value], axis: int, combine: Callable) -> list[ir.Value]:
        """tt.reduce of whole tensors along an axis: combine(lefts, rights) -> scalars."""
        sizes = self.sizes(xs[0])
        rest = sizes[:axis] + sizes[axis + 1 :]
        elements = [self.element(x) for x in xs]
        operation = self.op(
            "tt.reduce", xs, [self.type(rest, e) for e in elements], {"axis": i32_attr(axis)}, 1
        )
        self._combiner(operation, elements, combine, "tt.reduce.return")
        return list(operation.results)

    def one_of(self, x: ir.Value, axis: int) -> ir.Value:
        """Return one of the entries along an axis, which are all equal.

        Their bits are or-ed, as a combiner needs an op (quirks.COMBINER_WITHOUT_OP).
        """
        sizes, element = self.sizes(x), self.element(x)
        bits = np.dtype(f"int{element.width}") if element.width > 1 else BOOL
        x = self.value("tt.bitcast", [x], self.type(sizes, bits))
        (one,) = self.reduce_with([x], axis, lambda a, b: [self.binary("or", a[0], b[0], bits)])
        return self.value("tt.bitcast", [one], self.type(sizes[:axis] + sizes[axis + 1 :], element))

    def scan_with(
        self, xs: Sequence[ir.Value], axis: int, reverse: bool, combine: Callable
    ) -> list[ir.Value]:
        """tt.scan (prefix combinations) of whole tensors along an axis."""
        attrs = {"axis": i32_attr(axis), "reverse": ir.BoolAttr.get(reverse, mlir.context())}
        operation = self.op("tt.scan", xs, [x.type for x in xs], attrs, 1)
        self._combiner(operation, [self.element(x) for x in xs], combine, "tt.scan.return")
        return list(operation.results)

    def _combiner(
        self, operation: ir.Operation, elements: list, combine: Callable, end: str
    ) -> None:
        n = len(elements)

        def fill(*arguments: ir.Value) -> None:
            self.op(end, combine(list(arguments[:n]), list(arguments[n:])))

        self.region(operation, 0, elements * 2, fill)

    # Bodies --------------------------------------------------------------------------------

    def run(self, jaxpr: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list:
        """Emit the equations of a jaxpr; its results."""
        consts = jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else []
        jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            env[var] = self._captured(const, var.aval)

        def read(atom: Atom) -> Any:
            if atom.__class__ is Literal:
                return self.constant(np.asarray(atom.val).item(), (), atom.aval.dtype)
            return env[atom]

        outer = self.eqn, self.loc
        products, replaced = self.streamed(jaxpr, env)
        for eqn in jaxpr.eqns:
            if id(eqn) in replaced:
                continue
            self.eqn, self.loc = eqn, _location(eqn)
            if id(eqn) in products:
                with self.loc:
                    env[eqn.outvars[0]] = self.stream(self, products[id(eqn)], read)
                continue
            values = [read(v) for v in eqn.invars]
            with self.loc:
                out = RULES[eqn.primitive.name](self, eqn, *values)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))
            else:
                env[eqn.outvars[0]] = out
        self.eqn, self.loc = outer
        return [read(v) for v in jaxpr.outvars]

    def _captured(self, value: object, aval: ShapedArray) -> ir.Value:
        host = np.asarray(value)
        if host.size and (host == host.ravel()[0]).all():
            return self.constant(host.ravel()[0].item(), aval.shape, aval.dtype)
        raise self.fail("a constant array that is not one repeated value must be an input")


@functools.lru_cache(maxsize=8)
def target_of(platform: str) -> Target:
    """Triton's ops, for "cuda" or "rocm"."""
    return Target(
        "GPU",
        frozenset({platform, "gpu"}),
        is_native=_is_native,
        narrowest=lambda name: LEAST.get(name, 1),
        instead=_instead,
    )


def _arith(name: str, dtype: np.dtype) -> str:
    """Return the operation of the arith dialect for numbers of a dtype."""
    if dtypes.is_float(dtype):
        return f"arith.{name}{'imum' if name in ('max', 'min') else ''}f"
    sign = "s" if dtypes.is_signed(dtype) else "u"
    return f"arith.{name}{sign if name in ('div', 'rem', 'max', 'min') else ''}i"


def _location(eqn: Eqn) -> ir.Location:
    source = eqn.source
    if source is None or source.code is None:
        return mlir.unknown_location()
    line, column = source.position()
    return mlir.file_location(source.file, line, column, eqn.primitive.name)
