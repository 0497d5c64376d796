"""Tracing: jaxprs, sources, leaks, values that are not known."""

import copy

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.jaxpr import eval_closed, walk_eqns


def test_a_jaxpr_prints_one_typed_equation_a_line():
    jaxpr = weft.make_jaxpr(lambda x, y: lax.mul(lax.sin(x), y))(np.ones(3, np.float32), 2.0)
    assert str(jaxpr) == (
        "{ lambda ; a:f32[3] b:f32[]. let\n"
        "    c:f32[3] = sin a\n"
        "    d:f32[3] = mul c b\n"
        "  in (d,) }"
    )


def test_a_copied_traced_value_is_the_value():
    def f(x):
        y = x * 2
        copied = copy.deepcopy({"x": x, "y": [y]})
        return copied["x"] * copied["y"][0] + copy.copy(y)

    for g in (f, weft.jit(f)):
        assert float(g(3.0)) == 24 and float(weft.grad(g)(3.0)) == 14
    np.testing.assert_array_equal(weft.vmap(f)(np.arange(3.0)), [0, 4, 12])


def test_names_go_on_after_z():
    def f(x):
        for _ in range(28):
            x = lax.sin(x)
        return x

    assert "aa:f32[] = sin z" in str(weft.make_jaxpr(f)(1.0))


def test_every_equation_knows_the_users_line():
    def f(x):
        y = lax.sin(x)
        return lax.cos(y)

    first = f.__code__.co_firstlineno
    jaxpr = weft.make_jaxpr(f)(1.0)
    assert [e.source.line - first for e in jaxpr.eqns] == [1, 2]
    assert all(e.source.file == __file__ for e in jaxpr.eqns)
    assert jaxpr.eqns[0].source.function.endswith("f")


def test_derived_equations_keep_the_line_of_their_origin():
    def f(x):
        return lax.sin(x)

    jaxpr = weft.make_jaxpr(weft.grad(weft.jit(f)))(1.0)
    inner = [e for e in walk_eqns(jaxpr) if e.primitive.name == "mul"]
    assert {e.source.line for e in inner} == {f.__code__.co_firstlineno + 1}


def test_named_scopes_reach_sources_and_the_lowered_program():
    def f(x):
        with weft.named_scope("outer"), weft.named_scope("inner"):
            return lax.sin(x)

    assert weft.make_jaxpr(f)(1.0).eqns[0].source.scopes == ("outer", "inner")
    text = weft.jit(f).lower(1.0).as_text(debug_info=True)
    assert "outer/inner/sin" in text and "test_trace.py" in text


def test_a_jaxpr_evaluates_to_what_the_function_gives():
    x = np.linspace(0, 1, 5, dtype=np.float32)
    jaxpr = weft.make_jaxpr(lambda x: lax.add(lax.exp(x), 1.0))(x)
    np.testing.assert_allclose(eval_closed(jaxpr, x)[0], np.exp(x) + 1, rtol=1e-6)


def test_arrays_become_constants_and_scalars_literals():
    c = np.arange(3.0, dtype=np.float32)
    jaxpr = weft.make_jaxpr(lambda x: lax.add(lax.mul(x, 2.0), c))(c)
    assert len(jaxpr.consts) == 1 and jaxpr.consts[0] is c
    assert "mul b 2.0:f32[]" in str(jaxpr)


def test_a_leaked_tracer_is_reported_with_the_line_that_made_it():
    kept = []

    @weft.jit
    def f(x):
        y = lax.sin(x)
        kept.append(y)
        return y

    f(1.0)
    line = f.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(weft.errors.UnexpectedTracerError, match=rf"test_trace\.py:{line}"):
        lax.cos(kept[0])
    with pytest.raises(weft.errors.UnexpectedTracerError, match="ended"):
        weft.jit(lambda x: lax.add(x, kept[0]))(1.0)


