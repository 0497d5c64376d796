"""The store of all caches on disk: hashed entries in folders that only their owner writes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from weft.core.source import warn

_MAGIC = b"\nweft-store-1\n"
_END = len(_MAGIC) + hashlib.sha256().digest_size
_TEMPORARY = ".new-"
_STALE = 3600.0
"""Seconds after which a temporary is what a killed process left."""

_SECRET = 32
"""Bytes of a user's secret."""

_refused: set[Path] = set()
_swept: set[Path] = set()


class Store:
    """The entries of one folder: a name and the bytes that were written under it.

    An entry ends with a hash of its name and bytes, so that a damaged, truncated or renamed one
    counts as absent; at the end, because a shared library with more bytes behind it is still one.
    `kind` says in warnings what the entries are.
    """

    __slots__ = ("folder", "kind")

    def __init__(self, folder: str | os.PathLike, kind: str) -> None:
        self.folder = Path(folder).expanduser()
        self.kind = kind

    def path(self, name: str) -> Path:
        """Return where an entry is, or would be."""
        return self.folder / name

    def trusted(self) -> bool:
        """Return whether nobody but this user can write the folder; if others can, warns once."""
        try:
            status = os.stat(self.folder)
        except OSError:
            return True  # it is made by the first write
        if status.st_uid in _owners() and not status.st_mode & 0o022:
            return True
        if self.folder not in _refused:
            _refused.add(self.folder)
            owned = status.st_uid == os.geteuid()
            remedy = f"run `chmod go-w {self.folder}`" if owned else "name a folder of your own"
            warn(
                f"the {self.kind} {self.folder} is not used: users other than you can write it, "
                f"and what it holds would run as you; {remedy}"
            )
        return False

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry; None if there is none, with a warning if it is damaged."""
        if not self.trusted():
            return None
        try:
            data = _read_file(self.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.reject(name, error)
            return None
        body = data[:-_END]
        if data[len(body) :] == _seal(name, body):
            return body
        self.reject(name, "it is damaged, truncated, renamed or of another format")
        return None

    def reject(self, name: str, problem: object) -> None:
        """Warn that an entry is not used."""
        warn(f"ignoring the {self.kind} entry {self.path(name)}: {problem}. It is made again")

    def write(self, name: str, body: bytes) -> None:
        """Put an entry in place: others see all of it or nothing.

        Raises OSError; then nothing is left behind. Does nothing in a folder that is not trusted.
        """
        if not self.trusted():
            return
        _make_private(self.folder)
        self._sweep()
        temporary = self.folder / f"{_TEMPORARY}{os.urandom(8).hex()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                os.fchmod(file.fileno(), 0o600)  # whatever the umask
                file.write(body)
                file.write(_seal(name, body))
                file.flush()
                os.fsync(file.fileno())
            if self.path(name).is_dir() and not self.path(name).is_symlink():
                _remove_folder(self.path(name))  # nothing else than a folder stays in the way
            os.replace(temporary, self.path(name))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make a temporary folder beside the entries, removed afterwards. Raises OSError."""
        _make_private(self.folder)
        self._sweep()
        folder = self.folder / f"{_TEMPORARY}{os.urandom(8).hex()}"
        _make_private(folder)
        try:
            yield folder
        finally:
            _remove_folder(folder)

    def _sweep(self) -> None:
        """Remove what killed processes left, once a process."""
        if self.folder in _swept:
            return
        _swept.add(self.folder)
        for path in self.folder.glob(f"{_TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > _STALE:
                    _remove_folder(path) if path.is_dir() else path.unlink()


def _remove_folder(path: Path) -> None:
    import shutil  # with much behind it: not for a cache that is read

    shutil.rmtree(path, ignore_errors=True)


def user_folder(variable: str, name: str) -> Path:
    """Return the folder an environment variable names, else `name` in the user's cache."""
    folder = os.environ.get(variable)
    return Path(folder) if folder else _user_cache() / name


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weft"


def user_secret(name: str) -> bytes:
    """Return 32 random bytes that only this user can read, made by whoever asks first.

    Raises OSError where they cannot be kept, or others could read them.
    """
    path = _user_cache() / name
    _make_private(path.parent)
    if not path.exists():
        temporary = path.with_name(f"{_TEMPORARY}{os.urandom(8).hex()}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(os.urandom(_SECRET))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # then another process was first
                os.link(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    secret = _read_file(path)
    if len(secret) != _SECRET or os.stat(path).st_mode & 0o077:
        raise OSError(f"{path} is damaged or can be read by others; remove it")
    return secret


def _owners() -> tuple[int, int]:
    """Return the users whose files are taken: this one and root."""
    return os.geteuid(), 0


def _seal(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + body).digest() + _MAGIC


def _read_file(path: Path) -> bytes:
    """Return the bytes of a file that this user wrote; a pipe of that name is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no file")
        if status.st_uid not in _owners() or status.st_mode & 0o022:
            raise OSError("users other than you can write it")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _make_private(folder: Path) -> None:
    """Make a folder and its parents accessible to this user only, whatever the umask."""
    missing = [folder, *folder.parents]
    missing = missing[: next(i for i, path in enumerate(missing) if path.exists())]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            path.mkdir()
            path.chmod(0o700)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")


@functools.cache
def host_cpu() -> str:
    """Return the processor's model and features, which decide the machine code made for it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return platform.processor()
    one = text.partition("\n\n")[0]
    kinds = r"^(?:vendor_id|cpu family|model|CPU (?:implementer|part)|flags|Features)\s*:.*$"
    return "\n".join(re.findall(kinds, one, re.MULTILINE))
