"""Eight virtual CPU devices for every test and doctest, set before weft is first imported."""

import os

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")

# Loaded here: pytest would put the module `all_to_all` where its function stands in the package.
import weft.collectives  # noqa: E402, F401

# Functions that these list are doctested where they are defined.
collect_ignore_glob = ["weft/__init__.py", "weft/*/__init__.py"]
