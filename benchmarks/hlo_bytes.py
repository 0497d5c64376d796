# Tests: tests/partition/test_collect.py
"""Counts the bytes that an optimized HLO program sends, from its text."""

from __future__ import annotations

import math
import re
from collections import Counter

from weft.partition.collect import bytes_sent

_OPS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
_BITS = {"pred": 8, "s4": 4, "u4": 4, "bf16": 16, "c64": 64, "c128": 128}


def count_bytes(text: str) -> Counter[str]:
    """Bytes sent per device by kind of collective, loops counted, for an HLO module's text.

    A loop whose trip count XLA does not know counts once.
    """
    bodies: dict[str, list[str]] = {}
    entry = current = ""
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) (?:\(.*)?\{$", line)
        if head and not line.startswith(" "):
            current = head[2]
            bodies[current] = []
            if head[1]:
                entry = current
        elif current:
            bodies[current].append(line)
    memo: dict[str, Counter[str]] = {}

    def total(name: str) -> Counter[str]:
        if name in memo:
            return memo[name]
        out: Counter[str] = Counter()
        memo[name] = out
        for line in bodies.get(name, ()):
            match = re.search(rf" = (.*?) ({_OPS})(-start)?\(", line)
            if match:
                kind = match[2].replace("-", "_")
                result = _arriving(kind, match[1]) if match[3] else match[1]
                out[kind] += _sent(kind, result, line)
                continue
            if re.search(r" [\w-]+-(?:update|done)\(", line):  # counted where it starts
                continue
            if " while(" in line:
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                for callee in re.findall(r"(?:body|condition)=%?([\w.\-]+)", line):
                    for kind, count in total(callee).items():
                        out[kind] += count * (int(trips[1]) if trips else 1)
            elif " conditional(" in line:
                names = re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", line)
                listed = re.search(r"branch_computations=\{([^}]*)\}", line)
                if listed:
                    names += [n.strip().lstrip("%") for n in listed[1].split(",")]
                out.update(max((total(n) for n in names), key=lambda c: sum(c.values())))
            else:
                for callee in re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", line):
                    out.update(total(callee))
        return out

    return total(entry)


def _arriving(kind: str, result: str) -> str:
    """The results in what a collective's start gives: behind its operands, if it gives these.

    >>> _arriving("reduce_scatter", "((f32[8,4]{1,0}), f32[1,4]{1,0}, u32[])")
    ' f32[1,4]{1,0}'
    """
    if not result.startswith("((") and kind not in ("all_gather", "collective_permute"):
        return result
    parts, depth = [""], 0
    for c in result[1:-1]:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts[1]


def _sent(kind: str, result: str, line: str) -> int:
    shapes = re.findall(r"(\w+)\[([\d,]*)\]", result)
    sizes = [_bits(t) * math.prod(int(d) for d in dims.split(",") if d) // 8 for t, dims in shapes]
    size, n = sum(sizes), _group_size(line)
    if kind == "collective_permute":
        pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
        moves = re.findall(r"(\d+),(\d+)", pairs[1]) if pairs else []
        return size if any(a != b for a, b in moves) else 0
    if kind == "all_gather":
        size //= max(n, 1)
    elif kind == "reduce_scatter":
        size *= n
    return bytes_sent(kind, size, n)


def _bits(element: str) -> int:
    if element in _BITS:
        return _BITS[element]
    digits = re.search(r"\d+", element)
    return int(digits[0]) if digits else 0


def _group_size(line: str) -> int:
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line)
    if iota:
        return int(iota[2])
    mesh = re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", line)
    if mesh:
        sizes = {k: int(v) for k, v in re.findall(r"'([^']+)'=(\d+)", mesh[1])}
        axes = re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", mesh[2])
        return math.prod(int(part) if part else sizes[name] for name, _, part in axes)
    explicit = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    return len(explicit[1].split(",")) if explicit else 1
