# Tests: tests/pallas/api/test_call.py
"""Short functions for writing kernels: when, loop, cdiv, costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.dtypes import is_integer
from weft.core.jaxpr import open_jaxpr, subjaxprs
from weft.core.tree import flatten, tree_map
from weft.driver.staging import make_jaxpr
from weft.ops.compound import full
from weft.ops.control.cond import cond
from weft.ops.control.loops import fori_loop
from weft.ops.dot import dot_general
from weft.ops.promote import broadcast_to as broadcast
from weft.pallas.api.params import CostEstimate
from weft.pallas.ir import row_major
from weft.pallas.legalize import lowering_formula
from weft.refs.api import Ref, freeze, new_ref
from weft.sharding import reshard

if TYPE_CHECKING:
    from weft.runtime.array import Array
    from weft.typing import ArrayLike, DTypeLike


def when(condition: ArrayLike) -> Callable[[Callable[[], Any]], None]:
    """Decorate a function, which takes nothing and returns None, to be called if condition holds.

    condition: a Python bool, decided while tracing, or a traced boolean scalar.

    >>> import weft
    >>> pl = weft.pallas
    >>> def kernel(out):
    ...     out[pl.program_id(0)] = 0
    ...     @pl.when(pl.program_id(0) == 1)
    ...     def _():
    ...         out[1] = 7
    >>> pl.pallas_call(kernel, weft.ShapeDtypeStruct((3,), "int32"), grid=3)()
    Array([0, 7, 0], dtype=int32)
    """

    def run(body: Callable[[], Any]) -> None:
        if isinstance(condition, bool):
            if condition:
                body()
            return

        def checked() -> None:
            out = body()
            if out is not None:
                raise TypeError(
                    f"when: {getattr(body, '__name__', 'the function')} returns a value; it must "
                    "return None and write to refs"
                )

        cond(condition, checked, lambda: None)

    return run


def loop(
    lower: Any,
    upper: object,
    *,
    init_carry: object = None,
    step: ArrayLike = 1,
    unroll: int | bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Call body(i) for i in range(lower, upper, step), or body(i, carry) -> carry: a decorator.

    Returns the last carry (None without init_carry).

    >>> import weft
    >>> @weft.pallas.loop(0, 4, init_carry=0)
    ... def total(i, carry):
    ...     return carry + i
    >>> int(total)
    6
    """

    def run(body: Callable[..., Any]) -> Any:
        def turn(i: Array, carry: object) -> Any:
            if init_carry is not None:
                return body(lower + i * step, carry)
            body(lower + i * step)
            return None

        return fori_loop(0, cdiv(upper - lower, step), turn, init_carry, unroll=unroll)

    return run


def cdiv(a: object, b: Any) -> Any:
    """Return a / b rounded up: the number of blocks of b that cover a.

    >>> import weft
    >>> weft.pallas.cdiv(10, 4)
    3
    """
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return (a + (b - 1)) // b


