"""What the corpus needs of a library beyond NumPy, in plain Python: loops, branches, small ops."""

from __future__ import annotations

import types
from typing import Any

import numpy as np


def leaves(tree: Any) -> list[Any]:
    """The arrays in nested tuples and lists, in order."""
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


def _map(function: Any, *trees: Any) -> Any:
    first = trees[0]
    if isinstance(first, tuple | list):
        return tuple(_map(function, *parts) for parts in zip(*trees, strict=True))
    return None if first is None else function(*trees)


def scan(step, carry, xs=None, length=None, reverse=False):
    count = length if xs is None else len(leaves(xs)[0])
    outs: list[Any] = [None] * count
    for i in reversed(range(count)) if reverse else range(count):
        carry, outs[i] = step(carry, _map(lambda x, i=i: x[i], xs))
    return carry, _map(lambda *parts: np.stack(parts), *outs)


def fori_loop(low, high, body, value):
    for i in range(low, high):
        value = body(i, value)
    return value


def while_loop(condition, body, value):
    while condition(value):
        value = body(value)
    return value


def cond(predicate, yes, no, *operands):
    return yes(*operands) if predicate else no(*operands)


def switch(index, branches, *operands):
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def associative_scan(combine, elements, reverse=False, axis=0):
    parts = [np.moveaxis(e, axis, 0) for e in leaves(elements)]
    total = [p[0] for p in parts]
    rows = [total]
    for i in range(1, len(parts[0])):
        total = leaves(combine(tuple(total), tuple(p[i] for p in parts)))
        rows.append(total)
    outs = tuple(np.moveaxis(np.stack(column), 0, axis) for column in zip(*rows, strict=True))
    return outs if isinstance(elements, tuple | list) else outs[0]


def top_k(x, k):
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def dynamic_slice(x, starts, sizes):
    at = [int(np.clip(s, 0, n - k)) for s, n, k in zip(starts, np.shape(x), sizes, strict=True)]
    return x[tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))]


def dynamic_update_slice(x, update, starts):
    out = np.array(x)
    dynamic_slice(out, starts, update.shape)[...] = update
    return out


def conv_general_dilated(
    x, w, window_strides=(1, 1), padding=(), rhs_dilation=(1, 1), feature_group_count=1
):
    """NCHW × OIHW by loops over the filter's elements."""
    x = np.pad(x, ((0, 0), (0, 0), *(padding or ((0, 0), (0, 0)))))
    reach = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], rhs_dilation, strict=True)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, window_strides, strict=True)]
    per, made = x.shape[1] // feature_group_count, w.shape[0] // feature_group_count
    out = np.zeros((len(x), w.shape[0], *sizes), np.result_type(x, w))
    parts = x.reshape(len(x), feature_group_count, per, *x.shape[2:])
    filters = w.reshape(feature_group_count, made, per, *w.shape[2:])
    for place in np.ndindex(*w.shape[2:]):
        window = tuple(
            slice(k * d, k * d + s * (n - 1) + 1, s)
            for k, d, s, n in zip(place, rhs_dilation, window_strides, sizes, strict=True)
        )
        term = np.einsum("ngchw,goc->ngohw", parts[(..., *window)], filters[(..., *place)])
        out += term.reshape(out.shape)
    return out


def _grad(function, argnums=0):
    """Central differences in double precision."""
    step = 1e-5

    def run(*args):
        args = [
            _map(lambda a: np.array(a, np.float64) if a.dtype.kind == "f" else a, a) for a in args
        ]

        def each(array):
            out = np.zeros_like(array)
            for index in np.ndindex(*array.shape):
                held = array[index]
                array[index] = held + step
                more = function(*args)
                array[index] = held - step
                out[index] = (more - function(*args)) / (2 * step)
                array[index] = held
            return out

        if isinstance(argnums, tuple):
            return tuple(_map(each, args[i]) for i in argnums)
        return _map(each, args[argnums])

    return run


def _value_and_grad(function, argnums=0):
    return lambda *args: (function(*args), _grad(function, argnums)(*args))


def _vmap(function, in_axes=0):
    def run(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        count = next(a.shape[x] for a, x in zip(args, axes, strict=True) if x is not None)
        rows = [
            function(
                *(a if x is None else np.take(a, i, x) for a, x in zip(args, axes, strict=True))
            )
            for i in range(count)
        ]
        return _map(lambda *parts: np.stack(parts), *rows)

    return run


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Host:
    """Stands for a library where a program runs on NumPy."""

    lax = types.SimpleNamespace(
        scan=scan,
        fori_loop=fori_loop,
        while_loop=while_loop,
        cond=cond,
        switch=switch,
        associative_scan=associative_scan,
        top_k=top_k,
        dynamic_slice=dynamic_slice,
        dynamic_update_slice=dynamic_update_slice,
        rsqrt=lambda x: 1 / np.sqrt(x),
        conv_general_dilated=conv_general_dilated,
        stop_gradient=lambda x: x,
    )
    nn = types.SimpleNamespace(
        softmax=_softmax, sigmoid=lambda x: 1 / (1 + np.exp(-x)), relu=lambda x: np.maximum(x, 0)
    )
    vmap = staticmethod(_vmap)
    grad = staticmethod(_grad)
    value_and_grad = staticmethod(_value_and_grad)
    checkpoint = staticmethod(lambda function, **_: function)

    @staticmethod
    def pin(x, *_):
        return x
