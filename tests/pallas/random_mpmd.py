"""Random mpmd_map programs, correct or broken by construction, and what they compute in NumPy.

A program is a sequence of phases. Each says what the cores of each mesh do in it, and what it does
to the cores' memories in NumPy; signals and waits of a phase match, and phases do not share
semaphores unless a barrier of all cores lies between. A phase that is `broken` leaves out one part.

    python -m tests.pallas.random_mpmd 0 200     # seeds 0 to 199, with every executor
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

import numpy as np

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax

TOP = 15  # values are integers from 0 to TOP, exact in every dtype
DTYPES = ["float32", "int32", "int8", "uint8", "int16", "float16", "bfloat16"]
ROWS = 3


def gap(xp, x, y):
    return xp.maximum(x, y) - xp.minimum(x, y)


FUNCTIONS = {
    "add": lambda xp, x, y: xp.minimum(x + y, TOP),
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "product": lambda xp, x, y: xp.minimum(xp.minimum(x, 8) * y, TOP),
    "gap": gap,
    "reverse": lambda xp, x, y: gap(xp, x[::-1], y),
    "turn": lambda xp, x, y: xp.concatenate([x[1:], y[:1]]),
    "choose": lambda xp, x, y: xp.where(x > y, x - y, y),
    "total": lambda xp, x, y: xp.minimum(x[:8].sum(dtype=x.dtype) + y * 0, TOP),
    "largest": lambda xp, x, y: gap(xp, x.max(), y),
}


@dataclass(frozen=True)
class Step:
    """mine[to] = function(mine[a], mine[b]), on the first `mask` elements."""

    function: str
    a: int
    b: int
    to: int
    mask: int | None = None

    def apply(self, xp, x, y):
        return FUNCTIONS[self.function](xp, x, y).astype(x.dtype)


@dataclass
class Core:
    """What a mesh's function sees: its number, the core's, and the refs by name."""

    program: Program
    mesh: int
    i: object
    refs: dict

    def __getattr__(self, name):
        return self.refs[name]

    @property
    def mine(self):
        return self.refs[f"mine{self.mesh}"]

    def only(self, core, do):
        """`do()` on one core, or on all."""
        if core is None or self.program.sizes[self.mesh] == 1:
            do()
        else:
            pl.when(self.i == core)(do)


@dataclass(frozen=True)
class Work:
    """The cores of a mesh, or one, compute on memory of their own; loops may depend on the core."""

    mesh: int
    steps: tuple[Step, ...]
    loop: str  # "none", "fixed", "traced", "while"
    count: int
    core: int | None

    def emit(self, c):
        if c.mesh != self.mesh:
            return

        def once():
            for s in self.steps:
                value = s.apply(jnp, c.mine[s.a], c.mine[s.b])
                if s.mask is None:
                    c.mine[s.to] = value
                else:
                    mask = lax.iota(jnp.int32, c.program.width) < s.mask
                    pl.store(c.mine, (s.to, slice(None)), value, mask=mask)

        def all_of_it():
            def body(_, carry):
                once()
                return carry

            if self.loop == "none":
                once()
            elif self.loop == "fixed":
                lax.fori_loop(0, self.count, body, 0)
            elif self.loop == "traced":
                lax.fori_loop(0, (c.i + self.count) % 3, body, 0)
            else:
                lax.while_loop(lambda n: n < self.count, lambda n: body(0, n + 1), jnp.int32(0))

        c.only(self.core, all_of_it)

    def model(self, state):
        for i, mine in enumerate(state[self.mesh]):
            if self.core not in (None, i):
                continue
            times = {"none": 1, "traced": (i + self.count) % 3}.get(self.loop, self.count)
            for _ in range(times):
                for s in self.steps:
                    value = s.apply(np, mine[s.a], mine[s.b])
                    mine[s.to][: s.mask] = value[: s.mask]


@dataclass(frozen=True)
class Message:
    """Cores of one mesh leave rows in shared memory and signal cores of another or the same.

    pattern: "one" to "one", "fan out" to all, "fan in" from all, "pairs" i → i + shift. The
    message is units of the semaphore, sent by as many signals as `parts` says.
    """

    source: int
    target: int
    pattern: str
    sender: int
    receiver: int
    shift: int
    a: int
    to: int
    parts: tuple[int, ...]
    slot: int
    sem: int
    named: bool
    broken: str = ""

    def edges(self, program):
        n, m = program.sizes[self.source], program.sizes[self.target]
        if self.pattern == "one":
            return [(self.sender, self.receiver)]
        if self.pattern == "fan out":
            return [(self.sender, j) for j in range(m)]
        if self.pattern == "fan in":
            return [(i, self.receiver) for i in range(n)]
        return [(i, (i + self.shift) % n) for i in range(n)]

    def emit(self, c):
        p = c.program
        sem = c.refs[f"sem{self.target}"].at[self.sem]
        n, m = p.sizes[self.source], p.sizes[self.target]

        def signal(j):
            core = p.coordinates(self.target, j) if self.named else None
            if self.broken == "far core":
                core = {a: p.shapes[self.target][a] + k for a, k in core.items()}
            for inc in self.parts[1:] if self.broken == "no signal" else self.parts:
                pl.semaphore_signal(sem, inc, core_index=core)
            if self.broken == "two signals":
                pl.semaphore_signal(sem, 1, core_index=core)

        def send():
            at = c.i + c.board.shape[1] if self.broken == "out of bounds" else c.i
            c.board[self.slot, at] = c.mine[self.a]
            if self.pattern == "fan out":
                for j in range(m):
                    signal(j)
            elif self.pattern == "pairs":
                signal((c.i + self.shift) % n)
            else:
                signal(self.receiver)

        def receive():
            units = sum(self.parts) * (n if self.pattern == "fan in" else 1)
            if self.broken != "no wait":
                pl.semaphore_wait(sem, units)
            if self.pattern == "fan in":
                for k in range(n):
                    c.mine[self.to] = gap(jnp, c.mine[self.to], c.board[self.slot, k])
            elif self.pattern == "pairs":
                c.mine[self.to] = c.board[self.slot, (c.i - self.shift + n) % n]
            else:
                c.mine[self.to] = c.board[self.slot, self.sender]
            if self.broken == "no wait":
                pl.semaphore_wait(sem, units)

        if c.mesh == self.source:
            c.only(self.sender if self.pattern in ("one", "fan out") else None, send)
        if c.mesh == self.target:
            c.only(self.receiver if self.pattern in ("one", "fan in") else None, receive)

    def model(self, state):
        board = [mine[self.a].copy() for mine in state[self.source]]
        for i, j in self.edges_of(state):
            mine = state[self.target][j]
            mine[self.to] = (
                gap(np, mine[self.to], board[i]) if self.pattern == "fan in" else board[i]
            )

    def edges_of(self, state):
        return self.edges(_Sizes([len(s) for s in state]))


@dataclass(frozen=True)
class _Sizes:
    sizes: list[int]


@dataclass(frozen=True)
class Copy:
    """Each core of a mesh copies a row into a neighbour's memory, or to and from shared memory."""

    mesh: int
    shift: int | None  # None: into shared memory, and the core itself waits
    a: int
    to: int
    slot: int
    sem: int
    strided: bool
    broken: str = ""

    def emit(self, c):
        if c.mesh != self.mesh:
            return
        p, n = c.program, c.program.sizes[self.mesh]
        out, sem = c.refs[f"out{self.mesh}"], c.refs[f"dma{self.mesh}"].at[self.sem]
        out[self.slot] = c.mine[self.a]
        part = slice(None, None, 2) if self.strided else slice(None)
        if self.shift is None:
            goal, core = c.board.at[self.slot, c.i, part], None
        else:
            goal = c.refs[f"in{self.mesh}"].at[self.slot, part]
            core = p.coordinates(self.mesh, (c.i + self.shift) % n)
        copy = pl.async_copy(out.at[self.slot, part], goal, sem, core_index=core).start()
        if self.broken == "source changed":
            out[self.slot] = c.mine[self.to]
        if self.broken != "no wait":
            copy.wait()
        if self.shift is None:
            c.mine[self.to, part] = c.board[self.slot, c.i, part]
        else:
            c.mine[self.to, part] = c.refs[f"in{self.mesh}"][self.slot, part]
        if self.broken == "no wait":
            copy.wait()

    def model(self, state):
        cores = state[self.mesh]
        rows = [mine[self.a].copy() for mine in cores]
        part = slice(None, None, 2) if self.strided else slice(None)
        for i, mine in enumerate(cores):
            mine[self.to, part] = rows[(i - (self.shift or 0)) % len(cores)][part]


