"""The coordination service that connects processes: client, service, keys and barriers."""

from __future__ import annotations

from jaxlib import _jax

DistributedRuntimeClient = _jax.DistributedRuntimeClient
DistributedRuntimeService = _jax.DistributedRuntimeService


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
    """A client of the service at ``address``, not yet connected: call ``connect()``."""
    return _jax.get_distributed_runtime_client(
        address,
        process_id,
        init_timeout=init_timeout,
        heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout,
        shutdown_on_destruction=False,
        use_compression=True,
    )
