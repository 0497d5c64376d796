"""The `weft` command: `weft explain FILE.py[:FUNCTION]` shows a program's communication.

The file runs as a script on virtual CPU devices; every program that it jits over more than one
device (or every one of FUNCTION's) is reported: its collectives, their cost, line and reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.partition.report.communication import CommReport


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status. What follows `--` is for the program."""
    words = list(sys.argv[1:] if argv is None else argv)
    cut = words.index("--") if "--" in words else len(words)
    parser = _parser()
    options = parser.parse_args(words[:cut])
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return options.run(options, words[cut + 1 :])
    except _UsageError as e:
        print(f"weft {options.command}: {e}", file=sys.stderr)
        return 2


MOST = 256
"""Virtual devices have threads of their own: more are slow to start and to end."""

_TOO_MANY = (
    f"at most {MOST} virtual devices. Larger meshes need none: in the file, lower the function for "
    "weft.ShapeDtypeStructs with shardings over a weft.sharding.AbstractMesh, as examples/plan.py"
)


class _UsageError(Exception):
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft", description="Looks at programs of weft.")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands")
    explain = commands.add_parser(
        "explain",
        help="run a file and show the communication of what it jits",
        description=(__doc__ or "").partition("\n\n")[2],
        epilog="What follows -- is passed to the program: weft explain train.py -- --steps 3",
    )
    explain.add_argument(
        "file", metavar="FILE.py[:FUNCTION]", help="or a module: examples.cnn[:FUNCTION]"
    )
    explain.add_argument("--devices", type=int, help="virtual devices (default: the mesh's, or 8)")
    explain.add_argument("--mesh", help="mesh in context while the file runs: data=4,model=2")
    explain.add_argument("--hardware", help="cpu, a100, h100, h200, b200, tpu_v5p, tpu_v5e, …")
    explain.add_argument("--html", metavar="OUT", help="write the report as one HTML page")
    explain.add_argument(
        "--stage", action="append", default=[], help="also print a stage, such as local"
    )
    explain.set_defaults(command="explain", run=_explain)
    # What a package uses of JAX, without running it.
    compat = commands.add_parser(
        "compat", help="list the names of JAX that a package or file uses and weft lacks"
    )
    compat.add_argument("place", metavar="PACKAGE_OR_PATH")
    compat.set_defaults(command="compat", run=lambda options, rest: _compat(options.place))
    # All that follows the script or module is its own, flags too: hence REMAINDER.
    start = commands.add_parser(
        "launch",
        help="start a program as several processes that join one group",
        description="Starts a program as several processes on this machine, or joins it to those "
        "that Slurm, Open MPI, torchrun or a Kubernetes indexed job starts. The program calls "
        "weft.distributed.initialize().",
        usage="weft launch [-n N] [--devices-per-process D] [--restarts R] [--elastic MIN] "
        "SCRIPT.py | -m MODULE [ARGUMENTS …]",
    )
    start.add_argument("-n", "--processes", type=int, help="how many to start on this machine")
    start.add_argument("--devices-per-process", type=int, help="virtual CPU devices of each")
    start.add_argument(
        "--restarts", type=int, default=0, help="start again so often after failures"
    )
    start.add_argument(
        "--elastic", type=int, metavar="MIN", help="restart with one process fewer, down to MIN"
    )
    start.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    start.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    start.set_defaults(command="launch", run=_launch)
    # For reading after a hang; needs no devices.
    again = commands.add_parser(
        "replay", help="go through the calls of processes that hung, from a watchdog's dump"
    )
    again.add_argument("dump", metavar="DUMP")
    again.set_defaults(command="replay", run=lambda options, rest: _replay(options.dump))
    env = commands.add_parser("env", help="versions and devices, to paste into a bug report")
    env.set_defaults(command="env", run=lambda options, rest: _env())
    return parser


def _compat(target: str) -> int:
    from weft.compat.used_names import report

    try:
        print(report(target))
    except FileNotFoundError as e:
        raise _UsageError(str(e)) from None
    return 0


def _launch(options: argparse.Namespace, rest: list[str]) -> int:
    from weft.launch import launch

    module = ["-m", *options.module] if options.module else []
    program = [*module, *options.program, *(["--", *rest] if rest else [])]
    if not program:
        raise _UsageError("which program? weft launch -n 2 train.py")
    try:
        return launch(
            program,
            processes=options.processes,
            devices_per_process=options.devices_per_process,
            restarts=options.restarts,
            elastic=options.elastic,
        )
    except ValueError as e:
        raise _UsageError(str(e).removeprefix("weft launch: ")) from None


def _replay(dump: str) -> int:
    from weft.runtime.replay import ReplayError, describe

    try:
        text, same = describe(dump)
    except ReplayError as e:
        raise _UsageError(str(e)) from None
    print(text)
    return 0 if same else 1


def _env() -> int:
    from weft.debug.env import describe

    print(describe())
    return 0


