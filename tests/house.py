"""The figures of the structure: `make house` prints them, and fails where one is over its budget.

    python -m tests.house            # print, and compare with tests/house_budget.toml
    python -m tests.house --write    # lower the budgets to what is there now

A budget may shrink freely; one that must grow is a changed line of that file, which a reader sees.
What is counted: lines of each room; imports of weft that point up the layers of
tests/test_layering.py, that stand inside functions, and the largest circle of files that import
each other; annotations that are `Any`; whole-line comments; files and functions of weft that the
first call of a jitted function enters, after that of another one.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

from tests.test_layering import PACKAGE, imports_of, upward

BUDGET = Path(__file__).with_name("house_budget.toml")

# Without what tests set, such as eight devices.
PLAIN = {k: os.environ[k] for k in ("HOME", "PATH", "PYTHONPATH") if k in os.environ}

FIRST_CALL = """
import sys, weft, weft.runtime.compile
weft.runtime.compile.COMPILED_LONG = float("inf")  # on every machine
weft.jit(lambda x: x + 1)(weft.numpy.ones(3)).block_until_ready()
f, x, entered = weft.jit(lambda x: x * 2), weft.numpy.ones(4), set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and "/weft/" in code.co_filename:
        entered.add((code.co_filename, code.co_qualname))
sys.setprofile(note)
f(x)
sys.setprofile(None)
print(len({file for file, _ in entered}), len(entered))
"""


def modules() -> dict[str, Path]:
    """Dotted name → file of every module of the package."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("weft", *path.relative_to(PACKAGE).with_suffix("").parts)
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def largest_circle(edges: dict[str, set[str]]) -> int:
    """The size of the largest strongly connected component, by Tarjan's algorithm (1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    largest = 0
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    largest = max(largest, len(stack) - at)
                    del stack[at:]
    return largest


def figures() -> dict[str, float]:
    """Every figure by its name."""
    names = modules()
    rooms: Counter[str] = Counter()
    edges: dict[str, set[str]] = defaultdict(set)
    inside = total = anys = comments = lines = 0
    for name, path in names.items():
        text = path.read_text("utf-8")
        count = text.count("\n")
        parts = name.split(".")
        rooms[parts[1] if (PACKAGE / parts[1 % len(parts)]).is_dir() else "(top)"] += count
        lines += count
        anys += len(re.findall(r":\s*Any\b", text))
        comments += len(re.findall(r"^\s*#", text, re.MULTILINE))
        tree = ast.parse(text)
        for found in imports_of(path, tree):
            if found.target.startswith("weft.") and found.target != name:
                total += 1
                inside += found.deferred
        for_checkers = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in for_checkers:
                continue
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    target = full if full in names else node.module
                    if target in names and target not in (name, "weft"):
                        edges[name].add(target)
    result: dict[str, float] = {f"lines of {room}": n for room, n in sorted(rooms.items())}
    result["lines"] = lines
    result["upward imports"] = len(upward())
    result["largest circle"] = largest_circle(edges)
    result["imports inside functions, %"] = round(100 * inside / total, 1)
    result["Any annotations"] = anys
    result["files of a first call"], result["functions of a first call"] = first_call()
    result["comment lines, %"] = round(100 * comments / lines, 2)
    return result


def first_call() -> tuple[int, int]:
    """How many files and functions of weft a first call enters, in a process of its own."""
    command = [sys.executable, "-c", FIRST_CALL]
    done = subprocess.run(
        command, cwd=PACKAGE.parent, env=PLAIN, capture_output=True, text=True, check=True
    )
    files, functions = map(int, done.stdout.split())
    return files, functions


def over_budget(found: dict[str, float], budget: dict[str, float]) -> list[str]:
    """What is over its budget, or has none."""
    wrong = []
    for name, value in found.items():
        if name.startswith("comment"):
            continue
        if name not in budget:
            wrong.append(f"{name}: {value}, without a budget in {BUDGET.name}")
        elif value > budget[name]:
            wrong.append(f"{name}: {value}, over its budget of {budget[name]}")
    return wrong


def write(found: dict[str, float]) -> None:
    """Lower the budgets to the figures; those that a figure is over stay, new rooms get theirs."""
    budget = tomllib.loads(BUDGET.read_text("utf-8"))
    lines = [
        "# What `make house` allows. A figure may shrink freely; a line here says that one grew."
    ]
    for name, value in found.items():
        if not name.startswith("comment"):
            lines.append(f'"{name}" = {min(value, budget.get(name, value))}')
    BUDGET.write_text("\n".join(lines) + "\n", "utf-8")


def main(words: list[str]) -> int:
    """Prints the figures; 1 where one is over its budget."""
    found = figures()
    if "--write" in words:
        write(found)
    budget = tomllib.loads(BUDGET.read_text("utf-8"))
    for name, value in found.items():
        print(f"{name:32} {value:>10}  of {budget.get(name, '-')}")
    wrong = over_budget(found, budget)
    print("\n".join(wrong), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
