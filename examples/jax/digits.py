"""Pictures of ten digits to learn from: 8 x 8 patterns with noise."""

import numpy as np

SHAPES = """
.###. ..#.. .###. ####. #..#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# #..#. #.... #.... ....# #...# #...#
#...# ..#.. ...#. .###. ##### ####. ####. ...#. .###. .####
#...# ..#.. ..#.. ....# ...#. ....# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. ####. .###. ..#.. .###. .###.
"""


def digits(count, seed=0):
    """Pictures, an array of floats (count, 64), and the digits that they show, (count,)."""
    rows = [line.split() for line in SHAPES.split("\n") if line]
    patterns = np.zeros((10, 8, 8), np.float32)
    for i, line in enumerate(rows):
        for digit, cells in enumerate(line):
            patterns[digit, 1 + i, 1:6] = [c == "#" for c in cells]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    noise = rng.normal(0, 0.4, (count, 8, 8)).astype(np.float32)
    return (patterns[labels] + noise).reshape(count, 64), labels.astype(np.int32)
