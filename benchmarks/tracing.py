"""Trace and lower a 24-layer GPT: forward, gradient, gradient of scan, vmap of gradient."""

import numpy as np

from benchmarks import gpt
from benchmarks.case import Timed, case, count_equations

SIZES = gpt.Sizes()


def programs(xx):
    """name → (function, arguments)."""
    unrolled, scanned = gpt.parameters(SIZES, stacked=False), gpt.parameters(SIZES, stacked=True)
    ids, targets = gpt.batch(SIZES)
    forward, loss = gpt.make_model(xx, SIZES, scan=False)
    _, scan_loss = gpt.make_model(xx, SIZES, scan=True)
    many = (np.stack([ids] * 2), np.stack([targets] * 2))
    return {
        "forward": (forward, (unrolled, ids)),
        "grad": (xx.grad(loss), (unrolled, ids, targets)),
        "grad of scan": (xx.grad(scan_loss), (scanned, ids, targets)),
        "vmap of grad": (xx.vmap(xx.grad(loss), in_axes=(None, 0, 0)), (unrolled, *many)),
    }


def trace_anew(xx, function, arguments):
    """A new function object each time, so that no trace cache answers."""
    return xx.jit(lambda *args: function(*args)).trace(*arguments)


def declare(name: str) -> None:
    @case(f"trace GPT-24 {name}", budget=0.25)
    def trace(xx):
        function, arguments = programs(xx)[name]
        first = trace_anew(xx, function, arguments)
        run = lambda: trace_anew(xx, function, arguments)
        return Timed(run, equations=count_equations(first.jaxpr))

    @case(f"lower GPT-24 {name}", budget=0.3)
    def lower(xx):
        function, arguments = programs(xx)[name]
        prepare = lambda: trace_anew(xx, function, arguments)
        count = count_equations(prepare().jaxpr)
        return Timed(lambda traced: traced.lower(), prepare=prepare, equations=count)


for _name in ("forward", "grad", "grad of scan", "vmap of grad"):
    declare(_name)


@case("trace x + 1.0", budget=0.25)
def trace_add(xx):
    x = np.ones(4, np.float32)
    return lambda: xx.jit(lambda x: x + 1.0).trace(x)


@case("trace softmax", budget=0.25)
def trace_softmax(xx):
    x = np.ones((4, 8), np.float32)
    return lambda: xx.jit(lambda x: xx.nn.softmax(x)).trace(x)
