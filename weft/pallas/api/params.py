# Tests: tests/pallas/test_bad_input.py
"""Parameters of kernels beside their arrays: options of backends, names, costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.core.config import config
from weft.pallas.api.mesh import SEMANTICS
from weft.pallas.interpret.params import as_params

if TYPE_CHECKING:
    from weft.pallas.ir import KernelCall


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of a kernel, for profiles and schedules."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


@dataclass(frozen=True, slots=True)
class CompilerParams:
    """Parameters of backends. dimension_semantics: "parallel" or "arbitrary" for each grid axis.

    num_threads: how many threads of the CPU to use at most. wait_limit: seconds after which a wait
    or a loop that looks for what others do ends with an error, on the CPU if no core has signalled,
    copied or come to a barrier; 0: never; None: weft.config.pallas_wait_limit. num_warps,
    num_stages: of a GPU.
    """

    dimension_semantics: tuple[str, ...] | None = None
    num_threads: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    wait_limit: float | None = None


def param(params: object, name: str, default: object = None) -> Any:
    """Return a field of compiler_params, which may be a dict or an object."""
    value = params.get(name) if isinstance(params, Mapping) else getattr(params, name, None)
    return default if value is None else value


def semantics(call: KernelCall) -> dict[int, str]:
    """Return the semantics that compiler_params give to the grid's dimensions; none to vmap's."""
    words = param(call.compiler_params, "dimension_semantics", ())
    return {call.num_batch + k: _word(s) for k, s in enumerate(words)}


def _word(entry: str) -> str:
    """Return the name of an entry of dimension_semantics, a string or a member of an enum."""
    return str(entry).lower().split(".")[-1]


def kernel_options(label: str, *, name: object, rank: int = 0, **options: Any) -> dict[str, Any]:
    """Return the options of a kernel as fields of its call; raises for those that cannot be meant.

    rank: of its grid.
    """
    debug, compiler_params = options["debug"], options["compiler_params"]
    cost_estimate, metadata = options["cost_estimate"], options["metadata"]
    as_params(options["interpret"])
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{label}: name must be a string or None, got {name!r:.80}")
    if debug is not None and not isinstance(debug, bool):
        raise TypeError(f"{label}: debug must be True, False or None, got {debug!r:.80}")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"{label}: metadata must be a dict or None, got {metadata!r:.80}")
    if cost_estimate is not None and not hasattr(cost_estimate, "flops"):
        raise TypeError(
            f"{label}: cost_estimate must be a pl.CostEstimate or None, got {cost_estimate!r:.80}"
        )
    limit = param(compiler_params, "wait_limit", 0)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < 1e9:
        raise ValueError(
            f"{label}: compiler_params: wait_limit must be seconds, 0 for none, got {limit!r}"
        )
    for field in ("num_threads", "num_warps", "num_stages"):
        count = param(compiler_params, field, 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(
                f"{label}: compiler_params: {field} must be an int of at least 1, got {count!r}"
            )
    axes = param(compiler_params, "dimension_semantics", ())
    if rank and axes and (len(axes) != rank or {_word(s) for s in axes} - set(SEMANTICS)):
        raise ValueError(
            f"{label}: compiler_params: dimension_semantics must give one of "
            f"{', '.join(SEMANTICS)} for each of the {rank} axes of the grid, got {axes!r}"
        )
    return options


def settings(debug: bool | None, compiler_params: object) -> dict[str, Any]:
    """Return the fields of a `KernelCall` that its options and the configuration give."""
    asked = bool(debug) or bool(config.pallas_enable_debug_checks)
    return {
        "debug": asked,
        "checked": asked or debug is None,
        "poison": config.pallas_poison_buffers,
        "wait_limit": float(param(compiler_params, "wait_limit", config.pallas_wait_limit)),
        "compiler_params": compiler_params,
    }
