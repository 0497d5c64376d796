"""Types of weft.multihost_utils, written by `make stubs` from the definitions."""

from typing import Any

from weft.typing import Array as Array

def assert_equal(in_tree: Any, fail_message: str = ...) -> None:
    """Raise AssertionError, on every process, unless all have process 0's values."""

def broadcast_one_to_all(in_tree: Any, is_source: bool | None = ...) -> Any:
    """Return the tree of one process as NumPy arrays, on all."""

def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Return this process's part of global arrays, inverse to …"""

def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Join each process's local array into one global array over all processes."""

def process_allgather(in_tree: Any, tiled: bool = ...) -> Any:
    """Return the values of all processes as NumPy arrays, on every process."""

def sync_global_devices(name: str) -> None:
    """Wait until every process has come here, and all their devices with them."""
