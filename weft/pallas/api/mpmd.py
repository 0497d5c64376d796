"""mpmd_map: several functions at once, each on every core of its mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.boundary import api_boundary
from weft.core.cell import Cell
from weft.core.kernel_frame import Frame
from weft.core.ref import AbstractRef
from weft.pallas.api.call import (
    check_aliases,
    input_type,
    operand_leaves,
    result_types,
    trace_programs,
)
from weft.pallas.api.memory import SHARED_SPACES, MemorySpace, ScratchShape
from weft.pallas.api.mesh import Mesh
from weft.pallas.api.params import check_options, settings
from weft.pallas.api.primitives import scratch_types as flat_scratch
from weft.pallas.api.signature import Arrangement, Builds
from weft.pallas.api.specs import block_mapping
from weft.pallas.interpret.params import as_params
from weft.pallas.ir import KernelCall
from weft.pallas.op import pallas_call_p

if TYPE_CHECKING:
    from weft.core.tree import PyTreeDef
    from weft.typing import ArrayLike


def _programs(what: str, meshes_and_fns: object) -> list[tuple[Mesh, Callable]]:
    pairs = list(meshes_and_fns) if isinstance(meshes_and_fns, Sequence) else None
    if not pairs:
        raise ValueError(
            f"{what}: the first argument must be a list of at least one (mesh, function) pair, got "
            f"{meshes_and_fns!r:.80}"
        )
    for i, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"{what}: entry {i} must be a pair (mesh, function), got {pair!r:.80}")
        mesh, fun = pair
        if not isinstance(mesh, Mesh):
            raise TypeError(
                f"{what}: entry {i} must start with a pl.Mesh, got {type(mesh).__name__}"
            )
        if not callable(fun):
            raise TypeError(f"{what}: entry {i} must end with a function, got {fun!r:.80}")
        for other, _ in pairs[:i]:
            other.check_is_compatible_with(mesh)
    return pairs


def _scratch_refs(what: str, scratch: list[ScratchShape], meshes: tuple[Mesh, ...]) -> list:
    """The refs of scratch, each with the mesh it belongs to or shared by all cores."""
    refs = []
    for i, s in enumerate(scratch):
        if s.core is not None and s.core not in meshes:
            raise ValueError(
                f"{what}: scratch_shapes[{i}] belongs to {s.core}, which is not one of the "
                f"kernel's meshes {list(meshes)}"
            )
        core = s.core
        shared = s.shared or s.memory_space in SHARED_SPACES
        if core is None and not shared and s.memory_space is not MemorySpace.BARRIER:
            if len(meshes) > 1:
                raise ValueError(
                    f"{what}: with several meshes, scratch_shapes[{i}], {s}, must say whose it is: "
                    "type @ mesh for one on each core of a mesh, type @ pl.SHARED for one that all "
                    "cores share"
                )
            core = meshes[0]
        refs.append(AbstractRef(s.get_array_aval(), s.memory_space, core))
    return refs


def _default_space(what: str, meshes: tuple[Mesh, ...]) -> Any:
    spaces = {m.default_memory_space for m in meshes}
    if len(spaces) > 1:
        raise ValueError(
            f"{what}: meshes have different default memory spaces {sorted(map(str, spaces))}; "
            "arguments and outputs are seen by all: give the meshes one"
        )
    return spaces.pop()


@api_boundary
def mpmd_map(
    meshes_and_fns: Sequence[tuple[Mesh, Callable[..., None]]],
    /,
    out_shapes: object = (),
    scratch_shapes: Any = (),
    *,
    input_output_aliases: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    compiler_params: Any = None,
    interpret: Any = False,
    debug: bool | None = None,
    cost_estimate: object = None,
    name: str | None = None,
    metadata: object = None,
    out_types: object = None,
    scratch_types: object = None,
) -> Callable[..., Any]:
    """A function of arrays that runs several programs at once, each on every core of its mesh.

    meshes_and_fns: pairs of a `Mesh` and a function. Every function gets refs of all arguments,
    all outputs and all scratch (by name if scratch_shapes is a dict), and returns None; inside it
    weft.lax.axis_index knows the axes of its mesh, axis_size those of all meshes. Arguments and
    outputs are whole arrays that all cores see; nothing orders the cores but semaphores, barriers
    and copies.
    out_shapes: as out_shape of `pallas_call`. scratch_shapes: scratch types; `type @ mesh` is one
    for each core of the mesh, `type @ pl.SHARED` one for all cores. With one mesh, LOCAL memory
    and semaphores are each core's own; with several meshes they must say whose they are.
    out_types, scratch_types: the same, as JAX calls them. Other arguments as of `pallas_call`.

    Raises ValueError for meshes that do not fit together or scratch that does not say whose it is.

    Works under jit, vmap (a loop), shard_map and custom derivatives.

    >>> import weft
    >>> pl = weft.pallas
    >>> left, right = pl.Mesh({"c": 1}, name="left"), pl.Mesh({"c": 1}, name="right")
    >>> def produce(x, out, box, full):
    ...     box[...] = x[...] * 2
    ...     pl.semaphore_signal(full)
    >>> def consume(x, out, box, full):
    ...     pl.semaphore_wait(full)
    ...     out[...] = box[...] + 1
    >>> pipeline = pl.mpmd_map(
    ...     [(left, produce), (right, consume)],
    ...     weft.ShapeDtypeStruct((3,), "float32"),
    ...     [pl.SHARED((3,), "float32"), pl.SemaphoreType.REGULAR @ right],
    ...     interpret=True,
    ... )
    >>> pipeline(weft.numpy.arange(3.0))
    Array([1., 3., 5.], dtype=float32)
    """
    title = str(name or "mpmd_map")
    what = "mpmd_map" if name is None else f"mpmd_map {name}"
    pairs = _programs(what, meshes_and_fns)
    as_params(interpret)
    check_options(
        what,
        name=name,
        debug=debug,
        compiler_params=compiler_params,
        cost_estimate=cost_estimate,
        metadata=metadata,
    )
    out_shapes = out_shapes if out_types is None else out_types
    scratch_shapes = scratch_shapes if scratch_types is None else scratch_types
    results, out_tree, out_names = result_types(what, out_shapes)
    scratch, scratch_tree = flat_scratch(f"{what}: scratch_shapes", scratch_shapes)
    meshes = tuple(m for m, _ in pairs)
    space = _default_space(what, meshes)
    scratch_refs = _scratch_refs(what, scratch, meshes)
    many = isinstance(out_shapes, tuple | list)

    def build(flat: list, in_tree: PyTreeDef, names: list[str]) -> tuple[KernelCall, list]:
        types = [input_type(x) for x in flat]
        refs = [AbstractRef(a, space) for a in (*types, *results)] + scratch_refs
        arrange = Arrangement(in_tree, out_tree, scratch_tree, many)
        functions = [(fun, Frame(title, (), mesh, meshes)) for mesh, fun in pairs]
        programs, consts, labels, ref_names = trace_programs(
            what, functions, refs, arrange, flat, names
        )
        # A Ref under two names would be two inputs: writes by one are not read by the other.
        ids = {id(x) for x in flat}
        if any(c.__class__ is Cell and id(c) in ids for c in consts):
            raise ValueError(
                f"{what}: a function closes over a Ref that is also an argument; use one of the two"
            )
        # Without a grid every block is all of its array.
        ins = [
            block_mapping(f"argument {n}", None, input_type(x), (), ())
            for n, x in zip((*names, *labels), (*flat, *consts), strict=True)
        ]
        outs = [
            block_mapping(f"output {n}", None, a, (), ())
            for n, a in zip(out_names, results, strict=True)
        ]
        built = KernelCall(
            name=title,
            programs=programs,
            grid=(),
            num_scalars=0,
            num_inputs=len(ins),
            outputs=tuple(results),
            scratch=tuple(scratch_refs),
            blocks=(*ins, *outs),
            aliases=check_aliases(what, input_output_aliases, types, results),
            interpret=interpret,
            **settings(debug, compiler_params),
            cost_estimate=cost_estimate,
            metadata=metadata,
            ref_names=ref_names,
        )
        return built, consts

    builds = Builds(build)

    @api_boundary
    def call(*args: ArrayLike) -> Any:
        flat, in_tree, names = operand_leaves(what, args)
        built, consts = builds(flat, in_tree, names)
        return out_tree.unflatten(pallas_call_p.bind(*flat, *consts, call=built))

    return call


@api_boundary
def kernel(
    body: Any = None,
    out_type: object = (),
    *,
    mesh: Any,
    scratch_types: object = (),
    compiler_params: object = None,
    interpret: object = False,
    cost_estimate: object = None,
    debug: bool | None = None,
    name: str | None = None,
    metadata: object = None,
) -> Callable[..., Any]:
    """`mpmd_map` of one function on one mesh, or of equally many of both; also a decorator.

    >>> import weft
    >>> pl = weft.pallas
    >>> @pl.kernel(mesh=pl.Mesh({"c": 2}), out_type=weft.ShapeDtypeStruct((2,), "int32"))
    ... def where(out):
    ...     i = weft.lax.axis_index("c")
    ...     out[i] = i
    >>> where()
    Array([0, 1], dtype=int32)
    """

    def make(pairs: list) -> Callable[..., Any]:
        return mpmd_map(
            pairs,
            out_type,
            scratch_types,
            compiler_params=compiler_params,
            interpret=interpret,
            debug=debug,
            cost_estimate=cost_estimate,
            name=name,
            metadata=metadata,
        )

    several = isinstance(mesh, list | tuple)
    if body is None:
        if several:
            raise ValueError("kernel: as a decorator it takes one mesh, not a sequence")
        return lambda fun: make([(mesh, fun)])
    if isinstance(body, list | tuple):
        if not several or len(mesh) != len(body):
            raise ValueError("kernel: give as many meshes as functions")
        return make(list(zip(mesh, body, strict=True)))
    if several:
        raise ValueError("kernel: one function takes one mesh, not a sequence")
    return make([(mesh, body)])


def core_map(
    mesh: Mesh,
    *,
    compiler_params: object = None,
    interpret: object = False,
    debug: bool | None = None,
    cost_estimate: object = None,
    name: str | None = None,
    metadata: object = None,
    scratch_shapes: object = (),
) -> Callable[[Callable[..., None]], None]:
    """A decorator: runs the function at once on every core of the mesh.

    It takes refs of scratch_shapes and returns None: it works on refs that it closes over. Other
    arguments as of `mpmd_map`.

    >>> import weft
    >>> ref = weft.new_ref(weft.numpy.zeros(2, int))
    >>> @weft.pallas.core_map(weft.pallas.Mesh({"c": 2}))
    ... def _():
    ...     ref[weft.lax.axis_index("c")] = 5
    >>> ref[...]
    Array([5, 5], dtype=int32)
    """

    def run(fun: Callable[..., None]) -> None:
        mpmd_map(
            [(mesh, fun)],
            scratch_shapes=scratch_shapes,
            compiler_params=compiler_params,
            interpret=interpret,
            debug=debug,
            cost_estimate=cost_estimate,
            name=name,
            metadata=metadata,
        )()

    return run
