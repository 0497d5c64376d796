# Tests: tests/runtime/test_dispatch.py
"""Executables: compiled programs with the types and shardings of their arguments and results."""

from __future__ import annotations

import copy
import functools
import itertools
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._xla.arrays import result_handler
from weft._xla.compile import XlaRuntimeError
from weft._xla.dispatch import FastpathData
from weft.core import dtypes
from weft.core.caches import clearable
from weft.core.config import config
from weft.core.state import LAYOUTS
from weft.runtime import backend, calls, cpu_run_limit, host_calls
from weft.runtime.array import ArrayImpl
from weft.runtime.compile import LoadedExecutable, compile_module
from weft.runtime.device_put import shard_argument
from weft.runtime.shared_buffers import deleted_text, describe, release, second_owners
from weft.runtime.transfers import devices_text
from weft.sharding import named
from weft.sharding.text import mesh_sdy_text, mhlo_sharding_text, sdy_sharding_text

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.tree import PyTreeDef
    from weft.sharding.named import NamedSharding

_pending: list[Any] = []
"""Tokens of the runs with side effects that `effects_barrier` has not waited for."""

_pending_lock = threading.Lock()
_MAX_PENDING = 64


class Executable:
    """A loaded program that takes and returns flat lists of arrays.

    Args:
      compiled: what `compile_module` gave.
      in_avals, in_shardings: for each argument that the program takes (the kept ones).
      out_avals, out_shardings: for each result.
      donated: for each kept argument, whether its buffer is given up.
      kept_args: for each argument of `call`, whether the program takes it; None means all.
      committed: whether results are bound to their devices.
      arg_names: names of `call`'s arguments, for messages.
      has_side_effects: wait for a token of each run in `effects_barrier`.
      has_callbacks: the program calls Python functions.
    """

    __slots__ = (
        "arg_names",
        "_committed",
        "compiled",
        "donated",
        "donates",
        "handlers",
        "has_callbacks",
        "has_side_effects",
        "in_avals",
        "in_layouts",  # set where arguments lie otherwise than the platform's own arrays
        "in_shardings",
        "kept_args",
        "label",  # names the program to other processes
        "out_avals",
        "out_shardings",
        "log",  # of calls, where the program is over several processes
        "place",  # which of its runs `cpu_run_limit` counts
        "without_bits",  # the results that are zeros of dtype float0, which no device holds
        "xla",
    )

    def __init__(
        self,
        compiled: LoadedExecutable,
        in_avals: Sequence[Any],
        in_shardings: Sequence[Any],
        out_avals: Sequence[Any],
        out_shardings: Sequence[Any],
        donated: Sequence[bool] | None = None,
        kept_args: Sequence[bool] | None = None,
        *,
        committed: bool = True,
        arg_names: Sequence[str] | None = None,
        has_side_effects: bool = False,
        has_callbacks: bool = False,
    ):
        self.compiled = compiled
        self.xla = compiled.xla
        self.in_avals, self.in_shardings = tuple(in_avals), tuple(in_shardings)
        self.out_avals, self.out_shardings = tuple(out_avals), tuple(out_shardings)
        self.donated = tuple(donated) if donated else (False,) * len(self.in_avals)
        self.donates = any(self.donated)
        all_kept = kept_args is None or all(kept_args)
        self.kept_args = None if all_kept else tuple(kept_args or ())
        self.arg_names = None if arg_names is None else tuple(arg_names)
        self.has_side_effects = has_side_effects
        self.has_callbacks = has_callbacks
        self.place = cpu_run_limit.ELSEWHERE
        if not compiled.runs or len(compiled.devices[0].client.local_devices()) > 1:
            self.place = cpu_run_limit.place_of(compiled.xla)
        self.committed = committed
        self.log = _log_of(compiled.devices)
        self.label = compiled.name
        floats0 = [i for i, a in enumerate(self.out_avals) if a.dtype == dtypes.float0]
        self.without_bits = tuple(floats0)

    @property
    def committed(self) -> bool:
        return self._committed

    @committed.setter
    def committed(self, value: bool) -> None:
        self._committed = value
        self.handlers = [
            result_handler(aval, sharding, value)
            for aval, sharding in zip(self.out_avals, self.out_shardings, strict=True)
        ]

    def with_results_at(self, out_shardings: Sequence[Any]) -> Executable:
        """Return the executable with other shardings, which mean the same, for its results."""
        if self.out_shardings == tuple(out_shardings):
            return self
        other = copy.copy(self)
        other.out_shardings = tuple(out_shardings)
        other.committed = self.committed  # makes the handlers of results
        return other

    def call(self, args: Sequence[Any], noted: bool = False) -> list:
        """Run on flat arguments; host values and misplaced arrays are transferred first.

        Returns before the program has finished; the arrays wait when they are read.
        noted: the caller has told of a call over several processes already.

        Raises:
          ValueError: an argument is committed to other devices (both are named).
          RuntimeError: an argument has been deleted or donated.
        """
        if backend.forked:
            backend.refuse_forked()
        if config.no_execution:
            raise RuntimeError(
                f"{self.compiled.name} would run, but config.no_execution forbids it"
            )
        if self.kept_args is not None:
            args = [a for a, kept in zip(args, self.kept_args, strict=True) if kept]
        # An array in its place passes by identity of its sharding: no call, no comparison.
        placed = [
            a if type(a) is ArrayImpl and a._sharding is s else self._place(i, a, s)
            for i, (a, s) in enumerate(zip(args, self.in_shardings, strict=True))
        ]
        if self.donates:
            donated = list(itertools.compress(placed, self.donated))
            check_given_once(self.compiled.name, donated, placed)
            owners = second_owners(donated)
        if self.log is not None:
            calls.check()
            if not noted:
                self.log.note(self.label, calls.user_frame(sys._getframe(1)))
        try:
            if self.place or self.has_callbacks or self.has_side_effects:
                results = self._run_with_token(placed)
            else:
                results = self.xla.execute_sharded(placed)
        except (XlaRuntimeError, RuntimeError, ValueError) as error:
            self._explain(placed, error)
            explained = host_calls.explained(error, self.compiled)
            host_calls.note_sites(explained, self.compiled.keep_alive or ())
            if explained is not error:
                raise explained from None
            raise
        if self.donates:
            release(donated, owners)
        outs = results.consume_with_handlers(self.handlers)
        if self.without_bits:
            for i in self.without_bits:
                outs[i] = np.zeros(self.out_avals[i].shape, dtypes.float0)
        return outs

    def _run_with_token(self, placed: list) -> Any:
        devices = self.compiled.devices
        if self.place:
            if cpu_run_limit.inside.pending is not None:
                cpu_run_limit.check_in_callback(self.compiled)
            cpu_run_limit.make_room()
        if self.has_callbacks:
            cpu_run_limit.make_room_for_callbacks(devices)
        results = self.xla.execute_sharded(placed, with_tokens=True)
        token = results.consume_token()
        if self.place:
            cpu_run_limit.note(token)
        if self.has_callbacks:
            cpu_run_limit.note_callbacks(devices, token)
        if self.has_side_effects:
            keep_token(token)
        return results

    def _place(self, i: int, x: Any, sharding: Any) -> Any:
        if type(x) is ArrayImpl:
            if x.is_deleted():
                raise RuntimeError(f"{self._arg(i)}: {deleted_text(x)}")
            if x._committed and x._sharding.device_set != sharding.device_set:
                raise ValueError(
                    f"{self._arg(i)}, a {describe(x)} array, is committed to "
                    f"{devices_text(x._sharding)}, but {self.compiled.name} runs on "
                    f"{devices_text(sharding)}; move it with weft.device_put(x, sharding)"
                )
        return shard_argument(x, sharding)

    def _explain(self, placed: list, error: Exception) -> None:
        for i, x in enumerate(placed):
            if x.is_deleted():
                raise RuntimeError(f"{self._arg(i)}: {deleted_text(x)}") from error

    def _arg(self, kept: int) -> str:
        """Return how a message names the kept argument with this number."""
        position = kept
        if self.kept_args is not None:
            position = [i for i, k in enumerate(self.kept_args) if k][kept]
        if self.arg_names is not None and position < len(self.arg_names):
            label = self.arg_names[position]
            return f"argument {label if label.isdigit() else repr(label)} of {self.compiled.name}"
        return f"argument {position} of {self.compiled.name}"

    def in_place(self, args: Sequence[Any]) -> bool:
        """Tell whether the arguments over several devices are placed as the program wants them."""
        kept = args if self.kept_args is None else itertools.compress(args, self.kept_args)
        return all(
            x._sharding is s or x._sharding.num_devices == 1 or _same_parts(x, s)
            for x, s in zip((getattr(a, "_base", a) for a in kept), self.in_shardings, strict=True)
            if type(x) is ArrayImpl
        )

    def fastpath(
        self, out_tree: PyTreeDef, num_args: int, const_args: Sequence[Any] = ()
    ) -> FastpathData:
        """Return the data by which the C++ path runs this program, free of effects, without Python.

        ``out_tree`` is the result's tree in ``weft._xla.pytree.dispatch_registry``; ``num_args``
        the number of flat arguments; ``const_args`` come before them in ``in_shardings``.
        """
        kept = list(self.kept_args or (True,) * (len(const_args) + num_args))
        return FastpathData(
            xla_executable=self.xla,
            out_pytree_def=out_tree,
            in_shardings=list(self.in_shardings),
            out_shardings=list(self.out_shardings),
            out_avals=list(self.out_avals),
            out_committed=[self.committed] * len(self.out_avals),
            kept_var_bitvec=kept,
            in_device_local_layouts=[None] * len(self.in_shardings),
            const_args=list(const_args),
        )


