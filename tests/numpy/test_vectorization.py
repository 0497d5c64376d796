"""Functions applied piece by piece: derivatives where a piece that is not chosen has none."""

import numpy as np

import weft
import weft.numpy as wnp


def test_pieces_not_chosen_do_not_reach_the_derivative():
    x = np.array([0.0, -1.0, 2.0, -np.inf], np.float32)
    total = lambda x: wnp.piecewise(x, [x < 0, x > 0], [lambda t: -t, wnp.log, wnp.sqrt]).sum()
    slopes = weft.grad(total)(x)
    np.testing.assert_array_equal(slopes, [np.inf, -1, 0.5, -1])


def test_of_several_conditions_the_last_holds():
    x = np.array([-2.0, 0.5, 3.0], np.float32)
    got = wnp.piecewise(x, [x < 1, x < 0], [lambda t: 10 * t, lambda t: t * t, 7.0])
    np.testing.assert_array_equal(
        got, np.piecewise(x, [x < 1, x < 0], [lambda t: 10 * t, lambda t: t * t, 7.0])
    )


def test_conditions_of_piecewise_may_be_an_array_of_numbers():
    x = np.array([-4, -3, 4, 5])
    three = [False, True, False]
    choices = [lambda t: 0 * t, lambda t: 10 * t, 7]
    want = np.piecewise(x, [np.full(4, c) for c in three], choices)
    np.testing.assert_array_equal(wnp.piecewise(x, wnp.array(three), choices), want)
    np.testing.assert_array_equal(wnp.piecewise(x, wnp.array(x > 0), [1, 2]), [2, 2, 1, 1])


def test_pieces_that_are_numbers_are_of_x_s_type():
    for x in (np.array([-4, -3, 4, 5]), np.array([-4, 2.5, np.nan], np.float32)):
        for conds, pieces in (([x < 0, x > 3], [1, 2.75, -3]), ([x > 3], [True]), ((1, 0), (3, 4))):
            given = [np.broadcast_to(np.asarray(c, bool), x.shape) for c in conds]
            want = np.piecewise(x, given, pieces)
            np.testing.assert_array_equal(wnp.piecewise(wnp.asarray(x), conds, pieces), want)