def test_check_tracer_leaks_names_value_line_and_holder():
    kept = []

    class Holder:
        value = None

    def outer(x):
        def body(carry, item):
            Holder.last = carry * 2
            return carry, item

        kept.append(x + 1)
        return lax.scan(body, x, None, length=2)[0]

    x = np.ones(3, np.float32)
    with weft.check_tracer_leaks(True):
        with pytest.raises(weft.errors.UnexpectedTracerError) as caught:
            weft.jit(outer)(x)
        line = outer.__code__.co_firstlineno + 2
        assert f"f32[3], made at {__file__}:{line} (" in str(caught.value)
        assert "body" in str(caught.value) and "1 traced value can still" in str(caught.value)
        del Holder.last
        kept.clear()

        with pytest.raises(weft.errors.UnexpectedTracerError, match=r"held by: list\nReturn"):
            weft.jit(lambda y: kept.append(y * 3) or y)(x)
        kept.clear()
        fine = weft.jit(lambda y: weft.grad(lambda z: weft.checkpoint(lax.sin)(z).sum())(y))
        np.testing.assert_allclose(fine(x), np.cos(x), rtol=1e-6)
    weft.jit(lambda y: kept.append(y * 3) or y)(x)  # unchecked unless asked for


@pytest.mark.parametrize(
    ("transform", "type_"),
    [
        (weft.grad, "f32[3]"),
        (lambda f: weft.vmap(f), "f32[]"),
        (lambda f: lambda x: weft.jvp(f, (x,), (x,)), "f32[3]"),
        (lambda f: lambda x: weft.linearize(f, x), "f32[3]"),
        (lambda f: weft.jit(weft.grad(f)), "f32[3]"),
    ],
)
def test_check_tracer_leaks_looks_at_every_transformation(transform, type_):
    kept = []

    def leak(x):
        kept.append(x * 3)
        return x.sum()

    x = np.ones(3, np.float32)
    line = leak.__code__.co_firstlineno + 1
    with weft.check_tracer_leaks(True):
        with pytest.raises(weft.errors.UnexpectedTracerError) as caught:
            transform(leak)(x)
        assert f"{type_}, made at {__file__}:{line} (" in str(caught.value)
        kept.clear()
        transform(lambda x: (x * 3).sum())(x)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (bool, "TracerBoolConversionError", "lax.cond"),
        (int, "ConcretizationTypeError", "static"),
        (range, "TracerIntegerConversionError", "fori_loop"),
        (float, "ConcretizationTypeError", "debug.print"),
        (np.asarray, "TracerArrayConversionError", "pure_callback"),
    ],
)
def test_asking_a_traced_value_for_its_value_says_what_to_do(use, error, words):
    with pytest.raises(getattr(weft.errors, error), match=words):
        weft.jit(lambda x: use(x))(1)


def test_values_are_known_while_differentiating_eagerly():
    def f(x):
        return x * x if x > 0 else -x

    assert float(weft.grad(f)(3.0)) == 6.0
    assert float(weft.grad(f)(-3.0)) == -1.0


def test_what_is_not_an_array_is_refused_with_its_type():
    with pytest.raises(TypeError, match=r"str.*static"):
        weft.jit(lambda x: x)("hello")
    with pytest.raises(TypeError, match="pytree"):
        lax.sin(object())


def test_typeof_tells_the_type_of_any_value():
    assert weft.typeof(1).str_short() == "i32[]" and weft.typeof(1).weak_type
    assert weft.typeof(np.ones(2)).str_short() == "f32[2]"
    assert weft.typeof(wnp.ones((2, 3), "int8")).str_short() == "i8[2,3]"


def test_tracing_leaves_the_collector_as_it_was():
    import gc

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        weft.make_jaxpr(lambda x: 1 / 0)(1.0)
    assert gc.isenabled()


def test_tracing_makes_no_reference_cycles():
    import gc

    def f(x):
        return lax.sin(lax.mul(x, x))

    weft.make_jaxpr(weft.grad(f))(1.0)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            weft.make_jaxpr(weft.grad(f))(1.0)
        after = len(gc.get_objects())
    finally:
        gc.enable()
    assert after - before < 500


@pytest.mark.parametrize(
    "name", ["devices", "is_deleted", "addressable_shards", "is_fully_replicated", "tobytes"]
)
def test_what_only_arrays_on_devices_have_says_so_of_traced_values(name):
    def f(x):
        member = getattr(x, name)
        return member()

    with pytest.raises(weft.errors.ConcretizationTypeError, match=f"{name} .*f32.2.*an argument"):
        weft.jit(f)(np.ones(2, np.float32))
