"""One library's side in a process of its own, `python -m benchmarks.child weft`, told what to do.

Each line of standard input asks for something, and a line of JSON answers it: the name of a case
sets that case up and warms it up; an empty line takes one sample of it.
"""

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.case import CASES, Case, Timed
from benchmarks.groups import load_groups

SAMPLE_SECONDS = 0.02  # a call is repeated until the clock's grain no longer matters
WARM_SECONDS = 0.3  # threads' heaps grow for hundreds of calls: page faults of the first only
CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}
NOTHING = object()


class Subject:
    """A case that is set up: `answer` says so, `sample()` measures it once."""

    def __init__(self, case: Case, xx: Any) -> None:
        subject = case.setup(xx)
        if case.clock == "value":
            self.answer: dict[str, Any] = {"value": float(subject)}
            return
        timed = subject if isinstance(subject, Timed) else Timed(subject)
        self.clock = CLOCKS[case.clock]
        self.run: Callable = timed.run
        self.prepare = timed.prepare
        self.calls = 1
        began = time.perf_counter()
        self.sample()  # warms up
        if not self.prepare:
            self._choose_calls()
            while time.perf_counter() - began < WARM_SECONDS:
                self.sample()
            began = time.perf_counter()
            self.sample()
        self.answer = {"seconds": time.perf_counter() - began}
        if timed.equations:
            self.answer["equations"] = timed.equations

    def _choose_calls(self) -> None:
        while (elapsed := self._time(self.calls)) < SAMPLE_SECONDS:
            wanted = int(self.calls * SAMPLE_SECONDS / max(elapsed, 1e-5))
            self.calls = max(2 * self.calls, wanted)

    def _time(self, calls: int, argument: Any = NOTHING) -> float:
        run, clock = self.run, self.clock
        if argument is not NOTHING:
            start = clock()
            run(argument)
            return clock() - start
        start = clock()
        for _ in range(calls):
            run()
        return clock() - start

    def sample(self) -> float:
        """Seconds a call. The caches are the other library's at first: a tenth goes untimed."""
        if self.prepare:
            return self._time(1, self.prepare())
        if self.calls > 1:
            self._time(1 + self.calls // 10)
        return self._time(self.calls) / self.calls


def describe(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {said[0]} ({where.name}:{where.lineno})"


def main(library: str) -> None:
    load_groups()
    xx = importlib.import_module(library)
    subject: Subject | None = None
    for line in sys.stdin:
        name = line.strip()
        try:
            if name:
                subject = None  # frees the memory of the case before
                subject = Subject(CASES[name], xx)
                answer = subject.answer
            else:
                answer = {"value": subject.sample()}
        except Exception as error:
            answer = {"error": describe(error)}
        print(json.dumps({"answer": answer}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
