"""Refs outside of kernels: new_ref, indexing, jit, loops, branches, derivatives, vmap."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import weft
import weft.numpy as jnp
import weft.pallas as pl
from weft import P, lax

X = np.arange(24, dtype=np.float32).reshape(4, 6)
ROWS = np.array([2, 0])

INDICES = {
    "all": np.s_[...],
    "int": np.s_[1],
    "negative int": np.s_[-1, 2],
    "slice": np.s_[1:3],
    "steps": np.s_[::2, 1::3],
    "backwards": np.s_[::-1, ::-2],
    "new dimension": np.s_[1, None],
    "new between": np.s_[:, None, 2],
    "ellipsis": np.s_[..., 0],
    "rows": np.s_[ROWS],
    "rows and columns": np.s_[ROWS, ROWS],
    "outer": np.s_[ROWS[:, None], np.array([1, 3, 5])],
    "rows and slice": np.s_[ROWS, 1:4],
    "slice and columns": np.s_[1:3, ROWS],
    "int and columns": np.s_[1, ROWS],
    "mask": np.s_[X[:, 0] > 5],
    "empty": np.s_[2:2],
}


@pytest.mark.parametrize("name", INDICES)
def test_reading_follows_numpy(name):
    assert_array_equal(weft.new_ref(X)[INDICES[name]], X[INDICES[name]])


@pytest.mark.parametrize("name", INDICES)
def test_writing_follows_numpy(name):
    index = INDICES[name]
    expected = X.copy()
    new = np.arange(X[index].size, dtype=np.float32).reshape(X[index].shape) - 50
    expected[index] = new
    ref = weft.new_ref(X)
    ref[index] = new
    assert_array_equal(ref[...], expected)


@pytest.mark.parametrize("name", INDICES)
def test_indices_mean_the_same_in_kernels(name):
    index = INDICES[name]
    shape = X[index].shape

    def kernel(x, old, out):
        old[...] = x[index]
        out[...] = jnp.zeros(X.shape)
        out[index] = x[index] + 1

    expected = np.zeros_like(X)
    expected[index] = X[index] + 1
    types = [weft.ShapeDtypeStruct(shape, "float32"), weft.ShapeDtypeStruct(X.shape, "float32")]
    old, out = pl.pallas_call(kernel, types, interpret=True)(X)
    assert_array_equal(old, X[index])
    assert_array_equal(out, expected)


def test_updates_in_place_read_and_write():
    ref = weft.new_ref(X)
    ref[1] += 10
    ref[:, 0] *= 2
    expected = X.copy()
    expected[1] += 10
    expected[:, 0] *= 2
    assert_array_equal(ref[...], expected)


def test_windows_start_at_traced_positions():
    @weft.jit
    def f(x, i):
        ref = weft.new_ref(x)
        row = ref[pl.ds(i, 2), pl.ds(1, 2, 3)]
        ref[pl.ds(i, 2), i] = jnp.zeros(2)
        return row, ref[...]

    row, out = f(X, 1)
    expected = X.copy()
    expected[1:3, 1] = 0
    assert_array_equal(row, X[1:3, 1:5:3])
    assert_array_equal(out, expected)


def test_views_are_indexed_further():
    ref = weft.new_ref(X)
    view = ref.at[1:4, ::2].at[1:]
    assert view.shape == (2, 3)
    assert_array_equal(view[...], X[1:4, ::2][1:])
    assert_array_equal(view[:, np.array([2, 0])], X[1:4, ::2][1:][:, [2, 0]])
    view[0, 1] = -1.0
    expected = X.copy()
    expected[2, 2] = -1
    assert_array_equal(ref[...], expected)


def test_views_at_traced_positions_are_indexed_further():
    out = weft.jit(lambda x, i: weft.new_ref(x).at[pl.ds(i, 3)].at[i].at[pl.ds(i, 2, 2)][...])(X, 1)
    assert_array_equal(out, X[1:4][1][1:4:2])


def test_masked_loads_and_stores_leave_the_rest():
    ref = weft.new_ref(X)
    mask = X % 2 == 0
    assert_array_equal(pl.load(ref, ..., mask=mask, other=-1.0), np.where(mask, X, -1))
    assert_array_equal(pl.load(ref, ..., mask=mask), np.where(mask, X, 0))
    pl.store(ref, ..., -X, mask=mask)
    assert_array_equal(ref[...], np.where(mask, -X, X))


def test_swap_gives_the_value_before():
    ref = weft.new_ref(X)
    assert_array_equal(pl.swap(ref, 1, jnp.zeros(6)), X[1])
    assert_array_equal(ref[1], np.zeros(6))


def test_addupdate_counts_repeated_positions():
    ref = weft.new_ref(np.zeros(3, np.float32))
    pl.addupdate(ref, np.array([1, 1, 2]), np.array([1.0, 2.0, 4.0], np.float32))
    assert_array_equal(ref[...], [0, 3, 4])


def test_atomics_outside_kernels_combine():
    ref = weft.new_ref(np.array([1, 5, 3]))
    assert int(pl.atomic_max(ref, 0, 4)) == 1
    pl.atomic_or(ref, 1, 2)
    assert int(pl.atomic_cas(ref.at[2], 3, 9)) == 3
    assert int(pl.atomic_cas(ref.at[2], 3, 1)) == 9
    assert_array_equal(ref[...], [4, 7, 9])


def test_jit_writes_are_seen_by_the_caller():
    ref = weft.new_ref(np.zeros(3, np.float32))

    @weft.jit
    def closing_over(x):
        ref[0] += x
        return ref[0] * 2

    @weft.jit
    def taking(r, x):
        r[1] = x

    assert float(closing_over(2.0)) == 4
    assert float(closing_over(3.0)) == 10
    taking(ref, 7.0)
    assert_array_equal(ref[...], [5, 7, 0])


def test_jit_inside_jit_passes_refs_through():
    ref = weft.new_ref(np.zeros(2, np.float32))
    inner = weft.jit(lambda r: r.set(r[...] + 1))

    @weft.jit
    def outer():
        inner(ref)
        inner(ref)

    outer()
    assert_array_equal(ref[...], [2, 2])


def in_fori(x):
    acc = weft.new_ref(jnp.zeros(()))

    def body(i, carry):
        acc[...] += x * i
        return carry

    lax.fori_loop(0, 4, body, None)
    return acc[...]


def in_scan(x):
    acc = weft.new_ref(jnp.zeros(4))

    def body(carry, i):
        acc[i] = jnp.sin(x) * i
        return carry, acc[i] * 2

    _, ys = lax.scan(body, None, jnp.arange(4))
    return acc[...].sum() + ys.sum()


def in_cond(x):
    acc = weft.new_ref(x)
    lax.cond(x > 1, lambda: acc.set(acc[...] * 3), lambda: None)
    return acc[...]


def in_remat(x):
    acc = weft.new_ref(x)

    @weft.checkpoint
    def double():
        acc[...] = jnp.sin(acc[...]) * 2

    double()
    return acc[...]


PROGRAMS = {
    "fori_loop": (in_fori, lambda x: 6 * x, lambda x: 6.0),
    "scan": (in_scan, lambda x: 18 * np.sin(x), lambda x: 18 * np.cos(x)),
    "cond": (in_cond, lambda x: np.where(x > 1, 3 * x, x), lambda x: 3.0 if x > 1 else 1.0),
    "checkpoint": (in_remat, lambda x: 2 * np.sin(x), lambda x: 2 * np.cos(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_over_refs(name):
    program, value, derivative = PROGRAMS[name]
    for x in (0.5, 2.0):
        assert_allclose(program(x), value(x), rtol=1e-6)
        assert_allclose(weft.jit(program)(x), value(x), rtol=1e-6)
        assert_allclose(weft.grad(program)(x), derivative(x), rtol=1e-6)
        assert_allclose(weft.jvp(program, (x,), (1.0,))[1], derivative(x), rtol=1e-6)
    xs = np.array([0.5, 2.0, 3.0], np.float32)
    assert_allclose(weft.vmap(program)(xs), value(xs), rtol=1e-6)
    assert_allclose(
        weft.jit(weft.vmap(weft.grad(program)))(xs), [derivative(x) for x in xs], rtol=1e-6
    )


def test_while_loops_read_refs_in_the_condition():
    @weft.jit
    def f(x):
        ref = weft.new_ref(x)

        def body(i):
            ref[...] *= 2
            return i + 1

        return lax.while_loop(lambda i: ref[...] < 100, body, 0), ref[...]

    count, value = f(3.0)
    assert (int(count), float(value)) == (6, 192)


def test_vmap_maps_over_refs():
    ref = weft.new_ref(X)

    def f(row, x, i):
        row[0] += x
        return row[1], row[i], row[np.array([3, 1])]

    one, at, two = weft.vmap(f)(ref, np.ones(4, np.float32), np.arange(4))
    expected = X.copy()
    expected[:, 0] += 1
    assert_array_equal(ref[...], expected)
    assert_array_equal(one, X[:, 1])
    assert_array_equal(at, expected[np.arange(4), np.arange(4)])
    assert_array_equal(two, X[:, [3, 1]])


def test_vmap_writes_at_mapped_positions():
    ref = weft.new_ref(np.zeros((3, 4), np.float32))

    def f(column, i, x):
        column[i] = x
        column[pl.ds(i, 2)] += 1

    weft.vmap(f, in_axes=(1, 0, 0))(ref, np.array([0, 1, 0, 1]), np.arange(4.0, dtype=np.float32))
    expected = np.zeros((3, 4), np.float32)
    for k, i in enumerate([0, 1, 0, 1]):
        expected[i, k] = k
        expected[i : i + 2, k] += 1
    assert_array_equal(ref[...], expected)


def test_vmap_reads_an_unmapped_ref_at_mapped_positions():
    ref = weft.new_ref(X)
    out = weft.vmap(lambda i: ref[pl.ds(i, 2), 1:3])(np.array([2, 0, 1]))
    assert_array_equal(out, np.stack([X[i : i + 2, 1:3] for i in (2, 0, 1)]))


def test_run_state_returns_final_values():
    def body(refs):
        a, b = refs
        a[...] += b[...]
        b[0] = a[1]

    a, b = pl.run_state(body)((np.ones(2, np.float32), np.arange(2.0, dtype=np.float32)))
    assert_array_equal(a, [1, 2])
    assert_array_equal(b, [2, 1])


def test_freeze_ends_a_ref():
    ref = weft.new_ref(X)
    ref[0] = 0.0
    assert_array_equal(weft.freeze(ref)[1:], X[1:])
    with pytest.raises(ValueError, match="after weft.freeze"):
        ref[0]


def test_a_ref_shows_its_type_and_value():
    ref = weft.new_ref(np.array([1.0, 2.0], np.float32))
    assert isinstance(ref, weft.Ref)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2,), np.float32, 1, 2, 2)
    assert repr(ref) == "Ref([1., 2.], dtype=float32)"
    assert "Ref{f32[2]}" in str(weft.make_jaxpr(lambda r: r[0])(ref))


# Bad input -------------------------------------------------------------------------------------

BAD = {
    "returning a ref": (
        lambda r: weft.jit(lambda: weft.new_ref(1.0))(),
        ValueError,
        "cannot leave",
    ),
    "returning an argument": (lambda r: weft.jit(lambda q: q)(r), ValueError, "cannot return refs"),
    "a complex value": (lambda r: r.at[0, 0].set(1j), ValueError, "c64 does not fit"),
    "differentiated value": (
        lambda r: weft.grad(lambda x: (r.at[0, 0].set(x), x)[1])(1.0),
        TypeError,
        "differentiated value is written",
    ),
    "derivative in a ref": (
        lambda r: weft.grad(lambda q: q[0, 0] * 2)(r),
        ValueError,
        r"argument 0.* is a Ref\{f32\[4,6\]\}, which has no derivative; differentiate in its value",
    ),
    "mapped value": (
        lambda r: weft.vmap(lambda x: r.at[0].set(x))(np.ones((2, 6), np.float32)),
        TypeError,
        "mapped value is written",
    ),
    "arithmetic": (lambda r: r + 1, TypeError, r"read its value with ref\[...\]"),
    "reflected arithmetic": (lambda r: jnp.ones(6) * r, TypeError, "not an array|read its value"),
    "function of arrays": (lambda r: jnp.sin(r), TypeError, "read its value"),
    "truth": (lambda r: bool(r), TypeError, "not an array"),
    "export": (
        lambda r: weft.export.export(weft.jit(lambda x: r[0] * x))(1.0),
        TypeError,
        "call the jitted function",
    ),
    "twice": (lambda r: weft.jit(lambda a, b: None)(r, r), ValueError, "twice"),
    "in a carry": (
        lambda r: lax.fori_loop(0, 2, lambda i, c: c, r),
        ValueError,
        "carry|cannot return refs|close over",
    ),
    "value of another dtype": (
        lambda r: r.at[0].set(jnp.arange(6)),
        TypeError,
        r"\.astype\('float32'\)",
    ),
    "value of another shape": (
        lambda r: r.at[0].set(jnp.ones(5)),
        ValueError,
        "does not broadcast",
    ),
    "float index": (lambda r: r[1.0], TypeError, "index"),
    "out of bounds": (lambda r: r[7], IndexError, "out of bounds for dimension 0 of size 4"),
    "too many indices": (lambda r: r[0, 0, 0], IndexError, "too many indices"),
    "window outside": (lambda r: r[pl.ds(3, 2)], IndexError, "reaches outside of dimension 0"),
    "traced size": (
        lambda r: weft.jit(lambda n: r[pl.ds(0, n)])(2),
        TypeError,
        "only the start may be traced",
    ),
    "traced slice": (lambda r: weft.jit(lambda n: r[0:n])(2), TypeError, "use pl.ds"),
    "traced mask": (lambda r: weft.jit(lambda m: r[m])(X[:, 0] > 0), TypeError, "pl.load"),
    "other without mask": (lambda r: pl.load(r, 0, other=1.0), ValueError, "give a mask"),
    "mask of ints": (lambda r: pl.load(r, 0, mask=np.ones(6, int)), TypeError, "must be boolean"),
    "ref of a ref": (lambda r: weft.new_ref(r), TypeError, "give its value"),
    "freeze of a view": (lambda r: weft.freeze(r.at[0]), TypeError, "cannot be frozen"),
    "no ref": (lambda r: pl.load(X, 0), TypeError, "a Ref is needed"),
    "view of picks": (lambda r: r.at[ROWS].at[0], TypeError, "put both indices into one"),
    "atomic of floats": (lambda r: pl.atomic_or(r, 0, 1.0), TypeError, "integers"),
    "cas of many": (lambda r: pl.atomic_cas(r, 0.0, 1.0), TypeError, "one element"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_the_cause_and_the_fix(name):
    use, error, words = BAD[name]
    with pytest.raises(error, match=words):
        use(weft.new_ref(X))


def test_derivatives_and_maps_see_a_refs_present_value():
    ref = weft.new_ref(2.0)
    uses = [weft.grad(lambda x: x * ref[...]), weft.jit(weft.grad(lambda x: x * ref[...]))]
    uses += [weft.jacfwd(lambda x: x * ref[...]), weft.vmap(lambda x: x[0] * ref[...])]
    for value in (2.0, 5.0):
        ref[...] = value
        for use in uses[:3]:
            assert float(use(1.0)) == value
        assert_array_equal(uses[3](np.ones((2, 1), np.float32)), [value, value])


def test_refs_pass_through_derivatives_as_arguments():
    ref = weft.new_ref(np.array([1.0, 4.0], np.float32))

    def f(x, r):
        y = x * r[1]
        r[0] = lax.stop_gradient(y)
        return y

    value, back = weft.vjp(f, 2.0, ref)
    back = back.with_refs(weft.ad.GradValue(), weft.ad.DontWant())
    assert (float(value), float(back(3.0)[0]), float(ref[0])) == (8, 12, 8)
    assert float(weft.grad(weft.checkpoint(f))(5.0, ref)) == 4
    assert float(ref[0]) == 20
    assert weft.eval_shape(f, 1.0, ref).shape == ()


def test_jitted_functions_write_in_the_memory_of_refs_and_of_nothing_else():
    @weft.jit
    def step(r, s):
        before = r[:2]
        r[1] += s[0]
        return before, s[...]

    @weft.jit
    def give(r):
        before = r[...]
        r[0] = 1.0
        return before

    given = jnp.zeros(3)
    ref, other = weft.new_ref(given), weft.new_ref(jnp.ones(2))
    places = ref.unsafe_buffer_pointer(), other.unsafe_buffer_pointer()
    assert places[0] != given.unsafe_buffer_pointer()
    results = [step(ref, other) for _ in range(3)]
    assert places == (ref.unsafe_buffer_pointer(), other.unsafe_buffer_pointer())
    read = ref[...]
    results.append(step(ref, other))
    assert_array_equal(ref[...], [0, 4, 0])
    before = give(ref), give(ref)
    assert_array_equal(before, [[0, 4, 0], [1, 4, 0]])
    for array in (given, read, *before, *(x for pair in results for x in pair)):
        assert not array.is_deleted()
    assert_array_equal(given, [0, 0, 0])
    assert_array_equal(read, [0, 3, 0])
    for i, (before, held) in enumerate(results):
        assert_array_equal(before, [0, i])
        assert_array_equal(held, [1, 1])


def test_a_differentiated_function_may_log_to_a_ref():
    log = weft.new_ref(np.zeros(2, np.float32))

    def loss(x, i):
        y = jnp.sin(x)
        log[i] = lax.stop_gradient(y)
        return y * 2

    assert_allclose(weft.grad(loss)(1.0, 0), 2 * np.cos(1.0), rtol=1e-6)
    assert_allclose(weft.jit(weft.grad(loss))(0.5, 1), 2 * np.cos(0.5), rtol=1e-6)
    assert_allclose(log[...], np.sin([1.0, 0.5]), rtol=1e-6)


def sum_in_a_ref(x, start):
    acc = weft.new_ref(start)

    def body(i, carry):
        acc[...] += x[i]
        return carry

    lax.fori_loop(0, 2, body, None)
    return acc[...][None]


def test_refs_in_shard_map_carry_what_they_vary_over():
    mesh = weft.make_mesh((4,), ("d",), axis_types=(weft.AxisType.Auto,))
    x = np.arange(8, dtype=np.float32)

    def mapped(f, out):
        return weft.jit(weft.shard_map(f, mesh=mesh, in_specs=weft.P("d"), out_specs=out))

    def varying(x):
        return sum_in_a_ref(x, lax.pcast(jnp.float32(0), "d", to="varying"))

    sums = x.reshape(4, 2).sum(1)
    assert_array_equal(mapped(varying, weft.P("d"))(x), sums)
    with pytest.raises(ValueError, match="varies over mesh axis 'd'"):
        mapped(varying, weft.P())(x)
    loss = mapped(lambda x: lax.psum(varying(x)[0] ** 2, "d"), weft.P())
    assert_array_equal(weft.grad(loss)(x), 2 * np.repeat(sums, 2))
    with pytest.raises(
        TypeError, match=r"written to a Ref\{f32\[\]\}.*weft.new_ref\(weft.lax.pcast"
    ):
        mapped(lambda x: sum_in_a_ref(x, 0.0), weft.P("d"))(x)


def test_a_ref_adds_in_place_and_tells_where_it_lies():
    ref = weft.new_ref(np.zeros(3, np.float32))
    ref.addupdate(2.0)
    ref.addupdate(1.0, 1)
    np.testing.assert_array_equal(ref[...], [2, 3, 2])
    assert ref.sharding.device_set == {weft.devices()[0]}
    assert ref.committed is False and ref.unsafe_buffer_pointer() > 0
    with pytest.raises(AttributeError, match=r"weft\.new_ref"):
        _ = ref.at[0:2].sharding
    with pytest.raises(ValueError, match="kind"):
        weft.new_ref(0.0, kind="anything")


def test_what_only_arrays_have_is_refused_with_the_remedy():
    ref = weft.new_ref(jnp.zeros((2, 3)))
    with pytest.raises(AttributeError, match=r"read it first, ref\[\.\.\.\]\.ravel"):
        ref.ravel()
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = ref.colour


def test_a_ref_of_a_number_is_read_as_a_weak_one():
    ref = weft.new_ref(2.0)
    half = jnp.ones(2, jnp.bfloat16)
    assert (ref[...] * half).dtype == jnp.bfloat16
    assert weft.jit(lambda r: r[...] * half)(ref).dtype == jnp.bfloat16
    ref[...] = np.float32(3.0)
    assert weft.typeof(ref[...]).weak_type
    assert weft.typeof(weft.jit(lambda: weft.freeze(weft.new_ref(1)))()).weak_type
    strong = weft.new_ref(np.float32(2.0))
    strong[...] = 3.0
    assert not weft.typeof(strong[...]).weak_type

    def total(x):
        acc = weft.new_ref(0.0)

        def add(i, c):
            acc[...] += x[i]
            return c

        lax.fori_loop(0, 2, add, None)
        return acc[...]

    assert weft.grad(total)(np.ones(2, np.float32)).tolist() == [1.0, 1.0]


def _swapped(ref):
    return weft.ref.swap(ref, ..., ref[...] * 2)


SPLIT = {
    "read": (lambda r: r[...], P("x", None)),
    "columns": (lambda r: r[:, 2:4], P("x", None)),
    "a column": (lambda r: r[:, 1], P("x")),
    "picked columns": (lambda r: r[:, np.array([0, -1])], P("x", None)),
    "half of the rows": (lambda r: r[:8], P("x", None)),
    "added to": (lambda r: (weft.ref.addupdate(r, ..., r[...]), r[...])[1], P("x", None)),
    "swapped": (_swapped, P("x", None)),
    "frozen": (lambda r: weft.freeze(weft.new_ref(r[...])), P("x", None)),
    "jit": (lambda r: weft.jit(lambda r: r[...])(r), P("x", None)),
    "a loop": (
        lambda r: weft.lax.fori_loop(0, 2, lambda i, c: c + r[...], weft.numpy.zeros_like(r[...])),
        P("x", None),
    ),
    "a branch": (
        lambda r: weft.lax.cond(r[:, 0].sum() > 0, lambda: r[...], lambda: r[...]),
        P("x", None),
    ),
    "written whole": (
        lambda r: (r.__setitem__(..., np.ones((16, 8), np.float32)), r[...])[1],
        P("x", None),
    ),
}


@pytest.mark.parametrize("name", SPLIT)
def test_refs_keep_their_explicit_sharding_under_jit(name):
    read, spec = SPLIT[name]
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.sharding.AxisType.Explicit,))
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    outs, types = [], []

    def run(r):
        out = read(r)
        types.append(weft.typeof(out).sharding.spec)
        return out

    with weft.set_mesh(mesh):
        for jit in (lambda f: f, weft.jit):
            ref = weft.new_ref(weft.device_put(x, weft.NamedSharding(mesh, P("x", None))))
            out = jit(run)(ref)
            assert types.pop() == spec and out.sharding.spec == spec
            assert ref[...].sharding.spec == P("x", None)
            outs.append((np.asarray(out), np.asarray(ref[...])))
    np.testing.assert_array_equal(outs[0][0], outs[1][0])
    np.testing.assert_array_equal(outs[0][1], outs[1][1])


def test_what_is_written_to_a_split_ref_is_split():
    mesh = weft.make_mesh((8,), ("x",), axis_types=(weft.sharding.AxisType.Explicit,))
    x = np.arange(16, dtype=np.float32)
    with weft.set_mesh(mesh):
        ref = weft.new_ref(weft.device_put(x, weft.NamedSharding(mesh, P("x"))))
        whole = weft.device_put(x + 1, weft.NamedSharding(mesh, P()))
        ref[...] = whole
        assert ref[...].sharding.spec == P("x")
        weft.jit(lambda r, v: r.__setitem__(..., v * 2))(ref, whole)
        assert ref[...].sharding.spec == P("x")
        np.testing.assert_array_equal(ref[...], 2 * (x + 1))


def test_what_is_written_to_a_ref_without_gradients_has_no_derivative():
    def f(x):
        ref = weft.new_ref(x * x, kind="no_grad_no_remat")
        ref[...] += x
        return ref[...] * x

    for g in (weft.grad(f), weft.jit(weft.grad(f))):
        np.testing.assert_allclose(g(2.0), 6.0)  # of x alone, times x² + x
    log = weft.new_ref(weft.numpy.zeros(()), kind="no_grad_no_remat")

    def logs(x):
        log[...] += x * x
        return log[...] * x

    np.testing.assert_allclose(weft.grad(logs)(3.0), 9.0)
    np.testing.assert_allclose(weft.grad(weft.jit(logs))(3.0), 18.0)
    np.testing.assert_allclose(log[...], 18.0)
    with pytest.raises(ValueError, match="kind must be None or 'no_grad_no_remat', got 'other'"):
        weft.new_ref(0.0, kind="other")