class DescribedExecutable(Executable):
    """A program for described devices: it has a text and statistics, and cannot run."""

    __slots__ = ()

    def call(self, args: Sequence[Any], noted: bool = False) -> list:
        devices = self.compiled.devices
        raise RuntimeError(
            f"{self.compiled.name} is compiled for {len(devices)} × {devices[0].device_kind}, "
            "which weft.topologies describes and this process does not have: it can be read "
            "(.as_text(), .memory_analysis(), .cost_analysis()) but not called. Lower it for "
            "shardings over weft.devices() to run it here"
        )


def _log_of(devices: Sequence[Any]) -> calls.CallLog | None:
    """Return the log for calls of a program over several processes, None for others."""
    if backend.distributed_state["client"] is None:
        return None
    processes = tuple(sorted({d.process_index for d in devices}))
    return calls.log_of(processes) if len(processes) > 1 else None


def _same_parts(array: Any, sharding: NamedSharding) -> bool:
    array_sharding = array._sharding
    same_order = array_sharding._devices_in_order == sharding._devices_in_order
    return same_order and array_sharding.is_equivalent_to(sharding, len(array.aval.shape))


def check_given_once(name: str, donated: Sequence[Any], everything: Sequence[Any]) -> None:
    """Raise ValueError if a donated array stands twice among the arguments.

    XLA sees it when the program has started; over several CPU devices that ends the process
    (quirks.DONATED_TWICE).
    """
    alone = not any(hasattr(x, "_shared") for x in donated)
    if alone and len({*map(id, everything)}) == len(everything):
        return
    count: dict[int, int] = {}
    for x in everything:
        owner = id(getattr(x, "_shared", x))
        count[owner] = count.get(owner, 0) + 1
    for x in donated:
        times = count[id(getattr(x, "_shared", x))]
        if type(x) is ArrayImpl and times > 1:
            raise ValueError(
                f"{name}: a donated argument, the {describe(x)} array, stands in the call {times} "
                "times; its buffer can be given up once. Pass x.copy() in one place, or do not "
                "donate the argument"
            )


