"""What an editor completes and shows, asked of the language server's library jedi: `make types`.

python -m tests.types.editor
"""

from __future__ import annotations

import sys

import jedi

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


COMPLETED = [
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
]
"""What is typed, and a name that is offered then."""

PARAMETERS: list[tuple[str, tuple[str, ...]]] = [
    ("wnp.sum(", ("a: ArrayLike", "axis: int | str | Sequence[int | str] | None")),
    ("lax.scan(", ("f: Callable[[_Carry, _X]", "init: _Carry")),
    ("weft.jit(", ("static_argnums: int | Sequence[int] | None",)),
    ("weft.grad(", ("fun: Callable[Concatenate[_First, _P], Any]", "has_aux: Literal[False]")),
    ("weft.ffi.ffi_call(", ("target_name: str", "vmap_method: str | None")),
    ("weft.scipy.special.gammaln(", ("x: ArrayLike) -> Array",)),
]
"""A call that has begun, and what is shown of its parameters."""

DOCUMENTED = [
    ("wnp.linspace", "num evenly spaced values"),
    ("weft.jit", "Compile a function with XLA"),
    ("weft.tree.map", "Apply f to every leaf of a tree"),
    ("weft.Mesh", "Mesh(devices: Any, axis_names: Sequence[Any] | str"),
    ("weft.checkpoints.save", "save("),
]
"""A name, and what is shown for it."""


def completed(code: str) -> str:
    script, line, column = at_the_end(code)
    return "\n".join(c.name for c in script.complete(line, column))


def parameters(code: str) -> str:
    script, line, column = at_the_end(code)
    return script.get_signatures(line, column)[0].to_string()


def documentation(code: str) -> str:
    script, line, column = at_the_end(code)
    return script.help(line, column)[0].docstring()


def main() -> int:
    """Print the positions where an editor shows something else; return how many there are."""
    rows = [(completed, code, name) for code, name in COMPLETED]
    rows += [(parameters, code, text) for code, texts in PARAMETERS for text in texts]
    rows += [(documentation, code, text) for code, text in DOCUMENTED]
    wrong = 0
    for ask, code, text in rows:
        shown = ask(code)
        if text not in (shown.split("\n") if ask is completed else shown):
            wrong += 1
            print(f"{code}: {text!r} is not in {shown[:300]!r}")
    print(f"{len(rows)} positions, {wrong} differences")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main()))
