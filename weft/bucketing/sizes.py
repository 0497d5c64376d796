# Tests: tests/bucketing/test_call.py
"""Sizes that arguments are padded to, and which dimensions of arguments have them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from weft.core.errors import ArgumentError
from weft.core.tree import PyTreeDef, broadcast_prefix

Rule = Callable[[int], int] | Sequence[int]
Dims = tuple[str | None, ...]


def powers_of_two(size: int) -> int:
    """Return the least power of two that is at least `size`, as `weft.jit(bucket=)` takes it.

    >>> import weft
    >>> [weft.powers_of_two(n) for n in (1, 5, 8, 1000)]
    [1, 8, 8, 1024]
    """
    return 1 << max(size - 1, 0).bit_length()


def check_rules(bucket: object, name: str) -> dict[str, Rule]:
    """Return the bucket argument, checked."""
    if not isinstance(bucket, dict) or not bucket:
        raise ArgumentError(
            f"jit of {name}: bucket must be a dict from names of dimensions to sizes, like "
            f"{{'n': weft.powers_of_two}}, got {bucket!r:.60}"
        )
    for key, rule in bucket.items():
        sizes = isinstance(rule, Sequence) and not isinstance(rule, str) and len(rule) > 0
        if not callable(rule) and not (sizes and all(type(s) is int and s > 0 for s in rule)):
            raise ArgumentError(
                f"jit of {name}: bucket[{key!r}] must be a function of a size, like "
                f"weft.powers_of_two, or a sequence of positive sizes, got {rule!r:.60}"
            )
    return dict(bucket)


def padded_size(rule: Rule, size: int, label: str) -> int:
    """Return a dimension's padded size. NumPy's rules treat 0 and 1 apart: they stay."""
    if size < 2:
        return size
    if callable(rule):
        result = rule(size)
        if type(result) is not int or result < size:
            raise ArgumentError(
                f"{label}: the bucket of size {size} must be an int of at least {size}, "
                f"its function gave {result!r}"
            )
        return result
    fitting = [s for s in rule if s >= size]
    if not fitting:
        raise ArgumentError(
            f"{label}: size {size} exceeds the largest bucket, {max(rule)}; add a larger size"
        )
    return min(fitting)


def _dims_of(spec: Any, ndim: int, label: str, names: Any) -> Dims:
    """Return the names of the dimensions of an argument with ndim dimensions."""
    if spec is None:
        return (None,) * ndim
    words = spec.strip("() ").replace(",", " ").split()
    if words and words[-1] == "...":
        words = [*words[:-1], *["_"] * (ndim - len(words) + 1)]
    if words and words[0] == "...":
        words = [*["_"] * (ndim - len(words) + 1), *words[1:]]
    if len(words) != ndim:
        raise ArgumentError(
            f"{label}: its shape is given as {spec!r}, of {len(words)} dimensions, but it has "
            f"{ndim}"
        )
    return tuple(w if w in names else None for w in words)


def _annotated_shape(hint: object) -> str | None:
    """Return the shape in an annotation: `Annotated[Array, 'n 4']`, or one of jaxtyping."""
    if get_origin(hint) is Annotated:
        return next((m for m in get_args(hint)[1:] if isinstance(m, str)), None)
    text = getattr(hint, "dim_str", None)
    return text if isinstance(text, str) else None


class ShapeNames:
    """The names of the dimensions of a function's arguments."""

    def __init__(self, fun: Callable, name: str, shapes: Any, names: Any) -> None:
        self.name, self.names, self.shapes = name, tuple(names), shapes
        if not (shapes is None or isinstance(shapes, str | tuple | list | dict)):
            raise ArgumentError(
                f"jit of {name}: bucket_shapes must be a string like 'n, _', a tuple of them "
                f"for the positional arguments or a dict by argument name, got {shapes!r:.60}"
            )
        try:
            self.parameters = list(inspect.signature(fun).parameters)
        except (TypeError, ValueError):
            self.parameters = []
        if shapes is None:
            try:
                hints = get_type_hints(fun, include_extras=True)
            except Exception:
                hints = dict(getattr(fun, "__annotations__", {}))
            self.shapes = {
                p: text for p in self.parameters if (text := _annotated_shape(hints.get(p)))
            }
            if not self.shapes:
                raise ArgumentError(
                    f"jit of {name}: bucket names dimensions {', '.join(map(repr, names))}, but "
                    "nothing says which dimensions of the arguments they are; give "
                    "bucket_shapes=, like ('n, _', None), or annotate the parameters, like "
                    "x: Annotated[weft.Array, 'n, _']"
                )

    def spec_of(self, where: int | str) -> Any:
        """Return the shapes that are given for an argument, by its position or keyword."""
        if isinstance(self.shapes, str):
            return self.shapes
        if isinstance(self.shapes, dict):
            if isinstance(where, int):
                where = self.parameters[where] if where < len(self.parameters) else ""
            return self.shapes.get(where)
        if isinstance(where, str):
            where = self.parameters.index(where) if where in self.parameters else len(self.shapes)
        return self.shapes[where] if where < len(self.shapes) else None

    def of(self, arguments: Sequence[tuple[int | str, PyTreeDef]], ranks: Sequence[int]) -> list:
        """Return the dimensions' names of all leaves of the arguments."""
        specs: list = []
        for where, tree in arguments:
            spec = self.spec_of(where)
            label = f"argument {where if isinstance(where, str) else self.label(where)}"
            api = f"jit of {self.name}: bucket_shapes of {label}"
            flat = broadcast_prefix(spec, tree, api, lambda x: x is None or isinstance(x, str))
            specs += [(s, label) for s in flat]
        for s, label in specs:
            if not (s is None or isinstance(s, str)):
                raise ArgumentError(
                    f"jit of {self.name}: bucket_shapes of {label} must be strings like 'n, _', "
                    f"got {s!r:.60}"
                )
        return [
            _dims_of(s, n, f"jit of {self.name}: {label}", self.names)
            for (s, label), n in zip(specs, ranks, strict=True)
        ]

    def label(self, where: int) -> str:
        """Return the name of a positional argument."""
        return self.parameters[where] if where < len(self.parameters) else str(where)
