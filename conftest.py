"""Eight virtual CPU devices for every test and doctest, set before weft is first imported."""

import os

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")

# Functions that these list are doctested where they are defined.
collect_ignore_glob = ["weft/__init__.py", "weft/*/__init__.py"]
