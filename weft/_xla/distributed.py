"""The coordination service that connects processes: client, service, keys and barriers."""

from __future__ import annotations

from jaxlib import _jax

DistributedRuntimeClient = _jax.DistributedRuntimeClient
DistributedRuntimeService = _jax.DistributedRuntimeService

_REGISTRATION_GRACE = 5
"""Seconds by which a registration outlasts its timeout (quirks.LATE_REGISTRATION)."""


def make_service(
    address: str, num_processes: int, *, heartbeat_timeout: int = 100, shutdown_timeout: int = 300
) -> DistributedRuntimeService:
    """Start the coordination service on ``address`` ("[::]:port" or "host:port")."""
    return _jax.get_distributed_runtime_service(
        address,
        num_processes,
        heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout,
        # The death of one process is none of the others: quirks.PEERS_END.
        recoverable=True,
    )


def make_client(
    address: str,
    process_id: int,
    *,
    init_timeout: int = 300,
    heartbeat_timeout: int = 100,
    shutdown_timeout: int = 300,
) -> DistributedRuntimeClient:
    """Make a client of the service at ``address``, not yet connected: call ``connect()``.

    `connect` raises RuntimeError, with no text of use, where not all connect in time.
    """
    return _jax.get_distributed_runtime_client(
        address,
        process_id,
        init_timeout=max(init_timeout - _REGISTRATION_GRACE, 1),
        heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout,
        # With one, `connect` raises where it would end the process: quirks.REGISTRATION_TIMEOUT.
        missed_heartbeat_callback=lambda status: None,
        shutdown_on_destruction=False,
        use_compression=True,
    )
