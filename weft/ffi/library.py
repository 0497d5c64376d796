"""build: compiles native handlers to a cached shared library and registers them."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weft._xla import version
from weft.core.errors import has_page
from weft.ffi.native_errors import name_errors
from weft.ffi.registry import include_dir, pycapsule, register_ffi_target, register_ffi_type
from weft.runtime.store import Store, host_cpu, user_folder

_CXX_FLAGS = ("-O3", "-fPIC", "-shared")
_MARCH = "-march=native"
_building = threading.Lock()
_HANDLER = re.compile(r"XLA_FFI_DEFINE_HANDLER(?:_SYMBOL|_AUTO)?\s*\(\s*(\w+)")


_HEADER = Path(__file__).parent / "include" / "weft" / "ffi.h"


@has_page("weft.ffi")
class BuildError(RuntimeError):
    """The compiler refused the sources; the message holds its errors with file and line."""


class Library:
    """A loaded library: `targets` names what it registered, `path` is the file."""

    __slots__ = ("handle", "path", "targets")

    def __init__(self, path: Path, handle: Any, targets: tuple[str, ...]) -> None:
        self.path = path
        self.handle = handle
        self.targets = targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)

    def function(self, symbol: str) -> Any:
        """Return an exported function; raises ValueError if there is none of that name."""
        try:
            return getattr(self.handle, symbol)
        except AttributeError:
            raise ValueError(
                f"build: {self.path.name} exports no symbol {symbol!r}; define a handler with "
                f'XLA_FFI_DEFINE_HANDLER_SYMBOL({symbol}, …), other functions as extern "C"'
            ) from None

    def __repr__(self) -> str:
        return f"Library({self.path.name!r}, targets={self.targets})"


def build(
    sources: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    targets: Mapping[str, str | Mapping[str, str]] | Sequence[str] | None = None,
    types: Mapping[str, str | Sequence[str]] | None = None,
    name: str | None = None,
    platform: str = "cpu",
    flags: Sequence[str] = (),
    include_dirs: Sequence[str | os.PathLike] = (),
    libraries: Sequence[str] = (),
    compiler: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    native: bool = True,
    verbose: bool = False,
) -> Library:
    """Compile C++ (or CUDA) handlers and register them as FFI targets.

    sources: files (.cc, .cpp, .c, .cu), or C++ code itself (a string with a newline). targets:
    target name -> exported symbol (or a dict of symbols by stage, see `register_ffi_target`), or
    names that are both; by default every symbol that the sources define with
    XLA_FFI_DEFINE_HANDLER_SYMBOL. types: name of a C++ type of handler state -> symbol of an
    extern "C" function that returns the address of its XLA_FFI_TypeId, or a pair with a second
    one for its XLA_FFI_TypeInfo. flags, include_dirs, libraries: added to
    the compiler's. native: compile for this machine's processor. The library is cached by the
    sources, the headers' version and the flags; nothing is compiled twice.

    Raises BuildError with the compiler's messages, ValueError for what it cannot find.

    >>> import weft
    >>> code = '''
    ... #include "xla/ffi/api/ffi.h"
    ... namespace ffi = xla::ffi;
    ... using F32s = ffi::Buffer<ffi::F32>;
    ... static ffi::Error Apply(F32s x, ffi::Result<F32s> y) {
    ...   for (size_t i = 0; i < x.element_count(); ++i)
    ...     y->typed_data()[i] = 2 * x.typed_data()[i];
    ...   return ffi::Error::Success();
    ... }
    ... XLA_FFI_DEFINE_HANDLER_SYMBOL(Twice, Apply, ffi::Ffi::Bind().Arg<F32s>().Ret<F32s>());
    ... '''
    >>> weft.ffi.build(code).targets
    ('Twice',)
    >>> x = weft.numpy.ones(3)
    >>> weft.ffi.ffi_call("Twice", x)(x)
    Array([2., 2., 2.], dtype=float32)
    """
    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    for argument, values in (
        ("sources", paths),
        ("flags", flags),
        ("include_dirs", include_dirs),
        ("libraries", libraries),
    ):
        _check_strings(argument, values)
    if not paths:
        raise ValueError("build: sources is empty; name at least one C, C++ or CUDA file")
    inputs = _read(paths)
    cuda = any(source.path.suffix == ".cu" for source in inputs)
    if cuda and platform == "cpu":
        platform = "cuda"
    program = compiler or _compiler(cuda)
    command_flags = list(_nvcc_flags() if cuda else _CXX_FLAGS)
    if native and not cuda:
        command_flags.append(_MARCH)
    if not cuda and any(source.path.suffix != ".c" for source in inputs):
        command_flags.append("-std=c++17")
    command_flags += [f"-I{d}" for d in (include_dir(), *include_dirs)]
    texts = [source.text for source in inputs]
    # Handlers of the typed FFI get the header by which errors name their calls.
    if any(map(_HANDLER.search, texts)):
        command_flags += ["-include", str(_HEADER)]
    command_flags += list(flags)
    # A library is known by what it is made of, so that the same sources compile once.
    key = _digest(program, command_flags, libraries, texts)
    compilation = Compilation(program, command_flags, inputs, libraries, verbose)
    store = Store(cache_dir or user_folder("WEFT_BUILD_CACHE_DIR", "ffi"), "build cache")
    with _building:  # threads that build the same library load the same file
        path, handle = _load(store, f"{name or inputs[0].path.stem}-{key}", compilation)
    library = Library(path, handle, ())
    # Types first: handlers with state refer to them as they are registered.
    for type_name, given_symbols in (types or {}).items():
        symbols = [given_symbols] if isinstance(given_symbols, str) else list(given_symbols)
        keys = ("type_id", "type_info")[: len(symbols)]
        registration = {
            key: pycapsule(_address(library, symbol))
            for key, symbol in zip(keys, symbols, strict=True)
        }
        register_ffi_type(type_name, registration, platform)
    # Without `targets`, every handler that the sources define is one.
    chosen = _targets(targets, texts)
    for target, symbol in chosen.items():
        capsule: Any
        if isinstance(symbol, str):
            capsule = pycapsule(library.function(symbol))
        else:
            capsule = {stage: pycapsule(library.function(s)) for stage, s in symbol.items()}
        for s in [symbol] if isinstance(symbol, str) else symbol.values():
            with contextlib.suppress(ValueError):  # not compiled with weft/ffi.h
                name_errors(target, ctypes.c_char_p.in_dll(handle, f"{s}_called"))
        register_ffi_target(target, capsule, platform)
    library.targets = tuple(chosen)
    return library


def _address(library: Library, symbol: str) -> int:
    function = library.function(symbol)
    function.restype = ctypes.c_void_p
    return function() or 0


def _check_strings(argument: str, values: Sequence) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"build: {argument} must be a list of strings, got {values!r:.100}")
    for value in values:
        if not isinstance(value, str | os.PathLike):
            raise TypeError(f"build: {argument} holds {value!r:.100}, which is no string")


class Source(NamedTuple):
    """A source: its file, which is made in a scratch folder for code given as a string."""

    path: Path
    text: str
    is_file: bool


def _read(inputs: Sequence[Any]) -> list[Source]:
    sources = []
    for source in inputs:
        if isinstance(source, str) and "\n" in source:
            digest = hashlib.sha256(source.encode()).hexdigest()[:16]
            sources.append(Source(Path(f"source-{digest}.cc"), source, False))
        else:
            path = Path(source)
            if not path.is_file():
                raise ValueError(f"build: there is no source file {str(path)!r}")
            sources.append(Source(path, path.read_text(), True))
    return sources


def _compiler(cuda: bool) -> str:
    names = ("nvcc",) if cuda else (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    for name in names:
        path = shutil.which(name) if name else None
        if path:
            return path
    need = "nvcc (the CUDA toolkit)" if cuda else "C++17 compiler (c++, g++ or clang++)"
    raise BuildError(f"build: found no {need} on PATH; install one, or pass compiler=")


def _nvcc_flags() -> tuple[str, ...]:
    return ("-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=native")


def _digest(program: str, flags: Sequence[str], libraries: Sequence[str], texts: list) -> str:
    digest = hashlib.sha256()
    for part in (program, repr(flags), repr(list(libraries)), repr(version), "sealed", *texts):
        digest.update(part.encode() + b"\0")
    if _MARCH in flags:
        # The cache may lie on a disk that other machines read.
        digest.update(host_cpu().encode())
    return digest.hexdigest()[:16]


def _inputs(files: Sequence[Path]) -> list[str]:
    """Return the sources as arguments; C stays C for a C++ compiler, which would rename it."""
    words: list[str] = []
    for f in files:
        words += ["-x", "c", str(f), "-x", "none"] if f.suffix == ".c" else [str(f)]
    return words


def _headers(program: str, flags: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return the user's headers that the sources include, as the compiler lists them."""
    command = [program, "-MM", *(f for f in flags if f != "-shared"), *_inputs(files)]
    done = subprocess.run(command, capture_output=True, text=True)
    words = done.stdout.replace("\\\n", " ").split()
    names = {str(f) for f in files}
    inner = include_dir()
    return [w for w in words if not w.endswith(":") and w not in names and not w.startswith(inner)]


