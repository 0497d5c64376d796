"""Making arrays."""

import enum

import numpy as np
import pytest

import weft
import weft.numpy as jnp


class _Boxed:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("name", ["__weft_array__", "__jax_array__"])
def test_objects_say_what_array_they_stand_for(name):
    kind = type("Boxed", (_Boxed,), {name: lambda self: jnp.asarray(self.value)})
    box = kind(np.arange(3, dtype=np.float32))
    x = jnp.arange(3.0)
    for got in (jnp.multiply(box, 2), x + box, box.value + jnp.array(box), weft.lax.add(box, box)):
        np.testing.assert_array_equal(got, [0, 2, 4])
    np.testing.assert_array_equal(jnp.stack([box, x]), [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(x[kind(np.array([2, 0]))], [2, 0])
    np.testing.assert_array_equal(x.at[1].set(kind(np.float32(7))), [0, 7, 2])
    np.testing.assert_array_equal(weft.jit(lambda x: jnp.sum(kind(x)))(box), 3)
    np.testing.assert_array_equal(weft.device_put(box), [0, 1, 2])
    slope = weft.grad(lambda x: jnp.sum(jnp.asarray(kind(x)) ** 2))
    np.testing.assert_array_equal(slope(x), [0, 2, 4])
    slope = weft.grad(lambda x: jnp.sin(kind(x)))(2.0)
    np.testing.assert_allclose(slope, np.cos(2), rtol=1e-6)


KEYS = weft.random.split(weft.random.key(3), 3)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_keys_are_filled_with_words(name, wrap):
    words = np.full((2, 2), name == "ones", np.uint32)
    like = getattr(jnp, f"{name}_like")
    described = weft.ShapeDtypeStruct((2,), KEYS.dtype)
    for make in (
        lambda: getattr(jnp, name)(2, KEYS.dtype),
        lambda: like(KEYS[:2]),
        lambda: like(described),
        lambda: like(KEYS, shape=2),
        lambda: jnp.full(2, int(name == "ones"), KEYS.dtype),
    ):
        keys = wrap(make)()
        assert keys.dtype == KEYS.dtype
        np.testing.assert_array_equal(weft.random.key_data(keys), words)


def test_keys_are_copied_stacked_and_repeated():
    words = np.asarray(weft.random.key_data(KEYS))
    for made, want in (
        (jnp.array(KEYS), words),
        (jnp.asarray(KEYS), words),
        (jnp.copy(KEYS), words),
        (jnp.array([KEYS[0], KEYS[2]]), words[[0, 2]]),
        (jnp.full_like(KEYS, KEYS[1]), words[[1, 1, 1]]),
        (weft.jit(jnp.array)(KEYS), words),
    ):
        np.testing.assert_array_equal(weft.random.key_data(made), want)


def test_described_arrays_are_filled():
    described = weft.ShapeDtypeStruct((2, 3), "bfloat16")
    for made, value in (
        (jnp.zeros_like(described), 0),
        (jnp.ones_like(described), 1),
        (jnp.full_like(described, 3), 3),
        (weft.lax.full_like(described, 3), 3),
    ):
        assert made.dtype == "bfloat16"
        np.testing.assert_array_equal(np.asarray(made, np.float32), np.full((2, 3), value))
    assert weft.lax.full_like(described, 3, "int8", (4,)).dtype == "int8"


def test_float0_has_shapes_only():
    for made in (
        jnp.zeros((3,), weft.float0),
        jnp.zeros_like(np.zeros(3, weft.float0)),
        weft.lax.full_like(np.zeros(3, weft.float0), 0),
        jnp.asarray(np.zeros(3, weft.float0)),
        jnp.array(np.zeros(3, weft.float0)),
        jnp.broadcast_to(np.zeros((), weft.float0), (3,)),
        weft.device_put(np.zeros(3, weft.float0)),
        weft.jit(lambda: jnp.array(np.zeros(3, weft.float0)))(),
    ):
        assert made.shape == (3,) and made.dtype == weft.float0


def test_enumerations_of_integers_and_kinds_of_floats_are_numbers():
    class Step(enum.IntEnum):
        FIRST = 1
        LAST = 2

    class Length(float):
        pass

    x = jnp.arange(3.0)
    got = {
        "array": jnp.array([[Step.FIRST], [Step.LAST]]),
        "product": x * Step.LAST,
        "comparison": jnp.arange(3) == Step.FIRST,
        "selection": jnp.where(x > 0, Step.FIRST, Step.LAST),
        "argument": weft.jit(lambda s: s + x)(Step.LAST),
        "result": weft.vmap(lambda v: v * Step.LAST)(x),
        "index": x.at[Step.FIRST].set(Step.LAST)[Step.FIRST],
        "float": weft.grad(lambda v: v * v)(Length(3.0)),
        "placed": weft.device_put(Step.LAST),
    }
    want = [[[1], [2]], [0, 2, 4], [0, 1, 0], [2, 1, 1], [2, 3, 4], [0, 2, 4], 2, 6, 2]
    for (name, value), expected in zip(got.items(), want, strict=True):
        np.testing.assert_array_equal(value, expected, err_msg=name)
    assert got["array"].dtype == np.int32 and got["product"].dtype == np.float32


def test_a_class_of_shapes_is_a_shape():
    class Shape:
        def __iter__(self):
            return iter((2, 3))

    shape = Shape()
    for make in (jnp.zeros, jnp.empty, lambda s: jnp.full(s, 1), lambda s: jnp.broadcast_to(1, s)):
        assert make(shape).shape == (2, 3)
    for sample in (weft.random.uniform, weft.random.bits, weft.random.rademacher):
        assert sample(weft.random.key(0), shape).shape == (2, 3)
    with pytest.raises(TypeError, match="must consist of integers"):
        jnp.zeros(object())


@pytest.mark.parametrize("bounds", [(0, 5, 0.5), (10, 0, -2.5), (0, 7, 1.5), (0.5, 4.7), (5.7,)])
def test_arange_of_integers_with_fractions_is_numpys(bounds):
    for dtype in (np.int32, np.int8, np.uint16):
        got = jnp.arange(*bounds, dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, np.arange(*bounds, dtype=dtype))


CREATED = {
    "zeros": lambda: jnp.zeros((4, 4)),
    "full": lambda: jnp.full((4, 4), 2.0),
    "eye": lambda: jnp.eye(4),
    "tri": lambda: jnp.tri(4, 4),
    "arange": lambda: jnp.arange(4),
    "arange_steps": lambda: jnp.arange(1, 9, 2),
    "linspace": lambda: jnp.linspace(0.0, 1.0, 4),
    "logspace": lambda: jnp.logspace(0, 2, 4),
    "geomspace": lambda: jnp.geomspace(1.0, 8.0, 4),
    "indices": lambda: jnp.tril_indices(3)[0],
    "fftfreq": lambda: jnp.fft.fftfreq(8),
    "window": lambda: jnp.hanning(8),
    "random": lambda: weft.random.normal(weft.random.key(0), (4,)),
}


@pytest.mark.parametrize("name", CREATED)
@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_created_arrays_are_on_the_mesh_in_context(name, wrap):
    """A spec has an entry for each dimension, as those of ops over explicit axes have."""
    expected = np.asarray(CREATED[name]())
    explicit = (weft.sharding.AxisType.Explicit,)
    with weft.set_mesh(weft.make_mesh((2, 1), ("x", "y"), axis_types=explicit * 2)):
        x = wrap(CREATED[name])()
        assert x.sharding.mesh == weft.get_mesh()
        assert tuple(x.sharding.spec) == (None,) * x.ndim
        assert tuple((x + x).sharding.spec) == (None,) * x.ndim
    np.testing.assert_array_equal(x, expected)
    assert len(x.devices()) == 2


def test_texts_are_parsed_where_a_dtype_is_given():
    for value in (["1.5", "2"], [["1", b"2"], ["3", "4"]], "1.5", np.array(["1.5"]), [b"1.5", 2]):
        np.testing.assert_array_equal(jnp.array(value, "float32"), np.array(value, "float32"))
    with pytest.raises(TypeError, match="not a number"):
        jnp.array(["1.5", "2"])
    with pytest.raises(ValueError, match="a number is needed"):
        jnp.array(["a"], "float32")


def test_what_has_a_shape_tells_it():
    class Spans:
        shape = (3, 2)

    assert (jnp.shape(Spans()), jnp.ndim(Spans()), jnp.size(Spans())) == ((3, 2), 2, 6)
    assert (jnp.shape(None), jnp.shape(1.0), jnp.shape([[1], [2]])) == ((), (), (2, 1))


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
@pytest.mark.parametrize("ends", [(0.1, 0.7), (0.3 + 0.2j, 0.7 + 1j)])
def test_ranges_between_arrays_are_as_precise_as_their_dtype(name, ends):
    for dtype, rtol in (("float32", 1e-6), ("float64", 4e-15)):
        dtype = np.result_type(dtype, "complex64" if isinstance(ends[0], complex) else dtype)
        start, stop = (np.asarray(x, dtype) for x in ends)
        expected = getattr(np, name)(start, stop, 31)
        with weft.enable_x64(True):
            space = lambda a, b: getattr(jnp, name)(a, b, 31)
            for f in (space, weft.jit(space)):
                out = f(jnp.asarray(start), jnp.asarray(stop))
                assert out.dtype == dtype
                np.testing.assert_allclose(out, expected, rtol=rtol)


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.array([1.0, 2.0]),
        lambda: jnp.asarray(np.ones(2, np.float32)),
        lambda: jnp.array(np.ones(2)),
        lambda: jnp.asarray(3),
        lambda: jnp.float32(3),
        lambda: weft.random.key_data(weft.random.key(0)),
    ],
)
def test_values_of_the_host_go_to_the_mesh_that_is_set(make):
    mesh = weft.make_mesh((8,), ("x",))
    with weft.set_mesh(mesh):
        x = make()
        assert x.sharding.is_fully_replicated and x.sharding.mesh == mesh and x.committed
    np.testing.assert_array_equal(x, make())
    assert make().sharding.device_set == {weft.devices()[0]}
