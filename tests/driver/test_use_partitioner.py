"""Who partitions: the option, the argument of jit, the announced fallback, refusals."""

import warnings

import numpy as np
import pytest

import weft
from weft import NamedSharding, P


@pytest.fixture
def mesh():
    return weft.make_mesh((8,), ("x",), (weft.AxisType.Auto,))


def rows(mesh):
    return NamedSharding(mesh, P("x"))


@pytest.mark.parametrize("who", ["auto", "weft", "xla"])
def test_results_do_not_depend_on_the_partitioner(mesh, who):
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    function = lambda a: (weft.numpy.cumsum(a, 0), a @ a.T)
    sums, products = weft.jit(function, in_shardings=rows(mesh), partitioner=who)(x)
    np.testing.assert_allclose(np.asarray(sums), x.cumsum(0), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(products), x @ x.T, rtol=1e-6)


def test_the_option_is_the_default(mesh):
    def marks():
        text = weft.jit(lambda a: a.sum(), in_shardings=rows(mesh)).lower(np.ones(8, np.float32))
        return "num_partitions=8" in text.compile().as_text()

    with weft.core.config.options["partitioner"]("xla"):
        assert marks()
    assert not marks()  # weft's programs are eight replicas of one


def _doubled_thrice(a):
    return weft.lax.fori_loop(0, 3, lambda i, x: x * 2, a)


def test_what_weft_does_not_cover_is_announced_with_its_op_and_line(mesh, monkeypatch):
    import weft.partition.localize_rules.table  # noqa: F401  fills RULES
    from weft.partition.localize import RULES

    monkeypatch.delitem(RULES, "stablehlo.while")
    function = weft.jit(_doubled_thrice, in_shardings=rows(mesh))
    with pytest.warns(UserWarning, match=r"partitioned by XLA: .*stopped at stablehlo.while") as w:
        got = function(np.ones((16, 4), np.float32))
    np.testing.assert_allclose(np.asarray(got), 8, rtol=1e-6)
    assert "test_use_partitioner.py" in str(w[0].message)


def test_with_partitioner_weft_it_is_an_error(mesh, monkeypatch):
    import weft.partition.localize_rules.table  # noqa: F401  fills RULES
    from weft.partition.localize import RULES

    monkeypatch.delitem(RULES, "stablehlo.while")
    function = weft.jit(_doubled_thrice, in_shardings=rows(mesh), partitioner="weft")
    with pytest.raises(ValueError, match=r"does not cover stablehlo.while at .*'auto'"):
        function(np.ones((16, 4), np.float32))


def test_a_partitioner_that_does_not_exist_is_refused(mesh):
    with pytest.raises(ValueError, match="partitioner"):
        weft.jit(lambda a: a, partitioner="magic")(np.ones(2, np.float32))


def test_a_gathered_product_becomes_a_ring_when_asked(mesh):
    a = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
    b = np.random.default_rng(1).normal(size=(16, 32)).astype(np.float32)

    def run(a, b):
        whole = weft.lax.with_sharding_constraint(a, NamedSharding(mesh, P()))
        return whole @ b

    with weft.core.config.options["overlap_gathers"](True):
        function = weft.jit(run, in_shardings=(rows(mesh), NamedSharding(mesh, P())))
        text = str(function.lower(a, b).stages.local)
        assert "all_gather" not in text and text.count("collective_permute") == 7
        np.testing.assert_allclose(np.asarray(function(a, b)), a @ b, rtol=1e-4, atol=1e-4)


def test_results_that_propagation_splits_unevenly_are_whole(mesh):
    """Arrays have equal parts, so a result of 9 rows over 8 devices is gathered."""
    x = np.arange(16.0, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = weft.jit(lambda a: a[3:12] * 2, in_shardings=rows(mesh))(x)
    np.testing.assert_array_equal(np.asarray(got), x[3:12] * 2)


def test_a_rule_that_fails_is_announced_like_one_that_is_missing(mesh, monkeypatch):
    import weft.partition.localize_rules.table  # noqa: F401  fills RULES
    from weft.partition.localize import RULES

    def broken(lz, op):
        raise KeyError("nothing there")

    monkeypatch.setitem(RULES, "stablehlo.sine", broken)
    function = weft.jit(weft.numpy.sin, in_shardings=rows(mesh))
    with pytest.warns(UserWarning, match=r"stopped at stablehlo.sine .*failed with KeyError"):
        got = function(np.zeros((16, 4), np.float32))
    np.testing.assert_array_equal(np.asarray(got), 0)
