# Tests: tests/pallas/test_cpu_engine.py, tests/runtime/test_bit_flips.py
"""LLVM IR text → machine code in this process, cached in memory and on disk."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from weft.native import objects
from weft.runtime.store import Store, host_cpu, user_folder

_lock = threading.Lock()
_addresses: dict[str, int] = {}
_alive: list[Any] = []  # machine code: XLA keeps what is registered for the life of the process
shared: dict[str, Callable[[], int]] = {}
"""Names that code may use of this process, and what gives their addresses."""
statistics = {"compiled": 0, "from_disk": 0, "from_memory": 0}


VECTOR_FUNCTIONS = "@llvm.compiler.used"
"""In the text of modules with functions to be written into loops once these are vectors."""


_V2 = "64bit cmov cx16 cx8 fxsr mmx popcnt sahf sse sse2 sse3 ssse3 sse4.1 sse4.2 x87"
_V3 = _V2 + " avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
_V4 = _V3 + " avx512bw avx512cd avx512dq avx512f avx512vl"
_LIMITS = {
    "SSE4_2": ("x86-64-v2", {*_V2.split()}),
    "AVX2": ("x86-64-v3", {*_V3.split()}),
    "AVX512": ("x86-64-v4", {*_V4.split()}),
}
"""Processors, and what they can do, for the values of XLA's --xla_cpu_max_isa."""


def _limit() -> tuple[str, set[str]] | None:
    """Return the instruction-set limit given to XLA, which holds for kernels too."""
    asked = re.findall(r"--xla_cpu_max_isa=(\w+)", os.environ.get("XLA_FLAGS", ""))
    return _LIMITS.get(asked[-1].upper()) if asked else None


class Host:
    """The CPU that code is made for, and LLVM for it, which loads when code must be made."""

    def __init__(self) -> None:
        self.name, features, self.triple, numbers, version = _description()
        self.features: dict[str, bool] = features
        self.llvm_version = tuple(numbers)
        limit = _limit() if "sse2" in features else None
        if limit is not None:
            self.name = limit[0]
            features.update(dict.fromkeys(features.keys() - limit[1], False))
        self.flat = ",".join(f"{'+' if able else '-'}{name}" for name, able in features.items())
        on = self.able
        self.fingerprint = f"{version} {self.llvm_version} {self.name} {self.flat}"
        self.vector_bytes = 64 if "avx512f" in on else 32 if "avx2" in on else 16
        self.registers = 32 if "avx512f" in on or not {"sse2"} & on else 16

    @cached_property
    def llvm(self) -> Any:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm

    def _target(self) -> Any:
        return self.llvm.Target.from_default_triple().create_target_machine(
            cpu=self.name, features=self.flat, opt=3, reloc="pic", codemodel="small", jit=True
        )

    @cached_property
    def machine(self) -> Any:
        return self._target()

    @cached_property
    def jit(self) -> Any:
        # JITLink keeps a program's sections together. LLVM's other linker ends the process where
        # they come to lie 2 GiB apart, as in one with as much memory (quirks.SECTIONS_APART).
        # A target machine of its own: the JIT disposes of it.
        return self.llvm.create_lljit_compiler(self._target(), use_jit_link=True)

    @property
    def able(self) -> set[str]:
        """The names of the features that are there."""
        return {name for name, able in self.features.items() if able}

    def attributes(self) -> str:
        """Return the attribute group of every function of a kernel."""
        width = f'"prefer-vector-width"="{self.vector_bytes * 8}"'
        return f'attributes #0 = {{ nounwind "no-builtins" "frame-pointer"="none" {width} }}\n'


@cache
def host() -> Host:
    return Host()


def _description() -> list:
    """Return the processor's name and features, the triple and LLVM's and llvmlite's versions.

    LLVM tells them; they are kept with the code, so that what only loads code needs no LLVM.
    """
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise ImportError(
            "kernels are compiled for the CPU by llvmlite, which is not installed: "
            "pip install 'weft[kernels]', or run them interpreted: "
            "pallas_call(..., interpret=True)"
        )
    version = Path(spec.origin).with_name("_version.py").read_bytes()
    key = hashlib.sha256(version + host_cpu().encode()).hexdigest()[:32]
    store, entry = kernel_cache(), f"{key}.host"
    known = store.read(entry)
    if known is not None:
        return json.loads(known)
    import llvmlite
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    triple = llvm.get_default_triple()
    description = [llvm.get_host_cpu_name(), features, triple, llvm.llvm_version_info]
    description.append(llvmlite.__version__)
    with contextlib.suppress(OSError):
        store.write(entry, json.dumps(description).encode())
    return description


