"""Writes the tables of docs/scale.md: a training step by the cost model, and start-up as measured.

    python -m benchmarks.scale

The step is that of `examples.plan` (GPT of 1.3 billion parameters, a sequence for each device,
split over data only), lowered for a machine that is not there. Start-up is measured where it can
be: the meeting of processes, a thread's connection for each; the watchdog by what it sends.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import weft
from examples import plan
from weft.partition.cost import hardware
from weft.runtime import rendezvous
from weft.runtime.verdicts import ENTRIES, Calls, State
from weft.runtime.watchdog import BEAT, neighbours

DEVICES = (8, 64, 512, 4096, 65536)
FLOPS = 6 * 1.3e9 * plan.SIZES.length
"""Of a sequence: six for each parameter and token."""
UTILIZATION = 0.4
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python -m benchmarks.scale -->", "<!-- end -->"


def step_seconds(devices: int) -> tuple[float, float]:
    """Return a step's seconds of computing and of communication."""
    state, crops = plan.arguments(devices, 1, devices)
    split = weft.tree.map(lambda x: x.sharding, state)
    jitted = weft.jit(plan.step, donate_argnums=0, out_shardings=(split, None))
    report = weft.comm(jitted, state, crops, hardware="h100")
    return FLOPS / (hardware("h100").peak_flops * UTILIZATION), report.seconds


def meeting_seconds(count: int) -> float:
    """Measure how long process 0 takes to meet `count` - 1 others that are there already."""
    with rendezvous.listen("127.0.0.1:0") as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def come(number: int) -> None:
            host, _, port = address.partition(":")
            with socket.create_connection((host, int(port)), timeout=120) as connection:
                rendezvous.introduce(connection, number, count, time.monotonic() + 120)

        others = [threading.Thread(target=come, args=(i,)) for i in range(1, count)]
        begin = time.perf_counter()
        for other in others:
            other.start()
        members = rendezvous.gather(listener, count, 120)
        rendezvous.let_go(members)
        seconds = time.perf_counter() - begin
        for other in others:
            other.join()
        for member in members.values():
            member.close()
    return seconds


def message_bytes() -> int:
    """Return the size of a watchdog's message with a full log."""
    recent = [(i, "train_step (program 0123abcd)", "project/train.py:123") for i in range(ENTRIES)]
    calls = {"0,1,2,3": Calls(10**6, recent)}
    return len(json.dumps(State(0, "project/train.py:123", calls=calls).to_json()))


def tables() -> str:
    """Return the tables as Markdown."""
    lines = ["| devices | computing | communication | step | share of the time computing |"]
    lines.append("|---|---|---|---|---|")
    for devices in DEVICES:
        computing, sending = step_seconds(devices)
        step = computing + sending
        lines.append(
            f"| {devices:,} | {computing:.3g} s | {sending:.3g} s | {step:.3g} s "
            f"| {computing / step:.0%} |"
        )
    lines += ["", "| processes | meeting, measured | watchdog: messages/s of each | bytes/s |"]
    lines.append("|---|---|---|---|")
    size = message_bytes()
    for count in (4, 64, 200, 512, 8192):
        met = f"{meeting_seconds(count):.2g} s" if count <= 200 else "not measured"
        rate = len(neighbours(0, count)) / BEAT
        lines.append(f"| {count:,} | {met} | {rate:.0f} | {rate * size / 1e6:.2g} MB |")
    return "\n".join(lines)


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}")


if __name__ == "__main__":
    main()
