"""Processes that trace different programs are told so, all of them, with ranks and lines."""

import json

import pytest

from tests import processes

START = """
import sys, time, numpy as np, weft
from weft import P
import weft.runtime.divergence as divergence
address, rank = sys.argv[1], int(sys.argv[2])
weft.distributed.initialize(address, 3, rank)
mesh = weft.make_mesh((3,), ("x",))
def over_all(f):
    return weft.jit(weft.shard_map(f, mesh=mesh, in_specs=(), out_specs=P()))
"""


def run(program, *args):
    with processes.free_address() as address:
        runs = [
            processes.start(START + program, address, rank, *args, WEFT_NUM_CPU_DEVICES="1")
            for rank in range(3)
        ]
        return processes.end(*runs)


CAUGHT = """
try:
    print("result", f())
except weft.errors.DistributedError as error:
    print("CAUGHT", error)
"""
# Process 1 is the odd one; what its error and the others' must say.
DIFFERENT = {
    "an operation": (
        "over_all(lambda: lax.psum(weft.numpy.sin(1.0) if odd else weft.numpy.cos(1.0), 'x'))()",
        ("sin", "cos"),
    ),
    "a constant": (
        "over_all(lambda: lax.psum(index() * (2 + odd), 'x'))()",
        ("2:i32[]", "3:i32[]"),
    ),
    "the collectives": (
        "over_all(lambda: lax.pmax(index(), 'x') if odd else lax.psum(index(), 'x') * 1)()",
        ("pmax", "psum"),
    ),
    "the order": (
        "[over_all(lambda: reduce(index(), 'x'))() for reduce in "
        "((lax.psum, lax.pmax) if odd else (lax.pmax, lax.psum))]",
        ("psum", "pmax"),
    ),
    "a loop's length": (
        "over_all(lambda: lax.scan(lambda c, _: (lax.psum(c, 'x'), None), 0, None, 2 + odd)[0])()",
        ("length=2 of", "length=3 of"),
    ),
    "the kind of loop": (
        "over_all(lambda: lax.while_loop(lambda c: c < 2, lambda c: c + lax.psum(1, 'x'), 0) "
        "if odd else lax.scan(lambda c, _: (c + lax.psum(1, 'x'), c), 0, None, 2)[0])()",
        ("while", "scan"),
    ),
    "a static value": (
        "weft.jit(lambda v, k: v * k, static_argnums=1)(array((3,)), 2 + odd)",
        ("2.0:f32[]", "3.0:f32[]"),
    ),
    "the partners": (
        "over_all(lambda: lax.ppermute(index(), 'x', [(i, (i + 1 + odd) % 3) for i in range(3)])"
        ")()",
        ("(0, 1)", "(0, 2)"),
    ),
    "a shape": ("weft.jit(lambda v: v + 1)(array((12 if odd else 6,)))", ("[6@x]", "[12@x]")),
    "a dtype": ("weft.jit(lambda v: v + 1)(array((3,), 'i4' if odd else 'f4'))", ("i32", "f32")),
    "a result's sharding": (
        "weft.jit(lambda v: v + 1, out_shardings=whole if odd else split)(array((3,)))",
        ("P('x',)", "P()"),
    ),
    "donation": (
        "weft.jit(lambda v: v + 1, donate_argnums=(0,) if odd else ())(array((3,)))",
        ("donated=[True]", "donated=[False]"),
    ),
    "an option of XLA": (
        "over_all(lambda: index(), compiler_options={'xla_cpu_enable_fast_math': bool(odd)})()",
        ("fast_math', True", "fast_math', False"),
    ),
}
TABLE = """
import json
from weft import lax
odd, index = rank == 1, lambda: lax.axis_index("x")
split, whole = weft.NamedSharding(mesh, P("x")), weft.NamedSharding(mesh, P())
def array(shape, dtype="f4"):
    return weft.make_array_from_callback(shape, split, lambda i: np.ones(shape, dtype)[i])
def over_all(f, **options):
    mapped = weft.shard_map(f, mesh=mesh, in_specs=(), out_specs=P(), check_vma=False)
    return weft.jit(mapped, **options)
said = {}
for name, program in json.loads(sys.argv[3]).items():
    try:
        said[name] = f"no error, {eval(program)}"
    except weft.errors.DistributedError as error:
        said[name] = f"CAUGHT {error}"
print("SAID", json.dumps(said))
"""


@pytest.fixture(scope="module")
def said():
    """What each process was told of each program, of one group that tries all of them."""
    table = json.dumps({name: program for name, (program, _) in DIFFERENT.items()})
    found = []
    for out, errors in run(TABLE, table):
        line = next((text for text in out.splitlines() if text.startswith("SAID ")), None)
        assert line is not None, out + errors[-3000:]
        found.append(json.loads(line.removeprefix("SAID ")))
    return found


@pytest.mark.parametrize("name", DIFFERENT)
def test_all_processes_are_told_what_differs(said, name):
    for rank, texts in enumerate(said):
        text = texts[name]
        assert text.startswith("CAUGHT "), f"process {rank}: {text}"
        assert all(word in text for word in DIFFERENT[name][1]), text
        mine, other = (1, 0) if rank == 1 else (rank, 1)
        assert f"\n  process {mine}: " in text and f"\n  process {other}: " in text, text
        assert text.count(" at ") >= 2 and "<string>:" in text, text


def test_equal_programs_run_and_the_store_does_not_grow():
    program = """
for i in range(20):
    f = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x') + i, 'x'))
    assert int(f()) == 3 + 3 * i
from weft.runtime import backend
client = backend.distributed_state["client"]
left = client.key_value_dir_get("weft/program/")
assert len(left) <= 16, left
print("CAUGHT nothing")
"""
    for out, errors in run(program):
        assert "CAUGHT nothing" in out, errors[-3000:]


def test_a_process_that_does_not_come_is_named():
    program = (
        """
divergence.WAIT_SECONDS = 5
if rank == 2:
    time.sleep(12)
    raise SystemExit
f = over_all(lambda: weft.lax.psum(weft.lax.axis_index('x'), 'x'))
"""
        + CAUGHT
    )
    *two, _ = run(program)
    for out, errors in two:
        assert "process 2 has not come to it in 5 s" in out, out + errors[-3000:]
