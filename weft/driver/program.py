"""From a jaxpr to an executable: shardings, lowering, partitioning, compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft._xla.client import platform_of
from weft._xla.sharding import from_proto
from weft.autodiff.dce import dce_closed
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.effects import INSPECT
from weft.core.events import LOWERED, measured
from weft.core.jaxpr import ClosedJaxpr, Literal, walk_eqns
from weft.core.source import warn
from weft.core.state import LAYOUTS
from weft.driver.devices import choose_devices, committed_sharding, inner_shardings, on_mesh
from weft.driver.program_key import Request
from weft.driver.result_memories import in_other_memory
from weft.lowering import call_device
from weft.lowering.module import lower_module
from weft.lowering.sharding import fixed_by_type
from weft.runtime import backend
from weft.runtime.array import ArrayImpl
from weft.runtime.compile import compile_module
from weft.runtime.cpu_joint_failure import executable_class
from weft.runtime.device_put import constant_at
from weft.runtime.executable import DescribedExecutable, Executable
from weft.sharding.common_mesh import axes_in
from weft.sharding.mesh import Mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.physical import SingleDeviceSharding, from_hlo
from weft.sharding.spec import PartitionSpec

observers: list[Callable[[Program], None]] = []
"""Called with every lowered program of a user's function; `weft explain` listens here."""

LARGE = 256
"""Constants of more elements are passed to the program as arguments instead of compiled in."""


@dataclass(slots=True, eq=False)
class Program:
    """A lowered program: the module and what is needed to compile and call it.

    All per-argument lists stand for the flat arguments of the jaxpr, hoisted constants first.
    """

    name: str
    jaxpr: ClosedJaxpr
    consts: list
    arg_names: list[str]  # before those that the program does not read are dropped
    kept: list[bool]
    donated: list[bool]
    devices: tuple
    mesh: Any
    in_shardings: list
    out_shardings: list
    asked: list  # out_shardings as the user gave them, over any mesh
    platforms: tuple[str, ...]
    use_shardy: bool
    placed: bool  # something that it reads or returns names devices: results are committed
    options: Mapping[str, Any] | None = None
    module: Any = None
    host_callbacks: list = field(default_factory=list)
    keepalives: list = field(default_factory=list)
    inspections: list = field(default_factory=list)
    has_marks: bool = False  # whether operations are marked for weft/native
    diverges: bool = False  # on CPU devices, with axes left to a partitioner
    stages: Any = None
    executable: Executable | None = None
    layouts: tuple | None = None  # of what it reads and of its results, where some are asked for

    @property
    def effects(self) -> Any:
        return self.jaxpr.effects

    @property
    def partitions(self) -> int:
        """How many devices it is for; an abstract mesh tells it without any."""
        return len(self.devices) or self.mesh.size


def physical(aval: Any) -> Any:
    """The aval of the array that holds values of an extended dtype."""
    if isinstance(aval, ShapedArray) and dtypes.is_extended(aval.dtype):
        return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
    return aval


# Lowering ---------------------------------------------------------------------------------------


def hoist_consts(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list]:
    """Large constants, and those with parts on other processes, as leading arguments."""
    if not closed.consts:
        return closed, []
    big = [
        isinstance(c, ArrayImpl) and (c.size > LARGE or not c.is_fully_addressable)
        for c in closed.consts
    ]
    big = [
        b or (isinstance(c, np.ndarray) and c.size > LARGE and c.dtype != dtypes.float0)
        for b, c in zip(big, closed.consts, strict=True)
    ]
    if not any(big):
        return closed, []
    j = closed.jaxpr
    hoisted = [v for v, b in zip(j.constvars, big, strict=True) if b]
    kept = [v for v, b in zip(j.constvars, big, strict=True) if not b]
    inner = j.replace(constvars=kept, invars=[*hoisted, *j.invars])
    return (
        ClosedJaxpr(inner, [c for c, b in zip(closed.consts, big, strict=True) if not b]),
        [c for c, b in zip(closed.consts, big, strict=True) if b],
    )


