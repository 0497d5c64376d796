"""Functions of a module have names of their own."""

import numpy as np

import weft


def test_names_that_are_made_do_not_meet_names_that_are_given():
    def f(x):
        return x + 1

    def f_1(x):
        return x * 5

    plus = weft.jit(f)  # f, and for the other type f_1
    g = weft.jit(lambda x: weft.jit(f_1)(plus(plus(x.astype("int32")).astype("float32"))))
    np.testing.assert_array_equal(g(np.float32(2)), 20)
