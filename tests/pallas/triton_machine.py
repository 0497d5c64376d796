"""Executes Triton IR on the host with NumPy, program by program: the reference for GPU kernels.

Programs take turns at their atomic operations, so those that wait for each other make progress.
Every load and store is checked against its array; masked-out elements are NaN or -77.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from statistics import NormalDist

import ml_dtypes
import numpy as np

from weft._xla.mlir import ir
from weft.pallas import pallas_call as real_pallas_call

TYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@dataclass
class Pointer:
    """Elements of a buffer, by their positions."""

    buffer: np.ndarray
    at: np.ndarray

    def moved(self, by: np.ndarray) -> Pointer:
        return Pointer(self.buffer, self.at + np.asarray(by, np.int64))

    def shaped(self, change) -> Pointer:
        return Pointer(self.buffer, change(self.at))


def _type(type_: ir.Type) -> tuple[tuple[int, ...], np.dtype | None]:
    """(sizes, dtype) of a scalar or tensor; the dtype is None for pointers."""
    shaped = isinstance(type_, ir.RankedTensorType)
    element = str(type_.element_type if shaped else type_)
    shape = tuple(type_.shape) if shaped else ()
    return shape, None if "ptr" in element else np.dtype(TYPES[element])


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x if x.dtype == bool else x.view(f"u{x.dtype.itemsize}")


def _signed_division(x, y):
    safe = np.where(y == 0, 1, y)
    return (np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))).astype(x.dtype)


def _shift(by: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.clip(by, 0, x.dtype.itemsize * 8 - 1)


BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _signed_division,
    "arith.remsi": lambda x, y: (x - _signed_division(x, y) * y).astype(x.dtype),
    "arith.divui": lambda x, y: (_unsigned(x) // np.maximum(_unsigned(y), 1)).view(x.dtype),
    "arith.remui": lambda x, y: (_unsigned(x) % np.maximum(_unsigned(y), 1)).view(x.dtype),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": lambda x, y: np.maximum(_unsigned(x), _unsigned(y)).view(x.dtype),
    "arith.minui": lambda x, y: np.minimum(_unsigned(x), _unsigned(y)).view(x.dtype),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": lambda x, y: np.left_shift(x, _shift(y, x)),
    "arith.shrsi": lambda x, y: np.right_shift(x, _shift(y, x)),
    "arith.shrui": lambda x, y: np.right_shift(_unsigned(x), _unsigned(_shift(y, x))).view(x.dtype),
}
UNARY = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.erf": np.vectorize(math.erf, otypes=[np.float64]),
    "arith.negf": np.negative,
}
CONVERSIONS = {
    "arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.fptosi", "arith.extsi",
    "arith.trunci", "arith.fptoui",
}  # fmt: skip
LIBDEVICE = {
    "pow": np.power, "atan2": np.arctan2, "rint": np.rint, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "lgamma": np.vectorize(lambda x: math.inf if x <= 0 and x % 1 == 0 else math.lgamma(x)),
    "erfc": np.vectorize(math.erfc),
    "erfinv": np.vectorize(lambda x: NormalDist(0, 0.5**0.5).inv_cdf((x + 1) / 2)),
    "round": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
}  # fmt: skip
_INTEGER_ORDER = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_FLOAT_ORDER = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal,
                13: np.not_equal}  # fmt: skip
RMW = {
    1: np.bitwise_and, 2: np.bitwise_or, 3: np.bitwise_xor, 4: np.add, 5: np.add, 6: np.maximum,
    7: np.minimum, 8: BINARY["arith.maxui"], 9: BINARY["arith.minui"], 10: lambda old, new: new,
}  # fmt: skip


class Machine:
    """One program of a launch."""

    def __init__(self, program: int, printed: list) -> None:
        self.program = program
        self.printed = printed
        self.nanoseconds = 0

    def run(self, block: ir.Block, env: dict, args: list) -> Generator:
        """Executes a block; returns the terminator's operands (for scf.condition all of them)."""
        env.update(zip(list(block.arguments), args, strict=True))
        for operation in block.operations:
            op = operation.operation
            values = [env[v] for v in op.operands]
            if op.name in ("scf.yield", "tt.return", "scf.condition", "tt.reduce.return",
                           "tt.scan.return"):  # fmt: skip
                return values
            outs = yield from self.step(op, values, env)
            env.update(zip(list(op.results), outs, strict=True))
        return []

    def region(self, op, index: int, env: dict, args: list) -> Generator:
        return (yield from self.run(op.regions[index].blocks[0], env, args))

    def step(self, op, values: list, env: dict) -> Generator:
        name = op.name
        attrs = op.attributes
        result = _type(op.results[0].type) if len(op.results) else None
        if name in BINARY:
            _check_arithmetic(name, values[0].dtype)
            with np.errstate(all="ignore"):
                return [np.asarray(BINARY[name](*values)).astype(result[1], copy=False)]
        if name in UNARY:
            with np.errstate(all="ignore"):
                return [np.asarray(UNARY[name](values[0])).astype(result[1])]
        if name in CONVERSIONS:
            with np.errstate(all="ignore"):
                return [values[0].astype(result[1])]
        if name in ("arith.extui", "arith.uitofp"):
            return [_unsigned(values[0]).astype(result[1])]
        if name == "arith.constant":
            return [_constant(attrs["value"], result)]
        if name in ("arith.cmpi", "arith.cmpf"):
            code, (x, y) = ir.IntegerAttr(attrs["predicate"]).value, values
            if name == "arith.cmpf":
                return [_FLOAT_ORDER[code](x, y)]
            if code > 5:
                x, y, code = _unsigned(x), _unsigned(y), code - 4
            return [_INTEGER_ORDER[code](x, y)]
        if name == "math.fma":
            a, b, c = (np.asarray(v, np.longdouble) for v in values)
            with np.errstate(all="ignore"):
                return [(a * b + c).astype(result[1])]
        if name == "arith.select":
            return [np.where(*values).astype(result[1])]
        if name == "gpu.barrier":
            return []
        if name.startswith("scf."):
            return (yield from self.control(op, values, env))
        return (yield from self.triton(op, values, env, result))

    def control(self, op, values: list, env: dict) -> Generator:
        if op.name == "scf.if":
            blocks = op.regions[0 if values[0] else 1].blocks
            return (yield from self.run(blocks[0], env, [])) if len(blocks) else []
        if op.name == "scf.for":
            low, high, step, *state = values
            for i in range(int(low), int(high), int(step)):
                state = yield from self.region(op, 0, env, [np.int32(i), *state])
            return state
        assert op.name == "scf.while", op.name
        while True:
            go, *values = yield from self.region(op, 0, env, values)
            if not go:
                return values
            values = yield from self.region(op, 1, env, values)

    def triton(self, op, values: list, env: dict, result) -> Generator:
        name, attrs = op.name.removeprefix("tt."), op.attributes
        integer = lambda key: ir.IntegerAttr(attrs[key]).value
        x = values[0] if values else None
        change = {
            "splat": lambda a: np.broadcast_to(a, result[0]),
            "broadcast": lambda a: np.broadcast_to(a, result[0]),
            "reshape": lambda a: np.reshape(a, result[0]),
            "expand_dims": lambda a: np.expand_dims(a, integer("axis")),
            "trans": lambda a: np.transpose(a, list(ir.DenseI32ArrayAttr(attrs["order"]))),
        }.get(name)
        if change is not None:
            return [x.shaped(change) if isinstance(x, Pointer) else change(x)]
        if name == "get_program_id":
            return [np.int32(self.program)]
        if name == "elementwise_inline_asm":
            assert "%globaltimer" in ir.StringAttr(attrs["asm_string"]).value
            self.nanoseconds += 1_000_000
            return [np.int64(self.nanoseconds)]
        if name == "make_range":
            return [np.arange(integer("start"), integer("end"), dtype=np.int32)]
        if name == "addptr":
            return [x.moved(values[1])]
        if name == "bitcast":
            return [x.view(result[1])]
        if name == "gather":
            return [np.take_along_axis(x, values[1], integer("axis"))]
        if name == "dot":
            a, b, c = values
            wide = np.float64 if c.dtype.kind == "f" else c.dtype
            return [(a.astype(wide) @ b.astype(wide) + c).astype(c.dtype)]
        if name == "extern_elementwise":
            symbol = ir.StringAttr(attrs["symbol"]).value.removeprefix("__nv_")
            symbol = symbol if symbol in LIBDEVICE else symbol.removesuffix("f")
            function = LIBDEVICE.get(symbol) or getattr(np, symbol)
            with np.errstate(all="ignore"):
                return [np.asarray(function(*values)).astype(result[1])]
        if name == "print":
            self.printed.append((ir.StringAttr(attrs["prefix"]).value, *values))
            return []
        if name == "assert":
            assert np.all(x), ir.StringAttr(attrs["message"]).value
            return []
        if name == "reduce":
            return (yield from self.reduce(op, values, env, integer("axis")))
        if name == "scan":
            reverse = ir.BoolAttr(attrs["reverse"]).value
            return (yield from self.scan(op, values, env, integer("axis"), reverse))
        if name.startswith("atomic"):
            yield  # let the others go first
        return self.memory(name, values, result, integer)

    def memory(self, name: str, values: list, result, integer) -> list:
        pointer, *rest = values
        n = {"load": 0, "store": 1, "atomic_rmw": 1, "atomic_cas": 2}[name]
        mask = np.broadcast_to(rest[n] if len(rest) > n else True, pointer.at.shape)
        at = pointer.at[mask]
        assert np.all((at >= 0) & (at < pointer.buffer.size)), f"{name} out of bounds"
        if name == "store":
            pointer.buffer[at] = np.broadcast_to(rest[0], mask.shape)[mask]
            return []
        out = np.full(pointer.at.shape, np.nan if result[1].kind not in "iub" else -77)
        out = out.astype(result[1])
        if name == "load":
            if len(rest) > 1:
                out = np.array(np.broadcast_to(rest[1], out.shape), result[1])
            out[mask] = pointer.buffer[at]
        elif name == "atomic_cas":
            out[mask] = pointer.buffer[at]
            pointer.buffer[at] = np.where(out == rest[0], rest[1], out)[mask]
        else:
            new = np.broadcast_to(rest[0], mask.shape)
            for i in np.ndindex(mask.shape):
                if mask[i]:
                    out[i] = old = pointer.buffer[pointer.at[i]]
                    pointer.buffer[pointer.at[i]] = RMW[integer("atomic_rmw_op")](old, new[i])
        return [out]

    def reduce(self, op, xs: list, env: dict, axis: int) -> Generator:
        """By halves, as a GPU does."""
        xs = [np.moveaxis(x, axis, 0) for x in xs]
        while len(xs[0]) > 1:
            half = len(xs[0]) // 2
            args = [*(x[:half] for x in xs), *(x[half:] for x in xs)]
            xs = yield from self.region(op, 0, env, args)
        return [x[0] for x in xs]

    def scan(self, op, xs: list, env: dict, axis: int, reverse: bool) -> Generator:
        xs = [np.moveaxis(x, axis, 0) for x in xs]
        xs = [x[::-1] for x in xs] if reverse else xs
        rows = [[x[0] for x in xs]]
        for i in range(1, len(xs[0])):
            rows.append((yield from self.region(op, 0, env, [*rows[-1], *(x[i] for x in xs)])))
        outs = [np.stack([row[k] for row in rows]) for k in range(len(xs))]
        return [np.moveaxis(y[::-1] if reverse else y, 0, axis) for y in outs]


