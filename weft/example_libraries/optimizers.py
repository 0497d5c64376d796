# Tests: tests/test_ode.py
"""Gradient descent and its relatives as triples of functions, as jax.example_libraries has them.

An optimizer is (init, update, get_params): init(params) gives a state, update(step, grads, state)
the next one, get_params(state) the parameters in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import weft.numpy as wnp
from weft import tree, tree_util
from weft.core.namespace import seal

if TYPE_CHECKING:
    from weft.typing import ArrayLike

__all__ = [
    *["JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads"],
    *["constant", "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule"],
    *["momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant"],
    *["polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"],
]  # fmt: skip
Schedule = Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """The states of all parameters, in the order of their tree's leaves."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree_util.register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda data, children: OptimizerState(children[0], *data),
)


class Optimizer(NamedTuple):
    """init_fn(params), update_fn(step, grads, state), params_fn(state)."""

    init_fn: Callable
    update_fn: Callable
    params_fn: Callable


def optimizer(opt_maker: Callable) -> Callable:
    """Make an optimizer of one array one of pytrees; use as a decorator.

    opt_maker: gives init(x0), update(step, grad, state) and get_params(state) of one array.

    >>> import weft
    >>> from weft.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def descent(rate):
    ...     return (lambda x: x), (lambda i, g, x: x - rate * g), (lambda x: x)
    >>> init, update, get_params = descent(0.5)
    >>> get_params(update(0, {"w": 2.0}, init({"w": 3.0})))
    {'w': 2.0}
    """

    @wraps(opt_maker)
    def make(*args: float, **kwargs: object) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: object) -> OptimizerState:
            leaves, tree_def = tree.flatten(params)
            flat = [tree.flatten(init(x)) for x in leaves]
            states, defs = (tuple(parts) for parts in zip(*flat, strict=True)) if flat else ((), ())
            return OptimizerState(tuple(map(tuple, states)), tree_def, tuple(defs))

        def tree_update(i: ArrayLike, grads: object, state: OptimizerState) -> OptimizerState:
            leaves, tree_def = tree.flatten(grads)
            if tree_def != state.tree_def:
                raise TypeError(
                    f"optimizer update: the gradients' structure {tree_def} differs from the "
                    f"parameters' {state.tree_def}"
                )
            packed = []
            for g, s, d in zip(leaves, state.packed_state, state.subtree_defs, strict=True):
                new, new_def = tree.flatten(update(i, g, d.unflatten(s)))
                if new_def != d:
                    raise TypeError(f"optimizer update: the state's structure {d} became {new_def}")
                packed.append(tuple(new))
            return OptimizerState(tuple(packed), state.tree_def, state.subtree_defs)

        def tree_params(state: OptimizerState) -> Any:
            states = zip(state.subtree_defs, state.packed_state, strict=True)
            return state.tree_def.unflatten([get_params(d.unflatten(s)) for d, s in states])

        return Optimizer(tree_init, tree_update, tree_params)

    return make


@optimizer
def sgd(step_size: object) -> tuple:
    """Gradient descent. step_size: a number, or a function of the step."""
    rate = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - rate(i) * g), (lambda x: x)


def _first(state: tuple) -> Any:
    return state[0]


