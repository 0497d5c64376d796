"""Kernels as users write them: calls, blocks, meshes, memory, what kernels call.

call, mpmd, signature       pallas_call; mpmd_map, core_map and kernel; how results are declared
specs, pipeline             which part of an array a program sees; pipelines inside of a kernel
mesh, memory                cores by name; memory spaces and scratch
primitives, helpers, sync   program_id, run_scoped; when, loop; semaphores, copies, atomics
params, checks              options of compilation, cost estimates; run-time checks
"""
