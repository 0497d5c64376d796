# Tests: tests/api/test_remat.py
"""weft.ad_checkpoint: names of values for checkpoint's policies, and what is kept."""

from weft.api.checkpoint_policies import Offload
from weft.api.remat import checkpoint as checkpoint
from weft.api.remat import checkpoint_name as checkpoint_name
from weft.api.remat import checkpoint_policies as checkpoint_policies
from weft.api.remat import print_saved_residuals as print_saved_residuals
from weft.api.remat import remat as remat
from weft.api.remat import saved_residuals as saved_residuals
from weft.core.namespace import seal

Offloadable = Offload
Saveable = True
"""The answer of a policy that keeps a value; an `Offloadable` keeps it in another memory."""
Recompute = False
"""The answer of a policy that recomputes a value."""

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
seal(globals())
