# Tests: tests/pallas/test_interpret.py
"""The values of `interpret=`."""

from __future__ import annotations

from dataclasses import dataclass

UNINITIALIZED = ("raise", "nan", "zero")


@dataclass(frozen=True, slots=True)
class InterpretParams:
    """How a kernel is interpreted: pallas_call(..., interpret=InterpretParams(...)).

    random_seed: of the order in which cores and copies take turns. detect_races: raise
    `DataRaceError` where accesses are not ordered by semaphores or barriers. uninitialized_memory:
    what reading what nobody wrote does: "raise" an error, or give "nan" (the largest value for
    integers) or "zero". check_semaphores: raise `SemaphoreError` if one is not 0 at the end.

    >>> import weft
    >>> weft.pallas.InterpretParams(random_seed=3).random_seed
    3
    """

    random_seed: int = 0
    detect_races: bool = True
    uninitialized_memory: str = "raise"
    check_semaphores: bool = True

    def __post_init__(self) -> None:
        if self.uninitialized_memory not in UNINITIALIZED:
            raise ValueError(
                f"InterpretParams: uninitialized_memory must be one of "
                f"{', '.join(map(repr, UNINITIALIZED))}, got {self.uninitialized_memory!r}"
            )


def as_params(interpret: bool) -> InterpretParams | None:
    """Return the parameters that `interpret=` gives; None if it is False."""
    if interpret is None or interpret is False:
        return None
    if interpret is True:
        return InterpretParams()
    if isinstance(interpret, InterpretParams):
        return interpret
    raise TypeError(f"interpret must be True, False or a pl.InterpretParams, got {interpret!r:.80}")
