"""Programs that show whether the faults of weft/_xla/quirks.py are still there.

    python -m tests.xla.quirk_probes            # all; a line of JSON says for each what it showed
    python -m tests.xla.quirk_probes BOOL_ADD   # one, in this process, which it may end

Each runs in a child process of its own, and returns whether the fault shows. One that ends its
process by a signal shows it too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import ml_dtypes
import numpy as np
from jaxlib import _jax

import weft
from weft import P
from weft._xla import compile as xla
from weft._xla import mlir, passes
from weft._xla.client import DeviceList
from weft.core import config
from weft.partition.propagate import _EXPLICIT

PROBES: dict[str, Callable[[], bool]] = {}
SECONDS = 60


def probe(function: Callable[[], bool]) -> Callable[[], bool]:
    PROBES[function.__name__.upper()] = function
    return function


# -- helpers ---------------------------------------------------------------------------------------


def compiled(text: str, n: int = 1, partitions: bool = False, shardy: bool = True, **flags: Any):
    """XLA's executable of the text of a module, or of the functions in one."""
    devices = weft.devices()[:n]
    ids = np.arange(n).reshape((1, n) if partitions else (n, 1))
    options = xla.options(
        ids, use_spmd=partitions, use_shardy=shardy and partitions, overrides=[*flags.items()]
    )
    module = mlir.bytecode(mlir.parse(text))
    return devices[0].client.compile_and_load(module, DeviceList(tuple(devices)), options)


def run(text: str, *args: np.ndarray, n: int = 1) -> list[np.ndarray]:
    """The results of the first device; with several, each argument is split along its rows."""
    executable = compiled(text, n)
    if n == 1:
        arrays = [weft.device_put(a) for a in args]
    else:
        arrays = [weft.device_put(a, rows(n)) for a in args]
    parts = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [np.asarray(p[0]._single_device_array_to_np_array_did_copy()[0]) for p in parts]


def rows(n: int) -> weft.NamedSharding:
    return weft.NamedSharding(weft.make_mesh((n,), ("d",)), P("d"))


def main(signature: str, *lines: str) -> str:
    return f"func.func public @main{signature} {{\n" + "\n".join(lines) + "\n}"


def all_reduce(op: str, dtype: str, groups: str = "[[0, 1]]") -> str:
    scalar, type = f"tensor<{dtype}>", f"tensor<1x{dtype}>"
    return (
        f'%r = "stablehlo.all_reduce"(%x) ({{ ^bb0(%a: {scalar}, %b: {scalar}): '
        f"%c = {op} %a, %b : {scalar} stablehlo.return %c : {scalar} }}) "
        f"{{replica_groups = dense<{groups}> : tensor<1x2xi64>}} : ({type}) -> {type}"
    )


def refused(call: Callable[[], Any], words: str = "") -> bool:
    """Whether jaxlib refuses it, with these words."""
    try:
        call()
    except (xla.XlaRuntimeError, mlir.ir.MLIRError, RuntimeError, ValueError) as error:
        if os.environ.get("SHOW"):
            print(str(error)[:400])
        return words in str(error)
    return False


@contextmanager
def replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    """A workaround of weft's put out of use."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def shardy(text: str) -> str:
    """What Shardy makes of a module, without weft's workarounds."""
    module = mlir.parse(text)
    passes.run(module, "sdy-import-pipeline,sdy-user-priority-propagate")
    passes.run(module, _EXPLICIT)
    return mlir.text(module)


MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'

# -- bindings and arrays ---------------------------------------------------------------------------


@probe
def jax_core_lookup() -> bool:
    return _searched("jax.core")


@probe
def jax_shardings_lookup() -> bool:
    return _searched("jax._src.sharding_impls")


def _searched(name: str) -> bool:
    asked: list[str] = []

    class Watch:
        def find_spec(self, name, path=None, target=None):
            asked.append(name)

    for module in ("jax.core", "jax._src.sharding_impls"):
        sys.modules.pop(module, None)
    sys.meta_path.insert(0, Watch())
    x = weft.device_put(np.arange(8.0), rows(8))
    np.asarray(x)
    np.asarray(x._arrays[0])
    return any(a == name or name.startswith(a + ".") for a in asked)


@probe
def named_sharding() -> bool:
    mesh = weft.make_mesh((8,), ("d",))
    try:
        _jax.NamedSharding(mesh, P("d"))
    except Exception:
        return True
    return False