@dataclass(frozen=True)
class Meeting:
    """Cores of some meshes write a row each, meet at a barrier, and read another's row."""

    meshes: tuple[int, ...]
    shift: int
    a: int
    to: int
    slot: int
    barrier: int
    broken: str = ""

    def emit(self, c):
        if c.mesh not in self.meshes:
            return
        n = sum(c.program.sizes[m] for m in self.meshes)
        first = sum(c.program.sizes[m] for m in self.meshes if m < c.mesh)
        c.board[self.slot, first + c.i] = c.mine[self.a]
        meshes = [c.program.meshes[m] for m in self.meshes]

        def meet():
            pl.core_barrier(c.barriers.at[self.barrier], meshes=meshes)

        if not self.broken or (self.broken == "one stays away" and c.mesh != self.meshes[0]):
            meet()
        c.mine[self.to] = c.board[self.slot, (first + c.i + self.shift) % n]

    def model(self, state):
        cores = [mine for m in self.meshes for mine in state[m]]
        rows = [mine[self.a].copy() for mine in cores]
        for i, mine in enumerate(cores):
            mine[self.to] = rows[(i + self.shift) % len(cores)]


@dataclass(frozen=True)
class Stream:
    """One core sends several rows to another through buffers, once they are free."""

    source: int
    target: int
    sender: int
    receiver: int
    buffers: int
    count: int
    a: int
    to: int
    slot: int
    sem: int
    broken: str = ""

    def emit(self, c):
        p, b = c.program, self.buffers
        full = c.refs[f"sem{self.target}"].at[pl.ds(self.sem, b)]
        free = c.refs[f"sem{self.source}"].at[pl.ds(self.sem, b)]
        to_target = p.coordinates(self.target, self.receiver)
        to_source = p.coordinates(self.source, self.sender)

        def send():
            def body(k, carry):
                @pl.when(k >= b)
                def _():
                    if self.broken != "no wait":
                        pl.semaphore_wait(free.at[k % b])

                c.board[self.slot, k % b] = FUNCTIONS["add"](
                    jnp, c.mine[self.a], (k % 4).astype(p.dtype)
                ).astype(p.dtype)
                pl.semaphore_signal(full.at[k % b], core_index=to_target)
                return carry

            lax.fori_loop(0, self.count, body, 0)
            if self.broken == "no wait":
                for k in range(self.count - b):
                    pl.semaphore_wait(free.at[k % b])

        def receive():
            def body(k, carry):
                pl.semaphore_wait(full.at[k % b])
                c.mine[self.to] = gap(jnp, c.mine[self.to], c.board[self.slot, k % b])

                @pl.when(k < self.count - b)
                def _():
                    if self.broken != "no signal":
                        pl.semaphore_signal(free.at[k % b], core_index=to_source)

                return carry

            lax.fori_loop(0, self.count, body, 0)

        if c.mesh == self.source:
            c.only(self.sender, send)
        if c.mesh == self.target:
            c.only(self.receiver, receive)

    def model(self, state):
        row = state[self.source][self.sender][self.a].copy()
        mine = state[self.target][self.receiver]
        for k in range(self.count):
            mine[self.to] = gap(np, mine[self.to], np.minimum(row + k % 4, TOP))


