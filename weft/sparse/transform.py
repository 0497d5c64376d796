"""sparsify: functions of arrays as functions of sparse arrays, and the operators made by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
import weft.sparse.products as products
import weft.sparse.shapes as shapes
from weft import lax, tree
from weft.ad_checkpoint import checkpoint_name
from weft.core.boundary import api_boundary
from weft.core.jaxpr import ClosedJaxpr, Eqn, interpret
from weft.core.primitive import PRIMITIVES
from weft.core.source import function_name, wraps
from weft.core.trace import Tracer, trace_to_jaxpr, typeof
from weft.driver.staging import check_callable
from weft.sparse.arrays import BCOO, BCSR, JAXSparse
from weft.sparse.bcoo import bcoo_transpose, bcoo_update_layout

_DENSE = "weft.sparse.todense"


def is_sparse(x: object) -> bool:
    """Return whether x is a sparse array."""
    return isinstance(x, JAXSparse)


def todense(arr: Any) -> Any:
    """Return the dense form of a sparse array; a dense array as it is.

    >>> import weft.numpy as wnp
    >>> from weft import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if is_sparse(arr):
        return arr.todense()
    # Inside a function that is made sparse, an argument only looks dense.
    return checkpoint_name(arr, _DENSE) if _is_traced(arr) else wnp.asarray(arr)


def _is_traced(x: object) -> bool:
    return isinstance(x, Tracer)


def sparsify(f: Callable, use_tracer: bool = False) -> Callable:
    """Return `f` as a function that takes sparse arrays in place of arrays.

    Operations that keep zeros give sparse arrays; a BCOO times a dense array is dense.
    use_tracer: has no effect, there is one way to do it.

    Raises TypeError for what is no function; the function raises NotImplementedError for an
    operation that sparse arrays do not have, with the line.

    >>> import weft.numpy as wnp
    >>> from weft import sparse
    >>> m = sparse.BCOO.fromdense(wnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> sparse.sparsify(lambda m, v: wnp.sqrt(m * 2) @ v)(m, wnp.ones(2)).round(3)
    Array([2.   , 1.414], dtype=float32)
    """
    check_callable(f, "sparsify")

    @wraps(f)
    @api_boundary
    def sparsified(*args: object, **kwargs: object) -> Any:
        # Other keyword arguments are settings of the function, such as an axis.
        sparse_kwargs = {
            name: value
            for name, value in kwargs.items()
            if any(map(is_sparse, tree.leaves(value, is_leaf=is_sparse)))
        }
        leaves, in_tree = tree.flatten((args, sparse_kwargs), is_leaf=is_sparse)
        out_tree: Any = None

        def flat(*dense: object) -> list:
            nonlocal out_tree
            inner_args, inner_kwargs = tree.unflatten(in_tree, dense)
            outs, out_tree = tree.flatten(f(*inner_args, **{**kwargs, **inner_kwargs}))
            return outs

        leaves = [_as_bcoo(x) for x in leaves]
        avals = [_aval(x) for x in leaves]
        jaxpr, consts = trace_to_jaxpr(flat, avals, function_name(f))
        return tree.unflatten(out_tree, run(ClosedJaxpr(jaxpr, consts), leaves))

    return sparsified


def _as_bcoo(x: Any) -> Any:
    return x.to_bcoo() if is_sparse(x) and not isinstance(x, BCOO | BCSR) else x


def _aval(x: Any) -> Any:
    if is_sparse(x):
        return typeof(x.data).update(shape=x.shape, sharding=None)
    return typeof(x)


def run(closed: ClosedJaxpr, args: Sequence[Any]) -> list:
    """Return the results of a jaxpr for arguments of which some are sparse."""
    return interpret(closed, args, _apply)


def _apply(eqn: Eqn, ins: list) -> Any:
    if not any(map(is_sparse, ins)):
        return eqn.primitive.bind(*ins, **eqn.rule_params)
    name = eqn.primitive.name
    rule = RULES.get(name)
    if rule is None:
        raise NotImplementedError(
            f"sparse rule for {name} is not implemented: at {eqn.source}, make its operands dense "
            "with weft.sparse.todense"
        )
    rows = {type(x) for x in ins if is_sparse(x)} == {BCSR}
    if rows and name not in _UNARY:
        ins = [x.to_bcoo() if is_sparse(x) else x for x in ins]
    out = rule(ins, eqn.rule_params)
    back = rows and isinstance(out, BCOO) and out.n_sparse == 2
    return BCSR.from_bcoo(out) if back else out


# Rules: operands and params -> result, or list of results of ops that have several ---------------


def _mapped(op: Callable, m: Any) -> Any:
    """Return a sparse array with other values at the same indices."""
    return type(m).tree_unflatten(m._info, (op(m.data), *m._bufs[1:]))


