# Tests: tests/test_export.py
"""Jitted functions as portable programs: `export` and `Exported`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
import weft.export.template as template
from weft._xla import mlir, portable
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.errors import UnsupportedArgumentError
from weft.core.jaxpr import eval_closed
from weft.core.trace import typeof
from weft.core.tree import flatten
from weft.driver.program import Program, physical
from weft.driver.staging import ShapeDtypeStruct
from weft.export.call import call_exported_p, on_exported_mesh
from weft.export.checks import DisabledSafetyCheck, check_custom_calls
from weft.export.symbolic import SymbolicScope
from weft.export.template import Symbolic
from weft.lowering.context import MARK
from weft.runtime.host_calls import CallSite
from weft.sharding.mesh import AbstractMesh
from weft.sharding.named import NamedSharding

if TYPE_CHECKING:
    from weft.driver.ahead_of_time import Traced

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
maximum_supported_calling_convention_version = 2
minimum_supported_calling_convention_version = 1


class Exported:
    """A function lowered for given types of arguments: made by `export` and `deserialize`.

    `fun_name`, `in_tree`, `in_avals`, `out_tree`, `out_avals`, `nr_devices`, `platforms`,
    `disabled_safety_checks` and `unordered_effects` say what it is; avals are flat. The program of
    a platform is StableHLO; where platforms differ, each has its own. `call` computes it.

    >>> import weft
    >>> exported = weft.export.export(weft.jit(weft.numpy.sin))(weft.numpy.ones(3))
    >>> exported.in_avals, exported.platforms, exported.nr_devices
    ((ShapedArray(float32[3]),), ('cpu',), 1)
    >>> exported.call(weft.numpy.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """

    calling_convention_version = maximum_supported_calling_convention_version
    ordered_effects: tuple = ()
    uses_global_constants = False

    def __init__(
        self,
        *,
        fun_name: str,
        in_tree: Any,
        out_tree: Any,
        in_types: Sequence[ShapedArray],
        out_types: Sequence[ShapedArray],
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        mesh: AbstractMesh | None,
        shardy: bool,
        kept: Sequence[int],
        nr_devices: int,
        modules: dict[str, bytes],
        disabled: Sequence[DisabledSafetyCheck],
        effects: Sequence[Any],
        get_vjp: Callable[[], Exported] | None,
        symbolic: Symbolic | None = None,
    ) -> None:
        self.fun_name = fun_name
        self.in_tree, self.out_tree = in_tree, out_tree
        self.nr_devices = nr_devices
        self.platforms = tuple(modules)
        self.disabled_safety_checks = tuple(disabled)
        self.unordered_effects = tuple(effects)
        self._in_types, self._out_types = tuple(in_types), tuple(out_types)
        self._in_shardings, self._out_shardings = tuple(in_shardings), tuple(out_shardings)
        self._mesh, self._shardy = mesh, shardy
        self._kept = tuple(kept)
        self._modules = modules
        self._any_platform = DisabledSafetyCheck.platform() in self.disabled_safety_checks
        self._get_vjp = get_vjp
        self._symbolic = symbolic

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(a.update(sharding=None) for a in self._in_types)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(a.update(sharding=None) for a in self._out_types)

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """The positions of the flat arguments that the program reads."""
        return self._kept

    @property
    def in_shardings_hlo(self) -> tuple:
        """XLA's shardings of the flat arguments, None where the partitioner decides."""
        return _as_hlo(self._in_shardings, self._in_types)

    @property
    def out_shardings_hlo(self) -> tuple:
        """XLA's shardings of the flat results, None where the partitioner decides."""
        return _as_hlo(self._out_shardings, self._out_types)

    def in_shardings_jax(self, mesh: object) -> tuple:
        """Return the flat arguments' shardings over a mesh with the axes of the exported one."""
        return self._over(mesh, self._in_shardings)

    def out_shardings_jax(self, mesh: object) -> tuple:
        """Return the flat results' shardings over a mesh with the axes of the exported one."""
        return self._over(mesh, self._out_shardings)

    def _over(self, mesh: Any, shardings: Sequence[Any]) -> tuple:
        exported_mesh = self._mesh
        if exported_mesh is not None and (mesh.axis_names, mesh.axis_sizes) != (
            exported_mesh.axis_names,
            exported_mesh.axis_sizes,
        ):
            raise ValueError(
                f"exported {self.fun_name} is for {exported_mesh}, got mesh={mesh}; give a mesh "
                "with the same axes, of the same sizes and in the same order"
            )
        return tuple(None if s is None else s.update(mesh=mesh) for s in shardings)

    @property
    def mlir_module_serialized(self) -> bytes:
        """The program of the first platform, as a portable artifact of StableHLO.

        With symbolic dimensions it is a template of such programs.
        """
        return self._modules[self.platforms[0]]

    def mlir_module(self, platform: str | None = None) -> str:
        """Return the program's StableHLO as text, of the first platform or the one named.

        Numbers that depend on symbolic dimensions are written as expressions in braces.
        """
        if platform is not None and platform not in self._modules:
            raise ValueError(
                f"mlir_module: platform must be one of {self.platforms}, got {platform!r}"
            )
        if self._symbolic is not None:
            return self._symbolic.templates[platform or self.platforms[0]].show()
        return mlir.text(self._parse(platform or self.platforms[0]))

    def _parse(self, platform: str) -> Any:
        return portable.deserialize(self._modules.get(platform, self.mlir_module_serialized))

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name!r}, platforms={self.platforms})"

    def has_vjp(self) -> bool:
        """Return whether `vjp` gives a program."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """Return the exported VJP, a function of flat values.

        It takes all flat arguments, then the cotangents of those results that are floating-point
        or complex, and gives the cotangents of such arguments.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"exported {self.fun_name} has no VJP: it was serialized without; use "
                "exported.serialize(vjp_order=1)"
            )
        return self._get_vjp()

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Return the program as bytes, to be read by `weft.export.deserialize`.

        vjp_order: how many times in sequence what is read can be differentiated, in reverse mode.
        """
        from weft.export.file import write

        return bytearray(write(self, vjp_order))

    def call(self, *args: object, **kwargs: object) -> Any:
        """Compute the function, alone or inside of another jitted function.

        Arguments have the structure, shapes and dtypes that it was exported for; for several
        devices, they or the caller's mesh name as many; the mesh's axes may be others outside of
        jit. It is differentiable in reverse mode where it has a VJP.
        """
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"exported {self.fun_name} was exported for arguments of structure "
                f"{self.in_tree}, called with {tree}"
            )
        return self.out_tree.unflatten(self._jitted(*on_exported_mesh(self, leaves)))

    @functools.cached_property
    def _jitted(self) -> Callable:
        def call(*leaves: object) -> list:
            return self._flat(leaves)

        call.__name__ = call.__qualname__ = f"call_{self.fun_name}"
        return weft.jit(call)

    def _flat(self, leaves: Sequence[Any]) -> list:
        """Return the results for flat arguments; symbolic dimensions have their actual sizes."""
        if self._symbolic is None:
            return self._flat_call(*leaves)
        return self.at(self._symbolic.sizes(self, [typeof(x) for x in leaves]))._flat_call(*leaves)

    def at(self, sizes: dict[str, int]) -> Exported:
        """Return the function for given sizes of its symbolic dimensions."""
        symbolic = self._symbolic
        if symbolic is None:
            return self
        key = tuple(sorted(sizes.items()))
        if key not in symbolic.filled:
            several = self.nr_devices > 1
            vjp = (lambda: self.vjp().at(sizes)) if self.has_vjp() else None
            symbolic.filled[key] = self._replaced(
                in_types=symbolic.types(self._in_types, sizes),
                out_types=symbolic.types(self._out_types, sizes),
                modules={p: symbolic.program(p, sizes, several) for p in self.platforms},
                get_vjp=vjp and functools.cache(vjp),
            )
        return symbolic.filled[key]

    def _replaced(self, **changes: object) -> Exported:
        """Another export with changes; templates are not kept."""
        kept = {
            "fun_name": self.fun_name,
            "in_tree": self.in_tree,
            "out_tree": self.out_tree,
            "in_types": self._in_types,
            "out_types": self._out_types,
            "in_shardings": self._in_shardings,
            "out_shardings": self._out_shardings,
            "mesh": self._mesh,
            "shardy": self._shardy,
            "kept": self._kept,
            "nr_devices": self.nr_devices,
            "modules": self._modules,
            "disabled": self.disabled_safety_checks,
            "effects": self.unordered_effects,
            "get_vjp": self._get_vjp,
        }
        return Exported(**{**kept, **changes})

    @functools.cached_property
    def _flat_call(self) -> Callable:
        def plain(*leaves: object) -> list:
            return call_exported_p.bind(*leaves, exported=self)

        if not self.has_vjp():
            return plain
        differentiable = weft.custom_vjp(plain)

        def forward(*leaves: object) -> tuple:
            return differentiable(*leaves), leaves  # may be differentiated again

        def backward(leaves: tuple, cts: Sequence[Any]) -> tuple:
            cotangents = [ct for ct, a in zip(cts, self._out_types, strict=True) if _has_tangent(a)]
            in_cts = iter(self.vjp()._flat_call(*leaves, *cotangents))
            return tuple(next(in_cts) if _has_tangent(a) else None for a in self._in_types)

        differentiable.defvjp(forward, backward)
        return differentiable


def _has_tangent(aval: ShapedArray) -> bool:
    return not dtypes.is_extended(aval.dtype) and dtypes.is_inexact(aval.dtype)


def _as_hlo(shardings: Sequence[Any], types: Sequence[ShapedArray]) -> tuple:
    return tuple(
        None if s is None else s._to_xla_hlo_sharding(physical(a).ndim)
        for s, a in zip(shardings, types, strict=True)
    )


def default_export_platform() -> str:
    """Return the platform that `export` takes where none is named.

    >>> import weft
    >>> weft.export.default_export_platform()
    'cpu'
    """
    return {"gpu": "cuda"}.get(weft.default_backend(), weft.default_backend())


def export(
    fun_jit: object,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Make a jitted function exportable: the result takes its arguments, or their types.

    Args:
      fun_jit: a function of `weft.jit`.
      platforms: those that the program shall run on: 'cpu', 'cuda', 'rocm', 'tpu'. None: the
        default one of this process.
      disabled_checks: `DisabledSafetyCheck`s to leave out.

    Returns:
      A function of arrays or `weft.ShapeDtypeStruct`s that gives an `Exported`. It raises
      ValueError where the program cannot leave this process: where it calls Python functions, or
      native code that is not allowed.

    >>> import weft
    >>> double = weft.jit(lambda x: 2 * x)
    >>> exported = weft.export.export(double)(weft.ShapeDtypeStruct((3,), "float32"))
    >>> again = weft.export.deserialize(exported.serialize())
    >>> again.call(weft.numpy.ones(3))
    Array([2., 2., 2.], dtype=float32)
    """
    of_numpy = (getattr(fun_jit, "__module__", None) or "").startswith("weft.numpy")
    if of_numpy and callable(fun_jit):
        fun_jit = weft.jit(fun_jit)  # functions of jax.numpy are jitted functions
    if not hasattr(fun_jit, "trace") or not callable(fun_jit):
        raise ValueError(
            f"export: fun_jit must be a function of weft.jit, got {fun_jit!r:.100}; write "
            "export(weft.jit(f))"
        )
    names = (default_export_platform(),) if platforms is None else tuple(platforms)
    if isinstance(platforms, str) or not names or set(names) - set(PLATFORMS):
        raise ValueError(
            f"export: platforms must be a sequence of {', '.join(map(repr, PLATFORMS))}, got "
            f"{platforms!r}"
        )
    names = tuple(dict.fromkeys(names))
    disabled = tuple(disabled_checks)
    for check in disabled:
        if not isinstance(check, DisabledSafetyCheck):
            raise TypeError(
                f"export: disabled_checks must hold DisabledSafetyChecks, got {check!r}"
            )

    def do_export(*args: object, **kwargs: object) -> Exported:
        leaves, tree = flatten((args, kwargs))
        scope = template.scope_of(leaves)
        if scope is not None:
            return _for_all_sizes(fun_jit, leaves, tree, scope, names, disabled)
        return _exported(fun_jit.trace(*args, **kwargs), names, disabled)

    return do_export


