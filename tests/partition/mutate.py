"""Spoils the shardings of a module's text at random: what users and buggy tools might write."""

from __future__ import annotations

import re

import numpy as np


def mutate(rng: np.random.Generator, text: str) -> str:
    """One to three random edits of shardings, meshes, shapes and attributes."""
    for _ in range(int(rng.integers(1, 3))):
        edits = (_axis, _double, _drop_dim, _add_dim, _sub_axis, _mesh_size, _mesh_name, _priority)
        edits += (_group, _barrier, _unreduced, _replicated, _manual, _swap_op)
        text = edits[rng.integers(len(edits))](rng, text)
    return text


def _sub(rng: np.random.Generator, text: str, pattern: str, make) -> str:
    """Replaces one random match."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    m = found[rng.integers(len(found))]
    return text[: m.start()] + make(m) + text[m.end() :]


def _axis(rng, text):
    return _sub(rng, text, r'"[xyz]"', lambda m: str(rng.choice(['"x"', '"y"', '"z"', '"nope"'])))


def _double(rng, text):
    return _sub(rng, text, r'\{"x"\}', lambda m: '{"x", "x"}')


def _drop_dim(rng, text):
    return _sub(rng, text, r"<@mesh, \[\{[^}]*\}(, )?", lambda m: "<@mesh, [")


def _add_dim(rng, text):
    return _sub(rng, text, r"<@mesh, \[(?=\{)", lambda m: "<@mesh, [{}, ")


def _sub_axis(rng, text):
    return _sub(
        rng, text, r'"x"(?=[,}])', lambda m: f'"x":({rng.integers(0, 5)}){rng.integers(0, 9)}'
    )


def _mesh_size(rng, text):
    return _sub(rng, text, r'"x"=\d+', lambda m: f'"x"={rng.integers(0, 12)}')


def _mesh_name(rng, text):
    return _sub(rng, text, r"<@mesh, ", lambda m: "<@other, ")


def _priority(rng, text):
    return _sub(rng, text, r"\}(?=[,\]])", lambda m: f"}}p{rng.integers(0, 4)}")


def _value_line(rng, text, make):
    """Adds a statement behind a random definition of an f32 value in the main block."""
    found = list(re.finditer(r"\n    (%v\d+) = [^\n]*?(tensor<[\dx]*f32>)\n", text))
    if not found:
        return text
    m = found[rng.integers(len(found))]
    return text[: m.end()] + "    " + make(m[1], m[2]) + "\n" + text[m.end() :]


def _group(rng, text):
    return _value_line(
        rng, text, lambda v, t: f"sdy.sharding_group {v} group_id={rng.integers(2)} : {t}"
    )


def _barrier(rng, text):
    n = rng.integers(10**6)
    direction = rng.choice(["NONE", "FORWARD", "BACKWARD"])
    return _value_line(
        rng,
        text,
        lambda v, t: f"%b{n} = sdy.propagation_barrier {v} allowed_direction={direction} : {t}",
    )


def _unreduced(rng, text):
    return _sub(rng, text, r"\](?=>( :|\}))", lambda m: '], unreduced={"x"}')


def _replicated(rng, text):
    return _sub(rng, text, r"\](?=>( :|\}))", lambda m: '], replicated={"y"}')


def _manual(rng, text):
    n = rng.integers(10**6)
    return _value_line(
        rng,
        text,
        lambda v, t: (
            f"%m{n} = sdy.manual_computation({v}) in_shardings=[<@mesh, []>] "
            f'out_shardings=[<@mesh, []>] manual_axes={{"x"}} (%q{n}: {t}) {{\n'
            f"      sdy.return %q{n} : {t}\n    }} : ({t}) -> {t}"
        ),
    )


def _swap_op(rng, text):
    return _sub(
        rng,
        text,
        r"stablehlo\.(add|maximum|negate|abs)",
        lambda m: "stablehlo.custom_call @unknown",
    )
