"""`python -m routebench`."""

import sys

from routebench.cli import main

if __name__ == "__main__":
    sys.exit(main())