def _for_all_sizes(
    fun_jit: Any,
    leaves: Sequence[Any],
    tree: Any,
    scope: SymbolicScope,
    platforms: tuple[str, ...],
    disabled: tuple[DisabledSafetyCheck, ...],
) -> Exported:
    """Return one export of those for several samples of the symbolic dimensions' sizes."""
    samples = scope.samples(template.SAMPLES, sorted(scope.sizes))
    exported = []
    for sizes in samples:
        args, kwargs = tree.unflatten([template.resized(x, sizes) for x in leaves])
        exported.append(_exported(fun_jit.trace(*args, **kwargs), platforms, disabled))

    def make(first: Exported, symbolic: Symbolic, get_vjp: object) -> Exported:
        blob = symbolic.as_json()
        return first._replaced(
            in_types=symbolic.in_types,
            out_types=symbolic.out_types,
            modules=dict.fromkeys(first.platforms, blob),
            get_vjp=get_vjp,
            symbolic=symbolic,
        )

    return template.joined(make, exported, scope, samples)


def _exported(
    traced: Traced, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...]
) -> Exported:
    closed, name = traced.jaxpr, traced.fun_name
    api = f"export of {name}"
    if ordered := [e for e in closed.effects if e.ordered]:
        raise ValueError(
            f"{api}: it has ordered effects, {ordered}, which need Python to run; leave them out"
        )
    request = traced._request()
    if request.layouts is not None:
        raise ValueError(f"{api}: layouts cannot be exported; use jit without formats")
    n = len(closed.in_avals)
    request = replace(request, donated=(False,) * n, partitioner="xla")
    modules: dict[str, bytes] = {}
    # A module of its own for each platform, as lowering rules differ.
    for platform in platforms:
        program = Program.place(closed, request, hoist=False)
        program.platforms = (platform,)
        program.lower()
        kept_alive = [k for k in program.keepalives if not isinstance(k, CallSite)]
        if program.host_callbacks or kept_alive:
            raise UnsupportedArgumentError(
                f"{api}: it calls Python functions, or native code on several CPU devices, which "
                "goes through them; they exist in this process only. Leave callbacks and "
                "debug.print out"
            )
        check_custom_calls(api, program.module, disabled)
        modules[platform] = _portable(program)
    mesh = None if program.mesh is None else program.mesh.abstract_mesh
    mesh = mesh if program.partitions > 1 else None
    # Arguments that the program does not read have no sharding there, but are still passed.
    kept = np.flatnonzero(program.kept).tolist()
    in_shardings: list = [None] * n
    for i, s in zip(kept, program.in_shardings, strict=True):
        in_shardings[i] = s
    out_shardings = program.out_shardings

    def lift(shardings: Sequence[Any]) -> list:
        named = [isinstance(s, NamedSharding) and mesh is not None for s in shardings]
        return [
            s.update(mesh=mesh) if is_named else None
            for s, is_named in zip(shardings, named, strict=True)
        ]

    # Made when it is asked for, and then serialized with it.
    def make_vjp() -> Exported:
        ins = [_struct(a, s) for a, s in zip(closed.in_avals, in_shardings, strict=True)]
        outs = [_struct(a, s) for a, s in zip(closed.out_avals, out_shardings, strict=True)]
        differentiable = [o for o, a in zip(outs, closed.out_avals, strict=True) if _has_tangent(a)]
        return _exported(_backward(closed, name).trace(*ins, *differentiable), platforms, disabled)

    return Exported(
        fun_name=name,
        in_tree=traced.in_tree,
        out_tree=traced.out_tree,
        in_types=closed.in_avals,
        out_types=closed.out_avals,
        in_shardings=lift(in_shardings),
        out_shardings=lift(out_shardings),
        mesh=mesh,
        shardy=program.use_shardy,
        kept=kept,
        nr_devices=program.partitions,
        modules=modules,
        disabled=disabled,
        effects=sorted(closed.effects, key=lambda e: e.name),
        get_vjp=functools.cache(make_vjp),
    )