@probe
def complex_elements() -> bool:
    text = "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>"
    try:
        mlir.ir.Attribute.parse(text, mlir.context())
    except TypeError as error:
        return "DenseTypedElementsAttr" in str(error)
    return False


@probe
def axis_ref_lists() -> bool:
    from jaxlib.mlir.dialects import sdy

    return not any("axisreflist" in name.lower() for name in dir(sdy))


@probe
def size_overflow() -> bool:
    huge = f"tensor<{2**40}x{2**40}xf32>"
    compiled(main(f"(%x: {huge}) -> {huge}", f"return %x : {huge}"))
    return False


@probe
def malformed_modules() -> bool:
    compiled(
        main("() -> ()", "func.call @main() : () -> ()", "return"),
    )
    return False


@probe
def batch_call_layouts() -> bool:
    from weft._xla import ffi

    ffi.register_batch_partitionable("probe")
    type = "tensor<8x4xf32>"
    sharded = f'{type} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}'
    call = (
        "%y = stablehlo.custom_call @probe(%x) {api_version = 4 : i32, mhlo.frontend_attributes = "
        f'{{num_batch_dims = "1"}}}} : ({type}) -> {type}'
    )
    text = 'sdy.mesh @mesh = <["x"=8]>\n' + main(
        f"(%x: {sharded}) -> ({sharded})", call, f"return %y : {type}"
    )
    return refused(lambda: compiled(text, 8, partitions=True), "layout")


@probe
def split_count() -> bool:
    text = main("(%x: tensor<2xf32>) -> tensor<2xf32>", "return %x : tensor<2xf32>")
    compiled(text, xla_cpu_parallel_codegen_split_count=-1)
    return False


@probe
def parts_without_aval() -> bool:
    x = weft.device_put(np.arange(8.0), rows(8))
    return getattr(x._arrays[0], "aval", None) is None


@probe
def dlpack_copy() -> bool:
    x = np.empty(1024 + 16, np.float32)
    start = (-x.ctypes.data % 64) // 4
    x = x[start : start + 1024]
    x[:] = 1
    out = _jax.dlpack_managed_tensor_to_buffer(x.__dlpack__(), weft.devices()[0], None, True)
    x[:] = 2
    return float(np.asarray(out._single_device_array_to_np_array_did_copy()[0])[0]) == 2


@probe
def lost_parts() -> bool:
    x = weft.device_put(np.arange(8.0), rows(8))
    x._arrays[3].delete()
    text = main("(%x: tensor<1xf32>) -> tensor<1xf32>", "return %x : tensor<1xf32>")
    compiled(text, 8).execute_sharded([x])
    return False


@probe
def donated_twice() -> bool:
    type = "tensor<1xf32>"
    first, second = (f"{type} {{tf.aliasing_output = {i} : i32}}" for i in range(2))
    text = main(
        f"(%x: {first}, %y: {second}) -> ({type}, {type})",
        f"%a = stablehlo.add %x, %y : {type}",
        f"%b = stablehlo.multiply %x, %y : {type}",
        f"return %a, %b : {type}, {type}",
    )
    x = weft.device_put(np.arange(8.0, dtype=np.float32), rows(8))
    out = compiled(text, 8).execute_sharded([x, x]).disassemble_into_single_device_arrays()
    for part in out[0]:
        part.block_until_ready()
    return False


@probe
def exported_last() -> bool:
    x = weft.device_put(np.arange(8.0))
    capsule = _jax.buffer_to_dlpack_managed_tensor(x, stream=None)
    x.delete()
    del x
    return capsule is None


# -- operations ------------------------------------------------------------------------------------


@probe
def bool_add() -> bool:
    type = "tensor<2xi1>"
    text = main(
        f"() -> {type}",
        f"%x = stablehlo.constant dense<true> : {type}",
        f"%y = stablehlo.add %x, %x : {type}",
        f"return %y : {type}",
    )
    return not run(text)[0].all()


@probe
def zero_divisor() -> bool:
    type = "tensor<i32>"
    text = main(
        f"() -> {type}",
        f"%x = stablehlo.constant dense<1> : {type}",
        f"%y = stablehlo.constant dense<0> : {type}",
        f"%z = stablehlo.divide %x, %y : {type}",
        f"return %z : {type}",
    )
    return int(run(text)[0]) != -1