def lower_program(
    closed: ClosedJaxpr,
    request: Request,
    *,
    platforms: Sequence[str] | None = None,
    arg_names: Sequence[str] = (),
    result_names: Sequence[str] = (),
    hoist: bool = True,
) -> Program:
    """Lowers a jaxpr for the devices its arguments and shardings name.

    hoist: large constants are arguments of the program, not part of its module.
    """
    name, partitioner = request.name, request.partitioner
    program = _placed(closed, request, arg_names, result_names, hoist)
    program.options = request.options
    if platforms:
        program.platforms = tuple(platforms)
    if partitioner is None:
        partitioner = config.partitioner
    by_xla = partitioner == "xla" or not program.use_shardy
    with measured(LOWERED, name):
        _emit(program, result_names, by_xla and _loses_sums(program))
    _tell(program, True)
    for observe in observers:
        observe(program)
    if program.partitions > 1 and (not by_xla or program.diverges):
        from weft.driver.use_partitioner import partition_program

        partition_program(program, partitioner)
        if program.stages is None and _loses_sums(program):
            _emit(program, result_names, True)
            _tell(program, False)
    return program


def _tell(program: Program, tells: bool) -> None:
    """Calls what asked where values are placed, and takes its marks out of the program."""
    if program.inspections:
        from weft.driver.inspect_sharding import tell

        tell(program, tells)


XLA_HANDS_ON = frozenset(
    (
        *("add", "add_any", "sub", "neg", "mul", "div", "dot_general", "reduce_sum", "select_n"),
        *("reshape", "transpose", "broadcast_in_dim", "squeeze", "slice", "rev", "concatenate"),
        *("pad", "convert_element_type", "copy", "reshard", "sharding_constraint", "jit"),
    )
)
"""Ops through which XLA's partitioner passes partial sums; in others, such as gathers, loops and
complex numbers, it loses parts (jaxlib 0.10.2)."""


def _loses_sums(program: Program) -> bool:
    """Whether XLA's partitioner would lose parts of partial sums that the types show.

    Raises ValueError where it would also end the process, and where nothing holds the parts.
    """
    found = [
        (e, [_is_partial(v.aval) for v in e.invars], v.aval)
        for e in walk_eqns(program.jaxpr)
        for v in e.outvars
        if _is_partial(v.aval) or any(_is_partial(v.aval) for v in e.invars)
    ]
    loses = any(e.primitive.name not in XLA_HANDS_ON for e, _, _ in found)
    made = [a for e, ins, a in found if e.primitive.name == "reshard" and not any(ins)]
    crossing = [a for a in (*program.jaxpr.in_avals, *program.jaxpr.out_avals) if _is_partial(a)]
    for aval in crossing:
        if aval.sharding.mesh.auto_axes:
            raise ValueError(
                f"{program.name}: XLA's partitioner takes and returns no partial sums, "
                f"{aval.str_short()}, beside mesh axes of type Auto; use partitioner='weft', or "
                "add them up: weft.reshard(x, P(...)) without unreduced axes"
            )
    if loses:
        made += program.jaxpr.out_avals
    for aval in made:
        if _is_partial(aval) and dtypes.is_complex(aval.dtype):
            raise ValueError(
                f"{program.name}: XLA's partitioner cannot make partial sums of complex numbers, "
                f"{aval.str_short()}, of whole values; use partitioner='weft', or add them up: "
                "weft.reshard(x, P(...)) without unreduced axes"
            )
    return loses


def _is_partial(aval: Any) -> bool:
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and bool(sharding.spec.unreduced)


