"""`python -m tuner` is `tuner`."""

import sys

from tuner.entry import main

if __name__ == "__main__":
    sys.exit(main())
