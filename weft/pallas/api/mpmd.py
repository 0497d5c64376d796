"""mpmd_map: several functions at once, each on every core of its mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.boundary import api_boundary
from weft.pallas.api.call import Builder
from weft.pallas.api.mesh import Mesh
from weft.pallas.api.params import kernel_options
from weft.pallas.api.specs import GridSpec


def _programs(label: str, meshes_and_fns: object) -> list[tuple[Mesh, Callable]]:
    pairs = list(meshes_and_fns) if isinstance(meshes_and_fns, Sequence) else None
    if not pairs:
        raise ValueError(
            f"{label}: the first argument must be a list of at least one (mesh, function) pair, "
            f"got {meshes_and_fns!r:.80}"
        )
    for i, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"{label}: entry {i} must be a pair (mesh, function), got {pair!r:.80}")
        mesh, fun = pair
        if not isinstance(mesh, Mesh):
            raise TypeError(
                f"{label}: entry {i} must start with a pl.Mesh, got {type(mesh).__name__}"
            )
        if not callable(fun):
            raise TypeError(f"{label}: entry {i} must end with a function, got {fun!r:.80}")
        for other, _ in pairs[:i]:
            other.check_is_compatible_with(mesh)
    return pairs


def _default_space(label: str, meshes: Sequence[Mesh]) -> Any:
    spaces = {m.default_memory_space for m in meshes}
    if len(spaces) > 1:
        raise ValueError(
            f"{label}: meshes have different default memory spaces {sorted(map(str, spaces))}; "
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
    """Make a function of arrays that runs several programs at once, each on its mesh's cores.

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
    label = "mpmd_map" if name is None else f"mpmd_map {name}"
    pairs = _programs(label, meshes_and_fns)
    options = kernel_options(
        label,
        name=name,
        debug=debug,
        interpret=interpret,
        compiler_params=compiler_params,
        cost_estimate=cost_estimate,
        metadata=metadata,
    )
    builder = Builder(
        label,
        title,
        [(fun, mesh) for mesh, fun in pairs],
        GridSpec(scratch_shapes=scratch_shapes if scratch_types is None else scratch_types),
        out_shapes if out_types is None else out_types,
        input_output_aliases,
        options,
        _default_space(label, [mesh for mesh, _ in pairs]),
    )
    return builder.function()


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
    """Return a decorator: runs the function at once on every core of the mesh.

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
