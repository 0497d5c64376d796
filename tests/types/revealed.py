"""What checkers say of weft's types; tests/types/check.py compares each line with its comment."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax

if TYPE_CHECKING:
    from typing import reveal_type

ones = wnp.ones(3)
mesh = weft.make_mesh((1,), ("x",))
anything: Any = {"w": ones}
mixed: dict[str, Any] = {"w": ones}


def double(x: weft.Array) -> weft.Array:
    return x * 2


def scaled(x: weft.Array, n: int) -> weft.Array:
    return x * n


def loss(x: weft.Array) -> weft.Array:
    return x.sum()


def annotated(
    array: wnp.ndarray,
    sharding: weft.NamedSharding,
    placed: weft.sharding.Sharding,
    state: weft.sharding.ManualAxisType,
    key: weft.tree_util.DictKey,
    path: weft.tree_util.KeyPath,
    partial: weft.tree_util.Partial,
    error: weft.errors.JaxRuntimeError,
    span: weft.profiler.TraceAnnotation,
) -> None: ...


def with_aux(x: weft.Array) -> tuple[weft.Array, str]:
    return x.sum(), "aux"


def step(carry: weft.Array, x: weft.Array) -> tuple[weft.Array, dict[str, weft.Array]]:
    return carry + x, {"x": x}


class Params(NamedTuple):
    w: weft.Array
    b: weft.Array


@weft.tree_util.register_dataclass
@dataclass
class State:
    w: weft.Array


def tree_loss(p: dict[str, weft.Array], x: weft.Array, n: int = 1) -> weft.Array:
    return (p["w"] * x).sum() * n


def params_loss(p: Params, x: weft.Array) -> tuple[weft.Array, str]:
    return (p.w * x).sum(), "aux"


class Model:
    def loss(self, p: Params) -> weft.Array:
        return p.w.sum()


params = Params(ones, ones)

reveal_type(ones + 1)  # Array
reveal_type(ones @ ones)  # Array
reveal_type(1.0 - ones)  # Array
reveal_type(-ones)  # Array
reveal_type(ones > 0)  # Array
reveal_type(ones == 1)  # Array
reveal_type(ones[0])  # Array
reveal_type(ones[..., None])  # Array
reveal_type(ones.at[0].set(1.0))  # Array
reveal_type(ones.at[0].get())  # Array
reveal_type(ones.shape)  # tuple[int, ...]
reveal_type(ones.dtype)  # numpy.dtype[Any]
reveal_type(ones.ndim)  # int
reveal_type(ones.T)  # Array
reveal_type(ones.sum())  # Array
reveal_type(ones.max(axis=0))  # Array
reveal_type(ones.astype("int32"))  # Array
reveal_type(ones.reshape(3, 1))  # Array
reveal_type(ones.item())  # Any
reveal_type(ones.tolist())  # Any
reveal_type(ones.nonzero())  # tuple[Array, ...]
reveal_type(ones.block_until_ready())  # Array
reveal_type(ones.addressable_shards)  # list[Any]
reveal_type(ones.is_fully_replicated)  # bool
reveal_type(len(ones))  # int
reveal_type(float(ones[0]))  # float
reveal_type(abs(ones))  # Array
reveal_type(divmod(ones, 2))  # tuple[Array, Array]
reveal_type(wnp.zeros((2, 3)))  # Array
reveal_type(wnp.arange(3))  # Array
reveal_type(wnp.linspace(0, 1, 5))  # Array
reveal_type(wnp.sin(ones))  # Array
reveal_type(wnp.add(ones, 1))  # Array
reveal_type(wnp.add(np.ones(3), 1))  # Array
reveal_type(wnp.sum(ones, axis=0))  # Array
reveal_type(wnp.mean(ones))  # Array
reveal_type(wnp.var(ones, axis=(0,)))  # Array
reveal_type(wnp.argmax(ones))  # Array
reveal_type(wnp.where(ones > 0))  # tuple[Array, ...]
reveal_type(wnp.where(ones > 0, ones, 0))  # Array
reveal_type(wnp.nonzero(ones))  # tuple[Array, ...]
reveal_type(wnp.unique(ones))  # Array
reveal_type(wnp.meshgrid(ones, ones))  # list[Array]
reveal_type(wnp.split(ones, 3))  # list[Array]
reveal_type(wnp.histogram(ones))  # tuple[Array, Array]
reveal_type(wnp.concatenate([ones, ones]))  # Array
reveal_type(wnp.stack([ones, ones]))  # Array
reveal_type(wnp.einsum("i,i->", ones, ones))  # Array
reveal_type(wnp.matmul(ones, ones))  # Array
reveal_type(wnp.dot(ones, ones))  # Array
reveal_type(wnp.reshape(ones, (3, 1)))  # Array
reveal_type(wnp.transpose(ones))  # Array
reveal_type(wnp.sort(ones))  # Array
reveal_type(wnp.cumsum(ones))  # Array
reveal_type(wnp.clip(ones, 0, 1))  # Array
reveal_type(wnp.take(ones, 0))  # Array
reveal_type(wnp.pad(ones, 1))  # Array
reveal_type(wnp.shape(ones))  # tuple[int, ...]
reveal_type(wnp.ndim(ones))  # int
reveal_type(wnp.size(ones))  # int
reveal_type(wnp.modf(ones))  # tuple[Array, Array]
reveal_type(wnp.unravel_index(3, (2, 2)))  # tuple[Array, ...]
reveal_type(wnp.broadcast_shapes((3, 1), (1, 4)))  # tuple[int, ...]
reveal_type(wnp.result_type(ones, 1.0))  # numpy.dtype[Any]
reveal_type(wnp.isscalar(1))  # bool
reveal_type(wnp.issubdtype(wnp.float32, wnp.floating))  # bool
reveal_type(wnp.pi)  # float
reveal_type(wnp.newaxis)  # None
reveal_type(wnp.float32(1))  # Any
reveal_type(wnp.linalg.norm(ones))  # Array
reveal_type(wnp.fft.fft(ones))  # Array
reveal_type(lax.add(ones, ones))  # Array
reveal_type(lax.exp(ones))  # Array
reveal_type(lax.select(ones > 0, ones, ones))  # Array
reveal_type(lax.dot_general(ones, ones, (((0,), (0,)), ((), ()))))  # Array
reveal_type(lax.top_k(ones, 2))  # list[Array]
reveal_type(lax.scan(step, ones, ones))  # tuple[Array, dict[str, Array]]
reveal_type(lax.fori_loop(0, 3, lambda i, c: c, ones))  # Array
reveal_type(lax.while_loop(lambda c: True, lambda c: c, ones))  # Array
reveal_type(lax.stop_gradient(ones))  # Array
reveal_type(lax.optimization_barrier({"a": ones}))  # dict[str, Array]
reveal_type(lax.psum(ones, "x"))  # Array
reveal_type(lax.cond(True, lambda: ones, lambda: ones))  # Array
reveal_type(lax.sort(ones))  # Array
reveal_type(lax.sort([ones, ones]))  # tuple[Array, ...]
reveal_type(lax.broadcast_in_dim(ones, (2, 3), (1,)))  # Array
reveal_type(lax.dynamic_slice(ones, (0,), (2,)))  # Array
reveal_type(lax.iota("int32", 3))  # Array
reveal_type(weft.jit(double))  # weft.Jitted[[x: Array], Array]
reveal_type(weft.jit(double)(ones))  # Array
reveal_type(weft.jit(double).lower(ones))  # weft.driver.ahead_of_time.Lowered
reveal_type(weft.jit(double).lower(ones).compile())  # weft.driver.ahead_of_time.Compiled
reveal_type(weft.jit(static_argnums=1)(scaled))  # weft.Jitted[[x: Array, n: int], Array]
reveal_type(weft.jit(scaled, static_argnums=1)(ones, 2))  # Array
reveal_type(weft.grad(loss))  # def (Array) -> Array
reveal_type(weft.grad(loss)(ones))  # Array
reveal_type(weft.grad(weft.grad(loss))(ones))  # Any
reveal_type(weft.grad(with_aux, has_aux=True))  # def (Array) -> tuple[Array, str]
reveal_type(weft.grad(tree_loss)({"w": ones}, x=ones, n=2))  # dict[str, Array]
reveal_type(weft.grad(tree_loss, 1)({"w": ones}, ones))  # Array
reveal_type(weft.grad(tree_loss, argnums=1)({"w": ones}, ones))  # Array
reveal_type(weft.grad(tree_loss, (0, 1))({}, ones))  # tuple[dict[str, Array], Array]
reveal_type(weft.grad(tree_loss, argnums=(0,))({}, ones))  # tuple[dict[str, Array]]
reveal_type(weft.grad(tree_loss, [0, 1])({}, ones))  # Any
reveal_type(weft.grad(params_loss, has_aux=True)(params, ones)[0].w)  # Array
reveal_type(weft.grad(params_loss, argnums=1, has_aux=True)(params, ones))  # tuple[Array, str]
reveal_type(weft.grad(Model().loss)(params).b)  # Array
reveal_type(weft.grad(lambda x: x**2)(1.0))  # Any
reveal_type(weft.jit(weft.grad(tree_loss))({}, ones))  # dict[str, Array]
reveal_type(weft.vmap(weft.grad(loss))(ones))  # Array
reveal_type(weft.value_and_grad(loss))  # def (Array) -> tuple[Array, Array]
reveal_type(weft.value_and_grad(loss)(ones))  # tuple[Array, Array]
reveal_type(weft.value_and_grad(tree_loss)({}, ones)[1])  # dict[str, Array]
reveal_type(weft.value_and_grad(params_loss, has_aux=True)(params, ones)[0])  # tuple[Any, str]
reveal_type(weft.value_and_grad(params_loss, has_aux=True)(params, ones)[1].w)  # Array
reveal_type(weft.value_and_grad(tree_loss, 1)({}, ones))  # tuple[Array, Array]
reveal_type(weft.vmap(double))  # def (x: Array) -> Array
reveal_type(weft.jacfwd(double))  # def (x: Array) -> Any
reveal_type(weft.hessian(loss))  # def (x: Array) -> Any
reveal_type(weft.make_mesh((1,), ("x",)))  # weft.sharding.mesh.Mesh
reveal_type(weft.make_mesh((1,), ("x",)).axis_names)  # tuple[Any, ...]
reveal_type(weft.P("x", None))  # weft.sharding.spec.PartitionSpec
reveal_type(weft.tree.map(wnp.zeros_like, anything))  # Any
reveal_type(weft.tree.map(lambda p, g: p - 0.1 * g, anything, anything))  # Any
reveal_type(weft.tree.map(lambda p, g: p - 0.1 * g, mixed, mixed))  # Any
reveal_type(weft.device_put(anything, weft.devices()[0]))  # Any
reveal_type(weft.NamedSharding(mesh, weft.P("x")))  # weft.sharding.named.NamedSharding
reveal_type(weft.devices())  # list[weft.Device]
reveal_type(weft.device_count())  # int
reveal_type(weft.local_devices())  # list[weft.Device]
reveal_type(weft.process_index())  # int
reveal_type(weft.default_backend())  # str
reveal_type(weft.block_until_ready((ones, 1)))  # tuple[Array, Literal[1]?]
reveal_type(weft.device_put(ones))  # Array
reveal_type(weft.tree.map(double, ones))  # Array
reveal_type(weft.tree.map(double, {"a": ones}))  # dict[str, Array]
reveal_type(weft.tree.map(lambda x: x.ndim, {"a": ones}))  # Any
reveal_type(weft.tree.map(lambda x: x.dtype, [ones]))  # Any
reveal_type(weft.tree.map(wnp.sqrt, {"a": np.ones(3)}))  # dict[str, Array]
reveal_type(weft.tree.map(wnp.add, {"a": ones}, {"a": ones}))  # dict[str, Array]
reveal_type(weft.tree.map(wnp.add, params, params).w)  # Array
reveal_type(weft.tree.map(double, {"a": [ones]}))  # dict[str, list[Array]]
reveal_type(weft.tree.map(double, State(ones)).w)  # Array
reveal_type(weft.tree_util.tree_map(wnp.add, params, params).w)  # Array
reveal_type(State(ones).w)  # Array
reveal_type(weft.eval_shape(double, ones).shape)  # tuple[int, ...]
reveal_type(weft.device_get({"a": ones}))  # Any
reveal_type(lax.reduce(ones, 0.0, lax.add, (0,)))  # Array
reveal_type(wnp.average(ones))  # Array
reveal_type(wnp.average(ones, returned=True))  # tuple[Array, Array]
reveal_type(wnp.linspace(0, 1, 3, retstep=True))  # tuple[Array, Array]
reveal_type(wnp.unique(ones, return_index=True))  # tuple[Array, Array]
reveal_type(wnp.unique(ones, return_index=True, return_counts=True))  # tuple[Array, Array, Array]
reveal_type(wnp.atleast_1d(ones))  # Array
reveal_type(wnp.atleast_1d(ones, 2))  # list[Array]
reveal_type(wnp.linalg.svd(ones, compute_uv=False))  # Array
reveal_type(wnp.linalg.eigh(ones).eigenvectors)  # Array
reveal_type(weft.nn.logsumexp(ones))  # Array
reveal_type(weft.nn.logsumexp(ones, return_sign=True))  # tuple[Array, Array]
reveal_type(lax.pmean((ones, ones), "x"))  # tuple[Array, Array]
reveal_type(lax.switch(0, [lambda: ones, lambda: ones]))  # Array
reveal_type(lax.associative_scan(lax.add, ones))  # Array
reveal_type(lax.fori_loop(0, 3, lambda i, c: ones, 0))  # Array
reveal_type(weft.jvp(double, (ones,), (ones,)))  # tuple[Array, Array]
reveal_type(weft.jvp(with_aux, (ones,), (ones,), True))  # tuple[Array, Array, str]
reveal_type(weft.linearize(double, ones)[1](ones))  # Array
reveal_type(weft.vjp(double, ones)[0])  # Array
reveal_type(weft.vjp(double, ones)[1](ones))  # tuple[Array]
reveal_type(weft.vjp(tree_loss, {"w": ones}, ones)[1](ones))  # tuple[dict[str, Array], Array]
reveal_type(weft.vjp(with_aux, ones, has_aux=True)[2])  # str
reveal_type(weft.checkpoint(double))  # def (x: Array) -> Array
reveal_type(weft.custom_vjp(double)(ones))  # Array
reveal_type(weft.custom_jvp(scaled)(ones, 2))  # Array
reveal_type(weft.shard_map(double, mesh=mesh, out_specs=weft.P()))  # def (x: Array) -> Array
reveal_type(weft.make_jaxpr(double)(ones))  # weft.core.jaxpr.ClosedJaxpr
reveal_type(weft.tree.flatten(ones)[0])  # list[Any]
reveal_type(weft.tree.structure(ones))  # PyTreeDef
reveal_type(weft.tree.structure(ones).num_leaves)  # int
reveal_type(weft.scipy.special.gammaln(ones))  # Array
reveal_type(weft.scipy.linalg.eigh(ones, eigvals_only=True))  # Array
reveal_type(weft.scipy.linalg.lu_factor(ones))  # tuple[Array, Array]
reveal_type(weft.scipy.stats.norm.pdf(ones))  # Array
reveal_type(weft.scipy.signal.welch(ones))  # tuple[Array, Array]
reveal_type(weft.ops.segment_sum(ones, ones))  # Array
reveal_type(weft.image.resize(ones, (2,), "linear"))  # Array
reveal_type(weft.ffi.include_dir())  # str
reveal_type(weft.ffi.registered_targets())  # list[str]
reveal_type(weft.distributed.is_initialized())  # bool
reveal_type(weft.testing.check_grads(double, (ones,), 1))  # None
reveal_type(weft.sharding.AbstractMesh((1,), ("x",)))  # weft.sharding.mesh.AbstractMesh
reveal_type(weft.pallas.cdiv(3, 2))  # int
reveal_type(weft.new_ref(ones)[...])  # Array
reveal_type(weft.random.key(0))  # Array
reveal_type(weft.random.normal(weft.random.key(0), (3,)))  # Array
reveal_type(weft.nn.relu(ones))  # Array
reveal_type(weft.ShapeDtypeStruct((3,), wnp.float32))  # weft.driver.staging.ShapeDtypeStruct
reveal_type(weft.comm(double, ones))  # weft.partition.report.communication.CommReport
reveal_type(weft.set_mesh(mesh))  # weft.sharding.mesh.set_mesh
reveal_type(weft.debug_nans(True))  # contextlib.AbstractContextManager[Any, bool | None]
reveal_type(weft.disable_jit())  # contextlib.AbstractContextManager[None, bool | None]
reveal_type(weft.pure_callback(double, ones, ones))  # Any
reveal_type(weft.__version__)  # str
wnp.onez(3)  # error: attr-defined
weft.jitt  # error: attr-defined
lax.scann  # error: attr-defined
weft.jit(double)("a")  # error: arg-type
weft.jit(double)(ones, 1)  # error: call-arg
weft.jit(scaled, static_argnum=1)  # error: call-overload
wnp.sum(ones, axes=0)  # error: call-arg
ones.summ()  # error: attr-defined
wnp.ones(3).at[0].sett(1)  # error: attr-defined
weft.jit(double, partitioner="gspmd")  # error: call-overload
weft.make_mesh((1,), ("x",)).axis_name  # error: attr-defined
weft.numpy.float31  # error: attr-defined
wnp.zeros("three")  # error: arg-type
lax.add(ones)  # error: call-arg
weft.P("x").specs  # error: attr-defined
weft.grad(loss, argnum=0)  # error: call-overload
weft.device_count(1, 2, 3)  # error: arg-type
wnp.concatenate(3)  # error: arg-type
weft.config.update(3)  # error: arg-type
wnp.reshape(ones)  # error: call-arg
ones @ "x"  # error: operator
wnp.sin("x")  # error: arg-type
weft.tree.mapp(double, ones)  # error: attr-defined
weft.scipy.linalgg.svd(ones)  # error: attr-defined
weft.scipy.linalg.svdd(ones)  # error: attr-defined
weft.sharding.NamedShardin(mesh, weft.P())  # error: attr-defined
weft.ffi.registered_target()  # error: attr-defined
weft.checkify.chekc(True, "")  # error: attr-defined
weft.checkpoints.Managr("")  # error: attr-defined
weft.distributed.initialise()  # error: attr-defined
weft.testing.assert_com(double)  # error: attr-defined
weft.export.exprt(double)  # error: attr-defined
weft.profiler.start_tracing("")  # error: attr-defined
weft.checkpoint(double)("x")  # error: arg-type
weft.custom_vjp(double)(ones, 1)  # error: call-arg
weft.shard_map(double, mesh=mesh, out_spec=weft.P())  # error: call-overload
weft.grad(tree_loss)(ones, ones)  # error: arg-type
weft.grad(params_loss, has_aux=True)(params, ones)[0].c  # error: attr-defined
weft.value_and_grad(loss)(ones)[1].summ()  # error: attr-defined
weft.tree.map(wnp.add, params, params).c  # error: attr-defined
weft.tree.map(double, {"a": ones})["a"].summ()  # error: attr-defined
weft.vjp(double, ones)[1](ones)[1]  # error: misc
