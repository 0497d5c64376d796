"""`python -m benchmarks`: measure weft against JAX and print one table of ratios."""

import argparse
import sys
from pathlib import Path

from benchmarks import harness, table
from benchmarks.bytecode import compile_weft
from benchmarks.case import CASES
from benchmarks.groups import GROUPS, load_groups


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="parts of 'group: case' names; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of cases that are decided")
    parser.add_argument("--library", choices=harness.LIBRARIES, help="measure one side only")
    parser.add_argument("--control", action="store_true", help="measure JAX against JAX")
    parser.add_argument("--write", type=Path, help="also write the table into this page")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    options = parser.parse_args()

    load_groups()
    order = sorted(CASES.values(), key=lambda case: GROUPS.index(case.group))
    names = [
        case.name
        for case in order
        if not options.pattern or any(p in f"{case.group}: {case.name}" for p in options.pattern)
    ]
    if options.list or not names:
        print("\n".join(f"{case.group}: {case.name}" for case in order))
        return 0 if options.list else 2

    live = sys.stderr.isatty()

    def progress(text: str) -> None:
        print(f"\r\033[K{text}" if live else text, end="" if live else "\n", file=sys.stderr)

    sides = (options.library,) if options.library else harness.LIBRARIES
    if options.control:
        sides = harness.CONTROL
    compile_weft()
    rows = harness.run(names, options.rounds, sides, progress)
    if live:
        print("\r\033[K", end="", file=sys.stderr)
    print(table.as_text(rows))
    if options.write and not options.pattern and sides == harness.LIBRARIES:
        table.write_between_markers(options.write, table.as_markdown(rows))
    return 1 if any(row.errors for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
