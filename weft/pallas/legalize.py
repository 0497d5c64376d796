"""Kernel jaxprs in the ops that a backend has.

`legalize_call(call, target)` is what a backend translates: calls are inlined, ops that hand a value
on are dropped, a choice among platforms is made, complex numbers become pairs, narrow floats and
integers are widened, and an op that the target lacks becomes the ops of its formula, down to ops
that the target has. What has no formula raises `UnsupportedKernelError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.aval import NO_MAT, ShapedArray
from weft.core.config import options
from weft.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_closed, open_jaxpr
from weft.core.trace import trace_to_jaxpr, typeof
from weft.formulas.elements import ANY
from weft.formulas.language import plainly
from weft.ops.promote import broadcast_to
from weft.pallas import narrow_integers, pairs
from weft.pallas.formulas import arrays, complex, scalars, sorting, windows
from weft.pallas.ir import OUTSIDE, KernelCall, Program, UnsupportedKernelError, unsupported
from weft.pallas.narrow_integers import in_bytes
from weft.pallas.order import used_vars
from weft.pallas.pairs import Pair, Value

if TYPE_CHECKING:
    from weft.core.ref import AbstractRef

CALLS = frozenset(
    (
        *("jit", "remat2", "custom_jvp_call", "custom_vjp_call"),
        *("custom_vmap_call", "composite"),
    )
)
"""Ops that run the jaxpr among their params on their operands."""

PASSES = frozenset(
    ("copy", "name", "stop_gradient", "relabel", "multiple_of", "layout_constraint", "pcast")
)
"""Ops whose result is their first operand: inside a kernel there are no devices to vary over."""


@dataclass(frozen=True, eq=False, slots=True)
class Target:
    """The operations that a backend can translate.

    name: in messages. platforms: those that `platform_dependent` may name. is_native: whether the
    backend has the op for its operands' types. narrowest: op → the bytes of the narrowest floats
    that the backend computes it in; it is computed in float32 for narrower ones. instead: dtype →
    the name of one to convert to, where the backend lacks it. has_all_dtypes: random keys are
    values, rather than their words, and complex numbers, rather than pairs.
    """

    name: str
    platforms: frozenset[str]
    is_native: Callable[[Eqn], bool]
    narrowest: Callable[[str], int] = lambda name: 1
    instead: Callable[[np.dtype], str] = lambda dtype: ""
    has_all_dtypes: bool = False


def legalize_call(call: KernelCall, target: Target) -> KernelCall:
    """Return the call with its programs and index maps in the target's ops."""
    return call.memo(("legal", target), lambda: _legal_call(call, target))


def _legal_call(call: KernelCall, target: Target) -> KernelCall:
    _check_arrays(call, target)
    programs = tuple(Program(_closed(p.jaxpr, target, call), p.mesh, p.name) for p in call.programs)
    blocks = tuple(
        replace(b, index_map=_closed(b.index_map, target, call), array=in_bytes(b.array))
        for b in call.blocks
    )
    outputs = tuple(map(in_bytes, call.outputs))
    scratch = tuple(map(in_bytes, call.scratch))
    if not target.has_all_dtypes:
        blocks = tuple(map(pairs.block_of_pairs, blocks))
        outputs = tuple(map(pairs.with_pairs, outputs))
        scratch = tuple(pairs.parts_of(ref)[0] for ref in scratch)
    return call.replace(programs=programs, blocks=blocks, outputs=outputs, scratch=scratch)


def _check_arrays(call: KernelCall, target: Target) -> None:
    scratch = (in_bytes(ref).inner for ref in call.scratch)
    for aval in (*call.operand_avals, *call.outputs, *scratch):
        aval = aval if target.has_all_dtypes else pairs.with_pairs(aval)
        if other := target.instead(aval.dtype):
            raise UnsupportedKernelError(
                f"kernel {call.name}: arrays of dtype {aval.dtype} are not supported by the "
                f"{target.name} backend. Convert them to {other} outside of the kernel, or run it "
                "interpreted: pallas_call(..., interpret=True)"
            )


