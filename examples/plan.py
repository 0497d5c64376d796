"""Plans the training of a large GPT on machines that are not there: `python -m examples.plan`.

The step of `examples.train` is lowered over abstract meshes, data × model, of as many devices as
asked for. Each line says what one device would send and hold; nothing is compiled or run. The same
for one layout, with every collective: `weft explain examples.plan:step --hardware h100`.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import weft
from examples import adamw, gpt
from weft import P
from weft.partition.report import format_bytes, format_seconds

SIZES = gpt.Sizes(layers=24, width=2048, heads=16, length=1024, vocabulary=50304)


def step(state: adamw.State, crops: Any) -> tuple[adamw.State, Any]:
    """One step of training, as `examples.train` jits it."""
    value, grads = weft.value_and_grad(partial(gpt.loss, SIZES))(state.params, crops)
    return adamw.update(state, grads, 3e-4), value


def arguments(data: int, model: int, batch: int) -> tuple[adamw.State, Any]:
    """Types of the step's arguments, split over an abstract mesh: no memory, no devices."""
    auto = (weft.sharding.AxisType.Auto,) * 2
    mesh = weft.sharding.AbstractMesh((data, model), ("data", "model"), axis_types=auto)

    def typed(x: Any, spec: P) -> weft.ShapeDtypeStruct:
        return weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=weft.NamedSharding(mesh, spec))

    specs = gpt.specs()
    init: adamw.State = weft.eval_shape(lambda: adamw.start(gpt.init(weft.random.key(0), SIZES)))
    state = weft.tree.map(typed, init, adamw.State(specs, specs, specs, P()))
    rows = weft.ShapeDtypeStruct((batch, SIZES.length + 1), "int32")
    return state, typed(rows, P("data"))


def sharding_of(x: weft.ShapeDtypeStruct) -> Any:
    return x.sharding


def main(argv: list[str] | None = None) -> None:
    summary = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="examples.plan", description=summary)
    parser.add_argument("--devices", type=int, default=4096)
    parser.add_argument("--batch", type=int, help="sequences of a step (default: one a device)")
    parser.add_argument("--hardware", default="h100")
    args = parser.parse_args(argv)
    batch = args.batch or args.devices
    print(f"{args.devices} × {args.hardware}, {batch} sequences of {SIZES.length} characters")
    print(f"{'data × model':>14} {'sent':>9} {'time':>8} {'arguments':>10} {'temporaries':>12}")
    for model in (1, 2, 4, 8, 16):
        data = args.devices // model
        if args.devices % model or batch % data or SIZES.heads % model:
            continue
        state, crops = arguments(data, model, batch)
        split = weft.tree.map(sharding_of, state)
        jitted = weft.jit(step, donate_argnums=0, out_shardings=(split, None))
        report = weft.comm(jitted, state, crops, hardware=args.hardware)
        m = report.memory
        print(
            f"{f'{data} × {model}':>14} {format_bytes(report.total_bytes):>9}"
            f" {format_seconds(report.seconds):>8} {format_bytes(m.arguments):>10}"
            f" {format_bytes(m.temporaries):>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
