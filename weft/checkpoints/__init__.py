"""Checkpoints of pytrees on TensorStore: every process writes its shards, a commit is atomic.

`save` and `restore` handle one checkpoint; `Manager` keeps the steps of a training run, writes them
while the program goes on, and deletes old ones. They need an extra:
`pip install 'weft[checkpoints]'`.
"""

from weft.checkpoints.layout import CheckpointError
from weft.checkpoints.manager import Manager
from weft.checkpoints.reading import restore
from weft.checkpoints.writing import save
from weft.core.namespace import seal

__all__ = ["CheckpointError", "Manager", "restore", "save"]
seal(globals())
