"""Trains a character GPT, data × tensor parallel on 8 virtual CPU devices (`make demo`).

    python -m examples.train                     one program over global arrays, split by shardings
    python -m examples.train --layout shard_map  the same with its collectives written out
    python -m examples.train --layout single     the same on one device
    python -m examples.train --compare 50        all three side by side: their losses agree

A run that is interrupted, even killed, goes on from its last finished step when started again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import weft
from examples import adamw, gpt
from examples.text import Text, batch
from weft import P, checkpoints

LAYOUTS = ("global", "shard_map", "single")


class Run:
    """A model, its state on the devices, and the compiled step of one layout."""

    def __init__(self, layout: str, sizes: gpt.Sizes, args: argparse.Namespace) -> None:
        self.layout, self.sizes = layout, sizes
        whole = layout == "single"
        shape, devices = ((1, 1), weft.devices()[:1]) if whole else ((4, 2), weft.devices()[:8])
        auto = (weft.sharding.AxisType.Auto,) * 2
        self.mesh = weft.make_mesh(shape, ("data", "model"), axis_types=auto, devices=devices)
        place = partial(weft.NamedSharding, self.mesh)
        split = weft.tree.map(place, gpt.specs())
        self.shardings = adamw.State(split, split, split, place(P()))
        self.rows = place(P("data"))
        params = weft.device_put(gpt.init(weft.random.key(args.seed), sizes), split)
        self.state = weft.jit(adamw.start, out_shardings=self.shardings)(params)

        loss: Callable[..., Any] = partial(gpt.loss, sizes)
        if layout == "shard_map":
            loss = gpt.local_loss(sizes, self.mesh)

        def step(state: adamw.State, crops: Any) -> tuple[adamw.State, Any]:
            value, grads = weft.value_and_grad(loss)(state.params, crops)
            learning_rate = adamw.rate(state.step, args.rate, args.steps // 10, args.steps)
            return adamw.update(state, grads, learning_rate), value

        self.step = weft.jit(step, donate_argnums=0, out_shardings=(self.shardings, None))
        self.loss = weft.jit(loss)

    def put(self, crops: Any) -> Any:
        return weft.device_put(crops, self.rows)

    def advance(self, crops: Any) -> float:
        """One step of training; returns its loss."""
        self.state, value = self.step(self.state, self.put(crops))
        # Waiting here keeps one program in flight: with more, eight virtual devices on two cores
        # can wait for each other's collectives forever.
        return float(value)


def held_out_loss(run: Run, text: Text, args: argparse.Namespace) -> float:
    crops = [batch(text.held_out, args.batch, run.sizes.length, (1, i)) for i in range(4)]
    return sum(float(run.loss(run.state.params, run.put(c))) for c in crops) / len(crops)


def show(step: int, args: argparse.Namespace, loss: float, speed: float, held_out: float) -> None:
    """A progress bar on a terminal, a line now and then elsewhere."""
    done = 30 * step // args.steps
    bar = "█" * done + "·" * (30 - done)
    line = f"{bar} {step:4d}/{args.steps}  loss {loss:.4f}  held out {held_out:.4f}"
    if speed:  # the first step compiles
        line += f"  {speed:8,.0f} tokens/s"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if step == args.steps else "", flush=True)
    elif step % every(args) == 0 or step == 1:
        print(line, flush=True)


def every(args: argparse.Namespace) -> int:
    """The number of steps from one look at the held-out text to the next."""
    return max(1, args.steps // 10)


def train(args: argparse.Namespace) -> Run:
    text = Text()
    sizes = gpt.Sizes(vocabulary=len(text.alphabet), scan=not args.unrolled)
    run = Run(args.layout, sizes, args)
    count = sum(x.size for x in weft.tree.leaves(run.state.params))
    print(f"{count:,} parameters, {args.layout} layout, mesh {dict(run.mesh.shape)}")
    saved = checkpoints.Manager(args.out / f"{args.layout}-checkpoints", max_to_keep=2)
    if args.fresh or (saved.latest_step() or 0) >= args.steps:
        if saved.latest_step() is not None and not args.fresh:
            print(f"{saved.folder} holds a finished run; starting anew")
        saved.clear()
    elif saved.latest_step() is not None:
        run.state = saved.restore(like=run.state)
        print(
            f"going on after step {int(run.state.step)} from {saved.folder} (--fresh starts anew)"
        )
    first = int(run.state.step)
    tokens = args.batch * sizes.length
    held_out = held_out_loss(run, text, args)
    print(f"held-out loss before step {first + 1}: {held_out:.4f} nats a character")
    spent, speed = 0.0, 0.0
    for step in range(first, args.steps):
        begun = time.perf_counter()
        value = run.advance(batch(text.train, args.batch, sizes.length, (0, step)))
        if step > first:  # the first step compiles
            spent += time.perf_counter() - begun
            speed = tokens * (step - first) / spent
        if (step + 1) % every(args) == 0:
            held_out = held_out_loss(run, text, args)
        show(step + 1, args, value, speed, held_out)
        if (step + 1) % every(args) == 0 or step + 1 == args.steps:
            saved.save(step + 1, run.state)
    saved.close()
    print(f"held-out loss {held_out_loss(run, text, args):.4f} nats a character")
    return run


def report(run: Run, args: argparse.Namespace) -> None:
    """The communication of one step: what moves between devices, over which axes, and why."""
    crops = run.put(batch(Text().train, args.batch, run.sizes.length, (0, 0)))
    found = weft.comm(run.step, run.state, crops)
    print(f"\n{found}")
    path = args.out / "report.html"
    found.to_html(path)
    print(f"\nwritten to {path}")


def sample(run: Run, text: Text, count: int = 240) -> None:
    params = weft.device_put(weft.device_get(run.state.params), weft.devices()[0])
    prompt = weft.device_put(text.held_out[: run.sizes.length], weft.devices()[0])
    generate = weft.jit(partial(gpt.generate, run.sizes, count=count))
    ids = generate(params, prompt, key=weft.random.key(1))
    print(f"\n…{text.decode(text.held_out[: run.sizes.length])}▸{text.decode(ids.tolist())}")


def compare(args: argparse.Namespace) -> float:
    """All layouts from the same start on the same batches; returns the greatest difference."""
    text = Text()
    sizes = gpt.Sizes(vocabulary=len(text.alphabet), scan=not args.unrolled)
    runs = [Run(layout, sizes, args) for layout in LAYOUTS]
    worst = 0.0
    for step in range(args.compare):
        crops = batch(text.train, args.batch, sizes.length, (0, step))
        losses = [run.advance(crops) for run in runs]
        worst = max(worst, max(losses) - min(losses))
        if (step + 1) % max(1, args.compare // 10) == 0:
            listing = "  ".join(f"{n} {x:.6f}" for n, x in zip(LAYOUTS, losses, strict=True))
            print(f"step {step + 1:4d}  {listing}", flush=True)
    print(f"greatest difference {worst:.1e}")
    return worst


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="examples.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--layout", choices=LAYOUTS, default="global")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=6e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unrolled", action="store_true", help="a copy of the block per layer")
    parser.add_argument("--fresh", action="store_true", help="do not go on from a saved state")
    parser.add_argument("--compare", type=int, default=0, metavar="STEPS")
    parser.add_argument("--out", type=Path, default=Path("build"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    weft.config.update("num_cpu_devices", 8)
    if args.compare:
        if compare(args) > 1e-4:
            raise SystemExit("the layouts disagree")
        return
    run = train(args)
    if args.layout != "single":
        report(run, args)
    sample(run, Text())


if __name__ == "__main__":
    main()