def keep_token(token: object) -> None:
    """Remember a run with side effects for `effects_barrier`."""
    pending = cpu_run_limit.inside.pending
    if pending is not None:
        pending.append(token)
        return
    with _pending_lock:
        _pending.append(token)
        waiting = _pending[:_MAX_PENDING] if len(_pending) > 2 * _MAX_PENDING else []
        del _pending[: len(waiting)]
    _wait(waiting)


def effects_barrier() -> None:
    """Wait until the side effects of all programs started so far (prints, callbacks) are done.

    In a callback: of those that this callback started. Raises what a callback raised.
    """
    pending = cpu_run_limit.inside.pending
    if pending is not None:
        waiting = list(pending)
        pending.clear()
    else:
        with _pending_lock:
            waiting = list(_pending)
            _pending.clear()
    _wait(waiting)


def _wait(tokens: Sequence[Any]) -> None:
    """Wait for all runs, then raise the first error."""
    failed: BaseException | None = None
    for token in tokens:
        try:
            token.block_until_ready()
        except (XlaRuntimeError, ValueError) as error:
            failed = failed or host_calls.explained(error)
    failed = failed or host_calls.late_failure()
    if failed is not None:
        raise failed


def reshard(
    x: Any,
    aval: ShapedArray,
    sharding: NamedSharding,
    donate: bool = False,
    named_source: NamedSharding | None = None,
) -> Any:
    """Return the array with another sharding over the same devices, moved by XLA's collectives.

    named_source: x's sharding before its parts were put in the order of `sharding`'s devices.
    """
    if LAYOUTS.in_use:
        from weft.runtime.memory_layouts import relaid

        x = relaid(x)
    program = _reshard_program(x.aval, x._sharding, aval, sharding, donate, named_source)
    return program.call([x])[0]


