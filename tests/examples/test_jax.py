"""A program written for JAX runs on weft, unmodified."""

import os
import re
import subprocess
import sys


def test_a_network_learns_to_read_digits():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, "-m", "weft.as_jax", "-m", "examples.jax.mlp"]
    env = {**os.environ, "PYTHONPATH": root}
    said = subprocess.check_output(command, text=True, cwd=root, env=env, timeout=300)
    before, after, right = map(float, re.findall(r"[\d.]+(?= ->|,| of)", said))
    # Equal guesses among ten digits are log(10) = 2.3; learnt, nearly all pictures are read right.
    assert before > 2 and after < 0.2 and right > 180
