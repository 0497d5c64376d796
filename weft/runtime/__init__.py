"""Backends, arrays, transfers, compilation and dispatch.

backend, gpus               platforms and devices
array, shared_buffers, make_array, dlpack, visualize
                            the class of arrays, and who holds their buffers
device_put, transfers, memory_layouts, host_allocator
                            moving values to devices and back
compile, disk_cache, store  modules to executables, by way of the caches on disk
dispatch, executable        known signatures run in C++; what a call of a program does
host_calls, callback_context, cpu_run_limit, cpu_joint_failure, allocation_failure, own_threads
                            calls back into Python, and what XLA:CPU's pool of threads asks for
distributed, clusters, coordinator, rendezvous, meeting, transport
                            processes become a group
calls, divergence, check_replicated, watchdog, verdicts, replay
                            and notice who does something else, or nothing
"""