@clearable
@functools.lru_cache(maxsize=512)
def _reshard_program(
    in_aval: ShapedArray,
    in_sharding: Any,
    out_aval: ShapedArray,
    out_sharding: NamedSharding,
    donate: bool,
    named_source: NamedSharding | None = None,
) -> Executable:
    devices = out_sharding._devices_in_order
    ndim = len(in_aval.shape)
    shardings = (named_source or in_sharding, out_sharding)
    use_shardy = all(type(s) is named.NamedSharding for s in shardings)
    one_mesh = use_shardy and shardings[0].mesh.shape == out_sharding.mesh.shape
    one_mesh = one_mesh and shardings[0]._devices_in_order == devices
    meshes = ""
    if use_shardy:
        names = ("mesh", "mesh") if one_mesh else ("source", "target")
        attributes = [
            f"sdy.sharding = {sdy_sharding_text(s, ndim, mesh_name=n)}"
            for s, n in zip(shardings, names, strict=True)
        ]
        position = {d: i for i, d in enumerate(devices)}
        for name, s in dict(zip(names, shardings, strict=True)).items():
            order = [position[d] for d in s._devices_in_order]
            meshes += f"  sdy.mesh @{name} = {mesh_sdy_text(s.mesh, order)}\n"
    else:
        attributes = [
            f'mhlo.sharding = "{mhlo_sharding_text(s, ndim)}"' for s in (in_sharding, out_sharding)
        ]
    donor = ", jax.buffer_donor = true" if donate else ""
    from weft._xla import mlir  # MLIR loads with the first program, not with the runtime

    tensor = str(mlir.tensor_type(in_aval.shape, in_aval.dtype))
    text = (
        f"module @reshard attributes {{mhlo.num_partitions = {len(devices)} : i32, "
        f"mhlo.num_replicas = 1 : i32}} {{\n{meshes}"
        f"  func.func public @main(%x: {tensor} {{{attributes[0]}{donor}}}) -> "
        f"({tensor} {{{attributes[1]}}}) {{\n    return %x : {tensor}\n  }}\n}}"
    )
    local = _partitioned(text) if one_mesh and config.partitioner != "xla" else None
    compiled = compile_module(
        local or text,
        devices,
        use_shardy=use_shardy,
        num_replicas=len(devices) if local else 1,
    )
    return Executable(compiled, [in_aval], [in_sharding], [out_aval], [out_sharding], [donate])


def _partitioned(text: str) -> Any:
    """Partition into each device's program by weft; None where it does not cover it."""
    from weft._xla import mlir
    from weft.partition import Unsupported, partition

    with mlir.context(), mlir.unknown_location():
        try:
            return partition(mlir.parse(text), keep_stages=False).local
        except Unsupported:
            return None