def kernel_cache() -> Store:
    """Return the folder of machine code: ``$WEFT_KERNEL_CACHE_DIR``, else the user's cache."""
    return Store(user_folder("WEFT_KERNEL_CACHE_DIR", "kernels"), "kernel cache")


def key_of(text: str) -> str:
    """Return the name of the code that a text becomes on this machine."""
    return hashlib.sha256(f"{host().fingerprint} sealed\n{text}".encode()).hexdigest()[:32]


def compile_text(text: str, symbol: str, opt: int = 2) -> int:
    """Return the address of the function `symbol` of a module given as LLVM IR text.

    The same text is compiled once a process; its machine code is also kept on disk, so that
    another process only links it.
    """
    return compile_keyed(key_of(text), lambda: text, symbol, opt, _symbols(text))


def compile_keyed(
    key: str,
    text: Callable[[], str],
    symbol: str,
    opt: int = 2,
    symbols: Mapping[str, int] | None = None,
) -> int:
    """Act as `compile_text`, for a text that is only made where no machine code of its key is kept.

    symbols: addresses of what the code shares with this process.
    """
    symbols = symbols or {}
    with _lock:
        address = _addresses.get(key)
        if address is not None:
            statistics["from_memory"] += 1
            return address
        store, entry = kernel_cache(), f"{key}.o"
        code = store.read(entry)
        if code is not None:
            statistics["from_disk"] += 1
        else:
            code = _assemble(text(), opt)
            statistics["compiled"] += 1
            with contextlib.suppress(OSError):  # a cache that cannot be written is no error
                store.write(entry, code)
        address = _link(code, symbol, key, symbols)
        _addresses[key] = address
        return address


def optimized(text: str, opt: int = 2) -> Any:
    """Return the module after LLVM's passes, for reading (`str(module)`) or emitting."""
    engine = host()
    module = engine.llvm.parse_assembly(text + engine.attributes())
    module.triple = engine.machine.triple
    module.data_layout = str(engine.machine.target_data)
    options = engine.llvm.create_pipeline_tuning_options(speed_level=opt)
    options.loop_vectorization = True
    options.slp_vectorization = False
    options.loop_interleaving = True
    options.loop_unrolling = False  # it doubles the time to compile for little
    builder = engine.llvm.create_pass_builder(engine.machine, options)
    _run(builder.getModulePassManager(), module, builder)
    if VECTOR_FUNCTIONS in text:
        inline = engine.llvm.create_new_module_pass_manager()
        inline.add_always_inliner_pass()
        _run(inline, module, builder)
    return module


def _run(passes: Any, module: object, builder: object) -> None:
    """Run the passes and free them.

    llvmlite never does (0.50): the base class whose `_dispose` does nothing comes first. That
    would lose 80 KiB for each kernel.
    """
    from llvmlite.binding.newpassmanagers import NewPassManager

    passes.run(module, builder)
    NewPassManager._dispose(passes)
    passes.detach()


def assembly(text: str, opt: int = 2) -> str:
    """Return the machine code as assembly, for reading."""
    return host().machine.emit_assembly(optimized(text, opt))


def _assemble(text: str, opt: int) -> bytes:
    return host().machine.emit_object(optimized(text, opt))


def link_text(text: str, symbol: str) -> int:
    """Act as `compile_text`, for code that is made for this process alone and kept nowhere."""
    return _link(_assemble(text, 0), symbol, symbol, {})


def _symbols(text: str) -> dict[str, int]:
    """Find the addresses of the process's functions and data that a program's text refers to."""
    return {name: address() for name, address in shared.items() if name in text}


def _link(code: bytes, symbol: str, key: str, symbols: Mapping[str, int]) -> int:
    address = objects.load(code, symbol, symbols)
    if address is not None:
        return address
    llvm = host().llvm
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(symbol)
    for name, address in symbols.items():
        library.import_symbol(name, address)
    library.add_current_process()
    tracker = library.link(host().jit, key)
    _alive.append(tracker)
    return tracker[symbol]
