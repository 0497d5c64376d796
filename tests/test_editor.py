"""What an editor completes and shows, asked of the language server's library jedi."""

import jedi
import pytest

START = """import weft
import weft.numpy as wnp
from weft import lax, P, pallas as pl
x = wnp.ones(3)
mesh = weft.make_mesh((1,), ("x",))
"""


def at_the_end(code: str) -> tuple[jedi.Script, int, int]:
    """A program that ends in `code`, and the place behind it."""
    text = START + code
    lines = text.split("\n")
    return jedi.Script(text, project=jedi.Project(".")), len(lines), len(lines[-1])


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("weft.ji", "jit"),
        ("wnp.lins", "linspace"),
        ("lax.sca", "scan"),
        ("x.at[0].se", "set"),
        ("x.resha", "reshape"),
        ("wnp.sum(x).dty", "dtype"),
        ("weft.jit(abs).low", "lower"),
        ("weft.jit(abs).lower(x).com", "compile"),
        ("weft.comm(abs, x).to_", "to_html"),
        ("weft.make_jaxpr(abs)(x).jax", "jaxpr"),
        ("weft.custom_vjp(abs).defv", "defvjp"),
        ("mesh.axis_na", "axis_names"),
        ("weft.tree.flat", "flatten"),
        ("weft.random.norm", "normal"),
        ("weft.nn.gel", "gelu"),
        ("weft.numpy.fft.ff", "fft"),
        ("wnp.linalg.svd(x).V", "Vh"),
        ("weft.scipy.linalg.cho_", "cho_factor"),
        ("weft.scipy.stats.norm.lo", "logpdf"),
        ("weft.image.resi", "resize"),
        ("weft.ffi.ffi_", "ffi_call"),
        ("weft.checkify.che", "checkify"),
        ("weft.export.exp", "export"),
        ("weft.checkpoints.Man", "Manager"),
        ("weft.distributed.init", "initialize"),
        ("weft.testing.assert_", "assert_comm"),
        ("weft.sharding.Named", "NamedSharding"),
        ("weft.profiler.start_", "start_trace"),
        ("weft.debug.pri", "print"),
        ("weft.errors.Shape", "ShapeError"),
        ("pl.Block", "BlockSpec"),
    ],
)
def test_names_are_completed(code, name):
    script, line, column = at_the_end(code)
    assert name in [c.name for c in script.complete(line, column)]


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        ("wnp.sum(", ("a: ArrayLike", "axis: int | Sequence[int] | None")),
        ("lax.scan(", ("f: Callable[[_Carry, _X]", "init: _Carry")),
        ("weft.jit(", ("static_argnums: int | Sequence[int] | None",)),
        ("weft.grad(", ("fun: Callable[Concatenate[_First, _P], Any]", "has_aux: Literal[False]")),
        ("weft.ffi.ffi_call(", ("target_name: str", "vmap_method: str | None")),
        ("weft.scipy.special.gammaln(", ("x: ArrayLike) -> Array",)),
    ],
)
def test_parameters_and_their_types_are_shown(code, parameters):
    script, line, column = at_the_end(code)
    shown = script.get_signatures(line, column)[0].to_string()
    assert all(p in shown for p in parameters), shown


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("wnp.linspace", "num evenly spaced values"),
        ("weft.jit", "Compile a function with XLA"),
        ("weft.tree.map", "The tree with each leaf replaced"),
        ("weft.Mesh", "Mesh(devices: Any, axis_names: Sequence[Any] | str"),
        ("weft.checkpoints.save", "save("),
    ],
)
def test_a_name_shows_its_documentation(code, text):
    script, line, column = at_the_end(code)
    assert text in script.help(line, column)[0].docstring()
