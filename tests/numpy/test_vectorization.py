"""Functions applied piece by piece: derivatives where a piece that is not chosen has none."""

import numpy as np
import pytest

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


def test_core_dimensions_named_by_digits_have_any_size():
    total = wnp.vectorize(lambda x: x.sum(), signature="(2)->()")
    assert np.array_equal(total(np.ones((4, 3), np.float32)), np.full(4, 3))


def test_arguments_that_are_none_are_passed_as_they_are():
    add = wnp.vectorize(lambda a, b, *, c: a + c if b is None else b)
    assert np.array_equal(add(np.arange(3), None, c=np.ones((2, 1))), [[1, 2, 3]] * 2)
    total = wnp.vectorize(lambda a, b: a.sum() if b is None else b, signature="(n),()->()")
    assert np.array_equal(total(np.ones((2, 3)), None), [3, 3])
    with pytest.raises(ValueError, match=r"operand 0 is None, but has the core dimensions"):
        total(None, np.ones(2))


def test_what_is_excluded_is_a_position_or_a_name():
    with pytest.raises(TypeError, match=r"positions and names, got 1\.5"):
        wnp.vectorize(lambda a: a, excluded={1.5})
    with pytest.raises(ValueError, match="positions and names, got -1"):
        wnp.vectorize(lambda a: a, excluded={-1})
    scaled = wnp.vectorize(lambda n, a, k: a * n + k, excluded={0, "k"})
    assert np.array_equal(scaled(2, np.arange(3), k=1), [1, 3, 5])


def test_vectorized_functions_hold_to_the_option_of_rank_promotion():
    with (
        weft.numpy_rank_promotion("raise"),
        pytest.raises(ValueError, match=r"\(2, 3\).*\(3,\)"),
    ):
        wnp.vectorize(lambda a, b: a + b)(np.ones((2, 3)), np.ones(3))