@optimizer
def momentum(step_size: object, mass: float) -> tuple:
    """Gradient descent with a velocity that keeps `mass` of itself in each step."""
    rate = make_schedule(step_size)

    def update(i: object, g: object, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - rate(i) * v, v

    return (lambda x: (x, wnp.zeros_like(x))), update, _first


@optimizer
def nesterov(step_size: object, mass: float) -> tuple:
    """Gradient descent with Nesterov's momentum."""
    rate = make_schedule(step_size)

    def update(i: object, g: object, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - rate(i) * (mass * v + g), v

    return (lambda x: (x, wnp.zeros_like(x))), update, _first


@optimizer
def adagrad(step_size: object, momentum: float = 0.9) -> tuple:
    """Duchi, Hazan and Singer, Adaptive subgradient methods, 2011."""
    rate = make_schedule(step_size)

    def update(i: object, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + g * g
        scaled = g * wnp.where(squares > 0, 1 / wnp.sqrt(wnp.where(squares > 0, squares, 1)), 0)
        m = (1 - momentum) * scaled + momentum * m
        return x - rate(i) * m, squares, m

    return (lambda x: (x, wnp.zeros_like(x), wnp.zeros_like(x))), update, _first


@optimizer
def rmsprop(step_size: object, gamma: float = 0.9, eps: float = 1e-8) -> tuple:
    """Divide gradients by the root of their running mean square. Source: Hinton, lecture 6e."""
    rate = make_schedule(step_size)

    def update(i: object, g: Any, state: Any) -> Any:
        x, mean = state
        mean = gamma * mean + (1 - gamma) * g * g
        return x - rate(i) * g / wnp.sqrt(mean + eps), mean

    return (lambda x: (x, wnp.zeros_like(x))), update, _first


@optimizer
def rmsprop_momentum(
    step_size: object, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> tuple:
    """rmsprop with a velocity."""
    rate = make_schedule(step_size)

    def update(i: object, g: Any, state: Any) -> Any:
        x, mean, v = state
        mean = gamma * mean + (1 - gamma) * g * g
        v = momentum * v + rate(i) * g / wnp.sqrt(mean + eps)
        return x - v, mean, v

    return (lambda x: (x, wnp.zeros_like(x), wnp.zeros_like(x))), update, _first


@optimizer
def adam(step_size: object, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> tuple:
    """Kingma and Ba, Adam: a method for stochastic optimization, 2015."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: tuple) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * g * g + b2 * v
        unbiased = m / (1 - wnp.asarray(b1, m.dtype) ** (i + 1))
        size = wnp.sqrt(v / (1 - wnp.asarray(b2, m.dtype) ** (i + 1))) + eps
        return x - rate(i) * unbiased / size, m, v

    return (lambda x: (x, wnp.zeros_like(x), wnp.zeros_like(x))), update, _first


@optimizer
def adamax(step_size: object, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> tuple:
    """Adam with the largest instead of the mean square gradient: Kingma and Ba, 2015."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = wnp.maximum(b2 * v, wnp.abs(g))
        return x - rate(i) / (1 - wnp.asarray(b1, m.dtype) ** (i + 1)) * m / (v + eps), m, v

    return (lambda x: (x, wnp.zeros_like(x), wnp.zeros_like(x))), update, _first


@optimizer
def sm3(step_size: object, momentum: float = 0.9) -> tuple:
    """Anil et al., Memory-efficient adaptive optimization, 2019: statistics by rows and columns."""
    rate = make_schedule(step_size)

    def spread(v: Any, d: int, ndim: int) -> Any:
        return v.reshape([-1 if k == d else 1 for k in range(ndim)])

    def init(x: ArrayLike) -> Any:
        x = wnp.asarray(x)
        return x, wnp.zeros_like(x), [wnp.zeros(n, x.dtype) for n in x.shape]

    def update(i: object, g: Any, state: Any) -> Any:
        x, m, rows = state
        least = wnp.zeros_like(x)
        for d, v in enumerate(rows):
            least = wnp.minimum(least, spread(v, d, x.ndim)) if d else spread(v, d, x.ndim)
        size = least + g * g
        scaled = g * wnp.where(size > 0, 1 / wnp.sqrt(wnp.where(size > 0, size, 1)), 0)
        m = (1 - momentum) * scaled + momentum * m
        others = [tuple(k for k in range(x.ndim) if k != d) for d in range(x.ndim)]
        return x - rate(i) * m, m, [wnp.max(size, axis=axes) for axes in others]

    return init, update, _first


def constant(step_size: object) -> Schedule:
    """Return the schedule that is always step_size."""
    return lambda i: step_size


def exponential_decay(step_size: object, decay_steps: object, decay_rate: object) -> Schedule:
    """Return the schedule step_size * decay_rate ** (i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: object, decay_steps: object, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """Return the schedule step_size / (1 + decay_rate * i / decay_steps).

    staircase: by whole quotients.
    """
    quotient = (lambda i: wnp.floor(i / decay_steps)) if staircase else (lambda i: i / decay_steps)
    return lambda i: step_size / (1 + decay_rate * quotient(i))


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> Schedule:
    """Return the schedule that falls from step_size to final_step_size in decay_steps steps."""

    def schedule(i: int) -> Any:
        left = (1 - wnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: ArrayLike) -> Schedule:
    """Return the schedule that has values[k] from boundaries[k - 1] on.

    >>> from weft.example_libraries import optimizers
    >>> schedule = optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.25])
    >>> [float(schedule(i)) for i in (0, 15, 30)]
    [1.0, 0.5, 0.25]
    """
    boundaries, values = wnp.asarray(boundaries), wnp.asarray(values)
    if boundaries.ndim != 1 or values.shape != (boundaries.shape[0] + 1,):
        raise ValueError(
            f"piecewise_constant: values {values.shape} must have one element more than boundaries "
            f"{boundaries.shape}"
        )
    return lambda i: values[wnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: object) -> Schedule:
    """Return a function of the step, from one or from a number."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if getattr(scalar_or_schedule, "ndim", None) == 0 or isinstance(
        scalar_or_schedule, int | float
    ):
        return constant(scalar_or_schedule)
    raise TypeError(
        f"make_schedule: takes a function or a number, got {type(scalar_or_schedule).__name__}"
    )


def l2_norm(tree: object) -> Any:
    """Return the root of the sum of squares of all arrays of a pytree."""
    leaves = tree_util.tree_leaves(tree)
    return wnp.sqrt(sum(wnp.vdot(x, x).real for x in leaves))


def clip_grads(grad_tree: object, max_norm: object) -> Any:
    """Return the gradients, scaled down to a norm of max_norm where theirs is larger.

    >>> import weft.numpy as wnp
    >>> from weft.example_libraries import optimizers
    >>> optimizers.clip_grads(wnp.array([3.0, 4.0]), 1.0).round(3)
    Array([0.6, 0.8], dtype=float32)
    """
    norm = l2_norm(grad_tree)
    fits = norm < max_norm
    return tree.map(lambda g: wnp.where(fits, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks the state of one parameter in an unpacked optimizer state."""

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Return a state shaped as the parameters, a JoinPoint for each of them, to be saved."""
    states = zip(opt_state.subtree_defs, opt_state.packed_state, strict=True)
    return opt_state.tree_def.unflatten([JoinPoint(d.unflatten(s)) for d, s in states])


def pack_optimizer_state(marked_pytree: object) -> OptimizerState:
    """Return the state that `unpack_optimizer_state` gave as a pytree."""
    points, tree_def = tree.flatten(marked_pytree)
    wrong: Sequence = [p for p in points if not isinstance(p, JoinPoint)]
    if wrong:
        raise TypeError(f"pack_optimizer_state: every leaf must be a JoinPoint, got {wrong[0]!r}")
    pairs = [tree.flatten(p.subtree) for p in points]
    return OptimizerState(tuple(tuple(x) for x, _ in pairs), tree_def, tuple(d for _, d in pairs))


seal(globals())
