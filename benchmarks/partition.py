"""What partitioned programs send: bytes per device in the optimized HLO, weft's ÷ XLA's own.

JAX hands the sharded program to XLA's partitioner; weft localizes it itself. Both optimized HLO
texts are read by one counter, which multiplies a loop's body by its known trip count.
"""

import re
import time

import numpy as np

from benchmarks import training
from benchmarks.case import case
from benchmarks.dispatch import mesh_of

BITS = {"pred": 8, "bf16": 16, "f8e4m3fn": 8, "f8e5m2": 8}
COLLECTIVE = re.compile(
    r"= (?P<shape>\(.*?\)|\S+) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|"
    r"collective-permute|ragged-all-to-all|collective-broadcast)(?:-start)?\("
)
HEADER = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
CALLED = re.compile(
    r"(?:body|condition|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)"
)
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def shape_bytes(text: str) -> int:
    """Bytes of an HLO shape or of all members of a tuple shape, such as `(f32[8,4], s32[])`."""
    total = 0
    for kind, dims in re.findall(r"([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]", text):
        digits = re.search(r"\d+", kind)
        bits = BITS.get(kind) or int(digits.group())
        total += int(np.prod([int(d) for d in dims.split(",") if d], dtype=np.int64)) * bits // 8
    return total


def group_size(line: str, devices: int) -> int:
    """Devices that take part in one instance of the collective."""
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    if iota:
        return int(iota.group(2))
    first = re.search(r"replica_groups=\{\{([\d,]*)\}", line)
    return len(first.group(1).split(",")) if first and first.group(1) else devices


def sent(kind: str, shape: int, size: int) -> float:
    """Bytes one device sends by the bandwidth-optimal (ring) algorithm, from the result's bytes."""
    others = (size - 1) / size
    return {
        "all-reduce": 2 * shape * others,
        "all-gather": shape * others,
        "reduce-scatter": shape * (size - 1),
        "all-to-all": shape * others,
        "ragged-all-to-all": shape * others,
    }.get(kind, float(shape))


def bytes_sent(hlo: str, devices: int) -> float:
    """Bytes a device sends in one run of an optimized HLO module."""
    own: dict[str, float] = {}
    calls: dict[str, list[tuple[str, int]]] = {}
    current = entry = ""
    for line in hlo.splitlines():
        header = HEADER.match(line)
        if header and " = " not in line:
            current = header["name"]
            own[current], calls[current] = 0.0, []
            if line.startswith("ENTRY"):
                entry = current
            continue
        if not current:
            continue
        found = COLLECTIVE.search(line)
        if found:
            shape = shape_bytes(found["shape"])
            own[current] += sent(found["kind"], shape, group_size(line, devices))
        trips = TRIPS.search(line)
        times = int(trips.group(1)) if trips else 1
        called = CALLED.findall(line)
        for branches in BRANCHES.findall(line):
            called += [name.strip(" %") for name in branches.split(",")]
        calls[current] += [(name, times) for name in called]

    def total(name: str) -> float:
        inner = sum(times * total(callee) for callee, times in calls.get(name, ()))
        return own.get(name, 0.0) + inner

    return total(entry)


def mlp(xx):
    """Data × tensor parallel two-layer perceptron, its gradient summed over the data axis."""
    mesh = mesh_of(xx, (4, 2), ("data", "model"))
    place = lambda *spec: xx.NamedSharding(mesh, xx.P(*spec))

    def loss(params, x):
        hidden = xx.numpy.maximum(x @ params["up"], 0)
        return xx.numpy.mean((hidden @ params["down"]) ** 2)

    layout = {"up": place(None, "model"), "down": place("model", None)}
    params = {"up": np.ones((256, 1024), np.float32), "down": np.ones((1024, 256), np.float32)}
    function = xx.jit(xx.grad(loss), in_shardings=(layout, place("data")), out_shardings=layout)
    return function, (params, np.ones((64, 256), np.float32))


def fully_sharded(xx):
    """The same perceptron with parameters split over the data axis (FSDP / ZeRO-3)."""
    mesh = mesh_of(xx, (8,), ("data",))
    place = lambda *spec: xx.NamedSharding(mesh, xx.P(*spec))

    def loss(params, x):
        for weight in params:
            x = xx.numpy.tanh(x @ weight)
        return xx.numpy.mean(x**2)

    params = [np.ones((512, 512), np.float32) for _ in range(4)]
    layout = [place("data", None)] * 4
    function = xx.jit(xx.grad(loss), in_shardings=(layout, place("data")), out_shardings=layout)
    return function, (params, np.ones((64, 512), np.float32))