@dataclass(frozen=True)
class Tally:
    """Every core of every mesh adds to a few counters; after a barrier they read one."""

    slot: int
    barrier: int
    to: int
    op: str
    broken: str = ""

    def emit(self, c):
        place = c.i % 2
        value = (c.i * 3 + c.mesh) % 7 + 1
        if self.broken == "not atomic":
            c.counts[self.slot, place] = c.counts[self.slot, place] + value
        else:
            getattr(pl, f"atomic_{self.op}")(c.counts, (self.slot, place), value)
        pl.core_barrier(c.barriers.at[self.barrier])
        got = c.counts[self.slot, 0] % (TOP + 1)
        c.mine[self.to] = jnp.full(c.program.width, got.astype(c.program.dtype))

    def model(self, state):
        values = [(i * 3 + m) % 7 + 1 for m, s in enumerate(state) for i in range(0, len(s), 2)]
        reduce = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor, "or": np.bitwise_or}
        got = reduce[self.op].reduce(values)
        for cores in state:
            for mine in cores:
                mine[self.to] = got % (TOP + 1)


@dataclass(frozen=True)
class Gate:
    """All cores wait for a shared semaphore without taking it; at the end one takes it."""

    sem: int
    barrier: int
    broken: str = ""

    def emit(self, c):
        def first(do):
            if c.mesh == 0:
                c.only(0, do)

        if self.broken != "no signal":
            first(lambda: pl.semaphore_signal(c.gates.at[self.sem], 2))
        pl.semaphore_wait(c.gates.at[self.sem], 2, decrement=False)
        pl.core_barrier(c.barriers.at[self.barrier])
        if self.broken != "not taken":
            first(lambda: pl.semaphore_wait(c.gates.at[self.sem], 2))

    def model(self, state):
        pass


