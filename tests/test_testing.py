"""assert_comm: budgets that hold, and what a failure tells."""

import numpy as np
import pytest

import weft
from weft import NamedSharding, P
from weft.testing import assert_comm, check_grads, check_jvp


@pytest.fixture
def rows():
    mesh = weft.sharding.AbstractMesh((8,), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    return weft.ShapeDtypeStruct((64, 16), np.float32, sharding=sharding)


def total(x):
    return weft.numpy.sum(x, axis=0)


def test_a_program_within_its_budget_passes(rows):
    assert_comm(total, (rows,), all_reduce=1, max_bytes="112 B")


def test_kinds_that_are_not_named_must_not_occur(rows):
    with pytest.raises(AssertionError, match=r"- all_reduce: 0\n\+ all_reduce: 1"):
        assert_comm(total, (rows,))
    assert_comm(total, (rows,), exact=False)


def test_a_failure_shows_counts_bytes_and_the_whole_table(rows):
    with pytest.raises(AssertionError) as caught:
        assert_comm(total, (rows,), all_gather=1, max_bytes="100 B")
    text = str(caught.value)
    assert "- all_gather: 1\n+ all_gather: 0" in text
    assert "- at most 100 B sent per device\n+ 112 B sent per device" in text
    assert "test_testing.py" in text and "why: reduce" in text


def test_a_kind_that_does_not_exist_is_refused(rows):
    with pytest.raises(TypeError, match="'allreduce' is not a kind of collective; the kinds are"):
        assert_comm(total, (rows,), allreduce=1)


def test_a_size_without_a_unit_that_exists_is_refused(rows):
    with pytest.raises(ValueError, match="write a number and a unit"):
        assert_comm(total, (rows,), all_reduce=1, max_bytes="3 megs")


def test_a_golden_is_written_on_request_and_compared(rows, tmp_path, monkeypatch):
    path = tmp_path / "goldens" / "total.txt"
    with pytest.raises(AssertionError, match="does not exist; WEFT_UPDATE_GOLDENS=1 writes it"):
        assert_comm(total, (rows,), golden=path)
    monkeypatch.setenv("WEFT_UPDATE_GOLDENS", "1")
    assert_comm(total, (rows,), golden=path)
    monkeypatch.delenv("WEFT_UPDATE_GOLDENS")
    # Eight devices sum 16 numbers of 4 bytes: each sends 2 · 7/8 · 64 bytes.
    [line] = path.read_text().splitlines()
    assert line.startswith("all_reduce") and "112 B" in line and "× 1" in line
    assert_comm(total, (rows,), golden=path)
    with pytest.raises(AssertionError, match=r"- all_reduce(.|\n)*\+ all_reduce"):
        assert_comm(lambda x: weft.numpy.sum(x), (rows,), golden=path)
    with pytest.raises(AssertionError, match="at most 1 B"):
        assert_comm(total, (rows,), golden=path, max_bytes=1)


def test_static_and_keyword_arguments_reach_the_function(rows):
    function = lambda x, *, scale: total(x) * scale
    assert_comm(function, (rows,), {"scale": 2.0}, all_reduce=1)


def _square_jvp(factor):
    return lambda primals, tangents: (primals[0] ** 2, factor * primals[0] * tangents[0])


def _square_vjp(factor):
    return lambda x: (x**2, lambda ct: (factor * x * ct,))


@pytest.mark.parametrize(
    ("check", "rule"),
    [(weft.testing.check_jvp, _square_jvp), (weft.testing.check_vjp, _square_vjp)],
)
def test_rules_of_ones_own_are_checked_against_differences(check, rule):
    x = np.array([0.5, -1.5], np.float32)
    check(lambda x: x**2, rule(2), (x,))
    with pytest.raises(AssertionError, match="of the square"):
        check(lambda x: x**2, rule(3), (x,), err_msg="of the square")
    with pytest.raises(AssertionError, match="value"):
        check(lambda x: x**2 + 1, rule(2), (x,))


@pytest.mark.parametrize("f", [lambda z: z * z * 1j, lambda z: weft.numpy.abs(z) ** 2])
def test_derivatives_of_complex_numbers_are_checked_in_all_directions(f):
    """Passes where nothing raises: the derivatives are right."""
    check_grads(f, (np.complex64([0.5 + 0.25j, -1 + 2j]),), order=1)


def test_a_rule_that_is_right_for_real_directions_only_is_found():
    @weft.custom_jvp
    def square(z):
        return z * z

    @square.defjvp
    def _rule(primals, tangents):
        (z,), (t,) = primals, tangents
        return z * z, 2 * z * weft.numpy.conj(t)

    with pytest.raises(AssertionError):
        check_grads(square, (np.complex64(0.5 + 0.25j),), modes="fwd")


def test_tolerances_may_depend_on_the_dtype():
    x = np.float32(3)
    sloppy = weft.custom_jvp(lambda x: x * x)
    sloppy.defjvp(lambda primals, tangents: (sloppy(*primals), 6.2 * tangents[0]))
    check_grads(sloppy, (x,), modes="fwd", rtol={np.float32: 0.1}, atol={"float32": 0.1})
    for rtol in ({np.float64: 0.1}, {np.float32: 1e-3}):
        with pytest.raises(AssertionError):
            check_grads(sloppy, (x,), modes="fwd", rtol=rtol, atol=1e-3)
    with pytest.raises(TypeError, match="a dict from dtypes to numbers"):
        check_grads(sloppy, (x,), rtol={"no dtype": 1})


def test_functions_that_bend_too_much_for_the_first_step_pass():
    def f(x):
        return weft.numpy.where(x < 0.5005, x, 1000.0 * x)

    check_grads(f, (np.float32(0.5),), modes="fwd")
    with pytest.raises(AssertionError):
        check_grads(f, (np.float32(0.5),), modes="fwd", eps=1e-2)
    with pytest.raises(AssertionError):
        check_jvp(f, lambda xs, ts: (f(*xs), 2 * ts[0]), (np.float32(0.5),))


def test_derivatives_that_are_nan_do_not_pass():
    with pytest.raises(AssertionError):
        check_grads(lambda x: weft.numpy.sqrt(x - 1), (np.float32(0.0),), modes=("rev",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"modes": ("forward",)}, "modes are 'fwd', 'rev'"),
        ({"modes": ()}, "modes are 'fwd', 'rev'"),
        ({"order": 0}, "order must be 1 or more"),
        ({"args": ()}, "args holds no arrays"),
    ],
)
def test_what_would_check_nothing_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        check_grads(**{"f": weft.numpy.sin, "args": (0.5,), **arguments})


@weft.custom_jvp
def wrong(x):
    return x


wrong.defjvp(lambda primals, tangents: (primals[0], tangents[0] * 1.01))


def test_differences_are_taken_in_the_precision_that_numbers_are_computed_with():
    def f(a, b):
        return 2 * (2 * a + b) + 3 * (3 * a + b / 2)

    for args in ((3.0, 4.0), (np.float64(3), np.float64(4))):
        check_grads(f, args, modes=("rev",), atol=2e-3, rtol=2e-3)
        with pytest.raises(AssertionError):
            check_grads(lambda a, b: wrong(f(a, b)), args, modes=("rev",), atol=2e-3, rtol=2e-3)


def test_functions_of_native_code_may_write_to_the_arrays_of_differences():
    writeable = []

    def f(x):
        if isinstance(x, np.ndarray):
            writeable.append(x.flags.writeable)
        return x * x

    check_grads(f, (weft.numpy.ones(3),), order=1)
    assert writeable and all(writeable)
