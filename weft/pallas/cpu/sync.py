"""Semaphores, barriers and copies: atomics in shared memory, waits that spin, yield, then sleep.

A wait gives the CPU away after a while, so any number of cores makes progress on any number of
CPUs. Before every synchronizing op, values read lazily from memory that other cores may change
are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import dtypes
from weft.pallas.cpu import loops
from weft.pallas.cpu.llvm import Function, Index
from weft.pallas.cpu.refs import checked, window
from weft.pallas.cpu.translate import Translator, rule
from weft.pallas.cpu.values import Array, Buffer

# The state of a running kernel, at the start of its shared memory.
PROGRESS, WAITING, FINISHED, ABORT, STATE_BYTES = 0, 64, 128, 192, 256

SPINS, YIELDS, NAP = 256, 2048, 20_000
"""Turns of waiting that spin and then yield; then every turn sleeps so many nanoseconds."""
PATIENCE = 20_000
"""Naps without any progress, all cores waiting, that are taken for a deadlock (1 to 2 s)."""


class Core:
    """What the code of one core knows: its mesh, its coordinates, the kernel's state."""

    def __init__(self, mesh: Any, coordinates: dict[str, Index], total: int, state: str) -> None:
        self.mesh, self.coordinates = mesh, coordinates
        self.total, self.state = total, state

    def end(self, f: Function, number: int) -> None:
        """Ends all waits; the first error of all cores is the one reported."""
        place = f.address("i8", self.state, ABORT)
        f.op(f"cmpxchg ptr {place}, i64 0, i64 {number} seq_cst seq_cst")


def linear_index(
    f: Function, mesh: Any, coordinates: dict[str, Index], given: dict[str, Index]
) -> Index:
    """The number of a mesh's core: at the given coordinates, else at those of the same name."""
    number: Index = 0
    for axis, size in mesh.shape.items():
        number = f.add(f.mul(number, size), given.get(axis, coordinates.get(axis, 0)))
    return number


def retargeted(
    t: Translator, part: Buffer, whole: Buffer, owner: Any, axes: Sequence[str], core: Sequence
) -> Buffer:
    """The part as another core has it: the copies of a per-core ref lie one after the other."""
    if owner is None or t.core is None or not axes:
        return part
    f = t.f
    given = {}
    for axis, x in zip(axes, core, strict=True):
        what = (
            f"kernel {t.call.name}: {t.eqn.primitive.name} ({t.eqn.source}): the core index along "
            f"{axis!r} is out of bounds"
        )
        given[axis] = checked(t, t.index(x), 0, owner.shape[axis] - 1, what)
    own = linear_index(f, owner, t.core.coordinates, {})
    target = linear_index(f, owner, t.core.coordinates, given)
    step = f.mul(f.sub(target, own), loops.slot_bytes(whole.shape, whole.dtype))
    pointer = f.address("i8", part.pointer, step)
    return Buffer(pointer, part.dtype, part.shape, part.strides, part.group)


def _semaphore(t: Translator, eqn: Any, sem: Buffer, operands: Sequence[Array]) -> tuple:
    """(the semaphore, what follows its index operands)."""
    indexer = eqn.params["indexer"]
    n = indexer.num_operands
    return window(t, sem, indexer, operands[:n]), operands[n:]


@rule("semaphore_signal")
def _signal(t: Translator, eqn: Any, sem: Buffer, *operands: Array) -> None:
    t.before_sync()
    place, (inc, *core) = _semaphore(t, eqn, sem, operands)
    owner = eqn.invars[0].aval.core
    place = retargeted(t, place, sem, owner, eqn.params["axes"], core)
    amount = t.f.op(f"trunc i64 {t.index(inc)} to i32")
    t.f.op(f"atomicrmw add ptr {place.pointer}, i32 {amount} seq_cst")
    _progress(t)


@rule("semaphore_wait")
def _wait(t: Translator, eqn: Any, sem: Buffer, *operands: Array) -> None:
    t.before_sync()
    place, (value,) = _semaphore(t, eqn, sem, operands)
    amount = t.f.op(f"trunc i64 {t.index(value)} to i32")
    _take(t, eqn, place.pointer, amount, eqn.params["decrement"])


@rule("semaphore_read")
def _read(t: Translator, eqn: Any, sem: Buffer, *operands: Array) -> Array:
    t.before_sync()
    place, _ = _semaphore(t, eqn, sem, operands)
    text = t.f.op(f"load atomic i32, ptr {place.pointer} seq_cst, align 4")
    return t.scalar(text, eqn.outvars[0].aval.dtype)


