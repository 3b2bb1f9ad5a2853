"""`python -m peffects`: see `cli.py`."""

import sys

from peffects.cli import main

if __name__ == "__main__":
    sys.exit(main())
