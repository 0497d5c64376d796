# Tests: tests/driver/test_program_stages.py
"""dump_ir_to: the programs that are compiled, written to files stage by stage."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from weft.core.config import config
from weft.driver.program_stages import ProgramStages
from weft.runtime import backend

if TYPE_CHECKING:
    from weft.driver.program import Program

_numbers = itertools.count()


def dump_ir(program: Program) -> None:
    """Write the stages that dump_ir_modes names, each to a file of the folder dump_ir_to."""
    folder = Path(config.dump_ir_to)
    folder.mkdir(parents=True, exist_ok=True)
    process = f"process{backend.process_index()}_" if backend.process_count() > 1 else ""
    name = re.sub(r"[^\w.-]", "_", program.name)
    stages = ProgramStages(program, program.jaxpr)
    start = f"{process}{next(_numbers):06}_{name}"
    for mode in config.dump_ir_modes.split(","):
        (folder / f"{start}.{mode}.txt").write_text(f"{stages[mode]}\n")
