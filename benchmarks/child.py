"""One library's measurements in a process of its own: `python -m benchmarks.child weft NAME...`.

Prints a line of JSON for each case: its name with a value in seconds or bytes, or with an error.
"""

import importlib
import json
import statistics
import sys
import time
import traceback
from typing import Any

from benchmarks.case import CASES, Case, Timed
from benchmarks.groups import load_groups

BATCH_SECONDS = 0.01  # a batch of calls is repeated until the clock's grain no longer matters
BATCHES = 7
BUDGET_SECONDS = 2.0  # of timed calls for one case in one process
CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}


def measure(case: Case, xx: Any) -> dict[str, Any]:
    """Set the case up, warm it up and return its median over several batches."""
    subject = case.setup(xx)
    if case.clock == "value":
        return {"value": float(subject)}
    timed = subject if isinstance(subject, Timed) else Timed(subject)
    clock = CLOCKS[case.clock]
    seconds = time_prepared(timed, clock) if timed.prepare else time_calls(timed.run, clock)
    result = {"value": seconds}
    if timed.equations:
        result["equations"] = timed.equations
    return result


def time_calls(run, clock) -> float:
    """Seconds a call: median over batches, each long enough for the clock."""
    run()
    calls, elapsed = 1, 0.0
    while True:
        elapsed = time_batch(run, calls, clock)
        if elapsed >= BATCH_SECONDS:
            break
        calls = max(2 * calls, int(calls * BATCH_SECONDS / max(elapsed, 1e-5)))
    batches = max(3, min(BATCHES, int(BUDGET_SECONDS / elapsed)))
    return statistics.median(time_batch(run, calls, clock) / calls for _ in range(batches))


def time_batch(run, calls: int, clock) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return clock() - start


def time_prepared(timed: Timed, clock) -> float:
    """Seconds a call where each call consumes a fresh, untimed argument."""
    timed.run(timed.prepare())
    samples: list[float] = []
    while len(samples) < 3 or (len(samples) < BATCHES and sum(samples) < BUDGET_SECONDS):
        argument = timed.prepare()
        start = clock()
        timed.run(argument)
        samples.append(clock() - start)
    return statistics.median(samples)


def main(library: str, names: list[str]) -> None:
    load_groups()
    xx = importlib.import_module(library)
    for name in names:
        try:
            result = measure(CASES[name], xx)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = str(error).strip().splitlines() or [""]
            text = f"{type(error).__name__}: {said[0]}"
            result = {"error": f"{text} ({where.name}:{where.lineno})"}
        print(json.dumps({"name": name, **result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