def _library_name(stem: str, headers: bytes) -> str:
    """Return the name of the library for the headers as they are now."""
    digest = hashlib.sha256()
    for header in headers.decode().split("\n"):
        if header:
            try:
                digest.update(Path(header).read_bytes() + b"\0")
            except OSError:
                digest.update(b"missing\0")
    return f"{stem}-{digest.hexdigest()[:8]}.so"


class Compilation(NamedTuple):
    """A call of the compiler."""

    program: str
    flags: list[str]
    sources: list[Source]
    libraries: Sequence[str]
    verbose: bool

    def run(self, folder: Path) -> tuple[bytes, bytes]:
        """Return the library, and the list of its headers, made in a folder. Raises BuildError."""
        files = []
        for path, text, is_file in self.sources:
            if not is_file:
                path = folder / path
                path.write_text(text)
            files.append(path)
        out = folder / "library.so"
        command = [self.program, *self.flags, *_inputs(files), "-o", str(out)]
        command += [f"-l{name}" for name in self.libraries]
        if self.verbose:
            print(" ".join(command))
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as e:
            raise BuildError(f"build: cannot run the compiler {self.program!r}: {e}") from None
        if done.returncode:
            raise BuildError(_readable(done.stderr, files))
        headers = "\n".join(_headers(self.program, self.flags, files)).encode()
        return out.read_bytes(), headers


