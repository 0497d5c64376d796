"""Matrix decompositions and solvers, on the last two dimensions, batched over the others."""
