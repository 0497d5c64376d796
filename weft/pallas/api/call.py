"""pallas_call: a kernel run once for each point of a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.aval import ShapedArray
from weft.core.boundary import api_boundary
from weft.core.cell import Cell
from weft.core.dtypes import canonicalize_dtype, int32
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, walk_eqns
from weft.core.kernel_frame import Frame, kernel_frame
from weft.core.ref import AbstractRef
from weft.core.trace import Tracer, trace_to_jaxpr, typeof
from weft.core.tree import arg_names, flatten, leaf_names
from weft.ffi.call import place
from weft.ffi.checks import check_aliases, check_batch_dims
from weft.ffi.rule import ShardingRule, as_rule
from weft.ops.as_array import as_array
from weft.ops.dtype_casts import convert
from weft.pallas.api.memory import MemorySpace, ScratchShape, scratch_refs
from weft.pallas.api.params import kernel_options, settings
from weft.pallas.api.primitives import scratch_types
from weft.pallas.api.signature import Arrangement, Builds, misfit_of
from weft.pallas.api.specs import (
    BlockSpec,
    GridSpec,
    NoBlockSpec,
    block_mapping,
    kernel_ref,
    no_block_spec,
)
from weft.pallas.constants import with_constants
from weft.pallas.ir import UNKNOWN_EXTENT, KernelCall, Program
from weft.pallas.op import pallas_call_p
from weft.pallas.uses import written_vars
from weft.refs.api import Ref

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.driver.staging import ShapeDtypeStruct
    from weft.pallas.api.mesh import Mesh
    from weft.runtime.array import Array
    from weft.typing import ArrayLike

# Arguments -------------------------------------------------------------------------------------


def result_types(
    label: str, out_shape: Array | list | ShapeDtypeStruct
) -> tuple[list[ShapedArray], Any, list[str]]:
    """Return the types of the results, their tree and names."""
    leaves, tree = flatten(out_shape, lambda x: isinstance(x, ScratchShape))
    names = leaf_names(tree.unflatten(list(range(len(leaves)))), "out_shape")
    avals = []
    for leaf, name in zip(leaves, names, strict=True):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(
                f"{label}: {name} must have a shape and a dtype, such as weft.ShapeDtypeStruct((8, "
                f"128), 'float32'), got {type(leaf).__name__}: {leaf!r:.80}"
            )
        avals.append(ShapedArray(tuple(leaf.shape), canonicalize_dtype(leaf.dtype)))
    return avals, tree, names


def operand_leaves(label: str, args: tuple) -> tuple[list, Any, list[str]]:
    """Return the flat operands, with refs by their handles, their tree and names."""
    leaves, tree = flatten(args, lambda x: isinstance(x, Ref))
    names = leaf_names(tree.unflatten(list(range(len(leaves)))), "args")
    flat = []
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, Ref):
            if leaf._views:
                raise TypeError(
                    f"{label}: {name} is a part of a Ref, or a view (ref.at[...], ref.T); pass the "
                    "whole ref and index it in the kernel"
                )
            flat.append(leaf._handle)
            continue
        try:
            typeof(leaf)
        except TypeError:
            raise TypeError(
                f"{label}: {name} of type {type(leaf).__name__} is not an array: {leaf!r:.80}"
            ) from None
        flat.append(as_array(leaf))
    return flat, tree, names


def input_type(x: ArrayLike) -> ShapedArray:
    """Return the type of the array an operand is, or holds."""
    aval = typeof(x)
    return ShapedArray(aval.shape, aval.dtype)


def _specs(label: str, name: str, specs: object, tree: PyTreeDef, n: int) -> list:
    """Return one spec for each leaf of the arguments or results."""
    if isinstance(specs, NoBlockSpec) or specs is None:
        return [None] * n

    def leaf(x: Sequence | BlockSpec) -> bool:
        return x is None or isinstance(x, BlockSpec | NoBlockSpec)

    if isinstance(specs, list) and tree.node_data() and tree.node_data()[0] is tuple:
        specs = tuple(specs)
    elif isinstance(specs, tuple) and tree.node_data() and tree.node_data()[0] is list:
        specs = list(specs)
    leaves, structure = flatten(specs, leaf)
    for s in leaves:
        if not leaf(s):
            raise TypeError(
                f"{label}: {name} must hold pl.BlockSpec, got {type(s).__name__}: {s!r:.80}"
            )
    if structure != tree:
        if len(leaves) == n and structure == flatten(list(leaves), leaf)[1]:
            return leaves
        raise ValueError(
            f"{label}: {name} must have the structure of what it stands for, {tree} with {n} "
            f"leaves, but has {structure} with {len(leaves)}; give one BlockSpec for each array"
        )
    return leaves


# Kernels ---------------------------------------------------------------------------------------


def trace_kernel(
    label: str,
    fun: Callable,
    refs: Sequence[AbstractRef],
    arrange: Callable[[list[Ref]], tuple[tuple, dict]],
    frame: Frame,
) -> tuple[Jaxpr, list, tuple[str, ...]]:
    """Return the jaxpr of a kernel on refs, what it closes over, and the refs' names."""
    name = getattr(fun, "__name__", "kernel")

    def flat(*handles: Array) -> list:
        args, kwargs = arrange([Ref(h) for h in handles])
        _check_signature(label, fun, args, kwargs)
        out = fun(*args, **kwargs)
        if out is not None:
            raise ValueError(
                f"{label}: kernel {name} returns a value ({out!r:.60}); a kernel returns None and "
                "writes its results to its output refs: out_ref[...] = value"
            )
        return []

    with kernel_frame(frame):
        jaxpr, consts = trace_to_jaxpr(flat, refs, name)
    _check_axes(label, jaxpr, frame)
    return jaxpr, consts, _ref_names(fun, arrange, len(refs))