@rule("core_barrier")
def _barrier(t: Translator, eqn: Any, sem: Buffer, *operands: Array) -> None:
    """A counter of arrivals, which only grows: the phase ends at its next multiple of count."""
    t.before_sync()
    f, count = t.f, eqn.params["count"]
    place, _ = _semaphore(t, eqn, sem, operands)
    arrived = f.op(f"atomicrmw add ptr {place.pointer}, i32 1 seq_cst")
    phase = f.op(f"sdiv i32 {arrived}, {count}")
    goal = f.op(f"mul i32 {f.op(f'add i32 {phase}, 1')}, {count}")
    _progress(t)

    def passed() -> str:
        now = f.op(f"load atomic i32, ptr {place.pointer} seq_cst, align 4")
        return f.op(f"icmp sge i32 {now}, {goal}")

    _until(t, eqn, passed)


@rule("async_copy_start")
def _copy_start(t: Translator, eqn: Any, src: Buffer, dst: Buffer, sem: Buffer, *rest: Any) -> None:
    """The copy is done at once: the cores of a CPU have no engine that copies beside them."""
    t.before_sync()
    parts, core = _copy_parts(t, eqn, (src, dst, sem), rest)
    owners = [v.aval.core for v in eqn.invars[:3]]
    axes = eqn.params["axes"]
    goal = retargeted(t, parts[1], dst, owners[1], axes, core)
    flag = retargeted(t, parts[2], sem, owners[2], axes, core)
    t.before_write(dst.group)
    source = Array(parts[0].shape, src.dtype, buffer=parts[0])
    if not source.aligned_with(goal):
        t.snapshot(source)
    t.store(goal, source)
    t.f.op(f"atomicrmw add ptr {flag.pointer}, i32 1 seq_cst")
    _progress(t)


@rule("async_copy_wait")
def _copy_wait(t: Translator, eqn: Any, src: Buffer, dst: Buffer, sem: Buffer, *rest: Any) -> None:
    t.before_sync()
    parts, _ = _copy_parts(t, eqn, (src, dst, sem), rest)
    _take(t, eqn, parts[2].pointer, "1")


def _copy_parts(t: Translator, eqn: Any, refs: Sequence[Buffer], rest: Sequence[Any]) -> tuple:
    """The parts of source, destination and semaphore, and the operands of the target core."""
    parts, start = [], 0
    for ref, name in zip(refs, ("src_indexer", "dst_indexer", "sem_indexer"), strict=True):
        indexer = eqn.params[name]
        n = indexer.num_operands
        if indexer.has_picks:
            raise t.unsupported(eqn, "copies of parts that index arrays select")
        parts.append(window(t, ref, indexer, rest[start : start + n]))
        start += n
    return parts, rest[start:]


@rule("axis_index")
def _axis_index(t: Translator, eqn: Any) -> Array:
    """The index of the core along axes of its mesh, the first axis major."""
    axes = eqn.params["over"].names
    coordinates = {} if t.core is None else t.core.coordinates
    number: Index = 0
    for axis in axes:
        if axis not in coordinates:
            raise t.unsupported(eqn, f"the index along axis {axis!r}, which its mesh does not have")
        number = t.f.add(t.f.mul(number, t.core.mesh.shape[axis]), coordinates[axis])
    return t.scalar(str(number), dtypes.int32) if isinstance(number, int) else t.int32(number)


# Waiting ---------------------------------------------------------------------------------------


def _progress(t: Translator) -> None:
    """Tells the watch for deadlocks that something happened."""
    if t.core is not None:
        place = t.f.address("i8", t.core.state, PROGRESS)
        t.f.op(f"atomicrmw add ptr {place}, i64 1 monotonic")


def _take(t: Translator, eqn: Any, pointer: str, amount: str, decrement: bool = True) -> None:
    """Waits until the semaphore has the amount, and takes it or leaves it there."""
    f = t.f

    def passed() -> str:
        now = f.op(f"load atomic i32, ptr {pointer} seq_cst, align 4")
        enough = f.op(f"icmp sge i32 {now}, {amount}")
        if not decrement:
            return enough

        def take() -> str:
            less = f.op(f"sub i32 {now}, {amount}")
            pair = f.op(f"cmpxchg ptr {pointer}, i32 {now}, i32 {less} seq_cst seq_cst")
            return f.op(f"extractvalue {{ i32, i1 }} {pair}, 1")

        return f.choose(enough, "i1", take, "false")

    _until(t, eqn, passed)
    _progress(t)


