"""Operations that weft computes itself on the CPU, where XLA's code for them is slow.

A lowering rule marks what it emits (`ctx.mark`) with the name of a rule in `rewrite`. Behind
partitioning, so on the shapes of one device, marked operations are replaced by faster StableHLO or
by calls of native kernels; derivatives, batching and sharding have happened before.
`weft.config.native_ops` switches it off.

    rewrite                 the table of rules, and the walk over a program
    attention, batches, convolution, dense, elementwise, extrema, filters, formulas, fourier,
    lapack, loops, moves, pointwise, reductions, selections, small, softmax, sorting, uneven
                            the rules: what each replaces, where, and by what
    calls                   kernels → targets of XLA's custom calls
    language, types, expressions, vectors, writer, parallel
                            kernels as typed Python functions → LLVM IR; loops over threads
    engine, objects         LLVM IR → machine code, kept in memory and on disk; code → memory
    kernels/                the kernels, which Python never runs
"""