@probe
def nested_slices() -> bool:
    from weft.ops import dynamic_slicing

    unclamped = lambda ctx, start, dtype, last: start
    cut = dynamic_slicing.dynamic_slice
    within = weft.jit(lambda x, i: cut(x, (i,), (4,)))
    x = np.arange(12, dtype=np.float32)
    with replaced(dynamic_slicing, "_clamped", unclamped):
        out = weft.jit(lambda x, i, j: cut(within(x, i), (j,), (2,)))(x, 11, 1)
    return np.asarray(out).tolist() != [9, 10]


@probe
def narrow_dot() -> bool:
    text = main(
        "(%x: tensor<4x4xi4>) -> tensor<4x4xi32>",
        "%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : "
        "(tensor<4x4xi4>, tensor<4x4xi4>) -> tensor<4x4xi32>",
        "return %y : tensor<4x4xi32>",
    )
    return refused(lambda: run(text, np.ones((4, 4), ml_dtypes.int4)), "custom element sizes")


@probe
def splat_product() -> bool:
    from weft._xla import compile as place

    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096
    with replaced(place, "multiplies_splat", lambda executable: False):
        out = weft.jit(lambda x: (x @ weft.numpy.ones((64, 64), np.float32)).sum())(x)
        return not np.allclose(out, x.sum() * 64, rtol=1e-3)


@probe
def lost_nans() -> bool:
    x = np.full((4, 2048), np.nan, np.float32)
    with config.options["native_ops"](False):
        return not np.isnan(weft.jit(lambda x: weft.numpy.max(x, 1))(x)).all()


@probe
def constant_sums() -> bool:
    type = "tensor<4xf32>"
    text = main(
        f"(%x: {type}) -> {type}",
        f"%c = stablehlo.constant dense<8388608.0> : {type}",
        f"%a = stablehlo.add %x, %c : {type}",
        f"%b = stablehlo.subtract %a, %c : {type}",
        f"return %b : {type}",
    )
    (out,) = run(text, np.full(4, 0.25, np.float32))
    return bool((np.asarray(out) == 0.25).all())


@probe
def mulhi() -> bool:
    type = "tensor<4x3xi32>"
    text = main(
        f"(%x: {type}, %y: {type}) -> {type}",
        f"%a = stablehlo.add %x, %y : {type}",
        f"%b = chlo.mulhi %a, %y : {type}, {type} -> {type}",
        f"%c = stablehlo.add %b, %x : {type}",
        f"return %c : {type}",
    )
    x = np.ones((4, 3), np.int32)
    return refused(lambda: run(text, x, x), "mulhi")


@probe
def complex_trig() -> bool:
    text = main(
        "(%x: tensor<1xcomplex<f32>>) -> tensor<1xcomplex<f32>>",
        "%y = stablehlo.sine %x : tensor<1xcomplex<f32>>",
        "return %y : tensor<1xcomplex<f32>>",
    )
    return run(text, np.array([1e-30j], np.complex64))[0][0] == 0


@probe
def complex_extrema() -> bool:
    type = "tensor<1xcomplex<f32>>"
    text = main(
        f"(%x: {type}, %y: {type}) -> {type}",
        f"%z = stablehlo.maximum %x, %y : {type}",
        f"return %z : {type}",
    )
    x, y = (np.array([v], np.complex64) for v in (1 + 1j, 1 + 2j))
    return {complex(run(text, *pair)[0][0]) for pair in ((x, y), (y, x))} != {1 + 2j}


# -- collectives -----------------------------------------------------------------------------------


@probe
def all_reduce_nans() -> bool:
    text = main(
        "(%x: tensor<1xf32>) -> tensor<1xf32>",
        all_reduce("stablehlo.maximum", "f32"),
        "return %r : tensor<1xf32>",
    )
    values = (np.array(v, np.float32) for v in ([1, np.nan], [np.nan, 1]))
    return any(not np.isnan(run(text, v, n=2)[0]).all() for v in values)


@probe
def all_reduce_logic() -> bool:
    text = main(
        "(%x: tensor<1xi32>) -> tensor<1xi32>",
        all_reduce("stablehlo.or", "i32"),
        "return %r : tensor<1xi32>",
    )
    return refused(lambda: run(text, np.array([1, 2], np.int32), n=2), "Unsupported reduction")


