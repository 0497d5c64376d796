"""weft.stages: the types of a jitted function's stages, from tracing to the executable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from weft.core.namespace import seal
from weft.driver.ahead_of_time import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

CompilerOptions = dict[str, str | bool | int | float]
"""XLA's options by name, as `jit(compiler_options=...)` and `Lowered.compile` take them."""


@runtime_checkable
class Wrapped(Protocol):
    """The type of jitted functions: called, traced and lowered with the same arguments.

    >>> import weft
    >>> isinstance(weft.jit(abs), weft.stages.Wrapped)
    True
    """

    __call__: Callable[..., Any]

    def trace(self, *args: object, **kwargs: object) -> Traced:
        """Return the function traced for these arguments."""

    def lower(self, *args: object, **kwargs: object) -> Lowered:
        """Return the function lowered for these arguments."""


seal(globals())
