"""Making arrays."""

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
    with pytest.raises(TypeError, match="convert it first, weft.numpy.asarray"):
        weft.grad(lambda x: jnp.sin(kind(x)))(2.0)
