# Tests: tests/test_export.py
"""Which native code an exported program may call, and what one allows beyond that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._xla.mlir import ir
from weft.ops.linalg import lapack

_OF_XLA = frozenset(
    (
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"),
        *("annotate_device_placement", "Eigh", "LuDecomposition", "Qr"),
        "ProductOfElementaryHouseholderReflectors",
    )
)
"""Calls that XLA itself takes apart, and keeps."""


class DisabledSafetyCheck:
    """A check of `export` that is left out; make one with `platform` or `custom_call`.

    >>> from weft.export import DisabledSafetyCheck
    >>> DisabledSafetyCheck.custom_call("my_kernel")
    DisabledSafetyCheck.custom_call('my_kernel')
    """

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allow calls on other platforms than those that the function was exported for.

        >>> from weft.export import DisabledSafetyCheck
        >>> DisabledSafetyCheck.platform()
        DisabledSafetyCheck.platform()
        """
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allow native code of this name, which has to be registered where the program runs.

        >>> from weft.export import DisabledSafetyCheck
        >>> DisabledSafetyCheck.custom_call("my_kernel").is_custom_call()
        'my_kernel'
        """
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """Return the target that the check allows, or None."""
        kind, _, target = self._impl.partition(":")
        return target if kind == "custom_call" else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        target = self.is_custom_call()
        constructor = "platform()" if target is None else f"custom_call({target!r})"
        return f"DisabledSafetyCheck.{constructor}"


def custom_calls(module: ir.Module) -> list[str]:
    """Return the names of the native code that a module calls, in order."""
    targets: dict[str, None] = {}

    def note(op: ir.Operation) -> Any:
        if op.name == "stablehlo.custom_call":
            targets[op.attributes["call_target_name"].value] = None
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    return list(targets)


def check_custom_calls(
    api: str, module: ir.Module, disabled: Sequence[DisabledSafetyCheck]
) -> None:
    """Raise ValueError for native code that later versions need not have."""
    allowed = _OF_XLA | {c.is_custom_call() for c in disabled}
    wrong = [
        t for t in custom_calls(module) if t not in allowed and not lapack.PORTABLE.fullmatch(t)
    ]
    if wrong:
        raise ValueError(
            f"{api} calls native code that need not be there, or mean the same, where it is "
            f"loaded: {', '.join(map(repr, wrong))}. To export it nevertheless, pass "
            f"disabled_checks=[DisabledSafetyCheck.custom_call({wrong[0]!r})]"
        )
