"""The scripts here run JAX, by hand: pytest must not import them."""

collect_ignore_glob = ["*.py"]
