# Tests: tests/bucketing/test_call.py
"""A jaxpr of padded sizes, evaluated so that each value begins with the value at the true sizes.

The invariant: a value at the padded sizes, cut to the true ones, is the value that the function has
at the true sizes; what is beyond is arbitrary. An operation whose result depends on what is beyond
gets a mask from its rule (`weft/bucketing/rules.py`), or is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft import lax
from weft.autodiff.shape import broadcast_in_dim
from weft.autodiff.zeros import full
from weft.bucketing.numbers import EqnSlots, JaxprSlots
from weft.core.errors import BucketError
from weft.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, open_jaxpr
from weft.core.state import state
from weft.core.trace import typeof
from weft.ops.dtype_casts import convert_element_type_p

Size = Any
"""None for a dimension that is the same at the true and padded sizes, or a scalar, its true size"""


class Case:
    """An equation with operands of padded sizes, for a rule to evaluate."""

    def __init__(
        self, padded: Padded, eqn: Eqn, slots: EqnSlots, ins: list, shapes: Sequence[tuple]
    ) -> None:
        self.padded, self.eqn, self.slots, self.ins = padded, eqn, slots, ins
        self.operand_slots = shapes
        self.dims = [padded.sizes(s) for s in shapes]
        self.params: dict[str, Any] = eqn.rule_params
        self.out_dims = [padded.sizes(s) for s in slots.shapes]
        self.out_shapes = [getattr(v.aval, "shape", ()) for v in eqn.outvars]

    @property
    def is_padded(self) -> bool:
        """Whether anything of the equation depends on the sizes."""
        shapes = (*self.dims, *self.out_dims)
        return any(s is not None for d in shapes for s in d) or bool(self.varying_params())

    def varying_params(self) -> list[str]:
        """Return the params with numbers that depend on the sizes."""
        return [n for n, s in self.slots.params.items() if self.padded.varies(s)]

    def allow(self, *names: str) -> None:
        """Refuse the equation if other params than these depend on the sizes."""
        rest = set(self.varying_params()) - set(names)
        if rest:
            raise self.refused(f"its {', '.join(sorted(rest))} depends on the bucketed size")

    def number(self, name: str, *path: int) -> Any:
        """Return a number in a param: an int, or a scalar where it depends on the sizes."""
        value, slot = self.params[name], self.slots.params[name]
        for i in path:
            value, slot = value[i], slot[i]
        return self.padded.scalar(slot) if slot in self.padded.varying else value

    def size(self, i: int, dim: int) -> Any:
        """Return the true size of an operand's dimension."""
        true_size = self.dims[i][dim]
        return self.ins[i].shape[dim] if true_size is None else true_size

    def masked(self, i: int, dims: Sequence[int], fill: Callable[[Any], Any]) -> Any:
        """Operand i with fill(dtype) beyond the true sizes of these dimensions."""
        return masked(self.ins[i], self.dims[i], dims, fill)

    def bind(self, *ins: object, **changes: object) -> Any:
        """Bind the primitive on operands of padded sizes."""
        return self.eqn.primitive.bind(*ins, **{**self.params, **changes})

    def plain(self) -> Any:
        """Bind the primitive on the operands as they are."""
        return self.bind(*self.ins)

    def refused(self, why: str) -> BucketError:
        """Return the error that names the operation and its line."""
        source = self.eqn.source
        where = f" ({source.short()})" if source is not None and source.file else ""
        return BucketError(
            f"jit of {self.padded.name}: {self.eqn.primitive.name}{where} cannot run on padded "
            f"arguments: {why}. Leave the dimension out of bucket, or compute this part for "
            "unpadded arguments, in a function of its own"
        )