def _struct(aval: ShapedArray, sharding: object) -> ShapeDtypeStruct:
    named = sharding if isinstance(sharding, NamedSharding) else aval.sharding
    return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=named, weak_type=aval.weak_type)


def _backward(closed: Any, name: str) -> Any:
    """Return the jitted VJP: of flat arguments and cotangents, as `Exported.vjp` says."""
    n = len(closed.in_avals)
    moves = [i for i, a in enumerate(closed.in_avals) if _has_tangent(a)]
    counts = [_has_tangent(a) for a in closed.out_avals]

    def backward(*leaves: object) -> list:
        def outputs(*moved: object) -> list:
            args = list(leaves[:n])
            for i, x in zip(moves, moved, strict=True):
                args[i] = x
            outs = eval_closed(closed, *args)
            return [o for o, c in zip(outs, counts, strict=True) if c]

        _, pullback = weft.vjp(outputs, *(leaves[i] for i in moves))
        return list(pullback(list(leaves[n:])))

    backward.__name__ = backward.__qualname__ = f"{name}_vjp"
    return weft.jit(backward)


def _portable(program: Program) -> bytes:
    """Return the module as an artifact, without the marks that weft gives its own operations."""

    def unmark(op: Any) -> Any:
        if MARK in op.attributes:
            del op.attributes[MARK]
        return mlir.ir.WalkResult.ADVANCE

    assert program.module is not None  # it was lowered
    if program.has_marks:
        program.module.operation.walk(unmark)
    version = portable.target_version()
    return portable.serialize(program.module, version, shardings=program.partitions > 1)