def _ref_names(fun: Callable, arrange: Callable, n: int) -> tuple[str, ...]:
    """Return the kernel's name for each of its refs."""
    leaves, tree = flatten(arrange(list(range(n))))
    by_position = dict(zip(leaves, arg_names(fun, tree), strict=True))
    return tuple(by_position.get(i, f"extent {i} of the grid") for i in range(n))


def _check_axes(label: str, jaxpr: Jaxpr, frame: Frame) -> None:
    """Let a kernel know the axes of its own mesh, and communicate over none."""
    for eqn in walk_eqns(jaxpr):
        prim = eqn.primitive
        if prim.named_axes is None or prim.higher_order or prim.name == "pcast":
            continue
        names = [n for n in prim.named_axes(eqn.rule_params) if n not in frame.axis_sizes]
        if prim.name == "axis_index" and any(names[0] in m.shape for m in frame.meshes if names):
            raise TypeError(
                f"{label}: the kernel asks for its index along axis {names[0]!r} at {eqn.source}, "
                f"which is an axis of another mesh than its own, {frame.mesh}: it runs on no core "
                f"of that one. weft.lax.axis_size({names[0]!r}) is known here"
            )
        if prim.name == "axis_index" and names:
            raise TypeError(
                f"{label}: the kernel asks for its index along axis {names[0]!r} at {eqn.source}, "
                f"which is not an axis of its mesh; take weft.lax.axis_index({names[0]!r}) outside "
                "of the kernel and pass it as an argument"
            )
        if prim.name != "axis_index" and prim.named_axes(eqn.rule_params):
            raise TypeError(
                f"{label}: the kernel uses the collective {prim.name} at {eqn.source}; cores of a "
                "kernel communicate by semaphores and async_copy, devices outside of the kernel"
            )


def _check_signature(label: str, fun: Callable, args: tuple, kwargs: dict) -> None:
    if misfit := misfit_of(fun, *args, **kwargs):
        signature, error = misfit
        extra = f" and the scratch refs {sorted(kwargs)}" if kwargs else ""
        raise TypeError(
            f"{label}: kernel {getattr(fun, '__name__', 'kernel')}{signature} is called with "
            f"{len(args)} refs (scalars, inputs, outputs, scratch, in this order){extra}: {error}"
        )