def _check_arithmetic(name: str, dtype: np.dtype) -> None:
    """Triton's compiler ends the process on other arithmetic (triton of XLA in jaxlib 0.10.2)."""
    floats = dtype.kind not in "iub"
    assert not (floats and dtype.itemsize == 1), f"{name} of {dtype}"
    assert not (name in ("arith.divf", "arith.remf") and dtype.itemsize == 2), f"{name} of {dtype}"


def _constant(attr: ir.Attribute, result: tuple) -> np.ndarray:
    shape, dtype = result
    if shape:
        attr = ir.DenseElementsAttr(attr).get_splat_value()
    value = np.array(attr.value).astype(dtype)
    return np.broadcast_to(value, shape) if shape else value[()]


def launch(module: ir.Module, programs: int, buffers: list[np.ndarray]) -> list:
    """Runs all programs on flat buffers, which are changed in place; what they printed."""
    (function,) = [op for op in module.body.operations if op.operation.name == "tt.func"]
    block = function.operation.regions[0].blocks[0]
    printed: list = []
    running = []
    for i in range(programs):
        pointers = [Pointer(b, np.int64(0)) for b in buffers]
        running.append(Machine(i, printed).run(block, {}, pointers))
    turns = 0
    while running:
        turns += 1
        assert turns < 100_000, "the programs wait for each other forever"
        still = []
        for program in running:
            try:
                next(program)
                still.append(program)
            except StopIteration:
                pass
        running = still
    return printed