def _unary(name: str, linear: bool) -> Callable:
    def rule(ins: list, params: dict) -> Any:
        (m,) = ins
        if not linear and not m.unique_indices:
            m = m.sum_duplicates(nse=m.nse, remove_zeros=False)
        primitive = PRIMITIVES[name]
        return _mapped(lambda x: primitive.bind(x, **params), m)

    return rule


_UNARY = {
    name: _unary(name, linear)
    for linear, names in (
        (True, "neg copy real imag conj convert_element_type reduce_precision"),
        (
            False,
            """abs asin asinh atan atanh cbrt ceil expm1 floor log1p sign sin sinh sqrt tan tanh
            round relu relu6 erf erf_inv softsign gelu gelu_tanh stop_gradient""",
        ),
    )
    for name in names.split()
}


def _integer_pow(ins: list, params: dict) -> Any:
    if params["y"] <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with exponent {params['y']}: zeros would not stay zeros; "
            "make the operand dense with weft.sparse.todense"
        )
    return _unary("integer_pow", linear=False)(ins, params)


def _alike(x: BCOO, y: BCOO) -> tuple[BCOO, BCOO]:
    layout = {"n_batch": min(x.n_batch, y.n_batch), "n_dense": min(x.n_dense, y.n_dense)}
    return bcoo_update_layout(x, **layout), bcoo_update_layout(y, **layout)


def _add(ins: list, params: dict) -> Any:
    x, y = ins
    if not (is_sparse(x) and is_sparse(y)):
        return wnp.add(todense(x), todense(y))
    if x.shape != y.shape:
        raise NotImplementedError(
            f"sparse arrays of shapes {x.shape} and {y.shape} are not added; "
            "bcoo_broadcast_in_dim gives them one shape"
        )
    if x.indices is y.indices and x.data.shape == y.data.shape:
        return _mapped(lambda data: data + y.data, x)
    x, y = _alike(x, y)
    n = x.n_batch
    full = lambda b: wnp.broadcast_to(b, (*x.shape[:n], *b.shape[n:])) if n else b
    pairs = zip(x._bufs, y._bufs, strict=True)
    return BCOO(tuple(wnp.concatenate([full(a), full(b)], n) for a, b in pairs), shape=x.shape)


def _sub(ins: list, params: dict) -> Any:
    x, y = ins
    return _add([x, _mapped(wnp.negative, y) if is_sparse(y) else wnp.negative(y)], params)


def _mul(ins: list, params: dict) -> Any:
    x, y = ins
    if is_sparse(x) and is_sparse(y):
        if x.indices is y.indices and x.unique_indices and x.data.shape == y.data.shape:
            return _mapped(lambda data: data * y.data, x)
        return products.bcoo_multiply_sparse(x, y)
    m, v = (x, y) if is_sparse(x) else (y, x)
    if np.ndim(v) == 0:
        return _mapped(lambda data: data * v, m)
    return products.bcoo_multiply_dense(m, v)


def _div(ins: list, params: dict) -> Any:
    x, y = ins
    if is_sparse(y):
        raise NotImplementedError(
            "sparse rule for div by a sparse array: most elements would be divided by zero; make "
            "it dense with weft.sparse.todense"
        )
    if np.ndim(y) == 0:
        return _mapped(lambda data: data / y, x)
    return products.with_dense(wnp.divide, x, wnp.asarray(y))


def _dot(ins: list, params: dict) -> Any:
    return products.bcoo_dot_general(
        *ins,
        dimension_numbers=params["dimension_numbers"],
        preferred_element_type=params.get("preferred_element_type"),
    )


def _name(ins: list, params: dict) -> Any:
    return ins[0].todense() if params.get("name") == _DENSE else ins[0]


def _jit(ins: list, params: dict) -> list:
    return run(params["jaxpr"], ins)


def _cond(ins: list, params: dict) -> Any:
    index, *ops = ins
    branches = [lambda *xs, b=b: run(b, xs) for b in params["branches"]]
    return lax.switch(index, branches, *ops)


def _while(ins: list, params: dict) -> Any:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    tests, consts, carry = ins[:n], ins[n : n + m], ins[n + m :]
    return lax.while_loop(
        lambda c: run(params["cond_jaxpr"], [*tests, *c])[0],
        lambda c: run(params["body_jaxpr"], [*consts, *c]),
        carry,
    )