def _placed(
    closed: ClosedJaxpr,
    request: Request,
    arg_names: Sequence[str],
    result_names: Sequence[str],
    hoist: bool,
) -> Program:
    """The program, not lowered yet: what it reads, its devices and all placements, checked."""
    closed, used = dce_closed(closed)
    closed, consts = hoist_consts(closed) if hoist else (closed, [])
    n = len(consts)
    name, out_shardings = request.name, request.out_shardings
    arg_shardings = [None] * n + list(request.placed)
    in_shardings = [None] * n + list(request.in_shardings)
    donated = [False] * n + list(request.donated)
    names = [f"constant {i}" for i in range(n)] + (
        [f"argument {a}" for a in arg_names]
        or [f"argument {i}" for i in range(len(in_shardings) - n)]
    )
    every_name = [n.removeprefix("argument ") for n in names]
    kept = [True] * (n + len(used)) if request.keep_unused else [True] * n + used

    def keep(xs: Sequence[Any]) -> list:
        return [x for x, k in zip(xs, kept, strict=True) if k]

    j = closed.jaxpr
    for who, asked, have, var in zip(names, in_shardings, arg_shardings, j.invars, strict=True):
        if misplaced(var.aval, asked, have):
            text = f"in_shardings asks for {asked!r}"
            raise misplaced_error(name, who, var.aval, text, have)
    closed = ClosedJaxpr(j.replace(invars=keep(j.invars)), closed.consts)
    given = keep(
        [i if i is not None else s for i, s in zip(in_shardings, arg_shardings, strict=True)]
    )
    names = keep(names)
    out_names = [f"result {r or i}" for i, r in enumerate(result_names)]
    out_names = out_names or [f"result {i}" for i in range(len(out_shardings))]
    explicit = [a.sharding if isinstance(a, ShapedArray) else None for a in closed.in_avals]
    devices, mesh = choose_devices(
        name,
        [*given, *out_shardings],
        [*inner_shardings(closed), *(e for e in explicit if e is not None)],
        names + out_names,
        arg_shardings,
    )
    for i, own in enumerate(committed_sharding(c) for c in consts):  # they stay where they can
        given[i] = own if own is not None and own.device_set == set(devices) else None
    if len(devices) > 1 and mesh is None:
        mesh = Mesh(np.array(devices, dtype=object), ("devices",))
    program = Program(
        name=name,
        jaxpr=closed,
        consts=consts,
        arg_names=every_name,
        kept=kept,
        donated=keep(donated),
        devices=devices,
        mesh=mesh,
        in_shardings=given,
        out_shardings=in_other_memory(closed, given, out_shardings),
        asked=list(out_shardings),
        platforms=(platform_of(devices[0]) if devices else "cpu",),
        use_shardy=bool(config.use_shardy),
        placed=any(s is not None for s in (*given, *out_shardings, *inner_shardings(closed))),
    )
    if request.layouts is not None:
        ins, outs = request.layouts
        program.layouts = keep([*[None] * n, *ins]), list(outs)
    if LAYOUTS.in_use:
        _keep_constrained(program)
    _put_on_mesh(program)
    for s, a, who in zip(
        [*program.in_shardings, *program.out_shardings],
        [*closed.in_avals, *closed.out_avals],
        names + out_names,
        strict=True,
    ):
        if s is not None and isinstance(a, ShapedArray):
            _check_divides(s, a, who, name)
    return program


def _keep_constrained(program: Program) -> None:
    """Gives results the layouts that the program constrains them to, where none are asked for."""
    jaxpr = program.jaxpr.jaxpr
    made = {
        e.outvars[0]: e.params["layout"]
        for e in jaxpr.eqns
        if e.primitive.name == "layout_constraint" and not e.params["layout"].is_row_major
    }
    own = [None if isinstance(v, Literal) else made.get(v) for v in jaxpr.outvars]
    if any(own):
        ins, outs = program.layouts or ([None] * len(jaxpr.invars), [None] * len(own))
        program.layouts = ins, [o or x for o, x in zip(outs, own, strict=True)]


