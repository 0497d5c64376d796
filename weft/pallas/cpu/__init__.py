"""Kernels on the CPU: jaxprs become LLVM IR, machine code, and a target that XLA calls.

In the order in which a kernel passes through:

    lower                       a kernel call, legalized → IR text → code → custom call
    order, grid, threads        work of a program (weft/pallas/order.py says which run at once);
                                blocks; chunks on XLA's pool of threads
    tile, nontemporal           a few rows at a time, to stay in cache; stores past the caches
    mpmd, sync, waits, interrupt
                                a thread for each core; semaphores, barriers, copies; how waits end
    translate                   the walk over a jaxpr; what lives when memory changes
    values, loops               arrays as formulas or memory; loops that store and reduce them
    scalar, vectors             ops on one element, as code that LLVM vectorizes; what has no
                                instruction is a formula (weft/formulas)
    arrays, refs, control, gather, sorting
                                rules of the other ops
    dot, microkernel, int8_dot  products, their register tile, words of several short numbers
    transpose_tiles             copies that turn rows into columns
    llvm, types, frame          IR as text; XLA's call frame; weft/native/engine.py compiles it

Kernels arrive legalized (weft/pallas/legalize.py): an op has a rule here, or a formula of one
element, or was made of others. To add an elementwise op, add a row to the table in `scalar`: a
function of registers to one. Any other op gets a rule, `@rule(name)` on a function (translator,
eqn, *operands) -> Array.
"""

from weft.pallas.cpu.lower import lower
from weft.pallas.ir import backends

backends["cpu"] = lower