def _started(collective: str, type: str) -> str:
    return main(
        f"(%x: {type}) -> {type}",
        f'%f = "stablehlo.async_start"(%x) ({{ ^bb0(%a: {type}): %b = {collective} '
        f"stablehlo.return %b : {type} }}) : ({type}) -> !stablehlo.future<{type}>",
        f'%r = "stablehlo.async_done"(%f) : (!stablehlo.future<{type}>) -> {type}',
        f"return %r : {type}",
    )


@probe
def async_empty() -> bool:
    type = "tensor<0xf32>"
    collective = (
        '"stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : '
        f"tensor<1x2xi64>}} : ({type}) -> {type}"
    )
    return refused(
        lambda: run(_started(collective, type), np.ones(0, np.float32), n=2), "async_start"
    )


@probe
def ragged_channel() -> bool:
    text = main(
        "(%x: tensor<2xf32>, %o: tensor<2xf32>, %i: tensor<2xi64>) -> tensor<2xf32>",
        "%r = stablehlo.custom_call @ragged_all_to_all(%x, %o, %i, %i, %i, %i) {api_version = 4 : "
        "i32, backend_config = {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : "
        "(tensor<2xf32>, tensor<2xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, "
        "tensor<2xi64>) -> tensor<2xf32>",
        "return %r : tensor<2xf32>",
    )
    compiled(text, 2)
    return False


def by_xla(function: Any, spec: P, *args: np.ndarray) -> np.ndarray:
    """The result with the first argument split so on 2 × 2 devices, lowered as for weft."""
    mesh = weft.make_mesh((2, 2), ("x", "y"), (weft.AxisType.Auto,) * 2)
    given = weft.NamedSharding(mesh, spec)
    placed = (given, *(weft.NamedSharding(mesh, P()) for _ in args[1:]))
    lowered = weft.jit(function, in_shardings=placed).lower(*args)
    lowered._program.stages = None
    return np.asarray(lowered.compile()(*map(weft.device_put, args, placed)))


@probe
def gspmd_windows() -> bool:
    def loss(kernel: Any, x: Any) -> Any:
        names = ("NWC", "WIO", "NWC")
        out = weft.lax.conv_general_dilated(x, kernel, (1,), [(1, 0)], dimension_numbers=names)
        return (out**2).sum()

    x, kernel = np.ones((4, 8, 4), np.float32), np.ones((2, 4, 4), np.float32)
    gradient = by_xla(lambda x, kernel: weft.grad(loss)(kernel, x), P(None, "x"), x, kernel)
    return bool((gradient[1] != 2 * 4 * (7 * 8 + 4)).any())


@probe
def gspmd_negative_padding() -> bool:
    cut = lambda x: weft.lax.pad(x, np.float32(0), [(0, 0, 0), (-1, 2, 1)])
    by_xla(cut, P(None, "x"), np.ones((8, 8), np.float32))
    return False


@probe
def partition_id() -> bool:
    text = main(
        "() -> tensor<ui32>",
        "%p = stablehlo.partition_id : tensor<ui32>",
        "return %p : tensor<ui32>",
    )
    return refused(lambda: compiled(text, 2, partitions=True), "PartitionId")


# -- Shardy ----------------------------------------------------------------------------------------


def _sharded(type: str, dims: str, more: str = "") -> str:
    return f"{type} {{sdy.sharding = #sdy.sharding<@mesh, {dims}{more}>}}"


@probe
def shardy_chlo() -> bool:
    type = "tensor<8xf32>"
    x = _sharded(type, '[{"x"}]')
    text = MESH + main(
        f"(%x: {x}) -> {type}", f"%y = chlo.erf_inv %x : {type} -> {type}", f"return %y : {type}"
    )
    return "sharding" not in shardy(text).partition("chlo.erf_inv")[2].partition("\n")[0]


def _reshaped(mesh: str, dims: str, before: str, after: str) -> str:
    return mesh + main(
        f"(%x: {_sharded(before, dims)}) -> {after}",
        f"%y = stablehlo.reshape %x : ({before}) -> {after}",
        f"return %y : {after}",
    )


