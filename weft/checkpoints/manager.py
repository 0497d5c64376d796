# Tests: tests/checkpoints/test_checkpoints.py
"""Manager: the checkpoints of a training run, by step."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import weft.checkpoints.orbax as orbax
from weft.checkpoints.layout import MANIFEST, Saved, tensorstore
from weft.checkpoints.reading import holds_checkpoint, restore
from weft.checkpoints.writing import check_layout, prepare
from weft.core.source import warn
from weft.runtime import backend

_STEP = re.compile(r"step_(\d+)")
_ORBAX_STEP = re.compile(r"(\d+)")


class Manager:
    """Saves, lists, restores and deletes the steps of a run in one folder.

    Arrays are copied to the host when `save` is called, and written while the program goes on; the
    next `save`, `wait` or `close` waits for the last one, and raises what went wrong.

    Args:
      folder: holds a folder for each step; is made if it is not there.
      max_to_keep: how many of the newest steps stay; all unless given.
      keep_period: steps that are multiples of this stay for ever.
      asynchronous: False writes before `save` returns.
      layout: "weft", or "orbax" for steps that Orbax's CheckpointManager lists and restores too.

    Raises:
      ValueError: max_to_keep or keep_period is below 1, or layout is neither.

    Example:
        >>> import tempfile, weft
        >>> with weft.checkpoints.Manager(tempfile.mkdtemp(), max_to_keep=2) as manager:
        ...     for step in range(4):
        ...         manager.save(step, {"w": weft.numpy.full(2, step)})
        ...     manager.wait()
        ...     manager.all_steps(), manager.restore()["['w']"]
        ((2, 3), array([3, 3], dtype=int32))
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        max_to_keep: int | None = None,
        keep_period: int | None = None,
        asynchronous: bool = True,
        layout: str = "weft",
    ) -> None:
        for name, value in (("max_to_keep", max_to_keep), ("keep_period", keep_period)):
            if value is not None and value < 1:
                raise ValueError(f"Manager: {name} must be at least 1, got {value}")
        check_layout("Manager", layout)
        tensorstore()  # before the first step is lost
        self.folder = Path(folder)
        self.max_to_keep = max_to_keep
        self.keep_period = keep_period
        self.asynchronous = asynchronous
        self.layout = layout
        self._partial = (orbax.Saved if layout == "orbax" else Saved).partial
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._bytes = [0, 0]
        if backend.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            for entry in list(self.folder.iterdir()):
                step = self._step_of(entry.name.removesuffix(self._partial))
                if step is None:
                    continue
                if entry.name.endswith(self._partial):  # of a run that was killed
                    shutil.rmtree(entry, ignore_errors=True)
                # A number alone may be the name of a folder that no Manager made.
                elif layout == "weft" and not holds_checkpoint(entry):
                    self._set_aside(entry, step)

    def _set_aside(self, folder: Path, step: int) -> None:
        """Rename a step's folder that lost its manifest, so that the step can be saved again."""
        if not any(folder.iterdir()):
            folder.rmdir()
            return
        aside = folder.with_name(folder.name + ".damaged")
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)
        warn(
            f"Manager: step {step} has lost its {MANIFEST} and cannot be restored: it is kept as "
            f"{aside}. To use it, put the file back and rename the folder to {folder.name}; "
            "otherwise delete it"
        )

    def all_steps(self) -> tuple[int, ...]:
        """Return the steps that are committed, in order."""
        steps = []
        for entry in self.folder.iterdir() if self.folder.exists() else ():
            step = self._step_of(entry.name)
            if step is not None and holds_checkpoint(entry):
                steps.append(step)
        return tuple(sorted(steps))

    def _step_of(self, name: str) -> int | None:
        """Return the step whose folder has this name."""
        match = (_ORBAX_STEP if self.layout == "orbax" else _STEP).fullmatch(name)
        return int(match[1]) if match else None

    def latest_step(self) -> int | None:
        """Return the newest committed step, or None."""
        return max(self.all_steps(), default=None)

    def path(self, step: int) -> Path:
        """Return the folder of a step."""
        return self.folder / (str(step) if self.layout == "orbax" else f"step_{step:08}")

    def save(self, step: int, tree: object) -> None:
        """Save a tree as a step; see `weft.checkpoints.save` for what it may hold.

        Raises:
          FileExistsError: the step is there already.
        """
        self.wait()
        self._bytes = [0, 0]
        write = prepare(
            self.path(step),
            tree,
            self._progress,
            copy=self.asynchronous,
            layout_name=self.layout,
            is_step=True,
        )

        def run() -> None:
            write()
            self._retain()

        if not self.asynchronous:
            run()
            return
        self._thread = threading.Thread(target=self._guarded(run), name=f"checkpoint {step}")
        self._thread.start()

    def _guarded(self, run: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                self._error = error

        return guarded

    def _progress(self, size: int) -> None:
        self._bytes[0] += size

    def bytes_written(self) -> int:
        """Return the number of bytes that this process has written of the step under way."""
        return self._bytes[0]

    def wait(self) -> None:
        """Wait until the last step is committed; raises what its writing raised."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def restore(self, step: int | None = None, like: object = None) -> Any:
        """Read a step, the newest unless given; see `weft.checkpoints.restore`.

        Raises:
          FileNotFoundError: there is none; the steps that are there are named.
          CheckpointError: it is damaged, or does not fit `like`.
        """
        self.wait()
        steps = self.all_steps()
        if step is None:
            if not steps:
                raise FileNotFoundError(f"restore: {self.folder} holds no steps")
            step = steps[-1]
        elif step not in steps:
            available = ", ".join(map(str, steps)) or "none"
            raise FileNotFoundError(
                f"restore: {self.folder} has no step {step}; it has {available}"
            )
        return restore(self.path(step), like)

    def clear(self) -> None:
        """Delete every step, to start a run anew."""
        self.wait()
        if backend.process_index() == 0:
            for step in self.all_steps():
                self._delete(step)

    def _delete(self, step: int) -> None:
        # Under the other name it is no step any more, wherever the deletion is interrupted.
        deleted = self.folder / (self.path(step).name + self._partial)
        shutil.rmtree(deleted, ignore_errors=True)
        os.rename(self.path(step), deleted)
        shutil.rmtree(deleted, ignore_errors=True)

    def _retain(self) -> None:
        """Delete steps beyond the newest `max_to_keep`; the newest is never one of them."""
        if self.max_to_keep is None or backend.process_index() != 0:
            return
        for step in self.all_steps()[: -self.max_to_keep]:
            if self.keep_period is not None and step % self.keep_period == 0:
                continue
            self._delete(step)

    def close(self) -> None:
        """Wait for the last step."""
        self.wait()

    def __enter__(self) -> Manager:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
