"""Typed keys behave as arrays do: under transformations, in containers, on devices."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weft
from weft import random
from weft.sharding import AxisType

wnp, lax = weft.numpy, weft.lax


def words(keys):
    return np.asarray(random.key_data(keys))


@pytest.fixture
def keys():
    return random.split(random.key(0), 6)


def test_a_key_shows_its_dtype_and_words():
    key = random.key(7)
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[0 7]"
    assert key.shape == () and key.ndim == 0 and key.size == 1 and key.nbytes == 8
    assert isinstance(key, weft.Array)
    assert weft.dtypes.issubdtype(key.dtype, weft.dtypes.prng_key)
    assert weft.dtypes.issubdtype(key.dtype.type, weft.dtypes.prng_key)
    assert weft.dtypes.issubdtype(weft.dtypes.prng_key, weft.dtypes.extended)
    assert not weft.dtypes.issubdtype(weft.dtypes.extended, weft.dtypes.prng_key)
    assert key.dtype == random.key(8).dtype != random.key(7, impl="rbg").dtype
    assert str(weft.typeof(key)) == "key<fry>[]"


def test_seeds_of_any_kind_give_the_same_key():
    expected = words(random.key(5))
    for seed in (np.int32(5), np.uint8(5), wnp.int32(5)):
        np.testing.assert_array_equal(words(random.key(seed)), expected)
    np.testing.assert_array_equal(words(weft.jit(random.key)(5)), expected)
    np.testing.assert_array_equal(random.PRNGKey(5), expected)


def test_a_64_bit_seed_fills_both_words():
    with weft.enable_x64(True):
        np.testing.assert_array_equal(words(random.key((3 << 32) + 4)), [3, 4])
        np.testing.assert_array_equal(words(random.key(np.int64((3 << 32) + 4))), [3, 4])


def test_raw_words_stand_for_keys_and_come_back_raw():
    raw = random.PRNGKey(3)
    typed = random.wrap_key_data(raw)
    assert random.split(raw).dtype == np.uint32
    np.testing.assert_array_equal(random.split(raw), words(random.split(typed)))
    np.testing.assert_array_equal(random.fold_in(raw, 1), words(random.fold_in(typed, 1)))
    np.testing.assert_array_equal(random.uniform(raw, (3,)), random.uniform(typed, (3,)))


STRUCTURE = {
    "index": lambda x: x[2],
    "negative index": lambda x: x[-1],
    "slice": lambda x: x[1:5:2],
    "reversed": lambda x: x[::-1],
    "new axis": lambda x: x[:, None],
    "ellipsis": lambda x: x[..., 0],
    "array index": lambda x: x[np.array([3, 1])],
    "mask": lambda x: x[np.array([True, False] * 3)],
    "reshape": lambda x: x.reshape(2, 3),
    "ravel": lambda x: x.reshape(2, 3).ravel(),
    "transpose": lambda x: x.reshape(2, 3).T,
    "squeeze": lambda x: x[:1].squeeze(),
    "concatenate": lambda x: wnp.concatenate([x[:2], x[3:]]),
    "stack": lambda x: wnp.stack([x[0], x[1]]),
    "where": lambda x: wnp.where(np.array([True, False] * 3), x, x[::-1]),
    "broadcast": lambda x: wnp.broadcast_to(x[0], (2, 2)),
    "take": lambda x: wnp.take(x, np.array([0, 5]), 0),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (np.int32(1),), (3,)),
    "update": lambda x: lax.dynamic_update_slice(x, x[:1], (np.int32(2),)),
    "set": lambda x: x.at[1].set(x[0]),
}
ON_WORDS = {
    "squeeze": lambda x: x[0],
    "ravel": lambda x: x,
    "reshape": lambda x: x.reshape(2, 3, 2),
    "transpose": lambda x: x.reshape(2, 3, 2).swapaxes(0, 1),
    "ellipsis": lambda x: x[0],
    "concatenate": lambda x: np.concatenate([x[:2], x[3:]]),
    "stack": lambda x: np.stack([x[0], x[1]]),
    "where": lambda x: np.where(np.array([True, False] * 3)[:, None], x, x[::-1]),
    "broadcast": lambda x: np.broadcast_to(x[0], (2, 2, 2)),
    "take": lambda x: x[[0, 5]],
    "dynamic slice": lambda x: x[1:4],
    "update": lambda x: np.concatenate([x[:2], x[:1], x[3:]]),
    "set": lambda x: np.concatenate([x[:1], x[:1], x[2:]]),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_structural_functions_move_keys_as_a_whole(name, keys):
    fun = STRUCTURE[name]
    expected = ON_WORDS.get(name, fun)(words(keys))
    np.testing.assert_array_equal(words(weft.jit(fun)(keys)), expected)
    np.testing.assert_array_equal(words(fun(keys)), expected)


def test_keys_compare_element_by_element(keys):
    np.testing.assert_array_equal(keys == keys[::-1], [False] * 6)
    np.testing.assert_array_equal(weft.jit(lambda x: x != x[0])(keys), [False] + [True] * 5)


def test_iteration_gives_single_keys(keys):
    a, b, *rest = keys
    assert a.shape == () and len(rest) == 4
    np.testing.assert_array_equal(words(b), words(keys)[1])
    with pytest.raises(TypeError, match="split"):
        iter(a)


def test_keys_copy_and_pickle(keys):
    for other in (copy.copy(keys), copy.deepcopy(keys), pickle.loads(pickle.dumps(keys))):
        assert other.dtype is keys.dtype
        np.testing.assert_array_equal(words(other), words(keys))


def test_vmap_draws_for_each_key_what_it_gives_alone(keys):
    rows = weft.vmap(lambda k: random.normal(k, (3,)))(keys)
    np.testing.assert_allclose(rows[4], random.normal(keys[4], (3,)), rtol=1e-6)
    folded = weft.vmap(random.fold_in)(keys, wnp.arange(6))
    np.testing.assert_array_equal(words(folded[2]), words(random.fold_in(keys[2], 2)))


def test_keys_are_carried_by_loops_and_branches():
    def by_hand(key, n):
        draws = []
        for _ in range(n):
            key, sub = random.split(key)
            draws.append(random.bits(sub))
        return key, np.stack(draws)

    def step(key, _):
        key, sub = random.split(key)
        return key, random.bits(sub)

    key, draws = by_hand(random.key(1), 3)
    last, scanned = lax.scan(step, random.key(1), None, length=3)
    np.testing.assert_array_equal(scanned, draws)
    np.testing.assert_array_equal(words(last), words(key))
    looped = lax.fori_loop(0, 3, lambda i, k: random.split(k)[0], random.key(1))
    np.testing.assert_array_equal(words(looped), words(key))
    chosen = lax.cond(True, lambda k: random.fold_in(k, 1), lambda k: k, key)
    np.testing.assert_array_equal(words(chosen), words(random.fold_in(key, 1)))


def test_a_derivative_passes_keys_by():
    def f(x, key):
        return wnp.sum(x * random.uniform(key, (3,)))

    key, x = random.key(0), np.ones(3, np.float32)
    np.testing.assert_allclose(weft.grad(f)(x, key), random.uniform(key, (3,)), rtol=1e-6)
    _, tangent = weft.jvp(lambda x: f(x, key), (x,), (x,))
    np.testing.assert_allclose(tangent, np.sum(random.uniform(key, (3,))), rtol=1e-6)


def test_keys_go_to_devices_and_are_split_over_them(keys):
    mesh = weft.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    rows = weft.NamedSharding(mesh, weft.P("x"))
    placed = weft.device_put(keys, rows)
    assert placed.sharding.is_equivalent_to(rows, 1)
    assert placed.addressable_shards[0].data.shape == (3,)
    drawn = weft.jit(weft.vmap(lambda k: random.bits(k, (2,))))(placed)
    np.testing.assert_array_equal(drawn, weft.vmap(lambda k: random.bits(k, (2,)))(keys))


def test_sharded_samples_are_those_of_one_device():
    mesh = weft.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    split = weft.NamedSharding(mesh, weft.P("x", "y"))
    x = random.uniform(random.key(3), (8, 6), out_sharding=split)
    assert x.sharding.is_equivalent_to(split, 2)
    np.testing.assert_array_equal(x, random.uniform(random.key(3), (8, 6)))


def test_keys_work_inside_shard_map():
    mesh = weft.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    keys = random.split(random.key(0), 2)
    draw = weft.shard_map(
        lambda k: random.normal(k[0], (1, 3)),
        mesh=mesh,
        in_specs=weft.P("x"),
        out_specs=weft.P("x"),
    )
    expected = weft.vmap(lambda k: random.normal(k, (3,)))(keys)
    np.testing.assert_allclose(draw(keys), expected, rtol=1e-6)


BAD = {
    "unknown generator": (lambda: random.key(0, impl="mt"), ValueError, "threefry2x32"),
    "float seed": (lambda: random.key(1.5), TypeError, "integer"),
    "array seed": (lambda: random.key(np.arange(2)), TypeError, "vmap"),
    "huge seed": (lambda: random.key(1 << 70), OverflowError, "64 bits"),
    "impl and dtype": (
        lambda: random.key(0, impl="rbg", dtype=random.key_dtype("rbg")),
        ValueError,
        "not both",
    ),
    "no key": (lambda: random.normal(3, (2,)), TypeError, "weft.random.key"),
    "many keys": (
        lambda: random.normal(random.split(random.key(0)), (2,)),
        ValueError,
        "vmap",
    ),
    "shape of no integers": (lambda: random.normal(random.key(0), 2.5), TypeError, "tuple"),
    "int dtype": (lambda: random.uniform(random.key(0), (), "int32"), ValueError, "float dtype"),
    "parameters do not fit": (
        lambda: random.gamma(random.key(0), np.ones(3, "f4"), (2,)),
        ValueError,
        "broadcast",
    ),
    "addition": (lambda: random.key(0) + 1, TypeError, "."),
    "to numpy": (lambda: np.asarray(random.key(0)), TypeError, "key_data"),
    "truth": (lambda: bool(random.key(0)), TypeError, "truth"),
    "words of a wrong size": (
        lambda: random.wrap_key_data(np.zeros(3, "uint32")),
        TypeError,
        "last dimension of 2",
    ),
    "other generator": (
        lambda: wnp.stack([random.key(0), random.key(0, impl="rbg")]),
        (TypeError, ValueError),
        "random keys .* do not mix",
    ),
    "poisson of rbg": (
        lambda: random.poisson(random.key(0, impl="rbg"), 1.0),
        ValueError,
        "threefry2x32",
    ),
    "too many without replacement": (
        lambda: random.choice(random.key(0), 3, (4,), replace=False),
        ValueError,
        "replace=True",
    ),
    "p of a wrong shape": (
        lambda: random.choice(random.key(0), 3, (2,), p=np.ones(2, "f4")),
        ValueError,
        r"\(3,\)",
    ),
    "bernoulli of an integer": (lambda: random.bernoulli(random.key(0), 1), TypeError, "float"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_argument_is_named(name):
    call, error, words_of_it = BAD[name]
    with pytest.raises(error, match=words_of_it):
        call()


def test_an_integer_is_the_shape_of_a_vector():
    key = random.key(0)
    np.testing.assert_array_equal(random.normal(key, 3), random.normal(key, (3,)))
    assert random.gamma(key, 2.0, 3).shape == random.randint(key, 3, 0, 5).shape == (3,)


def test_arrays_of_keys_take_the_parameters_of_arrays_methods():
    keys = weft.random.split(weft.random.key(0), 4)
    words = np.asarray(weft.random.key_data(keys))
    same = keys.reshape(2, 2, copy=True).astype(keys.dtype).transpose(1, 0)
    np.testing.assert_array_equal(
        weft.random.key_data(same), words.reshape(2, 2, 2).transpose(1, 0, 2)
    )
    assert keys.on_device_size_in_bytes() == words.nbytes and keys.unsafe_buffer_pointer() > 0


def test_multinomial_counts_are_whole_numbers_where_asked_for():
    p = np.array([0.2, 0.3, 0.5], np.float32)
    counts = random.multinomial(random.key(42), 20, p, dtype=np.int32)
    assert counts.dtype == np.int32 and int(counts.sum()) == 20
    np.testing.assert_array_equal(counts, random.multinomial(random.key(42), 20, p))
    with pytest.raises(ValueError, match="multinomial: dtype must be a float or integer dtype"):
        random.multinomial(random.key(0), 20, p, dtype=bool)


@pytest.mark.parametrize("wide", [False, True])
def test_poisson_counts_come_in_unsigned_dtypes(wide):
    dtype = np.uint64 if wide else np.uint32
    with weft.enable_x64(wide):
        counts = random.poisson(random.key(3), np.array([0.5, 40.0]), (2000, 2), dtype=dtype)
    assert counts.dtype == dtype
    np.testing.assert_allclose(np.asarray(counts).mean(0), [0.5, 40.0], rtol=0.1)


@pytest.mark.parametrize("index", [0, (0, 0), np.int32(0), slice(None), (slice(None), None, 0)])
def test_a_single_key_has_no_dimension_to_index(index, keys):
    for take in (lambda k: k[index], weft.jit(lambda k: k[index])):
        with pytest.raises(IndexError, match="too many indices"):
            take(keys[0])
    with pytest.raises(IndexError, match="too many indices"):
        keys[(0, index) if not isinstance(index, tuple) else (0, *index)]


def test_the_layout_of_counters_is_the_one_set_where_a_program_is_traced(keys):
    def both(k):
        with weft.threefry_partitionable(False):
            old = random.bits(k, (3,))
        return old, random.bits(k, (3,))

    with weft.threefry_partitionable(False):
        old = random.bits(keys[1], (3,))
    new = random.bits(keys[1], (3,))
    assert (np.asarray(old) != np.asarray(new)).any()
    for run in (both, weft.jit(both), weft.jit(weft.jit(both)), weft.checkpoint(both)):
        got = run(keys[1])
        np.testing.assert_array_equal(got[0], old)
        np.testing.assert_array_equal(got[1], new)
    np.testing.assert_array_equal(weft.jit(weft.vmap(both))(keys)[0][1], old)


def test_pickled_keys_may_be_what_a_process_begins_with(tmp_path):
    file = tmp_path / "keys.pickle"
    kept = [random.key(0), random.key(7, impl="rbg").dtype]
    file.write_bytes(pickle.dumps(kept))
    program = (
        "import pickle, sys; key, dtype = pickle.load(open(sys.argv[1], 'rb')); import weft; "
        "print(key.dtype, dtype, weft.random.key_data(key).tolist())"
    )
    command = [sys.executable, "-c", program, str(file)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    assert out.split() == ["key<fry>", "key<rbg>", "[0,", "0]"]


def test_bounds_may_have_dimensions_of_size_1_that_the_shape_has_not(keys):
    low, high = np.full((1, 1), 2.0, np.float32), np.full((1,), 3.0, np.float32)
    sample = np.asarray(weft.random.uniform(keys[0], (), minval=low, maxval=high))
    assert sample.shape == (1, 1) and 2 <= sample.item() < 3
    np.testing.assert_allclose(sample.item() - 2, weft.random.uniform(keys[0]), atol=1e-6)


def test_the_cipher_of_a_derived_key_is_compiled_once():
    def dropped(key):
        x = wnp.ones(1000)
        for _ in range(6):
            key, drawn_with = random.split(key)
            x = wnp.where(random.bernoulli(drawn_with, 0.5, x.shape), x * 2, 0)
        return x

    text = weft.jit(dropped).lower(random.key(0)).compile().as_text()
    assert text.count(" shift-left(") <= 12 * 20  # six splits and six draws, of 20 rounds each


@pytest.mark.parametrize("data", [2.7, np.float64(2), np.float32(2.5), wnp.float32(2), np.int64(2)])
def test_the_whole_part_of_a_number_is_folded_in(data):
    key = random.key(0)
    assert random.fold_in(key, data) == random.fold_in(key, 2)
    assert weft.jit(random.fold_in)(key, data) == random.fold_in(key, 2)
    with pytest.raises(TypeError, match="must be an integer"):
        random.fold_in(key, 1j)
