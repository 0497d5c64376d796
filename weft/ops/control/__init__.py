"""Control flow: conditionals, loops, scans and what is built from them."""
