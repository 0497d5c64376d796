# Tests: tests/runtime/test_watchdog.py
"""`weft replay DUMP`: goes through the calls of a group that failed, in one process.

Each process's calls are made again in their order, without data: a call ends when every process of
its set has made it, as a collective does. The replay stops where they cannot go on, and says why.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.runtime.verdicts import State, Verdict, find_difference, find_late


class ReplayError(ValueError):
    """A file is no dump of a watchdog."""


def read_dump(path: str | Path) -> dict[str, Any]:
    """Read a dump.

    Raises:
      ReplayError: the file is not there, or something else.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        if content["format"] != "weft-hang" or content["version"] != 1:
            raise ValueError(f"its format is {content['format']!r}, version {content['version']}")
        content["states"] = {s["rank"]: State.from_json(s) for s in content["states"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"{path} is no dump of a group of processes ({error})") from None
    return content


def replay(states: Mapping[int, State]) -> tuple[list[str], Verdict | None]:
    """Make the processes' calls again until none can go on.

    Returns:
      What happened, a line for each call that all made, and the processes at fault.
    """
    steps: list[str] = []
    groups = sorted({g for s in states.values() for g in s.calls})
    queues = {
        (rank, group): deque(state.calls[group].recent)
        for rank, state in states.items()
        for group in groups
        if group in state.calls
    }
    for group in groups:
        ranks = [int(r) for r in group.split(",") if int(r) in states]
        lines = {r: queues.get((r, group), deque()) for r in ranks}
        # Of long runs, each process knows its newest calls only: begin where all know them.
        begin = max((q[0][0] for q in lines.values() if q), default=1)
        for queue in lines.values():
            while queue and queue[0][0] < begin:
                queue.popleft()
        while all(lines.values()) and len({q[0][1] for q in lines.values()}) == 1:
            heads = [q.popleft() for q in lines.values()]
            sequence, name, where = heads[0]
            steps.append(f"{sequence:>6}  {name}  {where}  (process {group})")
    difference = find_difference(states, complete=False)
    if difference is not None:
        return steps, difference
    # Nothing moves any more, so whoever is behind the others holds them up.
    return steps, find_late(states, -1.0)


def describe(path: str | Path) -> tuple[str, bool]:
    """Replay a dump; return the text to print, and whether it fits the verdict of the run."""
    dump = read_dump(path)
    steps, outcome = replay(dump["states"])
    told = dump["verdict"]
    lines = [f"{dump['count']} processes; what process {dump['rank']} knew:"]
    lines += steps[-20:] or ["  (no call was made by all)"]
    if outcome is not None:
        lines.append(f"then: {outcome.text}")
    else:
        lines.append("then: every process has made the same calls")
    lines.append(f"the run: {told['text']}")
    # A death is known from silence, not from calls, of which the newest may not have been told.
    same = told["kind"] in ("gone", "failed") or (
        outcome is not None and tuple(told["ranks"]) == outcome.ranks
    )
    return "\n".join(lines), same
