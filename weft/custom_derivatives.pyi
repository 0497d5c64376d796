"""Types of weft.custom_derivatives, written by `make stubs` from the definitions."""

from collections.abc import Callable
from typing import Any

from weft.api.custom import CustomVJPPrimal as CustomVJPPrimal
from weft.api.custom import SymbolicZero as SymbolicZero
from weft.api.custom import custom_jvp as custom_jvp
from weft.api.custom import custom_vjp as custom_vjp
from weft.typing import Array as Array

def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function without closed-over tracers, and their values as extra arguments."""

def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that returns its output and its own backward function."""

def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Call a linear function that brings its own transpose."""

def zero_from_primal(val: Any, symbolic_zeros: bool = ...) -> Any:
    """Return the zero tangents of the values in a tree, as arrays or as `SymbolicZero`s."""
