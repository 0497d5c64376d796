"""Kernels that walk element by element: sparse rows, graphs, strings, tables, hidden states."""

import zlib

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import lax


@pytest.fixture(params=[True, False], ids=["interpreted", "native"])
def call(request):
    """pallas_call under jit, by either executor."""

    def make(kernel, out_shape, **options):
        return weft.jit(pl.pallas_call(kernel, out_shape, interpret=request.param, **options))

    return make


def shape(*dims, dtype="float32"):
    return weft.ShapeDtypeStruct(dims, dtype)


def test_rows_of_a_sparse_matrix_meet_a_vector(call, rng):
    dense = rng.normal(size=(10, 8)).astype("f4") * (rng.random((10, 8)) < 0.3)
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype("i4")
    columns, values = np.nonzero(dense)[1].astype("i4"), dense[dense != 0]
    x = rng.normal(size=8).astype("f4")

    def kernel(starts, columns, values, x, out):
        i = pl.program_id(0)

        def add(j, total):
            return total + values[j] * x[columns[j]]

        out[i] = lax.fori_loop(starts[i], starts[i + 1], add, jnp.float32(0))

    got = call(kernel, shape(10), grid=10)(starts, columns, values, x)
    np.testing.assert_allclose(got, dense @ x, rtol=1e-5, atol=1e-6)


def test_edges_join_nodes_to_sets(call, rng):
    edges = rng.integers(0, 10, (6, 2)).astype("i4")
    want = np.arange(10)
    for a, b in edges:
        low, high = sorted((want[a], want[b]))
        want[want == high] = low

    def kernel(edges, out, parent):
        parent[...] = lax.iota("int32", 10)

        def root(a):
            return lax.while_loop(lambda a: parent[a] != a, lambda a: parent[a], a)

        @pl.loop(0, 6)
        def _(i):
            a, b = root(edges[i, 0]), root(edges[i, 1])
            parent[jnp.maximum(a, b)] = jnp.minimum(a, b)

        @pl.loop(0, 10)
        def _(i):
            out[i] = root(i)

    scratch = [pl.LOCAL((10,), "int32")]
    got = call(kernel, shape(10, dtype="int32"), scratch_shapes=scratch)(edges)
    np.testing.assert_array_equal(got, want)


def test_edits_between_two_strings_are_counted(call):
    def kernel(a, b, out, edits):
        edits[0, :], edits[:, 0] = lax.iota("int32", 8), lax.iota("int32", 7)

        @pl.loop(0, 6)
        def _(i):
            @pl.loop(0, 7)
            def _(j):
                changed = edits[i, j] + (a[i] != b[j]).astype("int32")
                other = jnp.minimum(edits[i, j + 1], edits[i + 1, j]) + 1
                edits[i + 1, j + 1] = jnp.minimum(changed, other)

        out[0] = edits[6, 7]

    a, b = (np.frombuffer(word, "u1") for word in (b"kitten", b"sitting"))
    scratch = [pl.LOCAL((7, 8), "int32")]
    assert call(kernel, shape(1, dtype="int32"), scratch_shapes=scratch)(a, b)[0] == 3


def test_a_checksum_by_a_table_that_the_kernel_closes_over(call, rng):
    table = np.arange(256, dtype="u4")
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(0xEDB88320), np.uint32(0))
    data = rng.integers(0, 256, 21).astype("u1")

    def kernel(data, out):
        def step(i, c):
            place = (c ^ data[i].astype("uint32")) & 0xFF
            return jnp.asarray(table)[place.astype("int32")] ^ (c >> 8)

        out[0] = ~lax.fori_loop(0, 21, step, jnp.uint32(0xFFFFFFFF))

    assert call(kernel, shape(1, dtype="uint32"))(data)[0] == zlib.crc32(data.tobytes())


def test_the_likeliest_path_through_hidden_states_is_traced_back(call, rng):
    moves, seen = rng.normal(size=(4, 4)).astype("f4"), rng.normal(size=(7, 4)).astype("f4")
    paths = np.stack(np.meshgrid(*[np.arange(4)] * 7, indexing="ij"), -1).reshape(-1, 7)
    scores = seen[np.arange(7), paths].sum(1) + moves[paths[:, :-1], paths[:, 1:]].sum(1)

    def kernel(moves, seen, out, before):
        def step(t, score):
            total = score[:, None] + moves[...]
            before[t] = jnp.argmax(total, axis=0).astype("int32")
            return total.max(axis=0) + seen[t]

        out[6] = jnp.argmax(lax.fori_loop(1, 7, step, seen[0])).astype("int32")

        @pl.loop(0, 6)
        def _(i):
            out[5 - i] = before[6 - i, out[6 - i]]

    scratch = [pl.LOCAL((7, 4), "int32")]
    got = call(kernel, shape(7, dtype="int32"), scratch_shapes=scratch)(moves, seen)
    np.testing.assert_array_equal(got, paths[scores.argmax()])


def test_products_of_floats_of_eight_bits_are_scaled(call, rng):
    x = np.asarray(jnp.asarray(rng.normal(size=(16, 32)), "float8_e4m3fn"))
    w = np.asarray(jnp.asarray(rng.normal(size=(32, 8)), "float8_e5m2"))
    scale = rng.normal(size=(1, 8)).astype("f4")

    def kernel(x, w, scale, out):
        out[...] = jnp.dot(x[...], w[...], preferred_element_type="float32") * scale[...]

    got = call(kernel, shape(16, 8))(x, w, scale)
    want = x.astype("f4") @ w.astype("f4") * scale
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
