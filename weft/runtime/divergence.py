"""Programs over several processes: every process must compile the same ones, in the same order.

Processes that trace different programs would communicate past each other: XLA computes garbage, or
waits for ever. So each process publishes a digest of a program before compiling it, and compares
those of all. The price is one exchange for each new program, none for calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from weft.core.errors import DistributedError
from weft.runtime import backend

WAIT_SECONDS = 300
"""How long a process waits for the others to come to the same program."""

# How many programs there were over one set of processes: counted alike on all of them, so that
# `clear_caches` must not empty it.
_count: dict[tuple[int, ...], int] = {}


def check_same_program(name: str, lines: Sequence[str], devices: Sequence[Any]) -> None:
    """Raise DistributedError on all processes where one compiles another program.

    lines: the program with what it is compiled for, a line for each equation, ending in the
    source line behind `  # `. devices: those it runs on, of several processes.
    """
    client = backend.distributed_state["client"]
    processes = tuple(sorted({d.process_index for d in devices}))
    me = backend.process_index()
    if client is None or len(processes) < 2 or me not in processes:
        return
    number = _count[processes] = _count.get(processes, 0) + 1
    # Where a line of the program came from may differ; what it computes may not.
    plain = "\n".join(line.split("  # ")[0] for line in lines)
    digest = hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
    group = "-".join(map(str, processes)) if len(processes) < 64 else f"all-{len(processes)}"
    folder = f"weft/program/{group}/{number}/"
    client.key_value_set(f"{folder}{me:06}", f"{digest} {name}")
    _meet(client, folder, processes, name, number)
    others = _entries(client, folder)
    if all(value.split(" ", 1)[0] == digest for value in others.values()):
        if number > 1 and me == processes[0]:
            client.key_value_delete(f"weft/program/{group}/{number - 1}/")
        return
    text_folder = f"weft/program-text/{group}/{number}/"
    client.key_value_set(f"{text_folder}{me:06}", "\n".join(lines))
    _meet(client, text_folder, processes, name, number)
    texts = _entries(client, text_folder)
    other = next(r for r, value in others.items() if value.split(" ", 1)[0] != digest)
    raise DistributedError(_describe(me, lines, other, texts[other].split("\n"), others))


def _entries(client: Any, folder: str) -> dict[int, str]:
    """Return the processes' entries in a folder of the key-value store, by their number."""
    return {int(key.rsplit("/", 1)[1]): value for key, value in client.key_value_dir_get(folder)}


def _meet(client: Any, folder: str, processes: tuple[int, ...], name: str, number: int) -> None:
    """Wait until every process has stored its entry of the folder."""
    try:
        client.wait_at_barrier(f"{folder}meet", WAIT_SECONDS * 1000, list(processes))
    except Exception as error:
        absent = sorted(set(processes) - set(_entries(client, folder)))
        who = f"process {', '.join(map(str, absent))} has" if absent else "not all have"
        raise DistributedError(
            f"{name}, program {number} over processes {', '.join(map(str, processes))}: {who} not "
            f"come to it in {WAIT_SECONDS} s. Every process must call the same functions in the "
            "same order; look for a branch on weft.process_index(), or for a process that ended or "
            f"hangs ({str(error).splitlines()[0][:200]})"
        ) from None


def _describe(
    me: int, lines: Sequence[str], other: int, theirs: Sequence[str], digests: dict[int, str]
) -> str:
    """The ranks that differ, and the first line that does, on both sides with its source."""
    groups: dict[str, list[int]] = {}
    for rank, value in digests.items():
        groups.setdefault(value.split(" ", 1)[0], []).append(rank)
    ranks = "; ".join(
        f"{digests[g[0]].split(' ', 1)[1]} on process {', '.join(map(str, g))}"
        for g in groups.values()
    )
    pairs = zip_longest(lines, theirs, fillvalue="(no more equations)")
    mine, their = next(
        (a, b) for a, b in pairs if a.split("  # ")[0].strip() != b.split("  # ")[0].strip()
    )
    return (
        f"processes compile different programs over all their devices ({ranks}). The first "
        f"difference is\n  process {me}: {mine.strip()}\n  process {other}: {their.strip()}\n"
        "Every process must trace the same program: a value that differs between processes, such "
        "as weft.process_index(), os.environ or a random number, must not decide what is computed"
    )
