"""Kernels on the CPU: jaxprs become LLVM IR, machine code, and a target that XLA calls."""

from weft.pallas.cpu.lower import lower
from weft.pallas.ir import backends

backends["cpu"] = lower
