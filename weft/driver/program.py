# Tests: tests/driver/test_jit.py
"""A program: a jaxpr for given devices and shardings, from its placement to its executable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.client import platform_of
from weft.autodiff.dce import dce_closed
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.config import config
from weft.core.effects import INSPECT
from weft.core.events import DURATIONS, LOWERED, SPANS, UNMEASURED, measured
from weft.core.jaxpr import ClosedJaxpr, Literal, walk_eqns
from weft.core.state import LAYOUTS, MEMORIES
from weft.driver.devices import choose_devices, committed_sharding, inner_shardings, on_mesh
from weft.lowering.module import lower_module
from weft.lowering.sharding import fixed_by_type
from weft.runtime import backend
from weft.runtime.array import ArrayImpl
from weft.runtime.compile import LoadedExecutable, compile_module, estimate_costs
from weft.runtime.device_put import constant_at
from weft.runtime.executable import DescribedExecutable, Executable
from weft.runtime.transfers import default_sharding
from weft.sharding.mesh import CONTEXT, AbstractMesh, Mesh
from weft.sharding.named import NamedSharding, type_sharding
from weft.sharding.physical import on_device

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.driver.execute import Request
    from weft.driver.use_partitioner import Boundary

observers: list[Callable[[Program], None]] = []
"""Called with every lowered program of a user's function; `weft explain` listens here."""

SHORTEST = 32
"""Equations of a program from which its repeated blocks are looked for."""

LARGE = 256
"""Constants of more elements are passed to the program as arguments instead of compiled in."""