def legalize(jaxpr: Any, target: Target, call: KernelCall | None = None) -> Any:
    """Return a jaxpr, closed or open, in the target's ops. call: whose errors are raised."""
    make = lambda: _Rewriting(target, call).jaxpr(jaxpr)
    return jaxpr.memo(("legal", target), make)


def _closed(jaxpr: ClosedJaxpr, target: Target, call: KernelCall) -> ClosedJaxpr:
    legal = legalize(jaxpr, target, call)
    return legal if isinstance(legal, ClosedJaxpr) else ClosedJaxpr(legal)


class _Rewriting:
    """A jaxpr under construction: its equations, and the constants that they need."""

    def __init__(self, target: Target, call: KernelCall | None) -> None:
        self.target, self.call = target, call
        self.splits = not target.has_all_dtypes
        self.eqns: list[Eqn] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []

    def jaxpr(self, jaxpr: ClosedJaxpr | Jaxpr) -> ClosedJaxpr | Jaxpr:
        body = open_jaxpr(jaxpr)
        invars = [self.fresh(v.aval) for v in body.invars]
        outvars = pairs.flat(self.inline(jaxpr, invars, None))
        new = body.replace(
            constvars=self.constvars, invars=pairs.flat(invars), outvars=outvars, eqns=self.eqns
        )
        if isinstance(jaxpr, Jaxpr) and not self.consts:
            return new
        return ClosedJaxpr(new, self.consts)

    def fresh(self, aval: ShapedArray | AbstractRef) -> Value:
        """Return variables for a value of a type, as the target holds it."""
        aval = in_bytes(aval if self.target.has_all_dtypes else _words(aval)).update(mat=NO_MAT)
        parts = pairs.parts_of(aval) if self.splits else (aval,)
        return Pair(*map(Var, parts)) if len(parts) == 2 else Var(parts[0])

    def constant(self, value: np.ndarray, aval: ShapedArray) -> Value:
        if self.splits and pairs.is_complex(aval):
            both = np.asarray(value)
            re, im = (
                self.constant(v, part)
                for v, part in zip((both.real, both.imag), pairs.parts_of(aval), strict=True)
            )
            return Pair(re, im)
        aval = in_bytes(aval)
        if not aval.shape and not dtypes.is_extended(aval.dtype):
            return Literal(np.asarray(value).astype(aval.dtype)[()], aval)
        self.constvars.append(Var(aval))
        self.consts.append(value)
        return self.constvars[-1]

    def inline(self, jaxpr: Any, operands: Sequence[Value], composed: Eqn | None) -> list[Any]:
        """Return the results of a jaxpr on the operands, its equations added to this one's."""
        body = open_jaxpr(jaxpr)
        used = used_vars(body)
        values: dict[Any, Value] = dict(zip(body.invars, operands, strict=True))
        for v, const in zip(body.constvars, getattr(jaxpr, "consts", ()), strict=True):
            values[v] = self.constant(const, v.aval)

        def read(atom: Atom) -> Value:
            if not isinstance(atom, Literal):
                return values[atom]
            return self.constant(atom.val, atom.aval)

        for eqn in body.eqns:
            invars = [read(a) for a in eqn.invars]
            if composed is not None:
                eqn = eqn.replace(source=composed.source)
            is_used = any(v in used for v in eqn.outvars)
            outs = self.results(eqn, invars, composed, is_used)
            values.update(zip(eqn.outvars, outs, strict=True))
        return [read(a) for a in body.outvars]

    def results(
        self, eqn: Eqn, invars: list[Any], composed: Eqn | None, used: bool
    ) -> Sequence[Any]:
        """Return the results of an equation, once the target's ops for it are added.

        used: whether anything reads them.
        """
        plain = plainly(eqn)
        if plain.invars[:1] != eqn.invars[:1]:  # a > b is b < a
            invars = invars[::-1]
        eqn = plain
        name, params = eqn.primitive.name, eqn.rule_params
        if name in CALLS:
            return self.inline(params["jaxpr"], invars, composed)
        if name in PASSES:
            return invars[:1]
        if name == "optimization_barrier":
            return invars
        if self.is_left_out(name):
            return []
        if name == "platform_index" and self.target.platforms:
            return [Literal(self.platform(eqn), eqn.outvars[0].aval)]
        if name == "cond" and invars[0].__class__ is Literal:
            branches = params["branches"]
            chosen = min(max(int(invars[0].val), 0), len(branches) - 1)
            return self.inline(branches[chosen], invars[1:], composed)
        keys = not self.target.has_all_dtypes and any(_is_key(v.aval) for v in eqn.invars)
        if keys and not name.startswith("random_"):
            why = "arrays of random keys; unwrap them with random.key_data"
            raise self.unsupported(eqn, composed, why)
        return self.computed(eqn, invars, composed, used)

    def computed(
        self, eqn: Eqn, invars: list[Any], composed: Eqn | None, used: bool
    ) -> Sequence[Any]:
        """Return an op's results on values or refs: its own, or of the ops it stands for."""
        make = arrays.everywhere(eqn, used)
        if make is None and _has_narrower_floats(eqn, self.target.narrowest(eqn.primitive.name)):
            make = in_float32
        if make is not None:
            outs = self.inline(_formula_of(eqn, make), invars, composed or eqn)
            return outs or [None] * len(eqn.outvars)
        # Types first: only then is the op, on types that the target has, native or not.
        if not _takes_parts(eqn):
            if narrow_integers.concerns(eqn):
                return self.inline(self.on_bytes(eqn, composed), invars, composed or eqn)
            if self.splits and pairs.concerns(eqn):
                return self.of_pairs(eqn, invars, composed, used)
        if self.target.is_native(eqn):
            outs = [self.fresh(v.aval) for v in eqn.outvars]
            params = {key: self.param(value) for key, value in eqn.rule_params.items()}
            if self.splits:  # a pair counts as two operands
                params |= pairs.counts_of_atoms(eqn)
            atoms, outvars = pairs.flat(invars), pairs.flat(outs)
            for v in outvars:
                if isinstance(v.aval, ShapedArray) and (other := self.target.instead(v.aval.dtype)):
                    why = f"values of dtype {dtypes.short_name(v.aval.dtype)}; compute in {other}"
                    raise self.unsupported(eqn, composed, why)
            self.eqns.append(eqn.replace(invars=atoms, outvars=outvars, rule_params=params))
            return outs
        closed = formula(eqn)
        if closed is None:
            raise self.unsupported(eqn, composed)
        return self.inline(closed, invars, composed or eqn)

    def on_bytes(self, eqn: Eqn, composed: Eqn | None) -> ClosedJaxpr:
        """Return the jaxpr that an equation of integers of 2 and 4 bits stands for."""
        op = eqn.rule_params.get("op", "compare and swap")
        wraps = self.target.has_all_dtypes and op in narrow_integers.ATOMIC
        if eqn.primitive.name.startswith("atomic") and not wraps:
            raise self.unsupported(eqn, composed, f"{op} of {eqn.invars[0].aval.dtype}")
        if "jaxpr" in eqn.rule_params:
            closed = formula(eqn)
            assert closed is not None, eqn.primitive.name
            return closed
        function = narrow_integers.on_bytes(eqn)
        return traced(narrow_integers.equation_in_bytes(eqn), function)

    def of_pairs(
        self, eqn: Eqn, invars: list[Any], composed: Eqn | None, used: bool
    ) -> Sequence[Any]:
        """Return the results of an equation of complex numbers."""
        name = eqn.primitive.name
        if name in ("get", "set", "addupdate"):
            accesses = pairs.accesses(eqn, invars)
            self.eqns += accesses
            return [Pair(*outs) for outs in zip(*(e.outvars for e in accesses), strict=True)]
        if name.startswith("async_copy"):
            self.eqns.append(eqn.replace(invars=invars, rule_params=pairs.copy_of_pairs(eqn)))
            return []
        if name in complex.ELEMENTS:
            closed = pairs.of_pairs(eqn, complex.ELEMENTS[name])
            atoms = self.inline(closed, pairs.flat(invars), composed or eqn)
            return pairs.packed([v.aval for v in eqn.outvars], atoms)
        if name in complex.PARTS:
            both: list[Any] = []
            for k, part in enumerate(pairs.equations_of_parts(eqn)):
                operands = [v[k] if isinstance(v, Pair) else v for v in invars]
                both += self.computed(part, operands, composed, used)
            return [Pair(*both)]
        make = complex.ARRAYS.get(name)
        ordered = name in _ORDERED
        of_arrays: ClosedJaxpr | None = None
        if make is not None:
            of_arrays = _formula_of(eqn, make)
        elif not ordered:
            of_arrays = formula(eqn)
        if of_arrays is None:
            why = "complex numbers have no order" if ordered else "of complex numbers"
            raise self.unsupported(eqn, composed, "" if name in OUTSIDE else why)
        return self.inline(of_arrays, invars, composed or eqn)

    def is_left_out(self, name: str) -> bool:
        """Return whether it is an op of interpreted kernels, or of those that are debugged."""
        debugs = self.call is not None and self.call.debug
        hints = ("delay",) if debugs else ("delay", "debug_check")
        return name in hints and bool(self.target.platforms)

    def param(self, value: object) -> Any:
        """Return a parameter of an op that is kept, jaxprs in it legalized."""
        if isinstance(value, ClosedJaxpr | Jaxpr):
            return legalize(value, self.target, self.call)
        if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr | Jaxpr) for v in value):
            return tuple(self.param(v) for v in value)
        return value

    def platform(self, eqn: Eqn) -> Any:
        """Return the place of the target's function among those of `platform_dependent`."""
        groups = eqn.rule_params["platforms"]
        names_of_target = self.target.platforms
        places = [k for k, names in enumerate(groups) if not names or names_of_target & {*names}]
        if not places:
            name = min(names_of_target)
            raise self.unsupported(eqn, None, f"it has no function for {name}, and no default")
        return np.int32(places[0])

    def unsupported(self, eqn: Eqn, composed: Eqn | None, why: str = "") -> Exception:
        name = eqn.primitive.name
        if composed is not None:
            why = f"it is made of {name}" + (f", which is not: {why}" if why else "")
        assert self.call is not None
        return unsupported(self.target.name, self.call, composed or eqn, why)


