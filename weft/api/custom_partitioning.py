"""custom_partitioning: functions that say themselves how they run on shards."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.api.shard_map import shard_map
from weft.autodiff.vmap import AxisData
from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.errors import UnexpectedTracerError
from weft.core.jaxpr import ClosedJaxpr, eval_closed, jaxpr_axes
from weft.core.primitive import Primitive
from weft.core.source import function_name
from weft.core.trace import Tracer, closed_call_jaxpr, trace_to_jaxpr, typeof
from weft.core.tree import flatten
from weft.driver.partitioned_calls import TARGET, PartitionedCall
from weft.driver.staging import ShapeDtypeStruct
from weft.sharding.mapping import Rule, SdyShardingRule, as_rule, parse_rule
from weft.sharding.mesh import AxisType
from weft.sharding.named import NamedSharding

if TYPE_CHECKING:
    from weft._xla.mlir import ir
    from weft.core.tree import PyTreeDef
    from weft.lowering.context import RuleContext


class custom_partitioning:
    """A function with a rule of its own for running on shards, given by `def_partition`.

    fun: a function of pytrees of arrays. Eagerly, on one device, and in a shard_map over all axes
    of the mesh it is called as it is.
    static_argnums: positions of arguments that are no arrays; the callbacks get them in front.

    Raises:
      NotImplementedError: it is differentiated or batched: write `custom_vjp` or `custom_vmap`
      around it.

    Source: Shardy's custom calls with `sdy.sharding_rule`; the calls are taken out of the program
    before it is partitioned, each replaced by a `shard_map` over all axes.

    >>> import weft
    >>> from weft.custom_partitioning import custom_partitioning
    >>> @custom_partitioning
    ... def softmax(x):
    ...     return weft.nn.softmax(x, axis=-1)
    >>> def rows(mesh, args, result):
    ...     (x,) = args
    ...     lead = weft.NamedSharding(mesh, weft.P(*x.sharding.spec[:-1]))
    ...     return mesh, weft.nn.softmax, lead, (lead,)
    >>> _ = softmax.def_partition(rows, sharding_rule="... i -> ... i")
    >>> mesh = weft.make_mesh((4,), ("x",), axis_types=(weft.AxisType.Auto,))
    >>> x = weft.device_put(weft.numpy.ones((8, 2)), weft.NamedSharding(mesh, weft.P("x")))
    >>> weft.jit(softmax)(x).sharding.spec
    P('x',)
    """

    def __init__(self, fun: Callable, static_argnums: Sequence[int] = ()) -> None:
        if not callable(fun):
            raise TypeError(f"custom_partitioning: fun must be a function, got {fun!r:.100}")
        self.fun = fun
        self.static_argnums = (
            (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        )
        self.partition: Callable | None = None
        self.infer_sharding_from_operands: Callable | None = None
        self.propagate_user_sharding: Callable | None = None
        self.sharding_rule: SdyShardingRule | Callable | None = None
        functools.update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable,
        infer_sharding_from_operands: Callable | None = None,
        propagate_user_sharding: Callable | None = None,
        decode_shardings: bool = True,
        sharding_rule: Rule | None = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable:
        """Set how the function runs on shards.

        partition(*static arguments, mesh, arguments, result): arguments and result are pytrees of
        `ShapeDtypeStruct` with whole shapes and the shardings that propagation chose. Returns
        (mesh, a function of one device's shards, shardings of the result, a tuple of shardings of
        the arguments); the shards arrive as it says, and collectives over all mesh axes may be
        called.
        sharding_rule: how dimensions are split together, an `SdyShardingRule`, its text, or a
        function(*static arguments, mesh, operand types, result types) that returns one of them,
        or the text and a dict of the options below.
        infer_sharding_from_operands(*static arguments, mesh, arguments, result): the result's
        shardings from those of the arguments, where there is no rule.
        propagate_user_sharding, decode_shardings: kept for callers; propagation goes by the rule,
        and shardings are always `NamedSharding`s.
        reduction_factors, need_replication_factors, permutation_factors, factor_sizes: of a rule
        that is given as text, see `SdyShardingRule`.

        Raises ValueError for a rule that does not hold together.
        """
        if not callable(partition):
            raise TypeError(f"def_partition: partition must be a function, got {partition!r:.100}")
        self.sharding_rule = as_rule(
            sharding_rule,
            {
                "reduction_factors": reduction_factors,
                "need_replication_factors": need_replication_factors,
                "permutation_factors": permutation_factors,
                **factor_sizes,
            },
        )
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        return partition

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["fun"], name)

    @api_boundary
    def __call__(self, *args: object, **kwargs: object) -> Any:
        name = function_name(self.fun)
        if self.partition is None:
            raise AttributeError(
                f"custom_partitioning of {name}: no partition is defined; call "
                f"{name}.def_partition(partition, sharding_rule=…)"
            )
        # The callbacks are given all arguments by position, so keywords and defaults are put in
        # place.
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"custom_partitioning of {name}: {', '.join(bound.kwargs)} can be passed by keyword"
                " only; the callbacks take arguments by position"
            )
        args = bound.args
        static_at = {i % len(args) for i in self.static_argnums}
        static = tuple(args[i] for i in sorted(static_at))
        if any(isinstance(leaf, Tracer) for leaf in flatten(static)[0]):
            raise UnexpectedTracerError(
                f"custom_partitioning of {name}: arguments {sorted(static_at)} are static, but hold"
                " traced values"
            )
        # Only what is not static is an operand of the op.
        leaves, tree = flatten(tuple(a for i, a in enumerate(args) if i not in static_at))
        out_tree: list[PyTreeDef] = []

        def flat(*xs: object) -> list:
            dynamic = iter(tree.unflatten(xs))
            full = [a if i in static_at else next(dynamic) for i, a in enumerate(args)]
            outs, out = flatten(self.fun(*full))
            out_tree[:] = [out]
            return outs

        closed, consts = closed_call_jaxpr(flat, [typeof(x) for x in leaves], name)
        if any(isinstance(c, Tracer) for c in consts):
            raise UnexpectedTracerError(
                f"custom_partitioning of {name}: it closes over a traced value, of which the "
                "callbacks know nothing; pass it as an argument"
            )
        if consts:  # arrays that it closes over are whole on every device
            closed = ClosedJaxpr(
                closed.jaxpr.replace(
                    constvars=closed.jaxpr.invars[: len(consts)],
                    invars=closed.jaxpr.invars[len(consts) :],
                ),
                consts,
            )
        call = _Call(self, name, static, tree, out_tree[0])
        outs = custom_partitioning_p.bind(*leaves, jaxpr=closed, call=call)
        return out_tree[0].unflatten(outs)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: the function with its callbacks, the static arguments, the trees."""

    owner: custom_partitioning
    name: str
    static: tuple
    in_tree: PyTreeDef
    out_tree: PyTreeDef

    @property
    def api(self) -> str:
        return f"custom_partitioning of {self.name}"

    def rule(self, mesh: object, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Get the sharding rule that the user gave; None without one."""
        rule = self.owner.sharding_rule
        if rule is None or isinstance(rule, SdyShardingRule):
            return rule
        sharding_rule = rule(*self.static, mesh, list(operands), list(results))
        options: dict[str, Any] = {}
        if isinstance(sharding_rule, tuple | list) and len(sharding_rule) == 2:
            sharding_rule, options = sharding_rule
        if isinstance(sharding_rule, str):
            return parse_rule(sharding_rule, **options)
        if not isinstance(sharding_rule, SdyShardingRule):
            raise ValueError(
                f"{self.api}: the function sharding_rule must return an SdyShardingRule or its "
                f"text, got {type(sharding_rule).__name__}"
            )
        return sharding_rule

    def infer(self, mesh: object, operands: Sequence[Any], results: Sequence[Any]) -> list | None:
        """Return shardings of the results by `infer_sharding_from_operands`, None without it."""
        infer = self.owner.infer_sharding_from_operands
        if infer is None or self.owner.sharding_rule is not None:
            return None
        shapes = [ShapeDtypeStruct(r.shape, r.dtype) for r in results]
        inferred = infer(
            *self.static, mesh, self.in_tree.unflatten(operands), self.out_tree.unflatten(shapes)
        )
        return self._flat_shardings(
            self.out_tree, inferred, "infer_sharding_from_operands must return", results, mesh
        )

    def per_device(
        self, mesh: Any, axes: frozenset, operands: Sequence[Any], results: Sequence[Any]
    ) -> ClosedJaxpr:
        """Return the call as a program that runs on every device, on whole arrays."""
        partition: Any = self.owner.partition
        answer = partition(
            *self.static, mesh, self.in_tree.unflatten(operands), self.out_tree.unflatten(results)
        )
        if not (isinstance(answer, tuple | list) and len(answer) == 4):
            raise TypeError(
                f"{self.api}: partition must return (mesh, function of shards, shardings of the "
                f"result, shardings of the arguments), got {answer!r:.200}"
            )
        own_mesh, lower_fn, out_shardings, in_shardings = answer
        if dict(own_mesh.shape) != dict(mesh.shape):
            raise ValueError(
                f"{self.api}: partition returned the mesh {own_mesh!r}; the program's is {mesh!r}"
            )
        # Lists and tuples of shardings are taken alike, as the arguments come as a tuple.
        in_shardings = tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings
        ins = self._flat_shardings(
            self.in_tree, in_shardings, "partition must return, for the arguments,", operands, mesh
        )
        outs = self._flat_shardings(
            self.out_tree, out_shardings, "partition must return, for the result,", results, mesh
        )

        def flat(*xs: object) -> list:
            local_results, tree = flatten(lower_fn(*self.in_tree.unflatten(xs)))
            if tree != self.out_tree:
                raise TypeError(
                    f"{self.api}: the function of shards returned {tree}, the function itself "
                    f"returns {self.out_tree}"
                )
            for i, (x, r, s) in enumerate(zip(local_results, results, outs, strict=True)):
                want, got = ShapedArray(s.shard_shape(r.shape), r.dtype), typeof(x)
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    raise ValueError(
                        f"{self.api}: result {i} of the function of shards has type "
                        f"{got.str_short()}; placed as {s.spec} it is {want.str_short()}"
                    )
            return local_results

        # Explicit axes would have arguments placed as the types say before the call.
        auto = mesh.abstract_mesh.update_axis_types(dict.fromkeys(mesh.axis_names, AxisType.Auto))
        mapped = shard_map(
            flat,
            mesh=auto,
            in_specs=tuple(s.spec for s in ins),
            out_specs=[s.spec for s in outs],
            axis_names=axes,
            check_vma=False,
        )
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        jaxpr, consts = trace_to_jaxpr(lambda *xs: mapped(*xs), avals, self.name)
        return ClosedJaxpr(jaxpr, consts)

    def _flat_shardings(
        self, tree: PyTreeDef, shardings: object, label: str, arrays: Sequence[Any], mesh: object
    ) -> list[NamedSharding]:
        try:
            flat = tree.flatten_up_to(shardings)
        except (ValueError, TypeError) as e:
            raise ValueError(
                f"{self.api}: {label} one sharding each for {tree}, got {shardings!r:.200}"
            ) from e
        for sharding, array in zip(flat, arrays, strict=True):
            if not isinstance(sharding, NamedSharding):
                raise ValueError(
                    f"{self.api}: {label} a NamedSharding for each array, got {sharding!r:.200}"
                )
            sharding.shard_shape(tuple(array.shape))
        return [NamedSharding(mesh, s.spec) for s in flat]


def _abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, call: _Call) -> list:
    return list(jaxpr.out_avals)


def _no_derivative(*_: object, call: _Call, **params: object) -> Any:
    raise NotImplementedError(
        f"{call.api} has no derivative: its callbacks say how to run it, not how it changes. Wrap "
        "it with weft.custom_vjp or weft.custom_jvp"
    )


def _no_batch(axis: AxisData, args: list, dims: list, *, call: _Call, **params: object) -> Any:
    raise NotImplementedError(
        f"{call.api} under vmap: its callbacks take arrays of the ranks they are written for. Wrap "
        "it with weft.custom_batching.custom_vmap, or call it on the whole batch"
    )


def _lower(ctx: RuleContext, *operands: ir.Value, jaxpr: ClosedJaxpr, call: _Call) -> list:
    module = ctx.module
    mesh = module.mesh
    free = () if mesh is None else set(mesh.axis_names) - module.manual_axes
    if not free or module.num_partitions == 1 or not module.use_shardy or jaxpr.effects:
        return ctx.inline(jaxpr, *operands)
    number = len(module.partitioned_calls)
    module.partitioned_calls.append(PartitionedCall(call, ctx, jaxpr))
    attrs = {
        "call_target_name": ctx.string(TARGET),
        "backend_config": ctx.string(str(number)),
    }
    types = ctx.out_types()
    rule = call.rule(mesh, [x.type for x in operands], types)
    if rule is not None:
        text = rule.attribute_text([x.type for x in operands], types, call.api)
        attrs["sdy.sharding_rule"] = ctx.attr(text)
    return list(ctx.op("stablehlo.custom_call", operands, types, attrs))


def _factors(avals: list, outs: list, *, jaxpr: ClosedJaxpr, call: _Call) -> str:
    """Return the call's dimensions as factors of explicit sharding types."""
    mesh = next(a.sharding.mesh for a in avals if a.sharding is not None)
    rule = call.rule(mesh, avals, outs)
    if rule is None:
        sides = (", ".join(" ".join("*" * a.ndim) for a in side) for side in (avals, outs))
        return " -> ".join(sides)
    return rule.factor_text(avals, outs, call.api)


custom_partitioning_p = Primitive(
    "custom_partitioning",
    abstract=_abstract,
    effects=lambda avals, params: params["jaxpr"].effects,
    impl=lambda *args, jaxpr, call: eval_closed(jaxpr, *args),
    jvp=_no_derivative,
    transpose=_no_derivative,
    batch=_no_batch,
    lower=_lower,
    sharding=_factors,
    named_axes=lambda params: jaxpr_axes(params["jaxpr"]),
    multiple_results=True,
    higher_order=True,
)
