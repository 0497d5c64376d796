"""The `weft` command: `weft explain FILE.py[:FUNCTION]` shows a program's communication.

The file runs as a script on virtual CPU devices; every program that it jits over more than one
device (or every one of FUNCTION's) is reported: its collectives, their cost, line and reason.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from collections.abc import Sequence
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return options.run(options, rest)
    except _UsageError as e:
        print(f"weft {options.command}: {e}", file=sys.stderr)
        return 2


class _UsageError(Exception):
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description=__doc__.split("\n\n")[1])
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands")
    explain = commands.add_parser(
        "explain", help="run a file and show the communication of what it jits"
    )
    explain.add_argument("file", metavar="FILE.py[:FUNCTION]")
    explain.add_argument("--devices", type=int, help="virtual devices (default: the mesh's, or 8)")
    explain.add_argument("--mesh", help="mesh in context while the file runs: data=4,model=2")
    explain.add_argument("--hardware", default=None, help="cpu, h100, h200 or tpu_v5p")
    explain.add_argument("--html", metavar="OUT", help="write the report as one HTML page")
    explain.add_argument(
        "--stage", action="append", default=[], help="also print a stage, such as local"
    )
    explain.set_defaults(command="explain", run=_explain)
    env = commands.add_parser("env", help="versions and devices, to paste into a bug report")
    env.set_defaults(command="env", run=lambda options, rest: _env())
    return parser


def _env() -> int:
    from weft.debug.env import describe

    print(describe())
    return 0


def parse_mesh(text: str) -> dict[str, int]:
    """`data=4,model=2` → {'data': 4, 'model': 2}."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part)
        if match is None or int(match[2]) < 1:
            raise _UsageError(f"--mesh {text!r}: write NAME=SIZE,NAME=SIZE, as in data=4,model=2")
        axes[match[1]] = int(match[2])
    return axes


def _explain(options: argparse.Namespace, rest: list[str]) -> int:
    path, _, function = options.file.partition(":")
    if not os.path.isfile(path):
        raise _UsageError(f"there is no file {path!r}")
    axes = parse_mesh(options.mesh) if options.mesh else {}
    needed = 1
    for size in axes.values():
        needed *= size
    devices = options.devices or (needed if axes else 8)
    if needed > devices:
        raise _UsageError(f"--mesh {options.mesh} needs {needed} devices, --devices is {devices}")
    os.environ["WEFT_NUM_CPU_DEVICES"] = str(devices)

    import weft
    from weft.communication import program_report
    from weft.transforms import compiled
    from weft.transforms.program_stages import ProgramStages

    if weft.config.num_cpu_devices != devices:
        weft.config.update("num_cpu_devices", devices)
    if axes:
        weft.set_mesh(weft.make_mesh(tuple(axes.values()), tuple(axes)))
    programs: list[Any] = []
    compiled.observers.append(programs.append)
    argv, sys.argv = sys.argv, [path, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as e:
        if e.code not in (None, 0):
            raise
    finally:
        sys.argv = argv
        compiled.observers.remove(programs.append)

    distinct = {(p.name, str(p.module)): p for p in programs}
    chosen = [p for p in distinct.values() if function in ("", p.name)]
    if function and not chosen:
        names = ", ".join(sorted({p.name for p in programs})) or "none"
        raise _UsageError(
            f"{path} ran, but jitted no function {function!r}; it jitted: {names}. Call the "
            "function in the file, with arrays of the shapes you want explained"
        )
    if not function:
        chosen = [p for p in chosen if p.mesh is not None and p.mesh.size > 1]
    if not chosen:
        print(f"{path}: no program over more than one device")
        return 0
    for number, program in enumerate(chosen):
        stages = ProgramStages(program, program.jaxpr)
        report = program_report(program, stages, options.hardware)
        print(f"\n{program.name}")
        _print(report)
        for name in options.stage:
            print(f"\n{name} of {program.name}\n{stages[name]}")
        if options.html:
            out = options.html
            if len(chosen) > 1 and number:
                base, extension = os.path.splitext(out)
                out = f"{base}-{number}{extension}"
            report.to_html(out)
            print(f"wrote {out}")
    return 0


def _print(report: Any) -> None:
    if not sys.stdout.isatty():
        print(report)
        return
    try:
        from rich.console import Console
    except ImportError:
        print(report)
    else:
        Console().print(report)


if __name__ == "__main__":
    sys.exit(main())