def _until(t: Translator, eqn: Any, passed: Callable[[], str]) -> None:
    """Repeats `passed` until it holds; ends the kernel's waits if nothing can make it hold."""
    f = t.f
    head, again, out = f.name_of("wait"), f.name_of("again"), f.name_of("done")
    before = f.block
    f.goto(head)
    f.label(head)
    turns = f.name_of("turns")
    seen, still = f.name_of("seen"), f.name_of("still")
    place = len(f.lines)
    f.lines.extend(("", "", ""))
    with f.scope():
        done = passed()
    f.do(f"br i1 {done}, label {out}, label {again}")
    f.label(again)
    if t.core is None:
        # One program alone: nobody else will signal.
        t.fail("true", _deadlock(t, eqn))
        f.goto(out)
        f.label(f.name_of("never"))
        following, new_seen, new_still = "0", "0", "0"
    else:
        following, new_seen, new_still = _pause(t, eqn, turns, seen, still, out)
    latch = f.block
    f.goto(head)
    f.lines[place] = f"  {turns} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"
    f.lines[place + 1] = f"  {seen} = phi i64 [ 0, %{before} ], [ {new_seen}, %{latch} ]"
    f.lines[place + 2] = f"  {still} = phi i64 [ 0, %{before} ], [ {new_still}, %{latch} ]"
    f.label(out)


def _deadlock(t: Translator, eqn: Any) -> str:
    mesh = f" of mesh {t.core.mesh.name}" if t.core is not None else ""
    return (
        f"kernel {t.call.name}: deadlock: every core waits; a core{mesh} at {eqn.primitive.name} "
        f"({eqn.source}). Run it with interpret=True to see what each core waits for"
    )


def _pause(t: Translator, eqn: Any, turns: str, seen: str, still: str, out: str) -> tuple:
    """One turn of waiting; gives the next values of (turns, progress seen, turns without any)."""
    from weft.pallas.cpu.threads import emit_spin

    f, state = t.f, t.core.state
    following = f.op(f"add i64 {turns}, 1")
    spin, slow, rest, nap, after = (f.name_of(n) for n in ("spin", "slow", "rest", "nap", "after"))
    f.do(f"br i1 {f.op(f'icmp slt i64 {turns}, {SPINS}')}, label {spin}, label {slow}")
    f.label(spin)
    emit_spin(f)
    f.goto(after)
    f.label(slow)
    f.do(f"br i1 {f.op(f'icmp slt i64 {turns}, {YIELDS}')}, label {rest}, label {nap}")
    f.label(rest)
    f.intrinsic("sched_yield", "i32")
    f.goto(after)
    f.label(nap)
    abort = field_atomic(f, state, ABORT)
    go_on = f.name_of("goon")
    f.do(f"br i1 {f.op(f'icmp ne i64 {abort}, 0')}, label {out}, label {go_on}")
    f.label(go_on)
    waiting = f.address("i8", state, WAITING)
    f.op(f"atomicrmw add ptr {waiting}, i64 1 seq_cst")
    f.intrinsic("usleep", "i32", ("i32", str(NAP // 1000)))
    idle = f.op(f"add i64 {field_atomic(f, state, WAITING)}, {field_atomic(f, state, FINISHED)}")
    f.op(f"atomicrmw sub ptr {waiting}, i64 1 seq_cst")
    now = field_atomic(f, state, PROGRESS)
    same = f.op(f"icmp eq i64 {now}, {seen}")
    all_idle = f.op(f"icmp sge i64 {idle}, {t.core.total}")
    stuck = f.op(f"and i1 {same}, {all_idle}")
    more = f.op(f"add i64 {still}, 1")
    count = f.op(f"select i1 {same}, i64 {more}, i64 0")
    # Naps of cores overlap only in part: not all are seen idle at each look.
    lost = f.op(f"and i1 {stuck}, {f.op(f'icmp sgt i64 {count}, {PATIENCE}')}")
    t.fail(lost, _deadlock(t, eqn))
    last = f.block
    f.goto(after)
    f.label(after)
    new_seen = f.op(f"phi i64 [ {seen}, {spin} ], [ {seen}, {rest} ], [ {now}, %{last} ]")
    new_still = f.op(f"phi i64 [ 0, {spin} ], [ 0, {rest} ], [ {count}, %{last} ]")
    return following, new_seen, new_still


def field_atomic(f: Function, state: str, offset: int) -> str:
    return f.op(f"load atomic i64, ptr {f.address('i8', state, offset)} seq_cst, align 8")
