# Tests: tests/compat/test_other_modules.py
"""jax.experimental.transfer: arrays between unconnected processes, which weft does not send."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["TransferConnection", "TransferServer", "make_error_array", "start_transfer_server"]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: weft has no server that sends arrays to processes outside of its own group; "
        "write them with weft.checkpoints, or start the processes as one group with weft launch"
    )


def start_transfer_server(*args: object, **kwargs: object) -> Any:
    """Raise NotImplementedError: weft has no such server."""
    _refuse("start_transfer_server")


def make_error_array(aval: object, message: str) -> Any:
    """Raise NotImplementedError: weft has no arrays that stand for an error."""
    _refuse("make_error_array")


class TransferServer:
    """Raises NotImplementedError when made: weft has no such server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class TransferConnection(TransferServer):
    """Raises NotImplementedError when made: weft has no such connection."""