def masked(x: Any, sizes: Sequence[Size], dims: Sequence[int], fill: Callable) -> Any:
    """Return x with fill(dtype) beyond the true sizes of these dimensions."""
    for d in dims:
        if sizes[d] is None:
            continue
        position = lax.iota("int32", x.shape[d])
        inside = broadcast_in_dim(lax.lt(position, sizes[d]), x.shape, (d,))
        x = lax.select(inside, x, full(x.shape, fill(typeof(x).dtype), typeof(x).dtype))
    return x


def _is_equal(numbers: Sequence[Any], a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return math.prod(numbers[s] for s in a) == math.prod(numbers[s] for s in b)


class Padded:
    """Evaluates jaxprs of padded sizes; `varying` are the slots that depend on the true sizes."""

    def __init__(
        self,
        name: str,
        varying: frozenset[int],
        numbers: dict[int, Any],
        example: Sequence[Any],
    ) -> None:
        self.name, self.varying, self.numbers = name, varying, numbers
        self.example = example  # all numbers at true sizes for which the program is made
        self.equal: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        """Products of slots that rules found to be equal: a program holds only where they are."""

    def agree(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        """Return whether two products of slots are equal, which later sizes must confirm."""
        self.equal.append((a, b))
        return _is_equal(self.example, a, b)

    def agrees_with(self, numbers: Sequence[Any]) -> bool:
        """Tell whether products that rules compared are equal, or not, for these numbers too."""
        return all(_is_equal(numbers, a, b) == _is_equal(self.example, a, b) for a, b in self.equal)

    def varies(self, slots: object) -> bool:
        """Return whether any of nested slots depends on the sizes."""
        if isinstance(slots, tuple):
            return any(map(self.varies, slots))
        if isinstance(slots, JaxprSlots):
            return (
                self.varies((*slots.shapes, *slots.consts, *slots.outs))
                or any(self.varies((*e.literals, *e.shapes)) for e in slots.eqns)
                or any(self.varies(tuple(e.params.values())) for e in slots.eqns)
            )
        return slots in self.varying

    def scalar(self, slot: int) -> Any:
        """Return the number of a slot at the true sizes."""
        return self.numbers[slot]

    def sizes(self, slots: tuple[int, ...]) -> tuple[Size, ...]:
        """Return the true sizes of dimensions."""
        return tuple([self.numbers[s] if s in self.varying else None for s in slots])

    def jaxpr(self, jaxpr: Jaxpr | ClosedJaxpr, slots: JaxprSlots, args: Sequence[Any]) -> list:
        """Return the results at padded sizes."""
        from weft.bucketing.rules import apply

        inner = open_jaxpr(jaxpr)
        consts = jaxpr.consts if isinstance(jaxpr, ClosedJaxpr) else ()
        values = [
            self.numbers[s] if s in self.varying else c
            for c, s in zip(consts, slots.consts, strict=True)
        ]
        bound = [*inner.constvars, *inner.invars]
        env: dict[Any, Any] = dict(zip(bound, [*values, *args], strict=True))
        shapes: dict[Any, tuple] = dict(zip(bound, slots.shapes, strict=True))

        def read(v: object, slot: int | None) -> Any:
            if not isinstance(v, Literal):
                return env[v]
            if slot not in self.varying:
                return v.val
            return convert_element_type_p.bind(
                self.numbers[slot], new_dtype=v.aval.dtype, weak_type=v.aval.weak_type
            )

        before = state.source
        try:
            for eqn, eqn_slots in zip(inner.eqns, slots.eqns, strict=True):
                state.source = eqn.source
                ins = [read(v, s) for v, s in zip(eqn.invars, eqn_slots.literals, strict=True)]
                case = Case(self, eqn, eqn_slots, ins, [shapes.get(v, ()) for v in eqn.invars])
                env.update(zip(eqn.outvars, apply(case), strict=True))
                shapes.update(zip(eqn.outvars, eqn_slots.shapes, strict=True))
        finally:
            state.source = before
        return [read(v, s) for v, s in zip(inner.outvars, slots.outs, strict=True)]