@dataclass(slots=True, eq=False)
class Program:
    """A jaxpr on its way to an executable: `place`, then `lower`, `partition` and `compile`.

    All per-argument lists stand for the flat arguments of the jaxpr, hoisted constants first.
    """

    name: str
    jaxpr: ClosedJaxpr
    consts: list
    arg_names: list[str]  # before those that the program does not read are dropped
    result_names: Sequence[str]
    kept: list[bool]
    donated: list[bool]
    devices: tuple
    mesh: Mesh | AbstractMesh | None
    in_shardings: list
    out_shardings: list
    asked: list  # out_shardings as the user gave them, over any mesh
    platforms: tuple[str, ...]
    use_shardy: bool
    partitioner: str
    placed: bool  # something that it reads or returns names devices: results are committed
    options: Mapping[str, Any] | None = None
    module: ir.Module | None = None
    host_callbacks: list = field(default_factory=list)
    keepalives: list = field(default_factory=list)
    inspections: list = field(default_factory=list)
    has_marks: bool = False  # whether operations are marked for weft/native
    whole: bool = False  # not to be compiled in pieces
    diverges: bool = False  # on CPU devices, with axes left to a partitioner
    stages: Boundary | None = None
    executable: Executable | None = None
    layouts: tuple | None = None  # of what it reads and of its results, where some are asked for
    # Threads that call a function first at the same time make one program.
    _making: threading.RLock = field(default_factory=threading.RLock)

    @property
    def effects(self) -> frozenset:
        return self.jaxpr.effects

    @property
    def partitions(self) -> int:
        """How many devices it is for; an abstract mesh tells it without any."""
        return len(self.devices) or (1 if self.mesh is None else self.mesh.size)

    @classmethod
    def place(
        cls,
        closed: ClosedJaxpr,
        request: Request,
        arg_names: Sequence[str] = (),
        result_names: Sequence[str] = (),
        *,
        hoist: bool = True,
    ) -> Program:
        """Return the program that is to be lowered: what it reads, its devices and shardings.

        hoist: large constants are arguments of the program, not part of its module.

        Raises ValueError for arguments that are committed elsewhere than in_shardings ask, for
        shardings on different devices, and for those that do not divide their values.
        """
        closed, used = dce_closed(closed)
        closed, consts = hoist_consts(closed) if hoist else (closed, [])
        n = len(consts)
        name, out_shardings = request.name, request.out_shardings
        # Hoisted constants are arguments in front, with neither sharding nor donation.
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
        for api, asked, have, var in zip(names, in_shardings, arg_shardings, j.invars, strict=True):
            if misplaced(var.aval, asked, have):
                text = f"in_shardings asks for {asked!r}"
                raise misplaced_error(name, api, var.aval, text, have)
        # Arguments that nothing reads are not passed, unless asked for.
        closed = ClosedJaxpr(j.replace(invars=keep(j.invars)), closed.consts)
        wanted = keep(
            [i if i is not None else s for i, s in zip(in_shardings, arg_shardings, strict=True)]
        )
        names = keep(names)
        out_names = [f"result {r or i}" for i, r in enumerate(result_names)]
        out_names = out_names or [f"result {i}" for i in range(len(out_shardings))]
        # Devices come from whatever names some: arguments, results, types, inner constraints.
        places = any([e.primitive.own_types for e in closed.jaxpr.eqns])
        inner = inner_shardings(closed) if places else []
        typed = [a.sharding for a in closed.in_avals if isinstance(a, ShapedArray) and a.sharding]
        devices: tuple
        mesh: Mesh | AbstractMesh | None
        if inner or typed or any([*wanted, *out_shardings]) or CONTEXT.value is not None:
            devices, mesh = choose_devices(
                name, [*wanted, *out_shardings], [*inner, *typed], names + out_names, arg_shardings
            )
        else:  # nothing names a place
            devices, mesh = default_sharding()._devices_in_order, None
        for i, home in enumerate(committed_sharding(c) for c in consts):  # they stay where they can
            wanted[i] = home if home is not None and home.device_set == set(devices) else None
        if len(devices) > 1 and mesh is None:
            mesh = Mesh(np.array(devices, dtype=object), ("devices",))
        results = list(out_shardings)
        if MEMORIES.in_use:
            from weft.driver.result_memories import in_other_memory

            results = in_other_memory(closed, wanted, out_shardings)
        program = cls(
            name=name,
            jaxpr=closed,
            consts=consts,
            arg_names=every_name,
            result_names=result_names,
            kept=kept,
            donated=keep(donated),
            devices=devices,
            mesh=mesh,
            in_shardings=wanted,
            out_shardings=results,
            asked=list(out_shardings),
            platforms=(platform_of(devices[0]) if devices else "cpu",),
            use_shardy=bool(config.use_shardy),
            partitioner=request.partitioner or config.partitioner,
            placed=any(s is not None for s in (*wanted, *out_shardings, *inner)),
            options=request.options,
        )
        # Layouts, constraints in other memories and the mesh change the finished program.
        if request.layouts is not None:
            ins, outs = request.layouts
            program.layouts = keep([*[None] * n, *ins]), list(outs)
        if LAYOUTS.in_use:
            program._keep_constrained()
        program._put_on_mesh()
        for s, a, value_name in zip(
            [*program.in_shardings, *program.out_shardings],
            [*closed.in_avals, *closed.out_avals],
            names + out_names,
            strict=True,
        ):
            if s is not None and isinstance(a, ShapedArray):
                _check_divides(s, a, value_name, name)
        return program

    def _keep_constrained(self) -> None:
        """Give results the layouts of their constraints, unless others are asked for."""
        jaxpr = self.jaxpr.jaxpr
        constraint_layouts = {
            e.outvars[0]: e.rule_params["layout"]
            for e in jaxpr.eqns
            if e.primitive.name == "layout_constraint" and not e.rule_params["layout"].is_row_major
        }
        result_layouts = [
            None if isinstance(v, Literal) else constraint_layouts.get(v) for v in jaxpr.outvars
        ]
        if any(result_layouts):
            ins, outs = self.layouts or ([None] * len(jaxpr.invars), [None] * len(result_layouts))
            self.layouts = ins, [o or x for o, x in zip(outs, result_layouts, strict=True)]

    def _put_on_mesh(self) -> None:
        """Say all shardings in terms of the program's mesh; on one device, where there is one.

        Without a mesh, one device needs none but those that name another memory.
        """

        def on(shardings: Sequence[Any], avals: Sequence[Any]) -> list:
            if self.partitions == 1 and not isinstance(self.mesh, Mesh):
                return [s if getattr(s, "other_memory", None) else None for s in shardings]
            return [
                on_mesh(s if s is not None else fixed_by_type(a), self.mesh, a.ndim)
                for s, a in zip(shardings, avals, strict=True)
            ]

        self.in_shardings = on(self.in_shardings, self.jaxpr.in_avals)
        self.out_shardings = on(self.out_shardings, self.jaxpr.out_avals)

    def lower(self) -> Program:
        """Emit the StableHLO module, once; over several devices, also partitions it."""
        with self._making:
            if self.module is None and self.executable is None:
                self._lower()
        return self

    def _lower(self) -> None:
        several = self.partitions > 1
        with measured(LOWERED, self.name) if DURATIONS or SPANS else UNMEASURED:
            self._emit(several and self._by_xla)
        self._tell_inspections(True)
        for observe in observers:
            observe(self)
        if several and (not self._by_xla or self.diverges):
            self.partition()

    @property
    def _by_xla(self) -> bool:
        return self.partitioner == "xla" or not self.use_shardy

    def partition(self) -> None:
        """Make the per-device program; XLA's partitioner gets what weft's does not cover."""
        from weft.driver.use_partitioner import partition_program

        partition_program(self, self.partitioner)
        if self.stages is None and not self._by_xla:
            self._emit(True)
            self._tell_inspections(False)

    def _tell_inspections(self, tells: bool) -> None:
        """Call what asked where values are placed, and take its marks out of the module."""
        if self.inspections:
            from weft.driver.inspect_sharding import tell

            tell(self, tells)

    def _emit(self, for_xla: bool) -> None:
        """Lower the jaxpr to StableHLO; for_xla: in the forms that XLA's partitioner has right."""
        whole_sums = False
        if for_xla:
            from weft.driver.partial_sums import loses_sums

            whole_sums = loses_sums(self)
        # XLA reuses a donated buffer for a result of its size, which must be named here.
        aliases: dict[int, int] = {}
        donors = self.donated
        if any(donors):
            from weft.driver.donated_buffers import match_results

            aliases, donors = match_results(self)
        lowered = lower_module(
            self.jaxpr,
            self.name,
            num_partitions=self.partitions,
            platforms=self.platforms,
            mesh=self.mesh if self.partitions > 1 else None,
            device=self.devices[0] if self.devices else None,
            in_shardings=self.in_shardings,
            out_shardings=self.out_shardings,
            donated=donors,
            aliases=aliases,
            arg_names=[n for n, k in zip(self.arg_names, self.kept, strict=True) if k],
            result_names=self.result_names,
            use_shardy=self.use_shardy,
            for_xla=for_xla,
            whole_sums=whole_sums,
            compiler_options=tuple(sorted((self.options or {}).items())),
        )
        # Calls with a partition function of the user's are split by it before anything else is.
        if lowered.partitioned_calls:
            from weft.driver.partitioned_calls import replace_calls

            replace_calls(lowered)
        self.module = lowered.module
        if self.layouts is not None:
            from weft.runtime.memory_layouts import set_layouts

            set_layouts(self.module, self.layouts)
        self.host_callbacks = lowered.host_callbacks
        self.keepalives = lowered.keepalives
        self.inspections = lowered.inspections
        self.has_marks = lowered.has_marks
        self.diverges = lowered.parts_diverge and "cpu" in self.platforms

    def compile(self) -> Executable:
        """Return the executable for the program's devices, compiled once.

        Raises ValueError for a program of an abstract mesh, which has no devices.
        """
        with self._making:
            if self.executable is None:
                self.executable = self._compile()
        return self.executable

    def forget_modules(self) -> None:
        """Free the modules of a compiled program, of which nobody can ask to see the stages."""
        self.module = self.stages = None

    def _compile(self) -> Executable:
        if not self.devices:
            raise ValueError(
                f"{self.name} was lowered for the abstract mesh {self.mesh}, which has no "
                "devices; compile it for a weft.sharding.Mesh of the same axes"
            )
        if config.dump_ir_to is not None:
            from weft.driver.dump_ir import dump_ir

            dump_ir(self)
        multi = len(self.devices) > 1
        label, check = self.name, None
        if multi and backend.distributed_state["client"] is not None:
            check = self._publish()
            if "cpu" not in self.platforms:
                label = check()  # compilers of other platforms may talk between processes
                check = None
        whole = multi or self.whole or len(self.jaxpr.eqns) < SHORTEST
        if not whole and config.repeated_blocks != "inline":
            from weft.driver.pieces import executable_of_pieces

            pieces = executable_of_pieces(self)
            if pieces is not None:
                return pieces
        local = self.stages is not None and self.stages.local is not None
        free = multi and not local  # XLA's partitioner chooses the shardings that are left open
        compiled = compile_module(
            self._module_to_compile(local),
            self.devices,
            use_shardy=self.use_shardy,
            # weft's per-device program talks between replicas, so XLA has nothing to partition.
            num_replicas=len(self.devices) if local else 1,
            name=self.name,
            compiler_options=self.options,
            propagate_to_outputs=(free and [s is None for s in self.out_shardings]) or [False],
            propagate_to_parameters=(free and [s is None for s in self.in_shardings]) or [False],
            host_callbacks=self.host_callbacks,
            keep_alive=self.keepalives,
            trusted=_is_wefts_own(self.jaxpr),
        )
        if check is not None:
            label = check()
        executable = self._executable(compiled, local)
        executable.label = label
        return executable

    def _publish(self) -> Callable[[], str]:
        """Tell the other processes of this program; return their check, which names it."""
        from weft.core.printer import print_jaxpr
        from weft.runtime.divergence import publish_program

        def print_lines(source_info: bool) -> list[str]:
            return [
                *print_jaxpr(self.jaxpr, source_info=source_info).split("\n"),
                f"in_shardings={[str(s) for s in self.in_shardings]}",
                f"out_shardings={[str(s) for s in self.out_shardings]}",
                f"donated={self.donated}, options={sorted((self.options or {}).items())}",
            ]

        return publish_program(self.name, print_lines, self.devices)

    def takes_kernels(self, local: bool) -> bool:
        """Tell whether native kernels replace operations, of which XLA counts no costs."""
        return self.has_marks and config.native_ops and (local or len(self.devices) == 1)

    def cost_analysis(self) -> dict[str, float] | None:
        """Estimate one device's costs as of the operations that kernels replace; None without."""
        local = self.stages is not None and self.stages.local is not None
        if not self.takes_kernels(local):
            return None
        return estimate_costs(self.stages.local if local and self.stages else self.module)

    def _module_to_compile(self, local: bool) -> ir.Module:
        """Prepare the module: calls of the host placed, native kernels chosen, layouts set."""
        module = self.stages.local if local and self.stages is not None else self.module
        if self.keepalives or self.host_callbacks:
            from weft.lowering.call_device import settle

            module = settle(self, module, local)
        if self.takes_kernels(local):
            from weft.native.rewrite import rewrite

            module = rewrite(module)
        if self.layouts is not None and local:
            from weft.runtime.memory_layouts import set_layouts

            set_layouts(module, self.layouts)
        return module

    def _executable(
        self, compiled: LoadedExecutable, local: bool, kind: Callable[..., Executable] = Executable
    ) -> Executable:
        """Return the compiled module with the types and shardings of its arguments and results."""
        out_avals = self.jaxpr.out_avals
        ins: Sequence[Any]
        outs: Sequence[Any]
        if len(self.devices) == 1 and self.mesh is None:
            sharding = on_device(self.devices[0])
            ins = [sharding if s is None else s for s in self.in_shardings]
            outs = [sharding if s is None else s for s in self.out_shardings]
            types = [physical(a) for a in out_avals]
        else:
            from weft.driver.final_shardings import final_shardings

            ins, outs = final_shardings(self, compiled, local)
            types = [_typed(physical(a), s) for a, s in zip(out_avals, outs, strict=True)]
        # Programs for machines that are not here are described, and raise where they are run.
        make: Callable[..., Executable] = DescribedExecutable
        if compiled.runs:
            # Constants move to their devices once, not at each call.
            self.consts = [constant_at(c, s) for c, s in zip(self.consts, ins, strict=False)]
            make = kind
            if self.keepalives:
                from weft.runtime.cpu_joint_failure import executable_class

                make = executable_class(self.keepalives, local)
        executable = make(
            compiled,
            [physical(a) for a in self.jaxpr.in_avals],
            ins,
            types,
            outs,
            list(self.donated),
            None if all(self.kept) else self.kept,
            committed=len(self.devices) > 1 or self.layouts is not None,
            arg_names=self.arg_names,
            has_side_effects=bool(self.effects - {INSPECT}),
            has_callbacks=bool(self.host_callbacks),
        )
        if self.layouts is not None and compiled.runs:
            from weft.runtime.memory_layouts import lay_out

            lay_out(executable)
        executable.committed = executable.committed or self.placed
        return executable


