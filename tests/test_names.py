"""weft has JAX's public names, parameters, defaults and members, or a reason not to."""

import functools
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests import names_left_out as left_out
from tests.oracle.instances import instances

FOLDER = Path(__file__).parent / "oracle"
MODULES: dict = {}
MEMBERS: dict = {}
for _group, _owner, _name, _parameters in json.loads((FOLDER / "names.json").read_text())["names"]:
    {"modules": MODULES, "members": MEMBERS}[_group].setdefault(_owner, {})[_name] = _parameters


def module(name):
    return importlib.import_module(f"weft.{name}".rstrip("."))


def shown(default):
    """A default as names.json writes it, None for one that is no plain value."""
    if default is inspect.Parameter.empty:
        return ""
    plain = default is None or isinstance(default, bool | int | float | complex | str)
    empty = isinstance(default, tuple | list | dict | frozenset) and not default
    return repr(default) if type(default).__module__ == "builtins" and (plain or empty) else None


def differences(owner, name, value, expected):
    """What a caller of JAX's function would stumble over."""
    given = list(inspect.signature(value).parameters.values())
    kinds = {p.kind for p in given}
    own = {p.name: p for p in given}
    takes_all = {"*": inspect.Parameter.VAR_POSITIONAL in kinds}
    takes_all["**"] = inspect.Parameter.VAR_KEYWORD in kinds
    positional = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    reasons = left_out.PARAMETERS.get(f"{owner}.{name}".lstrip("."), {})
    place = 0
    for parameter, kind, default in expected:
        if kind.startswith("VAR_"):
            continue
        by_position = kind.startswith("POSITIONAL")
        index, place = place, place + by_position
        private = parameter.startswith("_")
        if private or parameter in left_out.OMITTED or parameter in reasons:
            continue
        if parameter not in own:
            if kind == "POSITIONAL_ONLY" and (takes_all["*"] or index < len(positional)):
                continue
            if takes_all["**"]:  # fields to be replaced
                continue
            yield f"lacks {parameter}"
            continue
        if by_position and not takes_all["*"] and positional[index : index + 1] != [parameter]:
            yield f"takes {parameter} at another place"
        if kind != "POSITIONAL_ONLY" and own[parameter].kind is inspect.Parameter.POSITIONAL_ONLY:
            yield f"takes {parameter} by position only"
        got = shown(own[parameter].default)
        if default and default != got and default != "?" and got is not None:
            yield f"{parameter} is {got or 'required'}, JAX's {default or 'required'}"
    known = {parameter for parameter, _, _ in expected}
    if not any(kind.startswith("VAR_") for _, kind, _ in expected):
        for p in given:
            needed = p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            if needed and p.name not in known and p.name not in positional[:place]:
                yield f"requires {p.name}"


def forwarded(kind, name, member):
    """The function of weft.numpy that a method hands its array to, for what it takes beside it."""
    hides = {p.name for p in inspect.signature(member).parameters.values()} == {"args", "kwargs"}
    if kind not in ("Array", "Tracer") or not hides:
        return member
    return functools.partial(getattr(weft.numpy, name), member)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_name_exists_or_has_a_reason(name):
    missing = {n for n in MODULES[name] if not hasattr(module(name), n)}
    assert missing == set(left_out.NAMES.get(name, {}))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_functions_take_jaxs_parameters_with_jaxs_defaults(name):
    wrong = {}
    for n, expected in MODULES[name].items():
        absent = n in left_out.NAMES.get(name, {}) or n in left_out.NO_SIGNATURE
        if expected is not None and not absent:
            found = list(differences(name, n, getattr(module(name), n), expected))
            if found:
                wrong[n] = found
    assert not wrong


@pytest.fixture(scope="module")
def objects():
    return instances(weft)


@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_objects_have_jaxs_members_with_jaxs_parameters(kind, objects):
    value = objects[kind]
    reasons = left_out.MEMBERS.get(kind, {})
    missing, wrong = set(), {}
    for name, expected in MEMBERS[kind].items():
        try:
            member = getattr(value, name)
        except AttributeError:
            missing.add(name)
            continue
        except Exception:
            continue  # there, but not for this object
        if expected is not None:
            if not callable(member):
                wrong[name] = ["is no method"]
            elif found := list(differences(kind, name, forwarded(kind, name, member), expected)):
                wrong[name] = found
    assert missing == set(reasons)
    assert not wrong


def test_the_names_recorded_are_those_of_jax():
    check = [sys.executable, str(FOLDER / "names.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", weft._ELSEWHERE)
def test_names_of_jax_that_are_missing_say_what_to_use(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; use "):
        getattr(weft, name)