def align_to(a: int, alignment: int) -> int:
    """Return the least multiple of alignment that is at least a.

    >>> import weft
    >>> weft.pallas.align_to(10, 4)
    12
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """Return the least power of 2 that is at least x; raises ValueError below 0.

    >>> import weft
    >>> weft.pallas.next_power_of_2(10)
    16
    """
    if x < 0:
        raise ValueError(f"next_power_of_2 needs a nonnegative integer, got {x}")
    return 1 << (x - 1).bit_length() if x else 1


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides, in elements.

    >>> import weft
    >>> weft.pallas.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    return row_major(shape)


def empty(shape: Sequence[int], dtype: DTypeLike | None, *, out_sharding: object = None) -> Any:
    """Return an array of unspecified values (zeros), with the sharding out_sharding if given.

    >>> import weft
    >>> weft.pallas.empty((2, 3), "float32").shape
    (2, 3)
    """
    zeros = full(shape, 0, dtype)
    if out_sharding is None:
        return zeros

    return reshard(zeros, out_sharding)


def empty_like(x: ArrayLike) -> Any:
    """Return a pytree of arrays of unspecified values like x.

    >>> import weft
    >>> weft.pallas.empty_like({"a": weft.numpy.ones(2)})["a"].shape
    (2,)
    """
    return tree_map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: Any) -> Any:
    """Return a ref of unspecified values with the shape, dtype and memory space of x.

    >>> import weft
    >>> weft.pallas.empty_ref_like(weft.numpy.ones(2)).shape
    (2,)
    """
    space = getattr(x, "memory_space", None)
    return new_ref(empty(x.shape, x.dtype), memory_space=space)


def broadcast_to(a: ArrayLike, shape: Sequence[int]) -> Any:
    """Return a repeated along new and size-1 dimensions.

    >>> import weft
    >>> weft.pallas.broadcast_to(weft.numpy.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return broadcast(a, tuple(shape))


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """1 / x; approx and full_range are hints.

    >>> import weft
    >>> weft.pallas.reciprocal(weft.numpy.float32(4))
    Array(0.25, dtype=float32)
    """
    return 1 / x


def dot(
    a: Any,
    b: ArrayLike,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: object = None,
) -> Any:
    """Return the matrix product of two rank-2 arrays, of which either may be transposed first.

    The result is float32 (int32 for integers), as hardware accumulates. allow_tf32: True is
    precision HIGH, False HIGHEST. Raises ValueError for other ranks, and where both are given.

    >>> import weft
    >>> weft.pallas.dot(weft.numpy.ones((2, 3)), weft.numpy.ones((4, 3)), trans_b=True).shape
    (2, 4)
    """
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("dot: give allow_tf32 or precision, not both")
        precision = "high" if allow_tf32 else "highest"
    for name, x in (("a", a), ("b", b)):
        if getattr(x, "ndim", None) != 2:
            raise ValueError(f"dot: {name} must have rank 2, got {x!r:.80}")
    dims = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    accumulate = "int32" if is_integer(a.dtype) else "float32"
    return dot_general(a, b, dims, precision=precision, preferred_element_type=accumulate)


def run_state(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """Make a function of arrays from one of refs: it runs f on refs of them; returns their values.

    >>> import weft
    >>> def double(ref):
    ...     ref[...] = ref[...] * 2
    >>> weft.pallas.run_state(double)(weft.numpy.arange(3))
    Array([0, 2, 4], dtype=int32)
    """

    def run(init: Array | tuple) -> Any:
        leaves, tree = flatten(init)
        refs: list[Ref] = [new_ref(x) for x in leaves]
        out = f(tree.unflatten(refs))
        if out is not None:
            raise TypeError("run_state: the function must return None and write to its refs")
        return tree.unflatten([freeze(r) for r in refs])

    return run


_TRANSCENDENTAL = frozenset(
    (
        *("exp", "exp2", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "logistic"),
        *("erf", "erf_inv", "pow", "sqrt", "rsqrt", "cbrt"),
    )
)


def estimate_cost(fun: Callable, *args: object, **kwargs: object) -> CostEstimate:
    """Return the cost of a function of arrays: an op an element, two for each product of a dot.

    The body of a loop counts as often as it runs, once where only the values say; of the branches
    of a cond the most expensive counts.

    >>> import weft
    >>> import weft.numpy as jnp
    >>> weft.pallas.estimate_cost(lambda x: jnp.exp(x) + 1, jnp.ones(4)).flops
    4
    """
    closed = make_jaxpr(fun)(*args, **kwargs)
    moved = sum(a.nbytes for a in (*closed.in_avals, *closed.out_avals))
    return CostEstimate(*_operations(closed), moved)


def _operations(jaxpr: Any) -> tuple[int, int]:
    """(flops, transcendental functions) of a jaxpr."""
    flops = transcendental = 0
    for eqn in open_jaxpr(jaxpr).eqns:
        name = eqn.primitive.name
        inner = [_operations(j) for _, j in subjaxprs(eqn.rule_params)]
        if name == "cond":
            inner = [max(inner, key=sum)]
        times = eqn.rule_params["length"] if name == "scan" else 1
        flops += times * sum(n for n, _ in inner)
        transcendental += times * sum(n for _, n in inner)
        if inner:
            continue
        size = sum(v.aval.size for v in eqn.outvars)
        if name in _TRANSCENDENTAL:
            transcendental += size
        elif name == "dot_general":
            (contracting, _), _ = eqn.rule_params["dimension_numbers"]
            flops += 2 * size * math.prod(eqn.invars[0].aval.shape[d] for d in contracting)
        elif eqn.primitive.sharding == "elementwise" and "axes" not in eqn.rule_params:
            flops += size
        elif name.startswith("reduce_"):
            flops += eqn.invars[0].aval.size
        elif (formula := lowering_formula(eqn)) is not None:
            more = _operations(formula)
            flops, transcendental = flops + more[0], transcendental + more[1]
    return flops, transcendental
