"""Linear functions that are pytrees: results of `linearize`, `vjp` and `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from weft._xla import pytree
from weft.api.backward import cotangents
from weft.api.grad_arguments import Flat, fits, matched
from weft.autodiff.jvp import Linearized, cotangent_aval, tangent_aval
from weft.autodiff.transpose import backward_pass
from weft.autodiff.zeros import instantiate_zero
from weft.core import dtypes
from weft.core.boundary import api_boundary
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.trace import typeof
from weft.core.tree import flatten, names_in
from weft.core.undefined import UndefinedPrimal
from weft.ops.as_array import as_array
from weft.ops.elementwise_api import convert
from weft.refs.accumulate import (
    DidntWant,
    DontWant,
    GradRef,
    GradValue,
    NotNeeded,
    NotSaveable,
    check_refs,
    is_mark,
    is_ref,
)

if TYPE_CHECKING:
    from weft.core.aval import ShapedArray
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


class LinearProgram:
    """A linearized function but for its residuals: the linear program and how to call it.

    origins: for each residual the flat primal that it is, None where it was computed.
    refs: the flat primals that are what refs held.
    """

    __slots__ = ("in_avals", "in_tree", "jaxpr", "name", "nonzero_in", "nonzero_out", "origins",
                 "out_avals", "out_tree", "refs")  # fmt: skip

    def __init__(
        self,
        name: str,
        lin: Linearized,
        in_avals: list,
        flat: Flat,
        primals: Sequence[Any] = (),
        refs: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.jaxpr: Jaxpr = lin.jaxpr
        self.nonzero_in, self.nonzero_out = lin.nonzero_in, lin.nonzero_out
        self.in_avals, self.out_avals = in_avals, lin.out_avals
        self.in_tree, self.out_tree = flat.in_tree, flat.out_tree
        argument_at = {id(x): i for i, x in reversed(list(enumerate(primals)))}
        self.origins = [argument_at.get(id(c)) for c in lin.consts]
        self.refs = refs


class Pushforward:
    """The derivative that `linearize` gives: from tangents of the inputs to those of the output.

    A pytree of its residuals, so that it passes in and out of jitted functions. As a
    `weft.tree_util.Partial`, it is func(*args, *tangents).
    """

    __slots__ = ("__weakref__", "_program", "_residuals")
    keywords: ClassVar[dict[str, Any]] = {}

    def __init__(self, program: LinearProgram, residuals: Sequence[Any]) -> None:
        self._program = program
        self._residuals = residuals

    @property
    def func(self) -> Callable:
        """The function of the residuals, as a list, and the tangents."""
        program = self._program
        return lambda residuals, *tangents: Pushforward(program, residuals)(*tangents)

    @property
    def args(self) -> tuple:
        """The residuals, as a list."""
        return (list(self._residuals),)

    @api_boundary
    def __call__(self, *tangents: object) -> Any:
        p = self._program
        api = f"the linearized {p.name}"
        leaves, tree = flatten(tangents)
        if tree != p.in_tree:
            raise TypeError(f"{api} takes tangents of structure {p.in_tree}, got {tree}")
        want = [tangent_aval(a) for a in p.in_avals]
        in_tangents = matched(leaves, want, p.nonzero_in, (api, tree, "tangents", "the primal"))
        out_t = iter(eval_jaxpr(p.jaxpr, self._residuals, *in_tangents))
        full = [
            full_tangent(next(out_t) if nz else None, a)
            for nz, a in zip(p.nonzero_out, p.out_avals, strict=True)
        ]
        return p.out_tree.unflatten(as_arrays(full))


@dataclass(frozen=True, eq=False, slots=True)
class TransposedProgram:
    """A linear function but for the values that it closes over, and the types of its inputs.

    weak: which inputs were weakly typed. whole: all inputs are integers, and so are cotangents.
    """

    name: str
    jaxpr: Jaxpr
    in_avals: list
    weak: list[bool]
    whole: bool
    in_tree: PyTreeDef
    out_tree: PyTreeDef

    def cotangent_type(self, aval: ShapedArray) -> ShapedArray:
        return aval.strip_weak_type() if self.whole else cotangent_aval(aval)


class Transposed:
    """The function that `linear_transpose` gives: from a cotangent to those of the inputs.

    A pytree of the values that the linear function closes over, so that jitted functions return it.
    """

    __slots__ = ("__weakref__", "_consts", "_program")

    def __init__(self, program: TransposedProgram, consts: Sequence[Any]) -> None:
        self._program = program
        self._consts = consts

    @api_boundary
    def __call__(self, cts: object) -> Any:
        p = self._program
        leaves, tree = flatten(cts)
        if tree != p.out_tree:
            raise TypeError(
                f"the transposed {p.name} takes a cotangent of the output's structure "
                f"{p.out_tree}, got {tree}"
            )
        want = [p.cotangent_type(a) for a in p.jaxpr.out_avals]
        where = (f"the transposed {p.name}", tree, "cotangent", "the output")
        out_cts = matched(leaves, want, [True] * len(want), where, TypeError)
        undefined = [UndefinedPrimal(a) for a in p.in_avals]
        result = backward_pass(p.jaxpr, self._consts, undefined, out_cts)
        full = [
            instantiate_zero(p.cotangent_type(a)) if ct is None else ct
            for ct, a in zip(result, p.in_avals, strict=True)
        ]
        return p.in_tree.unflatten(
            [as_weak(ct) if w else ct for ct, w in zip(as_arrays(full), p.weak, strict=True)]
        )


class Pullback:
    """The function that `vjp` gives: from a cotangent of the output to those of the inputs.

    A pytree of what it keeps, so that it passes in and out of jitted functions: of `args_res`, then
    of `opaque_residuals`.
    """

    __slots__ = ("__weakref__", "_args", "_program", "_residuals")

    def __init__(self, program: LinearProgram, residuals: Sequence[Any]) -> None:
        self._program = program
        self._residuals = residuals
        self._args: list | None = None  # args_res, once somebody has seen them

    @property
    def args_res(self) -> list:
        """The residuals of each argument, in the structure of the arguments.

        `NotNeeded()` stands for values that the backward pass does not read, `NotSaveable()` for
        those that saveable_args left out; assign these before the call.
        """
        if self._args is None:
            p = self._program
            flat: list[Any] = [NotNeeded()] * len(p.in_avals)
            for x, i in zip(self._residuals, p.origins, strict=True):
                if i is not None:
                    flat[i] = x
            self._args = list(p.in_tree.unflatten(flat))
        return self._args

    @args_res.setter
    def args_res(self, values: Sequence[Any]) -> None:
        self._args = list(values)

    @property
    def opaque_residuals(self) -> list:
        """The residuals that the forward pass computed for the backward pass."""
        pairs = zip(self._residuals, self._program.origins, strict=True)
        return [x for x, i in pairs if i is None]

    def replace(self, *, args_res: Sequence[Any]) -> Pullback:
        """Return this function with other `args_res`.

        >>> import weft
        >>> _, f_vjp = weft.vjp(lambda w, x: w * x, 2.0, 3.0, saveable_args=(False, True))
        >>> f_vjp.replace(args_res=[2.0, f_vjp.args_res[1]])(1.0)
        (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
        """
        other = Pullback(self._program, self._residuals)
        other._args = list(args_res)
        return other

    def _kept(self) -> Sequence[Any]:
        """Return the residuals, with what was assigned to `args_res`."""
        if self._args is None:
            return self._residuals
        p = self._program
        arguments, tree = flatten(tuple(self._args), is_mark)
        if tree != p.in_tree:
            raise ValueError(
                f"the vjp of {p.name}: args_res must have the structure of the primals, "
                f"{p.in_tree}, got {tree}"
            )
        return [
            x if i is None else arguments[i]
            for x, i in zip(self._residuals, p.origins, strict=True)
        ]

    def _complete(self) -> Sequence[Any]:
        kept, p = self._kept(), self._program
        if self._args is None and NotSaveable() not in map(_mark, kept):
            return kept
        for x, i in zip(kept, p.origins, strict=True):
            if i is None:
                continue
            name = names_in(p.in_tree, "args_res")[i]
            if is_mark(x):
                raise ValueError(
                    f"the vjp of {p.name}: {name} was not saved, as saveable_args said; restore it "
                    f"before the call, f_vjp.{name} = value or f_vjp.replace(args_res=...)"
                )
            if not fits(typeof(x), p.in_avals[i]):
                raise TypeError(
                    f"the vjp of {p.name}: {name} must have the argument's type, "
                    f"{p.in_avals[i].str_short()}, got {typeof(x).str_short()}"
                )
        return kept

    @api_boundary
    def __call__(self, cts: Any, *others: object) -> Any:
        p = self._program
        if others:
            raise TypeError(
                f"the vjp of {p.name} takes one cotangent, of the function's whole output, got "
                f"{1 + len(others)}; for an output of several parts give them in its structure "
                f"{p.out_tree}, such as f_vjp((a, b))"
            )
        if p.refs:
            raise ValueError(self._wants_ref(p.refs[0]))
        return self._pull(cts, None)

    def _wants_ref(self, i: int) -> str:
        name = names_in(self._program.in_tree, "primals")[i]
        return (
            f"the vjp of {self._program.name}: {name} is a Ref, so its gradient must be "
            "accumulated into a ref; bind one by with_refs, f_vjp.with_refs(grad_ref)(cotangent)"
        )

    def _pull(self, cts: ArrayLike | list, into: list | None) -> Any:
        p = self._program
        api = f"the vjp of {p.name}"
        leaves, tree = flatten(cts)
        if tree != p.out_tree:
            raise ValueError(
                f"{api} takes a cotangent of the output's structure {p.out_tree}, got {tree}"
            )
        want = [cotangent_aval(a) for a in p.out_avals]
        out_cts = matched(leaves, want, p.nonzero_out, (api, tree, "cotangent", "the output"))
        return p.in_tree.unflatten(
            full_cotangents(p.jaxpr, self._complete(), p.nonzero_in, p.in_avals, out_cts, into)
        )

    def with_refs(self, *refs: object) -> Callable[[Any], Any]:
        """Return a function that adds cotangents of the inputs to refs, instead of returning them.

        refs: for each primal a Ref of its cotangent's type, `weft.ad.GradValue()` to get the
        cotangent, or `weft.ad.DontWant()` for none, which is then not computed; in the structure
        of the primals. The cotangent of a primal that is itself a Ref can only go to a ref: it is
        that of what the primal held before the function ran.

        The function returns `weft.ad.GradRef()` for what went to a ref and `DidntWant()` for what
        was not wanted. Raises ValueError for another structure, TypeError for a ref that
        has not the cotangent's shape and dtype.

        >>> import weft
        >>> total = weft.new_ref(0.0)
        >>> for x in (1.0, 2.0):
        ...     _, f_vjp = weft.vjp(lambda v: v**2, x)
        ...     _ = f_vjp.with_refs(total)(1.0)
        >>> total[...]
        Array(6., dtype=float32, weak_type=True)
        """
        p = self._program
        if not refs:
            return self
        into = check_refs(f"with_refs of the vjp of {p.name}", p.in_tree, p.in_avals, refs)
        for i in p.refs:
            if isinstance(into[i], GradValue):
                raise ValueError(self._wants_ref(i))

        @api_boundary
        def add_up(cts: ArrayLike) -> Any:
            return self._pull(cts, into)

        return add_up


def _mark(x: object) -> Any:
    return x if is_mark(x) else None


def saveable(flags: object, tree: PyTreeDef, api: str = "vjp: saveable_args") -> list[bool]:
    """Return for each leaf of `tree` the flag that covers it, of bools in nested tuples.

    Containers match by their number of children.
    """
    if isinstance(flags, bool):
        return [flags] * tree.num_leaves
    children = tree.children()
    if not isinstance(flags, tuple | list) or len(flags) != len(children):
        raise ValueError(
            f"{api} must be a bool, or a tuple with an entry for each of the {len(children)} "
            f"children of {tree}, got {flags!r}"
        )
    return [
        flag
        for i, (each, child) in enumerate(zip(flags, children, strict=True))
        for flag in saveable(each, child, f"{api}[{i}]")
    ]


def leave_out(pullback: Pullback, flags: Sequence[bool]) -> Pullback:
    """Without the residuals that are primals whose flag is False."""
    program = pullback._program
    pairs = zip(pullback._residuals, program.origins, strict=True)
    return Pullback(program, [x if i is None or flags[i] else NotSaveable() for x, i in pairs])


def _push_children(f: Pushforward) -> tuple[tuple, LinearProgram]:
    return tuple(f._residuals), f._program


def _pull_children(f: Pullback) -> tuple[tuple, tuple]:
    kept, origins = f._kept(), f._program.origins
    last = len(f._program.in_avals)  # what was computed comes behind all arguments
    places = [last if i is None else i for i in origins]
    order = sorted(range(len(kept)), key=places.__getitem__)
    saved = tuple(k for k in order if not is_mark(kept[k]))
    return tuple([kept[k] for k in saved]), (f._program, saved)


def _pull_from(aux: tuple, children: tuple) -> Pullback:
    program, saved = aux
    residuals: list[Any] = [NotSaveable()] * len(program.origins)
    for k, x in zip(saved, children, strict=True):
        residuals[k] = x
    return Pullback(program, residuals)


pytree.register_node(Pushforward, _push_children, Pushforward)
pytree.register_node(Transposed, lambda f: (tuple(f._consts), f._program), Transposed)
pytree.register_node(Pullback, _pull_children, _pull_from)


# Results ----------------------------------------------------------------------------------------


def full_cotangents(
    jaxpr: Jaxpr,
    residuals: Sequence[Any],
    nonzero_in: Sequence[bool],
    in_avals: Sequence[Any],
    cts: Sequence[Any] | None,
    into: Sequence[Any] | None = None,
) -> list:
    """Return cotangents for all flat inputs, zeros where there are none; cts None stands for a one.

    into: for each flat input a ref that gets the cotangent, or a word about it.
    """
    chosen = None
    if into is not None:
        chosen = [
            x if is_ref(x) else isinstance(x, GradValue)
            for x, nz in zip(into, nonzero_in, strict=True)
            if nz
        ]
    result = iter(cotangents(jaxpr, residuals, cts, chosen))
    full: list[Any] = []
    for i, (aval, nz) in enumerate(zip(in_avals, nonzero_in, strict=True)):
        ct = next(result) if nz else None
        if into is not None and not isinstance(into[i], GradValue):
            full.append(DidntWant() if isinstance(into[i], DontWant) else GradRef())
            continue
        ct = instantiate_zero(cotangent_aval(aval)) if ct is None else ct
        full.append(as_weak(ct) if getattr(aval, "weak_type", False) else ct)
    return full


def as_arrays(xs: Sequence[Any]) -> list:
    """Python scalars among results made arrays."""
    return [as_array(x) for x in xs]


def full_tangent(t: ArrayLike | None, of: ShapedArray) -> Any:
    """Return the tangent of a result of type `of`: zeros if there is none, weakly typed if `of` is.

    Inside the transformations tangents are never weakly typed, so that sums of them agree.
    """
    if t is None:
        t = instantiate_zero(tangent_aval(of))
    return as_weak(t) if getattr(of, "weak_type", False) else t


def as_weak(t: ArrayLike) -> Any:
    aval = typeof(t)
    return t if aval.dtype == dtypes.float0 else convert(t, aval.dtype, weak_type=True)
