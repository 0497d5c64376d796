# Tests: tests/compat/test_other_modules.py
"""jax.experimental.serialize_executable: compiled functions as bytes.

The bytes hold the program, as `weft.export` writes it. It is compiled where it is read, or found in
the cache of compiled programs.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import weft
from weft import tree
from weft.driver.ahead_of_time import Compiled
from weft.export.exported import _exported

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """Return (bytes, structure of the arguments, structure of the result).

    Raises TypeError for what is not compiled, ValueError for programs that call Python functions.
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(
            f"serialize: compiled must be what f.lower(...).compile() gives, got "
            f"{type(compiled).__name__}"
        )
    platform = {"gpu": "cuda"}.get(weft.default_backend(), weft.default_backend())
    exported = _exported(compiled._traced, (platform,), ())
    shardings = [getattr(s, "spec", None) for s in compiled._flat_shardings]
    # The structures travel beside the bytes: those of the file need not be serializable.
    flat = weft.export.export(weft.jit(lambda *leaves: tree.leaves(_call(exported, leaves))))
    structs = [weft.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
    if exported.nr_devices > 1:
        raise NotImplementedError(
            f"serialize: the program is for {exported.nr_devices} devices, {shardings}; export it "
            "with weft.export"
        )
    file = io.BytesIO()
    pickle.dump(bytes(flat(*structs).serialize()), file)
    return file.getvalue(), compiled.in_tree, compiled.out_tree


def _call(exported: Any, leaves: Sequence[Any]) -> Any:
    args, kwargs = exported.in_tree.unflatten(leaves)
    return exported.call(*args, **kwargs)


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: object = None,
    execution_devices: object = None,
) -> Compiled:
    """Return the compiled function that `serialize` wrote.

    Raises ValueError for bytes that it did not write.
    """
    try:
        data = pickle.loads(serialized)
    except (pickle.UnpicklingError, EOFError, TypeError) as e:
        raise ValueError(
            f"deserialize_and_load: these bytes were not written by serialize: {e}"
        ) from None
    exported = weft.export.deserialize(data)

    def call(*args: Any, **kwargs: Any) -> Any:
        return tree.unflatten(out_tree, exported.call(*tree.leaves((args, kwargs))))

    structs = [weft.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
    args, kwargs = tree.unflatten(in_tree, structs)
    return weft.jit(call).lower(*args, **kwargs).compile()
