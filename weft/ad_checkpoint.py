"""weft.ad_checkpoint: names of values for checkpoint's policies, and what is kept."""

from weft.transforms.remat import checkpoint as checkpoint
from weft.transforms.remat import checkpoint_name as checkpoint_name
from weft.transforms.remat import checkpoint_policies as checkpoint_policies
from weft.transforms.remat import print_saved_residuals as print_saved_residuals
from weft.transforms.remat import remat as remat
from weft.transforms.remat import saved_residuals as saved_residuals
