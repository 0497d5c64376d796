"""Arguments of NumPy's functions that weft's do not take: what is said about them."""

from __future__ import annotations

from typing import Any

from weft.core.errors import UnsupportedArgumentError

# What an argument means in NumPy and what to write instead; {f} is the function.
_REMEDIES = {
    "out": (
        "arrays are immutable, so out= cannot be written to; use the function's result, "
        "or x.at[index].set(...) to change a part of x"
    ),
    "where": (
        "where= leaves elements of out= as they were, and arrays are immutable; choose from the "
        "result: weft.numpy.where(condition, {f}(...), otherwise)"
    ),
    "order": (
        "order= is the layout in memory, which arrays do not show (XLA chooses it); leave it out"
    ),
    "casting": (
        "casting= is not needed, operands are converted to their common dtype "
        "(weft.numpy.result_type gives it); convert with x.astype(dtype) for another"
    ),
    "subok": "subok= has no meaning, arrays have no subclasses to keep; leave it out",
    "dtype": (
        "dtype= is not taken, results have the common dtype of the operands; convert operands "
        "with x.astype(dtype) to compute in another, or the result"
    ),
    "signature": (
        "signature= is not taken, the dtypes of the operands choose the computation; convert "
        "operands with x.astype(dtype)"
    ),
    "like": "like= is not needed, results are weft arrays; leave it out",
}
_REMEDIES["sig"] = _REMEDIES["signature"]


def refusal(function: str, argument: str) -> UnsupportedArgumentError:
    """Return the error for one of the arguments that only NumPy's functions have."""
    return UnsupportedArgumentError(f"{function}: {_REMEDIES[argument].format(f=function)}")


def refuse(
    function: str, parameters: tuple[str, ...], surplus: tuple, unknown: dict[str, Any]
) -> None:
    """Raise for arguments that the function does not take, saying what to do instead."""
    for name in unknown:
        if name in _REMEDIES:
            raise refusal(function, name)
    takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
    if unknown:
        name = next(iter(unknown))
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {takes}")
    if len(surplus) == 1:  # where NumPy's ufuncs take the array to write to
        raise refusal(function, "out")
    raise TypeError(
        f"{function}: got {len(parameters) + len(surplus)} positional arguments; {takes}"
    )


def refuse_out(name: str, out: object) -> None:
    """Raise if a function that has the parameter `out`, for NumPy's sake, is given one."""
    if out is not None:
        raise refusal(f"weft.numpy.{name}", "out")
