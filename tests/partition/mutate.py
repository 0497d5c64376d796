"""Spoils the shardings of a module's text at random: what users and buggy tools might write.

Some edits break rules that the verifier knows; others keep them and go on to Shardy's passes.
"""

from __future__ import annotations

import re

import numpy as np


def mutate(rng: np.random.Generator, text: str) -> str:
    """One to three random edits of shardings, meshes, shapes and attributes."""
    broken = (_axis, _double, _drop_dim, _add_dim, _sub_axis, _mesh_size, _mesh_name, _priority)
    broken += (_unreduced, _replicated, _manual)
    legal = (_mesh_size, _group, _groups, _barrier, _resharded, _resharded, _constraint, _region)
    legal += (_call, _devices, _second_mesh, _result)
    for _ in range(int(rng.integers(1, 4))):
        edits = broken if rng.random() < 0.15 else legal
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


# -- edits that the verifier accepts ---------------------------------------------------------------


def _mesh(text: str) -> dict[str, int]:
    line = re.search(r"sdy\.mesh @mesh = <\[([^\]]*)\]", text)
    return {k: int(n) for k, n in re.findall(r'"(\w+)"=(\d+)', line[1])} if line else {}


def _spec(rng: np.random.Generator, text: str, rank: int) -> str:
    """A sharding that the verifier accepts: axes and pieces of them, open dims, priorities, …"""
    pieces = []
    for axis, size in _mesh(text).items():
        cuts = [k for k in range(2, size) if size % k == 0]
        if cuts and rng.random() < 0.4:
            cut = int(rng.choice(cuts))
            pieces += [f'"{axis}":(1){cut}', f'"{axis}":({cut}){size // cut}']
        elif size > 1:
            pieces.append(f'"{axis}"')
    pieces = [str(p) for p in rng.permutation(pieces)] if pieces else []
    dims: list[list[str]] = [[] for _ in range(rank)]
    left = []
    for piece in pieces:
        if rank and rng.random() < 0.6:
            dims[rng.integers(rank)].append(piece)
        else:
            left.append(piece)
    entries = []
    for dim in dims:
        names = dim + (["?"] if rng.random() < 0.3 else [])
        entries.append("{" + ", ".join(names) + "}")
        if names and rng.random() < 0.3:
            entries[-1] += f"p{rng.integers(4)}"
    extra = ""
    left = [piece for piece in left if ":" not in piece]
    if left and rng.random() < 0.3:
        extra = f", {rng.choice(['replicated', 'unreduced'])}={{{left[0]}}}"
    return f"<@mesh, [{', '.join(entries)}]{extra}>"


def _rank(kind: str) -> int:
    return kind.count("x")


def _resharded(rng, text):
    """Another sharding where one is."""

    def other(m):
        return _spec(rng, text, m[1].count("{")) + m[2]

    return _sub(rng, text, r"<@mesh, \[((?:\{[^}]*\}(?:, )?)*)\]>( : tensor|\})", other)


def _constraint(rng, text):
    """A constraint on a value, which all that come later use."""
    found = list(re.finditer(r"\n    (%v\d+) = [^\n]*?(tensor<[\dx]*[fi]32>)\n", text))
    if not found:
        return text
    m = found[rng.integers(len(found))]
    name, made = m[1], f"%c{rng.integers(10**6)}"
    rest = re.sub(rf"{name}\b", made, text[m.end() :]) if rng.random() < 0.7 else text[m.end() :]
    line = f"    {made} = sdy.sharding_constraint {name} {_spec(rng, text, _rank(m[2]))} : {m[2]}\n"
    return text[: m.end()] + line + rest


def _groups(rng, text):
    """A value in several groups, or several values in one."""
    for _ in range(int(rng.integers(2, 5))):
        text = _group(rng, text)
    return text


def _region(rng, text):
    """A manual computation over one axis, on a value that the axis splits or not."""
    axes = [(k, n) for k, n in _mesh(text).items() if n > 1]
    if not axes:
        return text
    axis, size = axes[rng.integers(len(axes))]
    number = rng.integers(10**6)

    def make(value, kind):
        shape = [int(n) for n in re.findall(r"(\d+)x", kind)]
        places = [d for d, n in enumerate(shape) if n % size == 0]
        local, dims = list(shape), ["{}"] * len(shape)
        if places and rng.random() < 0.8:
            d = int(rng.choice(places))
            local[d] //= size
            dims[d] = f'{{"{axis}"}}'
        inner = "tensor<" + "".join(f"{n}x" for n in local) + "f32>"
        spec = f"<@mesh, [{', '.join(dims)}]>"
        return (
            f"%m{number} = sdy.manual_computation({value}) in_shardings=[{spec}] "
            f'out_shardings=[{spec}] manual_axes={{"{axis}"}} (%q{number}: {inner}) {{\n'
            f"      %n{number} = stablehlo.negate %q{number} : {inner}\n"
            f"      sdy.return %n{number} : {inner}\n    }} : ({kind}) -> {kind}"
        )

    return _value_line(rng, text, make)


def _call(rng, text):
    """A call without a rule, or with one that shares, reduces or keeps whole its factors."""
    number = rng.integers(10**6)

    def make(value, kind):
        shape = [int(n) for n in re.findall(r"(\d+)x", kind)]
        rule = ""
        if shape and rng.random() < 0.7:
            names = [chr(ord("i") + d) for d in range(len(shape))]
            dims, sizes = (
                ", ".join(names),
                ", ".join(f"{k}={n}" for k, n in zip(names, shape, strict=True)),
            )
            kinds = ("", " need_replication={i}", " permutation={i}", " blocked_propagation={i}")
            extra = str(rng.choice(kinds))
            rule = (
                f" {{sdy.sharding_rule = #sdy.op_sharding_rule<([{dims}])->([{dims}])"
                f" {{{sizes}}}{extra}, custom>}}"
            )
        call = f"stablehlo.custom_call @unknown({value}){rule}"
        return f"%u{number} = {call} : ({kind}) -> {kind}"

    return _value_line(rng, text, make)


def _devices(rng, text):
    """The mesh's devices in another order."""
    count = int(np.prod(list(_mesh(text).values()), dtype=np.int64))
    order = ", ".join(str(i) for i in rng.permutation(count))
    return re.sub(r"(sdy\.mesh @mesh = <\[[^\]]*\])>", rf"\1, device_ids=[{order}]>", text, count=1)


def _second_mesh(rng, text):
    """A mesh of the same devices with other axes, and a constraint that uses it."""
    count = int(np.prod(list(_mesh(text).values()), dtype=np.int64))
    if "@other" in text or count < 2:
        return text
    text = text.replace("  func.func", f'  sdy.mesh @other = <["w"={count}]>\n  func.func', 1)

    def make(value, kind):
        dims = ["{}"] * _rank(kind)
        if dims:
            dims[rng.integers(len(dims))] = '{"w"}'
        spec = f"<@other, [{', '.join(dims)}]>"
        return f"%w{count} = sdy.sharding_constraint {value} {spec} : {kind}"

    return _value_line(rng, text, make)


def _result(rng, text):
    """A sharding on the function's result."""

    def make(m):
        return f"-> ({m[1]} {{sdy.sharding = #sdy.sharding{_spec(rng, text, _rank(m[1]))}}})"

    return re.sub(r"-> \((tensor<[\dx]*[fi]32>)\)(?= \{\n)", make, text, count=1)
