"""Parameters of equations as JAX names and writes them, for programs that read jaxprs.

weft's rules take parameters of their own where those are what a rule needs: `over`, a resolved
`AxisGroup`, for JAX's `axis_name` and `axis_index_groups`. `FORMS` says how JAX writes them;
`Eqn.params` shows that, and `bind` takes either.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from weft.compat.finder import installed
from weft.compat.param_form import Form, Value
from weft.core.config import config
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun, walk_eqns
from weft.core.primitive import Primitive
from weft.core.state import state


def params_seen(prim: Any, params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
    """Return an equation's parameters as JAX has them."""
    form = FORMS.get(prim.name)
    if form is None:
        return params
    take_params_of_jax(prim)
    return form.seen(params, operands)


def params_taken(prim: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as weft's rules take them, from either form."""
    form = FORMS.get(prim.name)
    if form is None or not form.is_of_jax(params):
        return params
    return form.taken(prim.name, params)


def shown(jaxpr: Any) -> Any:
    """Return a jaxpr as programs get it, whose primitives' `bind` takes the parameters they see.

    Programs that were written for JAX see JAX's operations only.
    """
    if installed():
        jaxpr = _loaded("weft.compat.spelled", "spelled")(jaxpr)

    def mark() -> None:
        for prim in {eqn.primitive for eqn in walk_eqns(jaxpr)}:
            take_params_of_jax(prim)

    jaxpr.memo("shown", mark)
    return jaxpr


def take_params_of_jax(prim: Any) -> None:
    """Let `bind` of a primitive of weft's take JAX's parameters too."""
    form = FORMS.get(prim.name)
    if form is not None and not hasattr(prim, "takes_params_of_jax"):
        kind: Any = type(prim)
        prim.__class__ = _taking_them(kind, form)


@functools.lru_cache(maxsize=64)
def _taking_them(kind: Any, form: Form) -> Any:
    plain = kind.bind is Primitive.bind
    only_fixed = form.marks

    def bind(self: Any, *args: object, **params: Any) -> Any:
        if form.is_of_jax(params):
            params = form.taken(self.name, params)
        return kind.bind(self, *args, **params)

    def bind_plain(self: Any, *args: object, **params: Any) -> Any:
        # As weft's own, without another call: what is traced most are these.
        if only_fixed.isdisjoint(params):
            return state.trace.process(self, args, params)
        return state.trace.process(self, args, form.taken(self.name, params))

    chosen = bind_plain if plain and only_fixed else bind
    return type(
        kind.__name__, (kind,), {"__slots__": (), "bind": chosen, "takes_params_of_jax": True}
    )


# Values ---------------------------------------------------------------------------------------


def _loaded(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _opened(jaxpr: ClosedJaxpr) -> Any:
    return jaxpr if jaxpr.consts else jaxpr.jaxpr


def _closed(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr
    return jaxpr.memo("closed", lambda: ClosedJaxpr(jaxpr))


def _unspecified(shardings: Sequence[Any]) -> tuple:
    unspecified = _loaded("weft.driver.jit_info", "UNSPECIFIED")
    return tuple(unspecified if s is None else s for s in shardings)


def _specified(shardings: Sequence[Any]) -> tuple:
    unspecified = _loaded("weft.driver.jit_info", "UNSPECIFIED")
    return tuple(None if s is unspecified else s for s in shardings)


def _no_mesh(rule_params: dict, operands: Sequence) -> Any:
    return _loaded("weft.sharding.mesh", "EMPTY_ABSTRACT_MESH")


def _nones(name: str) -> Value:
    """Return None for each argument or result of the inner program."""
    return lambda params, operands: (None,) * len(getattr(params["jaxpr"], name))


def _unconstrained_dims(rule_params: dict, operands: Sequence) -> frozenset:
    unconstrained = _loaded("weft.sharding.spec", "UNCONSTRAINED")
    spec = getattr(rule_params["sharding"], "spec", ())
    return frozenset(i for i, entry in enumerate(spec) if entry is unconstrained)


def _combiner(op: str) -> Value:
    """Return the jaxpr that joins an old and a new element, of the operands' dtype."""

    def make(rule_params: dict, operands: Sequence) -> Any:
        return _combiner_jaxpr(op, operands[0].aval.dtype)

    return make


@functools.lru_cache(maxsize=64)
def _combiner_jaxpr(op: str, dtype: Any) -> Jaxpr:
    prim = _loaded("weft.core.primitive", "PRIMITIVES")[op]
    scalar = _loaded("weft.core.aval", "ShapedArray")((), dtype)
    trace = _loaded("weft.core.trace", "trace_to_jaxpr")
    return trace(lambda x, y: [prim.bind(x, y)], [scalar, scalar], op)[0]


# Collectives ------------------------------------------------------------------------------------


class _Collective(Form):
    """Parameters of a collective: weft's `over` holds JAX's axes, groups and their size."""

    __slots__ = ("axes", "groups", "size")

    def __init__(
        self, axes: str, *, groups: bool = True, size: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.axes, self.groups, self.size = axes, groups, size
        self.marks = frozenset()

    def seen(self, rule_params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
        result = super().seen(rule_params, operands)
        over = result.pop("over")
        result[self.axes] = over.names
        if self.groups:
            result["axis_index_groups"] = over.groups
        if self.size:
            result["axis_size"] = over.group_size
        return result

    def is_of_jax(self, params: dict[str, Any]) -> bool:
        return "over" not in params

    def taken(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        params = dict(params)
        params.pop("axis_size", None)
        groups = params.pop("axis_index_groups", None)
        find = _loaded("weft.collectives.groups", "axis_group_of")
        over = find(name, params.pop(self.axes), groups)
        return {**super().taken(name, params), "over": over}


class _AxisIndex(_Collective):
    """JAX writes one name by itself."""

    __slots__ = ()

    def seen(self, rule_params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
        result = super().seen(rule_params, operands)
        names = result[self.axes]
        return {**result, self.axes: names[0] if len(names) == 1 else names}


# Calls of functions with rules of their own -------------------------------------------------------


_RULES = "weft.compat.rule_params"


def _symbolic_zeros(rule_params: dict, operands: Sequence) -> bool:
    return bool(getattr(getattr(rule_params["call"], "owner", None), "_symbolic_zeros", False))


class _CustomCall(Form):
    """A call that several of JAX's parameters stand for: they hold weft's, by which it is bound."""

    __slots__ = ("rules",)

    def __init__(self, *rules: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rules = rules
        self.marks = frozenset()

    def seen(self, rule_params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
        by_name = _loaded(_RULES, "BY_NAME")
        state: dict[str, Any] = {}
        rules = {name: by_name[name](rule_params, state) for name in self.rules}
        return {**super().seen(rule_params, operands), **rules}

    def is_of_jax(self, params: dict[str, Any]) -> bool:
        return self.rules[0] in params

    def taken(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        held = params[self.rules[0]]
        if not isinstance(held, _loaded(_RULES, "Rules")):
            raise TypeError(
                f"{name}_p.bind: {self.rules[0]} must be that of an equation which weft traced, "
                f"got {type(held).__name__}; call a function with rules instead"
            )
        rest = {n: v for n, v in params.items() if n not in self.rules}
        taken = super().taken(name, rest)
        return {**held.rule_params, **{n: v for n, v in taken.items() if n not in self.defaults}}


LinearSolve = namedtuple("LinearSolve", "matvec vecmat solve transpose_solve")  # noqa: PYI024


class _LinearSolveForm(Form):
    """JAX keeps the four programs in one parameter, and the numbers of their constants in one."""

    __slots__ = ()

    def seen(self, rule_params: dict[str, Any], operands: Sequence[Any]) -> dict[str, Any]:
        return {
            "const_lengths": LinearSolve(*rule_params["counts"]),
            "jaxprs": LinearSolve(*(rule_params[name] for name in LinearSolve._fields)),
        }

    def is_of_jax(self, params: dict[str, Any]) -> bool:
        return "jaxprs" in params

    def taken(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        programs = LinearSolve(*params["jaxprs"])
        num_aux = len(programs.solve.out_avals) - len(programs.matvec.out_avals)
        return {
            **programs._asdict(),
            "counts": tuple(params["const_lengths"]),
            "num_aux": num_aux,
        }


class _Opened(Form):
    """JAX has the program as a jaxpr without constants."""

    __slots__ = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(seen={"jaxpr": _opened}, taken={"jaxpr": _closed}, **kwargs)
        self.marks = frozenset()

    def is_of_jax(self, params: dict[str, Any]) -> bool:
        return isinstance(params.get("jaxpr"), Jaxpr) or super().is_of_jax(params)


_NO_SHARDING = Form(fixed={"sharding": None})
_ACCURATE = "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh"


def _accuracy(name: str, value: Any) -> Any:
    return _loaded("weft.ops.precision", "canonical_accuracy")(name, value)


def _update(op: str | None) -> Form:
    """Return the form of a scatter that joins old and new elements by an op."""
    jaxpr = None if op is None else _combiner(op)
    return Form(only={"update_jaxpr": jaxpr, "update_consts": ()})


def _manual_axes(params: dict) -> tuple:
    return tuple(n for n in params["mesh"].axis_names if n in params["newly_manual_axes"])


def _ordered(rule_params: dict, operands: Sequence) -> bool:
    return rule_params["effect"].ordered


def _effect(name: str) -> Callable[[dict], Any]:
    def find(params: dict) -> Any:
        return _loaded("weft.core.effects", f"ORDERED_{name}" if params["ordered"] else name)

    return find


def _device_sharding(rule_params: dict, operands: Sequence) -> Any:
    device = rule_params["device"]
    single = _loaded("weft.sharding.physical", "SingleDeviceSharding")
    return None if device is None else single(device)


def _device(params: dict) -> Any:
    sharding = params.get("sharding")
    return None if sharding is None else next(iter(sharding.device_set))


def _partitionable(params: dict) -> bool:
    return bool(config.threefry_partitionable)


FORMS: dict[str, Form] = {
    **dict.fromkeys(_ACCURATE.split(), Form(optional={"accuracy": _accuracy})),
    **dict.fromkeys(("broadcast_in_dim", "convert_element_type", "iota"), _NO_SHARDING),
    **dict.fromkeys(
        ("conv_general_dilated", "reduce_sum"),
        Form(fixed={"out_sharding": None}),
    ),
    "rng_bit_generator": Form(
        fixed={"out_sharding": None},
        seen={"algorithm": lambda name: _loaded("weft.ops.rng", "RandomAlgorithm")[f"RNG_{name}"]},
        taken={
            "algorithm": lambda member: str(getattr(member, "name", member)).removeprefix("RNG_")
        },
    ),
    "round": Form(
        seen={"rounding_method": lambda n: _loaded("weft.lax", "RoundingMethod")(n)},
        taken={"rounding_method": int},
    ),
    "reshape": Form(fixed={"dimensions": None, "sharding": None}),
    "mul": Form(fixed={"out_dtype": None}),
    "conj": Form(only={"input_dtype": lambda params, operands: operands[0].aval.dtype}),
    # programs
    "jit": Form(
        names={"donated": "donated_invars", "options": "compiler_options_kvs"},
        only={
            "in_layouts": _nones("in_avals"),
            "out_layouts": _nones("out_avals"),
            "ctx_mesh": _no_mesh,
            "inline": False,
        },
        seen={"in_shardings": _unspecified, "out_shardings": _unspecified},
        taken={"in_shardings": _specified, "out_shardings": _specified},
        defaults={"partitioner": None},
    ),
    "remat2": _Opened(),
    "shard_map": _Opened(
        only={"newly_manual_axes": lambda params, operands: frozenset(params["manual"])},
        defaults={"manual": _manual_axes},
    ),
    "custom_jvp_call": _CustomCall(
        "jvp_jaxpr_fun",
        names={"jaxpr": "call_jaxpr"},
        only={"symbolic_zeros": _symbolic_zeros},
        defaults={"call": None},
    ),
    "custom_vjp_call": _CustomCall(
        *("fwd_jaxpr_thunk", "bwd", "out_trees"),
        names={"jaxpr": "call_jaxpr"},
        only={"symbolic_zeros": _symbolic_zeros},
        defaults={"call": None},
    ),
    "custom_vmap_call": _CustomCall(
        "rule",
        names={"jaxpr": "call"},
        only={
            "in_tree": lambda params, operands: _loaded(_RULES, "tree_with_consts")(params),
            "out_tree": lambda params, operands: getattr(params["call"], "out_tree", None),
        },
        defaults={"call": None, "num_consts": 0},
    ),
    "linear_call": _CustomCall(
        "transpose_thunk",
        names={"fun": "callee"},
        only={
            "num_callee_consts": lambda params, operands: params["counts"][0],
            "num_res": lambda params, operands: params["counts"][1] + params["counts"][2],
        },
        defaults={"transpose": None, "counts": ()},
    ),
    "custom_linear_solve": _LinearSolveForm(),
    "pure_callback": Form(
        names={"out_avals": "result_avals"},
        only={"sharding": _device_sharding},
        defaults={"effect": None, "partitioned": False, "device": _device},
    ),
    "io_callback": Form(
        names={"out_avals": "result_avals"},
        only={"sharding": _device_sharding, "ordered": _ordered},
        defaults={
            "effect": _effect("IO"),
            "partitioned": False,
            "device": _device,
            "vmap_method": None,
        },
    ),
    "debug_callback": Form(defaults={"out_avals": (), "vmap_method": None, "device": None}),
    "debug_print": Form(
        only={
            "fmt": lambda params, operands: params["callback"].fmt,
            "ordered": _ordered,
            "in_tree": lambda params, operands: params["callback"].in_tree,
            "static_args": (),
            "np_printoptions": (),
            "has_placeholders": lambda params, operands: "{" in params["callback"].fmt,
            "logging_record": None,
        },
        defaults={
            "effect": _effect("DEBUG"),
            "out_avals": (),
            "vmap_method": None,
            "device": None,
        },
    ),
    # collectives
    "psum": _Collective("axes"),
    "psum_invariant": _Collective("axes", groups=False),
    "pvary": Form(defaults={"to": "varying"}),
    **dict.fromkeys(("pmax", "pmin"), _Collective("axes", defaults={"dims": ()})),
    "all_gather": _Collective(
        "axis_name",
        size=True,
        names={"axis": "all_gather_dimension"},
        defaults={"to": "varying"},
    ),
    "reduce_scatter": _Collective("axis_name", size=True, names={"axis": "scatter_dimension"}),
    "all_to_all": _AxisIndex("axis_name", names={"split": "split_axis", "concat": "concat_axis"}),
    "ppermute": _Collective("axis_name", groups=False),
    "axis_index": _AxisIndex("axis_name", groups=False),
    # arrays
    "scatter": _update(None),
    "scatter-add": _update("add"),
    "scatter-mul": _update("mul"),
    "scatter-min": _update("min"),
    "scatter-max": _update("max"),
    "reduce": Form(only={"computation": lambda params, operands: jaxpr_as_fun(params["jaxpr"])}),
    "reduce_window": Form(only={"consts": ()}),
    "select_and_scatter_add": Form(
        names={"select": "select_prim"},
        seen={"select_prim": lambda name: _loaded("weft.core.primitive", "PRIMITIVES")[name]},
        taken={"select": str},
    ),
    **dict.fromkeys(
        ("random_bits", "random_split"), Form(defaults={"partitionable": _partitionable})
    ),
    "device_put": Form(
        only={
            "devices": lambda params, operands: (params["sharding"],),
            "srcs": lambda params, operands: (params["src"],),
            "copy_semantics": lambda params, operands: (
                _loaded("weft._xla.arrays", "ArrayCopySemantics").REUSE_INPUT,
            ),
        },
        defaults={
            "sharding": lambda params: params["devices"][0],
            "src": lambda params: params["srcs"][0],
        },
    ),
    "sharding_constraint": Form(
        only={"layout": None, "context_mesh": _no_mesh, "unconstrained_dims": _unconstrained_dims},
        defaults={"priorities": None},
    ),
    # linear algebra
    "eig": Form(
        names={
            "left": "compute_left_eigenvectors",
            "right": "compute_right_eigenvectors",
            "derivatives": "enable_eigvec_derivs",
        },
        only={"implementation": None},
    ),
    "schur": Form(
        names={"vectors": "compute_schur_vectors"},
        fixed={"sort_eig_vals": False, "select_callable": None},
    ),
    "eigh": Form(fixed={"algorithm": None, "subset_by_index": None}),
    "svd": Form(
        fixed={"subset_by_index": None},
        seen={"algorithm": lambda a: None if a.name == "DEFAULT" else a},
        taken={"algorithm": lambda a: _loaded("weft.lax.linalg", "SvdAlgorithm")(a or "default")},
    ),
    "qr": Form(fixed={"use_magma": None}),
}
