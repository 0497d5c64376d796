"""Kernels compiled by tests are kept apart from the user's."""

import os
import tempfile

os.environ.setdefault(
    "WEFT_KERNEL_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"weft-kernels-{os.getuid()}")
)
