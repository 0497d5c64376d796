"""custom_vjp: functions that bring their own reverse derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.custom_common import (
    BatchedCall,
    FlatCall,
    FunctionWithRules,
    SymbolicZero,
    batch_call,
    batch_results,
    call_primitive,
    check_type,
    fitted,
    instantiate,
    numbers_as_arrays,
    trace_call,
    tracing_rules,
)
from weft.api.custom_jvp import closed_over_text
from weft.autodiff.jvp import cotangent_aval, has_tangent, tangent_aval
from weft.autodiff.vmap import AxisData, batch_flat, move_dim, remove_dim
from weft.core import dtypes
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, Var, eval_closed
from weft.core.masks import unpick
from weft.core.primitive import Primitive
from weft.core.source import own_lines
from weft.core.trace import StagingTrace, closed_call_jaxpr, typeof
from weft.core.tree import flatten, names_in
from weft.core.undefined import is_undefined
from weft.ops.reduce import reduce_sum
from weft.refs.accumulate import is_ref

if TYPE_CHECKING:
    from weft.api.custom_refs import CallOnValues
    from weft.core.ref import AbstractRef
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def _is_complex(aval: ShapedArray) -> bool:
    return isinstance(aval, ShapedArray) and dtypes.is_complex(aval.dtype)


def _cast(got: ShapedArray, want: ShapedArray) -> Any:
    """Return the type `got` with the dtype of `want`, where both are of numbers."""
    if not all(isinstance(a, ShapedArray) and not dtypes.is_extended(a.dtype) for a in (got, want)):
        return got
    return ShapedArray(got.shape, want.dtype)


class CustomVJPPrimal:
    """The argument of a forward rule with symbolic zeros, for each leaf."""

    __slots__ = ("perturbed", "value")

    def __init__(self, value: ArrayLike, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed  # whether it is being differentiated


def _with_perturbed(tree: object, perturbed: object) -> Any:
    """Return the tree with a CustomVJPPrimal for each array and each whole ref."""
    values, structure = flatten(tree, is_ref)
    flags = [f._handle if is_ref(f) else f for f in flatten(perturbed, is_ref)[0]]
    pairs = zip(values, flags, strict=True)
    return structure.unflatten([CustomVJPPrimal(value, flag) for value, flag in pairs])


# The op. `call` has, on flat arguments, the function, the forward rule giving (outputs, residuals,
# what else backward needs to know) and the backward rule.


class Call(FlatCall):
    """One call: the function and its rules on flat arguments."""

    __slots__ = ()

    def forward(self, consts: Sequence, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple:
        owner = self.owner
        dynamic = self.in_tree.unflatten(numbers_as_arrays(primals))
        if owner._symbolic_zeros:
            dynamic = _with_perturbed(dynamic, self.in_tree.unflatten(list(nonzero)))
        result = owner.fwd(*owner._signature.join(dynamic, self.static))
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError(
                f"the forward rule of {self.name} must return a pair (output, residuals), got "
                f"{type(result).__name__}"
            )
        outs, out_tree = flatten(result[0])
        if self.out_tree is not None and out_tree != self.out_tree:
            raise TypeError(
                f"the forward rule of {self.name} must return an output of the structure the "
                f"function has, {self.out_tree}, got {out_tree}"
            )
        self.out_tree = out_tree
        residuals, tree = flatten(result[1])
        return outs, residuals, (tree, out_tree)

    def backward(self, context: tuple, residuals: Sequence[Any], cts: list, primals: list) -> list:
        """Return cotangents of the flat arguments, None where zero; cts are None where zero.

        primals: the types of the flat arguments. context: the third result of `forward`.
        """
        owner = self.owner
        tree, out_tree, out_avals = context
        zero = SymbolicZero if owner._symbolic_zeros else instantiate
        filled_cts = [
            zero(cotangent_aval(a)) if ct is None else ct
            for ct, a in zip(numbers_as_arrays(cts), out_avals, strict=True)
        ]
        with own_lines():
            result = owner.bwd(
                *self.static, tree.unflatten(residuals), out_tree.unflatten(filled_cts)
            )
        return self._match(result, primals)

    def _match(self, result: tuple, primals: list) -> list:
        """Match the backward rule's result leaf by leaf; None: zeros of a whole argument."""
        api = f"the backward rule of {self.name}"
        children = self.in_tree.children()
        if isinstance(result, list):
            result = tuple(result)
        if not isinstance(result, tuple) or len(result) != len(children):
            got = f"{len(result)}" if isinstance(result, tuple) else type(result).__name__
            raise TypeError(
                f"{api} must return a tuple with a cotangent for each of the {len(children)} "
                f"arguments, got {got}"
                + ("" if isinstance(result, tuple) else "; write (ct,) for one")
            )
        cts: list = []
        for i, (part, child) in enumerate(zip(result, children, strict=True)):
            cts += _prefixed(part, child, f"{api}: the cotangent of argument {i}")
        return [
            self._cotangent(api, i, ct, aval)
            for i, (ct, aval) in enumerate(zip(cts, primals, strict=True))
        ]

    def _cotangent(
        self, api: str, i: int, ct: ArrayLike | None, aval: ShapedArray | AbstractRef
    ) -> Any:
        if ct is None or ct.__class__ is SymbolicZero or not has_tangent(aval):
            return None
        want, got = cotangent_aval(aval), typeof(ct)
        if want is got:
            return ct
        which = names_in(self.in_tree, "args")[i]
        error = ValueError if getattr(got, "shape", None) != want.shape else TypeError
        # Another dtype is converted; only an imaginary part has no place in a real number.
        if _is_complex(got) and not _is_complex(want):
            raise error(
                f"{api}: the cotangent of {which} must have type {want.str_short()}, got "
                f"{got.str_short()}; take its real part"
            )
        try:
            check_type(api, "the cotangent of", want, _cast(got, want), which, error)
        except ValueError as e:
            raise ValueError(f"{e}; None for a whole argument stands for zeros") from None
        return fitted(
            ct,
            want,
            got,
            lambda axes: (
                f"{api}: the cotangent of {which} varies over {axes}, but the argument "
                f"({aval.str_short()}) does not: its cotangent is the sum, "
                f"weft.lax.psum(ct, {axes})"
            ),
        )


