"""What every test and doctest finds, set before weft is first imported: eight virtual CPU devices,
and folders for what is compiled that are not the user's."""

import os
import tempfile

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
compiled = os.path.join(tempfile.gettempdir(), f"weft-tests-{os.getuid()}")
os.environ.setdefault("WEFT_KERNEL_CACHE_DIR", os.path.join(compiled, "kernels"))
os.environ.setdefault("WEFT_BUILD_CACHE_DIR", os.path.join(compiled, "ffi"))

# Loaded here: pytest would put the module `all_to_all` where its function stands in the package.
import weft.collectives  # noqa: E402, F401

# Functions that these list are doctested where they are defined.
collect_ignore_glob = ["weft/__init__.py", "weft/*/__init__.py"]