_ORDERED = frozenset(
    (
        *("max", "min", "reduce_max", "reduce_min", "cummax", "cummin", "sort"),
        "clamp",
    )
)


def _takes_parts(eqn: Eqn) -> bool:
    """Return whether an op hands its values on, so that it takes what stands for them as it is."""
    if eqn.primitive.name == "sort":
        return not any(pairs.is_complex(v.aval) for v in eqn.invars[: eqn.rule_params["num_keys"]])
    return eqn.primitive.name in ("cond", "while", "scan", "run_scoped")


# Formulas -----------------------------------------------------------------------------------------


class _Context:
    """Stands for a lowering context whose values are traced arrays."""

    def __init__(self, eqn: Eqn) -> None:
        self.eqn = eqn
        self.avals_in = [v.aval for v in eqn.invars]
        self.avals_out = [v.aval for v in eqn.outvars]

    def spread(self, operands: Sequence[Any]) -> list:
        shape = self.avals_out[0].shape
        return [broadcast_to(x, shape) if not typeof(x).shape else x for x in operands]

    def lower_fun(self, fun: Callable, *operands: object, avals: object = None) -> list:
        out = fun(*operands)
        return list(out) if isinstance(out, list | tuple) else [out]

    def inline(self, closed: ClosedJaxpr, *operands: object) -> list:
        return eval_closed(closed, *operands)

    def keep_in_memory(self, value: object) -> object:
        return value

    def call(self, closed: ClosedJaxpr, operands: Sequence[Any], name: str = "") -> list:
        return eval_closed(closed, *operands)


