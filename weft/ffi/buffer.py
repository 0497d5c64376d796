"""buffer_callback: Python functions that read and write the buffers of a program in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.ffi import Buffer as Buffer
from weft._xla.ffi import ExecutionContext as ExecutionContext
from weft._xla.ffi import ExecutionStage as ExecutionStage
from weft.api.host_function import eager
from weft.core.boundary import api_boundary
from weft.core.config import config
from weft.core.source import function_name
from weft.core.tree import flatten
from weft.ffi.checks import alias_pairs, check_aliases, operand_types, result
from weft.ffi.op import check_vmap_method, ffi_call_p
from weft.ffi.rule import ShardingRule, as_rule
from weft.runtime.cpu_joint_failure import blank

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


class BufferFunction:
    """The user's function on the flat buffers of operands and results; equal only to itself."""

    __slots__ = ("__name__", "fun", "in_tree", "out_tree", "x64")

    def __init__(self, fun: Callable, in_tree: PyTreeDef, out_tree: PyTreeDef) -> None:
        self.fun, self.in_tree, self.out_tree = fun, in_tree, out_tree
        self.x64 = bool(config.enable_x64)
        self.__name__ = function_name(fun)

    def __call__(self, context: object, *buffers: object) -> tuple:
        split = self.in_tree.num_leaves
        args, kwargs = self.in_tree.unflatten(buffers[:split])
        outs = self.out_tree.unflatten(buffers[split:])
        with eager(self.x64):
            returned = self.fun(context, outs, *args, **kwargs)
        if returned is not None:
            raise ValueError(
                f"buffer_callback: {self.__name__} returned a {type(returned).__name__}; it must "
                "write its results into `out`, as in np.asarray(out)[...] = value, and return None"
            )
        return ()

    def write_blanks(self, context: object, *buffers: object) -> tuple:
        """Return placeholders for the results of a call that failed."""
        for out in buffers[self.in_tree.num_leaves :]:
            array = np.asarray(out)
            array.reshape(-1).view(np.uint8)[...] = blank(array.dtype)
        return ()

    def __repr__(self) -> str:
        return self.__name__


@api_boundary
def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: object,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
    sharding_rule: str | ShardingRule | None = None,
) -> Callable[..., Any]:
    """Return a function of arrays computed by Python code that works on the program's own buffers.

    callback(context, out, *args, **kwargs) gets an `ExecutionContext` and pytrees of `Buffer`s: out
    in the structure of result_shape_dtypes, to be written, and the arguments. A buffer is an array
    to NumPy on the CPU (`np.asarray(buffer)`, no copy), to `__cuda_array_interface__` users on the
    GPU, and to DLPack on both. Buffers are valid until the function returns; it returns None.

    input_output_aliases: number of a flat operand -> number of the flat result in the same memory.
    command_buffer_compatible: on the GPU, record what the function launches once and replay it.
    Other arguments as of `ffi_call`. Has no derivative.

    >>> import numpy as np
    >>> import weft
    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = weft.numpy.arange(3)
    >>> weft.ffi.buffer_callback(add_one, x)(x)
    Array([1, 2, 3], dtype=int32)
    """
    if not callable(callback):
        raise TypeError(f"buffer_callback: callback must be a function, got {callback!r:.100}")
    label = f"buffer_callback of {getattr(callback, '__name__', type(callback).__name__)}"
    check_vmap_method(label, vmap_method)
    specs, out_tree = flatten(result_shape_dtypes)
    results = tuple(result(label, i, r) for i, r in enumerate(specs))
    aliases = alias_pairs(label, input_output_aliases)
    # All of this is fixed before the first call; below is what depends on its arguments.
    rule = as_rule(sharding_rule)

    @api_boundary
    def call(*args: ArrayLike | tuple, **kwargs: object) -> Any:
        leaves, in_tree = flatten((args, kwargs))
        avals = operand_types(label, leaves)
        check_aliases(label, aliases, avals, results)
        fitted = None if rule is None else rule.fit(len(avals), len(results))
        if fitted is not None:
            fitted.sizes(avals, results, label)
        got = ffi_call_p.bind(
            *leaves,
            target=label,
            results=results,
            attributes=("dict", ()),
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_layouts=(None,) * len(avals),
            output_layouts=(None,) * len(results),
            aliases=aliases,
            api_version=4,
            legacy_config=None,
            sharding_rule=fitted,
            num_batch_dims=0,
            callback=(BufferFunction(callback, in_tree, out_tree), bool(command_buffer_compatible)),
        )
        return out_tree.unflatten(got)

    return call