def _prefixed(part: ArrayLike | None, tree: PyTreeDef, label: str) -> list:
    """Put leaves of `part` where the tree's are; None and `SymbolicZero` stand for subtrees."""
    n = tree.num_leaves
    if part is None or part.__class__ is SymbolicZero:
        return [None] * n
    leaves, got = flatten(part, lambda x: x is None)
    if got == tree:
        return leaves
    try:
        subtrees = got.flatten_up_to(tree.unflatten(list(range(n))))
    except (ValueError, TypeError):
        raise TypeError(f"{label} must have the structure {tree}, got {flatten(part)[1]}") from None
    result = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        count = len(flatten(subtree)[0])
        if leaf is not None and count != 1:
            raise TypeError(f"{label} must have the structure {tree}, got {flatten(part)[1]}")
        result += [leaf] * count
    return result


class ClosedCall:
    """A call whose function and rules close over tracers: all are jaxprs of those values too."""

    __slots__ = ("bwd_jaxpr", "fwd_jaxpr", "name", "num_outs", "starts")

    def __init__(
        self, name: str, starts: tuple, num_outs: int, fwd: ClosedJaxpr, bwd: ClosedJaxpr
    ) -> None:
        self.name = name
        self.starts = starts  # where forward's and backward's values begin among those in front
        self.num_outs = num_outs
        self.fwd_jaxpr, self.bwd_jaxpr = fwd, bwd

    def forward(self, consts: Any, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple:
        fwd, bwd = self.starts
        results = eval_closed(self.fwd_jaxpr, *consts[fwd:bwd], *primals)
        n = self.num_outs
        return results[:n], [*consts[bwd:], *results[n:]], (None, None)

    def backward(self, context: Any, residuals: Sequence[Any], cts: list, primals: list) -> list:
        filled_cts = [
            instantiate(cotangent_aval(a)) if ct is None else ct
            for ct, a in zip(cts, context[2], strict=True)
            if has_tangent(a)
        ]
        in_cts = iter(eval_closed(self.bwd_jaxpr, *residuals, *filled_cts))
        return [next(in_cts) if has_tangent(a) else None for a in primals]


class BatchedVJP(BatchedCall):
    """A call over a batch."""

    __slots__ = ()

    def forward(self, consts: Sequence, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple:
        consts = self.own(consts, primals)
        n = len(consts)
        forward_facts: list = []

        def flat(*xs: ArrayLike) -> list:
            outs, residuals, context = self.call.forward(xs[:n], xs[n:], nonzero)
            forward_facts[:] = [len(outs), context, [typeof(o) for o in outs]]
            return [*outs, *residuals]

        vals, dims = batch_flat(flat, self.axis, [*consts, *primals], self.dims)
        k, context, avals = forward_facts
        outs = vals[:k]
        if self.out_dims is None:
            outs, self.out_dims = batch_results(outs, dims[:k], self.axis)
        else:
            outs = [
                o if t is None else move_dim(o, d, t, self.axis)
                for o, d, t in zip(outs, dims[:k], self.out_dims, strict=True)
            ]
        inner = (*context[:2], avals)
        return outs, vals[k:], (inner, (dims[k:], list(self.out_dims)))

    def backward(self, context: Any, residuals: Sequence[Any], cts: list, primals: list) -> list:
        inner, (res_dims, out_dims) = context[:2]
        n = len(residuals)
        has_ct = [ct is not None for ct in cts]
        dims = self.dims[len(self.dims) - len(primals) :]
        examples = [remove_dim(a, d) for a, d in zip(primals, dims, strict=True)]
        nonzero: list[bool] = []

        def flat(*xs: object) -> list:
            cotangents = self.call.backward(inner, xs[:n], unpick(xs[n:], has_ct), examples)
            nonzero[:] = [ct is not None for ct in cotangents]
            return [ct for ct in cotangents if ct is not None]

        vals, ct_dims = batch_flat(
            flat,
            self.axis,
            [*residuals, *(ct for ct in cts if ct is not None)],
            [*res_dims, *(d for d, g in zip(out_dims, has_ct, strict=True) if g)],
        )
        batched_cts = iter(zip(vals, ct_dims, strict=True))
        result: list = []
        for nz, target in zip(nonzero, dims, strict=True):
            if not nz:
                result.append(None)
                continue
            ct, d = next(batched_cts)
            if target is None:
                # Every example used the same value: its cotangent is the sum over them.
                ct = move_dim(ct, d, 0, self.axis) if d is None else ct
                result.append(reduce_sum(ct, (d or 0,)))
            else:
                result.append(move_dim(ct, d, target, self.axis))
        return result


def _forward_mode(name: str) -> TypeError:
    return TypeError(
        f"forward-mode differentiation (weft.jvp, weft.jacfwd, the function weft.linearize gives) "
        f"does not work on {name}, which has a reverse rule only; use reverse mode (weft.vjp, "
        "weft.grad, weft.jacrev), or weft.custom_jvp"
    )


def _jvp(primals: list, tangents: list, *, call: Call, **params: object) -> tuple:
    raise _forward_mode(f"custom_vjp function {call.name}")


def _linearize(
    primals: list,
    tangents: list,
    *,
    call: CallOnValues | BatchedVJP | Call,
    jaxpr: ClosedJaxpr | None,
    num_consts: int,
) -> tuple:
    if any(t is not None for t in tangents[:num_consts]):
        raise TypeError(closed_over_text("custom_vjp", call.name))
    consts, args, ts = primals[:num_consts], primals[num_consts:], tangents[num_consts:]
    nonzero = [t is not None for t in ts]
    outs, residuals, context = call.forward(consts, args, nonzero)
    avals = [typeof(o) for o in outs]
    out_avals = tuple(tangent_aval(a) for a in avals)
    out_tangents = custom_vjp_linear_p.bind(
        *residuals,
        *(t for t in ts if t is not None),
        call=call,
        context=Context((*context, avals), len(residuals)),
        primals=tuple(typeof(a) for a in args),
        nonzero=tuple(nonzero),
        out_avals=out_avals,
    )
    return outs, [t if has_tangent(a) else None for t, a in zip(out_tangents, avals, strict=True)]


class Context:
    """Residuals of a forward rule that are no arrays; compared by identity."""

    __slots__ = ("num_residuals", "value")

    def __init__(self, value: tuple, num_residuals: int) -> None:
        self.value = value
        self.num_residuals = num_residuals


def _linear_transpose(
    cts: list,
    *args: Any,
    call: CallOnValues | BatchedVJP | Call,
    context: Context,
    primals: tuple,
    nonzero: tuple,
    out_avals: tuple,
) -> list:
    n = context.num_residuals
    cotangents = call.backward(context.value, args[:n], list(cts), list(primals))
    wanted = iter([ct for ct, nz in zip(cotangents, nonzero, strict=True) if nz])
    return [None] * n + [
        next(wanted) if is_undefined(a) else (next(wanted), None)[1] for a in args[n:]
    ]


def _no_forward(*args: object, call: Any, **params: object) -> Any:
    raise _forward_mode(f"custom_vjp function {call.name}")


def _linear_batch(
    axis: AxisData, args: object, dims: object, *, call: Any, **params: object
) -> tuple:
    raise _forward_mode(f"custom_vjp function {call.name}")


custom_vjp_linear_p = Primitive(
    "custom_vjp_linear",
    abstract=lambda *avals, out_avals, **params: list(out_avals),
    impl=_no_forward,
    transpose=_linear_transpose,
    batch=_linear_batch,
    lower=lambda ctx, *args, call, **params: _no_forward(call=call),
    transposes_zeros=True,
    multiple_results=True,
    own_types=True,
    higher_order=True,
)


def _stage(trace: StagingTrace, args: Sequence[Any], params: dict) -> list | None:
    call = params["call"]
    if params["jaxpr"] is not None:
        return None
    owner = getattr(call, "owner", None)
    avals = [typeof(a) for a in args]
    functions = () if owner is None else (owner.fwd, owner.bwd, owner.fun)
    if owner is not None and owner._tracing_rules:
        # A rule that is being traced calls its own function: there the body stands for it.
        return call.fun(*args)
    # Without traced values that the rules close over, they can stay Python functions.
    traced, closes = trace_call(call, avals, functions)
    if not closes:
        new = {"call": call, "jaxpr": traced.jaxpr, "num_consts": len(traced.consts)}
        return trace.process(custom_vjp_p, [*traced.consts, *args], new)
    context: list = []

    # Else both rules become jaxprs that are given those values.
    def forward(*xs: object) -> list:
        outs, residuals, ctx = call.forward((), xs, [has_tangent(a) for a in avals])
        context[:] = [(*ctx, [typeof(o) for o in outs]), len(outs)]
        return [*outs, *residuals]

    with tracing_rules(owner):
        fwd, fwd_consts = closed_call_jaxpr(forward, avals, f"forward rule of {call.name}")
    # The structure of the residuals is known now: what the backward rule is traced for.
    value, n = context
    out_cts = [cotangent_aval(a) for a in value[2] if has_tangent(a)]
    res_avals = fwd.out_avals[n:]

    def backward(*xs: object) -> list:
        traced_cts = iter(xs[len(res_avals) :])
        cts = [next(traced_cts) if has_tangent(a) else None for a in value[2]]
        in_cts = call.backward(value, xs[: len(res_avals)], cts, avals)
        return [
            instantiate(cotangent_aval(a)) if ct is None else ct
            for ct, a in zip(in_cts, avals, strict=True)
            if has_tangent(a)
        ]

    with tracing_rules(owner):
        bwd, bwd_consts = closed_call_jaxpr(
            backward, [*res_avals, *out_cts], f"backward rule of {call.name}"
        )
    # The body takes the rules' constants too, and reads none of them.
    j = traced.jaxpr.jaxpr
    start = len(traced.consts)
    unread = [Var(typeof(c)) for c in (*fwd_consts, *bwd_consts)]
    widened = ClosedJaxpr(
        j.replace(invars=[*j.invars[:start], *unread, *j.invars[start:]]), traced.jaxpr.consts
    )
    return custom_vjp_p.bind(
        *traced.consts,
        *fwd_consts,
        *bwd_consts,
        *args,
        call=ClosedCall(call.name, (start, start + len(fwd_consts)), n, fwd, bwd),
        jaxpr=widened,
        num_consts=start + len(unread),
    )


custom_vjp_p = call_primitive(
    "custom_vjp_call",
    jvp=_jvp,
    linearize=_linearize,
    batch=batch_call(lambda: custom_vjp_p, BatchedVJP),
    stage=_stage,
)


class custom_vjp(FunctionWithRules):  # noqa: N801  (the public name is JAX's)
    """A function with a reverse derivative of its own; use as a decorator.

    `defvjp(fwd, bwd)` gives the rules: `fwd` takes the function's arguments and returns
    (output, residuals); `bwd(*nondiff_args, residuals, output cotangent)` returns a tuple with a
    cotangent for each differentiated argument, None for zeros. Forward mode does not work on it.

    Args:
      fun: the function.
      nondiff_argnums, nondiff_argnames: arguments that are handed to bwd as they are, first.

    Raises TypeError when differentiated in forward mode, or with respect to a value it closes
    over, or when bwd's result has not the arguments' structure and types.

    >>> import weft
    >>> @weft.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x: (x, None), lambda _, ct: (weft.numpy.clip(ct, -1.0, 1.0),)
    ... )
    >>> weft.grad(lambda x: 5.0 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.optimize_remat = False
        self.fwd: Any = None
        self.bwd: Any = None

    def defvjp(
        self,
        fwd: Callable,
        bwd: Callable,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the forward and the backward rule.

        symbolic_zeros: the leaves of fwd's arguments have `.value` and `.perturbed`, and zero
        cotangents reach bwd as `SymbolicZero`. optimize_remat: accepted for compatibility; under
        `checkpoint` what the residuals do not need is never computed again, with or without it.
        """
        for name, rule in (("fwd", fwd), ("bwd", bwd)):
            if not callable(rule):
                raise TypeError(f"defvjp: {name} must be a function, got {type(rule).__name__}")
        self.fwd, self.bwd = fwd, bwd
        self._symbolic_zeros = bool(symbolic_zeros)
        self.optimize_remat = bool(optimize_remat)
        self._traces = {}

    @api_boundary
    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self.fwd is None:
            raise AttributeError(
                f"custom_vjp function {self._signature.name} has no rules; give them with "
                f"{self._signature.name}.defvjp(fwd, bwd)"
            )
        return self._apply(custom_vjp_p, Call, args, kwargs)
