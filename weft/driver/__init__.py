"""From a signature to a running program: jit, its key, its executable."""
