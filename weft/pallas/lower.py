# Tests: tests/pallas/api/test_call.py
"""From the kernel call to something that runs: a backend's code, or the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.api.callback import _lower
from weft.core.effects import DEBUG
from weft.core.ref import AbstractRef
from weft.core.trace import typeof
from weft.driver.execute import op_function
from weft.pallas.interpret.params import InterpretParams, as_params
from weft.pallas.interpret.run import run_call
from weft.pallas.ir import Backend, KernelCall, backends
from weft.pallas.op import pallas_call_p
from weft.pallas.split import let_split
from weft.runtime.device_put import device_put

if TYPE_CHECKING:
    from weft.lowering.context import RuleContext
    from weft.typing import ArrayLike

_HOMES = {"cpu": "weft.pallas.cpu", "cuda": "weft.pallas.gpu", "gpu": "weft.pallas.gpu"}


def backend_for(platform: str) -> Backend | None:
    """Return the platform's backend, loaded when first asked for."""
    if platform not in backends and platform in _HOMES and find_spec(_HOMES[platform]):
        import_module(_HOMES[platform])
    return backends.get(platform)


class Interpreted:
    """The host function that a program calls to run a kernel interpreted."""

    __slots__ = ("__name__", "call", "params", "label")

    def __init__(self, call: KernelCall, params: InterpretParams) -> None:
        self.call = call
        self.params = params
        self.label = "the interpreted kernel"
        self.__name__ = call.name

    def __call__(self, *operands: object) -> list:
        return run_call(self.call, [np.asarray(x) for x in operands], self.params)


def lower_kernel(ctx: RuleContext, call: KernelCall, operands: Sequence[Any]) -> list:
    """Emit a kernel call."""
    for i, aval in enumerate(ctx.avals_in):
        if isinstance(aval, AbstractRef):
            raise TypeError(
                f"kernel {call.name}: operand {i} is a {aval.str_short()} that belongs to another "
                "program; pass its value ref[...]"
            )
    outs = _emit(ctx, call.replace(sharding_rule=None, num_batch_dims=0), operands)
    let_split(ctx, call, outs, _emit)
    return outs


def _emit(ctx: RuleContext, call: KernelCall, operands: Sequence[Any]) -> list:
    """Return the call of a backend's code or of the interpreter."""
    params = as_params(call.interpret)
    platform = ctx.module.platforms[0]
    if params is None:
        backend = backend_for(platform)
        if backend is not None:
            return list(backend(ctx, call, *operands))
        if platform != "cpu":
            raise ValueError(
                f"kernel {call.name}: there is no backend of kernels for platform {platform!r}; "
                "run it interpreted: pallas_call(..., interpret=True)"
            )
        params = InterpretParams()
    return _interpreted(ctx, call, operands, params)


def _interpreted(
    ctx: RuleContext, call: KernelCall, operands: Sequence[Any], params: InterpretParams
) -> list:
    host: Any = Interpreted(call, params)
    return _lower(
        ctx,
        *operands,
        callback=host,
        out_avals=call.outputs,
        effect=DEBUG if call.prints else None,
        vmap_method=None,
        partitioned=False,
    )


def _is_spread(x: ArrayLike) -> bool:
    """Return whether an array lies on several devices."""
    sharding = getattr(x, "sharding", None)
    return sharding is not None and len(sharding.device_set) > 1


def run_eagerly(args: Sequence[Any], call: KernelCall) -> list:
    """Run a kernel call on concrete arrays."""
    params = as_params(call.interpret)
    if params is None or any(_is_spread(x) for x in args):
        run = call.memo("eager", lambda: op_function(pallas_call_p, {"call": call}))
        return run(*args)
    outs = Interpreted(call, params)(*(np.asarray(x, typeof(x).dtype) for x in args))
    return [device_put(o) for o in outs]
