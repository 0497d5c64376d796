"""What does not fit into memory is an error that says what the program needs, and where."""

import re
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.runtime.allocation_failure import largest_values

TOO_MANY = 1 << 46  # floats of 4 bytes: more than a process can address


def whole_range(x):
    return wnp.sin(x + weft.lax.iota(np.float32, TOO_MANY))


LINE = whole_range.__code__.co_firstlineno + 1


def message_of(run):
    with pytest.raises(weft.errors.JaxRuntimeError, match="Out of memory") as caught:
        weft.block_until_ready(run())
    return str(caught.value)


@pytest.mark.parametrize("read", [lambda x: x, lambda x: x[:3], lambda x: x.sum()])
def test_a_result_that_does_not_fit_names_the_program_and_the_line(read):
    make = weft.jit(whole_range)
    text = message_of(lambda: read(make(np.float32(1))))
    assert "whole_range needs on each device: arguments 4 B, results 281 TB" in text
    assert f"281 TB: f32[{TOO_MANY}]" in text and f"test_allocation_failure.py:{LINE})" in text
    assert len(text.splitlines()) < 9


def test_temporaries_that_do_not_fit_are_named():
    total = weft.jit(lambda x: whole_range(x).sum())
    text = message_of(lambda: total(np.float32(1)))
    assert "results 4 B, temporaries" in text and f"f32[{TOO_MANY}]" in text


def test_shards_that_do_not_fit_are_told_by_their_own_size():
    mesh = weft.make_mesh((8,), ("x",))
    x = weft.device_put(np.ones(8, np.float32), weft.NamedSharding(mesh, weft.P("x")))
    grow = weft.jit(lambda x: wnp.outer(x, weft.lax.iota(np.float32, TOO_MANY // 2)))
    text = message_of(lambda: grow(x))
    assert f"f32[1,{TOO_MANY // 2}]" in text and "results 141 TB" in text


MATRIX_PRODUCT = """
import resource
import weft, weft.numpy as wnp

def attention(q, k):
    return weft.nn.softmax(q @ k.T) @ k

q, small = wnp.ones((1 << 16, 8)), wnp.ones((8, 8))
weft.block_until_ready(weft.jit(attention)(small, small))
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30),) * 2)
try:
    weft.block_until_ready(weft.jit(attention)(q, q))
except weft.errors.JaxRuntimeError as e:
    print(e)
"""


def test_a_matrix_product_without_memory_says_so_and_what_reports_it():
    done = subprocess.run(
        [sys.executable, "-c", MATRIX_PRODUCT], capture_output=True, text=True, check=True
    )
    assert re.search("Out of memory|no memory for a matrix product", done.stdout)
    assert "weft.comm(f, *args) reports memory" in done.stdout


def test_the_largest_values_of_a_program_come_first():
    f = weft.jit(lambda x: wnp.sort(wnp.outer(x, x)).sum())
    text = f.lower(np.ones(100, np.float32)).compile().as_text()
    sizes = [size for size, _ in largest_values(text)]
    assert sizes[0] == 40_000 and sizes == sorted(sizes, reverse=True)
    assert any("argument x" in what for _, what in largest_values(text))
