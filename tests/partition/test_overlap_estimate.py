"""What is computed between the start of a collective and its done, as weft.comm counts it."""

import numpy as np

import weft
import weft.numpy as jnp
from weft import P, lax

N, M = 4, 16
SHARD = weft.ShapeDtypeStruct((N * M, M), np.float32)  # 16 × 16 on each of 4 devices


def of(body, *, axis_names=None, sharding=None):
    """The collectives of `body` on devices along x, and the report."""
    auto = weft.AxisType.Auto
    free = axis_names is not None
    shape, names = ((N, 2), ("x", "y")) if free else ((N,), ("x",))
    mesh = weft.make_mesh(shape, names, axis_types=(auto,) * len(shape))
    mapped = weft.shard_map(
        body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=axis_names or set()
    )
    x = SHARD
    if sharding is not None:
        x = weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=weft.NamedSharding(mesh, sharding))
    report = weft.comm(mapped, x)
    return report.collectives, str(report)


def counted(between, **kwargs):
    """Operations and FLOPs of what `between` computes of a device's part."""

    def body(v):
        future = lax.psum_start(v, "x")
        other = between(v)
        return future.done() + other

    (c, *rest), _ = of(body, **kwargs)
    assert not rest and c.kind == "all_reduce"
    return c.meanwhile.operations, c.meanwhile.flops


def test_elementwise_operations_count_their_elements():
    assert counted(lambda v: jnp.sin(v) * v) == (2, 2 * M * M)


def test_a_dot_counts_two_for_each_product_and_a_transposition_nothing():
    assert counted(lambda v: v @ v.T) == (1, 2 * M**3)


def test_a_convolution_counts_two_for_each_product():
    def between(v):
        kernel = np.ones((1, 1, 3, 3), np.float32)
        return lax.conv(v[None, None], kernel, (1, 1), "SAME")[0, 0]

    assert counted(between) == (1, 2 * M * M * 9)


def test_a_loop_counts_each_of_its_trips():
    operations, flops = counted(lambda v: lax.fori_loop(0, 5, lambda _, c: c @ v, v))
    assert operations >= 5
    assert 5 * 2 * M**3 <= flops <= 5 * (2 * M**3 + 10)  # and the counter


def test_of_branches_the_longest_counts():
    def between(v):
        branches = (lambda v: v, lambda v: v @ v, lambda v: v * 2)
        return lax.switch(lax.axis_size("x") + v[0, 0].astype(int), branches, v)

    flops = counted(between)[1]
    assert 2 * M**3 <= flops <= 2 * M**3 + 100


def test_along_free_axes_the_part_of_a_device_counts():
    kwargs = {"axis_names": {"x"}, "sharding": P("x", "y")}
    assert counted(jnp.sin, **kwargs) == (1, M * M // 2)


def test_nothing_between_start_and_done_is_said():
    (c,), text = of(lambda v: lax.psum_start(v, "x").done() + jnp.sin(v))
    assert (c.meanwhile.operations, c.meanwhile.flops) == (0, 0)
    assert "started: nothing is computed until done" in text


def test_a_collective_that_was_not_started_has_no_count():
    (c,), text = of(lambda v: lax.psum(v, "x") + jnp.sin(v))
    assert c.meanwhile is None
    assert "started" not in text


def test_the_report_says_the_count_in_text_and_page(tmp_path):
    def body(v):
        future = lax.ppermute_start(v, "x", [(i, (i + 1) % N) for i in range(N)])
        return v @ v + future.done()

    _, text = of(body)
    said = "started: 1 operation with 8.19 kFLOP until done, about 81.9 ns at the peak of cpu"
    assert said in text
    mesh = weft.make_mesh((N,), ("x",), axis_types=(weft.AxisType.Auto,))
    mapped = weft.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    page = tmp_path / "page.html"
    weft.comm(mapped, SHARD).to_html(page)
    assert said in page.read_text(encoding="utf-8")