@probe
def shardy_reshapes() -> bool:
    before, after = "tensor<2x6x3xf32>", "tensor<18x2xf32>"
    mesh = 'sdy.mesh @mesh = <["x"=2, "y"=3]>\n'
    for dims in ('[{"x"}, {}]', '[{"y"}, {"x"}]', '[{"x", "y"}, {}]'):
        text = mesh + main(
            f"(%x: {before}) -> ({_sharded(after, dims)})",
            f"%y = stablehlo.reshape %x : ({before}) -> {after}",
            f"return %y : {after}",
        )
        shardy(text)
    return False


@probe
def shardy_primes() -> bool:
    mesh = 'sdy.mesh @mesh = <["x"=2, "y"=3]>\n'
    for dims in ('[{"x", "y"}]', '[{"y", "x"}]', '[{"y"}]'):
        shardy(_reshaped(mesh, dims, "tensor<24xf32>", "tensor<2x3x4xf32>"))
        shardy(_reshaped(mesh, dims, "tensor<72xf32>", "tensor<3x2x12xf32>"))
    return False


def _grouped(*lines: str) -> str:
    type = "tensor<8xf32>"
    given = _sharded(type, '[{"x"}]')
    return MESH + main(f"(%x: {given}, %y: {type}) -> {type}", *lines, f"return %y : {type}")


@probe
def shardy_groups() -> bool:
    shardy(
        _grouped(
            "sdy.sharding_group %x group_id=0 : tensor<8xf32>",
            "sdy.sharding_group %x group_id=1 : tensor<8xf32>",
            "sdy.sharding_group %y group_id=1 : tensor<8xf32>",
        )
    )
    return False


@probe
def shardy_unreduced() -> bool:
    type = "tensor<8x8xf32>"
    first, second = _sharded(type, '[{}, {"x"}]'), _sharded(type, '[{"x"}, {}]')
    text = MESH + main(
        f"(%x: {first}, %y: {second}) -> {type}",
        "%z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : "
        f"({type}, {type}) -> {type}",
        f'%u = sdy.sharding_constraint %z <@mesh, [{{}}, {{}}], unreduced={{"x"}}> : {type}',
        f"%r = sdy.sharding_constraint %u <@mesh, [{{}}, {{}}]> : {type}",
        f"return %r : {type}",
    )
    return "replicated_to_unreduced" in shardy(text)


@probe
def shardy_futures() -> bool:
    type = "tensor<8xf32>"
    given = _sharded(type, '[{"x"}]')
    text = MESH + main(
        f"(%x: {given}) -> {type}",
        f'%f = "stablehlo.async_start"(%x) ({{ ^bb0(%a: {type}): '
        '%b = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : '
        f"tensor<1x2xi64>}} : ({type}) -> {type} stablehlo.return %b : {type} }}) : "
        f"({type}) -> !stablehlo.future<{type}>",
        f'%r = "stablehlo.async_done"(%f) : (!stablehlo.future<{type}>) -> {type}',
        f"return %r : {type}",
    )
    return "sharding" not in shardy(text).partition("async_done")[2].partition("\n")[0]


@probe
def shardy_forgets() -> bool:
    type = "tensor<8xf32>"
    text = MESH + main(
        f"(%x: {type}) -> {type}",
        f"%a = sdy.sharding_constraint %x <@mesh, [{{}}]> : {type}",
        f'%u = sdy.sharding_constraint %a <@mesh, [{{}}], unreduced={{"x"}}> : {type}',
        f"%r = sdy.sharding_constraint %u <@mesh, [{{}}]> : {type}",
        f"return %r : {type}",
    )
    return refused(lambda: shardy(text), "without sharding")


@probe
def shardy_mixed_reshard() -> bool:
    type = "tensor<8xf32>"
    given = _sharded(type, "[{}]", ', unreduced={"x"}')
    text = MESH + main(
        f"(%x: {given}) -> {type}",
        f'%u = sdy.sharding_constraint %x <@mesh, [{{}}], unreduced={{"y"}}> : {type}',
        f"return %u : {type}",
    )
    return refused(lambda: shardy(text))


# -- running them ----------------------------------------------------------------------------------


def outcome(name: str) -> str:
    """What a probe shows in a child process: "there", "gone", or the exception it ended with."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        try:
            text = "there" if PROBES[name]() else "gone"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text[:2000].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        said = answers.read()
    _, status = os.waitpid(child, 0)
    return "there" if os.WIFSIGNALED(status) else said


if __name__ == "__main__":
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            print(name, PROBES[name]())
    else:
        print(json.dumps({name: outcome(name) for name in PROBES}))