def parse_mesh(text: str) -> dict[str, int]:
    """`data=4,model=2` → {'data': 4, 'model': 2}."""
    axes: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([^\W\d]\w*)\s*=\s*(\d+)\s*", part)
        if match is None or int(match[2]) < 1:
            raise _UsageError(f"--mesh {text!r}: write NAME=SIZE,NAME=SIZE, as in data=4,model=2")
        if match[1] in axes:
            raise _UsageError(f"--mesh {text!r}: axis {match[1]!r} is there twice")
        axes[match[1]] = int(match[2])
    return axes


def _check(options: argparse.Namespace) -> tuple[str, str]:
    """Return the program and the function to explain; raise for options that would fail later."""
    from weft.driver.program_stages import NAMES
    from weft.partition.cost import hardware

    path, _, function = options.file.partition(":")
    if os.path.isdir(path):
        raise _UsageError(f"{path!r} is a folder; name a file in it")
    if not os.path.isfile(path) and not _is_module(path):
        raise _UsageError(f"there is no file {path!r}, nor a module of that name")
    try:
        hardware(options.hardware)
    except ValueError as e:
        raise _UsageError(f"--hardware: {e}") from None
    for name in options.stage:
        if name not in NAMES:
            raise _UsageError(f"--stage {name}: there is none; the stages are {', '.join(NAMES)}")
    folder = os.path.dirname(options.html or "") or "."
    if not os.path.isdir(folder):
        raise _UsageError(f"--html {options.html}: there is no folder {folder!r}; create it first")
    if options.devices is not None and options.devices < 1:
        raise _UsageError(f"--devices {options.devices}: give 1 or more")
    if (options.devices or 0) > MOST:
        raise _UsageError(f"--devices {options.devices}: {_TOO_MANY}")
    return path, function


def _is_module(name: str) -> bool:
    sys.path.insert(0, os.getcwd())
    try:
        spec = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) and importlib.util.find_spec(name)
        return spec is not None and bool(spec)
    except ImportError:
        return False
    finally:
        sys.path.remove(os.getcwd())


def _explain(options: argparse.Namespace, rest: list[str]) -> int:
    path, function = _check(options)
    axes = parse_mesh(options.mesh) if options.mesh else {}
    needed = math.prod(axes.values())
    devices = options.devices or (needed if axes else 8)
    if devices > MOST:
        raise _UsageError(f"--mesh {options.mesh}: {_TOO_MANY}")
    if needed > devices:
        raise _UsageError(f"--mesh {options.mesh} needs {needed} devices, --devices is {devices}")
    os.environ["WEFT_NUM_CPU_DEVICES"] = str(devices)

    import weft
    from weft.driver import program

    if weft.config.num_cpu_devices != devices:
        weft.config.update("num_cpu_devices", devices)
    if axes:
        weft.set_mesh(weft.make_mesh(tuple(axes.values()), tuple(axes)))
    programs: list[Any] = []
    program.observers.append(programs.append)
    try:
        status = _run(path, rest)
    finally:
        program.observers.remove(programs.append)
    if status:
        return status
    return _report(options, path, function, programs)


def _run(path: str, rest: list[str]) -> int:
    """Run a file or module as the main program; a status other than 0 where it failed."""
    from weft.core.boundary import filter_traceback

    argv, sys.argv = sys.argv, [path, *rest]
    folder = os.path.dirname(os.path.abspath(path))
    added = [folder, os.getcwd()] if os.path.isfile(path) else [os.getcwd()]
    sys.path[:0] = added
    try:
        if os.path.isfile(path):
            runpy.run_path(path, run_name="__main__")
        else:
            runpy.run_module(path, run_name="__main__", alter_sys=True)
    except SystemExit as e:
        if e.code not in (None, 0):
            print(f"weft explain: {path} exited with status {e.code}", file=sys.stderr)
            return e.code if isinstance(e.code, int) else 1
    except Exception as e:
        tb = e.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename in _RUNNERS:
            tb = tb.tb_next
        traceback.print_exception(type(e), e, filter_traceback(tb))
        print(f"weft explain: {path} failed", file=sys.stderr)
        if "number of CPU devices" in str(e):
            print("--mesh starts the devices: give --devices instead", file=sys.stderr)
        return 1
    finally:
        sys.argv = argv
        for entry in added:
            sys.path.remove(entry)
    return 0


_RUNNERS = (__file__, runpy.__file__, "<frozen runpy>")
_RESULT_NAMES = re.compile(r'jax\.result_info = "[^"]*"')


def _report(options: argparse.Namespace, path: str, function: str, programs: list) -> int:
    from weft.communication import program_report
    from weft.driver.program_stages import ProgramStages

    distinct = {(p.name, _RESULT_NAMES.sub("", str(p.module))): p for p in programs}
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
        read = [n for n, kept in zip(program.arg_names, program.kept, strict=True) if kept]
        report = program_report(program, stages, options.hardware, names=read)
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


def _print(report: CommReport) -> None:
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