def stencil(xx):
    """Five steps of a periodic five-point stencil on a grid split in both directions."""
    mesh = mesh_of(xx, (4, 2), ("x", "y"))
    place = xx.NamedSharding(mesh, xx.P("x", "y"))

    def run(grid):
        roll = xx.numpy.roll
        for _ in range(5):
            around = roll(grid, 1, 0) + roll(grid, -1, 0) + roll(grid, 1, 1) + roll(grid, -1, 1)
            grid = 0.5 * grid + 0.125 * around
        return grid

    function = xx.jit(run, in_shardings=place, out_shardings=place)
    return function, (np.ones((512, 512), np.float32),)


def embedding(xx):
    """Rows looked up in a table that is split over its vocabulary, then a normalized sum."""
    mesh = mesh_of(xx, (4, 2), ("data", "model"))
    place = lambda *spec: xx.NamedSharding(mesh, xx.P(*spec))

    def run(table, ids):
        return xx.nn.softmax(table[ids].sum(axis=1), axis=-1)

    function = xx.jit(
        run,
        in_shardings=(place("model", None), place("data", None)),
        out_shardings=place("data", None),
    )
    return function, (np.ones((8192, 128), np.float32), np.zeros((64, 16), np.int32))


def scan_of_layers(xx):
    """Tensor-parallel layers in a scan: the collectives stand in a loop."""
    mesh = mesh_of(xx, (4, 2), ("data", "model"))
    place = lambda *spec: xx.NamedSharding(mesh, xx.P(*spec))

    def run(weights, x):
        def layer(x, pair):
            up, down = pair
            return x + xx.numpy.maximum(x @ up, 0) @ down, None

        return xx.lax.scan(layer, x, weights)[0]

    layout = (place(None, None, "model"), place(None, "model", None))
    weights = (np.ones((6, 128, 512), np.float32), np.ones((6, 512, 128), np.float32))
    function = xx.jit(
        run, in_shardings=(layout, place("data", None)), out_shardings=place("data", None)
    )
    return function, (weights, np.ones((64, 128), np.float32))


def transposed_layout(xx):
    """A matrix split by rows handed on split by columns."""
    mesh = mesh_of(xx, (8,), ("x",))
    place = lambda *spec: xx.NamedSharding(mesh, xx.P(*spec))
    function = xx.jit(
        lambda x: xx.numpy.sin(x), in_shardings=place("x", None), out_shardings=place(None, "x")
    )
    return function, (np.ones((512, 512), np.float32),)


def gpt_step(xx):
    """The training step of benchmarks/training.py."""
    step, state, data = training.step_and_arguments(xx, sharded=True)
    return step, (state, *data)


def declare(name: str, program) -> None:
    @case(f"bytes sent, {name}", budget=1.0, clock="value", unit="B")
    def measure(xx):
        function, arguments = program(xx)
        return bytes_sent(function.lower(*arguments).compile().as_text(), devices=8)

    @case(f"run, {name}", budget=1.0, clock="wall")
    def run(xx):
        function, arguments = program(xx)
        result = function.lower(*arguments).compile()
        shardings = result.input_shardings[0]
        placed = xx.device_put(arguments, tuple(shardings))
        return lambda: xx.block_until_ready(function(*placed))


for _name, _program in (
    ("perceptron gradient, data × tensor", mlp),
    ("perceptron gradient, fully sharded", fully_sharded),
    ("stencil", stencil),
    ("vocabulary-split embedding", embedding),
    ("scan of layers", scan_of_layers),
    ("rows to columns", transposed_layout),
):
    declare(_name, _program)


@case("bytes sent, step of a GPT-4, 4×2 devices", budget=1.0, clock="value", unit="B")
def gpt_bytes(xx):
    step, arguments = gpt_step(xx)
    return bytes_sent(step.lower(*arguments).compile().as_text(), devices=8)


@case("partition a GPT-4's step, to 10 % of its compilation", budget=1.0, clock="value")
def partition_time(xx):
    """weft: CPU seconds of its passes; JAX: a tenth of those that XLA takes for the program."""
    step, arguments = gpt_step(xx)
    lowered = step.lower(*arguments)
    if xx.__name__ != "weft":
        began = time.process_time()
        lowered.compile()
        return 0.1 * (time.process_time() - began)
    from weft._xla import mlir
    from weft.partition import partition

    with mlir.context(), mlir.unknown_location():
        partition(lowered._program.module, keep_stages=False)
        began = time.process_time()
        partition(lowered._program.module, keep_stages=False)
        return time.process_time() - began
