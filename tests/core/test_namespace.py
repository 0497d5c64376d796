"""Public functions raise with the user's frames only, and are themselves in every other respect."""

import functools
import importlib
import inspect
import pickle
import traceback
import types

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.namespace import public, seal, with_example
from weft.core.source import is_internal_file

NAMESPACES = (
    *sorted(weft._PACKAGES),
    *("numpy.linalg", "numpy.fft", "lax.linalg", "nn.initializers"),
)


def module(name):
    return importlib.import_module(f"weft.{name}")


def functions(name):
    for member in dir(module(name)):
        value = getattr(module(name), member)
        if isinstance(value, types.FunctionType | functools.partial):
            yield member, value


class Unsuitable:
    """No array, no tree, no number: what no function computes with."""

    def __bool__(self):
        raise TypeError("unsuitable")

    __index__ = __iter__ = __len__ = __hash__ = __bool__


def printed(call):
    """What a user prints who catches what the call raises, and the files of its frames."""
    try:
        call()
    except Exception as e:
        frames = [frame.filename for frame in traceback.extract_tb(e.__traceback__)]
        return traceback.format_exc(), frames
    return None, []


@pytest.mark.parametrize(
    "name", ["numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "random", "tree"]
)
def test_what_functions_raise_shows_no_frame_of_weft(name):
    shown, raised = {}, 0
    for member, function in functions(name):
        required = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        arguments = [Unsuitable() for _ in required]
        text, frames = printed(lambda f=function, a=arguments: f(*a))
        raised += text is not None
        if any(is_internal_file(file) for file in frames):
            shown[member] = frames
    assert not shown
    assert raised >= 5


X = np.ones(3, np.float32)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: wnp.add(X, np.ones(4)), "Incompatible shapes"),
        (lambda: wnp.add.reduce(X, axis=2), "out of bounds"),
        (lambda: wnp.linalg.inv(X), "square"),
        (lambda: weft.lax.add(wnp.ones(3), wnp.ones(4)), "equal shapes"),
        (lambda: weft.nn.softmax(X, axis=3), "out of bounds"),
        (lambda: weft.random.normal(3), "weft.random.key"),
        (lambda: weft.tree.map(lambda a, b: a, [1], [1, 2]), "the trees differ"),
        (lambda: weft.jit(lambda x: wnp.dot(x, wnp.ones(4)))(X), "4"),
        (lambda: weft.device_put(object()), "object"),
    ],
)
def test_a_caught_error_prints_only_lines_of_the_user(call, words):
    text, _ = printed(call)
    assert words in text
    files = {line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')}
    assert files == {__file__}


def test_frames_of_weft_are_shown_on_demand():
    try:
        weft.config.update("traceback_filtering", "off")
        _, frames = printed(lambda: wnp.add(X, np.ones(4)))
    finally:
        weft.config.update("traceback_filtering", "auto")
    assert any(file.endswith("promote.py") for file in frames)


def test_lines_of_functions_that_weft_calls_back_stay():
    def inner(x):
        raise KeyError("mine")

    _, frames = printed(lambda: weft.tree.map(inner, [1]))
    assert frames == [__file__] * 3


def test_public_functions_keep_name_signature_and_docstring():
    def original(a, /, b, *rest, c, d=4, **more):
        """Adds."""
        return a, b, rest, c, d, more

    made = public(original, "weft.somewhere")
    assert made.__name__ == made.__qualname__.split(".")[-1] == "original"
    assert (made.__module__, made.__doc__) == ("weft.somewhere", "Adds.")
    assert inspect.signature(made) == inspect.signature(original)
    assert made(1, 2, 3, c=5, e=6) == (1, 2, (3,), 5, 4, {"e": 6})
    assert public(original, "weft.somewhere") is made
    assert public(made, "weft.elsewhere") is made


def test_missing_arguments_are_named_as_ever():
    with pytest.raises(TypeError, match=r"sin\(\) missing 1 required positional argument: 'x'"):
        wnp.sin()
    assert str(inspect.signature(wnp.arctan2)) == "(x1: 'ArrayLike', x2: 'ArrayLike', /) -> 'Any'"


@pytest.mark.parametrize("name", ["numpy", "lax", "nn", "random", "tree", "numpy.fft"])
def test_public_functions_are_pickled_by_name(name):
    found = [function for _, function in functions(name)]
    assert len(found) > 4
    assert all(pickle.loads(pickle.dumps(function)) is function for function in found)


def test_aliases_are_one_function():
    assert wnp.abs is wnp.absolute
    assert wnp.asin is wnp.arcsin
    assert weft.pallas.ds is weft.pallas.dslice


def test_equations_come_from_the_users_line():
    def f(x):
        return wnp.sin(x)

    (eqn,) = weft.make_jaxpr(f)(X).jaxpr.eqns
    assert eqn.source.file == __file__
    assert eqn.source.line == f.__code__.co_firstlineno + 1
    assert weft.jit(wnp.sin).__name__ == "sin"


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespaces_list_their_public_names_alone(name):
    space = module(name)
    assert list(dir(space)) == sorted(space.__all__)
    for member in dir(space):
        # The array API standard names two that are for programs.
        assert not member.startswith("_") or member.startswith("__array_")
        value = getattr(space, member)
        home = getattr(value, "__name__", "") if inspect.ismodule(value) else "weft."
        assert home.startswith("weft.")
    foreign = {"Any", "Callable", "Sequence", "annotations", "np", "import_module", "seal"}
    assert not foreign & set(dir(space))


def test_a_sealed_module_has_its_functions_wrapped_and_the_rest_as_it_was():
    scope = {"__name__": "weft.room", "__all__": ["double", "SIZE"], "SIZE": 3, "_own": abs}
    scope["double"] = original = lambda x: 2 * x
    seal(scope, examples={"double": ">>> double(2)\n4"})
    assert scope["__dir__"]() == ["SIZE", "double"]
    assert scope["double"](4) == 8
    assert scope["double"].__wrapped__ is original
    assert scope["double"].__name__ == "double"
    assert scope["double"].__doc__.endswith("    >>> double(2)\n    4\n    ")
    assert (scope["SIZE"], scope["_own"]) == (3, abs)


def test_an_example_ends_a_docstring():
    assert with_example("Adds.", ">>> 1 + 1\n2") == "Adds.\n\n    >>> 1 + 1\n    2\n    "
    assert with_example("Adds.", None) == "Adds."


MESH = weft.make_mesh((8,), ("x",))


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.NamedSharding(MESH, weft.P("y")),
        lambda: weft.P("x", "x"),
        lambda: weft.Mesh(np.array(weft.devices()), ("a", "b")),
        lambda: weft.set_mesh(3),
        lambda: wnp.float32("a"),
        lambda: wnp.r_["q", 1],
        lambda: weft.pallas.BlockSpec("a", 3),
        lambda: weft.ShapeDtypeStruct("a", 3),
        lambda: weft.nn.initializers.he_normal()(weft.random.key(0), (3,)),
        lambda: wnp.vectorize(lambda a, b: a)(wnp.ones(2), wnp.ones(3)),
        lambda: weft.config.update("nothing", 3),
        lambda: weft.enable_x64("perhaps"),
        lambda: weft.named_scope(3),
        lambda: bool(wnp.ones(2)),
        lambda: range(wnp.ones(2)),
        lambda: len(wnp.float32(1)),
        lambda: hash(wnp.ones(2)),
        lambda: list(wnp.float32(1)),
    ],
)
def test_classes_made_functions_and_conversions_of_arrays_are_boundaries_too(call):
    text, frames = printed(call)
    assert text is not None
    assert not any(map(is_internal_file, frames))


def test_classes_stay_what_they_are():
    assert str(inspect.signature(weft.NamedSharding)).startswith("(mesh")
    sharding = weft.NamedSharding(MESH, weft.P("x"))
    assert weft.NamedSharding(MESH, weft.P("x")) is sharding
    assert pickle.loads(pickle.dumps(weft.P("x", None))) == weft.P("x", None)
    assert isinstance(weft.ShapeDtypeStruct((2,), "int8"), weft.ShapeDtypeStruct)
