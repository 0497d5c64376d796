"""Programs written for JAX find the public names of all of its modules, or there is a reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.compat.names_left_out import NAMES

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "oracle" / "modules.json"

LOOK_UP = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
missing = {}
for module, names in json.load(open(sys.argv[1]))["modules"].items():
    try:
        found = importlib.import_module(module)
    except ImportError:
        missing[module] = ["(module)"]
        continue
    lacking = [n for n in names if not hasattr(found, n)]
    if lacking:
        missing[module] = lacking
print(json.dumps(missing))
"""


def test_every_name_is_found_or_has_a_reason():
    command = [sys.executable, "-m", "weft.as_jax", "-c", LOOK_UP, str(RECORDED)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    reasons = {}
    for modules in NAMES.values():
        for module, names in modules.items():
            reasons.setdefault(f"jax.{module}".rstrip("."), set()).update(names.split())
    missing = json.loads(done.stdout.splitlines()[-1])
    unknown = {m: set(names) - reasons.get(m, set()) for m, names in missing.items()}
    assert not {m: names for m, names in unknown.items() if names}


def test_the_names_recorded_are_those_of_jax():
    check = [sys.executable, str(RECORDED.with_suffix(".py")), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