def _scan(ins: list, params: dict) -> list:
    n, end = params["num_consts"], params["num_consts"] + params["num_carry"]
    if any(map(is_sparse, ins[end:])):
        raise NotImplementedError(
            "sparse rule for scan over a sparse array: scan over an index, or make it dense"
        )

    def body(carry: list, xs: list) -> tuple:
        outs = run(params["jaxpr"], [*ins[:n], *carry, *xs])
        return outs[: params["num_carry"]], outs[params["num_carry"] :]

    options = {k: params[k] for k in ("length", "reverse", "unroll")}
    result: Any = lax.scan(body, ins[n:end], ins[end:], **options)
    carry, ys = result
    return [*carry, *ys]


def _concatenate(ins: list, params: dict) -> Any:
    if not all(map(is_sparse, ins)):
        return lax.concatenate([todense(x) for x in ins], params["dimension"])
    return shapes.bcoo_concatenate(ins, dimension=params["dimension"])


def _dynamic_slice(ins: list, params: dict) -> Any:
    return shapes.bcoo_dynamic_slice(ins[0], ins[1:], params["slice_sizes"])


def _of(fun: Callable, *names: str, **renamed: str) -> Callable:
    """Return the rule of an op that is a function of sparse arrays with these of its params."""

    def rule(ins: list, params: dict) -> Any:
        kept = {k: params[k] for k in names if params.get(k) is not None}
        return fun(ins[0], **kept, **{k: params[v] for k, v in renamed.items()})

    return rule


def _gather(ins: list, params: dict) -> Any:
    return shapes.bcoo_gather(
        ins[0], ins[1], params["dimension_numbers"], params["slice_sizes"], mode=params.get("mode")
    )


def _reshape(ins: list, params: dict) -> Any:
    return shapes.bcoo_reshape(
        ins[0], new_sizes=params["new_sizes"], dimensions=params.get("dimensions")
    )


def _conv(ins: list, params: dict) -> Any:
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers")
    options: dict[str, Any] = {n: params.get(n) for n in names}
    return shapes.bcoo_conv_general_dilated(*ins, **options)


RULES: dict[str, Callable] = {
    **_UNARY,
    "integer_pow": _integer_pow,
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "dot_general": _dot,
    "name": _name,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "reshape": _reshape,
    "conv_general_dilated": _conv,
    "transpose": _of(bcoo_transpose, "permutation"),
    "broadcast_in_dim": _of(shapes.bcoo_broadcast_in_dim, "shape", "broadcast_dimensions"),
    "slice": _of(shapes.bcoo_slice, "start_indices", "limit_indices", "strides"),
    "rev": _of(shapes.bcoo_rev, "dimensions"),
    "reduce_sum": _of(shapes.bcoo_reduce_sum, "axes"),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    **dict.fromkeys(
        ("jit", "remat2", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call"), _jit
    ),
}


# Operators --------------------------------------------------------------------------------------


def _operator(fun: Callable, *, swapped: bool = False) -> Callable:
    compiled = weft.jit(sparsify(fun))

    @api_boundary
    def method(self: object, other: object) -> Any:
        ordered = (other, self) if swapped else (self, other)
        return compiled(*ordered)

    return method


def _keeping(fun: Callable) -> Callable:
    """Return a method whose arguments, beside the array, are static."""

    @api_boundary
    def method(self: object, *args: object, **kwargs: object) -> Any:
        return sparsify(lambda x: fun(x, *args, **kwargs))(self)

    return method


def _getitem(self: object, index: object) -> Any:
    return sparsify(lambda x: x[index])(self)


def _iter(self: Any) -> Any:
    return (self[i] for i in range(self.shape[0]))


_ARITHMETIC: dict[str, Any] = {
    "matmul": wnp.matmul,
    "mul": wnp.multiply,
    "truediv": wnp.divide,
    "add": wnp.add,
    "sub": wnp.subtract,
}
_COMPARISONS: dict[str, Any] = {
    "gt": wnp.greater,
    "ge": wnp.greater_equal,
    "lt": wnp.less,
    "le": wnp.less_equal,
    "eq": wnp.equal,
    "ne": wnp.not_equal,
}


def _add_operators(cls: Any) -> None:
    for name, fun in _ARITHMETIC.items():
        setattr(cls, f"__{name}__", _operator(fun))
        setattr(cls, f"__r{name}__", _operator(fun, swapped=True))
    for name, fun in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _operator(fun))
    cls.__abs__ = _keeping(wnp.abs)
    cls.__neg__ = _keeping(wnp.negative)
    cls.__pos__ = _keeping(wnp.positive)
    cls.__pow__ = _keeping(wnp.power)
    cls.__getitem__ = _getitem
    cls.__iter__ = _iter
    cls.sum = _keeping(wnp.sum)
    cls.reshape = _keeping(lambda x, *args, **kwargs: x.reshape(*args, **kwargs))
    cls.astype = _keeping(lambda x, *args, **kwargs: x.astype(*args, **kwargs))


for _cls in (BCOO, BCSR):
    _add_operators(_cls)