def formula(eqn: Eqn) -> ClosedJaxpr | None:
    """Return the jaxpr of other ops that an equation stands for, or None if there is none."""
    name = eqn.primitive.name
    make = windows.FORMULAS.get(name) or arrays.ARRAYS.get(name) or sorting.FORMULAS.get(name)
    if make is not None:
        return _formula_of(eqn, make)
    function = scalars.FORMULAS.get(name)
    if function is None and not dtypes.is_complex(eqn.outvars[0].aval.dtype):
        function = ANY.get(name)
    if function is not None:
        return traced(eqn, lambda *args: function(*args, **eqn.rule_params))
    return None if name in OUTSIDE else lowering_formula(eqn)


def _formula_of(eqn: Eqn, make: Callable) -> ClosedJaxpr:
    return traced(eqn, lambda *args: make(eqn, *args))


def traced(eqn: Eqn, function: Callable) -> ClosedJaxpr:
    """Trace a function of an equation's operands; random keys are given as their words."""

    def flat(*args: object) -> list:
        out = function(*args)
        return list(out) if isinstance(out, list | tuple) else [out]

    avals = [_words(v.aval) for v in eqn.invars]
    # Formulas of wide operands read their bits as wide integers, whatever x64 is.
    wide = any(map(_is_wide, avals))
    with options["enable_x64"](True) if wide else nullcontext():
        return ClosedJaxpr(*trace_to_jaxpr(flat, avals, eqn.primitive.name))


