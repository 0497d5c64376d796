"""Program keys: the placements and options that a jaxpr is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.core.config import config
from weft.runtime.device_put import default_sharding


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A compilation request; its tuples have an item for each flat argument or result.

    placed: shardings of the committed arguments, None for others. in_shardings, out_shardings: as
    the user gave them to jit, None where propagation decides. options: XLA's, by name. layouts: of
    arguments and of results, each None for the platform's own; None if all are.
    """

    name: str
    placed: tuple
    in_shardings: tuple
    out_shardings: tuple
    donated: tuple
    keep_unused: bool = False
    options: Mapping[str, Any] | None = None
    partitioner: str | None = None
    layouts: tuple | None = None

    def key(self, named: bool) -> tuple:
        """Returns the key under which a jaxpr keeps its program for this request.

        named: the program knows the names of its arguments and results, and keeps its module.
        """
        return (
            "program",
            named,
            self.name,
            self.placed,
            self.in_shardings,
            self.out_shardings,
            self.donated,
            self.keep_unused,
            tuple(sorted((k, _frozen(v)) for k, v in (self.options or {}).items())),
            self.partitioner,
            self.layouts,
            config.trace_key(),
            default_sharding() if not any(self.placed) else None,
        )


def _frozen(value: bool | int) -> Any:
    return tuple(value) if isinstance(value, list) else value