@dataclass
class Program:
    """Meshes, a dtype, a width and phases."""

    shapes: list[dict[str, int]]
    dtype: str
    width: int
    phases: list = field(default_factory=list)

    @property
    def sizes(self):
        return [int(np.prod(list(s.values()))) for s in self.shapes]

    @property
    def meshes(self):
        return [pl.Mesh(s, name=f"mesh{m}") for m, s in enumerate(self.shapes)]

    def coordinates(self, mesh, core):
        found = {}
        for axis, n in reversed(self.shapes[mesh].items()):
            found[axis] = core % n
            core = core // n
        return found

    def input(self):
        rng = np.random.default_rng(sum(self.sizes) * 100 + self.width)
        return rng.integers(0, TOP + 1, (sum(self.sizes), ROWS, self.width)).astype(np.int32)

    def expected(self):
        x = self.input()
        cuts = np.cumsum(self.sizes)[:-1]
        state = [list(part) for part in np.split(x, cuts)]
        for phase in self.phases:
            phase.model(state)
        return np.concatenate([np.stack(s) for s in state])

    def scratch(self):
        slots, total = max(len(self.phases), 1), max(*self.sizes, sum(self.sizes), 3)
        made = {
            "board": pl.SHARED((slots, total, self.width), self.dtype),
            "barriers": pl.SemaphoreType.BARRIER((slots,)),
            "gates": pl.SemaphoreType.REGULAR((slots,)) @ pl.SHARED,
        }
        for m, mesh in enumerate(self.meshes):
            made |= {
                f"mine{m}": pl.LOCAL((ROWS, self.width), self.dtype) @ mesh,
                f"out{m}": pl.LOCAL((slots, self.width), self.dtype) @ mesh,
                f"in{m}": pl.LOCAL((slots, self.width), self.dtype) @ mesh,
                f"sem{m}": pl.SemaphoreType.REGULAR((slots * 3,)) @ mesh,
                f"dma{m}": pl.SemaphoreType.DMA((slots,)) @ mesh,
            }
        return made

    def function(self, mesh):
        first = sum(self.sizes[:mesh])

        def kernel(x, counts, out, counted, **refs):
            c = Core(self, mesh, lax.axis_index(tuple(self.shapes[mesh])), refs)
            refs["counts"] = counted
            c.mine[...] = x[first + c.i]
            for phase in self.phases:
                phase.emit(c)
            out[first + c.i] = c.mine[...]

        return kernel

    def run(self, interpret=False, debug=False, with_call=None):
        x = self.input()
        call = pl.mpmd_map(
            [(mesh, self.function(m)) for m, mesh in enumerate(self.meshes)],
            (
                weft.ShapeDtypeStruct(x.shape, self.dtype),
                weft.ShapeDtypeStruct((max(len(self.phases), 1), 2), "int32"),
            ),
            self.scratch(),
            input_output_aliases={1: 1},
            interpret=interpret,
            debug=debug,
            name="drawn",
        )
        args = (
            x.astype(jnp.dtype(self.dtype)),
            np.zeros((max(len(self.phases), 1), 2), np.int32),
        )
        got = call(*args) if with_call is None else with_call(call, *args)
        with np.errstate(invalid="ignore"):  # broken programs give anything
            return np.asarray(got[0]).astype(np.int32)