def _is_wide(aval: object) -> bool:
    if not isinstance(aval, ShapedArray):
        return False
    return aval.dtype.itemsize >= (16 if dtypes.is_complex(aval.dtype) else 8)


def in_float32(eqn: Eqn, *operands: Any) -> list[Any]:
    """Return the op on float32 in place of narrower floats, rounded to the results' dtypes."""
    wide = [
        x.astype("float32") if dtypes.is_float(v.aval.dtype) and v.aval.dtype.itemsize < 4 else x
        for x, v in zip(operands, eqn.invars, strict=True)
    ]
    outs = eqn.primitive.bind(*wide, **eqn.rule_params)
    outs = outs if eqn.primitive.multiple_results else [outs]
    return [x.astype(v.aval.dtype) for x, v in zip(outs, eqn.outvars, strict=True)]


def _has_narrower_floats(eqn: Eqn, size: int) -> bool:
    types = [v.aval.dtype for v in eqn.invars if isinstance(v.aval, ShapedArray)]
    return size > 1 and any(dtypes.is_float(t) and t.itemsize < size for t in types)


def lowering_formula(eqn: Eqn) -> ClosedJaxpr | None:
    """Return the formula of other ops that an equation is lowered by, if it is lowered by one."""
    lower = eqn.primitive.lower
    if lower is None:
        return None
    try:
        return traced(eqn, lambda *args: lower(_Context(eqn), *args, **eqn.rule_params))
    except (AttributeError, TypeError):  # its rule emits StableHLO itself
        return None


def _is_key(aval: ShapedArray | AbstractRef) -> bool:
    return isinstance(aval, ShapedArray) and dtypes.is_extended(aval.dtype)


def _words(aval: ShapedArray | AbstractRef) -> Any:
    if not _is_key(aval):
        return aval
    return ShapedArray(aval.shape + aval.dtype.physical_shape, aval.dtype.physical_dtype)
