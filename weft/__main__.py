# Tests: tests/test_cli.py
"""`python -m weft`: the command `weft`, and without words the list of what it can do."""

import sys

from weft.cli import main

if __name__ == "__main__":
    sys.exit(main())