def trace_programs(
    label: str,
    functions: Sequence[tuple[Callable, Frame]],
    refs: Sequence[AbstractRef],
    arrange: Callable[[list[Ref]], tuple[tuple, dict]],
    operands: list,
    names: Sequence[str],
    hidden: int = 0,
) -> tuple[tuple[Program, ...], list, list[str], tuple[str, ...]]:
    """Return a kernel's programs, what they close over, the names of that, and of all refs.

    Each program takes refs of what any of them closes over, behind those of the operands. hidden:
    how many refs come before the operands'.
    """
    traced = [trace_kernel(label, fun, refs, arrange, frame) for fun, frame in functions]
    consts = list({id(c): c for _, captured, _ in traced for c in captured}.values())
    labels, at = [f"constant {i}" for i in range(len(consts))], hidden + len(operands)
    types = [typeof(x) for x in (*operands, *consts)]
    programs = []
    for (fun, frame), (jaxpr, captured, _) in zip(functions, traced, strict=True):
        full = with_constants(jaxpr, captured, at, consts)
        check_inputs_unwritten(label, full, hidden, types, [*names, *labels])
        programs.append(Program(ClosedJaxpr(full), frame.mesh, getattr(fun, "__name__", "kernel")))
    ref_names = traced[0][2]
    return tuple(programs), consts, labels, (*ref_names[:at], *labels, *ref_names[at:])


def check_inputs_unwritten(
    label: str, jaxpr: Jaxpr, first: int, avals: Sequence[Any], names: Sequence[str]
) -> None:
    """Raise if the kernel writes to an input: refs from outside aside, those are constant."""
    written = written_vars(jaxpr)
    for i, aval in enumerate(avals):
        eqn = written.get(jaxpr.invars[first + i])
        if eqn is not None and not isinstance(aval, AbstractRef):
            raise TypeError(
                f"{label}: the kernel writes to its input {names[i]} at {eqn.source}; inputs are "
                "constant. Write to an output that starts with its contents "
                "(input_output_aliases), or to scratch"
            )


def alias_pairs(label: str, aliases: Any) -> tuple[tuple[int, int], ...]:
    """input_output_aliases as pairs."""
    try:
        return tuple(sorted((int(i), int(o)) for i, o in dict(aliases).items()))
    except (TypeError, ValueError):
        raise TypeError(
            f"{label}: input_output_aliases must be a dict of input number to output number, got "
            f"{aliases!r:.80}"
        ) from None