def _load(store: Store, stem: str, compilation: Compilation) -> tuple[Path, ctypes.CDLL]:
    """Return the library, from the store if it is there as it was compiled."""
    listing = f"{stem}.headers"
    headers = store.read(listing)
    if headers is not None:
        name = _library_name(stem, headers)
        if store.read(name) is not None:
            return store.path(name), _open(store.path(name))
    if not store.trusted():  # it is compiled again in every process
        store = Store(_private_folder(), store.kind)
    try:
        with store.scratch() as folder:
            library, headers = compilation.run(folder)
        name = _library_name(stem, headers)
        store.write(listing, headers)
        store.write(name, library)
    except OSError as e:
        raise BuildError(
            f"build: cannot write to the cache folder {store.folder}: {e}; give another as "
            "cache_dir=, or set WEFT_BUILD_CACHE_DIR"
        ) from None
    return store.path(name), _open(store.path(name))


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as e:
        raise BuildError(f"build: the library cannot be loaded: {e}") from None


@functools.cache
def _private_folder() -> str:
    """Return a folder of this process, for want of a cache."""
    folder = tempfile.TemporaryDirectory(prefix="weft-build-")
    atexit.register(folder.cleanup)
    return folder.name


def _readable(stderr: str, files: Sequence[Path]) -> str:
    """Return the errors in the user's own files first; template backtraces are left out."""
    names = {str(f) for f in files}
    lines = stderr.splitlines()
    chosen: list[str] = []
    for i, line in enumerate(lines):
        if " error: " in line or " fatal error: " in line or "static assertion failed" in line:
            context = [
                entry for entry in lines[max(0, i - 12) : i] if any(o in entry for o in names)
            ]
            chosen += context[-1:] + [line, *lines[i + 1 : i + 3]]
    shown = list(dict.fromkeys(chosen)) or lines[-20:]
    return "the compiler refused the sources:\n" + "\n".join(shown[:40])


def _targets(targets: Any, texts: Sequence[str]) -> dict[str, Any]:
    if isinstance(targets, Mapping):
        return dict(targets)
    if targets is not None:
        return {t: t for t in ([targets] if isinstance(targets, str) else targets)}
    symbols = dict.fromkeys(s for text in texts for s in _HANDLER.findall(text))
    if not symbols:
        raise ValueError(
            "build: the sources define no handler with XLA_FFI_DEFINE_HANDLER_SYMBOL; name the "
            "exported symbols with targets="
        )
    return {s: s for s in symbols}