def draw(seed, phases=6):
    """A program that is correct."""
    rng = np.random.default_rng(seed)

    def up_to(n):
        return int(rng.integers(n))

    shapes = []
    common = 1 + up_to(3)
    for m in range(1 + up_to(3)):
        kind = up_to(4)
        if kind == 0:
            shapes.append({f"a{m}": 1 + up_to(2), f"b{m}": 1 + up_to(2)})
        elif kind == 1:
            shapes.append({f"a{m}": 1 + up_to(4)})
        else:
            shapes.append({"i": common})
    program = Program(shapes, str(rng.choice(DTYPES)), int(rng.choice([8, 11, 16])))
    sizes = program.sizes
    for k in range(phases):
        program.phases.append(_draw_phase(rng, up_to, program, sizes, k))
    return program


def _draw_phase(rng, up_to, program, sizes, k):
    m, n = up_to(len(sizes)), up_to(len(sizes))
    a, to = up_to(ROWS), up_to(ROWS)
    kind = str(
        rng.choice(["work", "message", "message", "copy", "meeting", "stream", "tally", "gate"])
    )
    if kind == "message":
        pattern = str(rng.choice(["one", "fan out", "fan in", "pairs"]))
        same = sizes[m] == sizes[n]
        if pattern == "pairs" and not same:
            pattern = "one"
        paired = pattern == "pairs" and m != n and program.shapes[m] == program.shapes[n]
        named = not (paired and up_to(2))
        parts = tuple(int(v) for v in rng.integers(1, 4, 1 + up_to(2)))
        sender, receiver = up_to(sizes[m]), up_to(sizes[n])
        shift = up_to(sizes[m]) if named else 0
        return Message(m, n, pattern, sender, receiver, shift, a, to, parts, k, 3 * k, named)
    if kind == "copy":
        shift = None if up_to(2) else up_to(sizes[m])
        return Copy(m, shift, a, to, k, k, bool(up_to(2)))
    if kind == "meeting":
        chosen = tuple(j for j in range(len(sizes)) if up_to(3)) or (m,)
        return Meeting(chosen, up_to(5), a, to, k, k)
    if kind == "stream" and (m != n or sizes[m] > 1):
        sender = up_to(sizes[m])
        receiver = up_to(sizes[n]) if m != n else (sender + 1) % sizes[m]
        # With both on one mesh, the semaphores of both directions are each core's own.
        buffers = 1 + up_to(3)
        return Stream(m, n, sender, receiver, buffers, 2 + up_to(5), a, to, k, 3 * k)
    if kind == "tally":
        return Tally(k, k, to, str(rng.choice(["add", "max", "xor", "or"])))
    if kind == "gate":
        return Gate(k, k)
    steps = tuple(
        Step(
            str(rng.choice(list(FUNCTIONS))),
            up_to(ROWS),
            up_to(ROWS),
            up_to(ROWS),
            1 + up_to(8) if up_to(3) == 0 else None,
        )
        for _ in range(1 + up_to(3))
    )
    loop = str(rng.choice(["none", "fixed", "traced", "while"]))
    return Work(m, steps, loop, up_to(4), None if up_to(2) else up_to(sizes[m]))


def broken(program, phase, how):
    """The program with one phase broken."""
    phases = list(program.phases)
    phases[phase] = replace(phases[phase], broken=how)
    return replace(program, phases=phases)


def main(first, last):
    from tests.pallas.test_random_mpmd import check

    failed = []
    for seed in range(first, last):
        try:
            check(seed, interleavings=3)
        except Exception as e:
            failed.append(seed)
            print(f"seed {seed}: {type(e).__name__}: {str(e)[:600]}", flush=True)
    print(f"{last - first} programs, {len(failed)} failed: {failed}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