class Builder:
    """A kernel whose arguments are not known yet.

    functions: each with the mesh whose cores run it, or None: then the programs of a grid do.
    space: of the refs of whole arrays.
    """

    def __init__(
        self,
        label: str,
        title: str,
        functions: Sequence[tuple[Callable, Mesh | None]],
        spec: GridSpec,
        out_shape: Any,
        aliases: object,
        options: dict[str, Any],
        space: MemorySpace | None = None,
    ) -> None:
        self.label, self.title, self.functions, self.spec = label, title, functions, spec
        self.aliases, self.options = aliases, options
        self.meshes = tuple(mesh for _, mesh in functions if mesh is not None)
        self.whole = BlockSpec(memory_space=space)
        self.results, self.out_tree, self.out_names = result_types(label, out_shape)
        self.many = isinstance(out_shape, tuple | list)
        scratch, self.scratch_tree = scratch_types(f"{label}: scratch_shapes", spec.scratch_shapes)
        self.scratch = scratch_refs(label, scratch, self.meshes)

    def function(self) -> Callable[..., Any]:
        """Return the function of arrays that the kernel makes."""
        builds = Builds(self.build)

        @api_boundary
        def call(*args: ArrayLike) -> Any:
            flat, in_tree, names = operand_leaves(self.label, args)
            extents = [convert(n, int32) for n in self.spec.grid if isinstance(n, Tracer)]
            built, consts = builds(flat, in_tree, names)
            operands = self._placed([*extents, *flat, *consts], built)
            return self.out_tree.unflatten(pallas_call_p.bind(*operands, call=built))

        return call

    def _placed(self, operands: list, call: KernelCall) -> Sequence[Any]:
        """Return the operands, those with explicit shardings whole where they must not be split."""
        avals = [typeof(x) for x in operands]
        if self.meshes or all(a.sharding is None for a in avals):
            return operands
        return place(
            operands, avals, call.outputs, call.sharding_rule, call.num_batch_dims, self.label
        )

    def build(self, flat: list, in_tree: PyTreeDef, names: list[str]) -> tuple[KernelCall, list]:
        """Return the kernel call for arguments of these types, and what the kernel closes over."""
        label, spec, results = self.label, self.spec, self.results
        n_scalars = self._count_scalars(in_tree)
        types = [input_type(x) for x in flat]
        dynamic = self._traced_extents()
        # Traced extents are scalars in front, which the function of the kernel never sees.
        grid = tuple(UNKNOWN_EXTENT if d in dynamic else n for d, n in enumerate(spec.grid))
        hidden = len(dynamic)
        scalars = [*[ShapedArray((), int32)] * hidden, *types[:n_scalars]]
        scalar_refs = [AbstractRef(a, MemorySpace.INDEX) for a in scalars]
        inputs = tuple(in_tree.unflatten(flat)[spec.num_scalar_prefetch :])
        input_tree = flatten(inputs, lambda x: isinstance(x, Ref))[1]
        in_specs = _specs(label, "in_specs", spec.in_specs, input_tree, len(flat) - n_scalars)
        out_specs = _specs(label, "out_specs", spec.out_specs, self.out_tree, len(results))

        def mappings(kind: str, names: Sequence[str], specs: Sequence, arrays: Sequence) -> list:
            return [
                block_mapping(f"{label}: {kind}{n}", s or self.whole, a, grid, scalar_refs, hidden)
                for n, s, a in zip(names, specs, arrays, strict=True)
            ]

        ins = mappings("input ", names[n_scalars:], in_specs, types[n_scalars:])
        outs = mappings("output ", self.out_names, out_specs, results)
        pairs = alias_pairs(label, self.aliases)
        check_aliases(label, pairs, types, results, kinds=("input", "output"))
        refs = [*scalar_refs, *map(kernel_ref, ins), *map(kernel_ref, outs), *self.scratch]
        arrangement = Arrangement(in_tree, self.out_tree, self.scratch_tree, self.many)
        functions = [(f, Frame(self.title, grid, m, self.meshes)) for f, m in self.functions]

        def arrange(handles: list[Ref]) -> tuple[tuple, dict]:
            for _, frame in functions:
                frame.extents.update(zip(dynamic, handles, strict=False))
            return arrangement(handles[hidden:])

        programs, consts, labels, ref_names = trace_programs(
            label, functions, refs, arrange, flat, names, hidden
        )
        # A Ref under two names would be two inputs: writes by one are not read by the other.
        ids = {id(x) for x in flat}
        if any(c.__class__ is Cell and id(c) in ids for c in consts):
            raise ValueError(
                f"{label}: a function closes over a Ref that is also an argument; use one of them"
            )
        # Arrays the kernel closes over are inputs of their own, whole in every program.
        ins += mappings("", labels, [None] * len(consts), [input_type(c) for c in consts])
        if batch := self.options.get("num_batch_dims"):
            check_batch_dims(label, batch, types, results)
        built = KernelCall(
            name=self.title,
            programs=programs,
            grid=grid,
            num_scalars=hidden + n_scalars,
            num_inputs=len(ins),
            outputs=tuple(results),
            scratch=tuple(self.scratch),
            blocks=(*ins, *outs),
            aliases=tuple((i + hidden, o) for i, o in pairs),
            used_axes=frozenset().union(*(frame.asked for _, frame in functions)),
            ref_names=ref_names,
            dynamic=dynamic,
            **{
                **self.options,
                **settings(self.options["debug"], self.options["compiler_params"]),
                "sharding_rule": self._rule(types, consts),
            },
        )
        return built, consts

    def _count_scalars(self, in_tree: PyTreeDef) -> int:
        children, k = in_tree.children(), self.spec.num_scalar_prefetch
        if k > len(children):
            raise ValueError(
                f"{self.label}: num_scalar_prefetch is {k}, but there are {len(children)} arguments"
            )
        return sum(c.num_leaves for c in children[:k])

    def _traced_extents(self) -> tuple[int, ...]:
        """Return the dimensions of the grid whose size is known when the kernel runs."""
        dynamic = tuple(d for d, n in enumerate(self.spec.grid) if isinstance(n, Tracer))
        options = self.options
        if dynamic and (options.get("sharding_rule") or options.get("num_batch_dims")):
            raise ValueError(
                f"{self.label}: a call whose grid is traced cannot be split: drop sharding_rule "
                "and num_batch_dims, or make the grid of ints"
            )
        return dynamic

    def _rule(self, types: list[ShapedArray], consts: list) -> ShardingRule | None:
        """Return the sharding rule, which leaves what the kernel closes over whole everywhere."""
        rule = self.options.get("sharding_rule")
        if rule is None:
            return None
        rule.sizes(types, self.results, self.label)
        if not consts:
            return rule
        groups = [
            tuple(f"constant{i}_{d}" for d in range(input_type(c).ndim))
            for i, c in enumerate(consts)
        ]
        return rule.regrouped((*rule.operands, *groups), rule.results)


