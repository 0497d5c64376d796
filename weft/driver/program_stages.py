"""The stages of a lowered program, from jaxpr to optimized HLO, as text with source lines."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft._xla import mlir
from weft.core.config import STAGES as NAMES
from weft.core.jaxpr import ClosedJaxpr
from weft.core.printer import print_jaxpr
from weft.driver.use_partitioner import partitioned_stages
from weft.partition.report.communication import module_text
from weft.partition.report.source_lines import hlo_with_lines

if TYPE_CHECKING:
    from weft.driver.program import Program


class Stage:
    """One stage's text. `print(stage)`, `stage.diff()`, `stage.text(sources=True)`."""

    __slots__ = ("_make", "_texts", "name", "previous")

    def __init__(self, name: str, make: Callable, previous: Stage | None) -> None:
        self.name = name
        self.previous = previous
        self._make = make
        self._texts: dict[bool, str] = {}

    def text(self, *, sources: bool = False) -> str:
        """Return the stage's program; with `sources`, operations carry the user's file and line."""
        if sources not in self._texts:
            self._texts[sources] = self._make(sources)
        return self._texts[sources]

    def diff(self, other: Stage | None = None, *, context: int = 3) -> str:
        """Return a unified diff from another stage, by default the one before."""
        other = other or self.previous
        if other is None:
            return ""
        lines = difflib.unified_diff(
            str(other).splitlines(),
            str(self).splitlines(),
            other.name,
            self.name,
            "",
            "",
            context,
            "",
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<stage {self.name}: {len(str(self).splitlines())} lines>"


class ProgramStages:
    """`f.lower(*args).stages`: jaxpr, stablehlo, propagated, collectives, local, hlo, optimized.

    Stages are made when first looked at. A program of one device has nothing to propagate: its
    middle stages equal its StableHLO. `optimized` needs the devices; the others need none.
    """

    def __init__(self, program: Program, jaxpr: ClosedJaxpr) -> None:
        self._program = program
        self._jaxpr = jaxpr
        self._stages: dict[str, Stage] = {}
        previous = None
        for name in NAMES:
            make = getattr(self, f"_{name}_text")
            previous = self._stages[name] = Stage(name, make, previous)

    def __getattr__(self, name: str) -> Stage:
        try:
            return self.__dict__["_stages"][name]
        except KeyError:
            raise AttributeError(
                f"a program has no stage {name!r}; its stages are {', '.join(NAMES)}"
            ) from None

    def __getitem__(self, name: str) -> Stage:
        return self._stages[name]

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages.values())

    def __len__(self) -> int:
        return len(NAMES)

    def __repr__(self) -> str:
        return f"<stages of {self._program.name}: {', '.join(NAMES)}>"

    @cached_property
    def partitioned(self) -> Any:
        """`weft.partition.Stages` with every module kept, or None on one device."""
        if self._program.mesh is None or self._program.mesh.size == 1:
            return None

        return partitioned_stages(self._program)

    def _jaxpr_text(self, sources: bool) -> str:
        return print_jaxpr(self._jaxpr.jaxpr, source_info=sources)

    def _stablehlo_text(self, sources: bool) -> str:
        return module_text(self._program.module, sources)

    def _module(self, name: str) -> Any:
        stages = self.partitioned
        return self._program.module if stages is None else getattr(stages, name)

    def _propagated_text(self, sources: bool) -> str:
        return module_text(self._module("propagated"), sources)

    def _collectives_text(self, sources: bool) -> str:
        return module_text(self._module("collectives"), sources)

    def _local_text(self, sources: bool) -> str:
        return module_text(self._module("local"), sources)

    def _hlo_text(self, sources: bool) -> str:
        text = mlir.to_hlo_text(self._module("local"), metadata=sources)
        return hlo_with_lines(text) if sources else text

    def _optimized_text(self, sources: bool) -> str:
        text = self._program.compile().compiled.as_text()
        return hlo_with_lines(text) if sources else text