def _put_on_mesh(program: Program) -> None:
    """Says all shardings in terms of the program's mesh; on one device, where there is one.

    Without a mesh, one device needs none but those that name another memory.
    """

    def placed(shardings: Sequence[Any], avals: Sequence[Any]) -> list:
        if program.partitions == 1 and not isinstance(program.mesh, Mesh):
            return [s if getattr(s, "other_memory", None) else None for s in shardings]
        return [
            on_mesh(s if s is not None else fixed_by_type(a), program.mesh, a.ndim)
            for s, a in zip(shardings, avals, strict=True)
        ]

    program.in_shardings = placed(program.in_shardings, program.jaxpr.in_avals)
    program.out_shardings = placed(program.out_shardings, program.jaxpr.out_avals)


def _emit(program: Program, result_names: Sequence[str], whole_sums: bool) -> None:
    """Lowers the program to StableHLO; whole_sums: without partial sums inside it."""
    aliases, donors = _aliases(program)
    multi = program.partitions > 1
    lowered = lower_module(
        program.jaxpr,
        program.name,
        num_partitions=program.partitions,
        platforms=program.platforms,
        mesh=program.mesh if multi else None,
        device=program.devices[0] if program.devices else None,
        in_shardings=program.in_shardings,
        out_shardings=program.out_shardings,
        donated=donors,
        aliases=aliases,
        arg_names=[n for n, k in zip(program.arg_names, program.kept, strict=True) if k],
        result_names=result_names,
        use_shardy=program.use_shardy,
        whole_sums=whole_sums,
        compiler_options=tuple(sorted((program.options or {}).items())),
    )
    program.module = lowered.module
    if program.layouts is not None:
        from weft.runtime.layouts import set_layouts

        set_layouts(program.module, program.layouts)
    program.host_callbacks = lowered.host_callbacks
    program.keepalives = lowered.keepalives
    program.inspections = lowered.inspections
    program.has_marks = lowered.has_marks
    program.diverges = lowered.parts_diverge and "cpu" in program.platforms


def misplaced(aval: Any, asked: Any, have: Any) -> bool:
    """Whether an argument is committed to another placement on the devices asked for.

    Moving it is communication, which the user has to write. Other devices: see choose_devices.
    """
    if asked is None or have is None or asked is have or asked.device_set != have.device_set:
        return False
    return not have.is_equivalent_to(asked, physical(aval).ndim)


def misplaced_error(name: str, who: str, aval: Any, asked: str, have: Any) -> ValueError:
    return ValueError(
        f"{name}: {who} of type {aval.str_short()} has sharding {have!r}, but {asked}; move it "
        "with weft.device_put(x, sharding), or ask for the sharding it has"
    )


def _check_divides(sharding: Any, aval: Any, who: str, name: str) -> None:
    try:
        if isinstance(sharding, NamedSharding):
            sharding.check_rank(aval.shape, who)
        sharding.shard_shape(aval.shape)
    except ValueError as e:
        raise type(e)(f"{name}: {who} of type {aval.str_short()}: {e}") from None


def _aliases(program: Program) -> tuple[dict[int, int], list[bool]]:
    """Donated arguments matched to results of equal type and sharding; others stay donors.

    On one device an argument in a memory of its own is no donor: XLA (0.10.2) would use its buffer
    for a result in another memory, and end the process.
    """
    free: dict[Any, list[int]] = {}
    in_layouts, out_layouts = program.layouts or ([None] * len(program.donated), None)
    out_layouts = out_layouts or [None] * len(program.out_shardings)
    one = len(program.devices) <= 1  # all placements are the same, but for the memory
    memories = set()
    for i, (a, s) in enumerate(zip(program.jaxpr.out_avals, program.out_shardings, strict=True)):
        memories.add(_memory(s))
        s = _memory(s) if one else s
        key = (getattr(a, "shape", ()), physical(a).dtype, s, out_layouts[i])
        free.setdefault(key, []).append(i)
    aliases, donors = {}, [False] * len(program.donated)
    unused = []
    for i, (a, s, d) in enumerate(
        zip(program.jaxpr.in_avals, program.in_shardings, program.donated, strict=True)
    ):
        if not d:
            continue
        key = (a.shape, physical(a).dtype, _memory(s) if one else s, in_layouts[i])
        candidates = free.get(key, [])
        if candidates and (s is not None or one):
            aliases[i] = candidates.pop(0)
        else:
            donors[i] = not one or memories <= {_memory(s)}
            if one and donors[i]:
                unused.append(a.str_short())
    if unused:
        warn(
            f"{program.name}: donated buffers of types {', '.join(unused)} match no result, "
            "which could take their memory"
        )
    return aliases, donors


