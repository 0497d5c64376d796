# Tests: tests/ops/test_table.py, tests/api/test_primitives.py
"""Primitives: one definition holds all rules of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from weft.core.cell import Cell, bind_open
from weft.core.state import state

PRIMITIVES: dict[str, Primitive] = {}
"""Every primitive by name: the table that tests walk."""


class Primitive:
    """An op with all its rules. `bind` applies it under the current trace.

    abstract(*avals, **params) -> aval or list of avals
        Shape, dtype and weak type of the results; raises TypeError or ValueError for bad operands.
        Sharding and manual-axis type are joined by the mechanism, unless `own_types` is set.
    jvp(primals, tangents, **params) -> out, out_tangent
        Tangents are None where zero. The one rule serves jvp and linearize: ops on tangents are
        staged into the linear program, ops on primals are not. "linear" stands for the rule of an
        op that is `linear` in all operands that have derivatives: the op of their tangents.
    linearize(primals, tangents, **params) -> out, out_tangent
        Instead of jvp under linearize, where inner jaxprs must be split (jit, scan, cond, …).
    transpose(cts, *args, **params) -> list with one cotangent or None per operand
        Linear operands arrive as `UndefinedPrimal(aval)`, others as values. `cts` is the one
        cotangent, or the list of them (None where zero) if multiple_results.
    batch(axis, args, dims, **params) -> out, out_dim
        `axis` is an `AxisData`; dims are int or None. Lists if multiple_results.
    lower(ctx, *operands, **params) -> value or list of values
        Emits StableHLO; see weft/lowering.
    sharding(avals, outs, **params) -> Factors
        The op's sharding as a factor mapping; see weft/sharding/factors.py.
    linear: positions, or (avals, params) -> positions
        The operands in which, taken together, the op is linear; `(1, ...)` is all but the first.
        Partial sums and zeros may stand there beside each other, while the others (indices,
        predicates) must be equal.
    bilinear: positions
        The operands in each of which, taken alone, the op is linear.
    mixes: bool
        With explicit axes, a linear op takes whole values beside partial sums: lowering counts
        such a value in once.
    calls: bool
        A call of the one program `params["jaxpr"]` on all operands.
    inner(avals, outs, params) -> (label, types that it has, types that it must have), …
        What the inner programs of other ops take and give, for the option `enable_checks`.
    depends(params, marked) -> which results are computed from the marked operands
        For ops of several results that are no calls.
    dce(eqn, used) -> Eqn
        For ops with inner programs: the equation without what only serves results that are not
        used. Its outvars are the used ones, more only where they cannot be dropped.
    effects(avals, params) -> frozenset of Effect.
    named_axes(params) -> tuple of axis names the op communicates over.
    silent: bool
        Over its named axes nothing is sent: the device only looks up where it stands.
    formula(*args, **params) -> out
        Of ops of one result that JAX lacks: by ops that it has, as programs written for it see it.
    stage(trace, args, params) -> results, or None to record the equation as it is
        For higher-order ops whose params hold functions: how they become jaxprs when recorded.
    """

    __slots__ = (
        "abstract",
        "batch",
        "bilinear",
        "calls",
        "dce",
        "depends",
        "effects",
        "formula",
        "higher_order",
        "hlo",
        "impl",
        "inner",
        "jvp",
        "linear",
        "linearize",
        "lower",
        "mixes",
        "multiple_results",
        "name",
        "named_axes",
        "own_types",
        "eager_cache",
        "rule_cache",
        "sharding",
        "silent",
        "stage",
        "structural",
        "transpose",
        "transposes_zeros",
    )

    def __init__(
        self,
        name: str,
        *,
        abstract: Callable | None = None,
        jvp: Callable | Literal["linear"] | None = None,
        linearize: Callable | None = None,
        transpose: Callable | None = None,
        batch: Callable | None = None,
        lower: Callable | None = None,
        sharding: Callable | str | None = None,
        linear: tuple | Callable = (),
        bilinear: tuple[int, ...] = (),
        mixes: bool = False,
        impl: Callable | None = None,
        calls: bool = False,
        inner: Callable | None = None,
        depends: Callable | None = None,
        dce: Callable | None = None,
        effects: Callable | None = None,
        named_axes: Callable | None = None,
        silent: bool = False,
        multiple_results: bool = False,
        own_types: bool = False,
        structural: bool = False,
        higher_order: bool = False,
        stage: Callable | None = None,
        takes_refs: bool = False,
        transposes_zeros: bool = False,
    ) -> None:
        if higher_order or takes_refs:
            self.__class__ = _TakesRefs
        self.name = name
        self.abstract: Any = abstract  # None where `stage` or `bind` makes the equation
        self.jvp = jvp
        self.linearize = linearize
        self.transpose: Any = transpose  # None where nothing is linear
        self.transposes_zeros = transposes_zeros  # a rule of a program's may give more than zeros
        self.batch = batch
        self.lower = lower
        self.sharding = sharding
        self.linear = linear
        self.bilinear = bilinear
        self.mixes = mixes
        self.impl = impl
        self.calls = calls
        self.inner = inner
        self.depends = depends
        self.dce = dce
        self.effects = effects
        self.named_axes = named_axes
        self.silent = silent
        self.multiple_results = multiple_results
        self.own_types = own_types
        self.structural = structural  # moves elements about whatever their dtype: works on keys
        self.higher_order = higher_order  # has jaxprs among its params: types are not memoized
        self.stage = stage
        self.formula: Callable | None = None
        self.hlo: str | None = None  # the StableHLO op it is, if it needs no attributes
        self.rule_cache: dict = {}
        self.eager_cache: dict = {}  # params as a tuple of items -> the compiled call that runs it
        PRIMITIVES[name] = self

    def bind(self, *args: object, **params: object) -> Any:
        return state.trace.process(self, args, params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params of an equation as `bind` takes them: all of them."""
        return params

    def __repr__(self) -> str:
        return self.name


class _TakesRefs(Primitive):
    """An op that refs may be operands of: open ones are read and written back around it."""

    __slots__ = ()

    def bind(self, *args: object, **params: object) -> Any:
        for a in args:
            if a.__class__ is Cell and a.is_open():
                return bind_open(self, args, params)
        return state.trace.process(self, args, params)