# The public function ---------------------------------------------------------------------------


@api_boundary
def pallas_call(
    kernel: Callable[..., None],
    out_shape: object,
    *,
    grid_spec: GridSpec | None = None,
    grid: int | tuple[int, ...] = (),
    in_specs: object = no_block_spec,
    out_specs: object = no_block_spec,
    scratch_shapes: object = (),
    input_output_aliases: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    debug: bool | None = None,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: object = None,
    cost_estimate: object = None,
    metadata: object = None,
    sharding_rule: object = None,
    num_batch_dims: int = 0,
) -> Callable[..., Any]:
    """Return a function of arrays that runs a kernel once for each point of a grid.

    kernel: gets refs of the blocks of scalars, inputs, outputs, and scratch, in this order, and
    returns None. Where an argument is a pytree, or out_shape a dict, so are its refs; out_shape
    that is a tuple or list gives one argument for each entry. What the kernel closes over
    becomes inputs.
    out_shape: a pytree of things with shape and dtype; the function returns arrays like it.
    grid: the extents, () for one program; under jit an extent may be traced, an integer scalar.
    in_specs, out_specs: pytrees of `BlockSpec` like the arguments and out_shape; None is the whole
    array. scratch_shapes: a sequence, or a dict (the kernel then gets them by name), of scratch
    types. grid_spec: a `GridSpec` with all of these.
    input_output_aliases: input -> output that starts with its contents, in its memory if XLA can.
    interpret: True (or `InterpretParams`) runs it in NumPy and checks every access. debug: native
    code checks bounds, except with False, which promises that every index is inside; with True,
    `debug_check` too. name: for messages and profiles. compiler_params: of a backend; an entry
    dimension_semantics says which grid axes are "parallel". cost_estimate, metadata: kept.
    sharding_rule: as of `weft.ffi.ffi_call`; num_batch_dims: leading dimensions of all arrays that
    are independent: along these the call may run on shards.

    Programs run in row-major order, last axis fastest, along axes that are not "parallel"; an
    output block that several programs in sequence map to is kept between them.

    Works under jit, vmap (one more grid axis), shard_map, loops, custom derivatives, and jvp if
    every op of the kernel has one; give reverse derivatives with weft.custom_vjp.

    Source: JAX's Pallas; "Triton: an intermediate language and compiler for tiled neural network
    computations", Tillet et al., 2019.

    >>> import weft
    >>> pl = weft.pallas
    >>> def add(x, y, out):
    ...     out[...] = x[...] + y[...]
    >>> spec = pl.BlockSpec((2,), lambda i: (i,))
    >>> out = weft.ShapeDtypeStruct((4,), "float32")
    >>> x = weft.numpy.arange(4.0)
    >>> pl.pallas_call(add, out, grid=2, in_specs=[spec, spec], out_specs=spec)(x, x)
    Array([0., 2., 4., 6.], dtype=float32)
    """
    if not callable(kernel):
        raise TypeError(f"pallas_call: kernel must be a function, got {kernel!r:.80}")
    title = str(name or getattr(kernel, "__name__", "kernel"))
    label = f"pallas_call of {title}"
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    elif grid != () or in_specs is not no_block_spec or out_specs is not no_block_spec:
        raise ValueError(f"{label}: give grid_spec, or grid, in_specs and out_specs, not both")
    elif scratch_shapes not in ((), []):
        raise ValueError(f"{label}: scratch_shapes belongs into grid_spec, which is given")
    options = kernel_options(
        label,
        name=name,
        debug=debug,
        interpret=interpret,
        compiler_params=compiler_params,
        cost_estimate=cost_estimate,
        metadata=metadata,
        rank=len(grid_spec.grid),
    )
    options |= {"sharding_rule": as_rule(sharding_rule), "num_batch_dims": num_batch_dims}
    builder = Builder(
        label, title, [(kernel, None)], grid_spec, out_shape, input_output_aliases, options
    )
    return builder.function()
