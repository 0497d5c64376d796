"""weft.pallas has the public names of JAX's pallas with their parameters, or a reason not to."""

import enum
import inspect
import json
from pathlib import Path

from weft import pallas as pl

ORACLE = json.loads((Path(__file__).parent / "oracle" / "names.json").read_text())["names"]

# Names that weft leaves out, and why.
ABSENT = {
    "BoundedSlice": "blocks have static sizes: take a ref with memory_space=pl.ANY, index it with "
    "pl.ds and mask what lies behind the end with pl.load and pl.store",
    "Indirect": "rows chosen by data are read with an index array, ref[rows], or one at a time by "
    "an index map that sees prefetched scalars",
    "get_global": "memory that lasts is scratch of the call, or weft.new_ref outside of it",
    "lower_as_mlir": "weft.jit(f).lower(...).as_text()",
    "pallas_export_experimental": "compiled programs are kept on disk by the compilation cache",
    "select_ref": "copies from refs that are chosen at run time stand in branches: pl.when",
    "semaphore": "a dtype of TPU memory; semaphores are scratch types here: pl.SemaphoreType",
}
# Parameters that weft leaves out, and why.
OMITTED = {"inner_aval": "a MemoryRef is made of its shape and dtype"}


def test_every_name_exists_or_has_a_reason():
    assert {n for n in ORACLE if not hasattr(pl, n)} == set(ABSENT)


def test_functions_take_the_same_parameters():
    lacking = {}
    for name, parameters in ORACLE.items():
        if parameters is None or name in ABSENT or name == "BlockDim":
            continue
        value = getattr(pl, name)
        if isinstance(value, enum.EnumType):
            continue
        if isinstance(value, enum.Enum):  # Python 3.12 gives members the signature of their class
            value = value.__call__
        own = inspect.signature(value).parameters
        names = {p for p, kind in parameters if not kind.startswith("VAR_")}
        missing = names - set(own) - set(OMITTED)
        if missing:
            lacking[name] = missing
    assert not lacking
