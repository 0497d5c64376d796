# Tests: tests/runtime/test_watchdog.py
"""Who holds up a group of processes: decided from what each process says of itself.

Pure functions over states, so that `weft replay` comes to the same verdict in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

ENTRIES = 40
"""How many of its newest calls a process tells the others."""


COMPILATION = "compilation of "
"""How the name of an entry begins that is no call, but a program's comparison before its first."""


@dataclass(slots=True)
class Calls:
    """The calls of programs over one set of processes, by one of them.

    count: how many there were. recent: the newest, as (sequence number, name, "file:line").
    """

    count: int = 0
    recent: list[tuple[int, str, str]] = field(default_factory=list)

    def at(self, sequence: int) -> tuple[int, str, str] | None:
        """Return the call with this sequence number, if it is a recent one."""
        return next((call for call in self.recent if call[0] == sequence), None)


@dataclass(slots=True)
class State:
    """A process as it describes itself.

    line: where its main thread is. waits: whether that is in weft. still: seconds since the last
    call. ended: whether it has come to its end. calls: by the set of processes, as "0,1,2".
    """

    rank: int
    line: str = "unknown"
    waits: bool = False
    still: float = 0.0
    ended: bool = False
    calls: dict[str, Calls] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the state as values of JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> State:
        """Make a state of what `to_json` gave."""
        calls = {
            group: Calls(c["count"], [(s, n, w) for s, n, w in c["recent"]])
            for group, c in content["calls"].items()
        }
        return cls(**{**content, "calls": calls})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The processes at fault, how, and the sentence that says so."""

    kind: str
    ranks: tuple[int, ...]
    text: str


def find_difference(states: Mapping[int, State], complete: bool) -> Verdict | None:
    """Find the first call that processes make differently; the fewer are at fault.

    complete: decide only where every process of the set has come to the call.
    """
    for group, members in _groups(states).items():
        common = sorted({call[0] for s in members for call in s.calls[group].recent})
        for sequence in common:
            made = {
                s.rank: call for s in members if (call := s.calls[group].at(sequence)) is not None
            }
            names: dict[str, list[int]] = {}
            for rank, call in made.items():
                names.setdefault(call[1], []).append(rank)
            if len(names) < 2:
                continue
            if all(name.startswith(COMPILATION) for name in names):
                break  # the processes find out themselves, with the equations that differ
            if complete and len(made) < len(group.split(",")):
                break
            # The larger side is right; of equal ones that with the first process.
            sides = sorted(names.values(), key=lambda ranks: (-len(ranks), min(ranks)))
            wrong = sorted(rank for side in sides[1:] for rank in side)
            parts = "; ".join(
                f"process {_list(side)} called {made[side[0]][1]} at {made[side[0]][2]}"
                for side in (*sides[1:], sides[0])
            )
            text = f"call {sequence} over processes {group} differs: {parts}"
            return Verdict("another call", tuple(wrong), text)
    return None


def find_late(states: Mapping[int, State], timeout: float) -> Verdict | None:
    """Find the process for which others have waited longer than `timeout` seconds."""
    for group, members in _groups(states).items():
        most = max(s.calls[group].count for s in members)
        least = min(s.calls[group].count for s in members)
        waiting = [
            s
            for s in members
            if s.calls[group].count > least and (s.waits or s.ended) and s.still > timeout
        ]
        if most == least or not waiting:
            continue
        late = [s for s in members if s.calls[group].count == least]
        other = _compiles_another(group, late, waiting)
        if other is not None:
            return other
        texts = [f"{_where(s)}, after {least} calls" for s in late]
        text = (
            f"process {_list([s.rank for s in late])} has not come to "
            f"{_call(waiting[0], group, least + 1)}, for which process "
            f"{_list([s.rank for s in waiting])} waits; {'; '.join(texts)}"
        )
        return Verdict("late", tuple(s.rank for s in late), text)
    return None


def _compiles_another(group: str, late: list[State], waiting: list[State]) -> Verdict | None:
    """Name the few that compile a new program in a call that the many run already."""
    last = {(call[0], call[1]) for s in late for call in s.calls[group].recent[-1:]}
    heads = [s.calls[group].recent[-2:] for s in waiting]
    if len(waiting) >= len(late) or len(last) != 1 or not all(s.waits for s in late):
        return None
    if not all(len(h) == 2 and (h[0][0], h[0][1]) in last for h in heads):
        return None
    if not all(h[1][1].startswith(COMPILATION) for h in heads):
        return None
    ranks = tuple(s.rank for s in waiting)
    call = heads[0][0]
    text = (
        f"process {_list(ranks)} compiles another program in call {call[0]} over processes {group} "
        f"({call[1]} at {call[2]}), which process {_list([s.rank for s in late])} runs: its "
        "arguments have other shapes, dtypes, shardings or static values there"
    )
    return Verdict("another program", ranks, text)


def find_gone(states: Mapping[int, State], gone: Mapping[int, str]) -> Verdict | None:
    """Name processes that do not answer. gone: why each counts as such."""
    if not gone:
        return None
    parts = []
    for rank, why in sorted(gone.items()):
        last = f"; {_where(states[rank])} when it last answered" if rank in states else ""
        parts.append(f"process {rank} {why}{last}")
    waits = [
        f"process {s.rank} is in {_call(s, group, calls.count)}"
        for s in states.values()
        if s.rank not in gone and s.waits
        for group, calls in s.calls.items()
        if calls.count
    ]
    return Verdict("gone", tuple(sorted(gone)), ". ".join(parts + waits[:4]))


def _groups(states: Mapping[int, State]) -> dict[str, list[State]]:
    """Return the states of each set of processes, with empty calls for those that made none."""
    groups: dict[str, list[State]] = {}
    for group in {g for s in states.values() for g in s.calls}:
        ranks = [int(r) for r in group.split(",")]
        members = [states[r] for r in ranks if r in states]
        for state in members:
            state.calls.setdefault(group, Calls())
        groups[group] = members
    return groups


def _where(state: State) -> str:
    if state.ended:
        return f"process {state.rank} has come to its end"
    inside = "in weft, called at" if state.waits else "in Python code at"
    return f"process {state.rank} is {inside} {state.line}"


def _call(state: State, group: str, sequence: int) -> str:
    call = state.calls[group].at(sequence)
    name = f" ({call[1]} at {call[2]})" if call else ""
    return f"call {sequence} over processes {group}{name}"


def _list(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
