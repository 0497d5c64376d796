"""Compile and run a GPT's training step, on one device and data × tensor parallel on eight."""

from benchmarks import gpt
from benchmarks.case import Timed, case
from benchmarks.dispatch import mesh_of

SIZES = gpt.Sizes(layers=4, width=128, heads=4, length=64, batch=8, vocabulary=256)

# Which dimension of a parameter is split over the model axis (Megatron-LM, Shoeybi et al. 2019).
SPLIT = {"query": 1, "key": 1, "value": 1, "out": 0, "up": 1, "down": 0}


def parameter_specs(xx, params):
    """A tree of partition specs like `params`, from each weight's name."""

    def spec(path, leaf):
        names = [part for part in path if part in SPLIT]
        axis = SPLIT.get(names[0]) if names and leaf.ndim == 2 else None
        return xx.P(*("model" if i == axis else None for i in range(leaf.ndim)))

    def walk(tree, path):
        if isinstance(tree, dict):
            return {name: walk(value, (*path, name)) for name, value in tree.items()}
        if isinstance(tree, list):
            return [walk(value, path) for value in tree]
        return spec(path, tree)

    return walk(params, ())


def step_and_arguments(xx, sharded: bool, scan: bool = False):
    """The jitted step, its state and its batch, on their devices."""
    _, loss = gpt.make_model(xx, SIZES, scan=scan)
    start, step = gpt.make_step(xx, loss)
    params = gpt.parameters(SIZES, stacked=scan)
    state, data = start(params), gpt.batch(SIZES)
    if sharded:
        mesh = mesh_of(xx, (4, 2), ("data", "model"))
        place = lambda spec: xx.NamedSharding(mesh, spec)
        specs = parameter_specs(xx, params)
        shardings = xx.tree.map(place, specs, is_leaf=lambda leaf: isinstance(leaf, xx.P))
        whole = place(xx.P())
        layout = {"params": shardings, "first": shardings, "second": shardings, "count": whole}
        state = xx.device_put(state, layout)
        data = xx.device_put(data, place(xx.P("data")))
        return xx.jit(step, out_shardings=(layout, whole)), state, data
    state = xx.device_put(state, xx.devices()[0])
    return xx.jit(step), state, xx.device_put(data, xx.devices()[0])


def declare(name: str, sharded: bool, scan: bool = False) -> None:
    @case(f"step of a GPT-4, {name}", budget=1.02, clock="wall")
    def run(xx):
        step, state, data = step_and_arguments(xx, sharded, scan)

        def train():
            nonlocal state
            state, value = step(state, *data)
            return value.block_until_ready()

        return train

    # CPU time: XLA compiles on a thread pool, and wall time would measure who else is running.
    @case(f"compile the step of a GPT-4, {name}", budget=1.0)
    def compile_step(xx):
        # A step made anew each time, so that no cache of executables answers.
        def prepare():
            step, state, data = step_and_arguments(xx, sharded, scan)
            return step.lower(state, *data)

        return Timed(lambda lowered: lowered.compile(), prepare=prepare)


declare("1 device", sharded=False)
declare("4×2 devices", sharded=True)
declare("scan, 1 device", sharded=False, scan=True)