def _memory(sharding: Any) -> str:
    return getattr(sharding, "memory_kind", None) or "device"


def _check_processes(program: Program) -> None:
    """Compares what is about to be compiled with the other processes' programs."""
    from weft.core.printer import print_jaxpr
    from weft.runtime.divergence import check_same_program

    asked = [
        f"in_shardings={[str(s) for s in program.in_shardings]}",
        f"out_shardings={[str(s) for s in program.out_shardings]}",
        f"donated={program.donated}, options={sorted((program.options or {}).items())}",
    ]
    lines = print_jaxpr(program.jaxpr, source_info=True).split("\n")
    check_same_program(program.name, [*lines, *asked], program.devices)


def compile_program(program: Program) -> Executable:
    """Compiles a lowered program for its devices."""
    if program.executable is not None:
        return program.executable
    if not program.devices:
        raise ValueError(
            f"{program.name} was lowered for the abstract mesh {program.mesh}, which has no "
            "devices; compile it for a weft.sharding.Mesh of the same axes"
        )
    multi = len(program.devices) > 1
    if multi and backend.distributed_state["client"] is not None:
        _check_processes(program)
    local = program.stages is not None and program.stages.local is not None
    module = program.stages.local if local else program.module
    module = call_device.settle(program, module, local)
    if program.has_marks and config.native_ops and (local or not multi):
        from weft.native.rewrite import rewrite

        module = rewrite(module)
    if program.layouts is not None and local:
        from weft.runtime.layouts import set_layouts

        set_layouts(module, program.layouts)
    compiled = compile_module(
        module,
        program.devices,
        use_shardy=program.use_shardy,
        # weft's per-device program talks between replicas, so XLA has nothing left to partition.
        num_replicas=len(program.devices) if local else 1,
        name=program.name,
        compiler_options=program.options,
        propagate_to_outputs=[s is None for s in program.out_shardings] or [False]
        if multi and not local
        else [False],
        propagate_to_parameters=[s is None for s in program.in_shardings] or [False]
        if multi and not local
        else [False],
        host_callbacks=program.host_callbacks,
        keep_alive=program.keepalives,
        trusted=_is_wefts_own(program.jaxpr),
    )
    if local:
        ins, outs = program.stages.in_shardings, program.stages.out_shardings
        ins = [s or f for s, f in zip(program.in_shardings, ins, strict=True)]
        outs = [s or f for s, f in zip(program.out_shardings, outs, strict=True)]
    else:
        ins = _final(program, program.in_shardings, program.jaxpr.in_avals, compiled, "parameter")
        outs = _final(program, program.out_shardings, program.jaxpr.out_avals, compiled, "output")
    outs = [
        _as_asked(asked, a, _on_typed_mesh(a, s, asked))
        for asked, a, s in zip(program.asked, program.jaxpr.out_avals, outs, strict=True)
    ]
    donated = list(program.donated)
    if compiled.runs:
        program.consts = [constant_at(c, s) for c, s in zip(program.consts, ins, strict=False)]
        make = executable_class(program.keepalives, local)
    else:
        make = DescribedExecutable
    program.executable = make(
        compiled,
        [physical(a) for a in program.jaxpr.in_avals],
        ins,
        [_typed(physical(a), s) for a, s in zip(program.jaxpr.out_avals, outs, strict=True)],
        outs,
        donated,
        None if all(program.kept) else program.kept,
        committed=multi or program.layouts is not None,
        arg_names=program.arg_names,
        has_side_effects=bool(program.effects - {INSPECT}),
        has_callbacks=bool(program.host_callbacks),
    )
    if program.layouts is not None and compiled.runs:
        from weft.runtime.layouts import lay_out

        lay_out(program.executable)
    return program.executable


