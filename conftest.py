"""Eight virtual CPU devices for every test and doctest, set before weft is first imported."""

import os

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