def run(call, *operands: np.ndarray) -> list[np.ndarray]:
    """The results of a kernel call on the host, as a GPU would compute them."""
    from weft.pallas.gpu.program import build

    built = build(call)
    held = {np.dtype(bool): np.int8, np.dtype("c8"): np.float32, np.dtype("c16"): np.float64}
    memory = lambda x: np.ascontiguousarray(x).view(held.get(x.dtype, x.dtype))
    poison = lambda shape, dtype: np.full(
        shape, np.nan if np.dtype(dtype).kind not in "iub" else 99
    ).astype(np.int8 if np.dtype(dtype) == bool else dtype)
    ins = [memory(np.array(x)).ravel() for x in operands]
    outs = [memory(poison(a.shape, a.dtype).ravel()) for a in call.outputs]
    extras = [poison(x.shape, x.ref.dtype).ravel() for x in built.extras]
    for x, buffer in zip(built.extras, extras, strict=True):
        if x.ref.holds_semaphores:
            buffer[:] = 0
    for i, o in call.aliases:
        outs[o] = ins[i]
    zeros = [b for x, b in zip(built.extras, extras, strict=True) if x.ref.holds_semaphores]
    launch(built.module, built.programs, [*ins, *zeros, *outs, *extras])
    return [b.view(a.dtype).reshape(a.shape) for a, b in zip(call.outputs, outs, strict=True)]


def pallas_call(*args, **options):
    """weft.pallas.pallas_call whose kernels' Triton IR runs on the host."""
    import weft
    from weft.core.jaxpr import Literal

    real = real_pallas_call(*args, **options)

    def call(*xs):
        types, given = weft.eval_shape(real, *xs), weft.tree.structure(xs)

        def on_host(*leaves):
            closed = weft.make_jaxpr(real)(*weft.tree.unflatten(given, leaves))
            values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
            values |= dict(zip(closed.jaxpr.invars, leaves, strict=True))
            (eqn,) = closed.jaxpr.eqns
            operands = [v.val if isinstance(v, Literal) else values[v] for v in eqn.invars]
            outs = run(eqn.params["call"], *map(np.asarray, operands))
            return weft.tree.unflatten(weft.tree.structure(types), outs)

        return weft.pure_callback(on_host, types, *weft.tree.leaves(xs), vmap_method="sequential")

    return call