def _is_wefts_own(closed: ClosedJaxpr) -> bool:
    """Whether only weft's own rules lower the program: no native calls, files or rules of users."""
    modules = {getattr(p.lower, "__module__", "") for p in {e.primitive for e in walk_eqns(closed)}}
    foreign = ("weft.ffi", "weft.export")
    return all(m.startswith("weft.") and not m.startswith(foreign) for m in modules)


def _typed(aval: Any, sharding: Any) -> Any:
    if not isinstance(aval, ShapedArray):
        return aval
    return aval.update(sharding=type_sharding(sharding, aval.ndim))


def _on_typed_mesh(aval: Any, sharding: Any, asked: Any) -> Any:
    """The result's sharding over a mesh with the axis types that its own type has."""
    typed = getattr(aval, "sharding", None)
    if typed is None or type(sharding) is not NamedSharding:
        return sharding
    mesh = sharding.mesh
    if mesh.shape != typed.mesh.shape:
        if typed.mesh.auto_axes or axes_in(typed.mesh, mesh) is None:
            return sharding
        devices = mesh.devices.reshape(typed.mesh.axis_sizes)
        own = Mesh(devices, typed.mesh.axis_names, typed.mesh.axis_types)
        return typed.update(mesh=own, memory_kind=sharding.memory_kind)
    own = mesh.update(axis_types=typed.mesh.axis_types)
    # Which sums are due, out_shardings or the type say: beside Auto axes, XLA found the rest.
    sums = asked.spec if type(asked) is NamedSharding else typed.spec
    spec = sharding.spec.update(unreduced=sums.unreduced, reduced=sums.reduced)
    return sharding.update(mesh=own, spec=spec)


def _as_asked(asked: Any, aval: Any, found: Any) -> Any:
    """The result's sharding, over the mesh that the user named for it."""
    if type(asked) is not NamedSharding or type(found) is not NamedSharding:
        return found
    if asked.mesh.shape == found.mesh.shape or not isinstance(asked.mesh, Mesh):
        return found
    same = isinstance(found.mesh, Mesh) and asked.is_equivalent_to(found, physical(aval).ndim)
    return asked if same else found


def _final(
    program: Program, shardings: Sequence[Any], avals: Sequence[Any], compiled: Any, which: str
) -> list:
    """Shardings with the compiler's choices filled in."""
    if len(program.devices) == 1:
        # An array over a mesh of one device stays one, so that types keep their axes.
        on_mesh = program.mesh is not None
        free: Any = (
            NamedSharding(program.mesh, PartitionSpec())
            if on_mesh
            else SingleDeviceSharding(program.devices[0])
        )
        return [free if s is None else s for s in shardings]
    if all(s is not None for s in shardings):
        return list(shardings)
    chosen = compiled.parameter_shardings() if which == "parameter" else compiled.output_shardings()

    result = []
    for i, (s, a) in enumerate(zip(shardings, avals, strict=True)):
        if s is None:
            a = physical(a)
            hlo = from_proto(chosen[i]) if chosen else None
            s = (
                NamedSharding(program.mesh, PartitionSpec())
                if hlo is None
                else from_hlo(hlo, program.mesh, program.devices, a.ndim)
            )
        result.append(s)
    return result