def physical(aval: ShapedArray) -> Any:
    """Return the aval of the array that holds values of an extended dtype."""
    if isinstance(aval, ShapedArray) and isinstance(aval.dtype, dtypes.ExtendedDType):
        return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
    return aval


def hoist_consts(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list]:
    """Move large constants, and those with parts on other processes, to leading arguments."""
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


def misplaced(aval: Any, asked: Any, have: Any) -> bool:
    """Return whether an argument is committed to another placement on the devices asked for.

    Moving it is communication, which the user has to write. Other devices: see choose_devices.
    """
    if asked is None or have is None or asked is have or asked.device_set != have.device_set:
        return False
    return not have.is_equivalent_to(asked, physical(aval).ndim)


def misplaced_error(name: str, api: str, aval: ShapedArray, asked: str, have: object) -> ValueError:
    return ValueError(
        f"{name}: {api} of type {aval.str_short()} has sharding {have!r}, but {asked}; move it "
        "with weft.device_put(x, sharding), or ask for the sharding it has"
    )


def _check_divides(sharding: NamedSharding, aval: ShapedArray, api: str, name: str) -> None:
    try:
        if isinstance(sharding, NamedSharding):
            sharding.check_rank(aval.shape, api)
        sharding.shard_shape(aval.shape)
    except ValueError as e:
        raise type(e)(f"{name}: {api} of type {aval.str_short()}: {e}") from None


def _is_wefts_own(closed: ClosedJaxpr) -> bool:
    """Tell whether weft's rules alone lower a program: no native calls, files or users' rules."""
    modules = {getattr(p.lower, "__module__", "") for p in {e.primitive for e in walk_eqns(closed)}}
    foreign = ("weft.ffi", "weft.export")
    return all(m.startswith("weft.") and not m.startswith(foreign) for m in modules)


def _typed(aval: object, sharding: object) -> Any:
    if not isinstance(aval, ShapedArray):
        return aval
    return aval.update(sharding=type_sharding(sharding, aval.ndim))
